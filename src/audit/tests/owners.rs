//! What is not ours, is kept by a person, is frozen, or was not read stays as it is.

use jiff::SignedDuration;

use super::bench::*;
use super::flows::*;
use crate::effect::marks::HANDS_OFF;
use crate::effect::*;
use crate::observed::*;
use crate::plan::*;

const INSTANCES: &str = "own instances";
const NODES: &str = "nodes that serve a slot";
const OBJECTS: &str = "objects that are ours";
const FROZEN: &str = "under a freeze";
const HANDS: &str = "hands-off";
const KEPT: &str = "not opened";
const WHOLE: &str = "not whole";
const SHRUNK: &str = "shrank";
const FORGOTTEN: &str = "forgotten";

#[test]
fn an_instance_needs_our_tag_and_our_record() {
    remove().with(|bench| bench.instance("train", 9, |seen| seen.tag = None)).breaks(INSTANCES, "our tag");
    let foreign = |bench: &mut Bench| bench.instance("train", 9, |seen| seen.tag.as_mut().unwrap().fleet = "x".into());
    remove().with(foreign).breaks(INSTANCES, "our tag");
    remove()
        .with(|bench| bench.slot("train", 9).instance = Some("i-other".into()))
        .breaks_also(INSTANCES, "does not know");
    // An orphan is adopted before it is touched.
    let orphan = |bench: &mut Bench| bench.slot("train", 9).instance = None;
    remove().with(orphan).breaks_also(INSTANCES, "does not know");
}

#[test]
fn a_node_that_serves_no_slot_is_left_alone() {
    let mut bench = Bench::settled(NOON);
    bench.input.ledger.pools.get_mut("own").unwrap().slots.remove(&1);
    bench.plan.held.push(held(pool("own")));
    let mark = crate::effect::marks::Mark::new(bench.input.now, "cut");
    let cordon = cluster(ClusterAction::Cordon { node: node("own", 1), mark });
    bench.step("cordon", cordon, Reason::Wanted, &[]);
    bench.breaks(NODES, "own-1 serves no slot");
    let mut bench = Bench::settled(NOON);
    let uncordon = cluster(ClusterAction::Uncordon { node: node("train", 1) });
    bench.step("uncordon", uncordon, Reason::LeftOver, &[]);
    bench.breaks(NODES, "does not carry our cordon");
}

fn applying(object: Object) -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.step("apply", cluster(ClusterAction::Apply(object)), Reason::Wanted, &[]);
    bench
}

#[test]
fn an_object_of_somebody_else_is_taken_over_only_if_a_document_names_it() {
    let foreign = |kind: ObjectKind, name: &str| {
        let key = ObjectKey::cluster(kind, name);
        let object = Bench::empty(NOON).input.desired.objects.iter().find(|object| object.key == key).cloned().unwrap();
        let mut bench = applying(object);
        edit(&mut bench.input.observed.cluster.objects, |all| {
            let there = all.get_mut(&key).unwrap();
            (there.written, there.body) = (None, serde_json::json!({"spec": {}, "value": 1}));
        });
        bench
    };
    foreign(ObjectKind::ClusterQueue, "night").passes();
    foreign(ObjectKind::ResourceFlavor, "train").breaks(OBJECTS, "no document names it");
    applying(queue("surprise", "train", "nvidia.com/gpu", 0)).breaks(OBJECTS, "not wanted");
    applying(queue("vision", "train", "nvidia.com/gpu", 8)).breaks(OBJECTS, "another way than wanted");
}

#[test]
fn only_what_a_document_retires_is_deleted() {
    const RETIRED: &str = "a document retires";
    let delete = |retire: bool, ours: bool| {
        let mut bench = Bench::settled(NOON);
        let key = ObjectKey::cluster(ObjectKind::ClusterQueue, "old");
        let there = ObjectSeen {
            body: serde_json::json!({}),
            written: ours.then(|| digest(b"x")),
            moved_by: None,
            deleting: false,
        };
        edit(&mut bench.input.observed.cluster.objects, |all| all.insert(key.clone(), there));
        if retire {
            bench.input.desired.retired.push(key.clone());
        }
        let gone = Amount::object(&key, None);
        bench.step("delete", cluster(ClusterAction::Delete(key)), Reason::NotWanted, &[]).effects =
            Effects::one(Verb::Delete, Thing::Objects("ClusterQueue".into()), gone);
        bench
    };
    delete(true, true).passes();
    delete(false, true).breaks(RETIRED, "no document retires");
    delete(true, false).breaks(RETIRED, "not ours");
}

fn freeze(scope: Scope, all: bool) -> Freeze {
    let at = crate::fleet::testing::at(NOON);
    Freeze { scope, by: "ana".into(), at, reason: "incident".into(), all }
}

#[test]
fn nothing_that_a_freeze_covers_is_done() {
    for scope in [Scope::Fleet, Scope::Pool("train".into()), Scope::Node(node("train", 3))] {
        replace()
            .with(|bench| bench.input.ledger.head.frozen.push(freeze(scope, false)))
            .breaks(FROZEN, "ana: incident");
    }
    for scope in [Scope::Pool("serve".into()), Scope::Node(node("train", 5))] {
        replace().with(|bench| bench.input.ledger.head.frozen.push(freeze(scope, true))).passes();
    }
    replace().with(|bench| bench.standing().frozen = Some("stop".into())).breaks(FROZEN, "stop");
    // The gang's other node is touched too.
    let other = freeze(Scope::Node(node("train", 4)), false);
    replace().with(|bench| bench.input.ledger.head.frozen.push(other)).breaks(FROZEN, "incident");
}

#[test]
fn what_has_a_deadline_of_its_own_goes_on_unless_all_is_frozen() {
    let leaving = |all: bool, noticed: bool| {
        let mut bench = Bench::settled(NOON);
        let at = bench.input.now + jiff::SignedDuration::from_mins(30);
        if noticed {
            bench.instance("burst", 1, |seen| seen.notice = Some(Notice { why: NoticeKind::Maintenance, at }));
        }
        let reason = Reason::Notice { why: NoticeKind::Maintenance, at };
        bench.drain("burst", 1, "notice", &reason, &[]);
        bench.input.ledger.head.frozen.push(freeze(Scope::Fleet, all));
        bench
    };
    leaving(false, true).passes();
    leaving(true, true).breaks(FROZEN, "incident");
    leaving(false, false).breaks(FROZEN, "incident");
    returning(HARD)
        .with(|bench| bench.input.ledger.head.frozen.push(freeze(Scope::Fleet, false)))
        .breaks(FROZEN, "incident");
}

#[test]
fn a_node_that_a_person_keeps_is_left_alone_with_its_pods() {
    for index in [3, 4] {
        replace()
            .with(|bench| {
                bench.node("train", index, |node| drop(node.annotations.insert(HANDS_OFF.into(), "ana".into())))
            })
            .breaks(HANDS, &format!("train-{index}"));
    }
    replace()
        .with(|bench| bench.node("train", 5, |node| drop(node.annotations.insert(HANDS_OFF.into(), "ana".into()))))
        .passes();
}

/// A node is opened that carries our mark, in a pool or in none.
fn opening(why: &str) -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.cordoned("own", 1, why);
    bench.step("uncordon", cluster(ClusterAction::Uncordon { node: node("own", 1) }), Reason::LeftOver, &[]);
    bench
}

#[test]
fn what_a_person_keeps_out_of_service_is_not_opened() {
    let quarantined = |bench: &mut Bench| {
        let kept = Quarantine { by: "ana".into(), at: bench.input.now, reason: "memory".into() };
        bench.input.ledger.head.quarantined.insert(node("own", 1), kept);
    };
    let drained = |bench: &mut Bench| {
        let (by, at, reason) = ("ana".into(), bench.input.now, "fan".into());
        let order = DrainOrder { by, at, reason, unmanaged: false, local_data: false };
        bench.input.ledger.head.drains.insert(node("own", 1), order);
    };
    opening("cut").passes();
    opening("quarantine").with(quarantined).breaks(KEPT, "it is in quarantine");
    opening("release").with(quarantined).breaks(KEPT, "it is in quarantine");
    opening("drain").with(drained).breaks(KEPT, "drained for somebody");
}

#[test]
fn what_a_lost_memory_kept_out_is_opened_by_a_word_alone() {
    let began = |anew: bool, minutes: i64| {
        move |bench: &mut Bench| {
            let at = bench.input.now - SignedDuration::from_mins(minutes);
            bench.input.ledger.head.began = Some(Began { at, ended: 0, anew });
        }
    };
    // The mark is ten minutes old.
    let returned = |minutes: i64| {
        move |bench: &mut Bench| {
            let at = bench.input.now - SignedDuration::from_mins(minutes);
            bench.input.ledger.head.returned.insert(node("own", 1), at);
        }
    };
    for why in ["quarantine", "drain"] {
        opening(why).with(began(true, 5)).breaks(KEPT, "a memory that is lost");
        opening(why).with(began(true, 5)).with(returned(11)).breaks(KEPT, "a memory that is lost");
        opening(why).with(began(true, 5)).with(returned(1)).passes();
        opening(why).with(began(true, 15)).passes();
        opening(why).with(began(false, 5)).passes();
    }
    opening("cut").with(began(true, 5)).passes();
}

#[test]
fn nothing_is_destroyed_after_a_read_with_a_gap() {
    remove().with(|bench| gap(&mut bench.input.observed.cloud.instances)).breaks(WHOLE, "timed out");
    remove().with(|bench| gap(&mut bench.input.observed.cluster.nodes)).breaks(WHOLE, "timed out");
    remove().with(|bench| gap(&mut bench.input.observed.cluster.pods)).breaks(WHOLE, "timed out");
    lend().with(|bench| gap(&mut bench.input.observed.cluster.pods)).breaks(WHOLE, "timed out");
    replace().with(|bench| gap(&mut bench.input.observed.cluster.workloads)).breaks(WHOLE, "timed out");
    remove().with(|bench| gap(&mut bench.input.observed.cloud.groups)).passes();
}

#[test]
fn nothing_is_destroyed_after_a_snapshot_that_shrank() {
    let without = |count: u32| {
        move |bench: &mut Bench| {
            edit(&mut bench.input.observed.cloud.instances, |all| {
                (0..count).for_each(|index| drop(all.remove(&instance("train", index))))
            });
            bench.plan.held.push(held(pool("train")));
        }
    };
    // A fifth of twenty may be missing, and one more may not.
    remove().with(without(4)).passes();
    remove().with(without(5)).breaks(SHRUNK, "5 of 20 instances");
    // What was launched a moment ago may not be listed yet.
    let fresh = |bench: &mut Bench| {
        let now = bench.input.now;
        (0..5).for_each(|index| bench.slot("train", index).launched = Some(now));
    };
    remove().with(without(5)).with(fresh).passes();
    // What we ended ourselves is expected to go.
    let ended = |bench: &mut Bench| (0..2).for_each(|index| bench.slot("train", index).leaving = true);
    remove().with(without(5)).with(ended).passes();
    // What stood on a Capacity Block that is over is meant to be gone.
    let on_a_block = |state: ReservationState| {
        move |bench: &mut Bench| {
            (0..5).for_each(|index| bench.slot("train", index).reservation = Some("cr-block".into()));
            edit(&mut bench.input.observed.cloud.reservations, |all| {
                let block = all.values().next().expect("the bench has a reservation").clone();
                all.insert("cr-block".into(), ReservationSeen { block: true, state, tag: None, end: None, ..block });
            });
        }
    };
    remove().with(without(5)).with(on_a_block(ReservationState::Ended)).passes();
    remove().with(without(5)).with(on_a_block(ReservationState::Active)).breaks(SHRUNK, "5 of 20 instances");
    let shrunk = without(5);
    lend().with(without(5)).breaks(SHRUNK, "5 of 20");
    // Work goes on being asked to leave by the tide.
    let mut asked = returning(HARD);
    asked.plan.steps.truncate(4);
    assert_eq!(asked.plan.steps[3].id.as_str(), "empty serve/0");
    asked.with(shrunk).passes();
}

#[test]
fn a_pool_that_is_no_longer_named_keeps_its_nodes() {
    let forget = |bench: &mut Bench| {
        bench.input.target.pools.remove("train");
        bench.standing().pools.remove("train");
        bench.input.desired.objects.retain(|object| &*object.key.name != "train");
    };
    remove().with(forget).breaks(FORGOTTEN, "no document names pool train");
}
