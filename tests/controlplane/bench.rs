//! The bench is tested before anything is tested on it.

use std::process::Command;

use serde_json::{Value, json};

use super::api::{Api, eventually};
use super::kueue;
use super::nodes::GpuNodes;
use super::objects::{cluster_queue, flavor, gang, is_true, local_queue, namespace};
use super::plane::{Controlplane, Settings, shared};
use super::process::processes_with;

/// The path of a file that a child of `nothing_is_left_when_the_owner_is_killed` writes, before it waits for its end.
const HOLD: &str = "TIDEWRIGHT_TEST_HOLD";

fn pods(plane: &Controlplane, namespace: &str, job: &str) -> Vec<Value> {
    plane.api.list(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector=job-name={job}"))
}

fn running(plane: &Controlplane, namespace: &str, job: &str) -> usize {
    let all = pods(plane, namespace, job);
    all.iter()
        .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null())
        .count()
}

/// Workloads of a namespace by the name of their Job.
fn workload(plane: &Controlplane, namespace: &str, job: &str) -> Value {
    let all = plane.api.list(&format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"));
    all.into_iter().find(|workload| workload["metadata"]["ownerReferences"][0]["name"] == job).unwrap_or_default()
}

/// A namespace, a pool of nodes, and two queues over it in one cohort, all called after `name`.
fn scene(plane: &Controlplane, name: &str, nodes: usize, quotas: [(&str, u64); 2]) {
    plane.add_nodes(&GpuNodes::new(name, nodes).label("pool", name));
    let api = &plane.api;
    api.create(&namespace(name)).unwrap();
    api.create(&flavor(name)).unwrap();
    for (queue, gpus) in quotas {
        let queue = format!("{name}-{queue}");
        api.create(&cluster_queue(&queue, name, name, gpus)).unwrap();
        api.create(&local_queue(name, &queue)).unwrap();
    }
}

#[test]
fn a_control_plane_answers_and_nothing_of_it_is_left_when_it_is_dropped() {
    let Some(plane) = Controlplane::start(Settings::api_server_alone()) else { return };
    if let Ok(file) = std::env::var(HOLD) {
        std::fs::write(file, plane.directory.to_string_lossy().as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(600));
    }
    assert_eq!(Api::new(&plane.kubeconfig).get("/version").unwrap()["gitVersion"], "v1.36.4");
    let directory = plane.directory.clone();
    let mark = directory.to_string_lossy().into_owned();
    let ours = processes_with(&mark);
    for program in ["etcd", "kube-apiserver"] {
        assert!(ours.iter().any(|line| line.contains(program)), "{program} is not in {ours:#?}");
    }
    drop(plane);
    assert_eq!(processes_with(&mark), [""; 0]);
    assert!(!directory.exists());
}

#[test]
fn nothing_is_left_when_the_owner_is_killed() {
    if super::folder::folder().is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("held");
    let holder = "controlplane::bench::a_control_plane_answers_and_nothing_of_it_is_left_when_it_is_dropped";
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", holder])
        .env(HOLD, &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mark = eventually("the child has a control plane", 180, || {
        assert!(owner.try_wait().unwrap().is_none(), "the child ended");
        std::fs::read_to_string(&file).ok().filter(|text| !text.is_empty())
    });
    assert!(processes_with(&mark).len() >= 2);
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("no process of it is left", 10, || processes_with(&mark).is_empty().then_some(()));
}

#[test]
fn a_job_goes_through_kueue_and_runs_on_gpu_nodes() {
    let Some(plane) = shared() else { return };
    scene(&plane, "admit", 4, [("serve", 24), ("batch", 8)]);
    let mut job = gang("admit", "train", "admit-batch", 3, 8);
    job["spec"]["template"]["metadata"]["annotations"]["bench.test/ends-after"] = json!("2s");
    plane.api.create(&job).unwrap();
    eventually("three pods run on borrowed quota", 60, || (running(&plane, "admit", "train") == 3).then_some(()));
    assert!(is_true(&workload(&plane, "admit", "train"), "Admitted").is_some());
    for pod in pods(&plane, "admit", "train") {
        assert!(pod["spec"]["nodeName"].as_str().unwrap().starts_with("admit-"), "{}", pod["spec"]["nodeName"]);
    }
    eventually("the pods that were asked to end did, and the job with them", 60, || {
        is_true(&plane.api.get("/apis/batch/v1/namespaces/admit/jobs/train").unwrap(), "Complete")
    });
}

#[test]
fn an_owner_that_wants_its_quota_back_preempts_the_borrower() {
    let Some(plane) = shared() else { return };
    scene(&plane, "reclaim", 8, [("serve", 64), ("batch", 0)]);
    for name in ["a", "b", "c", "d"] {
        plane.api.create(&gang("reclaim", name, "reclaim-batch", 2, 8)).unwrap();
        eventually("the borrower runs", 60, || (running(&plane, "reclaim", name) == 2).then_some(()));
    }
    plane.api.create(&gang("reclaim", "owner", "reclaim-serve", 4, 8)).unwrap();
    eventually("the owner runs", 60, || (running(&plane, "reclaim", "owner") == 4).then_some(()));
    let evicted: Vec<&str> = ["a", "b", "c", "d"]
        .into_iter()
        .filter(|name| is_true(&workload(&plane, "reclaim", name), "Preempted").is_some())
        .collect();
    assert_eq!(evicted.len(), 2, "{evicted:?}");
    for name in evicted {
        let workload = workload(&plane, "reclaim", name);
        assert_eq!(is_true(&workload, "Preempted").as_deref(), Some("InCohortReclamation"));
        assert_eq!(running(&plane, "reclaim", name), 0);
    }
}

#[test]
fn the_webhooks_of_kueue_answer() {
    let Some(plane) = shared() else { return };
    let mut queue = cluster_queue("hooks", "hooks", "hooks", 10);
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][2]["lendingLimit"] = json!("11");
    let refused = plane.api.create(&queue).unwrap_err();
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.message.contains("must be less than or equal to the nominalQuota"), "{}", refused.message);

    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][2]["lendingLimit"] = json!("9");
    plane.api.create(&queue).unwrap();
    let old = plane.api.get("/apis/kueue.x-k8s.io/v1beta1/clusterqueues/hooks").unwrap();
    assert_eq!((&old["spec"]["cohort"], &old["spec"]["cohortName"]), (&json!("hooks"), &Value::Null));
}

#[test]
fn a_limited_user_may_do_what_it_was_given_and_the_audit_log_tells() {
    let Some(plane) = shared() else { return };
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]);
    let user = Api::new(&plane.limited_user("scribe", &rules));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scribed", "namespace": "default"}, "data": {"a": "b"}});
    user.create(&map).unwrap();
    assert_eq!(user.get("/api/v1/nodes").unwrap_err().status, 403);
    let scribe = "system:serviceaccount:default:scribe";
    let seen: Vec<(String, u64, Value)> = plane
        .audit(scribe)
        .into_iter()
        .filter(|event| event["user"]["username"] == scribe)
        .map(|event| {
            let what =
                format!("{} {}", event["verb"].as_str().unwrap(), event["objectRef"]["resource"].as_str().unwrap());
            (what, event["responseStatus"]["code"].as_u64().unwrap(), event["requestObject"]["data"].clone())
        })
        .collect();
    assert_eq!(seen, [("create configmaps".into(), 201, json!({"a": "b"})), ("list nodes".into(), 403, Value::Null)]);
}

#[test]
fn two_hundred_gpu_nodes_are_there_in_seconds_with_the_labels_of_real_ones() {
    let Some(plane) = shared() else { return };
    let mut nodes = GpuNodes::new("many", 200);
    nodes.taints = vec![json!({"key": "nvidia.com/gpu", "effect": "NoSchedule"})];
    let start = std::time::Instant::now();
    plane.add_nodes(&nodes);
    eprintln!("200 nodes ready after {:.1} s", start.elapsed().as_secs_f64());
    let [first, neighbour, next_leaf, last] = [0, 3, 4, 199].map(|index| plane.node(&format!("many-{index}")));
    let layer = |node: &Value, layer: u8| {
        node["metadata"]["labels"][format!("topology.k8s.aws/network-node-layer-{layer}")].clone()
    };
    assert_eq!(layer(&first, 3), layer(&neighbour, 3));
    assert_ne!(layer(&first, 3), layer(&next_leaf, 3));
    assert_eq!(layer(&first, 2), layer(&next_leaf, 2));
    assert_ne!(layer(&first, 1), layer(&last, 1));
    assert!(first["spec"]["providerID"].as_str().unwrap().starts_with("aws:///us-east-1a/i-"));
    assert_eq!(first["spec"]["taints"][0]["key"], "nvidia.com/gpu");
    let allocatable = &first["status"]["allocatable"];
    assert_eq!((&allocatable["nvidia.com/gpu"], &allocatable["vpc.amazonaws.com/efa"]), (&json!("8"), &json!("32")));
    assert_eq!(allocatable["hugepages-2Mi"], "5128Mi");
}

#[test]
fn programs_are_restarted_one_by_one_and_the_rest_goes_on() {
    let Some(plane) = Controlplane::start(Settings::default()) else { return };
    scene(&plane, "restart", 2, [("serve", 16), ("batch", 0)]);
    plane.api.create(&gang("restart", "before", "restart-batch", 1, 8)).unwrap();
    eventually("the first job runs", 60, || (running(&plane, "restart", "before") == 1).then_some(()));

    plane.stop("kube-apiserver");
    assert_eq!(plane.api.get("/readyz").unwrap_err().status, 0);
    plane.restart_api_server();
    assert_eq!(running(&plane, "restart", "before"), 1);

    let share = || {
        let queue = plane.api.get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/restart-batch").unwrap();
        queue["status"]["fairSharing"]["weightedShare"].as_u64()
    };
    assert_eq!(share(), None);
    plane.restart_kueue(&kueue::fair_sharing());
    eventually("Kueue tells the share of a borrower", 60, || share().filter(|share| *share > 0));

    let packer = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false}, "profiles": [{"schedulerName": "packer"}]});
    plane.start_scheduler("packer", &plane.kubeconfig, packer);
    let mut job = gang("restart", "after", "restart-batch", 1, 8);
    job["spec"]["template"]["spec"]["schedulerName"] = json!("packer");
    plane.stop("kube-scheduler");
    plane.api.create(&job).unwrap();
    eventually("the second scheduler binds it alone", 60, || (running(&plane, "restart", "after") == 1).then_some(()));

    let mark = plane.directory.to_string_lossy().into_owned();
    assert_eq!(processes_with(&mark).iter().filter(|line| !line.contains("watchdog")).count(), 6);
    drop(plane);
    assert_eq!(processes_with(&mark), [""; 0]);
}
