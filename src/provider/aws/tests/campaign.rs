//! The campaign of the core over the wire: the same seeds, with the provider of EC2 and the endpoint of the simulated one
//! between the operator and the world.
//!
//! `WIRE_SEEDS=500 cargo test --lib provider::aws::tests::campaign -- --nocapture` runs many; `WIRE_SEED=17` or
//! `WIRE_SEED=17,23` runs some again.

#![allow(clippy::disallowed_macros)]

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::door::Wired;
use crate::scenario::campaign::{Case, Ran, caught, draw, shrink_with};
use crate::scenario::run_through;

/// Enough to see it work.
const SEEDS: u64 = 4;
/// From so many seeds on every fault must have struck: one that is switched on and never strikes shows nothing.
const ENOUGH: usize = 200;
/// What may go wrong.
const FAULTS: &[&str] = &[
    "answer lost, done",
    "answer lost, not done",
    "crash after answer",
    "crash after commit",
    "crash before send",
    "instance listed late",
    "instances hidden",
    "instances unread",
    "launch refused, Ambiguous",
    "launch refused, NoCapacity",
    "launch refused, Throttled",
    "machine dies",
    "reservations hidden",
    "reservations unread",
    "stale read",
    "two clocks apart",
    "wire 500",
    "wire 500 after",
    "wire 503",
    "wire cut after",
    "wire cut before",
    "wire garbage",
    "wire slow",
    "wire truncated",
];

/// A case over the wire. Zones are those of the account's region.
fn run(case: &Case) -> Ran {
    let text = case.text().replace("sim-1a", "us-west-2a");
    let door = Rc::new(Wired::new(case.seed));
    caught(|| run_through(&text, Path::new("."), Some(door)))
}

/// Every seed on its own, on all cores; in the order of the seeds.
fn run_all(seeds: &[u64]) -> BTreeMap<u64, Ran> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*seed, run(&draw(*seed))));
        }
        done
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match std::env::var("WIRE_SEED") {
        Ok(named) => named.split(',').map(|seed| seed.parse().expect("WIRE_SEED is a seed, or seeds: 17,23")).collect(),
        Err(_) => {
            let first = number("WIRE_FIRST").unwrap_or(1);
            (first..first + number("WIRE_SEEDS").unwrap_or(SEEDS)).collect()
        }
    }
}

#[test]
fn a_seed_is_the_same_over_the_wire_every_time() {
    let seed = seeds()[0];
    assert_eq!(run(&draw(seed)), run(&draw(seed)));
}

#[test]
fn every_seed_settles_over_the_wire() {
    let seeds = seeds();
    let mut struck: BTreeMap<String, u64> = BTreeMap::new();
    let mut failed = Vec::new();
    for (seed, ran) in run_all(&seeds) {
        ran.struck.into_iter().for_each(|(name, count)| *struck.entry(name).or_default() += count);
        failed.extend(ran.failed.map(|why| (seed, why)));
    }
    for (name, count) in &struck {
        println!("{count:>8}  {name}");
    }
    println!("{:>8}  faults over {} seeds", struck.values().sum::<u64>(), seeds.len());
    let Some((seed, why)) = failed.first() else {
        let never = |name: &&&str| !struck.contains_key(**name);
        let never: Vec<&&str> = FAULTS.iter().filter(never).filter(|_| seeds.len() >= ENOUGH).collect();
        assert!(never.is_empty(), "switched on, and never struck: {never:?}");
        return;
    };
    let few = |why: &str| why.lines().take(3).collect::<Vec<_>>().join(" ").chars().take(300).collect::<String>();
    let all: Vec<String> = failed.iter().map(|(seed, why)| format!("{seed}: {}", few(why))).collect();
    let (count, all) = (failed.len(), all.join("\n"));
    let again = format!("WIRE_SEED={seed} cargo test --lib provider::aws::tests::campaign");
    let small = shrink_with(&draw(*seed), &run).text();
    panic!("{count} of {} seeds fail:\n{all}\n\nseed {seed}: {why}\n\nagain: {again}\n\n{small}", seeds.len());
}
