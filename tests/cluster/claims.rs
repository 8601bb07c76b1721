//! GPUs that are given out by dynamic resource allocation: the real scheduler allocates them, and what the pods hold is
//! counted as what it is, once, also where several share it.

use serde_json::{Value, json};
use tidewright::provider::Cluster;

use super::super::controlplane::{Controlplane, GpuNodes, Settings, block, eventually, gang, shared};
use super::recorded::recorded;
use super::whole::{fleet, pods, tidewright};
use super::{cluster, target};

const NAME: &str = "claims";
const DRIVER: &str = "gpu.nvidia.com";
const CURRENCY: &str = "tidewright.dev/gpu-thousandths";

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

/// Kueue lets in no work with claims unless its Configuration says as what their devices count.
#[test]
fn what_kueue_counts_of_claims_is_in_its_books_and_not_taken_off_again() {
    let Some(plane) = Controlplane::start(Settings::default()) else { return };
    plane.add_nodes(&GpuNodes::new(NAME, 2).label("rack", NAME));
    let directory = fleet(NAME, 2, 16);
    let path = directory.path().join("fleet.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("  tiers: [claims]", "  total: {gpus: 16}\n  tiers: [claims]")).unwrap();
    let converge = || tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    converge();
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two", "namespace": NAME}, "spec": {"spec": asking(2)}});
    plane.api.create_all(&driver("claims-0"));
    plane.api.create(&template).unwrap();
    let mut job = gang(NAME, "queued", "main", 1, 1);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(NAME);
    let spec = &mut job["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": "claims-0"});
    spec["resourceClaims"] = json!([{"name": "gpus", "resourceClaimTemplateName": "two"}]);
    let asked = json!({"cpu": "1", "memory": "1Gi"});
    spec["containers"][0]["resources"] = json!({"requests": asked, "limits": asked, "claims": [{"name": "gpus"}]});
    plane.api.create(&job).unwrap();
    let waits = || recorded(&plane, &[NAME.to_owned()].into()).into_values().next()?.waits;
    let why = eventually("it is told why it waits", 60, || waits().filter(|why| why.contains("DRA")));
    assert!(why.contains("is not mapped"), "{why}");

    let counts = json!({"input": "nvidia.com/gpu", "strategy": "Retain", "outputs": {CURRENCY: "1k"}});
    let mapped = json!({"name": "nvidia.com/gpu", "deviceClassNames": [DRIVER]});
    plane.restart_kueue(&json!({"resources": {"transformations": [counts], "deviceClassMappings": [mapped]}}));
    eventually("it runs", 120, || (pods(&plane, NAME).len() == 1).then_some(()));
    let used = |resource: &str| {
        let queue = plane.api.get(&format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{NAME}")).unwrap();
        let flavors = queue["status"]["flavorsUsage"].as_array().cloned().unwrap_or_default();
        let all: Vec<Value> = flavors.iter().flat_map(|one| one["resources"].as_array().unwrap().clone()).collect();
        all.iter().find(|one| one["name"] == resource).map(|one| one["total"].clone())
    };
    eventually("it is in Kueue's books", 60, || (used("nvidia.com/gpu")? == "2").then_some(()));
    eprintln!("of the currency Kueue counts {:?}", used(CURRENCY));
    converge();
    assert_eq!(nominal(&plane), "16");
}
