//! Nodes that keep the label of the name that their pool had: work was admitted through the flavor of that name and is on
//! them. Kueue gives its pods that label to look for, so one that is made again would find no node.
//!
//! Such a node goes on as it is, but for that label, until the work has ended or left; the others change at once.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::harm::Harm;
use super::slots::hold;
use super::types::{PlanInput, Reason, WaitingOn, thing};
use super::view::{PoolView, View};
use crate::effect::marks::POOL;
use crate::ids::{FlavorName, NamespacedName, NodeName, PoolName};
use crate::observed::{Gap, NodeSeen, ObjectKey, ObjectKind, PodSeen, WorkloadSeen};

/// Work that is named before the rest is counted.
const NAMES: usize = 3;

/// Why a node still carries the name of a pool that no document has.
#[derive(Clone, PartialEq, Debug)]
pub struct Former {
    pub pool: PoolName,
    work: Vec<NamespacedName>,
    /// Nobody knows what was admitted.
    unread: Option<Gap>,
}

/// By the node.
pub type AllFormer<'a> = BTreeMap<&'a NodeName, Former>;

pub fn all<'a>(input: &'a PlanInput, harm: &Harm<'a>) -> AllFormer<'a> {
    let cluster = &input.observed.cluster;
    let named = |(name, node): (&'a NodeName, &'a NodeSeen)| {
        let pool = PoolName::from(node.labels.get(POOL)?.as_str());
        (!input.target.pools.contains_key(&pool)).then_some((name, pool))
    };
    let old: BTreeMap<&NodeName, PoolName> = cluster.nodes.seen().iter().filter_map(named).collect();
    if old.is_empty() {
        return BTreeMap::new();
    }
    let unread = cluster.workloads.gap().cloned();
    let mut work: BTreeMap<&NodeName, BTreeSet<&NamespacedName>> = BTreeMap::new();
    for (uid, one) in cluster.workloads.seen().iter().filter(|(_, one)| one.reserved.is_some() && !one.finished) {
        let looks_for = looks_for(input, one);
        let on = harm.workload_nodes(uid, one);
        // Kueue chose no node yet, or not that any more: its pods may come to any that has the label.
        let is_anywhere = on.is_empty();
        for (node, _) in old.iter().filter(|(_, pool)| looks_for.contains(pool.as_str())) {
            if is_anywhere || on.contains(*node) {
                work.entry(*node).or_default().insert(&one.name);
            }
        }
    }
    let former = old.into_iter().filter_map(|(node, pool)| {
        let work: Vec<NamespacedName> = work.remove(node).into_iter().flatten().cloned().collect();
        // Whose Workload is not listed was let in by one all the same.
        let unlisted =
            |pod: &&PodSeen| pod.workload.as_ref().is_some_and(|uid| !cluster.workloads.seen().contains_key(uid));
        let gap = || Gap { what: "list workloads".into(), why: format!("that of a pod on {node} is not in it") };
        let unread = unread.clone().or_else(|| harm.pods_on(node).iter().copied().find(unlisted).map(|_| gap()));
        (!work.is_empty() || unread.is_some()).then(|| (node, Former { pool, work, unread: unread.clone() }))
    });
    former.collect()
}

/// The pools that the pods of a workload look for, by the flavors that it was admitted with.
fn looks_for<'a>(input: &'a PlanInput, one: &'a WorkloadSeen) -> BTreeSet<&'a str> {
    let objects = input.observed.cluster.objects.seen();
    let label = |flavor: &'a FlavorName| {
        let found = objects.get(&ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str()));
        // One that could not be read is called as its pool is.
        found.map_or(Some(flavor.as_str()), |seen| seen.body["spec"]["nodeLabels"][POOL].as_str())
    };
    one.flavors.values().filter_map(label).collect()
}

/// Says of each node of a pool that keeps the old name what it waits on.
pub fn say(view: &View<'_>, pool: &PoolView<'_>, draft: &mut Draft) {
    let asked = |name: &NodeName| view.input.only_node.as_ref().is_none_or(|only| only == name);
    for slot in pool.slots.iter().filter(|slot| slot.part.is_some()) {
        let Some((name, _)) = slot.node.filter(|(name, _)| asked(name)) else { continue };
        let Some(former) = view.former.get(name) else { continue };
        let wanted = format!("label {name} as {} instead of pool {}", slot.id, former.pool);
        hold(draft, &thing(pool.name), wanted, Reason::Wanted, former.waiting_on());
    }
}

impl Former {
    fn waiting_on(&self) -> WaitingOn {
        if let (Some(gap), true) = (&self.unread, self.work.is_empty()) {
            return WaitingOn::Unread(gap.clone());
        }
        let mut names: Vec<String> = self.work.iter().take(NAMES).map(ToString::to_string).collect();
        let more = self.work.len().saturating_sub(NAMES);
        names.extend((more > 0).then(|| format!("{more} more")));
        WaitingOn::Gang { name: names.join(" and ") }
    }
}
