//! Scripts for the simulated world: one command a line, and under it what it must print.
//!
//! A script is a story that can be run: it builds a fleet, lets people, hardware and weather do things to it, plans and
//! applies, and says what is expected. After every round the invariants of the simulator are checked, whether the
//! script asks for it or not. The tests in `tests/scenarios/` are such scripts, the campaign shrinks a failing seed to
//! one, and `tidewright sim run FILE` runs one for anybody. Not here: how the simulated world behaves
//! (`provider::sim`), what is planned (`plan`), how it is done (`apply`).
//!
//! | file | |
//! | --- | --- |
//! | `script` | lines, blocks and expected output |
//! | `words`, `command`, `parse` | a line as a typed command, or what is wrong with it |
//! | `documents`, `names` | the fleet's documents, and edits to them; the names that they gave |
//! | `bench` | a simulated world with a fleet: look, round, converge |
//! | `acts`, `work`, `orders` | what a command does to the world |
//! | `expect` | what must be so |
//! | `events` | what happened, in words that a real cluster would use too |
//! | `twin` | the same documents in an empty world |
//! | `settle` | law 7: done within the bound, and then quiet |
//! | `invariants` | what must always be so |
//! | `campaign` | scripts that a seed draws, and how a failing one is made small |
//! | `print` | plans and events in few words |

mod acts;
pub mod bench;
pub mod campaign;
pub mod command;
pub mod documents;
pub mod events;
mod expect;
pub mod invariants;
mod names;
mod orders;
mod parse;
pub mod print;
mod script;
mod settle;
mod twin;
mod words;
mod work;

#[cfg(test)]
mod tests;

pub use parse::COMMANDS;
pub use script::{Item, Script};

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use jiff::SignedDuration;

use bench::{Bench, Door};
use command::Command;

use crate::provider::sim::{Faults, Rates};

/// A script that ran to its end, with all that it printed.
#[derive(Clone, PartialEq, Debug)]
pub struct Transcript {
    /// The script, with what each command printed under it in place of what was expected.
    pub text: String,
    /// Where that is something else than was expected.
    pub differences: Vec<Difference>,
}

/// A command that printed something else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub line: usize,
    pub command: String,
    pub expected: Vec<String>,
    pub printed: Vec<String>,
}

/// Why a script could not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptError {
    /// From one.
    pub line: usize,
    pub command: String,
    pub what: String,
    pub hint: Option<String>,
    /// The script up to there, with what was printed.
    pub so_far: String,
}

/// A script with its commands, read and not run.
pub fn parsed(text: &str) -> Result<(Script, Vec<Command>), ScriptError> {
    let script = Script::parse(text)?;
    let commands = script.items.iter().map(|item| {
        let parsed = parse::command(item);
        parsed.map_err(|wrong| error(item, wrong, String::new()))
    });
    let commands = commands.collect::<Result<_, _>>()?;
    Ok((script, commands))
}

/// Runs a script. Files that it names are looked for below `base`.
///
/// An expectation that does not hold, a broken invariant and a plan that the judge refuses end it with an error; output
/// that differs from what the script holds does not, and is told in the transcript.
pub fn run(text: &str, base: &Path) -> Result<Transcript, ScriptError> {
    run_through(text, base, None)
}

/// The same, with the cloud behind a door.
pub fn run_through(text: &str, base: &Path, door: Option<Rc<dyn Door>>) -> Result<Transcript, ScriptError> {
    let (script, commands) = parsed(text)?;
    let mut printed: Vec<Vec<String>> = Vec::new();
    let mut bench = None;
    for (item, command) in script.items.iter().zip(&commands) {
        match step(&mut bench, command, item, base, door.clone()) {
            Ok(lines) => printed.push(lines),
            Err(wrong) => return Err(error(item, wrong, script.with_output(&printed))),
        }
    }
    let differences = script.items.iter().zip(&printed).filter(|(item, lines)| item.expected != **lines);
    let differences = differences.map(|(item, lines)| Difference {
        line: item.line,
        command: item.text.clone(),
        expected: item.expected.clone(),
        printed: lines.clone(),
    });
    let differences = differences.collect();
    Ok(Transcript { text: script.with_output(&printed), differences })
}

/// A command that may not be possible now; what must never be still ends the script.
fn maybe(bench: &mut Bench, command: &Command, item: &Item, base: &Path) -> Result<Vec<String>, Wrong> {
    match perform(bench, command, item, base) {
        Err(wrong) if !wrong.broken => Ok(vec![format!("passed over: {}", wrong.what)]),
        done => done,
    }
}

/// One command; what it prints.
fn step(
    bench: &mut Option<Bench>,
    command: &Command,
    item: &Item,
    base: &Path,
    door: Option<Rc<dyn Door>>,
) -> Result<Vec<String>, Wrong> {
    if let Command::Start { at, seed } = command {
        if bench.is_some() {
            return Err("the world has begun already: `start` is the first command".into());
        }
        *bench = Some(Bench::new(*at, *seed, base).through(door));
        return Ok(Vec::new());
    }
    let Some(bench) = bench else {
        return Err(Wrong::new("there is no world yet").hint("begin with: start 2026-03-02T08:00Z"));
    };
    perform(bench, command, item, base)
}

fn perform(bench: &mut Bench, command: &Command, item: &Item, base: &Path) -> Result<Vec<String>, Wrong> {
    let lines = match command {
        Command::Start { .. } => Vec::new(),
        Command::Weather { seed, deadly } => {
            let death = if *deadly { 4 } else { 0 };
            bench.sim.set_faults(Faults::random(*seed, Rates { death, ..Rates::ROUGH }));
            Vec::new()
        }
        Command::Clock(secs) => {
            bench.skew(SignedDuration::from_secs(*secs));
            Vec::new()
        }
        Command::Defragment(on) => {
            bench.defragment = *on;
            Vec::new()
        }
        Command::Calm => {
            bench.sim.stop_faults();
            Vec::new()
        }
        Command::Maybe(inner) => return maybe(bench, inner, item, base),
        Command::Fleet(_) | Command::Edit(_) | Command::Delete { .. } | Command::Add(_) => {
            bench.change_documents(command)?
        }
        Command::Run(run) => bench.run(run)?,
        Command::Fault(fault) => {
            bench.sim.inject(fault.clone());
            Vec::new()
        }
        Command::Act(act) => acts::act(bench, act)?,
        Command::Work(work) => work::work(bench, work)?,
        Command::Order(order) => orders::order(bench, order)?,
        Command::Expect(expect) => {
            expect::expect(bench, expect)?;
            Vec::new()
        }
    };
    bench.check().map_err(|broken| Wrong::broken(format!("after `{}`: {broken}", item.text)))?;
    Ok(lines)
}

/// What is wrong, without its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    pub what: String,
    pub hint: Option<String>,
    /// Something that must never be.
    pub broken: bool,
}

impl Wrong {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, broken: false }
    }

    pub fn broken(what: impl Into<String>) -> Self {
        Self { broken: true, ..Self::new(what) }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self::new(what)
    }
}

impl From<&str> for Wrong {
    fn from(what: &str) -> Self {
        Self::new(what)
    }
}

impl From<crate::provider::ProviderError> for Wrong {
    fn from(error: crate::provider::ProviderError) -> Self {
        Self::new(error.message)
    }
}

fn error(item: &Item, wrong: Wrong, so_far: String) -> ScriptError {
    ScriptError { line: item.line, command: item.text.clone(), what: wrong.what, hint: wrong.hint, so_far }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}\n  {}", self.line, self.command, self.what)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

impl std::error::Error for ScriptError {}

impl fmt::Display for Difference {
    /// As a diff: `-` is what the script holds, `+` what was printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.command)?;
        let same = self.expected.iter().zip(&self.printed).take_while(|(a, b)| a == b).count();
        let (mut old, mut new) = (&self.expected[same..], &self.printed[same..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
        (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
        self.expected[..same].iter().try_for_each(|line| write!(f, "\n   | {line}"))?;
        old.iter().try_for_each(|line| write!(f, "\n - | {line}"))?;
        new.iter().try_for_each(|line| write!(f, "\n + | {line}"))?;
        self.expected[self.expected.len() - tail..].iter().try_for_each(|line| write!(f, "\n   | {line}"))
    }
}
