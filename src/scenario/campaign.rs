//! A seed draws a small fleet, edits to it and faults, as a script; whatever happens, it must settle once nothing goes
//! wrong any more, and no invariant may ever break.
//!
//! The same seed gives the same script. One that fails is made small by leaving lines out as long as it still fails, so
//! that what is left is a story that a person can read.

mod dice;
mod draw;
mod fleet;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::{ScriptError, Transcript};

/// A script in parts that can be left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    pub seed: u64,
    pub lines: Vec<Line>,
}

/// A command with its block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    pub text: String,
    /// The story makes sense without it.
    pub optional: bool,
}

/// How a case came out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// How often each fault struck.
    pub struck: BTreeMap<String, u64>,
    pub failed: Option<String>,
}

pub use draw::draw;

impl Case {
    pub fn text(&self) -> String {
        let head = format!("# Drawn from seed {}.\n", self.seed);
        self.lines.iter().fold(head, |text, line| text + &line.text + "\n")
    }

    /// Without the optional line at this place.
    fn without(&self, place: usize) -> Self {
        let mut lines = self.lines.clone();
        lines.remove(place);
        Self { seed: self.seed, lines }
    }
}

/// Runs a case. A panic is a failure like any other.
pub fn run(case: &Case) -> Ran {
    let text = case.text();
    caught(|| super::run(&text, Path::new(".")))
}

/// How a run came out, whatever it did.
pub fn caught(run: impl FnOnce() -> Result<Transcript, ScriptError>) -> Ran {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(transcript)) => Ran { struck: struck(&transcript.text), failed: None },
        Ok(Err(error)) => Ran { struck: struck(&error.so_far), failed: Some(error.to_string()) },
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
            Ran { struck: BTreeMap::new(), failed: Some(format!("I15: a panic: {said}")) }
        }
    }
}

/// The shortest that still fails in the same way, leaving out one line after the other.
pub fn shrink(case: &Case) -> Case {
    shrink_with(case, &run)
}

/// The same, run another way.
pub fn shrink_with(case: &Case, run: &dyn Fn(&Case) -> Ran) -> Case {
    let mut small = case.clone();
    let Some(failed) = run(case).failed else { return small };
    loop {
        let before = small.lines.len();
        for place in (0..small.lines.len()).rev() {
            if small.lines[place].optional {
                let smaller = small.without(place);
                if run(&smaller).failed.is_some_and(|other| kind(&other) == kind(&failed)) {
                    small = smaller;
                }
            }
        }
        if small.lines.len() == before {
            return small;
        }
    }
}

/// The first words of what went wrong, without names and numbers: another story may fail for another reason.
fn kind(failed: &str) -> String {
    let what = failed.lines().nth(1).unwrap_or(failed).trim_start();
    let words = what.trim_start_matches("an invariant is broken: ");
    words.chars().take_while(|c| !c.is_ascii_digit() || words.starts_with('I')).take(20).collect()
}

/// What `show faults` printed.
fn struck(transcript: &str) -> BTreeMap<String, u64> {
    let lines = transcript.lines().skip_while(|line| *line != "show faults").skip(1);
    let count = |line: &str| {
        let (name, count) = line.strip_prefix("| ")?.rsplit_once(": ")?;
        Some((name.to_string(), count.parse().ok()?))
    };
    lines.map_while(count).collect()
}
