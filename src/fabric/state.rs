//! A placement while it is being looked for: how many hosts of each group every pool has, and what that is worth.
//!
//! Hosts of one leaf and one class are alike, so only their number counts; which of them a pool gets is settled at the
//! end (`settle`). What a placement is worth is kept up to date with every change, so that a search can try many.

use std::ops::Range;

use super::problem::{Freedom, Problem, SLOTS, Score, Slots};
use super::tree::number;

/// How many hosts of which group, by group.
pub type Share = Vec<(u32, u32)>;

/// Hosts that are alike: of one leaf and one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    pub leaf: u32,
    pub class: u32,
    pub gpus: u32,
    /// Hosts that some pool may have.
    pub size: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Worth {
    unplaced: u64,
    cost: u64,
    moves: u64,
}

#[derive(Clone, Debug)]
pub struct State<'a> {
    pub problem: &'a Problem<'a>,
    pub groups: Vec<Group>,
    /// By leaf.
    pub groups_of: Vec<Range<u32>>,
    /// What each pool has now, as far as it suits.
    pub own: Vec<Share>,
    /// What of that stays in any case.
    pub fixed: Vec<Share>,
    /// How many pools a class suits.
    pub rivals: Vec<u32>,
    /// By pool: who should be apart from it, on which level, and whether that is an order.
    pub apart: Vec<Vec<(u32, usize, bool)>>,
    pub shares: Vec<Share>,
    pub free: Vec<u32>,
    /// By level and domain.
    pub free_gpus: Vec<Vec<u32>>,
    slots: Slots,
    worths: Vec<Worth>,
    sum: Worth,
    any_apart: bool,
}

pub fn total(share: &[(u32, u32)]) -> u32 {
    share.iter().map(|(_, count)| count).sum()
}

impl<'a> State<'a> {
    /// Nothing is placed yet but what is fixed.
    pub fn new(problem: &'a Problem<'a>) -> Self {
        let (groups, groups_of, of_host) = group(problem);
        let pools = problem.pools.len();
        let (mut own, mut fixed) = (vec![Share::new(); pools], vec![Share::new(); pools]);
        for (host, group) in problem.hosts.iter().zip(&of_host) {
            let (Some(group), Some(pool)) = (*group, host.pool) else { continue };
            let pool = pool as usize;
            let stays = host.free == Freedom::Fixed;
            if stays || problem.pools[pool].suits[host.class as usize] {
                add(&mut own[pool], group, 1);
            }
            if stays {
                add(&mut fixed[pool], group, 1);
            }
        }
        let classes = problem.hosts.iter().map(|host| host.class + 1).max().unwrap_or(0);
        let suited = |class: u32| number(problem.pools.iter().filter(|pool| pool.suits[class as usize]).count());
        let mut apart = vec![Vec::new(); pools];
        for (one, pool) in problem.pools.iter().enumerate() {
            let Some(level) = pool.together else { continue };
            for other in &pool.apart {
                apart[one].push((*other, level, pool.required));
                apart[*other as usize].push((number(one), level, pool.required));
            }
        }
        let any_apart = apart.iter().any(|others| !others.is_empty());
        let free: Vec<u32> = groups.iter().map(|group| group.size).collect();
        let free_gpus = problem.tree.domains.iter().map(|domains| vec![0; domains.len()]).collect();
        let mut state = Self {
            problem,
            groups_of,
            own,
            fixed,
            rivals: (0..classes).map(suited).collect(),
            apart,
            shares: vec![Share::new(); pools],
            free,
            free_gpus,
            slots: Slots::default(),
            worths: vec![Worth::default(); pools],
            sum: Worth::default(),
            any_apart,
            groups,
        };
        for group in 0..state.groups.len() {
            let Group { leaf, gpus, size, .. } = state.groups[group];
            state.shift_gpus(leaf, i64::from(gpus * size));
        }
        for pool in 0..pools {
            for (group, count) in state.fixed[pool].clone() {
                state.take(pool, group, count);
            }
            state.weigh(pool);
        }
        state
    }

    fn shift_gpus(&mut self, leaf: u32, change: i64) {
        for (above, free) in self.problem.tree.above.iter().zip(&mut self.free_gpus) {
            let free = &mut free[above[leaf as usize] as usize];
            let before = *free;
            *free = u32::try_from(i64::from(before) + change).unwrap_or(0);
            for (slots, size) in self.slots.0.iter_mut().zip(SLOTS) {
                *slots = *slots + u64::from(*free / size) - u64::from(before / size);
            }
        }
    }

    /// Gives a pool hosts; `weigh` when it has all.
    pub fn take(&mut self, pool: usize, group: u32, count: u32) {
        let Group { leaf, gpus, .. } = self.groups[group as usize];
        self.free[group as usize] -= count;
        add(&mut self.shares[pool], group, count);
        self.shift_gpus(leaf, -i64::from(count * gpus));
    }

    /// Takes everything from a pool but what is fixed, and says what it had.
    pub fn strip(&mut self, pool: usize) -> Share {
        let before = std::mem::take(&mut self.shares[pool]);
        for &(group, count) in &before {
            let Group { leaf, gpus, .. } = self.groups[group as usize];
            self.free[group as usize] += count;
            self.shift_gpus(leaf, i64::from(count * gpus));
        }
        for at in 0..self.fixed[pool].len() {
            let (group, count) = self.fixed[pool][at];
            self.take(pool, group, count);
        }
        before
    }

    /// Gives a pool exactly this share.
    pub fn put(&mut self, pool: usize, share: &[(u32, u32)]) {
        self.strip(pool);
        for &(group, count) in share {
            let fixed = of(&self.fixed[pool], group);
            if count > fixed {
                self.take(pool, group, count - fixed);
            }
        }
        self.weigh(pool);
    }

    pub fn placed(&self, pool: usize) -> u32 {
        total(&self.shares[pool])
    }

    /// What the pool's share is worth, after it changed.
    pub fn weigh(&mut self, pool: usize) {
        let old = self.worths[pool];
        let ask = &self.problem.pools[pool];
        let share = &self.shares[pool];
        let (placed, current) = (total(share), total(&self.own[pool]));
        let kept: u32 = share.iter().map(|&(group, count)| count.min(of(&self.own[pool], group))).sum();
        let moves = u64::from(current.min(ask.nodes).saturating_sub(kept));
        let fragments = self.fragments(share);
        let crossings: u64 = fragments
            .iter()
            .enumerate()
            .map(|(level, count)| u64::from(count.saturating_sub(1)) * self.problem.weight(ask, level))
            .sum();
        let cost = crossings + moves * self.problem.prices.moving;
        let new = Worth { unplaced: u64::from(ask.nodes.saturating_sub(placed)), cost, moves };
        self.worths[pool] = new;
        self.sum.unplaced = self.sum.unplaced + new.unplaced - old.unplaced;
        self.sum.cost = self.sum.cost + new.cost - old.cost;
        self.sum.moves = self.sum.moves + new.moves - old.moves;
    }

    /// By level: how many domains a share touches.
    pub fn fragments(&self, share: &[(u32, u32)]) -> Vec<u32> {
        let above = &self.problem.tree.above;
        let mut counts = vec![0; above.len()];
        let mut last: Option<usize> = None;
        for (group, _) in share {
            let leaf = self.groups[*group as usize].leaf as usize;
            for (count, above) in counts.iter_mut().zip(above) {
                *count += u32::from(last.is_none_or(|last| above[last] != above[leaf]));
            }
            last = Some(leaf);
        }
        counts
    }

    pub fn cost(&self, pool: usize) -> u64 {
        self.worths[pool].cost
    }

    /// Whether a pool has hosts that it did not have: they can be others at no price.
    pub fn has_new(&self, pool: usize) -> bool {
        self.shares[pool].iter().any(|&(group, count)| count > of(&self.own[pool], group))
    }

    pub fn moves(&self, pool: usize) -> u64 {
        self.worths[pool].moves
    }

    /// The domains of a level that a pool touches, in order.
    pub fn domains(&self, pool: usize, level: usize) -> Vec<u32> {
        self.domains_of(&self.shares[pool], level)
    }

    pub fn domains_of(&self, share: &[(u32, u32)], level: usize) -> Vec<u32> {
        let above = &self.problem.tree.above[level];
        let domain = |(group, _): &(u32, u32)| above[self.groups[*group as usize].leaf as usize];
        let mut found: Vec<u32> = share.iter().map(domain).collect();
        found.dedup();
        found
    }

    fn shared(&self) -> u64 {
        let mut sum = 0;
        for (one, pool) in self.problem.pools.iter().enumerate().filter(|(_, pool)| !pool.apart.is_empty()) {
            let Some(level) = pool.together else { continue };
            let mine = self.domains(one, level);
            for other in &pool.apart {
                let theirs = self.domains(*other as usize, level);
                sum += mine.iter().filter(|domain| theirs.binary_search(domain).is_ok()).count() as u64;
            }
        }
        sum
    }

    pub fn score(&self) -> Score {
        Score {
            unplaced: self.sum.unplaced,
            shared: if self.any_apart { self.shared() } else { 0 },
            cost: self.sum.cost,
            slots: self.slots,
            moves: self.sum.moves,
        }
    }
}

/// A problem with exactly these hosts given out, whatever that is worth.
pub fn with_hosts<'a>(problem: &'a Problem<'a>, pools: &[Option<u32>]) -> State<'a> {
    let mut state = State::new(problem);
    let (_, _, of_host) = group(problem);
    let mut shares = vec![Share::new(); problem.pools.len()];
    for (group, pool) in of_host.iter().zip(pools) {
        if let (Some(group), Some(pool)) = (*group, *pool) {
            add(&mut shares[pool as usize], group, 1);
        }
    }
    shares.iter().enumerate().for_each(|(pool, share)| state.put(pool, share));
    state
}

/// How many of a group are in a share.
pub fn of(share: &[(u32, u32)], group: u32) -> u32 {
    share.binary_search_by_key(&group, |(group, _)| *group).map_or(0, |at| share[at].1)
}

fn add(share: &mut Share, group: u32, count: u32) {
    match share.binary_search_by_key(&group, |(group, _)| *group) {
        Ok(at) => share[at].1 += count,
        Err(at) => share.insert(at, (group, count)),
    }
}

type Grouped = (Vec<Group>, Vec<Range<u32>>, Vec<Option<u32>>);

/// The groups by leaf and class, where each leaf's begin and end, and the group of each host that is in one.
fn group(problem: &Problem<'_>) -> Grouped {
    let tree = problem.tree;
    let mut groups: Vec<Group> = Vec::new();
    let mut groups_of = Vec::with_capacity(tree.leaves());
    let mut of_host = vec![None; problem.hosts.len()];
    for (leaf, domain) in tree.domains[tree.depth() - 1].iter().enumerate() {
        let begin = groups.len();
        let (first, last) = (domain.hosts.start as usize, domain.hosts.end as usize);
        for (host, of_host) in problem.hosts[first..last].iter().zip(&mut of_host[first..last]) {
            let has = match host.free {
                Freedom::Usable => true,
                Freedom::Fixed => host.pool.is_some(),
                Freedom::Out => false,
            };
            if !has {
                continue;
            }
            let known = groups[begin..].iter().position(|group| (group.class, group.gpus) == (host.class, host.gpus));
            let group = known.map_or(groups.len(), |known| begin + known);
            if known.is_none() {
                groups.push(Group { leaf: number(leaf), class: host.class, gpus: host.gpus, size: 0 });
            }
            groups[group].size += 1;
            *of_host = Some(number(group));
        }
        groups_of.push(number(begin)..number(groups.len()));
    }
    (groups, groups_of, of_host)
}

/// Which host serves which pool: who has a host that it may keep keeps it, and the rest is given out by name.
pub fn settle(state: &State<'_>) -> Vec<Option<u32>> {
    let (_, _, of_host) = group(state.problem);
    let mut left: Vec<Vec<(u32, u32)>> = vec![Vec::new(); state.groups.len()];
    for (pool, share) in state.shares.iter().enumerate() {
        for &(group, count) in share {
            left[group as usize].push((number(pool), count));
        }
    }
    let mut hosts = vec![None; state.problem.hosts.len()];
    let mut order: Vec<usize> = (0..hosts.len()).filter(|at| of_host[*at].is_some()).collect();
    order.sort_by_key(|at| state.problem.hosts[*at].free != Freedom::Fixed);
    for keeps in [true, false] {
        for &at in &order {
            let Some(group) = of_host[at] else { continue };
            let wanted = &mut left[group as usize];
            let now = state.problem.hosts[at].pool;
            let found = match (keeps, hosts[at]) {
                (_, Some(_)) => None,
                (true, None) => wanted.iter().position(|(pool, count)| *count > 0 && Some(*pool) == now),
                (false, None) => wanted.iter().position(|(_, count)| *count > 0),
            };
            if let Some(found) = found {
                wanted[found].1 -= 1;
                hosts[at] = Some(wanted[found].0);
            }
        }
    }
    hosts
}
