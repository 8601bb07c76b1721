//! A team goes to another cohort while its work runs on what it borrowed. Kueue takes such a move at once and counts what
//! is borrowed as free again; so ours comes in stages, and the real Kueue is asked what it made of each.

use serde_json::{Value, json};

use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, gang, is_true, shared};
use super::whole::{fleet, pods, tidewright};

const NAME: &str = "moves";

fn queue(plane: &Controlplane, name: &str) -> Value {
    plane.api.get(&format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}")).unwrap()
}

/// The GPUs of the queue's one flavor: a field of what is asked for, or of what Kueue counts.
fn gpus(flavor: &Value, field: &str) -> String {
    let resources = flavor["resources"].as_array().unwrap();
    let found = resources.iter().find(|one| one["name"] == "nvidia.com/gpu").unwrap();
    found[field].as_str().unwrap_or_default().to_owned()
}

fn submit(plane: &Controlplane, job: &str) {
    let mut job = gang(NAME, job, "main", 1, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(NAME);
    plane.api.create(&job).unwrap();
}

#[test]
fn a_queue_with_borrowed_work_changes_its_cohort_in_stages() {
    let Some(plane) = shared() else { return };
    plane.add_nodes(&GpuNodes::new(NAME, 2).label("rack", NAME));
    let directory = fleet(NAME, 2, 8);
    let path = directory.path().join("fleet.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("guarantee: {gpus: 8}", "guarantee: {gpus: 8}, borrow: {gpus: 8}");
    let lender = "---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: moves-lender}
spec:
  namespaces: [{name: moves-lender, localQueue: main}]
  cohort: moves
  tiers: [moves]
  shares: [{pool: moves, guarantee: {gpus: 8}, lend: {gpus: 8}}]
";
    let write = |cohort: &str| {
        let text = text.replace("cohort: moves\n", &format!("cohort: {cohort}\n"));
        std::fs::write(&path, format!("{text}{lender}")).unwrap();
    };
    write(NAME);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    for job in ["own", "extra"] {
        submit(&plane, job);
    }
    eventually("both run, one of them on borrowed GPUs", 120, || (pods(&plane, NAME).len() == 2).then_some(()));

    write("moves-elsewhere");
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(3);
    let told = tidewright(&plane, directory.path(), &["plan"]).code(3);
    let told = String::from_utf8(told.get_output().stdout.clone()).unwrap();
    assert!(told.contains("ClusterQueue moves in cohort moves-elsewhere instead of cohort moves"), "{told}");
    let held = queue(&plane, NAME);
    assert_eq!(held["spec"]["cohortName"], NAME);
    assert_eq!(gpus(&held["spec"]["resourceGroups"][0]["flavors"][0], "borrowingLimit"), "0");
    assert_eq!(gpus(&held["status"]["flavorsUsage"][0], "borrowed"), "8", "Kueue still knows whose they are");
    assert_eq!(pods(&plane, NAME).len(), 2, "nobody is disturbed");

    let extra = format!("/apis/batch/v1/namespaces/{NAME}/jobs/extra?propagationPolicy=Background");
    block(plane.api.send("DELETE", &extra, "application/json", None)).unwrap();
    eventually("what was borrowed is back", 120, || {
        (gpus(&queue(&plane, NAME)["status"]["flavorsUsage"][0], "borrowed") == "0").then_some(())
    });
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    let moved = queue(&plane, NAME);
    assert_eq!(moved["spec"]["cohortName"], "moves-elsewhere");
    assert_eq!(gpus(&moved["spec"]["resourceGroups"][0]["flavors"][0], "borrowingLimit"), "8");
    assert!(is_true(&moved, "Active").is_some());
    assert_eq!(pods(&plane, NAME).len(), 1, "its own work went on");
}
