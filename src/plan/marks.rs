//! Marks of ours that nothing wants any more: a mark that no step wants is a difference, and is undone.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::anew::Unanswered;
use super::chosen::trades::finished_by;
use super::draft::{Course, Draft};
use super::drain::{self, Pressure, Steps, resume, step_id};
use super::types::*;
use super::view::{Body, LISTED_WITHIN, SlotView, View};
use crate::effect::marks::{ASKED, CORDON, Mark, SUSPENDED, is_starting};
use crate::effect::{Action, CloudAction, ClusterAction, Fact, LedgerChange, PoolLedger, Slot, Thing};
use crate::fleet::target::{Part, Purpose};
use crate::ids::{NodeName, PoolName, SlotId, StepId};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{NodeSeen, WorkloadSeen};

const RENAME: &str = "rename";

/// Work that was asked to save itself and did not say in time that it had: it is stopped as it is, and its people should
/// not learn that from what is lost.
pub fn unanswered(view: &View<'_>, draft: &mut Draft) {
    for workload in view.input.observed.cluster.workloads.seen().values().filter(|workload| !workload.finished) {
        let asked = workload.marks.get(ASKED).map(|mark| Mark::parse(mark)).filter(|mark| !mark.is_foreign(view.fleet));
        let checkpoint = view.harm.tier_of(workload).and_then(|(_, tier)| tier.checkpoint.as_ref());
        let (Some(asked), Some(checkpoint)) = (asked, checkpoint) else { continue };
        let in_time = asked.since.checked_add(checkpoint.deadline.signed()).is_ok_and(|until| view.now < until);
        if in_time || workload.saved.is_some_and(|at| at >= asked.since) {
            continue;
        }
        let on = view.harm.quota_of(workload).map_or(Thing::Fleet, |quota| Thing::Quota(quota.clone()));
        let (name, since, within) = (&workload.name, asked.since, checkpoint.deadline);
        let text = format!(
            "{name} was asked at {since} to save its work, and did not say within {within} that it had: it is stopped as \
             it is"
        );
        draft.note(on, text);
    }
}

pub fn plan(view: &View<'_>, draft: &mut Draft) {
    let reason = Reason::LeftOver;
    let purpose = |on: &Thing| drain::Purpose {
        why: "keep",
        on: on.clone(),
        reason: Reason::LeftOver,
        consent: Consent::Standing,
        pressure: Pressure::default(),
    };
    let nodes = view.input.observed.cluster.nodes.seen();
    let cordoned = |name: &NodeName| nodes.get(name).is_some_and(|node| node.annotation(CORDON).is_some());
    // Asked before its node is closed, because its time ends before it has run as long as it was promised.
    let comes_back = |part: &Part| matches!(part.purpose, Purpose::Returning { .. });
    let returning = |slot: &SlotView<'_>| slot.by_tide || slot.part.is_some_and(comes_back);
    let returning = || view.slots().filter(|(_, slot)| returning(slot)).filter_map(|(_, slot)| Some(slot.node?.0));
    let returning: LazyCell<BTreeSet<&NodeName>, _> = LazyCell::new(|| returning().collect());
    let returns = |name: &NodeName| returning.contains(name);
    let ours = |text: &str| !Mark::parse(text).is_foreign(view.fleet);
    // What has done its work keeps our marks: nobody reads them any more.
    let marked = |workload: &WorkloadSeen| {
        let mut marks = [SUSPENDED, ASKED].into_iter().filter_map(|key| workload.marks.get(key));
        !workload.finished && marks.any(|mark| ours(mark))
    };
    for (uid, workload) in view.input.observed.cluster.workloads.seen().iter().filter(|(_, one)| marked(one)) {
        let on = view.harm.quota_of(workload).map_or(Thing::Fleet, |quota| Thing::Quota(quota.clone()));
        let mut made = Steps::new(purpose(&on));
        let suspended = workload.marks.contains_key(SUSPENDED);
        // A workload that is asked, and whose nodes nobody empties any more, need not save its work.
        let asked = workload.marks.contains_key(ASKED)
            && workload.active
            && !view.harm.workload_nodes(uid, workload).iter().any(|node| cordoned(node) || returns(node))
            && !is_reclaimed(draft, &workload.name.to_string());
        if suspended {
            resume(&mut made, uid, workload);
        } else if asked {
            let action = Action::Cluster(ClusterAction::Resume { workload: uid.clone() });
            made.push(step_id("resume", &workload.name, 0), action, vec![], (1, 2));
        } else {
            continue;
        }
        let wanted = format!("let {} queue again", workload.name);
        let (nodes, has_deadline) = (Vec::new(), false);
        draft.courses.push(Course { on, nodes, wanted, reason: reason.clone(), has_deadline, steps: made.steps });
    }
    let in_slots = || view.slots().filter_map(|(_, slot)| slot.node).map(|(name, _)| name);
    let served: LazyCell<BTreeSet<&NodeName>, _> = LazyCell::new(|| in_slots().collect());
    // What is ended already is not opened for new work.
    let instances = view.input.observed.cloud.instances.seen();
    let ends = |node: &NodeSeen| {
        node.instance.as_ref().and_then(|id| instances.get(id)).is_some_and(|instance| !instance.state.serves())
    };
    // What a person said of a node holds whosever it is: also when its pool is forgotten, or lets it go.
    let left_over = |name: &NodeName, node: &NodeSeen| {
        node.annotation(CORDON).is_some_and(ours) && !served.contains(name) && !ends(node) && !is_kept(view, name)
    };
    for (name, node) in nodes.iter().filter(|(name, node)| left_over(name, node)) {
        let on = node
            .labels
            .get(crate::effect::marks::POOL)
            .map_or(Thing::Fleet, |pool| Thing::Pool(PoolName::from(pool.as_str())));
        let wanted = format!("put {name} back into service");
        if let Some(unanswered) = Unanswered::of(view.input, name, node) {
            let waiting_on = WaitingOn::Person(unanswered.words(name));
            draft.held.push(super::steps::held(&on, wanted, reason.clone(), waiting_on));
            continue;
        }
        let mut made = Steps::new(purpose(&on));
        let action = Action::Cluster(ClusterAction::Uncordon { node: name.clone() });
        // A read that is late shows a mark that was taken off: whoever let the node go has nothing more to do with it.
        made.push(step_id("uncordon", name, 0), action, vec![Fact::Cordoned(name.clone())], (1, 2));
        let nodes = vec![name.clone()];
        draft.courses.push(Course {
            on,
            nodes,
            wanted,
            reason: reason.clone(),
            has_deadline: false,
            steps: made.steps,
        });
    }
}

/// Whether a person keeps a node out of service. That is about the node, whosever it is: it stays closed when its pool lets it
/// go.
pub fn is_kept(view: &View<'_>, node: &NodeName) -> bool {
    let head = &view.input.ledger.head;
    head.quarantined.contains_key(node) || head.drains.contains_key(node)
}

/// A quarantine and a drain are about a machine: when that is gone for good, nobody is left to be kept out, or to be
/// returned.
pub fn orders(view: &View<'_>, draft: &mut Draft) {
    let head = &view.input.ledger.head;
    for (node, quarantine) in &head.quarantined {
        if is_gone(view, node, quarantine.at) {
            let change = LedgerChange::Return { node: node.clone(), at: None };
            forget(draft, "unquarantine", node, change, format!("forget the quarantine of {node}, which is gone"));
        }
    }
    for (node, order) in &head.drains {
        if is_gone(view, node, order.at) {
            let change = LedgerChange::Undrain { node: node.clone(), at: None };
            forget(draft, "undrain", node, change, format!("forget the drain of {node}, which is gone"));
        }
    }
    for (node, at) in &head.unwatched {
        let seen = view.input.observed.cluster.nodes.seen().get(node);
        let serves = seen.is_some_and(|seen| !seen.unschedulable && !is_starting(seen));
        let at = match serves {
            true => Some(view.now),
            false if is_gone(view, node, *at) => None,
            false => continue,
        };
        let wanted = match at {
            Some(_) => format!("remember that {node} serves again"),
            None => format!("forget {node}, which is gone"),
        };
        forget(draft, "watched", node, LedgerChange::Watched { node: node.clone(), at }, wanted);
    }
}

/// Canaries that are seen out of service: the next look may see them in it, and would take all of the time for watched.
pub fn unwatched(view: &View<'_>, nodes: &BTreeSet<NodeName>, draft: &mut Draft) {
    for node in nodes.iter().filter(|_| view.input.only_node.is_none()) {
        let change = LedgerChange::Unwatched { node: node.clone(), at: view.now };
        forget(draft, "unwatched", node, change, format!("remember that {node} is out of service"));
    }
}

/// Whether a node of which somebody said something at that time will not be seen again.
fn is_gone(view: &View<'_>, node: &NodeName, at: Timestamp) -> bool {
    let observed = &view.input.observed;
    let (Some(nodes), Some(_)) = (observed.cluster.nodes.whole(), observed.cloud.instances.whole()) else {
        return false;
    };
    // A machine that lives, or of which nobody knows, may register again under its name.
    let may_return = |slot: &SlotView<'_>| {
        let claimed = slot.record.and_then(|record| record.node.as_ref()) == Some(node);
        let launched = slot.record.and_then(|record| record.launched);
        let older = launched.is_some_and(|launched| launched <= at);
        let alive = !matches!(slot.body, Body::Dead | Body::Nothing);
        claimed || (slot.node.is_none() && older && alive)
    };
    !nodes.contains_key(node) && view.shrunk.is_none() && !view.slots().any(|(_, slot)| may_return(slot))
}

fn forget(draft: &mut Draft, verb: &str, node: &NodeName, change: LedgerChange, wanted: String) {
    let (on, reason) = (Thing::Fleet, Reason::Bookkeeping);
    let id = step_id(verb, node, 0);
    let one = super::steps::step(id.to_string(), &on, Action::Record(change), &reason);
    draft.courses.push(super::steps::course(&on, wanted, &reason, vec![one]));
}

/// Whether some course or something held is about this workload.
fn is_reclaimed(draft: &Draft, name: &str) -> bool {
    let asked = step_id("suspend", name, 0);
    draft.courses.iter().flat_map(|course| &course.steps).any(|step| step.id == asked)
        || draft.held.iter().any(|held| held.wanted.contains(name))
}

/// Pools whose document is gone, and pools that were renamed.
pub fn pools(view: &View<'_>, draft: &mut Draft) {
    let ledger = &view.input.ledger;
    let targets = &view.input.target.pools;
    for (name, known) in
        ledger.pools.iter().filter(|(name, known)| known.is_something() && !targets.contains_key(*name))
    {
        let instances = view.input.observed.cloud.instances.seen();
        let instance = |slot: &Slot| slot.instance.as_ref().and_then(|id| instances.get(id));
        let ends = |slot: &&Slot| instance(slot).is_some_and(|instance| !instance.state.serves());
        let (ending, held): (Vec<&Slot>, Vec<&Slot>) =
            known.slots.values().filter(|slot| slot.is_something()).partition(ends);
        let goes = match ending.len() {
            0 => String::new(),
            1 => "; 1 more is ending already".into(),
            many => format!("; {many} more are ending already"),
        };
        draft.released.push(Released {
            what: format!("pool/{name}"),
            stays: format!("{} nodes stay as they are, and go on costing what they cost{goes}", held.len()),
        });
        if is_on(Mistake::DeletedFileDrains) {
            drain_forgotten(draft, name, known);
            continue;
        }
        let wanted = format!("let pool/{name} go: its document is gone");
        if let Some(until) = answered_by(view, known) {
            let waiting_on = WaitingOn::until(until, "nobody knows yet what became of its last launch");
            let (what, reason, effects) = (thing(name), Reason::Bookkeeping, Default::default());
            draft.held.push(Held {
                what,
                wanted,
                reason,
                effects,
                disruption: Default::default(),
                waiting_on,
                done_by: None,
            });
            continue;
        }
        let change = LedgerChange::Forgotten { pool: name.clone() };
        bookkeeping(draft, name, "forget", change, wanted);
    }
    for (name, from) in &view.input.renamed {
        let wanted = format!("pool/{from} is now pool/{name}");
        if let Some(answer) = view.pools.get(name).and_then(|pool| pool.slots.iter().find_map(answer)) {
            let waiting_on = WaitingOn::Step(answer);
            draft.held.push(super::steps::held(&thing(name), wanted, Reason::Bookkeeping, waiting_on));
            continue;
        }
        let slots = view.pools.get(name).into_iter().flat_map(|pool| &pool.slots);
        if let Some(step) = slots.into_iter().find_map(|slot| finished_by(view, &slot.id)) {
            let waiting_on = WaitingOn::Step(step);
            draft.held.push(super::steps::held(&thing(name), wanted, Reason::Bookkeeping, waiting_on));
            continue;
        }
        let change = LedgerChange::Renamed { from: from.clone(), to: name.clone() };
        bookkeeping(draft, name, RENAME, change, wanted);
    }
}

/// The step that brings the answer to a slot's open request. It was made for the old name and is sent again under it,
/// so that it makes no second node: the new name waits for that.
fn answer(slot: &SlotView<'_>) -> Option<StepId> {
    let intent = slot.record?.intent.as_ref()?;
    Some(match slot.body {
        Body::Found(_) => step_id("adopt", &slot.id, slot.generation()),
        _ => step_id("launch", &slot.id, intent.request.generation),
    })
}

/// What a pool wants beside its new name waits until that is written down: our memory has its slots under the old one.
pub fn after_rename(view: &View<'_>, pool: &PoolName, courses: Vec<Course>, draft: &mut Draft) {
    let Some(from) = view.input.renamed.get(pool) else { return draft.courses.extend(courses) };
    let answers = |step: &Step| match &step.action {
        Action::Cloud(CloudAction::Launch(request)) => request.slot.pool == *from,
        Action::Record(LedgerChange::Launched { slot, .. }) => slot.pool == *from,
        _ => false,
    };
    for course in courses {
        if course.steps.iter().any(answers) {
            draft.courses.push(course);
        } else {
            draft.held.push(course.held(WaitingOn::Step(step_id(RENAME, pool, 0))));
        }
    }
}

/// When whatever a launch without an answer made will have shown itself, where that is still to come. Nobody sends it
/// again: that could make a node that no document wants.
fn answered_by(view: &View<'_>, known: &PoolLedger) -> Option<Timestamp> {
    let asked = known.slots.values().filter_map(|slot| slot.intent.as_ref());
    let until = asked.filter_map(|intent| intent.at.checked_add(LISTED_WITHIN).ok()).max();
    until.filter(|until| view.now < *until)
}

/// [`Mistake::DeletedFileDrains`].
fn drain_forgotten(draft: &mut Draft, pool: &PoolName, known: &PoolLedger) {
    for (index, slot) in &known.slots {
        let Some(instance) = slot.instance.clone() else { continue };
        let (on, reason, consent) = (thing(pool), Reason::NotWanted, Consent::Standing);
        let purpose = drain::Purpose {
            why: "keep",
            on: on.clone(),
            reason: reason.clone(),
            consent,
            pressure: Pressure::default(),
        };
        let (mut made, slot) = (Steps::new(purpose), SlotId::new(pool, *index));
        let id = step_id("terminate", &slot, 0);
        made.push(id, Action::Cloud(CloudAction::Terminate { slot, instance }), vec![], (1, 2));
        let wanted = format!("empty pool/{pool}");
        draft.courses.push(Course { on, nodes: Vec::new(), wanted, reason, has_deadline: false, steps: made.steps });
    }
}

fn bookkeeping(draft: &mut Draft, pool: &PoolName, verb: &str, change: LedgerChange, wanted: String) {
    let on = thing(pool);
    let reason = Reason::Bookkeeping;
    let consent = Consent::Standing;
    let purpose =
        drain::Purpose { why: "keep", on: on.clone(), reason: reason.clone(), consent, pressure: Pressure::default() };
    let mut made = Steps::new(purpose);
    made.push(step_id(verb, pool, 0), Action::Record(change), vec![], (1, 2));
    draft.courses.push(Course { on, nodes: Vec::new(), wanted, reason, has_deadline: false, steps: made.steps });
}

impl Plan {
    /// Whether a step is there only because a person took its node out of service, or wants it empty.
    pub fn follows_a_word(&self, step: &Step) -> bool {
        let asked = match &step.reason {
            Reason::For(other) => self.step(other).map(|other| &other.reason),
            reason => Some(reason),
        };
        matches!(asked, Some(Reason::Quarantined { .. } | Reason::Drained { .. }))
    }
}
