//! `clusters/aws-demo` over the wire, with the process killed at every effect, and every launch answered wrongly in every
//! way: whoever comes next finishes with the same fleet, and with as many launches that took effect.
//!
//! `WIRE_CRASHES=all cargo test --lib provider::aws::tests::crashes -- --nocapture` kills at all of them; without it some
//! are left out, because a debug build takes its time.

#![allow(clippy::disallowed_macros)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::SignedDuration;

use super::door::Wired;
use crate::mistakes::{Mistake, making};
use crate::observed::Market;
use crate::provider::sim::{Fault, Position};
use crate::scenario::bench::{Bench, End};
use crate::scenario::campaign::caught;
use crate::scenario::documents::Documents;
use crate::scenario::run_through;
use crate::units::Duration;

/// What the account can tell afterwards: machines and money.
const COUNTED: [&str; 6] = ["launch", "terminate", "reboot", "reserve", "modify", "cancel"];
/// What a launch may be answered with that is no answer.
const WRONG: [&str; 6] = ["cut-before", "cut-after", "500", "500-after", "truncate", "garbage"];
/// Without `WIRE_CRASHES=all` one effect of so many is killed.
const FEW: usize = 9;

/// What there is in the end.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ended {
    done: BTreeMap<&'static str, u64>,
    /// Each slot, and what is in it.
    fleet: BTreeMap<String, String>,
    /// Whether what was ordered has come.
    struck: bool,
    /// How many calls would have changed something. After a crash some are made again.
    effects: u64,
}

/// The demo in an account where nothing is yet, with an approval of all of it.
fn begun() -> (Bench, Rc<Wired>) {
    let door = Rc::new(Wired::new(1));
    let mut bench = Bench::new("2026-03-02T08:00:00Z".parse().unwrap(), 1, Path::new(".")).through(Some(door.clone()));
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters/aws-demo");
    bench.set_documents(Documents::read(&demo).unwrap()).unwrap();
    bench.approve().unwrap();
    (bench, door)
}

/// Goes on until nothing is left to do; what no approval had seen is approved on the way.
fn ended(bench: &mut Bench, what: &str) -> Ended {
    let before = bench.sim.state().calls.total;
    for approvals in 0.. {
        let converged = bench.converge(40).unwrap();
        if matches!(converged.end, End::Empty) {
            break;
        }
        assert!(approvals < 3, "{what}: {:?}", bench.look().unwrap().plan.held);
        bench.approve().unwrap();
    }
    bench.check().unwrap_or_else(|broken| panic!("{what}: {broken}"));
    let struck = bench.sim.struck().keys().any(|name| name.starts_with("crash"));
    let state = bench.sim.state();
    let live = state.cloud.instances.values().filter(|found| found.state.is_live());
    let fleet = live.filter_map(|found| {
        let slot = found.tag.as_ref()?.slot.to_string();
        Some((slot, format!("{} {} {:?}", found.instance_type, found.zone, found.market)))
    });
    let done = COUNTED.map(|verb| (verb, state.calls.changed(verb)));
    Ended { done: done.into(), fleet: fleet.collect(), struck, effects: state.calls.total - before }
}

/// The demo from nothing to its end, with something that goes wrong on the way.
fn run(crash: Option<(u64, Position)>, order: Option<&str>) -> Ended {
    let (mut bench, door) = begun();
    if let Some((call, position)) = crash {
        bench.sim.inject(Fault::Crash { call, position });
    }
    order.iter().for_each(|order| door.order(order));
    ended(&mut bench, &format!("{crash:?} {order:?}"))
}

/// Does all of this on all cores.
fn each<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            check(case);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..cores).for_each(|_| drop(scope.spawn(work)));
    });
}

/// As many machines as its pools ask for.
const NODES: usize = 7;

#[test]
fn the_demo_killed_at_any_effect_ends_as_the_same_fleet_with_as_many_launches() {
    let clean = run(None, None);
    assert_eq!((clean.fleet.len(), clean.done["launch"], clean.struck), (NODES, 7, false), "{clean:?}");
    let all = std::env::var("WIRE_CRASHES").as_deref() == Ok("all");
    // Up to the crash everything is as without one, so these are all effects that there are to die at.
    let cases = (1..=clean.effects).flat_map(|call| Position::ALL.map(|position| (call, position)));
    let cases: Vec<_> = cases.enumerate().filter(|(at, _)| all || at % FEW == 0).map(|(_, one)| one).collect();
    each(&cases, |case| {
        let ended = run(Some(*case), None);
        assert!(ended.struck, "nobody died at {case:?}");
        assert_eq!(Ended { struck: false, effects: clean.effects, ..ended }, clean, "killed at {case:?}");
    });
    println!("killed {} times, at {} effects", cases.len(), clean.effects);
}

#[test]
fn every_launch_of_the_demo_may_be_answered_wrongly_and_none_is_made_twice() {
    let clean = run(None, None);
    let orders: Vec<String> =
        (0..NODES).flat_map(|launch| WRONG.map(|kind| format!("{kind} RunInstances 1 after {launch}"))).collect();
    let all = std::env::var("WIRE_CRASHES").as_deref() == Ok("all");
    let orders: Vec<String> =
        orders.into_iter().enumerate().filter(|(at, _)| all || at % 5 == 0).map(|(_, one)| one).collect();
    each(&orders, |order| {
        let ended = run(None, Some(order));
        assert_eq!(Ended { effects: clean.effects, ..ended }, clean, "{order}");
    });
    println!("{} wrong answers to a launch, {} launches each", orders.len(), clean.done["launch"]);
}

/// Two at once, on a wire that loses answers, where one zone has a single machine left.
#[test]
fn two_operators_fall_back_to_another_zone_and_launch_nothing_twice() {
    let all = std::env::var("WIRE_CRASHES").as_deref() == Ok("all");
    let seeds: Vec<u64> = (0..if all { 40 } else { 4 }).collect();
    each(&seeds, |seed| {
        let (mut bench, door) = begun();
        bench.sim.set_capacity(&"g6e.12xlarge".into(), &"us-west-2a".into(), Market::OnDemand, Some(1));
        door.order(&format!("{} RunInstances 2 after {}", WRONG[*seed as usize % WRONG.len()], seed % 7));
        for round in 0..3 {
            let apart = SignedDuration::from_secs(if seed % 2 == 0 { 0 } else { 90 });
            bench.two_rounds(*seed * 10 + round, apart).unwrap();
            bench.sim.advance(Duration::secs(30));
        }
        let ended = ended(&mut bench, &format!("seed {seed}"));
        assert_eq!((ended.done["launch"], ended.fleet.len()), (7, NODES), "seed {seed}: {ended:?}");
        let zones: BTreeSet<&str> =
            ended.fleet.values().filter(|what| what.starts_with("g6e")).map(String::as_str).collect();
        assert_eq!(zones.len(), 2, "seed {seed}: {ended:?}");
    });
}

/// Our memory is deleted, and the fleet begins anew: as who it was, as it is called since, and as a fleet of the same
/// cluster with another name.
#[test]
fn a_fleet_that_lost_its_ledger_makes_nothing_a_second_time() {
    let same = "expect no changes\nexpect no orphans";
    let other = "expect held tidewright.dev/fleet=\nexpect held was made with this name";
    let cases = [("", same), (" as demo-0001.0123456789", other)];
    // What no approval had seen is approved on the way.
    let go = "approve\nconverge 40 rounds\n".repeat(3);
    for (identity, then) in cases {
        let begun = format!("start 2026-03-02T08:00Z\nfleet clusters/aws-demo\n{go}expect launches 7\n");
        let text = format!("{begun}lose ledger{identity}\n{go}expect launches 7\n{then}\n");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let ran = caught(|| run_through(&text, root, Some(Rc::new(Wired::new(1)))));
        assert_eq!(ran.failed, None, "{identity}");
    }
}

#[test]
fn without_the_token_or_with_a_hasty_fallback_a_lost_answer_makes_two_and_is_caught() {
    for mistake in [Mistake::LaunchWithoutToken, Mistake::FallbackAfterNoAnswer] {
        let broken = making(&[mistake, Mistake::JudgeSleeps], || {
            let (mut bench, door) = begun();
            door.order("cut-after RunInstances 3");
            // What is listed is found by its tag, whatever its token: only what is not listed yet can be made twice.
            bench.sim.inject(Fault::Lag { launches: 9, by: Duration::minutes(5) });
            bench.converge(40).map(drop)
        });
        let wrong = broken.expect_err("two machines for one slot");
        assert!(wrong.what.contains("I1: "), "{mistake:?}: {}", wrong.what);
    }
}
