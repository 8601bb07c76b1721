//! Each invariant is broken once, past everything that should prevent it, and is seen.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::effect::desired::LaidOut;
use crate::effect::marks::Mark;
use crate::effect::{CloudAction, ClusterAction, LaunchRequest, PurchaseRequest, token};
use crate::ids::{NodeName, SlotId, Uid, Zone};
use crate::observed::Market;
use crate::scenario::bench::{Bench, drive};
use crate::scenario::command::Place;
use crate::scenario::script::Script;
use crate::scenario::{parse, settle, step};
use crate::units::Duration;

/// Three nodes, of which one may be away at a time and one may be removed an hour.
const THREE: &str = "start 2026-03-02T08:00Z
fleet
  kind: Fleet
  metadata: {name: watched}
  spec:
    timeZone: UTC
    cloud: {sim: {}}
    kubernetes: {sim: {}}
    limits: {hourlyUsd: 100, nodesRemovedPerHour: 1, desiredShrinkPercent: 100}
  ---
  kind: Reservation
  metadata: {name: base}
  spec:
    id: cr-0123456789abcdef0
    manage: observe
    instanceType: p5.48xlarge
    zone: us-west-2a
    nodes: 4
    onDemand: {end: never, match: targeted}
  ---
  kind: NodePool
  metadata: {name: train}
  spec:
    instanceType: p5.48xlarge
    nodes: 3
    capacity: [{reservation: base}]
    launch:
      image: {ssmParameter: {name: /images/gpu, version: 1}}
      bootstrap: {nodeadm: {}}
      subnets: {tags: {team: ml}, zones: [us-west-2a]}
      securityGroups: {tags: {team: ml}}
      role: node
    updates: {when: drain, maxUnavailable: 1}
  ---
  kind: PreemptionTier
  metadata: {name: research}
  spec: {rank: 200}
  ---
  kind: Quota
  metadata: {name: vision}
  spec:
    namespaces: [{name: vision}]
    tiers: [research]
    shares: [{pool: train, guarantee: {gpus: 24}}]
settle
";

fn play(bench: &mut Option<Bench>, text: &str) {
    for item in &Script::parse(text).unwrap().items {
        let command = parse::command(item).unwrap();
        step(bench, &command, item, Path::new("."), None)
            .unwrap_or_else(|wrong| panic!("{}: {}", item.text, wrong.what));
    }
}

/// The three nodes, and what a script does to them.
fn world(more: &str) -> Bench {
    let mut bench = None;
    play(&mut bench, THREE);
    play(&mut bench, more);
    bench.unwrap()
}

fn in_cloud(bench: &Bench, action: CloudAction) {
    let _whatever_it_says = drive(bench.sim.world().cloud.perform(&action), || false);
}

fn in_cluster(bench: &Bench, action: ClusterAction) {
    let _whatever_it_says = drive(bench.sim.world().cluster.perform(&action), || false);
}

fn node(bench: &Bench, slot: &str) -> NodeName {
    bench.node(&Place(slot.into())).unwrap()
}

fn cordon(bench: &Bench, slot: &str, why: &str) {
    let mark = Mark::new(bench.sim.now(), why);
    in_cluster(bench, ClusterAction::Cordon { node: node(bench, slot), mark });
}

fn terminate(bench: &Bench, slot: &str) {
    let instance = bench.instance(&Place(slot.into())).unwrap();
    in_cloud(bench, CloudAction::Terminate { slot: slot.parse().unwrap(), instance });
}

fn request(bench: &Bench, slot: &str, generation: u32, zone: &str) -> LaunchRequest {
    let template = bench.sim.state().cloud.templates.values().flatten().next().cloned().unwrap();
    let (slot, zone): (SlotId, Zone) = (slot.parse().unwrap(), zone.into());
    LaunchRequest {
        token: token(&"demo-0001".into(), &slot, generation, &zone),
        slot,
        generation,
        instance_type: "p5.48xlarge".into(),
        zone,
        market: Market::OnDemand,
        reservation: None,
        max_price: None,
        template: template.name,
        template_digest: template.digest,
        group: None,
        source: 0,
        host: None,
    }
}

fn pods(bench: &Bench) -> Vec<(NamespacedName, Uid)> {
    let state = bench.sim.state();
    let seen = state.cluster.observe(state.now);
    seen.pods.seen().iter().filter(|pod| pod.counts()).map(|pod| (pod.name.clone(), pod.uid.clone())).collect()
}

#[track_caller]
fn says(bench: &Bench, what: &str) {
    let broken = bench.check().unwrap_err();
    assert!(broken.contains(what), "{broken}");
}

#[test]
fn a_world_that_is_left_alone_breaks_nothing() {
    assert_eq!(world("submit gang vision 8\nsubmit service web/api 2 x nvidia.com/gpu pdb max 1\n").check(), Ok(()));
}

#[test]
fn i1_a_second_instance_in_a_slot_is_seen() {
    let bench = world("");
    in_cloud(&bench, CloudAction::Launch(request(&bench, "train/0", 2, "us-west-2a")));
    says(&bench, "I1: train/0 has");
}

#[test]
fn i2_a_machine_that_is_not_cordoned_and_empty_for_a_while_is_not_ended() {
    let bench = world("");
    terminate(&bench, "train/0");
    says(&bench, "I2: terminate of");
    let bench = world("");
    cordon(&bench, "train/0", "remove");
    terminate(&bench, "train/0");
    says(&bench, "cordoned less than five seconds ago");
    let bench = world("submit gang vision 24\nadvance 1m\n");
    cordon(&bench, "train/0", "reboot");
    bench.sim.advance(Duration::secs(10));
    let instance = bench.instance(&Place("train/0".into())).unwrap();
    in_cloud(&bench, CloudAction::Reboot { slot: "train/0".parse().unwrap(), instance });
    says(&bench, "while vision/gang-1");
}

#[test]
fn i3_what_is_not_ours_or_not_on_record_is_not_touched() {
    let bench = world("foreign instance p5.48xlarge us-west-2a\n");
    let foreign = {
        let state = bench.sim.state();
        let found = state.cloud.instances.iter().find(|(_, found)| found.tag.is_none());
        found.map(|(id, _)| id.clone()).unwrap()
    };
    in_cloud(&bench, CloudAction::Terminate { slot: "train/0".parse().unwrap(), instance: foreign });
    says(&bench, "is not on record as train/0");
    let bench = world("existing node other p5.48xlarge gpus 8\n");
    in_cluster(&bench, ClusterAction::Cordon { node: "other".into(), mark: Mark::new(bench.sim.now(), "remove") });
    says(&bench, "I3: other is not ours, and cordon was called");
}

#[test]
fn i4_pods_are_not_deleted_from_a_machine_that_stays() {
    let bench = world("submit gang vision 8\nadvance 1m\n");
    in_cluster(&bench, ClusterAction::Evict { pods: pods(&bench), force: true });
    says(&bench, "I4: pods are deleted by force");
}

#[test]
fn i5_an_eviction_past_a_budget_is_seen() {
    let bench = world("submit service web/api 2 x nvidia.com/gpu pdb max 1\nadvance 2m\n");
    let evict = ClusterAction::Evict { pods: pods(&bench), force: false };
    let mut watch = Watch::default();
    watch.see(&bench.sim.state(), &Deed::Cluster(&evict), Moment::Before);
    // An API server that lets everything through.
    in_cluster(&bench, ClusterAction::Evict { pods: pods(&bench), force: true });
    watch.see(&bench.sim.state(), &Deed::Cluster(&evict), Moment::After { yes: true });
    assert!(watch.broken.iter().any(|what| what.starts_with("I5: an eviction leaves web/api")), "{:?}", watch.broken);
}

#[test]
fn i6_a_gang_is_not_halved() {
    let bench = world("submit gang vision 16\nadvance 1m\n");
    let some = pods(&bench).into_iter().take(1).collect();
    in_cluster(&bench, ClusterAction::Evict { pods: some, force: false });
    says(&bench, "I6: a part of gang");
    // All were named, and one was refused and forgotten.
    let bench = world("submit gang vision 16\nadvance 1m\n");
    let mut watch = Watch::default();
    let all = pods(&bench);
    let evict = ClusterAction::Evict { pods: all.clone(), force: false };
    watch.see(&bench.sim.state(), &Deed::Cluster(&evict), Moment::Before);
    let mut later = bench.sim.state().clone();
    later.now = later.now.checked_add(SignedDuration::from_mins(31)).unwrap();
    watch.after(&later);
    assert_eq!(watch.broken, Vec::<String>::new(), "none has gone");
    watch.see(&bench.sim.state(), &Deed::Cluster(&evict), Moment::Before);
    in_cluster(&bench, ClusterAction::Evict { pods: all.into_iter().take(1).collect(), force: false });
    let mut later = bench.sim.state().clone();
    later.now = later.now.checked_add(SignedDuration::from_mins(31)).unwrap();
    watch.after(&later);
    assert!(watch.broken.iter().any(|what| what.contains("is half gone")), "{:?}", watch.broken);
}

#[test]
fn i7_no_more_is_away_for_an_update_than_the_pool_allows() {
    let bench = world("edit \"version: 1\" -> \"version: 2\"\n");
    cordon(&bench, "train/0", "replace");
    assert_eq!(bench.check(), Ok(()));
    cordon(&bench, "train/1", "replace");
    says(&bench, "makes it 2 nodes of pool/train that are away, 1 may be");
    // What one gang ties together is one.
    let bench = world("submit gang vision 16\nadvance 1m\nedit \"version: 1\" -> \"version: 2\"\n");
    let state = bench.sim.state().clone();
    let busy = state.cluster.observe(state.now);
    let tied: Vec<NodeName> = busy.pods.seen().iter().filter_map(|pod| pod.node.clone()).collect();
    for node in tied {
        in_cluster(&bench, ClusterAction::Cordon { node, mark: Mark::new(state.now, "replace") });
    }
    assert_eq!(bench.check(), Ok(()));
    // Of more slots than are wanted, one without a node is not missed; a second node that leaves is.
    let fewer = "edit \"gpus: 24\" -> \"gpus: 16\"\nedit \"nodes: 3\" -> \"nodes: 2\"\n";
    let bench = world(&format!("remove node train/0\nedit \"version: 1\" -> \"version: 2\"\n{fewer}"));
    cordon(&bench, "train/1", "replace");
    assert_eq!(bench.check(), Ok(()));
    cordon(&bench, "train/2", "replace");
    says(&bench, "makes it 2 nodes of pool/train that are away, 1 may be");
}

#[test]
fn i8_nothing_is_done_against_a_persons_word_or_beside_the_record() {
    let bench = world("freeze incident 4711\n");
    cordon(&bench, "train/0", "remove");
    says(&bench, "I8: cordon");
    let bench = world("freeze train/1 incident 4711\n");
    cordon(&bench, "train/0", "remove");
    assert_eq!(bench.check(), Ok(()));
    cordon(&bench, "train/1", "remove");
    says(&bench, "under a freeze");
    let bench = world("hands-off train/0\n");
    cordon(&bench, "train/0", "remove");
    says(&bench, "has hands off");
    let bench = world("");
    in_cloud(&bench, CloudAction::Launch(request(&bench, "train/3", 1, "us-west-2a")));
    says(&bench, "I8: train/3 is launched by a request that is not on record");
}

#[test]
fn i9_a_request_that_makes_two_things_is_seen() {
    let bench = world("");
    in_cloud(&bench, CloudAction::Launch(request(&bench, "train/0", 1, "us-west-2b")));
    says(&bench, "I9: request 1 for train/0 made");
}

#[test]
fn i10_a_fleet_that_does_not_settle_within_the_bound_is_seen() {
    let mut bench =
        world("edit \"nodes: 3\\n  capacity\" -> \"nodes: 4\\n  capacity\"\nfail next launch no-capacity 99 times\n");
    let said = settle::settle(&mut bench).unwrap_err();
    assert!(said.broken && said.what.starts_with("it does not settle: 7 of 7 rounds"), "{}", said.what);
}

#[test]
fn i11_a_call_after_the_end_is_seen() {
    let mut bench = world("edit \"nodes: 3\\n  capacity\" -> \"nodes: 4\\n  capacity\"\n");
    let said = settle::stays_quiet(&mut bench).unwrap_err();
    assert!(said.broken && said.what.starts_with("in quiet round 1 somebody called"), "{}", said.what);
}

#[test]
fn i11_a_cut_that_changes_nothing_is_seen() {
    let failed = "label train/0 nvidia.com/mig.config=halves\nlabel train/0 nvidia.com/mig.config.state=failed\n";
    let file = "change ConfigMap/gpu-operator/tidewright-mig-parted data";
    let listed = format!("{failed}{file}.halves [] by helm\n{file}.thirds [] by helm\n");
    let cut = |flip: bool, name: &str| {
        let bench = world(&listed);
        let labels = BTreeMap::from([("nvidia.com/mig.config".to_string(), name.to_string())]);
        let laid_out = LaidOut { labels, allocatable: BTreeMap::new(), absent: Vec::new() };
        cordon(&bench, "train/0", "cut");
        bench.sim.advance(Duration::secs(30));
        let over = BTreeMap::from([("nvidia.com/mig.config".to_string(), "halves".to_string())]);
        in_cluster(&bench, ClusterAction::Cut { node: node(&bench, "train/0"), laid_out, flip, over });
        bench
    };
    says(&cut(false, "halves"), "is cut by the label that it carries");
    assert_eq!(cut(true, "halves").check(), Ok(()));
    assert_eq!(cut(false, "thirds").check(), Ok(()));
    says(&cut(false, "quarters"), "nvidia.com/mig.config=quarters, which is in no file");
}

#[test]
fn i12_a_fleet_that_is_not_as_from_nothing_is_seen() {
    let mut bench = world("");
    assert_eq!(crate::scenario::twin::as_from_nothing(&mut bench).map_err(|wrong| wrong.what), Ok(()));
    // Nobody would plan this: the label is ours, and says what was written.
    play_in(&mut bench, "label train/0 tidewright.dev/dressed=otherwise\n");
    bench.fleet = None;
    let documents = bench.documents.clone();
    bench.set_documents(documents).unwrap();
    let said = crate::scenario::twin::compare(&bench, &world("")).unwrap_err();
    assert!(said.broken && said.what.starts_with("I12: 1 things are not as from nothing; train/0"), "{}", said.what);
}

fn play_in(bench: &mut Bench, text: &str) {
    for item in &Script::parse(text).unwrap().items {
        let command = parse::command(item).unwrap();
        crate::scenario::perform(bench, &command, item, Path::new(".")).unwrap();
    }
}

#[test]
fn i13_more_removals_than_an_hour_allows_are_seen() {
    let bench =
        world("edit \"gpus: 24\" -> \"gpus: 8\"\nedit \"nodes: 3\\n  capacity\" -> \"nodes: 1\\n  capacity\"\n");
    cordon(&bench, "train/1", "remove");
    cordon(&bench, "train/2", "remove");
    bench.sim.advance(Duration::secs(10));
    terminate(&bench, "train/1");
    assert_eq!(bench.check(), Ok(()));
    terminate(&bench, "train/2");
    says(&bench, "I13: train/2 is the 2nd node removed within an hour, 1 may be");
}

#[test]
fn i14_money_beyond_the_limit_and_beside_the_record_is_seen() {
    let bench = world("");
    in_cloud(&bench, CloudAction::Launch(request(&bench, "train/3", 1, "us-west-2a")));
    in_cloud(&bench, CloudAction::Launch(request(&bench, "train/4", 1, "us-west-2a")));
    says(&bench, "dollars an hour are spent, 100 may be");
    let offer = PurchaseRequest {
        reservation: "burst".into(),
        offering: "cb-of-1".into(),
        extends: None,
        fee: crate::units::Usd::default(),
    };
    let bench = world("");
    in_cloud(&bench, CloudAction::Purchase(offer.clone()));
    says(&bench, "I14: cb-of-1 is bought, and nobody wrote that down before");
    let mut watch = Watch::default();
    for _ in 0..2 {
        let deed = CloudAction::Purchase(offer.clone());
        watch.see(&bench.sim.state(), &Deed::Cloud(&deed), Moment::After { yes: true });
    }
    assert_eq!(watch.broken, ["I14: cb-of-1 was bought twice"]);
}

#[test]
fn i15_a_panic_is_a_failure_with_its_words() {
    let ran = crate::scenario::campaign::caught(|| panic!("one malformed annotation"));
    assert_eq!(ran.failed.as_deref(), Some("I15: a panic: one malformed annotation"));
}

#[test]
fn i16_a_node_that_loses_what_work_on_it_looks_for_is_seen() {
    let bench = world("submit gang vision 24\nadvance 10m\n");
    let labels = BTreeMap::from([("tidewright.dev/pool".to_string(), Some("pretrain".to_string()))]);
    let node = node(&bench, "train/1");
    in_cluster(
        &bench,
        ClusterAction::Dress { node, labels, taints: Vec::new(), remove_taints: Vec::new(), notes: BTreeMap::new() },
    );
    says(&bench, "I16: ");
}
