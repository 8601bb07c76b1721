//! What holds of every placement, whatever is drawn.

use proptest::prelude::*;

use super::draw::{Dice, Shape, anything, plain, shapes, tree};
use super::oracle::value;
use crate::fabric::{Freedom, Place, Problem, Tree, place};

fn drawn(levels: usize, seed: u64) -> (Tree, Dice) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let all = shapes(levels, 6);
    let shape = &all[dice.below(u32::try_from(all.len()).unwrap()) as usize];
    (tree(levels, shape), dice)
}

/// A tree and pools that nobody can try out: two levels, some hundred hosts.
fn large(seed: u64) -> (Tree, Vec<u32>) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let spine = |dice: &mut Dice| Shape::Domains((0..5).map(|_| Shape::Hosts(1 + dice.below(9))).collect());
    let tree = tree(2, &Shape::Domains((0..4).map(|_| spine(&mut dice)).collect()));
    let sizes = (0..8).map(|_| 1 + dice.below(10)).collect();
    (tree, sizes)
}

fn with_one_more(tree: &Tree, leaf: usize) -> Tree {
    let finest = tree.depth() - 1;
    let place = |at: usize| {
        let path = tree.path(finest, tree.leaf_of[at] as usize);
        Place { host: tree.hosts[at].clone(), path: path.iter().map(|part| Some((*part).to_string())).collect() }
    };
    let mut places: Vec<Place> = (0..tree.hosts.len()).map(place).collect();
    let path = tree.path(finest, leaf).iter().map(|part| Some((*part).to_string())).collect();
    places.push(Place { host: "zz-new".into(), path });
    Tree::grow(&tree.levels, places).0
}

fn adopt(problem: &mut Problem<'_>, hosts: &[Option<u32>]) {
    for (host, pool) in problem.hosts.iter_mut().zip(hosts) {
        if host.free == Freedom::Usable {
            host.pool = *pool;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_more_free_host_never_makes_it_worse(levels in 1usize..4, seed in any::<u64>(), leaf in 0u32..9) {
        let (tree, mut dice) = drawn(levels, seed);
        let sizes: Vec<u32> = (0..2 + dice.below(2)).map(|_| 1 + dice.below(3)).collect();
        let more = with_one_more(&tree, leaf as usize % tree.leaves());
        prop_assert!(place(&plain(&more, &sizes)).score <= place(&plain(&tree, &sizes)).score);
    }

    #[test]
    fn other_names_in_the_same_order_change_nothing_but_names(levels in 1usize..4, seed in any::<u64>()) {
        let (tree, mut dice) = drawn(levels, seed);
        let problem = anything(&tree, &mut dice);
        let mut named = tree.clone();
        named.hosts.iter_mut().for_each(|host| *host = format!("other-{host}").into());
        let renamed = Problem { tree: &named, ..problem.clone() };
        prop_assert_eq!(place(&problem), place(&renamed));
    }

    #[test]
    fn other_names_in_any_order_are_worth_the_same(levels in 1usize..4, seed in any::<u64>()) {
        let (tree, mut dice) = drawn(levels, seed);
        let sizes: Vec<u32> = (0..2 + dice.below(2)).map(|_| 1 + dice.below(3)).collect();
        let finest = tree.depth() - 1;
        // Everything is named backwards, so that the last comes first.
        let backwards = |text: &str| -> String {
            text.chars().map(|c| c.to_digit(10).map_or(c, |digit| char::from_digit(9 - digit, 10).unwrap())).collect()
        };
        let places = (0..tree.hosts.len()).map(|at| {
            let path = tree.path(finest, tree.leaf_of[at] as usize);
            Place {
                host: backwards(tree.hosts[at].as_str()).into(),
                path: path.iter().map(|part| Some(backwards(part))).collect(),
            }
        });
        let (other, _) = Tree::grow(&tree.levels, places.collect());
        prop_assert_eq!(place(&plain(&tree, &sizes)).score, place(&plain(&other, &sizes)).score);
    }

    #[test]
    fn a_required_level_is_never_broken(seed in any::<u64>(), level in 0usize..2) {
        let (tree, sizes) = large(seed);
        let mut problem = plain(&tree, &sizes);
        for pool in problem.pools.iter_mut().step_by(2) {
            (pool.together, pool.required) = (Some(level), true);
        }
        let placed = place(&problem);
        // The judge of the oracle refuses a level that is broken, and a score that is wrong.
        prop_assert_eq!(value(&problem, &placed.hosts), Some(placed.score));
    }

    #[test]
    fn who_plans_again_moves_nothing(seed in any::<u64>()) {
        let (tree, sizes) = large(seed);
        let mut problem = plain(&tree, &sizes);
        let first = place(&problem);
        adopt(&mut problem, &first.hosts);
        let again = place(&problem);
        prop_assert_eq!((again.hosts, again.score.moves), (first.hosts, 0));
    }
}

/// Of fabrics that are nearly full and too large to look at every placement. That free slots are never smaller either is only
/// so where all are looked at.
#[test]
fn one_more_free_host_costs_no_crossing_on_larger_fabrics_either() {
    for seed in [3, 14, 40, 52, 66, 91] {
        let (tree, _) = large(seed);
        let mut dice = Dice(seed);
        let mut left = u32::try_from(tree.hosts.len() * 9 / 10).unwrap();
        let mut sizes = Vec::new();
        while left > 0 {
            sizes.push((1 + dice.below(14)).min(left));
            left -= sizes[sizes.len() - 1];
        }
        let more = with_one_more(&tree, usize::try_from(seed).unwrap() * 7 % tree.leaves());
        let (before, after) = (place(&plain(&tree, &sizes)).score, place(&plain(&more, &sizes)).score);
        assert!((after.unplaced, after.cost) <= (before.unplaced, before.cost), "{seed}: {before:?} {after:?}");
    }
}
