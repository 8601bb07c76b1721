//! How much may go: removals by choice in an hour, removals that a commit asks for, nodes taken out for their health.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::Found;
use super::accounts::has_node;
use super::case::Case;
use crate::effect::marks::{CORDON, Mark};
use crate::effect::{Action, CloudAction, ClusterAction, Effects, LedgerChange, Quarantine, is_kin};
use crate::fleet::policy::Remedy;
use crate::fleet::standing::HealthSpec;
use crate::ids::{NodeName, PoolName, SlotId};
use crate::observed::{InstanceSeen, InstanceState};
use crate::plan::{Reason, Step};

const REMOVALS: &str = "removals by choice keep their hourly limit";
const APPROVED: &str = "a removal of many nodes is approved";
const HEALTH: &str = "health takes no more nodes out than its policy allows";

/// How long a removal counts.
const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Every Terminate with its slot.
fn terminates<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (usize, &'a Step, &'a SlotId)> + use<'c, 'a> {
    case.each().filter_map(|(at, step)| match &step.action {
        Action::Cloud(CloudAction::Terminate { slot, .. }) => Some((at, step, slot)),
        _ => None,
    })
}

/// Tides, health, notices and the end of capacity have budgets of their own. But a tide ends no machine, and neither does
/// who boots one: where that is done on the way, it is for a new version, and somebody's choice.
fn by_choice(reason: &Reason) -> bool {
    match reason {
        Reason::Resized | Reason::Returning { .. } | Reason::Quarantined { .. } => false,
        Reason::Notice { .. } | Reason::CapacityEnds { .. } => false,
        Reason::Sick { remedy, .. } => *remedy == Remedy::Reboot,
        _ => true,
    }
}

/// Machines of ours that ended before this memory began: an earlier one, which was lost, may have removed them.
fn before_memory(case: &Case<'_>) -> usize {
    let head = &case.input.ledger.head;
    let is_ours = |seen: &InstanceSeen| {
        seen.tag.as_ref().is_some_and(|tag| tag.fleet == *case.fleet() || is_kin(case.fleet(), &tag.fleet))
    };
    let is_over = |seen: &InstanceSeen| matches!(seen.state, InstanceState::ShuttingDown | InstanceState::Terminated);
    match (&head.fleet, head.began) {
        (None, _) => case.seen().cloud.instances.seen().values().filter(|seen| is_over(seen) && is_ours(seen)).count(),
        (Some(_), Some(began)) if case.now().duration_since(began.at) < AN_HOUR => {
            usize::try_from(began.ended).unwrap_or(usize::MAX)
        }
        (Some(_), _) => 0,
    }
}

/// What was removed in the last hour and what this plan removes. A removal that was begun and not finished counts once.
pub fn removals_an_hour(case: &Case<'_>, found: &mut Found) {
    let allowed = usize::try_from(case.standing().limits.nodes_removed_per_hour).unwrap_or(usize::MAX);
    let recent = |at: &jiff::Timestamp| case.now().duration_since(*at) < AN_HOUR;
    let removed = case.input.ledger.pools.values().flat_map(|pool| &pool.removed);
    let removed = removed.filter(|(_, at)| recent(at)).count() + before_memory(case);
    let begun = |slot: &SlotId| {
        let launched = case.ledger_slot(slot).and_then(|slot| slot.launched);
        let pool = case.pool_ledger(&slot.pool);
        pool.is_some_and(|pool| {
            let this = |(index, at): &(u32, jiff::Timestamp)| {
                *index == slot.index && recent(at) && launched.is_none_or(|launched| *at >= launched)
            };
            pool.removed.iter().any(this)
        })
    };
    let planned: Vec<&Step> = terminates(case)
        .filter(|(at, _, slot)| by_choice(case.reason(*at)) && !begun(slot))
        .map(|(_, step, _)| step)
        .collect();
    if let Some(step) = planned.last().filter(|_| removed + planned.len() > allowed) {
        let what =
            format!("{removed} were removed in the last hour, {} more are planned, {allowed} may be", planned.len());
        found.step(REMOVALS, &step.id, what);
    }
}

/// Whether a slot's node is on its way out because nobody wants it: that was let through when it was begun.
fn is_leaving(case: &Case<'_>, slot: &SlotId) -> bool {
    let known = case.ledger_slot(slot);
    let node = known.and_then(|known| known.node.as_ref().or_else(|| case.node_of(known.instance.as_ref()?)));
    let mark = node.and_then(|node| case.node(node)).and_then(|node| node.annotation(CORDON)).map(Mark::parse);
    mark.is_some_and(|mark| mark.why == "remove")
}

/// Where the documents ask for more removal than `desiredShrinkPercent` of all nodes, the removals that this plan begins
/// are covered by an approval that is open.
pub fn removal_is_approved(case: &Case<'_>, found: &mut Found) {
    let removing: Vec<(&Step, &SlotId)> = terminates(case)
        .filter(|(at, _, slot)| matches!(case.reason(*at), Reason::NotWanted) && !is_leaving(case, slot))
        .map(|(_, step, slot)| (step, slot))
        .collect();
    let Some((first, _)) = removing.first() else { return };
    let pools: BTreeSet<&PoolName> = removing.iter().map(|(_, slot)| &slot.pool).collect();
    let (mut all, mut unwanted) = (0u64, 0u64);
    for (name, target) in &case.input.target.pools {
        let slots = case.pool_ledger(name).into_iter().flat_map(|pool| &pool.slots);
        let known: Vec<SlotId> = slots
            .filter(|(_, slot)| slot.instance.is_some() || slot.node.is_some())
            .map(|(index, _)| SlotId::new(name, *index))
            .collect();
        all += known.len() as u64;
        // Which of them go is for another law; here only how many there are beyond those that are wanted.
        let stays = known.iter().filter(|slot| pools.contains(name) && has_node(case, slot) && !is_leaving(case, slot));
        unwanted += (stays.count() as u64).saturating_sub(u64::from(target.nodes));
    }
    if unwanted * 100 <= u64::from(case.standing().limits.desired_shrink_percent) * all {
        return;
    }
    let mut effects = Effects::default();
    removing.iter().for_each(|(step, _)| effects.add(&step.effects));
    let opened = &case.input.ledger.head.approvals;
    if !opened.values().any(|opened| effects.within(&opened.left).is_ok()) {
        found.step(APPROVED, &first.id, format!("{unwanted} of {all} nodes are to go, and no open approval covers it"));
    }
}

/// Nodes that this plan takes out as sick, and those that are out already, against the policy's share of the pool. One
/// is always allowed.
pub fn health_limit(case: &Case<'_>, found: &mut Found) {
    let mut out: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for (at, step) in case.each() {
        let Reason::Sick { .. } = case.reason(at) else { continue };
        let node = match &step.action {
            Action::Cluster(ClusterAction::Cordon { node, .. }) => Some(node),
            Action::Cloud(CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. }) => {
                case.node_of(instance)
            }
            Action::Record(LedgerChange::Quarantine { node, .. }) => Some(node),
            _ => None,
        };
        if let Some((node, slot)) = node.and_then(|node| Some((node, case.slot_of_node(node)?)))
            && let Some((pool, _)) = case.standing().pools.get_key_value(&slot.pool)
        {
            out.entry(pool).or_default().insert(node);
        }
    }
    if out.is_empty() {
        return;
    }
    for (name, node) in case.seen().cluster.nodes.seen() {
        let mark = node.annotation(CORDON).map(Mark::parse);
        let sick = mark.is_some_and(|mark| mark.why == "quarantine" || mark.why == "reboot");
        if sick
            && case.input.ledger.head.quarantined.get(name).is_none_or(|one| one.by == Quarantine::BY_POLICY)
            && let Some(nodes) = case.slot_of_node(name).and_then(|slot| out.get_mut(&slot.pool))
        {
            nodes.insert(name);
        }
    }
    for (pool, nodes) in out {
        let spec = case.pool(pool).and_then(|pool| pool.health.as_ref());
        let policy = spec.and_then(|name| case.standing().health.get(name));
        let limit = policy.map_or(HealthSpec::LIMIT_WITHOUT_POLICY, |policy| policy.limit);
        let size = case.input.target.pools.get(pool).map_or(0, |target| target.nodes);
        let allowed = (u64::from(size) * u64::from(limit.0)).div_ceil(100).max(1);
        if u64::try_from(nodes.len()).unwrap_or(u64::MAX) > allowed {
            found.plan(HEALTH, format!("{} nodes of pool {pool} would be out, and {allowed} may be", nodes.len()));
        }
    }
}
