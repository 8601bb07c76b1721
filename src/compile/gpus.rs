//! How GPUs are cut and shared: the files of mig-manager and the device plugin, and what a node says when it is done.
//!
//! Both act only when the value of their label changes, so an entry that is edited under its old name does nothing.
//! Every entry is named by what is in it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::files::{self, InUse, MIG_PARTED_FILE};
use super::{GPU_OPERATOR, holds};
use crate::effect::marks::{ENTRY, MIG_CONFIG, PLUGIN_CONFIG};
use crate::effect::{LaidOut, Object, canonical, digest_of};
use crate::fleet::Target;
use crate::fleet::standing::{CutSpec, MigPartSpec, PoolSpec, Standing};
use crate::ids::{LayoutName, PoolName, ResourceName};
use crate::observed::{ObjectKey, ObjectKind};

/// What the GPU Operator writes on a node that nobody labelled. It has to be in our file too.
const ALL_DISABLED: &str = "all-disabled";
/// What the device plugin uses on a node that nobody labelled.
pub const DEFAULT: &str = "default";
/// The maps that the GPU Operator's ClusterPolicy has to name.
pub const MIG_PARTED: &str = "tidewright-mig-parted";
pub const DEVICE_PLUGIN: &str = "tidewright-device-plugin";

/// The file of each, where some pool needs it or some node still does: with what is wanted, and with what nodes name.
pub fn config_maps(target: &Target, in_use: &InUse) -> Vec<Object> {
    let standing = &target.standing;
    let (mut cuts, mut shares) = (Map::new(), Map::new());
    for (name, pool) in &standing.pools {
        for layout in layouts(standing, name, pool) {
            if is_cut_by_mig_manager(pool) {
                let entry = mig_entry(standing, pool, &layout);
                cuts.insert(name_of(&entry), entry);
            }
            if is_shared(standing, name, pool) {
                let entry = plugin_entry(standing, &layout);
                shares.insert(name_of(&entry), entry.to_string().into());
            }
        }
    }
    let mut objects = Vec::new();
    keep(&mut cuts, &in_use.cuts);
    keep(&mut shares, &in_use.shares);
    if !cuts.is_empty() {
        cuts.insert(ALL_DISABLED.into(), uncut());
        let file = canonical(&json!({"version": "v1", "mig-configs": cuts}));
        objects.extend(config_map(MIG_CONFIG, json!({MIG_PARTED_FILE: file.to_string()})));
    }
    if !shares.is_empty() {
        shares.insert(DEFAULT.into(), plugin_default().to_string().into());
        objects.extend(config_map(PLUGIN_CONFIG, shares.into()));
    }
    objects
}

/// Adds what is not wanted any more and still in use.
fn keep(file: &mut Map<String, Value>, in_use: &Map<String, Value>) {
    for (name, entry) in in_use {
        file.entry(name.clone()).or_insert_with(|| entry.clone());
    }
}

/// The config map of a label.
fn config_map(label: &str, data: Value) -> Option<Object> {
    files::file(label).map(|key| Object::new(key, json!({"data": data})))
}

pub fn map_key(name: &str) -> ObjectKey {
    ObjectKey::namespaced(ObjectKind::ConfigMap, GPU_OPERATOR, name)
}

/// What a node says under each layout that any part of the pool may have, now or with a tide.
pub fn laid_out(standing: &Standing, name: &PoolName, pool: &PoolSpec) -> BTreeMap<LayoutName, LaidOut> {
    let layouts = layouts(standing, name, pool);
    let each: BTreeMap<&LayoutName, _> =
        layouts.iter().map(|layout| (layout, holds::accelerators(standing, pool, layout))).collect();
    // A node that was never cut shows its GPUs whole.
    let mut shown: BTreeSet<ResourceName> = each.values().flat_map(BTreeMap::keys).cloned().collect();
    if pool.shape.gpus > 0 {
        shown.insert(holds::whole(pool));
    }
    let is_shared = is_shared(standing, name, pool);
    let laid_out = each.iter().map(|(layout, holds)| {
        let mut labels = BTreeMap::new();
        if is_cut_by_mig_manager(pool) {
            labels.insert(MIG_CONFIG.into(), name_of(&mig_entry(standing, pool, layout)));
        }
        if is_shared {
            labels.insert(PLUGIN_CONFIG.into(), name_of(&plugin_entry(standing, layout)));
        }
        let amount = |amount: &u64| i64::try_from(*amount).unwrap_or(i64::MAX);
        let laid_out = LaidOut {
            labels,
            allocatable: holds.iter().map(|(resource, held)| (resource.clone(), amount(held))).collect(),
            absent: shown.iter().filter(|resource| !holds.contains_key(*resource)).cloned().collect(),
        };
        ((*layout).clone(), laid_out)
    });
    laid_out.collect()
}

/// The pool's own layout and those of its loans.
pub fn layouts(standing: &Standing, name: &PoolName, pool: &PoolSpec) -> BTreeSet<LayoutName> {
    let loans = standing.tides.values().flat_map(|tide| &tide.loans).filter(|loan| loan.pool == *name);
    loans.map(|loan| loan.layout.clone()).chain([pool.layout.clone()]).collect()
}

pub fn is_cut_by_mig_manager(pool: &PoolSpec) -> bool {
    pool.shape.gpus > 0 && holds::gpu(pool).is_some_and(|gpu| gpu.mig.is_some())
}

/// Whether any layout of the pool shares GPUs: then every node of it is told which file to use, or one that is cut back
/// would stay shared. Where none does any more, the label is taken off (`LaidOut::order`).
pub fn is_shared(standing: &Standing, name: &PoolName, pool: &PoolSpec) -> bool {
    let cut = |layout| standing.layouts.get(layout).map(|layout| &layout.cut);
    let shares = |layout| matches!(cut(layout), Some(CutSpec::Mps { .. } | CutSpec::TimeSlicing { .. }));
    pool.shape.gpus > 0 && layouts(standing, name, pool).iter().any(shares)
}

/// Named by what is in it: an entry that changes is another one.
pub fn name_of(entry: &Value) -> String {
    format!("{ENTRY}{:.12}", digest_of(&canonical(entry)))
}

fn uncut() -> Value {
    json!([{"devices": "all", "mig-enabled": false}])
}

fn mig_entry(standing: &Standing, pool: &PoolSpec, layout: &LayoutName) -> Value {
    let Some(CutSpec::Mig(parts)) = standing.layouts.get(layout).map(|layout| &layout.cut) else { return uncut() };
    let mut entry: Vec<Value> = parts.iter().map(mig_part).collect();
    let is_whole = |gpu: &u32| parts.iter().all(|part| !part.gpus.is_empty() && !part.gpus.contains(gpu));
    // mig-parted leaves a GPU that nothing names as it is.
    let whole: Vec<u32> = (0..pool.shape.gpus).filter(is_whole).collect();
    if !whole.is_empty() {
        entry.push(json!({"devices": whole, "mig-enabled": false}));
    }
    entry.into()
}

fn mig_part(part: &MigPartSpec) -> Value {
    let devices = if part.gpus.is_empty() { json!("all") } else { json!(part.gpus) };
    json!({"devices": devices, "mig-enabled": true, "mig-devices": part.slices})
}

fn plugin_entry(standing: &Standing, layout: &LayoutName) -> Value {
    let shared =
        |replicas| json!({"renameByDefault": true, "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]});
    match standing.layouts.get(layout).map(|layout| &layout.cut) {
        // MPS does not start beside MIG, not even beside the strategy.
        Some(CutSpec::Mps { clients }) => {
            json!({"version": "v1", "flags": {"migStrategy": "none"}, "sharing": {"mps": shared(clients)}})
        }
        Some(CutSpec::TimeSlicing { replicas }) => {
            let mut slicing = shared(replicas);
            // Two places of a GPU are no more than one, so asking for two is a mistake.
            slicing["failRequestsGreaterThanOne"] = true.into();
            json!({"version": "v1", "flags": {"migStrategy": "mixed"}, "sharing": {"timeSlicing": slicing}})
        }
        Some(CutSpec::Mig(_)) | None => plugin_default(),
    }
}

/// Slices under their own names: under `single` a slice would be called a GPU.
fn plugin_default() -> Value {
    json!({"version": "v1", "flags": {"migStrategy": "mixed"}})
}
