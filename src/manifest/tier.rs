//! `kind: PreemptionTier` as written: who yields when the cluster is full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::tier::{Checkpoint, Preempts};
use crate::units::Duration;

/// Who yields when the cluster is full. It becomes a PriorityClass and a WorkloadPriorityClass of the same name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreemptionTierSpec {
    /// Higher keeps its GPUs. No two tiers have the same.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub rank: i32,
    /// Whose GPUs work of this tier may take.
    #[serde(default)]
    pub preempts: Preempts,
    /// Work is not preempted before it ran this long. Kept in everything that Tidewright evicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_runtime: Option<Duration>,
    /// How work of this tier saves itself before it is evicted. Absent: it is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}
