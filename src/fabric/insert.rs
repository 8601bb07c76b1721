//! One more pool on what is free: the fewest crossings for it, then the tightest holes.
//!
//! From the top down: one domain that holds all of it, the one with the least cost inside and the least left over; where
//! none does, as few as possible, if there are any that together hold exactly so many. What the pool has already is
//! never opened twice, and hosts that it has now are taken first.

use std::cmp::Reverse;
use std::num::NonZeroU32;
use std::ops::Range;

use super::problem::SLOTS;
use super::state::{State, of, total};
use super::tree::Tree;

/// How many steps the look for an exact sum may take.
const SUM_STEPS: u32 = 300;

/// How a pool is put in: a search varies it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// First what it has now, as far as that goes.
    pub keep: bool,
    /// Where several domains are needed: the largest, and not those that add up.
    pub largest: bool,
    /// Where several domains add up: from the small ones.
    pub small: bool,
    /// Of places that cost the same: where the fewest and smallest free slots are lost, and not where the least is left.
    pub slots: bool,
    /// Of places that cost the same: where the least is left in leaves that are taken from, and not in the domain.
    pub even: bool,
    /// Of places that cost the same, and of domains that together hold enough: any, by this number. None: the tightest.
    pub drawn: Option<NonZeroU32>,
}

/// Kept between insertions, so that nothing is allocated anew.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// By leaf.
    room: Vec<u32>,
    /// Sums of it from the left.
    before: Vec<u32>,
    /// By leaf: hosts that the pool has now.
    credit: Vec<u32>,
    /// By level and domain: whether the pool is there.
    present: Vec<Vec<bool>>,
    banned: Vec<bool>,
    weights: Vec<i64>,
    moving: i64,
    takes: Vec<(u32, u32)>,
}

/// Places as many of a pool's missing nodes as fit, and weighs it.
pub fn insert(state: &mut State<'_>, pool: usize, style: Style, scratch: &mut Scratch) {
    insert_but(state, pool, style, scratch, &[]);
}

/// Places only what the pool has now.
pub fn insert_own(state: &mut State<'_>, pool: usize, scratch: &mut Scratch) {
    fill(state, pool, Style::default(), scratch, true, &[]);
    state.weigh(pool);
}

/// The same without some leaves.
pub fn insert_but(state: &mut State<'_>, pool: usize, style: Style, scratch: &mut Scratch, without: &[Range<u32>]) {
    if style.keep && !state.own[pool].is_empty() {
        fill(state, pool, style, scratch, true, without);
    }
    fill(state, pool, style, scratch, false, without);
    state.weigh(pool);
}

fn fill(state: &mut State<'_>, pool: usize, style: Style, scratch: &mut Scratch, own: bool, without: &[Range<u32>]) {
    let ask = &state.problem.pools[pool];
    let tree = state.problem.tree;
    let missing = ask.nodes.saturating_sub(state.placed(pool));
    if missing == 0 {
        return;
    }
    scratch.measure(state, pool, own, false, without);
    if !ask.required && scratch.all() < missing && !state.apart[pool].is_empty() {
        // Rather beside a neighbour that should be elsewhere than nowhere.
        scratch.measure(state, pool, own, true, without);
    }
    let classes = state.groups.iter().filter(|group| ask.suits[group.class as usize]);
    let gpus = classes.map(|group| group.gpus).max().unwrap_or(0);
    let finder = Finder { tree, scratch, style, free: &state.free_gpus, gpus };
    let mut takes = Vec::new();
    match ask.together.filter(|_| ask.required) {
        Some(level) => {
            if let Some((domain, count)) = finder.best_of(level, missing) {
                finder.inside(level, domain, count, &mut Some(&mut takes));
            }
        }
        None => {
            let count = missing.min(finder.scratch.all());
            if count > 0 {
                let top = 0..super::tree::number(tree.domains[0].len());
                finder.among(0, top, count, &mut Some(&mut takes));
            }
        }
    }
    scratch.takes = takes;
    for at in 0..scratch.takes.len() {
        let (leaf, count) = scratch.takes[at];
        spread(state, pool, leaf, count, own);
    }
}

/// Takes hosts of one leaf: those that the pool has, then of the class that the fewest others could use.
fn spread(state: &mut State<'_>, pool: usize, leaf: u32, count: u32, own: bool) {
    let range = state.groups_of[leaf as usize].clone();
    let suits =
        |state: &State<'_>, group: u32| state.problem.pools[pool].suits[state.groups[group as usize].class as usize];
    let mut left = count;
    for group in range.clone().filter(|group| suits(state, *group)).collect::<Vec<u32>>() {
        let mine = of(&state.own[pool], group).saturating_sub(of(&state.shares[pool], group));
        let count = mine.min(state.free[group as usize]).min(left);
        if count > 0 {
            state.take(pool, group, count);
            left -= count;
        }
    }
    if own || left == 0 {
        return;
    }
    let mut order: Vec<u32> = range.filter(|group| suits(state, *group)).collect();
    order.sort_by_key(|group| (state.rivals[state.groups[*group as usize].class as usize], *group));
    for group in order {
        let count = state.free[group as usize].min(left);
        if count > 0 {
            state.take(pool, group, count);
            left -= count;
        }
    }
}

impl Scratch {
    fn all(&self) -> u32 {
        self.before.last().copied().unwrap_or(0)
    }

    fn measure(&mut self, state: &State<'_>, pool: usize, own: bool, beside: bool, without: &[Range<u32>]) {
        let tree = state.problem.tree;
        let ask = &state.problem.pools[pool];
        let leaves = tree.leaves();
        self.weights = (0..tree.depth()).map(|level| weight(state.problem.weight(ask, level))).collect();
        self.moving = weight(state.problem.prices.moving);
        self.credit.clear();
        self.credit.resize(leaves, 0);
        for &(group, count) in &state.own[pool] {
            let left = count.saturating_sub(of(&state.shares[pool], group)).min(state.free[group as usize]);
            self.credit[state.groups[group as usize].leaf as usize] += left;
        }
        self.mark(state, pool, beside);
        self.room.clear();
        self.before.clear();
        self.before.push(0);
        let mut sum = 0;
        for leaf in 0..leaves {
            let is_out =
                self.banned[leaf] || without.iter().any(|without| without.contains(&super::tree::number(leaf)));
            let room = if is_out {
                0
            } else if own {
                self.credit[leaf]
            } else {
                let range = state.groups_of[leaf].start as usize..state.groups_of[leaf].end as usize;
                let suits = |group: &usize| ask.suits[state.groups[*group].class as usize];
                range.filter(suits).map(|group| state.free[group]).sum()
            };
            self.room.push(room);
            sum += room;
            self.before.push(sum);
        }
    }

    /// Where the pool is already, and where it may not be.
    fn mark(&mut self, state: &State<'_>, pool: usize, beside: bool) {
        let tree = state.problem.tree;
        self.present.resize(tree.depth(), Vec::new());
        for (present, domains) in self.present.iter_mut().zip(&tree.domains) {
            present.clear();
            present.resize(domains.len(), false);
        }
        for (group, _) in &state.shares[pool] {
            let leaf = state.groups[*group as usize].leaf as usize;
            for (present, above) in self.present.iter_mut().zip(&tree.above) {
                present[above[leaf] as usize] = true;
            }
        }
        self.banned.clear();
        self.banned.resize(tree.leaves(), false);
        for &(other, level, ordered) in &state.apart[pool] {
            if beside && !ordered {
                continue;
            }
            for domain in state.domains(other as usize, level) {
                let leaves = &tree.domains[level][domain as usize].leaves;
                self.banned[leaves.start as usize..leaves.end as usize].fill(true);
            }
        }
    }
}

fn weight(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX >> 20)
}

struct Finder<'a> {
    tree: &'a Tree,
    scratch: &'a Scratch,
    style: Style,
    /// By level and domain, and how many of them one host has.
    free: &'a [Vec<u32>],
    gpus: u32,
}

/// What a place costs, and then the free slots that are lost by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Rate {
    cost: i64,
    lost: Lost,
}

impl std::ops::Add for Rate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cost: self.cost + other.cost, lost: self.lost + other.lost }
    }
}

impl std::iter::Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}

/// Free slots that are lost, the largest in the highest of five digits.
type Lost = u128;
const DIGIT: usize = 24;

/// What is lost where so many of a domain's free GPUs are taken.
fn lost(free: u32, taken: u32) -> Lost {
    let left = free.saturating_sub(taken);
    let digit = |lost: Lost, size: &u32| (lost << DIGIT) + Lost::from(free / size - left / size);
    SLOTS.iter().fold(0, digit)
}

/// Where the chosen leaves go, if somebody wants to know them.
type Takes<'t> = Option<&'t mut Vec<(u32, u32)>>;

impl Finder<'_> {
    fn room(&self, level: usize, domain: u32) -> u32 {
        let leaves = &self.tree.domains[level][domain as usize].leaves;
        self.scratch.before[leaves.end as usize] - self.scratch.before[leaves.start as usize]
    }

    /// What it costs to take so many from a domain, open or not.
    fn opening(&self, level: usize, domain: u32, count: u32) -> Rate {
        let cost = if self.scratch.present[level][domain as usize] { 0 } else { self.scratch.weights[level] };
        let taken = || lost(self.free[level][domain as usize], count.saturating_mul(self.gpus));
        Rate { cost, lost: if self.style.slots { taken() } else { 0 } }
    }

    /// The domain of a level that takes the most of `count`, then the cheapest and tightest; only where the pool is, if
    /// it is anywhere.
    fn best_of(&self, level: usize, count: u32) -> Option<(u32, u32)> {
        let present = &self.scratch.present[level];
        let is_somewhere = present.contains(&true);
        let may = |domain: &u32| !is_somewhere || present[*domain as usize];
        let all = (0..super::tree::number(self.tree.domains[level].len())).filter(may);
        let rated = all.filter_map(|domain| {
            let room = self.room(level, domain);
            let takes = room.min(count);
            let rate = || self.opening(level, domain, takes) + self.inside(level, domain, takes, &mut None);
            (takes > 0).then(|| (Reverse(takes), rate(), room - takes, domain))
        });
        rated.min().map(|(Reverse(takes), _, _, domain)| (domain, takes))
    }

    /// What it costs to take so many from a domain that is open.
    fn inside(&self, level: usize, domain: u32, count: u32, takes: &mut Takes<'_>) -> Rate {
        if level + 1 == self.tree.depth() {
            if let Some(takes) = takes {
                takes.push((domain, count));
            }
            let cost = -self.scratch.moving * i64::from(count.min(self.scratch.credit[domain as usize]));
            let left = if self.style.even { self.room(level, domain) - count } else { 0 };
            return Rate { cost, lost: Lost::from(left) };
        }
        self.among(level + 1, self.tree.domains[level][domain as usize].children.clone(), count, takes)
    }

    /// The same over several domains of one level.
    fn among(&self, level: usize, domains: Range<u32>, count: u32, takes: &mut Takes<'_>) -> Rate {
        let alone = |domain: u32| {
            let room = self.room(level, domain);
            let rate = || self.opening(level, domain, count) + self.inside(level, domain, count, &mut None);
            (room >= count).then(|| (rate(), self.style.rank(domain).unwrap_or(room - count), domain))
        };
        let single = domains.clone().filter_map(alone).min();
        let is_somewhere = domains.clone().any(|at| self.scratch.present[level][at as usize]);
        let several = if single.is_none() || is_somewhere { self.several(level, domains, count) } else { Vec::new() };
        let rate_of = |parts: &[(u32, u32)]| -> Rate {
            let rate =
                |&(at, count): &(u32, u32)| self.opening(level, at, count) + self.inside(level, at, count, &mut None);
            parts.iter().map(rate).sum()
        };
        let (rate, parts) = match single {
            Some((rate, _, domain)) if several.len() < 2 || rate.cost <= rate_of(&several).cost => {
                (rate, vec![(domain, count)])
            }
            _ => (if takes.is_some() { Rate::default() } else { rate_of(&several) }, several),
        };
        if takes.is_some() {
            for (domain, count) in parts {
                self.inside(level, domain, count, takes);
            }
        }
        rate
    }

    /// As few domains as hold so many: those first where the pool is already.
    fn several(&self, level: usize, domains: Range<u32>, count: u32) -> Vec<(u32, u32)> {
        let mut known: Vec<(u32, u32)> = Vec::new();
        let mut others: Vec<(u32, u32)> = Vec::new();
        for domain in domains {
            let room = self.room(level, domain);
            if room > 0 {
                let is_known = self.scratch.present[level][domain as usize];
                if is_known { &mut known } else { &mut others }.push((room, domain));
            }
        }
        let there: u32 = total(&known.iter().map(|(room, domain)| (*domain, *room)).collect::<Vec<_>>());
        if there >= count {
            return self.fewest(known, count);
        }
        let mut parts: Vec<(u32, u32)> = known.into_iter().map(|(room, domain)| (domain, room)).collect();
        parts.append(&mut self.fewest(others, count - there));
        parts
    }

    /// The fewest of these rooms that hold `count`, exactly where that can be had.
    fn fewest(&self, mut rooms: Vec<(u32, u32)>, count: u32) -> Vec<(u32, u32)> {
        rooms.sort_unstable_by_key(|(room, domain)| (Reverse(*room), *domain));
        let mut least = 0;
        let mut sum = 0;
        while sum < count && least < rooms.len() {
            sum += rooms[least].0;
            least += 1;
        }
        if self.style.drawn.is_some() && sum >= count {
            return self.any(rooms, least, count);
        }
        if !self.style.largest && least > 1 {
            if self.style.small {
                rooms.reverse();
            }
            let mut chosen = Vec::new();
            let mut look = Exact { rooms: &rooms, steps: SUM_STEPS, down: !self.style.small };
            if sum > count && look.find(0, least, count, &mut chosen) {
                return chosen.into_iter().map(|at| (rooms[at].1, rooms[at].0)).collect();
            }
            if self.style.small {
                rooms.reverse();
            }
        }
        let mut parts: Vec<(u32, u32)> = Vec::new();
        let mut left = count;
        for at in 0..least {
            let (room, domain) = rooms[at];
            if room >= left {
                let tight = rooms[at..].iter().filter(|(room, _)| *room >= left).min_by_key(|(room, at)| (*room, *at));
                parts.push((tight.map_or(domain, |(_, domain)| *domain), left));
                break;
            }
            parts.push((domain, room));
            left -= room;
        }
        parts
    }

    /// So many of these rooms, the largest first, that hold `count`: all but the last are filled. Whatever the best placement
    /// is, its pools can be put in one after the other like this.
    fn any(&self, mut rooms: Vec<(u32, u32)>, many: usize, count: u32) -> Vec<(u32, u32)> {
        let mut parts = Vec::with_capacity(many);
        let mut left = count;
        for last in (0..many).rev() {
            let holds = |at: usize| {
                let (room, _) = rooms[at];
                let others = (0..rooms.len()).filter(|other| *other != at).take(last);
                let is_filled = last == 0 || room < left;
                is_filled && room + others.map(|other| rooms[other].0).sum::<u32>() >= left
            };
            let fit = (0..rooms.len()).filter(|at| holds(*at)).min_by_key(|at| self.style.rank(rooms[*at].1));
            let Some(at) = fit else { break };
            let (room, domain) = rooms.remove(at);
            parts.push((domain, room.min(left)));
            left -= room.min(left);
        }
        parts
    }
}

impl Style {
    /// Where a domain stands in an order that the number draws.
    fn rank(self, domain: u32) -> Option<u32> {
        let mixed = (domain ^ self.drawn?.get()).wrapping_mul(0x9E37_79B1);
        Some((mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA77))
    }
}

/// The look for so many rooms that add up exactly.
struct Exact<'a> {
    rooms: &'a [(u32, u32)],
    steps: u32,
    /// Whether the rooms come largest first.
    down: bool,
}

impl Exact<'_> {
    fn find(&mut self, from: usize, many: usize, sum: u32, chosen: &mut Vec<usize>) -> bool {
        if many == 0 {
            return sum == 0;
        }
        for at in from..self.rooms.len().saturating_sub(many - 1) {
            let room = self.rooms[at].0;
            // From here on all are at most, or at least, as large as this one.
            let most = u64::from(room) * many as u64;
            if self.steps == 0 || if self.down { most < u64::from(sum) } else { most > u64::from(sum) } {
                return false;
            }
            self.steps -= 1;
            if room > sum || (at > from && self.rooms[at - 1].0 == room) {
                continue;
            }
            chosen.push(at);
            if self.find(at + 1, many - 1, sum - room, chosen) {
                return true;
            }
            chosen.pop();
        }
        false
    }
}
