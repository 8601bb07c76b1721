//! What a script does to nodes as somebody else, or as the hardware.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::agenda::Happening;
use super::gangs::absent;
use super::node::XID_CONDITION;
use super::{Acceptance, ClusterState, NodeJoin};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::fleet::policy::ConditionStatus;
use crate::ids::{NamespacedName, NodeName};
use crate::observed::{ConditionSeen, READY};
use crate::provider::ProviderError;

impl ClusterState {
    /// A node that has been there for long: ready, its GPUs up.
    pub fn existing_node(&mut self, now: Timestamp, join: &NodeJoin) {
        self.tick(now);
        let at = self.register(join);
        if let Some(node) = self.same_node(&at) {
            node.gpus.start_at_once();
        }
        self.node_ready(&at);
        self.node_accepted(&at);
        self.labels_written(&at);
    }

    /// Somebody deletes the Node object. A machine that lives would register again; here it stays away.
    pub fn delete_node(&mut self, now: Timestamp, name: &NodeName) -> Result<(), ProviderError> {
        self.tick(now);
        let at = self.node_ref(name).ok_or_else(|| absent(&format!("nodes \"{name}\"")))?;
        self.node_removed(&at);
        Ok(())
    }

    /// The kubelet stops answering, or answers again.
    pub fn set_ready(&mut self, now: Timestamp, name: &NodeName, ready: bool) -> Result<(), ProviderError> {
        self.tick(now);
        let at = self.node_ref(name).ok_or_else(|| absent(&format!("nodes \"{name}\"")))?;
        if ready {
            self.soon(jiff::SignedDuration::ZERO, Happening::NodeReady(at));
        } else {
            self.lose_ready(&at);
        }
        Ok(())
    }

    /// Whether new and rebooted nodes pass their tests, and how soon.
    pub fn set_acceptance(&mut self, acceptance: Acceptance) {
        self.knobs.acceptance = acceptance;
    }

    /// A condition of a node, and what its message says; without a status it goes away.
    pub fn set_condition(
        &mut self,
        now: Timestamp,
        name: &NodeName,
        kind: &str,
        status: Option<ConditionStatus>,
        message: &str,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        let since = self.now;
        if kind == READY {
            self.set_ready(now, name, matches!(status, None | Some(ConditionStatus::True)))?;
        }
        // That a node is ready is no condition of its own, and one whose kubelet says nothing has none.
        let status = status.filter(|status| kind != READY || *status == ConditionStatus::False);
        self.change_node(name, |node| match status {
            Some(status) => {
                node.conditions.insert(kind.into(), ConditionSeen::said(kind, status, since, "", message));
            }
            None => _ = node.conditions.remove(kind),
        })
    }

    /// The driver reports an Xid; where a boot heals it, the condition goes with the next one.
    pub fn xid(
        &mut self,
        now: Timestamp,
        name: &NodeName,
        code: u32,
        healed_by_reboot: bool,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        let since = self.now;
        self.change_node(name, |node| {
            let fresh = || ConditionSeen::new(ConditionStatus::True, since);
            let condition = node.conditions.entry(XID_CONDITION.into()).or_insert_with(fresh);
            condition.status = ConditionStatus::True;
            if !condition.xids.contains(&code) {
                condition.xids.push(code);
            }
            if healed_by_reboot {
                node.healed_by_reboot.insert(XID_CONDITION.into());
            }
        })
    }

    /// An annotation that somebody writes, such as `hands-off`; without a value it is removed.
    pub fn annotate(
        &mut self,
        now: Timestamp,
        name: &NodeName,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        self.change_node(name, |node| set(&mut node.annotations, key, value))
    }

    /// Somebody changes a label of a node. Who takes one off leaves no trace, as in a real cluster.
    pub fn label(
        &mut self,
        now: Timestamp,
        name: &NodeName,
        (key, value): (&str, Option<&str>),
        by: Option<&str>,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        self.change_node(name, |node| {
            set(&mut node.labels, key, value);
            node.moved_by.remove(key);
            if let (Some(by), true) = (by, value.is_some()) {
                node.moved_by.insert(key.into(), (by.into(), now));
            }
        })
    }

    /// A taint of somebody else: the pods of the pool do not expect it.
    pub fn taint(&mut self, now: Timestamp, name: &NodeName, taint: &Taint) -> Result<(), ProviderError> {
        self.tick(now);
        self.change_node(name, |node| node.add_taint(taint))
    }

    pub fn untaint(
        &mut self,
        now: Timestamp,
        name: &NodeName,
        key: &str,
        effect: TaintEffect,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        self.change_node(name, |node| node.remove_taint(key, effect))
    }

    /// Somebody else cordons a node, or lifts the cordon.
    pub fn set_unschedulable(
        &mut self,
        now: Timestamp,
        name: &NodeName,
        unschedulable: bool,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        self.change_node(name, |node| node.unschedulable = unschedulable)
    }

    /// An admission webhook denies evictions of this app from now on.
    pub fn deny_evictions(&mut self, app: &NamespacedName) {
        self.knobs.denied.push(app.clone());
    }
}

fn set(map: &mut BTreeMap<String, String>, key: &str, value: Option<&str>) {
    match value {
        Some(value) => _ = map.insert(key.into(), value.into()),
        None => _ = map.remove(key),
    }
}
