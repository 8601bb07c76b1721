//! Quota in the tree of ClusterQueues and cohorts: who may use how much, and who borrows.
//!
//! A node's *subtree quota* is its own nominal plus what its children lend up. Its *local quota* is the part of that
//! which a lending limit keeps below it. Its *usage* counts what it uses itself (a queue) or what its children use
//! beyond their local quota (a cohort), so every unit is counted at exactly the nodes that must find room for it.

use std::collections::BTreeMap;

use super::state::{CohortName, FlavorName, QueueState, Quota, ResourceName, StopPolicy};

/// One resource of one flavor, by its place in [`Tree::kinds`].
pub type Kind = usize;

/// Amounts of some kinds.
pub type Amounts = Vec<(Kind, i64)>;

#[derive(Debug)]
pub struct Tree {
    /// Queues first, in the order of their names, then cohorts in the order of theirs.
    pub nodes: Vec<Node>,
    pub kinds: Vec<(FlavorName, ResourceName)>,
    pub kind_of: BTreeMap<(FlavorName, ResourceName), Kind>,
}

#[derive(Debug)]
pub struct Node {
    pub parent: Option<usize>,
    /// The topmost node above, or itself.
    pub root: usize,
    pub child_cohorts: Vec<usize>,
    /// Only queues that take part: a held one still lends and uses quota, but nobody preempts in it.
    pub child_queues: Vec<usize>,
    pub weight: f64,
    pub cells: Vec<Cell>,
}

/// One kind at one node.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub nominal: i64,
    pub borrowing_limit: Option<i64>,
    pub lending_limit: Option<i64>,
    /// Whether the node, or a node below, has quota of this kind. Usage of any other kind is not counted: Kueue
    /// forgets what runs on a flavor that was removed from its queue.
    pub listed: bool,
    pub subtree: i64,
    pub usage: i64,
    /// The most the node could use if nothing ran.
    pub potential: i64,
}

impl Cell {
    fn local(&self) -> i64 {
        self.lending_limit.map_or(0, |limit| (self.subtree - limit).max(0))
    }

    fn local_available(&self) -> i64 {
        (self.local() - self.usage).max(0)
    }
}

impl Tree {
    /// The tree with all quotas and no usage. Cohorts in a cycle have no parent, and neither have their queues; the
    /// second answer says which queues take part in scheduling.
    pub fn new(state: &QueueState) -> (Self, Vec<bool>) {
        let cohorts = named_cohorts(state);
        let first_cohort = state.cluster_queues.len();
        let index: BTreeMap<&CohortName, usize> =
            cohorts.iter().enumerate().map(|(at, name)| (*name, first_cohort + at)).collect();
        let mut tree = Self { nodes: Vec::new(), kinds: Vec::new(), kind_of: BTreeMap::new() };
        tree.number_kinds(state);
        let blank = vec![Cell::default(); tree.kinds.len()];
        let mut takes_part = Vec::new();
        for queue in state.cluster_queues.values() {
            let cyclic = queue.cohort.as_ref().is_some_and(|cohort| is_cyclic(state, cohort));
            let parent = queue.cohort.as_ref().filter(|_| !cyclic).map(|cohort| index[cohort]);
            let mut cells = blank.clone();
            for flavor in queue.groups.iter().flat_map(|group| &group.flavors) {
                for (resource, quota) in &flavor.quotas {
                    let kind = tree.kind_of[&(flavor.flavor.clone(), resource.clone())];
                    cells[kind] = own(quota, parent.is_some());
                }
            }
            tree.nodes.push(node(parent, queue.weight.0, cells));
            takes_part.push(!cyclic && queue.stop == StopPolicy::None);
        }
        for name in &cohorts {
            let found = state.cohorts.get(*name);
            let parent = found.and_then(|found| found.parent.as_ref()).filter(|_| !is_cyclic(state, name));
            let mut cells = blank.clone();
            for (kind, quota) in found.iter().flat_map(|found| &found.quotas) {
                cells[tree.kind_of[kind]] = own(quota, parent.is_some());
            }
            let weight = found.map_or(1000, |found| found.weight.0);
            tree.nodes.push(node(parent.map(|parent| index[parent]), weight, cells));
        }
        tree.connect(first_cohort, &takes_part);
        (tree, takes_part)
    }

    fn number_kinds(&mut self, state: &QueueState) {
        let of_queues = state.cluster_queues.values().flat_map(|queue| &queue.groups).flat_map(|group| &group.flavors);
        let of_queues = of_queues.flat_map(|flavor| flavor.quotas.keys().map(|name| (&flavor.flavor, name)));
        let of_cohorts = state.cohorts.values().flat_map(|cohort| cohort.quotas.keys().map(|(a, b)| (a, b)));
        for (flavor, resource) in of_queues.chain(of_cohorts) {
            self.kind_of.insert((flavor.clone(), resource.clone()), 0);
        }
        for (at, (kind, number)) in self.kind_of.iter_mut().enumerate() {
            *number = at;
            self.kinds.push(kind.clone());
        }
    }

    /// Children, roots, subtree quotas from the leaves up and potentials from the roots down.
    fn connect(&mut self, first_cohort: usize, takes_part: &[bool]) {
        for at in first_cohort..self.nodes.len() {
            if let Some(parent) = self.nodes[at].parent {
                self.nodes[parent].child_cohorts.push(at);
            }
        }
        for (at, _) in takes_part.iter().enumerate().filter(|(_, takes_part)| **takes_part) {
            if let Some(parent) = self.nodes[at].parent {
                self.nodes[parent].child_queues.push(at);
            }
        }
        let mut by_depth: Vec<usize> = (0..self.nodes.len()).collect();
        by_depth.sort_by_key(|&at| self.ancestors(at).count());
        for &at in by_depth.iter().rev() {
            let Some(parent) = self.nodes[at].parent else { continue };
            for kind in 0..self.kinds.len() {
                let cell = &self.nodes[at].cells[kind];
                let (listed, lent) = (cell.listed, cell.subtree - cell.local());
                let above = &mut self.nodes[parent].cells[kind];
                above.listed |= listed;
                above.subtree += lent;
            }
        }
        for &at in &by_depth {
            let parent = self.nodes[at].parent;
            self.nodes[at].root = parent.map_or(at, |parent| self.nodes[parent].root);
            for kind in 0..self.kinds.len() {
                let above = parent.map(|parent| self.nodes[parent].cells[kind].potential);
                let cell = &mut self.nodes[at].cells[kind];
                let reach = above.map_or(cell.subtree, |above| cell.local() + above);
                cell.potential = cell.borrowing_limit.map_or(reach, |limit| reach.min(cell.subtree + limit));
            }
        }
    }

    /// From the parent to the root.
    pub fn ancestors(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.nodes[at].parent, |&at| self.nodes[at].parent)
    }

    pub fn cell(&self, at: usize, kind: Kind) -> &Cell {
        &self.nodes[at].cells[kind]
    }

    /// What is left for a node; negative where more is used than there is.
    fn left(&self, at: usize, kind: Kind) -> i64 {
        let cell = self.cell(at, kind);
        let Some(parent) = self.nodes[at].parent else { return cell.subtree - cell.usage };
        let mut above = self.left(parent, kind);
        if let Some(limit) = cell.borrowing_limit {
            let stored = cell.subtree - cell.local();
            let used = (cell.usage - cell.local()).max(0);
            above = above.min(stored - used + limit);
        }
        cell.local_available() + above
    }

    /// What a queue can get without preempting.
    pub fn available(&self, at: usize, kind: Kind) -> i64 {
        self.left(at, kind).max(0)
    }

    pub fn add(&mut self, at: usize, amounts: &[(Kind, i64)]) {
        for &(kind, amount) in amounts {
            self.shift(at, kind, amount);
        }
    }

    pub fn remove(&mut self, at: usize, amounts: &[(Kind, i64)]) {
        for &(kind, amount) in amounts {
            self.shift(at, kind, -amount);
        }
    }

    /// The parent counts what is used beyond the local quota: a function of the usage alone, so additions and
    /// removals undo each other in any order.
    fn shift(&mut self, at: usize, kind: Kind, amount: i64) {
        let cell = &mut self.nodes[at].cells[kind];
        if !cell.listed {
            return;
        }
        let local = cell.local();
        let before = (cell.usage - local).max(0);
        cell.usage += amount;
        let grown = (cell.usage - local).max(0) - before;
        if let Some(parent) = self.nodes[at].parent.filter(|_| grown != 0) {
            self.shift(parent, kind, grown);
        }
    }

    /// Whether the node would use more than its quota with `amount` more.
    pub fn borrows_with(&self, at: usize, kind: Kind, amount: i64) -> bool {
        let cell = self.cell(at, kind);
        cell.usage + amount > cell.subtree
    }

    pub fn is_within_nominal(&self, at: usize, kinds: &[Kind]) -> bool {
        !kinds.iter().any(|&kind| self.borrows_with(at, kind, 0))
    }

    /// Whether `requests` fit in the node's quota, and what of them its local quota does not cover.
    pub fn fits_in_quota(&self, at: usize, requests: &[(Kind, i64)]) -> (bool, Amounts) {
        let fits = !requests.iter().any(|&(kind, amount)| self.borrows_with(at, kind, amount));
        let rest = |&(kind, amount): &(Kind, i64)| (kind, (amount - self.cell(at, kind).local_available()).max(0));
        (fits, requests.iter().map(rest).collect())
    }

    /// How far up a queue must go to find quota for `amount`: 0 in itself, else the height of the lowest cohort in
    /// which it fits, or of the whole tree. And whether there is still a cohort above that one.
    pub fn reach(&self, at: usize, kind: Kind, amount: i64) -> (usize, bool) {
        let has_parent = self.nodes[at].parent.is_some();
        if !has_parent || !self.borrows_with(at, kind, amount) {
            return (0, has_parent);
        }
        let mut rest = amount - self.cell(at, kind).local_available();
        let mut top = at;
        for cohort in self.ancestors(at) {
            top = cohort;
            if !self.borrows_with(cohort, kind, rest) {
                break;
            }
            rest -= self.cell(cohort, kind).local_available();
        }
        (self.height(top), self.nodes[top].parent.is_some())
    }

    /// The way down to the furthest queue.
    fn height(&self, at: usize) -> usize {
        let node = &self.nodes[at];
        let below = node.child_cohorts.iter().map(|&child| self.height(child) + 1).max().unwrap_or(0);
        below.max(usize::from(!node.child_queues.is_empty()))
    }
}

fn node(parent: Option<usize>, weight: u32, cells: Vec<Cell>) -> Node {
    let weight = f64::from(weight) / 1000.0;
    Node { parent, root: 0, child_cohorts: Vec::new(), child_queues: Vec::new(), weight, cells }
}

/// Limits say nothing without a parent; Kueue refuses them there.
fn own(quota: &Quota, has_parent: bool) -> Cell {
    Cell {
        nominal: quota.nominal,
        borrowing_limit: quota.borrowing_limit.filter(|_| has_parent),
        lending_limit: quota.lending_limit.filter(|_| has_parent),
        listed: true,
        subtree: quota.nominal,
        usage: 0,
        potential: 0,
    }
}

/// Every cohort that has an object or is named by a queue or by another cohort.
fn named_cohorts(state: &QueueState) -> Vec<&CohortName> {
    let of_queues = state.cluster_queues.values().filter_map(|queue| queue.cohort.as_ref());
    let parents = state.cohorts.values().filter_map(|cohort| cohort.parent.as_ref());
    let mut all: Vec<_> = state.cohorts.keys().chain(of_queues).chain(parents).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether the way up from a cohort never ends.
fn is_cyclic(state: &QueueState, cohort: &CohortName) -> bool {
    let up = |name: &&CohortName| state.cohorts.get(*name).and_then(|cohort| cohort.parent.as_ref());
    let mut way = std::iter::successors(Some(cohort), |name| up(name));
    way.nth(state.cohorts.len() + 1).is_some()
}
