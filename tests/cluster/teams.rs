//! A scene: two hundred nodes, two research teams in a cohort, three tiers, and a tide that lends serving's nodes to
//! batch at night.
//!
//! The tide's window is written around the real now, so that a test can stand in any phase of it: the documents change
//! and the clock does not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assert_cmd::Command;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidewright::fleet::Target;
use tidewright::load;
use tidewright::queue::Mode;

use super::super::controlplane::plane::Shared;
use super::super::controlplane::{Controlplane, GpuNodes, eventually, gang, shared};
use super::recorded::{self, JobName, Recorded};

pub struct Scene {
    pub plane: Shared,
    pub name: &'static str,
    directory: tempfile::TempDir,
}

/// When the tide's window ends, in minutes from now: reclaim begins 45 minutes before, hard reclaim 10.
#[derive(Debug, Clone, Copy)]
pub enum Tide {
    High,
    Low,
    Reclaiming,
    Hard,
}

/// What the documents of a scene say beside what is always the same.
#[derive(Debug, Clone, Copy)]
pub struct Documents {
    pub tide: Tide,
    /// GPUs that vision is guaranteed of the 800 of `train`; language has the rest.
    pub vision: u32,
}

pub const DAY: Documents = Documents { tide: Tide::High, vision: 400 };

/// Nodes of each of the two pools.
const NODES: usize = 100;

impl Scene {
    /// The nodes, and a fleet that converged on them. None where there is no control plane.
    pub fn start(name: &'static str) -> Option<Scene> {
        let plane = shared()?;
        for pool in ["train", "serve"] {
            plane.add_nodes(&GpuNodes::new(&format!("{name}-{pool}"), NODES).label("rack", &format!("{name}-{pool}")));
        }
        let scene = Scene { plane, name, directory: tempfile::tempdir().unwrap() };
        scene.write(DAY);
        scene.converge();
        Some(scene)
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn namespace(&self, team: &str) -> String {
        format!("{}-{team}", self.name)
    }

    /// Writes the documents.
    pub fn write(&self, documents: Documents) {
        std::fs::write(self.path().join("fleet.yaml"), text(self.name, documents)).unwrap();
    }

    pub fn tidewright(&self, arguments: &[&str]) -> (i32, String) {
        tidewright(&self.plane, self.path(), arguments)
    }

    #[track_caller]
    pub fn converge(&self) {
        let (code, said) = self.tidewright(&["apply", "--until-converged", "--yes"]);
        assert_eq!(code, 0, "{said}");
    }

    /// Whom the plan would have Kueue and itself send away, by job.
    #[track_caller]
    pub fn planned(&self) -> (tidewright::plan::Plan, BTreeSet<JobName>) {
        let file = self.path().join(".input.json");
        let (code, said) = self.tidewright(&["plan", "--save-input", file.to_str().unwrap()]);
        assert!([0, 2, 3].contains(&code), "{said}");
        let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let plan = tidewright::plan::plan(&serde_json::from_value(saved["input"].take()).unwrap());
        let hit = plan.steps.iter().flat_map(|step| &step.disruption.gangs);
        let hit =
            hit.map(|gang| gang.name.split_once('/').map(|(namespace, job)| (namespace.to_owned(), job.to_owned())));
        let hit = hit.map(|job| job.expect("a gang is named by its namespace and job")).collect();
        (plan, hit)
    }

    /// What the documents want now.
    pub fn target(&self) -> Target {
        let now = Timestamp::now();
        load::check(self.path(), now).fleet.expect("the documents are valid").target_at(now)
    }

    /// A gang of whole nodes.
    #[track_caller]
    pub fn submit(&self, team: &str, name: &str, tier: &str, nodes: u64) -> JobName {
        self.submit_with(team, name, tier, nodes, json!({}))
    }

    #[track_caller]
    pub fn submit_with(&self, team: &str, name: &str, tier: &str, nodes: u64, annotations: Value) -> JobName {
        let namespace = self.namespace(team);
        let mut job = gang(&namespace, name, "main", nodes, 8);
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(format!("{}-{tier}", self.name));
        job["spec"]["template"]["metadata"]["annotations"] = annotations;
        self.plane.api.create(&job).unwrap();
        (namespace, name.to_owned())
    }

    pub fn recorded(&self) -> BTreeMap<JobName, Recorded> {
        recorded::recorded(&self.plane, &self.namespaces())
    }

    pub fn namespaces(&self) -> BTreeSet<String> {
        ["vision", "language", "serving", "batch"].map(|team| self.namespace(team)).into()
    }

    /// The pods of a job that are not on their way out, with their nodes.
    pub fn nodes_of(&self, (namespace, job): &JobName) -> Vec<String> {
        let all = self.plane.api.list(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector=job-name={job}"));
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        all.iter().filter(runs).map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned()).collect()
    }

    /// Every pod that is there at all, running or ending.
    pub fn pods_there(&self, (namespace, job): &JobName) -> usize {
        self.plane.api.list(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector=job-name={job}")).len()
    }

    #[track_caller]
    pub fn runs(&self, job: &JobName, nodes: usize) {
        eventually(&format!("{job:?} runs on {nodes} nodes"), 120, || {
            (self.nodes_of(job).len() == nodes).then_some(())
        });
    }

    #[track_caller]
    pub fn waits(&self, job: &JobName) -> String {
        eventually(&format!("{job:?} waits"), 60, || self.recorded().get(job)?.waits.clone())
    }

    /// Does something that ends when it came true, and gives who was evicted meanwhile.
    pub fn evicted_by(&self, act: impl FnOnce()) -> BTreeSet<JobName> {
        let before = self.recorded();
        act();
        // A second eviction would come with the next cycle of Kueue, which is well within a second.
        std::thread::sleep(std::time::Duration::from_secs(3));
        recorded::evicted(&before, &self.recorded())
    }

    /// Lets a job into its queue after the model was asked what will come of it; both must say the same.
    #[track_caller]
    pub fn foresee(&self, team: &str, name: &str, tier: &str, nodes: u64) -> (JobName, BTreeSet<JobName>) {
        let queue = format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/localqueues/main", self.namespace(team));
        let stop = |policy: &str| self.plane.api.merge(&queue, &json!({"spec": {"stopPolicy": policy}})).unwrap();
        stop("Hold");
        let job = self.submit(team, name, tier, nodes);
        self.waits(&job);
        let target = self.target();
        let seen = recorded::seen(&self.plane, &target);
        let state = recorded::state(&seen, Mode::Classical, &self.namespaces(), |_| true);
        let told = recorded::foretold(&state);
        let all = self.recorded();
        let told: BTreeSet<JobName> = told
            .keys()
            .map(|uid| all.iter().find(|(_, one)| one.uid == uid.as_str()).expect("it is there").0.clone())
            .collect();
        let gone = self.evicted_by(|| {
            stop("None");
            self.runs(&job, usize::try_from(nodes).unwrap());
        });
        assert_eq!(told, gone, "what was foretold, and what Kueue did");
        (job, gone)
    }

    pub fn end(&self, jobs: &[&JobName]) {
        for (namespace, job) in jobs {
            let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs/{job}?propagationPolicy=Background");
            super::super::controlplane::block(self.plane.api.send("DELETE", &path, "application/json", None)).unwrap();
        }
        for job in jobs {
            eventually(&format!("{job:?} is gone"), 60, || (self.pods_there(job) == 0).then_some(()));
        }
    }
}

impl Drop for Scene {
    /// Two hundred nodes that nobody needs any more would go on renewing their leases, and be listed by every test
    /// that follows.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.plane.end_jobs(&self.namespaces());
            for pool in ["train", "serve"] {
                self.plane.api.delete(&format!("/api/v1/nodes?labelSelector=rack={}-{pool}", self.name));
            }
        }
    }
}

/// Runs the program and gives its exit code and its output.
pub fn tidewright(plane: &Controlplane, directory: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("tidewright").unwrap();
    command.env("KUBECONFIG", &plane.kubeconfig).current_dir(directory).args(arguments);
    let output = command.timeout(std::time::Duration::from_secs(400)).output().unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), format!("{stdout}{stderr}"))
}

fn text(name: &str, documents: Documents) -> String {
    let ends_in = match documents.tide {
        Tide::High => -2,
        Tide::Low => 120,
        Tide::Reclaiming => 30,
        Tide::Hard => 6,
    };
    let clock = |minutes: i64| {
        let at = Timestamp::now() + SignedDuration::from_mins(minutes);
        at.strftime("%H:%M").to_string()
    };
    let (from, to) = (clock(ends_in - 240), clock(ends_in));
    let (vision, language) = (documents.vision, 800 - documents.vision);
    let mut text = format!(
        "kind: Fleet
metadata: {{name: {name}}}
spec:
  timeZone: UTC
  cloud: {{none: {{}}}}
  kubernetes: {{kubeconfig: {{context: bench}}}}
  fabric:
    levels:
    - {{name: block, nodeLabel: topology.k8s.aws/network-node-layer-2}}
    - {{name: leaf, nodeLabel: topology.k8s.aws/network-node-layer-3}}
---
kind: TideSchedule
metadata: {{name: {name}-nightly}}
spec:
  lowTide: [{{days: [Mon-Sun], from: \"{from}\", to: \"{to}\"}}]
  lend: [{{pool: {name}-serve, nodes: 60, from: {name}-serving, to: {name}-batch}}]
  reclaim: {{lead: 45m, hardAt: 10m}}
"
    );
    for pool in ["train", "serve"] {
        text += &format!(
            "---
kind: NodePool
metadata: {{name: {name}-{pool}}}
spec:
  instanceType: p5.48xlarge
  nodes: {NODES}
  capacity: [{{existing: {{labels: {{rack: {name}-{pool}}}}}}}]
  taints: [{{key: nvidia.com/gpu, effect: NoSchedule}}]
"
        );
    }
    for (tier, spec) in [
        ("production", "rank: 1000, preempts: lowerTiers"),
        ("research", "rank: 500, preempts: lowerTiers"),
        ("spare", "rank: 100, minimumRuntime: 1h"),
    ] {
        text += &format!("---\nkind: PreemptionTier\nmetadata: {{name: {name}-{tier}}}\nspec: {{{spec}}}\n");
    }
    let share = |own: u32, other: u32| {
        format!("{{pool: {name}-train, guarantee: {{gpus: {own}}}, borrow: {{gpus: {other}}}, lend: {{gpus: {own}}}}}")
    };
    let tiers = format!("{name}-research, {name}-spare");
    for (team, cohort, tiers, shares) in [
        ("vision", Some("lab"), tiers.clone(), share(vision, language)),
        ("language", Some("lab"), tiers, share(language, vision)),
        (
            "serving",
            None,
            format!("{name}-production"),
            format!("{{pool: {name}-serve, guarantee: {{nodes: {NODES}}}}}"),
        ),
        ("batch", None, format!("{name}-spare"), String::new()),
    ] {
        let cohort = cohort.map(|cohort| format!("\n  cohort: {name}-{cohort}")).unwrap_or_default();
        let shares = if shares.is_empty() { String::new() } else { format!("\n  shares: [{shares}]") };
        text += &format!(
            "---
kind: Quota
metadata: {{name: {name}-{team}}}
spec:
  namespaces: [{{name: {name}-{team}, localQueue: main}}]{cohort}
  tiers: [{tiers}]{shares}
"
        );
    }
    text.replace("kind: ", "apiVersion: tidewright.dev/v1alpha1\nkind: ")
}
