//! Machines of a cloud that change places: two and two, of one kind, once both are empty.
//!
//! Nobody can tell EC2 where to put a machine, but which pool it serves is only labels, taints and our memory, where both
//! pools make and cut their machines alike. Each of the two is emptied as an update empties a node, within its pool's
//! budget and windows, those with work under `--defragment` only; a plan that finds both empty has the ledger let them change
//! places (`effect::exchange`), and their labels follow from that. Who is whose partner is decided last, among those that
//! budgets and gates let through.

use std::collections::BTreeMap;

use super::Scene;
use crate::effect::marks::CORDON;
use crate::effect::{Action, Amount, ClusterAction, Effects, Fact, LedgerChange, Machine, Verb};
use crate::fabric::Freedom;
use crate::fabric::state::State;
use crate::ids::{InstanceId, NodeName, PoolName, ReservationId, SlotId, StepId};
use crate::observed::Market;
use crate::plan::draft::{Course, Draft};
use crate::plan::drain::{Steps, step_id};
use crate::plan::placing::{Spot, alike};
use crate::plan::slots::{push, standing};
use crate::plan::steps::held;
use crate::plan::types::{Held, Reason, Step, WaitingOn, thing};
use crate::plan::view::View;

/// A machine that serves another pool better.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Trade {
    node: NodeName,
    slot: SlotId,
    generation: u32,
    to: PoolName,
    machine: Machine,
    kind: (Market, Option<ReservationId>),
}

/// All machines that go, as the hosts of the tree.
pub(super) fn trades(scene: &Scene<'_, '_>, to: &[Option<u32>]) -> Vec<Trade> {
    let goes = |at: usize| {
        let spot = &scene.site.spots[at];
        let (_, slot) = scene.slots[at].filter(|_| spot.launched && scene.hosts[at].free == Freedom::Usable)?;
        let next = to[at].filter(|next| spot.pool != Some(*next))?;
        let (_, instance) = slot.instance?;
        Some(Trade {
            node: scene.site.tree.hosts[at].clone(),
            slot: slot.id.clone(),
            generation: slot.generation(),
            to: scene.site.pools[next as usize].clone(),
            machine: slot.record?.machine(&slot.id)?,
            kind: (instance.market, instance.reservation.clone()),
        })
    };
    (0..to.len()).filter_map(goes).collect()
}

/// Pools that should share a level and do not, each with the first pool of the same instance type whose machines are made
/// or cut otherwise: there is nobody to change places with.
pub(super) fn unlike(scene: &Scene<'_, '_>, state: &State<'_>) -> Vec<(PoolName, PoolName)> {
    let site = &scene.site;
    let is_launched = |at: &usize| {
        let own = |spot: &Spot| spot.launched && spot.pool.is_some_and(|pool| pool as usize == *at);
        site.spots.iter().any(own)
    };
    let launched: Vec<usize> = (0..site.pools.len()).filter(is_launched).collect();
    let split = |at: &&usize| scene.asks[**at].together.is_some_and(|level| state.domains(**at, level).len() > 1);
    let kind = |at: usize| scene.view.pools.get(&site.pools[at]).map(|pool| &pool.spec.shape.instance_type);
    let input = scene.view.input;
    let other = |at: &usize| {
        let mut others = launched.iter().copied().filter(|other| other != at && kind(*other) == kind(*at));
        let first = others.next()?;
        let mut all = std::iter::once(first).chain(others);
        // Where it may have somebody's, those that it may not have are not what is in the way.
        let none = all.all(|other| !alike(input, &site.pools[*at], &site.pools[other]));
        none.then(|| (site.pools[*at].clone(), site.pools[first].clone()))
    };
    launched.iter().filter(split).filter_map(other).collect()
}

/// Has those change places that are let through, and holds who has no partner among them.
pub(super) fn couple(trades: &[Trade], view: &View<'_>, draft: &mut Draft) {
    if trades.is_empty() {
        return;
    }
    let place = |draft: &Draft, trade: &Trade| {
        let is_its = |course: &Course| course.nodes.contains(&trade.node) && is_trade(&course.reason);
        draft.courses.iter().position(is_its)
    };
    let mut waiting: BTreeMap<(&PoolName, &PoolName, Market, Option<&ReservationId>), Vec<&Trade>> = BTreeMap::new();
    let mut alone: Vec<&Trade> = Vec::new();
    let mut going: Vec<&Trade> = trades.iter().filter(|trade| place(draft, trade).is_some()).collect();
    going.sort_by_key(|trade| (!is_begun(view, &trade.node), &trade.slot));
    for trade in going {
        let (market, reservation) = (trade.kind.0, trade.kind.1.as_ref());
        let back = (&trade.to, &trade.slot.pool, market, reservation);
        match waiting.get_mut(&back).filter(|known| !known.is_empty()).map(|known| known.remove(0)) {
            Some(partner) => {
                let Some(places) = place(draft, partner).zip(place(draft, trade)) else { continue };
                // Before work has left, a plan only sends it away: whether it did is what the next one reads.
                match [partner, trade].iter().all(|one| is_empty(view, &one.node)) {
                    true => change_places(draft, (partner, trade), places),
                    false => emptied_first(view, draft, (partner, trade), places),
                }
            }
            None => waiting.entry((&trade.slot.pool, &trade.to, market, reservation)).or_default().push(trade),
        }
    }
    alone.extend(waiting.into_values().flatten());
    for trade in alone {
        let Some(at) = place(draft, trade) else { continue };
        let what = format!("a node of pool/{} that changes places with it and may go now", trade.to);
        let on = WaitingOn::Capacity { what, retry: None };
        let course = draft.courses.remove(at);
        // One that is closed already stays so: its partner comes, or the next plan opens it.
        if !is_begun(view, &trade.node) {
            draft.kept.insert(trade.node.clone(), on.clone());
        }
        draft.held.push(course.held(on));
    }
}

/// The records, behind both drains: one on each course, so that either tells what it is for.
fn change_places(draft: &mut Draft, (one, other): (&Trade, &Trade), (first, second): (usize, usize)) {
    let last = |course: &Course| course.steps.last().map(|step| step.id.clone());
    let after: Vec<StepId> = [first, second].iter().filter_map(|at| last(&draft.courses[*at])).collect();
    let mut requires = Vec::new();
    for trade in [one, other] {
        requires.extend([Fact::Empty(trade.node.clone()), Fact::Live(trade.machine.instance.clone())]);
    }
    let records = records(&one.slot, &one.machine, &other.slot, &other.machine);
    let [exchange, exchanged, over] = records;
    let mut made = steps_like(&draft.courses[first]);
    let id = |verb: &str, trade: &Trade| step_id(verb, &trade.slot, trade.generation);
    made.push(id("exchange", one), Action::Record(exchange), requires, (1, 2));
    made.with(Effects::one(Verb::Exchange, thing(&one.slot.pool), Amount::count(1)));
    let decided = made.last.clone();
    made.last = Some(id("exchanged", other));
    made.push(id("exchange-over", one), Action::Record(over), vec![], (1, 2));
    made.steps[0].after = after;
    draft.courses[first].steps.append(&mut made.steps);
    let mut made = steps_like(&draft.courses[second]);
    made.last = decided;
    made.push(id("exchanged", other), Action::Record(exchanged), vec![], (1, 2));
    made.with(Effects::one(Verb::Exchange, thing(&other.slot.pool), Amount::count(1)));
    draft.courses[second].steps.append(&mut made.steps);
}

/// The exchange waits until work has left, and is part of what is asked for now: who has no work is closed after who has
/// some, so that without a word neither is. Where only some of it may leave yet, the rest of that course is held already.
fn emptied_first(view: &View<'_>, draft: &mut Draft, (one, other): (&Trade, &Trade), (first, second): (usize, usize)) {
    let (busy, partner) = if is_empty(view, &one.node) { (second, first) } else { (first, second) };
    let steps = &draft.courses[busy].steps;
    let closes = |step: &&Step| matches!(step.action, Action::Cluster(ClusterAction::Cordon { .. }));
    let (closed, emptied) =
        (steps.iter().find(closes).map(|step| step.id.clone()), steps.last().map(|step| step.id.clone()));
    for step in draft.courses[partner].steps.iter_mut().filter(|step| closes(&&**step)) {
        step.after.extend(closed.clone());
    }
    let Some(emptied) = emptied else { return };
    for (trade, at) in [(one, first), (other, second)] {
        let course = &draft.courses[at];
        let empty = Action::Await(Fact::Empty(trade.node.clone()));
        if course.steps.last().is_some_and(|step| step.action == empty) {
            let waits =
                held(&course.on, course.wanted.clone(), course.reason.clone(), WaitingOn::Step(emptied.clone()));
            let effects = Effects::one(Verb::Exchange, course.on.clone(), Amount::count(1));
            draft.held.push(Held { effects, ..waits });
        }
    }
}

fn steps_like(course: &Course) -> Steps {
    Steps::new(standing(&course.on, &course.reason))
}

/// The three records of an exchange, in the order in which they are written.
fn records(one: &SlotId, gives: &Machine, other: &SlotId, takes: &Machine) -> [LedgerChange; 3] {
    let (slot, with) = (one.clone(), other.clone());
    let exchange = LedgerChange::Exchange { slot, with, gives: gives.instance.clone(), takes: takes.clone() };
    let exchanged = exchanged(other, one, &takes.instance, gives);
    [exchange, exchanged, over(one, &takes.instance)]
}

fn exchanged(slot: &SlotId, with: &SlotId, gives: &InstanceId, takes: &Machine) -> LedgerChange {
    LedgerChange::Exchanged { slot: slot.clone(), with: with.clone(), gives: gives.clone(), takes: takes.clone() }
}

fn over(slot: &SlotId, keeps: &InstanceId) -> LedgerChange {
    LedgerChange::ExchangeOver { slot: slot.clone(), keeps: keeps.clone() }
}

/// Writes down the rest of exchanges that were broken off. The ledger is read as it will be, so a slot that has what it
/// gave was given nothing for it.
pub fn finish(view: &View<'_>, draft: &mut Draft) {
    for (slot, note) in &view.exchanges {
        let Some(found) = view.input.ledger.slot(slot) else { continue };
        let Some(has) = &found.instance else { continue };
        let (on, reason) = (thing(&slot.pool), Reason::Bookkeeping);
        let (kept, with) = (view.input.as_kept(slot), view.input.as_kept(&note.with));
        let mut made = Steps::new(standing(&on, &reason));
        let wanted = if *has == note.gave.instance {
            format!("remember that {slot} has its own machine again")
        } else {
            let change = exchanged(&with, &kept, has, &note.gave);
            let generation = view.input.ledger.slot(&note.with).map_or(0, |slot| slot.generation);
            made.push(step_id("exchanged", &note.with, generation), Action::Record(change), vec![], (1, 2));
            format!("remember that {slot} and {} have changed places", note.with)
        };
        made.push(over_id(slot, found.generation), Action::Record(over(&kept, has)), vec![], (1, 2));
        push(draft, &on, vec![], wanted, reason, false, made.steps);
    }
}

/// The step after which anything else may be done in a slot that changes places.
pub fn finished_by(view: &View<'_>, slot: &SlotId) -> Option<StepId> {
    let (first, _) = view.exchanges.iter().find(|(first, note)| first == slot || note.with == *slot)?;
    let generation = view.input.ledger.slot(first).map_or(0, |slot| slot.generation);
    Some(over_id(first, generation))
}

fn over_id(slot: &SlotId, generation: u32) -> StepId {
    step_id("exchange-over", slot, generation)
}

/// Nothing is on it, or all of that is about to be gone.
fn is_empty(view: &View<'_>, node: &NodeName) -> bool {
    view.harm.pods_on(node).iter().all(|pod| view.harm.is_leaving(pod))
}

fn is_trade(reason: &Reason) -> bool {
    matches!(reason, Reason::Fabric { .. })
}

fn is_begun(view: &View<'_>, node: &NodeName) -> bool {
    let seen = view.input.observed.cluster.nodes.seen();
    seen.get(node).is_some_and(|node| node.annotation(CORDON).is_some())
}
