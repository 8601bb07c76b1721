//! Instants on the wall clock, and what the clock does.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::units::Duration;

/// An instant at which the clock jumps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClockChange {
    pub at: Timestamp,
    pub before: Offset,
    pub after: Offset,
}

impl ClockChange {
    /// All of them after `from` and up to `to`. A zone may also change its name, or call its time summer time, with
    /// no jump; that is none.
    pub fn all(zone: &TimeZone, from: Timestamp, to: Timestamp) -> Vec<Self> {
        let mut before = zone.to_offset(from);
        let mut found = Vec::new();
        for change in zone.following(from).take_while(|change| change.timestamp() <= to) {
            let after = change.offset();
            if after != before {
                found.push(Self { at: change.timestamp(), before, after });
            }
            before = after;
        }
        found
    }

    pub fn is_forward(&self) -> bool {
        self.after > self.before
    }

    /// What the wall clock skips or shows twice: from and to.
    pub fn wall(&self) -> (DateTime, DateTime) {
        let (one, other) = (self.before.to_datetime(self.at), self.after.to_datetime(self.at));
        (one.min(other), one.max(other))
    }

    /// "goes back one hour: 01:00–02:00 comes twice"
    pub fn words(&self) -> String {
        let by = self.by();
        let by = match by.as_str() {
            "1h" => "one hour",
            "30m" => "half an hour",
            "1d" => "one day",
            other => other,
        };
        let range = self.range();
        if self.is_forward() {
            format!("goes forward {by}: {range} is skipped")
        } else {
            format!("goes back {by}: {range} comes twice")
        }
    }

    /// The same for the end of a chart's row.
    pub fn note(&self) -> String {
        let (by, range) = (self.by(), self.range());
        if self.is_forward() { format!("clock +{by}: no {range}") } else { format!("clock -{by}: {range} twice") }
    }

    fn by(&self) -> String {
        let seconds = self.after.seconds().abs_diff(self.before.seconds());
        Duration::secs(u64::from(seconds)).to_string()
    }

    fn range(&self) -> String {
        let (from, to) = self.wall();
        if from.time() == Time::midnight() && to.time() == Time::midnight() {
            return from.date().to_string();
        }
        let midnight = to.time() == Time::midnight() && from.date().tomorrow().ok() == Some(to.date());
        if midnight {
            format!("{}–24:00", time(from.time()))
        } else if from.date() == to.date() {
            format!("{}–{}", time(from.time()), time(to.time()))
        } else {
            format!("{} {}–{} {}", from.date(), time(from.time()), to.date(), time(to.time()))
        }
    }
}

/// "Sun 2026-11-01 19:55 -08:00"
pub fn day_and_time(at: Timestamp, zone: &TimeZone) -> String {
    let zoned = at.to_zoned(zone.clone());
    format!("{} {} {}", zoned.strftime("%a %Y-%m-%d"), time(zoned.time()), zoned.strftime("%:z"))
}

/// As short as it can be said on the day of another instant: "05:45", "Mon 05:45" within a week, else with the date.
/// A time that comes twice carries its offset. The midnight that ends the day is "24:00".
pub fn near(at: Timestamp, today: Timestamp, zone: &TimeZone) -> String {
    let zoned = at.to_zoned(zone.clone());
    let days = zoned.date().duration_since(zone.to_datetime(today).date()).as_hours() / 24;
    let twice = zone.to_ambiguous_timestamp(zoned.datetime()).is_ambiguous();
    if days == 1 && zoned.time() == Time::midnight() && !twice {
        return "24:00".into();
    }
    let day = match days {
        0 => String::new(),
        1..=6 => zoned.strftime("%a ").to_string(),
        _ => zoned.strftime("%a %Y-%m-%d ").to_string(),
    };
    let offset = if twice { zoned.strftime(" %:z").to_string() } else { String::new() };
    format!("{day}{}{offset}", time(zoned.time()))
}

/// "19:55", with seconds only if there are some.
pub fn time(time: Time) -> String {
    match time.second() {
        0 => format!("{:02}:{:02}", time.hour(), time.minute()),
        second => format!("{:02}:{:02}:{second:02}", time.hour(), time.minute()),
    }
}

/// A run of time on one date with one offset, as instants and on the wall clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Run {
    pub from: DateTime,
    pub to: DateTime,
    pub offset: Offset,
}

impl Run {
    /// What of it lies between two times on the wall clock.
    pub fn between(&self, from: DateTime, to: DateTime) -> Option<Run> {
        let (from, to) = (self.from.max(from), self.to.min(to));
        (from < to).then_some(Run { from, to, offset: self.offset })
    }

    pub fn instants(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.offset.to_timestamp(self.from).ok()?, self.offset.to_timestamp(self.to).ok()?))
    }
}

/// Everything that a date holds in a zone, in the order in which it passes: nothing for a date that the clock skips,
/// several runs that overlap on the wall clock for one on which an hour comes twice.
pub fn runs(zone: &TimeZone, date: Date) -> Vec<Run> {
    let (midnight, next) = (date.to_datetime(Time::midnight()), date.tomorrow().unwrap_or(Date::MAX));
    let next = next.to_datetime(Time::midnight());
    // No offset is more than 26 hours.
    let around = |wall: DateTime, hours: i64| {
        let utc = Offset::UTC.to_timestamp(wall).unwrap_or(Timestamp::MAX);
        let limit = if hours < 0 { Timestamp::MIN } else { Timestamp::MAX };
        utc.checked_add(SignedDuration::from_hours(hours)).unwrap_or(limit)
    };
    let (start, end) = (around(midnight, -26), around(next, 26));
    let mut edges = vec![start];
    edges.extend(ClockChange::all(zone, start, end).iter().map(|change| change.at));
    edges.push(end);
    edges
        .windows(2)
        .filter_map(|pair| {
            let offset = zone.to_offset(pair[0]);
            let all = Run { from: offset.to_datetime(pair[0]), to: offset.to_datetime(pair[1]), offset };
            all.between(midnight, next)
        })
        .collect()
}
