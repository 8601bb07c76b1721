//! What others do with the same gangs, one after the other, from what their documentation and code say.

use std::collections::BTreeMap;

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

/// Slurm's topology/tree: the lowest switch with enough nodes, the tightest such; below it leaf by leaf the tightest
/// that holds the rest, or the largest.
pub fn slurm(problem: &Problem<'_>) -> Taken {
    let tree = problem.tree;
    let mut free = free(problem);
    let mut all = Vec::new();
    for pool in &problem.pools {
        let mut leaves = 0..tree.leaves();
        for level in (0..tree.depth()).rev() {
            let rooms = rooms(tree, &free, level);
            let tight = (0..rooms.len()).filter(|at| rooms[*at] >= pool.nodes).min_by_key(|at| (rooms[*at], *at));
            if let Some(tight) = tight {
                let below = &tree.domains[level][tight].leaves;
                leaves = below.start as usize..below.end as usize;
                break;
            }
        }
        let (mut left, mut taken) = (pool.nodes, Vec::new());
        while left > 0 {
            let mut best: Option<usize> = None;
            for leaf in leaves.clone().filter(|leaf| free[*leaf] > 0) {
                let enough = free[leaf] >= left;
                // As in `_eval_nodes_topo`: the first, the first that is enough, the tightest, or the biggest.
                let is_better = best.is_none_or(|best| {
                    if enough { free[best] < left || free[leaf] < free[best] } else { free[leaf] > free[best] }
                });
                if is_better {
                    best = Some(leaf);
                }
            }
            let Some(leaf) = best else { break };
            let count = free[leaf].min(left);
            free[leaf] -= count;
            left -= count;
            taken.push((leaf, count));
        }
        all.push(taken);
    }
    all
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

/// Domains beyond the first, over all gangs and levels.
pub fn crossings(tree: &Tree, taken: &Taken) -> u64 {
    let mut sum = 0;
    for gang in taken.iter().filter(|gang| !gang.is_empty()) {
        for above in &tree.above {
            let mut domains: Vec<u32> = gang.iter().map(|(leaf, _)| above[*leaf]).collect();
            domains.sort_unstable();
            domains.dedup();
            sum += domains.len() as u64 - 1;
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

/// Nobody can do with fewer crossings: the sum over the levels of what nobody can do with fewer domains on that level.
pub fn at_least(problem: &Problem<'_>) -> u64 {
    let full = free(problem);
    let level = |level| least_domains(problem, &rooms(problem.tree, &full, level)) - problem.pools.len() as u64;
    (0..problem.tree.depth()).map(level).sum()
}

/// A Lagrangian bound: hosts of domains of one size get a price, every gang then takes the cheapest whole domains for
/// itself alone, and what the hosts there would fetch is taken off again. Whatever the prices, no placement has fewer
/// domains; prices rise where more is taken than there is.
fn least_domains(problem: &Problem<'_>, rooms: &[u32]) -> u64 {
    let mut held: BTreeMap<u32, f64> = BTreeMap::new();
    rooms.iter().for_each(|room| *held.entry(*room).or_default() += f64::from(*room));
    let mut gangs: BTreeMap<u32, f64> = BTreeMap::new();
    problem.pools.iter().for_each(|pool| *gangs.entry(pool.nodes).or_default() += 1.0);
    let sizes: Vec<u32> = held.keys().copied().collect();
    let mut prices = vec![0.0; sizes.len()];
    let mut best: f64 = 0.0;
    for round in 0..1_500 {
        let mut used = vec![0.0; sizes.len()];
        let mut bound: f64 = -sizes.iter().zip(&prices).map(|(size, price)| held[size] * price).sum::<f64>();
        let cheapest = cheapest(*gangs.keys().next_back().unwrap_or(&0), &sizes, &prices);
        for (gang, count) in &gangs {
            bound += cheapest[*gang as usize].0 * count;
            let mut left = *gang;
            while left > 0 {
                let (_, size, takes) = cheapest[left as usize];
                used[size] += f64::from(takes) * count;
                left -= takes;
            }
        }
        best = best.max(bound);
        // Polyak's steps, towards a little more than was found.
        let over: Vec<f64> = used.iter().zip(&sizes).map(|(used, size)| used - held[size]).collect();
        let length: f64 = over.iter().map(|over| over * over).sum();
        let step = (best * 1.01 + 1.0 - bound) * 0.5 / length.max(1e-9) * 0.999f64.powi(round);
        for (price, over) in prices.iter_mut().zip(&over) {
            *price = f64::max(0.0, *price + step * over);
        }
    }
    (best - 1e-6).ceil() as u64
}

/// By number of hosts: the least cost, and the last domain's size and how many of it.
fn cheapest(most: u32, sizes: &[u32], prices: &[f64]) -> Vec<(f64, usize, u32)> {
    let mut found = vec![(0.0, 0, 0)];
    for hosts in 1..=most {
        let mut best = (f64::INFINITY, 0, 0);
        for (at, size) in sizes.iter().enumerate() {
            // With a price for each host alike, a domain that is opened is taken whole but for the last one.
            for takes in [(*size).min(hosts)].into_iter().chain(1..(*size).min(hosts)) {
                let cost = found[(hosts - takes) as usize].0 + 1.0 + prices[at] * f64::from(takes);
                if cost < best.0 {
                    best = (cost, at, takes);
                }
            }
        }
        found.push(best);
    }
    found
}
