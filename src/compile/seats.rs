//! Which slots of a pool are wanted, where more are known than that: the meaning of a size against what is there.
//!
//! A pool grows and shrinks at the top, so that a slot keeps its number. Where it is asked to be smaller, the slots go
//! that are missed least: those whose way out was begun, those with nothing, those without a node that serves (it is not
//! ready and has no work, in quarantine, or so sick that it would be replaced) or whose capacity ends anyway, those that
//! nobody uses, only then those whose work has the least to lose, whole gangs together, and last those that somebody keeps
//! our hands off. What a tide lends and cuts anew stays lent: as many as are lent stay of the nodes that are cut for it,
//! those with the most work first, and so do spares. A slot beyond the size that stays takes the place of one that goes;
//! parts are given out by places (`fleet::seating`). Planner, judge and status ask here; nobody decides for himself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::cuts::{self, Units};
use crate::effect::health::sickness;
use crate::effect::marks::{CORDON, HANDS_OFF, Mark};
use crate::effect::{Freeze, Ledger, Scope, Slot, is_silent};
use crate::fleet::Target;
use crate::fleet::handing::CutSeen;
use crate::fleet::policy::Remedy;
use crate::fleet::seating::{fitting, least_lost};
use crate::fleet::standing::{HealthSpec, PoolSpec};
use crate::fleet::target::{Part, PoolTarget, Purpose};
use crate::ids::{InstanceId, NodeName, PoolName, SlotId};
use crate::observed::{CloudSeen, ClusterSeen, Market, NodeSeen};

/// What is wanted, known and seen.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub target: &'a Target,
    pub ledger: &'a Ledger,
    /// Machines of ours that no slot remembers (`compile::found`).
    pub found: &'a BTreeMap<SlotId, InstanceId>,
    pub cloud: &'a CloudSeen,
    pub cluster: &'a ClusterSeen,
    pub now: Timestamp,
}

/// The slots of a pool that are not where its parts put them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Seats {
    /// Below the size, and not wanted.
    goes: BTreeSet<u32>,
    /// Beyond the size, and wanted: in whose place.
    stays: BTreeMap<u32, u32>,
    /// Not wanted only as long as a tide makes the pool smaller.
    by_tide: BTreeSet<u32>,
}

impl Seats {
    pub fn of(scene: &Scene<'_>, name: &PoolName) -> Self {
        match scene.surplus(name) {
            0 => Self::default(),
            _ => Self::among(scene, name, &cuts::of_pool(scene, name)),
        }
    }

    /// The same, where it is known how the nodes of the pool are cut.
    pub(super) fn among(scene: &Scene<'_>, name: &PoolName, cuts: &BTreeMap<u32, CutSeen>) -> Self {
        let surplus = scene.surplus(name);
        let (target, spec) = (scene.target.pools.get(name), scene.target.standing.pools.get(name));
        let (Some(target), Some(spec), 1..) = (target, spec, surplus) else { return Self::default() };
        let (none, unknown) = (Slot::default(), BTreeMap::new());
        let known = scene.ledger.pools.get(name).map_or(&unknown, |known| &known.slots);
        let found: BTreeMap<u32, Slot> = scene.found_in(name, 0).collect();
        let worth = Worth::of(scene, spec);
        let below = (0..target.nodes).map(|index| (index, found.get(&index).or(known.get(&index)).unwrap_or(&none)));
        let above = known.range(target.nodes..).filter(|(_, slot)| slot.is_something());
        let above = above.chain(found.range(target.nodes..));
        let all = below.chain(above.map(|(index, slot)| (*index, slot)));
        let all: BTreeMap<u32, Seat<'_>> = all.map(|(index, slot)| (index, worth.seat(slot))).collect();
        let lent = lent(scene, name, target, cuts, &all);
        let is_spare = |index: u32, seat: &Seat<'_>| index < spec.spares && seat.missed > Missed::Out;
        let may_go = all.iter().filter(|(index, seat)| !lent.contains(index) && !is_spare(**index, seat));
        let unwanted = missed_least(may_go.map(|(index, seat)| (*index, seat)).collect(), &worth, surplus);
        let resized = scene.resized(name, surplus);
        let by_tide = unwanted.iter().rev().take(resized).copied().collect();
        let unwanted: BTreeSet<u32> = unwanted.into_iter().collect();
        let stays = all.range(target.nodes..).map(|(index, _)| *index).filter(|index| !unwanted.contains(index));
        let stays: BTreeSet<u32> = stays.collect();
        let goes: BTreeSet<u32> = unwanted.into_iter().filter(|index| *index < target.nodes).collect();
        Self { stays: stays.into_iter().zip(goes.iter().copied()).collect(), goes, by_tide }
    }

    /// The place of a slot among those of the target; none for one that is not wanted.
    pub fn place(&self, target: &PoolTarget, index: u32) -> Option<u32> {
        let place = self.stays.get(&index).copied().unwrap_or(index);
        (place < target.nodes && !self.goes.contains(&index)).then_some(place)
    }

    /// What was seen in slots, by the places that they take.
    pub(super) fn placed(&self, mut cuts: BTreeMap<u32, CutSeen>) -> BTreeMap<u32, CutSeen> {
        for (index, place) in &self.stays {
            match cuts.remove(index) {
                Some(cut) => _ = cuts.insert(*place, cut),
                None => _ = cuts.remove(place),
            }
        }
        cuts
    }

    /// The part of the target that a slot is in; none for one that is not wanted.
    pub fn part<'t>(&self, target: &'t PoolTarget, index: u32) -> Option<&'t Part> {
        let place = self.place(target, index)?;
        target.parts.iter().find(|part| part.first <= place && place - part.first < part.nodes)
    }

    /// Whether a slot that is not wanted will be again, when the tide turns.
    pub fn is_by_tide(&self, index: u32) -> bool {
        self.by_tide.contains(&index)
    }
}

impl Scene<'_> {
    /// How many slots of a pool have something beyond its size.
    fn surplus(&self, name: &PoolName) -> usize {
        let Some(target) = self.target.pools.get(name) else { return 0 };
        let known = self.ledger.pools.get(name).into_iter().flat_map(|known| known.slots.range(target.nodes..));
        known.filter(|(_, slot)| slot.is_something()).count() + self.found_in(name, target.nodes).count()
    }

    /// How many of so many slots beyond the size are a tide's to take: what it makes the pool smaller, and what it made it
    /// larger before. The rest is somebody's edit: of the size, or of what a tide that is low makes of it.
    fn resized(&self, name: &PoolName, surplus: usize) -> usize {
        let (target, standing) = (self.target.pools.get(name), &self.target.standing);
        let size = standing.pools.get(name).and_then(|spec| spec.size);
        let (Some(target), Some(size)) = (target, size) else { return 0 };
        let known = self.ledger.pools.get(name);
        let had = known.and_then(|known| known.size).filter(|_| standing.is_resized(name));
        // A tide that was not seen before it was low made nothing larger or smaller yet.
        let gave = |tide| known.and_then(|known| known.low.get(tide).copied()).or(had).unwrap_or(size);
        let by_edit = self.target.sized_by(name).map_or(0, |tide| gave(tide).saturating_sub(target.nodes));
        let count = |nodes: u32| usize::try_from(nodes).unwrap_or(usize::MAX);
        match had {
            Some(had) => surplus.saturating_sub(count(had.saturating_sub(size).max(by_edit))),
            None => count(size.saturating_sub(target.nodes).saturating_sub(by_edit)),
        }
    }

    /// The slots of a pool from a number on that have a machine which they do not remember.
    fn found_in(&self, name: &PoolName, from: u32) -> impl Iterator<Item = (u32, Slot)> {
        let in_pool = self.found.range(SlotId::new(name, from)..).take_while(|(slot, _)| slot.pool == *name);
        in_pool.map(|(slot, id)| (slot.index, Slot { instance: Some(id.clone()), ..Slot::default() }))
    }
}

/// A slot, as whoever has to choose sees it.
struct Seat<'a> {
    missed: Missed,
    /// Of two that are missed alike, the one goes that costs by the hour: the place of the other is paid for anyway.
    paid_for: bool,
    node: Option<&'a NodeName>,
}

/// How much a slot would be missed: the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Missed {
    Begun,
    Nothing,
    Out,
    Idle,
    Busy,
    /// Somebody keeps our hands off it: whoever can go instead does.
    Kept,
}

/// So many of these, the least missed first.
fn missed_least(mut may_go: Vec<(u32, &Seat<'_>)>, worth: &Worth<'_>, wanted: usize) -> Vec<u32> {
    may_go.sort_by_key(|(index, seat)| (seat.missed, seat.paid_for, Reverse(*index)));
    let kept = may_go.split_off(may_go.partition_point(|(_, seat)| seat.missed < Missed::Kept));
    let busy = may_go.split_off(may_go.partition_point(|(_, seat)| seat.missed < Missed::Busy));
    may_go.truncate(wanted);
    // What goes with these is lost already.
    let gone = may_go.iter().flat_map(|(_, seat)| worth.units(seat)).map(|(unit, _)| *unit).collect();
    let units: BTreeMap<u32, &BTreeMap<&str, u64>> =
        busy.iter().filter_map(|(index, seat)| Some((*index, worth.units.get(seat.node?)?))).collect();
    let on = |index: &u32| units.get(index).into_iter().copied().flatten().map(|(unit, lost)| (*unit, *lost));
    let busy: Vec<u32> = busy.into_iter().map(|(index, _)| index).collect();
    let mut chosen: Vec<u32> = may_go.into_iter().map(|(index, _)| index).collect();
    chosen.extend(least_lost(&busy, on, gone, wanted - chosen.len()));
    chosen.extend(kept.into_iter().map(|(index, _)| index).take(wanted - chosen.len()));
    chosen
}

/// The slots that stay because a tide lends them: as many as it lends of those that are cut for that, or on their way to
/// it, and those that are asked back and have work, which leaves as the tide says.
fn lent(
    scene: &Scene<'_>,
    name: &PoolName,
    target: &PoolTarget,
    cuts: &BTreeMap<u32, CutSeen>,
    all: &BTreeMap<u32, Seat<'_>>,
) -> BTreeSet<u32> {
    let standing = &scene.target.standing;
    let mut taken = BTreeSet::new();
    let Some(spec) = standing.pools.get(name).filter(|_| !cuts.is_empty()) else { return taken };
    // Wherever the parts stand now: who goes must not depend on that.
    let mut loans: BTreeMap<_, Part> = BTreeMap::new();
    for part in &target.parts {
        let key = match &part.purpose {
            Purpose::Lent { tide, from, to } if part.layout != spec.layout => (false, tide, from, to),
            Purpose::Returning { tide, from, to, .. } => (true, tide, from, to),
            _ => continue,
        };
        loans.entry((key, &part.layout)).or_insert_with(|| Part { nodes: 0, ..part.clone() }).nodes += part.nodes;
    }
    for (((is_asked_back, ..), _), part) in loans {
        let least = if is_asked_back { Missed::Idle } else { Missed::Out };
        let free = cuts.keys().filter(|index| all.get(index).is_some_and(|seat| seat.missed > least));
        let free: BTreeSet<u32> = free.filter(|index| !taken.contains(*index)).copied().collect();
        let cut_so = fitting(standing, name, &spec.layout, &part, cuts, &free);
        let begun = cuts.iter().filter(|(index, cut)| cut.closed && free.contains(index)).map(|(index, _)| *index);
        let begun = begun.filter(|_| !is_asked_back);
        let mut left = part.nodes;
        for index in cut_so.into_iter().chain(begun) {
            left -= u32::from(left > 0 && taken.insert(index));
        }
    }
    taken
}

struct Worth<'a> {
    scene: Scene<'a>,
    policy: Option<&'a HealthSpec>,
    by_instance: BTreeMap<&'a InstanceId, (&'a NodeName, &'a NodeSeen)>,
    units: Units<'a>,
}

impl<'a> Worth<'a> {
    fn of(scene: &Scene<'a>, spec: &PoolSpec) -> Self {
        let nodes = scene.cluster.nodes.seen().iter();
        let by_instance = nodes.filter_map(|(name, node)| Some((node.instance.as_ref()?, (name, node)))).collect();
        let policy = spec.health.as_ref().and_then(|policy| scene.target.standing.health.get(policy));
        Self { scene: *scene, policy, by_instance, units: cuts::units(scene.cluster, scene.now) }
    }

    /// What is lost with a seat.
    fn units(&self, seat: &Seat<'_>) -> impl Iterator<Item = (&&'a str, &u64)> {
        seat.node.and_then(|node| self.units.get(node)).into_iter().flatten()
    }

    fn seat(&self, slot: &Slot) -> Seat<'a> {
        let node = match (&slot.node, &slot.instance) {
            (Some(name), _) => self.scene.cluster.nodes.seen().get_key_value(name),
            (None, Some(instance)) => self.by_instance.get(instance).copied(),
            (None, None) => None,
        };
        let instance = slot.instance.as_ref().and_then(|id| self.scene.cloud.instances.seen().get(id));
        let by_the_hour = instance.is_some_and(|instance| matches!(instance.market, Market::OnDemand | Market::Spot));
        Seat { missed: self.missed(slot, node), paid_for: !by_the_hour, node: node.map(|(name, _)| name) }
    }

    fn missed(&self, slot: &Slot, node: Option<(&NodeName, &NodeSeen)>) -> Missed {
        let is_marked = |node: &NodeSeen, why| node.annotation(CORDON).is_some_and(|mark| Mark::parse(mark).why == why);
        match node {
            _ if !slot.is_something() => Missed::Nothing,
            Some((_, node)) if is_marked(node, "remove") => Missed::Begun,
            Some((name, node)) if self.is_kept(name, node) => Missed::Kept,
            Some((name, node)) if !self.ends(slot) && !self.is_out(slot, name, node) => {
                match self.units.contains_key(name) {
                    true => Missed::Busy,
                    false if node.ready => Missed::Idle,
                    false => Missed::Out,
                }
            }
            _ => Missed::Out,
        }
    }

    fn is_kept(&self, name: &NodeName, node: &NodeSeen) -> bool {
        let is_frozen = |freeze: &Freeze| matches!(&freeze.scope, Scope::Node(node) if node == name);
        node.annotation(HANDS_OFF).is_some() || self.scene.ledger.head.frozen.iter().any(is_frozen)
    }

    /// Whether the capacity of a slot ends anyway.
    fn ends(&self, slot: &Slot) -> bool {
        let Some(instance) = slot.instance.as_ref().and_then(|id| self.scene.cloud.instances.seen().get(id)) else {
            return false;
        };
        let reservation = instance.reservation.as_ref();
        let reservation = reservation.and_then(|id| self.scene.cloud.reservations.seen().get(id));
        instance.notice.is_some() || reservation.is_some_and(|one| one.block)
    }

    /// Whether a node is kept out of service, or given up.
    fn is_out(&self, slot: &Slot, name: &NodeName, node: &NodeSeen) -> bool {
        let is_marked = node.annotation(CORDON).is_some_and(|mark| Mark::parse(mark).why == "quarantine");
        let now = self.scene.now;
        let sick = || self.policy.and_then(|policy| sickness(policy, Some(slot), node, now));
        is_marked
            || self.scene.ledger.head.quarantined.contains_key(name)
            || is_silent(node, now)
            || sick().is_some_and(|sick| sick.remedy == Remedy::Replace)
    }
}
