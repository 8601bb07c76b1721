//! Single gangs, cuts, free slots, fragmentation and all-reduce: known answers.

use std::collections::BTreeMap;

use super::draw::{Shape, host, plain, tree};
use crate::fabric::collective::{Links, allreduce};
use crate::fabric::fgd::{self, Room};
use crate::fabric::gang::{Answer, Gang, Seat, ask};
use crate::fabric::pack::{Cut, pack};
use crate::fabric::slots::free_slots;
use crate::fabric::{Prices, Tree, place};

/// Two spines; leaves of 4 and 2 hosts below the first, of 4 below the second.
pub fn small() -> Tree {
    let first = Shape::Domains(vec![Shape::Hosts(4), Shape::Hosts(2)]);
    tree(2, &Shape::Domains(vec![first, Shape::Domains(vec![Shape::Hosts(4)])]))
}

fn seats(free: &[u32]) -> Vec<Seat> {
    let seat = |(at, free): (usize, &u32)| {
        let work = if *free < 8 { vec![u32::try_from(at / 2).unwrap()] } else { Vec::new() };
        Seat { kind: 0, gpus: 8, free: *free, open: true, work, pods: vec![8 - *free; usize::from(*free < 8)] }
    };
    free.iter().enumerate().map(seat).collect()
}

fn usual(_: u32) -> Links {
    Links::USUAL
}

#[test]
fn a_gang_goes_to_the_tightest_leaf_that_holds_it() {
    let gang = Gang { gpus: 16, together: Some(1), required: true };
    let Answer::Fits(fit) = ask(&small(), &seats(&[8; 10]), &gang, usual) else { panic!("it fits") };
    assert_eq!((fit.hosts, fit.crossed), (vec![4, 5], 0));
    assert!((fit.seconds - fit.at_best).abs() < 1e-12);
}

#[test]
fn a_gang_that_has_to_cross_is_told_how_much_slower_it_is() {
    let gang = Gang { gpus: 32, together: Some(1), required: false };
    let free = [8, 0, 8, 0, 8, 8, 0, 0, 0, 0];
    let Answer::Fits(fit) = ask(&small(), &seats(&free), &gang, usual) else { panic!("it fits") };
    assert_eq!((fit.hosts, fit.crossed), (vec![0, 2, 4, 5], 1));
    let links = Links::USUAL;
    assert!((fit.seconds - allreduce(32, 4, 1, &links, 1.0)).abs() < 1e-12);
    assert!((fit.at_best - allreduce(32, 4, 0, &links, 1.0)).abs() < 1e-12);
    assert!(fit.seconds > fit.at_best);
}

#[test]
fn a_gang_without_room_is_told_the_smallest_move_that_makes_it() {
    let gang = Gang { gpus: 32, together: Some(1), required: true };
    let free = [8, 8, 8, 0, 8, 8, 0, 0, 8, 8];
    let Answer::Not(misfit) = ask(&small(), &seats(&free), &gang, usual) else { panic!("no leaf has four") };
    assert_eq!((misfit.needs, misfit.most, misfit.domain, misfit.ever), (4, 3, Some(0), 4));
    let room = misfit.room.expect("one host has to be emptied");
    assert_eq!((room.domain, room.empty, room.work), (0, vec![3], vec![1]));
    let huge = Gang { gpus: 64, ..gang };
    let Answer::Not(misfit) = ask(&small(), &seats(&[8; 10]), &huge, usual) else { panic!("no leaf is so large") };
    assert_eq!((misfit.ever, misfit.room), (4, None));
}

#[test]
fn hosts_of_each_kind_are_counted_by_their_own_gpus() {
    // Two hosts of eight GPUs and eight of four.
    let mut all = seats(&[8; 10]);
    all.iter_mut().skip(2).for_each(|seat| *seat = Seat { kind: 1, gpus: 4, free: 4, ..seat.clone() });
    let gang = Gang { gpus: 32, together: None, required: false };
    let slow = Links { outside: 5.0, ..Links::USUAL };
    let links = |kind: u32| if kind == 1 { slow } else { Links::USUAL };
    let Answer::Fits(fit) = ask(&small(), &all, &gang, links) else { panic!("eight hosts of four have 32") };
    assert_eq!((fit.kind, fit.hosts.len()), (1, 8));
    assert!((fit.seconds - allreduce(32, 8, 2, &slow, 1.0)).abs() < 1e-12, "by the links of the hosts that it gets");
    // One of eight that is closed, or of a kind that is not asked for, is none of it.
    all.iter_mut().take(2).for_each(|seat| seat.open = false);
    let Answer::Fits(fit) = ask(&small(), &all, &Gang { gpus: 8, ..gang }, usual) else { panic!("two of four") };
    assert_eq!((fit.kind, fit.hosts.len()), (1, 2));
}

#[test]
fn the_smallest_move_is_one_gang_of_two_hosts_and_not_two_gangs_of_one() {
    let gang = Gang { gpus: 16, together: Some(1), required: true };
    // Two gangs of one host each, then one of two; elsewhere two hosts are free, on two leaves.
    let mut all = seats(&[0, 0, 0, 0, 8, 0, 8, 0, 0, 0]);
    let work = [0, 1, 2, 2, 9, 3, 9, 4, 5, 6];
    all.iter_mut().zip(work).filter(|(seat, _)| seat.free == 0).for_each(|(seat, work)| seat.work = vec![work]);
    all[5].open = false;
    all.iter_mut().skip(7).for_each(|seat| seat.open = false);
    let Answer::Not(misfit) = ask(&small(), &all, &gang, usual) else { panic!("no leaf has two") };
    let room = misfit.room.expect("there is room for two elsewhere");
    assert_eq!((room.domain, room.empty, room.work), (0, vec![2, 3], vec![2]));
}

#[test]
fn what_is_emptied_is_packed_into_free_gpus_elsewhere_and_needs_no_whole_host() {
    let gang = Gang { gpus: 16, together: Some(1), required: true };
    // The leaf of two has one free host and one with a pod of two GPUs; all others have two GPUs free.
    let free = [2, 2, 2, 2, 8, 6, 2, 2, 2, 2];
    let Answer::Not(misfit) = ask(&small(), &seats(&free), &gang, usual) else { panic!("no leaf has two") };
    let room = misfit.room.expect("the pod fits beside others");
    assert_eq!((room.domain, room.empty, room.work), (1, vec![5], vec![2]));
    let none = [1, 1, 1, 1, 8, 6, 1, 1, 1, 1];
    let Answer::Not(misfit) = ask(&small(), &seats(&none), &gang, usual) else { panic!("no leaf has two") };
    assert_eq!(misfit.room, None, "no host has two free");
}

#[test]
fn an_all_reduce_takes_what_the_formula_says() {
    let links = Links { gpus_a_host: 8, domain: 8, inside: 450.0, outside: 50.0 };
    let inside = 2.0 * 7.0 / 8.0 / 450.0;
    assert!((allreduce(8, 1, 0, &links, 1.0) - inside).abs() < 1e-12);
    let between = 2.0 * 3.0 / 4.0 * (1.0 / 8.0) / 50.0;
    assert!((allreduce(32, 4, 0, &links, 1.0) - inside - between).abs() < 1e-12);
    assert!((allreduce(32, 4, 2, &links, 1.0) - inside - 4.0 * between).abs() < 1e-12);
    assert!(allreduce(1, 1, 0, &links, 1.0).abs() < 1e-12);
}

#[test]
fn an_nvlink_domain_of_many_hosts_is_crossed_at_the_speed_of_its_link() {
    // Leaves of four, two and four hosts with four GPUs each: one link joins sixteen.
    let links = Links { gpus_a_host: 4, domain: 16, inside: 900.0, outside: 50.0 };
    let host = |seat: Seat| Seat { gpus: 4, free: 4, ..seat };
    let all: Vec<Seat> = seats(&[8; 10]).into_iter().map(host).collect();
    let seconds = |gpus, together| {
        let gang = Gang { gpus, together, required: false };
        let Answer::Fits(fit) = ask(&small(), &all, &gang, |_| links) else { panic!("it fits") };
        fit.seconds
    };
    assert!((seconds(16, Some(1)) - 2.0 * 15.0 / 16.0 / 900.0).abs() < 1e-12, "as one host of sixteen");
    // Three leaves below two spines: between them over the adapters, and one level up from where these begin.
    assert!((seconds(32, Some(0)) - allreduce(32, 3, 1, &links, 1.0)).abs() < 1e-12);
    // A leaf with more GPUs than the link joins is no such domain.
    let eight = Links { domain: 8, ..links };
    let gang = Gang { gpus: 16, together: Some(1), required: false };
    let Answer::Fits(fit) = ask(&small(), &all, &gang, |_| eight) else { panic!("it fits") };
    assert!((fit.seconds - allreduce(16, 4, 0, &eight, 1.0)).abs() < 1e-12);
}

#[test]
fn free_slots_are_counted_inside_one_domain_each() {
    let found = free_slots(&small(), &[8, 8, 8, 0, 8, 8, 8, 8, 8, 8]);
    let counts: Vec<_> = found.iter().map(|level| (level.level.as_str(), level.slots, level.largest)).collect();
    // 128, 64, 32, 16, 8 GPUs: spines have 40 and 32 free, leaves 24, 16 and 32.
    assert_eq!(counts, [("level-0", [0, 0, 2, 4, 9], 40), ("level-1", [0, 0, 1, 4, 9], 32)]);
}

#[test]
fn what_no_shape_of_work_can_use_is_fragmented() {
    let shape = |gpus, milli, part| fgd::Shape { cpu_milli: 4_000, gpus, milli, models: Vec::new(), part };
    let room = |gpus: &[u32], cpu_milli| Room { cpu_milli, gpus: gpus.to_vec(), model: 0 };
    let shapes = [shape(1, 500, 0.5), shape(2, 1_000, 0.25), shape(0, 0, 0.25)];
    // Half a GPU runs, and cannot use 300; two whole ones do not run; work without GPUs uses none.
    assert!((fgd::fragmented(&room(&[1_000, 300, 700], 8_000), &shapes) - (150.0 + 500.0 + 500.0)).abs() < 1e-9);
    assert!((fgd::fragmented(&room(&[1_000, 1_000], 1_000), &shapes) - 2_000.0).abs() < 1e-9, "no processor is left");
    // Half a GPU goes to the one that is half gone: nothing more breaks.
    let (_, taken) = fgd::best_gpus(&room(&[1_000, 500, 1_000], 8_000), &shapes[0], &shapes).unwrap();
    assert_eq!(taken, [1]);
}

fn cut(slices: &[(&str, u32)]) -> Cut {
    slices.iter().map(|(name, count)| ((*name).into(), *count)).collect::<BTreeMap<_, _>>()
}

/// Seven compute slices, at most two of three.
fn fits(cut: &Cut) -> bool {
    let count = |name: &str| cut.get(name).copied().unwrap_or(0);
    let (one, three) = (count("1g"), count("3g"));
    three <= 2 && one <= [7, 4, 0][three as usize]
}

#[test]
fn slices_are_cut_out_of_the_fewest_gpus() {
    let packing = pack(&cut(&[("1g", 8), ("3g", 3)]), &vec![Cut::new(); 4], fits);
    let count = packing.cuts.iter().filter(|cut| !cut.is_empty()).count();
    assert_eq!((count, packing.changed, packing.unserved.len()), (3, 3, 0), "{packing:?}");
    let served = |name: &str| packing.cuts.iter().filter_map(|cut| cut.get(name)).sum::<u32>();
    assert_eq!((served("1g"), served("3g")), (8, 3));
    assert!(packing.cuts.iter().all(fits));
}

#[test]
fn a_gpu_that_is_cut_well_already_stays_as_it_is() {
    let now = [cut(&[("1g", 7)]), Cut::new(), cut(&[("3g", 2)]), Cut::new()];
    let packing = pack(&cut(&[("1g", 6), ("3g", 2)]), &now, fits);
    assert_eq!((packing.changed, &packing.cuts[..]), (0, &now[..]));
    let more = pack(&cut(&[("1g", 30)]), &now, fits);
    assert_eq!((more.unserved, more.changed), (cut(&[("1g", 2)]), 3));
}

#[test]
fn a_pool_that_moves_only_for_less_than_it_gains_stays() {
    let tree = small();
    let mut problem = plain(&tree, &[2]);
    problem.hosts = vec![host(); 10];
    problem.hosts[0].pool = Some(0);
    problem.hosts[6].pool = Some(0);
    // Two spines and two leaves cost 3, a move costs 2: it pays.
    assert_eq!(place(&problem).score.moves, 1);
    problem.prices.moving = 4;
    let placed = place(&problem);
    assert_eq!((placed.score.moves, placed.score), (0, placed.stay));
}

#[test]
fn a_move_that_saves_one_crossing_of_the_finest_level_does_not_pay() {
    assert_eq!(Prices::doubling(3), Prices { crossing: vec![4, 2, 1], asked: 4, moving: 2 });
    let tree = small();
    let mut problem = plain(&tree, &[2]);
    // On the leaf of four and on the leaf of two beside it. With both on that one a slot of four hosts would be free.
    for at in [0, 4] {
        problem.hosts[at].pool = Some(0);
    }
    let placed = place(&problem);
    assert_eq!((placed.score.moves, placed.score.cost), (0, 1));
    problem.prices.moving = 1;
    assert_eq!(place(&problem).score.moves, 1, "at the price of what it saves the larger slot decides");
}

#[test]
fn of_places_that_cost_the_same_those_are_taken_that_leave_the_largest_free_slots() {
    // Two leaves of ten below one spine; three of four and one of sixteen below the other. Three pools of four fill the
    // leaves of four, and break no larger hole. There are too many placements to look at each.
    let leaves = |sizes: &[u32]| Shape::Domains(sizes.iter().map(|size| Shape::Hosts(*size)).collect());
    let tree = tree(2, &Shape::Domains(vec![leaves(&[10, 10]), leaves(&[4, 4, 4, 16])]));
    let mut problem = plain(&tree, &[4, 4, 4]);
    problem.pools.iter_mut().for_each(|pool| pool.together = Some(1));
    let placed = place(&problem);
    let free: Vec<u32> = placed.hosts.iter().map(|pool| if pool.is_none() { 8 } else { 0 }).collect();
    let spread: Vec<_> = free_slots(&tree, &free).into_iter().map(|level| level.slots).collect();
    assert_eq!((placed.score.cost, spread), (0, vec![[2, 4, 9, 18, 36], [1, 4, 8, 18, 36]]));
}
