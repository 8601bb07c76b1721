//! Objects of the cluster: written as wanted, taken over only where the documents name them, deleted only where they
//! say so.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Found;
use super::case::Case;
use crate::effect::{Action, ClusterAction, Object};
use crate::observed::{ObjectKey, ObjectKind};
use crate::plan::Consent;

const OURS: &str = "only objects that are ours, or that a document names, are written";
const RETIRED: &str = "only what a document retires is deleted, or is made again at once";

/// An Apply writes what is wanted, once. What is there without our mark is taken over only if a document names it.
pub fn objects_are_ours(case: &Case<'_>, found: &mut Found) {
    let wanted: BTreeMap<&ObjectKey, &Object> =
        case.input.desired.objects.iter().map(|object| (&object.key, object)).collect();
    let seen = case.seen().cluster.objects.seen();
    let mut applied: BTreeSet<&ObjectKey> = BTreeSet::new();
    for (_, step) in case.each() {
        let Action::Cluster(action) = &step.action else { continue };
        match action {
            ClusterAction::Apply(object) => {
                let key = &object.key;
                if !applied.insert(key) {
                    found.step(OURS, &step.id, format!("{key} is written twice"));
                }
                match wanted.get(key) {
                    Some(wanted) if *wanted == object => {}
                    Some(_) => found.step(OURS, &step.id, format!("{key} is written in another way than wanted")),
                    None => found.step(OURS, &step.id, format!("{key} is not wanted")),
                }
                let foreign = seen.get(key).filter(|there| there.written.is_none() && there.body != object.body);
                if foreign.is_some() && !is_named(case, key) {
                    found.step(OURS, &step.id, format!("{key} is there, is not ours, and no document names it"));
                }
            }
            ClusterAction::Disown(key)
                if seen.get(key).is_none_or(|there| there.written.is_none()) || wanted.contains_key(key) =>
            {
                found.step(OURS, &step.id, format!("{key} is not ours to let go, or is wanted"));
            }
            _ => {}
        }
    }
}

/// Whether a person chose the name: then what is there under it is meant.
fn is_named(case: &Case<'_>, key: &ObjectKey) -> bool {
    let standing = case.standing();
    let quotas = || standing.quotas.values();
    let in_namespace = |namespace: &str| quotas().any(|quota| quota.namespaces.iter().any(|(n, _)| n == namespace));
    match key.kind {
        ObjectKind::ClusterQueue => quotas().any(|quota| *quota.cluster_queue == *key.name),
        ObjectKind::Namespace => in_namespace(&key.name),
        ObjectKind::LocalQueue => key.namespace.as_deref().is_some_and(in_namespace),
        ObjectKind::Cohort => quotas()
            .filter_map(|quota| quota.cohort.as_ref())
            .any(|path| path.split('/').any(|part| part == &*key.name)),
        ObjectKind::PriorityClass | ObjectKind::WorkloadPriorityClass => standing.tiers.contains_key(&*key.name),
        _ => false,
    }
}

/// And only if it is ours, and is not wanted at the same time; or if the server lets nobody change it, whoever asked for
/// that was asked, and the next thing is to write it.
pub fn only_retired_is_deleted(case: &Case<'_>, found: &mut Found) {
    let retired: BTreeSet<&ObjectKey> = case.input.desired.retired.iter().collect();
    for (at, step) in case.each() {
        let Action::Cluster(ClusterAction::Delete(key)) = &step.action else { continue };
        if is_replaced(case, at, key) {
            if step.consent != Consent::Asked {
                found.step(RETIRED, &step.id, format!("{key} is replaced, and nobody is asked"));
            }
            continue;
        }
        if !retired.contains(key) {
            found.step(RETIRED, &step.id, format!("no document retires {key}"));
        }
        let there = case.seen().cluster.objects.seen().get(key);
        if there.is_none_or(|there| there.written.is_none()) {
            found.step(RETIRED, &step.id, format!("{key} was not seen, or is not ours"));
        }
        if case.input.desired.objects.iter().any(|object| object.key == *key) {
            found.step(RETIRED, &step.id, format!("{key} is wanted"));
        }
    }
}

/// Whether a delete is half of a change that the server refuses: ours, of a kind that may be gone for a moment, and
/// followed by nothing but its own write.
fn is_replaced(case: &Case<'_>, delete: usize, key: &ObjectKey) -> bool {
    let Some(there) = case.seen().cluster.objects.seen().get(key).filter(|there| there.written.is_some()) else {
        return false;
    };
    let written = case.each().find_map(|(at, step)| match &step.action {
        Action::Cluster(ClusterAction::Apply(object)) if object.key == *key => Some((at, &object.body)),
        _ => None,
    });
    written.is_some_and(|(at, body)| {
        let fixed = match key.kind {
            ObjectKind::PriorityClass => {
                // Whoever does not say whom a class preempts gets the server's word.
                let preempts =
                    |body: &Value| body["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority") == "Never";
                there.body["value"] != body["value"] || preempts(&there.body) != preempts(body)
            }
            ObjectKind::LocalQueue => there.body["spec"]["clusterQueue"] != body["spec"]["clusterQueue"],
            _ => false,
        };
        fixed && case.steps[at].after.contains(&case.steps[delete].id)
    })
}
