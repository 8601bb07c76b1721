//! Pools that a tide makes larger or smaller: what of that is the tide's, and asks nobody.
//!
//! The merge of a tide consents to its sizes. Whoever edits a size is asked, so the ledger remembers the size that the
//! documents gave a pool when it last had that many nodes: what it lacks of that, the tide took; what it has beyond, the tide
//! brought. So it is with what a tide gives a pool while it is low: noted while that is not in force, so that less than this
//! in the night is somebody's edit. Which nodes go is for `compile::seats`.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::draft::{Course, Draft};
use super::drain::{Steps, step_id};
use super::slots::standing;
use super::types::*;
use super::view::{PoolView, SlotView, View};
use crate::effect::{Action, LedgerChange, Slot};
use crate::fleet::tide::Phase;
use crate::ids::PoolName;

/// Whether an empty slot is filled because a tide turned, and not because somebody wrote more.
pub fn fills(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> bool {
    let (Some(size), Some(place)) = (pool.spec.size, slot.place) else { return false };
    let had = view.input.ledger.pools.get(pool.name).and_then(|known| known.size);
    let gave_up = slot.record.is_some_and(|record| record.gave_up);
    view.standing.is_resized(pool.name) && !gave_up && (place >= size || had.is_some_and(|had| place < had))
}

/// From when on nobody is asked any more about a node that a tide gives up. As it makes a pool smaller for a while nobody is
/// hurried: the work is its owner's. As it turns it says itself until when it asks, and one that has turned is late.
pub fn hard_at(view: &View<'_>, pool: &PoolName) -> Option<Timestamp> {
    let tides = view.standing.tides.iter().filter(|(_, spec)| spec.resizes.contains(pool));
    let mut asked_until = None;
    for (name, spec) in tides {
        let phase = view.input.target.tides.get(name).copied().unwrap_or(Phase::High);
        match spec.asks_back(None, phase) {
            Some(_) if matches!(phase, Phase::Low { .. }) => return None,
            times => asked_until = asked_until.max(times.map(|(hard_at, _)| hard_at)),
        }
    }
    asked_until.or(Some(view.now))
}

/// Notes the size of each pool that a tide resizes, once it has that many nodes.
pub fn remember(view: &View<'_>, draft: &mut Draft) {
    for (name, pool) in view.pools.iter().filter(|(name, _)| view.standing.is_resized(name)) {
        let Some(size) = pool.spec.size else { continue };
        let had = view.input.ledger.pools.get(*name).and_then(|known| known.size);
        let has = pool.slots.iter().filter(|slot| slot.record.is_some_and(Slot::is_something)).count();
        let reached = has >= usize::try_from(size).unwrap_or(usize::MAX);
        let beyond = pool.slots.iter().any(|slot| slot.part.is_none());
        let is_so = match had {
            Some(had) if size == had => false,
            Some(had) if size < had => !beyond,
            Some(_) => reached,
            None => reached && !beyond,
        };
        if is_so {
            let change = LedgerChange::Sized { pool: (*name).clone(), nodes: size };
            let wanted = format!("note that pool/{name} has its {size} nodes, which a tide may change");
            note(draft, name, ("sized", name.to_string()), change, wanted);
        }
    }
    view.pools.iter().for_each(|(name, pool)| remember_low(view, name, pool, draft));
}

/// Notes what tides give a pool while they are low: at once while that is not in force, or more than it was; else when it is
/// done.
fn remember_low(view: &View<'_>, name: &PoolName, pool: &PoolView<'_>, draft: &mut Draft) {
    let none = BTreeMap::new();
    let written = view.standing.low_sizes.get(name).unwrap_or(&none);
    let Some(known) = view.input.ledger.pools.get(name).filter(|known| known.is_something()) else { return };
    let beyond = pool.slots.iter().any(|slot| slot.part.is_none());
    let in_force = view.input.target.sized_by(name);
    for (tide, nodes) in written.iter().filter(|(tide, nodes)| known.low.get(*tide) != Some(*nodes)) {
        let falls = known.low.get(tide).copied().or(known.size).or(pool.spec.size).is_some_and(|had| *nodes < had);
        if in_force != Some(tide) || !falls || !beyond {
            let change = LedgerChange::SizedLow { pool: name.clone(), tide: tide.clone(), nodes: Some(*nodes) };
            let wanted = format!("note that {tide} gives pool/{name} {nodes} nodes while it is low");
            note(draft, name, ("sized-low", format!("{name}/{tide}")), change, wanted);
        }
    }
    for tide in known.low.keys().filter(|tide| !written.contains_key(*tide)) {
        let change = LedgerChange::SizedLow { pool: name.clone(), tide: tide.clone(), nodes: None };
        let wanted = format!("forget the size that {tide} gave pool/{name}");
        note(draft, name, ("sized-low", format!("{name}/{tide}")), change, wanted);
    }
}

fn note(draft: &mut Draft, pool: &PoolName, (verb, of): (&str, String), change: LedgerChange, wanted: String) {
    let (on, reason) = (thing(pool), Reason::Bookkeeping);
    let mut made = Steps::new(standing(&on, &reason));
    made.push(step_id(verb, of, 0), Action::Record(change), vec![], (1, 2));
    let nodes = Vec::new();
    draft.courses.push(Course { on, nodes, wanted, reason, has_deadline: false, steps: made.steps });
}
