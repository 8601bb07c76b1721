//! Numbers, times, reasons and waits, in words. Used for plans, for progress and for the status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rust_decimal::Decimal;

use super::super::tide::clock::near;
use crate::effect::{Amount, Counts, Excess, Freeze, Scope};
use crate::fleet::policy::Remedy;
use crate::ids::{NodeName, PoolName};
use crate::observed::{NoticeKind, ObjectKey};
use crate::plan::{Disruption, GangHit, Held, Plan, PlanInput, Reason, WaitingOn};
use crate::units::Usd;

/// What words depend on: the hour, the zone, and how the fleet is called on the command line.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    pub now: Timestamp,
    pub zone: TimeZone,
    pub directory: &'a str,
    /// Where steps are looked up that something waits on.
    pub plan: Option<&'a Plan>,
    /// The nodes that carry `hands-off`, with what the person wrote.
    pub hands_off: Vec<(NodeName, String)>,
}

/// Things that are wanted and wait on the same, told once.
#[derive(Debug)]
pub struct HeldLine<'a> {
    pub first: &'a Held,
    /// How many more are like it.
    pub more: usize,
    pub wait: Wait,
    pub disruption: Disruption,
    /// When the last of them is done, where that can be said of all.
    pub done_by: Option<Timestamp>,
}

impl HeldLine<'_> {
    /// "launch a node for train/0, and 15 more like it"
    pub fn wanted(&self) -> String {
        let first = clean(&self.first.wanted);
        if self.more == 0 { first } else { format!("{first}, and {} more like it", self.more) }
    }
}

/// What something waits on, and what a person can do about it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Wait {
    pub on: String,
    /// A command, or where to write what; none where it comes by itself.
    pub remedy: Option<String>,
    /// A change to make elsewhere, line by line.
    pub patch: Option<String>,
}

impl Wait {
    /// The remedy, with the change to make elsewhere below it.
    pub fn remedy_with_patch(&self) -> Option<String> {
        match (&self.remedy, &self.patch) {
            (Some(remedy), Some(patch)) => Some(format!("{remedy}\n{patch}")),
            (remedy, _) => remedy.clone(),
        }
    }
}

impl Words<'_> {
    pub fn near(&self, at: Timestamp) -> String {
        near(at, self.now, &self.zone)
    }

    /// Why a step is there.
    pub fn reason(&self, reason: &Reason) -> String {
        match reason {
            Reason::Wanted => "the documents ask for it".into(),
            Reason::NotWanted => "the documents ask for fewer".into(),
            Reason::Resized => "the tide makes the pool smaller".into(),
            Reason::SlotEmpty => "the pool is short of nodes".into(),
            Reason::Unanswered => "a request that was sent and not answered is sent again, unchanged".into(),
            Reason::Outdated => "launched from another template than the documents ask for".into(),
            Reason::Overfull { reservation } => {
                format!("reservation/{reservation} is to hold fewer, so it moves to the pool's next source")
            }
            Reason::Fabric { to: Some(to) } => {
                format!("on the fabric it is nearer to pool/{to}, and the pool has a nearer one for it")
            }
            Reason::Fabric { to: None } => "on the fabric the pool has a nearer one".into(),
            Reason::Layout { from: Some(from), to } => format!("layout {from} → {to}"),
            Reason::Layout { from: None, to } => format!("layout {to}, from one that is not known"),
            Reason::Lent { tide, to } => format!("lent to {to} by the tide {tide}"),
            Reason::Returning { tide, due } => format!("asked back by the tide {tide}, due {}", self.near(*due)),
            Reason::Sick { remedy, symptom } => {
                format!("sick: {}; its policy says {}", clean(symptom), remedy_name(*remedy))
            }
            Reason::Quarantined { by } => format!("quarantined by {}", clean(by)),
            Reason::Drained { by } => format!("drained for {}", clean(by)),
            Reason::Notice { why, at } => format!("{} at {}", notice(*why), self.near(*at)),
            Reason::Recommended { since } => {
                format!("the cloud recommends to move it since {}: it may take it at any time", self.near(*since))
            }
            Reason::CapacityEnds { reservation, at } => format!("reservation {reservation} ends {}", self.near(*at)),
            Reason::Drift { by: Some(by) } => format!("changed by {}, put back", clean(by)),
            Reason::Drift { by: None } => "changed by somebody, put back".into(),
            Reason::LeftOver => "a mark of ours that nothing needs any more".into(),
            Reason::For(step) => format!("needed for {step}"),
            Reason::Bookkeeping => "what is remembered follows what is there".into(),
        }
    }

    pub fn waiting(&self, waiting: &WaitingOn) -> Wait {
        let on = |on: String| Wait { on, ..Wait::default() };
        let with = |on: String, remedy: String| Wait { on, remedy: Some(remedy), patch: None };
        match waiting {
            WaitingOn::Budget { name, allowed, used, by, .. } if name == "canary" => on(match used < allowed {
                true => format!("the canary goes first: {} of {}{}", used, count(*allowed, "node"), users(by)),
                false => format!("the canary, {}, has to stand first{}", count(*allowed, "node"), users(by)),
            }),
            // What counts by the hour falls free with the hour; a limit of none never does.
            WaitingOn::Budget { name, allowed: 0, .. } => with(
                format!("{} is 0", clean(name)),
                format!("raise {}", clean(name).replacen("limits.", "spec.limits.", 1)),
            ),
            WaitingOn::Budget { name, allowed, used, by, remedy } => {
                let limit = name.strip_prefix("limits.");
                let limit = limit.map(|limit| format!("raise spec.limits.{} in the Fleet document", clean(limit)));
                let remedy = remedy.as_deref().map(clean).or(limit);
                // What is out for another reason counts, and may be more than a budget gives.
                let on = match used > allowed {
                    true => format!("{}: {used} already, and {allowed} may be{}", clean(name), users(by)),
                    false => format!("{}: {used} of {allowed} in use{}", clean(name), users(by)),
                };
                Wait { on, remedy, patch: None }
            }
            WaitingOn::Until { at, why, remedy } => {
                let on = format!("until {}: {}", self.near(*at), clean(why));
                Wait { on, remedy: remedy.as_deref().map(clean), patch: None }
            }
            WaitingOn::Canary { pool, by, since, until } => {
                let by: Vec<String> = by.iter().map(ToString::to_string).collect();
                let (since, until) = (self.near(*since), self.near(*until));
                with(
                    format!("canary {}: since {since}, until {until}", list(&by, 3)),
                    format!("to go on earlier, shorten updates.canary.for of pool/{pool}"),
                )
            }
            WaitingOn::Capacity { what, retry } => {
                let what = clean(what);
                on(match retry {
                    Some(at) => format!("the cloud had no {what}; asked again {}", self.at_or_now(*at)),
                    None => format!("for {what}"),
                })
            }
            WaitingOn::Step(id) => on(format!("after {}", self.step(id))),
            WaitingOn::DisruptionBudget(name) => with(
                format!("PodDisruptionBudget {name} allows no eviction now"),
                format!("kubectl -n {} describe pdb {}", quoted(name.namespace.as_str()), quoted(&name.name)),
            ),
            WaitingOn::Gang { name } if name.starts_with("whatever uses ") => {
                on(format!("{} has to let go first", clean(name)))
            }
            WaitingOn::Gang { name } => on(match name.contains(" and ") {
                true => format!("gangs {} end by themselves: nobody may stop them; done when they end", clean(name)),
                false => format!("gang {} ends by itself: nobody may stop it; done when it ends", clean(name)),
            }),
            WaitingOn::Unread(gap) => on(format!("{} could not be read: {}", clean(&gap.what), clean(&gap.why))),
            WaitingOn::Shrunk { seen, trusted } => with(
                format!(
                    "the last look showed {}: too few to be believed, so nothing is removed",
                    looked(seen, trusted)
                ),
                format!("look yourself; if they are really gone: {} --yes", command("lost", self.directory)),
            ),
            WaitingOn::Limit { name, allowed, wanted } => match name.strip_prefix("limits.") {
                Some(name) => with(
                    format!("limit {} is {}, this needs {}", clean(name), money(*allowed), money(*wanted)),
                    format!("raise spec.limits.{} in the Fleet document", clean(name)),
                ),
                // A price: it comes down by itself, or somebody pays more.
                None => with(
                    format!("{} is {} an hour, {} may be paid", clean(name), money(*wanted), money(*allowed)),
                    "wait until it is cheaper, or raise maxPricePercent in the pool".into(),
                ),
            },
            WaitingOn::Approval { digest, why } => with(
                format!("an approval by name: {}", clean(why)),
                format!("{} --approved {}", command("apply", self.directory), short(digest.as_str())),
            ),
            WaitingOn::Frozen(freeze) => with(self.freeze(freeze), self.thaw(freeze)),
            WaitingOn::HandsOff(node) => {
                let said = self.hands_off.iter().find(|(name, _)| name == node);
                with(hands_off(node, said.map_or("", |(_, why)| why)), hands_on(node))
            }
            WaitingOn::OtherOwner { object, patch } => Wait {
                on: format!("{} belongs to another tool", object.words()),
                remedy: Some("make this change there:".into()),
                patch: Some(patch.lines().map(clean).collect::<Vec<_>>().join("\n")),
            },
            WaitingOn::Guard { tide, why } => on(format!("the guard of tide {tide}: {}", clean(why))),
            WaitingOn::Person(what) => on(clean(what)),
        }
    }

    /// What is held, in the plan's order; what waits on the same is one line.
    pub fn held<'h>(&self, held: &'h [Held]) -> Vec<HeldLine<'h>> {
        let mut lines: Vec<HeldLine<'h>> = Vec::new();
        let mut places: BTreeMap<(String, String, String), usize> = BTreeMap::new();
        for one in held {
            let wait = self.waiting(&one.waiting_on);
            let key = (one.what.to_string(), wait.on.clone(), self.reason(&one.reason));
            match places.get(&key).and_then(|at| lines.get_mut(*at)) {
                Some(line) => {
                    line.more += 1;
                    line.disruption.add(&one.disruption);
                    line.done_by = line.done_by.zip(one.done_by).map(|(a, b)| a.max(b));
                }
                None => {
                    places.insert(key, lines.len());
                    let (disruption, done_by) = (one.disruption.clone(), one.done_by);
                    lines.push(HeldLine { first: one, more: 0, wait, disruption, done_by });
                }
            }
        }
        lines
    }

    /// "frozen by ana since 14:02: incident 4711"
    pub fn freeze(&self, freeze: &Freeze) -> String {
        let (by, reason) = (clean(&freeze.by), clean(&freeze.reason));
        if is_document(freeze) {
            return format!("frozen by {by}: {reason}");
        }
        let all = if freeze.all { ", deadlines too" } else { "" };
        format!("frozen by {by} since {}{all}: {reason}", self.near(freeze.at))
    }

    /// What lifts a freeze.
    pub fn thaw(&self, freeze: &Freeze) -> String {
        if is_document(freeze) {
            return "remove spec.frozen from the Fleet document".into();
        }
        let scope = match &freeze.scope {
            Scope::Fleet => String::new(),
            Scope::Pool(name) => format!(" pool/{}", quoted(name.as_str())),
            Scope::Node(name) => format!(" node/{}", quoted(name.as_str())),
        };
        format!("tidewright thaw{scope}{}", dir_flag(self.directory))
    }

    fn step(&self, id: &crate::ids::StepId) -> String {
        let known = self.plan.and_then(|plan| plan.step(id));
        known.map_or_else(|| unplanned(id), super::super::progress::step)
    }

    fn at_or_now(&self, at: Timestamp) -> String {
        if at <= self.now { "now".into() } else { format!("at {}", self.near(at)) }
    }
}

/// How many nodes with hands-off are told at the head of a page.
pub const MOST_OFF: usize = 8;

/// "node train-1 carries tidewright.dev/hands-off: a person looks at its fan"
pub fn hands_off(node: &NodeName, why: &str) -> String {
    format!("node {node} carries tidewright.dev/hands-off{}", off_because(why))
}

/// ": a person looks at its fan"; some write only that it is so.
pub fn off_because(why: &str) -> String {
    let why = why.trim();
    if ["", "true"].contains(&why) { String::new() } else { format!(": {}", clean(why)) }
}

/// What takes that back.
pub fn hands_on(node: &NodeName) -> String {
    format!("kubectl annotate node {} tidewright.dev/hands-off-", quoted(node.as_str()))
}

/// Who uses a budget up: a few by name.
fn users(by: &[String]) -> String {
    let names: Vec<String> = by.iter().map(|one| clean(one)).collect();
    if names.is_empty() { String::new() } else { format!(": {}", list(&names, 3)) }
}

/// "14 of 16 instances and 3 of 4 claimed nodes"; what there is none of is not told.
fn looked(seen: &Counts, trusted: &Counts) -> String {
    let parts = [(seen.instances, trusted.instances, "instance"), (seen.nodes, trusted.nodes, "claimed node")];
    let parts = parts.iter().filter(|(_, of, _)| *of > 0);
    let parts: Vec<String> = parts.map(|(seen, of, word)| format!("{seen} of {}", count(*of, word))).collect();
    list(&parts, usize::MAX)
}

/// What a step does that is not in the plan, by its name.
fn unplanned(id: &crate::ids::StepId) -> String {
    let (verb, rest) = id.as_str().split_once(':').unwrap_or(("", id.as_str()));
    let what = rest.rsplit_once('@').map_or(rest, |(what, _)| what);
    let what = what.parse().map_or_else(|_| clean(what), |key: ObjectKey| key.words());
    let verb = if verb == "apply" { "write" } else { verb };
    format!("{verb} {what}").trim().to_string()
}

fn is_document(freeze: &Freeze) -> bool {
    freeze.by == crate::plan::frozen_by_document("", freeze.at).by
}

pub fn scope(scope: &Scope) -> String {
    match scope {
        Scope::Fleet => "the whole fleet".into(),
        Scope::Pool(name) => format!("pool/{name}"),
        Scope::Node(name) => format!("node/{name}"),
    }
}

fn remedy_name(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Report => "report",
        Remedy::Quarantine => "quarantine",
        Remedy::Reboot => "reboot",
        Remedy::Replace => "replace",
    }
}

fn notice(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::SpotInterruption => "the cloud takes the spot node away",
        NoticeKind::BlockEnd => "the Capacity Block ends",
        NoticeKind::Maintenance => "the cloud maintains the host",
    }
}

/// "vision/pretrain-7 (team vision, tier research): 8 pods on 2 nodes, 16 GPUs, up to 3 h 20 min of unsaved work"
pub fn gang(gang: &GangHit) -> String {
    let team = gang.quota.iter().map(|quota| format!("team {quota}"));
    let tier = gang.tier.iter().map(|tier| format!("tier {tier}"));
    let who: Vec<String> = team.chain(tier).collect();
    let who = if who.is_empty() { String::new() } else { format!(" ({})", who.join(", ")) };
    let gpus = if gang.gpus > 0 { format!(", {}", count(gang.gpus, "GPU")) } else { String::new() };
    let (pods, nodes) = (count(gang.pods, "pod"), count(gang.nodes, "node"));
    let risk = if gang.at_risk_secs > 0 {
        format!(", up to {} of unsaved work", length(gang.at_risk_secs))
    } else {
        ", nothing unsaved".into()
    };
    format!("{}{who}: {pods} on {nodes}{gpus}{risk}", clean(&gang.name))
}

/// One line about what goes beyond an approval.
pub fn excess(excess: &Excess) -> String {
    let wanted = amount(&excess.wanted);
    match &excess.approved {
        Some(approved) if excess.wanted.count <= approved.count && excess.wanted.unnamed(approved).next().is_some() => {
            let objects: Vec<String> = excess.wanted.unnamed(approved).map(ObjectKey::words).collect();
            format!("{}: {} would be written differently", excess.key, list(&objects, 6))
        }
        Some(approved) if excess.wanted.count <= approved.count && excess.wanted.is_other_template(approved) => {
            format!("{}: nodes would be launched from another template", excess.key)
        }
        None => format!("{}: {wanted}; nothing of it was approved", excess.key),
        Some(approved) => format!("{}: {wanted}; approved was {}", excess.key, amount(approved)),
    }
}

/// "6, 48 GPUs disturbed, ~31 GPU-h at risk, teams nlp and vision, +$43.92/h"
pub fn amount(amount: &Amount) -> String {
    let mut parts = vec![amount.count.to_string()];
    if amount.gpus > 0 {
        parts.push(format!("{} disturbed", count(amount.gpus, "GPU")));
    }
    if amount.gpu_secs > 0 {
        parts.push(format!("{} at risk", gpu_hours(amount.gpu_secs)));
    }
    if !amount.teams.is_empty() {
        let teams: Vec<String> = amount.teams.iter().map(|team| team.to_string()).collect();
        parts.push(format!("of {}", list(&teams, usize::MAX)));
    }
    if let Some(rank) = amount.highest {
        parts.push(format!("up to rank {rank}"));
    }
    if !amount.usd_hour.0.is_zero() {
        parts.push(format!("+{}/h", money(amount.usd_hour)));
    }
    if !amount.usd_upfront.0.is_zero() {
        parts.push(format!("{} upfront", money(amount.usd_upfront)));
    }
    parts.join(", ")
}

/// "1 node", "6 nodes"
pub fn count(number: u32, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    }
}

/// "$1,234.50", and "$120" where there are no cents.
pub fn money(usd: Usd) -> String {
    let rounded = usd.0.round_dp(2);
    let text = if rounded.fract().is_zero() { format!("{}", rounded.trunc()) } else { format!("{rounded:.2}") };
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |text| ("−", text));
    let (whole, cents) = text.split_once('.').map_or((text, None), |(whole, cents)| (whole, Some(cents)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let cents = cents.map_or(String::new(), |cents| format!(".{cents}"));
    format!("{sign}${grouped}{cents}")
}

/// "$65.89/h → $109.81/h", or one of them where nothing changes.
pub fn money_change(before: Usd, after: Usd) -> String {
    if before == after { money(before) } else { format!("{} → {}", money(before), money(after)) }
}

pub fn gpu_hours(gpu_secs: u64) -> String {
    let tenths = gpu_secs.saturating_mul(10) / 3600;
    match tenths {
        0 => "under 0.1 GPU-h".into(),
        1..=99 => format!("~{}.{} GPU-h", tenths / 10, tenths % 10),
        _ => format!("~{} GPU-h", (gpu_secs + 1800) / 3600),
    }
}

/// A length of time as people say it, in at most two units: "45 s", "11 min", "3 h 20 min", "2 d 4 h".
pub fn length(secs: u64) -> String {
    let two = |big: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big} {unit}"),
        _ => format!("{big} {unit} {small} {small_unit}"),
    };
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 => format!("{} min", (secs + 30) / 60),
        3600..86_400 => two(secs / 3600, "h", secs % 3600 / 60, "min"),
        _ => two(secs / 86_400, "d", secs % 86_400 / 3600, "h"),
    }
}

/// "11–18 min", "40–90 s"
pub fn range((from, to): (u64, u64)) -> String {
    let (divisor, unit) = match to {
        0..120 => (1, "s"),
        120..7200 => (60, "min"),
        _ => (3600, "h"),
    };
    let (from, to) = (from / divisor, to.div_ceil(divisor));
    if from == to { format!("{to} {unit}") } else { format!("{from}–{to} {unit}") }
}

/// "a, b and 3 more"; "a, b and c" where all fit.
pub fn list(items: &[String], most: usize) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        _ if items.len() > most => {
            format!("{} and {} more", items[..most].join(", "), items.len() - most)
        }
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// The beginning of a digest: enough to tell two apart.
pub fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// Text from outside on one line: escape sequences and marks of direction are shown, not obeyed.
pub fn clean(text: &str) -> String {
    let is_direction = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() || is_direction(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// A word as a shell takes it whole.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    let text = clean(text);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// `tidewright VERB DIR`, without the directory where it is the current one.
pub fn command(verb: &str, directory: &str) -> String {
    if directory == "." { format!("tidewright {verb}") } else { format!("tidewright {verb} {}", quoted(directory)) }
}

/// The same for verbs whose first word is something else.
pub fn dir_flag(directory: &str) -> String {
    if directory == "." { String::new() } else { format!(" --dir {}", quoted(directory)) }
}

pub fn shape_gpus(input: &PlanInput, pool: &PoolName) -> u32 {
    input.target.standing.pools.get(pool).map_or(0, |spec| spec.shape.gpus)
}

pub fn is_zero(usd: Usd) -> bool {
    usd.0.round_dp(2) == Decimal::ZERO
}
