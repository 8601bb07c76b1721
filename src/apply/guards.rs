//! What must still be so for a planned record to be true.
//!
//! A record says what the planner concluded from what it saw. If the slot has moved since, the conclusion is about
//! something that is gone: recorded anyway, it could make us forget an instance that another operator just launched.
//! What our own steps did to the slot since is what the plan expected, and is no such move.

use super::record::{Guard, NotRecorded};
use super::walk::Walk;
use crate::effect::{Exchange, Ledger, LedgerChange, Part, PoolLedger, Slot};
use crate::ids::{InstanceId, PoolName, SlotId};
use crate::provider::PartValue;

pub(super) fn of(walk: &Walk<'_>, change: &LedgerChange, now: &Ledger) -> Guard {
    match change {
        LedgerChange::Lost { slot }
        | LedgerChange::Missing { slot, .. }
        | LedgerChange::Adopted { slot, .. }
        | LedgerChange::Launched { slot, .. }
        | LedgerChange::LaunchRefused { slot, .. }
        | LedgerChange::Claimed { slot, .. }
        | LedgerChange::Unclaimed { slot }
        | LedgerChange::Closed { slot } => {
            let found = now.slot(slot).cloned().unwrap_or_default();
            go_or(slot_moved(change, slot, &walk.planned(slot), &found, now))
        }
        LedgerChange::Exchange { slot, gives, takes, .. } => {
            let found = now.slot(slot).cloned().unwrap_or_default();
            match found.exchange {
                Some(_) if found.instance.as_ref() == Some(&takes.instance) => Guard::Already,
                _ => go_or((!gives_machine(&found, gives, &walk.planned(slot))).then(|| is_another(slot))),
            }
        }
        LedgerChange::Exchanged { slot, gives, takes, .. } => {
            let found = now.slot(slot).cloned().unwrap_or_default();
            match found.instance.as_ref() {
                Some(held) if *held == takes.instance => Guard::Already,
                Some(held) if held == gives && found.intent.is_none() => Guard::Go,
                _ => Guard::No(is_another(slot)),
            }
        }
        LedgerChange::Forgotten { pool } => go_or(launches_since(pool, &walk.input.ledger, now)),
        LedgerChange::Reserved { reservation, id } => {
            let held = now.head.reservations.get(reservation).and_then(|held| held.id.as_ref());
            let planned = walk.input.ledger.head.reservations.get(reservation).and_then(|held| held.id.as_ref());
            let free = held.is_none() || held == Some(id) || held == planned;
            go_or((!free).then(|| format!("{reservation} is another by now")))
        }
        LedgerChange::ReservationForgotten { reservation } => {
            let intent = now.head.reservations.get(reservation).and_then(|held| held.intent.as_ref());
            let known = walk.input.ledger.head.reservations.get(reservation).and_then(|held| held.intent.as_ref());
            go_or((intent.is_some() && intent != known).then(|| format!("somebody is reserving {reservation}")))
        }
        _ => Guard::Go,
    }
}

/// Whether a slot still has, and may give, the machine that it was to give.
fn gives_machine(found: &Slot, gives: &InstanceId, planned: &Slot) -> bool {
    found.instance.as_ref() == Some(gives)
        && found.exchange.is_none()
        && found.intent.is_none()
        && !found.leaving
        && found.generation == planned.generation
}

fn is_another(slot: &SlotId) -> String {
    format!("{slot} is not as the plan saw it")
}

/// What an exchange rests on in the part that is not written: read just before, because a part is swapped alone. Whoever
/// changes that part between the two is found by the next plan.
pub(super) async fn other_side(walk: &Walk<'_>, change: &LedgerChange) -> Result<(), NotRecorded> {
    let (fits, name) = match change {
        LedgerChange::Exchange { with, takes, .. } => {
            let other = walk.slot(with).await.map_err(NotRecorded::Failed)?;
            (gives_machine(&other, &takes.instance, &walk.planned(with)), with)
        }
        LedgerChange::Exchanged { slot, with, gives, takes } => {
            let first = walk.slot(with).await.map_err(NotRecorded::Failed)?;
            let is_noted = |note: &Exchange| note.with == *slot && note.gave.instance == takes.instance;
            (first.exchange.as_ref().is_some_and(is_noted) && first.instance.as_ref() == Some(gives), slot)
        }
        LedgerChange::ExchangeOver { slot, keeps } => {
            let found = walk.slot(slot).await.map_err(NotRecorded::Failed)?;
            let Some(note) = found.exchange else { return Ok(()) };
            let other = walk.slot(&note.with).await.map_err(NotRecorded::Failed)?.instance;
            let is_given = other.as_ref() == Some(&note.gave.instance);
            let is_left = other.is_some() && other == found.instance;
            let took_back = note.gave.instance == *keeps;
            (if took_back { !is_given && !is_left } else { is_given && found.instance.as_ref() == Some(keeps) }, slot)
        }
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(NotRecorded::Moved(is_another(name))) }
}

fn go_or(moved: Option<String>) -> Guard {
    moved.map_or(Guard::Go, Guard::No)
}

/// How the slot moved in a way that makes the change untrue.
fn slot_moved(change: &LedgerChange, slot: &SlotId, planned: &Slot, found: &Slot, now: &Ledger) -> Option<String> {
    let intent_is_known = found.intent.is_none() || found.intent == planned.intent;
    let instance_is_known = found.instance.is_none() || found.instance == planned.instance;
    let node_is_known = found.node.is_none() || found.node == planned.node;
    let holds = match change {
        LedgerChange::Lost { .. } => instance_is_known,
        LedgerChange::Missing { .. } => found.instance == planned.instance && found.node == planned.node,
        LedgerChange::Adopted { instance, .. } | LedgerChange::Launched { instance, .. } => {
            found.instance.as_ref() == Some(instance) || (instance_is_known && intent_is_known)
        }
        LedgerChange::LaunchRefused { .. } => intent_is_known,
        LedgerChange::Claimed { node, .. } => {
            let slots = now.pools.get(&slot.pool).into_iter().flat_map(|pool| &pool.slots);
            let taken =
                slots.filter(|(index, _)| **index != slot.index).any(|(_, held)| held.node.as_ref() == Some(node));
            let free = node_is_known || found.node.as_ref() == Some(node);
            free && !taken && found.instance.is_none() && found.intent.is_none()
        }
        LedgerChange::Unclaimed { .. } => node_is_known,
        // An open intent may have made an instance: a slot with one is never closed.
        LedgerChange::Closed { .. } => found.intent.is_none() && instance_is_known && node_is_known,
        _ => true,
    };
    (!holds).then(|| format!("{slot} is not as the plan saw it"))
}

/// A pool that somebody launched into since the plan was made is not forgotten by it.
fn launches_since(pool: &PoolName, planned: &Ledger, now: &Ledger) -> Option<String> {
    let slots = now.pools.get(pool).into_iter().flat_map(|found| &found.slots);
    let mut moved = slots.filter(|(index, found)| {
        let known = planned.slot(&SlotId::new(pool, **index)).cloned().unwrap_or_default();
        found.generation != known.generation || found.intent != known.intent
    });
    moved.next().map(|(index, _)| format!("{pool}/{index} is not as the plan saw it"))
}

/// Moves what is remembered of a pool to its new name: three parts, so three swaps.
///
/// 1. The head names it anew, first of all: nothing is done under a new name that is not frozen yet.
/// 2. The new part becomes a copy. A crash here leaves both; the next plan renames again.
/// 3. The old part keeps only its generations, if the new one knows all that it knew.
pub(super) async fn rename(walk: &Walk<'_>, from: &PoolName, to: &PoolName) -> Result<bool, NotRecorded> {
    let cluster = walk.world.cluster;
    let (old, new) = (Part::Pool(from.clone()), Part::Pool(to.clone()));
    let (old_value, old_version) = cluster.ledger_part(&old).await.map_err(NotRecorded::Failed)?;
    let PartValue::Pool(Some(moved)) = old_value else { return Ok(false) };
    if !moved.is_something() {
        return Ok(false);
    }
    if let Some((index, _)) = moved.slots.iter().find(|(_, slot)| slot.exchange.is_some()) {
        return Err(NotRecorded::Moved(format!("{from}/{index} changes places with another slot")));
    }
    if let Some(index) = moved.unanswered() {
        return Err(NotRecorded::Moved(format!("{from}/{index} has a request that nobody answered")));
    }
    let (new_value, new_version) = cluster.ledger_part(&new).await.map_err(NotRecorded::Failed)?;
    let there = match new_value {
        PartValue::Pool(found) => found.unwrap_or_default(),
        PartValue::Head(_) => PoolLedger::default(),
    };
    let is_copied = there.is_something() && there.knows(&moved);
    if there.is_something() && !is_copied {
        return Err(NotRecorded::Moved(format!("{to} has slots of its own: {from} cannot take its name")));
    }
    let change = LedgerChange::Renamed { from: from.clone(), to: to.clone() };
    walk.record(std::slice::from_ref(&change), &|_, _| Guard::Go).await?;
    // Both as they are afterwards: generations stay under the old name, because a name that comes back must not repeat
    // a token.
    let mut both = Ledger::default();
    both.pools.extend([(from.clone(), moved), (to.clone(), there)]);
    both.change(&change);
    if !is_copied {
        let copy = PartValue::Pool(both.pools.remove(to));
        cluster.swap_ledger(&new, &new_version, &copy).await.map_err(NotRecorded::Failed)?;
        walk.recorded(true);
    }
    let left = PartValue::Pool(both.pools.remove(from));
    cluster.swap_ledger(&old, &old_version, &left).await.map_err(NotRecorded::Failed)?;
    walk.recorded(true);
    Ok(true)
}
