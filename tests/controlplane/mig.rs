//! A stand-in for NVIDIA's mig-manager, on every node whose name begins with a prefix; the device plugin is beside it.
//!
//! It follows mig-parted 0.13.1 (`cmd/nvidia-mig-manager`, `pkg/mig/reconfigure`) with what hurts in it:
//! - It acts when the label's value changes and at no other time. After `failed` the same value is not tried again,
//!   and what the config map says under an old name is not looked at again.
//! - It knows the config map as the kubelet last mounted it. A label that is faster than the mount is `failed`.
//! - A part that does not stop makes it give up with the state still `pending` and the device plugin paused.
//! - Once it has succeeded it never again brings the parts back on its way out: the next failure leaves the device
//!   plugin paused (a flag of the process, `NoRestartK8sDaemonsetsOnExit`, is set and never cleared).
//! - `success` is written when the parts may start again, not when they have started.
//!
//! Not here: the node going NotReady on a reboot, services of the host, device filters (every GPU matches).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::api::{Api, runtime};
use super::folder::folder;
use super::gpus::{self, Gpus};
use super::plane::Controlplane;

/// What it stops while it works, by the label `nvidia.com/gpu.deploy.PART`.
pub const PAUSED_PARTS: [&str; 5] = ["device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm"];

const CONFIG: &str = "nvidia.com/mig.config";
const STATE: &str = "nvidia.com/mig.config.state";

/// Minutes on real hardware; here long enough to be seen and short enough to wait for.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The kubelet brings a changed config map to the node.
    pub mount: Duration,
    /// The paused parts are gone.
    pub pause: Duration,
    /// The GPUs are divided.
    pub divide: Duration,
    /// The device plugin has started and told the kubelet.
    pub plugin: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let [mount, pause, divide, plugin] = [200, 200, 300, 600].map(Duration::from_millis);
        Timing { mount, pause, divide, plugin }
    }
}

/// What goes wrong at the next change of a node, once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// A paused part never stops: the state stays `pending`.
    PartStays,
    /// The GPUs cannot be divided: `failed`.
    CannotDivide,
    /// The change of mode needs a reboot: `rebooting`, and then all over again.
    Reboot,
}

/// What a test holds back until it lets go: nothing then depends on how fast the machine is.
#[derive(Debug, Default)]
pub struct Held {
    /// The kubelet mounts no newer config map.
    pub mount: AtomicBool,
    /// The device plugin is about to start and does not.
    pub plugin: AtomicBool,
}

/// Where the operator's ClusterPolicy says the configuration is.
#[derive(Debug, Clone)]
pub struct Maps {
    pub namespace: String,
    pub mig: String,
    pub device_plugin: String,
}

/// The operands of NVIDIA's operator on some nodes, until dropped.
pub struct Operands {
    pub held: Arc<Held>,
    mounted: Arc<Mutex<Mounted>>,
    nodes: Arc<Mutex<BTreeMap<String, Arc<NodeParts>>>>,
    _tasks: JoinSet<()>,
}

pub(super) struct NodeParts {
    pub name: String,
    pub api: Api,
    pub timing: Timing,
    pub held: Arc<Held>,
    pub mounted: Arc<Mutex<Mounted>>,
    pub gpus: Mutex<Gpus>,
    /// The labels as last seen, and a call whenever the device plugin's changed.
    pub labels: Mutex<BTreeMap<String, String>>,
    pub plugin_changed: Notify,
    wanted: Mutex<Wanted>,
    wanted_changed: Notify,
    faults: Mutex<Vec<Fault>>,
}

/// The config maps as the nodes see them.
#[derive(Debug, Default, Clone)]
pub(super) struct Mounted {
    mig_file: PathBuf,
    mig: Value,
    pub device_plugin: BTreeMap<String, String>,
}

#[derive(Default)]
struct Wanted {
    current: String,
    last_read: String,
    /// Set by the first success of the process, never cleared.
    parts_stay_as_they_are: bool,
}

impl Operands {
    pub fn start(plane: &Controlplane, prefix: &str, maps: Maps, timing: Timing) -> Operands {
        let mut tasks = JoinSet::new();
        let all = All {
            api: plane.api.clone(),
            prefix: prefix.to_owned(),
            timing,
            held: Arc::default(),
            mounted: Arc::default(),
            nodes: Arc::default(),
        };
        all.mounted.lock().unwrap().mig_file = plane.directory.join(format!("mig-parted-{prefix}.yaml"));
        tasks.spawn_on(mount(all.clone(), maps), runtime().handle());
        tasks.spawn_on(watch(all.clone()), runtime().handle());
        Operands { held: all.held, mounted: all.mounted, nodes: all.nodes, _tasks: tasks }
    }

    /// The nodes see this entry of the mig-parted file.
    pub fn has_mounted(&self, entry: &str) -> bool {
        !self.mounted.lock().unwrap().mig["mig-configs"][entry].is_null()
    }

    /// The next change of this node goes wrong.
    pub fn inject(&self, node: &str, fault: Fault) {
        self.parts(node).faults.lock().unwrap().push(fault);
    }

    /// The pod of mig-manager was deleted: a new process looks at the label as if it had just been written.
    pub fn restart_mig_manager(&self, node: &str) {
        let parts = self.parts(node);
        *parts.wanted.lock().unwrap() = Wanted::default();
        let value = parts.labels.lock().unwrap().get(CONFIG).cloned().unwrap_or_default();
        parts.set(value);
    }

    fn parts(&self, node: &str) -> Arc<NodeParts> {
        super::api::eventually("the operands see the node", 20, || self.nodes.lock().unwrap().get(node).cloned())
    }
}

/// What every task needs.
#[derive(Clone)]
struct All {
    api: Api,
    prefix: String,
    timing: Timing,
    held: Arc<Held>,
    mounted: Arc<Mutex<Mounted>>,
    nodes: Arc<Mutex<BTreeMap<String, Arc<NodeParts>>>>,
}

/// The kubelet's part: the config maps reach the nodes late.
async fn mount(all: All, maps: Maps) {
    let read = async |name: &str| {
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}", maps.namespace);
        let map = all.api.send("GET", &path, "application/json", None).await;
        map.ok().and_then(|map| serde_json::from_value::<BTreeMap<String, String>>(map["data"].clone()).ok())
    };
    loop {
        let (mig, device_plugin) = (read(&maps.mig).await, read(&maps.device_plugin).await);
        let text = mig.and_then(|map| map.get("config.yaml").cloned()).unwrap_or_default();
        if !all.held.mount.load(Ordering::SeqCst) {
            let mut mounted = all.mounted.lock().unwrap();
            // As the kubelet does it: whoever reads finds the old file or the new one, never a half.
            let half = mounted.mig_file.with_extension("half");
            let _ = std::fs::write(&half, &text).and_then(|()| std::fs::rename(&half, &mounted.mig_file));
            mounted.mig = serde_saphyr::from_str(&text).unwrap_or_default();
            mounted.device_plugin = device_plugin.unwrap_or_default();
        }
        tokio::time::sleep(all.timing.mount).await;
    }
}

/// One watch for all nodes; each gets its own mig-manager and device plugin.
async fn watch(all: All) {
    let mut tasks = JoinSet::new();
    let api: kube::Api<Node> = kube::Api::all(all.api.client.clone());
    loop {
        if let Ok(stream) = api.watch(&WatchParams::default(), "0").await {
            let mut stream = stream.boxed();
            while let Ok(Some(event)) = stream.try_next().await {
                let (WatchEvent::Added(node) | WatchEvent::Modified(node)) = event else { continue };
                let name = node.metadata.name.clone().unwrap_or_default();
                if !name.starts_with(&all.prefix) {
                    continue;
                }
                let known = all.nodes.lock().unwrap().get(&name).cloned();
                let parts = known.unwrap_or_else(|| {
                    let parts = Arc::new(NodeParts::new(name.clone(), &node, &all));
                    tasks.spawn(mig_manager(Arc::clone(&parts)));
                    tasks.spawn(gpus::device_plugin(Arc::clone(&parts)));
                    all.nodes.lock().unwrap().insert(name, Arc::clone(&parts));
                    parts
                });
                parts.saw(node.metadata.labels.unwrap_or_default());
            }
        }
        // The API server is away, or closed an old watch.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl NodeParts {
    fn new(name: String, node: &Node, all: &All) -> NodeParts {
        let count = node.metadata.labels.as_ref().and_then(|labels| labels.get("nvidia.com/gpu.count")?.parse().ok());
        NodeParts {
            name,
            api: all.api.clone(),
            timing: all.timing,
            held: Arc::clone(&all.held),
            mounted: Arc::clone(&all.mounted),
            gpus: Mutex::new(Gpus::whole(count.unwrap_or(0))),
            labels: Mutex::default(),
            plugin_changed: Notify::new(),
            wanted: Mutex::default(),
            wanted_changed: Notify::new(),
            faults: Mutex::default(),
        }
    }

    fn saw(&self, labels: BTreeMap<String, String>) {
        let before = std::mem::replace(&mut *self.labels.lock().unwrap(), labels.clone());
        if before.get(CONFIG) != labels.get(CONFIG) {
            self.set(labels.get(CONFIG).cloned().unwrap_or_default());
        }
        if gpus::PLUGIN_LABELS.iter().any(|label| before.get(*label) != labels.get(*label)) {
            self.plugin_changed.notify_one();
        }
    }

    /// Removing the label wakes nobody, but the value is forgotten: setting it again is then a change.
    fn set(&self, value: String) {
        let mut wanted = self.wanted.lock().unwrap();
        wanted.current = value;
        if !wanted.current.is_empty() {
            self.wanted_changed.notify_waiters();
        }
    }

    /// Several changes while it works are one: the last.
    async fn next_wanted(&self) -> String {
        let changed = {
            let wanted = self.wanted.lock().unwrap();
            (wanted.last_read == wanted.current).then(|| self.wanted_changed.notified())
        };
        if let Some(changed) = changed {
            changed.await;
        }
        let mut wanted = self.wanted.lock().unwrap();
        wanted.last_read = wanted.current.clone();
        wanted.last_read.clone()
    }

    fn next_fault(&self, fault: Fault) -> bool {
        let mut faults = self.faults.lock().unwrap();
        let found = faults.iter().position(|injected| *injected == fault);
        found.map(|at| faults.remove(at)).is_some()
    }

    pub async fn patch(&self, path: &str, body: Value) {
        let path = format!("/api/v1/nodes/{}{path}", self.name);
        // The real parts are in a loop too: what the API server did not take is sent again.
        while self
            .api
            .send("PATCH", &path, "application/merge-patch+json", Some(&body))
            .await
            .is_err_and(|no| no.status != 404)
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn label(&self, labels: Value) {
        self.patch("", json!({"metadata": {"labels": labels}})).await;
    }

    /// A part that somebody turned off stays off.
    async fn label_parts(&self, value: &str) {
        let before = self.labels.lock().unwrap().clone();
        let labels = PAUSED_PARTS.iter().map(|part| format!("nvidia.com/gpu.deploy.{part}")).map(|label| {
            let off = before.get(&label).is_some_and(|value| value == "false");
            (label, json!(if off { "false" } else { value }))
        });
        self.label(Value::Object(labels.collect())).await;
    }

    async fn end(&self, state: &str) {
        if !self.wanted.lock().unwrap().parts_stay_as_they_are {
            self.label_parts("true").await;
        }
        self.label(json!({STATE: state})).await;
    }
}

async fn mig_manager(node: Arc<NodeParts>) {
    loop {
        let value = node.next_wanted().await;
        reconfigure(&node, &value).await;
    }
}

async fn reconfigure(node: &NodeParts, value: &str) {
    let Some(divided) = valid(node, value).await else { return node.end("failed").await };
    if *node.gpus.lock().unwrap() == divided {
        return node.end("success").await;
    }
    loop {
        node.label(json!({STATE: "pending"})).await;
        node.label_parts("paused-for-mig-change").await;
        tokio::time::sleep(node.timing.pause).await;
        if node.next_fault(Fault::PartStays) {
            return;
        }
        if !node.next_fault(Fault::Reboot) {
            break;
        }
        node.label(json!({STATE: "rebooting"})).await;
        tokio::time::sleep(node.timing.pause).await;
        node.wanted.lock().unwrap().parts_stay_as_they_are = false;
    }
    if node.next_fault(Fault::CannotDivide) {
        return node.end("failed").await;
    }
    tokio::time::sleep(node.timing.divide).await;
    *node.gpus.lock().unwrap() = divided;
    node.wanted.lock().unwrap().parts_stay_as_they_are = true;
    node.label_parts("true").await;
    node.end("success").await;
}

/// What the GPUs shall be, if NVIDIA's own tool finds the name in the mounted file and the file well made.
async fn valid(node: &NodeParts, value: &str) -> Option<Gpus> {
    let mounted = node.mounted.lock().unwrap().clone();
    let judged = Command::new(folder()?.join("nvidia-mig-parted"))
        .args(["assert", "--valid-config", "-f"])
        .arg(&mounted.mig_file)
        .args(["-c", value])
        .output()
        .await
        .ok()?;
    let entry = &mounted.mig["mig-configs"][value];
    judged.status.success().then(|| node.gpus.lock().unwrap().divided(entry))
}
