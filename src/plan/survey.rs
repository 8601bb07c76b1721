//! What stands on a node, how each of it leaves when the node is emptied, and everything that is in the way.
//!
//! A plan says the first thing that it waits on; a person who is about to empty a node wants all of them. The rules are
//! those of [`super::drain`], asked for every pod. Called by whoever shows a drain before it is begun.

use std::collections::BTreeMap;

use super::came;
use super::drain::{Allowance, Load, Pressure, load, local_data, promised, saving, two_budgets, unmanaged};
use super::harm::{Gang, gang_of};
use super::types::{GangHit, PlanInput, WaitingOn};
use super::view::{SlotView, View};
use super::wish::wish;
use crate::fleet::tier::Signal;
use crate::ids::{NamespacedName, NodeName, SlotId, Uid};
use crate::observed::{Keeper, PodSeen};

/// A pod on the node.
#[derive(Clone, PartialEq, Debug)]
pub struct Guest {
    pub pod: NamespacedName,
    pub way: Way,
    /// Nobody makes it again.
    pub unmanaged: bool,
    /// Its data goes with it.
    pub local_data: bool,
    /// The disruption budgets that select it, with how many evictions each allows now.
    pub budgets: Vec<(NamespacedName, i32)>,
    pub in_the_way: Vec<WaitingOn>,
}

/// How a pod leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Way {
    /// It belongs to the node: of a DaemonSet, or the kubelet's own.
    Stays(Keeper),
    Ended,
    /// Told to go already, by whomever.
    Leaving,
    /// With its whole workload, through the queue; asked to save its work where its tier says so.
    Suspended {
        gang: GangHit,
        asked: bool,
    },
    /// Through the eviction API, with its gang if it has one.
    Evicted {
        gang: Option<GangHit>,
        asked: bool,
    },
}

/// Every pod on a node, by its name, if the node were emptied now: for a person, or for what its slot needs.
pub fn survey(input: &PlanInput, node: &NodeName) -> Vec<Guest> {
    let view = View::new(input);
    let found = view.slots().find(|(_, slot)| slot.node.is_some_and(|(name, _)| name == node));
    let wanted = found.and_then(|(pool, slot)| wish(&view, pool, slot));
    let slot = found.map(|(_, slot)| slot);
    let moves_work = Pressure { moves_work: true, ..Pressure::default() };
    let pressure = wanted.map_or(moves_work, |wish| wish.pressure());
    let load = load(&view, node);
    let short = short(&view, &load);
    let on_it = input.observed.cluster.pods.seen().iter().filter(|pod| pod.node.as_ref() == Some(node));
    let mut guests: Vec<Guest> = on_it.map(|pod| guest(&view, slot, pod, pressure, &short)).collect();
    guests.sort_by(|a, b| a.pod.cmp(&b.pod));
    guests
}

/// The slot that a node serves, if it serves one.
pub fn slot_of(input: &PlanInput, node: &NodeName) -> Option<SlotId> {
    let view = View::new(input);
    let found = view.slots().find(|(_, slot)| slot.node.is_some_and(|(name, _)| name == node));
    found.map(|(_, slot)| slot.id.clone())
}

fn guest(
    view: &View<'_>,
    slot: Option<&SlotView<'_>>,
    pod: &PodSeen,
    pressure: Pressure,
    short: &BTreeMap<&Uid, NamespacedName>,
) -> Guest {
    let way = way(view, pod, pressure);
    let mut in_the_way: Vec<WaitingOn> = slot.and_then(|slot| came::back_on(slot, pod)).into_iter().collect();
    match &way {
        Way::Stays(_) | Way::Ended | Way::Leaving => {}
        Way::Suspended { .. } => {
            let until = view.harm.workload(pod).and_then(|workload| promised(view, workload, pressure));
            in_the_way.extend(until.map(|at| WaitingOn::until(at, "its tier promises it a minimum runtime")));
        }
        Way::Evicted { .. } => {
            // A gang goes whole: what keeps one of it keeps all.
            let together = gang_of(pod).map_or_else(|| vec![pod], |gang| view.harm.pods_of(gang).to_vec());
            for one in together {
                let checks = [two_budgets(one, pressure), unmanaged(one, pressure), local_data(one, pressure)];
                in_the_way.extend(checks.into_iter().flatten());
            }
            in_the_way.extend(short.get(&pod.uid).cloned().map(WaitingOn::DisruptionBudget));
        }
    }
    let allowed = |name: &NamespacedName| view.input.observed.cluster.budgets.seen().get(name).map(|one| one.allowed);
    let budgets = pod.budgets.iter().map(|name| (name.clone(), allowed(name).unwrap_or(0))).collect();
    let (unmanaged, local_data) = (pod.keeper == Keeper::Nobody, pod.empty_dir);
    Guest { pod: pod.name.clone(), way, unmanaged, local_data, budgets, in_the_way }
}

fn way(view: &View<'_>, pod: &PodSeen, pressure: Pressure) -> Way {
    if matches!(pod.keeper, Keeper::DaemonSet | Keeper::Mirror) {
        return Way::Stays(pod.keeper);
    }
    if !pod.counts() {
        return Way::Ended;
    }
    let workload = view.harm.workload(pod);
    if pod.terminating.is_some() || workload.is_some_and(|found| !found.active || found.evicted) {
        return Way::Leaving;
    }
    let gang = || view.harm.hit(&[pod]).gangs.into_iter().next();
    match (workload, pod.workload.as_ref().and_then(|uid| view.harm.hit_workload(uid).gangs.into_iter().next())) {
        (Some(workload), Some(gang)) => {
            let checkpoint = view.harm.tier_of(workload).and_then(|(_, tier)| tier.checkpoint.as_ref());
            let is_hard = pressure.hard_at.is_some_and(|hard_at| view.now >= hard_at);
            let asked = checkpoint.is_some_and(|one| one.signal == Signal::Annotation) && !is_hard;
            Way::Suspended { gang, asked }
        }
        _ => {
            let is_hard = pressure.hard_at.is_some_and(|hard_at| view.now >= hard_at);
            let asked = !is_hard && !saving(view, &[pod]).is_empty();
            Way::Evicted { gang: gang(), asked }
        }
    }
}

/// The budget that has not enough for each pod that would be evicted, after those before it took their part.
fn short<'a>(view: &View<'a>, load: &Load<'a>) -> BTreeMap<&'a Uid, NamespacedName> {
    let mut allowance = Allowance::default();
    let of = |gang: &Gang<'a>| view.harm.pods_of(*gang).to_vec();
    let groups = load.gangs.iter().map(of).chain(load.singles.iter().map(|pod| vec![*pod]));
    let mut short = BTreeMap::new();
    for group in groups {
        let going: Vec<&PodSeen> = group.iter().copied().filter(|pod| pod.terminating.is_none()).collect();
        if let Some(budget) = allowance.take(view, None, &going) {
            short.extend(group.into_iter().map(|pod| (&pod.uid, budget.clone())));
        }
    }
    short
}
