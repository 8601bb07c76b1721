//! Nodes that change places with each other, as small circles: each goes as a whole, so that no pool lacks a node for
//! longer than its own takes.

use std::collections::{BTreeMap, VecDeque};

use super::Scene;
use crate::ids::SlotId;

/// Nobody, who has the free nodes.
const NOBODY: usize = usize::MAX;

/// The slots of the nodes that go, by circle.
pub fn units(scene: &Scene<'_, '_>, to: &[Option<u32>]) -> Vec<Vec<SlotId>> {
    let end = |pool: Option<u32>| pool.map_or(NOBODY, |pool| pool as usize);
    // By who gives: host and who gets.
    let mut gives: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, (now, to)) in scene.now().into_iter().zip(to).enumerate() {
        if scene.is_in_play(at) && now != *to {
            gives.entry(end(now)).or_default().push((at, end(*to)));
        }
    }
    let mut units = Vec::new();
    while let Some(first) = gives.iter().find(|(from, out)| **from != NOBODY && !out.is_empty()).map(|(from, _)| *from)
    {
        let Some((at, next)) = gives.get_mut(&first).and_then(Vec::pop) else { break };
        let mut hosts = vec![at];
        for (from, host) in way(&gives, next, first) {
            if let Some(out) = gives.get_mut(&from) {
                out.retain(|(at, _)| *at != host);
            }
            hosts.push(host);
        }
        let slots = hosts.iter().filter_map(|at| scene.slots[*at].map(|(_, slot)| slot.id.clone()));
        let mut slots: Vec<SlotId> = slots.collect();
        slots.sort_unstable();
        units.push(slots);
    }
    units
}

/// The shortest way from one end to another, as who gives what.
fn way(gives: &BTreeMap<usize, Vec<(usize, usize)>>, from: usize, to: usize) -> Vec<(usize, usize)> {
    let mut came: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(here) = next.pop_front() {
        if here == to {
            let (mut steps, mut at) = (Vec::new(), here);
            while let Some((before, host)) = came.get(&at).filter(|_| at != from) {
                steps.push((*before, *host));
                at = *before;
            }
            return steps;
        }
        for (host, there) in gives.get(&here).into_iter().flatten() {
            if *there != from && !came.contains_key(there) {
                came.insert(*there, (here, *host));
                next.push_back(*there);
            }
        }
    }
    Vec::new()
}
