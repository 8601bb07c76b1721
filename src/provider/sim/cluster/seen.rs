//! The cluster as a provider sees it: everything, or only what is asked for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::ClusterState;
use super::gangs::Gang;
use super::node::Node;
use super::objects::Stored;
use super::pods::{Owner, Pod};
use crate::effect::Subject;
use crate::effect::marks::{ASKED, Mark};
use crate::fleet::policy::ConditionStatus;
use crate::ids::{NamespacedName, NodeName, WorkloadUid};
use crate::observed::{
    ClusterSeen, ConditionSeen, GangName, NodeSeen, ObjectKey, ObjectKind, ObjectSeen, Others, PodSeen, READY, Read,
    WorkloadSeen,
};
use crate::queue::mode::configuration;

type ByApp<'a> = BTreeMap<&'a NamespacedName, Vec<NamespacedName>>;

impl ClusterState {
    /// Everything, as it is at the last tick.
    pub fn observe(&self, now: Timestamp) -> ClusterSeen {
        let by_app = self.budgets_by_app();
        let nodes = self.nodes.iter().map(|(name, node)| (name.clone(), node_seen(node)));
        let pods = self.pods.iter().map(|(name, pod)| self.pod_seen(name, pod, &by_app));
        let gangs = self.gangs.iter().map(|(uid, gang)| (uid.clone(), self.workload_seen(gang)));
        let budgets = self.budgets.iter().map(|(name, budget)| (name.clone(), self.budget_seen(budget)));
        let kueue = configuration();
        let is_others = |key: &ObjectKey| *key == kueue || key.kind == ObjectKind::ClusterPolicy;
        let objects = self.objects.iter().filter(|(key, _)| !is_others(key));
        let objects = objects.map(|(key, object)| (key.clone(), object_seen(object)));
        ClusterSeen {
            nodes: Read::new(nodes.collect(), now),
            pods: Read::new(pods.collect(), now),
            workloads: Read::new(gangs.collect(), now),
            budgets: Read::new(budgets.collect(), now),
            objects: Read::new(objects.collect(), now),
            unread: BTreeMap::new(),
            others: self.others(now),
        }
    }

    /// Only these: nodes with all their pods, workloads with theirs, objects, and the budgets of those pods.
    pub fn reread(&self, now: Timestamp, what: &[Subject]) -> ClusterSeen {
        let mut nodes: BTreeSet<NodeName> = BTreeSet::new();
        let mut gangs: BTreeSet<&WorkloadUid> = BTreeSet::new();
        let mut keys: BTreeSet<&ObjectKey> = BTreeSet::new();
        for subject in what {
            match subject {
                Subject::Node(name) => _ = nodes.insert(name.clone()),
                Subject::NodeOf(instance) => nodes.extend(self.node_of(instance).map(|node| node.name)),
                Subject::Workload(uid) => _ = gangs.insert(uid),
                Subject::Object(key) => _ = keys.insert(key),
                Subject::Instance(_) | Subject::Reservation(_) => {}
            }
        }
        let gangs: Vec<(&WorkloadUid, &Gang)> =
            gangs.into_iter().filter_map(|uid| Some((uid, self.gangs.get(uid)?))).collect();
        let mut pods: BTreeMap<&NamespacedName, &Pod> = nodes.iter().flat_map(|node| self.pods.on(node)).collect();
        pods.extend(gangs.iter().flat_map(|(_, gang)| self.pods.of(&gang.spec.name)));
        let by_app = self.budgets_by_app();
        let named = pods.values().filter_map(|pod| by_app.get(pod.app())).flatten().cloned();
        let named: BTreeSet<NamespacedName> = named.collect();
        let budgets = named.into_iter().filter_map(|name| {
            let seen = self.budget_seen(self.budgets.get(&name)?);
            Some((name, seen))
        });
        let objects = keys.into_iter().filter_map(|key| Some((key.clone(), object_seen(self.objects.get(key)?))));
        let nodes = nodes.iter().filter_map(|name| Some((name.clone(), node_seen(self.nodes.get(name)?))));
        ClusterSeen {
            nodes: Read::new(nodes.collect(), now),
            pods: Read::new(pods.iter().map(|(name, pod)| self.pod_seen(name, pod, &by_app)).collect(), now),
            workloads: Read::new(
                gangs.iter().map(|(uid, gang)| ((*uid).clone(), self.workload_seen(gang))).collect(),
                now,
            ),
            budgets: Read::new(budgets.collect(), now),
            objects: Read::new(objects.collect(), now),
            unread: BTreeMap::new(),
            others: Others::default(),
        }
    }

    fn others(&self, now: Timestamp) -> Others {
        let policies = self.objects.iter().filter(|(key, _)| key.kind == ObjectKind::ClusterPolicy);
        Others {
            kueue: Read::new(self.objects.get(&configuration()).map(|found| found.body.clone()), now),
            kueue_version: None,
            policies: Read::new(policies.map(|(key, found)| (key.clone(), found.body.clone())).collect(), now),
        }
    }

    fn pod_seen(&self, name: &NamespacedName, pod: &Pod, by_app: &ByApp<'_>) -> PodSeen {
        let gang = pod.gang().and_then(|uid| self.gangs.get(uid));
        let owner = match &pod.owner {
            Owner::Gang(_) => gang.map(|gang| gang.job.clone()),
            Owner::Service(name) => self.services.get(name).map(|service| service.uid.clone()),
            Owner::Daemon(name) => self.daemons.get(name).map(|daemon| daemon.uid.clone()),
            Owner::Kubelet => pod.node().and_then(|node| Some(self.nodes.get(node)?.uid.clone())),
            Owner::Nobody => None,
        };
        // A pod that started later has saved nothing.
        let service = match &pod.owner {
            Owner::Service(name) => self.services.get(name),
            _ => None,
        };
        let saved = gang
            .and_then(|gang| gang.saved)
            .or_else(|| service?.saved)
            .filter(|saved| pod.started.is_some_and(|start| start <= *saved));
        PodSeen {
            name: name.clone(),
            uid: pod.uid.clone(),
            node: pod.node().cloned(),
            phase: pod.phase,
            ready: pod.ready,
            keeper: pod.keeper(),
            owner,
            workload: pod.gang().cloned(),
            gang: (pod.gang().is_some() || service.is_some_and(|service| service.together))
                .then(|| GangName(pod.app().to_string().into())),
            priority: pod.template.priority,
            requests: pod.template.requests.clone(),
            started: pod.started,
            terminating: pod.terminating,
            grace_secs: pod.template.grace_secs,
            empty_dir: pod.template.empty_dir,
            goes_anywhere: pod.template.tolerates.everything,
            saved,
            asked: pod.asked.or_else(|| gang?.marks.get(ASKED).map(|text| Mark::parse(text).since)),
            budgets: by_app.get(pod.app()).cloned().unwrap_or_default(),
        }
    }

    fn workload_seen(&self, gang: &Gang) -> WorkloadSeen {
        let per_pod = gang.spec.template.requests.clone();
        let requests = per_pod.iter().map(|(name, amount)| (name.clone(), amount * i64::from(gang.spec.pods)));
        let held = gang.held.as_ref();
        WorkloadSeen {
            name: gang.spec.name.clone(),
            queue: self.queue_of(gang),
            tier: gang.spec.tier.clone(),
            priority: self.priority_of(gang),
            created: gang.created,
            active: gang.active,
            marks: gang.marks.clone(),
            pods: gang.spec.pods,
            fewest: gang.spec.fewest,
            requests: requests.collect(),
            per_pod,
            required_level: gang.spec.required_level.clone(),
            preferred_level: gang.spec.preferred_level.clone(),
            placed: gang.placed,
            reserved: held.map(|held| held.since),
            evicted: gang.evicted.is_some(),
            finished: gang.finished,
            flavors: held.map(|held| held.flavors.clone()).unwrap_or_default(),
            nodes: held.map(|held| held.nodes.clone()).unwrap_or_default(),
            saved: gang.saved,
        }
    }
}

fn node_seen(node: &Node) -> NodeSeen {
    NodeSeen {
        uid: node.uid.clone(),
        instance: node.instance.clone(),
        labels: node.labels.clone(),
        annotations: node.annotations.clone(),
        taints: node.all_taints(),
        unschedulable: node.unschedulable,
        ready: node.ready,
        unready_since: node.not_ready_since,
        ready_since: node.ready_since,
        moved_by: node.moved_by.clone(),
        allocatable: node.allocatable(),
        conditions: conditions(node),
        created: node.created,
        boot: Some(node.boots.to_string().as_str().into()),
    }
}

/// What it says, and that it says nothing where its kubelet does not answer.
fn conditions(node: &Node) -> BTreeMap<String, ConditionSeen> {
    let mut conditions = node.conditions.clone();
    if let Some(since) = node.not_ready_since.filter(|_| !node.ready) {
        let said = || ConditionSeen::new(ConditionStatus::Unknown, since);
        conditions.entry(READY.into()).or_insert_with(said);
    }
    conditions
}

fn object_seen(object: &Stored) -> ObjectSeen {
    ObjectSeen {
        body: object.body.clone(),
        written: object.written.clone(),
        moved_by: object.moved_by.clone(),
        deleting: object.deleting,
    }
}
