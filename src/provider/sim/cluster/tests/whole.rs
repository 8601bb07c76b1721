//! The cluster as a whole: the same calls give the same cluster, it can be written down, and it can be large.

use super::*;
use crate::effect::Subject;

/// A day with some of everything.
fn busy(seed: u64) -> Bench {
    let mut bench = Bench::new();
    bench.state = ClusterState::new(seed);
    for at in 0..6 {
        bench.state.node_joins(bench.now, node_join(&format!("n{at}"), "train", &format!("r{}", at / 2)));
    }
    bench.advance(60);
    bench.write_fabric();
    bench.write_queue("vision", 32, json!({"cohortName": "org"}));
    bench.write_queue("batch", 0, json!({"cohortName": "org", "borrowingLimit": "32"}));
    bench.state.add_daemon(bench.now, &named("kube-system/agent"), PodTemplate::default()).unwrap();
    bench.service("web/api", 5, Some(BudgetSpec::max_unavailable(1)));
    for at in 0..4 {
        bench.gang_with(&format!("batch/j{at}"), 1, |spec| spec.work_secs = Some(900));
    }
    bench.advance(100);
    bench.gang("vision/big", 3);
    bench.cordon("n1");
    bench.advance_ms(1_500);
    bench
}

#[test]
fn the_same_calls_give_the_same_cluster() {
    let (one, two) = (busy(3), busy(3));
    assert_eq!(one.state, two.state);
    assert_ne!(one.state, busy(4).state);
}

#[test]
fn a_cluster_that_was_written_down_goes_on_as_if_it_had_not_been() {
    let mut one = busy(3);
    let text = serde_json::to_string(&one.state).unwrap();
    let mut two = Bench { state: serde_json::from_str(&text).unwrap(), now: one.now };
    assert_eq!(one.state, two.state);
    for bench in [&mut one, &mut two] {
        bench.state.node_gone(bench.now, &instance("n2"));
        bench.service("web/more", 7, None);
        bench.advance(2_000);
    }
    assert_eq!(one.state, two.state);
    assert_eq!(one.seen(), two.seen());
}

#[test]
fn time_in_one_step_is_time_in_many() {
    let (mut one, mut two) = (busy(3), busy(3));
    one.advance(1_000);
    let end = one.now;
    while let Some(next) = two.state.next_event().filter(|next| *next <= end) {
        two.state.tick(next);
    }
    two.state.tick(end);
    assert_eq!(one.state, two.state);
}

#[test]
fn a_quiet_cluster_has_nothing_to_come() {
    let mut bench = Bench::with_queue(2, 16);
    bench.advance(600);
    assert_eq!(bench.state.next_event(), None);
}

#[test]
fn time_does_not_go_back() {
    let mut bench = Bench::with_nodes(1);
    bench.advance(100);
    let earlier = bench.now.checked_sub(SignedDuration::from_secs(50)).unwrap();
    let before = bench.state.clone();
    bench.state.tick(earlier);
    assert_eq!(bench.state, before);
}

#[test]
fn reading_again_brings_only_what_was_asked_for() {
    let bench = busy(3);
    let all = bench.seen();
    let gang = all.workloads.seen().iter().find(|(_, one)| one.reserved.is_some()).map(|(uid, _)| uid.clone()).unwrap();
    let queue: ObjectKey = "ClusterQueue/vision".parse().unwrap();
    let what = [
        Subject::Node("n0".into()),
        Subject::NodeOf(instance("n3")),
        Subject::Node("gone".into()),
        Subject::Workload(gang.clone()),
        Subject::Object(queue.clone()),
    ];
    let seen = bench.state.reread(bench.now, &what);
    assert_eq!(seen.nodes.seen().keys().map(NodeName::as_str).collect::<Vec<_>>(), ["n0", "n3"]);
    assert_eq!(seen.workloads.seen().keys().collect::<Vec<_>>(), [&gang]);
    assert_eq!(seen.objects.seen().keys().collect::<Vec<_>>(), [&queue]);
    let wanted = |pod: &&PodSeen| {
        pod.node.as_ref().is_some_and(|node| ["n0", "n3"].contains(&node.as_str()))
            || pod.workload.as_ref() == Some(&gang)
    };
    assert_eq!(*seen.pods.seen(), all.pods.seen().iter().filter(wanted).cloned().collect::<Vec<_>>());
    assert!(seen.nodes.whole().is_some() && seen.pods.whole().is_some());
}

#[test]
fn pods_are_seen_in_the_order_of_their_names() {
    let seen = busy(3).seen();
    assert!(seen.pods.seen().is_sorted_by_key(|pod| pod.name.clone()));
}

#[test]
fn a_large_cluster_is_seen_whole() {
    let mut bench = Bench::with_nodes(500);
    bench.service("web/api", 4_000, Some(BudgetSpec::max_unavailable(1)));
    bench.advance(30);
    let seen = bench.seen();
    assert_eq!(seen.pods.seen().iter().filter(|pod| pod.ready).count(), 4_000, "no two pods got one name");
    assert_eq!(seen.budgets.seen()[&named("web/api")].healthy, 4_000);
    let mut filled: BTreeMap<_, u32> = BTreeMap::new();
    seen.pods.seen().iter().for_each(|pod| *filled.entry(pod.node.clone()).or_default() += 1);
    assert!(filled.len() == 500 && filled.values().all(|pods| *pods == 8));
}
