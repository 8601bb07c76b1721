//! Moving running nodes to a new template or cut: who may go now, by the pool's budget, canary and windows.
//!
//! The unit is what one gang ties together: it moves as a whole, and counts as the nodes that it spans. One that is
//! wider than the budget moves alone, instead of waiting for ever: where nothing else moves, and nobody keeps another node
//! out. Nodes that nobody uses go first, so that work that has to move finds new ones. With `when: idle` a node goes when
//! it is empty, and nobody is touched. What cannot end while a window is open is not begun in it.

mod canary;
mod estimate;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::harm::{Gang, gang_of};
use super::kept::{self, Kept};
use super::types::{Reason, Step, Urgency, WaitingOn};
use super::view::{Body, PoolView, SlotView, View};
use super::wish::{EXCHANGE, MOVE};
use crate::effect::marks::is_starting;
use crate::effect::{Action, ClusterAction, Fact};
use crate::fleet::updates::{Opening, When, fits_at, opening_at};
use crate::ids::{NodeName, SlotId};
use crate::units::Duration;
use canary::Canaries;
pub use estimate::Hour;
use estimate::{Pace, estimate, may_take};
use users::Users;

/// The budget of nodes that go first.
pub const CANARY: &str = "canary";
/// The budget of nodes that may be out of service at once.
pub const MAX_UNAVAILABLE: &str = "updates.maxUnavailable";

/// Who may move now, and why the others may not.
#[derive(Debug, Default)]
pub struct Rollout {
    /// Slots that one gang ties together and that go now: all of them, or none.
    pub together: Vec<Vec<SlotId>>,
    pub wait: BTreeMap<SlotId, WaitingOn>,
    /// Nodes that cannot begin, and that others are not kept by.
    pub kept: Kept,
    /// All of them, as they will go.
    pub order: Vec<SlotId>,
    /// When the last will be done at the latest, if nothing comes between.
    pub done_by: Option<Timestamp>,
    /// Gangs that are wider than the budget, with how many nodes they span.
    pub wide: Vec<(String, usize)>,
    /// Canaries that are seen out of service, which is to be noted.
    pub unwatched: BTreeSet<NodeName>,
}

/// The slots of a pool, by what a roll-out has to do with them.
#[derive(Debug)]
pub struct Candidates<'s, 'a> {
    /// They want to move.
    pub want: Vec<&'s SlotView<'a>>,
    /// They go out of service for another reason.
    pub leaving: Vec<(&'s SlotView<'a>, &'s Reason)>,
    /// Those of them that are replaced: the next one is as wanted now.
    pub replaced: Vec<(&'s SlotView<'a>, &'s Reason)>,
    /// Nodes that are sick, with what of.
    pub sick: BTreeMap<&'s SlotId, String>,
    /// Those of the first whose machine is given up for another.
    pub removed: BTreeSet<&'s SlotId>,
    /// Those of the first that the cloud may take at any time: in which window it does is not for us to say.
    pub pressed: BTreeSet<&'s SlotId>,
    /// Nodes that are known to wait.
    pub kept: &'s Kept,
}

/// Slots that move together.
type Unit<'s, 'a> = Vec<&'s SlotView<'a>>;

/// Decides for the slots of a pool that want to move.
pub fn rollout<'a>(view: &View<'a>, pool: &PoolView<'a>, slots: &Candidates<'_, 'a>, hour: &mut Hour) -> Rollout {
    let mut out = Rollout::default();
    // What was begun goes on, whatever the clock says now, with all that a gang ties to it: half a change is worse than
    // either end. A node that was never let in is nobody's loss, where nobody wants to see how one does first.
    let has_canary = pool.spec.updates.canary.is_some();
    let goes_on = |slot: &&SlotView<'_>| is_begun(slot) || (is_away(slot) && !has_canary);
    let units = units(view, pool.spec.updates.when, &slots.want);
    let (begun, fresh): (Vec<Unit<'_, '_>>, Vec<Unit<'_, '_>>) =
        units.into_iter().partition(|unit| unit.iter().any(goes_on));
    out.together.extend(begun.iter().filter(|unit| unit.len() > 1).map(ids));
    out.order.extend(begun.iter().chain(&fresh).flat_map(ids));
    if fresh.is_empty() {
        return out;
    }
    let mut turn = Turn::new(view, pool, slots, &begun);
    out.unwatched = turn.canaries.unwatched();
    let moves = |slot: &SlotId| fresh.iter().flatten().any(|other| other.id == *slot);
    let kept = turn.users.kept().filter(|(slot, ..)| !moves(slot)).count();
    let used = turn.users.count().saturating_sub(kept);
    let pace = Pace { used, kept, canaries: &turn.canaries, removed: &slots.removed };
    out.done_by = estimate(view, pool, &fresh, &pace, hour);
    for unit in &fresh {
        if unit.len() > turn.allowed.max(1) {
            out.wide.push((busy_with(view, unit).into_iter().next().unwrap_or_default(), unit.len()));
        }
        let is_pressed = unit.iter().all(|slot| slots.pressed.contains(&slot.id));
        match turn.stops(unit, is_pressed) {
            Some(why) => out.wait.extend(unit.iter().map(|slot| (slot.id.clone(), why.clone()))),
            None => match kept::unit(slots.kept, view, pool, unit) {
                Some(why) => {
                    let nodes = unit.iter().filter_map(|slot| slot.node);
                    out.kept.extend(nodes.map(|(node, _)| (node.clone(), why.clone())));
                }
                None => {
                    turn.takes(unit);
                    out.together.extend((unit.len() > 1).then(|| ids(unit)));
                }
            },
        }
    }
    out
}

fn ids(unit: &Unit<'_, '_>) -> Vec<SlotId> {
    unit.iter().map(|slot| slot.id.clone()).collect()
}

/// What a pool's budget, canary and windows still let go in this plan.
struct Turn<'t, 'a> {
    view: &'t View<'a>,
    pool: &'t PoolView<'a>,
    canaries: Canaries,
    /// How many nodes may be out of service at once, and which are.
    allowed: usize,
    users: Users,
    /// Nothing moves yet.
    alone: bool,
}

impl<'t, 'a> Turn<'t, 'a> {
    fn new(
        view: &'t View<'a>,
        pool: &'t PoolView<'a>,
        slots: &Candidates<'_, '_>,
        begun: &[Unit<'_, '_>],
    ) -> Turn<'t, 'a> {
        let going: BTreeSet<&SlotId> = begun.iter().flatten().map(|slot| &slot.id).collect();
        // One that is listed and serves nobody is away, whatever became of its machine.
        let is_out = |slot: &SlotView<'_>| slot.part.is_some() && slot.node.is_some() && is_away(slot);
        let alone = going.is_empty() && !pool.slots.iter().any(|slot| is_moving(view, pool, slot) || is_out(slot));
        Self {
            view,
            pool,
            canaries: Canaries::new(view, pool, slots, begun),
            allowed: usize::try_from(pool.spec.updates.max_unavailable).unwrap_or(usize::MAX),
            users: Users::new(view, pool, begun, &slots.leaving),
            alone,
        }
    }

    /// Why these may not go now.
    fn stops(&self, unit: &Unit<'_, '_>, is_pressed: bool) -> Option<WaitingOn> {
        let closed = if is_pressed { None } else { self.closed(unit) };
        closed
            .or_else(|| self.idle(unit))
            .or_else(|| self.canaries.stops(self.pool, unit, self.alone))
            .or_else(|| self.budget(unit))
    }

    /// These go.
    fn takes(&mut self, unit: &Unit<'_, '_>) {
        unit.iter().for_each(|slot| self.users.goes(slot));
        self.alone = false;
        self.canaries.takes(unit);
    }

    /// Outside the windows nothing is begun, and in them nothing that does not end before they close.
    fn closed(&self, unit: &Unit<'_, '_>) -> Option<WaitingOn> {
        let (windows, zone, now) = (&self.pool.spec.updates.windows, &self.view.standing.time_zone, self.view.now);
        let takes = may_take(self.view, self.pool, unit);
        let long = Duration::secs(u64::try_from(takes.as_secs()).unwrap_or(0));
        let pool = self.pool.name;
        let Some(at) = fits_at(windows, zone, now, takes) else {
            return Some(WaitingOn::Person(format!(
                "no update window of pool/{pool} is as long as this may take, {long}: make one longer in updates.windows"
            )));
        };
        if at <= now {
            return None;
        }
        let opens = match opening_at(windows, zone, now) {
            Opening::Open { .. } => None,
            Opening::Closed { opens } => opens,
        };
        let (why, what) = match opens == Some(at) {
            true => (format!("the update windows of pool/{pool} are closed"), "add the hour to"),
            false => (
                format!("this may take {long}, and no update window of pool/{pool} is open so long before"),
                "lengthen one of",
            ),
        };
        let remedy = format!("to begin earlier, {what} updates.windows of pool/{pool}");
        Some(WaitingOn::Until { at, why, remedy: Some(remedy) })
    }

    /// With `when: idle` nobody is touched.
    fn idle(&self, unit: &Unit<'_, '_>) -> Option<WaitingOn> {
        let work = busy_with(self.view, unit);
        let waits = self.pool.spec.updates.when == When::Idle && !work.is_empty();
        waits.then(|| WaitingOn::Gang { name: work.join(" and ") })
    }

    /// What is out anyway takes no room by going. A gang of any width goes where nothing else moves, and nobody keeps
    /// another node out: there is no smaller part of it. A node that cannot be had is not in its way.
    fn budget(&self, unit: &Unit<'_, '_>) -> Option<WaitingOn> {
        let (allowed, used, nodes) = (self.allowed, self.users.count(), self.users.take(unit));
        let is_wide = unit.len() > allowed && allowed > 0;
        let mut others = self.users.kept().filter(|(id, ..)| !unit.iter().any(|slot| slot.id == **id)).peekable();
        let is_alone = self.alone && others.peek().is_none();
        if nodes <= allowed.saturating_sub(used) || (is_wide && is_alone) {
            return None;
        }
        let name = format!("{MAX_UNAVAILABLE} of pool/{}", self.pool.name);
        // What else is out comes back by itself; where that is not enough, only a person makes room.
        let left = allowed.saturating_sub(self.users.kept().count());
        let by_person = is_wide || (nodes > left && nodes <= allowed);
        let remedy = others.next().filter(|_| by_person);
        let remedy = remedy.map(|(.., remedy)| format!("{remedy}, or raise {name}"));
        let by = self.users.words();
        Some(WaitingOn::Budget { name, allowed: narrow(allowed), used: narrow(used), by, remedy })
    }
}

/// What a node that a roll-out takes out is closed for, by its mark. Tides and health close some for the same.
const OUT_FOR: [&str; 4] = ["replace", "cut", EXCHANGE, MOVE];

/// Whether we have begun to take this node out.
fn is_begun(slot: &SlotView<'_>) -> bool {
    slot.mark.as_ref().is_some_and(|mark| OUT_FOR.contains(&mark.why.as_str()))
}

impl Step {
    /// Whether it closes a node in service that goes because its pool's update budget has room for it.
    pub fn takes_room(&self) -> bool {
        let Action::Cluster(ClusterAction::Cordon { mark, .. }) = &self.action else { return false };
        let is_new = self.requires.iter().any(|fact| matches!(fact, Fact::Unopened(_)));
        self.urgency == Urgency::Chosen && OUT_FOR.contains(&mark.why.as_str()) && !is_new
    }
}

/// Whether a slot has no node in service: none at all, or one that is not let in yet.
fn is_away(slot: &SlotView<'_>) -> bool {
    slot.body != Body::Serving || slot.node.is_some_and(|(_, node)| is_starting(node))
}

/// Whether a slot's node is on its way out or in. A slot that lacks one for long, because there is none to be had, moves
/// nothing.
fn is_moving(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> bool {
    let recent = |at: &Timestamp| view.now.duration_since(*at) < SignedDuration::from_hours(1);
    let removed = || view.input.ledger.pools.get(pool.name).into_iter().flat_map(|known| &known.removed);
    let is_removed = || removed().any(|(index, at)| *index == slot.id.index && recent(at));
    match slot.body {
        Body::Nothing | Body::Missing | Body::Odd => slot.part.is_some() && is_removed(),
        Body::Serving => is_begun(slot) || is_away(slot),
        Body::InFlight(_) | Body::Found(_) | Body::Starting | Body::Dying | Body::Dead => slot.part.is_some(),
    }
}

/// The work that runs on the nodes of these slots, by name.
fn busy_with(view: &View<'_>, unit: &Unit<'_, '_>) -> Vec<String> {
    let nodes = unit.iter().filter_map(|slot| slot.node).map(|(name, _)| name);
    let mut names: Vec<String> = nodes.flat_map(|node| view.harm.work_on(node)).collect();
    names.sort();
    names.dedup();
    names
}

/// Slots that a gang ties together: those that are out of service anyway first, then those that nobody uses, then the
/// narrowest, then by their numbers.
fn units<'s, 'a>(view: &View<'_>, when: When, slots: &[&'s SlotView<'a>]) -> Vec<Unit<'s, 'a>> {
    let is_open = |slot: &&SlotView<'_>| slot.mark.is_none();
    if when == When::Idle {
        let mut units: Vec<Unit<'s, 'a>> = slots.iter().map(|slot| vec![*slot]).collect();
        units.sort_by_key(|unit| unit.iter().all(is_open));
        return units;
    }
    let mut sets = petgraph::unionfind::UnionFind::<usize>::new(slots.len());
    let mut first: BTreeMap<Gang<'_>, usize> = BTreeMap::new();
    for (place, slot) in slots.iter().enumerate() {
        let pods = slot.node.map_or(&[][..], |(node, _)| view.harm.pods_on(node));
        for gang in pods.iter().filter_map(|pod| gang_of(pod)) {
            let other = *first.entry(gang).or_insert(place);
            sets.union(place, other);
        }
    }
    let mut units: BTreeMap<usize, Unit<'s, 'a>> = BTreeMap::new();
    for (place, slot) in slots.iter().enumerate() {
        units.entry(sets.find(place)).or_default().push(slot);
    }
    let is_used = |slot: &&SlotView<'_>| slot.node.is_some_and(|(node, _)| !view.harm.pods_on(node).is_empty());
    let mut units: Vec<_> = units.into_values().collect();
    units.sort_by_cached_key(|unit| {
        (unit.iter().all(is_open), unit.iter().any(is_used), unit.len(), unit[0].id.clone())
    });
    units
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
