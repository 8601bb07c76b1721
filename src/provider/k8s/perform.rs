//! One action on the cluster, exactly as it says.
//!
//! Nodes and workloads are read, changed and written back on the version that was read: a list of taints is written
//! whole, so a write that did not look would undo somebody else's.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::evict::evict;
use super::kinds;
use super::observe::NOT_OVER;
use super::pods::{self, Around};
use super::slim::page;
use super::wire::{Failure, Wire};
use super::workloads::{self, Links};
use super::{K8s, write};
use crate::effect::marks::{
    ASKED, CORDON, DRAIN_TAINT, MIG_CONFIG, Mark, PLUGIN_CONFIG, SHRUNK_FROM, SUSPENDED, ordered_since,
};
use crate::effect::{ClusterAction, LaidOut};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::ids::{NamespacedName, NodeName, Uid, WorkloadUid};
use crate::provider::{Class, Clock, Done, ProviderError};

/// How long an order stays taken back: mig-manager and the device plugin must have seen it gone.
const FLIP: jiff::SignedDuration = jiff::SignedDuration::from_secs(3);
const AT_ONCE: usize = 8;

pub async fn perform(k8s: &K8s, action: &ClusterAction) -> Result<Done, ProviderError> {
    match action {
        ClusterAction::Apply(object) => write::apply(k8s, object).await?,
        ClusterAction::Delete(key) => write::delete(k8s, key).await?,
        ClusterAction::Disown(key) => write::disown(k8s, key).await?,
        ClusterAction::Dress { node, labels, taints, remove_taints, notes } => {
            let meta = json!({"labels": labels, "annotations": notes});
            change_node(k8s, node, |node| dressed(node, meta, taints, remove_taints)).await?;
        }
        ClusterAction::Cordon { node, mark } => {
            let mark = stamped(k8s, mark);
            change_node(k8s, node, |node| cordoned(node, &mark)).await?;
        }
        ClusterAction::Uncordon { node } => change_node(k8s, node, uncordoned).await?,
        ClusterAction::Ask { workload, mark } => ask(k8s, workload, &stamped(k8s, mark)).await?,
        ClusterAction::AskPods { pods, mark, .. } => ask_pods(k8s, pods, &stamped(k8s, mark)).await?,
        ClusterAction::Suspend { workload, mark } => suspend(k8s, workload, mark).await?,
        ClusterAction::Resume { workload } => resume(k8s, workload).await?,
        ClusterAction::Shrink { workload, pods } => shrink(k8s, workload, *pods).await?,
        ClusterAction::Evict { pods, force } => return evict(k8s, pods, *force).await,
        ClusterAction::Cut { node, laid_out, flip, over } => cut(k8s, node, laid_out, *flip, over).await?,
    }
    Ok(Done::Nothing)
}

/// A plan may be minutes old as it is carried out, and what waits out the scheduler counts from the taint itself.
fn stamped(k8s: &K8s, mark: &Mark) -> Mark {
    Mark { since: mark.since.max(k8s.clock.now()), ..mark.clone() }
}

/// A patch that changes a node as it is now; none where nothing is to be changed.
async fn change_node(
    k8s: &K8s,
    name: &NodeName,
    change: impl FnOnce(&Value) -> Option<Value>,
) -> Result<(), ProviderError> {
    let path = kinds::node(name.as_str());
    let node = object(&k8s.wire, &path).await?;
    let Some(mut patch) = change(&node) else { return Ok(()) };
    patch["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"].clone();
    k8s.wire.merge(&path, &patch).await?;
    Ok(())
}

async fn object(wire: &Wire, path: &str) -> Result<Value, Failure> {
    let bytes = wire.get(path).await?;
    serde_json::from_slice(&bytes).map_err(|error| Failure::Unreadable(error.to_string()))
}

fn dressed(node: &Value, meta: Value, taints: &[Taint], removed: &[Taint]) -> Option<Value> {
    let before = taints_of(node);
    let mut after = before.clone();
    removed.iter().for_each(|taint| after.retain(|old| !is_at(old, &taint.key, taint.effect)));
    taints.iter().for_each(|taint| put(&mut after, taint));
    let mut patch = json!({"metadata": meta});
    if after != before {
        patch["spec"] = json!({"taints": after});
    }
    Some(patch)
}

/// No more pods, our taint, our annotation. Who cordoned first is kept, whatever the caller believed.
fn cordoned(node: &Value, mark: &Mark) -> Option<Value> {
    let before = match node["metadata"]["annotations"][CORDON].as_str() {
        Some(old) => Mark::parse(old).cordoned_before,
        None => node["spec"]["unschedulable"].as_bool().unwrap_or(false),
    };
    let mut taints = taints_of(node);
    put(&mut taints, &drain_taint());
    let mark = Mark { cordoned_before: before, ..mark.clone() }.text();
    Some(json!({"metadata": {"annotations": {CORDON: mark}}, "spec": {"unschedulable": true, "taints": taints}}))
}

/// Lifts our own mark, and nothing else.
fn uncordoned(node: &Value) -> Option<Value> {
    let mark = Mark::parse(node["metadata"]["annotations"][CORDON].as_str()?);
    let mut taints = taints_of(node);
    taints.retain(|taint| !is_at(taint, DRAIN_TAINT, TaintEffect::NoSchedule));
    let unschedulable = if mark.cordoned_before { json!(true) } else { Value::Null };
    let spec = json!({"unschedulable": unschedulable, "taints": taints});
    Some(json!({"metadata": {"annotations": {CORDON: null}}, "spec": spec}))
}

fn drain_taint() -> Taint {
    Taint { key: DRAIN_TAINT.into(), value: None, effect: TaintEffect::NoSchedule }
}

/// Taints as the server wrote them: other people's have fields that we do not know.
fn taints_of(node: &Value) -> Vec<Value> {
    node["spec"]["taints"].as_array().cloned().unwrap_or_default()
}

fn is_at(written: &Value, key: &str, effect: TaintEffect) -> bool {
    written["key"] == key && written["effect"] == json!(effect)
}

/// One of the same key and effect is replaced, as the server wants them unique; the same one stays as it is.
fn put(taints: &mut Vec<Value>, taint: &Taint) {
    let same = |old: &Value| {
        is_at(old, &taint.key, taint.effect)
            && old["value"].as_str().unwrap_or("") == taint.value.as_deref().unwrap_or("")
    };
    if !taints.iter().any(same) {
        taints.retain(|old| !is_at(old, &taint.key, taint.effect));
        taints.push(json!(taint));
    }
}

/// Orders a cut where the node still carries the order that was planned over: between two looks somebody else may have
/// given a newer one.
async fn cut(
    k8s: &K8s,
    name: &NodeName,
    laid_out: &LaidOut,
    flip: bool,
    over: &BTreeMap<String, String>,
) -> Result<(), ProviderError> {
    if flip {
        relabel(k8s, name, over, json!({MIG_CONFIG: null, PLUGIN_CONFIG: null})).await?;
        let seen = k8s.clock.now().checked_add(FLIP).unwrap_or(jiff::Timestamp::MAX);
        k8s.clock.sleep_until(seen).await;
    }
    let nothing = BTreeMap::new();
    let over = if flip { &nothing } else { over };
    relabel(k8s, name, over, json!(laid_out.order(over))).await
}

async fn relabel(
    k8s: &K8s,
    name: &NodeName,
    over: &BTreeMap<String, String>,
    labels: Value,
) -> Result<(), ProviderError> {
    let path = kinds::node(name.as_str());
    let node = object(&k8s.wire, &path).await?;
    if order_of(&node) != *over {
        return Err(ProviderError::new(Class::Conflict, ordered_since(name)));
    }
    let version = node["metadata"]["resourceVersion"].clone();
    k8s.wire.merge(&path, &json!({"metadata": {"labels": labels, "resourceVersion": version}})).await?;
    Ok(())
}

fn order_of(node: &Value) -> BTreeMap<String, String> {
    let text = |key: &str| Some((key.to_string(), node["metadata"]["labels"][key].as_str()?.to_string()));
    [MIG_CONFIG, PLUGIN_CONFIG].into_iter().filter_map(text).collect()
}

/// A workload as it is now, with where it is.
struct Held {
    path: String,
    name: NamespacedName,
    value: Value,
    links: Links,
}

/// The API knows no UIDs: the name that was seen with it, or a look through all of them.
async fn workload(k8s: &K8s, uid: &WorkloadUid) -> Result<Held, ProviderError> {
    let known = k8s.known.borrow().workload(uid);
    if let Some(name) = known
        && let Some(held) = by_name(k8s, uid, name).await?
    {
        return Ok(held);
    }
    let decode = |bytes: &[u8]| page(bytes, |one| Some(workloads::found(&one)).filter(|one| one.uid == *uid));
    let found = k8s.wire.list(&kinds::workloads(None), "", decode).await?;
    if let Some(found) = found.into_iter().next()
        && let Some(held) = by_name(k8s, uid, found.seen.name).await?
    {
        return Ok(held);
    }
    Err(ProviderError::new(Class::NotFound, format!("workloads.kueue.x-k8s.io \"{uid}\" not found")))
}

async fn by_name(k8s: &K8s, uid: &WorkloadUid, name: NamespacedName) -> Result<Option<Held>, ProviderError> {
    let path = kinds::workload(name.namespace.as_str(), &name.name);
    let Some(bytes) = k8s.wire.find(&path).await? else { return Ok(None) };
    let unreadable = |error: serde_json::Error| Failure::Unreadable(error.to_string());
    let value: Value = serde_json::from_slice(&bytes).map_err(unreadable)?;
    let found = workloads::found(&serde_json::from_slice(&bytes).map_err(unreadable)?);
    let mut links = Links::default();
    links.add(&found);
    k8s.known.borrow_mut().workloads.insert(found.uid.clone(), name.clone());
    Ok((found.uid == *uid).then_some(Held { path, name, value, links }))
}

impl Held {
    fn note(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][key].as_str()
    }

    /// Writes it if it is still as it was read.
    async fn change(&self, k8s: &K8s, mut patch: Value) -> Result<(), ProviderError> {
        patch["metadata"]["resourceVersion"] = self.value["metadata"]["resourceVersion"].clone();
        k8s.wire.merge(&self.path, &patch).await?;
        Ok(())
    }

    /// Writes an annotation on its pods, which can read their own: `None` takes it off. A pod that is gone meanwhile
    /// need not know.
    async fn tell_pods(&self, k8s: &K8s, key: &str, text: Option<&str>) -> Result<(), ProviderError> {
        let around = Around { links: self.links.clone(), ..Around::default() };
        let its = |pod: pods::Pod<'_>| {
            let differs = pod.metadata.note(key) != text;
            let found = pods::seen(&pod, &around);
            (found.workload.is_some() && found.terminating.is_none() && differs).then_some(found.name)
        };
        let namespace = self.name.namespace.as_str();
        let names = k8s.wire.list(&kinds::pods(Some(namespace)), NOT_OVER, |bytes: &[u8]| page(bytes, its)).await?;
        let patch = json!({"metadata": {"annotations": {key: text}}});
        let told = names.iter().map(|name| {
            let (path, patch) = (kinds::pod(namespace, &name.name), &patch);
            async move { k8s.wire.merge(&path, patch).await }
        });
        let told: Vec<Result<_, Failure>> = stream::iter(told).buffer_unordered(AT_ONCE).collect().await;
        match told.into_iter().filter_map(Result::err).find(|failure| failure.code() != Some(404)) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }
}

async fn ask(k8s: &K8s, uid: &WorkloadUid, mark: &Mark) -> Result<(), ProviderError> {
    let held = workload(k8s, uid).await?;
    let text = mark.text();
    held.change(k8s, json!({"metadata": {"annotations": {ASKED: text}}})).await?;
    held.tell_pods(k8s, ASKED, Some(&text)).await
}

/// Each by its UID: another pod of that name was not meant, and one that is gone need not know.
async fn ask_pods(k8s: &K8s, pods: &[(NamespacedName, Uid)], mark: &Mark) -> Result<(), ProviderError> {
    let text = mark.text();
    let told = pods.iter().map(|(name, uid)| {
        let path = kinds::pod(name.namespace.as_str(), &name.name);
        let patch = json!({"metadata": {"uid": uid, "annotations": {ASKED: text}}});
        async move { k8s.wire.merge(&path, &patch).await }
    });
    let told: Vec<Result<_, Failure>> = stream::iter(told).buffer_unordered(AT_ONCE).collect().await;
    let is_gone = |failure: &Failure| matches!(failure.code(), Some(404 | 409));
    match told.into_iter().filter_map(Result::err).find(|failure| !is_gone(failure)) {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

/// Deactivates it. One that somebody else deactivated is not ours to activate, and our mark says so.
async fn suspend(k8s: &K8s, uid: &WorkloadUid, mark: &Mark) -> Result<(), ProviderError> {
    let held = workload(k8s, uid).await?;
    let is_active = held.value["spec"]["active"].as_bool().unwrap_or(true);
    let mut patch = json!({"spec": {"active": false}});
    if held.note(SUSPENDED).is_none() {
        let mark = Mark { cordoned_before: !is_active, ..mark.clone() };
        patch["metadata"] = json!({"annotations": {SUSPENDED: mark.text()}});
    }
    held.change(k8s, patch).await
}

/// Lifts our own marks; one that somebody else deactivated stays so.
async fn resume(k8s: &K8s, uid: &WorkloadUid) -> Result<(), ProviderError> {
    let held = workload(k8s, uid).await?;
    let was_asked = held.note(ASKED).is_some();
    let ours = held.note(SUSPENDED).is_some_and(|mark| !Mark::parse(mark).cordoned_before);
    let mut patch = json!({"metadata": {"annotations": {ASKED: null, SUSPENDED: null}}});
    if ours {
        patch["spec"] = json!({"active": true});
    }
    held.change(k8s, patch).await?;
    if was_asked { held.tell_pods(k8s, ASKED, None).await } else { Ok(()) }
}

/// Lowers the parallelism of the Job behind a workload, which Kueue follows. How many pods it had is written on it.
async fn shrink(k8s: &K8s, uid: &WorkloadUid, pods: u32) -> Result<(), ProviderError> {
    let held = workload(k8s, uid).await?;
    let owners = held.value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let job = owners.filter(|owner| owner["apiVersion"] == "batch/v1" && owner["kind"] == "Job").find_map(|owner| {
        let name = owner["name"].as_str()?;
        Some(kinds::job(held.name.namespace.as_str(), name))
    });
    let Some(path) = job else {
        return Err(ProviderError::new(Class::Other, format!("{} belongs to no Job", held.name)));
    };
    let job = object(&k8s.wire, &path).await?;
    // The count of any other Job is all of it: Kueue would start it anew with fewer.
    if job["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] != "true" {
        return Err(ProviderError::new(Class::Other, format!("the Job of {} may not be smaller", held.name)));
    }
    let Some(mut patch) = smaller(&job, pods) else { return Ok(()) };
    patch["metadata"]["resourceVersion"] = job["metadata"]["resourceVersion"].clone();
    k8s.wire.merge(&path, &patch).await?;
    Ok(())
}

/// A Job whose pods are numbered has as many completions as pods, or more, and the two move together.
fn smaller(job: &Value, pods: u32) -> Option<Value> {
    let spec = &job["spec"];
    let before = spec["parallelism"].as_u64().unwrap_or(1);
    if before <= u64::from(pods) {
        return None;
    }
    let mut patch = json!({"spec": {"parallelism": pods}});
    if spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"] {
        patch["spec"]["completions"] = json!(pods);
    }
    let known = job["metadata"]["annotations"][SHRUNK_FROM].as_str().map(str::to_owned);
    patch["metadata"] = json!({"annotations": {SHRUNK_FROM: known.unwrap_or_else(|| before.to_string())}});
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark::new("2026-09-03T10:00:00Z".parse().unwrap(), "replace")
    }

    fn merged(node: &Value, patch: &Value) -> Value {
        let (Value::Object(old), Value::Object(new)) = (node, patch) else { return patch.clone() };
        let mut all = old.clone();
        for (key, value) in new {
            if value.is_null() {
                all.remove(key);
            } else {
                let before = all.get(key).cloned().unwrap_or_else(|| json!({}));
                all.insert(key.clone(), merged(&before, value));
            }
        }
        Value::Object(all)
    }

    fn node(unschedulable: bool) -> Value {
        let taint = json!({"key": "other", "effect": "NoExecute", "timeAdded": "2026-09-01T00:00:00Z"});
        let mut node =
            json!({"metadata": {"labels": {"a": "1"}, "annotations": {"x": "y"}}, "spec": {"taints": [taint]}});
        if unschedulable {
            node["spec"]["unschedulable"] = json!(true);
        }
        node
    }

    #[test]
    fn a_job_is_made_smaller_with_its_numbers_and_remembers_how_large_it_was() {
        let job = |spec: Value| json!({"metadata": {}, "spec": spec});
        let noted = json!({"annotations": {SHRUNK_FROM: "8"}});
        let indexed = job(json!({"parallelism": 8, "completions": 8, "completionMode": "Indexed"}));
        let patch = smaller(&indexed, 3).unwrap();
        assert_eq!(patch, json!({"metadata": noted, "spec": {"parallelism": 3, "completions": 3}}));
        let queue = job(json!({"parallelism": 8, "completionMode": "NonIndexed"}));
        assert_eq!(smaller(&queue, 3).unwrap()["spec"], json!({"parallelism": 3}));
        let long = job(json!({"parallelism": 8, "completions": 100, "completionMode": "Indexed"}));
        assert_eq!(smaller(&long, 3).unwrap()["spec"], json!({"parallelism": 3}), "the rest of its numbers follow");
        let again = merged(&indexed, &patch);
        assert_eq!(smaller(&again, 2).unwrap()["metadata"], noted, "it had eight");
        assert_eq!(smaller(&again, 3), None);
    }

    #[test]
    fn what_we_cordon_we_uncordon_and_what_others_did_stays() {
        let before = node(false);
        let ours = merged(&before, &cordoned(&before, &mark()).unwrap());
        assert_eq!(ours["spec"]["unschedulable"], true);
        assert_eq!(ours["spec"]["taints"][1]["key"], DRAIN_TAINT);
        assert_eq!(merged(&ours, &uncordoned(&ours).unwrap()), before);
    }

    #[test]
    fn a_cordon_of_somebody_else_is_never_lifted() {
        let before = node(true);
        let ours = merged(&before, &cordoned(&before, &mark()).unwrap());
        assert!(Mark::parse(ours["metadata"]["annotations"][CORDON].as_str().unwrap()).cordoned_before);
        // A second cordon of ours does not forget it.
        let again = merged(&ours, &cordoned(&ours, &mark()).unwrap());
        assert_eq!(merged(&again, &uncordoned(&again).unwrap()), before);
        assert_eq!(uncordoned(&before), None, "no mark of ours, nothing to lift");
    }

    #[test]
    fn a_node_is_dressed_without_touching_the_taints_of_others() {
        let taint = |key: &str, value: Option<&str>| Taint {
            key: key.into(),
            value: value.map(Into::into),
            effect: TaintEffect::NoSchedule,
        };
        let before = node(false);
        let meta = json!({"labels": {"a": null, "b": "2"}, "annotations": {"worn": "{}"}});
        let dressed_once = merged(&before, &dressed(&before, meta, &[taint("gpu", Some("h100"))], &[]).unwrap());
        assert_eq!(dressed_once["metadata"]["labels"], json!({"b": "2"}));
        assert_eq!(dressed_once["metadata"]["annotations"]["worn"], "{}");
        assert_eq!(dressed_once["spec"]["taints"][0], before["spec"]["taints"][0]);
        assert_eq!(dressed_once["spec"]["taints"][1], json!({"key": "gpu", "value": "h100", "effect": "NoSchedule"}));
        let other = merged(&dressed_once, &dressed(&dressed_once, json!({}), &[taint("gpu", None)], &[]).unwrap());
        assert_eq!(other["spec"]["taints"].as_array().unwrap().len(), 2, "replaced, not doubled");
        let bare = dressed(&other, json!({}), &[], &[taint("gpu", None)]).unwrap();
        assert_eq!(bare["spec"]["taints"], before["spec"]["taints"]);
        let nothing = dressed(&before, json!({}), &[], &[taint("gpu", None)]).unwrap();
        assert!(nothing.get("spec").is_none(), "taints that are right are not written: {nothing}");
    }
}
