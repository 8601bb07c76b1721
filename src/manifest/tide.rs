//! `kind: TideSchedule` as written: lend off-peak, reclaim before the peak.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::tide::{Exception, Guard, ReclaimOrder};
use crate::fleet::updates::Window;
use crate::ids::{LayoutName, PoolName, QuotaName};
use crate::units::{Duration, ZoneName};

/// Ride the daily tide: lend nodes off-peak, and have them back before the peak.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.exceptions) || self.exceptions.all(e, self.exceptions.exists_one(f, f.date == e.date))",
     "message": "TW608: a date is an exception twice"},
    {"rule": "!has(self.lend) || self.lend.all(l, self.lend.exists_one(m, m.pool == l.pool && m.from == l.from && \
        m.to == l.to))",
     "message": "TW207: a loan is listed twice"},
    {"rule": "!has(self.resize) || self.resize.all(r, self.resize.exists_one(s, s.pool == r.pool))",
     "message": "TW207: a pool is listed twice"}
]))]
pub struct TideScheduleSpec {
    /// The time zone of its windows. Absent: the fleet's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<ZoneName>,
    /// When the tide is low. Windows may cross midnight; those that touch or overlap are one. A time that the clock
    /// skips means the moment of the skip; a time that comes twice means the second for a beginning and the first for
    /// an end, so that lending is never longer than written.
    #[schemars(length(min = 1, max = 50))]
    pub low_tide: Vec<Window>,
    /// Dates on which the tide is high or low all day, midnight to midnight, whatever the windows say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 400))]
    pub exceptions: Vec<Exception>,
    /// Nodes that change hands while the tide is low.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub lend: Vec<Lend>,
    /// Pools that have another size while the tide is low.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub resize: Vec<Resize>,
    /// Tonight's traffic: nothing is lent while it is high or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// How lent nodes come back.
    pub reclaim: Reclaim,
    /// Which of two tides that are low at once decides for a pool that both name: the higher. What the other has lent
    /// of that pool is back when this one begins.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub precedence: u32,
}

/// Nodes that change hands while the tide is low.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.from != self.to", "message": "TW607: a quota cannot lend to itself"}
]))]
pub struct Lend {
    /// The pool whose nodes they are.
    pub pool: PoolName,
    /// How many nodes.
    #[schemars(range(min = 1, max = 100_000))]
    pub nodes: u32,
    /// The quota that gives them.
    pub from: QuotaName,
    /// The quota that gets them.
    pub to: QuotaName,
    /// How their GPUs are cut while they are lent. Absent: as the pool is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutName>,
}

/// A pool that has another size while the tide is low.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resize {
    /// The pool.
    pub pool: PoolName,
    /// How many nodes it has while the tide is low.
    #[schemars(range(max = 100_000))]
    pub nodes: u32,
}

/// How lent nodes come back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reclaim {
    /// How long before the end of the window they are asked back, so that they are back when it ends.
    pub lead: Duration,
    /// Whose work goes first.
    #[serde(default)]
    pub order: ReclaimOrder,
    /// How long before the end of the window what is still there is evicted without asking.
    pub hard_at: Duration,
}
