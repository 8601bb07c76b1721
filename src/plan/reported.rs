//! What nodes show and their HealthPolicy only reports: people are told, in every plan for as long as it shows, and
//! nothing is done to the node.
//!
//! Where the rule has a further rung, the occurrence is remembered once: the next one climbs.

use super::anew::Unanswered;
use super::chosen::trades::finished_by;
use super::draft::Draft;
use super::drain::step_id;
use super::slots::{record, treated};
use super::types::{PlanInput, thing};
use super::view::{Body, PoolView, SlotView, View};
use crate::effect::health::{Report, reports};
use crate::effect::marks::is_starting;
use crate::effect::{LedgerChange, Slot};
use crate::fleet::policy::Remedy;
use crate::ids::{NodeName, PolicyName, PoolName};
use crate::observed::NodeSeen;

/// Tells of the nodes of a pool, and remembers what a ladder has to know.
pub fn say(view: &View<'_>, pool: &PoolView<'_>, draft: &mut Draft) {
    if view.input.only_node.is_some() {
        return;
    }
    for slot in pool.slots.iter().filter(|slot| matches!(slot.body, Body::Serving | Body::Starting)) {
        let (Some(node), Some(known)) = (slot.node, slot.record) else { continue };
        let Some((policy, reports)) = of(view.input, pool.name, known, node) else { continue };
        for report in reports {
            draft.note(thing(pool.name), sentence(policy, slot, node.0, &report));
            if report.has_to_be_noted() && finished_by(view, &slot.id).is_none() {
                let change = LedgerChange::Treated {
                    slot: slot.id.clone(),
                    treated: treated(view, Remedy::Report, report.rule),
                };
                let id = step_id("report", format!("{}.{}", slot.id, report.rule), slot.generation());
                record(draft, &thing(pool.name), id, change, format!("remember that {} was reported", node.0));
            }
        }
    }
}

/// What a pool's node shows and its policy only reports. What is out of service by somebody's word is looked at when it is
/// back, and what has not served yet when it does.
pub fn of<'a>(
    input: &'a PlanInput,
    pool: &PoolName,
    record: &Slot,
    (name, node): (&NodeName, &NodeSeen),
) -> Option<(&'a PolicyName, Vec<Report>)> {
    let standing = &input.target.standing;
    let policy = standing.pools.get(pool)?.health.as_ref()?;
    let head = &input.ledger.head;
    let is_kept = head.quarantined.contains_key(name) || head.drains.contains_key(name);
    if is_kept || is_starting(node) || Unanswered::of(input, name, node).is_some() {
        return None;
    }
    Some((policy, reports(standing.health.get(policy)?, Some(record), node, input.now)))
}

/// "by the next time within a week", in the words of a policy.
pub fn climbs(next: Option<Remedy>) -> Option<&'static str> {
    Some(match next? {
        Remedy::Report => "the next time within a week is reported too",
        Remedy::Quarantine => "the next time within a week it is quarantined",
        Remedy::Reboot => "the next time within a week it is booted",
        Remedy::Replace => "the next time within a week it is replaced",
    })
}

fn sentence(policy: &PolicyName, slot: &SlotView<'_>, node: &NodeName, report: &Report) -> String {
    let then = climbs(report.next).map_or(String::new(), |then| format!("; {then}"));
    format!(
        "{node} in {}: {}. HealthPolicy {policy} only reports that, so nothing is done to the node{then}",
        slot.id, report.symptom
    )
}
