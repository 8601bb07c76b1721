//! `tidewright drain` and `undrain`: a node empty and closed for a person, and open again.
//!
//! The order is a record in the ledger, as a quarantine is, and the plan turns it into the steps that every drain has.
//! Here only that node's steps are carried out, at once; whoever applies later goes on where this ended.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use super::apply::{self, Approval, IDLE_ROUNDS, POLL, Word};
use super::freeze::{is_node, node};
use super::quarantine::was_kept;
use super::session::{Access, Session, block_on, judged, who};
use super::{BLOCKED, CHANGES, Common, DONE, ERROR, Output, fail, print, stop, talk};
use crate::apply::StopSignal;
use crate::effect::{Action, ClusterAction, DrainOrder, LedgerChange};
use crate::ids::NodeName;
use crate::plan::anew::unanswered;
use crate::plan::survey::{slot_of, survey};
use crate::plan::{Plan, PlanInput, Reason, WaitingOn};
use crate::render::plan::{self, Shown, command, dir_flag};
use crate::round::Options;
use crate::units::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright drain ip-10-0-0-7 --dry-run       every pod, gang and budget in the way
  tidewright drain ip-10-0-0-7 --reason 'new fan'
  tidewright undrain ip-10-0-0-7               open it again

Gangs go whole, through their queue where they have one. The node is kept closed until `undrain`, and is never removed.
Exit codes: 0 empty, 1 error, 2 not finished, 3 something is in the way.")]
pub struct Arguments {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// Show what would happen, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Why: shown in every plan and status
    #[arg(long, value_name = "WORDS")]
    reason: Option<String>,
    /// Also pods that have no controller: nobody makes them again
    #[arg(long)]
    force: bool,
    /// Also pods with an emptyDir: its data goes with them
    #[arg(long)]
    delete_emptydir_data: bool,
    /// How long to wait for disruption budgets and promised run times
    #[arg(long, value_name = "LENGTH", default_value = "10m")]
    wait: Duration,
    /// What was approved: a saved plan, or the digest of a plan
    #[arg(long, value_name = "FILE|DIGEST")]
    approved: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright undrain ip-10-0-0-7               it may serve again, and is opened to new pods")]
pub struct UndrainArguments {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// How a drain ended.
enum End {
    Empty,
    Stopped,
    /// Something is in the way.
    Held(Box<(PlanInput, Plan)>),
    Failed,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    // What is carried out is told; only what would be is a document.
    let (named, formats): (&str, &[Output]) = match arguments.dry_run {
        true => ("drain --dry-run", &[Output::Human, Output::Json]),
        false => ("drain", &[Output::Human]),
    };
    if let Err(code) = common.one_of(named, formats) {
        return code;
    }
    drain(arguments, common).unwrap_or_else(|code| code)
}

fn drain(arguments: &Arguments, common: &Common) -> Result<u8, u8> {
    if arguments.reason.as_ref().is_some_and(|reason| reason.trim().is_empty()) {
        return Err(fail("a drain needs a reason that others understand: --reason 'new fan'"));
    }
    let access = if arguments.dry_run { Access::Look } else { Access::Change };
    let session = Session::open(&arguments.directory, access)?;
    node(&session, &arguments.node)?;
    let name = NodeName::from(arguments.node.as_str());
    let options = Options { only_node: Some(name.clone()), ..Options::default() };
    let mut input = session.input(&options)?;
    // Closed by a ledger that is lost, and in no slot since: there is only the word to give again.
    let is_closed = unanswered(&input).iter().any(|(node, _)| **node == name);
    if is_closed && slot_of(&input, &name).is_none() && !arguments.dry_run {
        let order = order(arguments, None, session.now());
        session.remember(&LedgerChange::Drain { node: name.clone(), order })?;
        print(&format!("{name} stays closed."));
        talk(&format!("to open it: tidewright undrain {name}{}", dir_flag(&session.directory)));
        return Ok(DONE);
    }
    let order = order(arguments, input.ledger.head.drains.get(&name), session.now());
    let change = LedgerChange::Drain { node: name.clone(), order };
    input.ledger.change(&change);
    let (made, _) = judged(&input)?;
    let page = page(&session, &input, &made, &name)?;
    if arguments.dry_run {
        let shown = Shown { input: &input, plan: &made, directory: &session.directory, is_now: true };
        print(&if common.output == Output::Json { plan::json(&shown) } else { page });
        return Ok(super::plan::exit_code(&made));
    }
    let again = format!("tidewright drain {}{}", arguments.node, dir_flag(&session.directory));
    let word = Word { yes: arguments.yes, approved: arguments.approved.as_deref(), command: again, save: None };
    let approval = apply::consent(&word, common, &input, &made, &|| page.clone())?;
    session.remember(&change)?;
    if let Some(approval) = &approval {
        apply::open(&session, approval, &input)?;
    }
    let until = session.now().checked_add(arguments.wait.signed()).unwrap_or(Timestamp::MAX);
    let end = rounds(&session, &options, approval.as_ref(), until, &stop::listen())?;
    told(&end, &session, &name)
}

/// What is wanted; asked for once more, it is the same drain, which may now take more along.
fn order(arguments: &Arguments, known: Option<&DrainOrder>, now: Timestamp) -> DrainOrder {
    let reason = arguments.reason.clone().or_else(|| known.map(|known| known.reason.clone()));
    DrainOrder {
        by: known.map_or_else(who, |known| known.by.clone()),
        at: known.map_or(now, |known| known.at),
        reason: reason.unwrap_or_else(|| "by hand".into()),
        unmanaged: arguments.force || known.is_some_and(|known| known.unmanaged),
        local_data: arguments.delete_emptydir_data || known.is_some_and(|known| known.local_data),
    }
}

/// What the drain means, if it is one: a node that goes for another reason is left to `apply`.
fn page(session: &Session, input: &PlanInput, made: &Plan, name: &NodeName) -> Result<String, u8> {
    let Some(slot) = slot_of(input, name) else {
        return Err(fail(&format!("{name} is in no pool of this fleet, so its pods are not ours to move")));
    };
    let ours = |reason: &Reason| matches!(reason, Reason::Drained { .. } | Reason::LeftOver);
    let other = made.steps.iter().map(|step| &step.reason).chain(made.held.iter().map(|held| &held.reason));
    if let Some(reason) = other.into_iter().find(|reason| !ours(reason)) {
        let why = plan::reason(input, &session.directory, reason);
        let apply = command("apply", &session.directory);
        return Err(fail(&format!("{name} is on its way out already: {why}\nto go on with that: {apply}")));
    }
    let shown = Shown { input, plan: made, directory: &session.directory, is_now: true };
    Ok(plan::drain(&shown, name, &slot, &survey(input, name)))
}

/// Plans and walks until the node is empty, or something stays in the way for longer than the person waits.
fn rounds(
    session: &Session,
    options: &Options,
    approval: Option<&Approval>,
    until: Timestamp,
    stop: &Arc<StopSignal>,
) -> Result<End, u8> {
    let (mut idle, mut said) = (0, None);
    loop {
        let Some(input) = session.input_unless(options, stop)? else { return Ok(End::Stopped) };
        let (made, audited) = judged(&input)?;
        if made.steps.is_empty() && made.held.is_empty() {
            return Ok(End::Empty);
        }
        if made.steps.is_empty() {
            let Some(next) = comes_by_itself(&made, input.now).filter(|at| *at <= until && !stop.is_asked()) else {
                return Ok(End::Held(Box::new((input, made))));
            };
            let shown = Shown { input: &input, plan: &made, directory: &session.directory, is_now: true };
            let waits = plan::waits(&shown);
            if said.as_ref() != Some(&waits) {
                talk(&format!("waits: {waits}"));
                said = Some(waits);
            }
            block_on(stop.sleep(session.world().clock, next));
            if stop.is_asked() {
                return Ok(End::Stopped);
            }
            continue;
        }
        let report = apply::walk(session, &input, &made, &audited, approval, stop)?;
        if report.stopped || stop.is_asked() {
            return Ok(End::Stopped);
        }
        idle = if report.tally.succeeded == 0 { idle + 1 } else { 0 };
        if idle >= IDLE_ROUNDS {
            talk(&format!("{}.", plan::tally(&report.tally)));
            return Ok(End::Failed);
        }
    }
}

/// When to look again, if nobody has to do anything for it to go on.
fn comes_by_itself(made: &Plan, now: Timestamp) -> Option<Timestamp> {
    let soon = now.checked_add(POLL.signed()).unwrap_or(now);
    let each = made.held.iter().map(|held| match &held.waiting_on {
        WaitingOn::DisruptionBudget(_) => Some(soon),
        WaitingOn::Until { at, .. } => Some((*at).max(soon)),
        _ => None,
    });
    each.collect::<Option<Vec<_>>>()?.into_iter().min()
}

fn told(end: &End, session: &Session, name: &NodeName) -> Result<u8, u8> {
    let flag = dir_flag(&session.directory);
    Ok(match end {
        End::Empty => {
            print(&format!("{name} is empty, and closed."));
            talk(&format!("to open it: tidewright undrain {name}{flag}"));
            DONE
        }
        End::Stopped => {
            talk("Stopped. The next drain or apply goes on from here.");
            CHANGES
        }
        End::Held(found) => {
            let (input, made) = &**found;
            print(&page(session, input, made, name)?);
            talk(&format!("{name} is not empty. To give it up: tidewright undrain {name}{flag}"));
            BLOCKED
        }
        End::Failed => ERROR,
    })
}

pub fn undrain(arguments: &UndrainArguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("undrain", &[Output::Human]) {
        return code;
    }
    open_again(arguments).unwrap_or_else(|code| code)
}

fn open_again(arguments: &UndrainArguments) -> Result<u8, u8> {
    let session = Session::open(&arguments.directory, Access::Change)?;
    let name = NodeName::from(arguments.node.as_str());
    let known = session.head()?.drains;
    if !known.contains_key(&name) && !was_kept(&session, &name)? {
        let names: Vec<&str> = known.keys().map(|name| name.as_str()).collect();
        let there = if names.is_empty() { "no node is".into() } else { format!("these are: {}", names.join(", ")) };
        return Err(fail(&format!("{name} is not drained; {there}")));
    }
    let there = is_node(&session, &name);
    session.remember(&LedgerChange::Undrain { node: name.clone(), at: there.then(|| session.now()) })?;
    if !there {
        print(&format!("{name} is gone: the cluster has no such node, and its drain is forgotten."));
        return Ok(DONE);
    }
    let options = Options { only_node: Some(name.clone()), ..Options::default() };
    let input = session.input(&options)?;
    let (made, audited) = judged(&input)?;
    let lets_go = |action: &Action| match action {
        Action::Cluster(action) => matches!(
            action,
            ClusterAction::Dress { .. } | ClusterAction::Uncordon { .. } | ClusterAction::Resume { .. }
        ),
        action => matches!(action, Action::Await(_)),
    };
    if !made.steps.is_empty() && made.steps.iter().all(|step| lets_go(&step.action)) {
        apply::walk(&session, &input, &made, &audited, None, &stop::listen())?;
    }
    let left = judged(&session.input(&options)?)?.0;
    if left.is_empty() {
        print(&format!("{name} may serve again."));
        return Ok(DONE);
    }
    print(&format!("{name} is not drained for anybody any more."));
    talk(&format!("what else is wanted of it: {}", command("apply", &session.directory)));
    Ok(super::plan::exit_code(&left))
}
