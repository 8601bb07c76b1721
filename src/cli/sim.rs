//! `tidewright sim`: the simulated world, looked at and moved by hand.

mod diary;
mod serve;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Subcommand;
use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use super::session::{Access, Session, state_file};
use super::when::{Resolved, When};
use super::{Common, DONE, Output, fail, print, talk};
use crate::effect::Thing;
use crate::load;
use crate::provider::sim::Sim;
use crate::provider::sim::cluster::GangSpec;
use crate::render::plan::count;
use crate::scenario;
use crate::units::{Duration, Malformed, ZoneName};

#[derive(Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "\
Examples:
  tidewright sim show                          what exists, and what time it is there
  tidewright sim advance 6h                    let time pass
  tidewright sim advance 07:00 --operate       until then, with an operator that looks every 5 minutes
  tidewright sim submit vision 64              a gang of team vision arrives: 64 GPUs
  tidewright sim run night.tw                  run a whole script in a world of its own
  tidewright sim serve --ec2 127.0.0.1:8520    speak EC2 with whoever asks: boto3, the aws command, a fleet
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
    #[command(after_help = "\
Examples:
  tidewright sim show                          nodes, reservations, work, and what time it is there
  tidewright sim show --dir clusters/demo      of another fleet")]
    Show,
    /// Let time pass
    #[command(after_help = "\
Examples:
  tidewright sim advance 6h                    six hours
  tidewright sim advance 07:00                 until it is next 07:00 in the fleet's zone
  tidewright sim advance 07:00 --operate       the same, with an operator that looks every 5 minutes")]
    Advance {
        /// How long, 90s, 45m, 6h, 2d; or until it is next so late in the fleet's zone, 07:00
        #[arg(value_name = "LENGTH|TIME")]
        by: Span,
        /// Plan and apply on the way, as an operator in the cluster does: what needs nobody's approval
        #[arg(long)]
        operate: bool,
    },
    /// Let a gang arrive, which runs until its work is done
    #[command(after_help = "\
Examples:
  tidewright sim submit vision 64              a gang of team vision: 64 GPUs, until somebody ends it
  tidewright sim submit vision 64 --for 6h     one that works for six hours
  tidewright sim submit batch 4 --name embed   one with a name, on a part of a node")]
    Submit {
        /// The quota whose work it is
        #[arg(value_name = "QUOTA")]
        quota: String,
        /// How many GPUs: of one node, or whole nodes
        #[arg(value_name = "GPUS", value_parser = clap::value_parser!(u32).range(1..))]
        gpus: u32,
        /// How long it works: 6h, 2d; without it until somebody ends it
        #[arg(long = "for", value_name = "LENGTH", value_parser = length)]
        length: Option<Duration>,
        /// What it is called
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Run a script in a world of its own
    #[command(after_help = language())]
    Run {
        /// The script
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Speak EC2 for the simulated cloud, over HTTP
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Arguments),
    /// Put the world aside, and begin anew
    #[command(after_help = "\
Examples:
  tidewright sim reset                         the next verb begins a world at this moment
  tidewright sim reset --at 2026-11-16T14:00   a world that begins at that time of the fleet's zone")]
    Reset {
        /// When it begins: a time in the fleet's zone, or an instant with its offset; without it now
        #[arg(long, value_name = "TIME")]
        at: Option<When>,
    },
}

/// Every command of a script, as it is written.
fn language() -> String {
    let usages = scenario::COMMANDS.iter().map(|(_, usage)| format!("\n  {usage}"));
    format!(
        "Commands of a script, one a line (CONTRIBUTING.md says what each does):{}\n\n\
         A line that begins with # is a note, one that begins with | what the command before it must print.\n\
         SLOT is a pool's place such as train/3, or the name of a node.",
        usages.collect::<String>()
    )
}

/// How far time goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Span {
    By(Duration),
    To(Time),
}

impl FromStr for Span {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        match text.contains(':').then(|| Time::strptime("%H:%M", text)) {
            None => length(text)
                .map(Self::By)
                .map_err(|Malformed(why)| Malformed(format!("{why}, or a time such as 07:00"))),
            Some(Ok(time)) => Ok(Self::To(time)),
            Some(Err(_)) => Err(Malformed("expected a time such as 07:00, or a length such as 6h".into())),
        }
    }
}

impl Span {
    /// A time is the next of its name: at 07:00 itself, tomorrow's.
    fn end(self, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, jiff::Error> {
        match self {
            Self::By(by) => now.checked_add(by.signed()),
            Self::To(time) => {
                let today = now.to_zoned(zone.clone()).date();
                let at = |date: Date| Ok::<_, jiff::Error>(date.to_datetime(time).to_zoned(zone.clone())?.timestamp());
                let first = at(today)?;
                if first > now { Ok(first) } else { at(today.tomorrow()?) }
            }
        }
    }
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
        Verb::Show => {
            let session = Session::open(directory, Access::Look)?;
            print(&session.sim()?.summary(&session.fleet.time_zone.zone()));
        }
        Verb::Advance { by, operate } => {
            let session = Session::open(directory, Access::Change)?;
            let zone = session.fleet.time_zone.zone();
            let until = by.end(session.sim()?.now(), &zone).map_err(|error| fail(&error.to_string()))?;
            if *operate {
                diary::keep(&session, until)?;
            } else {
                session.sim()?.advance_to(until);
            }
            session.save()?;
            print(&format!(
                "It is {} there.",
                session.sim()?.now().to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %:z")
            ));
        }
        Verb::Submit { quota, gpus, length, name } => {
            let session = Session::open(directory, Access::Change)?;
            let mut spec = gang(&session, quota, *gpus, name.as_deref())?;
            spec.work_secs = length.map(|length| u32::try_from(length.as_secs()).unwrap_or(u32::MAX));
            let said = format!("{} arrives: {}, {}.", spec.name, count(spec.pods, "pod"), count(*gpus, "GPU"));
            let arrived = session.sim()?.in_cluster(|cluster, now| cluster.submit_gang(now, spec));
            arrived.map_err(|error| fail(&format!("the cluster refuses it: {error}")))?;
            session.save()?;
            print(&said);
        }
        Verb::Run { file } => return script(file),
        Verb::Serve(arguments) => return serve::run(arguments, directory),
        Verb::Reset { at } => match begin_anew(directory, *at)? {
            Some(aside) => {
                print("The world begins anew.");
                talk(&format!("the old one is in {}", aside.display()));
            }
            None if at.is_some() => print("The world begins."),
            None => print("There was no world yet."),
        },
    }
    Ok(DONE)
}

/// Puts the world aside, where there is one; with a time, the next one is there at once. Says where the old one went.
fn begin_anew(directory: &Path, at: Option<When>) -> Result<Option<PathBuf>, u8> {
    if !directory.is_dir() {
        return Err(fail(&format!("{} is no directory, so it has no world", directory.display())));
    }
    let state = state_file(directory);
    let aside = Sim::reset(&state).map_err(|error| fail(&error.to_string()))?;
    if let Some(at) = at {
        let zone = load::load(directory).time_zone().cloned().unwrap_or_else(ZoneName::utc);
        let Resolved { at, note } = at.resolve(&zone).map_err(|message| fail(&message))?;
        note.iter().for_each(|note| talk(note));
        let session = Session::begin(directory, at)?;
        session.save()?;
    }
    Ok(aside)
}

/// A gang on whole nodes of the quota's first pool, in the quota's first queue.
fn gang(session: &Session, quota: &str, gpus: u32, name: Option<&str>) -> Result<GangSpec, u8> {
    let thing = Thing::Quota(quota.into());
    super::plan::known(&session.fleet, &thing).map_err(|why| fail(&why))?;
    let standing = session.fleet.standing();
    let spec = &standing.quotas[quota];
    let Some((namespace, queue)) = spec.namespaces.first() else {
        return Err(fail(&format!("quota {quota} has no namespace that work could be in")));
    };
    let pool = spec.pools.first().and_then(|pool| standing.pools.get(pool));
    let per_node = pool.map_or(8, |pool| pool.shape.gpus).max(1);
    if gpus > per_node && !gpus.is_multiple_of(per_node) {
        return Err(fail(&format!("{gpus} GPUs are no whole nodes: a node has {per_node}")));
    }
    let sim = session.sim()?;
    let numbered = || {
        let there = sim.state().cluster.observe(sim.now());
        format!("gang-{}", there.workloads.seen().len() + 1)
    };
    let name = name.map_or_else(numbered, String::from);
    if !is_object_name(&name) {
        let rule = "lower-case letters, digits and `-`, a letter or digit at both ends, at most 63";
        return Err(fail(&format!("`{name}` is no name of a workload: write {rule}")));
    }
    let mut gang = GangSpec::new(namespace, &name, queue, gpus.div_ceil(per_node), gpus.min(per_node));
    gang.tier = spec.tiers.first().cloned();
    Ok(gang)
}

/// Whether the API server takes it as a name, and its pods' names can be made of it.
fn is_object_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let ends = name.starts_with(plain) && name.ends_with(plain);
    ends && name.len() <= 63 && name.chars().all(|c| plain(c) || c == '-')
}

/// A whole script, in a world of its own. It prints itself, with what each command answered.
fn script(file: &Path) -> Result<u8, u8> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| fail(&format!("cannot read `{shown}`: {error}")))?;
    let base = file.parent().unwrap_or(Path::new("."));
    match scenario::run(&text, base) {
        Ok(transcript) => {
            print(&transcript.text);
            let differences: Vec<String> = transcript.differences.iter().map(ToString::to_string).collect();
            // A script that holds no output at all was written to see some.
            let expects = text.lines().any(|line| line.starts_with('|'));
            if differences.is_empty() || !expects {
                return Ok(DONE);
            }
            Err(fail(&format!("`{shown}` holds something else than was printed\n{}", differences.join("\n"))))
        }
        Err(error) => {
            print(&error.so_far);
            Err(fail(&format!("`{shown}` ends early\n{error}")))
        }
    }
}
