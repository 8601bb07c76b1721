//! `tidewright plan`: what would be done now, who would be disturbed, and what it would cost.

use std::path::{Path, PathBuf};

use super::session::{Access, Session, judged};
use super::when::{Resolved, When};
use super::{BLOCKED, CHANGES, Common, DONE, Directory, Output, colour, fail, print, talk};
use crate::diag::nearest;
use crate::effect::Thing;
use crate::fleet::Fleet;
use crate::plan::Plan;
use crate::render::plan::{self, Look, Shown, Verdict};
use crate::round::Options;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright plan                              the fleet in this directory
  tidewright plan clusters/demo --verbose      another one, with every step
  tidewright plan --target pool/train          only what concerns this pool
  tidewright plan --at 2026-11-01T19:55        as it would be at that time
  tidewright plan --out plan.json              save it, for `tidewright apply DIR plan.json`
  tidewright plan --output markdown            for a comment on a pull request
  tidewright plan --defragment                 with drains and moves that pay for themselves on the fabric
  tidewright plan --output html > map.html     the fabric as a map, with what would change

Exit codes: 0 no changes, 1 error, 2 changes, 3 something is wanted and all of it is held.")]
pub struct Arguments {
    #[command(flatten)]
    directory: Directory,
    /// Save the plan, with what it may do at most
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Save everything that the plan was made from, for `tidewright replay`
    #[arg(long, value_name = "FILE")]
    save_input: Option<PathBuf>,
    /// When: a time in the fleet's zone, an instant with its offset, or `now`
    #[arg(long, value_name = "TIME", default_value = "now")]
    at: When,
    /// Only this part: pool/NAME, reservation/NAME, quota/NAME or tide/NAME; may be repeated
    #[arg(long, value_name = "PART", value_parser = part)]
    target: Vec<Thing>,
    /// Also empty nodes with work and give them to other pools, where that buys shorter ways or large free slots on the
    /// fabric; inside a pool work stays where it is
    #[arg(long)]
    defragment: bool,
    /// Every step and every name
    #[arg(long)]
    verbose: bool,
}

pub fn part(text: &str) -> Result<Thing, String> {
    text.parse()
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    let known = [Output::Human, Output::Json, Output::Markdown, Output::Svg, Output::Html];
    if let Err(code) = common.one_of("plan", &known) {
        return code;
    }
    show(arguments, common).unwrap_or_else(|code| code)
}

fn show(arguments: &Arguments, common: &Common) -> Result<u8, u8> {
    let session = Session::open(&arguments.directory.directory, Access::Look)?;
    for thing in &arguments.target {
        known(&session.fleet, thing).map_err(|why| fail(&why))?;
    }
    let at = match arguments.at {
        // The simulator has a time of its own.
        When::Now => None,
        other => {
            let Resolved { at, note } = other.resolve(&session.fleet.time_zone).map_err(|why| fail(&why))?;
            note.iter().for_each(|note| talk(note));
            Some(at)
        }
    };
    if at.is_some() && arguments.out.is_some() {
        return Err(fail("--out saves a plan for `apply`, which works now: leave --at away, or --out"));
    }
    let (only, defragment) = (arguments.target.clone(), arguments.defragment);
    let input = session.input(&Options { at, only, defragment, ..Options::default() })?;
    if let Some(path) = &arguments.save_input {
        write(path, &super::replay::save(&input, &session.directory, at.is_none()))?;
    }
    let (made, _) = judged(&input)?;
    if let Some(path) = &arguments.out {
        write(path, &plan::save(&input, &made))?;
        talk(&format!(
            "Saved. To carry out this, and nothing beyond it: tidewright apply {} {}",
            session.directory,
            path.display()
        ));
    }
    let shown = Shown { input: &input, plan: &made, directory: &session.directory, is_now: at.is_none() };
    match common.output {
        Output::Svg | Output::Html => print(&super::place::map(&input, common.output)?),
        output => tell(&shown, arguments.verbose, output),
    }
    Ok(exit_code(&made))
}

/// Prints a plan in the format that was asked for.
pub fn tell(shown: &Shown<'_>, verbose: bool, output: Output) {
    print(&match output {
        Output::Json => plan::json(shown),
        Output::Markdown => plan::markdown(shown),
        _ => plan::human(shown, &Look { colour: colour(), verbose }),
    });
}

pub fn exit_code(made: &Plan) -> u8 {
    match plan::verdict(made) {
        Verdict::NoChanges => DONE,
        Verdict::Changes => CHANGES,
        Verdict::Blocked => BLOCKED,
    }
}

pub fn write(path: &Path, text: &str) -> Result<(), u8> {
    std::fs::write(path, text).map_err(|error| fail(&format!("cannot write `{}`: {error}", path.display())))
}

/// Whether a fleet has something of this name; else what is near.
pub fn known(fleet: &Fleet, thing: &Thing) -> Result<(), String> {
    let (kind, name, names): (&str, &str, Vec<&str>) = match thing {
        Thing::Pool(name) => ("pool", name.as_str(), fleet.pools.keys().map(|name| name.as_str()).collect()),
        Thing::Reservation(name) => {
            ("reservation", name.as_str(), fleet.reservations.keys().map(|name| name.as_str()).collect())
        }
        Thing::Quota(name) => ("quota", name.as_str(), fleet.quotas.keys().map(|name| name.as_str()).collect()),
        Thing::Tide(name) => ("tide", name.as_str(), fleet.tides.keys().map(|name| name.as_str()).collect()),
        Thing::Fleet | Thing::Objects(_) => return Ok(()),
    };
    if names.contains(&name) {
        return Ok(());
    }
    Err(format!("fleet {} has no {kind} `{name}`: {}", fleet.name.value, near(name, kind, &names)))
}

/// "did you mean `train`?", or all there is.
pub fn near(name: &str, kind: &str, names: &[&str]) -> String {
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => format!("it has no {kind} at all"),
        None => format!("it has {}", crate::render::plan::list(names)),
    }
}
