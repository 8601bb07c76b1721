//! What an EC2 account holds that the planner has no words for: raw tags, launch templates as they were written, what an
//! instance was asked as, the queue of notices.
//!
//! It is part of the one state of the simulated cloud: machines, reservations, groups and time are the cloud's own, and
//! here is only what the wire says beside them. Called by the cloud as things happen, and by `endpoint`.

mod blocks;
mod boot;
mod queue;
mod reserve;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use queue::{Message, Queue};
pub use reserve::Reserving;
pub use run::{ROOT, Run};

use super::{CloudState, Instance, Reservation, fabric, market};
use crate::effect::marks::FLEET;
use crate::fleet::standing::NodeShape;
use crate::ids::{GroupName, InstanceId, InstanceType, ReservationId, Zone};
use crate::observed::{NoticeKind, ReservationTag, SlotTag};
use crate::provider::ProviderError;
use crate::units::Usd;

/// Where nobody says otherwise.
const OWNER: &str = "111122223333";
const REGION: &str = "us-west-2";
/// The zones of every region.
const ZONES: [char; 6] = ['a', 'b', 'c', 'd', 'e', 'f'];

/// What a fleet tags its own with: then the simulator knows them as the fleet's too.
const SLOT: &str = "tidewright.dev/slot";
const RESERVATION: &str = "tidewright.dev/reservation";
const GENERATION: &str = "tidewright.dev/generation";
const TEMPLATE: &str = "tidewright.dev/template";

/// What the wire knows beside the cloud's own state.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    owner: Option<String>,
    region: Option<String>,
    /// How many ids of its own were given out.
    issued: u64,
    /// By the id of what carries them.
    pub tags: BTreeMap<String, BTreeMap<String, String>>,
    pub templates: BTreeMap<String, LaunchTemplate>,
    pub groups: BTreeMap<GroupName, Group>,
    pub details: BTreeMap<InstanceId, Details>,
    /// What a reservation was asked as.
    pub reserved: BTreeMap<ReservationId, Value>,
    /// What was launched by each token, by `zone|token`; without a zone where the request named none.
    pub launches: BTreeMap<String, Launch>,
    /// What was made by each token of another action, by `action|token`: the request, and the id.
    pub made: BTreeMap<String, (Value, String)>,
    /// Events for whoever receives them. None: nobody does.
    pub queue: Option<Queue>,
}

/// One call of RunInstances.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// EC2's `r-…`, which is no Capacity Reservation.
    pub id: String,
    pub asked: Value,
    pub instances: Vec<InstanceId>,
}

/// What is known of an instance beside what the cloud does with it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Details {
    pub launch: String,
    pub index: u32,
    /// Template and request together, by the names of EC2's model.
    pub data: Value,
    pub template: Option<(String, u64)>,
    pub subnet: String,
    /// Its private name, `ip-10-0-0-4.…`.
    pub name: String,
    pub protected: bool,
    pub token_key: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LaunchTemplate {
    pub name: String,
    pub made: Timestamp,
    pub default: u64,
    /// Oldest first; a version's number is its place, from 1.
    pub versions: Vec<TemplateVersion>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TemplateVersion {
    pub made: Timestamp,
    pub description: Option<String>,
    pub data: Value,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    pub strategy: String,
    pub partitions: Option<u64>,
}

impl Account {
    pub fn owner(&self) -> &str {
        self.owner.as_deref().unwrap_or(OWNER)
    }

    pub fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(REGION)
    }

    /// Says whose account in which region this is.
    pub fn be(&mut self, owner: Option<String>, region: Option<String>) {
        self.owner = owner.or_else(|| self.owner.take());
        self.region = region.or_else(|| self.region.take());
    }

    pub fn zones(&self) -> Vec<Zone> {
        ZONES.iter().map(|letter| Zone::from(format!("{}{letter}", self.region()))).collect()
    }

    pub fn tag(&mut self, id: &str, tags: impl IntoIterator<Item = (String, String)>) {
        let mut tags = tags.into_iter().peekable();
        if tags.peek().is_some() {
            self.tags.entry(id.to_string()).or_default().extend(tags);
        }
    }

    /// An instance is no longer listed, nor what came with it.
    pub(super) fn forget(&mut self, id: &InstanceId, beside: &[(&str, String)]) {
        self.details.remove(id);
        self.tags.remove(id.as_str());
        beside.iter().for_each(|(_, thing)| drop(self.tags.remove(thing)));
    }

    pub(super) fn tell_notice(&mut self, now: Timestamp, id: &InstanceId, why: NoticeKind, at: Timestamp) {
        let (owner, region) = (self.owner().to_string(), self.region().to_string());
        if let Some(queue) = &mut self.queue {
            queue.notice(&owner, &region, now, id, why, at);
        }
    }

    /// Says that an instance had better be moved. Only the queue hears of it.
    pub fn recommend(&mut self, now: Timestamp, id: &InstanceId) {
        let (owner, region) = (self.owner().to_string(), self.region().to_string());
        if let Some(queue) = &mut self.queue {
            queue.recommend(&owner, &region, now, id);
        }
    }

    pub(super) fn tell_state(&mut self, now: Timestamp, id: &InstanceId, state: &str) {
        let (owner, region) = (self.owner().to_string(), self.region().to_string());
        if let Some(queue) = &mut self.queue {
            queue.state(&owner, &region, now, id, state);
        }
    }
}

impl CloudState {
    /// An id that belongs to a name for ever: of subnets, images, groups and whatever else nobody made.
    pub fn fixed_id(&self, prefix: &str, words: &[&str]) -> String {
        self.dice.id(prefix, words)
    }

    /// A new id of something that only the wire knows. Counted apart: machines are called by the count of the others, and
    /// have the same names whoever launches them.
    pub fn fresh_id(&mut self, prefix: &str) -> String {
        self.account.issued += 1;
        self.dice.id(prefix, &[prefix, "wire", &self.account.issued.to_string()])
    }

    pub fn subnet_of(&self, zone: &Zone) -> String {
        self.fixed_id("subnet", &[zone.as_str()])
    }

    /// Where an instance stands in the network, from the top.
    pub fn network_of(&self, instance: &Instance) -> Vec<String> {
        fabric::path(self.dice, instance.hall(), instance.host)
    }

    /// What all places of a reservation have in common.
    pub fn network_of_reservation(&self, held: &Reservation) -> Vec<String> {
        let hall = fabric::Hall { instance_type: &held.instance_type, zone: &held.zone };
        fabric::common(self.dice, hall, held.all_hosts.iter().copied())
    }

    pub fn spot_price_at(&self, instance_type: &InstanceType, zone: &Zone, at: Timestamp) -> Usd {
        market::spot_price(self.dice, instance_type, zone, at)
    }

    /// What a machine of this type has, where the type exists.
    pub fn shape_of(&self, name: &InstanceType) -> Option<NodeShape> {
        self.shape(name)
    }

    /// Takes requests from a bucket: of an action, or of what an action makes.
    pub fn charge(&mut self, now: Timestamp, bucket: &str, many: u32) -> Result<(), ProviderError> {
        self.buckets.take_many(bucket, u64::from(many), now)
    }

    /// Ends an instance, as a call does.
    pub fn end(&mut self, now: Timestamp, id: &InstanceId) -> Result<bool, ProviderError> {
        self.terminate(now, id).map(|done| done.changed)
    }

    pub fn boot_again(&mut self, now: Timestamp, id: &InstanceId) -> Result<(), ProviderError> {
        self.reboot(now, id).map(drop)
    }

    /// Those that are listed at this instant.
    pub fn listed_instances(&self, now: Timestamp) -> impl Iterator<Item = (&InstanceId, &Instance)> {
        self.instances.iter().filter(move |(_, found)| found.visible <= now)
    }

    pub fn listed_reservations(&self, now: Timestamp) -> impl Iterator<Item = (&ReservationId, &Reservation)> {
        self.reservations.iter().filter(move |(_, held)| held.is_listed(now))
    }
}

/// Whose slot an instance was launched for, by its tags.
fn slot_of(tags: &BTreeMap<String, String>) -> Option<SlotTag> {
    let generation = tags.get(GENERATION)?.parse().ok()?;
    Some(SlotTag { fleet: tags.get(FLEET)?.as_str().into(), slot: tags.get(SLOT)?.parse().ok()?, generation })
}

/// Whose document a reservation was made for.
fn reservation_of(tags: &BTreeMap<String, String>) -> Option<ReservationTag> {
    let generation = tags.get(GENERATION)?.parse().ok()?;
    let (fleet, reservation) = (tags.get(FLEET)?.as_str().into(), tags.get(RESERVATION)?.as_str().into());
    Some(ReservationTag { fleet, reservation, generation })
}
