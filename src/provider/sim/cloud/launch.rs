//! RunInstances: tokens, templates, groups, and where the machine comes from.

use jiff::Timestamp;

use super::fabric::Hall;
use super::instance::Instance;
use super::market::spot_price;
use super::reservation::Stage;
use super::{Circumstances, CloudState, Performed, owner, refused};
use crate::effect::{LaunchRequest, Template};
use crate::fleet::reservation::Match;
use crate::ids::{GroupName, HostName, InstanceId, InstanceType, ReservationId, Token, Zone};
use crate::observed::{InstanceState, Market, Notice, NoticeKind, SlotTag};
use crate::provider::{Class, Done, ProviderError};
use crate::units::Usd;

/// What a token is remembered by. It holds in the zone that a launch names: the same token in another zone is another
/// launch.
pub(super) fn token_key(zone: &Zone, token: &Token) -> String {
    format!("{zone}|{token}")
}

/// What a machine is wanted as, whoever asks for it and in whatever words.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub instance_type: &'a InstanceType,
    pub zone: &'a Zone,
    pub market: Market,
    pub reservation: Option<&'a ReservationId>,
    pub open: Open,
    pub max_price: Option<Usd>,
    pub group: Option<&'a GroupName>,
    /// On this very host, if that is free.
    pub host: Option<&'a HostName>,
}

/// How a launch that names no reservation stands to open ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// It takes a place where there is one.
    May,
    /// It never does.
    Never,
    /// It runs in one or not at all.
    Must,
}

/// Where a machine will be.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    pub reservation: Option<ReservationId>,
    pub host: u32,
    pub notice: Option<Notice>,
}

impl<'a> From<&'a LaunchRequest> for Wanted<'a> {
    fn from(request: &'a LaunchRequest) -> Self {
        Self {
            instance_type: &request.instance_type,
            zone: &request.zone,
            market: request.market,
            reservation: request.reservation.as_ref(),
            // What is paid by the hour says so: it takes no place of a reservation that it does not name.
            open: Open::Never,
            max_price: request.max_price,
            group: request.group.as_ref(),
            host: request.host.as_ref(),
        }
    }
}

impl CloudState {
    /// Whether a launch with this token made something.
    pub fn has_heard(&self, request: &LaunchRequest) -> bool {
        self.launched.contains_key(&token_key(&request.zone, &request.token))
    }

    pub(super) fn launch(
        &mut self,
        now: Timestamp,
        request: &LaunchRequest,
        circumstances: Circumstances<'_>,
    ) -> Result<Performed, ProviderError> {
        let fleet = owner(circumstances.fleet)?.clone();
        let key = token_key(&request.zone, &request.token);
        if let Some((first, id)) = self.launched.get(&key) {
            return if same_launch(first, request) {
                Ok(Performed::same(Done::Instance(id.clone())))
            } else {
                Err(mismatch("RunInstances"))
            };
        }
        let template = self.template_of(request)?.clone();
        let placed = self.place(now, &request.into())?;
        let id: InstanceId = self.new_id("i");
        let tag = SlotTag { fleet, slot: request.slot.clone(), generation: request.generation };
        let registration = self.registration(&template, &tag, &request.zone);
        let visible = now.checked_add(circumstances.lag).unwrap_or(now);
        let instance = Instance {
            tag: Some(tag),
            token: Some(request.token.clone()),
            state: InstanceState::Pending,
            instance_type: request.instance_type.clone(),
            zone: request.zone.clone(),
            market: request.market,
            max_price: request.max_price,
            host: placed.host,
            notice: placed.notice,
            recommended: None,
            reservation: placed.reservation,
            group: request.group.clone(),
            digest: Some(request.template_digest.clone()),
            launched: now,
            ended: None,
            visible,
            registration: (!circumstances.stillborn).then_some(registration),
        };
        self.born(now, &id, instance);
        self.launched.insert(key, (request.clone(), id.clone()));
        Ok(Performed::changed(Done::Instance(id)))
    }

    /// Takes the place and the host of one machine.
    pub(super) fn place(&mut self, now: Timestamp, wanted: &Wanted<'_>) -> Result<Placed, ProviderError> {
        self.check_group(wanted)?;
        if self.shape(wanted.instance_type).is_none() {
            let message = format!(
                "InvalidParameterValue: The following supplied instance types do not exist: [{}]",
                wanted.instance_type
            );
            return Err(refused(Class::Other, message));
        }
        let reservation = self.find_place(now, wanted)?;
        let host = self.find_host(wanted, reservation.as_ref());
        let notice = self.block_notice(now, reservation.as_ref());
        Ok(Placed { reservation, host, notice })
    }

    /// The version that the request pins by its digest; the newest where labels alone made several.
    fn template_of(&self, request: &LaunchRequest) -> Result<&Template, ProviderError> {
        let name = &request.template;
        let versions = self.templates.get(name).ok_or_else(|| {
            let code = "InvalidLaunchTemplateName.NotFoundException";
            let message = format!("{code}: The specified launch template, with template name {name}, does not exist.");
            refused(Class::NotFound, message)
        })?;
        versions.iter().rev().find(|version| version.digest == request.template_digest).ok_or_else(|| {
            let code = "InvalidLaunchTemplateId.VersionNotFound";
            let message = format!("{code}: Could not find the specified version of the launch template {name}.");
            refused(Class::NotFound, message)
        })
    }

    fn check_group(&self, wanted: &Wanted<'_>) -> Result<(), ProviderError> {
        let Some(group) = wanted.group else { return Ok(()) };
        if !self.groups.contains_key(group) {
            let message = format!("InvalidPlacementGroup.Unknown: The Placement Group '{group}' is unknown.");
            return Err(refused(Class::NotFound, message));
        }
        let members = self.instances.values().filter(|found| found.group.as_ref() == Some(group));
        match members.into_iter().find(|found| found.state.is_live() && found.zone != *wanted.zone) {
            None => Ok(()),
            Some(member) => {
                let message = format!(
                    "InvalidParameterCombination: The cluster placement group '{group}' has instances in {} and cannot \
                     span Availability Zones.",
                    member.zone
                );
                Err(refused(Class::Other, message))
            }
        }
    }

    /// Takes the place that the machine will have: in the reservation that is named, in an open one that nobody named,
    /// or of what is left for sale.
    fn find_place(&mut self, now: Timestamp, wanted: &Wanted<'_>) -> Result<Option<ReservationId>, ProviderError> {
        let (kind, zone) = (wanted.instance_type, wanted.zone);
        match (wanted.market, wanted.reservation) {
            (Market::Reserved | Market::Block, Some(id)) => {
                self.check_target(now, wanted, id)?;
                self.occupy(now, id)?;
                return Ok(Some(id.clone()));
            }
            (Market::Reserved | Market::Block, None) => {
                let message = "MissingParameter: a launch into a Capacity Reservation must name it.";
                return Err(refused(Class::Other, message));
            }
            (Market::OnDemand | Market::Spot, Some(_)) => {
                let message = "InvalidParameterCombination: a target Capacity Reservation cannot be combined with \
                               this market.";
                return Err(refused(Class::Other, message));
            }
            (Market::OnDemand, None) if wanted.open != Open::Never => {
                let open = |held: &super::Reservation| {
                    held.matching == Match::Open && held.block.is_none() && held.fits(kind, zone)
                };
                let mut listed = self.reservations.iter();
                if let Some((id, _)) = listed.find(|(_, held)| open(held) && held.available(now) > 0) {
                    let id = id.clone();
                    self.occupy(now, &id)?;
                    return Ok(Some(id));
                }
                if wanted.open == Open::Must {
                    let message = "ReservationCapacityExceeded: There is no open Capacity Reservation with a free \
                                   place for this request.";
                    return Err(refused(Class::NoCapacity, message));
                }
            }
            (Market::OnDemand, None) => {}
            (Market::Spot, None) => {
                let price = spot_price(self.dice, kind, zone, now);
                if let Some(max) = wanted.max_price.filter(|max| *max < price) {
                    let message = format!(
                        "SpotMaxPriceTooLow: Your Spot request price of {max} is lower than the minimum required Spot \
                         request fulfillment price of {price}."
                    );
                    return Err(refused(Class::NoCapacity, message));
                }
            }
        }
        self.rooms.take(kind, zone, wanted.market, 1)?;
        Ok(None)
    }

    fn check_target(&self, now: Timestamp, wanted: &Wanted<'_>, id: &ReservationId) -> Result<(), ProviderError> {
        let held = self.known(now, id)?;
        let wrong = if !held.fits(wanted.instance_type, wanted.zone) {
            format!("it is for {} in {}", held.instance_type, held.zone)
        } else if held.block.is_some() != (wanted.market == Market::Block) {
            "a Capacity Block takes launches of the market type capacity-block and nothing else".into()
        } else if held.stage(now) == Stage::Ended {
            "it is over".into()
        } else {
            return Ok(());
        };
        let message = format!("InvalidParameterValue: The Capacity Reservation '{id}' cannot be used: {wrong}.");
        Err(refused(Class::Other, message))
    }

    /// Near the group's other machines; in a reservation only its own hosts are there to choose from.
    fn find_host(&mut self, wanted: &Wanted<'_>, reservation: Option<&ReservationId>) -> u32 {
        let in_group = |found: &&Instance| wanted.group.is_some() && found.group.as_ref() == wanted.group;
        let same = |found: &&Instance| found.instance_type == *wanted.instance_type && found.zone == *wanted.zone;
        let near = self.instances.values().find(|found| found.state.is_live() && in_group(found) && same(found));
        let near: Vec<u32> = near.map(|found| found.host).into_iter().collect();
        let hall = Hall { instance_type: wanted.instance_type, zone: wanted.zone };
        let pinned = wanted.host.and_then(|name| super::fabric::number(hall, name));
        if let Some(held) = reservation.and_then(|id| self.reservations.get_mut(id)) {
            return held.take_host(pinned.or(near.first().copied()));
        }
        if let Some(host) = pinned.filter(|host| self.fabric.take_this(self.dice, hall, *host)) {
            return host;
        }
        self.fabric.take(self.dice, hall, 1, &near).first().copied().unwrap_or(0)
    }

    /// Whoever comes into a block after the warning is warned too.
    fn block_notice(&self, now: Timestamp, reservation: Option<&ReservationId>) -> Option<Notice> {
        let held = self.reservations.get(reservation?)?;
        let (warns, kills) = (held.warns_at()?, held.kills_at()?);
        (now >= warns).then_some(Notice { why: NoticeKind::BlockEnd, at: kills })
    }
}

/// Whether two requests are one to EC2, which never hears of the pool's list of sources.
fn same_launch(one: &LaunchRequest, other: &LaunchRequest) -> bool {
    *one == LaunchRequest { source: one.source, ..other.clone() }
}

/// EC2's answer to a token that was used for something else.
pub(super) fn mismatch(call: &str) -> ProviderError {
    let message = format!(
        "IdempotentParameterMismatch: The client token you have provided is associated with a {call} request with \
         other parameters."
    );
    refused(Class::Other, message)
}
