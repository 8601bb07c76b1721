//! How nodes are cut, by what they carry: who that makes them belong to is said in `fleet::handing`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::gpus;
use super::seats::{Scene, Seats};
use crate::effect::marks::{CORDON, HANDS_OFF, MIG_CONFIG, Mark, PLUGIN_CONFIG, is_starting};
use crate::effect::{Freeze, LaidOut, Ledger, Scope, allocatable_is};
use crate::fleet::handing::{CutSeen, Cuts};
use crate::ids::{InstanceId, LayoutName, NodeName, PoolName, WorkloadUid};
use crate::observed::{ClusterSeen, NodeSeen};

/// What each gang on each node, or pod by itself, would lose.
pub type Units<'a> = BTreeMap<&'a NodeName, BTreeMap<&'a str, u64>>;

/// The cuts of the nodes of pools that tides lend from and cut anew, by the places that their slots take.
pub fn seen(scene: &Scene<'_>) -> Cuts {
    let standing = &scene.target.standing;
    let mut recut = standing.pools.keys().filter(|name| standing.is_recut(name)).peekable();
    if recut.peek().is_none() {
        return Cuts::new();
    }
    let nodes = Nodes::of(scene);
    let pools = recut.map(|name| {
        let cuts = nodes.cuts(scene, name);
        (name.clone(), Seats::among(scene, name, &cuts).placed(cuts))
    });
    pools.collect()
}

/// The cuts of one such pool by its slots; nothing of any other.
pub fn of_pool(scene: &Scene<'_>, name: &PoolName) -> BTreeMap<u32, CutSeen> {
    match scene.target.standing.is_recut(name) {
        true => Nodes::of(scene).cuts(scene, name),
        false => BTreeMap::new(),
    }
}

/// The nodes of a snapshot, with what is on them.
struct Nodes<'a> {
    by_instance: BTreeMap<&'a InstanceId, (&'a NodeName, &'a NodeSeen)>,
    work: BTreeMap<&'a NodeName, BTreeMap<String, u64>>,
    units: Units<'a>,
}

impl<'a> Nodes<'a> {
    fn of(scene: &Scene<'a>) -> Self {
        let nodes = scene.cluster.nodes.seen().iter();
        let by_instance = nodes.filter_map(|(name, node)| Some((node.instance.as_ref()?, (name, node)))).collect();
        let (cluster, now) = (scene.cluster, scene.now);
        Self { by_instance, work: work(cluster, now), units: units(cluster, now) }
    }

    fn cuts(&self, scene: &Scene<'_>, name: &PoolName) -> BTreeMap<u32, CutSeen> {
        let Some(pool) = scene.target.standing.pools.get(name) else { return BTreeMap::new() };
        let (nodes, ledger) = (&scene.cluster.nodes, scene.ledger);
        let layouts = gpus::laid_out(&scene.target.standing, name, pool);
        let slots = ledger.pools.get(name).into_iter().flat_map(|known| &known.slots);
        let slots = slots.filter_map(|(index, slot)| {
            let claimed = slot.node.as_ref().and_then(|node| nodes.seen().get_key_value(node));
            let node = claimed.or_else(|| self.by_instance.get(slot.instance.as_ref()?).copied());
            let units = |name| self.units.get(name).into_iter().flatten().map(|(unit, lost)| ((*unit).into(), *lost));
            let seen = match node {
                Some((name, node)) => CutSeen {
                    layout: current(&layouts, node).cloned(),
                    closed: is_closed(node),
                    // One that was never cut, and is new or only claimed, was in no tide.
                    fresh: is_starting(node) || (slot.node.is_some() && is_never_cut(node)),
                    kept: is_kept(ledger, name, node),
                    out: ledger.head.quarantined.contains_key(name) || ledger.head.drains.contains_key(name),
                    work: self.work.get(name).cloned().unwrap_or_default(),
                    units: units(name).collect(),
                },
                // What one read does not show may well be there, as it was.
                None if slot.is_something() && nodes.gap().is_some() => CutSeen { closed: true, ..CutSeen::default() },
                None => return None,
            };
            Some((*index, seen))
        });
        slots.collect()
    }
}

/// What each queue's work on each node would lose, in GPU-seconds: a gang goes as a whole, so it counts whole.
fn work(cluster: &ClusterSeen, now: Timestamp) -> BTreeMap<&NodeName, BTreeMap<String, u64>> {
    let mut found: BTreeMap<&NodeName, BTreeMap<String, u64>> = BTreeMap::new();
    let workloads = cluster.workloads.seen();
    let mut counted: BTreeSet<(&NodeName, &WorkloadUid)> = BTreeSet::new();
    for pod in cluster.pods.seen().iter().filter(|pod| pod.counts()) {
        let (Some(node), Some(uid)) = (&pod.node, &pod.workload) else { continue };
        let Some(workload) = workloads.get(uid).filter(|_| counted.insert((node, uid))) else { continue };
        let gpus: i64 =
            workload.requests.iter().filter(|(name, _)| name.as_str().starts_with("nvidia.com/")).map(|(_, n)| n).sum();
        let since = workload.saved.max(workload.reserved).map_or(0, |at| now.duration_since(at).as_secs());
        let lost = u64::try_from(gpus.saturating_mul(since)).unwrap_or(0);
        *found.entry(node).or_default().entry(workload.queue.to_string()).or_default() += lost;
    }
    found
}

/// What each gang on a node, or pod by itself, would lose if it had to go: a gang counts whole on each of its nodes.
pub fn units(cluster: &ClusterSeen, now: Timestamp) -> Units<'_> {
    let mut found = Units::new();
    let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
    for pod in cluster.pods.seen().iter().filter(|pod| pod.counts()) {
        let Some(node) = &pod.node else { continue };
        let gang = pod.workload.as_ref().map(WorkloadUid::as_str).or(pod.gang.as_ref().map(|gang| &*gang.0));
        let unit = gang.unwrap_or(pod.uid.as_str());
        let gpus: i64 =
            pod.requests.iter().filter(|(name, _)| name.as_str().starts_with("nvidia.com/")).map(|(_, n)| n).sum();
        let since = pod.saved.max(pod.started).map_or(0, |at| now.duration_since(at).as_secs());
        // Whoever has just begun is disturbed all the same.
        *lost.entry(unit).or_default() += u64::try_from(gpus.saturating_mul(since)).unwrap_or(0).max(1);
        found.entry(node).or_default().insert(unit, 0);
    }
    for (unit, lose) in found.values_mut().flatten() {
        *lose = lost.get(unit).copied().unwrap_or_default();
    }
    found
}

/// The layout that a node's labels say it has; one that was never cut has the layout that it shows.
pub fn current<'a>(layouts: &'a BTreeMap<LayoutName, LaidOut>, node: &NodeSeen) -> Option<&'a LayoutName> {
    let has = |laid_out: &LaidOut| !laid_out.labels.is_empty() && laid_out.is_ordered(&node.labels);
    let labelled = layouts.iter().find(|(_, laid_out)| has(laid_out));
    let shows = || layouts.iter().find(|(_, laid_out)| allocatable_is(&node.allocatable, laid_out));
    labelled.or_else(|| if is_never_cut(node) { shows() } else { None }).map(|(name, _)| name)
}

/// Whether nobody ever ordered a cut of this node.
pub fn is_never_cut(node: &NodeSeen) -> bool {
    let untouched = |key: &str| node.labels.get(key).is_none_or(|value| value == "all-disabled");
    untouched(MIG_CONFIG) && untouched(PLUGIN_CONFIG)
}

/// Whether a person said that nothing is done to this node.
fn is_kept(ledger: &Ledger, name: &NodeName, node: &NodeSeen) -> bool {
    let frozen = |freeze: &Freeze| freeze.scope == Scope::Node(name.clone());
    node.annotation(HANDS_OFF).is_some() || ledger.head.frozen.iter().any(frozen)
}

/// Whether we keep it empty for a cut.
fn is_closed(node: &NodeSeen) -> bool {
    node.annotation(CORDON).is_some_and(|mark| Mark::parse(mark).why == "cut")
}
