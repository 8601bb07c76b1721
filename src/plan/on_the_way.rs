//! A node that a tide empties, or that is emptied to be booted, moves to its new version on the way, where the roll-out
//! would have it go now.
//!
//! That is no way around a roll-out: its canary, its windows, its budget, the fleet's hourly limit and its approval hold,
//! node by node, and what is done here is paid with that approval. Where one of them says no the node is only cut, because
//! a tide waits for no roll-out. What comes back from a tide is only cut as well: its owner waits for it, and a launch may
//! fail.

use std::collections::{BTreeMap, BTreeSet};

use super::bound::is_approved_now;
use super::draft::Draft;
use super::drain::drained_at_most;
use super::harm::gang_of;
use super::kept::Kept;
use super::later::successor_costs;
use super::layout::CutState;
use super::overfull::Overfull;
use super::removed::{is_counted, removals};
use super::rollout::{Hour, rollout};
use super::slots::candidates;
use super::steps::held;
use super::types::{Held, Reason, WaitingOn, thing};
use super::view::{PoolView, SlotView, View};
use super::wish::{PressureOf, Wish, is_outdated};
use crate::effect::{Amount, Effects, Verb};
use crate::fleet::updates::When;
use crate::ids::{PoolName, SlotId};
use crate::observed::{Market, PodSeen};

/// What the slots of a pool need.
pub type Wishes<'s> = BTreeMap<&'s SlotId, Wish>;

/// How many nodes may still be removed by choice within the hour, beside those whose removal was begun. What goes along
/// takes of that here and is held nowhere else: a tide waits for no limit, so where nothing is left it only cuts.
pub fn room(view: &View<'_>, wishes: &BTreeMap<&PoolName, Wishes<'_>>) -> usize {
    let begun = view.slots().filter(|(_, slot)| slot.mark.is_some() && !slot.is_existing());
    let begun = begun.filter(|(pool, slot)| {
        let wish = wishes.get(pool.name).and_then(|wishes| wishes.get(&slot.id));
        wish.is_some_and(Wish::gives_up_by_choice) && !is_counted(view, pool, slot)
    });
    let allowed = usize::try_from(view.standing.limits.nodes_removed_per_hour).unwrap_or(usize::MAX);
    allowed.saturating_sub(removals(view.input).len() + begun.count())
}

pub fn update<'s, 'a>(
    view: &View<'a>,
    pool: &'s PoolView<'a>,
    wishes: &mut Wishes<'s>,
    overfull: &Overfull<'_>,
    kept: &Kept,
    hour: &Hour,
    room: &mut usize,
) {
    let has_place = |slot: &SlotView<'_>| !overfull.is_left(slot);
    let along = pool.slots.iter().filter(|slot| goes_along(view, pool, slot, wishes) && has_place(slot));
    let along: Vec<&SlotView<'_>> = along.collect();
    if along.is_empty() {
        return;
    }
    let waiting = waiting(view, pool, &along, wishes, kept, hour);
    let approvals = view.input.ledger.head.approvals.values();
    let approvals = approvals.filter(|opened| is_approved_now(view.input, opened, pool.name));
    // What the roll-out has begun by itself is to be paid too.
    let begun = pool.slots.iter().filter(|slot| is_replaced(slot) && !along.iter().any(|other| other.id == slot.id));
    let mut promised = Effects::default();
    begun.filter_map(|slot| wishes.get(&slot.id)).for_each(|wish| promised.add(&wish.effects(&thing(pool.name))));
    let mut left: Vec<Effects> = approvals.map(|opened| opened.left.without(&promised)).collect();
    for slot in along.into_iter().filter(|slot| !waiting.contains(&slot.id)) {
        let Some(moves) = wishes.get(&slot.id).map(|wish| wish.clone().with_update()) else { continue };
        let takes = usize::from(!is_counted(view, pool, slot));
        if takes > *room {
            continue;
        }
        let effects = moves.effects(&thing(pool.name));
        match left.iter_mut().find(|left| effects.within(left).is_ok()) {
            // What falls free moves by itself, and asks nobody.
            _ if pool.spec.updates.when == When::Idle => {}
            Some(left) => *left = left.without(&effects),
            None => continue,
        }
        *room -= takes;
        wishes.insert(&slot.id, moves);
    }
}

/// Whether a node is about to be lent or booted, and not as its pool now wants it. In a reservation its place is free for
/// the next one, unless that is to hold fewer; on demand nobody knows whether there is another.
fn goes_along(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, wishes: &BTreeMap<&SlotId, Wish>) -> bool {
    let is_emptied = matches!(
        wishes.get(&slot.id),
        Some(Wish::Cut { reason: Reason::Lent { .. }, state: CutState::NotOrdered, .. } | Wish::Reboot { .. })
    );
    let is_reserved = slot.instance.is_some_and(|(_, seen)| matches!(seen.market, Market::Reserved));
    is_emptied && is_reserved && (slot.mark.is_none() || is_replaced(slot)) && is_outdated(view, pool, slot)
}

fn is_replaced(slot: &SlotView<'_>) -> bool {
    slot.mark.as_ref().is_some_and(|mark| mark.why == "replace")
}

/// A node that a tide only cuts is the roll-out's turn behind that: who approves the roll-out approves that too.
pub fn follows(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    wish: &Wish,
    before: (usize, usize),
    draft: &mut Draft,
) {
    let by_tide = matches!(wish, Wish::Cut { reason: Reason::Lent { .. } | Reason::Returning { .. }, .. });
    let (true, When::Drain, Some((node, _))) = (by_tide, pool.spec.updates.when, slot.node) else { return };
    let last = draft.courses.get(before.0).and_then(|course| course.steps.last());
    let last = last.map(|step| WaitingOn::Step(step.id.clone()));
    let waiting_on = last.or_else(|| draft.held.get(before.1).map(|held| held.waiting_on.clone()));
    let Some(waiting_on) = waiting_on.filter(|_| is_outdated(view, pool, slot)) else { return };
    let (on, reason) = (thing(pool.name), Reason::Outdated);
    let usd_hour = successor_costs(view, pool, slot, &reason);
    let moves = Wish::Replace { reason, pressure: PressureOf::default(), treated: None, rollout: true };
    let mut effects = moves.effects(&on);
    effects.add(&Effects::one(Verb::Launch, on.clone(), Amount { usd_hour, ..Amount::default() }));
    // What the tide sends away comes to rest on nodes that have to move as well.
    let pods = view.harm.pods_on(node).iter().copied();
    let singles: Vec<&PodSeen> = pods.filter(|pod| gang_of(pod).is_none()).collect();
    effects.add(&drained_at_most(view, &on, &singles));
    let held = held(&on, moves.sentence(&slot.id, node), moves.reason().clone(), waiting_on);
    draft.held.push(Held { effects, ..held });
}

/// Those that the roll-out would have wait, were they to go by it alone. What was begun waits for nothing.
fn waiting<'s, 'a>(
    view: &View<'a>,
    pool: &'s PoolView<'a>,
    along: &[&'s SlotView<'a>],
    wishes: &BTreeMap<&'s SlotId, Wish>,
    kept: &Kept,
    hour: &Hour,
) -> BTreeSet<SlotId> {
    let mut tried = wishes.clone();
    // What is emptied anyway comes before what the roll-out would have to empty.
    let begun = |id: &SlotId| pool.slots.iter().any(|slot| slot.id == *id && slot.mark.is_some());
    tried.retain(|id, wish| !wish.is_rollout() || begun(id));
    for slot in along {
        if let Some(Wish::Replace { reason, pressure, treated, .. }) =
            wishes.get(&slot.id).map(|wish| wish.clone().with_update())
        {
            tried.insert(&slot.id, Wish::Replace { reason, pressure, treated, rollout: true });
        }
    }
    let asked = rollout(view, pool, &candidates(pool, &tried, kept), &mut hour.clone());
    let is_kept = |slot: &SlotView<'_>| {
        slot.node.is_some_and(|(node, _)| asked.kept.contains_key(node) || kept.contains_key(node))
    };
    // That work is on it is no reason: it is emptied anyway.
    let is_told =
        |slot: &SlotView<'_>| asked.wait.get(&slot.id).is_some_and(|on| !matches!(on, WaitingOn::Gang { .. }));
    let waits = |slot: &&&SlotView<'_>| slot.mark.is_none() && (is_kept(slot) || is_told(slot));
    along.iter().filter(waits).map(|slot| slot.id.clone()).collect()
}
