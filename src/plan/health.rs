//! What takes a node out of service, and which rung of the ladder comes next.

use jiff::{SignedDuration, Timestamp};

use super::view::{PoolView, SlotView, View};
use crate::effect::{Slot, Treated};
use crate::fleet::policy::{ConditionStatus, Remedy, Rule, Symptom};
use crate::fleet::standing::HealthSpec;
use crate::observed::NodeSeen;

/// A rung counts for a week.
const WEEK: SignedDuration = SignedDuration::from_hours(24 * 7);
/// How long a remedy may take to show: a boot, and the checks after it.
const HEALS_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// The rule that a missing admission is remembered by.
pub const ADMIT_RULE: u32 = u32::MAX - 1;

/// A sick node and what to do about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Sickness {
    pub remedy: Remedy,
    pub rule: u32,
    pub symptom: String,
    /// The remedy was begun and is on its way: until when it may take to show.
    pub begun: Option<Timestamp>,
}

pub fn policy<'a>(view: &View<'a>, pool: &PoolView<'_>) -> Option<&'a HealthSpec> {
    view.standing.health.get(pool.spec.health.as_ref()?)
}

/// Conditions that a node must show before it serves.
pub fn admission(view: &View<'_>, pool: &PoolView<'_>) -> Vec<String> {
    policy(view, pool)
        .map(|policy| policy.admit.iter().map(|admit| admit.condition.clone()).collect())
        .unwrap_or_default()
}

/// What is wrong with a slot's node, by the pool's policy; the harshest remedy of all rules that strike.
pub fn sickness(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<Sickness> {
    let (_, node) = slot.node?;
    let policy = policy(view, pool)?;
    let struck = policy.rules.iter().enumerate().filter_map(|(place, rule)| {
        let rule_id = u32::try_from(place).unwrap_or(ADMIT_RULE - 1);
        let (since, symptom) = shows(node, rule)?;
        let lasts = view.now.duration_since(since) >= rule.r#for.signed();
        lasts.then(|| rung(view.now, slot.record, rule, rule_id, since, symptom)).flatten()
    });
    struck.max_by_key(|sickness| harshness(sickness.remedy))
}

/// A node that does not show what it must within the time that the policy gives.
pub fn not_admitted(view: &View<'_>, pool: &PoolView<'_>, node: &NodeSeen) -> Option<Sickness> {
    let policy = policy(view, pool)?;
    let late = policy.admit.iter().find(|admit| {
        let says = node.conditions.get(&admit.condition).is_some_and(|seen| seen.status == ConditionStatus::True);
        !says && view.now.duration_since(node.created) > admit.within.signed()
    })?;
    let symptom = format!("it did not say {} within {}", late.condition, late.within);
    Some(Sickness { remedy: Remedy::Replace, rule: ADMIT_RULE, symptom, begun: None })
}

fn harshness(remedy: Remedy) -> u8 {
    match remedy {
        Remedy::Report => 0,
        Remedy::Reboot => 1,
        Remedy::Quarantine => 2,
        Remedy::Replace => 3,
    }
}

/// Since when a node shows a rule's symptom, and in which words.
fn shows(node: &NodeSeen, rule: &Rule) -> Option<(Timestamp, String)> {
    match &rule.when {
        Symptom::Xid(codes) => node.conditions.values().find_map(|seen| {
            let code = seen.xids.iter().find(|code| codes.contains(code))?;
            Some((seen.since, format!("Xid {code}")))
        }),
        Symptom::Condition(wanted) => {
            let seen = node.conditions.get(&wanted.r#type).filter(|seen| seen.status == wanted.status)?;
            Some((seen.since, format!("{} is {:?}", wanted.r#type, wanted.status)))
        }
        // Nobody measures steps yet: `Straggling` is what a monitor may say.
        Symptom::Straggler(_) => {
            let seen = node.conditions.get("Straggling").filter(|seen| seen.status == ConditionStatus::True)?;
            Some((seen.since, "it holds up the others".into()))
        }
    }
}

/// The rung that this occurrence stands on: one further for each earlier one within a week.
fn rung(
    now: Timestamp,
    record: Option<&Slot>,
    rule: &Rule,
    rule_id: u32,
    since: Timestamp,
    symptom: String,
) -> Option<Sickness> {
    let done = || {
        let all = record.into_iter().flat_map(|record| &record.remedies);
        all.filter(|one| one.rule == rule_id && now.duration_since(one.at) < WEEK)
    };
    let last: Option<&Treated> = done().max_by_key(|one| one.at);
    if let Some(last) = last.filter(|last| last.at >= since) {
        if now.duration_since(last.at) < HEALS_WITHIN {
            let begun = last.at.checked_add(HEALS_WITHIN).ok();
            return Some(Sickness { remedy: last.remedy, rule: rule_id, symptom, begun });
        }
        // Whoever returned it knows what it shows.
        if last.remedy == Remedy::Quarantine {
            return None;
        }
    }
    let place = done().count().min(rule.then.len().saturating_sub(1));
    Some(Sickness { remedy: *rule.then.get(place)?, rule: rule_id, symptom, begun: None })
}
