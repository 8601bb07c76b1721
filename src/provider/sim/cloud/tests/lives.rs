//! From pending to forgotten, and what the cloud does to instances by itself.

use jiff::SignedDuration;

use crate::effect::{CloudAction, LaunchRequest};
use crate::ids::SlotId;
use crate::observed::{InstanceState, Market, NoticeKind};
use crate::provider::Class;
use crate::provider::sim::testing::*;
use crate::units::Duration;

#[test]
fn an_instance_runs_after_seconds_and_its_node_joins_after_a_minute_or_two() {
    let sim = lab();
    let id = run(&sim, launch(3)).unwrap();
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Pending);
    assert!(instance(&sim, &id).unwrap().network.is_empty());
    sleep(&sim, 50);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Running);
    assert_eq!(node(&sim, &id), None);
    sleep(&sim, 60);
    let node = node(&sim, &id).expect("it joined");
    assert!(node.ready);
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    assert_eq!(label("tidewright.dev/pool"), Some("train"));
    assert_eq!(label("tidewright.dev/slot"), Some("3"));
    assert_eq!(label("topology.kubernetes.io/zone"), Some(ZONE));
    assert_eq!(label("node.kubernetes.io/instance-type"), Some(P5));
    let network = instance(&sim, &id).unwrap().network;
    for (layer, name) in network.iter().enumerate() {
        assert_eq!(label(&format!("topology.k8s.aws/network-node-layer-{}", layer + 1)), Some(name.as_str()));
    }
}

#[test]
fn a_terminated_instance_is_listed_for_an_hour_and_then_forgotten() {
    let sim = lab();
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 120);
    terminate(&sim, &id).unwrap();
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::ShuttingDown);
    assert!(!node(&sim, &id).is_some_and(|node| node.ready));
    sleep(&sim, 170);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::ShuttingDown);
    sleep(&sim, 130);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Terminated);
    terminate(&sim, &id).unwrap();
    assert_eq!(sim.state().calls.changed("terminate"), 1);
    sleep(&sim, 3600);
    assert_eq!(instance(&sim, &id), None);
    assert_eq!(said(terminate(&sim, &id)), (Class::NotFound, "InvalidInstanceID.NotFound".into()));
}

#[test]
fn one_that_ends_before_it_runs_never_joins() {
    let sim = lab();
    let id = run(&sim, launch(0)).unwrap();
    terminate(&sim, &id).unwrap();
    sleep(&sim, 200);
    assert_eq!(node(&sim, &id), None);
}

#[test]
fn a_spot_instance_has_two_minutes() {
    let sim = lab();
    let id = run(&sim, LaunchRequest { market: Market::Spot, ..launch(0) }).unwrap();
    sleep(&sim, 120);
    assert!(sim.interrupt(&id));
    let notice = instance(&sim, &id).unwrap().notice.unwrap();
    assert_eq!((notice.why, notice.at), (NoticeKind::SpotInterruption, sim.now() + SignedDuration::from_mins(2)));
    sleep(&sim, 119);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Running);
    sleep(&sim, 1);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::ShuttingDown);
}

#[test]
fn a_spot_instance_that_is_outbid_is_told_to_go() {
    let sim = lab();
    let mut price = seen(&sim).spot_prices.seen()[P5][ZONE];
    let id = run(&sim, LaunchRequest { market: Market::Spot, max_price: Some(price), ..launch(0) }).unwrap();
    let bid = price;
    for _ in 0..48 {
        sleep(&sim, 3600);
        price = seen(&sim).spot_prices.seen()[P5][ZONE];
        let serves = instance(&sim, &id).is_some_and(|found| found.state.serves() && found.notice.is_none());
        if price > bid {
            assert!(!serves, "it stayed at {price} with a bid of {bid}");
            return;
        }
        assert!(serves, "it went at {price} with a bid of {bid}");
    }
    panic!("the price never rose above {bid}: {price}");
}

#[test]
fn maintenance_is_announced_and_then_takes_the_machine() {
    let sim = lab();
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 120);
    assert!(sim.give_maintenance_notice(&id, Duration::hours(4)));
    assert_eq!(instance(&sim, &id).unwrap().notice.unwrap().why, NoticeKind::Maintenance);
    sleep(&sim, 4 * 3600 - 1);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Running);
    sleep(&sim, 1);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::ShuttingDown);
}

#[test]
fn a_machine_that_dies_takes_its_node_along_and_holds_its_place_for_a_while() {
    let sim = lab();
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 120);
    assert!(sim.kill(&id));
    assert!(!node(&sim, &id).is_some_and(|node| node.ready));
    assert_eq!(sim.state().calls.changed("terminate"), 0);
    sleep(&sim, 300);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Terminated);
    assert!(!sim.kill(&id));
}

#[test]
fn a_reboot_keeps_the_instance_and_its_node_comes_back() {
    let sim = lab();
    let id = run(&sim, launch(0)).unwrap();
    let reboot = CloudAction::Reboot { slot: SlotId::new(&"train".into(), 0), instance: id.clone() };
    assert_eq!(said(ask(&sim, &reboot)), (Class::Other, "IncorrectInstanceState".into()));
    sleep(&sim, 120);
    ask(&sim, &reboot).unwrap();
    let before = node(&sim, &id).unwrap();
    assert!(before.ready, "nobody misses it yet");
    sleep(&sim, 60);
    assert!(!node(&sim, &id).unwrap().ready);
    assert_eq!(instance(&sim, &id).unwrap().state, InstanceState::Running);
    sleep(&sim, 400);
    let after = node(&sim, &id).unwrap();
    assert!(after.ready && after.boot != before.boot);
}

#[test]
fn what_belongs_to_others_can_be_terminated_and_that_is_seen() {
    let sim = lab();
    let id = sim.add_foreign_instance(&P5.into(), &ZONE.into());
    assert_eq!(instance(&sim, &id).unwrap().tag, None);
    sleep(&sim, 600);
    assert_eq!((node(&sim, &id), sim.state().calls.foreign), (None, 0));
    terminate(&sim, &id).unwrap();
    assert_eq!(sim.state().calls.foreign, 1);
    assert!(!sim.state().calls.log.back().unwrap().ours);
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let story = |seed| {
        let sim = lab_with(seed);
        for slot in 0..5 {
            run(&sim, launch(slot)).unwrap();
        }
        sleep_to(&sim, "2026-06-02T00:00Z");
        serde_json::to_string(&*sim.state()).unwrap()
    };
    assert_eq!(story(1), story(1));
    assert_ne!(story(1), story(2));
}
