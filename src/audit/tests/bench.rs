//! A small fleet in a world that is as it should be, and the steps of plans for it. Written apart from the planner, as
//! the judge is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::audit;
use crate::effect::marks::{CORDON, MIG_CONFIG, MIG_STATE, Mark, POOL, SLOT};
use crate::effect::*;
use crate::fleet::Fleet;
use crate::fleet::standing::Standing;
use crate::fleet::testing::{at, fleet_in};
use crate::ids::*;
use crate::observed::*;
use crate::plan::*;

/// Monday noon; the night in which nodes are lent; the next morning while they come back, and its hard end.
pub const NOON: &str = "2026-06-08T12:00-07:00";
pub const NIGHT: &str = "2026-06-08T22:00-07:00";
pub const RECLAIM: &str = "2026-06-09T05:50-07:00";
pub const HARD: &str = "2026-06-09T06:25-07:00";

pub const DOCUMENTS: &str = r#"
kind: PreemptionTier
metadata: {name: production}
spec: {rank: 1000, preempts: lowerTiers}
---
kind: PreemptionTier
metadata: {name: research}
spec: {rank: 200}
---
kind: PreemptionTier
metadata: {name: batch}
spec: {rank: 100}
---
kind: Reservation
metadata: {name: h100}
spec: {instanceType: p5.48xlarge, zone: us-west-2a, nodes: 16, onDemand: {}}
---
kind: Reservation
metadata: {name: july}
spec:
  instanceType: p5.48xlarge
  nodes: 8
  capacityBlock:
    duration: 14d
    startBetween: {from: 2026-07-01, to: 2026-07-10}
    maxUpfrontUsd: 200000
    approval: {mandate: {upToUsd: 190000, expires: 2026-06-20T00:00Z}}
---
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
kind: NodePool
metadata: {name: train}
spec:
  instanceType: p5.48xlarge
  nodes: 10
  capacity: [{reservation: h100}]
  updates: {when: drain, maxUnavailable: 2}
---
kind: NodePool
metadata: {name: serve}
spec:
  instanceType: p5.48xlarge
  nodes: 6
  layout: halves
  capacity: [{reservation: h100}]
  updates: {when: drain, maxUnavailable: 2}
---
kind: NodePool
metadata: {name: burst}
spec: {instanceType: p4d.24xlarge, nodes: 4, capacity: [{onDemand: {max: 4}}, {spot: {max: 2, maxPricePercent: 50}}]}
---
kind: NodePool
metadata: {name: own}
spec: {instanceType: p5.48xlarge, nodes: 2, capacity: [{existing: {labels: {gpu: h100}}}]}
---
kind: Quota
metadata: {name: vision}
spec: {namespaces: [{name: vision}], tiers: [research], shares: [{pool: train, guarantee: {gpus: 80}}]}
---
kind: Quota
metadata: {name: serving}
spec: {namespaces: [{name: serving}], tiers: [production], shares: [{pool: serve, guarantee: {slices: {3g.40gb: 96}}}]}
---
kind: Quota
metadata: {name: night}
spec: {namespaces: [{name: night}], tiers: [batch], shares: [{pool: burst, guarantee: {gpus: 32}}]}
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Fri], from: "20:00", to: "06:30"}]
  lend: [{pool: serve, nodes: 3, from: serving, to: night, layout: whole}]
  reclaim: {lead: 45m, hardAt: 10m}
---
kind: HealthPolicy
metadata: {name: health}
spec: {rules: [{when: {xid: [79]}, then: [reboot, replace]}], limit: 10%}
"#;

pub fn uid() -> FleetUid {
    "fleet-1".into()
}

pub fn slot(pool: &str, index: u32) -> SlotId {
    SlotId::new(&pool.into(), index)
}

pub fn node(pool: &str, index: u32) -> NodeName {
    format!("{pool}-{index}").into()
}

pub fn instance(pool: &str, index: u32) -> InstanceId {
    format!("i-{pool}-{index}").into()
}

/// The input and the plan for it, in the making.
pub struct Bench {
    pub input: PlanInput,
    pub plan: Plan,
}

impl Bench {
    /// The fleet of [`DOCUMENTS`], everything read, nothing there but its reservation.
    pub fn empty(now: &str) -> Self {
        Self::of(documents(), now)
    }

    pub fn of(fleet: &Fleet, now: &str) -> Self {
        let now = at(now);
        let target = fleet.target_at(now);
        let desired = desired(&target.standing);
        let mut observed = Observed::default();
        (observed.cloud, observed.cluster) = (cloud(now), cluster(now));
        let mut ledger = Ledger::default();
        ledger.head.fleet = Some(uid());
        let held = HeldReservation { generation: 1, id: Some("cr-1".into()), ..HeldReservation::default() };
        ledger.head.reservations.insert("h100".into(), held);
        let input = PlanInput {
            fleet: uid(),
            now,
            target,
            upcoming: Vec::new(),
            desired,
            observed,
            ledger,
            renamed: Default::default(),
            found: Default::default(),
            closed: BTreeMap::new(),
            recalled: BTreeMap::new(),
            gone: Default::default(),
            cut_short: Default::default(),
            revision: None,
            only: Vec::new(),
            only_node: None,
            defragment: false,
        };
        let plan = Plan {
            id: "plan".into(),
            digest: Effects::default().digest(),
            effects: Effects::default(),
            steps: Vec::new(),
            held: Vec::new(),
            drift: Vec::new(),
            upcoming: Vec::new(),
            released: Vec::new(),
            offers: Vec::new(),
            notes: Vec::new(),
            cost: Cost::default(),
            left_out: Vec::new(),
            stands: None,
        };
        let mut bench = Self { input, plan };
        bench.write_objects();
        bench
    }

    /// The same with a node in every slot.
    pub fn settled(now: &str) -> Self {
        let mut bench = Self::empty(now);
        for (pool, nodes) in [("train", 10), ("serve", 6), ("burst", 4), ("own", 2)] {
            (0..nodes).for_each(|index| bench.serve(pool, index));
        }
        bench
    }

    /// The objects are there as they are wanted.
    fn write_objects(&mut self) {
        let seen = self.input.desired.objects.iter().map(|object| {
            let there = ObjectSeen {
                body: object.body.clone(),
                written: Some(object.digest.clone()),
                moved_by: None,
                deleting: false,
            };
            (object.key.clone(), there)
        });
        let seen = seen.collect();
        edit(&mut self.input.observed.cluster.objects, |objects| *objects = seen);
    }

    /// A node serves this slot.
    pub fn serve(&mut self, pool: &str, index: u32) {
        let (name, id, slot) = (node(pool, index), instance(pool, index), slot(pool, index));
        let spec = self.input.target.standing.pools[pool].clone();
        let launched = self.input.now - SignedDuration::from_hours(48);
        let claimed = pool == "own";
        let layout = self.input.desired.pools[pool].layouts[&spec.layout].clone();
        let mut labels = BTreeMap::from([(POOL.into(), pool.into()), (SLOT.into(), index.to_string())]);
        labels.extend(layout.labels.clone());
        labels.insert(MIG_STATE.into(), "success".into());
        labels.insert("gpu".into(), "h100".into());
        let seen = NodeSeen {
            uid: format!("node-{name}").as_str().into(),
            instance: (!claimed).then(|| id.clone()),
            labels,
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            ready: true,
            unready_since: None,
            ready_since: None,
            moved_by: Default::default(),
            allocatable: layout.allocatable,
            conditions: BTreeMap::new(),
            created: launched,
            boot: None,
        };
        edit(&mut self.input.observed.cluster.nodes, |nodes| nodes.insert(name.clone(), seen));
        let remembered = self.input.ledger.pools.entry(pool.into()).or_default().slots.entry(index).or_default();
        remembered.generation = 1;
        if claimed {
            remembered.node = Some(name);
            return;
        }
        (remembered.instance, remembered.launched) = (Some(id.clone()), Some(launched));
        let reserved = pool != "burst";
        let zone: Zone = "us-west-2a".into();
        let seen = InstanceSeen {
            tag: Some(SlotTag { fleet: uid(), slot: slot.clone(), generation: 1 }),
            token: Some(token(&uid(), &slot, 1, &zone)),
            state: InstanceState::Running,
            instance_type: spec.shape.instance_type,
            zone,
            market: if reserved { Market::Reserved } else { Market::OnDemand },
            reservation: reserved.then(|| "cr-1".into()),
            group: None,
            template: Some(self.input.desired.pools[pool].template.digest.clone()),
            launched,
            network: Vec::new(),
            notice: None,
        };
        edit(&mut self.input.observed.cloud.instances, |instances| instances.insert(id, seen));
        if reserved {
            self.reservation(|seen| seen.available -= 1);
        }
    }

    /// One more free place is gone, or anything else about the reservation.
    pub fn reservation(&mut self, change: impl FnOnce(&mut ReservationSeen)) {
        edit(&mut self.input.observed.cloud.reservations, |all| change(all.get_mut("cr-1").unwrap()));
    }

    pub fn instance(&mut self, pool: &str, index: u32, change: impl FnOnce(&mut InstanceSeen)) {
        let id = instance(pool, index);
        edit(&mut self.input.observed.cloud.instances, |all| change(all.get_mut(&id).unwrap()));
    }

    pub fn node(&mut self, pool: &str, index: u32, change: impl FnOnce(&mut NodeSeen)) {
        edit(&mut self.input.observed.cluster.nodes, |all| change(all.get_mut(&node(pool, index)).unwrap()));
    }

    pub fn slot(&mut self, pool: &str, index: u32) -> &mut Slot {
        self.input.ledger.pools.get_mut(pool).unwrap().slots.get_mut(&index).unwrap()
    }

    pub fn standing(&mut self) -> &mut Standing {
        Arc::make_mut(&mut self.input.target.standing)
    }

    /// Our cordon stands on the node since ten minutes.
    pub fn cordoned(&mut self, pool: &str, index: u32, why: &str) {
        let mark = Mark::new(self.input.now - SignedDuration::from_mins(10), why);
        self.node(pool, index, |node| {
            node.unschedulable = true;
            node.annotations.insert(CORDON.into(), mark.text());
        });
    }

    /// A pod of a controller on a node.
    pub fn pod(&mut self, name: &str, on: (&str, u32)) -> Uid {
        self.pod_of(name, on, None)
    }

    pub fn pod_of(&mut self, name: &str, on: (&str, u32), workload: Option<&str>) -> Uid {
        let uid: Uid = format!("uid-{name}").as_str().into();
        let started = self.input.now - SignedDuration::from_hours(24);
        let pod = PodSeen {
            name: NamespacedName::new("team", name),
            uid: uid.clone(),
            node: Some(node(on.0, on.1)),
            phase: PodPhase::Running,
            ready: true,
            keeper: Keeper::Controller,
            owner: None,
            workload: workload.map(WorkloadUid::from),
            gang: workload.map(|workload| GangName(workload.into())),
            priority: 0,
            requests: BTreeMap::new(),
            started: Some(started),
            terminating: None,
            grace_secs: 30,
            empty_dir: false,
            goes_anywhere: false,
            saved: None,
            asked: None,
            budgets: Vec::new(),
        };
        edit(&mut self.input.observed.cluster.pods, |pods| pods.push(pod));
        uid
    }

    pub fn pods(&mut self, change: impl FnMut(&mut PodSeen)) {
        edit(&mut self.input.observed.cluster.pods, |pods| pods.iter_mut().for_each(change));
    }

    /// A gang of a queue with one pod on each of these nodes, running since yesterday.
    pub fn gang(&mut self, name: &str, queue: &str, tier: &str, on: &[(&str, u32)]) {
        on.iter().enumerate().for_each(|(rank, on)| {
            self.pod_of(&format!("{name}-{rank}"), *on, Some(name));
        });
        let workload = WorkloadSeen {
            name: NamespacedName::new(queue, name),
            queue: queue.into(),
            tier: Some(tier.into()),
            priority: 0,
            created: self.input.now - SignedDuration::from_hours(25),
            active: true,
            marks: BTreeMap::new(),
            pods: u32::try_from(on.len()).unwrap(),
            fewest: None,
            requests: BTreeMap::new(),
            per_pod: BTreeMap::new(),
            required_level: None,
            preferred_level: None,
            placed: false,
            reserved: Some(self.input.now - SignedDuration::from_hours(24)),
            evicted: false,
            finished: false,
            flavors: BTreeMap::new(),
            nodes: BTreeMap::new(),
            saved: None,
        };
        edit(&mut self.input.observed.cluster.workloads, |all| all.insert(name.into(), workload));
    }

    pub fn workload(&mut self, name: &str, change: impl FnOnce(&mut WorkloadSeen)) {
        edit(&mut self.input.observed.cluster.workloads, |all| change(all.get_mut(name).unwrap()));
    }

    /// A step behind others, with no effect of its own.
    pub fn step(&mut self, id: &str, action: Action, reason: Reason, after: &[&str]) -> &mut Step {
        let effects = match &action {
            Action::Cluster(ClusterAction::Apply(object)) => {
                Effects::one(Verb::Apply, Thing::Fleet, Amount::object(&object.key, Some(&object.digest)))
            }
            _ => Effects::default(),
        };
        let step = Step {
            id: id.into(),
            on: Thing::Fleet,
            action,
            after: after.iter().map(|id| StepId::from(*id)).collect(),
            requires: Vec::new(),
            urgency: reason.urgency(),
            reason,
            disruption: Disruption::default(),
            effects,
            takes: (0, 0),
            consent: Consent::Asked,
        };
        self.plan.steps.push(step);
        self.plan.steps.last_mut().unwrap()
    }

    pub fn find(&mut self, id: &str) -> &mut Step {
        self.plan.steps.iter_mut().find(|step| step.id.as_str() == id).unwrap_or_else(|| panic!("no step {id}"))
    }

    /// Takes a step out, also of what others come after.
    pub fn without(mut self, id: &str) -> Self {
        self.find(id);
        self.plan.steps.retain(|step| step.id.as_str() != id);
        self.plan.steps.iter_mut().for_each(|step| step.after.retain(|after| after.as_str() != id));
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// What an edit of a step does to the plan.
    pub fn edit(mut self, id: &str, change: impl FnOnce(&mut Step)) -> Self {
        change(self.find(id));
        self
    }

    /// The effects of a plan are what its steps say, whatever they say.
    pub fn seal(&mut self) {
        let mut effects = Effects::default();
        self.plan.steps.iter().for_each(|step| effects.add(&step.effects));
        self.plan.held.iter().for_each(|held| effects.add(&held.effects));
        self.plan.digest = effects.digest();
        self.plan.effects = effects;
    }

    /// Passes the judge.
    #[track_caller]
    pub fn passes(mut self) {
        self.seal();
        if let Err(found) = audit(&self.input, self.plan) {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            panic!("{}", found.join("\n"));
        }
    }

    /// Breaks this law, by these words, and no other one.
    #[track_caller]
    pub fn breaks(mut self, law: &str, what: &str) {
        self.seal();
        let Err(found) = audit(&self.input, self.plan) else { panic!("it passes") };
        let laws: BTreeSet<&str> = found.iter().map(|violation| violation.law).collect();
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        let hit = found.iter().any(|violation| violation.law.contains(law) && violation.what.contains(what));
        assert!(hit, "{law}: {what}\n\n{}", said.join("\n"));
        assert!(laws.iter().all(|found| found.contains(law)), "other laws too\n\n{}", said.join("\n"));
    }

    /// Breaks this law, among others perhaps.
    #[track_caller]
    pub fn breaks_also(mut self, law: &str, what: &str) {
        self.seal();
        let Err(found) = audit(&self.input, self.plan) else { panic!("it passes") };
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        let hit = found.iter().any(|violation| violation.law.contains(law) && violation.what.contains(what));
        assert!(hit, "{law}: {what}\n\n{}", said.join("\n"));
    }
}

fn documents() -> &'static Fleet {
    static FLEET: OnceLock<Fleet> = OnceLock::new();
    FLEET.get_or_init(|| fleet_in("America/Los_Angeles", NOON, DOCUMENTS))
}

/// Changes what was read, and leaves when.
pub fn edit<T: Clone, R>(read: &mut Read<T>, change: impl FnOnce(&mut T) -> R) -> R {
    let mut value = read.seen().clone();
    let result = change(&mut value);
    *read = Read::new(value, read.at());
    result
}

/// What was read is not whole.
pub fn gap<T: Clone>(read: &mut Read<T>) {
    *read = Read::with_gap(read.seen().clone(), read.at(), Gap { what: "List".into(), why: "timed out".into() });
}

fn cloud(now: Timestamp) -> CloudSeen {
    let seen = ReservationSeen {
        tag: Some(ReservationTag { fleet: uid(), reservation: "h100".into(), generation: 1 }),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        total: 16,
        available: 16,
        state: ReservationState::Active,
        start: None,
        end: None,
        matching: Default::default(),
        block: false,
        offering: None,
        network: Vec::new(),
    };
    CloudSeen {
        reservations: Read::new(BTreeMap::from([("cr-1".into(), seen)]), now),
        offerings: Read::new(BTreeMap::new(), now),
        instances: Read::new(BTreeMap::new(), now),
        groups: Read::new(BTreeMap::new(), now),
        templates: Read::new(BTreeMap::new(), now),
        spot_prices: Read::new(BTreeMap::new(), now),
        hosts: Default::default(),
        recommended: Default::default(),
        unplaced: None,
    }
}

fn cluster(now: Timestamp) -> ClusterSeen {
    ClusterSeen {
        nodes: Read::new(BTreeMap::new(), now),
        pods: Read::new(Vec::new(), now),
        workloads: Read::new(BTreeMap::new(), now),
        budgets: Read::new(BTreeMap::new(), now),
        objects: Read::new(BTreeMap::new(), now),
        unread: BTreeMap::new(),
        others: Others::none(now),
    }
}

fn desired(standing: &Standing) -> Desired {
    let pools = standing.pools.iter().map(|(name, pool)| {
        let whole = LaidOut {
            labels: BTreeMap::from([(MIG_CONFIG.into(), "all-disabled".into())]),
            allocatable: BTreeMap::from([("nvidia.com/gpu".into(), 8)]),
            absent: Vec::new(),
        };
        let halves = LaidOut {
            labels: BTreeMap::from([(MIG_CONFIG.into(), "halves".into())]),
            allocatable: BTreeMap::from([("nvidia.com/mig-3g.40gb".into(), 16)]),
            absent: vec!["nvidia.com/gpu".into()],
        };
        let mut layouts = BTreeMap::from([("whole".into(), whole)]);
        if pool.layout.as_str() == "halves" {
            layouts.insert("halves".into(), halves);
        }
        let template = Template {
            name: name.as_str().into(),
            instance_type: pool.shape.instance_type.clone(),
            launch: None,
            user_data: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            digest: digest(name.as_str().as_bytes()),
        };
        let (labels, taints) = (BTreeMap::new(), Vec::new());
        let objects = PoolObjects { template, group: None, group_is_ours: false, labels, taints, layouts };
        (name.clone(), objects)
    });
    let mut objects = Vec::new();
    for name in standing.pools.keys() {
        let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, name.as_str());
        objects.push(Object::new(key, json!({"spec": {"nodeLabels": {POOL: name.as_str()}}})));
    }
    for (name, tier) in &standing.tiers {
        let key = ObjectKey::cluster(ObjectKind::WorkloadPriorityClass, name.as_str());
        objects.push(Object::new(key, json!({"value": tier.rank})));
    }
    let file = json!({"version": "v1", "mig-configs": {"all-disabled": [], "halves": []}});
    let key = ObjectKey::namespaced(ObjectKind::ConfigMap, "gpu-operator", "tidewright-mig-parted");
    objects.push(Object::new(key, json!({"data": {"config.yaml": file.to_string()}})));
    objects.push(queue("vision", "train", "nvidia.com/gpu", 80));
    objects.push(queue("serving", "serve", "nvidia.com/mig-3g.40gb", 48));
    objects.push(queue("night", "burst", "nvidia.com/gpu", 32));
    Desired { objects, retired: Vec::new(), pools: pools.collect(), staged: Vec::new() }
}

/// A ClusterQueue with one quota.
pub fn queue(name: &str, flavor: &str, resource: &str, nominal: u32) -> Object {
    let key = ObjectKey::cluster(ObjectKind::ClusterQueue, name);
    Object::new(key, quota(flavor, resource, nominal))
}

/// The body of a queue or cohort.
pub fn quota(flavor: &str, resource: &str, nominal: u32) -> serde_json::Value {
    let resources = json!([{"name": resource, "nominalQuota": nominal.to_string()}]);
    json!({"spec": {"resourceGroups": [{"coveredResources": [resource], "flavors": [{"name": flavor, "resources": resources}]}]}})
}

pub fn pool(name: &str) -> Thing {
    Thing::Pool(name.into())
}

/// One of something in a pool.
pub fn one(verb: Verb, on: &str) -> Effects {
    Effects::one(verb, pool(on), Amount::count(1))
}

/// One node of a pool, and these teams, up to this rank.
pub fn disturbs(on: &str, team: &str, highest: i32) -> Effects {
    let amount =
        Amount { count: 1, gpus: 8, teams: BTreeSet::from([team.into()]), highest: Some(highest), ..Amount::default() };
    Effects::one(Verb::Drain, pool(on), amount)
}
