//! The simulated cluster. Here only as much of it as the simulated cloud speaks to: nodes that come and go.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::effect::{ClusterAction, Subject};
use crate::fleet::launch::Taint;
use crate::ids::{GpuModel, InstanceId, InstanceType, NodeName, Uid};
use crate::observed::{ClusterSeen, NodeSeen, Read};
use crate::provider::{Done, ProviderError};

/// A machine that joins the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeJoin {
    pub name: NodeName,
    pub instance: Option<InstanceId>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub gpus: u32,
    pub gpu: Option<GpuModel>,
    pub instance_type: InstanceType,
    pub vcpus: u32,
    pub memory_gib: u32,
    pub efa: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClusterState {
    nodes: BTreeMap<NodeName, NodeSeen>,
    back: BTreeMap<Timestamp, Vec<InstanceId>>,
}

impl ClusterState {
    pub fn new(_seed: u64) -> Self {
        Self { nodes: BTreeMap::new(), back: BTreeMap::new() }
    }

    pub fn tick(&mut self, now: Timestamp) {
        while let Some(entry) = self.back.first_entry().filter(|entry| *entry.key() <= now) {
            for id in entry.remove() {
                self.set_ready(&id, true);
            }
        }
    }

    pub fn next_event(&self) -> Option<Timestamp> {
        self.back.keys().next().copied()
    }

    pub fn node_joins(&mut self, now: Timestamp, join: NodeJoin) {
        let node = NodeSeen {
            uid: Uid::from(join.name.as_str()),
            instance: join.instance,
            labels: join.labels,
            annotations: BTreeMap::new(),
            taints: join.taints,
            unschedulable: false,
            ready: true,
            allocatable: [("nvidia.com/gpu".into(), i64::from(join.gpus))].into(),
            conditions: BTreeMap::new(),
            created: now,
        };
        self.nodes.insert(join.name, node);
    }

    pub fn node_gone(&mut self, _now: Timestamp, instance: &InstanceId) {
        self.set_ready(instance, false);
    }

    pub fn node_reboots(&mut self, _now: Timestamp, instance: &InstanceId, back_at: Timestamp) {
        self.set_ready(instance, false);
        self.back.entry(back_at).or_default().push(instance.clone());
    }

    pub fn observe(&self, now: Timestamp) -> ClusterSeen {
        ClusterSeen {
            nodes: Read::new(self.nodes.clone(), now),
            pods: Read::new(Vec::new(), now),
            workloads: Read::new(BTreeMap::new(), now),
            budgets: Read::new(BTreeMap::new(), now),
            objects: Read::new(BTreeMap::new(), now),
        }
    }

    pub fn reread(&self, now: Timestamp, _what: &[Subject]) -> ClusterSeen {
        self.observe(now)
    }

    pub fn perform(&mut self, _now: Timestamp, _action: &ClusterAction) -> Result<Done, ProviderError> {
        Ok(Done::Nothing)
    }

    fn set_ready(&mut self, instance: &InstanceId, ready: bool) {
        for node in self.nodes.values_mut().filter(|node| node.instance.as_ref() == Some(instance)) {
            node.ready = ready;
        }
    }
}
