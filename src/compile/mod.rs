//! Target in, the cloud and cluster objects that are wanted out. Pure.
//!
//! What an object looks like stands here and nowhere else: Kueue's queues, flavors and topologies in [`queues`],
//! [`cohorts`], [`currency`], [`loans`], [`outside`], [`cuts`], [`staged`], [`renewed`] and [`flavors`], priority classes and admission
//! policies in [`tiers`], what work says of its place in [`placed`], the files of mig-manager and the device plugin in [`gpus`] and [`files`], a second scheduler's
//! in [`scheduler`], what a node is launched with and carries in [`nodes`],
//! which slots machines serve that nobody remembers in [`found`], what it is told as it starts in [`bootstrap`],
//! and what others' objects have to say for ours to mean anything in [`others`]. Bodies are as the API server gives them
//! back, quantities in their canonical form, so that they can be compared.
//!
//! Only what is written into an object follows the hour. Which objects there are, who stands below whom, and which
//! resources a queue covers come from what the documents say for all hours: Kueue forgets what runs when a queue drops
//! a flavor or a resource, and books it twice when a queue moves to another cohort. Where a document asks for that, it
//! comes in stages ([`staged`]).
//!
//! Not here: whether an object may be changed now, and in which order (`plan`); what Kueue will do with it (`queue`).

pub mod bootstrap;
pub mod cohorts;
pub mod currency;
pub mod cuts;
pub mod files;
pub mod flavors;
pub mod found;
pub mod gpus;
pub mod holds;
pub mod loans;
pub mod nodes;
pub mod others;
pub mod outside;
pub mod placed;
pub mod quantity;
pub mod queues;
pub mod renewed;
pub mod scheduler;
pub mod seats;
pub mod staged;
pub mod tiers;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::json;

use crate::effect::{Desired, Object};
use crate::fleet::Target;
use crate::fleet::standing::QuotaSpec;
use crate::ids::{FleetUid, QuotaName};
use crate::observed::{ClusterSeen, ObjectKey, ObjectKind};
use currency::Covered;
use files::InUse;
use outside::Outside;

/// Where mig-manager and the device plugin look for their files.
pub const GPU_OPERATOR: &str = "gpu-operator";
/// Where our own things live.
pub const OUR_NAMESPACE: &str = "tidewright-system";

/// Everything that is wanted at the target's instant. Who is named comes before who names it.
pub fn compile(target: &Target) -> Desired {
    compile_beside(target, &Beside::default())
}

/// What of the snapshot decides what is wanted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Beside {
    /// Pods that hold GPUs which no queue gave them.
    pub outside: Outside,
    /// Entries that nodes name, whatever the documents say.
    pub in_use: InUse,
    /// Which queues may count GPUs and slices together.
    pub covered: Covered,
    /// Who the fleet is, where that is known: what an account has of it is called so.
    pub owner: Option<FleetUid>,
}

impl Beside {
    pub fn of(cluster: &ClusterSeen, known: usize) -> Self {
        let (outside, in_use) = (Outside::of(cluster), InUse::of(cluster, known));
        Self { outside, in_use, covered: Covered::of(cluster), owner: None }
    }
}

/// The same beside what is there.
pub fn compile_beside(target: &Target, Beside { outside, in_use, covered, owner }: &Beside) -> Desired {
    let mut objects = tiers::classes(target);
    objects.extend(gpus::config_maps(target, in_use));
    objects.extend(scheduler::config_map(target));
    objects.extend(flavors::objects(target));
    let covers = |(name, quota): (&QuotaName, &QuotaSpec)| covered.covers(target, name, quota);
    objects.extend(currency::live(target).any(covers).then(currency::flavor));
    objects.extend(cohorts::objects(target, outside));
    objects.extend(queues::objects(target, outside, covered));
    objects.extend(tiers::policies(target));
    objects.extend(placed::policies(target, covered));
    objects.splice(0..0, namespaces(&objects));
    let wanted: BTreeSet<&ObjectKey> = objects.iter().map(|object| &object.key).collect();
    let retired = retired(target).into_iter().filter(|key| !wanted.contains(key)).collect();
    let (standing, pools) = (&target.standing, target.standing.pools.iter());
    let owner = owner.as_ref().map_or(standing.fleet.as_str(), FleetUid::as_str);
    let pools = pools.map(|(name, pool)| (name.clone(), nodes::pool_objects(standing, owner, name, pool)));
    Desired { retired, pools: pools.collect(), objects, staged: covered.staged(target) }
}

/// A namespace belongs to its team or its operator, and usually exists. But an object cannot be written into one that
/// does not, and people expect a queue that they named to be there after the first apply. So every namespace is asked
/// for with an empty body: it is made where it is missing, nothing in it is ours, and it is never retired.
fn namespaces(objects: &[Object]) -> Vec<Object> {
    let names: BTreeSet<_> = objects.iter().filter_map(|object| object.key.namespace.as_deref()).collect();
    names.into_iter().map(|name| Object::new(ObjectKey::cluster(ObjectKind::Namespace, name), json!({}))).collect()
}

/// What belongs to quotas that are retired, in the order in which it can be deleted.
fn retired(target: &Target) -> Vec<ObjectKey> {
    let gone: Vec<_> = target.standing.quotas.iter().filter(|(_, quota)| quota.retire).collect();
    let policies =
        |(name, _): &(&QuotaName, &QuotaSpec)| tiers::policy_keys(name).into_iter().chain(placed::policy_keys(name));
    let mut keys: Vec<ObjectKey> = gone.iter().flat_map(policies).collect();
    keys.extend(gone.iter().flat_map(|(_, quota)| queues::keys(quota)));
    keys.extend(cohorts::left_by(gone.into_iter().map(|(_, quota)| quota)));
    keys
}
