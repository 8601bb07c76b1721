//! Moving running nodes to a new template or cut: who may go now, by the pool's budget, canary and windows.
//!
//! The unit is what one gang ties together: it moves as a whole, and counts as the nodes that it spans. One that is
//! wider than the budget moves alone, instead of waiting for ever. Nodes that nobody uses go first, so that work that
//! has to move finds new ones. With `when: idle` a node goes when it is empty, and nobody is touched.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::harm::{Gang, gang_of};
use super::layout::is_order;
use super::types::WaitingOn;
use super::view::{Body, PoolView, SlotView, View};
use crate::effect::marks::is_starting;
use crate::fleet::updates::{Opening, When, opening_at};
use crate::ids::{NodeName, SlotId};

/// How long a node may take from the first cordon to being back, beside what its work needs to save itself: what its
/// steps may take, together.
const ONE_NODE: SignedDuration = SignedDuration::from_mins(30);

/// How long the tests may take that a node passes before it is let in.
const TESTS: SignedDuration = SignedDuration::from_mins(20);
/// How long a removal counts against the fleet's limit.
const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Who may move now, and why the others may not.
#[derive(Debug, Default)]
pub struct Rollout {
    pub go: BTreeSet<SlotId>,
    pub wait: BTreeMap<SlotId, WaitingOn>,
    /// All of them, as they will go.
    pub order: Vec<SlotId>,
    /// When the last will be done at the latest, if nothing comes between.
    pub done_by: Option<Timestamp>,
    /// Gangs that are wider than the budget, with how many nodes they span.
    pub wide: Vec<(String, usize)>,
}

/// Slots that move together.
type Unit<'s, 'a> = Vec<&'s SlotView<'a>>;

/// Decides for the slots of a pool that want to move. `moved` are those that are as wanted already, `leaving` those that
/// go out of service for another reason, `removed` those of the first whose machine is given up for another.
pub fn rollout(
    view: &View<'_>,
    pool: &PoolView<'_>,
    want: &[&SlotView<'_>],
    moved: &[&SlotView<'_>],
    leaving: &[&SlotView<'_>],
    removed: &BTreeSet<&SlotId>,
    hour: &mut Hour,
) -> Rollout {
    let mut out = Rollout::default();
    let updates = &pool.spec.updates;
    // What was begun goes on, whatever the clock says now, with all that a gang ties to it: half a change is worse than
    // either end. A node that was never let in is nobody's loss.
    let goes_on = |slot: &&SlotView<'_>| is_begun(slot) || is_away(slot);
    let (begun, fresh): (Vec<Unit<'_, '_>>, Vec<Unit<'_, '_>>) =
        units(view, updates.when, want).into_iter().partition(|unit| unit.iter().any(goes_on));
    out.go.extend(begun.iter().flatten().map(|slot| slot.id.clone()));
    out.order.extend(begun.iter().chain(&fresh).flatten().map(|slot| slot.id.clone()));
    if fresh.is_empty() {
        return out;
    }
    let canary = Canary::new(view, pool, moved, &out.go);
    let mut used = unavailable(pool, &begun, leaving);
    out.done_by = estimate(view, pool, &fresh, &Pace { used, canary: &canary, removed }, hour);
    if let Some(why) = closed(view, pool) {
        out.wait.extend(fresh.iter().flatten().map(|slot| (slot.id.clone(), why.clone())));
        return out;
    }
    let allowed = usize::try_from(updates.max_unavailable).unwrap_or(usize::MAX);
    let mut alone = out.go.is_empty() && !pool.slots.iter().any(|slot| is_moving(view, pool, slot));
    let mut canaries = canary.left();
    for unit in fresh {
        // A gang of any width goes where nothing else moves: there is no smaller part of it.
        let fits = unit.len() <= allowed.saturating_sub(used) || (unit.len() > allowed && allowed > 0 && alone);
        let busy = unit.iter().find_map(|slot| busy_with(view, slot));
        if unit.len() > allowed.max(1) {
            out.wide.push((busy.clone().unwrap_or_default(), unit.len()));
        }
        let idle = || busy.filter(|_| updates.when == When::Idle).map(|name| WaitingOn::Gang { name });
        let budget = || {
            let name = format!("updates.maxUnavailable of pool/{}", pool.name);
            let kept = kept_out(view, pool);
            let would_fit = unit.len() <= allowed.saturating_sub(used.saturating_sub(kept.len()));
            (!fits).then(|| match kept.first().filter(|_| would_fit) {
                Some(node) => WaitingOn::Person(format!(
                    "{node} is kept out of service and counts: tidewright return or undrain it, or raise {name}"
                )),
                None => WaitingOn::Budget { name, allowed: updates.max_unavailable, used: narrow(used) },
            })
        };
        match idle().or_else(|| canary.stops(pool, unit.len(), canaries, alone)).or_else(budget) {
            Some(why) => out.wait.extend(unit.iter().map(|slot| (slot.id.clone(), why.clone()))),
            None => {
                (used, alone) = (used + unit.len(), false);
                canaries = canaries.saturating_sub(unit.len());
                out.go.extend(unit.iter().map(|slot| slot.id.clone()));
            }
        }
    }
    out
}

/// What a roll-out waits for outside its windows.
fn closed(view: &View<'_>, pool: &PoolView<'_>) -> Option<WaitingOn> {
    let Opening::Closed { opens } = opening_at(&pool.spec.updates.windows, &view.standing.time_zone, view.now) else {
        return None;
    };
    let remedy = format!("to begin earlier, add the hour to updates.windows of pool/{}", pool.name);
    let why = format!("the update windows of pool/{} are closed", pool.name);
    Some(match opens {
        Some(at) => WaitingOn::Until { at, why, remedy: Some(remedy) },
        None => {
            WaitingOn::Person(format!("the update windows of pool/{} never open: change updates.windows", pool.name))
        }
    })
}

/// The nodes that go first and are watched, and how far they are.
struct Canary {
    /// How many go first; none without a canary.
    first: usize,
    /// Those that are new, or on their way.
    tried: usize,
    /// All that go first are there.
    stands: bool,
    /// Until when they are watched.
    watch: Option<Timestamp>,
}

impl Canary {
    fn new(view: &View<'_>, pool: &PoolView<'_>, moved: &[&SlotView<'_>], go: &BTreeSet<SlotId>) -> Self {
        let canary = pool.spec.updates.canary.as_ref();
        let first = canary.map_or(0, |canary| usize::try_from(canary.nodes).unwrap_or(usize::MAX));
        let moved: Vec<&SlotView<'_>> = moved.iter().copied().filter(|slot| !is_away(slot)).collect();
        // What is away comes back as it is wanted: it is being tried.
        let coming = pool.slots.iter().filter(|slot| slot.part.is_some() && is_away(slot) && slot.generation() > 0);
        let coming = coming.filter(|slot| !go.contains(&slot.id));
        let tried = moved.len() + go.len() + coming.count();
        let watch = canary.and_then(|canary| watched(view, canary.r#for.signed(), &moved, first));
        Self { first, tried, stands: moved.len() >= first, watch }
    }

    /// How many are still to be tried.
    fn left(&self) -> usize {
        self.first.saturating_sub(self.tried)
    }

    /// Why so many nodes may not go now, where `left` more may be tried.
    fn stops(&self, pool: &PoolView<'_>, nodes: usize, left: usize, alone: bool) -> Option<WaitingOn> {
        let budget = |used: usize| {
            Some(WaitingOn::Budget { name: "canary".into(), allowed: narrow(self.first), used: narrow(used) })
        };
        if self.first == 0 {
            None
        } else if self.tried < self.first {
            if nodes > left && !alone { budget(self.first - left) } else { None }
        } else if !self.stands {
            // The canaries are on their way: there is nothing to watch yet.
            budget(self.first)
        } else {
            self.watch.map(|at| WaitingOn::Until {
                at,
                why: format!("the canary of pool/{} is watched so long", pool.name),
                remedy: Some(format!("to go on earlier, shorten updates.canary.for of pool/{}", pool.name)),
            })
        }
    }
}

/// Whether we have begun to take this node out.
fn is_begun(slot: &SlotView<'_>) -> bool {
    slot.mark.as_ref().is_some_and(|mark| mark.why == "replace" || mark.why == "cut")
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

/// The first work that runs on a slot's node.
fn busy_with(view: &View<'_>, slot: &SlotView<'_>) -> Option<String> {
    let (node, _) = slot.node?;
    let pod = view.harm.pods_on(node).first()?;
    Some(view.harm.workload(pod).map_or_else(|| pod.name.to_string(), |workload| workload.name.to_string()))
}

/// Slots that a gang ties together: those that nobody uses first, then the narrowest, then by their numbers.
fn units<'s, 'a>(view: &View<'_>, when: When, slots: &[&'s SlotView<'a>]) -> Vec<Unit<'s, 'a>> {
    if when == When::Idle {
        return slots.iter().map(|slot| vec![*slot]).collect();
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
    units.sort_by_cached_key(|unit| (unit.iter().any(is_used), unit.len(), unit[0].id.clone()));
    units
}

/// Until when the canaries are watched; none once that is over.
fn watched(view: &View<'_>, length: SignedDuration, moved: &[&SlotView<'_>], first: usize) -> Option<Timestamp> {
    let since = |slot: &&SlotView<'_>| {
        let cut = slot.record?.remedies.iter().filter(|one| is_order(one)).map(|one| one.at).max();
        cut.max(slot.record?.launched)
    };
    let mut since: Vec<Timestamp> = moved.iter().filter_map(since).collect();
    since.sort_unstable();
    let last = since.get(first.checked_sub(1)?).or_else(|| since.last())?;
    let until = last.checked_add(length).ok()?;
    (until > view.now).then_some(until)
}

/// How many nodes of a pool are out of service, or about to be: because that was begun, or for another reason.
fn unavailable(pool: &PoolView<'_>, begun: &[Unit<'_, '_>], leaving: &[&SlotView<'_>]) -> usize {
    let going: BTreeSet<&SlotId> = begun.iter().flatten().chain(leaving).map(|slot| &slot.id).collect();
    let out = |slot: &&SlotView<'_>| is_away(slot) || is_begun(slot) || going.contains(&slot.id);
    pool.slots.iter().filter(|slot| slot.part.is_some()).filter(out).count()
}

/// The nodes of a pool that are out of service for as long as a person wants.
fn kept_out<'a>(view: &View<'_>, pool: &PoolView<'a>) -> Vec<&'a NodeName> {
    let head = &view.input.ledger.head;
    let nodes = pool.slots.iter().filter(|slot| slot.part.is_some()).filter_map(|slot| slot.node);
    let kept = |name: &&NodeName| head.quarantined.contains_key(*name) || head.drains.contains_key(*name);
    nodes.map(|(name, _)| name).filter(kept).collect()
}

/// What an estimate begins with.
struct Pace<'c> {
    /// Nodes that are out now.
    used: usize,
    canary: &'c Canary,
    /// What counts against the fleet's limit of removals.
    removed: &'c BTreeSet<&'c SlotId>,
}

/// The removals of the last hour and those that estimates have promised, for all pools together: the fleet's limit.
#[derive(Debug)]
pub struct Hour {
    allowed: usize,
    removed: Vec<Timestamp>,
}

impl Hour {
    pub fn new(view: &View<'_>) -> Self {
        let removed = view.input.ledger.pools.values().flat_map(|pool| &pool.removed).map(|(_, at)| *at);
        let mut removed: Vec<Timestamp> = removed.collect();
        removed.sort_unstable();
        let allowed = usize::try_from(view.standing.limits.nodes_removed_per_hour).unwrap_or(usize::MAX);
        Self { allowed, removed }
    }

    /// When so many nodes that may go at an instant are all gone: together, or as many an hour as the limit lets go.
    fn goes(&mut self, at: Timestamp, nodes: usize) -> Option<Timestamp> {
        let mut at = at;
        let mut left = nodes;
        while left > 0 {
            let now = left.min(self.allowed);
            if now == 0 {
                return None;
            }
            // The last that has to be an hour old so that there is room for these.
            let oldest = (self.removed.len() + now).checked_sub(self.allowed + 1);
            if let Some(before) = oldest.and_then(|place| self.removed.get(place)) {
                at = at.max(before.checked_add(AN_HOUR).ok()?);
            }
            self.removed.extend(std::iter::repeat_n(at, now));
            left -= now;
        }
        Some(at)
    }
}

/// When the last will be back, if each takes as long as it may: the canary is watched, nothing begins outside the
/// windows, no more is out at once than may be, and no more goes in an hour than the fleet's limit. None where nobody
/// can say.
fn estimate(
    view: &View<'_>,
    pool: &PoolView<'_>,
    fresh: &[Unit<'_, '_>],
    pace: &Pace<'_>,
    hour: &mut Hour,
) -> Option<Timestamp> {
    let updates = &pool.spec.updates;
    let is_busy = |unit: &Unit<'_, '_>| unit.iter().any(|slot| busy_with(view, slot).is_some());
    if updates.when == When::Idle && fresh.iter().any(is_busy) {
        return None;
    }
    let one = one_node(view, pool);
    let mut moves = |at: Timestamp, batch: &[Unit<'_, '_>]| {
        let saves = batch.iter().flatten().filter_map(|slot| saves_within(view, slot)).max();
        let nodes = batch.iter().flatten().filter(|slot| pace.removed.contains(&slot.id)).count();
        // A window that closes while the limit holds the next one back is waited for anew.
        let mut begins = opens(view, pool, at)?;
        let gone = hour.goes(begins, nodes)?;
        begins = opens(view, pool, gone)?;
        begins.checked_add(one).ok()?.checked_add(saves.unwrap_or_default()).ok()
    };
    let (mut at, mut left) = (view.now, fresh);
    if pace.used > 0 {
        at = at.checked_add(one).ok()?;
    }
    if let Some(canary) = updates.canary.as_ref().filter(|_| !pace.canary.stands) {
        if pace.canary.left() > 0 {
            let (batch, rest) = left.split_at(together(left, pace.canary.left()));
            at = moves(at, batch)?;
            left = rest;
        }
        at = at.checked_add(canary.r#for.signed()).ok()?;
    }
    at = at.max(pace.canary.watch.unwrap_or(at));
    while !left.is_empty() {
        let (batch, rest) = left.split_at(together(left, usize::try_from(updates.max_unavailable).ok()?));
        at = moves(at, batch)?;
        left = rest;
    }
    Some(at)
}

/// When a move that is ready at an instant may begin.
fn opens(view: &View<'_>, pool: &PoolView<'_>, at: Timestamp) -> Option<Timestamp> {
    match opening_at(&pool.spec.updates.windows, &view.standing.time_zone, at) {
        Opening::Open { .. } => Some(at),
        Opening::Closed { opens } => opens,
    }
}

/// How long a node may be away, beside what its work needs to save itself: tests before it is let in take their time.
fn one_node(view: &View<'_>, pool: &PoolView<'_>) -> SignedDuration {
    let is_tested = !super::health::admission(view, pool).is_empty();
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

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
