//! The demo fleet by day and by night, and what single documents become.

mod currency;
mod in_use;
mod kueue;
mod outside;
mod parts;
mod placed;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::effect::LaidOut;
use crate::fleet::Fleet;
use crate::fleet::standing::NodeShape;
use crate::fleet::testing::{at, fleet_in};
use crate::load;

const DAY: &str = "2026-11-16T12:00-08:00";
const NIGHT: &str = "2026-11-16T22:00-08:00";
const RECLAIM: &str = "2026-11-17T05:45-08:00";

fn demo(now: &str) -> Desired {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters/demo");
    let fleet = load::check(&directory, at(DAY)).fleet.expect("the demo is valid");
    compile(&fleet.target_at(at(now)))
}

fn fleet(documents: &str) -> Fleet {
    fleet_in("UTC", "2026-06-08T12:00Z", documents)
}

fn compiled(documents: &str) -> Desired {
    compile(&fleet(documents).target_at(at("2026-06-08T12:00Z")))
}

fn body<'a>(desired: &'a Desired, key: &str) -> &'a Value {
    let found = desired.objects.iter().find(|object| object.key.to_string() == key);
    &found.unwrap_or_else(|| panic!("no {key}")).body
}

/// A line for each flavor: who is above, and for each counted resource its quota, `+` what may be borrowed, `-` what is
/// lent. What a queue may use without limit is left out.
fn quotas(desired: &Desired) -> String {
    let kinds = [ObjectKind::Cohort, ObjectKind::ClusterQueue];
    let mut lines = String::new();
    for object in desired.objects.iter().filter(|object| kinds.contains(&object.key.kind)) {
        let spec = &object.body["spec"];
        let above = spec["cohortName"].as_str().or(spec["parentName"].as_str()).unwrap_or("nobody");
        lines += &format!("{} below {above}\n", object.key);
        for flavor in spec["resourceGroups"][0]["flavors"].as_array().into_iter().flatten() {
            let counted = flavor["resources"].as_array().unwrap().iter().filter_map(|resource| {
                let name = resource["name"].as_str()?.strip_prefix("nvidia.com/")?;
                let text = |key: &str, sign: &str| resource[key].as_str().map(|text| format!(" {sign}{text}"));
                let parts = [text("nominalQuota", ""), text("borrowingLimit", "+"), text("lendingLimit", "-")];
                Some(format!("{name}{}", parts.into_iter().flatten().collect::<String>()))
            });
            lines += &format!("  {}: {}\n", flavor["name"].as_str().unwrap(), counted.collect::<Vec<_>>().join(", "));
        }
    }
    lines
}

#[test]
fn the_demo_has_these_objects_at_every_hour() {
    let keys = |desired: &Desired| desired.objects.iter().map(|object| object.key.to_string()).collect::<Vec<_>>();
    let day = demo(DAY);
    assert_eq!(keys(&day), keys(&demo(NIGHT)));
    assert!(day.retired.is_empty());
    insta::assert_snapshot!(keys(&day).join("\n"), @"
    Namespace/batch
    Namespace/chat
    Namespace/embeddings
    Namespace/gpu-operator
    Namespace/language
    Namespace/tidewright-system
    Namespace/vision
    Namespace/vision-dev
    PriorityClass/batch
    WorkloadPriorityClass/batch
    PriorityClass/production
    WorkloadPriorityClass/production
    PriorityClass/research
    WorkloadPriorityClass/research
    ConfigMap/gpu-operator/tidewright-mig-parted
    ConfigMap/tidewright-system/tidewright-scheduler
    Topology/tidewright-demo-fefb9c62
    ResourceFlavor/serve
    ResourceFlavor/train
    Cohort/research
    Cohort/tide.batch
    ClusterQueue/batch
    ClusterQueue/language
    ClusterQueue/serving
    ClusterQueue/vision
    LocalQueue/batch/default
    LocalQueue/language/default
    LocalQueue/chat/default
    LocalQueue/embeddings/default
    LocalQueue/vision/default
    LocalQueue/vision-dev/default
    ValidatingAdmissionPolicy/tidewright-tiers-batch
    ValidatingAdmissionPolicy/tidewright-tiers-language
    ValidatingAdmissionPolicy/tidewright-tiers-serving
    ValidatingAdmissionPolicy/tidewright-tiers-vision
    ValidatingAdmissionPolicyBinding/tidewright-tiers-batch
    ValidatingAdmissionPolicyBinding/tidewright-tiers-language
    ValidatingAdmissionPolicyBinding/tidewright-tiers-serving
    ValidatingAdmissionPolicyBinding/tidewright-tiers-vision
    MutatingAdmissionPolicy/tidewright-placed-batch
    MutatingAdmissionPolicy/tidewright-placed-language
    MutatingAdmissionPolicy/tidewright-placed-vision
    MutatingAdmissionPolicyBinding/tidewright-placed-batch
    MutatingAdmissionPolicyBinding/tidewright-placed-language
    MutatingAdmissionPolicyBinding/tidewright-placed-vision
    ");
}

#[test]
fn by_day_everybody_has_what_is_guaranteed() {
    insta::assert_snapshot!(quotas(&demo(DAY)), @"
    Cohort/research below nobody
    Cohort/tide.batch below research
      serve: gpu 0 +0 -0
    ClusterQueue/batch below tide.batch
      train: gpu 8 +112 -8
      serve: gpu 0 +48 -0
    ClusterQueue/language below research
      train: gpu 56 +64 -56
    ClusterQueue/serving below nobody
      serve: mig-1g.10gb 336, mig-3g.40gb 96
    ClusterQueue/vision below research
      train: gpu 56 +64 -56
    ");
}

#[test]
fn by_night_the_tides_cohort_holds_what_is_lent_and_the_lender_has_less() {
    insta::assert_snapshot!(quotas(&demo(NIGHT)), @"
    Cohort/research below nobody
    Cohort/tide.batch below research
      serve: gpu 48 +0 -0
    ClusterQueue/batch below tide.batch
      train: gpu 8 +112 -8
      serve: gpu 0 +48 -0
    ClusterQueue/language below research
      train: gpu 56 +64 -56
    ClusterQueue/serving below nobody
      serve: mig-1g.10gb 168, mig-3g.40gb 48
    ClusterQueue/vision below research
      train: gpu 56 +64 -56
    ");
}

#[test]
fn a_turn_of_the_tide_writes_quotas_and_nothing_else() {
    let changed = |before: &str, after: &str| -> Vec<String> {
        let (before, after) = (demo(before), demo(after));
        assert_eq!(before.pools, after.pools);
        let both = before.objects.iter().zip(&after.objects);
        both.filter(|(one, other)| one != other).map(|(one, _)| one.key.to_string()).collect()
    };
    assert_eq!(changed(DAY, NIGHT), ["Cohort/tide.batch", "ClusterQueue/serving"]);
    // Asked back: nothing starts on the lent nodes any more, and the lender has to wait until they are there.
    assert_eq!(changed(NIGHT, RECLAIM), ["Cohort/tide.batch"]);
    assert_eq!(changed(DAY, RECLAIM), ["ClusterQueue/serving"]);
}

#[test]
fn a_queue_covers_all_that_pods_ask_for_and_only_gpus_bind() {
    let desired = demo(DAY);
    let group = &body(&desired, "ClusterQueue/vision")["spec"]["resourceGroups"][0];
    let covered = ["nvidia.com/gpu", "cpu", "ephemeral-storage", "hugepages-2Mi", "memory", "vpc.amazonaws.com/efa"];
    assert_eq!(group["coveredResources"], json!(covered));
    let nominal: Vec<&str> = group["flavors"][0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["nominalQuota"].as_str().unwrap())
        .collect();
    // 16 nodes of 192 processors, 2 TiB and 32 adapters.
    assert_eq!(nominal, ["56", "3072", "2Pi", "32Ti", "32Ti", "512"]);
}

/// One pool of four nodes, and tiers.
const POOL: &str = r#"
kind: PreemptionTier
metadata: {name: high}
spec: {rank: 9, preempts: lowerTiers}
---
kind: PreemptionTier
metadata: {name: low}
spec: {rank: 1}
---
kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 4, spares: 1, capacity: [{onDemand: {max: 8}}]}
---
"#;

fn with_pool(documents: &str) -> Desired {
    compiled(&format!("{POOL}{documents}"))
}

fn quota(name: &str, spec: &str) -> String {
    format!(
        "kind: Quota\nmetadata: {{name: {name}}}\nspec: {{namespaces: [{{name: {name}}}], tiers: [low], {spec}}}\n---\n"
    )
}

#[test]
fn what_nobody_is_guaranteed_is_the_top_cohorts_and_there_once() {
    let one =
        quota("a", "cohort: x/y, shares: [{pool: train, guarantee: {gpus: 8}, borrow: {gpus: 16}, lend: {gpus: 4}}]");
    insta::assert_snapshot!(quotas(&with_pool(&one)), @"
    Cohort/x below nobody
      train: gpu 16
    Cohort/x.y below x
    ClusterQueue/a below x.y
      train: gpu 8 +16 -4
    ");
    let other = quota("b", "cohort: z, shares: [{pool: train, guarantee: {gpus: 1}, borrow: {gpus: 8}}]");
    insta::assert_snapshot!(quotas(&with_pool(&(one + &other))), @"
    Cohort/x below nobody
      train: gpu 10
    Cohort/z below nobody
      train: gpu 5
    Cohort/x.y below x
    ClusterQueue/a below x.y
      train: gpu 8 +16 -4
    ClusterQueue/b below z
      train: gpu 1 +8 -0
    ");
    // Nobody may borrow it.
    let nobody = quota("a", "cohort: x, shares: [{pool: train, guarantee: {gpus: 8}}]");
    insta::assert_snapshot!(quotas(&with_pool(&nobody)), @"
    Cohort/x below nobody
    ClusterQueue/a below x
      train: gpu 8 +0 -0
    ");
}

#[test]
fn nested_cohorts_stand_below_each_other_with_the_weight_of_their_queues() {
    let text = quota("a", "cohort: x/y, weight: 2") + &quota("b", "cohort: x/y, weight: 3") + &quota("c", "cohort: x");
    let desired = with_pool(&text);
    let cohorts = desired.objects.iter().filter(|object| object.key.kind == ObjectKind::Cohort);
    let cohorts: Vec<String> = cohorts.map(|object| format!("{} {}", object.key, object.body)).collect();
    assert_eq!(
        cohorts,
        [r#"Cohort/x {"spec":{}}"#, r#"Cohort/x.y {"spec":{"fairSharing":{"weight":"5"},"parentName":"x"}}"#,]
    );
}

const TIDE: &str = r#"
kind: TideSchedule
metadata: {name: always}
spec:
  lowTide: [{days: [Mon], from: "06:00", to: "18:00"}]
  lend: [{pool: train, nodes: 2, from: a, to: b}]
  reclaim: {lead: 2h, hardAt: 10m}
---
"#;

#[test]
fn a_borrower_without_a_cohort_has_the_tides_alone_and_reclaims_nothing() {
    let text = quota("a", "shares: [{pool: train, guarantee: {nodes: 3}}]") + &quota("b", "weight: 1") + TIDE;
    let desired = with_pool(&text);
    insta::assert_snapshot!(quotas(&desired), @"
    Cohort/tides.a below nobody
    Cohort/tide.b below tides.a
      train: gpu 0 +16 -0
    ClusterQueue/a below tides.a
      train: gpu 24 +0 -16
    ClusterQueue/b below tide.b
      train: gpu 0 +16 -0
    ");
    let preemption = |key: &str| body(&desired, key)["spec"]["preemption"].to_string();
    let reclaims = |reclaim: &str| format!(r#"{{"reclaimWithinCohort":"{reclaim}","withinClusterQueue":"Never"}}"#);
    assert_eq!([preemption("ClusterQueue/a"), preemption("ClusterQueue/b")], ["Any", "Never"].map(reclaims));
}

#[test]
fn a_borrower_with_a_share_of_the_lent_pool_still_borrows_and_lends_through_the_tides_cohort() {
    let text = quota("a", "cohort: x, shares: [{pool: train, guarantee: {gpus: 16}, lend: {gpus: 16}}]")
        + &quota("b", "cohort: x, shares: [{pool: train, guarantee: {gpus: 8}, borrow: {gpus: 5}, lend: {gpus: 3}}]")
        + TIDE;
    insta::assert_snapshot!(quotas(&with_pool(&text)), @"
    Cohort/x below nobody
    Cohort/tides.a below x
      train: gpu 0 +5 -3
    Cohort/tide.b below tides.a
      train: gpu 0 +21 -3
    ClusterQueue/a below tides.a
      train: gpu 16 +0 -16
    ClusterQueue/b below tide.b
      train: gpu 8 +21 -3
    ");
}

#[test]
fn where_the_cut_stays_a_turn_of_the_tide_writes_one_number_of_one_object() {
    let text = POOL.to_string()
        + &quota("a", "cohort: x, shares: [{pool: train, guarantee: {nodes: 3}}]")
        + &quota("b", "weight: 1")
        + TIDE;
    let fleet = fleet(&text);
    let [day, low, reclaim] =
        ["2026-06-08T05:00Z", "2026-06-08T12:00Z", "2026-06-08T17:00Z"].map(|now| compile(&fleet.target_at(at(now))));
    let changed: Vec<String> = day
        .objects
        .iter()
        .zip(&low.objects)
        .filter(|(one, other)| one != other)
        .map(|(one, other)| format!("{}\n{}\n{}", one.key, one.body["spec"], other.body["spec"]))
        .collect();
    insta::assert_snapshot!(changed.join("\n"), @r#"
    Cohort/tide.b
    {"fairSharing":{"weight":"1"},"parentName":"tides.a","resourceGroups":[{"coveredResources":["nvidia.com/gpu"],"flavors":[{"name":"train","resources":[{"borrowingLimit":"0","lendingLimit":"0","name":"nvidia.com/gpu","nominalQuota":"0"}]}]}]}
    {"fairSharing":{"weight":"1"},"parentName":"tides.a","resourceGroups":[{"coveredResources":["nvidia.com/gpu"],"flavors":[{"name":"train","resources":[{"borrowingLimit":"16","lendingLimit":"0","name":"nvidia.com/gpu","nominalQuota":"0"}]}]}]}
    "#);
    assert_eq!(reclaim.objects, day.objects, "asked back is as if nothing were lent");
}

#[test]
fn where_nodes_are_cut_anew_the_borrowers_queue_is_the_same_at_every_hour() {
    let text = POOL.to_string()
        + "kind: GpuLayout\nmetadata: {name: halves}\nspec: {mig: [{slices: {3g.40gb: 2}}]}\n---\n"
        + &quota("a", "shares: [{pool: train, guarantee: {nodes: 3}}]")
        + &quota("b", "weight: 1")
        + &TIDE.replace("to: b}", "to: b, layout: halves}");
    let fleet = fleet(&text);
    let [day, low] = ["2026-06-08T05:00Z", "2026-06-08T12:00Z"].map(|now| compile(&fleet.target_at(at(now))));
    let both = day.objects.iter().zip(&low.objects);
    let changed: Vec<String> = both.filter(|(one, other)| one != other).map(|(one, _)| one.key.to_string()).collect();
    assert_eq!(changed, ["Cohort/tide.b", "ClusterQueue/a"]);
}

#[test]
fn what_is_lent_beyond_the_guarantee_is_held_by_the_tides_cohort() {
    let text = quota("a", "shares: [{pool: train, guarantee: {gpus: 10}}]")
        + &quota("b", "weight: 1")
        + &quota("c", "cohort: x, shares: [{pool: train, guarantee: {gpus: 0}, borrow: {gpus: 8}}]")
        + TIDE;
    insta::assert_snapshot!(quotas(&with_pool(&text)), @"
    Cohort/x below nobody
      train: gpu 8
    Cohort/tides.a below nobody
    Cohort/tide.b below tides.a
      train: gpu 6 +10 -0
    ClusterQueue/a below tides.a
      train: gpu 10 +0 -10
    ClusterQueue/b below tide.b
      train: gpu 0 +16 -0
    ClusterQueue/c below x
      train: gpu 0 +8 -0
    ");
}

#[test]
fn quotas_of_two_cohorts_stay_in_them_and_the_quota_moves_with_the_nodes() {
    let text = quota("a", "cohort: x, shares: [{pool: train, guarantee: {nodes: 3}}]")
        + &quota("b", "cohort: y, weight: 1")
        + TIDE;
    insta::assert_snapshot!(quotas(&with_pool(&text)), @"
    Cohort/x below nobody
    Cohort/y below nobody
    Cohort/tide.b below y
      train: gpu 16 +0 -0
    ClusterQueue/a below x
      train: gpu 8 +0 -0
    ClusterQueue/b below tide.b
      train: gpu 0 +16 -0
    ");
}

#[test]
fn the_tides_cohort_never_has_a_name_that_a_person_chose() {
    let text = quota("a", "shares: [{pool: train, guarantee: {nodes: 2}}]") + &quota("b", "cohort: tide/b") + TIDE;
    assert_eq!(body(&with_pool(&text), "ClusterQueue/b")["spec"]["cohortName"], "tide.tide.b");
}

#[test]
fn flavors_stand_in_the_order_of_the_shares_and_the_tides_come_last() {
    let more = ["zoo", "ant"].map(|name| {
        format!("kind: NodePool\nmetadata: {{name: {name}}}\nspec: {{instanceType: p5.48xlarge, nodes: 1, capacity: [{{onDemand: {{max: 1}}}}]}}\n---\n")
    });
    let text = more.join("")
        + &quota("a", "shares: [{pool: train, guarantee: {nodes: 2}}]")
        + &quota("b", "shares: [{pool: zoo, guarantee: {nodes: 1}}, {pool: ant, guarantee: {nodes: 1}}]")
        + TIDE;
    let desired = with_pool(&text);
    let flavors = &body(&desired, "ClusterQueue/b")["spec"]["resourceGroups"][0]["flavors"];
    let names: Vec<&str> = flavors.as_array().unwrap().iter().map(|flavor| flavor["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["zoo", "ant", "train"]);
}

#[test]
fn a_pool_without_gpus_is_counted_in_processors_and_memory() {
    let text =
        POOL.to_string() + &quota("a", "cohort: x, shares: [{pool: train, guarantee: {nodes: 2}, borrow: {nodes: 1}}]");
    let mut target = fleet(&text).target_at(at("2026-06-08T12:00Z"));
    let pool = Arc::make_mut(&mut target.standing).pools.get_mut("train").unwrap();
    let shape = NodeShape { gpu: None, gpus: 0, vcpus: Some(32), memory_gib: Some(128), efa: 0, ..pool.shape.clone() };
    pool.shape = shape;
    let desired = compile(&target);
    let lines = |key: &str| -> Vec<String> {
        let flavor = &body(&desired, key)["spec"]["resourceGroups"][0]["flavors"][0];
        flavor["resources"].as_array().unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        lines("ClusterQueue/a"),
        [
            r#"{"borrowingLimit":"32","lendingLimit":"0","name":"cpu","nominalQuota":"64"}"#,
            r#"{"borrowingLimit":"0","lendingLimit":"0","name":"ephemeral-storage","nominalQuota":"512Ti"}"#,
            r#"{"borrowingLimit":"128Gi","lendingLimit":"0","name":"memory","nominalQuota":"256Gi"}"#,
        ]
    );
    // Three nodes beside the spare.
    assert_eq!(
        lines("Cohort/x"),
        [r#"{"name":"cpu","nominalQuota":"32"}"#, r#"{"name":"memory","nominalQuota":"128Gi"}"#]
    );
    assert_eq!(body(&desired, "ResourceFlavor/train")["spec"]["topologyName"], "tidewright-host");
    let nothing = LaidOut { labels: [].into(), allocatable: [].into(), absent: [].into() };
    assert_eq!(desired.pools["train"].layouts["whole"], nothing);
}
