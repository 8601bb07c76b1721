//! What a launch is made of, once it is known where the node comes from.

use crate::effect::{Action, Amount, CloudAction, Effects, Fact, LaunchRequest, Verb};
use crate::ids::StepId;
use crate::plan::drain::{Steps, step_id};
use crate::plan::types::pool_of;
use crate::plan::view::{PoolView, View};
use crate::units::Usd;

/// The steps of a launch: its template and group, the place, the request.
pub fn steps(
    view: &View<'_>,
    pool: &PoolView<'_>,
    made: &mut Steps,
    request: &LaunchRequest,
    usd_hour: Usd,
    wait_for: Option<&Fact>,
) {
    if let Some(fact) = wait_for {
        let (id, takes) = match fact {
            // All slots wait for the same reservation.
            Fact::Active(id) => (step_id("active", id, 0), (1, 300)),
            _ => (step_id("place", &request.slot, request.generation), (60, 420)),
        };
        made.push(id, Action::Await(fact.clone()), vec![], takes);
    }
    let mut before = prepare(view, pool, made);
    before.extend(made.last.clone());
    let requires = request.reservation.iter().map(|id| Fact::Active(id.clone())).collect();
    let action = Action::Cloud(CloudAction::Launch(request.clone()));
    made.push(step_id("launch", &request.slot, request.generation), action, requires, (60, 180));
    if let Some(step) = made.steps.last_mut() {
        step.after = before;
    }
    let amount = Amount { usd_hour, ..Amount::count(1) };
    made.with(Effects::one(Verb::Launch, pool_of(&request.slot), amount));
}

/// The launch template and the placement group, where they are not there yet.
fn prepare(view: &View<'_>, pool: &PoolView<'_>, made: &mut Steps) -> Vec<StepId> {
    let mut ids = Vec::new();
    let Some(objects) = view.input.desired.pools.get(pool.name) else { return ids };
    let seen = &view.input.observed.cloud;
    let known = seen.templates.seen().get(&objects.template.name).and_then(|found| found.digest.as_ref());
    let last = made.last.clone();
    if known != Some(&objects.template.digest) {
        let id = step_id("template", &objects.template.name, 0);
        made.last = None;
        made.push(id.clone(), Action::Cloud(CloudAction::EnsureTemplate(objects.template.clone())), vec![], (1, 5));
        ids.push(id);
    }
    if let Some(group) =
        objects.group.as_ref().filter(|group| objects.group_is_ours && !seen.groups.seen().contains_key(*group))
    {
        let id = step_id("group", group, 0);
        made.last = None;
        made.push(id.clone(), Action::Cloud(CloudAction::EnsureGroup { group: group.clone() }), vec![], (1, 5));
        ids.push(id);
    }
    made.last = last;
    ids
}
