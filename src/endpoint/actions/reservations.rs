//! Capacity Reservations: made, changed, given back, described.

use serde_json::{Value, json};

use super::{Answer, Changed, arn_of, invalid, not_found, tags_of, zone_id};
use crate::endpoint::ask::{Ask, Part};
use crate::endpoint::list::{self, BY_THOUSAND, Filters, Row};
use crate::endpoint::model::instant;
use crate::endpoint::refuse;
use crate::fleet::reservation::Match;
use crate::ids::{ReservationId, Zone};
use crate::provider::ProviderError;
use crate::provider::sim::State;
use crate::provider::sim::cloud::account::Reserving;
use crate::provider::sim::cloud::{CloudState, Reservation, Stage};

const FILTERS: Filters = &[
    ("availability-zone", "AvailabilityZone"),
    ("availability-zone-id", "AvailabilityZoneId"),
    ("capacity-reservation-id", "CapacityReservationId"),
    ("end-date", "EndDate"),
    ("end-date-type", "EndDateType"),
    ("instance-match-criteria", "InstanceMatchCriteria"),
    ("instance-platform", "InstancePlatform"),
    ("instance-type", "InstanceType"),
    ("owner-id", "OwnerId"),
    ("placement-group-arn", "PlacementGroupArn"),
    ("reservation-type", "ReservationType"),
    ("start-date", "StartDate"),
    ("state", "State"),
    ("tenancy", "Tenancy"),
];

pub fn describe(cloud: &CloudState, ask: &Ask) -> Answer {
    let rows = named(cloud, ask, &ask.root().texts("CapacityReservationIds"))?;
    let rows: Vec<Row> = rows.into_iter().map(|(id, held)| (id.to_string(), told(cloud, ask, id, held))).collect();
    list::answer(ask, "CapacityReservations", FILTERS, BY_THOUSAND, rows)
}

pub fn create(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let zones = state.cloud.account.zones();
    let zone = match (root.text("AvailabilityZone"), root.text("AvailabilityZoneId")) {
        (Some(name), None) => zones.iter().find(|zone| zone.as_str() == name),
        (None, Some(id)) => zones.iter().find(|zone| zone_id(zone.as_str()) == id),
        _ => {
            let text = "Exactly one of AvailabilityZone and AvailabilityZoneId must be given";
            return Err(refuse("InvalidParameterCombination", text));
        }
    };
    let zone: Zone = zone.cloned().ok_or_else(|| invalid("Invalid availability zone"))?;
    platform(root.needed("InstancePlatform")?)?;
    root.flag("EbsOptimized");
    if let Some(tenancy) = root.text("Tenancy").filter(|tenancy| *tenancy != "default") {
        return Err(refuse("UnsupportedParameter", format!("Tenancy '{tenancy}' is not simulated")));
    }
    if let Some(group) = root.text("PlacementGroupArn") {
        super::groups::by_arn(&state.cloud, group)?;
    }
    let asked = Reserving {
        asked: ask.whole(),
        token: root.text("ClientToken").map(String::from),
        instance_type: root.needed("InstanceType")?.into(),
        zone,
        nodes: root.count("InstanceCount")?.unwrap_or(0),
        end: end(&root)?.flatten(),
        matching: matching(&root)?.unwrap_or(Match::Open),
        tags: root.tags_for(&["capacity-reservation"])?,
    };
    ask.done()?;
    let (id, new) = state.cloud.reserve_as_asked(ask.now, &asked)?;
    let held = state.cloud.reservations.get(&id).ok_or_else(|| gone(&[id.as_str()]))?;
    Ok((json!({"CapacityReservation": told(&state.cloud, ask, &id, held)}), new))
}

pub fn modify(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let id: ReservationId = root.needed("CapacityReservationId")?.into();
    let (nodes, end, matching) = (root.count("InstanceCount")?, end(&root)?, matching(&root)?);
    ask.done()?;
    let changed = state.cloud.change_reservation(ask.now, &id, nodes, end, matching)?;
    Ok((json!({"Return": true}), changed))
}

pub fn cancel(state: &mut State, ask: &Ask) -> Changed {
    let id: ReservationId = ask.root().needed("CapacityReservationId")?.into();
    ask.done()?;
    let changed = state.cloud.cancel_reservation(ask.now, &id)?;
    Ok((json!({"Return": true}), changed))
}

/// Those that are named, all of which must be there; else all that are listed.
pub fn named<'a>(
    cloud: &'a CloudState,
    ask: &Ask,
    wanted: &[&str],
) -> Result<Vec<(&'a ReservationId, &'a Reservation)>, ProviderError> {
    let found: Vec<_> = cloud
        .listed_reservations(ask.now)
        .filter(|(id, _)| wanted.is_empty() || wanted.contains(&id.as_str()))
        .collect();
    let missing: Vec<&str> =
        wanted.iter().copied().filter(|id| found.iter().all(|(there, _)| there.as_str() != *id)).collect();
    if missing.is_empty() { Ok(found) } else { Err(gone(&missing)) }
}

fn gone(ids: &[&str]) -> ProviderError {
    let text = format!("The capacity reservation '{}' was not found", ids.join(", "));
    not_found("InvalidCapacityReservationId.NotFound", text)
}

/// What of the end is said: nothing, that there is none, or an instant.
fn end(root: &Part<'_>) -> Result<Option<Option<jiff::Timestamp>>, ProviderError> {
    match (root.text("EndDateType"), root.instant("EndDate")) {
        (None, None) => Ok(None),
        (Some("unlimited"), None) => Ok(Some(None)),
        (None | Some("limited"), Some(end)) => Ok(Some(Some(end))),
        (Some("limited"), None) => Err(refuse("MissingParameter", "EndDateType limited needs EndDate")),
        (Some("unlimited"), Some(_)) => {
            Err(refuse("InvalidParameterCombination", "EndDateType unlimited takes no EndDate"))
        }
        (Some(other), _) => Err(invalid(format!("'{other}' is no EndDateType"))),
    }
}

fn matching(root: &Part<'_>) -> Result<Option<Match>, ProviderError> {
    match root.text("InstanceMatchCriteria") {
        None => Ok(None),
        Some("open") => Ok(Some(Match::Open)),
        Some("targeted") => Ok(Some(Match::Targeted)),
        Some(other) => Err(invalid(format!("'{other}' is no InstanceMatchCriteria"))),
    }
}

pub fn platform(name: &str) -> Result<(), ProviderError> {
    if name == "Linux/UNIX" {
        return Ok(());
    }
    Err(refuse("UnsupportedParameter", format!("InstancePlatform '{name}' is not simulated: write Linux/UNIX")))
}

pub fn state_of(cloud: &CloudState, ask: &Ask, id: &ReservationId, held: &Reservation) -> &'static str {
    match held.stage(ask.now) {
        Stage::PaymentPending => "payment-pending",
        Stage::Scheduled => "scheduled",
        Stage::Active if !cloud.is_shown(ask.now, id) => "pending",
        Stage::Active | Stage::Closing => "active",
        Stage::Ended if cloud.was_cancelled(id) => "cancelled",
        Stage::Ended => "expired",
    }
}

/// A reservation as EC2 tells it.
pub fn told(cloud: &CloudState, ask: &Ask, id: &ReservationId, held: &Reservation) -> Value {
    let zone = held.zone.as_str();
    let start = held.block.as_ref().map_or(held.made, |block| block.start);
    let state = state_of(cloud, ask, id, held);
    let over = matches!(state, "cancelled" | "expired");
    let asked = cloud.account.reserved.get(id);
    let owner = held.shared_by.as_deref().unwrap_or(cloud.account.owner());
    let mut told = json!({
        "CapacityReservationId": id.as_str(),
        "OwnerId": owner,
        "CapacityReservationArn": arn_of(cloud, owner, "capacity-reservation", id.as_str()),
        "AvailabilityZone": zone,
        "AvailabilityZoneId": zone_id(zone),
        "InstanceType": held.instance_type.as_str(),
        "InstancePlatform": "Linux/UNIX",
        "Tenancy": "default",
        "TotalInstanceCount": if over { 0 } else { held.total },
        "AvailableInstanceCount": held.available(ask.now),
        "EbsOptimized": asked.is_some_and(|asked| asked["EbsOptimized"] == true),
        "EphemeralStorage": false,
        "State": state,
        "StartDate": instant(start),
        "CreateDate": instant(held.made),
        "EndDateType": if held.end.is_some() { "limited" } else { "unlimited" },
        "InstanceMatchCriteria": match held.matching { Match::Open => "open", Match::Targeted => "targeted" },
        "ReservationType": if held.block.is_some() { "capacity-block" } else { "default" },
        "CapacityAllocations": [{"AllocationType": "used", "Count": held.used}],
        "Tags": tags_of(cloud, id.as_str()),
    });
    if let Some(end) = held.end {
        told["EndDate"] = instant(end);
    }
    if held.block.is_some() {
        told["CapacityBlockId"] = super::blocks::id_of(cloud, id).into();
    }
    if let Some(group) = asked.and_then(|asked| asked["PlacementGroupArn"].as_str()) {
        told["PlacementGroupArn"] = group.into();
    }
    told
}
