//! What can be looked at again: the preconditions of a step, and what a step waits for.
//!
//! [`Fact::verdict`] is the one judge, for `apply`, `audit` and tests. It reads a snapshot that may hold only the
//! things that the fact names (`Fact::subjects`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::desired::LaidOut;
use super::marks::{ASKED, CORDON, MIG_CONFIG, MIG_STATE, Mark, is_starting};
use crate::ids::{BootId, Digest, InstanceId, NodeName, ReservationId, Uid, WorkloadUid};
use crate::observed::{GangName, InstanceState, NodeSeen, ObjectKey, Observed, PodSeen};

/// How long the scheduler may still act on what it saw before a cordon.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(5);
/// How long a node may say nothing before it is given up. Kubernetes tells pods to leave after five minutes; a kubelet
/// that starts again, or a control plane that was away, is back by then.
pub const SILENT: SignedDuration = SignedDuration::from_mins(10);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Fact {
    /// The instance is terminated.
    Gone(InstanceId),
    /// The instance is there and is not on its way out.
    Live(InstanceId),
    /// The cloud does not know the instance, asked for it by its id: a list may have lost it.
    Unlisted(InstanceId),
    /// The reservation has this many places that nobody holds.
    Free { reservation: ReservationId, places: u32 },
    /// The reservation can be launched into.
    Active(ReservationId),
    /// The instance's node is in the cluster, ready, and these resources are allocatable.
    Joined { instance: InstanceId },
    /// No node of the instance is in the cluster: a fresh look, because a list that lost it looks the same.
    Unjoined(InstanceId),
    /// Nobody was let on the node yet: it carries the taint that it was started with.
    Unopened(NodeName),
    /// The node carries our cordon, and has for as long as the scheduler may lag.
    Settled(NodeName),
    /// The node carries our cordon.
    Cordoned(NodeName),
    /// Beside what a drain leaves, the node holds no pod but these. `Settled` is part of it.
    HoldsOnly { node: NodeName, pods: BTreeSet<Uid> },
    /// Beside what a drain leaves, the node holds no pod but these now; others may come.
    NobodyBut { node: NodeName, pods: BTreeSet<Uid> },
    /// The node holds nothing but what a drain leaves, and none can come.
    Empty(NodeName),
    /// The node is empty, or it has said nothing for so long that nobody will see it empty: all that is left on it was
    /// told to end and had its time. Only for a machine that is ended: whatever still runs there ends with it.
    GivenUp(NodeName),
    /// The node is cut as ordered: the labels, the state, and what is allocatable.
    LaidOut { node: NodeName, laid_out: LaidOut },
    /// The workload said that its work is saved after we asked it to, or is gone, or had the time, or `hard_at` came.
    Saved { workload: WorkloadUid, within_secs: u64, hard_at: Option<Timestamp> },
    /// The gang that no queue admitted has saved its work since it was asked, after this instant; or its time is up.
    PodsSaved {
        gang: GangName,
        nodes: BTreeSet<NodeName>,
        since: Timestamp,
        within_secs: u64,
        hard_at: Option<Timestamp>,
    },
    /// The workload holds no quota, and its pods are gone.
    Released(WorkloadUid),
    /// The workload has no more pods than this, nor quota for more.
    Shrunk { workload: WorkloadUid, pods: u32 },
    /// The object is as it was: its digest, or none where it was not there.
    Unchanged { object: ObjectKey, body: Option<Digest> },
    /// All of these conditions of the node are true.
    Admitted { node: NodeName, conditions: Vec<String> },
    /// The node is there and ready.
    Ready(NodeName),
    /// The node is ready, and has been booted since this boot: for a while after it is told to, it says that it is ready as
    /// if nothing were. Where its kubelet names no boot, ready is all that can be asked.
    Booted { node: NodeName, since: Option<BootId> },
    /// The node is ready, and nobody has begun to take it out or closed it.
    InService(NodeName),
    /// An instant has come.
    After(Timestamp),
    /// An instant has not come: what somebody allowed until then is allowed.
    Before(Timestamp),
}

/// What a fact is about: what has to be read again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Subject {
    Instance(InstanceId),
    Reservation(ReservationId),
    /// With the pods on it.
    Node(NodeName),
    /// The node of an instance, and the instance.
    NodeOf(InstanceId),
    /// With its pods.
    Workload(WorkloadUid),
    Object(ObjectKey),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Holds,
    /// It does not hold now; it may in time.
    NotYet(String),
    /// It will not hold by waiting: another plan is needed.
    Never(String),
    /// It could not be read.
    Unknown(String),
}

impl Fact {
    pub fn subjects(&self) -> Vec<Subject> {
        match self {
            Self::Gone(id) | Self::Live(id) | Self::Unlisted(id) => vec![Subject::Instance(id.clone())],
            Self::Free { reservation, .. } | Self::Active(reservation) => {
                vec![Subject::Reservation(reservation.clone())]
            }
            Self::Joined { instance } | Self::Unjoined(instance) => vec![Subject::NodeOf(instance.clone())],
            Self::Unopened(node)
            | Self::Settled(node)
            | Self::Cordoned(node)
            | Self::HoldsOnly { node, .. }
            | Self::NobodyBut { node, .. }
            | Self::Empty(node)
            | Self::GivenUp(node)
            | Self::LaidOut { node, .. }
            | Self::Admitted { node, .. }
            | Self::Ready(node)
            | Self::Booted { node, .. }
            | Self::InService(node) => vec![Subject::Node(node.clone())],
            Self::Saved { workload, .. } | Self::Released(workload) | Self::Shrunk { workload, .. } => {
                vec![Subject::Workload(workload.clone())]
            }
            Self::PodsSaved { nodes, .. } => nodes.iter().cloned().map(Subject::Node).collect(),
            Self::Unchanged { object, .. } => vec![Subject::Object(object.clone())],
            Self::After(_) | Self::Before(_) => Vec::new(),
        }
    }

    /// Whether it holds in this snapshot at this instant.
    pub fn verdict(&self, seen: &Observed, now: Timestamp) -> Verdict {
        match self {
            Self::Gone(id) => gone(seen, id),
            Self::Live(id) => live(seen, id),
            Self::Unlisted(id) => match seen.cloud.instances.seen().get(id) {
                Some(found) => Verdict::Never(format!("{id} is {:?}", found.state)),
                None => unread_or(&seen.cloud.instances, Verdict::Holds),
            },
            Self::Free { reservation, places } => match seen.cloud.reservations.seen().get(reservation) {
                Some(found) if found.available >= *places => Verdict::Holds,
                Some(found) => not_yet(format!("{reservation} has {} of {places} places free", found.available)),
                None => unread(&seen.cloud.reservations, format!("{reservation} is not there")),
            },
            Self::Active(id) => match seen.cloud.reservations.seen().get(id) {
                Some(found) if found.state == crate::observed::ReservationState::Active => Verdict::Holds,
                Some(found) => not_yet(format!("{id} is {:?}", found.state)),
                None => unread(&seen.cloud.reservations, format!("{id} is not there")),
            },
            Self::Joined { instance } => joined(seen, instance),
            Self::Unjoined(instance) => {
                let mut nodes = seen.cluster.nodes.seen().iter();
                match nodes.find(|(_, node)| node.instance.as_ref() == Some(instance)) {
                    Some((name, _)) => Verdict::Never(format!("{name} is the node of {instance}")),
                    None => unread_or(&seen.cluster.nodes, Verdict::Holds),
                }
            }
            Self::Unopened(node) => match seen.cluster.nodes.seen().get(node) {
                Some(found) if is_starting(found) => Verdict::Holds,
                Some(_) => Verdict::Never(format!("{node} was let in meanwhile")),
                None => unread(&seen.cluster.nodes, format!("{node} is not there")),
            },
            Self::Settled(node) => settled(seen, node, now),
            Self::Cordoned(node) => cordoned(seen, node).map_or_else(|verdict| verdict, |_| Verdict::Holds),
            Self::HoldsOnly { node, pods } => match settled(seen, node, now) {
                Verdict::Holds => holds_only(seen, node, pods),
                other => other,
            },
            Self::NobodyBut { node, pods } => holds_only(seen, node, pods),
            Self::Empty(node) => match settled(seen, node, now) {
                Verdict::Holds => empty(seen, node),
                other => other,
            },
            Self::GivenUp(node) => match settled(seen, node, now) {
                Verdict::Holds => given_up(seen, node, now),
                other => other,
            },
            Self::LaidOut { node, laid_out } => laid_out_as(seen, node, laid_out),
            Self::Saved { workload, within_secs, hard_at } => saved(seen, workload, *within_secs, *hard_at, now),
            Self::PodsSaved { gang, since, within_secs, hard_at, .. } => {
                pods_saved(seen, gang, *since, *within_secs, *hard_at, now)
            }
            Self::Released(workload) => released(seen, workload),
            Self::Shrunk { workload, pods } => shrunk(seen, workload, *pods),
            Self::Unchanged { object, body } => {
                let found = seen.cluster.objects.seen().get(object).map(|found| super::digest_of(&found.body));
                match (found, body) {
                    (None, None) => unread_or(&seen.cluster.objects, Verdict::Holds),
                    (found, body) if found == *body => Verdict::Holds,
                    (None, Some(_)) => unread(&seen.cluster.objects, format!("{object} is gone")),
                    (Some(_), None) => Verdict::Never(format!("{object} is there already")),
                    _ => Verdict::Never(format!("{object} was changed by somebody")),
                }
            }
            Self::Admitted { node, conditions } => admitted(seen, node, conditions),
            Self::Ready(node) => match seen.cluster.nodes.seen().get(node) {
                Some(found) if found.ready => Verdict::Holds,
                Some(_) => not_yet(format!("{node} is not ready")),
                None => unread(&seen.cluster.nodes, format!("{node} is not there")),
            },
            Self::Booted { node, since } => match seen.cluster.nodes.seen().get(node) {
                Some(found) if since.is_some() && found.boot == *since => {
                    not_yet(format!("{node} has not gone down yet"))
                }
                Some(found) if found.ready => Verdict::Holds,
                Some(_) => not_yet(format!("{node} is not ready")),
                None => unread(&seen.cluster.nodes, format!("{node} is not there")),
            },
            Self::InService(node) => match seen.cluster.nodes.seen().get(node) {
                Some(found) if !found.ready => not_yet(format!("{node} is not ready")),
                Some(found) if found.annotation(CORDON).is_some() => not_yet(format!("{node} is taken out")),
                Some(found) if found.unschedulable => not_yet(format!("{node} is closed")),
                Some(_) => Verdict::Holds,
                None => unread(&seen.cluster.nodes, format!("{node} is not there")),
            },
            Self::After(at) if now >= *at => Verdict::Holds,
            Self::After(at) => not_yet(format!("it is not {at} yet")),
            Self::Before(at) if now < *at => Verdict::Holds,
            Self::Before(at) => Verdict::Never(format!("it was allowed until {at}, and that is over")),
        }
    }
}

fn not_yet(why: String) -> Verdict {
    Verdict::NotYet(why)
}

fn unread_or<T>(read: &crate::observed::Read<T>, verdict: Verdict) -> Verdict {
    match read.gap() {
        Some(gap) => Verdict::Unknown(format!("{}: {}", gap.what, gap.why)),
        None => verdict,
    }
}

fn unread<T>(read: &crate::observed::Read<T>, why: String) -> Verdict {
    unread_or(read, Verdict::Never(why))
}

fn gone(seen: &Observed, id: &InstanceId) -> Verdict {
    match seen.cloud.instances.seen().get(id).map(|found| &found.state) {
        Some(InstanceState::Terminated) => Verdict::Holds,
        Some(state) => not_yet(format!("{id} is {state:?}")),
        // A terminated instance stays listed for an hour. One that is missing may be hidden: absence is no proof.
        None => not_yet(format!("{id} is not listed")),
    }
}

fn live(seen: &Observed, id: &InstanceId) -> Verdict {
    match seen.cloud.instances.seen().get(id) {
        Some(found) if found.state.serves() => Verdict::Holds,
        Some(found) => Verdict::Never(format!("{id} is {:?}", found.state)),
        None => unread(&seen.cloud.instances, format!("{id} is not listed")),
    }
}

fn joined(seen: &Observed, id: &InstanceId) -> Verdict {
    if let Some(found) = seen.cloud.instances.seen().get(id)
        && !found.state.serves()
    {
        return Verdict::Never(format!("{id} is {:?}", found.state));
    }
    match seen.cluster.nodes.seen().values().find(|node| node.instance.as_ref() == Some(id)) {
        Some(node) if node.ready => Verdict::Holds,
        Some(_) => not_yet(format!("the node of {id} is not ready")),
        None => not_yet(format!("the node of {id} has not joined")),
    }
}

fn cordoned(seen: &Observed, name: &NodeName) -> Result<Mark, Verdict> {
    let Some(node) = seen.cluster.nodes.seen().get(name) else {
        return Err(unread(&seen.cluster.nodes, format!("{name} is not there")));
    };
    match node.annotation(CORDON) {
        Some(mark) => Ok(Mark::parse(mark)),
        None => Err(Verdict::Never(format!("{name} does not carry our cordon"))),
    }
}

fn settled(seen: &Observed, name: &NodeName, now: Timestamp) -> Verdict {
    match cordoned(seen, name) {
        Ok(mark) if now.duration_since(mark.since) >= SETTLE => Verdict::Holds,
        Ok(_) => not_yet(format!("{name} was cordoned less than {}s ago", SETTLE.as_secs())),
        Err(verdict) => verdict,
    }
}

fn on<'a>(seen: &'a Observed, node: &NodeName) -> impl Iterator<Item = &'a PodSeen> {
    let node = node.clone();
    seen.cluster.pods.seen().iter().filter(move |pod| pod.node.as_ref() == Some(&node) && pod.counts())
}

fn holds_only(seen: &Observed, node: &NodeName, pods: &BTreeSet<Uid>) -> Verdict {
    if seen.cluster.pods.gap().is_some() {
        return unread(&seen.cluster.pods, String::new());
    }
    match on(seen, node).find(|pod| !pods.contains(&pod.uid)) {
        None => Verdict::Holds,
        Some(pod) => Verdict::Never(format!("{} came to {node}", pod.name)),
    }
}

fn empty(seen: &Observed, node: &NodeName) -> Verdict {
    if seen.cluster.pods.gap().is_some() {
        return unread(&seen.cluster.pods, String::new());
    }
    // Nobody told it to go, and it does not by itself: who waits for that waits for ever.
    if let Ok(mark) = cordoned(seen, node)
        && let Some(pod) = on(seen, node).find(|pod| came_anyway(pod, &mark))
    {
        return Verdict::Never(format!("{} tolerates every taint and came to {node}", pod.name));
    }
    match named(on(seen, node)) {
        None => Verdict::Holds,
        Some(left) => not_yet(format!("still on {node}: {left}")),
    }
}

fn given_up(seen: &Observed, node: &NodeName, now: Timestamp) -> Verdict {
    let verdict = empty(seen, node);
    let is_silent = seen.cluster.nodes.seen().get(node).is_some_and(|found| is_silent(found, now));
    let left = || on(seen, node).filter(|pod| !pod.had_its_time(now));
    match verdict {
        Verdict::NotYet(_) if is_silent => match named(left()) {
            None => Verdict::Holds,
            Some(left) => not_yet(format!("{node} does not answer, and these still have time to end: {left}")),
        },
        verdict => verdict,
    }
}

/// Whether a pod came to a node that was closed, when every scheduler knew of that: one that tolerates every taint does, and
/// whoever takes its place would again.
pub fn came_anyway(pod: &PodSeen, closed: &Mark) -> bool {
    let came = pod.started.is_some_and(|at| at.duration_since(closed.since) >= SETTLE);
    came && pod.goes_anywhere && pod.counts() && pod.terminating.is_none()
}

/// Whether a node has said nothing for so long that nobody waits for it any more.
pub fn is_silent(node: &NodeSeen, now: Timestamp) -> bool {
    node.silent_since().is_some_and(|since| now.duration_since(since) >= SILENT)
}

/// Names that are told before the rest is counted: who waits for pods wants to see which.
const NAMES: usize = 8;

/// The pods by their names; none where there is none.
fn named<'a>(pods: impl Iterator<Item = &'a PodSeen>) -> Option<String> {
    let mut names: Vec<String> = pods.map(|pod| pod.name.to_string()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| names.join(", ") + &more)
}

fn laid_out_as(seen: &Observed, name: &NodeName, wanted: &LaidOut) -> Verdict {
    let Some(node) = seen.cluster.nodes.seen().get(name) else {
        return unread(&seen.cluster.nodes, format!("{name} is not there"));
    };
    if let Some((key, value)) = wanted.labels.iter().find(|(key, value)| node.labels.get(*key) != Some(*value)) {
        return Verdict::Never(format!("{name} is not labelled {key}={value}"));
    }
    let state = node.labels.get(MIG_STATE).map(String::as_str);
    if wanted.labels.contains_key(MIG_CONFIG) {
        match state {
            Some("success") => {}
            Some("failed") => return Verdict::Never(format!("mig-manager failed on {name}")),
            other => return not_yet(format!("mig-manager on {name} says {}", other.unwrap_or("nothing"))),
        }
    }
    if allocatable_is(&node.allocatable, wanted) {
        Verdict::Holds
    } else {
        not_yet(format!("the device plugin on {name} does not show the GPUs yet"))
    }
}

/// Whether a node shows what a cut promises: at least this much, and nothing of what must be gone.
pub fn allocatable_is(allocatable: &BTreeMap<crate::ids::ResourceName, i64>, wanted: &LaidOut) -> bool {
    let of = |name: &crate::ids::ResourceName| allocatable.get(name).copied().unwrap_or(0);
    wanted.allocatable.iter().all(|(name, amount)| of(name) >= *amount)
        && wanted.absent.iter().all(|name| of(name) == 0)
}

fn saved(seen: &Observed, uid: &WorkloadUid, within_secs: u64, hard_at: Option<Timestamp>, now: Timestamp) -> Verdict {
    let Some(workload) = seen.cluster.workloads.seen().get(uid) else {
        return unread_or(&seen.cluster.workloads, Verdict::Holds);
    };
    if hard_at.is_some_and(|hard_at| now >= hard_at) || workload.reserved.is_none() {
        return Verdict::Holds;
    }
    let Some(asked) = workload.marks.get(ASKED).map(|mark| Mark::parse(mark).since) else {
        return Verdict::Never(format!("{} was not asked to save its work", workload.name));
    };
    let waited = u64::try_from(now.duration_since(asked).as_secs()).unwrap_or(0);
    if workload.saved.is_some_and(|at| at >= asked) || waited >= within_secs {
        Verdict::Holds
    } else {
        not_yet(format!("{} has not saved its work", workload.name))
    }
}

/// A pod may answer for its gang, as for a workload. Who was asked for something else, long ago, was not asked.
fn pods_saved(
    seen: &Observed,
    gang: &GangName,
    since: Timestamp,
    within_secs: u64,
    hard_at: Option<Timestamp>,
    now: Timestamp,
) -> Verdict {
    if seen.cluster.pods.gap().is_some() {
        return unread(&seen.cluster.pods, String::new());
    }
    let its = |pod: &&PodSeen| {
        pod.gang.as_ref() == Some(gang) && pod.workload.is_none() && pod.counts() && pod.terminating.is_none()
    };
    let pods: Vec<&PodSeen> = seen.cluster.pods.seen().iter().filter(its).collect();
    if pods.is_empty() || hard_at.is_some_and(|hard_at| now >= hard_at) {
        return Verdict::Holds;
    }
    let Some(asked) = pods.iter().map(|pod| pod.asked.filter(|asked| *asked >= since)).min().flatten() else {
        return Verdict::Never(format!("{gang} was not asked to save its work"));
    };
    let waited = u64::try_from(now.duration_since(asked).as_secs()).unwrap_or(0);
    if pods.iter().any(|pod| pod.saved.is_some_and(|at| at >= asked)) || waited >= within_secs {
        Verdict::Holds
    } else {
        not_yet(format!("{gang} has not saved its work"))
    }
}

fn released(seen: &Observed, uid: &WorkloadUid) -> Verdict {
    if seen.cluster.pods.gap().is_some() {
        return unread(&seen.cluster.pods, String::new());
    }
    match seen.cluster.workloads.seen().get(uid) {
        Some(found) if found.reserved.is_some() => not_yet(format!("{} still holds its quota", found.name)),
        None if seen.cluster.workloads.gap().is_some() => unread(&seen.cluster.workloads, String::new()),
        Some(_) | None => {
            // A pod that has ended stays as long as its job, and holds nothing.
            let its = |pod: &&PodSeen| pod.workload.as_ref() == Some(uid) && pod.counts();
            match named(seen.cluster.pods.seen().iter().filter(its)) {
                None => Verdict::Holds,
                Some(left) => not_yet(format!("still there: {left}")),
            }
        }
    }
}

fn shrunk(seen: &Observed, uid: &WorkloadUid, pods: u32) -> Verdict {
    if seen.cluster.pods.gap().is_some() {
        return unread(&seen.cluster.pods, String::new());
    }
    match seen.cluster.workloads.seen().get(uid) {
        Some(found) if found.pods > pods && found.reserved.is_some() => {
            not_yet(format!("{} still holds quota for {} pods", found.name, found.pods))
        }
        None if seen.cluster.workloads.gap().is_some() => unread(&seen.cluster.workloads, String::new()),
        Some(_) | None => {
            let its = |pod: &&PodSeen| pod.workload.as_ref() == Some(uid) && pod.counts();
            let (ending, staying): (Vec<&PodSeen>, Vec<&PodSeen>) =
                seen.cluster.pods.seen().iter().filter(its).partition(|pod| pod.terminating.is_some());
            match named(ending.into_iter()) {
                Some(left) => not_yet(format!("still there: {left}")),
                None if staying.len() > pods as usize => not_yet(format!("it still has {} pods", staying.len())),
                None => Verdict::Holds,
            }
        }
    }
}

fn admitted(seen: &Observed, name: &NodeName, conditions: &[String]) -> Verdict {
    let Some(node) = seen.cluster.nodes.seen().get(name) else {
        return unread(&seen.cluster.nodes, format!("{name} is not there"));
    };
    let holds = |kind: &String| {
        node.conditions.get(kind).is_some_and(|found| found.status == crate::fleet::policy::ConditionStatus::True)
    };
    match conditions.iter().find(|kind| !holds(kind)) {
        None => Verdict::Holds,
        Some(kind) => not_yet(format!("{name} does not say {kind}")),
    }
}

#[cfg(test)]
mod tests;
