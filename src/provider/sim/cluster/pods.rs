//! Pods, and how they begin and end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::agenda::{Happening, PodRef};
use super::judge::Entry;
use super::node::Node;
use super::{CYCLE, ClusterState};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::ids::{NamespacedName, NodeName, ResourceName, Uid, WorkloadUid};
use crate::observed::{Keeper, PodPhase};

/// From binding to running: the image is pulled and the container starts.
const START: SignedDuration = SignedDuration::from_secs(10);
/// A controller notices a missing pod.
const NOTICE: SignedDuration = SignedDuration::from_secs(1);

/// All pods, with the ways in which they are looked for.
#[derive(Clone, Default, Debug)]
pub struct Pods {
    all: BTreeMap<NamespacedName, Pod>,
    on: BTreeMap<NodeName, BTreeSet<NamespacedName>>,
    of: BTreeMap<NamespacedName, BTreeSet<NamespacedName>>,
    unbound: BTreeSet<NamespacedName>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pod {
    pub uid: Uid,
    node: Option<NodeName>,
    pub phase: PodPhase,
    pub ready: bool,
    pub owner: Owner,
    /// What budgets select it by: the name of its owner, or its own.
    app: NamespacedName,
    pub template: Arc<PodTemplate>,
    /// The only node that it may go to.
    pub pinned: Option<NodeName>,
    /// Where others are being pushed away for it.
    pub nominated: Option<NodeName>,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub terminating: Option<Timestamp>,
    /// When it was asked to save its work.
    #[serde(default)]
    pub asked: Option<Timestamp>,
}

/// What all pods of one owner have in common.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PodTemplate {
    pub requests: BTreeMap<ResourceName, i64>,
    pub priority: i32,
    /// How long it takes to end: pods here use all of their grace.
    pub grace_secs: u32,
    pub empty_dir: bool,
    /// Labels that its node must carry.
    pub selector: BTreeMap<String, String>,
    pub tolerates: Tolerates,
}

/// Which taints do not keep a pod away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tolerates {
    /// Those that nodes of its pool always carry, as whoever submits to a pool writes them.
    pub pool: bool,
    pub everything: bool,
    pub keys: BTreeSet<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Owner {
    Gang(WorkloadUid),
    Service(NamespacedName),
    Daemon(NamespacedName),
    Kubelet,
    Nobody,
}

impl Default for Tolerates {
    fn default() -> Self {
        Self { pool: true, everything: false, keys: BTreeSet::new() }
    }
}

impl Tolerates {
    pub fn nothing() -> Self {
        Self { pool: false, everything: false, keys: BTreeSet::new() }
    }

    pub fn everything() -> Self {
        Self { pool: false, everything: true, keys: BTreeSet::new() }
    }

    /// Whether this taint of this node is no obstacle.
    pub fn tolerates(&self, node: &Node, taint: &Taint) -> bool {
        self.everything
            || taint.effect == TaintEffect::PreferNoSchedule
            || self.keys.contains(&taint.key)
            || (self.pool && node.usual.contains(&taint.key))
    }
}

impl Default for PodTemplate {
    fn default() -> Self {
        Self {
            requests: BTreeMap::new(),
            priority: 0,
            grace_secs: 30,
            empty_dir: false,
            selector: BTreeMap::new(),
            tolerates: Tolerates::default(),
        }
    }
}

impl Pod {
    pub fn new(
        uid: String,
        owner: Owner,
        app: &NamespacedName,
        template: Arc<PodTemplate>,
        created: Timestamp,
    ) -> Self {
        Self {
            uid: uid.into(),
            node: None,
            phase: PodPhase::Pending,
            ready: false,
            owner,
            app: app.clone(),
            template,
            pinned: None,
            nominated: None,
            created,
            started: None,
            terminating: None,
            asked: None,
        }
    }

    pub fn node(&self) -> Option<&NodeName> {
        self.node.as_ref()
    }

    pub fn app(&self) -> &NamespacedName {
        &self.app
    }

    pub fn is_over(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// There to stay, as far as its controller is concerned.
    pub fn is_active(&self) -> bool {
        !self.is_over() && self.terminating.is_none()
    }

    /// Whether a drain has to see it gone.
    pub fn counts(&self) -> bool {
        !matches!(self.owner, Owner::Daemon(_) | Owner::Kubelet) && !self.is_over()
    }

    pub fn keeper(&self) -> Keeper {
        match self.owner {
            Owner::Gang(_) | Owner::Service(_) => Keeper::Controller,
            Owner::Daemon(_) => Keeper::DaemonSet,
            Owner::Kubelet => Keeper::Mirror,
            Owner::Nobody => Keeper::Nobody,
        }
    }

    pub fn gang(&self) -> Option<&WorkloadUid> {
        match &self.owner {
            Owner::Gang(uid) => Some(uid),
            _ => None,
        }
    }

    pub fn wants_gpus(&self) -> bool {
        self.template.requests.iter().any(|(name, amount)| *amount > 0 && name.as_str().starts_with("nvidia.com/"))
    }
}

impl Pods {
    pub fn insert(&mut self, name: NamespacedName, pod: Pod) {
        match &pod.node {
            Some(node) => _ = self.on.entry(node.clone()).or_default().insert(name.clone()),
            None => _ = self.unbound.insert(name.clone()),
        }
        self.of.entry(pod.app.clone()).or_default().insert(name.clone());
        self.all.insert(name, pod);
    }

    pub fn remove(&mut self, name: &NamespacedName) -> Option<Pod> {
        let pod = self.all.remove(name)?;
        self.unbound.remove(name);
        if let Some(node) = &pod.node {
            forget(&mut self.on, node, name);
        }
        forget(&mut self.of, &pod.app, name);
        Some(pod)
    }

    pub fn bind(&mut self, name: &NamespacedName, node: &NodeName) {
        if let Some(pod) = self.all.get_mut(name)
            && self.unbound.remove(name)
        {
            pod.node = Some(node.clone());
            self.on.entry(node.clone()).or_default().insert(name.clone());
        }
    }

    pub fn get(&self, name: &NamespacedName) -> Option<&Pod> {
        self.all.get(name)
    }

    pub fn get_mut(&mut self, name: &NamespacedName) -> Option<&mut Pod> {
        self.all.get_mut(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NamespacedName, &Pod)> {
        self.all.iter()
    }

    pub fn on(&self, node: &NodeName) -> impl Iterator<Item = (&NamespacedName, &Pod)> {
        self.on.get(node).into_iter().flatten().map(|name| (name, &self.all[name]))
    }

    pub fn of(&self, app: &NamespacedName) -> impl Iterator<Item = (&NamespacedName, &Pod)> {
        self.of.get(app).into_iter().flatten().map(|name| (name, &self.all[name]))
    }

    pub fn unbound(&self) -> impl Iterator<Item = (&NamespacedName, &Pod)> {
        self.unbound.iter().map(|name| (name, &self.all[name]))
    }

    /// What pods take of a node, those that are ending included.
    pub fn used(&self, node: &NodeName) -> BTreeMap<ResourceName, i64> {
        let mut used = BTreeMap::new();
        for (_, pod) in self.on(node).filter(|(_, pod)| !pod.is_over()) {
            take(&mut used, &pod.template.requests, 1);
        }
        used
    }
}

/// Adds what so many pods take, and the pods themselves.
pub fn take(used: &mut BTreeMap<ResourceName, i64>, requests: &BTreeMap<ResourceName, i64>, pods: i64) {
    for (name, amount) in requests {
        *used.entry(name.clone()).or_default() += amount * pods;
    }
    *used.entry(crate::queue::topology::PODS.into()).or_default() += pods;
}

fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<NamespacedName>>, key: &K, name: &NamespacedName) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

impl PartialEq for Pods {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Serialize for Pods {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.all.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut pods = Self::default();
        for (name, pod) in BTreeMap::deserialize(deserializer)? {
            pods.insert(name, pod);
        }
        Ok(pods)
    }
}

impl ClusterState {
    pub(super) fn bind(&mut self, name: &NamespacedName, node: &NodeName) {
        self.pods.bind(name, node);
        if let Some(pod) = self.pods.get(name) {
            let pod = PodRef::new(name, &pod.uid);
            self.soon(START, Happening::PodStarts(pod));
        }
    }

    pub(super) fn pod_starts(&mut self, which: &PodRef) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&which.name).filter(|pod| pod.uid == which.uid && pod.is_active()) else {
            return;
        };
        let Some(node) = pod.node.as_ref().and_then(|name| self.nodes.get(name)) else { return };
        if !node.ready {
            // A kubelet that comes back goes on where it stopped.
            if !node.dead {
                self.soon(START, Happening::PodStarts(which.clone()));
            }
            return;
        }
        (pod.phase, pod.ready) = (PodPhase::Running, true);
        pod.started.get_or_insert(now);
        if let Some(gang) = pod.gang().cloned() {
            self.gang_runs(&gang);
        }
    }

    pub(super) fn pod_gone(&mut self, which: &PodRef) {
        let Some(pod) = self.pods.get(&which.name).filter(|pod| pod.uid == which.uid) else { return };
        let reachable = pod.node().and_then(|node| self.nodes.get(node)).is_none_or(|node| node.ready);
        if reachable {
            self.remove_pod(&which.name);
        }
        // Else nobody can say that it has ended: it goes when the node is back, or with it.
    }

    /// Tells a pod to end, as a delete does.
    pub(super) fn delete_pod(&mut self, name: &NamespacedName) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(name) else { return };
        if pod.node.is_none() || pod.is_over() || pod.template.grace_secs == 0 {
            self.remove_pod(name);
            return;
        }
        if pod.terminating.is_some() {
            return;
        }
        pod.terminating = Some(now);
        pod.ready = false;
        let (gone, grace) = (PodRef::new(name, &pod.uid), pod.template.grace_secs);
        let owner = pod.owner.clone();
        self.soon(SignedDuration::from_secs(grace.into()), Happening::PodGone(gone));
        self.owner_misses(&owner);
    }

    /// Takes a pod away: it has ended, or somebody forced it.
    pub(super) fn remove_pod(&mut self, name: &NamespacedName) {
        let Some(pod) = self.pods.remove(name) else { return };
        if pod.is_active() {
            self.owner_misses(&pod.owner);
        }
        let node = pod.node.as_ref().and_then(|node| self.node_ref(node));
        match (&pod.owner, node) {
            (Owner::Daemon(_), Some(node)) => self.soon(NOTICE, Happening::Daemons(node)),
            (Owner::Kubelet, Some(node)) if !self.nodes[&node.name].dead => {
                self.add_mirror(&node.name, name);
            }
            _ => {}
        }
        self.poke_both();
        self.finish_deletions();
    }

    /// The containers of a pod are killed: it fails, and its controller makes another.
    pub(super) fn fail_pod(&mut self, name: &NamespacedName, by: &str) {
        let Some(pod) = self.pods.get_mut(name) else { return };
        let (was_active, owner) = (pod.is_active(), pod.owner.clone());
        let node = pod.node.clone();
        (pod.phase, pod.ready) = (PodPhase::Failed, false);
        self.records.counts.killed += 1;
        self.note(Entry::Killed { pod: name.clone(), node, by: by.into() });
        if was_active {
            self.owner_misses(&owner);
        }
        self.poke_both();
    }

    fn owner_misses(&mut self, owner: &Owner) {
        match owner {
            Owner::Gang(gang) => self.soon(NOTICE, Happening::RankLost(gang.clone())),
            Owner::Service(service) => self.soon(NOTICE, Happening::Replenish(service.clone())),
            Owner::Daemon(_) | Owner::Kubelet | Owner::Nobody => {}
        }
    }

    /// A name as controllers make them, with an end of its own, and a UID.
    pub(super) fn pod_name(&mut self, owner: &NamespacedName) -> (NamespacedName, String) {
        loop {
            let uid = self.uid();
            let name = format!("{}-{}", owner.name, &uid[uid.len() - 5..]);
            let name = NamespacedName { namespace: owner.namespace.clone(), name: name.into() };
            if self.pods.get(&name).is_none() {
                return (name, uid);
            }
        }
    }

    /// Pods that would not be placed on this node now and are told to leave it by a taint.
    pub(super) fn taints_expel(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.get(name) else { return };
        let expelling: Vec<&Taint> =
            node.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute).collect();
        if expelling.is_empty() {
            return;
        }
        let stays = |pod: &Pod| {
            matches!(pod.owner, Owner::Kubelet | Owner::Daemon(_))
                || expelling.iter().all(|taint| pod.template.tolerates.tolerates(node, taint))
        };
        let leave: Vec<_> = self.pods.on(name).filter(|(_, pod)| !stays(pod)).map(|(name, _)| name.clone()).collect();
        for pod in leave {
            self.delete_pod(&pod);
        }
        self.poke_kueue(CYCLE);
    }
}
