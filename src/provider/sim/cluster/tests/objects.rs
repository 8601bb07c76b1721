//! Objects: what is refused, what is held by a finalizer, who moved it.

use super::*;
use crate::provider::Class;

fn refused(bench: &mut Bench, key: &str, body: Value) -> String {
    let error = bench.try_write(key, body).unwrap_err();
    assert_eq!(error.class, Class::Other);
    error.message
}

#[test]
fn an_object_carries_the_digest_of_what_was_written() {
    let mut bench = Bench::with_queue(1, 8);
    let key = key(ObjectKind::ClusterQueue, "vision");
    let object = Object::new(key.clone(), queue_body(8, json!({})));
    let seen = bench.seen().objects.seen()[&key].clone();
    assert_eq!((seen.written, seen.body), (Some(object.digest), object.body));
    bench.perform(&ClusterAction::Disown(key.clone())).unwrap();
    let seen = bench.seen().objects.seen()[&key].clone();
    assert_eq!((seen.written, seen.deleting), (None, false));
    assert!(bench.perform(&ClusterAction::Disown("ClusterQueue/none".parse().unwrap())).is_err());
}

#[test]
fn another_manager_is_named_until_we_write_again() {
    let mut bench = Bench::with_queue(1, 8);
    let key = key(ObjectKind::ClusterQueue, "vision");
    bench.state.change_object(bench.now, "kubectl-edit", &key, &queue_body(4, json!({}))).unwrap();
    let seen = bench.seen().objects.seen()[&key].clone();
    assert_eq!(seen.moved_by, Some(("kubectl-edit".into(), bench.now)));
    assert!(seen.written.is_some_and(|written| written != crate::effect::digest_of(&seen.body)), "that is drift");
    bench.write("ClusterQueue/vision", queue_body(8, json!({})));
    assert_eq!(bench.seen().objects.seen()[&key].moved_by, None);
}

#[test]
fn topology_levels_and_flavors_with_a_topology_are_immutable() {
    let mut bench = Bench::with_queue(1, 8);
    let text = refused(&mut bench, "Topology/fab", json!({"spec": {"levels": [{"nodeLabel": "rack"}]}}));
    assert_eq!(text, "Topology \"fab\" is invalid: spec.levels: Invalid value: field is immutable");
    let labels = json!({POOL: "other"});
    let spec = json!({"spec": {"nodeLabels": labels, "topologyName": "fab"}});
    assert!(refused(&mut bench, "ResourceFlavor/train", spec).contains("nodeLabels are immutable when topologyName"));
    let spec = json!({"spec": {"nodeLabels": {POOL: "train"}, "topologyName": "other"}});
    assert!(refused(&mut bench, "ResourceFlavor/train", spec).contains("topologyName is immutable"));
    bench.write("ResourceFlavor/plain", json!({"spec": {"nodeLabels": {"a": "b"}}}));
    bench.write("ResourceFlavor/plain", json!({"spec": {"nodeLabels": {"a": "c"}}}));
    assert!(refused(&mut bench, "ResourceFlavor/x", json!({"spec": {"topologyName": "fab"}})).contains("at least one"));
}

#[test]
fn a_local_queue_does_not_move() {
    let mut bench = Bench::with_queue(1, 8);
    let text = refused(&mut bench, "LocalQueue/vision/main", json!({"spec": {"clusterQueue": "other"}}));
    assert!(text.contains("spec.clusterQueue: Invalid value: field is immutable"));
}

#[test]
fn limits_need_somebody_to_lend_to_and_no_more_is_lent_than_there_is() {
    let mut bench = Bench::with_queue(1, 8);
    let mut refuses = |more: Value| refused(&mut bench, "ClusterQueue/vision", queue_body(8, more));
    assert!(refuses(json!({"borrowingLimit": "4"})).contains("borrowingLimit: Invalid value: must be nil when cohort"));
    assert!(refuses(json!({"lendingLimit": "4"})).contains("lendingLimit: Invalid value: must be nil when cohort"));
    let text = refuses(json!({"cohortName": "org", "lendingLimit": "9"}));
    assert!(text.contains("must be less than or equal to the nominalQuota"), "{text}");
    let body = queue_body(8, json!({"borrowingLimit": "4"}));
    assert!(refused(&mut bench, "Cohort/night", body).contains("must be nil when parent is empty"));
    bench.write("ClusterQueue/vision", queue_body(8, json!({"cohortName": "org", "lendingLimit": "8"})));
}

#[test]
fn malformed_quotas_are_refused() {
    let mut bench = Bench::with_queue(1, 8);
    let flavor =
        |name: &str, quota: Value| json!({"name": name, "resources": [{"name": "gpu", "nominalQuota": quota}]});
    let mut refuses = |covered: Value, flavors: Value| {
        let group = json!({"coveredResources": covered, "flavors": flavors});
        refused(&mut bench, "ClusterQueue/x", json!({"spec": {"resourceGroups": [group]}}))
    };
    assert!(
        refuses(json!(["cpu"]), json!([flavor("a", json!(1))])).contains("must match the name in coveredResources")
    );
    assert!(refuses(json!(["gpu", "cpu"]), json!([flavor("a", json!(1))])).contains("same number of resources"));
    assert!(refuses(json!(["gpu"]), json!([flavor("a", json!(1)), flavor("a", json!(1))])).contains("Duplicate"));
    assert!(refuses(json!(["gpu"]), json!([flavor("a", json!("many"))])).contains("nominalQuota"));
    assert!(refuses(json!(["gpu"]), json!([flavor("a", json!(-1))])).contains("nominalQuota"));
}

#[test]
fn the_value_of_a_priority_class_is_for_ever_and_that_of_a_workload_priority_class_is_not() {
    let mut bench = Bench::new();
    bench.write("PriorityClass/prod", json!({"value": 1000}));
    assert!(refused(&mut bench, "PriorityClass/prod", json!({"value": 10})).contains("may not be changed"));
    bench.write("WorkloadPriorityClass/prod", json!({"value": 1000}));
    bench.write("WorkloadPriorityClass/prod", json!({"value": 10}));
}

#[test]
fn whom_a_priority_class_preempts_is_for_ever() {
    let mut bench = Bench::new();
    bench.write("PriorityClass/prod", json!({"value": 1000}));
    bench.write("PriorityClass/prod", json!({"value": 1000, "preemptionPolicy": "PreemptLowerPriority"}));
    let error = refused(&mut bench, "PriorityClass/prod", json!({"value": 1000, "preemptionPolicy": "Never"}));
    assert!(error.contains("preemptionPolicy: Invalid value: \"Never\": field is immutable"), "{error}");
}

#[test]
fn an_object_needs_its_namespace() {
    let mut bench = Bench::new();
    let error = bench.try_write("LocalQueue/nowhere/main", json!({"spec": {"clusterQueue": "a"}})).unwrap_err();
    assert_eq!((error.class, error.message.as_str()), (Class::NotFound, "namespaces \"nowhere\" not found"));
    bench.write("ConfigMap/gpu-operator/x", json!({"data": {}}));
    bench.service("web/api", 1, None);
    bench.state.existing_node(bench.now, &node_join("a", "train", "r0"));
    bench.advance(30);
    bench.state.delete_object(bench.now, &key(ObjectKind::Namespace, "web")).unwrap();
    let error = bench.try_write("LocalQueue/web/main", json!({"spec": {"clusterQueue": "a"}})).unwrap_err();
    assert!(error.message.contains("because it is being terminated"));
}

#[test]
fn what_is_in_use_is_deleted_when_it_is_free() {
    let mut bench = Bench::with_queue(2, 16);
    let gang = bench.gang("vision/a", 1);
    bench.advance(30);
    let all = ["Topology/fab", "ResourceFlavor/train", "ClusterQueue/vision"];
    for key in all {
        bench.perform(&ClusterAction::Delete(key.parse().unwrap())).unwrap();
    }
    let left = |bench: &Bench| {
        let seen = bench.seen();
        let there =
            all.iter().filter_map(|key| Some(seen.objects.seen().get(&key.parse::<ObjectKey>().unwrap())?.deleting));
        there.collect::<Vec<_>>()
    };
    assert_eq!(left(&bench), [true, true, true]);
    assert!(bench.workload(&gang).reserved.is_some(), "running work goes on");
    let late = bench.gang("vision/late", 1);
    bench.advance(30);
    assert_eq!(bench.workload(&late).reserved, None, "a queue on its way out admits nothing");
    bench.state.finish(bench.now, &named("vision/a")).unwrap();
    assert_eq!(left(&bench), [] as [bool; 0], "queue, flavor and topology go in one sweep");
    assert!(bench.perform(&ClusterAction::Delete(all[0].parse().unwrap())).is_err_and(|e| e.class == Class::NotFound));
}
