//! What will happen by itself, in order of time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{NamespacedName, NodeName, Uid, WorkloadUid};
use crate::observed::ObjectKey;

/// Things to come. What is due at the same instant happens in the order in which it was added.
#[derive(Clone, Default, Debug)]
pub struct Agenda {
    due: BTreeMap<(Timestamp, u64), Happening>,
    added: u64,
}

/// A node by name and UID: another of the same name is another node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRef {
    pub name: NodeName,
    pub uid: Uid,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PodRef {
    pub name: NamespacedName,
    pub uid: Uid,
}

/// Something that happens by itself. Each is checked again when it is due: what it was meant for may be gone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Happening {
    NodeReady(NodeRef),
    /// Its kubelet stopped for a boot, and that is noticed.
    NodeMissed(NodeRef),
    /// Its machine was booted, and is back.
    NodeBooted(NodeRef),
    NodeAccepted(NodeRef),
    NodeRemoved(NodeRef),
    /// Not ready since this instant for longer than pods put up with.
    NodeAbandoned(NodeRef, Timestamp),
    Daemons(NodeRef),
    PluginUp {
        node: NodeRef,
        run: u32,
    },
    MigActs(NodeRef),
    MigDone {
        node: NodeRef,
        run: u32,
    },
    Mounted(ObjectKey),
    PodStarts(PodRef),
    PodGone(PodRef),
    Replenish(NamespacedName),
    Schedule,
    Cycle,
    /// Kueue sees that a workload is not active.
    Deactivated(WorkloadUid),
    /// An evicted workload gives its quota back.
    Released {
        gang: WorkloadUid,
        epoch: u32,
    },
    FillGang(WorkloadUid),
    RankLost(WorkloadUid),
    Saved(WorkloadUid),
    ServiceSaved(NamespacedName),
    /// The work may be done, unless some of it was lost.
    Finishes(WorkloadUid),
    /// Kueue's patience with pods that are not ready since this instant is over.
    Unready {
        gang: WorkloadUid,
        since: Timestamp,
    },
    /// Somebody who was told to wait may be looked at again.
    BackOffOver,
    Forgotten(WorkloadUid),
}

impl Agenda {
    pub fn add(&mut self, at: Timestamp, happening: Happening) {
        self.due.insert((at, self.added), happening);
        self.added += 1;
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next thing that is due by now.
    pub fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, Happening)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let ((at, _), happening) = first.remove_entry();
        Some((at, happening))
    }
}

/// The numbers only keep the order; they begin anew when the agenda is read back.
impl PartialEq for Agenda {
    fn eq(&self, other: &Self) -> bool {
        let in_order = |agenda: &'_ Self| -> Vec<(Timestamp, Happening)> {
            agenda.due.iter().map(|((at, _), happening)| (*at, happening.clone())).collect()
        };
        in_order(self) == in_order(other)
    }
}

/// As a list in order: JSON has no maps whose keys are pairs.
impl Serialize for Agenda {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.due.iter().map(|((at, _), happening)| (at, happening)))
    }
}

impl<'de> Deserialize<'de> for Agenda {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut agenda = Self::default();
        for (at, happening) in Vec::<(Timestamp, Happening)>::deserialize(deserializer)? {
            agenda.add(at, happening);
        }
        Ok(agenda)
    }
}
