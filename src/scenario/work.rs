//! What users submit to the cluster.

use std::collections::BTreeMap;

use super::Wrong;
use super::bench::Bench;
use super::command::{GangWish, PodKind, ServiceWish, Size, Work};
use crate::ids::{NamespacedName, ResourceName};
use crate::provider::sim::cluster::{GangSpec, PodTemplate, ServiceSpec, Tolerates};
use crate::queue::parse::quantity;

pub fn work(bench: &mut Bench, work: &Work) -> Result<Vec<String>, Wrong> {
    match work {
        Work::Gang(wish) => {
            let spec = gang(bench, wish)?;
            bench.sim.in_cluster(|cluster, now| cluster.submit_gang(now, spec))?;
        }
        Work::Service(wish) => {
            let spec = service(bench, wish)?;
            bench.sim.in_cluster(|cluster, now| cluster.submit_service(now, spec))?;
        }
        Work::Pod { kind, name, place } => {
            let node = place.as_ref().map(|place| bench.node(place)).transpose()?;
            bench.sim.in_cluster(|cluster, now| match (kind, &node) {
                (PodKind::Bare, node) => {
                    cluster.add_bare_pod(now, name, node.as_ref(), PodTemplate::default()).map(|_| ())
                }
                (PodKind::Daemon, _) => cluster.add_daemon(now, name, PodTemplate::default()),
                (PodKind::Mirror, Some(node)) => cluster.add_mirror_pod(now, name, node),
                (PodKind::Mirror, None) => Ok(()),
            })?;
        }
        Work::Budget { name, app, spec } => {
            bench.sim.in_cluster(|cluster, now| cluster.add_budget(now, name, app, spec.clone()));
        }
        Work::Finish(name) => {
            let name = gang_named(bench, name)?;
            bench.sim.in_cluster(|cluster, now| match cluster.gang_named(&name) {
                Some(_) => cluster.finish(now, &name),
                None => cluster.scale_service(now, &name, 0),
            })?;
        }
        Work::DenyEvictions(app) => bench.sim.in_cluster(|cluster, _| cluster.deny_evictions(app)),
    }
    Ok(Vec::new())
}

/// A gang by its name, with its namespace where two have the same.
pub fn gang_named(bench: &Bench, name: &str) -> Result<NamespacedName, Wrong> {
    if name.contains('/') {
        return name.parse().map_err(Wrong::new);
    }
    let state = bench.sim.state();
    let seen = state.cluster.observe(state.now);
    let mut found = seen.workloads.seen().values().filter(|workload| &*workload.name.name == name);
    match (found.next(), found.next()) {
        (Some(workload), None) => Ok(workload.name.clone()),
        (Some(_), Some(_)) => Err(format!("more than one gang is named {name}: write NAMESPACE/{name}").into()),
        (None, _) => Err(format!("there is no gang {name}").into()),
    }
}

/// In the quota's first namespace and queue; whole nodes of its first pool.
fn gang(bench: &mut Bench, wish: &GangWish) -> Result<GangSpec, Wrong> {
    let target = bench.fleet()?.target_at(bench.sim.now());
    let standing = &target.standing;
    bench.names.quota(&wish.quota)?;
    wish.tier.iter().try_for_each(|tier| bench.names.tier(tier))?;
    let gone = || Wrong::new(format!("the document of quota {} is gone", wish.quota));
    let quota = standing.quotas.get(&wish.quota).ok_or_else(gone)?;
    let (namespace, queue) =
        quota.namespaces.first().ok_or_else(|| Wrong::new(format!("{} has no namespace", wish.quota)))?;
    let name = wish.name.clone().unwrap_or_else(|| {
        bench.gangs += 1;
        format!("gang-{}", bench.gangs)
    });
    let mut spec = match &wish.size {
        Size::Gpus(gpus) => {
            let lent = target.quotas.get(&wish.quota).and_then(|quota| quota.loans.first()).map(|loan| &loan.pool);
            let pool = quota.pools.first().or(lent).and_then(|pool| standing.pools.get(pool));
            let per_node = pool.map_or(8, |pool| pool.shape.gpus).max(1);
            if *gpus > per_node && gpus % per_node != 0 {
                return Err(format!("{gpus} GPUs are no whole nodes of {per_node}").into());
            }
            GangSpec::new(namespace, &name, queue, gpus.div_ceil(per_node), (*gpus).min(per_node))
        }
        Size::Pods { pods, resource } => {
            let mut spec = GangSpec::new(namespace, &name, queue, *pods, 0);
            spec.template.requests = [(resource.as_str().into(), 1)].into();
            spec
        }
    };
    spec.template.requests.extend(amounts(&wish.with)?);
    spec.tier = wish.tier.clone().or_else(|| quota.tiers.first().cloned());
    (spec.save_secs, spec.work_secs, spec.fewest) = (wish.save_secs, wish.work_secs, wish.fewest);
    if let Some(level) = &wish.level {
        let label = standing.levels.iter().find(|known| known.name.as_str() == level);
        let declared = standing.declared.is_some();
        let label =
            label.and_then(|level| level.node_label.clone().or_else(|| declared.then(|| level.declared_label())));
        spec.required_level =
            Some(label.ok_or_else(|| Wrong::new(format!("the fabric has no level {level} with a label")))?);
    }
    Ok(spec)
}

/// Resources as they are written in a line.
pub fn amounts(pairs: &[(String, String)]) -> Result<BTreeMap<ResourceName, i64>, Wrong> {
    let amount = |(name, text): &(String, String)| {
        let name = ResourceName::from(name.as_str());
        let amount = quantity(&name, &text.as_str().into());
        Ok((name, amount.ok_or_else(|| Wrong::new(format!("`{text}` is no amount")))?))
    };
    pairs.iter().map(amount).collect()
}

fn service(bench: &Bench, wish: &ServiceWish) -> Result<ServiceSpec, Wrong> {
    let name = &wish.name;
    wish.pool.iter().try_for_each(|pool| bench.names.pool(pool))?;
    let mut spec = ServiceSpec::new(
        name.namespace.as_str(),
        &name.name,
        wish.replicas,
        &wish.resource,
        wish.amount,
        wish.pool.as_ref(),
    );
    spec.budget.clone_from(&wish.budget);
    (spec.together, spec.save_secs) = (wish.together, wish.save_secs);
    if wish.anywhere {
        spec.template.tolerates = Tolerates::everything();
    }
    if let Some(name) = &wish.tier {
        let target = bench.fleet()?.target_at(bench.sim.now());
        bench.names.tier(name)?;
        let gone = || Wrong::new(format!("the document of tier {name} is gone"));
        let tier = target.standing.tiers.get(name).ok_or_else(gone)?;
        spec.template.priority = tier.rank;
    }
    Ok(spec)
}
