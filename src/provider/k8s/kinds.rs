//! Where the kinds that we write, or only look at, live on the API server.

use crate::observed::{ObjectKey, ObjectKind};

/// What Kueue must serve.
pub const KUEUE: &str = "kueue.x-k8s.io";
pub const KUEUE_VERSION: &str = "v1beta2";
pub const WORKLOADS: &str = "workloads";

/// `/apis/kueue.x-k8s.io/v1beta2` for all kinds of one API.
fn root(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

pub fn is_kueue(kind: ObjectKind) -> bool {
    kind.api_version().starts_with(KUEUE)
}

/// Kinds that came with Kubernetes 1.36: an older server has none of them, which is known.
pub const fn is_new(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::MutatingAdmissionPolicy | ObjectKind::MutatingAdmissionPolicyBinding)
}

pub const fn plural(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Topology => "topologies",
        ObjectKind::ResourceFlavor => "resourceflavors",
        ObjectKind::Cohort => "cohorts",
        ObjectKind::ClusterQueue => "clusterqueues",
        ObjectKind::LocalQueue => "localqueues",
        ObjectKind::Namespace => "namespaces",
        ObjectKind::PriorityClass => "priorityclasses",
        ObjectKind::WorkloadPriorityClass => "workloadpriorityclasses",
        ObjectKind::ConfigMap => "configmaps",
        ObjectKind::ValidatingAdmissionPolicy => "validatingadmissionpolicies",
        ObjectKind::ValidatingAdmissionPolicyBinding => "validatingadmissionpolicybindings",
        ObjectKind::MutatingAdmissionPolicy => "mutatingadmissionpolicies",
        ObjectKind::MutatingAdmissionPolicyBinding => "mutatingadmissionpolicybindings",
        ObjectKind::ClusterPolicy => "clusterpolicies",
    }
}

/// All objects of a kind, or those of one namespace.
pub fn collection(kind: ObjectKind, namespace: Option<&str>) -> String {
    below(&root(kind.api_version()), namespace, plural(kind))
}

pub fn path(key: &ObjectKey) -> String {
    format!("{}/{}", collection(key.kind, key.namespace.as_deref()), key.name)
}

pub fn nodes() -> String {
    "/api/v1/nodes".into()
}

pub fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

pub fn pods(namespace: Option<&str>) -> String {
    below("/api/v1", namespace, "pods")
}

pub fn pod(namespace: &str, name: &str) -> String {
    format!("{}/{name}", pods(Some(namespace)))
}

pub fn budgets(namespace: Option<&str>) -> String {
    below("/apis/policy/v1", namespace, "poddisruptionbudgets")
}

pub fn workloads(namespace: Option<&str>) -> String {
    below(&format!("/apis/{KUEUE}/{KUEUE_VERSION}"), namespace, WORKLOADS)
}

pub fn workload(namespace: &str, name: &str) -> String {
    format!("{}/{name}", workloads(Some(namespace)))
}

pub fn job(namespace: &str, name: &str) -> String {
    format!("{}/{name}", below("/apis/batch/v1", Some(namespace), "jobs"))
}

pub fn claims(version: &str, namespace: Option<&str>) -> String {
    below(&format!("/apis/resource.k8s.io/{version}"), namespace, "resourceclaims")
}

pub fn pod_groups(version: &str, namespace: Option<&str>) -> String {
    below(&format!("/apis/scheduling.k8s.io/{version}"), namespace, "podgroups")
}

fn below(root: &str, namespace: Option<&str>, plural: &str) -> String {
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_where_the_server_keeps_them() {
        let queue = ObjectKey::cluster(ObjectKind::ClusterQueue, "vision");
        assert_eq!(path(&queue), "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/vision");
        let local = ObjectKey::namespaced(ObjectKind::LocalQueue, "vision", "main");
        assert_eq!(path(&local), "/apis/kueue.x-k8s.io/v1beta2/namespaces/vision/localqueues/main");
        let map = ObjectKey::namespaced(ObjectKind::ConfigMap, "gpu-operator", "m");
        assert_eq!(path(&map), "/api/v1/namespaces/gpu-operator/configmaps/m");
        assert_eq!(path(&ObjectKey::cluster(ObjectKind::Namespace, "vision")), "/api/v1/namespaces/vision");
    }
}
