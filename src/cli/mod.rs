//! The command line: one file per verb. Arguments in, an exit code out; stdout is the document, stderr the talk.

mod apply;
mod bars;
mod drain;
mod freeze;
mod hardware;
mod init;
mod lost;
mod pack;
mod place;
mod plan;
mod quarantine;
mod replay;
mod schema;
mod session;
mod shell;
mod sim;
mod status;
mod stop;
mod tide;
mod validate;
mod when;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// Nothing to do, or done.
const DONE: u8 = 0;
/// Something is wrong: the input, the arguments, or the outside.
const ERROR: u8 = 1;
/// Something can be done.
const CHANGES: u8 = 2;
/// Something is wanted, and all of it is held.
const BLOCKED: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  tidewright init my-fleet                     write a small fleet to start from
  tidewright plan my-fleet                     what would be done, and who would be disturbed
  tidewright apply my-fleet                    ask, and do it

Exit codes: 0 done, 1 error, 2 changes pending, 3 changes pending but blocked.";

/// Keeps a GPU fleet the way its git repository says it should be.
#[derive(Debug, Parser)]
#[command(name = "tidewright", version, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, infer_subcommands = false)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: Common,
}

/// What every verb understands.
#[derive(Debug, clap::Args)]
struct Common {
    /// As human, json, markdown, svg, html, github, sarif: what a verb has
    #[arg(long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(value_enum, default_value_t = Output::Human, hide_default_value = true)]
    output: Output,
    /// Colours: auto, always or never (NO_COLOR is respected)
    #[arg(long, global = true, value_name = "WHEN", hide_possible_values = true)]
    #[arg(value_enum, default_value_t = Colour::Auto)]
    color: Colour,
    /// Never ask: fail where a person would have to answer
    #[arg(long, global = true)]
    no_input: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    Human,
    Json,
    Markdown,
    Github,
    Sarif,
    Svg,
    Html,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what would be done now, who would be disturbed, and what it would cost
    Plan(plan::Arguments),
    /// Carry a plan out, as far as it holds and was approved
    Apply(apply::Arguments),
    /// Tell whether the fleet is as git says, and what it waits for
    Status(status::Arguments),
    /// Check a fleet's directory: every mistake, with its place and what to write instead
    Validate(validate::Arguments),
    /// Show what the fleet should be over the coming days, or turn a tide now
    Tide(tide::Arguments),
    /// Stop everything, a pool or a node
    Freeze(freeze::Arguments),
    /// Let what was frozen go on
    Thaw(freeze::ThawArguments),
    /// Take a node out of service
    Quarantine(quarantine::Arguments),
    /// Bring a node back into service
    Return(quarantine::ReturnArguments),
    /// Empty a node, and keep it closed
    Drain(drain::Arguments),
    /// Open a node that was drained
    Undrain(drain::UndrainArguments),
    /// Say that what is no longer listed is really gone
    Lost(lost::Arguments),
    /// Look at the simulated world, and move it
    Sim(sim::Arguments),
    /// Make the plan of a saved input again
    Replay(replay::Arguments),
    /// Show where pools stand on the fabric and why, or where a gang would go
    Place(place::Arguments),
    /// Find the cuts of a pool's GPUs that serve a demand of MIG slices
    Pack(pack::Arguments),
    /// Show what is known about instance types and GPUs
    Hardware(hardware::Arguments),
    /// Write a small, commented fleet to start from
    Init(init::Arguments),
    /// Write the JSON Schemas and CRDs of the language
    Schema(schema::Arguments),
    /// Write completions for a shell
    Completions(shell::Arguments),
    /// Write manual pages
    Man(shell::ManArguments),
}

/// The directory of a fleet.
#[derive(Debug, clap::Args)]
struct Directory {
    /// The fleet's directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// Runs the program with the arguments of the process.
pub fn run() -> ExitCode {
    let arguments = match parsed(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap's own code for a wrong argument is 2, which here means that changes are pending.
            let code = if error.use_stderr() { ERROR } else { DONE };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let Arguments { verb, common } = arguments;
    common.set_colour();
    let code = match verb {
        Verb::Plan(arguments) => plan::run(&arguments, &common),
        Verb::Apply(arguments) => apply::run(&arguments, &common),
        Verb::Status(arguments) => status::run(&arguments, &common),
        Verb::Freeze(arguments) => freeze::run(&arguments, &common),
        Verb::Thaw(arguments) => freeze::thaw(&arguments, &common),
        Verb::Lost(arguments) => lost::run(&arguments, &common),
        Verb::Quarantine(arguments) => quarantine::run(&arguments, &common),
        Verb::Return(arguments) => quarantine::bring_back(&arguments, &common),
        Verb::Drain(arguments) => drain::run(&arguments, &common),
        Verb::Undrain(arguments) => drain::undrain(&arguments, &common),
        Verb::Sim(arguments) => sim::run(&arguments, &common),
        Verb::Replay(arguments) => replay::run(&arguments, &common),
        Verb::Completions(arguments) => shell::completions(&arguments, &common),
        Verb::Man(arguments) => shell::man(&arguments, &common),
        Verb::Validate(arguments) => validate::run(&arguments, &common),
        Verb::Tide(arguments) => tide::run(&arguments, &common),
        Verb::Place(arguments) => place::run(&arguments, &common),
        Verb::Pack(arguments) => pack::run(&arguments, &common),
        Verb::Hardware(arguments) => hardware::run(&arguments, &common),
        Verb::Init(arguments) => init::run(&arguments, &common),
        Verb::Schema(arguments) => schema::run(&arguments, &common),
    };
    ExitCode::from(if UNWRITTEN.load(Ordering::Relaxed) { ERROR } else { code })
}

/// The arguments. Help and mistakes are told before any argument is understood, and keep to `--color` too.
fn parsed(arguments: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let is_said = |choice: &str| {
        words.windows(2).any(|pair| pair == ["--color", choice])
            || words.iter().any(|word| word.strip_prefix("--color=") == Some(choice))
    };
    let choice = match (is_said("never"), is_said("always")) {
        (true, _) => clap::ColorChoice::Never,
        (_, true) => clap::ColorChoice::Always,
        _ => clap::ColorChoice::Auto,
    };
    let matches = Arguments::command().color(choice).try_get_matches_from(arguments)?;
    Arguments::from_arg_matches(&matches)
}

impl Common {
    fn set_colour(&self) {
        match self.color {
            Colour::Auto => anstream::ColorChoice::Auto.write_global(),
            Colour::Always => anstream::ColorChoice::Always.write_global(),
            Colour::Never => anstream::ColorChoice::Never.write_global(),
        }
    }

    /// Refuses a format that a verb does not have.
    fn one_of(&self, verb: &str, known: &[Output]) -> Result<(), u8> {
        if known.contains(&self.output) {
            return Ok(());
        }
        let name =
            |output: &Output| output.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
        let known: Vec<String> = known.iter().map(name).collect();
        Err(fail(&format!("`{verb}` has no output `{}`: write one of {}", name(&self.output), known.join(", "))))
    }
}

/// Whether a result was lost on its way out. The exit code says it, whichever verb it was.
static UNWRITTEN: AtomicBool = AtomicBool::new(false);

/// Prints a result. A reader that went away is no error; a disk that is full is one.
fn print(text: &str) {
    let end = if !text.is_empty() && !text.ends_with('\n') { "\n" } else { "" };
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end.as_bytes()));
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !UNWRITTEN.swap(true, Ordering::Relaxed) => {
            talk(&format!("error: the result cannot be written: {error}"));
        }
        _ => {}
    }
}

/// Whether a machine runs us, and nobody looks on: nothing is asked, and nothing is drawn over.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false" && value != "0")
}

/// Says something to the person, beside the result.
fn talk(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

fn fail(message: &str) -> u8 {
    talk(&format!("error: {message}"));
    ERROR
}

/// Whether colours are wanted where the result goes: by the command line, then by NO_COLOR and CLICOLOR_FORCE, then
/// because it is a terminal.
fn colour() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("our own types always serialise")
}
