//! What a plan does to the world, as upper bounds: what an approval covers and spends.
//!
//! No node, no UID and no order: the same change planned again an hour later has the same effects, unless it grew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::digest_of;
use crate::ids::{Digest, PoolName, QuotaName, ReservationName, TideName};
use crate::observed::ObjectKey;
use crate::units::Usd;

/// Bounds by verb and subject.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Effects(pub BTreeMap<EffectKey, Amount>);

/// What is done to what, written `launch pool/train`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EffectKey {
    pub verb: Verb,
    pub on: Thing,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    Terminate,
    Drain,
    Cancel,
    Purchase,
    Reserve,
    Resize,
    Cut,
    Reboot,
    Release,
    Exchange,
    Claim,
    Launch,
    Delete,
    Apply,
}

/// What a plan speaks of: never a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Thing {
    Fleet,
    Pool(PoolName),
    Reservation(ReservationName),
    Quota(QuotaName),
    Tide(TideName),
    /// Objects of the cluster that belong to no one of these, by kind.
    Objects(String),
}

#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Amount {
    /// Nodes, reservations or objects.
    pub count: u32,
    /// More to pay an hour; never less than nothing.
    pub usd_hour: Usd,
    pub usd_upfront: Usd,
    /// GPUs whose work is disturbed.
    pub gpus: u32,
    /// Work that may be lost, in GPU-seconds.
    pub gpu_secs: u64,
    pub teams: BTreeSet<QuotaName>,
    /// The highest rank of a tier that is disturbed.
    pub highest: Option<i32>,
    /// Objects, with what is written; none where they are deleted. Whoever approved one text did not approve another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<ObjectKey, Option<Digest>>,
    /// What nodes are launched as, or replaced by: whoever approved one image did not approve another.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub templates: BTreeSet<Digest>,
}

/// Something that goes beyond what was approved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Excess {
    pub key: EffectKey,
    pub wanted: Amount,
    pub approved: Option<Amount>,
}

/// An approved change may wait a day: the work that it disturbs grows older by that much.
const GROWS_OLDER_SECS: u64 = 24 * 3600;

impl Effects {
    pub fn one(verb: Verb, on: Thing, amount: Amount) -> Self {
        Self(BTreeMap::from([(EffectKey { verb, on }, amount)]))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Effects) {
        for (key, amount) in &other.0 {
            self.0.entry(key.clone()).or_default().add(amount);
        }
    }

    /// Whether all of this is covered by what was approved, or what goes beyond it.
    pub fn within(&self, approved: &Effects) -> Result<(), Vec<Excess>> {
        let beyond = self.0.iter().filter_map(|(key, wanted)| {
            let found = approved.0.get(key);
            let covered = found.is_some_and(|approved| wanted.within(approved));
            (!covered).then(|| Excess { key: key.clone(), wanted: wanted.clone(), approved: found.cloned() })
        });
        let beyond: Vec<Excess> = beyond.collect();
        if beyond.is_empty() { Ok(()) } else { Err(beyond) }
    }

    /// What is left of an approval after this was done.
    pub fn without(&self, done: &Effects) -> Effects {
        let mut left = self.clone();
        for (key, amount) in &done.0 {
            if let Some(found) = left.0.get_mut(key) {
                found.subtract(amount);
                if found.count == 0 {
                    left.0.remove(key);
                }
            }
        }
        left
    }

    pub fn digest(&self) -> Digest {
        digest_of(self)
    }

    pub fn get(&self, verb: Verb, on: &Thing) -> Option<&Amount> {
        self.0.get(&EffectKey { verb, on: on.clone() })
    }
}

impl Amount {
    pub fn count(count: u32) -> Self {
        Self { count, ..Self::default() }
    }

    /// An object that is written with this, or deleted.
    pub fn object(key: &ObjectKey, written: Option<&Digest>) -> Self {
        Self { objects: BTreeMap::from([(key.clone(), written.map(short))]), ..Self::count(1) }
    }

    /// Whether nodes become what nobody approved.
    pub fn is_other_template(&self, approved: &Amount) -> bool {
        !self.templates.is_subset(&approved.templates)
    }

    pub fn add(&mut self, other: &Amount) {
        self.count = self.count.saturating_add(other.count);
        self.usd_hour = Usd(self.usd_hour.0.saturating_add(other.usd_hour.0));
        self.usd_upfront = Usd(self.usd_upfront.0.saturating_add(other.usd_upfront.0));
        self.gpus = self.gpus.saturating_add(other.gpus);
        self.gpu_secs = self.gpu_secs.saturating_add(other.gpu_secs);
        self.teams.extend(other.teams.iter().cloned());
        self.highest = self.highest.max(other.highest);
        self.objects.extend(other.objects.iter().map(|(key, written)| (key.clone(), written.clone())));
        self.templates.extend(other.templates.iter().cloned());
    }

    /// Objects that are written differently, or that were not named at all.
    pub fn unnamed<'a>(&'a self, approved: &'a Amount) -> impl Iterator<Item = &'a ObjectKey> {
        let differs = |(key, written): &(&ObjectKey, &Option<Digest>)| approved.objects.get(*key) != Some(*written);
        self.objects.iter().filter(differs).map(|(key, _)| key)
    }

    fn within(&self, approved: &Amount) -> bool {
        let older = u64::from(approved.gpus).saturating_mul(GROWS_OLDER_SECS);
        self.count <= approved.count
            && self.usd_hour <= approved.usd_hour
            && self.usd_upfront <= approved.usd_upfront
            && self.gpus <= approved.gpus
            && self.gpu_secs <= approved.gpu_secs.saturating_add(older)
            && self.teams.is_subset(&approved.teams)
            && self.highest <= approved.highest
            && self.unnamed(approved).next().is_none()
            && !self.is_other_template(approved)
    }

    /// What goes beyond an approval although the count does not: its name, how much it is, and how much is left.
    pub fn beyond(&self, approved: &Amount) -> Option<(&'static str, String, String)> {
        let teams = |amount: &Amount| amount.teams.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if self.count > approved.count {
            None
        } else if self.usd_hour > approved.usd_hour {
            Some(("dollars an hour", self.usd_hour.to_string(), approved.usd_hour.to_string()))
        } else if self.usd_upfront > approved.usd_upfront {
            Some(("dollars upfront", self.usd_upfront.to_string(), approved.usd_upfront.to_string()))
        } else if self.gpus > approved.gpus {
            Some(("GPUs disturbed", self.gpus.to_string(), approved.gpus.to_string()))
        } else if !self.teams.is_subset(&approved.teams) {
            Some(("disturbed", teams(self), teams(approved)))
        } else if self.highest > approved.highest {
            Some(("a higher tier disturbed", format!("{:?}", self.highest), format!("{:?}", approved.highest)))
        } else {
            Some(("GPU-seconds of work lost", self.gpu_secs.to_string(), approved.gpu_secs.to_string()))
        }
    }

    /// Counts and money go down; who may be disturbed stays.
    fn subtract(&mut self, done: &Amount) {
        let less = |a: Usd, b: Usd| Usd((a.0 - b.0).max(Decimal::ZERO));
        self.count = self.count.saturating_sub(done.count);
        self.usd_hour = less(self.usd_hour, done.usd_hour);
        self.usd_upfront = less(self.usd_upfront, done.usd_upfront);
        self.gpus = self.gpus.saturating_sub(done.gpus);
        self.gpu_secs = self.gpu_secs.saturating_sub(done.gpu_secs);
        self.objects.retain(|key, _| !done.objects.contains_key(key));
    }
}

/// As much of a digest as tells two contents apart: the ledger keeps it.
pub fn short(digest: &Digest) -> Digest {
    digest.as_str().get(..16).unwrap_or(digest.as_str()).into()
}

impl Verb {
    pub const ALL: [Self; 14] = [
        Self::Terminate,
        Self::Drain,
        Self::Cancel,
        Self::Purchase,
        Self::Reserve,
        Self::Resize,
        Self::Cut,
        Self::Reboot,
        Self::Release,
        Self::Exchange,
        Self::Claim,
        Self::Launch,
        Self::Delete,
        Self::Apply,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Drain => "drain",
            Self::Cancel => "cancel",
            Self::Purchase => "purchase",
            Self::Reserve => "reserve",
            Self::Resize => "resize",
            Self::Cut => "cut",
            Self::Reboot => "reboot",
            Self::Release => "release",
            Self::Exchange => "exchange",
            Self::Claim => "claim",
            Self::Launch => "launch",
            Self::Delete => "delete",
            Self::Apply => "apply",
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("fleet"),
            Self::Pool(name) => write!(f, "pool/{name}"),
            Self::Reservation(name) => write!(f, "reservation/{name}"),
            Self::Quota(name) => write!(f, "quota/{name}"),
            Self::Tide(name) => write!(f, "tide/{name}"),
            Self::Objects(kind) => write!(f, "objects/{kind}"),
        }
    }
}

impl FromStr for Thing {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            None if text == "fleet" => Ok(Self::Fleet),
            Some(("pool", name)) => Ok(Self::Pool(name.into())),
            Some(("reservation", name)) => Ok(Self::Reservation(name.into())),
            Some(("quota", name)) => Ok(Self::Quota(name.into())),
            Some(("tide", name)) => Ok(Self::Tide(name.into())),
            Some(("objects", name)) => Ok(Self::Objects(name.into())),
            _ => Err(format!(
                "`{text}` is no part of a fleet: write pool/NAME, reservation/NAME, quota/NAME or tide/NAME"
            )),
        }
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.name(), self.on)
    }
}

impl FromStr for EffectKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (verb, on) = text.split_once(' ').ok_or_else(|| format!("`{text}` is no effect"))?;
        let verb = Verb::ALL.into_iter().find(|known| known.name() == verb);
        Ok(Self { verb: verb.ok_or_else(|| format!("`{text}` is no effect"))?, on: on.parse()? })
    }
}

macro_rules! as_text {
    ($($name:ty),*) => {$(
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

as_text!(Thing, EffectKey);

#[cfg(test)]
mod tests;
