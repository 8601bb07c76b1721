//! Which slots of a pool are wanted, where more are known than that: the meaning of a size against what is there.
//!
//! A pool grows and shrinks at the top, so that a slot keeps its number. Where it is asked to be smaller, the slots go
//! that are missed least: those whose way out was begun, those with nothing, those without a node that serves (it is not
//! ready and has no work, or in quarantine) or whose capacity ends anyway, those that nobody uses, only then those with the least work to
//! lose, and last those that somebody keeps our hands off. A slot beyond the
//! size that stays takes the place of one that goes: of one of the pool's own nodes, which are all cut alike, or of any
//! that has nothing. Planner, judge and status ask here; nobody decides for himself.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::marks::{CORDON, HANDS_OFF, Mark};
use super::{Freeze, PoolLedger, Scope, Slot, is_silent};
use crate::fleet::target::{Part, PoolTarget, Purpose};
use crate::ids::{InstanceId, NodeName};
use crate::observed::{Market, NodeSeen, Observed, PodSeen};

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
    /// `size` is the one that the documents give, where they give one.
    pub fn of(
        target: &PoolTarget,
        size: Option<u32>,
        known: Option<&PoolLedger>,
        observed: &Observed,
        frozen: &[Freeze],
        now: Timestamp,
    ) -> Self {
        let beyond = |known: &&PoolLedger| known.slots.range(target.nodes..).any(|(_, slot)| slot.is_something());
        let Some(known) = known.filter(beyond) else { return Self::default() };
        let none = Slot::default();
        let own = target.parts.iter().filter(|part| part.purpose == Purpose::Own);
        let own: Vec<_> = own.map(|part| part.first..part.first.saturating_add(part.nodes)).collect();
        let is_own = |index: &u32| own.iter().any(|slots| slots.contains(index));
        let worth = Worth::of(observed, frozen, now);
        let below = (0..target.nodes).map(|index| (index, known.slots.get(&index).unwrap_or(&none)));
        let below = below.filter(|(index, slot)| is_own(index) || !slot.is_something());
        let above = known.slots.range(target.nodes..).filter(|(_, slot)| slot.is_something());
        let above: Vec<(u32, &Slot)> = above.map(|(index, slot)| (*index, slot)).collect();
        let surplus = above.len();
        let mut all: Vec<(u32, &Slot)> = below.chain(above).collect();
        // Of two that are missed alike, the one goes that costs by the hour: the place of the other is paid for anyway.
        let is_paid_for = |slot: &Slot| !worth.is_by_the_hour(slot);
        all.sort_by_cached_key(|(index, slot)| (worth.of_slot(slot), is_paid_for(slot), std::cmp::Reverse(*index)));
        let unwanted: Vec<u32> = all.iter().take(surplus).map(|(index, _)| *index).collect();
        let resized = size.map_or(0, |size| usize::try_from(size.saturating_sub(target.nodes)).unwrap_or(usize::MAX));
        let by_tide = unwanted.iter().rev().take(resized).copied().collect();
        let goes: BTreeSet<u32> = unwanted.into_iter().filter(|index| *index < target.nodes).collect();
        let stays = all.iter().skip(surplus).map(|(index, _)| *index).filter(|index| *index >= target.nodes);
        let stays: BTreeSet<u32> = stays.collect();
        Self { stays: stays.into_iter().zip(goes.iter().copied()).collect(), goes, by_tide }
    }

    /// The part of the target that a slot is in; none for one that is not wanted.
    pub fn part<'t>(&self, target: &'t PoolTarget, index: u32) -> Option<&'t Part> {
        if self.goes.contains(&index) {
            return None;
        }
        let index = self.stays.get(&index).copied().unwrap_or(index);
        let holds = |part: &&Part| part.first <= index && index - part.first < part.nodes;
        target.parts.iter().filter(|_| index < target.nodes).find(holds)
    }

    /// Whether a slot that is not wanted will be again, when the tide turns.
    pub fn is_by_tide(&self, index: u32) -> bool {
        self.by_tide.contains(&index)
    }
}

/// How much a slot would be missed: the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Missed {
    Begun,
    Nothing,
    Out,
    Idle,
    /// GPU-seconds since the last save, of every gang that has a part on it.
    Busy(u64),
    /// Somebody keeps our hands off it: whoever can go instead does.
    Kept,
}

struct Worth<'a> {
    observed: &'a Observed,
    frozen: &'a [Freeze],
    now: Timestamp,
    by_instance: BTreeMap<&'a InstanceId, (&'a NodeName, &'a NodeSeen)>,
    /// The gangs of each node, or its single pods.
    on_node: BTreeMap<&'a NodeName, BTreeSet<&'a str>>,
    lost: BTreeMap<&'a str, u64>,
}

impl<'a> Worth<'a> {
    fn of(observed: &'a Observed, frozen: &'a [Freeze], now: Timestamp) -> Self {
        let nodes = observed.cluster.nodes.seen().iter();
        let by_instance = nodes.filter_map(|(name, node)| Some((node.instance.as_ref()?, (name, node)))).collect();
        let mut worth = Self { observed, frozen, now, by_instance, on_node: BTreeMap::new(), lost: BTreeMap::new() };
        for pod in observed.cluster.pods.seen().iter().filter(|pod| pod.counts()) {
            let Some(node) = &pod.node else { continue };
            let gang = pod.gang.as_ref().map(|gang| &*gang.0);
            let unit = gang.or(pod.workload.as_ref().map(|uid| uid.as_str())).unwrap_or(pod.uid.as_str());
            worth.on_node.entry(node).or_default().insert(unit);
            let lost = worth.unsaved(pod);
            *worth.lost.entry(unit).or_default() += lost;
        }
        worth
    }

    fn unsaved(&self, pod: &PodSeen) -> u64 {
        let gpus: i64 =
            pod.requests.iter().filter(|(name, _)| name.as_str().starts_with("nvidia.com/")).map(|(_, n)| n).sum();
        let since = pod.saved.max(pod.started).map_or(0, |at| self.now.duration_since(at).as_secs());
        u64::try_from(gpus.saturating_mul(since)).unwrap_or(0)
    }

    fn is_kept(&self, name: &NodeName, node: &NodeSeen) -> bool {
        let is_frozen = |freeze: &Freeze| matches!(&freeze.scope, Scope::Node(node) if node == name);
        node.annotation(HANDS_OFF).is_some() || self.frozen.iter().any(is_frozen)
    }

    fn is_by_the_hour(&self, slot: &Slot) -> bool {
        let instance = slot.instance.as_ref().and_then(|id| self.observed.cloud.instances.seen().get(id));
        instance.is_some_and(|instance| matches!(instance.market, Market::OnDemand | Market::Spot))
    }

    fn of_slot(&self, slot: &Slot) -> Missed {
        if !slot.is_something() {
            return Missed::Nothing;
        }
        let node = match (&slot.node, &slot.instance) {
            (Some(name), _) => self.observed.cluster.nodes.seen().get_key_value(name),
            (None, Some(instance)) => self.by_instance.get(instance).copied(),
            (None, None) => None,
        };
        let is_marked = |node: &NodeSeen, why| node.annotation(CORDON).is_some_and(|mark| Mark::parse(mark).why == why);
        let instance = slot.instance.as_ref().and_then(|id| self.observed.cloud.instances.seen().get(id));
        let reservation = instance.and_then(|instance| instance.reservation.as_ref());
        let reservation = reservation.and_then(|id| self.observed.cloud.reservations.seen().get(id));
        let ends =
            instance.is_some_and(|instance| instance.notice.is_some()) || reservation.is_some_and(|one| one.block);
        match node {
            Some((_, node)) if is_marked(node, "remove") => Missed::Begun,
            Some((name, node)) if self.is_kept(name, node) => Missed::Kept,
            Some((name, node)) if !ends && !is_silent(node, self.now) && !is_marked(node, "quarantine") => {
                match self.on_node.get(name) {
                    Some(units) => Missed::Busy(units.iter().filter_map(|unit| self.lost.get(unit)).sum()),
                    None if node.ready => Missed::Idle,
                    None => Missed::Out,
                }
            }
            _ => Missed::Out,
        }
    }
}
