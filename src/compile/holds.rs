//! What nodes hold, in the resources that Kubernetes counts.
//!
//! A pool is shared out by its accelerators; one that has none, by its processors and its memory. That is what is
//! *counted*. Everything else only has to be there, because a queue admits nothing that asks for a resource that it
//! does not cover: of that each queue may use all that the pool has, and the counted resources decide.

use std::collections::BTreeMap;

use crate::fleet::launch::Efa;
use crate::fleet::quota::Supply;
use crate::fleet::standing::{CutSpec, PoolSpec, Standing};
use crate::fleet::worth;
use crate::hardware::{Gpu, Vendor, catalogue};
use crate::ids::{LayoutName, MigProfile, ResourceName};

/// How much of each resource: memory and storage in GiB, everything else as a number.
pub type Resources = BTreeMap<ResourceName, u64>;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const STORAGE: &str = "ephemeral-storage";
/// What libfabric asks for beside the adapters.
const HUGEPAGES: &str = "hugepages-2Mi";
const PAGES: &str = "hugepages-";
const EFA: &str = "vpc.amazonaws.com/efa";

/// More than any node has, for nodes of which nobody said: the quota must not be what stops a pod.
const MOST_CPUS: u64 = 1024;
const MOST_MEMORY_GIB: u64 = 16 * 1024;
const MOST_STORAGE_GIB: u64 = 128 * 1024;
/// Some devices are counted in bytes.
const MOST_DEVICES: u64 = 1_000_000_000_000;

/// What the pool's part is, if the catalogue knows it.
pub fn gpu(pool: &PoolSpec) -> Option<&'static Gpu> {
    catalogue().gpus.get(pool.shape.gpu.as_ref()?)
}

/// The resource of a whole accelerator.
pub fn whole(pool: &PoolSpec) -> ResourceName {
    match gpu(pool).map(|gpu| gpu.vendor) {
        Some(Vendor::Amd) => "amd.com/gpu",
        Some(Vendor::Aws) => "aws.amazon.com/neuron",
        Some(Vendor::Nvidia) | None => "nvidia.com/gpu",
    }
    .into()
}

/// The resource of a slice, as the device plugin names it: a label holds no `+`.
pub fn slice(profile: &MigProfile) -> ResourceName {
    format!("nvidia.com/mig-{}", profile.as_str().replace('+', ".")).into()
}

/// The resource of GPUs that are not cut, and how many places each gives. Shared ones have a name of their own: under
/// the same one, work that asks for a whole GPU would be placed on a part of one.
fn uncut(standing: &Standing, pool: &PoolSpec, layout: &LayoutName) -> (ResourceName, u64) {
    let places = match standing.layouts.get(layout).map(|layout| &layout.cut) {
        Some(CutSpec::Mps { clients }) => *clients,
        Some(CutSpec::TimeSlicing { replicas }) => *replicas,
        Some(CutSpec::Mig(_)) | None => return (whole(pool), 1),
    };
    ("nvidia.com/gpu.shared".into(), u64::from(places))
}

/// The accelerators of one node under a layout.
pub fn accelerators(standing: &Standing, pool: &PoolSpec, layout: &LayoutName) -> Resources {
    let mut found = in_accelerators(standing, pool, layout, &standing.per_node(pool, layout));
    found.retain(|_, amount| *amount > 0);
    found
}

fn in_accelerators(standing: &Standing, pool: &PoolSpec, layout: &LayoutName, supply: &Supply) -> Resources {
    let (name, places) = uncut(standing, pool, layout);
    let slices = supply.slices.iter().map(|(profile, count)| (slice(profile), u64::from(*count)));
    [(name, u64::from(supply.gpus) * places)].into_iter().chain(slices).collect()
}

/// What one of each accelerator of the pool is worth under a layout, in thousandths of a GPU.
pub fn worths(standing: &Standing, pool: &PoolSpec, layout: &LayoutName) -> Resources {
    let (name, places) = uncut(standing, pool, layout);
    let supply = standing.per_node(pool, layout);
    // A slice that the catalogue does not know may be all of its GPU.
    let of_slice = |profile: &MigProfile| worth::of_slice(gpu(pool), profile).unwrap_or(worth::WHOLE);
    let slices = supply.slices.keys().map(|profile| (slice(profile), of_slice(profile)));
    let here = accelerators(standing, pool, layout);
    let all = [(name, worth::of_place(places))].into_iter().chain(slices);
    all.filter(|(resource, _)| here.contains_key(resource)).collect()
}

/// What is counted of a supply. Every resource that the layout has is in it, also if there is none of it.
pub fn counted(standing: &Standing, pool: &PoolSpec, layout: &LayoutName, supply: &Supply) -> Resources {
    if pool.shape.gpus == 0 {
        return processors(pool, supply.nodes);
    }
    let mut found: Resources = accelerators(standing, pool, layout).into_keys().map(|resource| (resource, 0)).collect();
    for (resource, amount) in in_accelerators(standing, pool, layout, supply) {
        if let Some(known) = found.get_mut(&resource) {
            *known = amount;
        }
    }
    found
}

fn processors(pool: &PoolSpec, nodes: u32) -> Resources {
    let each = [
        (CPU, pool.shape.vcpus.map_or(MOST_CPUS, u64::from)),
        (MEMORY, pool.shape.memory_gib.map_or(MOST_MEMORY_GIB, u64::from)),
    ];
    each.into_iter().map(|(resource, amount)| (resource.into(), amount * u64::from(nodes))).collect()
}

/// What is not counted, of some nodes of a pool that show these beside what is known of their type.
pub fn uncounted<'a>(pool: &PoolSpec, nodes: u32, shown: impl Iterator<Item = &'a ResourceName>) -> Resources {
    let mut found = if pool.shape.gpus == 0 { Resources::new() } else { processors(pool, nodes) };
    let mut add = |resource: &str, each: u64| found.insert(resource.into(), each * u64::from(nodes));
    add(STORAGE, MOST_STORAGE_GIB);
    let has_efa = pool.launch.as_ref().is_none_or(|launch| launch.efa == Efa::Auto);
    if pool.shape.efa > 0 && has_efa {
        add(EFA, u64::from(pool.shape.efa));
        add(HUGEPAGES, pages(pool));
    }
    for resource in shown {
        found.entry(resource.clone()).or_insert_with(|| most(pool, resource) * u64::from(nodes));
    }
    found
}

fn pages(pool: &PoolSpec) -> u64 {
    pool.shape.memory_gib.map_or(MOST_MEMORY_GIB, u64::from)
}

/// As much of a resource as no node has of which its type says nothing.
pub fn most(pool: &PoolSpec, resource: &ResourceName) -> u64 {
    if is_pages(resource) { pages(pool) } else { MOST_DEVICES }
}

/// Whether it is memory in large pages.
pub fn is_pages(resource: &ResourceName) -> bool {
    resource.as_str().starts_with(PAGES)
}

/// Whether a resource is an accelerator or a part of one.
pub fn is_accelerator(resource: &ResourceName) -> bool {
    resource.as_str().starts_with("nvidia.com/") || matches!(resource.as_str(), "amd.com/gpu" | "aws.amazon.com/neuron")
}

pub fn sum(parts: impl IntoIterator<Item = Resources>) -> Resources {
    let mut sum = Resources::new();
    for (resource, amount) in parts.into_iter().flatten() {
        *sum.entry(resource).or_insert(0) += amount;
    }
    sum
}

/// Where a resource stands in a list: what people look for first.
pub fn rank(resource: &ResourceName) -> (bool, &ResourceName) {
    (!is_accelerator(resource), resource)
}

/// An amount of a resource, as it is written.
pub fn text(resource: &ResourceName, amount: u64) -> String {
    match resource.as_str() {
        MEMORY | STORAGE => super::quantity::gib(amount),
        _ if is_pages(resource) => super::quantity::gib(amount),
        _ => super::quantity::count(amount),
    }
}
