//! Where nodes hang: a level that a pool requires is never broken by a claim, and neither is the distance that pools keep.
//!
//! Places are compared as they are told (a file, labels, the cloud), two at a time and without a tree: what two nodes say
//! of a finer level speaks for the levels above it, and what they say differently of one above speaks against it.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use super::case::Case;
use super::slots::{is_resend, launches, recorded_before};
use crate::effect::marks::{GPU_COUNT, POOL};
use crate::effect::{Action, LaunchRequest, LedgerChange, Slot};
use crate::fleet::pool::Source;
use crate::fleet::standing::PlacementSpec;
use crate::ids::{HostName, NodeName, PoolName, ReservationId, SlotId};

const REQUIRED: &str = "a level that a pool requires is not broken";
const PINS: &str = "a launch names a host that is free";
const APART: &str = "pools that keep apart stay apart";

/// Where a node hangs, from the top; none where nobody says.
type Path = Vec<Option<String>>;

/// Every claim of the plan, and every machine that a slot takes for its own.
fn claims<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (usize, &'a SlotId, &'a NodeName)> + use<'c, 'a> {
    case.each().flat_map(|(at, step)| match &step.action {
        Action::Record(LedgerChange::Claimed { slot, node }) => vec![(at, slot, node)],
        Action::Record(LedgerChange::Exchange { slot, with, gives, takes }) => {
            let both = [(slot, &takes.instance), (with, gives)];
            both.into_iter().filter_map(|(slot, id)| Some((at, slot, case.node_of(id)?))).collect()
        }
        _ => Vec::new(),
    })
}

/// The slots that give their machine away with a step.
fn gives(action: &Action) -> Vec<&SlotId> {
    match action {
        Action::Record(LedgerChange::Exchange { slot, with, .. }) => vec![slot, with],
        _ => Vec::new(),
    }
}

/// The nodes of one pool.
#[derive(Default)]
struct Members {
    /// Those that it has and that no step lets go.
    stay: Vec<Path>,
    /// Those that are let go by some step.
    go: Vec<(SlotId, Path)>,
    /// Those that it gets, with the step.
    come: Vec<(usize, Path)>,
}

/// The pools that get nodes, and those that they have to do with.
fn members(case: &Case<'_>) -> BTreeMap<PoolName, Members> {
    let mut pools: BTreeSet<&PoolName> = claims(case).map(|(_, slot, _)| &slot.pool).collect();
    pools.retain(|pool| placement(case, pool).is_some() || !distances(case, pool).is_empty());
    let near: Vec<&PoolName> = pools.iter().flat_map(|pool| distances(case, pool)).map(|(other, _, _)| other).collect();
    pools.extend(near);
    let given: BTreeSet<&SlotId> = case.each().flat_map(|(_, step)| gives(&step.action)).collect();
    let lets_go = |slot: &SlotId| {
        let goes = |at: &usize| matches!(&case.steps[*at].action, Action::Record(LedgerChange::Unclaimed { .. }));
        case.on_slot(slot).iter().any(goes) || given.contains(slot)
    };
    let mut found: BTreeMap<PoolName, Members> = BTreeMap::new();
    for pool in pools {
        let own = found.entry(pool.clone()).or_default();
        for (index, known) in case.pool_ledger(pool).into_iter().flat_map(|pool| &pool.slots) {
            let Some(node) = known.node.as_ref().or_else(|| case.node_of(known.instance.as_ref()?)) else { continue };
            let slot = SlotId::new(pool, *index);
            match lets_go(&slot) {
                true => own.go.push((slot, path(case, node))),
                false => own.stay.push(path(case, node)),
            }
        }
    }
    for (at, slot, node) in claims(case) {
        if let Some(own) = found.get_mut(&slot.pool) {
            own.come.push((at, path(case, node)));
        }
    }
    found
}

/// A list from the top as a path.
fn listed(known: &[String], levels: usize) -> Path {
    let mut path: Path = known.iter().take(levels).map(|one| Some(one.clone())).collect();
    path.resize(levels, None);
    path
}

/// Whether a slot's node is certainly let go before a step.
fn is_gone(case: &Case<'_>, at: usize, slot: &SlotId) -> bool {
    gives(&case.steps[at].action).contains(&slot)
        || !recorded_before(case, at, slot, |change| matches!(change, LedgerChange::Unclaimed { .. })).is_empty()
}

fn placement<'a>(case: &Case<'a>, pool: &PoolName) -> Option<(&'a PlacementSpec, usize)> {
    let placement = case.standing().pools.get(pool)?.placement.as_ref()?;
    let level = case.standing().levels.iter().position(|level| Some(&level.name) == placement.together.as_ref())?;
    Some((placement, level))
}

fn path(case: &Case<'_>, node: &NodeName) -> Path {
    let standing = case.standing();
    let levels = standing.levels.len();
    if let Some(declared) = &standing.declared {
        return listed(declared.get(node.as_str()).map_or(&[][..], Vec::as_slice), levels);
    }
    let seen = case.node(node);
    let label = |key: &str| seen.and_then(|seen| seen.labels.get(key)).filter(|value| !value.is_empty()).cloned();
    let labels: Path = standing.levels.iter().map(|level| label(level.node_label.as_deref()?)).collect();
    if labels.iter().any(Option::is_some) {
        return labels;
    }
    let instance = seen.and_then(|seen| seen.instance.as_ref()).and_then(|id| case.instance(id));
    let network = instance.map_or(&[][..], |instance| instance.network.as_slice());
    // A level may be any of the cloud's layers, by the label that it names.
    let layer = |level: usize| network.get(layers_down_to(case, level).checked_sub(1)?);
    (0..levels).map(|level| layer(level).filter(|node| !node.is_empty()).cloned()).collect()
}

/// Whether two nodes share a domain of a level, as far as they say.
fn share(one: &Path, other: &Path, level: usize) -> bool {
    let both = || one.iter().zip(other).enumerate().filter_map(|(at, (a, b))| Some((at, a.as_ref()?, b.as_ref()?)));
    both().any(|(at, a, b)| at >= level && a == b) && both().all(|(at, a, b)| at > level || a == b)
}

/// Rather no node than one in another domain. Where the level was broken before, the claims of a plan at least agree with
/// each other.
pub fn required_level(case: &Case<'_>, found: &mut Found) {
    for (pool, own) in members(case) {
        let Some((_, level)) = placement(case, &pool).filter(|(placement, _)| placement.required) else { continue };
        let is_split = own.stay.first().is_some_and(|home| own.stay.iter().any(|other| !share(home, other, level)));
        let first = own.come.first().map(|(_, path)| path);
        let Some(home) = own.stay.first().filter(|_| !is_split).or(first) else { continue };
        for (at, path) in &own.come {
            let alone = own.stay.is_empty() && own.come.len() == 1;
            let late = own.go.iter().any(|(slot, old)| !share(old, path, level) && !is_gone(case, *at, slot));
            if (!alone && !share(home, path, level)) || (late && !is_split) {
                let level = &case.standing().levels[level].name;
                let what = format!("it is in another {level} than the rest of {pool}");
                found.step(REQUIRED, &case.steps[*at].id, what);
            }
        }
    }
}

/// The same for machines, as far as somebody knows beforehand where they will stand: by a host that is named, or by where
/// a reservation stands. Compared by the cloud's own lists, as far down as both go.
pub fn required_launches(case: &Case<'_>, found: &mut Found) {
    let mut homes: BTreeMap<&PoolName, Option<Vec<String>>> = BTreeMap::new();
    for (_, step, request) in launches(case).filter(|(_, _, request)| !is_resend(case, request)) {
        let pool = &request.slot.pool;
        let Some((_, level)) = placement(case, pool).filter(|(placement, _)| placement.required) else { continue };
        let deep = layers_down_to(case, level);
        if let Some(gap) = &case.seen().cloud.unplaced {
            found.step(REQUIRED, &step.id, format!("nobody knows where it would stand: {} was not read", gap.what));
        }
        let Some(network) = asked_to(case, request) else { continue };
        let home = homes.entry(pool).or_insert_with(|| stands(case, pool, deep));
        if home.is_none() {
            *home = network.get(..deep).map(<[String]>::to_vec);
        }
        if home.iter().any(|home| home.iter().zip(network).any(|(one, other)| one != other)) {
            let level = &case.standing().levels[level].name;
            found.step(REQUIRED, &step.id, format!("it would stand in another {level} than the rest of {pool}"));
        }
    }
}

/// Where a machine will stand that is asked for, as far as that is known.
fn asked_to<'a>(case: &Case<'a>, request: &'a LaunchRequest) -> Option<&'a [String]> {
    let host = request.host.as_ref().and_then(|name| case.seen().cloud.hosts.get(name));
    host.map(|host| host.network.as_slice()).or_else(|| inside(case, request.reservation.as_ref()?))
}

/// What all places of a reservation have in common.
fn inside<'a>(case: &Case<'a>, reservation: &ReservationId) -> Option<&'a [String]> {
    case.reservation(reservation).map(|seen| seen.network.as_slice())
}

/// How many of the cloud's network nodes a level takes from the top.
fn layers_down_to(case: &Case<'_>, level: usize) -> usize {
    let label = case.standing().levels[level].node_label.as_deref().unwrap_or_default();
    let named = label.rsplit_once("network-node-layer-").and_then(|(_, number)| number.parse().ok());
    named.unwrap_or(level + 1)
}

/// Below which network nodes all machines of a pool stand that are told of, or will stand; none where they do not agree.
/// The cloud tells it of a machine once that runs: until then what it was launched into says so.
fn stands(case: &Case<'_>, pool: &PoolName, deep: usize) -> Option<Vec<String>> {
    let slots = case.pool_ledger(pool).into_iter().flat_map(|pool| pool.slots.values());
    let network = |slot: &'_ Slot| match slot.instance.as_ref() {
        Some(id) => match case.instance(id) {
            Some(seen) if !seen.state.is_live() => None,
            Some(seen) if !seen.network.is_empty() => Some(seen.network.clone()),
            seen => {
                let reservation = seen.and_then(|seen| seen.reservation.as_ref()).or(slot.reservation.as_ref());
                Some(inside(case, reservation?)?.to_vec())
            }
        },
        None => asked_to(case, &slot.intent.as_ref()?.request).map(<[String]>::to_vec),
    };
    let mut networks = slots.filter_map(|slot| Some(network(slot)?.get(..deep)?.to_vec()));
    let first = networks.next()?;
    networks.all(|other| other == first).then_some(first)
}

/// A claim brings two pools together that were apart only where there is no other node to be had; and never where the
/// distance is required.
pub fn apart(case: &Case<'_>, found: &mut Found) {
    let all = members(case);
    for (pool, own) in &all {
        for (other, level, required) in distances(case, pool) {
            let Some(theirs) = all.get(other) else { continue };
            let there = || theirs.stay.iter().chain(theirs.go.iter().map(|(_, path)| path));
            let mine = own.stay.iter().chain(own.go.iter().map(|(_, path)| path));
            let before = Domains::of(there(), level);
            if mine.into_iter().any(|path| before.has(path)) {
                continue;
            }
            let after = Domains::of(theirs.stay.iter().chain(theirs.come.iter().map(|(_, path)| path)), level);
            for (at, path) in &own.come {
                let late = || theirs.go.iter().any(|(slot, old)| share(old, path, level) && !is_gone(case, *at, slot));
                let near = |path: &Path| after.has(path) || before.has(path);
                if (after.has(path) || late()) && (required || has_another(case, pool, near)) {
                    found.step(APART, &case.steps[*at].id, format!("it brings {pool} and {other} together"));
                }
            }
        }
    }
}

/// The domains of a level in which some nodes are.
struct Domains<'p> {
    level: usize,
    known: BTreeSet<&'p [Option<String>]>,
    /// Nodes that do not say all of it.
    others: Vec<&'p Path>,
}

impl<'p> Domains<'p> {
    fn of(paths: impl Iterator<Item = &'p Path>, level: usize) -> Self {
        let (whole, others): (Vec<&Path>, Vec<&Path>) =
            paths.partition(|path| path[..=level].iter().all(Option::is_some));
        Self { level, known: whole.into_iter().map(|path| &path[..=level]).collect(), others }
    }

    fn has(&self, path: &Path) -> bool {
        let is_whole = path[..=self.level].iter().all(Option::is_some);
        (is_whole && self.known.contains(&path[..=self.level]))
            || self.others.iter().any(|other| share(other, path, self.level))
    }
}

/// Whether a node that nobody has or gets would do for a pool, and stands elsewhere.
fn has_another(case: &Case<'_>, pool: &PoolName, near: impl Fn(&Path) -> bool) -> bool {
    let policy = case.pool(pool).and_then(|pool| case.standing().health.get(pool.health.as_ref()?));
    if policy.is_some_and(|policy| !policy.admit.is_empty()) {
        return false;
    }
    let taken: BTreeSet<&NodeName> = claims(case).map(|(_, _, node)| node).collect();
    let head = &case.input.ledger.head;
    let is_kept = |name: &NodeName| head.quarantined.contains_key(name) || head.drains.contains_key(name);
    let gpus = case.pool(pool).map(|pool| pool.shape.gpus.to_string());
    case.seen().cluster.nodes.seen().iter().any(|(name, node)| {
        let is_free = node.ready && !node.unschedulable && !node.labels.contains_key(POOL) && !taken.contains(name);
        let fits = node.labels.get(GPU_COUNT).is_none_or(|count| Some(count) == gpus.as_ref());
        let is_idle = case.pods.on(name).next().is_none() && case.slot_of_node(name).is_none();
        is_free && is_idle && fits && !is_kept(name) && carries(case, pool, name) && !near(&path(case, name))
    })
}

/// A host that a launch names is one that the cloud told of, for the same machine and place, and named once.
pub fn pins(case: &Case<'_>, found: &mut Found) {
    let mut named: BTreeSet<&HostName> = BTreeSet::new();
    for (_, step, request) in launches(case).filter(|(_, _, request)| !is_resend(case, request)) {
        let Some(name) = &request.host else { continue };
        let fits = case.seen().cloud.hosts.get(name).is_some_and(|host| {
            host.instance_type == request.instance_type
                && host.zone == request.zone
                && host.reservation == request.reservation
        });
        if !fits || !named.insert(name) {
            found.step(PINS, &step.id, format!("{name} is not free for it"));
        }
    }
}

/// Who should be apart from a pool, on which level, and whether that is an order.
fn distances<'a>(case: &Case<'a>, pool: &PoolName) -> Vec<(&'a PoolName, usize, bool)> {
    let mut found = Vec::new();
    for name in case.standing().pools.keys() {
        let Some((placement, level)) = placement(case, name) else { continue };
        for other in &placement.apart_from {
            if name == pool && other != pool {
                found.push((other, level, placement.required));
            } else if other == pool && name != pool {
                found.push((name, level, placement.required));
            }
        }
    }
    found
}

/// Whether a node has the labels that a pool claims by.
fn carries(case: &Case<'_>, pool: &PoolName, node: &NodeName) -> bool {
    let Some((seen, pool)) = case.node(node).zip(case.pool(pool)) else { return false };
    pool.capacity.iter().any(|source| match source {
        Source::Existing { labels } => labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value)),
        _ => false,
    })
}
