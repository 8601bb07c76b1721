//! A Kueue of another version: what its API lacks, and that its decisions may come otherwise, is said by a plan, which goes
//! on with everything else.

use serde_json::json;

use super::super::controlplane::folder::folder;
use super::super::controlplane::kueue::documents;
use super::super::controlplane::{Controlplane, Settings, eventually};
use super::whole::{fleet, tidewright};
use super::{namespace, node};

/// Kueue's kinds as an older release served them: without the version that is needed.
fn install_old_kueue(plane: &Controlplane) {
    let files = std::fs::read_dir(folder().unwrap().join("manifests/kueue")).unwrap();
    let files = files.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let mut crds: Vec<_> = files.flat_map(|file| documents(&file)).collect();
    crds.retain(|one| one["kind"] == "CustomResourceDefinition" && one["spec"]["names"]["kind"] == "ClusterQueue");
    for crd in &mut crds {
        crd["spec"].as_object_mut().unwrap().remove("conversion");
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        versions.retain(|version| version["name"] == "v1beta1");
        assert_eq!(versions.len(), 1);
        versions[0]["served"] = json!(true);
        versions[0]["storage"] = json!(true);
    }
    plane.api.create_all(&crds);
    eventually("its kind is served", 60, || plane.api.get("/apis/kueue.x-k8s.io/v1beta1/clusterqueues").ok());
    plane.api.create(&namespace("kueue-system")).unwrap();
    let template = json!({"metadata": {"labels": {"app": "kueue"}}, "spec": {"containers": [
        {"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.14.3"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "kueue"}}, "template": template});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"}, "spec": spec});
    plane.api.create(&deployment).unwrap();
}

#[test]
fn a_kueue_of_another_version_is_named_and_the_rest_is_done() {
    let Some(plane) = Controlplane::start(Settings::api_server_alone()) else { return };
    install_old_kueue(&plane);
    let mut object = node("older-0");
    object["metadata"]["labels"]["rack"] = json!("older");
    plane.api.create(&object).unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}}});
    plane.api.merge("/api/v1/nodes/older-0/status", &ready).unwrap();
    let directory = fleet("older", 1, 8);
    let say = |arguments: &[&str]| {
        let done = tidewright(&plane, directory.path(), arguments);
        String::from_utf8_lossy(&done.get_output().stdout).into_owned()
    };
    let planned = say(&["plan", "--verbose"]);
    assert!(planned.contains("has only v1beta1 of its API, and v1beta2 is needed: update Kueue"), "{planned}");
    assert!(planned.contains("Kueue 0.14.3 runs here, and this was tried with Kueue 0.19"), "{planned}");
    say(&["apply", "--until-converged", "--yes"]);
    assert_eq!(
        plane.node("older-0")["metadata"]["labels"]["tidewright.dev/pool"],
        "older",
        "it is claimed all the same"
    );
    let class = plane.api.get("/apis/scheduling.k8s.io/v1/priorityclasses/older");
    assert!(class.is_ok(), "what has nothing to do with Kueue is written: {class:?}");
}
