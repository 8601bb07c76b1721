//! Everything, read whole: lists in pages, decoded straight into what is kept.
//!
//! What could not be read is a gap that says what to do about it. Budgets, workloads, claims and groups come first,
//! because a pod is understood by them; what the server does not have at all is known not to be there.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, join_all, join3, join4};
use jiff::Timestamp;
use serde::Deserialize;

use super::budgets;
use super::claims::all_claims;
use super::gaps::{Gaps, gap, kueue_is_missing};
use super::kinds;
use super::movers;
use super::nodes;
use super::objects::{self, MANAGED_BY};
use super::pods::{self, Around};
use super::proto::ACCEPT;
use super::served::{self, Served};
use super::slim::{Meta, page};
use super::wire::{Failure, MANAGER, Wire, escaped};
use super::workloads::{self, Links};
use super::{K8s, Known};
use crate::compile::{GPU_OPERATOR, OUR_NAMESPACE, compile};
use crate::fleet::Target;
use crate::fleet::pool::Source;
use crate::ids::{NamespacedName, NodeName, WorkloadUid};
use crate::observed::{
    ClusterSeen, Gap, NodeSeen, ObjectKey, ObjectKind, ObjectSeen, Others, PodSeen, Read, WorkloadSeen,
};
use crate::provider::Clock;
use crate::queue::mode::configuration;

/// Pods that have ended hold nothing, and a cluster keeps thousands of them.
pub const NOT_OVER: &str = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";

pub async fn observe(k8s: &K8s, target: &Target) -> ClusterSeen {
    let at = k8s.clock.now();
    let served = match Served::read(&k8s.wire).await {
        Ok(served) => served,
        Err(failure) => return nothing(at, &gap("the API server", &failure)),
    };
    let asked = asked(target);
    let (nodes, budgets, (objects, workloads, others), (claims, loose)) = join4(
        all_nodes(&k8s.wire, Some(&asked)),
        all_budgets(&k8s.wire, None),
        join3(all_objects(k8s, &served, target), all_workloads(&k8s.wire, &served, None), others(k8s, &served, at)),
        join(all_claims(&k8s.wire, &served, None), loose_groups(&k8s.wire, &served, None)),
    )
    .await;
    let (objects, unread) = objects;
    let mut gaps = Gaps::default();
    let (budgets, selectors) = budgets::indexed(gaps.take("budgets", budgets));
    let (mut workloads, links) = indexed(gaps.take("workloads", workloads), &objects);
    let around =
        Around { budgets: selectors, links, claims: gaps.take("claims", claims), loose: gaps.take("groups", loose) };
    let pods = gaps.take("pods", all_pods(&k8s.wire, None, NOT_OVER, &around).await);
    let mut nodes = gaps.take("nodes", nodes);
    movers::put_down(&k8s.wire, target, &mut nodes).await;
    k8s.known.replace(Known::of(&served, &nodes, &workloads));
    saved_by_pods(&mut workloads, &pods);
    ClusterSeen {
        nodes: read(nodes, at, gaps.of(&["nodes"])),
        // Without claims and groups a busy node may look idle, and a gang like pods that stand for themselves.
        pods: read(pods, at, gaps.of(&["pods", "claims", "groups"])),
        workloads: read(workloads, at, gaps.of(&["workloads"])),
        budgets: read(budgets, at, gaps.of(&["budgets"])),
        objects: Read::new(objects, at),
        unread,
        others,
    }
}

pub fn read<T>(value: T, at: Timestamp, gap: Option<Gap>) -> Read<T> {
    match gap {
        Some(gap) => Read::with_gap(value, at, gap),
        None => Read::new(value, at),
    }
}

pub fn nothing(at: Timestamp, gap: &Gap) -> ClusterSeen {
    ClusterSeen {
        nodes: Read::with_gap(BTreeMap::new(), at, gap.clone()),
        pods: Read::with_gap(Vec::new(), at, gap.clone()),
        workloads: Read::with_gap(BTreeMap::new(), at, gap.clone()),
        budgets: Read::with_gap(BTreeMap::new(), at, gap.clone()),
        objects: Read::with_gap(BTreeMap::new(), at, gap.clone()),
        unread: BTreeMap::new(),
        others: Others {
            kueue: Read::with_gap(None, at, gap.clone()),
            kueue_version: None,
            policies: Read::with_gap(BTreeMap::new(), at, gap.clone()),
        },
    }
}

/// Labels that the fleet selects or sorts nodes by.
fn asked(target: &Target) -> BTreeSet<&str> {
    let standing = &*target.standing;
    let levels = standing.levels.iter().filter_map(|level| level.node_label.as_deref());
    let pools = standing.pools.values();
    let labels = pools.flat_map(|pool| {
        let existing = pool.capacity.iter().filter_map(|source| match source {
            Source::Existing { labels } => Some(labels),
            _ => None,
        });
        existing.chain([&pool.labels]).flat_map(|labels| labels.keys().map(String::as_str))
    });
    levels.chain(labels).collect()
}

pub type Problem = (String, Failure);
pub type Found<T> = Result<T, Problem>;

pub fn at<T>(what: &str, answer: Result<T, Failure>) -> Found<T> {
    answer.map_err(|failure| (what.to_owned(), failure))
}

pub async fn all_nodes(wire: &Wire, asked: Option<&BTreeSet<&str>>) -> Found<BTreeMap<NodeName, NodeSeen>> {
    let all = wire.list_as(ACCEPT, &kinds::nodes(), "", |bytes: &[u8]| nodes::page(bytes, asked)).await;
    at("list nodes", all.map(|all| all.into_iter().collect()))
}

pub async fn all_budgets(wire: &Wire, namespace: Option<&str>) -> Found<Vec<budgets::Found>> {
    let decode = |bytes: &[u8]| page(bytes, |budget| Some(budgets::found(&budget)));
    at("list poddisruptionbudgets", wire.list(&kinds::budgets(namespace), "", decode).await)
}

/// Sorted by namespace and name.
pub async fn all_pods(wire: &Wire, namespace: Option<&str>, query: &str, around: &Around) -> Found<Vec<PodSeen>> {
    let decode = |bytes: &[u8]| page(bytes, |pod| Some(pods::seen(&pod, around)));
    let all = wire.list(&kinds::pods(namespace), query, decode).await;
    let all = all.map(|mut all| {
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    });
    at("list pods", all)
}

/// A cluster without Kueue has no workloads: that is known, not unread.
pub async fn all_workloads(wire: &Wire, served: &Served, namespace: Option<&str>) -> Found<Vec<workloads::Found>> {
    if !served.has_kueue() {
        return Ok(Vec::new());
    }
    let decode = |bytes: &[u8]| page(bytes, |one| Some(workloads::found(&one)).filter(|one| !one.seen.finished));
    at("list workloads.kueue.x-k8s.io", wire.list(&kinds::workloads(namespace), "", decode).await)
}

pub type Workloads = BTreeMap<WorkloadUid, WorkloadSeen>;

/// Workloads by UID, and which pods are theirs. One that waits is in the queue that its LocalQueue leads to.
pub fn indexed(all: Vec<workloads::Found>, objects: &BTreeMap<ObjectKey, ObjectSeen>) -> (Workloads, Links) {
    let (mut by_uid, mut links) = (Workloads::new(), Links::default());
    for mut one in all {
        links.add(&one);
        if one.seen.queue.as_str().is_empty() {
            let namespace = one.seen.name.namespace.as_str();
            let key = ObjectKey::namespaced(ObjectKind::LocalQueue, namespace, &one.local_queue);
            let queue = objects.get(&key).and_then(|queue| queue.body["spec"]["clusterQueue"].as_str());
            one.seen.queue = queue.unwrap_or_default().into();
        }
        by_uid.insert(one.uid, one.seen);
    }
    (by_uid, links)
}

/// A pod may answer for its workload.
pub fn saved_by_pods(workloads: &mut Workloads, pods: &[PodSeen]) {
    for pod in pods {
        if let (Some(uid), Some(saved)) = (&pod.workload, pod.saved)
            && let Some(workload) = workloads.get_mut(uid)
        {
            workload.saved = workload.saved.max(Some(saved));
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodGroup<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    spec: GroupSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupSpec {
    scheduling_policy: Policy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Policy {
    basic: Option<serde::de::IgnoredAny>,
}

/// PodGroups whose pods need not run together, in whichever version the server has; an older server has none.
pub async fn loose_groups(wire: &Wire, served: &Served, namespace: Option<&str>) -> Found<BTreeSet<NamespacedName>> {
    let Some(version) = served.pod_groups() else { return Ok(BTreeSet::new()) };
    let loose = |group: PodGroup<'_>| {
        let name = NamespacedName::new(group.metadata.namespace.as_str(), group.metadata.name.as_str());
        group.spec.scheduling_policy.basic.is_some().then_some(name)
    };
    match wire.list(&kinds::pod_groups(version, namespace), "", |bytes: &[u8]| page(bytes, loose)).await {
        // A version of the API group that does not have the kind.
        Err(failure) if failure.code() == Some(404) => Ok(BTreeSet::new()),
        all => at("list podgroups", all.map(|all| all.into_iter().collect())),
    }
}

type Objects = BTreeMap<ObjectKey, ObjectSeen>;

/// The objects of the kinds that we write, with the kinds that could not be read.
async fn all_objects(k8s: &K8s, served: &Served, target: &Target) -> (Objects, BTreeMap<ObjectKind, Gap>) {
    let is_served = |kind: &ObjectKind| served.has_kueue() || !kinds::is_kueue(*kind);
    // Policies are only looked at, with what else is others'.
    let kinds = ObjectKind::ALL.into_iter().filter(|kind| *kind != ObjectKind::ClusterPolicy);
    let (there, missing): (Vec<ObjectKind>, Vec<ObjectKind>) = kinds.partition(is_served);
    let lists = there.into_iter().map(|kind| async move {
        let found = match kind {
            ObjectKind::ConfigMap => config_maps(k8s, target).await,
            _ => objects_of(k8s, kind, None, "").await,
        };
        (kind, found)
    });
    let mut unread: BTreeMap<ObjectKind, Gap> =
        missing.into_iter().map(|kind| (kind, kueue_is_missing(served))).collect();
    let mut all = Objects::new();
    for (kind, list) in join_all(lists).await {
        match list {
            Ok(found) => all.extend(found),
            Err((_, failure)) if kinds::is_new(kind) && failure.code() == Some(404) => {}
            Err((what, failure)) => _ = unread.insert(kind, gap(&what, &failure)),
        }
    }
    (all, unread)
}

async fn objects_of(
    k8s: &K8s,
    kind: ObjectKind,
    namespace: Option<&str>,
    query: &str,
) -> Found<Vec<(ObjectKey, ObjectSeen)>> {
    let decode = |bytes: &[u8]| page(bytes, |one| Some(objects::seen(kind, &k8s.fleet, one)));
    let all = k8s.wire.list(&kinds::collection(kind, namespace), query, decode).await;
    at(&format!("list {}", kinds::plural(kind)), all)
}

/// A cluster has thousands of config maps, and some are large: only ours are read, and those that stand where ours
/// should.
async fn config_maps(k8s: &K8s, target: &Target) -> Found<Vec<(ObjectKey, ObjectSeen)>> {
    let ours = format!("labelSelector={}", escaped(&format!("{MANAGED_BY}={MANAGER}")));
    let mut found = Vec::new();
    for namespace in [GPU_OPERATOR, OUR_NAMESPACE] {
        found.extend(objects_of(k8s, ObjectKind::ConfigMap, Some(namespace), &ours).await?);
    }
    let wanted = compile(target).objects.into_iter().map(|object| object.key);
    for key in wanted.filter(|key| key.kind == ObjectKind::ConfigMap) {
        if found.iter().all(|(known, _)| *known != key) {
            found.extend(object(k8s, &key).await?);
        }
    }
    Ok(found)
}

/// What other tools own and ours rests on. Who may not read it hears of it where it matters.
async fn others(k8s: &K8s, served: &Served, at: Timestamp) -> Others {
    let (kueue, policies, kueue_version) =
        join3(object(k8s, &configuration()), all_policies(k8s, served), served::kueue_version(&k8s.wire)).await;
    let mut gaps = Gaps::default();
    let kueue = gaps.take("kueue", kueue).map(|(_, seen)| seen.body);
    let policies = gaps.take("policies", policies).into_iter().map(|(key, seen)| (key, seen.body)).collect();
    let policies = read(policies, at, gaps.of(&["policies"]));
    Others { kueue: read(kueue, at, gaps.of(&["kueue"])), kueue_version, policies }
}

/// A cluster without the GPU Operator has no policies: that is known, not unread.
async fn all_policies(k8s: &K8s, served: &Served) -> Found<Vec<(ObjectKey, ObjectSeen)>> {
    if !served.has_nvidia() {
        return Ok(Vec::new());
    }
    match objects_of(k8s, ObjectKind::ClusterPolicy, None, "").await {
        // Something else of NVIDIA's.
        Err((_, failure)) if failure.code() == Some(404) => Ok(Vec::new()),
        all => all,
    }
}

/// One object, if it is there.
pub async fn object(k8s: &K8s, key: &ObjectKey) -> Found<Option<(ObjectKey, ObjectSeen)>> {
    let what = || format!("get {}", objects::described(key));
    let answer = at(&what(), k8s.wire.find(&kinds::path(key)).await)?;
    let Some(bytes) = answer else { return Ok(None) };
    let written = serde_json::from_slice(&bytes);
    let written = written.map_err(|error| (what(), Failure::Unreadable(error.to_string())))?;
    Ok(Some(objects::seen(key.kind, &k8s.fleet, written)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_how_to_go_on() {
        let text =
            r#"{"metadata": {"continue": "abc", "remainingItemCount": 5}, "items": [{"metadata": {"name": "a"}}]}"#;
        let (found, next) =
            page(text.as_bytes(), |node: nodes::Node<'_>| Some(node.metadata.name.as_str().to_owned())).unwrap();
        assert_eq!((found, next), (vec!["a".to_owned()], Some("abc".to_owned())));
    }
}
