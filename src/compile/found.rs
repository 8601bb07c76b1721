//! Machines of ours that no slot remembers, because the memory or an answer was lost: which slot each of them serves.
//!
//! A tag says for which slot a machine was launched, under the name that the pool had then. Where no pool is called that now,
//! the documents say which was, and where they no longer do, the labels on its node say what it serves.

use std::collections::{BTreeMap, BTreeSet};

use crate::effect::marks::{POOL, SLOT};
use crate::effect::{Ledger, PoolLedger, Slot};
use crate::fleet::Target;
use crate::ids::{FleetUid, InstanceId, PoolName, SlotId};
use crate::observed::{CloudSeen, ClusterSeen, NodeSeen, SlotTag};

/// One machine for each slot of which nothing is remembered. Where two say that they are the same slot's, it is for a person
/// to say which is.
pub fn found(
    fleet: &FleetUid,
    target: &Target,
    ledger: &Ledger,
    cloud: &CloudSeen,
    cluster: &ClusterSeen,
) -> BTreeMap<SlotId, InstanceId> {
    let remembered = ledger.pools.values().flat_map(|pool| pool.slots.values());
    let remembered: BTreeSet<&InstanceId> = remembered.filter_map(|slot| slot.instance.as_ref()).collect();
    let tagged = cloud.instances.seen().iter().filter_map(|(id, seen)| Some((id, seen.tag.as_ref()?, seen)));
    let ours = tagged.filter(|(id, tag, seen)| tag.fleet == *fleet && seen.state.serves() && !remembered.contains(id));
    let names = Names::new(target, ledger, cluster);
    let mut found: BTreeMap<SlotId, Vec<(&InstanceId, &SlotTag)>> = BTreeMap::new();
    for (id, tag, _) in ours {
        found.entry(names.slot(id, tag)).or_default().push((id, tag));
    }
    let is_free = |slot: &Slot| slot.instance.is_none() && slot.node.is_none() && slot.intent.is_none();
    let only = |(slot, mut all): (SlotId, Vec<(&InstanceId, &SlotTag)>)| {
        let (id, tag) = all.pop().filter(|_| all.is_empty())?;
        let known = ledger.slot(&slot);
        let is_its = known.is_none_or(|known| is_free(known) && tag.generation >= known.generation);
        is_its.then(|| (slot, id.clone()))
    };
    found.into_iter().filter_map(only).collect()
}

/// What pools are called now, for whoever says what one was called.
#[derive(Debug)]
pub struct Names<'a> {
    target: &'a Target,
    ledger: &'a Ledger,
    renamed: BTreeMap<&'a PoolName, &'a PoolName>,
    by_instance: BTreeMap<&'a InstanceId, &'a NodeSeen>,
}

impl<'a> Names<'a> {
    pub fn new(target: &'a Target, ledger: &'a Ledger, cluster: &'a ClusterSeen) -> Self {
        let renamed = target.pools.iter().filter_map(|(name, pool)| Some((pool.renamed_from.as_ref()?, name)));
        let nodes = cluster.nodes.seen().values();
        let by_instance = nodes.filter_map(|node| Some((node.instance.as_ref()?, node))).collect();
        Self { target, ledger, renamed: renamed.collect(), by_instance }
    }

    /// The slot that an unremembered machine serves: the one of its tag, unless its pool has another name now.
    pub fn slot(&self, id: &InstanceId, tag: &SlotTag) -> SlotId {
        let (pool, index) = (&tag.slot.pool, tag.slot.index);
        let known = self.ledger.pools.get(pool);
        if self.target.pools.contains_key(pool) || known.is_some_and(PoolLedger::is_something) {
            return tag.slot.clone();
        }
        let labelled = || self.labelled(id, index).filter(|_| known.is_none());
        let now = self.renamed.get(pool).copied().or_else(labelled);
        now.map_or_else(|| tag.slot.clone(), |now| SlotId::new(now, index))
    }

    /// The pool whose label its node carries, where the number is the same.
    fn labelled(&self, id: &InstanceId, index: u32) -> Option<&'a PoolName> {
        let labels = &self.by_instance.get(id)?.labels;
        let is_it = labels.get(SLOT).and_then(|slot| slot.parse().ok()) == Some(index);
        let (pool, _) = self.target.pools.get_key_value(&PoolName::from(labels.get(POOL)?.as_str()))?;
        is_it.then_some(pool)
    }
}
