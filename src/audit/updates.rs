//! How running nodes move to what the documents now say: as many at once as the pool allows, when it allows, and gangs
//! only where it lets them be drained.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::Found;
use super::case::Case;
use super::evict::disturbing;
use crate::effect::marks::{CORDON, Mark, STARTING_TAINT};
use crate::effect::{Action, CloudAction, ClusterAction};
use crate::fleet::updates::{When, Window};
use crate::ids::{NodeName, PoolName};
use crate::observed::{GangName, NodeSeen};
use crate::plan::Reason;
use crate::units::ZoneName;

const UNAVAILABLE: &str = "updates keep `maxUnavailable` and the canary";
const WHEN: &str = "updates disturb work only as `when` and the windows allow";

const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

fn is_update(reason: &Reason) -> bool {
    matches!(reason, Reason::Outdated | Reason::Layout { .. })
}

/// The nodes that are out for an update, by this plan or before it: a gang counts as one, however many nodes it spans.
pub fn unavailable(case: &Case<'_>, found: &mut Found) {
    let mut out: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    let mut replaced: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for (at, step) in case.each().filter(|(at, _)| is_update(case.reason(*at))) {
        let node = match &step.action {
            Action::Cluster(ClusterAction::Cordon { node, .. } | ClusterAction::Cut { node, .. }) => Some(node),
            Action::Cloud(CloudAction::Terminate { instance, .. }) => case.node_of(instance),
            _ => None,
        };
        // A node that has just come is cut for the first time: nobody had it.
        let is_new = |node: &&NodeName| {
            let first = matches!(case.reason(at), Reason::Layout { from: None, .. });
            case.node(node).is_some_and(is_starting) || (first && case.pods.on(node).next().is_none())
        };
        let node = node.filter(|node| !is_new(node));
        let slot = node.and_then(|node| case.slot_of_node(node));
        let pool = slot.and_then(|slot| case.standing().pools.get_key_value(&slot.pool));
        if let (Some(node), Some((pool, _))) = (node, pool) {
            out.entry(pool).or_default().insert(node);
            if matches!(case.reason(at), Reason::Outdated) {
                replaced.entry(pool).or_default().insert(node);
            }
        }
    }
    let before = if out.is_empty() { BTreeMap::new() } else { out_before(case) };
    // What was begun goes on: a gang that tied nodes together, and counted as one, may be gone from them by now.
    let begun = |pool: &PoolName, nodes: &BTreeSet<&NodeName>| before.get(pool).is_some_and(|out| nodes.is_subset(out));
    for (pool, nodes) in out.iter_mut().filter(|(pool, nodes)| !begun(pool, nodes)) {
        nodes.extend(before.get(pool).into_iter().flatten().copied());
        let allowed = case.pool(pool).map_or(0, |pool| pool.updates.max_unavailable);
        let units = units(case, nodes) + away(case, pool, nodes);
        if units > usize::try_from(allowed).unwrap_or(usize::MAX) {
            found.plan(UNAVAILABLE, format!("{units} nodes of pool {pool} would be out for updates, {allowed} may be"));
        }
    }
    for (pool, nodes) in replaced.into_iter().filter(|(pool, nodes)| !begun(pool, nodes)) {
        canary(case, pool, units(case, &nodes), found);
    }
}

fn is_starting(node: &NodeSeen) -> bool {
    node.taints.iter().any(|taint| taint.key == STARTING_TAINT)
}

/// Nodes of each pool that carry our cordon for an update that an earlier plan began.
fn out_before<'a>(case: &Case<'a>) -> BTreeMap<&'a PoolName, BTreeSet<&'a NodeName>> {
    let mut out: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for (name, node) in case.seen().cluster.nodes.seen() {
        let mark = node.annotation(CORDON).map(Mark::parse);
        if mark.is_some_and(|mark| mark.why == "replace" || mark.why == "cut")
            && !is_starting(node)
            && let Some(slot) = case.slot_of_node(name)
            && let Some((pool, _)) = case.standing().pools.get_key_value(&slot.pool)
        {
            out.entry(pool).or_default().insert(name);
        }
    }
    out
}

/// Slots whose node was taken away by choice in the last hour and has no ready successor yet. A node that is ended and
/// still listed is among the `out` ones, and is counted there.
fn away(case: &Case<'_>, pool: &PoolName, out: &BTreeSet<&NodeName>) -> usize {
    let Some(remembered) = case.pool_ledger(pool) else { return 0 };
    let wanted = case.input.target.pools.get(pool).map_or(0, |pool| pool.nodes);
    let recent =
        remembered.removed.iter().filter(|(index, at)| *index < wanted && case.now().duration_since(*at) < AN_HOUR);
    let counted: BTreeSet<u32> = out.iter().filter_map(|node| case.slot_of_node(node)).map(|slot| slot.index).collect();
    let slots: BTreeSet<u32> = recent.map(|(index, _)| *index).filter(|index| !counted.contains(index)).collect();
    let is_away = |index: &&u32| {
        let instance = remembered.slots.get(*index).and_then(|slot| slot.instance.as_ref());
        let joined = |id| case.node_of(id).and_then(|node| case.node(node)).is_some_and(|node| node.ready);
        !instance.is_some_and(joined)
    };
    slots.iter().filter(is_away).count()
}

/// How many separate things these nodes are: those that one gang spans are one.
fn units(case: &Case<'_>, nodes: &BTreeSet<&NodeName>) -> usize {
    let mut groups: BTreeMap<&NodeName, &NodeName> = nodes.iter().map(|node| (*node, *node)).collect();
    fn root<'n>(groups: &mut BTreeMap<&'n NodeName, &'n NodeName>, node: &'n NodeName) -> &'n NodeName {
        let mut here = node;
        while let Some(&up) = groups.get(here).filter(|up| **up != here) {
            here = up;
        }
        groups.insert(node, here);
        here
    }
    let mut stands_on: BTreeMap<&GangName, &NodeName> = BTreeMap::new();
    for node in nodes {
        for gang in case.pods.on(node).filter_map(|pod| pod.gang.as_ref()) {
            let first = stands_on.entry(gang).or_insert(node);
            let (a, b) = (root(&mut groups, first), root(&mut groups, node));
            groups.insert(b, a);
        }
    }
    groups.iter().filter(|(node, up)| node == up).count()
}

/// Until as many nodes as the canary asks for have run the new version for its time, no more than that move.
fn canary(case: &Case<'_>, pool: &PoolName, units: usize, found: &mut Found) {
    let Some(canary) = case.pool(pool).and_then(|pool| pool.updates.canary.as_ref()) else { return };
    let digest = case.input.desired.pools.get(pool).map(|wanted| &wanted.template.digest);
    let slots = case.pool_ledger(pool).into_iter().flat_map(|pool| pool.slots.values());
    let seasoned = slots.filter_map(|slot| case.instance(slot.instance.as_ref()?)).filter(|seen| {
        let age = case.now().duration_since(seen.launched);
        seen.state.serves() && seen.template.as_ref() == digest && age >= canary.r#for.signed()
    });
    let first = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
    if seasoned.count() < first && units > first {
        found
            .plan(UNAVAILABLE, format!("{units} nodes of pool {pool} would move before its canary of {first} is over"));
    }
}

/// With `when: idle` no work is disturbed for an update; with `when: drain` only while a window is open.
pub fn idle_and_windows(case: &Case<'_>, found: &mut Found) {
    let begun = LazyCell::new(|| out_before(case));
    for (at, step) in disturbing(case).filter(|(at, _)| is_update(case.reason(*at))) {
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
            } else if begun.get(name).is_some_and(|begun| nodes.is_subset(begun)) {
                // Begun while it was open: half a change is worse than either end.
            } else if !is_open(&pool.updates.windows, &case.standing().time_zone, case.now()) {
                found.step(WHEN, &step.id, format!("no window of pool {name} is open"));
            }
        }
    }
}

/// Whether one of the windows is open; without any it always is.
fn is_open(windows: &[Window], zone: &ZoneName, now: Timestamp) -> bool {
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
