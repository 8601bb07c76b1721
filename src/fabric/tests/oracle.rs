//! The same value as whoever tries every host for every pool.

use std::collections::BTreeSet;

use super::draw::{Dice, anything, plain, shapes, tree};
use crate::fabric::{Freedom, Problem, SLOTS, Score, Slots, place};

/// What an assignment of hosts is worth, from the words of the objective; none where it is not allowed.
pub fn value(problem: &Problem<'_>, hosts: &[Option<u32>]) -> Option<Score> {
    let tree = problem.tree;
    let at = |host: usize, level: usize| tree.above[level][tree.leaf_of[host] as usize];
    let mut score = Score::default();
    let domains = |pool: usize, level: usize| -> BTreeSet<u32> {
        (0..hosts.len()).filter(|host| hosts[*host] == Some(pool as u32)).map(|host| at(host, level)).collect()
    };
    for (number, pool) in problem.pools.iter().enumerate() {
        let mine: Vec<usize> = (0..hosts.len()).filter(|host| hosts[*host] == Some(number as u32)).collect();
        let is_fixed = |host: &usize| {
            problem.hosts[*host].free == Freedom::Fixed && problem.hosts[*host].pool == Some(number as u32)
        };
        let fixed = (0..hosts.len()).filter(is_fixed).count();
        if mine.len() > fixed.max(pool.nodes as usize) || mine.iter().filter(|host| is_fixed(host)).count() < fixed {
            return None;
        }
        for host in &mine {
            let host = &problem.hosts[*host];
            let stays = host.free == Freedom::Fixed;
            let is_theirs = stays && host.pool != Some(number as u32);
            if host.free == Freedom::Out || is_theirs || (!stays && !pool.suits[host.class as usize]) {
                return None;
            }
        }
        score.unplaced += u64::from(pool.nodes).saturating_sub(mine.len() as u64);
        for level in 0..tree.depth() {
            let count = domains(number, level).len() as u64;
            if pool.required && pool.together == Some(level) && count > 1 {
                return None;
            }
            score.cost += count.saturating_sub(1) * problem.weight(pool, level);
        }
        let had = |host: &usize| {
            let host = &problem.hosts[*host];
            let suits = host.free == Freedom::Fixed || pool.suits[host.class as usize];
            host.pool == Some(number as u32) && host.free != Freedom::Out && suits
        };
        let current = (0..hosts.len()).filter(had).count();
        let kept = mine.iter().filter(|host| had(host)).count();
        score.moves += (current.min(pool.nodes as usize).saturating_sub(kept)) as u64;
        if let Some(level) = pool.together {
            for other in &pool.apart {
                let both = domains(number, level).intersection(&domains(*other as usize, level)).count() as u64;
                if pool.required && both > 0 {
                    return None;
                }
                score.shared += both;
            }
        }
    }
    score.cost += score.moves * problem.prices.moving;
    let mut slots = Slots::default();
    for level in 0..tree.depth() {
        for domain in 0..tree.domains[level].len() {
            let is_free = |host: &usize| {
                at(*host, level) as usize == domain
                    && hosts[*host].is_none()
                    && problem.hosts[*host].free == Freedom::Usable
            };
            let gpus: u32 = (0..hosts.len()).filter(is_free).map(|host| problem.hosts[host].gpus).sum();
            for (count, size) in slots.0.iter_mut().zip(SLOTS) {
                *count += u64::from(gpus / size);
            }
        }
    }
    score.slots = slots;
    Some(score)
}

/// The best over all assignments.
fn best(problem: &Problem<'_>, hosts: &mut Vec<Option<u32>>) -> Option<Score> {
    if hosts.len() == problem.hosts.len() {
        return value(problem, hosts);
    }
    let mut found: Option<Score> = None;
    for pool in [None].into_iter().chain((0..problem.pools.len() as u32).map(Some)) {
        hosts.push(pool);
        let below = best(problem, hosts);
        hosts.pop();
        found = match (found, below) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    found
}

/// Whether a placement is worth what it says, and nothing is worth more.
fn holds(problem: &Problem<'_>) {
    let placed = place(problem);
    assert_eq!(value(problem, &placed.hosts), Some(placed.score), "{problem:?}\n{placed:?}");
    assert_eq!(Some(placed.score), best(problem, &mut Vec::new()), "{problem:?}\n{placed:?}");
}

/// All sizes of pools that fit, the largest first.
fn sizes(most: u32, hosts: u32, pools: usize) -> Vec<Vec<u32>> {
    let mut found = vec![Vec::new()];
    if pools == 0 {
        return found;
    }
    for first in 1..=most.min(hosts) {
        for mut rest in sizes(first, hosts - first, pools - 1) {
            rest.insert(0, first);
            found.push(rest);
        }
    }
    found
}

#[test]
fn every_small_tree_is_filled_as_well_as_by_trying_everything() {
    let mut tried = 0;
    for levels in 1..=3 {
        for hosts in 1..=5 {
            for shape in shapes(levels, hosts) {
                let tree = tree(levels, &shape);
                for sizes in sizes(hosts, hosts, 3) {
                    holds(&plain(&tree, &sizes));
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn whatever_pools_ask_for_nothing_is_better_than_what_they_get() {
    let mut dice = Dice(7);
    for levels in 1..=3 {
        for shape in shapes(levels, 5) {
            let tree = tree(levels, &shape);
            for _ in 0..6 {
                holds(&anything(&tree, &mut dice));
            }
        }
    }
}
