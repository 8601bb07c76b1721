//! Places of reservations, given out before anything is launched: which pool gets which, over all pools together.
//!
//! A reservation's topology is known before anything is launched in it, and it is paid for whether or not it is used: so
//! of the reservations that a pool names before any dearer source the fabric chooses, and their order decides only
//! between those that are as good. What is bought by the hour comes after them, beside what is there.

use std::collections::{BTreeMap, BTreeSet};

use super::homes::required;
use super::scene::Scene;
use super::{Claims, problem};
use crate::effect::Scope;
use crate::fabric::reasons::{Reason, reasons};
use crate::fabric::search::place as search;
use crate::fabric::sources::by_layers;
use crate::fabric::state::{State, with_hosts};
use crate::fabric::{Ask, Freedom, Host, Problem};
use crate::fleet::pool::Source;
use crate::ids::{HostName, NodeName, PoolName, ReservationId};
use crate::observed::HostSeen;
use crate::plan::launch::open_places;
use crate::plan::placing::{Choice, Position, Site, place_of};
use crate::plan::reservations::id_of;
use crate::plan::view::{Body, PoolView, SlotView, View};

/// A domain without hosts.
pub const NOWHERE: u32 = u32::MAX;

/// Places of reservations that the fabric gives to pools.
#[derive(Clone, Default, Debug)]
pub struct Seats {
    /// How many places of each pool are left.
    of: BTreeMap<ReservationId, BTreeMap<PoolName, u32>>,
    /// Reservations of whose places is known where they are.
    told: BTreeSet<ReservationId>,
    /// Pools that get no place but those, whatever else is free: a level that is required would be broken, or a distance.
    strict: BTreeSet<PoolName>,
}

/// Whether a launch fills a slot that nothing stands in.
pub fn is_empty(slot: &SlotView<'_>) -> bool {
    let is_gone = slot.body == Body::Dead && !slot.is_existing() && slot.node.is_none();
    slot.part.is_some() && (slot.body == Body::Nothing || is_gone)
}

/// The reservation of a place that nobody uses.
pub fn place(view: &View<'_>, site: &Site, at: usize) -> Option<ReservationId> {
    let is_unused = site.spots[at].standing == Position::Unused;
    is_unused.then(|| place_of(view.input, &site.tree.hosts[at])).flatten()
}

/// The reservations that a pool names before anything that is paid by the hour, in their order.
pub fn leading(view: &View<'_>, pool: &PoolView<'_>) -> Vec<ReservationId> {
    let is_free = |source: &&Source| matches!(source, Source::Reservation(_) | Source::Existing { .. });
    let named = pool.spec.capacity.iter().take_while(is_free).filter_map(|source| match source {
        Source::Reservation(name) => id_of(view.input, name),
        _ => None,
    });
    named.collect()
}

impl Seats {
    pub fn of(scene: &Scene<'_, '_>) -> Self {
        let all = scene.places.iter().enumerate().filter(|(at, _)| scene.told[*at]);
        let told = all.filter_map(|(_, id)| id.clone()).collect();
        let strict = scene.view.pools.values().filter(|pool| required(scene.view, pool).is_some());
        Self { of: BTreeMap::new(), told, strict: strict.map(|pool| pool.name.clone()).collect() }
    }

    pub fn give(&mut self, pool: &PoolName, id: &ReservationId) {
        *self.of.entry(id.clone()).or_default().entry(pool.clone()).or_default() += 1;
    }

    pub fn has(&self, pool: &PoolName, id: &ReservationId) -> bool {
        self.of.get(id).and_then(|pools| pools.get(pool)).is_some_and(|left| *left > 0)
    }

    /// How many of a reservation's places are somebody's: a pool that fills a slot leaves those of the others.
    fn promised(&self, id: &ReservationId, but: Option<&PoolName>) -> u32 {
        let pools = self.of.get(id).into_iter().flatten();
        pools.filter(|(pool, _)| Some(*pool) != but).map(|(_, left)| left).sum()
    }

    fn take(&mut self, pool: &PoolName, id: &ReservationId) {
        if let Some(left) = self.of.get_mut(id).and_then(|pools| pools.get_mut(pool)) {
            *left = left.saturating_sub(1);
        }
    }
}

impl Claims {
    /// Whether the fabric has a place of this reservation for a pool.
    pub fn has_seat(&self, pool: &PoolName, id: &ReservationId) -> bool {
        self.seats.has(pool, id)
    }

    /// Whether one of so many free places may be this slot's; it is taken then.
    pub fn sit(&mut self, pool: &PoolView<'_>, slot: &SlotView<'_>, id: &ReservationId, free: u32) -> bool {
        let is_empty = is_empty(slot);
        if is_empty && self.seats.has(pool.name, id) {
            self.seats.take(pool.name, id);
            return true;
        }
        let is_strict = is_empty && self.seats.strict.contains(pool.name) && self.seats.told.contains(id);
        !is_strict && free > self.seats.promised(id, Some(pool.name).filter(|_| is_empty))
    }
}

impl Scene<'_, '_> {
    /// Of which empty places is known where they are, and that something could be launched there now.
    pub fn tell(&mut self) {
        let names = self.view.standing.reservations.keys();
        let open = names.filter_map(|name| Some((id_of(self.view.input, name)?, open_places(self.view, name))));
        let mut open: BTreeMap<ReservationId, u32> = open.collect();
        let keys: Vec<Option<&str>> =
            self.view.standing.levels.iter().map(|level| level.node_label.as_deref()).collect();
        for at in 0..self.hosts.len() {
            let name = &self.site.tree.hosts[at];
            let is_named = self.view.input.observed.cloud.hosts.contains_key(&HostName::from(name.as_str()));
            self.told[at] = match (&self.site.spots[at].standing, &self.places[at]) {
                (Position::Offered, _) => is_named,
                (Position::Unused, Some(id)) => {
                    let network = self.network(at);
                    let whole = || by_layers(&keys, name, network).path.iter().all(Option::is_some);
                    let left = open.entry(id.clone()).or_default();
                    let is_open = *left > 0 && (is_named || whole());
                    *left -= u32::from(is_open);
                    is_open
                }
                _ => false,
            };
        }
    }

    /// Below which network nodes an empty place is.
    pub fn network(&self, at: usize) -> &[String] {
        let cloud = &self.view.input.observed.cloud;
        let host: Option<&HostSeen> = cloud.hosts.get(&HostName::from(self.site.tree.hosts[at].as_str()));
        let reserved = || Some(&cloud.reservations.seen().get(self.places[at].as_ref()?)?.network);
        host.map(|host| &host.network).or_else(reserved).map_or(&[], Vec::as_slice)
    }

    /// Whether a pool could sit in a place that is known. What a frozen one was given would stay empty.
    pub fn may_sit(&self, pool: &PoolView<'_>) -> bool {
        let mut freezes = self.view.input.ledger.head.frozen.iter();
        if freezes.any(|freeze| matches!(&freeze.scope, Scope::Pool(name) if name == pool.name)) {
            return false;
        }
        let mine = leading(self.view, pool);
        let mut seats = self.places.iter().zip(&self.told).filter(|(_, told)| **told);
        seats.any(|(id, _)| id.as_ref().is_some_and(|id| mine.contains(id)))
    }

    /// Gives out the places of reservations. From then on they are their pools' own: only what is missing beyond them
    /// has a choice.
    pub fn reserved_first(&mut self) {
        let seats: Vec<usize> =
            (0..self.hosts.len()).filter(|at| self.told[*at] && self.places[*at].is_some()).collect();
        if seats.is_empty() {
            return;
        }
        let mut hosts = self.hosts.clone();
        for (at, host) in hosts.iter_mut().enumerate() {
            if self.site.spots[at].standing == Position::Offered {
                host.free = Freedom::Out;
            }
        }
        let asked = problem(&self.site, &hosts, &self.asks, true);
        let found = search(&asked).hosts;
        let ordered = self.in_order(&seats, &found);
        let (best, other) = (with_hosts(&asked, &found), with_hosts(&asked, &ordered));
        let is_as_good = other.score() <= best.score()
            && crate::fabric::exact::keeps_orders(&other)
            && (0..self.asks.len()).all(|pool| spread(&other, pool) <= spread(&best, pool));
        let to = if is_as_good { ordered } else { found };
        for at in seats {
            if to[at].is_some() {
                (self.hosts[at].pool, self.hosts[at].free) = (to[at], Freedom::Fixed);
            }
        }
    }

    /// As many places for every pool, from its reservations in their order.
    fn in_order(&self, seats: &[usize], found: &[Option<u32>]) -> Vec<Option<u32>> {
        let mut to = found.to_vec();
        seats.iter().for_each(|at| to[*at] = None);
        let mut of: BTreeMap<&ReservationId, Vec<usize>> = BTreeMap::new();
        for at in seats {
            of.entry(self.places[*at].as_ref().expect("a seat is a place")).or_default().push(*at);
        }
        for (number, pool) in (0u32..).zip(self.view.pools.values()) {
            let mut left = seats.iter().filter(|at| found[**at] == Some(number)).count();
            for id in leading(self.view, pool) {
                for at in of.get(&id).into_iter().flatten() {
                    let suits = self.asks[number as usize].suits[self.hosts[*at].class as usize];
                    if left > 0 && to[*at].is_none() && suits {
                        to[*at] = Some(number);
                        left -= 1;
                    }
                }
            }
        }
        to
    }

    /// A pool that requires a level gets nodes only where its others are: it could not move as a whole without breaking
    /// the level on the way. And none gets a reserved place that it names after dearer ones.
    pub fn narrow(&mut self) {
        let homes: Vec<(usize, usize, u32)> = (0..self.asks.len()).filter_map(|pool| self.home(pool)).collect();
        let (classes, asks) = self.narrowed(&homes);
        self.hosts.iter_mut().zip(classes).for_each(|(host, class)| host.class = class);
        self.asks.iter_mut().zip(asks).for_each(|(ask, suits)| ask.suits = suits);
    }

    /// By host its class, and by pool which of them suit.
    fn narrowed(&self, homes: &[(usize, usize, u32)]) -> (Vec<u32>, Vec<Vec<bool>>) {
        let mine: Vec<Vec<ReservationId>> = self.view.pools.values().map(|pool| leading(self.view, pool)).collect();
        let mut classes: BTreeMap<(Vec<bool>, u32), u32> = BTreeMap::new();
        let tree = &self.site.tree;
        let mut of_host = Vec::with_capacity(self.hosts.len());
        for (at, host) in self.hosts.iter().enumerate() {
            let class = self.site.hosts[at].class as usize;
            let mut suits: Vec<bool> = self.site.asks.iter().map(|ask| ask.suits[class]).collect();
            for (pool, level, home) in homes {
                let is_own = self.slots[at].is_some() && host.pool.is_some_and(|own| own as usize == *pool);
                suits[*pool] &= is_own || tree.above[*level][tree.leaf_of[at] as usize] == *home;
            }
            if let Some(id) = &self.places[at] {
                suits.iter_mut().zip(&mine).for_each(|(suits, mine)| *suits &= mine.contains(id));
            }
            let next = u32::try_from(classes.len()).unwrap_or(u32::MAX);
            of_host.push(*classes.entry((suits, host.gpus)).or_insert(next));
        }
        let mut all: Vec<(u32, Vec<bool>)> = classes.into_iter().map(|((suits, _), class)| (class, suits)).collect();
        all.sort_unstable();
        let suits = (0..self.asks.len()).map(|pool| all.iter().map(|(_, suits)| suits[pool]).collect());
        (of_host, suits.collect())
    }

    /// The pool, its level, and the domain that has most of its nodes; `NOWHERE` where no host hangs in that.
    pub fn home(&self, pool: usize) -> Option<(usize, usize, u32)> {
        let level = self.asks[pool].together.filter(|_| self.asks[pool].required)?;
        if let Some(home) = self.standing_home(pool, level) {
            return Some((pool, level, home));
        }
        // One that has nothing yet goes where its reserved places are: they come before all others.
        let seats = (0..self.hosts.len()).filter(|at| self.told[*at] && self.places[*at].is_some());
        let own = seats.filter(|at| self.hosts[*at].pool.is_some_and(|own| own as usize == pool));
        Some((pool, level, self.most(level, own)?))
    }

    /// The domain in which a pool stands already, or will by what was launched.
    fn standing_home(&self, pool: usize, level: usize) -> Option<u32> {
        // Those that are out of service are its own too.
        let is_own = |at: &usize| {
            let serves = self.slots[*at].is_some_and(|(_, slot)| slot.part.is_some());
            serves && self.site.spots[*at].pool.is_some_and(|own| own as usize == pool)
        };
        let most = self.most(level, (0..self.hosts.len()).filter(is_own));
        // Machines that do not run yet will be beside each other, whether or not anything else hangs there.
        most.or_else(|| {
            let home = self.homes.there.get(&self.asks[pool].name)?;
            self.view.standing.declared.is_none().then(|| self.domain(level, home))
        })
    }

    /// The domain with the most of some hosts.
    fn most(&self, level: usize, hosts: impl Iterator<Item = usize>) -> Option<u32> {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for at in hosts {
            *counts.entry(self.site.tree.above[level][self.site.tree.leaf_of[at] as usize]).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(domain, count)| (*count, std::cmp::Reverse(*domain)));
        most.map(|(domain, _)| domain)
    }

    /// The domain below these network nodes.
    fn domain(&self, level: usize, network: &[String]) -> u32 {
        let keys: Vec<Option<&str>> =
            self.view.standing.levels.iter().map(|level| level.node_label.as_deref()).collect();
        let path = by_layers(&keys, &NodeName::from(""), network).path;
        self.site.tree.find(&path[..=level]).unwrap_or(NOWHERE)
    }

    /// Why every pool is where it is. Reserved places that were given out could be others as long as nothing is bought
    /// by the hour beside them.
    pub fn reasons(&self, to: &[Option<u32>]) -> Vec<Reason> {
        let buys = (0..to.len()).any(|at| self.site.spots[at].standing == Position::Offered && to[at].is_some());
        let is_seat = |at: usize| self.told[at] && self.places[at].is_some();
        let mut hosts: Vec<Host> = self.hosts.clone();
        let mut asks: Vec<Ask> = self.asks.clone();
        if !buys && (0..to.len()).any(|at| is_seat(at) && to[at].is_some()) {
            let homes = (0..asks.len()).filter_map(|pool| {
                let level = asks[pool].together.filter(|_| asks[pool].required)?;
                Some((pool, level, self.standing_home(pool, level)?))
            });
            let (classes, suits) = self.narrowed(&homes.collect::<Vec<_>>());
            asks.iter_mut().zip(suits).for_each(|(ask, suits)| ask.suits = suits);
            for (at, (host, class)) in hosts.iter_mut().zip(classes).enumerate() {
                host.class = class;
                match self.site.spots[at].standing {
                    Position::Offered => host.free = Freedom::Out,
                    _ if is_seat(at) => (host.pool, host.free) = (None, Freedom::Usable),
                    _ => {}
                }
            }
        }
        let problem: Problem<'_> = problem(&self.site, &hosts, &asks, true);
        reasons(&with_hosts(&problem, to), &self.site.staying(&problem, to))
    }

    /// Whether a launch of a pool names its host.
    pub fn names_hosts(&self, pool: usize, at: usize) -> bool {
        let name = HostName::from(self.site.tree.hosts[at].as_str());
        self.site.choices[pool] == Choice::Hosts && self.view.input.observed.cloud.hosts.contains_key(&name)
    }
}

/// How many domains a pool touches of a level that it requires.
fn spread(state: &State<'_>, pool: usize) -> usize {
    let ask = &state.problem.pools[pool];
    ask.together.filter(|_| ask.required).map_or(0, |level| state.domains(pool, level).len())
}
