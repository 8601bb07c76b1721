//! `tidewright drain` and `undrain` on a whole control plane: real controllers make pods again, real budgets count.

use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::controlplane::{Controlplane, GpuNodes, eventually, gang, shared};
use super::namespace;
use super::whole::{fleet, pods, tidewright, workload};

/// Pods that would rather be on this node of a rack, and go elsewhere in it when they must. Without the rack the
/// scheduler would look at a part of a large cluster only, and that part need not hold the node.
fn liking(node: &str, rack: &str, more: &Value) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let mut spec = json!({
        "nodeSelector": {"rack": rack},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": term}]}},
        "containers": [{"name": "main", "image": "serve"}],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

fn replicas(namespace: &str, name: &str, count: u32, spec: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": count, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
    })
}

/// Everything that a drain treats differently, on one node.
fn furnish(plane: &Controlplane, web: &str, node: &str, rack: &str) {
    let api = &plane.api;
    api.create(&namespace(web)).unwrap();
    api.create(&replicas(web, "api", 2, &liking(node, rack, &json!({})))).unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "api", "namespace": web},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "api"}}},
    });
    api.create(&budget).unwrap();
    let scratch = json!({"volumes": [{"name": "scratch", "emptyDir": {}}]});
    api.create(&replicas(web, "cache", 1, &liking(node, rack, &scratch))).unwrap();
    let template = liking(node, rack, &json!({}));
    let agent = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": web},
        "spec": {"selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": template}},
    });
    api.create(&agent).unwrap();
    for (name, annotations) in [("debug", json!({})), ("kubelets", json!({"kubernetes.io/config.mirror": "x"}))] {
        let spec = liking(node, rack, &json!({"nodeName": node}));
        let metadata = json!({"name": name, "namespace": web, "annotations": annotations});
        api.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).unwrap();
    }
}

fn on(plane: &Controlplane, namespace: &str, node: &str) -> Vec<String> {
    let here = pods(plane, namespace).into_iter().filter(|pod| pod["spec"]["nodeName"] == node);
    let mut names: Vec<String> = here.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_drain_by_hand_moves_whole_gangs_keeps_budgets_and_leaves_what_belongs_to_the_node() {
    let Some(plane) = shared() else { return };
    let (name, web) = ("by-hand", "by-hand-web");
    plane.add_nodes(&GpuNodes::new(name, 4).label("rack", name));
    let directory = fleet(name, 4, 32);
    let run = |arguments: &[&str], code: i32| {
        let done = tidewright(&plane, directory.path(), arguments).code(code);
        (text(&done.get_output().stdout), text(&done.get_output().stderr))
    };
    run(&["apply", "--until-converged", "--yes"], 0);
    let mut job = gang(name, "train-1", "main", 2, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(name);
    plane.api.create(&job).unwrap();
    let ranks = eventually("the gang runs", 120, || Some(pods(&plane, name)).filter(|all| all.len() == 2));
    let node = ranks[0]["spec"]["nodeName"].as_str().unwrap().to_owned();
    furnish(&plane, web, &node, name);
    // kubeflow/trainer#3304: a budget over all ranks protects them, and blocks whoever evicts for ever.
    let all_ranks = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "ranks", "namespace": name},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "train-1"}}},
    });
    plane.api.create(&all_ranks).unwrap();
    // Two of api, one of cache, the agent, the bare one and the kubelet's own.
    let before =
        eventually("everything runs on one node", 60, || Some(on(&plane, web, &node)).filter(|all| all.len() == 6));
    let budget = format!("/apis/policy/v1/namespaces/{web}/poddisruptionbudgets/api");
    eventually("the budget is counted", 60, || {
        (plane.api.get(&budget).unwrap()["status"]["disruptionsAllowed"] == 1).then_some(())
    });

    // The dry run names all of it, and changes nothing.
    let (page, _) = run(&["drain", &node, "--dry-run"], 3);
    let says = [
        "gang by-hand/",
        "2 pods on 2 nodes, 16 GPUs, tier by-hand",
        "stays: a DaemonSet keeps it here",
        "stays: the kubelet's own",
        "by-hand-web/api allows 1",
        "by-hand-web/debug has no controller",
        "keeps data in an emptyDir",
        "PodDisruptionBudget by-hand-web/api",
        "--force",
        "--delete-emptydir-data",
    ];
    for part in says {
        assert!(page.contains(part), "{part}: {page}");
    }
    for pod in &before {
        assert!(page.contains(pod), "{pod}: {page}");
    }
    assert!(plane.node(&node)["spec"]["unschedulable"].is_null());

    // As long as something is in the way that only a person can decide, nothing is begun.
    run(&["drain", &node, "--yes", "--wait", "0s"], 3);
    assert!(plane.node(&node)["spec"]["unschedulable"].is_null());
    assert_eq!(on(&plane, web, &node), before);

    let (out, told) = run(&["drain", &node, "--yes", "--force", "--delete-emptydir-data", "--wait", "3m"], 0);
    assert_eq!(out, format!("{node} is empty, and closed.\n"), "{told}");
    assert!(told.contains("suspend workload by-hand/") && told.contains("evict"), "{told}");
    let stays: Vec<String> =
        before.iter().filter(|pod| pod.starts_with("agent") || *pod == "kubelets").cloned().collect();
    assert_eq!((stays.len(), on(&plane, web, &node)), (2, stays.clone()), "{told}");
    eventually("everything else runs elsewhere", 120, || {
        let moved = pods(&plane, web).iter().filter(|pod| pod["spec"]["nodeName"] != node.as_str()).count();
        // Two of api, one of cache, and the three agents of the other nodes.
        (moved == 6 && pods(&plane, name).len() == 2 && on(&plane, name, &node).is_empty()).then_some(())
    });
    assert_eq!(workload(&plane, name)["spec"]["active"], true, "it keeps its place and is let in again");
    let found = plane.node(&node);
    let mark: Value =
        serde_json::from_str(found["metadata"]["annotations"]["tidewright.dev/cordon"].as_str().unwrap()).unwrap();
    assert_eq!((&found["spec"]["unschedulable"], &mark["why"]), (&json!(true), &json!("drain")));

    // It stays so, whoever applies, until a person opens it.
    run(&["apply", "--until-converged", "--yes"], 0);
    assert_eq!(plane.node(&node)["spec"]["unschedulable"], true);
    assert!(run(&["status"], 0).0.contains(&format!("Drained: {node}")));
    run(&["undrain", &node], 0);
    assert!(plane.node(&node)["spec"]["unschedulable"].is_null());
    run(&["plan"], 0);
}

/// When the API server was asked for the first of these, if it was.
fn asked(plane: &Controlplane, text: &str, is_it: impl Fn(&Value) -> bool) -> Vec<Timestamp> {
    let events = plane.audit(text).into_iter().filter(is_it);
    events.map(|event| event["requestReceivedTimestamp"].as_str().unwrap().parse().unwrap()).collect()
}

/// aws-node-termination-handler#537: nodes that go together were closed and emptied one after the other, and what was
/// evicted from the first came up on the next, to be evicted again.
#[test]
fn all_nodes_that_leave_are_closed_before_anybody_is_sent_away() {
    let Some(plane) = shared() else { return };
    let (name, web) = ("leaving", "leaving-web");
    plane.add_nodes(&GpuNodes::new(name, 4).label("rack", name));
    let directory = fleet(name, 4, 32);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    // Its pods would rather be on the first node, and then on the second.
    let like = |node: &str, weight: u32| {
        let term = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        json!({"weight": weight, "preference": {"matchExpressions": [term]}})
    };
    let mut spec = liking("leaving-0", name, &json!({}));
    spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        json!([like("leaving-0", 100), like("leaving-1", 50)]);
    plane.api.create(&namespace(web)).unwrap();
    plane.api.create(&replicas(web, "api", 2, &spec)).unwrap();
    eventually("the service runs", 60, || (on(&plane, web, "leaving-0").len() == 2).then_some(()));

    // Whoever began with the first node dies when it is closed: it may be emptied at once by whoever comes next.
    tidewright(&plane, directory.path(), &["quarantine", "leaving-0", "--reason", "ECC errors"]).code(0);
    let mut first = Command::new(env!("CARGO_BIN_EXE_tidewright"));
    first.env("KUBECONFIG", &plane.kubeconfig).current_dir(directory.path()).args(["apply", "--yes"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the first node is closed", 60, || {
        (plane.node("leaving-0")["spec"]["unschedulable"] == true).then_some(())
    });
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(on(&plane, web, "leaving-0").len(), 2, "nobody was sent away yet");
    std::thread::sleep(std::time::Duration::from_secs(6));

    tidewright(&plane, directory.path(), &["quarantine", "leaving-1", "--reason", "ECC errors"]).code(0);
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    let closes = |event: &Value| {
        event["objectRef"]["name"] == "leaving-1" && event["responseObject"]["spec"]["unschedulable"] == true
    };
    let closed = asked(&plane, "leaving-1", closes)[0];
    let evicted = asked(&plane, web, |event| event["objectRef"]["subresource"] == "eviction");
    // Twice two would be the mistake.
    assert_eq!(evicted.len(), 2, "closed at {closed}, evicted at {evicted:?}");
    let waited = evicted.iter().min().unwrap().duration_since(closed);
    assert!(waited >= SignedDuration::from_secs(5), "the scheduler had {waited:?} to hear of it");
    eventually("the service runs on nodes that stay", 60, || {
        let stays = |pod: &&Value| ["leaving-2", "leaving-3"].iter().any(|node| pod["spec"]["nodeName"] == *node);
        (pods(&plane, web).iter().filter(stays).count() == 2).then_some(())
    });
}
