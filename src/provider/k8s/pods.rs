//! A Pod of the API, and what is kept of it: who makes it again, with whom it runs and ends, what it holds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::budgets::Selectors;
use super::claims::Claims;
use super::nodes::amounts;
use super::slim::{Condition, Meta, Owner, Pairs, Text};
use super::workloads::Links;
use crate::effect::marks::{ASKED, DRAIN_TAINT, Mark, SAVED};
use crate::ids::{NamespacedName, ResourceName};
use crate::observed::{GangName, Keeper, PodPhase, PodSeen};

/// What else has to be known to understand a pod.
#[derive(Default, Debug)]
pub struct Around {
    pub budgets: Selectors,
    pub links: Links,
    pub claims: Claims,
    /// PodGroups whose pods need not run together.
    pub loose: BTreeSet<NamespacedName>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Pod<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    pub spec: PodSpec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

/// Also the template of a workload's pods.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec<'a> {
    #[serde(borrow)]
    node_name: Text<'a>,
    priority: i32,
    termination_grace_period_seconds: Option<u32>,
    #[serde(borrow)]
    containers: Vec<Container<'a>>,
    #[serde(borrow)]
    init_containers: Option<Vec<Container<'a>>>,
    #[serde(borrow)]
    overhead: Option<Pairs<'a>>,
    volumes: Option<Vec<Volume>>,
    #[serde(borrow)]
    resource_claims: Option<Vec<Claim<'a>>>,
    #[serde(borrow)]
    scheduling_group: Option<Group<'a>>,
    #[serde(borrow)]
    workload_ref: Option<Group<'a>>,
    #[serde(borrow)]
    tolerations: Option<Vec<Toleration<'a>>>,
}

/// Which taints do not keep a pod away; a key, a value or an effect that is not there stands for all of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Toleration<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow)]
    value: Text<'a>,
    #[serde(borrow)]
    effect: Text<'a>,
}

impl Toleration<'_> {
    /// Whether it is for a taint that has this key, no value, and keeps new pods away.
    fn is_for(&self, key: &str) -> bool {
        let names = match (self.key.as_str(), self.operator.as_str()) {
            ("", "Exists") => true,
            (named, "Exists") => named == key,
            (named, _) => named == key && self.value.is_empty(),
        };
        names && matches!(self.effect.as_str(), "" | "NoSchedule")
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container<'a> {
    #[serde(borrow)]
    resources: Option<Resources<'a>>,
    #[serde(borrow)]
    restart_policy: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources<'a> {
    #[serde(borrow)]
    requests: Option<Pairs<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    empty_dir: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Claim<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    resource_claim_name: Text<'a>,
}

/// The in-tree gang: `schedulingGroup` since 1.36, `workloadRef` in 1.35.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Group<'a> {
    #[serde(borrow)]
    pod_group_name: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    pod_group: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
    start_time: Option<Timestamp>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow)]
    resource_claim_statuses: Option<Vec<Claim<'a>>>,
}

pub fn seen(pod: &Pod<'_>, around: &Around) -> PodSeen {
    let (meta, spec, status) = (&pod.metadata, &pod.spec, &pod.status);
    let name = NamespacedName::new(meta.namespace.as_str(), meta.name.as_str());
    let workload = around.links.workload_of(meta);
    let grace = meta.deletion_grace_period_seconds.and_then(|secs| u32::try_from(secs).ok());
    let mut requests = requests(spec);
    for (resource, devices) in claimed(pod, around) {
        *requests.entry(resource).or_default() += devices;
    }
    PodSeen {
        uid: meta.uid.as_str().into(),
        node: (!spec.node_name.is_empty()).then(|| spec.node_name.as_str().into()),
        phase: match status.phase.as_str() {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            // A phase that nobody knows is one that may still run.
            "Unknown" => PodPhase::Running,
            _ => PodPhase::Pending,
        },
        ready: status.conditions.iter().flatten().any(|one| one.kind.as_str() == "Ready" && one.is_true()),
        keeper: keeper(meta),
        owner: meta.controller().map(|owner| owner.uid.as_str().into()),
        gang: gang(pod, workload.is_some(), around),
        workload,
        priority: spec.priority,
        requests,
        started: status.start_time,
        terminating: meta.deletion_timestamp,
        grace_secs: grace.or(spec.termination_grace_period_seconds).unwrap_or(30),
        empty_dir: spec.volumes.iter().flatten().any(|volume| volume.empty_dir.is_some()),
        goes_anywhere: CLOSED_BY.iter().all(|key| spec.tolerations.iter().flatten().any(|one| one.is_for(key))),
        saved: meta.note(SAVED).and_then(|text| text.parse().ok()),
        asked: meta.note(ASKED).map(|text| Mark::parse(text).since),
        budgets: around.budgets.of(meta),
        name,
    }
}

/// The taints of a node that we closed: the scheduler takes its being unschedulable for one.
const CLOSED_BY: [&str; 2] = [DRAIN_TAINT, "node.kubernetes.io/unschedulable"];

fn keeper(meta: &Meta<'_>) -> Keeper {
    if meta.note("kubernetes.io/config.mirror").is_some() {
        return Keeper::Mirror;
    }
    match meta.controller() {
        Some(owner) if owner.kind.as_str() == "DaemonSet" => Keeper::DaemonSet,
        Some(_) => Keeper::Controller,
        None => Keeper::Nobody,
    }
}

/// What the containers ask for: all that run together, or the largest of those that run before them.
pub fn requests(spec: &PodSpec<'_>) -> BTreeMap<ResourceName, i64> {
    let of = |container: &Container<'_>| {
        let asked = container.resources.as_ref().and_then(|resources| resources.requests.clone());
        amounts(asked.into_iter().flat_map(|asked| asked.0))
    };
    let mut sum: BTreeMap<ResourceName, i64> = BTreeMap::new();
    let add = |sum: &mut BTreeMap<ResourceName, i64>, more: BTreeMap<ResourceName, i64>| {
        more.into_iter().for_each(|(resource, amount)| *sum.entry(resource).or_default() += amount);
    };
    spec.containers.iter().for_each(|container| add(&mut sum, of(container)));
    // A container that starts first and stays counts with the others; one that ends counts where it is the largest.
    let (mut beside, mut most): (BTreeMap<ResourceName, i64>, BTreeMap<ResourceName, i64>) = Default::default();
    for container in spec.init_containers.iter().flatten() {
        let asked = of(container);
        if container.restart_policy.as_str() == "Always" {
            add(&mut beside, asked);
        } else {
            for (resource, amount) in asked {
                let with = amount + beside.get(&resource).copied().unwrap_or(0);
                let known = most.entry(resource).or_default();
                *known = with.max(*known);
            }
        }
    }
    add(&mut sum, beside);
    for (resource, amount) in most {
        let known = sum.entry(resource).or_default();
        *known = amount.max(*known);
    }
    add(&mut sum, amounts(spec.overhead.clone().into_iter().flat_map(|overhead| overhead.0)));
    sum
}

/// What the pod's claims hold. One that others use too is counted at one of them.
fn claimed(pod: &Pod<'_>, around: &Around) -> BTreeMap<ResourceName, i64> {
    let mut sum = BTreeMap::new();
    for claim in pod.spec.resource_claims.iter().flatten() {
        let made = pod.status.resource_claim_statuses.iter().flatten().find(|made| made.name == claim.name);
        let name = if claim.resource_claim_name.is_empty() {
            made.map(|made| made.resource_claim_name.as_str()).unwrap_or_default()
        } else {
            claim.resource_claim_name.as_str()
        };
        let held = around.claims.get(&NamespacedName::new(pod.metadata.namespace.as_str(), name));
        let ours =
            held.filter(|held| held.counted_at.as_ref().is_none_or(|uid| uid.as_str() == pod.metadata.uid.as_str()));
        for (resource, devices) in ours.into_iter().flat_map(|held| &held.devices) {
            *sum.entry(resource.clone()).or_default() += devices;
        }
    }
    sum
}

/// Labels and annotations by which a pod names the gang that it is in.
const NAMED_BY: [&str; 8] = [
    "jobset.sigs.k8s.io/jobset-name",
    "ray.io/cluster",
    "volcano.sh/job-name",
    "scheduling.k8s.io/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group-name",
    "kueue.x-k8s.io/pod-group-name",
    "training.kubeflow.org/job-name",
];

/// Owners whose pods stand for themselves.
const ALONE: [&str; 6] = ["ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Node", "CronJob"];

fn gang(pod: &Pod<'_>, has_workload: bool, around: &Around) -> Option<GangName> {
    let meta = &pod.metadata;
    let namespace = meta.namespace.as_str();
    let named = |name: &str| Some(GangName(format!("{namespace}/{name}").into()));
    if let Some(group) = in_tree(&pod.spec) {
        let is_loose = around.loose.contains(&NamespacedName::new(namespace, &group));
        return if is_loose { None } else { named(&group) };
    }
    // A group of a LeaderWorkerSet runs and ends together; the set is many of them.
    if let Some(set) = meta.label("leaderworkerset.sigs.k8s.io/name") {
        let group = meta.label("leaderworkerset.sigs.k8s.io/group-index").unwrap_or("0");
        return named(&format!("{set}-{group}"));
    }
    if let Some(name) = NAMED_BY.iter().find_map(|key| meta.label(key).or_else(|| meta.note(key))) {
        return named(name);
    }
    let owner = meta.controller()?;
    let is_gang = match owner.kind.as_str() {
        // The pods of an indexed Job know each other; those of another Job only do the same thing.
        "Job" => has_workload || meta.label("batch.kubernetes.io/job-completion-index").is_some(),
        kind => !ALONE.contains(&kind),
    };
    is_gang.then(|| named(Owner::name(owner))).flatten()
}

fn in_tree(spec: &PodSpec<'_>) -> Option<String> {
    if let Some(group) = spec.scheduling_group.as_ref().filter(|group| !group.pod_group_name.is_empty()) {
        return Some(group.pod_group_name.as_str().into());
    }
    let group = spec.workload_ref.as_ref().filter(|group| !group.name.is_empty())?;
    Some(format!("{}-{}", group.name.as_str(), group.pod_group.as_str()))
}

impl Owner<'_> {
    fn name(&self) -> &str {
        self.name.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::provider::k8s::claims::Held;

    fn pod(meta: Value, spec: Value) -> PodSeen {
        pod_around(meta, spec, &Around::default())
    }

    fn pod_around(meta: Value, spec: Value, around: &Around) -> PodSeen {
        let mut metadata = json!({"name": "p", "namespace": "vision", "uid": "u-1"});
        metadata.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        let status = json!({"phase": "Running", "startTime": "2026-09-03T10:00:00Z",
                            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x2"}],
                            "conditions": [{"type": "Ready", "status": "True"}]});
        let text = json!({"metadata": metadata, "spec": spec, "status": status}).to_string();
        seen(&serde_json::from_str(&text).unwrap(), around)
    }

    fn owned_by(kind: &str) -> Value {
        json!({"ownerReferences": [{"kind": kind, "name": "owner", "uid": "o-1", "controller": true}]})
    }

    #[test]
    fn a_pod_keeps_what_a_drain_needs() {
        let spec = json!({"nodeName": "gpu-1", "priority": 100, "terminationGracePeriodSeconds": 120,
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "c", "configMap": {}}],
            "containers": [{"resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "8"}}},
                           {"resources": {"requests": {"cpu": "500m"}}}, {}]});
        let note = json!({"annotations": {"tidewright.dev/work-saved": "2026-09-03T11:00:00Z"}});
        let found = pod(note, spec);
        assert_eq!((found.node, found.priority, found.grace_secs), (Some("gpu-1".into()), 100, 120));
        assert!(found.empty_dir && found.ready && found.terminating.is_none());
        assert_eq!((found.requests["cpu"], found.requests["nvidia.com/gpu"]), (4500, 8));
        assert_eq!(found.saved, Some("2026-09-03T11:00:00Z".parse().unwrap()));
        assert_eq!((found.keeper, found.gang), (Keeper::Nobody, None));
    }

    #[test]
    fn who_makes_a_pod_again_is_told_as_kubectl_tells_it() {
        let of = |meta| pod(meta, json!({})).keeper;
        assert_eq!(of(owned_by("DaemonSet")), Keeper::DaemonSet);
        assert_eq!(of(owned_by("ReplicaSet")), Keeper::Controller);
        assert_eq!(of(json!({"annotations": {"kubernetes.io/config.mirror": "x"}})), Keeper::Mirror);
        assert_eq!(of(json!({"ownerReferences": [{"kind": "Job", "uid": "o"}]})), Keeper::Nobody);
    }

    #[test]
    fn gangs_are_known_by_the_labels_of_whoever_made_them() {
        let of = |key: &str| pod(json!({"labels": {key: "g"}}), json!({})).gang.map(|gang| gang.to_string());
        for key in ["jobset.sigs.k8s.io/jobset-name", "ray.io/cluster", "volcano.sh/job-name", "pod-group-name"] {
            assert_eq!(of(key).as_deref(), Some("vision/g"), "{key}");
        }
        let annotated = pod(json!({"annotations": {"scheduling.k8s.io/group-name": "pg"}}), json!({}));
        assert_eq!(annotated.gang.unwrap().to_string(), "vision/pg");
        let labels = json!({"labels": {"leaderworkerset.sigs.k8s.io/name": "llm",
                                       "leaderworkerset.sigs.k8s.io/group-index": "2"}});
        assert_eq!(pod(labels, json!({})).gang.unwrap().to_string(), "vision/llm-2");
        let group = pod(json!({}), json!({"schedulingGroup": {"podGroupName": "pg"}}));
        assert_eq!(group.gang.unwrap().to_string(), "vision/pg");
        let older = pod(json!({}), json!({"workloadRef": {"name": "w", "podGroup": "main"}}));
        assert_eq!(older.gang.unwrap().to_string(), "vision/w-main");
    }

    #[test]
    fn pods_that_only_share_an_owner_stand_for_themselves() {
        assert_eq!(pod(owned_by("ReplicaSet"), json!({})).gang, None);
        assert_eq!(pod(owned_by("Job"), json!({})).gang, None);
        assert_eq!(pod(owned_by("PyTorchJob"), json!({})).gang.unwrap().to_string(), "vision/owner");
        let mut indexed = owned_by("Job");
        indexed["labels"] = json!({"batch.kubernetes.io/job-completion-index": "0"});
        assert_eq!(pod(indexed, json!({})).gang.unwrap().to_string(), "vision/owner");
        let around = Around { loose: [NamespacedName::new("vision", "pg")].into(), ..Around::default() };
        let loose = pod_around(json!({}), json!({"schedulingGroup": {"podGroupName": "pg"}}), &around);
        assert_eq!(loose.gang, None, "a PodGroup that is no gang");
    }

    #[test]
    fn whom_no_taint_keeps_away_is_known_by_what_it_tolerates() {
        let anywhere = |tolerations: Value| pod(json!({}), json!({"tolerations": tolerations})).goes_anywhere;
        assert!(anywhere(json!([{"operator": "Exists"}])));
        assert!(anywhere(json!([{"operator": "Exists", "effect": "NoSchedule"}])));
        let both = json!([{"key": "tidewright.dev/drain", "operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Equal", "effect": "NoSchedule"}]);
        assert!(anywhere(both));
        // What every pod has, the usual GPU pod, and one that only ignores a cordon.
        let usual = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "nvidia.com/gpu", "operator": "Exists"}]);
        assert!(!anywhere(usual));
        assert!(!anywhere(json!([{"operator": "Exists", "effect": "NoExecute"}])));
        assert!(!anywhere(json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])));
        assert!(!anywhere(json!([{"key": "tidewright.dev/drain", "value": "x"}])));
    }

    #[test]
    fn containers_that_run_first_count_where_they_are_larger() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = asks("1");
        sidecar["restartPolicy"] = json!("Always");
        let spec =
            json!({"containers": [asks("2")], "initContainers": [sidecar, asks("5")], "overhead": {"cpu": "100m"}});
        assert_eq!(pod(json!({}), spec).requests["cpu"], 6100);
    }

    #[test]
    fn devices_of_a_claim_count_once() {
        let held = |name: &str, gpus, at: &str| {
            let held = Held { devices: [("nvidia.com/gpu".into(), gpus)].into(), counted_at: Some(at.into()) };
            (NamespacedName::new("vision", name), held)
        };
        let claims = [held("shared", 1, "u-1"), held("others", 4, "u-2"), held("p-gpu-x2", 2, "u-1")];
        let around = Around { claims: claims.into(), ..Around::default() };
        let spec = json!({"nodeName": "gpu-1", "containers": [{}], "resourceClaims": [
            {"name": "gpu", "resourceClaimTemplateName": "two"}, {"name": "s", "resourceClaimName": "shared"},
            {"name": "o", "resourceClaimName": "others"}]});
        assert_eq!(pod_around(json!({}), spec.clone(), &around).requests["nvidia.com/gpu"], 3);
        assert!(pod(json!({}), spec).requests.is_empty());
    }
}
