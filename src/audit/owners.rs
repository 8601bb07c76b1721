//! Only what is ours is touched: instances with our tag that the ledger knows, nodes that serve a slot.

use super::Found;
use super::case::Case;
use super::slots::recorded_before;
use crate::effect::{Action, CloudAction, ClusterAction, LedgerChange, Subject};
use crate::ids::{InstanceId, NodeName, SlotId};

const INSTANCES: &str = "only our own instances are touched";
const NODES: &str = "only nodes that serve a slot are touched";

/// Labels and annotations of ours begin with this.
const PREFIX: &str = "tidewright.dev/";

/// Our fleet's tag, and the ledger's record, or an adoption before: a tag alone can be forged. Never a claimed node.
pub fn instances_are_ours(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let (slot, id) = match &step.action {
            Action::Cloud(CloudAction::Terminate { slot, instance } | CloudAction::Reboot { slot, instance }) => {
                (slot, instance)
            }
            _ => continue,
        };
        let tagged = case.instance(id).and_then(|seen| seen.tag.as_ref()).filter(|tag| tag.fleet == *case.fleet());
        if tagged.is_none() {
            found.step(INSTANCES, &step.id, format!("{id} was not seen with our tag"));
        }
        if !is_recorded(case, at, slot, id) {
            found.step(INSTANCES, &step.id, format!("the ledger does not know {id} as the instance of {slot}"));
        }
        let claimed = case.ledger_slot(slot).and_then(|slot| slot.node.as_ref());
        if let Some(node) = claimed.filter(|node| case.node_of(id) == Some(*node)) {
            found.step(INSTANCES, &step.id, format!("{node} is claimed, not launched"));
        }
    }
}

fn is_recorded(case: &Case<'_>, at: usize, slot: &SlotId, id: &InstanceId) -> bool {
    let remembered = case.ledger_slot(slot).and_then(|slot| slot.instance.as_ref());
    let takes_in = |change: &LedgerChange| match change {
        LedgerChange::Adopted { instance, .. } | LedgerChange::Launched { instance, .. } => instance == id,
        _ => false,
    };
    remembered == Some(id) || !recorded_before(case, at, slot, takes_in).is_empty()
}

/// A node is cordoned, dressed or cut only while it serves a slot, or for being claimed; a cordon is lifted only where
/// it is ours.
pub fn nodes_are_ours(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let Action::Cluster(action) = &step.action else { continue };
        let (node, ours) = match action {
            ClusterAction::Cordon { node, .. } | ClusterAction::Cut { node, .. } => (node, serves(case, node)),
            ClusterAction::Dress { node, labels, taints, .. } => {
                let only_takes_off =
                    taints.is_empty() && labels.iter().all(|(key, value)| value.is_none() && key.starts_with(PREFIX));
                (node, serves(case, node) || (only_takes_off && case.node(node).is_some()))
            }
            ClusterAction::Uncordon { node } => (node, case.has_our_cordon(node) || cordoned_here(case, at, node)),
            _ => continue,
        };
        if !ours {
            let what = match action {
                ClusterAction::Uncordon { .. } => format!("{node} does not carry our cordon"),
                _ => format!("{node} serves no slot"),
            };
            found.step(NODES, &step.id, what);
        }
    }
}

fn serves(case: &Case<'_>, node: &NodeName) -> bool {
    case.node(node).is_some() && case.slot_of_node(node).is_some()
}

fn cordoned_here(case: &Case<'_>, at: usize, node: &NodeName) -> bool {
    let is = |action: &Action| matches!(action, Action::Cluster(ClusterAction::Cordon { .. }));
    !case.done_before(at, &Subject::Node(node.clone()), is).is_empty()
}
