//! What the cloud has: reservations, offers, instances, placement groups, launch templates.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Gap, Read};
use crate::fleet::reservation::Match;
use crate::ids::{
    Digest, FleetUid, GroupName, HostName, InstanceId, InstanceType, OfferingId, ReservationId, ReservationName,
    SlotId, TemplateName, Token, Zone,
};
use crate::units::Usd;

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct CloudSeen {
    pub reservations: Read<BTreeMap<ReservationId, ReservationSeen>>,
    /// Offers of Capacity Blocks for the blocks that are wanted and not bought, and for their extension.
    pub offerings: Read<BTreeMap<ReservationName, Vec<OfferingSeen>>>,
    pub instances: Read<BTreeMap<InstanceId, InstanceSeen>>,
    pub groups: Read<BTreeMap<GroupName, GroupSeen>>,
    pub templates: Read<BTreeMap<TemplateName, TemplateSeen>>,
    /// US dollars an hour.
    pub spot_prices: Read<BTreeMap<InstanceType, BTreeMap<Zone, Usd>>>,
    /// Free hosts that a launch may name. EC2 takes no host and tells of none; the simulator does both.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<HostName, HostSeen>,
    /// Instances that the cloud recommends to move, and since when: it may take them away, and says neither that nor when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recommended: BTreeMap<InstanceId, Timestamp>,
    /// Why it could not be asked where machines and reservations stand on the network: an empty `network` says nothing
    /// then. None where all was told, and where the cloud has no such call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<Gap>,
}

/// A place for one machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostSeen {
    pub instance_type: InstanceType,
    pub zone: Zone,
    /// The reservation that it belongs to.
    pub reservation: Option<ReservationId>,
    /// Where it stands, from the top.
    pub network: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReservationSeen {
    /// Who made it: the fleet and the document that our tags name.
    pub tag: Option<ReservationTag>,
    pub instance_type: InstanceType,
    pub zone: Zone,
    pub total: u32,
    pub available: u32,
    pub state: ReservationState,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub matching: Match,
    /// Bought as a Capacity Block: it can be neither changed nor cancelled.
    pub block: bool,
    /// The offer that it was bought by, where the cloud says.
    pub offering: Option<OfferingId>,
    /// Where it stands on the network, from the top; may be short or empty.
    pub network: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReservationTag {
    pub fleet: FleetUid,
    pub reservation: ReservationName,
    pub generation: u32,
}

/// What EC2's thirteen states mean to a planner.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ReservationState {
    /// Usable soon: asked for, being paid, or not begun.
    Pending,
    Scheduled,
    Active,
    /// Over: expired, cancelled, failed.
    Ended,
    /// A state that we do not know: not usable, and kept.
    Other(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OfferingSeen {
    pub id: OfferingId,
    /// Lengthens the block that is there instead of beginning a new one.
    pub extends: Option<ReservationId>,
    pub instance_type: InstanceType,
    pub zone: Zone,
    pub nodes: u32,
    pub start: Timestamp,
    pub end: Timestamp,
    pub fee: Usd,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstanceSeen {
    pub tag: Option<SlotTag>,
    pub token: Option<Token>,
    pub state: InstanceState,
    pub instance_type: InstanceType,
    pub zone: Zone,
    pub market: Market,
    pub reservation: Option<ReservationId>,
    pub group: Option<GroupName>,
    /// The digest of the template that it was launched with, from its tags.
    pub template: Option<Digest>,
    pub launched: Timestamp,
    /// Where it stands on the network, from the top; known only once it runs, and not always.
    pub network: Vec<String>,
    /// The cloud will take it away.
    pub notice: Option<Notice>,
}

/// Whose it is: what we tag an instance with as it is launched.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct SlotTag {
    pub fleet: FleetUid,
    pub slot: SlotId,
    pub generation: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum InstanceState {
    Pending,
    Running,
    /// On its way out: its place in a reservation is still taken.
    ShuttingDown,
    Terminated,
    Stopped,
    Other(String),
}

/// How an instance is paid for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Market {
    /// In a reservation: paid whether it runs or not.
    Reserved,
    /// In a Capacity Block: paid upfront.
    Block,
    OnDemand,
    Spot,
}

/// The cloud will take an instance away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Notice {
    pub why: NoticeKind,
    pub at: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NoticeKind {
    SpotInterruption,
    BlockEnd,
    Maintenance,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupSeen {
    pub ours: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TemplateSeen {
    pub ours: bool,
    /// The digest of its newest version, from its tags.
    pub digest: Option<Digest>,
    pub version: u32,
}

impl InstanceState {
    /// Paid for, or holding its place in a reservation.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Terminated)
    }

    /// Runs or will run.
    pub fn serves(&self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}
