//! What a plan may tell the ledger.

use super::bench::*;
use super::flows::*;
use crate::effect::marks::Mark;
use crate::effect::*;
use crate::fleet::policy::{ConditionStatus, Remedy, Rule, Symptom};
use crate::observed::*;
use crate::plan::*;

const LAW: &str = "only what is true";

fn record(change: LedgerChange) -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.step("record", Action::Record(change), Reason::Bookkeeping, &[]);
    bench
}

#[test]
fn a_live_instance_is_not_forgotten() {
    record(LedgerChange::Lost { slot: slot("train", 3) }).breaks(LAW, "i-train-3, which is not seen gone");
    record(LedgerChange::Closed { slot: slot("train", 3) }).breaks(LAW, "i-train-3, which is not seen gone");
    let mut ended = record(LedgerChange::Lost { slot: slot("train", 3) });
    ended.instance("train", 3, |seen| seen.state = InstanceState::Terminated);
    ended.passes();
    remove().edit("close train/9", |step| step.after = vec!["terminate train/9".into()]).breaks(LAW, "not seen gone");
}

#[test]
fn a_slot_with_an_open_request_is_not_closed_nor_its_pool_forgotten() {
    let open = |change: LedgerChange| {
        let mut bench = record(change);
        let request = request(&bench, "train", 3);
        let intent = Intent { request, plan: "p".into(), at: bench.input.now };
        *bench.slot("train", 3) = Slot { generation: 2, intent: Some(intent), ..Slot::default() };
        bench.instance("train", 3, |seen| seen.tag = None);
        bench.plan.held.push(held(pool("train")));
        bench
    };
    open(LedgerChange::Closed { slot: slot("train", 3) }).breaks(LAW, "nobody answered");
    let mut forgotten = open(LedgerChange::Forgotten { pool: "train".into() });
    forgotten.input.target.pools.remove("train");
    forgotten.breaks(LAW, "1 requests of pool train");
    record(LedgerChange::Forgotten { pool: "train".into() }).breaks(LAW, "still name pool train");
}

#[test]
fn a_size_is_noted_that_the_documents_give_and_the_pool_has() {
    let sized = |nodes: u32| record(LedgerChange::Sized { pool: "train".into(), nodes });
    sized(10).passes();
    sized(9).breaks(LAW, "the documents do not give train 9 nodes");
    sized(10).with(|bench| *bench.slot("train", 3) = Slot::default()).breaks_also(LAW, "has 9 nodes, and not 10");
    let smaller = |had: Option<u32>| {
        let mut bench = sized(9);
        bench.standing().pools.get_mut("train").unwrap().size = Some(9);
        bench.input.target.pools.get_mut("train").unwrap().nodes = 9;
        bench.input.target.pools.get_mut("train").unwrap().parts[0].nodes = 9;
        bench.input.ledger.pools.get_mut("train").unwrap().size = had;
        bench.plan.held.push(held(pool("train")));
        bench
    };
    smaller(Some(10)).breaks(LAW, "beyond that size, and nobody was asked");
    smaller(None).breaks(LAW, "beyond that size, and nobody was asked");
}

#[test]
fn an_answer_belongs_to_the_open_request() {
    let launched = |own: bool| {
        let at = Bench::empty(NOON).input.now;
        let mut bench = record(LedgerChange::Launched { slot: slot("train", 3), instance: instance("train", 3), at });
        let request = LaunchRequest { generation: 1, ..request(&bench, "train", 3) };
        let token = if own { token(&uid(), &request.slot, 1, &request.zone) } else { "another".into() };
        let intent = Intent { request: LaunchRequest { token, ..request }, plan: "p".into(), at };
        *bench.slot("train", 3) = Slot { generation: 1, intent: Some(intent), ..Slot::default() };
        bench
    };
    launched(true).passes();
    launched(false).breaks(LAW, "not the answer");
}

#[test]
fn an_instance_is_adopted_by_its_tag_into_a_slot_that_has_none() {
    let adopt = |index: u32| {
        let (launched, generation) = (Bench::empty(NOON).input.now, 1);
        record(LedgerChange::Adopted {
            slot: slot("train", index),
            instance: instance("train", 3),
            generation,
            launched,
        })
    };
    let mut bench = adopt(3);
    bench.slot("train", 3).instance = None;
    bench.passes();
    adopt(4).breaks(LAW, "does not carry the tag of train/4");
    let mut taken = adopt(3);
    taken.slot("train", 3).instance = Some(instance("train", 4));
    taken.breaks_also(LAW, "train/3 has i-train-4");
}

#[test]
fn only_a_person_turns_a_tide_that_has_no_guard() {
    let at = Bench::empty(NOON).input.now;
    let recall = || LedgerChange::Recall { tide: "nightly".into(), recall: Recall { at, by: "x".into() } };
    record(recall()).breaks(LAW, "has no guard");
    let mut guarded = record(recall());
    let guard = crate::fleet::tide::Guard {
        prometheus: "load".into(),
        below: "0.6".parse().unwrap(),
        stale_after: crate::units::Duration::minutes(10),
    };
    guarded.standing().tides.get_mut("nightly").unwrap().guard = Some(guard);
    guarded.passes();
}

#[test]
fn what_a_person_or_apply_writes_is_in_no_plan() {
    let at = Bench::empty(NOON).input.now;
    let freeze = Freeze { scope: Scope::Fleet, by: "x".into(), at, reason: "x".into(), all: false };
    let opened = Opened {
        effects: digest(b"x"),
        left: Effects::default(),
        by: "x".into(),
        at,
        templates: std::collections::BTreeMap::new(),
    };
    for change in [
        LedgerChange::Thaw(Scope::Fleet),
        LedgerChange::Freeze(freeze),
        LedgerChange::Open { digest: digest(b"x"), opened },
    ] {
        record(change).breaks(LAW, "not for a plan");
    }
}

#[test]
fn a_rename_a_beginning_and_a_gap_are_checked_too() {
    record(LedgerChange::Renamed { from: "old".into(), to: "train".into() }).breaks(LAW, "no document says");
    record(LedgerChange::Begin { fleet: "other".into(), began: None }).breaks(LAW, "another one");
    let at = Bench::empty(NOON).input.now;
    let missing = || record(LedgerChange::Missing { slot: slot("train", 3), since: Some(at) });
    missing().breaks(LAW, "not missing");
    let hidden = |bench: &mut Bench| {
        edit(&mut bench.input.observed.cloud.instances, |all| drop(all.remove(&instance("train", 3))));
    };
    missing().with(hidden).passes();
    missing().with(hidden).with(|bench| gap(&mut bench.input.observed.cloud.instances)).breaks(LAW, "not missing");
    record(LedgerChange::Reserved { reservation: "h100".into(), id: "cr-9".into() }).breaks(LAW, "cr-9 was not seen");
}

#[test]
fn a_claimed_node_is_missing_from_the_cluster_and_gone_after_a_while() {
    let claimed = |bench: &mut Bench| {
        let slot = bench.slot("train", 3);
        (slot.instance, slot.node) = (None, Some(node("train", 3)));
        bench.instance("train", 3, |seen| seen.tag = None);
    };
    let hidden = |bench: &mut Bench| {
        edit(&mut bench.input.observed.cluster.nodes, |all| drop(all.remove(&node("train", 3))));
        bench.plan.held.push(held(pool("train")));
    };
    let at = Bench::empty(NOON).input.now;
    let missing = || record(LedgerChange::Missing { slot: slot("train", 3), since: Some(at) }).with(claimed);
    missing().breaks_also(LAW, "is not missing from a whole read");
    missing().with(hidden).passes();
    let gone = || record(LedgerChange::Unclaimed { slot: slot("train", 3) }).with(claimed).with(hidden);
    gone().breaks_also(LAW, "not missing for long enough");
    let long = at - jiff::SignedDuration::from_mins(6);
    gone().with(|bench| bench.slot("train", 3).missing_since = Some(long)).passes();
}

#[test]
fn only_a_person_returns_a_node_that_is_there() {
    let back = || record(LedgerChange::Return { node: node("train", 3), at: None });
    back().breaks(LAW, "only a person returns it");
    record(LedgerChange::Return { node: "long-gone".into(), at: None }).passes();
}

#[test]
fn a_node_is_watched_or_not_as_it_is_seen() {
    let now = Bench::empty(NOON).input.now;
    let out = |at| record(LedgerChange::Unwatched { node: node("train", 3), at });
    let closed = |bench: &mut Bench| bench.node("train", 3, |node| node.unschedulable = true);
    out(now).breaks(LAW, "not seen out of service");
    out(now).with(closed).passes();
    out(now - jiff::SignedDuration::from_hours(1)).with(closed).breaks(LAW, "not seen out of service now");
    let back = |at| record(LedgerChange::Watched { node: node("train", 3), at });
    let noted = |bench: &mut Bench| _ = bench.input.ledger.head.unwatched.insert(node("train", 3), now);
    back(Some(now)).breaks(LAW, "not seen in service again");
    back(Some(now)).with(noted).passes();
    back(Some(now)).with(noted).with(closed).breaks(LAW, "not seen in service again");
    back(Some(now - jiff::SignedDuration::from_hours(1))).with(noted).breaks(LAW, "not seen in service again");
    back(None).with(noted).breaks(LAW, "is there");
    record(LedgerChange::Watched { node: "long-gone".into(), at: None }).passes();
}

/// A rule that reports first, and a node that shows what it looks for.
fn reported(then: &[Remedy]) -> Bench {
    let mut bench = Bench::settled(NOON);
    let rule = Rule { when: Symptom::Xid(vec![31]), r#for: Default::default(), then: then.to_vec() };
    bench.standing().health.get_mut("health").unwrap().rules = vec![rule];
    let since = bench.input.now - jiff::SignedDuration::from_mins(10);
    let seen = ConditionSeen::said("SysLogsXIDError", ConditionStatus::True, since, "Monitor", "ErrorCode:31");
    bench.node("train", 3, |node| drop(node.conditions.insert("SysLogsXIDError".into(), seen)));
    bench
}

fn told(mut bench: Bench) -> Bench {
    let text = "train-3 in train/3: Xid 31, which is only reported".into();
    bench.plan.notes.push(Note { on: pool("train"), text });
    bench
}

fn noted(mut bench: Bench, index: u32, rule: u32) -> Bench {
    let treated = Treated { at: bench.input.now, remedy: Remedy::Report, rule, boot: None };
    let change = LedgerChange::Treated { slot: slot("train", index), treated };
    bench.step(&format!("report {index}"), Action::Record(change), Reason::Bookkeeping, &[]);
    bench
}

#[test]
fn what_a_policy_only_reports_is_told_and_remembered_for_its_next_rung() {
    const TOLD: &str = "what a policy reports is told";
    let (only, ladder) = ([Remedy::Report], [Remedy::Report, Remedy::Quarantine]);
    reported(&only).breaks(TOLD, "nobody hears that train-3 shows this: Xid 31");
    told(reported(&only)).passes();
    told(reported(&ladder)).breaks(TOLD, "nobody remembers it");
    noted(told(reported(&ladder)), 3, 0).passes();
    // What was never shown, or was noted before, would let the next occurrence skip a rung.
    noted(told(noted(reported(&ladder), 3, 0)), 4, 0).breaks(TOLD, "train/4 shows nothing new");
    let mut again = noted(told(reported(&ladder)), 3, 0);
    let before = Treated { at: again.input.now, remedy: Remedy::Report, rule: 0, boot: None };
    again.slot("train", 3).remedies.push(before);
    again.breaks(TOLD, "train/3 shows nothing new");
}

#[test]
fn nothing_is_done_to_a_node_that_is_only_reported() {
    let mut bench = told(reported(&[Remedy::Report]));
    let reason = Reason::Sick { remedy: Remedy::Report, symptom: "Xid 31".into() };
    let mark = Mark::new(bench.input.now, "quarantine");
    let cordon = Action::Cluster(ClusterAction::Cordon { node: node("train", 3), mark });
    bench.step("cordon", cordon, reason, &[]);
    bench.breaks_also("what a policy reports is told", "only to be reported");
}
