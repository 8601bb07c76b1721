//! What the API server alone can judge: reading, the ledger, nodes, objects and their managers.

use serde_json::{Value, json};
use tidewright::effect::marks::{CORDON, DRAIN_TAINT, Mark};
use tidewright::effect::{ClusterAction, Head, LedgerChange, Object, Part, PoolLedger, Subject};
use tidewright::fleet::launch::{Taint, TaintEffect};
use tidewright::observed::{ObjectKey, ObjectKind, Rehearsed};
use tidewright::provider::{Class, Cluster, Done, PartValue, ProviderError};

use super::super::controlplane::{Api, Controlplane, block, eventually};
use super::{cluster, namespace, node, server, target};

const POOL: &str = "kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 1, capacity: [{existing: {labels: {rack: a}}}]}
";

fn perform(plane: &Controlplane, fleet: &str, action: &ClusterAction) -> Result<Done, ProviderError> {
    block(cluster(plane, fleet).perform(action))
}

#[test]
fn of_two_who_write_the_ledger_at_once_one_is_told_to_read_again() {
    let Some(plane) = server() else { return };
    let (one, other) = (cluster(plane, "race"), cluster(plane, "race"));
    let part = Part::Pool("train".into());
    block(async {
        let (value, absent) = one.ledger_part(&part).await.unwrap();
        assert_eq!((&value, &other.ledger_part(&part).await.unwrap().1), (&PartValue::Pool(None), &absent));
        let next = PartValue::Pool(Some(PoolLedger::default()));
        let first = one.swap_ledger(&part, &absent, &next).await.unwrap();
        // The other made it too, and was late.
        let late = other.swap_ledger(&part, &absent, &next).await.unwrap_err();
        assert_eq!(late.class, Class::Conflict, "{late}");
        let mut changed = PoolLedger::default();
        changed.removed.push((3, jiff::Timestamp::UNIX_EPOCH));
        let changed = PartValue::Pool(Some(changed));
        let second = other.swap_ledger(&part, &first, &changed).await.unwrap();
        assert_eq!(one.swap_ledger(&part, &first, &next).await.unwrap_err().class, Class::Conflict);
        assert_eq!(one.ledger_part(&part).await.unwrap(), (changed.clone(), second.clone()));
        // A pool that is forgotten is gone, and a late writer does not bring it back.
        let gone = one.swap_ledger(&part, &second, &PartValue::Pool(None)).await.unwrap();
        assert_eq!(other.swap_ledger(&part, &second, &changed).await.unwrap_err().class, Class::Conflict);
        assert_eq!(other.ledger_part(&part).await.unwrap(), (PartValue::Pool(None), gone));
    });
}

#[test]
fn the_ledger_is_read_whole_and_one_that_a_newer_program_wrote_is_an_error() {
    let Some(plane) = server() else { return };
    let (ours, others) = (cluster(plane, "whole"), cluster(plane, "another"));
    block(async {
        for cluster in [&ours, &others] {
            for part in [Part::Head, Part::Pool("train".into()), Part::Pool("serve".into())] {
                let next = match &part {
                    Part::Head => {
                        let mut ledger = tidewright::effect::Ledger::default();
                        ledger.change(&LedgerChange::Begin { fleet: "uid".into(), began: None });
                        PartValue::Head(Box::new(ledger.head))
                    }
                    Part::Pool(_) => PartValue::Pool(Some(PoolLedger::default())),
                };
                let (_, version) = cluster.ledger_part(&part).await.unwrap();
                cluster.swap_ledger(&part, &version, &next).await.unwrap();
            }
        }
        let (ledger, versions) = ours.ledger().await.unwrap();
        assert_eq!(ledger.head.fleet, Some("uid".into()));
        assert_eq!(ledger.pools.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["serve", "train"]);
        assert_eq!(versions.len(), 3);
    });
    let path = "/api/v1/namespaces/tidewright-system/configmaps/tidewright.whole";
    plane.api.merge(path, &json!({"data": {"format": "2"}})).unwrap();
    let error = block(ours.ledger()).unwrap_err();
    assert!(error.message.contains("a newer one wrote it"), "{error}");
    assert_eq!(block(others.ledger()).unwrap().0.head.fleet, Some("uid".into()));
}

#[test]
fn a_ledger_that_was_never_written_is_empty() {
    let Some(plane) = server() else { return };
    let (ledger, versions) = block(cluster(plane, "unborn").ledger()).unwrap();
    assert_eq!((ledger.head, versions.len()), (Head::default(), 1));
}

#[test]
fn a_cordon_of_ours_is_lifted_and_one_of_others_is_not() {
    let Some(plane) = server() else { return };
    let api = &plane.api;
    for name in ["cordon-ours", "cordon-theirs"] {
        api.create(&node(name)).unwrap();
    }
    let foreign = json!({"key": "other", "value": "x", "effect": "NoExecute"});
    api.merge("/api/v1/nodes/cordon-ours", &json!({"spec": {"taints": [foreign]}})).unwrap();
    api.merge("/api/v1/nodes/cordon-theirs", &json!({"spec": {"unschedulable": true}})).unwrap();
    let before = jiff::Timestamp::now();
    for name in ["cordon-ours", "cordon-theirs"] {
        // A plan that is an hour old: the taint is as old as the write, not as the plan.
        let mark = Mark::new(before - jiff::SignedDuration::from_hours(1), "replace");
        perform(plane, "c", &ClusterAction::Cordon { node: name.into(), mark }).unwrap();
        let found = plane.node(name);
        assert_eq!(found["spec"]["unschedulable"], true);
        assert!(found["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == DRAIN_TAINT));
        let mark = Mark::parse(found["metadata"]["annotations"][CORDON].as_str().unwrap());
        assert!(mark.since >= before, "{mark:?}");
        perform(plane, "c", &ClusterAction::Uncordon { node: name.into() }).unwrap();
        let found = plane.node(name);
        assert!(found["metadata"]["annotations"][CORDON].is_null());
        let left: Vec<&Value> = found["spec"]["taints"].as_array().into_iter().flatten().collect();
        assert!(left.iter().all(|taint| taint["key"] != DRAIN_TAINT), "{left:?}");
    }
    let ours = plane.node("cordon-ours");
    assert!(ours["spec"]["unschedulable"].is_null());
    assert!(ours["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "other"));
    assert_eq!(plane.node("cordon-theirs")["spec"]["unschedulable"], true);
}

#[test]
fn a_node_is_dressed_in_one_write_and_read_back_as_it_was_written() {
    let Some(plane) = server() else { return };
    plane.api.create(&node("dressed")).unwrap();
    let taint = Taint { key: "nvidia.com/gpu".into(), value: None, effect: TaintEffect::NoSchedule };
    let action = ClusterAction::Dress {
        node: "dressed".into(),
        labels: [("tidewright.dev/pool".into(), Some("train".into())), ("gone".into(), None)].into(),
        taints: vec![taint.clone()],
        remove_taints: vec![],
        notes: [("tidewright.dev/worn".into(), Some("{}".into()))].into(),
    };
    perform(plane, "d", &action).unwrap();
    let seen = block(cluster(plane, "d").reread(&[Subject::Node("dressed".into()), Subject::Node("absent".into())]));
    let nodes = seen.nodes.whole().expect("it was read");
    assert_eq!(nodes.len(), 1);
    let found = &nodes["dressed"];
    assert_eq!(found.labels["tidewright.dev/pool"], "train");
    assert!(found.taints.contains(&taint));
    assert_eq!(found.annotation("tidewright.dev/worn"), Some("{}"));
    let missing = perform(plane, "d", &ClusterAction::Uncordon { node: "absent".into() }).unwrap_err();
    assert_eq!(missing.class, Class::NotFound);
}

fn config_map(name: &str, value: &str) -> Object {
    let key = ObjectKey::namespaced(ObjectKind::ConfigMap, "default", name);
    Object::new(key, json!({"data": {"a": value}}))
}

fn applied_by(plane: &Controlplane, manager: &str, operation: &str, name: &str, value: &str) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}});
    let path = format!("/api/v1/namespaces/default/configmaps/{name}?fieldManager={manager}&force=true");
    let (path, content) = match operation {
        "Apply" => (path, "application/apply-patch+yaml"),
        _ => (path.replace("&force=true", ""), "application/merge-patch+json"),
    };
    block(plane.api.send("PATCH", &path, content, Some(&body))).unwrap();
}

#[test]
fn what_another_manager_applies_is_left_and_the_answer_names_it() {
    let Some(plane) = server() else { return };
    applied_by(plane, "argocd-controller", "Apply", "declared", "theirs");
    let error = perform(plane, "s", &ClusterAction::Apply(config_map("declared", "ours"))).unwrap_err();
    assert_eq!(error.class, Class::Other);
    assert!(
        error.message.contains("also applied by argocd-controller") && error.message.contains(".data.a"),
        "{error}"
    );
    let found = plane.api.get("/api/v1/namespaces/default/configmaps/declared").unwrap();
    assert_eq!(found["data"]["a"], "theirs");
    let wanted = config_map("declared", "ours");
    let rehearsed = block(cluster(plane, "s").rehearse(&[&wanted]));
    assert!(matches!(&rehearsed[&wanted.key], Rehearsed::Refused(why) if why.contains("argocd-controller")));
}

#[test]
fn what_somebody_edited_is_drift_with_a_name_and_is_put_back() {
    let Some(plane) = server() else { return };
    let wanted = config_map("edited", "ours");
    perform(plane, "s", &ClusterAction::Apply(wanted.clone())).unwrap();
    let look = || {
        let seen = block(cluster(plane, "s").reread(&[Subject::Object(wanted.key.clone())]));
        seen.objects.whole().unwrap()[&wanted.key].clone()
    };
    let fresh = look();
    assert_eq!((&fresh.body, fresh.written.as_ref(), fresh.moved_by), (&wanted.body, Some(&wanted.digest), None));
    // Times of managed fields are whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    applied_by(plane, "kubectl-edit", "Update", "edited", "theirs");
    let moved = look();
    assert_eq!(moved.body["data"]["a"], "theirs");
    assert_eq!(moved.moved_by.as_ref().map(|(who, _)| who.as_str()), Some("kubectl-edit"));
    assert_eq!(moved.written, Some(wanted.digest.clone()));
    perform(plane, "s", &ClusterAction::Apply(wanted.clone())).unwrap();
    assert_eq!(look().body, wanted.body);
}

#[test]
fn an_object_is_deleted_only_with_our_mark_and_let_go_as_it_is() {
    let Some(plane) = server() else { return };
    applied_by(plane, "kubectl", "Apply", "foreign", "theirs");
    let foreign = config_map("foreign", "x").key;
    let error = perform(plane, "s", &ClusterAction::Delete(foreign)).unwrap_err();
    assert_eq!(error.class, Class::Denied);
    let wanted = config_map("ours-to-leave", "ours");
    perform(plane, "s", &ClusterAction::Apply(wanted.clone())).unwrap();
    // Another fleet of the same cluster has no right to it.
    let error = perform(plane, "other", &ClusterAction::Delete(wanted.key.clone())).unwrap_err();
    assert_eq!(error.class, Class::Denied);
    perform(plane, "s", &ClusterAction::Disown(wanted.key.clone())).unwrap();
    let found = plane.api.get("/api/v1/namespaces/default/configmaps/ours-to-leave").unwrap();
    assert_eq!(found["data"]["a"], "ours");
    assert!(found["metadata"]["annotations"].as_object().is_none_or(serde_json::Map::is_empty), "{found}");
    perform(plane, "s", &ClusterAction::Apply(wanted.clone())).unwrap();
    perform(plane, "s", &ClusterAction::Delete(wanted.key.clone())).unwrap();
    let error = perform(plane, "s", &ClusterAction::Delete(wanted.key)).unwrap_err();
    assert_eq!(error.class, Class::NotFound);
}

/// Kueue keeps its queues and flavors by finalizers until it has finished with them.
#[test]
fn what_is_deleted_is_waited_for_while_somebody_finishes_with_it() {
    let Some(plane) = server() else { return };
    let wanted = config_map("finished-with", "ours");
    perform(plane, "s", &ClusterAction::Apply(wanted.clone())).unwrap();
    let path = "/api/v1/namespaces/default/configmaps/finished-with";
    plane.api.merge(path, &json!({"metadata": {"finalizers": ["example.com/in-use"]}})).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("it is told to go", 60, || {
                plane.api.get(path).unwrap()["metadata"]["deletionTimestamp"].as_str().map(drop)
            });
            std::thread::sleep(std::time::Duration::from_secs(2));
            plane.api.merge(path, &json!({"metadata": {"finalizers": null}})).unwrap();
        });
        perform(plane, "s", &ClusterAction::Delete(wanted.key.clone())).unwrap();
        assert_eq!(plane.api.get(path).map_err(|error| error.status), Err(404), "it is gone when that is said");
    });
}

#[test]
fn a_rehearsal_sees_admission_and_changes_nothing() {
    let Some(plane) = server() else { return };
    let class = |value: i64| {
        let key = ObjectKey::cluster(ObjectKind::PriorityClass, "rehearsed");
        Object::new(key, json!({"value": value, "preemptionPolicy": "Never"}))
    };
    let nowhere =
        Object::new(ObjectKey::namespaced(ObjectKind::ConfigMap, "not-there-yet", "m"), json!({"data": {"a": "b"}}));
    let cluster = cluster(plane, "r");
    let first = class(10);
    let said = block(cluster.rehearse(&[&first, &nowhere]));
    assert_eq!(said.keys().collect::<Vec<_>>(), [&first.key], "what cannot be judged yet is left out");
    assert!(matches!(&said[&first.key], Rehearsed::Taken(body) if body["value"] == 10));
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses/rehearsed";
    assert_eq!(plane.api.get(path).unwrap_err().status, 404);
    block(cluster.perform(&ClusterAction::Apply(first))).unwrap();
    let second = class(11);
    let said = block(cluster.rehearse(&[&second]));
    assert!(matches!(&said[&second.key], Rehearsed::Refused(why) if why.contains("may not be changed")), "{said:?}");
    assert_eq!(plane.api.get(path).unwrap()["value"], 10);
}

#[test]
fn a_list_longer_than_a_page_is_read_whole() {
    let Some(plane) = server() else { return };
    let many: Vec<Value> = (0..1_100).map(|index| namespace(&format!("many-{index:04}"))).collect();
    plane.api.create_all(&many);
    let seen = block(cluster(plane, "m").observe(&target("m", POOL)));
    let found = seen.objects.seen().keys().filter(|key| key.name.starts_with("many-")).count();
    assert_eq!(found, 1_100);
    let gap = seen.gap_of(ObjectKind::ClusterQueue).expect("this server has no Kueue");
    assert!(gap.why.contains("install Kueue"), "{gap:?}");
    for kind in [ObjectKind::ConfigMap, ObjectKind::PriorityClass, ObjectKind::Namespace] {
        assert_eq!(seen.gap_of(kind), None, "what has nothing to do with Kueue is known");
    }
    assert!(seen.workloads.whole().is_some(), "without Kueue there are certainly no workloads");
    assert!(seen.nodes.whole().is_some() && seen.pods.whole().is_some() && seen.budgets.whole().is_some());
}

#[test]
fn what_we_may_not_read_is_a_gap_with_the_way_out_of_it() {
    let Some(plane) = server() else { return };
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes", "namespaces", "configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
    ]);
    let kubeconfig = plane.limited_user("half-blind", &rules);
    let cluster = tidewright::provider::k8s::K8s::with(Api::new(&kubeconfig).client, &"blind".into());
    let seen = block(cluster.observe(&target("blind", POOL)));
    assert!(seen.nodes.whole().is_some() && seen.budgets.whole().is_some());
    let gap = seen.pods.gap().expect("pods are forbidden");
    assert!(gap.why.contains("half-blind") && gap.why.contains("Grant `list` on pods"), "{gap:?}");
    let error = block(cluster.perform(&ClusterAction::Uncordon { node: "any".into() })).unwrap_err();
    assert!(matches!(error.class, Class::NotFound | Class::Denied), "{error}");
}

#[test]
fn a_node_read_in_the_servers_own_format_is_the_node_that_it_says_in_json() {
    let Some(plane) = server() else { return };
    let mut written = node("encoded");
    written["metadata"]["annotations"] = json!({"tidewright.dev/hands-off": "ä", "other": "x"});
    written["spec"] = json!({"providerID": "aws:///us-east-1a/i-0123456789abcdef0", "unschedulable": true,
        "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]});
    plane.api.create(&written).unwrap();
    let sick = json!({"type": "SysLogsXIDError", "status": "True", "reason": "r", "message": "Xid 79",
        "lastTransitionTime": "2026-09-03T10:00:00Z", "lastHeartbeatTime": "2026-09-03T10:00:00Z"});
    let status = json!({"status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "191450m"}, "conditions": [sick]}});
    plane.api.merge("/api/v1/nodes/encoded/status", &status).unwrap();

    // The server has it, and a refusal in it is understood too.
    let list = http::Request::get("/api/v1/nodes?limit=1").header("accept", "application/vnd.kubernetes.protobuf");
    let answer = block(async {
        let answer = plane.api.client.send(list.body(kube::client::Body::empty()).unwrap()).await.unwrap();
        answer.into_body().collect_bytes().await.unwrap()
    });
    assert!(answer.starts_with(b"k8s\0"));
    let nobody = plane.limited_user("blind", &json!([]));
    let blind = tidewright::provider::k8s::K8s::with(Api::new(&nobody).client, &"blind".into());
    let gap = block(blind.observe(&target("blind", POOL))).nodes.gap().cloned().expect("nodes are forbidden");
    assert!(gap.why.contains("nodes is forbidden") && gap.why.contains("Grant `list` on nodes"), "{gap:?}");

    let seen = block(cluster(plane, "own-format").observe(&target("own-format", POOL)));
    let listed = &seen.nodes.whole().expect("it was read")["encoded"];
    // One by one they are read as JSON.
    let single = block(cluster(plane, "own-format").reread(&[Subject::Node("encoded".into())]));
    assert_eq!(*listed, single.nodes.whole().expect("it was read")["encoded"]);
    assert_eq!(listed.conditions["SysLogsXIDError"].xids, [79]);
    assert_eq!(listed.annotations["tidewright.dev/hands-off"], "ä");
    assert_eq!((listed.allocatable["cpu"], listed.allocatable["nvidia.com/gpu"]), (191_450, 8));
    let taint = Taint { key: "k".into(), value: Some("v".into()), effect: TaintEffect::NoExecute };
    assert!(listed.taints.contains(&taint) && listed.unschedulable && listed.instance.is_some(), "{listed:#?}");
}
