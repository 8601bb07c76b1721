//! For programs: one JSON object. Its schema comes from the same types, and is part of the program's contract.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use super::group::{Group, groups, longest};
use super::names::{action_name, reason_name, waiting_name};
use super::words::Words;
use super::{Shown, verdict};
use crate::effect::{Effects, Freeze, Scope};
use crate::plan::{self, Consent as Said, WaitingOn};
use crate::render::progress::{action, fact};
use crate::units::Usd;

/// The second number grows when fields are added, the first when one changes its meaning or goes away.
const FORMAT_VERSION: &str = "1.3";

/// What would be done to a fleet now, what is held, and what comes.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Tidewright plan", rename = "Plan")]
struct Report {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: &'static str,
    /// The fleet's name.
    fleet: String,
    /// The fleet's time zone, a name of the IANA database.
    time_zone: String,
    /// The instant that the plan is for, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The git revision of the documents, if they come from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    /// The digest of everything that the plan depends on.
    plan_id: String,
    /// The digest of the effects: what an approval is bound to.
    digest: String,
    /// `no_changes`: nothing to do. `changes`: steps can be done now. `blocked`: something is wanted, and all of it is
    /// held.
    verdict: Verdict,
    /// What a person stopped.
    frozen: Vec<Frozen>,
    /// Nodes with the annotation `tidewright.dev/hands-off`, with what is written there: nothing is done to them.
    hands_off: BTreeMap<String, String>,
    /// The changes as people think of them, the riskiest first. Scan `actions` for what you care about.
    changes: Vec<Change>,
    /// Every step, in an order in which they can be done.
    steps: Vec<Step>,
    /// What is wanted and not done now.
    held: Vec<Held>,
    /// What somebody else moved.
    drift: Vec<Drift>,
    /// What the tide does in the next 24 hours.
    upcoming: Vec<Upcoming>,
    /// What is no longer in the documents: it stays as it is, and is no longer managed.
    released: Vec<Released>,
    /// Capacity Blocks on offer that match what is wanted.
    offers: Vec<Offer>,
    /// What a reader should know.
    notes: Vec<Note>,
    /// What the fleet costs before and after.
    cost: Cost,
    /// Upper bounds of what is done, by verb and thing, such as `launch pool/train`.
    effects: BTreeMap<String, Amount>,
    /// How long all steps take.
    takes: Takes,
    /// What was left out because only a part was asked for.
    left_out: Vec<String>,
    /// How pools stand on the fabric. Absent: the fleet says nothing about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    fabric: Option<super::stands_json::Fabric>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    NoChanges,
    Changes,
    Blocked,
}

/// One stop, by a record or by the documents.
#[derive(Serialize, JsonSchema)]
struct Frozen {
    /// `fleet`, or a part of it such as `pool/train` or `node/ip-10-0-0-7`.
    scope: String,
    /// Who stopped it.
    by: String,
    /// Since when, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Why, in that person's words.
    reason: String,
    /// Whether what has a deadline of its own is stopped, too.
    all: bool,
}

/// Steps that are one change to a person: all nodes of a pool that are replaced for one reason.
#[derive(Serialize, JsonSchema)]
struct Change {
    /// What happens, such as `replace`, `launch`, `re-cut`. The set may grow.
    change: &'static str,
    /// What happens in it, such as `drain`, `terminate`, `launch`.
    actions: Vec<&'static str>,
    /// The part of the fleet, such as `pool/train`. Absent: several.
    #[serde(skip_serializing_if = "Option::is_none")]
    on: Option<String>,
    /// For people. The wording may change at any time.
    why: String,
    /// How many nodes, reservations or objects.
    count: u32,
    /// How many GPUs these nodes have.
    gpus: u32,
    /// Who is disturbed.
    disruption: Disruption,
    /// How long it takes.
    takes: Takes,
    /// Whether somebody has to approve it.
    needs_approval: bool,
    /// The steps, by their ids.
    steps: Vec<String>,
}

/// Who is disturbed, and what is lost at worst.
#[derive(Serialize, JsonSchema)]
struct Disruption {
    /// The nodes that are disturbed.
    nodes: Vec<String>,
    /// How many pods have to go.
    pods: u32,
    /// Pods that run and end together.
    gangs: Vec<Gang>,
    /// The quotas whose work it is.
    teams: Vec<String>,
    /// Work since the last save, in GPU-seconds.
    gpu_seconds_at_risk: u64,
    /// PodDisruptionBudgets that allow nothing now.
    blocked_by: Vec<String>,
    /// Pods that nobody makes again, or whose local data goes with them.
    lost: Vec<String>,
}

/// Pods that run and end together.
#[derive(Serialize, JsonSchema)]
struct Gang {
    /// Its name.
    name: String,
    /// The quota whose work it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    /// Its preemption tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    /// How many nodes it runs on.
    nodes: u32,
    /// How many pods it has.
    pods: u32,
    /// How many GPUs it uses.
    gpus: u32,
    /// Seconds since its last save, or since it began.
    seconds_at_risk: u64,
}

/// Seconds, from and to.
#[derive(Serialize, JsonSchema)]
struct Takes {
    /// At best.
    from_seconds: u64,
    /// At worst.
    to_seconds: u64,
}

/// One thing that is done or waited for.
#[derive(Serialize, JsonSchema)]
struct Step {
    /// The same over replans.
    id: String,
    /// The part of the fleet that it belongs to.
    on: String,
    /// What is done: `launch`, `terminate`, `cordon`, `await` and so on. The set may grow.
    action: &'static str,
    /// For people. The wording may change at any time.
    words: String,
    /// Steps that must have succeeded.
    after: Vec<String>,
    /// What must be so, seen again just before it is done; else it is left to the next plan. For people. The wording may
    /// change at any time.
    requires: Vec<String>,
    /// Why it is there. The set may grow.
    reason: &'static str,
    /// For people. The wording may change at any time.
    why: String,
    /// Who is disturbed. Absent: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    disruption: Option<Disruption>,
    /// Upper bounds of what it does.
    effects: BTreeMap<String, Amount>,
    /// How long it takes.
    takes: Takes,
    /// Who said that it may be done.
    consent: Consent,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Consent {
    /// Given by the merge.
    Standing,
    /// An approval has to cover it.
    Asked,
    /// An approval that is open covers it, and it is paid with that.
    Given,
}

/// An upper bound.
#[derive(Serialize, JsonSchema)]
struct Amount {
    /// Nodes, reservations or objects.
    count: u32,
    /// More to pay an hour, in US dollars.
    usd_per_hour: String,
    /// To pay once, in US dollars.
    usd_upfront: String,
    /// GPUs whose work is disturbed.
    gpus: u32,
    /// Work that may be lost, in GPU-seconds.
    gpu_seconds: u64,
    /// Quotas whose work is disturbed.
    teams: Vec<String>,
    /// The highest rank of a tier that is disturbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    highest_rank: Option<i32>,
    /// Objects, with the beginning of the digest of what is written; null where they are deleted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    objects: BTreeMap<String, Option<String>>,
    /// What nodes are launched as, or replaced by: the beginnings of the digests of launch templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    templates: Vec<String>,
}

/// Something that is wanted and not done.
#[derive(Serialize, JsonSchema)]
struct Held {
    /// The part of the fleet.
    what: String,
    /// What is wanted, in words.
    wanted: String,
    /// What kind of thing it waits on, such as `budget`, `until`, `approval`, `frozen`. The set may grow.
    waiting_on: &'static str,
    /// For people. The wording may change at any time.
    words: String,
    /// What a person can do about it: a command, or where to write what.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// Until when, in UTC, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    until: Option<String>,
    /// When it is expected to be done, in UTC, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    done_by: Option<String>,
    /// Whether it comes without anybody's doing. What waits for an approval by name does not.
    comes_by_itself: bool,
    /// Who will be disturbed. Absent: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    disruption: Option<Disruption>,
    /// Upper bounds of what it will do.
    effects: BTreeMap<String, Amount>,
}

/// Something that somebody else moved.
#[derive(Serialize, JsonSchema)]
struct Drift {
    /// What was moved.
    what: String,
    /// By whom, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// When, in UTC, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    at: Option<String>,
    /// What it was.
    from: String,
    /// What it is.
    to: String,
    /// The step that puts it back. Absent: none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

/// Something that the tide will do.
#[derive(Serialize, JsonSchema)]
struct Upcoming {
    /// When, in UTC.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The part of the fleet.
    what: String,
    /// In words.
    change: String,
    /// What runs now and would be disturbed if it still ran then. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    disruption: Option<Disruption>,
}

/// Something that is no longer managed.
#[derive(Serialize, JsonSchema)]
struct Released {
    /// What is no longer in the documents.
    what: String,
    /// What of it stays as it is.
    stays: String,
}

/// A Capacity Block on offer.
#[derive(Serialize, JsonSchema)]
struct Offer {
    /// The Reservation document that it is for.
    reservation: String,
    /// Its id.
    offering: String,
    /// The block that it lengthens. Absent: it is a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    extends: Option<String>,
    /// Its availability zone.
    zone: String,
    /// How many nodes.
    nodes: u32,
    /// When it begins, in UTC.
    #[schemars(extend("format" = "date-time"))]
    start: String,
    /// When it ends, in UTC.
    #[schemars(extend("format" = "date-time"))]
    end: String,
    /// What it costs, in US dollars.
    fee_usd: String,
    /// Whether this plan buys it, or why not, in words.
    verdict: String,
}

/// What a reader should know.
#[derive(Serialize, JsonSchema)]
struct Note {
    /// The part of the fleet.
    on: String,
    /// In words.
    text: String,
}

/// US dollars, now and when all that is wanted is done.
#[derive(Serialize, JsonSchema)]
struct Cost {
    /// On demand and spot, an hour, now.
    hourly_now: String,
    /// On demand and spot, an hour, after.
    hourly_after: String,
    /// Reservations, an hour, now: paid whether used or not.
    reserved_now: String,
    /// Reservations, an hour, after.
    reserved_after: String,
    /// What of the reservations is not used, an hour, now.
    idle_now: String,
    /// What of the reservations is not used, an hour, after.
    idle_after: String,
    /// Paid once.
    upfront: String,
}

/// Ends with a line break.
pub fn json(shown: &Shown<'_>) -> String {
    let Shown { input, plan, .. } = *shown;
    let words = shown.words();
    let standing = &input.target.standing;
    let all: Vec<&plan::Step> = plan.steps.iter().collect();
    let usd = |usd: Usd| usd.to_string();
    let cost = &plan.cost;
    let report = Report {
        format_version: FORMAT_VERSION,
        fleet: standing.fleet.to_string(),
        time_zone: standing.time_zone.to_string(),
        at: input.now.to_string(),
        revision: input.revision.clone(),
        plan_id: plan.id.to_string(),
        digest: plan.digest.to_string(),
        verdict: match verdict(plan) {
            super::Verdict::NoChanges => Verdict::NoChanges,
            super::Verdict::Changes => Verdict::Changes,
            super::Verdict::Blocked => Verdict::Blocked,
        },
        frozen: shown.freezes().map(frozen).collect(),
        hands_off: words.hands_off.iter().map(|(node, why)| (node.to_string(), why.clone())).collect(),
        changes: groups(shown).iter().map(change).collect(),
        steps: plan.steps.iter().map(|one| step(one, &words)).collect(),
        held: plan.held.iter().map(|one| held(one, &words)).collect(),
        drift: plan.drift.iter().map(drift).collect(),
        upcoming: plan.upcoming.iter().map(upcoming).collect(),
        released: plan
            .released
            .iter()
            .map(|one| Released { what: one.what.clone(), stays: one.stays.clone() })
            .collect(),
        offers: plan.offers.iter().map(offer).collect(),
        notes: plan.notes.iter().map(|note| Note { on: note.on.to_string(), text: note.text.clone() }).collect(),
        cost: Cost {
            hourly_now: usd(cost.hourly_now),
            hourly_after: usd(cost.hourly_after),
            reserved_now: usd(cost.reserved_now),
            reserved_after: usd(cost.reserved_after),
            idle_now: usd(cost.idle_now),
            idle_after: usd(cost.idle_after),
            upfront: usd(cost.upfront),
        },
        effects: effects(&plan.effects),
        takes: takes(longest(&all)),
        left_out: plan.left_out.iter().map(|thing| thing.to_string()).collect(),
        fabric: plan.stands.as_ref().map(super::stands_json::fabric),
    };
    serde_json::to_string_pretty(&report).expect("plain data always serialises") + "\n"
}

/// The JSON Schema (draft-07) of what [`json`] gives.
pub fn json_schema() -> serde_json::Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Report>().to_value()
}

fn frozen(freeze: Freeze) -> Frozen {
    let scope = match &freeze.scope {
        Scope::Fleet => "fleet".into(),
        Scope::Pool(name) => format!("pool/{name}"),
        Scope::Node(name) => format!("node/{name}"),
    };
    Frozen { scope, by: freeze.by, at: freeze.at.to_string(), reason: freeze.reason, all: freeze.all }
}

fn change(group: &Group<'_>) -> Change {
    let mut actions: Vec<&'static str> = Vec::new();
    for step in group.steps.iter().filter(|step| !super::is_memory(&step.action)) {
        let name = action_name(&step.action);
        if !actions.contains(&name) {
            actions.push(name);
        }
    }
    Change {
        change: group.kind.name(),
        actions,
        on: group.on.as_ref().map(|on| on.to_string()),
        why: group.why.clone(),
        count: group.count,
        gpus: group.gpus,
        disruption: disruption(&group.disruption),
        takes: takes(group.takes),
        needs_approval: group.asked,
        steps: group.steps.iter().map(|step| step.id.to_string()).collect(),
    }
}

fn step(step: &plan::Step, words: &Words<'_>) -> Step {
    Step {
        id: step.id.to_string(),
        on: step.on.to_string(),
        action: action_name(&step.action),
        words: action(&step.action),
        after: step.after.iter().map(|id| id.to_string()).collect(),
        requires: step.requires.iter().map(fact).collect(),
        reason: reason_name(&step.reason),
        why: words.reason(&step.reason),
        disruption: some_disruption(&step.disruption),
        effects: effects(&step.effects),
        takes: takes(step.takes),
        consent: match step.consent {
            Said::Standing => Consent::Standing,
            Said::Asked => Consent::Asked,
            Said::Given => Consent::Given,
        },
    }
}

fn held(held: &plan::Held, words: &Words<'_>) -> Held {
    let wait = words.waiting(&held.waiting_on);
    let until = match &held.waiting_on {
        WaitingOn::Until { at, .. } | WaitingOn::Canary { until: at, .. } => Some(*at),
        WaitingOn::Capacity { retry, .. } => *retry,
        _ => None,
    };
    let remedy = wait.remedy_with_patch();
    Held {
        what: held.what.to_string(),
        wanted: held.wanted.clone(),
        waiting_on: waiting_name(&held.waiting_on),
        words: wait.on,
        remedy,
        until: until.map(|at| at.to_string()),
        done_by: held.done_by.map(|at| at.to_string()),
        comes_by_itself: held.waiting_on.comes_by_itself(),
        disruption: some_disruption(&held.disruption),
        effects: effects(&held.effects),
    }
}

fn drift(drift: &plan::Drift) -> Drift {
    Drift {
        what: drift.what.clone(),
        by: drift.by.clone(),
        at: drift.at.map(|at: Timestamp| at.to_string()),
        from: drift.from.clone(),
        to: drift.to.clone(),
        step: drift.step.as_ref().map(|step| step.to_string()),
    }
}

fn upcoming(upcoming: &plan::Upcoming) -> Upcoming {
    Upcoming {
        at: upcoming.at.to_string(),
        what: upcoming.what.to_string(),
        change: upcoming.change.clone(),
        disruption: some_disruption(&upcoming.disruption),
    }
}

fn offer(offer: &plan::Offer) -> Offer {
    Offer {
        reservation: offer.reservation.to_string(),
        offering: offer.offering.to_string(),
        extends: offer.extends.as_ref().map(|id| id.to_string()),
        zone: offer.zone.to_string(),
        nodes: offer.nodes,
        start: offer.start.to_string(),
        end: offer.end.to_string(),
        fee_usd: offer.fee.to_string(),
        verdict: offer.verdict.clone(),
    }
}

fn takes((from_seconds, to_seconds): (u64, u64)) -> Takes {
    Takes { from_seconds, to_seconds }
}

fn some_disruption(hit: &plan::Disruption) -> Option<Disruption> {
    (!hit.is_none()).then(|| disruption(hit))
}

fn disruption(hit: &plan::Disruption) -> Disruption {
    let gangs = hit.gangs.iter().map(|gang| Gang {
        name: gang.name.clone(),
        team: gang.quota.as_ref().map(|quota| quota.to_string()),
        tier: gang.tier.as_ref().map(|tier| tier.to_string()),
        nodes: gang.nodes,
        pods: gang.pods,
        gpus: gang.gpus,
        seconds_at_risk: gang.at_risk_secs,
    });
    Disruption {
        nodes: hit.nodes.iter().map(|node| node.to_string()).collect(),
        pods: hit.pods,
        gangs: gangs.collect(),
        teams: hit.teams.iter().map(|team| team.to_string()).collect(),
        gpu_seconds_at_risk: hit.gpu_secs,
        blocked_by: hit.blocked_by.iter().map(|name| name.to_string()).collect(),
        lost: hit.lost.iter().map(|name| name.to_string()).collect(),
    }
}

fn effects(effects: &Effects) -> BTreeMap<String, Amount> {
    let amount = |amount: &crate::effect::Amount| Amount {
        count: amount.count,
        usd_per_hour: amount.usd_hour.to_string(),
        usd_upfront: amount.usd_upfront.to_string(),
        gpus: amount.gpus,
        gpu_seconds: amount.gpu_secs,
        teams: amount.teams.iter().map(|team| team.to_string()).collect(),
        highest_rank: amount.highest,
        objects: amount
            .objects
            .iter()
            .map(|(key, written)| (key.to_string(), written.as_ref().map(ToString::to_string)))
            .collect(),
        templates: amount.templates.iter().map(ToString::to_string).collect(),
    };
    effects.0.iter().map(|(key, one)| (key.to_string(), amount(one))).collect()
}
