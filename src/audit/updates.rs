//! How running nodes move to what the documents now say: as many at once as the pool allows, when it allows, and gangs
//! only where it lets them be drained.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::Found;
use super::case::Case;
use super::evict::disturbing;
use crate::effect::marks::{CORDON, MIG_CONFIG, Mark, PLUGIN_CONFIG, is_starting};
use crate::effect::{Action, CloudAction, ClusterAction, Fact, Thing};
use crate::fleet::updates::{When, Window};
use crate::ids::{NodeName, PoolName, SlotId, WorkloadUid};
use crate::observed::{GangName, NodeSeen};
use crate::plan::Reason;
use crate::units::ZoneName;

const UNAVAILABLE: &str = "updates keep `maxUnavailable`";
const WHEN: &str = "updates disturb work only as `when` and the windows allow";
const ONCE: &str = "a gang moves once for an update";

const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

fn is_update(reason: &Reason) -> bool {
    matches!(reason, Reason::Outdated | Reason::Overfull { .. } | Reason::Layout { .. } | Reason::Fabric { .. })
}

/// Whether somebody here chose it, and it takes of what a pool lets be out: an update, or a node that is left before the cloud
/// takes it.
fn is_chosen(reason: &Reason) -> bool {
    is_update(reason) || matches!(reason, Reason::Recommended { .. })
}

/// Whether nobody ever said how this node is cut.
fn is_uncut(node: &NodeSeen) -> bool {
    [MIG_CONFIG, PLUGIN_CONFIG].iter().all(|key| node.labels.get(*key).is_none_or(|cut| cut == "all-disabled"))
}

/// The nodes that are out for an update, by this plan or before it, and those that somebody keeps out of service. A gang
/// goes whole: one that is wider than the pool allows goes alone, with nobody kept out beside it. What was begun is finished
/// whatever the count, because half a change is worse than either end.
pub fn unavailable(case: &Case<'_>, found: &mut Found) {
    let mut out: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for (at, step) in case.each().filter(|(at, _)| is_chosen(case.reason(*at))) {
        let node = match &step.action {
            Action::Cluster(ClusterAction::Cordon { node, .. } | ClusterAction::Cut { node, .. }) => Some(node),
            Action::Cloud(CloudAction::Terminate { instance, .. }) => case.node_of(instance),
            _ => None,
        };
        // A node that has just come is cut for the first time: nobody had it.
        let is_new = |node: &&NodeName| {
            let first =
                matches!(case.reason(at), Reason::Layout { from: None, .. }) && case.node(node).is_some_and(is_uncut);
            let unopened = step.requires.contains(&Fact::Unopened((*node).clone()));
            let cordons = matches!(step.action, Action::Cluster(ClusterAction::Cordon { .. }));
            (case.node(node).is_some_and(is_starting) && (unopened || !cordons))
                || (first && case.pods.on(node).next().is_none())
        };
        let node = node.filter(|node| !is_new(node));
        let slot = node.and_then(|node| case.slot_of_node(node));
        let pool = slot.and_then(|slot| case.standing().pools.get_key_value(&slot.pool));
        if let (Some(node), Some((pool, _))) = (node, pool) {
            out.entry(pool).or_default().insert(node);
        }
    }
    let mut before = if out.is_empty() { BTreeMap::new() } else { out_before(case) };
    // A node that goes for good is out for no update, whatever it was closed for: nobody counts on it.
    let is_wanted = |node: &&NodeName| case.slot_of_node(node).is_some_and(|slot| case.part(slot).is_some());
    before.values_mut().for_each(|nodes| nodes.retain(is_wanted));
    let none = BTreeSet::new();
    for (pool, nodes) in &out {
        let allowed = case.pool(pool).map_or(0, |pool| pool.updates.max_unavailable);
        let moves = Moves::of(case, pool, before.get(pool).unwrap_or(&none), nodes);
        if !moves.keep_within(usize::try_from(allowed).unwrap_or(usize::MAX)) {
            let all = moves.all();
            let what = match moves.kept {
                0 => format!("{all} nodes of pool {pool} would be out for updates, {allowed} may be"),
                kept => format!("{all} nodes of pool {pool} would be out, {kept} of them kept so, {allowed} may be"),
            };
            found.plan(UNAVAILABLE, what);
        }
    }
}

/// What is out already, and what a plan takes out beside it.
struct Moves {
    /// Nodes that are away, or whose way out was begun: by themselves, or as a part of a gang.
    begun: usize,
    /// Nodes beside them that somebody keeps out.
    kept: usize,
    /// Those of them that this plan does not move.
    beside: usize,
    /// How many nodes in service each of the others is: what one gang spans is one. What is closed already takes no
    /// more.
    fresh: Vec<usize>,
}

impl Moves {
    fn of(case: &Case<'_>, pool: &PoolName, before: &BTreeSet<&NodeName>, nodes: &BTreeSet<&NodeName>) -> Self {
        let all: BTreeSet<&NodeName> = before.union(nodes).copied().collect();
        let (begun, fresh): (Vec<_>, Vec<_>) =
            groups(case, &all).into_iter().partition(|group| !group.is_disjoint(before));
        let slots = begun.iter().flatten().filter_map(|node| case.slot_of_node(node)).map(|slot| slot.index);
        let slots: BTreeSet<u32> = slots.chain(away(case, pool)).collect();
        let kept: BTreeSet<u32> = kept_out(case, pool).difference(&slots).copied().collect();
        let is_out = |node: &NodeName| {
            let index = case.slot_of_node(node).map(|slot| slot.index);
            case.has_our_cordon(node) || index.is_some_and(|index| kept.contains(&index))
        };
        let moving = fresh.iter().flatten().filter_map(|node| case.slot_of_node(node)).map(|slot| slot.index);
        let beside = kept.difference(&moving.collect()).count();
        let fresh = fresh.iter().map(|group| group.iter().filter(|node| !is_out(node)).count());
        Self { begun: slots.len(), kept: kept.len(), beside, fresh: fresh.filter(|nodes| *nodes > 0).collect() }
    }

    fn all(&self) -> usize {
        self.begun + self.kept + self.fresh.iter().sum::<usize>()
    }

    /// Nothing is begun, or all of it together is allowed, or one gang goes alone.
    fn keep_within(&self, allowed: usize) -> bool {
        let alone = || self.begun == 0 && self.beside == 0 && self.fresh.len() == 1;
        self.fresh.is_empty() || self.all() <= allowed || (allowed > 0 && alone())
    }
}

/// Nodes of each pool that carry our cordon for an update that an earlier plan began.
fn out_before<'a>(case: &Case<'a>) -> BTreeMap<&'a PoolName, BTreeSet<&'a NodeName>> {
    let mut out: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for (name, node) in case.seen().cluster.nodes.seen() {
        let mark = node.annotation(CORDON).map(Mark::parse);
        if mark.is_some_and(|mark| ["replace", "move", "cut", "exchange"].contains(&mark.why.as_str()))
            && !is_starting(node)
            && let Some(slot) = case.slot_of_node(name)
            && let Some((pool, _)) = case.standing().pools.get_key_value(&slot.pool)
        {
            out.entry(pool).or_default().insert(name);
        }
    }
    out
}

/// Slots whose node was taken away by choice in the last hour and has no successor in service yet.
fn away(case: &Case<'_>, pool: &PoolName) -> BTreeSet<u32> {
    let Some(remembered) = case.pool_ledger(pool) else { return BTreeSet::new() };
    let is_wanted = |index: u32| case.part(&SlotId::new(pool, index)).is_some();
    let recent = remembered.removed.iter().filter(|(_, at)| case.now().duration_since(*at) < AN_HOUR);
    let recent = recent.filter(|(index, _)| is_wanted(*index));
    let is_away = |index: &u32| {
        let instance = remembered.slots.get(index).and_then(|slot| slot.instance.as_ref());
        let node = instance.and_then(|id| case.node_of(id)).and_then(|node| case.node(node));
        !node.is_some_and(|node| node.ready && !is_starting(node))
    };
    recent.map(|(index, _)| *index).filter(is_away).collect()
}

/// Slots that are wanted, and whose node somebody keeps out of service: in quarantine, drained by hand, or closed by
/// another hand than ours.
fn kept_out(case: &Case<'_>, pool: &PoolName) -> BTreeSet<u32> {
    let head = &case.input.ledger.head;
    let nodes = case.seen().cluster.nodes.seen().iter().filter(|(name, node)| {
        let is_closed = node.unschedulable && !case.has_our_cordon(name) && !is_starting(node);
        head.quarantined.contains_key(*name) || head.drains.contains_key(*name) || is_closed
    });
    let slots = nodes.filter_map(|(name, _)| case.slot_of_node(name));
    let slots = slots.filter(|slot| slot.pool == *pool && case.part(slot).is_some());
    slots.map(|slot| slot.index).collect()
}

/// These nodes, those that one gang spans together.
pub(super) fn groups<'a>(case: &Case<'a>, nodes: &BTreeSet<&'a NodeName>) -> Vec<BTreeSet<&'a NodeName>> {
    let mut up: BTreeMap<&NodeName, &NodeName> = nodes.iter().map(|node| (*node, *node)).collect();
    fn root<'n>(up: &mut BTreeMap<&'n NodeName, &'n NodeName>, node: &'n NodeName) -> &'n NodeName {
        let mut here = node;
        while let Some(&next) = up.get(here).filter(|next| **next != here) {
            here = next;
        }
        up.insert(node, here);
        here
    }
    let mut stands_on: BTreeMap<(Option<&GangName>, Option<&WorkloadUid>), &NodeName> = BTreeMap::new();
    for node in nodes {
        for pod in case.pods.on(node).filter(|pod| pod.gang.is_some() || pod.workload.is_some()) {
            let workload = pod.workload.as_ref().filter(|_| pod.gang.is_none());
            let first = *stands_on.entry((pod.gang.as_ref(), workload)).or_insert(node);
            let (a, b) = (root(&mut up, first), root(&mut up, node));
            up.insert(b, a);
        }
    }
    let mut groups: BTreeMap<&NodeName, BTreeSet<&NodeName>> = BTreeMap::new();
    for node in nodes {
        groups.entry(root(&mut up, node)).or_default().insert(node);
    }
    groups.into_values().collect()
}

/// With `when: idle` no work is disturbed for an update; with `when: drain` only while a window is open. The cloud waits for
/// no window, so who is left before it comes does not either.
pub fn idle_and_windows(case: &Case<'_>, found: &mut Found) {
    let begun = LazyCell::new(|| begun(case));
    for (at, step) in disturbing(case).filter(|(at, _)| is_chosen(case.reason(*at))) {
        let is_pressed = !is_update(case.reason(at));
        let pods = case.pods.sent_by(at).iter().filter(|pod| pod.counts() && !case.pods.is_leaving(pod));
        let nodes: BTreeSet<&NodeName> = pods.filter_map(|pod| pod.node.as_ref()).collect();
        // The pools that are updated: a gang may also stand in others, and goes as a whole.
        let drained = nodes.iter().filter(|node| case.is_cordoned(at, node));
        let pools: BTreeSet<&PoolName> =
            drained.filter_map(|node| case.slot_of_node(node)).map(|slot| &slot.pool).collect();
        for name in pools {
            let Some(pool) = case.pool(name) else { continue };
            if pool.updates.when == When::Idle {
                found.step(WHEN, &step.id, format!("pool {name} is updated only as its nodes fall free"));
            } else if is_pressed {
                // In any hour.
            } else if begun.get(name).is_some_and(|begun| !nodes.is_disjoint(begun)) {
                // Begun while it was open, with the gang that stands there: half a change is worse than either end.
            } else if !is_open(&pool.updates.windows, &case.standing().time_zone, case.now()) {
                found.step(WHEN, &step.id, format!("no window of pool {name} is open"));
            } else if !is_open(&pool.updates.windows, &case.standing().time_zone, saved_by(case, at)) {
                let what = format!("the window of pool {name} closes before its work has saved itself");
                found.step(WHEN, &step.id, what);
            }
        }
    }
}

/// When the work that a step sends away has saved itself at the latest, if it is asked to now.
fn saved_by(case: &Case<'_>, at: usize) -> Timestamp {
    let tiers = case.pods.sent_by(at).iter().filter_map(|pod| case.pods.workload(pod)?.tier.as_ref());
    let saves = tiers.filter_map(|tier| case.standing().tiers.get(tier)?.checkpoint.as_ref());
    let longest = saves.map(|checkpoint| checkpoint.deadline.signed()).max().unwrap_or_default();
    case.now().checked_add(longest).unwrap_or(Timestamp::MAX)
}

/// A gang that is sent away for a new version comes back to whatever is open. So none of its nodes in that pool may be
/// open that has to move for the same reason, because it would be sent away again. What something else is the matter
/// with is another law's.
pub fn gangs_move_once(case: &Case<'_>, found: &mut Found) {
    let cordoned = LazyCell::new(|| {
        let cordoned = case.each().filter_map(|(_, step)| match &step.action {
            Action::Cluster(ClusterAction::Cordon { node, .. }) => Some(node),
            _ => None,
        });
        cordoned.collect::<BTreeSet<&NodeName>>()
    });
    for (at, step) in disturbing(case).filter(|(at, _)| matches!(case.reason(*at), Reason::Outdated)) {
        let pods = case.pods.sent_by(at).iter().filter(|pod| pod.counts() && !case.pods.is_leaving(pod));
        let nodes: BTreeSet<&NodeName> = pods.filter_map(|pod| pod.node.as_ref()).collect();
        let drained = nodes.iter().filter(|node| case.is_cordoned(at, node));
        let pools: BTreeSet<&PoolName> =
            drained.filter_map(|node| case.slot_of_node(node)).map(|slot| &slot.pool).collect();
        let stays = |node: &&&NodeName| {
            let slot = case.slot_of_node(node).filter(|slot| pools.contains(&slot.pool) && !cordoned.contains(**node));
            slot.is_some_and(|slot| has_to_move(case, slot, node) && case.on_slot(slot).is_empty())
        };
        if let Some(node) = nodes.iter().find(stays) {
            found.step(ONCE, &step.id, format!("{node} stays open, and has to move for the same reason"));
        }
    }
}

/// Whether a node in service runs another version than is wanted, and nothing else of its pool is in the way.
fn has_to_move(case: &Case<'_>, slot: &SlotId, node: &NodeName) -> bool {
    let wanted = case.input.desired.pools.get(&slot.pool).map(|pool| &pool.template.digest);
    let instance = case.ledger_slot(slot).and_then(|slot| case.instance(slot.instance.as_ref()?));
    let is_outdated = instance.is_some_and(|seen| seen.state.serves() && seen.template.as_ref() != wanted);
    let is_open = case.node(node).is_some_and(|seen| seen.ready && !is_starting(seen)) && !case.has_our_cordon(node);
    let on = Thing::Pool(slot.pool.clone());
    // Slices that have to stay up let nodes go one by one.
    let keeps = case.standing().layouts.values().any(|layout| !layout.keep_ready.is_empty());
    let others = case.plan.held.iter().any(|held| held.what == on && !matches!(held.reason, Reason::Outdated));
    is_outdated && is_open && case.part(slot).is_some() && !others && !keeps
}

/// Nodes of each pool that are on their way out for an update, and those that a gang ties to them.
fn begun<'a>(case: &Case<'a>) -> BTreeMap<&'a PoolName, BTreeSet<&'a NodeName>> {
    let mut begun = out_before(case);
    for (pool, nodes) in &mut begun {
        let cordoned = case.each().filter_map(|(_, step)| match &step.action {
            Action::Cluster(ClusterAction::Cordon { node, .. }) => Some(node),
            _ => None,
        });
        let in_pool = cordoned.filter(|node| case.slot_of_node(node).is_some_and(|slot| slot.pool == **pool));
        let all: BTreeSet<&NodeName> = nodes.iter().copied().chain(in_pool).collect();
        *nodes = groups(case, &all).into_iter().filter(|group| !group.is_disjoint(nodes)).flatten().collect();
    }
    begun
}

/// Whether one of the windows is open; without any it always is.
pub fn is_open(windows: &[Window], zone: &ZoneName, now: Timestamp) -> bool {
    let now = zone.zone().to_datetime(now);
    let yesterday = now.date().checked_sub(1.day()).ok();
    let covers = |window: &Window| {
        [Some(now.date()), yesterday].into_iter().flatten().any(|day| {
            let begins = window.days.iter().any(|days| days.contains(day.weekday()));
            let last = if window.to.0 > window.from.0 { Some(day) } else { day.checked_add(1.day()).ok() };
            let from = DateTime::from_parts(day, window.from.0);
            begins && from <= now && last.is_some_and(|last| now < DateTime::from_parts(last, window.to.0))
        })
    };
    windows.is_empty() || windows.iter().any(covers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(window: &str, at: &str) -> bool {
        let window: Window = serde_json::from_str(window).unwrap();
        is_open(&[window], &"America/Los_Angeles".parse().unwrap(), at.parse().unwrap())
    }

    #[test]
    fn a_window_is_open_from_its_beginning_to_before_its_end() {
        let day = r#"{"days": ["Mon-Fri"], "from": "10:00", "to": "16:00"}"#;
        assert!(open(day, "2026-06-08T10:00-07:00") && open(day, "2026-06-08T15:59-07:00"));
        assert!(!open(day, "2026-06-08T16:00-07:00") && !open(day, "2026-06-08T09:59-07:00"));
        assert!(!open(day, "2026-06-07T12:00-07:00"), "a Sunday");
        assert!(is_open(&[], &ZoneName::utc(), Timestamp::UNIX_EPOCH), "without windows it is always open");
    }

    #[test]
    fn a_window_may_cross_midnight_or_last_a_day() {
        let night = r#"{"days": ["Fri"], "from": "22:00", "to": "06:00"}"#;
        assert!(open(night, "2026-06-12T23:00-07:00") && open(night, "2026-06-13T05:59-07:00"));
        assert!(!open(night, "2026-06-13T22:30-07:00") && !open(night, "2026-06-12T05:00-07:00"));
        let whole = r#"{"days": ["Fri"], "from": "06:00", "to": "06:00"}"#;
        assert!(open(whole, "2026-06-13T05:59-07:00") && !open(whole, "2026-06-13T06:00-07:00"));
    }
}
