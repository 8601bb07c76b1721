//! A simple kube-scheduler: where a pod fits, spread over the nodes; and whom it pushes away where it does not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::ClusterState;
use super::kueue::matches_labels;
use super::node::Node;
use super::pods::{Pod, PodTemplate, take};
use crate::ids::{NamespacedName, NodeName, ResourceName};

type Amounts = BTreeMap<ResourceName, i64>;

/// Each push looks at every node: a pass of a large cluster does a few and comes back.
const MOST_PUSHES: u32 = 50;

/// What is free, found out once a pass for each node that is asked for.
#[derive(Default)]
struct Free {
    nodes: BTreeMap<NodeName, Amounts>,
}

impl Free {
    fn of<'a>(&'a mut self, state: &ClusterState, name: &NodeName, node: &Node) -> &'a mut Amounts {
        self.nodes.entry(name.clone()).or_insert_with(|| {
            let mut free = node.allocatable();
            for (resource, amount) in state.pods.used(name) {
                *free.entry(resource).or_default() -= amount;
            }
            free
        })
    }

    fn fits(&mut self, state: &ClusterState, name: &NodeName, node: &Node, template: &PodTemplate) -> bool {
        let free = self.of(state, name, node);
        has(free, &template.requests)
    }
}

fn has(free: &Amounts, requests: &Amounts) -> bool {
    let left = |resource: &str| free.get(resource).copied().unwrap_or(0);
    left("pods") >= 1 && requests.iter().all(|(resource, amount)| left(resource.as_str()) >= *amount)
}

/// Whether a pod may go to a node at all.
fn suits(node: &Node, template: &PodTemplate) -> bool {
    let open = node.is_open() || (template.tolerates.everything && node.ready);
    open && matches_labels(node, &template.selector)
        && node.taints.iter().all(|taint| template.tolerates.tolerates(node, taint))
}

impl ClusterState {
    /// Binds what fits, the most important and then the oldest first. Pods of one app go round the nodes that have
    /// room: the emptiest first, as the default scoring has it.
    pub(super) fn schedule(&mut self) {
        self.knobs.schedule_at = None;
        let mut pushes = 0;
        let mut free = Free::default();
        let mut rounds: BTreeMap<NamespacedName, VecDeque<NodeName>> = BTreeMap::new();
        let mut waiting: Vec<(NamespacedName, Pod)> = self
            .pods
            .unbound()
            .filter(|(_, pod)| pod.is_active())
            .map(|(name, pod)| (name.clone(), pod.clone()))
            .collect();
        waiting.sort_by_key(|(_, pod)| (Reverse(pod.template.priority), pod.created));
        for (name, pod) in waiting {
            let template = &pod.template;
            let found = match &pod.pinned {
                Some(node) => self.fits_pinned(&mut free, node, template).then(|| node.clone()),
                None => {
                    let round = rounds.entry(pod.app().clone()).or_insert_with(|| self.round(template));
                    self.next_in(&mut free, round, template)
                }
            };
            if let Some(node) = found {
                if let Some(free) = free.nodes.get_mut(&node) {
                    take_from(free, &template.requests);
                }
                self.bind(&name, &node);
            } else if template.priority > 0 && pushes < MOST_PUSHES {
                pushes += u32::from(self.push_away(&name, &pod));
            }
        }
        if pushes == MOST_PUSHES {
            self.poke_scheduler();
        }
    }

    fn fits_pinned(&self, free: &mut Free, name: &NodeName, template: &PodTemplate) -> bool {
        let node = self.nodes.get(name).filter(|node| suits(node, template));
        node.is_some_and(|node| free.fits(self, name, node, template))
    }

    fn round(&self, template: &PodTemplate) -> VecDeque<NodeName> {
        let suited = self.nodes.iter().filter(|(_, node)| suits(node, template));
        let mut suited: Vec<_> = suited.map(|(name, _)| (self.pods.on(name).count(), name.clone())).collect();
        suited.sort();
        suited.into_iter().map(|(_, name)| name).collect()
    }

    /// The next node of a round with room. Room only shrinks during a pass, so one without is left out.
    fn next_in(&self, free: &mut Free, round: &mut VecDeque<NodeName>, template: &PodTemplate) -> Option<NodeName> {
        while let Some(name) = round.pop_front() {
            let node = self.nodes.get(&name)?;
            if free.fits(self, &name, node, template) {
                round.push_back(name.clone());
                return Some(name);
            }
        }
        None
    }

    /// Preemption by the scheduler: pods of lower priority are deleted to make room, one rank of a gang as soon as any
    /// other pod. The node with the least important victims, then with the fewest, is taken.
    fn push_away(&mut self, pod_name: &NamespacedName, pod: &Pod) -> bool {
        let template = &pod.template;
        let leaving = |node: &NodeName| self.pods.on(node).any(|(_, other)| other.terminating.is_some());
        if pod.nominated.as_ref().is_some_and(leaving) {
            return false;
        }
        let pinned = |name: &NodeName| pod.pinned.as_ref().is_none_or(|pinned| pinned == name);
        let suited = self.nodes.iter().filter(|(name, node)| pinned(name) && suits(node, template));
        let choice = suited.filter_map(|(name, node)| {
            let victims = self.victims(name, node, template)?;
            let highest = victims.iter().map(|(priority, _)| *priority).max()?;
            Some((highest, victims.len(), name.clone(), victims))
        });
        let Some((_, _, node, victims)) = choice.min() else { return false };
        if let Some(found) = self.pods.get_mut(pod_name) {
            found.nominated = Some(node);
        }
        for (_, victim) in victims {
            self.delete_pod(&victim);
        }
        true
    }

    /// Whom to push away here, or nothing where that would not help or is under way already.
    fn victims(&self, name: &NodeName, node: &Node, template: &PodTemplate) -> Option<Vec<(i32, NamespacedName)>> {
        let mut free = node.allocatable();
        for (resource, amount) in self.pods.used(name) {
            *free.entry(resource).or_default() -= amount;
        }
        let mut lower: Vec<_> = self
            .pods
            .on(name)
            .filter(|(_, other)| other.counts() && other.template.priority < template.priority)
            .collect();
        if lower.iter().any(|(_, other)| other.terminating.is_some()) {
            return None;
        }
        lower.sort_by_key(|(_, other)| (other.template.priority, Reverse(other.started)));
        let mut victims = Vec::new();
        for (victim, other) in lower {
            if has(&free, &template.requests) {
                break;
            }
            give_back(&mut free, &other.template.requests);
            victims.push((other.template.priority, victim.clone()));
        }
        (has(&free, &template.requests) && !victims.is_empty()).then_some(victims)
    }
}

fn take_from(free: &mut Amounts, requests: &Amounts) {
    take(free, requests, -1);
}

fn give_back(free: &mut Amounts, requests: &Amounts) {
    take(free, requests, 1);
}
