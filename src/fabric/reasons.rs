//! Why a pool is where it is, and what the next best place would have cost.

use std::cmp::Reverse;
use std::ops::Range;

use super::insert::{Scratch, Style, insert_but};
use super::state::{Share, State, of, total};

/// How many of its leaves a pool is taken out of, each by itself, where there is no room for it without all of them.
const LEAVES: usize = 8;

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
    /// It has nodes, and none of them can be given another place.
    pub fixed: bool,
    pub next: Option<NextBest>,
}

/// The best place without the leaves that were chosen. Where that has no room for all of them, without one of these
/// leaves; and where that has none either, as many as find room elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NextBest {
    /// Where nodes would be that are elsewhere now, and how many; the others would be where they are.
    pub leaves: Vec<(u32, u32)>,
    /// Nodes that would have no place there.
    pub unplaced: u32,
    /// What more its crossings would cost; with fewer crossings elsewhere less than nothing.
    pub more: i64,
    /// Nodes that would have to move for it.
    pub moves: u64,
}

/// The reason of every pool. `stay` has the hosts that each pool keeps wherever the others would go, those that are
/// fixed with them.
pub fn reasons(state: &State<'_>, stay: &[Share]) -> Vec<Reason> {
    let mut probe = state.clone();
    probe.fixed = stay.to_vec();
    let mut scratch = Scratch::default();
    (0..state.shares.len()).map(|pool| reason(&mut probe, pool, &mut scratch)).collect()
}

fn reason(state: &mut State<'_>, pool: usize, scratch: &mut Scratch) -> Reason {
    let share = state.shares[pool].clone();
    let fragments = state.fragments(&share);
    let leaves = leaves(state, &share);
    let finest = fragments.iter().rposition(|count| *count == 1);
    let within =
        finest.zip(leaves.first()).map(|(level, (leaf, _))| (level, state.problem.tree.above[level][*leaf as usize]));
    let (placed, moves, cost) = (total(&share), state.moves(pool), crossings(state, pool));
    let goes = goes(state, pool);
    let found = if goes.is_empty() { None } else { next(state, pool, scratch, &goes, cost) };
    let next = found.map(|next| NextBest { leaves: beyond(&next.leaves, &leaves), ..next });
    state.put(pool, &share);
    let fixed = placed > 0 && goes.is_empty();
    Reason { pool: super::tree::number(pool), placed, fragments, leaves, cost, moves, within, fixed, next }
}

fn crossings(state: &State<'_>, pool: usize) -> u64 {
    state.cost(pool) - state.moves(pool) * state.problem.prices.moving
}

/// The leaves with nodes that could be elsewhere, with how many: those with the most first.
fn goes(state: &State<'_>, pool: usize) -> Vec<(u32, u32)> {
    let mut found = beyond(&leaves(state, &state.shares[pool]), &leaves(state, &state.fixed[pool]));
    found.sort_by_key(|(leaf, count)| (Reverse(*count), *leaf));
    found
}

/// What some leaves have more than others.
fn beyond(these: &[(u32, u32)], others: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let more = |&(leaf, count): &(u32, u32)| (leaf, count.saturating_sub(of(others, leaf)));
    these.iter().map(more).filter(|(_, count)| *count > 0).collect()
}

fn next(state: &mut State<'_>, pool: usize, scratch: &mut Scratch, goes: &[(u32, u32)], cost: u64) -> Option<NextBest> {
    let placed = state.placed(pool);
    let mut without = |ranges: &[Range<u32>]| {
        state.strip(pool);
        insert_but(state, pool, Style::default(), scratch, ranges);
        let unplaced = placed.saturating_sub(state.placed(pool));
        let more = signed(crossings(state, pool)) - signed(cost);
        NextBest { leaves: leaves(state, &state.shares[pool]), unplaced, more, moves: state.moves(pool) }
    };
    let ranges: Vec<Range<u32>> = goes.iter().map(|(leaf, _)| *leaf..*leaf + 1).collect();
    let elsewhere = without(&ranges);
    if elsewhere.unplaced == 0 {
        return Some(elsewhere);
    }
    // Of one leaf that is all there is to try.
    let single = ranges.iter().filter(|_| ranges.len() > 1).take(LEAVES);
    let found: Vec<NextBest> = single.map(|leaf| without(std::slice::from_ref(leaf))).collect();
    let moving = signed(state.problem.prices.moving);
    let price = |next: &NextBest| next.more.saturating_add(signed(next.moves).saturating_mul(moving));
    let whole = found.into_iter().filter(|next| next.unplaced == 0).min_by_key(|next| (price(next), next.moves));
    whole.or_else(|| {
        let stay = leaves(state, &state.fixed[pool]);
        let found = total(&beyond(&elsewhere.leaves, &stay));
        (found > 0).then(|| NextBest { unplaced: total(goes) - found, ..elsewhere })
    })
}

/// How many nodes of a share are in which leaf.
pub fn leaves(state: &State<'_>, share: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for &(group, count) in share {
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
