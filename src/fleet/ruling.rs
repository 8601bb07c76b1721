//! Which tide decides for a pool, when several name it.
//!
//! The one of higher precedence does. What the other has lent must be back when that one begins, so for this pool the
//! other's low tide ends there, and its reclaim counts back from there.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::target::Recalls;
use super::tide::{Calendar, Phase, Tide};
use crate::ids::{PoolName, TideName};

/// Who rules when, between two instants.
#[derive(Debug)]
pub struct Rulings<'a> {
    /// Each tide on its own.
    calendars: BTreeMap<&'a TideName, Calendar>,
    /// The tides of each pool, with what of their low tides rules it: no two are low at once.
    pools: BTreeMap<&'a PoolName, Vec<(&'a Tide, Calendar)>>,
}

impl<'a> Rulings<'a> {
    pub fn between(tides: impl Iterator<Item = &'a Tide>, from: Timestamp, to: Timestamp) -> Self {
        let mut calendars = BTreeMap::new();
        let mut by_pool: BTreeMap<&PoolName, BTreeMap<&TideName, &Tide>> = BTreeMap::new();
        for tide in tides {
            calendars.insert(&tide.name.value, tide.calendar(from, to));
            for pool in tide.pools() {
                by_pool.entry(pool).or_default().insert(&tide.name.value, tide);
            }
        }
        let pools = by_pool.into_iter().map(|(pool, tides)| {
            let mut tides: Vec<&Tide> = tides.into_values().collect();
            // Validation holds that no two of one precedence are low at once; names only make the order whole.
            tides.sort_by_key(|tide| (Reverse(tide.precedence.value), &tide.name.value));
            let ruling = match tides.as_slice() {
                [alone] => vec![(*alone, calendars[&alone.name.value].clone())],
                _ => share(&tides, from, to),
            };
            (pool, ruling)
        });
        Self { pools: pools.collect(), calendars }
    }

    /// With some tides turned before their time. A recall is of the low tide that it falls into, and ends all of that,
    /// for every pool; who rules when stays as it was, so what one tide gives up no other takes.
    pub fn recalled(mut self, recalls: &Recalls) -> Self {
        for (name, at) in recalls {
            let Some(turned) = self.calendars.get(name).and_then(|calendar| calendar.low_at(*at)) else { continue };
            let ruling = self.pools.values_mut().flatten().filter(|(tide, _)| tide.name.value == *name);
            let own = self.calendars.get_mut(name).into_iter();
            for calendar in own.chain(ruling.map(|(_, calendar)| calendar)) {
                *calendar = calendar.clone().recalled(turned, *at);
            }
        }
        self
    }

    /// Where a tide is, whatever it decides for.
    pub fn phase_at(&self, tide: &TideName, now: Timestamp) -> Phase {
        self.calendars.get(tide).map_or(Phase::High, |calendar| calendar.phase_at(now))
    }

    /// The tide that decides for a pool, and where it is; none if all are high.
    pub fn at(&self, pool: &PoolName, now: Timestamp) -> Option<(&'a Tide, Phase)> {
        let phases = self.pools.get(pool)?.iter().map(|(tide, calendar)| (*tide, calendar.phase_at(now)));
        phases.into_iter().find(|(_, phase)| *phase != Phase::High)
    }

    /// Every instant at which something changes for a pool.
    pub fn edges_of(&self, pool: &PoolName) -> impl Iterator<Item = Timestamp> {
        self.pools.get(pool).into_iter().flatten().flat_map(|(_, calendar)| calendar.edges())
    }

    /// Every instant at which a tide turns, or something changes for a pool.
    pub fn edges(&self) -> impl Iterator<Item = Timestamp> {
        let pools = self.pools.values().flatten().map(|(_, calendar)| calendar);
        self.calendars.values().chain(pools).flat_map(Calendar::edges)
    }
}

/// What each tide rules of a pool, the first before the others.
fn share<'a>(tides: &[&'a Tide], from: Timestamp, to: Timestamp) -> Vec<(&'a Tide, Calendar)> {
    // A low tide that reaches beyond the instants is whole, so what cuts it is looked for as far as it reaches.
    let (mut from, mut to) = (from, to);
    let mut calendars: Vec<Calendar> = Vec::new();
    for tide in tides.iter().rev() {
        let calendar = tide.calendar(from, to);
        from = calendar.low.first().map_or(from, |(start, _)| from.min(*start));
        to = calendar.low.last().map_or(to, |(_, end)| to.max(*end));
        calendars.push(calendar);
    }
    let mut taken: Vec<(Timestamp, Timestamp)> = Vec::new();
    let mut shares = Vec::new();
    for (tide, calendar) in tides.iter().zip(calendars.into_iter().rev()) {
        let share = calendar.without(&taken);
        taken.extend(share.lending());
        shares.push((*tide, share));
    }
    shares
}
