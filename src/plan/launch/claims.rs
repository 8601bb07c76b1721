//! Nodes that are there already: which of them a pool may claim, and in which order.
//!
//! A node that carries the label of a pool was claimed once, by whoever wrote it. Where no slot remembers it (the ledger was
//! lost, or the pool was forgotten), the label is what is left to go by: it is its own pool's first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::effect::marks::{CORDON, POOL, SLOT, is_starting};
use crate::effect::{PoolLedger, Slot};
use crate::fleet::policy::ConditionStatus;
use crate::fleet::pool::Source;
use crate::ids::{NodeName, PoolName};
use crate::observed::{NodeSeen, ObjectKind};
use crate::plan::layout::{misfit, misfit_words};
use crate::plan::view::{LISTED_WITHIN, PoolView, SlotView, View};

#[derive(Debug)]
pub struct Claimable {
    pub free: VecDeque<NodeName>,
    /// The same, to be asked whether it is one of them.
    pub all: BTreeSet<NodeName>,
    /// The slot of this pool that a node says it is in, of those that carry its label.
    pub says: BTreeMap<NodeName, u32>,
    /// One that carries the labels and is not what the pool asks for, in words.
    pub misfit: Option<String>,
}

/// The pools whose label a node may carry that a pool claims: its own; the one that it was called before; one that was
/// forgotten; one that has all its nodes, so that it had its chance. A label that another fleet's flavor names, or that nobody here knows, is somebody else's.
pub fn wearable(view: &View<'_>, pool: &PoolView<'_>) -> BTreeSet<PoolName> {
    let foreign = foreign(view);
    let known = view.input.ledger.pools.iter();
    let is_gone =
        |name: &PoolName, known: &PoolLedger| !known.is_something() && !view.input.target.pools.contains_key(name);
    let gone = known.filter(|(name, known)| is_gone(name, known)).map(|(name, _)| name);
    let full = view.pools.values().filter(|other| !lacks(other)).map(|other| other.name);
    let all = gone.chain(full).chain([pool.name]).chain(former(view, pool));
    all.filter(|name| !foreign.contains(name.as_str())).cloned().collect()
}

/// The name that a pool had, where nobody else has it by now: the labels of its nodes may still say it.
fn former<'v>(view: &'v View<'_>, pool: &PoolView<'v>) -> Option<&'v PoolName> {
    let is_free = |name: &&PoolName| {
        let is_remembered = view.input.ledger.pools.get(*name).is_some_and(PoolLedger::is_something);
        !view.input.target.pools.contains_key(*name) && !is_remembered
    };
    pool.target.renamed_from.as_ref().filter(is_free)
}

/// Whether a pool could still claim a node that carries its label.
fn lacks(pool: &PoolView<'_>) -> bool {
    let is_empty = |slot: &SlotView<'_>| slot.part.is_some() && !slot.record.is_some_and(Slot::is_something);
    pool.spec.capacity.iter().any(|source| matches!(source, Source::Existing { .. })) && pool.slots.iter().any(is_empty)
}

/// The labels of pools that only flavors of somebody else name: two fleets of a cluster may call a pool the same.
fn foreign<'a>(view: &View<'a>) -> BTreeSet<&'a str> {
    let objects = view.input.observed.cluster.objects.seen().iter();
    let flavors = objects.filter(|(key, _)| key.kind == ObjectKind::ResourceFlavor);
    let named = flavors.filter_map(|(_, seen)| Some((seen.body["spec"]["nodeLabels"][POOL].as_str()?, &seen.written)));
    let (ours, others): (Vec<_>, Vec<_>) = named.partition(|(_, written)| written.is_some());
    let others = others.into_iter().map(|(name, _)| name);
    others.filter(|name| !ours.iter().any(|(own, _)| own == name)).collect()
}

/// Whether what a node carries of ours lets a pool claim it that may wear these labels.
pub fn may_have(view: &View<'_>, wearable: &BTreeSet<PoolName>, node: &NodeSeen) -> bool {
    let Some(worn) = node.labels.get(POOL) else { return true };
    // Whoever closed it opens it first; and a machine says itself which slot it is.
    let is_closed = node.annotation(CORDON).is_some() || is_starting(node);
    wearable.contains(worn.as_str()) && !is_closed && !may_be_launched(view, node)
}

/// Whether a node may be a machine that some fleet launched: it is adopted by its tag. What was just launched may not be
/// listed yet.
fn may_be_launched(view: &View<'_>, node: &NodeSeen) -> bool {
    let Some(id) = &node.instance else { return false };
    let instances = &view.input.observed.cloud.instances;
    let is_new = view.now.duration_since(node.created) <= LISTED_WITHIN;
    match instances.seen().get(id) {
        Some(found) => found.tag.is_some(),
        None => instances.gap().is_some() || is_new,
    }
}

/// Nodes with these labels that serve nobody, as far as what they carry says.
fn labelled<'a>(
    view: &View<'a>,
    wearable: &BTreeSet<PoolName>,
    labels: &BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a NodeName, &'a NodeSeen)> {
    let carries = |node: &NodeSeen| labels.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let nodes = view.input.observed.cluster.nodes.seen().iter();
    nodes.filter(move |(_, node)| carries(node) && may_have(view, wearable, node))
}

/// Those of them that are what the pool asks for: its own first, then those that show what it asks of a node that serves,
/// then those that nobody uses, then by name.
pub fn claimable(view: &View<'_>, pool: &PoolView<'_>, labels: &BTreeMap<String, String>) -> Claimable {
    let (quarantined, drains) = (&view.input.ledger.head.quarantined, &view.input.ledger.head.drains);
    let wearable = wearable(view, pool);
    let nodes = labelled(view, &wearable, labels).filter(|(name, node)| {
        node.ready
            && !node.unschedulable
            && misfit(pool, node).is_none()
            && !quarantined.contains_key(*name)
            && !drains.contains_key(*name)
    });
    let conditions = crate::plan::health::admission(view, pool);
    let shows = |node: &NodeSeen, kind: &String| {
        node.conditions.get(kind).is_some_and(|seen| seen.status == ConditionStatus::True)
    };
    let names: Vec<&PoolName> = [pool.name].into_iter().chain(former(view, pool)).collect();
    let is_own =
        |node: &NodeSeen| node.labels.get(POOL).is_some_and(|worn| names.iter().any(|name| worn == name.as_str()));
    let mut says = BTreeMap::new();
    let nodes = nodes.map(|(name, node)| {
        let slot = node.labels.get(SLOT).filter(|_| is_own(node)).and_then(|slot| slot.parse::<u32>().ok());
        says.extend(slot.map(|slot| (name.clone(), slot)));
        let is_admitted = conditions.iter().all(|kind| shows(node, kind));
        (!is_own(node), !is_admitted, !view.harm.pods_on(name).is_empty(), name)
    });
    let mut free: Vec<(bool, bool, bool, &NodeName)> = nodes.collect();
    free.sort_unstable();
    let words = |(name, node): (&NodeName, &NodeSeen)| Some(misfit_words(pool, name, misfit(pool, node)?));
    let misfit = labelled(view, &wearable, labels).find_map(words);
    let free: VecDeque<NodeName> = free.into_iter().map(|(_, _, _, name)| name.clone()).collect();
    Claimable { all: free.iter().cloned().collect(), free, says, misfit }
}
