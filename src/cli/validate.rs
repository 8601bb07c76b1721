//! `tidewright validate`: every mistake of a directory at once.

use super::when::{Resolved, When};
use super::{Common, DONE, Directory, ERROR, Output, colour, fail, print, talk};
use crate::diag::{Code, codes, explain, nearest};
use crate::load;
use crate::render::diagnostics;
use crate::units::ZoneName;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright validate                          the fleet in this directory
  tidewright validate clusters/demo            another one
  tidewright validate --output github          as annotations in a GitHub workflow
  tidewright validate --output sarif           for code scanning
  tidewright validate --explain TW303          why a rule exists, a wrong and a right example

Exit codes: 0 nothing is wrong (there may be warnings), 1 something is.")]
pub struct Arguments {
    #[command(flatten)]
    directory: Directory,
    /// Tell the story of a code instead
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    /// Check the two weeks from this time on: in the fleet's zone, an instant with its offset, or `now`
    #[arg(long, value_name = "TIME", default_value = "now")]
    at: When,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Some(code) = &arguments.explain {
        if let Err(code) = common.one_of("validate --explain", &[Output::Human]) {
            return code;
        }
        return tell(code);
    }
    if let Err(code) = common.one_of("validate", &[Output::Human, Output::Json, Output::Github, Output::Sarif]) {
        return code;
    }
    let loaded = load::load(&arguments.directory.directory);
    let zone = loaded.time_zone().cloned().unwrap_or_else(ZoneName::utc);
    let now = match arguments.at.resolve(&zone) {
        Ok(Resolved { at, note }) => {
            note.iter().for_each(|note| talk(note));
            at
        }
        Err(message) => return fail(&message),
    };
    let checked = loaded.check(now);
    let (sources, found) = (&checked.sources, &checked.diagnostics);
    print(&match common.output {
        Output::Human | Output::Markdown | Output::Svg | Output::Html => diagnostics::human(sources, found, colour()),
        Output::Json => diagnostics::json(sources, found),
        Output::Github => diagnostics::github(sources, found),
        Output::Sarif => diagnostics::sarif(sources, found),
    });
    let errors = found.iter().filter(|diagnostic| diagnostic.is_error()).count();
    if errors > 0 {
        return ERROR;
    }
    if let Some(fleet) = &checked.fleet {
        let count = |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
        talk(&format!(
            "{} is valid: {}, {}, {}, {}.",
            fleet.name.value,
            count(checked.documents, "document"),
            count(fleet.pools.len(), "pool"),
            count(fleet.quotas.len(), "quota"),
            count(fleet.tides.len(), "tide")
        ));
    }
    DONE
}

fn tell(code: &str) -> u8 {
    let Some(known) = Code::from_id(code) else {
        let near = nearest(code, codes::ALL.iter().map(|(code, _)| code.id()));
        let near = near.map_or(String::new(), |near| format!(": did you mean {near}?"));
        return fail(&format!("there is no code `{code}`{near}"));
    };
    match explain::story(known) {
        Some(story) => {
            print(&diagnostics::render_story(&story));
            DONE
        }
        None => fail(&format!("{known} has no story")),
    }
}
