//! A team's total over whole GPUs and slices, on the real Kueue: its shares of the two pools are free, and it waits.

use serde_json::{Value, json};

use super::super::controlplane::mig::{Maps, Operands, Timing};
use super::super::controlplane::objects::{cluster_queue, flavor, local_queue};
use super::super::controlplane::{Controlplane, GpuNodes, Settings, eventually, gang, is_true};
use super::namespace;
use super::whole::{pods, tidewright};

const CURRENCY: &str = "tidewright.dev/gpu-thousandths";
const HALF: &str = "nvidia.com/mig-3g.40gb";
const MAP: &str = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config";

const FLEET: &str = "apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {name: totals}
spec: {timeZone: UTC, cloud: {none: {}}, kubernetes: {kubeconfig: {context: bench}}}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 2, capacity: [{existing: {labels: {rack: train}}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: serve}
spec: {instanceType: p5.48xlarge, nodes: 1, capacity: [{existing: {labels: {rack: serve}}}], layout: halves}
---
apiVersion: tidewright.dev/v1alpha1
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {name: low}
spec: {rank: 100}
---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {name: high}
spec: {rank: 200, preempts: lowerTiers}
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: vision}
spec:
  namespaces: [{name: vision, localQueue: main}]
  cohort: all
  tiers: [low, high]
  weight: 1
  shares:
    - {pool: train, guarantee: {gpus: 4}, borrow: {gpus: 12}}
    - {pool: serve, guarantee: {slices: {3g.40gb: 8}}, borrow: {slices: {3g.40gb: 8}}}
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: language}
spec:
  namespaces: [{name: language, localQueue: main}]
  cohort: all
  tiers: [low, high]
  shares: [{pool: train, guarantee: {gpus: 4}, lend: {gpus: 4}}]
";

/// One pod that asks for so much of something.
fn job(home: &str, name: &str, tier: &str, resource: &str, amount: u32) -> Value {
    let mut job = gang(home, name, "main", 1, 1);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(tier);
    let asked = json!({"cpu": "1", "memory": "1Gi", resource: amount.to_string()});
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": asked, "limits": asked});
    job
}

fn workload(plane: &Controlplane, home: &str, job: &str) -> Value {
    let all = plane.api.list(&format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{home}/workloads"));
    let is_of = |one: &Value| one["metadata"]["ownerReferences"][0]["name"] == job;
    all.into_iter().find(is_of).unwrap_or_default()
}

fn runs(plane: &Controlplane, home: &str, job: &str) -> bool {
    pods(plane, home).iter().any(|pod| pod["metadata"]["labels"]["job-name"] == job)
}

#[track_caller]
fn runs_soon(plane: &Controlplane, home: &str, job: &str) {
    eventually(&format!("{job} runs"), 120, || runs(plane, home, job).then_some(()));
}

/// Why it waits, once Kueue has looked at it.
#[track_caller]
fn waits(plane: &Controlplane, home: &str, job: &str) -> String {
    eventually(&format!("{job} is told why it waits"), 60, || {
        let conditions = workload(plane, home, job)["status"]["conditions"].take();
        let told = conditions.as_array()?.iter().find(|one| one["type"] == "QuotaReserved" && one["status"] == "False");
        Some(told?["message"].as_str()?.to_owned())
    })
}

fn ends(plane: &Controlplane, home: &str, job: &str) {
    plane.api.delete(&format!("/apis/batch/v1/namespaces/{home}/jobs/{job}?propagationPolicy=Background"));
}

fn currency(plane: &Controlplane, queue: &str) -> Option<Value> {
    let queue = plane.api.get(&format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}")).unwrap();
    let groups = queue["spec"]["resourceGroups"].as_array()?.clone();
    let group = groups.into_iter().find(|group| group["coveredResources"] == json!([CURRENCY]))?;
    Some(group["flavors"][0]["resources"][0].clone())
}

#[test]
fn a_team_that_reaches_its_total_waits_although_its_shares_are_free() {
    let Some(plane) = Controlplane::start(Settings::default()) else { return };
    plane.api.create(&namespace("gpu-operator")).unwrap();
    plane.add_nodes(&GpuNodes::new("train", 2).label("rack", "train"));
    plane.add_nodes(&GpuNodes::new("serve", 1).label("rack", "serve"));
    let maps = Maps {
        namespace: "gpu-operator".into(),
        mig: "tidewright-mig-parted".into(),
        device_plugin: "tidewright-device-plugin".into(),
    };
    let _operands = Operands::start(&plane, "serve-", maps, Timing::default());
    let file = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": file}});
    plane.api.create(&map).unwrap();
    // A team of somebody else's, which knows nothing of any currency.
    plane.api.create(&namespace("theirs")).unwrap();
    plane.add_nodes(&GpuNodes::new("theirs", 1).label("pool", "theirs"));
    plane.api.create(&flavor("theirs")).unwrap();
    plane.api.create(&cluster_queue("theirs", "theirs", "theirs", 8)).unwrap();
    plane.api.create(&local_queue("theirs", "theirs")).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(directory.path().join("fleet.yaml"), text).unwrap();
    let run = |arguments: &[&str]| {
        let done = tidewright(&plane, directory.path(), arguments);
        let output = done.get_output();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let converge = || run(&["apply", "--until-converged", "--yes"]);
    write(FLEET);
    assert_eq!(converge().0, Some(0));
    let old = job("vision", "old", "low", "nvidia.com/gpu", 1);
    plane.api.create(&old).unwrap();
    runs_soon(&plane, "vision", "old");

    // Work from before keeps its queue as it is: it would not be let in again.
    write(&FLEET.replace("  weight: 1\n", "  total: {gpus: 12}\n"));
    let (code, said) = converge();
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(currency(&plane, "vision"), None);
    let (_, planned) = run(&["plan"]);
    assert!(planned.contains("up to 12 GPUs") && planned.contains("vision/job-old"), "{planned}");
    assert_eq!(currency(&plane, "language").unwrap()["nominalQuota"], "1G", "it had no work, and no total");
    // New work is told where it goes, before anybody counts, and also if it does not say so.
    plane.api.create(&job("language", "plain", "low", "nvidia.com/gpu", 1)).unwrap();
    runs_soon(&plane, "language", "plain");
    let asks = workload(&plane, "language", "plain")["spec"]["podSets"][0]["topologyRequest"].take();
    assert_eq!(asks["unconstrained"], true, "{asks}");

    ends(&plane, "vision", "old");
    eventually("its workload is gone", 60, || workload(&plane, "vision", "old").is_null().then_some(()));
    assert_eq!(converge().0, Some(3));
    let own = json!({"name": CURRENCY, "nominalQuota": "12k", "borrowingLimit": "0", "lendingLimit": "0"});
    assert_eq!(currency(&plane, "vision"), Some(own));

    // Kueue does not count in it yet: that is its owner's to switch on, with the patch of the plan.
    let (code, planned) = run(&["plan", "--verbose"]);
    assert_eq!(code, Some(3), "{planned}");
    assert!(planned.contains("ClusterQueue theirs, which no document names"), "{planned}");
    let patch =
        planned.lines().find_map(|line| line.split_once("patch configmap kueue-manager-config --type=merge -p '"));
    let patch = patch.unwrap_or_else(|| panic!("no patch in {planned}")).1.trim_end().strip_suffix('\'').unwrap();
    plane.api.merge(MAP, &serde_json::from_str(patch).unwrap()).unwrap();
    let text = plane.api.get(MAP).unwrap()["data"]["controller_manager_config.yaml"].as_str().unwrap().to_owned();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    plane.restart_kueue(&json!({"resources": file["resources"]}));
    assert_eq!(run(&["plan"]).0, Some(0));
    assert!(runs(&plane, "language", "plain"), "what ran goes on");

    // Eight GPUs and eight halves are twelve.
    plane.api.create(&job("vision", "whole", "low", "nvidia.com/gpu", 8)).unwrap();
    runs_soon(&plane, "vision", "whole");
    plane.api.create(&job("vision", "halves", "low", HALF, 7)).unwrap();
    runs_soon(&plane, "vision", "halves");
    plane.api.create(&job("vision", "last", "low", HALF, 1)).unwrap();
    runs_soon(&plane, "vision", "last");
    // Of two flavors Kueue looks at the next one when the first led nowhere, and tells of the last: one of the two that
    // wait is told of its total.
    let why = [("one-half", HALF), ("one-gpu", "nvidia.com/gpu")].map(|(name, resource)| {
        plane.api.create(&job("vision", name, "low", resource, 1)).unwrap();
        waits(&plane, "vision", name)
    });
    assert!(why.iter().any(|why| why.contains(CURRENCY)), "{why:?}");
    // Its shares are free, and so is what others of its cohort may use: they are not held by its total.
    plane.api.create(&job("language", "more", "low", "nvidia.com/gpu", 3)).unwrap();
    runs_soon(&plane, "language", "more");
    // A queue that does not cover the currency admits no GPUs, as the plan said.
    let mut foreign = gang("theirs", "foreign", "theirs", 1, 8);
    foreign["spec"]["template"]["spec"]["tolerations"] = json!([]);
    plane.api.create(&foreign).unwrap();
    assert!(waits(&plane, "theirs", "foreign").contains(CURRENCY));

    // Within the team a higher tier takes its place, by the total alone.
    plane.api.create(&job("vision", "urgent", "high", HALF, 1)).unwrap();
    runs_soon(&plane, "vision", "urgent");
    let preempted = ["whole", "halves", "last"].map(|name| is_true(&workload(&plane, "vision", name), "Preempted"));
    assert_eq!(preempted.iter().flatten().count(), 1, "{preempted:?}");
    assert!(!runs(&plane, "vision", "one-half") && !runs(&plane, "vision", "one-gpu"));

    // And when something ends, what waits is let in.
    ends(&plane, "vision", "whole");
    runs_soon(&plane, "vision", "one-gpu");
    runs_soon(&plane, "vision", "one-half");
    assert_eq!(run(&["plan"]).0, Some(0));
}
