//! Nodes that are alike and placed together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::launch::{Launch, Taint};
use super::updates::Updates;
use crate::diag::At;
use crate::ids::{InstanceType, LayoutName, LevelName, PoolName, ReservationName};

/// Nodes that are alike and placed together. Its nodes live in numbered slots, from 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Pool {
    pub name: At<PoolName>,
    pub renamed_from: Option<PoolName>,
    pub instance_type: At<InstanceType>,
    pub size: At<Size>,
    pub capacity: Vec<At<Source>>,
    pub spares: At<u32>,
    pub placement: Option<Placement>,
    pub layout: At<LayoutName>,
    pub labels: BTreeMap<String, At<String>>,
    pub taints: Vec<At<Taint>>,
    pub launch: Option<At<Launch>>,
    /// The text of the file that `launch.bootstrap.userData` names.
    pub user_data: Option<String>,
    pub updates: At<Updates>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    Nodes(u32),
    /// As many as its reservations hold at the time.
    Fill,
}

/// One place that nodes come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Source {
    Reservation(ReservationName),
    OnDemand { max: u32 },
    Spot { max: u32, max_price_percent: u8 },
    Existing { labels: BTreeMap<String, String> },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    pub together: Option<At<LevelName>>,
    pub required: bool,
    pub apart_from: Vec<At<PoolName>>,
}

impl Pool {
    pub fn reservations(&self) -> impl Iterator<Item = At<&ReservationName>> {
        self.capacity.iter().filter_map(|source| match &source.value {
            Source::Reservation(name) => Some(At::new(name, source.at)),
            _ => None,
        })
    }

    /// Whether any of its nodes is launched by us.
    pub fn launches(&self) -> bool {
        self.capacity.iter().any(|source| !matches!(source.value, Source::Existing { .. }))
    }

    /// Whether any of its nodes costs by the hour.
    pub fn costs_by_the_hour(&self) -> bool {
        self.capacity.iter().any(|source| matches!(source.value, Source::OnDemand { .. } | Source::Spot { .. }))
    }

    /// How many nodes it can have without its reservations; `None` is without bound.
    pub fn private_room(&self) -> Option<u32> {
        self.capacity.iter().try_fold(0u32, |sum, source| match &source.value {
            Source::Reservation(_) => Some(sum),
            Source::OnDemand { max } | Source::Spot { max, .. } => Some(sum.saturating_add(*max)),
            Source::Existing { .. } => None,
        })
    }
}
