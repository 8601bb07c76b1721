//! Nodes that go by choice: so many an hour, whole gangs in one hour or not at all, and many only on somebody's word.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::{REMOVED_PER_HOUR, is_begun};
use crate::effect::{Action, ClusterAction, Effects, Thing, Verb};
use crate::ids::NodeName;
use crate::plan::draft::Course;
use crate::plan::harm::{Gang, gang_of};
use crate::plan::once;
use crate::plan::removed::{AN_HOUR, removals};
use crate::plan::shrink::{self, Shrink};
use crate::plan::types::{Consent, Held, Reason, Step, WaitingOn};
use crate::plan::view::{Body, PoolView, SlotView, View};
use crate::plan::wish::not_wanted;

/// How long a word that was given for a removal counts: who changed his mind should not find it done a week later.
const APPROVED_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Nodes that are removed by choice: so many an hour, and not too many at once without somebody's word.
pub struct Removals {
    left: u32,
    allowed: u32,
    /// Those of the last hour, oldest first.
    recent: Vec<jiff::Timestamp>,
    pub ties: Ties,
    pub too_many: bool,
    pub approved: bool,
}

impl Removals {
    pub fn new(view: &View<'_>, courses: &[Course], held: &[Held]) -> Self {
        let allowed = view.standing.limits.nodes_removed_per_hour;
        let recent = removals(view.input);
        let left = allowed.saturating_sub(u32::try_from(recent.len()).unwrap_or(u32::MAX));
        let wanted: Effects = courses.iter().filter(|course| is_removal(course) && !goes_along(course)).fold(
            Effects::default(),
            |mut sum, one| {
                sum.add(&one.effects());
                sum
            },
        );
        let waiting = held.iter().filter(|held| held.reason == Reason::NotWanted).count();
        let unwanted = |course: &&Course| course.reason == Reason::NotWanted && is_removal(course);
        let count = courses.iter().filter(unwanted).filter(|course| !is_begun(view, course)).count() + waiting;
        let count = if count > 0 { count + ending_anyway(view) } else { 0 };
        let known = shrink::known(view);
        let percent = usize::from(view.standing.limits.desired_shrink_percent);
        let too_many = count * 100 > known * percent && count > 0;
        let only_removals = Effects(
            wanted.0.into_iter().filter(|(key, _)| matches!(key.verb, Verb::Terminate | Verb::Release)).collect(),
        );
        let approved = view.input.ledger.head.approvals.values().any(|opened| {
            let fresh = view.now.duration_since(opened.at) < APPROVED_FOR;
            fresh && only_removals.within(&opened.left).is_ok()
        });
        Self { left, allowed, recent, ties: Ties::new(view, courses), too_many, approved }
    }

    pub fn gate(&mut self, shrink: &Shrink, course: &Course, begun: bool) -> Option<WaitingOn> {
        if !is_removal(course) {
            return None;
        }
        if course.reason == Reason::NotWanted && self.too_many && !self.approved && !begun {
            return Some(shrink.word());
        }
        // It was let go along because there is room for it: whoever empties it waits for no limit.
        if goes_along(course) {
            self.left = self.left.saturating_sub(1);
            return None;
        }
        if !is_counted(course) || self.ties.is_promised(course) {
            return None;
        }
        // All nodes of a gang or none, because it would come back to those that are left, and be moved again.
        let wanted = self.ties.width(course);
        if wanted > self.allowed.max(1) {
            return Some(self.too_wide(course, wanted));
        }
        if self.left < wanted {
            let (name, allowed, used) = (REMOVED_PER_HOUR.to_string(), self.allowed, self.allowed - self.left);
            let short = usize::try_from(wanted - self.left).unwrap_or(usize::MAX);
            let free = self.recent.get(short - 1).and_then(|at| at.checked_add(AN_HOUR).ok());
            let why = format!("{name} is {allowed}, and {used} of that is used");
            return Some(match free {
                Some(at) => WaitingOn::Until { at, why, remedy: Some(raise(REMOVED_PER_HOUR)) },
                None => WaitingOn::budget(name, allowed, used),
            });
        }
        self.left -= wanted;
        self.ties.promise(course, wanted - 1);
        None
    }

    /// A limit of the fleet is passed by nobody, so only a person or the end of the gang helps.
    fn too_wide(&self, course: &Course, nodes: u32) -> WaitingOn {
        let (gang, allowed) = (self.ties.gang(course), self.allowed);
        WaitingOn::Person(format!(
            "{gang} ties {nodes} nodes together, which go within one hour or not at all, and {REMOVED_PER_HOUR} is \
             {allowed}: {} to {nodes}, or let it end",
            raise(REMOVED_PER_HOUR)
        ))
    }
}

/// What to write where a limit of the fleet is in the way.
fn raise(limit: &str) -> String {
    format!("raise spec.{limit} in the Fleet document")
}

/// Nodes that nobody wants and that go for another reason, or are not listed now and may be again: whoever wrote the
/// smaller number asked for them too.
pub fn ending_anyway(view: &View<'_>) -> usize {
    let beyond = view.slots().filter(|(_, slot)| slot.part.is_none() && !slot.by_tide);
    let goes = |pool: &PoolView<'_>, slot: &SlotView<'_>| slot.node.is_some() && !not_wanted(view, pool, slot).1;
    beyond.filter(|(pool, slot)| slot.body == Body::Missing || goes(pool, slot)).count()
}

/// Pods that stand for themselves and leave a node are made again at once, on one that may still have to go: a removal
/// that waits counts them too, or its approval would run out half way.
#[derive(Default)]
pub struct Come(BTreeMap<Thing, Effects>);

impl Come {
    /// What may have come to the nodes of this removal when its time comes.
    pub fn passes(&mut self, course: &Course) -> Effects {
        if !is_removal(course) {
            return Effects::default();
        }
        let come = self.0.entry(course.on.clone()).or_default();
        let before = come.clone();
        let evicts = |step: &&Step| matches!(step.action, Action::Cluster(ClusterAction::Evict { .. }));
        for step in course.steps.iter().filter(evicts) {
            let drains = step.effects.0.iter().filter(|(key, _)| key.verb == Verb::Drain);
            let mut drains = Effects(drains.map(|(key, amount)| (key.clone(), amount.clone())).collect());
            step.disruption.gangs.iter().for_each(|gang| once::take_out(&mut drains, &step.on, gang));
            come.add(&drains);
        }
        before
    }
}

/// Removals that one gang ties together: it stands on all their nodes.
pub struct Ties {
    group: BTreeMap<NodeName, usize>,
    width: BTreeMap<usize, u32>,
    /// The work that does.
    gang: BTreeMap<usize, String>,
    /// How many more of a group may go, counted already.
    promised: BTreeMap<usize, u32>,
}

impl Ties {
    fn new(view: &View<'_>, courses: &[Course]) -> Self {
        let mut sets = petgraph::unionfind::UnionFind::<usize>::new(courses.len());
        let mut first: BTreeMap<Gang<'_>, usize> = BTreeMap::new();
        let counted = || courses.iter().enumerate().filter(|(_, course)| is_counted(course) && !goes_along(course));
        for (place, course) in counted() {
            let pods = course.nodes.iter().flat_map(|node| view.harm.pods_on(node));
            let stays = pods.copied().filter(|pod| !view.harm.is_leaving(pod));
            for gang in stays.filter_map(gang_of) {
                sets.union(place, *first.entry(gang).or_insert(place));
            }
        }
        let (group, width, gang) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut ties = Self { group, width, gang, promised: BTreeMap::new() };
        for (place, course) in counted() {
            let group = sets.find(place);
            ties.group.extend(course.nodes.iter().map(|node| (node.clone(), group)));
            *ties.width.entry(group).or_insert(0) += 1;
            let work = course.nodes.iter().flat_map(|node| view.harm.work_on(node)).next();
            ties.gang.extend(work.map(|work| (group, work)));
        }
        ties
    }

    /// What one course of a group is stopped by, all of it is.
    pub fn stopped(
        &self,
        courses: &[Course],
        stops: impl Fn(&Course) -> Option<WaitingOn>,
    ) -> BTreeMap<usize, WaitingOn> {
        let tied = courses.iter().filter(|course| self.width(course) > 1);
        tied.filter_map(|course| Some((self.group(course)?, stops(course)?))).collect()
    }

    pub fn group(&self, course: &Course) -> Option<usize> {
        course.nodes.first().and_then(|node| self.group.get(node)).copied()
    }

    fn gang(&self, course: &Course) -> &str {
        self.group(course).and_then(|group| self.gang.get(&group)).map_or("a gang", String::as_str)
    }

    pub fn width(&self, course: &Course) -> u32 {
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
pub fn is_counted(course: &Course) -> bool {
    course.steps.iter().any(|step| step.id.as_str().starts_with("removing:"))
}

/// Whether a tide, or its health, empties the node, and its removal counts all the same: it moves to a new version on the
/// way.
pub fn goes_along(course: &Course) -> bool {
    is_counted(course) && matches!(course.reason, Reason::Lent { .. } | Reason::Sick { .. })
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
