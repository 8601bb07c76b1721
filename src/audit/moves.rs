//! Queues that go to another cohort, or no longer list what work is on: only when no GPU is given out twice by that.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Found;
use super::case::Case;
use crate::effect::{Action, ClusterAction, Object};
use crate::ids::{FlavorName, ResourceName};
use crate::observed::{ObjectKey, ObjectKind, WorkloadSeen};
use crate::queue::parse::quotas;

const TWICE: &str = "no queue moves while GPUs would be given out twice";
const TOLD: &str = "what comes in stages is told";

type Holdings = BTreeMap<(FlavorName, ResourceName), i64>;

/// Each write is taken for the first one: what else the plan writes may come before or after it.
pub fn nothing_is_given_twice(case: &Case<'_>, found: &mut Found) {
    for (_, step) in case.each() {
        let Action::Cluster(ClusterAction::Apply(object)) = &step.action else { continue };
        let Some(there) = case.seen().cluster.objects.seen().get(&object.key) else { continue };
        let field = match object.key.kind {
            ObjectKind::ClusterQueue => "cohortName",
            ObjectKind::Cohort => "parentName",
            _ => continue,
        };
        if object.key.kind == ObjectKind::ClusterQueue
            && let Some(work) = forgotten(case, object, &there.body)
        {
            found.step(TWICE, &step.id, format!("{} runs on what {} no longer lists", work.name, object.key));
        }
        let above = |body: &Value| body["spec"][field].as_str().unwrap_or_default().to_owned();
        let (from, to) = (above(&there.body), above(&object.body));
        if from == to {
            continue;
        }
        let (stays, goes) = (unbacked(case, object, field, &from), unbacked(case, object, field, &to));
        if let Some(((flavor, resource), _)) =
            goes.iter().find(|(pair, sum)| **sum > stays.get(*pair).copied().unwrap_or(0))
        {
            let what = format!("{resource} of {flavor} is held by work, and would be free for others");
            found.step(TWICE, &step.id, what);
        }
    }
}

/// Work of a queue on a flavor that it is about to list no longer.
fn forgotten<'a>(case: &'a Case<'_>, object: &Object, there: &Value) -> Option<&'a WorkloadSeen> {
    let (before, after) = (quotas(there), quotas(&object.body));
    let all = case.seen().cluster.workloads.seen().values();
    let mut all = all.filter(|one| one.reserved.is_some() && !one.finished && *one.queue.as_str() == *object.key.name);
    all.find(|one| {
        let mut on = one.flavors.iter().map(|(resource, flavor)| (flavor.clone(), resource.clone()));
        on.any(|pair| before.contains_key(&pair) && !after.contains_key(&pair))
    })
}

/// What work holds and no quota of its tree of cohorts stands for, with this object below that cohort.
fn unbacked(case: &Case<'_>, object: &Object, field: &str, above: &str) -> Holdings {
    let seen = case.seen().cluster.objects.seen();
    let new =
        case.input.desired.objects.iter().filter(|one| !seen.contains_key(&one.key)).map(|one| (&one.key, &one.body));
    let mut bodies: BTreeMap<&ObjectKey, Value> = seen.iter().map(|(key, there)| (key, there.body.clone())).collect();
    // Of what is not there yet only its place counts: nobody says when it gets its quota.
    for (key, body) in new.filter(|(key, _)| key.kind == ObjectKind::Cohort) {
        bodies.insert(key, serde_json::json!({"spec": {"parentName": body["spec"]["parentName"]}}));
    }
    let mut its = object.body.clone();
    its["spec"][field] = above.into();
    bodies.insert(&object.key, its);
    let mut left: BTreeMap<String, Holdings> = BTreeMap::new();
    for (key, body) in &bodies {
        let tree = top(&bodies, key);
        for (pair, quota) in quotas(body) {
            *left.entry(tree.clone()).or_default().entry(pair).or_default() += quota.nominal;
        }
    }
    for one in case.seen().cluster.workloads.seen().values().filter(|one| one.reserved.is_some() && !one.finished) {
        let queue = ObjectKey::cluster(ObjectKind::ClusterQueue, one.queue.as_str());
        let tree = top(&bodies, &queue);
        for (resource, flavor) in &one.flavors {
            let held = one.requests.get(resource).copied().unwrap_or(0);
            *left.entry(tree.clone()).or_default().entry((flavor.clone(), resource.clone())).or_default() -= held;
        }
    }
    let mut sums = Holdings::new();
    for (pair, left) in left.into_values().flatten().filter(|(_, left)| *left < 0) {
        *sums.entry(pair).or_default() -= left;
    }
    sums
}

fn top(bodies: &BTreeMap<&ObjectKey, Value>, key: &ObjectKey) -> String {
    let mut at = key.clone();
    // A circle ends somewhere, and that is as good a top as any.
    for _ in 0..bodies.len() {
        let field = if at.kind == ObjectKind::Cohort { "parentName" } else { "cohortName" };
        match bodies.get(&at).and_then(|body| body["spec"][field].as_str()).filter(|name| !name.is_empty()) {
            Some(name) => at = ObjectKey::cluster(ObjectKind::Cohort, name),
            None => break,
        }
    }
    at.to_string()
}

/// A reader of the plan hears of what is not written yet.
pub fn stages_are_told(case: &Case<'_>, found: &mut Found) {
    if !case.input.only.is_empty() || case.input.only_node.is_some() {
        return;
    }
    for staged in &case.input.desired.staged {
        if !case.plan.held.iter().any(|held| held.wanted == staged.wanted) {
            found.plan(TOLD, format!("{} is not as it should be, and nothing held says so", staged.key));
        }
    }
}
