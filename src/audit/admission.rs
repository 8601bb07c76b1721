//! A node that is new or comes back serves only once it shows what its pool's policy asks for.

use std::collections::BTreeSet;

use super::Found;
use super::case::Case;
use crate::effect::{Action, CloudAction, ClusterAction, Fact, LedgerChange, Subject};
use crate::fleet::policy::ConditionStatus;
use crate::ids::{NodeName, PoolName};

const ADMITTED: &str = "a node serves only once it is admitted";
const BACK: &str = "a node that is booted serves only when it is back";

/// Claimed, or opened again: it shows the conditions, or a step before waits for them. A boot takes away what it showed.
/// What is opened behind a cut was admitted before that.
pub fn admitted(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let (node, pool) = match &step.action {
            Action::Record(LedgerChange::Claimed { slot, node }) => (node, &slot.pool),
            Action::Cluster(ClusterAction::Uncordon { node }) => match case.slot_of_node(node) {
                Some(slot) if case.part(slot).is_some() && !is_behind_a_cut(case, at, node) => (node, &slot.pool),
                _ => continue,
            },
            _ => continue,
        };
        let asked = conditions(case, pool);
        let boot = booted_before(case, at, node);
        let is_admitted = || boot.is_none() && shows(case, node, &asked);
        if !asked.is_empty() && !is_admitted() && !is_waited_for(case, at, node, &asked, boot) {
            found.step(ADMITTED, &step.id, format!("{node} is not seen to be admitted to pool {pool}"));
        }
    }
}

/// Behind a boot a node is opened when it speaks of another one. That it is ready says nothing: it was before, and its
/// machine goes on for a while. Only where no kubelet names a boot there is nothing else to ask.
pub fn back_first(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let Action::Cluster(ClusterAction::Uncordon { node }) = &step.action else { continue };
        let Some(boot) = booted_before(case, at, node) else { continue };
        let named = case.node(node).and_then(|seen| seen.boot.as_ref());
        let says_so = |fact: &Fact| match fact {
            Fact::Booted { since, .. } => since.as_ref() == named,
            Fact::Ready(_) => named.is_none(),
            _ => false,
        };
        let is_back = |wait: &usize| {
            matches!(&case.steps[*wait].action, Action::Await(fact) if says_so(fact))
                && case.dag.is_before(boot, *wait)
                && case.dag.is_before(*wait, at)
        };
        if !case.waits(&Subject::Node(node.clone())).iter().any(is_back) {
            found.step(BACK, &step.id, format!("{node} may not have gone down yet"));
        }
    }
}

/// Whether a step before this one waits for the conditions, after the boot if there is one.
fn is_waited_for(case: &Case<'_>, at: usize, node: &NodeName, asked: &BTreeSet<&str>, boot: Option<usize>) -> bool {
    case.waits(&Subject::Node(node.clone())).iter().any(|wait| match &case.steps[*wait].action {
        Action::Await(Fact::Admitted { conditions, .. }) => {
            asked.iter().all(|kind| conditions.iter().any(|one| one == kind))
                && case.dag.is_before(*wait, at)
                && boot.is_none_or(|boot| case.dag.is_before(boot, *wait))
        }
        _ => false,
    })
}

/// What the policy of a pool asks for.
fn conditions<'a>(case: &Case<'a>, pool: &PoolName) -> BTreeSet<&'a str> {
    let policy = case.pool(pool).and_then(|pool| case.standing().health.get(pool.health.as_ref()?));
    policy.into_iter().flat_map(|policy| &policy.admit).map(|admit| admit.condition.as_str()).collect()
}

fn shows(case: &Case<'_>, node: &NodeName, asked: &BTreeSet<&str>) -> bool {
    let seen = case.node(node);
    let is_true = |kind: &&str| {
        seen.and_then(|seen| seen.conditions.get(*kind)).is_some_and(|seen| seen.status == ConditionStatus::True)
    };
    asked.iter().all(is_true)
}

fn booted_before(case: &Case<'_>, at: usize, node: &NodeName) -> Option<usize> {
    let boots = case.on(&Subject::Node(node.clone())).iter().copied();
    let mut boots = boots.filter(|one| matches!(case.steps[*one].action, Action::Cloud(CloudAction::Reboot { .. })));
    boots.find(|boot| case.dag.is_before(*boot, at))
}

fn is_behind_a_cut(case: &Case<'_>, at: usize, node: &NodeName) -> bool {
    let waits = case.waits(&Subject::Node(node.clone()));
    waits.iter().any(|wait| {
        matches!(&case.steps[*wait].action, Action::Await(Fact::LaidOut { laid_out, .. }) if !laid_out.labels.is_empty())
            && case.dag.is_before(*wait, at)
    })
}
