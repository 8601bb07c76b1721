//! What becomes of a gang that lost a pod: made again, moved to another node, or told to go.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::ClusterState;
use super::agenda::Happening;
use super::gangs::{Gang, Why};
use super::kueue::reserved;
use crate::ids::{NodeName, ResourceName, WorkloadUid};

/// The Job controller waits before it makes a pod again that was lost.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(8);

impl ClusterState {
    pub(super) fn rank_lost(&mut self, uid: &WorkloadUid) {
        let Some(gang) = self.gangs.get(uid).filter(|gang| gang.runs()) else { return };
        // One that was made smaller misses nobody.
        if self.pods.of(&gang.spec.name).filter(|(_, pod)| pod.is_active()).count() >= gang.spec.pods as usize {
            return;
        }
        let sick = self.sick_nodes(gang);
        self.gang_lost_readiness(uid);
        match sick.as_slice() {
            [] => self.soon(BACK_OFF, Happening::FillGang(uid.clone())),
            [node] => match self.replacement(uid, node) {
                Some(other) => self.move_rank(uid, node, other),
                None => self.evict_gang(uid, Why::NodeFailures),
            },
            // Kueue replaces one node at a time; with more the whole gang goes.
            _ => self.evict_gang(uid, Why::NodeFailures),
        }
    }

    /// Nodes of its assignment that miss pods and take no new ones.
    fn sick_nodes(&self, gang: &Gang) -> Vec<NodeName> {
        let Some(held) = &gang.held else { return Vec::new() };
        let tolerates = &self.gang_template(gang).tolerates;
        let is_sick = |node: &NodeName, pods: u32| {
            let here =
                self.pods.of(&gang.spec.name).filter(|(_, pod)| pod.is_active() && pod.pinned.as_ref() == Some(node));
            let healthy = self.nodes.get(node).is_some_and(|found| {
                found.is_open() && found.taints.iter().all(|taint| tolerates.tolerates(found, taint))
            });
            !healthy && here.count() < pods as usize
        };
        held.nodes.iter().filter(|(node, pods)| is_sick(node, **pods)).map(|(node, _)| node.clone()).collect()
    }

    /// A node with room for what the sick one held, in the same domain where one is required. The tightest wins.
    fn replacement(&self, uid: &WorkloadUid, sick: &NodeName) -> Option<NodeName> {
        let state = self.queue_state();
        let workload = state.workloads.get(uid)?;
        let assigned = &workload.reservation.as_ref()?.assignment;
        let pods = i64::from(*assigned.nodes.get(sick)?);
        let topology = assigned.flavors.values().find_map(|flavor| state.topologies.get(flavor))?;
        let gang = self.gangs.get(uid)?;
        let depth = match &gang.spec.required_level {
            None => 0,
            Some(level) => topology.levels.iter().position(|one| one == level)? + 1,
        };
        let others = || assigned.nodes.keys().filter(|node| *node != sick);
        let domain = others().find_map(|node| topology.nodes.get(node)).map(|node| &node.path);
        let used = reserved(&state);
        let room = |name: &NodeName, capacity: &BTreeMap<ResourceName, i64>| {
            let taken =
                |resource: &ResourceName| used.get(name).and_then(|used| used.get(resource)).copied().unwrap_or(0);
            let free = |resource: &ResourceName| capacity.get(resource).copied().unwrap_or(0) - taken(resource);
            let each = workload.per_pod.iter().filter(|(_, amount)| **amount > 0);
            each.map(|(resource, amount)| free(resource) / amount).min().unwrap_or(0)
        };
        let same = |path: &Vec<String>| {
            domain.is_none_or(|domain| domain.iter().zip(path).take(depth).all(|(one, other)| one == other))
        };
        let fits = topology.nodes.iter().filter(|(name, node)| *name != sick && same(&node.path));
        let fits = fits.map(|(name, node)| (room(name, &node.capacity), name)).filter(|(room, _)| *room >= pods);
        fits.min().map(|(_, name)| name.clone())
    }

    fn move_rank(&mut self, uid: &WorkloadUid, from: &NodeName, to: NodeName) {
        let Some(held) = self.gangs.get_mut(uid).and_then(|gang| gang.held.as_mut()) else { return };
        if let Some(pods) = held.nodes.remove(from) {
            *held.nodes.entry(to).or_default() += pods;
        }
        self.soon(BACK_OFF, Happening::FillGang(uid.clone()));
    }
}
