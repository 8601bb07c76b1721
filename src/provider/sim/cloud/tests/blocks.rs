//! Capacity Blocks: offers, purchases without a token, and the end.

use jiff::SignedDuration;
use rust_decimal::Decimal;

use crate::effect::{CloudAction, LaunchRequest, PurchaseRequest};
use crate::fleet::reservation::Match;
use crate::ids::ReservationId;
use crate::observed::{InstanceState, Market, NoticeKind, OfferingSeen, ReservationState};
use crate::provider::Class;
use crate::provider::sim::Sim;
use crate::provider::sim::testing::*;
use crate::units::Usd;

fn offers(sim: &Sim) -> Vec<OfferingSeen> {
    seen(sim).offerings.whole().expect("nothing throttles").get("june").cloned().unwrap_or_default()
}

fn purchase(offer: &OfferingSeen) -> PurchaseRequest {
    let (offering, extends) = (offer.id.clone(), offer.extends.clone());
    PurchaseRequest { reservation: "june".into(), offering, extends, fee: offer.fee }
}

fn launch_block(slot: u32, id: &ReservationId) -> LaunchRequest {
    LaunchRequest { market: Market::Block, ..launch_into(slot, id) }
}

/// A block that has begun.
fn begun(sim: &Sim) -> (ReservationId, OfferingSeen) {
    let offer = offers(sim)[0].clone();
    let id = buy(sim, purchase(&offer)).unwrap();
    now_is(sim, offer.start);
    (id, offer)
}

fn now_is(sim: &Sim, at: jiff::Timestamp) {
    now(crate::provider::Clock::sleep_until(sim, at));
}

#[test]
fn offers_are_what_was_asked_for_at_a_plausible_price() {
    let sim = lab();
    let found = offers(&sim);
    assert!((1..=4).contains(&found.len()), "{found:?}");
    for offer in &found {
        assert_eq!((offer.nodes, offer.instance_type.as_str(), offer.zone.as_str()), (4, P5, ZONE));
        assert!(offer.end.to_string().ends_with("T11:30:00Z"), "{offer:?}");
        assert_eq!(offer.end.duration_since(offer.start), SignedDuration::from_hours(48));
        let an_hour = offer.fee.0 / Decimal::from(4 * 48);
        assert!((Decimal::from(31)..Decimal::from(40)).contains(&an_hour), "{an_hour}");
    }
    assert_eq!(offers(&sim), found);
}

#[test]
fn a_block_is_not_offered_when_it_cannot_be_begun_any_more() {
    let sim = lab();
    let first = offers(&sim)[0].clone();
    now_is(&sim, first.start - SignedDuration::from_mins(29));
    assert!(offers(&sim).iter().all(|offer| offer.id != first.id));
    assert_eq!(said(buy(&sim, purchase(&first))).0, Class::NotFound);
}

#[test]
fn whoever_buys_twice_has_two() {
    let sim = lab();
    let offer = offers(&sim)[0].clone();
    let one = buy(&sim, purchase(&offer)).unwrap();
    let two = buy(&sim, purchase(&offer)).unwrap();
    assert_ne!(one, two);
    assert_eq!(sim.state().cloud.paid, [(one, offer.fee), (two, offer.fee)]);
}

#[test]
fn an_offer_that_nobody_was_shown_or_that_is_gone_cannot_be_bought() {
    let sim = lab();
    let offer = offers(&sim)[0].clone();
    let unknown = PurchaseRequest { offering: "cb-unknown".into(), ..purchase(&offer) };
    assert_eq!(said(buy(&sim, unknown)).0, Class::NotFound);
    sim.withdraw_offer(&offer.id);
    assert_eq!(said(buy(&sim, purchase(&offer))).0, Class::NotFound);
    assert!(!offers(&sim).contains(&offer));
}

#[test]
fn a_block_is_paid_then_scheduled_then_active() {
    let sim = lab();
    let offer = offers(&sim)[0].clone();
    let id = buy(&sim, purchase(&offer)).unwrap();
    let look = |sim: &Sim| reservation(sim, &id).map(|seen| (seen.state, seen.available)).unwrap();
    assert_eq!(look(&sim), (ReservationState::Pending, 0));
    sleep(&sim, 3600);
    assert_eq!(look(&sim), (ReservationState::Scheduled, 0));
    assert_eq!(said(run(&sim, launch_block(0, &id))).1, "ReservationCapacityExceeded");
    now_is(&sim, offer.start);
    assert_eq!(look(&sim), (ReservationState::Active, 4));
    let instance_id = run(&sim, launch_block(0, &id)).unwrap();
    assert_eq!(instance(&sim, &instance_id).unwrap().market, Market::Block);
    let seen = reservation(&sim, &id).unwrap();
    assert_eq!((seen.block, seen.offering, seen.available), (true, Some(offer.id), 3));
    assert_eq!(seen.tag.unwrap().reservation.as_str(), "june");
}

#[test]
fn a_block_can_be_neither_changed_nor_cancelled() {
    let sim = lab();
    let (id, _) = begun(&sim);
    let (reservation, matching) = (crate::ids::ReservationName::from("june"), Match::Targeted);
    let modify =
        CloudAction::Modify { reservation: reservation.clone(), id: id.clone(), nodes: 3, end: None, matching };
    assert_eq!(said(ask(&sim, &modify)).0, Class::Other);
    assert_eq!(said(ask(&sim, &CloudAction::Cancel { reservation, id })).0, Class::Other);
}

#[test]
fn a_block_warns_at_40_minutes_and_kills_at_30() {
    let sim = lab();
    let (id, offer) = begun(&sim);
    let first = run(&sim, launch_block(0, &id)).unwrap();
    now_is(&sim, offer.end - SignedDuration::from_mins(40) - SignedDuration::from_secs(1));
    assert_eq!(instance(&sim, &first).unwrap().notice, None);
    sleep(&sim, 1);
    let notice = instance(&sim, &first).unwrap().notice.unwrap();
    let kill = offer.end - SignedDuration::from_mins(30);
    assert_eq!((notice.why, notice.at), (NoticeKind::BlockEnd, kill));
    let late = run(&sim, launch_block(1, &id)).unwrap();
    assert_eq!(instance(&sim, &late).unwrap().notice, Some(notice));
    now_is(&sim, kill - SignedDuration::from_secs(1));
    assert!(instance(&sim, &first).unwrap().state.serves());
    sleep(&sim, 1);
    assert_eq!(instance(&sim, &first).unwrap().state, InstanceState::ShuttingDown);
    assert_eq!(instance(&sim, &late).unwrap().state, InstanceState::ShuttingDown);
    assert_eq!(said(run(&sim, launch_block(2, &id))).1, "ReservationCapacityExceeded");
    now_is(&sim, offer.end);
    assert_eq!(reservation(&sim, &id).unwrap().state, ReservationState::Ended);
    assert!(sim.state().cloud.instances.values().all(|found| found.state == InstanceState::Terminated));
}

#[test]
fn an_ultraserver_is_killed_60_minutes_before_the_end() {
    let sim = lab();
    let offer = OfferingSeen { instance_type: "p6e-gb200.36xlarge".into(), ..offers(&sim)[0].clone() };
    let id = ReservationId::from("cr-ultra");
    sim.change(|state| state.cloud.add_block(state.now, id.clone(), None, &offer));
    now_is(&sim, offer.start);
    let request = LaunchRequest { instance_type: offer.instance_type.clone(), ..launch_block(0, &id) };
    let first = run(&sim, request).unwrap();
    now_is(&sim, offer.end - SignedDuration::from_mins(60) - SignedDuration::from_secs(1));
    assert!(instance(&sim, &first).unwrap().state.serves());
    sleep(&sim, 1);
    assert_eq!(instance(&sim, &first).unwrap().state, InstanceState::ShuttingDown);
}

#[test]
fn more_time_is_offered_for_a_block_that_was_bought_and_moves_its_end() {
    let sim = lab();
    let (id, offer) = begun(&sim);
    let first = run(&sim, launch_block(0, &id)).unwrap();
    let found = offers(&sim);
    let [more] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((more.extends.as_ref(), more.start), (Some(&id), offer.end));
    assert_eq!(buy(&sim, purchase(more)).unwrap(), id);
    let end = offer.end + SignedDuration::from_hours(24);
    assert_eq!(reservation(&sim, &id).unwrap().end, Some(end));
    now_is(&sim, offer.end);
    assert_eq!(instance(&sim, &first).unwrap().notice, None);
    assert!(instance(&sim, &first).unwrap().state.serves());
    now_is(&sim, end - SignedDuration::from_mins(30));
    assert_eq!(instance(&sim, &first).unwrap().state, InstanceState::ShuttingDown);
    assert_eq!(sim.state().cloud.paid.len(), 2);
}

#[test]
fn in_its_last_hour_a_block_cannot_be_extended() {
    let sim = lab();
    let (_, offer) = begun(&sim);
    let more = offers(&sim)[0].clone();
    now_is(&sim, offer.end - SignedDuration::from_mins(60));
    assert!(offers(&sim).is_empty());
    assert_eq!(said(buy(&sim, purchase(&more))).0, Class::Other);
    assert!(sim.state().cloud.paid.iter().all(|(_, fee)| *fee > Usd::default()));
}

#[test]
fn a_block_that_was_bought_is_not_offered_again_even_when_it_is_over() {
    let sim = lab();
    let (_, offer) = begun(&sim);
    now_is(&sim, offer.end + SignedDuration::from_hours(5));
    assert!(offers(&sim).is_empty());
}

#[test]
fn asking_for_offers_too_often_is_a_gap() {
    let sim = lab();
    let whole = (0..12).filter(|_| seen(&sim).offerings.whole().is_some()).count();
    assert_eq!(whole, 10);
    assert!(seen(&sim).offerings.gap().unwrap().why.starts_with("RequestLimitExceeded"));
}
