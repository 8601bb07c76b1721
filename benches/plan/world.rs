//! A fleet of any size, written as people write it, and a world in which it is there to the last label.
//!
//! Pools of a few hundred nodes, in pairs: one that trains, with gangs of 8 to 64 pods from three queues, and one that
//! serves from MIG slices, with services behind disruption budgets and a tide that lends a quarter of it at night.
//! Thirty pods on every node. Everything is what the planner itself would want, so that a plan for it is empty.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use tidewright::compile::{Beside, compile, compile_beside};
use tidewright::diag::{SourceFile, Sources};
use tidewright::effect::{Action, ClusterAction, HeldReservation, Ledger, PoolLedger, PoolObjects, Slot, token};
use tidewright::fleet::Fleet;
use tidewright::fleet::policy::ConditionStatus;
use tidewright::fleet::reservation::Match;
use tidewright::ids::{FleetUid, InstanceId, NamespacedName, NodeName, PoolName, ResourceName, SlotId, WorkloadUid};
use tidewright::manifest::{lower, parse};
use tidewright::observed::*;
use tidewright::plan::dress::clothes;
use tidewright::plan::view::View;
use tidewright::plan::{PlanInput, plan};

pub const PODS_A_NODE: usize = 30;
const UID: &str = "8a4f1c52-bench";
const ZONE: &str = "us-west-2a";
const GPUS: usize = 8;
const LEVELS: [&str; 3] = ["topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2", LEAF];
const LEAF: &str = "topology.k8s.aws/network-node-layer-3";
const GANGS: [usize; 7] = [8, 16, 64, 8, 32, 24, 48];

/// What somebody edited in the documents of the first pair of pools.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Edit {
    Nothing,
    /// The training pool moves to a new image.
    Image,
    /// The serving pool is cut in another way, and its quota with it.
    Layout,
    /// The training pool and its queues get a tenth more.
    Size,
    /// Every pool moves to a new image.
    EveryImage,
}

/// An afternoon in California: the tide is high and turns within a day.
pub fn now() -> Timestamp {
    "2026-11-18T20:00:00Z".parse().expect("an instant")
}

/// How many nodes each pool of a fleet has: a few hundred, or half of a small fleet.
pub fn pool_size(nodes: usize) -> usize {
    (nodes / 2).min(250)
}

fn pairs(nodes: usize) -> usize {
    nodes / 2 / pool_size(nodes)
}

pub fn fleet(nodes: usize, edit: Edit) -> Fleet {
    let mut sources = Sources::default();
    sources.add(SourceFile { path: "fleet.yaml".into(), text: common().into(), revision: None });
    for pair in 0..pairs(nodes) {
        let edit = if pair == 0 || edit == Edit::EveryImage { edit } else { Edit::Nothing };
        let text = documents(pair, pool_size(nodes), edit).into();
        sources.add(SourceFile { path: format!("pair-{pair}.yaml").into(), text, revision: None });
    }
    let (manifests, mut found) = parse(&sources);
    let (fleet, more) = lower(&manifests, &sources, now());
    found.extend(more);
    let wrong = found.into_iter().find(|one| one.is_error());
    fleet.unwrap_or_else(|| panic!("the generated fleet is valid: {wrong:?}"))
}

fn document(text: &mut String, kind: &str, name: &str, spec: &str) {
    let head = format!("---\napiVersion: tidewright.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n");
    let _ = write!(text, "{head}{spec}");
}

fn common() -> String {
    let mut text = String::new();
    document(
        &mut text,
        "Fleet",
        "bench",
        "  timeZone: America/Los_Angeles
  cloud: {aws: {region: us-west-2, accountId: \"123456789012\", eks: {clusterName: bench}}}
  kubernetes: {kubeconfig: {context: bench}}
  limits: {hourlyUsd: 100000, nodesRemovedPerHour: 20}
  fabric:
    levels:
      - {name: spine, nodeLabel: topology.k8s.aws/network-node-layer-1}
      - {name: block, nodeLabel: topology.k8s.aws/network-node-layer-2}
      - {name: leaf, nodeLabel: topology.k8s.aws/network-node-layer-3}
",
    );
    document(&mut text, "PreemptionTier", "production", "  rank: 1000\n  preempts: lowerTiers\n");
    document(
        &mut text,
        "PreemptionTier",
        "research",
        "  rank: 500\n  preempts: lowerTiers\n  checkpoint: {deadline: 15m}\n",
    );
    document(&mut text, "PreemptionTier", "batch", "  rank: 100\n  checkpoint: {deadline: 10m}\n");
    document(
        &mut text,
        "GpuLayout",
        "slices",
        "  mig:\n    - {gpus: [0, 1, 2, 3], slices: {3g.40gb: 2}}\n    - {gpus: [4, 5, 6, 7], slices: {1g.10gb: 7}}\n",
    );
    document(&mut text, "GpuLayout", "halves", "  mig: [{slices: {3g.40gb: 2}}]\n");
    document(
        &mut text,
        "HealthPolicy",
        "default",
        "  rules:
    - {when: {xid: [48, 63, 64, 74, 79, 95]}, then: [reboot, replace]}
    - {when: {condition: {type: AcceleratedHardwareReady, status: \"False\"}}, for: 10m, then: [replace]}
  limit: 10%
  admit: [{condition: GpuAcceptance, within: 20m}]
",
    );
    text
}

fn documents(pair: usize, size: usize, edit: Edit) -> String {
    let mut text = String::new();
    let mut add = |kind: &str, name: String, spec: String| document(&mut text, kind, &name, &spec);
    let reservation = |kind: &str, nodes: usize| {
        format!(
            "  instanceType: {kind}\n  zone: {ZONE}\n  nodes: {nodes}\n  onDemand: {{end: never, match: targeted}}\n"
        )
    };
    let launch = |version: u32| {
        format!(
            "  launch:
    image: {{ssmParameter: {{name: /aws/service/eks/optimized-ami/1.33/recommended/image_id, version: {version}}}}}
    bootstrap: {{nodeadm: {{}}}}
    subnets: {{tags: {{tier: private}}, zones: [{ZONE}]}}
    securityGroups: {{tags: {{\"aws:eks:cluster-name\": bench}}}}
    role: bench-node
    efa: auto
    placementGroup: auto
    volumes: [{{gib: 500}}]
"
        )
    };
    let more = if edit == Edit::Size { size / 10 } else { 0 };
    let train = size + more;
    let (layout, slices) = match edit {
        Edit::Layout => ("halves", format!("{{3g.40gb: {}}}", 16 * size)),
        _ => ("slices", format!("{{3g.40gb: {}, 1g.10gb: {}}}", 8 * size, 28 * size)),
    };
    let common = "  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n  updates: {when: drain, maxUnavailable: 4}\n";
    add("Reservation", format!("h100-{pair}"), reservation("p5.48xlarge", train));
    add("Reservation", format!("a100-{pair}"), reservation("p4de.24xlarge", size));
    let image = launch(if matches!(edit, Edit::Image | Edit::EveryImage) { 43 } else { 42 });
    let spec = format!(
        "  instanceType: p5.48xlarge\n  nodes: {train}\n  capacity: [{{reservation: h100-{pair}}}, {{onDemand: {{max: 2}}}}]\n  labels: {{example.com/workload: training}}\n{common}{image}"
    );
    add("NodePool", format!("train-{pair}"), spec);
    let image = launch(if edit == Edit::EveryImage { 43 } else { 42 });
    let spec = format!(
        "  instanceType: p4de.24xlarge\n  nodes: {size}\n  capacity: [{{reservation: a100-{pair}}}]\n  layout: {layout}\n  labels: {{example.com/workload: serving}}\n{common}{image}"
    );
    add("NodePool", format!("serve-{pair}"), spec);
    for (team, gpus, tiers) in teams(size, more) {
        let spec = format!(
            "  namespaces: [{{name: {team}-{pair}}}]\n  cohort: research-{pair}\n  tiers: [{tiers}]\n  shares:\n    - {{pool: train-{pair}, guarantee: {{gpus: {gpus}}}, borrow: {{gpus: {gpus}}}, lend: {{gpus: {gpus}}}}}\n"
        );
        add("Quota", format!("{team}-{pair}"), spec);
    }
    let spec = format!(
        "  namespaces: [{{name: chat-{pair}}}]\n  tiers: [production]\n  shares:\n    - {{pool: serve-{pair}, guarantee: {{slices: {slices}}}}}\n"
    );
    add("Quota", format!("serving-{pair}"), spec);
    let spec = format!(
        "  lowTide: [{{days: [Mon-Fri], from: \"20:00\", to: \"06:30\"}}]\n  lend:\n    - {{pool: serve-{pair}, nodes: {}, from: serving-{pair}, to: batch-{pair}, layout: whole}}\n  reclaim: {{lead: 45m, order: cheapestFirst, hardAt: 10m}}\n",
        size / 4
    );
    add("TideSchedule", format!("nightly-{pair}"), spec);
    text
}

/// The queues of a training pool, with how many of its GPUs are theirs.
fn teams(size: usize, more: usize) -> [(&'static str, usize, &'static str); 3] {
    [
        ("vision", 4 * size + GPUS * more, "research, batch"),
        ("language", 3 * size, "research, batch"),
        ("batch", size, "batch"),
    ]
}

/// A fleet over a world in which nothing is there.
pub fn nothing_there(fleet: &Fleet) -> PlanInput {
    let now = now();
    let target = fleet.target_at(now);
    PlanInput {
        fleet: UID.into(),
        now,
        upcoming: fleet.transitions(now, now + SignedDuration::from_hours(24)),
        desired: compile(&target),
        target,
        observed: Observed {
            cloud: CloudSeen {
                reservations: read(BTreeMap::new()),
                offerings: read(BTreeMap::new()),
                instances: read(BTreeMap::new()),
                groups: read(BTreeMap::new()),
                templates: read(BTreeMap::new()),
                spot_prices: read(BTreeMap::new()),
                hosts: Default::default(),
                recommended: Default::default(),
                unplaced: None,
            },
            cluster: ClusterSeen {
                nodes: read(BTreeMap::new()),
                pods: read(Vec::new()),
                workloads: read(BTreeMap::new()),
                budgets: read(BTreeMap::new()),
                objects: read(BTreeMap::new()),
                unread: BTreeMap::new(),
                others: Others::none(now),
            },
            guards: BTreeMap::new(),
            rehearsed: BTreeMap::new(),
            refused: BTreeMap::new(),
            denied: BTreeMap::new(),
            looks_only: None,
        },
        ledger: Ledger::default(),
        renamed: Default::default(),
        found: Default::default(),
        closed: BTreeMap::new(),
        recalled: Default::default(),
        gone: Default::default(),
        cut_short: Default::default(),
        revision: Some("0123456789abcdef".into()),
        only: Vec::new(),
        only_node: None,
        defragment: false,
    }
}

fn read<T>(value: T) -> Read<T> {
    Read::new(value, now())
}

fn days_ago(days: i64) -> Timestamp {
    now() - SignedDuration::from_hours(24 * days)
}

/// The same with its reservations, which have nothing in them.
pub fn only_reserved(mut input: PlanInput) -> PlanInput {
    reserve(&mut input, false);
    input
}

/// The same with everything as it is wanted, and at work.
pub fn all_there(mut input: PlanInput) -> PlanInput {
    reserve(&mut input, true);
    let pools = launched(&input);
    input.observed.cloud.instances = read(pools.instances);
    input.observed.cluster.nodes = read(pools.nodes);
    input.ledger.pools = pools.ledger;
    dress(&mut input);
    let objects = input.desired.objects.iter().map(|wanted| {
        let written = Some(wanted.digest.clone());
        (wanted.key.clone(), ObjectSeen { body: wanted.body.clone(), written, moved_by: None, deleting: false })
    });
    input.observed.cluster.objects = read(objects.collect());
    let made = |pool: &PoolObjects| {
        let template = &pool.template;
        (template.name.clone(), TemplateSeen { ours: true, digest: Some(template.digest.clone()), version: 1 })
    };
    input.observed.cloud.templates = read(input.desired.pools.values().map(made).collect());
    let groups = input.desired.pools.values().filter_map(|pool| pool.group.clone());
    input.observed.cloud.groups = read(groups.map(|group| (group, GroupSeen { ours: true })).collect());
    let work = Work::on(&input);
    input.observed.cluster.pods = read(work.pods);
    input.observed.cluster.workloads = read(work.workloads);
    input.observed.cluster.budgets = read(work.budgets);
    input
}

/// The world as it was, under other documents.
pub fn under(fleet: &Fleet, there: PlanInput) -> PlanInput {
    let PlanInput { target, upcoming, .. } = nothing_there(fleet);
    let desired = compile_beside(
        &target,
        &Beside::of(&target, &there.observed.cluster, there.observed.cluster.nodes.seen().len()),
    );
    PlanInput { target, upcoming, desired, ..there }
}

fn reserve(input: &mut PlanInput, used: bool) {
    let mut seen = BTreeMap::new();
    for (name, spec) in &input.target.standing.reservations {
        let id = format!("cr-{name}");
        let tag = ReservationTag { fleet: UID.into(), reservation: name.clone(), generation: 1 };
        let one = ReservationSeen {
            tag: Some(tag),
            instance_type: spec.shape.instance_type.clone(),
            zone: ZONE.into(),
            total: spec.nodes,
            available: if used { 0 } else { spec.nodes },
            state: ReservationState::Active,
            start: Some(days_ago(90)),
            end: None,
            matching: Match::Targeted,
            block: false,
            offering: None,
            network: Vec::new(),
        };
        seen.insert(id.as_str().into(), one);
        let held =
            HeldReservation { generation: 1, id: Some(id.into()), asked: Some(days_ago(90)), ..Default::default() };
        input.ledger.head.reservations.insert(name.clone(), held);
    }
    input.ledger.head.fleet = Some(UID.into());
    input.observed.cloud.reservations = read(seen);
}

#[derive(Default)]
struct Pools {
    instances: BTreeMap<InstanceId, InstanceSeen>,
    nodes: BTreeMap<NodeName, NodeSeen>,
    ledger: BTreeMap<PoolName, PoolLedger>,
}

fn launched(input: &PlanInput) -> Pools {
    let mut pools = Pools::default();
    let fleet = FleetUid::from(UID);
    for (at, (name, target)) in input.target.pools.iter().enumerate() {
        let (spec, objects) = (&input.target.standing.pools[name], &input.desired.pools[name]);
        let kind = if is_training(name) { "h100" } else { "a100" };
        let reservation = format!("cr-{kind}-{}", pair_of(name));
        for index in 0..target.nodes {
            let slot = SlotId::new(name, index);
            let id = InstanceId::from(format!("i-{at:05x}{index:012x}"));
            let path = [at, at * 1000 + index as usize / 64, at * 1000 + index as usize / 16];
            let network: Vec<String> = path.iter().map(|place| format!("nn-{place:017x}")).collect();
            let instance = InstanceSeen {
                tag: Some(SlotTag { fleet: fleet.clone(), slot: slot.clone(), generation: 1 }),
                token: Some(token(&fleet, &slot, 1, &ZONE.into())),
                state: InstanceState::Running,
                instance_type: spec.shape.instance_type.clone(),
                zone: ZONE.into(),
                market: Market::Reserved,
                reservation: Some(reservation.as_str().into()),
                group: objects.group.clone(),
                template: Some(objects.template.digest.clone()),
                launched: days_ago(30),
                network: network.clone(),
                notice: None,
            };
            let node =
                NodeName::from(format!("ip-10-{}-{}-{}.us-west-2.compute.internal", at, index / 256, index % 256));
            let layout = &target.parts.iter().find(|part| index - part.first < part.nodes).expect("a part").layout;
            let seen = node_of(&node, &id, objects, layout.as_str(), &network);
            pools.nodes.insert(node, seen);
            pools.instances.insert(id.clone(), instance);
            let record = Slot { generation: 1, instance: Some(id), launched: Some(days_ago(30)), ..Slot::default() };
            pools.ledger.entry(name.clone()).or_default().slots.insert(index, record);
        }
    }
    pools
}

/// A node as EKS and the GPU operator leave it, before we dress it.
fn node_of(name: &NodeName, id: &InstanceId, objects: &PoolObjects, layout: &str, network: &[String]) -> NodeSeen {
    let laid_out = &objects.layouts[layout];
    let kind = objects.template.instance_type.as_str();
    let mut labels: BTreeMap<String, String> = laid_out.labels.clone();
    labels.extend(LEVELS.iter().zip(network).map(|(level, place)| (level.to_string(), place.clone())));
    let common = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", kind),
        ("topology.kubernetes.io/region", "us-west-2"),
        ("topology.kubernetes.io/zone", ZONE),
        ("kubernetes.io/hostname", name.as_str()),
        ("nvidia.com/gpu.present", "true"),
        ("nvidia.com/cuda.driver.major", "570"),
        ("nvidia.com/mig.config.state", "success"),
        ("nvidia.com/mig.strategy", "mixed"),
    ];
    labels.extend(common.map(|(key, value)| (key.to_string(), value.to_string())));
    let mut allocatable: BTreeMap<ResourceName, i64> = laid_out.allocatable.clone();
    let sizes = [("cpu", 191_000), ("memory", 2_000_000_000_000), ("pods", 110), ("vpc.amazonaws.com/efa", 32)];
    allocatable.extend(sizes.map(|(name, amount)| (name.into(), amount)));
    let said = |status| ConditionSeen::new(status, days_ago(29));
    let conditions = [
        ("MemoryPressure", ConditionStatus::False),
        ("DiskPressure", ConditionStatus::False),
        ("PIDPressure", ConditionStatus::False),
        ("AcceleratedHardwareReady", ConditionStatus::True),
        ("GpuAcceptance", ConditionStatus::True),
    ];
    NodeSeen {
        uid: format!("node-{id}").into(),
        instance: Some(id.clone()),
        labels,
        annotations: BTreeMap::new(),
        taints: objects.taints.clone(),
        unschedulable: false,
        ready: true,
        ready_since: None,
        unready_since: None,
        moved_by: Default::default(),
        allocatable,
        conditions: conditions.map(|(name, status)| (name.to_string(), said(status))).into(),
        created: days_ago(30),
        boot: None,
    }
}

/// The labels that the planner wants on every node.
fn dress(input: &mut PlanInput) {
    let mut dressed: BTreeMap<NodeName, BTreeMap<String, String>> = BTreeMap::new();
    let view = View::new(input);
    for (pool, slot) in view.slots() {
        if let Some(node) = slot.node {
            dressed.insert(node.0.clone(), clothes(&view, pool, slot, node).0);
        }
    }
    let mut nodes = input.observed.cluster.nodes.seen().clone();
    for (name, node) in &mut nodes {
        node.labels.extend(dressed.remove(name).expect("every node has a slot"));
    }
    input.observed.cluster.nodes = read(nodes);
    note(input);
}

/// What the planner wants noted on every node.
fn note(input: &mut PlanInput) {
    let mut nodes = input.observed.cluster.nodes.seen().clone();
    for step in plan(input).steps {
        if let Action::Cluster(ClusterAction::Dress { node, notes, .. }) = step.action {
            let notes = notes.into_iter().filter_map(|(key, value)| Some((key, value?)));
            nodes.get_mut(&node).expect("a node that is there").annotations.extend(notes);
        }
    }
    input.observed.cluster.nodes = read(nodes);
}

fn is_training(pool: &PoolName) -> bool {
    pool.as_str().starts_with("train")
}

fn pair_of(pool: &PoolName) -> &str {
    pool.as_str().rsplit('-').next().expect("a number behind the name")
}

#[derive(Default)]
struct Work {
    pods: Vec<PodSeen>,
    workloads: BTreeMap<WorkloadUid, WorkloadSeen>,
    budgets: BTreeMap<NamespacedName, BudgetSeen>,
}

impl Work {
    fn on(input: &PlanInput) -> Self {
        let mut work = Self::default();
        let mut nodes: BTreeMap<&PoolName, Vec<&NodeName>> = BTreeMap::new();
        for (pool, slot) in View::new(input).slots() {
            nodes.entry(pool.name).or_default().extend(slot.node.map(|(name, _)| name));
        }
        for (pool, nodes) in nodes {
            let own = if is_training(pool) { work.train(pool, &nodes) } else { 0 };
            let pair = pair_of(pool);
            for (at, node) in nodes.iter().enumerate() {
                for daemon in DAEMONS {
                    let name = format!("gpu-operator/{}-{pool}-{at:05}", daemon);
                    work.pods.push(PodSeen { keeper: Keeper::DaemonSet, ..pod(&name, node, &[("cpu", 100)]) });
                }
                for service in 0..PODS_A_NODE - 7 - own {
                    let requests: &[(&str, i64)] = match (is_training(pool), service) {
                        (true, _) => &[("cpu", 4000), ("memory", 16_000_000_000)],
                        (false, 0..7) => &[("cpu", 8000), ("memory", 64_000_000_000), ("nvidia.com/mig-3g.40gb", 1)],
                        (false, _) => &[("cpu", 2000), ("memory", 16_000_000_000), ("nvidia.com/mig-1g.10gb", 1)],
                    };
                    let team = if is_training(pool) { "vision" } else { "chat" };
                    work.serve(&format!("{team}-{pair}"), pool, (at, service), node, requests);
                }
            }
        }
        work.pods.sort_by(|one, other| one.name.cmp(&other.name));
        work
    }

    /// Gangs on all GPUs of a pool but the last few nodes', and some that wait; says how many pods a node gets.
    fn train(&mut self, pool: &PoolName, nodes: &[&NodeName]) -> usize {
        let pair = pair_of(pool);
        let (mut used, mut gang) = (0, 0);
        for (team, share, tiers) in teams(nodes.len(), 0) {
            let (end, tier) = (used + share, tiers.split(',').next().expect("a tier"));
            while used < end {
                let pods = GANGS[gang % GANGS.len()].min(end - used);
                let name = format!("{team}-{pair}/job-{gang:05}");
                let uid = self.gang(&name, &format!("{team}-{pair}"), tier, pods, Some(pool));
                for rank in 0..pods {
                    let node = nodes[(used + rank) / GPUS];
                    let seen = self.workloads.get_mut(&uid).expect("just made");
                    *seen.nodes.entry(node.clone()).or_insert(0) += 1;
                    let requests = &[("cpu", 20_000), ("memory", 200_000_000_000), ("nvidia.com/gpu", 1)];
                    self.pods.push(PodSeen {
                        workload: Some(uid.clone()),
                        gang: Some(GangName(format!("jobset/{name}").into())),
                        saved: Some(now() - SignedDuration::from_mins(20)),
                        ..pod(&format!("{name}-{rank}"), node, requests)
                    });
                }
                (used, gang) = (used + pods, gang + 1);
            }
            for waiting in 0..nodes.len().div_ceil(50) {
                self.gang(&format!("{team}-{pair}/waits-{waiting}"), &format!("{team}-{pair}"), tier, 16, None);
            }
        }
        GPUS
    }

    fn gang(&mut self, name: &str, queue: &str, tier: &str, pods: usize, on: Option<&PoolName>) -> WorkloadUid {
        let per_pod: BTreeMap<ResourceName, i64> =
            [("cpu", 20_000), ("memory", 200_000_000_000), ("nvidia.com/gpu", 1)].map(|(n, a)| (n.into(), a)).into();
        let uid = WorkloadUid::from(format!("workload-{name}"));
        let seen = WorkloadSeen {
            name: name.parse().expect("a namespace and a name"),
            queue: queue.into(),
            tier: Some(tier.into()),
            priority: if tier == "research" { 500 } else { 100 },
            created: days_ago(2),
            active: true,
            marks: BTreeMap::new(),
            pods: pods as u32,
            fewest: None,
            requests: per_pod.iter().map(|(name, amount)| (name.clone(), amount * pods as i64)).collect(),
            required_level: None,
            preferred_level: Some(LEAF.into()),
            placed: true,
            reserved: on.map(|_| days_ago(1)),
            evicted: false,
            finished: false,
            flavors: on
                .map(|pool| per_pod.keys().map(|name| (name.clone(), pool.as_str().into())).collect())
                .unwrap_or_default(),
            per_pod,
            nodes: BTreeMap::new(),
            saved: None,
        };
        self.workloads.insert(uid.clone(), seen);
        uid
    }

    /// One pod of a service that stands on forty nodes, behind a budget.
    fn serve(
        &mut self,
        namespace: &str,
        pool: &PoolName,
        (at, service): (usize, usize),
        node: &NodeName,
        requests: &[(&str, i64)],
    ) {
        let name = format!("{namespace}/{pool}-svc-{service}-{}", at / 40);
        let budget: NamespacedName = name.parse().expect("a namespace and a name");
        let seen = BudgetSeen { allowed: 4, healthy: 40, desired: 36, expected: 40, always_allow: false };
        self.budgets.entry(budget.clone()).or_insert(seen);
        let pod = pod(&format!("{name}-{at:05}"), node, requests);
        self.pods.push(PodSeen { budgets: vec![budget], ..pod });
    }
}

const DAEMONS: [&str; 7] =
    ["aws-node", "kube-proxy", "dcgm-exporter", "device-plugin", "mig-manager", "node-exporter", "efa-plugin"];

fn pod(name: &str, node: &NodeName, requests: &[(&str, i64)]) -> PodSeen {
    PodSeen {
        name: name.parse().expect("a namespace and a name"),
        uid: format!("pod-{name}").into(),
        node: Some(node.clone()),
        phase: PodPhase::Running,
        ready: true,
        keeper: Keeper::Controller,
        owner: Some(format!("owner-{name}").into()),
        workload: None,
        gang: None,
        priority: 0,
        requests: requests.iter().map(|(name, amount)| ((*name).into(), *amount)).collect(),
        started: Some(days_ago(1)),
        terminating: None,
        grace_secs: 30,
        empty_dir: false,
        goes_anywhere: false,
        saved: None,
        asked: None,
        budgets: Vec::new(),
    }
}
