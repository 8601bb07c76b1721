//! How running nodes move to a new version, and windows on the wall clock.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tide::{FOUR_WEEKS, intervals};
use crate::units::{Days, Duration, TimeOfDay, ZoneName};

/// How running nodes move to a new version.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.when) || self.when != 'drain' || !has(self.maxUnavailable) || self.maxUnavailable > 0",
     "message": "TW415: `when: drain` with `maxUnavailable: 0` never moves a node"}
]))]
pub struct Updates {
    /// `idle`: as nodes fall free, gangs are never touched. `drain`: within the budget and the windows.
    #[serde(default)]
    pub when: When,
    /// In which order a node is replaced.
    #[serde(default)]
    pub order: Order,
    /// How many nodes may be out of service at once. A gang moves as a whole; one that spans more nodes than this
    /// moves alone.
    #[serde(default = "one")]
    pub max_unavailable: u32,
    /// Nodes that move first and are watched before the others follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// When nodes may be drained for an update, in the fleet's time zone. Absent: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub windows: Vec<Window>,
}

fn one() -> u32 {
    1
}

impl Default for Updates {
    fn default() -> Self {
        Self {
            when: When::default(),
            order: Order::default(),
            max_unavailable: one(),
            canary: None,
            windows: Vec::new(),
        }
    }
}

/// When running nodes move.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// As nodes fall free; gangs are never touched.
    #[default]
    Idle,
    /// Within the budget and the windows.
    Drain,
}

/// In which order a node is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// Drain, terminate, launch: never a second paid node, and the only order that works in a full reservation.
    #[default]
    DrainThenReplace,
}

/// Nodes that move first and are watched before the others follow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Canary {
    /// How many nodes.
    #[schemars(range(min = 1))]
    pub nodes: u32,
    /// For how long they are watched.
    pub r#for: Duration,
}

/// A window on the wall clock. `to` at or before `from` is on the next day; `to` equal to `from` is 24 hours.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// The weekdays on which it begins: `Sat`, `Mon-Fri`.
    #[schemars(length(min = 1, max = 7))]
    pub days: Vec<Days>,
    /// When it begins, such as `"20:00"`.
    pub from: TimeOfDay,
    /// When it ends, such as `"06:30"`.
    pub to: TimeOfDay,
}

/// Whether some windows are open at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// Until an instant; none: for ever.
    Open { until: Option<Timestamp> },
    /// Until an instant; none: for ever.
    Closed { opens: Option<Timestamp> },
}

impl Opening {
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

/// Every window comes at least once a week; the second is for one that a clock change swallows.
const TWO_WEEKS: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Whether these windows are open at an instant, and until when. No windows at all: open for ever. Clock changes mean
/// what they mean for a tide: a window is never longer than it is written.
pub fn opening_at(windows: &[Window], zone: &ZoneName, now: Timestamp) -> Opening {
    if windows.is_empty() {
        return Opening::Open { until: None };
    }
    let windows: Vec<&Window> = windows.iter().collect();
    let soon = now.checked_add(TWO_WEEKS).unwrap_or(Timestamp::MAX);
    let open = intervals(&windows, &[], &zone.zone(), now, soon);
    match open.first().copied() {
        Some((start, end)) if start <= now => {
            let days = end.duration_since(soon).as_hours() / 24;
            let ends = days < i64::from(FOUR_WEEKS) - 1;
            Opening::Open { until: ends.then_some(end) }
        }
        next => Opening::Closed { opens: next.map(|(start, _)| start) },
    }
}

/// The first instant from `now` on at which something of this length may begin and still ends while the windows are
/// open. None: no window is ever that long.
pub fn fits_at(windows: &[Window], zone: &ZoneName, now: Timestamp, length: SignedDuration) -> Option<Timestamp> {
    if windows.is_empty() {
        return Some(now);
    }
    let windows: Vec<&Window> = windows.iter().collect();
    let soon = now.checked_add(TWO_WEEKS).unwrap_or(Timestamp::MAX);
    let open = intervals(&windows, &[], &zone.zone(), now, soon);
    let mut begins = open.into_iter().map(|(start, end)| (start.max(now), end));
    begins.find(|(start, end)| end.duration_since(*start) >= length).map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(days: &str, from: &str, to: &str) -> Window {
        Window { days: vec![days.parse().unwrap()], from: from.parse().unwrap(), to: to.parse().unwrap() }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check(windows: &[Window], now: &str, expected: Opening) {
        assert_eq!(opening_at(windows, &"America/Los_Angeles".parse().unwrap(), at(now)), expected, "{now}");
    }

    fn open(until: &str) -> Opening {
        Opening::Open { until: Some(at(until)) }
    }

    fn closed(opens: &str) -> Opening {
        Opening::Closed { opens: Some(at(opens)) }
    }

    #[test]
    fn a_window_is_open_from_its_beginning_to_just_before_its_end() {
        let office = [window("Mon-Thu", "10:00", "16:00")];
        check(&office, "2026-06-08T09:59:59-07:00", closed("2026-06-08T10:00-07:00"));
        check(&office, "2026-06-08T10:00-07:00", open("2026-06-08T16:00-07:00"));
        check(&office, "2026-06-08T15:59:59-07:00", open("2026-06-08T16:00-07:00"));
        check(&office, "2026-06-11T16:00-07:00", closed("2026-06-15T10:00-07:00"));
    }

    #[test]
    fn windows_that_touch_are_one() {
        let both = [window("Sat", "06:30", "06:30"), window("Sun", "06:30", "18:00")];
        check(&both, "2026-06-13T12:00-07:00", open("2026-06-14T18:00-07:00"));
    }

    #[test]
    fn no_windows_are_open_for_ever_and_so_are_windows_that_leave_nothing_out() {
        check(&[], "2026-06-08T09:00-07:00", Opening::Open { until: None });
        check(&[window("Mon-Sun", "00:00", "00:00")], "2026-06-08T09:00-07:00", Opening::Open { until: None });
        check(&[window("Mon-Sun", "00:00", "23:00")], "2026-06-08T09:00-07:00", open("2026-06-08T23:00-07:00"));
    }

    #[test]
    fn what_does_not_end_in_a_window_begins_in_the_next_that_is_long_enough() {
        let both = [window("Mon", "10:00", "11:00"), window("Tue", "10:00", "16:00")];
        let fits = |now: &str, mins: i64| {
            let zone = "America/Los_Angeles".parse().unwrap();
            fits_at(&both, &zone, at(now), SignedDuration::from_mins(mins))
        };
        assert_eq!(fits("2026-06-08T10:10-07:00", 50), Some(at("2026-06-08T10:10-07:00")));
        assert_eq!(fits("2026-06-08T10:11-07:00", 50), Some(at("2026-06-09T10:00-07:00")));
        assert_eq!(fits("2026-06-08T08:00-07:00", 90), Some(at("2026-06-09T10:00-07:00")));
        assert_eq!(fits("2026-06-09T15:30-07:00", 50), Some(at("2026-06-15T10:00-07:00")));
        assert_eq!(fits("2026-06-08T08:00-07:00", 361), None);
        let noon = at("2026-06-08T12:00-07:00");
        assert_eq!(fits_at(&[], &ZoneName::utc(), noon, SignedDuration::from_hours(999)), Some(noon));
    }

    /// 2026-03-08 02:00 becomes 03:00, and 2026-11-01 02:00 becomes 01:00.
    #[test]
    fn clock_changes_are_read_as_a_tide_reads_them() {
        check(&[window("Sun", "01:30", "06:00")], "2026-11-01T01:45-07:00", closed("2026-11-01T01:30-08:00"));
        check(&[window("Sun", "00:00", "01:30")], "2026-11-01T01:15-08:00", closed("2026-11-08T00:00-08:00"));
        // The clock skips the whole window, so it comes a week later.
        check(&[window("Sun", "02:15", "02:45")], "2026-03-08T00:00-08:00", closed("2026-03-15T02:15-07:00"));
        check(&[window("Sun", "02:30", "06:00")], "2026-03-08T00:00-08:00", closed("2026-03-08T03:00-07:00"));
    }
}
