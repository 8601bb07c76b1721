//! A fleet of existing nodes on a whole control plane, by the command line alone.

use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};
use tidewright::effect::{Head, LedgerChange, Part, identity};
use tidewright::provider::{Cluster, PartValue};

use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, gang, is_true, shared};
use super::cluster;

/// The fleet `NAME` over nodes that carry `rack: NAME`, in a directory of its own.
pub(super) fn fleet(name: &str, nodes: u32, gpus: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {{name: {name}}}
spec:
  timeZone: UTC
  cloud: {{none: {{}}}}
  kubernetes: {{kubeconfig: {{context: bench}}}}
  fabric: {{levels: [{{name: leaf, nodeLabel: topology.k8s.aws/network-node-layer-3}}]}}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {{name: {name}}}
spec:
  instanceType: p5.48xlarge
  nodes: {nodes}
  capacity: [{{existing: {{labels: {{rack: {name}}}}}}}]
  taints: [{{key: nvidia.com/gpu, effect: NoSchedule}}]
---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {{name: {name}}}
spec: {{rank: 200}}
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {{name: {name}}}
spec:
  namespaces: [{{name: {name}, localQueue: main}}]
  cohort: {name}
  tiers: [{name}]
  shares: [{{pool: {name}, guarantee: {{gpus: {gpus}}}}}]
"
    );
    std::fs::write(directory.path().join("fleet.yaml"), text).unwrap();
    directory
}

pub(super) fn tidewright(plane: &Controlplane, directory: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("tidewright").unwrap();
    command.env("KUBECONFIG", &plane.kubeconfig).current_dir(directory).args(arguments);
    command.timeout(std::time::Duration::from_secs(300)).assert()
}

pub(super) fn workload(plane: &Controlplane, namespace: &str) -> Value {
    let mut all = plane.api.list(&format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"));
    all.pop().unwrap_or_default()
}

pub(super) fn pods(plane: &Controlplane, namespace: &str) -> Vec<Value> {
    let all = plane.api.list(&format!("/api/v1/namespaces/{namespace}/pods"));
    let runs = |pod: &Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    all.into_iter().filter(runs).collect()
}

#[test]
fn a_fleet_of_existing_nodes_converges_admits_a_gang_and_moves_it_off_a_node() {
    let Some(plane) = shared() else { return };
    let name = "converges";
    plane.add_nodes(&GpuNodes::new(name, 4).label("rack", name));
    let directory = fleet(name, 4, 32);
    let planned = tidewright(&plane, directory.path(), &["plan"]).code(2);
    let planned = String::from_utf8(planned.get_output().stdout.clone()).unwrap();
    assert!(planned.contains("4 nodes to claim"), "{planned}");
    assert!(!planned.contains("will not be as written"), "{planned}");
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    let again = tidewright(&plane, directory.path(), &["plan"]).code(0);
    let again = String::from_utf8(again.get_output().stdout.clone()).unwrap();
    assert!(again.contains("No changes."), "{again}");

    // What was compiled admits real work, on nodes of the pool.
    let mut job = gang(name, "train-1", "main", 2, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(name);
    plane.api.create(&job).unwrap();
    eventually("the gang runs", 120, || (pods(&plane, name).len() == 2).then_some(()));
    assert!(is_true(&workload(&plane, name), "Admitted").is_some());

    // A node under it is taken out: the whole gang is moved through the queue, and the node is empty.
    let sick = pods(&plane, name)[0]["spec"]["nodeName"].as_str().unwrap().to_owned();
    tidewright(&plane, directory.path(), &["quarantine", &sick, "--reason", "ECC errors"]).code(0);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]);
    let moved = eventually("the gang runs elsewhere", 120, || {
        let all = pods(&plane, name);
        (all.len() == 2 && all.iter().all(|pod| pod["spec"]["nodeName"] != sick.as_str())).then_some(all)
    });
    assert_eq!(moved.len(), 2);
    let found = plane.node(&sick);
    assert_eq!(found["spec"]["unschedulable"], true);
    assert!(found["metadata"]["annotations"]["tidewright.dev/cordon"].as_str().is_some());
    assert_eq!(workload(&plane, name)["spec"]["active"], true, "it keeps its place and is let in again");

    // Back in service, our cordon is lifted.
    tidewright(&plane, directory.path(), &["return", &sick]).code(0);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    assert!(plane.node(&sick)["spec"]["unschedulable"].is_null());
    tidewright(&plane, directory.path(), &["plan"]).code(0);
}

#[test]
fn a_quota_that_somebody_edited_is_drift_with_their_name_and_is_put_back() {
    let Some(plane) = shared() else { return };
    let name = "drifts";
    plane.add_nodes(&GpuNodes::new(name, 2).label("rack", name));
    let directory = fleet(name, 2, 16);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    let path = format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}");
    let mut groups = plane.api.get(&path).unwrap()["spec"]["resourceGroups"].take();
    for resource in groups[0]["flavors"][0]["resources"].as_array_mut().unwrap() {
        resource["nominalQuota"] = json!("1");
    }
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let edited =
        plane.api.merge(&format!("{path}?fieldManager=kubectl-edit"), &json!({"spec": {"resourceGroups": groups}}));
    edited.unwrap();
    let planned = tidewright(&plane, directory.path(), &["plan"]).code(2);
    let planned = String::from_utf8(planned.get_output().stdout.clone()).unwrap();
    assert!(planned.contains("by kubectl-edit at "), "who, and when: {planned}");
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    tidewright(&plane, directory.path(), &["plan"]).code(0);
}

#[test]
fn a_new_fleet_is_known_by_its_name_and_its_cluster_and_an_old_one_stays_who_it_was() {
    let Some(plane) = shared() else { return };
    let (young, elder) = ("younger", "elder");
    block(async {
        // One that began when a name was all.
        let ledger = cluster(&plane, elder);
        let (_, absent) = ledger.ledger_part(&Part::Head).await.unwrap();
        let mut kept = tidewright::effect::Ledger::default();
        kept.change(&LedgerChange::Begin { fleet: elder.into(), began: None });
        ledger.swap_ledger(&Part::Head, &absent, &PartValue::Head(Box::new(kept.head))).await.unwrap();
    });
    let head = |name: &str| -> Head { block(cluster(&plane, name).ledger()).unwrap().0.head };
    for name in [young, elder] {
        plane.add_nodes(&GpuNodes::new(name, 1).label("rack", name));
        let directory = fleet(name, 1, 8);
        tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
        tidewright(&plane, directory.path(), &["plan"]).code(0);
    }
    let system = plane.api.get("/api/v1/namespaces/kube-system").unwrap();
    let uid = system["metadata"]["uid"].as_str().unwrap();
    assert_eq!(head(young).fleet, Some(identity(&young.into(), &uid.into())));
    assert_eq!(head(elder).fleet, Some(elder.into()));
}
