//! Nodes that change places with each other, as circles of pools: a circle goes as a whole, so that no pool lacks a node
//! for longer than its own takes.
//!
//! To whom a node goes is all that counts in a circle, so circles are made of what the budgets of their pools let
//! through, and not before it is known. Nodes that are let through and close no circle wait for those that would.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Scene;
use crate::ids::NodeName;

/// Nobody, who has the free nodes.
const NOBODY: usize = usize::MAX;

/// A node that goes from one pool to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Give {
    from: usize,
    to: usize,
    node: NodeName,
}

/// A node that was let through and has to wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    pub node: NodeName,
    /// The one that it waits for.
    pub stays: NodeName,
    /// That one is in no turn: others may have the room that this one was given.
    pub leaves_room: bool,
}

/// All nodes that go, as the hosts of the tree; machines of a cloud change places by themselves (`trades`).
pub fn gives(scene: &Scene<'_, '_>, to: &[Option<u32>]) -> Vec<Give> {
    let end = |pool: Option<u32>| pool.map_or(NOBODY, |pool| pool as usize);
    // One that only its label says to be a pool's is free: it is claimed, and leaves nobody.
    let now = scene.now().into_iter().enumerate();
    let now = now.map(|(at, now)| now.filter(|_| scene.own_by_label(at).is_none()));
    let all = now.zip(to).enumerate();
    let is_there = |at: &usize| scene.is_in_play(*at) && !scene.site.spots[*at].launched;
    let goes = all.filter(|(at, (now, to))| is_there(at) && now != *to);
    goes.map(|(at, (now, to))| Give { from: end(now), to: end(*to), node: scene.site.tree.hosts[at].clone() }).collect()
}

/// Which of the nodes that are let through wait for one that is not. `kept` are those that are in no turn.
pub fn waits(gives: &[Give], going: &BTreeSet<&NodeName>, kept: impl Fn(&NodeName) -> bool) -> Vec<Waits> {
    let mut used = vec![false; gives.len()];
    let goes = |give: &Give| going.contains(&give.node);
    let is_free = |give: &Give| give.from == NOBODY;
    circles(gives, &mut used, &goes, |give| is_free(give) || goes(give));
    let mut found = Vec::new();
    for leaves_room in [false, true] {
        let may = |give: &Give| is_free(give) || goes(give) || leaves_room || !kept(&give.node);
        for circle in circles(gives, &mut used, &goes, may) {
            let all = || circle.iter().map(|at| &gives[*at]).filter(|give| !is_free(give));
            let Some(stays) = all().find(|give| !goes(give)) else { continue };
            let wait = |give: &Give| Waits { node: give.node.clone(), stays: stays.node.clone(), leaves_room };
            found.extend(all().filter(|give| goes(give)).map(wait));
        }
    }
    // The rest goes where nothing comes back from.
    found
}

/// Circles of what is not in one yet, each with a node that goes; the nodes that go are taken first.
fn circles(
    gives: &[Give],
    used: &mut [bool],
    goes: &impl Fn(&Give) -> bool,
    may: impl Fn(&Give) -> bool,
) -> Vec<Vec<usize>> {
    let mut graph: Graph = BTreeMap::new();
    for is_first in [true, false] {
        for (at, give) in gives.iter().enumerate().filter(|(at, give)| !used[*at] && may(give)) {
            if goes(give) == is_first {
                graph.entry((give.from, give.to)).or_default().push_back(at);
            }
        }
    }
    let mut found = Vec::new();
    for (at, give) in gives.iter().enumerate().filter(|(_, give)| goes(give)) {
        if used[at] {
            continue;
        }
        let Some(way) = way(&graph, give.to, give.from) else { continue };
        let mut circle = vec![at];
        if let Some(same) = graph.get_mut(&(give.from, give.to)) {
            same.retain(|other| *other != at);
        }
        circle.extend(way.iter().filter_map(|pair| graph.get_mut(pair)?.pop_front()));
        graph.retain(|_, same| !same.is_empty());
        circle.iter().for_each(|at| used[*at] = true);
        found.push(circle);
    }
    found
}

/// What goes from whom to whom.
type Graph = BTreeMap<(usize, usize), VecDeque<usize>>;

/// The shortest way from one end to another.
fn way(graph: &Graph, from: usize, to: usize) -> Option<Vec<(usize, usize)>> {
    let mut came: BTreeMap<usize, usize> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(here) = next.pop_front() {
        if here == to {
            let (mut steps, mut at) = (Vec::new(), here);
            while let Some(before) = came.get(&at).filter(|_| at != from) {
                steps.push((*before, at));
                at = *before;
            }
            return Some(steps);
        }
        for (_, there) in graph.range((here, 0)..=(here, NOBODY)).map(|(pair, _)| *pair) {
            if there != from && !came.contains_key(&there) {
                came.insert(there, here);
                next.push_back(there);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `gives[i]` goes from the first pool to the second.
    fn all(ends: &[(usize, usize)]) -> Vec<Give> {
        let give = |(at, (from, to)): (usize, &(usize, usize))| Give {
            from: *from,
            to: *to,
            node: NodeName::from(format!("n{at}").as_str()),
        };
        ends.iter().enumerate().map(give).collect()
    }

    /// So many of each pool, the first first, as its budget lets them through.
    fn let_through(gives: &[Give], budget: usize) -> BTreeSet<&NodeName> {
        let mut by_pool: BTreeMap<usize, usize> = BTreeMap::new();
        let mut has = |give: &&Give| {
            let count = by_pool.entry(give.from).or_default();
            *count += 1;
            *count <= budget
        };
        gives.iter().filter(|give| give.from != NOBODY).filter(|give| has(give)).map(|give| &give.node).collect()
    }

    #[test]
    fn what_budgets_let_through_always_closes_a_circle() {
        for budget in 1..=3 {
            for pools in 2..=4usize {
                for many in 1..=4 {
                    // Each pool gives to every other one, in an order of its own.
                    let mut ends = Vec::new();
                    for from in 0..pools {
                        for other in 1..pools {
                            ends.extend(std::iter::repeat_n((from, (from + other * (from + 1)) % pools), many));
                        }
                    }
                    ends.retain(|(from, to)| from != to);
                    let mut left = all(&ends);
                    let mut rounds = 0;
                    while left.iter().any(|give| let_through(&left, budget).contains(&give.node)) {
                        let going = let_through(&left, budget);
                        let stay: BTreeSet<NodeName> =
                            waits(&left, &going, |_| false).into_iter().map(|waits| waits.node).collect();
                        let gone: BTreeSet<NodeName> =
                            going.iter().filter(|node| !stay.contains(**node)).map(|node| (*node).clone()).collect();
                        assert!(!gone.is_empty(), "{pools} pools, {many} each, budget {budget}: {left:?}");
                        left.retain(|give| !gone.contains(&give.node));
                        rounds += 1;
                    }
                    assert!(rounds <= ends.len());
                }
            }
        }
    }

    #[test]
    fn two_that_are_let_through_are_partners_wherever_they_stand_in_their_pools() {
        let gives = all(&[(0, 1), (0, 1), (0, 1), (1, 0), (1, 0), (1, 0)]);
        for (one, other) in [(0, 3), (0, 5), (2, 4)] {
            assert_eq!(waits(&gives, &BTreeSet::from([&gives[one].node, &gives[other].node]), |_| false), []);
        }
    }

    #[test]
    fn one_waits_for_a_partner_and_leaves_its_room_only_where_none_will_come() {
        let gives = all(&[(0, 1), (1, 0)]);
        let waits = |kept: bool| {
            let found = waits(&gives, &BTreeSet::from([&gives[0].node]), |_| kept);
            found
                .into_iter()
                .map(|one| (one.node.to_string(), one.stays.to_string(), one.leaves_room))
                .collect::<Vec<_>>()
        };
        assert_eq!(waits(false), [("n0".to_string(), "n1".to_string(), false)]);
        assert_eq!(waits(true), [("n0".to_string(), "n1".to_string(), true)]);
    }

    #[test]
    fn what_nothing_comes_back_for_goes_alone_and_a_free_node_closes_a_circle() {
        let gives = all(&[(0, 1), (0, NOBODY), (NOBODY, 0)]);
        assert_eq!(waits(&gives, &BTreeSet::from([&gives[0].node, &gives[1].node]), |_| false), []);
    }
}
