//! How much may go at once and in an hour, and what people are told of it.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::bench::*;
use super::flows::*;
use crate::effect::marks::{MIG_CONFIG, PLUGIN_CONFIG};
use crate::effect::*;
use crate::fleet::policy::Remedy;
use crate::fleet::updates::Canary;
use crate::observed::*;
use crate::plan::*;
use crate::units::Duration;

const REMOVALS: &str = "hourly limit";
const APPROVED: &str = "many nodes is approved";
const HEALTH: &str = "health takes";
const UNAVAILABLE: &str = "maxUnavailable";
const CANARY: &str = "the canary serves first";
const READY: &str = "must stay up";
const LEGAL: &str = "cut only as";
const SHARED: &str = "shares its GPUs otherwise";
const EFFECTS: &str = "effects of a plan";

/// Removes the last nodes of `train`.
fn removing(count: u32) -> Bench {
    let mut bench = Bench::settled(NOON);
    let left = 10 - count;
    let train = bench.input.target.pools.get_mut("train").unwrap();
    (train.nodes, train.parts[0].nodes) = (left, left);
    for index in left..10 {
        bench.drain("train", index, "remove", &Reason::NotWanted, &[]);
        bench.terminate("train", index, &Reason::NotWanted);
    }
    bench
}

#[test]
fn removals_by_choice_keep_the_hourly_limit() {
    let limit = |bench: &mut Bench, limit: u32| bench.standing().limits.nodes_removed_per_hour = limit;
    remove().with(|bench| limit(bench, 1)).passes();
    remove().with(|bench| limit(bench, 0)).breaks(REMOVALS, "1 more are planned, 0 may be");
    let earlier = |minutes: i64, index: u32| {
        let mut bench = remove().with(|bench| limit(bench, 1));
        let at = bench.input.now - SignedDuration::from_mins(minutes);
        bench.input.ledger.pools.get_mut("train").unwrap().removed.push((index, at));
        bench
    };
    earlier(59, 2).breaks(REMOVALS, "1 were removed");
    earlier(61, 2).passes();
    // Begun before a crash: the same removal.
    earlier(5, 9).passes();
    // Of another node in the same slot: another removal.
    earlier(5, 9)
        .with(|bench| {
            let since = bench.input.now - SignedDuration::from_mins(2);
            bench.slot("train", 9).launched = Some(since);
        })
        .breaks(REMOVALS, "1 were removed");
    returning(RECLAIM).with(|bench| limit(bench, 0)).passes();
}

#[test]
fn a_removal_of_many_nodes_needs_an_open_approval() {
    removing(2).passes();
    removing(3).breaks(APPROVED, "3 of 22 nodes");
    let opened = |count: u32| {
        let mut bench = removing(3);
        let left = Effects::one(Verb::Terminate, pool("train"), Amount::count(count));
        let opened =
            Opened { effects: left.digest(), left, by: "ana".into(), at: bench.input.now, templates: BTreeMap::new() };
        bench.input.ledger.head.approvals.insert(digest(b"x"), opened);
        bench
    };
    opened(3).passes();
    opened(2).breaks(APPROVED, "no open approval covers");
}

#[test]
fn health_takes_no_more_nodes_than_its_policy_allows() {
    let sick = |indexes: &[u32]| {
        let mut bench = Bench::settled(NOON);
        let reason = Reason::Sick { remedy: Remedy::Reboot, symptom: "Xid 79".into() };
        indexes.iter().for_each(|index| bench.drain("train", *index, "reboot", &reason, &[]));
        bench
    };
    sick(&[3]).passes();
    sick(&[3, 4]).breaks(HEALTH, "2 nodes of pool train would be out, and 1 may be");
    sick(&[3]).with(|bench| bench.cordoned("train", 5, "quarantine")).breaks(HEALTH, "2 nodes");
    // What a person took out is not held against the policy.
    let quarantined = |by: &str| {
        sick(&[3]).with(|bench| {
            bench.cordoned("train", 5, "quarantine");
            let quarantine = Quarantine { by: by.into(), at: bench.input.now, reason: "x".into() };
            bench.input.ledger.head.quarantined.insert(node("train", 5), quarantine);
        })
    };
    quarantined("ana").passes();
    quarantined(Quarantine::BY_POLICY).breaks(HEALTH, "2 nodes");
    let unwatched =
        |indexes: &[u32]| sick(indexes).with(|bench| bench.standing().pools.get_mut("train").unwrap().health = None);
    unwatched(&[3]).passes();
    unwatched(&[3, 4]).breaks(HEALTH, "2 nodes of pool train would be out, and 1 may be");
}

fn updating(indexes: &[u32]) -> Bench {
    let mut bench = Bench::settled(NOON);
    for index in indexes {
        bench.drain("train", *index, "replace", &Reason::Outdated, &[]);
        bench.terminate("train", *index, &Reason::Outdated);
        bench.launch("train", *index, Reason::Outdated, &[&format!("gone train/{index}")]);
    }
    bench
}

#[test]
fn updates_take_out_no_more_nodes_than_the_pool_allows() {
    updating(&[1, 2]).passes();
    updating(&[1, 2, 3]).breaks(UNAVAILABLE, "3 nodes of pool train would be out for updates, 2 may be");
    updating(&[1, 2]).with(|bench| bench.cordoned("train", 7, "replace")).breaks(UNAVAILABLE, "3 nodes");
    updating(&[1, 2]).with(|bench| bench.cordoned("train", 1, "replace")).passes();
    updating(&[1, 2]).with(|bench| bench.cordoned("train", 7, "quarantine")).passes();
    // What somebody keeps out counts, and takes no more where it is the one that moves.
    let quarantined = |bench: &mut Bench, index: u32| {
        let quarantine = Quarantine { by: "ana".into(), at: bench.input.now, reason: "x".into() };
        bench.input.ledger.head.quarantined.insert(node("train", index), quarantine);
    };
    updating(&[1]).with(|bench| quarantined(bench, 7)).passes();
    updating(&[1, 2]).with(|bench| quarantined(bench, 7)).breaks(UNAVAILABLE, "3 nodes of pool train would be out, 1");
    let drained = |bench: &mut Bench| {
        let (by, reason) = ("ana".into(), "x".into());
        let order = DrainOrder { by, at: bench.input.now, reason, unmanaged: false, local_data: false };
        bench.input.ledger.head.drains.insert(node("train", 7), order);
    };
    updating(&[1, 2]).with(drained).breaks(UNAVAILABLE, "3 nodes");
    let closed = |bench: &mut Bench, index: u32| bench.node("train", index, |node| node.unschedulable = true);
    updating(&[1, 2]).with(|bench| closed(bench, 7)).breaks(UNAVAILABLE, "3 nodes");
    updating(&[1, 2]).with(|bench| closed(bench, 2)).passes();
    let away = |bench: &mut Bench| {
        let at = bench.input.now - SignedDuration::from_mins(5);
        bench.input.ledger.pools.get_mut("train").unwrap().removed.push((7, at));
        bench.instance("train", 7, |seen| seen.state = InstanceState::Pending);
        edit(&mut bench.input.observed.cluster.nodes, |nodes| drop(nodes.remove(&node("train", 7))));
    };
    updating(&[1, 2]).with(away).breaks(UNAVAILABLE, "3 nodes");
    // It was ended a moment ago, and its node is still listed: one node, not two.
    let ending = |bench: &mut Bench| {
        let at = bench.input.now - SignedDuration::from_mins(5);
        bench.input.ledger.pools.get_mut("train").unwrap().removed.push((7, at));
        bench.cordoned("train", 7, "replace");
        bench.node("train", 7, |node| node.ready = false);
    };
    updating(&[1]).with(ending).passes();
    updating(&[1, 2]).with(ending).breaks(UNAVAILABLE, "3 nodes");
    // A gang that spanned three nodes counted as one; it is gone, and they are still out.
    let begun = |bench: &mut Bench| [1, 2, 3].into_iter().for_each(|index| bench.cordoned("train", index, "replace"));
    updating(&[1, 2, 3]).with(begun).passes();
    updating(&[1, 2, 3, 4]).with(begun).breaks(UNAVAILABLE, "4 nodes");
}

#[test]
fn nodes_that_have_just_come_are_cut_all_at_once() {
    let cutting = |from: Option<crate::ids::LayoutName>, was_cut: bool| {
        let mut bench = Bench::settled(NOON);
        let reason = Reason::Layout { from, to: "halves".into() };
        for index in 0..6 {
            bench.node("serve", index, |node| {
                node.allocatable.clear();
                node.labels.remove(MIG_CONFIG);
                if was_cut {
                    node.labels.insert(MIG_CONFIG.into(), "as-it-was-written-before".into());
                }
            });
            bench.drain("serve", index, "cut", &reason, &[]);
            bench.cut("serve", index, "halves", &reason);
        }
        bench
    };
    cutting(None, false).passes();
    cutting(Some("whole".into()), false).breaks(UNAVAILABLE, "6 nodes of pool serve");
    // What a layout was before an edit is in no document any more, and its nodes have served.
    cutting(None, true).breaks(UNAVAILABLE, "6 nodes of pool serve");
}

/// Drains gangs of `train`, each from all its nodes.
fn moving(gangs: &[(&str, &[u32])]) -> Bench {
    let mut bench = Bench::settled(NOON);
    for (gang, indexes) in gangs {
        let on: Vec<(&str, u32)> = indexes.iter().map(|index| ("train", *index)).collect();
        bench.gang(gang, "vision", "research", &on);
        for index in *indexes {
            bench.drain("train", *index, "replace", &Reason::Outdated, &[gang]);
        }
        for index in *indexes {
            bench.find(&format!("empty train/{index}")).after.push(format!("suspend {gang}").as_str().into());
        }
    }
    bench.plan.steps.sort_by_key(|step| match step.id.as_str().split(' ').next() {
        Some("cordon") => 0,
        Some("settle") => 1,
        Some("suspend") => 2,
        _ => 3,
    });
    bench
}

#[test]
fn a_gang_wider_than_the_budget_moves_alone() {
    moving(&[("bert", &[1, 2])]).passes();
    moving(&[("bert", &[1, 2, 3])]).passes();
    moving(&[("bert", &[1, 2, 3]), ("t5", &[4, 5, 6])]).breaks(UNAVAILABLE, "6 nodes of pool train");
    moving(&[("bert", &[1, 2]), ("t5", &[4])]).breaks(UNAVAILABLE, "3 nodes of pool train");
    moving(&[("bert", &[1, 2, 3])]).with(|bench| bench.cordoned("train", 7, "replace")).breaks(UNAVAILABLE, "4 nodes");
    // Alone: with nobody kept out beside it, but for its own nodes.
    let quarantined = |bench: &mut Bench| {
        let quarantine = Quarantine { by: "ana".into(), at: bench.input.now, reason: "x".into() };
        bench.input.ledger.head.quarantined.insert(node("train", 7), quarantine);
    };
    moving(&[("bert", &[1, 2, 3])]).with(quarantined).breaks(UNAVAILABLE, "4 nodes of pool train would be out, 1");
    let closed = |bench: &mut Bench, index: u32| bench.node("train", index, |node| node.unschedulable = true);
    moving(&[("bert", &[1, 2, 3])]).with(|bench| closed(bench, 7)).breaks(UNAVAILABLE, "4 nodes");
    moving(&[("bert", &[1, 2, 3])]).with(|bench| closed(bench, 2)).passes();
}

#[test]
fn what_was_begun_is_finished_whatever_the_budget() {
    // The gang is gone from its nodes: nothing but the cordon says that they belong together.
    let begun = |bench: &mut Bench| (1..=3).for_each(|index| bench.cordoned("train", index, "replace"));
    updating(&[1, 2, 3]).with(begun).passes();
    updating(&[1, 2, 3, 4]).with(begun).breaks(UNAVAILABLE, "4 nodes of pool train");
    // One of its nodes was closed, and it still stands on all of them.
    moving(&[("bert", &[1, 2, 3])]).with(|bench| bench.cordoned("train", 1, "replace")).passes();
}

#[test]
fn no_node_of_a_gang_that_moves_stays_behind_to_be_moved_later() {
    const ONCE: &str = "a gang moves once";
    let old = |bench: &mut Bench| bench.instance("train", 4, |seen| seen.template = Some(digest(b"older")));
    replace().passes();
    replace().with(old).breaks(ONCE, "train-4 stays open");
    moving(&[("bert", &[3, 4])]).with(old).passes();
    // What else is the matter with the pool may keep it there.
    replace().with(old).with(|bench| bench.plan.held.push(held(pool("train")))).passes();
}

#[test]
fn work_saves_itself_before_its_window_closes() {
    let closing = |to: &str| {
        replace().with(|bench| {
            let text = format!(r#"{{"days": ["Mon-Fri"], "from": "10:00", "to": "{to}"}}"#);
            bench.standing().pools.get_mut("train").unwrap().updates.windows =
                vec![serde_json::from_str(&text).unwrap()];
            let checkpoint = serde_json::from_str(r#"{"deadline": "10m", "signal": "termination"}"#).unwrap();
            bench.standing().tiers.get_mut("research").unwrap().checkpoint = Some(checkpoint);
        })
    };
    closing("12:11").passes();
    closing("12:10").breaks("as `when` and the windows allow", "closes before its work has saved itself");
}

/// A new version that some nodes of `train` run since 48 hours, and these move to.
fn trying(on_it: u32, indexes: &[u32], hours: u64) -> Bench {
    let mut bench = updating(indexes);
    let canary = Canary { nodes: 1, r#for: Duration::hours(hours) };
    bench.standing().pools.get_mut("train").unwrap().updates.canary = Some(canary);
    for index in on_it..10 {
        bench.instance("train", index, |seen| seen.template = Some(digest(b"older")));
    }
    bench
}

#[test]
fn the_canary_serves_first() {
    trying(0, &[1], 24).passes();
    trying(0, &[1, 2], 24).breaks(CANARY, "2 nodes of pool train");
    trying(1, &[1, 2], 24).passes();
    // It has not served for so long.
    trying(1, &[1], 100).breaks(CANARY, "2 nodes of pool train");
    // Whatever keeps it out of service: it is none, and no other is tried instead.
    type Change = fn(&mut Bench);
    let out: [Change; 6] = [
        |bench| bench.node("train", 0, |node| node.ready = false),
        |bench| bench.node("train", 0, |node| node.unschedulable = true),
        |bench| bench.cordoned("train", 0, "reboot"),
        |bench| bench.node("train", 0, |node| node.created += SignedDuration::from_hours(47)),
        |bench| {
            let quarantine = Quarantine { by: "ana".into(), at: bench.input.now, reason: "x".into() };
            bench.input.ledger.head.quarantined.insert(node("train", 0), quarantine);
        },
        |bench| {
            let (by, reason) = ("ana".into(), "x".into());
            let order = DrainOrder { by, at: bench.input.now, reason, unmanaged: false, local_data: false };
            bench.input.ledger.head.drains.insert(node("train", 0), order);
        },
    ];
    out.into_iter().for_each(|out| trying(1, &[1], 24).with(out).breaks_also(CANARY, "2 nodes of pool train"));
    // Out of service since before another one had served so long: that one is no proof either.
    let quarantined = |hours: i64| {
        trying(2, &[2], 24).with(|bench| {
            let at = bench.input.now - SignedDuration::from_hours(hours);
            let quarantine = Quarantine { by: "ana".into(), at, reason: "x".into() };
            bench.input.ledger.head.quarantined.insert(node("train", 0), quarantine);
        })
    };
    quarantined(23).passes();
    quarantined(25).breaks(CANARY, "3 nodes of pool train");
    // Time out of service is no time that it served.
    let returned = |hours: i64| {
        trying(1, &[1], 24).with(|bench| {
            let at = bench.input.now - SignedDuration::from_hours(hours);
            bench.input.ledger.head.returned.insert(node("train", 0), at);
        })
    };
    returned(24).passes();
    returned(23).breaks(CANARY, "2 nodes of pool train");
    let answers = |hours: i64| {
        trying(1, &[1], 24).with(|bench| {
            let at = bench.input.now - SignedDuration::from_hours(hours);
            bench.node("train", 0, |node| node.ready_since = Some(at));
        })
    };
    answers(24).passes();
    answers(23).breaks(CANARY, "2 nodes of pool train");
    // It was closed by hand, and is seen open for the first time.
    let closed = |bench: &mut Bench| {
        let at = bench.input.now - SignedDuration::from_hours(40);
        bench.input.ledger.head.unwatched.insert(node("train", 0), at);
    };
    trying(1, &[1], 24).with(closed).breaks(CANARY, "2 nodes of pool train");
}

#[test]
fn the_canary_of_an_edited_cut_serves_first() {
    let cutting = |indexes: &[u32]| {
        let mut bench = Bench::settled(NOON);
        let canary = Canary { nodes: 1, r#for: Duration::hours(24) };
        bench.standing().pools.get_mut("serve").unwrap().updates.canary = Some(canary);
        for index in 0..6 {
            let cut = "as-it-was-written-before".to_string();
            bench.node("serve", index, |node| {
                node.labels.insert(MIG_CONFIG.into(), cut);
                node.allocatable.clear();
            });
        }
        let reason = Reason::Layout { from: None, to: "halves".into() };
        for index in indexes {
            bench.drain("serve", *index, "cut", &reason, &[]);
            bench.cut("serve", *index, "halves", &reason);
        }
        bench.plan.held.push(held(pool("serve")));
        bench
    };
    cutting(&[1]).passes();
    cutting(&[1, 2]).breaks(CANARY, "2 nodes of pool serve");
}

#[test]
fn what_is_on_its_way_to_a_new_version_was_tried() {
    trying(0, &[1], 24).with(|bench| bench.cordoned("train", 5, "replace")).breaks(CANARY, "2 nodes");
    trying(0, &[1], 24).with(|bench| bench.cordoned("train", 5, "quarantine")).passes();
    // What was begun is finished.
    trying(0, &[5], 24).with(|bench| bench.cordoned("train", 5, "replace")).passes();
    // A node of it that nobody wants is no canary, and none that was tried.
    let smaller = |bench: &mut Bench| {
        let train = bench.input.target.pools.get_mut("train").unwrap();
        (train.nodes, train.parts[0].nodes) = (9, 9);
        bench.plan.held.push(held(pool("train")));
    };
    let last = |bench: &mut Bench| {
        let wanted = bench.input.desired.pools["train"].template.digest.clone();
        bench.instance("train", 9, |seen| seen.template = Some(wanted));
    };
    trying(0, &[1], 24).with(last).with(smaller).passes();
    trying(0, &[1, 2], 24).with(last).with(smaller).breaks(CANARY, "2 nodes");
}

#[test]
fn what_went_before_a_memory_began_counts_for_an_hour() {
    let limit = |bench: &mut Bench| bench.standing().limits.nodes_removed_per_hour = 1;
    let began = |minutes: i64| {
        remove().with(limit).with(|bench| {
            let at = bench.input.now - SignedDuration::from_mins(minutes);
            (bench.input.ledger.head.fleet, bench.input.ledger.head.began) =
                (Some(uid()), Some(Began { at, ended: 1, anew: false }));
        })
    };
    began(59).breaks(REMOVALS, "1 were removed");
    began(61).passes();
    // Before the first record, what the cloud still lists.
    let lost = |fleet: &str| {
        remove().with(limit).with(|bench| {
            bench.input.ledger.head.fleet = None;
            edit(&mut bench.input.observed.cloud.instances, |all| {
                let mut seen = all[&instance("train", 0)].clone();
                (seen.state, seen.tag.as_mut().unwrap().fleet) = (InstanceState::Terminated, fleet.into());
                all.insert("i-earlier".into(), seen);
            });
        })
    };
    lost(uid().as_str()).breaks(REMOVALS, "1 were removed");
    lost("somebody-else").passes();
}

#[test]
fn slices_that_must_stay_up_do_while_a_pool_is_cut() {
    let keeping = |keep: u32| {
        let mut bench = Bench::settled(NOON);
        let reason = Reason::Layout { from: None, to: "halves".into() };
        for index in [3, 4] {
            bench.drain("serve", index, "cut", &reason, &[]);
            bench.cut("serve", index, "halves", &reason);
        }
        bench.standing().layouts.get_mut("halves").unwrap().keep_ready = BTreeMap::from([("3g.40gb".into(), keep)]);
        bench
    };
    keeping(64).passes();
    keeping(65).breaks(READY, "64 slices 3g.40gb would be up, and 65 must be");
    // Nodes that do not serve anyway are no loss.
    let mut out = keeping(80);
    for index in 3..6 {
        out.node("serve", index, |node| node.ready = false);
    }
    out.passes();
}

#[test]
fn a_node_is_cut_only_as_its_pool_may_be_and_holds_what_is_promised() {
    let change = |bench: &mut Bench, change: fn(&mut LaidOut)| {
        if let Action::Cluster(ClusterAction::Cut { laid_out, .. }) = &mut bench.find("cut serve/0").action {
            change(laid_out);
        }
    };
    lend()
        .with(|bench| change(bench, |laid_out| drop(laid_out.labels.insert("a".into(), "b".into()))))
        .breaks(LEGAL, "no layout");
    for (layout, resource) in
        [("whole", "nvidia.com/gpu"), ("halves", "nvidia.com/mig-3g.40gb"), ("whole", "nvidia.com/mig-9g.99gb")]
    {
        let mut bench = if layout == "whole" { lend() } else { returning(RECLAIM) };
        let layouts = &mut bench.input.desired.pools.get_mut("serve").unwrap().layouts;
        let promise = layouts.get_mut(layout).unwrap();
        promise.allocatable.insert(resource.into(), 17);
        let promise = promise.clone();
        if let Action::Cluster(ClusterAction::Cut { laid_out, .. }) = &mut bench.find("cut serve/0").action {
            *laid_out = promise;
        }
        bench.breaks(LEGAL, "cannot hold");
    }
}

#[test]
fn a_node_that_shares_otherwise_than_it_should_is_in_a_step_or_held() {
    let told = |bench: &mut Bench, entry: &str| {
        bench.node("serve", 0, |node| drop(node.labels.insert(PLUGIN_CONFIG.into(), entry.into())));
    };
    let shares = || Bench::settled(NOON).with(|bench| told(bench, "tw-four"));
    shares().breaks(SHARED, "serve/0 shares its GPUs as tw-four");
    // Other people's sharing is theirs, and what the layout says is no leftover.
    Bench::settled(NOON).with(|bench| told(bench, "theirs")).passes();
    let wanted = |bench: &mut Bench| {
        let layouts = &mut bench.input.desired.pools.get_mut("serve").unwrap().layouts;
        layouts.values_mut().for_each(|one| drop(one.labels.insert(PLUGIN_CONFIG.into(), "tw-four".into())));
    };
    shares().with(wanted).passes();
    // Held by name, or out of service, or on its way there.
    let waits = |slot: &str| {
        let wanted = format!("cut it in {slot} as halves");
        shares().with(|bench| bench.plan.held.push(Held { wanted, ..held(pool("serve")) }))
    };
    waits("serve/0").passes();
    waits("serve/7").breaks(SHARED, "serve/0 shares");
    let out = || shares().with(|bench| bench.cordoned("serve", 0, "cut"));
    out().passes();
    let opened = |bench: &mut Bench| {
        let uncordon = Action::Cluster(ClusterAction::Uncordon { node: node("serve", 0) });
        bench.step("open", uncordon, Reason::Bookkeeping, &[]);
    };
    out().with(opened).breaks(SHARED, "serve/0 shares");
    lend().with(|bench| told(bench, "tw-four")).passes();
}

#[test]
fn effects_cover_what_the_steps_do() {
    for id in ["terminate train/3", "launch train/3"] {
        replace().edit(id, |step| step.effects = Effects::default()).breaks(EFFECTS, "do not say");
    }
    replace().edit("suspend bert", |step| step.effects = Effects::default()).breaks(EFFECTS, "vision is disturbed");
    replace()
        .edit("suspend bert", |step| step.effects = disturbs("train", "vision", 100))
        .breaks(EFFECTS, "tier as high");
    lend().edit("cut serve/0", |step| step.effects = Effects::default()).breaks(EFFECTS, "`cut`");
    let mut hidden = replace();
    hidden.seal();
    hidden.plan.effects = Effects::default();
    hidden.plan.digest = hidden.plan.effects.digest();
    let found = super::audit(&hidden.input, hidden.plan.clone()).unwrap_err();
    assert!(found.iter().any(|violation| violation.what.contains("terminate pool/train")), "{found:#?}");
    let mut wrong = replace();
    wrong.seal();
    wrong.plan.digest = digest(b"another");
    let found = super::audit(&wrong.input, wrong.plan.clone()).unwrap_err();
    assert_eq!(
        found[0].to_string(),
        "the effects of a plan bound what its steps do: the digest is not that of the effects"
    );
}

#[test]
fn who_is_disturbed_by_choice_is_asked_for() {
    replace()
        .edit("suspend bert", |step| step.consent = Consent::Standing)
        .breaks("disturbed by choice", "asks nobody");
}

#[test]
fn a_tide_takes_what_it_brought_and_no_more() {
    const CONSENT: &str = "disturbed by choice";
    let goes = |size: u32, had: Option<u32>, resizes: bool| {
        let mut bench = remove();
        let reasons = bench.plan.steps.iter_mut().map(|step| &mut step.reason);
        reasons.filter(|reason| **reason == Reason::NotWanted).for_each(|reason| *reason = Reason::Resized);
        bench.standing().pools.get_mut("train").unwrap().size = Some(size);
        bench.input.ledger.pools.get_mut("train").unwrap().size = had;
        let tide = bench.standing().tides.values_mut().next().unwrap();
        tide.resizes.extend(resizes.then(|| "train".into()));
        bench
    };
    // The documents give it ten, and nine until the tide turns.
    goes(10, None, false).passes();
    // They gave it nine when it last had them, and the tide one more.
    goes(9, Some(9), true).passes();
    goes(9, None, true).breaks(CONSENT, "1 nodes of train go by a tide, and 0 are a tide's");
    goes(9, Some(10), true).breaks(CONSENT, "0 are a tide's");
    goes(9, Some(9), false).breaks(CONSENT, "0 are a tide's");
}

#[test]
fn everything_wanted_is_in_a_step_or_held() {
    const SLOTS: &str = "every slot";
    const OBJECTS: &str = "every object";
    let mut lacks = Bench::settled(NOON);
    lacks.instance("train", 3, |seen| seen.state = InstanceState::Terminated);
    lacks.breaks(SLOTS, "train/3 has no node");
    let mut surplus = Bench::settled(NOON);
    surplus.input.target.pools.get_mut("train").unwrap().nodes = 9;
    surplus.breaks(SLOTS, "train/9 is not wanted");
    let mut spoken = Bench::settled(NOON);
    spoken.input.target.pools.get_mut("train").unwrap().nodes = 9;
    spoken.plan.held.push(held(pool("train")));
    spoken.passes();
    let mut left_out = Bench::settled(NOON);
    left_out.input.target.pools.get_mut("train").unwrap().nodes = 9;
    left_out.plan.left_out.push(pool("train"));
    left_out.passes();

    let key = ObjectKey::cluster(ObjectKind::ClusterQueue, "vision");
    let change = |change: fn(&mut ObjectSeen)| {
        let mut bench = Bench::settled(NOON);
        edit(&mut bench.input.observed.cluster.objects, |all| change(all.get_mut(&key).unwrap()));
        bench
    };
    change(|there| there.written = Some(digest(b"older"))).breaks(OBJECTS, "ClusterQueue/vision differs");
    let at = crate::fleet::testing::at(NOON);
    let mut moved = change(|there| there.body = serde_json::json!({"spec": {}}));
    edit(&mut moved.input.observed.cluster.objects, |all| {
        all.get_mut(&key).unwrap().moved_by = Some(("kubectl".into(), at))
    });
    moved.breaks(OBJECTS, "ClusterQueue/vision differs");
    let mut said = change(|there| there.written = Some(digest(b"older")));
    said.plan.held.push(held(Thing::Quota("vision".into())));
    said.passes();
}
