//! Whether what a tide moves can be back in time: the lead against what reclaim does, and Capacity Blocks that end
//! meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::time;
use jiff::tz::TimeZone;

use crate::diag::{At, Diagnostic, Span, codes};
use crate::fleet::build::Problems;
use crate::fleet::pool::{Pool, Size, Source};
use crate::fleet::quota::Quota;
use crate::fleet::reservation::{Reservation, Terms};
use crate::fleet::tide::{Loan, Phase, Resize, Tide};
use crate::fleet::tier::Checkpoint;
use crate::fleet::{Kind, Parts};
use crate::ids::PoolName;
use crate::units::Duration;

/// Evicting pods: the grace period of a pod, and the wait before nodes are listed again.
const DRAIN: Duration = Duration::minutes(2);
/// Cutting a node's GPUs anew: mig-manager waits up to five minutes for its DaemonSets, then the plugin comes back.
const RECUT: Duration = Duration::minutes(6);
/// A new node: launch, boot, driver, join, and the first image.
const NODE_START: Duration = Duration::minutes(12);

/// Who has a share of a pool.
pub type Users<'a> = BTreeMap<&'a PoolName, Vec<&'a Quota>>;

pub fn users(parts: &Parts) -> Users<'_> {
    let mut users: Users<'_> = BTreeMap::new();
    for quota in parts.quotas.values() {
        for share in &quota.shares {
            users.entry(&share.pool.value).or_default().push(quota);
        }
    }
    users
}

/// Called for every tide that turns.
pub fn check(p: &mut Problems<'_>, tide: &Tide, users: &Users<'_>) {
    lead(p, tide, users);
    blocks(p, tide);
}

/// One thing that reclaim does: how long it takes, what for, and where that is written.
type Step = (Duration, &'static str, Option<Span>);

fn takes(steps: &[Step]) -> Duration {
    steps.iter().fold(Duration::default(), |sum, (part, ..)| sum.plus(*part))
}

/// Reclaim takes as long as the slowest of what it moves, because all of it moves at once. The hard one no longer waits
/// for work to be saved.
fn lead(p: &mut Problems<'_>, tide: &Tide, users: &Users<'_>) {
    let loans = tide.loans.iter().map(|loan| of_loan(p.parts, loan));
    let resizes = tide.resizes.iter().map(|resize| of_resize(p.parts, resize, users));
    let all: Vec<Vec<Step>> = loans.chain(resizes).collect();
    let owner = tide.name.value.as_str();
    let slowest = all.iter().max_by_key(|steps| takes(steps)).cloned().unwrap_or_default();
    let needed = takes(&slowest);
    if tide.lead.value < needed {
        let message = format!("reclaim begins {} before the end, and takes {needed}", tide.lead.value);
        let mut said = Diagnostic::error(codes::LEAD_TOO_SHORT, message).at(tide.lead.at, "");
        for (part, what, at) in &slowest {
            if let Some(at) = at {
                said = said.at(*at, format!("{part} {what}"));
            }
        }
        let sum = slowest.iter().map(|(part, what, _)| format!("{part} {what}")).collect::<Vec<_>>().join(", ");
        p.blame(Kind::TideSchedule, owner, said.hint(format!("write `lead: {needed}` or more: {sum}")));
    }
    let forced = |(_, what, _): &&Step| *what != SAVE && *what != START;
    let forced = all.iter().map(|steps| steps.iter().filter(forced).copied().collect::<Vec<Step>>());
    let hard = forced.max_by_key(|steps| takes(steps)).unwrap_or_default();
    let needed = takes(&hard);
    if tide.hard_at.value < needed {
        let message =
            format!("the hard reclaim begins {} before the end, and still takes {needed}", tide.hard_at.value);
        let sum = hard.iter().map(|(part, what, _)| format!("{part} {what}")).collect::<Vec<_>>().join(", ");
        let said = Diagnostic::error(codes::LEAD_TOO_SHORT, message).at(tide.hard_at.at, "");
        p.blame(Kind::TideSchedule, owner, said.hint(format!("write `hardAt: {needed}` or more: {sum}")));
    }
}

const SAVE: &str = "to save the work";
const START: &str = "to start nodes again";

fn of_loan(parts: &Parts, loan: &Loan) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    if let Some(checkpoint) = slowest_checkpoint(parts, parts.quotas.get(&loan.to.value).into_iter()) {
        steps.push((checkpoint.deadline, SAVE, Some(checkpoint.at)));
    }
    steps.push((DRAIN, "to drain", None));
    let own = parts.pools.get(&loan.pool.value).map(|pool| &pool.layout.value);
    if let Some(layout) = loan.layout.as_ref().filter(|layout| Some(&layout.value) != own) {
        steps.push((RECUT, "to cut the GPUs back", Some(layout.at)));
    }
    steps
}

fn of_resize(parts: &Parts, resize: &At<Resize>, users: &Users<'_>) -> Vec<Step> {
    let Some(pool) = parts.pools.get(&resize.pool.value) else { return Vec::new() };
    let by_day = match pool.size.value {
        Size::Nodes(nodes) => nodes,
        Size::Fill => {
            let reservations = pool.reservations().filter_map(|name| parts.reservations.get(*name));
            reservations.map(|reservation| reservation.nodes.value).fold(0, u32::saturating_add)
        }
    };
    if by_day > resize.nodes.value && pool.launches() {
        return vec![(NODE_START, START, Some(resize.nodes.at))];
    }
    if by_day >= resize.nodes.value {
        return Vec::new();
    }
    // A pool that is larger at night is emptied of what it has too much.
    let mut steps: Vec<Step> = Vec::new();
    let users = users.get(&pool.name.value).into_iter().flatten().copied();
    if let Some(checkpoint) = slowest_checkpoint(parts, users) {
        steps.push((checkpoint.deadline, SAVE, Some(checkpoint.at)));
    }
    steps.push((DRAIN, "to drain", Some(resize.nodes.at)));
    steps
}

fn slowest_checkpoint<'a>(parts: &'a Parts, quotas: impl Iterator<Item = &'a Quota>) -> Option<&'a At<Checkpoint>> {
    let tiers = quotas.flat_map(|quota| &quota.tiers).filter_map(|tier| parts.tiers.get(&tier.value));
    tiers.filter_map(|tier| tier.checkpoint.as_ref()).max_by_key(|checkpoint| checkpoint.deadline)
}

/// A Capacity Block must not end under nodes that are promised until the tide turns.
fn blocks(p: &mut Problems<'_>, tide: &Tide) {
    let parts = p.parts;
    for name in tide.pools().collect::<BTreeSet<_>>() {
        let Some(pool) = parts.pools.get(name) else { continue };
        for (index, source) in pool.capacity.iter().enumerate() {
            let Source::Reservation(name) = &source.value else { continue };
            let Some(reservation) = parts.reservations.get(name) else { continue };
            let end = taken_away(reservation, parts.kill(reservation)).filter(|end| *end > p.now);
            let Some((end, block)) = end.zip(match &reservation.terms {
                Terms::Block(block) => Some(block),
                Terms::OnDemand { .. } => None,
            }) else {
                continue;
            };
            let calendar = tide.calendar(end, end);
            let low = calendar.low.iter().find(|(start, due)| *start < end && end < *due);
            let Some((start, due)) = low.filter(|_| calendar.phase_at(end) != Phase::High) else { continue };
            let (promised, at) = promised(tide, pool);
            if room_above(parts, pool, index, end) >= promised {
                continue;
            }
            let zoned = |at: Timestamp| at.to_zoned(tide.zone.zone());
            let show = |at: &Timestamp| zoned(*at).strftime("%a %Y-%m-%d %H:%M").to_string();
            let message = format!(
                "EC2 begins to take the nodes of block `{}` away at {} ({}), inside the low tide from {} to {}",
                reservation.name.value,
                show(&end),
                tide.zone.value,
                show(start),
                show(due)
            );
            let ends = block.window.as_ref().map_or(block.duration.at, |window| window.at);
            let said = Diagnostic::error(codes::BLOCK_ENDS_INSIDE, message)
                .at(at, format!("{promised} nodes of pool `{}` are promised until the tide turns", pool.name.value))
                .at(ends, "ends then")
                .at(source.at, "some of them are its nodes");
            let hint = format!(
                "add `- {{date: {}, tide: high}}` to `exceptions`, or list capacity that stays above the block",
                zoned(end).date()
            );
            p.blame(Kind::TideSchedule, tide.name.value.as_str(), said.hint(hint));
        }
    }
}

/// When EC2 begins to terminate the nodes of a block, if that can be known. Of a block that is not bought yet it is
/// known only if there is one day that it can start on; all blocks end at the same time of day.
fn taken_away(reservation: &Reservation, kill: Duration) -> Option<Timestamp> {
    let Terms::Block(block) = &reservation.terms else { return None };
    let end = match (&block.window, &block.start, &block.approval) {
        (Some(window), ..) => window.to.0,
        (None, Some(start), Some(_)) if start.from == start.to => {
            let last = start.from.0.checked_add(block.duration.signed()).ok()?;
            last.to_datetime(time(11, 30, 0, 0)).to_zoned(TimeZone::UTC).ok()?.timestamp()
        }
        _ => return None,
    };
    end.checked_sub(kill.signed()).ok()
}

/// The slots of a pool, from the bottom, that a tide promises something about, and where it does.
fn promised(tide: &Tide, pool: &Pool) -> (u32, Span) {
    let loans = || tide.loans.iter().filter(|loan| loan.pool.value == pool.name.value);
    let lent = loans().map(|loan| loan.nodes.value).fold(0, u32::saturating_add);
    let lent = if lent > 0 { lent.saturating_add(pool.spares.value) } else { 0 };
    let resize = tide.resizes.iter().find(|resize| resize.pool.value == pool.name.value);
    match (resize, loans().next()) {
        (Some(resize), _) if resize.nodes.value >= lent => (resize.nodes.value, resize.nodes.at),
        (_, Some(loan)) => (lent, loan.nodes.at),
        _ => (0, tide.name.at),
    }
}

/// How many slots have a place above a source: a pool is filled from the top, and its slots from the bottom.
fn room_above(parts: &Parts, pool: &Pool, index: usize, at: Timestamp) -> u32 {
    let room = |source: &At<Source>| match &source.value {
        Source::Reservation(name) => parts.reservations.get(name).map_or(0, |r| r.holds_at(at, parts.kill(r))),
        Source::OnDemand { max } | Source::Spot { max, .. } => *max,
        Source::Existing { .. } => u32::MAX,
    };
    pool.capacity[..index].iter().map(room).fold(0, u32::saturating_add)
}
