//! What Kueue will do with a given state: who is admitted, who is preempted for whom, who waits and why.
//!
//! The plan predicts evictions with it and the simulated cluster runs on it. It follows Kueue 0.19 with its default
//! feature gates, as read in its source and seen in experiments. On the simulator its agreement proves nothing: only
//! a real Kueue judges it.
//!
//! Modelled: quota through nested cohorts with borrowing and lending limits ([`tree`]), the choice among flavors
//! ([`assign`]), preemption in classical mode with nested cohorts ([`preempt`]) and under fair sharing ([`fair`]),
//! topology-aware placement ([`topology`]), scheduling cycles with one head a queue, both queueing strategies, stop
//! policies, over-use that is debited but never evicted ([`cycle`]).
//!
//! Not modelled: jobs of several pod sets, slices inside a pod set, partial admission, elastic jobs, replacement of a
//! failed node, admission checks, waiting for pods to be ready, admission fair sharing, MultiKueue, and time: a victim
//! releases its quota when [`Decision::Release`] is applied, and everything admitted in one [`settle`] counts as
//! reserved at `now`. Where Kueue's order is random (equal priority and creation second in two queues, equal shares of
//! two cohorts) the smaller UID or the later name goes first.

pub mod assign;
pub mod cycle;
pub mod fair;
pub mod mode;
pub mod model;
pub mod most;
pub mod parse;
pub mod preempt;
pub mod state;
pub mod topology;
pub mod transform;
pub mod tree;
#[cfg(test)]
mod tests;

pub use state::*;

use cycle::Pass;
use model::Model;

/// How often one workload may preempt the same other one within a [`settle`]. Twice can be honest (the preemptor was
/// itself preempted in between); Kueue has known configurations that go round for ever.
const STRIKES: usize = 3;

/// What happens to a workload.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Decision {
    /// Quota is reserved. `nodes` is empty where no flavor has a topology.
    Admit { workload: WorkloadUid, assignment: Assignment },
    /// `victim` is told to go and holds its quota until it is released.
    Preempt { victim: WorkloadUid, by: WorkloadUid, reason: PreemptReason },
    /// It is told to go by its own queue or flag.
    Evict { workload: WorkloadUid, reason: EvictReason },
    /// An evicted workload gave its quota back and queues again at its old place.
    Release { workload: WorkloadUid },
    /// It waits. `parked` means that Kueue looks at it again only when something is freed in its cohort.
    Wait { workload: WorkloadUid, reason: WaitReason, parked: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PreemptReason {
    InClusterQueue,
    InCohortReclamation,
    InCohortReclaimWhileBorrowing,
    InCohortFairSharing,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EvictReason {
    /// The queue's stop policy is `HoldAndDrain`.
    QueueDrained,
    /// The workload is not active.
    Deactivated,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WaitReason {
    Inactive,
    /// The ClusterQueue is held, or its cohorts form a cycle.
    QueueStopped,
    NoSuchQueue,
    /// No flavor of the queue covers the request or suits the workload.
    NoFlavor,
    /// More than the queue could ever have, or more than it may preempt for.
    ExceedsQuota,
    /// The quota is in use and no victims are allowed.
    QuotaInUse,
    /// Quota is there, nodes are not.
    NoPlacement,
    /// Its victims have not released yet.
    PendingPreemption,
    /// A strict queue waits for its head.
    BehindHead,
    /// It went round in circles with its victims.
    Unsettled,
}

/// Everything Kueue decides until nothing more happens, victims releasing as soon as they are told to.
///
/// It ends. A pass ([`step`]) ends because each of its cycles admits, parks or marks a workload and none of these is
/// undone within a pass. Between passes victims are released, and a pass that marks nobody is the last one; one
/// workload marks the same victim at most [`STRIKES`] times, so there are at most `STRIKES * n²` passes. In practice
/// there are few: one for each preemptor in the longest queue.
///
/// Applying the decisions in order gives the settled state, and settling that decides nothing but the same waits.
pub fn settle(state: &QueueState) -> Vec<Decision> {
    let mut model = Model::new(state);
    let mut pass = Pass::new(&model, &state.parked);
    let mut decisions = model.stop();
    loop {
        pass.run(&mut model, STRIKES, &mut decisions);
        let released = model.release_evicted();
        if released.is_empty() {
            break;
        }
        for &job in &released {
            decisions.push(Decision::Release { workload: model.jobs[job].uid.clone() });
        }
        pass.wake(&model, &released);
    }
    pass.waits(&model, &mut decisions);
    decisions
}

/// What Kueue decides before any victim releases. A caller that knows when pods are gone steps, applies, and applies
/// [`Decision::Release`] as they go.
pub fn step(state: &QueueState) -> Vec<Decision> {
    let mut model = Model::new(state);
    let mut pass = Pass::new(&model, &state.parked);
    let mut decisions = model.stop();
    pass.run(&mut model, STRIKES, &mut decisions);
    pass.waits(&model, &mut decisions);
    decisions
}

/// Puts one decision into effect. A decision about a workload that is not there changes nothing.
pub fn apply(state: &mut QueueState, decision: &Decision) {
    let now = state.now;
    match decision {
        Decision::Admit { workload, assignment } => {
            if let Some(found) = state.workloads.get_mut(workload) {
                let assignment = assignment.clone();
                found.reservation = Some(Reservation { since: now, assignment, evicted: false });
                state.parked.remove(workload);
            }
        }
        Decision::Preempt { victim: workload, .. } | Decision::Evict { workload, .. } => {
            if let Some(held) = state.workloads.get_mut(workload).and_then(|found| found.reservation.as_mut()) {
                held.evicted = true;
            }
        }
        Decision::Release { workload } => {
            let Some(found) = state.workloads.get_mut(workload) else { return };
            found.reservation = None;
            let queue = found.queue.clone();
            wake(state, &queue);
        }
        Decision::Wait { workload, reason, parked } => {
            if *parked {
                state.parked.insert(workload.clone(), *reason);
            } else {
                state.parked.remove(workload);
            }
        }
    }
}

/// Who is told to go, in order, and for whom. What a plan wants to know of a [`settle`].
pub fn predict_evictions(state: &QueueState) -> Vec<(WorkloadUid, Option<(WorkloadUid, PreemptReason)>)> {
    let told = |decision| match decision {
        Decision::Preempt { victim, by, reason } => Some((victim, Some((by, reason)))),
        Decision::Evict { workload, .. } => Some((workload, None)),
        _ => None,
    };
    settle(state).into_iter().filter_map(told).collect()
}

/// Kueue looks again at whatever waits in the cohorts of `queue`: quota or nodes became free there.
pub fn wake(state: &mut QueueState, queue: &ClusterQueueName) {
    let root = root_of(state, queue);
    let elsewhere = |uid: &WorkloadUid| match state.workloads.get(uid) {
        Some(found) => root_of(state, &found.queue) != root,
        None => false,
    };
    let stays = state.parked.iter().filter(|(uid, _)| elsewhere(uid)).map(|(uid, why)| (uid.clone(), *why)).collect();
    state.parked = stays;
}

/// The topmost cohort above a queue, or the queue itself where it has none.
fn root_of<'a>(state: &'a QueueState, queue: &'a ClusterQueueName) -> &'a str {
    let Some(mut cohort) = state.cluster_queues.get(queue).and_then(|found| found.cohort.as_ref()) else {
        return queue.as_str();
    };
    for _ in 0..=state.cohorts.len() {
        match state.cohorts.get(cohort).and_then(|found| found.parent.as_ref()) {
            Some(parent) => cohort = parent,
            None => break,
        }
    }
    cohort.as_str()
}
