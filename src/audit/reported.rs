//! What a policy only reports: it is told, remembered as it is, and no reason to touch the node.

use super::Found;
use super::case::Case;
use crate::effect::health::{Report, reports};
use crate::effect::marks::is_starting;
use crate::effect::{Action, LedgerChange, Slot};
use crate::fleet::policy::Remedy;
use crate::ids::{NodeName, PoolName, SlotId};
use crate::observed::{InstanceState, NodeSeen};
use crate::plan::Reason;

const TOLD: &str = "what a policy reports is told, once for each occurrence";

/// What is remembered is what the node shows; a rung that was never reached would let the next occurrence skip one.
pub fn remembered_as_seen(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        if let Action::Record(LedgerChange::Treated { slot, treated }) = &step.action
            && treated.is_report()
        {
            let shown = shown(case, slot);
            let new = shown.iter().any(|one| one.rule == treated.rule && !one.is_noted && treated.at == case.now());
            if !new {
                found.step(
                    TOLD,
                    &step.id,
                    format!("the node of {slot} shows nothing new that rule {} reports", treated.rule),
                );
            }
        } else if let Reason::Sick { remedy: Remedy::Report, .. } = case.reason(at) {
            found.step(TOLD, &step.id, "something is done to a node that is only to be reported");
        }
    }
}

/// A reader of the plan hears of every node, and the memory of every occurrence that a further rung counts.
pub fn told(case: &Case<'_>, found: &mut Found) {
    if !case.input.only.is_empty() || case.input.only_node.is_some() {
        return;
    }
    for (pool, known) in case.input.ledger.pools.iter().filter(|(pool, _)| is_judged(case, pool)) {
        for (index, slot) in &known.slots {
            let Some((name, _)) = serving(case, slot) else { continue };
            let id = SlotId::new(pool, *index);
            for one in shown(case, &id) {
                let is_told = |text: &str| text.contains(name.as_str()) && text.contains(&one.symptom);
                if !case.plan.notes.iter().any(|note| is_told(&note.text)) {
                    found.plan(TOLD, format!("nobody hears that {name} shows this: {}", one.symptom));
                }
                if one.has_to_be_noted() && !is_remembered(case, &id, &one) {
                    found.plan(TOLD, format!("{name} shows this and nobody remembers it: {}", one.symptom));
                }
            }
        }
    }
}

/// Nothing is written of a pool before its new name is, nor of one whose machines change places.
fn is_judged(case: &Case<'_>, pool: &PoolName) -> bool {
    let slots = case.input.ledger.pools.values().flat_map(|pool| pool.slots.values());
    let exchanges = slots.filter(|slot| slot.exchange.is_some()).count();
    case.input.target.pools.contains_key(pool) && !case.input.renamed.contains_key(pool) && exchanges == 0
}

fn is_remembered(case: &Case<'_>, slot: &SlotId, one: &Report) -> bool {
    case.on_slot(slot).iter().any(|at| match &case.steps[*at].action {
        Action::Record(LedgerChange::Treated { treated, .. }) => treated.is_report() && treated.rule == one.rule,
        _ => false,
    })
}

/// What the node of a slot shows, and its pool's policy only reports.
fn shown(case: &Case<'_>, slot: &SlotId) -> Vec<Report> {
    let policy = case.pool(&slot.pool).and_then(|pool| case.standing().health.get(pool.health.as_ref()?));
    let (Some(policy), Some(known)) = (policy, case.ledger_slot(slot)) else { return Vec::new() };
    match node(case, known) {
        Some((_, seen)) => reports(policy, Some(known), seen, case.now()),
        None => Vec::new(),
    }
}

fn node<'a>(case: &Case<'a>, slot: &'a Slot) -> Option<(&'a NodeName, &'a NodeSeen)> {
    let name = slot.node.as_ref().or_else(|| case.node_of(slot.instance.as_ref()?))?;
    Some((name, case.node(name)?))
}

/// A node that serves: what a person keeps out of service is looked at when it is back.
fn serving<'a>(case: &Case<'a>, slot: &'a Slot) -> Option<(&'a NodeName, &'a NodeSeen)> {
    let (name, seen) = node(case, slot)?;
    let head = &case.input.ledger.head;
    let is_kept = head.quarantined.contains_key(name) || head.drains.contains_key(name) || case.has_our_cordon(name);
    let state = slot.instance.as_ref().map(|id| case.instance(id).map(|seen| &seen.state));
    let lives = matches!(state, None | Some(Some(InstanceState::Pending | InstanceState::Running)));
    (seen.ready && lives && !is_starting(seen) && !is_kept).then_some((name, seen))
}
