//! Victims in classical mode, and what both modes share.
//!
//! Candidates are other queues' workloads where the other queue, and every cohort between it and the common one, is
//! above its quota, and the own queue's workloads if the policy allows. They are taken away in order until the
//! preemptor fits, then put back one by one from the last but one to the first where it still fits. The set is
//! minimal in that sense only: a large gang goes rather than two small ones of lower priority that are not enough.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::PreemptReason;
use super::fair;
use super::model::Model;
use super::state::{FlavorName, Mode, Reclaim, WithinQueue};
use super::tree::{Amounts, Kind};

/// A workload that looks for room.
#[derive(Debug)]
pub struct Seeker<'a> {
    pub job: usize,
    pub queue: usize,
    /// All it asks for.
    pub requests: &'a Amounts,
    /// The kinds that are short.
    pub short: &'a [Kind],
    /// The flavor on whose nodes it must find a place too.
    pub place_on: Option<&'a FlavorName>,
}

pub type Victims = Vec<(usize, PreemptReason)>;

/// Who must go so that the seeker fits; nobody if that cannot be. The model is as before.
pub fn victims(model: &mut Model<'_>, seeker: &Seeker<'_>) -> Victims {
    match model.mode {
        Mode::Classical => classical(model, seeker),
        Mode::FairSharing { strategies } => fair::victims(model, seeker, strategies),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Claim {
    /// The quota is nearer to the preemptor than to the candidate.
    Nearer,
    /// Only if the preemptor ends up within its nominal quota.
    WithoutBorrowing,
    /// Also if it ends up borrowing: `borrowWithinCohort`.
    WhileBorrowing,
    OwnQueue,
}

struct Candidate {
    job: usize,
    /// The lowest cohort above both queues.
    common: usize,
    claim: Claim,
}

fn classical(model: &mut Model<'_>, seeker: &Seeker<'_>) -> Victims {
    let mut candidates = own_queue(model, seeker);
    let (nearer, others) = reclaimable(model, seeker);
    let (any_nearer, any_other) = (!nearer.is_empty(), !others.is_empty());
    candidates.extend(nearer);
    candidates.extend(others);
    // Other queues before the own one, and among them those with the weaker claim on the quota first.
    let class = |claim| match claim {
        Claim::Nearer => 0,
        Claim::WithoutBorrowing | Claim::WhileBorrowing => 1,
        Claim::OwnQueue => 2,
    };
    candidates.sort_by_cached_key(|one| {
        let (evicted, _, rest) = rank(model, one.job, seeker.queue);
        (evicted, class(one.claim), rest)
    });

    let own = &model.queues[seeker.queue].spec.preemption;
    let stays_home = own.borrow_within_cohort.is_none();
    let under_nominal = seeker.short.iter().all(|&kind| {
        let cell = model.tree.cell(seeker.queue, kind);
        cell.usage < cell.nominal
    });
    let attempts: &[bool] = if !(any_nearer || any_other) || (stays_home && !under_nominal) {
        &[true]
    } else if stays_home && !any_nearer {
        &[false, true]
    } else {
        &[true, false]
    };
    for &borrowing in attempts {
        let mut gone: Victims = Vec::new();
        let mut fitting = false;
        for candidate in &candidates {
            if !still_counts(model, seeker, candidate, borrowing) {
                continue;
            }
            model.take_away(candidate.job);
            gone.push((candidate.job, reason(candidate.claim)));
            if fits(model, seeker, borrowing) {
                fitting = true;
                break;
            }
        }
        if fitting {
            return fill_back(model, seeker, gone, borrowing);
        }
        gone.iter().for_each(|&(job, _)| model.put_back(job));
    }
    Vec::new()
}

const fn reason(claim: Claim) -> PreemptReason {
    match claim {
        Claim::Nearer | Claim::WithoutBorrowing => PreemptReason::InCohortReclamation,
        Claim::WhileBorrowing => PreemptReason::InCohortReclaimWhileBorrowing,
        Claim::OwnQueue => PreemptReason::InClusterQueue,
    }
}

/// Puts victims back that need not go, and the others too: the answer is who goes.
pub fn fill_back(model: &mut Model<'_>, seeker: &Seeker<'_>, mut gone: Victims, borrowing: bool) -> Victims {
    for at in (0..gone.len().saturating_sub(1)).rev() {
        model.put_back(gone[at].0);
        if fits(model, seeker, borrowing) {
            gone.remove(at);
        } else {
            model.take_away(gone[at].0);
        }
    }
    gone.iter().for_each(|&(job, _)| model.put_back(job));
    gone
}

pub fn fits(model: &Model<'_>, seeker: &Seeker<'_>, borrowing: bool) -> bool {
    let quota = seeker.requests.iter().all(|&(kind, amount)| {
        (borrowing || !model.tree.borrows_with(seeker.queue, kind, amount))
            && amount <= model.tree.available(seeker.queue, kind)
    });
    let placed = |flavor| model.nodes.place(flavor, model.jobs[seeker.job].spec, false).is_some();
    quota && seeker.place_on.is_none_or(placed)
}

/// The order of victims: already evicted, other queues, lower priority, reserved last, smaller UID.
pub fn rank(model: &Model<'_>, job: usize, home: usize) -> (bool, bool, (i32, Reverse<Timestamp>, usize)) {
    let one = &model.jobs[job];
    let since = one.held.as_ref().map_or(Timestamp::MAX, |held| held.since);
    (!model.is_evicted(job), one.queue == Some(home), (one.spec.priority, Reverse(since), job))
}

/// Whether the seeker's own queue lets it preempt this workload of the same queue.
pub fn within_queue_allows(model: &Model<'_>, seeker: &Seeker<'_>, job: usize) -> bool {
    let (mine, its) = (model.jobs[seeker.job].spec, model.jobs[job].spec);
    let allowed = match model.queues[seeker.queue].spec.preemption.within_queue {
        WithinQueue::Never => false,
        WithinQueue::LowerPriority => its.priority < mine.priority,
        WithinQueue::LowerOrNewerEqualPriority => {
            its.priority < mine.priority || (its.priority == mine.priority && mine.created < its.created)
        }
    };
    allowed && uses(model, seeker, job)
}

/// Whether the seeker may reclaim from this workload of another queue.
pub fn reclaim_allows(model: &Model<'_>, seeker: &Seeker<'_>, job: usize) -> bool {
    let allowed = match model.queues[seeker.queue].spec.preemption.reclaim {
        Reclaim::Never => false,
        Reclaim::LowerPriority => model.jobs[job].spec.priority < model.jobs[seeker.job].spec.priority,
        Reclaim::Any => true,
    };
    allowed && uses(model, seeker, job)
}

fn uses(model: &Model<'_>, seeker: &Seeker<'_>, job: usize) -> bool {
    let held = model.jobs[job].held.as_ref();
    held.is_some_and(|held| held.amounts.iter().any(|(kind, _)| seeker.short.contains(kind)))
}

fn own_queue(model: &Model<'_>, seeker: &Seeker<'_>) -> Vec<Candidate> {
    let holding = model.queues[seeker.queue].holding.iter().copied();
    let allowed = holding.filter(|&job| within_queue_allows(model, seeker, job));
    allowed.map(|job| Candidate { job, common: seeker.queue, claim: Claim::OwnQueue }).collect()
}

/// Candidates of other queues, from the nearest cohort to the root. As soon as the request fits in the quota of the
/// queue or of a cohort on the way up, everything further out has the weaker claim.
fn reclaimable(model: &Model<'_>, seeker: &Seeker<'_>) -> (Vec<Candidate>, Vec<Candidate>) {
    let (mut nearer, mut others) = (Vec::new(), Vec::new());
    if model.queues[seeker.queue].spec.preemption.reclaim == Reclaim::Never {
        return (nearer, others);
    }
    let (mut advantage, mut rest) = model.tree.fits_in_quota(seeker.queue, seeker.requests);
    let mut done = None;
    for cohort in model.tree.ancestors(seeker.queue) {
        let mut found = Vec::new();
        over_quota(model, seeker, cohort, done, &mut found);
        for job in found {
            if advantage {
                nearer.push(Candidate { job, common: cohort, claim: Claim::Nearer });
            } else {
                others.push(Candidate { job, common: cohort, claim: by_priority(model, seeker, job) });
            }
        }
        let (fits, left) = model.tree.fits_in_quota(cohort, &rest);
        (advantage, rest, done) = (advantage || fits, left, Some(cohort));
    }
    (nearer, others)
}

fn by_priority(model: &Model<'_>, seeker: &Seeker<'_>, job: usize) -> Claim {
    let (mine, its) = (model.jobs[seeker.job].spec.priority, model.jobs[job].spec.priority);
    match model.queues[seeker.queue].spec.preemption.borrow_within_cohort {
        Some(policy) if its < mine && policy.max_priority.is_none_or(|most| its <= most) => Claim::WhileBorrowing,
        _ => Claim::WithoutBorrowing,
    }
}

/// Workloads below `cohort` in queues above their quota, leaving out cohorts within theirs and the one already seen.
fn over_quota(model: &Model<'_>, seeker: &Seeker<'_>, cohort: usize, done: Option<usize>, found: &mut Vec<usize>) {
    let node = &model.tree.nodes[cohort];
    for &child in &node.child_cohorts {
        if Some(child) != done && !model.tree.is_within_nominal(child, seeker.short) {
            over_quota(model, seeker, child, done, found);
        }
    }
    for &queue in &node.child_queues {
        if queue != seeker.queue && !model.tree.is_within_nominal(queue, seeker.short) {
            let holding = model.queues[queue].holding.iter().copied();
            found.extend(holding.filter(|&job| reclaim_allows(model, seeker, job)));
        }
    }
}

/// Victims taken before may have brought a queue or a cohort back within its quota; it gives nothing more then.
fn still_counts(model: &Model<'_>, seeker: &Seeker<'_>, candidate: &Candidate, borrowing: bool) -> bool {
    if candidate.claim == Claim::OwnQueue {
        return true;
    }
    if borrowing && candidate.claim == Claim::WithoutBorrowing {
        return false;
    }
    let Some(queue) = model.jobs[candidate.job].queue else { return false };
    let between = model.tree.ancestors(queue).take_while(|&cohort| cohort != candidate.common);
    std::iter::once(queue).chain(between).all(|node| !model.tree.is_within_nominal(node, seeker.short))
}
