//! What a queue in the cluster gives to a quota now, in the unit in which its document speaks of it.
//!
//! The documents say what should be; while a change of them waits, for a person or for nodes, the queue still says
//! something else, and that is what holds.

use std::collections::BTreeMap;

use crate::compile::{holds, loans};
use crate::fleet::quota::{Amount, Supply};
use crate::fleet::standing::{PoolSpec, QuotaSpec, Standing};
use crate::ids::{FlavorName, PoolName, QuotaName, ResourceName};
use crate::observed::{ObjectKey, ObjectKind};
use crate::plan::PlanInput;
use crate::queue::Quota;
use crate::queue::parse::quotas;

const CPU: &str = "cpu";

/// What a queue gives of each pool.
#[derive(Debug)]
pub struct Written<'a> {
    input: &'a PlanInput,
    quota: &'a QuotaName,
    pools: BTreeMap<PoolName, BTreeMap<ResourceName, Quota>>,
}

/// None where nobody knows: the queue was not seen, and not everything could be read.
pub fn written<'a>(
    input: &'a PlanInput,
    flavors: &BTreeMap<FlavorName, PoolName>,
    quota: &'a QuotaName,
    spec: &QuotaSpec,
) -> Option<Written<'a>> {
    let cluster = &input.observed.cluster;
    let key = ObjectKey::cluster(ObjectKind::ClusterQueue, &spec.cluster_queue);
    let seen = cluster.objects.seen().get(&key);
    if seen.is_none() && cluster.gap_of(key.kind).is_some() {
        return None;
    }
    let mut pools: BTreeMap<PoolName, BTreeMap<ResourceName, Quota>> = BTreeMap::new();
    for ((flavor, resource), given) in seen.map(|seen| quotas(&seen.body)).unwrap_or_default() {
        if let Some(pool) = flavors.get(&flavor) {
            pools.entry(pool.clone()).or_default().insert(resource, given);
        }
    }
    Some(Written { input, quota, pools })
}

impl Written<'_> {
    /// The pools of which it gives something.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.pools.keys().filter(|pool| self.guarantee(pool, None).is_some_and(|amount| !amount.is_nothing()))
    }

    /// What it guarantees of a pool, in the unit of an amount.
    pub fn guarantee(&self, pool: &PoolName, unit: Option<&Amount>) -> Option<Amount> {
        self.amount(pool, unit, |_, quota| quota.nominal)
    }

    /// What others of its cohort may borrow of that, beside what tides lend.
    pub fn lend(&self, pool: &PoolName, unit: Option<&Amount>) -> Option<Amount> {
        let by_tides = loans::most(&self.input.target, pool, |loan| loan.from == *self.quota);
        let by_tides = |resource: &ResourceName| by_tides.get(resource).map_or(0, |amount| whole(*amount));
        self.amount(pool, unit, |resource, quota| quota.lending_limit.unwrap_or(0) - by_tides(resource))
    }

    fn amount(
        &self,
        pool: &PoolName,
        unit: Option<&Amount>,
        of: impl Fn(&ResourceName, &Quota) -> i64,
    ) -> Option<Amount> {
        let given = self.pools.get(pool)?;
        let standing = &self.input.target.standing;
        let spec = standing.pools.get(pool)?;
        let amount = |resource: &ResourceName| {
            let each = given.get(resource).map_or(0, |quota| of(resource, quota)).max(0);
            // CPUs are counted in thousandths.
            u32::try_from(if resource.as_str() == CPU { each / 1000 } else { each }).unwrap_or(u32::MAX)
        };
        let own = unit_of(standing, spec);
        Some(match unit.unwrap_or(&own) {
            Amount::Gpus(_) => Amount::Gpus(in_parts(standing, spec, &Supply { gpus: 1, ..Supply::default() }, amount)),
            Amount::Nodes(_) => Amount::Nodes(in_parts(standing, spec, &standing.per_node(spec, &spec.layout), amount)),
            Amount::Slices(slices) => {
                let of = |profile| amount(&holds::slice(profile));
                Amount::Slices(slices.keys().map(|profile| (profile.clone(), of(profile))).collect())
            }
        })
    }
}

/// How many of these parts some resources make.
fn in_parts(standing: &Standing, pool: &PoolSpec, part: &Supply, amount: impl Fn(&ResourceName) -> u32) -> u32 {
    let needs = holds::counted(standing, pool, &pool.layout, part).into_iter();
    let needs = needs.filter(|(name, each)| *each > 0 && (holds::is_accelerator(name) || name.as_str() == CPU));
    let counts = needs.filter_map(|(name, each)| amount(&name).checked_div(u32::try_from(each).ok()?));
    counts.min().unwrap_or(0)
}

/// How a person would speak of some of a pool.
fn unit_of(standing: &Standing, pool: &PoolSpec) -> Amount {
    let each = standing.per_node(pool, &pool.layout);
    match (each.gpus, each.slices.is_empty()) {
        (0, true) => Amount::Nodes(0),
        (0, false) => Amount::Slices(each.slices),
        _ => Amount::Gpus(0),
    }
}

fn whole(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
