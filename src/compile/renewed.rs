//! Flavors whose topology or tolerations are to be others, which the server lets nobody change.
//!
//! The pool gets a second flavor, named by what is in it, and its queues list that one from now on. What runs on the old
//! one stays there: its queue goes on listing it with nothing to give ([`super::staged`]), and is given so much less of
//! the new one, because both are the same nodes. When nothing names the old flavor and nothing is on it, it is over, and
//! its topology with it. So new work is placed by the new levels at once, and nobody is disturbed. A node gets a taint when
//! its queues give out a flavor that tolerates it (`plan::taints`); one that leaves the pool goes from the nodes before the
//! flavor stops to tolerate it.
//!
//! Which of the two names a pool has is seen from what is there: a cluster from nothing gets the plain one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::flavors::{MOST_TOLERATIONS, meets, tolerates};
use super::{holds, quantity};
use crate::effect::marks::POOL;
use crate::effect::{Desired, Ledger, Object, Staged, digest_of};
use crate::fleet::Target;
use crate::fleet::launch::Taint;
use crate::ids::{FlavorName, InstanceId, NamespacedName, NodeName, PoolName, ResourceName};
use crate::observed::{ClusterSeen, ObjectKey, ObjectKind, ObjectSeen, WorkloadSeen};
use crate::queue::parse::quotas;

/// Gives flavors that cannot be as they are wanted under the pool's name another one, wherever they are named.
pub fn rename(desired: &mut Desired, cluster: &ClusterSeen) {
    let carried = still_tolerated(desired, cluster);
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for wanted in desired.objects.iter().filter(|one| one.key.kind == ObjectKind::ResourceFlavor) {
        let versioned = format!("{}-{:.8}", wanted.key.name, digest_of(&fixed(&wanted.body)));
        if is_taken(cluster, wanted, &versioned) {
            names.insert(wanted.key.name.to_string(), versioned);
        }
    }
    for object in desired.objects.iter_mut().filter(|_| !names.is_empty()) {
        match object.key.kind {
            ObjectKind::ResourceFlavor => {
                if let Some(name) = names.get(&*object.key.name) {
                    object.key = ObjectKey::cluster(ObjectKind::ResourceFlavor, name);
                }
            }
            ObjectKind::ClusterQueue | ObjectKind::Cohort => {
                let mut body = object.body.clone();
                for flavor in flavors(&mut body) {
                    if let Some(name) = flavor["name"].as_str().and_then(|name| names.get(name)) {
                        flavor["name"] = json!(name);
                    }
                }
                *object = Object::new(object.key.clone(), body);
            }
            _ => {}
        }
    }
    let current = current(desired);
    desired.staged.extend(carried.into_iter().filter_map(|(pool, (taint, carried))| {
        let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, current.get(&pool)?.as_str());
        let wanted = format!("{} without the toleration of {}", key.words(), taint);
        Some(Staged { key, wanted, waits: Vec::new(), carried })
    }));
}

/// A taint that leaves a pool goes from its nodes first: until then its work tolerates it, or none could be placed.
/// The order in which tolerations stand is no difference.
fn still_tolerated(desired: &mut Desired, cluster: &ClusterSeen) -> BTreeMap<PoolName, (String, Vec<NodeName>)> {
    let mut carried: BTreeMap<PoolName, (String, Vec<NodeName>)> = BTreeMap::new();
    let ours = cluster.objects.seen().iter();
    let ours = ours.filter(|(key, seen)| key.kind == ObjectKind::ResourceFlavor && seen.written.is_some());
    let mut of_pools: BTreeMap<PoolName, Vec<&Value>> = BTreeMap::new();
    for (_, seen) in ours.filter(|(_, seen)| seen.body["spec"]["topologyName"].is_string()) {
        if let Some(pool) = pool_of(&seen.body) {
            of_pools.entry(pool).or_default().push(&seen.body["spec"]["tolerations"]);
        }
    }
    for object in desired.objects.iter_mut().filter(|one| one.key.kind == ObjectKind::ResourceFlavor) {
        let Some(pool) = pool_of(&object.body) else { continue };
        let Some(seen) = of_pools.get(&pool) else { continue };
        let mut body = object.body.clone();
        let mut wanted = list(&body["spec"]["tolerations"]);
        let before = seen.iter().flat_map(|all| list(all)).filter(|one| !wanted.contains(one)).collect::<Vec<_>>();
        for one in before {
            let nodes = carrying(&object.body, &one, &pool, cluster);
            let is_known = cluster.nodes.gap().is_none();
            if (nodes.is_empty() && is_known) || wanted.len() >= MOST_TOLERATIONS || wanted.contains(&one) {
                continue;
            }
            let key = one["key"].as_str().unwrap_or("every taint").to_owned();
            carried.entry(pool.clone()).or_insert((key, nodes));
            wanted.push(one);
        }
        if let Some(same) = seen.iter().find(|all| sorted(all) == sorted(&json!(wanted))) {
            wanted = list(same);
        }
        if !wanted.is_empty() {
            body["spec"]["tolerations"] = wanted.into();
        }
        if body != object.body {
            *object = Object::new(object.key.clone(), body);
        }
    }
    carried
}

/// Nodes of a pool with a taint that this toleration is for, and that its flavor would not tolerate.
fn carrying(flavor: &Value, toleration: &Value, pool: &PoolName, cluster: &ClusterSeen) -> Vec<NodeName> {
    let nodes = cluster.nodes.seen().iter();
    let of_pool = nodes.filter(|(_, node)| node.labels.get(POOL).is_some_and(|name| *name == pool.as_str()));
    let carries = |taint: &Taint| meets(toleration, taint) && !tolerates(flavor, taint);
    of_pool.filter(|(_, node)| node.taints.iter().any(carries)).map(|(name, _)| name.clone()).collect()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn sorted(tolerations: &Value) -> Vec<String> {
    let mut all: Vec<String> = list(tolerations).iter().map(Value::to_string).collect();
    all.sort();
    all
}

/// Whether the plain name stands for something else, or is given up already.
fn is_taken(cluster: &ClusterSeen, wanted: &Object, versioned: &str) -> bool {
    let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, versioned);
    let all = cluster.objects.seen();
    match all.get(&wanted.key) {
        Some(seen) if fixed(&seen.body) == fixed(&wanted.body) => false,
        // Somebody else's stays, and is told.
        Some(seen) => seen.written.is_some() && seen.body["spec"]["topologyName"].is_string(),
        // Flavors that could not be read are still named by the queues.
        None => all.contains_key(&key) || is_named(all.iter().map(|(key, seen)| (key, &seen.body)), &key),
    }
}

/// What the server lets nobody change.
fn fixed(body: &Value) -> Value {
    let spec = &body["spec"];
    let (labels, topology, tolerations) = (&spec["nodeLabels"], &spec["topologyName"], sorted(&spec["tolerations"]));
    // As it was named when nobody looked at tolerations.
    if tolerations.is_empty() { json!([labels, topology]) } else { json!([labels, topology, tolerations]) }
}

/// What a queue has on the pool's old flavor, it has not on the new one: both are the same nodes.
pub fn share(desired: &mut Desired, cluster: &ClusterSeen) {
    let pools = pools(desired, cluster);
    give_less(desired, cluster, &pools);
}

/// The same of pools that were called otherwise, where nodes of theirs still carry the name.
pub fn share_renamed(desired: &mut Desired, cluster: &ClusterSeen, target: &Target, ledger: &Ledger) {
    let names = old_names(target, ledger, cluster);
    if names.is_empty() {
        return;
    }
    let current: BTreeSet<FlavorName> = current(desired).into_values().collect();
    let renamed = pools(desired, cluster).into_iter().filter_map(|(flavor, pool)| match names.get(&pool) {
        Some(now) => Some((flavor, now.clone())),
        None => current.contains(&flavor).then_some((flavor, pool)),
    });
    let renamed = renamed.collect();
    give_less(desired, cluster, &renamed);
}

/// The names on nodes of ours that no pool has any more, each with the pool that the node serves.
fn old_names(target: &Target, ledger: &Ledger, cluster: &ClusterSeen) -> BTreeMap<PoolName, PoolName> {
    let nodes = cluster.nodes.seen();
    let old = nodes.iter().filter_map(|(name, node)| {
        let worn = PoolName::from(node.labels.get(POOL)?.as_str());
        (!target.pools.contains_key(&worn)).then_some((name, (node.instance.as_ref(), worn)))
    });
    let old: Vec<_> = old.collect();
    if old.is_empty() {
        return BTreeMap::new();
    }
    let mut serves: BTreeMap<&str, &PoolName> = BTreeMap::new();
    for (pool, known) in ledger.pools.iter().filter(|(pool, _)| target.pools.contains_key(*pool)) {
        let nodes = known.slots.values().filter_map(|slot| slot.node.as_ref().map(NodeName::as_str));
        serves.extend(nodes.map(|node| (node, pool)));
        let instances = known.slots.values().filter_map(|slot| slot.instance.as_ref().map(InstanceId::as_str));
        serves.extend(instances.map(|instance| (instance, pool)));
    }
    let pool_of = |name: &NodeName, instance: Option<&InstanceId>| {
        serves.get(name.as_str()).or_else(|| serves.get(instance?.as_str())).copied()
    };
    let names = old.into_iter().filter_map(|(name, (instance, worn))| Some((worn, pool_of(name, instance)?.clone())));
    names.collect()
}

/// `pools` says which flavors are the same nodes.
fn give_less(desired: &mut Desired, cluster: &ClusterSeen, pools: &BTreeMap<FlavorName, PoolName>) {
    let mut held: BTreeMap<(&str, &PoolName, &ResourceName), i64> = BTreeMap::new();
    let current = current(desired);
    for one in running(cluster) {
        // Of what is not counted every queue may use all that there is.
        for (resource, flavor) in one.flavors.iter().filter(|(resource, _)| holds::is_accelerator(resource)) {
            if let Some(pool) = pools.get(flavor).filter(|pool| current.get(*pool).is_some_and(|now| now != flavor)) {
                let amount = one.requests.get(resource).copied().unwrap_or(0);
                *held.entry((one.queue.as_str(), pool, resource)).or_default() += amount;
            }
        }
    }
    if held.is_empty() {
        return;
    }
    for object in desired.objects.iter_mut().filter(|one| one.key.kind == ObjectKind::ClusterQueue) {
        let of = |flavor: &FlavorName, resource: &ResourceName| {
            let pool = pools.get(flavor).filter(|pool| current.get(*pool) == Some(flavor))?;
            held.get(&(&*object.key.name, pool, resource)).copied()
        };
        let less: Vec<((FlavorName, ResourceName), i64)> = quotas(&object.body)
            .into_iter()
            .filter_map(|((flavor, resource), quota)| {
                let left = (quota.nominal - of(&flavor, &resource)?).max(0);
                Some(((flavor, resource), left))
            })
            .collect();
        if !less.is_empty() {
            let mut body = object.body.clone();
            less.iter().for_each(|(pair, left)| give_at_most(&mut body, pair, *left));
            *object = Object::new(object.key.clone(), body);
        }
    }
}

/// Kueue refuses to lend more than is there.
pub fn give_at_most(body: &mut Value, (name, resource): &(FlavorName, ResourceName), left: i64) {
    for flavor in flavors(body).filter(|flavor| flavor["name"] == json!(name)) {
        let resources = flavor["resources"].as_array_mut().into_iter().flatten();
        for amount in resources.filter(|amount| amount["name"] == json!(resource)) {
            let text = json!(quantity::count(left.unsigned_abs()));
            let lends = crate::queue::parse::quantity(resource, &amount["lendingLimit"]);
            if lends.is_some_and(|lends| lends > left) {
                amount["lendingLimit"] = text.clone();
            }
            amount["nominalQuota"] = text;
        }
    }
}

/// Old flavors and topologies: they stay as they are while somebody needs them, and are over then.
pub fn leave(desired: &mut Desired, cluster: &ClusterSeen) {
    let seen = cluster.objects.seen();
    let current = current(desired);
    let ours = |kind: ObjectKind| seen.iter().filter(move |(key, seen)| key.kind == kind && seen.written.is_some());
    let unread = cluster.gap_of_any().is_some() || cluster.workloads.gap().is_some();
    let (mut kept, mut over) = (Vec::new(), Vec::new());
    for (key, old) in ours(ObjectKind::ResourceFlavor) {
        let Some(new) = pool_of(&old.body).and_then(|pool| current.get(&pool)) else { continue };
        if new.as_str() == &*key.name {
            continue;
        }
        let on_it = on(cluster, key);
        if !on_it.is_empty() || has_other_users(desired, cluster, key) {
            let wanted = format!("{} without {}, in whose place {new} is", key.kind.name(), key.name);
            desired.staged.push(Staged { key: key.clone(), wanted, waits: on_it, carried: Vec::new() });
            kept.push((key, old));
        } else if unread || is_named(bodies(desired, seen), key) {
            kept.push((key, old));
        } else {
            over.push(key.clone());
        }
    }
    let wanted: BTreeSet<ObjectKey> = desired.objects.iter().map(|one| one.key.clone()).collect();
    for (key, old) in ours(ObjectKind::Topology).filter(|(key, _)| !wanted.contains(*key)) {
        let names = |(_, seen): &(&ObjectKey, &ObjectSeen)| seen.body["spec"]["topologyName"] == json!(&*key.name);
        let by: Vec<&ObjectKey> = seen
            .iter()
            .filter(|one| one.0.kind == ObjectKind::ResourceFlavor)
            .filter(names)
            .map(|(key, _)| key)
            .collect();
        if by.iter().all(|flavor| over.contains(flavor)) && !unread {
            over.push(key.clone());
        } else if by.iter().any(|flavor| kept.iter().any(|(kept, _)| kept == flavor)) || unread {
            kept.push((key, old));
        }
    }
    kept.sort_by_key(|(key, _)| key.kind != ObjectKind::Topology);
    let kept = kept.into_iter().filter(|(_, old)| !old.deleting).filter_map(|(key, old)| {
        Some(Object { key: key.clone(), body: old.body.clone(), digest: old.written.clone()? })
    });
    desired.objects.splice(0..0, kept);
    desired.retired.extend(over);
}

/// The flavor that a pool is to have.
fn current(desired: &Desired) -> BTreeMap<PoolName, FlavorName> {
    let flavors = desired.objects.iter().filter(|one| one.key.kind == ObjectKind::ResourceFlavor);
    flavors.filter_map(|one| Some((pool_of(&one.body)?, FlavorName::from(&*one.key.name)))).collect()
}

/// The pool of each flavor that is there or wanted.
fn pools(desired: &Desired, cluster: &ClusterSeen) -> BTreeMap<FlavorName, PoolName> {
    let all = bodies(desired, cluster.objects.seen());
    let flavors = all.filter(|(key, _)| key.kind == ObjectKind::ResourceFlavor);
    flavors.filter_map(|(key, body)| Some((FlavorName::from(&*key.name), pool_of(body)?))).collect()
}

fn pool_of(body: &Value) -> Option<PoolName> {
    body["spec"]["nodeLabels"][POOL].as_str().map(PoolName::from)
}

fn bodies<'a>(
    desired: &'a Desired,
    seen: &'a BTreeMap<ObjectKey, ObjectSeen>,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
    let wanted = desired.objects.iter().map(|one| (&one.key, &one.body));
    seen.iter().map(|(key, seen)| (key, &seen.body)).chain(wanted)
}

fn is_named<'a>(mut bodies: impl Iterator<Item = (&'a ObjectKey, &'a Value)>, flavor: &ObjectKey) -> bool {
    bodies.any(|(_, body)| quotas(body).keys().any(|(name, _)| *name.as_str() == *flavor.name))
}

/// Whether a queue that no document names lists a flavor: that is for its owner to change.
fn has_other_users(desired: &Desired, cluster: &ClusterSeen, flavor: &ObjectKey) -> bool {
    let wanted: BTreeSet<&ObjectKey> = desired.objects.iter().map(|one| &one.key).collect();
    let others = cluster.objects.seen().iter().filter(|(key, _)| !wanted.contains(key));
    is_named(others.map(|(key, seen)| (key, &seen.body)), flavor)
}

fn running(cluster: &ClusterSeen) -> impl Iterator<Item = &WorkloadSeen> {
    cluster.workloads.seen().values().filter(|one| one.reserved.is_some() && !one.finished)
}

/// The work that is on a flavor.
fn on(cluster: &ClusterSeen, flavor: &ObjectKey) -> Vec<NamespacedName> {
    let on = running(cluster).filter(|one| one.flavors.values().any(|name| *name.as_str() == *flavor.name));
    let mut names: Vec<NamespacedName> = on.map(|one| one.name.clone()).collect();
    names.sort();
    names
}

fn flavors<'a>(body: &'a mut Value) -> impl Iterator<Item = &'a mut Value> {
    // Indexing would write what is not there.
    let list = |value: Option<&'a mut Value>| value.and_then(Value::as_array_mut).into_iter().flatten();
    list(body.pointer_mut("/spec/resourceGroups")).flat_map(move |group| list(group.get_mut("flavors")))
}

#[cfg(test)]
mod tests;
