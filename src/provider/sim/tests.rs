//! Time, seats, witnesses, guards, and what is furnished for a fleet.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use jiff::SignedDuration;

use super::*;
use crate::effect::{CloudAction, ClusterAction, Part, PoolLedger};
use crate::fleet::testing::{at, fleet_in};
use crate::observed::{Market, ReservationState};
use crate::provider::sim::testing::*;
use crate::provider::{Clock, Cloud, Cluster, Meter, PartValue};
use crate::units::Ratio;

#[test]
fn time_passes_only_when_somebody_sleeps_or_advances_it() {
    let sim = lab();
    run(&sim, launch(0)).unwrap();
    seen(&sim);
    assert_eq!(sim.now(), at(NOON));
    now(sim.sleep_until(at("2026-06-01T13:00Z")));
    assert_eq!(sim.now(), at("2026-06-01T13:00Z"));
    now(sim.sleep_until(at("2026-06-01T12:00Z")));
    assert_eq!(sim.now(), at("2026-06-01T13:00Z"));
    sim.advance(Duration::hours(6));
    assert_eq!(sim.world().clock.now(), at("2026-06-01T19:00Z"));
}

#[test]
fn a_long_sleep_and_many_short_ones_lead_to_the_same_world() {
    let story = |step: i64| {
        let sim = lab();
        let id = run(&sim, launch(0)).unwrap();
        run(&sim, crate::effect::LaunchRequest { market: Market::Spot, ..launch(1) }).unwrap();
        sim.interrupt(&id);
        for _ in 0..(7200 / step) {
            sleep(&sim, step);
        }
        serde_json::to_string(&sim.state().cloud).unwrap()
    };
    assert_eq!(story(7200), story(5));
}

#[test]
fn our_own_clock_may_be_wrong_and_sleeps_by_it() {
    let sim = lab();
    sim.skew(SignedDuration::from_hours(-1));
    assert_eq!(Clock::now(&sim), at("2026-06-01T11:00Z"));
    now(sim.sleep_until(at("2026-06-01T11:10Z")));
    assert_eq!(sim.now(), at("2026-06-01T12:10Z"));
    sim.stop_faults();
    assert_eq!(Clock::now(&sim), at("2026-06-01T12:10Z"));
}

#[test]
fn one_operator_crashes_and_the_other_goes_on() {
    let sim = lab();
    let (one, two) = (sim.seat(), sim.seat());
    sim.inject(Fault::Crash { call: 1, position: Position::BeforeSend });
    let request = CloudAction::Launch(launch(0));
    let call = Cloud::perform(&one, &request);
    assert!(futures_util::FutureExt::now_or_never(call).is_none());
    assert!(one.crashed() && !two.crashed() && !sim.crashed());
    now(two.world().cloud.perform(&request)).unwrap();
    one.recover();
    now(one.world().cloud.perform(&request)).unwrap();
    assert_eq!(sim.state().cloud.instances.len(), 1);
}

#[test]
fn two_operators_get_into_each_others_way_when_they_are_interleaved() {
    let sim = lab();
    sim.interleave(3);
    let part = Part::Pool("train".into());
    let write = async |seat: &Seat<'_>| {
        let mut conflicts = 0;
        for _ in 0..20 {
            let (_, version) = seat.ledger_part(&part).await.unwrap();
            let next = PartValue::Pool(Some(PoolLedger::default()));
            conflicts += u32::from(seat.swap_ledger(&part, &version, &next).await.is_err());
        }
        conflicts
    };
    let (one, two) = (sim.seat(), sim.seat());
    let mut both = Box::pin(futures_util::future::join(write(&one), write(&two)));
    let mut context = Context::from_waker(Waker::noop());
    let conflicts = loop {
        if let Poll::Ready(conflicts) = both.as_mut().poll(&mut context) {
            break conflicts;
        }
    };
    assert!(conflicts.0 + conflicts.1 > 0);
}

#[test]
fn a_witness_sees_the_world_before_and_after_every_change() {
    let sim = lab();
    let told: Rc<RefCell<Vec<String>>> = Rc::default();
    let notes = told.clone();
    sim.watch(Box::new(move |state, deed, moment| {
        notes.borrow_mut().push(format!("{} {moment:?} {}", deed.verb(), state.cloud.instances.len()));
    }));
    let id = run(&sim, launch(0)).unwrap();
    seen(&sim);
    terminate(&sim, &id).unwrap();
    sim.inject(Fault::Ambiguous { times: 1, done: false });
    terminate(&sim, &id).unwrap_err();
    let told = told.borrow().join("\n");
    insta::assert_snapshot!(told, @r"
    launch Before 0
    launch After { yes: true } 1
    terminate Before 1
    terminate After { yes: true } 1
    ");
}

#[test]
fn calls_are_counted_by_what_they_changed() {
    let sim = lab();
    run(&sim, launch(0)).unwrap();
    run(&sim, launch(0)).unwrap();
    sim.inject(Fault::Throttle { times: 1 });
    run(&sim, launch(1)).unwrap_err();
    let calls = sim.state().calls.clone();
    assert_eq!((calls.asked["launch"], calls.changed("launch"), calls.changed("terminate")), (3, 1, 0));
    let answers: Vec<&str> = calls.log.iter().filter(|call| call.verb == "launch").map(|c| c.answer.as_str()).collect();
    assert_eq!(answers, ["done", "nothing to do", "RequestLimitExceeded: Request limit exceeded."]);
    let before = calls.total;
    seen(&sim);
    now(sim.ledger()).unwrap();
    assert_eq!(sim.state().calls.total, before);
}

#[test]
fn the_log_of_calls_does_not_grow_for_ever() {
    let sim = lab();
    for _ in 0..300 {
        let (value, version) = now(sim.ledger_part(&Part::Head)).unwrap();
        now(sim.swap_ledger(&Part::Head, &version, &value)).unwrap();
    }
    let calls = sim.state().calls.clone();
    assert_eq!((calls.log.len(), calls.asked["remember"], calls.changed("remember")), (200, 300, 0));
    assert_eq!(calls.log.back().unwrap().number, calls.total);
}

#[test]
fn a_guard_is_as_old_as_its_sample_or_always_fresh() {
    let sim = lab();
    let half: Ratio = "0.5".parse().unwrap();
    assert_eq!(now(sim.sample("load")), None);
    sim.set_guard("load", half, Some(at(NOON)));
    sim.set_guard("steady", half, None);
    sim.advance(Duration::hours(1));
    assert_eq!(now(sim.sample("load")).unwrap().at, at(NOON));
    assert_eq!(now(sim.sample("steady")).unwrap().at, sim.now());
    sim.clear_guard("load");
    assert_eq!(now(sim.sample("load")), None);
}

#[test]
fn what_a_fleet_adopts_is_there_when_it_is_furnished() {
    let documents = "
kind: Reservation
metadata: {name: base}
spec: {id: cr-0123456789abcdef0, instanceType: p5.48xlarge, zone: us-west-2b, nodes: 3, onDemand: {}}
";
    let target = fleet_in("UTC", NOON, documents).target_at(at(NOON));
    let sim = lab();
    for _ in 0..2 {
        sim.furnish(&target).unwrap();
    }
    sim.advance(Duration::minutes(5));
    let seen = now(Cloud::observe(&sim, &target));
    let (id, held) = seen.reservations.seen().iter().next().unwrap();
    assert_eq!((id.as_str(), held.total, held.zone.as_str()), ("cr-0123456789abcdef0", 3, "us-west-2b"));
    assert_eq!((&held.tag, &held.state), (&None, &ReservationState::Active));
    let cancel = CloudAction::Cancel { reservation: "base".into(), id: id.clone() };
    ask(&sim, &cancel).unwrap();
    assert_eq!(sim.state().calls.foreign, 1);
}

#[test]
fn a_cluster_action_reaches_the_cluster_and_is_counted() {
    let sim = lab();
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 120);
    let state = sim.state().cluster.observe(sim.now());
    let (name, _) = state.nodes.seen().iter().find(|(_, node)| node.instance.as_ref() == Some(&id)).unwrap();
    let _answer = now(Cluster::perform(&sim, &ClusterAction::Uncordon { node: name.clone() }));
    assert_eq!(sim.state().calls.asked["uncordon"], 1);
}

#[test]
fn the_cluster_can_be_changed_by_its_own_script() {
    let sim = lab();
    let join = cluster::NodeJoin {
        name: "own-hardware".into(),
        instance: None,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        gpus: 8,
        gpu: None,
        instance_type: "dgx-h100".into(),
        vcpus: 96,
        memory_gib: 2048,
        efa: 0,
        shows: BTreeMap::new(),
    };
    sim.in_cluster(|cluster, now| cluster.node_joins(now, join));
    sim.advance(Duration::minutes(5));
    assert!(now(Cluster::observe(&sim, &target())).nodes.seen().contains_key("own-hardware"));
}

#[test]
fn a_summary_says_what_exists() {
    let sim = lab();
    let held = hold(&sim, reserve(2, crate::fleet::reservation::Match::Targeted, None)).unwrap();
    let id = run(&sim, launch_into(0, &held)).unwrap();
    run(&sim, launch(1)).unwrap();
    sim.add_foreign_instance(&"m7i.large".into(), &ZONE.into());
    sleep(&sim, 120);
    terminate(&sim, &id).unwrap();
    let text = sim.summary(&jiff::tz::TimeZone::UTC).replace(held.as_str(), "cr-0");
    // How many pods a node brings is the cluster's business.
    let text: Vec<&str> = text.lines().filter(|line| !line.contains(" pods")).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    It is Mon 2026-06-01 12:02:00 +00:00.
    Reservations
      cr-0  base  p5.48xlarge  us-west-2a  on-demand  Active  1 of 2 used
    Instances
      not ours  m7i.large  us-west-2a  OnDemand  1 running
      train  p5.48xlarge  us-west-2a  OnDemand  1 running
      train  p5.48xlarge  us-west-2a  Reserved  1 shutting down
    Cluster
    Done so far
      ensure-group 1
      ensure-template 1
      launch 2
      reserve 1
      terminate 1
    ");
}
