//! One slot, one instance: every way to launch a second one is caught.

use jiff::SignedDuration;

use super::bench::*;
use super::flows::*;
use crate::effect::marks::{CORDON, Mark, POOL};
use crate::effect::*;
use crate::ids::*;
use crate::observed::*;
use crate::plan::*;

const ONE: &str = "one slot, one live instance";
const EXACT: &str = "leaves no choice";
const RENAMED: &str = "a pool is renamed before";
const HOLDS: &str = "not oversubscribed";

/// A settled fleet in which one slot of `train` never had a node, and the launch for it.
fn launch() -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.input.ledger.pools.get_mut("train").unwrap().slots.remove(&9);
    edit(&mut bench.input.observed.cloud.instances, |all| all.remove(&instance("train", 9)));
    edit(&mut bench.input.observed.cluster.nodes, |all| all.remove(&node("train", 9)));
    bench.reservation(|seen| seen.available += 1);
    bench.launch("train", 9, Reason::SlotEmpty, &[]);
    bench
}

fn change(step: &mut Step, change: impl FnOnce(&mut LaunchRequest)) {
    match &mut step.action {
        Action::Cloud(CloudAction::Launch(request)) => change(request),
        other => panic!("{other:?}"),
    }
}

fn mutated(edit: impl FnOnce(&mut LaunchRequest)) -> Bench {
    launch().edit("launch train/9", |step| change(step, edit))
}

#[test]
fn a_slot_is_launched_once() {
    launch().passes();
    launch()
        .with(|bench| {
            let again = bench.find("launch train/9").clone();
            bench.plan.steps.push(Step { id: "again".into(), ..again });
            bench.reservation(|seen| seen.available += 1);
        })
        .breaks(ONE, "launched twice");
    let mut beyond = launch();
    beyond.input.target.pools.get_mut("train").unwrap().nodes = 9;
    beyond.breaks(ONE, "not wanted");
}

#[test]
fn a_slot_whose_instance_is_not_seen_gone_is_not_launched() {
    replace().edit("launch train/3", |step| step.after.clear()).breaks_also(ONE, "not seen gone before");
    replace()
        .edit("launch train/3", |step| step.after = vec!["terminate train/3".into()])
        .breaks_also(ONE, "i-train-3");
    let state = |state: InstanceState| {
        let mut bench = Bench::settled(NOON);
        bench.instance("train", 3, |seen| seen.state = state);
        bench.reservation(|seen| seen.available += 1);
        bench.launch("train", 3, Reason::SlotEmpty, &[]);
        bench
    };
    state(InstanceState::Terminated).passes();
    for alive in [InstanceState::Running, InstanceState::ShuttingDown, InstanceState::Stopped] {
        state(alive).breaks(ONE, "not seen gone");
    }
    state(InstanceState::ShuttingDown)
        .edit("launch train/3", |step| step.requires.push(Fact::Gone(instance("train", 3))))
        .passes();
}

#[test]
fn an_instance_with_the_slots_tag_counts_even_if_the_ledger_forgot_it() {
    let mut bench = launch();
    bench.serve("train", 9);
    bench.slot("train", 9).instance = None;
    bench.slot("train", 9).generation = 0;
    bench.reservation(|seen| seen.available = 1);
    bench.instance("train", 9, |seen| seen.token = None);
    bench.breaks(ONE, "i-train-9");
}

#[test]
fn an_instance_of_a_pool_that_had_another_name_counts() {
    let beside = |change: &dyn Fn(&mut Bench)| {
        let mut bench = launch();
        bench.serve("train", 9);
        (bench.slot("train", 9).instance, bench.slot("train", 9).generation) = (None, 0);
        bench.reservation(|seen| seen.available = 1);
        bench.instance("train", 9, |seen| seen.token = None);
        bench.instance("train", 9, |seen| seen.tag.as_mut().unwrap().slot = slot("old", 9));
        bench.node("train", 9, |seen| _ = seen.labels.remove(POOL));
        change(&mut bench);
        bench
    };
    beside(&|_| ()).passes();
    let renamed = |bench: &mut Bench| {
        bench.input.target.pools.get_mut("train").unwrap().renamed_from = Some("old".into());
    };
    beside(&renamed).breaks(ONE, "i-train-9");
    let labelled = |bench: &mut Bench| {
        bench.node("train", 9, |seen| _ = seen.labels.insert(POOL.into(), "train".into()));
    };
    beside(&labelled).breaks(ONE, "i-train-9");
    // Whose pool was let go is nobody's, whatever its node carries.
    beside(&|bench| {
        labelled(bench);
        bench.input.ledger.pools.insert("old".into(), PoolLedger::default());
    })
    .passes();
}

#[test]
fn an_instance_from_before_a_ledger_was_lost_counts_under_the_identity_that_it_had() {
    let beside = |whose: &str| {
        let (mut bench, ours) = (launch(), FleetUid::from("fleet-1.0123456789"));
        bench.serve("train", 9);
        bench.slot("train", 9).instance = None;
        bench.slot("train", 9).generation = 0;
        bench.reservation(|seen| seen.available = 1);
        bench.instance("train", 9, |seen| {
            seen.token = None;
            seen.tag = Some(SlotTag { fleet: whose.into(), slot: slot("train", 9), generation: 1 });
        });
        bench.input.ledger.head.fleet = Some(ours.clone());
        bench.edit("launch train/9", |step| {
            change(step, |request| request.token = token(&ours, &request.slot, 1, &request.zone));
        })
    };
    beside("fleet-1").breaks(ONE, "i-train-9");
    beside("old.0123456789").breaks(ONE, "i-train-9");
    beside("fleet-1.9876543210").passes();
}

#[test]
fn a_missing_instance_is_believed_lost_only_after_minutes_of_whole_reads() {
    let missing = |minutes: i64, whole: bool| {
        let mut bench = Bench::settled(NOON);
        edit(&mut bench.input.observed.cloud.instances, |all| all.remove(&instance("train", 9)));
        let since = bench.input.now - SignedDuration::from_mins(minutes);
        bench.slot("train", 9).missing_since = Some(since);
        bench.node("train", 9, |node| node.ready = false);
        bench.reservation(|seen| seen.available += 1);
        if !whole {
            gap(&mut bench.input.observed.cloud.instances);
        }
        bench.launch("train", 9, Reason::SlotEmpty, &[]);
        bench.find("launch train/9").requires.push(Fact::Unlisted(instance("train", 9)));
        bench
    };
    missing(5, true).passes();
    missing(5, true)
        .edit("launch train/9", |step| step.requires.retain(|fact| !matches!(fact, Fact::Unlisted(_))))
        .breaks(ONE, "not seen gone");
    // What was launched a while ago may never have been listed.
    let launched = |bench: &mut Bench, minutes: i64| {
        let at = bench.input.now - SignedDuration::from_mins(minutes);
        bench.slot("train", 9).launched = Some(at);
    };
    missing(5, true).with(|bench| launched(bench, 20)).breaks(ONE, "not seen gone");
    missing(5, true).with(|bench| launched(bench, 31)).passes();
    missing(1, true).breaks(ONE, "not seen gone");
    missing(5, false).breaks(ONE, "not seen gone");
    missing(5, true).with(|bench| bench.node("train", 9, |node| node.ready = true)).breaks(ONE, "not seen gone");
}

#[test]
fn an_open_request_is_repeated_byte_for_byte_or_left_alone() {
    let open = || {
        let mut bench = launch();
        let request = request(&bench, "train", 9);
        let intent = Intent { request, plan: "p".into(), at: bench.input.now };
        let slot = Slot { generation: 1, intent: Some(intent), ..Slot::default() };
        bench.input.ledger.pools.get_mut("train").unwrap().slots.insert(9, slot);
        bench
    };
    open().passes();
    open().edit("launch train/9", |step| change(step, |request| request.source = 1)).breaks(ONE, "another one");
    let next = |request: &mut LaunchRequest| {
        request.generation = 2;
        request.token = token(&uid(), &request.slot, 2, &request.zone);
    };
    open().edit("launch train/9", |step| change(step, next)).breaks_also(ONE, "another one");
    // Its answer is there already: sent again it makes nothing new.
    let mut answered = open();
    let instance_token = request(&launch(), "train", 9).token;
    answered.serve("train", 9);
    answered.instance("train", 9, |seen| seen.token = Some(instance_token));
    answered.slot("train", 9).instance = None;
    answered.passes();
}

#[test]
fn a_request_names_its_slot_generation_zone_and_source() {
    mutated(|request| request.token = "random".into()).breaks(EXACT, "token");
    mutated(|request| request.token = hash::named_token(&["fleet-1", "train/9", "1"])).breaks(EXACT, "token");
    let generation = |request: &mut LaunchRequest| {
        request.generation = 2;
        request.token = token(&uid(), &request.slot, 2, &request.zone);
    };
    mutated(generation).breaks(EXACT, "generation is 2 and the next of train/9 is 1");
    mutated(|request| request.instance_type = "p4d.24xlarge".into()).breaks_also(EXACT, "not the type");
    mutated(|request| request.template = "other".into()).breaks(EXACT, "template");
    mutated(|request| request.template_digest = digest(b"other")).breaks(EXACT, "template");
    mutated(|request| request.source = 7).breaks(EXACT, "source 7");
    mutated(|request| request.market = Market::OnDemand).breaks_also(EXACT, "another one");
    mutated(|request| request.reservation = Some("cr-2".into())).breaks_also(EXACT, "does not name");
    let zone = |request: &mut LaunchRequest| {
        request.zone = "us-west-2b".into();
        request.token = token(&uid(), &request.slot, 1, &request.zone);
    };
    mutated(zone).breaks(HOLDS, "another zone");
}

#[test]
fn a_reservation_whose_answer_was_lost_is_known_by_its_tag() {
    let unanswered = |generation: u32| {
        let mut bench = launch();
        let request = reserve_request();
        let intent = Some(Intent { request, plan: "p".into(), at: bench.input.now });
        let held = HeldReservation { generation: 1, id: None, intent, refused: None, asked: None };
        bench.input.ledger.head.reservations.insert("h100".into(), held);
        let tag = ReservationTag { fleet: uid(), reservation: "h100".into(), generation };
        bench.reservation(|seen| seen.tag = Some(tag));
        bench
    };
    unanswered(1).passes();
    unanswered(2).breaks_also(EXACT, "does not name the reservation h100");
}

#[test]
fn a_renamed_pool_is_renamed_in_the_ledger_before_anything_is_launched_for_it() {
    let renamed = |after: &[&str]| {
        let mut bench = launch();
        bench.input.renamed.insert("train".into(), "old".into());
        bench.input.target.pools.get_mut("train").unwrap().renamed_from = Some("old".into());
        let rename = LedgerChange::Renamed { from: "old".into(), to: "train".into() };
        bench.step("rename", Action::Record(rename), Reason::Bookkeeping, &[]);
        bench.plan.steps.swap(0, 1);
        bench.find("launch train/9").after = after.iter().map(|id| StepId::from(*id)).collect();
        bench
    };
    renamed(&["rename"]).passes();
    renamed(&[]).breaks(RENAMED, "not renamed in the ledger");
}

#[test]
fn a_reservation_gives_no_more_places_than_it_has() {
    launch().with(|bench| bench.reservation(|seen| seen.available = 0)).breaks(HOLDS, "will have 0 places");
    for state in [ReservationState::Pending, ReservationState::Ended, ReservationState::Other("odd".into())] {
        launch().with(|bench| bench.reservation(|seen| seen.state = state)).breaks(HOLDS, "not active");
    }
    launch()
        .with(|bench| {
            bench.reservation(|seen| seen.state = ReservationState::Scheduled);
            bench.find("launch train/9").requires.push(Fact::Active("cr-1".into()));
        })
        .passes();
    launch()
        .with(|bench| {
            let end = bench.input.now;
            bench.reservation(|seen| seen.end = Some(end));
        })
        .breaks(HOLDS, "over before");
}

#[test]
fn a_place_that_this_plan_frees_is_waited_for() {
    // Terminated for another slot, and seen free by its number.
    let freed = |requires: Vec<Fact>| {
        let mut bench = launch();
        bench.reservation(|seen| seen.available = 0);
        let launch = bench.plan.steps.pop().unwrap();
        bench.drain("train", 3, "replace", &Reason::Outdated, &[]);
        bench.terminate("train", 3, &Reason::Outdated);
        bench.plan.steps.push(Step { requires, after: vec!["terminate train/3".into()], ..launch });
        bench
    };
    freed(vec![Fact::Free { reservation: "cr-1".into(), places: 1 }]).passes();
    freed(Vec::new()).breaks(HOLDS, "do not wait for a place");
}

#[test]
fn a_request_that_may_hold_a_place_is_counted() {
    let mut bench = launch();
    let request = request(&bench, "train", 8);
    *bench.slot("train", 8) = Slot {
        generation: 1,
        intent: Some(Intent {
            request: LaunchRequest { token: "t".into(), ..request },
            plan: "p".into(),
            at: bench.input.now,
        }),
        ..Slot::default()
    };
    edit(&mut bench.input.observed.cloud.instances, |all| all.remove(&instance("train", 8)));
    bench.plan.held.push(held(pool("train")));
    bench.breaks(HOLDS, "will have 0 places");
}

#[test]
fn no_more_nodes_cost_by_the_hour_than_the_pool_may_have() {
    let mut bench = Bench::settled(NOON);
    let burst = bench.input.target.pools.get_mut("burst").unwrap();
    (burst.nodes, burst.parts[0].nodes) = (5, 5);
    bench.launch("burst", 4, Reason::SlotEmpty, &[]);
    bench.breaks(HOLDS, "5 nodes OnDemand, and may have 4");
}

#[test]
fn a_node_is_claimed_once_and_only_if_it_is_what_the_pool_asks_for() {
    const CLAIMS: &str = "one claimed node";
    let claim = |slot: SlotId, node: NodeName| {
        let mut bench = Bench::settled(NOON);
        bench.input.ledger.pools.get_mut("own").unwrap().slots.remove(&1);
        bench.step("claim", Action::Record(LedgerChange::Claimed { slot, node }), Reason::SlotEmpty, &[]);
        bench
    };
    claim(slot("own", 1), node("own", 1)).passes();
    claim(slot("own", 1), node("own", 0)).breaks(CLAIMS, "serves own/0");
    claim(slot("own", 1), node("train", 0)).breaks(CLAIMS, "serves train/0");
    claim(slot("own", 0), node("own", 1)).breaks_also(CLAIMS, "own/0 has own-0");
    claim(slot("own", 1), node("own", 1))
        .with(|bench| bench.node("own", 1, |node| drop(node.labels.remove("gpu"))))
        .breaks(CLAIMS, "not what own/1 asks for");
    let worn = |pool: &'static str| {
        move |bench: &mut Bench| bench.node("own", 1, |node| drop(node.labels.insert(POOL.into(), pool.into())))
    };
    claim(slot("own", 1), node("own", 1)).with(worn("own")).passes();
    claim(slot("own", 1), node("own", 1)).with(worn("theirs")).breaks(CLAIMS, "labelled as a node of theirs");
    claim(slot("own", 1), node("own", 1))
        .with(worn("theirs"))
        .with(|bench| drop(bench.input.ledger.pools.insert("theirs".into(), PoolLedger::default())))
        .passes();
    // It was called so, and nothing is remembered under that name.
    let renamed = |bench: &mut Bench| {
        bench.input.target.pools.get_mut("own").unwrap().renamed_from = Some("theirs".into());
    };
    claim(slot("own", 1), node("own", 1)).with(worn("theirs")).with(renamed).passes();
    claim(slot("own", 1), node("own", 1))
        .with(worn("others"))
        .with(renamed)
        .breaks(CLAIMS, "labelled as a node of others");
    claim(slot("own", 1), node("own", 1))
        .with(worn("own"))
        .with(|bench| {
            let mark = Mark::new(NOON.parse().unwrap(), "drain").of(&"another".into()).text();
            bench.node("own", 1, |node| drop(node.annotations.insert(CORDON.into(), mark)));
        })
        .breaks_also(CLAIMS, "closed by another fleet");
    claim(slot("own", 1), node("own", 1))
        .with(|bench| {
            let claim = LedgerChange::Claimed { slot: slot("own", 0), node: node("own", 1) };
            bench.input.ledger.pools.get_mut("own").unwrap().slots.remove(&0);
            bench.step("claim again", Action::Record(claim), Reason::SlotEmpty, &[]);
        })
        .breaks(CLAIMS, "claimed for own/1 too");
}

fn reserve_request() -> ReserveRequest {
    ReserveRequest {
        reservation: "h100".into(),
        generation: 1,
        token: "t".into(),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        nodes: 16,
        end: None,
        matching: Default::default(),
    }
}

#[test]
fn a_reservation_is_made_once_and_as_its_document_says() {
    const OURS: &str = "a reservation is made once";
    let reserve = || {
        let mut bench = Bench::empty(NOON);
        bench.input.ledger.head.reservations.clear();
        edit(&mut bench.input.observed.cloud.reservations, |all| all.clear());
        let step = bench.step("reserve", cloud(CloudAction::Reserve(reserve_request())), Reason::Wanted, &[]);
        step.effects = Effects::one(Verb::Reserve, Thing::Reservation("h100".into()), Amount::count(1));
        bench.plan.held.push(held(Thing::Fleet));
        bench
    };
    let other = |change: fn(&mut ReserveRequest)| {
        reserve().edit("reserve", |step| match &mut step.action {
            Action::Cloud(CloudAction::Reserve(request)) => change(request),
            other => panic!("{other:?}"),
        })
    };
    reserve().passes();
    other(|request| request.generation = 2).breaks(OURS, "generation");
    other(|request| request.nodes = 17).breaks(OURS, "not what the document says");
    other(|request| request.reservation = "july".into()).breaks(OURS, "Capacity Block");
    other(|request| request.reservation = "june".into()).breaks(OURS, "no document");
    let mut there = reserve();
    there.input.observed.cloud.reservations = Bench::empty(NOON).input.observed.cloud.reservations;
    there.breaks(OURS, "there already");
    let mut observed = reserve();
    observed.standing().reservations.get_mut("h100").unwrap().manage = crate::fleet::reservation::Manage::Observe;
    observed.breaks(OURS, "only observed");
    let mut bench = Bench::settled(NOON);
    let cancel = cloud(CloudAction::Cancel { reservation: "h100".into(), id: "cr-1".into() });
    bench.step("cancel", cancel, Reason::NotWanted, &[]).effects =
        Effects::one(Verb::Cancel, Thing::Reservation("h100".into()), Amount::count(1));
    bench.breaks(OURS, "does not say `cancel`");
}

#[test]
fn a_reservation_that_is_to_hold_fewer_is_filled_no_further() {
    let written = |bench: &mut Bench, nodes: u32| bench.standing().reservations.get_mut("h100").unwrap().nodes = nodes;
    launch().with(|bench| written(bench, 16)).passes();
    launch().with(|bench| written(bench, 15)).breaks(HOLDS, "is to hold 15");
    // The place that a node leaves is not given to the next one.
    replace().with(|bench| written(bench, 16)).passes();
    replace().with(|bench| written(bench, 15)).breaks(HOLDS, "where 15 stay and which is to hold 15");
}
