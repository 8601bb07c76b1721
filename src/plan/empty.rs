//! A slot without a node in service: filled, waited for, or closed.

use super::draft::Draft;
use super::drain::{Purpose, Steps, step_id};
use super::dress::claim;
use super::launch::{self, Supply};
use super::resized;
use super::serving::removing;
use super::silent;
use super::slots::{Shared, hold, push, record, standing};
use super::steps::held;
use super::types::*;
use super::view::{Body, LOST_AFTER, PoolView, SlotView, View};
use super::wish::{never_came, not_wanted};
use crate::effect::marks::is_starting;
use crate::effect::{Action, Amount, CloudAction, Effects, Fact, LedgerChange, Verb};
use crate::fleet::policy::Remedy;
use crate::ids::{ReservationId, StepId};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{Gap, Market};
use crate::units::Usd;

/// A slot without a node that serves.
pub fn empty_slot(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    shared: &mut Shared<'_>,
    draft: &mut Draft,
) {
    let on = thing(pool.name);
    let generation = slot.generation();
    let wanted = slot.part.is_some();
    match slot.body {
        Body::Serving => {}
        // Whoever says that it is in this slot is held as a stray, and no second one is launched beside it.
        Body::Nothing | Body::InFlight(_) if view.stray(&slot.id).is_some() => {}
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
            if !wanted {
                leaves_again(view, pool, slot, step_id("launch", &slot.id, request.generation), draft);
            }
        }
        Body::Found(id) => {
            let launched = slot.instance.map_or(view.now, |(_, seen)| seen.launched);
            let tagged = slot.instance.and_then(|(_, seen)| seen.tag.as_ref()).map_or(generation, |tag| tag.generation);
            let asked = slot.record.and_then(|record| record.intent.as_ref()).map(|intent| intent.request.slot.clone());
            let instance = id.clone();
            let change = match asked {
                Some(slot) => LedgerChange::Launched { slot, instance, at: launched },
                None => LedgerChange::Adopted { slot: slot.id.clone(), instance, generation: tagged, launched },
            };
            record(
                draft,
                &on,
                step_id("adopt", &slot.id, generation),
                change,
                format!("remember that {id} is in {}", slot.id),
            );
            if !wanted {
                leaves_again(view, pool, slot, step_id("adopt", &slot.id, generation), draft);
            }
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

/// A node that nobody wants any more is on its way all the same: that it will be removed is part of what is asked for
/// now, or whoever approves the others is asked again.
fn leaves_again(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, after: StepId, draft: &mut Draft) {
    let (on, reason) = (thing(pool.name), not_wanted(view, pool, slot).0);
    let verb = if slot.is_existing() { Verb::Release } else { Verb::Terminate };
    let effects = Effects::one(verb, on.clone(), Amount::count(1));
    let wanted = format!("remove the node of {}", slot.id);
    draft.held.push(Held { effects, ..held(&on, wanted, reason, WaitingOn::Step(after)) });
}

/// Waits until an instance is gone, and remembers it. Says whose place comes free.
pub fn leave(made: &mut Steps, slot: &SlotView<'_>, refilled: bool) -> Option<ReservationId> {
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
pub fn fill(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    freed: Option<&ReservationId>,
    mut made: Steps,
    shared: &mut Shared<'_>,
    draft: &mut Draft,
) {
    let on = thing(pool.name);
    let replaces_dead = slot.record.is_some_and(|record| record.lost && !record.gave_up) || slot.body == Body::Dead;
    let reason = Reason::SlotEmpty;
    let sentence = format!("a node for {}", slot.id);
    if view.input.observed.cloud.instances.gap().is_some() && pool.spec.capacity.iter().any(is_launched) {
        let gap = view.input.observed.cloud.instances.gap().cloned().expect("just seen");
        return hold(draft, &on, sentence, reason, WaitingOn::Unread(gap));
    }
    let supply = match unplaced(view, pool) {
        Some(gap) => Supply::Wait(WaitingOn::Unread(gap), Usd::default()),
        None => shared.room.supply(view, pool, slot, freed, replaces_dead),
    };
    let consent = match &supply {
        Supply::Launch { request, .. } => consent_of(request.market, replaces_dead || resized::fills(view, pool, slot)),
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
        Supply::Wait(waiting_on, usd_hour) => {
            // What only remembers is done whatever the launch waits for.
            if !made.steps.is_empty() {
                push(draft, &on, vec![], format!("free {}", slot.id), Reason::Bookkeeping, false, made.steps);
            }
            let effects = Effects::one(Verb::Launch, on.clone(), Amount { usd_hour, ..Amount::count(1) });
            draft.held.push(Held { effects, ..held(&on, sentence, reason.clone(), waiting_on) });
        }
    }
}

/// Why no machine of a pool that has to stand together is asked for: where it would stand could not be read.
pub fn unplaced(view: &View<'_>, pool: &PoolView<'_>) -> Option<Gap> {
    let required = pool.spec.placement.as_ref().is_some_and(|placement| placement.required);
    let waits = required && pool.spec.capacity.iter().any(is_launched);
    view.input.observed.cloud.unplaced.clone().filter(|_| waits)
}

fn is_launched(source: &crate::fleet::pool::Source) -> bool {
    !matches!(source, crate::fleet::pool::Source::Existing { .. })
}

fn consent_of(market: Market, is_known: bool) -> Consent {
    match market {
        Market::Reserved | Market::Block => Consent::Standing,
        Market::OnDemand | Market::Spot if is_known => Consent::Standing,
        Market::OnDemand | Market::Spot => Consent::Asked,
    }
}

/// What was missing and is there again: the next time that it is missing counts from its own beginning.
pub fn listed_again(view: &View<'_>, draft: &mut Draft) {
    // A pool that has another name is written of when that is written down.
    let named = view.slots().filter(|(pool, _)| !view.input.renamed.contains_key(pool.name));
    for (pool, slot) in named {
        let remembered = slot.record.is_some_and(|record| record.missing_since.is_some());
        let there = slot.instance.is_some() || (slot.is_existing() && slot.node.is_some());
        if remembered && there {
            let change = LedgerChange::Missing { slot: slot.id.clone(), since: None };
            let id = step_id("found", &slot.id, slot.generation());
            record(draft, &thing(pool.name), id, change, format!("{} is listed again", slot.id));
        }
    }
}

/// An instance or a claimed node that is not listed: remembered, then believed lost if it stays away and its node says
/// nothing.
fn missing(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, draft: &mut Draft) {
    let on = thing(pool.name);
    let generation = slot.generation();
    let name =
        slot.instance_id().map(ToString::to_string).or_else(|| slot.record?.node.as_ref().map(ToString::to_string));
    let name = name.unwrap_or_default();
    if is_on(Mistake::DeleteOnEmptyRead) {
        let change = LedgerChange::Lost { slot: slot.id.clone() };
        return record(draft, &on, step_id("lost", &slot.id, generation), change, format!("{name} is gone"));
    }
    if let Some((node, seen)) = slot.node.filter(|(_, node)| node.ready) {
        if slot.part.is_some() && is_starting(seen) {
            let gap = Gap { what: name, why: format!("the cloud does not list it, though {node} is ready") };
            let wanted = format!("the node of {} in service", slot.id);
            return hold(draft, &on, wanted, Reason::SlotEmpty, WaitingOn::Unread(gap));
        }
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
        if slot.is_existing() {
            let patience = LOST_AFTER.as_mins();
            let text =
                format!("{name} of {} left the cluster; if it stays away {patience} minutes it is gone", slot.id);
            draft.note(on.clone(), text);
        }
        let change = LedgerChange::Missing { slot: slot.id.clone(), since: Some(view.now) };
        return record(draft, &on, step_id("missing", &slot.id, generation), change, sentence);
    };
    let until = since.checked_add(LOST_AFTER).unwrap_or(since);
    if view.now < until {
        let why = format!("{name} is not listed; what stays away so long is gone");
        return hold(draft, &on, sentence, Reason::SlotEmpty, WaitingOn::until(until, why));
    }
    if slot.is_existing() {
        let text =
            format!("{name} of {} is gone: the next plan claims another node that matches, if there is one", slot.id);
        draft.note(on.clone(), text);
    }
    let change = match (slot.is_existing(), slot.part.is_some()) {
        (true, _) => LedgerChange::Unclaimed { slot: slot.id.clone() },
        (false, true) => LedgerChange::Lost { slot: slot.id.clone() },
        (false, false) => LedgerChange::Closed { slot: slot.id.clone() },
    };
    let mut made = Steps::new(standing(&on, &Reason::Bookkeeping));
    let requires = slot.instance_id().filter(|_| !slot.is_existing()).cloned().map(Fact::Unlisted);
    let requires = requires.into_iter().collect();
    made.push(step_id("lost", &slot.id, generation), Action::Record(change), requires, (1, 2));
    push(draft, &on, vec![], format!("{name} of {} is gone", slot.id), Reason::Bookkeeping, false, made.steps);
}

/// A node that is on its way: waited for. One that is not wanted any more is given up before it serves, and one that
/// does not come is replaced.
fn starting(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, shared: &mut Shared<'_>, draft: &mut Draft) {
    let on = thing(pool.name);
    let generation = slot.generation();
    let wanted = slot.part.is_some();
    let gap = view.input.observed.cluster.nodes.gap();
    let given_up = slot.node.is_none() && (!wanted || never_came(view, slot));
    if let Some((instance, seen)) = slot.instance.filter(|_| given_up) {
        let symptom = || Reason::Sick { remedy: Remedy::Replace, symptom: "it did not join the cluster".into() };
        let (reason, voluntary) = if wanted { (symptom(), false) } else { not_wanted(view, pool, slot) };
        if let Some(gap) = gap {
            let sentence = format!("know whether {instance} of {} has joined", slot.id);
            return hold(draft, &on, sentence, reason, WaitingOn::Unread(gap.clone()));
        }
        let mut made = Steps::new(standing(&on, &reason));
        if voluntary {
            removing(view, pool, slot, &mut made);
        }
        // It registers with a taint that keeps everything off, so nothing can be on it.
        let action = CloudAction::Terminate { slot: slot.id.clone(), instance: instance.clone() };
        let requires = vec![Fact::Live(instance.clone()), Fact::Unjoined(instance.clone())];
        made.push(step_id("terminate", &slot.id, generation), Action::Cloud(action), requires, (1, 5));
        made.with(Effects::one(Verb::Terminate, on.clone(), Amount::count(1)));
        leave(&mut made, slot, wanted);
        if wanted {
            return fill(view, pool, slot, seen.reservation.as_ref(), made, shared, draft);
        }
        let sentence = format!("give {} up before it joins", slot.id);
        return push(draft, &on, vec![], sentence, reason.clone(), false, made.steps);
    }
    if silent::say(view, pool, slot, draft) {
        return;
    }
    let reason = Reason::SlotEmpty;
    let mut made = Steps::new(standing(&on, &reason));
    let fact = match (slot.instance_id(), slot.node) {
        (Some(instance), _) => Fact::Joined { instance: instance.clone() },
        (None, Some((node, _))) => Fact::Ready(node.clone()),
        (None, None) => return,
    };
    let joined = step_id("joined", &slot.id, generation);
    made.push(joined.clone(), Action::Await(fact), vec![], (60, 300));
    push(draft, &on, vec![], format!("the node of {} in service", slot.id), reason.clone(), false, made.steps);
    if !wanted {
        leaves_again(view, pool, slot, joined, draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::standing::PlacementSpec;
    use crate::plan::plan;
    use crate::plan::testing::world;

    const POOL: &str = "kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 2, capacity: [{onDemand: {max: 2}}], launch: {
  image: {ami: {id: ami-0123456789abcdef0}}, bootstrap: {nodeadm: {}}, subnets: {tags: {a: b}, zones: [us-west-2a]},
  securityGroups: {tags: {a: b}}, role: node}}
";

    #[test]
    fn a_pool_that_has_to_stand_together_is_not_launched_where_nobody_could_read_where_that_is() {
        let gap = Gap { what: "DescribeCapacityReservationTopology".into(), why: "UnauthorizedOperation".into() };
        let planned = |required: bool, unplaced: Option<Gap>| {
            let mut input = world("2026-06-10T12:00Z", POOL);
            let standing = std::sync::Arc::make_mut(&mut input.target.standing);
            standing.limits.hourly_usd = Some("1000".parse().unwrap());
            let placement = PlacementSpec { together: Some("leaf".into()), required, apart_from: Vec::new() };
            standing.pools.get_mut("train").unwrap().placement = Some(placement);
            input.observed.cloud.unplaced = unplaced;
            let made = plan(&input);
            let waits = made.held.iter().filter(|held| held.waiting_on == WaitingOn::Unread(gap.clone())).count();
            let is_launch = |step: &&Step| matches!(step.action, Action::Cloud(CloudAction::Launch(_)));
            (made.steps.iter().filter(is_launch).count(), waits)
        };
        assert_eq!(planned(true, None), (2, 0));
        assert_eq!(planned(true, Some(gap.clone())), (0, 2));
        assert_eq!(planned(false, Some(gap.clone())), (2, 0), "who only likes to be near is launched");
    }
}
