//! Who uses a pool's budget up: nodes that are out of service, or about to be, each with why.

use std::collections::{BTreeMap, BTreeSet};

use super::{Unit, is_away, is_begun};
use crate::effect::marks::is_starting;
use crate::ids::{NodeName, SlotId};
use crate::plan::types::Reason;
use crate::plan::view::{Body, PoolView, SlotView, View};

pub(super) struct Users(BTreeMap<SlotId, User>);

struct User {
    why: String,
    /// It is out for as long as a person wants: which node, and what they say to let it in.
    kept: Option<(NodeName, String)>,
}

impl Users {
    /// Nodes of a pool that are away, that were begun, that go for another reason, and that somebody keeps out.
    pub(super) fn new(
        view: &View<'_>,
        pool: &PoolView<'_>,
        begun: &[Unit<'_, '_>],
        leaving: &[(&SlotView<'_>, &Reason)],
    ) -> Self {
        let going: BTreeSet<&SlotId> = begun.iter().flatten().map(|slot| &slot.id).collect();
        let leaving: BTreeMap<&SlotId, &Reason> = leaving.iter().map(|(slot, reason)| (&slot.id, *reason)).collect();
        let user = |slot: &SlotView<'_>| {
            let by_itself = |why: String| User { why, kept: None };
            if let Some(reason) = leaving.get(&slot.id) {
                return Some(by_itself(leaves(reason)));
            }
            let moves = is_begun(slot) || going.contains(&slot.id);
            match kept_out(view, slot) {
                Some((node, why, remedy)) => Some(User { why: why.into(), kept: Some((node.clone(), remedy)) }),
                None if is_away(slot) => Some(by_itself(is_out(slot).into())),
                None if moves => Some(by_itself(MOVES.into())),
                None => slot.mark.as_ref().map(|mark| by_itself(format!("it is closed: {}", mark.why))),
            }
        };
        let wanted = pool.slots.iter().filter(|slot| slot.part.is_some());
        Self(wanted.filter_map(|slot| Some((slot.id.clone(), user(slot)?))).collect())
    }

    pub(super) fn goes(&mut self, slot: &SlotView<'_>) {
        self.0.insert(slot.id.clone(), User { why: MOVES.into(), kept: None });
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// How many of these are in service, and take room when they go.
    pub(super) fn take(&self, unit: &Unit<'_, '_>) -> usize {
        unit.iter().filter(|slot| !self.0.contains_key(&slot.id)).count()
    }

    /// Each with why, as it is told.
    pub(super) fn words(&self) -> Vec<String> {
        self.0.iter().map(|(slot, user)| format!("{slot} ({})", user.why)).collect()
    }

    /// Those that are out for as long as a person wants: the node, and what lets it in.
    pub(super) fn kept(&self) -> impl Iterator<Item = (&SlotId, &NodeName, &str)> {
        self.0.iter().filter_map(|(slot, user)| {
            let (node, remedy) = user.kept.as_ref()?;
            Some((slot, node, remedy.as_str()))
        })
    }
}

/// Whether somebody keeps a slot's node out of service: in quarantine, empty, or closed by a hand that is not ours. With
/// why, and what lets it in again.
fn kept_out<'a>(view: &View<'_>, slot: &SlotView<'a>) -> Option<(&'a NodeName, &'static str, String)> {
    let (name, node) = slot.node.filter(|_| !matches!(slot.body, Body::Dying | Body::Dead))?;
    let head = &view.input.ledger.head;
    if head.quarantined.contains_key(name) {
        return Some((name, "it is in quarantine", format!("tidewright return {name}")));
    }
    if head.drains.contains_key(name) {
        return Some((name, "it is kept empty", format!("tidewright undrain {name}")));
    }
    let is_closed = slot.body == Body::Serving && node.unschedulable && slot.mark.is_none() && !is_starting(node);
    is_closed.then(|| (name, "somebody closed it", format!("kubectl uncordon {name}")))
}

pub(super) const MOVES: &str = "it moves";

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
        Reason::Recommended { .. } => "the cloud may take it".into(),
        Reason::CapacityEnds { reservation, .. } => format!("reservation/{reservation} ends"),
        _ => "it goes".into(),
    }
}
