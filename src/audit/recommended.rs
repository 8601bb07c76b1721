//! Nodes that are left because the cloud recommends it: it has to have said so, and nothing that has just come is left for it.

use jiff::SignedDuration;

use super::Found;
use super::case::Case;
use crate::effect::marks::{CORDON, Mark};
use crate::effect::{Action, CloudAction, ClusterAction};
use crate::ids::NodeName;
use crate::plan::{Reason, Urgency};

const RECOMMENDED: &str = "a node is left for a recommendation only where there is one, and not at once";

/// The machines of a place that is about to be taken are all told to move, and so is what comes after them: so long each
/// stays, lest a pool does nothing but move.
const STAYS: SignedDuration = SignedDuration::from_hours(2);

/// What was begun is finished: a queue forgets what it said, and the mark on the node does not.
pub fn told_and_settled(case: &Case<'_>, found: &mut Found) {
    for (_, step) in case.each().filter(|(at, _)| matches!(case.reason(*at), Reason::Recommended { .. })) {
        let node = match &step.action {
            Action::Cluster(ClusterAction::Cordon { node, .. }) => Some(node),
            Action::Cloud(CloudAction::Terminate { instance, .. }) => case.node_of(instance),
            _ => None,
        };
        if step.urgency != Urgency::Chosen {
            found.step(RECOMMENDED, &step.id, "nothing is taken away at an instant, and no limit gives way to it");
        }
        let Some(node) = node.filter(|node| !is_begun(case, node)) else { continue };
        let instance = case.node(node).and_then(|node| node.instance.as_ref());
        if !instance.is_some_and(|id| case.seen().cloud.recommended.contains_key(id)) {
            found.step(RECOMMENDED, &step.id, format!("nobody recommends to move {node}"));
        }
        let launched = instance.and_then(|id| case.instance(id)).map(|seen| seen.launched);
        if launched.is_none_or(|launched| case.now().duration_since(launched) < STAYS) {
            found.step(RECOMMENDED, &step.id, format!("{node} has just come"));
        }
    }
}

fn is_begun(case: &Case<'_>, node: &NodeName) -> bool {
    let mark = case.node(node).and_then(|node| node.annotation(CORDON)).map(Mark::parse);
    mark.is_some_and(|mark| mark.why == "move")
}
