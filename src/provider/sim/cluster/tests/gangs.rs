//! What happens to gangs beside Kueue: saving, finishing, losing a rank, being pushed away.

use super::*;
use crate::effect::marks::ASKED;
use crate::observed::PodPhase;

fn running(nodes: usize, pods: u32, change: impl FnOnce(&mut GangSpec)) -> (Bench, WorkloadUid) {
    let mut bench = Bench::with_queue(nodes, 8 * nodes as u32);
    let uid = bench.gang_with("vision/a", pods, change);
    bench.advance(30);
    (bench, uid)
}

fn ask(bench: &mut Bench, uid: &WorkloadUid) {
    let mark = mark(bench.now);
    bench.perform(&ClusterAction::Ask { workload: uid.clone(), mark }).unwrap();
}

#[test]
fn a_gang_that_is_asked_saves_in_its_own_time() {
    let (mut bench, uid) = running(2, 2, |spec| spec.save_secs = Some(90));
    ask(&mut bench, &uid);
    assert!(bench.workload(&uid).marks.contains_key(ASKED));
    bench.advance(89);
    assert_eq!(bench.workload(&uid).saved, None);
    bench.advance(2);
    let seen = bench.workload(&uid);
    assert!(seen.saved.is_some());
    assert!(bench.pods_of("vision/a").iter().all(|pod| pod.saved == seen.saved));
}

#[test]
fn some_never_answer() {
    let (mut bench, uid) = running(2, 2, |_| {});
    ask(&mut bench, &uid);
    bench.advance(86_400);
    assert_eq!(bench.workload(&uid).saved, None);
}

#[test]
fn who_does_not_run_has_nothing_to_save() {
    let (mut bench, uid) = running(2, 2, |spec| spec.save_secs = Some(90));
    ask(&mut bench, &uid);
    bench.suspend(&uid);
    bench.advance(300);
    assert_eq!(bench.workload(&uid).saved, None);
    bench.resume(&uid);
    bench.advance_ms(300);
    bench.cordon("n0");
    bench.cordon("n1");
    ask(&mut bench, &uid);
    bench.advance(300);
    let seen = bench.workload(&uid);
    assert_eq!((seen.reserved.is_some(), seen.saved), (true, None), "admitted, and without a place for its pods");
}

#[test]
fn a_gang_finishes_and_is_forgotten_later() {
    let (mut bench, uid) = running(2, 2, |_| {});
    bench.state.finish(bench.now, &named("vision/a")).unwrap();
    let seen = bench.workload(&uid);
    assert!(seen.finished && seen.reserved.is_none());
    assert!(bench.pods_of("vision/a").iter().all(|pod| pod.phase == PodPhase::Succeeded && !pod.counts()));
    bench.advance(3_601);
    assert!(bench.seen().workloads.seen().is_empty() && bench.pods_of("vision/a").is_empty());
    assert!(bench.state.finish(bench.now, &named("vision/a")).is_err());
}

#[test]
fn work_that_was_saved_is_not_done_again() {
    let (mut bench, uid) = running(1, 1, |spec| (spec.save_secs, spec.work_secs) = (Some(10), Some(1_000)));
    bench.advance(500);
    ask(&mut bench, &uid);
    bench.advance(100);
    bench.suspend(&uid);
    bench.advance(100);
    bench.resume(&uid);
    bench.advance(400);
    assert!(!bench.workload(&uid).finished, "what came after the save is lost");
    bench.advance(150);
    assert!(bench.workload(&uid).finished);
}

#[test]
fn a_rank_lost_on_a_healthy_node_is_made_again_there() {
    let (mut bench, uid) = running(2, 2, |_| {});
    let pod = bench.pods_of("vision/a").remove(0);
    bench.state.delete_pod(&pod.name);
    bench.advance(60);
    let pods = bench.pods_of("vision/a");
    assert_eq!(pods.iter().filter(|one| one.ready).count(), 2);
    assert!(pods.iter().any(|one| one.uid != pod.uid && one.node == pod.node));
    assert_eq!(bench.workload(&uid).nodes.len(), 2);
}

#[test]
fn a_dead_node_is_replaced_where_there_is_a_spare() {
    let (mut bench, uid) = running(3, 2, |_| {});
    let before = bench.workload(&uid).nodes;
    let dead = before.keys().next().unwrap().clone();
    bench.state.node_gone(bench.now, &instance(dead.as_str()));
    bench.advance(60);
    let after = bench.workload(&uid);
    assert!(!after.nodes.contains_key(&dead) && after.nodes.len() == 2);
    assert_eq!(bench.state.counts().admissions, 1, "the rest of the gang went on");
    assert_eq!(bench.pods_of("vision/a").iter().filter(|pod| pod.ready).count(), 2);
}

#[test]
fn without_a_spare_the_whole_gang_goes_and_comes_back() {
    let (mut bench, uid) = running(2, 2, |_| {});
    bench.state.node_gone(bench.now, &instance("n0"));
    bench.advance(60);
    assert_eq!(bench.workload(&uid).reserved, None);
    bench.state.existing_node(bench.now, &node_join("n9", "train", "r9"));
    bench.advance(60);
    assert!(bench.workload(&uid).nodes.contains_key("n9"));
    assert_eq!(bench.pods_of("vision/a").iter().filter(|pod| pod.ready).count(), 2);
}

#[test]
fn a_spare_in_another_rack_is_none_for_a_gang_that_must_be_together() {
    let (mut bench, uid) = running(3, 2, |spec| spec.required_level = Some("rack".into()));
    assert_eq!(bench.workload(&uid).nodes.keys().map(NodeName::as_str).collect::<Vec<_>>(), ["n0", "n1"]);
    bench.state.node_gone(bench.now, &instance("n0"));
    bench.advance(120);
    assert_eq!(bench.workload(&uid).reserved, None);
}

#[test]
fn evicting_one_rank_on_a_cordoned_node_costs_the_gang_and_is_a_violation() {
    let (mut bench, uid) = running(2, 2, |_| {});
    bench.cordon("n0");
    let pods = bench.pods_of("vision/a");
    let pod = pods.iter().find(|pod| pod.node == Some("n0".into())).unwrap();
    bench.evict(pod);
    assert_eq!(bench.state.violations().len(), 1, "{:?}", bench.state.violations());
    bench.advance(60);
    assert_eq!(bench.workload(&uid).reserved, None);
}

#[test]
fn evicting_all_ranks_or_a_suspended_gang_is_none() {
    let (mut bench, uid) = running(2, 2, |_| {});
    let pods: Vec<_> = bench.pods_of("vision/a").into_iter().map(|pod| (pod.name, pod.uid)).collect();
    bench.perform(&ClusterAction::Evict { pods: pods.clone(), force: false }).unwrap();
    bench.advance(60);
    bench.suspend(&uid);
    let pods = bench.pods_of("vision/a").into_iter().map(|pod| (pod.name, pod.uid)).take(1).collect();
    bench.perform(&ClusterAction::Evict { pods, force: true }).unwrap();
    assert!(bench.state.violations().is_empty(), "{:?}", bench.state.violations());
}

#[test]
fn a_plain_pod_of_high_priority_breaks_a_gang() {
    let (mut bench, uid) = running(2, 2, |_| {});
    let mut spec = ServiceSpec::new("web", "api", 1, "nvidia.com/gpu", 8, Some(&"train".into()));
    spec.template.priority = 1_000;
    bench.state.submit_service(bench.now, spec).unwrap();
    bench.advance(120);
    assert!(bench.pods_of("web/api")[0].ready);
    let ready = bench.pods_of("vision/a").iter().filter(|pod| pod.ready).count();
    assert_eq!(ready, 1, "the other rank waits for a node that is taken");
    assert!(bench.workload(&uid).reserved.is_some(), "and Kueue thinks that all is well");
}

#[test]
fn a_rebooting_node_costs_its_ranks() {
    let (mut bench, _) = running(2, 2, |_| {});
    let back = bench.now.checked_add(SignedDuration::from_secs(200)).unwrap();
    bench.state.judge_removal(bench.now, &instance("n0"), "Reboot");
    bench.state.node_reboots(bench.now, &instance("n0"), back);
    bench.advance(5);
    assert_eq!(bench.state.counts().killed, 1);
    assert_eq!(bench.state.violations().len(), 1);
}

#[test]
fn a_gang_that_does_not_tolerate_waits() {
    let mut bench = Bench::new();
    let mut join = node_join("a", "train", "r0");
    join.taints.push(crate::fleet::launch::Taint {
        key: "pool".into(),
        value: None,
        effect: crate::fleet::launch::TaintEffect::NoSchedule,
    });
    bench.state.existing_node(bench.now, &join);
    bench.write_fabric();
    bench.write_queue("vision", 8, json!({}));
    let picky = bench.gang("vision/picky", 1);
    bench.advance(20);
    assert_eq!(bench.workload(&picky).reserved, None);
    let tolerations = json!([{"key": "pool", "operator": "Exists", "effect": "NoSchedule"}]);
    let flavor = |tolerations: &Value| json!({"spec": {"nodeLabels": {POOL: "train"}, "topologyName": "fab", "tolerations": tolerations}});
    let refused = bench.try_write("ResourceFlavor/train", flavor(&tolerations)).unwrap_err();
    assert!(refused.message.contains("tolerations are immutable when topologyName is set"), "{refused:?}");
    bench.perform(&ClusterAction::Delete("ClusterQueue/vision".parse().unwrap())).unwrap();
    bench.perform(&ClusterAction::Delete("ResourceFlavor/train".parse().unwrap())).unwrap();
    bench.write("ResourceFlavor/train", flavor(&tolerations));
    bench.write("ClusterQueue/vision", queue_body(8, json!({})));
    bench.advance(20);
    assert!(bench.workload(&picky).reserved.is_some());
}

#[test]
fn a_name_is_taken_once() {
    let mut bench = Bench::with_queue(1, 8);
    bench.gang("vision/a", 1);
    let again = GangSpec::new("vision", "a", "main", 1, 8);
    assert!(bench.state.submit_gang(bench.now, again).is_err());
}
