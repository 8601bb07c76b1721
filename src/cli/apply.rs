//! `tidewright apply`: carry a plan out, as far as it holds and was approved.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bars::Bars;
use super::session::{Access, Session, block_on, judged, who};
use super::{BLOCKED, CHANGES, Common, DONE, Output, fail, is_ci, print, status, stop, talk};
use jiff::Timestamp;

use crate::apply::{self, Opening, Patience, Report, StopSignal};
use crate::audit::Audited;
use crate::effect::{Amount, Effects, Thing, Verb};
use crate::ids::{Digest, FleetName, StepId};
use crate::plan::{self as planning, Plan, PlanInput, WaitingOn};
use crate::render::plan::{self, Look, Saved, Shown};
use crate::render::status::sentence;
use crate::round::Options;
use crate::units::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright apply                             plan, ask, and carry it out
  tidewright apply clusters/demo --yes         the same without asking
  tidewright apply . plan.json                 what was saved, and nothing beyond it
  tidewright apply --target pool/train         only what concerns this pool
  tidewright apply --approved plan.json        no more than what was approved with that file
  tidewright apply --until-converged --yes     again and again, until nothing is left or all is held

Ctrl-C once finishes the steps in flight, twice stops now; the next run understands both.
Exit codes: 0 done, 1 error, 2 changes are left, 3 what is left is held.")]
pub struct Arguments {
    /// The fleet's directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// A plan that `plan --out` saved: done only if its effects still hold
    #[arg(value_name = "PLANFILE")]
    saved: Option<PathBuf>,
    /// Only this part: pool/NAME, reservation/NAME, quota/NAME or tide/NAME; may be repeated
    #[arg(long, value_name = "PART", value_parser = super::plan::part, conflicts_with = "saved")]
    target: Vec<Thing>,
    /// What was approved: a saved plan, or the digest of a plan
    #[arg(long, value_name = "FILE|DIGEST", conflicts_with = "saved")]
    approved: Option<String>,
    /// Also empty nodes with work and give them to other pools, where that buys shorter ways or large free slots on the
    /// fabric; inside a pool work stays where it is
    #[arg(long, conflicts_with = "saved")]
    defragment: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Plan and apply again until nothing is left, or all that is left is held
    #[arg(long)]
    until_converged: bool,
}

/// How long one step may wait before the next plan takes it up.
const PER_WAIT: Duration = Duration::minutes(30);
/// How often what is waited for is looked at.
pub const POLL: Duration = Duration::secs(5);
/// How many effects are in flight at once: well below EC2's limit for launches.
const CONCURRENCY: usize = 8;
/// After so many rounds in which nothing succeeded, another one helps nobody.
pub const IDLE_ROUNDS: u32 = 3;

const STOPPED: &str = "Stopped. The next run goes on from here.";

/// What somebody said yes to.
pub struct Approval {
    /// The plan that it was given for.
    pub plan: Digest,
    effects: Effects,
}

/// How somebody says yes: beforehand, or when asked.
pub struct Word<'a> {
    pub yes: bool,
    /// A saved plan, or the digest of a plan.
    pub approved: Option<&'a str>,
    /// The command that is approved.
    pub command: String,
    /// The command that saves a plan of the same, where there is one.
    pub save: Option<String>,
}

/// How it ended.
enum End {
    /// No step is left; some may be held.
    Settled(Box<Plan>),
    /// One round was asked for, and done.
    Once(Report),
    Stopped,
    /// Rounds went by in which nothing could be done.
    Stuck(Report),
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("apply", &[Output::Human, Output::Json]) {
        return code;
    }
    go(arguments, common).unwrap_or_else(|code| code)
}

fn go(arguments: &Arguments, common: &Common) -> Result<u8, u8> {
    // `apply plan.json` means the plan of this directory.
    let named_a_file = arguments.saved.is_none() && arguments.directory.is_file();
    let (directory, file) = match named_a_file {
        true => (Path::new("."), Some(arguments.directory.as_path())),
        false => (arguments.directory.as_path(), arguments.saved.as_deref()),
    };
    let saved = file.map(load).transpose()?;
    let session = Session::open(directory, Access::Change)?;
    if let Some(saved) = &saved {
        same_fleet(saved, &session.fleet.name.value)?;
    }
    for thing in &arguments.target {
        super::plan::known(&session.fleet, thing).map_err(|why| fail(&why))?;
    }
    let only = saved.as_ref().map_or(&arguments.target, |saved| &saved.only);
    let defragment = saved.as_ref().map_or(arguments.defragment, |saved| saved.defragment);
    let options = Options { only: only.clone(), defragment, ..Options::default() };
    let input = session.input(&options)?;
    let (made, _) = judged(&input)?;
    if let Some(saved) = &saved {
        still_holds(saved, &made, &session)?;
    }
    let waits_for_a_word = made.held.iter().any(|held| matches!(held.waiting_on, WaitingOn::Approval { .. }));
    let is_word = arguments.approved.is_some() || saved.is_some();
    if made.steps.is_empty() && !(waits_for_a_word && is_word) {
        // A word that is none is a mistake, also where it is not needed.
        arguments.approved.as_ref().map(|named| approved(named, &input, &made)).transpose()?;
        return Ok(settled(&made, &session, common));
    }
    let (command, save) = (plan::command("apply", &session.directory), plan::command("plan", &session.directory));
    let word = Word { yes: arguments.yes, approved: arguments.approved.as_deref(), command, save: Some(save) };
    let approval = match saved {
        Some(saved) => {
            let approval = saved.into();
            has_something_left(&approval, &input, &made, &word)?;
            Some(approval)
        }
        None => {
            let shown = Shown { input: &input, plan: &made, directory: &session.directory, is_now: true };
            let page = || plan::human(&shown, &Look { colour: true, verbose: false });
            consent(&word, common, &input, &made, &page)?
        }
    };
    if let Some(approval) = &approval {
        open(&session, approval, &input)?;
    }
    let stop = stop::listen();
    let end = rounds(&session, &options, approval.as_ref(), arguments.until_converged, &stop)?;
    if stop.is_urgent() {
        // Nothing more is read either.
        talk(STOPPED);
        return Ok(CHANGES);
    }
    told(&end, &session, &options, common)
}

fn load(path: &Path) -> Result<Saved, u8> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| fail(&format!("cannot read `{shown}`: {error}")))?;
    plan::load_saved(&text).map_err(|why| fail(&format!("cannot apply `{shown}`: {why}")))
}

/// Effects name pools and objects, and other fleets have some of the same names.
fn same_fleet(saved: &Saved, fleet: &FleetName) -> Result<(), u8> {
    if saved.fleet == *fleet {
        return Ok(());
    }
    Err(fail(&format!("this is a plan of fleet {}, and the directory holds fleet {fleet}", saved.fleet)))
}

/// A saved plan is carried out only if what would be done now is no more than what it says.
fn still_holds(saved: &Saved, made: &Plan, session: &Session) -> Result<(), u8> {
    // A node that is let go for another comes back as a claim in the next plan.
    let mut bounds = saved.effects.clone();
    for (key, amount) in saved.effects.0.iter().filter(|(key, _)| key.verb == Verb::Release) {
        bounds.add(&Effects::one(Verb::Claim, key.on.clone(), Amount::count(amount.count)));
    }
    let Err(beyond) = made.effects.within(&bounds) else { return Ok(()) };
    let lines = plan::excesses(&beyond);
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    Err(fail(&format!(
        "the saved plan does not hold any more, so nothing was done. What would be done now goes beyond it:{lines}\n\
         look at the new plan: {}",
        plan::command("plan", &session.directory)
    )))
}

/// What may be done beyond what the merge itself allows. A plan that disturbs nobody needs no word.
pub fn consent(
    word: &Word<'_>,
    common: &Common,
    input: &PlanInput,
    made: &Plan,
    page: &dyn Fn() -> String,
) -> Result<Option<Approval>, u8> {
    if let Some(named) = word.approved {
        let approval = approved(named, input, made)?;
        has_something_left(&approval, input, made, word)?;
        return Ok(Some(approval));
    }
    // A yes is a yes to what is about to be done; more removal than the fleet's limit is approved by name.
    let this = || Approval { plan: made.id.as_str().into(), effects: made.effects_but_for_approval() };
    let asks = made.steps.iter().any(|step| step.consent == planning::Consent::Asked) && !made.effects.is_empty();
    if !asks {
        return Ok(None);
    }
    if word.yes {
        return Ok(Some(this()));
    }
    if common.may_ask() {
        talk(page().trim_end());
        return if ask("\nDo this? [y/N] ") { Ok(Some(this())) } else { Err(declined()) };
    }
    let command = &word.command;
    Err(fail(&format!(
        "this plan needs an approval, and nobody can be asked here\n\
         to approve exactly this plan:  {command} --approved {}\n\
         to approve whatever it says:   {command} --yes",
        made.digest
    )))
}

fn declined() -> u8 {
    talk("Nothing was done.");
    CHANGES
}

/// An approval from a file, or by a digest that the ledger knows or that is this plan's.
fn approved(named: &str, input: &PlanInput, made: &Plan) -> Result<Approval, u8> {
    let path = Path::new(named);
    if path.is_file() {
        let saved = load(path)?;
        same_fleet(&saved, &input.target.standing.fleet)?;
        return Ok(saved.into());
    }
    let digest = named.strip_prefix("sha256:").unwrap_or(named);
    let is_digest = digest.len() >= 8 && digest.chars().all(|c| c.is_ascii_hexdigit());
    if !is_digest {
        return Err(fail(&format!("`{named}` is neither a file nor a digest: write one of the two")));
    }
    let known = input.ledger.head.approvals.iter();
    let known = known.filter(|(_, opened)| opened.effects.as_str().starts_with(digest));
    // One that has something left goes on, and of those the newest.
    match known.max_by_key(|(plan, opened)| (!apply::is_used_up(&input.ledger.head, plan), opened.at)) {
        Some((plan, opened)) => Ok(Approval { plan: plan.clone(), effects: opened.left.clone() }),
        None if made.digest.as_str().starts_with(digest) => {
            Ok(Approval { plan: made.id.as_str().into(), effects: made.effects.clone() })
        }
        None => Err(fail(&format!(
            "`{named}` is not the digest of what would be done now, which is {}, and no approval that was given before",
            made.digest
        ))),
    }
}

/// A word is used once: what it was given for is done, and the same on another day takes another word.
fn has_something_left(approval: &Approval, input: &PlanInput, made: &Plan, word: &Word<'_>) -> Result<(), u8> {
    let head = &input.ledger.head;
    let opened = head.approvals.get(&approval.plan).filter(|_| apply::is_used_up(head, &approval.plan));
    let waits = |held: &planning::Held| matches!(held.waiting_on, WaitingOn::Approval { .. });
    let asks = made.steps.iter().any(|step| planning::asks(input, step)) || made.held.iter().any(waits);
    let Some(opened) = opened.filter(|_| asks) else { return Ok(()) };
    let command = &word.command;
    let anew = word.save.as_ref().map_or(String::new(), |save| {
        format!("\nto look at it and approve exactly that:  {save} --out FILE, and {command} FILE")
    });
    Err(fail(&format!(
        "this approval is used up: {}, and what it was for is done. The same once more takes another word.\n\
         to approve whatever the plan says now:   {command} --yes{anew}",
        plan::given(input, opened)
    )))
}

/// Writes the approval down, so that every step can spend its part of it.
pub fn open(session: &Session, approval: &Approval, input: &PlanInput) -> Result<(), u8> {
    let by = who();
    let templates = planning::templates(input, &approval.effects);
    match block_on(apply::open_approval(session.world(), &approval.plan, &approval.effects, templates, &by)) {
        Ok(Opening::Opened) => Ok(()),
        Ok(Opening::Known { left }) => {
            if left != approval.effects {
                talk("This was approved before, and a part of it was done: only the rest is done now.");
            }
            Ok(())
        }
        Err(error) => Err(fail(&error.to_string())),
    }
}

/// Plans and walks, once or until nothing is left.
fn rounds(
    session: &Session,
    options: &Options,
    approval: Option<&Approval>,
    until_converged: bool,
    stop: &Arc<StopSignal>,
) -> Result<End, u8> {
    let mut idle = 0;
    let mut before: Vec<StepId> = Vec::new();
    loop {
        let Some(input) = session.input_unless(options, stop)? else { return Ok(End::Stopped) };
        let (made, audited) = judged(&input)?;
        if made.steps.is_empty() {
            match soon(&made, input.now).filter(|_| until_converged && !stop.is_asked()) {
                // A reservation that is not listed yet, an instance that is believed lost in five minutes.
                Some(at) => {
                    block_on(stop.sleep(session.world().clock, at));
                    if stop.is_asked() {
                        return Ok(End::Stopped);
                    }
                    continue;
                }
                None => return Ok(End::Settled(Box::new(made))),
            }
        }
        let report = walk(session, &input, &made, &audited, approval, stop)?;
        if report.stopped || stop.is_asked() {
            return Ok(End::Stopped);
        }
        if !until_converged {
            return Ok(End::Once(report));
        }
        // The same steps again, although they were done: whatever undoes them will do so once more.
        let steps: Vec<StepId> = made.steps.iter().map(|step| step.id.clone()).collect();
        idle = if report.tally.succeeded == 0 || steps == before { idle + 1 } else { 0 };
        before = steps;
        if idle >= IDLE_ROUNDS {
            return Ok(End::Stuck(report));
        }
    }
}

/// Carries one plan out, and tells what happens.
pub fn walk(
    session: &Session,
    input: &PlanInput,
    made: &Plan,
    audited: &Audited,
    approval: Option<&Approval>,
    stop: &Arc<StopSignal>,
) -> Result<Report, u8> {
    let patience =
        Patience { per_wait: PER_WAIT, total: None, poll: POLL, concurrency: CONCURRENCY, stop: stop.as_ref() };
    let mut bars = Bars::new(made, session.fleet.time_zone.zone(), stop);
    let digest = approval.map(|approval| &approval.plan);
    let mut tell = |event| bars.tell(&event);
    let walked = block_on(apply::apply(audited, input, digest, session.world(), &patience, &mut tell));
    bars.finish();
    session.save()?;
    walked.map_err(|error| fail(&error.to_string()))
}

/// When something that is held can go on, if that is worth waiting for.
fn soon(made: &Plan, now: Timestamp) -> Option<Timestamp> {
    let until = |held: &planning::Held| match held.waiting_on {
        WaitingOn::Until { at, .. } | WaitingOn::Capacity { retry: Some(at), .. } => Some(at),
        _ => None,
    };
    let next = made.held.iter().filter_map(until).filter(|at| *at > now).min()?;
    (next.duration_since(now) <= PER_WAIT.signed()).then_some(next)
}

impl From<Saved> for Approval {
    fn from(saved: Saved) -> Self {
        Self { plan: saved.plan.id.as_str().into(), effects: saved.effects }
    }
}

/// Says how it ended, and what the fleet is now.
fn told(end: &End, session: &Session, options: &Options, common: &Common) -> Result<u8, u8> {
    Ok(match end {
        End::Settled(made) => settled(made, session, common),
        End::Stopped => {
            talk(STOPPED);
            left(session, common, CHANGES)
        }
        End::Once(report) => {
            talk(&format!("{}.", plan::tally(&report.tally)));
            let code = match report.failed.is_empty() {
                // What this round brought about may have more to be done, as a launch has a node to be dressed.
                true => super::plan::exit_code(&judged(&session.input(options)?)?.0),
                false => super::ERROR,
            };
            left(session, common, code)
        }
        End::Stuck(report) => {
            talk(&format!("Nothing could be done in {IDLE_ROUNDS} rounds: {}.", plan::tally(&report.tally)));
            left(session, common, BLOCKED)
        }
    })
}

/// Nothing more can be done now.
fn settled(made: &Plan, session: &Session, common: &Common) -> u8 {
    let code = if made.held.is_empty() { DONE } else { BLOCKED };
    if code == DONE {
        talk("No changes.");
    } else {
        talk("No changes: what is left is held.");
    }
    left(session, common, code)
}

/// The fleet as it is afterwards: the document.
fn left(session: &Session, common: &Common, code: u8) -> u8 {
    match status::of(session) {
        Ok(found) if common.output == Output::Json => {
            status::tell(&found, &session.directory, Output::Json);
            code
        }
        Ok(found) => {
            print(&format!("Fleet {} is {}.", found.fleet, sentence(&found, &session.directory)));
            if !found.held.is_empty() {
                talk(&format!("what it waits for: {}", plan::command("status", &session.directory)));
            }
            code
        }
        Err(code) => code,
    }
}

fn ask(question: &str) -> bool {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{question}");
    let _ = err.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

impl Common {
    /// Whether a person sits here and may be asked.
    fn may_ask(&self) -> bool {
        !self.no_input && !is_ci() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }
}
