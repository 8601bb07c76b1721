//! What a seed draws: a fleet, and what happens to it.

use super::{Case, Line};

/// Numbers that look unrelated, always the same for a seed (splitmix64).
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the documents say now, as far as an edit has to know.
#[derive(Debug)]
struct Now {
    train: u64,
    serve: u64,
    version: u64,
    halves: bool,
    tide: bool,
    frozen: bool,
    services: u64,
}

/// More nodes than a pool of this fleet ever has.
const RESERVED: u64 = 5;

/// The script of a seed.
pub fn draw(seed: u64) -> Case {
    let mut dice = Dice(seed ^ 0x7469_6465);
    let mut now = Now {
        train: dice.between(1, 3),
        serve: dice.between(1, 3),
        version: 1,
        halves: dice.chance(50),
        tide: dice.chance(40),
        frozen: false,
        services: 0,
    };
    let must = |text: String| Line { text, optional: false };
    let may = |text: String| Line { text, optional: true };
    let mut lines = vec![must(format!("start 2026-03-02T{:02}:00Z seed {seed}", dice.below(24)))];
    lines.push(must(format!("fleet\n{}", fleet(&mut dice, &now))));
    if dice.chance(60) {
        lines.push(may("settle".into()));
    }
    let deadly = if dice.chance(30) { " deadly" } else { "" };
    lines.push(may(format!("weather {seed}{deadly}")));
    for _ in 0..dice.between(6, 14) {
        lines.extend(event(&mut dice, &mut now).into_iter().map(may));
    }
    lines.extend(["show faults", "calm", "thaw"].map(|text| must(text.into())));
    lines.extend(["settle", "expect no orphans", "expect no violations"].map(|text| must(text.into())));
    Case { seed, lines }
}

fn fleet(dice: &mut Dice, now: &Now) -> String {
    let (train, serve) = (now.train, now.serve);
    let (when, at_once) = (dice.one(&["drain", "drain", "idle"]), dice.between(1, 2));
    let removed = dice.between(2, 4);
    let spare = if dice.chance(40) { ", {onDemand: {max: 2}}" } else { "" };
    let layout = if now.halves { "halves" } else { "whole" };
    let mut text = format!(
        "kind: Fleet
metadata: {{name: drawn}}
spec:
  timeZone: UTC
  cloud: {{sim: {{}}}}
  kubernetes: {{sim: {{}}}}
  limits: {{hourlyUsd: 10000, nodesRemovedPerHour: {removed}, desiredShrinkPercent: 100}}
---
kind: Reservation
metadata: {{name: base}}
spec:
  id: cr-0000000000000000a
  manage: observe
  instanceType: p5.48xlarge
  zone: us-west-2a
  nodes: {RESERVED}
  onDemand: {{end: never, match: targeted}}
---
kind: Reservation
metadata: {{name: serving}}
spec:
  id: cr-0000000000000000b
  manage: observe
  instanceType: p5.48xlarge
  zone: us-west-2b
  nodes: {RESERVED}
  onDemand: {{end: never, match: targeted}}
---
kind: NodePool
metadata: {{name: train}}
spec:
  instanceType: p5.48xlarge
  nodes: {train} # train
  capacity: [{{reservation: base}}{spare}]
  launch:
    image: {{ssmParameter: {{name: /images/gpu, version: 1}}}}
    bootstrap: {{nodeadm: {{}}}}
    subnets: {{tags: {{team: ml}}, zones: [us-west-2a]}}
    securityGroups: {{tags: {{team: ml}}}}
    role: node
  updates: {{when: {when}, maxUnavailable: {at_once}}}
---
kind: NodePool
metadata: {{name: serve}}
spec:
  instanceType: p5.48xlarge
  nodes: {serve} # serve
  capacity: [{{reservation: serving}}]
  layout: {layout}
  updates: {{when: drain, maxUnavailable: 1}}
---
kind: GpuLayout
metadata: {{name: halves}}
spec: {{mig: [{{slices: {{3g.40gb: 2}}}}]}}
---
kind: PreemptionTier
metadata: {{name: research}}
spec: {{rank: 200, checkpoint: {{deadline: 5m}}}}
---
kind: Quota
metadata: {{name: vision}}
spec:
  namespaces: [{{name: vision}}]
  tiers: [research]
  shares: [{{pool: train, guarantee: {{gpus: 8}}}}]
"
    );
    if dice.chance(50) {
        text.push_str(
            "---
kind: HealthPolicy
metadata: {name: default}
spec:
  rules: [{when: {xid: [79]}, then: [reboot, replace]}]
  limit: 50%
",
        );
    }
    if now.tide {
        text.push_str(TIDE);
    }
    text.lines().map(|line| format!("  {line}\n")).collect::<String>().trim_end().to_string()
}

/// Serving nodes go to batch in the evening. The amount is what one node holds, however it is cut.
const TIDE: &str = "---
kind: PreemptionTier
metadata: {name: batch}
spec: {rank: 100, checkpoint: {deadline: 5m}}
---
kind: Quota
metadata: {name: serving}
spec:
  namespaces: [{name: serving}]
  tiers: [research]
  shares: [{pool: serve, guarantee: {nodes: 1}}]
---
kind: Quota
metadata: {name: batch}
spec:
  namespaces: [{name: batch}]
  tiers: [batch]
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Sun], from: \"20:00\", to: \"06:30\"}]
  lend: [{pool: serve, nodes: 1, from: serving, to: batch, layout: whole}]
  reclaim: {lead: 45m, hardAt: 10m}
";

/// One thing that happens, in one or more lines.
fn event(dice: &mut Dice, now: &mut Now) -> Vec<String> {
    let slot = format!("{}/{}", dice.one(&["train", "serve"]), dice.below(3));
    let one = |text: String| vec![text];
    match dice.below(24) {
        0..=2 => {
            let to = dice.between(1, RESERVED);
            let from = std::mem::replace(&mut now.train, to);
            one(format!("edit \"nodes: {from} # train\" -> \"nodes: {to} # train\""))
        }
        3 => {
            let to = dice.between(1, RESERVED);
            let from = std::mem::replace(&mut now.serve, to);
            one(format!("edit \"nodes: {from} # serve\" -> \"nodes: {to} # serve\""))
        }
        4 | 5 => {
            now.version += 1;
            one(format!("edit \"version: {}\" -> \"version: {}\"", now.version - 1, now.version))
        }
        6 if !now.tide => {
            let word = |halves: bool| if halves { "halves" } else { "whole" };
            let from = now.halves;
            now.halves = !from;
            one(format!("edit \"layout: {}\\n  updates\" -> \"layout: {}\\n  updates\"", word(from), word(now.halves)))
        }
        6 => one("recall nightly".into()),
        7 => one(format!("maybe kill {slot}")),
        8 => one(format!("maybe xid {slot} 79 heals")),
        9 => one(format!("maybe mig {} {slot}", dice.one(&["fail", "hang"]))),
        10 | 11 => one(format!("submit gang vision 8{}", dice.one(&["", " saves never", " saves 3m"]))),
        12 => {
            now.services += 1;
            one(format!("submit service web/api-{} 2 x nvidia.com/gpu pool train pdb max 1", now.services))
        }
        13 => one(format!("maybe finish gang-{}", dice.between(1, 3))),
        14 if now.tide => one("submit gang batch 8".into()),
        14 | 15 => one(format!("advance {}", dice.one(&["1m", "7m", "40m", "3h", "9h"]))),
        16 => one(format!("two operators\nrounds {}", dice.between(1, 2))),
        17 => {
            now.frozen = !now.frozen;
            one(if now.frozen { "freeze drawn".into() } else { "thaw".into() })
        }
        18 => one(format!(
            "fail next launch {} {} times",
            dice.one(&["no-capacity", "ambiguous", "throttled"]),
            dice.between(1, 3)
        )),
        19 => {
            let position = dice.one(&["before", "after", "at-answer"]);
            one(format!("crash {position} effect {}\nrounds 1", dice.between(1, 9)))
        }
        20 => one(format!(
            "hide {} {} reads\nrounds 1",
            dice.one(&["instances", "nodes", "pods", "workloads"]),
            dice.between(1, 4)
        )),
        21 => one(format!("stillborn 1 launch\nrounds {}", dice.between(1, 3))),
        _ => vec!["maybe approve".into(), format!("rounds {}", dice.between(1, 5))],
    }
}
