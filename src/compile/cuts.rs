//! How nodes are cut, by what they carry: who that makes them belong to is said in `fleet::handing`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::gpus;
use crate::effect::marks::{CORDON, MIG_CONFIG, Mark, PLUGIN_CONFIG, is_starting};
use crate::effect::{LaidOut, Ledger, allocatable_is};
use crate::fleet::Target;
use crate::fleet::handing::{CutSeen, Cuts};
use crate::ids::{InstanceId, LayoutName, NodeName, WorkloadUid};
use crate::observed::{ClusterSeen, NodeSeen};

/// The cuts of the nodes of pools that tides lend from and cut anew.
pub fn seen(target: &Target, ledger: &Ledger, cluster: &ClusterSeen, now: Timestamp) -> Cuts {
    let standing = &target.standing;
    let nodes = cluster.nodes.seen();
    let mut recut = standing.pools.iter().filter(|(name, _)| standing.is_recut(name)).peekable();
    if recut.peek().is_none() {
        return Cuts::new();
    }
    let mut work = work(cluster, now);
    let by_instance: BTreeMap<&InstanceId, (&NodeName, &NodeSeen)> =
        nodes.iter().filter_map(|(name, node)| Some((node.instance.as_ref()?, (name, node)))).collect();
    let pools = recut.map(|(name, pool)| {
        let layouts = gpus::laid_out(standing, name, pool);
        let slots = ledger.pools.get(name).into_iter().flat_map(|known| &known.slots);
        let slots = slots.filter_map(|(index, slot)| {
            let claimed = slot.node.as_ref().and_then(|node| nodes.get_key_value(node));
            let node = claimed.or_else(|| by_instance.get(slot.instance.as_ref()?).copied());
            let seen = match node {
                Some((name, node)) => CutSeen {
                    layout: current(&layouts, node).cloned(),
                    closed: is_closed(node),
                    // One that was never cut, and is new or only claimed, was in no tide.
                    fresh: is_starting(node) || (slot.node.is_some() && is_never_cut(node)),
                    work: work.remove(name).unwrap_or_default(),
                },
                // What one read does not show may well be there, as it was.
                None if slot.is_something() && cluster.nodes.gap().is_some() => {
                    CutSeen { closed: true, ..CutSeen::default() }
                }
                None => return None,
            };
            Some((*index, seen))
        });
        (name.clone(), slots.collect())
    });
    pools.collect()
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

/// The layout that a node's labels say it has; one that was never cut has the layout that it shows.
pub fn current<'a>(layouts: &'a BTreeMap<LayoutName, LaidOut>, node: &NodeSeen) -> Option<&'a LayoutName> {
    let has = |laid_out: &LaidOut| laid_out.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let labelled = layouts.iter().find(|(_, laid_out)| !laid_out.labels.is_empty() && has(laid_out));
    let shows = || layouts.iter().find(|(_, laid_out)| allocatable_is(&node.allocatable, laid_out));
    labelled.or_else(|| if is_never_cut(node) { shows() } else { None }).map(|(name, _)| name)
}

/// Whether nobody ever ordered a cut of this node.
pub fn is_never_cut(node: &NodeSeen) -> bool {
    let untouched = |key: &str| node.labels.get(key).is_none_or(|value| value == "all-disabled");
    untouched(MIG_CONFIG) && untouched(PLUGIN_CONFIG)
}

/// Whether we keep it empty for a cut.
fn is_closed(node: &NodeSeen) -> bool {
    node.annotation(CORDON).is_some_and(|mark| Mark::parse(mark).why == "cut")
}
