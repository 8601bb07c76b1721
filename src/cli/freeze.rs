//! `tidewright freeze` and `thaw`: one stop for everything.

use std::path::PathBuf;
use std::str::FromStr;

use super::session::{Access, Session, block_on, who};
use super::{Common, DONE, Output, fail, plan, print, talk};
use crate::effect::{Freeze, LedgerChange, Scope, Thing};
use crate::ids::NodeName;
use crate::render::plan::dir_flag;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright freeze --reason 'incident 4711'   nothing more is done to the fleet
  tidewright freeze pool/train --reason audit  nothing more is done to this pool
  tidewright freeze node/ip-10-0-0-7 --reason 'looking at it'

Steps in flight reach a safe point and stop. What has a deadline of its own goes on, such as the
drain before a Capacity Block ends, unless --all says otherwise.")]
pub struct Arguments {
    /// What: pool/NAME or node/NAME; nothing for the whole fleet
    #[arg(value_name = "WHAT")]
    what: Option<Named>,
    /// Why: shown in every plan and status
    #[arg(long, value_name = "WORDS")]
    reason: String,
    /// Also what has a deadline of its own
    #[arg(long)]
    all: bool,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright thaw                              the whole fleet goes on
  tidewright thaw pool/train                   this pool goes on

Exit codes: 0 it goes on, 1 it was not frozen, or another error.")]
pub struct ThawArguments {
    /// What: pool/NAME or node/NAME; nothing for the whole fleet
    #[arg(value_name = "WHAT")]
    what: Option<Named>,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// A pool or a node as it is written on the command line.
#[derive(Clone, Debug)]
struct Named(Scope);

impl FromStr for Named {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some(("pool", name)) if !name.is_empty() => Ok(Self(Scope::Pool(name.into()))),
            Some(("node", name)) if !name.is_empty() => Ok(Self(Scope::Node(name.into()))),
            _ => Err("expected pool/NAME or node/NAME, or nothing for the whole fleet".into()),
        }
    }
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("freeze", &[Output::Human]) {
        return code;
    }
    let scope = scope(arguments.what.as_ref());
    if arguments.reason.trim().is_empty() {
        return fail("a freeze needs a reason that others understand: --reason 'incident 4711'");
    }
    let freeze = |session: &Session| {
        exists(session, &scope)?;
        let known = session.head()?.frozen.into_iter().find(|freeze| freeze.scope == scope);
        if let Some(known) = known.as_ref().filter(|known| known.all && !arguments.all) {
            let (by, reason, what) = (&known.by, &known.reason, named(&scope));
            let why = format!(
                "{what} is frozen with --all by {by}: {reason}. This would weaken it: say --all, or thaw it first"
            );
            return Err(fail(&why));
        }
        if let Some(known) = &known {
            talk(&format!("this takes the place of the freeze by {}: {}", known.by, known.reason));
        }
        let (by, at, reason) = (who(), session.now(), arguments.reason.clone());
        let freeze = Freeze { scope: scope.clone(), by, at, reason, all: arguments.all };
        session.remember(&LedgerChange::Freeze(freeze))?;
        print(&format!("{} is frozen: {}", named(&scope), arguments.reason));
        let what = arguments.what.as_ref().map_or(String::new(), |_| format!(" {}", written(&scope)));
        talk(&format!("to lift it: tidewright thaw{what}{}", dir_flag(&session.directory)));
        Ok(DONE)
    };
    Session::open(&arguments.directory, Access::Stop).and_then(|session| freeze(&session)).unwrap_or_else(|code| code)
}

pub fn thaw(arguments: &ThawArguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("thaw", &[Output::Human]) {
        return code;
    }
    let scope = scope(arguments.what.as_ref());
    let thaw = |session: &Session| {
        let frozen = session.head()?.frozen;
        if !frozen.iter().any(|freeze| freeze.scope == scope) {
            let others: Vec<String> = frozen.iter().map(|freeze| written(&freeze.scope)).collect();
            let by_document = match session.fleet.frozen.is_some() {
                true => "; the Fleet document says `frozen`: remove spec.frozen there",
                false => "",
            };
            return Err(fail(&match others.is_empty() {
                true => format!("nobody froze anything with `freeze`: there is nothing to lift{by_document}"),
                false => format!("{} is not frozen; frozen is: {}{by_document}", written(&scope), others.join(", ")),
            }));
        }
        session.remember(&LedgerChange::Thaw(scope.clone()))?;
        print(&format!("{} goes on.", named(&scope)));
        if session.fleet.frozen.is_some() {
            talk("The Fleet document itself says `frozen`: remove spec.frozen there, too.");
        }
        Ok(DONE)
    };
    Session::open(&arguments.directory, Access::Stop).and_then(|session| thaw(&session)).unwrap_or_else(|code| code)
}

fn scope(what: Option<&Named>) -> Scope {
    what.map_or(Scope::Fleet, |Named(scope)| scope.clone())
}

fn written(scope: &Scope) -> String {
    match scope {
        Scope::Fleet => "the whole fleet".into(),
        Scope::Pool(name) => format!("pool/{name}"),
        Scope::Node(name) => format!("node/{name}"),
    }
}

fn named(scope: &Scope) -> String {
    match scope {
        Scope::Fleet => "The whole fleet".into(),
        other => written(other),
    }
}

fn exists(session: &Session, scope: &Scope) -> Result<(), u8> {
    match scope {
        Scope::Fleet => Ok(()),
        Scope::Pool(name) if session.is_head_alone => {
            let known = session.ledger()?.pools.contains_key(name);
            let why =
                || format!("the documents are wrong, and no node of pool/{name} is known: freeze the whole fleet");
            if known { Ok(()) } else { Err(fail(&why())) }
        }
        Scope::Pool(name) => plan::known(&session.fleet, &Thing::Pool(name.clone())).map_err(|why| fail(&why)),
        Scope::Node(name) => node(session, name.as_str()),
    }
}

/// Refuses a name that no node of the cluster has.
pub fn node(session: &Session, name: &str) -> Result<(), u8> {
    let names = nodes(session);
    if names.contains(&NodeName::from(name)) {
        return Ok(());
    }
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    Err(fail(&format!("the cluster has no node `{name}`: {}", plan::near(name, "node", &names))))
}

/// Whether the cluster has a node of this name.
pub fn is_node(session: &Session, name: &NodeName) -> bool {
    nodes(session).contains(name)
}

fn nodes(session: &Session) -> Vec<NodeName> {
    let target = session.fleet.target_at(session.now());
    let seen = block_on(session.world().cluster.observe(&target));
    seen.nodes.seen().keys().cloned().collect()
}
