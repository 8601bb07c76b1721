//! What happens in each slot: filled, waited for, kept, moved, emptied, given up.
//!
//! Each slot gets at most one course. What a node in service needs is decided in [`wish`], the most urgent first; what
//! a slot without one needs follows from how far it is. Budgets are asked in the order of slots, so the same snapshot
//! gives the same plan.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Course, Draft};
use super::drain::{Allowance, Drain, Pressure, Purpose, Steps, drain, step_id};
use super::launch::{self, Room, Supply};
use super::layout;
use super::rollout::rollout;
use super::steps::held;
use super::types::*;
use super::view::{Body, LOST_AFTER, PoolView, SlotView, View};
use super::wish::{Wish, never_came, wish};
use crate::effect::marks::{DRESSED, POOL, SLOT, STARTING_TAINT};
use crate::effect::{
    Action, Amount, CloudAction, ClusterAction, Effects, Fact, LedgerChange, Quarantine, Thing, Treated, Verb,
};
use crate::fleet::launch::Taint;
use crate::fleet::policy::Remedy;
use crate::ids::{NodeName, ReservationId, SlotId, Uid};
use crate::observed::{Market, NodeSeen, PodSeen};

/// What the slots of all pools share while a plan is made.
#[derive(Debug)]
pub struct Shared {
    pub allowance: Allowance,
    pub room: Room,
}

pub fn plan(view: &View<'_>, draft: &mut Draft) {
    let mut shared = Shared { allowance: Allowance::default(), room: Room::new(view) };
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
        let rollout = rollout(view, pool, &moving, &settled);
        for (gang, nodes) in &rollout.wide {
            draft
                .note(thing(pool.name), format!("{gang} spans {nodes} nodes and moves as one, whatever the budget is"));
        }
        let mut ready = layout::Ready::new(view, pool);
        for slot in &pool.slots {
            match wishes.get(&slot.id) {
                None => empty_slot(view, pool, slot, &mut shared, draft),
                Some(wish) => {
                    let held = rollout.wait.get(&slot.id).filter(|_| wish.is_rollout()).cloned();
                    let done_by = rollout.done_by.filter(|_| wish.is_rollout());
                    serving(view, pool, slot, wish, &mut shared, &mut ready, held, done_by, draft);
                }
            }
        }
    }
    strays(view, draft);
}

/// A slot without a node that serves.
fn empty_slot(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, shared: &mut Shared, draft: &mut Draft) {
    let on = thing(pool.name);
    let generation = slot.generation();
    let wanted = slot.part.is_some();
    match slot.body {
        Body::Serving => {}
        Body::Nothing if wanted => {
            fill(view, pool, slot, None, Steps::new(standing(&on, &Reason::SlotEmpty)), shared, draft)
        }
        Body::Nothing => {}
        Body::InFlight(intent) => {
            let reason = Reason::Unanswered;
            let mut made = Steps::new(standing(&on, &reason));
            let request = &intent.request;
            let action = Action::Cloud(CloudAction::Launch(request.clone()));
            made.push(step_id("launch", &slot.id, request.generation), action, vec![], (60, 180));
            made.with(Effects::one(Verb::Launch, on.clone(), Amount::count(1)));
            push(
                draft,
                &on,
                vec![],
                format!("ask again for the node of {}", slot.id),
                reason.clone(),
                false,
                made.steps,
            );
        }
        Body::Found(id) => {
            let launched = slot.instance.map_or(view.now, |(_, seen)| seen.launched);
            let tagged = slot.instance.and_then(|(_, seen)| seen.tag.as_ref()).map_or(generation, |tag| tag.generation);
            let answers = slot.record.is_some_and(|record| record.intent.is_some());
            let (slot_id, instance) = (slot.id.clone(), id.clone());
            let change = if answers {
                LedgerChange::Launched { slot: slot_id, instance, at: launched }
            } else {
                LedgerChange::Adopted { slot: slot_id, instance, generation: tagged, launched }
            };
            record(
                draft,
                &on,
                step_id("adopt", &slot.id, generation),
                change,
                format!("remember that {id} is in {}", slot.id),
            );
        }
        Body::Missing => missing(view, pool, slot, draft),
        Body::Dying | Body::Dead => {
            let mut made = Steps::new(standing(&on, &Reason::Bookkeeping));
            let freed = leave(&mut made, slot, wanted);
            if wanted {
                fill(view, pool, slot, freed.as_ref(), made, shared, draft);
            } else {
                let wanted = format!("close {}, whose node is gone", slot.id);
                push(draft, &on, vec![], wanted, Reason::Bookkeeping, false, made.steps);
            }
        }
        Body::Starting => starting(view, pool, slot, shared, draft),
        Body::Odd => {
            let state = slot.instance.map(|(id, seen)| format!("{id} is {:?}", seen.state)).unwrap_or_default();
            let why = format!("{state}: start or terminate it, nobody here stopped it");
            hold(draft, &on, format!("a node in service in {}", slot.id), Reason::SlotEmpty, WaitingOn::Person(why));
        }
    }
}

/// Waits until an instance is gone, and remembers it. Says whose place comes free.
fn leave(made: &mut Steps, slot: &SlotView<'_>, refilled: bool) -> Option<ReservationId> {
    let generation = slot.generation();
    let mut freed = None;
    if let Some((id, seen)) = slot.instance
        && slot.body != Body::Dead
    {
        let gone = Action::Await(Fact::Gone(id.clone()));
        made.push(step_id("gone", &slot.id, generation), gone, vec![], (120, 420));
        freed.clone_from(&seen.reservation);
    }
    let slot_id = slot.id.clone();
    let change = if refilled { LedgerChange::Lost { slot: slot_id } } else { LedgerChange::Closed { slot: slot_id } };
    made.push(step_id("forget", &slot.id, generation), Action::Record(change), vec![], (1, 2));
    freed
}

/// Gives a slot a node, after the steps that are made already.
fn fill(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    freed: Option<&ReservationId>,
    mut made: Steps,
    shared: &mut Shared,
    draft: &mut Draft,
) {
    let on = thing(pool.name);
    let replaces_dead = slot.record.is_some_and(|record| record.lost) || slot.body == Body::Dead;
    let reason = Reason::SlotEmpty;
    let sentence = format!("a node for {}", slot.id);
    if view.input.observed.cloud.instances.gap().is_some() && pool.spec.capacity.iter().any(is_launched) {
        let gap = view.input.observed.cloud.instances.gap().cloned().expect("just seen");
        return hold(draft, &on, sentence, reason, WaitingOn::Unread(gap));
    }
    let supply = shared.room.supply(view, pool, slot, freed, replaces_dead);
    let consent = match &supply {
        Supply::Launch { request, .. } => consent_of(request.market, replaces_dead),
        _ => Consent::Standing,
    };
    made.purpose = Purpose { why: "launch", consent, ..standing(&on, &reason) };
    match supply {
        Supply::Launch { request, usd_hour, wait_for } => {
            launch::steps(view, pool, &mut made, &request, usd_hour, wait_for.as_ref());
            let wanted = format!("launch a node for {}", slot.id);
            push(draft, &on, vec![], wanted, reason.clone(), false, made.steps);
        }
        Supply::Claim(node) => {
            claim(view, pool, slot, &node, &mut made);
            push(
                draft,
                &on,
                vec![node.clone()],
                format!("claim {node} for {}", slot.id),
                reason.clone(),
                false,
                made.steps,
            );
        }
        Supply::Wait(waiting_on) => {
            // What only remembers is done whatever the launch waits for.
            if !made.steps.is_empty() {
                push(draft, &on, vec![], format!("free {}", slot.id), Reason::Bookkeeping, false, made.steps);
            }
            let effects = Effects::one(Verb::Launch, on.clone(), Amount::count(1));
            draft.held.push(Held { effects, ..held(&on, sentence, reason.clone(), waiting_on) });
        }
    }
}

fn is_launched(source: &crate::fleet::pool::Source) -> bool {
    !matches!(source, crate::fleet::pool::Source::Existing { .. })
}

fn consent_of(market: Market, replaces_dead: bool) -> Consent {
    match market {
        Market::Reserved | Market::Block => Consent::Standing,
        Market::OnDemand | Market::Spot if replaces_dead => Consent::Standing,
        Market::OnDemand | Market::Spot => Consent::Asked,
    }
}

/// An instance that is not listed: remembered, then believed lost if it stays away and its node says nothing.
fn missing(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, draft: &mut Draft) {
    let on = thing(pool.name);
    let generation = slot.generation();
    let name =
        slot.instance_id().map(ToString::to_string).or_else(|| slot.record?.node.as_ref().map(ToString::to_string));
    let name = name.unwrap_or_default();
    if slot.node.is_some_and(|(_, node)| node.ready) {
        return draft.note(
            on,
            format!("{name} of {} is not listed by the cloud, and its node is ready: it is left alone", slot.id),
        );
    }
    let whole = if slot.is_existing() {
        view.input.observed.cluster.nodes.gap()
    } else {
        view.input.observed.cloud.instances.gap().or(view.input.observed.cluster.nodes.gap())
    };
    let sentence = format!("know whether {name} of {} is gone", slot.id);
    if let Some(gap) = whole {
        return hold(draft, &on, sentence, Reason::SlotEmpty, WaitingOn::Unread(gap.clone()));
    }
    if let Some((seen, trusted)) = view.shrunk {
        return hold(draft, &on, sentence, Reason::SlotEmpty, WaitingOn::Shrunk { seen, trusted });
    }
    let Some(since) = slot.record.and_then(|record| record.missing_since) else {
        let change = LedgerChange::Missing { slot: slot.id.clone(), since: Some(view.now) };
        return record(draft, &on, step_id("missing", &slot.id, generation), change, sentence);
    };
    let until = since.checked_add(LOST_AFTER).unwrap_or(since);
    if view.now < until {
        return hold(draft, &on, sentence, Reason::SlotEmpty, WaitingOn::Until(until));
    }
    let change = match (slot.is_existing(), slot.part.is_some()) {
        (true, _) => LedgerChange::Unclaimed { slot: slot.id.clone() },
        (false, true) => LedgerChange::Lost { slot: slot.id.clone() },
        (false, false) => LedgerChange::Closed { slot: slot.id.clone() },
    };
    record(draft, &on, step_id("lost", &slot.id, generation), change, format!("{name} of {} is gone", slot.id));
}

/// A node that is on its way: waited for. One that is not wanted any more is given up before it serves, and one that
/// does not come is replaced.
fn starting(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, shared: &mut Shared, draft: &mut Draft) {
    let on = thing(pool.name);
    let generation = slot.generation();
    if slot.record.is_some_and(|record| record.missing_since.is_some()) && slot.instance.is_some() {
        let change = LedgerChange::Missing { slot: slot.id.clone(), since: None };
        record(draft, &on, step_id("missing", &slot.id, generation), change, format!("{} is listed again", slot.id));
    }
    let wanted = slot.part.is_some();
    if let Some((instance, seen)) = slot.instance.filter(|_| slot.node.is_none() && (!wanted || never_came(view, slot)))
    {
        let symptom = || Reason::Sick { remedy: Remedy::Replace, symptom: "it did not join the cluster".into() };
        let reason = if wanted { symptom() } else { Reason::NotWanted };
        let mut made = Steps::new(standing(&on, &reason));
        // It registers with a taint that keeps everything off, so nothing can be on it.
        let action = CloudAction::Terminate { slot: slot.id.clone(), instance: instance.clone() };
        let requires = vec![Fact::Live(instance.clone())];
        made.push(step_id("terminate", &slot.id, generation), Action::Cloud(action), requires, (1, 5));
        made.with(Effects::one(Verb::Terminate, on.clone(), Amount::count(1)));
        leave(&mut made, slot, wanted);
        if wanted {
            return fill(view, pool, slot, seen.reservation.as_ref(), made, shared, draft);
        }
        let sentence = format!("give {} up before it joins", slot.id);
        return push(draft, &on, vec![], sentence, reason.clone(), false, made.steps);
    }
    let reason = Reason::SlotEmpty;
    let mut made = Steps::new(standing(&on, &reason));
    let fact = match (slot.instance_id(), slot.node) {
        (Some(instance), _) => Fact::Joined { instance: instance.clone() },
        (None, Some((node, _))) => Fact::Ready(node.clone()),
        (None, None) => return,
    };
    made.push(step_id("joined", &slot.id, generation), Action::Await(fact), vec![], (60, 300));
    push(draft, &on, vec![], format!("the node of {} in service", slot.id), reason.clone(), false, made.steps);
}

/// What a node in service needs.
#[allow(clippy::too_many_arguments)]
fn serving(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    wish: &Wish,
    shared: &mut Shared,
    ready: &mut layout::Ready,
    held_by: Option<WaitingOn>,
    done_by: Option<jiff::Timestamp>,
    draft: &mut Draft,
) {
    let on = thing(pool.name);
    let Some((node, seen)) = slot.node else { return };
    let sentence = wish.sentence(&slot.id, node);
    if let Wish::Dress { remove_starting, .. } = wish {
        return dress(view, pool, slot, node, seen, *remove_starting, wish.reason().clone(), draft);
    }
    if let Wish::Watch { .. } = wish {
        return;
    }
    if let Wish::Quarantine { reason, treated: Some(treated) } = wish {
        return quarantine(slot, node, reason, treated, view, draft);
    }
    if let Wish::Free = wish {
        let reason = Reason::LeftOver;
        let mut made = Steps::new(standing(&on, &reason));
        uncordon(&mut made, node, slot);
        return push(draft, &on, vec![node.clone()], sentence, reason.clone(), false, made.steps);
    }
    let (why, reason) = (wish.why(), wish.reason().clone());
    let purpose = Purpose { why, on: on.clone(), reason, consent: wish.consent(), pressure: wish.pressure() };
    let begun = slot.mark.is_some();
    let unready = match wish {
        Wish::Cut { .. } | Wish::Replace { .. } if !begun => ready.take(view, pool, slot).err(),
        _ => None,
    };
    let unready = unready.map(|(profile, keep)| WaitingOn::Budget {
        name: format!("keepReady of {profile} in pool/{}", pool.name),
        allowed: keep,
        used: keep,
    });
    // The tail is planned in any case, so that what waits shows its effects.
    let waits = held_by.or(unready);
    let mut allowance = Allowance::default();
    let allowance = if waits.is_some() { &mut allowance } else { &mut shared.allowance };
    let drained = drain(view, allowance, slot, &purpose);
    let (steps, last, partly) = match drained {
        Drain::Whole { steps, last } => (steps, last, None),
        Drain::Partly { steps, waiting_on } => (steps, None, Some(waiting_on)),
    };
    let partly_begun = partly.is_some() && !steps.is_empty();
    let mut made = Steps { purpose, steps, last };
    if partly.is_none() {
        tail(view, pool, slot, node, wish, &mut made, shared, waits.is_some());
    }
    let course = Course {
        on: on.clone(),
        nodes: vec![node.clone()],
        wanted: sentence.clone(),
        reason: wish.reason().clone(),
        has_deadline: wish.pressure().deadline.is_some(),
        steps: made.steps,
    };
    match (waits, partly) {
        (Some(waiting_on), _) => draft.held.push(Held { done_by, ..course.held(waiting_on) }),
        (None, None) if course.steps.is_empty() => {}
        (None, None) => draft.courses.push(course),
        (None, Some(waiting_on)) => {
            let mut rest = held(&on, sentence, wish.reason().clone(), waiting_on);
            // What a budget keeps for later is part of what is asked for now.
            let pods = left_on(view, node, &course);
            rest.disruption = view.harm.hit(&pods);
            rest.effects = wish.effects(&on);
            rest.effects.add(&super::drain::drained(view, &on, &rest.disruption, &pods));
            draft.held.push(rest);
            if partly_begun {
                draft.courses.push(course);
            }
        }
    }
}

/// What is on a node and is not sent away by this course.
fn left_on<'a>(view: &View<'a>, node: &NodeName, course: &Course) -> Vec<&'a PodSeen> {
    let sent = course.steps.iter().filter_map(|step| match &step.action {
        Action::Cluster(ClusterAction::Evict { pods, .. }) => Some(pods.iter().map(|(_, uid)| uid)),
        _ => None,
    });
    let sent: BTreeSet<&Uid> = sent.flatten().collect();
    view.harm.pods_on(node).iter().copied().filter(|pod| !sent.contains(&pod.uid)).collect()
}

/// What comes once the node is empty.
#[allow(clippy::too_many_arguments)]
fn tail(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    node: &NodeName,
    wish: &Wish,
    made: &mut Steps,
    shared: &mut Shared,
    is_held: bool,
) {
    let on = thing(pool.name);
    let generation = slot.generation();
    match wish {
        Wish::Dress { .. } | Wish::Free | Wish::Quarantine { .. } | Wish::Watch { .. } => {}
        Wish::Cut { state, .. } => {
            if let Some((_, laid_out)) = layout::wanted(view, pool, slot) {
                layout::steps(view, made, slot, node, laid_out, *state);
                uncordon(made, node, slot);
            }
        }
        Wish::Reboot { treated, .. } => {
            let Some((instance, _)) = slot.instance else { return };
            let action = CloudAction::Reboot { slot: slot.id.clone(), instance: instance.clone() };
            let requires = vec![Fact::Empty(node.clone()), Fact::Live(instance.clone())];
            made.push(step_id("reboot", &slot.id, generation), Action::Cloud(action), requires, (60, 300));
            made.with(Effects::one(Verb::Reboot, on, Amount::count(1)));
            treat(made, slot, treated);
            let ready = Action::Await(Fact::Ready(node.clone()));
            made.push(step_id("back", &slot.id, generation), ready, vec![], (60, 600));
            uncordon(made, node, slot);
        }
        Wish::Remove { voluntary, .. } => {
            if slot.is_existing() {
                return release(view, pool, slot, node, made);
            }
            if *voluntary {
                removing(view, pool, slot, made);
            }
            terminate(made, slot, node);
            leave(made, slot, false);
        }
        Wish::Replace { treated, .. } => {
            if slot.is_existing() {
                return release(view, pool, slot, node, made);
            }
            if let Some(treated) = treated {
                treat(made, slot, treated);
            }
            if wish.is_rollout() {
                removing(view, pool, slot, made);
            }
            terminate(made, slot, node);
            let freed = leave(made, slot, true);
            if is_held {
                // An approval of what waits covers the successor too.
                return made.with(Effects::one(Verb::Launch, on, Amount::count(1)));
            }
            // A sick node is a dead one; whoever moves by choice stays within the limits.
            let is_sick = matches!(wish.reason(), Reason::Sick { .. });
            shared.room.leaves(view, pool, slot);
            let supply = shared.room.supply(view, pool, slot, freed.as_ref(), is_sick);
            if let Supply::Launch { request, usd_hour, wait_for } = supply {
                launch::steps(view, pool, made, &request, usd_hour, wait_for.as_ref());
            }
        }
    }
}

/// Counts a removal by choice, once.
fn removing(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, made: &mut Steps) {
    let counted = view.input.ledger.pools.get(pool.name).into_iter().flat_map(|known| &known.removed);
    let hour = jiff::SignedDuration::from_hours(1);
    let mut counted = counted.filter(|(_, at)| view.now.duration_since(*at) < hour);
    // An earlier node of this slot may have been removed too: that was another one.
    let since = slot.record.and_then(|record| record.launched).unwrap_or(jiff::Timestamp::MIN);
    if !counted.any(|(index, at)| *index == slot.id.index && since <= *at) {
        let change = LedgerChange::Removing { slot: slot.id.clone(), at: view.now };
        made.push(step_id("removing", &slot.id, slot.generation()), Action::Record(change), vec![], (1, 2));
    }
}

/// Remembers that a node is out of service until a person returns it; the next plan empties it.
fn quarantine(
    slot: &SlotView<'_>,
    node: &NodeName,
    reason: &Reason,
    treated: &Treated,
    view: &View<'_>,
    draft: &mut Draft,
) {
    let on = pool_of(&slot.id);
    let symptom = match reason {
        Reason::Sick { symptom, .. } => symptom.clone(),
        _ => String::new(),
    };
    let quarantine = Quarantine { by: Quarantine::BY_POLICY.into(), at: view.now, reason: symptom };
    let mut made = Steps::new(standing(&on, reason));
    treat(&mut made, slot, treated);
    let change = LedgerChange::Quarantine { node: node.clone(), quarantine };
    made.push(step_id("quarantine", node, slot.generation()), Action::Record(change), vec![], (1, 2));
    push(draft, &on, vec![node.clone()], format!("take {node} out of service"), reason.clone(), false, made.steps);
}

fn treat(made: &mut Steps, slot: &SlotView<'_>, treated: &Treated) {
    let change = LedgerChange::Treated { slot: slot.id.clone(), treated: treated.clone() };
    made.push(step_id("treat", &slot.id, slot.generation()), Action::Record(change), vec![], (1, 2));
}

fn terminate(made: &mut Steps, slot: &SlotView<'_>, node: &NodeName) {
    let Some((instance, _)) = slot.instance else { return };
    let action = CloudAction::Terminate { slot: slot.id.clone(), instance: instance.clone() };
    let requires = vec![Fact::Empty(node.clone()), Fact::Live(instance.clone())];
    made.push(step_id("terminate", &slot.id, slot.generation()), Action::Cloud(action), requires, (1, 5));
    made.with(Effects::one(Verb::Terminate, pool_of(&slot.id), Amount::count(1)));
}

fn uncordon(made: &mut Steps, node: &NodeName, slot: &SlotView<'_>) {
    let action = Action::Cluster(ClusterAction::Uncordon { node: node.clone() });
    made.push(step_id("uncordon", node, slot.generation()), action, vec![], (1, 2));
}

fn claim(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeName, made: &mut Steps) {
    let generation = slot.generation() + 1;
    let change = LedgerChange::Claimed { slot: slot.id.clone(), node: node.clone() };
    made.push(step_id("claim", &slot.id, generation), Action::Record(change), vec![Fact::Ready(node.clone())], (1, 2));
    made.with(Effects::one(Verb::Claim, thing(pool.name), Amount::count(1)));
    let Some(seen) = view.input.observed.cluster.nodes.seen().get(node) else { return };
    if let Some(action) = dressing(view, pool, slot, node, seen, false) {
        made.push(step_id("dress", &slot.id, generation), action, vec![Fact::Ready(node.clone())], (1, 2));
    }
}

/// Takes our labels and taints off an existing node and lets it go.
fn release(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeName, made: &mut Steps) {
    let generation = slot.generation();
    let objects = view.input.desired.pools.get(pool.name);
    let keys = objects.into_iter().flat_map(|objects| objects.labels.keys().cloned());
    let keys = keys.chain([POOL.into(), SLOT.into(), DRESSED.into()]);
    let labels = keys.map(|key: String| (key, None)).collect();
    let remove_taints = pool.spec.taints.clone();
    let action = ClusterAction::Dress { node: node.clone(), labels, taints: vec![], remove_taints };
    made.push(
        step_id("undress", &slot.id, generation),
        Action::Cluster(action),
        vec![Fact::Empty(node.clone())],
        (1, 2),
    );
    made.with(Effects::one(Verb::Release, thing(pool.name), Amount::count(1)));
    let change = LedgerChange::Unclaimed { slot: slot.id.clone() };
    made.push(step_id("unclaim", &slot.id, generation), Action::Record(change), vec![], (1, 2));
    uncordon(made, node, slot);
}

/// Labels and taints as the pool wants them.
#[allow(clippy::too_many_arguments)]
fn dress(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    node: &NodeName,
    seen: &NodeSeen,
    remove_starting: bool,
    reason: Reason,
    draft: &mut Draft,
) {
    let on = thing(pool.name);
    let mut made = Steps::new(standing(&on, &reason));
    let conditions = super::health::admission(view, pool);
    if remove_starting && !conditions.is_empty() {
        let fact = Fact::Admitted { node: node.clone(), conditions };
        made.push(step_id("admitted", &slot.id, slot.generation()), Action::Await(fact), vec![], (30, 1200));
    }
    if let Some(action) = dressing(view, pool, slot, node, seen, remove_starting) {
        made.push(step_id("dress", &slot.id, slot.generation()), action, vec![Fact::Ready(node.clone())], (1, 2));
    }
    if slot.mark.is_some() {
        uncordon(&mut made, node, slot);
    }
    if let Reason::Drift { by } = &reason {
        draft.drift.push(Drift {
            what: format!("node {node}"),
            by: by.clone(),
            at: None,
            from: "the labels and taints of its pool".into(),
            to: "others".into(),
            step: made.last.clone(),
        });
    }
    push(draft, &on, vec![node.clone()], format!("label {node} as {}", slot.id), reason.clone(), false, made.steps);
}

/// The labels that a slot's node should carry, with the digest of all of it.
pub fn clothes(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotId) -> (BTreeMap<String, String>, Vec<Taint>) {
    let objects = view.input.desired.pools.get(pool.name);
    let mut labels = objects.map(|objects| objects.labels.clone()).unwrap_or_default();
    labels.insert(POOL.into(), pool.name.to_string());
    labels.insert(SLOT.into(), slot.index.to_string());
    let taints: Vec<Taint> = objects.map(|objects| objects.taints.clone()).unwrap_or_default();
    let taints: Vec<Taint> = taints.into_iter().filter(|taint| taint.key != STARTING_TAINT).collect();
    let digest = crate::effect::digest_of(&(&labels, &taints));
    // A label's value holds 63 characters.
    labels.insert(DRESSED.into(), digest.as_str()[..16].into());
    (labels, taints)
}

fn dressing(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    node: &NodeName,
    seen: &NodeSeen,
    remove_starting: bool,
) -> Option<Action> {
    let (labels, taints) = clothes(view, pool, &slot.id);
    let labels: BTreeMap<String, Option<String>> = labels
        .into_iter()
        .filter(|(key, value)| seen.labels.get(key) != Some(value))
        .map(|(key, value)| (key, Some(value)))
        .collect();
    let taints: Vec<Taint> = taints.into_iter().filter(|taint| !seen.taints.contains(taint)).collect();
    let starting = |taint: &&Taint| remove_starting && taint.key == STARTING_TAINT;
    let remove_taints: Vec<Taint> = seen.taints.iter().filter(starting).cloned().collect();
    let nothing = labels.is_empty() && taints.is_empty() && remove_taints.is_empty();
    let action = ClusterAction::Dress { node: node.clone(), labels, taints, remove_taints };
    (!nothing).then_some(Action::Cluster(action))
}

/// Whether a node carries what its pool wants.
pub fn is_dressed(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, seen: &NodeSeen) -> bool {
    let (labels, taints) = clothes(view, pool, &slot.id);
    labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value))
        && taints.iter().all(|taint| seen.taints.contains(taint))
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
            None => format!("{id} says that it is {slot}, which is not wanted: terminate it, or make the pool larger"),
        };
        hold(draft, &thing(&slot.pool), format!("one instance for {slot}"), Reason::LeftOver, WaitingOn::Person(why));
    }
}

fn standing(on: &Thing, reason: &Reason) -> Purpose {
    let (on, reason) = (on.clone(), reason.clone());
    Purpose { why: "keep", on, reason, consent: Consent::Standing, pressure: Pressure::default() }
}

fn record(draft: &mut Draft, on: &Thing, id: crate::ids::StepId, change: LedgerChange, wanted: String) {
    let reason = Reason::Bookkeeping;
    let mut made = Steps::new(standing(on, &reason));
    made.push(id, Action::Record(change), vec![], (1, 2));
    push(draft, on, vec![], wanted, reason.clone(), false, made.steps);
}

fn push(
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

fn hold(draft: &mut Draft, on: &Thing, wanted: String, reason: Reason, waiting_on: WaitingOn) {
    draft.held.push(held(on, wanted, reason, waiting_on));
}

/// A remedy that is about to be used.
pub fn treated(view: &View<'_>, remedy: Remedy, rule: u32) -> Treated {
    Treated { at: view.now, remedy, rule }
}
