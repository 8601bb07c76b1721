//! What the cloud will take away, told over the wire: by a queue, and by asking.

use std::path::Path;
use std::rc::Rc;

use super::door::Wired;
use crate::ids::InstanceId;
use crate::observed::NoticeKind;
use crate::plan::{Reason, Step, Urgency};
use crate::provider::sim::{Fault, Position};
use crate::scenario::bench::{Bench, End};
use crate::scenario::documents::Documents;
use crate::units::Duration;

/// Seeds of which the first has no queue, and the second has one.
const ASKED_AND_TOLD: [u64; 2] = [1, 8];

const SPOT: &str = "kind: NodePool
metadata: {name: sweep}
spec:
  instanceType: g6.48xlarge
  nodes: 2
  capacity: [{spot: {max: 2, maxPricePercent: 100}}]
";

/// A fleet of two spot nodes that is there, and one of them.
fn settled(seed: u64) -> (Bench, InstanceId) {
    let at = "2026-03-02T08:00:00Z".parse().unwrap();
    let mut bench = Bench::new(at, seed, Path::new(".")).through(Some(Rc::new(Wired::new(seed))));
    bench.set_documents(Documents::new(SPOT)).unwrap();
    bench.approve().unwrap();
    let converged = bench.converge(20).unwrap();
    assert!(matches!(converged.end, End::Empty), "{converged:?}");
    let id = bench.sim.state().cloud.instances.keys().next().cloned().unwrap();
    (bench, id)
}

/// What the next plan does for a notice, and until when.
fn noticed(bench: &mut Bench) -> Vec<(NoticeKind, jiff::Timestamp)> {
    let looked = bench.look().unwrap();
    let reasons = looked.plan.steps.iter().filter_map(|step| match step.reason {
        Reason::Notice { why, at } => Some((why, at)),
        _ => None,
    });
    let mut reasons: Vec<_> = reasons.collect();
    reasons.dedup();
    reasons
}

#[test]
fn a_spot_node_is_emptied_within_its_two_minutes_whoever_tells() {
    for seed in ASKED_AND_TOLD {
        let (mut bench, id) = settled(seed);
        // It ran for long before, which says nothing about how long it has left.
        bench.sim.advance(Duration::minutes(40));
        let taken = bench.sim.now() + Duration::minutes(2).signed();
        assert!(bench.sim.interrupt(&id));
        bench.sim.advance(Duration::secs(20));
        assert_eq!(noticed(&mut bench), [(NoticeKind::SpotInterruption, taken)], "seed {seed}");
        let converged = bench.converge(20).unwrap();
        assert!(matches!(converged.end, End::Empty), "{converged:?}");
        assert_eq!(bench.counts().0, 3, "another one was launched in its place");
    }
}

#[test]
fn a_spot_node_is_emptied_in_time_though_no_document_buys_spot_any_more() {
    let (mut bench, id) = settled(1);
    bench
        .set_documents(Documents::new(&SPOT.replace("{spot: {max: 2, maxPricePercent: 100}}", "{onDemand: {max: 2}}")))
        .unwrap();
    assert!(bench.sim.interrupt(&id));
    let taken = bench.sim.now() + Duration::minutes(2).signed();
    bench.sim.advance(Duration::secs(20));
    assert_eq!(noticed(&mut bench), [(NoticeKind::SpotInterruption, taken)]);
    // What it costs until then is the spot price, wherever it stands.
    let seen = bench.look().unwrap().input.observed.cloud;
    let one = &seen.instances.seen()[&id];
    assert!(seen.spot_prices.seen()[&one.instance_type].contains_key(&one.zone), "{:?}", seen.spot_prices);
}

#[test]
fn a_host_that_is_maintained_is_left_in_time() {
    for seed in ASKED_AND_TOLD {
        let (mut bench, id) = settled(seed);
        let taken = bench.sim.now() + Duration::minutes(10).signed();
        assert!(bench.sim.give_maintenance_notice(&id, Duration::minutes(10)));
        assert_eq!(noticed(&mut bench), [(NoticeKind::Maintenance, taken)], "seed {seed}");
    }
}

/// Why the next plan moves a node that nothing takes away.
fn recommended(bench: &mut Bench) -> (bool, Vec<String>) {
    let looked = bench.look().unwrap();
    let moves = |step: &Step| matches!(step.reason, Reason::Recommended { .. }) && step.urgency == Urgency::Chosen;
    let notes = looked.plan.notes.iter().map(|note| note.text.clone());
    (!looked.plan.steps.is_empty() && looked.plan.steps.iter().all(moves), notes.collect())
}

#[test]
fn a_recommendation_to_move_is_followed_to_its_end_though_the_queue_forgets_it() {
    let (mut bench, id) = settled(8);
    assert!(bench.sim.recommend_move(&id));
    let (moves, notes) = recommended(&mut bench);
    let [told] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(!moves && told.contains(id.as_str()) && told.contains("it has just come"), "{told}");
    bench.sim.advance(Duration::hours(2));
    // Whoever looks again at once sees the same, though the queue hides what was read.
    for _ in 0..2 {
        assert_eq!(recommended(&mut bench), (true, Vec::new()));
    }
    // The node is closed, the process dies, and the queue keeps its messages no longer.
    bench.sim.inject(Fault::Crash { call: 1, position: Position::AfterCommit });
    bench.round().unwrap();
    bench.sim.aside(|state| state.cloud.account.queue = Some(Default::default()));
    assert!(recommended(&mut bench).0, "what was begun goes on");
    let converged = bench.converge(20).unwrap();
    assert!(matches!(converged.end, End::Empty), "{converged:?}");
    assert_eq!(bench.counts(), (3, 1), "another one was launched in its place");
    assert!(!bench.sim.state().cloud.instances[&id].state.serves());
    bench.check().unwrap();
}

#[test]
fn a_fleet_with_no_queue_hears_of_no_recommendation() {
    let (mut bench, id) = settled(1);
    bench.sim.advance(Duration::hours(3));
    assert!(bench.sim.recommend_move(&id));
    assert_eq!(recommended(&mut bench), (false, Vec::new()));
}
