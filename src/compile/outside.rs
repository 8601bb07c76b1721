//! GPUs that pods hold and no queue has in its books: what is promised is less by them.
//!
//! A queue that promises what such a pod holds admits work that finds no place, or takes the place of the pod when it
//! is restarted. What a team runs so counts against its own guarantee, and against its total. What is more than that, and
//! what belongs to nobody, comes off what the pool holds beyond all guarantees, and then off everybody's guarantee in
//! proportion.
//!
//! That is what pods hold which no queue admitted; and of those that one did, the devices of claims that it does not count.
//! Kueue 0.19 lets in work with claims only where its Configuration maps their class to a resource, and counts that.

use std::collections::BTreeMap;

use super::cohorts;
use super::holds::{self, Resources};
use crate::effect::marks::POOL;
use crate::fleet::Target;
use crate::fleet::standing::QuotaSpec;
use crate::ids::{PoolName, QuotaName, ResourceName};
use crate::observed::{ClusterSeen, PodPhase, PodSeen};

/// What such pods hold, by pool and namespace.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outside(BTreeMap<PoolName, BTreeMap<String, Resources>>);

/// What is taken off a pool's quotas.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Off {
    pub quotas: BTreeMap<QuotaName, Resources>,
    pub free: Resources,
}

impl Outside {
    /// Of what was seen. A pod that is told to end holds its GPUs until it is gone.
    pub fn of(cluster: &ClusterSeen) -> Self {
        let nodes = cluster.nodes.seen();
        let mut found = Self::default();
        for pod in cluster.pods.seen() {
            let over = matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
            let Some(node) = pod.node.as_ref().filter(|_| !over) else { continue };
            let Some(pool) = nodes.get(node).and_then(|node| node.labels.get(POOL)) else { continue };
            for (resource, amount) in pod.requests.iter().filter(|(resource, _)| !is_booked(cluster, pod, resource)) {
                let amount = u64::try_from(*amount).unwrap_or(0);
                if amount > 0 && holds::is_accelerator(resource) {
                    found.add(pool, pod.name.namespace.as_str(), resource.clone(), amount);
                }
            }
        }
        found
    }

    pub fn add(&mut self, pool: &str, namespace: &str, resource: ResourceName, amount: u64) {
        let by_namespace = self.0.entry(pool.into()).or_default();
        *by_namespace.entry(namespace.to_owned()).or_default().entry(resource).or_insert(0) += amount;
    }

    /// What the namespaces of a quota hold so, of all pools.
    pub fn held_by(&self, quota: &QuotaSpec) -> Resources {
        let is_its = |namespace: &String| quota.namespaces.iter().any(|(its, _)| its == namespace);
        let all = self.0.values().flatten().filter(|(namespace, _)| is_its(namespace));
        holds::sum(all.map(|(_, resources)| resources.clone()))
    }

    pub fn off(&self, target: &Target, name: &PoolName) -> Off {
        let mut off = Off::default();
        let (Some(taken), Some(guarantees)) = (self.0.get(name), guarantees(target, name)) else { return off };
        let mut free = cohorts::unclaimed(target, name);
        let mut rest = Resources::new();
        for (namespace, resources) in taken {
            let is_its = |spec: &QuotaSpec| spec.namespaces.iter().any(|(its, _)| its == namespace);
            let team = guarantees.keys().find(|quota| target.standing.quotas.get(**quota).is_some_and(is_its));
            for (resource, amount) in resources {
                let mut left = *amount;
                if let Some(team) = team {
                    let sum = off.quotas.entry((*team).clone()).or_default().entry(resource.clone()).or_insert(0);
                    let own = guarantees[team].get(resource).copied().unwrap_or(0);
                    let more = left.min(own.saturating_sub(*sum));
                    *sum += more;
                    left -= more;
                }
                let unclaimed = free.entry(resource.clone()).or_insert(0);
                let more = left.min(*unclaimed);
                *unclaimed -= more;
                *off.free.entry(resource.clone()).or_insert(0) += more;
                *rest.entry(resource.clone()).or_insert(0) += left - more;
            }
        }
        for (resource, amount) in rest.into_iter().filter(|(_, amount)| *amount > 0) {
            let of = |resources: Option<&Resources>| resources.and_then(|all| all.get(&resource)).copied().unwrap_or(0);
            let left: Vec<u64> =
                guarantees.iter().map(|(quota, its)| of(Some(its)) - of(off.quotas.get(*quota))).collect();
            let amount = amount.min(left.iter().sum());
            for (quota, part) in guarantees.keys().zip(cohorts::split(amount, &left)) {
                *off.quotas.entry((*quota).clone()).or_default().entry(resource.clone()).or_insert(0) += part;
            }
        }
        off
    }
}

/// Whether a queue counts what a pod holds of a resource. Work that was not seen is taken for counted.
fn is_booked(cluster: &ClusterSeen, pod: &PodSeen, resource: &ResourceName) -> bool {
    pod.workload.as_ref().is_some_and(|uid| {
        let work = cluster.workloads.seen().get(uid);
        work.is_none_or(|work| work.requests.contains_key(resource) || work.flavors.contains_key(resource))
    })
}

/// What each quota is guaranteed of a pool now.
fn guarantees<'a>(target: &'a Target, name: &PoolName) -> Option<BTreeMap<&'a QuotaName, Resources>> {
    let standing = &target.standing;
    let pool = standing.pools.get(name)?;
    let each = standing.per_node(pool, &pool.layout);
    let shares = target.quotas.iter().filter(|(quota, _)| standing.quotas.get(*quota).is_some_and(|one| !one.retire));
    let shares = shares.filter_map(|(quota, one)| Some((quota, one.shares.get(name)?)));
    let counted = |supply| holds::counted(standing, pool, &pool.layout, &supply);
    Some(shares.map(|(quota, share)| (quota, counted(share.guarantee.supply(&each)))).collect())
}
