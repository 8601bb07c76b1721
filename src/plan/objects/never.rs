//! Work that could never start again once all that is wanted is done: its queue may then use less than it asks for, or
//! its pool has no room for its pods. That stops nobody, so no disruption tells it; but whoever is stopped later, for
//! whatever reason, does not come back.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::amount;
use super::judge::Change;
use super::quotas::{overlaid, pool_of};
use crate::compile::currency::CURRENCY;
use crate::compile::holds::is_accelerator;
use crate::effect::Thing;
use crate::fleet::standing::LoanSpec;
use crate::fleet::tide::Phase;
use crate::ids::{FlavorName, LayoutName, PoolName, QuotaName, ResourceName};
use crate::observed::{ObjectKind, WorkloadSeen};
use crate::plan::draft::Draft;
use crate::plan::types::PlanInput;
use crate::queue::most::{Most, Never};
use crate::queue::transform::transformations;

/// Workloads of a quota that are named before the rest is counted.
const NAMES: usize = 6;

/// Names it, for all changes of quotas, whatever they wait on.
pub fn say(input: &PlanInput, changes: &[Change<'_>], draft: &mut Draft) {
    let is_queue = |kind: ObjectKind| matches!(kind, ObjectKind::ClusterQueue | ObjectKind::Cohort);
    let lowers = |change: &Change<'_>| is_queue(change.wanted.key.kind) && change.seen.is_some();
    let seen = input.observed.cluster.objects.seen();
    let retires = input.desired.retired.iter().any(|key| is_queue(key.kind) && seen.contains_key(key));
    if !retires && !changes.iter().any(lowers) {
        return;
    }
    let wanted = input.desired.objects.iter().map(|object| (&object.key, Some(&object.body)));
    let after: Vec<_> = wanted.chain(input.desired.retired.iter().map(|key| (key, None))).collect();
    let counts = transformations(input.observed.cluster.others.kueue.seen().as_ref());
    let (before, after) = (Most::of(overlaid(input, &[]), counts.clone()), Most::of(overlaid(input, &after), counts));
    let mut named: BTreeMap<&QuotaName, Vec<String>> = BTreeMap::new();
    for workload in input.observed.cluster.workloads.seen().values().filter(|workload| !workload.finished) {
        let Some(quota) = quota_of(input, workload).filter(|quota| !moves_with_the_hour(input, quota, workload)) else {
            continue;
        };
        let could = workload.reserved.is_some() || before.never(workload, |_| true).is_none();
        let why = after.never(workload, |flavor| has_room(input, flavor, workload)).filter(|_| could);
        named.entry(quota).or_default().extend(why.map(|why| sentence(&after, workload, &why)));
    }
    for (quota, mut lines) in named {
        let more = lines.len().saturating_sub(NAMES);
        lines.truncate(NAMES);
        lines.into_iter().for_each(|line| draft.note(Thing::Quota(quota.clone()), line));
        if more > 0 {
            draft.note(Thing::Quota(quota.clone()), format!("{more} more could never start again either"));
        }
    }
}

fn sentence(most: &Most, workload: &WorkloadSeen, why: &Never) -> String {
    let name = &workload.name;
    let asked = most.asked(workload);
    let asks = |resource: &ResourceName| amount(resource, asked.get(resource).copied().unwrap_or(0));
    let why = match why {
        Never::NoQueue => "its queue is gone then".into(),
        Never::NoFlavor(resource) => format!("it asks for {}, of which its queue has none then", asks(resource)),
        Never::TooMuch { resource, most, .. } if resource.as_str() == CURRENCY => {
            format!("it asks for {}, and its total is {} then", asks(resource), amount(resource, *most.max(&0)))
        }
        Never::TooMuch { resource, most, flavor } => {
            format!("it asks for {}, and its queue may use {} of {flavor} at most then", asks(resource), most.max(&0))
        }
        Never::NoRoom(flavor) => format!("the nodes that {flavor} has then hold no {} pods like its", workload.pods),
    };
    match workload.reserved.is_some() {
        true => format!("{name} runs on, and could never start again once it is stopped: {why}"),
        false => format!("{name} waits, and could never start: {why}"),
    }
}

fn quota_of<'a>(input: &'a PlanInput, workload: &WorkloadSeen) -> Option<&'a QuotaName> {
    let mut quotas = input.target.standing.quotas.iter();
    quotas.find(|(_, quota)| quota.cluster_queue == workload.queue.as_str()).map(|(name, _)| name)
}

/// Whether another hour may bring what this one does not: a tide lends to the quota as much as the work needs, or has
/// just taken from it, or changes the size of a pool.
fn moves_with_the_hour(input: &PlanInput, quota: &QuotaName, workload: &WorkloadSeen) -> bool {
    let standing = &input.target.standing;
    let own: BTreeSet<&PoolName> = standing.quotas.get(quota).into_iter().flat_map(|quota| &quota.pools).collect();
    let low = |tide| input.target.tides.get(tide).is_some_and(|phase| *phase != Phase::High);
    standing.tides.iter().any(|(tide, spec)| {
        let lends = |loan: &&LoanSpec| loan.to == *quota && room(input, &loan.pool, &loan.layout, workload, loan.nodes);
        let takes = |loan: &&LoanSpec| low(tide) && (loan.from == *quota || loan.to == *quota);
        spec.loans.iter().any(|loan| lends(&loan) || takes(&loan)) || spec.resizes.iter().any(|pool| own.contains(pool))
    })
}

fn has_room(input: &PlanInput, flavor: &FlavorName, workload: &WorkloadSeen) -> bool {
    let pool = pool_of(input, flavor).and_then(|pool| Some((input.target.pools.get(&pool)?, pool)));
    // Of nodes that are not a pool's nothing is known.
    let Some((target, pool)) = pool else { return true };
    let fits = target.parts.iter().map(|part| pods(input, &pool, &part.layout, workload, part.nodes));
    fits.sum::<u64>() >= u64::from(workload.pods)
}

fn room(input: &PlanInput, pool: &PoolName, layout: &LayoutName, workload: &WorkloadSeen, nodes: u32) -> bool {
    pods(input, pool, layout, workload, nodes) >= u64::from(workload.pods)
}

/// How many pods of a workload so many nodes hold: by their GPUs, because of the rest not everything is known.
fn pods(input: &PlanInput, pool: &PoolName, layout: &LayoutName, workload: &WorkloadSeen, nodes: u32) -> u64 {
    let Some(holds) = input.desired.pools.get(pool).and_then(|pool| pool.layouts.get(layout)) else {
        return u64::MAX / 1024;
    };
    let asked = workload.per_pod.iter().filter(|(name, amount)| **amount > 0 && is_accelerator(name));
    let each = asked.map(|(name, amount)| holds.allocatable.get(name).copied().unwrap_or(0) / amount);
    let each = each.min().map_or(u64::MAX / 1024, |each| u64::try_from(each).unwrap_or(0));
    each.saturating_mul(u64::from(nodes)).min(u64::MAX / 1024)
}
