//! Nodes that cannot begin what they should: they stay in service, so they use up no room that others could have.
//!
//! Room (`maxUnavailable`, the canary, what a PodDisruptionBudget allows) is given out before it is known what becomes of
//! who has it: slices that have to stay up, no place for the next node, a freeze, somebody's word that is missing. So a
//! plan that gave room to a node which then waits is made again without that, and the node waits for what it waited for.
//! What was begun is out of service whatever it waits for, and counts.

use std::collections::BTreeMap;

use super::draft::{Course, Draft};
use super::drain;
use super::gates;
use super::rollout::{CANARY, MAX_UNAVAILABLE};
use super::serving::KEEP_READY;
use super::types::{Reason, WaitingOn, thing};
use super::view::{PoolView, SlotView, View};
use crate::ids::NodeName;

/// What each waits on.
pub type Kept = BTreeMap<NodeName, WaitingOn>;

/// How often a plan is made again. One time is nearly always enough: all that wait are found together. Another is needed
/// where what came into their place waits too.
pub const PASSES: usize = 4;

/// What was found to wait in a draft and had room in it, if somebody waits for room.
pub fn more(kept: &Kept, draft: &Draft) -> Kept {
    let for_room = |on: &WaitingOn| match on {
        WaitingOn::Budget { name, .. } => name == CANARY || name.starts_with(MAX_UNAVAILABLE),
        WaitingOn::DisruptionBudget(_) => true,
        _ => false,
    };
    if !draft.held.iter().any(|held| for_room(&held.waiting_on)) {
        return Kept::new();
    }
    let new = draft.kept.iter().filter(|(node, _)| !kept.contains_key(*node));
    new.map(|(node, on)| (node.clone(), on.clone())).collect()
}

/// Whether something that a gate holds should leave its room to others. What only has to wait for its hour keeps its
/// turn, and where nothing can be believed nobody goes.
pub fn leaves_room(on: &WaitingOn) -> bool {
    match on {
        WaitingOn::Until { .. } | WaitingOn::Canary { .. } => false,
        WaitingOn::Unread(_) | WaitingOn::Shrunk { .. } => false,
        WaitingOn::Budget { name, .. } => name != gates::REMOVED_PER_HOUR,
        _ => true,
    }
}

/// Why none of the nodes that move together can begin. Slices that have to stay up let nodes go one by one, so there it
/// takes all of them.
pub fn unit(kept: &Kept, view: &View<'_>, pool: &PoolView<'_>, slots: &[&SlotView<'_>]) -> Option<WaitingOn> {
    let known = || slots.iter().map(|slot| slot.node.and_then(|(node, _)| kept.get(node)));
    if let Some(on) = known().flatten().find(|on| !is_one_by_one(on)) {
        return Some(on.clone());
    }
    if known().all(|on| on.is_some()) {
        return known().flatten().next().cloned();
    }
    slots.iter().find_map(|slot| from_the_start(view, pool, slot))
}

pub fn is_one_by_one(on: &WaitingOn) -> bool {
    matches!(on, WaitingOn::Budget { name, .. } if name.starts_with(KEEP_READY))
}

/// What is known to be in the way before any steps are made: a freeze, a hand on one of the nodes that it reaches, work
/// that cannot leave.
fn from_the_start(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<WaitingOn> {
    let (node, _) = slot.node.filter(|_| slot.mark.is_none())?;
    let (on, reason) = (thing(pool.name), Reason::Outdated);
    let nodes = view.harm.reach(node);
    let course = Course { on, nodes, wanted: String::new(), reason, has_deadline: false, steps: Vec::new() };
    gates::keeps(view, &course).or_else(|| drain::cannot_begin(view, node))
}
