//! Capacity Blocks: offered, bought, extended. None of it has a token.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, Changed, invalid, not_found, reservations, tags_of, zone_id};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, BY_THOUSAND, Filters, Pages, Row};
use crate::endpoint::model::instant;
use crate::ids::{InstanceType, OfferingId, ReservationId};
use crate::observed::OfferingSeen;
use crate::provider::ProviderError;
use crate::provider::sim::State;
use crate::provider::sim::cloud::CloudState;
use crate::units::Duration;

const FILTERS: Filters =
    &[("availability-zone", "AvailabilityZone"), ("capacity-block-id", "CapacityBlockId"), ("state", "State")];
const OFFERS: Pages = Pages { usual: Some(100), least: 1, most: 1000 };
/// How far ahead a search goes where nobody says.
const AHEAD_DAYS: i64 = 56;

/// The block of a reservation.
pub fn id_of(cloud: &CloudState, id: &ReservationId) -> String {
    cloud.fixed_id("cb", &["block", id.as_str()])
}

pub fn offerings(cloud: &mut CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let kind: InstanceType = root.needed("InstanceType")?.into();
    let count = root.count("InstanceCount")?.unwrap_or(1);
    let duration = hours(root.count("CapacityDurationHours")?.unwrap_or(0));
    let from = root.instant("StartDateRange").unwrap_or(ask.now);
    let last = root.instant("EndDateRange");
    let ahead = SignedDuration::from_hours(24 * AHEAD_DAYS);
    let far = ask.now.checked_add(ahead).unwrap_or(Timestamp::MAX);
    let zones = cloud.account.zones();
    // The last day is the one on which a block ends at the latest.
    let until = last.and_then(|last| last.checked_sub(duration.signed()).ok()).unwrap_or(far);
    let found = zones.iter().flat_map(|zone| {
        let zone = std::slice::from_ref(zone);
        cloud.find_blocks(ask.now, &kind, count, duration, (from, until.min(far)), zone)
    });
    let found: Vec<_> = found.filter(|offer| last.is_none_or(|last| offer.end <= last)).collect();
    let rows: Vec<Row> = found.into_iter().map(|offer| (offer.id.to_string(), offer_told(&offer))).collect();
    list::answer(ask, "CapacityBlockOfferings", &[], OFFERS, rows)
}

pub fn extension_offerings(cloud: &mut CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let id: ReservationId = root.needed("CapacityReservationId")?.into();
    let by = hours(root.count("CapacityBlockExtensionDurationHours")?.unwrap_or(0));
    let found = cloud.find_extension(ask.now, &id, by)?;
    let start = cloud.reservations.get(&id).and_then(|held| held.block.as_ref()).map(|block| block.start);
    let rows = found.iter().map(|offer| (offer.id.to_string(), extension_told(offer, start))).collect();
    list::answer(ask, "CapacityBlockExtensionOfferings", &[], OFFERS, rows)
}

pub fn describe(cloud: &CloudState, ask: &Ask) -> Answer {
    let wanted = ask.root().texts("CapacityBlockIds");
    let blocks = cloud.listed_reservations(ask.now).filter(|(_, held)| held.block.is_some());
    let rows: Vec<Row> = blocks
        .map(|(id, _)| (id_of(cloud, id), told(cloud, ask, id)))
        .filter(|(id, _)| wanted.is_empty() || wanted.contains(&id.as_str()))
        .collect();
    if let Some(missing) = wanted.iter().find(|id| rows.iter().all(|(there, _)| there != *id)) {
        let text = format!("The Capacity Block '{missing}' was not found");
        return Err(not_found("InvalidCapacityBlockId.NotFound", text));
    }
    list::answer(ask, "CapacityBlocks", FILTERS, BY_THOUSAND, rows)
}

pub fn purchase(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let offering: OfferingId = root.needed("CapacityBlockOfferingId")?.into();
    reservations::platform(root.needed("InstancePlatform")?)?;
    let tags = root.tags_for(&["capacity-reservation"])?;
    ask.done()?;
    let (id, _) = state.cloud.buy(ask.now, &offering, None, tags)?;
    let held = state.cloud.reservations.get(&id).ok_or_else(|| invalid("what was bought is not there"))?;
    let told_reservation = reservations::told(&state.cloud, ask, &id, held);
    let blocks = [told(&state.cloud, ask, &id)];
    Ok((json!({"CapacityReservation": told_reservation, "CapacityBlocks": blocks}), true))
}

pub fn extend(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let offering: OfferingId = root.needed("CapacityBlockExtensionOfferingId")?.into();
    let id: ReservationId = root.needed("CapacityReservationId")?.into();
    ask.done()?;
    let before = state.cloud.reservations.get(&id).and_then(|held| held.end);
    let (_, offer) = state.cloud.buy(ask.now, &offering, Some(&id), Default::default())?;
    let end = state.cloud.reservations.get(&id).and_then(|held| held.end);
    Ok((json!({"CapacityBlockExtensions": [extended(&offer, ask.now, before, end)?]}), true))
}

fn hours(count: u32) -> Duration {
    Duration::secs(u64::from(count) * 3600)
}

fn length(offer: &OfferingSeen) -> i64 {
    offer.end.duration_since(offer.start).as_hours()
}

fn offer_told(offer: &OfferingSeen) -> Value {
    json!({
        "CapacityBlockOfferingId": offer.id.as_str(),
        "InstanceType": offer.instance_type.as_str(),
        "AvailabilityZone": offer.zone.as_str(),
        "InstanceCount": offer.nodes,
        "StartDate": instant(offer.start),
        "EndDate": instant(offer.end),
        "CapacityBlockDurationHours": length(offer),
        "CapacityBlockDurationMinutes": length(offer) * 60,
        "UpfrontFee": offer.fee.0.to_string(),
        "CurrencyCode": "USD",
        "Tenancy": "default",
        "ZoneType": "availability-zone",
    })
}

fn extension_told(offer: &OfferingSeen, start: Option<Timestamp>) -> Value {
    json!({
        "CapacityBlockExtensionOfferingId": offer.id.as_str(),
        "InstanceType": offer.instance_type.as_str(),
        "InstanceCount": offer.nodes,
        "AvailabilityZone": offer.zone.as_str(),
        "AvailabilityZoneId": zone_id(offer.zone.as_str()),
        "StartDate": instant(start.unwrap_or(offer.start)),
        "CapacityBlockExtensionStartDate": instant(offer.start),
        "CapacityBlockExtensionEndDate": instant(offer.end),
        "CapacityBlockExtensionDurationHours": length(offer),
        "UpfrontFee": offer.fee.0.to_string(),
        "CurrencyCode": "USD",
        "Tenancy": "default",
        "ZoneType": "availability-zone",
    })
}

fn extended(
    offer: &OfferingSeen,
    now: Timestamp,
    before: Option<Timestamp>,
    end: Option<Timestamp>,
) -> Result<Value, ProviderError> {
    let (Some(before), Some(end)) = (before, end) else { return Err(invalid("a block has an end")) };
    Ok(json!({
        "CapacityReservationId": offer.extends.as_ref().map(ReservationId::as_str),
        "InstanceType": offer.instance_type.as_str(),
        "InstanceCount": offer.nodes,
        "AvailabilityZone": offer.zone.as_str(),
        "AvailabilityZoneId": zone_id(offer.zone.as_str()),
        "CapacityBlockExtensionOfferingId": offer.id.as_str(),
        "CapacityBlockExtensionDurationHours": length(offer),
        "CapacityBlockExtensionStatus": "payment-succeeded",
        "CapacityBlockExtensionPurchaseDate": instant(now),
        "CapacityBlockExtensionStartDate": instant(before),
        "CapacityBlockExtensionEndDate": instant(end),
        "UpfrontFee": offer.fee.0.to_string(),
        "CurrencyCode": "USD",
        "ZoneType": "availability-zone",
    }))
}

fn told(cloud: &CloudState, ask: &Ask, id: &ReservationId) -> Value {
    let Some(held) = cloud.reservations.get(id) else { return Value::Null };
    let start = held.block.as_ref().map_or(held.made, |block| block.start);
    json!({
        "CapacityBlockId": id_of(cloud, id),
        "AvailabilityZone": held.zone.as_str(),
        "AvailabilityZoneId": zone_id(held.zone.as_str()),
        "CapacityReservationIds": [id.as_str()],
        "StartDate": instant(start),
        "EndDate": held.end.map(instant),
        "CreateDate": instant(held.made),
        "State": reservations::state_of(cloud, ask, id, held),
        "Tags": tags_of(cloud, &id_of(cloud, id)),
    })
}
