//! Which node each pool should have by the fabric, found once for a plan and over all pools together.
//!
//! What can be chosen are nodes that exist: those that are free, and those of pools that nobody uses; with
//! `--defragment` also those with work. Machines of a cloud stand where it put them, and two of one kind may change
//! places (`trades`). What is found is carried out by the road that is there anyway: a free node is claimed (`launch::claims`), one that another pool should have leaves its
//! slot as an update does, within the pool's budget and windows, and the slot claims another. Nodes that change places
//! go together or not at all (`couple`). Whoever plans again finds the rest: a node whose way was begun counts as free,
//! so what is left of a change is cheaper than the whole, and is chosen again.

mod bargains;
mod homes;
mod report;
mod scene;
mod seats;
mod short;
pub mod trades;
mod units;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::draft::Draft;
use super::placing::{Site, site};
use super::stands::Stands;
use super::types::WaitingOn;
use super::view::View;
use crate::fabric::reasons::Reason;
use crate::fabric::state::with_hosts;
use crate::fabric::{Placement, Prices, Problem};
use crate::ids::{HostName, LevelName, NodeName, PoolName, ReservationId, SlotId, Zone};
use crate::observed::HostSeen;
use homes::Homes;
use scene::Scene;
use seats::Seats;
pub use seats::is_empty;

/// What the fabric says about nodes that exist.
#[derive(Default, Debug)]
pub struct Chosen {
    pub claims: Claims,
    /// Slots whose node another pool has better.
    pub leaves: BTreeMap<SlotId, Leaving>,
    /// Nodes that go from one pool to another: those that change places go together.
    gives: Vec<units::Give>,
    /// Machines of a cloud that do so, two and two.
    trades: Vec<trades::Trade>,
    /// Pools that do not stand together as they should, with who has machines that they cannot have.
    unlike: Vec<(PoolName, PoolName)>,
    pub stands: Option<Stands>,
}

/// Which free nodes pools should claim.
#[derive(Clone, Default, Debug)]
pub struct Claims {
    /// For pools that lack some, in the order in which they are claimed.
    by_pool: BTreeMap<PoolName, VecDeque<NodeName>>,
    /// All of these, with who is to have them: nobody else claims them.
    promised: BTreeMap<NodeName, PoolName>,
    /// Pools whose required level has no room for all of them, with what would help.
    short: BTreeMap<PoolName, String>,
    /// Hosts that launches of a pool should name.
    pins: BTreeMap<PoolName, VecDeque<HostName>>,
    homes: Homes,
    /// Places of reservations that launches of a pool get.
    seats: Seats,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaving {
    pub node: NodeName,
    /// Who has it next; none: nobody.
    pub to: Option<PoolName>,
    /// Nobody is disturbed for it.
    pub idle_only: bool,
    /// A machine of a cloud: it changes places.
    pub launched: bool,
}

/// What is drawn: the fleet, where everything goes, and why.
#[derive(Debug)]
pub struct Drawn {
    pub site: Site,
    pub placement: Placement,
    pub reasons: Vec<Reason>,
}

impl Chosen {
    pub fn of(view: &View<'_>) -> Self {
        let cluster = &view.input.observed.cluster;
        let is_whole = cluster.nodes.gap().is_none() && cluster.pods.gap().is_none();
        if view.standing.levels.is_empty() || view.input.only_node.is_some() || !is_whole {
            let claims = Claims { homes: Homes::of(view), ..Claims::default() };
            return Self { claims, ..Self::default() };
        }
        let mut scene = Scene::new(view, site(view, true));
        let to = scene.decided();
        let mut chosen = Self::default();
        chosen.claims.short = short::short(&scene, &to);
        (chosen.claims.homes, chosen.claims.seats) = (scene.homes.clone(), Seats::of(&scene));
        for (at, pool) in to.iter().enumerate() {
            chosen.note(&scene, &to, at, *pool);
        }
        chosen.gives = units::gives(&scene, &to);
        chosen.trades = trades::trades(&scene, &to);
        let problem = scene.problem();
        let state = with_hosts(&problem, &to);
        chosen.unlike = trades::unlike(&scene, &state);
        let reasons = scene.reasons(&to);
        chosen.stands = Some(report::stands(&scene, &to, &state, &reasons));
        chosen
    }

    fn note(&mut self, scene: &Scene<'_, '_>, to: &[Option<u32>], at: usize, pool: Option<u32>) {
        let name = &scene.site.tree.hosts[at];
        let next = pool.map(|pool| scene.site.pools[pool as usize].clone());
        match scene.slots[at] {
            Some((own, slot)) if scene.is_in_play(at) && next.as_ref() != Some(own.name) => {
                let idle_only = scene.idle_only(own);
                let (node, launched) = (name.clone(), scene.site.spots[at].launched);
                self.leaves.insert(slot.id.clone(), Leaving { node, to: next, idle_only, launched });
            }
            None if scene.is_in_play(at) => {
                if let (Some(next), Some(pool)) = (next, pool) {
                    if let Some(other) = scene.still_beside(at, pool, to) {
                        let what =
                            format!("a place that pool/{other}, which it should be apart from, is about to leave");
                        self.claims.short.insert(next, what);
                        return;
                    }
                    if scene.is_told(at) {
                        self.sits(scene, at, pool as usize, next);
                        return;
                    }
                    self.claims.promised.insert(name.clone(), next.clone());
                    self.claims.by_pool.entry(next).or_default().push_back(name.clone());
                }
            }
            _ => {}
        }
    }

    /// A pool is to launch something here.
    fn sits(&mut self, scene: &Scene<'_, '_>, at: usize, pool: usize, name: PoolName) {
        if let Some(view) = scene.view.pools.get(&name)
            && let Some((level, deep)) = homes::required(scene.view, view)
            && let Some(home) = scene.network(at).get(..deep)
        {
            self.claims.homes.at.entry(name.clone()).or_insert_with(|| (level.clone(), home.to_vec()));
        }
        if let Some(id) = &scene.places[at] {
            self.claims.seats.give(&name, id);
        }
        if scene.names_hosts(pool, at) {
            self.claims.pins.entry(name).or_default().push_back(HostName::from(scene.site.tree.hosts[at].as_str()));
        }
    }

    /// Holds what changes places with something that is held: a pool would lack a node for nothing.
    pub fn couple(&self, view: &View<'_>, draft: &mut Draft) {
        trades::couple(&self.trades, view, draft);
        for (pool, other) in &self.unlike {
            let text = format!(
                "it does not stand together, and its machines change places with none of pool/{other}, which are made or \
                 cut otherwise: give both the same launch and layout"
            );
            draft.note(super::types::thing(pool), text);
        }
        if self.gives.is_empty() {
            return;
        }
        let seen = view.input.observed.cluster.nodes.seen();
        let begun = |node: &NodeName| {
            seen.get(node).is_some_and(|node| node.annotation(crate::effect::marks::CORDON).is_some())
        };
        let going: BTreeSet<&NodeName> = draft.courses.iter().flat_map(|course| &course.nodes).collect();
        let waits = units::waits(&self.gives, &going, |node| draft.kept.contains_key(node));
        let waits: BTreeMap<NodeName, units::Waits> =
            waits.into_iter().filter(|one| !begun(&one.node)).map(|one| (one.node.clone(), one)).collect();
        for course in std::mem::take(&mut draft.courses) {
            let Some(one) = course.nodes.iter().find_map(|node| waits.get(node)) else {
                draft.courses.push(course);
                continue;
            };
            let what = format!("{}, which changes places with it and is held", one.stays);
            let on = WaitingOn::Capacity { what, retry: None };
            if one.leaves_room {
                draft.kept.insert(one.node.clone(), on.clone());
            }
            draft.held.push(course.held(on));
        }
    }
}

impl Claims {
    /// The next of the free nodes that a pool should claim, of those that it may.
    pub fn next(&mut self, pool: &PoolName, may: impl Fn(&NodeName) -> bool) -> Option<NodeName> {
        let claims = self.by_pool.get_mut(pool)?;
        let at = claims.iter().position(may)?;
        claims.remove(at)
    }

    /// Whether a free node is somebody else's.
    pub fn is_promised(&self, node: &NodeName, pool: &PoolName) -> bool {
        self.promised.get(node).is_some_and(|to| to != pool)
    }

    /// The host that a launch should name, of those in this zone and reservation.
    pub fn pin(
        &mut self,
        pool: &PoolName,
        hosts: &BTreeMap<HostName, HostSeen>,
        zone: &Zone,
        reservation: Option<&ReservationId>,
    ) -> Option<HostName> {
        let at = self.pinned(pool, hosts, zone, reservation)?;
        self.pins.get_mut(pool)?.remove(at)
    }

    fn pinned(
        &self,
        pool: &PoolName,
        hosts: &BTreeMap<HostName, HostSeen>,
        zone: &Zone,
        reservation: Option<&ReservationId>,
    ) -> Option<usize> {
        let fits = |host: &HostSeen| {
            let is_here = host.zone == *zone && host.reservation.as_ref() == reservation;
            is_here && self.elsewhere(pool, &host.network).is_none()
        };
        self.pins.get(pool)?.iter().position(|name| hosts.get(name).is_some_and(fits))
    }

    /// Whether a launch here could name a host.
    pub fn has_pin(&self, pool: &PoolName, hosts: &BTreeMap<HostName, HostSeen>, zone: &Zone) -> bool {
        self.pinned(pool, hosts, zone, None).is_some()
    }

    /// The level that would be broken by a machine below these network nodes, as far as they say.
    pub fn elsewhere(&self, pool: &PoolName, network: &[String]) -> Option<&LevelName> {
        let (level, home) = self.homes.at.get(pool)?;
        network.iter().zip(home).any(|(one, other)| one != other).then_some(level)
    }

    /// What is waited for before anything more is launched for a pool, where nobody can say yet where it stands.
    pub fn untold(&self, pool: &PoolName) -> Option<&str> {
        self.homes.untold.get(pool).map(String::as_str)
    }

    /// Why a pool gets no more nodes, where its level is required.
    pub fn why_short(&self, pool: &PoolName) -> Option<&str> {
        self.short.get(pool).map(String::as_str)
    }
}

/// The same for a map of it; none of a fleet that says nothing about its fabric.
pub fn drawn(view: &View<'_>) -> Option<Drawn> {
    if view.standing.levels.is_empty() {
        return None;
    }
    let mut scene = Scene::new(view, site(view, false));
    let to = scene.decided();
    let problem = scene.problem();
    let state = with_hosts(&problem, &to);
    let stay = with_hosts(&problem, &scene.now()).score();
    let (score, reasons) = (state.score(), scene.reasons(&to));
    // What is not in play stays as it is.
    let stays = |at: usize| if scene.is_in_play(at) { to[at] } else { scene.site.spots[at].pool };
    let hosts = (0..to.len()).map(stays).collect();
    Some(Drawn { placement: Placement { hosts, score, stay }, reasons, site: scene.site })
}

/// The prices of a plan; with `--defragment` a move is weighed afterwards, by what it buys.
fn prices(levels: usize, moving: bool) -> Prices {
    let prices = Prices::doubling(levels);
    if moving { prices } else { Prices { moving: 0, ..prices } }
}

/// What a problem of these hosts is.
fn problem<'s>(
    site: &'s Site,
    hosts: &[crate::fabric::Host],
    asks: &[crate::fabric::Ask],
    moving: bool,
) -> Problem<'s> {
    let prices = prices(site.tree.depth(), moving);
    Problem { tree: &site.tree, hosts: hosts.to_vec(), pools: asks.to_vec(), prices }
}
