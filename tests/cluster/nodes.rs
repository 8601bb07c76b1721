//! Nodes under work, with the real Kueue: gangs that stay together, and pods beside the queues.

use serde_json::{Value, json};

use super::super::controlplane::{block, eventually};
use super::teams::Scene;

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
