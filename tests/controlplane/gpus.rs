//! The GPUs of a node as MIG divides them, and a stand-in for the device plugin that tells the kubelet what there is.
//!
//! The plugin runs while `nvidia.com/gpu.deploy.device-plugin` says `true`. When it stops, everything of NVIDIA's is
//! allocatable zero times; when it starts it takes its time, and then says what the GPUs are now. A resource that is
//! gone stays in the node's status with zero allocatable, as the kubelet keeps it for some minutes.
//!
//! `nvidia.com/device-plugin.config` names a key of its config map (time-slicing, MPS); a change restarts it. A key that
//! is not there keeps it down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::mig::NodeParts;

pub const PLUGIN_LABELS: [&str; 2] = ["nvidia.com/gpu.deploy.device-plugin", "nvidia.com/device-plugin.config"];

/// Per GPU its slices by profile, or none when MIG is off.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpus(Vec<Option<BTreeMap<String, u64>>>);

impl Gpus {
    pub fn whole(count: usize) -> Gpus {
        Gpus(vec![None; count])
    }

    /// After an entry of a mig-parted file: GPUs that it does not name stay as they are.
    pub fn divided(&self, entry: &Value) -> Gpus {
        let mut gpus = self.0.clone();
        for part in entry.as_array().into_iter().flatten() {
            let named: Vec<usize> = match &part["devices"] {
                Value::Array(list) => list.iter().filter_map(|index| Some(index.as_u64()? as usize)).collect(),
                _ => (0..gpus.len()).collect(),
            };
            let slices = part["mig-enabled"].as_bool().unwrap_or(false).then(|| {
                let slices = part["mig-devices"].as_object().into_iter().flatten();
                slices.filter_map(|(profile, count)| Some((profile.clone(), count.as_u64()?))).collect()
            });
            for index in named.into_iter().filter(|index| *index < self.0.len()) {
                gpus[index] = slices.clone();
            }
        }
        Gpus(gpus)
    }

    /// What the device plugin offers, before sharing.
    fn resources(&self, strategy: &str) -> BTreeMap<String, u64> {
        let mut resources = BTreeMap::from([("nvidia.com/gpu".to_owned(), 0)]);
        for gpu in &self.0 {
            match gpu {
                Some(slices) if strategy != "none" => {
                    for (profile, count) in slices {
                        let name = match strategy {
                            "single" => "nvidia.com/gpu".to_owned(),
                            _ => format!("nvidia.com/mig-{}", profile.replace('+', ".")),
                        };
                        *resources.entry(name).or_default() += count;
                    }
                }
                _ => *resources.entry("nvidia.com/gpu".to_owned()).or_default() += 1,
            }
        }
        resources
    }
}

pub(super) async fn device_plugin(node: Arc<NodeParts>) {
    let mut offered = BTreeMap::from([("nvidia.com/gpu".to_owned(), 0)]);
    let mut running_with = Some(String::new());
    loop {
        node.plugin_changed.notified().await;
        loop {
            let labels = node.labels.lock().unwrap().clone();
            let deployed = labels.get(PLUGIN_LABELS[0]).is_some_and(|value| value == "true");
            let wanted = deployed.then(|| labels.get(PLUGIN_LABELS[1]).cloned().unwrap_or_default());
            if wanted == running_with {
                break;
            }
            let none: BTreeMap<&str, &str> = offered.keys().map(|name| (name.as_str(), "0")).collect();
            node.patch("/status", json!({"status": {"allocatable": none}})).await;
            running_with = None;
            let Some(config) = wanted else { break };
            tokio::time::sleep(node.timing.plugin).await;
            while node.held.plugin.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let strategy = labels.get("nvidia.com/mig.strategy").map_or("none", String::as_str);
            let resources = node.gpus.lock().unwrap().resources(strategy);
            let Some(resources) = shared(resources, &config, &node.mounted.lock().unwrap().device_plugin) else {
                break;
            };
            let said: BTreeMap<&str, String> =
                resources.iter().map(|(name, count)| (name.as_str(), count.to_string())).collect();
            // Paused again while it was starting: the loop sees it.
            node.patch("/status", json!({"status": {"capacity": said, "allocatable": said}})).await;
            offered = resources;
            running_with = Some(config);
        }
    }
}

/// The resources with the replicas of the named configuration; none if there is no such configuration.
fn shared(
    resources: BTreeMap<String, u64>,
    name: &str,
    map: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, u64>> {
    if name.is_empty() {
        return Some(resources);
    }
    let config: Value = serde_saphyr::from_str(map.get(name)?).ok()?;
    let sharing =
        config["sharing"].as_object().and_then(|sharing| sharing.values().next()).cloned().unwrap_or_default();
    let renamed = sharing["renameByDefault"].as_bool().unwrap_or(false);
    let replicas = |resource: &str| {
        let listed = sharing["resources"].as_array().into_iter().flatten();
        listed.filter(|entry| entry["name"] == resource).find_map(|entry| entry["replicas"].as_u64())
    };
    let offered = resources.iter().map(|(resource, count)| match replicas(resource) {
        Some(times) if renamed => (format!("{resource}.shared"), count * times),
        Some(times) => (resource.clone(), count * times),
        None => (resource.clone(), *count),
    });
    Some(offered.collect())
}
