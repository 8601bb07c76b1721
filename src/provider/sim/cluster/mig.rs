//! mig-manager and the device plugin, with their traps.
//!
//! mig-manager acts only on a change of its label's value, reads a mounted file that is a minute behind the config map,
//! does not look for user pods, and says `success` before the device plugin is back. A failed value is not tried
//! again, and one that hangs stays `pending` with the device plugin paused: only another value gets it going.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ClusterState;
use super::agenda::{Happening, NodeRef};
use super::gangs::absent;
use super::judge::Entry;
use crate::effect::marks::{MIG_CONFIG, MIG_STATE, PLUGIN_CONFIG};
use crate::hardware::mig::place;
use crate::hardware::{Vendor, catalogue};
use crate::ids::{GpuModel, MigProfile, NodeName, ResourceName};
use crate::observed::{ObjectKey, ObjectKind};
use crate::provider::ProviderError;

/// Where the operator's parts run and their config maps are.
pub const NAMESPACE: &str = "gpu-operator";
pub const MIG_PARTED: &str = "tidewright-mig-parted";
pub const MIG_PARTED_KEY: &str = "config.yaml";
pub const DEVICE_PLUGIN: &str = "tidewright-device-plugin";

/// The kubelet shows a changed config map in mounted files after about this long.
pub const MOUNT: SignedDuration = SignedDuration::from_secs(60);
/// A new node's driver and device plugin.
const PLUGIN_FIRST: SignedDuration = SignedDuration::from_secs(20);
/// A device plugin that starts again.
const PLUGIN_AGAIN: SignedDuration = SignedDuration::from_secs(15);
/// A device plugin that does not find its config.
const PLUGIN_CRASH_LOOP: SignedDuration = SignedDuration::from_secs(10);
/// mig-manager starts behind the driver, and then hears of labels at once.
const MANAGER_FIRST: SignedDuration = SignedDuration::from_secs(25);
const MANAGER_HEARS: SignedDuration = SignedDuration::from_secs(1);
/// Pausing what uses the GPUs, and cutting them.
const CUTTING: SignedDuration = SignedDuration::from_secs(30);

/// One GPU: whole, or cut into instances.
type Cut = Option<BTreeMap<MigProfile, u32>>;

/// The GPUs of a node and what looks after them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gpus {
    model: Option<GpuModel>,
    cut: Vec<Cut>,
    plugin: Plugin,
    manager: Manager,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
struct Plugin {
    up: bool,
    /// The config that it was last told to use.
    config: Option<String>,
    shares: BTreeMap<String, Share>,
    /// Counts restarts: what was planned for an earlier run is void.
    run: u32,
}

/// A resource that is given out several times.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Share {
    replicas: i64,
    renamed: bool,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
struct Manager {
    runs: bool,
    /// The value of the label that it acted on last.
    acted: Option<String>,
    /// What it is cutting now, or nothing where it failed already.
    cutting: Option<Cutting>,
    run: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Cutting {
    to: Vec<Cut>,
    fails: bool,
}

/// What goes wrong with a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MigFault {
    /// It stays `pending`: a paused pod did not go away in time.
    Hang,
    Fail,
}

impl Gpus {
    pub fn new(gpus: u32, model: Option<GpuModel>) -> Self {
        Self { model, cut: vec![None; gpus as usize], plugin: Plugin::default(), manager: Manager::default() }
    }

    /// What the device plugin offers; nothing while it is away.
    pub fn allocatable(&self) -> BTreeMap<ResourceName, i64> {
        let mut offered: BTreeMap<ResourceName, i64> = BTreeMap::new();
        for gpu in &self.cut {
            match gpu {
                None => *offered.entry(self.whole_resource()).or_default() += 1,
                Some(instances) => {
                    for (profile, count) in instances {
                        let name = format!("nvidia.com/mig-{}", profile.as_str().replace('+', "."));
                        *offered.entry(name.into()).or_default() += i64::from(*count);
                    }
                }
            }
        }
        let shared = offered.into_iter().map(|(name, amount)| match self.plugin.shares.get(name.as_str()) {
            _ if !self.plugin.up => (name, 0),
            Some(share) if share.renamed => (format!("{name}.shared").into(), amount * share.replicas),
            Some(share) => (name, amount * share.replicas),
            None => (name, amount),
        });
        shared.collect()
    }

    fn whole_resource(&self) -> ResourceName {
        let gpu = self.model.as_ref().and_then(|model| catalogue().gpus.get(model));
        match gpu.map(|gpu| gpu.vendor) {
            Some(Vendor::Amd) => "amd.com/gpu".into(),
            Some(Vendor::Nvidia | Vendor::Aws) | None => "nvidia.com/gpu".into(),
        }
    }

    /// The machine boots: nothing runs, and cuts do not survive.
    pub fn stop(&mut self) {
        self.plugin = Plugin { run: self.plugin.run + 1, ..Plugin::default() };
        self.manager = Manager { run: self.manager.run + 1, ..Manager::default() };
        self.cut.fill(None);
    }

    /// Everything is there as if it had been for long.
    pub fn start_at_once(&mut self) {
        (self.plugin.up, self.manager.runs) = (true, true);
    }

    fn pause_plugin(&mut self) -> u32 {
        (self.plugin.up, self.plugin.run) = (false, self.plugin.run + 1);
        self.plugin.run
    }

    /// As if the label had been taken back and seen so: the next value counts as a change.
    pub fn forget_orders(&mut self) {
        (self.manager.acted, self.plugin.config) = (None, None);
    }

    /// Whether these instances fit this GPU; of a GPU that nobody knows everything is believed.
    fn holds(&self, instances: &BTreeMap<MigProfile, u32>) -> bool {
        let Some(gpu) = self.model.as_ref().and_then(|model| catalogue().gpus.get(model)) else { return true };
        gpu.mig.as_ref().is_some_and(|geometry| place(geometry, instances).is_ok())
    }
}

impl ClusterState {
    /// What goes wrong at the next cut of this node, or of whichever is next.
    pub fn fail_next_cut(&mut self, node: Option<NodeName>, fault: MigFault) {
        self.knobs.mig.push((node, fault));
    }

    /// The pods of mig-manager and the device plugin start again: each acts on the label that it finds, as on a new one.
    pub fn restart_gpu_stack(&mut self, now: Timestamp, name: &NodeName) -> Result<(), ProviderError> {
        self.tick(now);
        let at = self.node_ref(name).ok_or_else(|| absent(&format!("nodes \"{name}\"")))?;
        let Some(node) = self.same_node(&at).filter(|node| node.gpus.manager.runs) else { return Ok(()) };
        node.gpus.forget_orders();
        if node.gpus.manager.cutting.is_none() {
            let run = node.gpus.pause_plugin();
            self.soon(PLUGIN_AGAIN, Happening::PluginUp { node: at.clone(), run });
        }
        self.soon(MANAGER_HEARS, Happening::MigActs(at));
        Ok(())
    }

    pub(super) fn start_gpu_stack(&mut self, at: &NodeRef) {
        let Some(node) = self.same_node(at).filter(|node| !node.gpus.cut.is_empty()) else { return };
        if node.gpus.manager.runs {
            return;
        }
        let run = node.gpus.pause_plugin();
        node.gpus.manager.runs = true;
        node.gpus.plugin.config = node.labels.get(PLUGIN_CONFIG).cloned();
        self.soon(PLUGIN_FIRST, Happening::PluginUp { node: at.clone(), run });
        self.soon(MANAGER_FIRST, Happening::MigActs(at.clone()));
    }

    /// Labels of a node were written: whoever watches them hears of it.
    pub(super) fn labels_written(&mut self, at: &NodeRef) {
        let Some(node) = self.same_node(at).filter(|node| node.gpus.manager.runs) else { return };
        let order = node.labels.get(PLUGIN_CONFIG).cloned();
        let paused = node.gpus.manager.cutting.is_some();
        if order != node.gpus.plugin.config && !paused {
            node.gpus.plugin.config = order;
            let run = node.gpus.pause_plugin();
            self.soon(PLUGIN_AGAIN, Happening::PluginUp { node: at.clone(), run });
        }
        let heard =
            self.same_node(at).is_some_and(|node| node.labels.get(MIG_CONFIG) == node.gpus.manager.acted.as_ref());
        if !heard {
            self.soon(MANAGER_HEARS, Happening::MigActs(at.clone()));
        }
    }

    pub(super) fn plugin_up(&mut self, at: &NodeRef, run: u32) {
        let key = self.map_of("devicePlugin", DEVICE_PLUGIN);
        let file = self.mounted.get(&key).and_then(|body| body.get("data")).cloned();
        let Some(node) = self.same_node(at).filter(|node| !node.dead && node.gpus.plugin.run == run) else { return };
        let order = node.labels.get(PLUGIN_CONFIG).cloned();
        let shares = match &order {
            None => Some(BTreeMap::new()),
            Some(name) => file.as_ref().and_then(|data| data.get(name)?.as_str()).and_then(sharing),
        };
        let Some(shares) = shares.filter(|_| node.ready) else {
            self.soon(PLUGIN_CRASH_LOOP, Happening::PluginUp { node: at.clone(), run });
            return;
        };
        let plugin = &mut node.gpus.plugin;
        (plugin.up, plugin.config, plugin.shares) = (true, order, shares);
        self.poke_both();
    }

    pub(super) fn mig_acts(&mut self, at: &NodeRef) {
        let fault = self.knobs.mig.iter().position(|(node, _)| node.as_ref().is_none_or(|name| *name == at.name));
        let Some(node) = self.same_node(at).filter(|node| node.ready && node.gpus.manager.runs) else { return };
        let order = node.labels.get(MIG_CONFIG).cloned();
        if node.gpus.manager.cutting.is_some() || order == node.gpus.manager.acted {
            return;
        }
        node.gpus.manager.acted = order.clone();
        let Some(order) = order else { return };
        let file = self.mig_file();
        let Some(node) = self.same_node(at) else { return };
        let to = file.as_ref().map_or_else(|| built_in(&order), |file| parts(file, &order));
        let to = to.and_then(|parts| laid_out(&parts, &node.gpus.cut));
        let Some(to) = to else {
            node.labels.insert(MIG_STATE.into(), "failed".into());
            return;
        };
        if to == node.gpus.cut {
            node.labels.insert(MIG_STATE.into(), "success".into());
            return;
        }
        node.labels.insert(MIG_STATE.into(), "pending".into());
        node.gpus.pause_plugin();
        let fault = fault.map(|at| self.knobs.mig.remove(at).1);
        self.records.counts.cuts += 1;
        self.kill_gpu_pods(&at.name);
        let Some(node) = self.same_node(at) else { return };
        if fault == Some(MigFault::Hang) {
            return;
        }
        let fits = to.iter().flatten().all(|instances| node.gpus.holds(instances));
        let manager = &mut node.gpus.manager;
        manager.cutting = Some(Cutting { to, fails: !fits || fault == Some(MigFault::Fail) });
        manager.run += 1;
        let run = manager.run;
        self.note(Entry::Cut { node: at.name.clone(), to: order });
        self.soon(CUTTING, Happening::MigDone { node: at.clone(), run });
    }

    pub(super) fn mig_done(&mut self, at: &NodeRef, run: u32) {
        let Some(node) = self.same_node(at).filter(|node| node.gpus.manager.run == run) else { return };
        let Some(cutting) = node.gpus.manager.cutting.take() else { return };
        let state = if cutting.fails { "failed" } else { "success" };
        if !cutting.fails {
            node.gpus.cut = cutting.to;
        }
        node.labels.insert(MIG_STATE.into(), state.into());
        let run = node.gpus.pause_plugin();
        self.soon(PLUGIN_AGAIN, Happening::PluginUp { node: at.clone(), run });
        // A value that came while it was busy is looked at now.
        self.soon(MANAGER_HEARS, Happening::MigActs(at.clone()));
    }

    /// Nobody asks the pods: their instances are destroyed under them.
    fn kill_gpu_pods(&mut self, node: &NodeName) {
        let killed = self.pods.on(node).filter(|(_, pod)| pod.counts() && pod.wants_gpus());
        let killed: Vec<_> = killed.map(|(name, _)| name.clone()).collect();
        for pod in killed {
            self.violated(format!("{node} was cut while {pod} was on it"));
            self.fail_pod(&pod, "cut");
        }
    }

    fn mig_file(&self) -> Option<Value> {
        let key = self.map_of("migManager", MIG_PARTED);
        let text = self.mounted.get(&key)?.get("data")?.get(MIG_PARTED_KEY)?.as_str()?;
        serde_json::from_str(text).ok()
    }

    /// The map that a part of the operator reads: the one that its ClusterPolicy names.
    fn map_of(&self, part: &str, without: &str) -> ObjectKey {
        let policy = self.of_kind(ObjectKind::ClusterPolicy).next();
        let named = policy.map(|(_, spec, _)| spec[part]["config"]["name"].as_str().unwrap_or_default());
        ObjectKey::namespaced(ObjectKind::ConfigMap, NAMESPACE, named.unwrap_or(without))
    }

    pub(super) fn mount(&mut self, key: &ObjectKey) {
        if let Some(found) = self.objects.get(key) {
            self.mounted.insert(key.clone(), found.body.clone());
        }
    }
}

/// A part of an entry of mig-parted's file. It refuses fields that it does not know.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct MigPart {
    #[serde(default, rename = "device-filter")]
    _device_filter: Option<Value>,
    devices: Value,
    mig_enabled: bool,
    #[serde(default)]
    mig_devices: Option<BTreeMap<MigProfile, u32>>,
}

fn parts(file: &Value, name: &str) -> Option<Vec<MigPart>> {
    let found = file.get("version")?.as_str().filter(|version| *version == "v1");
    let entry = file.get("mig-configs").filter(|_| found.is_some())?.get(name)?;
    serde_json::from_value(entry.clone()).ok()
}

/// What the file that comes with the operator has.
fn built_in(name: &str) -> Option<Vec<MigPart>> {
    let all = MigPart { _device_filter: None, devices: "all".into(), mig_enabled: false, mig_devices: None };
    (name == "all-disabled").then(|| vec![all])
}

/// Each GPU as the parts of an entry say, and one that they do not name as it is; none where they say nothing sensible.
fn laid_out(parts: &[MigPart], now: &[Cut]) -> Option<Vec<Cut>> {
    let mut cut = now.to_vec();
    for part in parts {
        let which: Vec<usize> = match &part.devices {
            Value::String(all) if all == "all" => (0..now.len()).collect(),
            Value::Array(some) => some.iter().map(|at| usize::try_from(at.as_u64()?).ok()).collect::<Option<_>>()?,
            _ => return None,
        };
        if part.mig_enabled != part.mig_devices.is_some() {
            return None;
        }
        for gpu in which {
            *cut.get_mut(gpu)? = part.mig_devices.clone();
        }
    }
    Some(cut)
}

/// What a device-plugin config gives out several times.
fn sharing(text: &str) -> Option<BTreeMap<String, Share>> {
    let config: Value = serde_json::from_str(text).ok()?;
    let Some(sharing) = config.get("sharing") else { return Some(BTreeMap::new()) };
    let (slices, clients) = (sharing.get("timeSlicing"), sharing.get("mps"));
    // MPS does not start beside MIG, nor beside the strategy for it.
    let mixed = config["flags"]["migStrategy"].as_str() == Some("mixed");
    if clients.is_some() && (slices.is_some() || mixed) {
        return None;
    }
    let Some(shared) = slices.or(clients) else { return Some(BTreeMap::new()) };
    let renamed = shared.get("renameByDefault").and_then(Value::as_bool).unwrap_or(false);
    let resources = shared.get("resources")?.as_array()?.iter();
    let one = |resource: &Value| {
        let replicas = resource.get("replicas")?.as_i64().filter(|replicas| *replicas >= 2)?;
        Some((resource.get("name")?.as_str()?.to_string(), Share { replicas, renamed }))
    };
    resources.map(one).collect()
}
