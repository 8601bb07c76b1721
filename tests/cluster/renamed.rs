//! A queue that gets another name while work runs in it, and a flavor that another tool has under the name of a pool.

use serde_json::{Value, json};

use super::super::controlplane::{Controlplane, GpuNodes, eventually, gang, shared};
use super::whole::{fleet, pods, tidewright};

const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";

fn get(plane: &Controlplane, path: &str) -> Value {
    plane.api.get(&format!("{KUEUE}/{path}")).unwrap()
}

fn is_gone(plane: &Controlplane, path: &str) -> bool {
    plane.api.get(&format!("{KUEUE}/{path}")).is_err_and(|error| error.status == 404)
}

fn guaranteed(queue: &Value) -> Value {
    let resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"].as_array().unwrap();
    resources.iter().find(|one| one["name"] == "nvidia.com/gpu").unwrap()["nominalQuota"].clone()
}

fn job(name: &str, of: &str) -> Value {
    let mut job = gang(of, name, "main", 1, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(of);
    job
}

#[test]
fn a_queue_is_renamed_with_its_work_and_new_work_is_let_in_by_the_new_one() {
    let Some(plane) = shared() else { return };
    let name = "renames";
    plane.add_nodes(&GpuNodes::new(name, 2).label("rack", name));
    let directory = fleet(name, 2, 16);
    let run = |arguments: &[&str]| {
        let ended = tidewright(&plane, directory.path(), arguments);
        let ended = ended.get_output();
        (ended.status.code(), String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    let apply = || run(&["apply", "--until-converged", "--yes"]);
    let done = apply();
    assert_eq!(done.0, Some(0), "{}", done.1);
    plane.api.create(&job("first", name)).unwrap();
    eventually("it runs", 120, || (pods(&plane, name).len() == 1).then_some(()));

    let path = directory.path().join("fleet.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("  cohort: renames\n", "  cohort: renames\n  clusterQueue: renames-2\n"))
        .unwrap();
    let said = apply();
    let of = |queue: &str| guaranteed(&get(&plane, &format!("clusterqueues/{queue}")));
    assert_eq!((of("renames"), of("renames-2")), (json!("8"), json!("8")), "{}", said.1);
    let local = get(&plane, "namespaces/renames/localqueues/main");
    assert_eq!(local["spec"]["clusterQueue"], "renames-2");
    let held = run(&["plan"]).1;
    assert!(held.contains("delete ClusterQueue renames, in whose place ClusterQueue renames-2 is"), "{held}");
    // The nodes hold one more, and not two.
    ["second", "third"].iter().for_each(|name| drop(plane.api.create(&job(name, "renames")).unwrap()));
    eventually("one of them runs beside it", 120, || (pods(&plane, name).len() == 2).then_some(()));
    plane.api.delete(&format!("/apis/batch/v1/namespaces/{name}/jobs/first?propagationPolicy=Background"));
    eventually("the old queue is gone", 180, || {
        drop(apply());
        is_gone(&plane, "clusterqueues/renames").then_some(())
    });
    eventually("the fleet is as the documents say", 120, || (apply().0 == Some(0)).then_some(()));
    assert_eq!(of("renames-2"), json!("16"));
    eventually("the last one runs too", 120, || (pods(&plane, name).len() == 2).then_some(()));
    plane.end_jobs(&[name.to_owned()].into());
}

#[test]
fn no_queue_is_written_on_a_flavor_of_another_tool() {
    let Some(plane) = shared() else { return };
    let name = "usurps";
    plane.add_nodes(&GpuNodes::new(name, 1).label("rack", name));
    let theirs = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
        "metadata": {"name": name}, "spec": {"nodeLabels": {"rack": "theirs"}}});
    plane.api.create(&theirs).unwrap();
    let directory = fleet(name, 1, 8);
    let apply = || {
        let ended = tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]);
        ended.get_output().status.code()
    };
    assert_eq!(apply(), Some(3));
    assert!(is_gone(&plane, "clusterqueues/usurps") && is_gone(&plane, "namespaces/usurps/localqueues/main"));
    assert_eq!(get(&plane, "resourceflavors/usurps")["spec"]["nodeLabels"], json!({"rack": "theirs"}));
    let plan = tidewright(&plane, directory.path(), &["plan"]);
    let plan = String::from_utf8_lossy(&plan.get_output().stdout).into_owned();
    assert!(plan.contains("make ClusterQueue usurps, once ResourceFlavor usurps is as it should be"), "{plan}");
    // Its owner gives the name up.
    plane.api.delete(&format!("{KUEUE}/resourceflavors/usurps"));
    eventually("the flavor is gone", 60, || is_gone(&plane, "resourceflavors/usurps").then_some(()));
    assert_eq!(apply(), Some(0));
    plane.api.create(&job("first", name)).unwrap();
    eventually("it runs", 120, || (pods(&plane, name).len() == 1).then_some(()));
    plane.end_jobs(&[name.to_owned()].into());
}
