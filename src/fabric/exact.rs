//! The best placement of all, where there are few enough to look at each.

use super::problem::Score;
use super::state::{Share, State, of, total};

/// How many combinations are looked at at most: beyond it nobody tries.
const MOST: u64 = 60_000;

/// One way to place one pool.
#[derive(Debug)]
struct Way {
    share: Share,
    unplaced: u64,
    cost: u64,
}

/// The shares of the best placement; none where there are too many to try.
pub fn solve(state: &State<'_>) -> Option<Vec<Share>> {
    let mut product: u64 = 1;
    for pool in 0..state.shares.len() {
        product = product.checked_mul(ways_at_most(state, pool)?).filter(|product| *product <= MOST)?;
    }
    let mut all = Vec::new();
    for pool in 0..state.shares.len() {
        all.push(ways(state, pool));
    }
    let mut state = state.clone();
    (0..state.shares.len()).for_each(|pool| drop(state.strip(pool)));
    let mut search = Search { all, free: free(&state), chosen: Vec::new(), best: None, state };
    search.step(0, 0);
    let (_, chosen) = search.best?;
    Some(chosen.iter().zip(&search.all).map(|(at, ways)| ways[*at].share.clone()).collect())
}

/// With nothing placed at all, not even what is fixed: a way holds that too.
fn free(state: &State<'_>) -> Vec<u32> {
    state.groups.iter().map(|group| group.size).collect()
}

fn ways_at_most(state: &State<'_>, pool: usize) -> Option<u64> {
    let groups = state.groups.iter().filter(|group| state.problem.pools[pool].suits[group.class as usize]).count();
    let nodes = u64::from(state.problem.pools[pool].nodes);
    // So many out of the groups, with one more for those that get no place.
    let mut count: u64 = 1;
    for at in 1..=nodes {
        count = count.checked_mul(groups as u64 + at)? / at;
        if count > MOST {
            return None;
        }
    }
    Some(count)
}

fn ways(state: &State<'_>, pool: usize) -> Vec<Way> {
    let mut shares = Vec::new();
    grow(state, pool, 0, state.problem.pools[pool].nodes, &mut Share::new(), &mut shares);
    // What a pool costs has nothing to do with where the others are.
    let mut probe = state.clone();
    (0..state.shares.len()).for_each(|other| drop(probe.strip(other)));
    let mut ways = Vec::new();
    for share in shares.into_iter().filter(|share| is_together(state, pool, share)) {
        probe.put(pool, &share);
        let unplaced = u64::from(state.problem.pools[pool].nodes.saturating_sub(total(&share)));
        ways.push(Way { unplaced, cost: probe.cost(pool), share });
    }
    ways.sort_by_key(|way| (way.unplaced, way.cost));
    ways
}

fn grow(state: &State<'_>, pool: usize, group: usize, left: u32, so_far: &mut Share, out: &mut Vec<Share>) {
    let Some(known) = state.groups.get(group) else {
        out.push(so_far.clone());
        return;
    };
    let number = super::tree::number(group);
    let fixed = of(&state.fixed[pool], number);
    let others = |(other, share): (usize, &Share)| if other == pool { 0 } else { of(share, number) };
    let theirs: u32 = state.fixed.iter().enumerate().map(others).sum();
    let suits = state.problem.pools[pool].suits[known.class as usize];
    let most = if suits { (known.size - theirs).min(left) } else { 0 };
    for count in fixed..=most.max(fixed) {
        if count > 0 {
            so_far.push((number, count));
        }
        grow(state, pool, group + 1, left.saturating_sub(count), so_far, out);
        if count > 0 {
            so_far.pop();
        }
    }
}

/// Whether a share keeps the level that its pool requires; what is fixed elsewhere excuses it.
fn is_together(state: &State<'_>, pool: usize, share: &Share) -> bool {
    let ask = &state.problem.pools[pool];
    let Some(level) = ask.together.filter(|_| ask.required) else { return true };
    let most = state.fragments(&state.fixed[pool])[level].max(1);
    state.fragments(share)[level] <= most
}

struct Search<'a> {
    all: Vec<Vec<Way>>,
    free: Vec<u32>,
    chosen: Vec<usize>,
    best: Option<(Score, Vec<usize>)>,
    state: State<'a>,
}

impl Search<'_> {
    fn step(&mut self, unplaced: u64, cost: u64) {
        let pool = self.chosen.len();
        if pool == self.all.len() {
            self.judge();
            return;
        }
        for at in 0..self.all[pool].len() {
            let way = &self.all[pool][at];
            let (unplaced, cost) = (unplaced + way.unplaced, cost + way.cost);
            let is_worse = |best: &Score| {
                unplaced > best.unplaced || (unplaced == best.unplaced && best.shared == 0 && cost > best.cost)
            };
            if self.best.as_ref().is_some_and(|(best, _)| is_worse(best)) {
                continue;
            }
            if way.share.iter().any(|(group, count)| self.free[*group as usize] < *count) {
                continue;
            }
            self.shift(pool, at, true);
            self.chosen.push(at);
            self.step(unplaced, cost);
            self.chosen.pop();
            self.shift(pool, at, false);
        }
    }

    fn shift(&mut self, pool: usize, at: usize, takes: bool) {
        for &(group, count) in &self.all[pool][at].share {
            let free = &mut self.free[group as usize];
            *free = if takes { *free - count } else { *free + count };
        }
    }

    fn judge(&mut self) {
        for pool in 0..self.chosen.len() {
            self.state.strip(pool);
        }
        for pool in 0..self.chosen.len() {
            let share = self.all[pool][self.chosen[pool]].share.clone();
            self.state.put(pool, &share);
        }
        let score = self.state.score();
        if self.best.as_ref().is_none_or(|(best, _)| score < *best) && keeps_orders(&self.state) {
            self.best = Some((score, self.chosen.clone()));
        }
    }
}

/// Whether no pool that requires to be apart shares its level with those it names, but where nodes of both are fixed:
/// nobody can help that, and it keeps nobody else from a better place.
pub fn keeps_orders(state: &State<'_>) -> bool {
    let breaks = |pool: usize, &(other, level, ordered): &(u32, usize, bool)| {
        let other = other as usize;
        let theirs = state.domains(other, level);
        let is_shared = |domain: &u32| theirs.binary_search(domain).is_ok();
        let is_fixed = |pool: usize, domain: u32| state.domains_of(&state.fixed[pool], level).contains(&domain);
        let excused = |domain: u32| is_fixed(pool, domain) && is_fixed(other, domain);
        ordered && state.domains(pool, level).iter().filter(|domain| is_shared(domain)).any(|domain| !excused(*domain))
    };
    (0..state.shares.len()).all(|pool| !state.apart[pool].iter().any(|apart| breaks(pool, apart)))
}
