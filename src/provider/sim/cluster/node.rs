//! Nodes: how they come, what they say, how they go.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::agenda::{Happening, NodeRef, PodRef};
use super::judge::Entry;
use super::mig::Gpus;
use super::pods::Owner;
use crate::effect::marks::{CORDON, DRAIN_TAINT, GPU_COUNT, Mark, STARTING_TAINT};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::fleet::policy::ConditionStatus;
use crate::fleet::standing::NodeShape;
use crate::ids::{GpuModel, InstanceId, InstanceType, NodeName, ResourceName, Uid};
use crate::observed::{ConditionSeen, READY};

/// The kubelet has registered and is not ready yet.
const JOIN: SignedDuration = SignedDuration::from_secs(5);
/// The Node object of a machine that is gone.
const REMOVED: SignedDuration = SignedDuration::from_secs(30);
/// A kubelet that stopped is missed so late: until then its Node is as it last said.
const MISSED: SignedDuration = SignedDuration::from_secs(40);
/// How long pods put up with a node that is not ready: the default toleration.
const ABANDONED: SignedDuration = SignedDuration::from_secs(300);
/// The condition that a node which passed its tests shows.
pub const GPU_ACCEPTANCE: &str = "GpuAcceptance";
/// The condition that Xids are reported in.
pub const XID_CONDITION: &str = "SysLogsXIDError";
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// A machine registers as a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeJoin {
    pub name: NodeName,
    /// None for a machine that no cloud of ours started.
    pub instance: Option<InstanceId>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub gpus: u32,
    pub gpu: Option<GpuModel>,
    pub instance_type: InstanceType,
    pub vcpus: u32,
    pub memory_gib: u32,
    pub efa: u32,
    /// What else its kubelet and device plugins offer.
    pub shows: BTreeMap<ResourceName, i64>,
}

impl NodeJoin {
    /// A machine of a type that no cloud of ours started.
    pub fn existing(name: NodeName, shape: &NodeShape, labels: BTreeMap<String, String>) -> Self {
        Self {
            name,
            instance: None,
            labels,
            taints: Vec::new(),
            gpus: shape.gpus,
            gpu: shape.gpu.clone(),
            instance_type: shape.instance_type.clone(),
            vcpus: shape.vcpus.unwrap_or(96),
            memory_gib: shape.memory_gib.unwrap_or(1024),
            efa: shape.efa,
            shows: BTreeMap::new(),
        }
    }
}

/// When a new or rebooted node says that it passed its tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Acceptance {
    /// So many seconds after it is ready.
    After(u32),
    Never,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    pub uid: Uid,
    pub instance: Option<InstanceId>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Without those that Kubernetes derives from conditions.
    pub taints: Vec<Taint>,
    /// Keys of taints that belong to its pool: registered with, or written by its owner.
    pub usual: BTreeSet<String>,
    pub unschedulable: bool,
    pub ready: bool,
    pub not_ready_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<Timestamp>,
    pub conditions: BTreeMap<String, ConditionSeen>,
    /// Conditions that go away with a boot.
    pub healed_by_reboot: BTreeSet<String>,
    pub created: Timestamp,
    /// How often its machine was booted again.
    #[serde(default)]
    pub boots: u32,
    /// The machine is no more.
    pub dead: bool,
    pub vcpus: u32,
    pub memory_gib: u32,
    pub efa: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shows: BTreeMap<ResourceName, i64>,
    pub gpus: Gpus,
    /// Labels that somebody wrote by hand: who, and when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub moved_by: BTreeMap<String, (String, Timestamp)>,
}

impl Default for Acceptance {
    fn default() -> Self {
        Self::After(60)
    }
}

impl Node {
    fn new(join: &NodeJoin, uid: String, now: Timestamp) -> Self {
        let mut labels = join.labels.clone();
        labels.entry(HOSTNAME.into()).or_insert_with(|| join.name.to_string());
        labels.entry("node.kubernetes.io/instance-type".into()).or_insert_with(|| join.instance_type.to_string());
        if join.gpus > 0 {
            labels.entry(GPU_COUNT.into()).or_insert_with(|| join.gpus.to_string());
        }
        Self {
            uid: uid.into(),
            instance: join.instance.clone(),
            labels,
            annotations: BTreeMap::new(),
            taints: join.taints.clone(),
            // What it starts behind is nobody's to bear.
            usual: join.taints.iter().map(|taint| taint.key.clone()).filter(|key| key != STARTING_TAINT).collect(),
            unschedulable: false,
            ready: false,
            not_ready_since: Some(now),
            ready_since: None,
            conditions: BTreeMap::new(),
            healed_by_reboot: BTreeSet::new(),
            created: now,
            boots: 0,
            dead: false,
            vcpus: join.vcpus,
            memory_gib: join.memory_gib,
            efa: join.efa,
            shows: join.shows.clone(),
            gpus: Gpus::new(join.gpus, join.gpu.clone()),
            moved_by: BTreeMap::new(),
        }
    }

    /// As the API shows them: with those that Kubernetes derives.
    pub fn all_taints(&self) -> Vec<Taint> {
        let derived = |key: &str, effect| Taint { key: key.into(), value: None, effect };
        let mut taints = self.taints.clone();
        if self.unschedulable {
            taints.push(derived("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule));
        }
        if !self.ready {
            taints.push(derived("node.kubernetes.io/not-ready", TaintEffect::NoSchedule));
        }
        taints
    }

    pub fn allocatable(&self) -> BTreeMap<ResourceName, i64> {
        let mut all = self.gpus.allocatable();
        all.insert("cpu".into(), i64::from(self.vcpus) * 1000);
        all.insert("memory".into(), i64::from(self.memory_gib) << 30);
        // What kubelets of this size of machine are told.
        all.insert("pods".into(), 110);
        all.insert("ephemeral-storage".into(), 900 << 30);
        if self.efa > 0 {
            all.insert("vpc.amazonaws.com/efa".into(), self.efa.into());
            // What EKS images set aside for libfabric.
            all.insert("hugepages-2Mi".into(), 5128 << 20);
        }
        all.extend(self.shows.clone());
        all
    }

    /// A place for new pods, as far as anybody but their taints is concerned.
    pub fn is_open(&self) -> bool {
        self.ready && !self.unschedulable
    }

    /// Adds a taint; one of the same key and effect is replaced, as the API server wants them unique.
    pub fn add_taint(&mut self, taint: &Taint) {
        self.taints.retain(|old| (&old.key, old.effect) != (&taint.key, taint.effect));
        self.taints.push(taint.clone());
    }

    pub fn remove_taint(&mut self, key: &str, effect: TaintEffect) {
        self.taints.retain(|old| old.key != key || old.effect != effect);
    }

    /// Marks it: no more pods, our taint, our annotation. Who cordoned first is kept, whatever the caller believed.
    pub fn cordon(&mut self, mark: &Mark) {
        let before = match self.annotations.get(CORDON) {
            Some(old) => Mark::parse(old).cordoned_before,
            None => self.unschedulable,
        };
        self.unschedulable = true;
        self.add_taint(&Taint { key: DRAIN_TAINT.into(), value: None, effect: TaintEffect::NoSchedule });
        self.annotations.insert(CORDON.into(), Mark { cordoned_before: before, ..mark.clone() }.text());
    }

    /// Lifts our own mark, and nothing else.
    pub fn uncordon(&mut self) {
        let Some(mark) = self.annotations.remove(CORDON) else { return };
        self.remove_taint(DRAIN_TAINT, TaintEffect::NoSchedule);
        self.unschedulable = Mark::parse(&mark).cordoned_before;
    }
}

impl ClusterState {
    /// A kubelet registers. One that is there already under this instance changes nothing; a name that is taken means
    /// that the old machine is gone.
    pub fn node_joins(&mut self, now: Timestamp, join: NodeJoin) {
        self.tick(now);
        let known = join.instance.is_some() && self.nodes.values().any(|node| node.instance == join.instance);
        if known {
            return;
        }
        let node = self.register(&join);
        self.soon(JOIN, Happening::NodeReady(node));
    }

    pub(super) fn register(&mut self, join: &NodeJoin) -> NodeRef {
        if let Some(old) = self.node_ref(&join.name) {
            self.node_removed(&old);
        }
        let uid = self.uid();
        let node = Node::new(join, uid, self.now);
        let at = NodeRef { name: join.name.clone(), uid: node.uid.clone() };
        self.nodes.insert(join.name.clone(), node);
        self.note(Entry::Joined { node: join.name.clone() });
        at
    }

    pub(super) fn node_ready(&mut self, at: &NodeRef) {
        let now = self.now;
        let Some(node) = self.same_node(at).filter(|node| !node.dead) else { return };
        node.ready = true;
        node.not_ready_since = None;
        node.ready_since.get_or_insert(now);
        node.conditions.remove(READY);
        if let Acceptance::After(secs) = self.knobs.acceptance {
            self.soon(SignedDuration::from_secs(secs.into()), Happening::NodeAccepted(at.clone()));
        }
        self.soon(SignedDuration::ZERO, Happening::Daemons(at.clone()));
        self.start_gpu_stack(at);
        self.labels_written(at);
        self.pods_return(&at.name);
        self.poke_both();
    }

    /// Pods whose containers stopped with their node run again; those that were told to end have ended.
    fn pods_return(&mut self, node: &NodeName) {
        let here: Vec<_> =
            self.pods.on(node).map(|(name, pod)| (PodRef::new(name, &pod.uid), pod.terminating)).collect();
        for (pod, terminating) in here {
            let happening = if terminating.is_some() { Happening::PodGone } else { Happening::PodStarts };
            self.soon(SignedDuration::from_secs(5), happening(pod));
        }
    }

    pub(super) fn node_accepted(&mut self, at: &NodeRef) {
        let now = self.now;
        let Some(node) = self.same_node(at).filter(|node| node.ready) else { return };
        let seen = ConditionSeen::new(ConditionStatus::True, now);
        node.conditions.insert(GPU_ACCEPTANCE.into(), seen);
    }

    /// The machine died or was terminated. Its Node says so at once and is removed soon after, and its pods with it.
    pub fn node_gone(&mut self, now: Timestamp, instance: &InstanceId) {
        self.tick(now);
        let Some(at) = self.node_of(instance) else { return };
        if let Some(node) = self.same_node(&at) {
            node.dead = true;
        }
        self.lose_ready(&at);
        self.soon(REMOVED, Happening::NodeRemoved(at));
    }

    /// The machine boots: its containers stop, and it is back later. Its Node says nothing of that until it is missed.
    pub fn node_reboots(&mut self, now: Timestamp, instance: &InstanceId, back_at: Timestamp) {
        self.tick(now);
        let Some(at) = self.node_of(instance) else { return };
        if let Some(node) = self.same_node(&at) {
            let healed = std::mem::take(&mut node.healed_by_reboot);
            node.conditions.retain(|kind, _| !healed.contains(kind) && kind != GPU_ACCEPTANCE);
        }
        let ranks: Vec<_> = self.pods.on(&at.name).filter(|(_, pod)| pod.gang().is_some() && !pod.is_over()).collect();
        let ranks: Vec<_> = ranks.into_iter().map(|(name, _)| name.clone()).collect();
        for pod in ranks {
            self.fail_pod(&pod, "reboot");
        }
        self.soon(MISSED, Happening::NodeMissed(at.clone()));
        self.agenda.add(back_at.max(now), Happening::NodeBooted(at));
    }

    pub(super) fn node_missed(&mut self, at: &NodeRef) {
        self.lose_ready(at);
        if let Some(node) = self.same_node(at) {
            node.gpus.stop();
        }
    }

    pub(super) fn node_booted(&mut self, at: &NodeRef) {
        if let Some(node) = self.same_node(at) {
            node.boots += 1;
        }
        self.node_ready(at);
    }

    pub(super) fn lose_ready(&mut self, at: &NodeRef) {
        let now = self.now;
        let Some(node) = self.same_node(at).filter(|node| node.ready) else { return };
        node.ready = false;
        (node.not_ready_since, node.ready_since) = (Some(now), None);
        let here: Vec<_> = self.pods.on(&at.name).map(|(name, _)| name.clone()).collect();
        for name in here {
            if let Some(pod) = self.pods.get_mut(&name) {
                pod.ready = false;
            }
        }
        self.soon(ABANDONED, Happening::NodeAbandoned(at.clone(), now));
        self.poke_both();
    }

    /// Pods are told to leave a node that stays away; nobody there can confirm that they ended.
    pub(super) fn node_abandoned(&mut self, at: &NodeRef, since: Timestamp) {
        if self.same_node(at).is_none_or(|node| node.not_ready_since != Some(since)) {
            return;
        }
        let leave = |owner: &Owner| !matches!(owner, Owner::Daemon(_) | Owner::Kubelet);
        let here: Vec<_> =
            self.pods.on(&at.name).filter(|(_, pod)| leave(&pod.owner)).map(|(name, _)| name.clone()).collect();
        for pod in here {
            self.delete_pod(&pod);
        }
    }

    /// The Node object goes, and with it what was on it.
    pub(super) fn node_removed(&mut self, at: &NodeRef) {
        if self.same_node(at).is_none() {
            return;
        }
        self.nodes.remove(&at.name);
        let here: Vec<_> = self.pods.on(&at.name).map(|(name, pod)| (name.clone(), pod.counts())).collect();
        for (pod, counted) in here {
            if counted {
                self.records.counts.killed += 1;
                self.note(Entry::Killed { pod: pod.clone(), node: Some(at.name.clone()), by: "node gone".into() });
            }
            self.remove_pod(&pod);
        }
        self.note(Entry::Left { node: at.name.clone() });
        self.poke_both();
    }

    pub(super) fn node_of(&self, instance: &InstanceId) -> Option<NodeRef> {
        let found = self.nodes.iter().find(|(_, node)| node.instance.as_ref() == Some(instance));
        found.map(|(name, node)| NodeRef { name: name.clone(), uid: node.uid.clone() })
    }
}
