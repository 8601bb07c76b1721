//! How pods meet nodes, and what takes a node out of service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diag::At;
use crate::ids::{LevelName, PolicyName, PoolName, ProfileName};
use crate::units::{Duration, Percent, Ratio};

/// How pods meet nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct SchedulerProfile {
    pub name: At<ProfileName>,
    pub score: Score,
    pub gang: Option<Gang>,
    pub prefer: Option<At<LevelName>>,
    pub pools: Vec<At<PoolName>>,
}

/// What takes a node out of service.
#[derive(Clone, PartialEq, Debug)]
pub struct HealthPolicy {
    pub name: At<PolicyName>,
    /// Empty: all pools that no other policy names.
    pub pools: Vec<At<PoolName>>,
    pub rules: Vec<At<Rule>>,
    pub limit: Percent,
    pub admit: Vec<Admit>,
}

/// How nodes are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Score {
    /// One after the other, so that big holes stay free.
    Pack,
    /// All alike.
    Spread,
}

/// All pods of a job or none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gang {
    /// How long pods wait for the others before all give up their place.
    pub timeout: Duration,
}

/// What to look for and what to do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// What to look for.
    pub when: Symptom,
    /// For how long it must last.
    #[serde(default)]
    pub r#for: Duration,
    /// What to do: the first step, then the next one each time it happens again within a week. Where the last step is a
    /// boot and it still shows, or shows again, the node is quarantined until somebody returns it.
    #[schemars(length(min = 1, max = 8))]
    pub then: Vec<Remedy>,
}

/// A sign of trouble. Exactly one of `xid`, `condition` and `straggler`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Symptom {
    /// Any of these Xid codes of the NVIDIA driver. The driver's own verdict comes first, where a condition carries it (Xid
    /// 154, or `RecommendedAction`): nothing to do, the first rung that boots, or the first one beyond a boot.
    Xid(#[schemars(length(min = 1, max = 100))] Vec<u32>),
    /// A condition of the node.
    Condition(Condition),
    /// A node that holds up the others.
    Straggler(Straggler),
}

/// A condition of the node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// Its type, such as `AcceleratedHardwareReady`.
    #[schemars(extend("x-tidewright-format" = "conditionType"))]
    pub r#type: String,
    /// The status that means trouble.
    pub status: ConditionStatus,
}

/// The status of a condition, in quotes as Kubernetes has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows.
    Unknown,
}

/// A node that holds up the others: a monitor reports it in the node's condition `Straggling`, with a message such as
/// `ratio=1.41 windows=4`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Straggler {
    /// How many times as long as the median its steps take.
    pub slower_than: Ratio,
    /// In how many windows in a row.
    #[schemars(range(min = 1, max = 1000))]
    pub windows: u32,
}

/// What to do about a sick node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Remedy {
    /// Say so, and do nothing.
    Report,
    /// Take it out of service until a person returns it.
    Quarantine,
    /// Drain it and boot it again.
    Reboot,
    /// Drain it and put another in its place.
    Replace,
}

/// What a new or returned node must show before it serves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Admit {
    /// A condition that must be true.
    #[schemars(extend("x-tidewright-format" = "conditionType"))]
    pub condition: String,
    /// How long to wait for it before the node counts as sick.
    pub within: Duration,
}
