//! One currency for whole GPUs and slices, in which a quota's `total` is kept.
//!
//! Kueue counts each resource of each flavor apart. Its Configuration can have a resource counted as a second one too:
//! every accelerator is then also so many thousandths of a GPU (`fleet::worth`), of which each queue has a quota of its
//! own that it neither lends nor borrows: its total, or more than there is. Where that is switched on, a queue that does
//! not cover the currency admits no GPUs at all, so the queues come first and the Configuration, which is somebody
//! else's, after them (`plan::others`).
//!
//! The currency is on no node. A queue with such a flavor beside flavors that have a topology takes only work that says
//! how it is placed. So a policy has all work say it ([`placed`]). Work that was there before the policy keeps a queue
//! from the currency until it has ended: it could not start again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{gpus, holds, placed, quantity};
use crate::effect::{Object, Staged};
use crate::fleet::Target;
use crate::fleet::standing::{PoolSpec, QuotaSpec, Standing};
use crate::fleet::worth;
use crate::ids::{NamespacedName, PoolName, QuotaName};
use crate::observed::{ClusterSeen, ObjectKey, ObjectKind};
use crate::queue::mode;
use crate::queue::parse::quotas;
use crate::queue::transform::of_file;

/// What Kueue counts beside the accelerators themselves.
pub const CURRENCY: &str = "tidewright.dev/gpu-thousandths";
/// The flavor of it: no nodes, no topology.
pub const FLAVOR: &str = "tidewright-total";
/// A million GPUs, as many as a total can say: no limit.
pub const AMPLE: u64 = 1_000_000 * worth::WHOLE;

/// What of the snapshot decides whether queues have the currency.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Covered {
    /// Kueue counts in it: a queue without it would admit nothing.
    pub counts: bool,
    /// What Kueue counts in was not seen: who has the currency keeps it.
    unseen: bool,
    /// Queues that have it.
    queues: BTreeSet<String>,
    /// Policies that are there, with their bindings.
    policies: BTreeSet<String>,
    /// Work that does not say how it is placed, by queue.
    unplaced: BTreeMap<String, Vec<NamespacedName>>,
    /// Not all work was seen.
    blind: bool,
}

impl Covered {
    pub fn of(cluster: &ClusterSeen) -> Self {
        let seen = cluster.objects.seen();
        let file = cluster.others.kueue.seen().as_ref().and_then(mode::file);
        let rules = file.as_ref().map(|(_, file)| of_file(file)).unwrap_or_default();
        let queues = seen.iter().filter(|(key, seen)| key.kind == ObjectKind::ClusterQueue && has_it(&seen.body));
        let there = |kind: ObjectKind| {
            let of_kind = seen.iter().filter(move |(key, _)| key.kind == kind);
            of_kind.filter(|(_, seen)| seen.written.is_some() && !seen.deleting).map(|(key, _)| key.name.to_string())
        };
        let bound: BTreeSet<String> = there(ObjectKind::MutatingAdmissionPolicyBinding).collect();
        let mut unplaced: BTreeMap<String, Vec<NamespacedName>> = BTreeMap::new();
        for work in cluster.workloads.seen().values().filter(|work| !work.finished && !work.placed) {
            unplaced.entry(work.queue.to_string()).or_default().push(work.name.clone());
        }
        unplaced.values_mut().for_each(|names| names.sort());
        Self {
            counts: rules.values().any(|rule| rule.outputs.contains_key(CURRENCY)),
            unseen: file.is_none(),
            queues: queues.map(|(key, _)| key.name.to_string()).collect(),
            policies: there(ObjectKind::MutatingAdmissionPolicy).filter(|name| bound.contains(name)).collect(),
            unplaced,
            blind: cluster.workloads.gap().is_some(),
        }
    }

    /// Whether a quota's queue is to have it.
    pub fn covers(&self, target: &Target, name: &QuotaName, quota: &QuotaSpec) -> bool {
        let queue = &quota.cluster_queue;
        let has_it = self.queues.contains(queue);
        let is_ready = || self.is_bound(name) && !self.blind && !self.unplaced.contains_key(queue);
        has_accelerators(&target.standing, name, quota)
            && (self.counts || has_it && self.unseen || is_wanted(target) && (has_it || is_ready()))
    }

    /// Whether every queue that needs it has it, so that Kueue may count in it.
    pub fn is_everywhere(&self, target: &Target) -> bool {
        live(target).all(|(_, quota)| self.queues.contains(&quota.cluster_queue))
    }

    /// Whether work of a quota is told how it is placed, already.
    pub fn is_bound(&self, quota: &QuotaName) -> bool {
        self.policies.contains(&*placed::policy_keys(quota)[1].name)
    }

    /// Totals that wait for work from before.
    pub fn staged(&self, target: &Target) -> Vec<Staged> {
        let waiting = live(target).filter(|(name, quota)| self.is_bound(name) && !self.covers(target, name, quota));
        let waiting = waiting.filter(|_| is_wanted(target)).filter_map(|(name, quota)| {
            let key = ObjectKey::cluster(ObjectKind::ClusterQueue, &quota.cluster_queue);
            let total = total(&target.standing, name, quota).map_or("no total".into(), worth::text);
            let wanted = format!(
                "{} counts GPUs and slices together, up to {total} (what waits or runs there since before would not \
                 start again: it does not say how it is placed)",
                key.words()
            );
            let waits = self.unplaced.get(&quota.cluster_queue)?.clone();
            Some(Staged { key, wanted, waits })
        });
        waiting.collect()
    }
}

/// Whether an object gives any of it.
pub fn has_it(body: &Value) -> bool {
    quotas(body).keys().any(|(_, resource)| resource.as_str() == CURRENCY)
}

/// Whether any quota has a total that can be kept in it.
pub fn is_wanted(target: &Target) -> bool {
    live(target).any(|(name, quota)| total(&target.standing, name, quota).is_some())
}

/// The quotas whose queues have accelerators.
pub fn live(target: &Target) -> impl Iterator<Item = (&QuotaName, &QuotaSpec)> {
    let standing = &target.standing;
    standing.quotas.iter().filter(|(name, quota)| !quota.retire && has_accelerators(standing, name, quota))
}

/// What a quota may use over all its pools together, in the currency.
pub fn total(standing: &Standing, name: &QuotaName, quota: &QuotaSpec) -> Option<u64> {
    let pools: Vec<_> = pools(standing, name, quota).map(|(_, pool)| (pool.shape.gpus, holds::gpu(pool))).collect();
    worth::of_total(quota.total.as_ref()?, &pools)
}

/// The pools that a quota has a share of, or is lent some of.
pub fn pools<'a>(
    standing: &'a Standing,
    name: &'a QuotaName,
    quota: &'a QuotaSpec,
) -> impl Iterator<Item = (&'a PoolName, &'a PoolSpec)> + use<'a> {
    let loans = standing.tides.values().flat_map(|tide| &tide.loans).filter(move |loan| loan.to == *name);
    quota.pools.iter().chain(loans.map(|loan| &loan.pool)).filter_map(|pool| standing.pools.get_key_value(pool))
}

pub fn has_accelerators(standing: &Standing, name: &QuotaName, quota: &QuotaSpec) -> bool {
    pools(standing, name, quota).any(|(_, pool)| pool.shape.gpus > 0)
}

/// What one of each accelerator of the fleet is worth. Where two pools differ, the dearer: a total is never passed.
pub fn worths(target: &Target) -> holds::Resources {
    let standing = &target.standing;
    let mut found = holds::Resources::new();
    for (name, pool) in standing.pools.iter().filter(|(_, pool)| pool.shape.gpus > 0) {
        for layout in gpus::layouts(standing, name, pool) {
            for (resource, worth) in holds::worths(standing, pool, &layout) {
                let known = found.entry(resource).or_insert(worth);
                *known = worth.max(*known);
            }
        }
    }
    found
}

/// What all of these are worth together.
pub fn worth(target: &Target, held: &holds::Resources) -> u64 {
    if held.is_empty() {
        return 0;
    }
    let worths = worths(target);
    held.iter().map(|(resource, amount)| amount * worths.get(resource).copied().unwrap_or(0)).sum()
}

pub fn flavor() -> Object {
    Object::new(ObjectKey::cluster(ObjectKind::ResourceFlavor, FLAVOR), json!({"spec": {}}))
}

/// The group of it in a queue. It is the queue's own: a total is a limit, and nobody else's.
pub fn group(total: Option<u64>, has_cohort: bool) -> Value {
    let mut quota = json!({"name": CURRENCY, "nominalQuota": quantity::count(total.unwrap_or(AMPLE))});
    if has_cohort {
        quota["borrowingLimit"] = "0".into();
        quota["lendingLimit"] = "0".into();
    }
    json!({"coveredResources": [CURRENCY], "flavors": [{"name": FLAVOR, "resources": [quota]}]})
}
