//! The tide: when it is low, in which phase it is, and when that changes. Times of day live here and nowhere else.
//!
//! Windows on the wall clock become intervals of instants; everything else is asked of those. The answer depends on
//! the instant alone, so after any downtime it is the same.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::updates::Window;
use crate::diag::At;
use crate::ids::{LayoutName, PoolName, QuotaName, TideName};
use crate::units::{Day, Duration, Ratio, ZoneName};

/// Lend off-peak, reclaim before the peak.
#[derive(Clone, PartialEq, Debug)]
pub struct Tide {
    pub name: At<TideName>,
    pub zone: At<ZoneName>,
    pub windows: Vec<At<Window>>,
    pub exceptions: Vec<At<Exception>>,
    pub loans: Vec<At<Loan>>,
    pub resizes: Vec<At<Resize>>,
    pub guard: Option<Guard>,
    pub lead: At<Duration>,
    pub hard_at: At<Duration>,
    pub order: ReclaimOrder,
    pub precedence: At<u32>,
}

/// Nodes that change hands while the tide is low.
#[derive(Clone, PartialEq, Debug)]
pub struct Loan {
    pub pool: At<PoolName>,
    pub nodes: At<u32>,
    pub from: At<QuotaName>,
    pub to: At<QuotaName>,
    pub layout: Option<At<LayoutName>>,
}

/// A pool that has another size while the tide is low.
#[derive(Clone, PartialEq, Debug)]
pub struct Resize {
    pub pool: At<PoolName>,
    pub nodes: At<u32>,
}

/// Where the tide is. Holds instants, never `now`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Phase {
    High,
    /// Nodes are lent until `reclaim_at`.
    Low {
        reclaim_at: Timestamp,
    },
    /// Lent nodes are asked back, gently until `hard_at`; they are back at `due`.
    Reclaiming {
        hard_at: Timestamp,
        due: Timestamp,
    },
    /// What is still there is evicted; the nodes are back at `due`.
    HardReclaim {
        due: Timestamp,
    },
}

/// When a tide is low, over some time: intervals that neither touch nor overlap, in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Calendar {
    pub low: Vec<(Timestamp, Timestamp)>,
    lead: SignedDuration,
    hard_at: SignedDuration,
}

/// How far beyond the dates that are asked for, and beyond the exceptions, the windows alone are followed, in days.
/// They leave some time high every week, and a clock change hides that for a week at most; a tide that is low for
/// longer never turns.
pub(super) const FOUR_WEEKS: i32 = 28;

impl Tide {
    /// The pools that it says something about.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.loans.iter().map(|loan| &loan.pool.value).chain(self.resizes.iter().map(|resize| &resize.pool.value))
    }

    /// When it is low between two instants. Intervals that reach beyond them are whole.
    pub fn calendar(&self, from: Timestamp, to: Timestamp) -> Calendar {
        let windows: Vec<&Window> = self.windows.iter().map(|window| &window.value).collect();
        let low = intervals(&windows, &self.exceptions, &self.zone.zone(), from, to);
        Calendar { low, lead: self.lead.signed(), hard_at: self.hard_at.signed() }
    }

    pub fn phase_at(&self, now: Timestamp) -> Phase {
        self.calendar(now, now).phase_at(now)
    }

    /// Whether it turns at a time of day that the clock skips or repeats; it does not where two windows touch, or on an
    /// exception.
    pub fn turns_around(&self, date: Date, time: Time) -> bool {
        let zone = self.zone.zone();
        let around = zone.to_ambiguous_timestamp(date.to_datetime(time));
        let both = (around.earlier(), around.later());
        let (Ok(early), Ok(late)) = both else { return true };
        let (early, late) = (back(early, SignedDuration::from_secs(1)), back(late, SignedDuration::from_secs(-1)));
        let turns = |edge: &Timestamp| (early..=late).contains(edge);
        self.calendar(early, late).low.iter().any(|(start, end)| turns(start) || turns(end))
    }
}

impl Calendar {
    /// An interval no longer than the lead lends nothing: what is lent could not be back in time.
    pub fn phase_at(&self, now: Timestamp) -> Phase {
        let at = self.low.partition_point(|(_, end)| *end <= now);
        let Some((start, due)) = self.low.get(at).copied().filter(|(start, _)| *start <= now) else {
            return Phase::High;
        };
        let (reclaim_at, hard_at) = (back(due, self.lead), back(due, self.hard_at));
        if reclaim_at <= start {
            Phase::High
        } else if now < reclaim_at {
            Phase::Low { reclaim_at }
        } else if now < hard_at {
            Phase::Reclaiming { hard_at, due }
        } else {
            Phase::HardReclaim { due }
        }
    }

    /// The intervals that are long enough to lend something.
    pub fn lending(&self) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        self.low.iter().copied().filter(|(start, due)| *start < back(*due, self.lead))
    }

    /// What is left of it outside of some intervals.
    pub fn without(self, taken: &[(Timestamp, Timestamp)]) -> Calendar {
        Calendar { low: subtract(self.low, taken), ..self }
    }

    /// The low tide that an instant is in.
    pub fn low_at(&self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        self.low.iter().copied().find(|(start, end)| *start <= now && now < *end)
    }

    /// With the low tide `turned` recalled at an instant in it: what lends then is asked back at once, as long before
    /// its new end as its lead says but never later than without the recall, and what would begin later lends nothing.
    pub fn recalled(mut self, turned: (Timestamp, Timestamp), at: Timestamp) -> Calendar {
        let latest = on(at, self.lead);
        self.low.retain(|(start, end)| *end <= turned.0 || turned.1 <= *start || *start <= at);
        for (_, end) in self.low.iter_mut().filter(|(start, end)| *start <= at && at < *end) {
            *end = latest.min(*end);
        }
        self
    }

    /// Every instant at which the phase may change.
    pub fn edges(&self) -> impl Iterator<Item = Timestamp> {
        self.low.iter().flat_map(|(start, due)| [*start, back(*due, self.lead), back(*due, self.hard_at), *due])
    }
}

/// When some windows are open between two instants: intervals that neither touch nor overlap, in order. Those that
/// reach beyond the instants are whole; one that reaches four weeks beyond them does not end.
pub(super) fn intervals(
    windows: &[&Window],
    exceptions: &[At<Exception>],
    zone: &TimeZone,
    from: Timestamp,
    to: Timestamp,
) -> Vec<(Timestamp, Timestamp)> {
    let dates = || exceptions.iter().map(|exception| exception.date.0);
    let (begins, ends) = (zone.to_datetime(from).date(), zone.to_datetime(to).date());
    let earliest = shift(dates().min().map_or(begins, |date| date.min(begins)), -FOUR_WEEKS);
    let latest = shift(dates().max().map_or(ends, |date| date.max(ends)), FOUR_WEEKS);
    // Windows are at most a day long, so what covers an instant begins at most two civil days before it.
    let (mut before, mut after) = (3, 3);
    loop {
        let (first, last) = (shift(begins, -before), shift(ends, after));
        let mut low = between(windows, exceptions, zone, first, last);
        low.retain(|(start, end)| *end > from && *start <= to);
        // What reaches the end of the days that were looked at may be longer: look further.
        let reaches_back = low.first().is_some_and(|(start, _)| zone.to_datetime(*start).date() <= shift(first, 1));
        let reaches_on = low.last().is_some_and(|(_, end)| zone.to_datetime(*end).date() >= last);
        let (further_back, further_on) = (reaches_back && first > earliest, reaches_on && last < latest);
        if !further_back && !further_on {
            return low;
        }
        before *= if further_back { 3 } else { 1 };
        after *= if further_on { 3 } else { 1 };
    }
}

fn between(
    windows: &[&Window],
    exceptions: &[At<Exception>],
    zone: &TimeZone,
    first: Date,
    last: Date,
) -> Vec<(Timestamp, Timestamp)> {
    let mut low = Vec::new();
    let mut high = Vec::new();
    let mut date = first;
    while date <= last {
        let next = date.tomorrow().unwrap_or(Date::MAX);
        for window in windows {
            if window.days.iter().any(|days| days.contains(date.weekday())) {
                let ends = if window.to.0 <= window.from.0 { next } else { date };
                low.push((date.to_datetime(window.from.0), ends.to_datetime(window.to.0)));
            }
        }
        if let Some(exception) = exceptions.iter().find(|exception| exception.date.0 == date) {
            let day = (date.to_datetime(Time::midnight()), next.to_datetime(Time::midnight()));
            match exception.tide {
                Level::Low => low.push(day),
                Level::High => high.push(day),
            }
        }
        if date == next {
            break;
        }
        date = next;
    }
    // Merged on the wall clock, so that windows that touch at a time that comes twice are one; and once more as
    // instants, because what the clock skips may be all that lies between two of them.
    let low = subtract(merge(low), &high);
    merge(low.into_iter().map(|(from, to)| (begin(zone, from), end(zone, to))).collect())
}

fn back(from: Timestamp, by: SignedDuration) -> Timestamp {
    from.checked_sub(by).unwrap_or(Timestamp::MIN)
}

fn on(from: Timestamp, by: SignedDuration) -> Timestamp {
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn shift(date: Date, days: i32) -> Date {
    let furthest = if days < 0 { Date::MIN } else { Date::MAX };
    date.checked_add(SignedDuration::from_hours(24 * i64::from(days))).unwrap_or(furthest)
}

/// A beginning that comes twice is the second; one that the clock skips is the moment of the skip.
fn begin(zone: &TimeZone, wall: DateTime) -> Timestamp {
    resolve(zone, wall, |first, second| first.max(second))
}

/// An end that comes twice is the first; one that the clock skips is the moment of the skip.
fn end(zone: &TimeZone, wall: DateTime) -> Timestamp {
    resolve(zone, wall, |first, second| first.min(second))
}

fn resolve(zone: &TimeZone, wall: DateTime, choose: impl Fn(Timestamp, Timestamp) -> Timestamp) -> Timestamp {
    let at = |offset: jiff::tz::Offset| {
        offset.to_timestamp(wall).unwrap_or(if wall.year() < 0 { Timestamp::MIN } else { Timestamp::MAX })
    };
    match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => at(offset),
        AmbiguousOffset::Fold { before, after } => choose(at(before), at(after)),
        // The skip itself lies between what the two offsets make of the wall time.
        AmbiguousOffset::Gap { before, after } => {
            let early = at(before).min(at(after));
            zone.following(early).next().map_or(early, |skip| skip.timestamp())
        }
    }
}

/// Sorted intervals that neither touch nor overlap.
fn merge<T: Ord + Copy>(mut intervals: Vec<(T, T)>) -> Vec<(T, T)> {
    intervals.retain(|(start, end)| start < end);
    intervals.sort();
    let mut merged: Vec<(T, T)> = Vec::new();
    for (start, end) in intervals {
        match merged.last_mut() {
            Some((_, last)) if start <= *last => *last = (*last).max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn subtract<T: Ord + Copy>(low: Vec<(T, T)>, high: &[(T, T)]) -> Vec<(T, T)> {
    high.iter().fold(low, |low, (from, to)| {
        low.into_iter()
            .flat_map(|(start, end)| [(start, end.min(*from)), (start.max(*to), end)])
            .filter(|(start, end)| start < end)
            .collect()
    })
}

/// A measure of traffic that must be low for anything to be lent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guard {
    /// A query that gives one number.
    #[schemars(length(min = 1, max = 4096))]
    pub prometheus: String,
    /// Nothing is lent while the number is at or above this.
    pub below: Ratio,
    /// A sample older than this counts as unknown, and nothing is lent.
    pub stale_after: Duration,
}

/// Whose work goes first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReclaimOrder {
    /// The work that loses least.
    #[default]
    CheapestFirst,
}

/// A date on which the tide is high or low all day.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exception {
    /// The date, in the tide's time zone.
    pub date: Day,
    /// What the tide is on it.
    pub tide: Level,
}

/// What the tide is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Nothing is lent.
    High,
    /// What the schedule says is lent and resized.
    Low,
}

#[cfg(test)]
mod tests;
