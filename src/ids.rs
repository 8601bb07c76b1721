//! Names as newtypes, so that a pool's name is never taken for a quota's.
//!
//! A name is what a person wrote in `metadata.name` or what a provider calls a thing. The rules for how names may
//! look are checked at the border where they come in (`manifest`), not here. Called by everything.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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

        impl From<String> for $name {
            fn from(text: String) -> Self {
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
    /// A place for one machine in a cloud, where that tells of it.
    HostName;
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
    /// The identity of a fleet in one cluster: what its tags, tokens and ledger carry. It outlives a rename.
    FleetUid;
    /// An instance as the cloud names it, such as `i-0123456789abcdef0`.
    InstanceId;
    /// A reservation as the cloud names it, such as `cr-0123456789abcdef0`.
    ReservationId;
    /// An offer of a Capacity Block, such as `cb-0123456789abcdef0`.
    OfferingId;
    /// A placement group.
    GroupName;
    /// A launch template.
    TemplateName;
    /// A namespace of the cluster.
    NamespaceName;
    /// A boot of a machine, as its kernel names it.
    BootId;
    /// The UID that the cluster gave a node, a pod or an owner.
    Uid;
    /// What makes a repeated request the same request.
    Token;
    /// A SHA-256 of content, as 64 hexadecimal digits.
    Digest;
    /// The identity of a plan: the digest of its input.
    PlanId;
    /// A step of a plan: verb, subject, generation. The same over replans.
    StepId;
}

/// One place for a node in a pool, written `train/3`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    pub pool: PoolName,
    pub index: u32,
}

/// An object with a namespace, written `vision/train-7`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NamespacedName {
    pub namespace: NamespaceName,
    pub name: Arc<str>,
}

impl SlotId {
    pub fn new(pool: &PoolName, index: u32) -> Self {
        Self { pool: pool.clone(), index }
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.index)
    }
}

impl FromStr for SlotId {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (pool, index) = text.rsplit_once('/').ok_or_else(|| format!("`{text}` is no slot: write train/3"))?;
        let index = index.parse().map_err(|_| format!("`{text}` is no slot: write train/3"))?;
        Ok(Self { pool: pool.into(), index })
    }
}

impl NamespacedName {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for NamespacedName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) =
            text.split_once('/').ok_or_else(|| format!("`{text}` has no namespace: write namespace/name"))?;
        Ok(Self::new(namespace, name))
    }
}

/// Written as one text, so that it can be the key of a map in JSON.
macro_rules! as_text {
    ($($name:ty),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

as_text!(SlotId, NamespacedName);
