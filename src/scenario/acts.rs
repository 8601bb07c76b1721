//! What hardware, people and the weather do to the world.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Wrong;
use super::bench::Bench;
use super::command::Act;
use super::work::amounts;
use crate::effect::Ledger;
use crate::effect::marks::HANDS_OFF;
use crate::fleet::standing::Standing;
use crate::ids::{InstanceType, TideName};
use crate::provider::sim::cluster::{Acceptance, NodeJoin};

type Said = Result<Vec<String>, Wrong>;

pub fn act(bench: &mut Bench, act: &Act) -> Said {
    let nothing = Ok(Vec::new());
    match act {
        Act::Kill(place) => {
            let instance = bench.instance(place)?;
            if bench.sim.kill(&instance) { nothing } else { Err(format!("{} does not run", place.0).into()) }
        }
        Act::Interrupt(place) => {
            let instance = bench.instance(place)?;
            if bench.sim.interrupt(&instance) { nothing } else { Err(format!("{} is no spot node", place.0).into()) }
        }
        Act::Recommend(place) => {
            let instance = bench.instance(place)?;
            if bench.sim.recommend_move(&instance) { nothing } else { Err(format!("{} does not run", place.0).into()) }
        }
        Act::Maintenance { place, within } => {
            let instance = bench.instance(place)?;
            bench.sim.give_maintenance_notice(&instance, *within);
            nothing
        }
        Act::Xid { .. }
        | Act::Condition { .. }
        | Act::Ready { .. }
        | Act::RemoveNode(_)
        | Act::Mig { .. }
        | Act::MigRestart(_)
        | Act::Cordon { .. }
        | Act::HandsOff { .. }
        | Act::Label { .. } => on_node(bench, act),
        Act::Traffic { tide, value } => {
            let query = query(bench, tide)?;
            match value {
                Some(value) => bench.sim.set_guard(&query, *value, None),
                None => bench.sim.clear_guard(&query),
            }
            nothing
        }
        Act::Capacity { kind, zone, market, left } => {
            bench.sim.set_capacity(kind, zone, *market, *left);
            nothing
        }
        Act::ForeignInstance { kind, zone } => {
            bench.sim.add_foreign_instance(kind, zone);
            nothing
        }
        Act::Existing { node, kind, gpus, labels, shows } => {
            let (labels, shows) = (labels.iter().cloned().collect(), amounts(shows)?);
            let join = NodeJoin { labels, shows, ..existing(bench, node, kind, *gpus) };
            bench.sim.in_cluster(|cluster, now| cluster.existing_node(now, &join));
            nothing
        }
        Act::Change { object, path, value, by } => {
            let found = bench.sim.in_cluster(|cluster, _| cluster.body_of(object).cloned());
            let mut body = found.unwrap_or_else(|| json!({}));
            set(&mut body, path, value)?;
            bench.sim.in_cluster(|cluster, now| cluster.change_object(now, by, object, &body))?;
            nothing
        }
        Act::DeleteObject { object } => {
            bench.sim.in_cluster(|cluster, now| cluster.delete_object(now, object))?;
            nothing
        }
        Act::LoseLedger(identity) => {
            bench.sim.aside(|state| state.ledger.put(&Ledger::default()));
            bench.uid = identity.clone().unwrap_or_else(|| bench.uid.clone());
            bench.door.iter().for_each(|door| door.be(&bench.uid));
            nothing
        }
        Act::Acceptance(secs) => {
            let acceptance = secs.map_or(Acceptance::Never, Acceptance::After);
            bench.sim.in_cluster(|cluster, _| cluster.set_acceptance(acceptance));
            nothing
        }
    }
}

fn on_node(bench: &mut Bench, act: &Act) -> Said {
    let (Act::Xid { place, .. }
    | Act::Condition { place, .. }
    | Act::Ready { place, .. }
    | Act::RemoveNode(place)
    | Act::Mig { place, .. }
    | Act::MigRestart(place)
    | Act::Cordon { place, .. }
    | Act::HandsOff { place, .. }
    | Act::Label { place, .. }) = act
    else {
        return Ok(Vec::new());
    };
    let node = bench.node(place)?;
    bench.sim.in_cluster(|cluster, now| match act {
        Act::Xid { code, heals, .. } => cluster.xid(now, &node, *code, *heals),
        Act::Condition { kind, status, message, .. } => cluster.set_condition(now, &node, kind, *status, message),
        Act::Ready { ready, .. } => cluster.set_ready(now, &node, *ready),
        Act::RemoveNode(_) => cluster.delete_node(now, &node),
        Act::Cordon { on, .. } => cluster.set_unschedulable(now, &node, *on),
        Act::HandsOff { on, .. } => cluster.annotate(now, &node, HANDS_OFF, on.then_some("a person works on it")),
        Act::Label { key, value, by, .. } => cluster.label(now, &node, (key, value.as_deref()), by.as_deref()),
        Act::MigRestart(_) => cluster.restart_gpu_stack(now, &node),
        Act::Mig { fault, .. } => {
            cluster.fail_next_cut(Some(node.clone()), *fault);
            Ok(())
        }
        _ => Ok(()),
    })?;
    Ok(Vec::new())
}

/// What a tide's guard asks for.
fn query(bench: &Bench, tide: &TideName) -> Result<String, Wrong> {
    let target = bench.fleet()?.target_at(bench.sim.now());
    bench.names.tide(tide)?;
    let gone = || Wrong::new(format!("the document of {tide} is gone"));
    let spec = target.standing.tides.get(tide).ok_or_else(gone)?;
    let guard = spec.guard.as_ref().ok_or_else(|| Wrong::new(format!("{tide} has no guard")))?;
    Ok(guard.prometheus.clone())
}

/// A node as the fleet's documents know its type, else as a plain one.
fn existing(bench: &Bench, name: &str, kind: &InstanceType, gpus: u32) -> NodeJoin {
    let standing = bench.fleet.as_ref().map(|fleet| fleet.target_at(bench.sim.now()).standing);
    let shape = |standing: &Standing| {
        let mut shapes = standing.pools.values().map(|pool| &pool.shape);
        shapes.find(|shape| shape.instance_type == *kind).cloned()
    };
    let shape = standing.as_deref().and_then(shape);
    NodeJoin {
        name: name.into(),
        instance: None,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        gpus,
        gpu: shape.as_ref().and_then(|shape| shape.gpu.clone()),
        instance_type: kind.clone(),
        vcpus: shape.as_ref().and_then(|shape| shape.vcpus).unwrap_or(96),
        memory_gib: shape.as_ref().and_then(|shape| shape.memory_gib).unwrap_or(1024),
        efa: shape.as_ref().map_or(0, |shape| shape.efa),
        shows: BTreeMap::new(),
    }
}

/// Sets a field of a body: `spec.cohort`, `spec.resourceGroups.0.flavors.0.name`.
fn set(body: &mut Value, path: &str, text: &str) -> Result<(), Wrong> {
    let mut at = body;
    let mut rest = Some(path);
    while let Some(path) = rest {
        // A key of a ConfigMap is often the name of a file, with a dot in it.
        let keys = at.as_object().into_iter().flat_map(|map| map.keys());
        let is_next = |key: &&String| {
            path.strip_prefix(key.as_str()).is_some_and(|left| left.is_empty() || left.starts_with('.'))
        };
        let first = path.split('.').next().unwrap_or(path);
        let key = keys.filter(is_next).max_by_key(|key| key.len()).map_or(first, String::as_str).to_owned();
        rest = path[key.len()..].strip_prefix('.');
        let key = key.as_str();
        let next = match key.parse::<usize>() {
            Ok(index) if at.is_array() => at.get_mut(index),
            _ if at.is_object() || at.is_null() => Some(&mut at[key]),
            _ => None,
        };
        at = next.ok_or_else(|| Wrong::new(format!("`{path}` is no field of it")))?;
    }
    *at = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    Ok(())
}
