//! What a node in service gets: its wish as steps, from the first cordon to the last record.

use std::collections::BTreeSet;

use super::anew::Unanswered;
use super::draft::{Course, Draft};
use super::drain::{Allowance, Drain, Purpose, Steps, drain, drained_at_most, step_id};
use super::dress::{admitted, dress, release, shown};
use super::empty::leave;
use super::ends;
use super::health;
use super::later::successor_costs;
use super::launch::{self, Supply};
use super::layout;
use super::removed::is_counted;
use super::slots::{Shared, hold, push, standing};
use super::steps::held;
use super::types::*;
use super::view::{PoolView, SlotView, View};
use super::wish::{Wish, cut_wish, is_outdated, moves_on};
use crate::effect::{
    Action, Amount, CloudAction, ClusterAction, Effects, Fact, LedgerChange, Quarantine, Treated, Verb, is_silent,
};
use crate::fleet::updates::When;
use crate::ids::{BootId, NodeName, StepId, Uid};
use crate::observed::PodSeen;
use crate::units::Usd;

/// The budget of slices that have to stay up.
pub const KEEP_READY: &str = "keepReady";

/// What a node in service needs.
pub fn serving(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    wish: &Wish,
    shared: &mut Shared<'_>,
    ready: &mut layout::Ready,
    draft: &mut Draft,
) {
    let on = thing(pool.name);
    let Some((node, seen)) = slot.node else { return };
    let sentence = wish.sentence(&slot.id, node);
    if let Wish::Dress { remove_starting, .. } = wish {
        return dress(view, pool, slot, node, seen, *remove_starting, wish.reason().clone(), draft);
    }
    if let Wish::Misfit { found } = wish {
        let what = layout::misfit_words(pool, node, *found);
        let why = format!("{what}: take the labels of pool/{} off it, or write what it is", pool.name);
        return hold(draft, &on, sentence, wish.reason().clone(), WaitingOn::Person(why));
    }
    if let Wish::Unanswered { why } = wish {
        return hold(draft, &on, sentence, wish.reason().clone(), WaitingOn::Person(why.clone()));
    }
    if let Wish::Watch { reason, until } = wish {
        return hold(
            draft,
            &on,
            sentence,
            reason.clone(),
            WaitingOn::until(*until, "what was done about it has until then to help"),
        );
    }
    if let Wish::Quarantine { reason, treated: Some(treated) } = wish {
        let recorded = quarantine(slot, node, reason, treated, view, draft);
        let before = draft.courses.len();
        let empties = Wish::Quarantine { reason: reason.clone(), treated: None };
        serving(view, pool, slot, &empties, shared, ready, draft);
        // It is one course: who may not be taken out is not remembered as taken out.
        let empties = draft.courses.split_off(before).into_iter().flat_map(|course| course.steps);
        let after = |step: Step| match step.after.is_empty() {
            true => Step { after: vec![recorded.clone()], ..step },
            false => step,
        };
        return draft.courses[before - 1].steps.extend(empties.map(after));
    }
    if let Wish::Free = wish {
        let reason = Reason::LeftOver;
        let mut made = Steps::new(standing(&on, &reason));
        admitted(view, pool, &mut made, node, (&slot.id, slot.generation()));
        if slot.mark.as_ref().is_some_and(|mark| mark.why == "reboot") {
            if let Some(boot) = health::goes_down(view, slot) {
                back(&mut made, slot, node, Some(boot));
            }
            shown(view, pool, slot, node, &mut made);
        }
        uncordon(&mut made, node, slot);
        return push(draft, &on, vec![node.clone()], sentence, reason.clone(), false, made.steps);
    }
    kept_out(view, pool, slot, node, draft);
    let (why, reason) = (wish.why(), wish.reason().clone());
    let purpose = Purpose { why, on: on.clone(), reason, consent: wish.consent(), pressure: wish.pressure() };
    let is_near = matches!(wish, Wish::Replace { reason: Reason::Outdated, .. }) && slot.mark.is_none();
    let near = if is_near { ends::near(view, pool, slot) } else { None };
    let is_near = near.is_some();
    // The tail is planned in any case, so that what waits shows its effects.
    let waits = match wish {
        Wish::Cut { state, .. } => layout::stuck(view, pool, slot, *state),
        _ => near,
    };
    let begun = slot.mark.is_some();
    let passed_over = shared.passed_over.get(node).filter(|_| !begun).cloned();
    let is_known = passed_over.is_some();
    let waits = waits.or(passed_over);
    // It will be held: what it would take is left to others.
    let is_kept = !begun && shared.kept.contains_key(node) && !wish.is_rollout();
    let waits = waits.or_else(|| if is_kept { None } else { keeps_ready(pool, slot, wish, ready) });
    let next = if waits.is_none() && !is_kept { successor(view, pool, slot, wish, shared) } else { None };
    let (next, nowhere) = match next {
        // Whoever moves by choice stays where he is while there is no place to go to.
        Some(Supply::Wait(waiting_on, _)) if wish.is_rollout() && !begun => {
            shared.room.stays(view, pool, slot);
            (None, Some(waiting_on))
        }
        next => (next, None),
    };
    let waits = waits.or(nowhere);
    let mut allowance = Allowance::default();
    let allowance = if waits.is_some() || is_kept { &mut allowance } else { &mut shared.allowance };
    let drained = drain(view, allowance, slot, &purpose);
    let (steps, last, partly) = match drained {
        Drain::Whole { steps, last } => (steps, last, None),
        Drain::Partly { steps, waiting_on } => (steps, None, Some(waiting_on)),
    };
    let partly_begun = partly.is_some() && !steps.is_empty();
    let mut made = Steps { purpose, steps, last };
    if partly.is_none() {
        tail(view, pool, slot, node, wish, &mut made, next);
    }
    if wish.is_on_the_way() {
        for step in made.steps.iter_mut().filter(|step| moves_machine(step)) {
            // Who empties it needs nobody's word; that it moves is the roll-out's, and counts as such.
            step.urgency = Urgency::Chosen;
            step.consent = if pool.spec.updates.when == When::Drain { Consent::Given } else { step.consent };
        }
    }
    let course = Course {
        on: on.clone(),
        nodes: vec![node.clone()],
        wanted: sentence.clone(),
        reason: wish.reason().clone(),
        has_deadline: wish.pressure().deadline.is_some(),
        steps: made.steps,
    };
    if let Wish::Cut { .. } = wish {
        let cuts = |step: &&Step| matches!(step.action, Action::Cluster(ClusterAction::Cut { .. }));
        let cut = course.steps.iter().find(cuts).filter(|_| waits.is_none()).map(|step| step.id.clone());
        draft.drift.extend(layout::moved(view, pool, slot, cut));
    }
    let stops = waits.as_ref().or(partly.as_ref().filter(|_| !partly_begun));
    draft.kept.extend(stops.filter(|_| !begun && !is_known).map(|on| (node.clone(), on.clone())));
    match (waits, partly) {
        (Some(waiting_on), None) if !is_near && !is_known => draft.held.push(course.held(waiting_on)),
        (None, None) if course.steps.is_empty() => {}
        (None, None) => draft.courses.push(course),
        (Some(waiting_on), _) => {
            let course = Course { steps: Vec::new(), ..course };
            draft.held.push(rest(view, node, wish, &course, waiting_on));
        }
        (None, Some(waiting_on)) => {
            draft.held.push(rest(view, node, wish, &course, waiting_on));
            if partly_begun {
                draft.courses.push(course);
            }
        }
    }
}

/// Whether a step is of a roll-out, whoever empties the node.
fn moves_machine(step: &Step) -> bool {
    step.effects.0.keys().any(|key| matches!(key.verb, Verb::Terminate | Verb::Launch))
}

/// Whether slices that must stay up keep a node where it is; else they are taken away with it.
fn keeps_ready(pool: &PoolView<'_>, slot: &SlotView<'_>, wish: &Wish, ready: &mut layout::Ready) -> Option<WaitingOn> {
    let takes = matches!(wish, Wish::Cut { .. } | Wish::Replace { .. } | Wish::Exchange { .. }) && slot.mark.is_none();
    if !takes {
        return None;
    }
    let (profile, keep) = ready.take(slot).err()?;
    let name = format!("{KEEP_READY} of {profile} in pool/{}", pool.name);
    Some(WaitingOn::budget(name, keep, keep))
}

/// Where the next node of a slot comes from, if its node is given up for another.
fn successor(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    wish: &Wish,
    shared: &mut Shared<'_>,
) -> Option<Supply> {
    let Wish::Replace { reason, .. } = wish else { return None };
    if slot.is_existing() {
        return None;
    }
    let freed = slot.instance.and_then(|(_, seen)| seen.reservation.as_ref());
    // A sick node is a dead one; whoever moves by choice stays within the limits.
    let is_sick = matches!(reason, Reason::Sick { .. });
    shared.room.leaves(view, pool, slot);
    if let Some(gap) = super::empty::unplaced(view, pool) {
        return Some(Supply::Wait(WaitingOn::Unread(gap), Usd::default()));
    }
    Some(shared.room.supply(view, pool, slot, freed, is_sick))
}

/// A node that a person or its health keeps out of service is neither cut anew nor moved to a new version: whoever counts
/// on that is told for whom it waits.
fn kept_out(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeName, draft: &mut Draft) {
    let Some(who) = kept_by(view, node) else { return };
    let outdated = || is_outdated(view, pool, slot).then(|| moves_on(pool));
    let Some(wish) = cut_wish(view, pool, slot).or_else(outdated) else { return };
    let wanted = match wish.reason() {
        Reason::Lent { tide, to } => format!("lend {node} of {} to {to} by {tide}", slot.id),
        Reason::Returning { tide, .. } => format!("have {node} of {} back from {tide}", slot.id),
        _ => wish.sentence(&slot.id, node),
    };
    hold(draft, &thing(pool.name), wanted, wish.reason().clone(), WaitingOn::Person(who));
}

/// Who keeps a node out of service until somebody says otherwise, and how to say it.
pub fn kept_by(view: &View<'_>, node: &NodeName) -> Option<String> {
    let head = &view.input.ledger.head;
    match (head.quarantined.get(node), head.drains.get(node)) {
        (Some(kept), _) => {
            Some(format!("{node} is in quarantine ({}: {}): tidewright return {node}", kept.by, kept.reason))
        }
        (None, Some(kept)) => {
            Some(format!("{node} is kept empty ({}: {}): tidewright undrain {node}", kept.by, kept.reason))
        }
        (None, None) => {
            let seen = view.input.observed.cluster.nodes.seen().get(node)?;
            Some(Unanswered::of(view.input, node, seen)?.words(node))
        }
    }
}

/// What is left of a wish that goes only so far: what a budget keeps for later is part of what is asked for now.
fn rest(view: &View<'_>, node: &NodeName, wish: &Wish, course: &Course, waiting_on: WaitingOn) -> Held {
    let held = held(&course.on, course.wanted.clone(), course.reason.clone(), waiting_on);
    // Nobody is touched where a node is only taken when it falls free.
    if !wish.pressure().moves_work {
        return Held { effects: wish.effects(&course.on), ..held };
    }
    let pods = left_on(view, node, course);
    let disruption = view.harm.hit(&pods);
    let mut effects = wish.effects(&course.on);
    effects.add(&drained_at_most(view, &course.on, &pods));
    Held { effects, disruption, ..held }
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

/// What comes once the node is empty; `next` is where the one after it comes from.
fn tail(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    node: &NodeName,
    wish: &Wish,
    made: &mut Steps,
    next: Option<Supply>,
) {
    let on = thing(pool.name);
    let generation = slot.generation();
    match wish {
        Wish::Dress { .. }
        | Wish::Free
        | Wish::Quarantine { .. }
        | Wish::Drain { .. }
        | Wish::Watch { .. }
        | Wish::Unanswered { .. }
        | Wish::Misfit { .. } => {}
        // The rest comes when its partner is as far: `chosen::trades`.
        Wish::Exchange { .. } => {
            if made.last.is_none() {
                let empty = Action::Await(Fact::Empty(node.clone()));
                made.push(step_id("empty", node, generation), empty, vec![], (1, 30));
            }
        }
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
            let boot = slot.node.and_then(|(_, seen)| seen.boot.clone());
            treat(made, slot, &Treated { boot: boot.clone(), ..treated.clone() });
            back(made, slot, node, boot);
            admitted(view, pool, made, node, (&slot.id, generation));
            shown(view, pool, slot, node, made);
            uncordon(made, node, slot);
        }
        Wish::Remove { .. } => {
            if slot.is_existing() {
                return release(view, pool, slot, node, made);
            }
            if wish.gives_up_by_choice() {
                removing(view, pool, slot, made);
            }
            terminate(view, made, slot, node);
            leave(made, slot, false);
        }
        Wish::Replace { treated, .. } => {
            if slot.is_existing() {
                return release(view, pool, slot, node, made);
            }
            if let Some(treated) = treated {
                treat(made, slot, treated);
            }
            if wish.gives_up_by_choice() {
                removing(view, pool, slot, made);
            }
            terminate(view, made, slot, node);
            leave(made, slot, true);
            match next {
                Some(Supply::Launch { request, usd_hour, wait_for }) => {
                    launch::steps(view, pool, made, &request, usd_hour, wait_for.as_ref());
                }
                Some(_) => {}
                // An approval of what waits covers the successor too, at what its predecessor costs.
                None => {
                    let usd_hour = successor_costs(view, pool, slot, wish.reason());
                    made.with(Effects::one(Verb::Launch, on, Amount { usd_hour, ..Amount::count(1) }));
                }
            }
        }
    }
}

/// Waits until a node is back that was told to boot in this one.
fn back(made: &mut Steps, slot: &SlotView<'_>, node: &NodeName, since: Option<BootId>) {
    let booted = Action::Await(Fact::Booted { node: node.clone(), since });
    made.push(step_id("back", &slot.id, slot.generation()), booted, vec![], (60, 600));
}

/// Counts a removal by choice, once.
pub fn removing(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, made: &mut Steps) {
    if !is_counted(view, pool, slot) {
        let change = LedgerChange::Removing { slot: slot.id.clone(), at: view.now };
        made.push(step_id("removing", &slot.id, slot.generation()), Action::Record(change), vec![], (1, 2));
    }
}

/// Remembers that a node is out of service until a person returns it, before it is emptied.
fn quarantine(
    slot: &SlotView<'_>,
    node: &NodeName,
    reason: &Reason,
    treated: &Treated,
    view: &View<'_>,
    draft: &mut Draft,
) -> StepId {
    let on = pool_of(&slot.id);
    let symptom = match reason {
        Reason::Sick { symptom, .. } => symptom.clone(),
        _ => String::new(),
    };
    let quarantine = Quarantine { by: Quarantine::BY_POLICY.into(), at: view.now, reason: symptom };
    let mut made = Steps::new(standing(&on, reason));
    treat(&mut made, slot, treated);
    let change = LedgerChange::Quarantine { node: node.clone(), quarantine };
    let id = step_id("quarantine", node, slot.generation());
    made.push(id.clone(), Action::Record(change), vec![], (1, 2));
    push(draft, &on, vec![node.clone()], format!("take {node} out of service"), reason.clone(), false, made.steps);
    id
}

fn treat(made: &mut Steps, slot: &SlotView<'_>, treated: &Treated) {
    let change = LedgerChange::Treated { slot: slot.id.clone(), treated: treated.clone() };
    made.push(step_id("treat", &slot.id, slot.generation()), Action::Record(change), vec![], (1, 2));
}

fn terminate(view: &View<'_>, made: &mut Steps, slot: &SlotView<'_>, node: &NodeName) {
    let Some((instance, _)) = slot.instance else { return };
    let is_silent = slot.node.is_some_and(|(_, seen)| is_silent(seen, view.now));
    let left = if is_silent { Fact::GivenUp(node.clone()) } else { Fact::Empty(node.clone()) };
    let action = CloudAction::Terminate { slot: slot.id.clone(), instance: instance.clone() };
    let requires = vec![left, Fact::Live(instance.clone())];
    made.push(step_id("terminate", &slot.id, slot.generation()), Action::Cloud(action), requires, (1, 5));
    made.with(Effects::one(Verb::Terminate, pool_of(&slot.id), Amount::count(1)));
}

pub fn uncordon(made: &mut Steps, node: &NodeName, slot: &SlotView<'_>) {
    let action = Action::Cluster(ClusterAction::Uncordon { node: node.clone() });
    made.push(step_id("uncordon", node, slot.generation()), action, vec![], (1, 2));
}
