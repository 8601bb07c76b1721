//! What nodes offer beside what their type says, in the queues of their pools.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidewright::compile::shown::Shown;
use tidewright::compile::{Beside, compile_beside};
use tidewright::effect::{Desired, marks};
use tidewright::fleet::Target;
use tidewright::load;
use tidewright::observed::{ClusterSeen, NodeSeen, ObjectKey, ObjectKind, ObjectSeen, Read};

const FLEET: &str = "apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {name: lab}
spec:
  timeZone: UTC
  cloud: {none: {}}
  kubernetes: {sim: {}}
  hardware: [{name: dgx-h100, gpu: h100-sxm, gpus: 8}]
---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {name: low}
spec: {rank: 1}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: own}
spec: {instanceType: dgx-h100, nodes: 2, capacity: [{existing: {labels: {rack: a}}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: plain}
spec: {instanceType: dgx-h100, nodes: 1, capacity: [{existing: {labels: {rack: b}}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: a}
spec:
  namespaces: [{name: a}]
  tiers: [low]
  shares: [{pool: own, guarantee: {nodes: 2}}, {pool: plain, guarantee: {nodes: 1}}]
";

const IN_POOL: [(&str, &str); 1] = [(marks::POOL, "own")];

fn now() -> Timestamp {
    "2026-06-08T12:00Z".parse().unwrap()
}

fn target() -> Target {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("fleet.yaml"), FLEET).unwrap();
    let checked = load::check(directory.path(), now());
    checked.fleet.expect("the documents are valid").target_at(now())
}

fn node(labels: &[(&str, &str)], offers: &[(&str, i64)]) -> NodeSeen {
    NodeSeen {
        uid: "u".into(),
        instance: None,
        labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        moved_by: BTreeMap::new(),
        allocatable: offers.iter().map(|(name, amount)| ((*name).into(), *amount)).collect(),
        conditions: BTreeMap::new(),
        created: now(),
        boot: None,
    }
}

/// A cluster with these nodes, whose objects are as they are wanted beside them and what was there before.
fn after(before: &ClusterSeen, nodes: Vec<NodeSeen>) -> ClusterSeen {
    let named = nodes.into_iter().enumerate().map(|(at, node)| (format!("n{at}").as_str().into(), node));
    let mut cluster = ClusterSeen { nodes: Read::new(named.collect(), now()), ..before.clone() };
    let objects = desired(&cluster).objects.into_iter().map(|object| {
        let written = Some(object.digest);
        (object.key, ObjectSeen { body: object.body, written, moved_by: None, deleting: false })
    });
    cluster.objects = Read::new(objects.collect(), now());
    cluster
}

fn desired(cluster: &ClusterSeen) -> Desired {
    let target = target();
    compile_beside(&target, &Beside { shown: Shown::of(&target, cluster), ..Beside::default() })
}

fn queue() -> ObjectKey {
    ObjectKey::cluster(ObjectKind::ClusterQueue, "a")
}

/// What each pool gives of what nobody knows of its type.
fn given(desired: &Desired) -> Vec<String> {
    let body = &desired.objects.iter().find(|object| object.key == queue()).unwrap().body;
    let known = ["nvidia.com/gpu", "cpu", "memory", "ephemeral-storage"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let flavors = body["spec"]["resourceGroups"][0]["flavors"].as_array().unwrap().iter().flat_map(|flavor| {
        let resources = flavor["resources"].as_array().unwrap().iter();
        let others = resources.filter(|one| !known.contains(&one["name"].as_str().unwrap()));
        others.map(|one| [&flavor["name"], &one["nominalQuota"], &one["name"]].map(text).join(" "))
    });
    flavors.collect()
}

#[test]
fn a_queue_covers_what_any_node_of_its_pools_shows_or_could() {
    let empty = ClusterSeen::default();
    assert_eq!(given(&desired(&empty)), [""; 0]);
    let shows = [("rdma/hca", 63), ("hugepages-2Mi", 5 << 30), ("hugepages-1Gi", 0), ("pods", 110)];
    let all = ["own 32Ti hugepages-2Mi", "own 2T rdma/hca", "plain 0 hugepages-2Mi", "plain 0 rdma/hca"];
    assert_eq!(given(&desired(&after(&empty, vec![node(&IN_POOL, &shows), node(&IN_POOL, &[])]))), all);
    assert_eq!(given(&desired(&after(&empty, vec![node(&[("rack", "a")], &shows)]))), all, "before it is claimed");
    let others = vec![node(&[("rack", "c")], &shows), node(&[("rack", "a"), (marks::POOL, "theirs")], &shows)];
    assert_eq!(given(&desired(&after(&empty, others))), [""; 0]);
}

#[test]
fn accelerators_by_another_name_are_not_given_out_without_limit() {
    let names = ["nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "amd.com/gpu_vf", "aws.amazon.com/neuroncore"];
    let shows = names.map(|name| (name, 8));
    assert_eq!(given(&desired(&after(&ClusterSeen::default(), vec![node(&IN_POOL, &shows)]))), [""; 0]);
}

#[test]
fn what_is_covered_once_stays_and_what_a_person_added_does_not() {
    let shows = [("rdma/hca", 63), ("hugepages-2Mi", 1 << 30)];
    let before = after(&ClusterSeen::default(), vec![node(&IN_POOL, &shows)]);
    let covered = given(&desired(&before));
    assert_eq!(covered.len(), 4);
    // No node is there, or its plugin begins anew: a round later nothing is wanted that is not there.
    for nodes in [Vec::new(), vec![node(&IN_POOL, &[("rdma/hca", 0)])], vec![node(&IN_POOL, &[])]] {
        assert_eq!(desired(&after(&before, nodes)).objects, desired(&before).objects);
    }
    let mut edited = after(&before, Vec::new());
    let mut objects = edited.objects.seen().clone();
    let body = &mut objects.get_mut(&queue()).unwrap().body;
    for flavor in body["spec"]["resourceGroups"][0]["flavors"].as_array_mut().unwrap() {
        let mine = json!({"name": "example.com/mine", "nominalQuota": "5"});
        flavor["resources"].as_array_mut().unwrap().push(mine);
    }
    edited.objects = Read::new(objects, now());
    assert_eq!(given(&desired(&edited)), covered);
}
