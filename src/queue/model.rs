//! The state with everything numbered, and the usage that the scheduler moves about while it tries things.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::state::*;
use super::topology::{Nodes, PODS, Placement};
use super::tree::{Amounts, Tree};
use super::{Decision, EvictReason};

#[derive(Debug)]
pub struct Model<'a> {
    pub mode: &'a Mode,
    pub tree: Tree,
    pub nodes: Nodes,
    pub queues: Vec<Queue<'a>>,
    /// In the order of their UIDs.
    pub jobs: Vec<Job<'a>>,
    now: Timestamp,
}

#[derive(Debug)]
pub struct Queue<'a> {
    pub spec: &'a ClusterQueue,
    /// Not held and in no cycle of cohorts.
    pub takes_part: bool,
    /// Every flavor has a topology, so that every job is placed.
    pub is_topology_only: bool,
    /// Jobs that hold quota, in the order of their UIDs.
    pub holding: Vec<usize>,
}

#[derive(Debug)]
pub struct Job<'a> {
    pub uid: &'a WorkloadUid,
    pub spec: &'a Workload,
    /// Nothing if its ClusterQueue does not exist.
    pub queue: Option<usize>,
    pub held: Option<Held>,
}

#[derive(Debug)]
pub struct Held {
    pub since: Timestamp,
    pub amounts: Amounts,
    pub placement: Placement,
    pub evicted: bool,
}

impl<'a> Model<'a> {
    pub fn new(state: &'a QueueState) -> Self {
        let (tree, takes_part) = Tree::new(state);
        let nodes = Nodes::new(state);
        let queues = state.cluster_queues.values().zip(takes_part).map(|(spec, takes_part)| {
            let mut flavors = spec.groups.iter().flat_map(|group| &group.flavors);
            let is_topology_only = flavors.clone().next().is_some() && flavors.all(|one| nodes.has(&one.flavor));
            Queue { spec, takes_part, is_topology_only, holding: Vec::new() }
        });
        let queues = queues.collect();
        let index: BTreeMap<_, _> = state.cluster_queues.keys().enumerate().map(|(at, name)| (name, at)).collect();
        let jobs = state.workloads.iter().map(|(uid, spec)| {
            let queue = index.get(&spec.queue).copied();
            Job { uid, spec, queue, held: None }
        });
        let jobs = jobs.collect();
        let mut model = Self { mode: &state.mode, tree, nodes, queues, jobs, now: state.now };
        for job in 0..model.jobs.len() {
            let spec = model.jobs[job].spec;
            if let Some(held) = &spec.reservation {
                let kinds = held.assignment.flavors.iter().filter_map(|(resource, flavor)| {
                    let pods = (resource.as_str() == PODS).then_some(i64::from(spec.pods));
                    let amount = spec.requests.get(resource).copied().or(pods)?;
                    Some((*model.tree.kind_of.get(&(flavor.clone(), resource.clone()))?, amount))
                });
                let amounts = kinds.collect();
                let placement = model.nodes.find(&held.assignment.nodes);
                model.hold(job, Held { since: held.since, amounts, placement, evicted: held.evicted });
            }
        }
        model
    }

    fn hold(&mut self, job: usize, held: Held) {
        if let Some(queue) = self.jobs[job].queue {
            self.tree.add(queue, &held.amounts);
            let holding = &mut self.queues[queue].holding;
            if let Err(place) = holding.binary_search(&job) {
                holding.insert(place, job);
            }
        }
        self.nodes.add(self.jobs[job].spec, &held.placement);
        self.jobs[job].held = Some(held);
    }

    pub fn admit(&mut self, job: usize, amounts: Amounts, placement: Placement) {
        self.hold(job, Held { since: self.now, amounts, placement, evicted: false });
    }

    /// Tells the jobs of drained queues and those that are not active to go.
    pub fn stop(&mut self) -> Vec<Decision> {
        let mut told = Vec::new();
        for job in &mut self.jobs {
            let Some(held) = job.held.as_mut().filter(|held| !held.evicted) else { continue };
            let drained = job.queue.is_some_and(|queue| self.queues[queue].spec.stop == StopPolicy::HoldAndDrain);
            let reason = match (job.spec.active, drained) {
                (false, _) => EvictReason::Deactivated,
                (true, true) => EvictReason::QueueDrained,
                (true, false) => continue,
            };
            held.evicted = true;
            told.push(Decision::Evict { workload: job.uid.clone(), reason });
        }
        told
    }

    /// Frees what evicted jobs hold and says who they were.
    pub fn release_evicted(&mut self) -> Vec<usize> {
        let is_evicted = |job: &usize| self.jobs[*job].held.as_ref().is_some_and(|held| held.evicted);
        let gone: Vec<usize> = (0..self.jobs.len()).filter(is_evicted).collect();
        for &job in &gone {
            self.take_away(job);
            self.jobs[job].held = None;
            if let Some(queue) = self.jobs[job].queue {
                self.queues[queue].holding.retain(|other| *other != job);
            }
        }
        gone
    }

    /// As if the job held nothing, until [`Self::put_back`].
    pub fn take_away(&mut self, job: usize) {
        let Job { spec, queue, held: Some(held), .. } = &self.jobs[job] else { return };
        if let Some(queue) = *queue {
            self.tree.remove(queue, &held.amounts);
        }
        self.nodes.remove(spec, &held.placement);
    }

    pub fn put_back(&mut self, job: usize) {
        let Job { spec, queue, held: Some(held), .. } = &self.jobs[job] else { return };
        if let Some(queue) = *queue {
            self.tree.add(queue, &held.amounts);
        }
        self.nodes.add(spec, &held.placement);
    }

    pub fn is_evicted(&self, job: usize) -> bool {
        self.jobs[job].held.as_ref().is_some_and(|held| held.evicted)
    }
}
