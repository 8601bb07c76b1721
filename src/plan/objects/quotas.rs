//! What a change of quotas does: what is lowered and raised, in which order, and whom Kueue will evict.
//!
//! Between two writes no GPU may be promised twice, so what lowers a quota goes before what raises the same one. An
//! object that does both is written twice: first with the smaller of both amounts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::effect::Object;
use crate::ids::{FlavorName, ResourceName, WorkloadUid};
use crate::observed::{ObjectKey, ObjectKind};
use crate::plan::types::PlanInput;
use crate::queue::parse::{Parts, parse, quotas};
use crate::queue::{Mode, QueueState, predict_evictions};

pub type Pair = (FlavorName, ResourceName);

/// What a change does to the amounts that an object gives.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Shift {
    pub lowers: BTreeSet<Pair>,
    pub raises: BTreeSet<Pair>,
    /// No longer listed at all: Kueue forgets what runs on it.
    pub drops: BTreeSet<Pair>,
}

pub fn gives_quota(key: &ObjectKey) -> bool {
    matches!(key.kind, ObjectKind::ClusterQueue | ObjectKind::Cohort)
}

/// From what is there, if anything is, to what is wanted, if anything is.
pub fn shift(seen: Option<&Value>, wanted: Option<&Value>) -> Shift {
    let of = |body: Option<&Value>| body.map(quotas).unwrap_or_default();
    let (before, after) = (of(seen), of(wanted));
    let mut found = Shift::default();
    for pair in before.keys().chain(after.keys()) {
        let amount = |quotas: &BTreeMap<Pair, crate::queue::Quota>| quotas.get(pair).map_or(0, |quota| quota.nominal);
        match amount(&after).cmp(&amount(&before)) {
            std::cmp::Ordering::Less => found.lowers.insert(pair.clone()),
            std::cmp::Ordering::Greater => found.raises.insert(pair.clone()),
            std::cmp::Ordering::Equal => false,
        };
        if !after.contains_key(pair) {
            found.drops.insert(pair.clone());
        }
    }
    found
}

/// What is wanted, with no amount larger than it is now: what can be written before others make room.
pub fn lowered(seen: &Value, wanted: &Object) -> Object {
    let before = quotas(seen);
    let mut body = wanted.body.clone();
    let groups = body.pointer_mut("/spec/resourceGroups").and_then(Value::as_array_mut);
    for flavor in groups.into_iter().flatten().filter_map(|group| group["flavors"].as_array_mut()).flatten() {
        let name = FlavorName::from(flavor["name"].as_str().unwrap_or_default());
        for quota in flavor["resources"].as_array_mut().into_iter().flatten() {
            let resource = ResourceName::from(quota["name"].as_str().unwrap_or_default());
            let most = before.get(&(name.clone(), resource.clone())).map_or(0, |quota| quota.nominal);
            let unit = if resource.as_str() == "cpu" { "m" } else { "" };
            // No more is lent than there is: the server refuses that.
            for field in ["nominalQuota", "lendingLimit"] {
                let now = crate::queue::parse::quantity(&resource, &quota[field]);
                if now.is_some_and(|now| now > most) {
                    quota[field] = Value::String(format!("{most}{unit}"));
                }
            }
        }
    }
    Object::new(wanted.key.clone(), body)
}

/// Workloads that hold what a queue is about to list no longer.
pub fn holding<'a>(input: &'a PlanInput, queue: &str, drops: &BTreeSet<Pair>) -> Vec<&'a WorkloadUid> {
    let all = input.observed.cluster.workloads.seen().iter();
    let holds = all.filter(|(_, workload)| {
        let mut flavors = workload.flavors.iter();
        workload.queue.as_str() == queue
            && workload.reserved.is_some()
            && !workload.finished
            && flavors.any(|(resource, flavor)| drops.contains(&(flavor.clone(), resource.clone())))
    });
    holds.map(|(uid, _)| uid).collect()
}

/// Whom Kueue will tell to go once all of this is written, beside those whom it tells anyhow; each with whose queue it
/// is for.
pub fn evictions(input: &PlanInput, changes: &[(&ObjectKey, Option<&Value>)]) -> Vec<(WorkloadUid, Option<String>)> {
    let state = state(input, changes);
    let known: BTreeSet<WorkloadUid> =
        predict_evictions(&self::state(input, &[])).into_iter().map(|(uid, _)| uid).collect();
    let queue = |uid: &WorkloadUid| state.workloads.get(uid).map(|workload| workload.queue.to_string());
    let told = predict_evictions(&state).into_iter().filter(|(uid, _)| !known.contains(uid));
    let mut told: Vec<(WorkloadUid, Option<String>)> =
        told.map(|(uid, by)| (uid, by.and_then(|(by, _)| queue(&by)))).collect();
    told.sort();
    told.dedup_by(|one, other| one.0 == other.0);
    told
}

/// How Kueue is configured is not in its API: fair sharing is off unless somebody turned it on.
fn state(input: &PlanInput, changes: &[(&ObjectKey, Option<&Value>)]) -> QueueState {
    let cluster = &input.observed.cluster;
    let mut objects: BTreeMap<&ObjectKey, &Value> =
        cluster.objects.seen().iter().map(|(key, seen)| (key, &seen.body)).collect();
    for (key, body) in changes {
        match body {
            Some(body) => objects.insert(key, body),
            None => objects.remove(key),
        };
    }
    parse(&Parts {
        mode: Mode::Classical,
        now: input.now,
        objects,
        workloads: cluster.workloads.seen(),
        nodes: cluster.nodes.seen(),
        pods: cluster.pods.seen(),
    })
}
