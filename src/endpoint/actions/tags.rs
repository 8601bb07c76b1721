//! Tags of whatever exists.

use serde_json::json;

use super::{Answer, Changed, not_found};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, Filters, Pages, Row};
use crate::endpoint::refuse;
use crate::ids::{InstanceId, ReservationId};
use crate::provider::ProviderError;
use crate::provider::sim::State;
use crate::provider::sim::cloud::CloudState;

const FILTERS: Filters =
    &[("key", "Key"), ("resource-id", "ResourceId"), ("resource-type", "ResourceType"), ("value", "Value")];
const PAGES: Pages = Pages { usual: Some(1000), least: 5, most: 1000 };
const MOST: usize = 50;

pub fn create(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let (ids, tags) = (root.texts("Resources"), root.tags()?);
    ask.done()?;
    for id in &ids {
        exists(&state.cloud, id)?;
        let have = state.cloud.account.tags.get(*id);
        let more = tags.iter().filter(|(key, _)| have.is_none_or(|have| !have.contains_key(key))).count();
        if have.map_or(0, |have| have.len()) + more > MOST {
            return Err(refuse("TagLimitExceeded", format!("The maximum number of tags of '{id}' is {MOST}")));
        }
    }
    let before = state.cloud.account.tags.clone();
    for id in &ids {
        state.cloud.account.tag(id, tags.clone());
    }
    Ok((json!({}), before != state.cloud.account.tags))
}

/// Without tags all of them go; a tag with a value goes only where it has that value.
pub fn delete(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let ids = root.texts("Resources");
    let parts = root.parts("Tags");
    let tags: Vec<(Option<&str>, Option<&str>)> =
        parts.iter().map(|tag| (tag.text("Key"), tag.text("Value"))).collect();
    ask.done()?;
    for id in &ids {
        exists(&state.cloud, id)?;
    }
    let before = state.cloud.account.tags.clone();
    for id in ids {
        let Some(have) = state.cloud.account.tags.get_mut(id) else { continue };
        have.retain(|key, value| {
            let hit = |(k, v): &(Option<&str>, Option<&str>)| {
                *k == Some(key.as_str()) && v.is_none_or(|v| v == value.as_str())
            };
            !tags.is_empty() && !tags.iter().any(hit)
        });
    }
    state.cloud.account.tags.retain(|_, have| !have.is_empty());
    Ok((json!({}), before != state.cloud.account.tags))
}

pub fn describe(cloud: &CloudState, ask: &Ask) -> Answer {
    let rows = cloud.account.tags.iter().flat_map(|(id, tags)| {
        tags.iter().map(move |(key, value)| {
            let told = json!({"ResourceId": id, "ResourceType": kind(id), "Key": key, "Value": value});
            (format!("{id}/{key}"), told)
        })
    });
    let rows: Vec<Row> = rows.collect();
    list::answer(ask, "Tags", FILTERS, PAGES, rows)
}

/// What an id is of.
fn kind(id: &str) -> &'static str {
    match id.split_once('-').map_or("", |(prefix, _)| prefix) {
        "i" => "instance",
        "cr" => "capacity-reservation",
        "cb" => "capacity-block",
        "lt" => "launch-template",
        "pg" => "placement-group",
        "subnet" => "subnet",
        "sg" => "security-group",
        "ami" => "image",
        "vol" => "volume",
        "eni" => "network-interface",
        "sir" => "spot-instances-request",
        _ => "vpc",
    }
}

fn exists(cloud: &CloudState, id: &str) -> Result<(), ProviderError> {
    let (there, code) = match kind(id) {
        "instance" => (cloud.instances.contains_key(&InstanceId::from(id)), "InvalidInstanceID.NotFound"),
        "capacity-reservation" => {
            (cloud.reservations.contains_key(&ReservationId::from(id)), "InvalidCapacityReservationId.NotFound")
        }
        "capacity-block" => {
            let found = cloud.reservations.keys().any(|held| super::blocks::id_of(cloud, held) == id);
            (found, "InvalidCapacityBlockId.NotFound")
        }
        "launch-template" => (cloud.account.templates.contains_key(id), "InvalidLaunchTemplateId.NotFound"),
        "placement-group" => {
            let found = cloud.groups.keys().any(|name| super::groups::id_of(cloud, name) == id);
            (found, "InvalidPlacementGroup.Unknown")
        }
        "subnet" => {
            let found = cloud.account.zones().iter().any(|zone| cloud.subnet_of(zone) == id);
            (found, "InvalidSubnetID.NotFound")
        }
        "security-group" => (super::network::known_group(cloud, id).is_ok(), "InvalidGroup.NotFound"),
        "image" => (super::network::known_image(id).is_ok(), "InvalidAMIID.NotFound"),
        "volume" => (is_beside(cloud, id), "InvalidVolume.NotFound"),
        "network-interface" => (is_beside(cloud, id), "InvalidNetworkInterfaceID.NotFound"),
        "spot-instances-request" => (is_beside(cloud, id), "InvalidSpotInstanceRequestID.NotFound"),
        _ => (id == cloud.fixed_id("vpc", &["vpc"]), "InvalidID"),
    };
    if there { Ok(()) } else { Err(not_found(code, format!("The ID '{id}' does not exist"))) }
}

/// Whether it came with an instance that is there.
fn is_beside(cloud: &CloudState, id: &str) -> bool {
    cloud.instances.keys().flat_map(|instance| cloud.beside(instance)).any(|(_, thing)| thing == id)
}
