//! Nodes under work, with the real Kueue: gangs that stay together, pods beside the queues, GPUs that are cut anew.

use serde_json::{Value, json};

use super::super::controlplane::mig::{Maps, Operands, Timing};
use super::super::controlplane::plane::Settings;
use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, gang};
use super::teams::{Scene, tidewright};

const LEAF: &str = "topology.k8s.aws/network-node-layer-3";

#[test]
fn a_gang_is_placed_together_moved_whole_and_pods_beside_the_queues_count() {
    let Some(scene) = Scene::start("racks") else { return };
    let leaves = |nodes: &[String]| {
        let mut leaves: Vec<Value> =
            nodes.iter().map(|node| scene.plane.node(node)["metadata"]["labels"][LEAF].clone()).collect();
        leaves.sort_by_key(ToString::to_string);
        leaves.dedup();
        leaves.len()
    };
    let together = json!({"kueue.x-k8s.io/podset-required-topology": LEAF});
    let ring = scene.submit_with("vision", "ring", "research", 4, together.clone());
    let other = scene.submit_with("vision", "other", "research", 4, together.clone());
    let wide = scene.submit_with("vision", "wide", "research", 5, together);
    scene.runs(&ring, 4);
    scene.runs(&other, 4);
    assert_eq!([&ring, &other].map(|job| leaves(&scene.nodes_of(job))), [1, 1], "one leaf each");
    assert!(scene.waits(&wide).contains("topology"), "a leaf has four nodes: {}", scene.waits(&wide));
    scene.end(&[&wide]);
    // A node of it goes: the plan names the gang alone, and the whole of it moves to another leaf.
    let sick = scene.nodes_of(&ring)[0].clone();
    let (code, said) = scene.tidewright(&["quarantine", &sick, "--reason", "ECC errors"]);
    assert_eq!(code, 0, "{said}");
    let (_, planned) = scene.planned();
    let gone = scene.evicted_by(|| {
        scene.tidewright(&["apply", "--until-converged", "--yes"]);
        eventually("the gang runs elsewhere", 120, || {
            let nodes = scene.nodes_of(&ring);
            (nodes.len() == 4 && !nodes.contains(&sick)).then_some(())
        });
    });
    assert_eq!(gone, [ring.clone()].into());
    assert_eq!(planned, gone);
    assert_eq!(leaves(&scene.nodes_of(&ring)), 1);
    scene.tidewright(&["return", &sick]);
    scene.converge();
    pods_beside_the_queues_count(&scene);
}

fn pods_beside_the_queues_count(scene: &Scene) {
    let nominal = |team: &str| -> u64 {
        let path = format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/racks-{team}");
        let spec = scene.plane.api.get(&path).unwrap()["spec"].take();
        let resources = spec["resourceGroups"][0]["flavors"][0]["resources"].as_array().unwrap().clone();
        let gpus = resources.iter().find(|one| one["name"] == "nvidia.com/gpu").unwrap();
        gpus["nominalQuota"].as_str().unwrap().parse().unwrap()
    };
    let gpus = json!({"nvidia.com/gpu": "8"});
    let pods = ["racks-vision", "racks-vision", "default"].iter().enumerate().map(|(at, namespace)| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("beside-{at}"), "namespace": namespace},
            "spec": {
                "nodeSelector": {"tidewright.dev/pool": "racks-train"},
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "serve", "resources": {"requests": gpus, "limits": gpus}}],
            },
        })
    });
    let pods: Vec<Value> = pods.collect();
    scene.plane.api.create_all(&pods);
    let path = |pod: &Value| {
        let meta = &pod["metadata"];
        format!("/api/v1/namespaces/{}/pods/{}", meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap())
    };
    for pod in &pods {
        eventually("it runs", 60, || {
            (scene.plane.api.get(&path(pod)).unwrap()["status"]["phase"] == "Running").then_some(())
        });
    }
    assert_eq!(["vision", "language"].map(nominal), [400, 400]);
    scene.converge();
    // Two are vision's own. The third is nobody's, and nothing is free: both give in proportion to what they have left.
    assert_eq!(["vision", "language"].map(nominal), [400 - 16 - 3, 400 - 5]);
    for pod in &pods {
        block(scene.plane.api.send("DELETE", &path(pod), "application/json", None)).unwrap();
        eventually("it is gone", 60, || scene.plane.api.get(&path(pod)).is_err().then_some(()));
    }
    scene.converge();
    assert_eq!(["vision", "language"].map(nominal), [400, 400]);
}

/// A pool of four nodes, cut so; its team has all of it.
fn cut(layout: &str) -> String {
    format!(
        "kind: Fleet
metadata: {{name: cut}}
spec: {{timeZone: UTC, cloud: {{none: {{}}}}, kubernetes: {{kubeconfig: {{context: bench}}}}}}
---
kind: GpuLayout
metadata: {{name: mixed}}
spec: {{mig: [{{gpus: [0, 1, 2, 3], slices: {{3g.40gb: 2}}}}]}}
---
kind: NodePool
metadata: {{name: cut}}
spec: {{instanceType: p5.48xlarge, nodes: 4, layout: {layout}, updates: {{when: drain}}, capacity: [{{existing: {{labels: {{rack: cut}}}}}}]}}
---
kind: PreemptionTier
metadata: {{name: cut}}
spec: {{rank: 1}}
---
kind: Quota
metadata: {{name: cut}}
spec: {{namespaces: [{{name: cut, localQueue: main}}], tiers: [cut], shares: [{{pool: cut, guarantee: {{nodes: 4}}}}]}}
"
    )
    .replace("kind: ", "apiVersion: tidewright.dev/v1alpha1\nkind: ")
}

#[test]
fn gpus_are_cut_anew_node_by_node_under_a_gang_that_moves_out_of_the_way() {
    // The map of mig-manager is one for the whole cluster.
    let Some(plane) = Controlplane::start(Settings::default()) else { return };
    plane.add_nodes(&GpuNodes::new("cut", 4).label("rack", "cut"));
    let maps = Maps {
        namespace: "gpu-operator".into(),
        mig: "tidewright-mig-parted".into(),
        device_plugin: "tidewright-device-plugin".into(),
    };
    let _operands = Operands::start(&plane, "cut-", maps, Timing::default());
    let directory = tempfile::tempdir().unwrap();
    let converge = |layout: &str| {
        std::fs::write(directory.path().join("fleet.yaml"), cut(layout)).unwrap();
        let (code, said) = tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]);
        assert_eq!(code, 0, "{said}");
    };
    converge("whole");
    // Two pods of four GPUs each: they find room on nodes of either cut, but not on one that is being cut.
    let mut job = gang("cut", "train", "main", 2, 4);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("cut");
    plane.api.create(&job).unwrap();
    let running = |name: &str| {
        let pods = plane.api.list(&format!("/api/v1/namespaces/cut/pods?labelSelector=job-name={name}"));
        pods.iter()
            .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null())
            .count()
    };
    eventually("the gang runs", 60, || (running("train") == 2).then_some(()));
    converge("mixed");
    for node in 0..4 {
        let node = plane.node(&format!("cut-{node}"));
        let allocatable = &node["status"]["allocatable"];
        assert_eq!([&allocatable["nvidia.com/gpu"], &allocatable["nvidia.com/mig-3g.40gb"]], ["4", "8"], "{node}");
        assert!(node["spec"]["unschedulable"].is_null());
    }
    eventually("the gang runs again", 60, || (running("train") == 2).then_some(()));
    // It was moved whole, through its queue, and never lost a single pod to an eviction.
    let workloads = plane.api.list("/apis/kueue.x-k8s.io/v1beta2/namespaces/cut/workloads");
    let evictions = workloads[0]["status"]["schedulingStats"]["evictions"].as_array().cloned().unwrap_or_default();
    assert!(!evictions.is_empty() && evictions.iter().all(|one| one["reason"] == "Deactivated"), "{evictions:?}");
    // And slices are there for whoever asks for them.
    let mut job = gang("cut", "slices", "main", 4, 1);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("cut");
    let asked = json!({"cpu": "1", "memory": "1Gi", "nvidia.com/mig-3g.40gb": "8"});
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": asked, "limits": asked});
    plane.api.create(&job).unwrap();
    eventually("slices run", 60, || (running("slices") == 4).then_some(()));
}
