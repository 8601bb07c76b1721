//! What is let through and what waits: freezes, hands-off, reads that are not whole, budgets, approvals.
//!
//! Every course of every room passes here, once, in one order. A course that was begun (its node carries our mark) is
//! not held by a budget that it has been counted in already.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::draft::{Course, Draft};
use super::shrink::Shrink;
use super::types::*;
use super::view::View;
use super::wish::not_wanted;
use crate::effect::marks::{CORDON, HANDS_OFF, Mark, POOL};
use crate::effect::{Action, CloudAction, ClusterAction, Effects, Fact, Freeze, Quarantine, Scope, Thing, Verb};
use crate::fleet::standing::{HealthSpec, TideSpec};
use crate::ids::{Digest, NodeName, PoolName, StepId, TideName};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{Gap, ObjectKind};

/// How long a word that was given for a removal counts: who changed his mind should not find it done a week later.
const APPROVED_FOR: SignedDuration = SignedDuration::from_hours(24);
/// How long a removal counts.
const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);
/// The limit that removals by choice count against.
pub const REMOVED_PER_HOUR: &str = "limits.nodesRemovedPerHour";
/// What an approval would have to cover is known only when everything else is: the place is kept with this.
pub const NO_DIGEST: &str = "";

pub fn pass(view: &View<'_>, draft: &mut Draft) -> Vec<Thing> {
    // A part of a plan needs the same word as the whole: what is left out counts here.
    let mut removals = Removals::new(view, &draft.courses, &draft.held);
    let shrink = Shrink::new(view, &draft.courses, &draft.held, removals.too_many && !removals.approved);
    let left_out = only(view, draft);
    let courses = std::mem::take(&mut draft.courses);
    let mut breakers: BTreeMap<PoolName, u32> = BTreeMap::new();
    // What was begun comes first, so that a budget is spent on finishing.
    let (begun, fresh): (Vec<_>, Vec<_>) = courses.into_iter().partition(|course| is_begun(view, course));
    let mut come = Come::default();
    for (mut course, begun) in begun.into_iter().map(|c| (c, true)).chain(fresh.into_iter().map(|c| (c, false))) {
        let waiting_on = frozen(view, &course)
            .or_else(|| hands_off(view, &course))
            .or_else(|| doubtful(view, &course))
            .or_else(|| breaker(view, &course, begun, &mut breakers))
            .or_else(|| removals.gate(&shrink, &course, begun))
            .or_else(|| shrink.quota(view, &mut course));
        if course.has_deadline && is_frozen(view) {
            without_successor(&mut course);
        }
        let effects = come.passes(&course);
        match waiting_on {
            Some(waiting_on) => {
                let mut held = course.held(waiting_on);
                held.effects.add(&effects);
                draft.held.push(held);
            }
            None => draft.courses.push(course),
        }
    }
    left_out
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
    let lets_in = |step: &Step| matches!(step.action, Action::Cluster(ClusterAction::Resume { .. }));
    let course_wanted = |course: &Course| match node {
        // What was sent away from the node, by whomever, is let in again: its course names no node any more.
        Some(node) => course.nodes.contains(node) || (course.nodes.is_empty() && course.steps.iter().any(lets_in)),
        None => asked_for(view, &course.on, &course.reason),
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

fn frozen(view: &View<'_>, course: &Course) -> Option<WaitingOn> {
    if is_on(Mistake::EffectAfterFreeze) {
        return None;
    }
    let lets_through = |freeze: &Freeze| course.has_deadline && !freeze.all;
    if let Some(reason) = &view.standing.frozen {
        let freeze = frozen_by_document(reason, view.now);
        return (!lets_through(&freeze)).then_some(WaitingOn::Frozen(freeze));
    }
    // What only remembers changes nothing outside, and a plan that forgets what it saw is a worse one.
    if course.steps.iter().all(|step| matches!(step.action, Action::Record(_))) {
        return None;
    }
    let stops = |freeze: &&Freeze| match &freeze.scope {
        Scope::Fleet => true,
        Scope::Pool(name) => touches(view, course, name),
        Scope::Node(name) => reached(view, course).contains(name),
    };
    let found = view.input.ledger.head.frozen.iter().find(stops)?;
    (!lets_through(found)).then(|| WaitingOn::Frozen(found.clone()))
}

/// The nodes of a course, and those of the gangs that it moves: a gang goes as a whole, wherever it runs.
fn reached(view: &View<'_>, course: &Course) -> BTreeSet<NodeName> {
    let seen = view.input.observed.cluster.workloads.seen();
    let moved = |step: &Step| match &step.action {
        Action::Cluster(ClusterAction::Suspend { workload, .. } | ClusterAction::Ask { workload, .. }) => {
            seen.get(workload).map(|found| view.harm.workload_nodes(workload, found))
        }
        _ => None,
    };
    let gangs = course.steps.iter().filter_map(moved).flatten();
    let pods = course.steps.iter().flat_map(|step| &step.disruption.nodes);
    course.nodes.iter().chain(gangs).chain(pods).cloned().collect()
}

/// Whether a course is about a pool, about nodes of it, or about who may use how much of it.
fn touches(view: &View<'_>, course: &Course, pool: &PoolName) -> bool {
    let nodes = view.input.observed.cluster.nodes.seen();
    let is_in = |node: &NodeName| nodes.get(node).and_then(|node| node.labels.get(POOL)).map(String::as_str);
    let moves = |step: &Step| match &step.action {
        Action::Cluster(ClusterAction::Apply(object)) => super::objects::moved(view.input, object).contains(pool),
        _ => false,
    };
    matches!(&course.on, Thing::Pool(name) if name == pool)
        || reached(view, course).iter().any(|node| is_in(node) == Some(pool.as_str()))
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
                | ClusterAction::Evict { .. }
                | ClusterAction::Cut { .. }
                | ClusterAction::Delete(_)
        ),
        Action::Record(_) | Action::Await(_) => false,
    }
}

/// No more of a pool is taken out for its health than its policy says: then the cause is probably elsewhere.
fn breaker(view: &View<'_>, course: &Course, begun: bool, used: &mut BTreeMap<PoolName, u32>) -> Option<WaitingOn> {
    let (Reason::Sick { .. }, Thing::Pool(name)) = (&course.reason, &course.on) else { return None };
    let pool = view.pools.get(name)?;
    let percent = super::health::policy(view, pool).map_or(HealthSpec::LIMIT_WITHOUT_POLICY, |policy| policy.limit).0;
    let allowed = pool.target.nodes.saturating_mul(u32::from(percent)).div_ceil(100).max(1);
    let used = used.entry(name.clone()).or_insert_with(|| {
        // Slots that are empty after a treatment are still being treated.
        let treated = pool.slots.iter().filter(|slot| slot.part.is_some() && slot.node.is_none());
        let treated =
            treated.filter(|slot| slot.record.is_some_and(|record| record.lost && !record.remedies.is_empty()));
        // So are those that wait in quarantine for a person, unless a person put them there.
        let waits = pool.slots.iter().filter(|slot| {
            let quarantine = slot.node.and_then(|(name, _)| view.input.ledger.head.quarantined.get(name));
            quarantine.is_some_and(|quarantine| quarantine.by == Quarantine::BY_POLICY)
        });
        u32::try_from(treated.count() + waits.count()).unwrap_or(u32::MAX)
    });
    if *used >= allowed && !begun {
        let name = format!("the health limit of pool/{name}");
        return Some(WaitingOn::Budget { name, allowed, used: *used });
    }
    *used += 1;
    None
}

/// Nodes that are removed by choice: so many an hour, and not too many at once without somebody's word.
struct Removals {
    left: u32,
    allowed: u32,
    /// Those of the last hour, oldest first.
    recent: Vec<jiff::Timestamp>,
    ties: Ties,
    too_many: bool,
    approved: bool,
}

impl Removals {
    fn new(view: &View<'_>, courses: &[Course], held: &[Held]) -> Self {
        let allowed = view.standing.limits.nodes_removed_per_hour;
        let removed = view.input.ledger.pools.values().flat_map(|pool| &pool.removed).map(|(_, at)| *at);
        let mut recent: Vec<_> = removed.filter(|at| view.now.duration_since(*at) < AN_HOUR).collect();
        recent.sort_unstable();
        let left = allowed.saturating_sub(u32::try_from(recent.len()).unwrap_or(u32::MAX));
        let wanted: Effects =
            courses.iter().filter(|course| is_removal(course)).fold(Effects::default(), |mut sum, one| {
                sum.add(&one.effects());
                sum
            });
        let waiting = held.iter().filter(|held| held.reason == Reason::NotWanted).count();
        let unwanted = |course: &&Course| course.reason == Reason::NotWanted && is_removal(course);
        let count = courses.iter().filter(unwanted).filter(|course| !is_begun(view, course)).count() + waiting;
        let count = if count > 0 { count + ending_anyway(view) } else { 0 };
        let known = super::shrink::known(view);
        let percent = usize::from(view.standing.limits.desired_shrink_percent);
        let too_many = count * 100 > known * percent && count > 0;
        let only_removals = Effects(
            wanted.0.into_iter().filter(|(key, _)| matches!(key.verb, Verb::Terminate | Verb::Release)).collect(),
        );
        let approved = view.input.ledger.head.approvals.values().any(|opened| {
            let fresh = view.now.duration_since(opened.at) < APPROVED_FOR;
            fresh && only_removals.within(&opened.left).is_ok()
        });
        Self { left, allowed, recent, ties: Ties::new(courses), too_many, approved }
    }

    fn gate(&mut self, shrink: &Shrink, course: &Course, begun: bool) -> Option<WaitingOn> {
        if !is_removal(course) {
            return None;
        }
        if course.reason == Reason::NotWanted && self.too_many && !self.approved && !begun {
            return Some(shrink.word());
        }
        if !is_counted(course) || self.ties.is_promised(course) {
            return None;
        }
        // All nodes of a gang or none, because it would come back to those that are left; where they are more than an
        // hour allows, as many as it does.
        let wanted = if begun { 1 } else { self.ties.width(course).min(self.allowed.max(1)) };
        if self.left < wanted {
            let (name, allowed, used) = (REMOVED_PER_HOUR.to_string(), self.allowed, self.allowed - self.left);
            let short = usize::try_from(wanted - self.left).unwrap_or(usize::MAX);
            let free = self.recent.get(short - 1).and_then(|at| at.checked_add(AN_HOUR).ok());
            let why = format!("{name} is {allowed}, and {used} of that is used");
            return Some(match free {
                Some(at) => WaitingOn::Until { at, why, remedy: Some(raise(REMOVED_PER_HOUR)) },
                None => WaitingOn::Budget { name, allowed, used },
            });
        }
        self.left -= wanted;
        self.ties.promise(course, wanted - 1);
        None
    }
}

/// What to write where a limit of the fleet is in the way.
fn raise(limit: &str) -> String {
    format!("raise spec.{limit} in the Fleet document")
}

/// Nodes that nobody wants and that go for another reason: whoever wrote the smaller number asked for them too.
fn ending_anyway(view: &View<'_>) -> usize {
    let slots = view.slots().filter(|(_, slot)| slot.part.is_none() && slot.node.is_some());
    let beyond = slots.filter(|(_, slot)| !slot.by_tide);
    beyond.filter(|(pool, slot)| !not_wanted(view, pool, slot).1).count()
}

/// Pods that stand for themselves and leave a node are made again at once, on one that may still have to go: a removal
/// that waits counts them too, or its approval would run out half way.
#[derive(Default)]
struct Come(BTreeMap<Thing, Effects>);

impl Come {
    /// What may have come to the nodes of this removal when its time comes.
    fn passes(&mut self, course: &Course) -> Effects {
        if !is_removal(course) {
            return Effects::default();
        }
        let come = self.0.entry(course.on.clone()).or_default();
        let before = come.clone();
        let evicts = |step: &&Step| matches!(step.action, Action::Cluster(ClusterAction::Evict { .. }));
        for step in course.steps.iter().filter(evicts) {
            let drains = step.effects.0.iter().filter(|(key, _)| key.verb == Verb::Drain);
            come.add(&Effects(drains.map(|(key, amount)| (key.clone(), amount.clone())).collect()));
        }
        before
    }
}

/// Removals that one gang ties together: it stands on all their nodes.
struct Ties {
    group: BTreeMap<NodeName, usize>,
    width: BTreeMap<usize, u32>,
    /// How many more of a group may go, counted already.
    promised: BTreeMap<usize, u32>,
}

impl Ties {
    fn new(courses: &[Course]) -> Self {
        let mut sets = petgraph::unionfind::UnionFind::<usize>::new(courses.len());
        let mut first: BTreeMap<&StepId, usize> = BTreeMap::new();
        let counted = || courses.iter().enumerate().filter(|(_, course)| is_counted(course));
        for (place, course) in counted() {
            let suspends = |step: &&Step| matches!(step.action, Action::Cluster(ClusterAction::Suspend { .. }));
            for step in course.steps.iter().filter(suspends) {
                sets.union(place, *first.entry(&step.id).or_insert(place));
            }
        }
        let mut ties = Self { group: BTreeMap::new(), width: BTreeMap::new(), promised: BTreeMap::new() };
        for (place, course) in counted() {
            let group = sets.find(place);
            ties.group.extend(course.nodes.iter().map(|node| (node.clone(), group)));
            *ties.width.entry(group).or_insert(0) += 1;
        }
        ties
    }

    fn group(&self, course: &Course) -> Option<usize> {
        course.nodes.first().and_then(|node| self.group.get(node)).copied()
    }

    fn width(&self, course: &Course) -> u32 {
        self.group(course).and_then(|group| self.width.get(&group)).copied().unwrap_or(1)
    }

    fn is_promised(&mut self, course: &Course) -> bool {
        let left = self.group(course).and_then(|group| self.promised.get_mut(&group)).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }

    fn promise(&mut self, course: &Course, more: u32) {
        if let Some(group) = self.group(course) {
            self.promised.insert(group, more);
        }
    }
}

/// Whether it will be counted as a removal: one that was begun is already.
fn is_counted(course: &Course) -> bool {
    course.steps.iter().any(|step| step.id.as_str().starts_with("removing:"))
}

/// A node that goes by choice: somebody wrote fewer of them, or it moves to a new version.
pub fn is_removal(course: &Course) -> bool {
    let asked = course.steps.iter().any(|step| step.consent == Consent::Asked);
    let removes = course
        .steps
        .iter()
        .any(|step| step.effects.0.keys().any(|key| matches!(key.verb, Verb::Terminate | Verb::Release)));
    (course.reason == Reason::NotWanted && asked && removes) || is_counted(course)
}
