//! What people said, and the guards of tides: a freeze, a quarantine, a drain, a recall.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{NodeName, PoolName};

/// Nothing is done to this, and who says so.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Freeze {
    pub scope: Scope,
    pub by: String,
    pub at: Timestamp,
    pub reason: String,
    /// Also what has a deadline of its own, such as the drain before a Capacity Block ends.
    pub all: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Scope {
    Fleet,
    Pool(PoolName),
    Node(NodeName),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Quarantine {
    pub by: String,
    pub at: Timestamp,
    pub reason: String,
}

impl Quarantine {
    /// Who took a node out where no person did.
    pub const BY_POLICY: &str = "its health policy";
}

/// A person's word that a node is to be emptied and kept empty. It stays where it is: nothing is removed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DrainOrder {
    pub by: String,
    pub at: Timestamp,
    pub reason: String,
    /// Pods go too that nobody makes again.
    #[serde(default)]
    pub unmanaged: bool,
    /// Pods go too whose local data goes with them.
    #[serde(default)]
    pub local_data: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recall {
    pub at: Timestamp,
    pub by: String,
}

impl Recall {
    const GUARD: &str = "its guard: ";

    /// By the guard of the tide, with its words.
    pub fn by_guard(at: Timestamp, why: &str) -> Self {
        Self { at, by: format!("{}{why}", Self::GUARD) }
    }

    /// The words of the guard, where it was the guard.
    pub fn guard(&self) -> Option<&str> {
        self.by.strip_prefix(Self::GUARD)
    }
}
