//! Laws that only a whole world can show.

use super::mistakes::{ONE_NODE, play};
use super::*;
use crate::effect::Effects;
use crate::observed::Read;
use crate::plan::{Plan, PlanInput, WaitingOn};
use crate::provider::sim::{Fault, Position};
use crate::scenario::bench::Looked;
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

/// Stories up to a plan in which much is going on: gangs, budgets, sick and silent nodes, loans, edits that wait.
const BUSY: [&str; 5] = [
    include_str!("../../../tests/scenarios/silent_node_is_replaced.tw"),
    include_str!("../../../tests/scenarios/lowered_quota_waits_at_night_too.tw"),
    include_str!("../../../tests/scenarios/unmet_guarantee_says_who_has_it.tw"),
    include_str!("../../../tests/scenarios/reservation_is_given_back_empty.tw"),
    include_str!("../../../tests/scenarios/same_cut_loan_becomes_smaller.tw"),
];

#[test]
fn the_same_input_gives_the_same_plan_byte_for_byte() {
    let text = |plan: &Plan| serde_json::to_string(plan).unwrap();
    for story in BUSY {
        let mut bench = None;
        // Up to the last plan that it prints.
        play(&mut bench, story.rsplit_once("\nplan\n").unwrap().0).unwrap();
        let Looked { input, plan } = bench.unwrap().look().unwrap();
        let saved = serde_json::to_string(&input).unwrap();
        let again: PlanInput = serde_json::from_str(&saved).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), saved, "what is saved is read as it was");
        assert_eq!(text(&crate::plan::plan(&again)), text(&plan), "{story}");
        // Pods come in no order that means anything.
        let mut turned = again;
        let pods = &mut turned.observed.cluster.pods;
        *pods = Read::new(pods.seen().iter().rev().cloned().collect(), pods.at());
        let other = Plan { id: plan.id.clone(), ..crate::plan::plan(&turned) };
        assert_eq!(text(&other), text(&plan), "{story}");
    }
}

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
