//! What can be done. An action leaves no choice to whoever performs it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::change::LedgerChange;
use super::desired::{LaidOut, Object, Template};
use super::fact::Fact;
use super::marks::Mark;
use crate::fleet::launch::Taint;
use crate::fleet::reservation::Match;
use crate::ids::{
    Digest, GroupName, HostName, InstanceId, InstanceType, NamespacedName, NodeName, OfferingId, ReservationId,
    ReservationName, SlotId, TemplateName, Token, Uid, WorkloadUid, Zone,
};
use crate::observed::{GangName, Market, ObjectKey};
use crate::units::Usd;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Action {
    Cloud(CloudAction),
    Cluster(ClusterAction),
    /// Remember something, and do nothing else.
    Record(LedgerChange),
    Await(Fact),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CloudAction {
    Launch(LaunchRequest),
    Terminate {
        slot: SlotId,
        instance: InstanceId,
    },
    Reboot {
        slot: SlotId,
        instance: InstanceId,
    },
    Reserve(ReserveRequest),
    /// Changes a reservation that is there.
    Modify {
        reservation: ReservationName,
        id: ReservationId,
        nodes: u32,
        end: Option<Timestamp>,
        matching: Match,
    },
    Cancel {
        reservation: ReservationName,
        id: ReservationId,
    },
    Purchase(PurchaseRequest),
    EnsureTemplate(Template),
    EnsureGroup {
        group: GroupName,
    },
}

/// One instance for one slot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LaunchRequest {
    pub slot: SlotId,
    pub generation: u32,
    pub token: Token,
    pub instance_type: InstanceType,
    pub zone: Zone,
    pub market: Market,
    pub reservation: Option<ReservationId>,
    /// US dollars an hour, for spot.
    pub max_price: Option<Usd>,
    pub template: TemplateName,
    pub template_digest: Digest,
    pub group: Option<GroupName>,
    /// Which of the pool's sources this is: its place in `capacity`.
    pub source: u32,
    /// The host that it should be on, where the cloud told of one: EC2 takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReserveRequest {
    pub reservation: ReservationName,
    pub generation: u32,
    pub token: Token,
    pub instance_type: InstanceType,
    pub zone: Zone,
    pub nodes: u32,
    pub end: Option<Timestamp>,
    pub matching: Match,
}

/// A Capacity Block or its extension. There is no token: it is sent once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PurchaseRequest {
    pub reservation: ReservationName,
    pub offering: OfferingId,
    pub extends: Option<ReservationId>,
    pub fee: Usd,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ClusterAction {
    /// Server-side apply of exactly this.
    Apply(Object),
    Delete(ObjectKey),
    /// Takes our mark off an object, and leaves it.
    Disown(ObjectKey),
    /// Sets labels (or removes them) and adds or removes taints of a node, all at once, with what we remember of that.
    Dress {
        node: NodeName,
        labels: BTreeMap<String, Option<String>>,
        taints: Vec<Taint>,
        remove_taints: Vec<Taint>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        notes: BTreeMap<String, Option<String>>,
    },
    /// Marks a node: no more pods, our taint, our annotation.
    Cordon {
        node: NodeName,
        mark: Mark,
    },
    /// Lifts our own mark, and nothing else.
    Uncordon {
        node: NodeName,
    },
    /// Asks a workload to save its work.
    Ask {
        workload: WorkloadUid,
        mark: Mark,
    },
    /// Asks the pods of a gang that no queue admitted to save their work.
    AskPods {
        gang: GangName,
        pods: Vec<(NamespacedName, Uid)>,
        mark: Mark,
    },
    /// Deactivates a workload: all its pods go, and it keeps its place in the queue.
    Suspend {
        workload: WorkloadUid,
        mark: Mark,
    },
    /// Activates a workload that we deactivated.
    Resume {
        workload: WorkloadUid,
    },
    /// Makes a workload that may be smaller as small as this: the pods beyond go, the others stay.
    Shrink {
        workload: WorkloadUid,
        pods: u32,
    },
    /// Through the eviction API, each with its UID. With `force` they are deleted: a declared deadline has passed.
    Evict {
        pods: Vec<(NamespacedName, Uid)>,
        force: bool,
    },
    /// Orders another cut: behind cordon and drain only. Where `flip` is set the order is first taken back, because
    /// mig-manager acts only on a change of the label's value. `over` is the order that the node carried when this was
    /// planned: one that somebody gave since is newer, and is not overwritten.
    Cut {
        node: NodeName,
        laid_out: LaidOut,
        flip: bool,
        #[serde(default)]
        over: BTreeMap<String, String>,
    },
}

impl CloudAction {
    /// One word for what it does, by which calls are counted and permissions are asked for.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Launch(_) => "launch",
            Self::Terminate { .. } => "terminate",
            Self::Reboot { .. } => "reboot",
            Self::Reserve(_) => "reserve",
            Self::Modify { .. } => "modify",
            Self::Cancel { .. } => "cancel",
            Self::Purchase(request) if request.extends.is_some() => "extend",
            Self::Purchase(_) => "purchase",
            Self::EnsureTemplate(_) => "ensure-template",
            Self::EnsureGroup { .. } => "ensure-group",
        }
    }

    /// Whether it needs an intent in the ledger before it is sent: repeating it would make a second thing.
    pub fn needs_intent(&self) -> bool {
        matches!(self, Self::Launch(_) | Self::Reserve(_) | Self::Purchase(_))
    }
}
