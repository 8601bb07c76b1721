//! The simulated world, as whoever watches asks about it.

use serde_json::Value;

use crate::effect::marks::{MIG_CONFIG, PLUGIN_CONFIG};
use crate::effect::{Ledger, Slot};
use crate::ids::{InstanceId, NodeName, SlotId, WorkloadUid};
use crate::observed::{ClusterSeen, Market, NodeSeen, ObjectKey, ObjectKind, PodSeen};
use crate::provider::sim::State;
use crate::provider::sim::cloud::Instance;
use crate::provider::sim::cluster::{DEVICE_PLUGIN, GPU_NAMESPACE, MIG_PARTED, MIG_PARTED_KEY};

/// One instant of it.
pub struct Scene<'a> {
    pub state: &'a State,
    pub seen: ClusterSeen,
    pub ledger: Ledger,
}

impl<'a> Scene<'a> {
    pub fn new(state: &'a State) -> Self {
        let mut ledger = state.ledger.whole().0;
        // An exchange is made from its first record on.
        ledger.settle_exchanges();
        Self { state, seen: state.cluster.observe(state.now), ledger }
    }

    pub fn node(&self, name: &NodeName) -> Option<&NodeSeen> {
        self.seen.nodes.seen().get(name)
    }

    pub fn instance(&self, node: &NodeSeen) -> Option<&'a Instance> {
        self.state.cloud.instances.get(node.instance.as_ref()?)
    }

    /// Whether it runs or will run.
    pub fn serves(&self, instance: &InstanceId) -> bool {
        self.state.cloud.instances.get(instance).is_some_and(|found| found.state.serves())
    }

    pub fn node_of(&self, instance: &InstanceId) -> Option<(&NodeName, &NodeSeen)> {
        self.seen.nodes.seen().iter().find(|(_, node)| node.instance.as_ref() == Some(instance))
    }

    /// The slot whose record has a node, or its instance.
    pub fn slot_of(&self, name: &NodeName) -> Option<(SlotId, &Slot)> {
        let instance = self.node(name).and_then(|node| node.instance.as_ref());
        let has = |slot: &Slot| {
            slot.node.as_ref() == Some(name) || (instance.is_some() && slot.instance.as_ref() == instance)
        };
        let mut all = self.ledger.pools.iter().flat_map(|(pool, known)| known.slots.iter().map(move |one| (pool, one)));
        all.find(|(_, (_, slot))| has(slot)).map(|(pool, (index, slot))| (SlotId::new(pool, *index), slot))
    }

    /// The slot whose machine an instance is: by its record, else by its tag.
    pub fn slot_of_instance(&self, id: &InstanceId, found: &Instance) -> Option<SlotId> {
        let mut all = self.ledger.pools.iter().flat_map(|(pool, known)| known.slots.iter().map(move |one| (pool, one)));
        let recorded = all.find(|(_, (_, slot))| slot.instance.as_ref() == Some(id));
        let recorded = recorded.map(|(pool, (index, _))| SlotId::new(pool, *index));
        recorded.or_else(|| found.tag.as_ref().map(|tag| tag.slot.clone()))
    }

    /// What a drain has to send away.
    pub fn pods_on<'s>(&'s self, node: &'s NodeName) -> impl Iterator<Item = &'s PodSeen> + 's {
        self.seen.pods.seen().iter().filter(move |pod| pod.node.as_ref() == Some(node) && pod.counts())
    }

    /// Where the pods of a workload are.
    pub fn nodes_of(&self, workload: &WorkloadUid) -> impl Iterator<Item = &NodeName> {
        let pods = self.seen.pods.seen().iter().filter(move |pod| pod.workload.as_ref() == Some(workload));
        pods.filter_map(|pod| pod.node.as_ref())
    }

    /// Whether the cloud takes the machine of a node away, at an instant that nobody here decides.
    pub fn ends(&self, node: &NodeName) -> bool {
        let found = self.node(node).and_then(|node| self.instance(node));
        found.is_some_and(|found| found.notice.is_some() || found.market == Market::Block)
    }

    /// Whether the file that a label's value is looked up in has this one. What the operator brings along is in no file.
    pub fn lists(&self, label: &str, entry: &str) -> bool {
        let there = file(label).and_then(|key| self.seen.objects.seen().get(&key));
        there.is_some_and(|there| lists(&there.body, entry))
    }

    /// Whether it takes any of ours.
    pub fn anything_ends(&self) -> bool {
        let ours = self.state.cloud.instances.values().filter(|found| found.tag.is_some() && found.state.serves());
        ours.into_iter().any(|found| found.notice.is_some() || found.market == Market::Block)
    }
}

/// Where mig-manager and the device plugin look a label's value up.
pub fn file(label: &str) -> Option<ObjectKey> {
    let name = match label {
        MIG_CONFIG => MIG_PARTED,
        PLUGIN_CONFIG => DEVICE_PLUGIN,
        _ => return None,
    };
    Some(ObjectKey::namespaced(ObjectKind::ConfigMap, GPU_NAMESPACE, name))
}

/// Whether an entry is in a file: by its own name, or in the one file of mig-parted.
pub fn lists(body: &Value, entry: &str) -> bool {
    let data = &body["data"];
    let cuts = data[MIG_PARTED_KEY].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    data.get(entry).is_some() || cuts.is_some_and(|cuts| cuts["mig-configs"].get(entry).is_some())
}
