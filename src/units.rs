//! Values with a unit: money, lengths of time, times of day, weekdays, percentages, time zones.
//!
//! Each is written in YAML as one scalar, and each has one parser here, which serde, the schema walk and the
//! command line share. Not here: what a value means for a fleet.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Time, Weekday};
use jiff::{SignedDuration, Timestamp};
use rust_decimal::Decimal;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// US dollars, exact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Usd(pub Decimal);

/// A plain decimal number, exact: a ratio or a threshold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Ratio(pub Decimal);

/// A length of time: `90s`, `45m`, `2h`, `7d`, or several such parts in a row (`1h30m`). A day is 24 hours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Duration(u64);

/// A time of day on the wall clock: `06:30`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimeOfDay(pub Time);

/// One weekday or a run of them: `Sat`, `Mon-Fri`, `Fri-Mon`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Days {
    pub first: Weekday,
    pub last: Weekday,
}

/// A share of a whole, written `10%`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Percent(pub u8);

/// A time zone of the IANA database: `America/Los_Angeles`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneName(String);

/// A civil date: `2026-11-27`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Day(pub Date);

/// An instant: `2026-06-20T00:00Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(pub Timestamp);

/// What is wrong with a scalar, in words that complete "expected …".
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

fn malformed<T>(text: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(text.into()))
}

/// Decimals are kept to 15 significant digits, because that is what survives every JSON reader between here and a
/// Kubernetes API server.
const DIGITS: usize = 15;
/// Writers of JSON and YAML write smaller numbers with an exponent, and not all readers agree on those.
const SMALLEST: Decimal = Decimal::from_parts(1, 0, 0, false, 4);

fn decimal(text: &str) -> Result<Decimal, Malformed> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if digits > DIGITS {
        return malformed(format!("a number of at most {DIGITS} digits"));
    }
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-') {
        return malformed("a plain decimal number such as 1200 or 38.10");
    }
    let value = Decimal::from_str(text).or_else(|_| malformed("a plain decimal number such as 1200 or 38.10"))?;
    if !value.is_zero() && value.abs() < SMALLEST {
        return malformed(format!("zero, or a number of at least {SMALLEST}"));
    }
    Ok(value)
}

impl FromStr for Usd {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let value = decimal(text)?;
        if value.is_sign_negative() && !value.is_zero() {
            malformed("an amount of zero or more")
        } else {
            Ok(Self(value))
        }
    }
}

impl FromStr for Ratio {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        decimal(text).map(Self)
    }
}

impl Duration {
    pub const fn secs(secs: u64) -> Self {
        Self(secs)
    }
    pub const fn minutes(minutes: u64) -> Self {
        Self(minutes * 60)
    }
    pub const fn hours(hours: u64) -> Self {
        Self(hours * 3600)
    }
    pub const fn days(days: u64) -> Self {
        Self(days * 86_400)
    }
    pub const fn as_secs(self) -> u64 {
        self.0
    }
    /// Never fails: the parser bounds a length at [`LONGEST`].
    pub fn signed(self) -> SignedDuration {
        SignedDuration::from_secs(i64::try_from(self.0).unwrap_or(i64::MAX))
    }
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Ten years: longer than any commitment a cloud sells, short enough that no sum of lengths overflows.
const LONGEST: u64 = 10 * 366 * 86_400;

impl FromStr for Duration {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let bad = || Malformed("a length of time such as 90s, 45m, 2h, 7d or 1h30m".into());
        let (mut total, mut number, mut smallest) = (0u64, None::<u64>, u64::MAX);
        // Longer only with zeros in front.
        if text.len() > 32 {
            return Err(bad());
        }
        for c in text.chars() {
            if let Some(digit) = c.to_digit(10) {
                let so_far = number.unwrap_or(0).checked_mul(10).ok_or_else(bad)?;
                number = Some(so_far.checked_add(u64::from(digit)).ok_or_else(bad)?);
                continue;
            }
            let unit = match c {
                's' => 1,
                'm' => 60,
                'h' => 3600,
                'd' => 86_400,
                _ => return Err(bad()),
            };
            // Parts go from large to small, so that `30m1h` and `1h1h` are not two spellings of one length.
            if unit >= smallest {
                return Err(bad());
            }
            smallest = unit;
            let part = number.take().ok_or_else(bad)?.checked_mul(unit).ok_or_else(bad)?;
            total = total.checked_add(part).ok_or_else(bad)?;
        }
        if number.is_some() || smallest == u64::MAX {
            return Err(bad());
        }
        if total > LONGEST { malformed("a length of time of at most ten years") } else { Ok(Self(total)) }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, letter) in [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')] {
            if rest >= unit {
                write!(f, "{}{letter}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

impl FromStr for TimeOfDay {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let bad = || Malformed("a time of day from \"00:00\" to \"23:59\"".into());
        let (hour, minute) = text.split_once(':').ok_or_else(bad)?;
        if hour.len() != 2 || minute.len() != 2 {
            return Err(bad());
        }
        let part = |s: &str| match s.bytes().all(|b| b.is_ascii_digit()) {
            true => s.parse::<i8>().map_err(|_| bad()),
            false => Err(bad()),
        };
        Time::new(part(hour)?, part(minute)?, 0, 0).map(Self).map_err(|_| bad())
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
    }
}

const WEEK: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday),
    ("Tue", Weekday::Tuesday),
    ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday),
    ("Fri", Weekday::Friday),
    ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];

impl Days {
    /// A run may cross the week's end: `Fri-Mon` holds Friday to Monday.
    pub fn contains(self, day: Weekday) -> bool {
        self.first.until(day) <= self.first.until(self.last)
    }
}

impl FromStr for Days {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let day = |name: &str| {
            WEEK.iter().find(|(short, _)| *short == name).map(|(_, day)| *day).ok_or_else(|| {
                Malformed("a weekday or a run of them: Mon, Tue, Wed, Thu, Fri, Sat, Sun, Mon-Fri".into())
            })
        };
        match text.split_once('-') {
            None => day(text).map(|one| Self { first: one, last: one }),
            Some((first, last)) => Ok(Self { first: day(first)?, last: day(last)? }),
        }
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |day: Weekday| WEEK.iter().find(|(_, d)| *d == day).map_or("", |(short, _)| short);
        if self.first == self.last {
            f.write_str(short(self.first))
        } else {
            write!(f, "{}-{}", short(self.first), short(self.last))
        }
    }
}

impl FromStr for Percent {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let number = text.strip_suffix('%').filter(|n| n.starts_with(|c: char| ('1'..='9').contains(&c)));
        let number = number.and_then(|n| n.parse::<u8>().ok()).filter(|n| (1..=100).contains(n));
        number.map(Self).ok_or_else(|| Malformed("a percentage from \"1%\" to \"100%\"".into()))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl ZoneName {
    pub fn utc() -> Self {
        Self("UTC".into())
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
    pub fn zone(&self) -> jiff::tz::TimeZone {
        jiff::tz::TimeZone::get(&self.0).expect("a ZoneName is only made from a name the database knows")
    }
}

impl FromStr for ZoneName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        match jiff::tz::TimeZone::get(text) {
            // The database also answers to other capitals; one spelling keeps documents equal.
            Ok(zone) if zone.iana_name() == Some(text) => Ok(Self(text.into())),
            _ => malformed(match near_zone(text) {
                Some(near) => format!("a time zone of the IANA database, perhaps {near}"),
                None => "a time zone of the IANA database such as America/Los_Angeles or UTC".into(),
            }),
        }
    }
}

/// What was meant by a name that no zone has: other capitals, a city alone, or a slip. An abbreviation such as `PST` is
/// near to many zones and means none of them.
fn near_zone(text: &str) -> Option<String> {
    let all: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    let city = text.replace(' ', "_");
    let same = all.iter().find(|name| name.eq_ignore_ascii_case(&city));
    let is_city = |name: &&String| name.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city));
    let slip = || crate::diag::nearest(text, all.iter().map(String::as_str)).filter(|_| text.contains('/'));
    same.or_else(|| all.iter().find(is_city)).map(String::as_str).or_else(slip).map(String::from)
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Day {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        if !is_date(text) {
            return malformed("a date of the calendar such as 2026-11-27");
        }
        text.parse().map(Self).or_else(|_| malformed("a date of the calendar such as 2026-11-27"))
    }
}

/// Four digits, two, two. The parser of dates takes more spellings than one.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, b)| if matches!(at, 4 | 7) { b == b'-' } else { b.is_ascii_digit() })
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Instant {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let bytes = text.as_bytes();
        // A date, a time with minutes, and an offset; no longer than any such instant.
        let looks = text.is_char_boundary(10)
            && is_date(&text[..10])
            && matches!(bytes.get(10), Some(b'T' | b't' | b' '))
            && bytes.get(13) == Some(&b':')
            && text.len() <= 64;
        let instant = looks.then(|| text.parse().ok()).flatten();
        instant.map(Self).ok_or_else(|| Malformed("an instant with its offset, such as 2026-06-20T00:00Z".into()))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// serde for a value that is a YAML string.
macro_rules! as_string {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}
as_string!(Duration, TimeOfDay, Days, Percent, ZoneName, Day, Instant);

/// serde for a value that is a YAML number. A float's shortest text is the text that was written, up to [`DIGITS`].
macro_rules! as_number {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text = self.0.normalize().to_string();
                match text.parse::<i64>() {
                    Ok(whole) => serializer.serialize_i64(whole),
                    Err(_) => serializer.serialize_f64(text.parse().map_err(serde::ser::Error::custom)?),
                }
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Number;
                impl Visitor<'_> for Number {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a number")
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        number.to_string().parse().map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$name, E> {
                        number.to_string().parse().map_err(E::custom)
                    }
                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$name, E> {
                        number.to_string().parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Number)
            }
        }
    )*};
}
as_number!(Usd, Ratio);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_one_spelling() {
        for (text, secs) in [("0s", 0), ("90s", 90), ("45m", 2700), ("7d", 604_800), ("1h30m", 5400)] {
            assert_eq!(text.parse(), Ok(Duration(secs)), "{text}");
        }
        for text in ["", "5", "m", "1h1h", "30m1h", "-1h", "1.5h", "1w", "99999999999999999999d", "400000d"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn money_survives_json() {
        let fee: Usd = "371002.88".parse().expect("a fee");
        let json = serde_json::to_string(&fee).expect("a number");
        assert_eq!(json, "371002.88");
        assert_eq!(serde_json::from_str::<Usd>(&json).expect("a fee"), fee);
        assert!("1234567890.1234567".parse::<Usd>().is_err(), "more digits than JSON keeps");
        assert!("1e3".parse::<Usd>().is_err() && "-1".parse::<Usd>().is_err());
        let small: Usd = "0.0001".parse().expect("a small fee");
        assert_eq!(serde_json::to_string(&small).expect("a number"), "0.0001");
        assert!("0.00001".parse::<Usd>().is_err(), "written as 1e-5");
    }

    #[test]
    fn weekdays_may_cross_the_end_of_the_week() {
        let days: Days = "Fri-Mon".parse().expect("days");
        assert!(days.contains(Weekday::Sunday) && !days.contains(Weekday::Tuesday));
        assert!("mon".parse::<Days>().is_err() && "Mon-".parse::<Days>().is_err());
    }

    #[test]
    fn a_misspelt_zone_is_answered_with_the_near_one() {
        let wrong = "America/Los_Angles".parse::<ZoneName>().expect_err("no such zone");
        assert!(wrong.0.ends_with("America/Los_Angeles"), "{wrong}");
        assert_eq!(near_zone("los angeles").as_deref(), Some("America/Los_Angeles"));
        assert_eq!(near_zone("utc").as_deref(), Some("UTC"));
        assert_eq!(near_zone("PST"), None, "not EST, three hours away");
    }
}
