//! What a seed draws: a fleet, and what happens to it.

use super::dice::Dice;
use super::fleet::{BORROWERS, NAMES, RACKS, RESERVED, Shape, WINDOWS, fleet};
use super::{Case, Line};

/// What was done so far, where that decides what can be done next.
#[derive(Default, Debug)]
struct Story {
    services: u64,
    frozen: bool,
}

/// The script of a seed.
pub fn draw(seed: u64) -> Case {
    let mut dice = Dice(seed ^ 0x7469_6465);
    let mut shape = Shape::draw(&mut dice);
    let must = |text: String| Line { text, optional: false };
    let may = |text: String| Line { text, optional: true };
    let mut lines = vec![must(format!("start 2026-03-02T{:02}:00Z seed {seed}", dice.below(24)))];
    for (nodes, rack) in shape.racks() {
        let node = |number| format!("existing node {rack}-{number} dgx-h100 gpus 8 labels rack={rack}");
        lines.extend((1..=nodes).map(node).map(must));
    }
    lines.push(must(format!("fleet\n{}", fleet(&mut dice, &shape))));
    if shape.guard && dice.chance(70) {
        lines.push(may("maybe traffic nightly 0.3".into()));
    }
    if dice.chance(60) {
        lines.push(may("settle".into()));
    }
    let deadly = if dice.chance(30) { " deadly" } else { "" };
    lines.push(may(format!("weather {seed}{deadly}")));
    let mut story = Story::default();
    for _ in 0..dice.between(6, 14) {
        lines.extend(event(&mut dice, &mut shape, &mut story).into_iter().map(may));
    }
    let end = ["show faults", "calm", "thaw", "maybe thaw pool/train", "maybe thaw pool/drill", "lost", "settle"];
    lines.extend(end.map(|text| must(text.into())));
    lines.extend(["expect no orphans", "expect no violations"].map(|text| must(text.into())));
    if dice.chance(25) {
        lines.push(must("expect as from nothing".into()));
    }
    Case { seed, lines }
}

/// One thing that happens, in one or more lines.
fn event(dice: &mut Dice, shape: &mut Shape, story: &mut Story) -> Vec<String> {
    match dice.below(12) {
        0..=2 => edit(dice, shape),
        3 => hardware(dice, shape),
        4 => work(dice, shape, story),
        5 => people(dice, shape, story),
        6 => fault(dice),
        10 | 11 => trouble(dice, shape, story),
        7 => vec![format!("advance {}", dice.one(&["1m", "7m", "40m", "3h", "9h"]))],
        _ => vec!["maybe approve".into(), format!("rounds {}", dice.between(1, 5))],
    }
}

/// Somebody merges another revision of the documents.
fn edit(dice: &mut Dice, shape: &mut Shape) -> Vec<String> {
    match dice.below(15) {
        12 => vec![rename(shape)],
        13 => vec![windows(dice, shape)],
        14 if shape.tide => loan(dice, shape),
        0..=2 => {
            let to = dice.between(1, RESERVED);
            size("train", std::mem::replace(&mut shape.train, to), to)
        }
        3 => {
            let to = dice.between(1, RESERVED);
            size("serve", std::mem::replace(&mut shape.serve, to), to)
        }
        4 | 5 => vec![image(shape)],
        6 if !shape.tide => vec![layout(shape)],
        6 | 7 => {
            // What nobody has cannot be guaranteed: such an edit is refused, and passed over.
            let to = if shape.quota == 8 { 16 } else { 8 };
            let from = std::mem::replace(&mut shape.quota, to);
            vec![format!("maybe edit \"gpus: {from}}}}}] # vision\" -> \"gpus: {to}}}}}] # vision\"")]
        }
        8 if shape.spot.is_some() => {
            let to = dice.between(1, 3);
            let from = shape.spot.replace(to).unwrap_or(to);
            size("sweep", from, to)
        }
        9 if shape.own.is_some() => {
            let to = dice.between(1, RACKS);
            let from = shape.own.replace(to).unwrap_or(to);
            size("own", from, to)
        }
        10 => vec![format!("maybe delete NodePool/{}", dice.one(&["sweep", "own", shape.trains]))],
        11 if shape.tide => vec!["recall nightly".into()],
        _ => vec![format!("maybe delete {}", dice.one(&["HealthPolicy/default", "TideSchedule/nightly"]))],
    }
}

fn size(pool: &str, from: u64, to: u64) -> Vec<String> {
    vec![format!("maybe edit \"nodes: {from} # {pool}\" -> \"nodes: {to} # {pool}\"")]
}

/// Every node of the training pool has to be replaced.
fn image(shape: &mut Shape) -> String {
    shape.version += 1;
    format!("maybe edit \"version: {}\" -> \"version: {}\"", shape.version - 1, shape.version)
}

/// The training pool is called something else, and is the same pool.
fn rename(shape: &mut Shape) -> String {
    let (from, named) = (shape.trains, std::mem::take(&mut shape.named));
    let to = if from == NAMES[0] { NAMES[1] } else { NAMES[0] };
    shape.trains = to;
    shape.named = format!(", renamedFrom: {from}");
    let pool = format!("\"{{name: {from}{named}}}\" -> \"{{name: {to}{}}}\"", shape.named);
    format!("maybe edit {pool} and \"pool: {from}, guarantee\" -> \"pool: {to}, guarantee\"")
}

/// When the training pool may move to a new version.
fn windows(dice: &mut Dice, shape: &mut Shape) -> String {
    let to = dice.one(&WINDOWS);
    let from = std::mem::replace(&mut shape.windows, to);
    let quoted = |text: &str| format!("\"{}}} # updates\"", text.replace('"', "\\\""));
    // Without a window the text is only what stands behind it.
    format!("maybe edit {} -> {}", quoted(from), quoted(to))
}

/// What the tide lends becomes more or less, or goes to somebody else, while it is lent and worked on.
fn loan(dice: &mut Dice, shape: &mut Shape) -> Vec<String> {
    let (lent, borrower) = (dice.between(1, 2), dice.one(&BORROWERS));
    let (was, whose) = (std::mem::replace(&mut shape.lent, lent), std::mem::replace(&mut shape.borrower, borrower));
    let text = |nodes: u64, to: &str| format!("\"nodes: {nodes}, from: serving, to: {to}\"");
    let edit = format!("maybe edit {} -> {}", text(was, whose), text(lent, borrower));
    let work = format!("maybe submit gang {whose} 8{}", dice.one(&["", " saves 3m", " saves never"]));
    let rounds = dice.between(1, 4);
    vec!["advance 9h\nrounds 4".into(), format!("{work}\nadvance 5m"), edit, format!("rounds {rounds}")]
}

/// The nodes that serve are cut otherwise.
fn layout(shape: &mut Shape) -> String {
    let word = |halves: bool| if halves { "halves" } else { "whole" };
    let (from, to) = (shape.halves, word(!shape.halves));
    shape.halves = !from;
    format!("maybe edit \"layout: {}\\n  updates\" -> \"layout: {to}\\n  updates\"", word(from))
}

/// What is harmless alone and has hurt others together.
fn trouble(dice: &mut Dice, shape: &mut Shape, story: &mut Story) -> Vec<String> {
    let goes_round = |rounds: u64| format!("maybe approve\nrounds {rounds}");
    match dice.below(6) {
        // Nobody knows whether a launch was heard.
        0 => {
            let lost = format!("lag 10m 3 launches\nlose next answer done {} times", dice.between(1, 6));
            let unheard = format!("fail next launch ambiguous {} times", dice.between(1, 2));
            let mut lines = vec![if dice.chance(60) { lost } else { unheard }];
            lines.extend(grow(shape));
            lines.push(goes_round(2));
            lines
        }
        // The next cut comes to nothing, and one is asked for: by the documents or by the tide.
        1 => {
            let fails = format!("maybe mig {} serve/{}", dice.one(&["fail", "fail", "hang"]), dice.below(2));
            let cut = if shape.tide { "advance 9h".into() } else { layout(shape) };
            vec![fails, cut, goes_round(4)]
        }
        // A service that nobody may evict stands in the way.
        2 => {
            story.services += 1;
            let name = format!("web/api-{}", story.services);
            let pool = shape.trains;
            let service = format!("maybe submit service {name} 2 x nvidia.com/gpu pool {pool} pdb max 1");
            vec![format!("{service}\nmaybe budget web/more for {name} min 1"), image(shape), goes_round(4)]
        }
        // Somebody works on what was lent when it has to come back.
        3 if shape.tide => {
            let saves = dice.one(&["", " saves 3m", " saves never"]);
            let submitted = format!("maybe submit gang {} 8{saves}", shape.borrower);
            let hours = ["advance 6h", "rounds 4", "advance 6h", "rounds 4", "advance 6h", "rounds 4"];
            [submitted].into_iter().chain(hours.map(String::from)).collect()
        }
        // One who planned sleeps, and carries it out when others have long done so, and more.
        3 | 4 => {
            let mut lines = grow(shape);
            let slot = format!("{}/{}", shape.trains, dice.below(4));
            let others = format!("{}\nadvance 10m\nmaybe kill {slot}", goes_round(2));
            lines.push(format!("maybe keep plan\n{others}\nadvance 10m\n{}\nmaybe apply kept", goes_round(4)));
            lines
        }
        // Documents disappear, and with them whoever needs them.
        _ => {
            let (quota, pool) = if dice.chance(50) { ("vision", shape.trains) } else { ("tuning", "sweep") };
            vec![format!("maybe delete Quota/{quota}\nmaybe delete NodePool/{pool}"), goes_round(2)]
        }
    }
}

/// One more node to train on.
fn grow(shape: &mut Shape) -> Vec<String> {
    let to = (shape.train + 1).min(RESERVED);
    size("train", std::mem::replace(&mut shape.train, to), to)
}

/// Machines and what runs on them break.
fn hardware(dice: &mut Dice, shape: &Shape) -> Vec<String> {
    let slot = format!("{}/{}", dice.one(&shape.pools()), dice.below(3));
    vec![match dice.below(9) {
        0 => format!("maybe kill {slot}"),
        1 => format!("maybe xid {slot} 79 heals"),
        2 => format!("maybe xid {slot} 79"),
        3 => format!("maybe xid {slot} 95"),
        4 => format!("maybe mig {} {slot}", dice.one(&["fail", "hang"])),
        5 => format!("maybe interrupt {slot}"),
        6 => format!("maybe maintenance {slot} in {}", dice.one(&["10m", "2h"])),
        7 => format!("maybe notready {slot}\nrounds 2\nmaybe ready {slot}"),
        _ => format!("maybe remove node {slot}"),
    }]
}

/// Users submit work, and it ends.
fn work(dice: &mut Dice, shape: &Shape, story: &mut Story) -> Vec<String> {
    vec![match dice.below(8) {
        0 | 1 => format!("maybe submit gang vision 8{}", dice.one(&["", " saves never", " saves 3m", " works 1h"])),
        2 => "maybe submit gang vision 16".into(),
        3 => {
            story.services += 1;
            let pool = shape.trains;
            format!("maybe submit service web/api-{} 2 x nvidia.com/gpu pool {pool} pdb max 1", story.services)
        }
        4 if story.services > 0 => {
            format!("maybe budget web/more for web/api-{} min 1", dice.between(1, story.services))
        }
        5 if shape.tide => format!("maybe submit gang {} 8", shape.borrower),
        6 if shape.spot.is_some() => "maybe submit gang tuning 8".into(),
        6 if shape.block.is_some() => "maybe submit gang foundation 8 saves 3m".into(),
        _ => format!("maybe finish gang-{}", dice.between(1, 3)),
    }]
}

/// People step in.
fn people(dice: &mut Dice, shape: &Shape, story: &mut Story) -> Vec<String> {
    let slot = format!("{}/{}", dice.one(&shape.pools()), dice.below(3));
    vec![match dice.below(7) {
        0 | 1 => {
            story.frozen = !story.frozen;
            if story.frozen { "freeze drawn".into() } else { "thaw".into() }
        }
        2 => format!("maybe freeze pool/{} drawn\nrounds {}", shape.trains, dice.between(1, 2)),
        3 => format!("maybe hands-off {slot}\nrounds {}\nmaybe hands-on {slot}", dice.between(1, 3)),
        4 => format!("maybe cordon {slot} by somebody\nrounds 1\nmaybe uncordon {slot} by somebody"),
        5 if shape.guard => format!("maybe traffic nightly {}", dice.one(&["0.3", "0.9", "silent"])),
        5 => format!("maybe quarantine {slot} drawn\nrounds 2\nmaybe return {slot}"),
        // In the middle of a round.
        _ => format!("crash at-answer effect {}\nrounds 1\nfreeze drawn\nrounds 1\nthaw", dice.between(1, 9)),
    }]
}

/// What goes wrong between us and the world, beside the weather.
fn fault(dice: &mut Dice) -> Vec<String> {
    vec![match dice.below(8) {
        0 => {
            let class = dice.one(&["no-capacity", "ambiguous", "throttled"]);
            format!("fail next launch {class} {} times", dice.between(1, 3))
        }
        1 => {
            let position = dice.one(&["before", "after", "at-answer"]);
            format!("crash {position} effect {}\nrounds 1", dice.between(1, 9))
        }
        2 => {
            let what = dice.one(&["instances", "nodes", "pods", "workloads", "reservations"]);
            format!("hide {what} {} reads\nrounds 1", dice.between(1, 4))
        }
        3 => format!("stillborn 1 launch\nrounds {}", dice.between(1, 3)),
        4 => format!("two operators seed {}\nrounds {}", dice.below(1000), dice.between(1, 2)),
        5 => {
            let apart = dice.one(&["3s", "90s", "10m"]);
            format!("two operators seed {} apart {apart}\nrounds 1", dice.below(1000))
        }
        6 => {
            let way = dice.one(&["ahead", "behind"]);
            format!("clock {} {way}\nrounds {}\nclock right", dice.one(&["2s", "90s", "15m"]), dice.between(1, 3))
        }
        _ => "capacity g6.48xlarge sim-1a spot 0\nrounds 1\ncapacity g6.48xlarge sim-1a spot unlimited".into(),
    }]
}
