//! `tidewright lost`: a person's word that what is no longer listed is really gone, and that a ledger is.
//!
//! When too much is missing at once, nothing is destroyed and nothing is replaced: the list is probably wrong. If it is
//! right, somebody who looked says so here. What people had said in a ledger that was lost is told in every plan until
//! a person says that they know.

use std::path::PathBuf;

use super::session::{Access, Session};
use super::{CHANGES, Common, DONE, Output, fail, print, talk};
use crate::round::{Options, forgotten, let_in, missing};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright lost                              what is missing, and nothing else
  tidewright lost --yes                        it is really gone: the next plan replaces it

Only what is missing from a whole list, and has no node that is ready, can be lost. Where the ledger itself was lost and
another one begun, this says that you know, and have given again the freezes and other orders that should hold. Nodes
that it kept out of service, and of which nobody said anything since, may serve again.")]
pub struct Arguments {
    /// The fleet's directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// It is really gone
    #[arg(long)]
    yes: bool,
}

const MISSING: &str = "Missing from the list. If all of it is really gone, write --yes: the next plan replaces it.";
const ONLY_THE_LEDGER: &str =
    "Lost. Give those again that should hold, and write --yes: then no plan says this any more.";

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("lost", &[Output::Human]) {
        return code;
    }
    go(arguments).unwrap_or_else(|code| code)
}

fn go(arguments: &Arguments) -> Result<u8, u8> {
    let access = if arguments.yes { Access::Change } else { Access::Look };
    let session = Session::open(&arguments.directory, access)?;
    let input = session.input(&Options::default())?;
    let (ledger, lost) = (forgotten(&input), missing(&input).map_err(|why| fail(&why))?);
    if ledger.is_none() && lost.is_empty() {
        print("Nothing is missing.");
        return Ok(DONE);
    }
    let open = let_in(&input);
    let all = || ledger.iter().chain(&open).chain(&lost);
    let lines: Vec<&str> = all().map(|(what, _)| what.as_str()).collect();
    print(&lines.join("\n"));
    if !arguments.yes {
        talk(if lost.is_empty() { ONLY_THE_LEDGER } else { MISSING });
        return Ok(CHANGES);
    }
    for (_, change) in all() {
        session.remember(change)?;
    }
    if !lost.is_empty() {
        talk(&format!("{} slots are free: the next plan fills them.", lost.len()));
    }
    Ok(DONE)
}
