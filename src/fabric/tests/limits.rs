//! What is not a placement's to choose: who must be apart, what stays, what a move costs. Judged where there are too many
//! placements to look at each, and of the first one, before anything is searched.

use super::draw::{Dice, Shape, anything, asked, plain, shapes, tree};
use super::oracle::value;
use crate::fabric::insert::{Scratch, Style, insert};
use crate::fabric::reasons::leaves as leaves_of;
use crate::fabric::search::begin;
use crate::fabric::state::{State, settle};
use crate::fabric::{Freedom, Problem, Tree, exact, place};

/// Leaves of twelve hosts, below nothing.
fn leaves(many: usize) -> Tree {
    tree(1, &Shape::Domains(vec![Shape::Hosts(12); many]))
}

/// The last pool should be on one leaf, apart from the first.
fn apart(problem: &mut Problem<'_>, required: bool) {
    let last = problem.pools.last_mut().unwrap();
    (last.together, last.required, last.apart) = (Some(0), required, vec![0]);
}

/// Whether there are more placements than are looked at.
fn is_searched(problem: &Problem<'_>) -> bool {
    exact::solve(&begin(problem, &mut Scratch::default())).is_none()
}

#[test]
fn pools_that_must_be_apart_are_apart_however_full_it_is() {
    let tree = leaves(3);
    let mut problem = plain(&tree, &[30, 6]);
    apart(&mut problem, true);
    assert!(is_searched(&problem));
    let placed = place(&problem);
    assert_eq!(value(&problem, &placed.hosts), Some(placed.score), "{placed:?}");
    assert_eq!((placed.score.unplaced, placed.score.shared), (6, 0), "a leaf with six of one has none of the other");
}

#[test]
fn pools_that_should_be_apart_are_where_there_is_room_and_else_have_their_nodes() {
    let tree = leaves(4);
    let mut problem = plain(&tree, &[20, 4]);
    apart(&mut problem, false);
    assert!(is_searched(&problem));
    let placed = place(&problem);
    // The tightest leaf for the four is the one on which the first pool leaves four.
    assert_eq!((placed.score.unplaced, placed.score.shared), (0, 0), "{placed:?}");
    let mut problem = plain(&tree, &[42, 4]);
    apart(&mut problem, false);
    assert!(is_searched(&problem));
    let placed = place(&problem);
    assert_eq!((placed.score.unplaced, placed.score.shared), (0, 1), "{placed:?}");
}

#[test]
fn what_stays_stays_where_it_is_in_the_way() {
    // Six of the second pool are on the leaf that the first would fill, and one of the first is elsewhere.
    let tree = leaves(3);
    let mut problem = plain(&tree, &[12, 20]);
    let fixed = |at: usize| if at < 6 { Some(1) } else { (at == 12).then_some(0) };
    for at in 0..problem.hosts.len() {
        if let Some(pool) = fixed(at) {
            (problem.hosts[at].pool, problem.hosts[at].free) = (Some(pool), Freedom::Fixed);
        }
    }
    assert!(is_searched(&problem));
    let placed = place(&problem);
    assert_eq!(value(&problem, &placed.hosts), Some(placed.score), "{placed:?}");
    assert!((0..problem.hosts.len()).all(|at| fixed(at).is_none_or(|pool| placed.hosts[at] == Some(pool))));
    assert_eq!((placed.score.unplaced, placed.score.moves), (0, 0));
}

/// Nodes of two pools that must be apart are on one leaf and stay there. Two other pools have each one node on each of two
/// leaves, and moves cost nothing.
#[test]
fn an_order_that_fixed_nodes_break_keeps_no_other_pool_from_a_better_place() {
    let tree = tree(1, &Shape::Domains(vec![Shape::Hosts(2); 3]));
    let mut problem = plain(&tree, &[2, 2, 1, 1]);
    apart(&mut problem, true);
    problem.pools[3].apart = vec![2];
    problem.prices.moving = 0;
    for (host, pool) in problem.hosts.iter_mut().zip([2, 3, 0, 1, 0, 1]) {
        host.pool = Some(pool);
    }
    problem.hosts[..2].iter_mut().for_each(|host| host.free = Freedom::Fixed);
    let placed = place(&problem);
    assert_eq!((placed.score.unplaced, placed.score.shared, placed.score.cost), (0, 1, 0), "{placed:?}");
    // One of the two may go, and does.
    problem.hosts[1].free = Freedom::Usable;
    problem.pools[1].nodes = 1;
    let placed = place(&problem);
    assert_eq!((placed.score.unplaced, placed.score.shared), (0, 0), "{placed:?}");
}

/// The leaf of four has two of its nodes; the leaf of two would be the tighter one.
#[test]
fn a_pool_is_put_where_its_nodes_are_when_another_place_costs_as_much() {
    let tree = tree(1, &Shape::Domains(vec![Shape::Hosts(4), Shape::Hosts(2)]));
    let mut problem = plain(&tree, &[2]);
    problem.hosts[..2].iter_mut().for_each(|host| host.pool = Some(0));
    let mut state = State::new(&problem);
    insert(&mut state, 0, Style::default(), &mut Scratch::default());
    assert_eq!((leaves_of(&state, &state.shares[0]), state.moves(0)), (vec![(0, 2)], 0));
    problem.prices.moving = 0;
    let mut state = State::new(&problem);
    insert(&mut state, 0, Style::default(), &mut Scratch::default());
    assert_eq!(leaves_of(&state, &state.shares[0]), [(1, 2)], "at no price it leaves the larger hole");
}

/// On one leaf are a host for both pools and one for the first alone.
#[test]
fn hosts_that_others_could_not_use_are_taken_first() {
    let tree = leaves(1);
    let mut problem = plain(&tree, &[1, 1]);
    (problem.pools[0].suits, problem.pools[1].suits) = (vec![true, true], vec![true, false]);
    problem.hosts[2..].iter_mut().for_each(|host| host.free = Freedom::Out);
    problem.hosts[1].class = 1;
    let mut state = State::new(&problem);
    for pool in 0..2 {
        insert(&mut state, pool, Style::default(), &mut Scratch::default());
    }
    assert_eq!(settle(&state)[..2], [Some(1), Some(0)]);
}

/// The first placement is what every search begins with, and all there is of a fleet where nothing may move.
#[test]
fn the_first_placement_is_allowed_and_worth_what_it_says() {
    let mut dice = Dice(11);
    for levels in 1..=3 {
        for shape in shapes(levels, 5) {
            let tree = tree(levels, &shape);
            for _ in 0..6 {
                let problem = anything(&tree, &mut dice);
                let state = begin(&problem, &mut Scratch::default());
                assert_eq!(value(&problem, &settle(&state)), Some(state.score()), "{problem:?}");
            }
        }
    }
}

#[test]
fn whatever_large_pools_ask_for_what_they_get_is_allowed_and_worth_what_it_says() {
    let mut dice = Dice(13);
    let mut searched = 0;
    for _ in 0..24 {
        let spine = |dice: &mut Dice| Shape::Domains((0..3).map(|_| Shape::Hosts(2 + dice.below(5))).collect());
        let tree = tree(2, &Shape::Domains((0..3).map(|_| spine(&mut dice)).collect()));
        let problem = asked(&tree, &mut dice, 5, 9);
        searched += u32::from(is_searched(&problem));
        let placed = place(&problem);
        assert_eq!(value(&problem, &placed.hosts), Some(placed.score), "{problem:?}\n{placed:?}");
        assert!(placed.score <= placed.stay, "{problem:?}\n{placed:?}");
    }
    assert!(searched > 12, "{searched} of 24 were not looked at one by one");
}
