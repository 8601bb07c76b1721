//! What a SchedulerProfile says, with the real kube-scheduler: a second one is started with the very file that is
//! compiled, as the user and with the rights that `deploy/scheduler.yaml` gives it, beside a first one that is elected as in
//! every cluster. Pods that name its profiles are packed or spread, against everything that its defaults prefer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidewright::compile::compile;

use super::super::controlplane::{Controlplane, GpuNodes, Settings, eventually};
use super::{namespace, target};

const DOCUMENTS: &str = "kind: NodePool
metadata: {name: packed}
spec: {instanceType: p5.48xlarge, nodes: 4, capacity: [{existing: {labels: {rack: packed}}}]}
---
kind: NodePool
metadata: {name: loose}
spec: {instanceType: p5.48xlarge, nodes: 4, capacity: [{existing: {labels: {rack: loose}}}]}
---
kind: NodePool
metadata: {name: sliced}
spec:
  instanceType: p5.48xlarge
  nodes: 4
  capacity: [{existing: {labels: {rack: sliced}}}]
  layout: sevenths
---
kind: GpuLayout
metadata: {name: sevenths}
spec: {mig: [{slices: {1g.10gb: 7}}]}
---
kind: SchedulerProfile
metadata: {name: gpu-pack}
spec: {score: pack, pools: [packed, sliced]}
---
kind: SchedulerProfile
metadata: {name: gpu-spread}
spec: {score: spread, pools: [loose]}
";

/// The file that is written into the cluster.
fn configuration() -> Value {
    let objects = compile(&target("schedulers", DOCUMENTS)).objects;
    let map = objects.iter().find(|object| &*object.key.name == "tidewright-scheduler").unwrap();
    serde_json::from_str(map.body["data"]["config.yaml"].as_str().unwrap()).unwrap()
}

/// Everything of the file that runs it but the Deployment, for which there are no machines here; and who it is.
fn deployed(plane: &Controlplane) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/scheduler.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    plane.api.create(&namespace(OURS)).unwrap();
    documents.iter().filter(|one| one["kind"] != "Deployment").for_each(|one| drop(plane.api.create(one).unwrap()));
    let deployment = documents.iter().find(|one| one["kind"] == "Deployment").unwrap();
    let path = format!("/apis/apps/v1/namespaces/{OURS}/deployments?dryRun=All&fieldValidation=Strict");
    plane.api.post(&path, deployment).unwrap();
    let pods = &deployment["spec"]["template"]["spec"];
    assert_eq!(pods["volumes"][0]["configMap"]["name"], NAME, "the file that is compiled");
    plane.service_account(OURS, pods["serviceAccountName"].as_str().unwrap())
}

/// Who holds a lease.
fn holder(plane: &Controlplane, namespace: &str, lease: &str) -> Option<String> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}");
    Some(plane.api.get(&path).ok()?["spec"]["holderIdentity"].as_str()?.to_owned())
}

const OURS: &str = "tidewright-system";
const NAME: &str = "tidewright-scheduler";

/// What a slice of a GPU is called.
const SLICE: &str = "nvidia.com/mig-1g.10gb";

/// So many pods of one GPU, which all belong to one ReplicaSet: what the defaults spread most.
fn replicas(name: &str, scheduler: &str, rack: &str, count: u32) -> Value {
    asking(name, scheduler, rack, count, &json!({"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}))
}

fn asking(name: &str, scheduler: &str, rack: &str, count: u32, asked: &Value) -> Value {
    let container = json!({"name": "main", "image": "serve", "resources": {"requests": asked, "limits": asked}});
    let mut spec = json!({"nodeSelector": {"rack": rack}, "containers": [container]});
    if !scheduler.is_empty() {
        spec["schedulerName"] = json!(scheduler);
    }
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "scores"}, "spec": {
        "replicas": count, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}})
}

/// Pods on each node, once all of them are bound.
fn bound(plane: &Controlplane, name: &str, count: usize) -> BTreeMap<String, usize> {
    eventually(&format!("all pods of {name} are bound"), 120, || {
        let pods = plane.api.list(&format!("/api/v1/namespaces/scores/pods?labelSelector=app={name}"));
        let nodes: Vec<String> = pods.iter().filter_map(|pod| Some(pod["spec"]["nodeName"].as_str()?.into())).collect();
        let mut found = BTreeMap::new();
        nodes.iter().for_each(|node: &String| *found.entry(node.clone()).or_default() += 1);
        (nodes.len() == count).then_some(found)
    })
}

#[test]
fn packed_pods_fill_nodes_and_spread_ones_do_not() {
    let Some(plane) = Controlplane::start(Settings::with_election()) else { return };
    let first = eventually("the first scheduler is elected", 60, || holder(&plane, "kube-system", "kube-scheduler"));
    plane.api.create(&namespace("scores")).unwrap();
    for rack in ["packed", "loose", "default", "sliced"] {
        plane.add_nodes(&GpuNodes::new(rack, 4).label("rack", rack));
    }
    for node in GpuNodes::new("sliced", 4).names() {
        let cut = json!({"nvidia.com/gpu": "0", (SLICE): "56"});
        let status = json!({"status": {"capacity": cut, "allocatable": cut}});
        plane.api.merge(&format!("/api/v1/nodes/{node}/status"), &status).unwrap();
    }
    // A service that brings its spread along as a wish: packing has to win against that too.
    plane
        .api
        .create(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "api", "namespace": "scores"},
        "spec": {"selector": {"app": "pack"}, "ports": [{"port": 80}]}}))
        .unwrap();
    let user = deployed(&plane);
    plane.start_scheduler("second", &user, configuration());

    // What the first scheduler does with the same pods: none of four nodes is full.
    plane.api.create(&replicas("plain", "", "default", 16)).unwrap();
    let plain = bound(&plane, "plain", 16);
    assert!(plain.len() == 4 && plain.values().all(|pods| *pods < 8), "the defaults spread: {plain:?}");

    plane.api.create(&replicas("pack", "gpu-pack", "packed", 16)).unwrap();
    let packed = bound(&plane, "pack", 16);
    assert_eq!(packed.values().copied().collect::<Vec<_>>(), [8, 8], "two nodes are full, two are empty: {packed:?}");

    plane.api.create(&replicas("spread", "gpu-spread", "loose", 16)).unwrap();
    let spread = bound(&plane, "spread", 16);
    assert_eq!(spread.values().copied().collect::<Vec<_>>(), [4, 4, 4, 4], "all alike: {spread:?}");

    // The less of a node one takes, the less packing weighs against the defaults: it has to win all the same.
    plane.api.create(&asking("slices", "gpu-pack", "sliced", 20, &json!({"cpu": "1", (SLICE): "1"}))).unwrap();
    let slices = bound(&plane, "slices", 20);
    assert_eq!(slices.values().copied().collect::<Vec<_>>(), [20], "one node has room for all: {slices:?}");

    // The hole that is left takes a job of whole nodes; what was spread leaves none.
    for (name, scheduler, rack, fits) in [("big", "gpu-pack", "packed", true), ("none", "gpu-spread", "loose", false)] {
        let mut whole = replicas(name, scheduler, rack, 1);
        let resources = &mut whole["spec"]["template"]["spec"]["containers"][0]["resources"];
        for kind in ["requests", "limits"] {
            resources[kind]["nvidia.com/gpu"] = json!("8");
        }
        plane.api.create(&whole).unwrap();
        if fits {
            bound(&plane, name, 1);
            continue;
        }
        eventually("it is told that it does not fit", 60, || {
            let pods = plane.api.list(&format!("/api/v1/namespaces/scores/pods?labelSelector=app={name}"));
            let conditions = pods.first()?["status"]["conditions"].as_array()?.clone();
            conditions.iter().any(|one| one["reason"] == "Unschedulable").then_some(())
        });
    }
    // Each has a lease of its own, so that of two replicas of the second one works.
    assert_eq!(holder(&plane, "kube-system", "kube-scheduler"), Some(first.clone()));
    assert!(holder(&plane, OURS, NAME).is_some_and(|second| second != first));
    let second = format!("system:serviceaccount:{OURS}:{NAME}");
    let refused = plane.audit(&second).into_iter().filter(|event| {
        event["user"]["username"] == second.as_str()
            && event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    });
    let refused: Vec<String> = refused.map(|event| format!("{} {}", event["verb"], event["requestURI"])).collect();
    assert_eq!(refused, [""; 0], "rights that are missing");
}
