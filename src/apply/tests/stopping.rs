//! Freezes, hands on a node, and a person who says stop.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::super::gate;
use super::fake::{Fake, State, run};
use super::*;
use crate::observed::NoticeKind;
use crate::provider::Class;

fn freeze(scope: Scope, all: bool) -> LedgerChange {
    LedgerChange::Freeze(Freeze { scope, by: "ada".into(), at: Timestamp::UNIX_EPOCH, reason: "audit".into(), all })
}

fn stopped_by_ada() -> EventKind {
    EventKind::Frozen { by: "ada".into(), reason: "audit".into() }
}

#[test]
fn a_freeze_between_two_steps_stops_the_second() {
    let world = Fake::new();
    world.node("a", |_| {});
    world.when("launch train/0@1", |state: &mut State| state.remember(&[freeze(Scope::Fleet, false)]));
    let steps = vec![
        launch(0, 1),
        after(launch(1, 1), &["launch:train/0@1"]),
        after(cordon("a"), &["launch:train/0@1"]),
        after(wait("later", Fact::After(Timestamp::UNIX_EPOCH)), &["launch:train/0@1"]),
    ];
    let ran = go(&world, steps);
    assert_eq!(*ran.last("launch:train/0@1"), EventKind::Succeeded);
    assert_eq!(*ran.last("launch:train/1@1"), stopped_by_ada());
    assert_eq!(*ran.last("cordon:a"), stopped_by_ada());
    assert_eq!(*ran.last("later"), EventKind::Succeeded, "looking is no effect");
    assert_eq!((ran.report.effects, ran.report.frozen.len()), (1, 2));
}

#[test]
fn a_freeze_stops_what_it_names_and_nothing_else() {
    let world = Fake::new();
    world.node("a", |_| {});
    world.node("b", |node| drop(node.labels.insert(marks::POOL.into(), "serve".into())));
    world.node("c", |_| {});
    world.remember(&[freeze(Scope::Node("a".into()), false), freeze(Scope::Pool("serve".into()), false)]);
    let ran = go(&world, vec![cordon("a"), cordon("b"), cordon("c")]);
    assert_eq!(*ran.last("cordon:a"), stopped_by_ada());
    assert_eq!(*ran.last("cordon:b"), stopped_by_ada(), "a node of the pool, whatever the step belongs to");
    assert_eq!(*ran.last("cordon:c"), EventKind::Succeeded);
    world.remember(&[freeze(Scope::Pool("train".into()), false)]);
    assert_eq!(*go(&world, vec![cordon("c")]).last("cordon:c"), stopped_by_ada());
}

#[test]
fn a_freeze_of_a_node_stops_the_gang_that_is_on_it() {
    let world = Fake::new();
    ["a", "b"].iter().for_each(|name| world.node(name, |_| {}));
    let mark = marks::Mark::new(Timestamp::UNIX_EPOCH, "remove");
    let suspend = || {
        let mark = mark.clone();
        step("suspend", Action::Cluster(ClusterAction::Suspend { workload: "w".into(), mark }))
    };
    let workload = crate::observed::WorkloadSeen {
        name: NamespacedName::new("vision", "w"),
        queue: "vision".into(),
        tier: None,
        priority: 0,
        created: Timestamp::UNIX_EPOCH,
        active: true,
        marks: Default::default(),
        pods: 2,
        fewest: None,
        requests: Default::default(),
        per_pod: Default::default(),
        required_level: None,
        preferred_level: None,
        placed: false,
        reserved: Some(Timestamp::UNIX_EPOCH),
        evicted: false,
        finished: false,
        flavors: Default::default(),
        nodes: [("a".into(), 1), ("b".into(), 1)].into(),
        saved: None,
    };
    world.0.borrow_mut().workloads.insert("w".into(), workload);
    world.remember(&[freeze(Scope::Node("b".into()), false)]);
    assert_eq!(*go(&world, vec![suspend()]).last("suspend"), stopped_by_ada());
    world.remember(&[LedgerChange::Thaw(Scope::Node("b".into()))]);
    assert_eq!(*go(&world, vec![suspend()]).last("suspend"), EventKind::Succeeded);
    world.0.borrow_mut().workloads.get_mut("w").unwrap().finished = true;
    assert_eq!(go(&world, vec![suspend()]).report.effects, 0, "what has ended need not be stopped");
}

#[test]
fn what_has_a_deadline_goes_on_under_a_freeze_that_is_not_of_all() {
    let world = Fake::new();
    ["a", "b"].iter().for_each(|name| world.node(name, |_| {}));
    world.remember(&[freeze(Scope::Fleet, false)]);
    let reason = Reason::Notice { why: NoticeKind::BlockEnd, at: world.now() };
    let steps = || {
        let ends = |name: &str| Step { urgency: reason.urgency(), reason: reason.clone(), ..cordon(name) };
        vec![ends("a"), ends("b")]
    };
    assert!(go(&world, steps()).report.is_done());
    world.remember(&[freeze(Scope::Pool("train".into()), true)]);
    let ran = go(&world, steps());
    assert_eq!((ran.last("cordon:a"), ran.last("cordon:b")), (&stopped_by_ada(), &stopped_by_ada()));
}

#[test]
fn the_documents_freeze_stops_everything() {
    let world = Fake::new();
    world.node("a", |_| {});
    let mut frozen = input(&world);
    let mut standing = (*frozen.target.standing).clone();
    standing.frozen = Some("migration".into());
    frozen.target.standing = standing.into();
    let (stop, reason) = (StopSignal::default(), Reason::Notice { why: NoticeKind::BlockEnd, at: world.now() });
    let steps = vec![Step { urgency: reason.urgency(), reason, ..cordon("a") }];
    let ran = try_go(&world, &frozen, steps, None, &patience(&stop)).unwrap();
    let by = "the Fleet document".to_string();
    assert_eq!(*ran.last("cordon:a"), EventKind::Frozen { by, reason: "migration".into() });
}

#[test]
fn nobody_touches_a_node_that_a_person_keeps() {
    let world = Fake::new();
    let id = world.runs(&request(0, 1));
    world.node("a", |node| {
        node.instance = Some(id);
        node.annotations.insert(marks::HANDS_OFF.into(), "debugging".into());
    });
    let ran = go(&world, vec![cordon("a"), terminate(0, "i-0")]);
    let kept = EventKind::Frozen { by: "tidewright.dev/hands-off on a".into(), reason: "debugging".into() };
    assert_eq!((ran.last("cordon:a"), ran.last("terminate:train/0")), (&kept, &kept));
    assert_eq!(ran.report.effects, 0);
}

/// Three nodes of `train`, and the plan that closes `a` and then `b` for this; `c` is taken out of service when `a` is closed.
fn room_is_used_up(why: &str, urgency: Urgency, b_requires: Vec<Fact>) -> Ran {
    let world = Fake::new();
    for (index, name) in (0..).zip(["a", "b", "c"]) {
        world.node(name, |node| node.taints.extend((name == "b").then(marks::starting_taint)));
        world.remember(&[LedgerChange::Claimed { slot: slot(index), node: name.into() }]);
    }
    let nodes = ["a", "b", "c"].map(|name| Subject::Node(name.into()));
    let mut input = input(&world);
    input.observed = run(gate::look(world.world(), &nodes.into()));
    world.when("cordon a", |state: &mut State| {
        let quarantine = Quarantine { by: "ada".into(), at: Timestamp::UNIX_EPOCH, reason: "loud".into() };
        state.remember(&[LedgerChange::Quarantine { node: "c".into(), quarantine }]);
    });
    let mark = marks::Mark::new(Timestamp::UNIX_EPOCH, why);
    let closes = |name: &str| {
        let action = Action::Cluster(ClusterAction::Cordon { node: name.into(), mark: mark.clone() });
        Step { urgency, ..step(&format!("cordon:{name}"), action) }
    };
    let stop = StopSignal::default();
    let second = Step { requires: b_requires, ..after(closes("b"), &["cordon:a"]) };
    let steps = vec![closes("a"), second];
    try_go(&world, &input, steps, None, &patience(&stop)).unwrap()
}

#[test]
fn who_is_taken_out_meanwhile_uses_the_room_that_the_next_move_had() {
    for why in ["replace", "cut", "exchange", "move"] {
        let ran = room_is_used_up(why, Urgency::Chosen, Vec::new());
        assert_eq!(*ran.last("cordon:a"), EventKind::Succeeded);
        let why = ran.skipped("cordon:b");
        assert!(
            why.starts_with("c of pool/train was taken out of service since this was planned (ada, quarantine"),
            "{why}"
        );
    }
    // What asks no budget of updates: a pool that becomes smaller, a tide, health.
    let goes =
        |why, urgency, requires| *room_is_used_up(why, urgency, requires).last("cordon:b") == EventKind::Succeeded;
    assert!(goes("remove", Urgency::Chosen, Vec::new()));
    assert!(goes("cut", Urgency::Granted, Vec::new()));
    // What nobody was let on yet is nobody's loss.
    assert!(goes("cut", Urgency::Chosen, vec![Fact::Unopened("b".into())]));
}

#[test]
fn what_was_seen_is_noted_under_a_freeze_and_what_was_decided_is_not() {
    let world = Fake::new();
    world.remember(&[freeze(Scope::Fleet, true)]);
    let at = world.now();
    let steps = vec![
        record("missing", LedgerChange::Missing { slot: slot(0), since: Some(at) }),
        record("claimed", LedgerChange::Claimed { slot: slot(1), node: "a".into() }),
    ];
    let ran = go(&world, steps);
    assert_eq!((ran.last("missing"), ran.last("claimed")), (&EventKind::Succeeded, &stopped_by_ada()));
}

/// Two launches of which one may be in flight, something that waits, and a stop at the first call.
fn stopped(presses: u32) -> (Fake, Ran) {
    let world = Fake::new();
    world.node("a", |node| node.ready = false);
    let stop = std::rc::Rc::new(StopSignal::default());
    let hand = std::rc::Rc::clone(&stop);
    world.when("launch train/0", move |_| (0..presses).for_each(|_| hand.press()));
    let patience = Patience { concurrency: 1, ..patience(&stop) };
    let steps = vec![
        wait("ready", Fact::Ready("a".into())),
        launch(0, 1),
        launch(1, 1),
        after(launch(2, 1), &["launch:train/0@1"]),
    ];
    let ran = try_go(&world, &input(&world), steps, None, &patience).unwrap();
    (world, ran)
}

#[test]
fn stop_once_finishes_what_is_in_flight_and_begins_nothing() {
    let (world, ran) = stopped(1);
    assert_eq!(*ran.last("launch:train/0@1"), EventKind::Succeeded);
    assert_eq!(*ran.last("ready"), EventKind::Waiting { why: "a is not ready".into() });
    assert_eq!(world.memory().slot(&slot(0)).unwrap().instance, Some("i-0".into()));
    assert_eq!((world.live().len(), ran.report.effects, ran.report.stopped), (1, 1, true));
    assert_eq!(ran.report.left, ["launch:train/1@1".into(), "launch:train/2@1".into()]);
}

#[test]
fn stop_twice_ends_at_once_and_the_next_run_understands_it() {
    let (world, ran) = stopped(2);
    assert!(ran.report.stopped);
    assert_eq!(*ran.last("launch:train/0@1"), EventKind::Started);
    assert!(world.memory().slot(&slot(0)).unwrap().intent.is_some());
    assert!(go(&world, vec![launch(0, 1)]).report.is_done());
    assert_eq!(world.live().len(), 1);
}

/// A launch that the cloud is too busy for is begun, and a stop ends its pause: whoever tells of it knows that it is open.
#[test]
fn a_stop_tells_of_what_is_asked_again() {
    let world = Fake::new();
    let stop = std::rc::Rc::new(StopSignal::default());
    let hand = std::rc::Rc::clone(&stop);
    (0..9).for_each(|_| world.refuse("launch", Class::Throttled));
    world.when("launch train/1", move |_| hand.press());
    let ran = try_go(&world, &input(&world), vec![launch(0, 1), launch(1, 1)], None, &patience(&stop)).unwrap();
    for step in ["launch:train/0@1", "launch:train/1@1"] {
        let told: Vec<&EventKind> =
            ran.events.iter().filter(|one| one.step.as_str() == step).map(|one| &one.kind).collect();
        assert_eq!(*told[0], EventKind::Started, "{step}");
        assert!(matches!(told[told.len() - 1], EventKind::Waiting { .. }), "{step}: {told:?}");
    }
    assert_eq!((ran.report.waiting.len(), ran.report.stopped), (2, true));
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn stop_wakes_whoever_sleeps() {
    let world = Fake::new();
    world.node("a", |node| node.ready = false);
    world.0.borrow_mut().endless = true;
    let (input, stop) = (input(&world), StopSignal::default());
    let plan = plan(vec![wait("ready", Fact::Ready("a".into()))]);
    let (patience, mut tell, bell) = (patience(&stop), |_| {}, Arc::new(Bell::default()));
    let mut walk = pin!(apply(&plan, &input, None, world.world(), &patience, &mut tell));
    let waker = Waker::from(Arc::clone(&bell));
    let mut poll = || walk.as_mut().poll(&mut Context::from_waker(&waker));
    assert!((0..50).all(|_| poll().is_pending()), "it sleeps");
    stop.press();
    assert!(bell.0.load(Ordering::SeqCst), "whoever runs it is told to look");
    let Poll::Ready(report) = poll() else { panic!("it sleeps on") };
    let report = report.unwrap();
    assert_eq!((report.stopped, report.waiting.len()), (true, 1));
}

/// What somebody waits for between two walks.
#[test]
fn stop_ends_a_sleep_between_two_rounds_and_twice_a_read() {
    let world = Fake::new();
    world.0.borrow_mut().endless = true;
    let (stop, bell) = (StopSignal::default(), Arc::new(Bell::default()));
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut sleep = pin!(stop.sleep(world.world().clock, world.now() + secs(1800)));
    let mut read = pin!(stop.unless_urgent(std::future::pending::<()>()));
    assert!((0..50).all(|_| sleep.as_mut().poll(&mut context).is_pending()), "it sleeps");
    stop.press();
    assert!(bell.0.swap(false, Ordering::SeqCst), "whoever runs it is told to look");
    assert!(sleep.as_mut().poll(&mut context).is_ready());
    assert!(read.as_mut().poll(&mut context).is_pending(), "what is under way is finished");
    stop.press();
    assert!(bell.0.load(Ordering::SeqCst));
    assert_eq!(read.as_mut().poll(&mut context), Poll::Ready(None));
    assert_eq!(super::run(StopSignal::default().unless_urgent(async { 7 })), Some(7));
}

#[test]
fn stop_before_the_first_step_does_nothing() {
    let world = Fake::new();
    let stop = StopSignal::default();
    stop.press();
    let ran = try_go(&world, &input(&world), vec![launch(0, 1)], None, &patience(&stop)).unwrap();
    assert_eq!((ran.report.effects, ran.report.records, ran.events.len()), (0, 0, 0));
    assert_eq!(ran.report.tally.pending, 1);
}

#[test]
fn a_stop_that_comes_while_a_step_looks_keeps_it_from_its_effect() {
    let world = Fake::new();
    world.node("a", |_| {});
    let stop = std::rc::Rc::new(StopSignal::default());
    let hand = std::rc::Rc::clone(&stop);
    world.when("look at", move |_| hand.press());
    let ran = try_go(&world, &input(&world), vec![cordon("a")], None, &patience(&stop)).unwrap();
    assert_eq!((ran.report.effects, ran.events.len(), ran.report.left.len()), (0, 0, 1));
}
