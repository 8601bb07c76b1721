//! Labels, annotations and taints that are ours, and the marks that they carry.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fleet::launch::{Taint, TaintEffect};
use crate::ids::{FleetUid, NodeName};
use crate::observed::NodeSeen;

/// What the names of all of them begin with.
pub const PREFIX: &str = "tidewright.dev/";
/// Which pool a node belongs to.
pub const POOL: &str = "tidewright.dev/pool";
/// Which slot of it: its number.
pub const SLOT: &str = "tidewright.dev/slot";
/// The taint of a node that is being emptied or kept empty.
pub const DRAIN_TAINT: &str = "tidewright.dev/drain";
/// The taint that a launched node registers with: it serves only once it is cut, labelled and admitted.
pub const STARTING_TAINT: &str = "tidewright.dev/starting";
/// A digest of the labels and taints that we dressed a node with, to tell a change from drift.
pub const DRESSED: &str = "tidewright.dev/dressed";
/// What of a pool's labels and taints we put on a node: [`Worn`]. Only that is taken off again.
pub const WORN: &str = "tidewright.dev/worn";
/// A [`Mark`] beside that taint: since when and why.
pub const CORDON: &str = "tidewright.dev/cordon";
/// A person's word on a node: nothing is done to it.
pub const HANDS_OFF: &str = "tidewright.dev/hands-off";
/// The digest of what we wrote last into an object.
pub const WRITTEN: &str = "tidewright.dev/written";
/// The fleet that an object belongs to.
pub const FLEET: &str = "tidewright.dev/fleet";
/// A [`Mark`] on a workload that we deactivated.
pub const SUSPENDED: &str = "tidewright.dev/suspended";
/// A [`Mark`] on a workload that we asked to save its work.
pub const ASKED: &str = "tidewright.dev/save-work";
/// What a workload or its pods answer with: an instant.
pub const SAVED: &str = "tidewright.dev/work-saved";
/// On the pods of a job that may be smaller: with how few of them it goes on. Without it one is enough.
pub const FEWEST: &str = "tidewright.dev/fewest-pods";
/// On a Job that we made smaller: how many pods it had, for whoever makes it larger again.
pub const SHRUNK_FROM: &str = "tidewright.dev/shrunk-from";
/// mig-manager's order and its answer.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
pub const MIG_STATE: &str = "nvidia.com/mig.config.state";
/// How many GPUs a machine has, as GPU feature discovery tells it.
pub const GPU_COUNT: &str = "nvidia.com/gpu.count";
/// The device plugin's order.
pub const PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";

/// What the name of every entry begins with that we write into the files of mig-manager and the device plugin.
pub const ENTRY: &str = "tw-";

/// The order that a node carries: how it is to be cut, and how its device plugin shows that.
pub fn cut_order(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let carried = |key: &str| labels.get_key_value(key).map(|(key, value)| (key.clone(), value.clone()));
    [MIG_CONFIG, PLUGIN_CONFIG].into_iter().filter_map(carried).collect()
}

/// What is said of a node that carries another order than the one that was planned over.
pub fn ordered_since(node: &NodeName) -> String {
    format!("{node} was ordered to be cut in another way since this was planned")
}

/// Since when, and for what, something carries our mark.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mark {
    pub since: Timestamp,
    /// For what: `replace`, `move`, `cut`, `remove`, `quarantine`, `drain`, `reboot`, `release`.
    pub why: String,
    /// The node was cordoned by somebody else before: that part is not ours to lift.
    #[serde(default)]
    pub cordoned_before: bool,
    /// Whose mark it is: a cluster may hold several fleets, and each lifts its own. None in marks of long ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetUid>,
}

impl Mark {
    pub fn new(since: Timestamp, why: &str) -> Self {
        Self { since, why: why.into(), cordoned_before: false, fleet: None }
    }

    pub fn of(self, fleet: &FleetUid) -> Self {
        Self { fleet: Some(fleet.clone()), ..self }
    }

    /// Whether it is another fleet's.
    pub fn is_foreign(&self, fleet: &FleetUid) -> bool {
        self.fleet.as_ref().is_some_and(|whose| whose != fleet)
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("our own types always serialise")
    }

    /// A mark that cannot be read is a mark of long ago: it is ours, and nothing more is known.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self::new(Timestamp::UNIX_EPOCH, "unknown"))
    }
}

/// The labels and taints of its pool that a node carries because of us. What was there before is somebody else's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Worn {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

impl Worn {
    /// What a node says of that; none where nobody wrote it, or it cannot be read.
    pub fn of(node: &NodeSeen) -> Option<Self> {
        serde_json::from_str(node.annotation(WORN)?).ok()
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("our own types always serialise")
    }
}

/// What a launched node registers with, so that nothing comes to it before it is cut, labelled and admitted.
pub fn starting_taint() -> Taint {
    Taint { key: STARTING_TAINT.into(), value: None, effect: TaintEffect::NoSchedule }
}

/// Whether nobody was let on the node yet.
pub fn is_starting(node: &NodeSeen) -> bool {
    node.taints.iter().any(|taint| taint.key == STARTING_TAINT)
}
