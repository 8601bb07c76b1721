//! Launches and reservations: intent first, one token, one instance.

use super::fake::{Fake, Fault, run_both, run_for};
use super::*;
use crate::provider::Class;

const LAUNCH: &str = "launch:train/0@1";

/// What a planner would do about slot 0: send an open request again, launch if there is nothing.
fn next_step(world: &Fake) -> Option<Step> {
    let slot = world.memory().slot(&slot(0)).cloned().unwrap_or_default();
    match (slot.intent, slot.instance) {
        (Some(open), _) => Some(step("resend:train/0", Action::Cloud(CloudAction::Launch(open.request)))),
        (None, Some(_)) => None,
        (None, None) => Some(launch(0, slot.generation + 1)),
    }
}

/// Rounds until there is nothing to do.
fn converge(world: &Fake) {
    for _ in 0..5 {
        match next_step(world) {
            Some(step) => drop(go(world, vec![step])),
            None => return,
        }
    }
    panic!("it does not converge: {:#?}", world.log());
}

fn has_exactly_one(world: &Fake) {
    let live = world.live();
    assert_eq!(live.len(), 1, "{:#?}", world.log());
    let slot = world.memory().slot(&slot(0)).cloned().unwrap();
    assert_eq!((slot.instance.as_ref(), slot.intent), (live.first(), None));
}

#[test]
fn the_intent_is_recorded_before_the_launch_and_the_instance_after() {
    let world = Fake::new();
    assert!(go(&world, vec![launch(0, 1)]).report.is_done());
    assert_eq!(world.log(), ["swap train", "launch train/0@1", "swap train"]);
    has_exactly_one(&world);
}

#[test]
fn a_crash_at_any_point_of_a_launch_makes_no_second_instance() {
    let mut orphans = 0;
    for polls in 0.. {
        let world = Fake::new();
        let (input, plan, stop) = (input(&world), plan(vec![launch(0, 1)]), StopSignal::default());
        let (patience, mut tell) = (patience(&stop), |_| {});
        let done = run_for(polls, apply(&plan, &input, None, world.world(), &patience, &mut tell)).is_some();
        let known = world.memory().slot(&slot(0)).is_some_and(|slot| slot.instance.is_some());
        orphans += usize::from(!known && world.live().len() == 1);
        converge(&world);
        has_exactly_one(&world);
        if done {
            assert!(polls > 8, "the fake yields at every call");
            break;
        }
    }
    assert!(orphans >= 2, "no crash fell between the launch and its record");
}

#[test]
fn a_lost_answer_leaves_the_intent_open_and_the_next_plan_finds_the_instance() {
    let world = Fake::new();
    world.fault("launch", [Fault::Lose]);
    let ran = go(&world, vec![launch(0, 1), after(cordon("a"), &[LAUNCH])]);
    assert_eq!(ran.class(LAUNCH), "ambiguous");
    assert_eq!(*ran.last("cordon:a"), EventKind::Dropped { after: LAUNCH.into() });
    assert_eq!(world.count("launch"), 1, "it is not sent again by itself");
    assert_eq!(world.memory().slot(&slot(0)).unwrap().intent.as_ref().unwrap().request, request(0, 1));
    converge(&world);
    has_exactly_one(&world);
}

#[test]
fn two_operators_with_the_same_plan_launch_once() {
    let mut lost = 0;
    for ahead in 0..20 {
        let world = Fake::new();
        let (input, plan, stop) = (input(&world), plan(vec![launch(0, 1)]), StopSignal::default());
        let patience = patience(&stop);
        let (mut one, mut two) = (|_| {}, |_| {});
        let (one, two) = run_both(
            ahead,
            apply(&plan, &input, None, world.world(), &patience, &mut one),
            apply(&plan, &input, None, world.world(), &patience, &mut two),
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        has_exactly_one(&world);
        assert_eq!(world.count("launch"), 1, "{ahead}: {:#?}", world.log());
        assert_eq!(one.tally.succeeded + two.tally.succeeded, 1);
        lost += one.tally.skipped + two.tally.skipped;
    }
    assert_eq!(lost, 20, "the loser skips");
}

#[test]
fn a_stale_plan_does_not_launch_into_a_slot_that_moved() {
    let world = Fake::new();
    let old = input(&world);
    world.runs(&request(0, 1));
    let stop = StopSignal::default();
    let ran = try_go(&world, &old, vec![launch(0, 1)], None, &patience(&stop)).unwrap();
    assert_eq!(ran.skipped(LAUNCH), "train/0 has moved on to generation 1");
    let ran = try_go(&world, &old, vec![launch(0, 2)], None, &patience(&stop)).unwrap();
    assert_eq!(ran.skipped("launch:train/0@2"), "train/0 has another instance by now");
    assert_eq!(ran.report.effects, 0);
}

#[test]
fn a_replacement_is_launched_only_when_the_old_instance_is_seen_to_be_gone() {
    let world = Fake::new();
    let id = world.runs(&request(0, 1));
    let ran = go(&world, vec![launch(0, 2)]);
    assert_eq!(ran.skipped("launch:train/0@2"), "i-0 is Running");
    world.0.borrow_mut().instances.get_mut(&id).unwrap().state = crate::observed::InstanceState::Terminated;
    assert!(go(&world, vec![launch(0, 2)]).report.is_done());
    has_exactly_one(&world);
}

#[test]
fn a_definite_no_closes_the_intent_and_only_want_of_capacity_blames_the_source() {
    for (class, refused) in [
        (Class::NoCapacity, vec![3]),
        (Class::Denied, vec![]),
        (Class::NotFound, vec![]),
        (Class::Conflict, vec![]),
        (Class::Other, vec![]),
    ] {
        let world = Fake::new();
        world.refuse("launch", class);
        let ran = go(&world, vec![launch(0, 1)]);
        assert_eq!(ran.class(LAUNCH), crate::apply::retry::name(class));
        let slot = world.memory().slot(&slot(0)).cloned().unwrap();
        assert_eq!((slot.generation, slot.intent), (1, None), "{class:?}");
        assert_eq!(slot.refused.into_keys().collect::<Vec<_>>(), refused);
        converge(&world);
        has_exactly_one(&world);
    }
}

#[test]
fn a_no_to_a_repetition_says_nothing_of_the_first_until_that_would_show() {
    for (minutes, closed) in [(0, false), (9, false), (11, true)] {
        let world = Fake::new();
        world.fault("launch", [Fault::Lose]);
        go(&world, vec![launch(0, 1)]);
        world.0.borrow_mut().now += secs(minutes * 60);
        world.refuse("launch", Class::Denied);
        let ran = go(&world, vec![next_step(&world).unwrap()]);
        assert_eq!(ran.class("resend:train/0"), "denied");
        assert_eq!(world.memory().slot(&slot(0)).unwrap().intent.is_none(), closed, "{minutes}");
    }
}

#[test]
fn too_many_requests_send_the_same_request_again_and_never_close_the_intent() {
    let world = Fake::new();
    (0..3).for_each(|_| world.refuse("launch", Class::Throttled));
    assert!(go(&world, vec![launch(0, 1)]).report.is_done());
    assert_eq!((world.count("launch"), world.count("swap train")), (4, 2));
    has_exactly_one(&world);

    let world = Fake::new();
    (0..9).for_each(|_| world.refuse("launch", Class::Throttled));
    let ran = go(&world, vec![launch(0, 1)]);
    assert_eq!(ran.class(LAUNCH), "throttled");
    assert!(world.memory().slot(&slot(0)).unwrap().intent.is_some());
    converge(&world);
    has_exactly_one(&world);
}

#[test]
fn a_ledger_that_moves_between_the_launch_and_its_record_is_read_again() {
    let world = Fake::new();
    world.when("launch", |state| state.remember(&[LedgerChange::Missing { slot: slot(7), since: None }]));
    world.refuse("swap train", Class::Conflict);
    assert!(go(&world, vec![launch(0, 1)]).report.is_done());
    has_exactly_one(&world);
}

#[test]
fn a_launch_that_the_ledger_does_not_expect_any_more_is_reported() {
    let world = Fake::new();
    world.when("launch", |state| {
        let intent = Intent { request: request(0, 2), plan: "other".into(), at: state.now };
        state.remember(&[LedgerChange::LaunchRefused { slot: slot(0), source: None, at: state.now }]);
        state.remember(&[LedgerChange::Intend { intent }]);
    });
    let ran = go(&world, vec![launch(0, 1)]);
    assert_eq!(ran.class(LAUNCH), "conflict");
    assert_eq!(world.memory().slot(&slot(0)).unwrap().intent.as_ref().unwrap().request, request(0, 2));
}

#[test]
fn an_answer_that_cannot_be_recorded_is_recorded_later_without_another_request() {
    let world = Fake::new();
    world.when("launch", |state| {
        let throttled = crate::provider::ProviderError::new(Class::Throttled, "slow down");
        state.faults.push(("swap train", [Fault::Refuse(throttled)].into()));
    });
    assert!(go(&world, vec![launch(0, 1)]).report.is_done());
    assert_eq!((world.count("launch"), world.count("slept")), (1, 1));
    has_exactly_one(&world);
}

#[test]
fn a_swap_of_the_intent_whose_answer_is_lost_is_looked_up() {
    let world = Fake::new();
    world.fault("swap train", [Fault::Lose]);
    assert!(go(&world, vec![launch(0, 1)]).report.is_done());
    assert_eq!(world.count("launch"), 1);
    has_exactly_one(&world);
}

#[test]
fn many_launches_of_one_pool_do_not_get_in_each_others_way() {
    let world = Fake::new();
    let stop = StopSignal::default();
    let patience = Patience { concurrency: 32, ..patience(&stop) };
    let steps = (0..32).map(|index| launch(index, 1)).collect();
    let ran = try_go(&world, &input(&world), steps, None, &patience).unwrap();
    assert!(ran.report.is_done());
    assert_eq!((world.live().len(), world.count("swap train")), (32, 64));
}

fn reserve(generation: u32) -> Step {
    let request = ReserveRequest {
        reservation: "base".into(),
        generation,
        token: hash::named_token(&["base", &generation.to_string()]),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        nodes: 4,
        end: None,
        matching: crate::fleet::reservation::Match::Targeted,
    };
    step("reserve:base", Action::Cloud(CloudAction::Reserve(request)))
}

#[test]
fn a_reservation_is_made_like_a_launch() {
    let world = Fake::new();
    assert!(go(&world, vec![reserve(1)]).report.is_done());
    assert_eq!(world.log(), ["swap head", "reserve base@1", "swap head"]);
    let held = world.memory().head.reservations.remove("base").unwrap();
    assert!(held.id.is_some() && held.intent.is_none());
    assert_eq!(go(&world, vec![reserve(1)]).skipped("reserve:base"), "base has moved on to generation 1");

    let world = Fake::new();
    world.refuse("reserve", Class::NoCapacity);
    assert_eq!(go(&world, vec![reserve(1)]).class("reserve:base"), "noCapacity");
    let held = world.memory().head.reservations.remove("base").unwrap();
    assert!(held.refused.is_some() && held.intent.is_none());

    let world = Fake::new();
    world.fault("reserve", [Fault::Lose]);
    assert_eq!(go(&world, vec![reserve(1)]).class("reserve:base"), "ambiguous");
    assert!(world.memory().head.reservations["base"].intent.is_some());
    assert!(go(&world, vec![reserve(1)]).report.is_done(), "the same request again");
}
