//! Who is disturbed when pods go, and what is lost at worst: an index over the pods, built once a plan.
//!
//! Used by every part of the planner that takes something away. It knows nothing of drains, budgets of a pool or
//! windows; whole gangs are counted whatever part of one is hit, because a gang runs and ends together.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::types::{Disruption, GangHit, PlanInput};
use crate::effect::Amount;
use crate::fleet::standing::{Standing, TierSpec};
use crate::ids::{NamespacedName, NodeName, QuotaName, ResourceName, TierName, WorkloadUid};
use crate::observed::{BudgetSeen, GangName, Keeper, PodSeen, WorkloadSeen};

/// The pods that a drain has to see gone, by what they can be asked for. Pods that belong to a node itself and pods
/// that have ended are not in it.
#[derive(Debug)]
pub struct Harm<'a> {
    now: Timestamp,
    standing: &'a Standing,
    pods: &'a [PodSeen],
    workloads: &'a BTreeMap<WorkloadUid, WorkloadSeen>,
    budgets: &'a BTreeMap<NamespacedName, BudgetSeen>,
    by_node: BTreeMap<&'a NodeName, Vec<&'a PodSeen>>,
    /// Built when it is first asked for: a plan that disturbs nobody does not pay for it.
    by_gang: OnceCell<Gangs<'a>>,
    quotas: BTreeMap<&'a str, &'a QuotaName>,
    namespaces: BTreeMap<&'a str, &'a QuotaName>,
}

/// What runs and ends together: a gang by its name, or the pods of one workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Gang<'a> {
    Named(&'a GangName),
    Of(&'a WorkloadUid),
}

impl std::fmt::Display for Gang<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => name.fmt(f),
            Self::Of(workload) => workload.fmt(f),
        }
    }
}

#[derive(Default, Debug)]
struct Gangs<'a> {
    named: BTreeMap<&'a str, Vec<&'a PodSeen>>,
    of: BTreeMap<&'a str, Vec<&'a PodSeen>>,
    /// Pods of a workload that are in a gang of another name.
    elsewhere: BTreeMap<&'a str, Vec<&'a PodSeen>>,
}

impl<'a> Harm<'a> {
    pub fn new(input: &'a PlanInput) -> Self {
        let cluster = &input.observed.cluster;
        let standing = &*input.target.standing;
        let pods = cluster.pods.seen().as_slice();
        let mut by_node: BTreeMap<&NodeName, Vec<&PodSeen>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod.counts()) {
            if let Some(node) = &pod.node {
                by_node.entry(node).or_default().push(pod);
            }
        }
        let quotas = standing.quotas.iter().map(|(name, quota)| (quota.cluster_queue.as_str(), name));
        let spaces = standing.quotas.iter().flat_map(|(name, quota)| quota.namespaces.iter().map(move |n| (n, name)));
        Self {
            now: input.now,
            standing,
            pods,
            workloads: cluster.workloads.seen(),
            budgets: cluster.budgets.seen(),
            by_node,
            by_gang: OnceCell::new(),
            quotas: quotas.collect(),
            namespaces: spaces.map(|((namespace, _), name)| (namespace.as_str(), name)).collect(),
        }
    }

    /// The pods on a node that a drain has to see gone.
    pub fn pods_on(&self, node: &NodeName) -> &[&'a PodSeen] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The work on a node, by name, each once.
    pub fn work_on(&self, node: &NodeName) -> BTreeSet<String> {
        let name = |pod: &PodSeen| match (self.workload(pod), &pod.gang) {
            (Some(workload), _) => workload.name.to_string(),
            (None, Some(gang)) => gang.to_string(),
            (None, None) => pod.name.to_string(),
        };
        self.pods_on(node).iter().map(|pod| name(pod)).collect()
    }

    /// Whether a pod was told to go already, by whomever.
    pub fn is_leaving(&self, pod: &PodSeen) -> bool {
        pod.terminating.is_some() || self.workload(pod).is_some_and(|found| !found.active || found.evicted)
    }

    pub fn gang_pods(&self, gang: &GangName) -> &[&'a PodSeen] {
        self.pods_of(Gang::Named(gang))
    }

    /// The pods of a workload that are in no gang of another name.
    pub fn workload_pods(&self, workload: &WorkloadUid) -> &[&'a PodSeen] {
        self.pods_of(Gang::Of(workload))
    }

    pub fn pods_of(&self, gang: Gang<'_>) -> &[&'a PodSeen] {
        let found = match gang {
            Gang::Named(name) => self.gangs().named.get(&*name.0),
            Gang::Of(workload) => self.gangs().of.get(workload.as_str()),
        };
        found.map_or(&[], Vec::as_slice)
    }

    fn gangs(&self) -> &Gangs<'a> {
        self.by_gang.get_or_init(|| {
            let mut index = Gangs::default();
            for pod in self.pods.iter().filter(|pod| pod.counts()) {
                match (&pod.gang, &pod.workload) {
                    (Some(name), workload) => {
                        index.named.entry(&name.0).or_default().push(pod);
                        if let Some(workload) = workload {
                            index.elsewhere.entry(workload.as_str()).or_default().push(pod);
                        }
                    }
                    (None, Some(workload)) => index.of.entry(workload.as_str()).or_default().push(pod),
                    (None, None) => {}
                }
            }
            index
        })
    }

    pub fn workload(&self, pod: &PodSeen) -> Option<&'a WorkloadSeen> {
        self.workloads.get(pod.workload.as_ref()?)
    }

    /// The quota whose queue a workload is in.
    pub fn quota_of(&self, workload: &WorkloadSeen) -> Option<&'a QuotaName> {
        self.quotas.get(workload.queue.as_str()).copied()
    }

    /// Whose pod it is: by its workload's queue, or by its namespace.
    pub fn team_of(&self, pod: &PodSeen) -> Option<&'a QuotaName> {
        let queued = self.workload(pod).and_then(|workload| self.quota_of(workload));
        queued.or_else(|| self.namespaces.get(pod.name.namespace.as_str()).copied())
    }

    /// The tier that a workload says it is in.
    pub fn tier_of(&self, workload: &WorkloadSeen) -> Option<(&'a TierName, &'a TierSpec)> {
        self.standing.tiers.get_key_value(workload.tier.as_ref()?)
    }

    /// The tier of pods that no queue admitted, by their priority: a tier's PriorityClass is its rank.
    pub fn tier_by_priority(&self, priority: i32) -> Option<(&'a TierName, &'a TierSpec)> {
        self.standing.tiers.iter().find(|(_, tier)| tier.rank == priority)
    }

    /// What happens to whom when these pods go, each with its whole gang. Pods that are on their way out already
    /// disturb nobody anew.
    pub fn hit(&self, pods: &[&PodSeen]) -> Disruption {
        let mut gangs: BTreeSet<Gang<'_>> = BTreeSet::new();
        let mut single: BTreeMap<&str, &PodSeen> = BTreeMap::new();
        let mut found = Disruption::default();
        for pod in pods.iter().filter(|pod| pod.counts() && pod.terminating.is_none()) {
            found.nodes.extend(pod.node.clone());
            match gang_of(pod) {
                Some(gang) => {
                    gangs.insert(gang);
                }
                None => {
                    single.insert(pod.uid.as_str(), *pod);
                }
            }
        }
        found.nodes.sort_unstable();
        found.nodes.dedup();
        for gang in gangs {
            self.hit_gang(gang, &mut found);
        }
        for pod in single.into_values() {
            self.hit_one(pod, &mut found);
            let secs = self.since(pod.saved.max(pod.started));
            found.gpu_secs = found.gpu_secs.saturating_add(gpus([pod]).saturating_mul(secs));
        }
        found.blocked_by.sort_unstable();
        found.blocked_by.dedup();
        found
    }

    /// What happens when a workload goes: one that runs no pods yet loses its place, and no work.
    pub fn hit_workload(&self, uid: &WorkloadUid) -> Disruption {
        if !self.workloads.contains_key(uid) {
            return Disruption::default();
        }
        match self.workload_pods(uid) {
            [] => self.hit(self.gangs().elsewhere.get(uid.as_str()).map_or(&[], Vec::as_slice)),
            pods => self.hit(pods),
        }
    }

    /// The nodes that a workload's pods are on, or that it was given.
    pub fn workload_nodes(&self, uid: &WorkloadUid, workload: &'a WorkloadSeen) -> BTreeSet<&'a NodeName> {
        let running = self.workload_pods(uid).iter().filter_map(|pod| pod.node.as_ref());
        running.chain(workload.nodes.keys()).collect()
    }

    /// The nodes that are reached when one is emptied: its own, and those of all that runs and ends with what is on it.
    pub fn reach(&self, node: &NodeName) -> Vec<NodeName> {
        let mut nodes: BTreeSet<&NodeName> = BTreeSet::from([node]);
        for pod in self.pods_on(node) {
            let pods = gang_of(pod).map_or(&[][..], |gang| self.pods_of(gang));
            nodes.extend(pods.iter().filter_map(|pod| pod.node.as_ref()));
            if let Some((uid, found)) = pod.workload.as_ref().and_then(|uid| Some((uid, self.workload(pod)?))) {
                nodes.extend(self.workload_nodes(uid, found));
            }
        }
        nodes.into_iter().cloned().collect()
    }

    fn hit_gang(&self, gang: Gang<'_>, found: &mut Disruption) {
        let pods = || self.pods_of(gang).iter().copied().filter(|pod| pod.node.is_some());
        let Some(first) = pods().next() else { return };
        pods().for_each(|pod| self.hit_one(pod, found));
        let workload = self.workload(first);
        let saved = pods().filter_map(|pod| pod.saved).chain(workload.and_then(|workload| workload.saved)).max();
        let begun = pods().filter_map(|pod| pod.started).min();
        let (gpus, at_risk_secs) = (gpus(pods()), self.since(saved.max(begun)));
        found.gpu_secs = found.gpu_secs.saturating_add(gpus.saturating_mul(at_risk_secs));
        found.gangs.push(GangHit {
            name: match (gang, workload) {
                (Gang::Named(name), _) => name.to_string(),
                (Gang::Of(_), Some(workload)) => workload.name.to_string(),
                (Gang::Of(uid), None) => uid.to_string(),
            },
            quota: self.team_of(first).cloned(),
            tier: workload.and_then(|workload| workload.tier.clone()),
            nodes: narrow(pods().filter_map(|pod| pod.node.as_ref()).collect::<BTreeSet<_>>().len()),
            pods: narrow(pods().count()),
            gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
            at_risk_secs,
        });
    }

    fn hit_one(&self, pod: &PodSeen, found: &mut Disruption) {
        found.pods += 1;
        found.teams.extend(self.team_of(pod).cloned());
        if pod.keeper == Keeper::Nobody || pod.empty_dir {
            found.lost.push(pod.name.clone());
        }
        // A workload is suspended as a whole, and its controller asks no budget. Two budgets on one pod are an error
        // that the eviction API answers for ever.
        if pod.workload.is_none() {
            let asks = |budget: &BudgetSeen| budget.allowed <= 0 && budget.is_asked_for(pod);
            let says_no = |name: &&NamespacedName| self.budgets.get(*name).is_some_and(asks);
            let no = pod.budgets.iter().filter(|name| pod.budgets.len() > 1 || says_no(name));
            found.blocked_by.extend(no.cloned());
        }
    }

    fn since(&self, at: Option<Timestamp>) -> u64 {
        at.map_or(0, |at| u64::try_from(self.now.duration_since(at).as_secs()).unwrap_or(0))
    }

    /// What is disturbed, as part of an effect.
    pub fn amount(&self, disruption: &Disruption) -> Amount {
        let rank = |hit: &GangHit| self.standing.tiers.get(hit.tier.as_ref()?).map(|tier| tier.rank);
        Amount {
            gpus: disruption.gangs.iter().map(|gang| gang.gpus).fold(0, u32::saturating_add),
            gpu_secs: disruption.gpu_secs,
            teams: disruption.teams.clone(),
            highest: disruption.gangs.iter().filter_map(rank).max(),
            ..Amount::default()
        }
    }
}

/// What a pod runs and ends with.
pub fn gang_of(pod: &PodSeen) -> Option<Gang<'_>> {
    pod.gang.as_ref().map(Gang::Named).or_else(|| pod.workload.as_ref().map(Gang::Of))
}

/// The GPUs that pods ask for, in whole ones: slices by the sevenths of a GPU that they compute on, rounded up.
pub fn gpus<'p>(pods: impl IntoIterator<Item = &'p PodSeen>) -> u64 {
    let of = |(name, amount): (&ResourceName, &i64)| sevenths(name).saturating_mul(u64::try_from(*amount).unwrap_or(0));
    let sum = pods.into_iter().flat_map(|pod| pod.requests.iter().map(of)).fold(0, u64::saturating_add);
    sum.div_ceil(7)
}

/// How many sevenths of a GPU one of a resource is; a GPU that is shared counts as a whole one, because nobody knows
/// better.
fn sevenths(resource: &ResourceName) -> u64 {
    let Some(name) = resource.as_str().strip_prefix("nvidia.com/") else { return 0 };
    match name.strip_prefix("mig-").map(|profile| profile.split('g').next().map(str::parse::<u64>)) {
        Some(Some(Ok(slices))) => slices.min(7),
        Some(_) => 7,
        None if name == "gpu" || name.starts_with("gpu.") => 7,
        None => 0,
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
