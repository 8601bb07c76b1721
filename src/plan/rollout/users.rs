//! Who uses a pool's budget up: nodes that are out of service, or about to be, each with why.

use std::collections::{BTreeMap, BTreeSet};

use super::{Unit, is_away, is_begun};
use crate::effect::marks::is_starting;
use crate::ids::{NodeName, SlotId};
use crate::plan::types::Reason;
use crate::plan::view::{Body, PoolView, SlotView, View};

pub(super) struct Users(BTreeMap<SlotId, (Option<NodeName>, String)>);

impl Users {
    /// Nodes of a pool that are away, that were begun, and that go for another reason.
    pub(super) fn new(pool: &PoolView<'_>, begun: &[Unit<'_, '_>], leaving: &[(&SlotView<'_>, &Reason)]) -> Self {
        let going: BTreeSet<&SlotId> = begun.iter().flatten().map(|slot| &slot.id).collect();
        let leaving: BTreeMap<&SlotId, &Reason> = leaving.iter().map(|(slot, reason)| (&slot.id, *reason)).collect();
        let why = |slot: &SlotView<'_>| match leaving.get(&slot.id) {
            Some(reason) => Some(leaves(reason)),
            None if is_away(slot) => Some(is_out(slot).into()),
            None => (is_begun(slot) || going.contains(&slot.id)).then(|| MOVES.into()),
        };
        let wanted = pool.slots.iter().filter(|slot| slot.part.is_some());
        let out = wanted.filter_map(|slot| Some((slot.id.clone(), (node_of(slot), why(slot)?))));
        Self(out.collect())
    }

    pub(super) fn goes(&mut self, slot: &SlotView<'_>) {
        self.0.insert(slot.id.clone(), (node_of(slot), MOVES.into()));
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Each with why, as it is told.
    pub(super) fn words(&self) -> Vec<String> {
        self.0.iter().map(|(slot, (_, why))| format!("{slot} ({why})")).collect()
    }

    /// Those that are out for as long as a person wants.
    pub(super) fn kept_out(&self, view: &View<'_>) -> Vec<&NodeName> {
        let head = &view.input.ledger.head;
        let kept = |name: &&NodeName| head.quarantined.contains_key(*name) || head.drains.contains_key(*name);
        self.0.values().filter_map(|(node, _)| node.as_ref()).filter(kept).collect()
    }
}

pub(super) const MOVES: &str = "it moves";

fn node_of(slot: &SlotView<'_>) -> Option<NodeName> {
    slot.node.map(|(name, _)| name.clone())
}

/// Why a slot has no node in service.
pub(super) fn is_out(slot: &SlotView<'_>) -> &'static str {
    match (slot.body, slot.node) {
        (Body::Nothing | Body::Dead | Body::Missing, _) => "it has no node",
        (Body::Dying, _) => "its node is going",
        (Body::Odd, _) => "its machine is stopped",
        (Body::Starting, Some((_, node))) if !is_starting(node) => "its node does not answer",
        _ => "its node is on its way",
    }
}

/// Why a node in service is about to be out.
pub(super) fn leaves(reason: &Reason) -> String {
    match reason {
        Reason::Sick { symptom, .. } => format!("it is sick: {symptom}"),
        Reason::Lent { tide, .. } => format!("it is lent by {tide}"),
        Reason::Returning { tide, .. } => format!("it comes back from {tide}"),
        Reason::Notice { .. } => "the cloud takes it".into(),
        Reason::CapacityEnds { reservation, .. } => format!("reservation/{reservation} ends"),
        _ => "it goes".into(),
    }
}
