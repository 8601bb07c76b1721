//! What happens in each slot: filled, waited for, kept, moved, emptied, given up.
//!
//! Each slot gets one course, and a node that waits to be moved another for what it needs meanwhile. What a node in
//! service needs is decided in [`wish`], the most urgent first; what a slot without one needs follows from how far it is. Budgets are asked in the order of slots, so the same snapshot
//! gives the same plan.

use std::collections::{BTreeMap, BTreeSet};

use super::bound::is_approved_now;
use super::chosen::Chosen;
use super::chosen::trades::finished_by;
use super::draft::{Course, Draft};
use super::drain::{Allowance, Pressure, Purpose, Steps};
use super::empty::empty_slot;
use super::kept::{Kept, is_one_by_one};
use super::later::later;
use super::launch::Room;
use super::layout;
use super::on_the_way::{self, Wishes};
use super::overfull::Overfull;
use super::rollout::{Candidates, Hour, Rollout, rollout};
use super::serving::serving;
use super::steps::held;
use super::types::*;
use super::view::{Body, PoolView, SlotView, View};
use super::wish::{Wish, in_service, moves_away, moves_out, wish};
use crate::effect::marks::{Mark, is_starting};
use crate::effect::tags::FLEET;
use crate::effect::{Action, ClusterAction, Effects, Fact, LedgerChange, Thing, Treated};
use crate::fleet::policy::Remedy;
use crate::ids::{FleetUid, InstanceId, NodeName, PoolName, SlotId};
use crate::observed::{NodeSeen, SlotTag};

/// What the slots of all pools share while a plan is made.
#[derive(Debug)]
pub struct Shared<'k> {
    pub allowance: Allowance,
    pub room: Room,
    /// Nodes that are known to wait, and take nothing of the others' room.
    pub kept: &'k Kept,
    /// Those of them that the pool's roll-out passes over.
    pub passed_over: Kept,
}

pub fn plan(view: &View<'_>, overfull: &Overfull<'_>, chosen: &Chosen, kept: &Kept, draft: &mut Draft) {
    let (allowance, room) = (Allowance::default(), Room::new(view, chosen.claims.clone()));
    let mut shared = Shared { allowance, room, kept, passed_over: Kept::new() };
    let mut hour = Hour::new(view);
    let wish = |pool: &PoolView<'_>, slot: &SlotView<'_>| match overfull.moves.get(&slot.id) {
        Some(reservation) => Some(moves_out(pool, reservation)),
        None => match (wish(view, pool, slot), chosen.leaves.get(&slot.id)) {
            (None | Some(Wish::Dress { .. } | Wish::Free), Some(leaving)) => Some(moves_away(leaving)),
            (wish, _) => wish,
        },
    };
    let mut all: BTreeMap<&PoolName, Wishes<'_>> = BTreeMap::new();
    for (name, pool) in &view.pools {
        all.insert(name, pool.slots.iter().filter_map(|slot| Some((&slot.id, wish(pool, slot)?))).collect());
    }
    let mut room = on_the_way::room(view, &all);
    for pool in view.pools.values() {
        let before = draft.courses.len();
        let Some(mut wishes) = all.remove(pool.name) else { continue };
        on_the_way::update(view, pool, &mut wishes, overfull, kept, &hour, &mut room);
        let rollout = rollout(view, pool, &candidates(pool, &wishes, kept), &mut hour);
        for (gang, nodes) in &rollout.wide {
            let text = format!("{gang} spans {nodes} nodes, more than may be out at once: it moves as one, and alone");
            draft.note(thing(pool.name), text);
        }
        each(view, pool, &wishes, (&rollout, overfull), &mut shared, draft);
        super::reported::say(view, pool, draft);
        super::former::say(view, pool, draft);
        let courses = draft.courses.split_off(before);
        super::marks::after_rename(view, pool.name, courses, draft);
        super::marks::unwatched(view, &rollout.unwatched, draft);
    }
    for pool in view.pools.values() {
        shared.room.dear(view, pool).into_iter().for_each(|text| draft.note(thing(pool.name), text));
    }
    if view.input.only_node.is_none() {
        strays(view, draft);
    }
}

/// Whether the move of a node that is closed was approved before, and is not done yet: whatever it was closed for, where
/// somebody said yes to the version that it moves to.
fn is_approved(view: &View<'_>, pool: &PoolView<'_>, mark: &Mark, effects: &Effects) -> bool {
    let is_begun = mark.why == "replace" || mark.why == "cut";
    view.input.ledger.head.approvals.values().any(|opened| {
        effects.within(&opened.left).is_ok() && (is_begun || is_approved_now(view.input, opened, pool.name))
    })
}

/// What a node needs that is to be moved and is not yet: until then it serves as any other.
fn meanwhile(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, wish: &Wish) -> Option<Wish> {
    let moves = matches!(wish, Wish::Replace { .. } | Wish::Exchange { .. } | Wish::Cut { .. });
    let begun = slot.mark.as_ref().is_some_and(|mark| mark.why == wish.why());
    if !moves || begun || slot.body != Body::Serving { None } else { in_service(view, pool, slot) }
}

/// The slots of a pool, as a roll-out looks at them.
pub fn candidates<'s, 'a>(
    pool: &'s PoolView<'a>,
    wishes: &'s BTreeMap<&SlotId, Wish>,
    kept: &'s Kept,
) -> Candidates<'s, 'a> {
    let moves = |slot: &&SlotView<'_>| wishes.get(&slot.id).is_some_and(Wish::is_rollout);
    // What this plan takes out of service for another reason is away too.
    let waits = |slot: &SlotView<'_>| slot.mark.is_none() && slot.node.is_some_and(|(node, _)| kept.contains_key(node));
    let leaves = |slot: &'s SlotView<'a>| {
        let wish = wishes.get(&slot.id).filter(|wish| wish.takes_out())?;
        (slot.part.is_some() && !moves(&slot) && !waits(slot)).then_some((slot, wish.reason()))
    };
    let is_removed = |slot: &&SlotView<'_>| matches!(wishes.get(&slot.id), Some(Wish::Replace { .. }));
    let sick = |slot: &'s SlotView<'a>| match wishes.get(&slot.id).map(Wish::reason) {
        Some(Reason::Sick { symptom, .. }) => Some((&slot.id, format!("it is sick: {symptom}"))),
        _ => None,
    };
    let leaving: Vec<_> = pool.slots.iter().filter_map(leaves).collect();
    let want: Vec<&SlotView<'_>> = pool.slots.iter().filter(moves).collect();
    let removed = want.iter().copied().filter(is_removed).filter(|slot| !slot.is_existing());
    Candidates {
        removed: removed.map(|slot| &slot.id).collect(),
        pressed: want.iter().map(|slot| &slot.id).filter(|id| wishes[*id].is_pressed()).collect(),
        want,
        replaced: leaving.iter().copied().filter(|(slot, _)| is_removed(slot)).collect(),
        leaving,
        sick: pool.slots.iter().filter_map(sick).collect(),
        kept,
    }
}

/// What each slot of a pool gets.
fn each(
    view: &View<'_>,
    pool: &PoolView<'_>,
    wishes: &BTreeMap<&SlotId, Wish>,
    (rollout, overfull): (&Rollout, &Overfull<'_>),
    shared: &mut Shared<'_>,
    draft: &mut Draft,
) {
    let first = draft.courses.len();
    shared.passed_over.clone_from(&rollout.kept);
    let mut later = later(view, pool, wishes, rollout, overfull);
    let mut ready = layout::Ready::new(view, pool);
    let mut units = Units::new(rollout);
    for slot in pool.slots.iter().filter(|slot| is_asked_for(view, slot)) {
        let before = (draft.courses.len(), draft.held.len());
        match wishes.get(&slot.id) {
            None => empty_slot(view, pool, slot, shared, draft),
            Some(wish) => match later.remove(&slot.id) {
                Some(later) => draft.held.push(later),
                None => serving(view, pool, slot, wish, shared, &mut ready, draft),
            },
        }
        if let Some(step) = finished_by(view, &slot.id) {
            let waits = |course: Course| course.held(WaitingOn::Step(step.clone()));
            let courses = draft.courses.split_off(before.0);
            draft.held.extend(courses.into_iter().map(waits));
            continue;
        }
        units.made(slot, before, draft);
        let Some(wish) = wishes.get(&slot.id) else { continue };
        on_the_way::follows(view, pool, slot, wish, before, draft);
        let Some(needs) = meanwhile(view, pool, slot, wish) else { continue };
        // What was emptied, for whatever, is not opened before a move that somebody said yes to.
        let effects = || wish.effects(&thing(pool.name));
        let approved = || slot.mark.as_ref().is_some_and(|mark| is_approved(view, pool, mark, &effects()));
        let is_free = wish.consent() == Consent::Standing || approved();
        let goes = draft.courses.len() > before.0;
        // A machine that changes places is labelled before it is closed for that, or after it: not beside it.
        let only_labels = slot.mark.is_none()
            && matches!(needs, Wish::Dress { remove_starting: false, .. })
            && !matches!(wish, Wish::Exchange { .. });
        // Who opens a node that is about to be moved invites work to it.
        if goes && is_free && !only_labels {
            continue;
        }
        let moving = draft.courses.split_off(before.0);
        serving(view, pool, slot, &needs, shared, &mut ready, draft);
        let last = draft.courses.get(before.0).and_then(|course| course.steps.last()).map(|step| step.id.clone());
        match last.filter(|_| !only_labels) {
            // It is put into service first, whether or not somebody says yes to the rest.
            Some(step) => {
                let waits = |course: Course| course.held(WaitingOn::Step(step.clone()));
                draft.held.extend(moving.into_iter().map(waits));
            }
            None => draft.courses.extend(moving),
        }
    }
    units.wait_together(draft);
    others_stand(pool, wishes, first, draft);
}

/// Of a small pool every other node is looked at again before one is taken out for a roll-out: the plan may have been
/// made from a late read, or one may have died since. Of a large one that would cost more than it tells.
const LOOKED_AT: usize = 16;

/// Who is taken out by choice leaves the others in service.
fn others_stand(pool: &PoolView<'_>, wishes: &BTreeMap<&SlotId, Wish>, first: usize, draft: &mut Draft) {
    let moved: BTreeSet<NodeName> = draft.courses[first..].iter().flat_map(|course| course.nodes.clone()).collect();
    let serves = |node: &NodeSeen| node.ready && !node.unschedulable && !is_starting(node);
    let node = |slot: &SlotView<'_>| slot.node.map(|(name, node)| (name.clone(), serves(node)));
    let stays = |slot: &&SlotView<'_>| slot.part.is_some() && slot.body == Body::Serving && slot.mark.is_none();
    let standing = pool.slots.iter().filter(stays).filter_map(node).filter(|(_, up)| *up).map(|(name, _)| name);
    let standing: Vec<NodeName> = standing.filter(|name| !moved.contains(name)).collect();
    if standing.len() > LOOKED_AT {
        return;
    }
    let chosen = |slot: &&SlotView<'_>| slot.mark.is_none() && wishes.get(&slot.id).is_some_and(Wish::is_rollout);
    let chosen: BTreeSet<&NodeName> =
        pool.slots.iter().filter(chosen).filter_map(|slot| slot.node).map(|(name, _)| name).collect();
    for step in draft.courses[first..].iter_mut().flat_map(|course| &mut course.steps) {
        let Action::Cluster(ClusterAction::Cordon { node, .. }) = &step.action else { continue };
        if chosen.contains(node) {
            step.requires.extend(standing.iter().cloned().map(Fact::InService));
        }
    }
}

/// What became of slots that a gang ties together. Where one of them is open and cannot even be begun, none goes: the
/// gang would come back to it, and be moved again. Slices that have to stay up are no such reason: they let nodes go one
/// by one, and would keep a wide gang for ever.
struct Units<'r> {
    of: BTreeMap<&'r SlotId, usize>,
    /// The courses of each, by their places, and what one of it waits on.
    courses: BTreeMap<usize, usize>,
    waits: BTreeMap<usize, WaitingOn>,
}

impl<'r> Units<'r> {
    fn new(rollout: &'r Rollout) -> Self {
        let units = rollout.together.iter().enumerate();
        let of = units.flat_map(|(unit, slots)| slots.iter().map(move |slot| (slot, unit))).collect();
        Self { of, courses: BTreeMap::new(), waits: BTreeMap::new() }
    }

    fn made(&mut self, slot: &SlotView<'_>, before: (usize, usize), draft: &Draft) {
        let Some(unit) = self.of.get(&slot.id).copied() else { return };
        let (courses, held) = (before.0..draft.courses.len(), draft.held.get(before.1));
        let waits = |held: &&Held| !is_one_by_one(&held.waiting_on);
        match held.filter(waits).filter(|_| courses.is_empty() && slot.mark.is_none()) {
            Some(held) => {
                self.waits.entry(unit).or_insert_with(|| held.waiting_on.clone());
            }
            None => self.courses.extend(courses.map(|place| (place, unit))),
        }
    }

    fn wait_together(self, draft: &mut Draft) {
        if self.waits.is_empty() {
            return;
        }
        let waits = |place: usize| self.waits.get(self.courses.get(&place)?).cloned();
        for (place, course) in std::mem::take(&mut draft.courses).into_iter().enumerate() {
            match waits(place) {
                Some(waiting_on) => draft.held.push(course.held(waiting_on)),
                None => draft.courses.push(course),
            }
        }
    }
}

/// Whether the plan is about this slot: where it is about one node, the others take nothing of any budget.
fn is_asked_for(view: &View<'_>, slot: &SlotView<'_>) -> bool {
    view.input.only_node.as_ref().is_none_or(|node| slot.node.is_some_and(|(name, _)| name == node))
}

/// Instances of ours that no slot explains: reported, and left to a person.
fn strays(view: &View<'_>, draft: &mut Draft) {
    for (slot, id, seen) in &view.strays {
        let Some(tag) = &seen.tag else { continue };
        let whose = &tag.fleet;
        let Some(pool) = view.pools.get(&slot.pool) else {
            nameless(view, slot, id, whose, draft);
            continue;
        };
        let known = pool.slots.iter().find(|one| one.id == *slot);
        let is_wanted = known.is_some_and(|known| known.part.is_some());
        let why = match known.and_then(SlotView::instance_id) {
            Some(other) if other == *id => continue,
            // Of kin it only matters where another one would be launched.
            Some(_) if whose != view.fleet => continue,
            None if whose != view.fleet && !is_wanted => continue,
            None if whose != view.fleet => kin(id, tag, view.fleet),
            Some(other) => {
                format!("{id} says that it is {slot}, and so is {other}: terminate the one that nobody needs")
            }
            None if is_wanted => {
                format!("{id} says that it is {slot}, which is known to be empty: terminate it if it does not go away")
            }
            None => format!("{id} says that it is {slot}, which is not wanted: terminate it, or make the pool larger"),
        };
        hold(draft, &thing(&slot.pool), format!("one instance for {slot}"), Reason::LeftOver, WaitingOn::Person(why));
    }
}

/// A machine of a pool that neither a document nor our memory knows: after a lost ledger nobody can tell one that was let go
/// from one whose pool has another name now.
fn nameless(view: &View<'_>, slot: &SlotId, id: &InstanceId, whose: &FleetUid, draft: &mut Draft) {
    let is_known = view.input.ledger.pools.contains_key(&slot.pool);
    if is_known || whose != view.fleet || super::anew::since(view.input).is_none() {
        return;
    }
    let why = format!(
        "{id} says that it is {slot}, and no document names that pool: write `renamedFrom: {}` where it has another name now, \
         terminate it, or let it go with the rest of what was lost: tidewright lost --yes",
        slot.pool
    );
    let wanted = format!("one instance for {slot}");
    hold(draft, &thing(&slot.pool), wanted, Reason::LeftOver, WaitingOn::Person(why));
}

/// What to do about an instance that may have been ours before a ledger was lost.
fn kin(id: &InstanceId, tag: &SlotTag, ours: &FleetUid) -> String {
    let SlotTag { fleet, slot, .. } = tag;
    format!(
        "{id} says that it is {slot} of {fleet}, and this fleet is {ours}: where both are the same, tag it \
         {FLEET}={ours}, and it is adopted; else terminate it, or give the pool or the Fleet another name"
    )
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
    Treated { at: view.now, remedy, rule, boot: None }
}
