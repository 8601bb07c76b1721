//! Names as newtypes, so that a pool's name is never taken for a quota's.
//!
//! A name is what a person wrote in `metadata.name` or what a provider calls a thing. The rules for how names may
//! look are checked at the border where they come in (`manifest`), not here. Called by everything.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    )*};
}

names! {
    /// The name of a `Fleet` document.
    FleetName;
    /// The name of a `Reservation` document.
    ReservationName;
    /// The name of a `NodePool` document.
    PoolName;
    /// The name of a `GpuLayout` document, or the built-in `whole`.
    LayoutName;
    /// The name of a `PreemptionTier` document.
    TierName;
    /// The name of a `Quota` document.
    QuotaName;
    /// The name of a `TideSchedule` document.
    TideName;
    /// The name of a `SchedulerProfile` document.
    ProfileName;
    /// The name of a `HealthPolicy` document.
    PolicyName;
    /// A level of the fabric, such as `leaf`.
    LevelName;
    /// An EC2 instance type or a shape that the fleet declares.
    InstanceType;
    /// A GPU model of the catalogue, such as `h100-sxm`.
    GpuModel;
    /// A MIG profile as NVIDIA writes it, such as `1g.10gb+me`.
    MigProfile;
    /// An availability zone, such as `us-west-2a`.
    Zone;
    /// A git revision.
    Revision;
    /// A node of the cluster, by its host name.
    NodeName;
    /// A Kueue ClusterQueue.
    ClusterQueueName;
    /// A Kueue Cohort.
    CohortName;
    /// A Kueue ResourceFlavor.
    FlavorName;
    /// A resource as Kubernetes names it, such as `nvidia.com/gpu`.
    ResourceName;
    /// The UID of a Kueue Workload.
    WorkloadUid;
}
