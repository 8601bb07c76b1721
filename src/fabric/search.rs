//! All pools together: the best placement where that can be found by looking at all, else a good one.
//!
//! Begins with what is there, adds what is missing, and then takes a few pools out again and puts them back in another
//! way, for as long as it is told to; what is worth less than before is undone. The same problem gives the same
//! placement: chance comes from a fixed seed, and effort is counted in steps and not in time.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::exact;
use super::insert::{Scratch, Style, insert, insert_but, insert_own};
use super::problem::{Freedom, Problem, Score};
use super::state::{Share, State, settle, total};
use super::tree::number;

/// Leaves and shares that are looked at, in all: on a fleet of up to so many leaves, and on a larger one, which gets
/// a little worse a placement in a tenth of the time.
const WORK: usize = 96_000_000;
const MANY_LEAVES: usize = 200;
const WORK_OF_MANY: usize = 1_000_000;
/// How often a few pools are put back in another way, at least and at most; and how often for each two of them.
const TRIES: (usize, usize) = (150, 160_000);
const TRIES_FOR_TWO: usize = 256;
/// And how often without anything better coming of it.
const STALE: usize = 60_000;
const STALE_FOR_TWO: usize = 128;
/// One in so many changes that cost one more is kept for a while, one in so many of these that cost two more, and so on.
const BACK: [usize; 2] = [4, 16];
/// After so many tries without anything better it begins again from the best, and steps back more or less often.
const LOST: usize = 1_000;
/// One in so many tries where everybody has nodes already: little pays for a move.
const OF_THOSE_THAT_STAY: usize = 8;
/// One in so many pools is put back anywhere where it costs the least, and not where it leaves the least.
const DRAWN: usize = 2;
/// Leaves and shares that are looked at for larger free slots, once crossings are as few as can be had; and how often
/// pools are put back for it, for each two of those that are new.
const WORK_FOR_SLOTS: usize = 100_000;
const TRIES_FOR_SLOTS: usize = 96;
/// How often a result is taken as what is there and looked at anew, until nothing changes.
const ROUNDS: usize = 8;

/// Where every pool goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// By host, as in the tree: the pool that it is to serve.
    pub hosts: Vec<Option<u32>>,
    pub score: Score,
    /// What would be so if nothing moved.
    pub stay: Score,
}

pub fn place(problem: &Problem<'_>) -> Placement {
    let (state, stay) = solve(problem);
    Placement { hosts: settle(&state), score: state.score(), stay }
}

/// The placement as counts, and the score of one that moves nothing.
pub fn solve<'a>(problem: &'a Problem<'a>) -> (State<'a>, Score) {
    let mut scratch = Scratch::default();
    let start = begin(problem, &mut scratch);
    let stay = start.score();
    let mut best = improve(start, &mut scratch);
    for _ in 1..ROUNDS {
        // Whoever plans again finds this placement there, and shall not move anything then.
        let mut next = problem.clone();
        for (host, pool) in next.hosts.iter_mut().zip(settle(&best)) {
            if host.free == Freedom::Usable {
                host.pool = pool;
            }
        }
        let again = improve(begin(&next, &mut scratch), &mut scratch);
        if again.shares == best.shares {
            break;
        }
        let mut adopted = best.clone();
        adopt(&mut adopted, &again.shares);
        if adopted.score() >= best.score() {
            break;
        }
        best = adopted;
    }
    (best, stay)
}

fn adopt(state: &mut State<'_>, shares: &[Share]) {
    for pool in 0..shares.len() {
        state.strip(pool);
    }
    for (pool, share) in shares.iter().enumerate() {
        state.put(pool, share);
    }
}

/// What is there, and what is missing added to it.
pub fn begin<'a>(problem: &'a Problem<'a>, scratch: &mut Scratch) -> State<'a> {
    let mut empty = State::new(problem);
    let keep = Style { keep: true, ..Style::default() };
    let orders = [by_scarcity(&empty), by_size(problem), (0..problem.pools.len()).collect()];
    // Everybody keeps what they have before anybody gets more.
    for pool in by_size(problem) {
        if !empty.own[pool].is_empty() {
            insert_own(&mut empty, pool, scratch);
        }
    }
    let mut best: Option<State<'a>> = None;
    for (at, order) in orders.iter().enumerate() {
        if orders[..at].contains(order) {
            continue;
        }
        let styles: &[Style] = match at {
            0 => &[keep, Style { small: true, ..keep }, Style { slots: true, ..keep }],
            1 => &[keep, Style { small: true, ..keep }],
            // As they come, each to the largest, as others do it: what is found is not to be worse.
            _ => &[Style { largest: true, ..keep }],
        };
        for &style in styles {
            let mut state = empty.clone();
            order.iter().for_each(|pool| insert(&mut state, *pool, style, scratch));
            if best.as_ref().is_none_or(|best| state.score() < best.score()) {
                best = Some(state);
            }
        }
    }
    best.unwrap_or(empty)
}

/// Those first that may only be in few places, then the large ones.
fn by_scarcity(state: &State<'_>) -> Vec<usize> {
    let problem = state.problem;
    let suited = |pool: &usize| -> u32 {
        let suits = |group: &&super::state::Group| problem.pools[*pool].suits[group.class as usize];
        state.groups.iter().filter(suits).map(|group| group.size).sum()
    };
    let mut order: Vec<usize> = (0..problem.pools.len()).collect();
    order.sort_by_cached_key(|pool| {
        let ask = &problem.pools[*pool];
        (!ask.required, suited(pool), std::cmp::Reverse(ask.nodes), *pool)
    });
    order
}

fn by_size(problem: &Problem<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..problem.pools.len()).collect();
    order.sort_by_key(|pool| (std::cmp::Reverse(problem.pools[*pool].nodes), *pool));
    order
}

fn improve<'a>(mut state: State<'a>, scratch: &mut Scratch) -> State<'a> {
    if let Some(shares) = exact::solve(&state) {
        adopt(&mut state, &shares);
        return state;
    }
    let alone = alone(&state);
    let entries: usize = state.shares.iter().map(Vec::len).sum();
    let work = state.problem.tree.leaves() * 3 + entries;
    let most = if state.problem.tree.leaves() > MANY_LEAVES { WORK_OF_MANY } else { WORK };
    let pairs = alone.len() * alone.len();
    let part = if stays(&state) { OF_THOSE_THAT_STAY } else { 1 };
    let tries = (most / work.max(1)).clamp(TRIES.0, TRIES.1).min(TRIES_FOR_TWO * pairs) / part;
    let stale = STALE.min(STALE_FOR_TWO * pairs) / part;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut score = state.score();
    let mut best: (Score, Vec<Share>) = (score, state.shares.clone());
    let lost = LOST.max(stale / 24);
    let mut since = 0;
    for _ in 0..tries {
        since += 1;
        let unhappy: Vec<usize> = (0..alone.len())
            .filter(|pool| state.cost(*pool) > alone[*pool] || state.placed(*pool) < state.problem.pools[*pool].nodes)
            .collect();
        if unhappy.is_empty() || since > stale {
            break;
        }
        if since % lost == 0 {
            adopt(&mut state, &best.1);
            score = best.0;
        }
        let out = ruin(&state, &unhappy, &mut dice);
        let before: Vec<Share> = out.iter().map(|pool| state.strip(*pool)).collect();
        for pool in &out {
            let style = dice.style();
            let leaf = number(dice.below(state.problem.tree.leaves()));
            let without = (dice.below(4) == 0).then(|| leaf..leaf + 1);
            insert_but(&mut state, *pool, style, scratch, without.as_slice());
        }
        let new = state.score();
        // A step back now and then leads out of where no single step helps.
        let back = dice.steps_back(BACK[since / lost % 2]);
        let is_near = (new.unplaced, new.shared) == (score.unplaced, score.shared) && new.cost <= score.cost + back;
        let is_better = new <= score || (is_near && back > 0);
        if !is_better || !exact::keeps_orders(&state) {
            out.iter().for_each(|pool| drop(state.strip(*pool)));
            out.iter().zip(&before).for_each(|(pool, share)| state.put(*pool, share));
            continue;
        }
        score = new;
        if score < best.0 {
            best = (score, state.shares.clone());
            since = 0;
        }
    }
    adopt(&mut state, &best.1);
    widen(&mut state, &mut dice, work, scratch);
    state
}

/// Larger free slots at the same price: pools that are new anyway are taken out and put back elsewhere. What is worth as
/// much is kept too, because it often takes two to open a hole.
fn widen(state: &mut State<'_>, dice: &mut Dice, work: usize, scratch: &mut Scratch) {
    let new: Vec<usize> = (0..state.shares.len()).filter(|pool| state.has_new(*pool)).collect();
    let tries = (WORK_FOR_SLOTS / work.max(1)).min(TRIES_FOR_SLOTS * new.len() * new.len());
    let mut score = state.score();
    let mut best: (Score, Vec<Share>) = (score, state.shares.clone());
    for _ in 0..tries {
        let mut out: Vec<usize> = Vec::new();
        for _ in 0..1 + dice.below(new.len().min(4)) {
            let pick = new[dice.below(new.len())];
            if !out.contains(&pick) {
                out.push(pick);
            }
        }
        let before: Vec<Share> = out.iter().map(|pool| state.strip(*pool)).collect();
        for (pool, was) in out.iter().zip(&before) {
            let style = Style { slots: dice.below(4) > 0, even: false, ..dice.style() };
            // Now and then anywhere but where it was, or in one part of the fabric only, whatever looks best.
            let leaves = number(state.problem.tree.leaves());
            let leaf = was.first().map(|(group, _)| state.groups[*group as usize].leaf);
            let cut = number(dice.below(leaves as usize));
            let without = match dice.below(6) {
                0 | 1 => leaf.map(|leaf| leaf..leaf + 1),
                2 => Some(0..cut),
                3 => Some(cut..leaves),
                _ => None,
            };
            insert_but(state, *pool, style, scratch, without.as_slice());
        }
        let now = state.score();
        if now > score || !exact::keeps_orders(state) {
            out.iter().for_each(|pool| drop(state.strip(*pool)));
            out.iter().zip(&before).for_each(|(pool, share)| state.put(*pool, share));
            continue;
        }
        score = now;
        if score < best.0 {
            best = (score, state.shares.clone());
        }
    }
    adopt(state, &best.1);
}

/// Whether everybody has nodes already, and each that moves costs something.
fn stays(state: &State<'_>) -> bool {
    let has = |(own, pool): (&Share, &super::Ask)| total(own) >= pool.nodes;
    state.problem.prices.moving > 0 && state.own.iter().zip(&state.problem.pools).all(has)
}

/// By pool: what it would cost at least if it had all to itself, which no placement is below.
fn alone(state: &State<'_>) -> Vec<u64> {
    let mut rooms: BTreeMap<&[bool], Vec<Vec<u32>>> = BTreeMap::new();
    let least = state.problem.pools.iter().zip(&state.fixed).map(|(pool, fixed)| {
        let largest = rooms.entry(&pool.suits).or_insert_with(|| largest_rooms(state, &pool.suits));
        let fixed = state.fragments(fixed);
        let of_level = |(level, sums): (usize, &Vec<u32>)| {
            let domains = sums.partition_point(|sum| *sum < pool.nodes) as u64 + 1;
            let domains = domains.min(sums.len() as u64).max(u64::from(fixed[level]));
            domains.saturating_sub(1) * state.problem.weight(pool, level)
        };
        largest.iter().enumerate().map(of_level).sum()
    });
    least.collect()
}

/// By level: how many hosts of these classes the largest domain has, the two largest, and so on.
fn largest_rooms(state: &State<'_>, suits: &[bool]) -> Vec<Vec<u32>> {
    let sums = state.problem.tree.above.iter().zip(&state.problem.tree.domains).map(|(above, domains)| {
        let mut rooms = vec![0; domains.len()];
        for group in state.groups.iter().filter(|group| suits[group.class as usize]) {
            rooms[above[group.leaf as usize] as usize] += group.size;
        }
        rooms.sort_unstable_by_key(|room| std::cmp::Reverse(*room));
        let mut sum = 0;
        rooms.iter_mut().for_each(|room| {
            sum += *room;
            *room = sum;
        });
        rooms
    });
    sums.collect()
}

/// An unhappy pool and a few others, in the order in which they are put back.
fn ruin(state: &State<'_>, unhappy: &[usize], dice: &mut Dice) -> Vec<usize> {
    let pools = state.shares.len();
    let first = unhappy[dice.below(unhappy.len())];
    let mut out = vec![first];
    let many = 1 + dice.below(7);
    let near: Vec<usize> = if dice.below(3) > 0 {
        let depth = state.problem.tree.depth();
        let level = if dice.below(3) > 0 { depth - 1 } else { dice.below(depth) };
        let domains = state.domains(first, level);
        let is_near = |pool: &usize| {
            *pool != first && state.domains(*pool, level).iter().any(|at| domains.binary_search(at).is_ok())
        };
        (0..pools).filter(is_near).collect()
    } else {
        unhappy.to_vec()
    };
    for _ in 0..many {
        let pick = if near.is_empty() { dice.below(pools) } else { near[dice.below(near.len())] };
        if !out.contains(&pick) {
            out.push(pick);
        }
    }
    match dice.below(3) {
        0 => out.sort_by_key(|pool| (std::cmp::Reverse(state.problem.pools[*pool].nodes), *pool)),
        1 => out.reverse(),
        _ => {
            let swap = dice.below(out.len());
            out.swap(0, swap);
        }
    }
    out
}

/// Chance that is the same every time (xorshift).
struct Dice(u64);

impl Dice {
    fn style(&mut self) -> Style {
        let (keep, largest, small) = (self.below(4) == 0, self.below(3) == 0, self.below(2) == 0);
        let drawn = if self.below(DRAWN) == 0 { NonZeroU32::new(number(self.below(u32::MAX as usize))) } else { None };
        let even = self.below(2) == 0;
        Style { keep, largest, small, slots: false, even, drawn }
    }

    /// Mostly none.
    fn steps_back(&mut self, one_in: usize) -> u64 {
        let mut steps = 0;
        while self.below(one_in) == 0 {
            steps += 1;
        }
        steps
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % most.max(1) as u64).unwrap_or(0)
    }
}
