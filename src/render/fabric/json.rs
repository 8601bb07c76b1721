//! The same for programs.

use serde_json::{Value, json};

use super::{Shown, oddity, why};
use crate::fabric::gang::{Answer, Gang};
use crate::fabric::slots::FreeSlots;
use crate::fabric::{SLOTS, Score};
use crate::plan::placing::{Choice, Position, Site};

/// Grows by a minor number when something is added, by a major one when something that was there changes.
const FORMAT_VERSION: &str = "1.0";

pub fn json(shown: &Shown<'_>) -> Value {
    let site = shown.site;
    let (before, after) = shown.slots();
    let (idle, idle_after) = shown.idle();
    let pool = |pool: Option<u32>| pool.map(|pool| site.pools[pool as usize].as_str());
    let pools: Vec<Value> = shown
        .reasons
        .iter()
        .map(|reason| {
            let at = reason.pool as usize;
            let leaves = reason.leaves.iter().map(
                |(leaf, nodes)| json!({"path": site.tree.path(site.tree.depth() - 1, *leaf as usize), "nodes": nodes}),
            );
            json!({
                "name": site.pools[at],
                "nodes": site.asks[at].nodes,
                "placed": reason.placed,
                "fragments": reason.fragments,
                "leaves": leaves.collect::<Vec<_>>(),
                "cost": reason.cost,
                "moves": reason.moves,
                "chosen": match site.choices[at] {
                    Choice::Nodes => "nodes",
                    Choice::Launches => "launches",
                    Choice::Hosts => "hosts",
                },
                "next_best": reason.next.as_ref().map(|next| json!({
                    "more": next.more, "unplaced": next.unplaced, "moves": next.moves,
                })),
                "why": why(site, reason).iter().map(|line| line.trim()).collect::<Vec<_>>(),
            })
        })
        .collect();
    let hosts: Vec<Value> = site
        .spots
        .iter()
        .zip(&shown.placement.hosts)
        .enumerate()
        .map(|(at, (spot, to))| {
            json!({
                "name": site.tree.hosts[at],
                "path": site.tree.path(site.tree.depth() - 1, site.tree.leaf_of[at] as usize),
                "state": position(spot.standing),
                "gpus": spot.gpus,
                "free_gpus": spot.free,
                "pool": pool(spot.pool),
                "should_be": pool(*to),
            })
        })
        .collect();
    json!({
        "format_version": FORMAT_VERSION,
        "fleet": shown.fleet,
        "levels": site.tree.levels,
        "pools": pools,
        "hosts": hosts,
        "now": score(&shown.placement.stay),
        "placed": score(&shown.placement.score),
        "free_slots": {"now": slots(&before), "placed": slots(&after)},
        "idle_slots": {"now": slots(&idle), "placed": slots(&idle_after)},
        "fragmented": shown.fragmented.map(|(lost, free)| json!({"gpus": lost / 1_000.0, "of_free": free / 1_000.0})),
        "notes": site.notes.iter().map(oddity).collect::<Vec<_>>(),
    })
}

fn score(score: &Score) -> Value {
    json!({"unplaced": score.unplaced, "shared": score.shared, "cost": score.cost, "moves": score.moves})
}

fn slots(levels: &[FreeSlots]) -> Value {
    let counts = |level: &FreeSlots| -> serde_json::Map<String, Value> {
        SLOTS.iter().zip(level.slots).map(|(size, count)| (size.to_string(), count.into())).collect()
    };
    let level = |level: &FreeSlots| json!({"level": level.level, "slots": counts(level), "largest": level.largest});
    levels.iter().map(level).collect()
}

pub(super) fn position(position: Position) -> &'static str {
    match position {
        Position::Serving => "serving",
        Position::Free => "free",
        Position::Cordoned => "cordoned",
        Position::Draining => "draining",
        Position::Sick => "sick",
        Position::Unused => "reserved, unused",
        Position::Foreign => "somebody else's",
        Position::Offered => "on offer",
    }
}

pub fn gang_json(site: &Site, asked: &Gang, answer: &Answer, work: &[String]) -> Value {
    let host = |host: &usize| site.tree.hosts[*host].to_string();
    let level = asked.together.map(|level| site.tree.levels[level].to_string());
    let found = match answer {
        Answer::Fits(fit) => json!({
            "fits": true,
            "pool": site.pools.get(fit.kind as usize),
            "hosts": fit.hosts.iter().map(host).collect::<Vec<_>>(),
            "levels_crossed": fit.crossed,
            "allreduce_seconds": fit.seconds,
            "allreduce_seconds_at_best": fit.at_best,
        }),
        Answer::Not(misfit) => json!({
            "fits": false,
            "needs_hosts": misfit.needs,
            "most_free": misfit.most,
            "ever": misfit.ever,
            "make_room": misfit.room.as_ref().map(|room| json!({
                "empty": room.empty.iter().map(host).collect::<Vec<_>>(),
                "work": room.work.iter().filter_map(|at| work.get(*at as usize)).collect::<Vec<_>>(),
            })),
        }),
    };
    json!({
        "format_version": FORMAT_VERSION,
        "gpus": asked.gpus,
        "together": level,
        "required": asked.required,
        "answer": found,
    })
}
