//! Capacity that is held: what a reservation holds at an instant, and when that changes.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diag::At;
use crate::ids::{InstanceType, ReservationName, Zone};
use crate::units::{Day, Duration, Instant, Usd};

/// Capacity that is held, and paid for, whether used or not.
#[derive(Clone, PartialEq, Debug)]
pub struct Reservation {
    pub name: At<ReservationName>,
    pub id: Option<At<String>>,
    pub manage: Manage,
    pub instance_type: At<InstanceType>,
    pub zone: Option<At<Zone>>,
    pub nodes: At<u32>,
    pub terms: Terms,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Terms {
    OnDemand { end: At<End>, matching: Match, cancel: Option<At<bool>> },
    Block(Block),
}

/// A Capacity Block.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    pub duration: At<Duration>,
    pub start: Option<At<StartBetween>>,
    pub window: Option<At<BlockWindow>>,
    pub max_upfront: At<Usd>,
    pub approval: Option<At<Approval>>,
    pub extend: Option<At<Extend>>,
}

impl Reservation {
    /// The window in which its nodes can be counted on. `kill` is how long before a block's end EC2 begins to take the
    /// nodes away. A block that is not bought yet counts only for the days that every matching offer covers, and only
    /// if somebody approved the purchase.
    pub fn certain_window(&self, kill: Duration) -> Option<(Timestamp, Timestamp)> {
        match &self.terms {
            Terms::OnDemand { cancel: Some(_), .. } => None,
            Terms::OnDemand { end, .. } => match end.value {
                End::Never => Some((Timestamp::MIN, Timestamp::MAX)),
                End::At(end) => Some((Timestamp::MIN, end.0)),
            },
            Terms::Block(block) => {
                let (from, to) = match (&block.window, &block.start) {
                    (Some(window), _) => (window.from.0, window.to.0),
                    (None, Some(start)) => {
                        block.approval.as_ref()?;
                        let latest = start.to.0.tomorrow().ok()?;
                        (midnight(latest)?, midnight(start.from.0)?.checked_add(block.duration.signed()).ok()?)
                    }
                    (None, None) => return None,
                };
                let to = to.checked_sub(kill.signed()).ok()?;
                (from < to).then_some((from, to))
            }
        }
    }

    /// How many nodes can be counted on at an instant.
    pub fn holds_at(&self, now: Timestamp, kill: Duration) -> u32 {
        match self.certain_window(kill) {
            Some((from, to)) if from <= now && now < to => self.nodes.value,
            _ => 0,
        }
    }
}

/// Offers of blocks are dated in UTC.
fn midnight(date: jiff::civil::Date) -> Option<Timestamp> {
    date.to_datetime(Time::midnight()).to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// Who changes an object.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Manage {
    /// Tidewright does.
    #[default]
    Full,
    /// Another tool or account does; it is used and watched only.
    Observe,
}

/// When a reservation ends.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum End {
    #[default]
    Never,
    At(Instant),
}

/// Which launches use a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Match {
    /// Only launches that name it.
    #[default]
    Targeted,
    /// Any launch of its type and zone.
    Open,
}

/// The dates between which a block may start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.from <= self.to", "message": "TW408: `from` must not be after `to`"}
]))]
pub struct StartBetween {
    /// The first date.
    pub from: Day,
    /// The last date.
    pub to: Day,
}

/// When a bought block runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockWindow {
    /// When it starts.
    pub from: Instant,
    /// When it ends. EC2 begins to terminate its nodes 30 minutes earlier, 60 for UltraServers.
    pub to: Instant,
}

/// A person's approval to buy. Exactly one of `offering` and `mandate`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Approval {
    /// Exactly this offering at this fee, as `plan` showed it.
    Offering(Offering),
    /// The cheapest matching offer, once.
    Mandate(Mandate),
}

/// Exactly this offering at this fee.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Offering {
    /// The offering's id.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// The fee, in US dollars, upfront.
    pub fee_usd: Usd,
}

/// The cheapest matching offer up to a price, until an instant, once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mandate {
    /// What it may cost at most, in US dollars, upfront.
    pub up_to_usd: Usd,
    /// Until when it may be used.
    pub expires: Instant,
}

/// An extension to buy before the block ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extend {
    /// By how much.
    pub by: Duration,
    /// The approval to buy it. Absent: offers are shown, nothing is bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}
