//! Nodes that are there already: which of them a pool may claim, and in which order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::effect::marks::POOL;
use crate::fleet::policy::ConditionStatus;
use crate::ids::NodeName;
use crate::observed::NodeSeen;
use crate::plan::layout::{misfit, misfit_words};
use crate::plan::view::{PoolView, View};

#[derive(Debug)]
pub struct Claimable {
    pub free: VecDeque<NodeName>,
    /// The same, to be asked whether it is one of them.
    pub all: BTreeSet<NodeName>,
    /// One that carries the labels and is not what the pool asks for, in words.
    pub misfit: Option<String>,
}

/// Nodes with these labels that serve nobody's pool.
fn labelled<'a>(
    view: &View<'a>,
    labels: &BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a NodeName, &'a NodeSeen)> {
    let carries = |node: &NodeSeen| labels.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let nodes = view.input.observed.cluster.nodes.seen().iter();
    nodes.filter(move |(_, node)| !node.labels.contains_key(POOL) && carries(node))
}

/// Those of them that are what the pool asks for: those first that show what it asks of a node that serves, then those
/// that nobody uses, then by name.
pub fn claimable(view: &View<'_>, pool: &PoolView<'_>, labels: &BTreeMap<String, String>) -> Claimable {
    let (quarantined, drains) = (&view.input.ledger.head.quarantined, &view.input.ledger.head.drains);
    let nodes = labelled(view, labels).filter(|(name, node)| {
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
    let nodes = nodes.map(|(name, node)| {
        let is_admitted = conditions.iter().all(|kind| shows(node, kind));
        (!is_admitted, !view.harm.pods_on(name).is_empty(), name)
    });
    let mut free: Vec<(bool, bool, &NodeName)> = nodes.collect();
    free.sort_unstable();
    let words = |(name, node): (&NodeName, &NodeSeen)| Some(misfit_words(pool, name, misfit(pool, node)?));
    let misfit = labelled(view, labels).find_map(words);
    let free: VecDeque<NodeName> = free.into_iter().map(|(_, _, name)| name.clone()).collect();
    Claimable { all: free.iter().cloned().collect(), free, misfit }
}
