//! The pods that a plan has to do with: a fleet has many, and only these are indexed.

use std::collections::{BTreeMap, BTreeSet};

use crate::effect::{Action, CloudAction, ClusterAction, Fact, LedgerChange};
use crate::ids::{InstanceId, NamespacedName, NodeName, Uid, WorkloadUid};
use crate::observed::{GangName, Keeper, PodSeen, WorkloadSeen};
use crate::plan::{PlanInput, Step};

#[derive(Debug, Default)]
pub struct Pods<'a> {
    /// The pods that a step evicts, or that go with the workload that it suspends.
    sent_by: BTreeMap<usize, Vec<&'a PodSeen>>,
    /// The pods of the workload that a step asks to save its work, or lets queue again.
    spoken_to: BTreeMap<usize, Vec<&'a PodSeen>>,
    /// The steps that send a pod away.
    senders: BTreeMap<&'a Uid, Vec<usize>>,
    /// The pods on each node that a step destroys, cuts, boots or lists again.
    on: BTreeMap<&'a NodeName, Vec<&'a PodSeen>>,
    /// The pods of every gang of which one is sent away.
    gangs: BTreeMap<&'a GangName, Vec<&'a PodSeen>>,
    /// Pods that a step evicts and nobody saw under this name and UID.
    unseen: Vec<(usize, &'a NamespacedName)>,
    workloads: Option<&'a BTreeMap<WorkloadUid, WorkloadSeen>>,
}

impl<'a> Pods<'a> {
    pub fn of(input: &'a PlanInput, steps: &'a [Step]) -> Self {
        let mut pods = Self { workloads: Some(input.observed.cluster.workloads.seen()), ..Self::default() };
        let mut evicted: BTreeMap<&Uid, Vec<(usize, &NamespacedName)>> = BTreeMap::new();
        let mut suspended: BTreeMap<&WorkloadUid, Vec<usize>> = BTreeMap::new();
        let mut spoken_to: BTreeMap<&WorkloadUid, Vec<usize>> = BTreeMap::new();
        let mut asked: BTreeMap<&Uid, Vec<usize>> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            match &step.action {
                Action::Cluster(ClusterAction::Evict { pods, .. }) => {
                    pods.iter().for_each(|(name, uid)| evicted.entry(uid).or_default().push((at, name)));
                }
                Action::Cluster(ClusterAction::AskPods { pods, .. }) => {
                    pods.iter().for_each(|(_, uid)| asked.entry(uid).or_default().push(at));
                }
                Action::Cluster(ClusterAction::Suspend { workload, .. }) => {
                    suspended.entry(workload).or_default().push(at);
                }
                Action::Cluster(
                    ClusterAction::Ask { workload, .. }
                    | ClusterAction::Shrink { workload, .. }
                    | ClusterAction::Resume { workload },
                ) => {
                    spoken_to.entry(workload).or_default().push(at);
                }
                _ => {}
            }
        }
        let nodes = emptied(input, steps);
        if evicted.is_empty() && suspended.is_empty() && spoken_to.is_empty() && asked.is_empty() && nodes.is_empty() {
            return pods;
        }
        let mut hit: BTreeSet<&GangName> = BTreeSet::new();
        for pod in input.observed.cluster.pods.seen() {
            if let Some(node) = &pod.node
                && let Some(node) = nodes.get(node)
            {
                pods.on.entry(node).or_default().push(pod);
            }
            let by_workload = pod.workload.as_ref().and_then(|uid| spoken_to.get(uid));
            for at in by_workload.into_iter().chain(asked.get(&pod.uid)).flatten() {
                pods.spoken_to.entry(*at).or_default().push(pod);
            }
            let with_workload = pod.workload.as_ref().and_then(|uid| suspended.get(uid)).into_iter().flatten().copied();
            let by_uid = evicted.get_mut(&pod.uid).into_iter().flat_map(|list| {
                let named: Vec<usize> = list.iter().filter(|(_, name)| **name == pod.name).map(|(at, _)| *at).collect();
                list.retain(|(_, name)| **name != pod.name);
                named
            });
            let senders: Vec<usize> = with_workload.chain(by_uid).collect();
            if !senders.is_empty() {
                senders.iter().for_each(|at| pods.sent_by.entry(*at).or_default().push(pod));
                hit.extend(&pod.gang);
                pods.senders.insert(&pod.uid, senders);
            }
        }
        pods.unseen = evicted.into_values().flatten().collect();
        if !hit.is_empty() {
            for pod in input.observed.cluster.pods.seen() {
                if let Some(gang) = pod.gang.as_ref().and_then(|gang| hit.get(gang)) {
                    pods.gangs.entry(gang).or_default().push(pod);
                }
            }
        }
        pods
    }

    /// The pods that a step sends away.
    pub fn sent_by(&self, at: usize) -> &[&'a PodSeen] {
        self.sent_by.get(&at).map_or(&[], Vec::as_slice)
    }

    /// The pods of the workload that a step asks to save its work, or lets queue again.
    pub fn spoken_to_by(&self, at: usize) -> &[&'a PodSeen] {
        self.spoken_to.get(&at).map_or(&[], Vec::as_slice)
    }

    /// The steps that send a pod away.
    pub fn senders(&self, pod: &PodSeen) -> &[usize] {
        self.senders.get(&pod.uid).map_or(&[], Vec::as_slice)
    }

    /// Everything on a node.
    pub fn listed(&self, node: &NodeName) -> &[&'a PodSeen] {
        self.on.get(node).map_or(&[], Vec::as_slice)
    }

    /// What has to leave a node.
    pub fn on(&self, node: &NodeName) -> impl Iterator<Item = &'a PodSeen> {
        self.listed(node).iter().copied().filter(|pod| pod.counts())
    }

    pub fn gangs(&self) -> impl Iterator<Item = (&'a GangName, &[&'a PodSeen])> {
        self.gangs.iter().map(|(gang, pods)| (*gang, pods.as_slice()))
    }

    pub fn unseen(&self) -> &[(usize, &'a NamespacedName)] {
        &self.unseen
    }

    pub fn workload(&self, pod: &PodSeen) -> Option<&'a WorkloadSeen> {
        self.workloads?.get(pod.workload.as_ref()?)
    }

    /// Told to end already, by whomever: nothing more is taken from it.
    pub fn is_leaving(&self, pod: &PodSeen) -> bool {
        pod.terminating.is_some() || self.workload(pod).is_some_and(|workload| !workload.active || workload.evicted)
    }
}

/// What a drain leaves on the node.
pub fn is_exempt(pod: &PodSeen) -> bool {
    matches!(pod.keeper, Keeper::DaemonSet | Keeper::Mirror)
}

/// The nodes whose pods some law will ask for.
fn emptied<'a>(input: &'a PlanInput, steps: &'a [Step]) -> BTreeSet<&'a NodeName> {
    let mut instances: BTreeSet<&InstanceId> = BTreeSet::new();
    let mut nodes: BTreeSet<&NodeName> = BTreeSet::new();
    for step in steps {
        match &step.action {
            Action::Cloud(CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. }) => {
                instances.insert(instance);
            }
            Action::Cluster(ClusterAction::Cut { node, .. } | ClusterAction::Cordon { node, .. }) => {
                nodes.insert(node);
            }
            Action::Record(LedgerChange::Exchange { gives, takes, .. }) => instances.extend([gives, &takes.instance]),
            _ => {}
        }
        nodes.extend(step.requires.iter().filter_map(|fact| match fact {
            Fact::HoldsOnly { node, .. } => Some(node),
            _ => None,
        }));
    }
    if !instances.is_empty() {
        let seen = input.observed.cluster.nodes.seen().iter();
        let theirs = seen.filter(|(_, node)| node.instance.as_ref().is_some_and(|id| instances.contains(id)));
        nodes.extend(theirs.map(|(name, _)| name));
    }
    nodes
}
