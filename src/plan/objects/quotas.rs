//! What a change of quotas does: what is lowered and raised, in which order, and whom Kueue will evict.
//!
//! Between two writes no GPU may be promised twice, so what lowers a quota goes before what raises the same one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::amount;
use crate::effect::marks::POOL;
use crate::fleet::target::{PoolTarget, Purpose};
use crate::ids::{FlavorName, PoolName, ResourceName, WorkloadUid};
use crate::observed::{ObjectKey, ObjectKind};
use crate::plan::types::PlanInput;
use crate::queue::mode::mode;
use crate::queue::parse::{Parts, parse, quotas, requeued};
use crate::queue::transform::transformations;
use crate::queue::{QueueState, predict_evictions};

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

/// The flavors of which another amount is given, or of which more or less may be borrowed or lent.
pub fn moved(before: &Value, after: &Value) -> BTreeSet<FlavorName> {
    let (before, after) = (quotas(before), quotas(after));
    let moved = before.keys().chain(after.keys()).filter(|pair| before.get(*pair) != after.get(*pair));
    moved.map(|(flavor, _)| flavor.clone()).collect()
}

/// The flavors of which nothing is given any more of something that was given.
pub fn lost(before: &Value, after: &Value) -> BTreeSet<FlavorName> {
    let after = quotas(after);
    let gone = quotas(before).into_iter().filter(|(pair, quota)| {
        let left = after.get(pair).map_or(0, |quota| quota.nominal);
        quota.nominal > 0 && left == 0 && after.keys().any(|(flavor, _)| *flavor == pair.0)
    });
    gone.map(|((flavor, _), _)| flavor).collect()
}

/// What a change leaves promised beyond what the pool's nodes hold, where it is more than now; each with the objects
/// that no document names and that have a part in it.
pub fn overbooked(input: &PlanInput, changes: &[(&ObjectKey, Option<&Value>)]) -> BTreeMap<Pair, String> {
    let seen = input.observed.cluster.objects.seen();
    let sum = |bodies: &BTreeMap<&ObjectKey, &Value>| {
        let mut sums: BTreeMap<Pair, i64> = BTreeMap::new();
        for (pair, quota) in bodies.iter().filter(|(key, _)| gives_quota(key)).flat_map(|(_, body)| quotas(body)) {
            *sums.entry(pair).or_default() += quota.nominal;
        }
        sums
    };
    let before = sum(&overlaid(input, &[]));
    let after = sum(&overlaid(input, changes));
    let wanted: BTreeMap<&ObjectKey, &Value> =
        input.desired.objects.iter().map(|object| (&object.key, &object.body)).collect();
    let handed = input.handed_over();
    let over = after.into_iter().filter_map(|(pair, promised)| {
        let holds = holds(input, &handed, &wanted, &pair)?;
        if promised <= holds.max(before.get(&pair).copied().unwrap_or(0)) {
            return None;
        }
        let others = seen.iter().filter(|(key, there)| {
            gives_quota(key)
                && !wanted.contains_key(*key)
                && quotas(&there.body).get(&pair).is_some_and(|q| q.nominal > 0)
        });
        let others: Vec<String> = others.map(|(key, _)| key.words()).collect();
        let others = if others.is_empty() { String::new() } else { format!(", some of it to {}", others.join(", ")) };
        let (flavor, resource) = &pair;
        let promised = amount(resource, promised);
        let text = format!("{promised} of {flavor} would be promised{others}, and its nodes hold {holds}");
        Some((pair, text))
    });
    over.collect()
}

/// The pool whose nodes a flavor stands for.
pub fn pool_of(input: &PlanInput, flavor: &FlavorName) -> Option<PoolName> {
    let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str());
    let wanted = input.desired.objects.iter().find(|object| object.key == key).map(|object| &object.body);
    let body = wanted.or_else(|| input.observed.cluster.objects.seen().get(&key).map(|seen| &seen.body))?;
    body["spec"]["nodeLabels"][POOL].as_str().map(PoolName::from)
}

/// What the nodes of a flavor hold of a resource beside the spares, in the hands that they are in, where that can be
/// said.
fn holds(
    input: &PlanInput,
    handed: &BTreeMap<PoolName, PoolTarget>,
    wanted: &BTreeMap<&ObjectKey, &Value>,
    (flavor, resource): &Pair,
) -> Option<i64> {
    let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str());
    let body =
        wanted.get(&key).copied().or_else(|| input.observed.cluster.objects.seen().get(&key).map(|seen| &seen.body))?;
    let pool = body["spec"]["nodeLabels"][POOL].as_str()?;
    let layouts = &input.desired.pools.get(pool)?.layouts;
    let parts = handed.get(pool)?.parts.iter().filter(|part| part.purpose != Purpose::Spare);
    let is_gpu = resource.as_str().starts_with("nvidia.com/");
    if !is_gpu && !layouts.values().any(|layout| layout.allocatable.contains_key(resource)) {
        return None;
    }
    let each = |layout| layouts.get(layout).and_then(|layout| layout.allocatable.get(resource)).copied().unwrap_or(0);
    Some(parts.map(|part| i64::from(part.nodes) * each(&part.layout)).sum())
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
    let before = state(input, &[]);
    let known: BTreeSet<WorkloadUid> = predict_evictions(&before).into_iter().map(|(uid, _)| uid).collect();
    let moves_nodes = |key: &ObjectKey| matches!(key.kind, ObjectKind::Topology | ObjectKind::ResourceFlavor);
    let state = match changes.iter().any(|(key, _)| moves_nodes(key)) {
        true => state(input, changes),
        false => requeued(before, &overlaid(input, changes)),
    };
    let queue = |uid: &WorkloadUid| state.workloads.get(uid).map(|workload| workload.queue.to_string());
    let told = predict_evictions(&state).into_iter().filter(|(uid, _)| !known.contains(uid));
    let mut told: Vec<(WorkloadUid, Option<String>)> =
        told.map(|(uid, by)| (uid, by.and_then(|(by, _)| queue(&by)))).collect();
    told.sort();
    told.dedup_by(|one, other| one.0 == other.0);
    told
}

fn state(input: &PlanInput, changes: &[(&ObjectKey, Option<&Value>)]) -> QueueState {
    let cluster = &input.observed.cluster;
    parse(&Parts {
        mode: mode(cluster.others.kueue.seen().as_ref()),
        counts: transformations(cluster.others.kueue.seen().as_ref()),
        now: input.now,
        objects: overlaid(input, changes),
        workloads: cluster.workloads.seen(),
        nodes: cluster.nodes.seen(),
        pods: cluster.pods.seen(),
    })
}

/// What is there once these are written, or deleted.
pub fn overlaid<'a>(
    input: &'a PlanInput,
    changes: &[(&'a ObjectKey, Option<&'a Value>)],
) -> BTreeMap<&'a ObjectKey, &'a Value> {
    let seen = input.observed.cluster.objects.seen();
    let mut objects: BTreeMap<&ObjectKey, &Value> = seen.iter().map(|(key, seen)| (key, &seen.body)).collect();
    for (key, body) in changes {
        match body {
            Some(body) => objects.insert(key, body),
            None => objects.remove(key),
        };
    }
    objects
}
