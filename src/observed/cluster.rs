//! What the cluster has: nodes, pods, gangs, disruption budgets, workloads, and the objects that we write.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::{ConditionSeen, Gap, Read};
use crate::fleet::launch::Taint;
use crate::ids::{
    BootId, ClusterQueueName, Digest, FlavorName, InstanceId, NamespacedName, NodeName, ResourceName, TierName, Uid,
    WorkloadUid,
};

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ClusterSeen {
    pub nodes: Read<BTreeMap<NodeName, NodeSeen>>,
    /// In no order that means anything; providers sort them by namespace and name.
    pub pods: Read<Vec<PodSeen>>,
    pub workloads: Read<BTreeMap<WorkloadUid, WorkloadSeen>>,
    pub budgets: Read<BTreeMap<NamespacedName, BudgetSeen>>,
    /// The objects of the kinds that we write, ours and others'.
    pub objects: Read<BTreeMap<ObjectKey, ObjectSeen>>,
    /// The kinds of them that could not be read, where others were: a cluster may have no Kueue, and still has a use for
    /// priority classes and config maps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<ObjectKind, Gap>,
    #[serde(default)]
    pub others: Others,
}

impl ClusterSeen {
    /// Why an object of this kind may be there that was not seen.
    pub fn gap_of(&self, kind: ObjectKind) -> Option<&Gap> {
        self.objects.gap().or_else(|| self.unread.get(&kind))
    }

    /// Why an object of any kind may be.
    pub fn gap_of_any(&self) -> Option<&Gap> {
        self.objects.gap().or_else(|| self.unread.values().next())
    }
}

/// What other tools own and ours rests on. It is only looked at. Each part is read by itself: who forbids the one need
/// not forbid the other.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Others {
    /// The ConfigMap with the file that Kueue was started with; none where there is no such map.
    pub kueue: Read<Option<Value>>,
    /// Which Kueue runs, by the tag of its image, as `0.19.2`; none where that cannot be told.
    #[serde(default)]
    pub kueue_version: Option<String>,
    /// The GPU Operator's ClusterPolicies, as far as they say how GPUs are cut and shared; none without the operator.
    pub policies: Read<BTreeMap<ObjectKey, Value>>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeSeen {
    pub uid: Uid,
    /// From its `providerID`.
    pub instance: Option<InstanceId>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub ready: bool,
    /// Since when it is not ready, by its own word or because it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready_since: Option<Timestamp>,
    /// Since when it is, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<Timestamp>,
    pub allocatable: BTreeMap<ResourceName, i64>,
    /// `Ready` is among them only where the node is not.
    pub conditions: BTreeMap<String, ConditionSeen>,
    pub created: Timestamp,
    /// Which boot of its machine it last spoke of; none where its kubelet does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootId>,
    /// Labels of ours, and [`TAINTS`], that somebody else wrote after us: who, and when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub moved_by: BTreeMap<String, (String, Timestamp)>,
}

/// Taints have one writer together: the API server keeps their list as one value.
pub const TAINTS: &str = "taints";

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PodSeen {
    pub name: NamespacedName,
    pub uid: Uid,
    pub node: Option<NodeName>,
    pub phase: PodPhase,
    pub ready: bool,
    pub keeper: Keeper,
    pub owner: Option<Uid>,
    /// The Kueue workload that it belongs to.
    pub workload: Option<WorkloadUid>,
    /// The group that it must run and end with: labels of JobSet, LeaderWorkerSet, Ray, Volcano, a PodGroup, or the
    /// workload; none for a pod that stands for itself.
    pub gang: Option<GangName>,
    pub priority: i32,
    pub requests: BTreeMap<ResourceName, i64>,
    pub started: Option<Timestamp>,
    /// When it was told to end.
    pub terminating: Option<Timestamp>,
    pub grace_secs: u32,
    /// Its data goes with it.
    pub empty_dir: bool,
    /// What closes a node does not keep it away: it tolerates every taint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_anywhere: bool,
    /// When it last said that its work is saved.
    pub saved: Option<Timestamp>,
    /// When we asked it for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
    /// The disruption budgets that select it. More than one is a mistake that the API server answers with 500.
    pub budgets: Vec<NamespacedName>,
}

/// Pods that run and end together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GangName(pub Arc<str>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// Who makes the pod again when it is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Keeper {
    /// A Job, ReplicaSet, StatefulSet and the like.
    Controller,
    /// A DaemonSet: it belongs to the node, and a drain leaves it.
    DaemonSet,
    /// The kubelet itself: a drain leaves it.
    Mirror,
    /// Nobody: gone is gone.
    Nobody,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkloadSeen {
    pub name: NamespacedName,
    pub queue: ClusterQueueName,
    pub tier: Option<TierName>,
    pub priority: i32,
    pub created: Timestamp,
    pub active: bool,
    /// Our mark, where we deactivated it or asked it to save its work.
    pub marks: BTreeMap<String, String>,
    pub pods: u32,
    /// With how few pods it goes on, where it may be made smaller while it runs; none: all of them, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewest: Option<u32>,
    /// Of all its pods together.
    pub requests: BTreeMap<ResourceName, i64>,
    pub per_pod: BTreeMap<ResourceName, i64>,
    /// The level that its pods must, or should, be together in: a label key.
    pub required_level: Option<String>,
    pub preferred_level: Option<String>,
    /// All its pods say how they are placed: in a level, or anywhere. Kueue takes no other work in a queue with a flavor
    /// that is on no nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placed: bool,
    /// Since when it holds quota.
    pub reserved: Option<Timestamp>,
    pub evicted: bool,
    pub finished: bool,
    pub flavors: BTreeMap<ResourceName, FlavorName>,
    /// Pods on each node, where it was placed by topology.
    pub nodes: BTreeMap<NodeName, u32>,
    /// When it last said that its work is saved.
    pub saved: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BudgetSeen {
    /// How many more may go now; negative where more are gone than may be.
    pub allowed: i32,
    pub healthy: u32,
    pub desired: u32,
    pub expected: u32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not ready may always go.
    #[serde(default)]
    pub always_allow: bool,
}

/// An object of a kind that we write.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ObjectSeen {
    /// As the server has it, reduced to what a writer can set: no status, no server's metadata.
    pub body: Value,
    /// The digest of what we wrote last, from our annotation; none: it is not ours.
    pub written: Option<Digest>,
    /// The last other field manager that changed it, and when.
    pub moved_by: Option<(String, Timestamp)>,
    /// Held by a finalizer.
    pub deleting: bool,
}

/// A server-side dry run: admission and defaults are seen, and nothing is changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Rehearsed {
    /// It would be taken, and this would then be there.
    Taken(Value),
    /// It would not, and why.
    Refused(String),
}

/// The kinds of objects that we write, and one that we only look at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ObjectKind {
    Topology,
    ResourceFlavor,
    Cohort,
    ClusterQueue,
    LocalQueue,
    Namespace,
    PriorityClass,
    WorkloadPriorityClass,
    ConfigMap,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    /// The GPU Operator's: never written.
    ClusterPolicy,
}

/// An object by kind, namespace and name, written `ClusterQueue/vision` or `LocalQueue/vision/main`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectKey {
    pub kind: ObjectKind,
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl Others {
    /// Everything was read, and nothing is there.
    pub fn none(at: Timestamp) -> Self {
        Self { kueue: Read::new(None, at), kueue_version: None, policies: Read::new(BTreeMap::new(), at) }
    }
}

impl ObjectKind {
    pub const ALL: [Self; 14] = [
        Self::Topology,
        Self::ResourceFlavor,
        Self::Cohort,
        Self::ClusterQueue,
        Self::LocalQueue,
        Self::Namespace,
        Self::PriorityClass,
        Self::WorkloadPriorityClass,
        Self::ConfigMap,
        Self::ValidatingAdmissionPolicy,
        Self::ValidatingAdmissionPolicyBinding,
        Self::MutatingAdmissionPolicy,
        Self::MutatingAdmissionPolicyBinding,
        Self::ClusterPolicy,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Topology => "Topology",
            Self::ResourceFlavor => "ResourceFlavor",
            Self::Cohort => "Cohort",
            Self::ClusterQueue => "ClusterQueue",
            Self::LocalQueue => "LocalQueue",
            Self::Namespace => "Namespace",
            Self::PriorityClass => "PriorityClass",
            Self::WorkloadPriorityClass => "WorkloadPriorityClass",
            Self::ConfigMap => "ConfigMap",
            Self::ValidatingAdmissionPolicy => "ValidatingAdmissionPolicy",
            Self::ValidatingAdmissionPolicyBinding => "ValidatingAdmissionPolicyBinding",
            Self::MutatingAdmissionPolicy => "MutatingAdmissionPolicy",
            Self::MutatingAdmissionPolicyBinding => "MutatingAdmissionPolicyBinding",
            Self::ClusterPolicy => "ClusterPolicy",
        }
    }

    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Topology
            | Self::ResourceFlavor
            | Self::Cohort
            | Self::ClusterQueue
            | Self::LocalQueue
            | Self::WorkloadPriorityClass => "kueue.x-k8s.io/v1beta2",
            Self::Namespace | Self::ConfigMap => "v1",
            Self::PriorityClass => "scheduling.k8s.io/v1",
            Self::ValidatingAdmissionPolicy
            | Self::ValidatingAdmissionPolicyBinding
            | Self::MutatingAdmissionPolicy
            | Self::MutatingAdmissionPolicyBinding => "admissionregistration.k8s.io/v1",
            Self::ClusterPolicy => "nvidia.com/v1",
        }
    }
}

impl ObjectKey {
    pub fn cluster(kind: ObjectKind, name: &str) -> Self {
        Self { kind, namespace: None, name: name.into() }
    }

    pub fn namespaced(kind: ObjectKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: Some(namespace.into()), name: name.into() }
    }
}

impl ObjectKey {
    /// For people: "ClusterQueue vision", "LocalQueue vision/main".
    pub fn words(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.name(), self.name),
            None => format!("{} {}", self.kind.name(), self.name),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind.name(), self.name),
            None => write!(f, "{}/{}", self.kind.name(), self.name),
        }
    }
}

impl FromStr for ObjectKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let kind = |name: &str| ObjectKind::ALL.into_iter().find(|kind| kind.name() == name);
        match parts.as_slice() {
            [k, name] => kind(k).map(|kind| Self::cluster(kind, name)),
            [k, namespace, name] => kind(k).map(|kind| Self::namespaced(kind, namespace, name)),
            _ => None,
        }
        .ok_or_else(|| format!("`{text}` names no object that we know"))
    }
}

impl Serialize for ObjectKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for GangName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl BudgetSeen {
    /// Whether it wants all of its pods up, and so never lets one go that is. One that allows an eviction now does not,
    /// whatever its other counts say: they may be older.
    pub fn wants_all(&self) -> bool {
        self.allowed <= 0 && self.expected > 0 && self.desired >= self.expected
    }

    /// Whether this pod's eviction takes from what is allowed, as the API server counts it. A pod that never ran does
    /// not, and one that is not ready only where the others are too few: else one that crashes would stay for ever.
    pub fn is_asked_for(&self, pod: &PodSeen) -> bool {
        let enough = self.healthy >= self.desired && self.desired > 0;
        pod.phase == PodPhase::Running && (pod.ready || !(self.always_allow || enough))
    }
}

impl PodSeen {
    /// Whether a drain has to see it gone: not what belongs to the node itself, and not what has ended.
    pub fn counts(&self) -> bool {
        !matches!(self.keeper, Keeper::DaemonSet | Keeper::Mirror)
            && !matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }
}

impl PodSeen {
    /// Whether it was told to end, and has had the time that it was given for that.
    pub fn had_its_time(&self, now: Timestamp) -> bool {
        self.terminating.is_some_and(|since| now.duration_since(since).as_secs() >= i64::from(self.grace_secs))
    }
}

impl NodeSeen {
    /// Since when it does not answer; none while it does.
    pub fn silent_since(&self) -> Option<Timestamp> {
        (!self.ready).then(|| self.unready_since.unwrap_or(self.created))
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}
