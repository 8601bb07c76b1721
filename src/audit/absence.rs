//! What was not read, what shrank, and what the documents no longer name: none of it is destroyed.

use jiff::SignedDuration;

use super::Found;
use super::case::Case;
use crate::effect::{Action, CloudAction, ClusterAction, Outcome, Purchase};
use crate::fleet::standing::TermsSpec;
use crate::ids::{PoolName, ReservationId, StepId};
use crate::observed::{Gap, ReservationState};
use crate::plan::Reason;

const WHOLE: &str = "nothing is destroyed after a read that was not whole";
const SHRUNK: &str = "nothing is destroyed after a snapshot that shrank implausibly";
const FORGOTTEN: &str = "what is forgotten stays as it is";

/// From when on a list without an instance that was launched is strange.
const USUALLY_LISTED: SignedDuration = SignedDuration::from_mins(5);
/// How long before a block's end EC2 begins to take its instances away, at the earliest.
const KILLED_BEFORE: SignedDuration = SignedDuration::from_mins(60);

/// Each destructive step needs the parts of the snapshot that it was concluded from.
pub fn read_whole(case: &Case<'_>, found: &mut Found) {
    let (cloud, cluster) = (&case.seen().cloud, &case.seen().cluster);
    let (instances, nodes, pods) = (cloud.instances.gap(), cluster.nodes.gap(), cluster.pods.gap());
    let objects = cluster.gap_of_any();
    for (_, step) in case.each() {
        let gaps: &[Option<&Gap>] = match &step.action {
            Action::Cloud(CloudAction::Terminate { .. } | CloudAction::Reboot { .. }) => &[instances, nodes, pods],
            Action::Cloud(CloudAction::Cancel { .. }) => &[cloud.reservations.gap(), instances],
            Action::Cluster(
                ClusterAction::Suspend { .. } | ClusterAction::Shrink { .. } | ClusterAction::Evict { .. },
            ) => &[nodes, pods, cluster.workloads.gap()],
            Action::Cluster(ClusterAction::Cut { .. }) => &[nodes, pods],
            Action::Cluster(ClusterAction::Delete(_)) => &[objects],
            _ => continue,
        };
        if let Some(gap) = gaps.iter().flatten().next() {
            found.step(WHOLE, &step.id, format!("{}: {}", gap.what, gap.why));
        }
    }
}

/// Against what the ledger knows of. A listed instance that is terminated is no absence, and explains a node
/// that went with it. Work whose time is set from outside, or by the tide, goes on being asked to leave.
pub fn not_shrunk(case: &Case<'_>, found: &mut Found) {
    let Some(what) = shrunk(case) else { return };
    for (at, step) in case.each() {
        let destroys = match &step.action {
            Action::Cloud(CloudAction::Terminate { .. } | CloudAction::Reboot { .. } | CloudAction::Cancel { .. })
            | Action::Cluster(ClusterAction::Cut { .. } | ClusterAction::Delete(_)) => true,
            Action::Cluster(
                ClusterAction::Suspend { .. } | ClusterAction::Shrink { .. } | ClusterAction::Evict { .. },
            ) => !matches!(
                case.reason(at),
                Reason::Returning { .. } | Reason::Notice { .. } | Reason::CapacityEnds { .. }
            ),
            _ => false,
        };
        if destroys {
            found.step(SHRUNK, &step.id, what.clone());
        }
    }
}

/// Says what shrank, if more is missing than the limit allows of what the ledger knows of. One that is listed as
/// terminated is not missing, one that was launched a moment ago may not be listed yet, one that we told to end is
/// expected to go, and one that stood on a Capacity Block which is over is gone as was known the day that it was bought.
pub fn shrunk(case: &Case<'_>) -> Option<String> {
    let percent = case.standing().limits.observation_shrink_percent;
    let instances = case.seen().cloud.instances.seen();
    let nodes = case.seen().cluster.nodes.seen();
    let (mut known, mut missing, mut claimed, mut gone) = (0usize, 0usize, 0usize, 0usize);
    for slot in case.input.ledger.pools.values().flat_map(|pool| pool.slots.values()) {
        let is_old = slot.launched.is_none_or(|at| case.input.now.duration_since(at) > USUALLY_LISTED);
        let is_ended = slot.leaving || slot.reservation.as_ref().is_some_and(|id| block_is_over(case, id));
        if let Some(id) = slot.instance.as_ref().filter(|_| is_old && !is_ended) {
            known += 1;
            missing += usize::from(!instances.contains_key(id));
        }
        if let Some(name) = &slot.node {
            claimed += 1;
            gone += usize::from(!nodes.contains_key(name));
        }
    }
    // One alone proves nothing, whatever share it is.
    let too_many = |missing: usize, known: usize| missing > 1 && missing * 100 > known * usize::from(percent);
    if too_many(missing, known) {
        Some(format!("{missing} of {known} instances that the ledger knows are not listed"))
    } else if too_many(gone, claimed) {
        Some(format!("{gone} of {claimed} nodes that were claimed are not there"))
    } else {
        None
    }
}

fn block_is_over(case: &Case<'_>, id: &ReservationId) -> bool {
    let now = case.now();
    if let Some(seen) = case.reservation(id) {
        let killed = seen.end.and_then(|end| end.checked_sub(KILLED_BEFORE).ok());
        return seen.block && (seen.state == ReservationState::Ended || killed.is_some_and(|at| at <= now));
    }
    let bought = |purchase: &&Purchase| purchase.outcome == Outcome::Bought(id.clone());
    let ordered = case.input.ledger.head.purchases.iter().filter(bought).map(|purchase| purchase.intent.at).max();
    let held = case.input.ledger.head.reservations.iter().filter(|(_, held)| held.id.as_ref() == Some(id));
    let mut specs = held.filter_map(|(name, _)| case.standing().reservations.get(name));
    let over = specs.any(|spec| match &spec.terms {
        TermsSpec::Block(block) => {
            let lasted = ordered.and_then(|at| at.checked_add(block.duration.signed()).ok());
            block.window.as_ref().is_some_and(|window| window.to.0 <= now) || lasted.is_some_and(|end| end <= now)
        }
        TermsSpec::OnDemand { .. } => false,
    });
    over && case.seen().cloud.reservations.whole().is_some()
}

/// A pool that is in the ledger and not in the target is released: nothing is done to its nodes beyond lifting our own
/// marks.
pub fn forgotten_stays(case: &Case<'_>, found: &mut Found) {
    let is_wanted = |pool: &PoolName| case.input.target.pools.contains_key(pool);
    let mut judge = |step: &StepId, pool: Option<&PoolName>| {
        if let Some(pool) = pool.filter(|pool| !is_wanted(pool)) {
            found.step(FORGOTTEN, step, format!("no document names pool {pool}"));
        }
    };
    for (_, step) in case.each() {
        match &step.action {
            Action::Cloud(CloudAction::Terminate { slot, .. } | CloudAction::Reboot { slot, .. }) => {
                judge(&step.id, Some(&slot.pool));
            }
            Action::Cluster(ClusterAction::Cordon { node, .. } | ClusterAction::Cut { node, .. }) => {
                judge(&step.id, case.slot_of_node(node).map(|slot| &slot.pool));
            }
            _ => {}
        }
    }
}
