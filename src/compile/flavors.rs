//! Topologies and ResourceFlavors: every pool is one flavor, placed by its fabric.

use serde_json::{Value, json};

use crate::effect::marks::POOL;
use crate::effect::{Object, digest_of};
use crate::fleet::Target;
use crate::fleet::launch::Taint;
use crate::fleet::pool::Source;
use crate::fleet::standing::{Level, PoolSpec, Standing};
use crate::ids::LevelName;
use crate::observed::{ObjectKey, ObjectKind};

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Kueue takes no more tolerations in a flavor.
const MOST_TOLERATIONS: usize = 8;
/// Kueue takes no more levels in a Topology.
const MOST_LEVELS: usize = 16;

/// Families that EC2 labels with their place in the network. A node without a level's label is not seen by Kueue at
/// all, so other types are placed by their host alone.
const LABELLED: [&str; 14] = [
    "p3dn",
    "p4d",
    "p4de",
    "p5",
    "p5e",
    "p5en",
    "p6-b200",
    "p6-b300",
    "p6e-gb200",
    "g6e",
    "g7e",
    "trn1",
    "trn1n",
    "trn2",
];

/// Topologies first, then the flavors that name them.
pub fn objects(target: &Target) -> Vec<Object> {
    let standing = &target.standing;
    let mut topologies: Vec<Object> = Vec::new();
    let mut flavors = Vec::new();
    for (name, pool) in &standing.pools {
        let topology = topology(standing, &levels(standing, pool));
        let tolerations: Vec<Value> = pool.taints.iter().take(MOST_TOLERATIONS).map(toleration).collect();
        let mut spec = json!({"nodeLabels": {POOL: name.as_str()}, "topologyName": &*topology.key.name});
        if !tolerations.is_empty() {
            spec["tolerations"] = tolerations.into();
        }
        flavors.push(Object::new(ObjectKey::cluster(ObjectKind::ResourceFlavor, name.as_str()), json!({"spec": spec})));
        if !topologies.contains(&topology) {
            topologies.push(topology);
        }
    }
    topologies.sort_by(|one, other| one.key.cmp(&other.key));
    topologies.into_iter().chain(flavors).collect()
}

/// Label keys from the top of the fabric down to the host.
fn levels(standing: &Standing, pool: &PoolSpec) -> Vec<String> {
    let exists = pool.capacity.iter().all(|source| matches!(source, Source::Existing { .. }));
    let family = pool.shape.instance_type.as_str().split('.').next().unwrap_or_default();
    let is_labelled = pool.shape.gpus > 0 && (exists || LABELLED.contains(&family) || family.starts_with("hpc"));
    // What is launched has no name that a file could hold.
    let labels = match exists {
        true => standing.level_labels(),
        false => standing.levels.iter().filter_map(|level| level.node_label.clone()).collect(),
    };
    let mut levels: Vec<String> = labels.into_iter().filter(|label| is_labelled && label != HOSTNAME).collect();
    if levels.len() < MOST_LEVELS {
        levels.push(HOSTNAME.into());
        return levels;
    }
    // One too many with the host: the coarsest that no pool asks for is left out, else the host.
    let named = named(standing);
    if let Some(at) = levels.iter().position(|label| !named.contains(label)) {
        levels.remove(at);
        levels.push(HOSTNAME.into());
    }
    levels
}

/// The labels of levels that pools ask to share, or that their work is to share.
fn named(standing: &Standing) -> Vec<String> {
    let asked = standing.pools.values().filter_map(|pool| pool.placement.as_ref()?.together.as_ref());
    let preferred = standing.schedulers.values().filter_map(|profile| profile.prefer.as_ref());
    asked.chain(preferred).filter_map(|asked| label_of(standing, asked)).collect()
}

fn label_of(standing: &Standing, name: &LevelName) -> Option<String> {
    let level: &Level = standing.levels.iter().find(|level| level.name == *name)?;
    match &standing.declared {
        Some(_) => Some(level.declared_label()),
        None => level.node_label.clone(),
    }
}

/// The label of a level, where the topology of a pool has it.
pub fn label(standing: &Standing, pool: &PoolSpec, level: &LevelName) -> Option<String> {
    label_of(standing, level).filter(|label| levels(standing, pool).contains(label))
}

/// Levels cannot be changed, so other levels are another Topology: its name holds what is in it.
fn topology(standing: &Standing, levels: &[String]) -> Object {
    let name = match levels {
        [_] => "tidewright-host".into(),
        _ => format!("tidewright-{}-{:.8}", standing.fleet, digest_of(&levels)),
    };
    let levels: Vec<Value> = levels.iter().map(|label| json!({"nodeLabel": label})).collect();
    Object::new(ObjectKey::cluster(ObjectKind::Topology, &name), json!({"spec": {"levels": levels}}))
}

/// Only what the pool's document says. Our own drain taint is tolerated by nobody.
fn toleration(taint: &Taint) -> Value {
    let Taint { key, value, effect } = taint;
    match value {
        Some(value) => json!({"key": key, "operator": "Equal", "value": value, "effect": effect}),
        None => json!({"key": key, "operator": "Exists", "effect": effect}),
    }
}
