//! Moving running nodes to a new template or cut: who may go now, by the pool's budget, canary and windows.
//!
//! The unit is what one gang ties together: with `when: drain` it counts as one however many nodes it spans, so a gang
//! that is wider than the budget moves as a whole instead of waiting for ever. With `when: idle` a node goes when it is
//! empty, and nobody is touched.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::harm::{Gang, gang_of};
use super::layout::CUT_RULE;
use super::types::WaitingOn;
use super::view::{Body, PoolView, SlotView, View};
use crate::fleet::updates::{Opening, When, opening_at};
use crate::ids::SlotId;

/// How long one node takes from the first cordon to being back, roughly: for estimates.
const ONE_NODE: SignedDuration = SignedDuration::from_mins(15);

/// Who may move now, and why the others may not.
#[derive(Debug, Default)]
pub struct Rollout {
    pub go: BTreeSet<SlotId>,
    pub wait: BTreeMap<SlotId, WaitingOn>,
    /// When the last will be done, if nothing comes between.
    pub done_by: Option<Timestamp>,
    /// Gangs that are wider than the budget, with how many nodes they span.
    pub wide: Vec<(String, usize)>,
}

/// Decides for the slots of a pool that want to move. `moved` are those that are as wanted already, `leaving` those that
/// go out of service for another reason.
pub fn rollout(
    view: &View<'_>,
    pool: &PoolView<'_>,
    want: &[&SlotView<'_>],
    moved: &[&SlotView<'_>],
    leaving: &[&SlotView<'_>],
) -> Rollout {
    let mut out = Rollout::default();
    let updates = &pool.spec.updates;
    // What was begun goes on, whatever the clock says now: half a change is worse than either end.
    let (begun, fresh): (Vec<&SlotView<'_>>, Vec<&SlotView<'_>>) =
        want.iter().copied().partition(|slot| is_begun(slot));
    out.go.extend(begun.iter().map(|slot| slot.id.clone()));
    if fresh.is_empty() {
        return out;
    }
    let wait_all = |out: &mut Rollout, why: WaitingOn| {
        out.wait.extend(fresh.iter().map(|slot| (slot.id.clone(), why.clone())));
    };
    let opens = match opening_at(&updates.windows, &view.standing.time_zone, view.now) {
        Opening::Open { .. } => None,
        Opening::Closed { opens } => Some(opens),
    };
    let units = units(view, updates.when, &fresh);
    let canary = updates.canary.as_ref();
    // What is away comes back as it is wanted: it is being tried.
    let was_there = |slot: &&SlotView<'_>| slot.record.is_some_and(|record| record.generation > 0);
    let coming = pool.slots.iter().filter(|slot| slot.part.is_some() && slot.body != Body::Serving);
    let tried = moved.len() + begun.len() + coming.filter(was_there).count();
    let first = canary.map_or(0, |canary| usize::try_from(canary.nodes).unwrap_or(usize::MAX));
    let watch = canary.and_then(|canary| watched(view, canary.r#for.signed(), moved, first));
    out.done_by = estimate(view, opens.flatten(), watch, units.len(), updates.max_unavailable);
    if let Some(opens) = opens {
        let why = opens.map_or_else(|| WaitingOn::Person("its update windows never open".into()), WaitingOn::Until);
        wait_all(&mut out, why);
        return out;
    }
    let away = unavailable(view, pool, leaving);
    let allowed = usize::try_from(updates.max_unavailable).unwrap_or(usize::MAX);
    let mut room = allowed.saturating_sub(away);
    let mut canaries = first.saturating_sub(tried);
    for unit in units {
        let name = |slot: &&SlotView<'_>| slot.id.clone();
        let busy = unit.iter().find_map(|slot| busy_with(view, slot));
        let why = if updates.when == When::Idle && busy.is_some() {
            busy.map(|name| WaitingOn::Gang { name })
        } else if canary.is_some() && tried < first && canaries == 0 {
            Some(WaitingOn::Budget { name: "canary".into(), allowed: narrow(first), used: narrow(tried) })
        } else if canary.is_some() && tried >= first && moved.len() < first {
            // The canaries are on their way: there is nothing to watch yet.
            Some(WaitingOn::Budget { name: "canary".into(), allowed: narrow(first), used: narrow(first) })
        } else if let Some(until) = watch.filter(|_| tried >= first) {
            Some(WaitingOn::Until(until))
        } else if room == 0 {
            let name = format!("updates.maxUnavailable of pool/{}", pool.name);
            Some(WaitingOn::Budget { name, allowed: updates.max_unavailable, used: narrow(allowed.max(away)) })
        } else {
            None
        };
        match why {
            Some(why) => out.wait.extend(unit.iter().map(|slot| (name(slot), why.clone()))),
            None => {
                room -= 1;
                canaries = canaries.saturating_sub(unit.len());
                if unit.len() > allowed {
                    let gang = busy_with(view, unit[0]).unwrap_or_default();
                    out.wide.push((gang, unit.len()));
                }
                out.go.extend(unit.iter().map(name));
            }
        }
    }
    out
}

/// Whether we have begun to take this node out.
fn is_begun(slot: &SlotView<'_>) -> bool {
    slot.mark.as_ref().is_some_and(|mark| mark.why == "replace" || mark.why == "cut")
}

/// The first work that runs on a slot's node.
fn busy_with(view: &View<'_>, slot: &SlotView<'_>) -> Option<String> {
    let (node, _) = slot.node?;
    let pod = view.harm.pods_on(node).first()?;
    Some(view.harm.workload(pod).map_or_else(|| pod.name.to_string(), |workload| workload.name.to_string()))
}

/// Slots that a gang ties together, smallest slot first.
fn units<'s, 'a>(view: &View<'_>, when: When, slots: &[&'s SlotView<'a>]) -> Vec<Vec<&'s SlotView<'a>>> {
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
    let mut units: BTreeMap<usize, Vec<&SlotView<'_>>> = BTreeMap::new();
    for (place, slot) in slots.iter().enumerate() {
        units.entry(sets.find(place)).or_default().push(slot);
    }
    let mut units: Vec<_> = units.into_values().collect();
    units.sort_by(|a, b| a[0].id.cmp(&b[0].id));
    units
}

/// Until when the canaries are watched; none once that is over.
fn watched(view: &View<'_>, length: SignedDuration, moved: &[&SlotView<'_>], first: usize) -> Option<Timestamp> {
    let since = |slot: &&SlotView<'_>| {
        let cut = slot.record?.remedies.iter().filter(|one| one.rule == CUT_RULE).map(|one| one.at).max();
        cut.max(slot.record?.launched)
    };
    let mut since: Vec<Timestamp> = moved.iter().filter_map(since).collect();
    since.sort_unstable();
    let last = since.get(first.checked_sub(1)?).or_else(|| since.last())?;
    let until = last.checked_add(length).ok()?;
    (until > view.now).then_some(until)
}

/// Nodes of a pool that are out of service now: what one gang tied together counts as one.
fn unavailable(view: &View<'_>, pool: &PoolView<'_>, leaving: &[&SlotView<'_>]) -> usize {
    let away = pool.slots.iter().filter(|slot| slot.part.is_some());
    let is_leaving = |slot: &SlotView<'_>| leaving.iter().any(|one| one.id == slot.id);
    let is_away = |slot: &&SlotView<'_>| slot.body != Body::Serving || is_begun(slot) || is_leaving(slot);
    let away: Vec<&SlotView<'_>> = away.filter(is_away).collect();
    units(view, pool.spec.updates.when, &away).len()
}

fn estimate(
    view: &View<'_>,
    opens: Option<Timestamp>,
    watch: Option<Timestamp>,
    units: usize,
    at_once: u32,
) -> Option<Timestamp> {
    let rounds = u32::try_from(units).ok()?.div_ceil(at_once.max(1));
    let begins = [opens, watch].into_iter().flatten().max().unwrap_or(view.now);
    begins.checked_add(ONE_NODE.checked_mul(i32::try_from(rounds).ok()?)?).ok()
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
