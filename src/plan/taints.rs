//! When a taint may be put on a node: new work has to tolerate it first, and other work to have ended.
//!
//! A flavor says what its work tolerates, and the server lets nobody change that: for another taint the pool gets another
//! flavor (`compile::renewed`), which its queues list from then on. Until they do, the taint would shut the pool to all
//! new work; and a pod of the old flavor that is made again would not come back to its node. `NoExecute` ends who does
//! not tolerate it at once, past every budget: it waits until nobody such is on the node.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::objects::{stuck, written_by};
use super::serving::kept_by;
use super::steps::held;
use super::types::{PlanInput, Reason, WaitingOn, thing};
use super::view::{Body, PoolView, SlotView, View};
use crate::compile::flavors::tolerates;
use crate::effect::marks::{POOL, STARTING_TAINT};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::ids::{NodeName, PoolName};
use crate::observed::{ObjectKey, ObjectKind, ObjectSeen, PodSeen};
use crate::queue::parse::quotas;

/// What stands against the taints of each pool.
pub type Against<'a> = BTreeMap<&'a PoolName, Vec<(&'a Taint, Shut<'a>)>>;

/// Whom one taint would shut out.
#[derive(Debug, Default)]
pub struct Shut<'a> {
    /// Why no node may have it yet.
    all: Option<WaitingOn>,
    /// Work that does not tolerate it, by its nodes.
    on: BTreeMap<&'a NodeName, String>,
    /// Flavors of the pool whose work tolerates it.
    tolerant: BTreeSet<&'a str>,
}

pub fn against(input: &PlanInput) -> Against<'_> {
    let cluster = &input.observed.cluster;
    let flavors = cluster.objects.seen().iter().filter(|(key, _)| key.kind == ObjectKind::ResourceFlavor);
    let mut found = Against::new();
    for (name, pool) in &input.desired.pools {
        for taint in pool.taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule) {
            let of_pool = flavors
                .clone()
                .filter(|(_, seen)| seen.body["spec"]["nodeLabels"][POOL].as_str() == Some(name.as_str()));
            let (tolerant, others): (Vec<_>, Vec<_>) = of_pool.partition(|(_, seen)| tolerates(&seen.body, taint));
            let shut = shut(input, &names(&others));
            found.entry(name).or_default().push((taint, Shut { tolerant: names(&tolerant), ..shut }));
        }
    }
    found
}

fn names<'a>(flavors: &[(&'a ObjectKey, &ObjectSeen)]) -> BTreeSet<&'a str> {
    flavors.iter().map(|(key, _)| &*key.name).collect()
}

/// Who is on these flavors, or may come to be.
fn shut<'a>(input: &'a PlanInput, flavors: &BTreeSet<&str>) -> Shut<'a> {
    let cluster = &input.observed.cluster;
    let kinds = [ObjectKind::ResourceFlavor, ObjectKind::ClusterQueue];
    let gap = kinds.iter().find_map(|kind| cluster.gap_of(*kind)).or(cluster.workloads.gap());
    let mut shut = Shut { all: gap.cloned().map(WaitingOn::Unread), ..Shut::default() };
    if flavors.is_empty() || shut.all.is_some() {
        return shut;
    }
    let gives = |body: &serde_json::Value| {
        let borrows = body["spec"]["cohortName"].as_str().is_some_and(|name| !name.is_empty());
        quotas(body).into_iter().any(|((flavor, _), quota)| {
            flavors.contains(flavor.as_str()) && (quota.nominal > 0 || (borrows && quota.borrowing_limit != Some(0)))
        })
    };
    let mut queues = cluster.objects.seen().iter().filter(|(key, _)| key.kind == ObjectKind::ClusterQueue);
    if let Some((key, _)) = queues.find(|(_, seen)| gives(&seen.body)) {
        let wanted = input.desired.objects.iter().find(|object| object.key == *key);
        shut.all = Some(match wanted {
            Some(wanted) if !gives(&wanted.body) => {
                stuck(input, wanted).unwrap_or_else(|| WaitingOn::Step(written_by(wanted)))
            }
            _ => WaitingOn::Person(format!(
                "{} gives out {}, whose work does not tolerate it: nothing that it lets in could be placed",
                key.words(),
                flavors.iter().map(|name| format!("ResourceFlavor {name}")).collect::<Vec<_>>().join(", ")
            )),
        });
    }
    let work = cluster.workloads.seen().values().filter(|one| one.reserved.is_some() && !one.finished);
    for one in work.filter(|one| one.flavors.values().any(|flavor| flavors.contains(flavor.as_str()))) {
        // Nobody knows yet which node it will be on.
        if one.nodes.is_empty() && shut.all.is_none() {
            shut.all = Some(WaitingOn::Gang { name: one.name.to_string() });
        }
        shut.on.extend(one.nodes.keys().map(|node| (node, one.name.to_string())));
    }
    shut
}

/// What a taint that a node does not carry waits for; nothing where it may be put on now.
pub fn waits(view: &View<'_>, pool: &PoolName, node: &NodeName, taint: &Taint) -> Option<WaitingOn> {
    let (_, shut) = view.against.get(pool)?.iter().find(|(known, _)| *known == taint)?;
    if let Some(waits) = &shut.all {
        return Some(waits.clone());
    }
    if let Some(name) = shut.on.get(node) {
        return Some(WaitingOn::Gang { name: name.clone() });
    }
    if taint.effect != TaintEffect::NoExecute {
        return None;
    }
    if let Some(gap) = view.input.observed.cluster.pods.gap() {
        return Some(WaitingOn::Unread(gap.clone()));
    }
    let tolerates = |pod: &PodSeen| {
        let mut flavors = view.harm.workload(pod).into_iter().flat_map(|found| found.flavors.values());
        pod.goes_anywhere || flavors.any(|flavor| shut.tolerant.contains(flavor.as_str()))
    };
    let ended = view.harm.pods_on(node).iter().find(|pod| !tolerates(pod))?;
    Some(WaitingOn::Person(format!(
        "NoExecute would end pod {} on {node} at once, past every budget: let it end, or empty the node first \
         (tidewright drain {node}); it is tainted before it is opened again",
        ended.name
    )))
}

/// Says which taints wait, and on what.
pub fn say(view: &View<'_>, draft: &mut Draft) {
    for (name, taints) in &view.against {
        let Some(pool) = view.pools.get(*name) else { continue };
        for (taint, _) in taints {
            let waiting: Vec<_> = pool.slots.iter().filter_map(|slot| lacking(view, pool, slot, taint)).collect();
            if let Some((first, waits)) = waiting.first() {
                let wanted = format!("taint {} on {}", taint.key, some(first, waiting.len(), "", ""));
                draft.held.push(held(&thing(pool.name), wanted.trim_end(), Reason::Wanted, waits.clone()));
            }
        }
    }
}

fn lacking<'v>(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'v>,
    taint: &Taint,
) -> Option<(&'v NodeName, WaitingOn)> {
    let (node, seen) = slot.node.filter(|_| slot.body == Body::Serving && slot.part.is_some())?;
    let is_due = !seen.taints.contains(taint) && taint.key != STARTING_TAINT && kept_by(view, node).is_none();
    is_due.then(|| waits(view, pool.name, node, taint)).flatten().map(|waits| (node, waits))
}

/// The first of some nodes, and how many more, with the verb for it.
pub fn some(first: &NodeName, all: usize, one: &str, more: &str) -> String {
    match all {
        0 | 1 => format!("{first} {one}"),
        all => format!("{first} and {} more {more}", all - 1),
    }
}
