//! `deploy/rbac.yaml` is what the program needs: with exactly these rights plan, apply and drain do all that they do,
//! nothing is refused, and every right is used. The API server's audit log is the witness.

use std::collections::BTreeSet;
use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};
use tidewright::effect::ClusterAction;
use tidewright::ids::NamespacedName;
use tidewright::provider::k8s::K8s;
use tidewright::provider::{Cluster, Done};

use super::super::controlplane::mig::{Maps, Operands, Timing};
use super::super::controlplane::objects::{cluster_policies, cluster_policy};
use super::super::controlplane::{Api, Controlplane, GpuNodes, Settings, block, eventually, gang};
use super::namespace;
use super::whole::{pods, workload};

/// Every kind of object that is ever written, and a node that is cut.
const FLEET: &str = "apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {name: rights}
spec:
  timeZone: UTC
  cloud: {none: {}}
  kubernetes: {kubeconfig: {context: bench}}
  fabric: {levels: [{name: leaf, nodeLabel: topology.k8s.aws/network-node-layer-3}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: train}
spec:
  instanceType: p5.48xlarge
  nodes: 3
  capacity: [{existing: {labels: {rack: train}}}]
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: serve}
spec:
  instanceType: p5.48xlarge
  nodes: 1
  capacity: [{existing: {labels: {rack: serve}}}]
  layout: halves
---
apiVersion: tidewright.dev/v1alpha1
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {name: research}
spec: {rank: 200, checkpoint: {deadline: 5s}}
---
apiVersion: tidewright.dev/v1alpha1
kind: SchedulerProfile
metadata: {name: packed}
spec: {pools: [train], score: pack}
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: vision}
spec:
  namespaces: [{name: vision, localQueue: main}]
  cohort: all
  total: {gpus: 16}
  tiers: [research]
  shares: [{pool: train, guarantee: {gpus: 16}}]
---
apiVersion: tidewright.dev/v1alpha1
kind: Quota
metadata: {name: disbanded}
spec:
  namespaces: [{name: disbanded}]
  cohort: all/others
  tiers: [research]
  shares: [{pool: train, guarantee: {gpus: 8}}]
";

/// The order to mig-manager.
const MIG_CONFIG: &str = "nvidia.com/mig.config";

const US: &str = "system:serviceaccount:tidewright-system:tidewright";

/// A right: the namespace, where it is for one only, then `VERB RESOURCE.GROUP`.
type Right = (Option<String>, String);

fn right(namespace: Option<&str>, verb: &str, resource: &str, group: &str) -> Right {
    let dot = if group.is_empty() { "" } else { "." };
    (namespace.map(str::to_owned), format!("{verb} {resource}{dot}{group}"))
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// What the roles of the file give.
fn granted(documents: &[Value]) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for role in documents.iter().filter(|one| matches!(one["kind"].as_str(), Some("ClusterRole" | "Role"))) {
        for rule in role["rules"].as_array().unwrap() {
            for group in words(&rule["apiGroups"]) {
                for resource in words(&rule["resources"]) {
                    let namespace = role["metadata"]["namespace"].as_str();
                    all.extend(words(&rule["verbs"]).iter().map(|verb| right(namespace, verb, resource, group)));
                }
            }
        }
    }
    all
}

/// What was asked of the server by us, each as the narrowest right that gives it; and what was refused for want of one.
fn used(plane: &Controlplane, granted: &BTreeSet<Right>) -> (BTreeSet<Right>, Vec<String>) {
    let (mut used, mut forbidden) = (BTreeSet::new(), Vec::new());
    for event in plane.audit(US).iter().filter(|event| event["user"]["username"] == US) {
        let Some(object) = event.get("objectRef") else { continue };
        let word = |key: &str| object[key].as_str().unwrap_or_default();
        let resource = match word("subresource") {
            "" => word("resource").to_owned(),
            below => format!("{}/{below}", word("resource")),
        };
        if event["annotations"]["authorization.k8s.io/decision"] == "forbid" {
            forbidden.push(format!("{} {resource} in {:?}", event["verb"], object["namespace"]));
            continue;
        }
        let verb = event["verb"].as_str().unwrap();
        // An apply that makes the object needs the right to make it, too.
        let makes = verb == "patch" && event["responseStatus"]["code"] == 201;
        for verb in [verb].into_iter().chain(makes.then_some("create")) {
            let here = right(object["namespace"].as_str(), verb, &resource, word("apiGroup"));
            let everywhere = (None, here.1.clone());
            used.insert(if granted.contains(&here) { here } else { everywhere });
        }
    }
    (used, forbidden)
}

fn documents(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_rights_in_deploy_are_all_used_and_nothing_is_missing() {
    let Some(plane) = Controlplane::start(Settings::with_pod_groups()) else { return };
    // Whoever installs NVIDIA's operator makes its namespace, its kind and its policy.
    plane.api.create(&namespace("gpu-operator")).unwrap();
    plane.api.create(&cluster_policies()).unwrap();
    let policies = "/apis/nvidia.com/v1/clusterpolicies";
    eventually("its kind is served", 60, || plane.api.get(policies).ok());
    // A kind that has just come is served anew when its names are accepted, and refuses what comes in between.
    eventually("its policy is taken", 60, || plane.api.post(policies, &cluster_policy()).ok());
    let documents = documents("rbac.yaml");
    documents.iter().for_each(|one| drop(plane.api.create(one).unwrap()));
    let kubeconfig = plane.service_account("tidewright-system", "tidewright");
    plane.add_nodes(&GpuNodes::new("train", 3).label("rack", "train"));
    plane.add_nodes(&GpuNodes::new("serve", 1).label("rack", "serve"));
    let maps = Maps {
        namespace: "gpu-operator".into(),
        mig: "tidewright-mig-parted".into(),
        device_plugin: "tidewright-device-plugin".into(),
    };
    let _operands = Operands::start(&plane, "serve-", maps, Timing::default());

    let directory = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(directory.path().join("fleet.yaml"), text).unwrap();
    write(FLEET);
    let start = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("tidewright").unwrap();
        command.env("KUBECONFIG", &kubeconfig).env_remove("CI").current_dir(directory.path()).args(arguments);
        command.timeout(std::time::Duration::from_secs(300)).output().unwrap()
    };
    let run = |arguments: &[&str], code: i32| {
        let done = start(arguments);
        let [said, told] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let held = || String::from_utf8_lossy(&start(&["status"]).stdout).into_owned();
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {told}{said}what is held: {}", held());
        said
    };
    let planned = run(&["plan"], 2);
    assert!(!planned.contains("could not be read"), "{planned}");
    // The policy is its owner's: nothing is cut until they made the change that the plan says, and it is the whole one.
    run(&["apply", "--until-converged", "--yes"], 3);
    assert_eq!(plane.api.get("/api/v1/nodes/serve-0").unwrap()["metadata"]["labels"].get(MIG_CONFIG), None);
    let told = run(&["plan"], 3);
    let patch =
        told.lines().find_map(|line| line.split_once("kubectl patch clusterpolicy cluster-policy --type=merge -p '"));
    let patch = patch.unwrap_or_else(|| panic!("no patch in {told}")).1.strip_suffix('\'').unwrap();
    plane.api.merge(&format!("{policies}/cluster-policy"), &serde_json::from_str(patch).unwrap()).unwrap();
    run(&["apply", "--until-converged", "--yes"], 0);
    assert!(run(&["plan"], 0).contains("No changes."));

    // A gang that is asked to save its work, and a pod that is evicted.
    let mut job = gang("vision", "train-1", "main", 2, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("research");
    job["metadata"]["annotations"] = json!({"kueue.x-k8s.io/elastic-job": "true"});
    plane.api.create(&job).unwrap();
    let ranks = eventually("the gang runs", 120, || Some(pods(&plane, "vision")).filter(|all| all.len() == 2));
    let node = ranks[0]["spec"]["nodeName"].as_str().unwrap().to_owned();
    plane.api.create(&namespace("web")).unwrap();
    let template = json!({"metadata": {"labels": {"app": "api"}}, "spec": {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100,
            "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}}]}},
        "containers": [{"name": "main", "image": "serve"}]}});
    let api = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "api", "namespace": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "api"}}, "template": template}});
    plane.api.create(&api).unwrap();
    eventually("the service runs there", 60, || {
        pods(&plane, "web").iter().any(|pod| pod["spec"]["nodeName"] == node.as_str()).then_some(())
    });
    assert!(run(&["drain", &node, "--dry-run"], 2).contains("asked to save its work first"));
    run(&["drain", &node, "--yes"], 0);
    run(&["undrain", &node], 0);
    run(&["freeze", "--reason", "a look"], 0);
    run(&["thaw"], 0);
    // The gang may be smaller. When a tide asks for that is shown elsewhere: here is what it takes.
    let uid = workload(&plane, "vision")["metadata"]["uid"].as_str().unwrap().into();
    let ours = K8s::with(Api::new(&kubeconfig).client, &"rights".into());
    block(ours.perform(&ClusterAction::Shrink { workload: uid, pods: 1 })).unwrap();
    assert_eq!(plane.api.get("/apis/batch/v1/namespaces/vision/jobs/train-1").unwrap()["spec"]["parallelism"], 1);
    // The number of a class cannot be changed: the class is replaced, and the other one of its tier follows.
    let ranked = |text: &str| text.replace("rank: 200", "rank: 300, preempts: lowerTiers");
    write(&ranked(FLEET));
    run(&["apply", "--until-converged", "--yes"], 0);
    for path in ["scheduling.k8s.io/v1/priorityclasses", "kueue.x-k8s.io/v1beta2/workloadpriorityclasses"] {
        assert_eq!(plane.api.get(&format!("/apis/{path}/research")).unwrap()["value"], 300);
    }
    // Nor can whom its pods preempt, which the queue of the tier follows.
    let policy = plane.api.get("/apis/scheduling.k8s.io/v1/priorityclasses/research").unwrap();
    assert_eq!(policy["preemptionPolicy"], "PreemptLowerPriority");
    let queue = plane.api.get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/vision").unwrap();
    assert_eq!(queue["spec"]["preemption"]["withinClusterQueue"], "LowerPriority");
    write(&FLEET.replace("rank: 200", "rank: 300"));
    run(&["apply", "--until-converged", "--yes"], 0);
    let policy = plane.api.get("/apis/scheduling.k8s.io/v1/priorityclasses/research").unwrap();
    assert_eq!((&policy["preemptionPolicy"], &policy["value"]), (&json!("Never"), &json!(300)));
    // Nor can the topology of a flavor: the pool gets another flavor, and the old one goes when nobody needs it.
    let levels = "levels: [{name: leaf, nodeLabel: topology.k8s.aws/network-node-layer-3}]";
    let more = levels.replace('[', "[{name: block, nodeLabel: topology.k8s.aws/network-node-layer-2}, ");
    assert!(FLEET.contains(levels));
    let fleet = FLEET.replace(levels, &more).replace("rank: 200", "rank: 300");
    write(&fleet);
    plane.api.delete("/apis/batch/v1/namespaces/vision/jobs/train-1?propagationPolicy=Background");
    eventually("the gang is gone, and Kueue knows it", 120, || {
        (pods(&plane, "vision").is_empty() && workload(&plane, "vision").is_null()).then_some(())
    });
    // What Kueue has to finish with first takes its time, and is gone when an apply ends.
    let is_gone = |object: &str| plane.api.get(&format!("/apis/kueue.x-k8s.io/v1beta2/{object}")).unwrap_err().status;
    let old = plane.api.get("/apis/kueue.x-k8s.io/v1beta2/resourceflavors/train").unwrap();
    run(&["apply", "--until-converged", "--yes"], 0);
    let topology = format!("topologies/{}", old["spec"]["topologyName"].as_str().unwrap());
    assert_eq!(["resourceflavors/train", &topology].map(is_gone), [404, 404]);
    write(&fleet.replace("  cohort: all/others\n", "  cohort: all/others\n  retire: true\n"));
    run(&["apply", "--until-converged", "--yes"], 0);
    assert_eq!(is_gone("clusterqueues/disbanded"), 404);
    assert!(run(&["plan"], 0).contains("No changes."));

    let granted = granted(&documents);
    let (used, forbidden) = used(&plane, &granted);
    assert_eq!(forbidden, [""; 0], "rights that are missing");
    let unused: Vec<&Right> = granted.difference(&used).collect();
    let elsewhere: Vec<&Right> = used.difference(&granted).collect();
    assert!(
        unused.is_empty() && elsewhere.is_empty(),
        "granted and not used: {unused:#?}; the other way: {elsewhere:#?}"
    );
    a_deadline_has_a_right_of_its_own(&plane, &ours);
}

/// Past a deadline that the cloud declared, pods are deleted: whoever has no such machines gives no right to it.
fn a_deadline_has_a_right_of_its_own(plane: &Controlplane, ours: &K8s) {
    let pod = pods(plane, "web").remove(0);
    let [name, uid] = ["name", "uid"].map(|key| pod["metadata"][key].as_str().unwrap());
    let forced = || {
        let one = vec![(NamespacedName::new("web", name), uid.into())];
        match block(ours.perform(&ClusterAction::Evict { pods: one, force: true })).unwrap() {
            Done::Evicted { refused } => refused,
            other => panic!("{other:?}"),
        }
    };
    let refused = forced();
    assert!(refused[0].permanent && refused[0].why.contains("cannot delete resource"), "{refused:?}");
    let documents = documents("rbac-deadlines.yaml");
    documents.iter().for_each(|one| drop(plane.api.create(one).unwrap()));
    eventually("the right is in force", 60, || forced().is_empty().then_some(()));
    let granted = granted(&documents);
    assert_eq!(granted, [right(None, "delete", "pods", "")].into());
    assert!(granted.is_subset(&used(plane, &granted).0), "it was used");
}

#[test]
fn no_right_is_a_wildcard_or_a_way_to_more() {
    for (namespace, right) in granted(&documents("rbac.yaml")) {
        let (verb, resource) = right.split_once(' ').unwrap();
        let grows = ["escalate", "bind", "impersonate", "deletecollection", "*"];
        assert!(!grows.contains(&verb) && !resource.contains('*'), "{namespace:?} {right}");
        for closed in ["secrets", "serviceaccounts", "nodes/proxy", "pods/exec", "roles", "clusterroles"] {
            assert_ne!(resource.split('.').next().unwrap(), closed, "{right}");
        }
        assert_ne!(right, "delete pods");
    }
}
