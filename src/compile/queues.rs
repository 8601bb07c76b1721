//! ClusterQueues and LocalQueues: what a quota may use of each pool.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::currency;
use super::{Beside, cohorts, holds, loans, quantity, tiers};
use crate::effect::Object;
use crate::fleet::Target;
use crate::fleet::quota::{Amount, Supply};
use crate::fleet::standing::{LoanSpec, QuotaSpec, Standing};
use crate::fleet::target::Purpose;
use crate::fleet::tier::Preempts;
use crate::ids::{PoolName, QuotaName, ResourceName, TideName};
use crate::observed::{ObjectKey, ObjectKind};

/// What a queue has of one pool. All maps but the first may leave out what is nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    pub pool: PoolName,
    /// Its own. Every resource that it covers here is in it.
    pub nominal: holds::Resources,
    pub borrow: holds::Resources,
    pub lend: holds::Resources,
    /// What tides have lent to it now and took from its lender. Every resource that such a loan may bring is in it.
    pub lent: holds::Resources,
    /// The most that such loans ever bring to it.
    pub lent_at_most: holds::Resources,
    /// What it may use now of what its lenders keep.
    pub kept: holds::Resources,
    /// What of such loans was in nobody's quota.
    pub free: holds::Resources,
    /// The most that such loans ever bring to it, and the most that it ever gives so itself.
    pub brought: holds::Resources,
    pub given: holds::Resources,
}

impl Share {
    /// What it may lend to anybody, tides among them. Kueue refuses more than the nominal quota.
    pub fn lends(&self, resource: &ResourceName) -> u64 {
        let of = |resources: &holds::Resources| resources.get(resource).copied().unwrap_or(0);
        (of(&self.lend) + of(&self.given)).min(of(&self.nominal))
    }
}

/// How much of one resource of one flavor. Limits are left out where there is no cohort above.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    pub nominal: u64,
    pub borrow: u64,
    pub lend: u64,
}

/// ClusterQueues first, then the LocalQueues that name them.
pub fn objects(target: &Target, beside: &Beside) -> Vec<Object> {
    let live = || target.standing.quotas.iter().filter(|(_, quota)| !quota.retire);
    let queues = live().map(|(name, quota)| {
        let key = ObjectKey::cluster(ObjectKind::ClusterQueue, &quota.cluster_queue);
        Object::new(key, json!({"spec": cluster_queue(target, beside, name, quota)}))
    });
    let local = live().flat_map(|(_, quota)| {
        let body = json!({"spec": {"clusterQueue": quota.cluster_queue}});
        local_keys(quota).map(move |key| Object::new(key, body.clone()))
    });
    queues.chain(local).collect()
}

/// A quota's queues, in the order in which they can be deleted.
pub fn keys(quota: &QuotaSpec) -> impl Iterator<Item = ObjectKey> {
    local_keys(quota).chain([ObjectKey::cluster(ObjectKind::ClusterQueue, &quota.cluster_queue)])
}

fn local_keys(quota: &QuotaSpec) -> impl Iterator<Item = ObjectKey> {
    let names = quota.namespaces.iter();
    names.map(|(namespace, queue)| ObjectKey::namespaced(ObjectKind::LocalQueue, namespace, queue))
}

fn cluster_queue(target: &Target, beside: &Beside, name: &QuotaName, quota: &QuotaSpec) -> Value {
    let cohort = cohorts::above(&target.standing, name, quota);
    let flavors: Vec<_> =
        shares(target, beside, name, quota).into_iter().map(|share| (share.pool.clone(), own(&share))).collect();
    let mut spec = json!({
        "namespaceSelector": tiers::namespace_selector(quota),
        "queueingStrategy": "BestEffortFIFO",
        "preemption": preemption(&target.standing, quota, cohort.is_some()),
        "fairSharing": {"weight": quantity::count(quota.weight.into())},
    });
    if !flavors.is_empty() {
        spec["resourceGroups"] = resource_groups(&flavors, cohort.is_some());
    }
    if beside.covered.covers(target, name, quota)
        && let Some(groups) = spec["resourceGroups"].as_array_mut()
    {
        let held = || currency::worth(target, &beside.outside.held_by(quota));
        let total = currency::total(&target.standing, name, quota).map(|total| total.saturating_sub(held()));
        groups.push(currency::group(total, cohort.is_some()));
    }
    if cohorts::of_tides(&target.standing, name, quota).is_some() {
        // First its own, then what tides lend, and only then what others could want back: Kueue looks at all flavors
        // and takes the one for which it has to reach up least.
        spec["flavorFungibility"] = json!({"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"});
    }
    if let Some(cohort) = cohort {
        spec["cohortName"] = cohort.into();
    }
    spec
}

/// Its own part, and what it may borrow. What tides have lent is in the cohort above it, so it is borrowed from there.
/// How much that is now, that cohort says: a borrower's queue is the same at every hour, so that whoever edits it, and
/// has to be asked, keeps no loan from it.
fn own(share: &Share) -> BTreeMap<ResourceName, Limits> {
    let of = |resources: &holds::Resources, name| resources.get(name).copied().unwrap_or(0);
    let names: BTreeSet<&ResourceName> = share.nominal.keys().chain(share.lent.keys()).collect();
    let limits = names.into_iter().map(|name| {
        let borrow = of(&share.borrow, name) + of(&share.lent_at_most, name) + of(&share.brought, name);
        (name.clone(), Limits { nominal: of(&share.nominal, name), borrow, lend: share.lends(name) })
    });
    limits.collect()
}

/// What a guarantee is worth is taken back from whoever borrows it, whatever their tier. A queue that has none of its
/// own lives from what it is lent, and takes nothing from anybody.
fn preemption(standing: &Standing, quota: &QuotaSpec, has_cohort: bool) -> Value {
    let tiers = quota.tiers.iter().filter_map(|tier| standing.tiers.get(tier));
    let mut preempts = tiers.map(|tier| tier.preempts == Preempts::LowerTiers);
    let within = if preempts.any(|preempts| preempts) { "LowerPriority" } else { "Never" };
    let reclaim = if has_cohort && !quota.pools.is_empty() { "Any" } else { "Never" };
    json!({"reclaimWithinCohort": reclaim, "withinClusterQueue": within})
}

/// What a quota has of each pool: those that it has a share of as they are written, then those that only tides lend.
pub fn shares(target: &Target, beside: &Beside, name: &QuotaName, quota: &QuotaSpec) -> Vec<Share> {
    let standing = &target.standing;
    let mut pools: Vec<&PoolName> = quota.pools.iter().collect();
    for loan in standing.tides.values().flat_map(|tide| &tide.loans).filter(|loan| loan.to == *name) {
        if !pools.contains(&&loan.pool) {
            pools.push(&loan.pool);
        }
    }
    pools.into_iter().filter_map(|pool| share(target, beside, name, pool)).collect()
}

fn share(target: &Target, beside: &Beside, name: &QuotaName, pool_name: &PoolName) -> Option<Share> {
    let standing = &target.standing;
    let (pool, now) = (standing.pools.get(pool_name)?, target.pools.get(pool_name)?);
    let each = standing.per_node(pool, &pool.layout);
    let amount = |amount: &Amount| holds::counted(standing, pool, &pool.layout, &amount.supply(&each));
    let share = target.quotas.get(name).and_then(|quota| quota.shares.get(pool_name));
    let (brought, given) = (
        loans::most(target, pool_name, |loan| loan.to == *name),
        loans::most(target, pool_name, |loan| loan.from == *name),
    );
    let mut nominal = holds::Resources::new();
    if share.is_some() || !brought.is_empty() {
        nominal = amount(share.map_or(&Amount::Nodes(0), |share| &share.guarantee));
        for (resource, off) in beside.outside.off(target, pool_name).quotas.remove(name).into_iter().flatten() {
            nominal.entry(resource).and_modify(|amount| *amount = amount.saturating_sub(off));
        }
        nominal.extend(holds::uncounted(pool, now.nodes, beside.shown.by(pool_name)));
    }
    let or_nothing = |limit: Option<&Amount>| limit.map(amount).unwrap_or_default();
    let (lent, lent_at_most) = lent(target, beside, name, pool_name);
    let kept = loans::kept(target, pool_name);
    let mine = || kept.iter().filter(|one| one.to == name && one.lent);
    Some(Share {
        pool: pool_name.clone(),
        nominal,
        borrow: or_nothing(share.and_then(|share| share.borrow.as_ref())),
        lend: or_nothing(share.and_then(|share| share.lend.as_ref())),
        lent,
        lent_at_most,
        kept: holds::sum(mine().map(|one| one.own.clone())),
        free: holds::sum(mine().map(|one| one.free.clone())),
        brought,
        given,
    })
}

/// What tides have lent of a pool and taken from their lenders, whole nodes with all that is in them; what they may lend
/// so at another hour is in it with nothing. And the most that they ever lend so.
fn lent(
    target: &Target,
    beside: &Beside,
    name: &QuotaName,
    pool_name: &PoolName,
) -> (holds::Resources, holds::Resources) {
    let standing = &target.standing;
    let (Some(pool), Some(now)) = (standing.pools.get(pool_name), target.pools.get(pool_name)) else {
        return Default::default();
    };
    let nodes = |layout: &_, nodes| {
        let supply: Supply = standing.per_node(pool, layout).times(nodes);
        let mut found = holds::counted(standing, pool, layout, &supply);
        found.extend(holds::uncounted(pool, nodes, beside.shown.by(pool_name)));
        found
    };
    let purpose = |tide: &TideName, loan: &LoanSpec| {
        let (tide, from, to) = (tide.clone(), loan.from.clone(), loan.to.clone());
        Purpose::Lent { tide, from, to }
    };
    let is_taken = |purpose: &Purpose| {
        matches!(purpose, Purpose::Lent { to, .. } if to == name) && standing.keeper(pool_name, purpose).is_none()
    };
    let loans = standing.tides.iter().flat_map(|(tide, spec)| spec.loans.iter().map(move |loan| (tide, loan)));
    let loans: Vec<&LoanSpec> = loans
        .filter(|(tide, loan)| loan.pool == *pool_name && is_taken(&purpose(tide, loan)))
        .map(|(_, loan)| loan)
        .collect();
    let parts = now.parts.iter().filter(|part| is_taken(&part.purpose)).map(|part| nodes(&part.layout, part.nodes));
    let lent = holds::sum(loans.iter().map(|loan| nodes(&loan.layout, 0)).chain(parts));
    (lent, holds::sum(loans.iter().map(|loan| nodes(&loan.layout, loan.nodes))))
}

/// One group: every flavor lists every resource, in one order, as Kueue wants it.
pub fn resource_groups(flavors: &[(PoolName, BTreeMap<ResourceName, Limits>)], has_parent: bool) -> Value {
    let covered: BTreeSet<&ResourceName> = flavors.iter().flat_map(|(_, limits)| limits.keys()).collect();
    let mut covered: Vec<&ResourceName> = covered.into_iter().collect();
    covered.sort_by_key(|resource| holds::rank(resource));
    let flavors = flavors.iter().map(|(pool, limits)| {
        let resources = covered.iter().map(|resource| {
            let Limits { nominal, borrow, lend } = limits.get(*resource).copied().unwrap_or_default();
            let text = |amount| holds::text(resource, amount);
            let mut quota = json!({"name": resource, "nominalQuota": text(nominal)});
            if has_parent {
                quota["borrowingLimit"] = text(borrow).into();
                quota["lendingLimit"] = text(lend).into();
            }
            quota
        });
        json!({"name": pool, "resources": resources.collect::<Vec<_>>()})
    });
    json!([{"coveredResources": covered, "flavors": flavors.collect::<Vec<_>>()}])
}
