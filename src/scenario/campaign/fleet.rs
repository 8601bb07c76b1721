//! The documents that a seed begins with.
//!
//! Two pools are always there, one of which trains and one of which serves; the others come and go with the seed. What
//! an edit replaces carries a comment that names it, so that it is found.

use super::dice::Dice;

/// What the documents say now, as far as an edit has to know.
#[derive(Debug)]
pub struct Shape {
    pub train: u64,
    pub serve: u64,
    pub version: u64,
    pub quota: u64,
    pub halves: bool,
    pub tide: bool,
    /// How many nodes the tide lends, and to whom.
    pub lent: u64,
    pub borrower: &'static str,
    /// What the training pool is called, and what stands behind that in its document.
    pub trains: &'static str,
    pub named: String,
    /// The training pool's update windows, as they are written.
    pub windows: &'static str,
    /// The tide asks how much traffic there is.
    pub guard: bool,
    /// A pool of spot nodes, and how many.
    pub spot: Option<u64>,
    /// A pool of nodes that somebody else runs, and how many.
    pub own: Option<u64>,
    pub block: Option<Block>,
    /// There is no cloud: somebody else runs every node.
    pub bare: bool,
}

/// A pool on a Capacity Block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block {
    /// It runs already, and ends on the first day.
    Running,
    /// It begins on the first day.
    Coming,
    /// It has to be bought first.
    Wanted,
}

/// The most nodes that a pool of this fleet ever has, and what is reserved for it.
pub const RESERVED: u64 = 5;
/// What the training pool may be called.
pub const NAMES: [&str; 2] = ["train", "drill"];
/// Who may borrow from the tide.
pub const BORROWERS: [&str; 2] = ["batch", "render"];
/// Update windows that an edit may write: none, hours of the night, and hours of the day.
pub const WINDOWS: [&str; 3] = [
    "",
    ", windows: [{days: [Mon-Sun], from: \"01:00\", to: \"05:00\"}]",
    ", windows: [{days: [Mon-Sun], from: \"09:00\", to: \"17:00\"}]",
];
/// Nodes of our own hardware that are there.
pub const RACKS: u64 = 3;

impl Shape {
    pub fn draw(dice: &mut Dice) -> Self {
        let tide = dice.chance(40);
        let mut drawn = Self {
            train: dice.between(1, 3),
            serve: dice.between(1, 3),
            version: 1,
            quota: 8,
            halves: dice.chance(50),
            tide,
            lent: 1,
            borrower: BORROWERS[0],
            trains: NAMES[0],
            named: String::new(),
            windows: if dice.chance(15) { WINDOWS[1] } else { WINDOWS[0] },
            guard: tide && dice.chance(40),
            spot: dice.chance(25).then(|| dice.between(1, 2)),
            own: dice.chance(25).then(|| dice.between(1, RACKS)),
            block: dice.chance(20).then(|| match dice.below(3) {
                0 => Block::Running,
                1 => Block::Coming,
                _ => Block::Wanted,
            }),
            bare: dice.chance(10),
        };
        drawn.lent = dice.between(1, drawn.serve.min(2));
        if drawn.bare {
            (drawn.spot, drawn.block) = (None, None);
        }
        drawn
    }

    /// Nodes that are there before the fleet is: how many, and what the label `rack` says.
    pub fn racks(&self) -> Vec<(u64, &'static str)> {
        let mut racks = if self.bare { vec![(RESERVED, "train"), (RESERVED, "serve")] } else { Vec::new() };
        racks.extend(self.own.map(|_| (RACKS, "ours")));
        racks
    }

    /// Pools that have nodes with numbers from 0.
    pub fn pools(&self) -> Vec<&'static str> {
        let mut pools = vec![self.trains, "serve"];
        pools.extend(self.spot.map(|_| "sweep"));
        pools.extend(self.own.map(|_| "own"));
        pools.extend(self.block.map(|_| "pretrain"));
        pools
    }
}

/// The documents, indented as a block of a script.
pub fn fleet(dice: &mut Dice, shape: &Shape) -> String {
    let mut text = head(dice, shape);
    if dice.chance(50) {
        text.push_str(HEALTH);
    }
    if shape.tide {
        text.push_str(&TIDE.replace("{lent}", &shape.lent.to_string()));
        if shape.guard {
            text.push_str("  guard: {prometheus: \"sum(rate(requests))\", below: 0.6, staleAfter: 10m}\n");
        }
    }
    if let Some(nodes) = shape.spot {
        text.push_str(&spot(nodes));
    }
    if let Some(nodes) = shape.own {
        text.push_str(&own(nodes));
    }
    if let Some(block) = shape.block {
        text.push_str(&pretrain(block));
    }
    text.lines().map(|line| format!("  {line}\n")).collect::<String>().trim_end().to_string()
}

fn head(dice: &mut Dice, shape: &Shape) -> String {
    let Shape { train, serve, quota, windows, .. } = shape;
    let (when, at_once) = (dice.one(&["drain", "drain", "idle"]), dice.between(1, 2));
    let (removed, shrink) = (dice.between(2, 4), dice.one(&["100", "100", "34"]));
    let spare = if dice.chance(40) { ", {onDemand: {max: 2}}" } else { "" };
    let layout = if shape.halves { "halves" } else { "whole" };
    let hardware = "[{name: dgx-h100, gpu: h100-sxm, gpus: 8, nvlinkDomain: 8, usdPerHour: 31.00}]";
    let (cloud, usd) = if shape.bare { ("none", "") } else { ("sim", "hourlyUsd: 10000, ") };
    let (trains, serves) = if shape.bare {
        (existing("train"), existing("serve"))
    } else {
        (format!("{}{LAUNCH}", reserved("base", spare)), reserved("serving", ""))
    };
    let reservations = if shape.bare { "" } else { RESERVATIONS };
    format!(
        "kind: Fleet
metadata: {{name: drawn}}
spec:
  timeZone: UTC
  cloud: {{{cloud}: {{}}}}
  kubernetes: {{sim: {{}}}}
  limits: {{{usd}nodesRemovedPerHour: {removed}, desiredShrinkPercent: {shrink}}}
  hardware: {hardware}
---
{reservations}kind: NodePool
metadata: {{name: train}}
spec:
  nodes: {train} # train
{trains}  updates: {{when: {when}, maxUnavailable: {at_once}{windows}}} # updates
---
kind: NodePool
metadata: {{name: serve}}
spec:
  nodes: {serve} # serve
{serves}  layout: {layout}
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
  shares: [{{pool: train, guarantee: {{gpus: {quota}}}}}] # vision
"
    )
}

fn reserved(reservation: &str, spare: &str) -> String {
    format!("  instanceType: p5.48xlarge\n  capacity: [{{reservation: {reservation}}}{spare}]\n")
}

fn existing(rack: &str) -> String {
    format!("  instanceType: dgx-h100\n  capacity: [{{existing: {{labels: {{rack: {rack}}}}}}}]\n")
}

const RESERVATIONS: &str = "kind: Reservation
metadata: {name: base}
spec:
  id: cr-0000000000000000a
  manage: observe
  instanceType: p5.48xlarge
  zone: us-west-2a
  nodes: 5
  onDemand: {end: never, match: targeted}
---
kind: Reservation
metadata: {name: serving}
spec:
  id: cr-0000000000000000b
  manage: observe
  instanceType: p5.48xlarge
  zone: us-west-2b
  nodes: 5
  onDemand: {end: never, match: targeted}
---
";

const LAUNCH: &str = "  launch:
    image: {ssmParameter: {name: /images/gpu, version: 1}}
    bootstrap: {nodeadm: {}}
    subnets: {tags: {team: ml}, zones: [us-west-2a]}
    securityGroups: {tags: {team: ml}}
    role: node
";

const HEALTH: &str = "---
kind: HealthPolicy
metadata: {name: default}
spec:
  rules: [{when: {xid: [79]}, then: [reboot, replace]}, {when: {xid: [95]}, then: [quarantine]}]
  limit: 50%
";

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
kind: Quota
metadata: {name: render}
spec:
  namespaces: [{name: render}]
  tiers: [batch]
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Sun], from: \"20:00\", to: \"06:30\"}]
  lend: [{pool: serve, nodes: {lent}, from: serving, to: batch, layout: whole}]
  reclaim: {lead: 45m, hardAt: 10m}
";

fn spot(nodes: u64) -> String {
    format!(
        "---
kind: NodePool
metadata: {{name: sweep}}
spec:
  instanceType: g6.48xlarge
  nodes: {nodes} # sweep
  capacity: [{{spot: {{max: 4, maxPricePercent: 100}}}}]
---
kind: PreemptionTier
metadata: {{name: sweeps}}
spec: {{rank: 50, checkpoint: {{deadline: 90s, signal: termination}}}}
---
kind: Quota
metadata: {{name: tuning}}
spec:
  namespaces: [{{name: tuning}}]
  tiers: [sweeps]
  shares: [{{pool: sweep, guarantee: {{gpus: 8}}}}]
"
    )
}

fn own(nodes: u64) -> String {
    format!(
        "---
kind: NodePool
metadata: {{name: own}}
spec:
  instanceType: dgx-h100
  nodes: {nodes} # own
  capacity: [{{existing: {{labels: {{rack: ours}}}}}}]
"
    )
}

fn pretrain(block: Block) -> String {
    let terms = match block {
        Block::Running => "window: {from: 2026-03-01T11:30Z, to: 2026-03-02T11:30Z}",
        Block::Coming => "window: {from: 2026-03-02T11:30Z, to: 2026-03-03T11:30Z}",
        Block::Wanted => {
            "startBetween: {from: 2026-03-03, to: 2026-03-05}, \
             approval: {mandate: {upToUsd: 20000, expires: 2026-03-03T00:00Z}}"
        }
    };
    let id = if block == Block::Wanted { "" } else { "  id: cr-0000000000000000c\n" };
    format!(
        "---
kind: Reservation
metadata: {{name: burst}}
spec:
{id}  instanceType: p5.48xlarge
  nodes: 2
  capacityBlock: {{duration: 1d, maxUpfrontUsd: 20000, {terms}}}
---
kind: NodePool
metadata: {{name: pretrain}}
spec:
  instanceType: p5.48xlarge
  fill: reservations
  capacity: [{{reservation: burst}}]
---
kind: Quota
metadata: {{name: foundation}}
spec:
  namespaces: [{{name: foundation}}]
  cohort: pretrain
  tiers: [research]
  shares: [{{pool: pretrain, guarantee: {{gpus: 0}}, borrow: {{gpus: 16}}}}]
"
    )
}
