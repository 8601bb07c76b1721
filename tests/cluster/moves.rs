//! A team goes to another cohort while its work runs on what it borrowed, or to another pool while it runs on the first.
//! Kueue takes both at once, and counts what is in use as free again; so ours come in stages, and the real Kueue is asked
//! what it made of each.

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

fn submit(plane: &Controlplane, fleet: &str, job: &str) {
    let mut job = gang(fleet, job, "main", 1, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(fleet);
    plane.api.create(&job).unwrap();
}

fn end(plane: &Controlplane, fleet: &str, job: &str) {
    let path = format!("/apis/batch/v1/namespaces/{fleet}/jobs/{job}?propagationPolicy=Background");
    block(plane.api.send("DELETE", &path, "application/json", None)).unwrap();
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
        submit(&plane, NAME, job);
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

    end(&plane, NAME, "extra");
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

#[test]
fn a_queue_with_work_changes_its_flavor_in_stages() {
    let Some(plane) = shared() else { return };
    let (name, other) = ("swaps", "swaps-new");
    plane.add_nodes(&GpuNodes::new(name, 1).label("rack", name));
    plane.add_nodes(&GpuNodes::new(other, 1).label("rack", other));
    let directory = fleet(name, 1, 8);
    let path = directory.path().join("fleet.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let pool = "---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: swaps-new}
spec:
  instanceType: p5.48xlarge
  nodes: 1
  capacity: [{existing: {labels: {rack: swaps-new}}}]
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
";
    let write = |share: &str| {
        let text = text.replace("shares: [{pool: swaps,", &format!("shares: [{{pool: {share},"));
        std::fs::write(&path, format!("{text}{pool}")).unwrap();
    };
    write(name);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    submit(&plane, name, "first");
    let node = |job: &str| {
        let is = |pod: &Value| pod["metadata"]["labels"]["job-name"] == job;
        Some(pods(&plane, name).iter().find(|pod| is(pod))?["spec"]["nodeName"].as_str()?.to_owned())
    };
    assert_eq!(eventually("it runs", 120, || node("first")), "swaps-0");

    write(other);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(3);
    let flavors = || -> Vec<(String, String)> {
        let flavors = queue(&plane, name)["spec"]["resourceGroups"][0]["flavors"].take();
        let of = |flavor: &Value| (flavor["name"].as_str().unwrap().to_owned(), gpus(flavor, "nominalQuota"));
        flavors.as_array().unwrap().iter().map(of).collect()
    };
    let has = |name: &str, amount: &str| (name.to_owned(), amount.to_owned());
    let mut staged = flavors();
    staged.sort();
    assert_eq!(staged, [has(name, "0"), has(other, "8")], "nothing starts where it leaves, and Kueue still counts it");
    let used = queue(&plane, name)["status"]["flavorsUsage"].as_array().unwrap().clone();
    let old = used.iter().find(|flavor| flavor["name"] == name).expect("Kueue still knows whose they are");
    assert_eq!(gpus(old, "total"), "8");
    submit(&plane, name, "second");
    assert_eq!(eventually("what is new starts there at once", 120, || node("second")), "swaps-new-0");
    assert_eq!(node("first").as_deref(), Some("swaps-0"), "nobody is disturbed");

    end(&plane, name, "first");
    eventually("its work has ended, and Kueue knows", 120, || {
        let used = queue(&plane, name)["status"]["flavorsUsage"].as_array()?.clone();
        (gpus(used.iter().find(|flavor| flavor["name"] == name)?, "total") == "0").then_some(())
    });
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    assert_eq!(flavors(), [has(other, "8")]);
    assert!(is_true(&queue(&plane, name), "Active").is_some());
    assert_eq!(node("second").as_deref(), Some("swaps-new-0"));
    plane.end_jobs(&[name.to_owned()].into());
}
