//! `tidewright lost`: a person's word that what is no longer listed is really gone.
//!
//! When too much is missing at once, nothing is destroyed and nothing is replaced: the list is probably wrong. If it is
//! right, somebody who looked says so here.

use std::path::PathBuf;

use super::session::{Access, Session};
use super::{CHANGES, Common, DONE, Output, fail, print, talk};
use crate::round::{Options, missing};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright lost                              what is missing, and nothing else
  tidewright lost --yes                        it is really gone: the next plan replaces it

Only what is missing from a whole list, and has no node that is ready, can be lost.")]
pub struct Arguments {
    /// The fleet's directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// It is really gone
    #[arg(long)]
    yes: bool,
}

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
    let lost = missing(&input).map_err(|why| fail(&why))?;
    if lost.is_empty() {
        print("Nothing is missing.");
        return Ok(DONE);
    }
    let lines: Vec<String> = lost.iter().map(|(what, _)| what.clone()).collect();
    print(&lines.join("\n"));
    if !arguments.yes {
        talk("Missing from the list. If all of it is really gone, write --yes: the next plan replaces it.");
        return Ok(CHANGES);
    }
    for (_, change) in &lost {
        session.remember(change)?;
    }
    talk(&format!("{} slots are free: the next plan fills them.", lost.len()));
    Ok(DONE)
}
