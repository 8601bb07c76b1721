//! Quotas whose ClusterQueue gets another name, which Kueue knows nothing of.
//!
//! What runs stays in the queue that let it in. So the old queue gives up all but that, and takes nobody in any more; the
//! new one has the rest, and the LocalQueues lead to it. As that work ends, what it held goes over, and when nothing runs
//! in the old queue and nothing leads to it, it is over. Until then it carries in its selector which queue is in its
//! place: whoever looks later would not know it from one whose document was deleted, which only is let go.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::renewed::give_at_most;
use super::staged::root;
use super::{currency, holds};
use crate::effect::{Desired, Object, Staged};
use crate::ids::{FlavorName, NamespacedName, ResourceName};
use crate::observed::{ClusterSeen, ObjectKey, ObjectKind, ObjectSeen, WorkloadSeen};
use crate::queue::parse::quotas;

/// No namespace has this label, so a queue whose selector asks for it takes nobody in.
const MOVED_TO: &str = "tidewright.dev/moved-to";
/// What a label may be long.
const LABEL: usize = 63;
/// No queue is renamed more often while its work runs.
const MOST: usize = 16;
/// What is ours of a queue. What else is there may be somebody's, and the server's.
const FIELDS: [&str; 7] = [
    "cohortName",
    "fairSharing",
    "flavorFungibility",
    "namespaceSelector",
    "preemption",
    "queueingStrategy",
    "resourceGroups",
];

type Pair = (FlavorName, ResourceName);

/// The queue that is in the place of one that is left, as its body says: a name, or the beginning of a long one.
pub fn place_of(body: &Value) -> Option<&str> {
    let rules = body["spec"]["namespaceSelector"]["matchExpressions"].as_array()?;
    rules.iter().find(|rule| rule["key"] == MOVED_TO)?["values"][0].as_str()
}

/// Whether a queue is the one that such a body names.
pub fn is_meant(queue: &str, said: &str) -> bool {
    label(queue) == said
}

fn label(queue: &str) -> &str {
    queue.get(..LABEL).unwrap_or(queue).trim_end_matches(['-', '.'])
}

/// Puts the queues that are left beside those that are wanted, and shares what they have between the two.
pub fn leave(desired: &mut Desired, cluster: &ClusterSeen) {
    let seen = cluster.objects.seen();
    let of_kind =
        |kind: ObjectKind| seen.iter().filter(move |(key, there)| key.kind == kind && there.written.is_some());
    let wanted: BTreeSet<ObjectKey> = desired.objects.iter().map(|one| one.key.clone()).collect();
    let places = places(desired, seen);
    let (mut left, mut over) = (Vec::new(), Vec::new());
    let mut less: BTreeMap<(String, Pair), i64> = BTreeMap::new();
    for (key, old) in of_kind(ObjectKind::ClusterQueue) {
        if wanted.contains(key) || desired.retired.contains(key) {
            continue;
        }
        let is_left = place_of(&old.body).is_some();
        let heir = heir(&places, &wanted, &key.name);
        if heir.is_none() && !is_left {
            continue;
        }
        let (runs, blind) = (running(cluster, &key.name), cluster.workloads.gap().is_some());
        let keeps = match blind {
            true => quotas(&old.body).into_iter().map(|(pair, quota)| (pair, quota.nominal)).collect(),
            false => keeps(desired, cluster, key, heir.as_deref(), &runs),
        };
        let counted = counted(&old.body);
        let gives = counted.iter().any(|pair| keeps.get(pair).is_some_and(|amount| *amount > 0));
        let is_named = seen.iter().any(|(other, there)| leads_to(other, &there.body) == Some(&*key.name));
        if old.deleting || (!blind && runs.is_empty() && !gives && !is_named) {
            over.push(key.clone());
        } else {
            let by = heir.as_ref().map_or_else(String::new, |heir| format!(", in whose place ClusterQueue {heir} is"));
            let mut waits: Vec<NamespacedName> = runs.iter().map(|one| one.name.clone()).collect();
            if waits.is_empty() && gives && !blind {
                waits = borrowers(cluster, key);
            }
            desired.staged.push(Staged {
                key: key.clone(),
                wanted: format!("delete {}{by}", key.words()),
                waits,
                carried: Vec::new(),
            });
            // Nobody knows what runs: it stays as it is.
            let body = if blind { old.body.clone() } else { reduced(&old.body, &keeps, heir.as_deref()) };
            let digest = old.written.clone().filter(|_| blind);
            let object = Object::new(key.clone(), body);
            left.push(Object { digest: digest.unwrap_or_else(|| object.digest.clone()), ..object });
        }
        // One that nothing leads away from yet keeps everything until it is known what runs: nothing is made then.
        if let Some(heir) = heir.filter(|_| is_left || !blind) {
            for (pair, amount) in keeps.into_iter().filter(|(pair, _)| counted.contains(pair)) {
                *less.entry((heir.clone(), pair)).or_default() += amount;
            }
        }
    }
    for object in desired.objects.iter_mut().filter(|one| one.key.kind == ObjectKind::ClusterQueue) {
        let of = |pair: &Pair| less.get(&(object.key.name.to_string(), pair.clone())).copied();
        let shared = quotas(&object.body).into_iter().filter_map(|(pair, quota)| {
            let left = (quota.nominal - of(&pair)?).max(0);
            Some((pair, left))
        });
        let shared: Vec<(Pair, i64)> = shared.collect();
        if !shared.is_empty() {
            let mut body = object.body.clone();
            shared.iter().for_each(|(pair, left)| give_at_most(&mut body, pair, *left));
            *object = Object::new(object.key.clone(), body);
        }
    }
    let place = desired.objects.iter().position(|one| one.key.kind == ObjectKind::ClusterQueue);
    let place = place.unwrap_or(desired.objects.len());
    desired.objects.splice(place..place, left);
    desired.retired.extend(over);
}

/// Which queue is in the place of which: by its selector, or because a LocalQueue of ours is to lead elsewhere.
fn places(desired: &Desired, seen: &BTreeMap<ObjectKey, ObjectSeen>) -> BTreeMap<String, String> {
    let queues = seen.iter().filter(|(key, there)| key.kind == ObjectKind::ClusterQueue && there.written.is_some());
    let known = || seen.keys().chain(desired.objects.iter().map(|one| &one.key));
    let said = queues.filter_map(|(key, there)| {
        let said = place_of(&there.body)?;
        let meant = known().find(|one| one.kind == ObjectKind::ClusterQueue && is_meant(&one.name, said))?;
        Some((key.name.to_string(), meant.name.to_string()))
    });
    let mut places: BTreeMap<String, String> = said.collect();
    for one in &desired.objects {
        let Some(there) = seen.get(&one.key).filter(|there| there.written.is_some()) else { continue };
        if let (Some(old), Some(new)) = (leads_to(&one.key, &there.body), leads_to(&one.key, &one.body))
            && old != new
        {
            places.insert(old.into(), new.into());
        }
    }
    places
}

/// The wanted queue that is in the place of one that is not.
fn heir(places: &BTreeMap<String, String>, wanted: &BTreeSet<ObjectKey>, queue: &str) -> Option<String> {
    let mut at = places.get(queue)?;
    for _ in 0..MOST {
        if wanted.contains(&ObjectKey::cluster(ObjectKind::ClusterQueue, at)) {
            return Some(at.clone());
        }
        at = places.get(at)?;
    }
    None
}

/// The queue that a LocalQueue leads to.
fn leads_to<'a>(key: &ObjectKey, body: &'a Value) -> Option<&'a str> {
    body["spec"]["clusterQueue"].as_str().filter(|_| key.kind == ObjectKind::LocalQueue)
}

fn running<'a>(cluster: &'a ClusterSeen, queue: &str) -> Vec<&'a WorkloadSeen> {
    let all = cluster.workloads.seen().values();
    let mut runs: Vec<&WorkloadSeen> =
        all.filter(|one| one.reserved.is_some() && !one.finished && *one.queue.as_str() == *queue).collect();
    runs.sort_by(|one, other| one.name.cmp(&other.name));
    runs
}

/// What is given to a team by number: accelerators, and all of a flavor that has none. Of everything else each queue may
/// use all that there is.
fn counted(body: &Value) -> BTreeSet<Pair> {
    let all = quotas(body);
    let is_one = |resource: &ResourceName| holds::is_accelerator(resource) || resource.as_str() == currency::CURRENCY;
    let has_one = |flavor: &FlavorName| {
        all.iter().any(|((other, resource), quota)| other == flavor && is_one(resource) && quota.nominal > 0)
    };
    all.keys().filter(|(flavor, resource)| is_one(resource) || !has_one(flavor)).cloned().collect()
}

/// What a queue that is left still needs: what its work is on, and what others have borrowed of it, where its heir is in
/// another tree of cohorts and could give that out again.
fn keeps(
    desired: &Desired,
    cluster: &ClusterSeen,
    key: &ObjectKey,
    heir: Option<&str>,
    runs: &[&WorkloadSeen],
) -> BTreeMap<Pair, i64> {
    let seen = cluster.objects.seen();
    let bodies: BTreeMap<&ObjectKey, &Value> = seen.iter().map(|(key, there)| (key, &there.body)).collect();
    let mut after = bodies.clone();
    after.extend(desired.objects.iter().map(|one| (&one.key, &one.body)));
    let tree = root(&bodies, key);
    let stays = heir.is_some_and(|heir| root(&after, &ObjectKey::cluster(ObjectKind::ClusterQueue, heir)) == tree);
    let near = if stays { Vec::new() } else { neighbours(&bodies, key) };
    let borrowed = |pair: &Pair| near.iter().map(|other| beyond(cluster, other, bodies[*other], pair)).sum::<i64>();
    let counted = counted(bodies[key]);
    let kept = quotas(bodies[key]).into_iter().map(|(pair, quota)| {
        let needed = if counted.contains(&pair) { held(runs, &pair) + borrowed(&pair) } else { quota.nominal };
        let kept = quota.nominal.min(needed);
        (pair, kept)
    });
    kept.collect()
}

fn held(runs: &[&WorkloadSeen], (flavor, resource): &Pair) -> i64 {
    let on = runs.iter().filter(|one| one.flavors.get(resource) == Some(flavor));
    on.filter_map(|one| one.requests.get(resource)).sum()
}

/// What the work of a queue holds beyond what the queue has itself.
fn beyond(cluster: &ClusterSeen, queue: &ObjectKey, body: &Value, pair: &Pair) -> i64 {
    let own = quotas(body).get(pair).map_or(0, |quota| quota.nominal);
    (held(&running(cluster, &queue.name), pair) - own).max(0)
}

/// The other queues of a tree of cohorts.
fn neighbours<'a>(bodies: &BTreeMap<&'a ObjectKey, &Value>, key: &ObjectKey) -> Vec<&'a ObjectKey> {
    let tree = root(bodies, key);
    let queues = bodies.keys().filter(|other| other.kind == ObjectKind::ClusterQueue && **other != key);
    queues.filter(|other| root(bodies, other) == tree).copied().collect()
}

/// Work of others that is on what a queue has.
fn borrowers(cluster: &ClusterSeen, key: &ObjectKey) -> Vec<NamespacedName> {
    let bodies: BTreeMap<&ObjectKey, &Value> =
        cluster.objects.seen().iter().map(|(key, there)| (key, &there.body)).collect();
    let own = counted(bodies[key]);
    let borrows = |other: &&&ObjectKey| own.iter().any(|pair| beyond(cluster, other, bodies[**other], pair) > 0);
    let near = neighbours(&bodies, key);
    near.iter().filter(borrows).flat_map(|other| running(cluster, &other.name)).map(|one| one.name.clone()).collect()
}

/// A queue that takes nobody in, and neither borrows nor lends.
fn reduced(old: &Value, keeps: &BTreeMap<Pair, i64>, heir: Option<&str>) -> Value {
    let mut body = json!({"spec": {}});
    for field in FIELDS.iter().filter(|field| !old["spec"][**field].is_null()) {
        body["spec"][*field] = old["spec"][*field].clone();
    }
    for pair in counted(old) {
        give_at_most(&mut body, &pair, keeps.get(&pair).copied().unwrap_or(0));
    }
    if body["spec"]["cohortName"].is_string() {
        super::staged::neither_borrows_nor_lends(&mut body);
    }
    let selector = &mut body["spec"]["namespaceSelector"];
    let rules = selector["matchExpressions"].as_array().into_iter().flatten();
    let mut rules: Vec<Value> = rules.filter(|rule| rule["key"] != MOVED_TO || heir.is_none()).cloned().collect();
    if let Some(heir) = heir {
        rules.push(json!({"key": MOVED_TO, "operator": "In", "values": [label(heir)]}));
    }
    selector["matchExpressions"] = rules.into();
    body
}

#[cfg(test)]
mod tests;
