//! Kueue objects and Jobs written by hand, for suites that need a scene and not the product's own objects.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::plane::Controlplane;

const KUEUE: &str = "kueue.x-k8s.io/v1beta2";

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A flavor is whatever nodes carry `pool: NAME`.
pub fn flavor(name: &str) -> Value {
    json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": {"pool": name}}})
}

/// A queue with GPUs and next to no limit on cpu and memory: what a pod asks for and a queue does not cover is never
/// admitted.
pub fn cluster_queue(name: &str, cohort: &str, flavor: &str, gpus: u64) -> Value {
    let quota = |resource: &str, nominal: &str| json!({"name": resource, "nominalQuota": nominal});
    let resources = [quota("cpu", "100k"), quota("memory", "1Pi"), quota("nvidia.com/gpu", &gpus.to_string())];
    json!({
        "apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{
                "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
                "flavors": [{"name": flavor, "resources": resources}],
            }],
        },
    })
}

/// The queue of a namespace, named like the one behind it.
pub fn local_queue(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": name},
    })
}

/// A gang: so many pods at once, each with so many GPUs.
pub fn gang(namespace: &str, name: &str, queue: &str, pods: u64, gpus: u64) -> Value {
    let asked = json!({"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": gpus.to_string()});
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed", "suspend": true,
            "template": {
                "metadata": {"annotations": {}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "train", "resources": {"requests": asked, "limits": asked}}],
                },
            },
        },
    })
}

/// The GPU Operator's kind, which takes whatever it is given; the operator itself is not here.
pub fn cluster_policies() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": anything, "status": anything}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterpolicies.nvidia.com"},
        "spec": {
            "group": "nvidia.com", "scope": "Cluster",
            "names": {"kind": "ClusterPolicy", "plural": "clusterpolicies", "singular": "clusterpolicy"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// As its chart installs it, with a file of cuts of its own.
pub fn cluster_policy() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
        "spec": {
            "driver": {"enabled": true},
            "mig": {"strategy": "single"},
            "migManager": {"enabled": true, "config": {"name": "default-mig-parted-config", "default": "all-disabled"}},
            "devicePlugin": {"enabled": true, "config": {"name": "", "default": ""}},
        },
    })
}

impl Controlplane {
    /// Ends all Jobs of these namespaces; their pods go when they go.
    pub fn end_jobs(&self, namespaces: &BTreeSet<String>) {
        for namespace in namespaces {
            self.api.delete(&format!("/apis/batch/v1/namespaces/{namespace}/jobs?propagationPolicy=Background"));
        }
    }
}

/// A condition of an object's status: its reason if it is true.
pub fn is_true(object: &Value, condition: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|found| found["type"] == condition && found["status"] == "True")?;
    Some(found["reason"].as_str().unwrap_or_default().to_owned())
}
