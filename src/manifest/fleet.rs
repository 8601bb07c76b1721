//! `kind: Fleet` as written: where the fleet lives, and the limits nobody in it may pass.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::config::{Cloud, Frozen, Kubernetes, Limits};
use crate::ids::{GpuModel, InstanceType, LevelName};
use crate::units::{Usd, ZoneName};

/// The head of a fleet: where it lives, and the limits that nobody in it may pass. A fleet's directory holds exactly
/// one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.hardware) || self.hardware.all(h, self.hardware.exists_one(i, i.name == h.name))",
     "message": "TW207: a shape is listed twice"}
]))]
pub struct FleetSpec {
    /// The time zone of update windows, and of tides that name none of their own.
    pub time_zone: ZoneName,
    /// Where nodes come from. Exactly one of `sim`, `aws` and `none`.
    pub cloud: Cloud,
    /// Where the cluster is. Exactly one of `sim`, `kubeconfig` and `inCluster`.
    pub kubernetes: Kubernetes,
    /// Directories with documents shared by several fleets (tiers, layouts, policies), relative to this file. They
    /// must be inside the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(max = 1024)))]
    pub include: Vec<String>,
    /// The one switch that stops everything: while it is set, no effect is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// What no plan may pass, whatever the other documents ask for.
    #[serde(default)]
    pub limits: Limits,
    /// The rates really paid, by instance type, where they differ from the catalogue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-tidewright-key-format" = "instanceType"))]
    pub prices: BTreeMap<InstanceType, PriceOverride>,
    /// Node shapes that the catalogue does not know: own hardware, CPU types, new instance types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub hardware: Vec<HardwareSpec>,
    /// The network that the nodes hang on, coarse to fine. Absent: nothing is known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricSpec>,
}

/// The rates really paid for one instance type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PriceOverride {
    /// US dollars an hour on demand.
    pub on_demand_usd: Usd,
}

/// A node shape that the catalogue does not know.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.gpu) == (has(self.gpus) && self.gpus > 0)", "message": "TW307: `gpu` and `gpus` go together"}
]))]
pub struct HardwareSpec {
    /// The name that `instanceType` uses.
    pub name: InstanceType,
    /// The GPU model, as in `tidewright hardware`. Absent: a node without GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuModel>,
    /// How many GPUs a node has.
    #[serde(default)]
    #[schemars(range(max = 128))]
    pub gpus: u32,
    /// How many GPUs reach each other over NVLink without leaving the switch domain. Absent: the GPUs of one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub nvlink_domain: Option<u32>,
    /// What a node costs an hour, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_hour: Option<Usd>,
}

/// The network that the nodes hang on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.declared) || self.levels.all(l, has(l.nodeLabel))",
     "message": "TW309: a level needs `nodeLabel`, or the fabric is declared in a file"},
    {"rule": "self.levels.all(l, !has(l.nodeLabel) || self.levels.exists_one(m, has(m.nodeLabel) && m.nodeLabel == \
        l.nodeLabel))",
     "message": "TW309: two levels read one label"},
    {"rule": "!self.levels.exists(l, has(l.nodeLabel) && l.nodeLabel == 'kubernetes.io/hostname') || \
        (has(self.levels[self.levels.size() - 1].nodeLabel) && \
        self.levels[self.levels.size() - 1].nodeLabel == 'kubernetes.io/hostname')",
     "message": "TW309: only the last level can be a single node"},
    {"rule": "self.levels.all(l, self.levels.exists_one(m, m.name == l.name))", "message": "TW207: a level is listed \
        twice"}
]))]
pub struct FabricSpec {
    /// The levels, coarse to fine.
    #[schemars(length(min = 1, max = 16))]
    pub levels: Vec<FabricLevel>,
    /// Where each node hangs, for hardware that carries no labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredFabric>,
}

/// One level of the fabric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FabricLevel {
    /// The name that `together` and `prefer` use.
    pub name: LevelName,
    /// The node label that holds a node's place on this level. Where the fabric is declared in a file, nodes of the
    /// pools are given it; without one it is `fabric.tidewright.dev/` and the name of the level. Needed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "labelKey"))]
    pub node_label: Option<String>,
}

/// Where each node hangs, in a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeclaredFabric {
    /// A CSV file beside this one. Its head is `node` and the names of the levels; each line is a node and its path
    /// from the top.
    #[schemars(length(min = 1, max = 1024))]
    pub file: String,
}
