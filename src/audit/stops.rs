//! A freeze stops everything that it covers, and `hands-off` everything on its node.

use std::collections::BTreeSet;

use super::Found;
use super::case::Case;
use crate::effect::marks::HANDS_OFF;
use crate::effect::{Action, CloudAction, ClusterAction, Freeze, Scope, Thing};
use crate::ids::{NodeName, PoolName};
use crate::plan::{Reason, Step, frozen_by_document};

const FROZEN: &str = "nothing is done under a freeze";
const HANDS: &str = "nothing is done to a node with hands-off";

/// Whatever acts on the world and is covered by a freeze; only what has a deadline of its own goes on, if the freeze
/// lets it.
pub fn frozen(case: &Case<'_>, found: &mut Found) {
    let document = case.standing().frozen.as_deref().map(|reason| frozen_by_document(reason, case.now()));
    let freezes: Vec<&Freeze> = case.input.ledger.head.frozen.iter().chain(&document).collect();
    if freezes.is_empty() {
        return;
    }
    for (at, step) in acting(case) {
        let nodes = touched(case, at, step);
        let pools = pools(case, step, &nodes);
        let covers = |freeze: &&&Freeze| match &freeze.scope {
            Scope::Fleet => true,
            Scope::Pool(pool) => pools.contains(pool),
            Scope::Node(node) => nodes.contains(node),
        };
        let goes_on = has_deadline(case, at, step, &nodes);
        if let Some(freeze) = freezes.iter().find(|freeze| covers(freeze) && (freeze.all || !goes_on)) {
            let what = format!("{:?} is frozen by {}: {}", freeze.scope, freeze.by, freeze.reason);
            found.step(FROZEN, &step.id, what);
        }
    }
}

/// No step acts on a node that a person keeps, nor on a pod there.
pub fn hands_off(case: &Case<'_>, found: &mut Found) {
    let kept = |node: &&NodeName| case.node(node).is_some_and(|seen| seen.annotation(HANDS_OFF).is_some());
    for (at, step) in acting(case) {
        if let Some(node) = touched(case, at, step).into_iter().find(kept) {
            found.step(HANDS, &step.id, format!("{node} carries the annotation"));
        }
    }
}

/// Steps that change something outside; waiting and remembering go on.
fn acting<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (usize, &'a Step)> + use<'c, 'a> {
    case.each().filter(|(_, step)| matches!(step.action, Action::Cloud(_) | Action::Cluster(_)))
}

fn touched<'a>(case: &Case<'a>, at: usize, step: &'a Step) -> BTreeSet<&'a NodeName> {
    match &step.action {
        Action::Cluster(
            ClusterAction::Dress { node, .. }
            | ClusterAction::Cordon { node, .. }
            | ClusterAction::Uncordon { node }
            | ClusterAction::Cut { node, .. },
        ) => BTreeSet::from([node]),
        Action::Cluster(ClusterAction::Suspend { .. } | ClusterAction::Evict { .. }) => {
            case.pods.sent_by(at).iter().filter_map(|pod| pod.node.as_ref()).collect()
        }
        // Whoever is asked to save his work is disturbed where he runs; who may queue again is on no node for it.
        Action::Cluster(ClusterAction::Ask { .. } | ClusterAction::AskPods { .. } | ClusterAction::Shrink { .. }) => {
            case.pods.spoken_to_by(at).iter().filter_map(|pod| pod.node.as_ref()).collect()
        }
        Action::Cloud(CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. }) => {
            case.node_of(instance).into_iter().collect()
        }
        _ => BTreeSet::new(),
    }
}

fn pools<'c>(case: &'c Case<'_>, step: &'c Step, nodes: &BTreeSet<&NodeName>) -> BTreeSet<&'c PoolName> {
    let mut pools: BTreeSet<&PoolName> =
        nodes.iter().filter_map(|node| case.slot_of_node(node)).map(|slot| &slot.pool).collect();
    pools.extend(super::case::slot(&step.action).map(|slot| &slot.pool));
    if let Thing::Pool(pool) = &step.on {
        pools.insert(pool);
    }
    if let Action::Cluster(ClusterAction::Apply(object)) = &step.action {
        pools.extend(super::quotas::moved(case, object));
    }
    pools
}

/// The cloud takes it away at an instant that nobody here decides. Work that had to leave for that is let in again.
fn has_deadline(case: &Case<'_>, at: usize, step: &Step, nodes: &BTreeSet<&NodeName>) -> bool {
    let reason = case.reason(at);
    let ends = |node: &NodeName| case.deadline(reason, node).is_some();
    let left = || case.pods.spoken_to_by(at).iter().filter_map(|pod| pod.node.as_ref()).any(ends);
    let lets_in = matches!(step.action, Action::Cluster(ClusterAction::Resume { .. }));
    matches!(reason, Reason::Notice { .. } | Reason::CapacityEnds { .. })
        && (nodes.iter().copied().any(ends) || (lets_in && left()))
}
