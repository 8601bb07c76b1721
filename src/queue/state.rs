//! The state that Kueue decides on, as plain data: its objects reduced to what matters for a decision.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::WaitReason;
pub use crate::ids::{ClusterQueueName, CohortName, FlavorName, NodeName, ResourceName, WorkloadUid};

/// Everything Kueue looks at. Amounts are whole numbers in any one unit a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueState {
    pub mode: Mode,
    /// When what is admitted from here on counts as reserved.
    pub now: Timestamp,
    /// Cohorts with an object of their own. One that is only named, by a queue or as a parent, needs no entry.
    pub cohorts: BTreeMap<CohortName, Cohort>,
    pub cluster_queues: BTreeMap<ClusterQueueName, ClusterQueue>,
    pub workloads: BTreeMap<WorkloadUid, Workload>,
    /// The flavors with a topology.
    pub topologies: BTreeMap<FlavorName, Topology>,
    /// Workloads that Kueue tried and put aside until something is freed in their cohort, and why. Leave it empty
    /// where that is not known: all are tried, as after a restart. Whoever changes quotas, nodes or workloads clears
    /// it.
    pub parked: BTreeMap<WorkloadUid, WaitReason>,
}

/// How Kueue is configured; it is not in the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    Classical,
    FairSharing { strategies: Vec<Strategy> },
}

/// A rule that lets a queue preempt another's workload under fair sharing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    LessThanOrEqualToFinalShare,
    LessThanInitialShare,
}

/// Quota of one resource of one flavor. No limit means that all may be lent or borrowed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    pub nominal: i64,
    pub borrowing_limit: Option<i64>,
    pub lending_limit: Option<i64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cohort {
    pub parent: Option<CohortName>,
    pub quotas: BTreeMap<(FlavorName, ResourceName), Quota>,
    pub weight: Weight,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterQueue {
    pub cohort: Option<CohortName>,
    pub groups: Vec<ResourceGroup>,
    pub preemption: Preemption,
    pub weight: Weight,
    pub stop: StopPolicy,
    pub strategy: QueueingStrategy,
    pub fungibility: Fungibility,
}

/// Resources that take their flavors together; every flavor covers the same resources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResourceGroup {
    /// In the order in which they are tried.
    pub flavors: Vec<FlavorQuotas>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlavorQuotas {
    pub flavor: FlavorName,
    pub quotas: BTreeMap<ResourceName, Quota>,
}

/// A fair-sharing weight in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weight(pub u32);

impl Default for Weight {
    fn default() -> Self {
        Self(1000)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Preemption {
    pub within_queue: WithinQueue,
    pub reclaim: Reclaim,
    pub borrow_within_cohort: Option<BorrowWithinCohort>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WithinQueue {
    #[default]
    Never,
    LowerPriority,
    LowerOrNewerEqualPriority,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reclaim {
    #[default]
    Never,
    LowerPriority,
    Any,
}

/// `borrowWithinCohort` with policy `LowerPriority`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BorrowWithinCohort {
    pub max_priority: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StopPolicy {
    #[default]
    None,
    Hold,
    HoldAndDrain,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueingStrategy {
    #[default]
    BestEffortFifo,
    StrictFifo,
}

/// When to be content with a flavor that needs borrowing or preemption. The default is Kueue's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fungibility {
    pub stop_when_borrowing: bool,
    pub stop_when_preempting: bool,
    /// Rather preempt than borrow, where the search goes on in both cases.
    pub preempt_over_borrow: bool,
}

impl Default for Fungibility {
    fn default() -> Self {
        Self { stop_when_borrowing: true, stop_when_preempting: false, preempt_over_borrow: false }
    }
}

/// A job with one pod set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    pub queue: ClusterQueueName,
    pub priority: i32,
    /// Its place in the queue: creation, or the eviction after a pods-ready time-out or a failed admission check.
    pub created: Timestamp,
    /// Wanted at all: `spec.active`, no admission gate closed, its LocalQueue not stopped.
    pub active: bool,
    /// Quota for all pods together, after resource transformations.
    pub requests: BTreeMap<ResourceName, i64>,
    pub pods: u32,
    /// What one pod takes on a node; asked only where a flavor has a topology.
    pub per_pod: BTreeMap<ResourceName, i64>,
    pub topology: Option<TopologyRequest>,
    /// Flavors it cannot use, for taints or node affinity.
    pub barred: BTreeSet<FlavorName>,
    pub reservation: Option<Reservation>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologyRequest {
    /// All pods in one domain of this level.
    Required(String),
    /// In one domain of this level, else in one of the next level up, else spread.
    Preferred(String),
    Unconstrained,
}

/// Quota that a workload holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    pub since: Timestamp,
    pub assignment: Assignment,
    /// Told to go and not gone.
    pub evicted: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Assignment {
    pub flavors: BTreeMap<ResourceName, FlavorName>,
    /// Pods on each node, where a flavor has a topology.
    pub nodes: BTreeMap<NodeName, u32>,
}

/// The nodes of a flavor as a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// Label keys from coarse to fine; the last one is the host name.
    pub levels: Vec<String>,
    /// Only nodes that are ready, not cordoned and without a taint that the flavor's pods do not tolerate.
    pub nodes: BTreeMap<NodeName, TopologyNode>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyNode {
    /// The values of all levels but the host name.
    pub path: Vec<String>,
    /// Allocatable minus the pods of no reservation in this state.
    pub capacity: BTreeMap<ResourceName, i64>,
}
