//! Which slots of a pool are lent, where some are cut for a loan already.
//!
//! A target counts: so many nodes are lent, the lowest first. Who edits a loan in the night, or the spares, moves that
//! count over the slots, and the nodes do not move with it. So a slot that is cut as some part should be is in that
//! part; where more are cut so than are lent now, those stay that have the borrower's work on them, the most of it
//! first, and those go that nobody uses or whose way back was begun. What is lent beside them is what its owner misses
//! least: nodes whose way out was begun, that are only coming or out of service, then those that nobody uses, then those
//! whose work has the least to lose, whole gangs together, and last those that somebody keeps as they are. Everything else is given out from the bottom. Not here: which slots go when
//! a pool becomes smaller (`compile::seats`).

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
    let lends = pool.parts.iter().any(|part| is_recut(part, &spec.layout));
    if !lends && !cuts.values().any(|cut| is_lent(cut) || cut.closed) {
        return pool.clone();
    }
    let left = pool.parts.iter().map(|part| part.nodes).collect();
    let mut seats = Seats { free: (0..pool.nodes).collect(), left, taken: BTreeMap::new() };
    for (place, part) in pool.parts.iter().enumerate() {
        let fitting = fitting(standing, name, &spec.layout, part, cuts, &seats.free);
        seats.take(place, fitting);
    }
    for (place, part) in pool.parts.iter().enumerate() {
        // What has to be cut anyway is cut for the next loan, before a node of its owner is.
        let is_waste = |slot: &u32| cuts.get(slot).is_some_and(is_lent);
        let chosen = match is_recut(part, &spec.layout) {
            true => missed_least(&seats.free, cuts, &is_waste, seats.left[place]),
            false => seats.free.iter().copied().collect(),
        };
        seats.take(place, chosen);
    }
    let mut parts = Vec::new();
    for (slot, place) in seats.taken {
        append(&mut parts, slot, pool.parts[place].layout.clone(), pool.parts[place].purpose.clone());
    }
    PoolTarget { parts, ..pool.clone() }
}

/// Whether a part is lent and cut anew for that.
fn is_recut(part: &Part, own: &LayoutName) -> bool {
    matches!(part.purpose, Purpose::Lent { .. }) && part.layout != *own
}

struct Seats {
    free: BTreeSet<u32>,
    /// How many each part still needs.
    left: Vec<u32>,
    /// The part of each slot.
    taken: BTreeMap<u32, usize>,
}

impl Seats {
    fn take(&mut self, place: usize, slots: Vec<u32>) {
        for slot in slots {
            if self.left[place] > 0 && self.free.remove(&slot) {
                self.left[place] -= 1;
                self.taken.insert(slot, place);
            }
        }
    }
}

/// So often a slot is looked at to find those whose work loses least together; in a large pool the cheapest are taken.
const LOOKS: usize = 100_000;

/// So many slots whose owner misses them least.
fn missed_least(
    free: &BTreeSet<u32>,
    cuts: &BTreeMap<u32, CutSeen>,
    is_waste: &dyn Fn(&u32) -> bool,
    wanted: u32,
) -> Vec<u32> {
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let rank = |slot: &u32| match cuts.get(slot) {
        _ if is_waste(slot) => 0,
        // Begun, or not seen, and then it may well be lent already.
        Some(cut) if cut.closed => 1,
        Some(cut) if cut.kept => 5,
        // It serves nobody now: its owner keeps what does.
        None => 2,
        Some(cut) if cut.out => 2,
        Some(cut) if cut.units.is_empty() => 3 - u32::from(cut.fresh),
        Some(_) => 4,
    };
    let mut ranked: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    free.iter().for_each(|slot| ranked.entry(rank(slot)).or_default().push(*slot));
    let mut chosen: Vec<u32> = Vec::new();
    for (rank, slots) in ranked {
        let left = wanted - chosen.len();
        match rank {
            4 => chosen.extend(least_lost(&slots, |slot| units(cuts, slot), BTreeSet::new(), left)),
            _ => chosen.extend(slots.into_iter().take(left)),
        }
    }
    chosen
}

/// What stands on a slot's node, with what it would lose.
fn units<'a>(cuts: &'a BTreeMap<u32, CutSeen>, slot: &u32) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
    cuts.get(slot).into_iter().flat_map(|cut| &cut.units).map(|(unit, lost)| (unit.as_str(), *lost))
}

/// So many of these slots whose work loses least together, beside what is gone already; of those that lose alike the
/// first. A gang that goes is lost once, however many of its nodes go, so the cheapest first may be the dearest in the
/// end: several beginnings are tried.
pub fn least_lost<'u, I: Iterator<Item = (&'u str, u64)>>(
    busy: &[u32],
    units: impl Fn(&u32) -> I,
    gone: BTreeSet<&'u str>,
    wanted: usize,
) -> Vec<u32> {
    let more = |slot: &u32, gone: &BTreeSet<&str>| -> u64 {
        units(slot).filter(|(unit, _)| !gone.contains(unit)).map(|(_, lost)| lost).sum()
    };
    // Nodes of one gang lose the same, and stand together.
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, slot) in busy.iter().enumerate() {
        units(slot).take(1).for_each(|(unit, _)| _ = first.entry(unit).or_insert(place));
    }
    let gang = |slot: &u32| units(slot).next().and_then(|(unit, _)| first.get(unit)).copied();
    let mut cheapest: Vec<u32> = busy.to_vec();
    cheapest.sort_by_cached_key(|slot| (more(slot, &gone), gang(slot)));
    let beginnings = LOOKS / (busy.len() * wanted).max(1);
    if beginnings == 0 || wanted == 0 {
        cheapest.truncate(wanted);
        return cheapest;
    }
    let from = |begin: u32| {
        let (mut gone, mut lost, mut chosen): (_, u64, BTreeSet<u32>) = (gone.clone(), 0, BTreeSet::new());
        let mut next = Some(begin);
        while let Some(slot) = next {
            lost = lost.saturating_add(more(&slot, &gone));
            gone.extend(units(&slot).map(|(unit, _)| unit));
            chosen.insert(slot);
            let rest = cheapest.iter().filter(|slot| !chosen.contains(slot));
            next = rest.min_by_key(|slot| more(slot, &gone)).copied().filter(|_| chosen.len() < wanted);
        }
        (lost, chosen)
    };
    let tried = cheapest.iter().take(beginnings).map(|begin| from(*begin));
    tried.min_by_key(|(lost, _)| *lost).into_iter().flat_map(|(_, chosen)| chosen).collect()
}

/// The slots that are cut as a part of what is lent should be, or that it asks back; first those that it should keep.
pub fn fitting(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of nodes with these gangs, or pods, on them.
    fn pool(nodes: &[&[(&str, u64)]]) -> (Vec<u32>, BTreeMap<u32, CutSeen>) {
        let units = |on: &[(&str, u64)]| on.iter().map(|(unit, lost)| ((*unit).to_string(), *lost)).collect();
        let cut = |on: &&[(&str, u64)]| CutSeen { units: units(on), ..CutSeen::default() };
        let cuts: BTreeMap<u32, CutSeen> = (0..).zip(nodes.iter().map(cut)).collect();
        (cuts.keys().copied().collect(), cuts)
    }

    fn lost_least(slots: &[u32], cuts: &BTreeMap<u32, CutSeen>, wanted: usize) -> Vec<u32> {
        least_lost(slots, |slot| units(cuts, slot), BTreeSet::new(), wanted)
    }

    #[test]
    fn a_gang_that_goes_anyway_goes_from_all_its_nodes() {
        let (slots, cuts) = pool(&[&[("one", 27)], &[("three", 80)], &[("three", 80)], &[("three", 80)]]);
        assert_eq!(lost_least(&slots, &cuts, 1), [0]);
        assert_eq!(lost_least(&slots, &cuts, 2), [1, 2], "80 are lost, and not 107");
        assert_eq!(lost_least(&slots, &cuts, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn in_a_large_pool_the_cheapest_go() {
        let nodes: Vec<(String, u64)> = (0..600).map(|node| (format!("gang-{}", node / 2), 600 - node / 2)).collect();
        let nodes: Vec<[(&str, u64); 1]> = nodes.iter().map(|(gang, lost)| [(gang.as_str(), *lost)]).collect();
        let nodes: Vec<&[(&str, u64)]> = nodes.iter().map(|on| on.as_slice()).collect();
        let (slots, cuts) = pool(&nodes);
        let chosen: BTreeSet<u32> = lost_least(&slots, &cuts, 200).into_iter().collect();
        assert_eq!(chosen, (400..600).collect());
    }

    #[test]
    fn what_serves_nobody_is_lent_before_what_somebody_uses_or_keeps() {
        let (slots, mut cuts) = pool(&[&[("one", 27)], &[], &[], &[]]);
        cuts.insert(1, CutSeen { kept: true, ..CutSeen::default() });
        cuts.insert(3, CutSeen { out: true, ..CutSeen::default() });
        let free: BTreeSet<u32> = slots.into_iter().collect();
        assert_eq!(missed_least(&free, &cuts, &|_| false, 4), [3, 2, 0, 1]);
    }
}
