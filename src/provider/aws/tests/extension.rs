//! More time for a Capacity Block, over the wire: offered with its price, bought on a word that names offer and fee, and once,
//! whatever becomes of the answer.

use std::path::Path;
use std::rc::Rc;

use jiff::SignedDuration;

use super::door::Wired;
use crate::effect::{Action, CloudAction};
use crate::ids::ReservationId;
use crate::plan::Offer;
use crate::scenario::bench::Bench;
use crate::scenario::documents::Documents;
use crate::units::Duration;

const BLOCK: &str = "kind: Reservation
metadata: {name: burst}
spec:
  instanceType: p5.48xlarge
  nodes: 2
  capacityBlock:
    duration: 1d
    startBetween: {from: 2026-03-03, to: 2026-03-05}
    maxUpfrontUsd: 20000
    approval: {mandate: {upToUsd: 20000, expires: 2026-03-03T00:00Z}}
";

/// A block that was bought and has begun.
fn begun(seed: u64) -> (Bench, Rc<Wired>, ReservationId) {
    let door = Rc::new(Wired::new(seed));
    let mut bench =
        Bench::new("2026-03-02T08:00:00Z".parse().unwrap(), seed, Path::new(".")).through(Some(door.clone()));
    bench.set_documents(Documents::new(BLOCK)).unwrap();
    bench.approve().unwrap();
    bench.converge(10).unwrap();
    let id = bench.sim.state().cloud.reservations.keys().next().cloned().unwrap();
    let start = bench.sim.state().cloud.reservations[&id].block.as_ref().unwrap().start;
    bench.sim.advance_to(start + SignedDuration::from_hours(1));
    bench.converge(10).unwrap();
    (bench, door, id)
}

/// What is offered, and how many purchases the plan makes.
fn offered(bench: &mut Bench, extend: &str) -> (Vec<Offer>, usize) {
    bench.set_documents(Documents::new(&format!("{BLOCK}    {extend}\n"))).unwrap();
    let looked = bench.look().unwrap();
    let buys = |action: &Action| matches!(action, Action::Cloud(CloudAction::Purchase(_)));
    let count = looked.plan.steps.iter().filter(|step| buys(&step.action)).count();
    (looked.plan.offers.clone(), count)
}

#[test]
fn more_time_is_offered_with_its_price_and_bought_once_on_a_word_that_names_it() {
    for order in [None, Some("cut-before"), Some("cut-after"), Some("truncate"), Some("500-after")] {
        let (mut bench, door, id) = begun(1);
        let before = bench.sim.state().cloud.reservations[&id].end.unwrap();
        let (offers, bought) = offered(&mut bench, "extend: {by: 1d}");
        let [offer] = offers.as_slice() else { panic!("{order:?}: {offers:?}") };
        assert_eq!((offer.extends.as_ref(), offer.start, bought), (Some(&id), before, 0), "{order:?}");
        assert!(offer.fee.0.is_sign_positive() && !offer.fee.0.is_zero(), "{order:?}: {offer:?}");

        // Another fee than what is asked is no word for it.
        let word = |fee: &str| {
            format!("extend: {{by: 1d, approval: {{offering: {{id: {}, feeUsd: {fee}}}}}}}", offer.offering)
        };
        assert_eq!(offered(&mut bench, &word("1")).1, 0, "{order:?}");
        assert_eq!(offered(&mut bench, &word(&offer.fee.to_string())).1, 1, "{order:?}");
        order.iter().for_each(|order| door.order(&format!("{order} PurchaseCapacityBlockExtension")));
        bench.approve().unwrap();
        bench.converge(10).unwrap();
        bench.sim.advance(Duration::minutes(30));
        bench.converge(10).unwrap();

        let state = bench.sim.state();
        let longer = if order == Some("cut-before") { 0 } else { 24 };
        let end = state.cloud.reservations[&id].end;
        assert_eq!(end, Some(before + SignedDuration::from_hours(longer)), "{order:?}");
        // What never arrived is not sent again by itself: nobody here can know that it did not.
        assert_eq!(state.calls.changed("extend"), u64::from(longer > 0), "{order:?}");
        drop(state);
        bench.check().unwrap();
    }
}
