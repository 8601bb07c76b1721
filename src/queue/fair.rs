//! Fair sharing: a node's share is what it borrows over what it could borrow from, divided by its weight.
//!
//! The next head to be scheduled is the one whose queues and cohorts would have the smallest shares with it. The next
//! victim comes from the queue with the largest share, as long as the preemptor's side stays the poorer one.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use super::PreemptReason;
use super::assign::Nomination;
use super::model::Model;
use super::preempt::{Seeker, Victims, fill_back, fits, rank, reclaim_allows, within_queue_allows};
use super::state::{Reclaim, Strategy};
use super::tree::{Kind, Tree};

/// The weighted dominant share of a node. Compared like Kueue does, in floating point.
#[derive(Clone, Debug)]
pub struct Share {
    ratio: f64,
    weight: f64,
    borrowed: Vec<Kind>,
}

impl Share {
    fn is_zero(&self) -> bool {
        self.ratio == 0.0
    }

    /// It uses more than its quota. Where nothing can be lent to it, its share is zero all the same.
    fn is_borrowing(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// A node of weight 0 with a share is richer than any other.
    fn is_infinite(&self) -> bool {
        self.weight == 0.0 && !self.is_zero()
    }

    fn compare(&self, other: &Self) -> Ordering {
        let weighted = |share: &Self| if share.is_zero() { 0.0 } else { share.ratio / share.weight };
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) => self.ratio.total_cmp(&other.ratio),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => weighted(self).total_cmp(&weighted(other)),
        }
    }
}

/// The share of a queue or a cohort now.
pub fn share(tree: &Tree, at: usize) -> Share {
    let node = &tree.nodes[at];
    let mut share = Share { ratio: 0.0, weight: node.weight, borrowed: Vec::new() };
    let Some(parent) = node.parent else { return share };
    let mut borrowed = BTreeMap::new();
    for (kind, cell) in node.cells.iter().enumerate() {
        if cell.listed && cell.usage > cell.subtree {
            *borrowed.entry(&tree.kinds[kind].1).or_insert(0) += cell.usage - cell.subtree;
            share.borrowed.push(kind);
        }
    }
    for (resource, amount) in borrowed {
        let of_resource = tree.nodes[parent].cells.iter().zip(&tree.kinds).filter(|(_, kind)| kind.1 == *resource);
        let lendable: i64 = of_resource.map(|(cell, _)| cell.potential).sum();
        if lendable > 0 {
            #[allow(clippy::cast_precision_loss)]
            let ratio = amount as f64 * 1000.0 / lendable as f64;
            share.ratio = share.ratio.max(ratio);
        }
    }
    share
}

/// Victims under fair sharing. A preemptor that stays within its nominal quota takes from whoever borrows; else each
/// step must leave its side no richer than the victim's.
pub fn victims(model: &mut Model<'_>, seeker: &Seeker<'_>, strategies: &[Strategy]) -> Victims {
    let mut candidates = candidates(model, seeker);
    candidates.sort_by_cached_key(|&job| rank(model, job, seeker.queue));
    let mut hunt = Hunt { seeker, gone: Vec::new() };
    // Shares count the preemptor as if it were in.
    model.tree.add(seeker.queue, seeker.requests);
    let first = strategies.first().copied().unwrap_or(Strategy::LessThanOrEqualToFinalShare);
    let (mut found, left) = hunt.first(model, &candidates, first);
    if !found && (strategies.is_empty() || strategies.len() > 1) {
        found = hunt.second(model, &left);
    }
    model.tree.remove(seeker.queue, seeker.requests);
    if found {
        return fill_back(model, seeker, hunt.gone, true);
    }
    hunt.gone.iter().for_each(|&(job, _)| model.put_back(job));
    Vec::new()
}

fn candidates(model: &Model<'_>, seeker: &Seeker<'_>) -> Vec<usize> {
    let own = model.queues[seeker.queue].holding.iter().copied();
    let mut found: Vec<usize> = own.filter(|&job| within_queue_allows(model, seeker, job)).collect();
    let home = &model.tree.nodes[seeker.queue];
    if home.parent.is_none() || model.queues[seeker.queue].spec.preemption.reclaim == Reclaim::Never {
        return found;
    }
    for (at, queue) in model.queues.iter().enumerate() {
        let related = at != seeker.queue && queue.takes_part && model.tree.nodes[at].root == home.root;
        if related && !model.tree.is_within_nominal(at, seeker.short) {
            found.extend(queue.holding.iter().copied().filter(|&job| reclaim_allows(model, seeker, job)));
        }
    }
    found
}

struct Hunt<'a> {
    seeker: &'a Seeker<'a>,
    gone: Victims,
}

impl Hunt<'_> {
    /// Walks the richest queues; the answer is whether the preemptor fits, and who was passed over.
    fn first(&mut self, model: &mut Model<'_>, candidates: &[usize], rule: Strategy) -> (bool, Vec<usize>) {
        let mut order = Richest::new(model, self.seeker.queue, candidates);
        let within_nominal = model.tree.is_within_nominal(self.seeker.queue, self.seeker.short);
        let mut passed_over = Vec::new();
        while let Some(queue) = order.next(model) {
            if queue == self.seeker.queue || within_nominal {
                let own = queue == self.seeker.queue;
                let reason = if own { PreemptReason::InClusterQueue } else { PreemptReason::InCohortReclamation };
                let Some(job) = order.pop(queue) else { continue };
                if self.take(model, job, reason) {
                    return (true, Vec::new());
                }
                continue;
            }
            let (mine, theirs) = branches(&model.tree, self.seeker.queue, queue);
            let (new, old) = (share(&model.tree, mine), share(&model.tree, theirs));
            while let Some(job) = order.pop(queue) {
                let passes = match rule {
                    Strategy::LessThanInitialShare => new.compare(&old).is_lt(),
                    Strategy::LessThanOrEqualToFinalShare => {
                        model.take_away(job);
                        let left = share(&model.tree, theirs);
                        model.put_back(job);
                        new.compare(&left).is_le()
                    }
                };
                if !passes {
                    passed_over.push(job);
                    continue;
                }
                if self.take(model, job, PreemptReason::InCohortFairSharing) {
                    return (true, Vec::new());
                }
                // The shares have changed: another queue may be the richest now.
                break;
            }
        }
        (false, passed_over)
    }

    /// At most one more of each queue, as long as the preemptor's side is poorer than it was.
    fn second(&mut self, model: &mut Model<'_>, candidates: &[usize]) -> bool {
        let mut order = Richest::new(model, self.seeker.queue, candidates);
        while let Some(queue) = order.next(model) {
            let (mine, theirs) = branches(&model.tree, self.seeker.queue, queue);
            let passes = share(&model.tree, mine).compare(&share(&model.tree, theirs)).is_lt();
            let job = order.pop(queue).filter(|_| passes);
            if job.is_some_and(|job| self.take(model, job, PreemptReason::InCohortFairSharing)) {
                return true;
            }
            order.pruned.insert(queue);
        }
        false
    }

    fn take(&mut self, model: &mut Model<'_>, job: usize, reason: PreemptReason) -> bool {
        model.take_away(job);
        self.gone.push((job, reason));
        model.tree.remove(self.seeker.queue, self.seeker.requests);
        let fitting = fits(model, self.seeker, true);
        model.tree.add(self.seeker.queue, self.seeker.requests);
        fitting
    }
}

/// Queues with candidates, the richest first, looked for anew each time from the root down.
struct Richest {
    home: usize,
    /// The cohorts above the preemptor.
    path: BTreeSet<usize>,
    root: usize,
    /// Candidates of each queue, the next one last.
    waiting: BTreeMap<usize, Vec<usize>>,
    /// Nodes that give nothing more.
    pruned: BTreeSet<usize>,
}

impl Richest {
    fn new(model: &Model<'_>, home: usize, candidates: &[usize]) -> Self {
        let mut waiting: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &job in candidates.iter().rev() {
            if let Some(queue) = model.jobs[job].queue {
                waiting.entry(queue).or_default().push(job);
            }
        }
        let path = model.tree.ancestors(home).collect();
        Self { home, path, root: model.tree.nodes[home].root, waiting, pruned: BTreeSet::new() }
    }

    fn pop(&mut self, queue: usize) -> Option<usize> {
        self.waiting.get_mut(&queue)?.pop()
    }

    fn head(&self, queue: usize) -> Option<usize> {
        self.waiting.get(&queue)?.last().copied()
    }

    fn next(&mut self, model: &Model<'_>) -> Option<usize> {
        if self.root == self.home {
            return self.head(self.home).map(|_| self.home);
        }
        while !self.pruned.contains(&self.root) {
            if let Some(queue) = self.below(model, self.root) {
                return Some(queue);
            }
        }
        None
    }

    /// The richest queue under a cohort, or nothing if this round only pruned.
    fn below(&mut self, model: &Model<'_>, cohort: usize) -> Option<usize> {
        let tree = &model.tree;
        let mut queue: Option<(usize, usize, Share)> = None;
        for &child in &tree.nodes[cohort].child_queues {
            if self.pruned.contains(&child) {
                continue;
            }
            let its = share(tree, child);
            let Some(head) = self.head(child).filter(|_| child == self.home || its.is_borrowing()) else {
                self.pruned.insert(child);
                continue;
            };
            let richer = queue.as_ref().is_none_or(|(_, other, best)| match its.compare(best) {
                Ordering::Equal => rank(model, head, self.home) < rank(model, *other, self.home),
                order => order.is_gt(),
            });
            if richer {
                queue = Some((child, head, its));
            }
        }
        let mut inner: Option<(usize, Share)> = None;
        for &child in &tree.nodes[cohort].child_cohorts {
            if self.pruned.contains(&child) {
                continue;
            }
            let its = share(tree, child);
            if !its.is_borrowing() && !self.path.contains(&child) {
                self.pruned.insert(child);
            } else if inner.as_ref().is_none_or(|(_, best)| its.compare(best).is_ge()) {
                inner = Some((child, its));
            }
        }
        match (queue, inner) {
            (None, None) => {
                self.pruned.insert(cohort);
                None
            }
            (Some((queue, _, its)), Some((_, best))) if best.compare(&its).is_lt() => Some(queue),
            (_, Some((child, _))) => self.below(model, child),
            (Some((queue, ..)), None) => Some(queue),
        }
    }
}

/// The nodes just below the lowest common cohort of two queues, on either side.
fn branches(tree: &Tree, mine: usize, theirs: usize) -> (usize, usize) {
    let above: BTreeSet<usize> = tree.ancestors(mine).collect();
    let common = tree.ancestors(theirs).find(|cohort| above.contains(cohort));
    let below = |queue: usize| {
        let under = std::iter::once(queue).chain(tree.ancestors(queue)).take_while(|&node| Some(node) != common);
        under.last().unwrap_or(queue)
    };
    (below(mine), below(theirs))
}

/// How a head stands in each cohort above it: the share of the branch it comes from, itself included.
#[derive(Debug)]
pub struct Standing(Vec<(usize, bool, Share)>);

pub fn standing(model: &mut Model<'_>, one: &Nomination) -> Standing {
    model.tree.add(one.queue, &one.amounts);
    let mut standing = Vec::new();
    let mut branch = one.queue;
    for cohort in model.tree.ancestors(one.queue) {
        let its = share(&model.tree, branch);
        let wanted = |kind: &Kind| one.amounts.iter().any(|(other, amount)| other == kind && *amount > 0);
        standing.push((cohort, its.borrowed.iter().any(wanted), its));
        branch = cohort;
    }
    model.tree.remove(one.queue, &one.amounts);
    Standing(standing)
}

/// The head that goes next among those under `cohort`: a tournament in each cohort from the leaves up. Heads that
/// stay within quota go before those that borrow, then the smaller share, priority, age.
pub fn champion(model: &Model<'_>, cohort: usize, heads: &[(&Nomination, &Standing)]) -> Option<usize> {
    let mut entrants: Vec<usize> = Vec::new();
    let mut inner: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (one, standing)) in heads.iter().enumerate() {
        let level = standing.0.iter().position(|(above, ..)| *above == cohort)?;
        match level.checked_sub(1) {
            None => entrants.push(at),
            Some(below) => inner.entry(standing.0[below].0).or_default().push(at),
        }
        debug_assert_eq!(model.jobs[one.job].queue, Some(one.queue));
    }
    for (child, members) in inner {
        let chosen: Vec<_> = members.iter().map(|&at| heads[at]).collect();
        entrants.extend(champion(model, child, &chosen).map(|winner| members[winner]));
    }
    let before = |a: &usize, b: &usize| {
        let place = |at: usize| heads[at].1.0.iter().find(|(above, ..)| *above == cohort);
        let by_share = match (place(*a), place(*b)) {
            (Some((_, a_borrows, a)), Some((_, b_borrows, b))) => a_borrows.cmp(b_borrows).then(a.compare(b)),
            _ => Ordering::Equal,
        };
        let age = |at: usize| {
            let job = heads[at].0.job;
            (Reverse(model.jobs[job].spec.priority), model.jobs[job].spec.created, job)
        };
        by_share.then_with(|| age(*a).cmp(&age(*b)))
    };
    entrants.into_iter().min_by(before)
}
