//! For programs: one JSON object. Its schema comes from the same types, and is part of the program's contract.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use super::super::plan::words::Words;
use super::{dollars, instant, sentence, state};
use crate::effect::Scope;
use crate::fleet::policy::Remedy;
use crate::fleet::quota::Amount;
use crate::fleet::tide;
use crate::status::{self, Status};

/// The second number grows when fields are added, the first when one changes its meaning or goes away.
const FORMAT_VERSION: &str = "1.3";

/// Whether a fleet is as git says, and what it waits for.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Tidewright status", rename = "Status")]
struct Root {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: &'static str,
    /// The fleet's name.
    fleet: String,
    /// The fleet's time zone, a name of the IANA database.
    time_zone: String,
    /// The instant that it is told for, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The git revision of the documents, if they come from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    /// The digest of everything that it depends on.
    plan_id: String,
    /// `converged`: as git says. `changing`: something can be done, or is on its way. `blocked`: something is wanted, and
    /// nothing of it can be done now. `frozen`: everything is stopped.
    verdict: Verdict,
    /// For people. The wording may change at any time.
    words: String,
    /// How many steps could be done now.
    steps: usize,
    /// How many of them wait for an approval.
    unapproved: usize,
    /// The digest of an approval, given before, that covers all of them: `tidewright apply --approved` takes it.
    approved: Option<String>,
    /// Each pool by its name.
    pools: BTreeMap<String, Pool>,
    /// Each reservation by its name.
    reservations: BTreeMap<String, Reservation>,
    /// Each quota's share of each pool.
    quotas: Vec<Share>,
    /// Quotas whose work waits although their guarantee is not used up.
    unmet: Vec<Unmet>,
    /// Each tide by its name.
    tides: BTreeMap<String, Tide>,
    /// When it was seen that the ledger was lost, with the freezes, recalls, quarantines, drains and approvals that it held;
    /// until `tidewright lost --yes` says that this is known.
    ledger_lost: Option<String>,
    /// What is stopped, by whom and why.
    freezes: Vec<Freeze>,
    /// Nodes that are out of service until a person returns them.
    quarantines: Vec<Quarantine>,
    /// Nodes that a person wants empty until they say otherwise.
    drains: Vec<Drain>,
    /// Nodes with the annotation `tidewright.dev/hands-off`.
    hands_off: Vec<String>,
    /// What is written there, by the node.
    hands_off_why: BTreeMap<String, String>,
    /// Nodes that show what their HealthPolicy only reports: nothing is done about it.
    reports: Vec<Report>,
    /// What is wanted and not done now.
    held: Vec<Held>,
    /// What could not be read.
    gaps: Vec<Gap>,
}

#[derive(Serialize, JsonSchema)]
struct Unmet {
    quota: String,
    /// What waits, and who or what is in its way. For people: the wording may change at any time.
    words: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Converged,
    Changing,
    Blocked,
    Frozen,
}

/// Where the nodes of a pool are. Every slot is counted once.
#[derive(Serialize, JsonSchema)]
struct Pool {
    /// The instance type of its nodes.
    instance_type: String,
    /// How many GPUs a node has.
    gpus_per_node: u32,
    /// How many nodes it should have.
    wanted: u32,
    /// In service.
    ready: u32,
    /// Being emptied, or kept empty for a change.
    draining: u32,
    /// Closed to new pods by somebody else.
    cordoned: u32,
    /// Emptied, and kept so by a quarantine or a drain.
    closed: u32,
    /// Asked for, and not in the cluster yet.
    launching: u32,
    /// In the cluster, and not ready.
    unready: u32,
    /// Nothing is there.
    missing: u32,
    /// Beyond what is wanted.
    surplus: u32,
    /// Those of them that are closed by us, on their way out.
    leaving: u32,
    /// How many of the wanted are spares.
    spares: u32,
    /// Each layout by its name.
    layouts: BTreeMap<String, Layout>,
}

/// How many nodes are cut in one way.
#[derive(Serialize, JsonSchema)]
struct Layout {
    /// How many should be.
    wanted: u32,
    /// How many are.
    cut: u32,
}

/// A reservation.
#[derive(Serialize, JsonSchema)]
struct Reservation {
    /// Its id in the cloud, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Whether it is a Capacity Block.
    capacity_block: bool,
    /// How many nodes the document says.
    wanted: u32,
    /// `pending`, `scheduled`, `active`, `ended`, or what the cloud says. Absent: it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// How many nodes it holds.
    nodes: u32,
    /// How many of them are used.
    used: u32,
    /// How many of them are not.
    idle: u32,
    /// What these cost an hour, in US dollars. Absent: no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_usd_per_hour: Option<String>,
    /// When it begins, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    start: Option<String>,
    /// When it ends, in UTC. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    end: Option<String>,
}

/// A quota's share of a pool.
#[derive(Serialize, JsonSchema)]
struct Share {
    /// The quota.
    quota: String,
    /// The pool.
    pool: String,
    /// What it always gets back: what its queue in the cluster promises now. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    guaranteed: Option<Quantity>,
    /// What the documents ask for at this hour. Absent: what is guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<Quantity>,
    /// What it has from others by a tide.
    on_loan: Supply,
    /// What its admitted work holds.
    used: Supply,
    /// What of that is beyond its guarantee and its loans.
    borrowed: Supply,
    /// What others have of its guarantee.
    lent: Supply,
    /// How many of the quota's workloads wait for room: told with its first share, 0 with the others.
    waiting: u32,
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

/// Some of a pool.
#[derive(Serialize, JsonSchema)]
struct Supply {
    /// Whole nodes.
    nodes: u32,
    /// Whole GPUs.
    gpus: u32,
    /// MIG slices by profile.
    slices: BTreeMap<String, u32>,
}

/// A tide.
#[derive(Serialize, JsonSchema)]
struct Tide {
    /// Where it is; with `closed` where the clock has it.
    phase: Phase,
    /// When it turns next, in UTC. Absent: not within 24 hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    turns_at: Option<String>,
    /// To what. With `turns_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns_to: Option<Phase>,
    /// How many nodes are lent.
    lent: u32,
    /// How many nodes are on their way back.
    returning: u32,
    /// Who turned it before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    recalled_by: Option<String>,
    /// Why it lends nothing although it is low by the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<String>,
    /// The last sample of its guard.
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Phase {
    High,
    Low,
    Reclaiming,
    HardReclaim,
}

/// Something that is stopped.
#[derive(Serialize, JsonSchema)]
struct Freeze {
    /// `fleet`, `pool/NAME` or `node/NAME`.
    scope: String,
    /// Who stopped it.
    by: String,
    /// When, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Why.
    reason: String,
    /// Also what has a deadline of its own.
    all: bool,
}

/// A node that is out of service.
#[derive(Serialize, JsonSchema)]
struct Quarantine {
    /// The node.
    node: String,
    /// Who said so.
    by: String,
    /// When, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Why.
    reason: String,
}

/// A node that a person wants empty.
#[derive(Serialize, JsonSchema)]
struct Drain {
    /// The node.
    node: String,
    /// Who said so.
    by: String,
    /// Since when, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Why.
    reason: String,
}

/// What a node shows and its HealthPolicy only reports.
#[derive(Serialize, JsonSchema)]
struct Report {
    /// The node.
    node: String,
    /// Its pool.
    pool: String,
    /// The HealthPolicy.
    policy: String,
    /// What it shows. For people: the wording may change at any time.
    words: String,
    /// Since when, in UTC.
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// What is done when it shows it again within a week: a word of the policy's `then`. Absent: it is reported again.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Remedy>,
}

/// Something that is wanted and not done.
#[derive(Serialize, JsonSchema)]
struct Held {
    /// The part of the fleet.
    what: String,
    /// What is wanted, in words.
    wanted: String,
    /// What kind of thing it waits on. The set may grow.
    waiting_on: &'static str,
    /// For people. The wording may change at any time.
    words: String,
    /// What a person can do about it: a command, or where to write what.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// Whether it comes without anybody's doing.
    comes_by_itself: bool,
    /// When it is expected to be done, in UTC, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    done_by: Option<String>,
}

/// Something that could not be read.
#[derive(Serialize, JsonSchema)]
struct Gap {
    /// What was asked.
    what: String,
    /// Why there is no answer.
    why: String,
}

/// Ends with a line break.
pub fn json(status: &Status, directory: &str) -> String {
    let words = Words {
        now: status.at,
        zone: status.time_zone.zone(),
        directory,
        plan: None,
        hands_off: status.hands_off.clone(),
    };
    let report = Root {
        format_version: FORMAT_VERSION,
        fleet: status.fleet.to_string(),
        time_zone: status.time_zone.to_string(),
        at: instant(status.at),
        revision: status.revision.clone(),
        plan_id: status.plan.to_string(),
        verdict: match status.verdict {
            status::Verdict::Converged => Verdict::Converged,
            status::Verdict::Changing => Verdict::Changing,
            status::Verdict::Blocked => Verdict::Blocked,
            status::Verdict::Frozen => Verdict::Frozen,
        },
        words: sentence(status, directory),
        steps: status.steps,
        unapproved: status.unapproved,
        approved: status.approved.as_ref().map(ToString::to_string),
        pools: status.pools.iter().map(|one| (one.pool.to_string(), pool(one))).collect(),
        reservations: status.reservations.iter().map(|one| (one.reservation.to_string(), reservation(one))).collect(),
        quotas: status.quotas.iter().map(share).collect(),
        unmet: status.unmet.iter().map(|one| Unmet { quota: one.quota.to_string(), words: one.why.clone() }).collect(),
        tides: status.tides.iter().map(|one| (one.tide.to_string(), tide(one))).collect(),
        ledger_lost: status.ledger_lost.map(instant),
        freezes: status.freezes.iter().map(freeze).collect(),
        quarantines: status
            .quarantines
            .iter()
            .map(|(node, why)| Quarantine {
                node: node.to_string(),
                by: why.by.clone(),
                at: instant(why.at),
                reason: why.reason.clone(),
            })
            .collect(),
        drains: status
            .drains
            .iter()
            .map(|(node, order)| Drain {
                node: node.to_string(),
                by: order.by.clone(),
                at: instant(order.at),
                reason: order.reason.clone(),
            })
            .collect(),
        hands_off: status.hands_off.iter().map(|(node, _)| node.to_string()).collect(),
        hands_off_why: status.hands_off.iter().map(|(node, why)| (node.to_string(), why.clone())).collect(),
        reports: status.reports.iter().map(report).collect(),
        held: status.held.iter().map(|one| held(one, &words)).collect(),
        gaps: status.gaps.iter().map(|gap| Gap { what: gap.what.clone(), why: gap.why.clone() }).collect(),
    };
    serde_json::to_string_pretty(&report).expect("plain data always serialises") + "\n"
}

/// The JSON Schema (draft-07) of what [`json`] gives.
pub fn json_schema() -> serde_json::Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Root>().to_value()
}

fn pool(pool: &status::PoolStatus) -> Pool {
    let layouts = pool.layouts.iter();
    Pool {
        instance_type: pool.instance_type.clone(),
        gpus_per_node: pool.gpus_per_node,
        wanted: pool.wanted,
        ready: pool.ready,
        draining: pool.draining,
        cordoned: pool.cordoned,
        closed: pool.closed,
        launching: pool.launching,
        unready: pool.unready,
        missing: pool.missing,
        surplus: pool.surplus,
        leaving: pool.leaving,
        spares: pool.spares,
        layouts: layouts.map(|(name, one)| (name.to_string(), Layout { wanted: one.wanted, cut: one.cut })).collect(),
    }
}

fn report(one: &status::ReportStatus) -> Report {
    Report {
        node: one.node.to_string(),
        pool: one.pool.to_string(),
        policy: one.policy.to_string(),
        words: one.symptom.clone(),
        since: instant(one.since),
        next: one.next,
    }
}

fn reservation(one: &status::ReservationStatus) -> Reservation {
    let seen = one.seen.as_ref();
    Reservation {
        id: one.id.as_ref().map(|id| id.to_string()),
        capacity_block: one.block,
        wanted: one.wanted,
        state: seen.map(|seen| state(&seen.state)),
        nodes: seen.map_or(0, |seen| seen.nodes),
        used: seen.map_or(0, |seen| seen.used),
        idle: seen.map_or(0, |seen| seen.idle),
        idle_usd_per_hour: seen.and_then(|seen| seen.idle_usd_hour).map(dollars),
        start: seen.and_then(|seen| seen.start).map(instant),
        end: seen.and_then(|seen| seen.end).map(instant),
    }
}

fn share(share: &status::ShareStatus) -> Share {
    Share {
        quota: share.quota.to_string(),
        pool: share.pool.to_string(),
        guaranteed: share.guarantee.as_ref().map(quantity),
        wanted: share.wanted.as_ref().map(quantity),
        on_loan: supply(&share.loaned),
        used: supply(&share.used),
        borrowed: supply(&share.borrowed),
        lent: supply(&share.lent),
        waiting: share.waiting,
    }
}

fn quantity(amount: &Amount) -> Quantity {
    match amount {
        Amount::Gpus(gpus) => Quantity::Gpus(*gpus),
        Amount::Nodes(nodes) => Quantity::Nodes(*nodes),
        Amount::Slices(slices) => {
            Quantity::Slices(slices.iter().map(|(profile, count)| (profile.to_string(), *count)).collect())
        }
    }
}

fn supply(supply: &crate::fleet::quota::Supply) -> Supply {
    let slices = supply.slices.iter().map(|(profile, count)| (profile.to_string(), *count)).collect();
    Supply { nodes: supply.nodes, gpus: supply.gpus, slices }
}

fn tide(tide: &status::TideStatus) -> Tide {
    Tide {
        phase: phase(&tide.phase),
        turns_at: tide.next.map(|(at, _)| instant(at)),
        turns_to: tide.next.as_ref().map(|(_, next)| phase(next)),
        lent: tide.lent,
        returning: tide.returning,
        recalled_by: tide.recalled.as_ref().map(|recall| recall.by.clone()),
        closed: tide.closed.clone(),
        guard: tide.guard.as_ref().and_then(|guard| guard.value.as_ref()).map(|(value, _)| value.to_string()),
    }
}

fn phase(phase: &tide::Phase) -> Phase {
    match phase {
        tide::Phase::High => Phase::High,
        tide::Phase::Low { .. } => Phase::Low,
        tide::Phase::Reclaiming { .. } => Phase::Reclaiming,
        tide::Phase::HardReclaim { .. } => Phase::HardReclaim,
    }
}

fn freeze(freeze: &crate::effect::Freeze) -> Freeze {
    let scope = match &freeze.scope {
        Scope::Fleet => "fleet".into(),
        Scope::Pool(name) => format!("pool/{name}"),
        Scope::Node(name) => format!("node/{name}"),
    };
    let (by, reason) = (freeze.by.clone(), freeze.reason.clone());
    Freeze { scope, by, at: instant(freeze.at), reason, all: freeze.all }
}

fn held(held: &crate::plan::Held, words: &Words<'_>) -> Held {
    let wait = words.waiting(&held.waiting_on);
    let remedy = wait.remedy_with_patch();
    Held {
        what: held.what.to_string(),
        wanted: held.wanted.clone(),
        waiting_on: super::super::plan::waiting_name(&held.waiting_on),
        words: wait.on,
        remedy,
        comes_by_itself: held.waiting_on.comes_by_itself(),
        done_by: held.done_by.map(instant),
    }
}
