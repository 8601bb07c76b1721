//! A fleet with a past, and a plan for it made by hand: for tests of the status and of every renderer.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;

use crate::effect::marks::{CORDON, MIG_CONFIG, Mark, POOL};
use crate::effect::*;
use crate::fleet::Fleet;
use crate::fleet::reservation::Match;
use crate::fleet::testing::{at, fleet_in};
use crate::ids::*;
use crate::observed::*;
use crate::plan::*;
use crate::units::{Duration, Usd};

pub const NOW: &str = "2026-11-02T19:55-08:00";

/// Trains in a reservation, serves slices on demand, and lends two serving nodes at night.
pub const DEMO: &str = r#"
kind: PreemptionTier
metadata: {name: production}
spec: {rank: 1000}
---
kind: PreemptionTier
metadata: {name: research}
spec: {rank: 200}
---
kind: Reservation
metadata: {name: h100}
spec: {instanceType: p5.48xlarge, zone: us-west-2a, nodes: 4, onDemand: {}}
---
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.20gb: 2}}]}
---
kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 4, spares: 1, capacity: [{reservation: h100}]}
---
kind: NodePool
metadata: {name: serve}
spec: {instanceType: p4d.24xlarge, nodes: 3, layout: halves, capacity: [{onDemand: {max: 4}}]}
---
kind: Quota
metadata: {name: nlp}
spec:
  namespaces: [{name: nlp}]
  cohort: all
  tiers: [research]
  shares: [{pool: train, guarantee: {gpus: 8}, lend: {gpus: 8}}]
---
kind: Quota
metadata: {name: vision}
spec:
  namespaces: [{name: vision}]
  cohort: all
  tiers: [research]
  shares: [{pool: train, guarantee: {gpus: 16}, borrow: {gpus: 8}}]
---
kind: Quota
metadata: {name: serving}
spec:
  namespaces: [{name: serving}]
  tiers: [production]
  shares: [{pool: serve, guarantee: {slices: {3g.20gb: 48}}}]
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Fri], from: "20:00", to: "06:30"}]
  lend: [{pool: serve, nodes: 2, from: serving, to: vision, layout: whole}]
  reclaim: {lead: 45m, hardAt: 10m}
"#;

pub fn fleet() -> Fleet {
    fleet_in("America/Los_Angeles", NOW, DEMO)
}

/// The fleet as its documents want it, with work on it: vision borrows what nlp lends.
pub fn input() -> PlanInput {
    input_at(NOW)
}

pub fn input_at(now: &str) -> PlanInput {
    let (fleet, now) = (fleet(), at(now));
    let until = now + Duration::hours(24).signed();
    let mut input = PlanInput {
        fleet: "demo-uid".into(),
        now,
        target: fleet.target_at(now),
        upcoming: fleet.transitions(now, until),
        desired: Desired::default(),
        observed: Observed::default(),
        ledger: Ledger::default(),
        renamed: Default::default(),
        found: Default::default(),
        closed: BTreeMap::new(),
        recalled: BTreeMap::new(),
        gone: Default::default(),
        cut_short: Default::default(),
        revision: Some("9bd0e1c4d5e6f708192a3b4c5d6e7f8091a2b3c4".into()),
        only: Vec::new(),
        only_node: None,
        defragment: false,
    };
    compile(&mut input);
    observe(&mut input);
    input
}

fn compile(input: &mut PlanInput) {
    for (pool, layout, resource, amount) in
        [("train", "whole", "nvidia.com/gpu", 8), ("serve", "halves", "nvidia.com/mig-3g.20gb", 16)]
    {
        let laid_out = |resource: &str, amount: i64| LaidOut {
            labels: BTreeMap::new(),
            allocatable: BTreeMap::from([(resource.into(), amount)]),
            absent: Vec::new(),
        };
        let template = Template {
            name: pool.into(),
            instance_type: "p5.48xlarge".into(),
            launch: None,
            user_data: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            digest: "t1".into(),
        };
        let objects = PoolObjects {
            template,
            group: None,
            group_is_ours: false,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            layouts: BTreeMap::from([
                (LayoutName::from(layout), laid_out(resource, amount)),
                (LayoutName::from("whole"), laid_out("nvidia.com/gpu", 8)),
            ]),
        };
        input.desired.pools.insert(pool.into(), objects);
        let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, &format!("flavor-{pool}"));
        let labels = BTreeMap::from([(POOL, pool)]);
        input.desired.objects.push(Object::new(key, json!({"spec": {"nodeLabels": labels}})));
    }
}

fn observe(input: &mut PlanInput) {
    let now = input.now;
    let mut cloud = CloudSeen::default();
    let mut instances = BTreeMap::new();
    let mut nodes = BTreeMap::new();
    for (pool, kind, count) in [("train", "p5.48xlarge", 4u32), ("serve", "p4d.24xlarge", 3)] {
        for index in 0..count {
            let id = InstanceId::from(format!("i-{pool}-{index}"));
            let slot = Slot { generation: 1, instance: Some(id.clone()), launched: Some(now), ..Slot::default() };
            input.ledger.pools.entry(pool.into()).or_default().slots.insert(index, slot);
            let reservation = (pool == "train").then(|| ReservationId::from("cr-0aaa"));
            instances.insert(id.clone(), instance(kind, reservation, now));
            let shows = if pool == "train" { ("nvidia.com/gpu", 8) } else { ("nvidia.com/mig-3g.20gb", 16) };
            nodes.insert(NodeName::from(format!("{pool}-{index}")), node(&id, shows, now));
        }
    }
    let reservation = ReservationSeen {
        tag: None,
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        total: 4,
        available: 0,
        state: ReservationState::Active,
        start: None,
        end: None,
        matching: Match::Targeted,
        block: false,
        offering: None,
        network: Vec::new(),
    };
    let held = HeldReservation { generation: 1, id: Some("cr-0aaa".into()), ..HeldReservation::default() };
    input.ledger.head.fleet = Some(input.fleet.clone());
    input.ledger.head.reservations.insert("h100".into(), held);
    cloud.reservations = Read::new(BTreeMap::from([("cr-0aaa".into(), reservation)]), now);
    cloud.instances = Read::new(instances, now);
    cloud.offerings = Read::new(BTreeMap::new(), now);
    cloud.groups = Read::new(BTreeMap::new(), now);
    cloud.templates = Read::new(BTreeMap::new(), now);
    cloud.spot_prices = Read::new(BTreeMap::new(), now);
    input.observed.cloud = cloud;
    let workloads = [workload("vision/pretrain-7", "vision", 3, now), workload("nlp/eval", "nlp", 0, now)];
    let uid = |index: usize| WorkloadUid::from(format!("w-{index}"));
    let workloads = workloads.into_iter().enumerate().map(|(index, one)| (uid(index), one));
    input.observed.cluster = ClusterSeen {
        nodes: Read::new(nodes, now),
        pods: Read::new(Vec::new(), now),
        workloads: Read::new(workloads.collect(), now),
        budgets: Read::new(BTreeMap::new(), now),
        objects: Read::new(queues(input), now),
        unread: BTreeMap::new(),
        others: Others::none(now),
    };
}

/// The queues as they should be at this hour.
fn queues(input: &PlanInput) -> BTreeMap<ObjectKey, ObjectSeen> {
    let queues = input.target.quotas.iter().map(|(name, target)| {
        let flavors = target.shares.iter().map(|(pool, share)| {
            let quota = |resource: &str, amount: u32, lend: u32| {
                json!({"name": resource, "nominalQuota": amount, "lendingLimit": lend})
            };
            let lend = share.lend.as_ref().map_or(0, |lend| lend.supply(&Default::default()).gpus);
            let amount = share.guarantee.supply(&Default::default());
            let resource = match pool.as_str() {
                "train" => quota("nvidia.com/gpu", amount.gpus, lend),
                _ => quota("nvidia.com/mig-3g.20gb", amount.slices["3g.20gb"], 0),
            };
            json!({"name": format!("flavor-{pool}"), "resources": [resource]})
        });
        let body = json!({"spec": {"resourceGroups": [{"flavors": flavors.collect::<Vec<_>>()}]}});
        let seen = ObjectSeen { body, written: Some("q1".into()), moved_by: None, deleting: false };
        (ObjectKey::cluster(ObjectKind::ClusterQueue, name.as_str()), seen)
    });
    queues.collect()
}

/// Changes what was seen of a queue.
pub fn with_queue(input: &mut PlanInput, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
    let mut objects = input.observed.cluster.objects.seen().clone();
    change(&mut objects.get_mut(&ObjectKey::cluster(ObjectKind::ClusterQueue, name)).unwrap().body);
    input.observed.cluster.objects = Read::new(objects, input.now);
}

fn instance(kind: &str, reservation: Option<ReservationId>, now: Timestamp) -> InstanceSeen {
    InstanceSeen {
        tag: None,
        token: None,
        state: InstanceState::Running,
        instance_type: kind.into(),
        zone: "us-west-2a".into(),
        market: if reservation.is_some() { Market::Reserved } else { Market::OnDemand },
        reservation,
        group: None,
        template: None,
        launched: now,
        network: Vec::new(),
        notice: None,
    }
}

pub fn node(instance: &InstanceId, (resource, amount): (&str, i64), now: Timestamp) -> NodeSeen {
    NodeSeen {
        uid: Uid::from(instance.as_str()),
        instance: Some(instance.clone()),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        moved_by: Default::default(),
        allocatable: BTreeMap::from([(resource.into(), amount)]),
        conditions: BTreeMap::new(),
        created: now,
        boot: None,
    }
}

/// A gang on so many training nodes; on none it waits.
fn workload(name: &str, queue: &str, nodes: u32, now: Timestamp) -> WorkloadSeen {
    let placed: BTreeMap<NodeName, u32> =
        (1..=nodes).map(|index| (NodeName::from(format!("train-{index}")), 1)).collect();
    WorkloadSeen {
        name: name.parse().unwrap(),
        queue: queue.into(),
        tier: Some("research".into()),
        priority: 200,
        created: now,
        active: true,
        marks: BTreeMap::new(),
        pods: nodes.max(1),
        fewest: None,
        requests: BTreeMap::from([("nvidia.com/gpu".into(), i64::from(nodes) * 8)]),
        per_pod: BTreeMap::new(),
        required_level: None,
        preferred_level: None,
        placed: false,
        reserved: (nodes > 0).then_some(now),
        evicted: false,
        finished: false,
        flavors: BTreeMap::from([("nvidia.com/gpu".into(), "flavor-train".into())]),
        nodes: placed,
        saved: None,
    }
}

/// Changes what was seen of a node.
pub fn with_node(input: &mut PlanInput, name: &str, change: impl FnOnce(&mut NodeSeen)) {
    let mut nodes = input.observed.cluster.nodes.seen().clone();
    change(nodes.get_mut(name).unwrap());
    input.observed.cluster.nodes = Read::new(nodes, input.now);
}

/// The serving nodes that the tide lends are told to be cut.
pub fn lend(input: &mut PlanInput) {
    for name in ["serve-0", "serve-1"] {
        with_node(input, name, |node| drop(node.labels.insert(MIG_CONFIG.into(), "as-lent".into())));
    }
}

/// Puts our cordon on a node.
pub fn cordon(input: &mut PlanInput, name: &str) {
    let mark = Mark::new(input.now, "replace").text();
    with_node(input, name, |node| drop(node.annotations.insert(CORDON.into(), mark)));
}

/// A plan that does nothing.
pub fn empty_plan() -> Plan {
    let effects = Effects::default();
    Plan {
        id: "7c1e2f0a9b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6".into(),
        digest: effects.digest(),
        effects,
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
    }
}

/// Counts the effects of steps and of what is held.
pub fn sealed(mut plan: Plan) -> Plan {
    let mut sum = Effects::default();
    plan.steps.iter().for_each(|step| sum.add(&step.effects));
    plan.held.iter().filter(|held| held.waiting_on.is_part_of_it()).for_each(|held| sum.add(&held.effects));
    plan.digest = sum.digest();
    plan.effects = sum;
    plan
}

pub fn pool(name: &str) -> Thing {
    Thing::Pool(name.into())
}

pub fn step(id: &str, on: Thing, action: Action, reason: Reason) -> Step {
    Step {
        id: id.into(),
        on,
        action,
        after: Vec::new(),
        requires: Vec::new(),
        urgency: reason.urgency(),
        reason,
        disruption: Disruption::default(),
        effects: Effects::default(),
        takes: (0, 0),
        consent: Consent::Standing,
    }
}

impl Step {
    pub fn after(mut self, ids: &[&str]) -> Self {
        self.after = ids.iter().map(|id| StepId::from(*id)).collect();
        self
    }

    pub fn takes(mut self, from: u64, to: u64) -> Self {
        self.takes = (from, to);
        self
    }

    pub fn effect(mut self, verb: Verb, amount: Amount) -> Self {
        self.effects.add(&Effects::one(verb, self.on.clone(), amount));
        self
    }

    pub fn disturbs(mut self, disruption: Disruption) -> Self {
        self.disruption = disruption;
        self.consent = Consent::Asked;
        self
    }
}

pub fn launch(pool: &str, index: u32, generation: u32, reservation: Option<&str>) -> Action {
    let slot = SlotId::new(&pool.into(), index);
    Action::Cloud(CloudAction::Launch(LaunchRequest {
        token: token(&"demo-uid".into(), &slot, generation, &"us-west-2a".into()),
        slot,
        generation,
        instance_type: if pool == "train" { "p5.48xlarge" } else { "p4d.24xlarge" }.into(),
        zone: "us-west-2a".into(),
        market: if reservation.is_some() { Market::Reserved } else { Market::OnDemand },
        reservation: reservation.map(ReservationId::from),
        max_price: None,
        template: pool.into(),
        template_digest: "t1".into(),
        group: None,
        source: 0,
        host: None,
    }))
}

/// Two training nodes with a gang on them are replaced, one serving node is launched, a queue is put back, an object is
/// new; one change waits for a window, one is frozen.
pub fn plan(input: &PlanInput) -> Plan {
    let now = input.now;
    let gang = |nodes: u32| GangHit {
        name: "vision/pretrain-7".into(),
        quota: Some("vision".into()),
        tier: Some("research".into()),
        nodes,
        pods: 3,
        gpus: 24,
        at_risk_secs: 12_000,
    };
    let disruption = Disruption {
        nodes: vec!["train-1".into(), "train-2".into()],
        pods: 5,
        gangs: vec![gang(3)],
        teams: BTreeSet::from(["nlp".into(), "vision".into()]),
        gpu_secs: 24 * 12_000,
        blocked_by: vec!["nlp/eval-server".parse().unwrap()],
        lost: vec!["nlp/scratch".parse().unwrap()],
    };
    let mark = || Mark::new(now, "replace");
    let mut steps = Vec::new();
    for index in [1, 2] {
        let node = NodeName::from(format!("train-{index}"));
        let slot = SlotId::new(&"train".into(), index);
        let instance = InstanceId::from(format!("i-train-{index}"));
        let id = |verb: &str| format!("{verb}:train/{index}@2");
        let cordon = Action::Cluster(ClusterAction::Cordon { node: node.clone(), mark: mark() });
        let for_it = || Reason::For(id("terminate").as_str().into());
        steps.push(step(&id("cordon"), pool("train"), cordon, for_it()).takes(1, 2));
        let wait = Action::Await(Fact::Settled(node.clone()));
        steps.push(step(&id("settle"), pool("train"), wait, for_it()).after(&[&id("cordon")]).takes(5, 6));
        if index == 1 {
            let suspend = Action::Cluster(ClusterAction::Suspend { workload: "w-0".into(), mark: mark() });
            let amount = Amount { count: 1, gpus: 24, gpu_secs: 24 * 12_000, ..Amount::default() };
            let suspend = step("suspend:w-0", pool("train"), suspend, Reason::Outdated).after(&[&id("settle")]);
            steps.push(suspend.takes(1, 2).effect(Verb::Drain, amount).disturbs(disruption.clone()));
        }
        let wait = Action::Await(Fact::Empty(node));
        let before = [id("settle"), "suspend:w-0".into()];
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        steps.push(step(&id("empty"), pool("train"), wait, for_it()).after(&before).takes(30, 300));
        let end = Action::Cloud(CloudAction::Terminate { slot, instance });
        let end = step(&id("terminate"), pool("train"), end, Reason::Outdated).after(&[&id("empty")]);
        let mut end = end.takes(60, 180).effect(Verb::Terminate, Amount::count(1));
        end.consent = Consent::Asked;
        steps.push(end);
        let start = launch("train", index, 2, Some("cr-0aaa"));
        let start = step(&id("launch"), pool("train"), start, for_it()).after(&[&id("terminate")]);
        steps.push(start.takes(180, 600).effect(Verb::Launch, Amount::count(1)));
    }
    let more = Amount { count: 1, usd_hour: usd("21.96"), ..Amount::default() };
    let start = step("launch:serve/3@1", pool("serve"), launch("serve", 3, 1, None), Reason::SlotEmpty);
    let mut start = start.takes(120, 300).effect(Verb::Launch, more);
    start.consent = Consent::Asked;
    steps.push(start);
    let key = ObjectKey::cluster(ObjectKind::Topology, "train");
    let write = Action::Cluster(ClusterAction::Apply(Object::new(key, json!({"spec": {}}))));
    let write = step("apply:Topology/train", Thing::Objects("Topology".into()), write, Reason::Wanted);
    steps.push(write.effect(Verb::Apply, Amount::count(1)).takes(0, 1));
    let forget = Action::Record(LedgerChange::Forgotten { pool: "old".into() });
    steps.push(step("forget:pool/old", pool("old"), forget, Reason::Bookkeeping));
    sealed(Plan {
        steps,
        held: held(now),
        drift: vec![Drift {
            what: "ClusterQueue vision".into(),
            by: Some("kubectl-edit".into()),
            at: Some(now - Duration::hours(2).signed()),
            from: "guarantee of train 16 GPUs".into(),
            to: "guarantee of train 24 GPUs".into(),
            step: None,
        }],
        upcoming: vec![
            Upcoming {
                at: at("2026-11-02T20:00-08:00"),
                what: Thing::Tide("nightly".into()),
                change: "low until Tue 05:45".into(),
                disruption: Disruption::default(),
            },
            Upcoming {
                at: at("2026-11-02T20:00-08:00"),
                what: pool("serve"),
                change: "2 nodes lent by serving to vision, cut whole".into(),
                disruption: Disruption { pods: 9, teams: BTreeSet::from(["serving".into()]), ..Disruption::default() },
            },
        ],
        released: vec![Released { what: "pool/old".into(), stays: "2 nodes, $65.54 an hour".into() }],
        notes: vec![Note { on: pool("serve"), text: "i-0stray is tagged as ours, and nothing explains it".into() }],
        cost: Cost {
            hourly_now: usd("65.88"),
            hourly_after: usd("87.84"),
            reserved_now: usd("220.16"),
            reserved_after: usd("220.16"),
            ..Cost::default()
        },
        ..empty_plan()
    })
}

pub fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn held(now: Timestamp) -> Vec<Held> {
    let freeze = Freeze {
        scope: Scope::Pool("serve".into()),
        by: "ana".into(),
        at: now - Duration::minutes(90).signed(),
        reason: "incident 4711".into(),
        all: false,
    };
    let one = |what: Thing, wanted: &str, reason: Reason, waiting_on: WaitingOn| Held {
        what,
        wanted: wanted.into(),
        reason,
        effects: Effects::default(),
        disruption: Disruption::default(),
        waiting_on,
        done_by: None,
    };
    let window = WaitingOn::until(at("2026-11-03T10:00-08:00"), "the update window of pool/train is closed");
    let mut replaced = one(pool("train"), "replace 1 node", Reason::Outdated, window);
    replaced.done_by = Some(at("2026-11-03T10:25-08:00"));
    replaced.effects = Effects::one(Verb::Terminate, pool("train"), Amount::count(1));
    let cut = Reason::Layout { from: Some("whole".into()), to: "halves".into() };
    let room = WaitingOn::Capacity {
        what: "p5.48xlarge in us-west-2a".into(),
        retry: Some(now + Duration::minutes(5).signed()),
    };
    let launch = |slot: &str| one(pool("train"), &format!("launch a node for {slot}"), Reason::SlotEmpty, room.clone());
    vec![
        replaced,
        launch("train/4"),
        launch("train/5"),
        one(pool("serve"), "re-cut 1 node from whole to halves", cut, WaitingOn::Frozen(freeze)),
    ]
}
