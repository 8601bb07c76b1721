//! `kind: HealthPolicy` as written: what takes a node out of service, and how it comes back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::policy::{Admit, Rule};
use crate::ids::PoolName;
use crate::units::Percent;

/// What takes a node out of service, how fast, and how it comes back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.pools) || self.pools.all(p, self.pools.exists_one(q, q == p))",
     "message": "TW207: a pool is listed twice"}
]))]
pub struct HealthPolicySpec {
    /// The pools it watches. Absent: all that no other policy names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub pools: Vec<PoolName>,
    /// What to look for and what to do.
    #[schemars(length(min = 1, max = 50))]
    pub rules: Vec<Rule>,
    /// How much of a pool may be out of service for its health, rounded up to one node. Beyond it nothing more is
    /// taken out, and the breaker says so. In a pool that no policy watches it is 10 %.
    pub limit: Percent,
    /// What a new or returned node must show before it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub admit: Vec<Admit>,
}
