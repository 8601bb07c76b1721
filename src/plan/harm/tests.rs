//! Gangs, budgets and what is at risk.

use super::*;
use crate::observed::Read;
use crate::plan::testing::*;

fn input(pods: Vec<PodSeen>) -> PlanInput {
    let mut input = world("2026-03-01T12:00Z", TEAMS);
    input.observed.cluster.pods = Read::new(pods, input.now);
    input
}

const TEAMS: &str = "kind: PreemptionTier
metadata: {name: research}
spec: {rank: 200}
---
kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 4, capacity: [{onDemand: {max: 4}}]}
---
kind: Quota
metadata: {name: vision}
spec:
  clusterQueue: cq-vision
  namespaces: [{name: vision, localQueue: main}]
  tiers: [research]
  shares: [{pool: train, guarantee: {gpus: 8}}]
";

#[test]
fn a_gang_is_hit_as_a_whole() {
    let gang = |name: &str, node: &str| PodSeen { gang: Some(GangName("vision/run".into())), ..pod(name, node, 8) };
    let mut pods = vec![gang("vision/run-0", "a"), gang("vision/run-1", "b"), pod("vision/other", "b", 1)];
    pods[1].started = Some(at("2026-03-01T11:00Z"));
    let input = input(pods);
    let harm = Harm::new(&input);
    let hit = harm.hit(harm.pods_on(&"a".into()));
    assert_eq!((hit.pods, hit.gangs.len()), (2, 1));
    let run = &hit.gangs[0];
    assert_eq!((run.name.as_str(), run.nodes, run.pods, run.gpus), ("vision/run", 2, 2, 16));
    // The first pod began at ten.
    assert_eq!((run.at_risk_secs, hit.gpu_secs), (7200, 16 * 7200));
    assert_eq!(hit.teams, ["vision".into()].into());
    assert_eq!(hit.nodes, ["a".into()]);
}

#[test]
fn what_was_saved_is_not_at_risk() {
    let mut one = pod("vision/run-0", "a", 8);
    one.gang = Some(GangName("run".into()));
    one.saved = Some(at("2026-03-01T11:59Z"));
    let input = input(vec![one]);
    let harm = Harm::new(&input);
    assert_eq!(harm.hit(harm.pods_on(&"a".into())).gpu_secs, 8 * 60);
}

#[test]
fn what_a_drain_leaves_is_not_disturbed() {
    let daemon = PodSeen { keeper: Keeper::DaemonSet, ..pod("kube-system/agent", "a", 0) };
    let done = PodSeen { phase: crate::observed::PodPhase::Succeeded, ..pod("vision/done", "a", 8) };
    let leaving = PodSeen { terminating: Some(at("2026-03-01T11:59Z")), ..pod("vision/leaving", "a", 8) };
    let input = input(vec![daemon, done, leaving]);
    let harm = Harm::new(&input);
    assert_eq!(harm.pods_on(&"a".into()).len(), 1, "who leaves is still there");
    assert!(harm.hit(harm.pods_on(&"a".into())).is_none());
}

#[test]
fn budgets_block_only_what_is_evicted() {
    let guarded = |name: &str| PodSeen { budgets: vec![NamespacedName::new("vision", "web")], ..pod(name, "a", 1) };
    let queued = PodSeen { workload: Some("w".into()), ..guarded("vision/queued") };
    let mut input = input(vec![guarded("vision/web"), queued]);
    let budget = BudgetSeen { allowed: 0, healthy: 1, desired: 1, expected: 1, always_allow: false };
    let budgets = BTreeMap::from([(NamespacedName::new("vision", "web"), budget)]);
    input.observed.cluster.budgets = Read::new(budgets, input.now);
    let harm = Harm::new(&input);
    let [web, queued] = harm.pods_on(&"a".into()) else { panic!("two pods") };
    assert_eq!(harm.hit(&[web]).blocked_by.len(), 1);
    assert_eq!(harm.hit(&[queued]).blocked_by.len(), 0);
}

#[test]
fn two_budgets_on_a_pod_block_it_whatever_they_allow() {
    let budgets = vec![NamespacedName::new("vision", "one"), NamespacedName::new("vision", "two")];
    let input = input(vec![PodSeen { budgets, ..pod("vision/web", "a", 1) }]);
    let harm = Harm::new(&input);
    assert_eq!(harm.hit(harm.pods_on(&"a".into())).blocked_by.len(), 2);
}

#[test]
fn slices_count_by_what_they_compute_on() {
    let asks = |name: &str, amount: i64| {
        let requests = BTreeMap::from([(ResourceName::from(name), amount)]);
        PodSeen { requests, ..pod("vision/one", "a", 0) }
    };
    let one = |name: &str, amount: i64| gpus([&asks(name, amount)]);
    assert_eq!(one("nvidia.com/gpu", 3), 3);
    assert_eq!(one("nvidia.com/mig-3g.40gb", 2), 1);
    assert_eq!(one("nvidia.com/mig-1g.10gb", 8), 2);
    assert_eq!(one("nvidia.com/gpu.shared", 1), 1);
    assert_eq!(one("vpc.amazonaws.com/efa", 32), 0);
}

#[test]
fn a_workload_is_known_by_its_queue_and_tier() {
    let mut input = input(vec![PodSeen { workload: Some("w".into()), ..pod("elsewhere/x", "a", 8) }]);
    let workload = WorkloadSeen { tier: Some("research".into()), ..workload("elsewhere/x", "cq-vision", 8) };
    input.observed.cluster.workloads = Read::new(BTreeMap::from([("w".into(), workload)]), input.now);
    let harm = Harm::new(&input);
    let hit = harm.hit_workload(&"w".into());
    assert_eq!(hit.gangs[0].quota, Some("vision".into()));
    assert_eq!(harm.amount(&hit).highest, Some(200));
    assert!(harm.hit_workload(&"unknown".into()).is_none());
}

#[test]
fn a_workload_is_found_in_a_gang_of_another_name_wherever_it_runs() {
    let gang = |name: &str, node: &str, workload: Option<&str>| PodSeen {
        gang: Some(GangName("vision/run".into())),
        workload: workload.map(Into::into),
        ..pod(name, node, 8)
    };
    let mut input = input(vec![gang("vision/run-0", "a", Some("w")), gang("vision/run-1", "b", None)]);
    // It was not placed by topology, so it says nothing of its nodes.
    let seen = workload("vision/run", "cq-vision", 8);
    input.observed.cluster.workloads = Read::new(BTreeMap::from([("w".into(), seen)]), input.now);
    let hit = Harm::new(&input).hit_workload(&"w".into());
    assert_eq!((hit.pods, hit.nodes), (2, vec!["a".into()]), "the whole gang goes with it");
}
