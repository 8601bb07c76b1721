//! What takes a node out of service for its health; which rung of the ladder comes next is `effect::health`.

use jiff::{SignedDuration, Timestamp};

use super::view::{PoolView, SlotView, View};
use crate::effect::Treated;
use crate::effect::health;
pub use crate::effect::health::{ADMIT_RULE, Sickness};
use crate::effect::marks::is_starting;
use crate::fleet::policy::{ConditionStatus, Remedy, Rule, Symptom};
use crate::fleet::standing::HealthSpec;
use crate::ids::BootId;
use crate::observed::{NodeSeen, READY};

/// How long after the word a machine may go down. EC2 makes it go when it has not by itself for some minutes.
const BOOTS_WITHIN: SignedDuration = SignedDuration::from_mins(30);

pub fn policy<'a>(view: &View<'a>, pool: &PoolView<'_>) -> Option<&'a HealthSpec> {
    view.standing.health.get(pool.spec.health.as_ref()?)
}

/// Conditions that a node must show before it serves.
pub fn admission(view: &View<'_>, pool: &PoolView<'_>) -> Vec<String> {
    policy(view, pool)
        .map(|policy| policy.admit.iter().map(|admit| admit.condition.clone()).collect())
        .unwrap_or_default()
}

/// The rule of a pool's policy that says what becomes of a node that is not ready, as it is now.
pub fn unready_rule<'a>(view: &View<'a>, pool: &PoolView<'_>, node: &NodeSeen) -> Option<&'a Rule> {
    let status = node.conditions.get(READY).filter(|_| !node.ready)?.status;
    let about = |rule: &&Rule| match &rule.when {
        Symptom::Condition(wanted) => wanted.r#type == READY && wanted.status == status,
        Symptom::Xid(_) | Symptom::Straggler(_) => false,
    };
    policy(view, pool)?.rules.iter().find(about)
}

/// What is wrong with a slot's node, by the pool's policy.
pub fn sickness(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<Sickness> {
    let (_, node) = slot.node?;
    health::sickness(policy(view, pool)?, slot.record, node, view.now)
}

/// A node that does not show what it must within the time that the policy gives, from its start or its last boot.
pub fn not_admitted(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeSeen) -> Option<Sickness> {
    let policy = policy(view, pool)?;
    let since = if is_starting(node) { node.created } else { booted(slot)? };
    let late = policy.admit.iter().find(|admit| {
        let says = node.conditions.get(&admit.condition).is_some_and(|seen| seen.status == ConditionStatus::True);
        !says && view.now.duration_since(since) > admit.within.signed()
    })?;
    let symptom = format!("it did not say {} within {}", late.condition, late.within);
    Some(Sickness { remedy: Remedy::Replace, rule: ADMIT_RULE, symptom, begun: None })
}

/// When a node that is closed for that was last booted.
fn booted(slot: &SlotView<'_>) -> Option<Timestamp> {
    slot.mark.as_ref().filter(|mark| mark.why == "reboot")?;
    last_boot(slot).map(|one| one.at)
}

fn last_boot<'a>(slot: &SlotView<'a>) -> Option<&'a Treated> {
    let boots = slot.record?.remedies.iter().filter(|one| one.remedy == Remedy::Reboot);
    boots.max_by_key(|one| one.at)
}

/// The boot that a node is still in which was told to leave it. A boot that did not come in all this time does not come.
pub fn goes_down(view: &View<'_>, slot: &SlotView<'_>) -> Option<BootId> {
    let ((_, seen), told) = (slot.node?, last_boot(slot)?);
    let is_in_it = told.boot.is_some() && told.boot == seen.boot;
    (is_in_it && view.now.duration_since(told.at) < BOOTS_WITHIN).then(|| seen.boot.clone()).flatten()
}
