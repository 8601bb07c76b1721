//! What changes, in words: one line a change.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::clock::near;
use crate::fleet::Change;
use crate::fleet::layout::WHOLE;
use crate::fleet::quota::{Amount, Supply};
use crate::fleet::target::{Part, PoolTarget, Purpose, QuotaTarget};
use crate::fleet::tide::Phase;
use crate::ids::{LayoutName, PoolName, QuotaName};
use crate::units::Duration;

/// The lines of one change. Instants are told as they are read on the day of the change.
pub fn change(change: &Change, at: Timestamp, zone: &TimeZone) -> Vec<String> {
    match change {
        Change::Tide { phase, .. } => vec![turn(phase, at, zone)],
        Change::Pool { before, after, .. } => pool(before, after, &|due| near(due, at, zone)),
        Change::Quota { before, after, .. } => quota(before, after),
    }
}

pub fn phase(phase: &Phase) -> &'static str {
    match phase {
        Phase::High => "high",
        Phase::Low { .. } => "low",
        Phase::Reclaiming { .. } => "reclaiming",
        Phase::HardReclaim { .. } => "hard reclaim",
    }
}

/// How long, in the words of the language.
pub fn span(from: Timestamp, to: Timestamp) -> Duration {
    Duration::secs(u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0))
}

fn turn(to: &Phase, at: Timestamp, zone: &TimeZone) -> String {
    match to {
        Phase::High => phase(to).into(),
        Phase::Low { reclaim_at } => format!("{} until {}", phase(to), near(*reclaim_at, at, zone)),
        Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => {
            format!("{}, back by {}", phase(to), near(*due, at, zone))
        }
    }
}

fn pool(before: &PoolTarget, after: &PoolTarget, near: &dyn Fn(Timestamp) -> String) -> Vec<String> {
    let mut moved: Vec<(String, u32)> = Vec::new();
    let mut edges: BTreeSet<u32> = before.parts.iter().chain(&after.parts).map(|part| part.first).collect();
    edges.extend([before.nodes, after.nodes]);
    let edges: Vec<u32> = edges.into_iter().collect();
    for pair in edges.windows(2) {
        let (Some(now), was) = (part_at(after, pair[0]), part_at(before, pair[0])) else { continue };
        let Some(words) = moves(was, now, near) else { continue };
        let nodes = pair[1] - pair[0];
        match moved.iter_mut().find(|(same, _)| *same == words) {
            Some((_, sum)) => *sum += nodes,
            None => moved.push((words, nodes)),
        }
    }
    let size = (before.nodes != after.nodes).then(|| format!("{} → {}", before.nodes, Amount::Nodes(after.nodes)));
    let moved = moved.into_iter().map(|(words, nodes)| format!("{} {words}", Amount::Nodes(nodes)));
    size.into_iter().chain(moved).collect()
}

fn part_at(pool: &PoolTarget, slot: u32) -> Option<&Part> {
    pool.parts.iter().find(|part| part.first <= slot && slot - part.first < part.nodes)
}

/// What happens to a slot; nothing for one that stays as it is, and for one that is new and the pool's own.
fn moves(was: Option<&Part>, now: &Part, near: &dyn Fn(Timestamp) -> String) -> Option<String> {
    if was.is_some_and(|was| was.purpose == now.purpose && was.layout == now.layout) {
        return None;
    }
    let words = match (was.map(|was| &was.purpose), &now.purpose) {
        (None, Purpose::Own | Purpose::Spare) => return None,
        (_, Purpose::Lent { from, to, .. }) => format!("lent by {from} to {to}"),
        (_, Purpose::Returning { to, due, .. }) => format!("asked back from {to} by {}", near(*due)),
        (Some(Purpose::Lent { from, .. } | Purpose::Returning { from, .. }), Purpose::Own) => {
            format!("back with {from}")
        }
        (_, Purpose::Own) => "own".into(),
        (_, Purpose::Spare) => "kept as spares".into(),
    };
    let cut = was.filter(|was| was.layout != now.layout).map_or(String::new(), |_| cut(&now.layout));
    Some(words + &cut)
}

fn cut(layout: &LayoutName) -> String {
    if layout.as_str() == WHOLE { ", cut whole".into() } else { format!(", cut as {layout}") }
}

fn quota(before: &QuotaTarget, after: &QuotaTarget) -> Vec<String> {
    let mut lines = Vec::new();
    for (pool, now) in &after.shares {
        let Some(was) = before.shares.get(pool) else { continue };
        if was.guarantee != now.guarantee {
            lines.push(format!("guarantee of {pool}: {}", difference(&was.guarantee, &now.guarantee)));
        }
        if let (true, Some(lend)) = (was.lend != now.lend, &now.lend) {
            lines.push(format!("lends at most {lend} of {pool}"));
        }
    }
    let (had, has) = (loans(before), loans(after));
    for key in had.keys().chain(has.keys()).collect::<BTreeSet<_>>() {
        let (pool, from) = key;
        match (had.get(key), has.get(key)) {
            (Some(had), Some(has)) if had == has => {}
            (Some(had), Some(has)) => lines.push(format!("{had} → {has} of {pool}, lent by {from}")),
            (None, Some(has)) => lines.push(format!("+{has} of {pool}, lent by {from}")),
            (Some(had), None) => lines.push(format!("-{had} of {pool}, lent by {from}")),
            (None, None) => {}
        }
    }
    lines
}

/// What a quota has from whom, over all tides.
fn loans(quota: &QuotaTarget) -> BTreeMap<(&PoolName, &QuotaName), Supply> {
    let mut sums: BTreeMap<(&PoolName, &QuotaName), Supply> = BTreeMap::new();
    for loan in &quota.loans {
        sums.entry((&loan.pool, &loan.from)).or_default().add(&loan.supply);
    }
    sums
}

/// "-96 GPUs", "-48 × 3g.40gb, -168 × 1g.10gb"
fn difference(was: &Amount, now: &Amount) -> String {
    let sign = |was: u32, now: u32| if now < was { "-" } else { "+" };
    match (was, now) {
        (Amount::Gpus(was), Amount::Gpus(now)) => {
            format!("{}{}", sign(*was, *now), Amount::Gpus(was.abs_diff(*now)))
        }
        (Amount::Nodes(was), Amount::Nodes(now)) => {
            format!("{}{}", sign(*was, *now), Amount::Nodes(was.abs_diff(*now)))
        }
        (Amount::Slices(was), Amount::Slices(now)) => {
            let profiles: BTreeSet<_> = was.keys().chain(now.keys()).collect();
            let of = |slices: &BTreeMap<_, u32>, profile| slices.get(profile).copied().unwrap_or(0);
            let parts = profiles.into_iter().filter_map(|profile| {
                let (was, now) = (of(was, profile), of(now, profile));
                (was != now).then(|| format!("{}{} × {profile}", sign(was, now), was.abs_diff(now)))
            });
            parts.collect::<Vec<_>>().join(", ")
        }
        _ => format!("{was} → {now}"),
    }
}
