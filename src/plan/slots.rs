//! What happens in each slot: filled, waited for, kept, moved, emptied, given up.
//!
//! Each slot gets at most one course. What a node in service needs is decided in [`wish`], the most urgent first; what
//! a slot without one needs follows from how far it is. Budgets are asked in the order of slots, so the same snapshot
//! gives the same plan.

use std::collections::BTreeMap;

use super::draft::{Course, Draft};
use super::drain::{Allowance, Pressure, Purpose, Steps};
use super::empty::empty_slot;
use super::later::later;
use super::launch::Room;
use super::layout;
use super::rollout::{Hour, rollout};
use super::serving::serving;
use super::steps::held;
use super::types::*;
use super::view::{Body, SlotView, View};
use super::wish::{Wish, wish};
use crate::effect::{Action, LedgerChange, Thing, Treated};
use crate::fleet::policy::Remedy;
use crate::ids::{NodeName, SlotId};

/// What the slots of all pools share while a plan is made.
#[derive(Debug)]
pub struct Shared {
    pub allowance: Allowance,
    pub room: Room,
}

pub fn plan(view: &View<'_>, draft: &mut Draft) {
    let mut shared = Shared { allowance: Allowance::default(), room: Room::new(view) };
    let mut hour = Hour::new(view);
    for pool in view.pools.values() {
        if pool.target.renamed_from.as_ref().is_some_and(|from| super::marks::is_renamed(view, from)) {
            continue;
        }
        let wishes: BTreeMap<&SlotId, Wish> =
            pool.slots.iter().filter_map(|slot| Some((&slot.id, wish(view, pool, slot)?))).collect();
        let moves = |slot: &&SlotView<'_>| wishes.get(&slot.id).is_some_and(Wish::is_rollout);
        let moving: Vec<&SlotView<'_>> = pool.slots.iter().filter(moves).collect();
        let stays = |slot: &&SlotView<'_>| slot.body == Body::Serving && !moves(slot);
        let settled: Vec<&SlotView<'_>> = pool.slots.iter().filter(stays).collect();
        // What this plan takes out of service for another reason is away too.
        let leaves = |slot: &&SlotView<'_>| wishes.get(&slot.id).is_some_and(Wish::takes_out) && !moves(slot);
        let leaving: Vec<&SlotView<'_>> = pool.slots.iter().filter(|slot| slot.part.is_some()).filter(leaves).collect();
        let removed = |slot: &&&SlotView<'_>| matches!(wishes.get(&slot.id), Some(Wish::Replace { .. }));
        let removed = moving.iter().filter(removed).filter(|slot| !slot.is_existing()).map(|slot| &slot.id).collect();
        let rollout = rollout(view, pool, &moving, &settled, &leaving, &removed, &mut hour);
        for (gang, nodes) in &rollout.wide {
            let text = format!("{gang} spans {nodes} nodes, more than may be out at once: it moves as one, and alone");
            draft.note(thing(pool.name), text);
        }
        let mut later = later(view, pool, &wishes, &rollout);
        let mut ready = layout::Ready::new(view, pool);
        for slot in pool.slots.iter().filter(|slot| is_asked_for(view, slot)) {
            match wishes.get(&slot.id) {
                None => empty_slot(view, pool, slot, &mut shared, draft),
                Some(wish) => match later.remove(&slot.id) {
                    Some(later) => draft.held.push(later),
                    None => serving(view, pool, slot, wish, &mut shared, &mut ready, draft),
                },
            }
        }
    }
    if view.input.only_node.is_none() {
        strays(view, draft);
    }
}

/// Whether the plan is about this slot: where it is about one node, the others take nothing of any budget.
fn is_asked_for(view: &View<'_>, slot: &SlotView<'_>) -> bool {
    view.input.only_node.as_ref().is_none_or(|node| slot.node.is_some_and(|(name, _)| name == node))
}

/// Instances of ours that no slot explains: reported, and left to a person.
fn strays(view: &View<'_>, draft: &mut Draft) {
    for (id, seen) in &view.strays {
        let slot = seen.tag.as_ref().map(|tag| tag.slot.clone());
        let Some(slot) = slot.filter(|slot| view.pools.contains_key(&slot.pool)) else { continue };
        let known = view.pools.get(&slot.pool).and_then(|pool| pool.slots.iter().find(|one| one.id == slot));
        let why = match known.and_then(SlotView::instance_id) {
            Some(other) if other == *id => continue,
            Some(other) => {
                format!("{id} says that it is {slot}, and so is {other}: terminate the one that nobody needs")
            }
            None if known.is_some_and(|known| known.part.is_some()) => {
                format!("{id} says that it is {slot}, which is known to be empty: terminate it if it does not go away")
            }
            None => format!("{id} says that it is {slot}, which is not wanted: terminate it, or make the pool larger"),
        };
        hold(draft, &thing(&slot.pool), format!("one instance for {slot}"), Reason::LeftOver, WaitingOn::Person(why));
    }
}

pub fn standing(on: &Thing, reason: &Reason) -> Purpose {
    let (on, reason) = (on.clone(), reason.clone());
    Purpose { why: "keep", on, reason, consent: Consent::Standing, pressure: Pressure::default() }
}

pub fn record(draft: &mut Draft, on: &Thing, id: crate::ids::StepId, change: LedgerChange, wanted: String) {
    let reason = Reason::Bookkeeping;
    let mut made = Steps::new(standing(on, &reason));
    made.push(id, Action::Record(change), vec![], (1, 2));
    push(draft, on, vec![], wanted, reason.clone(), false, made.steps);
}

pub fn push(
    draft: &mut Draft,
    on: &Thing,
    nodes: Vec<NodeName>,
    wanted: String,
    reason: Reason,
    has_deadline: bool,
    steps: Vec<Step>,
) {
    if !steps.is_empty() {
        draft.courses.push(Course { on: on.clone(), nodes, wanted, reason, has_deadline, steps });
    }
}

pub fn hold(draft: &mut Draft, on: &Thing, wanted: String, reason: Reason, waiting_on: WaitingOn) {
    draft.held.push(held(on, wanted, reason, waiting_on));
}

/// A remedy that is about to be used.
pub fn treated(view: &View<'_>, remedy: Remedy, rule: u32) -> Treated {
    Treated { at: view.now, remedy, rule }
}
