//! The fleet on its fabric: where every node hangs, what may be done with it, and which pools it suits.
//!
//! Reads the input and decides nothing: what follows from it is asked of `fabric`, by `chosen` for a plan and by
//! `tidewright place` for a person. Nodes that are there, and places of reservations that nobody uses yet, whose
//! topology is known before anything is launched in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::launch::{may_have, wearable};
use super::layout::misfit;
use super::types::PlanInput;
use super::view::{Body, PoolView, View};
use crate::compile::cuts::is_never_cut;
use crate::effect::marks::{GPU_COUNT, HANDS_OFF, POOL};
use crate::fabric::fgd::Shape;
use crate::fabric::gang::Seat;
use crate::fabric::sources::{by_declaration, by_labels, by_layers};
use crate::fabric::state::{Share, with_hosts};
use crate::fabric::{Ask, Freedom, Host, Note, Place, Prices, Problem, Tree};
use crate::fleet::pool::Source;
use crate::fleet::standing::Standing;
use crate::ids::{HostName, InstanceType, NodeName, PoolName, ReservationId, Zone};
use crate::observed::{InstanceSeen, Market, NodeSeen, ReservationState};

/// What whole GPUs are called.
const WHOLE: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron"];

#[derive(Clone, Debug)]
pub struct Site {
    pub tree: Tree,
    pub notes: Vec<Note>,
    /// As the hosts of the tree.
    pub spots: Vec<Spot>,
    /// As they are numbered in spots and asks.
    pub pools: Vec<PoolName>,
    pub asks: Vec<Ask>,
    /// By pool: what there is to choose.
    pub choices: Vec<Choice>,
    pub hosts: Vec<Host>,
    /// Whether the fleet says anything about its fabric.
    pub is_known: bool,
}

/// One host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    pub pool: Option<u32>,
    pub standing: Position,
    /// A machine of a cloud: it serves another pool only by changing places with one of that.
    pub launched: bool,
    pub gpus: u32,
    /// Whole GPUs that no pod asked for; of cut GPUs none.
    pub free: u32,
    /// The work on it, by name.
    pub work: Vec<String>,
    /// How many whole GPUs each pod on it asked for, of those that asked for any.
    pub pods: Vec<u32>,
}

impl Spot {
    /// One on which nothing runs.
    fn empty(standing: Position, gpus: u32) -> Self {
        Self { pool: None, standing, launched: false, gpus, free: gpus, work: Vec::new(), pods: Vec::new() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Position {
    /// Serves a pool.
    Serving,
    /// Could serve one.
    Free,
    /// Closed by somebody.
    Cordoned,
    /// Being emptied, or kept empty, by us.
    Draining,
    /// Not ready, or in quarantine.
    Sick,
    /// A place of a reservation in which nothing runs.
    Unused,
    /// Somebody else's.
    Foreign,
    /// A host of the cloud that a launch may name.
    Offered,
}

/// What can be chosen for a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Choice {
    /// Which nodes belong to it.
    Nodes,
    /// Reservation, zone and placement group before a launch; the host is the cloud's choice.
    Launches,
    /// The very hosts: the simulator lets them be pinned.
    Hosts,
}

/// What is gathered of one host before the tree is grown.
struct Found {
    place: Place,
    spot: Spot,
    suits: Vec<bool>,
    free: Freedom,
}

/// The fleet of an input on its fabric, with the hosts that a launch may name or without.
pub fn site(view: &View<'_>, with_offers: bool) -> Site {
    let standing = view.standing;
    let pools: Vec<&PoolView<'_>> = view.pools.values().collect();
    let mut found = nodes(view, &pools);
    found.append(&mut unused(view, &pools, with_offers));
    if with_offers {
        found.append(&mut offered(view, &pools));
    }
    let levels: Vec<_> = standing.levels.iter().map(|level| level.name.clone()).collect();
    let places = found.iter().map(|one| one.place.clone()).collect();
    let (tree, notes) = Tree::grow(&levels, places);
    let mut by_name: BTreeMap<NodeName, Found> = found.into_iter().map(|one| (one.place.host.clone(), one)).collect();
    let mut classes: BTreeMap<(Vec<bool>, u32), u32> = BTreeMap::new();
    let (mut spots, mut hosts) = (Vec::new(), Vec::new());
    for name in &tree.hosts {
        let Some(one) = by_name.remove(name) else { continue };
        let next = u32::try_from(classes.len()).unwrap_or(u32::MAX);
        let class = *classes.entry((one.suits, one.spot.gpus)).or_insert(next);
        hosts.push(Host { class, gpus: one.spot.gpus, pool: one.spot.pool, free: one.free });
        spots.push(one.spot);
    }
    let mut suits: Vec<(u32, Vec<bool>)> = classes.into_iter().map(|((suits, _), class)| (class, suits)).collect();
    suits.sort_unstable();
    let asks = (0..pools.len()).map(|at| ask(&tree, &pools, at, suits.iter().map(|(_, suits)| suits[at]).collect()));
    Site {
        asks: asks.collect(),
        choices: pools.iter().map(|pool| choice(view, pool)).collect(),
        pools: pools.iter().map(|pool| pool.name.clone()).collect(),
        is_known: !levels.is_empty(),
        tree,
        notes,
        spots,
        hosts,
    }
}

impl Site {
    pub fn problem(&self) -> Problem<'_> {
        let prices = Prices::doubling(self.tree.depth());
        Problem { tree: &self.tree, hosts: self.hosts.clone(), pools: self.asks.clone(), prices }
    }

    /// The hosts as a gang sees them: those that serve a pool, of one pool or of all.
    pub fn seats(&self, pool: Option<u32>) -> (Vec<Seat>, Vec<String>) {
        let mut names: Vec<String> = Vec::new();
        let mut seats = Vec::new();
        for spot in &self.spots {
            let mut work = Vec::new();
            for name in &spot.work {
                let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                    names.push(name.clone());
                    names.len() - 1
                });
                work.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
            let kind = spot.pool.unwrap_or(u32::try_from(self.pools.len()).unwrap_or(u32::MAX - 1));
            let is_open = spot.standing == Position::Serving && pool.is_none_or(|pool| spot.pool == Some(pool));
            let (open, pods) = (is_open && spot.gpus > 0, spot.pods.clone());
            seats.push(Seat { kind, gpus: spot.gpus, free: spot.free, open, work, pods });
        }
        (seats, names)
    }

    /// Free GPUs by host if pools had these hosts: those of hosts that no pool has and any could.
    pub fn free_gpus(&self, pools: &[Option<u32>]) -> Vec<u32> {
        let free = |(host, pool): (&Host, &Option<u32>)| {
            if pool.is_none() && host.free == Freedom::Usable { host.gpus } else { 0 }
        };
        self.hosts.iter().zip(pools).map(free).collect()
    }

    /// GPUs by host of those that would serve if pools had these hosts, and of which none is in use.
    pub fn idle_gpus(&self, pools: &[Option<u32>]) -> Vec<u32> {
        let is_idle = |(spot, pool): (&Spot, &Option<u32>)| {
            let serves = spot.standing == Position::Serving || spot.pool != *pool;
            if pool.is_some() && serves && spot.free == spot.gpus { spot.gpus } else { 0 }
        };
        self.spots.iter().zip(pools).map(is_idle).collect()
    }

    /// Free GPUs of the hosts that would serve if pools had these hosts: as now where nothing changes, else all of them.
    pub fn serving_gpus(&self, pools: &[Option<u32>]) -> Vec<u32> {
        let comes = |spot: &Spot| {
            matches!(spot.standing, Position::Free | Position::Draining | Position::Unused | Position::Offered)
        };
        let serves = self.spots.iter().zip(pools).filter(|(spot, pool)| {
            pool.is_some() && (spot.standing == Position::Serving || (spot.pool != **pool && comes(spot)))
        });
        serves.map(|(spot, pool)| if spot.pool == *pool { spot.free } else { spot.gpus }).collect()
    }

    /// By pool: what it keeps of a placement in any case. Machines of a cloud are nowhere else to be had: they only
    /// change places.
    pub fn staying(&self, problem: &Problem<'_>, to: &[Option<u32>]) -> Vec<Share> {
        let stays = |at: usize| self.spots[at].launched || problem.hosts[at].free == Freedom::Fixed;
        let kept: Vec<Option<u32>> = (0..to.len()).map(|at| to[at].filter(|_| stays(at))).collect();
        with_hosts(problem, &kept).shares
    }

    /// Which pool has which host now.
    pub fn now(&self) -> Vec<Option<u32>> {
        self.spots.iter().map(|spot| spot.pool).collect()
    }
}

fn ask(tree: &Tree, pools: &[&PoolView<'_>], at: usize, suits: Vec<bool>) -> Ask {
    let pool = pools[at];
    let placement = pool.spec.placement.as_ref();
    let together = placement.and_then(|placement| tree.level(placement.together.as_ref()?));
    let number = |name: &PoolName| pools.iter().position(|pool| pool.name == name);
    let apart = placement.iter().flat_map(|placement| &placement.apart_from).filter_map(number);
    Ask {
        name: pool.name.clone(),
        nodes: pool.target.nodes,
        suits,
        together,
        required: together.is_some() && placement.is_some_and(|placement| placement.required),
        apart: apart.filter(|other| *other != at).filter_map(|other| u32::try_from(other).ok()).collect(),
    }
}

fn choice(view: &View<'_>, pool: &PoolView<'_>) -> Choice {
    let is_there = |source: &Source| matches!(source, Source::Existing { .. });
    let told = || view.input.observed.cloud.hosts.values();
    let placed = pool.spec.placement.as_ref().is_some_and(|placement| placement.together.is_some());
    if pool.spec.capacity.iter().all(is_there) {
        Choice::Nodes
    } else if placed && told().any(|host| host.instance_type == pool.spec.shape.instance_type) {
        Choice::Hosts
    } else {
        Choice::Launches
    }
}

/// Nodes of the cluster that serve a pool, could serve one, or have GPUs.
fn nodes(view: &View<'_>, pools: &[&PoolView<'_>]) -> Vec<Found> {
    let mut of_node: BTreeMap<&NodeName, (u32, Option<&InstanceSeen>)> = BTreeMap::new();
    for (number, pool) in pools.iter().enumerate() {
        for slot in &pool.slots {
            if let Some((name, _)) = slot.node {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                of_node.insert(name, (number, slot.instance.map(|(_, seen)| seen)));
            }
        }
    }
    let mut tastes = Tastes::new(view, pools);
    let wearable: Vec<_> = pools.iter().map(|pool| wearable(view, pool)).collect();
    let mut found = Vec::new();
    for (name, node) in view.input.observed.cluster.nodes.seen() {
        let served = of_node.get(name).copied();
        let pool = served.map(|(pool, _)| pool);
        let mut suits = tastes.of(node, pool, served.and_then(|(_, seen)| seen)).to_vec();
        if let Some(own) = pool.and_then(|pool| suits.get_mut(pool as usize)) {
            *own = true;
        }
        if pool.is_none() && node.labels.contains_key(POOL) {
            suits.iter_mut().zip(&wearable).for_each(|(suits, wearable)| *suits &= may_have(view, wearable, node));
        }
        let whole = whole(node);
        let asked = pool.and_then(|pool| pools.get(pool as usize)).map_or(0, |pool| pool.spec.shape.gpus);
        let gpus = node.labels.get(GPU_COUNT).and_then(|count| count.parse().ok()).unwrap_or(whole).max(asked);
        if gpus == 0 && pool.is_none() && !suits.contains(&true) {
            continue;
        }
        let position = position(view, name, node, pool, suits.contains(&true));
        let asked = view.harm.pods_on(name).iter().filter_map(|pod| u32::try_from(asked_for(&pod.requests)).ok());
        let pods: Vec<u32> = asked.filter(|gpus| *gpus > 0).collect();
        let free = whole.saturating_sub(pods.iter().sum());
        let launched = served.is_some_and(|(_, instance)| instance.is_some());
        let work = view.harm.work_on(name).into_iter().collect();
        let spot = Spot { pool, standing: position, launched, gpus, free, work, pods };
        let is_held = node.annotations.contains_key(HANDS_OFF);
        let free = match position {
            Position::Serving if is_held => Freedom::Fixed,
            Position::Serving | Position::Free => Freedom::Usable,
            _ => Freedom::Out,
        };
        let place = place(view.standing, name, node, served.and_then(|(_, seen)| seen));
        found.push(Found { place, spot, suits, free });
    }
    found
}

fn place(standing: &Standing, name: &NodeName, node: &NodeSeen, instance: Option<&InstanceSeen>) -> Place {
    let levels = standing.levels.len();
    if let Some(declared) = &standing.declared {
        return by_declaration(levels, name, declared);
    }
    let keys = keys(standing);
    let labelled = by_labels(&keys, name, &node.labels);
    match instance {
        Some(instance) => labelled.or(by_layers(&keys, name, &instance.network)),
        None => labelled,
    }
}

/// The label of each level, where it has one.
fn keys(standing: &Standing) -> Vec<Option<&str>> {
    standing.levels.iter().map(|level| level.node_label.as_deref()).collect()
}

fn position(view: &View<'_>, name: &NodeName, node: &NodeSeen, pool: Option<u32>, suits: bool) -> Position {
    let head = &view.input.ledger.head;
    let is_marked = node.annotations.contains_key(crate::effect::marks::CORDON);
    if !node.ready || head.quarantined.contains_key(name) {
        Position::Sick
    } else if head.drains.contains_key(name) || is_marked {
        Position::Draining
    } else if node.unschedulable {
        Position::Cordoned
    } else if pool.is_some() {
        Position::Serving
    } else if suits {
        Position::Free
    } else {
        Position::Foreign
    }
}

/// Which pools could have a node: by the labels of nodes that exist, or because they are launched from the same source.
/// Nodes that look alike are asked about once.
struct Tastes<'v, 'a> {
    pools: &'v [&'v PoolView<'a>],
    /// By pool: the zones of its machines, and the reservation of each source.
    launched: Vec<(Vec<Zone>, Vec<Option<ReservationId>>)>,
    /// By pool: the first whose machines are made and cut as its own.
    alike: Vec<usize>,
    /// The labels that some pool looks at.
    keys: Vec<&'v str>,
    known: BTreeMap<Look, Vec<bool>>,
}

/// All of a node that pools look at.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    Existing { labels: Vec<Option<String>>, counted: Option<String>, whole: u32, uncut: bool },
    Launched { kind: InstanceType, zone: Zone, market: Market, reservation: Option<ReservationId>, alike: usize },
}

impl<'v, 'a> Tastes<'v, 'a> {
    fn new(view: &View<'_>, pools: &'v [&'v PoolView<'a>]) -> Self {
        let reserved = |source: &Source| match source {
            Source::Reservation(name) => super::reservations::id_of(view.input, name),
            _ => None,
        };
        let launched = |pool: &&PoolView<'_>| {
            (view.standing.zones(pool.spec), pool.spec.capacity.iter().map(reserved).collect::<Vec<_>>())
        };
        let sources = pools.iter().flat_map(|pool| &pool.spec.capacity);
        let labels = sources.filter_map(|source| match source {
            Source::Existing { labels } => Some(labels.keys().map(String::as_str)),
            _ => None,
        });
        let mut keys: Vec<&str> = labels.flatten().collect();
        keys.sort_unstable();
        keys.dedup();
        let first = |pool: &&PoolView<'_>| {
            pools.iter().position(|other| alike(view.input, pool.name, other.name)).unwrap_or(usize::MAX)
        };
        let (launched, alike) = (pools.iter().map(launched).collect(), pools.iter().map(first).collect());
        Self { pools, launched, alike, keys, known: BTreeMap::new() }
    }

    /// `own` is the pool that it serves.
    fn of(&mut self, node: &NodeSeen, own: Option<u32>, instance: Option<&InstanceSeen>) -> &[bool] {
        let alike = own.and_then(|own| self.alike.get(own as usize)).copied().unwrap_or(usize::MAX);
        let look = match instance {
            None => Look::Existing {
                labels: self.keys.iter().map(|key| node.labels.get(*key).cloned()).collect(),
                counted: node.labels.get(GPU_COUNT).cloned(),
                whole: whole(node),
                uncut: is_never_cut(node),
            },
            Some(seen) => Look::Launched {
                kind: seen.instance_type.clone(),
                zone: seen.zone.clone(),
                market: seen.market,
                reservation: seen.reservation.clone(),
                alike,
            },
        };
        let (pools, launched, kinds) = (self.pools, &self.launched, &self.alike);
        self.known.entry(look).or_insert_with(|| {
            let both = pools.iter().zip(launched);
            let suits = both.map(|(pool, (zones, reserved))| suits(pool, zones, reserved, node, instance));
            suits.zip(kinds).map(|(suits, kind)| suits && (instance.is_none() || *kind == alike)).collect()
        })
    }
}

/// Whether the machines of two pools are made and cut alike: from then on only labels and taints tell which pool has one.
/// What names the pool, where it is launched and what it is placed with is no part of a template's digest.
pub fn alike(input: &PlanInput, one: &PoolName, other: &PoolName) -> bool {
    let (pools, specs) = (&input.desired.pools, &input.target.standing.pools);
    let made = |name: &PoolName| {
        let (objects, spec) = (pools.get(name)?, specs.get(name)?);
        Some((&objects.template.digest, &objects.template.instance_type, objects.layouts.get(&spec.layout)))
    };
    one == other || made(one).is_some_and(|made_one| Some(made_one) == made(other))
}

fn suits(
    pool: &PoolView<'_>,
    zones: &[Zone],
    reserved: &[Option<ReservationId>],
    node: &NodeSeen,
    instance: Option<&InstanceSeen>,
) -> bool {
    let has = |(source, reserved): (&Source, &Option<ReservationId>)| match (source, instance) {
        (Source::Existing { labels }, None) => {
            labels.iter().all(|(key, value)| node.labels.get(key) == Some(value)) && misfit(pool, node).is_none()
        }
        (_, None) => false,
        (source, Some(instance)) => {
            instance.instance_type == pool.spec.shape.instance_type
                && match source {
                    Source::Reservation(_) => reserved.is_some() && instance.reservation == *reserved,
                    Source::OnDemand { .. } => instance.market == Market::OnDemand,
                    Source::Spot { .. } => instance.market == Market::Spot,
                    Source::Existing { .. } => false,
                }
        }
    };
    let in_zone = instance.is_none_or(|instance| zones.is_empty() || zones.contains(&instance.zone));
    in_zone && pool.spec.capacity.iter().zip(reserved).any(has)
}

/// Places of reservations in which nothing runs.
fn unused(view: &View<'_>, pools: &[&PoolView<'_>], with_pending: bool) -> Vec<Found> {
    let keys = keys(view.standing);
    let mut found = Vec::new();
    for (name, spec) in &view.standing.reservations {
        let id: Option<ReservationId> = super::reservations::id_of(view.input, name);
        let seen = id.and_then(|id| view.input.observed.cloud.reservations.seen().get_key_value(&id));
        let Some((seen_id, seen)) = seen else { continue };
        let places = match seen.state {
            ReservationState::Active => seen.available,
            // One that was just made says for minutes that nothing is available, and is launched into already.
            ReservationState::Pending if with_pending && !seen.block => seen.total,
            _ => continue,
        };
        let takes = |pool: &&PoolView<'_>| {
            let has = |source: &Source| matches!(source, Source::Reservation(held) if held == name);
            pool.spec.capacity.iter().any(has)
        };
        let suits: Vec<bool> = pools.iter().map(takes).collect();
        let hosts = &view.input.observed.cloud.hosts;
        let mut told = hosts.iter().filter(|(_, host)| host.reservation.as_ref() == Some(seen_id));
        for number in 1..=places {
            let (host, network) = match told.next() {
                Some((name, host)) => (NodeName::from(name.as_str()), &host.network),
                None => (format!("{name} {number}").into(), &seen.network),
            };
            let place = by_layers(&keys, &host, network);
            let gpus = spec.shape.gpus;
            let spot = Spot::empty(Position::Unused, gpus);
            let free = if suits.contains(&true) { Freedom::Usable } else { Freedom::Out };
            found.push(Found { place, spot, suits: suits.clone(), free });
        }
    }
    found
}

/// The reservation that an unused place belongs to: one of which no host is told is called by it and a number.
pub fn place_of(input: &PlanInput, name: &NodeName) -> Option<ReservationId> {
    match input.observed.cloud.hosts.get(&HostName::from(name.as_str())) {
        Some(host) => host.reservation.clone(),
        None => super::reservations::id_of(input, &name.as_str().rsplit_once(' ')?.0.into()),
    }
}

/// Free hosts that a launch by the hour may name, for pools that lack more than their reservations have left: in the zone
/// in which they are, or in their first.
fn offered(view: &View<'_>, pools: &[&PoolView<'_>]) -> Vec<Found> {
    let hosts = &view.input.observed.cloud.hosts;
    let keys = keys(view.standing);
    let zones: Vec<Option<Zone>> =
        pools.iter().map(|pool| bought_in(view, pool).filter(|_| !hosts.is_empty())).collect();
    let mut found = Vec::new();
    for (name, host) in hosts.iter().filter(|(_, host)| host.reservation.is_none()) {
        let suits = |(pool, zone): (&&PoolView<'_>, &Option<Zone>)| {
            zone.as_ref() == Some(&host.zone) && pool.spec.shape.instance_type == host.instance_type
        };
        let suits: Vec<bool> = pools.iter().zip(&zones).map(suits).collect();
        let Some(gpus) = suits.iter().position(|suits| *suits).map(|at| pools[at].spec.shape.gpus) else { continue };
        let place = by_layers(&keys, &NodeName::from(name.as_str()), &host.network);
        let spot = Spot::empty(Position::Offered, gpus);
        found.push(Found { place, spot, suits, free: Freedom::Usable });
    }
    found
}

/// The zone in which a pool's next machines are bought by the hour, if some are.
fn bought_in(view: &View<'_>, pool: &PoolView<'_>) -> Option<Zone> {
    pool.spec.placement.as_ref()?.together.as_ref()?;
    let empty = pool.slots.iter().filter(|slot| slot.part.is_some() && slot.body == Body::Nothing).count();
    let (mut left, mut reserved_in) = (0, None);
    for source in &pool.spec.capacity {
        match source {
            Source::Reservation(name) => {
                let id = super::reservations::id_of(view.input, name);
                let seen = id.and_then(|id| view.input.observed.cloud.reservations.seen().get(&id));
                left += seen.map_or(0, |seen| seen.available as usize);
                reserved_in = reserved_in.or_else(|| seen.map(|seen| seen.zone.clone()));
            }
            Source::OnDemand { .. } | Source::Spot { .. } if empty > left => break,
            _ => {}
        }
    }
    let by_the_hour = |source: &Source| matches!(source, Source::OnDemand { .. } | Source::Spot { .. });
    if empty <= left || !pool.spec.capacity.iter().any(by_the_hour) {
        return None;
    }
    let there = pool.slots.iter().find_map(|slot| slot.instance.map(|(_, seen)| seen.zone.clone()));
    there.or(reserved_in).or_else(|| super::launch::zones(view, pool).into_iter().next())
}

/// The GPUs that a node shows whole.
fn whole(node: &NodeSeen) -> u32 {
    u32::try_from(asked_for(&node.allocatable)).unwrap_or(0)
}

fn asked_for(amounts: &BTreeMap<crate::ids::ResourceName, i64>) -> i64 {
    WHOLE.iter().filter_map(|name| amounts.get(*name)).sum()
}

/// The shapes of the work that is there, by GPUs alone: how many each pod asks for.
pub fn shapes(input: &PlanInput) -> Vec<Shape> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for pod in input.observed.cluster.pods.seen().iter().filter(|pod| pod.counts()) {
        let gpus = u32::try_from(asked_for(&pod.requests)).unwrap_or(0);
        if gpus > 0 {
            *counts.entry(gpus).or_insert(0) += 1;
        }
    }
    let all: u32 = counts.values().sum();
    let shape = |(gpus, count): (u32, u32)| {
        let part = f64::from(count) / f64::from(all);
        Shape { cpu_milli: 0, gpus, milli: 1_000, models: Vec::new(), part }
    };
    counts.into_iter().map(shape).collect()
}
