//! What of a pool's labels and taints is on a node because of us: only that is taken off when the document drops it.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::taints;
use super::types::thing;
use super::view::{PoolView, SlotView, View};
use crate::compile::nodes::clothes_of;
use crate::effect::marks::{DRESSED, POOL, PREFIX, STARTING_TAINT, WORN, Worn};
use crate::fleet::launch::Taint;
use crate::ids::{NodeName, PoolName};
use crate::observed::NodeSeen;

/// What we put on it, as far as that is known. A node says so itself, since it was last dressed.
pub fn memory(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, (node, seen): (&NodeName, &NodeSeen)) -> Worn {
    if let Some(worn) = Worn::of(seen) {
        return worn;
    }
    match seen.labels.get(DRESSED) {
        // Whatever it registered with is its template's.
        None if slot.is_existing() => Worn::default(),
        None => all_of(view, pool.name),
        Some(digest) if *digest == bare(view, pool, slot, node) => Worn::default(),
        // Dressed by a version that kept no list, for this pool or for the one that its label still names.
        Some(_) => {
            let named = seen.labels.get(POOL).map(|name| PoolName::from(name.as_str()));
            let known = named.filter(|name| view.input.desired.pools.contains_key(name));
            all_of(view, known.as_ref().unwrap_or(pool.name))
        }
    }
}

/// What of it is to come off: a label that has another value by now is somebody else's.
pub fn off(worn: &Worn, seen: &NodeSeen, wears: impl Fn(&str) -> bool, stays: impl Fn(&Taint) -> bool) -> Worn {
    let labels = worn.labels.iter().filter(|(key, value)| !wears(key) && seen.labels.get(*key) == Some(*value));
    let taints = worn.taints.iter().filter(|taint| seen.taints.contains(taint) && !stays(taint));
    Worn {
        labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
        taints: taints.cloned().collect(),
    }
}

/// What is to be remembered of a node that will carry these taints; none for a pool that wants nothing of its own.
pub fn next(view: &View<'_>, pool: &PoolName, before: &Worn, seen: &NodeSeen, taints: &[Taint]) -> Option<Worn> {
    let all = all_of(view, pool);
    if all == Worn::default() {
        return None;
    }
    let is_ours = |key: &String, value: &String| before.labels.contains_key(key) || seen.labels.get(key) != Some(value);
    let labels = all.labels.into_iter().filter(|(key, value)| is_ours(key, value)).collect();
    let is_ours = |taint: &&Taint| before.taints.contains(taint) || !seen.taints.contains(taint);
    Some(Worn { labels, taints: taints.iter().filter(is_ours).cloned().collect() })
}

/// Says which nodes were dressed by a version that kept no list, where something has left their document since.
pub fn say(view: &View<'_>, draft: &mut Draft) {
    for pool in view.pools.values() {
        let unknown = |slot: &&SlotView<'_>| slot.node.is_some_and(|seen| is_unknown(view, pool, slot, seen));
        let nodes: Vec<&NodeName> = pool.slots.iter().filter(unknown).filter_map(|slot| Some(slot.node?.0)).collect();
        if let Some(first) = nodes.first() {
            let text = format!(
                "{} labelled by a version that kept no list of what it put on: labels and taints that have left the \
                 documents since then stay, for a person to take off",
                taints::some(first, nodes.len(), "was", "were")
            );
            draft.note(thing(pool.name), text);
        }
    }
}

fn is_unknown(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, (node, seen): (&NodeName, &NodeSeen)) -> bool {
    let Some(digest) = seen.labels.get(DRESSED).filter(|_| seen.annotation(WORN).is_none() && slot.part.is_some())
    else {
        return false;
    };
    let is_here = seen.labels.get(POOL).is_some_and(|name| *name == pool.name.as_str());
    let all = all_of(view, pool.name);
    let (wanted, _) = clothes_of(view.standing, pool.name, all.labels, all.taints, slot.id.index, node.as_str());
    is_here && wanted.get(DRESSED) != Some(digest) && *digest != bare(view, pool, slot, node)
}

/// All that a pool wants on its nodes beside our own marks.
fn all_of(view: &View<'_>, pool: &PoolName) -> Worn {
    let Some(objects) = view.input.desired.pools.get(pool) else { return Worn::default() };
    let labels = objects.labels.iter().filter(|(key, _)| !key.starts_with(PREFIX));
    let taints = objects.taints.iter().filter(|taint| taint.key != STARTING_TAINT);
    Worn {
        labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
        taints: taints.cloned().collect(),
    }
}

/// The digest of a node of a pool that wants nothing of its own.
fn bare(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeName) -> String {
    let (labels, _) = clothes_of(view.standing, pool.name, BTreeMap::new(), Vec::new(), slot.id.index, node.as_str());
    labels.get(DRESSED).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::launch::TaintEffect;
    use crate::fleet::testing::at;

    fn taint(value: &str) -> Taint {
        Taint { key: "team".into(), value: Some(value.into()), effect: TaintEffect::NoSchedule }
    }

    #[test]
    fn only_what_is_still_as_we_put_it_on_comes_off() {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let seen = NodeSeen {
            uid: "n".into(),
            instance: None,
            labels: [label("team", "vision"), label("floor", "3"), label("rack", "a"), label("kept", "1")].into(),
            annotations: BTreeMap::new(),
            taints: vec![taint("vision"), taint("theirs")],
            unschedulable: false,
            ready: true,
            unready_since: None,
            ready_since: None,
            allocatable: BTreeMap::new(),
            conditions: BTreeMap::new(),
            created: at("2026-03-02T08:00Z"),
            boot: None,
            moved_by: BTreeMap::new(),
        };
        // Somebody moved the floor, nobody of us wrote the rack, and one label is wanted still.
        let labels = [label("team", "vision"), label("floor", "2"), label("kept", "1"), label("gone", "1")].into();
        let worn = Worn { labels, taints: vec![taint("vision"), taint("gone")] };
        let off = off(&worn, &seen, |key| key == "kept", |_| false);
        assert_eq!(off, Worn { labels: [label("team", "vision")].into(), taints: vec![taint("vision")] });
    }
}
