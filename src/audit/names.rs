//! Objects that rest on others: what they name is there as it is wanted, or is written first, and queues preempt as the
//! classes of their tiers do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Found;
use super::case::Case;
use super::quotas;
use crate::effect::{Action, ClusterAction, Object};
use crate::observed::{ObjectKey, ObjectKind, ObjectSeen};
use crate::plan::Step;

const NAMED: &str = "what an object names is there as wanted, or is written first";
const AGREE: &str = "pods and workloads of a tier preempt alike";

/// Whoever names something that is another's, or is not there, rests on nothing: work is let in on strange nodes, or not
/// at all. What it named before it may go on naming, as long as it gives no more of it.
pub fn named_first(case: &Case<'_>, found: &mut Found) {
    let seen = case.seen().cluster.objects.seen();
    let writes = writes(case);
    for (at, object) in applied(case) {
        let there = seen.get(&object.key);
        let known = there.map(|there| named(&object.key, &there.body)).unwrap_or_default();
        let grows = quotas::grown(there.map(|there| &there.body), &object.body);
        // What is deleted to be made again is gone from there on.
        let is_delete =
            |step: &Step| matches!(&step.action, Action::Cluster(ClusterAction::Delete(key)) if *key == object.key);
        let begins = case.each().find(|(_, step)| is_delete(step)).map_or(at, |(delete, _)| delete);
        for key in named(&object.key, &object.body) {
            let gives_more =
                key.kind == ObjectKind::ResourceFlavor && grows.iter().any(|one| *one.as_str() == *key.name);
            if known.contains(&key) && !gives_more {
                continue;
            }
            // Kueue knows a cohort as soon as somebody names it.
            let is_first = |write: &usize| key.kind == ObjectKind::Cohort || case.dag.is_before(*write, begins);
            if !writes.get(&key).is_some_and(|(write, _)| is_first(write)) && !is_there(case, &key) {
                found.step(
                    NAMED,
                    &case.steps[begins].id,
                    format!("{} names {key}, which is not as wanted", object.key),
                );
            }
        }
    }
}

fn applied<'a>(case: &Case<'a>) -> impl Iterator<Item = (usize, &'a Object)> + use<'a> {
    case.each().filter_map(|(at, step)| match &step.action {
        Action::Cluster(ClusterAction::Apply(object)) => Some((at, object)),
        _ => None,
    })
}

fn writes<'a>(case: &Case<'a>) -> BTreeMap<&'a ObjectKey, (usize, &'a Object)> {
    applied(case).map(|(at, object)| (&object.key, (at, object))).collect()
}

fn wanted<'a>(case: &Case<'a>, key: &ObjectKey) -> Option<&'a Object> {
    case.input.desired.objects.iter().find(|one| one.key == *key)
}

fn named(key: &ObjectKey, body: &Value) -> BTreeSet<ObjectKey> {
    let spec = &body["spec"];
    let mut all = BTreeSet::new();
    let mut add = |kind: ObjectKind, name: &Value| {
        all.extend(name.as_str().filter(|name| !name.is_empty()).map(|name| ObjectKey::cluster(kind, name)));
    };
    match key.kind {
        ObjectKind::ResourceFlavor => add(ObjectKind::Topology, &spec["topologyName"]),
        ObjectKind::LocalQueue => add(ObjectKind::ClusterQueue, &spec["clusterQueue"]),
        ObjectKind::ValidatingAdmissionPolicyBinding => add(ObjectKind::ValidatingAdmissionPolicy, &spec["policyName"]),
        ObjectKind::MutatingAdmissionPolicyBinding => add(ObjectKind::MutatingAdmissionPolicy, &spec["policyName"]),
        ObjectKind::ClusterQueue | ObjectKind::Cohort => {
            add(ObjectKind::Cohort, &spec["cohortName"]);
            add(ObjectKind::Cohort, &spec["parentName"]);
            for group in spec["resourceGroups"].as_array().into_iter().flatten() {
                for flavor in group["flavors"].as_array().into_iter().flatten() {
                    add(ObjectKind::ResourceFlavor, &flavor["name"]);
                }
            }
        }
        _ => {}
    }
    all
}

/// Whether something is there, ours or as we want it, and serves whoever names it. What no document wants is whoever's.
fn is_there(case: &Case<'_>, key: &ObjectKey) -> bool {
    let there = case.seen().cluster.objects.seen().get(key).filter(|there| !there.deleting);
    let Some(wanted) = wanted(case, key) else { return there.is_some() || key.kind == ObjectKind::Cohort };
    let serves = |there: &ObjectSeen| {
        let at = |field: &str| there.body["spec"][field] == wanted.body["spec"][field];
        match key.kind {
            ObjectKind::ResourceFlavor => at("nodeLabels") && at("topologyName"),
            ObjectKind::Topology => at("levels"),
            ObjectKind::Cohort => at("parentName"),
            _ => true,
        }
    };
    there.is_some_and(|there| {
        serves(there) && (there.written.is_some() || super::accounts::contains(&there.body, &wanted.body))
    })
}

/// A queue that preempts in another way than before does so behind the classes of its tiers, or with those that do
/// already.
pub fn preempt_alike(case: &Case<'_>, found: &mut Found) {
    let seen = case.seen().cluster.objects.seen();
    let writes = writes(case);
    let within = |body: &Value| body["spec"]["preemption"]["withinClusterQueue"].clone();
    let never = |body: &Value| body["preemptionPolicy"].as_str() == Some("Never");
    for (at, object) in applied(case).filter(|(_, object)| object.key.kind == ObjectKind::ClusterQueue) {
        if seen.get(&object.key).is_none_or(|there| within(&there.body) == within(&object.body)) {
            continue;
        }
        let quotas = case.standing().quotas.values().filter(|quota| *quota.cluster_queue == *object.key.name);
        for tier in quotas.flat_map(|quota| &quota.tiers) {
            let key = ObjectKey::cluster(ObjectKind::PriorityClass, tier.as_str());
            let Some(class) = wanted(case, &key) else { continue };
            let is_first = writes.get(&key).is_some_and(|(write, _)| case.dag.is_before(*write, at));
            let is_so = seen.get(&key).is_some_and(|there| never(&there.body) == never(&class.body));
            if !is_first && !is_so {
                let what = format!("{} would preempt as {tier} is to, and its pods do not", object.key);
                found.step(AGREE, &case.steps[at].id, what);
            }
        }
    }
}
