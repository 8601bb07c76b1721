//! Order, how much at once, dropped branches, waiting and trying again.

use super::fake::{Fake, Fault};
use super::*;
use crate::observed::{Gap, InstanceState};
use crate::provider::{Class, Done, ProviderError, Refusal};

fn nodes(world: &Fake, names: &[&str]) {
    names.iter().for_each(|name| world.node(name, |_| {}));
}

fn cordons(world: &Fake) -> Vec<String> {
    world.log().into_iter().filter(|line| line.starts_with("cordon")).collect()
}

#[test]
fn steps_are_done_in_the_order_of_the_plan_and_no_more_at_once_than_allowed() {
    let world = Fake::new();
    nodes(&world, &["a", "b", "c", "d", "e", "f"]);
    let steps = ["a", "b", "c", "d", "e"].map(cordon).into_iter().chain([after(cordon("f"), &["cordon:a"])]).collect();
    let stop = StopSignal::default();
    let patience = Patience { concurrency: 2, ..patience(&stop) };
    let ran = try_go(&world, &input(&world), steps, None, &patience).unwrap();
    assert_eq!(cordons(&world), ["cordon a", "cordon b", "cordon c", "cordon d", "cordon e", "cordon f"]);
    assert_eq!(world.0.borrow().most, 2);
    assert!(ran.report.is_done());
    assert_eq!(ran.report.effects, 6);
}

#[test]
fn a_mark_says_when_it_was_made_and_not_when_it_was_planned() {
    let world = Fake::new();
    nodes(&world, &["a"]);
    let planned = cordon("a");
    world.0.borrow_mut().now += SignedDuration::from_mins(20);
    go(&world, vec![planned]);
    let mark = world.0.borrow().nodes[&NodeName::from("a")].annotation(marks::CORDON).map(marks::Mark::parse).unwrap();
    assert_eq!(mark.since, world.now());
}

#[test]
fn a_step_waits_for_all_that_come_before_it() {
    let world = Fake::new();
    nodes(&world, &["a", "b", "c"]);
    let steps = vec![after(cordon("c"), &["cordon:a", "cordon:b"]), cordon("b"), cordon("a")];
    go(&world, steps);
    assert_eq!(cordons(&world), ["cordon b", "cordon a", "cordon c"]);
}

#[test]
fn the_same_world_gives_the_same_events() {
    let ran = || {
        let world = Fake::new();
        nodes(&world, &["a", "b"]);
        world.refuse("launch train/1", Class::Throttled);
        let steps = vec![cordon("a"), launch(0, 1), launch(1, 1), after(cordon("b"), &["cordon:a"])];
        (go(&world, steps).events, world.log())
    };
    assert_eq!(ran(), ran());
}

#[test]
fn a_fact_that_does_not_hold_drops_its_branch_and_only_that() {
    let world = Fake::new();
    nodes(&world, &["a", "b", "c"]);
    world.node("a", |node| node.ready = false);
    let steps = vec![
        requires(cordon("a"), Fact::Ready("a".into())),
        after(cordon("b"), &["cordon:a"]),
        after(launch(0, 1), &["cordon:b"]),
        cordon("c"),
    ];
    let ran = go(&world, steps);
    let fact = Some(Fact::Ready("a".into()));
    assert_eq!(*ran.last("cordon:a"), EventKind::Skipped { fact, why: "a is not ready".into() });
    assert_eq!(*ran.last("cordon:b"), EventKind::Dropped { after: "cordon:a".into() });
    assert_eq!(*ran.last("launch:train/0@1"), EventKind::Dropped { after: "cordon:b".into() });
    assert_eq!(cordons(&world), ["cordon c"]);
    assert_eq!((ran.report.tally.skipped, ran.report.tally.dropped, ran.report.tally.succeeded), (1, 2, 1));
}

#[test]
fn what_cannot_be_read_is_not_done() {
    let world = Fake::new();
    world.0.borrow_mut().gap = Some(Gap { what: "nodes".into(), why: "403".into() });
    let ran = go(&world, vec![cordon("a"), requires(launch(0, 1), Fact::Ready("a".into()))]);
    assert_eq!(ran.skipped("cordon:a"), "a could not be read: nodes: 403");
    assert_eq!(ran.skipped("launch:train/0@1"), "nodes: 403");
    assert_eq!(ran.report.effects, 0);
}

#[test]
fn facts_are_judged_just_before_each_effect_and_not_once() {
    let world = Fake::new();
    nodes(&world, &["a", "b"]);
    world.when("cordon a", |state| state.nodes.get_mut("b").unwrap().ready = false);
    let second = after(requires(cordon("b"), Fact::Ready("b".into())), &["cordon:a"]);
    let ran = go(&world, vec![cordon("a"), second]);
    assert_eq!(ran.skipped("cordon:b"), "b is not ready");
}

#[test]
fn waiting_ends_when_the_fact_holds() {
    let world = Fake::new();
    nodes(&world, &["a"]);
    let steps = vec![
        cordon("a"),
        after(wait("settled", Fact::Settled("a".into())), &["cordon:a"]),
        after(launch(0, 1), &["settled"]),
    ];
    let ran = go(&world, steps);
    assert!(ran.report.is_done(), "{:#?}", ran.events);
    assert_eq!(world.count("slept"), 1);
}

#[test]
fn a_cordon_that_was_long_on_its_way_settles_from_its_answer() {
    let world = Fake::new();
    nodes(&world, &["a"]);
    world.when("cordon a", |state| state.now += SignedDuration::from_hours(1));
    let ran = go(&world, vec![cordon("a"), after(wait("settled", Fact::Settled("a".into())), &["cordon:a"])]);
    assert!(ran.report.is_done(), "{:#?}", ran.events);
    assert_eq!(world.count("slept"), 1);
}

#[test]
fn those_that_wait_share_sleeps_and_calls() {
    let world = Fake::new();
    nodes(&world, &["a", "b", "c"]);
    ["a", "b", "c"].iter().for_each(|name| world.node(name, |node| node.ready = false));
    world.when("slept until 2026-01-01T00:00:30Z", |state| {
        state.nodes.values_mut().for_each(|node| node.ready = true);
    });
    let steps = ["a", "b", "c"].map(|name| wait(name, Fact::Ready(name.into()))).to_vec();
    let ran = go(&world, steps);
    assert!(ran.report.is_done());
    assert_eq!((world.count("slept"), world.count("look")), (3, 4), "{:#?}", world.log());
}

#[test]
fn a_wait_that_can_never_end_is_skipped() {
    let world = Fake::new();
    let id = world.runs(&request(0, 1));
    world.0.borrow_mut().instances.get_mut(&id).unwrap().state = InstanceState::Terminated;
    let ran = go(&world, vec![wait("joined", Fact::Joined { instance: id })]);
    assert_eq!(ran.skipped("joined"), "i-0 is Terminated");
    assert_eq!(world.count("slept"), 0);
}

#[test]
fn waiting_ends_with_patience_and_is_no_failure() {
    let world = Fake::new();
    nodes(&world, &["b"]);
    world.node("a", |node| node.ready = false);
    let begun = world.now();
    let steps = vec![wait("ready", Fact::Ready("a".into())), after(launch(0, 1), &["ready"]), cordon("b")];
    let ran = go(&world, steps);
    assert_eq!(*ran.last("ready"), EventKind::Waiting { why: "a is not ready".into() });
    assert_eq!(*ran.last("launch:train/0@1"), EventKind::Dropped { after: "ready".into() });
    assert_eq!(*ran.last("cordon:b"), EventKind::Succeeded);
    assert_eq!(world.now().duration_since(begun), secs(30 * 60));
    assert_eq!((ran.report.waiting.len(), ran.report.failed.len()), (1, 0));
}

#[test]
fn nothing_is_begun_after_the_total_patience() {
    let world = Fake::new();
    nodes(&world, &["b"]);
    world.node("a", |node| node.ready = false);
    let (begun, stop) = (world.now(), StopSignal::default());
    let patience = Patience { total: Some(Duration::secs(45)), ..patience(&stop) };
    let until = wait("later", Fact::After(begun + secs(40)));
    let steps = vec![wait("ready", Fact::Ready("a".into())), until, after(cordon("b"), &["later"])];
    let ran = try_go(&world, &input(&world), steps, None, &patience).unwrap();
    assert_eq!(*ran.last("ready"), EventKind::Waiting { why: "a is not ready".into() });
    assert_eq!(*ran.last("cordon:b"), EventKind::Succeeded);
    assert_eq!(world.now().duration_since(begun), secs(45));
    assert!(!ran.report.stopped);
}

#[test]
fn an_instant_is_met_and_not_only_a_tick() {
    let world = Fake::new();
    let at = world.now() + secs(3);
    assert!(go(&world, vec![wait("later", Fact::After(at))]).report.is_done());
    assert_eq!(world.now(), at);
}

#[test]
fn too_many_requests_are_tried_again_when_the_other_side_says() {
    let world = Fake::new();
    nodes(&world, &["a"]);
    let begun = world.now();
    let throttled = ProviderError { retry_after_secs: Some(17), ..ProviderError::new(Class::Throttled, "slow down") };
    world.fault("cordon", [Fault::Refuse(throttled)]);
    let ran = go(&world, vec![cordon("a")]);
    assert!(ran.report.is_done());
    assert_eq!(world.now().duration_since(begun), secs(17));
    assert!(ran.events.iter().any(|event| event.kind == EventKind::Waiting { why: "slow down".into() }));
    assert_eq!(world.count("look"), 2, "what it needs is looked at again before each try");
}

#[test]
fn tries_are_bounded_and_a_no_is_not_tried_again() {
    for (class, calls) in [(Class::Throttled, 9), (Class::Conflict, 9), (Class::Denied, 1), (Class::Other, 1)] {
        let world = Fake::new();
        nodes(&world, &["a"]);
        (0..20).for_each(|_| world.refuse("cordon", class));
        let ran = go(&world, vec![cordon("a")]);
        assert_eq!(ran.class("cordon:a"), crate::apply::retry::name(class));
        assert_eq!(world.count("cordon"), calls, "{class:?}");
    }
}

fn evict() -> Step {
    let pod = (NamespacedName::new("vision", "p"), Uid::from("u"));
    step("evict", Action::Cluster(ClusterAction::Evict { pods: vec![pod], force: false }))
}

fn refusal(permanent: bool) -> Fault {
    let why = if permanent { "two budgets" } else { "the budget allows none" };
    let refused =
        vec![Refusal { pod: NamespacedName::new("vision", "p"), why: why.into(), permanent, retry_after_secs: None }];
    Fault::Answer(Done::Evicted { refused })
}

#[test]
fn refused_evictions_are_tried_again_at_a_distance() {
    let world = Fake::new();
    let begun = world.now();
    world.fault("evict", [refusal(false), refusal(false)]);
    let ran = go(&world, vec![evict()]);
    assert!(ran.report.is_done());
    assert_eq!((world.count("evict"), world.now().duration_since(begun)), (3, secs(10)));
    let told: Vec<&EventKind> = ran.events.iter().map(|event| &event.kind).collect();
    let waiting = EventKind::Waiting { why: "vision/p: the budget allows none".into() };
    assert_eq!(told, [&EventKind::Started, &waiting, &EventKind::Succeeded]);
}

#[test]
fn evictions_end_with_patience_and_at_once_where_a_person_has_to_act() {
    let world = Fake::new();
    world.fault("evict", (0..1000).map(|_| refusal(false)));
    let ran = go(&world, vec![evict()]);
    assert_eq!(*ran.last("evict"), EventKind::Waiting { why: "vision/p: the budget allows none".into() });
    assert_eq!(world.count("evict"), 361, "every five seconds for half an hour");

    let world = Fake::new();
    world.fault("evict", [refusal(true)]);
    let ran = go(&world, vec![evict(), after(launch(0, 1), &["evict"])]);
    assert_eq!(ran.class("evict"), "other");
    assert_eq!(ran.report.effects, 1);
}

/// Closes a node, and waits out the scheduler.
fn closes(node: &str) -> [Step; 2] {
    let cordon = cordon(node);
    let settled = wait(&format!("settled:{node}"), Fact::Settled(node.into()));
    let settled = after(settled, &[cordon.id.as_str()]);
    [cordon, settled]
}

#[test]
fn nobody_is_sent_away_before_every_node_that_leaves_is_closed() {
    // NTH#537: what is evicted from a node that was closed before comes up on one that is about to be.
    let world = Fake::new();
    nodes(&world, &["b", "c"]);
    world.fault("cordon c", [Fault::Refuse(ProviderError::new(Class::Throttled, "slow down"))]);
    let steps = [evict()].into_iter().chain(closes("b")).chain(closes("c")).chain([launch(0, 1)]).collect();
    let ran = go(&world, steps);
    assert!(ran.report.is_done(), "{:#?}", ran.events);
    let log = world.log();
    let at = |begins: &str| log.iter().rposition(|line| line.starts_with(begins)).unwrap();
    assert!(at("launch") < at("cordon c"), "others do not wait: {log:#?}");
    assert!(at("cordon b") < at("cordon c") && at("cordon c") < at("evict"), "{log:#?}");
    assert!(log[at("cordon c")..at("evict")].iter().any(|line| line.starts_with("slept")), "{log:#?}");
}

#[test]
fn a_node_that_cannot_be_closed_does_not_keep_the_others_for_long() {
    let world = Fake::new();
    nodes(&world, &["b"]);
    let begun = world.now();
    (0..20).for_each(|_| world.refuse("cordon", Class::Throttled));
    let ran = go(&world, [evict()].into_iter().chain(closes("b")).collect());
    let went = ran.events.iter().find(|event| event.step.as_str() == "evict").unwrap();
    assert_eq!((&went.kind, went.at.duration_since(begun)), (&EventKind::Started, secs(30)));
    assert_eq!(*ran.last("evict"), EventKind::Succeeded);
    // One that is refused at once keeps nobody.
    let world = Fake::new();
    nodes(&world, &["b"]);
    world.refuse("cordon", Class::Denied);
    let begun = world.now();
    let ran = go(&world, [evict()].into_iter().chain(closes("b")).collect());
    assert_eq!((ran.last("evict"), world.now()), (&EventKind::Succeeded, begun));
}

#[test]
fn a_node_that_is_closed_behind_somebody_who_goes_is_not_waited_for() {
    let world = Fake::new();
    nodes(&world, &["b"]);
    let [cordon, settled] = closes("b");
    let begun = world.now();
    let ran = go(&world, vec![evict(), after(cordon, &["evict"]), settled]);
    assert!(ran.report.is_done(), "{:#?}", ran.events);
    assert_eq!(ran.events[0].at, begun);
}

#[test]
fn a_plan_that_names_what_it_does_not_have_is_not_walked() {
    let world = Fake::new();
    nodes(&world, &["a"]);
    let stop = StopSignal::default();
    for steps in [vec![after(cordon("a"), &["gone"])], vec![cordon("a"), cordon("a")]] {
        let error = try_go(&world, &input(&world), steps, None, &patience(&stop)).err();
        assert!(matches!(error, Some(ApplyError::Malformed(_))), "{error:?}");
    }
    assert_eq!(world.count("cordon"), 0);
}
