//! Why a pool is where it is, and what the next best place would have cost.

use super::insert::{Scratch, Style, insert_but};
use super::state::{State, total};

/// Where one pool is, in words that can be counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    pub pool: u32,
    /// Nodes with a place.
    pub placed: u32,
    /// By level: how many domains it touches.
    pub fragments: Vec<u32>,
    /// How many nodes in which leaf.
    pub leaves: Vec<(u32, u32)>,
    /// What its crossings cost.
    pub cost: u64,
    /// How many nodes another pool had, or it had elsewhere.
    pub moves: u64,
    /// The finest level on which it is in one domain, and that domain; none where it is in several of the topmost.
    pub within: Option<(usize, u32)>,
    pub next: Option<NextBest>,
}

/// The best place without the one that was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NextBest {
    pub leaves: Vec<(u32, u32)>,
    /// Nodes that would have no place there.
    pub unplaced: u32,
    /// What more its crossings would cost; with fewer crossings elsewhere less than nothing.
    pub more: i64,
    /// Nodes that would have to move for it.
    pub moves: u64,
}

/// The reason of every pool.
pub fn reasons(state: &State<'_>) -> Vec<Reason> {
    let mut probe = state.clone();
    let mut scratch = Scratch::default();
    (0..state.shares.len()).map(|pool| reason(&mut probe, pool, &mut scratch)).collect()
}

fn reason(state: &mut State<'_>, pool: usize, scratch: &mut Scratch) -> Reason {
    let share = state.shares[pool].clone();
    let fragments = state.fragments(&share);
    let leaves = leaves(state, pool);
    let finest = fragments.iter().rposition(|count| *count == 1);
    let within =
        finest.zip(leaves.first()).map(|(level, (leaf, _))| (level, state.problem.tree.above[level][*leaf as usize]));
    let moving = state.problem.prices.moving;
    let (placed, moves) = (total(&share), state.moves(pool));
    let cost = state.cost(pool) - moves * moving;
    let next = (placed > 0).then(|| next(state, pool, scratch, within, &leaves));
    let next = next.flatten().map(|(leaves, found, next_cost, next_moves)| NextBest {
        leaves,
        unplaced: placed.saturating_sub(found),
        more: signed(next_cost) - signed(cost),
        moves: next_moves,
    });
    state.put(pool, &share);
    Reason { pool: super::tree::number(pool), placed, fragments, leaves, cost, moves, within, next }
}

type Found = (Vec<(u32, u32)>, u32, u64, u64);

/// Without the domain that holds it, or without its largest part.
fn next(
    state: &mut State<'_>,
    pool: usize,
    scratch: &mut Scratch,
    within: Option<(usize, u32)>,
    leaves: &[(u32, u32)],
) -> Option<Found> {
    let tree = state.problem.tree;
    let without = match within {
        Some((level, domain)) => tree.domains[level][domain as usize].leaves.clone(),
        None => {
            let (leaf, _) = leaves.iter().max_by_key(|(leaf, count)| (*count, std::cmp::Reverse(*leaf)))?;
            *leaf..leaf + 1
        }
    };
    state.strip(pool);
    insert_but(state, pool, Style::default(), scratch, Some(&without));
    let found = state.placed(pool);
    let moves = state.moves(pool);
    let cost = state.cost(pool) - moves * state.problem.prices.moving;
    (found > 0).then(|| (self::leaves(state, pool), found, cost, moves))
}

/// How many nodes of a pool are in which leaf.
pub fn leaves(state: &State<'_>, pool: usize) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for &(group, count) in &state.shares[pool] {
        let leaf = state.groups[group as usize].leaf;
        match found.last_mut().filter(|(last, _)| *last == leaf) {
            Some((_, known)) => *known += count,
            None => found.push((leaf, count)),
        }
    }
    found
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
