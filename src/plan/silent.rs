//! A node that was in service and does not answer: how long it is waited for, and what is said meanwhile.
//!
//! A machine of ours is replaced in the end, as a sick one, unless a rule of its HealthPolicy about the condition `Ready`
//! says otherwise: then how long it is waited for, and what follows, is as written there. Nobody here can replace
//! somebody else's machine: what a person can do is said instead. What its pods mean for a drain is decided in
//! [`super::drain`].

use jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::health::{self, Sickness};
use super::slots::hold;
use super::types::{Reason, WaitingOn, thing};
use super::view::{PoolView, SlotView, View};
use super::wish::never_came;
use crate::effect::marks::{DRESSED, is_starting};
use crate::effect::{SILENT, is_silent};
use crate::fleet::policy::Remedy;
use crate::observed::NodeSeen;

/// How long a boot may take, with the checks of large machines.
const BOOTS_WITHIN: SignedDuration = SignedDuration::from_mins(30);
const SYMPTOM: &str = "it does not answer";

/// Why a machine of ours whose node is not ready is waited for no longer. A policy with a rule about that has the word.
pub fn given_up(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<&'static str> {
    let (_, node) = slot.node?;
    if slot.is_existing() {
        return None;
    }
    if !has_served(node) {
        return never_came(view, slot).then_some("it did not become ready");
    }
    let is_over = waited_for_until(view, pool, slot, node)? <= view.now;
    (is_over && health::unready_rule(view, pool, node).is_none()).then_some(SYMPTOM)
}

/// Whether a rule of the pool's policy about nodes that are not ready has struck.
pub fn is_ruled(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> bool {
    let Some((_, node)) = slot.node.filter(|(_, node)| has_served(node)) else { return false };
    let is_over = waited_for_until(view, pool, slot, node).is_some_and(|until| until <= view.now);
    is_over && health::unready_rule(view, pool, node).is_some_and(|rule| rule.then != [Remedy::Report])
}

/// What a rule asks for, as far as it can be done: a boot wants an empty node, and from one that says nothing its pods
/// are never seen gone. So there the rung after it comes at once.
pub fn possible(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, sick: Sickness) -> Sickness {
    let Some((name, node)) = slot.node.filter(|(_, node)| !node.ready) else { return sick };
    let replaces = || health::unready_rule(view, pool, node).is_some_and(|rule| rule.then.contains(&Remedy::Replace));
    let is_stuck = sick.remedy == Remedy::Reboot && sick.begun.is_none() && !view.harm.pods_on(name).is_empty();
    match is_stuck && is_silent(node, view.now) && replaces() {
        true => Sickness { remedy: Remedy::Replace, ..sick },
        false => sick,
    }
}

/// Says that a slot's node does not answer, where it was in service. False where it is only on its way.
pub fn say(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, draft: &mut Draft) -> bool {
    let Some((name, node)) = slot.node.filter(|(_, node)| slot.is_existing() || has_served(node)) else { return false };
    let until = waited_for_until(view, pool, slot, node);
    let (Some(since), Some(until)) = (node.silent_since(), until) else { return false };
    if is_booting(slot) && view.now < until {
        return false;
    }
    let is_ruled = health::unready_rule(view, pool, node).is_some();
    let waiting_on = match (view.now < until, slot.is_existing()) {
        (true, _) if is_ruled => {
            let then = "by then it does, or is treated as its HealthPolicy says";
            WaitingOn::until(until, format!("{name} does not answer; {then}"))
        }
        (true, true) => WaitingOn::until(until, format!("{name} does not answer; by then it may again")),
        (true, false) => WaitingOn::until(until, format!("{name} does not answer; by then it does, or is replaced")),
        (false, false) => WaitingOn::Person(format!(
            "{name} does not answer since {since}, and its HealthPolicy only reports that: see to the machine, or let \
             the rule replace it"
        )),
        (false, true) => WaitingOn::Person(format!(
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

fn waited_for_until(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeSeen) -> Option<Timestamp> {
    let patience = health::unready_rule(view, pool, node).map_or(SILENT, |rule| rule.r#for.signed());
    let patience = if is_booting(slot) { patience.max(BOOTS_WITHIN) } else { patience };
    node.silent_since()?.checked_add(patience).ok()
}
