//! What a fleet means at one instant: tides resolved to sizes, quotas, layouts and phases.
//!
//! A [`Target`] holds instants but never `now`, and no places in files: the same fleet at two instants between which
//! nothing changes gives the same target. Called by the planner and by `tidewright tide`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::pool::{Pool, Size};
use super::quota::{Amount, Supply};
use super::reservation::{BlockWindow, Terms};
use super::ruling::Rulings;
use super::standing::Standing;
use super::tide::{Phase, Tide};
use super::{Fleet, Parts};
use crate::diag::At;
use crate::ids::{LayoutName, PoolName, QuotaName, ReservationName, TideName};
use crate::units::Instant;

/// What the fleet should be at one instant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// What is the same at every hour.
    pub standing: Arc<Standing>,
    pub pools: BTreeMap<PoolName, PoolTarget>,
    pub quotas: BTreeMap<QuotaName, QuotaTarget>,
    pub tides: BTreeMap<TideName, Phase>,
}

/// A pool at one instant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PoolTarget {
    pub renamed_from: Option<PoolName>,
    /// How many nodes it should have. For a pool that fills its reservations: how many they are certain to hold.
    pub nodes: u32,
    /// The slots 0 to `nodes`, each in exactly one part.
    pub parts: Vec<Part>,
}

/// Neighbouring slots of a pool that serve one purpose.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The first slot.
    pub first: u32,
    pub nodes: u32,
    pub layout: LayoutName,
    pub purpose: Purpose,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Kept out of the queues, to replace a sick node at once.
    Spare,
    /// Used by the pool's quotas.
    Own,
    /// Lent until the tide turns.
    Lent { tide: TideName, from: QuotaName, to: QuotaName },
    /// On its way back: asked until `hard_at`, then evicted, and back at `due`.
    Returning { tide: TideName, from: QuotaName, to: QuotaName, hard_at: Timestamp, due: Timestamp },
}

/// A quota at one instant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QuotaTarget {
    pub shares: BTreeMap<PoolName, ShareTarget>,
    /// What it has from other quotas while the tide is low.
    pub loans: Vec<LoanTarget>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ShareTarget {
    pub guarantee: Amount,
    pub borrow: Option<Amount>,
    pub lend: Option<Amount>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoanTarget {
    pub tide: TideName,
    pub pool: PoolName,
    pub from: QuotaName,
    /// What the nodes hold as they are cut while they are lent.
    pub supply: Supply,
}

/// One thing that is different after an instant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Tide { tide: TideName, phase: Phase },
    Pool { pool: PoolName, before: PoolTarget, after: PoolTarget },
    Quota { quota: QuotaName, before: QuotaTarget, after: QuotaTarget },
}

/// Tides that were turned before their time, and when.
pub type Recalls = BTreeMap<TideName, Timestamp>;

impl Fleet {
    /// What the fleet means at an instant.
    pub fn target_at(&self, now: Timestamp) -> Target {
        self.target_with(now, &Recalls::new())
    }

    /// What the fleet means at an instant, with some tides turned before their time: what such a tide has lent is asked
    /// back from then on, and nothing more is lent until that low tide is over. A recall that falls into no low tide,
    /// or into one that is over, means nothing.
    pub fn target_with(&self, now: Timestamp, recalls: &Recalls) -> Target {
        let rulings = Rulings::between(self.tides.values(), now, now).recalled(recalls);
        self.target(now, &rulings, &Arc::new(self.standing()))
    }

    /// The same fleet, with what is known of its Capacity Blocks: when those that were bought run. Documents that name
    /// only when a block may start are certain of a few days; who bought it knows all of them.
    pub fn knowing(&self, windows: &BTreeMap<ReservationName, (Timestamp, Timestamp)>) -> Fleet {
        let mut known = self.clone();
        for (name, (from, to)) in windows {
            if let Some(Terms::Block(block)) = known.0.reservations.get_mut(name).map(|found| &mut found.terms) {
                let window = BlockWindow { from: Instant(*from), to: Instant(*to) };
                block.window = Some(At::new(window, block.duration.at));
            }
        }
        known
    }

    /// Whether a recall means nothing any more: the low tide that it fell into is over, or there is none.
    pub fn recall_is_over(&self, tide: &TideName, at: Timestamp, now: Timestamp) -> bool {
        let turned = self.tides.get(tide).and_then(|tide| tide.calendar(at, at).low_at(at));
        turned.is_none_or(|(_, end)| end <= now)
    }

    /// Every instant after `from` and up to `to` at which the target changes, with what changes.
    pub fn transitions(&self, from: Timestamp, to: Timestamp) -> Vec<(Timestamp, Vec<Change>)> {
        self.transitions_with(from, to, &Recalls::new())
    }

    /// The same with some tides turned before their time.
    pub fn transitions_with(&self, from: Timestamp, to: Timestamp, recalls: &Recalls) -> Vec<(Timestamp, Vec<Change>)> {
        let rulings = Rulings::between(self.tides.values(), from, to).recalled(recalls);
        let mut instants: BTreeSet<Timestamp> = rulings.edges().collect();
        for reservation in self.reservations.values() {
            if let Some((start, end)) = reservation.certain_window(self.kill(reservation)) {
                instants.extend([start, end]);
            }
        }
        let standing = Arc::new(self.standing());
        let mut before = self.target(from, &rulings, &standing);
        let mut found = Vec::new();
        for at in instants.into_iter().filter(|at| from < *at && *at <= to) {
            let after = self.target(at, &rulings, &standing);
            let changes = changes(&before, &after);
            if !changes.is_empty() {
                found.push((at, changes));
            }
            before = after;
        }
        found
    }

    fn target(&self, now: Timestamp, rulings: &Rulings<'_>, standing: &Arc<Standing>) -> Target {
        let tides = self.tides.keys().map(|name| (name.clone(), rulings.phase_at(name, now))).collect();
        let pools =
            self.pools.iter().map(|(name, pool)| (name.clone(), self.pool_at(pool, rulings.at(name, now), now)));
        let pools: BTreeMap<PoolName, PoolTarget> = pools.collect();
        Target { standing: standing.clone(), quotas: self.quotas_at(&pools, standing), pools, tides }
    }
}

fn changes(before: &Target, after: &Target) -> Vec<Change> {
    let tides = after.tides.iter().filter(|(name, phase)| before.tides.get(*name) != Some(*phase));
    let mut found: Vec<Change> =
        tides.map(|(tide, phase)| Change::Tide { tide: tide.clone(), phase: *phase }).collect();
    for (pool, (before, after)) in before.pools.iter().zip(after.pools.values()).map(|((n, b), a)| (n, (b, a))) {
        if before != after {
            found.push(Change::Pool { pool: pool.clone(), before: before.clone(), after: after.clone() });
        }
    }
    for (quota, (before, after)) in before.quotas.iter().zip(after.quotas.values()).map(|((n, b), a)| (n, (b, a))) {
        if before != after {
            found.push(Change::Quota { quota: quota.clone(), before: before.clone(), after: after.clone() });
        }
    }
    found
}

impl Parts {
    pub(super) fn tides_by_pool(&self) -> BTreeMap<PoolName, Vec<&Tide>> {
        let mut by_pool: BTreeMap<PoolName, Vec<&Tide>> = BTreeMap::new();
        for tide in self.tides.values() {
            for pool in tide.pools().collect::<BTreeSet<_>>() {
                by_pool.entry(pool.clone()).or_default().push(tide);
            }
        }
        by_pool
    }

    /// The size it has when no tide is low.
    pub(super) fn high_size(&self, pool: &Pool, now: Timestamp) -> u32 {
        match pool.size.value {
            Size::Nodes(nodes) => nodes,
            Size::Fill => pool
                .reservations()
                .filter_map(|name| self.reservations.get(*name))
                .map(|reservation| reservation.holds_at(now, self.kill(reservation)))
                .fold(0, u32::saturating_add),
        }
    }

    /// A pool under the tide that rules it. Slots are given out from the bottom: spares, what is lent or on its way
    /// back, the rest. A pool grows and shrinks at the top, so a lent node stays the same node; `compile::seats` says what
    /// that means for slots that have nothing.
    pub(super) fn pool_at(&self, pool: &Pool, ruling: Option<(&Tide, Phase)>, now: Timestamp) -> PoolTarget {
        let mut nodes = self.high_size(pool, now);
        if let Some((tide, Phase::Low { .. })) = ruling
            && let Some(resize) = tide.resizes.iter().find(|resize| resize.pool.value == pool.name.value)
        {
            nodes = resize.nodes.value;
        }
        let own = || pool.layout.value.clone();
        let mut parts = Parting { next: 0, nodes, parts: Vec::new() };
        parts.take(pool.spares.value, own(), Purpose::Spare);
        if let Some((tide, phase)) = ruling {
            let hard = tide.hard_at.value;
            for loan in tide.loans.iter().filter(|loan| loan.pool.value == pool.name.value) {
                let (tide, from, to) = (tide.name.value.clone(), loan.from.value.clone(), loan.to.value.clone());
                let (layout, purpose) = match phase {
                    Phase::High => continue,
                    Phase::Low { .. } => {
                        let layout = loan.layout.as_ref().map_or_else(own, |layout| layout.value.clone());
                        (layout, Purpose::Lent { tide, from, to })
                    }
                    Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => {
                        let hard_at = due.checked_sub(hard.signed()).unwrap_or(due);
                        (own(), Purpose::Returning { tide, from, to, hard_at, due })
                    }
                };
                parts.take(loan.nodes.value, layout, purpose);
            }
        }
        parts.take(u32::MAX, own(), Purpose::Own);
        PoolTarget { renamed_from: pool.renamed_from.clone(), nodes, parts: parts.parts }
    }

    /// Guarantees follow nodes that are cut anew: who lends has less until they are back. Who lends nodes as they are
    /// keeps its guarantee. Who borrows has more until they are asked back. In a pool whose reservations hold nothing
    /// nobody has anything.
    pub(super) fn quotas_at(
        &self,
        pools: &BTreeMap<PoolName, PoolTarget>,
        standing: &Standing,
    ) -> BTreeMap<QuotaName, QuotaTarget> {
        let mut quotas: BTreeMap<QuotaName, QuotaTarget> = self
            .quotas
            .iter()
            .map(|(name, quota)| {
                let shares = quota.shares.iter().map(|share| {
                    let amount = |amount: &Option<crate::diag::At<Amount>>| amount.as_ref().map(|a| a.value.clone());
                    let target = ShareTarget {
                        guarantee: share.guarantee.value.clone(),
                        borrow: amount(&share.borrow),
                        lend: amount(&share.lend),
                    };
                    (share.pool.value.clone(), target)
                });
                (name.clone(), QuotaTarget { shares: shares.collect(), loans: Vec::new() })
            })
            .collect();
        for (name, target) in pools {
            let Some(pool) = self.pools.get(name) else { continue };
            if target.waits(pool) {
                for share in quotas.values_mut().filter_map(|quota| quota.shares.get_mut(name)) {
                    share.guarantee = share.guarantee.nothing();
                    share.lend = share.lend.as_ref().map(Amount::nothing);
                }
            }
            for part in &target.parts {
                let (from, lent) = match &part.purpose {
                    Purpose::Spare | Purpose::Own => continue,
                    Purpose::Lent { tide, from, to } => (from, Some((tide, to))),
                    Purpose::Returning { from, .. } => (from, None),
                };
                let keeps = standing.keeper(name, &part.purpose).is_some();
                let lender = quotas.get_mut(from).and_then(|quota| quota.shares.get_mut(name));
                if let Some(share) = lender.filter(|_| !keeps) {
                    let taken = self.per_node(pool, &pool.layout.value).times(part.nodes);
                    share.guarantee = share.guarantee.without(&taken);
                    // A queue lends at most what it is guaranteed.
                    share.lend = share.lend.as_ref().map(|lend| lend.at_most(&share.guarantee));
                }
                if let Some((tide, to)) = lent
                    && let Some(quota) = quotas.get_mut(to)
                {
                    let supply = self.per_node(pool, &part.layout).times(part.nodes);
                    let (tide, from) = (tide.clone(), from.clone());
                    quota.loans.push(LoanTarget { tide, pool: name.clone(), from, supply });
                }
            }
        }
        quotas
    }
}

impl Target {
    /// The tide that says how many nodes a pool has now.
    pub fn sized_by(&self, pool: &PoolName) -> Option<&TideName> {
        let nodes = self.pools.get(pool)?.nodes;
        let is_low = |tide: &TideName| matches!(self.tides.get(tide), Some(Phase::Low { .. }));
        let sizes = self.standing.low_sizes.get(pool)?;
        sizes.iter().find(|(tide, size)| **size == nodes && is_low(tide)).map(|(tide, _)| tide)
    }
}

/// Gives out the slots of a pool, each once.
struct Parting {
    next: u32,
    nodes: u32,
    parts: Vec<Part>,
}

impl Parting {
    fn take(&mut self, wanted: u32, layout: LayoutName, purpose: Purpose) {
        let nodes = wanted.min(self.nodes - self.next);
        if nodes > 0 {
            self.parts.push(Part { first: self.next, nodes, layout, purpose });
            self.next += nodes;
        }
    }
}

impl PoolTarget {
    /// Whether it fills reservations that hold nothing now: tides and quotas wait for it.
    pub fn waits(&self, pool: &Pool) -> bool {
        pool.size.value == Size::Fill && self.nodes == 0
    }

    /// How many nodes its quotas can count on.
    pub fn own(&self) -> u32 {
        self.parts.iter().filter(|part| part.purpose == Purpose::Own).map(|part| part.nodes).sum()
    }
}

#[cfg(test)]
mod tests;
