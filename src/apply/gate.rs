//! What must hold just before an effect: the facts that the step requires, that what it touches is ours and is there,
//! that nobody froze it or took it out of service since, and that nobody said stop.
//!
//! Everything is read for this one effect. A mismatch drops the branch; what to do instead is for the next plan to say.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::retry;
use super::turn::{Memory, Turn};
use super::walk::Walk;
use crate::effect::marks::{HANDS_OFF, MIG_STATE, POOL, cut_order, ordered_since};
use crate::effect::{
    Action, CloudAction, ClusterAction, Fact, Freeze, Head, LaidOut, LedgerChange, PoolLedger, Scope, Slot, Subject,
    Thing, Verdict,
};
use crate::ids::{InstanceId, NodeName, PoolName, SlotId};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{
    CloudSeen, ClusterSeen, InstanceSeen, InstanceState, NodeSeen, Observed, Read, ReservationState,
};
use crate::plan::objects::moved;
use crate::plan::tide::turned;
use crate::plan::{Step, Urgency, frozen_by_document};
use crate::provider::World;
use crate::status::EventKind;

pub(super) enum Passed {
    Go,
    /// What the step wants is so already.
    NothingToDo,
}

/// Looks again at everything that the step needs and touches. `more` is required beside what the plan requires.
pub(super) async fn pass(walk: &Walk<'_>, step: &Step, memory: &mut Memory, more: &[Fact]) -> Result<Passed, Turn> {
    let facts: Vec<&Fact> = step.requires.iter().chain(more).collect();
    let mut subjects: BTreeSet<Subject> = facts.iter().flat_map(|fact| fact.subjects()).collect();
    subjects.extend(touched(&step.action));
    subjects.extend(step.disruption.nodes.iter().cloned().map(Subject::Node));
    let seen = look(walk.world, &subjects).await;
    judge(walk, &facts, &seen)?;
    let passed = stands(walk, step, &seen)?;
    still_claimed(walk, step, memory).await?;
    let nodes = nodes(step, &seen);
    let unseen = nodes.iter().filter(|name| !seen.cluster.nodes.seen().contains_key(*name));
    let rest = look(walk.world, &unseen.cloned().map(Subject::Node).collect()).await;
    let head = walk.head().await.map_err(|error| retry::after(walk, step, memory, &error))?;
    if !only_notes(&step.action) {
        hands_off(&nodes, &seen, &rest)?;
        frozen(walk, step, &head, &nodes, &[&seen, &rest])?;
        told(walk, step, &head, &nodes)?;
    }
    if walk.patience.stop.is_asked() { Err(Turn::Stopped) } else { Ok(passed) }
}

/// Only the facts: for a step that has no effect.
pub(super) async fn facts(walk: &Walk<'_>, step: &Step) -> Result<(), Turn> {
    let facts: Vec<&Fact> = step.requires.iter().collect();
    let seen = look(walk.world, &facts.iter().flat_map(|fact| fact.subjects()).collect()).await;
    judge(walk, &facts, &seen)
}

/// Reads these, each where it is, in at most one call to the cloud and one to the cluster.
pub(super) async fn look(world: World<'_>, subjects: &BTreeSet<Subject>) -> Observed {
    let in_cloud =
        |subject: &&Subject| matches!(subject, Subject::Instance(_) | Subject::Reservation(_) | Subject::NodeOf(_));
    let in_cluster = |subject: &&Subject| !matches!(subject, Subject::Instance(_) | Subject::Reservation(_));
    let cloud: Vec<Subject> = subjects.iter().filter(in_cloud).cloned().collect();
    let cluster: Vec<Subject> = subjects.iter().filter(in_cluster).cloned().collect();
    let cloud = if cloud.is_empty() { CloudSeen::default() } else { world.cloud.reread(&cloud).await };
    let cluster = if cluster.is_empty() { ClusterSeen::default() } else { world.cluster.reread(&cluster).await };
    Observed { cloud, cluster, ..Observed::default() }
}

fn judge(walk: &Walk<'_>, facts: &[&Fact], seen: &Observed) -> Result<(), Turn> {
    if is_on(Mistake::ListOnce) {
        return Ok(());
    }
    let now = walk.world.clock.now();
    for fact in facts {
        match fact.verdict(seen, now) {
            Verdict::Holds => {}
            Verdict::NotYet(why) | Verdict::Never(why) | Verdict::Unknown(why) => {
                return Err(Turn::End(EventKind::Skipped { fact: Some((*fact).clone()), why }));
            }
        }
    }
    Ok(())
}

/// What the action itself is about.
fn touched(action: &Action) -> Vec<Subject> {
    match action {
        Action::Cloud(CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. }) => {
            vec![Subject::Instance(instance.clone()), Subject::NodeOf(instance.clone())]
        }
        Action::Cloud(CloudAction::Modify { id, .. } | CloudAction::Cancel { id, .. }) => {
            vec![Subject::Reservation(id.clone())]
        }
        Action::Cluster(ClusterAction::Delete(key) | ClusterAction::Disown(key)) => vec![Subject::Object(key.clone())],
        Action::Cluster(
            ClusterAction::Ask { workload, .. }
            | ClusterAction::Suspend { workload, .. }
            | ClusterAction::Shrink { workload, .. }
            | ClusterAction::Resume { workload },
        ) => vec![Subject::Workload(workload.clone())],
        Action::Cluster(action) => node_of(action).cloned().map(Subject::Node).into_iter().collect(),
        Action::Cloud(_) | Action::Record(_) | Action::Await(_) => Vec::new(),
    }
}

fn node_of(action: &ClusterAction) -> Option<&NodeName> {
    match action {
        ClusterAction::Dress { node, .. }
        | ClusterAction::Cordon { node, .. }
        | ClusterAction::Uncordon { node }
        | ClusterAction::Cut { node, .. } => Some(node),
        _ => None,
    }
}

/// Whether a node carries this very order, and mig-manager could not carry it out: it acts only on a change of the label.
fn has_failed(cluster: &ClusterSeen, node: &NodeName, laid_out: &LaidOut) -> bool {
    let carries = |labels: &BTreeMap<String, String>| {
        let failed = labels.get(MIG_STATE).is_some_and(|state| state == "failed");
        failed && laid_out.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    cluster.nodes.seen().get(node).is_some_and(|found| carries(&found.labels))
}

/// Whether what the action is about is there, is ours, and is not so already.
fn stands(walk: &Walk<'_>, step: &Step, seen: &Observed) -> Result<Passed, Turn> {
    let (cloud, cluster) = (&seen.cloud, &seen.cluster);
    match &step.action {
        Action::Cluster(ClusterAction::Cut { node, laid_out, flip: false, .. })
            if has_failed(cluster, node, laid_out) && !is_on(Mistake::LabelRewritten) =>
        {
            let why = format!("mig-manager failed on {node}, and hears this order only once it was taken back");
            Err(Turn::End(EventKind::Skipped { fact: None, why }))
        }
        Action::Cluster(ClusterAction::Cut { node, laid_out, flip, over }) => {
            let found = cluster.nodes.seen().get(node).ok_or_else(|| absent(&cluster.nodes, &node.to_string()))?;
            let is_so = laid_out.is_ordered(&found.labels);
            match cut_order(&found.labels) == *over {
                true => Ok(Passed::Go),
                false if is_so && !flip => Ok(Passed::NothingToDo),
                false => Err(dropped(ordered_since(node))),
            }
        }
        Action::Cloud(CloudAction::Terminate { slot, instance }) => {
            let found = owned(walk, slot, instance, cloud)?;
            let going = matches!(found.state, InstanceState::Terminated | InstanceState::ShuttingDown);
            Ok(if going { Passed::NothingToDo } else { Passed::Go })
        }
        Action::Cloud(CloudAction::Reboot { slot, instance }) => {
            let found = owned(walk, slot, instance, cloud)?;
            if found.state.serves() { Ok(Passed::Go) } else { Err(dropped(format!("{instance} is {:?}", found.state))) }
        }
        Action::Cloud(CloudAction::Modify { id, .. } | CloudAction::Cancel { id, .. }) => {
            let found = cloud.reservations.seen().get(id);
            let found = found.ok_or_else(|| absent(&cloud.reservations, &id.to_string()))?;
            let cancels = matches!(&step.action, Action::Cloud(CloudAction::Cancel { .. }));
            match found.state {
                _ if found.block => Err(dropped(format!("{id} is a Capacity Block"))),
                ReservationState::Ended if cancels => Ok(Passed::NothingToDo),
                ReservationState::Ended => Err(dropped(format!("{id} has ended"))),
                _ => Ok(Passed::Go),
            }
        }
        Action::Cluster(ClusterAction::Delete(key) | ClusterAction::Disown(key)) => {
            match cluster.objects.seen().get(key) {
                Some(found) if found.written.is_none() => Err(dropped(format!("{key} does not carry our mark"))),
                Some(_) => Ok(Passed::Go),
                None if cluster.objects.whole().is_some() => Ok(Passed::NothingToDo),
                None => Err(absent(&cluster.objects, &key.to_string())),
            }
        }
        Action::Cluster(
            ClusterAction::Ask { workload, .. }
            | ClusterAction::Suspend { workload, .. }
            | ClusterAction::Shrink { workload, .. }
            | ClusterAction::Resume { workload },
        ) => match cluster.workloads.seen().get(workload) {
            Some(found) if found.finished => Ok(Passed::NothingToDo),
            Some(_) => Ok(Passed::Go),
            None if cluster.workloads.whole().is_some() => Ok(Passed::NothingToDo),
            None => Err(absent(&cluster.workloads, &workload.to_string())),
        },
        Action::Cluster(action) => match node_of(action) {
            Some(node) if !cluster.nodes.seen().contains_key(node) => Err(absent(&cluster.nodes, &node.to_string())),
            _ => Ok(Passed::Go),
        },
        Action::Cloud(_) | Action::Record(_) | Action::Await(_) => Ok(Passed::Go),
    }
}

/// A node that exists without us is ours only as long as the ledger says so: a plan that is old may have seen it claimed,
/// and it was given back since. One that is being claimed by this plan is asked for when that is recorded.
async fn still_claimed(walk: &Walk<'_>, step: &Step, memory: &mut Memory) -> Result<(), Turn> {
    let Action::Cluster(
        ClusterAction::Cordon { node, .. } | ClusterAction::Cut { node, .. } | ClusterAction::Dress { node, .. },
    ) = &step.action
    else {
        return Ok(());
    };
    let Some(slot) = walk.input.ledger.claimed_by(node) else { return Ok(()) };
    for name in [slot.clone(), walk.input.as_kept(&slot)] {
        let found = walk.slot(&name).await.map_err(|error| retry::after(walk, step, memory, &error))?;
        if found.node.as_ref() == Some(node) {
            return Ok(());
        }
    }
    Err(dropped(format!("{node} does not belong to {slot} any more")))
}

/// The instance, if its tag says that it is this slot's. The ledger has to say so too; whoever calls looks there.
fn owned<'s>(
    walk: &Walk<'_>,
    slot: &SlotId,
    instance: &InstanceId,
    seen: &'s CloudSeen,
) -> Result<&'s InstanceSeen, Turn> {
    let found = seen.instances.seen().get(instance);
    let found = found.ok_or_else(|| absent(&seen.instances, &instance.to_string()))?;
    let is_ours = found.tag.as_ref().is_some_and(|tag| {
        // A tag keeps the name that the pool had at the launch: a name that no pool has now is one that was changed.
        let known = walk.input.ledger.pools.get(&tag.slot.pool);
        let renamed = !known.is_some_and(PoolLedger::is_something);
        let is_own = tag.slot.index == slot.index && (tag.slot.pool == slot.pool || renamed);
        // One that changed places says what it was launched for.
        let planned = walk.planned(slot);
        let made_for = planned.made_for.as_ref().filter(|_| planned.instance.as_ref() == Some(instance));
        tag.fleet == walk.fleet && made_for.map_or(is_own, |made_for| *made_for == tag.slot)
    });
    if is_ours { Ok(found) } else { Err(dropped(format!("{instance} does not carry the tag of {slot}"))) }
}

fn dropped(why: String) -> Turn {
    Turn::End(EventKind::Skipped { fact: None, why })
}

fn absent<T>(read: &Read<T>, what: &str) -> Turn {
    dropped(match read.gap() {
        Some(gap) => format!("{what} could not be read: {}: {}", gap.what, gap.why),
        None => format!("{what} is not there"),
    })
}

/// The nodes that the step touches: what a freeze or a hand on a node stops.
fn nodes(step: &Step, seen: &Observed) -> BTreeSet<NodeName> {
    let cluster = &seen.cluster;
    // Who only has to stand where he stands is not touched.
    let touches = |fact: &&Fact| !matches!(fact, Fact::InService(_));
    let required = step.requires.iter().filter(touches).flat_map(Fact::subjects).filter_map(|subject| match subject {
        Subject::Node(node) => Some(node),
        _ => None,
    });
    let mut all: BTreeSet<NodeName> = step.disruption.nodes.iter().cloned().chain(required).collect();
    match &step.action {
        Action::Cloud(CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. }) => {
            let holds = |(_, node): &(&NodeName, &NodeSeen)| node.instance.as_ref() == Some(instance);
            all.extend(cluster.nodes.seen().iter().filter(holds).map(|(name, _)| name.clone()));
        }
        Action::Cluster(
            ClusterAction::Suspend { workload, .. }
            | ClusterAction::Ask { workload, .. }
            | ClusterAction::Shrink { workload, .. },
        ) => {
            let found = cluster.workloads.seen().get(workload);
            all.extend(found.into_iter().flat_map(|found| found.nodes.keys().cloned()));
            let its_own = cluster.pods.seen().iter().filter(|pod| pod.workload.as_ref() == Some(workload));
            all.extend(its_own.filter_map(|pod| pod.node.clone()));
        }
        Action::Cluster(ClusterAction::Evict { pods, .. } | ClusterAction::AskPods { pods, .. }) => {
            let named = cluster.pods.seen().iter().filter(|pod| pods.iter().any(|(_, uid)| *uid == pod.uid));
            all.extend(named.filter_map(|pod| pod.node.clone()));
        }
        Action::Cluster(action) => all.extend(node_of(action).cloned()),
        Action::Cloud(_) | Action::Record(_) | Action::Await(_) => {}
    }
    all
}

/// Whether it only notes what was seen: memory is true under a freeze too.
fn only_notes(action: &Action) -> bool {
    match action {
        Action::Record(change) => change.only_notes(),
        Action::Await(_) => true,
        Action::Cloud(_) | Action::Cluster(_) => false,
    }
}

/// A person's word on a node stops everything, also what has a deadline.
fn hands_off(nodes: &BTreeSet<NodeName>, seen: &Observed, rest: &Observed) -> Result<(), Turn> {
    for name in nodes {
        let found = [seen, rest].into_iter().find_map(|seen| seen.cluster.nodes.seen().get(name));
        match found {
            Some(node) => {
                if let Some(word) = node.annotation(HANDS_OFF) {
                    let by = format!("{HANDS_OFF} on {name}");
                    return Err(Turn::End(EventKind::Frozen { by, reason: word.into() }));
                }
            }
            None if rest.cluster.nodes.gap().is_some() => return Err(absent(&rest.cluster.nodes, name.as_str())),
            None => {}
        }
    }
    Ok(())
}

/// The first freeze that stops the step, in the ledger or in the Fleet document.
fn frozen(
    walk: &Walk<'_>,
    step: &Step,
    head: &Head,
    nodes: &BTreeSet<NodeName>,
    seen: &[&Observed],
) -> Result<(), Turn> {
    if is_on(Mistake::EffectAfterFreeze) {
        return Ok(());
    }
    let labels = seen.iter().flat_map(|seen| seen.cluster.nodes.seen()).filter(|(name, _)| nodes.contains(*name));
    let mut pools: BTreeSet<PoolName> =
        labels.filter_map(|(_, node)| node.labels.get(POOL)).map(|name| name.as_str().into()).collect();
    if let Thing::Pool(name) = &step.on {
        pools.insert(name.clone());
    }
    if let Action::Cluster(ClusterAction::Apply(object)) = &step.action {
        pools.extend(moved(walk.input, object));
    }
    pools.extend(turned(walk.input, &step.action));
    let covers = |scope: &Scope| match scope {
        Scope::Fleet => true,
        Scope::Pool(name) => pools.contains(name),
        Scope::Node(name) => nodes.contains(name),
    };
    // A drain before the end goes on; the next node can wait.
    let has_deadline =
        step.urgency == Urgency::Deadline && !matches!(step.action, Action::Cloud(CloudAction::Launch(_)));
    let document = walk.input.target.standing.frozen.as_ref();
    let document = document.map(|reason| frozen_by_document(reason, walk.input.now));
    let stops = |freeze: &&Freeze| covers(&freeze.scope) && (freeze.all || !has_deadline);
    match head.frozen.iter().chain(&document).find(stops) {
        None => Ok(()),
        Some(freeze) => Err(Turn::End(EventKind::Frozen { by: freeze.by.clone(), reason: freeze.reason.clone() })),
    }
}

/// What people said of a node since the plan was made. One that was taken out of service, or is to be kept empty, is theirs:
/// nothing more is done to it for another reason. One that was given back is not emptied for a word that is no more. What
/// the plan knew, or says itself, is no news; and the cloud waits for nobody.
fn told(walk: &Walk<'_>, step: &Step, head: &Head, nodes: &BTreeSet<NodeName>) -> Result<(), Turn> {
    if step.urgency == Urgency::Deadline || !disturbs(&step.action) {
        return Ok(());
    }
    let known = &walk.input.ledger.head;
    let of_slot = removed(&step.action).and_then(|slot| node_in(walk, slot));
    for node in nodes.iter().chain(&of_slot) {
        if let Some(Word { what, by, at, reason }) = news(walk, head, node) {
            let by = format!("{by}, {what} of {node} at {at}");
            return Err(Turn::End(EventKind::Frozen { by, reason: reason.into() }));
        }
        if word(known, node).is_some() && word(head, node).is_none() && walk.plan.follows_a_word(step) {
            return Err(dropped(format!("{node} was given back since this was planned")));
        }
    }
    has_room(walk, step, head)
}

/// A node that goes by the budget of its pool's updates goes where the others are as the plan saw them: one that a person
/// took out of service since takes of that budget, too. How much is left the next plan says. What was out in the plan, or is
/// closed by it, is counted there.
fn has_room(walk: &Walk<'_>, step: &Step, head: &Head) -> Result<(), Turn> {
    let Thing::Pool(pool) = &step.on else { return Ok(()) };
    let Some(remembered) = walk.input.ledger.pools.get(pool).filter(|_| step.takes_room()) else { return Ok(()) };
    let nodes = walk.input.observed.cluster.nodes.seen();
    let serves = |node: &NodeName| {
        let found = nodes.get(node).filter(|found| !found.unschedulable);
        let is_its = |found: &NodeSeen, slot: &Slot| {
            slot.node.as_ref() == Some(node) || (found.instance.is_some() && slot.instance == found.instance)
        };
        found.is_some_and(|found| remembered.slots.values().any(|slot| is_its(found, slot)))
    };
    for node in head.quarantined.keys().chain(head.drains.keys()) {
        if let Some(Word { what, by, at, reason }) = news(walk, head, node)
            && serves(node)
            && !walk.plan.steps.iter().any(|step| closed(step) == Some(node))
        {
            let why = format!(
                "{node} of pool/{pool} was taken out of service since this was planned ({by}, {what} at {at}: {reason}), and \
                 counts: the next plan says who may go beside it"
            );
            return Err(dropped(why));
        }
    }
    Ok(())
}

/// The node that a step closes.
fn closed(step: &Step) -> Option<&NodeName> {
    match &step.action {
        Action::Cluster(ClusterAction::Cordon { node, .. }) => Some(node),
        _ => None,
    }
}

/// What a person says of a node, who, when and why.
struct Word<'h> {
    what: &'static str,
    by: &'h str,
    at: Timestamp,
    reason: &'h str,
}

fn word<'h>(head: &'h Head, node: &NodeName) -> Option<Word<'h>> {
    let quarantine = head.quarantined.get(node);
    let quarantine = quarantine.map(|one| Word { what: "quarantine", by: &one.by, at: one.at, reason: &one.reason });
    let drain =
        || head.drains.get(node).map(|one| Word { what: "drain", by: &one.by, at: one.at, reason: &one.reason });
    quarantine.or_else(drain)
}

/// What was not said yet when the plan was made, and the plan does not say itself.
fn news<'h>(walk: &Walk<'_>, head: &'h Head, node: &NodeName) -> Option<Word<'h>> {
    let takes_out =
        |step: &Step| matches!(&step.action, Action::Record(LedgerChange::Quarantine { node: out, .. }) if out == node);
    let is_news =
        |_: &Word<'_>| word(&walk.input.ledger.head, node).is_none() && !walk.plan.steps.iter().any(takes_out);
    word(head, node).filter(is_news)
}

/// Whether it does something to a node, or to who is on it, that whoever takes that node out of service did not ask for.
fn disturbs(action: &Action) -> bool {
    match action {
        Action::Cloud(action) => matches!(action, CloudAction::Terminate { .. } | CloudAction::Reboot { .. }),
        Action::Cluster(ClusterAction::Dress { labels, .. }) => labels.get(POOL).is_some_and(Option::is_none),
        Action::Cluster(action) => matches!(
            action,
            ClusterAction::Cordon { .. }
                | ClusterAction::Uncordon { .. }
                | ClusterAction::Cut { .. }
                | ClusterAction::Ask { .. }
                | ClusterAction::AskPods { .. }
                | ClusterAction::Suspend { .. }
                | ClusterAction::Shrink { .. }
                | ClusterAction::Evict { .. }
        ),
        Action::Record(_) => removed(action).is_some(),
        Action::Await(_) => false,
    }
}

/// The slot whose node is remembered as about to go.
fn removed(action: &Action) -> Option<&SlotId> {
    match action {
        Action::Record(
            LedgerChange::Removing { slot, .. }
            | LedgerChange::Leaving { slot }
            | LedgerChange::Unclaimed { slot }
            | LedgerChange::Exchange { slot, .. },
        ) => Some(slot),
        _ => None,
    }
}

/// The node of a slot, as the plan saw it.
fn node_in(walk: &Walk<'_>, slot: &SlotId) -> Option<NodeName> {
    let planned = walk.planned(slot);
    let nodes = || walk.input.observed.cluster.nodes.seen().iter();
    let launched = || nodes().find(|(_, node)| node.instance.is_some() && node.instance == planned.instance);
    planned.node.or_else(|| launched().map(|(name, _)| name.clone()))
}
