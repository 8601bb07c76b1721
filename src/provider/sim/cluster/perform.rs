//! What a `ClusterAction` does here.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::ClusterState;
use super::gangs::absent;
use super::judge::Entry;
use super::node::Node;
use crate::effect::marks::{MIG_CONFIG, PLUGIN_CONFIG, cut_order, ordered_since};
use crate::effect::{ClusterAction, LaidOut};
use crate::fleet::launch::Taint;
use crate::ids::{NamespacedName, NodeName, Uid, WorkloadUid};
use crate::provider::{Class, Done, ProviderError, Refusal};

impl ClusterState {
    /// Does one thing, after everything that happened before it.
    pub fn perform(&mut self, now: Timestamp, action: &ClusterAction) -> Result<Done, ProviderError> {
        self.tick(now);
        match action {
            ClusterAction::Apply(object) => self.apply(object)?,
            ClusterAction::Delete(key) => self.delete(key)?,
            ClusterAction::Disown(key) => self.disown(key)?,
            ClusterAction::Dress { node, labels, taints, remove_taints, notes } => {
                self.dress(node, labels, (taints, remove_taints), notes)?;
            }
            ClusterAction::Cordon { node, mark } => self.change_node(node, |node| node.cordon(mark))?,
            ClusterAction::Uncordon { node } => self.change_node(node, Node::uncordon)?,
            ClusterAction::Ask { workload, mark } => self.ask(workload, mark)?,
            ClusterAction::AskPods { pods, mark, .. } => self.ask_pods(pods, mark),
            ClusterAction::Suspend { workload, mark } => self.suspend(workload, mark)?,
            ClusterAction::Resume { workload } => self.resume(workload)?,
            ClusterAction::Shrink { workload, pods } => self.shrink(workload, *pods)?,
            ClusterAction::Evict { pods, force } => return Ok(self.evict_all(pods, *force)),
            ClusterAction::Cut { node, laid_out, flip, over } => self.order_cut(node, laid_out, *flip, over)?,
        }
        Ok(Done::Nothing)
    }

    /// Changes a node and tells everybody who watches nodes.
    pub(super) fn change_node(&mut self, name: &NodeName, change: impl FnOnce(&mut Node)) -> Result<(), ProviderError> {
        let node = self.nodes.get_mut(name).ok_or_else(|| absent(&format!("nodes \"{name}\"")))?;
        let was_closed = node.unschedulable;
        change(node);
        match (was_closed, node.unschedulable) {
            (false, true) => self.note(Entry::Closed { node: name.clone() }),
            (true, false) => self.note(Entry::Opened { node: name.clone() }),
            _ => {}
        }
        if let Some(at) = self.node_ref(name) {
            self.labels_written(&at);
        }
        self.taints_expel(name);
        self.poke_both();
        Ok(())
    }

    fn dress(
        &mut self,
        name: &NodeName,
        labels: &BTreeMap<String, Option<String>>,
        (taints, remove_taints): (&[Taint], &[Taint]),
        notes: &BTreeMap<String, Option<String>>,
    ) -> Result<(), ProviderError> {
        self.change_node(name, |node| {
            for (key, text) in notes {
                match text {
                    Some(text) => _ = node.annotations.insert(key.clone(), text.clone()),
                    None => _ = node.annotations.remove(key),
                }
            }
            for (key, value) in labels {
                node.moved_by.remove(key);
                match value {
                    Some(value) => _ = node.labels.insert(key.clone(), value.clone()),
                    None => _ = node.labels.remove(key),
                }
            }
            for taint in remove_taints {
                node.remove_taint(&taint.key, taint.effect);
                node.usual.remove(&taint.key);
            }
            for taint in taints {
                node.add_taint(taint);
                node.usual.insert(taint.key.clone());
            }
        })
    }

    fn order_cut(
        &mut self,
        name: &NodeName,
        laid_out: &LaidOut,
        flip: bool,
        over: &BTreeMap<String, String>,
    ) -> Result<(), ProviderError> {
        let carried = self.nodes.get(name).map(|node| cut_order(&node.labels));
        if carried.is_some_and(|carried| carried != *over) {
            return Err(ProviderError::new(Class::Conflict, ordered_since(name)));
        }
        self.change_node(name, |node| {
            if flip {
                // Taken back for long enough that whoever watches saw it.
                node.labels.remove(MIG_CONFIG);
                node.labels.remove(PLUGIN_CONFIG);
                node.gpus.forget_orders();
            }
            for (key, value) in laid_out.order(&node.labels) {
                node.moved_by.remove(&key);
                match value {
                    Some(value) => drop(node.labels.insert(key, value)),
                    None => drop(node.labels.remove(&key)),
                }
            }
        })
    }

    fn evict_all(&mut self, pods: &[(NamespacedName, Uid)], force: bool) -> Done {
        self.judge_eviction(pods);
        let mut refused = Vec::new();
        for (name, uid) in pods {
            if force {
                self.force_delete(name, uid);
                continue;
            }
            let answer = self.evict(name, uid);
            if !answer.is_done() {
                let (permanent, retry_after_secs) = (answer.is_permanent(), answer.retry_after_secs);
                let why = format!("{} {}", answer.code, answer.text);
                refused.push(Refusal { pod: name.clone(), why, permanent, retry_after_secs });
            }
        }
        Done::Evicted { refused }
    }

    fn force_delete(&mut self, name: &NamespacedName, uid: &Uid) {
        if self.pods.get(name).is_some_and(|pod| pod.uid == *uid) {
            self.records.counts.forced += 1;
            self.note(Entry::Evicted { pod: name.clone(), forced: true });
            self.remove_pod(name);
        }
    }

    /// Ending one rank costs as much as ending all: a gang that runs is told to go as a whole, or left alone.
    fn judge_eviction(&mut self, pods: &[(NamespacedName, Uid)]) {
        let told: BTreeSet<&Uid> = pods.iter().map(|(_, uid)| uid).collect();
        let gangs: BTreeSet<WorkloadUid> =
            pods.iter().filter_map(|(name, _)| self.pods.get(name)?.gang().cloned()).collect();
        for uid in gangs {
            let Some(gang) = self.gangs.get(&uid).filter(|gang| gang.runs() && gang.active) else { continue };
            let left = self.pods.of(&gang.spec.name).filter(|(_, pod)| pod.is_active() && !told.contains(&pod.uid));
            let (name, left) = (gang.spec.name.clone(), left.count());
            if left > 0 {
                self.violated(format!("a part of {name} was evicted and {left} pods were left"));
            }
        }
    }
}
