//! What was not read, what shrank, and what the documents no longer name: none of it is destroyed.

use super::Found;
use super::case::Case;
use crate::effect::{Action, CloudAction, ClusterAction};
use crate::ids::{PoolName, StepId};
use crate::observed::{Gap, InstanceState};
use crate::plan::Reason;

const WHOLE: &str = "nothing is destroyed after a read that was not whole";
const SHRUNK: &str = "nothing is destroyed after a snapshot that shrank implausibly";
const FORGOTTEN: &str = "what is forgotten stays as it is";

/// Each destructive step needs the parts of the snapshot that it was concluded from.
pub fn read_whole(case: &Case<'_>, found: &mut Found) {
    let (cloud, cluster) = (&case.seen().cloud, &case.seen().cluster);
    let (instances, nodes, pods) = (cloud.instances.gap(), cluster.nodes.gap(), cluster.pods.gap());
    let objects = cluster.objects.gap();
    for (_, step) in case.each() {
        let gaps: &[Option<&Gap>] = match &step.action {
            Action::Cloud(CloudAction::Terminate { .. } | CloudAction::Reboot { .. }) => &[instances, nodes, pods],
            Action::Cloud(CloudAction::Cancel { .. }) => &[cloud.reservations.gap(), instances],
            Action::Cluster(ClusterAction::Suspend { .. } | ClusterAction::Evict { .. }) => {
                &[nodes, pods, cluster.workloads.gap()]
            }
            Action::Cluster(ClusterAction::Cut { .. }) => &[nodes, pods],
            Action::Cluster(ClusterAction::Delete(_)) => &[objects],
            _ => continue,
        };
        if let Some(gap) = gaps.iter().flatten().next() {
            found.step(WHOLE, &step.id, format!("{}: {}", gap.what, gap.why));
        }
    }
}

/// Against the counts that were last believed. A listed instance that is terminated is no absence, and explains a node
/// that went with it. Work whose time is set from outside, or by the tide, goes on being asked to leave.
pub fn not_shrunk(case: &Case<'_>, found: &mut Found) {
    let Some(what) = shrunk(case) else { return };
    for (at, step) in case.each() {
        let destroys = match &step.action {
            Action::Cloud(CloudAction::Terminate { .. } | CloudAction::Reboot { .. } | CloudAction::Cancel { .. })
            | Action::Cluster(ClusterAction::Cut { .. } | ClusterAction::Delete(_)) => true,
            Action::Cluster(ClusterAction::Suspend { .. } | ClusterAction::Evict { .. }) => !matches!(
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

/// Says what shrank, if something did by more than the limit.
pub fn shrunk(case: &Case<'_>) -> Option<String> {
    let trusted = case.input.ledger.head.trusted?;
    let percent = u64::from(case.standing().limits.observation_shrink_percent);
    let instances = case.seen().cloud.instances.seen();
    let ended = instances.values().filter(|seen| seen.state == InstanceState::Terminated).count();
    let nodes = case.seen().cluster.nodes.seen().len() + ended;
    let lost = |trusted: u32, seen: usize| {
        let lost = u64::from(trusted).saturating_sub(u64::try_from(seen).unwrap_or(u64::MAX));
        lost * 100 > percent * u64::from(trusted)
    };
    if lost(trusted.instances, instances.len()) {
        Some(format!("{} instances were believed, and {} are listed", trusted.instances, instances.len()))
    } else if lost(trusted.nodes, nodes) {
        Some(format!("{} nodes were believed, and {nodes} are there or known to have ended", trusted.nodes))
    } else {
        None
    }
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
