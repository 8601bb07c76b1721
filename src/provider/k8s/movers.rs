//! Who moved the labels and taints of our nodes, and when. The server keeps that beside every object, and it is as large
//! as the rest of a node: so it is asked for only of nodes that are no longer as we dressed them. Called by [`super::observe`].

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::kinds;
use super::wire::{MANAGER, Wire};
use crate::compile::cuts::{current, is_never_cut};
use crate::compile::nodes::{clothes, pool_objects};
use crate::effect::PoolObjects;
use crate::effect::marks::{DRESSED, POOL, SLOT};
use crate::fleet::Target;
use crate::ids::{LayoutName, NodeName, PoolName};
use crate::observed::{NodeSeen, TAINTS};

const AT_ONCE: usize = 8;
/// Whoever moves more nodes than these at once is known from the first.
const MOST: usize = 64;

type Writers = BTreeMap<String, (String, Timestamp)>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    metadata: Meta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    managed_fields: Vec<Managed>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Managed {
    manager: String,
    time: Option<Timestamp>,
    subresource: String,
    #[serde(rename = "fieldsV1")]
    fields: Value,
}

/// Puts down who moved what. One that cannot be asked stays without a name: it is drift all the same.
pub async fn put_down(wire: &Wire, target: &Target, nodes: &mut BTreeMap<NodeName, NodeSeen>) {
    let standing = &*target.standing;
    let objects =
        standing.pools.iter().map(|(name, pool)| (name, pool_objects(standing, standing.fleet.as_str(), name, pool)));
    let objects: BTreeMap<&PoolName, PoolObjects> = objects.collect();
    let moved = nodes.iter().filter(|(name, seen)| is_moved(target, &objects, name, seen));
    let moved: Vec<NodeName> = moved.map(|(name, _)| name.clone()).take(MOST).collect();
    let answers = moved.iter().map(|name| async move { (name, wire.get(&kinds::node(name.as_str())).await) });
    let answers: Vec<_> = stream::iter(answers).buffer_unordered(AT_ONCE).collect().await;
    for (name, answer) in answers {
        let asked = answer.ok().and_then(|bytes| serde_json::from_slice::<Asked>(&bytes).ok());
        if let (Some(asked), Some(seen)) = (asked, nodes.get_mut(name)) {
            seen.moved_by = writers(&asked.metadata.managed_fields);
        }
    }
}

/// Whether it was dressed as its pool wants it, and is not so now. Where even the label of its pool was moved, the digest
/// tells which pool it was.
fn is_moved(target: &Target, objects: &BTreeMap<&PoolName, PoolObjects>, name: &NodeName, seen: &NodeSeen) -> bool {
    let (Some(dressed), Some(slot)) = (seen.labels.get(DRESSED), seen.labels.get(SLOT)) else { return false };
    let Ok(slot) = slot.parse::<u32>() else { return false };
    let named = seen.labels.get(POOL).and_then(|pool| objects.get_key_value(&PoolName::from(pool.as_str())));
    let pools = objects.iter().filter(|(pool, _)| named.is_none_or(|(named, _)| named == *pool));
    pools.into_iter().any(|(pool, objects)| {
        let (labels, taints) = clothes(&target.standing, pool, Some(objects), slot, name.as_str());
        let carries = labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value));
        let is_so =
            carries && taints.iter().all(|taint| seen.taints.contains(taint)) && is_cut(target, pool, objects, seen);
        !is_so && labels.get(DRESSED) == Some(dressed)
    })
}

/// Whether it is cut as some part of its pool should be now; one that was never told anything, and shows nothing, may be.
fn is_cut(target: &Target, pool: &PoolName, objects: &PoolObjects, seen: &NodeSeen) -> bool {
    let parts = || target.pools.get(pool).into_iter().flat_map(|pool| &pool.parts);
    let is_wanted = |layout: &LayoutName| parts().any(|part| part.layout == *layout);
    current(&objects.layouts, seen).map_or_else(|| is_never_cut(seen), is_wanted)
}

/// The last other writer of each label, and of the taints.
fn writers(managed: &[Managed]) -> Writers {
    let mut found = Writers::new();
    let others = managed.iter().filter(|one| one.manager != MANAGER && one.subresource.is_empty());
    for (one, time) in others.filter_map(|one| Some((one, one.time?))) {
        let labels = one.fields["f:metadata"]["f:labels"].as_object();
        let labels = labels.into_iter().flat_map(|labels| labels.keys()).filter_map(|key| key.strip_prefix("f:"));
        let taints = one.fields["f:spec"].get("f:taints").map(|_| TAINTS);
        for key in labels.chain(taints) {
            let last = found.get(key).is_none_or(|(_, known)| *known < time);
            if last {
                found.insert(key.to_owned(), (one.manager.clone(), time));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_other_writer_of_a_label_is_named() {
        let text = r#"{"metadata": {"name": "a", "managedFields": [
            {"manager": "kubelet", "operation": "Update", "time": "2026-09-03T09:00:00Z",
             "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/hostname": {}, "f:workload": {}}}}},
            {"manager": "tidewright", "operation": "Update", "time": "2026-09-03T10:00:00Z",
             "fieldsV1": {"f:metadata": {"f:labels": {"f:tidewright.dev/slot": {}}}, "f:spec": {"f:taints": {}}}},
            {"manager": "kubectl-label", "operation": "Update", "time": "2026-09-03T11:00:00Z",
             "fieldsV1": {"f:metadata": {"f:labels": {"f:workload": {}}}}},
            {"manager": "kubelet", "operation": "Update", "time": "2026-09-03T12:00:00Z", "subresource": "status",
             "fieldsV1": {"f:metadata": {"f:labels": {"f:workload": {}}}}}]}}"#;
        let asked: Asked = serde_json::from_str(text).unwrap();
        let found = writers(&asked.metadata.managed_fields);
        assert_eq!(found["workload"], ("kubectl-label".into(), "2026-09-03T11:00:00Z".parse().unwrap()));
        assert_eq!(found["kubernetes.io/hostname"].0, "kubelet");
        assert!(!found.contains_key("tidewright.dev/slot") && !found.contains_key(TAINTS), "{found:?}");
    }
}
