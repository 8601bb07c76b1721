//! What of a fleet can be chosen now: which nodes stay, which may go elsewhere, how many each pool wants of them.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::bargains::bargains;
use super::homes::Homes;
use super::problem;
use super::seats::{is_empty, place};
use crate::effect::marks::{HANDS_OFF, POOL, is_starting};
use crate::effect::{Exchange, Scope};
use crate::fabric::insert::Scratch;
use crate::fabric::search::{self, begin};
use crate::fabric::state::settle;
use crate::fabric::{Ask, Freedom, Host, Problem};
use crate::fleet::policy::ConditionStatus;
use crate::fleet::pool::Source;
use crate::fleet::target::Purpose;
use crate::fleet::updates::When;
use crate::ids::{NodeName, PoolName, ReservationId, SlotId};
use crate::observed::{InstanceState, Market, NodeSeen};
use crate::plan::placing::{Choice, Position, Site};
use crate::plan::view::{Body, PoolView, SlotView, View};
use crate::plan::wish::{EXCHANGE, Wish, wish};
use crate::plan::{drain, health};

/// How often a placement is looked for again, because a node in it may not go after all.
const AGAIN: usize = 4;

/// How long a removal by choice counts for its slot.
const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

/// From which pool a machine goes to which, and of what kind it is.
type Way<'k> = (Option<u32>, Option<u32>, Option<Kind<'k>>);

/// Where a machine comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kind<'a> {
    market: Market,
    reservation: Option<&'a ReservationId>,
}

pub struct Scene<'v, 'a> {
    pub view: &'v View<'a>,
    pub site: Site,
    /// By host: the slot that it serves.
    pub slots: Vec<Option<(&'v PoolView<'a>, &'v SlotView<'a>)>>,
    pub hosts: Vec<Host>,
    pub asks: Vec<Ask>,
    pub homes: Homes,
    /// By host: the reservation of a place that nobody uses.
    pub places: Vec<Option<ReservationId>>,
    /// By host: nobody uses it, and a launch could have it of which is known where it stands.
    pub told: Vec<bool>,
}

impl<'v, 'a> Scene<'v, 'a> {
    pub fn new(view: &'v View<'a>, site: Site) -> Self {
        let of_node: BTreeMap<&NodeName, (&PoolView<'_>, &SlotView<'_>)> =
            view.slots().filter_map(|(pool, slot)| Some((slot.node?.0, (pool, slot)))).collect();
        let slots: Vec<_> = site.tree.hosts.iter().map(|name| of_node.get(name).copied()).collect();
        let (hosts, asks, homes) = (site.hosts.clone(), site.asks.clone(), Homes::of(view));
        let places = (0..hosts.len()).map(|at| place(view, &site, at)).collect();
        let told = vec![false; hosts.len()];
        let mut scene = Self { view, hosts, asks, site, slots, homes, places, told };
        scene.tell();
        for at in 0..scene.hosts.len() {
            let free = scene.freedom(at, false);
            scene.hosts[at].free = free;
            // Its way out was begun: it is as good as free, and what that cost is paid.
            if scene.is_begun(at) && free == Freedom::Usable {
                scene.hosts[at].pool = None;
            }
            if let Some(own) = scene.own_by_label(at).filter(|_| free == Freedom::Usable) {
                scene.hosts[at].pool = Some(own);
            }
        }
        scene.ask();
        scene.narrow();
        scene.reserved_first();
        scene.narrow();
        scene.second_choice();
        scene
    }

    /// Whether anything can be decided about a host.
    pub fn is_in_play(&self, at: usize) -> bool {
        self.hosts[at].free != Freedom::Out
    }

    pub fn problem(&self) -> Problem<'_> {
        problem(&self.site, &self.hosts, &self.asks, true)
    }

    /// Which pool has which host now, of those in play.
    pub fn now(&self) -> Vec<Option<u32>> {
        self.hosts.iter().map(|host| host.pool.filter(|_| host.free != Freedom::Out)).collect()
    }

    /// Whether a pool's nodes go only when nobody uses them.
    pub fn idle_only(&self, pool: &PoolView<'_>) -> bool {
        !self.view.input.defragment || pool.spec.updates.when == When::Idle
    }

    pub fn node(&self, at: usize) -> Option<&'v NodeSeen> {
        self.view.input.observed.cluster.nodes.seen().get(&self.site.tree.hosts[at])
    }

    pub fn is_busy(&self, at: usize) -> bool {
        !self.view.harm.pods_on(&self.site.tree.hosts[at]).is_empty()
    }

    /// Emptied by us, or about to be, so that it can serve another pool.
    fn is_begun(&self, at: usize) -> bool {
        let mark = self.slots[at].and_then(|(_, slot)| slot.mark.as_ref());
        let why = if self.site.spots[at].launched { EXCHANGE } else { "replace" };
        mark.is_some_and(|mark| mark.why == why)
    }

    /// The pool whose label a node carries that no slot remembers: it stands where it stood, and to take another would be
    /// to move.
    pub fn own_by_label(&self, at: usize) -> Option<u32> {
        let worn = self.node(at).filter(|_| self.slots[at].is_none())?.labels.get(POOL)?;
        let own = self.site.pools.iter().position(|name| name.as_str() == worn)?;
        u32::try_from(own).ok().filter(|_| self.could_have(own, at))
    }

    /// Whether a host is what a pool asks for, wherever it hangs and whoever has it.
    pub fn could_have(&self, pool: usize, at: usize) -> bool {
        self.site.asks[pool].suits[self.site.hosts[at].class as usize]
    }

    /// A host that a launch may name, or a place of a reservation.
    pub fn is_told(&self, at: usize) -> bool {
        self.told[at]
    }

    fn freedom(&self, at: usize, moves_work: bool) -> Freedom {
        let (spot, name) = (&self.site.spots[at], &self.site.tree.hosts[at]);
        if self.is_told(at) {
            return Freedom::Usable;
        }
        let Some(node) = self.node(at) else { return Freedom::Out };
        let Some((pool, slot)) = self.slots[at] else {
            return if spot.standing == Position::Free { Freedom::Usable } else { Freedom::Out };
        };
        let leaves = |pod: &&crate::observed::PodSeen| self.view.harm.is_leaving(pod);
        match spot.standing {
            _ if slot.part.is_none() => Freedom::Out,
            Position::Draining | Position::Serving if spot.launched && !self.may_change_places(at) => Freedom::Fixed,
            Position::Draining if self.is_begun(at) && node.ready => {
                let moves_work = self.view.input.defragment && !self.idle_only(pool);
                let is_empty = self.view.harm.pods_on(name).iter().all(leaves);
                if is_empty || moves_work { Freedom::Usable } else { Freedom::Fixed }
            }
            Position::Serving if node.annotations.contains_key(HANDS_OFF) => Freedom::Fixed,
            Position::Serving if !self.is_busy(at) => Freedom::Usable,
            Position::Serving if moves_work && !self.idle_only(pool) => match drain::cannot_begin(self.view, name) {
                None => Freedom::Usable,
                Some(_) => Freedom::Fixed,
            },
            Position::Serving => Freedom::Fixed,
            _ => Freedom::Out,
        }
    }

    /// How many hosts each pool wants: those that it has, and one for each empty slot that may claim one.
    fn ask(&mut self) {
        let mut wanted: BTreeMap<&PoolName, u32> = BTreeMap::new();
        for at in (0..self.hosts.len()).filter(|at| self.hosts[*at].free != Freedom::Out) {
            if let Some((pool, _)) = self.slots[at] {
                *wanted.entry(pool.name).or_default() += 1;
            }
        }
        let is_pinned: BTreeMap<&PoolName, bool> =
            self.site.pools.iter().zip(self.site.choices.iter().map(|choice| *choice == Choice::Hosts)).collect();
        let gets = |pool: &&PoolView<'_>| {
            let chooses = claims(pool) || is_pinned.get(pool.name).copied().unwrap_or(false);
            (chooses || self.may_sit(pool)) && !self.homes.untold.contains_key(pool.name)
        };
        for pool in self.view.pools.values().filter(gets) {
            let empty = pool.slots.iter().filter(|slot| is_empty(slot)).count();
            *wanted.entry(pool.name).or_default() += u32::try_from(empty).unwrap_or(u32::MAX);
        }
        for (name, ask) in self.site.pools.iter().zip(&mut self.asks) {
            ask.nodes = wanted.get(name).copied().unwrap_or(0);
        }
    }

    /// A free node that somebody uses, or that does not show what it should, is taken only where there are too few others.
    fn second_choice(&mut self) {
        let pools: Vec<&PoolView<'_>> = self.view.pools.values().collect();
        let asked: Vec<Vec<String>> = pools.iter().map(|pool| health::admission(self.view, pool)).collect();
        let is_nobodys = |scene: &Self, at: usize| scene.slots[at].is_none() && scene.hosts[at].pool.is_none();
        let free = |scene: &Self, at: usize| is_nobodys(scene, at) && scene.hosts[at].free == Freedom::Usable;
        let shows = |node: &NodeSeen, kind: &String| {
            node.conditions.get(kind).is_some_and(|seen| seen.status == ConditionStatus::True)
        };
        let mut second = Vec::new();
        let mut good = vec![0u32; pools.len()];
        for at in (0..self.hosts.len()).filter(|at| free(self, *at)) {
            let class = self.hosts[at].class as usize;
            let suits = |pool: &usize| self.asks[*pool].suits[class];
            let node = self.node(at);
            let is_admitted = (0..pools.len())
                .filter(suits)
                .all(|pool| asked[pool].iter().all(|kind| node.is_some_and(|node| shows(node, kind))));
            match self.is_told(at) || (is_admitted && !self.is_busy(at)) {
                true => (0..pools.len()).filter(suits).for_each(|pool| good[pool] += 1),
                false => second.push(at),
            }
        }
        let own = self.own();
        let lacks = |pool: usize| self.asks[pool].nodes.saturating_sub(own[pool]);
        if (0..pools.len()).all(|pool| good[pool] >= lacks(pool)) {
            second.into_iter().for_each(|at| self.hosts[at].free = Freedom::Out);
        }
    }

    /// A pool that should be apart from this one, has a node beside this host now, and will have none.
    pub fn still_beside(&self, at: usize, pool: u32, to: &[Option<u32>]) -> Option<&PoolName> {
        let tree = &self.site.tree;
        let near = |other: u32, level: usize, pools: &dyn Fn(usize) -> Option<u32>| {
            let domain = &tree.domains[level][tree.above[level][tree.leaf_of[at] as usize] as usize].hosts;
            (domain.start as usize..domain.end as usize).any(|host| pools(host) == Some(other))
        };
        let own = self.asks[pool as usize].apart.iter().map(|other| (*other, self.asks[pool as usize].together));
        let others = (0u32..).zip(&self.asks).filter(|(_, ask)| ask.apart.contains(&pool));
        let others = others.map(|(other, ask)| (other, ask.together));
        let mut apart = own.chain(others).filter_map(|(other, level)| Some((other, level?)));
        let now = |host: usize| self.site.spots[host].pool;
        let then = |host: usize| if self.is_in_play(host) { to[host] } else { self.site.spots[host].pool };
        let found = apart.find(|(other, level)| near(*other, *level, &now) && !near(*other, *level, &then));
        found.map(|(other, _)| &self.site.pools[other as usize])
    }

    /// Where every host goes.
    pub fn decided(&mut self) -> Vec<Option<u32>> {
        let mut to = self.placed();
        for _ in 0..AGAIN {
            if !self.keep(&to) {
                break;
            }
            to = self.placed();
        }
        if self.keep(&to) {
            self.keep_all_machines();
            to = self.placed();
        }
        if !self.view.input.defragment {
            return to;
        }
        for at in 0..self.hosts.len() {
            if self.hosts[at].free == Freedom::Fixed {
                self.hosts[at].free = self.freedom(at, true);
            }
        }
        for _ in 0..AGAIN {
            let better = self.defragmented(&to);
            if !self.keep(&better) {
                return better;
            }
        }
        to
    }

    /// The best place for all, at the price that a move has.
    fn placed(&self) -> Vec<Option<u32>> {
        let problem = self.problem();
        let lacks = self.asks.iter().zip(self.own()).any(|(ask, own)| ask.nodes > own);
        let may_move = self.hosts.iter().any(|host| host.free == Freedom::Usable && host.pool.is_some());
        if lacks || may_move {
            search::place(&problem).hosts
        } else {
            settle(&begin(&problem, &mut Scratch::default()))
        }
    }

    /// By pool: how many hosts in play it has.
    fn own(&self) -> Vec<u32> {
        let mut own = vec![0; self.asks.len()];
        self.now().into_iter().flatten().for_each(|pool| own[pool as usize] += 1);
        own
    }

    /// What pays by itself, added one by one until nothing more does.
    fn defragmented(&self, from: &[Option<u32>]) -> Vec<Option<u32>> {
        let mut now = from.to_vec();
        for _ in 0..AGAIN {
            let mut hosts = self.hosts.clone();
            for (host, pool) in hosts.iter_mut().zip(&now) {
                if host.free == Freedom::Usable {
                    host.pool = *pool;
                }
            }
            let free = problem(&self.site, &hosts, &self.asks, false);
            let to = search::place(&free).hosts;
            let found = bargains(&self.site, &free, &now, &to);
            let pays: Vec<_> = found.into_iter().filter(|one| one.pays(&self.site, &now)).collect();
            if pays.is_empty() {
                break;
            }
            for at in pays.iter().flat_map(|one| &one.hosts) {
                now[*at] = to[*at];
            }
        }
        now
    }

    /// Keeps what may not go after all; whether there was any.
    fn keep(&mut self, to: &[Option<u32>]) -> bool {
        let wishes = self.keep_those_with_other_wishes(to);
        self.keep_those_without_partner(to) || wishes
    }

    /// Machines of a cloud only change places, two and two of one kind. Those whose way was begun have a partner first.
    fn keep_those_without_partner(&mut self, to: &[Option<u32>]) -> bool {
        let goes = |at: &usize| {
            let is_free = self.hosts[*at].free == Freedom::Usable && self.site.spots[*at].launched;
            is_free && self.site.spots[*at].pool != to[*at]
        };
        let mut going: BTreeMap<Way<'_>, Vec<usize>> = BTreeMap::new();
        for at in (0..to.len()).filter(goes) {
            going.entry((self.site.spots[at].pool, to[at], self.kind(at))).or_default().push(at);
        }
        let mut alone: Vec<usize> = Vec::new();
        for ((from, to, kind), hosts) in &going {
            let partners = going.get(&(*to, *from, *kind)).filter(|_| to.is_some() && kind.is_some());
            let mut hosts = hosts.clone();
            hosts.sort_by_key(|at| (!self.is_begun(*at), *at));
            alone.extend(hosts.into_iter().skip(partners.map_or(0, Vec::len)));
        }
        alone.iter().for_each(|at| self.stays(*at));
        !alone.is_empty()
    }

    fn keep_all_machines(&mut self) {
        for at in 0..self.hosts.len() {
            if self.site.spots[at].launched && self.hosts[at].free == Freedom::Usable {
                self.stays(at);
            }
        }
    }

    fn stays(&mut self, at: usize) {
        self.hosts[at].free = Freedom::Fixed;
        self.hosts[at].pool = self.site.spots[at].pool;
    }

    /// Where a machine comes from: what it is changed for comes from the same.
    pub fn kind(&self, at: usize) -> Option<Kind<'a>> {
        let (_, instance) = self.slots[at]?.1.instance?;
        Some(Kind { market: instance.market, reservation: instance.reservation.as_ref() })
    }

    /// Whether a machine may serve another pool: it runs, is its pool's own, nothing is remembered that concerns its slot
    /// and not itself, and its price is nobody's bid.
    fn may_change_places(&self, at: usize) -> bool {
        let Some((pool, slot)) = self.slots[at] else { return false };
        let (Some((_, instance)), Some(record)) = (slot.instance, slot.record) else { return false };
        let cloud_is_whole = self.view.input.observed.cloud.instances.gap().is_none();
        let is_own = slot.part.is_some_and(|part| part.purpose == Purpose::Own);
        let known = self.view.input.ledger.pools.get(pool.name).into_iter().flat_map(|known| &known.removed);
        let mut recent = known.filter(|(_, at)| self.view.now.duration_since(*at) < AN_HOUR);
        let is_open = |(first, note): &(SlotId, Exchange)| *first == slot.id || note.with == slot.id;
        let is_quiet = !self.view.exchanges.iter().any(is_open)
            && record.intent.is_none()
            && !record.leaving
            && record.missing_since.is_none();
        let is_new = slot.node.is_some_and(|(_, node)| is_starting(node));
        cloud_is_whole
            && is_own
            && is_quiet
            && !self.keeps_another_closed(at)
            && !is_new
            && slot.body == Body::Serving
            && instance.state == InstanceState::Running
            && instance.market != Market::Spot
            && instance.notice.is_none()
            && !self.view.input.renamed.contains_key(pool.name)
            && !recent.any(|(index, _)| *index == slot.id.index)
    }

    /// Whether a freeze keeps it where it is while another is closed already, which nobody should wait with for a thaw.
    fn keeps_another_closed(&self, at: usize) -> bool {
        let Some((pool, _)) = self.slots[at].filter(|_| !self.is_begun(at)) else { return false };
        let mut freezes = self.view.input.ledger.head.frozen.iter();
        let is_frozen = freezes.any(|freeze| match &freeze.scope {
            // Nothing would be opened either.
            Scope::Fleet => false,
            Scope::Pool(name) => name == pool.name,
            Scope::Node(name) => *name == self.site.tree.hosts[at],
        });
        is_frozen && (0..self.hosts.len()).any(|other| self.site.spots[other].launched && self.is_begun(other))
    }

    /// Keeps nodes that should go where something else is to be done with them first; whether there were any.
    fn keep_those_with_other_wishes(&mut self, to: &[Option<u32>]) -> bool {
        let mut kept = false;
        for (at, to) in to.iter().enumerate() {
            let Some((pool, slot)) = self.slots[at].filter(|_| self.hosts[at].free == Freedom::Usable) else {
                continue;
            };
            let own = self.site.spots[at].pool;
            let launched = self.site.spots[at].launched;
            if *to == own || (self.is_begun(at) && !launched) {
                continue;
            }
            let other = match wish(self.view, pool, slot) {
                None | Some(Wish::Dress { .. }) => false,
                Some(Wish::Free) => !launched,
                Some(_) => true,
            };
            if other {
                self.stays(at);
                kept = true;
            }
        }
        kept
    }
}

/// Whether a pool's empty slots get nodes that exist: its first source, or one whose place has to be right.
fn claims(pool: &PoolView<'_>) -> bool {
    let is_there = |source: &Source| matches!(source, Source::Existing { .. });
    let required = pool.spec.placement.as_ref().is_some_and(|placement| placement.required);
    pool.spec.capacity.first().is_some_and(is_there) || (required && pool.spec.capacity.iter().any(is_there))
}
