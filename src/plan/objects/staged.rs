//! What is written in stages: which part is held, and whose end it waits for.

use super::{Change, Stuck, judge, named, thing_of};
use crate::effect::{Action, ClusterAction};
use crate::ids::NodeName;
use crate::plan::draft::Draft;
use crate::plan::steps::held;
use crate::plan::types::*;

/// What is written only in part now, and whose end the rest waits for.
pub(super) fn say(input: &PlanInput, changes: &[Change<'_>], stuck: &Stuck<'_>, draft: &mut Draft) {
    for staged in &input.desired.staged {
        let more = if staged.waits.len() > 1 { format!(" and {} more", staged.waits.len() - 1) } else { String::new() };
        let carried = staged.carried.first().map(|node| taint_goes(node, draft));
        let first = staged.waits.first().map(|name| WaitingOn::Gang { name: format!("{name}{more}") });
        let gap = || input.observed.cluster.workloads.gap().cloned().map(WaitingOn::Unread);
        let nobody = || WaitingOn::Person("it is not known whom that waits for".into());
        let user = || judge::users(input, &staged.key).into_iter().next().map(|name| WaitingOn::Gang { name });
        let led_to = || named::still_led_to(input, changes, stuck, &staged.key);
        let waits = carried.or(first).or_else(gap).or_else(led_to).or_else(user).unwrap_or_else(nobody);
        let thing = thing_of(input, &staged.key);
        draft.held.push(held(&thing, staged.wanted.clone(), Reason::Wanted, waits));
    }
}

/// A node first has to lose a taint that no work is to tolerate any more.
fn taint_goes(node: &NodeName, draft: &Draft) -> WaitingOn {
    let takes_off = |step: &&Step| match &step.action {
        Action::Cluster(ClusterAction::Dress { node: dressed, remove_taints, .. }) => {
            dressed == node && !remove_taints.is_empty()
        }
        _ => false,
    };
    let step = draft.courses.iter().flat_map(|course| &course.steps).find(takes_off);
    step.map_or_else(
        || {
            let text = format!(
                "{node} still carries that taint, and this plan does not take it off: until it is gone work tolerates it, \
                 or none could be placed there. If somebody else put it on, write it into the pool, or take it off \
                 (kubectl taint node {node} <key>-)"
            );
            WaitingOn::Person(text)
        },
        |step| WaitingOn::Step(step.id.clone()),
    )
}
