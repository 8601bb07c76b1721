//! What a person orders: freezes, quarantine, drains, the turning of a tide. Written into the ledger, as the command line does.

use jiff::Timestamp;

use super::Wrong;
use super::bench::Bench;
use super::command::{Order, Place, Where};
use super::names::known;
use crate::audit::audit;
use crate::effect::{DrainOrder, Freeze, LedgerChange, Quarantine, Recall, Scope};
use crate::ids::NodeName;
use crate::plan::anew::unanswered;
use crate::plan::plan;
use crate::plan::survey::{slot_of, survey};
use crate::render::plan::{self as render, Shown};
use crate::round::{forgotten, let_in, missing};

/// Who orders, in scripts.
const SOMEBODY: &str = "ana";

pub fn order(bench: &mut Bench, order: &Order) -> Result<Vec<String>, Wrong> {
    let (at, by) = (bench.sim.now(), SOMEBODY.to_string());
    let change = match order {
        Order::Freeze { scope, reason, all } => {
            let scope = resolve(bench, scope)?;
            LedgerChange::Freeze(Freeze { scope, by, at, reason: reason.clone(), all: *all })
        }
        Order::Thaw { scope } => LedgerChange::Thaw(resolve(bench, scope)?),
        Order::Quarantine { place, reason } => {
            let quarantine = Quarantine { by, at, reason: reason.clone() };
            LedgerChange::Quarantine { node: bench.node_there(place)?, quarantine }
        }
        Order::Return(place) => LedgerChange::Return { node: kept_out(bench, place)?, at: Some(at) },
        Order::Drain { place, reason, force } => {
            LedgerChange::Drain { node: bench.node_there(place)?, order: drain_order(at, reason, *force) }
        }
        Order::DryDrain(place) => return dry_drain(bench, place),
        Order::Undrain(place) => LedgerChange::Undrain { node: kept_out(bench, place)?, at: Some(at) },
        Order::Lost => return lost(bench),
        Order::Recall(tide) => {
            bench.names.tide(tide)?;
            LedgerChange::Recall { tide: tide.clone(), recall: Recall { at, by } }
        }
    };
    bench.sim.remember(&change);
    Ok(Vec::new())
}

/// Says that what is missing is gone, as `tidewright lost --yes` does.
fn lost(bench: &mut Bench) -> Result<Vec<String>, Wrong> {
    let input = bench.look()?.input;
    let known = forgotten(&input).into_iter().chain(let_in(&input));
    let found: Vec<(String, LedgerChange)> = known.chain(missing(&input)?).collect();
    found.iter().for_each(|(_, change)| bench.sim.remember(change));
    Ok(found.into_iter().map(|(what, _)| what).collect())
}

fn drain_order(at: Timestamp, reason: &str, force: bool) -> DrainOrder {
    DrainOrder { by: SOMEBODY.into(), at, reason: reason.into(), unmanaged: force, local_data: force }
}

/// What `tidewright drain --dry-run` prints.
fn dry_drain(bench: &mut Bench, place: &Place) -> Result<Vec<String>, Wrong> {
    let node = bench.node_there(place)?;
    let mut input = bench.look()?.input;
    input.ledger.change(&LedgerChange::Drain { node: node.clone(), order: drain_order(input.now, "", false) });
    input.only_node = Some(node.clone());
    let plan = audit(&input, plan(&input)).map_err(|found| Wrong::broken(format!("the judge refuses: {found:?}")))?;
    let slot = slot_of(&input, &node).ok_or_else(|| Wrong::new(format!("{node} is in no slot")))?;
    let shown = Shown { input: &input, plan: &plan, directory: ".", is_now: true };
    let page = render::drain(&shown, &node, &slot, &survey(&input, &node));
    Ok(page.lines().map(str::to_string).collect())
}

fn resolve(bench: &Bench, scope: &Where) -> Result<Scope, Wrong> {
    match scope {
        Where::Known(Scope::Fleet) => Ok(Scope::Fleet),
        Where::Known(Scope::Pool(pool)) => bench.names.pool(pool).map(|()| Scope::Pool(pool.clone())),
        Where::Known(Scope::Node(node)) => bench.node_there(&Place(node.to_string())).map(Scope::Node),
        Where::NodeOf(place) => bench.node(place).map(Scope::Node),
    }
}

/// A node that somebody keeps out of service, there or gone; or that was, by a ledger that is lost.
fn kept_out(bench: &mut Bench, place: &Place) -> Result<NodeName, Wrong> {
    let name = bench.node(place)?;
    let head = bench.sim.state().ledger.head().clone();
    let kept: Vec<&NodeName> = head.quarantined.keys().chain(head.drains.keys()).collect();
    if kept.contains(&&name) {
        return Ok(name);
    }
    let input = bench.look()?.input;
    let names = kept.into_iter().chain(unanswered(&input).into_iter().map(|(node, _)| node));
    known("node that is kept out of service", name.as_str(), names.map(|name| name.as_str()))?;
    Ok(name)
}
