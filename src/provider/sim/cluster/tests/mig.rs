//! The traps of mig-manager and the device plugin.

use super::*;
use crate::effect::marks::{MIG_CONFIG, MIG_STATE, PLUGIN_CONFIG, cut_order};
use crate::effect::{Fact, LaidOut, Verdict};
use crate::observed::Observed;

fn entry(devices: Value, slices: Value) -> Value {
    json!([{"devices": devices, "mig-enabled": true, "mig-devices": slices}])
}

fn write_file(bench: &mut Bench, entries: Value) {
    let file = json!({"version": "v1", "mig-configs": entries}).to_string();
    bench.write("ConfigMap/gpu-operator/tidewright-mig-parted", json!({"data": {"config.yaml": file}}));
}

/// One node, and entries that its mig-manager can read.
fn bench() -> Bench {
    let mut bench = Bench::with_nodes(1);
    let whole = json!([{"devices": "all", "mig-enabled": false}]);
    let mixed = json!([
        {"devices": [0, 1], "mig-enabled": true, "mig-devices": {"1g.10gb+me": 1, "3g.40gb": 1}},
        {"devices": [2, 3, 4, 5, 6, 7], "mig-enabled": false},
    ]);
    let entries = json!({
        "threes": entry(json!("all"), json!({"3g.40gb": 2})),
        "sevens": entry(json!("all"), json!({"1g.10gb": 7})),
        "mixed": mixed,
        "whole": whole,
        "never": entry(json!("all"), json!({"4g.40gb": 2})),
    });
    write_file(&mut bench, entries);
    bench.advance(61);
    bench
}

fn cut(bench: &mut Bench, labels: &[(&str, &str)], flip: bool) {
    let laid_out = LaidOut { labels: super::labels(labels), allocatable: BTreeMap::new(), absent: Vec::new() };
    let over = cut_order(&bench.state.nodes["n0"].labels);
    bench.perform(&ClusterAction::Cut { node: "n0".into(), laid_out, flip, over }).unwrap();
}

fn order(bench: &mut Bench, value: &str) {
    cut(bench, &[(MIG_CONFIG, value)], false);
}

fn state(bench: &Bench) -> Option<String> {
    bench.node("n0").labels.get(MIG_STATE).cloned()
}

fn says(bench: &Bench, word: &str) -> bool {
    state(bench).as_deref() == Some(word)
}

#[test]
fn a_cut_goes_through_pending_and_success_comes_before_the_device_plugin() {
    let mut bench = bench();
    order(&mut bench, "threes");
    assert_eq!((state(&bench), bench.gpus("n0")), (None, 8));
    bench.advance(2);
    assert!(says(&bench, "pending"));
    assert_eq!(bench.gpus("n0"), 0);
    bench.advance(30);
    assert!(says(&bench, "success"));
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-3g.40gb"), 0, "success is said before the GPUs are back");
    bench.advance(15);
    assert_eq!((bench.allocatable("n0", "nvidia.com/mig-3g.40gb"), bench.gpus("n0")), (16, 0));
}

#[test]
fn the_fact_that_a_node_is_laid_out_waits_for_all_of_it() {
    let mut bench = bench();
    let labels = super::labels(&[(MIG_CONFIG, "threes")]);
    let allocatable = [("nvidia.com/mig-3g.40gb".into(), 16)].into();
    let laid_out = LaidOut { labels, allocatable, absent: vec!["nvidia.com/gpu".into()] };
    let fact = Fact::LaidOut { node: "n0".into(), laid_out: laid_out.clone() };
    bench.perform(&ClusterAction::Cut { node: "n0".into(), laid_out, flip: false, over: BTreeMap::new() }).unwrap();
    let mut held = 0;
    for _ in 0..60 {
        let seen = Observed { cluster: bench.state.reread(bench.now, &fact.subjects()), ..Observed::default() };
        held += i32::from(fact.verdict(&seen, bench.now) == Verdict::Holds);
        bench.advance(1);
    }
    assert!((10..15).contains(&held), "{held}: it holds from the 47th second on");
}

#[test]
fn each_gpu_is_cut_as_its_part_says_and_a_plus_becomes_a_dot() {
    let mut bench = bench();
    order(&mut bench, "mixed");
    bench.advance(60);
    assert_eq!(bench.gpus("n0"), 6);
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-3g.40gb"), 2);
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-1g.10gb.me"), 2);
}

#[test]
fn a_gpu_that_nothing_names_stays_as_it_is() {
    let mut bench = bench();
    write_file(
        &mut bench,
        json!({"first": entry(json!([0]), json!({"1g.10gb": 7})), "threes": entry(json!("all"), json!({"3g.40gb": 2}))}),
    );
    bench.advance(61);
    order(&mut bench, "threes");
    bench.advance(60);
    order(&mut bench, "first");
    bench.advance(60);
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-1g.10gb"), 7);
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-3g.40gb"), 14);
}

#[test]
fn mps_does_not_start_beside_the_strategy_for_mig() {
    let mut bench = Bench::with_nodes(1);
    let config = |strategy: &str| {
        let mps = json!({"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]});
        json!({"version": "v1", "flags": {"migStrategy": strategy}, "sharing": {"mps": mps}}).to_string()
    };
    let data = json!({"wrong": config("mixed"), "right": config("none")});
    bench.write("ConfigMap/gpu-operator/tidewright-device-plugin", json!({ "data": data }));
    bench.advance(61);
    cut(&mut bench, &[(PLUGIN_CONFIG, "wrong")], false);
    bench.advance(600);
    assert_eq!(bench.gpus("n0"), 0);
    cut(&mut bench, &[(PLUGIN_CONFIG, "right")], false);
    bench.advance(20);
    assert_eq!(bench.gpus("n0"), 16);
}

#[test]
fn an_entry_that_the_mounted_file_does_not_have_yet_fails_and_stays_failed() {
    let mut bench = Bench::with_nodes(1);
    write_file(&mut bench, json!({"threes": entry(json!("all"), json!({"3g.40gb": 2}))}));
    bench.advance(30);
    order(&mut bench, "threes");
    bench.advance(5);
    assert!(says(&bench, "failed"));
    bench.advance(600);
    order(&mut bench, "threes");
    bench.advance(600);
    assert!(says(&bench, "failed"), "the same value is not looked at again");
    cut(&mut bench, &[(MIG_CONFIG, "threes")], true);
    bench.advance(60);
    assert!(says(&bench, "success"));
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-3g.40gb"), 16);
}

#[test]
fn editing_the_entry_under_the_same_name_does_nothing() {
    let mut bench = bench();
    order(&mut bench, "threes");
    bench.advance(60);
    write_file(&mut bench, json!({"threes": entry(json!("all"), json!({"1g.10gb": 7}))}));
    bench.advance(120);
    order(&mut bench, "threes");
    bench.advance(120);
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-3g.40gb"), 16);
}

#[test]
fn a_cut_that_hangs_is_pending_until_the_label_changes() {
    let mut bench = bench();
    bench.state.fail_next_cut(Some("n0".into()), MigFault::Hang);
    order(&mut bench, "threes");
    bench.advance(7_200);
    assert!(says(&bench, "pending"));
    assert_eq!(bench.gpus("n0"), 0, "the device plugin stays paused");
    order(&mut bench, "threes");
    bench.advance(600);
    assert!(says(&bench, "pending"));
    cut(&mut bench, &[(MIG_CONFIG, "threes")], true);
    bench.advance(60);
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-3g.40gb"), 16);
}

#[test]
fn a_cut_that_fails_leaves_the_old_one_and_is_not_tried_again() {
    let mut bench = bench();
    bench.state.fail_next_cut(None, MigFault::Fail);
    order(&mut bench, "threes");
    bench.advance(600);
    assert!(says(&bench, "failed"));
    assert_eq!(bench.gpus("n0"), 8);
    order(&mut bench, "sevens");
    bench.advance(60);
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-1g.10gb"), 56, "another value is a change");
}

#[test]
fn a_layout_that_no_gpu_can_hold_fails() {
    let mut bench = bench();
    order(&mut bench, "never");
    bench.advance(60);
    assert!(says(&bench, "failed"));
}

#[test]
fn a_layout_that_is_there_already_is_a_success_without_a_cut() {
    let mut bench = bench();
    order(&mut bench, "whole");
    bench.advance(2);
    assert!(says(&bench, "success"));
    assert_eq!((bench.gpus("n0"), bench.state.counts().cuts), (8, 0));
}

#[test]
fn a_value_that_comes_during_a_cut_is_next() {
    let mut bench = bench();
    order(&mut bench, "threes");
    bench.advance(10);
    order(&mut bench, "sevens");
    bench.advance(120);
    assert!(says(&bench, "success"));
    assert_eq!(bench.allocatable("n0", "nvidia.com/mig-1g.10gb"), 56);
}

#[test]
fn a_cut_under_pods_kills_them_and_is_a_violation() {
    let mut bench = bench();
    bench.service("web/api", 2, Some(BudgetSpec::min_available(2)));
    bench.state.add_bare_pod(bench.now, &named("web/idle"), Some(&"n0".into()), PodTemplate::default()).unwrap();
    bench.advance(30);
    order(&mut bench, "threes");
    bench.advance(2);
    assert_eq!((bench.state.counts().killed, bench.state.violations().len()), (2, 2));
    assert!(bench.pods_of("web/idle")[0].ready, "a pod without GPUs does not notice");
    bench.advance(60);
    assert!(bench.pods_of("web/api").iter().all(|pod| pod.node.is_none()), "no whole GPU is left for its successors");
}

#[test]
fn a_new_node_is_cut_as_its_label_says_and_again_after_a_boot() {
    let mut bench = bench();
    let mut join = node_join("new", "train", "r5");
    join.labels.insert(MIG_CONFIG.into(), "threes".into());
    bench.state.node_joins(bench.now, join);
    bench.advance(120);
    assert_eq!(bench.allocatable("new", "nvidia.com/mig-3g.40gb"), 16);
    let back = bench.now.checked_add(SignedDuration::from_secs(60)).unwrap();
    bench.state.node_reboots(bench.now, &instance("new"), back);
    bench.advance(85);
    assert_eq!(bench.allocatable("new", "nvidia.com/mig-3g.40gb"), 0, "cuts do not survive");
    bench.advance(60);
    assert_eq!(bench.allocatable("new", "nvidia.com/mig-3g.40gb"), 16);
}

#[test]
fn shares_multiply_and_may_be_renamed() {
    let mut bench = Bench::with_nodes(1);
    let shared = |kind: &str, rename: bool| {
        let resources = json!([{"name": "nvidia.com/gpu", "replicas": 4}]);
        json!({"version": "v1", "sharing": {kind: {"renameByDefault": rename, "resources": resources}}}).to_string()
    };
    let data =
        json!({"sliced": shared("timeSlicing", false), "mps": shared("mps", true), "plain": "{\"version\": \"v1\"}"});
    bench.write("ConfigMap/gpu-operator/tidewright-device-plugin", json!({ "data": data }));
    bench.advance(61);
    cut(&mut bench, &[(PLUGIN_CONFIG, "sliced")], false);
    bench.advance(1);
    assert_eq!(bench.gpus("n0"), 0, "the device plugin starts again");
    bench.advance(10);
    bench.cordon("n0");
    bench.advance(5);
    assert_eq!(bench.gpus("n0"), 32);
    cut(&mut bench, &[(PLUGIN_CONFIG, "mps")], false);
    bench.advance(20);
    assert_eq!((bench.gpus("n0"), bench.allocatable("n0", "nvidia.com/gpu.shared")), (0, 32));
    cut(&mut bench, &[(PLUGIN_CONFIG, "plain")], false);
    bench.advance(20);
    assert_eq!(bench.gpus("n0"), 8);
}

#[test]
fn a_device_plugin_without_its_config_crashes_until_it_is_mounted() {
    let mut bench = Bench::with_nodes(1);
    cut(&mut bench, &[(PLUGIN_CONFIG, "plain")], false);
    bench.advance(60);
    assert_eq!(bench.gpus("n0"), 0);
    bench.write("ConfigMap/gpu-operator/tidewright-device-plugin", json!({"data": {"plain": "{}"}}));
    bench.advance(50);
    assert_eq!(bench.gpus("n0"), 0);
    bench.advance(30);
    assert_eq!(bench.gpus("n0"), 8);
}

#[test]
fn a_cut_node_is_no_place_for_gangs_of_whole_gpus() {
    let mut bench = bench();
    bench.write_fabric();
    bench.write_queue("vision", 8, json!({}));
    order(&mut bench, "threes");
    bench.advance(5);
    let uid = bench.gang("vision/a", 1);
    bench.advance(120);
    assert_eq!(bench.workload(&uid).reserved, None);
    order(&mut bench, "whole");
    bench.advance(120);
    assert!(bench.workload(&uid).reserved.is_some());
}
