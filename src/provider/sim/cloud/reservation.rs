//! Capacity reservations: made, used, changed, given back, over.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::fabric::Hall;
use super::instance::Instance;
use super::launch::mismatch;
use super::{CloudState, Event, Performed, after, before, owner, refused};
use crate::effect::ReserveRequest;
use crate::fleet::reservation::Match;
use crate::hardware::catalogue;
use crate::ids::{FleetUid, InstanceId, InstanceType, OfferingId, ReservationId, Zone};
use crate::observed::{Market, Notice, NoticeKind, ReservationTag};
use crate::provider::{Class, Done, ProviderError};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reservation {
    pub tag: Option<ReservationTag>,
    pub instance_type: InstanceType,
    pub zone: Zone,
    pub total: u32,
    /// Places that an instance holds, also one that is shutting down.
    pub used: u32,
    pub matching: Match,
    pub made: Timestamp,
    /// Until then it is listed as pending, though it can be used.
    pub(super) shown: Timestamp,
    pub end: Option<Timestamp>,
    /// When it was really over: cancelled, expired, ended.
    pub over: Option<Timestamp>,
    pub block: Option<Block>,
    /// The account that it belongs to, where that is another one: it may be used, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_by: Option<String>,
    /// Its machines that nobody uses.
    pub(super) hosts: BTreeSet<u32>,
    /// All of them together, for where it stands.
    pub(super) all_hosts: BTreeSet<u32>,
}

/// What a Capacity Block is beside a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Block {
    pub offering: OfferingId,
    /// From then on it is paid.
    pub paid: Timestamp,
    pub start: Timestamp,
}

/// Where a reservation is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    PaymentPending,
    Scheduled,
    Active,
    /// The block's instances are being taken away; it cannot be launched into.
    Closing,
    Ended,
}

/// How long a new reservation may be listed as pending.
const PENDING_SECS: u64 = 300;
/// An end date is kept within this.
const END_LAG_SECS: u64 = 3600;
/// How long a reservation that is over stays listed.
const LISTED_SECS: u64 = 3600;
/// In one call.
const MOST: u32 = 1000;

impl Reservation {
    pub fn stage(&self, now: Timestamp) -> Stage {
        if self.over.is_some() {
            return Stage::Ended;
        }
        match (&self.block, self.kills_at()) {
            (Some(block), _) if now < block.paid => Stage::PaymentPending,
            (Some(block), _) if now < block.start => Stage::Scheduled,
            (Some(_), Some(kills)) if now >= kills => Stage::Closing,
            _ => Stage::Active,
        }
    }

    pub fn available(&self, now: Timestamp) -> u32 {
        if self.stage(now) == Stage::Active { self.total.saturating_sub(self.used) } else { 0 }
    }

    pub fn fits(&self, instance_type: &InstanceType, zone: &Zone) -> bool {
        self.instance_type == *instance_type && self.zone == *zone
    }

    /// When EC2 begins to take a block's instances away.
    pub fn kills_at(&self) -> Option<Timestamp> {
        self.block.as_ref()?;
        let notices = &catalogue().notices;
        let known = catalogue().types.get(&self.instance_type);
        let early = known.map_or(notices.capacity_block_kill, |known| notices.block_kill(known));
        Some(before(self.end?, early.as_secs()))
    }

    /// When the instances of a block are told.
    pub fn warns_at(&self) -> Option<Timestamp> {
        self.block.as_ref()?;
        Some(before(self.end?, catalogue().notices.capacity_block_warning.as_secs()))
    }

    pub(super) fn is_listed(&self, now: Timestamp) -> bool {
        self.over.is_none_or(|over| now < after(over, LISTED_SECS))
    }

    pub(super) fn take_host(&mut self, near: Option<u32>) -> u32 {
        let close = |host: &&u32| near.map_or(0, |near| near.abs_diff(**host));
        let host = self.hosts.iter().min_by_key(close).copied().unwrap_or(0);
        self.hosts.remove(&host);
        host
    }

    fn hall(&self) -> Hall<'_> {
        Hall { instance_type: &self.instance_type, zone: &self.zone }
    }
}

impl CloudState {
    pub(super) fn reserve(
        &mut self,
        now: Timestamp,
        request: &ReserveRequest,
        fleet: Option<&FleetUid>,
    ) -> Result<Performed, ProviderError> {
        let fleet = owner(fleet)?.clone();
        if let Some((first, id)) = self.reserved.get(&request.token) {
            return match first == request {
                true => Ok(Performed::same(Done::Reservation(id.clone()))),
                false => Err(mismatch("CreateCapacityReservation")),
            };
        }
        check_count(request.nodes)?;
        check_end(now, request.end)?;
        let tag = ReservationTag { fleet, reservation: request.reservation.clone(), generation: request.generation };
        let id: ReservationId = self.new_id("cr");
        let (kind, zone) = (&request.instance_type, &request.zone);
        self.hold(now, id.clone(), Some(tag), kind, zone, request.nodes, request.end, request.matching)?;
        self.reserved.insert(request.token.clone(), (request.clone(), id.clone()));
        Ok(Performed::changed(Done::Reservation(id)))
    }

    /// Takes the machines and the hosts. Also for reservations that were there before us.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the fields of one request, and a type of its own says no more"
    )]
    pub fn hold(
        &mut self,
        now: Timestamp,
        id: ReservationId,
        tag: Option<ReservationTag>,
        instance_type: &InstanceType,
        zone: &Zone,
        nodes: u32,
        end: Option<Timestamp>,
        matching: Match,
    ) -> Result<(), ProviderError> {
        self.rooms.take(instance_type, zone, Market::Reserved, nodes)?;
        let hall = Hall { instance_type, zone };
        let hosts: BTreeSet<u32> = self.fabric.take(self.dice, hall, nodes, &[]).into_iter().collect();
        let shown = after(now, self.dice.between(0, PENDING_SECS, &["pending", id.as_str()]));
        let held = Reservation {
            tag,
            instance_type: instance_type.clone(),
            zone: zone.clone(),
            total: nodes,
            used: 0,
            matching,
            made: now,
            shown,
            end,
            over: None,
            block: None,
            shared_by: None,
            all_hosts: hosts.clone(),
            hosts,
        };
        self.reservations.insert(id.clone(), held);
        self.plan_end(&id);
        Ok(())
    }

    pub(super) fn modify(
        &mut self,
        now: Timestamp,
        id: &ReservationId,
        nodes: u32,
        end: Option<Timestamp>,
        matching: Match,
    ) -> Result<Performed, ProviderError> {
        let held = self.changeable(now, id)?;
        if (held.total, held.end, held.matching) == (nodes, end, matching) {
            return Ok(Performed::same(Done::Nothing));
        }
        let (used, total) = (held.used, held.total);
        check_count(nodes)?;
        if held.end != end {
            check_end(now, end)?;
        }
        if nodes < used {
            let message = format!("InvalidParameterValue: {used} instances use '{id}': it cannot have fewer places.");
            return Err(refused(Class::Other, message));
        }
        if held.matching != matching && used > 0 {
            let message = format!("InvalidParameterValue: '{id}' is used: which launches it takes cannot be changed.");
            return Err(refused(Class::Other, message));
        }
        self.resize(id, total, nodes)?;
        let held = self.reservations.get_mut(id).expect("it was found above");
        (held.total, held.end, held.matching) = (nodes, end, matching);
        self.plan_end(id);
        Ok(Performed::changed(Done::Nothing))
    }

    pub(super) fn cancel(&mut self, now: Timestamp, id: &ReservationId) -> Result<Performed, ProviderError> {
        if self.own(now, id)?.stage(now) == Stage::Ended {
            return Ok(Performed::same(Done::Nothing));
        }
        self.changeable(now, id)?;
        self.close(now, id);
        Ok(Performed::changed(Done::Nothing))
    }

    pub(super) fn reservation_ends(&mut self, at: Timestamp, id: &ReservationId) {
        let Some(held) = self.reservations.get(id).filter(|held| held.over.is_none()) else { return };
        // An extension or a change has moved the end meanwhile.
        if held.end.is_some_and(|end| end <= at) && self.ends_at(id) == Some(at) {
            self.close(at, id);
        }
    }

    /// It is over. What runs in it goes on as on-demand, and the rest is for sale again.
    fn close(&mut self, at: Timestamp, id: &ReservationId) {
        let Some(held) = self.reservations.get_mut(id) else { return };
        held.over = Some(at);
        let held = held.clone();
        let blocks = held.block.is_some();
        for instance in self.instances.values_mut().filter(|found| found.reservation.as_ref() == Some(id)) {
            instance.reservation = None;
        }
        for host in &held.hosts {
            self.fabric.release(held.hall(), *host);
        }
        if !blocks {
            let unused = held.total.saturating_sub(held.used);
            self.rooms.give_back(&held.instance_type, &held.zone, Market::Reserved, unused);
        }
    }

    pub(super) fn block_warns(&mut self, at: Timestamp, id: &ReservationId) {
        let Some(held) = self.reservations.get(id) else { return };
        let (Some(warns), Some(kills)) = (held.warns_at(), held.kills_at()) else { return };
        if warns > at {
            return;
        }
        let inside = self.instances.iter_mut().filter(|(_, found)| found.reservation.as_ref() == Some(id));
        for (instance, found) in inside.filter(|(_, found)| found.state.serves()) {
            found.notice = Some(Notice { why: NoticeKind::BlockEnd, at: kills });
            self.account.tell_notice(at, instance, NoticeKind::BlockEnd, kills);
        }
    }

    pub(super) fn block_kills(&mut self, at: Timestamp, id: &ReservationId) {
        if self.reservations.get(id).and_then(Reservation::kills_at).is_none_or(|kills| kills > at) {
            return;
        }
        for instance in self.in_reservation(id) {
            self.ends(at, &instance);
        }
    }

    pub(super) fn in_reservation(&self, id: &ReservationId) -> Vec<InstanceId> {
        let inside = self.instances.iter().filter(|(_, found)| found.reservation.as_ref() == Some(id));
        inside.map(|(instance, _)| instance.clone()).collect()
    }

    /// Takes one place, if there is one.
    pub(super) fn occupy(&mut self, now: Timestamp, id: &ReservationId) -> Result<(), ProviderError> {
        let held = self.reservations.get_mut(id).filter(|held| held.available(now) > 0);
        let Some(held) = held else {
            let message = format!(
                "ReservationCapacityExceeded: The requested reservation does not have sufficient compatible and \
                 available capacity for this request: {id}"
            );
            return Err(refused(Class::NoCapacity, message));
        };
        held.used += 1;
        Ok(())
    }

    /// An instance is terminated: its place and its host are free again.
    pub(super) fn vacate(&mut self, instance: &Instance) {
        let held = instance.reservation.as_ref().and_then(|id| self.reservations.get_mut(id));
        match held {
            Some(held) => {
                held.used = held.used.saturating_sub(1);
                held.hosts.insert(instance.host);
            }
            None => {
                self.fabric.release(instance.hall(), instance.host);
                // A machine of a block that ended is not sold on demand.
                if instance.market != Market::Block {
                    let (kind, zone) = (&instance.instance_type, &instance.zone);
                    self.rooms.give_back(kind, zone, instance.paid_as(), 1);
                }
            }
        }
    }

    /// One that is still listed.
    pub(super) fn known(&self, now: Timestamp, id: &ReservationId) -> Result<&Reservation, ProviderError> {
        self.reservations.get(id).filter(|held| held.is_listed(now)).ok_or_else(|| {
            let code = "InvalidCapacityReservationId.NotFound";
            refused(Class::NotFound, format!("{code}: The capacity reservation '{id}' was not found"))
        })
    }

    /// One that is ours to change.
    fn own(&self, now: Timestamp, id: &ReservationId) -> Result<&Reservation, ProviderError> {
        let held = self.known(now, id)?;
        match &held.shared_by {
            Some(owner) => {
                let message = format!("OperationNotPermitted: '{id}' belongs to account {owner}, which shares it.");
                Err(refused(Class::Other, message))
            }
            None => Ok(held),
        }
    }

    /// Another account's reservation, which this one may use. Its tags are that account's alone.
    pub fn share(&mut self, id: &ReservationId, owner: &str) -> bool {
        let held = self.reservations.get_mut(id);
        held.map(|held| held.shared_by = Some(owner.into())).is_some()
    }

    fn changeable(&self, now: Timestamp, id: &ReservationId) -> Result<&Reservation, ProviderError> {
        let held = self.own(now, id)?;
        let why = if held.block.is_some() {
            "a Capacity Block can be neither modified nor cancelled"
        } else if held.stage(now) == Stage::Ended {
            "it is over"
        } else {
            return Ok(held);
        };
        Err(refused(Class::Other, format!("InvalidCapacityReservationState: '{id}' cannot be changed: {why}.")))
    }

    fn resize(&mut self, id: &ReservationId, total: u32, nodes: u32) -> Result<(), ProviderError> {
        let held = self.reservations.get(id).expect("the caller found it");
        let (kind, zone) = (held.instance_type.clone(), held.zone.clone());
        let (hall, near) = (Hall { instance_type: &kind, zone: &zone }, held.all_hosts.first().copied());
        if nodes > total {
            self.rooms.take(&kind, &zone, Market::Reserved, nodes - total)?;
            let near: Vec<u32> = near.into_iter().collect();
            let more = self.fabric.take(self.dice, hall, nodes - total, &near);
            let held = self.reservations.get_mut(id).expect("it was found above");
            held.hosts.extend(&more);
            held.all_hosts.extend(more);
        } else {
            self.rooms.give_back(&kind, &zone, Market::Reserved, total - nodes);
            for _ in nodes..total {
                let held = self.reservations.get_mut(id).expect("it was found above");
                if let Some(host) = held.hosts.pop_last() {
                    held.all_hosts.remove(&host);
                    self.fabric.release(hall, host);
                }
            }
        }
        Ok(())
    }

    /// When it will be over by itself: a block at its end, another within an hour after its end date.
    fn ends_at(&self, id: &ReservationId) -> Option<Timestamp> {
        let held = self.reservations.get(id)?;
        let end = held.end?;
        let lag = match held.block {
            Some(_) => 0,
            None => self.dice.between(0, END_LAG_SECS, &["end", id.as_str(), &end.to_string()]),
        };
        Some(after(end, lag))
    }

    pub(super) fn plan_end(&mut self, id: &ReservationId) {
        let Some(ends) = self.ends_at(id) else { return };
        let held = self.reservations.get(id).expect("it has an end");
        let (warns, kills) = (held.warns_at(), held.kills_at());
        self.plan_event(ends, Event::Ends(id.clone()));
        if let (Some(warns), Some(kills)) = (warns, kills) {
            self.plan_event(warns, Event::BlockWarns(id.clone()));
            self.plan_event(kills, Event::BlockKills(id.clone()));
        }
    }
}

pub(super) fn check_count(nodes: u32) -> Result<(), ProviderError> {
    if (1..=MOST).contains(&nodes) {
        return Ok(());
    }
    let message = format!("InvalidParameterValue: a reservation has 1 to {MOST} instances, not {nodes}.");
    Err(refused(Class::Other, message))
}

pub(super) fn check_end(now: Timestamp, end: Option<Timestamp>) -> Result<(), ProviderError> {
    match end {
        Some(end) if end <= now => {
            Err(refused(Class::Other, format!("InvalidParameterValue: the end date {end} is not in the future.")))
        }
        _ => Ok(()),
    }
}
