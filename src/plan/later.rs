//! What a roll-out will do once its turn comes: the moves that wait, and whom they will disturb, at most.
//!
//! A pod that stands for itself is made again at once, on a node that may still have to go: it is counted there too,
//! because an approval that covers it only once would run out half way. A gang queues as a whole, is approved as a
//! whole, and is counted once (`once`).

use std::collections::BTreeMap;

use super::drain::drained_at_most;
use super::harm::gang_of;
use super::overfull::Overfull;
use super::rollout::Rollout;
use super::types::{Disruption, Held, Reason, thing};
use super::view::{PoolView, SlotView, View};
use super::wish::Wish;
use crate::effect::{Amount, Effects, Verb};
use crate::ids::SlotId;
use crate::observed::PodSeen;
use crate::units::Usd;

/// What is held for each slot that has to wait.
pub fn later(
    view: &View<'_>,
    pool: &PoolView<'_>,
    wishes: &BTreeMap<&SlotId, Wish>,
    rollout: &Rollout,
    overfull: &Overfull<'_>,
) -> BTreeMap<SlotId, Held> {
    let on = thing(pool.name);
    let slots: BTreeMap<&SlotId, &SlotView<'_>> = pool.slots.iter().map(|slot| (&slot.id, slot)).collect();
    let mut come = Effects::default();
    let mut held = BTreeMap::new();
    let mut dear = overfull.dear.clone();
    for id in &rollout.order {
        let (Some(wish), Some((node, _))) = (wishes.get(id), slots.get(id).and_then(|slot| slot.node)) else {
            continue;
        };
        // Who goes first out of a reservation that is to hold fewer finds no place in it again.
        let left = slots[id].instance.and_then(|(_, found)| dear.get_mut(found.reservation.as_ref()?));
        let left = left.filter(|left| **left > 0 && *wish.reason() == Reason::Outdated);
        let is_dear = left.map(|left| *left -= 1).is_some();
        let pods = view.harm.pods_on(node);
        let singles: Vec<&PodSeen> = pods.iter().copied().filter(|pod| gang_of(pod).is_none()).collect();
        if let Some(waiting_on) = rollout.wait.get(id) {
            // Nobody is moved where a node is only taken when it falls free, and nobody knows when that is.
            let moves_work = wish.pressure().moves_work;
            let falls_free = !moves_work && !pods.is_empty();
            let mut effects = if falls_free { Effects::default() } else { wish.effects(&on) };
            if let (Wish::Replace { .. }, false, false) = (wish, falls_free, slots[id].is_existing()) {
                let usd_hour = match is_dear {
                    true => pool.spec.shape.on_demand.unwrap_or_default(),
                    false => successor_costs(view, pool, slots[id], wish.reason()),
                };
                effects.add(&Effects::one(Verb::Launch, on.clone(), Amount { usd_hour, ..Amount::default() }));
            }
            let mut disruption = Disruption::default();
            if moves_work {
                disruption = view.harm.hit(pods);
                effects.add(&drained_at_most(view, &on, pods));
                effects.add(&come);
            }
            let one = Held {
                what: on.clone(),
                wanted: wish.sentence(id, node),
                reason: wish.reason().clone(),
                effects,
                disruption,
                waiting_on: waiting_on.clone(),
                done_by: rollout.done_by,
            };
            held.insert(id.clone(), one);
        }
        come.add(&drained_at_most(view, &on, &singles));
    }
    held
}

/// What the next node of a slot costs an hour: as its predecessor, unless it has to leave what is prepaid.
pub fn successor_costs(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, reason: &Reason) -> Usd {
    match (reason, slot.instance) {
        (Reason::Overfull { .. }, _) => pool.spec.shape.on_demand.unwrap_or_default(),
        (_, Some((_, found))) => super::launch::price(view, pool, found.market, &found.zone),
        (_, None) => Usd::default(),
    }
}
