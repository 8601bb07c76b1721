//! A time on the command line: an instant, a time in the fleet's zone, or `now`.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use crate::units::{Malformed, ZoneName};

/// A time as it is written on the command line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum When {
    Now,
    Instant(Timestamp),
    /// A time of day in the fleet's zone.
    Wall(DateTime),
}

/// An instant, and what to say about how it was found.
#[derive(PartialEq, Debug)]
pub struct Resolved {
    pub at: Timestamp,
    pub note: Option<String>,
}

impl FromStr for When {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let bad = || {
            Malformed(
                "expected a time in the fleet's zone such as 2026-11-01T19:55, an instant such as \
                 2026-11-01T19:55-08:00 or 2026-11-02T03:55Z, or `now`"
                    .into(),
            )
        };
        if text == "now" {
            return Ok(Self::Now);
        }
        if let Ok(instant) = text.parse() {
            return Ok(Self::Instant(instant));
        }
        // The parser passes over an offset that it cannot use, and takes a bare date for midnight: neither is meant.
        let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let known = ["0000-00-00T00:00", "0000-00-00 00:00", "0000-00-00T00:00:00", "0000-00-00 00:00:00"];
        if !known.contains(&shape.as_str()) {
            return Err(bad());
        }
        text.parse().map(Self::Wall).map_err(|_| bad())
    }
}

impl When {
    /// The instant, in the time zone of a fleet.
    pub fn resolve(self, zone: &ZoneName) -> Result<Resolved, String> {
        let wall = match self {
            // Whole seconds: nothing here is finer.
            Self::Now => {
                let now = Timestamp::now();
                return Ok(Resolved { at: Timestamp::from_second(now.as_second()).unwrap_or(now), note: None });
            }
            Self::Instant(at) => return Ok(Resolved { at, note: None }),
            Self::Wall(wall) => wall,
        };
        let instant = |offset: Offset, wall: DateTime| {
            offset.to_timestamp(wall).map_err(|_| format!("{} is outside of the calendar", show(wall)))
        };
        match zone.zone().to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => Ok(Resolved { at: instant(offset, wall)?, note: None }),
            AmbiguousOffset::Fold { before, after } => Ok(Resolved {
                at: instant(before, wall)?,
                note: Some(format!(
                    "note: {0} comes twice in {zone}; this is the first, {0}{1}\n\
                     for the second write --at {0}{2}",
                    show(wall),
                    in_full(before),
                    in_full(after)
                )),
            }),
            AmbiguousOffset::Gap { before, after } => {
                let early = instant(after, wall)?;
                let skip = zone.zone().following(early).next().map_or(early, |skip| skip.timestamp());
                let (from, to) = (before.to_datetime(skip), after.to_datetime(skip));
                Err(format!(
                    "{0} does not exist in {zone}: the clock goes from {1} to {2}\n\
                     write --at {2}, or a time before {1}",
                    show(wall),
                    show(from),
                    show(to)
                ))
            }
        }
    }
}

/// "-08:00": an offset with its minutes, as people write it.
fn in_full(offset: Offset) -> String {
    Timestamp::UNIX_EPOCH.to_zoned(TimeZone::fixed(offset)).strftime("%:z").to_string()
}

/// As it may be written after `--at`.
fn show(wall: DateTime) -> String {
    wall.strftime(if wall.second() == 0 { "%Y-%m-%dT%H:%M" } else { "%Y-%m-%dT%H:%M:%S" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str, zone: &str) -> Result<Resolved, String> {
        let zone: ZoneName = zone.parse().unwrap();
        text.parse::<When>().map_err(|Malformed(why)| why).and_then(|when| when.resolve(&zone))
    }

    #[test]
    fn an_instant_or_a_time_in_the_fleets_zone() {
        let at = "2026-11-02T03:55Z".parse().unwrap();
        for text in [
            "2026-11-01T19:55-08:00",
            "2026-11-02T03:55Z",
            "2026-11-01T19:55",
            "2026-11-01 19:55",
            "2026-11-01T19:55:00",
        ] {
            assert_eq!(resolve(text, "America/Los_Angeles"), Ok(Resolved { at, note: None }), "{text}");
        }
    }

    #[test]
    fn anything_else_is_answered_with_an_example() {
        let wrong = [
            "",
            "yesterday",
            "2026-11-01",
            "2026-13-01T00:00",
            "2026-11-01T25:00",
            "2026-11-01T19:55-99:00",
            "19:55",
            "1793678100",
            "２026-11-01T19:55",
        ];
        for text in wrong {
            let said = resolve(text, "UTC").expect_err(text);
            assert!(said.contains("2026-11-01T19:55-08:00"), "{text}: {said}");
        }
    }

    #[test]
    fn of_a_time_that_comes_twice_it_is_the_first() {
        let found = resolve("2026-11-01T01:30", "America/Los_Angeles").unwrap();
        assert_eq!(found.at, "2026-11-01T01:30-07:00".parse().unwrap());
        insta::assert_snapshot!(found.note.unwrap(), @"
        note: 2026-11-01T01:30 comes twice in America/Los_Angeles; this is the first, 2026-11-01T01:30-07:00
        for the second write --at 2026-11-01T01:30-08:00
        ");
    }

    #[test]
    fn a_time_that_the_clock_skips_is_an_error_that_says_what_to_write() {
        insta::assert_snapshot!(resolve("2026-03-08 02:30", "America/Los_Angeles").unwrap_err(), @"
        2026-03-08T02:30 does not exist in America/Los_Angeles: the clock goes from 2026-03-08T02:00 to 2026-03-08T03:00
        write --at 2026-03-08T03:00, or a time before 2026-03-08T02:00
        ");
        insta::assert_snapshot!(resolve("2011-12-30T12:00", "Pacific/Apia").unwrap_err(), @"
        2011-12-30T12:00 does not exist in Pacific/Apia: the clock goes from 2011-12-30T00:00 to 2011-12-31T00:00
        write --at 2011-12-31T00:00, or a time before 2011-12-30T00:00
        ");
    }
}
