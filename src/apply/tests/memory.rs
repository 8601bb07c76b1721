//! What is removed is ours and is counted; what is recorded is still true.

use super::fake::{Fake, run_for};
use super::*;
use crate::observed::InstanceState;
use crate::provider::Class;

fn removals(world: &Fake) -> usize {
    world.memory().pools["train"].removed.len()
}

#[test]
fn a_removal_by_choice_is_counted_before_it_happens() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    assert!(go(&world, vec![terminate(0, "i-0")]).report.is_done());
    let log: Vec<String> = world.log().into_iter().filter(|line| !line.starts_with("look")).collect();
    assert_eq!(log, ["swap train", "terminate i-0"]);
    assert_eq!(removals(&world), 1);
}

#[test]
fn what_the_cloud_takes_and_what_is_sick_is_not_counted() {
    let at = Timestamp::UNIX_EPOCH;
    let remedy = crate::fleet::policy::Remedy::Replace;
    for reason in
        [Reason::CapacityEnds { reservation: "block".into(), at }, Reason::Sick { remedy, symptom: "xid 79".into() }]
    {
        let world = Fake::new();
        world.runs(&request(0, 1));
        assert!(go(&world, vec![Step { urgency: reason.urgency(), reason, ..terminate(0, "i-0") }]).report.is_done());
        assert_eq!(removals(&world), 0);
    }
    let world = Fake::new();
    world.runs(&request(0, 1));
    let planned = record("removing", LedgerChange::Removing { slot: slot(0), at: world.now() });
    go(&world, vec![planned, after(terminate(0, "i-0"), &["removing"])]);
    assert_eq!(removals(&world), 1, "a plan that counts for itself is not counted twice");
}

#[test]
fn a_removal_counts_from_when_it_happens_and_not_from_when_it_was_planned() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    let planned = record("removing", LedgerChange::Removing { slot: slot(0), at: world.now() });
    world.0.borrow_mut().now += SignedDuration::from_mins(40);
    go(&world, vec![planned, after(terminate(0, "i-0"), &["removing"])]);
    assert_eq!(world.memory().pools["train"].removed, [(0, world.now())]);
}

#[test]
fn a_removal_that_came_to_nothing_counts_from_the_next_try() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    world.remember(&[LedgerChange::Removing { slot: slot(0), at: world.now() }]);
    world.0.borrow_mut().now += SignedDuration::from_mins(40);
    go(&world, vec![terminate(0, "i-0")]);
    assert_eq!(world.memory().pools["train"].removed, [(0, world.now())]);
}

#[test]
fn a_crash_at_any_point_of_a_removal_counts_it_once() {
    for polls in 0.. {
        let world = Fake::new();
        world.runs(&request(0, 1));
        let (input, plan, stop) = (input(&world), plan(vec![terminate(0, "i-0")]), StopSignal::default());
        let (patience, mut tell) = (patience(&stop), |_| {});
        let done = run_for(polls, apply(&plan, &input, None, world.world(), &patience, &mut tell)).is_some();
        world.0.borrow_mut().now += secs(30);
        assert!(go(&world, vec![terminate(0, "i-0")]).report.is_done());
        assert_eq!((removals(&world), world.count("terminate"), world.live().len()), (1, 1, 0), "{polls}");
        if done {
            break;
        }
    }
}

#[test]
fn only_what_tag_and_ledger_call_ours_is_terminated() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    world.runs(&request(1, 1));
    let ran = go(&world, vec![terminate(0, "i-1")]);
    assert_eq!(ran.skipped("terminate:train/0"), "i-1 does not carry the tag of train/0");
    assert_eq!(go(&world, vec![terminate(0, "i-9")]).skipped("terminate:train/0"), "i-9 is not there");
    let tag = |world: &Fake, change: fn(&mut crate::observed::SlotTag)| {
        change(world.0.borrow_mut().instances.get_mut("i-0").unwrap().tag.as_mut().unwrap());
    };
    tag(&world, |tag| tag.fleet = "another".into());
    let ran = go(&world, vec![terminate(0, "i-0")]);
    assert_eq!(ran.skipped("terminate:train/0"), "i-0 does not carry the tag of train/0");
    tag(&world, |tag| tag.fleet = FLEET.into());
    world.remember(&[LedgerChange::Lost { slot: slot(0) }]);
    let ran = go(&world, vec![terminate(0, "i-0")]);
    assert_eq!(ran.skipped("terminate:train/0"), "train/0 does not hold i-0 any more");
    assert_eq!(world.count("terminate"), 0);
}

#[test]
fn an_instance_that_is_going_is_not_terminated_again() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    world.0.borrow_mut().instances.get_mut("i-0").unwrap().state = InstanceState::ShuttingDown;
    let ran = go(&world, vec![terminate(0, "i-0")]);
    assert!(ran.report.is_done());
    assert_eq!((ran.report.effects, removals(&world)), (0, 0));
}

#[test]
fn what_moves_while_a_removal_is_counted_stops_it() {
    let world = Fake::new();
    let id = world.runs(&request(0, 1));
    world.node("a", |node| node.instance = Some(id));
    world.when("swap train", |state| state.nodes.get_mut("a").unwrap().ready = false);
    let ran = go(&world, vec![requires(terminate(0, "i-0"), Fact::Ready("a".into()))]);
    assert_eq!(ran.skipped("terminate:train/0"), "a is not ready");
    assert_eq!(world.count("terminate"), 0);
}

#[test]
fn a_stale_record_does_not_forget_what_another_operator_launched() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    let old = input(&world);
    world.remember(&[LedgerChange::Lost { slot: slot(0) }]);
    world.runs(&request(0, 2));
    let stop = StopSignal::default();
    for change in [
        LedgerChange::Lost { slot: slot(0) },
        LedgerChange::Missing { slot: slot(0), since: Some(world.now()) },
        LedgerChange::Closed { slot: slot(0) },
        LedgerChange::Forgotten { pool: "train".into() },
        LedgerChange::Claimed { slot: slot(0), node: "a".into() },
        LedgerChange::Adopted { slot: slot(0), instance: "i-9".into(), generation: 1, launched: world.now() },
    ] {
        let ran = try_go(&world, &old, vec![record("r", change.clone())], None, &patience(&stop)).unwrap();
        assert_eq!(ran.skipped("r"), "train/0 is not as the plan saw it", "{change:?}");
    }
    assert_eq!(world.memory().slot(&slot(0)).unwrap().instance, Some("i-1".into()));
    let fresh = LedgerChange::Lost { slot: slot(0) };
    assert!(go(&world, vec![record("r", fresh)]).report.is_done());
    assert_eq!(world.memory().slot(&slot(0)).unwrap().instance, None);
}

#[test]
fn a_slot_with_an_open_request_is_not_closed() {
    let world = Fake::new();
    let intent = Intent { request: request(0, 1), plan: "p".into(), at: world.now() };
    world.remember(&[LedgerChange::Intend { intent }]);
    let ran = go(&world, vec![record("closed", LedgerChange::Closed { slot: slot(0) })]);
    assert_eq!(ran.report.skipped.len(), 1);
}

#[test]
fn a_record_that_loses_is_made_on_what_is_there_then() {
    let world = Fake::new();
    world.fault("swap train", [super::fake::Fault::Refuse(crate::provider::ProviderError::new(Class::Conflict, "x"))]);
    world.when("swap train", |state| {
        state.remember(&[LedgerChange::Claimed { slot: slot(5), node: "b".into() }]);
    });
    let claim = record("claim", LedgerChange::Claimed { slot: slot(0), node: "a".into() });
    assert!(go(&world, vec![claim.clone()]).report.is_done());
    let ledger = world.memory();
    assert_eq!(ledger.slot(&slot(0)).unwrap().node, Some("a".into()));
    assert_eq!(ledger.slot(&slot(5)).unwrap().node, Some("b".into()));
    let ran = go(&world, vec![claim]);
    assert_eq!((ran.report.is_done(), ran.report.records), (true, 0), "twice is once");
    let taken = record("taken", LedgerChange::Claimed { slot: slot(1), node: "a".into() });
    assert_eq!(go(&world, vec![taken]).report.skipped.len(), 1, "a node is in one slot");
}

#[test]
fn a_crash_at_any_point_of_a_rename_loses_no_slot() {
    for polls in 0.. {
        let world = Fake::new();
        world.runs(&request(0, 1));
        let rename = || record("rename", LedgerChange::Renamed { from: "train".into(), to: "big".into() });
        let (input, plan, stop) = (input(&world), plan(vec![rename()]), StopSignal::default());
        let (patience, mut tell) = (patience(&stop), |_| {});
        let done = run_for(polls, apply(&plan, &input, None, world.world(), &patience, &mut tell)).is_some();
        let held = |ledger: &Ledger| {
            let slots = ledger.pools.values().flat_map(|pool| pool.slots.values());
            slots.filter(|slot| slot.instance.is_some()).count()
        };
        assert!(held(&world.memory()) >= 1);
        assert!(go(&world, vec![rename()]).report.is_done());
        let ledger = world.memory();
        assert_eq!((held(&ledger), ledger.pools["train"].is_something()), (1, false), "{polls}");
        assert!(ledger.slot(&SlotId::new(&"big".into(), 0)).is_some());
        if done {
            break;
        }
    }
}

#[test]
fn a_pool_does_not_take_the_name_of_one_that_has_slots() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    world.remember(&[LedgerChange::Claimed { slot: SlotId::new(&"big".into(), 4), node: "b".into() }]);
    let rename = record("rename", LedgerChange::Renamed { from: "train".into(), to: "big".into() });
    assert_eq!(go(&world, vec![rename]).skipped("rename"), "big has slots of its own: train cannot take its name");
}

#[test]
fn an_instance_keeps_the_tag_of_a_pool_that_was_renamed() {
    let world = Fake::new();
    world.runs(&request(0, 1));
    world.remember(&[LedgerChange::Renamed { from: "train".into(), to: "big".into() }]);
    let action = CloudAction::Terminate { slot: SlotId::new(&"big".into(), 0), instance: "i-0".into() };
    assert!(go(&world, vec![step("terminate", Action::Cloud(action))]).report.is_done());
}

#[test]
fn the_first_record_says_whose_ledger_it_is() {
    let world = Fake::default();
    world.node("a", |_| {});
    assert!(go(&world, Vec::new()).report.is_done());
    assert_eq!(world.memory().head.fleet, None, "a plan of nothing writes nothing");
    assert!(go(&world, vec![cordon("a")]).report.is_done());
    assert_eq!(world.memory().head.fleet, Some(FLEET.into()));

    let world = Fake::default();
    world.node("a", |_| {});
    let old = input(&world);
    world.remember(&[LedgerChange::Begin { fleet: "another".into(), began: None }]);
    let stop = StopSignal::default();
    let error = try_go(&world, &old, vec![cordon("a")], None, &patience(&stop)).err();
    let expected = ApplyError::AnotherFleet { planned: FLEET.into(), found: "another".into() };
    assert_eq!((error, world.count("cordon")), (Some(expected), 0));
}

#[test]
fn without_the_ledger_nothing_is_done() {
    let world = Fake::default();
    world.node("a", |_| {});
    world.refuse("swap head", Class::Denied);
    let stop = StopSignal::default();
    let error = try_go(&world, &input(&world), vec![cordon("a")], None, &patience(&stop)).err();
    assert!(matches!(error, Some(ApplyError::Ledger(_))));
    assert_eq!(world.count("cordon"), 0);
}
