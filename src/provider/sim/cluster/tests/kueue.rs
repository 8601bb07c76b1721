//! Kueue: who is admitted where, who goes for whom, and when quota and GPUs are really free.

use super::*;
use crate::observed::PodPhase;

fn admitted(bench: &Bench, uid: &WorkloadUid) -> bool {
    let seen = bench.workload(uid);
    seen.reserved.is_some() && !seen.evicted
}

#[test]
fn a_gang_is_admitted_placed_and_runs() {
    let mut bench = Bench::with_queue(4, 32);
    let uid = bench.gang_with("vision/a", 2, |spec| spec.required_level = Some("rack".into()));
    assert!(!admitted(&bench, &uid));
    bench.advance(2);
    let seen = bench.workload(&uid);
    assert_eq!(seen.queue.as_str(), "vision");
    assert_eq!(seen.flavors.values().map(|flavor| flavor.as_str()).collect::<Vec<_>>(), ["train"]);
    assert_eq!(seen.requests["nvidia.com/gpu"], 16);
    let racks: std::collections::BTreeSet<_> =
        seen.nodes.keys().map(|node| bench.node(node.as_str()).labels["rack"].clone()).collect();
    assert_eq!((seen.nodes.len(), racks.len()), (2, 1));
    bench.advance(15);
    let pods = bench.pods_of("vision/a");
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod.phase == PodPhase::Running && pod.workload.as_ref() == Some(&uid)));
    let on: std::collections::BTreeSet<_> = pods.iter().filter_map(|pod| pod.node.clone()).collect();
    assert_eq!(on, seen.nodes.keys().cloned().collect());
}

#[test]
fn all_or_nothing() {
    let mut bench = Bench::with_queue(4, 32);
    bench.cordon("n3");
    let uid = bench.gang("vision/a", 4);
    bench.advance(60);
    assert!(!admitted(&bench, &uid));
    assert!(bench.pods_of("vision/a").is_empty());
    assert_eq!(bench.state.waits_for(&uid), Some("NoPlacement"));
    bench.perform(&ClusterAction::Uncordon { node: "n3".into() }).unwrap();
    bench.advance(2);
    assert!(admitted(&bench, &uid));
}

#[test]
fn gangs_are_not_placed_on_nodes_that_are_closed_or_silent() {
    let mut bench = Bench::with_queue(1, 8);
    let node: NodeName = "n0".into();
    bench.state.set_unschedulable(bench.now, &node, true).unwrap();
    let uid = bench.gang("vision/a", 1);
    bench.advance(60);
    assert!(!admitted(&bench, &uid));
    bench.state.set_ready(bench.now, &node, false).unwrap();
    bench.state.set_unschedulable(bench.now, &node, false).unwrap();
    bench.advance(60);
    assert!(!admitted(&bench, &uid));
    bench.state.set_ready(bench.now, &node, true).unwrap();
    bench.advance(5);
    assert!(admitted(&bench, &uid));
}

#[test]
fn other_pods_take_room_from_gangs() {
    let mut bench = Bench::with_queue(1, 8);
    bench.service("web/api", 1, None);
    bench.advance(30);
    let uid = bench.gang("vision/a", 1);
    bench.advance(10);
    assert!(!admitted(&bench, &uid));
    bench.state.scale_service(bench.now, &named("web/api"), 0).unwrap();
    bench.advance(40);
    assert!(admitted(&bench, &uid));
}

#[test]
fn quota_is_free_a_second_after_the_eviction_and_gpus_when_the_pods_are_gone() {
    let mut bench = Bench::with_queue(1, 8);
    let first = bench.gang("vision/a", 1);
    bench.advance(30);
    let second = bench.gang("vision/b", 1);
    bench.advance(5);
    bench.suspend(&first);
    bench.advance_ms(1_200);
    assert_eq!(bench.workload(&first).reserved, None);
    assert!(bench.pods_of("vision/a")[0].terminating.is_some());
    bench.advance(5);
    assert!(admitted(&bench, &second), "on quota that is free");
    assert_eq!(bench.pods_of("vision/b")[0].node, None, "for a node that is not");
    bench.advance(40);
    assert!(bench.pods_of("vision/a").is_empty());
    assert_eq!(bench.pods_of("vision/b")[0].phase, PodPhase::Running);
}

#[test]
fn a_suspended_gang_waits_until_it_is_resumed_and_keeps_its_place() {
    let mut bench = Bench::with_queue(1, 8);
    let first = bench.gang("vision/a", 1);
    bench.advance(30);
    let second = bench.gang("vision/b", 1);
    bench.suspend(&first);
    bench.advance(2);
    bench.suspend(&second);
    bench.advance(60);
    let seen = bench.workload(&first);
    assert!(!seen.active && seen.evicted && seen.marks.contains_key(crate::effect::marks::SUSPENDED));
    assert_eq!(bench.state.counts().suspends, 2);
    bench.resume(&second);
    bench.resume(&first);
    bench.advance(5);
    assert!(admitted(&bench, &first), "it was there first");
    assert!(!admitted(&bench, &second));
    assert!(bench.workload(&first).marks.is_empty());
}

#[test]
fn a_gang_that_is_resumed_before_its_quota_is_released_runs_on() {
    let mut bench = Bench::with_queue(1, 8);
    let uid = bench.gang("vision/a", 1);
    bench.advance(30);
    let pod = bench.pods_of("vision/a").remove(0);
    bench.suspend(&uid);
    bench.advance_ms(500);
    bench.resume(&uid);
    bench.advance(60);
    let after = bench.pods_of("vision/a").remove(0);
    assert_eq!((after.uid, after.terminating, after.phase), (pod.uid, None, PodPhase::Running));
    assert!(admitted(&bench, &uid));
}

#[test]
fn what_somebody_else_deactivated_is_not_resumed() {
    let mut bench = Bench::with_queue(1, 8);
    let uid = bench.gang("vision/a", 1);
    bench.advance(30);
    bench.state.set_active(bench.now, &uid, false).unwrap();
    bench.advance(60);
    bench.resume(&uid);
    assert!(!bench.workload(&uid).active);
    bench.suspend(&uid);
    bench.resume(&uid);
    assert!(!bench.workload(&uid).active, "also with our mark on top");
}

/// `serve` owns 32 GPUs on four nodes, `batch` has none and borrows in a cohort.
fn lent() -> (Bench, Vec<WorkloadUid>) {
    let mut bench = Bench::with_nodes(4);
    bench.write_fabric();
    bench.write_queue("serve", 32, json!({"cohortName": "org"}));
    bench.write_queue("batch", 0, json!({"cohortName": "org", "borrowingLimit": "32"}));
    let gangs = (0..4).map(|at| bench.gang(&format!("batch/j{at}"), 1)).collect();
    bench.advance(60);
    (bench, gangs)
}

#[test]
fn lowering_quota_evicts_nothing() {
    let (mut bench, gangs) = lent();
    bench.write("ClusterQueue/batch", queue_body(0, json!({"cohortName": "org", "borrowingLimit": "0"})));
    bench.advance(600);
    assert!(gangs.iter().all(|uid| admitted(&bench, uid)));
    let late = bench.gang("batch/late", 1);
    bench.advance(600);
    assert!(!admitted(&bench, &late), "but nothing new starts");
}

#[test]
fn reclaim_takes_one_victim_after_another() {
    let (mut bench, gangs) = lent();
    let owners: Vec<_> = (0..3).map(|at| bench.gang(&format!("serve/s{at}"), 1)).collect();
    let mut steps = Vec::new();
    for _ in 0..60 {
        bench.advance_ms(100);
        let running = owners.iter().filter(|uid| admitted(&bench, uid)).count();
        if steps.last() != Some(&running) {
            steps.push(running);
        }
    }
    assert_eq!(steps, [0, 1, 2, 3]);
    assert_eq!(bench.state.counts().preemptions, 3);
    assert_eq!(gangs.iter().filter(|uid| admitted(&bench, uid)).count(), 1);
    bench.state.finish(bench.now, &named("serve/s0")).unwrap();
    bench.advance(10);
    assert_eq!(gangs.iter().filter(|uid| admitted(&bench, uid)).count(), 2, "a victim comes back by itself");
}

#[test]
fn a_workload_priority_class_decides_who_goes_first() {
    let mut bench = Bench::with_queue(1, 8);
    bench.write("WorkloadPriorityClass/low", json!({"value": 10}));
    bench.write("WorkloadPriorityClass/high", json!({"value": 1000}));
    let low = bench.gang_with("vision/low", 1, |spec| spec.tier = Some("low".into()));
    bench.advance(30);
    assert_eq!((bench.workload(&low).priority, bench.workload(&low).tier), (10, Some("low".into())));
    let unknown = bench.gang_with("vision/unknown", 1, |spec| spec.tier = Some("nobody".into()));
    bench.advance(10);
    assert_eq!(bench.workload(&unknown).priority, 0, "accepted, and means nothing");
    assert!(admitted(&bench, &low));
    let high = bench.gang_with("vision/high", 1, |spec| spec.tier = Some("high".into()));
    bench.advance(5);
    assert!(admitted(&bench, &high) && !admitted(&bench, &low));
}

#[test]
fn kueue_does_not_ask_budgets() {
    let (mut bench, gangs) = lent();
    for at in 0..4 {
        let name = named(&format!("batch/j{at}"));
        bench.state.add_budget(bench.now, &name, &name, BudgetSpec::min_available(1));
    }
    bench.gang("serve/s", 1);
    bench.advance(5);
    assert_eq!(gangs.iter().filter(|uid| admitted(&bench, uid)).count(), 3);
}

#[test]
fn stop_policies_hold_and_drain() {
    for (key, body) in [
        ("ClusterQueue/vision", queue_body(16, json!({"stopPolicy": "Hold"}))),
        ("LocalQueue/vision/main", json!({"spec": {"clusterQueue": "vision", "stopPolicy": "Hold"}})),
    ] {
        let mut bench = Bench::with_queue(2, 16);
        let running = bench.gang("vision/a", 1);
        bench.advance(30);
        bench.write(key, body.clone());
        let waiting = bench.gang("vision/b", 1);
        bench.advance(30);
        assert!(admitted(&bench, &running) && !admitted(&bench, &waiting), "{key} Hold");
        let mut drains = body.clone();
        drains["spec"]["stopPolicy"] = json!("HoldAndDrain");
        bench.write(key, drains);
        bench.advance(5);
        assert!(!admitted(&bench, &running), "{key} HoldAndDrain");
        let mut none = body;
        none["spec"]["stopPolicy"] = json!("None");
        bench.write(key, none);
        bench.advance(5);
        assert!(admitted(&bench, &running) && admitted(&bench, &waiting), "{key} None");
    }
}

#[test]
fn a_queue_that_names_a_missing_flavor_is_not_active() {
    let mut bench = Bench::with_nodes(1);
    bench.write_queue("vision", 8, json!({}));
    let uid = bench.gang("vision/a", 1);
    bench.advance(30);
    assert!(!admitted(&bench, &uid));
    assert_eq!(bench.state.waits_for(&uid), Some("QueueStopped"));
    bench.write_fabric();
    bench.advance(5);
    assert!(admitted(&bench, &uid));
}

#[test]
fn a_queue_without_a_selector_takes_nobody() {
    let mut bench = Bench::with_queue(1, 8);
    let uid = bench.gang("vision/a", 1);
    let mut set = |selector: Value| {
        bench.state.set_active(bench.now, &uid, false).unwrap();
        bench.advance(60);
        bench.write("ClusterQueue/vision", queue_body(8, json!({ "namespaceSelector": selector })));
        bench.state.set_active(bench.now, &uid, true).unwrap();
        bench.advance(5);
        admitted(&bench, &uid)
    };
    assert!(!set(Value::Null));
    assert!(set(json!({"matchLabels": {"kubernetes.io/metadata.name": "vision"}})));
    assert!(!set(json!({"matchLabels": {"kubernetes.io/metadata.name": "other"}})));
    let rule = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "vision"]});
    assert!(set(json!({ "matchExpressions": [rule] })));
}

#[test]
fn a_gang_waits_for_its_local_queue() {
    let mut bench = Bench::with_queue(1, 8);
    let uid = bench.gang_with("vision/a", 1, |spec| spec.queue = "other".into());
    bench.advance(30);
    assert!(!admitted(&bench, &uid));
    bench.write("LocalQueue/vision/other", json!({"spec": {"clusterQueue": "vision"}}));
    bench.advance(5);
    assert!(admitted(&bench, &uid));
    bench.perform(&ClusterAction::Delete("LocalQueue/vision/other".parse().unwrap())).unwrap();
    bench.advance(60);
    assert!(admitted(&bench, &uid), "deleting it disturbs nobody who runs");
}

#[test]
fn a_queue_must_cover_what_pods_ask_for() {
    let mut bench = Bench::with_queue(1, 8);
    let uid = bench.gang_with("vision/a", 1, |spec| {
        spec.template.requests.insert("cpu".into(), 1000);
    });
    bench.advance(30);
    assert_eq!(bench.state.waits_for(&uid), Some("NoFlavor"));
}

#[test]
fn a_loan_through_a_cohort_of_its_own_is_taken_back_by_its_limit() {
    let mut bench = Bench::with_nodes(2);
    bench.write_fabric();
    let night = |limit: &str| {
        let mut body = queue_body(0, json!({"borrowingLimit": limit, "parentName": "org"}));
        body["spec"].as_object_mut().unwrap().retain(|key, _| key == "resourceGroups" || key == "parentName");
        body
    };
    bench.write("Cohort/org", json!({"spec": {}}));
    bench.write("Cohort/night", night("0"));
    bench.write_queue("serve", 16, json!({"cohortName": "org"}));
    bench.write_queue("batch", 0, json!({"cohortName": "night"}));
    let one = bench.gang("batch/a", 1);
    bench.advance(1);
    let two = bench.gang("batch/b", 1);
    bench.advance(30);
    assert!(!admitted(&bench, &one));
    bench.write("Cohort/night", night("8"));
    bench.advance(2);
    assert!(admitted(&bench, &one) && !admitted(&bench, &two));
    bench.write("Cohort/night", night("0"));
    bench.advance(60);
    assert!(admitted(&bench, &one));
    bench.suspend(&one);
    bench.advance(60);
    bench.resume(&one);
    bench.advance(60);
    assert!(!admitted(&bench, &one) && !admitted(&bench, &two), "the loan is over");
}

#[test]
fn a_gang_whose_pods_never_get_ready_queues_again_behind_the_others() {
    let mut bench = Bench::with_queue(1, 8);
    let uid = bench.gang("vision/a", 1);
    bench.advance_ms(1_500);
    assert!(admitted(&bench, &uid));
    bench.cordon("n0");
    bench.advance(30 * 60 + 5);
    assert!(!admitted(&bench, &uid), "the pod is pinned to a node that takes none");
    bench.perform(&ClusterAction::Uncordon { node: "n0".into() }).unwrap();
    let second = bench.gang("vision/b", 1);
    bench.advance(120);
    assert!(admitted(&bench, &second) && !admitted(&bench, &uid));
}

/// What stands of one of the policies of `compile::placed` in the eyes of a gang.
fn write_policy(bench: &mut Bench, said: &str) {
    let ours = json!({"name": "ours", "expression": "object.metadata.namespace + '/' + object.spec.queueName in ['vision/main']"});
    let patch = format!("JSONPatch{{op: 'add', path: '/spec/podSets/' + string(i) + '/topologyRequest/{said}}}");
    let mutations = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]);
    let spec = json!({"matchConditions": [ours], "mutations": mutations});
    bench.write("MutatingAdmissionPolicy/placed", json!({"spec": spec}));
    bench.write("MutatingAdmissionPolicyBinding/placed", json!({"spec": {"policyName": "placed"}}));
}

#[test]
fn a_policy_has_gangs_that_say_nothing_of_their_place_stand_together() {
    let racks = |bench: &Bench, uid: &WorkloadUid| {
        let nodes = bench.workload(uid).nodes;
        assert_eq!(nodes.len(), 2);
        let racks = nodes.keys().map(|node| bench.node(node.as_str()).labels["rack"].clone());
        racks.collect::<std::collections::BTreeSet<_>>().len()
    };
    // Two in a rack, and one of the first is taken.
    let mut bench = Bench::with_queue(4, 32);
    bench.gang("vision/filler", 1);
    bench.advance(5);
    let plain = bench.gang("vision/plain", 2);
    bench.advance(5);
    assert_eq!(racks(&bench, &plain), 2, "the smallest holes are filled");
    bench.state.finish(bench.now, &named("vision/plain")).unwrap();
    write_policy(&mut bench, "preferred', value: 'rack'");
    let near = bench.gang("vision/near", 2);
    bench.advance(60);
    assert_eq!(racks(&bench, &near), 1);
    let seen = bench.workload(&near);
    assert_eq!((seen.preferred_level.as_deref(), seen.placed), (Some("rack"), true));
    bench.state.finish(bench.now, &named("vision/near")).unwrap();
    // A policy that knows of no level says anywhere, and who says a level is taken at its word.
    write_policy(&mut bench, "unconstrained', value: true");
    let anywhere = bench.gang("vision/anywhere", 2);
    bench.advance(60);
    assert_eq!(racks(&bench, &anywhere), 2);
    let seen = bench.workload(&anywhere);
    assert_eq!((seen.preferred_level, seen.placed), (None, true));
}
