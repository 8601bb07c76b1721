//! How single words may look: one table of formats, each with a pattern for editors and API servers and a check that
//! explains itself. Schemas name a format in `x-tidewright-format`; the walk looks it up here.
//!
//! These are the borders where the rules of Kubernetes and EC2 are kept: a name that is legal here is legal there.

use std::borrow::Cow;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use crate::fleet::reservation::End;
use crate::ids::{
    GpuModel, InstanceType, LayoutName, LevelName, MigProfile, PoolName, QuotaName, ReservationName, TierName, Zone,
};
use crate::units::{Day, Days, Duration, Instant, Malformed, Percent, Ratio, TimeOfDay, Usd, ZoneName};

/// One way in which a word may look.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    pub name: &'static str,
    /// A regular expression of ECMA 262 that also RE2 reads. Looser than `check` where a pattern cannot say it, never
    /// stricter.
    pub pattern: &'static str,
    /// The longest word in characters, for an API server that works out what a rule over it may cost; 0 for numbers.
    pub longest: usize,
    pub check: fn(&str) -> Result<(), Malformed>,
}

pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

const FORMATS: &[Format] = &[
    text("name", 63, "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", name),
    text("subdomain", 253, "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", subdomain),
    text("cohort", 253, "^[a-z0-9]([-a-z0-9/]{0,251}[a-z0-9])?$", cohort),
    text("labelKey", 317, LABEL_KEY, label_key),
    text("labelValue", 63, "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$", label_value),
    text("instanceType", 63, "^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$", instance_type),
    text("gpuModel", 63, "^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$", instance_type),
    text("migProfile", 26, "^[1-9]g\\.[1-9][0-9]{0,3}gb([+-][a-z.]{1,16})?$", mig_profile),
    text("zone", 63, "^[a-z]{2}(-[a-z]+)+-[0-9]([a-z]|(-[a-z0-9]+)+)$", zone),
    text("region", 63, "^[a-z]{2}(-[a-z]+)+-[0-9]$", region),
    text("accountId", 12, "^[0-9]{12}$", account_id),
    text("url", 2048, "^https?://[^ ]+$", url),
    text("reservationId", 20, "^cr-[0-9a-f]{8,17}$", reservation_id),
    text("imageId", 21, "^ami-[0-9a-f]{8,17}$", image_id),
    text("ssmName", 1011, "^/[-A-Za-z0-9_./]{1,1010}$", ssm_name),
    text("tagKey", 128, "^[^\\u0000]+$", tag_key),
    text("tagValue", 256, "", tag_value),
    text("conditionType", 316, "^[A-Za-z]([-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?$", condition_type),
    text("duration", 32, "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$", parses::<Duration>),
    text("timeOfDay", 5, "^([01][0-9]|2[0-3]):[0-5][0-9]$", parses::<TimeOfDay>),
    text("days", 7, DAYS, parses::<Days>),
    text("percent", 4, "^([1-9][0-9]?|100)%$", parses::<Percent>),
    text("timeZone", 64, "^[A-Z][-+A-Za-z0-9_]*(/[-+A-Za-z0-9_]+)*$", parses::<ZoneName>),
    text("date", 10, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", parses::<Day>),
    text("instant", 64, INSTANT, parses::<Instant>),
    text("end", 64, END, parses::<End>),
    Format { name: "usd", pattern: "", longest: 0, check: parses::<Usd> },
    Format { name: "ratio", pattern: "", longest: 0, check: parses::<Ratio> },
];

const fn text(
    name: &'static str,
    longest: usize,
    pattern: &'static str,
    check: fn(&str) -> Result<(), Malformed>,
) -> Format {
    Format { name, pattern, longest, check }
}

const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";

const DAYS: &str = "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?$";
const INSTANT: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}.*$";
const END: &str = "^(never|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}.*)$";

fn parses<T: FromStr<Err = Malformed>>(text: &str) -> Result<(), Malformed> {
    text.parse::<T>().map(drop)
}

fn expect(holds: bool, expected: &str) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(Malformed(expected.into())) }
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| inner(b) || b == b'-')
        && text.bytes().next().is_some_and(inner)
        && text.bytes().last().is_some_and(inner)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric())
}

/// Whether a node can carry it as the value of a label.
pub fn is_label_value(text: &str) -> bool {
    label_value(text).is_ok()
}

fn name(text: &str) -> Result<(), Malformed> {
    expect(
        is_label(text),
        "a name of at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit",
    )
}

fn subdomain(text: &str) -> Result<(), Malformed> {
    expect(is_subdomain(text), "a name of lower-case letters, digits, `-` and `.`, as Kubernetes has it")
}

fn cohort(text: &str) -> Result<(), Malformed> {
    expect(
        text.len() <= 253 && text.split('/').all(is_label),
        "a cohort's name, or the path to a nested one such as research/vision",
    )
}

fn label_key(text: &str) -> Result<(), Malformed> {
    let (prefix, key) = text.split_once('/').map_or((None, text), |(prefix, key)| (Some(prefix), key));
    expect(
        prefix.is_none_or(is_subdomain) && is_qualified(key),
        "a label's key such as workload or example.com/workload",
    )
}

fn label_value(text: &str) -> Result<(), Malformed> {
    expect(
        text.is_empty() || is_qualified(text),
        "a label's value: at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit",
    )
}

fn instance_type(text: &str) -> Result<(), Malformed> {
    expect(
        text.len() <= 63 && is_subdomain(text),
        "a name of lower-case letters, digits, `-` and `.` such as p5.48xlarge or dgx-h100",
    )
}

fn mig_profile(text: &str) -> Result<(), Malformed> {
    let rest = text.strip_prefix(|c: char| ('1'..='9').contains(&c)).and_then(|rest| rest.strip_prefix("g."));
    let parts = rest.and_then(|rest| rest.split_once("gb"));
    let fine = parts.is_some_and(|(gb, suffix)| {
        let number = !gb.is_empty() && gb.len() <= 4 && !gb.starts_with('0') && gb.bytes().all(|b| b.is_ascii_digit());
        let letters = |s: &str| (1..=16).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_lowercase() || b == b'.');
        number && (suffix.is_empty() || suffix.strip_prefix(['+', '-']).is_some_and(letters))
    });
    expect(fine, "a MIG profile such as 1g.10gb or 1g.10gb+me")
}

/// The part up to the number, such as `us-west-2`, and what stands behind it.
fn place(text: &str) -> Option<&str> {
    let number = text.find(|c: char| c.is_ascii_digit())?;
    let mut words = text[..number].strip_suffix('-')?.split('-');
    let letters = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    let fine = words.next().is_some_and(|first| first.len() == 2 && letters(first))
        && words.clone().next().is_some()
        && words.all(letters);
    (fine && text.len() <= 63).then(|| &text[number + 1..])
}

fn region(text: &str) -> Result<(), Malformed> {
    expect(place(text) == Some(""), "a region such as us-west-2")
}

fn zone(text: &str) -> Result<(), Malformed> {
    let fine = place(text).is_some_and(|rest| match rest.strip_prefix('-') {
        // A local zone, such as us-west-2-lax-1a.
        Some(rest) => rest
            .split('-')
            .all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())),
        None => rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_lowercase()),
    });
    expect(fine, "an availability zone such as us-west-2a")
}

fn account_id(text: &str) -> Result<(), Malformed> {
    expect(text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit()), "an account id of 12 digits, in quotes")
}

fn url(text: &str) -> Result<(), Malformed> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fine = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains([' ', '\n', '\r'])) && text.len() <= 2048;
    expect(fine, "a URL such as http://127.0.0.1:5000")
}

fn hex_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (8..=17).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

fn reservation_id(text: &str) -> Result<(), Malformed> {
    expect(hex_id(text, "cr-"), "the id of a capacity reservation such as cr-0123456789abcdef0")
}

fn image_id(text: &str) -> Result<(), Malformed> {
    expect(hex_id(text, "ami-"), "the id of an image such as ami-0123456789abcdef0")
}

fn ssm_name(text: &str) -> Result<(), Malformed> {
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    expect(
        text.starts_with('/') && (2..=1011).contains(&text.len()) && text.bytes().all(letters),
        "the name of an SSM parameter, beginning with `/`",
    )
}

fn tag_key(text: &str) -> Result<(), Malformed> {
    expect((1..=128).contains(&text.chars().count()), "a tag's key of 1 to 128 characters")
}

fn tag_value(text: &str) -> Result<(), Malformed> {
    expect(text.chars().count() <= 256, "a tag's value of at most 256 characters")
}

fn condition_type(text: &str) -> Result<(), Malformed> {
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    let fine = (1..=316).contains(&text.len())
        && text.bytes().all(letters)
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric());
    expect(fine, "the type of a node condition such as AcceleratedHardwareReady")
}

impl FromStr for End {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        if text == "never" {
            return Ok(Self::Never);
        }
        text.parse().map(Self::At).map_err(|_| Malformed("`never`, or an instant such as 2027-01-31T00:00Z".into()))
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Never => serializer.serialize_str("never"),
            Self::At(instant) => serializer.collect_str(instant),
        }
    }
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

macro_rules! schema_of_words {
    ($($name:ident: $kind:literal, $format:literal;)*) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": $kind, "x-tidewright-format": $format})
            }
        }
    )*};
}

schema_of_words! {
    PoolName: "string", "name";
    ReservationName: "string", "name";
    LayoutName: "string", "name";
    TierName: "string", "name";
    QuotaName: "string", "name";
    LevelName: "string", "name";
    InstanceType: "string", "instanceType";
    GpuModel: "string", "gpuModel";
    MigProfile: "string", "migProfile";
    Zone: "string", "zone";
    Duration: "string", "duration";
    TimeOfDay: "string", "timeOfDay";
    Days: "string", "days";
    Percent: "string", "percent";
    ZoneName: "string", "timeZone";
    Day: "string", "date";
    Instant: "string", "instant";
    End: "string", "end";
    Usd: "number", "usd";
    Ratio: "number", "ratio";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format_name: &str, good: &[&str], bad: &[&str]) {
        let format = format(format_name).expect("a format");
        for text in good {
            assert_eq!((format.check)(text), Ok(()), "{format_name}: {text}");
        }
        for text in bad {
            assert!((format.check)(text).is_err(), "{format_name}: {text}");
        }
    }

    #[test]
    fn names_follow_kubernetes_and_ec2() {
        check("name", &["a", "h100-base", "0x"], &["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(64)]);
        check("labelKey", &["gpu", "example.com/Gpu_1"], &["", "/x", "Example.com/x", "a/b/c", "-x"]);
        check("labelValue", &["", "h100", "A_b.c"], &["a b", "-a", "a/"]);
        check(
            "migProfile",
            &["1g.10gb", "1g.5gb+me", "1g.24gb+me.all", "1g.24gb-me"],
            &["1g", "0g.5gb", "1g.05gb", "1g.5GB"],
        );
        check("zone", &["us-west-2a", "us-west-2-lax-1a"], &["us-west-2", "west", "US-west-2a", "us-2a", "us-west-2-"]);
        check("region", &["us-west-2", "ap-southeast-4", "us-gov-west-1"], &["us-west-2a", "us", "us-west"]);
        check("accountId", &["123456789012"], &["12345678901", "12345678901a"]);
        check("cohort", &["research", "research/vision"], &["", "/a", "a/", "a//b", "A"]);
    }
}
