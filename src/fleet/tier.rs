//! Who yields when the cluster is full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diag::At;
use crate::ids::TierName;
use crate::units::Duration;

/// Who yields when the cluster is full.
#[derive(Clone, PartialEq, Debug)]
pub struct Tier {
    pub name: At<TierName>,
    pub rank: At<i32>,
    pub preempts: At<Preempts>,
    pub minimum_runtime: Option<At<Duration>>,
    pub checkpoint: Option<At<Checkpoint>>,
}

/// Whose GPUs a tier may take.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Preempts {
    /// Nobody's: it waits.
    #[default]
    Never,
    /// Those of tiers with a lower rank.
    LowerTiers,
}

/// How work saves itself before it is evicted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    /// How long it may take.
    pub deadline: Duration,
    /// How it is asked.
    #[serde(default)]
    pub signal: Signal,
}

/// How work is asked to save itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    /// By an annotation on its pods, which it answers with another.
    #[default]
    Annotation,
    /// By the end of its pods: SIGTERM and the grace period.
    Termination,
}
