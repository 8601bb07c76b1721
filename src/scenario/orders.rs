//! What a person orders: freezes, quarantine, the turning of a tide. Written into the ledger, as the command line does.

use super::Wrong;
use super::bench::Bench;
use super::command::{Order, Where};
use crate::effect::{Freeze, LedgerChange, Quarantine, Recall, Scope};
use crate::round::missing;

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
            LedgerChange::Quarantine { node: bench.node(place)?, quarantine }
        }
        Order::Return(place) => LedgerChange::Return { node: bench.node(place)? },
        Order::Lost => return lost(bench),
        Order::Recall(tide) => LedgerChange::Recall { tide: tide.clone(), recall: Recall { at, by } },
    };
    bench.sim.remember(&change);
    Ok(Vec::new())
}

/// Says that what is missing is gone, as `tidewright lost --yes` does.
fn lost(bench: &mut Bench) -> Result<Vec<String>, Wrong> {
    let found = missing(&bench.look()?.input)?;
    found.iter().for_each(|(_, change)| bench.sim.remember(change));
    Ok(found.into_iter().map(|(what, _)| what).collect())
}

fn resolve(bench: &Bench, scope: &Where) -> Result<Scope, Wrong> {
    match scope {
        Where::Known(scope) => Ok(scope.clone()),
        Where::NodeOf(place) => bench.node(place).map(Scope::Node),
    }
}
