//! A pool that has another name: everything that is remembered of it goes along, in the memory of what was seen and in
//! the ledger itself.
//!
//! A plan is made of the ledger as it will be, so that whoever asks for a pool finds its nodes, its freeze and what it
//! lends under the name that the documents give. Until the record is written nothing else is done in the pool.

use std::collections::BTreeMap;

use super::effects::{EffectKey, Effects, Thing};
use super::ledger::{Head, Ledger, PoolLedger, Scope, Slot};
use crate::fleet::standing::TideSpec;
use crate::ids::PoolName;

impl Ledger {
    /// Takes the names that the documents give, and says which pools are still kept under another: the old name by the
    /// new one. `pools` are the documents' new and old names.
    pub fn take_names<'p>(
        &mut self,
        pools: impl IntoIterator<Item = (&'p PoolName, Option<&'p PoolName>)>,
    ) -> BTreeMap<PoolName, PoolName> {
        let pools: BTreeMap<&PoolName, Option<&PoolName>> = pools.into_iter().collect();
        let mut renamed = BTreeMap::new();
        for (to, from) in pools.iter().filter_map(|(to, from)| Some((*to, (*from)?))) {
            if !pools.contains_key(from) && self.can_rename(from, to) {
                self.rename(from, to);
                renamed.insert(to.clone(), from.clone());
            }
        }
        renamed
    }

    /// Whether something is kept under the old name, and nothing else under the new one. A rename that was broken off
    /// left the same under both.
    fn can_rename(&self, from: &PoolName, to: &PoolName) -> bool {
        let Some(old) = self.pools.get(from).filter(|old| old.is_something()) else { return false };
        self.pools.get(to).is_none_or(|there| !there.is_something() || there.knows(old))
    }

    /// Moves what is kept of a pool. A part of the ledger has only a part of it; slots of another pool are never lost.
    pub(super) fn rename(&mut self, from: &PoolName, to: &PoolName) {
        let has = |name: &PoolName| self.pools.get(name).is_some_and(PoolLedger::is_something);
        let (is_here, is_there) = (has(from), has(to));
        if is_here && !self.can_rename(from, to) {
            return;
        }
        self.head.rename(from, to);
        let notes =
            self.pools.values_mut().flat_map(|pool| pool.slots.values_mut()).filter_map(|slot| slot.exchange.as_mut());
        notes.filter(|note| note.with.pool == *from).for_each(|note| note.with.pool = to.clone());
        let Some(pool) = self.pools.get_mut(from).filter(|pool| pool.is_something()) else { return };
        let left = pool.emptied();
        let mut moved = std::mem::replace(pool, left);
        if is_there {
            return;
        }
        for (index, known) in self.pools.get(to).iter().flat_map(|known| &known.slots) {
            let slot = moved.slots.entry(*index).or_default();
            slot.generation = slot.generation.max(known.generation);
        }
        self.pools.insert(to.clone(), moved);
    }
}

impl PoolLedger {
    /// Whether every slot of the other is here, as far as it was or further.
    pub fn knows(&self, old: &PoolLedger) -> bool {
        let further = |(index, slot): (&u32, &Slot)| {
            self.slots.get(index).is_some_and(|found| found == slot || found.generation > slot.generation)
        };
        old.slots.iter().all(further)
    }

    /// The first slot with a request that nobody answered. It is sent again under the name that it was made for, so a
    /// pool is renamed only when there is none.
    pub fn unanswered(&self) -> Option<u32> {
        self.slots.iter().find(|(_, slot)| slot.intent.is_some()).map(|(index, _)| *index)
    }
}

impl Head {
    /// What names the pool names it anew: who froze it, what was approved for it and paid, what tides lend of it.
    fn rename(&mut self, from: &PoolName, to: &PoolName) {
        let mut frozen = std::mem::take(&mut self.frozen);
        let (old, new) = (Scope::Pool(from.clone()), Scope::Pool(to.clone()));
        // Somebody may have frozen it under its new name already: then both hold, and the stricter is kept.
        if let Some(place) = frozen.iter().position(|freeze| freeze.scope == old) {
            let moved = frozen.remove(place);
            match frozen.iter_mut().find(|freeze| freeze.scope == new) {
                Some(there) => there.all |= moved.all,
                None => frozen.insert(place, super::Freeze { scope: new, ..moved }),
            }
        }
        self.frozen = frozen;
        for opened in self.approvals.values_mut() {
            opened.left = renamed_effects(std::mem::take(&mut opened.left), from, to);
        }
        for spent in self.spent.values_mut() {
            *spent = std::mem::take(spent).into_iter().map(|purpose| renamed_purpose(purpose, from, to)).collect();
        }
        self.lent.values_mut().for_each(|lent| renamed_tide(&mut lent.spec, from, to));
    }
}

fn renamed_effects(effects: Effects, from: &PoolName, to: &PoolName) -> Effects {
    let mut renamed = Effects::default();
    for (key, amount) in effects.0 {
        let on = if key.on == Thing::Pool(from.clone()) { Thing::Pool(to.clone()) } else { key.on };
        renamed.add(&Effects(BTreeMap::from([(EffectKey { on, ..key }, amount)])));
    }
    renamed
}

/// What was paid for a launch names its slot: `launch train/3@2`.
fn renamed_purpose(purpose: String, from: &PoolName, to: &PoolName) -> String {
    let slot = purpose.strip_prefix("launch ").and_then(|slot| slot.strip_prefix(from.as_str()));
    match slot.filter(|rest| rest.starts_with('/')) {
        Some(rest) => format!("launch {to}{rest}"),
        None => purpose,
    }
}

fn renamed_tide(spec: &mut TideSpec, from: &PoolName, to: &PoolName) {
    let pools = spec.loans.iter_mut().map(|loan| &mut loan.pool).chain(&mut spec.resizes);
    pools.filter(|pool| *pool == from).for_each(|pool| *pool = to.clone());
}

#[cfg(test)]
mod tests;
