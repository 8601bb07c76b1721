//! When a roll-out will be done at the latest: what its moves may take, one batch after the other.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::canary::{Ahead, Canaries};
use super::{Unit, busy_with};
use crate::fleet::updates::{When, fits_at};
use crate::ids::SlotId;
use crate::plan::health;
use crate::plan::removed::{AN_HOUR, removals};
use crate::plan::view::{PoolView, SlotView, View};

/// How long a node may take from the first cordon to being back, beside what its work needs to save itself: what its
/// steps may take, together.
const ONE_NODE: SignedDuration = SignedDuration::from_mins(30);

/// How long the tests may take that a node passes before it is let in.
const TESTS: SignedDuration = SignedDuration::from_mins(20);

/// What an estimate begins with.
pub(super) struct Pace<'c> {
    /// Nodes that are out now and come back by themselves, and those that somebody keeps out.
    pub used: usize,
    pub kept: usize,
    pub canaries: &'c Canaries,
    /// What counts against the fleet's limit of removals.
    pub removed: &'c BTreeSet<&'c SlotId>,
}

/// The removals of the last hour and those that estimates have promised, for all pools together: the fleet's limit.
#[derive(Clone, Debug)]
pub struct Hour {
    allowed: usize,
    removed: Vec<Timestamp>,
}

impl Hour {
    pub fn new(view: &View<'_>) -> Self {
        let removed = removals(view.input);
        let allowed = usize::try_from(view.standing.limits.nodes_removed_per_hour).unwrap_or(usize::MAX);
        Self { allowed, removed }
    }

    /// When the last of these units, of so many nodes each, may go where the first may at an instant. A unit goes in one
    /// hour or never: where it has more nodes than the limit, nobody can say.
    fn goes(&mut self, at: Timestamp, units: impl Iterator<Item = usize>) -> Option<Timestamp> {
        let mut at = at;
        for nodes in units.filter(|nodes| *nodes > 0) {
            if nodes > self.allowed {
                return None;
            }
            // The last that has to be an hour old so that there is room for these.
            let oldest = (self.removed.len() + nodes).checked_sub(self.allowed + 1);
            if let Some(before) = oldest.and_then(|place| self.removed.get(place)) {
                at = at.max(before.checked_add(AN_HOUR).ok()?);
            }
            self.removed.extend(std::iter::repeat_n(at, nodes));
        }
        Some(at)
    }
}

/// When the last will be back, if each takes as long as it may: the canary is watched, nothing begins outside the
/// windows, no more is out at once than may be, and no more goes in an hour than the fleet's limit. None where nobody
/// can say.
pub(super) fn estimate(
    view: &View<'_>,
    pool: &PoolView<'_>,
    fresh: &[Unit<'_, '_>],
    pace: &Pace<'_>,
    hour: &mut Hour,
) -> Option<Timestamp> {
    let updates = &pool.spec.updates;
    if updates.when == When::Idle && fresh.iter().any(|unit| !busy_with(view, unit).is_empty()) {
        return None;
    }
    let mut moves = |at: Timestamp, batch: &[Unit<'_, '_>]| {
        let takes = batch.iter().map(|unit| may_take(view, pool, unit)).max()?;
        let begins = |at: Timestamp| fits_at(&updates.windows, &view.standing.time_zone, at, takes);
        let removed = |unit: &Unit<'_, '_>| unit.iter().filter(|slot| pace.removed.contains(&slot.id)).count();
        // A window that closes while the limit holds the next one back is waited for anew.
        let gone = hour.goes(begins(at)?, batch.iter().map(removed))?;
        begins(gone)?.checked_add(takes).ok()
    };
    let (mut at, mut left) = (view.now, fresh);
    if pace.used > 0 {
        at = at.checked_add(one_node(view, pool)).ok()?;
    }
    match pace.canaries.ahead() {
        Ahead::Nothing => {}
        Ahead::Tries(first) => {
            if first > 0 {
                let (batch, rest) = left.split_at(together(left, first));
                at = moves(at, batch)?;
                left = rest;
            }
            at = at.checked_add(updates.canary.as_ref()?.r#for.signed()).ok()?;
        }
        Ahead::Until(watched) => at = at.max(watched),
        Ahead::Person => return None,
    }
    let allowed = usize::try_from(updates.max_unavailable).ok()?;
    let room = allowed.saturating_sub(pace.kept);
    // What a person keeps out is in the way of what would fit beside it otherwise, and of what goes alone.
    if pace.kept > 0 && left.iter().any(|unit| unit.len() > room) {
        return None;
    }
    while !left.is_empty() {
        let (batch, rest) = left.split_at(together(left, room));
        at = moves(at, batch)?;
        left = rest;
    }
    Some(at)
}

/// How long these slots may be away together: their work saves itself first.
pub(super) fn may_take(view: &View<'_>, pool: &PoolView<'_>, unit: &Unit<'_, '_>) -> SignedDuration {
    let saves = unit.iter().filter_map(|slot| saves_within(view, slot)).max();
    one_node(view, pool).saturating_add(saves.unwrap_or_default())
}

/// How long a node may be away, beside what its work needs to save itself: tests before it is let in take their time.
fn one_node(view: &View<'_>, pool: &PoolView<'_>) -> SignedDuration {
    let is_tested = !health::admission(view, pool).is_empty();
    if is_tested { ONE_NODE + TESTS } else { ONE_NODE }
}

/// How many of these go together: as many as have no more nodes than allowed, and one in any case.
fn together(units: &[Unit<'_, '_>], allowed: usize) -> usize {
    let mut nodes = 0;
    let fits = |unit: &&Unit<'_, '_>| {
        nodes += unit.len();
        nodes <= allowed
    };
    units.iter().take_while(fits).count().clamp(1, units.len().max(1))
}

/// How long the work on a slot's node may take to save itself.
fn saves_within(view: &View<'_>, slot: &SlotView<'_>) -> Option<SignedDuration> {
    let (node, _) = slot.node?;
    let tiers = view.harm.pods_on(node).iter().filter_map(|pod| view.harm.tier_of(view.harm.workload(pod)?));
    tiers.filter_map(|(_, tier)| tier.checkpoint.as_ref()).map(|checkpoint| checkpoint.deadline.signed()).max()
}
