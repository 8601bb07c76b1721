//! Tokens, templates, groups, and where machines come from.

use crate::effect::{CloudAction, LaunchRequest};
use crate::fleet::reservation::Match;
use crate::ids::ReservationId;
use crate::observed::Market;
use crate::provider::Class;
use crate::provider::sim::Sim;
use crate::provider::sim::testing::*;
use crate::units::Usd;

#[test]
fn the_same_token_with_the_same_request_names_the_same_instance() {
    let sim = lab();
    let first = run(&sim, launch(0)).unwrap();
    assert_eq!(run(&sim, launch(0)).unwrap(), first);
    assert_eq!(sim.state().cloud.instances.len(), 1);
    assert_eq!(sim.state().calls.changed("launch"), 1);
    // Which of the pool's sources it was is nothing that EC2 hears of.
    assert_eq!(run(&sim, LaunchRequest { source: 3, ..launch(0) }).unwrap(), first);
}

#[test]
fn a_token_used_for_another_request_is_a_mismatch() {
    let sim = lab();
    run(&sim, launch(0)).unwrap();
    let mismatch = (Class::Other, "IdempotentParameterMismatch".to_string());
    assert_eq!(said(run(&sim, LaunchRequest { instance_type: "p4d.24xlarge".into(), ..launch(0) })), mismatch);
    assert_eq!(said(run(&sim, LaunchRequest { generation: 2, ..launch(0) })), mismatch);
}

#[test]
fn a_token_holds_in_one_zone_only() {
    let sim = lab();
    let first = run(&sim, LaunchRequest { group: None, ..launch(0) }).unwrap();
    let second = run(&sim, LaunchRequest { group: None, zone: "us-west-2b".into(), ..launch(0) }).unwrap();
    assert_ne!(first, second);
    assert_eq!(sim.state().cloud.instances.len(), 2);
}

#[test]
fn a_token_names_the_dead_instance_until_it_is_forgotten() {
    let sim = lab();
    let first = run(&sim, launch(0)).unwrap();
    terminate(&sim, &first).unwrap();
    sleep(&sim, 3 * 3600);
    assert_eq!(instance(&sim, &first), None);
    assert_eq!(run(&sim, launch(0)).unwrap(), first);
    sleep(&sim, 23 * 3600);
    assert_ne!(run(&sim, launch(0)).unwrap(), first);
}

#[test]
fn a_refused_launch_does_not_use_up_its_token() {
    let sim = lab();
    sim.set_capacity(&P5.into(), &ZONE.into(), Market::OnDemand, Some(0));
    assert_eq!(said(run(&sim, launch(0))), (Class::NoCapacity, "InsufficientInstanceCapacity".into()));
    sim.set_capacity(&P5.into(), &ZONE.into(), Market::OnDemand, Some(1));
    run(&sim, launch(0)).unwrap();
    assert_eq!(said(run(&sim, launch(1))), (Class::NoCapacity, "InsufficientInstanceCapacity".into()));
}

#[test]
fn an_instance_that_ends_gives_its_capacity_back() {
    let sim = lab();
    sim.set_capacity(&P5.into(), &ZONE.into(), Market::OnDemand, Some(1));
    let first = run(&sim, launch(0)).unwrap();
    terminate(&sim, &first).unwrap();
    assert!(run(&sim, launch(1)).is_err());
    sleep(&sim, 300);
    run(&sim, launch(1)).unwrap();
}

#[test]
fn unknown_templates_versions_groups_and_types_are_refused() {
    let sim = lab();
    let code = |request| said(run(&sim, request));
    let template = LaunchRequest { template: "serve".into(), ..launch(0) };
    assert_eq!(code(template), (Class::NotFound, "InvalidLaunchTemplateName.NotFoundException".into()));
    let version = LaunchRequest { template_digest: "two".into(), ..launch(0) };
    assert_eq!(code(version), (Class::NotFound, "InvalidLaunchTemplateId.VersionNotFound".into()));
    let group = LaunchRequest { group: Some("serve".into()), ..launch(0) };
    assert_eq!(code(group), (Class::NotFound, "InvalidPlacementGroup.Unknown".into()));
    let kind = LaunchRequest { instance_type: "p9.huge".into(), ..launch(0) };
    assert_eq!(code(kind), (Class::Other, "InvalidParameterValue".into()));
    assert!(sim.state().cloud.instances.is_empty());
}

#[test]
fn a_placement_group_stays_in_one_zone() {
    let sim = lab();
    run(&sim, launch(0)).unwrap();
    let elsewhere = LaunchRequest { zone: "us-west-2b".into(), ..launch(1) };
    assert_eq!(said(run(&sim, elsewhere)), (Class::Other, "InvalidParameterCombination".into()));
}

#[test]
fn a_template_gets_a_version_when_it_differs() {
    let sim = lab();
    let newest = |sim: &Sim| seen(sim).templates.seen()["train"].clone();
    assert_eq!((newest(&sim).version, newest(&sim).digest), (1, Some("one".into())));
    ask(&sim, &CloudAction::EnsureTemplate(template("one"))).unwrap();
    assert_eq!(newest(&sim).version, 1);
    ask(&sim, &CloudAction::EnsureTemplate(template("two"))).unwrap();
    assert_eq!((newest(&sim).version, newest(&sim).digest), (2, Some("two".into())));
    // The old version can still be launched: an intent pins it.
    let id = run(&sim, launch(0)).unwrap();
    assert_eq!(instance(&sim, &id).unwrap().template, Some("one".into()));
}

#[test]
fn a_launch_carries_the_tags_of_the_fleet_in_the_ledger() {
    let sim = lab();
    let id = run(&sim, launch(3)).unwrap();
    let tag = instance(&sim, &id).unwrap().tag.unwrap();
    assert_eq!((tag.fleet.as_str(), tag.slot.to_string().as_str(), tag.generation), ("fleet-1", "train/3", 1));
    let empty = Sim::in_memory(sim.now(), 1);
    assert_eq!(said(run(&empty, launch(0))).0, Class::Other);
    assert!(empty.state().cloud.instances.is_empty());
}

#[test]
fn the_sixth_launch_of_a_moment_is_throttled() {
    let sim = lab();
    for slot in 0..5 {
        run(&sim, launch(slot)).unwrap();
    }
    let error = run(&sim, launch(5)).unwrap_err();
    assert_eq!((error.class, error.retry_after_secs), (Class::Throttled, Some(1)));
    sleep(&sim, 1);
    run(&sim, launch(5)).unwrap();
}

#[test]
fn a_launch_into_a_reservation_must_fit_it() {
    let sim = lab();
    let held = hold(&sim, reserve(2, Match::Targeted, None)).unwrap();
    let code = |request| said(run(&sim, request));
    let unknown = launch_into(0, &ReservationId::from("cr-unknown"));
    assert_eq!(code(unknown), (Class::NotFound, "InvalidCapacityReservationId.NotFound".into()));
    let zone = LaunchRequest { zone: "us-west-2b".into(), group: None, ..launch_into(0, &held) };
    assert_eq!(code(zone), (Class::Other, "InvalidParameterValue".into()));
    let block = LaunchRequest { market: Market::Block, ..launch_into(0, &held) };
    assert_eq!(code(block), (Class::Other, "InvalidParameterValue".into()));
    let unnamed = LaunchRequest { reservation: None, ..launch_into(0, &held) };
    assert_eq!(code(unnamed).0, Class::Other);
    sleep(&sim, 60);
    let spot = LaunchRequest { market: Market::Spot, ..launch_into(0, &held) };
    assert_eq!(code(spot), (Class::Other, "InvalidParameterCombination".into()));
}

#[test]
fn a_spot_launch_below_the_price_is_refused_and_one_above_it_runs() {
    let sim = lab();
    let price = seen(&sim).spot_prices.seen()[P5][ZONE];
    let bid = |max: Usd| LaunchRequest { market: Market::Spot, max_price: Some(max), ..launch(0) };
    let low = Usd(price.0 - rust_decimal::Decimal::ONE);
    assert_eq!(said(run(&sim, bid(low))), (Class::NoCapacity, "SpotMaxPriceTooLow".into()));
    let id = run(&sim, bid(price)).unwrap();
    assert_eq!(instance(&sim, &id).unwrap().market, Market::Spot);
}

#[test]
fn instances_of_one_group_stand_on_one_leaf() {
    let sim = lab();
    let ids: Vec<_> = (0..5).map(|slot| run(&sim, launch(slot)).unwrap()).collect();
    let strays: Vec<_> = (5..10).map(|slot| run_later(&sim, LaunchRequest { group: None, ..launch(slot) })).collect();
    sleep(&sim, 60);
    let leaf = |id| instance(&sim, id).unwrap().network;
    assert!(ids.iter().all(|id| leaf(id).len() == 3 && leaf(id) == leaf(&ids[0])));
    assert!(strays.iter().any(|id| leaf(id) != leaf(&strays[0])));
}

fn run_later(sim: &Sim, request: LaunchRequest) -> crate::ids::InstanceId {
    sleep(sim, 1);
    run(sim, request).unwrap()
}
