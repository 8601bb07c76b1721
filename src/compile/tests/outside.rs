//! Pods that no queue admitted, and what is left to promise.

use std::collections::BTreeMap;

use super::*;
use crate::compile::outside::Outside;
use crate::effect::marks::POOL as POOL_LABEL;
use crate::observed::{NodeSeen, PodSeen, Read, WorkloadSeen};
use crate::plan::testing::{nothing, pod, workload};

/// Two teams with eight GPUs each in a pool that holds 24; what is beside them, by namespace.
fn beside(taken: &[(&str, u64)]) -> String {
    let share = "shares: [{pool: train, guarantee: {gpus: 8}, borrow: {gpus: 8}, lend: {gpus: 8}}]";
    let text =
        format!("{POOL}{}{}", quota("a", &format!("cohort: x, {share}")), quota("b", &format!("cohort: x, {share}")));
    let mut outside = Outside::default();
    for (namespace, gpus) in taken {
        outside.add("train", namespace, "nvidia.com/gpu".into(), *gpus);
    }
    let desired =
        compile_beside(&fleet(&text).target_at(at("2026-06-08T12:00Z")), &Beside { outside, ..Beside::default() });
    let lines = quotas(&desired);
    let lines = lines.lines().filter_map(|line| line.trim().strip_prefix("train: gpu "));
    lines.collect::<Vec<_>>().join(", ")
}

#[test]
fn what_runs_beside_the_queues_is_promised_to_nobody() {
    // The cohort's, a's, b's.
    assert_eq!(beside(&[]), "8, 8 +8 -8, 8 +8 -8");
    assert_eq!(beside(&[("a", 3)]), "8, 5 +8 -5, 8 +8 -8", "what a team runs is its own");
    assert_eq!(beside(&[("a", 10)]), "6, 0 +8 -0, 8 +8 -8", "what is more was free");
    assert_eq!(beside(&[("kube-system", 5)]), "3, 8 +8 -8, 8 +8 -8", "and so is what belongs to nobody");
    assert_eq!(beside(&[("else", 14)]), "5 +8 -5, 5 +8 -5", "then all have less");
    assert_eq!(beside(&[("a", 2), ("else", 13)]), "3 +8 -3, 6 +8 -6", "in proportion to what is left");
    assert_eq!(beside(&[("else", 99)]), "0 +8 -0, 0 +8 -0");
    let mut other = Outside::default();
    other.add("elsewhere", "a", "nvidia.com/gpu".into(), 4);
    let target = fleet(&format!("{POOL}{}", quota("a", "shares: [{pool: train, guarantee: {gpus: 8}}]")));
    let target = target.target_at(at("2026-06-08T12:00Z"));
    assert_eq!(compile_beside(&target, &Beside { outside: other, ..Beside::default() }), compile(&target));
}

/// Dynamic resource allocation gives a pod its GPUs, and Kueue knows of them only where it was told how they count.
#[test]
fn devices_of_claims_are_beside_the_queues_unless_kueue_counts_them() {
    let mut cluster = nothing(at("2026-06-08T12:00Z")).cluster;
    let node = NodeSeen {
        uid: "u".into(),
        instance: None,
        labels: [(POOL_LABEL.into(), "train".into())].into(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        moved_by: Default::default(),
        allocatable: BTreeMap::new(),
        conditions: BTreeMap::new(),
        created: at("2026-06-08T12:00Z"),
        boot: None,
    };
    cluster.nodes = Read::new([("n".into(), node)].into(), at("2026-06-08T12:00Z"));
    let pods = ["claims", "mapped", "asks", "unseen"]
        .map(|name| PodSeen { workload: Some(name.into()), ..pod(&format!("a/{name}"), "n", 2) });
    cluster.pods = Read::new(pods.into(), at("2026-06-08T12:00Z"));
    let claims = WorkloadSeen { requests: [("cpu".into(), 8)].into(), ..workload("a/claims", "a", 0) };
    let mapped = WorkloadSeen { flavors: [("nvidia.com/gpu".into(), "train".into())].into(), ..claims.clone() };
    let asks = workload("a/asks", "a", 2);
    let all = [("claims".into(), claims), ("mapped".into(), mapped), ("asks".into(), asks)];
    cluster.workloads = Read::new(all.into(), at("2026-06-08T12:00Z"));
    let mut expected = Outside::default();
    expected.add("train", "a", "nvidia.com/gpu".into(), 2);
    assert_eq!(Outside::of(&cluster), expected);
}
