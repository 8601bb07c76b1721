//! Only some things, freshly: nodes with their pods, workloads with theirs, single objects.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};

use super::claims::all_claims;
use super::gaps::Gaps;
use super::kinds;
use super::nodes;
use super::observe::{
    Found, NOT_OVER, Workloads, all_budgets, all_nodes, all_pods, all_workloads, indexed, loose_groups, object, read,
    saved_by_pods,
};
use super::pods::Around;
use super::served::Served;
use super::wire::{Failure, escaped};
use super::{K8s, budgets};
use crate::effect::Subject;
use crate::ids::{InstanceId, NamespaceName, NamespacedName, NodeName, WorkloadUid};
use crate::observed::{BudgetSeen, ClusterSeen, NodeSeen, ObjectKey, ObjectKind, ObjectSeen, Others, PodSeen};
use crate::provider::Clock;

/// From so many on, one list costs less than single requests.
const MANY: usize = 16;
const AT_ONCE: usize = 8;

/// What is asked for.
#[derive(Default)]
struct Asked<'a> {
    nodes: BTreeSet<NodeName>,
    /// By the instance, with the name that its node had when it was last seen.
    instances: BTreeMap<&'a InstanceId, Option<NodeName>>,
    workloads: BTreeSet<&'a WorkloadUid>,
    objects: BTreeSet<&'a ObjectKey>,
}

pub async fn reread(k8s: &K8s, what: &[Subject]) -> ClusterSeen {
    let at = k8s.clock.now();
    let mut asked = Asked::of(k8s, what);
    let mut gaps = Gaps::default();
    let objects = gaps.take("objects", named_objects(k8s, &asked.objects).await);
    let nodes = gaps.take("nodes", named_nodes(k8s, &mut asked).await);
    // Most nodes that are looked at hold nothing that has to be understood.
    let first = match asked.workloads.is_empty() {
        true => named_pods(k8s, &asked, &BTreeSet::new(), &Around::default()).await,
        false => Ok(Vec::new()),
    };
    let first = gaps.take("pods", first);
    let is_simple = asked.workloads.is_empty() && first.iter().all(|pod| !pod.counts());
    let (pods, budgets, workloads) = if is_simple {
        (first, BTreeMap::new(), Workloads::new())
    } else {
        let namespaces = namespaces(k8s, &asked, &first);
        understood(k8s, &asked, namespaces, &mut gaps).await
    };
    ClusterSeen {
        nodes: read(nodes, at, gaps.of(&["nodes"])),
        pods: read(pods, at, gaps.of(&["pods", "nodes", "server", "claims", "groups"])),
        workloads: read(workloads, at, gaps.of(&["workloads", "server"])),
        budgets: read(budgets, at, gaps.of(&["budgets", "server"])),
        objects: read(objects, at, gaps.of(&["objects"])),
        unread: BTreeMap::new(),
        others: Others::default(),
    }
}

/// The pods that are asked for, with everything that they are understood by.
async fn understood(
    k8s: &K8s,
    asked: &Asked<'_>,
    namespaces: Option<BTreeSet<NamespaceName>>,
    gaps: &mut Gaps,
) -> (Vec<PodSeen>, BTreeMap<NamespacedName, BudgetSeen>, Workloads) {
    let served = gaps.take("server", served(k8s).await);
    let everywhere = [None];
    let scopes: Vec<Option<&str>> = match &namespaces {
        Some(some) => some.iter().map(|name| Some(name.as_str())).collect(),
        None => everywhere.into(),
    };
    let mut around = Around::default();
    let (mut budgets, mut workloads) = (Vec::new(), Vec::new());
    for scope in &scopes {
        budgets.append(&mut gaps.take("budgets", all_budgets(&k8s.wire, *scope).await));
        workloads.append(&mut gaps.take("workloads", all_workloads(&k8s.wire, &served, *scope).await));
        around.claims.append(&mut gaps.take("claims", all_claims(&k8s.wire, &served, *scope).await));
        around.loose.append(&mut gaps.take("groups", loose_groups(&k8s.wire, &served, *scope).await));
    }
    let queues = gaps.take("workloads", queues(k8s, &workloads, asked).await);
    let (mut workloads, links) = indexed(workloads, &queues);
    let (budgets, selectors) = budgets::indexed(budgets);
    (around.budgets, around.links) = (selectors, links);
    let of_workloads = asked.workloads.iter().filter_map(|uid| workloads.get(*uid));
    let of_workloads = of_workloads.map(|workload| workload.name.namespace.clone()).collect();
    let pods = gaps.take("pods", named_pods(k8s, asked, &of_workloads, &around).await);
    let named: BTreeSet<_> = pods.iter().flat_map(|pod| &pod.budgets).collect();
    let budgets = budgets.into_iter().filter(|(name, _)| named.contains(name)).collect();
    workloads.retain(|uid, _| asked.workloads.contains(uid));
    saved_by_pods(&mut workloads, &pods);
    (pods, budgets, workloads)
}

/// Where to look for what pods are understood by; none: everywhere.
fn namespaces(k8s: &K8s, asked: &Asked<'_>, pods: &[PodSeen]) -> Option<BTreeSet<NamespaceName>> {
    let mut found: BTreeSet<NamespaceName> = pods.iter().map(|pod| pod.name.namespace.clone()).collect();
    if !asked.workloads.is_empty() && !asked.nodes.is_empty() {
        return None;
    }
    for uid in &asked.workloads {
        found.insert(k8s.known.borrow().workload(uid)?.namespace);
    }
    (found.len() < MANY).then_some(found)
}

/// What the server has does not change between two looks at all of it.
async fn served(k8s: &K8s) -> Found<Served> {
    let known = k8s.known.borrow().served.clone();
    match known {
        Some(served) => Ok(served),
        None => Served::read(&k8s.wire).await.map_err(|failure| ("the API server".into(), failure)),
    }
}

impl<'a> Asked<'a> {
    fn of(k8s: &K8s, what: &'a [Subject]) -> Self {
        let mut asked = Self::default();
        for subject in what {
            match subject {
                Subject::Node(name) => _ = asked.nodes.insert(name.clone()),
                Subject::NodeOf(instance) => {
                    asked.instances.insert(instance, k8s.known.borrow().node_of(instance));
                }
                Subject::Workload(uid) => _ = asked.workloads.insert(uid),
                Subject::Object(key) => _ = asked.objects.insert(key),
                Subject::Instance(_) | Subject::Reservation(_) => {}
            }
        }
        asked
    }
}

async fn named_objects(k8s: &K8s, keys: &BTreeSet<&ObjectKey>) -> Found<BTreeMap<ObjectKey, ObjectSeen>> {
    let answers = stream::iter(keys.iter().map(|key| object(k8s, key)));
    let answers: Vec<Found<_>> = answers.buffer_unordered(AT_ONCE).collect().await;
    let mut all = BTreeMap::new();
    for answer in answers {
        all.extend(answer?);
    }
    Ok(all)
}

/// The nodes by name; an instance whose node is not known is looked for among all.
async fn named_nodes(k8s: &K8s, asked: &mut Asked<'_>) -> Found<BTreeMap<NodeName, NodeSeen>> {
    let names: BTreeSet<&NodeName> = asked.nodes.iter().chain(asked.instances.values().flatten()).collect();
    if names.len() < MANY && asked.instances.values().all(Option::is_some) {
        let answers = stream::iter(names.into_iter().map(|name| node(k8s, name)));
        let answers: Vec<Found<_>> = answers.buffer_unordered(AT_ONCE).collect().await;
        let mut found = BTreeMap::new();
        for answer in answers {
            found.extend(answer?);
        }
        // A node that came back under another name, or whose name another machine took, is looked for.
        let stands = |(id, name): (&&InstanceId, &Option<NodeName>)| {
            let node = name.as_ref().and_then(|name| found.get(name));
            node.is_some_and(|node: &NodeSeen| node.instance.as_ref() == Some(*id))
        };
        if asked.instances.iter().all(stands) {
            asked.nodes.extend(found.keys().cloned());
            return Ok(found);
        }
    }
    let all = all_nodes(&k8s.wire, None).await?;
    let is_asked = |(name, node): &(NodeName, NodeSeen)| {
        asked.nodes.contains(name) || node.instance.as_ref().is_some_and(|id| asked.instances.contains_key(id))
    };
    let found: BTreeMap<_, _> = all.into_iter().filter(is_asked).collect();
    asked.nodes.extend(found.keys().cloned());
    Ok(found)
}

async fn node(k8s: &K8s, name: &NodeName) -> Found<Option<(NodeName, NodeSeen)>> {
    let problem = |failure| (format!("get nodes {name}"), failure);
    let Some(bytes) = k8s.wire.find(&kinds::node(name.as_str())).await.map_err(problem)? else { return Ok(None) };
    let node = serde_json::from_slice(&bytes);
    let node = node.map_err(|error| problem(Failure::Unreadable(error.to_string())))?;
    Ok(Some(nodes::seen(node, None)))
}

/// The LocalQueues of workloads that wait.
async fn queues(
    k8s: &K8s,
    all: &[super::workloads::Found],
    asked: &Asked<'_>,
) -> Found<BTreeMap<ObjectKey, ObjectSeen>> {
    let waits = |one: &&super::workloads::Found| {
        asked.workloads.contains(&one.uid) && one.seen.queue.as_str().is_empty() && !one.local_queue.is_empty()
    };
    let queues = all
        .iter()
        .filter(waits)
        .map(|one| ObjectKey::namespaced(ObjectKind::LocalQueue, one.seen.name.namespace.as_str(), &one.local_queue));
    let queues: BTreeSet<ObjectKey> = queues.collect();
    named_objects(k8s, &queues.iter().collect()).await
}

/// The pods on these nodes, and those of these workloads.
async fn named_pods(
    k8s: &K8s,
    asked: &Asked<'_>,
    of_workloads: &BTreeSet<NamespaceName>,
    around: &Around,
) -> Found<Vec<PodSeen>> {
    let is_theirs = |pod: &PodSeen| pod.workload.as_ref().is_some_and(|uid| asked.workloads.contains(uid));
    let mut all: BTreeMap<_, PodSeen> = BTreeMap::new();
    let mut keep = |pods: Vec<PodSeen>| all.extend(pods.into_iter().map(|pod| (pod.name.clone(), pod)));
    if asked.nodes.len() < MANY {
        let on = asked.nodes.iter().map(|node| {
            let query = format!("fieldSelector={}", escaped(&format!("spec.nodeName={node}")));
            async move { all_pods(&k8s.wire, None, &query, around).await }
        });
        let answers: Vec<Found<_>> = stream::iter(on).buffer_unordered(AT_ONCE).collect().await;
        for answer in answers {
            keep(answer?);
        }
        for namespace in of_workloads {
            let pods = all_pods(&k8s.wire, Some(namespace.as_str()), NOT_OVER, around).await?;
            keep(pods.into_iter().filter(is_theirs).collect());
        }
    } else {
        let is_on = |pod: &PodSeen| pod.node.as_ref().is_some_and(|node| asked.nodes.contains(node));
        let pods = all_pods(&k8s.wire, None, NOT_OVER, around).await?;
        keep(pods.into_iter().filter(|pod| is_on(pod) || is_theirs(pod)).collect());
    }
    Ok(all.into_values().collect())
}
