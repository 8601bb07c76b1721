//! A node that a tide empties moves to its new version on the way, where the roll-out would have it go now.
//!
//! A tide is no way around a roll-out: its canary, its windows, its budget and its approval hold, node by node, and what is
//! done here is paid with that approval. Where one of them says no the node is only cut, because a tide waits for no
//! roll-out. What comes back from a tide is only cut as well: its owner waits for it, and a launch may fail.

use std::collections::{BTreeMap, BTreeSet};

use super::kept::Kept;
use super::layout::CutState;
use super::rollout::{Hour, rollout};
use super::slots::candidates;
use super::types::{Reason, is_approved_now, thing};
use super::view::{PoolView, SlotView, View};
use super::wish::{Wish, is_outdated};
use crate::effect::Effects;
use crate::effect::marks::Mark;
use crate::fleet::updates::When;
use crate::ids::SlotId;
use crate::observed::Market;

pub fn update<'s, 'a>(
    view: &View<'a>,
    pool: &'s PoolView<'a>,
    wishes: &mut BTreeMap<&'s SlotId, Wish>,
    kept: &Kept,
    hour: &Hour,
) {
    let along: Vec<&SlotView<'_>> = pool.slots.iter().filter(|slot| goes_along(view, pool, slot, wishes)).collect();
    if along.is_empty() {
        return;
    }
    let waiting = waiting(view, pool, &along, wishes, kept, hour);
    let approvals = view.input.ledger.head.approvals.values();
    let approvals = approvals.filter(|opened| is_approved_now(view.input, opened, pool.name));
    let mut left: Vec<Effects> = approvals.map(|opened| opened.left.clone()).collect();
    for slot in along.into_iter().filter(|slot| !waiting.contains(&slot.id)) {
        let Some(moves) = wishes.get(&slot.id).map(|wish| wish.clone().with_update()) else { continue };
        let effects = moves.effects(&thing(pool.name));
        match left.iter_mut().find(|left| effects.within(left).is_ok()) {
            // What falls free moves by itself, and asks nobody.
            _ if pool.spec.updates.when == When::Idle => {}
            Some(left) => *left = left.without(&effects),
            None => continue,
        }
        wishes.insert(&slot.id, moves);
    }
}

/// Whether a node is about to be lent, and not as its pool now wants it. In a reservation its place is free for the next
/// one; on demand nobody knows whether there is another.
fn goes_along(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, wishes: &BTreeMap<&SlotId, Wish>) -> bool {
    let is_lent = matches!(
        wishes.get(&slot.id),
        Some(Wish::Cut { reason: Reason::Lent { .. }, state: CutState::NotOrdered, .. })
    );
    let is_reserved = slot.instance.is_some_and(|(_, seen)| matches!(seen.market, Market::Reserved));
    let is_free = |mark: &Mark| mark.why == "replace";
    is_lent && is_reserved && slot.mark.as_ref().is_none_or(is_free) && is_outdated(view, pool, slot)
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
    let waits = |slot: &&&SlotView<'_>| slot.mark.is_none() && (is_kept(slot) || asked.wait.contains_key(&slot.id));
    along.iter().filter(waits).map(|slot| slot.id.clone()).collect()
}
