//! How running nodes move to a new version, and windows on the wall clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Days, Duration, TimeOfDay};

/// How running nodes move to a new version.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.when) || self.when != 'drain' || !has(self.maxUnavailable) || self.maxUnavailable > 0",
     "message": "TW415: `when: drain` with `maxUnavailable: 0` never moves a node"}
]))]
pub struct Updates {
    /// `idle`: as nodes fall free, gangs are never touched. `drain`: within the budget and the windows.
    #[serde(default)]
    pub when: When,
    /// In which order a node is replaced.
    #[serde(default)]
    pub order: Order,
    /// How many nodes may be out of service at once. With `when: drain` a gang counts as one, however many nodes it
    /// spans.
    #[serde(default = "one")]
    pub max_unavailable: u32,
    /// Nodes that move first and are watched before the others follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// When nodes may be drained for an update, in the fleet's time zone. Absent: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub windows: Vec<Window>,
}

fn one() -> u32 {
    1
}

impl Default for Updates {
    fn default() -> Self {
        Self {
            when: When::default(),
            order: Order::default(),
            max_unavailable: one(),
            canary: None,
            windows: Vec::new(),
        }
    }
}

/// When running nodes move.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// As nodes fall free; gangs are never touched.
    #[default]
    Idle,
    /// Within the budget and the windows.
    Drain,
}

/// In which order a node is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// Drain, terminate, launch: never a second paid node, and the only order that works in a full reservation.
    #[default]
    DrainThenReplace,
}

/// Nodes that move first and are watched before the others follow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Canary {
    /// How many nodes.
    #[schemars(range(min = 1))]
    pub nodes: u32,
    /// For how long they are watched.
    pub r#for: Duration,
}

/// A window on the wall clock. `to` at or before `from` is on the next day; `to` equal to `from` is 24 hours.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// The weekdays on which it begins: `Sat`, `Mon-Fri`.
    #[schemars(length(min = 1, max = 7))]
    pub days: Vec<Days>,
    /// When it begins, such as `"20:00"`.
    pub from: TimeOfDay,
    /// When it ends, such as `"06:30"`.
    pub to: TimeOfDay,
}
