//! The same for programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::{Shown, oddity, why};
use crate::fabric;
use crate::fabric::SLOTS;
use crate::fabric::gang::Gang;
use crate::fabric::slots::FreeSlots;
use crate::plan::placing::{Choice, Position, Site};

/// Grows by a minor number when something is added, by a major one when something that was there changes.
const FORMAT_VERSION: &str = "1.0";

/// A fleet on its fabric, or with `--gpus` where a gang would go.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Tidewright place", rename = "Place")]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)]
enum Report {
    Fleet(FleetReport),
    Gang(GangReport),
}

/// Where every host of a fleet hangs, which pool has it, and which should.
#[derive(Serialize, JsonSchema)]
struct FleetReport {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: &'static str,
    /// The fleet's name.
    fleet: String,
    /// The levels of the fabric, from the top.
    levels: Vec<String>,
    /// Each pool: where it should stand, and why there.
    pools: Vec<Pool>,
    /// Each host, in the order of the tree.
    hosts: Vec<Host>,
    /// What the placement that is there is worth.
    now: Score,
    /// What the one that is proposed is worth.
    placed: Score,
    /// Free slots of hosts that no pool has.
    free_slots: Change,
    /// Free slots of idle nodes in service, inside one pool each.
    idle_slots: Change,
    /// How much of the free GPUs is of no use to work of the shapes that run now; null where nothing runs.
    fragmented: Option<Fragmented>,
    /// What is odd about the labels of single nodes.
    notes: Vec<String>,
}

/// One pool.
#[derive(Serialize, JsonSchema)]
struct Pool {
    /// Its name.
    name: String,
    /// How many nodes it asks for.
    nodes: u32,
    /// How many of them have a place.
    placed: u32,
    /// How many domains it touches, by level from the top.
    fragments: Vec<u32>,
    /// How many nodes it has where.
    leaves: Vec<Leaf>,
    /// What its crossings cost.
    cost: u64,
    /// How many nodes would move for it.
    moves: u64,
    /// What can be chosen for it.
    chosen: Chosen,
    /// The best place without the one that was chosen; null where there is none.
    next_best: Option<NextBest>,
    /// The same in words.
    why: Vec<String>,
}

/// Nodes of a pool in one domain of the finest level.
#[derive(Serialize, JsonSchema)]
struct Leaf {
    /// The domain, from the top.
    path: Vec<String>,
    /// How many.
    nodes: u32,
}

/// What can be chosen for a pool: which nodes belong to it; reservation, zone and placement group of its launches; or
/// the very hosts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Chosen {
    Nodes,
    Launches,
    Hosts,
}

/// Another place for a pool.
#[derive(Serialize, JsonSchema)]
struct NextBest {
    /// What more its crossings would cost there; less than nothing where others would pay for it.
    more: i64,
    /// Nodes that would have no place.
    unplaced: u32,
    /// Nodes that would have to move.
    moves: u64,
}

/// One host.
#[derive(Serialize, JsonSchema)]
struct Host {
    /// The node's name, or that of a place in a reservation or of a host that a launch may name.
    name: String,
    /// Where it hangs, from the top.
    path: Vec<String>,
    /// In what state it is.
    #[schemars(with = "State")]
    state: &'static str,
    /// How many GPUs it has.
    gpus: u32,
    /// How many of them no pod asked for.
    free_gpus: u32,
    /// The pool that has it; null where none does.
    pool: Option<String>,
    /// The pool that should have it.
    should_be: Option<String>,
}

/// In what state a host is.
#[derive(JsonSchema)]
#[allow(dead_code)]
enum State {
    #[schemars(rename = "serving")]
    Serving,
    #[schemars(rename = "free")]
    Free,
    #[schemars(rename = "cordoned")]
    Cordoned,
    #[schemars(rename = "draining")]
    Draining,
    #[schemars(rename = "sick")]
    Sick,
    #[schemars(rename = "reserved, unused")]
    Unused,
    #[schemars(rename = "somebody else's")]
    Foreign,
    #[schemars(rename = "on offer")]
    Offered,
}

/// What a placement is worth: the first difference decides.
#[derive(Serialize, JsonSchema)]
struct Score {
    /// Nodes without a place.
    unplaced: u64,
    /// Domains that pools share which should be apart.
    shared: u64,
    /// What crossings and moves cost.
    cost: u64,
    /// Nodes that move.
    moves: u64,
}

/// Now, and with the placement that is proposed.
#[derive(Serialize, JsonSchema)]
struct Change {
    /// As it is.
    now: Vec<Level>,
    /// As it would be.
    placed: Vec<Level>,
}

/// Free slots inside one domain of a level each.
#[derive(Serialize, JsonSchema)]
struct Level {
    /// The level.
    level: String,
    /// How many there are, by their GPUs.
    slots: BTreeMap<String, u64>,
    /// The free GPUs of the domain that has the most.
    largest: u32,
}

/// Free GPUs that are of no use.
#[derive(Serialize, JsonSchema)]
struct Fragmented {
    /// So many.
    gpus: f64,
    /// Of so many that are free.
    of_free: f64,
}

/// Where a gang would go.
#[derive(Serialize, JsonSchema)]
struct GangReport {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: &'static str,
    /// How many GPUs it has.
    gpus: u32,
    /// The level that it should share; null: none.
    together: Option<String>,
    /// Whether it must.
    required: bool,
    /// Where it would go, or why it cannot.
    answer: Answer,
}

/// A place, or what is in the way.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Answer {
    Fits(Fit),
    Not(Misfit),
}

/// A place for a gang.
#[derive(Serialize, JsonSchema)]
struct Fit {
    /// Whether it has a place: true.
    fits: bool,
    /// The pool whose nodes those are; null where they are nobody's.
    pool: Option<String>,
    /// The hosts that it would have.
    hosts: Vec<String>,
    /// How many levels it crosses.
    levels_crossed: usize,
    /// What an all-reduce of 10⁹ bytes takes there.
    allreduce_seconds: f64,
    /// What it takes in the best place that an empty fabric would have.
    allreduce_seconds_at_best: f64,
}

/// Why a gang has no place.
#[derive(Serialize, JsonSchema)]
struct Misfit {
    /// Whether it has a place: false.
    fits: bool,
    /// Hosts that it needs.
    needs_hosts: u32,
    /// The most free ones that one domain of the level has.
    most_free: u32,
    /// Those that would do there if nobody used them.
    ever: u32,
    /// The smallest move that makes room; null where none does.
    make_room: Option<MakeRoom>,
}

/// What has to move.
#[derive(Serialize, JsonSchema)]
struct MakeRoom {
    /// Hosts to empty.
    empty: Vec<String>,
    /// The work on them, which has to begin again elsewhere.
    work: Vec<String>,
}

pub fn json(shown: &Shown<'_>) -> Value {
    let site = shown.site;
    let (before, after) = shown.slots();
    let (idle, idle_after) = shown.idle();
    let fragmented = shown.fragmented.map(|(lost, free)| Fragmented { gpus: lost / 1_000.0, of_free: free / 1_000.0 });
    value(&Report::Fleet(FleetReport {
        format_version: FORMAT_VERSION,
        fleet: shown.fleet.to_string(),
        levels: site.tree.levels.iter().map(ToString::to_string).collect(),
        pools: shown.reasons.iter().map(|reason| pool(site, reason)).collect(),
        hosts: (0..site.spots.len()).map(|at| host(shown, at)).collect(),
        now: score(&shown.placement.stay),
        placed: score(&shown.placement.score),
        free_slots: Change { now: levels(&before), placed: levels(&after) },
        idle_slots: Change { now: levels(&idle), placed: levels(&idle_after) },
        fragmented,
        notes: site.notes.iter().map(oddity).collect(),
    }))
}

/// The JSON Schema (draft-07) of what [`json`] and [`gang_json`] give.
pub fn json_schema() -> Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Report>().to_value()
}

fn value(report: &Report) -> Value {
    serde_json::to_value(report).expect("plain data always serialises")
}

fn pool(site: &Site, reason: &fabric::reasons::Reason) -> Pool {
    let at = reason.pool as usize;
    let leaf = |(leaf, nodes): &(u32, u32)| Leaf { path: path(site, *leaf as usize), nodes: *nodes };
    let next = reason.next.as_ref();
    Pool {
        name: site.pools[at].to_string(),
        nodes: site.asks[at].nodes,
        placed: reason.placed,
        fragments: reason.fragments.clone(),
        leaves: reason.leaves.iter().map(leaf).collect(),
        cost: reason.cost,
        moves: reason.moves,
        chosen: match site.choices[at] {
            Choice::Nodes => Chosen::Nodes,
            Choice::Launches => Chosen::Launches,
            Choice::Hosts => Chosen::Hosts,
        },
        next_best: next.map(|next| NextBest { more: next.more, unplaced: next.unplaced, moves: next.moves }),
        why: why(site, reason).iter().map(|line| line.trim().to_string()).collect(),
    }
}

fn host(shown: &Shown<'_>, at: usize) -> Host {
    let (site, spot) = (shown.site, &shown.site.spots[at]);
    let pool = |pool: Option<u32>| pool.map(|pool| site.pools[pool as usize].to_string());
    Host {
        name: site.tree.hosts[at].to_string(),
        path: path(site, site.tree.leaf_of[at] as usize),
        state: position(spot.standing),
        gpus: spot.gpus,
        free_gpus: spot.free,
        pool: pool(spot.pool),
        should_be: pool(shown.placement.hosts[at]),
    }
}

fn path(site: &Site, leaf: usize) -> Vec<String> {
    site.tree.path(site.tree.depth() - 1, leaf).into_iter().map(str::to_owned).collect()
}

fn score(score: &fabric::Score) -> Score {
    Score { unplaced: score.unplaced, shared: score.shared, cost: score.cost, moves: score.moves }
}

fn levels(levels: &[FreeSlots]) -> Vec<Level> {
    let counts = |level: &FreeSlots| SLOTS.iter().zip(level.slots).map(|(size, count)| (size.to_string(), count));
    let level = |level: &FreeSlots| Level {
        level: level.level.to_string(),
        slots: counts(level).collect(),
        largest: level.largest,
    };
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

pub fn gang_json(site: &Site, asked: &Gang, answer: &fabric::gang::Answer, work: &[String]) -> Value {
    let host = |host: &usize| site.tree.hosts[*host].to_string();
    let answer = match answer {
        fabric::gang::Answer::Fits(fit) => Answer::Fits(Fit {
            fits: true,
            pool: site.pools.get(fit.kind as usize).map(ToString::to_string),
            hosts: fit.hosts.iter().map(host).collect(),
            levels_crossed: fit.crossed,
            allreduce_seconds: fit.seconds,
            allreduce_seconds_at_best: fit.at_best,
        }),
        fabric::gang::Answer::Not(misfit) => Answer::Not(Misfit {
            fits: false,
            needs_hosts: misfit.needs,
            most_free: misfit.most,
            ever: misfit.ever,
            make_room: misfit.room.as_ref().map(|room| MakeRoom {
                empty: room.empty.iter().map(host).collect(),
                work: room.work.iter().filter_map(|at| work.get(*at as usize)).cloned().collect(),
            }),
        }),
    };
    value(&Report::Gang(GangReport {
        format_version: FORMAT_VERSION,
        gpus: asked.gpus,
        together: asked.together.map(|level| site.tree.levels[level].to_string()),
        required: asked.required,
        answer,
    }))
}
