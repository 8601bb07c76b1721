//! The files of mig-manager and the device plugin as they stand: their entries, and which of them some node still names.
//!
//! A node that waits for its cut carries the old label. When the pod of mig-manager or of the device plugin starts again,
//! it looks the old entry up: where that is gone the one says `failed`, and the other stays down. So an entry stays
//! until a whole read of the nodes shows none that names it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::gpus::{DEVICE_PLUGIN, MIG_PARTED, map_key, name_of};
use crate::effect::marks::{ENTRY, MIG_CONFIG, PLUGIN_CONFIG, POOL};
use crate::observed::{ClusterSeen, ObjectKey, ObjectSeen};

/// The one file in the config map of mig-parted.
pub const MIG_PARTED_FILE: &str = "config.yaml";

/// Entries of ours that are in use, as they stand.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InUse {
    pub cuts: Map<String, Value>,
    pub shares: Map<String, Value>,
}

impl InUse {
    /// `known` is how many nodes the ledger counts on: a list that shows fewer is no proof that nobody names an entry.
    pub fn of(cluster: &ClusterSeen, known: usize) -> Self {
        let in_use = |label: &str| {
            let body = file(label).and_then(|key| cluster.objects.seen().get(&key)).map(|seen| &seen.body);
            let named = named(cluster, label, known);
            let ours = entries(label, body).into_iter().filter(|(name, _)| is_ours(name));
            ours.filter(|(name, _)| named.as_ref().is_none_or(|named| named.contains(name.as_str()))).collect()
        };
        Self { cuts: in_use(MIG_CONFIG), shares: in_use(PLUGIN_CONFIG) }
    }
}

/// The values that nodes have for a label; none where not all nodes were read, or fewer than there should be.
fn named<'a>(cluster: &'a ClusterSeen, label: &str, known: usize) -> Option<BTreeSet<&'a str>> {
    let nodes = || cluster.nodes.seen().values();
    let named: BTreeSet<&str> = nodes().filter_map(|node| node.labels.get(label).map(String::as_str)).collect();
    let ours = nodes().filter(|node| node.labels.contains_key(POOL)).count();
    cluster.nodes.whole().filter(|_| ours >= known).map(|_| named)
}

/// The config map that has the entries which a label names.
pub fn file(label: &str) -> Option<ObjectKey> {
    let name = match label {
        MIG_CONFIG => MIG_PARTED,
        PLUGIN_CONFIG => DEVICE_PLUGIN,
        _ => return None,
    };
    Some(map_key(name))
}

/// Whether the file that was seen has the entry that a label names, as it was written: it is named by what is in it.
pub fn has(objects: &BTreeMap<ObjectKey, ObjectSeen>, label: &str, entry: &str) -> bool {
    let body = file(label).and_then(|key| objects.get(&key)).map(|seen| &seen.body);
    entries(label, body).remove(entry).is_some_and(|found| {
        let content = found.as_str().map_or(Ok(found.clone()), serde_json::from_str);
        content.is_ok_and(|content| name_of(&content) == entry)
    })
}

fn entries(label: &str, body: Option<&Value>) -> Map<String, Value> {
    let Some(data) = body.and_then(|body| body["data"].as_object()) else { return Map::new() };
    if label != MIG_CONFIG {
        return data.clone();
    }
    let file = data.get(MIG_PARTED_FILE).and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let file: Value = file.unwrap_or_default();
    file["mig-configs"].as_object().cloned().unwrap_or_default()
}

/// Whether the name is one that we gave: see `gpus::name_of`.
fn is_ours(name: &str) -> bool {
    name.starts_with(ENTRY)
}
