//! What is let through and what waits: freezes, hands-off, reads that are not whole, budgets, approvals.
//!
//! Every course of every room passes here, once, in one order. A course that was begun (its node carries our mark) is
//! not held by a budget that it has been counted in already.

mod removals;

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Course, Draft};
use super::kept::{self, Kept};
use super::shrink::Shrink;
use super::types::*;
use super::view::{PoolView, SlotView, View};
use crate::effect::marks::{CORDON, HANDS_OFF, Mark};
use crate::effect::{Action, CloudAction, ClusterAction, Fact, Freeze, Quarantine, Scope, Slot, Thing};
use crate::fleet::standing::{HealthSpec, TideSpec};
use crate::ids::{Digest, NodeName, PoolName, StepId, TideName};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{Gap, ObjectKind};
use removals::{Come, Removals, goes_along, is_counted};
pub use removals::{ending_anyway, is_removal};

/// The limit that removals by choice count against.
pub const REMOVED_PER_HOUR: &str = "limits.nodesRemovedPerHour";
/// What an approval would have to cover is known only when everything else is: the place is kept with this.
pub const NO_DIGEST: &str = "";

pub fn pass(view: &View<'_>, kept: &Kept, draft: &mut Draft) -> Vec<Thing> {
    // A part of a plan needs the same word as the whole: what is left out counts here.
    let mut removals = Removals::new(view, &draft.courses, &draft.held);
    let shrink = Shrink::new(view, &draft.courses, &draft.held, removals.too_many && !removals.approved);
    let left_out = only(view, draft);
    // What was begun comes first, so that a budget is spent on finishing.
    let courses = std::mem::take(&mut draft.courses);
    let (begun, fresh): (Vec<_>, Vec<_>) = courses.into_iter().partition(|course| is_begun(view, course));
    let first_fresh = begun.len();
    let mut courses: Vec<Course> = begun.into_iter().chain(fresh).collect();
    let mut waits = waits(view, &mut removals, &shrink, &mut courses, first_fresh);
    still_kept(kept, &courses[first_fresh..], &mut waits[first_fresh..]);
    note_kept(&courses[first_fresh..], &waits[first_fresh..], draft);
    let (mut come, mut frozen) = (Come::default(), BTreeMap::new());
    for (mut course, waiting_on) in courses.into_iter().zip(waits) {
        if course.has_deadline && is_frozen(view) {
            without_successor(&mut course);
        }
        let effects = come.passes(&course);
        match waiting_on {
            Some(waiting_on) => {
                if matches!(waiting_on, WaitingOn::Frozen(_)) {
                    frozen.extend(course.steps.iter().map(|step| (step.id.clone(), waiting_on.clone())));
                }
                let mut held = course.held(waiting_on);
                held.effects.add(&effects);
                draft.held.push(held);
            }
            None => draft.courses.push(course),
        }
    }
    behind_a_freeze(&frozen, &mut draft.held);
    left_out
}

/// What comes after a step that a freeze holds is held by the freeze: nobody should look for a step that is not there.
fn behind_a_freeze(frozen: &BTreeMap<StepId, WaitingOn>, held: &mut [Held]) {
    for one in held {
        if let WaitingOn::Step(step) = &one.waiting_on
            && let Some(freeze) = frozen.get(step)
        {
            one.waiting_on = freeze.clone();
        }
    }
}

/// What each course waits on. Of those that are not begun, what is emptied anyway has the first claim on the hour, then the
/// nodes that nobody uses, and then the narrowest gangs: work that has to move finds new nodes, and moves once.
fn waits(
    view: &View<'_>,
    removals: &mut Removals,
    shrink: &Shrink,
    courses: &mut [Course],
    first_fresh: usize,
) -> Vec<Option<WaitingOn>> {
    let stops = |course: &Course| {
        frozen(view, course)
            .or_else(|| hands_off(view, course))
            .or_else(|| unguarded(view, course))
            .or_else(|| super::others::gate(view.input, course))
            .or_else(|| denied(view, course))
            .or_else(|| doubtful(view, course))
    };
    let stopped = removals.ties.stopped(courses, stops);
    let mut order: Vec<usize> = (0..courses.len()).collect();
    let moves_work = |course: &Course| is_counted(course) && !course.disruption().is_none();
    order[first_fresh..].sort_by_cached_key(|at| {
        let course = &courses[*at];
        (!goes_along(course), moves_work(course), removals.ties.width(course))
    });
    let mut breakers: BTreeMap<PoolName, OutForHealth> = BTreeMap::new();
    let mut waits = vec![None; courses.len()];
    for at in order {
        let (course, begun) = (&mut courses[at], at < first_fresh);
        waits[at] = stops(course)
            .or_else(|| stopped.get(&removals.ties.group(course)?).cloned())
            .or_else(|| breaker(view, course, begun, &mut breakers))
            .or_else(|| removals.gate(shrink, course, begun))
            .or_else(|| shrink.quota(view, course));
    }
    waits
}

/// What had no room, because it was found to wait, waits: whatever let it through now.
fn still_kept(kept: &Kept, courses: &[Course], waits: &mut [Option<WaitingOn>]) {
    for (course, waits) in courses.iter().zip(waits).filter(|(_, waits)| waits.is_none()) {
        *waits = course.nodes.iter().find_map(|node| kept.get(node)).cloned();
    }
}

/// Nodes that nothing is begun on: others may have the room that they were given.
fn note_kept(courses: &[Course], waits: &[Option<WaitingOn>], draft: &mut Draft) {
    for (course, on) in courses.iter().zip(waits) {
        if let Some(on) = on.as_ref().filter(|on| kept::leaves_room(on)) {
            draft.kept.extend(course.nodes.iter().map(|node| (node.clone(), on.clone())));
        }
    }
}

/// The digest of the whole plan, in what waits for an approval.
pub fn name_approval(held: &mut [Held], digest: &Digest) {
    for one in held {
        if let WaitingOn::Approval { digest: known, .. } = &mut one.waiting_on
            && known.as_str() == NO_DIGEST
        {
            *known = digest.clone();
        }
    }
}

/// Leaves out what was not asked for, and says what that was.
fn only(view: &View<'_>, draft: &mut Draft) -> Vec<Thing> {
    let (things, node) = (&view.input.only, view.input.only_node.as_ref());
    if things.is_empty() && node.is_none() {
        return Vec::new();
    }
    // What is cut comes after the file that names the cut, so that comes with it.
    let asked = draft.courses.iter().filter(|course| asked_for(view, &course.on, &course.reason));
    let files: BTreeSet<StepId> =
        asked.flat_map(|course| &course.steps).flat_map(|step| &step.after).cloned().collect();
    let lets_in = |step: &Step| matches!(step.action, Action::Cluster(ClusterAction::Resume { .. }));
    let course_wanted = |course: &Course| match node {
        // What was sent away from the node, by whomever, is let in again: its course names no node any more.
        Some(node) => course.nodes.contains(node) || (course.nodes.is_empty() && course.steps.iter().any(lets_in)),
        None => asked_for(view, &course.on, &course.reason) || writes(course, &files),
    };
    let held_wanted = |held: &Held| match node {
        // Of the pools only the node's slot was asked, so whatever of a pool waits is about it.
        Some(_) => matches!(held.what, Thing::Pool(_)),
        None => asked_for(view, &held.what, &held.reason),
    };
    let courses = draft.courses.iter().filter(|course| !course_wanted(course)).map(|course| &course.on);
    let held = draft.held.iter().filter(|held| !held_wanted(held)).map(|held| &held.what);
    let mut left: Vec<Thing> = courses.chain(held).cloned().collect();
    left.sort();
    left.dedup();
    draft.courses.retain(course_wanted);
    draft.held.retain(held_wanted);
    left
}

/// Whether a course writes one of these files.
fn writes(course: &Course, files: &BTreeSet<StepId>) -> bool {
    course.steps.iter().any(|step| match &step.action {
        Action::Cluster(ClusterAction::Apply(object)) => {
            object.key.kind == ObjectKind::ConfigMap && files.contains(&step.id)
        }
        _ => false,
    })
}

/// Whether something is, or is for, a thing that was asked for. What a tide does, it does to others: to nodes, and to the
/// queues of who lends and who borrows.
fn asked_for(view: &View<'_>, on: &Thing, reason: &Reason) -> bool {
    let things = &view.input.only;
    let by_tide = |name: &TideName, spec: &TideSpec| match (on, reason) {
        (_, Reason::Lent { tide, .. } | Reason::Returning { tide, .. }) => tide == name,
        (Thing::Pool(pool), Reason::Resized) => spec.resizes.contains(pool),
        (Thing::Quota(quota), _) => spec.loans.iter().any(|loan| loan.from == *quota || loan.to == *quota),
        (Thing::Objects(kind), _) => kind == ObjectKind::Cohort.name() && !spec.loans.is_empty(),
        _ => false,
    };
    let tides = things.iter().filter_map(|thing| match thing {
        Thing::Tide(name) => view.standing.tides.get_key_value(name),
        _ => None,
    });
    things.contains(on) || tides.into_iter().any(|(name, spec)| by_tide(name, spec))
}

/// Whether its node carries our mark. A removal that a document asks for is begun only where the mark is for that: one
/// that came out of quarantine is not on its way out.
pub fn is_begun(view: &View<'_>, course: &Course) -> bool {
    let nodes = view.input.observed.cluster.nodes.seen();
    let fits = |mark: &str| course.reason != Reason::NotWanted || Mark::parse(mark).why == "remove";
    course.nodes.iter().any(|name| nodes.get(name).and_then(|node| node.annotation(CORDON)).is_some_and(fits))
}

/// What stops everything on the nodes of a course, whatever its steps are.
pub fn keeps(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    let frozen = || by_document(view, course).or_else(|| by_record(view, course));
    let frozen = if is_on(Mistake::EffectAfterFreeze) { None } else { frozen() };
    frozen.or_else(|| hands_off(view, course))
}

fn frozen(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    if is_on(Mistake::EffectAfterFreeze) {
        return None;
    }
    // What only remembers changes nothing outside, and a plan that forgets what it saw is a worse one.
    let notes = |step: &Step| matches!(&step.action, Action::Record(change) if change.only_notes());
    if course.steps.iter().all(notes) {
        return None;
    }
    by_document(view, course).or_else(|| by_record(view, course))
}

fn lets_through(course: &Course, freeze: &Freeze) -> bool {
    course.has_deadline && !freeze.all
}

fn by_document(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    let document = view.standing.frozen.as_deref().map(|reason| frozen_by_document(reason, view.now));
    document.filter(|freeze| !lets_through(course, freeze)).map(WaitingOn::Frozen)
}

fn by_record(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    let stops = |freeze: &&Freeze| match &freeze.scope {
        Scope::Fleet => true,
        Scope::Pool(name) => touches(view, course, name),
        Scope::Node(name) => reached(view, course).contains(name),
    };
    // One that lets it through says nothing about the others.
    let found = view.input.ledger.head.frozen.iter().filter(|freeze| !lets_through(course, freeze)).find(stops)?;
    Some(WaitingOn::Frozen(found.clone()))
}

/// The nodes of a course, and those of the gangs that it moves: a gang goes as a whole, wherever it runs.
fn reached(view: &View<'_>, course: &Course) -> BTreeSet<NodeName> {
    let seen = view.input.observed.cluster.workloads.seen();
    let moved = |step: &Step| match &step.action {
        Action::Cluster(
            ClusterAction::Suspend { workload, .. }
            | ClusterAction::Ask { workload, .. }
            | ClusterAction::Shrink { workload, .. },
        ) => seen.get(workload).map(|found| view.harm.workload_nodes(workload, found)),
        _ => None,
    };
    let gangs = course.steps.iter().filter_map(moved).flatten();
    let pods = course.steps.iter().flat_map(|step| &step.disruption.nodes);
    course.nodes.iter().chain(gangs).chain(pods).cloned().collect()
}

/// Whether a course is about a pool, about nodes of it, or about who may use how much of it.
fn touches(view: &View<'_>, course: &Course, pool: &PoolName) -> bool {
    // Not by their labels: those of a pool that was renamed follow later.
    let slots = view.pools.get(pool).map_or(&[][..], |pool| pool.slots.as_slice());
    let is_in = |node: &NodeName| slots.iter().any(|slot| slot.node.is_some_and(|(name, _)| name == node));
    let moves = |step: &Step| match &step.action {
        Action::Cluster(ClusterAction::Apply(object)) => super::objects::moved(view.input, object).contains(pool),
        _ => false,
    };
    let turns = |step: &Step| super::tide::turned(view.input, &step.action).contains(pool);
    matches!(&course.on, Thing::Pool(name) if name == pool)
        || course.steps.iter().any(turns)
        || reached(view, course).iter().any(is_in)
        || course.steps.iter().any(moves)
}

fn is_frozen(view: &View<'_>) -> bool {
    view.standing.frozen.is_some() || !view.input.ledger.head.frozen.is_empty()
}

/// What a freeze lets through is the drain; the next node comes after the thaw.
fn without_successor(course: &mut Course) {
    let is_launch = |step: &Step| match &step.action {
        Action::Cloud(action) => {
            matches!(action, CloudAction::Launch(_) | CloudAction::EnsureTemplate(_) | CloudAction::EnsureGroup { .. })
        }
        Action::Await(Fact::Free { .. } | Fact::Active(_)) => true,
        _ => false,
    };
    course.steps.retain(|step| !is_launch(step));
}

fn hands_off(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    let nodes = view.input.observed.cluster.nodes.seen();
    let is_off = |name: &NodeName| nodes.get(name).is_some_and(|node| node.annotation(HANDS_OFF).is_some());
    reached(view, course).into_iter().find(is_off).map(WaitingOn::HandsOff)
}

/// Nothing more is lent while nobody answers for the guard.
fn unguarded(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    let Reason::Lent { tide, .. } = &course.reason else { return None };
    let is_silent = super::tide::waited_for(view, tide).is_some() && !is_begun(view, course);
    is_silent.then(|| WaitingOn::Guard { tide: tide.clone(), why: "nobody answers its query".into() })
}

/// The cloud said that it would not let us: a person has to. What the cloud takes away anyway is emptied all the same.
fn denied(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    let denied = &view.input.observed.denied;
    if denied.is_empty() || course.has_deadline {
        return None;
    }
    let why = course.steps.iter().find_map(|step| match &step.action {
        Action::Cloud(action) => denied.get(action.verb()),
        _ => None,
    });
    why.cloned().map(WaitingOn::Person)
}

/// Nothing is taken away on the word of a read that failed, or of one that lost too much.
fn doubtful(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    if !course.steps.iter().any(|step| is_destructive(&step.action)) {
        return None;
    }
    let seen = &view.input.observed;
    let gap: Option<&Gap> = seen.cluster.nodes.gap().or(seen.cluster.pods.gap()).or(seen.cluster.workloads.gap());
    let cloud = course.steps.iter().any(|step| matches!(step.action, Action::Cloud(_)));
    let gap = gap.or(seen.cloud.instances.gap().filter(|_| cloud)).or(seen.cluster.budgets.gap());
    if let Some(gap) = gap {
        return Some(WaitingOn::Unread(gap.clone()));
    }
    view.shrunk.map(|(seen, trusted)| WaitingOn::Shrunk { seen, trusted })
}

fn is_destructive(action: &Action) -> bool {
    match action {
        Action::Cloud(action) => {
            matches!(action, CloudAction::Terminate { .. } | CloudAction::Reboot { .. } | CloudAction::Cancel { .. })
        }
        Action::Cluster(action) => matches!(
            action,
            ClusterAction::Suspend { .. }
                | ClusterAction::Shrink { .. }
                | ClusterAction::Evict { .. }
                | ClusterAction::Cut { .. }
                | ClusterAction::Delete(_)
        ),
        Action::Record(_) | Action::Await(_) => false,
    }
}

/// No more of a pool is taken out for its health than its policy says: then the cause is probably elsewhere.
fn breaker(
    view: &View<'_>,
    course: &Course,
    begun: bool,
    used: &mut BTreeMap<PoolName, OutForHealth>,
) -> Option<WaitingOn> {
    let (Reason::Sick { .. }, Thing::Pool(name)) = (&course.reason, &course.on) else { return None };
    let pool = view.pools.get(name)?;
    let percent = super::health::policy(view, pool).map_or(HealthSpec::LIMIT_WITHOUT_POLICY, |policy| policy.limit).0;
    let allowed = pool.target.nodes.saturating_mul(u32::from(percent)).div_ceil(100).max(1);
    let used = used.entry(name.clone()).or_insert_with(|| out_for_health(view, pool));
    let node = course.nodes.first();
    let is_out = node.is_some_and(|node| used.nodes.contains(node));
    let count = u32::try_from(used.empty + used.nodes.len()).unwrap_or(u32::MAX);
    if count >= allowed && !begun && !is_out {
        return Some(WaitingOn::budget(format!("the health limit of pool/{name}"), allowed, count));
    }
    match node {
        Some(node) => _ = used.nodes.insert(node.clone()),
        None => used.empty += 1,
    }
    None
}

/// What a pool lacks because of its health.
#[derive(Default)]
struct OutForHealth {
    /// Slots that are empty after a treatment: they are still being treated.
    empty: usize,
    /// Nodes that are closed for it, until they are open again: also one that a person returned, and one that was booted
    /// and is watched. Not one that a person put there.
    nodes: BTreeSet<NodeName>,
}

fn out_for_health(view: &View<'_>, pool: &PoolView<'_>) -> OutForHealth {
    let treated = pool.slots.iter().filter(|slot| slot.part.is_some() && slot.node.is_none());
    let was_treated = |record: &Slot| record.remedies.iter().any(|one| !one.is_report());
    let treated = treated.filter(|slot| slot.record.is_some_and(|record| record.lost && was_treated(record)));
    let is_closed = |slot: &&SlotView<'_>| {
        let quarantine = slot.node.and_then(|(name, _)| view.input.ledger.head.quarantined.get(name));
        let marked = slot.mark.as_ref().is_some_and(|mark| mark.why == "quarantine" || mark.why == "reboot");
        quarantine.map_or(marked, |quarantine| quarantine.by == Quarantine::BY_POLICY)
    };
    let nodes = pool.slots.iter().filter(is_closed).filter_map(|slot| slot.node).map(|(name, _)| name.clone());
    OutForHealth { empty: treated.count(), nodes: nodes.collect() }
}
