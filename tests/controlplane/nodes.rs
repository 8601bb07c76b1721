//! GPU nodes as EKS and NVIDIA's operator would label them, with nothing behind them: KWOK keeps them alive and runs
//! the pods that are bound to them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::api::eventually;
use super::plane::Controlplane;

/// What an instance type brings. Not from the product's catalogue: it is one of the things on trial.
#[derive(Debug, Clone, Copy)]
struct Hardware {
    product: &'static str,
    family: &'static str,
    memory_mib: u32,
    gpus: u32,
    efa: u32,
    cpu: &'static str,
    memory: &'static str,
}

fn hardware(instance_type: &str) -> Hardware {
    let (product, family, memory_mib, efa, cpu, memory) = match instance_type {
        "p4d.24xlarge" => ("NVIDIA-A100-SXM4-40GB", "ampere", 40_960, 4, "95690m", "1123Gi"),
        "p5.48xlarge" => ("NVIDIA-H100-80GB-HBM3", "hopper", 81_559, 32, "191450m", "2028Gi"),
        "p5en.48xlarge" => ("NVIDIA-H200", "hopper", 143_771, 16, "191450m", "2028Gi"),
        other => panic!("no hardware for {other}: add it"),
    };
    Hardware { product, family, memory_mib, gpus: 8, efa, cpu, memory }
}

/// A row of equal nodes: `PREFIX-0`, `PREFIX-1` …, filled leaf by leaf.
#[derive(Debug, Clone)]
pub struct GpuNodes {
    pub prefix: String,
    pub count: usize,
    pub instance_type: &'static str,
    pub zone: &'static str,
    pub nodes_per_leaf: usize,
    pub leaves_per_block: usize,
    pub blocks_per_spine: usize,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Value>,
    /// Absent: one of EC2's that belongs to the name.
    pub provider_id: Option<String>,
    /// One node, which is called `PREFIX` and nothing more.
    alone: bool,
}

impl GpuNodes {
    pub fn new(prefix: &str, count: usize) -> GpuNodes {
        GpuNodes {
            prefix: prefix.to_owned(),
            count,
            instance_type: "p5.48xlarge",
            zone: "us-east-1a",
            nodes_per_leaf: 4,
            leaves_per_block: 4,
            blocks_per_spine: 4,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            provider_id: None,
            alone: false,
        }
    }

    /// One node with this name.
    pub fn named(name: &str) -> GpuNodes {
        GpuNodes { alone: true, ..GpuNodes::new(name, 1) }
    }

    pub fn label(mut self, key: &str, value: &str) -> GpuNodes {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn names(&self) -> Vec<String> {
        (0..self.count).map(|index| self.name(index)).collect()
    }

    fn name(&self, index: usize) -> String {
        if self.alone { self.prefix.clone() } else { format!("{}-{index}", self.prefix) }
    }

    fn node(&self, index: usize) -> Value {
        let name = self.name(index);
        let hardware = hardware(self.instance_type);
        let mut labels = self.provider_labels(&name, index);
        labels.extend(gpu_labels(hardware));
        labels.extend(self.labels.clone());
        let resources = json!({
            "cpu": hardware.cpu, "memory": hardware.memory, "pods": "250", "ephemeral-storage": "900Gi",
            "hugepages-2Mi": "5128Mi", "hugepages-1Gi": "0",
            "nvidia.com/gpu": hardware.gpus.to_string(), "vpc.amazonaws.com/efa": hardware.efa.to_string(),
        });
        let of_name = || format!("aws:///{}/i-{}", self.zone, digits(&name));
        let provider_id = self.provider_id.clone().unwrap_or_else(of_name);
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": provider_id, "taints": self.taints},
            "status": {"capacity": resources, "allocatable": resources},
        })
    }

    fn provider_labels(&self, name: &str, index: usize) -> BTreeMap<String, String> {
        let leaf = index / self.nodes_per_leaf;
        let block = leaf / self.leaves_per_block;
        let spine = block / self.blocks_per_spine;
        let fabric =
            |level: &str, number: usize| format!("nn-{}", digits(&format!("{}/{level}/{number}", self.prefix)));
        let region = self.zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
        [
            ("kubernetes.io/hostname", name.to_owned()),
            ("kubernetes.io/os", "linux".to_owned()),
            ("kubernetes.io/arch", "amd64".to_owned()),
            ("node.kubernetes.io/instance-type", self.instance_type.to_owned()),
            ("topology.kubernetes.io/region", region.to_owned()),
            ("topology.kubernetes.io/zone", self.zone.to_owned()),
            ("topology.k8s.aws/network-node-layer-1", fabric("spine", spine)),
            ("topology.k8s.aws/network-node-layer-2", fabric("block", block)),
            ("topology.k8s.aws/network-node-layer-3", fabric("leaf", leaf)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }
}

/// What GPU feature discovery and the operator write.
fn gpu_labels(hardware: Hardware) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [
        ("nvidia.com/gpu.present", "true".to_owned()),
        ("nvidia.com/gpu.product", hardware.product.to_owned()),
        ("nvidia.com/gpu.family", hardware.family.to_owned()),
        ("nvidia.com/gpu.memory", hardware.memory_mib.to_string()),
        ("nvidia.com/gpu.count", hardware.gpus.to_string()),
        ("nvidia.com/gpu.replicas", "1".to_owned()),
        ("nvidia.com/gpu.sharing-strategy", "none".to_owned()),
        ("nvidia.com/mig.capable", "true".to_owned()),
        ("nvidia.com/mig.strategy", "mixed".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    for part in super::mig::PAUSED_PARTS {
        labels.insert(format!("nvidia.com/gpu.deploy.{part}"), "true".to_owned());
    }
    labels
}

/// Seventeen hexadecimal digits that belong to the text, as in the ids of EC2.
fn digits(text: &str) -> String {
    use sha2::{Digest, Sha256};
    data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))[..17].to_owned()
}

impl Controlplane {
    /// Creates them; when this returns all are Ready.
    #[track_caller]
    pub fn add_nodes(&self, nodes: &GpuNodes) {
        let objects: Vec<Value> = (0..nodes.count).map(|index| nodes.node(index)).collect();
        self.api.create_all(&objects);
        let names = nodes.names();
        eventually("all nodes are ready", 60, || {
            let listed = self.api.list("/api/v1/nodes?resourceVersion=0");
            let ready = |node: &&Value| {
                let conditions = node["status"]["conditions"].as_array();
                conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
            };
            let ready: Vec<&str> =
                listed.iter().filter(ready).map(|node| node["metadata"]["name"].as_str().unwrap()).collect();
            names.iter().all(|name| ready.contains(&name.as_str())).then_some(())
        });
    }

    #[track_caller]
    pub fn node(&self, name: &str) -> Value {
        self.api.get(&format!("/api/v1/nodes/{name}")).unwrap()
    }
}
