//! What stands between us and the world: traits that `apply` and the command line use, and who implements them.
//!
//! A provider observes, reads again, and performs one action; it decides nothing and retries nothing. Failures of an
//! observation are gaps in what was seen, never errors. Failures of an action are classified here, at the border, and
//! nobody looks further.

pub mod aws;
pub mod clock;
pub mod k8s;
pub mod metrics;
pub mod nowhere;
pub mod sim;

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::effect::{CloudAction, ClusterAction, Head, Ledger, Object, Part, PoolLedger, Subject};
use crate::fleet::Target;
use crate::ids::{InstanceId, NamespacedName, ReservationId, Uid};
use crate::observed::{CloudSeen, ClusterSeen, Denials, ObjectKey, Rehearsed, Sample};

/// What an error means to whoever may try again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Too many requests: again, later.
    Throttled,
    /// A definite no: the cloud has none of it.
    NoCapacity,
    NotFound,
    /// Somebody was faster: read again.
    Conflict,
    Denied,
    /// Nobody knows whether it was done.
    Ambiguous,
    /// A definite no for another reason.
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ProviderError {
    pub class: Class,
    /// What the other side said, such as `InsufficientInstanceCapacity: …`.
    pub message: String,
    /// When to come back, where the other side said.
    pub retry_after_secs: Option<u64>,
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ProviderError {
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after_secs: None }
    }
}

/// What an action brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    Nothing,
    Instance(InstanceId),
    Reservation(ReservationId),
    /// Some pods could not be evicted: each with the server's word, and whether trying again can help.
    Evicted {
        refused: Vec<Refusal>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub pod: NamespacedName,
    pub why: String,
    /// More than one budget selects it, or it is denied: a person has to act.
    pub permanent: bool,
    /// When to ask again, where the other side said.
    pub retry_after_secs: Option<u64>,
}

/// The version of a part of the ledger, as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version(pub String);

/// A part of the ledger with its content.
#[derive(Clone, PartialEq, Debug)]
pub enum PartValue {
    Head(Box<Head>),
    Pool(Option<PoolLedger>),
}

#[async_trait(?Send)]
pub trait Cloud {
    /// All that concerns this target. What could not be read is a gap.
    async fn observe(&self, target: &Target) -> CloudSeen;
    /// Only these, freshly.
    async fn reread(&self, what: &[Subject]) -> CloudSeen;
    async fn perform(&self, action: &CloudAction) -> Result<Done, ProviderError>;
    /// Whether it can be asked what we may do.
    fn rehearses(&self) -> bool {
        false
    }
    /// Which of these it would not let us do. Nothing is done. Where nobody can say, they are left out.
    async fn rehearse(&self, _wanted: &[&CloudAction]) -> Denials {
        Denials::default()
    }
}

#[async_trait(?Send)]
pub trait Cluster {
    async fn observe(&self, target: &Target) -> ClusterSeen;
    async fn reread(&self, what: &[Subject]) -> ClusterSeen;
    /// What would become of these objects if they were written now. Nothing is written. Where nobody can say, they are
    /// left out.
    async fn rehearse(&self, _wanted: &[&Object]) -> BTreeMap<ObjectKey, Rehearsed> {
        BTreeMap::new()
    }
    /// Which of these pods the server would refuse to evict however often it is asked, with its words. Nothing is evicted.
    /// Where nobody can say, they are left out.
    async fn rehearse_evictions(&self, _pods: &[(NamespacedName, Uid)]) -> BTreeMap<Uid, String> {
        BTreeMap::new()
    }
    async fn perform(&self, action: &ClusterAction) -> Result<Done, ProviderError>;
    /// The whole ledger, and the version of each part.
    async fn ledger(&self) -> Result<(Ledger, Vec<(Part, Version)>), ProviderError>;
    /// One part of it, freshly.
    async fn ledger_part(&self, part: &Part) -> Result<(PartValue, Version), ProviderError>;
    /// Writes a part if it is still at the version that was read; else a conflict.
    async fn swap_ledger(&self, part: &Part, seen: &Version, next: &PartValue) -> Result<Version, ProviderError>;
}

/// The last sample of a tide's guard.
#[async_trait(?Send)]
pub trait Meter {
    async fn sample(&self, query: &str) -> Option<Sample>;
}

#[async_trait(?Send)]
pub trait Clock {
    fn now(&self) -> Timestamp;
    async fn sleep_until(&self, at: Timestamp);
}

/// Everything outside, as `apply` and the command line see it.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub cloud: &'a dyn Cloud,
    pub cluster: &'a dyn Cluster,
    pub meter: &'a dyn Meter,
    pub clock: &'a dyn Clock,
}

impl fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}
