//! What stands beside the queues: GPUs, nodes, tiers, schedulers.

use kube_cel::cel::{Context, Program, Value as Cel};

use super::*;
use crate::ids::LayoutName;

fn layout(name: &str, spec: &str) -> String {
    format!("kind: GpuLayout\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

fn pool(name: &str, spec: &str) -> String {
    format!("kind: NodePool\nmetadata: {{name: {name}}}\nspec: {{capacity: [{{onDemand: {{max: 4}}}}], {spec}}}\n---\n")
}

/// The file that a ConfigMap holds.
fn file(desired: &Desired, key: &str, name: &str) -> Value {
    serde_json::from_str(body(desired, key)["data"][name].as_str().unwrap()).unwrap()
}

const MIG: &str = "ConfigMap/gpu-operator/tidewright-mig-parted";
const PLUGIN: &str = "ConfigMap/gpu-operator/tidewright-device-plugin";

fn laid_out<'a>(desired: &'a Desired, pool: &str, name: &str) -> &'a LaidOut {
    &desired.pools[pool].layouts[&LayoutName::from(name)]
}

#[test]
fn gpus_that_a_layout_does_not_cut_are_said_to_be_whole() {
    let text = layout("some", "mig: [{gpus: [1, 2], slices: {1g.10gb: 5, 1g.10gb+me: 1}}]")
        + &pool("p", "instanceType: p5.48xlarge, nodes: 1, layout: some");
    let desired = compiled(&text);
    let some = laid_out(&desired, "p", "some");
    let name = &some.labels["nvidia.com/mig.config"];
    assert!(name.len() == 15 && name.starts_with("tw-"), "{name}");
    assert_eq!(
        file(&desired, MIG, "config.yaml")["mig-configs"][name].to_string(),
        r#"[{"devices":[1,2],"mig-devices":{"1g.10gb":5,"1g.10gb+me":1},"mig-enabled":true},{"devices":[0,3,4,5,6,7],"mig-enabled":false}]"#
    );
    let holds: Vec<String> = some.allocatable.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
    assert_eq!(holds, ["nvidia.com/gpu 6", "nvidia.com/mig-1g.10gb 10", "nvidia.com/mig-1g.10gb.me 2"]);
    assert!(some.absent.is_empty());
    // One that is not used by a pool is in no file; what the GPU Operator writes on nodes of others is.
    let unused = compiled(&(text + &layout("unused", "mig: [{slices: {7g.80gb: 1}}]")));
    assert_eq!(unused.objects, desired.objects);
    let names = file(&desired, MIG, "config.yaml")["mig-configs"].as_object().unwrap().len();
    assert_eq!(names, 2);
    assert_eq!(
        file(&desired, MIG, "config.yaml")["mig-configs"]["all-disabled"],
        json!([{"devices": "all", "mig-enabled": false}])
    );
}

#[test]
fn an_entry_is_named_by_what_is_in_it() {
    let name = |spec: &str| {
        let text = layout("cut", spec) + &pool("p", "instanceType: p5.48xlarge, nodes: 1, layout: cut");
        laid_out(&compiled(&text), "p", "cut").labels["nvidia.com/mig.config"].clone()
    };
    assert_eq!(name("mig: [{slices: {3g.40gb: 2}}]"), name("mig: [{slices: {3g.40gb: 2}}], keepReady: {}"));
    assert_ne!(name("mig: [{slices: {3g.40gb: 2}}]"), name("mig: [{slices: {3g.40gb: 1}}]"));
}

#[test]
fn a_node_that_is_all_cut_shows_no_whole_gpu() {
    let text =
        layout("all", "mig: [{slices: {3g.40gb: 2}}]") + &pool("p", "instanceType: p5.48xlarge, nodes: 1, layout: all");
    let desired = compiled(&text);
    let all = laid_out(&desired, "p", "all");
    assert_eq!(all.absent, ["nvidia.com/gpu".into()]);
    assert_eq!(all.allocatable.values().sum::<i64>(), 16);
}

#[test]
fn shared_gpus_have_a_resource_of_their_own_and_are_counted_whole() {
    let text = layout("eight", "mps: {clients: 8}")
        + &layout("four", "timeSlicing: {replicas: 4}")
        + &pool("small", "instanceType: g6.12xlarge, nodes: 2, layout: eight")
        + &pool("notes", "instanceType: g5.12xlarge, nodes: 1, layout: four")
        + &pool("plain", "instanceType: g5.12xlarge, nodes: 1")
        + "kind: PreemptionTier\nmetadata: {name: low}\nspec: {rank: 1}\n---\n"
        + &quota("a", "shares: [{pool: small, guarantee: {gpus: 3}}, {pool: notes, guarantee: {nodes: 1}}]");
    let desired = compiled(&text);
    insta::assert_snapshot!(quotas(&desired), @"
    ClusterQueue/a below nobody
      small: gpu.shared 24
      notes: gpu.shared 16
    ");
    let (eight, four) = (laid_out(&desired, "small", "eight"), laid_out(&desired, "notes", "four"));
    assert_eq!(eight.allocatable, [("nvidia.com/gpu.shared".into(), 32)].into());
    assert_eq!(four.allocatable, [("nvidia.com/gpu.shared".into(), 16)].into());
    assert_eq!(eight.absent, ["nvidia.com/gpu".into()]);
    let named =
        |laid_out: &LaidOut| file(&desired, PLUGIN, &laid_out.labels["nvidia.com/device-plugin.config"]).to_string();
    assert_eq!(
        named(eight),
        r#"{"version":"v1","flags":{"migStrategy":"none"},"sharing":{"mps":{"renameByDefault":true,"resources":[{"name":"nvidia.com/gpu","replicas":8}]}}}"#
    );
    assert_eq!(
        named(four),
        r#"{"version":"v1","flags":{"migStrategy":"mixed"},"sharing":{"timeSlicing":{"renameByDefault":true,"resources":[{"name":"nvidia.com/gpu","replicas":4}],"failRequestsGreaterThanOne":true}}}"#
    );
    assert_eq!(file(&desired, PLUGIN, "default")["flags"]["migStrategy"], "mixed");
    // These parts cannot be cut, and this pool shares nothing: no label orders anything.
    assert!(laid_out(&desired, "plain", "whole").labels.is_empty());
    assert!(!desired.objects.iter().any(|object| object.key.to_string() == MIG));
}

fn launched(launch: &str, more: &str) -> Desired {
    let launch = format!(
        "launch: {{image: {{ami: {{id: ami-0123456789abcdef0}}}}, bootstrap: {{nodeadm: {{}}}}, subnets: {{tags: {{a: b}}}}, \
         securityGroups: {{tags: {{a: b}}}}, role: node{launch}}}"
    );
    compiled(&pool("p", &format!("instanceType: p5.48xlarge, nodes: 1, {launch}{more}")))
}

#[test]
fn only_what_a_running_node_cannot_change_is_in_the_templates_digest() {
    let digest = |launch: &str, more: &str| launched(launch, more).pools["p"].template.digest.clone();
    let same = digest("", "");
    assert_eq!(digest("", ", labels: {team: a}, taints: [{key: a, effect: NoSchedule}]"), same);
    assert_eq!(digest(", placementGroup: none", ""), same);
    for other in [", volumes: [{gib: 500}]", ", efa: none"] {
        assert_ne!(digest(other, ""), same, "{other}");
    }
    let template = &launched("", ", labels: {team: a}").pools["p"].template;
    assert_eq!(template.name.as_str(), "tidewright-test-p");
    assert_eq!(template.labels.get("tidewright.dev/pool").map(String::as_str), Some("p"));
    assert_eq!(template.labels.get("team").map(String::as_str), Some("a"));
}

#[test]
fn a_placement_group_is_ours_named_or_none() {
    let group = |desired: &Desired| {
        let pool = &desired.pools["p"];
        pool.group.as_ref().map(|group| (group.to_string(), pool.group_is_ours))
    };
    assert_eq!(group(&launched("", "")), Some(("tidewright-test-p".into(), true)));
    assert_eq!(group(&launched(", placementGroup: none", "")), None);
    assert_eq!(group(&launched(", placementGroup: theirs", "")), Some(("theirs".into(), false)));
    let existing = "kind: NodePool\nmetadata: {name: p}\nspec: {instanceType: p5.48xlarge, nodes: 1, capacity: [{existing: {labels: {a: b}}}]}\n";
    assert_eq!(group(&compiled(existing)), None);
}

#[test]
fn a_flavor_tolerates_its_pools_taints_and_nothing_else() {
    let taints = "taints: [{key: a, value: b, effect: NoExecute}, {key: c, effect: NoSchedule}]";
    let desired = compiled(&pool("p", &format!("instanceType: p5.48xlarge, nodes: 1, {taints}")));
    assert_eq!(
        body(&desired, "ResourceFlavor/p")["spec"]["tolerations"].to_string(),
        r#"[{"effect":"NoExecute","key":"a","operator":"Equal","value":"b"},{"effect":"NoSchedule","key":"c","operator":"Exists"}]"#
    );
}

#[test]
fn what_is_retired_is_deleted_from_the_queue_upwards_and_only_if_nobody_else_has_it() {
    let text = quota("a", "cohort: x/y, retire: true") + &quota("b", "cohort: x");
    let desired = with_pool(&text);
    let retired: Vec<String> = desired.retired.iter().map(ToString::to_string).collect();
    assert_eq!(
        retired,
        [
            "ValidatingAdmissionPolicyBinding/tidewright-tiers-a",
            "ValidatingAdmissionPolicy/tidewright-tiers-a",
            "MutatingAdmissionPolicyBinding/tidewright-placed-a",
            "MutatingAdmissionPolicy/tidewright-placed-a",
            "LocalQueue/a/default",
            "ClusterQueue/a",
            "Cohort/x.y",
        ]
    );
    assert!(!desired.objects.iter().any(|object| object.key.to_string().ends_with("/a")), "nor its namespace");
}

/// What the policy of a quota with the tier `low` says to an object that is made.
fn admits(object: Value) -> bool {
    admits_update(Value::Null, object)
}

/// And to one that is changed.
fn admits_update(old: Value, object: Value) -> bool {
    let desired = with_pool(&quota("a", "weight: 1"));
    let rules = body(&desired, "ValidatingAdmissionPolicy/tidewright-tiers-a")["spec"]["validations"].clone();
    let holds = |rule: &Value| {
        let program = Program::compile(rule["expression"].as_str().unwrap()).unwrap();
        let mut context = Context::default();
        context.add_variable("object", object.clone()).unwrap();
        context.add_variable("oldObject", old.clone()).unwrap();
        match program.execute(&context) {
            Ok(Cel::Bool(holds)) => holds,
            other => panic!("{rule}: {other:?}"),
        }
    };
    rules.as_array().unwrap().iter().all(holds)
}

#[test]
fn work_may_ask_for_the_tiers_of_its_quota_and_no_others() {
    let job = |labels: Value, class: &str| json!({"metadata": {"labels": labels}, "spec": {"template": {"spec": {"priorityClassName": class}}}});
    let tier = |name: &str| json!({"kueue.x-k8s.io/priority-class": name});
    assert!(admits(job(tier("low"), "low")));
    assert!(admits(job(json!({"other": "high"}), "somebodys")), "no label, and a class that is no tier");
    for above_all in ["system-node-critical", "system-cluster-critical"] {
        assert!(!admits(job(json!({}), above_all)), "{above_all} would stand above every tier");
        assert!(
            !admits(job(tier("low"), above_all)),
            "{above_all}: the scheduler believes the pods, whatever the label"
        );
    }
    assert!(admits(json!({"metadata": {}, "spec": {}})));
    assert!(admits(json!({"metadata": {}, "spec": {"template": {"metadata": {}}}})));
    assert!(!admits(job(tier("high"), "low")));
    assert!(!admits(job(tier("unknown"), "low")));
    assert!(!admits(job(tier("low"), "high")), "without the label Kueue would believe the pods");
    assert!(!admits(json!({"metadata": {}, "spec": {"priorityClassName": "high"}})), "a pod");
}

#[test]
fn no_kind_of_work_names_another_tier_by_the_class_of_its_pods() {
    let pods = |class: &str| json!({"spec": {"priorityClassName": class}});
    type Shape = fn(Value) -> Value;
    let shapes: [(&str, Shape); 8] = [
        (
            "JobSet",
            |pods| json!({"replicatedJobs": [{"template": {"spec": {"template": {}}}}, {"template": {"spec": {"template": pods}}}]}),
        ),
        ("LeaderWorkerSet", |pods| json!({"leaderWorkerTemplate": {"workerTemplate": pods}})),
        ("RayCluster", |pods| json!({"headGroupSpec": {"template": {}}, "workerGroupSpecs": [{"template": pods}]})),
        ("RayJob", |pods| json!({"rayClusterSpec": {"headGroupSpec": {"template": pods}}})),
        ("RayService", |pods| json!({"rayClusterConfig": {"workerGroupSpecs": [{"template": pods}]}})),
        (
            "PyTorchJob",
            |pods| json!({"pytorchReplicaSpecs": {"Master": {"template": {}}, "Worker": {"template": pods}}}),
        ),
        ("MPIJob", |pods| json!({"mpiReplicaSpecs": {"Launcher": {"template": pods}}})),
        ("AppWrapper", |pods| json!({"components": [{"template": {"kind": "Job", "spec": {"template": pods}}}]})),
    ];
    for (kind, spec) in shapes {
        let object = |class| json!({"metadata": {}, "spec": spec(pods(class))});
        assert!(admits(object("low")), "{kind}");
        assert!(!admits(object("high")), "{kind}");
    }
    let policy = json!({"metadata": {}, "spec": {"runPolicy": {"schedulingPolicy": {"priorityClass": "high"}}}});
    assert!(!admits(policy));
}

#[test]
fn what_was_there_before_the_rule_may_still_be_changed_and_not_made_worse() {
    let job = |label: &str, class: &str, suspend: bool| {
        let labels = json!({"kueue.x-k8s.io/priority-class": label});
        json!({"metadata": {"labels": labels}, "spec": {"suspend": suspend, "template": {"spec": {"priorityClassName": class}}}})
    };
    assert!(admits_update(job("high", "high", false), job("high", "high", true)), "Kueue suspends it");
    assert!(!admits_update(job("low", "low", false), job("high", "low", false)), "a label that changes");
    assert!(!admits_update(json!({"metadata": {}, "spec": {}}), job("high", "low", false)), "a label that comes");
    assert!(!admits_update(job("low", "low", true), job("low", "high", true)), "another class");
}

#[test]
fn tiers_are_classes_of_pods_and_of_workloads() {
    let desired = with_pool("");
    assert_eq!(body(&desired, "PriorityClass/high")["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(body(&desired, "PriorityClass/low")["preemptionPolicy"], "Never");
    assert_eq!(body(&desired, "WorkloadPriorityClass/high")["value"], 9);
}

#[test]
fn a_scheduler_packs_or_spreads() {
    let profile = |score: &str| {
        let text =
            format!("kind: SchedulerProfile\nmetadata: {{name: mine}}\nspec: {{score: {score}, pools: [train]}}\n");
        let file = file(&with_pool(&text), "ConfigMap/tidewright-system/tidewright-scheduler", "config.yaml");
        assert_eq!(file["profiles"][0]["schedulerName"], "mine");
        // By default it would wait for ever for the lease of the cluster's own scheduler.
        let lease =
            json!({"leaderElect": true, "resourceName": "tidewright-scheduler", "resourceNamespace": OUR_NAMESPACE});
        assert_eq!(file["leaderElection"], lease);
        file["profiles"][0]["pluginConfig"][0]["args"]["scoringStrategy"]["type"].as_str().map(String::from)
    };
    assert_eq!(profile("pack").as_deref(), Some("MostAllocated"));
    assert_eq!(profile("spread").as_deref(), Some("LeastAllocated"));
}
