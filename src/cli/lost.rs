//! `tidewright lost`: a person's word that what is no longer listed is really gone.
//!
//! When too much is missing at once, nothing is destroyed and nothing is replaced: the list is probably wrong. If it is
//! right, somebody who looked says so here.

use std::path::PathBuf;

use super::session::{Access, Session};
use super::{CHANGES, Common, DONE, Output, fail, print, talk};
use crate::effect::LedgerChange;
use crate::ids::SlotId;
use crate::plan::PlanInput;
use crate::round::Options;

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

/// What the ledger knows of and the cloud or the cluster does not list, with the record that it is gone.
fn missing(input: &PlanInput) -> Result<Vec<(String, LedgerChange)>, String> {
    let (cloud, cluster) = (&input.observed.cloud, &input.observed.cluster);
    if let Some(gap) = cloud.instances.gap().or(cluster.nodes.gap()) {
        return Err(format!(
            "it could not be read whole, so nothing is known to be missing: {}: {}",
            gap.what, gap.why
        ));
    }
    let nodes = cluster.nodes.seen();
    let mut found = Vec::new();
    for (pool, known) in &input.ledger.pools {
        for (index, slot) in &known.slots {
            let id = SlotId::new(pool, *index);
            if let Some(instance) = slot.instance.as_ref().filter(|one| !cloud.instances.seen().contains_key(*one)) {
                let ready = nodes.values().any(|node| node.instance.as_ref() == Some(instance) && node.ready);
                if !ready {
                    found.push((format!("{id}  {instance}"), LedgerChange::Lost { slot: id }));
                }
            } else if let Some(node) = slot.node.as_ref().filter(|node| !nodes.contains_key(*node)) {
                found.push((format!("{id}  {node}"), LedgerChange::Unclaimed { slot: id }));
            }
        }
    }
    Ok(found)
}
