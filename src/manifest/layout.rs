//! `kind: GpuLayout` as written: how each GPU of a pool is cut.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::layout::{Mps, TimeSlicing};
use crate::ids::MigProfile;

/// How each GPU of a pool is cut: by MIG, or shared by MPS or time-slicing. Whole GPUs need no layout: `whole` is
/// built in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-tidewright-one-of" = [["mig", "mps", "timeSlicing"]]))]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.keepReady) || self.keepReady.size() == 0 || has(self.mig)",
     "message": "TW306: only MIG slices can be kept ready"},
    {"rule": "!has(self.keepReady) || !has(self.mig) || self.keepReady.all(p, self.mig.exists(m, p in m.slices))",
     "message": "TW306: what is kept ready must be cut"},
    {"rule": "!has(self.mig) || self.mig.size() == 1 || self.mig.all(m, has(m.gpus) && m.gpus.size() > 0)",
     "message": "TW304: an entry without `gpus` means all of them"},
    {"rule": "!has(self.mig) || self.mig.all(m, !has(m.gpus) || m.gpus.all(g, self.mig.exists_one(n, has(n.gpus) && g \
        in n.gpus)))",
     "message": "TW304: a GPU is cut in two ways"}
]))]
pub struct GpuLayoutSpec {
    /// Slices with their own memory and faults. GPUs that no entry names stay whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub mig: Option<Vec<MigPart>>,
    /// Several processes on one GPU, each with a share of its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps: Option<Mps>,
    /// Several processes on one GPU in turn, with no walls between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_slicing: Option<TimeSlicing>,
    /// How many slices of a profile stay up in every pool that has this layout while the pool is re-cut.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-tidewright-key-format" = "migProfile", "maxProperties" = 32))]
    pub keep_ready: BTreeMap<MigProfile, u32>,
    /// Nothing uses this layout any more: remove it from the cluster. Removing the document leaves it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retire: bool,
}

/// Some GPUs of a node, cut alike.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.gpus) || self.gpus.all(g, self.gpus.exists_one(h, h == g))",
     "message": "TW304: a GPU is listed twice"}
]))]
pub struct MigPart {
    /// Which GPUs of the node, by index from 0. Absent: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64))]
    pub gpus: Vec<u32>,
    /// How many slices of each profile a GPU is cut into.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 32))]
    #[schemars(extend("x-tidewright-key-format" = "migProfile"))]
    pub slices: BTreeMap<MigProfile, Slices>,
}

/// How many slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Slices(#[schemars(range(min = 1, max = 100))] pub u32);
