//! `kind: SchedulerProfile` as written: how pods meet nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::policy::{Gang, Score};
use crate::ids::{LevelName, PoolName};

/// How pods meet nodes: packed or spread, gangs, topology. A pool has one scheduler, because two on one node race.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.pools.all(p, self.pools.exists_one(q, q == p))", "message": "TW207: a pool is listed twice"}
]))]
pub struct SchedulerProfileSpec {
    /// `pack` fills nodes one after the other, `spread` fills them alike.
    pub score: Score,
    /// All pods of a job or none. Kueue sees to it, by `waitForPodsReady` of its Configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<Gang>,
    /// How pods of a job sit on the fabric. Kueue sees to it, for work of the quotas that have a share of these pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The pools it schedules.
    #[schemars(length(min = 1, max = 200))]
    pub pools: Vec<PoolName>,
}

/// How pods of a job sit on the fabric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Topology {
    /// The level of the fabric that they should share. It is a wish: where there is no room for that, they share a higher
    /// one, or none. Work that says itself how it is placed is left alone. Needs MutatingAdmissionPolicy, which Kubernetes
    /// has since 1.36.
    pub prefer: LevelName,
}
