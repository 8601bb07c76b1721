//! What the tide will do within a day, and whom that would disturb if what runs now still ran then.

mod back;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::draft::Draft;
use super::harm::Harm;
use super::layout;
use super::types::{Disruption, PlanInput, Reason, Upcoming, frozen_by_document};
use super::view::{PoolView, SlotView, View};
use super::wish::{Wish, cut_wish};
use crate::effect::{Action, ClusterAction, Freeze, Scope, Thing};
use crate::fleet::Change;
use crate::fleet::layout::WHOLE;
use crate::fleet::quota::Amount;
use crate::fleet::target::{Part, PoolTarget, Purpose};
use crate::fleet::tide::Phase;
use crate::ids::{InstanceId, NodeName, PoolName, TideName, WorkloadUid};
use crate::observed::PodSeen;
use back::Back;

pub fn plan(view: &View<'_>, draft: &mut Draft) {
    let (input, harm, back) = (view.input, &view.harm, Back::of(view));
    let zone = input.target.standing.time_zone.zone();
    let moved = moved(draft);
    let nodes = LazyCell::new(|| Nodes::of(input, harm, moved));
    let edited = LazyCell::new(|| edited(view));
    let mut ahead: BTreeSet<&PoolName> = BTreeSet::new();
    // A node is emptied once: what comes to it afterwards does not run yet.
    let mut emptied: BTreeSet<(&PoolName, u32)> = BTreeSet::new();
    for (at, changes) in &input.upcoming {
        for change in changes {
            match change {
                Change::Tide { tide, phase } if back.is_over(tide, phase) => {}
                Change::Tide { tide, phase } => {
                    let turns = turn(tide, phase, &zone);
                    let change = match holds(input, tide) {
                        Some(freeze) => format!("{tide} holds its phase {}; else {turns}", while_frozen(&freeze)),
                        None => turns,
                    };
                    let what = Thing::Tide(tide.clone());
                    draft.upcoming.push(Upcoming { at: *at, what, change, disruption: Disruption::default() });
                }
                Change::Pool { pool, before, after } => {
                    // A freeze of less than all lets go what the cloud takes at an instant.
                    let by_tide = changes.iter().any(|change| matches!(change, Change::Tide { .. }));
                    let stops = |freeze: &Freeze| freeze.all || by_tide || after.nodes >= before.nodes;
                    let freeze = frozen(input, pool).filter(stops);
                    for moved in moves(pool, before, after, &back, &zone, edited.contains(pool)) {
                        if let Some(freeze) = &freeze {
                            let (stays, else_) = (while_frozen(freeze), moved.sentence());
                            let change = format!("{pool} stays as it is {stays}; else it {else_}");
                            let (what, disruption) = (Thing::Pool(pool.clone()), Disruption::default());
                            draft.upcoming.push(Upcoming { at: *at, what, change, disruption });
                            continue;
                        }
                        if moved.words.after.ends_with(AHEAD) {
                            ahead.insert(pool);
                        }
                        let slots = moved.slots.iter().flat_map(|(from, to)| *from..*to);
                        let fresh: Vec<u32> =
                            slots.filter(|slot| moved.empties && emptied.insert((pool, *slot))).collect();
                        let disruption = if fresh.is_empty() { Disruption::default() } else { nodes.hit(pool, &fresh) };
                        let what = Thing::Pool(pool.clone());
                        draft.upcoming.push(Upcoming { at: *at, what, change: moved.sentence(), disruption });
                    }
                }
                // Quotas follow the nodes, and are told with them.
                Change::Quota { .. } => {}
            }
        }
    }
    for pool in ahead {
        let text = format!(
            "what a tide brings back to {pool} is cut as the documents say now, with no canary and no window: it is asked \
             for by its hour, and the cut that it had is in no document any more"
        );
        draft.note(Thing::Pool(pool.clone()), text);
    }
}

/// Pools with nodes that are to be cut anew after an edit; what somebody cut by hand is put back, and nobody edited it.
fn edited<'a>(view: &View<'a>) -> BTreeSet<&'a PoolName> {
    let is_edited = |pool: &PoolView<'_>, slot: &SlotView<'_>| {
        let wish = cut_wish(view, pool, slot);
        matches!(wish, Some(Wish::Cut { reason: Reason::Layout { .. }, rollout: true, .. }))
            && layout::by_hand(view, pool, slot).is_none()
    };
    let pools = view.pools.iter().filter(|(_, pool)| pool.slots.iter().any(|slot| is_edited(pool, slot)));
    pools.map(|(name, _)| *name).collect()
}

/// The freeze that keeps a pool as it is.
fn frozen(input: &PlanInput, pool: &PoolName) -> Option<Freeze> {
    let document = input.target.standing.frozen.as_deref().map(|reason| frozen_by_document(reason, input.now));
    let is_of = |freeze: &&Freeze| match &freeze.scope {
        Scope::Fleet => true,
        Scope::Pool(name) => name == pool,
        Scope::Node(_) => false,
    };
    document.or_else(|| input.ledger.head.frozen.iter().find(is_of).cloned())
}

/// The freeze under which a tide holds its phase: one of every pool that it lends from or resizes.
fn holds(input: &PlanInput, tide: &TideName) -> Option<Freeze> {
    let spec = input.target.standing.tides.get(tide)?;
    let pools = || spec.loans.iter().map(|loan| &loan.pool).chain(&spec.resizes);
    let first = frozen(input, pools().next()?)?;
    pools().all(|pool| frozen(input, pool).is_some()).then_some(first)
}

fn while_frozen(freeze: &Freeze) -> String {
    format!("while it is frozen by {} ({})", freeze.by, freeze.reason)
}

/// Workloads that this plan itself moves: when the tide turns next, they are elsewhere.
fn moved(draft: &Draft) -> BTreeSet<WorkloadUid> {
    let actions = draft.courses.iter().flat_map(|course| &course.steps).map(|step| &step.action);
    let moved = actions.filter_map(|action| match action {
        Action::Cluster(
            ClusterAction::Suspend { workload, .. }
            | ClusterAction::Ask { workload, .. }
            | ClusterAction::Shrink { workload, .. },
        ) => Some(workload.clone()),
        _ => None,
    });
    moved.collect()
}

/// The nodes of slots, and who is on them.
struct Nodes<'a, 'h> {
    moved: BTreeSet<WorkloadUid>,
    input: &'a PlanInput,
    harm: &'h Harm<'a>,
    by_instance: BTreeMap<&'a InstanceId, &'a NodeName>,
}

impl<'a, 'h> Nodes<'a, 'h> {
    fn of(input: &'a PlanInput, harm: &'h Harm<'a>, moved: BTreeSet<WorkloadUid>) -> Self {
        let nodes = input.observed.cluster.nodes.seen().iter();
        let by_instance = nodes.filter_map(|(name, node)| Some((node.instance.as_ref()?, name))).collect();
        Self { moved, input, harm, by_instance }
    }

    fn hit(&self, pool: &PoolName, slots: &[u32]) -> Disruption {
        let Some(ledger) = self.input.ledger.pools.get(pool) else { return Disruption::default() };
        let node = |slot: &u32| {
            let slot = ledger.slots.get(slot)?;
            slot.node.as_ref().or_else(|| self.by_instance.get(slot.instance.as_ref()?).copied())
        };
        let pods = slots.iter().filter_map(node).flat_map(|node| self.harm.pods_on(node)).copied();
        let stays = |pod: &&PodSeen| pod.workload.as_ref().is_none_or(|workload| !self.moved.contains(workload));
        let pods: Vec<_> = pods.filter(stays).collect();
        self.harm.hit(&pods)
    }
}

/// What a tide brings back waits for no roll-out of the cut that it gets.
const AHEAD: &str = ", ahead of the roll-out";

/// Slots of a pool to which the same happens.
struct Moved {
    words: Words,
    slots: Vec<(u32, u32)>,
    /// What runs on them has to go.
    empties: bool,
}

/// A sentence around a number of nodes.
#[derive(PartialEq)]
struct Words {
    before: String,
    after: String,
}

impl Moved {
    fn sentence(&self) -> String {
        let nodes = self.slots.iter().map(|(from, to)| to - from).sum();
        format!("{}{}{}", self.words.before, Amount::Nodes(nodes), self.words.after)
    }
}

fn turn(tide: &TideName, phase: &Phase, zone: &TimeZone) -> String {
    match phase {
        Phase::High => format!("{tide} is high again"),
        Phase::Low { reclaim_at } => format!("{tide} turns low until {}", clock(*reclaim_at, zone)),
        Phase::Reclaiming { hard_at, due } => {
            format!(
                "{tide} asks back, until {} in good time, by {} in any case",
                clock(*hard_at, zone),
                clock(*due, zone)
            )
        }
        Phase::HardReclaim { due } => format!("{tide} evicts what has not left, by {}", clock(*due, zone)),
    }
}

fn moves(
    pool: &PoolName,
    before: &PoolTarget,
    after: &PoolTarget,
    back: &Back<'_>,
    zone: &TimeZone,
    edited: bool,
) -> Vec<Moved> {
    let mut found: Vec<Moved> = Vec::new();
    let mut edges: BTreeSet<u32> = before.parts.iter().chain(&after.parts).map(|part| part.first).collect();
    edges.extend([before.nodes, after.nodes]);
    edges.extend(back.edges(pool));
    let edges: Vec<u32> = edges.into_iter().collect();
    for pair in edges.windows(2) {
        let (was, now) = (part_at(before, pair[0]), part_at(after, pair[0]));
        let stays = now.is_some_and(|now| matches!(now.purpose, Purpose::Own | Purpose::Spare));
        if stays && back.has(pool, was, pair[0]) {
            continue;
        }
        let Some(words) = words(pool, was, now, zone, edited) else { continue };
        let recut = matches!((was, now), (Some(was), Some(now)) if was.layout != now.layout);
        let given = now.is_none_or(|now| matches!(now.purpose, Purpose::Lent { .. } | Purpose::Returning { .. }));
        match found.iter_mut().find(|moved| moved.words == words) {
            Some(moved) => moved.slots.push((pair[0], pair[1])),
            None => found.push(Moved { words, slots: vec![(pair[0], pair[1])], empties: given || recut }),
        }
    }
    found
}

fn part_at(pool: &PoolTarget, slot: u32) -> Option<&Part> {
    pool.parts.iter().find(|part| part.first <= slot && slot - part.first < part.nodes)
}

/// What happens to a slot; nothing for one that stays as it is.
fn words(pool: &PoolName, was: Option<&Part>, now: Option<&Part>, zone: &TimeZone, edited: bool) -> Option<Words> {
    let say = |before: &str, after: String| Some(Words { before: before.into(), after });
    let Some(now) = now else { return was.and(say("gives up ", format!(" of {pool}"))) };
    if was.is_some_and(|was| was.purpose == now.purpose && was.layout == now.layout) {
        return None;
    }
    let cut = was.filter(|was| was.layout != now.layout).map_or(String::new(), |_| match now.layout.as_str() {
        WHOLE => ", cut whole".into(),
        layout => format!(", cut as {layout}"),
    });
    match (was.map(|was| &was.purpose), &now.purpose) {
        (None, Purpose::Own | Purpose::Spare) => say("adds ", format!(" to {pool}")),
        (_, Purpose::Lent { to, .. }) => say("lends ", format!(" of {pool} to {to}{cut}")),
        (_, Purpose::Returning { to, due, .. }) => {
            let ahead = if edited && !cut.is_empty() { AHEAD } else { "" };
            say("asks ", format!(" of {pool} back from {to} by {}{cut}{ahead}", clock(*due, zone)))
        }
        (Some(Purpose::Lent { from, .. } | Purpose::Returning { from, .. }), _) => {
            let ahead = if edited && !cut.is_empty() { AHEAD } else { "" };
            say("gives ", format!(" of {pool} back to {from}{cut}{ahead}"))
        }
        (_, Purpose::Own) => say("uses ", format!(" of {pool}{cut}")),
        (_, Purpose::Spare) => say("keeps ", format!(" of {pool} as spares{cut}")),
    }
}

/// Within a day the weekday and the hour say when.
fn clock(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%a %H:%M").to_string()
}

#[cfg(test)]
mod tests;
