//! A plan for a person, for a pull request, for a program, and as a file that `apply` takes.
//!
//! A plan is about disruption: what is taken away comes first, with who is disturbed and for how long; what nobody
//! notices comes last. Called by the command line.

mod drain;
mod group;
mod human;
mod json;
mod markdown;
mod names;
mod saved;
mod stands;
mod stands_json;
pub(super) mod words;

pub use drain::drain;
pub use human::{diary, human};
pub use json::{json, json_schema};
pub use markdown::markdown;
pub(super) use names::waiting_name;
pub use saved::{Saved, load_saved, save};
pub use words::{command, count, dir_flag};

use jiff::tz::TimeZone;

use self::words::Words;
use super::tide::clock::near;
use crate::effect::{Action, Excess, Freeze, Opened};
use crate::plan::{Consent, Held, Plan, PlanInput, Reason, WaitingOn, approved_before};
use crate::status::{Tally, hands_off};

/// A plan with what it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub input: &'a PlanInput,
    pub plan: &'a Plan,
    /// How the fleet's directory is written on the command line, for the commands that are shown.
    pub directory: &'a str,
    /// Whether it is a plan of this moment, and not of another that somebody asked about.
    pub is_now: bool,
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Look {
    pub colour: bool,
    /// Every step and every name.
    pub verbose: bool,
}

/// Whether there is something to do, as exit codes tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    NoChanges,
    Changes,
    /// Something is wanted, and all of it is held.
    Blocked,
}

pub fn verdict(plan: &Plan) -> Verdict {
    match (plan.steps.is_empty(), plan.held.is_empty()) {
        (true, true) => Verdict::NoChanges,
        (true, false) => Verdict::Blocked,
        (false, _) => Verdict::Changes,
    }
}

/// How pools stand on the fabric, before and after a plan, for the scripts; nothing of a fleet that says nothing of one.
pub fn fabric_lines(plan: &Plan) -> Vec<String> {
    let Some(found) = &plan.stands else { return Vec::new() };
    let mut lines = stands::pools(found, usize::MAX);
    lines.extend(stands::slots(found).lines().map(str::to_string));
    lines.extend(found.fragmented.as_ref().map(stands::fragmented));
    lines.extend(stands::bargains(found, usize::MAX).into_iter().map(|line| format!("moves  {line}")));
    lines.extend(stands::odd(found, usize::MAX));
    lines.into_iter().map(|line| line.trim_end().to_string()).collect()
}

/// What of a plan goes beyond what was approved, one line each; empty where it is covered.
pub fn excesses(beyond: &[Excess]) -> Vec<String> {
    beyond.iter().map(words::excess).collect()
}

/// Why a step is there, in words.
pub fn reason(input: &PlanInput, directory: &str, reason: &Reason) -> String {
    let zone = input.target.standing.time_zone.zone();
    Words { now: input.now, zone, directory, plan: None, hands_off: Vec::new() }.reason(reason)
}

/// "ana gave it at 14:02"
pub fn given(input: &PlanInput, opened: &Opened) -> String {
    let at = near(opened.at, input.now, &input.target.standing.time_zone.zone());
    format!("{} gave it at {at}", words::clean(&opened.by))
}

/// Everything that a plan waits on, in one line.
pub fn waits(shown: &Shown<'_>) -> String {
    let lines: Vec<String> = shown.words().held(&shown.plan.held).into_iter().map(|line| line.wait.on).collect();
    words::list(&lines, usize::MAX)
}

/// "12 done, 1 failed, 2 left"
pub fn tally(tally: &Tally) -> String {
    let states = [
        (tally.succeeded, "done"),
        (tally.waiting, "still waiting"),
        (tally.skipped, "left out because the world had moved"),
        (tally.failed, "failed"),
        (tally.frozen, "frozen"),
        (tally.not_approved, "not approved"),
        (tally.dropped + tally.pending + tally.running, "not begun"),
    ];
    let told = states.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}"));
    let told: Vec<String> = told.collect();
    let steps = tally.total();
    format!("{}: {}", words::count(steps, "step"), words::list(&told, usize::MAX))
}

/// "a, b and 3 more"
pub fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    words::list(&names, 8)
}

impl Shown<'_> {
    fn zone(&self) -> TimeZone {
        self.input.target.standing.time_zone.zone()
    }

    fn words(&self) -> Words<'_> {
        let (now, directory, hands_off) = (self.input.now, self.directory, hands_off(self.input));
        Words { now, zone: self.zone(), directory, plan: Some(self.plan), hands_off }
    }

    /// Whose word it needs.
    fn asks(&self) -> String {
        let waits = |held: &Held| matches!(held.waiting_on, WaitingOn::Approval { .. });
        if let Some(opened) = approved_before(self.input, self.plan) {
            format!("goes on with what {} approved {}", words::clean(&opened.by), self.words().near(opened.at))
        } else if self.plan.steps.iter().any(|step| step.consent == Consent::Asked) {
            "asks first".into()
        } else if self.plan.held.iter().any(waits) {
            "leaves what waits for an approval".into()
        } else {
            "nothing in it has to be approved".into()
        }
    }

    /// The command that carries the plan out.
    fn apply_command(&self) -> String {
        let parts = self.input.only.iter().map(|part| format!(" --target {part}"));
        let defragment = if self.input.defragment { " --defragment" } else { "" };
        let command = words::command("apply", self.directory) + &parts.collect::<String>() + defragment;
        match approved_before(self.input, self.plan) {
            Some(opened) => format!("{command} --approved {}", words::short(opened.effects.as_str())),
            None => command,
        }
    }

    /// Every freeze, those of the documents first.
    fn freezes(&self) -> impl Iterator<Item = Freeze> {
        let input = self.input;
        let documents = input.target.standing.frozen.iter();
        let documents = documents.map(|reason| crate::plan::frozen_by_document(reason, input.now));
        documents.chain(input.ledger.head.frozen.iter().cloned())
    }
}

/// Whether it changes only what we remember.
fn is_memory(action: &Action) -> bool {
    matches!(action, Action::Record(_) | Action::Await(_))
}

#[cfg(test)]
mod tests;
