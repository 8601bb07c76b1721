//! What is wrong with a node by the policy that watches it, and which rung of the ladder comes next.
//!
//! Planner and `compile::seats` ask here: who is sick is replaced, or goes first where a pool becomes smaller.

use jiff::{SignedDuration, Timestamp};

use super::{Slot, Treated};
use crate::fleet::policy::{ConditionStatus, Remedy, Rule, Straggler, Symptom};
use crate::fleet::standing::HealthSpec;
use crate::observed::condition::complains;
use crate::observed::{ConditionSeen, NodeSeen, Verdict};

/// A rung counts for a week.
const WEEK: SignedDuration = SignedDuration::from_hours(24 * 7);
/// How long a remedy may take to show: a boot, and the checks after it.
const HEALS_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// The condition in which a monitor reports a node that holds up the others.
const STRAGGLING: &str = "Straggling";
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

/// What is wrong with a node by a policy; the harshest remedy of all rules that strike.
pub fn sickness(policy: &HealthSpec, record: Option<&Slot>, node: &NodeSeen, now: Timestamp) -> Option<Sickness> {
    let struck = policy.rules.iter().enumerate().filter_map(|(place, rule)| {
        let rule_id = u32::try_from(place).unwrap_or(ADMIT_RULE - 1);
        let shown = shows(node, rule)?;
        let lasts = now.duration_since(shown.since) >= rule.r#for.signed();
        lasts.then(|| rung(now, record, rule, rule_id, shown)).flatten()
    });
    struck.max_by_key(|sickness| harshness(sickness.remedy))
}

fn harshness(remedy: Remedy) -> u8 {
    match remedy {
        Remedy::Report => 0,
        Remedy::Reboot => 1,
        Remedy::Quarantine => 2,
        Remedy::Replace => 3,
    }
}

/// A symptom as a node shows it.
struct Shown {
    since: Timestamp,
    symptom: String,
    /// What the driver says about it.
    verdict: Option<Verdict>,
}

fn shows(node: &NodeSeen, rule: &Rule) -> Option<Shown> {
    match &rule.when {
        Symptom::Xid(codes) => xid(node, codes),
        Symptom::Condition(wanted) => {
            let seen = node.conditions.get(&wanted.r#type).filter(|seen| seen.status == wanted.status)?;
            let symptom = format!("{} is {:?}", wanted.r#type, wanted.status);
            Some(Shown { since: seen.since, symptom, verdict: None })
        }
        Symptom::Straggler(limit) => {
            let seen = node.conditions.get(STRAGGLING).filter(|seen| seen.status == ConditionStatus::True)?;
            let symptom = holds_up(seen, limit)?;
            Some(Shown { since: seen.since, symptom, verdict: None })
        }
    }
}

/// A code that some condition complains of, unless the driver says that nothing is to be done: it knows the state of the
/// GPU, and a list of codes does not.
fn xid(node: &NodeSeen, codes: &[u32]) -> Option<Shown> {
    let complaints =
        || node.conditions.iter().filter(|(kind, seen)| complains(kind, seen.status)).map(|(_, seen)| seen);
    let verdict = complaints().filter_map(|seen| seen.verdict).max();
    if verdict == Some(Verdict::Nothing) {
        return None;
    }
    complaints().find_map(|seen| {
        let code = seen.xids.iter().find(|code| codes.contains(code))?;
        let symptom = match verdict {
            Some(Verdict::Boot) => format!("Xid {code}, and the driver asks for a reset"),
            Some(Verdict::Replace) => format!("Xid {code}, and no reset is said to help"),
            Some(Verdict::Nothing) | None => format!("Xid {code}"),
        };
        Some(Shown { since: seen.since, symptom, verdict })
    })
}

/// A report with numbers is held against the rule; one without is the monitor's own judgement.
fn holds_up(seen: &ConditionSeen, limit: &Straggler) -> Option<String> {
    match &seen.slow {
        None => Some("it holds up the others".into()),
        Some(slow) => {
            let counts = slow.ratio.0 >= limit.slower_than.0 && slow.windows >= limit.windows;
            counts.then(|| {
                format!("its steps take {} times as long as the others', {} windows in a row", slow.ratio, slow.windows)
            })
        }
    }
}

/// The rung that this occurrence stands on: one further for each earlier one within a week.
fn rung(now: Timestamp, record: Option<&Slot>, rule: &Rule, rule_id: u32, shown: Shown) -> Option<Sickness> {
    let Shown { since, symptom, verdict } = shown;
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
    let place = done().count().max(asked(rule, verdict)).min(rule.then.len().saturating_sub(1));
    let remedy = *rule.then.get(place)?;
    // A ladder that ends with a boot would boot for ever what no boot mends.
    let booted_in_vain = remedy == Remedy::Reboot && done().count() >= rule.then.len();
    if booted_in_vain {
        let symptom = format!("{symptom} again, after the last step of its ladder, a boot");
        return Some(Sickness { remedy: Remedy::Quarantine, rule: rule_id, symptom, begun: None });
    }
    Some(Sickness { remedy, rule: rule_id, symptom, begun: None })
}

/// The rung of the ladder that the driver asks for. It chooses among those that are written: a rule that only reports
/// disturbs nobody, whatever the driver says.
fn asked(rule: &Rule, verdict: Option<Verdict>) -> usize {
    let helps = |remedy: &Remedy| match verdict {
        Some(Verdict::Boot) => *remedy == Remedy::Reboot,
        Some(Verdict::Replace) => matches!(remedy, Remedy::Quarantine | Remedy::Replace),
        Some(Verdict::Nothing) | None => false,
    };
    rule.then.iter().position(helps).unwrap_or(0)
}
