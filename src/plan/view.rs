//! The snapshot seen from the slots: what each slot has, and how far that is.
//!
//! Built once a plan. Everything that asks "what is in this slot" asks here, so that a doubtful answer (an instance
//! that is not listed, a request that was not answered) is judged in one place.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::former::{self, AllFormer};
use super::harm::Harm;
use super::taints::{Against, against};
use super::types::PlanInput;
use crate::compile::found::Names;
use crate::effect::marks::{CORDON, Mark};
use crate::effect::{Counts, Exchange, Intent, LaunchRequest, Slot, is_kin};
use crate::fleet::standing::{PoolSpec, Standing};
use crate::fleet::target::{Part, PoolTarget, Purpose};
use crate::ids::{FleetUid, InstanceId, NodeName, PoolName, ReservationId, SlotId};
use crate::observed::{InstanceSeen, InstanceState, NodeSeen};

/// How long an instance that was just launched may be missing before a list without it is a strange one.
const FRESH: SignedDuration = SignedDuration::from_mins(5);
/// How long EC2 may take to list what it said that it launched. Nothing says how long that is at worst; whoever does not
/// wait pays for a second machine, and whoever waits loses the time after which one that does not join is given up.
pub const LISTED_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// How long an instance must be missing from whole reads before it is believed lost.
pub const LOST_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Everything that the rooms of the planner look at.
#[derive(Debug)]
pub struct View<'a> {
    pub input: &'a PlanInput,
    pub now: Timestamp,
    pub standing: &'a Standing,
    /// The ledger's own, or what it will be told.
    pub fleet: &'a FleetUid,
    pub harm: Harm<'a>,
    /// What stands against taints that nodes are to carry.
    pub against: Against<'a>,
    pub pools: BTreeMap<&'a PoolName, PoolView<'a>>,
    /// Machines that change places, as far as that is not over: by the slot with the note.
    pub exchanges: Vec<(SlotId, Exchange)>,
    /// Our instances that no slot explains, and those of our kin: by the slot that each says it is.
    pub strays: Vec<(SlotId, &'a InstanceId, &'a InstanceSeen)>,
    /// What the snapshot has and what the ledger knows of, where too much is missing to believe it.
    pub shrunk: Option<(Counts, Counts)>,
    /// Nodes that keep the name that their pool had.
    pub former: AllFormer<'a>,
}

#[derive(Debug)]
pub struct PoolView<'a> {
    pub name: &'a PoolName,
    pub spec: &'a PoolSpec,
    pub target: &'a PoolTarget,
    /// Wanted slots, and slots that still have something.
    pub slots: Vec<SlotView<'a>>,
}

#[derive(Debug)]
pub struct SlotView<'a> {
    pub id: SlotId,
    /// None: the slot is not wanted.
    pub part: Option<&'a Part>,
    /// Its place among those of the target.
    pub place: Option<u32>,
    /// It is not wanted only as long as a tide makes the pool smaller.
    pub by_tide: bool,
    pub record: Option<&'a Slot>,
    pub body: Body<'a>,
    pub instance: Option<(&'a InstanceId, &'a InstanceSeen)>,
    pub node: Option<(&'a NodeName, &'a NodeSeen)>,
    /// Our cordon on the node.
    pub mark: Option<Mark>,
}

/// How far a slot is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Body<'a> {
    Nothing,
    /// A request was sent, or will have been: nobody knows.
    InFlight(&'a Intent<LaunchRequest>),
    /// An instance of ours is there that the ledger does not know.
    Found(&'a InstanceId),
    /// The instance is not listed, and that is not explained by its age.
    Missing,
    Dying,
    Dead,
    /// Lives, but its node is not there or not ready.
    Starting,
    Serving,
    /// A state in which only a person knows what to do.
    Odd,
}

impl<'a> View<'a> {
    pub fn new(input: &'a PlanInput) -> Self {
        let standing = &*input.target.standing;
        let fleet = input.ledger.head.fleet.as_ref().unwrap_or(&input.fleet);
        let by_instance: BTreeMap<&InstanceId, (&NodeName, &NodeSeen)> = input
            .observed
            .cluster
            .nodes
            .seen()
            .iter()
            .filter_map(|(name, node)| Some((node.instance.as_ref()?, (name, node))))
            .collect();
        let remembered = input.ledger.pools.values().flat_map(|pool| pool.slots.values());
        let remembered: BTreeSet<&InstanceId> = remembered.filter_map(|slot| slot.instance.as_ref()).collect();
        let finder = Finder { input, fleet, by_instance, tokens: tokens(input) };
        let mut pools = BTreeMap::new();
        for (name, target) in &input.target.pools {
            if let Some(spec) = standing.pools.get(name) {
                pools.insert(name, finder.pool(name, spec, target));
            }
        }
        let known: BTreeSet<&InstanceId> =
            pools.values().flat_map(|pool: &PoolView<'_>| &pool.slots).filter_map(SlotView::instance_id).collect();
        let unknown = input.observed.cloud.instances.seen().iter();
        let unknown = unknown.filter(|(id, _)| !known.contains(id) && !remembered.contains(id));
        let names = Names::new(&input.target, &input.ledger, &input.observed.cluster);
        let says = |(id, seen): (&'a InstanceId, &'a InstanceSeen)| {
            let tag = seen.tag.as_ref().filter(|tag| tag.fleet == *fleet || is_kin(fleet, &tag.fleet))?;
            seen.state.is_live().then(|| (names.slot(id, tag), id, seen))
        };
        let mut strays: Vec<_> = unknown.filter_map(says).collect();
        strays.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        let shrunk = shrunk(input, &remembered);
        let exchanges = input.ledger.exchanges();
        let (now, harm, against) = (input.now, Harm::new(input), against(input));
        let former = former::all(input, &harm);
        Self { input, now, standing, fleet, harm, against, pools, exchanges, strays, shrunk, former }
    }

    /// An instance that says that it is in this slot, and of which nobody knows.
    pub fn stray(&self, slot: &SlotId) -> Option<&'a InstanceId> {
        self.strays.iter().find(|(says, ..)| says == slot).map(|(_, id, _)| *id)
    }

    pub fn slots(&self) -> impl Iterator<Item = (&PoolView<'a>, &SlotView<'a>)> {
        self.pools.values().flat_map(|pool| pool.slots.iter().map(move |slot| (pool, slot)))
    }
}

impl<'a> SlotView<'a> {
    pub fn generation(&self) -> u32 {
        self.record.map_or(0, |record| record.generation)
    }

    pub fn instance_id(&self) -> Option<&'a InstanceId> {
        self.instance.map(|(id, _)| id).or_else(|| self.record?.instance.as_ref())
    }

    /// A node that was there already, and is only claimed.
    pub fn is_existing(&self) -> bool {
        self.record.is_some_and(|record| record.node.is_some())
    }

    pub fn is_spare(&self) -> bool {
        self.part.is_some_and(|part| part.purpose == Purpose::Spare)
    }
}

/// All instances by token, where some request is open.
fn tokens(input: &PlanInput) -> BTreeMap<&str, (&InstanceId, &InstanceSeen)> {
    let waits = input.ledger.pools.values().flat_map(|pool| pool.slots.values()).any(|slot| slot.intent.is_some());
    let all = input.observed.cloud.instances.seen().iter().filter(|_| waits);
    all.filter_map(|(id, seen)| Some((seen.token.as_ref()?.as_str(), (id, seen)))).collect()
}

/// Too much of what we know of is missing: the answer is wrong, or something terrible happened. A terminated instance
/// that is listed is not missing, and neither is one that we told to end ourselves.
fn shrunk(input: &PlanInput, remembered: &BTreeSet<&InstanceId>) -> Option<(Counts, Counts)> {
    let listed = input.observed.cloud.instances.seen();
    let nodes = input.observed.cluster.nodes.seen();
    let slots = || input.ledger.pools.values().flat_map(|pool| pool.slots.values());
    // What was launched a moment ago may not be listed yet; what we told to end, and what stood on a block that is over,
    // is meant to be gone.
    let over: BTreeSet<&ReservationId> = slots().filter_map(|slot| slot.reservation.as_ref()).collect();
    let over: BTreeSet<&ReservationId> = over.into_iter().filter(|id| super::ends::is_over(input, id)).collect();
    let ended = |slot: &&Slot| slot.reservation.as_ref().is_some_and(|id| over.contains(id));
    let old = |slot: &&Slot| slot.launched.is_none_or(|at| input.now.duration_since(at) > FRESH);
    let old = |slot: &&Slot| old(slot) && !ended(slot) && !slot.leaving;
    let fresh = slots().filter(|slot| slot.instance.is_some() && !old(slot)).count();
    let claimed: Vec<&NodeName> = slots().filter_map(|slot| slot.node.as_ref()).collect();
    let known = Counts { instances: count(remembered.len().saturating_sub(fresh)), nodes: count(claimed.len()) };
    let missing = slots().filter(old).filter_map(|slot| slot.instance.as_ref()).filter(|id| !listed.contains_key(*id));
    let gone = claimed.iter().filter(|node| !nodes.contains_key(**node)).count();
    let (missing, gone) = (count(missing.count()), count(gone));
    let percent = u64::from(input.target.standing.limits.observation_shrink_percent);
    let too_many = |missing: u32, known: u32| u64::from(missing) * 100 > u64::from(known) * percent && missing > 1;
    let seen = Counts { instances: known.instances.saturating_sub(missing), nodes: known.nodes.saturating_sub(gone) };
    (too_many(missing, known.instances) || too_many(gone, known.nodes)).then_some((seen, known))
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

struct Finder<'a, 'f> {
    input: &'a PlanInput,
    fleet: &'f FleetUid,
    by_instance: BTreeMap<&'a InstanceId, (&'a NodeName, &'a NodeSeen)>,
    tokens: BTreeMap<&'a str, (&'a InstanceId, &'a InstanceSeen)>,
}

impl<'a> Finder<'a, '_> {
    fn pool(&self, name: &'a PoolName, spec: &'a PoolSpec, target: &'a PoolTarget) -> PoolView<'a> {
        let known = self.input.ledger.pools.get(name);
        let seats = self.input.seats(name);
        let beyond = known.iter().flat_map(|known| known.slots.range(target.nodes..)).map(|(index, _)| *index);
        let found = &self.input.found;
        let unknown = found.range(SlotId::new(name, target.nodes)..).map(|(slot, _)| slot);
        let unknown = unknown.take_while(|slot| slot.pool == *name).map(|slot| slot.index);
        let beyond: BTreeSet<u32> = beyond.chain(unknown).collect();
        let mut slots = Vec::new();
        for index in (0..target.nodes).chain(beyond) {
            let record = known.and_then(|known| known.slots.get(&index));
            let (id, part) = (SlotId::new(name, index), seats.part(target, index));
            if part.is_some() || record.is_some_and(Slot::is_something) || found.contains_key(&id) {
                let mut slot = self.slot(id, part, record);
                slot.place = seats.place(target, index);
                slot.by_tide = part.is_none() && seats.is_by_tide(index);
                slots.push(slot);
            }
        }
        PoolView { name, spec, target, slots }
    }

    fn slot(&self, id: SlotId, part: Option<&'a Part>, record: Option<&'a Slot>) -> SlotView<'a> {
        let (by_tide, place) = (false, None);
        let mut view =
            SlotView { id, part, place, by_tide, record, body: Body::Nothing, instance: None, node: None, mark: None };
        if let Some(claimed) = record.and_then(|record| record.node.as_ref()) {
            view.node = self.input.observed.cluster.nodes.seen().get_key_value(claimed);
            view.body = match view.node {
                Some((_, node)) if node.ready => Body::Serving,
                Some(_) => Body::Starting,
                None => Body::Missing,
            };
        } else if let Some(wanted) = record.and_then(|record| record.instance.as_ref()) {
            view.instance = self.input.observed.cloud.instances.seen().get_key_value(wanted);
            view.node = self.by_instance.get(wanted).copied();
            view.body = self.body(&view, record);
        } else if let Some(intent) = record.and_then(|record| record.intent.as_ref()) {
            let token = intent.request.token.as_str();
            // A pool that has another name since had its own when this was sent.
            let answer = self.tokens.get(token).filter(|(_, seen)| self.is_ours(seen, &intent.request.slot));
            view.body = answer.map_or(Body::InFlight(intent), |(id, _)| Body::Found(id));
            view.instance = answer.copied();
        } else if let Some(id) = self.input.found.get(&view.id) {
            view.instance = self.input.observed.cloud.instances.seen().get_key_value(id);
            view.body = view.instance.map_or(Body::Nothing, |(id, _)| Body::Found(id));
        }
        view.mark = view.node.and_then(|(_, node)| node.annotation(CORDON)).map(Mark::parse);
        view
    }

    fn is_ours(&self, seen: &InstanceSeen, slot: &SlotId) -> bool {
        seen.tag.as_ref().is_some_and(|tag| tag.fleet == *self.fleet && tag.slot == *slot)
    }

    fn body(&self, view: &SlotView<'a>, record: Option<&Slot>) -> Body<'a> {
        let ready = view.node.is_some_and(|(_, node)| node.ready);
        match view.instance.map(|(_, seen)| &seen.state) {
            Some(InstanceState::Terminated) => Body::Dead,
            Some(InstanceState::ShuttingDown) => Body::Dying,
            Some(InstanceState::Pending | InstanceState::Running) if ready => Body::Serving,
            Some(InstanceState::Pending | InstanceState::Running) => Body::Starting,
            Some(InstanceState::Stopped | InstanceState::Other(_)) => Body::Odd,
            None => {
                let launched = record.and_then(|record| record.launched);
                match launched {
                    Some(at) if self.input.now.duration_since(at) <= LISTED_WITHIN => Body::Starting,
                    _ => Body::Missing,
                }
            }
        }
    }
}
