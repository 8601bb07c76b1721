//! The cloud and cluster objects that are wanted, as plain data. Made by `compile`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::marks::{ENTRY, PLUGIN_CONFIG};
use super::{canonical, digest_of};
use crate::fleet::launch::{Launch, Taint};
use crate::ids::{
    Digest, GroupName, InstanceType, LayoutName, NamespacedName, NodeName, PoolName, ResourceName, TemplateName,
};
use crate::observed::ObjectKey;

/// Everything that is wanted beside the nodes themselves, and what a node must look like.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Desired {
    /// In the order in which they can be written: who is named comes before who names it.
    pub objects: Vec<Object>,
    /// Objects that a document says are over: `retire: true`.
    pub retired: Vec<ObjectKey>,
    pub pools: BTreeMap<PoolName, PoolObjects>,
    /// Objects that are wanted only in part now, because the whole would give out twice what work still holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<Staged>,
}

/// What comes when work has ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Staged {
    pub key: ObjectKey,
    /// One sentence: what is wanted in the end.
    pub wanted: String,
    /// The work that is waited for; nobody where it could not be read.
    pub waits: Vec<NamespacedName>,
    /// Nodes that still carry a taint which is no longer wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<NodeName>,
}

/// What a pool's nodes are launched with and what they carry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PoolObjects {
    pub template: Template,
    pub group: Option<GroupName>,
    /// Made by us, as the pool's own.
    pub group_is_ours: bool,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// How a node is cut: one entry for each layout that any part of the pool may have, now or with the tide.
    pub layouts: BTreeMap<LayoutName, LaidOut>,
}

/// What a node says when it is cut as a layout wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LaidOut {
    /// The labels that order it: mig-manager's and the device plugin's.
    pub labels: BTreeMap<String, String>,
    /// What must then be allocatable.
    pub allocatable: BTreeMap<ResourceName, i64>,
    /// GPU resources that must be gone.
    pub absent: Vec<ResourceName>,
}

impl LaidOut {
    /// What has to be written on a node that carries these labels, or taken off it. The device plugin goes by its label for
    /// as long as it is there: one of ours that this layout has no use for would share GPUs on.
    pub fn order(&self, carried: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
        let left = carried.get(PLUGIN_CONFIG).filter(|entry| entry.starts_with(ENTRY));
        let off = left.map(|_| (PLUGIN_CONFIG.into(), None));
        off.into_iter().chain(self.labels.iter().map(|(key, value)| (key.clone(), Some(value.clone())))).collect()
    }

    /// Whether a node carries the order already.
    pub fn is_ordered(&self, carried: &BTreeMap<String, String>) -> bool {
        self.order(carried).iter().all(|(key, value)| carried.get(key) == value.as_ref())
    }
}

/// A launch template.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Template {
    pub name: TemplateName,
    pub instance_type: InstanceType,
    pub launch: Option<Launch>,
    /// The text of own user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Registration labels and taints: a taint after the join is a race. They are no part of the digest, because they
    /// are changed on running nodes.
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Of what a running node cannot change: type, image, bootstrap, role, interfaces, volumes.
    pub digest: Digest,
}

/// An object of the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Object {
    pub key: ObjectKey,
    /// Without `apiVersion`, `kind` and `metadata`: `spec`, `value`, `data` and so on, as the API has them.
    pub body: Value,
    pub digest: Digest,
}

impl Object {
    pub fn new(key: ObjectKey, body: Value) -> Self {
        let body = canonical(&body);
        let digest = digest_of(&body);
        Self { key, body, digest }
    }
}
