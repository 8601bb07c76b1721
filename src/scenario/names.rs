//! What a script may call things by: every name that some revision of its documents had, slots, nodes.
//!
//! A misspelt name would otherwise be a pool without nodes or a tide that nobody has, and what the script says of it would
//! hold for nothing. A name whose document was deleted stays known, because what becomes of it is part of the story.

use std::collections::BTreeSet;

use super::Wrong;
use super::bench::Bench;
use super::command::Place;
use crate::diag::nearest;
use crate::fleet::Fleet;
use crate::ids::{InstanceId, NodeName, PoolName, QuotaName, SlotId, TideName, TierName};

#[derive(Default, Debug)]
pub struct Names {
    pools: BTreeSet<PoolName>,
    tides: BTreeSet<TideName>,
    quotas: BTreeSet<QuotaName>,
    tiers: BTreeSet<TierName>,
}

impl Names {
    pub fn learn(&mut self, fleet: &Fleet) {
        self.pools.extend(fleet.pools.keys().cloned());
        self.tides.extend(fleet.tides.keys().cloned());
        self.quotas.extend(fleet.quotas.keys().cloned());
        self.tiers.extend(fleet.tiers.keys().cloned());
    }

    pub fn pool(&self, name: &PoolName) -> Result<(), Wrong> {
        known("pool", name.as_str(), self.pools.iter().map(|name| name.as_str()))
    }

    pub fn tide(&self, name: &TideName) -> Result<(), Wrong> {
        known("tide", name.as_str(), self.tides.iter().map(|name| name.as_str()))
    }

    pub fn quota(&self, name: &QuotaName) -> Result<(), Wrong> {
        known("quota", name.as_str(), self.quotas.iter().map(|name| name.as_str()))
    }

    pub fn tier(&self, name: &TierName) -> Result<(), Wrong> {
        known("tier", name.as_str(), self.tiers.iter().map(|name| name.as_str()))
    }
}

impl Bench {
    /// The node in a slot, or a node by its name.
    pub fn node(&self, place: &Place) -> Result<NodeName, Wrong> {
        let Ok(slot) = place.0.parse::<SlotId>() else { return Ok(place.0.as_str().into()) };
        self.names.pool(&slot.pool)?;
        let state = self.sim.state();
        let (ledger, _) = state.ledger.whole();
        let known = ledger.slot(&slot).ok_or_else(|| Wrong::new(format!("the ledger knows no slot {slot}")))?;
        if let Some(node) = &known.node {
            return Ok(node.clone());
        }
        let seen = state.cluster.observe(state.now);
        let found =
            seen.nodes.seen().iter().find(|(_, node)| node.instance.is_some() && node.instance == known.instance);
        found.map(|(name, _)| name.clone()).ok_or_else(|| Wrong::new(format!("there is no node in {slot}")))
    }

    /// The same, and the cluster has it.
    pub fn node_there(&self, place: &Place) -> Result<NodeName, Wrong> {
        let (name, state) = (self.node(place)?, self.sim.state());
        let seen = state.cluster.observe(state.now);
        known("node", name.as_str(), seen.nodes.seen().keys().map(|name| name.as_str()))?;
        Ok(name)
    }

    pub fn instance(&self, place: &Place) -> Result<InstanceId, Wrong> {
        let slot: SlotId = place.0.parse().map_err(Wrong::new)?;
        self.names.pool(&slot.pool)?;
        let (ledger, _) = self.sim.state().ledger.whole();
        let known = ledger.slot(&slot).and_then(|slot| slot.instance.clone());
        known.ok_or_else(|| Wrong::new(format!("there is no instance in {slot}")))
    }
}

/// Whether a name is one of these; else what was probably meant, or all there is.
pub fn known<'a>(kind: &str, name: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Wrong> {
    let names: Vec<&str> = names.collect();
    if names.contains(&name) {
        return Ok(());
    }
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => format!("there is no {kind} at all"),
        None => format!("known: {}", names.join(", ")),
    };
    Err(Wrong::new(format!("there is no {kind} `{name}`")).hint(hint))
}
