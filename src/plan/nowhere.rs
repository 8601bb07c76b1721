//! Pods of services that find no place any more once this plan's nodes are gone or cut otherwise. A gang waits in its queue,
//! and Kueue says what for; a pod that no queue admitted is evicted, made again, and pends without a word.
//!
//! Counted over the whole cluster by what is free of each accelerator, and not node by node: whoever is named here has no
//! place at all, and whoever is not may still find none that is large enough.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Course, Draft};
use super::layout;
use super::objects::fields::amount;
use super::view::View;
use crate::compile::holds::is_accelerator;
use crate::effect::{Action, ClusterAction, Thing};
use crate::ids::{NodeName, PoolName, ResourceName};
use crate::observed::{Keeper, NodeSeen, PodSeen};

type Amounts = BTreeMap<ResourceName, i64>;

/// Services that are named before the rest is counted.
const NAMES: usize = 6;

/// What becomes of a service's pods that are moved.
struct Moved<'a> {
    from: Option<&'a NodeName>,
    pods: u32,
    homeless: u32,
    /// What one of them asks for that there is too little of.
    lacks: Option<(&'a ResourceName, i64)>,
}

pub fn say(view: &View<'_>, draft: &mut Draft) {
    let emptied = emptied(draft);
    let is_service = |pod: &&PodSeen| {
        pod.workload.is_none() && pod.gang.is_none() && pod.keeper == Keeper::Controller && pod.terminating.is_none()
    };
    let pods = emptied.iter().flat_map(|node| view.harm.pods_on(node)).copied().filter(is_service);
    let mut pods: Vec<&PodSeen> = pods.filter(|pod| accelerators(pod).next().is_some()).collect();
    if pods.is_empty() {
        return;
    }
    pods.sort_by_key(|pod| (Reverse(pod.priority), &pod.name));
    let (offered, stays) = offered(view, &emptied);
    let moved = moved(&pods, stays, offered.clone());
    let pools: BTreeMap<&NodeName, &PoolName> =
        view.slots().filter_map(|(pool, slot)| Some((slot.node?.0, pool.name))).collect();
    let on = |moved: &Moved<'_>| {
        moved.from.and_then(|node| pools.get(node)).map_or(Thing::Fleet, |pool| Thing::Pool((*pool).clone()))
    };
    let mut homeless = moved.iter().filter(|(_, moved)| moved.homeless > 0);
    for (service, moved) in homeless.by_ref().take(NAMES) {
        draft.note(on(moved), sentence(service, moved, &offered));
    }
    match homeless.count() {
        0 => {}
        1 => draft.note(Thing::Fleet, "1 more service has pods that find no place any more"),
        more => draft.note(Thing::Fleet, format!("{more} more services have pods that find no place any more")),
    }
}

/// "2 of 5 pods of web/api on nodes that are emptied find no place any more: each asks for 8 × 3g.40gb, and …"
fn sentence(service: &str, moved: &Moved<'_>, offered: &Amounts) -> String {
    let Moved { pods, homeless, lacks, .. } = moved;
    let of = if *pods == 1 { "pod" } else { "pods" };
    let find = if *homeless == 1 { "finds" } else { "find" };
    let why = lacks.map_or(String::new(), |(resource, asked)| {
        let is_offered = offered.get(resource).is_some_and(|left| *left > 0);
        let left = if is_offered { "and too few are free then" } else { "which no node has then" };
        format!(": {} for {}, {left}", if *homeless == 1 { "it asks" } else { "each asks" }, amount(resource, asked))
    });
    format!("{homeless} of {pods} {of} of {service} on nodes that are emptied {find} no place any more{why}")
}

/// The nodes that this plan empties, now or when their turn comes.
fn emptied(draft: &Draft) -> BTreeSet<NodeName> {
    let empties = |course: &&Course| {
        course.steps.iter().any(|step| {
            matches!(&step.action, Action::Cluster(ClusterAction::Cordon { .. } | ClusterAction::Evict { .. }))
        })
    };
    let now = draft.courses.iter().filter(empties).flat_map(|course| &course.nodes);
    let later = draft.held.iter().filter(|held| held.waiting_on.is_part_of_it());
    now.chain(later.flat_map(|held| &held.disruption.nodes)).cloned().collect()
}

/// What all nodes offer once the plan is done, and the pods that stay on them, the most important first.
fn offered<'a>(view: &View<'a>, emptied: &BTreeSet<NodeName>) -> (Amounts, Vec<&'a PodSeen>) {
    let (mut offered, mut stays) = (Amounts::new(), Vec::<&PodSeen>::new());
    let mut offer = |allocatable: &Amounts| {
        for (name, amount) in allocatable.iter().filter(|(name, _)| is_accelerator(name)) {
            *offered.entry(name.clone()).or_default() += amount;
        }
    };
    let head = &view.input.ledger.head;
    let is_kept = |node: &NodeName| head.quarantined.contains_key(node) || head.drains.contains_key(node);
    for (pool, slot) in view.slots() {
        let comes = slot.node.is_none_or(|(node, _)| emptied.contains(node) && !is_kept(node));
        if let Some((_, laid_out)) = layout::wanted(view, pool, slot).filter(|_| comes) {
            offer(&laid_out.allocatable);
        }
    }
    let is_open = |node: &NodeSeen| node.ready && !node.unschedulable;
    let nodes = view.input.observed.cluster.nodes.seen().iter();
    for (name, node) in nodes.filter(|(name, node)| is_open(node) && !emptied.contains(*name)) {
        offer(&node.allocatable);
        stays.extend(view.harm.pods_on(name).iter().filter(|pod| accelerators(pod).next().is_some()));
    }
    stays.sort_by_key(|pod| Reverse(pod.priority));
    (offered, stays)
}

/// Gives every pod a place, the most important first, beside those that stay and that it cannot push away. By service.
fn moved<'a>(pods: &[&'a PodSeen], stays: Vec<&PodSeen>, mut free: Amounts) -> BTreeMap<String, Moved<'a>> {
    let mut stays = stays.into_iter().peekable();
    let mut found: BTreeMap<String, Moved<'a>> = BTreeMap::new();
    for pod in pods {
        while let Some(stayed) = stays.next_if(|stayed| stayed.priority >= pod.priority) {
            take(&mut free, stayed);
        }
        let begin = || Moved { from: pod.node.as_ref(), pods: 0, homeless: 0, lacks: None };
        let moved = found.entry(service(pod)).or_insert_with(begin);
        moved.pods += 1;
        match accelerators(pod).find(|(name, amount)| free.get(*name).is_none_or(|left| left < *amount)) {
            Some((name, amount)) => (moved.homeless, moved.lacks) = (moved.homeless + 1, Some((name, *amount))),
            None => take(&mut free, pod),
        }
    }
    found
}

fn take(free: &mut Amounts, pod: &PodSeen) {
    for (name, amount) in accelerators(pod) {
        *free.entry(name.clone()).or_default() -= amount;
    }
}

fn accelerators(pod: &PodSeen) -> impl Iterator<Item = (&ResourceName, &i64)> {
    pod.requests.iter().filter(|(name, amount)| **amount > 0 && is_accelerator(name))
}

/// What makes a pod again, by the pod's name: a controller puts a word of its own behind its name.
fn service(pod: &PodSeen) -> String {
    let name = &*pod.name.name;
    let stem = name.rsplit_once('-').map_or(name, |(stem, _)| stem);
    format!("{}/{stem}", pod.name.namespace)
}
