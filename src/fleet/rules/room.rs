//! Room for nodes at every instant: a pool against its own capacity, and pools that share reservations against them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use petgraph::unionfind::UnionFind;

use super::moments::{Moments, when_not_always};
use super::money::{self, Line};
use crate::diag::{Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::capacity::{Shortage, share_out};
use crate::fleet::pool::{Pool, Size, Source};
use crate::fleet::reservation::{Block, Reservation, Terms};
use crate::ids::ReservationName;

pub fn check(p: &mut Problems<'_>) {
    if p.unread.headless {
        return;
    }
    let moments = Moments::of(p);
    let mut bill: Vec<Line<'_>> = Vec::new();
    for group in groups(p) {
        let pools: Vec<&Pool> = group.into_iter().filter(|pool| sound(p, pool)).collect();
        if !pools.is_empty() {
            bill.extend(together(p, &moments, &pools));
        }
    }
    money::hourly_limit(p, bill);
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

/// Pools that share reservations, and what they have at one instant.
struct Group<'a> {
    pools: &'a [&'a Pool],
    reservations: Vec<&'a Reservation>,
    /// For each pool the reservations that it names.
    names: Vec<Vec<usize>>,
}

struct Instant {
    at: Timestamp,
    /// What each reservation holds.
    holds: Vec<u32>,
    /// How many nodes each pool has.
    sizes: Vec<u32>,
    /// How many of them have no room but in reservations.
    needs: Vec<u32>,
}

impl<'a> Group<'a> {
    fn of(p: &Problems<'a>, pools: &'a [&'a Pool]) -> Self {
        let all: BTreeSet<&ReservationName> =
            pools.iter().flat_map(|pool| pool.reservations().map(|name| name.value)).collect();
        let reservations: Vec<&Reservation> = all.iter().filter_map(|name| p.parts.reservations.get(*name)).collect();
        let index: BTreeMap<&ReservationName, usize> =
            reservations.iter().enumerate().map(|(index, r)| (&r.name.value, index)).collect();
        let named = |pool: &&Pool| pool.reservations().filter_map(|name| index.get(name.value).copied()).collect();
        let names = pools.iter().map(named).collect();
        Self { pools, reservations, names }
    }

    /// Now, and every instant at which the size of a pool or what it can reach is another. Most instants of a tide only
    /// lend, and a group looks at all its pools at each of these.
    fn changes(&self, p: &Problems<'_>, moments: &Moments<'_>) -> BTreeSet<Timestamp> {
        let mut changes = BTreeSet::new();
        for (pool, named) in self.pools.iter().zip(&self.names) {
            let holds = |r: &usize, at| self.reservations[*r].holds_at(at, p.parts.kill(self.reservations[*r]));
            let mut last = None;
            for at in moments.instants(pool) {
                let here = (moments.pool_at(pool, at).nodes, named.iter().map(|r| holds(r, at)).collect::<Vec<u32>>());
                if last.as_ref() != Some(&here) {
                    changes.insert(at);
                    last = Some(here);
                }
            }
        }
        changes
    }

    fn at(&self, p: &Problems<'_>, moments: &Moments<'_>, at: Timestamp) -> Instant {
        let sizes: Vec<u32> = self.pools.iter().map(|pool| moments.pool_at(pool, at).nodes).collect();
        let need = |(pool, size): (&&Pool, &u32)| pool.private_room().map_or(0, |room| size.saturating_sub(room));
        Instant {
            at,
            holds: self.reservations.iter().map(|r| r.holds_at(at, p.parts.kill(r))).collect(),
            needs: self.pools.iter().zip(&sizes).map(need).collect(),
            sizes,
        }
    }

    fn share_out(&self, now: &Instant) -> Result<Vec<Vec<u32>>, Shortage> {
        share_out(&now.holds, &self.names, &now.needs, &now.sizes)
    }

    /// What the reservations that a pool names hold.
    fn reach(&self, index: usize, instant: &Instant) -> u32 {
        self.names[index].iter().map(|r| instant.holds[*r]).fold(0, u32::saturating_add)
    }
}

/// Checks pools that share reservations, and gives what they cost by the hour from each instant on.
fn together<'a>(p: &mut Problems<'a>, moments: &Moments<'a>, pools: &[&'a Pool]) -> Vec<Line<'a>> {
    let group = Group::of(p, pools);
    let all: Vec<Instant> = group.changes(p, moments).into_iter().map(|at| group.at(p, moments, at)).collect();
    let mut has_room = true;
    for index in 0..pools.len() {
        if let Some(now) = all.iter().find(|now| now.needs[index] > group.reach(index, now)) {
            without_room(p, moments, &group, now, index);
            has_room = false;
        }
    }
    if !has_room {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut last: Option<&Instant> = None;
    for now in &all {
        if last.is_some_and(|last| last.holds == now.holds && last.sizes == now.sizes) {
            continue;
        }
        let reserved = match group.share_out(now) {
            Ok(reserved) => reserved,
            Err(short) => {
                too_small(p, moments, &group, now, &short);
                return Vec::new();
            }
        };
        for ((pool, size), reserved) in pools.iter().zip(&now.sizes).zip(&reserved) {
            lines.push(money::line(p, now.at, pool, *size, reserved));
        }
        last = Some(now);
    }
    lines
}

fn without_room(p: &mut Problems<'_>, moments: &Moments<'_>, group: &Group<'_>, now: &Instant, index: usize) {
    let pool = group.pools[index];
    let size = now.sizes[index];
    let room = group.reach(index, now).saturating_add(pool.private_room().unwrap_or(0));
    let is_wrong_at = |at| {
        let then = group.at(p, moments, at);
        then.needs[index] > group.reach(index, &then)
    };
    let moment = when_not_always(p, moments, pool, now.at, is_wrong_at);
    let then = if moment.is_empty() { "" } else { "then " };
    let message =
        format!("pool `{}` has {}{moment}, and its capacity {then}holds {room}", pool.name.value, nodes(size));
    let written = moments.size_at(pool, now.at);
    let mut said = Diagnostic::error(codes::POOL_WITHOUT_ROOM, message).at(written, "");
    for source in &pool.capacity {
        let label = match &source.value {
            Source::Reservation(name) => {
                let held = group.reservations.iter().zip(&now.holds).find(|(r, _)| r.name.value == *name);
                held.map_or_else(String::new, |(reservation, held)| holds(p, reservation, *held, now.at))
            }
            Source::OnDemand { max } | Source::Spot { max, .. } => format!("at most {}", nodes(*max)),
            Source::Existing { .. } => "as many as there are".into(),
        };
        said = said.at(source.at, label);
    }
    let mut choices = vec![format!("add capacity such as `- {{onDemand: {{max: {}}}}}`", size - room)];
    if room > 0 {
        choices.insert(0, format!("ask for {room}"));
    }
    if written == pool.size.at && pool.reservations().next().is_some() {
        choices.push("write `fill: reservations` instead of `nodes`".into());
    }
    p.blame(Kind::NodePool, pool.name.value.as_str(), said.hint(choices.join(", or ")));
}

fn nodes(count: u32) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}

/// What a reservation holds at an instant, and why it is nothing.
fn holds(p: &Problems<'_>, reservation: &Reservation, held: u32, at: Timestamp) -> String {
    if held > 0 {
        return nodes(held);
    }
    let is_bought = |block: &Block| block.window.is_some() || block.approval.is_some();
    match (&reservation.terms, reservation.certain_window(p.parts.kill(reservation))) {
        (Terms::Block(block), _) if !is_bought(block) => "nothing: nobody approved to buy it".into(),
        (_, None) => "nothing: no day is certain".into(),
        (_, Some((from, _))) if at < from => "nothing yet".into(),
        (Terms::Block(_), Some(_)) => {
            format!("nothing any more: EC2 takes its nodes away {} before the end", p.parts.kill(reservation))
        }
        (Terms::OnDemand { .. }, Some(_)) => "nothing any more: it has ended".into(),
    }
}

fn too_small(p: &mut Problems<'_>, moments: &Moments<'_>, group: &Group<'_>, now: &Instant, short: &Shortage) {
    let held: u32 = short.reservations.iter().map(|r| now.holds[*r]).fold(0, u32::saturating_add);
    let needed: u32 = short.pools.iter().map(|pool| now.needs[*pool]).fold(0, u32::saturating_add);
    let is_wrong_at = |at| group.share_out(&group.at(p, moments, at)).is_err();
    // The instants of one pool are not those of the others: the one that changes says when.
    let moment = short.pools.iter().map(|pool| when_not_always(p, moments, group.pools[*pool], now.at, is_wrong_at));
    let moment = moment.max_by_key(String::len).unwrap_or_default();
    let listed = |names: Vec<String>| names.join(" and ");
    let reservations: Vec<&Reservation> = short.reservations.iter().map(|r| group.reservations[*r]).collect();
    let (Some(first), pools) = (reservations.first(), short.pools.iter().map(|pool| group.pools[*pool])) else {
        return;
    };
    let message = format!(
        "pools {} need {needed} nodes{moment}, and {} {} {held}",
        listed(pools.clone().map(|pool| format!("`{}`", pool.name.value)).collect()),
        listed(reservations.iter().map(|r| format!("`{}`", r.name.value)).collect()),
        if reservations.len() == 1 { "holds" } else { "hold" },
    );
    let mut said = Diagnostic::error(codes::RESERVATION_TOO_SMALL, message);
    for r in &short.reservations {
        let reservation = group.reservations[*r];
        let held = holds(p, reservation, now.holds[*r], now.at);
        said = said.at(reservation.nodes.at, format!("`{}` holds {held}", reservation.name.value));
    }
    for index in &short.pools {
        let (pool, need) = (group.pools[*index], now.needs[*index]);
        let elsewhere = match now.sizes[*index] - need {
            0 => String::new(),
            1 => ", 1 more has room elsewhere".into(),
            more => format!(", {more} more have room elsewhere"),
        };
        let label = format!("`{}` needs {need} of them{elsewhere}", pool.name.value);
        said = said.at(moments.size_at(pool, now.at), label);
    }
    let hint = if pools.clone().any(|pool| pool.size.value == Size::Fill) {
        "a pool that fills takes all that its reservations hold: give it one of its own, or write `nodes`"
    } else {
        "reserve more nodes, make the pools smaller, or add other capacity"
    };
    p.blame(Kind::Reservation, first.name.value.as_str(), said.hint(hint));
}
