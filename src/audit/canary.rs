//! Nodes that go first: until so many of a pool have served on the new version for as long as it says, no more are on
//! it, or on their way to it because somebody chose that. Nor are they while one is kept out of service since before
//! that.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::Found;
use super::case::Case;
use super::updates::groups;
use crate::effect::marks::{CORDON, Mark, is_starting};
use crate::effect::{Action, CloudAction, ClusterAction, LaidOut, Treated, allocatable_is};
use crate::fleet::policy::Remedy;
use crate::fleet::updates::Canary;
use crate::ids::{NodeName, PoolName, SlotId};
use crate::observed::NodeSeen;
use crate::plan::Reason;

const CANARY: &str = "the canary serves first";

const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

/// What of a node is new: what it was launched from, or how it is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Template,
    Cut,
}

/// What was begun is finished, with all that a gang ties to it: half a change is worse than either end.
pub fn serves_first(case: &Case<'_>, found: &mut Found) {
    for (pool, spec) in &case.standing().pools {
        let Some(canary) = &spec.updates.canary else { continue };
        for version in [Version::Template, Version::Cut] {
            let (begun, chosen) = (begun(case, pool, version), chosen(case, pool, version));
            let first = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
            let has_served = |by: Timestamp| served(case, pool, version, canary, by) >= first;
            let is_proven = || has_served(case.now()) && kept_out(case, pool, version).into_iter().all(has_served);
            if chosen.is_subset(&begun) || is_proven() {
                continue;
            }
            let all: BTreeSet<&NodeName> = begun.union(&chosen).copied().collect();
            let (goes_on, fresh): (Vec<_>, Vec<_>) =
                groups(case, &all).into_iter().partition(|group| !group.is_disjoint(&begun));
            let index = |node: &&NodeName| case.slot_of_node(node).map(|slot| slot.index);
            let moving: BTreeSet<u32> =
                goes_on.iter().flatten().filter_map(index).chain(away(case, pool, version)).collect();
            let known: BTreeSet<u32> = tried(case, pool, version).into_iter().chain(moving.iter().copied()).collect();
            let all = known.len() + fresh.iter().flatten().filter_map(index).filter(|one| !known.contains(one)).count();
            // A gang has no smaller part, so one that is wider goes where nothing else moves.
            let is_one_gang = known.len() < first && moving.is_empty() && fresh.len() == 1;
            if !fresh.is_empty() && all > first && !is_one_gang {
                let what = format!(
                    "{all} nodes of pool {pool} would be on a new version, and its canary of {first} has not served"
                );
                found.plan(CANARY, what);
            }
        }
    }
}

/// The nodes of a pool that this plan sends to a new version because somebody chose it. A node that is sick, or that
/// the cloud takes, is nobody's choice.
fn chosen<'a>(case: &Case<'a>, pool: &PoolName, version: Version) -> BTreeSet<&'a NodeName> {
    let sent = case.each().filter_map(|(at, step)| {
        let reason = case.reason(at);
        let by_choice = match version {
            Version::Template => {
                let on_the_way = matches!(reason, Reason::Lent { .. } | Reason::Sick { remedy: Remedy::Reboot, .. });
                on_the_way || matches!(reason, Reason::Outdated | Reason::Overfull { .. } | Reason::Layout { .. })
            }
            Version::Cut => matches!(reason, Reason::Layout { .. }),
        };
        match (&step.action, version) {
            _ if !by_choice => None,
            (Action::Cluster(ClusterAction::Cordon { node, mark }), _) if mark.why == version.why() => Some(node),
            (Action::Cloud(CloudAction::Terminate { instance, .. }), Version::Template) => case.node_of(instance),
            (Action::Cluster(ClusterAction::Cut { node, .. }), Version::Cut) => Some(node),
            _ => None,
        }
    });
    sent.filter(|node| is_to_move(case, pool, node, version)).collect()
}

/// The nodes of a pool that are on their way to a new version by an earlier plan.
fn begun<'a>(case: &Case<'a>, pool: &PoolName, version: Version) -> BTreeSet<&'a NodeName> {
    let nodes = case.seen().cluster.nodes.seen().iter();
    let marked = nodes.filter(|(_, node)| mark(node).is_some_and(|mark| mark.why == version.why()));
    marked.map(|(name, _)| name).filter(|name| is_to_move(case, pool, name, version)).collect()
}

/// Whether a node serves a slot of the pool that is wanted, and is not on the new version. One that was never let in has
/// had no other cut.
fn is_to_move(case: &Case<'_>, pool: &PoolName, node: &NodeName, version: Version) -> bool {
    let slot = case.slot_of_node(node).filter(|slot| slot.pool == *pool && case.part(slot).is_some());
    slot.is_some_and(|slot| match version {
        Version::Template => !is_launched_so(case, slot),
        Version::Cut => {
            let is_new = case.node(node).is_some_and(is_starting);
            own_cut(case, slot).is_some() && !is_cut_so(case, slot, node) && !is_new
        }
    })
}

impl Version {
    /// The word in the mark of a node that is on its way.
    fn why(self) -> &'static str {
        match self {
            Self::Template => "replace",
            Self::Cut => "cut",
        }
    }
}

fn mark(node: &NodeSeen) -> Option<Mark> {
    node.annotation(CORDON).map(Mark::parse)
}

/// Slots whose node went by choice within the hour, and that have no other yet: the next one is of the new version.
fn away(case: &Case<'_>, pool: &PoolName, version: Version) -> Vec<u32> {
    let Some(remembered) = case.pool_ledger(pool).filter(|_| version == Version::Template) else { return Vec::new() };
    let recent = remembered.removed.iter().filter(|(_, at)| case.now().duration_since(*at) < AN_HOUR);
    let wanted = case.input.desired.pools.get(pool).map(|wanted| &wanted.template.digest);
    let is_empty = |index: &u32| {
        let slot = remembered.slots.get(index);
        let lives =
            slot.and_then(|slot| case.instance(slot.instance.as_ref()?)).is_some_and(|seen| seen.state.serves());
        let asked = slot.and_then(|slot| slot.intent.as_ref()).map(|intent| &intent.request.template_digest);
        !lives && asked.is_none_or(|asked| wanted == Some(asked))
    };
    let recent = recent.map(|(index, _)| *index).filter(is_empty);
    recent.filter(|index| case.part(&SlotId::new(pool, *index)).is_some()).collect()
}

/// Slots that are wanted and have a machine of the new version, in service or not.
fn tried(case: &Case<'_>, pool: &PoolName, version: Version) -> Vec<u32> {
    let slots = case.pool_ledger(pool).into_iter().flat_map(|pool| &pool.slots);
    let slots = slots.map(|(index, slot)| (SlotId::new(pool, *index), slot));
    let slots = slots.filter(|(slot, _)| case.part(slot).is_some());
    let has = |slot: &SlotId, node: Option<&NodeName>| match version {
        Version::Template => is_launched_so(case, slot),
        Version::Cut => node.is_some_and(|node| is_cut_so(case, slot, node)),
    };
    let node =
        |slot: &crate::effect::Slot| slot.node.clone().or_else(|| case.node_of(slot.instance.as_ref()?).cloned());
    slots.filter(|(id, slot)| has(id, node(slot).as_ref())).map(|(id, _)| id.index).collect()
}

fn is_launched_so(case: &Case<'_>, slot: &SlotId) -> bool {
    let wanted = case.input.desired.pools.get(&slot.pool).map(|pool| &pool.template);
    let instance = case.ledger_slot(slot).and_then(|slot| case.instance(slot.instance.as_ref()?));
    instance.zip(wanted).is_some_and(|(seen, wanted)| {
        let is_same = seen.template.as_ref() == Some(&wanted.digest) && seen.instance_type == wanted.instance_type;
        is_same && seen.state.serves()
    })
}

/// How a pool cuts its nodes for itself, where a slot is not lent.
fn own_cut<'a>(case: &Case<'a>, slot: &SlotId) -> Option<&'a LaidOut> {
    let own = &case.pool(&slot.pool)?.layout;
    let is_own = case.part(slot).is_some_and(|part| part.layout == *own);
    case.input.desired.pools.get(&slot.pool)?.layouts.get(own).filter(|_| is_own)
}

fn is_cut_so(case: &Case<'_>, slot: &SlotId, node: &NodeName) -> bool {
    own_cut(case, slot).zip(case.node(node)).is_some_and(|(wanted, node)| {
        let is_told = wanted.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value));
        is_told && allocatable_is(&node.allocatable, wanted)
    })
}

/// When nodes of a pool were taken out of service that are on the new version, and are still out.
fn kept_out(case: &Case<'_>, pool: &PoolName, version: Version) -> Vec<Timestamp> {
    let head = &case.input.ledger.head;
    let quarantined = head.quarantined.iter().map(|(node, kept)| (node, kept.at));
    let out = quarantined.chain(head.drains.iter().map(|(node, kept)| (node, kept.at)));
    let is_on_it = |node: &NodeName| {
        let slot = case.slot_of_node(node).filter(|slot| slot.pool == *pool && case.part(slot).is_some());
        slot.is_some_and(|slot| match version {
            Version::Template => is_launched_so(case, slot),
            Version::Cut => is_cut_so(case, slot, node),
        })
    };
    out.filter(|(node, _)| is_on_it(node)).map(|(_, at)| at).collect()
}

/// How many nodes of a pool are in service on the new version, and had been by then for as long as a canary has to.
fn served(case: &Case<'_>, pool: &PoolName, version: Version, canary: &Canary, by: Timestamp) -> usize {
    let head = &case.input.ledger.head;
    let serves = |name: &NodeName, node: &NodeSeen| {
        let is_kept_out = head.quarantined.contains_key(name) || head.drains.contains_key(name);
        node.ready && !node.unschedulable && !is_starting(node) && mark(node).is_none() && !is_kept_out
    };
    let long_enough = |since: Timestamp| by.duration_since(since) >= canary.r#for.signed();
    let nodes = case.seen().cluster.nodes.seen().iter().filter(|(name, node)| serves(name, node));
    let of_pool = nodes.filter_map(|(name, node)| Some((name, node, case.slot_of_node(name)?)));
    let of_pool = of_pool.filter(|(_, _, slot)| slot.pool == *pool && case.part(slot).is_some());
    let has = |node: &NodeSeen, slot: &SlotId| match version {
        Version::Template => is_launched_so(case, slot),
        Version::Cut => own_cut(case, slot).is_some_and(|wanted| allocatable_is(&node.allocatable, wanted)),
    };
    let of_version = of_pool.filter(|(_, node, slot)| has(node, slot));
    // A day in quarantine is no day in service, and nobody knows yet since when one serves again that was closed by hand.
    let back = |name: &NodeName| match head.unwatched.contains_key(name) {
        true => case.now(),
        false => head.returned.get(name).copied().unwrap_or(Timestamp::MIN),
    };
    let since = |name: &NodeName, node: &NodeSeen, slot: &SlotId| since(case, node, slot, version).max(back(name));
    of_version.filter(|(name, node, slot)| long_enough(since(name, node, slot))).count()
}

/// Since when a node can have served as it is: it joined, last came to answer, and was last told to be cut.
fn since(case: &Case<'_>, node: &NodeSeen, slot: &SlotId, version: Version) -> Timestamp {
    let launched = node.instance.as_ref().and_then(|id| case.instance(id)).map(|seen| seen.launched);
    let orders = case.ledger_slot(slot).into_iter().flat_map(|slot| &slot.remedies);
    let is_order = |one: &&Treated| one.remedy == Remedy::Report && !one.is_report();
    let orders = orders.filter(|one| version == Version::Cut && is_order(one)).map(|one| one.at);
    orders.chain(launched).chain(node.ready_since).fold(node.created, Timestamp::max)
}
