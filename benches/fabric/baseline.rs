//! What others do with the same gangs, one after the other, from what their documentation and code say.

use std::cmp::Ordering;

use tidewright::fabric::{Problem, Tree};

/// By gang: how many hosts of which leaf.
pub type Taken = Vec<Vec<(usize, u32)>>;

/// Kueue's best fit (`preferred` at the finest level): the lowest level at which one domain holds all, the tightest such
/// domain; below it the largest domains first and the tightest for what is left.
pub fn kueue(problem: &Problem<'_>) -> Taken {
    let tree = problem.tree;
    let mut free = free(problem);
    let mut all = Vec::new();
    for pool in &problem.pools {
        let finest = tree.depth() - 1;
        let mut chosen: Vec<usize> = Vec::new();
        let mut at = 0;
        for level in (0..=finest).rev() {
            let rooms = rooms(tree, &free, level);
            let tight = (0..rooms.len()).filter(|at| rooms[*at] >= pool.nodes).min_by_key(|at| (rooms[*at], *at));
            if let Some(tight) = tight {
                (chosen, at) = (vec![tight], level);
                break;
            }
            if level == 0 {
                chosen = fill((0..rooms.len()).collect(), &rooms, pool.nodes).iter().map(|(at, _)| *at).collect();
            }
        }
        while at < finest {
            let below = chosen.iter().flat_map(|domain| tree.domains[at][*domain].children.clone());
            let below: Vec<usize> = below.map(|domain| domain as usize).collect();
            at += 1;
            chosen = fill(below, &rooms(tree, &free, at), pool.nodes).iter().map(|(at, _)| *at).collect();
        }
        let taken = fill(chosen, &free, pool.nodes);
        taken.iter().for_each(|(leaf, count)| free[*leaf] -= count);
        all.push(taken);
    }
    all
}

/// Slurm's topology/tree (`_eval_nodes_topo`): leaf after leaf, the nearest to those that it has. Of leaves as near
/// as each other the better one counts (see [`compared`]); one that is nearer takes the place of one that was found before
/// only where it, or something above it, holds all that is left.
pub fn slurm(problem: &Problem<'_>) -> Taken {
    let tree = problem.tree;
    let mut free = free(problem);
    let mut all = Vec::new();
    for pool in &problem.pools {
        let mut rooms: Vec<Vec<u32>> = (0..tree.depth()).map(|level| rooms(tree, &free, level)).collect();
        let mut far = vec![0; tree.leaves()];
        let (mut left, mut taken) = (pool.nodes, Vec::new());
        while left > 0 {
            let mut best: Option<usize> = None;
            for leaf in (0..tree.leaves()).filter(|leaf| rooms[tree.depth() - 1][*leaf] > 0) {
                let is_better = best.is_none_or(|best| {
                    let (order, holds) = compared(tree, &rooms, left, leaf, best);
                    (far[leaf] < far[best] && holds) || (far[leaf] == far[best] && order.is_gt())
                });
                if is_better {
                    best = Some(leaf);
                }
            }
            let Some(leaf) = best else { break };
            let room = rooms[tree.depth() - 1][leaf];
            rooms.iter_mut().zip(&tree.above).for_each(|(rooms, above)| rooms[above[leaf] as usize] -= room);
            far.iter_mut().enumerate().for_each(|(other, far)| *far += tree.distance(leaf, other));
            let count = room.min(left);
            free[leaf] -= count;
            left -= count;
            taken.push((leaf, count));
        }
        all.push(taken);
    }
    all
}

/// As in `_topo_compare_switches`: on the lowest level on which one of the two holds all that is left, the one that does,
/// and of two the tighter; below one parent, where neither does, the larger. And whether the first one does.
fn compared(tree: &Tree, rooms: &[Vec<u32>], left: u32, one: usize, other: usize) -> (Ordering, bool) {
    for level in (0..tree.depth()).rev() {
        let (a, b) = (tree.above[level][one] as usize, tree.above[level][other] as usize);
        let (room, than) = (rooms[level][a], rooms[level][b]);
        match (room >= left, than >= left) {
            (true, true) => return (than.cmp(&room), true),
            (true, false) => return (Ordering::Greater, true),
            (false, true) => return (Ordering::Less, false),
            (false, false) if level == 0 || tree.domains[level][a].parent == tree.domains[level][b].parent => {
                return (room.cmp(&than), false);
            }
            (false, false) => {}
        }
    }
    (Ordering::Equal, false)
}

fn free(problem: &Problem<'_>) -> Vec<u32> {
    let mut free = vec![0; problem.tree.leaves()];
    problem.tree.leaf_of.iter().for_each(|leaf| free[*leaf as usize] += 1);
    free
}

fn rooms(tree: &Tree, free: &[u32], level: usize) -> Vec<u32> {
    let room = |domain: &tidewright::fabric::Domain| {
        free[domain.leaves.start as usize..domain.leaves.end as usize].iter().sum()
    };
    tree.domains[level].iter().map(room).collect()
}

fn fill(mut domains: Vec<usize>, rooms: &[u32], count: u32) -> Vec<(usize, u32)> {
    domains.sort_by_key(|at| (std::cmp::Reverse(rooms[*at]), *at));
    let (mut left, mut taken) = (count, Vec::new());
    for at in 0..domains.len() {
        let domain = domains[at];
        if left == 0 || rooms[domain] == 0 {
            break;
        }
        if rooms[domain] >= left {
            let tight = domains[at..].iter().filter(|at| rooms[**at] >= left).min_by_key(|at| (rooms[**at], **at));
            taken.push((tight.copied().unwrap_or(domain), left));
            break;
        }
        taken.push((domain, rooms[domain]));
        left -= rooms[domain];
    }
    taken
}

/// What domains beyond the first cost, over all gangs and levels.
pub fn crossings(problem: &Problem<'_>, taken: &Taken) -> u64 {
    let mut sum = 0;
    for gang in taken.iter().filter(|gang| !gang.is_empty()) {
        for (above, price) in problem.tree.above.iter().zip(&problem.prices.crossing) {
            let mut domains: Vec<u32> = gang.iter().map(|(leaf, _)| above[*leaf]).collect();
            domains.sort_unstable();
            domains.dedup();
            sum += price * (domains.len() as u64 - 1);
        }
    }
    sum
}

/// As [`crossings`] for hosts that were given to pools.
pub fn of_hosts(tree: &Tree, pools: usize, hosts: &[Option<u32>]) -> Taken {
    let mut taken: Taken = vec![Vec::new(); pools];
    for (leaf, pool) in tree.leaf_of.iter().zip(hosts) {
        if let Some(pool) = pool {
            taken[*pool as usize].push((*leaf as usize, 1));
        }
    }
    taken
}
