//! Where the node of an empty slot comes from: the pool's sources in their order, and what each has left.
//!
//! A source is passed over only when it certainly cannot give: it is full of others, it refused a moment ago, its limit
//! is reached. One that will give soon (a reservation that is being made, a place that our own dying instance still
//! holds) is waited for: a second paid node is never launched because the first is slow.

mod claims;
mod places;
mod steps;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rust_decimal::Decimal;

use super::chosen::Claims;
use super::types::WaitingOn;
use super::view::{Body, PoolView, SlotView, View};
use crate::effect::{Fact, LaunchRequest, token};
use crate::fleet::pool::Source;
use crate::fleet::standing::TermsSpec;
use crate::ids::{NodeName, PoolName, ReservationId, ReservationName, Zone};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{InstanceState, Market, ReservationSeen, ReservationState};
use crate::units::Usd;
use claims::{Claimable, claimable};
pub use claims::{may_have, wearable};
use places::{coming, growing, rate, refused_reservation, smaller};
pub use places::{open_places, price};
pub use steps::steps;
use words::{both, describe};

/// How long a source that refused is left alone.
pub const BACK_OFF: SignedDuration = SignedDuration::from_mins(10);

/// What all slots of a plan share: places of reservations, money, nodes that exist.
#[derive(Debug)]
pub struct Room {
    /// Places that nobody has or will have, by reservation.
    free: BTreeMap<ReservationId, u32>,
    /// Instances of ours that will give their place back, and whose slots want no other.
    leaving: BTreeMap<ReservationId, u32>,
    /// Places that reservations get when they are made as large as their documents say, which comes first.
    growing: BTreeMap<ReservationId, u32>,
    /// Places of reservations that are made or found before anything is launched into them.
    coming: BTreeMap<ReservationName, u32>,
    /// Of reservations that are to hold fewer: how many more they may have then. Less than none: so many are too many.
    smaller: BTreeMap<ReservationId, i64>,
    /// Live instances of a pool by source, and what this plan adds.
    used: BTreeMap<(PoolName, u32), u32>,
    /// What on-demand and spot nodes cost an hour at most, with what this plan adds.
    pub hourly: Usd,
    /// Nodes that belong to somebody, or will.
    claimed: BTreeSet<NodeName>,
    /// Nodes that exist and may be claimed for a pool by these labels, best first; found when first asked for.
    existing: BTreeMap<(PoolName, BTreeMap<String, String>), Claimable>,
    /// Zones in which a source of a pool refused somebody a moment ago.
    refusals: BTreeSet<(PoolName, u32, Zone)>,
    /// Where the first nodes of pools that should be together are: the others follow while there is a choice.
    stands: BTreeMap<PoolName, Zone>,
    /// Which of the nodes that exist the fabric gives to whom.
    claims: Claims,
    /// A placement group does not span zones: where the first of its nodes is, or was asked for, the others go.
    pinned: BTreeMap<PoolName, Zone>,
}

/// What a slot gets.
#[derive(Debug)]
pub enum Supply {
    Launch {
        request: Box<LaunchRequest>,
        usd_hour: Usd,
        wait_for: Option<Fact>,
    },
    Claim(NodeName),
    /// With what it will cost an hour, where that is known.
    Wait(WaitingOn, Usd),
}

impl Room {
    pub fn new(view: &View<'_>, claims: Claims) -> Self {
        let seen = &view.input.observed.cloud;
        // One that was just made says that it is pending for minutes, and that nothing is available.
        let places = |found: &ReservationSeen| match found.state {
            ReservationState::Pending => found.total.max(found.available),
            _ => found.available,
        };
        let free = seen.reservations.seen().iter().map(|(id, found)| (id.clone(), places(found))).collect();
        let mut room = Self {
            free,
            leaving: BTreeMap::new(),
            growing: growing(view),
            coming: coming(view),
            smaller: smaller(view),
            used: BTreeMap::new(),
            hourly: Usd::default(),
            claimed: BTreeSet::new(),
            existing: BTreeMap::new(),
            refusals: BTreeSet::new(),
            stands: BTreeMap::new(),
            claims,
            pinned: BTreeMap::new(),
        };
        for (pool, slot) in view.slots() {
            room.note_zones(view, pool, slot);
            if let Some((_, found)) = slot.instance.filter(|(_, found)| found.state.is_live()) {
                if found.state == InstanceState::ShuttingDown
                    && let Some(id) = &found.reservation
                {
                    // The place of a slot that is filled again is its own next node's.
                    if slot.part.is_none() {
                        *room.leaving.entry(id.clone()).or_insert(0) += 1;
                    }
                    room.smaller.entry(id.clone()).and_modify(|more| *more += 1);
                } else {
                    let source = source_of(view, pool, found.market, found.reservation.as_ref());
                    *room.used.entry((pool.name.clone(), source)).or_insert(0) += 1;
                }
                if matches!(found.market, Market::OnDemand | Market::Spot) {
                    room.hourly.0 += rate(pool, found.market).0;
                }
            }
            if let Body::InFlight(intent) = slot.body {
                let request = &intent.request;
                *room.used.entry((pool.name.clone(), request.source)).or_insert(0) += 1;
                if let Some(places) = request.reservation.as_ref().and_then(|id| room.free.get_mut(id)) {
                    *places = places.saturating_sub(1);
                }
                if let Some(more) = request.reservation.as_ref().and_then(|id| room.smaller.get_mut(id)) {
                    *more -= 1;
                }
                if matches!(request.market, Market::OnDemand | Market::Spot) {
                    room.hourly.0 += rate(pool, request.market).0;
                }
            }
        }
        let claimed = view.input.ledger.pools.values().flat_map(|pool| pool.slots.values());
        room.claimed = claimed.filter_map(|slot| slot.node.clone()).collect();
        room
    }

    fn note_zones(&mut self, view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) {
        for (source, zone, _) in refusals(view, slot) {
            self.refusals.insert((pool.name.clone(), source, zone.clone()));
        }
        let group = view.input.desired.pools.get(pool.name).and_then(|objects| objects.group.as_ref());
        let there = slot.instance.filter(|(_, found)| found.state.is_live() && found.group.as_ref() == group);
        let asked = match slot.body {
            Body::InFlight(intent) => Some(&intent.request.zone),
            _ => None,
        };
        if let Some(zone) = there.map(|(_, found)| &found.zone).or(asked) {
            self.pin(view, pool, zone);
            if pool.spec.placement.as_ref().is_some_and(|placement| placement.together.is_some()) {
                self.stands.entry(pool.name.clone()).or_insert_with(|| zone.clone());
            }
        }
    }

    fn pin(&mut self, view: &View<'_>, pool: &PoolView<'_>, zone: &Zone) {
        // Zones share nothing of the network.
        let required = pool.spec.placement.as_ref().is_some_and(|placement| placement.required);
        if required || view.input.desired.pools.get(pool.name).is_some_and(|objects| objects.group.is_some()) {
            self.pinned.entry(pool.name.clone()).or_insert_with(|| zone.clone());
        }
    }

    /// The zones that a pool's node may come to, most wanted first.
    fn zones(&self, view: &View<'_>, pool: &PoolView<'_>) -> Vec<Zone> {
        match self.pinned.get(pool.name) {
            Some(zone) => vec![zone.clone()],
            None => zones(view, pool),
        }
    }

    /// Those in which a source may be asked now, first where it refused nobody of the pool; or when one may be again. A
    /// zone is left only after a definite no: until then the same request is repeated.
    fn askable(
        &self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        slot: &SlotView<'_>,
        source: u32,
    ) -> Result<Vec<Zone>, Timestamp> {
        let mut zones = self.zones(view, pool);
        let own: BTreeMap<&Zone, Timestamp> = refusals(view, slot)
            .filter(|(by, zone, _)| *by == source && zones.contains(zone))
            .map(|(_, zone, until)| (zone, until))
            .collect();
        if let Some(first) = own.values().min().filter(|_| own.len() == zones.len()) {
            return Err(*first);
        }
        zones.retain(|zone| !own.contains_key(zone));
        let stands = |zone: &Zone| self.stands.get(pool.name).is_some_and(|stands| stands == zone);
        zones.sort_by_key(|zone| (self.refusals.contains(&(pool.name.clone(), source, zone.clone())), !stands(zone)));
        Ok(zones)
    }

    /// A slot's node goes before its next one comes: what it cost and the place that it took are free for that one.
    pub fn leaves(&mut self, view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) {
        let Some((_, found)) = slot.instance else { return };
        let source = source_of(view, pool, found.market, found.reservation.as_ref());
        if let Some(used) = self.used.get_mut(&(pool.name.clone(), source)) {
            *used = used.saturating_sub(1);
        }
        self.hourly.0 -= rate(pool, found.market).0;
        if let Some(more) = found.reservation.as_ref().and_then(|id| self.smaller.get_mut(id)) {
            *more += 1;
        }
    }

    /// It does not go after all.
    pub fn stays(&mut self, view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) {
        let Some((_, found)) = slot.instance else { return };
        let source = source_of(view, pool, found.market, found.reservation.as_ref());
        *self.used.entry((pool.name.clone(), source)).or_insert(0) += 1;
        self.hourly.0 += rate(pool, found.market).0;
        if let Some(more) = found.reservation.as_ref().and_then(|id| self.smaller.get_mut(id)) {
            *more -= 1;
        }
    }

    /// Where this slot's next node comes from. `freed` is the reservation whose place its own old instance gives back
    /// before.
    pub fn supply(
        &mut self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        slot: &SlotView<'_>,
        freed: Option<&ReservationId>,
        replaces_dead: bool,
    ) -> Supply {
        if let Some(stray) = view.stray(&slot.id) {
            let what = format!("{stray} says that it is {} too: nothing is launched beside it", slot.id);
            return Supply::Wait(WaitingOn::Person(what), Usd::default());
        }
        if let Some(what) = self.claims.untold(pool.name) {
            return Supply::Wait(WaitingOn::Capacity { what: what.into(), retry: None }, Usd::default());
        }
        let (mut waiting, mut full) = (None, None);
        // A reservation that is made or found first has no place for this slot: the next source gives one then, and near it.
        let mut first = None;
        for (place, source) in self.sources(view, pool, slot) {
            if let Some(retry) = self.refused_until(view, pool, slot, place, source) {
                let what = describe(&self.zones(view, pool), pool, source);
                waiting = Some(both(waiting, WaitingOn::Capacity { what, retry: Some(retry) }));
                continue;
            }
            let found = match source {
                Source::Reservation(name) => self.reserved(view, pool, slot, place, name, freed),
                Source::OnDemand { max } => self.by_the_hour(view, pool, slot, place, *max, None, replaces_dead),
                Source::Spot { max, max_price_percent } => {
                    self.by_the_hour(view, pool, slot, place, *max, Some(*max_price_percent), replaces_dead)
                }
                Source::Existing { labels } => self.existing(view, pool, slot, labels),
            };
            let comes = matches!(source, Source::Reservation(name) if self.is_coming(view, name));
            match found {
                Ok(supply) => {
                    return match (first, supply) {
                        (None, supply) => supply,
                        (Some(wait), Supply::Launch { usd_hour, .. }) => Supply::Wait(wait, usd_hour),
                        (Some(wait), _) => Supply::Wait(wait, Usd::default()),
                    };
                }
                // Waiting for a place of one's own is no reason to pay for another.
                Err((wait, true)) => return Supply::Wait(wait, Usd::default()),
                Err((wait, false)) if comes => first = first.or(Some(wait)),
                // A source that gives all that it may is as it should be: what the others say is the reason.
                Err((wait @ WaitingOn::Budget { .. }, false)) => full = full.or(Some(wait)),
                Err((wait, false)) => waiting = Some(both(waiting, wait)),
            }
        }
        if let Some(wait) = first {
            return Supply::Wait(wait, Usd::default());
        }
        let nothing = || WaitingOn::Capacity { what: "any source of the pool".into(), retry: None };
        let wait = match (waiting, full) {
            // That the other sources give all that they may is half of the answer.
            (Some(WaitingOn::Capacity { what, retry }), Some(WaitingOn::Budget { name, allowed, used, .. })) => {
                let number = if used > allowed {
                    format!("{used}, and {allowed} may be")
                } else {
                    format!("{used} of {allowed}")
                };
                WaitingOn::Capacity { what: format!("{what}, and {name} are {number}"), retry }
            }
            (waiting, full) => waiting.or(full).unwrap_or_else(nothing),
        };
        Supply::Wait(wait, Usd::default())
    }

    /// When a source that has just refused this slot everywhere may be asked again.
    fn refused_until(
        &self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        slot: &SlotView<'_>,
        place: u32,
        source: &Source,
    ) -> Option<Timestamp> {
        match source {
            Source::OnDemand { .. } | Source::Spot { .. } => self.askable(view, pool, slot, place).err(),
            Source::Reservation(_) | Source::Existing { .. } => left_alone(view, *slot.record?.refused.get(&place)?),
        }
    }

    /// `Err` with whether to wait for it rather than look further.
    fn reserved(
        &mut self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        slot: &SlotView<'_>,
        source: u32,
        name: &ReservationName,
        freed: Option<&ReservationId>,
    ) -> Result<Supply, (WaitingOn, bool)> {
        let what = format!("reservation/{name}");
        let capacity = |what: String| WaitingOn::Capacity { what, retry: None };
        let spec = view.standing.reservations.get(name).ok_or_else(|| (capacity(what.clone()), false))?;
        if let TermsSpec::OnDemand { cancel: true, .. } = spec.terms {
            return Err((capacity(what), false));
        }
        let is_block = matches!(spec.terms, TermsSpec::Block(_));
        if super::reservations::is_only_tagged(view.input, name) {
            return Err((capacity(format!("{what}, which is written down first")), true));
        }
        let id = super::reservations::id_of(view.input, name);
        let Some((id, seen)) = id.and_then(|id| view.input.observed.cloud.reservations.seen().get_key_value(&id))
        else {
            // A block that nobody bought is not waited for.
            if is_block {
                return Err((capacity(what), false));
            }
            if let Some(retry) = refused_reservation(view, name) {
                return Err((WaitingOn::Capacity { what: format!("room for {what}"), retry: Some(retry) }, false));
            }
            let what = capacity(format!("{what}, which comes first"));
            return Err((what, self.has_coming(view, pool, name, freed)));
        };
        if seen.instance_type != pool.spec.shape.instance_type {
            return Err((capacity(format!("{what}, which holds {}", seen.instance_type)), false));
        }
        match seen.state {
            ReservationState::Active => {}
            // A block that is pending waits for its payment; a reservation only for being listed.
            ReservationState::Pending if is_block => {
                return Err((capacity(format!("{what}, which is pending")), false));
            }
            ReservationState::Pending => {}
            ReservationState::Scheduled => return Err((capacity(format!("{what}, which has not begun")), false)),
            ReservationState::Ended | ReservationState::Other(_) => {
                return Err((capacity(format!("{what}, which is over")), false));
            }
        }
        if let (TermsSpec::Block(block), Some(end)) = (&spec.terms, seen.end)
            && super::ends::begins_at(view, end, block.kill) <= view.now
        {
            return Err((capacity(format!("{what}, which ends soon")), false));
        }
        if let Some(level) = self.claims.elsewhere(pool.name, &seen.network) {
            return Err((capacity(format!("{what}, which stands in another {level} than the pool has to")), false));
        }
        if self.smaller.get(id).is_some_and(|more| *more <= 0) {
            return Err((capacity(format!("{what}, which is to hold fewer")), false));
        }
        let own = freed == Some(id);
        let free = self.free.entry(id.clone()).or_insert(0);
        let place = || Some(Fact::Free { reservation: id.clone(), places: 1 });
        let wait_for = if own {
            place()
        } else if *free > 0 && self.claims.sit(pool, slot, id, *free) {
            *free -= 1;
            (seen.state == ReservationState::Pending).then(|| Fact::Active(id.clone()))
        } else {
            // A place of ours that is being given back is worth waiting for.
            let leaving = self.leaving.entry(id.clone()).or_insert(0);
            if *leaving == 0 {
                if let Some(more) = self.growing.get_mut(id).filter(|more| **more > 0) {
                    *more -= 1;
                    return Err((capacity(format!("{what}, which is made larger first")), true));
                }
                let why =
                    if *free > 0 { "whose free places are no place for it on the fabric" } else { "which is full" };
                return Err((capacity(format!("{what}, {why}")), false));
            }
            *leaving -= 1;
            place()
        };
        self.smaller.entry(id.clone()).and_modify(|more| *more -= 1);
        let market = if is_block { Market::Block } else { Market::Reserved };
        self.pin(view, pool, &seen.zone);
        let request = self.request(view, pool, slot, source, market, seen.zone.clone(), Some(id.clone()), None);
        Ok(Supply::Launch { request: Box::new(request), usd_hour: Usd::default(), wait_for })
    }

    #[allow(clippy::too_many_arguments)]
    fn by_the_hour(
        &mut self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        slot: &SlotView<'_>,
        place: u32,
        max: u32,
        spot: Option<u8>,
        replaces_dead: bool,
    ) -> Result<Supply, (WaitingOn, bool)> {
        let market = if spot.is_some() { Market::Spot } else { Market::OnDemand };
        let what = format!("{} nodes for pool/{}", if spot.is_some() { "spot" } else { "on-demand" }, pool.name);
        let zones = self.askable(view, pool, slot, place).unwrap_or_default();
        let used = self.used.entry((pool.name.clone(), place)).or_insert(0);
        if *used >= max {
            return Err((WaitingOn::budget(what, max, *used), false));
        }
        let on_demand = pool.spec.shape.on_demand.unwrap_or_default();
        let max_price = spot.map(|percent| Usd(on_demand.0 * Decimal::from(percent) / Decimal::ONE_HUNDRED));
        let prices = zones.iter().map(|zone| (price(view, pool, market, zone), zone));
        // The first zone of the pool in which it is cheap enough; else the cheapest one says how far it is from that.
        let fits = |usd: Usd| max_price.is_none_or(|most| usd <= most);
        let found = prices.clone().find(|(usd, _)| fits(*usd)).or_else(|| prices.min_by_key(|(usd, _)| *usd));
        let Some((usd_hour, zone)) = found.map(|(usd, zone)| (usd, zone.clone())) else {
            return Err((WaitingOn::Capacity { what: format!("{what}: no zone is known"), retry: None }, false));
        };
        if let Some(most) = max_price.filter(|most| usd_hour > *most) {
            let name = format!("the price of {what} in {zone}");
            return Err((WaitingOn::Limit { name, allowed: most, wanted: usd_hour }, false));
        }
        let wanted = Usd(self.hourly.0 + rate(pool, market).0);
        let allowed = view.standing.limits.hourly_usd.unwrap_or_default();
        if wanted > allowed && !replaces_dead {
            return Err((WaitingOn::Limit { name: "limits.hourlyUsd".into(), allowed, wanted }, false));
        }
        // Rather no machine than one elsewhere, where the cloud tells which host it would be.
        let hosts = &view.input.observed.cloud.hosts;
        let required = pool.spec.placement.as_ref().filter(|placement| placement.required);
        let is_told = || hosts.values().any(|host| host.instance_type == pool.spec.shape.instance_type);
        if let Some(level) = required.and_then(|placement| placement.together.as_ref())
            && is_told()
            && !self.claims.has_pin(pool.name, hosts, &zone)
        {
            let nearest = || format!("a free host in the {level} of pool/{}", pool.name);
            let what = self.claims.why_short(pool.name).map_or_else(nearest, str::to_string);
            return Err((WaitingOn::Capacity { what, retry: None }, false));
        }
        *used += 1;
        self.hourly = wanted;
        self.pin(view, pool, &zone);
        let request = self.request(view, pool, slot, place, market, zone, None, max_price);
        Ok(Supply::Launch { request: Box::new(request), usd_hour, wait_for: None })
    }

    fn existing(
        &mut self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        slot: &SlotView<'_>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Supply, (WaitingOn, bool)> {
        let key = (pool.name.clone(), labels.clone());
        let claimable = self.existing.entry(key).or_insert_with(|| claimable(view, pool, labels));
        // How a node is cut and who works on it goes by its slot: one that says in which it was goes back there.
        let says = |name: &NodeName| claimable.says.get(name);
        let is_own = |name: &NodeName| says(name) == Some(&slot.id.index);
        let is_empty = |index: u32| {
            let mut slots = pool.slots.iter().filter(|other| other.id.index == index);
            slots.any(|other| other.part.is_some() && other.body == Body::Nothing)
        };
        let may = |name: &NodeName| is_own(name) || !says(name).is_some_and(|index| is_empty(*index));
        let is_free = |name: &NodeName| claimable.all.contains(name) && !self.claimed.contains(name);
        let chosen = self
            .claims
            .next(pool.name, |name| is_own(name) && is_free(name))
            .or_else(|| self.claims.next(pool.name, |name| may(name) && is_free(name)));
        if let Some(name) = chosen {
            self.claimed.insert(name.clone());
            return Ok(Supply::Claim(name));
        }
        if let Some(why) = self.claims.why_short(pool.name) {
            return Err((WaitingOn::Capacity { what: why.into(), retry: None }, false));
        }
        let is_left = |name: &NodeName| is_free(name) && !self.claims.is_promised(name, pool.name);
        let found = claimable.free.iter().position(|name| is_own(name) && is_left(name));
        let found = found.or_else(|| claimable.free.iter().position(|name| may(name) && is_left(name)));
        if let Some(name) = found.and_then(|at| claimable.free.remove(at)) {
            self.claimed.insert(name.clone());
            return Ok(Supply::Claim(name));
        }
        // One that is passed over makes people wonder.
        let but = claimable.misfit.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
        Err((WaitingOn::Capacity { what: format!("an existing node with its labels{but}"), retry: None }, false))
    }

    #[allow(clippy::too_many_arguments)]
    fn request(
        &mut self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        slot: &SlotView<'_>,
        source: u32,
        market: Market,
        zone: Zone,
        reservation: Option<ReservationId>,
        max_price: Option<Usd>,
    ) -> LaunchRequest {
        let generation = slot.generation() + 1;
        let objects = view.input.desired.pools.get(pool.name);
        let host = self.claims.pin(pool.name, &view.input.observed.cloud.hosts, &zone, reservation.as_ref());
        LaunchRequest {
            slot: slot.id.clone(),
            generation,
            token: match is_on(Mistake::TokenWithoutZone) {
                true => token(view.fleet, &slot.id, generation, &"".into()),
                false => token(view.fleet, &slot.id, generation, &zone),
            },
            instance_type: pool.spec.shape.instance_type.clone(),
            zone,
            market,
            reservation,
            max_price,
            template: objects.map_or_else(|| pool.name.as_str().into(), |objects| objects.template.name.clone()),
            template_digest: objects.map_or_else(|| "".into(), |objects| objects.template.digest.clone()),
            group: objects.and_then(|objects| objects.group.clone()),
            source,
            host,
        }
    }
}

/// Who refused a slot a moment ago, in which zone, and until when it is left alone.
fn refusals<'a>(view: &View<'_>, slot: &SlotView<'a>) -> impl Iterator<Item = (u32, &'a Zone, Timestamp)> {
    let sources = slot.record.into_iter().flat_map(|record| &record.refused_zones);
    sources.flat_map(move |(source, zones)| {
        zones.iter().filter_map(move |(zone, at)| Some((*source, zone, left_alone(view, *at)?)))
    })
}

/// Until when whoever refused at an instant is not asked again, if that is still to come.
fn left_alone(view: &View<'_>, refused: Timestamp) -> Option<Timestamp> {
    refused.checked_add(BACK_OFF).ok().filter(|until| *until > view.now)
}

/// The zones that a pool's node may come to, most wanted first: what the documents say, else those that the cloud has
/// prices for.
pub fn zones(view: &View<'_>, pool: &PoolView<'_>) -> Vec<Zone> {
    let named = view.standing.zones(pool.spec);
    if !named.is_empty() {
        return named;
    }
    let priced = view.input.observed.cloud.spot_prices.seen().get(&pool.spec.shape.instance_type);
    priced.into_iter().flat_map(|zones| zones.keys().cloned()).collect()
}

/// Which of the pool's sources an instance came from, as far as that can be seen.
fn source_of(view: &View<'_>, pool: &PoolView<'_>, market: Market, reservation: Option<&ReservationId>) -> u32 {
    let of = |name: &ReservationName| {
        reservation.is_some() && super::reservations::id_of(view.input, name).as_ref() == reservation
    };
    let place = pool.spec.capacity.iter().position(|source| match source {
        Source::Reservation(name) => of(name),
        Source::OnDemand { .. } => market == Market::OnDemand,
        Source::Spot { .. } => market == Market::Spot,
        Source::Existing { .. } => false,
    });
    place.and_then(|place| u32::try_from(place).ok()).unwrap_or(u32::MAX)
}
