//! What is destroyed, booted or cut is empty when it happens, and nothing can come.

use super::Found;
use super::case::Case;
use crate::effect::{Action, CloudAction, ClusterAction, Fact, Subject};
use crate::ids::NodeName;
use crate::observed::{InstanceState, PodSeen};
use crate::plan::Step;

const LAW: &str = "a node is drained before it is terminated, booted or cut";

/// Before each Terminate, Reboot and Cut: our cordon, a re-list that found the node empty, and somebody who sent the
/// pods away. A declared deadline that has passed stands for the last two.
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
    if case.deadline_passed(at, node) || only_dead_pods(case, node) {
        return;
    }
    if !case.assured(at, &subject, |fact| matches!(fact, Fact::Empty(empty) if empty == node)) {
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

/// The kubelet does not answer, and every pod was told to end and has had its time: nobody will ever see them gone.
fn only_dead_pods(case: &Case<'_>, node: &NodeName) -> bool {
    let over = |pod: &PodSeen| {
        let secs = |since| case.now().duration_since(since).as_secs();
        pod.terminating.is_some_and(|since| secs(since) >= i64::from(pod.grace_secs))
    };
    case.node(node).is_some_and(|seen| !seen.ready) && case.pods.on(node).all(over)
}
