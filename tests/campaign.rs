//! The campaign: seeds draw fleets, edits and faults, and every one must settle.
//!
//! `CAMPAIGN_SEEDS=2000 cargo test --profile campaign --test suite campaign -- --nocapture` runs many;
//! `CAMPAIGN_SEED=17` runs one again.

use std::collections::BTreeMap;

use tidewright::scenario::campaign::{draw, run, shrink};

/// In a debug build: enough to see it work.
const SEEDS: u64 = 6;

#[test]
fn every_seed_settles() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("CAMPAIGN_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("CAMPAIGN_FIRST").unwrap_or(1);
            first..first + number("CAMPAIGN_SEEDS").unwrap_or(SEEDS)
        }
    };
    let mut struck: BTreeMap<String, u64> = BTreeMap::new();
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        let ran = run(&draw(seed));
        ran.struck.into_iter().for_each(|(name, count)| *struck.entry(name).or_default() += count);
        if let Some(why) = ran.failed {
            failed.push((seed, why));
        }
    }
    for (name, count) in &struck {
        println!("{count:>8}  {name}");
    }
    let Some((seed, why)) = failed.first() else { return };
    let all: Vec<String> = failed
        .iter()
        .map(|(seed, why)| {
            format!(
                "{seed}: {}",
                why.lines().take(3).collect::<Vec<_>>().join(" ").chars().take(300).collect::<String>()
            )
        })
        .collect();
    let small = shrink(&draw(*seed));
    panic!(
        "{} of {} seeds fail:\n{}\n\nseed {seed}: {why}\n\nagain: CAMPAIGN_SEED={seed} cargo test --test suite campaign\n\nas a script:\n{}",
        failed.len(),
        seeds.count(),
        all.join("\n"),
        small.text()
    );
}

#[test]
fn the_same_seed_draws_the_same_script() {
    assert_eq!(draw(17), draw(17));
    assert_ne!(draw(17).lines, draw(18).lines);
}
