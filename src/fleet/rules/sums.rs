//! Guarantees against what is there, at every instant of the next two weeks: every node is counted once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::tides::HORIZON;
use crate::diag::{Diagnostic, Span, codes};
use crate::fleet::build::Problems;
use crate::fleet::layout::{Cut, per_node};
use crate::fleet::pool::Pool;
use crate::fleet::quota::{Amount, Quota, Share, Supply};
use crate::fleet::ruling::Rulings;
use crate::fleet::target::{PoolTarget, Purpose};
use crate::fleet::tide::{Phase, Tide};
use crate::fleet::{Kind, Parts};
use crate::ids::PoolName;

/// The instants at which something changes, with each tide's calendar worked out once.
#[derive(Debug)]
pub struct Moments<'a> {
    parts: &'a Parts,
    now: Timestamp,
    until: Timestamp,
    rulings: Rulings<'a>,
    tides: BTreeMap<PoolName, Vec<&'a Tide>>,
}

impl<'a> Moments<'a> {
    pub fn of(p: &Problems<'a>) -> Self {
        let until = p.now.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
        let sound = |tide: &&Tide| p.is_sound(Kind::TideSchedule, tide.name.value.as_str());
        let tides: BTreeMap<PoolName, Vec<&Tide>> = p
            .parts
            .tides_by_pool()
            .into_iter()
            .map(|(pool, tides)| (pool, tides.into_iter().filter(sound).collect()))
            .collect();
        let rulings = Rulings::between(p.parts.tides.values().filter(sound), p.now, until);
        Self { parts: p.parts, now: p.now, until, rulings, tides }
    }

    pub fn tides(&self, pool: &Pool) -> &[&'a Tide] {
        self.tides.get(&pool.name.value).map_or(&[], Vec::as_slice)
    }

    /// Now, every edge of the tides that rule the pool, and every edge of its reservations, however far ahead.
    pub fn instants(&self, pool: &Pool) -> BTreeSet<Timestamp> {
        let edges = self.rulings.edges_of(&pool.name.value).filter(|at| *at <= self.until);
        let windows = pool.reservations().filter_map(|name| {
            let reservation = self.parts.reservations.get(name.value)?;
            reservation.certain_window(self.parts.kill(reservation))
        });
        let windows = windows.flat_map(|(from, to)| [from, to]).filter(|at| *at != Timestamp::MAX);
        edges.chain(windows).filter(|at| *at > self.now).chain([self.now]).collect()
    }

    fn ruling(&self, pool: &Pool, at: Timestamp) -> Option<(&'a Tide, Phase)> {
        let name = &pool.name.value;
        if at <= self.until {
            return self.rulings.at(name, at);
        }
        // A block's end may lie beyond the two weeks.
        Rulings::between(self.tides(pool).iter().copied(), at, at).at(name, at)
    }

    pub fn pool_at(&self, pool: &Pool, at: Timestamp) -> PoolTarget {
        self.parts.pool_at(pool, self.ruling(pool, at), at)
    }

    /// Where the size that a pool has at an instant is written.
    pub fn size_at(&self, pool: &Pool, at: Timestamp) -> Span {
        let resize = self.ruling(pool, at).and_then(|(tide, phase)| {
            matches!(phase, Phase::Low { .. })
                .then(|| tide.resizes.iter().find(|resize| resize.pool.value == pool.name.value))
                .flatten()
        });
        resize.map_or(pool.size.at, |resize| resize.nodes.at)
    }
}

/// " at Mon 2026-11-16 20:00 (America/Los_Angeles)", or nothing for a pool that never changes.
pub fn when(p: &Problems<'_>, moments: &Moments<'_>, pool: &Pool, at: Timestamp) -> String {
    if moments.instants(pool).len() == 1 {
        return String::new();
    }
    let zone = moments.tides(pool).first().map_or(&p.parts.time_zone, |tide| &tide.zone.value);
    format!(" at {} ({zone})", at.to_zoned(zone.zone()).strftime("%a %Y-%m-%d %H:%M"))
}

pub fn check(p: &mut Problems<'_>) {
    if p.unread.headless {
        return;
    }
    let moments = Moments::of(p);
    let mut shares: BTreeMap<&PoolName, Vec<(&Quota, &Share)>> = BTreeMap::new();
    for quota in p.parts.quotas.values() {
        for share in quota.shares.iter().filter(|_| p.is_sound(Kind::Quota, quota.name.value.as_str())) {
            shares.entry(&share.pool.value).or_default().push((quota, share));
        }
    }
    for pool in p.parts.pools.values() {
        let layouts = [&pool.layout.value].into_iter().chain(
            moments
                .tides(pool)
                .iter()
                .flat_map(|tide| &tide.loans)
                .filter_map(|loan| loan.layout.as_ref())
                .map(|layout| &layout.value),
        );
        let sound = p.is_sound(Kind::NodePool, pool.name.value.as_str())
            && pool.reservations().all(|name| p.is_sound(Kind::Reservation, name.as_str()))
            && layouts.clone().all(|layout| p.is_sound(Kind::GpuLayout, layout.as_str()))
            && p.parts.hardware(&pool.instance_type).is_some();
        if sound && !lent_too_much(p, &moments, pool) {
            let shares = shares.get(&pool.name.value).map_or(&[][..], Vec::as_slice);
            guarantees(p, &moments, pool, shares);
            keep_ready(p, &moments, pool);
        }
    }
}

fn lent_too_much(p: &mut Problems<'_>, moments: &Moments<'_>, pool: &Pool) -> bool {
    for at in moments.instants(pool) {
        let Some((tide, Phase::Low { .. })) = moments.ruling(pool, at) else { continue };
        let loans: Vec<_> = tide.loans.iter().filter(|loan| loan.pool.value == pool.name.value).collect();
        let lent: u32 = loans.iter().map(|loan| loan.nodes.value).fold(0, u32::saturating_add);
        let nodes = moments.pool_at(pool, at).nodes;
        if lent > nodes.saturating_sub(pool.spares.value) {
            let spares =
                if pool.spares.value > 0 { format!(", {} of them spares", pool.spares.value) } else { String::new() };
            let message = format!(
                "{lent} nodes of pool `{}` are lent{}, and it has {nodes}{spares}",
                pool.name.value,
                when(p, moments, pool, at)
            );
            let mut said = Diagnostic::error(codes::LENT_TOO_MUCH, message);
            for loan in &loans {
                said = said.at(loan.nodes.at, "lent here");
            }
            said = said.at(moments.size_at(pool, at), "it has these");
            p.blame(
                Kind::TideSchedule,
                tide.name.value.as_str(),
                said.hint("lend fewer nodes, or make the pool larger"),
            );
            return true;
        }
    }
    false
}

fn guarantees(p: &mut Problems<'_>, moments: &Moments<'_>, pool: &Pool, shares: &[(&Quota, &Share)]) {
    if shares.is_empty() {
        return;
    }
    let each = p.parts.per_node(pool, &pool.layout.value);
    let mut last = None;
    for at in moments.instants(pool) {
        let target = moments.pool_at(pool, at);
        if last.as_ref() == Some(&target) {
            continue;
        }
        let there = each.times(target.own());
        let mut promised = Supply::default();
        let mut amounts: Vec<(&Share, &Quota, Amount)> = Vec::new();
        for (quota, share) in shares {
            let given: u32 = target
                .parts
                .iter()
                .filter(|part| match &part.purpose {
                    Purpose::Lent { from, .. } | Purpose::Returning { from, .. } => *from == quota.name.value,
                    Purpose::Own | Purpose::Spare => false,
                })
                .map(|part| part.nodes)
                .sum();
            let left = share.guarantee.without(&each.times(given));
            promised.add(&left.supply(&each));
            amounts.push((share, quota, left));
        }
        if let Some((what, wanted, held)) = excess(&promised, &there) {
            over_capacity(p, moments, pool, (at, &target), (&what, wanted, held), &amounts);
            return;
        }
        last = Some(target);
    }
}

/// The first thing of which more is promised than is there.
fn excess(promised: &Supply, there: &Supply) -> Option<(String, u32, u32)> {
    if promised.gpus > there.gpus {
        return Some(("GPUs".into(), promised.gpus, there.gpus));
    }
    let slices =
        promised.slices.iter().map(|(profile, n)| (profile, *n, there.slices.get(profile).copied().unwrap_or(0)));
    if let Some((profile, wanted, held)) = slices.into_iter().find(|(_, wanted, held)| wanted > held) {
        return Some((format!("slices of {profile}"), wanted, held));
    }
    (promised.nodes > there.nodes).then(|| ("nodes".into(), promised.nodes, there.nodes))
}

fn over_capacity(
    p: &mut Problems<'_>,
    moments: &Moments<'_>,
    pool: &Pool,
    (at, target): (Timestamp, &PoolTarget),
    (what, wanted, held): (&str, u32, u32),
    amounts: &[(&Share, &Quota, Amount)],
) {
    let away: u32 = target
        .parts
        .iter()
        .filter(|part| !matches!(part.purpose, Purpose::Own | Purpose::Spare))
        .map(|part| part.nodes)
        .sum();
    let mut counted = vec![format!("{} nodes", target.nodes)];
    if pool.spares.value > 0 {
        counted.push(format!("{} of them spares", pool.spares.value));
    }
    if away > 0 {
        counted.push(format!("{away} lent or on their way back"));
    }
    let message = format!(
        "pool `{}` holds {held} {what}{}, and {wanted} are guaranteed",
        pool.name.value,
        when(p, moments, pool, at)
    );
    let mut said = Diagnostic::error(codes::OVER_CAPACITY, message).at(moments.size_at(pool, at), counted.join(", "));
    for (share, quota, left) in amounts {
        let less = if *left == share.guarantee.value {
            String::new()
        } else {
            format!(" of which {left} stay while it lends")
        };
        said = said
            .at(share.guarantee.at, format!("`{}` is guaranteed {}{less}", quota.name.value, share.guarantee.value));
    }
    let loans = moments
        .tides(pool)
        .iter()
        .flat_map(|tide| &tide.loans)
        .filter(|loan| away > 0 && loan.pool.value == pool.name.value);
    for loan in loans {
        said = said.at(loan.at, "lent here");
    }
    let hint = if away > 0 {
        "lend fewer nodes, or nodes of the quota that can spare them"
    } else {
        "guarantee less, or make the pool larger"
    };
    p.say(said.hint(hint));
}

/// While a pool is re-cut at least one node is away, and what is lent is away too.
fn keep_ready(p: &mut Problems<'_>, moments: &Moments<'_>, pool: &Pool) {
    let Some(layout) = p.parts.layout(&pool.layout.value) else { return };
    if layout.keep_ready.is_empty() || !matches!(layout.cut, Cut::Mig(_)) {
        return;
    }
    let gpus = p.parts.hardware(&pool.instance_type).map_or(0, |hardware| hardware.gpus);
    let each = per_node(Some(layout), gpus);
    let fewest = moments.instants(pool).into_iter().map(|at| (moments.pool_at(pool, at).own(), at)).min();
    let Some((own, at)) = fewest.filter(|(own, _)| *own > 0) else { return };
    for (profile, count) in &layout.keep_ready {
        let room = each.slices.get(&profile.value).copied().unwrap_or(0).saturating_mul(own - 1);
        if count.value > room {
            let message = format!(
                "{} slices of {} are kept ready, and with one node away pool `{}` has {room}{}",
                count.value,
                profile.value,
                pool.name.value,
                when(p, moments, pool, at)
            );
            let nodes = moments.pool_at(pool, at).nodes;
            let in_use = if own == nodes { String::new() } else { format!(", {own} of them for its own use") };
            let said = Diagnostic::error(codes::KEEP_READY, message)
                .at(count.at, "")
                .at(moments.size_at(pool, at), format!("{nodes} nodes{in_use}"));
            p.say(said.hint(format!(
                "keep at most {room} ready, or make the pool larger: a node that is cut anew serves nothing"
            )));
        }
    }
}
