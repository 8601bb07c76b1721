//! Approvals are spent before the effect, once; a purchase is sent once in its life.

use std::collections::BTreeMap;

use super::fake::{Fake, Fault, run_both, run_for};
use super::*;
use crate::apply::{Opening, is_used_up, open_approval};
use crate::provider::Class;

/// Approves this many launches of the pool.
fn approve(world: &Fake, launches: u32) -> Digest {
    let effects = Effects::one(Verb::Launch, Thing::Pool("train".into()), Amount::count(launches));
    let opened = run(open_approval(world.world(), &effects.digest(), &effects, BTreeMap::new(), "ada"));
    assert_eq!(opened, Ok(Opening::Opened));
    effects.digest()
}

fn left(world: &Fake, digest: &Digest) -> u32 {
    let pool = Thing::Pool("train".into());
    world.memory().head.approvals[digest].left.get(Verb::Launch, &pool).map_or(0, |amount| amount.count)
}

fn asked_launch(index: u32, generation: u32) -> Step {
    asked(launch(index, generation), Verb::Launch)
}

fn why(ran: &Ran, id: &str) -> String {
    match ran.last(id) {
        EventKind::NotApproved { why } => why.clone(),
        other => panic!("{id}: {other:?}"),
    }
}

#[test]
fn a_step_that_asks_runs_only_within_an_open_approval() {
    let world = Fake::new();
    let ran = go(&world, vec![asked_launch(0, 1), after(launch(1, 1), &["launch:train/0@1"]), launch(2, 1)]);
    assert_eq!(why(&ran, "launch:train/0@1"), "nobody approved it");
    assert_eq!(*ran.last("launch:train/1@1"), EventKind::Dropped { after: "launch:train/0@1".into() });
    assert_eq!(*ran.last("launch:train/2@1"), EventKind::Succeeded);
    let ran = approved(&world, vec![asked_launch(0, 1)], &"unknown".into());
    assert_eq!(why(&ran, "launch:train/0@1"), "no approval unknown was opened");
    assert_eq!(world.live().len(), 1);
}

#[test]
fn what_only_prepares_is_not_done_without_the_approval_of_what_it_prepares() {
    let world = Fake::new();
    world.node("a", |_| {});
    let begin = || Step { consent: Consent::Asked, ..cordon("a") };
    let count = LedgerChange::Removing { slot: slot(0), at: Timestamp::UNIX_EPOCH };
    let count = || Step { consent: Consent::Asked, ..after(record("removing", count.clone()), &["cordon:a"]) };
    let course = || vec![begin(), count(), after(asked_launch(0, 1), &["removing"])];
    let ran = go(&world, course());
    assert_eq!(why(&ran, "cordon:a"), "nobody approved it");
    assert_eq!((world.count("cordon"), world.memory().pools.len()), (0, 0), "{:?}", world.log());
    let digest = approve(&world, 1);
    let ran = approved(&world, course(), &digest);
    assert_eq!(*ran.last("launch:train/0@1"), EventKind::Succeeded);
    // What is behind it is paid for by now.
    let ran = approved(&world, course(), &digest);
    assert_eq!(*ran.last("cordon:a"), EventKind::Succeeded);
}

#[test]
fn a_cut_that_is_ordered_again_is_paid_for_once() {
    let world = Fake::new();
    world.node("a", |_| {});
    let effects = Effects::one(Verb::Cut, Thing::Pool("train".into()), Amount::count(1));
    assert_eq!(
        run(open_approval(world.world(), &effects.digest(), &effects, BTreeMap::new(), "ada")),
        Ok(Opening::Opened)
    );
    let cut = |flip| {
        let laid_out =
            crate::effect::LaidOut { labels: BTreeMap::new(), allocatable: BTreeMap::new(), absent: Vec::new() };
        let cut = ClusterAction::Cut { node: "a".into(), laid_out, flip, over: BTreeMap::new() };
        asked(step("cut:train/0@1", Action::Cluster(cut)), Verb::Cut)
    };
    for flip in [false, true] {
        let ran = approved(&world, vec![cut(flip)], &effects.digest());
        assert_eq!(*ran.last("cut:train/0@1"), EventKind::Succeeded, "{:?}", world.log());
        // Whoever comes next only waits for it, and it comes to nothing.
        go(&world, vec![wait("laid-out:train/0@1", Fact::After(world.now()))]);
    }
    assert!(go(&world, vec![launch(1, 1)]).report.is_done(), "it is cut, and nothing is wanted of it any more");
    assert_eq!(approved(&world, vec![cut(false)], &effects.digest()).report.not_approved.len(), 1);
}

#[test]
fn an_approval_is_spent_before_the_effect_and_is_exhausted() {
    let world = Fake::new();
    let digest = approve(&world, 2);
    let ran = approved(&world, (0..3).map(|index| asked_launch(index, 1)).collect(), &digest);
    assert_eq!(why(&ran, "launch:train/2@1"), "launch pool/train 1 where 0 is left of the approval");
    assert_eq!((left(&world, &digest), world.live().len()), (0, 2));
    let log = world.log();
    let at = |line: &str| log.iter().position(|found| found == line).unwrap();
    assert!(log[1..].iter().position(|line| line == "swap head").unwrap() + 1 < at("launch train/0@1"));
}

#[test]
fn an_approval_never_opens_again_and_is_of_its_own_effects() {
    let world = Fake::new();
    let digest = approve(&world, 1);
    approved(&world, vec![asked_launch(0, 1)], &digest);
    let effects = Effects::one(Verb::Launch, Thing::Pool("train".into()), Amount::count(1));
    let again = run(open_approval(world.world(), &digest, &effects, BTreeMap::new(), "ada"));
    assert_eq!(again, Ok(Opening::Known { left: Effects::default() }));
    assert_eq!(left(&world, &digest), 0);
    let another = run(open_approval(world.world(), &"another".into(), &effects, BTreeMap::new(), "ada"));
    assert_eq!(another.unwrap(), Opening::Opened, "the same change asked for another day is another approval");
}

#[test]
fn what_came_to_nothing_is_given_back() {
    let world = Fake::new();
    let digest = approve(&world, 1);
    world.refuse("launch", Class::NoCapacity);
    approved(&world, vec![asked_launch(0, 1)], &digest);
    assert_eq!(left(&world, &digest), 1);
    assert!(approved(&world, vec![asked_launch(0, 2)], &digest).report.is_done());
    assert_eq!(left(&world, &digest), 0);
}

#[test]
fn a_lost_answer_stays_paid_and_the_repetition_costs_nothing() {
    let world = Fake::new();
    let digest = approve(&world, 1);
    world.fault("launch", [Fault::Lose]);
    approved(&world, vec![asked_launch(0, 1)], &digest);
    assert_eq!(left(&world, &digest), 0);
    let resend = Step { id: "resend".into(), ..asked_launch(0, 1) };
    assert!(approved(&world, vec![resend], &digest).report.is_done());
    assert_eq!(world.live().len(), 1);
}

#[test]
fn a_crash_at_any_point_costs_no_approval_and_buys_none() {
    for polls in 0.. {
        let world = Fake::new();
        let digest = approve(&world, 1);
        world.refuse("launch", Class::NoCapacity);
        let (input, plan, stop) = (input(&world), plan(vec![asked_launch(0, 1)]), StopSignal::default());
        let (patience, mut tell) = (patience(&stop), |_| {});
        let done = run_for(polls, apply(&plan, &input, Some(&digest), world.world(), &patience, &mut tell)).is_some();
        for _ in 0..3 {
            let slot = world.memory().slot(&slot(0)).cloned().unwrap_or_default();
            if slot.instance.is_none() {
                let request = slot.intent.map_or(request(0, slot.generation + 1), |open| open.request);
                let next = Step { action: Action::Cloud(CloudAction::Launch(request)), ..asked_launch(0, 1) };
                approved(&world, vec![next], &digest);
            }
        }
        assert_eq!((world.live().len(), left(&world, &digest)), (1, 0), "{polls}: {:#?}", world.log());
        let more = approved(&world, vec![asked_launch(1, 1)], &digest);
        assert_eq!(more.report.not_approved.len(), 1);
        if done {
            break;
        }
    }
}

#[test]
fn two_operators_spend_an_approval_of_one_once() {
    for ahead in 0..24 {
        let world = Fake::new();
        let digest = approve(&world, 1);
        let (input, stop) = (input(&world), StopSignal::default());
        let (here, there) = (plan(vec![asked_launch(0, 1)]), plan(vec![asked_launch(1, 1)]));
        let patience = patience(&stop);
        let (mut one, mut two) = (|_| {}, |_| {});
        let (one, two) = run_both(
            ahead,
            apply(&here, &input, Some(&digest), world.world(), &patience, &mut one),
            apply(&there, &input, Some(&digest), world.world(), &patience, &mut two),
        );
        assert_eq!(one.unwrap().tally.succeeded + two.unwrap().tally.succeeded, 1);
        assert_eq!(world.live().len(), 1);
    }
}

#[test]
fn another_change_of_the_same_object_is_another_purpose() {
    let world = Fake::new();
    let apply = |value: u32| {
        let key = crate::observed::ObjectKey::cluster(crate::observed::ObjectKind::ClusterQueue, "vision");
        let object = Object::new(key, serde_json::json!({ "spec": value }));
        asked(step("apply:vision", Action::Cluster(ClusterAction::Apply(object))), Verb::Apply)
    };
    let effects = apply(1).effects;
    run(open_approval(world.world(), &effects.digest(), &effects, BTreeMap::new(), "ada")).unwrap();
    assert!(approved(&world, vec![apply(1)], &effects.digest()).report.is_done());
    let ran = approved(&world, vec![apply(2)], &effects.digest());
    assert_eq!(ran.report.not_approved.len(), 1);
    let ran = go(&world, vec![apply(1)]);
    assert_eq!(ran.report.not_approved.len(), 1, "what one approval paid, another does not get for nothing");
}

fn queue(value: u32) -> Step {
    let key = crate::observed::ObjectKey::cluster(crate::observed::ObjectKind::ClusterQueue, "vision");
    let object = Object::new(key, serde_json::json!({ "spec": value }));
    asked(step("apply:vision", Action::Cluster(ClusterAction::Apply(object))), Verb::Apply)
}

#[test]
fn what_was_paid_and_done_is_paid_for_anew_when_it_is_asked_for_again() {
    let world = Fake::new();
    let effects = queue(1).effects;
    run(open_approval(world.world(), &effects.digest(), &effects, BTreeMap::new(), "ada")).unwrap();
    assert!(approved(&world, vec![queue(1)], &effects.digest()).report.is_done());
    let ran = approved(&world, vec![queue(1)], &effects.digest());
    assert_eq!(why(&ran, "apply:vision"), "apply pool/train 1 where 0 is left of the approval");
}

/// A crash after the effect leaves it paid and not known as done. The next plan that does not want it knows.
#[test]
fn what_was_paid_and_is_wanted_no_more_is_done() {
    for polls in 0.. {
        let world = Fake::new();
        let effects = queue(1).effects;
        run(open_approval(world.world(), &effects.digest(), &effects, BTreeMap::new(), "ada")).unwrap();
        let (now, once, stop) = (input(&world), plan(vec![queue(1)]), StopSignal::default());
        let (patience, mut tell) = (patience(&stop), |_| {});
        let digest = effects.digest();
        let done = run_for(polls, apply(&once, &now, Some(&digest), world.world(), &patience, &mut tell)).is_some();
        let written = world.count("Apply") == 1;
        if !written {
            assert!(!is_used_up(&world.memory().head, &digest), "{polls}");
            // Paid or not, it needs no second word.
            assert!(approved(&world, vec![queue(1)], &effects.digest()).report.is_done(), "{polls}");
        }
        assert!(go(&world, vec![launch(0, 1)]).report.is_done());
        assert!(is_used_up(&world.memory().head, &digest), "{polls}");
        let ran = approved(&world, vec![queue(1)], &effects.digest());
        assert_eq!(ran.report.not_approved.len(), 1, "{polls}: {:#?}", world.log());
        if done {
            break;
        }
    }
}

/// A removal: the node is closed, and then it goes, which is what asks.
fn removal(node: &str, index: u32) -> Vec<Step> {
    let begin = Step { consent: Consent::Asked, ..cordon(node) };
    let go = after(asked_launch(index, 1), &[&format!("cordon:{node}")]);
    vec![begin, go]
}

#[test]
fn nothing_is_prepared_for_which_nothing_is_left_beside_what_others_prepared() {
    let world = Fake::new();
    ["a", "b", "c"].iter().for_each(|name| world.node(name, |_| {}));
    let digest = approve(&world, 2);
    let all = [removal("a", 0), removal("b", 1), removal("c", 2)].concat();
    let ran = approved(&world, all, &digest);
    assert_eq!(why(&ran, "cordon:c"), "launch pool/train 3 where 2 is left of the approval");
    assert_eq!((world.count("cordon"), world.live().len()), (2, 2), "{:?}", world.log());
}

#[test]
fn what_was_prepared_before_goes_before_what_is_not() {
    let world = Fake::new();
    ["a", "b"].iter().for_each(|name| world.node(name, |_| {}));
    let digest = approve(&world, 1);
    // The cordon of the second is there already.
    let ran = approved(&world, [removal("a", 0), vec![asked_launch(1, 1)]].concat(), &digest);
    assert_eq!(*ran.last("launch:train/1@1"), EventKind::Succeeded);
    assert_eq!(why(&ran, "cordon:a"), "launch pool/train 2 where 1 is left of the approval");
    assert_eq!(world.count("cordon"), 0);
}

#[test]
fn what_comes_to_nothing_leaves_its_part_to_others() {
    let world = Fake::new();
    ["a", "b"].iter().for_each(|name| world.node(name, |_| {}));
    let digest = approve(&world, 1);
    world.refuse("cordon a", Class::Denied);
    let second = after(removal("b", 1).remove(0), &["late"]);
    let late = wait("late", Fact::After(world.now() + secs(60)));
    let all = [removal("a", 0), vec![late, second], removal("b", 1).split_off(1)].concat();
    let ran = approved(&world, all, &digest);
    assert_eq!(*ran.last("launch:train/1@1"), EventKind::Succeeded, "{:?}", world.log());
}

fn buy(offering: &str, extends: Option<&str>) -> Step {
    let request = PurchaseRequest {
        reservation: "block".into(),
        offering: offering.into(),
        extends: extends.map(ReservationId::from),
        fee: crate::units::Usd(rust_decimal::Decimal::TEN),
    };
    step(&format!("purchase:{offering}"), Action::Cloud(CloudAction::Purchase(request)))
}

#[test]
fn a_purchase_is_intended_sent_once_and_recorded() {
    let world = Fake::new();
    assert!(go(&world, vec![buy("cb-1", None)]).report.is_done());
    assert_eq!(world.log(), ["swap head", "purchase cb-1", "swap head"]);
    let ledger = world.memory();
    assert_eq!(ledger.head.purchases[0].outcome, Outcome::Bought("cr-cb-1".into()));
    assert_eq!(ledger.head.reservations["block"].id, Some("cr-cb-1".into()));
    for again in ["cb-1", "cb-2"] {
        let ran = go(&world, vec![buy(again, None)]);
        assert_eq!(ran.report.skipped.len(), 1, "{again}");
    }
    assert!(go(&world, vec![buy("cb-3", Some("cr-cb-1"))]).report.is_done(), "more time for it is another purchase");
    assert!(go(&world, vec![buy("cb-4", Some("cr-cb-1"))]).report.is_done(), "which the plan knew of");
    assert_eq!(world.count("purchase"), 3);
}

#[test]
fn no_error_makes_a_purchase_be_sent_again() {
    for class in [Class::Throttled, Class::Conflict, Class::NoCapacity, Class::Denied, Class::Other, Class::NotFound] {
        let world = Fake::new();
        world.refuse("purchase", class);
        let ran = go(&world, vec![buy("cb-1", None)]);
        assert_eq!(ran.class("purchase:cb-1"), crate::apply::retry::name(class));
        assert!(matches!(world.memory().head.purchases[0].outcome, Outcome::Refused(_)));
        assert_eq!(go(&world, vec![buy("cb-1", None)]).report.skipped.len(), 1);
        assert_eq!(world.count("purchase"), 1);
        assert!(go(&world, vec![buy("cb-2", None)]).report.is_done(), "another offer is another purchase");
    }
}

#[test]
fn a_purchase_whose_answer_is_lost_waits_for_a_person() {
    let world = Fake::new();
    world.fault("purchase", [Fault::Lose]);
    assert_eq!(go(&world, vec![buy("cb-1", None)]).class("purchase:cb-1"), "ambiguous");
    assert_eq!(world.memory().head.purchases[0].outcome, Outcome::Open);
    for step in [buy("cb-1", None), buy("cb-2", None), buy("cb-3", Some("cr-cb-1"))] {
        assert_eq!(go(&world, vec![step]).report.skipped.len(), 1);
    }
    assert_eq!(world.count("purchase"), 1);
}

#[test]
fn a_crash_at_any_point_of_a_purchase_sends_it_once() {
    for polls in 0.. {
        let world = Fake::new();
        let (input, plan, stop) = (input(&world), plan(vec![buy("cb-1", None)]), StopSignal::default());
        let (patience, mut tell) = (patience(&stop), |_| {});
        let done = run_for(polls, apply(&plan, &input, None, world.world(), &patience, &mut tell)).is_some();
        go(&world, vec![buy("cb-1", None)]);
        go(&world, vec![buy("cb-2", None)]);
        assert!(world.count("purchase") <= 1, "{polls}: {:#?}", world.log());
        if done {
            break;
        }
    }
}

#[test]
fn two_operators_buy_once_also_where_each_chose_another_offer() {
    for (ahead, other) in (0..20).flat_map(|ahead| [(ahead, "cb-1"), (ahead, "cb-2")]) {
        let world = Fake::new();
        let (input, stop) = (input(&world), StopSignal::default());
        let (here, there) = (plan(vec![buy("cb-1", None)]), plan(vec![buy(other, None)]));
        let patience = patience(&stop);
        let (mut one, mut two) = (|_| {}, |_| {});
        let (one, two) = run_both(
            ahead,
            apply(&here, &input, None, world.world(), &patience, &mut one),
            apply(&there, &input, None, world.world(), &patience, &mut two),
        );
        assert_eq!(world.count("purchase"), 1, "{ahead}: {:#?}", world.log());
        assert_eq!(one.unwrap().tally.succeeded + two.unwrap().tally.succeeded, 1);
    }
}

#[test]
fn an_intent_to_buy_that_may_not_have_been_written_is_not_sent() {
    let world = Fake::new();
    world.fault("swap head", [Fault::Lose]);
    assert_eq!(go(&world, vec![buy("cb-1", None)]).class("purchase:cb-1"), "ambiguous");
    assert_eq!(world.count("purchase"), 0);
}
