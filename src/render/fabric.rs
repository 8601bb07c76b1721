//! A fleet on its fabric: where pools stand and why, how broken up the free GPUs are, where a gang would go; the map.
//!
//! Crossings are told as what they cost, one for one more domain of the finest level and twice as much for every level
//! above. Called by the command line.

mod gang;
mod json;
mod map;

pub use gang::gang;
pub use json::{gang_json, json, json_schema};
pub use map::{html, svg};

use std::fmt::Write;

use super::plan::count;
use super::plan::words::list;
use super::table::{columns, trimmed};
use crate::fabric::reasons::{NextBest, Reason, leaves};
use crate::fabric::slots::{FreeSlots, free_slots, slots_by_kind};
use crate::fabric::state::{State, with_hosts};
use crate::fabric::{Note, Oddity, Placement, SLOTS};
use crate::plan::placing::{Choice, Position, Site};

/// A placement with what it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub fleet: &'a str,
    pub site: &'a Site,
    pub placement: &'a Placement,
    pub reasons: &'a [Reason],
    /// Of the free GPUs, what work of the shapes that were seen cannot use: lost and free.
    pub fragmented: Option<(f64, f64)>,
    pub verbose: bool,
}

/// A node that another pool should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    pub host: usize,
    pub from: Option<u32>,
    pub to: Option<u32>,
}

impl Shown<'_> {
    /// Nodes of pools that should go elsewhere, in the order of the tree.
    pub fn moves(&self) -> Vec<Move> {
        let both = self.site.spots.iter().zip(&self.placement.hosts).enumerate();
        let moved = both
            .filter(|(_, (spot, to))| spot.standing == Position::Serving && spot.pool.is_some() && spot.pool != **to);
        moved.map(|(host, (spot, to))| Move { host, from: spot.pool, to: *to }).collect()
    }

    /// Nodes that pools lack and should take, in the order of the tree.
    pub fn additions(&self) -> Vec<Move> {
        let both = self.site.spots.iter().zip(&self.placement.hosts).enumerate();
        let added = both.filter(|(_, (spot, to))| spot.pool.is_none() && to.is_some());
        added.map(|(host, (_, to))| Move { host, from: None, to: *to }).collect()
    }

    /// To whom a host goes, if it goes to somebody else.
    pub fn goes(&self, host: usize) -> Option<Option<u32>> {
        let (spot, to) = (&self.site.spots[host], self.placement.hosts[host]);
        let is_open = matches!(spot.standing, Position::Serving | Position::Draining) || spot.pool.is_none();
        (is_open && spot.pool != to).then_some(to)
    }

    pub fn slots(&self) -> (Vec<FreeSlots>, Vec<FreeSlots>) {
        let site = self.site;
        let of = |pools: &[Option<u32>]| free_slots(&site.tree, &site.free_gpus(pools));
        (of(&site.now()), of(&self.placement.hosts))
    }

    /// Of nodes in service on which no GPU is in use, inside one pool each.
    pub fn idle(&self) -> (Vec<FreeSlots>, Vec<FreeSlots>) {
        let site = self.site;
        let of = |pools: &[Option<u32>]| slots_by_kind(&site.tree, &site.idle_gpus(pools), pools);
        (of(&site.now()), of(&self.placement.hosts))
    }

    fn pool(&self, pool: Option<u32>) -> &str {
        pool.map_or("nobody", |pool| self.site.pools[pool as usize].as_str())
    }
}

/// For a person.
pub fn human(shown: &Shown<'_>) -> String {
    let mut out = head(shown);
    let width = shown.site.pools.iter().map(|name| name.as_str().len()).max().unwrap_or(0);
    let problem = shown.site.problem();
    let before = with_hosts(&problem, &shown.site.now());
    for reason in shown.reasons {
        let name = &shown.site.pools[reason.pool as usize];
        let mut lines = why(shown.site, reason);
        if let Some(was) = was(shown.site, &before, reason) {
            lines.insert(1, was);
        }
        for (at, line) in lines.iter().enumerate() {
            let name = if at == 0 { name.as_str() } else { "" };
            writeln!(out, "{name:width$}  {line}").expect("a text takes everything");
        }
    }
    out += &changes(shown);
    out += &slots(shown);
    if let Some((lost, free)) = shown.fragmented {
        let percent = if free > 0.0 { lost / free * 100.0 } else { 0.0 };
        let words = "of the GPUs that are free on serving nodes are of no use to work of the shapes that run now";
        writeln!(out, "\n{percent:.1} % {words} (FGD, by GPUs alone)").expect("a text takes everything");
    }
    out += &notes(shown);
    out
}

fn head(shown: &Shown<'_>) -> String {
    let site = shown.site;
    let gpus: u32 = site.spots.iter().map(|spot| spot.gpus).sum();
    let nodes = count(u32::try_from(site.spots.len()).unwrap_or(u32::MAX), "node");
    if !site.is_known {
        return format!(
            "Fleet {}: {nodes} with {gpus} GPUs, and nothing is said about its fabric: add `fabric` with its levels to \
             the Fleet\n\n",
            shown.fleet
        );
    }
    let levels = site.tree.levels.iter().zip(&site.tree.domains);
    let levels: Vec<String> = levels.map(|(level, domains)| domains_of(level.as_str(), domains.len())).collect();
    format!("Fleet {}: {nodes} with {gpus} GPUs on {}\n\n", shown.fleet, list(&levels, 16))
}

/// "3 leaf domains", "1 spine".
fn domains_of(level: &str, many: usize) -> String {
    if many == 1 { format!("1 {level}") } else { format!("{many} × {level}") }
}

/// Where a pool is now, if it has nodes and should have others.
fn was(site: &Site, before: &State<'_>, reason: &Reason) -> Option<String> {
    let pool = reason.pool as usize;
    let now = leaves(before, &before.shares[pool]);
    if now.is_empty() || now == reason.leaves {
        return None;
    }
    let finest = site.tree.depth() - 1;
    let part = |(leaf, many): &(u32, u32)| format!("{} ×{many}", site.tree.called(finest, *leaf as usize));
    let parts: Vec<String> = now.iter().map(part).collect();
    let cost = before.cost(pool).saturating_sub(before.moves(pool) * before.problem.prices.moving);
    Some(format!("  was: {}; crossings cost {cost}", list(&parts, 8)))
}

/// Where a pool is, why there, and what the next best place would have cost.
pub fn why(site: &Site, reason: &Reason) -> Vec<String> {
    let ask = &site.asks[reason.pool as usize];
    let mut lines = Vec::new();
    if ask.nodes == 0 {
        return vec!["asks for no nodes".into()];
    }
    let nodes = if reason.placed == ask.nodes {
        count(ask.nodes, "node")
    } else {
        format!("{} of {}", reason.placed, count(ask.nodes, "node"))
    };
    if reason.placed == 0 {
        lines.push(format!("none of {}: no host that it may have is free", ask.nodes));
    } else {
        lines.push(format!("{nodes} {}", whereabouts(site, reason)));
    }
    match &reason.next {
        Some(next) => lines.push(format!("  next best{}", next_best(site, reason.placed, next))),
        None if reason.fixed => lines.push(match site.choices[reason.pool as usize] {
            Choice::Nodes => "  all of its nodes are in use, so they stay".into(),
            Choice::Launches | Choice::Hosts => "  its machines stay where the cloud put them".into(),
        }),
        None if reason.placed > 0 => lines.push("  next best: none, no other host that it may have is free".into()),
        None => {}
    }
    if reason.placed < ask.nodes {
        let missing = ask.nodes - reason.placed;
        lines.push(match (site.choices[reason.pool as usize], ask.required) {
            (_, true) => format!(
                "  {missing} more do not fit into one {}, which it requires",
                site.tree.levels[ask.together.unwrap_or(0)]
            ),
            (Choice::Hosts, _) => format!("  {missing} more find no host that is free"),
            (Choice::Launches, _) => format!("  {missing} more stand where the cloud puts them: it takes no host"),
            (Choice::Nodes, _) => format!("  {missing} more find no node that carries its labels"),
        });
    }
    lines
}

fn whereabouts(site: &Site, reason: &Reason) -> String {
    let tree = &site.tree;
    let finest = tree.depth() - 1;
    let parts: Vec<String> =
        reason.leaves.iter().map(|(leaf, many)| format!("{} ×{many}", tree.called(finest, *leaf as usize))).collect();
    match reason.within {
        Some((level, domain)) if level == finest => {
            format!("on one {}, {}", tree.levels[finest], tree.called(finest, domain as usize))
        }
        Some((level, domain)) => format!(
            "in one {}, {}, on {}: {}; crossings cost {}",
            tree.levels[level],
            tree.called(level, domain as usize),
            domains_of(tree.levels[finest].as_str(), reason.leaves.len()),
            list(&parts, 8),
            reason.cost
        ),
        None => format!(
            "on {}: {}; crossings cost {}",
            domains_of(tree.levels[finest].as_str(), reason.leaves.len()),
            list(&parts, 8),
            reason.cost
        ),
    }
}

fn next_best(site: &Site, placed: u32, next: &NextBest) -> String {
    let finest = site.tree.depth() - 1;
    let name = |(leaf, many): &(u32, u32)| (site.tree.called(finest, *leaf as usize), *many);
    elsewhere(&next.leaves.iter().map(name).collect::<Vec<_>>(), placed, next.unplaced, next.more, next.moves)
}

/// ": leaf-b ×4: its crossings would cost 2 more", of all nodes of a pool or of those that would be elsewhere.
pub fn elsewhere(leaves: &[(String, u32)], placed: u32, unplaced: u32, more: i64, moves: u64) -> String {
    let nodes: u32 = leaves.iter().map(|(_, many)| many).sum();
    if unplaced > 0 {
        return format!(": none, elsewhere is room for only {nodes} of {}", nodes + unplaced);
    }
    let parts: Vec<String> = leaves.iter().map(|(leaf, many)| format!("{leaf} ×{many}")).collect();
    let some = if nodes < placed { format!(" for {nodes} of them") } else { String::new() };
    let mut words = match more {
        0 => "its crossings would cost the same".to_string(),
        more if more > 0 => format!("its crossings would cost {more} more"),
        less => format!("its crossings would cost {} less, and others' more", -less),
    };
    if moves > 0 {
        write!(words, ", after {}", count(u32::try_from(moves).unwrap_or(u32::MAX), "move"))
            .expect("a text takes everything");
    }
    format!("{some}: {}: {words}", list(&parts, 4))
}

fn changes(shown: &Shown<'_>) -> String {
    let mut out = String::new();
    let most = if shown.verbose { usize::MAX } else { 12 };
    let (moves, additions) = (shown.moves(), shown.additions());
    if !moves.is_empty() {
        let (before, after) = (shown.placement.stay.cost, shown.placement.score.cost);
        let words = format!("costs {before} as it is and {after} with the moves in it");
        writeln!(out, "\nMoves that pay for themselves ({words}):").expect("a text takes everything");
    }
    for one in moves.iter().take(most) {
        let host = &shown.site.tree.hosts[one.host];
        writeln!(out, "  {host}  {} -> {}", shown.pool(one.from), shown.pool(one.to)).expect("a text takes everything");
    }
    if moves.len() > most {
        writeln!(out, "  and {} more: --verbose", moves.len() - most).expect("a text takes everything");
    }
    if !additions.is_empty() {
        out += "\nNodes for those who lack them:\n";
    }
    for one in additions.iter().take(most) {
        let host = &shown.site.tree.hosts[one.host];
        writeln!(out, "  {host}  -> {}", shown.pool(one.to)).expect("a text takes everything");
    }
    if additions.len() > most {
        writeln!(out, "  and {} more: --verbose", additions.len() - most).expect("a text takes everything");
    }
    out
}

/// Free slots by level, and those of idle nodes inside pools; where the placement changes them, before and after.
fn slots(shown: &Shown<'_>) -> String {
    let (idle, idle_after) = shown.idle();
    let (free, free_after) = shown.slots();
    let mut out = table("FREE SLOTS", &free, &free_after);
    if idle.iter().chain(&idle_after).any(|level| level.largest > 0) {
        out += &table("IDLE IN POOLS", &idle, &idle_after);
    }
    out
}

fn table(head: &str, before: &[FreeSlots], after: &[FreeSlots]) -> String {
    let mut table = columns([head, "128 GPUS", "64", "32", "16", "8", "LARGEST"], &[1, 2, 3, 4, 5, 6]);
    debug_assert_eq!(SLOTS, [128, 64, 32, 16, 8]);
    for (before, after) in before.iter().zip(after) {
        let change = |before: u64, after: u64| match before == after {
            true => after.to_string(),
            false => format!("{before} -> {after}"),
        };
        let mut row = vec![before.level.to_string()];
        row.extend(before.slots.iter().zip(&after.slots).map(|(before, after)| change(*before, *after)));
        row.push(change(before.largest.into(), after.largest.into()));
        table.add_row(row);
    }
    format!("\n{}\n", trimmed(&table))
}

fn notes(shown: &Shown<'_>) -> String {
    let most = if shown.verbose { usize::MAX } else { 8 };
    let notes = &shown.site.notes;
    let mut out = String::new();
    // Nobody can say where they hang while the fleet says nothing of its fabric.
    if !shown.site.is_known || notes.is_empty() {
        return out;
    }
    out += "\nWhat nodes say of their place and does not fit:\n";
    for note in notes.iter().take(most) {
        writeln!(out, "  {}", oddity(note)).expect("a text takes everything");
    }
    if notes.len() > most {
        writeln!(out, "  and {} more: --verbose", notes.len() - most).expect("a text takes everything");
    }
    out
}

/// One thing that is odd, with the node's name.
pub fn oddity(note: &Note) -> String {
    let Note { host, level, what } = note;
    match what {
        Oddity::Missing => format!("{host} does not say its {level}: it is taken as close to nobody there"),
        Oddity::Inferred { domain } => {
            format!("{host} does not say its {level}: it is taken as {domain}, where its neighbours are")
        }
        Oddity::Elsewhere { domain, above, most } => {
            format!("{host} has its {level} {domain} below {above}, and most have it below {most}: taken as two")
        }
        Oddity::Torn { domain, above, others } => {
            format!("{host} has its {level} {domain} below {above}, and as many have it below {others}: taken as two")
        }
    }
}
