//! A node that was in service and does not answer: how long it is waited for, and what is said meanwhile.
//!
//! A machine of ours is replaced in the end, as a sick one. Nobody here can replace somebody else's machine: what a
//! person can do is said instead. What its pods mean for a drain is decided in [`super::drain`].

use jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::slots::hold;
use super::types::{Reason, WaitingOn, thing};
use super::view::{PoolView, SlotView, View};
use super::wish::never_came;
use crate::effect::SILENT;
use crate::effect::marks::{DRESSED, is_starting};
use crate::fleet::policy::Remedy;
use crate::observed::NodeSeen;

/// How long a boot may take, with the checks of large machines.
const BOOTS_WITHIN: SignedDuration = SignedDuration::from_mins(30);
const SYMPTOM: &str = "it does not answer";

/// Why a machine of ours whose node is not ready is waited for no longer.
pub fn given_up(view: &View<'_>, slot: &SlotView<'_>) -> Option<&'static str> {
    let (_, node) = slot.node?;
    if slot.is_existing() {
        return None;
    }
    if !has_served(node) {
        return never_came(view, slot).then_some("it did not become ready");
    }
    (waited_for_until(slot, node)? <= view.now).then_some(SYMPTOM)
}

/// Says that a slot's node does not answer, where it was in service. False where it is only on its way.
pub fn say(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, draft: &mut Draft) -> bool {
    let Some((name, node)) = slot.node.filter(|(_, node)| slot.is_existing() || has_served(node)) else { return false };
    let (Some(since), Some(until)) = (node.silent_since(), waited_for_until(slot, node)) else { return false };
    if is_booting(slot) && view.now < until {
        return false;
    }
    let waiting_on = match (view.now < until, slot.is_existing()) {
        (true, true) => WaitingOn::until(until, format!("{name} does not answer; by then it may again")),
        (true, false) => WaitingOn::until(until, format!("{name} does not answer; by then it does, or is replaced")),
        (false, _) => WaitingOn::Person(format!(
            "{name} does not answer since {since}: see to the machine. If it does not come back, delete its Node \
             object, and another node with the labels is claimed"
        )),
    };
    let reason = Reason::Sick { remedy: Remedy::Report, symptom: SYMPTOM.into() };
    hold(draft, &thing(pool.name), format!("{name} in service in {}", slot.id), reason, waiting_on);
    true
}

/// Whether work was let on it: one that never was is on its way.
fn has_served(node: &NodeSeen) -> bool {
    !is_starting(node) && node.labels.contains_key(DRESSED)
}

fn is_booting(slot: &SlotView<'_>) -> bool {
    slot.mark.as_ref().is_some_and(|mark| mark.why == "reboot")
}

fn waited_for_until(slot: &SlotView<'_>, node: &NodeSeen) -> Option<Timestamp> {
    let patience = if is_booting(slot) { BOOTS_WITHIN } else { SILENT };
    node.silent_since()?.checked_add(patience).ok()
}
