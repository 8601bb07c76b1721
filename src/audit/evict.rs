//! Who is sent away, and how: whole gangs, listed again, within their disruption budgets, only what was seen.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use super::case::Case;
use super::pods::is_exempt;
use crate::effect::marks::{ASKED, SUSPENDED};
use crate::effect::{Action, ClusterAction, Fact, Subject};
use crate::ids::{NamespacedName, NodeName, Uid};
use crate::observed::{BudgetSeen, PodPhase, PodSeen};
use crate::plan::Reason;

const GANGS: &str = "whole gangs or none";
const AGAIN: &str = "nodes are listed again before their work is disturbed";
const SEEN: &str = "only what was seen is evicted, each by its UID";
const BUDGETS: &str = "disruption budgets hold";
const SMALLER: &str = "only what may be smaller is made smaller";
const RESUME: &str = "only what we suspended is resumed, once it is gone";

/// If one pod of a gang is sent away, all are.
pub fn whole_gangs_or_none(case: &Case<'_>, found: &mut Found) {
    for (gang, pods) in case.pods.gangs() {
        let stays = |pod: &&&PodSeen| {
            let runs = pod.node.is_some() && pod.counts() && !is_exempt(pod);
            runs && !case.pods.is_leaving(pod) && case.pods.senders(pod).is_empty()
        };
        if let Some(stays) = pods.iter().find(stays) {
            let sender = pods.iter().find_map(|pod| case.pods.senders(pod).first());
            let step = sender.map(|at| &case.steps[*at].id);
            let what = format!("{} of gang {gang} stays while others of it go", stays.name);
            match step {
                Some(step) => found.step(GANGS, step, what),
                None => found.plan(GANGS, what),
            }
        }
    }
}

/// A Suspend or Evict requires `HoldsOnly` of every node that is being emptied of its pods, and of one at least.
pub fn listed_again(case: &Case<'_>, found: &mut Found) {
    for (at, step) in disturbing(case) {
        let nodes: BTreeSet<&NodeName> = case
            .pods
            .sent_by(at)
            .iter()
            .filter(|pod| pod.counts() && !case.pods.is_leaving(pod))
            .filter_map(|pod| pod.node.as_ref())
            .collect();
        if nodes.is_empty() || nodes.iter().all(|node| case.deadline_passed(at, node)) {
            continue;
        }
        // Quota that goes back empties no node: the work leaves as a whole, wherever it is.
        let is_quota = matches!(case.reason(at), Reason::Returning { .. })
            && matches!(step.action, Action::Cluster(ClusterAction::Suspend { .. }))
            && !nodes.iter().any(|node| case.is_cordoned(at, node));
        if is_quota {
            continue;
        }
        let listed: BTreeMap<&NodeName, &BTreeSet<Uid>> = step
            .requires
            .iter()
            .filter_map(|fact| match fact {
                Fact::HoldsOnly { node, pods } => Some((node, pods)),
                _ => None,
            })
            .collect();
        if !nodes.iter().any(|node| listed.contains_key(*node)) {
            found.step(AGAIN, &step.id, "it requires no fresh list of any node that its pods are on");
        }
        for node in nodes.iter().filter(|node| !listed.contains_key(**node) && case.is_cordoned(at, node)) {
            found.step(AGAIN, &step.id, format!("it requires no fresh list of {node}, which is being emptied"));
        }
        for (node, pods) in listed {
            let known: BTreeSet<&Uid> = case.pods.listed(node).iter().map(|pod| &pod.uid).collect();
            if let Some(uid) = pods.iter().find(|uid| !known.contains(uid)) {
                found.step(AGAIN, &step.id, format!("it expects {uid} on {node}, where it was not seen"));
            }
        }
    }
}

/// An eviction names pods that are there, leaves what belongs to the node, and forces only past a deadline.
pub fn only_what_was_seen(case: &Case<'_>, found: &mut Found) {
    for (at, name) in case.pods.unseen() {
        found.step(SEEN, &case.steps[*at].id, format!("{name} was not seen under this name and UID"));
    }
    let workloads = case.seen().cluster.workloads.seen();
    for (at, step) in disturbing(case) {
        match &step.action {
            Action::Cluster(ClusterAction::Suspend { workload, .. }) if !workloads.contains_key(workload) => {
                found.step(SEEN, &step.id, format!("workload {workload} was not seen"));
            }
            Action::Cluster(ClusterAction::Evict { force, .. }) => {
                for pod in case.pods.sent_by(at) {
                    if is_exempt(pod) {
                        found.step(SEEN, &step.id, format!("{} belongs to its node, and a drain leaves it", pod.name));
                    }
                    if *force && !may_be_forced(case, at, pod) {
                        let what = format!("{} is deleted by force, and no declared deadline has passed", pod.name);
                        found.step(SEEN, &step.id, what);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a deadline of its node has passed, or of the node of another of its gang: a gang goes as a whole.
pub fn may_be_forced(case: &Case<'_>, at: usize, pod: &PodSeen) -> bool {
    let is_up = |pod: &PodSeen, node: &NodeName| match (case.reason(at), case.slot_of_node(node)) {
        (Reason::Returning { tide, .. }, Some(slot)) => {
            let queue = case.pods.workload(pod).map(|workload| workload.queue.as_str());
            queue.is_some_and(|queue| case.borrowers_time_is_up(at, tide, &slot.pool, queue))
        }
        _ => false,
    };
    let passed =
        |pod: &PodSeen| pod.node.as_ref().is_some_and(|node| case.deadline_passed(at, node) || is_up(pod, node));
    let together = |other: &&&PodSeen| pod.gang.is_some() && other.gang == pod.gang;
    passed(pod) || case.pods.sent_by(at).iter().filter(together).any(|other| passed(other))
}

/// No pod that two budgets select, and of each budget no more than it allows now. Where the API server ignores a
/// budget, so does this.
pub fn disruption_budgets(case: &Case<'_>, found: &mut Found) {
    let budgets = case.seen().cluster.budgets.seen();
    let mut going: BTreeMap<&NamespacedName, BTreeSet<&Uid>> = BTreeMap::new();
    for (at, step) in case.each() {
        let Action::Cluster(ClusterAction::Evict { force: false, .. }) = &step.action else { continue };
        for pod in case.pods.sent_by(at) {
            if pod.phase != PodPhase::Running || pod.terminating.is_some() {
                continue;
            }
            if pod.budgets.len() > 1 {
                found.step(BUDGETS, &step.id, format!("{} disruption budgets select {}", pod.budgets.len(), pod.name));
            }
            for name in &pod.budgets {
                let spare = |seen: &BudgetSeen| seen.always_allow || (seen.healthy >= seen.desired && seen.desired > 0);
                let spare = budgets.get(name).is_some_and(spare);
                if pod.ready || !spare {
                    going.entry(name).or_default().insert(&pod.uid);
                }
            }
        }
    }
    for (name, pods) in going {
        let allowed = budgets.get(name).map_or(0, |seen| usize::try_from(seen.allowed).unwrap_or(0));
        if pods.len() > allowed {
            found.plan(BUDGETS, format!("{name} allows {allowed} evictions now, and {} are planned", pods.len()));
        }
    }
}

/// A workload is resumed only if it carries our mark (it was suspended, or only asked to save its work), or if a step
/// before suspended it; then its pods must be gone, because one that is activated before it let go of its quota simply
/// runs on.
pub fn resume_only_ours(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let Action::Cluster(ClusterAction::Resume { workload }) = &step.action else { continue };
        let subject = Subject::Workload(workload.clone());
        let seen = case.seen().cluster.workloads.seen().get(workload);
        let suspends = |action: &Action| matches!(action, Action::Cluster(ClusterAction::Suspend { .. }));
        let here = case.done_before(at, &subject, suspends);
        if here.is_empty()
            && !seen.is_some_and(|seen| [ASKED, SUSPENDED].iter().any(|mark| seen.marks.contains_key(*mark)))
        {
            found.step(RESUME, &step.id, format!("workload {workload} does not carry our mark"));
        }
        let released = |fact: &Fact| matches!(fact, Fact::Released(uid) if uid == workload);
        if case.on(&subject).iter().any(|other| suspends(&case.steps[*other].action))
            && (here.is_empty() || !case.assured(at, &subject, released))
        {
            found.step(RESUME, &step.id, format!("workload {workload} is suspended by this plan and not seen gone"));
        }
    }
}

/// Only work that says that it may be smaller is made so, never below what it goes on with, and only where quota is
/// asked back: nobody knows which pods of it go, so no node is emptied that way.
pub fn shrinks_what_may_be_smaller(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let Action::Cluster(ClusterAction::Shrink { workload, pods }) = &step.action else { continue };
        let seen = case.seen().cluster.workloads.seen().get(workload);
        match seen.and_then(|seen| Some((seen, seen.fewest?))) {
            None => {
                found.step(SMALLER, &step.id, format!("workload {workload} goes on with all its pods or not at all"))
            }
            Some((_, fewest)) if *pods < fewest.max(1) => {
                found.step(
                    SMALLER,
                    &step.id,
                    format!("workload {workload} needs {fewest} pods, and {pods} are left to it"),
                );
            }
            Some((seen, _)) if *pods >= seen.pods => {
                found.step(
                    SMALLER,
                    &step.id,
                    format!("workload {workload} has {} pods: {pods} are not fewer", seen.pods),
                );
            }
            Some(_) if !matches!(case.reason(at), Reason::Returning { .. }) => {
                found.step(SMALLER, &step.id, format!("workload {workload} is made smaller, and no tide asks for it"));
            }
            Some(_) => {}
        }
    }
}

/// The steps that disturb work.
pub fn disturbing<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (usize, &'a crate::plan::Step)> + use<'c, 'a> {
    case.each().filter(|(_, step)| {
        matches!(step.action, Action::Cluster(ClusterAction::Suspend { .. } | ClusterAction::Evict { .. }))
    })
}
