//! What a pool's nodes are launched with, and what they carry.

use std::collections::BTreeMap;

use serde_json::json;

use super::gpus;
use crate::effect::marks::{DRESSED, POOL, SLOT, STARTING_TAINT, starting_taint};
use crate::effect::{PoolObjects, Template, canonical, digest, digest_of};
use crate::fleet::config::Cloud;
use crate::fleet::launch::Taint;
use crate::fleet::pool::Source;
use crate::fleet::standing::{PoolSpec, Standing};
use crate::ids::{Digest, GroupName, PoolName};

/// `owner` is who the fleet is: an account knows a name once, and two clusters may each have a fleet that is called so.
pub fn pool_objects(standing: &Standing, owner: &str, name: &PoolName, pool: &PoolSpec) -> PoolObjects {
    let own = format!("tidewright-{owner}-{name}");
    let mut labels = pool.labels.clone();
    labels.insert(POOL.into(), name.to_string());
    let template = Template {
        name: own.as_str().into(),
        instance_type: pool.shape.instance_type.clone(),
        launch: pool.launch.clone(),
        user_data: pool.user_data.clone(),
        labels: labels.clone(),
        taints: pool.taints.iter().cloned().chain([starting_taint()]).collect(),
        digest: template_digest(pool),
    };
    let (group, group_is_ours) = group(standing, pool, &own);
    let layouts = gpus::laid_out(standing, name, pool);
    PoolObjects { template, group, group_is_ours, labels, taints: pool.taints.clone(), layouts }
}

/// The labels and taints that the node of a slot should carry, with the digest of all of it: whether somebody changed
/// them is seen from that.
pub fn clothes(
    standing: &Standing,
    pool: &PoolName,
    objects: Option<&PoolObjects>,
    slot: u32,
    node: &str,
) -> (BTreeMap<String, String>, Vec<Taint>) {
    let own = objects.map(|objects| objects.labels.clone()).unwrap_or_default();
    let taints = objects.map(|objects| objects.taints.clone()).unwrap_or_default();
    clothes_of(standing, pool, own, taints, slot, node)
}

/// The same with only some of what the pool wants.
pub fn clothes_of(
    standing: &Standing,
    pool: &PoolName,
    own: BTreeMap<String, String>,
    taints: Vec<Taint>,
    slot: u32,
    node: &str,
) -> (BTreeMap<String, String>, Vec<Taint>) {
    let mut labels = standing.declared_labels(node);
    labels.extend(own);
    labels.insert(POOL.into(), pool.to_string());
    labels.insert(SLOT.into(), slot.to_string());
    let taints: Vec<Taint> = taints.into_iter().filter(|taint| taint.key != STARTING_TAINT).collect();
    let digest = digest_of(&(&labels, &taints));
    // A label's value holds 63 characters.
    labels.insert(DRESSED.into(), digest.as_str()[..16].into());
    (labels, taints)
}

/// Of what a running node cannot change. Labels and taints are changed on the node; another subnet is only for the
/// next one.
fn template_digest(pool: &PoolSpec) -> Digest {
    let launch = pool.launch.as_ref().map(|launch| {
        json!({
            "image": launch.image,
            "bootstrap": launch.bootstrap,
            "role": launch.role,
            "efa": launch.efa,
            "volumes": launch.volumes,
            "securityGroups": launch.security_groups,
        })
    });
    let mut wanted = json!({"instanceType": pool.shape.instance_type, "launch": launch});
    if let Some(text) = &pool.user_data {
        wanted["userData"] = json!(digest(text.as_bytes()));
    }
    digest_of(&canonical(&wanted))
}

/// The placement group, and whether we make it.
fn group(standing: &Standing, pool: &PoolSpec, own: &str) -> (Option<GroupName>, bool) {
    let launches = pool.capacity.iter().any(|source| !matches!(source, Source::Existing { .. }));
    if !launches || matches!(standing.cloud, Cloud::None(_)) {
        return (None, false);
    }
    match pool.launch.as_ref().map_or("auto", |launch| launch.placement_group.as_str()) {
        // A cluster group is in one zone; nodes of a second one could not be launched into it.
        "auto" if standing.zones(pool).len() > 1 => (None, false),
        "auto" => (Some(own.into()), true),
        "none" => (None, false),
        named => (Some(named.into()), false),
    }
}
