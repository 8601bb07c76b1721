//! The snapshot: what the cloud and the cluster look like, as plain data.
//!
//! Made by providers, read by everything that plans or judges. Every part is a [`Read`], which knows when it was read
//! and what could not be: absence may be concluded only from a part that is [`Read::whole`]. Types are slim, because a
//! fleet has many pods: only what a decision needs. Not here: what is wanted, and what we remember.

pub mod cloud;
pub mod cluster;
pub mod condition;

use std::collections::BTreeMap;
use std::ops::Deref;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use cloud::*;
pub use cluster::*;
pub use condition::{ConditionSeen, READY, Slow, Verdict};

use crate::ids::{TideName, Uid};
use crate::units::Ratio;

/// The cloud, the cluster and the meters of the tides.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Observed {
    pub cloud: CloudSeen,
    pub cluster: ClusterSeen,
    /// The last sample of each tide's guard; none where nobody answered.
    pub guards: BTreeMap<TideName, Option<Sample>>,
    /// What the server would say to objects that are to be written; absent where it was not asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rehearsed: BTreeMap<ObjectKey, Rehearsed>,
    /// Pods on nodes that are being emptied whose eviction the server refuses for good, by UID, with its words; absent
    /// where it would not, or was not asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<Uid, String>,
    /// What the cloud would not let us do, by the word for it: what is missing, and what to write where.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub denied: BTreeMap<String, String>,
    /// The credentials are for looking: nothing that was asked about is allowed, and nothing is held for it. Who may carry
    /// it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks_only: Option<String>,
}

/// What the cloud said to the question of what it would let us do.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Denials {
    /// What it would not, by the word for it: what is missing, and what to write where.
    pub denied: BTreeMap<String, String>,
    /// It would let us change nothing at all: whose credentials these are, and what whoever carries it out needs.
    pub looks_only: Option<String>,
}

/// A number that somebody measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    pub value: Ratio,
    pub at: Timestamp,
}

/// Something that was read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Read<T> {
    value: T,
    at: Timestamp,
    gap: Option<Gap>,
}

/// Why a read is not whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gap {
    /// What was asked, such as `DescribeInstances`.
    pub what: String,
    pub why: String,
}

/// A value from a whole read: what is not in it is not there.
#[derive(Debug)]
pub struct Whole<'a, T>(&'a T);

impl<T> Read<T> {
    pub fn new(value: T, at: Timestamp) -> Self {
        Self { value, at, gap: None }
    }

    /// What could be read, and what could not.
    pub fn with_gap(value: T, at: Timestamp, gap: Gap) -> Self {
        Self { value, at, gap: Some(gap) }
    }

    /// What was seen. Something that is not in it may still exist.
    pub fn seen(&self) -> &T {
        &self.value
    }

    /// What was seen, if everything was: what is not in it is not there.
    pub fn whole(&self) -> Option<Whole<'_, T>> {
        self.gap.is_none().then_some(Whole(&self.value))
    }

    pub fn at(&self) -> Timestamp {
        self.at
    }

    pub fn gap(&self) -> Option<&Gap> {
        self.gap.as_ref()
    }
}

/// Nobody has looked yet: that is a gap.
impl<T: Default> Default for Read<T> {
    fn default() -> Self {
        let gap = Gap { what: "nothing".into(), why: "it was not read".into() };
        Self { value: T::default(), at: Timestamp::MIN, gap: Some(gap) }
    }
}

impl<T> Deref for Whole<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0
    }
}

impl Observed {
    /// What could not be read.
    pub fn gaps(&self) -> Vec<&Gap> {
        let (cloud, cluster) = (&self.cloud, &self.cluster);
        let all = [
            cloud.reservations.gap(),
            cloud.offerings.gap(),
            cloud.instances.gap(),
            cloud.groups.gap(),
            cloud.templates.gap(),
            cloud.spot_prices.gap(),
            cloud.unplaced.as_ref(),
            cluster.nodes.gap(),
            cluster.pods.gap(),
            cluster.workloads.gap(),
            cluster.budgets.gap(),
            cluster.objects.gap(),
        ];
        // Several kinds may be missing for one reason.
        let mut kinds: Vec<&Gap> = cluster.unread.values().collect();
        kinds.dedup();
        all.into_iter().flatten().chain(kinds).collect()
    }
}
