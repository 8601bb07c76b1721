//! What a tide empties, or is emptied to be booted, may move to a new version on the way: as far as the roll-out of its pool
//! may, and with its approval.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use super::case::Case;
use super::updates::is_open;
use crate::effect::marks::{CORDON, Mark, is_starting};
use crate::effect::{Action, CloudAction, ClusterAction, Effects, Fact, Subject, Thing};
use crate::fleet::policy::Remedy;
use crate::fleet::updates::When;
use crate::ids::{Digest, NodeName, PoolName};
use crate::plan::{Consent, Reason, Step};

const ON_THE_WAY: &str = "nothing is a way around a roll-out";

/// No more of them than the pool lets be away at once, while a window is open, and paid for where a roll-out would have to
/// be. What comes back is only cut. What was begun is brought to its end, and a node that nobody was let on yet is nobody's
/// loss: here as in a roll-out.
pub fn keeps_the_rollout(case: &Case<'_>, found: &mut Found) {
    let mut fresh: BTreeMap<&PoolName, BTreeSet<u32>> = BTreeMap::new();
    for (at, step) in case.each() {
        let reason = case.reason(at);
        let is_ours = matches!(
            reason,
            Reason::Lent { .. } | Reason::Returning { .. } | Reason::Sick { remedy: Remedy::Reboot, .. }
        );
        let Action::Cloud(CloudAction::Terminate { slot, instance }) = &step.action else { continue };
        let Some((name, pool)) = case.standing().pools.get_key_value(&slot.pool).filter(|_| is_ours) else { continue };
        let node = case.node_of(instance);
        let mark = node.and_then(|node| case.node(node)?.annotation(CORDON)).map(Mark::parse);
        let begun = mark.is_some_and(|mark| mark.why == "replace") || node.is_some_and(|node| is_new(case, node));
        if matches!(reason, Reason::Returning { .. }) {
            found.step(ON_THE_WAY, &step.id, "what comes back from a tide is only cut");
        } else if pool.updates.when == When::Drain && step.consent != Consent::Given {
            found.step(ON_THE_WAY, &step.id, "it moves to a new version, and no approval pays for it");
        } else if !begun && !is_open(&pool.updates.windows, &case.standing().time_zone, case.now()) {
            found.step(ON_THE_WAY, &step.id, format!("no window of pool {name} is open"));
        } else if !begun {
            fresh.entry(name).or_default().insert(slot.index);
        }
    }
    for (name, slots) in fresh {
        let allowed = case.pool(name).map_or(0, |pool| pool.updates.max_unavailable);
        if slots.len() > usize::try_from(allowed).unwrap_or(usize::MAX) {
            let what = format!("{} nodes of pool {name} would move at once, {allowed} may", slots.len());
            found.plan(ON_THE_WAY, what);
        }
    }
}

/// Whether nobody was let on a node, which is looked at again before it is closed.
fn is_new(case: &Case<'_>, node: &NodeName) -> bool {
    let unopened = Fact::Unopened(node.clone());
    let mut steps = case.on(&Subject::Node(node.clone())).iter().map(|at| &case.steps[*at]);
    case.node(node).is_some_and(is_starting)
        && steps.all(|step| {
            let closes = matches!(step.action, Action::Cluster(ClusterAction::Cordon { .. }));
            !closes || step.requires.contains(&unopened)
        })
}

/// What goes by an approval that was given before is covered by one that is open, all of it together.
pub fn given_is_open(case: &Case<'_>, found: &mut Found) {
    let approvals = case.input.ledger.head.approvals.values();
    let mut left: Vec<(&BTreeMap<PoolName, Digest>, Effects)> =
        approvals.map(|opened| (&opened.templates, opened.left.clone())).collect();
    for (at, step) in case.each().filter(|(_, step)| step.consent == Consent::Given) {
        let is_paid =
            case.input.ledger.head.spent.values().flatten().any(|purpose| {
                purpose.starts_with(step.id.as_str()) || *purpose == step.id.as_str().replacen(':', " ", 1)
            });
        if !matches!(case.reason(at), Reason::Lent { .. } | Reason::Sick { remedy: Remedy::Reboot, .. }) {
            found.step(
                ON_THE_WAY,
                &step.id,
                "it goes by an approval that was given before, and nothing else empties it",
            );
        } else if let Some((_, left)) = left.iter_mut().find(|(templates, left)| {
            templates.iter().any(|(pool, version)| is_wanted(case, step, pool, version))
                && step.effects.within(left).is_ok()
        }) {
            *left = left.without(&step.effects);
        } else if !is_paid {
            found.step(ON_THE_WAY, &step.id, "it goes by an approval, and none that is open covers it");
        }
    }
}

/// Whether a version that somebody approved is the one that this step brings its pool closer to.
fn is_wanted(case: &Case<'_>, step: &Step, pool: &PoolName, version: &Digest) -> bool {
    let wanted = case.input.desired.pools.get(pool).map(|wanted| &wanted.template.digest);
    step.on == Thing::Pool(pool.clone()) && wanted == Some(version)
}
