//! `tidewright status`: is the fleet as git says, and if not, what is it waiting for.

use super::session::{Access, Session};
use super::{BLOCKED, CHANGES, Common, DONE, Directory, Output, colour, print};
use crate::plan::plan;
use crate::render::status;
use crate::round::Options;
use crate::status::{Status, Verdict};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright status                            the fleet in this directory
  tidewright status clusters/demo              another one
  tidewright status --output json              for programs (schemas/output/status.schema.json)
  tidewright status --output markdown          for a comment on a pull request, or in a channel

Exit codes: 0 converged, 1 error, 2 changing, 3 blocked or frozen.")]
pub struct Arguments {
    #[command(flatten)]
    directory: Directory,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("status", &[Output::Human, Output::Json, Output::Markdown]) {
        return code;
    }
    let opened = Session::open(&arguments.directory.directory, Access::Look);
    match opened.and_then(|session| of(&session).map(|status| (session, status))) {
        Ok((session, status)) => {
            tell(&status, &session.directory, common.output);
            exit_code(&status)
        }
        Err(code) => code,
    }
}

/// The status of this moment.
pub fn of(session: &Session) -> Result<Status, u8> {
    let input = session.input(&Options::default())?;
    Ok(Status::of(&input, &plan(&input)))
}

pub fn tell(found: &Status, directory: &str, output: Output) {
    print(&match output {
        Output::Json => status::json(found, directory),
        Output::Markdown => status::markdown(found, directory),
        _ => status::human(found, directory, colour()),
    });
}

fn exit_code(status: &Status) -> u8 {
    match status.verdict {
        Verdict::Converged => DONE,
        Verdict::Changing => CHANGES,
        Verdict::Blocked | Verdict::Frozen => BLOCKED,
    }
}
