//! Cohorts: who borrows from whom, what nobody is guaranteed, and what tides lend.
//!
//! A path such as `research/vision` becomes a Cohort for each of its steps. What a pool holds beyond all guarantees is
//! quota of the cohort at the top, where everybody below may borrow it.
//!
//! A queue that a tide lends to has a Cohort of the tides' own above it, at every hour. It lets through what the queue
//! itself borrows and lends, and while nodes are lent:
//!
//! - If they stay as they are cut, what they hold may be borrowed through it. Lender and borrower stand below one more
//!   Cohort, the circle's, through which nobody else gets at what is lent. The lender's quota is the same at every hour,
//!   so its queue takes back what it needs. A turn of the tide writes one number in one object that nobody else owns.
//! - If they are cut anew, or their lender is in another cohort, it holds what they hold, and the lender has less.
//!
//! When they are asked back, nothing new starts on them. No queue ever moves, which would book its work twice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::queues::{Limits, Share, resource_groups, shares};
use super::{Beside, holds, loans, quantity};
use crate::effect::Object;
use crate::fleet::Target;
use crate::fleet::lending::Circle;
use crate::fleet::standing::{LoanSpec, QuotaSpec, Standing};
use crate::ids::{PoolName, QuotaName, ResourceName};
use crate::observed::{ObjectKey, ObjectKind};

/// The cohort that a queue is in.
pub fn above(standing: &Standing, name: &QuotaName, quota: &QuotaSpec) -> Option<String> {
    of_tides(standing, name, quota)
        .or_else(|| of_circle(standing, name))
        .or_else(|| quota.cohort.as_deref().map(cohort_name))
}

/// Parents before their children, those of tides last.
pub fn objects(target: &Target, beside: &Beside) -> Vec<Object> {
    let standing = &target.standing;
    let mut weights: BTreeMap<(usize, &str), u32> = BTreeMap::new();
    for (_, quota) in live(standing) {
        for step in quota.cohort.as_deref().into_iter().flat_map(steps) {
            *weights.entry((step.matches('/').count(), step)).or_default() += quota.weight;
        }
    }
    let free = free(target, beside);
    let steps = weights.into_iter().map(|((_, path), weight)| {
        // Together its queues have the weight that they would have apart.
        let parent = path.rsplit_once('/').map(|(parent, _)| (cohort_name(parent), weight));
        cohort(&cohort_name(path), parent, free.get(path).map_or(&[], Vec::as_slice))
    });
    let circles = live(standing).filter_map(|(name, _)| {
        let circle = standing.circle_of(name).filter(|circle| circle.members.first() == Some(name))?;
        let own = of_circle(standing, name)?;
        let weight = circle.members.iter().filter_map(|name| standing.quotas.get(name)).map(|quota| quota.weight).sum();
        let parent = circle.cohort.as_deref().map(|path| (cohort_name(path), weight));
        let through = if parent.is_some() { through(target, beside, &circle) } else { Vec::new() };
        Some(cohort(&own, parent, &through))
    });
    let tides = live(standing).filter_map(|(name, quota)| {
        let own = of_tides(standing, name, quota)?;
        let lent: Vec<_> = shares(target, beside, name, quota).iter().filter_map(lent).collect();
        let path = || quota.cohort.as_deref().map(cohort_name);
        let parent = of_circle(standing, name).or_else(path).map(|parent| (parent, quota.weight));
        Some(cohort(&own, parent, &lent))
    });
    steps.chain(circles).chain(tides).chain(emptied(standing)).collect()
}

/// The cohorts of borrowers whose document is gone or over while something that they were lent is asked back: with
/// nothing in them, so that it can be given to somebody.
fn emptied(standing: &Standing) -> Vec<Object> {
    let is_live = |loan: &&LoanSpec| standing.quotas.get(&loan.to).is_some_and(|quota| !quota.retire);
    let loans = standing.tides.values().flat_map(|tide| &tide.loans).filter(|loan| !is_live(loan));
    let queues: BTreeSet<&str> = loans.map(|loan| loan.queue.as_str()).filter(|queue| !queue.is_empty()).collect();
    queues.into_iter().map(|queue| cohort(&untaken(standing, format!("tide.{queue}")), None, &[])).collect()
}

/// The cohorts that these quotas name, children first.
pub fn left_by<'a>(quotas: impl Iterator<Item = &'a QuotaSpec>) -> Vec<ObjectKey> {
    let paths: BTreeSet<&str> = quotas.flat_map(|quota| quota.cohort.as_deref()).flat_map(steps).collect();
    let mut paths: Vec<&str> = paths.into_iter().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.matches('/').count()));
    paths.into_iter().map(|path| ObjectKey::cluster(ObjectKind::Cohort, &cohort_name(path))).collect()
}

fn live(standing: &Standing) -> impl Iterator<Item = (&QuotaName, &QuotaSpec)> {
    standing.quotas.iter().filter(|(_, quota)| !quota.retire)
}

type Flavors = Vec<(PoolName, BTreeMap<ResourceName, Limits>)>;

fn cohort(name: &str, parent: Option<(String, u32)>, flavors: &[(PoolName, BTreeMap<ResourceName, Limits>)]) -> Object {
    let mut spec: Value = json!({});
    if !flavors.is_empty() {
        spec["resourceGroups"] = resource_groups(flavors, parent.is_some());
    }
    if let Some((parent, weight)) = parent {
        spec["parentName"] = parent.into();
        spec["fairSharing"] = json!({"weight": quantity::count(weight.into())});
    }
    Object::new(ObjectKey::cluster(ObjectKind::Cohort, name), json!({"spec": spec}))
}

/// `research`, then `research/vision`.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// A name holds no `/`. A dot is in no step of a path, so no two paths have one name.
fn cohort_name(path: &str) -> String {
    path.replace('/', ".")
}

/// The cohort of the tides that lend to a quota, if any does at some hour.
pub fn of_tides(standing: &Standing, name: &QuotaName, quota: &QuotaSpec) -> Option<String> {
    let mut loans = standing.tides.values().flat_map(|tide| &tide.loans);
    loans.any(|loan| loan.to == *name).then(|| untaken(standing, format!("tide.{}", quota.cluster_queue)))
}

/// The cohort of the circle that a quota is in. It is named after who lends: a loan that goes to somebody else must not
/// move queues under running work.
fn of_circle(standing: &Standing, name: &QuotaName) -> Option<String> {
    let circle = standing.circle_of(name)?;
    let lends = |member: &&QuotaName| standing.kept_loans().any(|loan| loan.from == **member);
    let mut members = circle.members.iter();
    let first = members.clone().find(lends).or_else(|| members.next());
    let first = first.and_then(|first| standing.quotas.get(first))?;
    Some(untaken(standing, format!("tides.{}", first.cluster_queue)))
}

/// A name for a cohort of ours that no person gave to one.
fn untaken(standing: &Standing, mut name: String) -> String {
    let paths = || standing.quotas.values().filter_map(|quota| quota.cohort.as_deref()).flat_map(steps);
    while paths().any(|path| path.len() == name.len() && cohort_name(path) == name) {
        name.insert_str(0, "tide.");
    }
    name
}

/// What tides have lent of a pool, and what of their lenders' quota may be used, below limits that let through what the
/// queue itself borrows and lends.
fn lent(share: &Share) -> Option<(PoolName, BTreeMap<ResourceName, Limits>)> {
    if share.lent.is_empty() && share.brought.is_empty() {
        return None;
    }
    let of = |resources: &holds::Resources, name| resources.get(name).copied().unwrap_or(0);
    let mut names: BTreeSet<&ResourceName> = share.brought.keys().chain(share.lent.keys()).collect();
    if !share.lent.is_empty() {
        names.extend(share.nominal.keys());
    }
    let limits = names.into_iter().map(|name| {
        let limits = Limits {
            nominal: of(&share.lent, name) + of(&share.free, name),
            borrow: of(&share.borrow, name) + of(&share.kept, name),
            lend: share.lends(name),
        };
        (name.clone(), limits)
    });
    Some((share.pool.clone(), limits.collect()))
}

/// What a circle lets through of the pools that are lent in it: what its quotas borrow and lend by themselves. What
/// tides have lent of a quota nobody else borrows.
fn through(target: &Target, beside: &Beside, circle: &Circle) -> Flavors {
    let standing = &target.standing;
    let mut found: BTreeMap<&PoolName, BTreeMap<ResourceName, Limits>> = BTreeMap::new();
    for loan in standing.kept_loans().filter(|loan| circle.members.contains(&loan.to)) {
        found.entry(&loan.pool).or_default();
    }
    for (name, quota) in live(standing).filter(|(name, _)| circle.members.contains(*name)) {
        for share in shares(target, beside, name, quota) {
            let Some(limits) = found.get_mut(&share.pool) else { continue };
            let kept = loans::kept(target, &share.pool);
            let away = holds::sum(kept.into_iter().filter(|kept| kept.from == name).map(|kept| kept.own));
            let here = |resource: &ResourceName| {
                let of = |resources: &holds::Resources| resources.get(resource).copied().unwrap_or(0);
                of(&share.nominal).saturating_sub(of(&away))
            };
            for name in share.brought.keys().chain(share.given.keys()) {
                limits.entry(name.clone()).or_default();
            }
            for (name, amount) in &share.borrow {
                limits.entry(name.clone()).or_default().borrow += amount;
            }
            for (name, amount) in &share.lend {
                limits.entry(name.clone()).or_default().lend += (*amount).min(here(name));
            }
        }
    }
    found.into_iter().map(|(pool, limits)| (pool.clone(), limits)).collect()
}

/// What each cohort at the top has of pools that hold more than is guaranteed, where somebody below may borrow it.
fn free<'a>(target: &'a Target, beside: &Beside) -> BTreeMap<&'a str, Flavors> {
    let standing = &target.standing;
    let mut found: BTreeMap<&str, Flavors> = BTreeMap::new();
    for name in standing.pools.keys() {
        let (mut free, borrowers) = (unclaimed(target, name), borrowers(target, name));
        for (resource, off) in beside.outside.off(target, name).free {
            free.entry(resource).and_modify(|amount| *amount = amount.saturating_sub(off));
        }
        let mut parts: BTreeMap<&str, BTreeMap<ResourceName, Limits>> = BTreeMap::new();
        for (resource, amount) in free {
            let wishes: Vec<u64> = borrowers.values().map(|wish| wish.get(&resource).copied().unwrap_or(0)).collect();
            for (root, part) in borrowers.keys().zip(split(amount, &wishes)) {
                let limits = Limits { nominal: part, ..Limits::default() };
                parts.entry(root).or_default().insert(resource.clone(), limits);
            }
        }
        for (root, limits) in parts {
            if limits.values().any(|limits| limits.nominal > 0) {
                found.entry(root).or_default().push((name.clone(), limits));
            }
        }
    }
    found
}

/// What the pool's own nodes hold beyond all guarantees, and beyond what tides lend of that.
pub fn unclaimed(target: &Target, name: &PoolName) -> holds::Resources {
    let standing = &target.standing;
    let Some(pool) = standing.pools.get(name) else { return holds::Resources::new() };
    let each = standing.per_node(pool, &pool.layout);
    let kept = loans::kept(target, name);
    let own = target.pools.get(name).map_or(0, |pool| pool.own()) + kept.iter().map(|kept| kept.nodes).sum::<u32>();
    let mut free = holds::counted(standing, pool, &pool.layout, &each.times(own));
    for (resource, taken) in kept.into_iter().flat_map(|kept| kept.free) {
        free.entry(resource).and_modify(|left| *left = left.saturating_sub(taken));
    }
    for (quota, _) in live(standing) {
        let Some(share) = target.quotas.get(quota).and_then(|quota| quota.shares.get(name)) else { continue };
        for (resource, taken) in holds::counted(standing, pool, &pool.layout, &share.guarantee.supply(&each)) {
            if let Some(left) = free.get_mut(&resource) {
                *left = left.saturating_sub(taken);
            }
        }
    }
    free
}

/// How much may be borrowed of a pool below each cohort at the top.
fn borrowers<'a>(target: &'a Target, name: &PoolName) -> BTreeMap<&'a str, holds::Resources> {
    let standing = &target.standing;
    let mut found: BTreeMap<&str, holds::Resources> = BTreeMap::new();
    let may_borrow = |quota: &QuotaName| {
        let share = target.quotas.get(quota).and_then(|quota| quota.shares.get(name));
        share.is_some_and(|share| share.borrow.is_some())
    };
    for (quota_name, quota) in live(standing).filter(|(quota, _)| may_borrow(quota)) {
        let share = shares(target, &Beside::default(), quota_name, quota).into_iter().find(|share| share.pool == *name);
        let (Some(path), Some(share)) = (quota.cohort.as_deref(), share) else { continue };
        let Some(root) = steps(path).next().filter(|_| share.borrow.values().any(|amount| *amount > 0)) else {
            continue;
        };
        let sum = found.entry(root).or_default();
        for (resource, amount) in share.borrow {
            *sum.entry(resource).or_insert(0) += amount;
        }
    }
    found
}

/// Shares an amount out in proportion to some wishes: it is there once, however many cohorts would borrow it. What is
/// left by rounding goes to the first.
pub fn split(amount: u64, wishes: &[u64]) -> Vec<u64> {
    let sum: u128 = wishes.iter().map(|wish| u128::from(*wish)).sum();
    let part = |wish: &u64| u64::try_from(u128::from(amount) * u128::from(*wish) / sum.max(1)).unwrap_or(amount);
    let mut parts: Vec<u64> = wishes.iter().map(part).collect();
    let given: u64 = parts.iter().sum();
    if let Some(first) = wishes.iter().position(|wish| *wish > 0) {
        parts[first] += amount - given;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_shared_out_once() {
        for (amount, wishes, parts) in [
            (8, vec![3], vec![8]),
            (8, vec![1, 1], vec![4, 4]),
            (10, vec![0, 1, 2], vec![0, 4, 6]),
            (1, vec![2, 2], vec![1, 0]),
            (10, vec![0, 0], vec![0, 0]),
            (0, vec![5], vec![0]),
        ] {
            assert_eq!(split(amount, &wishes), parts);
        }
    }

    #[test]
    fn two_paths_never_have_one_name() {
        assert_eq!(steps("a/b-c/d").collect::<Vec<_>>(), ["a", "a/b-c", "a/b-c/d"]);
        assert_ne!(cohort_name("a/b-c"), cohort_name("a-b/c"));
        assert_ne!(cohort_name("a/b"), cohort_name("a-b"));
    }
}
