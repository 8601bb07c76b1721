//! Reservations are really consumed, and freed only when EC2 would free them.

use crate::effect::{CloudAction, ReserveRequest};
use crate::fleet::reservation::Match;
use crate::fleet::testing::at;
use crate::ids::ReservationId;
use crate::observed::{Market, ReservationState};
use crate::provider::sim::Sim;
use crate::provider::sim::testing::*;
use crate::provider::{Class, Done, ProviderError};

fn modify(sim: &Sim, id: &ReservationId, nodes: u32, matching: Match) -> Result<Done, ProviderError> {
    ask(sim, &CloudAction::Modify { reservation: "base".into(), id: id.clone(), nodes, end: None, matching })
}

fn cancel(sim: &Sim, id: &ReservationId) -> Result<Done, ProviderError> {
    ask(sim, &CloudAction::Cancel { reservation: "base".into(), id: id.clone() })
}

fn available(sim: &Sim, id: &ReservationId) -> u32 {
    reservation(sim, id).unwrap().available
}

#[test]
fn a_full_reservation_takes_nobody() {
    let sim = lab();
    let held = hold(&sim, reserve(2, Match::Targeted, None)).unwrap();
    run(&sim, launch_into(0, &held)).unwrap();
    assert_eq!(available(&sim, &held), 1);
    let second = run(&sim, launch_into(1, &held)).unwrap();
    assert_eq!(available(&sim, &held), 0);
    let full = (Class::NoCapacity, "ReservationCapacityExceeded".to_string());
    assert_eq!(said(run(&sim, launch_into(2, &held))), full);
    let found = instance(&sim, &second).unwrap();
    assert_eq!((found.market, found.reservation), (Market::Reserved, Some(held)));
}

#[test]
fn a_place_is_free_only_when_its_instance_is_terminated() {
    let sim = lab();
    let held = hold(&sim, reserve(1, Match::Targeted, None)).unwrap();
    let first = run(&sim, launch_into(0, &held)).unwrap();
    sleep(&sim, 120);
    terminate(&sim, &first).unwrap();
    sleep(&sim, 170);
    assert_eq!(available(&sim, &held), 0);
    assert_eq!(said(run(&sim, launch_into(1, &held))).0, Class::NoCapacity);
    sleep(&sim, 130);
    assert_eq!(available(&sim, &held), 1);
    run(&sim, launch_into(1, &held)).unwrap();
}

#[test]
fn a_new_reservation_is_listed_as_pending_for_a_while_and_can_be_used() {
    let pending = |seed: u64| {
        let sim = lab_with(seed);
        let held = hold(&sim, reserve(1, Match::Targeted, None)).unwrap();
        let state = reservation(&sim, &held).unwrap().state;
        run(&sim, launch_into(0, &held)).unwrap();
        sleep(&sim, 300);
        assert_eq!(reservation(&sim, &held).unwrap().state, ReservationState::Active);
        state == ReservationState::Pending
    };
    assert!((1..6).all(pending));
}

#[test]
fn the_token_of_a_reservation_works_as_that_of_a_launch() {
    let sim = lab();
    let held = hold(&sim, reserve(2, Match::Targeted, None)).unwrap();
    assert_eq!(hold(&sim, reserve(2, Match::Targeted, None)).unwrap(), held);
    assert_eq!(said(hold(&sim, reserve(3, Match::Targeted, None))).1, "IdempotentParameterMismatch");
    assert_eq!(sim.state().cloud.reservations.len(), 1);
    let tag = reservation(&sim, &held).unwrap().tag.unwrap();
    assert_eq!((tag.fleet.as_str(), tag.reservation.as_str(), tag.generation), ("fleet-1", "base", 1));
}

#[test]
fn an_open_reservation_is_left_alone_by_what_is_paid_by_the_hour() {
    let sim = lab();
    let held = hold(&sim, reserve(1, Match::Open, None)).unwrap();
    let first = run(&sim, launch(0)).unwrap();
    let found = instance(&sim, &first).unwrap();
    assert_eq!((found.market, found.reservation, available(&sim, &held)), (Market::OnDemand, None, 1));
    let second = run(&sim, launch_into(1, &held)).unwrap();
    assert_eq!(instance(&sim, &second).unwrap().market, Market::Reserved);
}

#[test]
fn a_targeted_reservation_is_left_alone_by_launches_that_do_not_name_it() {
    let sim = lab();
    let held = hold(&sim, reserve(1, Match::Targeted, None)).unwrap();
    run(&sim, launch(0)).unwrap();
    assert_eq!(available(&sim, &held), 1);
}

#[test]
fn a_reservation_takes_its_machines_from_what_is_for_sale() {
    let sim = lab();
    sim.set_capacity(&P5.into(), &ZONE.into(), Market::OnDemand, Some(3));
    assert_eq!(said(hold(&sim, reserve(4, Match::Targeted, None))).1, "InsufficientInstanceCapacity");
    let held = hold(&sim, reserve(3, Match::Targeted, None)).unwrap();
    assert!(run(&sim, launch(0)).is_err());
    assert_eq!(said(modify(&sim, &held, 4, Match::Targeted)).0, Class::NoCapacity);
    modify(&sim, &held, 2, Match::Targeted).unwrap();
    run(&sim, launch(0)).unwrap();
    cancel(&sim, &held).unwrap();
    run(&sim, launch(1)).unwrap();
    run(&sim, launch(2)).unwrap();
    assert!(run(&sim, launch(3)).is_err());
}

#[test]
fn a_reservation_cannot_shrink_below_what_is_used() {
    let sim = lab();
    let held = hold(&sim, reserve(3, Match::Targeted, None)).unwrap();
    run(&sim, launch_into(0, &held)).unwrap();
    run(&sim, launch_into(1, &held)).unwrap();
    assert_eq!(said(modify(&sim, &held, 1, Match::Targeted)).0, Class::Other);
    modify(&sim, &held, 2, Match::Targeted).unwrap();
    assert_eq!((reservation(&sim, &held).unwrap().total, available(&sim, &held)), (2, 0));
    assert_eq!(said(modify(&sim, &held, 2, Match::Open)).0, Class::Other);
    modify(&sim, &held, 8, Match::Targeted).unwrap();
    assert_eq!(available(&sim, &held), 6);
    modify(&sim, &held, 8, Match::Targeted).unwrap();
    assert_eq!(sim.state().calls.changed("modify"), 2);
}

#[test]
fn instances_outlive_a_cancelled_reservation_as_on_demand() {
    let sim = lab();
    let held = hold(&sim, reserve(1, Match::Targeted, None)).unwrap();
    let id = run(&sim, launch_into(0, &held)).unwrap();
    sleep(&sim, 120);
    cancel(&sim, &held).unwrap();
    let found = instance(&sim, &id).unwrap();
    assert_eq!((found.market, found.reservation), (Market::OnDemand, None));
    assert!(found.state.serves());
    assert_eq!(reservation(&sim, &held).unwrap().state, ReservationState::Ended);
    cancel(&sim, &held).unwrap();
    assert_eq!(sim.state().calls.changed("cancel"), 1);
    assert_eq!(said(run(&sim, launch_into(1, &held))).0, Class::Other);
    sleep(&sim, 3600);
    assert_eq!(reservation(&sim, &held), None);
    assert_eq!(said(run(&sim, launch_into(1, &held))).1, "InvalidCapacityReservationId.NotFound");
    assert_eq!(said(cancel(&sim, &held)).0, Class::NotFound);
}

#[test]
fn an_end_date_is_kept_within_an_hour_and_leaves_instances_running() {
    let sim = lab();
    let held = hold(&sim, reserve(1, Match::Targeted, Some(at("2026-06-01T14:00Z")))).unwrap();
    let id = run(&sim, launch_into(0, &held)).unwrap();
    sleep_to(&sim, "2026-06-01T13:59:59Z");
    assert_eq!(reservation(&sim, &held).unwrap().state, ReservationState::Active);
    sleep_to(&sim, "2026-06-01T15:00Z");
    assert!(reservation(&sim, &held).is_none_or(|seen| seen.state == ReservationState::Ended));
    assert_eq!(instance(&sim, &id).unwrap().market, Market::OnDemand);
}

#[test]
fn an_end_that_was_moved_does_not_come_at_its_old_time() {
    let sim = lab();
    let held = hold(&sim, reserve(1, Match::Targeted, Some(at("2026-06-01T14:00Z")))).unwrap();
    modify(&sim, &held, 1, Match::Targeted).unwrap();
    sleep_to(&sim, "2026-06-02T14:00Z");
    assert_eq!(reservation(&sim, &held).unwrap().state, ReservationState::Active);
}

#[test]
fn nonsense_is_refused_before_anything_is_held() {
    let sim = lab();
    for nodes in [0, 1001] {
        assert_eq!(said(hold(&sim, reserve(nodes, Match::Targeted, None))).0, Class::Other);
    }
    let past = Some(at("2026-05-01T00:00Z"));
    assert_eq!(said(hold(&sim, reserve(1, Match::Targeted, past))).0, Class::Other);
    assert!(sim.state().cloud.reservations.is_empty());
}

#[test]
fn a_reservation_stands_where_its_machines_stand() {
    let sim = lab();
    let held = hold(&sim, ReserveRequest { nodes: 16, ..reserve(16, Match::Targeted, None) }).unwrap();
    let id = run(&sim, launch_into(0, &held)).unwrap();
    sleep(&sim, 60);
    let network = reservation(&sim, &held).unwrap().network;
    assert!(!network.is_empty());
    assert!(instance(&sim, &id).unwrap().network.starts_with(&network));
}
