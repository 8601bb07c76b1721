//! `kind: Quota` as written: a team's share, what it may borrow, what it lends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::quota::Amount;
use crate::ids::{PoolName, TierName};

/// A team's share: its floor, what it may borrow, what it lends. It becomes a Kueue ClusterQueue with its
/// LocalQueues.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.cohort) || !has(self.shares) || self.shares.all(s, !has(s.borrow) && !has(s.lend))",
     "message": "TW503: borrowing and lending need a cohort"},
    {"rule": "self.tiers.all(t, self.tiers.exists_one(u, u == t))", "message": "TW207: a tier is listed twice"},
    {"rule": "!has(self.shares) || self.shares.all(s, self.shares.exists_one(t, t.pool == s.pool))",
     "message": "TW207: a pool is listed twice"},
    {"rule": "self.namespaces.all(n, self.namespaces.exists_one(m, m.name == n.name && m.localQueue == n.localQueue))",
     "message": "TW207: a namespace is listed twice with one LocalQueue"},
    {"rule": "!has(self.total) || !has(self.total.gpus) || !has(self.shares) || self.shares.filter(s, \
        has(s.guarantee.gpus)).map(s, s.guarantee.gpus).sum() <= self.total.gpus",
     "message": "TW509: `total` is below what is guaranteed"},
    {"rule": "!has(self.total) || !has(self.total.nodes) || !has(self.shares) || self.shares.filter(s, \
        has(s.guarantee.nodes)).map(s, s.guarantee.nodes).sum() <= self.total.nodes",
     "message": "TW509: `total` is below what is guaranteed"}
]))]
pub struct QuotaSpec {
    /// The ClusterQueue to adopt or to create. Absent: the object's name. A Quota that is renamed keeps its queue by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "subdomain"))]
    pub cluster_queue: Option<String>,
    /// The namespaces whose work counts here.
    #[schemars(length(min = 1, max = 200))]
    pub namespaces: Vec<NamespaceSpec>,
    /// The group that borrows and lends among itself. Cohorts may nest: `research/vision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "cohort"))]
    pub cohort: Option<String>,
    /// The tiers that its work may ask for, enforced at admission. Work asks by the label `kueue.x-k8s.io/priority-class`
    /// or by the PriorityClass of its pods; without either it is in no tier and has the priority 0. What `tidewright sim`
    /// submits without a tier has the first.
    #[schemars(length(min = 1, max = 50))]
    pub tiers: Vec<TierName>,
    /// Its share of each pool, because a queue counts for each pool apart. A pool that is not named is not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub shares: Vec<Share>,
    /// The most it may use over all its pools together, borrowed and lent by tides too. Whole GPUs and slices count
    /// in one currency: a slice is the part of a GPU whose memory it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Amount>,
    /// Its weight when what is free is shared out.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// Nobody uses this queue any more: remove it from the cluster. Removing the document leaves it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retire: bool,
}

fn one() -> u32 {
    1
}

/// A namespace whose work counts in a quota.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespaceSpec {
    /// The namespace.
    #[schemars(extend("x-tidewright-format" = "name"))]
    pub name: String,
    /// The LocalQueue in it. Absent: `default`, which Kueue gives to work that names no queue.
    #[serde(default = "default_queue")]
    #[schemars(extend("x-tidewright-format" = "name"))]
    pub local_queue: String,
}

fn default_queue() -> String {
    "default".into()
}

/// A share of one pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.lend) || !has(self.lend.gpus) || !has(self.guarantee.gpus) || self.lend.gpus <= \
        self.guarantee.gpus",
     "message": "TW502: a queue lends at most what it is guaranteed"},
    {"rule": "!has(self.lend) || !has(self.lend.nodes) || !has(self.guarantee.nodes) || self.lend.nodes <= \
        self.guarantee.nodes",
     "message": "TW502: a queue lends at most what it is guaranteed"},
    {"rule": "!has(self.lend) || !has(self.lend.slices) || !has(self.guarantee.slices) || self.lend.slices.all(p, \
        self.lend.slices[p] <= (p in self.guarantee.slices ? self.guarantee.slices[p] : 0))",
     "message": "TW502: a queue lends at most what it is guaranteed"},
    {"rule": "!has(self.lend) || (has(self.lend.gpus) == has(self.guarantee.gpus) && has(self.lend.nodes) == \
        has(self.guarantee.nodes))",
     "message": "TW505: a share is counted in one unit"},
    {"rule": "!has(self.borrow) || (has(self.borrow.gpus) == has(self.guarantee.gpus) && has(self.borrow.nodes) == \
        has(self.guarantee.nodes))",
     "message": "TW505: a share is counted in one unit"}
]))]
pub struct Share {
    /// The pool.
    pub pool: PoolName,
    /// What it always gets back.
    pub guarantee: Amount,
    /// What it may use beyond its guarantee: what its cohort lends and leaves free, and what of the pool is guaranteed
    /// to nobody. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow: Option<Amount>,
    /// How much of its guarantee others may use while it is free. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lend: Option<Amount>,
}
