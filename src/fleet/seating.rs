//! Which slots of a pool are lent, where some are cut for a loan already.
//!
//! A target counts: so many nodes are lent, the lowest first. Who edits a loan in the night, or the spares, moves that
//! count over the slots, and the nodes do not move with it. So a slot that is cut as some part should be is in that
//! part; where more are cut so than are lent now, those stay that have the borrower's work on them, the most of it
//! first, and those go that nobody uses or whose way back was begun. Everything else is given out from the bottom. Not
//! here: which slots go when a pool becomes smaller (`effect::seats`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::handing::{CutSeen, Cuts, append};
use super::standing::Standing;
use super::target::{Part, PoolTarget, Purpose, Target};
use crate::ids::{LayoutName, PoolName, QuotaName};

impl Target {
    /// The same, with the parts of its pools on the slots that are cut for them.
    pub fn seated(mut self, cuts: &Cuts) -> Target {
        let standing = self.standing.clone();
        for (name, pool) in &mut self.pools {
            *pool = seated(&standing, name, pool, cuts);
        }
        self
    }
}

/// One pool with its parts on the slots that are cut for them.
pub fn seated(standing: &Standing, name: &PoolName, pool: &PoolTarget, cuts: &Cuts) -> PoolTarget {
    let none = BTreeMap::new();
    let (Some(spec), cuts) = (standing.pools.get(name), cuts.get(name).unwrap_or(&none)) else { return pool.clone() };
    let is_lent = |cut: &CutSeen| !cut.fresh && cut.layout.as_ref().is_some_and(|layout| *layout != spec.layout);
    if !cuts.values().any(|cut| is_lent(cut) || cut.closed) {
        return pool.clone();
    }
    let mut free: BTreeSet<u32> = (0..pool.nodes).collect();
    let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
    let mut left: Vec<u32> = pool.parts.iter().map(|part| part.nodes).collect();
    let mut take = |free: &mut BTreeSet<u32>, place: usize, slot: u32| {
        if left[place] > 0 && free.remove(&slot) {
            left[place] -= 1;
            taken.insert(slot, place);
        }
    };
    for (place, part) in pool.parts.iter().enumerate() {
        for slot in fitting(standing, name, &spec.layout, part, cuts, &free) {
            take(&mut free, place, slot);
        }
    }
    for (place, part) in pool.parts.iter().enumerate() {
        // What has to be cut anyway is cut for the next loan, before a node of its owner is.
        let is_waste = |slot: &u32| cuts.get(slot).is_some_and(is_lent);
        let first: Vec<u32> = match part.layout != spec.layout {
            true => free.iter().copied().filter(is_waste).collect(),
            false => Vec::new(),
        };
        let rest: Vec<u32> = free.iter().copied().collect();
        first.into_iter().chain(rest).for_each(|slot| take(&mut free, place, slot));
    }
    let mut parts = Vec::new();
    for (slot, place) in taken {
        append(&mut parts, slot, pool.parts[place].layout.clone(), pool.parts[place].purpose.clone());
    }
    PoolTarget { parts, ..pool.clone() }
}

/// The slots that are cut as a part of what is lent should be, or that it asks back; first those that it should keep.
fn fitting(
    standing: &Standing,
    name: &PoolName,
    own: &LayoutName,
    part: &Part,
    cuts: &BTreeMap<u32, CutSeen>,
    free: &BTreeSet<u32>,
) -> Vec<u32> {
    let is_fit = |cut: &CutSeen| match &part.purpose {
        Purpose::Lent { .. } => part.layout != *own && cut.layout.as_ref() == Some(&part.layout),
        Purpose::Returning { tide, from, to, .. } => {
            let mut loans = standing.recut(name).filter(|(by, _)| *by == tide);
            let is_cut_so = |layout: &LayoutName| {
                layout == own && cut.closed || {
                    loans.any(|(_, loan)| loan.from == *from && loan.to == *to && loan.layout == *layout)
                }
            };
            cut.layout.as_ref().is_some_and(is_cut_so)
        }
        Purpose::Spare | Purpose::Own => false,
    };
    let mut found: Vec<(u32, &CutSeen)> = cuts
        .iter()
        .filter(|(slot, cut)| free.contains(slot) && !cut.fresh && is_fit(cut))
        .map(|(s, c)| (*s, c))
        .collect();
    let queue =
        borrower(&part.purpose).and_then(|to| standing.quotas.get(to)).map(|quota| quota.cluster_queue.as_str());
    let own_work = |cut: &CutSeen| queue.and_then(|queue| cut.work.get(queue)).copied();
    let others = |cut: &CutSeen| cut.work.iter().filter(|(name, _)| Some(name.as_str()) != queue).count();
    found.sort_by_key(|(slot, cut)| (cut.closed, Reverse(own_work(cut)), others(cut), *slot));
    found.into_iter().map(|(slot, _)| slot).collect()
}

fn borrower(purpose: &Purpose) -> Option<&QuotaName> {
    match purpose {
        Purpose::Lent { to, .. } | Purpose::Returning { to, .. } => Some(to),
        Purpose::Spare | Purpose::Own => None,
    }
}
