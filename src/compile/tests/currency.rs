//! Totals over whole GPUs and slices: which queues count in the currency, and when.

use serde_json::json;

use super::*;
use crate::compile::currency::{CURRENCY, FLAVOR, has_it};
use crate::observed::{ObjectSeen, Read};
use crate::plan::testing::{nothing, workload};

const FLEET: &str = "kind: NodePool
metadata: {name: train}
spec: {capacity: [{onDemand: {max: 4}}], instanceType: p5.48xlarge, nodes: 2}
---
kind: NodePool
metadata: {name: serve}
spec: {capacity: [{onDemand: {max: 4}}], instanceType: p5.48xlarge, nodes: 1, layout: halves}
---
kind: NodePool
metadata: {name: prepare}
spec: {capacity: [{onDemand: {max: 4}}], instanceType: g6.12xlarge, nodes: 1, layout: shared}
---
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
kind: GpuLayout
metadata: {name: shared}
spec: {timeSlicing: {replicas: 4}}
---
kind: PreemptionTier
metadata: {name: any}
spec: {rank: 1}
---
kind: Quota
metadata: {name: vision}
spec:
  namespaces: [{name: vision}, {name: lab, localQueue: side}]
  cohort: all
  tiers: [any]
  weight: 1
  shares: [{pool: train, guarantee: {gpus: 4}, borrow: {gpus: 12}}, {pool: serve, guarantee: {slices: {3g.40gb: 4}}}]
---
kind: Quota
metadata: {name: speech}
spec: {namespaces: [{name: speech}], tiers: [any], shares: [{pool: train, guarantee: {gpus: 4}}]}
";

fn target(total: &str) -> crate::fleet::Target {
    fleet(&FLEET.replace("weight: 1", total)).target_at(at("2026-06-08T12:00Z"))
}

/// A cluster in which all of this was written, with Kueue's file.
fn cluster(desired: &Desired, file: &str) -> ClusterSeen {
    let mut cluster = nothing(at("2026-06-08T12:00Z")).cluster;
    let seen = desired.objects.iter().map(|object| {
        let written = Some(object.digest.clone());
        (object.key.clone(), ObjectSeen { body: object.body.clone(), written, moved_by: None, deleting: false })
    });
    let now = at("2026-06-08T12:00Z");
    cluster.objects = Read::new(seen.collect(), now);
    cluster.others.kueue = Read::new(Some(json!({"data": {"controller_manager_config.yaml": file}})), now);
    cluster
}

fn next(target: &Target, cluster: &ClusterSeen) -> Desired {
    compile_beside(target, &Beside::of(target, cluster, 0))
}

fn keys(desired: &Desired, word: &str) -> Vec<String> {
    let keys = desired.objects.iter().map(|object| object.key.to_string());
    keys.filter(|key| key.contains(word)).collect()
}

#[test]
fn queues_count_in_the_currency_once_their_work_says_how_it_is_placed() {
    let plain = compile(&target("weight: 1"));
    assert_eq!((keys(&plain, "Mutating").len(), keys(&plain, FLAVOR).len()), (0, 0), "nobody has a total");
    let target = target("total: {gpus: 12}");
    // First the policies, and nothing else.
    let first = next(&target, &cluster(&plain, "{}"));
    let policies = keys(&first, "Mutating");
    assert_eq!(policies.len(), 4, "{policies:?}");
    assert!(!has_it(body(&first, "ClusterQueue/vision")));
    let text = body(&first, "MutatingAdmissionPolicy/tidewright-placed-vision").to_string();
    assert!(text.contains("in ['vision/default', 'lab/side']"), "{text}");
    // Work from before keeps its own queue waiting.
    let mut there = cluster(&first, "{}");
    there.workloads = Read::new([("w".into(), workload("vision/old", "vision", 8))].into(), at(DAY));
    let second = next(&target, &there);
    assert!(!has_it(body(&second, "ClusterQueue/vision")) && has_it(body(&second, "ClusterQueue/speech")));
    assert_eq!(second.staged.len(), 1);
    assert!(second.staged[0].wanted.contains("up to 12 GPUs"), "{}", second.staged[0].wanted);
    assert_eq!(second.staged[0].waits[0].to_string(), "vision/old");
    assert_eq!(body(&second, "ResourceFlavor/tidewright-total"), &json!({"spec": {}}));
    // And work of today does not.
    let placed = crate::observed::WorkloadSeen { placed: true, ..workload("vision/new", "vision", 8) };
    there.workloads = Read::new([("w".into(), placed)].into(), at(DAY));
    let third = next(&target, &there);
    let group = |name: &str| body(&third, &format!("ClusterQueue/{name}"))["spec"]["resourceGroups"][1].clone();
    let amounts = &group("vision")["flavors"][0]["resources"][0];
    assert_eq!(*amounts, json!({"name": CURRENCY, "nominalQuota": "12k", "borrowingLimit": "0", "lendingLimit": "0"}));
    // Who has no total has no limit, and who is in no cohort has none to write.
    let amounts = &group("speech")["flavors"][0]["resources"][0];
    assert_eq!(*amounts, json!({"name": CURRENCY, "nominalQuota": "1G"}));
    assert!(third.staged.is_empty());
    // What the team runs beside its queues is part of what it may use in all.
    let mut outside = crate::compile::outside::Outside::default();
    outside.add("train", "lab", "nvidia.com/gpu".into(), 3);
    outside.add("serve", "vision", "nvidia.com/mig-3g.40gb".into(), 1);
    outside.add("train", "speech", "nvidia.com/gpu".into(), 2);
    let beside = compile_beside(&target, &Beside { outside, ..Beside::of(&target, &there, 0) });
    let total = |desired: &Desired, name: &str| {
        let groups = &body(desired, &format!("ClusterQueue/{name}"))["spec"]["resourceGroups"];
        groups[1]["flavors"][0]["resources"][0]["nominalQuota"].clone()
    };
    assert_eq!(["vision", "speech"].map(|name| total(&beside, name)), ["8500", "1G"]);
}

#[test]
fn what_kueue_counts_in_is_covered_whatever_the_documents_say() {
    let on = "resources: {transformations: [{input: nvidia.com/gpu, outputs: {tidewright.dev/gpu-thousandths: 1k}}]}";
    let target = target("weight: 1");
    let covered = next(&target, &cluster(&compile(&target), on));
    assert!(has_it(body(&covered, "ClusterQueue/vision")) && has_it(body(&covered, "ClusterQueue/speech")));
    let off = next(&target, &cluster(&covered, "{}"));
    assert!(!has_it(body(&off, "ClusterQueue/vision")), "nobody counts, and nobody has a total");
    let mut unread = cluster(&covered, "{}");
    unread.others.kueue = Read::new(None, at(DAY));
    assert!(has_it(body(&next(&target, &unread), "ClusterQueue/vision")), "nobody knows what Kueue counts in");
}

#[test]
fn every_accelerator_of_the_fleet_has_its_worth() {
    let worths = crate::compile::currency::worths(&target("weight: 1"));
    let worths: Vec<(&str, u64)> = worths.iter().map(|(name, worth)| (name.as_str(), *worth)).collect();
    assert_eq!(worths, [("nvidia.com/gpu", 1000), ("nvidia.com/gpu.shared", 250), ("nvidia.com/mig-3g.40gb", 500)]);
}
