//! Where the nodes of each pool are: every slot in exactly one state.

use std::collections::{BTreeMap, BTreeSet};

use super::status::{LayoutCount, PoolStatus};
use crate::effect::marks::{CORDON, MIG_CONFIG, PLUGIN_CONFIG, is_starting};
use crate::effect::{Fact, LaidOut, Slot, Verdict, allocatable_is};
use crate::fleet::target::{PoolTarget, Purpose};
use crate::ids::{InstanceId, NodeName, PoolName};
use crate::observed::NodeSeen;
use crate::plan::PlanInput;
use crate::plan::anew::Unanswered;
use crate::plan::view::LISTED_WITHIN;

/// Nodes by the instance that they run on.
pub type ByInstance<'a> = BTreeMap<&'a InstanceId, (&'a NodeName, &'a NodeSeen)>;

enum State {
    Ready,
    Draining,
    Closed,
    Cordoned,
    Launching,
    Unready,
    Missing,
}

pub fn pools(input: &PlanInput) -> Vec<PoolStatus> {
    let by_instance = by_instance(input);
    let pods = input.observed.cluster.pods.seen().iter().filter(|pod| pod.counts());
    let busy: BTreeSet<&NodeName> = pods.filter_map(|pod| pod.node.as_ref()).collect();
    input.target.pools.iter().map(|(name, target)| pool(input, name, target, &by_instance, &busy)).collect()
}

fn pool(
    input: &PlanInput,
    name: &PoolName,
    target: &PoolTarget,
    by_instance: &ByInstance<'_>,
    busy: &BTreeSet<&NodeName>,
) -> PoolStatus {
    let shape = input.target.standing.pools.get(name).map(|spec| &spec.shape);
    let spares = target.parts.iter().filter(|part| part.purpose == Purpose::Spare).map(|part| part.nodes).sum();
    let mut status = PoolStatus {
        pool: name.clone(),
        instance_type: shape.map(|shape| shape.instance_type.to_string()).unwrap_or_default(),
        gpus_per_node: shape.map_or(0, |shape| shape.gpus),
        wanted: target.nodes,
        ready: 0,
        draining: 0,
        closed: 0,
        cordoned: 0,
        launching: 0,
        unready: 0,
        missing: 0,
        surplus: 0,
        leaving: 0,
        spares,
        layouts: BTreeMap::new(),
    };
    let none = Slot::default();
    let known = input.ledger.pools.get(name);
    let slots = known.map(|pool| &pool.slots);
    for part in &target.parts {
        status.layouts.entry(part.layout.clone()).or_default().wanted += part.nodes;
    }
    let seats = input.seats(name);
    let beyond = slots.iter().flat_map(|slots| slots.range(target.nodes..)).map(|(index, _)| *index);
    for index in (0..target.nodes).chain(beyond) {
        let slot = slots.and_then(|slots| slots.get(&index)).unwrap_or(&none);
        if seats.part(target, index).is_none() {
            let is_marked = |(_, node): (&NodeName, &NodeSeen)| node.annotation(CORDON).is_some();
            status.surplus += u32::from(is_there(input, slot, by_instance));
            status.leaving += u32::from(node_of(input, slot, by_instance).is_some_and(is_marked));
        } else {
            let node = node_of(input, slot, by_instance);
            *match state(input, slot, node, busy) {
                State::Ready => &mut status.ready,
                State::Draining => &mut status.draining,
                State::Closed => &mut status.closed,
                State::Cordoned => &mut status.cordoned,
                State::Launching => &mut status.launching,
                State::Unready => &mut status.unready,
                State::Missing => &mut status.missing,
            } += 1;
            if let Some((node, _)) = node {
                count_cut(input, name, node, &mut status.layouts);
            }
        }
    }
    status
}

pub fn by_instance(input: &PlanInput) -> ByInstance<'_> {
    let nodes = input.observed.cluster.nodes.seen().iter();
    nodes.filter_map(|(name, node)| Some((node.instance.as_ref()?, (name, node)))).collect()
}

pub fn node_of<'a>(
    input: &'a PlanInput,
    slot: &Slot,
    by_instance: &ByInstance<'a>,
) -> Option<(&'a NodeName, &'a NodeSeen)> {
    match (&slot.node, &slot.instance) {
        (Some(name), _) => input.observed.cluster.nodes.seen().get_key_value(name),
        (None, Some(instance)) => by_instance.get(instance).copied(),
        (None, None) => None,
    }
}

fn is_there(input: &PlanInput, slot: &Slot, by_instance: &ByInstance<'_>) -> bool {
    let instance = slot.instance.as_ref().and_then(|id| input.observed.cloud.instances.seen().get(id));
    instance.is_some_and(|seen| seen.state.is_live()) || node_of(input, slot, by_instance).is_some()
}

fn state(input: &PlanInput, slot: &Slot, node: Option<(&NodeName, &NodeSeen)>, busy: &BTreeSet<&NodeName>) -> State {
    let instance = slot.instance.as_ref().and_then(|id| input.observed.cloud.instances.seen().get(id));
    let head = &input.ledger.head;
    // Somebody wants it empty, and it is: nothing more comes until they have what they wanted.
    let is_kept = |name: &NodeName| head.quarantined.contains_key(name) || head.drains.contains_key(name);
    let is_empty = |name: &NodeName| !busy.contains(name) && input.observed.cluster.pods.whole().is_some();
    let was_kept = |name: &NodeName, node: &NodeSeen| Unanswered::of(input, name, node).is_some();
    let is_kept = |name: &NodeName, node: &NodeSeen| is_kept(name) || was_kept(name, node);
    if let Some((name, _)) = node.filter(|(name, node)| node.annotation(CORDON).is_some() && is_kept(name, node))
        && is_empty(name)
    {
        return State::Closed;
    }
    match node.map(|(_, node)| node) {
        Some(node) if node.annotation(CORDON).is_some() => State::Draining,
        // It registers closed, and serves once it is cut, labelled and admitted.
        Some(node) if is_starting(node) => State::Launching,
        Some(node) if !node.ready => State::Unready,
        Some(node) if node.unschedulable => State::Cordoned,
        Some(_) => State::Ready,
        None if instance.is_some_and(|seen| seen.state.serves()) => State::Launching,
        // A fresh instance may be hidden for a while; the ledger says since when one is really missing.
        None if slot.instance.is_some() && instance.is_none() && may_be_listed(input, slot) => State::Launching,
        None if slot.intent.is_some() => State::Launching,
        None => State::Missing,
    }
}

/// Whether an instance that is not listed may only be new. The plan waits so long too.
fn may_be_listed(input: &PlanInput, slot: &Slot) -> bool {
    let is_new = slot.launched.is_some_and(|at| input.now.duration_since(at) <= LISTED_WITHIN);
    slot.missing_since.is_none() && is_new
}

/// Counts a node for the layout that it shows, if it shows one that the pool knows.
fn count_cut(
    input: &PlanInput,
    pool: &PoolName,
    node: &NodeName,
    counts: &mut BTreeMap<crate::ids::LayoutName, LayoutCount>,
) {
    let Some(objects) = input.desired.pools.get(pool) else { return };
    let seen = input.observed.cluster.nodes.seen().get(node);
    // A node that nobody ever cut, and that shows what is wanted as it is, is cut so.
    let untouched = |key: &str| seen.is_some_and(|seen| seen.labels.get(key).is_none_or(|is| is == "all-disabled"));
    let never_cut = untouched(MIG_CONFIG) && untouched(PLUGIN_CONFIG);
    let is = |laid_out: &LaidOut| {
        let fact = Fact::LaidOut { node: node.clone(), laid_out: laid_out.clone() };
        let shows = seen.is_some_and(|seen| allocatable_is(&seen.allocatable, laid_out));
        (never_cut && shows) || fact.verdict(&input.observed, input.now) == Verdict::Holds
    };
    if let Some((layout, _)) = objects.layouts.iter().find(|(_, laid_out)| is(laid_out)) {
        counts.entry(layout.clone()).or_default().cut += 1;
    }
}
