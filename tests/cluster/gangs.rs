//! Gangs of every kind, on a real API server: which pods run and end together is read from what their controllers
//! write, and a drain names each of them whole.
//!
//! Kueue, the Job controller and the scheduler are here and make their pods themselves. Those of JobSet, LeaderWorkerSet,
//! KubeRay, Volcano and Kubeflow are not: their kinds are, as released, and the pods are written as they write them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidewright::provider::Cluster;

use super::super::controlplane::folder::folder;
use super::super::controlplane::kueue::documents;
use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, gang, shared};
use super::whole::{fleet, pods, tidewright};
use super::{cluster, target};

const NAME: &str = "gangs";

/// The kinds of JobSet, LeaderWorkerSet and KubeRay, as their releases have them.
fn install_kinds(plane: &Controlplane) {
    let mut crds = Vec::new();
    for release in ["jobset", "lws", "kuberay"] {
        let manifests = folder().unwrap().join("manifests").join(release);
        let files = std::fs::read_dir(manifests).unwrap().map(|entry| entry.unwrap().path());
        crds.extend(files.flat_map(|file| documents(&std::fs::read_to_string(file).unwrap())));
    }
    crds.retain(|crd| crd["kind"] == "CustomResourceDefinition");
    // Their webhooks would translate between versions, and they are not here.
    crds.iter_mut().for_each(|crd| drop(crd["spec"].as_object_mut().unwrap().remove("conversion")));
    plane.api.create_all(&crds);
    for crd in &crds {
        let spec = &crd["spec"];
        let version = spec["versions"].as_array().unwrap().iter().find(|one| one["served"] == true).unwrap();
        let [group, version, plural] =
            [&spec["group"], &version["name"], &spec["names"]["plural"]].map(|word| word.as_str().unwrap());
        eventually("the kind is served", 60, || plane.api.get(&format!("/apis/{group}/{version}/{plural}")).ok());
    }
}

/// An object that owns pods; its UID, because the garbage collector looks whether it is there.
fn owner(plane: &Controlplane, version: &str, kind: &str, name: &str, spec: Value) -> Value {
    let object =
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAME}, "spec": spec});
    let made = plane.api.create(&object).unwrap();
    json!({"apiVersion": version, "kind": kind, "name": name, "uid": made["metadata"]["uid"], "controller": true})
}

/// Two pods, one on each node, that carry these marks.
fn pair(name: &str, meta: &Value, spec: &Value) -> Vec<Value> {
    let pod = |rank: usize| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{name}-{rank}"), "namespace": NAME},
            "spec": {"nodeName": format!("{NAME}-{rank}"), "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "train"}]},
        });
        for (part, more) in [("metadata", meta), ("spec", spec)] {
            pod[part].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        pod
    };
    vec![pod(0), pod(1)]
}

/// A pod template that asks for nothing.
fn template() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "train"}]}})
}

/// Pods of every kind that names its gang, and what each gang has to be called.
fn written(plane: &Controlplane) -> (Vec<Value>, Vec<&'static str>) {
    let job =
        json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train"}]}}});
    let jobset = owner(
        plane,
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "set",
        json!({"suspend": true, "replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": job}}]}),
    );
    let lws = owner(
        plane,
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "serve",
        json!({"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}),
    );
    let ray = owner(
        plane,
        "ray.io/v1",
        "RayCluster",
        "ray",
        json!({"headGroupSpec": {"rayStartParams": {}, "template": template()}}),
    );
    for (name, policy) in [("tree", json!({"gang": {"minCount": 2}})), ("loose", json!({"basic": {}}))] {
        let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAME}, "spec": {"schedulingPolicy": policy}});
        plane.api.create(&group).unwrap();
    }
    let (none, labels) = (json!({}), |key: &str, value: &str| json!({"labels": {key: value}}));
    let owned = |owner: &Value, labels: Value| json!({"labels": labels, "ownerReferences": [owner]});
    let mut all = Vec::new();
    all.extend(pair("set", &owned(&jobset, json!({"jobset.sigs.k8s.io/jobset-name": "set"})), &none));
    let lws_labels =
        json!({"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "1"});
    all.extend(pair("serve", &owned(&lws, lws_labels), &none));
    all.extend(pair("ray", &owned(&ray, json!({"ray.io/cluster": "ray"})), &none));
    all.extend(pair("volcano", &labels("volcano.sh/job-name", "volcano"), &none));
    all.extend(pair("group", &json!({"annotations": {"scheduling.k8s.io/group-name": "group"}}), &none));
    all.extend(pair("plugin", &labels("scheduling.x-k8s.io/pod-group", "plugin"), &none));
    all.extend(pair("kai", &labels("pod-group-name", "kai"), &none));
    all.extend(pair("kueue", &labels("kueue.x-k8s.io/pod-group-name", "kueue"), &none));
    all.extend(pair("tree", &none, &json!({"schedulingGroup": {"podGroupName": "tree"}})));
    // Those of a PodGroup that is no gang stand for themselves.
    all.extend(pair("loose", &none, &json!({"schedulingGroup": {"podGroupName": "loose"}})));
    // A controller that nobody here knows: whatever has one owner is one thing.
    all.extend(pair("owned", &json!({"ownerReferences": [ray_job(plane)]}), &none));
    let gangs = ["set", "serve-1", "ray", "volcano", "group", "plugin", "kai", "kueue", "tree", "owned"];
    (all, gangs.to_vec())
}

fn ray_job(plane: &Controlplane) -> Value {
    let head = json!({"rayStartParams": {}, "template": template()});
    owner(plane, "ray.io/v1", "RayJob", "owned", json!({"rayClusterSpec": {"headGroupSpec": head}}))
}

#[test]
fn pods_that_run_together_are_seen_as_one_whoever_made_them() {
    let Some(plane) = shared() else { return };
    plane.add_nodes(&GpuNodes::new(NAME, 2).label("rack", NAME));
    let directory = fleet(NAME, 2, 16);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    install_kinds(&plane);
    // Through Kueue, and a plain indexed Job beside it: the real controllers make and place these pods.
    let mut queued = gang(NAME, "queued", "main", 2, 8);
    queued["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(NAME);
    let mut plain = gang(NAME, "plain", "main", 2, 1);
    plain["metadata"]["labels"] = json!({});
    plain["spec"]["suspend"] = json!(false);
    plain["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
    for job in [&mut queued, &mut plain] {
        let spec = &mut job["spec"]["template"]["spec"];
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        spec["nodeSelector"] = json!({"rack": NAME});
        // One of each on a node.
        let labels = json!({"matchLabels": {"job-name": job["metadata"]["name"]}});
        let spec = &mut job["spec"]["template"]["spec"];
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}]}});
        plane.api.create(job).unwrap();
    }
    let (written, names) = written(&plane);
    plane.api.create_all(&written);
    let count = written.len() + 4;
    eventually("all of them run", 120, || (pods(&plane, NAME).len() == count).then_some(()));

    let documents = "kind: PreemptionTier\nmetadata: {name: gangs}\nspec: {rank: 1}\n";
    let seen = block(cluster(&plane, NAME).observe(&target(NAME, documents)));
    let all = seen.pods.whole().expect("all pods were read");
    let ours = all.iter().filter(|pod| pod.name.namespace.as_str() == NAME);
    let mut gangs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut alone = BTreeSet::new();
    for pod in ours {
        let node = pod.node.as_ref().unwrap().to_string();
        match &pod.gang {
            Some(gang) => drop(gangs.entry(gang.to_string()).or_default().insert(node)),
            None => drop(alone.insert(pod.name.name.to_string())),
        }
    }
    let both: BTreeSet<String> = [0, 1].map(|node| format!("{NAME}-{node}")).into();
    let wanted: BTreeMap<String, BTreeSet<String>> =
        names.iter().chain(&["queued", "plain"]).map(|name| (format!("{NAME}/{name}"), both.clone())).collect();
    assert_eq!(gangs, wanted);
    assert_eq!(alone, ["loose-0", "loose-1"].map(str::to_owned).into());

    // Who empties one node is told of every gang, and that it reaches to the other one.
    let page = tidewright(&plane, directory.path(), &["drain", "gangs-0", "--dry-run", "--force"]);
    let page = String::from_utf8_lossy(&page.get_output().stdout).into_owned();
    for name in names.iter().chain(&["queued", "plain"]) {
        let line = page.lines().find(|line| line.contains(&format!("{NAME}/{name}")) && line.contains("2 nodes"));
        assert!(line.is_some(), "{name}: {page}");
    }

    // Whoever does it takes each of them whole, from both nodes, and of those that stand for themselves only the one here.
    let done = tidewright(&plane, directory.path(), &["drain", "gangs-0", "--yes", "--force", "--wait", "3m"]);
    assert_eq!(done.get_output().status.code(), Some(0), "{}", String::from_utf8_lossy(&done.get_output().stderr));
    let name_of = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    let made: BTreeSet<String> = written.iter().map(name_of).collect();
    let left: BTreeSet<String> = pods(&plane, NAME).iter().map(name_of).filter(|name| made.contains(name)).collect();
    assert_eq!(left, ["loose-1".to_owned()].into());
    tidewright(&plane, directory.path(), &["undrain", "gangs-0"]).code(0);
    plane.api.delete(&format!("/api/v1/namespaces/{NAME}/pods"));
    plane.end_jobs(&[NAME.to_owned()].into());
}

#[test]
fn a_gang_that_kueue_does_not_manage_is_asked_to_save_its_work_before_it_goes() {
    let Some(plane) = shared() else { return };
    let name = "beside";
    plane.add_nodes(&GpuNodes::new(name, 3).label("rack", name));
    let directory = fleet(name, 3, 24);
    let path = directory.path().join("fleet.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    // So long that only an answer can end the wait in time.
    std::fs::write(&path, text.replace("spec: {rank: 200}", "spec: {rank: 200, checkpoint: {deadline: 30m}}")).unwrap();
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    let mut job = gang(name, "plain", "main", 2, 8);
    job["metadata"]["labels"] = json!({});
    job["spec"]["suspend"] = json!(false);
    let spec = &mut job["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"rack": name});
    spec["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
    spec["priorityClassName"] = json!(name);
    plane.api.create(&job).unwrap();
    let ranks = eventually("the gang runs", 120, || Some(pods(&plane, name)).filter(|all| all.len() == 2));
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
    let before: BTreeSet<String> = ranks.iter().map(uid).collect();
    let node = ranks[0]["spec"]["nodeName"].as_str().unwrap().to_owned();
    let page = tidewright(&plane, directory.path(), &["drain", &node, "--dry-run"]);
    let page = String::from_utf8_lossy(&page.get_output().stdout).into_owned();
    assert!(page.contains("evicted with gang") && page.contains("asked to save its work first"), "{page}");

    std::thread::scope(|scope| {
        let drain = scope.spawn(|| tidewright(&plane, directory.path(), &["drain", &node, "--yes", "--wait", "5m"]));
        let asked = |pod: &Value| pod["metadata"]["annotations"]["tidewright.dev/save-work"].is_string();
        eventually("both ranks are asked", 60, || pods(&plane, name).iter().all(asked).then_some(()));
        // Nobody goes before one of them answers.
        std::thread::sleep(std::time::Duration::from_secs(5));
        let there: BTreeSet<String> = pods(&plane, name).iter().map(uid).collect();
        assert_eq!(there, before);
        let rank = ranks[1]["metadata"]["name"].as_str().unwrap();
        let answer =
            json!({"metadata": {"annotations": {"tidewright.dev/work-saved": jiff::Timestamp::now().to_string()}}});
        plane.api.merge(&format!("/api/v1/namespaces/{name}/pods/{rank}"), &answer).unwrap();
        let done = drain.join().unwrap();
        assert_eq!(done.get_output().status.code(), Some(0), "{}", String::from_utf8_lossy(&done.get_output().stderr));
    });
    let left = pods(&plane, name).iter().map(uid).filter(|uid| before.contains(uid)).count();
    assert_eq!(left, 0, "it goes whole, from both nodes");
    tidewright(&plane, directory.path(), &["undrain", &node]).code(0);
    plane.end_jobs(&[name.to_owned()].into());
}
