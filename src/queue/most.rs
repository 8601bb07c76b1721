//! The most that each queue could ever have, if nothing else ran: what asks for more waits for ever.

use std::collections::BTreeMap;

use serde_json::Value;

use super::parse::{Parts, parse};
use super::state::{ClusterQueueName, FlavorName, Mode, QueueState, ResourceName};
use super::transform::{Transformations, counted};
use super::tree::Tree;
use crate::observed::{ObjectKey, WorkloadSeen};

#[derive(Debug)]
pub struct Most {
    state: QueueState,
    tree: Tree,
    places: BTreeMap<ClusterQueueName, usize>,
    counts: Transformations,
}

/// Why something never starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Never {
    NoQueue,
    /// No flavor of its queue has this at all.
    NoFlavor(ResourceName),
    /// This is the most of it, in the flavor that has most.
    TooMuch {
        resource: ResourceName,
        most: i64,
        flavor: FlavorName,
    },
    /// There would be quota on this flavor, and no room for its pods.
    NoRoom(FlavorName),
}

impl Most {
    /// Of these objects, whatever runs.
    pub fn of(objects: BTreeMap<&ObjectKey, &Value>, counts: Transformations) -> Self {
        let nothing = (BTreeMap::new(), BTreeMap::new());
        let parts = Parts {
            mode: Mode::Classical,
            counts: Transformations::new(),
            now: jiff::Timestamp::UNIX_EPOCH,
            objects,
            workloads: &nothing.0,
            nodes: &nothing.1,
            pods: &[],
        };
        let state = parse(&parts);
        let (tree, _) = Tree::new(&state);
        let places = state.cluster_queues.keys().cloned().zip(0..).collect();
        Self { state, tree, places, counts }
    }

    /// What is counted of what a workload asks for.
    pub fn asked(&self, workload: &WorkloadSeen) -> BTreeMap<ResourceName, i64> {
        counted(&self.counts, &workload.requests)
    }

    /// Why a workload could never be admitted, given whether the nodes of a flavor have room for it; none where it could.
    pub fn never(&self, workload: &WorkloadSeen, has_room: impl Fn(&FlavorName) -> bool) -> Option<Never> {
        let found = self.state.cluster_queues.get(&workload.queue).zip(self.places.get(&workload.queue));
        let Some((queue, place)) = found else { return Some(Never::NoQueue) };
        let requests = self.asked(workload);
        let asked: Vec<(&ResourceName, i64)> =
            requests.iter().filter(|(_, amount)| **amount > 0).map(|(name, amount)| (name, *amount)).collect();
        let covers = |resource: &ResourceName| {
            queue.groups.iter().flat_map(|group| &group.flavors).any(|one| one.quotas.contains_key(resource))
        };
        if let Some((resource, _)) = asked.iter().find(|(resource, _)| !covers(resource)) {
            return Some(Never::NoFlavor((*resource).clone()));
        }
        let most = |flavor: &FlavorName, resource: &ResourceName| {
            let kind = self.tree.kind_of.get(&(flavor.clone(), resource.clone()));
            kind.map_or(0, |kind| self.tree.cell(*place, *kind).potential)
        };
        // One flavor gives all that is asked for of a group.
        for group in &queue.groups {
            let of_group = |resource: &ResourceName| group.flavors.iter().any(|one| one.quotas.contains_key(resource));
            let asked: Vec<_> = asked.iter().filter(|(resource, _)| of_group(resource)).collect();
            let lacks = |flavor: &FlavorName| asked.iter().find(|(resource, amount)| most(flavor, resource) < *amount);
            let mut flavors = group.flavors.iter().map(|one| &one.flavor);
            let enough: Vec<&FlavorName> = flavors.clone().filter(|flavor| lacks(flavor).is_none()).collect();
            if asked.is_empty() || enough.iter().any(|flavor| has_room(flavor)) {
                continue;
            }
            if let Some(flavor) = enough.first() {
                return Some(Never::NoRoom((*flavor).clone()));
            }
            let (resource, _) = flavors.find_map(lacks)?;
            let largest = group.flavors.iter().map(|one| &one.flavor).max_by_key(|flavor| most(flavor, resource))?;
            let (flavor, most) = (largest.clone(), most(largest, resource));
            return Some(Never::TooMuch { resource: (*resource).clone(), most, flavor });
        }
        None
    }
}
