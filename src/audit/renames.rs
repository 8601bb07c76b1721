//! What Kueue admitted looks for its flavor's labels on the nodes: they stay there while it does.

use super::Found;
use super::case::Case;
use crate::effect::{Action, ClusterAction, Fact};
use crate::ids::NodeName;
use crate::observed::{ObjectKey, ObjectKind, WorkloadSeen};

const STAYS: &str = "a node keeps the labels that work on it was admitted by";

/// A pod that is made again would find no node: its gang holds its quota, and waits for ever.
pub fn admitted_labels_stay(case: &Case<'_>, found: &mut Found) {
    let running =
        case.seen().cluster.workloads.seen().iter().filter(|(_, one)| one.reserved.is_some() && !one.finished);
    let running: Vec<_> = running.collect();
    for (_, step) in case.each() {
        let Action::Cluster(ClusterAction::Dress { node, labels, .. }) = &step.action else { continue };
        // Where it is empty first, nothing of that work is on it any more.
        if step.requires.contains(&Fact::Empty(node.clone())) {
            continue;
        }
        let Some(seen) = case.node(node) else { continue };
        let changes = |key: &str, value: &str| {
            let is_carried = seen.labels.get(key).is_some_and(|is| is == value);
            is_carried && labels.get(key).is_some_and(|new| new.as_deref() != Some(value))
        };
        for (uid, one) in &running {
            let mut pods = case.seen().cluster.pods.seen().iter();
            let is_on = one.nodes.contains_key(node)
                || pods.any(|pod| pod.workload.as_ref() == Some(*uid) && pod.node.as_ref() == Some(node));
            if is_on && let Some((key, value)) = looked_for(case, one).find(|(key, value)| changes(key, value)) {
                found.step(STAYS, &step.id, lost(node, one, key, value));
            }
        }
    }
}

fn lost(node: &NodeName, one: &WorkloadSeen, key: &str, value: &str) -> String {
    format!("{node} loses {key}={value}, which {} looks for", one.name)
}

/// The labels of the flavors that a workload was admitted with.
fn looked_for<'a>(case: &Case<'a>, one: &'a WorkloadSeen) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    let objects = case.seen().cluster.objects.seen();
    let flavors = one
        .flavors
        .values()
        .filter_map(|flavor| objects.get(&ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str())));
    let labels = flavors.filter_map(|flavor| flavor.body["spec"]["nodeLabels"].as_object()).flatten();
    labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}
