//! Capacity Blocks: what is offered, and what buying does. There is no token: whoever buys twice has two.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::{Date, time};
use jiff::tz::TimeZone;
use rust_decimal::Decimal;

use super::fabric::Hall;
use super::market::list_price;
use super::reservation::{Block, Reservation, Stage};
use super::{CloudState, Performed, after, before, owner, refused};
use crate::effect::PurchaseRequest;
use crate::fleet::Target;
use crate::fleet::pool::Source;
use crate::fleet::reservation::Match;
use crate::fleet::standing::{ReservationSpec, TermsSpec};
use crate::hardware::{Usage, catalogue};
use crate::ids::{FleetUid, InstanceType, OfferingId, ReservationId, ReservationName, Zone};
use crate::observed::{OfferingSeen, ReservationTag};
use crate::provider::{Class, Done, ProviderError};
use crate::units::{Duration, Usd};

/// A block can be begun this soon, and be bought this long ahead.
const SOONEST_SECS: u64 = 30 * 60;
const LATEST_SECS: u64 = 56 * 86_400;
/// An extension can be bought until this long before the end.
const EXTENSION_SECS: u64 = 3600;
/// How long a payment takes.
const PAYMENT_SECS: u64 = 600;
/// In one block.
const MOST_NODES: u32 = 64;
/// How many offers are shown for one block.
const MOST_OFFERS: usize = 4;
/// Where a fleet names no zone.
pub(super) const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];

impl CloudState {
    /// The offers for the blocks that a target wants and nobody bought, and for more time of those that were bought.
    pub fn offers(
        &self,
        now: Timestamp,
        target: &Target,
        fleet: Option<&FleetUid>,
    ) -> BTreeMap<ReservationName, Vec<OfferingSeen>> {
        let mut found = BTreeMap::new();
        for (name, spec) in &target.standing.reservations {
            let TermsSpec::Block(block) = &spec.terms else { continue };
            let offers = match self.bought(name, spec, fleet) {
                Some((id, held)) => {
                    let by = block.extend.as_ref().map(|extend| extend.by);
                    by.and_then(|by| self.extension(now, id, held, by)).into_iter().collect()
                }
                None if spec.id.is_some() => continue,
                None => {
                    let Some(start) = &block.start else { continue };
                    let days = start.from.0.series(jiff::Span::new().days(1)).take_while(|day| *day <= start.to.0);
                    let (kind, zones) = (&spec.shape.instance_type, zones(target, name, spec));
                    self.new_blocks(now, kind, spec.nodes, block.duration, days, &zones)
                }
            };
            let offers: Vec<OfferingSeen> =
                offers.into_iter().filter(|offer| !self.withdrawn.contains(&offer.id)).collect();
            if !offers.is_empty() {
                found.insert(name.clone(), offers);
            }
        }
        found
    }

    /// Offers are there for whoever was shown them.
    pub fn remember_offers(&mut self, offers: &BTreeMap<ReservationName, Vec<OfferingSeen>>) {
        for offer in offers.values().flatten() {
            self.offers.entry(offer.id.clone()).or_insert_with(|| offer.clone());
        }
    }

    /// An offer that somebody else was faster to take.
    pub fn withdraw(&mut self, offering: &OfferingId) {
        self.withdrawn.insert(offering.clone());
    }

    pub(super) fn purchase(
        &mut self,
        now: Timestamp,
        request: &PurchaseRequest,
        fleet: Option<&FleetUid>,
    ) -> Result<Performed, ProviderError> {
        let fleet = owner(fleet)?.clone();
        let offer = self.open_offer(now, &request.offering, request.extends.as_ref())?;
        let tag = ReservationTag { fleet, reservation: request.reservation.clone(), generation: 0 };
        self.take_offer(now, &offer, Some(tag))
    }

    /// An offer that somebody was shown and that can still be had.
    pub(super) fn open_offer(
        &self,
        now: Timestamp,
        offering: &OfferingId,
        extends: Option<&ReservationId>,
    ) -> Result<OfferingSeen, ProviderError> {
        let offered = self.offers.get(offering).filter(|offer| {
            offer.extends.as_ref() == extends && !self.withdrawn.contains(&offer.id) && is_still_open(offer, now)
        });
        offered.cloned().ok_or_else(|| {
            let code = "InvalidCapacityBlockOfferingId.NotFound";
            let message = format!("{code}: The Capacity Block offering '{offering}' was not found.");
            refused(Class::NotFound, message)
        })
    }

    pub(super) fn take_offer(
        &mut self,
        now: Timestamp,
        offer: &OfferingSeen,
        tag: Option<ReservationTag>,
    ) -> Result<Performed, ProviderError> {
        if let Some(id) = &offer.extends {
            return self.extend(now, id, offer);
        }
        let id: ReservationId = self.new_id("cr");
        self.add_block(now, id.clone(), tag, offer);
        self.paid.push((id.clone(), offer.fee));
        Ok(Performed::changed(Done::Reservation(id)))
    }

    /// A block, as it was offered. Also for blocks that were there before us.
    pub fn add_block(&mut self, now: Timestamp, id: ReservationId, tag: Option<ReservationTag>, offer: &OfferingSeen) {
        let hall = Hall { instance_type: &offer.instance_type, zone: &offer.zone };
        let hosts: std::collections::BTreeSet<u32> =
            self.fabric.take(self.dice, hall, offer.nodes, &[]).into_iter().collect();
        let held = Reservation {
            tag,
            instance_type: offer.instance_type.clone(),
            zone: offer.zone.clone(),
            total: offer.nodes,
            used: 0,
            matching: Match::Targeted,
            made: now,
            shown: now,
            end: Some(offer.end),
            over: None,
            block: Some(Block { offering: offer.id.clone(), paid: after(now, PAYMENT_SECS), start: offer.start }),
            shared_by: None,
            all_hosts: hosts.clone(),
            hosts,
        };
        self.reservations.insert(id.clone(), held);
        self.plan_end(&id);
    }

    /// Moves the end; bought twice, it moves twice.
    fn extend(&mut self, now: Timestamp, id: &ReservationId, offer: &OfferingSeen) -> Result<Performed, ProviderError> {
        let held = self.known(now, id)?;
        let end = held.end.filter(|end| can_be_extended(held, *end, now)).ok_or_else(|| {
            let message = format!("InvalidCapacityReservationState: '{id}' cannot be extended now.");
            refused(Class::Other, message)
        })?;
        let more = offer.end.duration_since(offer.start);
        let held = self.reservations.get_mut(id).expect("it was found above");
        held.end = Some(end.checked_add(more).unwrap_or(Timestamp::MAX));
        for instance in self.instances.values_mut().filter(|found| found.reservation.as_ref() == Some(id)) {
            instance.notice = None;
        }
        self.paid.push((id.clone(), offer.fee));
        self.plan_end(id);
        Ok(Performed::changed(Done::Reservation(id.clone())))
    }

    /// The block that stands for a document: by its id, or by our tag.
    fn bought<'a>(
        &'a self,
        name: &ReservationName,
        spec: &ReservationSpec,
        fleet: Option<&FleetUid>,
    ) -> Option<(&'a ReservationId, &'a Reservation)> {
        let names = [Some(name), spec.renamed_from.as_ref()];
        self.reservations.iter().find(|(id, held)| {
            let tagged = held.tag.as_ref().is_some_and(|tag| {
                Some(&tag.fleet) == fleet && names.contains(&Some(&tag.reservation)) && held.block.is_some()
            });
            tagged || spec.id.as_deref() == Some(id.as_str())
        })
    }

    pub(super) fn new_blocks(
        &self,
        now: Timestamp,
        kind: &InstanceType,
        nodes: u32,
        duration: Duration,
        days: impl Iterator<Item = Date>,
        zones: &[Zone],
    ) -> Vec<OfferingSeen> {
        if !is_sold(kind, nodes, duration) {
            return Vec::new();
        }
        let soon = |at: &Timestamp| (after(now, SOONEST_SECS)..after(now, LATEST_SECS)).contains(at);
        let starts: Vec<Timestamp> = days.filter_map(begins).filter(soon).collect();
        let offer = |start: &Timestamp| {
            let words = [&start.to_string(), kind.as_str(), &nodes.to_string(), &duration.to_string()];
            let zone = zones.get(self.dice.between(0, zones.len() as u64, &words) as usize).cloned()?;
            Some(self.offer(kind, &zone, nodes, *start, duration, None))
        };
        let there =
            |start: &&Timestamp| self.dice.between(0, 100, &["offered", kind.as_str(), &start.to_string()]) < 60;
        let chosen: Vec<&Timestamp> = starts.iter().filter(there).take(MOST_OFFERS).collect();
        let chosen = if chosen.is_empty() { starts.iter().take(1).collect() } else { chosen };
        chosen.into_iter().filter_map(offer).collect()
    }

    pub(super) fn extension(
        &self,
        now: Timestamp,
        id: &ReservationId,
        held: &Reservation,
        by: Duration,
    ) -> Option<OfferingSeen> {
        let end = held.end?;
        let sold = can_be_extended(held, end, now) && is_sold(&held.instance_type, held.total, by);
        sold.then(|| self.offer(&held.instance_type, &held.zone, held.total, end, by, Some(id)))
    }

    fn offer(
        &self,
        instance_type: &InstanceType,
        zone: &Zone,
        nodes: u32,
        start: Timestamp,
        duration: Duration,
        extends: Option<&ReservationId>,
    ) -> OfferingSeen {
        let count = nodes.to_string();
        let (begin, length) = (start.to_string(), duration.to_string());
        let extended = extends.map_or("", ReservationId::as_str);
        let words = ["offer", instance_type.as_str(), zone.as_str(), &count, &begin, &length, extended];
        // 57 to 72 percent of the on-demand price: 31 to 40 dollars an hour for a node of H100s.
        let share = Decimal::new(570 + self.dice.between(0, 151, &words) as i64, 3);
        let hours = Decimal::from(duration.as_secs() / 3600);
        OfferingSeen {
            id: self.dice.id("cb", &words).into(),
            extends: extends.cloned(),
            instance_type: instance_type.clone(),
            zone: zone.clone(),
            nodes,
            start,
            end: after(start, duration.as_secs()),
            fee: Usd((list_price(instance_type) * share * hours * Decimal::from(nodes)).round_dp(2)),
        }
    }
}

/// Blocks begin and end at 11:30 UTC.
fn begins(day: Date) -> Option<Timestamp> {
    day.to_datetime(time(11, 30, 0, 0)).to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// Whole days up to two weeks, then whole weeks up to half a year.
fn is_sold(instance_type: &InstanceType, nodes: u32, duration: Duration) -> bool {
    let days = duration.as_secs() / 86_400;
    let length =
        Duration::days(days) == duration && (1..=182).contains(&days) && (days <= 14 || days.is_multiple_of(7));
    let usage = catalogue().types.get(instance_type).map(|known| &known.usage);
    let kind = usage.is_some_and(|usage| usage.is_empty() || usage.contains(&Usage::CapacityBlock));
    length && kind && (1..=MOST_NODES).contains(&nodes)
}

fn is_still_open(offer: &OfferingSeen, now: Timestamp) -> bool {
    offer.extends.is_some() || after(now, SOONEST_SECS) <= offer.start
}

fn can_be_extended(held: &Reservation, end: Timestamp, now: Timestamp) -> bool {
    let stage = matches!(held.stage(now), Stage::Scheduled | Stage::Active);
    stage && (before(end, LATEST_SECS)..before(end, EXTENSION_SECS)).contains(&now)
}

/// Where a block may be: what its document says, else where the pools that name it can be.
fn zones(target: &Target, name: &ReservationName, spec: &ReservationSpec) -> Vec<Zone> {
    if let Some(zone) = &spec.zone {
        return vec![zone.clone()];
    }
    let pools =
        target.standing.pools.values().filter(|pool| pool.capacity.contains(&Source::Reservation(name.clone())));
    let named: Vec<Zone> = pools.flat_map(|pool| target.standing.zones(pool)).collect();
    if named.is_empty() { ZONES.map(Zone::from).to_vec() } else { named }
}
