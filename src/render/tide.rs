//! What the fleet should be at an instant, and what changes after it: as tables and a chart, or as JSON.
//!
//! Tables are in the fleet's time zone; a tide's chart is in the tide's own, as its windows are. Called by the command
//! line.

mod chart;
pub(super) mod clock;
mod json;
pub(super) mod words;

pub use json::{json, json_schema};

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::clock::{ClockChange, day_and_time, near};
use super::table::{columns, trimmed};
use crate::fleet::quota::Amount;
use crate::fleet::target::{Part, Purpose, QuotaTarget};
use crate::fleet::tide::{Phase, Tide};
use crate::fleet::{Change, Fleet, Target};
use crate::ids::{PoolName, TideName};
use crate::units::Duration;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub fleet: &'a Fleet,
    pub at: Timestamp,
    /// Changes are told after `at` and up to this.
    pub until: Timestamp,
    /// Whether `at` is the time at which the program runs.
    pub is_now: bool,
}

/// How far ahead the next low tide is looked for: a tide that is low in no week of a year is as good as none.
const YEAR: Duration = Duration::days(366);

/// For a person: what the fleet should be, then every change, then a chart a tide. Ends with a line break.
pub fn human(question: &Question<'_>) -> String {
    let Question { fleet, at, until, .. } = *question;
    let zone = fleet.time_zone.zone();
    let target = fleet.target_at(at);
    let mut parts = vec![format!("Fleet {} at {} ({})", fleet.name.value, day_and_time(at, &zone), fleet.time_zone)];
    if let Some(frozen) = &fleet.frozen {
        parts.push(format!("Frozen, so nothing of this is carried out: {}", frozen.reason));
    }
    if fleet.tides.is_empty() {
        parts.push("No tide moves this fleet: it has no TideSchedule.".into());
    } else {
        parts.push(tides(fleet, &target, at, &zone));
    }
    parts.extend((!fleet.pools.is_empty()).then(|| pools(fleet, &target, at, &zone)));
    parts.extend((!fleet.quotas.is_empty()).then(|| quotas(&target)));
    if until > at {
        parts.push(transitions(fleet, at, until, &zone));
        parts.extend(chart::charts(question));
    }
    parts.join("\n\n") + "\n"
}

fn tides(fleet: &Fleet, target: &Target, at: Timestamp, zone: &TimeZone) -> String {
    let mut rows = columns(["TIDE", "PHASE", "WHAT COMES"], &[]);
    for (name, phase) in &target.tides {
        let Some(tide) = fleet.tides.get(name) else { continue };
        rows.add_row([name.to_string(), words::phase(phase).into(), coming(tide, phase, at, zone)]);
    }
    let guards = fleet.tides.values().filter_map(|tide| {
        let below = &tide.guard.as_ref()?.below;
        Some(format!("\n\n{} lends only while its guard is below {below}; that is not known here.", tide.name.value))
    });
    trimmed(&rows) + &guards.collect::<String>()
}

/// "until Mon 05:45, then reclaiming; back by 06:30"
fn coming(tide: &Tide, phase: &Phase, at: Timestamp, zone: &TimeZone) -> String {
    let after = |instant, before| near(instant, before, zone);
    let near = |instant| near(instant, at, zone);
    match *phase {
        Phase::High => match next_low(tide, at) {
            Some(low) => format!("until {}, then low", near(low)),
            None => format!("for longer than {YEAR}"),
        },
        Phase::Low { reclaim_at } => match tide.phase_at(reclaim_at) {
            Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => {
                format!("until {}, then reclaiming; back by {}", near(reclaim_at), after(due, reclaim_at))
            }
            _ => format!("until {}", near(reclaim_at)),
        },
        Phase::Reclaiming { hard_at, due } => {
            format!("gently until {}, then hard; back by {}", near(hard_at), after(due, hard_at))
        }
        Phase::HardReclaim { due } => format!("back by {}", near(due)),
    }
}

fn next_low(tide: &Tide, at: Timestamp) -> Option<Timestamp> {
    let calendar = tide.calendar(at, at.checked_add(YEAR.signed()).unwrap_or(Timestamp::MAX));
    calendar.edges().find(|edge| *edge > at && matches!(calendar.phase_at(*edge), Phase::Low { .. }))
}

fn pools(fleet: &Fleet, target: &Target, at: Timestamp, zone: &TimeZone) -> String {
    let mut rows = columns(["POOL", "NODES", "USE", "SLOTS", "LAYOUT"], &[1]);
    for (name, pool) in &target.pools {
        let mut first = [name.to_string(), pool.nodes.to_string()];
        if pool.parts.is_empty() {
            let [name, nodes] = first;
            rows.add_row([name, nodes, "-".into(), "-".into(), "-".into()]);
            continue;
        }
        for part in &pool.parts {
            let [name, nodes] = std::mem::take(&mut first);
            let used = purpose(fleet, part, at, zone);
            rows.add_row([name, nodes, used, slots(part), part.layout.to_string()]);
        }
    }
    trimmed(&rows)
}

fn purpose(fleet: &Fleet, part: &Part, at: Timestamp, zone: &TimeZone) -> String {
    // With one tide it is clear which one it is.
    let by = |tide: &TideName| if fleet.tides.len() > 1 { format!(" ({tide})") } else { String::new() };
    let nodes = part.nodes;
    match &part.purpose {
        Purpose::Spare => format!("{nodes} spare"),
        Purpose::Own => format!("{nodes} own"),
        Purpose::Lent { tide, from, to } => format!("{nodes} lent by {from} to {to}{}", by(tide)),
        Purpose::Returning { tide, from, to, due, .. } => {
            format!("{nodes} returning from {to} to {from} by {}{}", near(*due, at, zone), by(tide))
        }
    }
}

fn slots(part: &Part) -> String {
    match part.nodes {
        1 => part.first.to_string(),
        nodes => format!("{}-{}", part.first, part.first + nodes - 1),
    }
}

fn quotas(target: &Target) -> String {
    let mut rows = columns(["QUOTA", "POOL", "GUARANTEE", "LOANS", "BORROW", "LEND"], &[]);
    let dash = || "-".to_string();
    let amount = |amount: Option<&Amount>| amount.map_or_else(dash, Amount::to_string);
    for (name, quota) in &target.quotas {
        let mut first = name.to_string();
        for pool in pools_of(quota) {
            let share = quota.shares.get(pool);
            let loans: Vec<String> = quota
                .loans
                .iter()
                .filter(|loan| loan.pool == *pool)
                .map(|loan| format!("{} from {}", loan.supply, loan.from))
                .collect();
            rows.add_row([
                std::mem::take(&mut first),
                pool.to_string(),
                amount(share.map(|share| &share.guarantee)),
                if loans.is_empty() { dash() } else { loans.join(", ") },
                amount(share.and_then(|share| share.borrow.as_ref())),
                amount(share.and_then(|share| share.lend.as_ref())),
            ]);
        }
        if !first.is_empty() {
            rows.add_row([first, dash(), dash(), dash(), dash(), dash()]);
        }
    }
    trimmed(&rows)
}

/// The pools that a quota has something of, once each.
fn pools_of(quota: &QuotaTarget) -> BTreeSet<&PoolName> {
    quota.shares.keys().chain(quota.loans.iter().map(|loan| &loan.pool)).collect()
}

fn transitions(fleet: &Fleet, at: Timestamp, until: Timestamp, zone: &TimeZone) -> String {
    let mut lines: BTreeMap<Timestamp, Vec<(String, String)>> = BTreeMap::new();
    for (when, change) in clock_changes(fleet, at, until) {
        lines.entry(when).or_default().push(change);
    }
    for (when, changes) in fleet.transitions(at, until) {
        for change in &changes {
            let who = match change {
                Change::Tide { tide, .. } => format!("tide/{tide}"),
                Change::Pool { pool, .. } => format!("pool/{pool}"),
                Change::Quota { quota, .. } => format!("quota/{quota}"),
            };
            let words = words::change(change, when, zone);
            lines.entry(when).or_default().extend(words.into_iter().map(|line| (who.clone(), line)));
        }
    }
    let span = words::span(at, until);
    if lines.is_empty() {
        return format!("Nothing changes in the next {span}.");
    }
    let mut rows = columns(["WHEN", "WHAT", "CHANGE"], &[]);
    for (when, changes) in lines {
        let mut first = day_and_time(when, zone);
        for (who, line) in changes {
            rows.add_row([std::mem::take(&mut first), who, line]);
        }
    }
    format!("Changes of the next {span}:\n\n{}", trimmed(&rows))
}

/// Of the fleet's clock and of those that tides follow.
fn clock_changes(fleet: &Fleet, at: Timestamp, until: Timestamp) -> Vec<(Timestamp, (String, String))> {
    let others = fleet.tides.values().map(|tide| tide.zone.value.as_str());
    let names: BTreeSet<&str> = others.chain([fleet.time_zone.as_str()]).collect();
    let zones = names.iter().filter_map(|name| Some((*name, name.parse::<crate::units::ZoneName>().ok()?.zone())));
    let mut found = Vec::new();
    for (name, zone) in zones {
        let who = if names.len() > 1 { format!("clock/{name}") } else { "clock".to_string() };
        let changes = ClockChange::all(&zone, at, until).into_iter();
        found.extend(changes.map(|change| (change.at, (who.clone(), change.words()))));
    }
    found
}

#[cfg(test)]
mod tests;
