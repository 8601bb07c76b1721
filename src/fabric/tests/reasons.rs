//! Why a pool is where it is: the next best place is another one, and costs what is said of it.

use super::answers::small;
use super::draw::{Shape, host, plain, shapes, tree};
use super::oracle::value;
use crate::fabric::reasons::{Reason, reasons};
use crate::fabric::search::solve;
use crate::fabric::state::settle;
use crate::fabric::{Freedom, Host, Problem, Tree};

fn told(problem: &Problem<'_>) -> Vec<Reason> {
    let (state, _) = solve(problem);
    reasons(&state, &state.fixed)
}

/// Leaves of these sizes, below nothing.
fn leaves(sizes: &[u32]) -> Tree {
    tree(1, &Shape::Domains(sizes.iter().map(|size| Shape::Hosts(*size)).collect()))
}

/// Where a pool would be next, if that is on none of its leaves, with what it costs more.
fn elsewhere(reason: &Reason) -> Option<(Vec<u32>, i64)> {
    let next = reason.next.as_ref().filter(|next| next.unplaced == 0)?;
    let mine: Vec<u32> = reason.leaves.iter().map(|(leaf, _)| *leaf).collect();
    let others: Vec<u32> = next.leaves.iter().map(|(leaf, _)| *leaf).collect();
    others.iter().all(|leaf| !mine.contains(leaf)).then_some((others, next.more))
}

/// So many hosts from the first on stay with the first pool.
fn stay(problem: &mut Problem<'_>, many: usize) {
    problem.hosts[..many].fill(Host { pool: Some(0), free: Freedom::Fixed, ..host() });
}

#[test]
fn the_reason_names_the_domain_and_what_the_next_best_would_have_cost() {
    let tree = small();
    let problem = plain(&tree, &[2, 4]);
    let found = told(&problem);
    assert_eq!((found[0].within, &found[0].fragments[..]), (Some((1, 1)), &[1, 1][..]));
    let next = found[0].next.as_ref().unwrap();
    assert_eq!(
        (next.more, next.unplaced, &next.leaves[..]),
        (0, 0, &[(if found[1].leaves[0].0 == 0 { 2 } else { 0 }, 2)][..])
    );
    // The pool of four has another leaf of four; with that one taken too it would have to cross.
    let problem = plain(&tree, &[4, 4]);
    let next = told(&problem)[0].next.clone().unwrap();
    assert_eq!((next.unplaced, next.more), (2, 0), "only two hosts are left elsewhere");
}

#[test]
fn nodes_that_stay_where_they_are_have_no_next_best_place() {
    let tree = small();
    let mut problem = plain(&tree, &[2]);
    stay(&mut problem, 2);
    let found = told(&problem);
    assert_eq!((found[0].fixed, &found[0].next), (true, &None), "the leaf where they are is no other place");
    // Of one that is kept beside one that could go, only that one goes.
    let mut problem = plain(&tree, &[2]);
    stay(&mut problem, 1);
    let found = told(&problem);
    let next = found[0].next.as_ref().unwrap();
    assert_eq!((found[0].fixed, &found[0].leaves[..]), (false, &[(0, 2)][..]));
    assert_eq!((&next.leaves[..], next.more), (&[(1, 1)][..], 1));
}

/// As machines of a cloud do: they are counted as what they cost, and have no other place.
#[test]
fn what_stays_for_another_reason_has_no_next_best_place_either() {
    let tree = small();
    let problem = plain(&tree, &[2]);
    let (state, _) = solve(&problem);
    let found = reasons(&state, &state.shares);
    assert_eq!((found[0].placed, found[0].fixed, &found[0].next), (2, true, &None));
}

#[test]
fn a_pool_on_several_spines_has_its_next_best_place_on_none_of_its_leaves() {
    let spine = || Shape::Domains(vec![Shape::Hosts(2)]);
    let tree = tree(2, &Shape::Domains(vec![spine(), spine(), spine(), spine()]));
    let found = told(&plain(&tree, &[4]));
    let (leaves, more) = elsewhere(&found[0]).unwrap();
    assert_eq!((found[0].within, leaves.len(), more), (None, 2, 0));
}

#[test]
fn in_the_only_spine_other_leaves_are_the_next_best_place() {
    let four = (0..4).map(|_| Shape::Hosts(2)).collect();
    let tree = tree(2, &Shape::Domains(vec![Shape::Domains(four)]));
    let found = told(&plain(&tree, &[4]));
    let (leaves, more) = elsewhere(&found[0]).unwrap();
    assert_eq!((found[0].within, leaves.len(), more), (Some((0, 0)), 2, 0));
}

#[test]
fn what_is_on_the_largest_leaf_and_stays_does_not_hide_where_the_rest_could_be() {
    let tree = leaves(&[3, 1, 1]);
    let mut problem = plain(&tree, &[4]);
    stay(&mut problem, 3);
    let found = told(&problem);
    let next = found[0].next.as_ref().unwrap();
    assert_eq!(found[0].leaves[0], (0, 3));
    let others = [found[0].leaves[1].0, next.leaves[0].0];
    assert!(others == [1, 2] || others == [2, 1], "{found:?}");
    assert_eq!((next.unplaced, next.more), (0, 0));
}

#[test]
fn where_all_its_leaves_cannot_be_spared_one_of_them_is() {
    let tree = leaves(&[2, 2, 1, 1]);
    let next = told(&plain(&tree, &[4]))[0].next.clone().unwrap();
    assert_eq!((&next.leaves[..], next.unplaced, next.more), (&[(2, 1), (3, 1)][..], 0, 1), "two of them");
}

#[test]
fn room_elsewhere_is_not_where_the_pool_is() {
    assert_eq!(told(&plain(&leaves(&[2, 1]), &[3]))[0].next, None, "it has all there is");
    let next = told(&plain(&leaves(&[3, 2, 1]), &[5]))[0].next.clone().unwrap();
    assert_eq!((&next.leaves[..], next.unplaced), (&[(2, 1)][..], 4), "{next:?}");
}

/// By trying every set of hosts that are free and on other leaves.
#[test]
fn no_other_place_costs_less_than_the_next_best() {
    let mut told_of = 0;
    for levels in 1..=3 {
        for shape in shapes(levels, 6) {
            let tree = tree(levels, &shape);
            for sizes in [&[2][..], &[3], &[2, 1], &[2, 2]] {
                let problem = plain(&tree, sizes);
                let (state, _) = solve(&problem);
                let (hosts, found) = (settle(&state), reasons(&state, &state.fixed));
                let cost = value(&problem, &hosts).unwrap().cost;
                for reason in found {
                    let is_mine = |at: &usize| hosts[*at] == Some(reason.pool);
                    let mine: Vec<u32> = (0..6).filter(is_mine).map(|at| tree.leaf_of[at]).collect();
                    let others = |sets: u32| {
                        let takes = |at: &usize| (sets >> at) & 1 == 1;
                        let is_other = |at: usize| hosts[at].is_none() && !mine.contains(&tree.leaf_of[at]);
                        let fits = sets.count_ones() == reason.placed && (0..6).filter(takes).all(is_other);
                        let moved = |at: usize| match takes(&at) {
                            true => Some(reason.pool),
                            false => hosts[at].filter(|pool| *pool != reason.pool),
                        };
                        fits.then(|| value(&problem, &(0..6).map(moved).collect::<Vec<_>>()).unwrap().cost)
                    };
                    let Some(least) = (0..64).filter_map(others).min() else { continue };
                    let next = reason.next.as_ref().unwrap();
                    let more = i64::try_from(least).unwrap() - i64::try_from(cost).unwrap();
                    assert_eq!((next.more, next.unplaced), (more, 0), "{tree:?} {sizes:?} {reason:?}");
                    assert!(next.leaves.iter().all(|(leaf, _)| !mine.contains(leaf)), "{tree:?} {reason:?}");
                    told_of += 1;
                }
            }
        }
    }
    assert!(told_of > 100, "{told_of}");
}
