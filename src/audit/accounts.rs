//! Everything that is wanted is in a step or held, and everything that a step does is in the effects that people see.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use super::case::Case;
use super::evict::disturbing;
use crate::effect::{
    Action, Amount, CloudAction, ClusterAction, Effects, LedgerChange, Object, Subject, Thing, Verb, canonical,
    digest_of,
};
use crate::fleet::pool::Source;
use crate::fleet::tide::Phase;
use crate::ids::{NodeName, PoolName, QuotaName, SlotId, TideName};
use crate::observed::{ObjectKey, ObjectKind, ObjectSeen, PodSeen};
use crate::plan::{Consent, Held, Reason, Step, Urgency, WaitingOn};

const EFFECTS: &str = "the effects of a plan bound what its steps do";
const URGENCY: &str = "what has its own budget has a reason for it";
const CONSENT: &str = "who is disturbed by choice is asked for";
const SLOTS: &str = "every slot that lacks a node is in a step or held";
const CHOICE: &str = "a slot with nothing goes before one with work";
const OBJECTS: &str = "every object that differs is in a step or held";

/// The digest is that of the effects, the effects cover the sum of the steps, and no step hides what it does.
pub fn effects(case: &Case<'_>, found: &mut Found) {
    if case.plan.digest != case.plan.effects.digest() {
        found.plan(EFFECTS, "the digest is not that of the effects");
    }
    let mut sum = Effects::default();
    case.steps.iter().for_each(|step| sum.add(&step.effects));
    for excess in sum.within(&case.plan.effects).err().unwrap_or_default() {
        found.plan(EFFECTS, format!("the steps do more than is said: {}", excess.key));
    }
    for (_, step) in case.each() {
        let verb = match &step.action {
            Action::Cloud(action) => match action {
                CloudAction::Launch(_) => Verb::Launch,
                CloudAction::Terminate { .. } => Verb::Terminate,
                CloudAction::Reboot { .. } => Verb::Reboot,
                CloudAction::Reserve(_) => Verb::Reserve,
                CloudAction::Cancel { .. } => Verb::Cancel,
                CloudAction::Purchase(_) => Verb::Purchase,
                _ => continue,
            },
            Action::Cluster(ClusterAction::Cut { .. }) => Verb::Cut,
            Action::Cluster(ClusterAction::Delete(_)) => Verb::Delete,
            Action::Cluster(ClusterAction::Apply(_)) => Verb::Apply,
            _ => continue,
        };
        let said = step.effects.0.iter().find(|(key, _)| key.verb == verb).map(|(_, amount)| amount);
        if said.is_none_or(|amount| amount.count == 0) {
            found.step(EFFECTS, &step.id, format!("its effects do not say `{}`", verb.name()));
        }
        let object = match &step.action {
            Action::Cluster(ClusterAction::Apply(object)) => {
                Some((&object.key, Some(digest_of(&canonical(&object.body)))))
            }
            Action::Cluster(ClusterAction::Delete(key)) => Some((key, None)),
            _ => None,
        };
        if let Some((key, body)) = object {
            let names = |amount: &Amount| match (amount.objects.get(key), &body) {
                (Some(Some(written)), Some(body)) => {
                    written.as_str().len() >= 16 && body.as_str().starts_with(written.as_str())
                }
                (Some(None), None) => true,
                _ => false,
            };
            if !said.is_some_and(names) {
                found.step(EFFECTS, &step.id, format!("its effects do not say what becomes of {key}"));
            }
        }
        if let Action::Cloud(CloudAction::Purchase(request)) = &step.action
            && said.is_none_or(|amount| amount.usd_upfront < request.fee)
        {
            found.step(EFFECTS, &step.id, "its effects do not say the fee");
        }
    }
    drains(case, found);
}

/// Whose work goes, and from which pool, stands in the effects.
fn drains(case: &Case<'_>, found: &mut Found) {
    let takes = [Verb::Drain, Verb::Terminate, Verb::Cut, Verb::Reboot, Verb::Release];
    let said = case.plan.effects.0.iter().filter(|(key, _)| takes.contains(&key.verb));
    let pools: BTreeSet<&PoolName> = said
        .clone()
        .filter_map(|(key, _)| match &key.on {
            Thing::Pool(pool) => Some(pool),
            _ => None,
        })
        .collect();
    let teams: BTreeSet<&QuotaName> = said.clone().flat_map(|(_, amount)| &amount.teams).collect();
    let highest = said.filter_map(|(_, amount)| amount.highest).max();
    for (at, step) in disturbing(case) {
        let mut wrong: BTreeSet<String> = BTreeSet::new();
        let says_itself = step.effects.0.keys().any(|key| takes.contains(&key.verb));
        // A pod that is on no node yet loses its place, and no work.
        let runs = |pod: &PodSeen| pod.counts() && pod.node.is_some() && !case.pods.is_leaving(pod);
        let disturbed = case.pods.sent_by(at).iter().filter(|pod| runs(pod));
        let mut judged = BTreeSet::new();
        for pod in disturbed {
            if let Some(slot) =
                pod.node.as_ref().filter(|node| case.is_cordoned(at, node)).and_then(|node| case.slot_of_node(node))
                && !says_itself
                && !pools.contains(&slot.pool)
            {
                wrong.insert(format!("the effects do not say that pool {} is drained", slot.pool));
            }
            let Some(workload) = case.pods.workload(pod).filter(|_| judged.insert(&pod.workload)) else { continue };
            let mut quotas = case.standing().quotas.iter();
            let team = quotas.find(|(_, quota)| *quota.cluster_queue == *workload.queue.as_str());
            if let Some((team, _)) = team.filter(|(team, _)| !teams.contains(team)) {
                wrong.insert(format!("the effects do not say that {team} is disturbed"));
            }
            let tier = workload.tier.as_ref().and_then(|tier| case.standing().tiers.get(tier));
            if tier.is_some_and(|tier| highest.is_none_or(|highest| tier.rank > highest)) {
                wrong.insert(format!(
                    "the effects do not say that a tier as high as that of {} is disturbed",
                    workload.name
                ));
            }
        }
        wrong.into_iter().for_each(|what| found.step(EFFECTS, &step.id, what));
    }
}

fn is_standing(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Resized
            | Reason::Lent { .. }
            | Reason::Returning { .. }
            | Reason::Sick { .. }
            | Reason::Quarantined { .. }
            | Reason::Notice { .. }
            | Reason::Recommended { .. }
            | Reason::CapacityEnds { .. }
    )
}

/// A merge consents to tides, health and interruption. Whatever else disturbs work needs an approval.
pub fn consent(case: &Case<'_>, found: &mut Found) {
    for (at, step) in disturbing(case) {
        let standing = is_standing(case.reason(at));
        let disturbs = case.pods.sent_by(at).iter().any(|pod| pod.counts() && !case.pods.is_leaving(pod));
        if disturbs && !standing && step.consent == Consent::Standing {
            found.step(CONSENT, &step.id, "it disturbs work and asks nobody");
        }
    }
}

/// What a tide takes asks nobody, so it is no more than the pool has beyond its size without anybody's edit.
pub fn resized(case: &Case<'_>, found: &mut Found) {
    let mut goes: BTreeMap<&PoolName, Vec<&Step>> = BTreeMap::new();
    for (at, step) in case.each() {
        let removes = match &step.action {
            Action::Cloud(CloudAction::Terminate { slot, .. }) => Some(&slot.pool),
            Action::Record(LedgerChange::Unclaimed { slot }) => Some(&slot.pool),
            _ => None,
        };
        if let Some(pool) = removes.filter(|_| matches!(case.reason(at), Reason::Resized)) {
            goes.entry(pool).or_default().push(step);
        }
    }
    for (pool, steps) in goes {
        let (spec, known) = (case.pool(pool), case.pool_ledger(pool));
        let (Some(target), Some(size)) = (case.input.target.pools.get(pool), spec.and_then(|spec| spec.size)) else {
            found.step(CONSENT, &steps[0].id, format!("no tide gives {pool} another size"));
            continue;
        };
        let there = known.into_iter().flat_map(|known| known.slots.values()).filter(|slot| slot.is_something()).count();
        let there = u32::try_from(there).unwrap_or(u32::MAX);
        let resizes = case.standing().tides.values().any(|tide| tide.resizes.contains(pool));
        let at_night = taken_at_night(case, pool, target.nodes, size);
        let may_go = match known.and_then(|known| known.size).filter(|_| resizes) {
            Some(had) => there.saturating_sub(target.nodes).saturating_sub(had.saturating_sub(size).max(at_night)),
            None => size.saturating_sub(target.nodes).saturating_sub(at_night),
        };
        if let Some(step) = usize::try_from(may_go).ok().and_then(|may_go| steps.get(may_go)) {
            found.step(
                CONSENT,
                &step.id,
                format!("{} nodes of {pool} go by a tide, and {may_go} are a tide's", steps.len()),
            );
        }
    }
}

/// So many nodes somebody took from what a tide gives a pool, while that is in force: fewer than was remembered of it, or than
/// the pool had without it.
fn taken_at_night(case: &Case<'_>, pool: &PoolName, nodes: u32, size: u32) -> u32 {
    let written = case.standing().low_sizes.get(pool).into_iter().flatten();
    let in_force = written.filter(|(tide, written)| {
        **written == nodes && matches!(case.input.target.tides.get(*tide), Some(Phase::Low { .. }))
    });
    let known = case.pool_ledger(pool);
    let before = |tide: &TideName| known.and_then(|known| known.low.get(tide).copied().or(known.size)).unwrap_or(size);
    in_force.map(|(tide, _)| before(tide).saturating_sub(nodes)).next().unwrap_or(0)
}

/// What has a budget of its own, or goes on under a freeze, has a reason for it: who applies looks at no other.
pub fn urgency(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let reason = case.reason(at);
        let ends = matches!(reason, Reason::Notice { .. } | Reason::CapacityEnds { .. });
        let fits = match step.urgency {
            Urgency::Chosen => true,
            Urgency::Granted => ends || is_standing(reason),
            Urgency::Deadline => ends,
        };
        if !fits {
            found.step(URGENCY, &step.id, format!("{:?} is not what its reason says", step.urgency));
        }
    }
}

/// Slots without a node that serves or is coming, and nodes beyond the pool's size.
pub fn slots(case: &Case<'_>, found: &mut Found) {
    let spoken_of: BTreeSet<&Thing> = case.plan.held.iter().map(|held| &held.what).collect();
    for (name, target) in &case.input.target.pools {
        if is_left_out(case, &Thing::Pool(name.clone())) || speak_of_pool(case, &spoken_of, name) {
            continue;
        }
        let remembered = case.pool_ledger(name);
        let indexes = (0..target.nodes).chain(remembered.iter().flat_map(|pool| pool.slots.keys().copied()));
        let indexes: BTreeSet<u32> = indexes.collect();
        if let Some((busy, empty)) = worse_choice(case, name, &indexes) {
            found.plan(CHOICE, format!("{busy} goes and work is on it, while {empty}, which has nothing, is wanted"));
        }
        for index in indexes {
            let slot = SlotId::new(name, index);
            let what = match case.part(&slot).is_some() {
                true if !has_node(case, &slot) => "has no node",
                true if is_silent(case, &slot) => "has a node that does not answer",
                false if still_serves(case, &slot) => "is not wanted",
                _ => continue,
            };
            if case.on_slot(&slot).is_empty() && !is_worked_on(case, &slot) {
                found.plan(SLOTS, format!("{slot} {what}, and no step and nothing held says so"));
                break;
            }
        }
    }
}

/// A slot that is not wanted and has work, and one that is wanted and has nothing.
fn worse_choice(case: &Case<'_>, pool: &PoolName, indexes: &BTreeSet<u32>) -> Option<(SlotId, SlotId)> {
    let slots = || indexes.iter().map(|index| SlotId::new(pool, *index));
    let node = |slot: &SlotId| {
        let known = case.ledger_slot(slot)?;
        known.node.as_ref().or_else(|| case.node_of(known.instance.as_ref()?)).cloned()
    };
    let is_begun = |name: &NodeName| case.has_our_cordon(name);
    let works = |slot: &SlotId| node(slot).is_some_and(|n| case.pods.on(&n).next().is_some() && !is_begun(&n));
    let busy = slots().find(|slot| case.part(slot).is_none() && works(slot))?;
    let has_nothing = |slot: &SlotId| case.ledger_slot(slot).is_none_or(|known| !known.is_something());
    Some((busy, slots().find(|slot| case.part(slot).is_some() && has_nothing(slot))?))
}

/// Something serves the slot, is on its way, or may still be there.
pub(super) fn has_node(case: &Case<'_>, slot: &SlotId) -> bool {
    let Some(remembered) = case.ledger_slot(slot) else { return false };
    let instance = remembered.instance.as_ref().is_some_and(|id| {
        // One that is not listed is missing, not gone: that is waited for.
        case.instance(id).is_none_or(|seen| seen.state.serves())
    });
    let nodes = &case.seen().cluster.nodes;
    let claimed = remembered.node.as_ref().is_some_and(|node| case.node(node).is_some() || nodes.gap().is_some());
    instance || claimed || (remembered.intent.is_some() && case.seen().cloud.instances.gap().is_some())
}

/// Whether a machine of somebody else says nothing, which only a person can change, and no person has it in hand.
fn is_silent(case: &Case<'_>, slot: &SlotId) -> bool {
    let head = &case.input.ledger.head;
    let claimed = case.ledger_slot(slot).and_then(|slot| slot.node.as_ref());
    let claimed = claimed.filter(|node| !head.drains.contains_key(*node) && !head.quarantined.contains_key(*node));
    claimed.and_then(|node| case.node(node)).is_some_and(|node| !node.ready)
}

fn still_serves(case: &Case<'_>, slot: &SlotId) -> bool {
    let Some(remembered) = case.ledger_slot(slot) else { return false };
    let serves = |id| case.instance(id).is_some_and(|seen| seen.state.serves());
    remembered.instance.as_ref().is_some_and(serves)
        || remembered.node.as_ref().is_some_and(|node| case.node(node).is_some())
}

/// Some step is on its node: a claimed one that is being emptied has no other.
fn is_worked_on(case: &Case<'_>, slot: &SlotId) -> bool {
    let remembered = case.ledger_slot(slot);
    let node = remembered.and_then(|slot| slot.node.as_ref().or_else(|| case.node_of(slot.instance.as_ref()?)));
    node.is_some_and(|node| !case.on(&Subject::Node(node.clone())).is_empty())
}

fn is_left_out(case: &Case<'_>, thing: &Thing) -> bool {
    let only = &case.input.only;
    case.input.only_node.is_some() || case.plan.left_out.contains(thing) || (!only.is_empty() && !only.contains(thing))
}

/// Whether what is held is about the pool, one of its reservations, or everything.
fn speak_of_pool(case: &Case<'_>, held: &BTreeSet<&Thing>, pool: &PoolName) -> bool {
    let sources = case.pool(pool).map_or(&[][..], |pool| pool.capacity.as_slice());
    held.contains(&Thing::Fleet)
        || held.contains(&Thing::Pool(pool.clone()))
        || sources.iter().any(|source| match source {
            Source::Reservation(name) => held.contains(&Thing::Reservation(name.clone())),
            _ => false,
        })
}

/// Wanted objects that are not there, were last written in another way, or were moved by somebody; and retired ones.
pub fn objects(case: &Case<'_>, found: &mut Found) {
    let (cluster, objects) = (&case.seen().cluster, &case.seen().cluster.objects);
    let is_part = !case.input.only.is_empty() || case.input.only_node.is_some();
    if objects.gap().is_some() || is_part {
        return;
    }
    let mut written: BTreeSet<&ObjectKey> = BTreeSet::new();
    for (_, step) in case.each() {
        match &step.action {
            Action::Cluster(ClusterAction::Apply(object)) => written.insert(&object.key),
            Action::Cluster(ClusterAction::Delete(key)) => written.insert(key),
            _ => false,
        };
    }
    let readable = case.input.desired.objects.iter().filter(|wanted| cluster.gap_of(wanted.key.kind).is_none());
    let differing = readable.filter(|wanted| differs(wanted, objects.seen().get(&wanted.key)));
    let retired = case
        .input
        .desired
        .retired
        .iter()
        .filter(|key| objects.seen().get(key).is_some_and(|there| there.written.is_some() && !there.deleting));
    for key in differing.map(|wanted| &wanted.key).chain(retired) {
        if !written.contains(key) && !case.plan.held.iter().any(|held| speaks_of_object(case, held, key)) {
            found.plan(OBJECTS, format!("{key} differs, and no step and nothing held says so"));
        }
    }
}

fn differs(wanted: &Object, there: Option<&ObjectSeen>) -> bool {
    let Some(there) = there else { return true };
    // A namespace is only needed to be there; whose it is does not matter.
    if wanted.key.kind == ObjectKind::Namespace {
        return false;
    }
    // A topology is named by what is in it: whoever made it, there is nothing to write.
    if wanted.key.kind == ObjectKind::Topology && there.written.is_none() && there.body == wanted.body {
        return there.deleting;
    }
    let moved = there.moved_by.is_some() && !contains(&there.body, &wanted.body);
    there.written.as_ref() != Some(&wanted.digest) || moved
}

/// Whether everything of the one stands in the other, which may have more: what the server fills in.
pub(super) fn contains(there: &serde_json::Value, wanted: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| there.get(key).is_some_and(|there| contains(there, value)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| contains(there, wanted))
        }
        // A quantity that was written as a number comes back as text.
        (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
            *text == number.to_string()
        }
        _ => there == wanted,
    }
}

fn speaks_of_object(case: &Case<'_>, held: &Held, key: &ObjectKey) -> bool {
    let of_quota = |name: &QuotaName| {
        let quota = case.standing().quotas.get(name);
        quota.is_some_and(|quota| *quota.cluster_queue == *key.name) || held.wanted.contains(&*key.name)
    };
    match (&held.waiting_on, &held.what) {
        (WaitingOn::OtherOwner { object, .. }, _) if object == key => true,
        (_, Thing::Fleet) => true,
        (_, Thing::Objects(kind)) => kind == key.kind.name() || held.wanted.contains(&*key.name),
        (_, Thing::Quota(name)) => of_quota(name),
        (_, Thing::Pool(name)) => key.name.contains(name.as_str()) || held.wanted.contains(&*key.name),
        (_, Thing::Tide(name)) => key.name.contains(name.as_str()) || held.wanted.contains(&*key.name),
        _ => held.wanted.contains(&*key.name),
    }
}
