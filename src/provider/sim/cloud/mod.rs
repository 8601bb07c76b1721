//! The simulated EC2: what it holds, what happens in it as time passes, and what a call does to it.
//!
//! Everything is decided by the state, the seed and the instant; nothing here knows about faults, files or the
//! cluster. What the cluster has to hear of (a machine joins, dies, reboots) waits in an outbox. Called by the
//! simulator alone.

pub mod account;
pub mod block;
mod fabric;
mod instance;
mod launch;
mod market;
mod reservation;
pub mod seen;
mod throttle;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use instance::Instance;
pub use launch::{Open, Wanted};
pub use reservation::{Block, Reservation, Stage};
pub use throttle::limit_exceeded;

use super::cluster::NodeJoin;
use super::dice::Dice;
use crate::effect::{CloudAction, LaunchRequest, ReserveRequest, Template};
use crate::fleet::standing::NodeShape;
use crate::ids::{FleetUid, GroupName, InstanceId, InstanceType, OfferingId, ReservationId, TemplateName, Token, Zone};
use crate::observed::{Market, OfferingSeen};
use crate::provider::{Class, Done, ProviderError};
use crate::units::Usd;

/// All that the simulated cloud holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloudState {
    dice: Dice,
    /// How many ids were given out.
    issued: u64,
    pub instances: BTreeMap<InstanceId, Instance>,
    /// Those that ended too: they are no longer listed after an hour.
    pub reservations: BTreeMap<ReservationId, Reservation>,
    /// Placement groups, and whether they are ours.
    pub groups: BTreeMap<GroupName, bool>,
    /// The versions of each launch template, oldest first.
    pub templates: BTreeMap<TemplateName, Vec<Template>>,
    /// What was launched by each token, by `zone|token`: EC2's tokens hold in one zone.
    launched: BTreeMap<String, (LaunchRequest, InstanceId)>,
    reserved: BTreeMap<Token, (ReserveRequest, ReservationId)>,
    rooms: market::Rooms,
    fabric: fabric::Fabric,
    buckets: throttle::Buckets,
    /// The offers that somebody was shown.
    offers: BTreeMap<OfferingId, OfferingSeen>,
    withdrawn: BTreeSet<OfferingId>,
    /// What was paid upfront for Capacity Blocks, purchase by purchase.
    pub paid: Vec<(ReservationId, Usd)>,
    agenda: BTreeMap<Timestamp, Vec<Event>>,
    /// Kinds of machines that the catalogue does not know and a fleet describes.
    shapes: BTreeMap<InstanceType, NodeShape>,
    /// What only EC2's own words know.
    #[serde(default)]
    pub account: account::Account,
    /// What the cluster has to hear of.
    #[serde(skip)]
    outbox: Vec<Word>,
}

/// What will happen by itself. Whether it still applies is looked at when its time has come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Event {
    Runs(InstanceId),
    Joins(InstanceId),
    /// The notice that an instance was given runs out.
    Taken(InstanceId),
    Terminated(InstanceId),
    /// No longer listed.
    Forgotten(InstanceId),
    TokenExpires(String),
    BlockWarns(ReservationId),
    BlockKills(ReservationId),
    Ends(ReservationId),
    SpotHour,
}

/// What the cloud tells the cluster, in a manner of speaking.
#[derive(Clone, Debug)]
pub enum Word {
    Joins(NodeJoin),
    Gone(InstanceId),
    Reboots(InstanceId, Timestamp),
}

/// What is not in the request: who asks, and how the world stands to it.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The fleet whose tags new things carry.
    pub fleet: Option<&'a FleetUid>,
    /// How long a fresh instance is missing from what is listed.
    pub lag: SignedDuration,
    /// The machine starts, and its node never joins.
    pub stillborn: bool,
}

/// What a call did.
#[derive(Clone, PartialEq, Debug)]
pub struct Performed {
    pub done: Done,
    /// Something is different now; false where it was so already.
    pub changed: bool,
}

impl CloudState {
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            issued: 0,
            instances: BTreeMap::new(),
            reservations: BTreeMap::new(),
            groups: BTreeMap::new(),
            templates: BTreeMap::new(),
            launched: BTreeMap::new(),
            reserved: BTreeMap::new(),
            rooms: market::Rooms::default(),
            fabric: fabric::Fabric::default(),
            buckets: throttle::Buckets::default(),
            offers: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            paid: Vec::new(),
            agenda: BTreeMap::new(),
            shapes: BTreeMap::new(),
            account: account::Account::default(),
            outbox: Vec::new(),
        }
    }

    /// When something would happen by itself.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.agenda.keys().next().copied()
    }

    /// Everything that happens up to now, in order.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some(due) = self.agenda.first_entry().filter(|due| *due.key() <= now) {
            let (at, events) = (*due.key(), due.remove());
            for event in events {
                self.happens(at, event);
            }
        }
    }

    /// What the cluster has to hear of since this was asked last.
    pub fn words(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.outbox)
    }

    /// One call, after the throttle of its action.
    pub fn perform(
        &mut self,
        now: Timestamp,
        action: &CloudAction,
        circumstances: Circumstances<'_>,
    ) -> Result<Performed, ProviderError> {
        self.buckets.take(self.call_name(action), now)?;
        match action {
            CloudAction::Launch(request) => self.launch(now, request, circumstances),
            CloudAction::Terminate { instance, .. } => self.terminate(now, instance),
            CloudAction::Reboot { instance, .. } => self.reboot(now, instance),
            CloudAction::Reserve(request) => self.reserve(now, request, circumstances.fleet),
            CloudAction::Modify { id, nodes, end, matching, .. } => self.modify(now, id, *nodes, *end, *matching),
            CloudAction::Cancel { id, .. } => self.cancel(now, id),
            CloudAction::Purchase(request) => self.purchase(now, request, circumstances.fleet),
            CloudAction::EnsureTemplate(template) => Ok(self.ensure_template(template)),
            CloudAction::EnsureGroup { group } => {
                let changed = !self.groups.contains_key(group);
                self.groups.entry(group.clone()).or_insert(true);
                Ok(Performed { done: Done::Nothing, changed })
            }
        }
    }

    /// Takes one request of each of these reading actions; the first that is throttled is the answer.
    pub fn read(&mut self, now: Timestamp, action: &str) -> Result<(), ProviderError> {
        self.buckets.take(action, now)
    }

    /// Says how many machines are left for sale.
    pub fn set_room(&mut self, instance_type: &InstanceType, zone: &Zone, market: Market, left: Option<u32>) {
        self.rooms.set(instance_type, zone, market, left);
    }

    /// Remembers what a kind of machine is that only the fleet describes.
    pub fn learn(&mut self, shape: &NodeShape) {
        self.shapes.entry(shape.instance_type.clone()).or_insert_with(|| shape.clone());
    }

    fn happens(&mut self, at: Timestamp, event: Event) {
        match event {
            Event::Runs(id) => self.runs(&id),
            Event::Joins(id) => self.joins(&id),
            Event::Taken(id) => self.taken(at, &id),
            Event::Terminated(id) => self.terminated(at, &id),
            Event::Forgotten(id) => {
                let beside = self.beside(&id);
                self.instances.remove(&id);
                self.account.forget(&id, &beside);
            }
            Event::TokenExpires(token) => {
                self.launched.remove(&token);
                self.account.launches.remove(&token);
            }
            Event::BlockWarns(id) => self.block_warns(at, &id),
            Event::BlockKills(id) => self.block_kills(at, &id),
            Event::Ends(id) => self.reservation_ends(at, &id),
            Event::SpotHour => self.spot_hour(at),
        }
    }

    fn plan_event(&mut self, at: Timestamp, event: Event) {
        self.agenda.entry(at).or_default().push(event);
    }

    fn ensure_template(&mut self, template: &Template) -> Performed {
        let versions = self.templates.entry(template.name.clone()).or_default();
        let changed = versions.last() != Some(template);
        if changed {
            versions.push(template.clone());
        }
        Performed { done: Done::Nothing, changed }
    }

    fn call_name(&self, action: &CloudAction) -> &'static str {
        match action {
            CloudAction::Launch(_) => "RunInstances",
            CloudAction::Terminate { .. } => "TerminateInstances",
            CloudAction::Reboot { .. } => "RebootInstances",
            CloudAction::Reserve(_) => "CreateCapacityReservation",
            CloudAction::Modify { .. } => "ModifyCapacityReservation",
            CloudAction::Cancel { .. } => "CancelCapacityReservation",
            CloudAction::Purchase(request) if request.extends.is_some() => "PurchaseCapacityBlockExtension",
            CloudAction::Purchase(_) => "PurchaseCapacityBlock",
            CloudAction::EnsureTemplate(template) if self.templates.contains_key(&template.name) => {
                "CreateLaunchTemplateVersion"
            }
            CloudAction::EnsureTemplate(_) => "CreateLaunchTemplate",
            CloudAction::EnsureGroup { .. } => "CreatePlacementGroup",
        }
    }

    fn new_id<T: From<String>>(&mut self, prefix: &str) -> T {
        self.issued += 1;
        T::from(self.dice.id(prefix, &[prefix, &self.issued.to_string()]))
    }
}

impl Performed {
    fn changed(done: Done) -> Self {
        Self { done, changed: true }
    }

    fn same(done: Done) -> Self {
        Self { done, changed: false }
    }
}

/// Some seconds later; never beyond the end of time.
fn after(at: Timestamp, secs: u64) -> Timestamp {
    let secs = SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX));
    at.checked_add(secs).unwrap_or(Timestamp::MAX)
}

/// Some seconds earlier.
fn before(at: Timestamp, secs: u64) -> Timestamp {
    let secs = SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX));
    at.checked_sub(secs).unwrap_or(Timestamp::MIN)
}

fn refused(class: Class, message: impl Into<String>) -> ProviderError {
    ProviderError::new(class, message)
}

/// New things carry the fleet's tags, and the ledger knows which fleet that is.
fn owner(fleet: Option<&FleetUid>) -> Result<&FleetUid, ProviderError> {
    fleet.ok_or_else(|| refused(Class::Other, "the ledger names no fleet: nothing can be tagged as ours"))
}

#[cfg(test)]
mod tests;
