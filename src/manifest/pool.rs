//! `kind: NodePool` as written: nodes that are alike and placed together.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::launch::{Launch, Taint};
use crate::fleet::updates::Updates;
use crate::ids::{InstanceType, LayoutName, LevelName, PoolName, ReservationName};

/// Nodes that are alike and placed together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-tidewright-one-of" = [["nodes", "fill"]]))]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.fill) || self.capacity.exists(c, has(c.reservation))",
     "message": "TW411: `fill: reservations` needs a reservation to fill from"},
    {"rule": "!has(self.nodes) || self.nodes == 0 || !has(self.spares) || self.spares < self.nodes",
     "message": "TW406: `spares` must be below `nodes`"},
    {"rule": "!has(self.nodes) || self.nodes == 0 || !has(self.updates) || !has(self.updates.canary) || \
        self.updates.canary.nodes < self.nodes",
     "message": "TW415: a canary is smaller than its pool"},
    {"rule": "self.capacity.all(c, !has(c.reservation) || self.capacity.exists_one(d, has(d.reservation) && \
        d.reservation == c.reservation))",
     "message": "TW207: a reservation is listed twice"},
    {"rule": "!has(self.taints) || self.taints.all(t, self.taints.exists_one(u, u.key == t.key && u.effect == \
        t.effect))",
     "message": "TW207: a taint is listed twice"},
    {"rule": "!has(self.labels) || self.labels.all(k, !k.startsWith('tidewright.dev/') && \
        !k.startsWith('kubernetes.io/') && !k.startsWith('node.kubernetes.io/') && \
        !k.startsWith('topology.kubernetes.io/') && !k.startsWith('k8s.io/') && k != 'nvidia.com/mig.config' && k != \
        'nvidia.com/device-plugin.config')",
     "message": "TW206: a label that Kubernetes or Tidewright writes"},
    {"rule": "!has(self.taints) || self.taints.all(t, !t.key.startsWith('tidewright.dev/') && \
        !t.key.startsWith('kubernetes.io/') && !t.key.startsWith('node.kubernetes.io/') && \
        !t.key.startsWith('topology.kubernetes.io/') && !t.key.startsWith('k8s.io/') && t.key != \
        'nvidia.com/mig.config' && t.key != 'nvidia.com/device-plugin.config')",
     "message": "TW206: a taint that Kubernetes or Tidewright writes"}
]))]
pub struct NodePoolSpec {
    /// The shape of its nodes: an EC2 type, or a name of the fleet's `hardware`. A type without GPUs is fine too.
    pub instance_type: InstanceType,
    /// How many nodes. `0` empties the pool; removing the document leaves its nodes alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub nodes: Option<u32>,
    /// `reservations`: as many nodes as its reservations hold at the time. A Capacity Block's window makes the pool
    /// grow and shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// Where its nodes come from, in order: the planner fills from the top.
    #[schemars(length(min = 1, max = 100))]
    pub capacity: Vec<Capacity>,
    /// Healthy nodes that are kept out of the queues' quotas, to replace a sick one at once.
    #[serde(default)]
    pub spares: u32,
    /// Where its nodes sit on the fabric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// How each GPU is cut: the name of a GpuLayout. `whole` is built in.
    #[serde(default = "whole")]
    pub layout: LayoutName,
    /// Labels for its nodes, beside those that Tidewright keeps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-tidewright-key-format" = "labelKey", "x-tidewright-value-format" = "labelValue"))]
    pub labels: BTreeMap<String, String>,
    /// Taints for its nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub taints: Vec<Taint>,
    /// How its nodes are launched. Needed where nodes are launched in AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
    /// How running nodes move to a new version. Absent: as they fall idle, one at a time.
    #[serde(default)]
    pub updates: Updates,
}

fn whole() -> LayoutName {
    "whole".into()
}

/// What fills a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Fill {
    /// As many nodes as its reservations hold at the time.
    Reservations,
}

/// One place that nodes come from. Exactly one of `reservation`, `onDemand`, `spot` and `existing`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Capacity {
    /// A Reservation, by name.
    Reservation(ReservationName),
    /// Launched at the on-demand price.
    OnDemand(OnDemand),
    /// Launched at the spot price; taken away with two minutes' notice.
    Spot(Spot),
    /// Nodes that are in the cluster already: labelled and drained, never launched or terminated.
    Existing(Existing),
}

/// Launched at the on-demand price.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OnDemand {
    /// How many nodes at most.
    #[schemars(range(min = 1, max = 100_000))]
    pub max: u32,
}

/// Launched at the spot price.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spot {
    /// How many nodes at most.
    #[schemars(range(min = 1, max = 100_000))]
    pub max: u32,
    /// The highest spot price that is paid, in percent of the on-demand price.
    #[schemars(range(min = 1, max = 100))]
    pub max_price_percent: u8,
}

/// Nodes that are in the cluster already.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Existing {
    /// The labels that a node must carry to be chosen.
    #[schemars(extend("minProperties" = 1))]
    #[schemars(extend("x-tidewright-key-format" = "labelKey", "x-tidewright-value-format" = "labelValue"))]
    pub labels: BTreeMap<String, String>,
}

/// Where nodes sit on the fabric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.together) || (!(has(self.required) && self.required) && !has(self.apartFrom))",
     "message": "TW104: `required` and `apartFrom` need `together`"}
]))]
pub struct Placement {
    /// The level of the fabric that the nodes should share, such as `leaf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<LevelName>,
    /// Rather no node than one in another place.
    #[serde(default)]
    pub required: bool,
    /// Pools that should not share that level with this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub apart_from: Vec<PoolName>,
}
