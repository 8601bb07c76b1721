//! The catalogue: GPUs, instance types, MIG geometry, prices, interruption notices.
//!
//! Facts about hardware that hold for everyone, embedded in the program with their sources (`catalogue.yaml`). Not
//! here: what a fleet declares for itself, and what a cloud says at run time. Called by everything that needs a
//! figure; whether slices fit a GPU is decided in [`mig`] and nowhere else.

mod catalogue;
pub mod mig;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{GpuModel, InstanceType};
use crate::units::{Duration, Ratio, Usd};
use mig::Geometry;

/// All that is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catalogue {
    pub gpus: BTreeMap<GpuModel, Gpu>,
    pub types: BTreeMap<InstanceType, NodeType>,
    pub notices: Notices,
    /// Where the limits of MPS clients come from.
    pub mps_sources: Vec<String>,
    pub sources: BTreeMap<String, Source>,
    /// Where and for which system the prices hold.
    pub region: String,
    pub os: String,
}

/// Something that was read, and when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub title: String,
    #[schemars(with = "String")]
    pub read: Date,
}

/// A GPU or another accelerator. Bandwidths are in 10⁹ bytes a second.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    #[serde(skip_deserializing, default = "unnamed_gpu")]
    #[schemars(with = "String")]
    pub model: GpuModel,
    pub name: String,
    pub vendor: Vendor,
    pub architecture: String,
    /// What EC2 calls it in DescribeInstanceTypes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ec2_name: Option<String>,
    /// As it is sold; what a program can use is less.
    pub memory_gb: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_usable_mib: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub bandwidth_gb_s: Option<Ratio>,
    /// By precision, without sparsity; TOPS for integers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub dense_tflops: BTreeMap<String, Ratio>,
    /// The best that was measured, by precision: a more honest roof than the sheet's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub reached_tflops: BTreeMap<String, Ratio>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<Nvlink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdp_w: Option<u32>,
    /// Device ids of vendor 10DE, in upper-case hexadecimal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pci_ids: Vec<String>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub mig: Option<Geometry>,
    /// How many clients MPS serves at most; 0 where there is no MPS.
    #[serde(skip_deserializing)]
    pub mps_clients: u32,
    /// Fields and precisions that no source confirms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    pub sources: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    Nvidia,
    Amd,
    Aws,
}

/// The fast link between GPUs, whatever its maker calls it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nvlink {
    pub generation: String,
    /// The sum of both directions, as it is advertised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub both_ways_gb_s: Option<Ratio>,
    /// One direction: the figure for estimates of collectives.
    #[schemars(with = "f64")]
    pub one_way_gb_s: Ratio,
    /// Where GPUs are linked pair by pair: one direction of one pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub pair_gb_s: Option<Ratio>,
    /// How many GPUs reach each other without leaving the link, at most.
    pub domain: u32,
}

/// A kind of node: an EC2 instance type, or a shape that a fleet declares. With no GPU it is a CPU node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeType {
    #[serde(skip_deserializing, default = "unnamed_type")]
    #[schemars(with = "String")]
    pub name: InstanceType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub gpu: Option<GpuModel>,
    #[serde(default)]
    pub gpus: u32,
    #[serde(default)]
    pub link: Link,
    /// How many GPUs reach each other over NVLink, also across nodes; 1 where there is none.
    #[serde(default = "one")]
    pub nvlink_domain: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme_gb: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// How it is sold; empty when that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<Price>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<SpotPrice>,
    /// Part of an UltraServer, whose Capacity Blocks end earlier.
    #[serde(default)]
    pub ultraserver: bool,
    /// Fields that no source confirms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    #[serde(default)]
    pub sources: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// What joins the GPUs inside one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// At most one GPU: nothing to join.
    #[default]
    Single,
    Pcie,
    Nvlink,
    Neuronlink,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Gbit/s of all cards together, without bursts.
    #[schemars(with = "f64")]
    pub gbps: Ratio,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<u32>,
    /// EFA interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efa: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Usage {
    OnDemand,
    Spot,
    CapacityBlock,
}

/// Dollars an hour for one instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    #[schemars(with = "f64")]
    pub usd: Usd,
    #[schemars(with = "String")]
    pub as_of: Date,
    pub source: String,
}

/// Dollars an hour for one instance: the range over the zones of the region.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpotPrice {
    #[schemars(with = "f64")]
    pub low: Usd,
    #[schemars(with = "f64")]
    pub high: Usd,
    #[schemars(with = "String")]
    pub as_of: Date,
    pub source: String,
}

/// How long ahead EC2 speaks before it takes a machine away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notices {
    #[schemars(with = "String")]
    pub spot: Duration,
    #[schemars(with = "String")]
    pub interruptible_reservation: Duration,
    /// Before the end of a Capacity Block, the warning event. For UltraServers it comes after the kill has begun.
    #[schemars(with = "String")]
    pub capacity_block_warning: Duration,
    /// Before the end of a Capacity Block, when EC2 begins to terminate its instances.
    #[schemars(with = "String")]
    pub capacity_block_kill: Duration,
    /// The same for UltraServers.
    #[schemars(with = "String")]
    pub ultraserver_kill: Duration,
    pub sources: Vec<String>,
}

/// The catalogue that is part of the program.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
        catalogue::parse(include_str!("catalogue.yaml")).expect("the embedded catalogue is sound: a test reads it")
    });
    &CATALOGUE
}

impl Notices {
    /// How long before the end of a Capacity Block its instances of this type begin to be terminated.
    pub fn block_kill(&self, node: &NodeType) -> Duration {
        if node.ultraserver { self.ultraserver_kill } else { self.capacity_block_kill }
    }
}

impl NodeType {
    /// A type of which nothing but the name is known: the base for a shape that a fleet declares.
    pub fn named(name: InstanceType) -> Self {
        Self {
            name,
            gpu: None,
            gpus: 0,
            link: Link::Single,
            nvlink_domain: 1,
            vcpus: None,
            memory_gib: None,
            nvme_gb: None,
            network: None,
            usage: Vec::new(),
            on_demand: None,
            spot: None,
            ultraserver: false,
            unverified: Vec::new(),
            sources: Vec::new(),
            notes: None,
        }
    }
}

/// Names come from the keys of the catalogue and are filled in once it is parsed.
fn unnamed_gpu() -> GpuModel {
    GpuModel::from("")
}

fn unnamed_type() -> InstanceType {
    InstanceType::from("")
}

fn one() -> u32 {
    1
}
