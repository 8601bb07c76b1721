//! What a lowered quota means for the work that runs in it. Kueue evicts nobody for that: what is held beyond the new
//! guarantee counts as borrowed, and may be taken back by whoever in the cohort asks for its own.

use std::collections::BTreeSet;

use super::fields::amount;
use super::judge::Change;
use crate::ids::ResourceName;
use crate::observed::{ObjectKind, WorkloadSeen};
use crate::plan::types::PlanInput;
use crate::queue::parse::quotas;

/// Workloads that are named before the rest is counted.
const NAMES: usize = 3;

/// What a reader should know of a queue that is guaranteed less than its work holds; none where it holds no more.
pub fn borrowed(input: &PlanInput, change: &Change<'_>) -> Option<String> {
    let key = &change.wanted.key;
    if key.kind != ObjectKind::ClusterQueue {
        return None;
    }
    let (before, after) = (quotas(&change.seen?.body), quotas(&change.wanted.body));
    let runs = |workload: &&WorkloadSeen| {
        *workload.queue.as_str() == *key.name && workload.reserved.is_some() && !workload.finished
    };
    let running: Vec<&WorkloadSeen> = input.observed.cluster.workloads.seen().values().filter(runs).collect();
    let mut told = Vec::new();
    let mut who: BTreeSet<String> = BTreeSet::new();
    for pair in change.shift.lowers.iter().filter(|(_, resource)| is_gpu(resource)) {
        let (flavor, resource) = pair;
        let on_it = || running.iter().filter(|workload| workload.flavors.get(resource) == Some(flavor));
        let held: i64 = on_it().filter_map(|workload| workload.requests.get(resource)).sum();
        let beyond = |nominal: Option<&crate::queue::Quota>| (held - nominal.map_or(0, |quota| quota.nominal)).max(0);
        let (was, is) = (beyond(before.get(pair)), beyond(after.get(pair)));
        if is > was {
            told.push(format!("{is} of the {} that it holds on {flavor}", amount(resource, held)));
            who.extend(on_it().map(|workload| workload.name.to_string()));
        }
    }
    if told.is_empty() {
        return None;
    }
    let (names, more) =
        (who.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", "), who.len().saturating_sub(NAMES));
    let names = if more > 0 { format!("{names} and {more} more") } else { names };
    let told = told.join(", ");
    let key = key.words();
    // Whoever is in no cohort borrows from nobody.
    Some(match change.wanted.body["spec"]["cohortName"].is_string() {
        true => format!(
            "{key}: {told} become borrowed. Nobody is evicted by that alone; {names} may be when others of its cohort \
             ask for their own"
        ),
        false => format!(
            "{key}: {told} are more than its quota then. Nobody is evicted by that alone: {names} may run to the end, \
             and nothing starts until there is room again"
        ),
    })
}

fn is_gpu(resource: &ResourceName) -> bool {
    resource.as_str().starts_with("nvidia.com/")
}
