//! How pools stand on the fabric, for programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::stands::{buys, pool_lines};
use crate::fabric::SLOTS;
use crate::plan::placing::Choice;
use crate::plan::stands::{self, Stands};
use crate::render::fabric::oddity;

/// How pools stand on the fabric before the plan and after it. Crossings are counted at their prices: one more domain of
/// the finest level is 1, of each level above twice the one below, four times that up to the level a pool asks to share.
#[derive(Serialize, JsonSchema)]
pub struct Fabric {
    /// The levels, coarse to fine.
    levels: Vec<String>,
    /// Every pool.
    pools: Vec<Pool>,
    /// Slots of free GPUs inside one domain each, by level: on nodes that no pool has.
    free_slots: Vec<Level>,
    /// The same on nodes in service of which no GPU is in use, inside one pool each.
    idle_slots: Vec<Level>,
    /// FGD's fragmentation of free GPUs on serving nodes, by GPUs alone. Absent: no work is seen that says what is of use.
    #[serde(skip_serializing_if = "Option::is_none")]
    fragmented: Option<Fragmented>,
    /// Nodes that leave their pool, those together that only pay together.
    moves: Vec<Bargain>,
    /// What nodes say of their place and does not fit. For people.
    notes: Vec<String>,
}

/// Where one pool is.
#[derive(Serialize, JsonSchema)]
struct Pool {
    /// Its name.
    name: String,
    /// What can be chosen for it.
    chosen: Chosen,
    /// How many nodes it wants.
    wanted: u32,
    /// The level that its nodes should share.
    #[serde(skip_serializing_if = "Option::is_none")]
    together: Option<String>,
    /// Whether rather a node is missing than one is elsewhere.
    required: bool,
    /// Where it is now.
    before: Where,
    /// Where it is when the plan is done.
    after: Where,
    /// The best place without the one that it has then. Absent: there is none, or nothing to choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_best: Option<Next>,
    /// How many times as long an all-reduce over all of it takes as in the best place, where that is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    times_slower: Option<f64>,
    /// Pools that it should be apart from and is not.
    beside: Vec<String>,
    /// For people. The wording may change at any time.
    words: Vec<String>,
}

/// What can be chosen for a pool.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Chosen {
    /// Which nodes belong to it.
    Nodes,
    /// Reservation, zone and placement group of a launch.
    Launches,
    /// The very hosts.
    Hosts,
}

/// Nodes by where they hang.
#[derive(Serialize, JsonSchema)]
struct Where {
    /// How many have a place.
    nodes: u32,
    /// The finest level on which they are in one domain. Absent: they are in several of the topmost.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<Within>,
    /// How many in which domain of the finest level.
    leaves: Vec<Leaf>,
    /// What their crossings cost.
    crossings: u64,
}

/// One domain that holds all.
#[derive(Serialize, JsonSchema)]
struct Within {
    /// The level.
    level: String,
    /// The domain.
    domain: String,
}

/// A domain of the finest level.
#[derive(Serialize, JsonSchema)]
struct Leaf {
    /// Its name.
    name: String,
    /// Nodes of the pool in it.
    nodes: u32,
}

/// The next best place.
#[derive(Serialize, JsonSchema)]
struct Next {
    /// Where nodes would be there that are elsewhere after the plan; the others stay where they are.
    leaves: Vec<Leaf>,
    /// What more its crossings would cost.
    more: i64,
    /// Nodes that would have no place there.
    unplaced: u32,
    /// Nodes that would have to move for it.
    moves: u64,
}

/// One level.
#[derive(Serialize, JsonSchema)]
struct Level {
    /// Its name.
    level: String,
    /// Slots by their size in GPUs, the largest first.
    slots: Vec<Slots>,
    /// Free GPUs of the domain that has the most, now.
    largest_before: u32,
    /// And when the plan is done.
    largest_after: u32,
}

/// Slots of one size.
#[derive(Serialize, JsonSchema)]
struct Slots {
    /// GPUs of one slot.
    gpus: u32,
    /// How many are free now.
    before: u64,
    /// And when the plan is done.
    after: u64,
}

/// GPUs that are free, and of no use to work of the shapes that run now.
#[derive(Serialize, JsonSchema)]
struct Fragmented {
    /// Free now.
    free_before: f64,
    /// Free when the plan is done.
    free_after: f64,
    /// Of no use now.
    lost_before: f64,
    /// Of no use when the plan is done.
    lost_after: f64,
}

/// Moves that pay together.
#[derive(Serialize, JsonSchema)]
struct Bargain {
    /// The nodes.
    nodes: Vec<Move>,
    /// Crossings that are saved.
    saves: i64,
    /// For people. The wording may change at any time.
    buys: String,
}

/// One node.
#[derive(Serialize, JsonSchema)]
struct Move {
    /// Its name.
    node: String,
    /// The pool that it leaves.
    from: String,
    /// The pool that gets it. Absent: it is free then.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Whether work is on it now.
    busy: bool,
}

pub fn fabric(stands: &Stands) -> Fabric {
    let gpus = |thousandths: u64| thousandths as f64 / 1_000.0;
    Fabric {
        levels: stands.levels.iter().map(ToString::to_string).collect(),
        pools: stands.pools.iter().map(|one| pool(stands, one)).collect(),
        free_slots: stands.slots.iter().map(level).collect(),
        idle_slots: stands.idle.iter().map(level).collect(),
        fragmented: stands.fragmented.map(|found| Fragmented {
            free_before: gpus(found.free.0),
            free_after: gpus(found.free.1),
            lost_before: gpus(found.lost.0),
            lost_after: gpus(found.lost.1),
        }),
        moves: stands.bargains.iter().map(bargain).collect(),
        notes: stands.odd.iter().map(oddity).collect(),
    }
}

fn pool(stands: &Stands, one: &stands::PoolStands) -> Pool {
    let words = pool_lines(stands, one).iter().map(|line| line.trim().to_string()).collect();
    Pool {
        name: one.pool.to_string(),
        chosen: match one.choice {
            Choice::Nodes => Chosen::Nodes,
            Choice::Launches => Chosen::Launches,
            Choice::Hosts => Chosen::Hosts,
        },
        wanted: one.wanted,
        together: one.together.as_ref().map(ToString::to_string),
        required: one.required,
        before: whereabouts(&one.before),
        after: whereabouts(&one.after),
        next_best: one.next.as_ref().map(|next| Next {
            leaves: leaves(&next.leaves),
            more: next.more,
            unplaced: next.unplaced,
            moves: next.moves,
        }),
        times_slower: one.slower.map(|slower| f64::from(slower) / 100.0),
        beside: one.beside.iter().map(ToString::to_string).collect(),
        words,
    }
}

fn whereabouts(at: &stands::Where) -> Where {
    let within = at.within.as_ref().map(|(level, domain)| Within { level: level.to_string(), domain: domain.clone() });
    Where { nodes: at.nodes, within, leaves: leaves(&at.leaves), crossings: at.crossings }
}

fn leaves(found: &[(String, u32)]) -> Vec<Leaf> {
    found.iter().map(|(name, nodes)| Leaf { name: name.clone(), nodes: *nodes }).collect()
}

fn level(one: &stands::LevelSlots) -> Level {
    let slots = SLOTS.iter().zip(one.before.iter().zip(one.after));
    let slots = slots.map(|(gpus, (before, after))| Slots { gpus: *gpus, before: *before, after });
    Level {
        level: one.level.to_string(),
        slots: slots.collect(),
        largest_before: one.largest.0,
        largest_after: one.largest.1,
    }
}

fn bargain(one: &stands::Bargain) -> Bargain {
    let nodes = one.moves.iter().map(|node| Move {
        node: node.node.to_string(),
        from: node.from.to_string(),
        to: node.to.as_ref().map(ToString::to_string),
        busy: node.busy,
    });
    Bargain { nodes: nodes.collect(), saves: one.saves, buys: buys(one) }
}
