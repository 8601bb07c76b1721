//! How pools stand on the fabric, in words: where and why there, what the next best place would have cost, the free
//! slots before and after, what moves buy.

use super::words::{count, list};
use crate::fabric::SLOTS;
use crate::ids::PoolName;
use crate::plan::placing::Choice;
use crate::plan::stands::{Bargain, Fragmented, LevelSlots, PoolStands, Stands, Where};
use crate::render::fabric::{elsewhere, oddity};
use crate::render::table::{columns, trimmed};

/// Domains that are named before the rest is counted.
const PARTS: usize = 8;

/// "On the fabric (spine and leaf)"
pub fn heading(stands: &Stands) -> String {
    let levels: Vec<String> = stands.levels.iter().map(ToString::to_string).collect();
    format!("On the fabric ({})", list(&levels, 16))
}

/// The lines of all pools, with their names; `most` pools.
pub fn pools(stands: &Stands, most: usize) -> Vec<String> {
    let width = stands.pools.iter().take(most).map(|pool| pool.pool.as_str().len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for pool in stands.pools.iter().take(most) {
        for (at, line) in pool_lines(stands, pool).iter().enumerate() {
            let name = if at == 0 { pool.pool.as_str() } else { "" };
            lines.push(format!("{name:<width$}  {line}"));
        }
    }
    if stands.pools.len() > most {
        lines.push(format!("and {} more pools (--verbose shows all)", stands.pools.len() - most));
    }
    lines
}

/// What is said of one pool, the first line where it is.
pub fn pool_lines(stands: &Stands, pool: &PoolStands) -> Vec<String> {
    let after = &pool.after;
    let mut lines = vec![match (after.nodes, pool.wanted) {
        (0, 0) => "asks for no nodes".into(),
        (0, wanted) => format!("none of {} has a place yet", count(wanted, "node")),
        (nodes, wanted) if nodes < wanted => {
            format!("{nodes} of {}, {}", count(wanted, "node"), whereabouts(stands, after))
        }
        (nodes, _) => format!("{}, {}", count(nodes, "node"), whereabouts(stands, after)),
    }];
    let mut say = |line: String| lines.push(format!("  {line}"));
    if pool.before.leaves != after.leaves && pool.before.nodes > 0 {
        say(format!("was: {}; crossings cost {}", list(&pool.before.parts(), PARTS), pool.before.crossings));
    }
    if pool.wanted > 0 {
        say(format!("chosen: {}", chosen(pool)));
    }
    match &pool.next {
        Some(next) => {
            let words = elsewhere(&next.leaves, after.nodes, next.unplaced, next.more, next.moves);
            say(format!("next best{words}"));
        }
        None if !pool.fixed && after.nodes > 0 => say("next best: none, no other host that it may have is free".into()),
        None => {}
    }
    if let (Some(level), true) = (&pool.together, is_apart(stands, pool)) {
        say(format!("should share one {level}, and does not"));
    }
    if let Some(slower) = pool.slower {
        let (whole, rest) = (slower / 100, slower % 100 / 10);
        say(format!(
            "far apart: an all-reduce over all of it takes about {whole}.{rest} times as long as in the best place"
        ));
    }
    if !pool.beside.is_empty() {
        let others: Vec<String> = pool.beside.iter().map(|other| format!("pool/{other}")).collect();
        say(format!("beside {}, which it should be apart from: there is no other place", list(&others, PARTS)));
    }
    lines
}

/// Whether a pool is in several domains of the level that it should share.
fn is_apart(stands: &Stands, pool: &PoolStands) -> bool {
    let place = |level: &crate::ids::LevelName| stands.levels.iter().position(|one| one == level);
    let asked = pool.together.as_ref().and_then(place);
    let shared = pool.after.within.as_ref().and_then(|(level, _)| place(level));
    pool.after.nodes > 1 && asked.is_some_and(|asked| shared.is_none_or(|shared| shared < asked))
}

fn whereabouts(stands: &Stands, at: &Where) -> String {
    let finest = stands.levels.last().map_or("", |level| level.as_str());
    let leaves = if at.leaves.len() == 1 { format!("1 {finest}") } else { format!("{} × {finest}", at.leaves.len()) };
    match &at.within {
        Some((level, name)) if level.as_str() == finest => format!("all on one {finest}, {name}"),
        Some((level, name)) => {
            format!(
                "in one {level}, {name}, on {leaves}: {}; crossings cost {}",
                list(&at.parts(), PARTS),
                at.crossings
            )
        }
        None => format!("on {leaves}: {}; crossings cost {}", list(&at.parts(), PARTS), at.crossings),
    }
}

/// What there was to choose.
pub fn chosen(pool: &PoolStands) -> String {
    let missing = pool.wanted.saturating_sub(pool.after.nodes);
    match pool.choice {
        Choice::Nodes if pool.fixed => "which nodes belong to it; all are in use, so they stay".into(),
        Choice::Nodes => "which nodes belong to it".into(),
        Choice::Launches if missing > 0 => {
            format!("reservation, zone and placement group; the cloud puts the other {missing} where it likes")
        }
        Choice::Launches => "reservation, zone and placement group; the hosts are the cloud's choice".into(),
        Choice::Hosts if missing > 0 => format!("its hosts, which are pinned; {missing} have none yet"),
        Choice::Hosts => "its hosts, which are pinned".into(),
    }
}

/// The free slots of every level, and those of idle nodes inside pools where there are any; where they change, before
/// and after.
pub fn slots(stands: &Stands) -> String {
    let has = |level: &LevelSlots| level.largest != (0, 0);
    let free = table("FREE SLOTS", &stands.slots);
    if stands.idle.iter().any(has) { format!("{free}\n{}", table("IDLE IN POOLS", &stands.idle)) } else { free }
}

fn table(head: &str, levels: &[LevelSlots]) -> String {
    let mut table = columns([head, "128 GPUS", "64", "32", "16", "8", "LARGEST"], &[1, 2, 3, 4, 5, 6]);
    debug_assert_eq!(SLOTS, [128, 64, 32, 16, 8]);
    for level in levels {
        let mut row = vec![level.level.to_string()];
        row.extend(level.before.iter().zip(level.after).map(|(before, after)| change(*before, after)));
        row.push(change(level.largest.0.into(), level.largest.1.into()));
        table.add_row(row);
    }
    trimmed(&table)
}

fn change(before: u64, after: u64) -> String {
    if before == after { after.to_string() } else { format!("{before} -> {after}") }
}

/// FGD's measure before and after, in one sentence.
pub fn fragmented(found: &Fragmented) -> String {
    let percent = |lost: u64, free: u64| if free == 0 { 0.0 } else { lost as f64 / free as f64 * 100.0 };
    let (before, after) = (percent(found.lost.0, found.free.0), percent(found.lost.1, found.free.1));
    let change = match (before * 10.0).round() == (after * 10.0).round() {
        true => format!("{after:.1} %"),
        false => format!("{before:.1} -> {after:.1} %"),
    };
    format!(
        "{change} of the free GPUs on serving nodes are of no use to work of the shapes that run now (FGD, by GPUs alone)"
    )
}

/// Moves and what they buy, one line each bargain.
pub fn bargains(stands: &Stands, most: usize) -> Vec<String> {
    stands.bargains.iter().map(|one| format!("{}: {}", moves(one, most), buys(one))).collect()
}

fn moves(one: &Bargain, most: usize) -> String {
    let to = |to: &Option<PoolName>| to.as_ref().map_or("nobody".to_string(), ToString::to_string);
    let moves = one.moves.iter().map(|node| {
        let busy = if node.busy { ", with work on it" } else { "" };
        format!("{} {} -> {}{busy}", node.node, node.from, to(&node.to))
    });
    list(&moves.collect::<Vec<_>>(), most)
}

/// "saves 4 in crossings and opens 1 free slot of 64 GPUs"
pub fn buys(one: &Bargain) -> String {
    let mut words = Vec::new();
    if one.saves > 0 {
        words.push(format!("saves {} in crossings", one.saves));
    }
    for (size, won) in one.slots.iter().filter(|(_, won)| *won > 0) {
        let won = u32::try_from(*won).unwrap_or(u32::MAX);
        words.push(format!("opens {} of {size} GPUs", count(won, "free slot")));
    }
    if words.is_empty() { "gives nodes to who lacks them".into() } else { list(&words, usize::MAX) }
}

/// What nodes say of their place and does not fit.
pub fn odd(stands: &Stands, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = stands.odd.iter().take(most).map(oddity).collect();
    if stands.odd.len() > most {
        lines.push(format!("and {} more nodes (--verbose shows all)", stands.odd.len() - most));
    }
    lines
}
