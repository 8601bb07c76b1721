//! A rolling change of a layout that is interrupted in every way: the program killed every few seconds, the API server
//! killed and started again, the connection cut. Whatever happens nothing is lost, no cordon stays, and it converges.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::controlplane::mig::{Maps, Operands, Timing};
use super::super::controlplane::plane::Own;
use super::super::controlplane::{Controlplane, GpuNodes, Settings, eventually};
use super::namespace;
use super::whole::pods;

const NODES: usize = 4;
/// Small enough to be killed in every step, large enough to get somewhere.
const LIVES: [u64; 4] = [1_500, 4_000, 2_500, 5_000];
/// So often every connection is cut at most, over half a minute, and at least: a wave.
const CUTS: u32 = 18;
const FEWEST_CUTS: u32 = 6;
/// Two waves, each with a drain of five seconds and a cut; many times that is not converging.
const MOST_KILLS: u64 = 80;

struct Scene {
    plane: Own,
    directory: tempfile::TempDir,
    _operands: Operands,
}

/// Both cuts stand in mig-manager's file from the beginning, because some pool has each: a file that is written is waited
/// for until it is mounted everywhere, and that is not what is interrupted here.
fn fleet(nodes: usize, layout: &str) -> String {
    let other = if layout == "halves" { "sevenths" } else { "halves" };
    format!(
        "apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {{name: roll}}
spec: {{timeZone: UTC, cloud: {{none: {{}}}}, kubernetes: {{kubeconfig: {{context: bench}}}}}}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {{name: roll}}
spec:
  instanceType: p5.48xlarge
  nodes: {nodes}
  capacity: [{{existing: {{labels: {{rack: roll}}}}}}]
  layout: {layout}
  updates: {{when: drain, maxUnavailable: 2}}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {{name: later}}
spec: {{instanceType: p5.48xlarge, nodes: 0, layout: {other}, capacity: [{{existing: {{labels: {{rack: later}}}}}}]}}
---
apiVersion: tidewright.dev/v1alpha1
kind: GpuLayout
metadata: {{name: halves}}
spec: {{mig: [{{slices: {{3g.40gb: 2}}}}]}}
---
apiVersion: tidewright.dev/v1alpha1
kind: GpuLayout
metadata: {{name: sevenths}}
spec: {{mig: [{{slices: {{1g.10gb: 7}}}}]}}
"
    )
}

/// Nodes cut in halves, with a service on them that may lose one pod at a time.
fn scene() -> Option<Scene> {
    let plane = Controlplane::start(Settings::default())?;
    plane.api.create(&namespace("gpu-operator")).unwrap();
    plane.add_nodes(&GpuNodes::new("roll", NODES).label("rack", "roll"));
    let maps = Maps {
        namespace: "gpu-operator".into(),
        mig: "tidewright-mig-parted".into(),
        device_plugin: "tidewright-device-plugin".into(),
    };
    let operands = Operands::start(&plane, "roll-", maps, Timing::default());
    let scene = Scene { plane, directory: tempfile::tempdir().unwrap(), _operands: operands };
    for nodes in [0, NODES] {
        std::fs::write(scene.directory.path().join("fleet.yaml"), fleet(nodes, "halves")).unwrap();
        scene.converges(&scene.plane.kubeconfig);
    }
    scene.plane.api.create(&namespace("web")).unwrap();
    let spread = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "api"}}}]);
    let template = json!({"metadata": {"labels": {"app": "api"}}, "spec": {"topologySpreadConstraints": spread,
        "containers": [{"name": "main", "image": "serve"}]}});
    let spec = json!({"replicas": NODES, "selector": {"matchLabels": {"app": "api"}}, "template": template});
    let service = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "api", "namespace": "web"}, "spec": spec});
    scene.plane.api.create(&service).unwrap();
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "api", "namespace": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "api"}}}});
    scene.plane.api.create(&budget).unwrap();
    eventually("the service runs", 60, || (pods(&scene.plane, "web").len() == NODES).then_some(()));
    Some(scene)
}

impl Scene {
    fn write(&self, layout: &str) {
        std::fs::write(self.directory.path().join("fleet.yaml"), fleet(NODES, layout)).unwrap();
    }

    fn command(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidewright"));
        command.env("KUBECONFIG", kubeconfig).env_remove("CI").current_dir(self.directory.path()).args(arguments);
        command
    }

    fn apply(&self, kubeconfig: &Path) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(self.told()).unwrap();
        let mut command = self.command(kubeconfig, &["apply", "--until-converged", "--yes"]);
        command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    fn told(&self) -> PathBuf {
        self.directory.path().join("told")
    }

    /// Again, as a person would or an operator does, until nothing is left.
    fn converges(&self, kubeconfig: &Path) {
        let began = Instant::now();
        // The controllers come back to a server that was away when they like, and count no budget until then.
        while began.elapsed() < Duration::from_secs(360) {
            if self.apply(kubeconfig).wait().unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("it does not converge: {}", std::fs::read_to_string(self.told()).unwrap());
    }

    fn nodes(&self) -> Vec<Value> {
        (0..NODES).map(|index| self.plane.node(&format!("roll-{index}"))).collect()
    }

    /// Everything is there, cut as wanted and open; the plan is empty.
    fn is_whole(&self, resource: &str, amount: usize) {
        let told = || std::fs::read_to_string(self.told()).unwrap();
        assert!(!told().contains("panicked"), "{}", told());
        for node in self.nodes() {
            let (name, meta) = (&node["metadata"]["name"], &node["metadata"]);
            assert!(node["spec"]["unschedulable"].is_null(), "{name} is closed: {}", told());
            assert!(meta["annotations"]["tidewright.dev/cordon"].is_null(), "{name} carries our mark");
            let taints = node["spec"]["taints"].as_array().into_iter().flatten();
            assert_eq!(taints.filter(|taint| taint["key"] == "tidewright.dev/drain").count(), 0, "{name}");
            assert_eq!(meta["labels"]["nvidia.com/mig.config.state"], "success", "{name}");
            assert_eq!(node["status"]["allocatable"][resource], amount.to_string().as_str(), "{name}");
            assert_eq!(meta["labels"]["tidewright.dev/pool"], "roll", "{name} is still ours");
        }
        eventually("the whole service runs", 60, || (pods(&self.plane, "web").len() == NODES).then_some(()));
        let planned = self.command(&self.plane.kubeconfig, &["plan"]).output().unwrap();
        assert_eq!(planned.status.code(), Some(0), "{}", String::from_utf8_lossy(&planned.stdout));
    }

    /// How many pods were told to go, by an eviction or otherwise: a budget was asked each time.
    fn deleted_by_us(&self) -> usize {
        let ours = |event: &&Value| event["user"]["username"] == "admin" && event["verb"] == "delete";
        self.plane.audit("admin").iter().filter(ours).filter(|event| event["objectRef"]["resource"] == "pods").count()
    }
}

/// A way to the API server that can be cut: the program is told that address.
struct Cable {
    port: u16,
    /// Connections of an older number are dead.
    cuts: Arc<AtomicU32>,
}

impl Cable {
    fn to(url: &str) -> Cable {
        let far: String = url.trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, cuts) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&far) else { continue };
                let born = counted.load(Ordering::SeqCst);
                for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let counted = Arc::clone(&counted);
                    std::thread::spawn(move || copy(from, to, &counted, born));
                }
            }
        });
        Cable { port, cuts }
    }

    fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, cuts: &AtomicU32, born: u32) {
    let mut buffer = vec![0; 65_536];
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while cuts.load(Ordering::SeqCst) == born {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_roll_out_survives_kills_restarts_of_the_server_and_cut_connections() {
    let Some(scene) = scene() else { return };
    let admin = scene.plane.kubeconfig.clone();

    // Killed every few seconds, wherever it is.
    scene.write("sevenths");
    let (mut kills, lives) = (0_u64, LIVES.iter().cycle());
    for life in lives {
        let mut child = scene.apply(&admin);
        // Longer and longer, so that it gets somewhere on a machine that is slow.
        let until = Instant::now() + Duration::from_millis(life * (4 + kills / 4) / 4);
        let ended = loop {
            if let Some(ended) = child.try_wait().unwrap() {
                break Some(ended);
            }
            if Instant::now() > until {
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        match ended {
            Some(ended) if ended.success() => break,
            Some(_) => {}
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
            }
        }
        assert!(kills < MOST_KILLS, "{}", std::fs::read_to_string(scene.told()).unwrap());
    }
    println!("killed {kills} times");
    assert!(kills >= 5, "killed only {kills} times");
    scene.is_whole("nvidia.com/mig-1g.10gb", 8 * 7);

    // The API server dies twice in the middle, and is away for a moment.
    scene.write("halves");
    let mut child = scene.apply(&admin);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_secs(4));
        scene.plane.stop("kube-apiserver");
        std::thread::sleep(Duration::from_secs(2));
        scene.plane.restart_api_server();
    }
    let ended = child.wait().unwrap();
    println!("with the server restarted it ended with {:?}", ended.code());
    scene.converges(&admin);
    scene.is_whole("nvidia.com/mig-3g.40gb", 8 * 2);

    // Every connection is cut, again and again; a step whose answer was lost may fail, and the next run goes on.
    let text = std::fs::read_to_string(&admin).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let url = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let cable = Cable::to(url);
    let through = scene.directory.path().join("cable.kubeconfig");
    std::fs::write(&through, text.replace(url, &format!("https://127.0.0.1:{}", cable.port))).unwrap();
    scene.write("sevenths");
    let mut child = scene.apply(&through);
    let mut cuts = 0;
    while cuts < CUTS && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1_700));
        cable.cut();
        cuts += 1;
    }
    let ended = child.wait().unwrap();
    println!("with {cuts} cuts it ended with {:?}", ended.code());
    assert!(cuts >= FEWEST_CUTS, "it was over after {cuts} cuts");
    scene.converges(&admin);
    scene.is_whole("nvidia.com/mig-1g.10gb", 8 * 7);
    assert_eq!(scene.deleted_by_us(), 0, "pods leave through evictions alone");
}
