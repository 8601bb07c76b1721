//! What nodes offer beside what is known of their type: adapters and pages of own hardware, devices of other plugins.
//!
//! Kueue admits nothing that asks for a resource which its queue does not cover, and no document says what device plugins
//! and kubelets offer. So a queue covers what the nodes of its pools show, and those that a pool may claim. Only the names
//! come from there: how much a node shows changes with every restart of a plugin, while more than any node has never
//! does. Where there is room for the pods is for placement to say, node by node.
//!
//! What is covered once stays: a plugin that begins anew shows nothing for a moment, and a queue that forgets a resource
//! forgets who holds it. It is known by its amount, which nobody else writes; so what a person adds by hand is drift.

use std::collections::{BTreeMap, BTreeSet};

use super::holds;
use crate::effect::marks::POOL;
use crate::fleet::Target;
use crate::fleet::pool::Source;
use crate::fleet::standing::PoolSpec;
use crate::ids::{FlavorName, PoolName, ResourceName};
use crate::observed::{ClusterSeen, NodeSeen, ObjectKey, ObjectKind};
use crate::queue::parse::quotas;

/// Accelerators by another name, or parts of one: who could ask for these without limit would be given what others are
/// guaranteed.
const ACCELERATORS: [&str; 2] = ["amd.com/", "aws.amazon.com/neuron"];

/// The names of what is offered so, by pool.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Shown(BTreeMap<PoolName, BTreeSet<ResourceName>>);

impl Shown {
    pub fn of(target: &Target, cluster: &ClusterSeen) -> Self {
        let pools = &target.standing.pools;
        let mut found = Self::default();
        for node in cluster.nodes.seen().values() {
            let mut offers = node.allocatable.iter().filter(|(resource, amount)| **amount > 0 && is_beside(resource));
            let Some(first) = offers.next() else { continue };
            for pool in pools_of(target, node) {
                let known = found.0.entry(pool.clone()).or_default();
                known.extend([first].into_iter().chain(offers.clone()).map(|(resource, _)| resource.clone()));
            }
        }
        let gives = |kind| matches!(kind, ObjectKind::ClusterQueue | ObjectKind::Cohort);
        let bodies = cluster.objects.seen().iter().filter(|(key, _)| gives(key.kind)).map(|(_, seen)| &seen.body);
        for ((flavor, resource), quota) in bodies.flat_map(quotas).filter(|((_, resource), _)| is_beside(resource)) {
            let Some((name, pool)) = pool_of(target, cluster, &flavor).and_then(|name| pools.get_key_value(&name))
            else {
                continue;
            };
            if is_ours(pool, &resource, quota.nominal) {
                found.0.entry(name.clone()).or_default().insert(resource);
            }
        }
        found
    }

    pub fn by(&self, pool: &PoolName) -> impl Iterator<Item = &ResourceName> {
        self.0.get(pool).into_iter().flatten()
    }
}

/// Whether it only has to be there, so that a queue may cover it without giving away what is counted.
fn is_beside(resource: &ResourceName) -> bool {
    let name = resource.as_str();
    let is_other = name.contains('/') && !name.starts_with("tidewright.dev/");
    (is_other || holds::is_pages(resource))
        && !holds::is_accelerator(resource)
        && !ACCELERATORS.iter().any(|prefix| name.starts_with(prefix))
}

/// The pools that a node is in, or may be claimed for.
fn pools_of<'a>(target: &'a Target, node: &NodeSeen) -> Vec<&'a PoolName> {
    let pools = &target.standing.pools;
    if let Some(label) = node.labels.get(POOL) {
        return pools.get_key_value(label.as_str()).map(|(name, _)| name).into_iter().collect();
    }
    let carries =
        |labels: &BTreeMap<String, String>| labels.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let claims = |pool: &PoolSpec| {
        pool.capacity.iter().any(|source| matches!(source, Source::Existing { labels } if carries(labels)))
    };
    pools.iter().filter(|(_, pool)| claims(pool)).map(|(name, _)| name).collect()
}

/// The pool that a flavor stands for; one that could not be read by its name.
fn pool_of(target: &Target, cluster: &ClusterSeen, flavor: &FlavorName) -> Option<PoolName> {
    let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str());
    let Some(seen) = cluster.objects.seen().get(&key) else {
        return target.standing.pools.contains_key(flavor.as_str()).then(|| flavor.as_str().into());
    };
    seen.body["spec"]["nodeLabels"][POOL].as_str().map(PoolName::from)
}

/// Whether an amount is so much for each of some nodes as we write it.
fn is_ours(pool: &PoolSpec, resource: &ResourceName, amount: i64) -> bool {
    let each = holds::most(pool, resource) << if holds::is_pages(resource) { 30 } else { 0 };
    u64::try_from(amount).is_ok_and(|amount| amount > 0 && amount.is_multiple_of(each.max(1)))
}
