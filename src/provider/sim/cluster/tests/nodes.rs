//! Nodes: joining, marks, conditions, leaving.

use super::*;
use crate::effect::Fact;
use crate::effect::marks::{CORDON, DRAIN_TAINT, SLOT};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::fleet::policy::ConditionStatus;
use crate::observed::{Observed, PodPhase};

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.into(), value: None, effect }
}

fn keys(node: &NodeSeen) -> Vec<&str> {
    node.taints.iter().map(|taint| taint.key.as_str()).collect()
}

#[test]
fn a_node_joins_in_stages() {
    let mut bench = Bench::new();
    let mut join = node_join("a", "train", "r0");
    join.taints.push(taint("nvidia.com/gpu", TaintEffect::NoSchedule));
    bench.state.node_joins(bench.now, join);
    let node = bench.node("a");
    assert!(!node.ready);
    assert_eq!(node.instance, Some(instance("a")));
    assert_eq!(keys(&node), ["nvidia.com/gpu", "node.kubernetes.io/not-ready"]);
    bench.advance(5);
    assert!(bench.node("a").ready);
    assert_eq!((bench.gpus("a"), bench.allocatable("a", "cpu")), (0, 192_000));
    bench.advance(20);
    assert_eq!(bench.gpus("a"), 8);
    assert!(!bench.node("a").conditions.contains_key("GpuAcceptance"));
    bench.advance(40);
    assert_eq!(bench.node("a").conditions["GpuAcceptance"].status, ConditionStatus::True);
}

#[test]
fn an_instance_registers_once() {
    let mut bench = Bench::new();
    bench.state.node_joins(bench.now, node_join("a", "train", "r0"));
    let first = bench.node("a").uid;
    bench.state.node_joins(bench.now, node_join("a", "train", "r0"));
    assert_eq!(bench.node("a").uid, first);
}

#[test]
fn a_script_decides_whether_nodes_pass_their_tests() {
    let mut bench = Bench::new();
    bench.state.set_acceptance(Acceptance::Never);
    bench.state.node_joins(bench.now, node_join("a", "train", "r0"));
    bench.advance(3_600);
    assert!(!bench.node("a").conditions.contains_key("GpuAcceptance"));
    bench.state.set_condition(bench.now, &"a".into(), "GpuAcceptance", Some(ConditionStatus::False), "").unwrap();
    assert_eq!(bench.node("a").conditions["GpuAcceptance"].status, ConditionStatus::False);
}

#[test]
fn a_cordon_of_ours_is_lifted_whole() {
    let mut bench = Bench::with_nodes(1);
    bench.cordon("n0");
    let node = bench.node("n0");
    assert!(node.unschedulable);
    assert_eq!(keys(&node), [DRAIN_TAINT, "node.kubernetes.io/unschedulable"]);
    assert!(!Mark::parse(&node.annotations[CORDON]).cordoned_before);
    bench.perform(&ClusterAction::Uncordon { node: "n0".into() }).unwrap();
    let node = bench.node("n0");
    assert!(!node.unschedulable && node.taints.is_empty() && !node.annotations.contains_key(CORDON));
}

#[test]
fn a_cordon_of_somebody_else_stays() {
    let mut bench = Bench::with_nodes(1);
    bench.state.set_unschedulable(bench.now, &"n0".into(), true).unwrap();
    bench.cordon("n0");
    bench.cordon("n0");
    assert!(Mark::parse(&bench.node("n0").annotations[CORDON]).cordoned_before, "also after a second mark");
    bench.perform(&ClusterAction::Uncordon { node: "n0".into() }).unwrap();
    let node = bench.node("n0");
    assert!(node.unschedulable);
    assert_eq!(keys(&node), ["node.kubernetes.io/unschedulable"]);
    bench.perform(&ClusterAction::Uncordon { node: "n0".into() }).unwrap();
    assert!(bench.node("n0").unschedulable, "without our mark there is nothing to lift");
}

#[test]
fn dressing_changes_labels_and_taints_at_once() {
    let mut bench = Bench::with_nodes(1);
    bench.state.taint(bench.now, &"n0".into(), &taint("maint", TaintEffect::NoSchedule)).unwrap();
    let action = ClusterAction::Dress {
        node: "n0".into(),
        labels: [(SLOT.to_string(), Some("3".to_string())), ("rack".into(), None)].into(),
        taints: vec![taint("pool", TaintEffect::NoSchedule)],
        remove_taints: vec![taint("maint", TaintEffect::NoSchedule)],
        notes: BTreeMap::new(),
    };
    bench.perform(&action).unwrap();
    let node = bench.node("n0");
    assert_eq!((node.labels.get(SLOT).map(String::as_str), node.labels.get("rack")), (Some("3"), None));
    assert_eq!(keys(&node), ["pool"]);
}

#[test]
fn a_pod_does_not_go_where_it_does_not_tolerate() {
    let mut bench = Bench::with_nodes(2);
    bench.state.taint(bench.now, &"n0".into(), &taint("maint", TaintEffect::NoSchedule)).unwrap();
    bench.cordon("n1");
    bench.service("web/api", 1, None);
    bench.advance(30);
    assert_eq!(bench.pods_of("web/api")[0].node, None);
    bench.state.untaint(bench.now, &"n0".into(), "maint", TaintEffect::NoSchedule).unwrap();
    bench.advance(30);
    assert_eq!(bench.pods_of("web/api")[0].node, Some("n0".into()));
}

#[test]
fn pods_of_a_pool_tolerate_its_own_taints_and_no_others() {
    let mut bench = Bench::new();
    let mut join = node_join("a", "train", "r0");
    join.taints.push(taint("pool", TaintEffect::NoSchedule));
    bench.state.existing_node(bench.now, &join);
    bench.service("web/api", 1, None);
    let mut picky = ServiceSpec::new("web", "picky", 1, "nvidia.com/gpu", 1, None);
    picky.template.tolerates = Tolerates::nothing();
    bench.state.submit_service(bench.now, picky).unwrap();
    bench.advance(30);
    assert_eq!(bench.pods_of("web/api")[0].phase, PodPhase::Running);
    assert_eq!(bench.pods_of("web/picky")[0].node, None);
}

#[test]
fn a_taint_that_expels_ends_pods_at_once() {
    let mut bench = Bench::with_nodes(1);
    bench.service("web/api", 1, Some(BudgetSpec::min_available(1)));
    bench.advance(30);
    bench.state.taint(bench.now, &"n0".into(), &taint("out", TaintEffect::NoExecute)).unwrap();
    let pods = bench.pods_of("web/api");
    assert!(pods[0].terminating.is_some(), "budgets are not asked");
}

#[test]
fn a_pod_that_slips_in_before_the_scheduler_sees_the_cordon_is_seen_on_the_node() {
    let mut bench = Bench::with_nodes(1);
    bench.service("web/api", 1, None);
    bench.advance_ms(150);
    bench.cordon("n0");
    let seen = Observed { cluster: bench.seen(), ..Observed::default() };
    let fact = Fact::HoldsOnly { node: "n0".into(), pods: Default::default() };
    let later = bench.now.checked_add(SignedDuration::from_secs(6)).unwrap();
    assert!(matches!(fact.verdict(&seen, later), crate::effect::Verdict::Never(_)));
}

#[test]
fn a_machine_that_dies_takes_its_pods_along_and_they_are_made_again() {
    let mut bench = Bench::with_nodes(2);
    bench.service("web/api", 2, None);
    bench.advance(30);
    bench.state.node_gone(bench.now, &instance("n0"));
    assert!(!bench.node("n0").ready);
    bench.advance(31);
    assert!(!bench.seen().nodes.seen().contains_key("n0"));
    bench.advance(30);
    let pods = bench.pods_of("web/api");
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod.node == Some("n1".into()) && pod.ready));
    assert_eq!(bench.state.counts().killed, 1);
    assert!(bench.state.violations().is_empty(), "machines die");
}

#[test]
fn a_termination_of_a_node_with_pods_is_a_violation() {
    let mut bench = Bench::with_nodes(1);
    bench.state.add_daemon(bench.now, &named("kube-system/agent"), PodTemplate::default()).unwrap();
    bench.advance(20);
    bench.state.judge_removal(bench.now, &instance("n0"), "Terminate");
    assert!(bench.state.violations().is_empty(), "what belongs to the node may go with it");
    bench.service("web/api", 1, None);
    bench.advance(20);
    bench.state.judge_removal(bench.now, &instance("n0"), "Terminate");
    assert_eq!(bench.state.violations().len(), 1);
    assert!(bench.state.violations()[0].contains("web/api-"), "{:?}", bench.state.violations());
}

#[test]
fn a_reboot_heals_what_it_can() {
    let mut bench = Bench::with_nodes(1);
    bench.service("web/api", 1, None);
    bench.advance(60);
    bench.state.xid(bench.now, &"n0".into(), 79, true).unwrap();
    bench.state.set_condition(bench.now, &"n0".into(), "Broken", Some(ConditionStatus::True), "").unwrap();
    assert_eq!(bench.node("n0").conditions["SysLogsXIDError"].xids, [79]);
    let back = bench.now.checked_add(SignedDuration::from_secs(200)).unwrap();
    bench.state.node_reboots(bench.now, &instance("n0"), back);
    bench.advance(39);
    assert!(bench.node("n0").ready, "as it last said");
    assert_eq!(bench.gpus("n0"), 8);
    bench.advance(2);
    assert!(!bench.node("n0").ready && !bench.pods_of("web/api")[0].ready);
    assert_eq!(bench.gpus("n0"), 0);
    bench.advance(210);
    assert!(bench.node("n0").ready && bench.pods_of("web/api")[0].ready);
    bench.advance(60);
    assert_eq!(bench.gpus("n0"), 8);
    let conditions = bench.node("n0").conditions;
    assert_eq!(conditions.keys().map(String::as_str).collect::<Vec<_>>(), ["Broken", "GpuAcceptance"]);
}

#[test]
fn pods_leave_a_silent_node_after_five_minutes_and_stay_until_it_answers() {
    let mut bench = Bench::with_nodes(2);
    bench.service("web/api", 1, None);
    bench.advance(30);
    let before = bench.pods_of("web/api").remove(0);
    let (silent, other) = if before.node == Some("n0".into()) { ("n0", "n1") } else { ("n1", "n0") };
    bench.state.set_ready(bench.now, &silent.into(), false).unwrap();
    bench.advance(299);
    assert_eq!(bench.pods_of("web/api").len(), 1);
    bench.advance(120);
    let pods = bench.pods_of("web/api");
    assert_eq!(pods.len(), 2, "nobody can say that the old one has ended");
    assert!(pods.iter().any(|pod| pod.node == Some(other.into()) && pod.ready));
    bench.state.set_ready(bench.now, &silent.into(), true).unwrap();
    bench.advance(30);
    assert_eq!(bench.pods_of("web/api").len(), 1);
}

#[test]
fn pods_stay_on_a_node_that_answers_in_time() {
    let mut bench = Bench::with_nodes(1);
    bench.service("web/api", 1, None);
    bench.advance(30);
    for ready in [false, true, false] {
        bench.state.set_ready(bench.now, &"n0".into(), ready).unwrap();
        bench.advance(150);
    }
    let pods = bench.pods_of("web/api");
    assert_eq!((pods.len(), pods[0].terminating), (1, None), "away for a while, twice");
}

#[test]
fn hands_off_and_other_annotations_are_seen() {
    let mut bench = Bench::with_nodes(1);
    let hands_off = crate::effect::marks::HANDS_OFF;
    bench.state.annotate(bench.now, &"n0".into(), hands_off, Some("mine")).unwrap();
    assert_eq!(bench.node("n0").annotation(hands_off), Some("mine"));
    bench.state.delete_node(bench.now, &"n0".into()).unwrap();
    assert!(bench.seen().nodes.seen().is_empty());
    assert!(bench.state.annotate(bench.now, &"n0".into(), hands_off, None).is_err());
}
