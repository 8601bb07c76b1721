//! Room for nodes and money for them, at every instant of the next two weeks.
//!
//! Pools that share reservations are looked at together; the others each alone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use petgraph::unionfind::UnionFind;
use rust_decimal::Decimal;

use super::sums::{Moments, when};
use crate::diag::{Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::capacity::share_out;
use crate::fleet::pool::{Pool, Source};
use crate::fleet::reservation::Reservation;
use crate::ids::ReservationName;
use crate::units::Usd;

pub fn check(p: &mut Problems<'_>) {
    if p.unread.headless {
        return;
    }
    let moments = Moments::of(p);
    let mut bill: Vec<(Timestamp, Decimal, usize)> = Vec::new();
    for (index, group) in groups(p).into_iter().enumerate() {
        let pools: Vec<&Pool> = group.into_iter().filter(|pool| sound(p, pool)).collect();
        if !pools.is_empty() {
            let costs = together(p, &moments, &pools);
            bill.extend(costs.into_iter().map(|(at, cost)| (at, cost, index)));
        }
    }
    hourly_limit(p, bill);
}

/// Pools that name a common reservation, directly or through others.
fn groups<'a>(p: &Problems<'a>) -> Vec<Vec<&'a Pool>> {
    let pools: Vec<&Pool> = p.parts.pools.values().collect();
    let mut joined = UnionFind::<usize>::new(pools.len());
    let mut first: BTreeMap<&ReservationName, usize> = BTreeMap::new();
    for (index, pool) in pools.iter().enumerate() {
        for reservation in pool.reservations() {
            let other = *first.entry(reservation.value).or_insert(index);
            joined.union(other, index);
        }
    }
    let mut groups: BTreeMap<usize, Vec<&Pool>> = BTreeMap::new();
    for (index, pool) in pools.into_iter().enumerate() {
        groups.entry(joined.find(index)).or_default().push(pool);
    }
    groups.into_values().collect()
}

fn sound(p: &Problems<'_>, pool: &Pool) -> bool {
    p.is_sound(Kind::NodePool, pool.name.value.as_str())
        && pool.reservations().all(|name| p.is_sound(Kind::Reservation, name.as_str()))
        && p.parts.hardware(&pool.instance_type).is_some()
}

/// Checks pools that share reservations, and gives what they cost by the hour from each instant on.
fn together(p: &mut Problems<'_>, moments: &Moments<'_>, pools: &[&Pool]) -> Vec<(Timestamp, Decimal)> {
    let names: BTreeSet<&ReservationName> =
        pools.iter().flat_map(|pool| pool.reservations().map(|name| name.value)).collect();
    let reservations: Vec<&Reservation> = names.iter().filter_map(|name| p.parts.reservations.get(*name)).collect();
    let named: Vec<Vec<usize>> = pools
        .iter()
        .map(|pool| {
            let of = |name: &ReservationName| reservations.iter().position(|r| r.name.value == *name);
            pool.reservations().filter_map(|name| of(name.value)).collect()
        })
        .collect();
    let instants: BTreeSet<Timestamp> = pools.iter().flat_map(|pool| moments.instants(pool)).collect();
    let mut costs: Vec<(Timestamp, Decimal)> = Vec::new();
    let mut last: Option<(Vec<u32>, Vec<u32>)> = None;
    for at in instants {
        let holds: Vec<u32> = reservations.iter().map(|r| r.holds_at(at, p.parts.kill(r))).collect();
        let sizes: Vec<u32> = pools.iter().map(|pool| moments.pool_at(pool, at).nodes).collect();
        if last.as_ref().is_some_and(|(h, s)| *h == holds && *s == sizes) {
            continue;
        }
        if !enough(p, moments, at, (pools, &sizes, &named), (&reservations, &holds)) {
            return Vec::new();
        }
        // What the reservations do not hold costs by the hour.
        let wants: Vec<u32> = sizes.clone();
        let placed = share_out(&holds, &wants, &named);
        let cost = pools
            .iter()
            .zip(sizes.iter().zip(&placed))
            .map(|(pool, (size, placed))| hourly(p, pool, size - placed))
            .sum();
        costs.push((at, cost));
        last = Some((holds, sizes));
    }
    costs
}

type Wanting<'a> = (&'a [&'a Pool], &'a [u32], &'a [Vec<usize>]);

fn enough(
    p: &mut Problems<'_>,
    moments: &Moments<'_>,
    at: Timestamp,
    (pools, sizes, named): Wanting<'_>,
    (reservations, holds): (&[&Reservation], &[u32]),
) -> bool {
    let needs: Vec<u32> = pools
        .iter()
        .zip(sizes)
        .map(|(pool, size)| pool.private_room().map_or(0, |room| size.saturating_sub(room)))
        .collect();
    for (index, pool) in pools.iter().enumerate() {
        let reach: u32 = named[index].iter().map(|r| holds[*r]).fold(0, u32::saturating_add);
        if needs[index] > reach {
            let room = reach.saturating_add(pool.private_room().unwrap_or(0));
            let moment = when(p, moments, pool, at);
            let message =
                format!("pool `{}` has {} nodes{moment}, and its capacity holds {room}", pool.name.value, sizes[index]);
            let mut said = Diagnostic::error(codes::POOL_WITHOUT_ROOM, message).at(moments.size_at(pool, at), "");
            for source in &pool.capacity {
                said = said.at(
                    source.at,
                    match &source.value {
                        Source::Reservation(name) => {
                            let held = reservations
                                .iter()
                                .zip(holds)
                                .find(|(r, _)| r.name.value == *name)
                                .map_or(0, |(_, held)| *held);
                            format!("{held} then")
                        }
                        Source::OnDemand { max } | Source::Spot { max, .. } => format!("{max} at most"),
                        Source::Existing { .. } => "as many as there are".into(),
                    },
                );
            }
            p.blame(
                Kind::NodePool,
                pool.name.value.as_str(),
                said.hint("ask for fewer nodes, add capacity, or write `fill: reservations`"),
            );
            return false;
        }
    }
    let got = share_out(holds, &needs, named);
    if got == needs {
        return true;
    }
    let short: u32 = needs.iter().zip(&got).map(|(need, got)| need - got).sum();
    let moment = pools.iter().map(|pool| when(p, moments, pool, at)).find(|text| !text.is_empty()).unwrap_or_default();
    let first = reservations
        .iter()
        .find(|r| named.iter().flatten().filter(|i| reservations[**i].name == r.name).count() > 1)
        .or(reservations.first());
    let Some(first) = first else { return false };
    let message =
        format!("the pools that share `{}` need {short} nodes more than is reserved{moment}", first.name.value);
    let mut said = Diagnostic::error(codes::RESERVATION_TOO_SMALL, message).at(first.nodes.at, "");
    for (reservation, held) in reservations.iter().zip(holds).filter(|(r, _)| r.name != first.name) {
        said = said.at(reservation.nodes.at, format!("`{}` holds {held}", reservation.name.value));
    }
    for (pool, need) in pools.iter().zip(&needs).filter(|(_, need)| **need > 0) {
        said = said.at(moments.size_at(pool, at), format!("`{}` needs {need} of them", pool.name.value));
    }
    p.blame(Kind::Reservation, first.name.value.as_str(), said.hint("reserve more nodes, or make the pools smaller"));
    false
}

/// What nodes beyond the reservations cost an hour, filled in the order of the pool's capacity.
fn hourly(p: &Problems<'_>, pool: &Pool, mut nodes: u32) -> Decimal {
    let price = p
        .parts
        .hardware(&pool.instance_type)
        .and_then(|hardware| hardware.on_demand)
        .map_or(Decimal::ZERO, |usd| usd.0);
    let mut cost = Decimal::ZERO;
    for source in &pool.capacity {
        let (max, rate) = match &source.value {
            Source::Reservation(_) => continue,
            Source::Existing { .. } => (u32::MAX, Decimal::ZERO),
            Source::OnDemand { max } => (*max, price),
            Source::Spot { max, max_price_percent } => {
                (*max, price * Decimal::from(*max_price_percent) / Decimal::ONE_HUNDRED)
            }
        };
        let taken = nodes.min(max);
        cost += rate * Decimal::from(taken);
        nodes -= taken;
    }
    cost
}

fn hourly_limit(p: &mut Problems<'_>, mut bill: Vec<(Timestamp, Decimal, usize)>) {
    let paying = || {
        p.parts.pools.values().filter_map(|pool| {
            let source =
                pool.capacity.iter().find(|s| matches!(s.value, Source::OnDemand { .. } | Source::Spot { .. }))?;
            Some((pool, source.at))
        })
    };
    let Some(limit) = p.parts.limits.hourly_usd else {
        if let Some((_, at)) = paying().next() {
            let message = "on-demand or spot nodes, and no limit on what they may cost: none would be launched";
            let mut said = Diagnostic::error(codes::HOURLY_LIMIT, message).at(at, "");
            for (_, at) in paying().skip(1) {
                said = said.at(at, "these too");
            }
            p.say(said.hint("add `limits: {hourlyUsd: …}` to the Fleet"));
        }
        return;
    };
    bill.sort();
    let mut now: BTreeMap<usize, Decimal> = BTreeMap::new();
    let mut total = Decimal::ZERO;
    let mut rest = bill.into_iter().peekable();
    while let Some((at, cost, group)) = rest.next() {
        total += cost - now.insert(group, cost).unwrap_or_default();
        if rest.peek().is_some_and(|(next, ..)| *next == at) || total <= limit.0 {
            continue;
        }
        let moment = if at <= p.now {
            String::new()
        } else {
            format!(" from {}", at.to_zoned(p.parts.time_zone.zone()).strftime("%a %Y-%m-%d %H:%M (%Q)"))
        };
        let message = format!(
            "the fleet's on-demand and spot nodes cost up to ${} an hour{moment}, over the limit of ${limit}",
            Usd(total.normalize())
        );
        let mut said = Diagnostic::error(codes::HOURLY_LIMIT, message).at(p.parts.limits.at, "");
        for (pool, at) in paying() {
            said = said.at(at, format!("pool `{}`", pool.name.value));
        }
        p.say(said.hint("raise `limits.hourlyUsd`, reserve more, or ask for fewer nodes"));
        return;
    }
}
