//! Faults strike where they were ordered, as often as they were drawn, and are counted.

use futures_util::FutureExt;

use super::*;
use crate::effect::{CloudAction, Head, Part, PoolLedger, Subject};
use crate::observed::InstanceState;
use crate::provider::sim::Sim;
use crate::provider::sim::testing::*;
use crate::provider::{Clock, Cloud, Cluster, PartValue};

fn hangs(sim: &Sim, slot: u32) -> bool {
    Cloud::perform(sim, &CloudAction::Launch(launch(slot))).now_or_never().is_none()
}

fn instances(sim: &Sim) -> usize {
    sim.state().cloud.instances.len()
}

#[test]
fn a_crash_before_send_does_nothing_and_everything_hangs_until_recovery() {
    let sim = lab();
    sim.inject(Fault::Crash { call: 1, position: Position::BeforeSend });
    assert!(hangs(&sim, 0) && sim.crashed());
    assert!(hangs(&sim, 0));
    assert!(Cloud::observe(&sim, &target()).now_or_never().is_none());
    assert!(sim.sleep_until(sim.now()).now_or_never().is_none());
    assert_eq!(instances(&sim), 0);
    sim.recover();
    run(&sim, launch(0)).unwrap();
    assert_eq!(sim.struck()["crash before send"], 1);
}

#[test]
fn a_crash_after_commit_leaves_the_effect_that_nobody_heard_of() {
    let sim = lab();
    sim.inject(Fault::Crash { call: 1, position: Position::AfterCommit });
    assert!(hangs(&sim, 0) && sim.crashed());
    assert_eq!(instances(&sim), 1);
    sim.recover();
    run(&sim, launch(0)).unwrap();
    assert_eq!(instances(&sim), 1);
}

#[test]
fn a_crash_after_the_answer_strikes_the_next_call_of_any_kind() {
    let sim = lab();
    sim.inject(Fault::Crash { call: 1, position: Position::AfterAnswer });
    run(&sim, launch(0)).unwrap();
    assert!(!sim.crashed());
    assert!(Cluster::ledger(&sim).now_or_never().is_none());
    assert!(sim.crashed());
    sim.recover();
    assert!(Cluster::ledger(&sim).now_or_never().is_some());
}

#[test]
fn a_crash_can_be_ordered_for_a_later_call_and_writes_of_the_ledger_count() {
    let sim = lab();
    sim.inject(Fault::Crash { call: 3, position: Position::BeforeSend });
    run(&sim, launch(0)).unwrap();
    let (value, version) = now(sim.ledger_part(&Part::Head)).unwrap();
    now(sim.swap_ledger(&Part::Head, &version, &value)).unwrap();
    assert!(hangs(&sim, 1));
}

#[test]
fn a_lost_answer_says_nothing_about_the_effect() {
    for (done, left) in [(true, 1), (false, 0)] {
        let sim = lab();
        sim.inject(Fault::Ambiguous { times: 1, done });
        assert_eq!(said(run(&sim, launch(0))).0, Class::Ambiguous);
        assert_eq!(instances(&sim), left);
        run(&sim, launch(0)).unwrap();
        assert_eq!(instances(&sim), 1);
    }
}

#[test]
fn launches_fail_as_often_as_ordered_and_nothing_else_does() {
    let sim = lab();
    sim.inject(Fault::FailLaunches { times: 2, class: Class::NoCapacity });
    ask(&sim, &CloudAction::EnsureGroup { group: "other".into() }).unwrap();
    assert_eq!(said(run(&sim, launch(0))), (Class::NoCapacity, "InsufficientInstanceCapacity".into()));
    assert_eq!(said(run(&sim, launch(0))).0, Class::NoCapacity);
    run(&sim, launch(0)).unwrap();
    assert_eq!(sim.struck()["launch refused, NoCapacity"], 2);
    for class in [Class::Throttled, Class::NotFound, Class::Conflict, Class::Denied, Class::Ambiguous, Class::Other] {
        sim.inject(Fault::FailLaunches { times: 1, class });
        assert_eq!(said(run(&sim, launch(1))).0, class);
    }
    assert_eq!(instances(&sim), 1);
}

#[test]
fn a_throttle_strikes_the_cloud_and_not_the_cluster() {
    let sim = lab();
    sim.inject(Fault::Throttle { times: 1 });
    let (value, version) = now(sim.ledger_part(&Part::Head)).unwrap();
    now(sim.swap_ledger(&Part::Head, &version, &value)).unwrap();
    let error = run(&sim, launch(0)).unwrap_err();
    assert_eq!((error.class, error.retry_after_secs), (Class::Throttled, Some(1)));
}

#[test]
fn a_conflict_on_the_ledger_writes_nothing() {
    let sim = lab();
    sim.inject(Fault::Conflict { times: 1 });
    let part = Part::Pool("train".into());
    let (_, version) = now(sim.ledger_part(&part)).unwrap();
    let next = PartValue::Pool(Some(PoolLedger::default()));
    assert_eq!(now(sim.swap_ledger(&part, &version, &next)).unwrap_err().class, Class::Conflict);
    assert_eq!(now(sim.ledger_part(&part)).unwrap(), (PartValue::Pool(None), version.clone()));
    now(sim.swap_ledger(&part, &version, &next)).unwrap();
}

#[test]
fn hidden_instances_look_as_if_there_were_none() {
    let sim = lab();
    run(&sim, launch(0)).unwrap();
    sim.inject(Fault::Hide { what: Sight::Instances, reads: 2 });
    for _ in 0..2 {
        assert!(seen(&sim).instances.whole().is_some_and(|whole| whole.is_empty()));
    }
    assert_eq!(seen(&sim).instances.seen().len(), 1);
    assert_eq!(sim.struck()["instances hidden"], 2);
}

#[test]
fn nodes_are_hidden_from_lists_and_never_from_a_quorum_read() {
    let sim = lab();
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 120);
    sim.inject(Fault::Hide { what: Sight::Nodes, reads: 1 });
    let again = now(Cluster::reread(&sim, &[Subject::NodeOf(id.clone())]));
    assert_eq!(again.nodes.seen().len(), 1);
    let listed = now(Cluster::observe(&sim, &target()));
    assert!(listed.nodes.whole().is_some_and(|whole| whole.is_empty()));
    assert!(node(&sim, &id).is_some());
}

#[test]
fn a_read_that_fails_is_a_gap() {
    let sim = lab();
    run(&sim, launch(0)).unwrap();
    sim.inject(Fault::Gap { what: Sight::Instances, reads: 1 });
    sim.inject(Fault::Gap { what: Sight::Pods, reads: 1 });
    sim.inject(Fault::Gap { what: Sight::Ledger, reads: 1 });
    let first = seen(&sim);
    assert!(first.instances.whole().is_none() && first.reservations.whole().is_some());
    assert!(now(Cluster::reread(&sim, &[])).pods.whole().is_none());
    assert!(now(sim.ledger()).is_err() && now(sim.ledger()).is_ok());
    assert!(seen(&sim).instances.whole().is_some());
}

#[test]
fn a_stale_read_shows_the_past_and_looks_fresh() {
    let sim = lab();
    sim.inject(Fault::Stale { reads: 1, age: Duration::secs(30) });
    sleep(&sim, 100);
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 20);
    let late = seen(&sim);
    assert!(late.instances.seen().is_empty() && late.instances.at() == sim.now());
    assert!(instance(&sim, &id).is_some());
    assert_eq!(sim.struck()["stale read"], 1);
    sim.inject(Fault::Stale { reads: 1, age: Duration::secs(10) });
    sleep(&sim, 60);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Pending);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Running);
}

#[test]
fn a_fresh_instance_may_be_listed_late() {
    let sim = lab();
    sim.inject(Fault::Lag { launches: 1, by: Duration::secs(20) });
    let id = run(&sim, launch(0)).unwrap();
    assert!(seen(&sim).instances.whole().is_some_and(|whole| !whole.contains_key(&id)));
    assert_eq!(instance(&sim, &id), None);
    sleep(&sim, 20);
    assert!(instance(&sim, &id).is_some());
    let next = run(&sim, launch(1)).unwrap();
    assert!(instance(&sim, &next).is_some());
}

#[test]
fn a_stillborn_machine_runs_and_never_joins() {
    let sim = lab();
    sim.inject(Fault::Stillborn { launches: 1 });
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 3600);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Running);
    assert_eq!(node(&sim, &id), None);
}

/// What a careless client does for a while: it asks again whatever happened.
fn campaign(seed: u64, rates: Rates, rounds: u32) -> (BTreeMap<String, u64>, u64) {
    let sim = lab();
    sim.set_faults(Faults::random(seed, rates));
    let target = target();
    for round in 0..rounds {
        let _ = Cloud::observe(&sim, &target).now_or_never();
        let _ = Cluster::observe(&sim, &target).now_or_never();
        let _ = Cloud::perform(&sim, &CloudAction::Launch(launch(round % 50))).now_or_never();
        if let Some(Ok((_, version))) = sim.ledger_part(&Part::Head).now_or_never() {
            let head = Head { fleet: Some("fleet-1".into()), ..Head::default() };
            let _ = sim.swap_ledger(&Part::Head, &version, &PartValue::Head(Box::new(head))).now_or_never();
        }
        let _ = sim.sleep_until(sim.now() + jiff::SignedDuration::from_secs(20)).now_or_never();
        sim.recover();
    }
    (sim.struck(), sim.state().calls.total)
}

#[test]
fn every_fault_that_is_switched_on_is_seen_to_strike() {
    let rates = Rates { stillborn: 20, leap: 20, death: 20, ..Rates::ROUGH };
    let (struck, _) = campaign(5, rates, 400);
    let all = [
        "answer lost, done",
        "answer lost, not done",
        "clock leaps",
        "crash after answer",
        "crash after commit",
        "crash before send",
        "instance listed late",
        "instances hidden",
        "instances unread",
        "launch refused, NoCapacity",
        "launch refused, Throttled",
        "ledger unread",
        "machine dies",
        "node never joins",
        "nodes hidden",
        "pods hidden",
        "remember refused, Conflict",
        "stale read",
    ];
    for name in all {
        assert!(struck.contains_key(name), "{name} never struck: {struck:#?}");
    }
}

#[test]
fn the_same_seed_draws_the_same_faults() {
    assert_eq!(campaign(7, Rates::ROUGH, 100), campaign(7, Rates::ROUGH, 100));
    assert_ne!(campaign(7, Rates::ROUGH, 100), campaign(8, Rates::ROUGH, 100));
    assert!(campaign(7, Rates::default(), 100).0.is_empty());
}

#[test]
fn faults_that_are_stopped_strike_no_more_and_stay_counted() {
    let sim = lab();
    sim.set_faults(Faults::random(1, Rates { ambiguous: 1000, ..Rates::default() }));
    assert_eq!(said(run(&sim, launch(0))).0, Class::Ambiguous);
    sim.stop_faults();
    run(&sim, launch(0)).unwrap();
    assert_eq!(sim.struck().values().sum::<u64>(), 1);
}
