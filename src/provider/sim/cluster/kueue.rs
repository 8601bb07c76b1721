//! Kueue: its objects as the queue model's state, and what its decisions do to gangs.
//!
//! The model is asked afresh whenever something changed; what it would have parked is tried again each time, which
//! costs time and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ClusterState;
use super::gangs::{Gang, GangSpec, Why};
use super::node::{HOSTNAME, Node};
use super::pods::take;
use super::quantity::amount;
use crate::fleet::launch::TaintEffect;
use crate::ids::{ClusterQueueName, CohortName, FlavorName, NodeName, ResourceName};
use crate::observed::{ObjectKey, ObjectKind};
use crate::queue::mode::{configuration, mode};
use crate::queue::transform::{Transformations, counted, transformations};
use crate::queue::{
    BorrowWithinCohort, ClusterQueue, Cohort, Decision, EvictReason, FlavorQuotas, Fungibility, Preemption, QueueState,
    QueueingStrategy, Quota, Reclaim, Reservation, ResourceGroup, StopPolicy, Topology, TopologyNode, TopologyRequest,
    Weight, WithinQueue, Workload,
};

/// A ResourceFlavor, as far as it matters here.
#[derive(Clone, PartialEq, Debug)]
pub struct Flavor {
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<String>,
    pub tolerates: BTreeSet<String>,
    pub topology: Option<String>,
}

/// What a LocalQueue says to a workload.
struct Line {
    queue: ClusterQueueName,
    stop: StopPolicy,
}

impl ClusterState {
    /// Kueue looks at everything that waits.
    pub(super) fn kueue_cycle(&mut self) {
        if self.knobs.cycle_at != Some(self.now) {
            return;
        }
        self.knobs.cycle_at = None;
        if self.gangs.values().all(|gang| gang.finished) {
            return;
        }
        let state = self.queue_state();
        for decision in crate::queue::step(&state) {
            match decision {
                Decision::Admit { workload, assignment } => {
                    let queue = state.workloads[&workload].queue.clone();
                    self.admit(&workload, &queue, assignment);
                }
                Decision::Preempt { victim, .. } => {
                    self.records.counts.preemptions += 1;
                    self.evict_gang(&victim, Why::Preempted);
                }
                Decision::Evict { workload, reason } => {
                    let active = self.gangs.get(&workload).is_some_and(|gang| gang.active);
                    let why = match reason {
                        EvictReason::Deactivated if !active => Why::Deactivated,
                        EvictReason::Deactivated | EvictReason::QueueDrained => Why::QueueStopped,
                    };
                    self.evict_gang(&workload, why);
                }
                Decision::Release { .. } => {}
                Decision::Wait { workload, reason, .. } => {
                    if let Some(gang) = self.gangs.get_mut(&workload) {
                        gang.waits = Some(format!("{reason:?}"));
                    }
                }
            }
        }
    }

    /// The cluster as the queue model sees it.
    pub fn queue_state(&self) -> QueueState {
        let cohorts = self.of_kind(ObjectKind::Cohort).map(|(name, spec, _)| (name.into(), cohort(spec)));
        let queues = self.of_kind(ObjectKind::ClusterQueue).map(|(name, spec, deleting)| {
            let mut queue = cluster_queue(spec);
            if queue.stop == StopPolicy::None && (deleting || !self.has_flavors(&queue)) {
                queue.stop = StopPolicy::Hold;
            }
            (name.into(), queue)
        });
        let open = self.gangs.iter().filter(|(_, gang)| !gang.finished);
        let file = self.objects.get(&configuration()).map(|found| &found.body);
        let counts = transformations(file);
        QueueState {
            mode: mode(file),
            now: self.now,
            cohorts: cohorts.collect(),
            cluster_queues: queues.collect(),
            workloads: open.map(|(uid, gang)| (uid.clone(), self.workload(&counts, gang))).collect(),
            topologies: self.topologies(),
            parked: BTreeMap::new(),
        }
    }

    pub(super) fn of_kind(&self, kind: ObjectKind) -> impl Iterator<Item = (&str, &Value, bool)> {
        let first = ObjectKey { kind, namespace: None, name: "".into() };
        let all = self.objects.range(first..).take_while(move |(key, _)| key.kind == kind);
        all.map(|(key, found)| (&*key.name, &found.body["spec"], found.deleting))
    }

    pub(super) fn flavor(&self, name: &FlavorName) -> Option<Flavor> {
        let found = self.objects.get(&ObjectKey::cluster(ObjectKind::ResourceFlavor, name.as_str()))?;
        Some(flavor(&found.body["spec"]))
    }

    fn levels(&self, topology: &str) -> Option<Vec<String>> {
        let found = self.objects.get(&ObjectKey::cluster(ObjectKind::Topology, topology))?;
        let levels = found.body["spec"]["levels"].as_array()?.iter();
        Some(levels.filter_map(|level| level["nodeLabel"].as_str()).map(str::to_string).collect())
    }

    /// A queue that names a flavor, or a flavor that names a topology, that is not there is not active.
    fn has_flavors(&self, queue: &ClusterQueue) -> bool {
        let mut flavors = queue.groups.iter().flat_map(|group| &group.flavors);
        flavors.all(|one| {
            let found = self.flavor(&one.flavor);
            found.is_some_and(|found| found.topology.is_none_or(|topology| self.levels(&topology).is_some()))
        })
    }

    fn topologies(&self) -> BTreeMap<FlavorName, Topology> {
        let mut found = BTreeMap::new();
        let mut free: BTreeMap<&NodeName, BTreeMap<ResourceName, i64>> = BTreeMap::new();
        for (name, spec, _) in self.of_kind(ObjectKind::ResourceFlavor) {
            let flavor = flavor(spec);
            let Some(mut levels) = flavor.topology.as_ref().and_then(|topology| self.levels(topology)) else {
                continue;
            };
            if levels.last().is_none_or(|level| level != HOSTNAME) {
                levels.push(HOSTNAME.into());
            }
            let above = &levels[..levels.len() - 1];
            let mut nodes = BTreeMap::new();
            for (node_name, node) in self.nodes.iter().filter(|(_, node)| takes(node, &flavor)) {
                let path = above.iter().map(|level| node.labels.get(level).cloned()).collect::<Option<Vec<_>>>();
                let Some(path) = path else { continue };
                let capacity = free.entry(node_name).or_insert_with(|| self.capacity(node_name, node)).clone();
                nodes.insert(node_name.clone(), TopologyNode { path, capacity });
            }
            found.insert(name.into(), Topology { levels, nodes });
        }
        found
    }

    /// Allocatable minus the pods that no topology assignment accounts for. What evicted gangs still hold while they
    /// end is not subtracted: a real Kueue places the next gang on top of them.
    fn capacity(&self, name: &NodeName, node: &Node) -> BTreeMap<ResourceName, i64> {
        let mut used = BTreeMap::new();
        for (_, pod) in self.pods.on(name).filter(|(_, pod)| !pod.is_over()) {
            let gang = pod.gang().and_then(|uid| self.gangs.get(uid));
            let by_scheduler = gang.is_some_and(|gang| gang.runs() && pod.pinned.is_none());
            if pod.gang().is_none() || by_scheduler {
                take(&mut used, &pod.template.requests, 1);
            }
        }
        let mut capacity = node.allocatable();
        for (resource, amount) in used {
            capacity.entry(resource).and_modify(|free| *free -= amount);
        }
        capacity
    }

    fn line(&self, gang: &Gang) -> Option<Line> {
        let namespace = gang.spec.name.namespace.as_str();
        let key = ObjectKey::namespaced(ObjectKind::LocalQueue, namespace, &gang.spec.queue);
        let spec = &self.objects.get(&key)?.body["spec"];
        Some(Line { queue: spec["clusterQueue"].as_str()?.into(), stop: stop_policy(spec) })
    }

    /// The ClusterQueue that a gang waits in or runs from; an empty name where its LocalQueue is not there.
    pub(super) fn queue_of(&self, gang: &Gang) -> ClusterQueueName {
        let held = gang.held.as_ref().map(|held| held.queue.clone());
        held.or_else(|| self.line(gang).map(|line| line.queue)).unwrap_or_else(|| "".into())
    }

    fn workload(&self, counts: &Transformations, gang: &Gang) -> Workload {
        let queue = self.queue_of(gang);
        let line = self.line(gang);
        let waits = gang.held.is_none();
        let open = match line.map(|line| line.stop) {
            Some(StopPolicy::None) => true,
            Some(StopPolicy::Hold) | None => !waits,
            Some(StopPolicy::HoldAndDrain) => false,
        };
        let too_early = gang.not_before.is_some_and(|at| self.now < at);
        let barred_here = waits && (too_early || !self.selects(&queue, gang.spec.name.namespace.as_str()));
        let per_pod = gang.spec.template.requests.clone();
        let requests = per_pod.iter().map(|(name, amount)| (name.clone(), amount * i64::from(gang.spec.pods)));
        let required = gang.spec.required_level.clone().map(TopologyRequest::Required);
        let preferred = gang.spec.preferred_level.clone().map(TopologyRequest::Preferred);
        let anywhere = gang.placed.then_some(TopologyRequest::Unconstrained);
        let held = gang.held.as_ref().zip(gang.assignment());
        Workload {
            queue,
            priority: self.priority_of(gang),
            created: gang.place,
            active: gang.active && open && !barred_here,
            requests: counted(counts, &requests.collect()),
            pods: gang.spec.pods,
            per_pod,
            topology: required.or(preferred).or(anywhere),
            barred: self.barred(gang),
            reservation: held.map(|(held, assignment)| Reservation {
                since: held.since,
                assignment,
                evicted: gang.evicted.is_some(),
            }),
        }
    }

    /// What a policy has a job's Workload say of its place, where the job says nothing: a level, or anywhere.
    pub(super) fn word_for(&self, spec: &GangSpec) -> Option<TopologyRequest> {
        let queue = format!("'{}/{}'", spec.name.namespace, spec.queue);
        let names = |spec: &Value| {
            let conditions = spec["matchConditions"].as_array().into_iter().flatten();
            conditions.filter_map(|one| one["expression"].as_str()).any(|text| text.contains(&queue))
        };
        let is_bound = |policy: &str| {
            let mut bindings = self.of_kind(ObjectKind::MutatingAdmissionPolicyBinding);
            bindings.any(|(_, spec, deleting)| !deleting && spec["policyName"] == policy)
        };
        let mut policies = self.of_kind(ObjectKind::MutatingAdmissionPolicy);
        let (_, spec, _) = policies.find(|(name, spec, deleting)| !deleting && names(spec) && is_bound(name))?;
        let patch = spec["mutations"][0]["jsonPatch"]["expression"].as_str().unwrap_or_default();
        let level = patch.split_once("/preferred', value: '").and_then(|(_, rest)| rest.split_once('\''));
        Some(level.map_or(TopologyRequest::Unconstrained, |(level, _)| TopologyRequest::Preferred(level.into())))
    }

    /// Whether a ClusterQueue takes workloads of a namespace. No selector means none.
    fn selects(&self, queue: &ClusterQueueName, namespace: &str) -> bool {
        let key = ObjectKey::cluster(ObjectKind::ClusterQueue, queue.as_str());
        let Some(selector) = self.objects.get(&key).map(|found| &found.body["spec"]["namespaceSelector"]) else {
            return true;
        };
        let Some(selector) = selector.as_object() else { return false };
        let name_label = "kubernetes.io/metadata.name";
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let labelled = labels.is_none_or(|labels| {
            labels.iter().all(|(key, value)| key == name_label && value.as_str() == Some(namespace))
        });
        let mut rules = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        labelled
            && rules.all(|rule| {
                let named = rule["values"].as_array().into_iter().flatten().any(|one| one.as_str() == Some(namespace));
                rule["key"].as_str() == Some(name_label) && named == (rule["operator"].as_str() == Some("In"))
            })
    }

    /// Flavors whose nodes carry taints that the gang's pods do not put up with.
    fn barred(&self, gang: &Gang) -> BTreeSet<FlavorName> {
        let tolerates = &gang.spec.template.tolerates;
        if tolerates.pool || tolerates.everything {
            return BTreeSet::new();
        }
        let flavors = self.of_kind(ObjectKind::ResourceFlavor).map(|(name, spec, _)| (name, flavor(spec)));
        let refused = flavors.filter(|(_, flavor)| {
            let bears = |key: &String| flavor.tolerates.contains(key) || tolerates.keys.contains(key);
            let mut nodes = self.nodes.values().filter(|node| matches_labels(node, &flavor.labels));
            !flavor.taints.iter().all(bears) || nodes.any(|node| !node.usual.iter().all(bears))
        });
        refused.map(|(name, _)| name.into()).collect()
    }
}

pub fn matches_labels(node: &Node, labels: &BTreeMap<String, String>) -> bool {
    labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

/// Whether topology-aware placement may use a node for a flavor.
fn takes(node: &Node, flavor: &Flavor) -> bool {
    let bearable =
        |key: &String| node.usual.contains(key) || flavor.tolerates.contains(key) || flavor.taints.contains(key);
    matches_labels(node, &flavor.labels)
        && node.is_open()
        && node.taints.iter().all(|taint| taint.effect == TaintEffect::PreferNoSchedule || bearable(&taint.key))
}

fn flavor(spec: &Value) -> Flavor {
    let keys = |name: &str| {
        let list = spec[name].as_array().into_iter().flatten();
        list.filter_map(|one| one["key"].as_str()).map(str::to_string).collect::<Vec<_>>()
    };
    let labels = spec["nodeLabels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())));
    Flavor {
        labels: labels.collect(),
        taints: keys("nodeTaints"),
        tolerates: keys("tolerations").into_iter().collect(),
        topology: spec["topologyName"].as_str().map(str::to_string),
    }
}

fn groups(spec: &Value) -> Vec<ResourceGroup> {
    let all = spec["resourceGroups"].as_array().into_iter().flatten();
    let group = |group: &Value| {
        let flavors = group["flavors"].as_array().into_iter().flatten().map(|flavor| {
            let quotas = flavor["resources"].as_array().into_iter().flatten().filter_map(|resource| {
                let name = resource["name"].as_str()?;
                let limit = |key: &str| amount(name, &resource[key]);
                let nominal = limit("nominalQuota")?;
                let (borrowing_limit, lending_limit) = (limit("borrowingLimit"), limit("lendingLimit"));
                Some((name.into(), Quota { nominal, borrowing_limit, lending_limit }))
            });
            FlavorQuotas { flavor: flavor["name"].as_str().unwrap_or_default().into(), quotas: quotas.collect() }
        });
        ResourceGroup { flavors: flavors.collect() }
    };
    all.map(group).collect()
}

fn cohort(spec: &Value) -> Cohort {
    let flavors = groups(spec).into_iter().flat_map(|group| group.flavors);
    let quotas = flavors.flat_map(|one| {
        let flavor = one.flavor;
        one.quotas.into_iter().map(move |(resource, quota)| ((flavor.clone(), resource), quota))
    });
    Cohort { parent: name::<CohortName>(&spec["parentName"]), quotas: quotas.collect(), weight: weight(spec) }
}

fn cluster_queue(spec: &Value) -> ClusterQueue {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let preemption = &spec["preemption"];
    let borrow = &preemption["borrowWithinCohort"];
    let max_priority = borrow["maxPriorityThreshold"].as_i64().and_then(|value| i32::try_from(value).ok());
    let fungibility = &spec["flavorFungibility"];
    ClusterQueue {
        cohort: name(&spec["cohortName"]),
        groups: groups(spec),
        preemption: Preemption {
            within_queue: match word(&preemption["withinClusterQueue"]).as_str() {
                "LowerPriority" => WithinQueue::LowerPriority,
                "LowerOrNewerEqualPriority" => WithinQueue::LowerOrNewerEqualPriority,
                _ => WithinQueue::Never,
            },
            reclaim: match word(&preemption["reclaimWithinCohort"]).as_str() {
                "LowerPriority" => Reclaim::LowerPriority,
                "Any" => Reclaim::Any,
                _ => Reclaim::Never,
            },
            borrow_within_cohort: (word(&borrow["policy"]) == "LowerPriority")
                .then_some(BorrowWithinCohort { max_priority }),
        },
        weight: weight(spec),
        stop: stop_policy(spec),
        strategy: match word(&spec["queueingStrategy"]).as_str() {
            "StrictFIFO" => QueueingStrategy::StrictFifo,
            _ => QueueingStrategy::BestEffortFifo,
        },
        fungibility: Fungibility {
            stop_when_borrowing: word(&fungibility["whenCanBorrow"]) != "TryNextFlavor",
            stop_when_preempting: word(&fungibility["whenCanPreempt"]) == "MayStopSearch",
            preempt_over_borrow: word(&fungibility["preference"]) == "PreemptionOverBorrowing",
        },
    }
}

fn name<T: for<'a> From<&'a str>>(value: &Value) -> Option<T> {
    value.as_str().filter(|name| !name.is_empty()).map(T::from)
}

fn stop_policy(spec: &Value) -> StopPolicy {
    match spec["stopPolicy"].as_str() {
        Some("Hold") => StopPolicy::Hold,
        Some("HoldAndDrain") => StopPolicy::HoldAndDrain,
        _ => StopPolicy::None,
    }
}

fn weight(spec: &Value) -> Weight {
    // A quantity of CPU is counted in thousandths, and so is a weight.
    let thousandths = amount("cpu", &spec["fairSharing"]["weight"]).and_then(|weight| u32::try_from(weight).ok());
    thousandths.map_or_else(Weight::default, Weight)
}

/// The pods that each workload has reserved on each node.
pub fn reserved(state: &QueueState) -> BTreeMap<&NodeName, BTreeMap<ResourceName, i64>> {
    let mut used: BTreeMap<&NodeName, BTreeMap<ResourceName, i64>> = BTreeMap::new();
    let held = state.workloads.values().filter_map(|workload| Some((workload, workload.reservation.as_ref()?)));
    for (workload, reservation) in held {
        for (node, pods) in &reservation.assignment.nodes {
            take(used.entry(node).or_default(), &workload.per_pod, i64::from(*pods));
        }
    }
    used
}
