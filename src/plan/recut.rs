//! Quotas in slices follow the nodes that are cut.
//!
//! Whoever cuts the nodes of a pool otherwise gives its teams other slices. Until the first node is cut nobody has any of
//! those, and a queue that speaks of them lets nothing in: it changes behind the first cut, and waits for what that
//! waits for.

use super::draft::{Course, Draft};
use super::layout;
use super::objects::{hands_over, loses};
use super::types::{Reason, Step, WaitingOn, thing};
use super::view::{Body, PoolView, View};
use crate::effect::{Action, CloudAction, ClusterAction};
use crate::fleet::target::Purpose;
use crate::ids::StepId;

pub fn quotas_follow(view: &View<'_>, draft: &mut Draft) {
    for pool in view.pools.values().filter(|pool| !shows_the_new_cut(view, pool)) {
        let on = thing(pool.name);
        let cuts = |course: &&Course| course.on == on && matches!(course.reason, Reason::Layout { .. });
        let first = draft.courses.iter().filter(cuts).flat_map(|course| &course.steps).find(|step| changes(step));
        let first = first.map(|step| step.id.clone());
        let waits = draft.held.iter().find(|held| held.what == on && matches!(held.reason, Reason::Layout { .. }));
        let waits = waits.map(|held| held.waiting_on.clone());
        match (first, waits) {
            (Some(cut), _) => after(view, pool, &cut, draft),
            (None, Some(waits)) => with(view, pool, &waits, draft),
            (None, None) => {}
        }
    }
}

/// A node is cut anew, or, where it gets another template too, given up for one that will be.
fn changes(step: &Step) -> bool {
    let cuts = matches!(step.action, Action::Cluster(ClusterAction::Cut { .. }));
    cuts || matches!(step.action, Action::Cloud(CloudAction::Terminate { .. }))
}

/// Whether a tide has some of the pool.
fn is_in_a_tide(pool: &PoolView<'_>) -> bool {
    let of_tide = |purpose: &Purpose| matches!(purpose, Purpose::Lent { .. } | Purpose::Returning { .. });
    pool.target.parts.iter().any(|part| of_tide(&part.purpose))
}

/// Whether some node is cut as the pool wants it.
fn shows_the_new_cut(view: &View<'_>, pool: &PoolView<'_>) -> bool {
    let mut nodes = pool.slots.iter().filter(|slot| slot.body == Body::Serving).filter_map(|slot| slot.node);
    nodes.any(|(_, node)| layout::current(view, pool, node) == Some(&pool.spec.layout))
}

/// Whether a step takes slices of a pool out of a queue that has them now. What a tide hands over goes with the nodes, and
/// waits for nothing else.
fn takes(view: &View<'_>, pool: &PoolView<'_>, step: &Step) -> bool {
    let Action::Cluster(ClusterAction::Apply(object)) = &step.action else { return false };
    let is_handed = || is_in_a_tide(pool) && hands_over(view.input, &object.key);
    loses(view.input, object).contains(pool.name) && !is_handed()
}

fn after(view: &View<'_>, pool: &PoolView<'_>, cut: &StepId, draft: &mut Draft) {
    let steps = draft.courses.iter_mut().flat_map(|course| &mut course.steps);
    steps.filter(|step| takes(view, pool, step)).for_each(|step| step.after.push(cut.clone()));
}

fn with(view: &View<'_>, pool: &PoolView<'_>, waits: &WaitingOn, draft: &mut Draft) {
    let (held, goes): (Vec<Course>, Vec<Course>) = std::mem::take(&mut draft.courses)
        .into_iter()
        .partition(|course| course.steps.iter().any(|step| takes(view, pool, step)));
    draft.courses = goes;
    draft.held.extend(held.into_iter().map(|course| course.held(waits.clone())));
}
