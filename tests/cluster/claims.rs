//! GPUs that are given out by dynamic resource allocation: the real scheduler allocates them, and what the pods hold is
//! counted as what it is, once, also where several share it.

use serde_json::{Value, json};
use tidewright::provider::Cluster;

use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, shared};
use super::whole::{fleet, pods, tidewright};
use super::{cluster, target};

const NAME: &str = "claims";
const DRIVER: &str = "gpu.nvidia.com";

/// What NVIDIA's driver publishes for a node, and the class by which its devices are asked for.
fn driver(node: &str) -> [Value; 2] {
    let devices: Vec<Value> = (0..8).map(|gpu| json!({"name": format!("gpu-{gpu}")})).collect();
    let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": {
        "driver": DRIVER, "nodeName": node, "devices": devices,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
    let expression = format!("device.driver == '{DRIVER}'");
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    [class, slice]
}

fn asking(count: u32) -> Value {
    json!({"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count}}]}})
}

fn pod(name: &str, claim: Value) -> Value {
    let mut claim = claim;
    claim["name"] = json!("gpus");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAME}, "spec": {
        "nodeSelector": {"kubernetes.io/hostname": "claims-0"}, "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [claim],
        "containers": [{"name": "main", "image": "train", "resources": {"claims": [{"name": "gpus"}]}}]}})
}

fn nominal(plane: &Controlplane) -> Value {
    let queue = plane.api.get(&format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{NAME}")).unwrap();
    let resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"].as_array().unwrap().clone();
    resources.iter().find(|one| one["name"] == "nvidia.com/gpu").unwrap()["nominalQuota"].clone()
}

#[test]
fn what_a_claim_holds_is_taken_from_the_quota_once() {
    let Some(plane) = shared() else { return };
    plane.add_nodes(&GpuNodes::new(NAME, 2).label("rack", NAME));
    let directory = fleet(NAME, 2, 16);
    let converge = || tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    converge();
    assert_eq!(nominal(&plane), "16");

    plane.api.create_all(&driver("claims-0"));
    let meta = |name: &str| json!({"name": name, "namespace": NAME});
    let shared = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta("shared"), "spec": asking(4)});
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": meta("two"), "spec": {"spec": asking(2)}});
    plane.api.create_all(&[shared, template]);
    plane.api.create(&pod("own", json!({"resourceClaimTemplateName": "two"}))).unwrap();
    for name in ["first", "second"] {
        plane.api.create(&pod(name, json!({"resourceClaimName": "shared"}))).unwrap();
    }
    eventually("the scheduler gave them their devices, and they run", 120, || {
        (pods(&plane, NAME).len() == 3).then_some(())
    });
    let claims = plane.api.list(&format!("/apis/resource.k8s.io/v1/namespaces/{NAME}/resourceclaims"));
    let given = |claim: &Value| claim["status"]["allocation"]["devices"]["results"].as_array().map_or(0, Vec::len);
    assert_eq!(claims.iter().map(given).sum::<usize>(), 6, "two and four: {claims:#?}");

    let documents = "kind: PreemptionTier\nmetadata: {name: claims}\nspec: {rank: 1}\n";
    let seen = block(cluster(&plane, NAME).observe(&target(NAME, documents)));
    let held: Vec<i64> = seen
        .pods
        .whole()
        .expect("all pods were read")
        .iter()
        .filter(|pod| pod.name.namespace.as_str() == NAME)
        .filter_map(|pod| pod.requests.get("nvidia.com/gpu").copied())
        .collect();
    assert_eq!(held.iter().sum::<i64>(), 6, "{held:?}");
    // They run beside the queues, and what they hold is not there for the team a second time.
    converge();
    assert_eq!(nominal(&plane), "10");
    // One of two who share goes: all of it is still held. Then nobody has it.
    plane.api.delete(&format!("/api/v1/namespaces/{NAME}/pods/first"));
    eventually("it is gone", 60, || (pods(&plane, NAME).len() == 2).then_some(()));
    converge();
    assert_eq!(nominal(&plane), "10");
    plane.api.delete(&format!("/api/v1/namespaces/{NAME}/pods"));
    eventually("all are gone", 60, || pods(&plane, NAME).is_empty().then_some(()));
    eventually("the claims are free", 60, || {
        let claims = plane.api.list(&format!("/apis/resource.k8s.io/v1/namespaces/{NAME}/resourceclaims"));
        claims.iter().all(|claim| given(claim) == 0).then_some(())
    });
    converge();
    assert_eq!(nominal(&plane), "16");
}
