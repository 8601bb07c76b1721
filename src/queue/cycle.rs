//! Scheduling cycles: one head of every queue is tried against the same state, then they are admitted in order.
//!
//! 1. Every queue with waiting workloads sends its head: by priority, then age, then UID. A head whose victims are
//!    still leaving stays the head.
//! 2. For each, flavors, place and victims are found on the state at the start of the cycle.
//! 3. In order (those within quota first) each is admitted or preempts, if it still fits after those before it and
//!    wants none of their victims. One that finds no victims reserves its quota for the cycle if its queue cannot
//!    always reclaim it.
//! 4. What could not be admitted is parked until something is freed in its cohort; a strict queue keeps its head.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::assign::{Nomination, Verdict, nominate};
use super::fair::{Standing, champion, standing};
use super::model::Model;
use super::state::{Assignment, Mode, QueueingStrategy, Reclaim, WorkloadUid};
use super::topology::Placement;
use super::tree::Amounts;
use super::{Decision, WaitReason};

/// A place in a queue.
type Place = (Reverse<i32>, Timestamp, usize);

/// Who waits where, while cycles run.
#[derive(Debug)]
pub struct Pass {
    lines: Vec<Line>,
    /// Queues with waiting workloads.
    live: BTreeSet<usize>,
    reasons: BTreeMap<usize, WaitReason>,
    strikes: BTreeMap<(usize, usize), usize>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: BTreeSet<Place>,
    parked: BTreeSet<Place>,
    /// The head whose victims are leaving; others that wake up do not get before it.
    preemptor: Option<usize>,
}

/// What became of a head in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Admitted,
    /// Its victims are told; whether any was told just now.
    Preempting(bool),
    /// Somebody before it in the cycle took its room or its victims.
    Skipped,
    NotNow(WaitReason),
    GoesRound,
}

impl Pass {
    pub fn new(model: &Model<'_>, parked: &BTreeMap<WorkloadUid, WaitReason>) -> Self {
        let lines = model.queues.iter().map(|_| Line::default()).collect();
        let mut pass = Self { lines, live: BTreeSet::new(), reasons: BTreeMap::new(), strikes: BTreeMap::new() };
        for job in 0..model.jobs.len() {
            pass.enter(model, job, parked.get(model.jobs[job].uid).copied());
        }
        pass
    }

    fn enter(&mut self, model: &Model<'_>, job: usize, parked: Option<WaitReason>) {
        let one = &model.jobs[job];
        let Some(queue) = one.queue.filter(|&queue| model.queues[queue].takes_part) else { return };
        if one.held.is_some() || !one.spec.active {
            return;
        }
        let line = &mut self.lines[queue];
        let parked = parked.filter(|_| model.queues[queue].spec.strategy == QueueingStrategy::BestEffortFifo);
        if let Some(reason) = parked {
            line.parked.insert(place(model, job));
            self.reasons.insert(job, reason);
        } else {
            line.waiting.insert(place(model, job));
            self.live.insert(queue);
        }
    }

    /// Victims have gone: they queue again, and everybody in their cohorts is looked at again.
    pub fn wake(&mut self, model: &Model<'_>, released: &[usize]) {
        let root = |queue: usize| model.tree.nodes[queue].root;
        let roots: BTreeSet<usize> = released.iter().filter_map(|&job| model.jobs[job].queue).map(root).collect();
        for (queue, line) in self.lines.iter_mut().enumerate() {
            if roots.contains(&root(queue)) {
                line.waiting.append(&mut line.parked);
                if !line.waiting.is_empty() {
                    self.live.insert(queue);
                }
            }
        }
        released.iter().for_each(|&job| self.enter(model, job, None));
    }

    /// Cycles until one changes nothing. Each of the others admits, parks, or tells a victim, and none of these is
    /// undone here; or it drops a head that was kept for its victims, and then the first in line stays head.
    pub fn run(&mut self, model: &mut Model<'_>, strikes: usize, decisions: &mut Vec<Decision>) {
        while self.cycle(model, strikes, decisions) {}
    }

    fn cycle(&mut self, model: &mut Model<'_>, strikes: usize, decisions: &mut Vec<Decision>) -> bool {
        let heads: Vec<(usize, usize)> =
            self.live.iter().filter_map(|&queue| Some((queue, self.head(queue)?))).collect();
        let nominations = heads.into_iter().map(|(queue, job)| nominate(model, job, queue)).collect();
        let mut changed = false;
        let mut cycle = Cycle { told: BTreeSet::new(), lent: Vec::new() };
        let mut order = Order::new(model, nominations);
        while let Some(one) = order.next(model) {
            let outcome = cycle.process(model, &mut self.strikes, strikes, &one, decisions);
            changed |= self.settle_head(model, &one, outcome);
        }
        for (queue, amounts, job, placement) in cycle.lent {
            model.tree.remove(queue, &amounts);
            model.nodes.remove(model.jobs[job].spec, &placement);
        }
        changed
    }

    fn head(&self, queue: usize) -> Option<usize> {
        let line = &self.lines[queue];
        line.preemptor.or_else(|| line.waiting.first().map(|&(.., job)| job))
    }

    fn is_behind(&self, model: &Model<'_>, queue: usize, job: usize) -> bool {
        self.lines[queue].waiting.contains(&place(model, job)) && self.head(queue) != Some(job)
    }

    /// Puts a head back where it belongs; the answer is whether anything changed.
    fn settle_head(&mut self, model: &Model<'_>, one: &Nomination, outcome: Outcome) -> bool {
        let strict = model.queues[one.queue].spec.strategy == QueueingStrategy::StrictFifo;
        let place = place(model, one.job);
        let line = &mut self.lines[one.queue];
        let was_kept = line.preemptor == Some(one.job);
        line.preemptor = None;
        let reason = match outcome {
            Outcome::Admitted => None,
            Outcome::Preempting(_) => Some(WaitReason::PendingPreemption),
            Outcome::Skipped => Some(WaitReason::QuotaInUse),
            Outcome::NotNow(reason) => Some(reason),
            Outcome::GoesRound => Some(WaitReason::Unsettled),
        };
        match reason {
            Some(reason) => self.reasons.insert(one.job, reason),
            None => self.reasons.remove(&one.job),
        };
        let moved = match outcome {
            Outcome::Admitted | Outcome::GoesRound => line.waiting.remove(&place),
            Outcome::NotNow(_) if !strict => line.waiting.remove(&place) && line.parked.insert(place),
            Outcome::Preempting(new) => {
                line.preemptor = Some(one.job).filter(|_| !strict);
                new
            }
            Outcome::Skipped | Outcome::NotNow(_) => was_kept && line.waiting.first() != Some(&place),
        };
        if line.waiting.is_empty() {
            self.live.remove(&one.queue);
        }
        moved
    }

    /// Everybody who waits, by UID, and why.
    pub fn waits(&self, model: &Model<'_>, decisions: &mut Vec<Decision>) {
        for (job, one) in model.jobs.iter().enumerate() {
            if one.held.is_some() {
                continue;
            }
            let parked = one.queue.is_some_and(|queue| self.lines[queue].parked.contains(&place(model, job)));
            let reason = match one.queue {
                _ if !one.spec.active => WaitReason::Inactive,
                None => WaitReason::NoSuchQueue,
                Some(queue) if !model.queues[queue].takes_part => WaitReason::QueueStopped,
                // What is known of one that was the head before is out of date.
                Some(queue) if self.is_behind(model, queue, job) => WaitReason::BehindHead,
                Some(_) => self.reasons.get(&job).copied().unwrap_or(WaitReason::BehindHead),
            };
            decisions.push(Decision::Wait { workload: one.uid.clone(), reason, parked });
        }
    }
}

fn place(model: &Model<'_>, job: usize) -> Place {
    (Reverse(model.jobs[job].spec.priority), model.jobs[job].spec.created, job)
}

struct Cycle {
    /// Victims of heads that went before.
    told: BTreeSet<usize>,
    /// Usage that counts for this cycle only.
    lent: Vec<Lent>,
}

/// What a job of a queue takes for a cycle, and on which nodes.
type Lent = (usize, Amounts, usize, Placement);

impl Cycle {
    fn process(
        &mut self,
        model: &mut Model<'_>,
        strikes: &mut BTreeMap<(usize, usize), usize>,
        most: usize,
        one: &Nomination,
        decisions: &mut Vec<Decision>,
    ) -> Outcome {
        let short = match one.verdict {
            Verdict::NoFit(reason) => return Outcome::NotNow(reason),
            Verdict::Preempt(reason) => Some(reason),
            Verdict::Fit => None,
        };
        if let Some(reason) = short.filter(|_| one.victims.is_empty()) {
            if model.queues[one.queue].spec.preemption.reclaim != Reclaim::Any {
                self.reserve(model, one, reserved(model, one));
            }
            return Outcome::NotNow(reason);
        }
        if one.victims.iter().any(|(job, _)| self.told.contains(job)) || !self.still_fits(model, one) {
            return Outcome::Skipped;
        }
        if short.is_none() {
            decisions
                .push(Decision::Admit { workload: model.jobs[one.job].uid.clone(), assignment: assigned(model, one) });
            let placement = one.placement.as_ref().map_or_else(Vec::new, |(_, placement)| placement.clone());
            model.admit(one.job, one.amounts.clone(), placement);
            return Outcome::Admitted;
        }
        let fresh: Vec<_> = one.victims.iter().filter(|(job, _)| !model.is_evicted(*job)).collect();
        if fresh.iter().any(|(job, _)| strikes.get(&(one.job, *job)).is_some_and(|count| *count >= most)) {
            return Outcome::GoesRound;
        }
        for &&(job, reason) in &fresh {
            *strikes.entry((one.job, job)).or_default() += 1;
            let (victim, by) = (model.jobs[job].uid.clone(), model.jobs[one.job].uid.clone());
            decisions.push(Decision::Preempt { victim, by, reason });
            if let Some(held) = &mut model.jobs[job].held {
                held.evicted = true;
            }
        }
        self.told.extend(one.victims.iter().map(|(job, _)| *job));
        self.reserve(model, one, one.amounts.clone());
        Outcome::Preempting(!fresh.is_empty())
    }

    fn reserve(&mut self, model: &mut Model<'_>, one: &Nomination, amounts: Amounts) {
        let placement = one.placement.as_ref().map_or_else(Vec::new, |(_, placement)| placement.clone());
        model.tree.add(one.queue, &amounts);
        model.nodes.add(model.jobs[one.job].spec, &placement);
        self.lent.push((one.queue, amounts, one.job, placement));
    }

    fn still_fits(&self, model: &mut Model<'_>, one: &Nomination) -> bool {
        let leaving: Vec<usize> = self.told.iter().copied().chain(one.victims.iter().map(|(job, _)| *job)).collect();
        leaving.iter().for_each(|&job| model.take_away(job));
        let quota = one.amounts.iter().all(|&(kind, amount)| amount <= model.tree.available(one.queue, kind));
        let spec = model.jobs[one.job].spec;
        let placed = |(flavor, placement): &(_, Vec<_>)| model.nodes.has_room(flavor, spec, placement);
        let fits = quota && one.placement.as_ref().is_none_or(placed);
        leaving.iter().for_each(|&job| model.put_back(job));
        fits
    }
}

/// What a head without victims keeps others from taking in this cycle: up to its borrowing limit, or up to its
/// nominal quota if it need not borrow.
fn reserved(model: &Model<'_>, one: &Nomination) -> Amounts {
    let up_to = |&(kind, amount): &(usize, i64)| {
        let cell = model.tree.cell(one.queue, kind);
        let most = match (one.reach > 0, cell.borrowing_limit) {
            (true, None) => amount,
            (true, Some(limit)) => cell.nominal + limit - cell.usage,
            (false, _) => cell.nominal - cell.usage,
        };
        (kind, amount.min(most).max(0))
    };
    one.amounts.iter().map(up_to).collect()
}

fn assigned(model: &Model<'_>, one: &Nomination) -> Assignment {
    let flavors = one.amounts.iter().map(|&(kind, _)| {
        let (flavor, resource) = &model.tree.kinds[kind];
        (resource.clone(), flavor.clone())
    });
    let placement = one.placement.iter().flat_map(|(_, placement)| placement);
    let nodes = placement.map(|&(node, pods)| (model.nodes.names[node].clone(), pods));
    Assignment { flavors: flavors.collect(), nodes: nodes.collect() }
}

/// Heads in the order in which they are processed.
enum Order {
    /// Sorted, the next one last.
    Classical(Vec<Nomination>),
    /// Shares change as heads are processed, so the next one is found each time, root by root. The second part is
    /// the branch below the root that the one before came from.
    Fair(BTreeMap<usize, Vec<(Nomination, Standing)>>, Option<usize>),
}

impl Order {
    fn new(model: &mut Model<'_>, mut nominations: Vec<Nomination>) -> Self {
        if *model.mode == Mode::Classical {
            nominations.sort_by_key(|one| Reverse((one.reach, place(model, one.job))));
            return Self::Classical(nominations);
        }
        let mut by_root: BTreeMap<usize, Vec<(Nomination, Standing)>> = BTreeMap::new();
        for one in nominations {
            let standing = standing(model, &one);
            by_root.entry(model.tree.nodes[one.queue].root).or_default().push((one, standing));
        }
        Self::Fair(by_root, None)
    }

    fn next(&mut self, model: &mut Model<'_>) -> Option<Nomination> {
        let (by_root, before) = match self {
            Self::Classical(sorted) => return sorted.pop(),
            Self::Fair(by_root, before) => (by_root, before),
        };
        let (&root, heads) = by_root.iter_mut().next()?;
        for (one, its) in heads.iter_mut() {
            if before.is_some() && branch(model, one.queue) == *before {
                *its = standing(model, one);
            }
        }
        let entrants: Vec<_> = heads.iter().map(|(one, standing)| (one, standing)).collect();
        let next = champion(model, root, &entrants).unwrap_or(0);
        let (one, _) = heads.swap_remove(next);
        *before = branch(model, one.queue);
        if heads.is_empty() {
            by_root.remove(&root);
        }
        Some(one)
    }
}

/// The cohort above a queue that hangs below the root, if there is one between them.
fn branch(model: &Model<'_>, queue: usize) -> Option<usize> {
    let root = model.tree.nodes[queue].root;
    model.tree.ancestors(queue).take_while(|&cohort| cohort != root).last()
}
