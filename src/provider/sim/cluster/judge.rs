//! What happened, for whoever checks what must never happen.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::pods::Pod;
use crate::ids::{InstanceId, NamespacedName, NodeName};

/// Enough to see how something came about; the counts know the rest.
const KEPT: usize = 2_000;

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Records {
    pub counts: Counts,
    pub log: VecDeque<(Timestamp, Entry)>,
    pub violations: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Pods that the eviction API took.
    pub evictions: u64,
    /// Pods that were deleted without asking.
    pub forced: u64,
    /// Answers of the eviction API that were a no.
    pub refusals: u64,
    pub suspends: u64,
    pub admissions: u64,
    pub preemptions: u64,
    pub cuts: u64,
    /// Pods that ended because what was under them did.
    pub killed: u64,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Entry {
    Joined {
        node: NodeName,
    },
    Left {
        node: NodeName,
    },
    Evicted {
        pod: NamespacedName,
        forced: bool,
    },
    Killed {
        pod: NamespacedName,
        node: Option<NodeName>,
        by: String,
    },
    Admitted {
        gang: NamespacedName,
    },
    /// A gang lost its quota, and the words that Kueue gives for it.
    Stopped {
        gang: NamespacedName,
        why: String,
    },
    Finished {
        gang: NamespacedName,
    },
    /// A gang was made smaller.
    Shrunk {
        gang: NamespacedName,
        pods: u32,
    },
    /// Somebody cordoned a node, or lifted its cordon.
    Closed {
        node: NodeName,
    },
    Opened {
        node: NodeName,
    },
    Cut {
        node: NodeName,
        to: String,
    },
    Violated(String),
}

impl ClusterState {
    /// Called as somebody orders a machine to stop or to boot: what was on it should have been drained.
    pub fn judge_removal(&mut self, now: Timestamp, instance: &InstanceId, verb: &str) {
        self.tick(now);
        let Some(at) = self.node_of(instance) else { return };
        // On a node that does not answer nobody can say that a pod has ended: who was told to ends with the machine.
        let silent = verb == "Terminate" && self.same_node(&at).is_some_and(|node| !node.ready);
        let lives = |pod: &Pod| pod.counts() && !(silent && pod.terminating.is_some());
        let left: Vec<_> = self.pods.on(&at.name).filter(|(_, pod)| lives(pod)).map(|(name, _)| name.clone()).collect();
        for pod in left {
            self.violated(format!("{verb} of {instance} ({}) while {pod} was on it", at.name));
        }
    }

    pub(super) fn note(&mut self, entry: Entry) {
        if self.records.log.len() == KEPT {
            self.records.log.pop_front();
        }
        self.records.log.push_back((self.now, entry));
    }

    pub(super) fn violated(&mut self, what: String) {
        self.note(Entry::Violated(what.clone()));
        self.records.violations.push(format!("{}: {what}", self.now));
    }
}
