//! What happens while a plan is carried out: one line an event, for whoever has no terminal, and the words of an action.

use jiff::tz::TimeZone;

use super::plan::words::{clean, count, length};
use crate::effect::{Action, CloudAction, ClusterAction, Fact, LedgerChange};
use crate::observed::Market;
use crate::plan::{Plan, Step};
use crate::status::{Event, EventKind, Progress, StepProgress, StepState};

/// What a service says that has too much to do: it is asked again in a moment.
const BUSY: [&str; 3] = ["RequestLimitExceeded", "Throttling", "TooManyRequests"];

/// How many steps are named that a person interrupted: more than are ever in flight at once, and their waits.
const MOST_UNFINISHED: usize = 24;

/// One line, without a break at its end; none for what nobody needs to read. Times are in the fleet's zone.
pub fn line(event: &Event, plan: &Plan, zone: &TimeZone) -> Option<String> {
    // Who reads lines and not bars reads how a step ended, once: that it began, and that it is asked again in a moment
    // because the other side is busy, is routine.
    let routine = match &event.kind {
        EventKind::Started => true,
        EventKind::Waiting { why } => {
            let machine = plan.step(&event.step).is_some_and(|step| waits_for_a_machine(&step.action));
            machine || BUSY.iter().any(|busy| why.contains(busy))
        }
        _ => false,
    };
    let said = happened(event, plan).filter(|_| !routine)?;
    Some(format!("{}  {said}", zone.to_datetime(event.at).strftime("%H:%M:%S")))
}

/// The same without the time.
pub fn happened(event: &Event, plan: &Plan) -> Option<String> {
    let step = plan.step(&event.step);
    let what = step.map_or_else(|| event.step.to_string(), self::step);
    // What is only remembered or waited for is told when it goes wrong.
    let quiet = step.is_some_and(|step| matches!(step.action, Action::Record(_) | Action::Await(_)));
    let takes_time = step.is_some_and(|step| takes_time(&step.action));
    match &event.kind {
        EventKind::Started | EventKind::Succeeded if quiet => None,
        EventKind::Started if !takes_time => None,
        EventKind::Started => Some(format!("{what} …")),
        EventKind::Succeeded => Some(format!("{what}: done")),
        EventKind::Skipped { why, .. } => {
            Some(format!("{what}: left out, because it is not as planned: {}; the next plan decides", clean(why)))
        }
        EventKind::Waiting { why } => Some(format!("{what}: {}", clean(why))),
        EventKind::Failed { class, why } => Some(format!("{what}: failed ({}): {}", clean(class), clean(why))),
        EventKind::Dropped { after } => {
            let before = plan.step(after).map_or_else(|| after.to_string(), self::step);
            Some(format!("{what}: left out, because this was not done: {before}"))
        }
        EventKind::Frozen { by, reason } => {
            Some(format!("{what}: left out, frozen by {}: {}", clean(by), clean(reason)))
        }
        EventKind::NotApproved { why } => Some(format!("{what}: left out, not approved: {}", clean(why))),
    }
}

/// What was begun and has not ended, for a person who stopped it: every step that the next run takes up. None where there
/// is none.
pub fn unfinished(progress: &Progress, plan: &Plan) -> Option<String> {
    let one = |found: &StepProgress| {
        let what = plan.step(&found.step).map_or_else(|| found.step.to_string(), self::step);
        match &found.state {
            StepState::Running => Some(format!("  {what}: not known yet how it ended")),
            StepState::Waiting { why } => Some(format!("  {what}: {}", clean(why))),
            _ => None,
        }
    };
    let mut lines: Vec<String> = progress.steps.iter().filter_map(one).collect();
    let more = lines.len().saturating_sub(MOST_UNFINISHED);
    lines.truncate(MOST_UNFINISHED);
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    (!lines.is_empty()).then(|| format!("Begun and not finished:\n{}", lines.join("\n")))
}

/// Machines take the time that they take; people and their work are another matter.
fn waits_for_a_machine(action: &Action) -> bool {
    use Fact::{Active, Admitted, Free, Gone, Joined, LaidOut, Ready, Settled};
    matches!(
        action,
        Action::Await(
            Active(_)
                | Admitted { .. }
                | Free { .. }
                | Gone(_)
                | Joined { .. }
                | LaidOut { .. }
                | Ready(_)
                | Settled(_)
        )
    )
}

/// Whether anybody has to wait for it, so that its beginning is told and not only its end.
fn takes_time(action: &Action) -> bool {
    match action {
        Action::Cloud(action) => !matches!(action, CloudAction::EnsureTemplate(_) | CloudAction::EnsureGroup { .. }),
        Action::Cluster(action) => matches!(action, ClusterAction::Evict { .. } | ClusterAction::Cut { .. }),
        Action::Record(_) | Action::Await(_) => false,
    }
}

/// What a step does, in a few words, with a workload by its name: actions know only its UID, the step is called by it.
pub fn step(step: &Step) -> String {
    let text = action(&step.action);
    let uid = match &step.action {
        Action::Cluster(
            ClusterAction::Ask { workload, .. }
            | ClusterAction::Suspend { workload, .. }
            | ClusterAction::Shrink { workload, .. }
            | ClusterAction::Resume { workload },
        )
        | Action::Await(Fact::Saved { workload, .. } | Fact::Released(workload) | Fact::Shrunk { workload, .. }) => {
            workload
        }
        _ => return text,
    };
    let name = step.id.as_str().split_once(':').and_then(|(_, rest)| rest.rsplit_once('@')).map(|(name, _)| name);
    name.map_or(text.clone(), |name| text.replace(uid.as_str(), name))
}

/// What an action does, in a few words.
pub fn action(action: &Action) -> String {
    match action {
        Action::Cloud(action) => cloud(action),
        Action::Cluster(action) => cluster(action),
        Action::Record(change) => record(change),
        Action::Await(fact) => format!("wait until {}", self::fact(fact)),
    }
}

fn cloud(action: &CloudAction) -> String {
    match action {
        CloudAction::Launch(request) => {
            let from = match (request.market, &request.reservation) {
                (Market::Reserved | Market::Block, Some(id)) => format!("in {id}"),
                (market, _) => market_name(market).into(),
            };
            format!("launch {} ({}, {}, {from})", request.slot, request.instance_type, request.zone)
        }
        CloudAction::Terminate { slot, instance } => format!("terminate {slot} ({instance})"),
        CloudAction::Reboot { slot, instance } => format!("reboot {slot} ({instance})"),
        CloudAction::Reserve(request) => format!(
            "reserve {} × {} in {} for {}",
            request.nodes, request.instance_type, request.zone, request.reservation
        ),
        CloudAction::Modify { reservation, nodes, .. } => format!("resize reservation {reservation} to {nodes}"),
        CloudAction::Cancel { reservation, id } => format!("cancel reservation {reservation} ({id})"),
        CloudAction::Purchase(request) => {
            format!("buy {} for {}, {}", request.offering, request.reservation, super::plan::words::money(request.fee))
        }
        CloudAction::EnsureTemplate(template) => format!("write launch template {}", template.name),
        CloudAction::EnsureGroup { group } => format!("make placement group {group}"),
    }
}

pub fn market_name(market: Market) -> &'static str {
    match market {
        Market::Reserved => "reserved",
        Market::Block => "in a Capacity Block",
        Market::OnDemand => "on demand",
        Market::Spot => "spot",
    }
}

fn cluster(action: &ClusterAction) -> String {
    match action {
        ClusterAction::Apply(object) => format!("write {}", object.key.words()),
        ClusterAction::Delete(key) => format!("delete {}", key.words()),
        ClusterAction::Disown(key) => format!("let go of {}", key.words()),
        ClusterAction::Dress { node, .. } => format!("label {node}"),
        ClusterAction::Cordon { node, mark } => format!("cordon {node} ({})", clean(&mark.why)),
        ClusterAction::Uncordon { node } => format!("uncordon {node}"),
        ClusterAction::Ask { workload, .. } => format!("ask workload {workload} to save its work"),
        ClusterAction::AskPods { gang, .. } => format!("ask gang {gang} to save its work"),
        ClusterAction::Suspend { workload, .. } => format!("suspend workload {workload}"),
        ClusterAction::Resume { workload } => format!("resume workload {workload}"),
        ClusterAction::Shrink { workload, pods } => format!("shrink workload {workload} to {}", count(*pods, "pod")),
        ClusterAction::Evict { pods, force } => {
            let pods_count = count(u32::try_from(pods.len()).unwrap_or(u32::MAX), "pod");
            let first = pods
                .first()
                .map_or(String::new(), |(name, _)| format!(" ({name}{})", if pods.len() > 1 { ", …" } else { "" }));
            format!("{} {pods_count}{first}", if *force { "delete" } else { "evict" })
        }
        ClusterAction::Cut { node, flip, .. } => format!("cut {node}{}", if *flip { ", once more" } else { "" }),
    }
}

fn record(change: &LedgerChange) -> String {
    match change {
        LedgerChange::Begin { .. } => "begin the ledger".into(),
        LedgerChange::Adopted { slot, instance, .. } => format!("take {instance} for {slot}"),
        LedgerChange::Missing { slot, since: Some(_) } => format!("note that {slot} is missing"),
        LedgerChange::Missing { slot, since: None } => format!("note that {slot} is back"),
        LedgerChange::Lost { slot } => format!("note that {slot} is lost"),
        LedgerChange::Removing { slot, .. } | LedgerChange::Leaving { slot } => format!("note that {slot} is removed"),
        LedgerChange::Claimed { slot, node } => format!("claim {node} for {slot}"),
        LedgerChange::Unclaimed { slot } => format!("let go of the node of {slot}"),
        LedgerChange::Closed { slot } => format!("close {slot}"),
        LedgerChange::Exchange { slot, with, .. } => format!("let {slot} and {with} change places"),
        LedgerChange::Exchanged { slot, with, .. } => format!("note in {slot} that it has the machine of {with}"),
        LedgerChange::ExchangeOver { slot, .. } => format!("note that the exchange of {slot} is over"),
        LedgerChange::Sized { pool, nodes } => format!("note that pool {pool} has its {nodes} nodes"),
        LedgerChange::SizedLow { pool, tide, nodes: Some(nodes) } => {
            format!("note that {tide} gives pool {pool} {nodes} nodes while it is low")
        }
        LedgerChange::SizedLow { pool, tide, nodes: None } => format!("forget the size that {tide} gave pool {pool}"),
        LedgerChange::Forgotten { pool } => format!("forget pool {pool}"),
        LedgerChange::Renamed { from, to } => format!("rename pool {from} to {to}"),
        LedgerChange::Treated { slot, .. } => format!("note the remedy of {slot}"),
        LedgerChange::Return { node, .. } => format!("forget the quarantine of {node}, which is gone"),
        LedgerChange::Undrain { node, .. } => format!("forget the drain of {node}, which is gone"),
        LedgerChange::Unwatched { node, .. } => format!("note that {node} is out of service, and not watched"),
        LedgerChange::Watched { node, at: Some(_) } => format!("note that {node} serves again"),
        LedgerChange::Watched { node, at: None } => format!("forget {node}, which is gone"),
        LedgerChange::ReservationForgotten { reservation } => format!("forget reservation {reservation}"),
        LedgerChange::ReservationRenamed { from, to } => format!("rename reservation {from} to {to}"),
        LedgerChange::Lent { tide, lent: Some(lent) } if lent.gone.is_some() => {
            format!("note that the document of {tide} is gone")
        }
        LedgerChange::Lent { tide, lent: Some(_) } => format!("note what {tide} lends"),
        LedgerChange::Lent { tide, lent: None } => format!("note that all that {tide} lent is back"),
        LedgerChange::Lending { tide, since: Some(_) } => format!("note that {tide} lends"),
        LedgerChange::Lending { tide, since: None } => format!("note that {tide} has everything back"),
        LedgerChange::Silent { tide, since: Some(_) } => format!("note that the guard of {tide} is silent"),
        LedgerChange::Silent { tide, since: None } => format!("note that the guard of {tide} answers again"),
        _ => "remember what was done".into(),
    }
}

/// What is waited for, or must be so.
pub fn fact(fact: &Fact) -> String {
    match fact {
        Fact::Gone(id) => format!("{id} is gone"),
        Fact::Live(id) => format!("{id} is there"),
        Fact::Unlisted(id) => format!("{id} is not known to the cloud"),
        Fact::Free { reservation, places } => format!("{reservation} has {} free", count(*places, "place")),
        Fact::Active(id) => format!("{id} is active"),
        Fact::Joined { instance } => format!("{instance} has joined the cluster"),
        Fact::Unjoined(instance) => format!("{instance} has not joined the cluster"),
        Fact::Unopened(node) => format!("nobody was let on {node} yet"),
        Fact::Settled(node) => format!("the cordon of {node} has settled"),
        Fact::Cordoned(node) => format!("{node} is cordoned"),
        Fact::HoldsOnly { node, pods } | Fact::NobodyBut { node, pods } => {
            format!("{node} holds only {}", count(u32::try_from(pods.len()).unwrap_or(u32::MAX), "known pod"))
        }
        Fact::Empty(node) => format!("{node} is empty"),
        Fact::GivenUp(node) => format!("{node} is empty, or silent with nobody left who has time to end"),
        Fact::LaidOut { node, .. } => format!("{node} is cut"),
        Fact::Saved { workload, within_secs, .. } => {
            format!("workload {workload} has saved its work, at most {}", length(*within_secs))
        }
        Fact::PodsSaved { gang, within_secs, .. } => {
            format!("gang {gang} has saved its work, at most {}", length(*within_secs))
        }
        Fact::Released(workload) => format!("workload {workload} has let go of its nodes"),
        Fact::Shrunk { workload, pods } => format!("workload {workload} has {}", count(*pods, "pod")),
        Fact::Unchanged { object, .. } => format!("{} is as it was", object.words()),
        Fact::Admitted { node, .. } => format!("{node} is admitted"),
        Fact::Ready(node) => format!("{node} is ready"),
        Fact::Booted { node, .. } => format!("{node} is back from its boot"),
        Fact::InService(node) => format!("{node} is in service"),
        Fact::After(at) => format!("it is {at}"),
        Fact::Before(at) => format!("it is before {at}"),
    }
}

#[cfg(test)]
mod tests;
