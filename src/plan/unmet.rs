//! Work that waits although its team's guarantee is not used up: who has the GPUs, and which nodes are missing; and work
//! that asks for what its queue does not cover, which Kueue never lets in.
//!
//! A guarantee is quota, and quota alone starts nothing: nodes may be out of service, pods may run beside the queues, and
//! what others borrowed comes back only as they end. Nothing is done about it here; it is said, in plans and in the status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::draft::Draft;
use super::harm::Harm;
use super::objects::fields::amount;
use super::objects::pool_of;
use super::types::PlanInput;
use crate::compile::holds::is_accelerator;
use crate::effect::Thing;
use crate::effect::marks::{CORDON, Mark, POOL};
use crate::fleet::standing::QuotaSpec;
use crate::ids::{FlavorName, NamespacedName, NodeName, PoolName, QuotaName, ResourceName};
use crate::observed::{NodeSeen, ObjectKey, ObjectKind, WorkloadSeen};
use crate::queue::parse::quotas;
use crate::queue::transform::{Transformations, counted, transformations};

/// What was just submitted is admitted in moments: only what waits longer is told.
const PATIENCE: SignedDuration = SignedDuration::from_mins(2);
/// Names that are told before the rest is counted.
const NAMES: usize = 4;

type Amounts = BTreeMap<(FlavorName, ResourceName), i64>;

/// A team whose work waits for what it is guaranteed.
#[derive(Clone, PartialEq, Debug)]
pub struct Unmet {
    pub quota: QuotaName,
    /// One sentence.
    pub why: String,
}

pub fn say(input: &PlanInput, harm: &Harm<'_>, draft: &mut Draft) {
    for Unmet { quota, why } in unmet(input, harm) {
        draft.note(Thing::Quota(quota), why);
    }
}

/// The first work of each quota that waits for what nobody shares out, and the first that waits within its guarantee,
/// each with what is in its way.
pub fn unmet(input: &PlanInput, harm: &Harm<'_>) -> Vec<Unmet> {
    let cluster = &input.observed.cluster;
    // What was not seen cannot be told to be missing.
    if cluster.nodes.gap().or(cluster.workloads.gap()).or(cluster.gap_of(ObjectKind::ClusterQueue)).is_some() {
        return Vec::new();
    }
    let waits = |one: &&WorkloadSeen| {
        let is_late = input.now.duration_since(one.created) >= PATIENCE;
        one.active && one.reserved.is_none() && !one.finished && is_late
    };
    let mut waiting: BTreeMap<&str, Vec<&WorkloadSeen>> = BTreeMap::new();
    for one in cluster.workloads.seen().values().filter(waits) {
        waiting.entry(one.queue.as_str()).or_default().push(one);
    }
    let counts = transformations(cluster.others.kueue.seen().as_ref());
    let quotas = input.target.standing.quotas.iter().filter(|(_, quota)| !quota.retire);
    let mut found = Vec::new();
    for (name, quota) in quotas {
        let queue = quota.cluster_queue.as_str();
        let Some(mut waiting) = waiting.remove(queue) else { continue };
        waiting.sort_by_key(|one| (std::cmp::Reverse(one.priority), one.created, &one.name));
        let uncovered = uncovered(input, &counts, queue, &waiting);
        let stuck: BTreeSet<&NamespacedName> = uncovered.iter().map(|(one, _)| &one.name).collect();
        waiting.retain(|one| !stuck.contains(&one.name));
        found.extend(never_let_in(input, name, quota, &uncovered));
        found.extend(of_queue(input, harm, name, queue, waiting));
    }
    found
}

/// Work that asks for something which its queue does not cover, nor will by what is wanted of it, each with the first
/// such resource.
fn uncovered<'a>(
    input: &PlanInput,
    counts: &Transformations,
    queue: &str,
    waiting: &[&'a WorkloadSeen],
) -> Vec<(&'a WorkloadSeen, ResourceName)> {
    let key = ObjectKey::cluster(ObjectKind::ClusterQueue, queue);
    let seen = input.observed.cluster.objects.seen().get(&key).map(|seen| &seen.body);
    let wanted = input.desired.objects.iter().find(|object| object.key == key).map(|object| &object.body);
    let (Some(seen), Some(wanted)) = (seen, wanted) else { return Vec::new() };
    let covered: BTreeSet<ResourceName> =
        [seen, wanted].into_iter().flat_map(quotas).map(|((_, resource), _)| resource).collect();
    let lacks = |one: &&'a WorkloadSeen| {
        let asked = counted(counts, &one.requests);
        let missing = asked.into_iter().find(|(resource, amount)| *amount > 0 && !covered.contains(resource))?;
        Some((*one, missing.0))
    };
    waiting.iter().filter_map(lacks).collect()
}

/// The same in a sentence, with Kueue's own words.
fn never_let_in(
    input: &PlanInput,
    name: &QuotaName,
    quota: &QuotaSpec,
    uncovered: &[(&WorkloadSeen, ResourceName)],
) -> Option<Unmet> {
    let (first, resource) = uncovered.first()?;
    let is_here = |node: &NodeSeen| {
        let label = node.labels.get(POOL);
        let shows = node.allocatable.get(resource).is_some_and(|amount| *amount > 0);
        shows && label.is_some_and(|label| quota.pools.iter().any(|pool| pool.as_str() == label))
    };
    let pools: Vec<String> = quota.pools.iter().map(ToString::to_string).collect();
    let is_of_none = pools.is_empty();
    let pools = listed(pools);
    let why = match input.observed.cluster.nodes.seen().values().any(is_here) {
        _ if is_of_none => "the quota has a share of no pool now".into(),
        true => format!("nodes of {pools} show it, and quotas do not share them out by it"),
        false => format!("no node of {pools} shows it"),
    };
    let more = uncovered.len() - 1;
    let more = match more {
        0 => String::new(),
        1 => "; 1 more waits so".into(),
        more => format!("; {more} more wait so"),
    };
    let why =
        format!("{} is not let in (Kueue: resource {resource} unavailable in ClusterQueue): {why}{more}", first.name);
    Some(Unmet { quota: name.clone(), why })
}

fn of_queue(
    input: &PlanInput,
    harm: &Harm<'_>,
    name: &QuotaName,
    queue: &str,
    waiting: Vec<&WorkloadSeen>,
) -> Option<Unmet> {
    let all = || input.observed.cluster.workloads.seen().values().filter(|one| one.queue.as_str() == queue);
    let mut free = given(input, queue);
    for (pair, amount) in used(all()) {
        free.entry(pair).and_modify(|left| *left -= amount);
    }
    let (workload, flavor) = waiting.into_iter().find_map(|one| Some((one, within(&free, one)?)))?;
    let pool = pool_of(input, &flavor)?;
    let causes = causes(input, harm, queue, &pool, &flavor);
    let causes = match (causes.is_empty(), &workload.required_level) {
        (false, _) => causes.join("; "),
        (true, Some(level)) => format!("no domain of {level} has room for all of its pods"),
        (true, None) => return None,
    };
    let (resource, asks) = asked(workload).next()?;
    let left = free.get(&(flavor, resource.clone())).copied().unwrap_or(0);
    let (asks, left) = (amount(resource, asks), amount(resource, left));
    let why = format!("{} waits for {asks} of {pool}, and {left} of its guarantee are free: {causes}", workload.name);
    Some(Unmet { quota: name.clone(), why })
}

fn asked(workload: &WorkloadSeen) -> impl Iterator<Item = (&ResourceName, i64)> {
    let all = workload.requests.iter().map(|(resource, amount)| (resource, *amount));
    all.filter(|(resource, amount)| is_accelerator(resource) && *amount > 0)
}

/// What a queue itself is given, as it is written.
fn given(input: &PlanInput, queue: &str) -> Amounts {
    let key = ObjectKey::cluster(ObjectKind::ClusterQueue, queue);
    let seen = input.observed.cluster.objects.seen().get(&key);
    let quotas = seen.map(|seen| quotas(&seen.body)).unwrap_or_default();
    quotas.into_iter().map(|(pair, quota)| (pair, quota.nominal)).collect()
}

fn used<'a>(workloads: impl Iterator<Item = &'a WorkloadSeen>) -> Amounts {
    let mut sums = Amounts::new();
    for one in workloads.filter(|one| one.reserved.is_some() && !one.finished) {
        for (resource, flavor) in &one.flavors {
            let amount = one.requests.get(resource).copied().unwrap_or(0);
            *sums.entry((flavor.clone(), resource.clone())).or_default() += amount;
        }
    }
    sums
}

/// The flavor of which a workload could have all that it asks for, by what is free of the guarantee.
fn within(free: &Amounts, workload: &WorkloadSeen) -> Option<FlavorName> {
    asked(workload).next()?;
    let flavors = free.keys().map(|(flavor, _)| flavor);
    let fits = |flavor: &&FlavorName| {
        let left = |resource: &ResourceName| free.get(&((*flavor).clone(), resource.clone())).copied().unwrap_or(0);
        asked(workload).all(|(resource, amount)| left(resource) >= amount)
    };
    flavors.into_iter().find(fits).cloned()
}

/// What is in the way in a pool, each in a few words.
fn causes(input: &PlanInput, harm: &Harm<'_>, queue: &str, pool: &PoolName, flavor: &FlavorName) -> Vec<String> {
    let nodes = input.observed.cluster.nodes.seen();
    let of_pool = |node: &NodeSeen| node.labels.get(POOL).is_some_and(|label| label == pool.as_str());
    let here: Vec<(&NodeName, &NodeSeen)> = nodes.iter().filter(|(_, node)| of_pool(node)).collect();
    let wanted = input.target.pools.get(pool).map_or(0, |target| usize::try_from(target.nodes).unwrap_or(0));
    let out: Vec<String> = here.iter().filter_map(|(name, node)| out_of_service(name, node)).collect();
    let missing = wanted.saturating_sub(here.len());
    let mut causes = Vec::new();
    if missing > 0 {
        let are = if missing == 1 { "is" } else { "are" };
        causes.push(format!("{missing} of {wanted} nodes {are} not there"));
    }
    if !out.is_empty() {
        causes.push(format!("out of service: {}", listed(out)));
    }
    let beyond = borrowed(input, queue, flavor);
    if !beyond.is_empty() {
        causes.push(listed(beyond));
    }
    let beside: Vec<String> = here.iter().flat_map(|(name, _)| beside(harm, name)).collect();
    if !beside.is_empty() {
        causes.push(format!("beside the queues run {}", listed(beside)));
    }
    causes
}

fn out_of_service(name: &NodeName, node: &NodeSeen) -> Option<String> {
    let mark = node.annotation(CORDON).map(Mark::parse);
    match mark {
        Some(mark) => Some(format!("{name} ({})", mark.why)),
        None if !node.ready => Some(format!("{name} (not ready)")),
        None if node.unschedulable => Some(format!("{name} (closed by somebody)")),
        None => None,
    }
}

/// Work of other queues on a flavor, where its queue holds more than it is guaranteed.
fn borrowed(input: &PlanInput, queue: &str, flavor: &FlavorName) -> Vec<String> {
    let all = input.observed.cluster.workloads.seen();
    let mut queues: BTreeMap<&str, Vec<&WorkloadSeen>> = BTreeMap::new();
    for one in all.values().filter(|one| one.queue.as_str() != queue && one.reserved.is_some() && !one.finished) {
        if one.flavors.iter().any(|(resource, on)| on == flavor && is_accelerator(resource)) {
            queues.entry(one.queue.as_str()).or_default().push(one);
        }
    }
    let is_over = |other: &str, holders: &[&WorkloadSeen]| {
        let given = given(input, other);
        let of = |pair: &(FlavorName, ResourceName)| given.get(pair).copied().unwrap_or(0);
        let used = used(holders.iter().copied());
        used.iter().any(|(pair, amount)| pair.0 == *flavor && is_accelerator(&pair.1) && *amount > of(pair))
    };
    let whose = |other: &str| {
        let quotas = &input.target.standing.quotas;
        let found = quotas.iter().find(|(_, quota)| quota.cluster_queue == other);
        found.map_or_else(|| format!("ClusterQueue {other}"), |(name, _)| format!("quota/{name}"))
    };
    let words = |other: &str, one: &WorkloadSeen| {
        let held = asked(one).next().map(|(resource, held)| amount(resource, held)).unwrap_or_default();
        format!("{} of {} holds {held}, more than that quota is guaranteed", one.name, whose(other))
    };
    let over = queues.iter().filter(|(other, holders)| is_over(other, holders));
    over.flat_map(|(other, holders)| holders.iter().map(|one| words(other, one))).collect()
}

/// Pods with GPUs on a node that no queue admitted.
fn beside(harm: &Harm<'_>, node: &NodeName) -> Vec<String> {
    let holds = |resource: &ResourceName, amount: i64| is_accelerator(resource) && amount > 0;
    let outside = harm.pods_on(node).iter().filter(|pod| pod.workload.is_none());
    let outside = outside.filter(|pod| pod.requests.iter().any(|(resource, amount)| holds(resource, *amount)));
    outside.map(|pod| pod.name.to_string()).collect()
}

fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}
