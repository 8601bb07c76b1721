//! `tidewright tide`: what the fleet should be, now and over the coming days.

use super::session::{Access, Session, simulated_now, who};
use super::when::{Resolved, When};
use super::{Common, DONE, Directory, ERROR, Output, fail, print, talk};
use crate::effect::{self, LedgerChange, Thing};
use crate::fleet::tide::Phase;
use crate::ids::TideName;
use crate::load;
use crate::render::{diagnostics, tide};
use crate::round::Options;
use crate::units::{Duration, Malformed, ZoneName};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(after_help = "\
Examples:
  tidewright tide                              the fleet in this directory, now and for a week
  tidewright tide clusters/demo --for 3d       another one, for three days
  tidewright tide --at 2026-11-01T19:55        at this time in the fleet's zone
  tidewright tide --at 2026-11-02T03:55Z       at this instant
  tidewright tide --output json                for programs (schemas/output/tide.schema.json)
  tidewright tide recall nightly               ask back now what is lent

A time that the clock shows twice is the first of the two; an offset (-08:00) says which one is meant.")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    directory: Directory,
    /// When: a time in the fleet's zone, an instant with its offset, or `now`
    #[arg(long, value_name = "TIME", default_value = "now")]
    at: When,
    /// How far ahead: 36h, 7d; at most 366d
    #[arg(long = "for", value_name = "LENGTH", default_value = "7d", value_parser = length)]
    length: Duration,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Turn a tide now: what is lent is asked back, and nothing more is lent until it is low again
    #[command(after_help = "\
Examples:
  tidewright tide recall nightly               ask back now what is lent
  tidewright apply                             and see to it")]
    Recall(Recall),
}

#[derive(Debug, clap::Args)]
struct Recall {
    /// The tide
    #[arg(value_name = "NAME")]
    name: String,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: std::path::PathBuf,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Some(Verb::Recall(arguments)) = &arguments.verb {
        if let Err(code) = common.one_of("tide recall", &[Output::Human]) {
            return code;
        }
        return recall(arguments).unwrap_or_else(|code| code);
    }
    if let Err(code) = common.one_of("tide", &[Output::Human, Output::Json]) {
        return code;
    }
    let loaded = load::load(&arguments.directory.directory);
    // A fleet whose head is wrong has no zone; what is wrong with it is said below.
    let zone = loaded.time_zone().cloned().unwrap_or_else(ZoneName::utc);
    let simulated = match arguments.at {
        When::Now => simulated_now(&arguments.directory.directory, &loaded),
        _ => Ok(None),
    };
    let simulated = match simulated {
        Ok(simulated) => simulated,
        Err(code) => return code,
    };
    let at = match simulated.map_or_else(|| arguments.at.resolve(&zone), |at| Ok(Resolved { at, note: None })) {
        Ok(Resolved { at, note }) => {
            note.iter().for_each(|note| talk(note));
            at
        }
        Err(message) => return fail(&message),
    };
    let Ok(until) = at.checked_add(arguments.length.signed()) else {
        return fail(&format!("the calendar ends before {at} and {} more: write an earlier --at", arguments.length));
    };
    let checked = loaded.check(at);
    let Some(fleet) = &checked.fleet else {
        // The stream itself leaves colours out where nobody wants them.
        talk(diagnostics::human(&checked.sources, &checked.diagnostics, true).trim_end());
        return ERROR;
    };
    let question = tide::Question { fleet, at, until, is_now: arguments.at == When::Now };
    print(&match common.output {
        Output::Json => tide::json(&question),
        _ => tide::human(&question),
    });
    DONE
}

fn recall(arguments: &Recall) -> Result<u8, u8> {
    let session = Session::open(&arguments.directory, Access::Note)?;
    let name = TideName::from(arguments.name.as_str());
    super::plan::known(&session.fleet, &Thing::Tide(name.clone())).map_err(|why| fail(&why))?;
    let input = session.input(&Options::default())?;
    match input.target.tides.get(&name) {
        Some(Phase::Low { .. }) => {}
        Some(Phase::High) | None => {
            return Err(fail(&format!("{name} is high now: nothing is lent that could be asked back")));
        }
        Some(Phase::Reclaiming { .. } | Phase::HardReclaim { .. }) => {
            talk(&format!("{name} is being reclaimed already."));
            return Ok(DONE);
        }
    }
    let recall = effect::Recall { at: session.now(), by: who() };
    session.remember(&LedgerChange::Recall { tide: name.clone(), recall })?;
    print(&format!("{name} turns now: what is lent is asked back."));
    talk(&format!("to see to it: {}", crate::render::plan::command("apply", &session.directory)));
    Ok(DONE)
}

/// More than a year of a chart helps nobody.
const LONGEST: Duration = Duration::days(366);

fn length(text: &str) -> Result<Duration, Malformed> {
    let expected = |Malformed(expected)| Malformed(format!("expected {expected}"));
    let length: Duration = text.parse().map_err(expected)?;
    if length > LONGEST { Err(Malformed(format!("at most {LONGEST}, such as 30d"))) } else { Ok(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_limit() {
        assert_eq!(length("366d"), Ok(LONGEST));
        assert!(length("367d").is_err_and(|Malformed(why)| why.contains("at most 366d")));
        assert!(length("7").is_err_and(|Malformed(why)| why.contains("7d")));
    }
}
