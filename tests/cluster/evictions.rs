//! Every answer of the eviction subresource that a real API server can be brought to give.

use serde_json::{Value, json};
use tidewright::effect::ClusterAction;
use tidewright::ids::{NamespacedName, Uid};
use tidewright::provider::{Cluster, Done, Refusal};

use super::super::controlplane::{Controlplane, block};
use super::{cluster, namespace, node, server};

/// A pod that runs and is ready, on a node that nobody keeps; its UID.
fn pod(plane: &Controlplane, namespace: &str, name: &str, labels: Value) -> Uid {
    let api = &plane.api;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": "evictions", "containers": [{"name": "main", "image": "train"}]},
    });
    let made = api.create(&pod).unwrap();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    api.merge(&format!("/api/v1/namespaces/{namespace}/pods/{name}/status"), &status).unwrap();
    made["metadata"]["uid"].as_str().unwrap().into()
}

/// A budget over pods with a label, in the state that its controller would have left it.
fn budget(plane: &Controlplane, namespace: &str, name: &str, app: &str, status: Option<Value>) {
    let api = &plane.api;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    });
    api.create(&budget).unwrap();
    if let Some(mut status) = status {
        for (key, value) in
            [("observedGeneration", 1), ("currentHealthy", 1), ("desiredHealthy", 1), ("expectedPods", 1)]
        {
            status[key] = json!(value);
        }
        let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}/status");
        api.merge(&path, &json!({"status": status})).unwrap();
    }
}

/// What came of the eviction of one pod: none, or why not.
fn evict(plane: &Controlplane, namespace: &str, name: &str, uid: &Uid, force: bool) -> Option<Refusal> {
    let pods = vec![(NamespacedName::new(namespace, name), uid.clone())];
    match block(cluster(plane, "e").perform(&ClusterAction::Evict { pods, force })).unwrap() {
        Done::Evicted { mut refused } => refused.pop(),
        other => panic!("{other:?}"),
    }
}

/// Whether it is there and was not told to go.
fn stays(plane: &Controlplane, namespace: &str, name: &str) -> bool {
    let found = plane.api.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}"));
    found.is_ok_and(|pod| pod["metadata"]["deletionTimestamp"].is_null())
}

fn scene(name: &str) -> Option<&'static Controlplane> {
    let plane = server()?;
    let _ = plane.api.create(&node("evictions"));
    plane.api.create(&namespace(name)).unwrap();
    Some(plane)
}

#[test]
fn an_eviction_that_is_accepted_tells_the_pod_to_go() {
    let Some(plane) = scene("evict-yes") else { return };
    let uid = pod(plane, "evict-yes", "p", json!({}));
    assert_eq!(evict(plane, "evict-yes", "p", &uid, false), None);
    assert!(!stays(plane, "evict-yes", "p"));
    // Told once more: it is on its way already.
    assert_eq!(evict(plane, "evict-yes", "p", &uid, false), None);
}

#[test]
fn a_pod_that_is_gone_is_done_and_one_that_took_its_name_is_not_touched() {
    let Some(plane) = scene("evict-uid") else { return };
    let uid = pod(plane, "evict-uid", "p", json!({}));
    assert_eq!(evict(plane, "evict-uid", "nobody", &uid, false), None);
    for force in [false, true] {
        assert_eq!(evict(plane, "evict-uid", "p", &"another-uid".into(), force), None);
        assert!(stays(plane, "evict-uid", "p"), "the UID did not reach the server");
    }
    assert_eq!(evict(plane, "evict-uid", "p", &uid, true), None);
    assert!(!stays(plane, "evict-uid", "p"));
}

#[test]
fn a_budget_that_allows_nothing_is_asked_again_and_named() {
    let Some(plane) = scene("evict-none") else { return };
    let uid = pod(plane, "evict-none", "p", json!({"app": "a"}));
    budget(plane, "evict-none", "keep-one", "a", Some(json!({"disruptionsAllowed": 0})));
    let refused = evict(plane, "evict-none", "p", &uid, false).expect("it is refused");
    assert!(!refused.permanent && refused.retry_after_secs.is_none(), "{refused:?}");
    assert!(refused.why.starts_with("429") && refused.why.contains("keep-one"), "{refused:?}");
    assert!(stays(plane, "evict-none", "p"));
    // A deadline that was declared passes over it.
    assert_eq!(evict(plane, "evict-none", "p", &uid, true), None);
    assert!(!stays(plane, "evict-none", "p"));
}

#[test]
fn a_budget_that_is_still_counted_says_when_to_come_back() {
    let Some(plane) = scene("evict-later") else { return };
    let uid = pod(plane, "evict-later", "p", json!({"app": "a"}));
    budget(plane, "evict-later", "new", "a", None);
    let refused = evict(plane, "evict-later", "p", &uid, false).expect("it is refused");
    assert_eq!((refused.permanent, refused.retry_after_secs), (false, Some(10)), "{refused:?}");
}

#[test]
fn a_pod_under_two_budgets_needs_a_person() {
    let Some(plane) = scene("evict-two") else { return };
    let uid = pod(plane, "evict-two", "p", json!({"app": "a"}));
    for name in ["one", "two"] {
        budget(plane, "evict-two", name, "a", Some(json!({"disruptionsAllowed": 1})));
    }
    let refused = evict(plane, "evict-two", "p", &uid, false).expect("it is refused");
    assert!(refused.permanent && refused.why.starts_with("500"), "{refused:?}");
    let seen = block(cluster(plane, "e").reread(&[tidewright::effect::Subject::Node("evictions".into())]));
    let found = seen.pods.seen().iter().find(|pod| pod.name.to_string() == "evict-two/p").unwrap();
    assert_eq!(found.budgets.len(), 2, "a plan can tell before");
}

#[test]
fn a_budget_with_too_many_evictions_that_nobody_confirmed_is_asked_again() {
    let Some(plane) = scene("evict-flood") else { return };
    let uid = pod(plane, "evict-flood", "p", json!({"app": "a"}));
    let disrupted: serde_json::Map<String, Value> =
        (0..2_001).map(|index| (format!("gone-{index}"), json!("2026-11-16T12:00:00Z"))).collect();
    budget(plane, "evict-flood", "b", "a", Some(json!({"disruptionsAllowed": 1, "disruptedPods": disrupted})));
    let refused = evict(plane, "evict-flood", "p", &uid, false).expect("it is refused");
    assert!(!refused.permanent && refused.why.starts_with("403"), "{refused:?}");
}

#[test]
fn a_namespace_that_is_being_deleted_is_waited_for() {
    let Some(plane) = scene("evict-ending") else { return };
    let uid = pod(plane, "evict-ending", "p", json!({}));
    block(plane.api.send("DELETE", "/api/v1/namespaces/evict-ending", "application/json", None)).unwrap();
    let refused = evict(plane, "evict-ending", "p", &uid, false).expect("it is refused");
    assert!(!refused.permanent && refused.why.starts_with("403"), "{refused:?}");
}

#[test]
fn a_pod_that_never_ran_goes_whatever_its_budget_says() {
    let Some(plane) = scene("evict-pending") else { return };
    let uid = pod(plane, "evict-pending", "p", json!({"app": "a"}));
    let path = "/api/v1/namespaces/evict-pending/pods/p/status";
    plane.api.merge(path, &json!({"status": {"phase": "Pending"}})).unwrap();
    budget(plane, "evict-pending", "b", "a", Some(json!({"disruptionsAllowed": 0})));
    assert_eq!(evict(plane, "evict-pending", "p", &uid, false), None);
}

#[test]
fn whoever_may_not_evict_needs_a_person() {
    let Some(plane) = scene("evict-forbidden") else { return };
    let uid = pod(plane, "evict-forbidden", "p", json!({}));
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let kubeconfig = plane.limited_user("cannot-evict", &rules);
    let cluster =
        tidewright::provider::k8s::K8s::with(super::super::controlplane::Api::new(&kubeconfig).client, &"e".into());
    let pods = vec![(NamespacedName::new("evict-forbidden", "p"), uid)];
    let Done::Evicted { refused } = block(cluster.perform(&ClusterAction::Evict { pods, force: false })).unwrap()
    else {
        panic!("an eviction says what became of each pod")
    };
    assert!(refused[0].permanent && refused[0].why.contains("cannot-evict"), "{refused:?}");
}
