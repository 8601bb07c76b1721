//! A pool that is asked to be smaller: what that is told to wait for, and the quotas that go with its nodes.

use std::collections::BTreeSet;

use super::draft::Course;
use super::gates::{NO_DIGEST, ending_anyway, is_begun, is_removal};
use super::types::*;
use super::view::View;
use crate::effect::{Action, ClusterAction, Thing};
use crate::ids::PoolName;

/// The nodes that go because the documents ask for fewer.
#[derive(Debug)]
pub struct Shrink {
    /// How many, of how many that we know of, and what percentage may go at once.
    count: usize,
    known: usize,
    percent: usize,
    /// The pools that they go from.
    from: BTreeSet<PoolName>,
    /// More than may, and nobody gave his word for it.
    unapproved: bool,
}

/// The nodes that the documents are about: those of a pool whose document is gone are let go, whatever goes with them.
pub fn known(view: &View<'_>) -> usize {
    let pools = view.input.ledger.pools.iter().filter(|(name, _)| view.input.target.pools.contains_key(*name));
    let slots = pools.flat_map(|(_, pool)| pool.slots.values());
    slots.filter(|slot| slot.instance.is_some() || slot.node.is_some()).count()
}

impl Shrink {
    pub fn new(view: &View<'_>, courses: &[Course], held: &[Held], unapproved: bool) -> Self {
        let unwanted = |course: &&Course| course.reason == Reason::NotWanted && is_removal(course);
        let goes = courses.iter().filter(unwanted).filter(|course| !is_begun(view, course)).map(|course| &course.on);
        let waits = held.iter().filter(|held| held.reason == Reason::NotWanted).map(|held| &held.what);
        let all: Vec<&Thing> = goes.chain(waits).collect();
        let from = all.iter().filter_map(|on| match on {
            Thing::Pool(name) => Some(name.clone()),
            _ => None,
        });
        Self {
            count: if all.is_empty() { 0 } else { all.len() + ending_anyway(view) },
            known: known(view),
            percent: usize::from(view.standing.limits.desired_shrink_percent),
            from: from.collect(),
            unapproved,
        }
    }

    /// Somebody's word, with the limit that asks for it.
    pub fn word(&self) -> WaitingOn {
        let Self { count, known, percent, .. } = self;
        let share = (count * 100).div_ceil((*known).max(1));
        let why = format!(
            "this removes {count} of {known} nodes, {share} percent, and limits.desiredShrinkPercent is {percent}"
        );
        WaitingOn::Approval { digest: NO_DIGEST.into(), why }
    }

    /// A quota that is lowered because its pool shrinks goes with the nodes: on the same word, and no earlier. It is
    /// still written before them, so that nothing is promised that is not there.
    pub fn quota(&self, view: &View<'_>, course: &mut Course) -> Option<WaitingOn> {
        let lowers = |step: &Step| match &step.action {
            Action::Cluster(ClusterAction::Apply(object)) => {
                let pools = super::objects::lowered(view.input, object);
                pools.into_iter().find(|pool| self.from.contains(pool))
            }
            _ => None,
        };
        let pool = course.steps.iter().filter(|_| !self.from.is_empty()).find_map(lowers)?;
        if self.unapproved {
            course.wanted = format!("{}, with the nodes of pool/{pool}", course.wanted);
            return Some(self.word());
        }
        course.steps.iter_mut().filter(|step| lowers(step).is_some()).for_each(|step| step.consent = Consent::Asked);
        None
    }
}
