//! `tidewright sim`: the simulated world, looked at and moved by hand.

use std::path::PathBuf;

use clap::Subcommand;

use super::session::{Access, Session, state_file};
use super::{Common, DONE, Output, fail, print, talk};
use crate::provider::sim::Sim;
use crate::units::{Duration, Malformed};

#[derive(Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "\
Examples:
  tidewright sim show                          what exists, and what time it is there
  tidewright sim advance 6h                    let time pass
  tidewright sim submit gang vision 64         work arrives: a line of the script language
  tidewright sim run night.script              run a whole script in a world of its own
  tidewright sim reset                         put the world aside, and begin anew

The world of a fleet lives in DIR/.tidewright/sim.json, with a clock of its own."
)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".", global = true)]
    directory: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what exists
    Show,
    /// Let time pass
    Advance {
        /// How long: 90s, 45m, 6h, 2d
        #[arg(value_name = "LENGTH", value_parser = length)]
        by: Duration,
    },
    /// Let work arrive
    Submit {
        /// As after `submit` in a script
        #[arg(value_name = "WORDS", required = true, trailing_var_arg = true)]
        words: Vec<String>,
    },
    /// Run a script in a world of its own
    Run {
        /// The script
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Put the world aside, and begin anew
    Reset,
}

fn length(text: &str) -> Result<Duration, Malformed> {
    text.parse().map_err(|Malformed(expected)| Malformed(format!("expected {expected}")))
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("sim", &[Output::Human]) {
        return code;
    }
    go(arguments).unwrap_or_else(|code| code)
}

fn go(arguments: &Arguments) -> Result<u8, u8> {
    let directory = &arguments.directory;
    match &arguments.verb {
        Verb::Show => print(&Session::open(directory, Access::Look)?.sim.summary()),
        Verb::Advance { by } => {
            let session = Session::open(directory, Access::Change)?;
            session.sim.advance(*by);
            session.sim.save().map_err(|error| fail(&error.to_string()))?;
            let zone = session.fleet.time_zone.zone();
            print(&format!("It is {} there.", session.sim.now().to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %:z")));
        }
        Verb::Submit { words } => {
            let session = Session::open(directory, Access::Change)?;
            let line = format!("submit {}", words.join(" "));
            print(&script(&session, &line)?);
            session.sim.save().map_err(|error| fail(&error.to_string()))?;
        }
        Verb::Run { file } => {
            let shown = file.display();
            let text =
                std::fs::read_to_string(file).map_err(|error| fail(&format!("cannot read `{shown}`: {error}")))?;
            print(&script_file(&text)?);
        }
        Verb::Reset => match Sim::reset(&state_file(directory)).map_err(|error| fail(&error.to_string()))? {
            Some(aside) => {
                print("The world begins anew.");
                talk(&format!("the old one is in {}", aside.display()));
            }
            None => print("There was no world yet."),
        },
    }
    Ok(DONE)
}

/// One line of a script, in the world of a fleet.
fn script(_session: &Session, line: &str) -> Result<String, u8> {
    Err(fail(&format!("the script language is not part of this version: cannot `{line}`")))
}

/// A whole script, in a world of its own.
fn script_file(_text: &str) -> Result<String, u8> {
    Err(fail("the script language is not part of this version"))
}
