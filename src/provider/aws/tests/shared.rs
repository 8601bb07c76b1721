//! A reservation that another account shares with this one: its places are used, and nothing of it is changed.

use std::path::Path;
use std::rc::Rc;

use super::door::Wired;
use crate::ids::ReservationId;
use crate::observed::Market;
use crate::scenario::bench::{Bench, End};
use crate::scenario::documents::Documents;
use crate::units::Duration;

const OWNER: &str = "222233334444";
const SHARED: &str = "cr-0123456789abcdef0";

const DOCUMENTS: &str = "kind: Reservation
metadata: {name: lent}
spec:
  id: cr-0123456789abcdef0
  manage: observe
  instanceType: p5.48xlarge
  zone: us-west-2a
  nodes: 2
  onDemand: {end: never, match: targeted}
---
kind: NodePool
metadata: {name: train}
spec:
  instanceType: p5.48xlarge
  nodes: NODES
  capacity: [{reservation: lent}]
";

fn documents(nodes: u32) -> Documents {
    Documents::new(&DOCUMENTS.replace("NODES", &nodes.to_string()))
}

fn used(bench: &Bench) -> usize {
    let inside =
        |market, id: Option<&ReservationId>| market == Market::Reserved && id.is_some_and(|id| id.as_str() == SHARED);
    let state = bench.sim.state();
    let live = state.cloud.instances.values().filter(|found| found.state.is_live());
    live.filter(|found| inside(found.paid_as(), found.reservation.as_ref())).count()
}

#[test]
fn the_places_that_another_account_shares_are_used_and_the_reservation_is_left_as_it_is() {
    for seed in [1, 8] {
        let at = "2026-03-02T08:00:00Z".parse().unwrap();
        let mut bench = Bench::new(at, seed, Path::new(".")).through(Some(Rc::new(Wired::new(seed))));
        bench.set_documents(documents(2)).unwrap();
        // What the documents adopt is there; from here on it is the other account's.
        assert!(bench.sim.share_reservation(&SHARED.into(), OWNER));
        bench.approve().unwrap();
        let converged = bench.converge(20).unwrap();
        assert!(matches!(converged.end, End::Empty), "seed {seed}: {converged:?}");
        assert_eq!((used(&bench), bench.counts().0), (2, 2), "seed {seed}");
        let looked = bench.look().unwrap();
        let seen = &looked.input.observed.cloud.reservations.seen()[&ReservationId::from(SHARED)];
        assert_eq!((seen.tag.as_ref(), seen.available), (None, 0), "seed {seed}");

        // One node less, and then neither pool nor reservation in the documents: its places are free, and it stays.
        bench.set_documents(documents(1)).unwrap();
        bench.approve().unwrap();
        let converged = bench.converge(20).unwrap();
        assert!(matches!(converged.end, End::Empty), "seed {seed}: {converged:?}");
        assert_eq!(used(&bench), 1, "seed {seed}");
        bench.set_documents(Documents::new("kind: PreemptionTier\nmetadata: {name: any}\nspec: {rank: 1}\n")).unwrap();
        bench.converge(20).unwrap();
        bench.sim.advance(Duration::hours(2));
        let state = bench.sim.state();
        assert_eq!(state.cloud.reservations[&ReservationId::from(SHARED)].over, None, "seed {seed}");
        for verb in ["reserve", "modify", "cancel", "tag"] {
            assert_eq!(state.calls.asked.get(verb), None, "seed {seed}: {verb}");
        }
    }
}
