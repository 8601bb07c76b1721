//! What is destroyed, booted or cut is empty when it happens, and nothing can come.

use jiff::SignedDuration;

use super::Found;
use super::case::Case;
use crate::effect::{Action, CloudAction, ClusterAction, Fact, Subject};
use crate::ids::NodeName;
use crate::observed::{InstanceState, PodSeen};
use crate::plan::{Reason, Step};

/// A kubelet that starts again, or a control plane that was away, is back within this; and pods were told to leave by
/// Kubernetes itself after half of it.
const SILENT_FOR: SignedDuration = SignedDuration::from_mins(10);

const LAW: &str = "a node is drained before it is terminated, booted or cut";

/// Before each Terminate, Reboot and Cut: our cordon, a re-list that found the node empty, and somebody who sent the
/// pods away. Of a silent machine that is ended it is enough that nobody is left who has time to end. A declared deadline that has passed stands for the last two.
pub fn empty_before_it_goes(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let node = match &step.action {
            Action::Cloud(CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. }) => {
                let state = case.instance(instance).map(|seen| &seen.state);
                if matches!(state, Some(InstanceState::ShuttingDown | InstanceState::Terminated)) {
                    continue;
                }
                match case.node_of(instance) {
                    Some(node) => node,
                    None if case.seen().cluster.nodes.whole().is_some() => {
                        if !step.requires.contains(&Fact::Unjoined(instance.clone())) {
                            let what = format!("nobody looks again whether {instance} has a node");
                            found.step(LAW, &step.id, what);
                        }
                        continue;
                    }
                    None => {
                        found.step(LAW, &step.id, format!("the nodes were not read, and {instance} may have one"));
                        continue;
                    }
                }
            }
            Action::Cluster(ClusterAction::Cut { node, .. }) => node,
            _ => continue,
        };
        judge(case, at, step, node, found);
    }
}

fn judge(case: &Case<'_>, at: usize, step: &Step, node: &NodeName, found: &mut Found) {
    let subject = Subject::Node(node.clone());
    if !case.is_cordoned(at, node) {
        found.step(LAW, &step.id, format!("{node} is not cordoned before it"));
    }
    for uncordon in lifted(case, &subject) {
        if !case.dag.is_before(at, uncordon) {
            let id = &case.steps[uncordon].id;
            found.step(LAW, &step.id, format!("{id} lifts the cordon of {node}, and does not come after it"));
        }
    }
    // A tide that gives a node up evicts what has not left, and ends nobody's machine under him.
    if case.deadline_passed(at, node) && *case.reason(at) != Reason::Resized {
        return;
    }
    let may_be_given_up = matches!(step.action, Action::Cloud(CloudAction::Terminate { .. })) && is_silent(case, node);
    let looks = |fact: &Fact| match fact {
        Fact::Empty(empty) => empty == node,
        Fact::GivenUp(silent) => silent == node && may_be_given_up,
        _ => false,
    };
    if !case.assured(at, &subject, looks) {
        found.step(LAW, &step.id, format!("nobody looks whether {node} is empty"));
    }
    let stays = |pod: &&PodSeen| !case.pods.is_leaving(pod) && case.dag.before(at, case.pods.senders(pod)).is_empty();
    if let Some(pod) = case.pods.on(node).find(stays) {
        found.step(LAW, &step.id, format!("{} is on {node}, and no step before it sends it away", pod.name));
    }
}

fn lifted(case: &Case<'_>, subject: &Subject) -> Vec<usize> {
    let is = |at: &usize| matches!(case.steps[*at].action, Action::Cluster(ClusterAction::Uncordon { .. }));
    case.on(subject).iter().copied().filter(is).collect()
}

/// Nobody there has answered for so long that pods which were told to end, and had their time, will not be seen gone.
/// They go with a machine that is ended; one that is only booted or cut keeps what is on it.
fn is_silent(case: &Case<'_>, node: &NodeName) -> bool {
    let since = case.node(node).filter(|seen| !seen.ready).map(|seen| seen.unready_since.unwrap_or(seen.created));
    since.is_some_and(|since| case.now().duration_since(since) >= SILENT_FOR)
}
