//! What a line of a script says.

use jiff::Timestamp;

use crate::effect::Scope;
use crate::fleet::policy::ConditionStatus;
use crate::ids::{FleetUid, InstanceType, NamespacedName, PoolName, QuotaName, TideName, TierName, Zone};
use crate::manifest::Kind;
use crate::observed::{Market, ObjectKey};
use crate::provider::sim::Fault;
use crate::provider::sim::cluster::{BudgetSpec, MigFault};
use crate::units::{Duration, Ratio};

#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    Start {
        at: Timestamp,
        seed: u64,
    },
    Fleet(From),
    /// What is replaced, and what by: one revision.
    Edit(Vec<(String, String)>),
    Delete {
        kind: Kind,
        name: String,
    },
    Add(String),
    Run(Run),
    Fault(Fault),
    Act(Act),
    Work(Work),
    Order(Order),
    Expect(Expect),
    /// Something goes wrong now and then, drawn from a seed.
    Weather {
        seed: u64,
        deadly: bool,
    },
    /// From here on plans are made with `--defragment`, or no longer.
    Defragment(bool),
    /// The operator's own clock is wrong by so many seconds.
    Clock(i64),
    /// Nothing goes wrong any more.
    Calm,
    /// What cannot be done is passed over.
    Maybe(Box<Command>),
}

/// Where a fleet's documents are.
#[derive(Clone, PartialEq, Debug)]
pub enum From {
    Directory(String),
    Text(String),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Run {
    Advance(Duration),
    Plan,
    Steps,
    Apply,
    /// Whoever planned goes on with it later.
    KeepPlan,
    /// The plan that was kept, whatever has happened since.
    ApplyKept,
    Converge {
        rounds: u32,
    },
    /// So many rounds, whatever comes of them.
    Rounds(u32),
    /// Approved as often as it takes, until nothing is left to do, within the bound; then quiet.
    Settle,
    Status,
    Approve,
    /// The seed says who is faster when; their clocks may be apart.
    TwoOperators {
        seed: u64,
        apart: Duration,
    },
    Show,
    Calls,
    /// What happened to each gang, node and service so far.
    Events,
    Health,
    Faults,
    /// How pools stand on the fabric, before and after the plan of this moment.
    Fabric,
}

/// A slot such as `train/3`, or a node by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place(pub String);

/// What hardware, people and the weather do.
#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    Kill(Place),
    Xid {
        place: Place,
        code: u32,
        heals: bool,
    },
    Condition {
        place: Place,
        kind: String,
        status: Option<ConditionStatus>,
        message: String,
    },
    Ready {
        place: Place,
        ready: bool,
    },
    RemoveNode(Place),
    Interrupt(Place),
    Recommend(Place),
    Maintenance {
        place: Place,
        within: Duration,
    },
    Mig {
        fault: MigFault,
        place: Place,
    },
    MigRestart(Place),
    Traffic {
        tide: TideName,
        value: Option<Ratio>,
    },
    Capacity {
        kind: InstanceType,
        zone: Zone,
        market: Market,
        left: Option<u32>,
    },
    ForeignInstance {
        kind: InstanceType,
        zone: Zone,
    },
    Existing {
        node: String,
        kind: InstanceType,
        gpus: u32,
        labels: Vec<(String, String)>,
        /// What its device plugins offer beside GPUs.
        shows: Vec<(String, String)>,
    },
    Cordon {
        place: Place,
        on: bool,
    },
    HandsOff {
        place: Place,
        on: bool,
    },
    Label {
        place: Place,
        key: String,
        value: Option<String>,
        by: Option<String>,
    },
    Change {
        object: ObjectKey,
        path: String,
        value: String,
        by: String,
    },
    DeleteObject {
        object: ObjectKey,
    },
    Acceptance(Option<u32>),
    LoseLedger(Option<FleetUid>),
}

/// What users submit.
#[derive(Clone, PartialEq, Debug)]
pub enum Work {
    Gang(GangWish),
    Service(ServiceWish),
    Pod { kind: PodKind, name: NamespacedName, place: Option<Place> },
    Budget { name: NamespacedName, app: NamespacedName, spec: BudgetSpec },
    Finish(String),
    DenyEvictions(NamespacedName),
}

#[derive(Clone, PartialEq, Debug)]
pub struct GangWish {
    pub quota: QuotaName,
    pub size: Size,
    /// What each pod asks for beside that.
    pub with: Vec<(String, String)>,
    /// With how few pods it goes on.
    pub fewest: Option<u32>,
    pub name: Option<String>,
    pub tier: Option<TierName>,
    pub save_secs: Option<u32>,
    pub work_secs: Option<u32>,
    pub level: Option<String>,
}

/// How large a gang is.
#[derive(Clone, PartialEq, Debug)]
pub enum Size {
    /// In whole nodes of the quota's first pool, where that is more than one.
    Gpus(u32),
    Pods {
        pods: u32,
        resource: String,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub struct ServiceWish {
    pub name: NamespacedName,
    pub replicas: u32,
    pub resource: String,
    pub amount: i64,
    pub pool: Option<PoolName>,
    pub budget: Option<BudgetSpec>,
    /// Its pods tolerate every taint.
    pub anywhere: bool,
    /// Its pods run and end together.
    pub together: bool,
    pub tier: Option<TierName>,
    pub save_secs: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodKind {
    Bare,
    Daemon,
    Mirror,
}

/// What a person orders through us.
#[derive(Clone, PartialEq, Debug)]
pub enum Order {
    Freeze {
        scope: Where,
        reason: String,
        all: bool,
    },
    Thaw {
        scope: Where,
    },
    Quarantine {
        place: Place,
        reason: String,
    },
    Return(Place),
    Drain {
        place: Place,
        reason: String,
        force: bool,
    },
    /// What a drain would mean.
    DryDrain(Place),
    Undrain(Place),
    Recall(TideName),
    /// What is no longer listed is really gone.
    Lost,
}

/// What is frozen; a slot's node is found when the command runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Where {
    Known(Scope),
    NodeOf(Place),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Expect {
    Plan,
    NoChanges,
    Converged,
    Held(String),
    NotHeld(String),
    /// Of what the tide does within a day.
    Coming(String),
    NotComing(String),
    Nodes {
        pool: PoolName,
        count: u32,
    },
    Ready {
        pool: PoolName,
        count: u32,
    },
    Count {
        what: Counted,
        count: u64,
    },
    Quiet {
        rounds: u32,
    },
    NoViolations,
    NoOrphans,
    /// The fleet is as if it had been made from nothing.
    AsFromNothing,
    Frozen(Scope),
    Running {
        gang: String,
        yes: bool,
    },
    Cordoned {
        place: Place,
        yes: bool,
    },
    Shows {
        place: Place,
        resource: String,
        amount: i64,
    },
    Object {
        object: ObjectKey,
        there: bool,
    },
}

/// Something that is counted from the beginning of the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    Launches,
    Terminations,
    Reboots,
    Purchases,
    Evictions,
    Forced,
    Suspends,
    Cuts,
    Killed,
}
