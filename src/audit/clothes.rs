//! What nodes carry: only what is ours is taken off, what leaves the documents goes, and no taint shuts out work that a
//! queue still lets in.

use serde_json::Value;

use super::Found;
use super::case::Case;
use crate::effect::marks::{POOL, STARTING_TAINT, Worn};
use crate::effect::{Action, ClusterAction, Fact, Subject, Thing};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::ids::{NodeName, PoolName};
use crate::observed::{ObjectKey, ObjectKind, PodSeen, WorkloadSeen};
use crate::plan::Step;
use crate::queue::parse::quotas;

const OURS: &str = "only what we put on a node is taken off it";
const LEFT: &str = "what leaves the documents leaves the nodes, or is held";
const SHUT: &str = "no taint shuts out work that a queue lets in";
const FIXED: &str = "no flavor is written over in what the server lets nobody change";

const PREFIX: &str = "tidewright.dev/";

/// By the list on the node; where there is none, what the documents say of any pool may be ours.
pub fn only_ours_comes_off(case: &Case<'_>, found: &mut Found) {
    for (_, step) in case.each() {
        let Action::Cluster(ClusterAction::Dress { node, labels, remove_taints, .. }) = &step.action else { continue };
        let Some(seen) = case.node(node) else { continue };
        let worn = Worn::of(seen);
        let pools = || case.standing().pools.values();
        for key in labels.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key) {
            let listed = |worn: &Worn| worn.labels.get(key).is_some_and(|value| seen.labels.get(key) == Some(value));
            let ours = worn.as_ref().map_or_else(|| pools().any(|pool| pool.labels.contains_key(key)), listed);
            if !ours && !key.starts_with(PREFIX) {
                found.step(OURS, &step.id, format!("{key} was not put on {node} by us"));
            }
        }
        for taint in remove_taints.iter().filter(|taint| taint.key != STARTING_TAINT) {
            let listed = |worn: &Worn| worn.taints.contains(taint);
            let ours = worn.as_ref().map_or_else(|| pools().any(|pool| pool.taints.contains(taint)), listed);
            if !ours {
                found.step(OURS, &step.id, format!("taint {} was not put on {node} by us", taint.key));
            }
        }
    }
}

/// Of nodes that serve, and that nothing else is done to.
pub fn nothing_is_left_on(case: &Case<'_>, found: &mut Found) {
    let (input, head) = (case.input, &case.input.ledger.head);
    if !input.only.is_empty() || input.only_node.is_some() || input.observed.looks_only.is_some() {
        return;
    }
    for (name, seen) in case.seen().cluster.nodes.seen() {
        let Some(worn) = Worn::of(seen) else { continue };
        let Some(slot) = case.slot_of_node(name).filter(|slot| case.part(slot).is_some()) else { continue };
        let Some(pool) = case.pool(&slot.pool) else { continue };
        let serves = seen.ready
            && !seen.unschedulable
            && !case.has_our_cordon(name)
            && seen.labels.get(POOL).is_some_and(|label| *label == slot.pool.as_str());
        let kept = head.quarantined.contains_key(name) || head.drains.contains_key(name);
        let acted = !case.on(&Subject::Node(name.clone())).is_empty();
        let waits = |what: &Thing| *what == Thing::Pool(slot.pool.clone()) || *what == Thing::Fleet;
        if !serves || kept || acted || case.plan.held.iter().any(|held| waits(&held.what)) {
            continue;
        }
        let declared = case.standing().declared_labels(name.as_str());
        let over = |(key, value): &(&String, &String)| {
            seen.labels.get(*key) == Some(*value) && !pool.labels.contains_key(*key) && !declared.contains_key(*key)
        };
        let label = worn.labels.iter().find(over).map(|(key, _)| format!("label {key}"));
        let of_key = |taint: &Taint| pool.taints.iter().any(|one| one.key == taint.key);
        let taint = worn.taints.iter().find(|taint| seen.taints.contains(taint) && !of_key(taint));
        if let Some(what) = label.or_else(|| taint.map(|taint| format!("taint {}", taint.key))) {
            found.plan(LEFT, format!("{name} still carries {what}, and no step and nothing held says so"));
        }
    }
}

/// First the queues list a flavor whose work tolerates it, and who does not is gone from the node; and the other way
/// round it has gone from the nodes before a queue lists one whose work does not.
pub fn taints_come_after_flavors(case: &Case<'_>, found: &mut Found) {
    for (_, step) in case.each() {
        match &step.action {
            Action::Cluster(ClusterAction::Dress { node, taints, .. }) => {
                for taint in taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule) {
                    if let Some(what) = shut_out(case, step, node, taint) {
                        found.step(SHUT, &step.id, what);
                    }
                }
            }
            Action::Cluster(ClusterAction::Apply(object)) if object.key.kind == ObjectKind::ClusterQueue => {
                if let Some(what) = still_tainted(case, &object.body) {
                    found.step(SHUT, &step.id, what);
                }
            }
            _ => {}
        }
    }
}

fn shut_out(case: &Case<'_>, step: &Step, node: &NodeName, taint: &Taint) -> Option<String> {
    if case.node(node).is_none_or(|seen| seen.taints.contains(taint)) {
        return None;
    }
    let pool = &case.slot_of_node(node)?.pool;
    let objects = case.seen().cluster.objects.seen();
    let of_pool = |name: &str| objects.get(&flavor(name)).filter(|seen| pool_of(&seen.body) == Some(pool.as_str()));
    let refuses = |name: &str| of_pool(name).is_some_and(|seen| !bears(&seen.body, taint));
    let mut queues = objects.iter().filter(|(key, _)| key.kind == ObjectKind::ClusterQueue);
    if let Some((key, _)) = queues.find(|(_, seen)| gives(&seen.body, &refuses)) {
        return Some(format!("{key} lets in work that does not tolerate {}", taint.key));
    }
    let runs = |one: &&WorkloadSeen| one.reserved.is_some() && !one.finished;
    let here = |one: &&WorkloadSeen| one.nodes.is_empty() || one.nodes.contains_key(node);
    let on = |one: &&WorkloadSeen| one.flavors.values().any(|name| refuses(name.as_str()));
    let workloads = case.seen().cluster.workloads.seen();
    if let Some(one) = workloads.values().filter(runs).filter(here).find(on) {
        return Some(format!("{} is on {node}, and its pods would not come back there", one.name));
    }
    if taint.effect != TaintEffect::NoExecute {
        return None;
    }
    let known = step.requires.iter().find_map(|fact| match fact {
        Fact::NobodyBut { node: asked, pods } if asked == node => Some(pods),
        _ => None,
    });
    let Some(known) = known else { return Some(format!("nobody looks again who is on {node}")) };
    let stays = |pod: &&PodSeen| {
        let work = pod.workload.as_ref().and_then(|uid| workloads.get(uid));
        let mut flavors = work.into_iter().flat_map(|work| work.flavors.values());
        pod.goes_anywhere || flavors.any(|name| of_pool(name.as_str()).is_some_and(|seen| bears(&seen.body, taint)))
    };
    let mut pods = case.seen().cluster.pods.seen().iter().filter(|pod| known.contains(&pod.uid));
    pods.find(|pod| !stays(pod)).map(|pod| format!("{} is ended by {}", pod.name, taint.key))
}

/// A node with a taint of ours that no document asks for, where a queue would give out its pool without a toleration.
fn still_tainted(case: &Case<'_>, queue: &Value) -> Option<String> {
    let objects = case.seen().cluster.objects.seen();
    let body = |name: &str| {
        let wanted = case.input.desired.objects.iter().find(|object| object.key == flavor(name));
        wanted.map(|object| &object.body).or_else(|| objects.get(&flavor(name)).map(|seen| &seen.body))
    };
    case.seen().cluster.nodes.seen().iter().find_map(|(name, node)| {
        let pool = PoolName::from(node.labels.get(POOL)?.as_str());
        let documented = &case.pool(&pool)?.taints;
        let worn = Worn::of(node)?;
        let left = |taint: &&Taint| {
            taint.effect != TaintEffect::PreferNoSchedule
                && node.taints.contains(taint)
                && !documented.iter().any(|one| one.key == taint.key)
        };
        let taint = worn.taints.iter().find(left)?;
        let refuses =
            |name: &str| body(name).is_some_and(|body| pool_of(body) == Some(pool.as_str()) && !bears(body, taint));
        gives(queue, &refuses).then(|| format!("{name} still carries {}, which its work would not tolerate", taint.key))
    })
}

/// The server takes other labels, another topology and other tolerations only for a flavor without a topology.
pub fn flavors_keep_what_is_fixed(case: &Case<'_>, found: &mut Found) {
    for (_, step) in case.each() {
        let Action::Cluster(ClusterAction::Apply(object)) = &step.action else { continue };
        if object.key.kind != ObjectKind::ResourceFlavor {
            continue;
        }
        let Some(there) = case.seen().cluster.objects.seen().get(&object.key) else { continue };
        let (is, wanted) = (&there.body["spec"], &object.body["spec"]);
        let nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let differs =
            |field: &&str| is[*field] != wanted[*field] && !(nothing(&is[*field]) && nothing(&wanted[*field]));
        let changed = ["nodeLabels", "topologyName", "tolerations"].into_iter().find(differs);
        if let Some(field) = changed.filter(|_| is["topologyName"].is_string()) {
            found.step(FIXED, &step.id, format!("{field} of {} would be another", object.key));
        }
    }
}

fn flavor(name: &str) -> ObjectKey {
    ObjectKey::cluster(ObjectKind::ResourceFlavor, name)
}

fn pool_of(flavor: &Value) -> Option<&str> {
    flavor["spec"]["nodeLabels"][POOL].as_str()
}

/// Whether a queue gives, or lets its work borrow, something of such a flavor.
fn gives(queue: &Value, is_such: &dyn Fn(&str) -> bool) -> bool {
    let has_cohort = queue["spec"]["cohortName"].as_str().is_some_and(|name| !name.is_empty());
    quotas(queue).into_iter().any(|((name, _), quota)| {
        (quota.nominal > 0 || (has_cohort && quota.borrowing_limit != Some(0))) && is_such(name.as_str())
    })
}

/// Whether the flavor's work tolerates a taint.
fn bears(flavor: &Value, taint: &Taint) -> bool {
    flavor["spec"]["tolerations"].as_array().into_iter().flatten().any(|one| {
        let is = |field: &str, value: &str| one[field].as_str().unwrap_or_default() == value;
        let exists = is("operator", "Exists");
        let effect = serde_json::to_value(taint.effect).unwrap_or_default();
        (is("key", &taint.key) || (exists && is("key", "")))
            && (exists || is("value", taint.value.as_deref().unwrap_or_default()))
            && (is("effect", "") || one["effect"] == effect)
    })
}
