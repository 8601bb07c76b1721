//! Kueue's objects as JSON, and what was seen of workloads and nodes, as a [`QueueState`].
//!
//! For whoever asks what Kueue will do: the planner with the objects that it wants to write, the simulator with those
//! that were written. It reads leniently, as Kueue's defaults do: a field that is absent or makes no sense has its
//! default, because an object that the server took is not ours to refuse. CPU counts in thousandths, all else in ones.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::Value;

use super::state::*;
use super::topology::PODS;
use super::transform::{Transformations, counted};
use crate::effect::marks::DRAIN_TAINT;
use crate::fleet::launch::TaintEffect;
use crate::observed::{NodeSeen, ObjectKey, ObjectKind, PodPhase, PodSeen, WorkloadSeen};

/// What a state is made of.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    pub mode: Mode,
    /// What is counted of what pods ask for.
    pub counts: Transformations,
    pub now: Timestamp,
    /// Bodies of objects: with `spec`, without metadata.
    pub objects: BTreeMap<&'a ObjectKey, &'a Value>,
    pub workloads: &'a BTreeMap<WorkloadUid, WorkloadSeen>,
    pub nodes: &'a BTreeMap<NodeName, NodeSeen>,
    pub pods: &'a [PodSeen],
}

pub fn parse(parts: &Parts<'_>) -> QueueState {
    let workloads = parts.workloads.iter().filter(|(_, seen)| !seen.finished);
    QueueState {
        mode: parts.mode.clone(),
        now: parts.now,
        cohorts: cohorts(&parts.objects),
        cluster_queues: cluster_queues(&parts.objects),
        workloads: workloads.map(|(uid, seen)| (uid.clone(), workload(&parts.counts, seen))).collect(),
        topologies: topologies(parts),
        parked: BTreeMap::new(),
    }
}

/// The same work on the same nodes under other queues. Only for objects whose flavors and topologies are those that the
/// state was made of.
pub fn requeued(state: QueueState, objects: &BTreeMap<&ObjectKey, &Value>) -> QueueState {
    QueueState { cohorts: cohorts(objects), cluster_queues: cluster_queues(objects), parked: BTreeMap::new(), ..state }
}

fn cohorts(objects: &BTreeMap<&ObjectKey, &Value>) -> BTreeMap<CohortName, Cohort> {
    let cohorts = objects.iter().filter(|(key, _)| key.kind == ObjectKind::Cohort);
    cohorts.map(|(key, body)| (CohortName::from(&*key.name), cohort(body))).collect()
}

fn cluster_queues(objects: &BTreeMap<&ObjectKey, &Value>) -> BTreeMap<ClusterQueueName, ClusterQueue> {
    let queues = objects.iter().filter(|(key, _)| key.kind == ObjectKind::ClusterQueue);
    queues.map(|(key, body)| (ClusterQueueName::from(&*key.name), cluster_queue(body))).collect()
}

pub fn cohort(body: &Value) -> Cohort {
    let spec = &body["spec"];
    Cohort { parent: name(&spec["parentName"]), quotas: quotas(body), weight: weight(spec) }
}

/// What an object of Kueue gives, by flavor and resource. Empty for one that gives nothing.
pub fn quotas(body: &Value) -> BTreeMap<(FlavorName, ResourceName), Quota> {
    let all = groups(&body["spec"]).into_iter().flat_map(|group| group.flavors);
    all.flat_map(|one| {
        let flavor = one.flavor;
        one.quotas.into_iter().map(move |(resource, quota)| ((flavor.clone(), resource), quota))
    })
    .collect()
}

pub fn cluster_queue(body: &Value) -> ClusterQueue {
    let spec = &body["spec"];
    let preemption = &spec["preemption"];
    let borrow = &preemption["borrowWithinCohort"];
    let fungibility = &spec["flavorFungibility"];
    ClusterQueue {
        cohort: name(&spec["cohortName"]),
        groups: groups(spec),
        preemption: Preemption {
            within_queue: match preemption["withinClusterQueue"].as_str() {
                Some("LowerPriority") => WithinQueue::LowerPriority,
                Some("LowerOrNewerEqualPriority") => WithinQueue::LowerOrNewerEqualPriority,
                _ => WithinQueue::Never,
            },
            reclaim: match preemption["reclaimWithinCohort"].as_str() {
                Some("LowerPriority") => Reclaim::LowerPriority,
                Some("Any") => Reclaim::Any,
                _ => Reclaim::Never,
            },
            borrow_within_cohort: (borrow["policy"].as_str() == Some("LowerPriority")).then(|| BorrowWithinCohort {
                max_priority: borrow["maxPriorityThreshold"].as_i64().and_then(|most| i32::try_from(most).ok()),
            }),
        },
        weight: weight(spec),
        stop: match spec["stopPolicy"].as_str() {
            Some("Hold") => StopPolicy::Hold,
            Some("HoldAndDrain") => StopPolicy::HoldAndDrain,
            _ => StopPolicy::None,
        },
        strategy: match spec["queueingStrategy"].as_str() {
            Some("StrictFIFO") => QueueingStrategy::StrictFifo,
            _ => QueueingStrategy::BestEffortFifo,
        },
        fungibility: Fungibility {
            stop_when_borrowing: !matches!(fungibility["whenCanBorrow"].as_str(), Some("TryNextFlavor")),
            stop_when_preempting: matches!(fungibility["whenCanPreempt"].as_str(), Some("MayStopSearch" | "Preempt")),
            preempt_over_borrow: fungibility["preference"].as_str() == Some("PreemptionOverBorrowing"),
        },
    }
}

fn groups(spec: &Value) -> Vec<ResourceGroup> {
    let flavor = |one: &Value| {
        let quotas = list(&one["resources"]).iter().filter_map(|quota| {
            let resource: ResourceName = name(&quota["name"])?;
            let amount = |field: &str| quantity(&resource, &quota[field]);
            let quota = Quota {
                nominal: amount("nominalQuota").unwrap_or(0),
                borrowing_limit: amount("borrowingLimit"),
                lending_limit: amount("lendingLimit"),
            };
            Some((resource, quota))
        });
        Some(FlavorQuotas { flavor: name(&one["name"])?, quotas: quotas.collect() })
    };
    let group = |one: &Value| ResourceGroup { flavors: list(&one["flavors"]).iter().filter_map(flavor).collect() };
    list(&spec["resourceGroups"]).iter().map(group).collect()
}

fn weight(spec: &Value) -> Weight {
    let weight = thousandths(&spec["fairSharing"]["weight"]).and_then(|weight| u32::try_from(weight).ok());
    weight.map_or_else(Weight::default, Weight)
}

fn workload(counts: &Transformations, seen: &WorkloadSeen) -> Workload {
    let required = seen.required_level.clone().map(TopologyRequest::Required);
    let preferred = seen.preferred_level.clone().map(TopologyRequest::Preferred);
    let anywhere = seen.placed.then_some(TopologyRequest::Unconstrained);
    let assignment = || Assignment { flavors: seen.flavors.clone(), nodes: seen.nodes.clone() };
    Workload {
        queue: seen.queue.clone(),
        priority: seen.priority,
        created: seen.created,
        active: seen.active,
        requests: counted(counts, &seen.requests),
        pods: seen.pods,
        per_pod: seen.per_pod.clone(),
        topology: required.or(preferred).or(anywhere),
        barred: BTreeSet::new(),
        reservation: seen.reserved.map(|since| Reservation { since, assignment: assignment(), evicted: seen.evicted }),
    }
}

/// The nodes of each flavor that has a topology. Whether a workload tolerates a node's taints is not known here: those
/// of its pool it does, or it would not be in the pool's queue; ours and the node's own it does not.
fn topologies(parts: &Parts<'_>) -> BTreeMap<FlavorName, Topology> {
    let flavors = parts.objects.iter().filter(|(key, _)| key.kind == ObjectKind::ResourceFlavor);
    let flavors: Vec<(&ObjectKey, &Value, Vec<String>)> = flavors
        .filter_map(|(key, body)| {
            let topology = ObjectKey::cluster(ObjectKind::Topology, body["spec"]["topologyName"].as_str()?);
            let levels = list(&parts.objects.get(&topology)?["spec"]["levels"]).iter();
            Some((*key, *body, levels.filter_map(|level| level["nodeLabel"].as_str().map(Into::into)).collect()))
        })
        .collect();
    if flavors.is_empty() {
        return BTreeMap::new();
    }
    let taken = taken(parts);
    let open = Open::of(parts.nodes, flavors.iter().filter_map(|(_, body, _)| Some(first_label(body)?.0)).collect());
    let topology = |(key, body, levels): (&ObjectKey, &Value, Vec<String>)| {
        let labels = body["spec"]["nodeLabels"].as_object();
        let wanted = |node: &NodeSeen| {
            let mut labels = labels.into_iter().flatten();
            labels.all(|(key, value)| node.labels.get(key).map(String::as_str) == value.as_str())
        };
        let nodes = open.with(first_label(body)).filter(|(_, node)| wanted(node)).filter_map(|(name, node)| {
            let above = &levels[..levels.len().saturating_sub(1)];
            let path: Option<Vec<String>> = above.iter().map(|level| node.labels.get(level).cloned()).collect();
            let mut capacity = node.allocatable.clone();
            for (resource, amount) in taken.get(name).into_iter().flatten() {
                if let Some(left) = capacity.get_mut(*resource) {
                    *left -= amount;
                }
            }
            Some((name.clone(), TopologyNode { path: path?, capacity }))
        });
        let nodes = nodes.collect();
        (FlavorName::from(&*key.name), Topology { levels, nodes })
    };
    flavors.into_iter().map(topology).collect()
}

/// A label that all nodes of a flavor have, if it asks for one.
fn first_label(flavor: &Value) -> Option<(&str, &str)> {
    let (key, value) = flavor["spec"]["nodeLabels"].as_object()?.iter().next()?;
    Some((key, value.as_str()?))
}

/// The nodes by each label that they carry, and its value.
type Labelled<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<(&'a NodeName, &'a NodeSeen)>>>;

/// The nodes that take pods, by the labels that flavors ask for: with many pools each flavor looks only at its own.
struct Open<'a> {
    all: Vec<(&'a NodeName, &'a NodeSeen)>,
    /// By key and value.
    labelled: Labelled<'a>,
}

impl<'a> Open<'a> {
    fn of(nodes: &'a BTreeMap<NodeName, NodeSeen>, keys: BTreeSet<&str>) -> Self {
        let all: Vec<_> = nodes.iter().filter(|(_, node)| is_open(node)).collect();
        let mut labelled: BTreeMap<&str, BTreeMap<&str, Vec<_>>> = BTreeMap::new();
        for (name, node) in &all {
            for (key, value) in keys.iter().filter_map(|key| node.labels.get_key_value(*key)) {
                labelled.entry(key).or_default().entry(value).or_default().push((*name, *node));
            }
        }
        Self { all, labelled }
    }

    fn with(&self, label: Option<(&str, &str)>) -> impl Iterator<Item = (&'a NodeName, &'a NodeSeen)> + use<'_, 'a> {
        let found = match label {
            Some((key, value)) => self.labelled.get(key).and_then(|values| values.get(value)),
            None => Some(&self.all),
        };
        found.into_iter().flatten().copied()
    }
}

fn is_open(node: &NodeSeen) -> bool {
    let closes = |taint: &crate::fleet::launch::Taint| {
        (taint.key == DRAIN_TAINT || taint.key.starts_with("node.kubernetes.io/"))
            && taint.effect != TaintEffect::PreferNoSchedule
    };
    node.ready && !node.unschedulable && !node.taints.iter().any(closes)
}

/// What pods take that no reservation of quota accounts for.
fn taken<'a>(parts: &Parts<'a>) -> BTreeMap<&'a NodeName, BTreeMap<&'a str, i64>> {
    let mut taken: BTreeMap<&NodeName, BTreeMap<&str, i64>> = BTreeMap::new();
    for pod in parts.pods.iter().filter(|pod| !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)) {
        let Some(node) = &pod.node else { continue };
        let workload = pod.workload.as_ref().and_then(|uid| parts.workloads.get(uid));
        if workload.is_some_and(|workload| workload.reserved.is_some() && workload.nodes.contains_key(node)) {
            continue;
        }
        let sum = taken.entry(node).or_default();
        for (resource, amount) in &pod.requests {
            *sum.entry(resource.as_str()).or_insert(0) += amount;
        }
        *sum.entry(PODS).or_insert(0) += 1;
    }
    taken
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn name<'a, T: From<&'a str>>(value: &'a Value) -> Option<T> {
    value.as_str().filter(|text| !text.is_empty()).map(T::from)
}

/// A Kubernetes quantity of a resource: `200`, `"200"`, `"1k"`, `"4Gi"`, `"500m"`.
pub fn quantity(resource: &ResourceName, value: &Value) -> Option<i64> {
    let amount = decimal(value)?;
    // Kueue rounds up, as the API machinery does.
    let amount = if resource.as_str() == "cpu" { amount.checked_mul(Decimal::ONE_THOUSAND)? } else { amount };
    whole(amount)
}

/// A quantity in thousandths.
fn thousandths(value: &Value) -> Option<i64> {
    whole(decimal(value)?.checked_mul(Decimal::ONE_THOUSAND)?)
}

/// More than anybody has of anything, and still so little that all queues of a tree add up.
const MOST: i64 = i64::MAX >> 10;

fn whole(amount: Decimal) -> Option<i64> {
    let most = Decimal::from(MOST);
    amount.ceil().clamp(-most, most).to_i64()
}

pub fn decimal(value: &Value) -> Option<Decimal> {
    const KI: u64 = 1024;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let unit = match suffix {
        "m" => return number.parse::<Decimal>().ok()?.checked_div(Decimal::ONE_THOUSAND),
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000,
        "Ki" => KI,
        "Mi" => KI.pow(2),
        "Gi" => KI.pow(3),
        "Ti" => KI.pow(4),
        "Pi" => KI.pow(5),
        "Ei" => KI.pow(6),
        _ => return None,
    };
    number.parse::<Decimal>().ok()?.checked_mul(Decimal::from(unit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        let of = |name: &str, value: Value| quantity(&name.into(), &value);
        assert_eq!(of("nvidia.com/gpu", json!(200)), Some(200));
        assert_eq!(of("nvidia.com/gpu", json!("200")), Some(200));
        assert_eq!(of("nvidia.com/gpu", json!("1k")), Some(1000));
        assert_eq!(of("nvidia.com/gpu", json!("1500m")), Some(2));
        assert_eq!(of("memory", json!("4Gi")), Some(4 << 30));
        assert_eq!(of("ephemeral-storage", json!("2Pi")), Some(2 << 50), "as much as sixteen nodes have");
        assert_eq!(of("ephemeral-storage", json!("9Ei")), Some(MOST));
        assert_eq!(of("cpu", json!("1500M")), Some(1_500_000_000_000));
        assert_eq!(of("cpu", json!("500m")), Some(500));
        assert_eq!(of("cpu", json!(2)), Some(2000));
        assert_eq!(of("cpu", json!(0.5)), Some(500));
        assert_eq!(of("cpu", json!("lots")), None);
        assert_eq!(of("cpu", json!(null)), None);
    }

    #[test]
    fn a_queue_has_what_its_object_says() {
        let body = json!({"spec": {
            "cohortName": "research",
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any",
                           "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100}},
            "fairSharing": {"weight": "2"},
            "stopPolicy": "Hold",
            "queueingStrategy": "StrictFIFO",
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"},
            "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "train", "resources": [
                {"name": "nvidia.com/gpu", "nominalQuota": "64", "borrowingLimit": 32, "lendingLimit": "0"}]}]}],
        }});
        let queue = cluster_queue(&body);
        assert_eq!(queue.cohort, Some("research".into()));
        assert_eq!(queue.preemption.within_queue, WithinQueue::LowerPriority);
        assert_eq!(queue.preemption.reclaim, Reclaim::Any);
        assert_eq!(queue.preemption.borrow_within_cohort, Some(BorrowWithinCohort { max_priority: Some(100) }));
        assert_eq!((queue.weight, queue.stop), (Weight(2000), StopPolicy::Hold));
        assert_eq!(queue.strategy, QueueingStrategy::StrictFifo);
        assert!(!queue.fungibility.stop_when_borrowing && queue.fungibility.stop_when_preempting);
        let quota = Quota { nominal: 64, borrowing_limit: Some(32), lending_limit: Some(0) };
        assert_eq!(quotas(&body), [(("train".into(), "nvidia.com/gpu".into()), quota)].into());
        // Nothing said is Kueue's default.
        let bare = cluster_queue(&json!({"spec": {}}));
        assert_eq!((bare.fungibility, bare.weight), (Fungibility::default(), Weight::default()));
        assert_eq!(cluster_queue(&json!({})), bare);
    }

    fn node(leaf: &str) -> NodeSeen {
        let labels = [("pool", "train"), ("leaf", leaf)].map(|(key, value)| (key.into(), value.into()));
        NodeSeen {
            uid: "u".into(),
            instance: None,
            labels: labels.into(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            ready: true,
            unready_since: None,
            ready_since: None,
            moved_by: Default::default(),
            allocatable: [("nvidia.com/gpu".into(), 8)].into(),
            conditions: BTreeMap::new(),
            created: Timestamp::UNIX_EPOCH,
            boot: None,
        }
    }

    #[test]
    fn a_topology_has_the_nodes_that_take_pods() {
        let flavor = ObjectKey::cluster(ObjectKind::ResourceFlavor, "train");
        let fabric = ObjectKey::cluster(ObjectKind::Topology, "fabric");
        let flavor_body = json!({"spec": {"nodeLabels": {"pool": "train"}, "topologyName": "fabric"}});
        let levels = json!({"spec": {"levels": [{"nodeLabel": "leaf"}, {"nodeLabel": "kubernetes.io/hostname"}]}});
        let cordoned = NodeSeen { unschedulable: true, ..node("l1") };
        let mut elsewhere = node("l1");
        elsewhere.labels.insert("pool".into(), "serve".into());
        let mut unlabelled = node("l1");
        unlabelled.labels.remove("leaf");
        let nodes = [("a", node("l1")), ("b", cordoned), ("c", elsewhere), ("d", unlabelled)];
        let nodes = nodes.into_iter().map(|(name, node)| (name.into(), node)).collect();
        let parts = Parts {
            mode: Mode::Classical,
            counts: Transformations::new(),
            now: Timestamp::UNIX_EPOCH,
            objects: [(&flavor, &flavor_body), (&fabric, &levels)].into(),
            workloads: &BTreeMap::new(),
            nodes: &nodes,
            pods: &[],
        };
        let state = parse(&parts);
        let train = &state.topologies["train"];
        assert_eq!(train.nodes.keys().map(NodeName::as_str).collect::<Vec<_>>(), ["a"]);
        let a = &train.nodes["a"];
        assert_eq!((a.path.as_slice(), a.capacity["nvidia.com/gpu"]), (&["l1".to_owned()][..], 8));
    }
}
