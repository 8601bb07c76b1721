//! A Workload of Kueue, and what is kept of it; and which pods belong to which.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::pods::{PodSpec, requests};
use super::slim::{Condition, Meta, Pairs, Text};
use crate::effect::marks::{ASKED, FEWEST, SAVED, SUSPENDED};
use crate::ids::{NamespacedName, NodeName, ResourceName, WorkloadUid};
use crate::observed::WorkloadSeen;

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Workload<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    queue_name: Text<'a>,
    active: Option<bool>,
    priority: i32,
    #[serde(borrow)]
    priority_class_ref: Option<ClassRef<'a>>,
    #[serde(borrow)]
    pod_sets: Vec<PodSet<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClassRef<'a> {
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSet<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    count: u32,
    #[serde(borrow)]
    template: Template<'a>,
    #[serde(borrow)]
    topology_request: Option<TopologyRequest<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: PodSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TopologyRequest<'a> {
    #[serde(borrow)]
    required: Option<Text<'a>>,
    #[serde(borrow)]
    preferred: Option<Text<'a>>,
    unconstrained: Option<bool>,
    pod_set_slice_size: Option<IgnoredAny>,
    pod_set_slice_required_topology: Option<IgnoredAny>,
    podset_slice_required_topology_constraints: Option<IgnoredAny>,
}

impl TopologyRequest<'_> {
    /// Whether it says anything of a place, as Kueue reads it.
    fn says(&self) -> bool {
        self.required.is_some()
            || self.preferred.is_some()
            || self.unconstrained.is_some()
            || self.pod_set_slice_size.is_some()
            || self.pod_set_slice_required_topology.is_some()
            || self.podset_slice_required_topology_constraints.is_some()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow)]
    admission: Option<Admission<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Admission<'a> {
    #[serde(borrow)]
    cluster_queue: Text<'a>,
    #[serde(borrow)]
    pod_set_assignments: Vec<Assignment<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Assignment<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    flavors: Option<Pairs<'a>>,
    count: Option<u32>,
    #[serde(borrow)]
    topology_assignment: Option<TopologyAssignment<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TopologyAssignment<'a> {
    #[serde(borrow)]
    levels: Vec<Text<'a>>,
    #[serde(borrow)]
    slices: Vec<Slice<'a>>,
}

/// Some domains, each level's values written once where they are the same.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Slice<'a> {
    domain_count: usize,
    #[serde(borrow)]
    values_per_level: Vec<Values<'a>>,
    pod_counts: PodCounts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Values<'a> {
    #[serde(borrow)]
    universal: Option<Text<'a>>,
    #[serde(borrow)]
    individual: Option<Individual<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Individual<'a> {
    #[serde(borrow)]
    prefix: Option<Text<'a>>,
    #[serde(borrow)]
    suffix: Option<Text<'a>>,
    #[serde(borrow)]
    roots: Vec<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodCounts {
    universal: Option<u32>,
    individual: Vec<u32>,
}

/// Which workload a pod belongs to: by the owner that both have, by Kueue's own word, or by the name of its group.
#[derive(Clone, Default, Debug)]
pub struct Links {
    owners: BTreeMap<String, WorkloadUid>,
    /// By namespace and name of the Workload.
    names: BTreeMap<NamespacedName, WorkloadUid>,
    /// By namespace and name of what owns the Workload.
    made_for: BTreeMap<NamespacedName, WorkloadUid>,
}

/// A workload as it was read.
#[derive(Debug)]
pub struct Found {
    pub uid: WorkloadUid,
    pub seen: WorkloadSeen,
    /// Its LocalQueue, whose ClusterQueue it waits in.
    pub local_queue: String,
    owners: Vec<(String, String)>,
}

pub fn found(workload: &Workload<'_>) -> Found {
    let (meta, spec, status) = (&workload.metadata, &workload.spec, &workload.status);
    let condition = |kind: &str| {
        status.conditions.iter().flatten().find(|one| one.kind.as_str() == kind).filter(|one| one.is_true())
    };
    let reserved = condition("QuotaReserved");
    let admission = status.admission.as_ref().filter(|_| reserved.is_some());
    let assignments = || admission.iter().flat_map(|admission| &admission.pod_set_assignments);
    let (mut pods, mut sum, mut per_pod) = (0, BTreeMap::new(), BTreeMap::new());
    for set in &spec.pod_sets {
        let admitted = assignments().find(|one| one.name == set.name).and_then(|one| one.count);
        // Fewer than it was admitted with, where it was made smaller since.
        let count = admitted.map_or(set.count, |admitted| admitted.min(set.count));
        pods += count;
        for (resource, amount) in requests(&set.template.spec) {
            let one: &mut i64 = per_pod.entry(resource.clone()).or_default();
            *one = amount.max(*one);
            *sum.entry(resource).or_default() += amount * i64::from(count);
        }
    }
    let topology = || spec.pod_sets.iter().filter_map(|set| set.topology_request.as_ref());
    let level = |text: Option<&Text<'_>>| text.map(|text| text.as_str().to_owned());
    let flavors = assignments().filter_map(|one| one.flavors.as_ref()).flat_map(|flavors| &flavors.0);
    let marks = [SUSPENDED, ASKED].into_iter().filter_map(|key| Some((key.into(), meta.note(key)?.into())));
    // A tier has a class of either kind, of one name: work may ask for it by its pods alone.
    let is_tier = |kind: &str| matches!(kind, "WorkloadPriorityClass" | "PriorityClass");
    let class = spec.priority_class_ref.as_ref().filter(|class| is_tier(class.kind.as_str()));
    let seen = WorkloadSeen {
        name: NamespacedName::new(meta.namespace.as_str(), meta.name.as_str()),
        queue: admission.map(|admission| admission.cluster_queue.as_str()).unwrap_or_default().into(),
        tier: class.map(|class| class.name.as_str().into()),
        priority: spec.priority,
        created: meta.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        active: spec.active.unwrap_or(true),
        marks: marks.collect(),
        pods,
        fewest: fewest(workload),
        requests: sum,
        per_pod,
        required_level: topology().find_map(|asked| level(asked.required.as_ref())),
        preferred_level: topology().find_map(|asked| level(asked.preferred.as_ref())),
        placed: spec.pod_sets.iter().all(|set| set.topology_request.as_ref().is_some_and(TopologyRequest::says)),
        reserved: reserved.map(|one| one.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH)),
        evicted: condition("Evicted").is_some(),
        finished: condition("Finished").is_some(),
        flavors: flavors.map(|(name, flavor)| (ResourceName::from(name.as_str()), flavor.as_str().into())).collect(),
        nodes: assignments().filter_map(|one| one.topology_assignment.as_ref()).fold(BTreeMap::new(), placed),
        saved: meta.note(SAVED).and_then(|text| text.parse().ok()),
    };
    let owners = meta.owner_references.iter().flatten();
    Found {
        uid: meta.uid.as_str().into(),
        seen,
        local_queue: spec.queue_name.as_str().into(),
        owners: owners.map(|owner| (owner.uid.as_str().into(), owner.name.as_str().into())).collect(),
    }
}

/// With how few pods a workload goes on. Kueue lets the count of pods of some Jobs be lowered while they run; of other
/// kinds, and of those with several sets of pods, nobody knows which pods could go.
fn fewest(workload: &Workload<'_>) -> Option<u32> {
    let meta = &workload.metadata;
    let is_job = meta.owner_references.iter().flatten().any(|owner| owner.controller && owner.kind.as_str() == "Job");
    let [set] = workload.spec.pod_sets.as_slice() else { return None };
    let said = set.template.metadata.note(FEWEST).and_then(|text| text.parse().ok());
    (is_job && meta.note("kueue.x-k8s.io/elastic-job") == Some("true")).then(|| said.unwrap_or(1))
}

/// Pods on each node. Where the lowest level is no node, nobody knows which it is.
fn placed(mut nodes: BTreeMap<NodeName, u32>, assigned: &TopologyAssignment<'_>) -> BTreeMap<NodeName, u32> {
    let lowest = assigned.levels.len().saturating_sub(1);
    if assigned.levels.get(lowest).is_none_or(|level| level.as_str() != "kubernetes.io/hostname") {
        return nodes;
    }
    for slice in &assigned.slices {
        for at in 0..slice.domain_count {
            let pods = slice.pod_counts.universal.or_else(|| slice.pod_counts.individual.get(at).copied());
            let name = slice.values_per_level.get(lowest).and_then(|values| values.at(at));
            if let (Some(name), Some(pods)) = (name, pods) {
                *nodes.entry(name.into()).or_default() += pods;
            }
        }
    }
    nodes
}

impl Values<'_> {
    fn at(&self, place: usize) -> Option<String> {
        if let Some(universal) = &self.universal {
            return Some(universal.as_str().into());
        }
        let individual = self.individual.as_ref()?;
        let part = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default();
        let root = individual.roots.get(place)?;
        Some(format!("{}{}{}", part(&individual.prefix), root.as_str(), part(&individual.suffix)))
    }
}

impl Links {
    pub fn add(&mut self, found: &Found) {
        let namespace = found.seen.name.namespace.as_str();
        for (uid, name) in &found.owners {
            let made_for = NamespacedName::new(namespace, name);
            // A job that became larger has a second workload, and the first one is over.
            if found.seen.finished && self.owners.contains_key(uid) {
                continue;
            }
            self.owners.insert(uid.clone(), found.uid.clone());
            self.made_for.insert(made_for, found.uid.clone());
        }
        self.names.insert(found.seen.name.clone(), found.uid.clone());
    }

    pub fn workload_of(&self, pod: &Meta<'_>) -> Option<WorkloadUid> {
        let named = |name: &str| NamespacedName::new(pod.namespace.as_str(), name);
        let by_owner = pod.owner_references.iter().flatten().find_map(|owner| self.owners.get(owner.uid.as_str()));
        let words = || {
            let by_note = pod.note("kueue.x-k8s.io/workload");
            by_note.or_else(|| pod.label("kueue.x-k8s.io/pod-group-name"))
        };
        // A JobSet makes Jobs and a RayJob a cluster: their pods are owned by those.
        let above =
            ["jobset.sigs.k8s.io/jobset-name", "ray.io/originated-from-cr-name", "training.kubeflow.org/job-name"];
        let by_name = || above.iter().find_map(|key| self.made_for.get(&named(pod.label(key)?)));
        by_owner.or_else(|| self.names.get(&named(words()?))).or_else(by_name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::k8s::pods::{Around, seen};

    const WORKLOAD: &str = include_str!("samples/workload.json");

    fn sample() -> Found {
        found(&serde_json::from_str(WORKLOAD).unwrap())
    }

    #[test]
    fn a_workload_keeps_what_it_asks_for_and_what_it_has() {
        let Found { uid, seen, local_queue, .. } = sample();
        assert_eq!((uid.as_str(), local_queue.as_str()), ("b7f1c1de-0001", "main"));
        assert_eq!((seen.name.to_string().as_str(), seen.queue.as_str()), ("vision/job-train-7-9f3a1", "vision"));
        assert_eq!((seen.tier, seen.priority, seen.active, seen.pods), (Some("research".into()), 200, true, 4));
        assert_eq!((seen.requests["nvidia.com/gpu"], seen.per_pod["nvidia.com/gpu"]), (32, 8));
        assert_eq!(seen.required_level.as_deref(), Some("topology.k8s.aws/network-node-layer-3"));
        assert_eq!(seen.reserved, Some("2026-09-03T10:00:03Z".parse().unwrap()));
        assert!(!seen.evicted && !seen.finished);
        assert_eq!(seen.flavors["nvidia.com/gpu"].as_str(), "train");
        let nodes: Vec<_> = seen.nodes.iter().map(|(name, pods)| format!("{name}={pods}")).collect();
        assert_eq!(nodes, ["gpu-01.local=1", "gpu-02.local=1", "gpu-09=2"]);
        assert_eq!(seen.marks.keys().collect::<Vec<_>>(), [ASKED]);
        assert_eq!(seen.saved, Some("2026-09-03T10:20:00Z".parse().unwrap()));
    }

    #[test]
    fn a_workload_may_be_of_a_tier_by_the_class_of_its_pods_alone() {
        let text = WORKLOAD.replace("\"WorkloadPriorityClass\"", "\"PriorityClass\"");
        assert_ne!(text, WORKLOAD);
        assert_eq!(found(&serde_json::from_str(&text).unwrap()).seen.tier, Some("research".into()));
    }

    #[test]
    fn a_job_that_may_be_smaller_says_so_and_holds_what_it_has_left() {
        assert_eq!(sample().seen.fewest, None);
        let mut workload: serde_json::Value = serde_json::from_str(WORKLOAD).unwrap();
        workload["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] = "true".into();
        let read = |value: &serde_json::Value| found(&serde_json::from_str(&value.to_string()).unwrap()).seen;
        assert_eq!(read(&workload).fewest, Some(1));
        workload["spec"]["podSets"][0]["template"]["metadata"]["annotations"][FEWEST] = "2".into();
        workload["spec"]["podSets"][0]["count"] = 3.into();
        let seen = read(&workload);
        assert_eq!((seen.fewest, seen.pods, seen.requests["nvidia.com/gpu"]), (Some(2), 3, 24), "admitted with 4");
        assert_eq!(seen.nodes.values().sum::<u32>(), 4, "its places are kept");
        workload["metadata"]["ownerReferences"][0]["kind"] = "RayJob".into();
        assert_eq!(read(&workload).fewest, None);
    }

    #[test]
    fn a_workload_that_waits_holds_nothing() {
        let text = WORKLOAD
            .replace("\"QuotaReserved\",\n    \"status\": \"True\"", "\"QuotaReserved\",\n    \"status\": \"False\"");
        assert_ne!(text, WORKLOAD);
        let seen = found(&serde_json::from_str(&text).unwrap()).seen;
        assert_eq!((seen.reserved, seen.queue.as_str()), (None, ""));
        assert!(seen.nodes.is_empty() && seen.flavors.is_empty());
    }

    #[test]
    fn pods_find_their_workload_by_owner_by_word_and_by_name() {
        let mut links = Links::default();
        links.add(&sample());
        let around = Around { links, ..Around::default() };
        let of = |meta: &str| {
            let text = format!(r#"{{"metadata": {{"name": "p", "namespace": "vision", {meta}}}}}"#);
            seen(&serde_json::from_str(&text).unwrap(), &around).workload
        };
        let uid = Some(WorkloadUid::from("b7f1c1de-0001"));
        assert_eq!(
            of(r#""ownerReferences": [{"kind": "Job", "name": "train-7", "uid": "job-7", "controller": true}]"#),
            uid
        );
        assert_eq!(of(r#""annotations": {"kueue.x-k8s.io/workload": "job-train-7-9f3a1"}"#), uid);
        assert_eq!(of(r#""labels": {"kueue.x-k8s.io/pod-group-name": "job-train-7-9f3a1"}"#), uid);
        assert_eq!(of(r#""labels": {"jobset.sigs.k8s.io/jobset-name": "train-7"}"#), uid);
        assert_eq!(of(r#""labels": {"jobset.sigs.k8s.io/jobset-name": "train-8"}"#), None);
    }
}
