//! What happened to a step.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::effect::Fact;
use crate::ids::StepId;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    pub at: Timestamp,
    pub step: StepId,
    pub kind: EventKind,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum EventKind {
    Started,
    Succeeded,
    /// What it needs does not hold any more: the next plan decides. With the fact and what was seen instead.
    Skipped {
        fact: Option<Fact>,
        why: String,
    },
    /// Still waiting, and for what.
    Waiting {
        why: String,
    },
    /// `class` is the provider's, such as `noCapacity`.
    Failed {
        class: String,
        why: String,
    },
    /// A step before it did not succeed.
    Dropped {
        after: StepId,
    },
    /// A freeze stopped it.
    Frozen {
        by: String,
        reason: String,
    },
    /// Nobody approved it.
    NotApproved {
        why: String,
    },
}
