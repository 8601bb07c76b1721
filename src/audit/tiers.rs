//! Whose work may be disturbed, and when: tides take the borrower's, and nobody is cut short of what its tier promises.

use std::collections::BTreeSet;

use super::Found;
use super::case::Case;
use super::evict::{disturbing, may_be_forced};
use crate::effect::marks::{ASKED, Mark};
use crate::effect::{Action, ClusterAction, Fact, Subject};
use crate::fleet::standing::{LoanSpec, TierSpec};
use crate::fleet::tide::Phase;
use crate::fleet::tier::Signal;
use crate::ids::{NodeName, PoolName, QuotaName, TideName, WorkloadUid};
use crate::observed::{GangName, PodSeen, WorkloadSeen};
use crate::plan::Reason;

const TIDE: &str = "a tide takes only the work of those who gave or got its nodes";
const RUNTIME: &str = "work runs as long as its tier promises";
const SAVE: &str = "work is asked to save itself before it goes";

/// Coming back, a tide sends away the borrower's work; the lender's own only where the node is cut anew. Going out, it
/// sends away the lender's.
pub fn tide_takes_the_borrowers_work(case: &Case<'_>, found: &mut Found) {
    for (at, step) in disturbing(case) {
        let (tide, lends) = match case.reason(at) {
            Reason::Returning { tide, .. } => (tide, false),
            Reason::Lent { tide, .. } => (tide, true),
            _ => continue,
        };
        for pod in case.pods.sent_by(at) {
            let (Some(workload), Some(node)) = (case.pods.workload(pod), &pod.node) else { continue };
            let pool = case.slot_of_node(node).map(|slot| &slot.pool);
            let with_lender = lends || is_cut(case, node);
            let loans = loans(case, tide, pool);
            let queues: BTreeSet<&str> = loans
                .iter()
                .flat_map(|loan| [Some(loan.queue.as_str()), with_lender.then(|| queue(case, &loan.from)).flatten()])
                .flatten()
                .collect();
            if !queues.contains(workload.queue.as_str()) {
                let what =
                    format!("{} is of queue {}, which tide {tide} may not disturb", workload.name, workload.queue);
                found.step(TIDE, &step.id, what);
                break;
            }
        }
    }
}

fn loans<'a>(case: &Case<'a>, tide: &TideName, pool: Option<&PoolName>) -> Vec<&'a LoanSpec> {
    let loans = case.standing().tides.get(tide).map_or(&[][..], |tide| tide.loans.as_slice());
    // A borrower's gang may also stand on nodes that are not lent: it goes as a whole.
    let of_pool = loans.iter().filter(|loan| Some(&loan.pool) == pool).collect::<Vec<_>>();
    if of_pool.is_empty() { loans.iter().collect() } else { of_pool }
}

fn queue<'a>(case: &Case<'a>, quota: &QuotaName) -> Option<&'a str> {
    case.standing().quotas.get(quota).map(|quota| quota.cluster_queue.as_str())
}

fn is_cut(case: &Case<'_>, node: &NodeName) -> bool {
    let steps = case.on(&Subject::Node(node.clone()));
    steps.iter().any(|at| matches!(case.steps[*at].action, Action::Cluster(ClusterAction::Cut { .. })))
}

/// Kept in everything that happens by choice; a hard deadline and a sick node come first.
pub fn minimum_runtime(case: &Case<'_>, found: &mut Found) {
    each_by_choice(case, |at, _, workload, tier| {
        let ran_since = workload.reserved?;
        let until = ran_since.checked_add(tier.minimum_runtime.signed()).ok()?;
        if !case.has_come(at, until) {
            let what = format!("{} is promised to run until {until}", workload.name);
            found.step(RUNTIME, &case.steps[at].id, what);
        }
        None
    });
}

/// Where the tier says how work saves itself, it was asked, and has answered or had its time.
pub fn asked_to_save(case: &Case<'_>, found: &mut Found) {
    each_by_choice(case, |at, uid, workload, tier| {
        let checkpoint = tier.checkpoint.as_ref().filter(|checkpoint| checkpoint.signal == Signal::Annotation)?;
        workload.reserved?;
        let saved = |fact: &Fact| matches!(fact, Fact::Saved { workload, .. } if workload == uid);
        let mark = workload.marks.get(ASKED).map(|text| Mark::parse(text));
        let answered = mark.is_some_and(|mark| {
            let until = mark.since.checked_add(checkpoint.deadline.signed()).unwrap_or(mark.since);
            workload.saved.is_some_and(|saved| saved >= mark.since) || case.now() >= until
        });
        if !answered && !case.assured(at, &Subject::Workload(uid.clone()), saved) {
            found.step(SAVE, &case.steps[at].id, format!("{} was not asked, or did not answer", workload.name));
        }
        None
    });
}

/// The same of gangs that no queue admitted: their pods have the priority of a tier.
pub fn pods_asked_to_save(case: &Case<'_>, found: &mut Found) {
    for (at, step) in disturbing(case) {
        if !is_choice(case.reason(at)) || !matches!(step.action, Action::Cluster(ClusterAction::Evict { .. })) {
            continue;
        }
        let mut judged: BTreeSet<&GangName> = BTreeSet::new();
        let runs = |pod: &&&PodSeen| pod.counts() && !case.pods.is_leaving(pod) && pod.workload.is_none();
        for pod in case.pods.sent_by(at).iter().filter(runs) {
            let Some(gang) = &pod.gang else { continue };
            let tier = case.standing().tiers.values().find(|tier| tier.rank == pod.priority);
            let saves = tier.and_then(|tier| tier.checkpoint.as_ref());
            let Some(node) = pod.node.as_ref().filter(|_| saves.is_some_and(|one| one.signal == Signal::Annotation))
            else {
                continue;
            };
            let saved = |fact: &Fact| matches!(fact, Fact::PodsSaved { gang: saved, .. } if saved == gang);
            if judged.insert(gang)
                && !may_be_forced(case, at, pod)
                && !is_over(case, case.reason(at))
                && !case.assured(at, &Subject::Node(node.clone()), saved)
            {
                found.step(SAVE, &case.steps[at].id, format!("{gang} was not asked, or did not answer"));
            }
        }
    }
}

/// Every workload with a tier that a step disturbs by choice, once a step.
fn each_by_choice(case: &Case<'_>, mut judge: impl FnMut(usize, &WorkloadUid, &WorkloadSeen, &TierSpec) -> Option<()>) {
    for (at, _) in disturbing(case) {
        if !is_choice(case.reason(at)) {
            continue;
        }
        let mut judged: BTreeSet<&WorkloadUid> = BTreeSet::new();
        let runs = |pod: &&&PodSeen| pod.counts() && !case.pods.is_leaving(pod);
        for pod in case.pods.sent_by(at).iter().filter(runs) {
            let (Some(uid), Some(workload)) = (&pod.workload, case.pods.workload(pod)) else { continue };
            if let Some(tier) = workload.tier.as_ref().and_then(|tier| case.standing().tiers.get(tier))
                && judged.insert(uid)
                && !may_be_forced(case, at, pod)
                && !is_over(case, case.reason(at))
            {
                judge(at, uid, workload, tier);
            }
        }
    }
}

/// Whether a tide has turned already: its hard time came before that, so whatever it still has to give back is late.
fn is_over(case: &Case<'_>, reason: &Reason) -> bool {
    let phase = |tide: &TideName| case.input.target.tides.get(tide);
    matches!(reason, Reason::Returning { tide, .. } if phase(tide) == Some(&Phase::High))
}

/// Whether somebody here decided it, and could decide it later.
fn is_choice(reason: &Reason) -> bool {
    !matches!(
        reason,
        Reason::Sick { .. } | Reason::Quarantined { .. } | Reason::Notice { .. } | Reason::CapacityEnds { .. }
    )
}
