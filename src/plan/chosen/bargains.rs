//! Moves that pay together: what pools exchange among each other, what that buys, and whether it is worth it.

use std::collections::BTreeMap;

use crate::fabric::state::with_hosts;
use crate::fabric::{Problem, SLOTS, Score};
use crate::plan::placing::Site;

/// What one emptied node must save, in crossings, as in every plan.
const MOVING: i64 = 2;

/// Hosts that change hands between pools that have to do with each other.
pub struct Found {
    pub hosts: Vec<usize>,
    pub before: Score,
    pub after: Score,
}

/// The changes from one placement to another, apart where no pool has to do with both.
pub fn bargains(site: &Site, problem: &Problem<'_>, now: &[Option<u32>], to: &[Option<u32>]) -> Vec<Found> {
    let mut sets = petgraph::unionfind::UnionFind::<usize>::new(site.pools.len());
    let changed: Vec<usize> = (0..now.len()).filter(|at| now[*at] != to[*at]).collect();
    for at in &changed {
        if let (Some(from), Some(to)) = (now[*at], to[*at]) {
            sets.union(from as usize, to as usize);
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in changed {
        if let Some(pool) = now[at].or(to[at]) {
            groups.entry(sets.find(pool as usize)).or_default().push(at);
        }
    }
    let before = if groups.is_empty() { Score::default() } else { with_hosts(problem, now).score() };
    let found = groups.into_values().map(|hosts| {
        let mut then = now.to_vec();
        hosts.iter().for_each(|at| then[*at] = to[*at]);
        Found { after: with_hosts(problem, &then).score(), before, hosts }
    });
    found.collect()
}

impl Found {
    pub fn saves(&self) -> i64 {
        signed(self.before.cost) - signed(self.after.cost)
    }

    /// Free slots that are won or lost, the largest first.
    pub fn slots(&self) -> Vec<(u32, i64)> {
        let both = SLOTS.iter().zip(self.before.slots.0.iter().zip(self.after.slots.0));
        both.map(|(size, (before, after))| (*size, signed(after) - signed(*before)))
            .filter(|(_, won)| *won != 0)
            .collect()
    }

    /// It gives nodes to who lacks them, or saves what emptying nodes costs; or it costs no crossing, and opens a free
    /// slot at least as large as what is emptied for it.
    pub fn pays(&self, site: &Site, now: &[Option<u32>]) -> bool {
        if (self.after.unplaced, self.after.shared) > (self.before.unplaced, self.before.shared) {
            return false;
        }
        if (self.after.unplaced, self.after.shared) < (self.before.unplaced, self.before.shared) {
            return true;
        }
        let emptied = || self.hosts.iter().filter(|at| now[**at].is_some());
        let moves = signed(emptied().count() as u64);
        let gpus: u32 = emptied().map(|at| site.spots[*at].gpus).sum();
        let opens = self.slots().first().is_some_and(|(size, won)| *won > 0 && *size >= gpus);
        (self.saves() > 0 && self.saves() >= MOVING * moves) || (self.saves() >= 0 && opens)
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Place, Slots, Tree};
    use crate::plan::placing::{Position, Spot};

    /// Two nodes of eight GPUs each.
    fn site() -> Site {
        let place = |name: &str| Place { host: name.into(), path: vec![Some("l1".into())] };
        let (tree, notes) = Tree::grow(&["leaf".into()], vec![place("n1"), place("n2")]);
        let spot = |pool| Spot {
            pool: Some(pool),
            standing: Position::Serving,
            launched: false,
            gpus: 8,
            free: 8,
            work: Vec::new(),
            pods: Vec::new(),
        };
        Site {
            tree,
            notes,
            spots: vec![spot(0), spot(1)],
            pools: vec!["a".into(), "b".into()],
            asks: Vec::new(),
            choices: Vec::new(),
            hosts: Vec::new(),
            is_known: true,
        }
    }

    /// Whether both go, where crossings cost ten before; `now` says who has them.
    fn pays(now: [Option<u32>; 2], after: Score) -> bool {
        let before = Score { cost: 10, ..Score::default() };
        Found { hosts: vec![0, 1], before, after }.pays(&site(), &now)
    }

    #[test]
    fn two_crossings_are_saved_for_each_node_that_is_emptied() {
        let costs = |cost| Score { cost, ..Score::default() };
        let both = [Some(0), Some(1)];
        assert!(pays(both, costs(6)) && !pays(both, costs(7)) && !pays(both, costs(10)));
        // A free one is not emptied.
        let one = [Some(0), None];
        assert!(pays(one, costs(8)) && !pays(one, costs(9)));
        assert!(!pays([None, None], costs(10)), "what costs nothing and saves nothing is left alone");
    }

    #[test]
    fn a_free_slot_as_large_as_what_is_emptied_pays_where_no_crossing_is_added() {
        let opens = |slots: [u64; 5], cost| Score { cost, slots: Slots(slots), ..Score::default() };
        let both = [Some(0), Some(1)];
        assert!(pays(both, opens([0, 0, 0, 1, 0], 10)));
        assert!(!pays(both, opens([0, 0, 0, 0, 1], 10)), "eight GPUs for sixteen that are emptied");
        assert!(!pays(both, opens([1, 0, 0, 0, 0], 11)), "it would cost a crossing");
    }

    #[test]
    fn whoever_lacks_nodes_comes_first_and_nobody_loses_any_for_crossings() {
        let both = [Some(0), Some(1)];
        assert!(!pays(both, Score { unplaced: 1, ..Score::default() }));
        assert!(!pays(both, Score { shared: 1, ..Score::default() }));
        let before = Score { unplaced: 1, cost: 10, ..Score::default() };
        let after = Score { cost: 12, ..Score::default() };
        assert!(Found { hosts: vec![0, 1], before, after }.pays(&site(), &both));
    }
}
