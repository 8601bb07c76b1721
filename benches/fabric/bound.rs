//! How few crossings there can be at all, for gangs that are placed together.
//!
//! Draw a line from each gang to each domain of a level in which it has hosts, and take a free host for a gang of one,
//! which crosses nothing. What hangs together is a part, in which gangs and domains come out even; a part of so many gangs
//! and domains has at least one line fewer than both together. So there are at least as many crossings as domains, less one
//! for each part, and whoever knows how many parts there can be at most knows a bound.

use std::collections::BTreeMap;

use tidewright::fabric::Problem;

/// Below this a number is nothing.
const NOTHING: f64 = 1e-9;
/// How many parts are looked at to find the prices; they are good long before.
const ROUNDS: usize = 2_000;

/// What crossings cost at least: the sum over the levels of what nobody can do with less on that level.
pub fn at_least(problem: &Problem<'_>) -> u64 {
    let levels = problem.tree.domains.iter().zip(&problem.prices.crossing);
    let least = levels.map(|(domains, price)| {
        let rooms: Vec<i64> = domains.iter().map(|domain| domain.hosts.len() as i64).collect();
        price * on_level(problem, &rooms)
    });
    least.sum()
}

fn on_level(problem: &Problem<'_>, rooms: &[i64]) -> u64 {
    let mut counts: BTreeMap<i64, f64> = BTreeMap::new();
    rooms.iter().for_each(|room| *counts.entry(-room).or_default() += 1.0);
    problem.pools.iter().for_each(|pool| *counts.entry(i64::from(pool.nodes)).or_default() += 1.0);
    let taken: i64 = problem.pools.iter().map(|pool| i64::from(pool.nodes)).sum();
    *counts.entry(1).or_default() += (rooms.iter().sum::<i64>() - taken) as f64;
    counts.retain(|_, count| *count > 0.0);
    let most = most_parts(&counts.into_iter().collect::<Vec<_>>());
    rooms.len() as u64 - ((most + 1e-6) as u64).min(rooms.len() as u64)
}

/// What gangs and domains of each size are worth, so that no part is worth less than one: then there are no more parts
/// than all are worth together. The best such prices are those of the linear program of parts that may be torn, found by
/// the simplex method with a part at a time; whatever it finds, the bound that is read from it holds. Gangs
/// have sizes above nothing, domains below.
fn most_parts(kinds: &[(i64, f64)]) -> f64 {
    let rows = kinds.len();
    let mut inverse: Vec<Vec<f64>> =
        (0..rows).map(|row| (0..rows).map(|at| f64::from(u8::from(at == row))).collect()).collect();
    let mut worth = vec![0.0; rows];
    let mut held: Vec<f64> = kinds.iter().map(|(_, count)| *count).collect();
    let mut most = f64::INFINITY;
    for _ in 0..ROUNDS {
        let price = |kind: usize| (0..rows).map(|row| worth[row] * inverse[row][kind]).sum::<f64>();
        let prices: Vec<f64> = (0..rows).map(price).collect();
        let lowest = (0..rows).min_by(|a, b| prices[*a].total_cmp(&prices[*b])).unwrap_or(0);
        let (column, gain) = if prices[lowest] < -NOTHING {
            // Some of this kind are better left over.
            ((0..rows).map(|kind| f64::from(u8::from(kind == lowest))).collect(), 0.0)
        } else {
            let prices: Vec<f64> = prices.iter().map(|price| price.max(0.0)).collect();
            let (least, part) = cheapest(kinds, &prices);
            let all: f64 = prices.iter().zip(kinds).map(|(price, (_, count))| price * count).sum();
            most = most.min(if least > NOTHING { all / least } else { f64::INFINITY });
            if least > 1.0 - NOTHING {
                break;
            }
            (part, 1.0)
        };
        let steps: Vec<f64> =
            inverse.iter().map(|row| row.iter().zip(&column).map(|(a, b): (&f64, &f64)| a * b).sum()).collect();
        let limits = (0..rows).filter(|row| steps[*row] > NOTHING);
        let Some(leaves) = limits.min_by(|a, b| (held[*a] / steps[*a]).total_cmp(&(held[*b] / steps[*b]))) else {
            break;
        };
        let many = held[leaves] / steps[leaves];
        let pivot: Vec<f64> = inverse[leaves].iter().map(|value| value / steps[leaves]).collect();
        for row in (0..rows).filter(|row| *row != leaves) {
            held[row] = f64::max(0.0, held[row] - many * steps[row]);
            inverse[row].iter_mut().zip(&pivot).for_each(|(value, pivot)| *value -= steps[row] * pivot);
        }
        (held[leaves], worth[leaves], inverse[leaves]) = (many, gain, pivot);
    }
    most
}

/// The cheapest part: a way from even to even that takes a gang where domains have room left, and else a domain.
fn cheapest(kinds: &[(i64, f64)], prices: &[f64]) -> (f64, Vec<f64>) {
    let lowest = kinds.iter().map(|(size, _)| *size).min().unwrap_or(0);
    let highest = kinds.iter().map(|(size, _)| *size).max().unwrap_or(0);
    let places = usize::try_from(highest - lowest + 1).unwrap_or(0);
    let even = usize::try_from(-lowest).unwrap_or(0);
    // By how much gangs are ahead: the least cost, and the kind that came last. Even, to come back to, is one more place.
    let mut found = vec![(f64::INFINITY, usize::MAX, usize::MAX); places + 1];
    let mut waiting = vec![true; places + 1];
    (found[places].0, waiting[even]) = (0.0, false);
    loop {
        let open = (0..=places).filter(|at| waiting[*at] && found[*at].0.is_finite());
        let Some(at) = open.min_by(|a, b| found[*a].0.total_cmp(&found[*b].0)) else { break };
        waiting[at] = false;
        let ahead = if at == places { 0 } else { at as i64 + lowest };
        for (kind, (size, _)) in kinds.iter().enumerate().filter(|(_, (size, _))| (*size > 0) == (ahead <= 0)) {
            let to = usize::try_from(ahead + size - lowest).unwrap_or(0);
            let cost = found[at].0 + prices[kind];
            if cost < found[to].0 {
                found[to] = (cost, kind, at);
            }
        }
    }
    let mut part = vec![0.0; kinds.len()];
    let mut at = even;
    while at != places && found[at].1 != usize::MAX {
        part[found[at].1] += 1.0;
        at = found[at].2;
    }
    (found[even].0, part)
}
