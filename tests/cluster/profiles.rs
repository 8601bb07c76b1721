//! What Kueue has to do of a SchedulerProfile, on the real one: gangs that say nothing of their place stand on the level
//! that is preferred, and a gang that does not get all its pods gives up its place in time.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::controlplane::{Controlplane, GpuNodes, Settings, eventually, gang};
use super::whole::tidewright;

const HOME: &str = "near";
const LEAF: &str = "topology.k8s.aws/network-node-layer-3";
const MAP: &str = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config";

const FLEET: &str = "apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {name: near}
spec:
  timeZone: UTC
  cloud: {none: {}}
  kubernetes: {kubeconfig: {context: bench}}
  fabric: {levels: [{name: leaf, nodeLabel: topology.k8s.aws/network-node-layer-3}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: near}
spec: {instanceType: p5.48xlarge, nodes: 8, capacity: [{existing: {labels: {rack: near}}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {name: low}
spec: {rank: 100}
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: near}
spec:
  namespaces: [{name: near, localQueue: main}]
  tiers: [low]
  shares: [{pool: near, guarantee: {gpus: 64}}]
";

const PROFILE: &str = "---
apiVersion: tidewright.dev/v1alpha1
kind: SchedulerProfile
metadata: {name: close}
spec: {score: pack, topology: {prefer: leaf}, gang: {timeout: 15s}, pools: [near]}
";

fn workload(plane: &Controlplane, job: &str) -> Value {
    let all = plane.api.list(&format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOME}/workloads"));
    all.into_iter().find(|one| one["metadata"]["ownerReferences"][0]["name"] == job).unwrap_or_default()
}

fn pods(plane: &Controlplane, job: &str) -> Vec<Value> {
    let all = plane.api.list(&format!("/api/v1/namespaces/{HOME}/pods?labelSelector=job-name={job}"));
    let runs = |pod: &Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    all.into_iter().filter(runs).collect()
}

/// On how many leaves so many pods of a new gang run, and what its Workload says of its place.
#[track_caller]
fn lands(plane: &Controlplane, job: &Value) -> (usize, Value) {
    plane.api.create(job).unwrap();
    let name = job["metadata"]["name"].as_str().unwrap();
    let wanted = usize::try_from(job["spec"]["parallelism"].as_u64().unwrap()).unwrap();
    let pods = eventually(&format!("{name} runs"), 120, || Some(pods(plane, name)).filter(|all| all.len() == wanted));
    let leaf =
        |pod: &Value| plane.node(pod["spec"]["nodeName"].as_str().unwrap())["metadata"]["labels"][LEAF].to_string();
    let leaves: BTreeSet<String> = pods.iter().map(leaf).collect();
    (leaves.len(), workload(plane, name)["spec"]["podSets"][0]["topologyRequest"].take())
}

fn ends(plane: &Controlplane, job: &str) {
    plane.api.delete(&format!("/apis/batch/v1/namespaces/{HOME}/jobs/{job}?propagationPolicy=Background"));
    eventually("its nodes are free", 60, || {
        (workload(plane, job).is_null() && pods(plane, job).is_empty()).then_some(())
    });
}

#[test]
fn a_gang_stands_on_the_level_that_its_pool_prefers_and_waits_for_its_pods_no_longer_than_said() {
    let Some(plane) = Controlplane::start(Settings::default()) else { return };
    plane.add_nodes(&GpuNodes::new("near", 8).label("rack", "near"));
    let file = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": file}});
    plane.api.create(&map).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(directory.path().join("fleet.yaml"), text).unwrap();
    let run = |arguments: &[&str]| {
        let done = tidewright(&plane, directory.path(), arguments);
        let output = done.get_output();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let converge = || run(&["apply", "--until-converged", "--yes"]);

    // Two leaves of four nodes, of which one node is taken: without a word the holes of both are filled.
    write(FLEET);
    let (code, said) = converge();
    assert_eq!(code, Some(0), "{said}");
    lands(&plane, &gang(HOME, "filler", "main", 1, 8));
    let (leaves, says) = lands(&plane, &gang(HOME, "plain", "main", 4, 8));
    assert_eq!(leaves, 2, "{says}");
    ends(&plane, "plain");

    // With the profile the same gang stands on the leaf that has room for all of it.
    write(&format!("{FLEET}{PROFILE}"));
    let (code, held) = converge();
    assert_eq!(code, Some(3), "{held}");
    let (leaves, says) = lands(&plane, &gang(HOME, "close", "main", 4, 8));
    assert_eq!((leaves, &says["preferred"]), (1, &json!(LEAF)), "{says}");
    // It is a wish: three nodes of one leaf are left, and one more pod than that waits only for nodes. Who says something
    // of its place is taken at its word.
    let mut own = gang(HOME, "own", "main", 1, 8);
    own["spec"]["template"]["metadata"]["annotations"] =
        json!({"kueue.x-k8s.io/podset-unconstrained-topology": "true"});
    let (_, says) = lands(&plane, &own);
    assert_eq!((&says["unconstrained"], &says["preferred"]), (&json!(true), &Value::Null), "{says}");
    ends(&plane, "close");
    let (leaves, says) = lands(&plane, &gang(HOME, "wide", "main", 6, 8));
    assert_eq!((leaves, &says["preferred"]), (2, &json!(LEAF)), "{says}");
    ends(&plane, "wide");

    // How long a gang waits for its pods is in Kueue's own file, which its owner changes as the plan says.
    let (_, planned) = run(&["plan"]);
    let patch =
        planned.lines().find_map(|line| line.split_once("patch configmap kueue-manager-config --type=merge -p '"));
    let patch = patch.unwrap_or_else(|| panic!("no patch in {planned}")).1.trim_end().strip_suffix('\'').unwrap();
    plane.api.merge(MAP, &serde_json::from_str(patch).unwrap()).unwrap();
    let text = plane.api.get(MAP).unwrap()["data"]["controller_manager_config.yaml"].as_str().unwrap().to_owned();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(file["waitForPodsReady"]["timeout"], "15s", "{text}");
    plane.restart_kueue(&json!({"waitForPodsReady": file["waitForPodsReady"]}));
    let (code, planned) = run(&["plan"]);
    assert_eq!(code, Some(0), "{planned}");
    let mut lonely = gang(HOME, "lonely", "main", 2, 8);
    lonely["spec"]["template"]["spec"]["schedulerName"] = json!("nobody");
    plane.api.create(&lonely).unwrap();
    eventually("it gave up its place", 90, || {
        workload(&plane, "lonely")["status"]["requeueState"]["count"].as_u64().filter(|count| *count > 0)
    });
    plane.api.delete(&format!("/apis/batch/v1/namespaces/{HOME}/jobs/lonely?propagationPolicy=Background"));

    // A level that nobody prefers any more is said to nobody.
    write(&format!("{FLEET}{PROFILE}").replace("topology: {prefer: leaf}, ", ""));
    let (code, said) = converge();
    assert_eq!(code, Some(0), "{said}");
    // The server goes by a policy for a moment after it is gone.
    eventually("nobody is told any more", 60, || {
        let (_, says) = lands(&plane, &gang(HOME, "again", "main", 4, 8));
        ends(&plane, "again");
        (says["unconstrained"] == json!(true) && says["preferred"].is_null()).then_some(())
    });
}
