//! One test for each answer and each trap that the simulated cluster is there for.

mod eviction;
mod gangs;
mod kueue;
mod mig;
mod nodes;
mod objects;
mod whole;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::effect::marks::{Mark, POOL};
use crate::effect::{ClusterAction, Object};
use crate::ids::InstanceId;
use crate::observed::{ClusterSeen, NodeSeen, ObjectKind, PodSeen, WorkloadSeen};
use crate::provider::{Done, ProviderError, Refusal};

/// A cluster with a hand on its clock.
struct Bench {
    state: ClusterState,
    now: Timestamp,
}

fn node_join(name: &str, pool: &str, rack: &str) -> NodeJoin {
    let labels = [(POOL.to_string(), pool.to_string()), ("rack".into(), rack.into())];
    NodeJoin {
        name: name.into(),
        instance: Some(format!("i-{name}").as_str().into()),
        labels: labels.into(),
        taints: Vec::new(),
        gpus: 8,
        gpu: Some("h100-sxm".into()),
        instance_type: "p5.48xlarge".into(),
        vcpus: 192,
        memory_gib: 2048,
        efa: 32,
        shows: BTreeMap::new(),
    }
}

fn named(name: &str) -> NamespacedName {
    name.parse().unwrap()
}

fn mark(now: Timestamp) -> Mark {
    Mark::new(now, "replace")
}

impl Bench {
    fn new() -> Self {
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let mut state = ClusterState::new(7);
        state.tick(now);
        Self { state, now }
    }

    /// Nodes n0, n1, … of a pool, two in a rack, ready for long.
    fn with_nodes(count: usize) -> Self {
        let mut bench = Self::new();
        for at in 0..count {
            let join = node_join(&format!("n{at}"), "train", &format!("r{}", at / 2));
            bench.state.existing_node(bench.now, &join);
        }
        bench
    }

    /// The same with a topology, a flavor over them, and one queue of so many GPUs.
    fn with_queue(count: usize, gpus: u32) -> Self {
        let mut bench = Self::with_nodes(count);
        bench.write_fabric();
        bench.write_queue("vision", gpus, json!({}));
        bench
    }

    fn write_fabric(&mut self) {
        let levels = json!([{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]);
        self.write("Topology/fab", json!({"spec": {"levels": levels}}));
        let spec = json!({"nodeLabels": {POOL: "train"}, "topologyName": "fab"});
        self.write("ResourceFlavor/train", json!({"spec": spec}));
    }

    /// A ClusterQueue, its namespace and the LocalQueue `main` in it.
    fn write_queue(&mut self, name: &str, gpus: u32, more: Value) {
        self.write(&format!("Namespace/{name}"), json!({}));
        self.write(&format!("ClusterQueue/{name}"), queue_body(gpus, more));
        self.write(&format!("LocalQueue/{name}/main"), json!({"spec": {"clusterQueue": name}}));
    }

    fn try_write(&mut self, key: &str, body: Value) -> Result<Done, ProviderError> {
        let object = Object::new(key.parse().unwrap(), body);
        self.perform(&ClusterAction::Apply(object))
    }

    fn write(&mut self, key: &str, body: Value) {
        self.try_write(key, body).unwrap();
    }

    fn perform(&mut self, action: &ClusterAction) -> Result<Done, ProviderError> {
        self.state.perform(self.now, action)
    }

    fn advance(&mut self, secs: i64) {
        self.advance_ms(secs * 1000);
    }

    fn advance_ms(&mut self, millis: i64) {
        self.now = self.now.checked_add(SignedDuration::from_millis(millis)).unwrap();
        self.state.tick(self.now);
    }

    fn seen(&self) -> ClusterSeen {
        self.state.observe(self.now)
    }

    fn node(&self, name: &str) -> NodeSeen {
        self.seen().nodes.seen()[name].clone()
    }

    fn gpus(&self, name: &str) -> i64 {
        self.allocatable(name, "nvidia.com/gpu")
    }

    fn allocatable(&self, name: &str, resource: &str) -> i64 {
        self.node(name).allocatable.get(resource).copied().unwrap_or(0)
    }

    fn pods_of(&self, app: &str) -> Vec<PodSeen> {
        let prefix = format!("{app}-");
        let all = self.seen();
        let is = |pod: &&PodSeen| pod.name.to_string().starts_with(&prefix) || pod.name.to_string() == app;
        all.pods.seen().iter().filter(is).cloned().collect()
    }

    fn gang(&mut self, name: &str, pods: u32) -> WorkloadUid {
        self.gang_with(name, pods, |_| {})
    }

    /// A gang of whole nodes in the LocalQueue `main` of its namespace.
    fn gang_with(&mut self, name: &str, pods: u32, change: impl FnOnce(&mut GangSpec)) -> WorkloadUid {
        let name = named(name);
        let mut spec = GangSpec::new(name.namespace.as_str(), &name.name, "main", pods, 8);
        change(&mut spec);
        self.state.submit_gang(self.now, spec).unwrap()
    }

    fn workload(&self, uid: &WorkloadUid) -> WorkloadSeen {
        self.seen().workloads.seen()[uid].clone()
    }

    fn service(&mut self, name: &str, replicas: u32, budget: Option<BudgetSpec>) {
        let name = named(name);
        let mut spec = ServiceSpec::new(name.namespace.as_str(), &name.name, replicas, "nvidia.com/gpu", 1, None);
        spec.budget = budget;
        self.state.submit_service(self.now, spec).unwrap();
    }

    fn evict(&mut self, pod: &PodSeen) -> Vec<Refusal> {
        let pods = vec![(pod.name.clone(), pod.uid.clone())];
        match self.perform(&ClusterAction::Evict { pods, force: false }).unwrap() {
            Done::Evicted { refused } => refused,
            other => panic!("{other:?}"),
        }
    }

    fn cordon(&mut self, node: &str) {
        let mark = mark(self.now);
        self.perform(&ClusterAction::Cordon { node: node.into(), mark }).unwrap();
    }

    fn suspend(&mut self, uid: &WorkloadUid) {
        let mark = mark(self.now);
        self.perform(&ClusterAction::Suspend { workload: uid.clone(), mark }).unwrap();
    }

    fn resume(&mut self, uid: &WorkloadUid) {
        self.perform(&ClusterAction::Resume { workload: uid.clone() }).unwrap();
    }
}

fn queue_body(gpus: u32, more: Value) -> Value {
    let mut quota = json!({"name": "nvidia.com/gpu", "nominalQuota": gpus.to_string()});
    let mut spec = json!({
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    });
    for (key, value) in more.as_object().unwrap() {
        let target = if key.ends_with("Limit") { &mut quota } else { &mut spec };
        target[key] = value.clone();
    }
    let flavor = json!({"name": "train", "resources": [quota]});
    spec["resourceGroups"] = json!([{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]);
    json!({ "spec": spec })
}

fn instance(name: &str) -> InstanceId {
    format!("i-{name}").as_str().into()
}

fn key(kind: ObjectKind, name: &str) -> ObjectKey {
    ObjectKey::cluster(kind, name)
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
