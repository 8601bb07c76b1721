//! Machines that change places: whoever crashes when, and whoever comes between, a slot has one and a machine one slot.

use std::collections::BTreeSet;

use super::fake::{Fake, run_both, run_for};
use super::*;

fn serve() -> SlotId {
    SlotId::new(&"serve".into(), 0)
}

/// i-0 runs for train/0 and i-1 for serve/0.
fn world() -> Fake {
    let world = Fake::new();
    world.runs(&request(0, 1));
    world.runs(&LaunchRequest { slot: serve(), ..request(1, 1) });
    world
}

fn machine(world: &Fake, slot: &SlotId) -> Machine {
    world.memory().slot(slot).and_then(|found| found.machine(slot)).unwrap()
}

fn exchanged(gives: &Machine, takes: &Machine) -> Vec<Step> {
    let (with, gives_id, takes_id) = (slot(0), takes.instance.clone(), gives.clone());
    let second = LedgerChange::Exchanged { slot: serve(), with, gives: gives_id, takes: takes_id };
    let over = LedgerChange::ExchangeOver { slot: slot(0), keeps: takes.instance.clone() };
    vec![record("exchanged", second), after(record("over", over), &["exchanged"])]
}

fn steps(gives: &Machine, takes: &Machine) -> Vec<Step> {
    let (gives_id, takes_machine) = (gives.instance.clone(), takes.clone());
    let first = LedgerChange::Exchange { slot: slot(0), with: serve(), gives: gives_id, takes: takes_machine };
    let mut all = vec![record("exchange", first)];
    all.extend(exchanged(gives, takes));
    all[1].after = vec!["exchange".into()];
    all
}

/// Who has what, as it is read.
fn read(world: &Fake) -> (String, String) {
    let mut ledger = world.memory();
    ledger.settle_exchanges();
    let has = |slot: &SlotId| ledger.slot(slot).and_then(|found| found.instance.clone());
    let all: Vec<InstanceId> = [slot(0), serve()].iter().filter_map(has).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    let name = |slot: &SlotId| has(slot).map_or("nothing".into(), |id| id.to_string());
    (name(&slot(0)), name(&serve()))
}

fn both(one: &str, other: &str) -> (String, String) {
    (one.into(), other.into())
}

#[test]
fn a_crash_at_any_point_of_an_exchange_leaves_both_or_neither_changed() {
    for polls in 0.. {
        let world = world();
        let (gives, takes) = (machine(&world, &slot(0)), machine(&world, &serve()));
        let (input, plan, stop) = (input(&world), plan(steps(&gives, &takes)), StopSignal::default());
        let (patience, mut tell) = (patience(&stop), |_| {});
        let done = run_for(polls, apply(&plan, &input, None, world.world(), &patience, &mut tell)).is_some();
        let before = read(&world);
        assert!([both("i-0", "i-1"), both("i-1", "i-0")].contains(&before), "{polls}: {before:?}");
        let rest = match world.memory().slot(&slot(0)).unwrap().exchange.is_some() {
            true => exchanged(&gives, &takes),
            false if before == both("i-0", "i-1") => steps(&gives, &takes),
            false => Vec::new(),
        };
        assert!(go(&world, rest).report.is_done(), "{polls}");
        assert_eq!(read(&world), both("i-1", "i-0"), "{polls}");
        assert_eq!(world.memory().exchanges(), [], "{polls}");
        if done {
            break;
        }
    }
}

#[test]
fn two_operators_with_the_same_exchange_make_it_once() {
    for ahead in 0..40 {
        let world = world();
        let (gives, takes) = (machine(&world, &slot(0)), machine(&world, &serve()));
        let (input, plan, stop) = (input(&world), plan(steps(&gives, &takes)), StopSignal::default());
        let patience = patience(&stop);
        let (mut tell, mut tell_too) = (|_| {}, |_| {});
        let one = apply(&plan, &input, None, world.world(), &patience, &mut tell);
        let two = apply(&plan, &input, None, world.world(), &patience, &mut tell_too);
        let (one, two) = run_both(ahead, one, two);
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(read(&world), both("i-1", "i-0"), "{ahead}");
        let left = world.memory().exchanges();
        assert_eq!(left, [], "{ahead}");
    }
}

#[test]
fn nothing_is_exchanged_where_a_slot_is_not_as_the_plan_saw_it() {
    let lost = |slot: SlotId| LedgerChange::Lost { slot };
    for (change, name) in [(lost(slot(0)), "train/0"), (lost(serve()), "serve/0")] {
        let world = world();
        let (gives, takes) = (machine(&world, &slot(0)), machine(&world, &serve()));
        let (input, stop) = (input(&world), StopSignal::default());
        world.remember(&[change]);
        let ran = try_go(&world, &input, steps(&gives, &takes), None, &patience(&stop)).unwrap();
        assert_eq!(ran.skipped("exchange"), format!("{name} is not as the plan saw it"));
        assert_eq!(world.memory().exchanges(), []);
    }
}

#[test]
fn where_the_other_slot_lost_its_machine_in_between_the_first_has_its_own_again() {
    let world = world();
    let (gives, takes) = (machine(&world, &slot(0)), machine(&world, &serve()));
    let first = steps(&gives, &takes).remove(0);
    assert!(go(&world, vec![first]).report.is_done());
    world.remember(&[LedgerChange::Lost { slot: serve() }]);
    assert_eq!(read(&world), both("i-0", "nothing"));
    let ran = go(&world, exchanged(&gives, &takes));
    assert_eq!(ran.skipped("exchanged"), "serve/0 is not as the plan saw it");
    let back = LedgerChange::ExchangeOver { slot: slot(0), keeps: gives.instance };
    assert!(go(&world, vec![record("over", back)]).report.is_done());
    assert_eq!((read(&world), world.memory().exchanges()), (both("i-0", "nothing"), vec![]));
}

#[test]
fn a_machine_that_changed_places_is_ended_as_what_it_serves() {
    let world = world();
    let (gives, takes) = (machine(&world, &slot(0)), machine(&world, &serve()));
    assert_eq!(
        go(&world, vec![terminate(0, "i-1")]).skipped("terminate:train/0"),
        "i-1 does not carry the tag of train/0"
    );
    assert!(go(&world, steps(&gives, &takes)).report.is_done());
    assert_eq!(
        go(&world, vec![terminate(0, "i-0")]).skipped("terminate:train/0"),
        "train/0 does not hold i-0 any more"
    );
    assert!(go(&world, vec![terminate(0, "i-1")]).report.is_done());
    assert_eq!(world.live(), [InstanceId::from("i-0")]);
}
