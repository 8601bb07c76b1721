//! Laws that only a whole world can show.

use super::mistakes::{ONE_NODE, play};
use super::*;
use crate::effect::Effects;
use crate::plan::WaitingOn;
use crate::provider::sim::{Fault, Position};
use crate::units::Duration;

fn begun(story: &str) -> Bench {
    let mut bench = None;
    play(&mut bench, ONE_NODE).unwrap();
    play(&mut bench, story).unwrap();
    bench.unwrap()
}

const GROWN: &str = "approve\nconverge\nedit \"nodes: 1\\n  capacity\" -> \"nodes: 2\\n  capacity\"\n";
const REPLACED: &str = "approve\nconverge\nedit \"version: 1\" -> \"version: 2\"\n";
const CUT: &str = "approve\nconverge\nadd\n  kind: GpuLayout\n  metadata: {name: halves}\n  spec: {mig: [{slices: {3g.40gb: 2}}]}\n\
                   edit \"nodes: 1\\n  capacity\" -> \"nodes: 1\\n  layout: halves\\n  capacity\"\n";

/// Enough for the whole of each.
const MOST_ROUNDS: u32 = 6;

#[test]
fn planning_changes_nothing() {
    for story in ["", GROWN, REPLACED, CUT] {
        let mut bench = begun(story);
        let told = |bench: &Bench| {
            let state = bench.sim.state();
            let instances = state.cloud.instances.clone();
            (state.calls.total, state.ledger.whole(), instances, state.cluster.observe(state.now))
        };
        let before = told(&bench);
        for _ in 0..3 {
            assert!(!bench.look().unwrap().plan.steps.is_empty(), "{story}");
        }
        assert!(told(&bench) == before, "{story}");
    }
}

#[test]
fn what_is_taken_when_it_falls_free_puts_nobody_at_risk() {
    let story = include_str!("../../../tests/scenarios/idle_never_touches_a_gang.tw");
    let mut bench = None;
    play(&mut bench, story.split("\nplan\n").next().unwrap()).unwrap();
    let looked = bench.unwrap().look().unwrap();
    let [held] = looked.plan.held.as_slice() else { panic!("{:?}", looked.plan.held) };
    assert_eq!(held.waiting_on, WaitingOn::Gang { name: "vision/gang-1".into() });
    assert!(held.disruption.is_none() && held.effects.is_empty(), "{held:?}");
}

#[test]
fn after_any_part_of_a_plan_the_next_one_is_the_rest() {
    for story in ["", GROWN, REPLACED, CUT] {
        let mut rest = begun(story).look().unwrap().plan.effects.clone();
        let calls = (1..).take_while(|call| {
            let mut bench = begun(&format!("{story}approve\n"));
            bench.sim.inject(Fault::Crash { call: *call, position: Position::AfterAnswer });
            for _ in 0..MOST_ROUNDS {
                bench.round().unwrap();
                if !bench.sim.struck().is_empty() {
                    break;
                }
                bench.sim.advance(Duration::secs(10));
            }
            let left = bench.look().unwrap().plan.effects.clone();
            assert_eq!(left.within(&rest), Ok(()), "{story}after {call} calls");
            rest = left;
            !bench.sim.struck().is_empty()
        });
        assert!(calls.count() > 2, "{story}");
        assert_eq!(rest, Effects::default(), "{story}");
    }
}
