//! What each quota is promised, uses, borrows and lends, from the flavors that its admitted workloads hold.
//!
//! Kueue does not say who lends to whom. What is borrowed in a cohort is put down to the quotas that leave something
//! free, in the order of their names: the sum is right, and with one lender so is the name.

use std::collections::{BTreeMap, BTreeSet};

use super::status::ShareStatus;
use super::written::{Written, written};
use crate::compile::cohorts;
use crate::effect::marks::POOL;
use crate::fleet::quota::{Amount, Supply};
use crate::fleet::target::{LoanTarget, PoolTarget, Purpose, QuotaTarget};
use crate::ids::{FlavorName, MigProfile, NodeName, PoolName, QuotaName, TideName};
use crate::observed::{ObjectKey, ObjectKind, WorkloadSeen};
use crate::plan::PlanInput;
use crate::plan::tide::is_out;
use crate::plan::view::View;

/// The resources of NVIDIA's device plugin: whole GPUs, and slices by profile.
const GPU: &str = "nvidia.com/gpu";
const SLICE: &str = "nvidia.com/mig-";

pub fn shares(input: &PlanInput) -> Vec<ShareStatus> {
    let (flavors, handed) = (flavors(input), handed_over(input));
    let mut all = Vec::new();
    for (name, target) in &input.target.quotas {
        let Some(spec) = input.target.standing.quotas.get(name) else { continue };
        let mine: Vec<&WorkloadSeen> = input
            .observed
            .cluster
            .workloads
            .seen()
            .values()
            .filter(|workload| workload.queue.as_str() == spec.cluster_queue && !workload.finished)
            .collect();
        let mut waiting = mine.iter().filter(|workload| workload.active && workload.reserved.is_none()).count();
        let used = used_by_pool(&mine, &flavors);
        let loans = || target.loans.iter().filter(|loan| is_lent(&handed, name, loan));
        let of_loans = loans().map(|loan| &loan.pool);
        let written = written(input, &flavors, name, spec);
        let given: BTreeSet<PoolName> = written.iter().flat_map(Written::pools).cloned().collect();
        let mut pools: BTreeSet<&PoolName> =
            target.shares.keys().chain(of_loans).chain(used.keys()).chain(&given).collect();
        if pools.is_empty() {
            // It lives on what a tide lends, which is nothing now: its work waits all the same.
            let tides = input.target.standing.tides.values().flat_map(|tide| &tide.loans);
            pools.extend(tides.filter(|loan| loan.to == *name).map(|loan| &loan.pool));
        }
        for pool in pools {
            let mut loaned = Supply::default();
            loans().filter(|loan| loan.pool == *pool).for_each(|loan| loaned.add(&loan.supply));
            let used = used.get(pool).cloned().unwrap_or_default();
            let (guarantee, wanted) = guaranteed(target, written.as_ref(), pool);
            let per_node = per_node(input, pool);
            let mut promised = guarantee.as_ref().map(|amount| amount.supply(&per_node)).unwrap_or_default();
            promised.add(&loaned);
            let borrowed = beyond(&used, &promised);
            let lent = lent_by_tide(input, &handed, name, pool);
            let waiting = u32::try_from(std::mem::take(&mut waiting)).unwrap_or(u32::MAX);
            let (quota, pool) = (name.clone(), pool.clone());
            all.push(ShareStatus { quota, pool, guarantee, wanted, loaned, used, borrowed, lent, waiting });
        }
    }
    put_down_borrowing(input, &flavors, &mut all);
    all
}

/// What a quota is promised of a pool now, and what it should be where that is something else.
fn guaranteed(
    target: &QuotaTarget,
    written: Option<&Written<'_>>,
    pool: &PoolName,
) -> (Option<Amount>, Option<Amount>) {
    let wanted = target.shares.get(pool).map(|share| share.guarantee.clone());
    let Some(written) = written else { return (wanted, None) };
    let now = written.guarantee(pool, wanted.as_ref()).filter(|now| wanted.is_some() || !now.is_nothing());
    match (now, wanted) {
        (Some(now), None) => (Some(now.clone()), Some(now.nothing())),
        (now, Some(wanted)) if now.as_ref().is_some_and(|now| *now != wanted) => (now, Some(wanted)),
        (None, Some(wanted)) if !wanted.is_nothing() => (None, Some(wanted)),
        (now, _) => (now, None),
    }
}

/// The pools of the target as far as nodes have changed hands. Where only quota does: as far as that is written, and until
/// nobody else is on them.
pub fn handed_over(input: &PlanInput) -> BTreeMap<PoolName, PoolTarget> {
    let mut pools = input.handed_over();
    let back = back(input, &pools);
    for (name, pool) in &mut pools {
        for part in &mut pool.parts {
            let kept = input.target.standing.keeper(name, &part.purpose);
            let is_own = match &part.purpose {
                Purpose::Lent { .. } => kept.is_some_and(|(_, to)| !is_written(input, to)),
                Purpose::Returning { tide, .. } => back.contains(tide),
                Purpose::Own | Purpose::Spare => false,
            };
            if is_own {
                part.purpose = Purpose::Own;
            }
        }
    }
    pools
}

/// Tides that ask back what their owners have already.
fn back(input: &PlanInput, handed: &BTreeMap<PoolName, PoolTarget>) -> BTreeSet<TideName> {
    let asking = handed.values().flat_map(|pool| &pool.parts).filter_map(|part| match &part.purpose {
        Purpose::Returning { tide, .. } => Some(tide),
        _ => None,
    });
    let asking: BTreeSet<&TideName> = asking.collect();
    if asking.is_empty() {
        return BTreeSet::new();
    }
    let view = View::new(input);
    let tides = asking.into_iter().filter_map(|tide| Some((tide, input.target.standing.tides.get(tide)?)));
    tides.filter(|(tide, spec)| !is_out(&view, handed, tide, spec)).map(|(tide, _)| tide.clone()).collect()
}

/// Whether the cohort through which tides lend to a quota is as it should be; yes where that could not be read.
fn is_written(input: &PlanInput, to: &QuotaName) -> bool {
    let standing = &input.target.standing;
    let cohort = standing.quotas.get(to).and_then(|quota| cohorts::of_tides(standing, to, quota));
    let key = cohort.map(|name| ObjectKey::cluster(ObjectKind::Cohort, &name));
    let wanted = input.desired.objects.iter().find(|object| Some(&object.key) == key.as_ref());
    let cluster = &input.observed.cluster;
    wanted.is_none_or(|wanted| match cluster.objects.seen().get(&wanted.key) {
        Some(seen) => seen.written.as_ref() == Some(&wanted.digest),
        None => cluster.gap_of(ObjectKind::Cohort).is_some(),
    })
}

/// Whether some of what a tide should have lent to a quota is lent.
fn is_lent(handed: &BTreeMap<PoolName, PoolTarget>, quota: &QuotaName, loan: &LoanTarget) -> bool {
    let parts = handed.get(&loan.pool).into_iter().flat_map(|pool| &pool.parts);
    parts.into_iter().any(|part| match &part.purpose {
        Purpose::Lent { tide, from, to } => to == quota && *tide == loan.tide && *from == loan.from,
        _ => false,
    })
}

/// The pool of each flavor, from the labels of the nodes that it stands for.
fn flavors(input: &PlanInput) -> BTreeMap<FlavorName, PoolName> {
    let wanted = input.desired.objects.iter().map(|object| (&object.key, &object.body));
    let seen = input.observed.cluster.objects.seen().iter().map(|(key, object)| (key, &object.body));
    let of = |body: &serde_json::Value| Some(PoolName::from(body.get("spec")?.get("nodeLabels")?.get(POOL)?.as_str()?));
    let flavors = seen.chain(wanted).filter(|(key, _)| key.kind == ObjectKind::ResourceFlavor);
    flavors.filter_map(|(key, body)| Some((FlavorName::from(&*key.name), of(body)?))).collect()
}

fn used_by_pool(workloads: &[&WorkloadSeen], flavors: &BTreeMap<FlavorName, PoolName>) -> BTreeMap<PoolName, Supply> {
    let mut sums: BTreeMap<PoolName, Supply> = BTreeMap::new();
    let mut nodes: BTreeMap<PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for workload in workloads.iter().filter(|workload| workload.reserved.is_some()) {
        for (resource, flavor) in &workload.flavors {
            let Some(pool) = flavors.get(flavor) else { continue };
            let sum = sums.entry(pool.clone()).or_default();
            let amount = workload.requests.get(resource).map_or(0, |amount| u32::try_from(*amount).unwrap_or(0));
            if resource.as_str() == GPU {
                sum.gpus = sum.gpus.saturating_add(amount);
            } else if let Some(profile) = resource.as_str().strip_prefix(SLICE) {
                // A resource cannot hold a plus: the plugin writes `1g.10gb.me`.
                let profile = MigProfile::from(profile.replace(".me", "+me"));
                let count = sum.slices.entry(profile).or_insert(0);
                *count = count.saturating_add(amount);
            }
            nodes.entry(pool.clone()).or_default().extend(workload.nodes.keys());
        }
    }
    for (pool, nodes) in nodes {
        sums.entry(pool).or_default().nodes = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    }
    sums
}

fn per_node(input: &PlanInput, pool: &PoolName) -> Supply {
    let standing = &input.target.standing;
    standing.pools.get(pool).map(|spec| standing.per_node(spec, &spec.layout)).unwrap_or_default()
}

/// What of one supply is not covered by another, in GPUs and slices, and in nodes where there are neither.
fn beyond(used: &Supply, promised: &Supply) -> Supply {
    let mut left = used.clone();
    left.subtract(promised);
    if used.gpus > 0 || used.slices.values().any(|count| *count > 0) {
        left.nodes = 0;
    }
    left.slices.retain(|_, count| *count > 0);
    left
}

fn lent_by_tide(
    input: &PlanInput,
    handed: &BTreeMap<PoolName, PoolTarget>,
    quota: &QuotaName,
    pool: &PoolName,
) -> Supply {
    let mut nodes = 0;
    for part in handed.get(pool).into_iter().flat_map(|pool| &pool.parts) {
        match &part.purpose {
            Purpose::Lent { from, .. } | Purpose::Returning { from, .. } if from == quota => nodes += part.nodes,
            _ => {}
        }
    }
    if nodes == 0 { Supply::default() } else { per_node(input, pool).times(nodes) }
}

fn put_down_borrowing(input: &PlanInput, flavors: &BTreeMap<FlavorName, PoolName>, shares: &mut [ShareStatus]) {
    let root = |quota: &QuotaName| {
        let path = input.target.standing.quotas.get(quota)?.cohort.as_deref()?;
        path.split('/').next().map(String::from)
    };
    let mut open: BTreeMap<(String, PoolName), Supply> = BTreeMap::new();
    for share in shares.iter() {
        if let Some(root) = root(&share.quota) {
            open.entry((root, share.pool.clone())).or_default().add(&share.borrowed);
        }
    }
    for share in shares {
        let Some(left) = root(&share.quota).and_then(|root| open.get_mut(&(root, share.pool.clone()))) else {
            continue;
        };
        let documents = || input.target.quotas.get(&share.quota)?.shares.get(&share.pool)?.lend.clone();
        let spec = input.target.standing.quotas.get(&share.quota);
        let written = spec.and_then(|spec| written(input, flavors, &share.quota, spec));
        let lend = match &written {
            Some(written) => written.lend(&share.pool, share.guarantee.as_ref()),
            None => documents(),
        };
        let (Some(guarantee), Some(lend)) = (&share.guarantee, lend) else { continue };
        let per_node = per_node(input, &share.pool);
        let free = beyond(&guarantee.supply(&per_node), &share.used);
        let given = least(&least(&free, &lend.supply(&per_node)), left);
        left.subtract(&given);
        share.lent.add(&given);
    }
}

fn least(one: &Supply, other: &Supply) -> Supply {
    let of = |profile: &MigProfile| other.slices.get(profile).copied().unwrap_or(0);
    Supply {
        nodes: one.nodes.min(other.nodes),
        gpus: one.gpus.min(other.gpus),
        slices: one.slices.iter().map(|(profile, count)| (profile.clone(), (*count).min(of(profile)))).collect(),
    }
}
