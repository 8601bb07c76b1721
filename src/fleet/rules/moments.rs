//! The instants at which sums are looked at, and what a pool is at each of them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::tides::HORIZON;
use crate::diag::Span;
use crate::fleet::build::Problems;
use crate::fleet::pool::Pool;
use crate::fleet::ruling::Rulings;
use crate::fleet::target::PoolTarget;
use crate::fleet::tide::{Calendar, Exception, Phase, Tide};
use crate::fleet::{Kind, Parts};
use crate::ids::{PoolName, TideName};

/// After a week a tide has been in every state that its windows give it.
const WEEK: SignedDuration = SignedDuration::from_hours(24 * 7);

/// The instants at which something changes, with each tide's calendar worked out once.
#[derive(Debug)]
pub struct Moments<'a> {
    parts: &'a Parts,
    now: Timestamp,
    until: Timestamp,
    rulings: Rulings<'a>,
    /// What dated exceptions change beyond the calendars.
    exceptions: BTreeMap<&'a TideName, BTreeSet<Timestamp>>,
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
        let all = || p.parts.tides.values().filter(sound);
        let rulings = Rulings::between(all(), p.now, until);
        let edges = |tide: &Tide| around_exceptions(tide).iter().flat_map(Calendar::edges).collect::<BTreeSet<_>>();
        let exceptions = all().map(|tide| (&tide.name.value, edges(tide))).collect();
        Self { parts: p.parts, now: p.now, until, rulings, exceptions, tides }
    }

    pub fn tides(&self, pool: &Pool) -> &[&'a Tide] {
        self.tides.get(&pool.name.value).map_or(&[], Vec::as_slice)
    }

    /// Now, every edge of the tides that rule the pool in the next two weeks, and what is dated, however far ahead: the
    /// edges of exceptions, those of its reservations, and of the tides in the week after those. So what is valid on
    /// the day it is written does not turn invalid by itself when the date comes near.
    pub fn instants(&self, pool: &Pool) -> BTreeSet<Timestamp> {
        let edges = self.rulings.edges_of(&pool.name.value).filter(|at| *at <= self.until);
        let tides = self.tides(pool).iter().map(|tide| &tide.name.value);
        let dated = tides.filter_map(|tide| self.exceptions.get(tide)).flatten().copied();
        let edges = edges.chain(dated);
        let windows = pool.reservations().filter_map(|name| {
            let reservation = self.parts.reservations.get(name.value)?;
            reservation.certain_window(self.parts.kill(reservation))
        });
        let windows: Vec<Timestamp> =
            windows.flat_map(|(from, to)| [from, to]).filter(|at| *at > self.now && *at != Timestamp::MAX).collect();
        let mut instants: BTreeSet<Timestamp> = edges.filter(|at| *at > self.now).chain([self.now]).collect();
        for at in windows.iter().filter(|at| **at > self.until) {
            let week = at.checked_add(WEEK).unwrap_or(Timestamp::MAX);
            let calendars = self.tides(pool).iter().map(|tide| tide.calendar(*at, week));
            instants.extend(calendars.flat_map(|calendar| calendar.edges().collect::<Vec<_>>()));
        }
        instants.extend(windows);
        instants
    }

    /// The tide that decides for a pool at an instant.
    pub fn ruling(&self, pool: &Pool, at: Timestamp) -> Option<(&'a Tide, Phase)> {
        let name = &pool.name.value;
        if at <= self.until {
            return self.rulings.at(name, at);
        }
        // What is dated may lie beyond the two weeks.
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

/// The calendars of the days that are exceptions.
pub fn around_exceptions(tide: &Tide) -> Vec<Calendar> {
    let zone = tide.zone.zone();
    let day = |exception: &Exception| {
        let day = exception.date.0.to_zoned(zone.clone()).ok()?;
        Some(tide.calendar(day.timestamp(), day.end_of_day().ok()?.timestamp()))
    };
    tide.exceptions.iter().filter_map(|exception| day(exception)).collect()
}

/// " at Mon 2026-11-16 20:00 (America/Los_Angeles)", or nothing for a pool that never changes.
pub fn when(p: &Problems<'_>, moments: &Moments<'_>, pool: &Pool, at: Timestamp) -> String {
    if moments.instants(pool).len() == 1 {
        return String::new();
    }
    let zone = moments.tides(pool).first().map_or(&p.parts.time_zone, |tide| &tide.zone.value);
    format!(" at {} ({zone})", at.to_zoned(zone.zone()).strftime("%a %Y-%m-%d %H:%M"))
}

/// The same, and nothing where something is wrong at every instant: then no instant is to blame.
pub fn when_not_always(
    p: &Problems<'_>,
    moments: &Moments<'_>,
    pool: &Pool,
    at: Timestamp,
    is_wrong_at: impl Fn(Timestamp) -> bool,
) -> String {
    if moments.instants(pool).into_iter().all(is_wrong_at) { String::new() } else { when(p, moments, pool, at) }
}
