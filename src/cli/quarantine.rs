//! `tidewright quarantine` and `return`: a node out of service, and back.

use std::path::PathBuf;

use super::freeze::{is_node, node};
use super::session::{Access, Session, who};
use super::{Common, DONE, Output, fail, print, talk};
use crate::effect::{LedgerChange, Quarantine};
use crate::ids::NodeName;
use crate::plan::anew::unanswered;
use crate::render::plan::command;
use crate::round::Options;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright quarantine ip-10-0-0-7 --reason 'ECC errors'
  tidewright apply                             drains it, and keeps it empty

It stays out of service until `tidewright return` brings it back, also when its pool lets it go.")]
pub struct Arguments {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// Why: shown in every plan and status
    #[arg(long, value_name = "WORDS")]
    reason: String,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright return ip-10-0-0-7                it may serve again
  tidewright apply                             opens it to new pods")]
pub struct ReturnArguments {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// The fleet's directory
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("quarantine", &[Output::Human]) {
        return code;
    }
    if arguments.reason.trim().is_empty() {
        return fail("a quarantine needs a reason that others understand: --reason 'ECC errors'");
    }
    let put = |session: &Session| {
        node(session, &arguments.node)?;
        let name = NodeName::from(arguments.node.as_str());
        let quarantine = Quarantine { by: who(), at: session.now(), reason: arguments.reason.clone() };
        session.remember(&LedgerChange::Quarantine { node: name, quarantine })?;
        print(&format!("{} is in quarantine: {}", arguments.node, arguments.reason));
        talk(&format!("to drain it now: {}", command("apply", &session.directory)));
        Ok(DONE)
    };
    Session::open(&arguments.directory, Access::Note).and_then(|session| put(&session)).unwrap_or_else(|code| code)
}

/// Whether a ledger that is lost kept a node out of service, and nobody has said anything of it since.
pub fn was_kept(session: &Session, name: &NodeName) -> Result<bool, u8> {
    let input = session.input(&Options::default())?;
    Ok(unanswered(&input).iter().any(|(node, _)| *node == name))
}

pub fn bring_back(arguments: &ReturnArguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("return", &[Output::Human]) {
        return code;
    }
    let back = |session: &Session| {
        let name = NodeName::from(arguments.node.as_str());
        let known = session.head()?.quarantined;
        if !known.contains_key(&name) && !was_kept(session, &name)? {
            let names: Vec<&str> = known.keys().map(|name| name.as_str()).collect();
            let there = if names.is_empty() { "no node is".into() } else { format!("these are: {}", names.join(", ")) };
            let gone = if is_node(session, &name) { "" } else { ", and the cluster has no node of that name" };
            return Err(fail(&format!("{} is not in quarantine{gone}; {there}", arguments.node)));
        }
        let there = is_node(session, &name);
        session.remember(&LedgerChange::Return { node: name, at: there.then(|| session.now()) })?;
        if !there {
            print(&format!(
                "{} is gone: the cluster has no such node, and its quarantine is forgotten.",
                arguments.node
            ));
            return Ok(DONE);
        }
        print(&format!("{} may serve again.", arguments.node));
        talk(&format!("to open it now: {}", command("apply", &session.directory)));
        Ok(DONE)
    };
    Session::open(&arguments.directory, Access::Note).and_then(|session| back(&session)).unwrap_or_else(|code| code)
}
