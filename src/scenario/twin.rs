//! I12: the end does not depend on the way. The same documents in an empty world come to the same fleet.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::Wrong;
use super::bench::Bench;
use super::settle;
use crate::effect::marks::{DRESSED, POOL};
use crate::fleet::pool::Source;
use crate::fleet::target::{Change, Part, Purpose};
use crate::observed::{ObjectKind, PodSeen};
use crate::units::Duration;

/// How the labels of a slot's node are told apart from what it shows.
const DRESSED_IN: &str = ", dressed";

/// Holds the fleet against one that was made from nothing. Only one that is done can be compared, and only as far as
/// the documents alone decide: a person's orders, a block that was bought, racks of somebody else, and quotas where pods
/// run beside the queues, are not in them.
pub fn as_from_nothing(bench: &mut Bench) -> Result<(), Wrong> {
    let looked = bench.look()?;
    let head = &looked.input.ledger.head;
    let ordered =
        !(head.frozen.is_empty() && head.quarantined.is_empty() && head.drains.is_empty() && head.recalled.is_empty());
    if !looked.plan.is_empty() || ordered || !head.purchases.is_empty() {
        return Ok(());
    }
    let mut twin = bench.anew()?;
    let guards = bench.sim.state().guards.clone();
    guards.iter().for_each(|(query, guard)| twin.sim.set_guard(query, guard.value, guard.at));
    settle::rest(&mut twin)?;
    let (before, now) = (bench.sim.now(), twin.sim.now());
    bench.sim.advance(Duration::secs(u64::try_from(now.duration_since(before).as_secs()).unwrap_or(0)));
    // Around the turn of a tide the two are at different points of the same way.
    let soon = |at: jiff::Timestamp, by| at.checked_add(SignedDuration::from_mins(by)).unwrap_or(at);
    if !bench.fleet()?.transitions(soon(before, -60), soon(now, 1)).is_empty() {
        return Ok(());
    }
    // A machine whose capacity ends soon stays until then, and is launched no more.
    let pool = |change: &Change| matches!(change, Change::Pool { before, after, .. } if after.nodes < before.nodes);
    if bench.fleet()?.transitions(now, soon(now, 120)).iter().any(|(_, changes)| changes.iter().any(pool)) {
        return Ok(());
    }
    compare(bench, &twin)
}

/// Whether pods run beside the queues: quotas follow them, and they are not in the documents.
fn is_crowded(bench: &Bench) -> bool {
    let state = bench.sim.state();
    let seen = state.cluster.observe(state.now);
    let outside = |pod: &PodSeen| pod.workload.is_none() && pod.counts() && !pod.requests.is_empty();
    seen.pods.seen().iter().any(outside)
}

/// Says what is different in two fleets of the same documents.
pub fn compare(bench: &Bench, twin: &Bench) -> Result<(), Wrong> {
    let crowded = is_crowded(bench);
    let (ours, theirs) = (picture(bench, crowded)?, picture(twin, crowded)?);
    // Its labels hold a slot's number, so they can be held against each other only where both are in their own place.
    let comparable = |key: &String| !key.ends_with(DRESSED_IN) || (ours.contains_key(key) && theirs.contains_key(key));
    let differs = |key: &&String| comparable(key) && ours.get(*key) != theirs.get(*key);
    let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).filter(differs).collect();
    keys.sort();
    keys.dedup();
    let Some(key) = keys.first() else { return Ok(()) };
    let word = |found: Option<&String>| found.map_or("nothing".into(), ToString::to_string);
    let (ours, theirs) = (word(ours.get(*key)), word(theirs.get(*key)));
    let count = keys.len();
    Err(Wrong::broken(format!(
        "I12: {count} things are not as from nothing; {key} is\n    {ours}\n  and not\n    {theirs}"
    )))
}

/// What the documents decide: our objects, and what the node in each slot shows.
fn picture(bench: &Bench, crowded: bool) -> Result<BTreeMap<String, String>, Wrong> {
    let state = bench.sim.state();
    let seen = state.cluster.observe(state.now);
    // A namespace is only needed to be there; work that came first may have made it.
    let ours = seen.objects.seen().iter().filter(|(key, _)| key.kind != ObjectKind::Namespace);
    let ours = ours.filter(|(key, _)| !crowded || !matches!(key.kind, ObjectKind::ClusterQueue | ObjectKind::Cohort));
    let ours = ours.filter(|(_, found)| found.written.is_some());
    let mut all: BTreeMap<String, String> =
        ours.map(|(key, found)| (key.to_string(), found.body.to_string())).collect();
    let target = bench.fleet()?.target_at(state.now);
    let (ledger, _) = state.ledger.whole();
    for (name, pool) in &target.standing.pools {
        if pool.capacity.iter().any(|source| matches!(source, Source::Existing { .. })) {
            continue;
        }
        // Which slots stayed when a pool became smaller is a matter of the way: one beyond the size stands in a place
        // that has nothing.
        let slots = || ledger.pools.get(name).into_iter().flat_map(|known| &known.slots);
        let there: BTreeSet<u32> =
            slots().filter(|(_, slot)| slot.instance.is_some()).map(|(index, _)| *index).collect();
        let size = target.pools.get(name).map_or(0, |pool| pool.nodes);
        let mut holes = (0..size).filter(|index| !there.contains(index));
        let mut shown: Vec<(u32, String)> = Vec::new();
        for (index, slot) in slots() {
            let Some(id) = &slot.instance else { continue };
            let place = if *index < size { *index } else { holes.next().unwrap_or(*index) };
            let node = seen.nodes.seen().values().find(|node| node.instance.as_ref() == Some(id));
            let shows = node.map_or("no node".into(), |node| {
                let gpus = node.allocatable.iter().filter(|(name, _)| name.as_str().starts_with("nvidia.com/"));
                let gpus: Vec<String> = gpus.map(|(name, count)| format!("{count} {name}")).collect();
                let taints: Vec<&str> = node.taints.iter().map(|taint| taint.key.as_str()).collect();
                let pool = node.labels.get(POOL).map_or("", String::as_str);
                format!("{} of {pool}, tainted {}", gpus.join(" "), taints.join(" "))
            });
            shown.push((place, shows));
            if let Some(dressed) = node.and_then(|node| node.labels.get(DRESSED)).filter(|_| place == *index) {
                all.insert(format!("{name}/{place}{DRESSED_IN}"), dressed.clone());
            }
        }
        // Which of them a tide took is a matter of the way too: those that were missed least when it turned.
        let is_lent = |part: &Part| matches!(part.purpose, Purpose::Lent { .. });
        let lends = target.pools.get(name).is_some_and(|pool| pool.parts.iter().any(is_lent));
        shown.sort_unstable();
        let (places, mut shows): (Vec<u32>, Vec<String>) = shown.into_iter().unzip();
        if lends {
            shows.sort_unstable();
        }
        all.extend(places.into_iter().zip(shows).map(|(place, shows)| (format!("{name}/{place}"), shows)));
    }
    Ok(all)
}
