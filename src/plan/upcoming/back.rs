//! What is back already of what a tide asks back now: that it comes back is nothing that will be.

use std::collections::{BTreeMap, BTreeSet};

use super::part_at;
use crate::fleet::target::{Part, PoolTarget, Purpose};
use crate::fleet::tide::Phase;
use crate::ids::{PoolName, TideName};
use crate::plan::tide::is_out;
use crate::plan::types::PlanInput;
use crate::plan::view::View;

pub struct Back<'a> {
    input: &'a PlanInput,
    /// The pools as far as their nodes have changed hands; none where nothing is asked back.
    handed: BTreeMap<PoolName, PoolTarget>,
    /// Tides of which nothing is out any more.
    tides: BTreeSet<&'a TideName>,
}

impl<'a> Back<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let input = view.input;
        let asks = |name: &TideName| input.target.tides.get(name).is_some_and(|phase| due(*phase).is_some());
        let asking: Vec<_> = view.standing.tides.iter().filter(|(name, _)| asks(name)).collect();
        let handed = if asking.is_empty() { BTreeMap::new() } else { input.handed_over() };
        let tides = asking.into_iter().filter(|(name, spec)| !is_out(view, &handed, name, spec));
        Self { input, tides: tides.map(|(name, _)| name).collect(), handed }
    }

    /// Whether a turn is of a tide that asks for something which is there: nobody is left to be evicted.
    pub fn is_over(&self, tide: &TideName, phase: &Phase) -> bool {
        let now = self.input.target.tides.get(tide).copied().and_then(due);
        matches!(phase, Phase::HardReclaim { .. }) && due(*phase) == now && self.tides.contains(tide)
    }

    /// Whether a slot that is asked back is its owner's already.
    pub fn has(&self, pool: &PoolName, was: Option<&Part>, slot: u32) -> bool {
        let Some(purpose @ Purpose::Returning { tide, .. }) = was.map(|was| &was.purpose) else { return false };
        let part =
            |pools: &BTreeMap<PoolName, PoolTarget>| part_at(pools.get(pool)?, slot).map(|part| part.purpose.clone());
        let is_this_time = part(&self.input.target.pools).as_ref() == Some(purpose);
        let is_handed = part(&self.handed).is_some_and(|now| !matches!(now, Purpose::Returning { .. }));
        is_this_time && (is_handed || self.tides.contains(tide))
    }

    /// Where the hands change in a pool.
    pub fn edges(&self, pool: &PoolName) -> impl Iterator<Item = u32> {
        self.handed.get(pool).into_iter().flat_map(|pool| &pool.parts).map(|part| part.first)
    }
}

/// By when a tide that asks back has it.
fn due(phase: Phase) -> Option<jiff::Timestamp> {
    match phase {
        Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => Some(due),
        Phase::High | Phase::Low { .. } => None,
    }
}
