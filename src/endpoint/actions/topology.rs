//! Where instances and reservations stand in the network, from the top down.

use serde_json::{Value, json};

use super::{Answer, combination, not_found, zone_id};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, Filters, Pages, Row};
use crate::ids::InstanceId;
use crate::observed::InstanceState;
use crate::provider::sim::cloud::{CloudState, Stage};

const FILTERS: Filters =
    &[("availability-zone", "AvailabilityZone"), ("instance-type", "InstanceType"), ("zone-id", "ZoneId")];
const RESERVATION_FILTERS: Filters = &[("availability-zone", "AvailabilityZone"), ("instance-type", "InstanceType")];

/// Of running instances, and only of types that EC2 tells it of.
pub fn instances(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let (ids, groups) = (root.texts("InstanceIds"), root.texts("GroupNames"));
    if !ids.is_empty() && root.number("MaxResults").is_some() {
        return Err(combination("InstanceIds and MaxResults cannot be used together"));
    }
    if ids.len() > 100 {
        return Err(super::invalid("At most 100 instance ids"));
    }
    if let Some(id) = ids.iter().find(|id| !cloud.instances.contains_key(&InstanceId::from(**id))) {
        return Err(not_found("InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist")));
    }
    let rows: Vec<Row> = cloud
        .listed_instances(ask.now)
        .filter(|(id, found)| found.state == InstanceState::Running && (ids.is_empty() || ids.contains(&id.as_str())))
        .filter(|(_, found)| {
            groups.is_empty() || found.group.as_ref().is_some_and(|name| groups.contains(&name.as_str()))
        })
        .filter_map(|(id, found)| {
            let nodes = cloud.network_of(found);
            let zone = found.zone.as_str();
            let told = json!({
                "InstanceId": id.as_str(),
                "InstanceType": found.instance_type.as_str(),
                "GroupName": found.group.as_ref().map(|name| name.as_str()),
                "NetworkNodes": nodes,
                "AvailabilityZone": zone,
                "ZoneId": zone_id(zone),
                "CapacityBlockId": block(cloud, found.reservation.as_ref()),
            });
            (!nodes.is_empty()).then_some((id.to_string(), told))
        })
        .collect();
    let usual = if ids.is_empty() { Some(20) } else { None };
    list::answer(ask, "Instances", FILTERS, Pages { usual, least: 1, most: 100 }, rows)
}

/// Of reservations that are pending or active.
pub fn reservations(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let ids = root.texts("CapacityReservationIds");
    if !ids.is_empty() && root.number("MaxResults").is_some() {
        return Err(combination("CapacityReservationIds and MaxResults cannot be used together"));
    }
    if ids.len() > 10 {
        return Err(super::invalid("At most 10 Capacity Reservation ids"));
    }
    let rows: Vec<Row> = super::reservations::named(cloud, ask, &ids)?
        .into_iter()
        .filter(|(_, held)| matches!(held.stage(ask.now), Stage::Active | Stage::Closing))
        .filter_map(|(id, held)| {
            let nodes = cloud.network_of_reservation(held);
            let zone = held.zone.as_str();
            let told = json!({
                "CapacityReservationId": id.as_str(),
                "CapacityBlockId": block(cloud, Some(id)),
                "State": super::reservations::state_of(cloud, ask, id, held),
                "InstanceType": held.instance_type.as_str(),
                "NetworkNodes": nodes.iter().take(3).collect::<Vec<_>>(),
                "AvailabilityZone": zone,
                "AvailabilityZoneId": zone_id(zone),
            });
            (!nodes.is_empty()).then_some((id.to_string(), told))
        })
        .collect();
    let usual = Some(10);
    list::answer(ask, "CapacityReservations", RESERVATION_FILTERS, Pages { usual, least: 1, most: 10 }, rows)
}

fn block(cloud: &CloudState, id: Option<&crate::ids::ReservationId>) -> Option<Value> {
    let id = id.filter(|id| cloud.reservations.get(*id).is_some_and(|held| held.block.is_some()))?;
    Some(super::blocks::id_of(cloud, id).into())
}
