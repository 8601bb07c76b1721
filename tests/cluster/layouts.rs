//! GPUs that are cut and shared anew, by the labels and files of NVIDIA's operator, with a stand-in that falls into its
//! traps: under a gang, with slices that have to stay up, and where mig-manager fails or hangs.
//!
//! One fleet for all of it, because a cluster has one file of each kind. Its clock is in a hurry: nobody waits a quarter
//! of an hour for a node that hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::controlplane::mig::{Fault, Maps, Operands, Timing};
use super::super::controlplane::plane::{Own, Settings};
use super::super::controlplane::{Api, Controlplane, GpuNodes, eventually, gang};
use super::hurried::Hurried;
use super::namespace;

/// Ten times as fast: what NVIDIA's parts take here is a minute then, as it is with real ones.
const TIMES: u32 = 10;
const HALF: &str = "nvidia.com/mig-3g.40gb";
const SEVENTH: &str = "nvidia.com/mig-1g.10gb";
const SHARED: &str = "nvidia.com/gpu.shared";
const MIG_CONFIG: &str = "nvidia.com/mig.config";
const PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";

const DOCUMENTS: &str = "kind: Fleet
metadata: {name: cut}
spec: {timeZone: UTC, cloud: {none: {}}, kubernetes: {kubeconfig: {context: bench}}}
---
kind: GpuLayout
metadata: {name: some-halves}
spec: {mig: [{gpus: [0, 1, 2, 3], slices: {3g.40gb: 2}}]}
---
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
kind: GpuLayout
metadata: {name: mixed}
spec:
  mig: [{gpus: [0, 1, 2, 3], slices: {3g.40gb: 2}}, {gpus: [4, 5, 6, 7], slices: {1g.10gb: 7}}]
  keepReady: {3g.40gb: 16}
---
kind: GpuLayout
metadata: {name: in-turn}
spec: {timeSlicing: {replicas: 4}}
---
kind: GpuLayout
metadata: {name: at-once}
spec: {mps: {clients: 8, memory: even}}
---
kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 4, layout: whole, updates: {when: drain}, capacity: [{existing: {labels: {rack: train}}}]}
---
kind: NodePool
metadata: {name: serve}
spec: {instanceType: p5.48xlarge, nodes: 3, layout: halves, updates: {when: drain, maxUnavailable: 3}, capacity: [{existing: {labels: {rack: serve}}}]}
---
kind: NodePool
metadata: {name: books}
spec: {instanceType: p5.48xlarge, nodes: 1, layout: in-turn, updates: {when: drain}, capacity: [{existing: {labels: {rack: books}}}]}
---
kind: NodePool
metadata: {name: stuck}
spec: {instanceType: p5.48xlarge, nodes: 1, layout: whole , updates: {when: drain}, capacity: [{existing: {labels: {rack: stuck}}}]}
---
kind: PreemptionTier
metadata: {name: cut}
spec: {rank: 1}
---
kind: Quota
metadata: {name: cut}
spec: {namespaces: [{name: cut, localQueue: main}], tiers: [cut], shares: [{pool: train, guarantee: {nodes: 4}}]}
";

struct Scene {
    plane: Own,
    fleet: Hurried,
    operands: Vec<Operands>,
}

/// The names of our entries in NVIDIA's files, by the label that names one of them.
type Entries = BTreeMap<&'static str, BTreeSet<String>>;

impl Scene {
    fn entries(&self) -> Entries {
        let data =
            |map: &str| self.plane.api.get(&format!("/api/v1/namespaces/gpu-operator/configmaps/{map}")).unwrap();
        let cuts = data("tidewright-mig-parted")["data"]["config.yaml"].take();
        let mut cuts: Value = serde_json::from_str(cuts.as_str().unwrap()).unwrap();
        let (cuts, shares) = (cuts["mig-configs"].take(), data("tidewright-device-plugin")["data"].take());
        let is_ours = |name: &&String| name.starts_with("tw-");
        let names = |file: &Value| file.as_object().unwrap().keys().filter(is_ours).cloned().collect();
        [(MIG_CONFIG, names(&cuts)), (PLUGIN_CONFIG, names(&shares))].into()
    }

    /// What a node is told by a label.
    fn told(&self, node: &str, label: &str) -> String {
        self.plane.node(node)["metadata"]["labels"][label].as_str().unwrap_or_default().to_owned()
    }

    fn shows(&self, node: &str, resource: &str) -> String {
        self.plane.node(node)["status"]["allocatable"][resource].as_str().unwrap_or("none").to_owned()
    }

    /// Everything is as the documents say, and nothing of ours is left on any node.
    #[track_caller]
    fn converge(&self) {
        let left = self.fleet.converge(|| {});
        assert!(left.held.is_empty(), "{:#?}", left.held);
        for node in self.plane.api.list("/api/v1/nodes") {
            assert!(node["spec"]["unschedulable"].is_null(), "{node:#}");
            assert!(node["metadata"]["annotations"]["tidewright.dev/cordon"].is_null(), "{node:#}");
        }
    }

    fn running(&self, job: &str) -> usize {
        let pods = self.plane.api.list(&format!("/api/v1/namespaces/cut/pods?labelSelector=job-name={job}"));
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        pods.iter().filter(runs).count()
    }

    fn submit(&self, name: &str, pods: u64, asked: &Value) {
        let mut job = gang("cut", name, "main", pods, 1);
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("cut");
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": asked, "limits": asked});
        self.plane.api.create(&job).unwrap();
        let count = usize::try_from(pods).unwrap();
        eventually(&format!("{name} runs"), 60, || (self.running(name) == count).then_some(()));
    }
}

fn scene() -> Option<Scene> {
    // The map of mig-manager is one for the whole cluster.
    let plane = Controlplane::start(Settings::default())?;
    plane.api.create(&namespace("gpu-operator")).unwrap();
    let racks = [("train", 4), ("serve", 3), ("books", 1), ("stuck", 1)];
    let operands = racks.map(|(rack, nodes)| {
        plane.add_nodes(&GpuNodes::new(rack, nodes).label("rack", rack));
        let maps = Maps {
            namespace: "gpu-operator".into(),
            mig: "tidewright-mig-parted".into(),
            device_plugin: "tidewright-device-plugin".into(),
        };
        Operands::start(&plane, &format!("{rack}-"), maps, Timing::default())
    });
    let fleet = Hurried::new(&plane, "cut", TIMES, DOCUMENTS);
    Some(Scene { plane, fleet, operands: operands.into() })
}

#[test]
fn gpus_are_cut_and_shared_anew_under_work_and_whatever_mig_manager_does() {
    let Some(scene) = scene() else { return };
    scene.converge();
    assert_eq!([HALF, "nvidia.com/gpu"].map(|name| scene.shows("serve-0", name)), ["16", "0"]);
    assert_eq!([SHARED, "nvidia.com/gpu"].map(|name| scene.shows("books-0", name)), ["32", "0"], "four in turn");
    assert_eq!(scene.shows("train-0", "nvidia.com/gpu"), "8");
    let first =
        [("serve-0", MIG_CONFIG), ("books-0", PLUGIN_CONFIG)].map(|(node, label)| (label, scene.told(node, label)));
    assert!(first.iter().all(|(label, entry)| scene.entries()[label].contains(entry)), "{first:?}");
    assert!(scene.plane.node("stuck-0")["metadata"]["labels"]["nvidia.com/mig.config"].is_null(), "never cut");

    // Two pods of four GPUs each: they find room on nodes of either cut, but not on one that is being cut.
    scene.submit("gang", 2, &json!({"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}));
    let watch = Watch::start(&scene.plane, "serve");
    scene.fleet.edit("nodes: 4, layout: whole,", "nodes: 4, layout: some-halves,");
    scene.fleet.edit("nodes: 3, layout: halves", "nodes: 3, layout: mixed");
    scene.fleet.edit("layout: in-turn", "layout: at-once");
    let mut foretold = BTreeSet::new();
    let left = scene.fleet.converge(|| {
        let hit = scene.fleet.planned().1.steps.into_iter().flat_map(|step| step.disruption.gangs);
        foretold.extend(hit.map(|gang| gang.name.to_string()));
    });
    assert!(left.held.is_empty(), "{:#?}", left.held);
    scene.converge();
    assert_eq!(foretold, ["cut/gang".to_owned()].into(), "whom the plans said that it costs");
    under_a_gang(&scene);
    kept_ready(&scene, watch);
    assert_eq!([SHARED, "nvidia.com/gpu"].map(|name| scene.shows("books-0", name)), ["64", "0"], "eight at once");
    fails_and_hangs(&scene);
    collected(&scene, &first);
    shared_no_more(&scene);
}

/// The device plugin goes by its label for as long as that is there: it is taken off, and the GPUs are whole again, from MPS
/// and from time-slicing; they are shared anew, and cut otherwise.
fn shared_no_more(scene: &Scene) {
    let shows = || ["nvidia.com/gpu", HALF, SHARED].map(|name| scene.shows("books-0", name));
    scene.fleet.edit("layout: at-once", "layout: 'whole'");
    scene.converge();
    assert_eq!((shows(), scene.told("books-0", PLUGIN_CONFIG)), (["8", "none", "0"].map(str::to_owned), String::new()));
    // Whoever starts again goes by what it finds.
    scene.operands[2].restart_mig_manager("books-0");
    scene.fleet.pass(1);
    scene.converge();
    assert_eq!(shows()[0], "8");
    scene.fleet.edit("layout: 'whole'", "layout: in-turn");
    scene.converge();
    assert_eq!(shows(), ["0", "none", "32"], "shared anew, in turn");
    scene.fleet.edit("layout: in-turn", "layout: \"whole\"");
    scene.converge();
    assert_eq!((shows(), scene.told("books-0", PLUGIN_CONFIG)), (["8", "none", "0"].map(str::to_owned), String::new()));
    scene.fleet.edit("layout: \"whole\"", "layout: in-turn");
    scene.converge();
    scene.fleet.edit("layout: in-turn", "layout: some-halves ");
    scene.converge();
    assert_eq!((shows(), scene.told("books-0", PLUGIN_CONFIG)), (["4", "8", "0"].map(str::to_owned), String::new()));
}

/// An entry goes from its file when no node is told by it any more: at first or in between, all of these were in use.
fn collected(scene: &Scene, first: &[(&'static str, String)]) {
    let nodes: Vec<String> = scene.plane.api.list("/api/v1/nodes").iter().map(name_of).collect();
    for (label, entry) in first {
        let left = &scene.entries()[label];
        assert!(!left.contains(entry), "{entry} is still in {left:?}");
        let told: BTreeSet<String> =
            nodes.iter().map(|node| scene.told(node, label)).filter(|it| !it.is_empty()).collect();
        assert_eq!(*left, told, "{label}");
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn under_a_gang(scene: &Scene) {
    for node in GpuNodes::new("train", 4).names() {
        assert_eq!(["nvidia.com/gpu", HALF].map(|name| scene.shows(&node, name)), ["4", "8"], "{node}");
    }
    eventually("the gang runs again", 60, || (scene.running("gang") == 2).then_some(()));
    // It was moved whole, through its queue, and never lost a single pod to an eviction.
    let workloads = scene.plane.api.list("/apis/kueue.x-k8s.io/v1beta2/namespaces/cut/workloads");
    let evictions = workloads[0]["status"]["schedulingStats"]["evictions"].as_array().cloned().unwrap_or_default();
    assert!(!evictions.is_empty() && evictions.iter().all(|one| one["reason"] == "Deactivated"), "{evictions:?}");
    // And slices are there for whoever asks for them.
    scene.submit("slices", 4, &json!({"cpu": "1", "memory": "1Gi", HALF: "8"}));
}

/// How many slices of a rack could be had at each moment, and which of its nodes were closed together.
struct Watch {
    over: Arc<AtomicBool>,
    seen: Arc<Mutex<(u64, BTreeSet<usize>)>>,
    looks: std::thread::JoinHandle<()>,
}

impl Watch {
    fn start(plane: &Controlplane, rack: &str) -> Watch {
        let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new((u64::MAX, BTreeSet::new()))));
        let (api, path) = (Api::clone(&plane.api), format!("/api/v1/nodes?labelSelector=rack={rack}"));
        let (until, into) = (Arc::clone(&over), Arc::clone(&seen));
        let looks = std::thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                // The server may be gone before we are told to end.
                let Ok(nodes) = api.get(&path) else { break };
                let nodes = nodes["items"].as_array().unwrap();
                let is_open = |node: &&Value| node["spec"]["unschedulable"] != true;
                let slices = |node: &Value| node["status"]["allocatable"][HALF].as_str()?.parse::<u64>().ok();
                let up: u64 = nodes.iter().filter(is_open).filter_map(slices).sum();
                let mut seen = into.lock().unwrap();
                seen.0 = seen.0.min(up);
                seen.1.insert(nodes.iter().filter(|node| !is_open(node)).count());
                drop(seen);
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        Watch { over, seen, looks }
    }
}

/// Of 48 slices 16 stay up, so two nodes may be cut at once, and never all three, whatever `maxUnavailable` says.
fn kept_ready(scene: &Scene, watch: Watch) {
    watch.over.store(true, Ordering::SeqCst);
    watch.looks.join().unwrap();
    let (fewest, closed) = watch.seen.lock().unwrap().clone();
    assert!(fewest >= 16, "at one moment only {fewest} slices were up");
    assert_eq!(closed.last(), Some(&2), "two at once, and the third waits: {closed:?}");
    for node in GpuNodes::new("serve", 3).names() {
        assert_eq!([HALF, SEVENTH].map(|name| scene.shows(&node, name)), ["8", "28"], "{node}");
    }
}

/// What the node was told to be cut as, in order, as the API server recorded it.
fn orders(plane: &Controlplane, node: &str) -> Vec<Value> {
    let of_node = |event: &Value| event["objectRef"]["resource"] == "nodes" && event["objectRef"]["name"] == node;
    let events = plane.audit(node).into_iter().filter(|event| event["verb"] == "patch" && of_node(event));
    let labels =
        events.filter_map(|event| event["requestObject"]["metadata"]["labels"].get("nvidia.com/mig.config").cloned());
    labels.collect()
}

fn fails_and_hangs(scene: &Scene) {
    let state = || scene.plane.node("stuck-0")["metadata"]["labels"]["nvidia.com/mig.config.state"].clone();
    let operands = &scene.operands[3];
    // It fails and stays so: it acts on a change of the label only, so the order is taken back and given again.
    operands.inject("stuck-0", Fault::CannotDivide);
    scene.fleet.edit("layout: whole ,", "layout: halves ,");
    scene.converge();
    assert_eq!((scene.shows("stuck-0", HALF).as_str(), state()), ("16", json!("success")));
    let first = orders(&scene.plane, "stuck-0");
    assert!(first.len() >= 3 && first.first() == first.last() && first.iter().any(|one| *one != first[0]), "{first:?}");

    // It hangs, with its device plugin paused and no time on it: that is seen by when it was ordered.
    operands.inject("stuck-0", Fault::PartStays);
    scene.fleet.edit("layout: halves ,", "layout: some-halves ,");
    let began = scene.fleet.now();
    while (state(), scene.shows("stuck-0", HALF)) != (json!("pending"), "0".into()) {
        scene.fleet.round(tidewright::units::Duration::minutes(1));
        assert!(scene.fleet.now().duration_since(began).as_mins() < 12, "it does not hang: {}", state());
    }
    let given = orders(&scene.plane, "stuck-0").len();
    scene.fleet.round(tidewright::units::Duration::minutes(1));
    assert_eq!(orders(&scene.plane, "stuck-0").len(), given, "it has its time");
    assert_eq!(scene.plane.node("stuck-0")["spec"]["unschedulable"], true);
    scene.fleet.pass(15);
    scene.converge();
    assert_eq!([HALF, "nvidia.com/gpu"].map(|name| scene.shows("stuck-0", name)), ["8", "4"]);
    assert_eq!(state(), "success");
    assert!(orders(&scene.plane, "stuck-0").len() > given, "it was ordered again");
}
