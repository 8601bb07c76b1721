//! `kind: Reservation` as written: capacity that is held, and paid for, whether used or not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::reservation::{Approval, BlockWindow, End, Extend, Manage, Match, StartBetween};
use crate::ids::{InstanceType, Zone};
use crate::units::{Duration, Usd};

/// Capacity that is held, and paid for, whether used or not: an EC2 capacity reservation (`onDemand`) or a Capacity
/// Block (`capacityBlock`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-tidewright-one-of" = [["onDemand", "capacityBlock"]]))]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.onDemand) || has(self.zone)", "message": "TW104: an on-demand reservation needs `zone`"},
    {"rule": "!has(self.manage) || self.manage != 'observe' || has(self.id)",
     "message": "TW104: a reservation that another tool owns needs `id`"},
    {"rule": "!has(self.capacityBlock) || self.nodes <= 64",
     "message": "TW408: one Capacity Block holds at most 64 nodes"},
    {"rule": "!has(self.capacityBlock) || !has(self.capacityBlock.window) || has(self.id)",
     "message": "TW408: a block with a `window` needs its `id`"},
    {"rule": "!has(self.manage) || self.manage != 'observe' || !has(self.onDemand) || !has(self.onDemand.cancel) || \
        !self.onDemand.cancel",
     "message": "TW408: what another tool owns is not given back here"},
    {"rule": "!has(self.manage) || self.manage != 'observe' || !has(self.capacityBlock) || \
        (!has(self.capacityBlock.approval) && \
        (!has(self.capacityBlock.extend) || !has(self.capacityBlock.extend.approval)))",
     "message": "TW408: what another tool owns is not bought here"}
]))]
pub struct ReservationSpec {
    /// The id of a reservation that exists, to adopt it. Absent: it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "reservationId"))]
    pub id: Option<String>,
    /// `full`: created, changed and given back here. `observe`: used and watched only, because another tool or
    /// account owns it; it then needs its `id`.
    #[serde(default)]
    pub manage: Manage,
    /// The instance type it holds.
    pub instance_type: InstanceType,
    /// The availability zone. Needed for `onDemand`; a Capacity Block's zone comes with its offering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Zone>,
    /// How many nodes it holds.
    #[schemars(range(min = 1, max = 1000))]
    pub nodes: u32,
    /// An on-demand capacity reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<OnDemandReservation>,
    /// A Capacity Block: bought once, paid upfront, never cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_block: Option<CapacityBlock>,
}

/// An on-demand capacity reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OnDemandReservation {
    /// When it ends: `never`, or an instant such as `2027-01-31T00:00Z`. Its nodes run on afterwards, at the
    /// on-demand price.
    #[serde(default)]
    pub end: End,
    /// `targeted`: only pools that name it use it. `open`: anything of its type and zone does.
    #[serde(default)]
    pub r#match: Match,
    /// Give the reservation back, once nothing stands in it: its nodes move to another source first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
}

/// A Capacity Block: bought once, paid upfront, never cancelled. It needs an approval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.startBetween) != has(self.window)",
     "message": "TW408: a block has `startBetween`, or a `window` once it is bought"},
    {"rule": "!has(self.approval) || !has(self.approval.offering) || self.approval.offering.feeUsd <= \
        self.maxUpfrontUsd",
     "message": "TW408: the offering costs more than `maxUpfrontUsd` allows"},
    {"rule": "!has(self.approval) || !has(self.approval.mandate) || self.approval.mandate.upToUsd <= \
        self.maxUpfrontUsd",
     "message": "TW408: the mandate goes beyond what `maxUpfrontUsd` allows"}
]))]
pub struct CapacityBlock {
    /// How long it lasts: whole days up to 14, then whole weeks up to 182 days.
    pub duration: Duration,
    /// The dates between which it may start. Needed unless `window` says when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_between: Option<StartBetween>,
    /// The window of a block that is bought already (with `id`), as EC2 shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<BlockWindow>,
    /// What it may cost at most, in US dollars, upfront.
    pub max_upfront_usd: Usd,
    /// The approval to buy, written by a person. Absent: offers are shown, nothing is bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// An extension to buy before the block ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend: Option<Extend>,
}
