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
/// From here on a remedy is remembered by a rule of our own, such as a cut's: before it are those of policies.
pub const OWN_RULES: u32 = u32::MAX - 3;

/// A sick node and what to do about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Sickness {
    pub remedy: Remedy,
    pub rule: u32,
    pub symptom: String,
    /// The remedy was begun and is on its way: until when it may take to show. Of a report: when it was noted.
    pub begun: Option<Timestamp>,
}

/// What a node shows and people are only told.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    pub rule: u32,
    pub symptom: String,
    pub since: Timestamp,
    /// What comes when it shows it again within a week, where that is more than this rule's last word.
    pub next: Option<Remedy>,
    /// This occurrence is remembered.
    pub is_noted: bool,
}

impl Report {
    /// A rule that has no further rung climbs nowhere, so nothing has to be remembered for it.
    pub fn has_to_be_noted(&self) -> bool {
        self.next.is_some() && !self.is_noted
    }
}

/// What is wrong with a node by a policy; the harshest remedy of all rules that strike. What is only reported is no reason
/// to do anything: [`reports`] has it.
pub fn sickness(policy: &HealthSpec, record: Option<&Slot>, node: &NodeSeen, now: Timestamp) -> Option<Sickness> {
    let struck = struck(policy, node, now).filter_map(|(id, rule, shown)| rung(now, record, rule, id, shown));
    struck.filter(|sickness| sickness.remedy != Remedy::Report).max_by_key(|sickness| harshness(sickness.remedy))
}

/// What a node shows and a policy only reports, by its rules.
pub fn reports(policy: &HealthSpec, record: Option<&Slot>, node: &NodeSeen, now: Timestamp) -> Vec<Report> {
    let is_existing = record.is_some_and(|record| record.node.is_some());
    let report = |(id, rule, shown): (u32, &Rule, Shown)| {
        let since = shown.since;
        let Sickness { remedy, symptom, begun, .. } = rung(now, record, rule, id, shown)?;
        let is_noted = begun.is_some();
        // The last rung is repeated for as long as it comes.
        let place = treated(now, record, id).count() + usize::from(!is_noted);
        let next = rule.then.get(place).map(|next| match next {
            // Nobody here can boot or replace a machine that somebody else runs.
            Remedy::Reboot | Remedy::Replace if is_existing => Remedy::Quarantine,
            next => *next,
        });
        (remedy == Remedy::Report).then_some(Report { rule: id, symptom, since, next, is_noted })
    };
    struck(policy, node, now).filter_map(report).collect()
}

/// The rules that strike, with what they strike at.
fn struck<'p>(policy: &'p HealthSpec, node: &NodeSeen, now: Timestamp) -> impl Iterator<Item = (u32, &'p Rule, Shown)> {
    policy.rules.iter().enumerate().filter_map(move |(place, rule)| {
        let id = u32::try_from(place).unwrap_or(OWN_RULES - 1);
        let shown = shows(node, rule)?;
        (now.duration_since(shown.since) >= rule.r#for.signed()).then_some((id, rule, shown))
    })
}

/// What was done within a week because of a rule.
fn treated(now: Timestamp, record: Option<&Slot>, rule: u32) -> impl Iterator<Item = &Treated> {
    let all = record.into_iter().flat_map(|record| &record.remedies);
    all.filter(move |one| one.rule == rule && now.duration_since(one.at) < WEEK)
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
    let done = || treated(now, record, rule_id);
    let last: Option<&Treated> = done().max_by_key(|one| one.at);
    if let Some(last) = last.filter(|last| last.at >= since) {
        // Saying so heals nothing: it is the same occurrence for as long as it shows, unless the driver asks for more.
        let so_far = done().count();
        let says = rule.then.get(so_far.saturating_sub(1).min(rule.then.len().saturating_sub(1)));
        if last.remedy == Remedy::Report && says == Some(&Remedy::Report) && asked(rule, verdict) < so_far {
            return Some(Sickness { remedy: Remedy::Report, rule: rule_id, symptom, begun: Some(last.at) });
        }
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

#[cfg(test)]
mod tests;
