//! Machines that change places: both are empty and alike, each is what the other pool launches, and nothing else is done
//! in their slots until both say the same.

use std::collections::BTreeSet;

use super::Found;
use super::case::{Case, slot};
use super::slots::in_target;
use crate::effect::{Action, ClusterAction, Fact, LedgerChange, Subject};
use crate::fleet::pool::Source;
use crate::ids::{InstanceId, NodeName, PoolName, SlotId};
use crate::observed::{InstanceSeen, InstanceState, Market};

const ALIKE: &str = "machines change places only where both are empty and alike";
const FINISHED: &str = "an exchange is finished before anything else is done in its slots";

/// Every exchange that the plan begins: the slot with the note, the other, and what each gives.
fn begun<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (usize, [(&'a SlotId, &'a InstanceId); 2])> + use<'c, 'a> {
    case.each().filter_map(|(at, step)| match &step.action {
        Action::Record(LedgerChange::Exchange { slot, with, gives, takes }) => {
            Some((at, [(slot, gives), (with, &takes.instance)]))
        }
        _ => None,
    })
}

pub fn alike_and_empty(case: &Case<'_>, found: &mut Found) {
    let mut named: BTreeSet<&SlotId> = BTreeSet::new();
    for (at, both) in begun(case) {
        let id = &case.steps[at].id;
        for (slot, instance) in both {
            if !named.insert(slot) {
                found.step(ALIKE, id, format!("{slot} changes places twice"));
            }
            if let Err(what) = may_go(case, at, slot, instance) {
                found.step(ALIKE, id, what);
            }
        }
        let [(one, gives), (other, takes)] = both;
        if let Action::Record(LedgerChange::Exchange { takes, .. }) = &case.steps[at].action
            && case.ledger_slot(other).and_then(|slot| slot.machine(other)).as_ref() != Some(takes)
        {
            found.step(ALIKE, id, format!("{} is not what is remembered of {other}", takes.instance));
        }
        for (pool, instance) in [(&one.pool, takes), (&other.pool, gives)] {
            if !case.instance(instance).is_some_and(|seen| launches(case, pool, seen)) {
                found.step(ALIKE, id, format!("{instance} is not what pool {pool} launches"));
            }
        }
        let source = |id: &InstanceId| case.instance(id).map(|seen| (seen.market, &seen.reservation));
        if source(gives) != source(takes) || source(gives).is_none_or(|(market, _)| market == Market::Spot) {
            found.step(ALIKE, id, format!("{gives} and {takes} are not bought alike"));
        }
        let cut = |pool: &PoolName| {
            let layout = &case.pool(pool)?.layout;
            case.input.desired.pools.get(pool)?.layouts.get(layout)
        };
        if one.pool == other.pool || cut(&one.pool) != cut(&other.pool) {
            found.step(ALIKE, id, format!("{one} and {other} are not cut alike, or are of one pool"));
        }
    }
}

/// The slot is wanted and has the machine, which runs in a node that is closed and empty, and nobody asked anything else.
fn may_go(case: &Case<'_>, at: usize, slot: &SlotId, instance: &InstanceId) -> Result<(), String> {
    let known = case.ledger_slot(slot).filter(|known| known.instance.as_ref() == Some(instance));
    let known = known.ok_or_else(|| format!("{slot} does not have {instance}"))?;
    if known.intent.is_some() || known.exchange.is_some() || !in_target(case, slot) {
        return Err(format!("{slot} is not wanted, or something is open in it"));
    }
    if !case.instance(instance).is_some_and(|seen| seen.state == InstanceState::Running) {
        return Err(format!("{instance} does not run"));
    }
    let node = case.node_of(instance).ok_or_else(|| format!("{instance} has no node"))?;
    let subject = Subject::Node(node.clone());
    let is_empty = |fact: &Fact| matches!(fact, Fact::Empty(empty) if empty == node);
    if !case.is_cordoned(at, node) || !case.assured(at, &subject, is_empty) {
        return Err(format!("nobody looks whether {node} is closed and empty"));
    }
    if let Some(pod) = case.pods.on(node).find(|pod| !case.pods.is_leaving(pod)) {
        return Err(format!("{} is on {node}", pod.name));
    }
    if opened_before(case, at, node) {
        return Err(format!("{node} is opened, and not after it"));
    }
    let is_part = |other: &&usize| !is_record(&case.steps[**other].action);
    match case.on_slot(slot).iter().find(is_part) {
        Some(other) => Err(format!("{} is about {slot} too", case.steps[*other].id)),
        None => Ok(()),
    }
}

fn opened_before(case: &Case<'_>, at: usize, node: &NodeName) -> bool {
    let opens = |place: &&usize| {
        let action = &case.steps[**place].action;
        matches!(action, Action::Cluster(ClusterAction::Uncordon { .. } | ClusterAction::Dress { .. }))
    };
    let on = case.on(&Subject::Node(node.clone()));
    on.iter().filter(opens).any(|place| !case.dag.is_before(at, *place))
}

fn is_record(action: &Action) -> bool {
    let Action::Record(change) = action else { return false };
    matches!(change, LedgerChange::Exchange { .. } | LedgerChange::Exchanged { .. } | LedgerChange::ExchangeOver { .. })
}

/// Of the same type and template, from a source of the pool, where the pool is launched.
fn launches(case: &Case<'_>, pool: &PoolName, seen: &InstanceSeen) -> bool {
    let (Some(spec), Some(objects)) = (case.pool(pool), case.input.desired.pools.get(pool)) else { return false };
    let from = |source: &Source| match source {
        Source::Reservation(name) => seen.reservation.is_some() && case.reservation_id(name) == seen.reservation,
        Source::OnDemand { .. } => seen.market == Market::OnDemand && seen.reservation.is_none(),
        Source::Spot { .. } | Source::Existing { .. } => false,
    };
    let zones = case.standing().zones(spec);
    seen.instance_type == spec.shape.instance_type
        && seen.template.as_ref() == Some(&objects.template.digest)
        && spec.capacity.iter().any(from)
        && (zones.is_empty() || zones.contains(&seen.zone))
}

/// Until both slots say the same, what is remembered of either is half the truth.
pub fn finished_first(case: &Case<'_>, found: &mut Found) {
    let open = case.input.ledger.exchanges();
    if open.is_empty() {
        return;
    }
    for (at, step) in case.each().filter(|(_, step)| !is_record(&step.action)) {
        let nodes = case.nodes_of_step(at);
        let slots = nodes.iter().filter_map(|node| case.slot_of_node(node)).chain(slot(&step.action));
        let mut slots = slots.map(|slot| case.input.as_named(slot));
        let waits = slots.find_map(|slot| open.iter().find(|(first, note)| *first == slot || note.with == slot));
        let Some((first, _)) = waits else { continue };
        let is_over =
            |place: &usize| matches!(&case.steps[*place].action, Action::Record(LedgerChange::ExchangeOver { .. }));
        let over: Vec<usize> = case.on_slot(first).iter().copied().filter(is_over).collect();
        if case.dag.before(at, &over).is_empty() {
            found.step(FINISHED, &step.id, format!("the exchange of {first} is not over before it"));
        }
    }
}
