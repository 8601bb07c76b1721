//! Every row of what the API server answers to an eviction.

use super::*;
use crate::observed::{Keeper, PodPhase};

fn running(budget: Option<BudgetSpec>) -> Bench {
    let mut bench = Bench::with_nodes(2);
    bench.service("web/api", 2, budget);
    bench.advance(30);
    bench
}

fn first(bench: &Bench) -> PodSeen {
    bench.pods_of("web/api").remove(0)
}

#[test]
fn an_accepted_eviction_ends_the_pod_after_its_grace_and_makes_another() {
    let mut bench = running(None);
    let pod = first(&bench);
    assert!(bench.evict(&pod).is_empty());
    assert_eq!(
        bench.pods_of("web/api").iter().find(|other| other.uid == pod.uid).unwrap().terminating,
        Some(bench.now)
    );
    bench.advance(29);
    assert!(bench.pods_of("web/api").iter().any(|other| other.uid == pod.uid), "it is still ending");
    bench.advance(2);
    let pods = bench.pods_of("web/api");
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|other| other.uid != pod.uid && other.phase == PodPhase::Running));
    assert_eq!(bench.state.counts().evictions, 1);
}

#[test]
fn a_budget_that_is_behind_says_when_to_come_back() {
    let mut bench = running(Some(BudgetSpec::min_available(1)));
    bench.state.budget_trouble(bench.now, &named("web/api"), Some(BudgetTrouble::Behind));
    let pod = first(&bench);
    let answer = bench.state.evict(&pod.name, &pod.uid);
    assert_eq!((answer.code, answer.retry_after_secs), (429, Some(10)));
    assert!(answer.text.contains("still being processed"));
    assert!(!bench.evict(&pod)[0].permanent);
    assert_eq!(bench.pods_of("web/api").len(), 2);
}

#[test]
fn a_budget_with_nothing_left_refuses_and_names_itself() {
    let mut bench = running(Some(BudgetSpec::min_available(2)));
    let pod = first(&bench);
    let refused = bench.evict(&pod);
    assert!(!refused[0].permanent);
    assert!(refused[0].why.starts_with("429 Cannot evict pod"), "{}", refused[0].why);
    assert!(refused[0].why.contains("api needs 2 healthy pods and has 2 currently"), "{}", refused[0].why);
    assert_eq!(bench.state.evict(&pod.name, &pod.uid).retry_after_secs, None);
    let seen = bench.seen().budgets.seen()[&named("web/api")].clone();
    assert_eq!((seen.allowed, seen.healthy, seen.desired, seen.expected), (0, 2, 2, 2));
}

#[test]
fn a_budget_is_used_up_by_evictions_and_comes_back_with_the_replacement() {
    let mut bench = running(Some(BudgetSpec::max_unavailable(1)));
    let pods = bench.pods_of("web/api");
    assert!(bench.evict(&pods[0]).is_empty());
    assert_eq!(bench.evict(&pods[1]).len(), 1);
    bench.advance(30);
    assert!(bench.evict(&pods[1]).is_empty());
}

#[test]
fn two_budgets_on_a_pod_are_an_error_that_waiting_does_not_cure() {
    let mut bench = running(Some(BudgetSpec::min_available(1)));
    bench.state.add_budget(bench.now, &named("web/second"), &named("web/api"), BudgetSpec::min_available(0));
    let pod = first(&bench);
    assert_eq!(pod.budgets, [named("web/api"), named("web/second")]);
    let refused = bench.evict(&pod);
    assert!(refused[0].permanent && refused[0].why.starts_with("500 "), "{refused:?}");
    bench.state.remove_budget(bench.now, &named("web/second"));
    assert!(bench.evict(&pod).is_empty());
}

#[test]
fn a_negative_or_overfull_budget_is_forbidden_for_now() {
    for trouble in [BudgetTrouble::Negative, BudgetTrouble::TooManyDisrupted] {
        let mut bench = running(Some(BudgetSpec::min_available(1)));
        bench.state.budget_trouble(bench.now, &named("web/api"), Some(trouble));
        let pod = first(&bench);
        let answer = bench.state.evict(&pod.name, &pod.uid);
        assert_eq!((answer.code, answer.cause), (403, Some("DisruptionBudget")));
        assert!(!bench.evict(&pod)[0].permanent);
    }
}

#[test]
fn a_namespace_that_is_being_deleted_takes_no_evictions() {
    let mut bench = running(None);
    let pod = first(&bench);
    bench.state.delete_object(bench.now, &key(ObjectKind::Namespace, "web")).unwrap();
    let answer = bench.state.evict(&pod.name, &pod.uid);
    assert_eq!((answer.code, answer.cause, answer.is_permanent()), (403, Some("NamespaceTerminating"), false));
    assert!(bench.seen().objects.seen()[&key(ObjectKind::Namespace, "web")].deleting);
    bench.advance(31);
    assert!(!bench.seen().objects.seen().contains_key(&key(ObjectKind::Namespace, "web")));
    assert!(bench.pods_of("web/api").is_empty());
}

#[test]
fn a_webhook_that_denies_is_a_case_for_a_person() {
    let mut bench = running(None);
    bench.state.deny_evictions(&named("web/api"));
    let pod = first(&bench);
    assert!(bench.evict(&pod)[0].permanent);
}

#[test]
fn a_pod_that_is_gone_or_another_is_done() {
    let mut bench = running(Some(BudgetSpec::min_available(2)));
    let pod = first(&bench);
    let answer = bench.state.evict(&named("web/none"), &pod.uid);
    assert_eq!(answer.code, 404);
    let answer = bench.state.evict(&pod.name, &"another".into());
    assert_eq!(answer.code, 409);
    let pods = vec![(named("web/none"), pod.uid.clone()), (pod.name.clone(), "another".into())];
    let done = bench.perform(&ClusterAction::Evict { pods, force: false }).unwrap();
    assert_eq!(done, Done::Evicted { refused: Vec::new() });
    assert_eq!(first(&bench).terminating, None, "the new one is left alone");
}

#[test]
fn a_budget_does_not_protect_pods_that_wait_or_end() {
    let mut bench = Bench::with_nodes(1);
    bench.service("web/api", 9, Some(BudgetSpec::min_available(9)));
    bench.advance(30);
    let pending: Vec<PodSeen> = bench.pods_of("web/api").into_iter().filter(|pod| pod.node.is_none()).collect();
    assert_eq!(pending.len(), 1, "eight GPUs, nine pods");
    assert!(bench.evict(&pending[0]).is_empty());
    let running = bench.pods_of("web/api").into_iter().find(|pod| pod.ready).unwrap();
    assert_eq!(bench.evict(&running).len(), 1);
    bench.state.delete_pod(&running.name);
    assert!(bench.evict(&running).is_empty(), "it is ending anyway");
}

#[test]
fn unready_pods_go_if_the_budget_is_met_or_says_so() {
    let unready = |budget: BudgetSpec| {
        let mut bench = running(Some(budget));
        let pod = first(&bench);
        let node = pod.node.clone().unwrap();
        bench.state.set_ready(bench.now, &node, false).unwrap();
        (bench, pod)
    };
    let (mut bench, pod) = unready(BudgetSpec::min_available(2));
    assert_eq!(bench.evict(&pod).len(), 1);
    let (mut bench, pod) = unready(BudgetSpec::min_available(1));
    assert!(bench.evict(&pod).is_empty(), "one is healthy and one is enough");
    let always = BudgetSpec { bound: Bound::MinAvailablePercent(100), unhealthy: Unhealthy::AlwaysAllow };
    let (mut bench, pod) = unready(always);
    assert!(bench.evict(&pod).is_empty());
}

#[test]
fn force_deletes_whatever_the_budget_says() {
    let mut bench = running(Some(BudgetSpec::min_available(2)));
    let pod = first(&bench);
    let pods = vec![(pod.name.clone(), pod.uid.clone()), (pod.name.clone(), "another".into())];
    bench.perform(&ClusterAction::Evict { pods, force: true }).unwrap();
    assert!(bench.pods_of("web/api").iter().all(|other| other.uid != pod.uid));
    assert_eq!((bench.state.counts().forced, bench.state.counts().evictions), (1, 0));
}

#[test]
fn bare_pods_are_gone_for_good_and_what_belongs_to_the_node_comes_back() {
    let mut bench = Bench::with_nodes(1);
    let node: NodeName = "n0".into();
    let template = PodTemplate { empty_dir: true, ..PodTemplate::default() };
    bench.state.add_bare_pod(bench.now, &named("web/bare"), Some(&node), template).unwrap();
    bench.state.add_mirror_pod(bench.now, &named("kube-system/proxy"), &node).unwrap();
    bench.state.add_daemon(bench.now, &named("kube-system/agent"), PodTemplate::default()).unwrap();
    bench.advance(20);
    let keepers = |bench: &Bench| {
        let seen = bench.seen();
        seen.pods.seen().iter().map(|pod| (pod.keeper, pod.uid.clone(), pod.counts())).collect::<Vec<_>>()
    };
    let before = keepers(&bench);
    assert!(bench.pods_of("web/bare")[0].empty_dir);
    let counted: Vec<_> = before.iter().filter(|(.., counts)| *counts).map(|(keeper, ..)| *keeper).collect();
    assert_eq!(counted, [Keeper::Nobody]);
    for pod in bench.seen().pods.seen().clone() {
        assert!(bench.evict(&pod).is_empty());
    }
    bench.advance(60);
    let after = keepers(&bench);
    assert_eq!(after.iter().map(|(keeper, ..)| *keeper).collect::<Vec<_>>(), [Keeper::DaemonSet, Keeper::Mirror]);
    assert!(after.iter().all(|(_, uid, _)| before.iter().all(|(_, old, _)| old != uid)));
}

#[test]
fn daemons_come_to_nodes_that_join_later() {
    let mut bench = Bench::with_nodes(1);
    bench.state.add_daemon(bench.now, &named("kube-system/agent"), PodTemplate::default()).unwrap();
    bench.state.node_joins(bench.now, node_join("late", "train", "r9"));
    bench.cordon("n0");
    bench.advance(30);
    assert_eq!(bench.pods_of("kube-system/agent").len(), 2);
}
