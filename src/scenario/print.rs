//! Plans and rounds in few words: one line for what is alike, the same for the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use jiff::SignedDuration;
use petgraph::unionfind::UnionFind;

use super::bench::{Converged, End, Ended, Round};
use crate::effect::marks::{CORDON, MIG_STATE, is_starting};
use crate::effect::{Effects, Scope};
use crate::plan::{Consent, Held, Plan, Reason, Step, WaitingOn};
use crate::provider::sim::{Calls, State};
use crate::status::{Event, EventKind};

/// One line for each course of steps that is alike, and for what is held, drifted, released and noted.
pub fn plan(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    let mut subjects: Vec<Vec<String>> = Vec::new();
    for course in courses(plan) {
        let first = course[0];
        let verbs: Vec<&str> = course.iter().map(|step| verb(step)).collect();
        let asked = if course.iter().any(|step| step.consent == Consent::Asked) { ", asks" } else { "" };
        let line = format!("{}: {} ({}{asked})", first.on, runs(&verbs), reason(&main_reason(&course)));
        let place = *alike.entry(line.clone()).or_insert_with(|| {
            lines.push(line);
            subjects.push(Vec::new());
            subjects.len() - 1
        });
        subjects[place].push(subject(first).to_string());
    }
    for (line, names) in lines.iter_mut().zip(&subjects) {
        let _ = write!(line, " {}", list(names));
    }
    let mut lines: Vec<String> = lines.into_iter().map(|line| format!("+ {line}")).collect();
    lines.extend(held(&plan.held));
    lines.extend(plan.drift.iter().map(|one| {
        let by = one.by.as_deref().unwrap_or("somebody");
        format!("! {} was moved by {by}{}", one.what, if one.step.is_some() { ", put back" } else { "" })
    }));
    lines.extend(plan.released.iter().map(|one| format!("- {} is let go: {}", one.what, one.stays)));
    lines.extend(plan.notes.iter().map(|note| format!("* {}: {}", note.on, note.text)));
    if plan.is_empty() {
        lines.insert(0, "No changes.".into());
    }
    lines
}

pub fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.id.to_string()).collect()
}

/// What waits, one line for what is alike.
pub fn held(held: &[Held]) -> Vec<String> {
    let mut groups: Vec<(String, &Held, usize)> = Vec::new();
    for one in held {
        let key = format!("{}: {}", one.what, waiting(&one.waiting_on));
        match groups.iter_mut().find(|(known, ..)| *known == key) {
            Some((_, _, count)) => *count += 1,
            None => groups.push((key, one, 1)),
        }
    }
    let line = |(_, one, count): (String, &Held, usize)| {
        let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        format!("~ {}: {}{more}: {}", one.what, one.wanted, waiting(&one.waiting_on))
    };
    groups.into_iter().map(line).collect()
}

pub fn round(round: &Round) -> Vec<String> {
    let mut done: Vec<(&str, u32)> = Vec::new();
    let mut lines = Vec::new();
    let mut last: BTreeMap<&str, &EventKind> = BTreeMap::new();
    for event in &round.events {
        last.insert(event.step.as_str(), &event.kind);
        if event.kind == EventKind::Succeeded {
            let verb = event.step.as_str().split(':').next().unwrap_or_default();
            match done.iter_mut().find(|(known, _)| *known == verb) {
                Some((_, count)) => *count += 1,
                None => done.push((verb, 1)),
            }
        }
    }
    if !done.is_empty() {
        let words: Vec<String> = done.iter().map(|(verb, count)| counted(verb, *count)).collect();
        lines.push(format!("done: {}", words.join(", ")));
    }
    let mut dropped = 0;
    for (step, kind) in &last {
        match kind {
            EventKind::Started | EventKind::Succeeded => {}
            EventKind::Dropped { .. } => dropped += 1,
            EventKind::Skipped { why, .. } => lines.push(format!("skipped {step}: {why}")),
            EventKind::Waiting { why } => lines.push(format!("waits {step}: {why}")),
            EventKind::Failed { class, why } => lines.push(format!("failed {step}: {class}: {why}")),
            EventKind::Frozen { by, reason } => lines.push(format!("frozen {step}: {by}: {reason}")),
            EventKind::NotApproved { why } => lines.push(format!("not approved {step}: {why}")),
        }
    }
    if dropped > 0 {
        lines.push(format!("dropped {dropped} behind these"));
    }
    match &round.ended {
        Ended::Crashed => lines.push("crashed".into()),
        Ended::Failed(why) => lines.push(format!("failed: {why}")),
        Ended::Done(_) if round.events.is_empty() => lines.push("nothing to do".into()),
        Ended::Done(_) => {}
    }
    if round.to > round.from {
        lines.push(format!("took {}", length(round.to.duration_since(round.from))));
    }
    lines
}

/// The last things that happened, for an error.
pub fn round_hint(events: &[Event]) -> String {
    let last = events.iter().rev().take(12).map(|event| format!("{} {:?}", event.step, event.kind));
    format!("the last events, newest first: {}", last.collect::<Vec<_>>().join(", "))
}

pub fn converged(converged: &Converged, lasted: SignedDuration, before: (u64, u64), after: (u64, u64)) -> Vec<String> {
    let (word, rest) = match &converged.end {
        End::Empty => ("converged", Vec::new()),
        End::Held(looked) => ("held", plan(&looked.plan)),
        End::Rounds(looked) => ("not converged", plan(&looked.plan)),
    };
    let mut parts = vec![format!("{word} after {}", counted_noun("round", converged.rounds))];
    parts.push(length(lasted));
    let mut more = |count: u64, word: &str| {
        if count > 0 {
            parts.push(counted_noun(word, u32::try_from(count).unwrap_or(u32::MAX)));
        }
    };
    more(after.0 - before.0, "launch");
    more(after.1 - before.1, "termination");
    more(converged.crashes.into(), "crash");
    [vec![parts.join(", ")], rest].concat()
}

pub fn effects(effects: &Effects) -> Vec<String> {
    let line = |(key, amount): (&crate::effect::EffectKey, &crate::effect::Amount)| {
        let mut text = format!("{key}: {}", amount.count);
        if !amount.usd_hour.0.is_zero() {
            let _ = write!(text, ", {} dollars an hour", amount.usd_hour);
        }
        if !amount.usd_upfront.0.is_zero() {
            let _ = write!(text, ", {} dollars upfront", amount.usd_upfront);
        }
        if amount.gpus > 0 {
            let _ = write!(text, ", {} GPUs disturbed", amount.gpus);
        }
        text
    };
    effects.0.iter().map(line).collect()
}

pub fn calls(calls: &Calls) -> Vec<String> {
    let line = |call: &crate::provider::sim::Call| format!("{} {}: {}", call.verb, call.what, call.answer);
    calls.log.iter().map(line).collect()
}

/// Every node that we manage, with how it does.
pub fn nodes(state: &State) -> Vec<String> {
    let seen = state.cluster.observe(state.now);
    let line = |(name, node): (&crate::ids::NodeName, &crate::observed::NodeSeen)| {
        let slot = node.labels.get(crate::effect::marks::SLOT)?;
        let pool = node.labels.get(crate::effect::marks::POOL)?;
        let mut text = format!("{pool}/{slot}: {}", if node.ready { "ready" } else { "not ready" });
        if node.annotation(CORDON).is_some() {
            text.push_str(", cordoned by us");
        } else if node.unschedulable {
            text.push_str(", cordoned by somebody");
        }
        if is_starting(node) {
            text.push_str(", starting");
        }
        if let Some(cut) = node.labels.get(MIG_STATE) {
            let _ = write!(text, ", cut {cut}");
        }
        let pods = seen.pods.seen().iter().filter(|pod| pod.node.as_ref() == Some(name) && pod.counts()).count();
        let _ = write!(text, ", {}", counted_noun("pod", u32::try_from(pods).unwrap_or(u32::MAX)));
        Some((pool.clone(), slot.parse::<u32>().unwrap_or(0), text))
    };
    let sorted: BTreeSet<(String, u32, String)> = seen.nodes.seen().iter().filter_map(line).collect();
    sorted.into_iter().map(|(_, _, text)| text).collect()
}

/// Steps that depend on each other, in the plan's order.
fn courses(plan: &Plan) -> Vec<Vec<&Step>> {
    let place: BTreeMap<&str, usize> =
        plan.steps.iter().enumerate().map(|(place, step)| (step.id.as_str(), place)).collect();
    let mut sets = UnionFind::<usize>::new(plan.steps.len());
    for (at, step) in plan.steps.iter().enumerate() {
        for before in step.after.iter().filter_map(|id| place.get(id.as_str())) {
            if plan.steps[*before].on == step.on {
                sets.union(at, *before);
            }
        }
    }
    let mut groups: Vec<(usize, Vec<&Step>)> = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let root = sets.find(at);
        match groups.iter_mut().find(|(known, _)| *known == root) {
            Some((_, course)) => course.push(step),
            None => groups.push((root, vec![step])),
        }
    }
    groups.into_iter().map(|(_, course)| course).collect()
}

/// The reason that says most: not that something is only remembered.
fn main_reason(course: &[&Step]) -> Reason {
    let said =
        course.iter().map(|step| &step.reason).find(|reason| !matches!(reason, Reason::Bookkeeping | Reason::For(_)));
    said.unwrap_or(&course[0].reason).clone()
}

fn verb(step: &Step) -> &str {
    step.id.as_str().split(':').next().unwrap_or_default()
}

fn subject(step: &Step) -> &str {
    let id = step.id.as_str();
    let id = id.split_once(':').map_or(id, |(_, rest)| rest);
    id.rsplit_once('@').map_or(id, |(name, _)| name)
}

/// `a, b ×3, c`: what is the same in a row is said once.
fn runs(words: &[&str]) -> String {
    let mut out: Vec<(&str, u32)> = Vec::new();
    for word in words {
        match out.last_mut() {
            Some((last, count)) if last == word => *count += 1,
            _ => out.push((word, 1)),
        }
    }
    out.iter().map(|(word, count)| counted(word, *count)).collect::<Vec<_>>().join(", ")
}

fn counted(word: &str, count: u32) -> String {
    if count == 1 { word.to_string() } else { format!("{word} ×{count}") }
}

fn counted_noun(word: &str, count: u32) -> String {
    let plural = if word.ends_with("sh") || word.ends_with("ch") { "es" } else { "s" };
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}{plural}") }
}

fn list(names: &[String]) -> String {
    match names {
        [first, _, _, _, .., last] => format!("{first} … {last} ({})", names.len()),
        few => few.join(" "),
    }
}

/// `1h30m`, `45s`.
pub fn length(length: SignedDuration) -> String {
    let secs = u64::try_from(length.as_secs()).unwrap_or(0);
    let parts = [(secs / 86_400, "d"), (secs / 3600 % 24, "h"), (secs / 60 % 60, "m"), (secs % 60, "s")];
    let text: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".into() } else { text }
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Wanted => "wanted".into(),
        Reason::NotWanted => "not wanted".into(),
        Reason::Resized => "resized by the tide".into(),
        Reason::SlotEmpty => "slot is empty".into(),
        Reason::Unanswered => "asked again".into(),
        Reason::Outdated => "outdated".into(),
        Reason::Overfull { reservation } => format!("{reservation} is to hold fewer"),
        Reason::Fabric { to: Some(to) } => format!("nearer to pool/{to} on the fabric"),
        Reason::Fabric { to: None } => "another is nearer on the fabric".into(),
        Reason::Layout { to, .. } => format!("layout {to}"),
        Reason::Lent { tide, to } => format!("lent to {to} by {tide}"),
        Reason::Returning { tide, due } => format!("asked back by {tide} until {due}"),
        Reason::Sick { remedy, symptom } => format!("{remedy:?}: {symptom}").to_lowercase(),
        Reason::Quarantined { by } => format!("quarantined by {by}"),
        Reason::Drained { by } => format!("drained for {by}"),
        Reason::Notice { why, at } => format!("{why:?} at {at}"),
        Reason::Recommended { since } => format!("recommended since {since}"),
        Reason::CapacityEnds { reservation, at } => format!("{reservation} ends at {at}"),
        Reason::Drift { by } => format!("moved by {}", by.as_deref().unwrap_or("somebody")),
        Reason::LeftOver => "left over".into(),
        Reason::For(step) => format!("for {step}"),
        Reason::Bookkeeping => "remembered".into(),
    }
}

/// Who uses a budget up.
fn users(by: &[String]) -> String {
    if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) }
}

/// What something waits on.
pub fn waiting(waiting: &WaitingOn) -> String {
    match waiting {
        WaitingOn::Budget { name, allowed, used, by, remedy } => {
            let of = match used > allowed {
                true => format!("{used} already, and {allowed} may be"),
                false => format!("{used} of {allowed}"),
            };
            let remedy = remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
            format!("budget {name}: {of}{}{remedy}", users(by))
        }
        WaitingOn::Until { at, why, .. } => format!("until {at}: {why}"),
        WaitingOn::Canary { by, since, until, .. } => {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            format!("canary {}: since {since}, until {until}", by.join(", "))
        }
        WaitingOn::Capacity { what, retry } => {
            let retry = retry.map_or(String::new(), |at| format!(", again at {at}"));
            format!("capacity of {what}{retry}")
        }
        WaitingOn::Step(id) => format!("after {id}"),
        WaitingOn::DisruptionBudget(name) => format!("disruption budget {name}"),
        WaitingOn::Gang { name } => format!("gang {name}"),
        WaitingOn::Unread(gap) => format!("unread {}: {}", gap.what, gap.why),
        WaitingOn::Shrunk { seen, trusted } => format!(
            "shrunk: {} of {} instances, {} of {} nodes are seen",
            seen.instances, trusted.instances, seen.nodes, trusted.nodes
        ),
        WaitingOn::Limit { name, allowed, wanted } => format!("limit {name}: {wanted} where {allowed} may be"),
        WaitingOn::Approval { .. } => "approval".into(),
        WaitingOn::Frozen(freeze) => {
            let scope = match &freeze.scope {
                Scope::Fleet => "fleet".into(),
                Scope::Pool(name) => format!("pool/{name}"),
                Scope::Node(name) => format!("node/{name}"),
            };
            format!("frozen {scope} by {}: {}", freeze.by, freeze.reason)
        }
        WaitingOn::HandsOff(node) => format!("hands off {node}"),
        WaitingOn::OtherOwner { object, .. } => format!("{object} belongs to another tool"),
        WaitingOn::Guard { tide, why } => format!("guard of {tide}: {why}"),
        WaitingOn::Person(what) => format!("a person: {what}"),
    }
}
