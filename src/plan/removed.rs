//! Nodes that were removed by choice within the last hour, whoever removed them and for what: the fleet's limit counts
//! them here.

use jiff::{SignedDuration, Timestamp};

use super::anew;
use super::types::PlanInput;
use super::view::{PoolView, SlotView, View};
use crate::effect::is_kin;
use crate::observed::{InstanceSeen, InstanceState};

/// How long a removal counts.
pub const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

/// When each of them went, oldest first.
pub fn removals(input: &PlanInput) -> Vec<Timestamp> {
    let counted = input.ledger.pools.values().flat_map(|pool| &pool.removed).map(|(_, at)| *at);
    let before = anew::began(input).into_iter().flat_map(|began| (0..began.ended).map(move |_| began.at));
    let recent = counted.chain(before).filter(|at| input.now.duration_since(*at) < AN_HOUR);
    let mut recent: Vec<Timestamp> = recent.collect();
    recent.sort_unstable();
    recent
}

/// How many machines of ours the cloud lists that end or have ended: it forgets them within the hour. A list that is
/// not whole may lack as many as there can be.
pub fn ended(input: &PlanInput) -> u32 {
    let ours = input.ledger.head.fleet.as_ref().unwrap_or(&input.fleet);
    let is_over = |seen: &&InstanceSeen| matches!(seen.state, InstanceState::ShuttingDown | InstanceState::Terminated);
    let is_ours =
        |seen: &&InstanceSeen| seen.tag.as_ref().is_some_and(|tag| tag.fleet == *ours || is_kin(ours, &tag.fleet));
    let instances = &input.observed.cloud.instances;
    match instances.gap() {
        Some(_) => input.target.standing.limits.nodes_removed_per_hour,
        None => {
            let over = instances.seen().values().filter(is_over).filter(is_ours).count();
            u32::try_from(over).unwrap_or(u32::MAX)
        }
    }
}

/// Whether the removal of a slot's node is counted already. An earlier node of the slot may have been removed too:
/// that was another one.
pub fn is_counted(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> bool {
    let since = slot.record.and_then(|record| record.launched).unwrap_or(Timestamp::MIN);
    let counted = view.input.ledger.pools.get(pool.name).into_iter().flat_map(|known| &known.removed);
    let mut counted = counted.filter(|(_, at)| view.now.duration_since(*at) < AN_HOUR);
    counted.any(|(index, at)| *index == slot.id.index && since <= *at)
}
