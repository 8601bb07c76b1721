//! What Kueue recorded of its workloads, and what the model of it says about the same state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidewright::fleet::Target;
use tidewright::observed::{ClusterSeen, ObjectKey};
use tidewright::provider::Cluster;
use tidewright::queue::parse::{Parts, parse};
use tidewright::queue::transform::transformations;
use tidewright::queue::{Mode, PreemptReason, QueueState, WorkloadUid, predict_evictions};

use super::super::controlplane::{Controlplane, block, is_true};

/// A job by its namespace and name.
pub type JobName = (String, String);

/// What Kueue wrote about one job.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    pub uid: String,
    pub admitted: bool,
    /// Told to go, and its quota not free yet.
    pub leaves: bool,
    /// How often it was evicted, by reason and cause.
    pub evictions: BTreeMap<String, u64>,
    /// Why it was preempted, in Kueue's words, as long as it was not let in again.
    pub preempted: Option<String>,
    /// Why it waits, in Kueue's words.
    pub waits: Option<String>,
}

impl Recorded {
    pub fn times(&self) -> u64 {
        self.evictions.values().sum()
    }
}

/// Every workload of these namespaces, by the job that owns it.
pub fn recorded(plane: &Controlplane, namespaces: &BTreeSet<String>) -> BTreeMap<JobName, Recorded> {
    let all = plane.api.list("/apis/kueue.x-k8s.io/v1beta2/workloads");
    let ours = all.iter().filter_map(|workload| {
        let meta = &workload["metadata"];
        let namespace = meta["namespace"].as_str().filter(|name| namespaces.contains(*name))?;
        let job = meta["ownerReferences"][0]["name"].as_str()?;
        Some(((namespace.to_owned(), job.to_owned()), one(workload)))
    });
    ours.collect()
}

fn one(workload: &Value) -> Recorded {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = || workload["status"]["conditions"].as_array().into_iter().flatten();
    let of = |name: &str| conditions().find(|condition| condition["type"] == name).cloned();
    let evictions = workload["status"]["schedulingStats"]["evictions"].as_array().into_iter().flatten();
    let evictions = evictions.map(|one| {
        let reason = [&one["reason"], &one["underlyingCause"]].map(text).join(" ").trim_end().to_owned();
        (reason, one["count"].as_u64().unwrap_or(0))
    });
    let waits = of("QuotaReserved").filter(|condition| condition["status"] == "False");
    Recorded {
        uid: text(&workload["metadata"]["uid"]),
        admitted: is_true(workload, "Admitted").is_some(),
        leaves: is_true(workload, "Evicted").is_some() && is_true(workload, "QuotaReserved").is_some(),
        evictions: evictions.collect(),
        preempted: of("Preempted")
            .filter(|condition| condition["status"] == "True")
            .map(|condition| format!("{}: {}", text(&condition["reason"]), text(&condition["message"]))),
        waits: waits.map(|condition| text(&condition["message"])),
    }
}

/// Which of those that ran at the first look were evicted until the second. What waited then, was let in and sent away
/// again while Kueue sorted itself out, has nothing to lose: nobody foretells the order of its cycles.
pub fn evicted(before: &BTreeMap<JobName, Recorded>, after: &BTreeMap<JobName, Recorded>) -> BTreeSet<JobName> {
    let ran = before.iter().filter(|(_, then)| then.admitted);
    let gone = ran.filter(|(job, then)| after.get(*job).is_some_and(|now| now.times() > then.times()));
    gone.map(|(job, _)| job.clone()).collect()
}

/// What the provider sees of the whole cluster.
pub fn seen(plane: &Controlplane, target: &Target) -> ClusterSeen {
    let cluster = super::cluster(plane, &target.standing.fleet.to_string());
    block(cluster.observe(target))
}

/// The model's state of what was seen, of the objects that `ours` picks and the workloads of these namespaces.
pub fn state(
    seen: &ClusterSeen,
    mode: Mode,
    namespaces: &BTreeSet<String>,
    ours: impl Fn(&ObjectKey) -> bool,
) -> QueueState {
    let objects = seen.objects.whole().expect("all objects were read");
    let workloads = seen.workloads.whole().expect("all workloads were read");
    let workloads = workloads.iter().filter(|(_, one)| namespaces.contains(one.name.namespace.as_str()));
    parse(&Parts {
        mode,
        counts: transformations(seen.others.kueue.seen().as_ref()),
        now: jiff::Timestamp::now(),
        objects: objects.iter().filter(|(key, _)| ours(key)).map(|(key, seen)| (key, &seen.body)).collect(),
        workloads: &workloads.map(|(uid, one)| (uid.clone(), one.clone())).collect(),
        nodes: seen.nodes.seen(),
        pods: seen.pods.seen(),
    })
}

/// Whom the model sends away, each with why.
pub fn foretold(state: &QueueState) -> BTreeMap<WorkloadUid, Option<PreemptReason>> {
    predict_evictions(state).into_iter().map(|(uid, by)| (uid, by.map(|(_, reason)| reason))).collect()
}
