//! Rungs of a ladder that begins with a word to people.

use std::collections::BTreeMap;

use super::*;
use crate::fleet::testing::at;
use crate::units::{Duration, Percent};

const SINCE: &str = "2026-03-02T08:00Z";

fn rule(then: &[Remedy]) -> Rule {
    Rule { when: Symptom::Xid(vec![79]), r#for: Duration::default(), then: then.to_vec() }
}

fn policy(ladders: &[&[Remedy]]) -> HealthSpec {
    HealthSpec { rules: ladders.iter().map(|then| rule(then)).collect(), limit: Percent(50), admit: Vec::new() }
}

fn node(message: &str) -> NodeSeen {
    let status = ConditionStatus::True;
    let seen = ConditionSeen::said("SysLogsXIDError", status, at(SINCE), "Monitor", message);
    NodeSeen {
        uid: "node".into(),
        instance: None,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        allocatable: BTreeMap::new(),
        conditions: BTreeMap::from([("SysLogsXIDError".into(), seen)]),
        created: at("2026-03-01T08:00Z"),
        boot: None,
        moved_by: BTreeMap::new(),
    }
}

/// A slot in which a report of the first rule was noted at these times.
fn reported(times: &[&str]) -> Slot {
    let note = |time: &&str| Treated { at: at(time), remedy: Remedy::Report, rule: 0, boot: None };
    Slot { remedies: times.iter().map(note).collect(), ..Slot::default() }
}

fn remedy(policy: &HealthSpec, slot: &Slot, node: &NodeSeen, now: &str) -> Option<Remedy> {
    sickness(policy, Some(slot), node, at(now)).map(|sick| sick.remedy)
}

#[test]
fn what_is_only_reported_is_no_sickness_and_hides_none() {
    let sick = node("ErrorCode:79");
    assert_eq!(remedy(&policy(&[&[Remedy::Report]]), &Slot::default(), &sick, SINCE), None);
    let both = policy(&[&[Remedy::Report], &[Remedy::Reboot]]);
    assert_eq!(remedy(&both, &Slot::default(), &sick, SINCE), Some(Remedy::Reboot));
    let told = reports(&both, None, &sick, at(SINCE));
    assert_eq!((told.len(), told[0].symptom.as_str(), told[0].next), (1, "Xid 79", None));
    assert!(!told[0].has_to_be_noted(), "it climbs nowhere");
}

#[test]
fn a_report_is_the_same_occurrence_for_as_long_as_it_shows() {
    let ladder = policy(&[&[Remedy::Report, Remedy::Quarantine]]);
    let sick = node("ErrorCode:79");
    let first = &reports(&ladder, Some(&Slot::default()), &sick, at(SINCE))[0];
    assert!(first.has_to_be_noted() && first.next == Some(Remedy::Quarantine));
    let noted = reported(&["2026-03-02T08:01Z"]);
    let now = "2026-03-04T08:00Z";
    assert_eq!(remedy(&ladder, &noted, &sick, now), None, "two days on it is no second one");
    let told = &reports(&ladder, Some(&noted), &sick, at(now))[0];
    assert!(told.is_noted && !told.has_to_be_noted() && told.next == Some(Remedy::Quarantine));
    // One that was noted before this began is an earlier one.
    let earlier = reported(&["2026-03-01T08:00Z"]);
    assert_eq!(remedy(&ladder, &earlier, &sick, SINCE), Some(Remedy::Quarantine));
    let last_week = reported(&["2026-02-20T08:00Z"]);
    assert_eq!(remedy(&ladder, &last_week, &sick, SINCE), None);
}

#[test]
fn a_driver_that_asks_for_more_is_heard_after_a_report() {
    let ladder = policy(&[&[Remedy::Report, Remedy::Reboot]]);
    let noted = reported(&["2026-03-02T08:01Z"]);
    let now = "2026-03-02T09:00Z";
    assert_eq!(remedy(&ladder, &noted, &node("ErrorCode:79"), now), None);
    let asks = node("ErrorCode:79 RecommendedAction: COMPONENT_RESET");
    assert_eq!(remedy(&ladder, &noted, &asks, now), Some(Remedy::Reboot));
}

#[test]
fn a_policy_that_is_edited_to_act_acts_on_what_was_only_reported() {
    let noted = reported(&["2026-03-02T08:01Z"]);
    let now = "2026-03-02T09:00Z";
    let edited = policy(&[&[Remedy::Quarantine]]);
    assert_eq!(remedy(&edited, &noted, &node("ErrorCode:79"), now), Some(Remedy::Quarantine));
}

#[test]
fn nobody_boots_somebody_elses_machine_on_the_next_rung() {
    let ladder = policy(&[&[Remedy::Report, Remedy::Reboot]]);
    let claimed = Slot { node: Some("theirs".into()), ..Slot::default() };
    assert_eq!(reports(&ladder, Some(&claimed), &node("ErrorCode:79"), at(SINCE))[0].next, Some(Remedy::Quarantine));
}

#[test]
fn an_order_to_cut_is_no_report() {
    let order = |rule| Treated { at: at(SINCE), remedy: Remedy::Report, rule, boot: None };
    assert!(order(0).is_report() && !order(u32::MAX).is_report() && !order(OWN_RULES).is_report());
}
