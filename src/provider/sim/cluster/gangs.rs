//! Gangs: Jobs that Kueue admits whole, with the Workload that stands for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::agenda::Happening;
use super::judge::Entry;
use super::pods::{Owner, Pod, PodTemplate};
use super::{CYCLE, ClusterState, PROMPT};
use crate::effect::marks::{ASKED, Mark, SUSPENDED};
use crate::ids::{ClusterQueueName, NamespacedName, NodeName, ResourceName, TierName, Uid, WorkloadUid};
use crate::observed::{ObjectKey, ObjectKind, PodPhase};
use crate::provider::{Class, ProviderError};
use crate::queue::{Assignment, TopologyRequest};

/// Kueue sees a change of `spec.active`.
const SEEN: SignedDuration = SignedDuration::from_millis(50);
/// From the eviction to the quota: the Job controller reports in batches of a second. Pods are still ending then.
const RELEASE: SignedDuration = SignedDuration::from_millis(1_050);
/// The Job controller makes pods.
const PODS: SignedDuration = SignedDuration::from_secs(1);
/// Kueue's default patience with pods that do not become ready, and how long the gang then waits.
const PODS_READY: SignedDuration = SignedDuration::from_secs(30 * 60);
const BACK_OFF: SignedDuration = SignedDuration::from_secs(60);
/// A finished job is cleaned up.
const KEPT: SignedDuration = SignedDuration::from_secs(3_600);

/// A job as somebody submits it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GangSpec {
    pub name: NamespacedName,
    /// The LocalQueue in its namespace.
    pub queue: String,
    /// The WorkloadPriorityClass.
    pub tier: Option<TierName>,
    pub pods: u32,
    /// With how few pods it goes on; none: all of them or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewest: Option<u32>,
    pub template: PodTemplate,
    pub required_level: Option<String>,
    pub preferred_level: Option<String>,
    /// How long saving its work takes once it is asked; none: it never answers.
    pub save_secs: Option<u32>,
    /// How long it runs in all; none: until somebody ends it. What is saved is not done again.
    pub work_secs: Option<u32>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gang {
    pub spec: GangSpec,
    pub job: Uid,
    pub created: Timestamp,
    /// Its place in the queue: its creation, or its eviction after its pods did not become ready.
    pub place: Timestamp,
    /// Kueue does not look at it before this.
    pub not_before: Option<Timestamp>,
    pub active: bool,
    /// Its Workload says how it is placed, if only since somebody's policy has it say so.
    #[serde(default)]
    pub placed: bool,
    pub marks: BTreeMap<String, String>,
    pub held: Option<Held>,
    /// Why it was told to go; stays until it is admitted again.
    pub evicted: Option<Why>,
    /// Counts admissions: what was planned for an earlier one is void.
    pub epoch: u32,
    pub finished: bool,
    pub saved: Option<Timestamp>,
    /// Since when all its pods run, or since it last saved its work.
    pub running: Option<Timestamp>,
    /// Since when it holds quota without all its pods ready.
    pub unready: Option<Timestamp>,
    /// Seconds of work that are saved.
    pub done_secs: u32,
    /// Why it waits, in the words of the model.
    pub waits: Option<String>,
}

/// The quota that a gang has, and where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Held {
    pub since: Timestamp,
    pub queue: ClusterQueueName,
    pub flavors: BTreeMap<ResourceName, crate::ids::FlavorName>,
    pub nodes: BTreeMap<NodeName, u32>,
}

/// The reasons of Kueue's `Evicted` condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Why {
    Preempted,
    Deactivated,
    QueueStopped,
    NodeFailures,
    PodsReadyTimeout,
}

impl GangSpec {
    /// Pods that ask for whole GPUs, and for nothing that a queue might not cover.
    pub fn new(namespace: &str, name: &str, queue: &str, pods: u32, gpus: u32) -> Self {
        let requests = BTreeMap::from([("nvidia.com/gpu".into(), i64::from(gpus))]);
        Self {
            name: NamespacedName::new(namespace, name),
            queue: queue.into(),
            tier: None,
            pods,
            fewest: None,
            template: PodTemplate { requests, ..PodTemplate::default() },
            required_level: None,
            preferred_level: None,
            save_secs: None,
            work_secs: None,
        }
    }
}

impl Gang {
    /// Holds quota and is not told to go.
    pub fn runs(&self) -> bool {
        self.held.is_some() && self.evicted.is_none() && !self.finished
    }

    pub fn assignment(&self) -> Option<Assignment> {
        let held = self.held.as_ref()?;
        Some(Assignment { flavors: held.flavors.clone(), nodes: held.nodes.clone() })
    }
}

impl ClusterState {
    /// Somebody submits a job; its Workload's UID.
    pub fn submit_gang(&mut self, now: Timestamp, mut spec: GangSpec) -> Result<WorkloadUid, ProviderError> {
        self.tick(now);
        self.claim_app(&spec.name)?;
        let (uid, job) = (WorkloadUid::from(self.uid()), self.uid().into());
        let says = spec.required_level.is_some() || spec.preferred_level.is_some();
        let word = if says { None } else { self.word_for(&spec) };
        let placed = says || word.is_some();
        // It is on the Workload from now on, whatever the policy says later.
        if let Some(TopologyRequest::Preferred(level)) = word {
            spec.preferred_level = Some(level);
        }
        let gang = Gang {
            spec,
            job,
            placed,
            created: self.now,
            place: self.now,
            not_before: None,
            active: true,
            marks: BTreeMap::new(),
            held: None,
            evicted: None,
            epoch: 0,
            finished: false,
            saved: None,
            running: None,
            unready: None,
            done_secs: 0,
            waits: None,
        };
        self.gangs.insert(uid.clone(), gang);
        self.poke_kueue(CYCLE);
        Ok(uid)
    }

    /// A job ends by itself, as well as it can.
    pub fn finish(&mut self, now: Timestamp, name: &NamespacedName) -> Result<(), ProviderError> {
        self.tick(now);
        let found = self.gangs.iter().find(|(_, gang)| gang.spec.name == *name && !gang.finished);
        let uid = found.map(|(uid, _)| uid.clone()).ok_or_else(|| absent(&format!("jobs.batch \"{name}\"")))?;
        self.end_gang(&uid);
        Ok(())
    }

    /// How many gangs have work that comes to an end.
    pub fn working(&self) -> usize {
        self.gangs.values().filter(|gang| !gang.finished && gang.spec.work_secs.is_some()).count()
    }

    pub fn gang_named(&self, name: &NamespacedName) -> Option<WorkloadUid> {
        self.gangs.iter().find(|(_, gang)| gang.spec.name == *name).map(|(uid, _)| uid.clone())
    }

    /// Why Kueue does not admit a workload, in the words of the queue model.
    pub fn waits_for(&self, uid: &WorkloadUid) -> Option<&str> {
        self.gangs.get(uid)?.waits.as_deref()
    }

    pub(super) fn priority_of(&self, gang: &Gang) -> i32 {
        let Some(tier) = &gang.spec.tier else { return gang.spec.template.priority };
        let key = ObjectKey::cluster(ObjectKind::WorkloadPriorityClass, tier.as_str());
        // A class that is not there is accepted, and means nothing.
        let value = self.objects.get(&key).and_then(|class| class.body.get("value")?.as_i64());
        value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0)
    }

    pub(super) fn ask(&mut self, uid: &WorkloadUid, mark: &Mark) -> Result<(), ProviderError> {
        let gang = self.gangs.get_mut(uid).ok_or_else(|| absent(&format!("workloads.kueue.x-k8s.io \"{uid}\"")))?;
        gang.marks.insert(ASKED.into(), mark.text());
        if let Some(secs) = gang.spec.save_secs {
            self.soon(SignedDuration::from_secs(secs.into()), Happening::Saved(uid.clone()));
        }
        Ok(())
    }

    pub(super) fn gang_saved(&mut self, uid: &WorkloadUid) {
        let now = self.now;
        let Some(gang) = self.gangs.get_mut(uid).filter(|gang| gang.runs()) else { return };
        // Whoever does not run has nothing to save, and nobody there to say so.
        let Some(running) = gang.running else { return };
        gang.saved = Some(now);
        let ran = u32::try_from(now.duration_since(running).as_secs()).unwrap_or(u32::MAX);
        gang.done_secs = gang.done_secs.saturating_add(ran);
        gang.running = Some(now);
    }

    pub(super) fn suspend(&mut self, uid: &WorkloadUid, mark: &Mark) -> Result<(), ProviderError> {
        let gang = self.gangs.get_mut(uid).ok_or_else(|| absent(&format!("workloads.kueue.x-k8s.io \"{uid}\"")))?;
        if !gang.marks.contains_key(SUSPENDED) {
            // One that somebody else deactivated is not ours to activate.
            gang.marks.insert(SUSPENDED.into(), Mark { cordoned_before: !gang.active, ..mark.clone() }.text());
        }
        if std::mem::replace(&mut gang.active, false) {
            self.records.counts.suspends += 1;
            self.soon(SEEN, Happening::Deactivated(uid.clone()));
        }
        Ok(())
    }

    /// Lifts our own marks; one that somebody else deactivated stays so.
    pub(super) fn resume(&mut self, uid: &WorkloadUid) -> Result<(), ProviderError> {
        let gang = self.gangs.get_mut(uid).ok_or_else(|| absent(&format!("workloads.kueue.x-k8s.io \"{uid}\"")))?;
        gang.marks.remove(ASKED);
        let ours = gang.marks.remove(SUSPENDED).is_some_and(|mark| !Mark::parse(&mark).cordoned_before);
        if ours {
            gang.active = true;
            self.poke_kueue(PROMPT);
        }
        Ok(())
    }

    /// The job's parallelism is lowered: its controller ends the pods beyond, those with the highest numbers first. As in a
    /// real Kueue the quota is free at once, and the places are kept until the gang is admitted anew.
    pub(super) fn shrink(&mut self, uid: &WorkloadUid, pods: u32) -> Result<(), ProviderError> {
        let gang = self.gangs.get_mut(uid).ok_or_else(|| absent(&format!("workloads.kueue.x-k8s.io \"{uid}\"")))?;
        if gang.spec.fewest.is_none() || pods >= gang.spec.pods {
            return Ok(());
        }
        gang.spec.pods = pods;
        let name = gang.spec.name.clone();
        let mut active: Vec<NamespacedName> =
            self.pods.of(&name).filter(|(_, pod)| pod.is_active()).map(|(name, _)| name.clone()).collect();
        for pod in active.split_off(active.len().min(pods as usize)) {
            self.delete_pod(&pod);
        }
        self.note(Entry::Shrunk { gang: name, pods });
        self.poke_kueue(PROMPT);
        Ok(())
    }

    /// `spec.active` set by somebody else.
    pub fn set_active(&mut self, now: Timestamp, uid: &WorkloadUid, active: bool) -> Result<(), ProviderError> {
        self.tick(now);
        let gang = self.gangs.get_mut(uid).ok_or_else(|| absent(&format!("workloads.kueue.x-k8s.io \"{uid}\"")))?;
        gang.active = active;
        self.soon(SEEN, Happening::Deactivated(uid.clone()));
        self.poke_kueue(PROMPT);
        Ok(())
    }

    pub(super) fn gang_deactivated(&mut self, uid: &WorkloadUid) {
        if self.gangs.get(uid).is_some_and(|gang| !gang.active) {
            self.evict_gang(uid, Why::Deactivated);
        }
    }

    /// Kueue tells a gang to go. Its job is suspended; quota comes back a second later, pods when they have ended.
    pub(super) fn evict_gang(&mut self, uid: &WorkloadUid, why: Why) {
        let Some(gang) = self.gangs.get_mut(uid).filter(|gang| gang.runs()) else { return };
        gang.evicted = Some(why);
        let epoch = gang.epoch;
        if why != Why::Deactivated {
            self.stop_pods(uid);
        }
        self.soon(RELEASE, Happening::Released { gang: uid.clone(), epoch });
    }

    pub(super) fn gang_released(&mut self, uid: &WorkloadUid, epoch: u32) {
        let Some(gang) = self.gangs.get_mut(uid).filter(|gang| gang.epoch == epoch && gang.held.is_some()) else {
            return;
        };
        let Some(why) = gang.evicted else { return };
        if why == Why::Deactivated && gang.active {
            // Seen on a real Kueue: active again before the quota is released, and the job goes on running.
            gang.evicted = None;
            self.soon(PODS, Happening::FillGang(uid.clone()));
            return;
        }
        (gang.held, gang.running, gang.unready) = (None, None, None);
        let name = gang.spec.name.clone();
        if why == Why::Deactivated {
            self.stop_pods(uid);
        }
        self.note(Entry::Stopped { gang: name, why: format!("{why:?}") });
        self.poke_kueue(PROMPT);
        self.finish_deletions();
    }

    fn stop_pods(&mut self, uid: &WorkloadUid) {
        let Some(gang) = self.gangs.get(uid) else { return };
        let pods: Vec<_> = self.pods.of(&gang.spec.name).map(|(name, _)| name.clone()).collect();
        for pod in pods {
            self.delete_pod(&pod);
        }
    }

    pub(super) fn admit(&mut self, uid: &WorkloadUid, queue: &ClusterQueueName, assignment: Assignment) {
        let now = self.now;
        let Some(gang) = self.gangs.get_mut(uid) else { return };
        let Assignment { flavors, nodes } = assignment;
        gang.held = Some(Held { since: now, queue: queue.clone(), flavors, nodes });
        (gang.evicted, gang.waits, gang.not_before) = (None, None, None);
        gang.epoch += 1;
        let name = gang.spec.name.clone();
        self.records.counts.admissions += 1;
        self.note(Entry::Admitted { gang: name });
        self.soon(PODS, Happening::FillGang(uid.clone()));
        self.gang_lost_readiness(uid);
    }

    /// Not all pods are ready: from now on Kueue counts its patience.
    pub(super) fn gang_lost_readiness(&mut self, uid: &WorkloadUid) {
        let now = self.now;
        let Some(gang) = self.gangs.get_mut(uid) else { return };
        gang.running = None;
        if gang.unready.is_none() {
            gang.unready = Some(now);
            self.soon(PODS_READY, Happening::Unready { gang: uid.clone(), since: now });
        }
    }

    /// The Job controller makes the pods that are missing, each for the node that Kueue chose.
    pub(super) fn fill_gang(&mut self, uid: &WorkloadUid) {
        let Some(gang) = self.gangs.get(uid).filter(|gang| gang.runs()) else { return };
        let (name, template, gang_pods) = (gang.spec.name.clone(), self.gang_template(gang), gang.spec.pods);
        let failed: Vec<_> =
            self.pods.of(&name).filter(|(_, pod)| pod.is_over()).map(|(name, _)| name.clone()).collect();
        let wanted: Vec<(Option<NodeName>, u32)> = match &gang.held {
            Some(held) if !held.nodes.is_empty() => {
                held.nodes.iter().map(|(node, pods)| (Some(node.clone()), *pods)).collect()
            }
            _ => vec![(None, gang.spec.pods)],
        };
        for pod in failed {
            self.pods.remove(&pod);
        }
        let active = self.pods.of(&name).filter(|(_, pod)| pod.is_active()).count();
        // One that was made smaller has places for more.
        let mut missing = (gang_pods as usize).saturating_sub(active);
        for (node, pods) in wanted {
            let there = self.pods.of(&name).filter(|(_, pod)| pod.is_active() && pod.pinned == node).count();
            let made = (pods as usize).saturating_sub(there).min(missing);
            missing -= made;
            for _ in 0..made {
                let (pod_name, pod_uid) = self.pod_name(&name);
                let mut pod = Pod::new(pod_uid, Owner::Gang(uid.clone()), &name, template.clone(), self.now);
                pod.pinned = node.clone();
                self.pods.insert(pod_name, pod);
            }
        }
        self.poke_scheduler();
    }

    /// What Kueue adds to the pods: the flavor's labels and tolerations.
    fn gang_template(&self, gang: &Gang) -> Arc<PodTemplate> {
        let mut template = gang.spec.template.clone();
        for flavor in gang.held.iter().flat_map(|held| held.flavors.values()) {
            if let Some(flavor) = self.flavor(flavor) {
                template.selector.extend(flavor.labels);
                template.tolerates.keys.extend(flavor.tolerates);
            }
        }
        Arc::new(template)
    }

    /// A pod of the gang runs: perhaps it was the last one that was missing.
    pub(super) fn gang_runs(&mut self, uid: &WorkloadUid) {
        let now = self.now;
        let Some(gang) = self.gangs.get(uid).filter(|gang| gang.running.is_none()) else { return };
        let running = self.pods.of(&gang.spec.name).filter(|(_, pod)| pod.ready && pod.is_active()).count();
        if running < gang.spec.pods as usize {
            return;
        }
        if let Some(left) = gang.spec.work_secs.map(|all| all.saturating_sub(gang.done_secs)) {
            self.soon(SignedDuration::from_secs(left.into()), Happening::Finishes(uid.clone()));
        }
        if let Some(gang) = self.gangs.get_mut(uid) {
            (gang.running, gang.unready) = (Some(now), None);
        }
    }

    pub(super) fn gang_finishes(&mut self, uid: &WorkloadUid) {
        let Some(gang) = self.gangs.get(uid).filter(|gang| gang.runs()) else { return };
        let (Some(running), Some(work)) = (gang.running, gang.spec.work_secs) else { return };
        if i64::from(gang.done_secs) + self.now.duration_since(running).as_secs() >= i64::from(work) {
            self.end_gang(uid);
        }
    }

    fn end_gang(&mut self, uid: &WorkloadUid) {
        let Some(gang) = self.gangs.get_mut(uid) else { return };
        (gang.finished, gang.held, gang.running) = (true, None, None);
        let name = gang.spec.name.clone();
        let pods: Vec<_> = self.pods.of(&name).map(|(name, pod)| (name.clone(), pod.phase)).collect();
        for (pod, phase) in pods {
            match (phase, self.pods.get_mut(&pod)) {
                (PodPhase::Running, Some(found)) => (found.phase, found.ready) = (PodPhase::Succeeded, false),
                _ => self.remove_pod(&pod),
            }
        }
        self.note(Entry::Finished { gang: name });
        self.soon(KEPT, Happening::Forgotten(uid.clone()));
        self.poke_both();
        self.finish_deletions();
    }

    pub(super) fn forget_gang(&mut self, uid: &WorkloadUid) {
        let Some(gang) = self.gangs.remove(uid) else { return };
        let pods: Vec<_> = self.pods.of(&gang.spec.name).map(|(name, _)| name.clone()).collect();
        for pod in pods {
            self.pods.remove(&pod);
        }
    }

    /// Not all pods became ready in time: the gang queues again, behind those that came meanwhile.
    pub(super) fn gang_unready(&mut self, uid: &WorkloadUid, since: Timestamp) {
        let (now, back) = (self.now, super::later(self.now, BACK_OFF));
        let Some(gang) = self.gangs.get_mut(uid) else { return };
        if !gang.runs() || gang.unready != Some(since) {
            return;
        }
        (gang.place, gang.not_before) = (now, Some(back));
        self.evict_gang(uid, Why::PodsReadyTimeout);
        self.soon(BACK_OFF, Happening::BackOffOver);
    }
}

pub fn absent(what: &str) -> ProviderError {
    ProviderError::new(Class::NotFound, format!("{what} not found"))
}
