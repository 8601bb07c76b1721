//! What pods of real training jobs ask for beside GPUs: adapters, memory in large pages, and storage. The real Kueue
//! admits nothing that asks for what its queue does not cover.

use serde_json::{Value, json};

use super::super::controlplane::{Controlplane, GpuNodes, eventually, gang, shared};
use super::whole::{pods, tidewright, workload};

const DOCUMENTS: &str = "apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {name: shown}
spec:
  timeZone: UTC
  cloud: {none: {}}
  kubernetes: {kubeconfig: {context: bench}}
  hardware: [{name: dgx-h100, gpu: h100-sxm, gpus: 8}]
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: shown-own}
spec: {instanceType: dgx-h100, nodes: 2, capacity: [{existing: {labels: {rack: shown-own}}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: shown-p5}
spec: {instanceType: p5.48xlarge, nodes: 1, capacity: [{existing: {labels: {rack: shown-p5}}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {name: shown}
spec: {rank: 200}
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: shown-own}
spec:
  namespaces: [{name: shown-own, localQueue: main}]
  tiers: [shown]
  shares: [{pool: shown-own, guarantee: {gpus: 16}}]
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: shown-p5}
spec:
  namespaces: [{name: shown-p5, localQueue: main}]
  tiers: [shown]
  shares: [{pool: shown-p5, guarantee: {gpus: 8}}]
";

/// A job of whole nodes whose pods ask for these too.
fn asking(namespace: &str, name: &str, pods: u64, others: &Value) -> Value {
    let mut job = gang(namespace, name, "main", pods, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("shown");
    let resources = &mut job["spec"]["template"]["spec"]["containers"][0]["resources"];
    for side in ["requests", "limits"] {
        for (resource, amount) in others.as_object().unwrap() {
            resources[side][resource] = amount.clone();
        }
    }
    job
}

fn offers(plane: &Controlplane, node: &str, resources: &Value) {
    let status = json!({"status": {"capacity": resources, "allocatable": resources}});
    plane.api.merge(&format!("/api/v1/nodes/{node}/status"), &status).unwrap();
}

#[test]
fn a_job_that_asks_for_adapters_pages_and_storage_runs_and_one_that_asks_for_more_is_told_why_not() {
    let Some(plane) = shared() else { return };
    // Bought, racked and cabled: what its adapters are called only its device plugin says.
    let mut own = GpuNodes::new("shown-own", 2).label("rack", "shown-own");
    own.instance_type = "p5.48xlarge";
    plane.add_nodes(&own);
    plane.add_nodes(&GpuNodes::new("shown-p5", 1).label("rack", "shown-p5"));
    for node in ["shown-own-0", "shown-own-1"] {
        offers(&plane, node, &json!({"rdma/hca_shared_devices_a": "63", "vpc.amazonaws.com/efa": "0"}));
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("fleet.yaml"), DOCUMENTS).unwrap();
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    let said = |arguments: &[&str]| {
        let output = tidewright(&plane, directory.path(), arguments);
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    assert!(said(&["plan"]).contains("No changes."), "{}", said(&["plan"]));

    let pages = |more: Value| {
        let mut all = json!({"hugepages-2Mi": "2Gi", "ephemeral-storage": "100Gi"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let own = asking("shown-own", "ring", 2, &pages(json!({"rdma/hca_shared_devices_a": "1"})));
    let p5 = asking("shown-p5", "ring", 1, &pages(json!({"vpc.amazonaws.com/efa": "32"})));
    plane.api.create_all(&[own, p5]);
    for (namespace, count) in [("shown-own", 2), ("shown-p5", 1)] {
        eventually("the job runs", 120, || (pods(&plane, namespace).len() == count).then_some(()));
    }

    // A plugin that begins anew shows none of it for a moment: nothing changes, and nothing is forgotten.
    offers(&plane, "shown-own-0", &json!({"rdma/hca_shared_devices_a": "0"}));
    offers(&plane, "shown-own-1", &json!({"rdma/hca_shared_devices_a": "0"}));
    assert!(said(&["plan"]).contains("No changes."), "{}", said(&["plan"]));

    // Nobody has these: Kueue's own reason is told.
    super::super::controlplane::block(plane.api.send(
        "DELETE",
        "/apis/batch/v1/namespaces/shown-p5/jobs/ring?propagationPolicy=Background",
        "application/json",
        None,
    ))
    .unwrap();
    eventually("it is gone", 60, || workload(&plane, "shown-p5").is_null().then_some(()));
    plane.api.create(&asking("shown-p5", "typo", 1, &json!({"rdma/hca_shared_devices_a": "1"}))).unwrap();
    let reason = eventually("Kueue says why it waits", 60, || {
        let waiting = workload(&plane, "shown-p5");
        let conditions = waiting["status"]["conditions"].as_array()?.clone();
        let quota = conditions.iter().find(|one| one["type"] == "QuotaReserved")?;
        Some(quota["message"].as_str()?.to_owned())
    });
    let words = "resource rdma/hca_shared_devices_a unavailable in ClusterQueue";
    assert!(reason.contains(words), "{reason}");
    let told = eventually("it is told after two minutes", 180, || {
        let status = said(&["status"]);
        status.contains(words).then_some(status)
    });
    assert!(told.contains("no node of shown-p5 shows it"), "{told}");
}
