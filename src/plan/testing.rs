//! Worlds for the planner's own tests: a fleet from YAML, and a snapshot in which nothing is there yet.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::PlanInput;
use crate::effect::{Desired, Ledger};
pub use crate::fleet::testing::at;
use crate::fleet::testing::fleet_in;
use crate::ids::NamespacedName;
use crate::observed::{CloudSeen, ClusterSeen, Keeper, Observed, Others, PodPhase, PodSeen, Read, WorkloadSeen};

/// A fleet that was never applied, in a world where everything was read and nothing is there.
pub fn world(now: &str, documents: &str) -> PlanInput {
    let fleet = fleet_in("UTC", now, documents);
    let now = at(now);
    let day = jiff::SignedDuration::from_hours(24);
    PlanInput {
        fleet: "fleet-uid".into(),
        now,
        target: fleet.target_at(now),
        upcoming: fleet.transitions(now, now + day),
        desired: Desired::default(),
        observed: nothing(now),
        ledger: Ledger::default(),
        renamed: Default::default(),
        found: BTreeMap::new(),
        closed: BTreeMap::new(),
        recalled: BTreeMap::new(),
        gone: Default::default(),
        cut_short: Default::default(),
        revision: None,
        only: Vec::new(),
        only_node: None,
        defragment: false,
    }
}

/// Everything was read, and nothing is there.
pub fn nothing(at: Timestamp) -> Observed {
    fn read<T: Default>(at: Timestamp) -> Read<T> {
        Read::new(T::default(), at)
    }
    Observed {
        cloud: CloudSeen {
            reservations: read(at),
            offerings: read(at),
            instances: read(at),
            groups: read(at),
            templates: read(at),
            spot_prices: read(at),
            hosts: Default::default(),
            recommended: BTreeMap::new(),
            unplaced: None,
        },
        cluster: ClusterSeen {
            nodes: read(at),
            pods: read(at),
            workloads: read(at),
            budgets: read(at),
            objects: read(at),
            unread: Default::default(),
            others: Others::none(at),
        },
        guards: BTreeMap::new(),
        rehearsed: BTreeMap::new(),
        refused: BTreeMap::new(),
        denied: BTreeMap::new(),
        looks_only: None,
    }
}

/// `namespace/name` on a node, running since ten in the morning of 1 March 2026.
pub fn pod(name: &str, node: &str, gpus: i64) -> PodSeen {
    let name: NamespacedName = name.parse().expect("a namespace and a name");
    PodSeen {
        uid: format!("uid-{name}").into(),
        name,
        node: Some(node.into()),
        phase: PodPhase::Running,
        ready: true,
        keeper: Keeper::Controller,
        owner: None,
        workload: None,
        gang: None,
        priority: 0,
        requests: BTreeMap::from([("nvidia.com/gpu".into(), gpus)]),
        started: Some(at("2026-03-01T10:00Z")),
        terminating: None,
        grace_secs: 30,
        empty_dir: false,
        goes_anywhere: false,
        saved: None,
        asked: None,
        budgets: Vec::new(),
    }
}

/// A workload of one pod that holds its quota.
pub fn workload(name: &str, queue: &str, gpus: i64) -> WorkloadSeen {
    let requests = BTreeMap::from([("nvidia.com/gpu".into(), gpus)]);
    WorkloadSeen {
        name: name.parse().expect("a namespace and a name"),
        queue: queue.into(),
        tier: None,
        priority: 0,
        created: at("2026-03-01T09:00Z"),
        active: true,
        marks: BTreeMap::new(),
        pods: 1,
        fewest: None,
        per_pod: requests.clone(),
        requests,
        required_level: None,
        preferred_level: None,
        placed: false,
        reserved: Some(at("2026-03-01T10:00Z")),
        evicted: false,
        finished: false,
        flavors: BTreeMap::new(),
        nodes: BTreeMap::new(),
        saved: None,
    }
}
