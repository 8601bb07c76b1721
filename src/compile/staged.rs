//! Changes of queues that Kueue accepts at once and that would give the same GPUs out twice, one stage at a time.
//!
//! Kueue forgets what runs on a flavor that its queue no longer lists. And a queue that goes to another cohort takes
//! along what its work holds: whoever it borrowed from has that back while the work still runs on it, and whoever
//! borrows from it keeps what it then counts as free. So a queue keeps what its work is on, with nothing of it to give,
//! and one that moves first stops to borrow and to lend where it is. When nothing would be booked twice any more, it is
//! written as the documents say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{currency, renamed, renewed};
use crate::effect::{Desired, Object, Staged};
use crate::ids::{FlavorName, NamespacedName, ResourceName};
use crate::observed::{ClusterSeen, ObjectKey, ObjectKind, WorkloadSeen};
use crate::queue::parse::quotas;

type Pair = (FlavorName, ResourceName);
pub type Bodies<'a> = BTreeMap<&'a ObjectKey, &'a Value>;

/// A queue with a flavor that has a topology beside one that has none refuses pods that do not say how they are placed.
const MIXED: &str = " (until then Kueue lets in only work that asks to be placed: its pods need the annotation \
    kueue.x-k8s.io/podset-unconstrained-topology: \"true\", or one that names a level)";

/// No chain of cohorts is longer; one that is, is a circle.
const DEEPEST: usize = 64;

/// Puts the stage of this moment in the place of what cannot be written yet, and says what waits for whom.
pub fn stage(desired: &mut Desired, cluster: &ClusterSeen) {
    renewed::rename(desired, cluster);
    renamed::leave(desired, cluster);
    let now = Now::of(cluster);
    let mut parents: BTreeMap<ObjectKey, Option<String>> = BTreeMap::new();
    let mut told = Vec::new();
    let links = now.with_links(desired);
    let queues = desired.objects.iter().enumerate().filter(|(_, one)| one.key.kind == ObjectKind::ClusterQueue);
    let mut changed: Vec<(usize, Value)> = Vec::new();
    for (place, wanted) in queues {
        let Some(seen) = now.bodies.get(&wanted.key).copied() else { continue };
        let mut body = wanted.body.clone();
        if let Some(staged) = now.keeps(wanted, seen, &mut body) {
            told.push(staged);
        }
        if let Some(staged) = now.moves(&links, wanted, seen) {
            told.push(staged);
            hold_still(&mut body, seen);
            parents.extend(now.chain(seen).into_iter().map(|(key, parent)| (key.clone(), parent)));
        }
        if body != wanted.body {
            changed.push((place, body));
        }
    }
    for (place, wanted) in desired.objects.iter().enumerate() {
        if let Some(parent) = parents.get(&wanted.key) {
            changed.push((place, with_parent(&wanted.body, parent.as_deref())));
        }
    }
    for (place, body) in changed {
        desired.objects[place] = Object::new(desired.objects[place].key.clone(), body);
    }
    desired.staged.extend(told);
    renewed::share(desired, cluster);
    renewed::leave(desired, cluster);
}

/// What is there, and what runs in it.
struct Now<'a> {
    bodies: Bodies<'a>,
    work: Vec<&'a WorkloadSeen>,
    /// Nobody knows what runs: then something does.
    blind: bool,
}

impl<'a> Now<'a> {
    fn of(cluster: &'a ClusterSeen) -> Self {
        let bodies = cluster.objects.seen().iter().map(|(key, seen)| (key, &seen.body)).collect();
        let runs = |one: &&WorkloadSeen| one.reserved.is_some() && !one.finished;
        let mut work: Vec<&WorkloadSeen> = cluster.workloads.seen().values().filter(runs).collect();
        work.sort_by(|one, other| one.name.cmp(&other.name));
        Self { bodies, work, blind: cluster.workloads.gap().is_some() }
    }

    /// The same with the cohorts that are wanted, where they hang then and as much as they hold now.
    fn with_links(&self, desired: &Desired) -> BTreeMap<ObjectKey, Value> {
        let cohorts = desired.objects.iter().filter(|one| one.key.kind == ObjectKind::Cohort);
        let linked = cohorts.map(|one| {
            let body = self.bodies.get(&one.key).map_or_else(|| json!({"spec": {}}), |seen| (*seen).clone());
            (one.key.clone(), with_parent(&body, one.body["spec"]["parentName"].as_str()))
        });
        linked.collect()
    }

    /// Flavors and resources that a queue no longer lists, while its work is on them: they stay, with nothing of them.
    fn keeps(&self, wanted: &Object, seen: &Value, body: &mut Value) -> Option<Staged> {
        let after = quotas(&wanted.body);
        let dropped: BTreeSet<Pair> = quotas(seen).into_keys().filter(|pair| !after.contains_key(pair)).collect();
        if dropped.is_empty() {
            return None;
        }
        let on_it = |one: &&&WorkloadSeen| {
            let mut flavors = one.flavors.iter();
            *one.queue.as_str() == *wanted.key.name
                && flavors.any(|(resource, flavor)| dropped.contains(&(flavor.clone(), resource.clone())))
        };
        let on_it: Vec<&&WorkloadSeen> = self.work.iter().filter(on_it).collect();
        let held: BTreeSet<Pair> = match self.blind {
            true => dropped,
            false => {
                let pairs = on_it.iter().flat_map(|one| one.flavors.iter().map(|(r, f)| (f.clone(), r.clone())));
                pairs.filter(|pair| dropped.contains(pair)).collect()
            }
        };
        if held.is_empty() {
            return None;
        }
        let flavors: BTreeSet<&str> = held.iter().map(|(flavor, _)| flavor.as_str()).collect();
        let flavors = flavors.into_iter().collect::<Vec<_>>().join(", ");
        list_again(body, &held);
        let waits = on_it.iter().map(|one| one.name.clone()).collect();
        let is_held = |flavor: &FlavorName| *flavor != currency::FLAVOR.into();
        let mixed = if held.iter().filter(|(flavor, _)| is_held(flavor)).any(|(flavor, _)| !self.is_placed(flavor)) {
            MIXED
        } else {
            ""
        };
        let wanted_text = format!("{} without {flavors}{mixed}", wanted.key.words());
        Some(Staged { key: wanted.key.clone(), wanted: wanted_text, waits, carried: Vec::new() })
    }

    /// Whether Kueue places what is on a flavor by its topology. One that was not seen is taken for ours, which are.
    fn is_placed(&self, flavor: &FlavorName) -> bool {
        let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str());
        self.bodies.get(&key).is_none_or(|body| body["spec"]["topologyName"].is_string())
    }

    /// Whether a queue would go to another tree of cohorts while that books something twice.
    fn moves(&self, links: &BTreeMap<ObjectKey, Value>, wanted: &Object, seen: &Value) -> Option<Staged> {
        let hangs_elsewhere = |(key, linked): (&ObjectKey, &Value)| {
            let parent = |body: &Value| body["spec"]["parentName"].clone();
            self.bodies.get(key).is_some_and(|seen| parent(seen) != parent(linked))
        };
        let cohort = |body: &Value| body["spec"]["cohortName"].clone();
        if cohort(seen) == cohort(&wanted.body) && !links.iter().any(hangs_elsewhere) {
            return None;
        }
        let stays = with_cohort(&wanted.body, seen["spec"]["cohortName"].as_str());
        let mut before = self.bodies.clone();
        before.insert(&wanted.key, &stays);
        let mut after = before.clone();
        after.extend(links.iter());
        after.insert(&wanted.key, &wanted.body);
        let (from, to) = (root(&before, &wanted.key), root(&after, &wanted.key));
        if from == to {
            return None;
        }
        let more = |state: &Bodies<'_>| self.beyond(state);
        let (was, is) = (more(&before), more(&after));
        let twice =
            is.iter().find(|(pair, beyond)| **beyond > was.get(*pair).copied().unwrap_or(0)).map(|(pair, _)| pair);
        let waits = match twice {
            Some(pair) => self.borrowers(&before, &from, pair),
            None if self.blind => Vec::new(),
            None => return None,
        };
        let named =
            |root: &str| root.strip_prefix(ALONE).map_or_else(|| format!("cohort {root}"), |_| "no cohort".into());
        let text = format!("{} in {} instead of {}", wanted.key.words(), named(&to), named(&from));
        Some(Staged { key: wanted.key.clone(), wanted: text, waits, carried: Vec::new() })
    }

    /// What is held beyond all that a tree of cohorts has, summed over the trees.
    fn beyond(&self, state: &Bodies<'_>) -> BTreeMap<Pair, i64> {
        let mut left: BTreeMap<(String, Pair), i64> = BTreeMap::new();
        for (key, body) in state {
            if matches!(key.kind, ObjectKind::ClusterQueue | ObjectKind::Cohort) {
                let root = root(state, key);
                for (pair, quota) in quotas(body) {
                    *left.entry((root.clone(), pair)).or_default() += quota.nominal;
                }
            }
        }
        for one in &self.work {
            let root = root(state, &ObjectKey::cluster(ObjectKind::ClusterQueue, one.queue.as_str()));
            for (pair, held) in holds(one) {
                *left.entry((root.clone(), pair)).or_default() -= held;
            }
        }
        let mut beyond = BTreeMap::new();
        for ((_, pair), left) in left.into_iter().filter(|(_, left)| *left < 0) {
            *beyond.entry(pair).or_default() -= left;
        }
        beyond
    }

    /// Work of a tree that is on what its queue does not have itself.
    fn borrowers(&self, state: &Bodies<'_>, tree: &str, pair: &Pair) -> Vec<NamespacedName> {
        let queue = |one: &WorkloadSeen| ObjectKey::cluster(ObjectKind::ClusterQueue, one.queue.as_str());
        let held = |one: &WorkloadSeen| holds(one).get(pair).copied().unwrap_or(0);
        let borrows = |key: &ObjectKey| {
            let own = state.get(key).and_then(|body| quotas(body).get(pair).map(|quota| quota.nominal)).unwrap_or(0);
            self.work.iter().filter(|one| queue(one) == *key).map(|one| held(one)).sum::<i64>() > own
        };
        let found = self.work.iter().filter(|one| held(one) > 0);
        let found = found.filter(|one| root(state, &queue(one)) == tree && borrows(&queue(one)));
        found.map(|one| one.name.clone()).collect()
    }

    /// The cohorts above a queue, each with what it hangs below now.
    fn chain(&self, seen: &Value) -> Vec<(&'a ObjectKey, Option<String>)> {
        let mut found = Vec::new();
        let mut next = seen["spec"]["cohortName"].as_str();
        while let Some(name) = next.filter(|_| found.len() < DEEPEST) {
            let key = ObjectKey::cluster(ObjectKind::Cohort, name);
            let Some((key, body)) = self.bodies.get_key_value(&key) else { break };
            next = body["spec"]["parentName"].as_str();
            found.push((*key, next.map(str::to_owned)));
        }
        found
    }
}

fn holds(one: &WorkloadSeen) -> BTreeMap<Pair, i64> {
    let held = one.flavors.iter().filter_map(|(resource, flavor)| {
        let amount = one.requests.get(resource)?;
        Some(((flavor.clone(), resource.clone()), *amount))
    });
    held.collect()
}

/// A queue below nobody is a tree of its own.
const ALONE: &str = "/";

/// The top of the tree of cohorts that an object is in. A cohort is there as soon as somebody names it.
pub fn root(state: &Bodies<'_>, key: &ObjectKey) -> String {
    let above = |key: &ObjectKey, field: &str| state.get(key).and_then(|body| body["spec"][field].as_str());
    let mut at = match key.kind {
        ObjectKind::Cohort => key.name.to_string(),
        _ => match above(key, "cohortName").filter(|name| !name.is_empty()) {
            Some(cohort) => cohort.to_owned(),
            None => return format!("{ALONE}{}", key.name),
        },
    };
    for _ in 0..DEEPEST {
        let cohort = ObjectKey::cluster(ObjectKind::Cohort, &at);
        match above(&cohort, "parentName").filter(|name| !name.is_empty()) {
            Some(parent) => at = parent.to_owned(),
            None => break,
        }
    }
    at
}

/// A queue that stays where it is, and neither borrows nor lends.
fn hold_still(body: &mut Value, seen: &Value) {
    *body = with_cohort(body, seen["spec"]["cohortName"].as_str());
    if body["spec"]["cohortName"].is_string() {
        neither_borrows_nor_lends(body);
    }
}

pub fn neither_borrows_nor_lends(body: &mut Value) {
    for resource in resources(body) {
        for limit in ["borrowingLimit", "lendingLimit"] {
            resource[limit] = json!("0");
        }
    }
}

fn with_cohort(body: &Value, cohort: Option<&str>) -> Value {
    linked(body, "cohortName", cohort)
}

fn with_parent(body: &Value, parent: Option<&str>) -> Value {
    linked(body, "parentName", parent)
}

/// Below another cohort, or below none, where limits mean nothing and are refused.
fn linked(body: &Value, field: &str, above: Option<&str>) -> Value {
    let mut body = body.clone();
    match above.filter(|name| !name.is_empty()) {
        Some(name) => body["spec"][field] = json!(name),
        None => {
            if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
                spec.remove(field);
            }
            for resource in resources(&mut body) {
                if let Some(resource) = resource.as_object_mut() {
                    resource.remove("borrowingLimit");
                    resource.remove("lendingLimit");
                }
            }
        }
    }
    body
}

fn list<'a>(value: Option<&'a mut Value>, field: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    value.and_then(|value| value.get_mut(field)).and_then(Value::as_array_mut).into_iter().flatten()
}

fn resources(body: &mut Value) -> impl Iterator<Item = &mut Value> {
    let groups = list(body.get_mut("spec"), "resourceGroups");
    groups.flat_map(|group| list(Some(group), "flavors")).flat_map(|flavor| list(Some(flavor), "resources"))
}

/// Lists these too, behind the others, with nothing of them. Every flavor lists every resource, in one order. The
/// currency is in a group of its own, and stays there.
fn list_again(body: &mut Value, pairs: &BTreeSet<Pair>) {
    let has_cohort = body["spec"]["cohortName"].is_string();
    let is_currency = |(_, resource): &&Pair| resource.as_str() == currency::CURRENCY;
    let groups = body["spec"]["resourceGroups"].as_array().cloned().unwrap_or_default();
    let (own, mut rest): (Vec<Value>, Vec<Value>) =
        groups.into_iter().partition(|group| group["coveredResources"] != json!([currency::CURRENCY]));
    if rest.is_empty() && pairs.iter().any(|pair| is_currency(&pair)) {
        rest.push(currency::group(None, has_cohort));
    }
    let group = own.first().cloned().unwrap_or_default();
    let mut covered: Vec<Value> = group["coveredResources"].as_array().cloned().unwrap_or_default();
    let mut flavors: Vec<Value> = group["flavors"].as_array().cloned().unwrap_or_default();
    for (flavor, resource) in pairs.iter().filter(|pair| !is_currency(pair)) {
        if !covered.contains(&json!(resource)) {
            covered.push(json!(resource));
        }
        if flavors.iter().all(|one| one["name"] != json!(flavor)) {
            flavors.push(json!({"name": flavor, "resources": []}));
        }
    }
    let nothing = |name: &Value| match has_cohort {
        true => json!({"name": name, "nominalQuota": "0", "borrowingLimit": "0", "lendingLimit": "0"}),
        false => json!({"name": name, "nominalQuota": "0"}),
    };
    for flavor in &mut flavors {
        let listed: Vec<Value> = flavor["resources"].as_array().cloned().unwrap_or_default();
        let one =
            |name: &Value| listed.iter().find(|one| one["name"] == *name).cloned().unwrap_or_else(|| nothing(name));
        flavor["resources"] = covered.iter().map(one).collect();
    }
    let own = (!flavors.is_empty()).then(|| json!({"coveredResources": covered, "flavors": flavors}));
    body["spec"]["resourceGroups"] = own.into_iter().chain(rest).collect();
}

#[cfg(test)]
mod tests;
