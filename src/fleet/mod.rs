//! Meaning: what the documents say, resolved and checked. Fleet and Target.
//!
//! [`Fleet::build`] is the only maker of a [`Fleet`], and a `Fleet` that exists is never invalid. Values that rules
//! blame carry their place ([`At`]). Parts of a document that no rule blames have one type here, which `manifest`
//! names in its spec types. Not here: field names and YAML (`manifest`), what is really there (`observed`).

pub mod build;
pub mod capacity;
pub mod config;
pub mod ended;
pub mod gone;
pub mod handing;
pub mod launch;
pub mod layout;
pub mod lending;
pub mod policy;
pub mod pool;
pub mod quota;
pub mod reservation;
pub mod rules;
pub mod ruling;
pub mod seating;
pub mod standing;
pub mod target;
#[cfg(test)]
pub mod testing;
pub mod tide;
pub mod tier;
pub mod updates;
pub mod worth;

use std::collections::BTreeMap;

pub use build::Problems;
pub use target::{Change, Recalls, Target};

use crate::diag::{At, Span};
use crate::hardware::{Gpu, catalogue};
use crate::ids::{
    FleetName, GpuModel, InstanceType, LayoutName, LevelName, PolicyName, PoolName, ProfileName, QuotaName,
    ReservationName, TideName, TierName,
};
use crate::units::{Duration, Usd, ZoneName};

/// The kinds of documents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Fleet,
    Reservation,
    NodePool,
    GpuLayout,
    PreemptionTier,
    Quota,
    TideSchedule,
    SchedulerProfile,
    HealthPolicy,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Fleet,
        Self::Reservation,
        Self::NodePool,
        Self::GpuLayout,
        Self::PreemptionTier,
        Self::Quota,
        Self::TideSchedule,
        Self::SchedulerProfile,
        Self::HealthPolicy,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "Fleet",
            Self::Reservation => "Reservation",
            Self::NodePool => "NodePool",
            Self::GpuLayout => "GpuLayout",
            Self::PreemptionTier => "PreemptionTier",
            Self::Quota => "Quota",
            Self::TideSchedule => "TideSchedule",
            Self::SchedulerProfile => "SchedulerProfile",
            Self::HealthPolicy => "HealthPolicy",
        }
    }
}

/// An object by kind and name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectRef {
    pub kind: Kind,
    pub name: String,
}

/// Where an object was written, and what it was called before.
#[derive(Clone, Debug)]
pub struct Origin {
    pub span: Span,
    pub renamed_from: Option<At<String>>,
}

/// The validated desired state. It reads like its [`Parts`]; only [`Fleet::build`] makes one.
#[derive(Clone, Debug)]
pub struct Fleet(Parts);

/// Everything that a fleet's documents say, references not yet checked.
#[derive(Clone, Debug)]
pub struct Parts {
    pub name: At<FleetName>,
    pub time_zone: ZoneName,
    pub cloud: At<config::Cloud>,
    pub kubernetes: config::Kubernetes,
    pub frozen: Option<config::Frozen>,
    pub limits: At<config::Limits>,
    pub prices: BTreeMap<InstanceType, At<Usd>>,
    pub hardware: Vec<Shape>,
    pub fabric: Option<Fabric>,
    pub reservations: BTreeMap<ReservationName, reservation::Reservation>,
    pub pools: BTreeMap<PoolName, pool::Pool>,
    pub layouts: BTreeMap<LayoutName, layout::Layout>,
    pub tiers: BTreeMap<TierName, tier::Tier>,
    pub quotas: BTreeMap<QuotaName, quota::Quota>,
    pub tides: BTreeMap<TideName, tide::Tide>,
    pub schedulers: BTreeMap<ProfileName, policy::SchedulerProfile>,
    pub health: BTreeMap<PolicyName, policy::HealthPolicy>,
    pub origins: BTreeMap<ObjectRef, Origin>,
}

/// A node shape that the fleet declares.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    pub name: At<InstanceType>,
    pub gpu: Option<At<GpuModel>>,
    pub gpus: At<u32>,
    pub nvlink_domain: Option<u32>,
    pub usd_per_hour: Option<Usd>,
}

/// The network that the nodes hang on.
#[derive(Clone, PartialEq, Debug)]
pub struct Fabric {
    pub levels: Vec<FabricLevel>,
    /// The path of each node from the top, for hardware that carries no labels.
    pub declared: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct FabricLevel {
    pub name: At<LevelName>,
    pub node_label: Option<At<String>>,
}

/// What is known about the nodes of one instance type: the catalogue with the fleet's own words over it.
#[derive(Clone, Copy, Debug)]
pub struct Hardware {
    pub gpu: Option<&'static Gpu>,
    pub gpus: u32,
    pub nvlink_domain: u32,
    /// US dollars an hour on demand.
    pub on_demand: Option<Usd>,
    /// How long before the end of a Capacity Block EC2 begins to take its nodes away.
    pub block_kill: Duration,
}

impl std::ops::Deref for Fleet {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Fleet {
    /// Where an object was written.
    pub fn origin(&self, object: &ObjectRef) -> Option<Span> {
        self.origins.get(object).map(|origin| origin.span)
    }
}

impl Parts {
    /// What is known about an instance type, if anything is.
    pub fn hardware(&self, name: &InstanceType) -> Option<Hardware> {
        let catalogue = catalogue();
        let price = self.prices.get(name).map(|price| price.value);
        if let Some(shape) = self.hardware.iter().find(|shape| shape.name.value == *name) {
            let gpu = match &shape.gpu {
                Some(model) => Some(catalogue.gpus.get(&model.value)?),
                None => None,
            };
            return Some(Hardware {
                gpu,
                gpus: shape.gpus.value,
                nvlink_domain: shape.nvlink_domain.unwrap_or(shape.gpus.value.max(1)),
                on_demand: price.or(shape.usd_per_hour),
                block_kill: catalogue.notices.capacity_block_kill,
            });
        }
        let known = catalogue.types.get(name)?;
        Some(Hardware {
            gpu: known.gpu.as_ref().and_then(|model| catalogue.gpus.get(model)),
            gpus: known.gpus,
            nvlink_domain: known.nvlink_domain,
            on_demand: price.or(known.on_demand.as_ref().map(|price| price.usd)),
            block_kill: catalogue.notices.block_kill(known),
        })
    }

    /// The layout of this name; `None` for the built-in `whole` and for a name that nothing has.
    pub fn layout(&self, name: &LayoutName) -> Option<&layout::Layout> {
        self.layouts.get(name)
    }

    /// What one node of a pool holds under a layout.
    pub fn per_node(&self, pool: &pool::Pool, layout: &LayoutName) -> quota::Supply {
        let gpus = self.hardware(&pool.instance_type).map_or(0, |hardware| hardware.gpus);
        layout::per_node(self.layout(layout), gpus)
    }

    /// How long before its end a reservation's nodes are taken away.
    pub fn kill(&self, reservation: &reservation::Reservation) -> Duration {
        self.hardware(&reservation.instance_type)
            .map_or(catalogue().notices.ultraserver_kill, |hardware| hardware.block_kill)
    }
}
