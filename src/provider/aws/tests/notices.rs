//! What the cloud will take away, told over the wire: by a queue, and by asking.

use std::path::Path;
use std::rc::Rc;

use super::door::Wired;
use crate::ids::InstanceId;
use crate::observed::NoticeKind;
use crate::plan::Reason;
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
fn a_host_that_is_maintained_is_left_in_time() {
    for seed in ASKED_AND_TOLD {
        let (mut bench, id) = settled(seed);
        let taken = bench.sim.now() + Duration::minutes(10).signed();
        assert!(bench.sim.give_maintenance_notice(&id, Duration::minutes(10)));
        assert_eq!(noticed(&mut bench), [(NoticeKind::Maintenance, taken)], "seed {seed}");
    }
}

#[test]
fn a_recommendation_to_move_what_has_just_come_is_told_and_takes_nothing_away() {
    let (mut bench, id) = settled(8);
    assert!(bench.sim.recommend_move(&id));
    let looked = bench.look().unwrap();
    let told: Vec<&str> = looked.plan.notes.iter().map(|note| note.text.as_str()).collect();
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert!(told.contains(id.as_str()) && told.contains("`tidewright drain ip-"), "{told}");
    assert!(looked.plan.steps.is_empty(), "{:?}", looked.plan.steps);
}
