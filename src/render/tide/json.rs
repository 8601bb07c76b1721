//! For programs: one JSON object. Its schema comes from the same types, and is part of the program's contract.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use super::{Question, words};
use crate::fleet::quota::Amount;
use crate::fleet::target::{self, PoolTarget, QuotaTarget};
use crate::fleet::{Change, tide};

/// The second number grows when fields are added, the first when one changes its meaning or goes away.
const FORMAT_VERSION: &str = "1.0";

/// What a fleet should be at an instant, and every change after it.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Tidewright tide", rename = "Tide")]
struct Report {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: &'static str,
    /// The fleet's name.
    fleet: String,
    /// The fleet's time zone, a name of the IANA database.
    time_zone: String,
    /// The instant that was asked for, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Up to when changes are told, in UTC.
    #[schemars(extend("format" = "date-time"))]
    until: String,
    /// What the fleet should be at `at`.
    target: Target,
    /// Every instant after `at` and up to `until` at which that changes.
    transitions: Vec<Transition>,
}

/// What a fleet should be at an instant.
#[derive(Serialize, JsonSchema)]
struct Target {
    /// Each tide by its name.
    tides: BTreeMap<String, Phase>,
    /// Each pool by its name.
    pools: BTreeMap<String, Pool>,
    /// Each quota by its name.
    quotas: BTreeMap<String, Quota>,
}

/// Where a tide is, with the instants that come next in UTC.
#[derive(Serialize, JsonSchema)]
struct Phase {
    /// `high`: nothing is lent. `low`: what the schedule says is lent and resized. `reclaiming`: lent nodes are asked
    /// back. `hard_reclaim`: what is still there is evicted.
    phase: PhaseName,
    /// When lent nodes are asked back. With `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    reclaim_at: Option<String>,
    /// When what is still there is evicted. With `reclaiming`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    hard_at: Option<String>,
    /// When all nodes are back. With `reclaiming` and `hard_reclaim`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    due: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PhaseName {
    High,
    Low,
    Reclaiming,
    HardReclaim,
}

/// A pool at an instant.
#[derive(Serialize, JsonSchema)]
struct Pool {
    /// The name that it had before, if it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_from: Option<String>,
    /// How many nodes it should have.
    nodes: u32,
    /// Its slots, each in exactly one part.
    parts: Vec<Part>,
}

/// Neighbouring slots of a pool that serve one purpose.
#[derive(Serialize, JsonSchema)]
struct Part {
    /// The first slot, from 0.
    first: u32,
    /// How many slots.
    nodes: u32,
    /// The GpuLayout that their GPUs are cut by, or `whole`.
    layout: String,
    /// `spare`: kept out of the queues, to replace a sick node at once. `own`: used by the pool's quotas. `lent`: used
    /// by another quota until the tide turns. `returning`: on the way back.
    purpose: Purpose,
    /// The tide that lends them. With `lent` and `returning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tide: Option<String>,
    /// The quota that gives them. With `lent` and `returning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The quota that has them. With `lent` and `returning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// When they are back, in UTC. With `returning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    due: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    Spare,
    Own,
    Lent,
    Returning,
}

/// A quota at an instant.
#[derive(Serialize, JsonSchema)]
struct Quota {
    /// Its share of each pool, by the pool's name.
    shares: BTreeMap<String, Share>,
    /// What it has from other quotas while a tide is low.
    loans: Vec<Loan>,
}

/// A share of one pool.
#[derive(Serialize, JsonSchema)]
struct Share {
    /// What it always gets back.
    guarantee: Quantity,
    /// What it may use beyond that while others leave it free. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    borrow: Option<Quantity>,
    /// How much of its guarantee others may use while it is free. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    lend: Option<Quantity>,
}

/// How much of a pool, in exactly one unit.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Quantity {
    /// Whole GPUs.
    Gpus(u32),
    /// Whole nodes.
    Nodes(u32),
    /// MIG slices by profile.
    Slices(BTreeMap<String, u32>),
}

/// What a quota has from another.
#[derive(Serialize, JsonSchema)]
struct Loan {
    /// The tide that lends it.
    tide: String,
    /// The pool whose nodes they are.
    pool: String,
    /// The quota that gives them.
    from: String,
    /// How many nodes.
    nodes: u32,
    /// How many whole GPUs these hold, as they are cut while they are lent.
    gpus: u32,
    /// How many MIG slices of each profile these hold, as they are cut while they are lent.
    slices: BTreeMap<String, u32>,
}

/// An instant at which something changes.
#[derive(Serialize, JsonSchema)]
struct Transition {
    /// The instant, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// What is different from it on.
    changes: Vec<OneChange>,
}

/// One thing that is different after an instant.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "Change")]
enum OneChange {
    /// A tide turns.
    Tide {
        /// The tide.
        name: String,
        /// For people, in the fleet's time zone. The wording may change at any time.
        words: Vec<String>,
        /// Where it is from now on.
        after: Phase,
    },
    /// A pool has another size, or nodes of it change hands or layout.
    Pool {
        /// The pool.
        name: String,
        /// For people. The wording may change at any time.
        words: Vec<String>,
        /// What it was.
        before: Pool,
        /// What it is from now on.
        after: Pool,
    },
    /// A quota has more or less than before.
    Quota {
        /// The quota.
        name: String,
        /// For people. The wording may change at any time.
        words: Vec<String>,
        /// What it was.
        before: Quota,
        /// What it is from now on.
        after: Quota,
    },
}

/// Ends with a line break.
pub fn json(question: &Question<'_>) -> String {
    let Question { fleet, at, until, .. } = *question;
    let zone = fleet.time_zone.zone();
    let target = fleet.target_at(at);
    let transitions = fleet.transitions(at, until).into_iter().map(|(when, changes)| Transition {
        at: when.to_string(),
        changes: changes
            .iter()
            .map(|change| {
                let words = words::change(change, when, &zone);
                match change {
                    Change::Tide { tide, phase } => {
                        OneChange::Tide { name: tide.to_string(), words, after: self::phase(phase) }
                    }
                    Change::Pool { pool: name, before, after } => {
                        OneChange::Pool { name: name.to_string(), words, before: pool(before), after: pool(after) }
                    }
                    Change::Quota { quota: name, before, after } => {
                        OneChange::Quota { name: name.to_string(), words, before: quota(before), after: quota(after) }
                    }
                }
            })
            .collect(),
    });
    let report = Report {
        format_version: FORMAT_VERSION,
        fleet: fleet.name.to_string(),
        time_zone: fleet.time_zone.to_string(),
        at: at.to_string(),
        until: until.to_string(),
        target: Target {
            tides: target.tides.iter().map(|(name, one)| (name.to_string(), phase(one))).collect(),
            pools: target.pools.iter().map(|(name, one)| (name.to_string(), pool(one))).collect(),
            quotas: target.quotas.iter().map(|(name, one)| (name.to_string(), quota(one))).collect(),
        },
        transitions: transitions.collect(),
    };
    serde_json::to_string_pretty(&report).expect("plain data always serialises") + "\n"
}

/// The JSON Schema (draft-07) of what [`json`] gives.
pub fn json_schema() -> serde_json::Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Report>().to_value()
}

fn phase(phase: &tide::Phase) -> Phase {
    let none = Phase { phase: PhaseName::High, reclaim_at: None, hard_at: None, due: None };
    let some = |at: Timestamp| Some(at.to_string());
    match *phase {
        tide::Phase::High => none,
        tide::Phase::Low { reclaim_at } => Phase { phase: PhaseName::Low, reclaim_at: some(reclaim_at), ..none },
        tide::Phase::Reclaiming { hard_at, due } => {
            Phase { phase: PhaseName::Reclaiming, hard_at: some(hard_at), due: some(due), ..none }
        }
        tide::Phase::HardReclaim { due } => Phase { phase: PhaseName::HardReclaim, due: some(due), ..none },
    }
}

fn pool(pool: &PoolTarget) -> Pool {
    Pool {
        renamed_from: pool.renamed_from.as_ref().map(|name| name.to_string()),
        nodes: pool.nodes,
        parts: pool.parts.iter().map(part).collect(),
    }
}

fn part(part: &target::Part) -> Part {
    let (purpose, loan, due) = match &part.purpose {
        target::Purpose::Spare => (Purpose::Spare, None, None),
        target::Purpose::Own => (Purpose::Own, None, None),
        target::Purpose::Lent { tide, from, to } => (Purpose::Lent, Some((tide, from, to)), None),
        target::Purpose::Returning { tide, from, to, due, .. } => {
            (Purpose::Returning, Some((tide, from, to)), Some(due))
        }
    };
    Part {
        first: part.first,
        nodes: part.nodes,
        layout: part.layout.to_string(),
        purpose,
        tide: loan.map(|(tide, ..)| tide.to_string()),
        from: loan.map(|(_, from, _)| from.to_string()),
        to: loan.map(|(.., to)| to.to_string()),
        due: due.map(|due| due.to_string()),
    }
}

fn quota(quota: &QuotaTarget) -> Quota {
    let shares = quota.shares.iter().map(|(pool, share)| {
        let share = Share {
            guarantee: quantity(&share.guarantee),
            borrow: share.borrow.as_ref().map(quantity),
            lend: share.lend.as_ref().map(quantity),
        };
        (pool.to_string(), share)
    });
    let loans = quota.loans.iter().map(|loan| Loan {
        tide: loan.tide.to_string(),
        pool: loan.pool.to_string(),
        from: loan.from.to_string(),
        nodes: loan.supply.nodes,
        gpus: loan.supply.gpus,
        slices: slices(&loan.supply.slices),
    });
    Quota { shares: shares.collect(), loans: loans.collect() }
}

fn quantity(amount: &Amount) -> Quantity {
    match amount {
        Amount::Gpus(gpus) => Quantity::Gpus(*gpus),
        Amount::Nodes(nodes) => Quantity::Nodes(*nodes),
        Amount::Slices(by_profile) => Quantity::Slices(slices(by_profile)),
    }
}

fn slices(slices: &BTreeMap<crate::ids::MigProfile, u32>) -> BTreeMap<String, u32> {
    slices.iter().map(|(profile, count)| (profile.to_string(), *count)).collect()
}
