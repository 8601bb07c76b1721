//! One round: read the ledger, find the target, compile, observe. What a plan is made of; the command line, the
//! scenarios and the operator all come through here.
//!
//! Reads, and changes nothing. What could not be observed is a gap in the input; only without the ledger is there no
//! input at all, because a plan that forgot what it launched would launch it again.

use std::collections::BTreeMap;

use futures_util::future::join;
use jiff::{SignedDuration, Timestamp};

use crate::compile::compile;
use crate::effect::{Ledger, Thing};
use crate::fleet::{Fleet, Recalls};
use crate::ids::{FleetUid, TideName};
use crate::observed::{Observed, Sample};
use crate::plan::PlanInput;
use crate::plan::tide::guard_says;
use crate::provider::{Meter, ProviderError, World};

/// What a person may ask for beside the fleet itself.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Options {
    /// The plan of another instant: what is wanted then, over what is there now.
    pub at: Option<Timestamp>,
    /// Only what concerns these; empty: everything.
    pub only: Vec<Thing>,
    /// The git revision of the documents.
    pub revision: Option<String>,
}

/// How far ahead a plan says what the tide will do.
const A_DAY: SignedDuration = SignedDuration::from_hours(24);

/// Everything that the plan of this moment depends on. A fleet that the ledger knows keeps the identity that it was
/// given there: everything that was launched carries it.
pub async fn input(
    fleet: &Fleet,
    uid: &FleetUid,
    world: World<'_>,
    options: &Options,
) -> Result<PlanInput, ProviderError> {
    let (ledger, _) = world.cluster.ledger().await?;
    let now = options.at.unwrap_or_else(|| world.clock.now());
    let guards = guards(fleet, world.meter).await;
    let mut recalls = recalls(&ledger);
    let closed = closed(fleet, &ledger, &guards, (now, world.clock.now()), &mut recalls);
    let target = fleet.target_with(now, &recalls);
    let tomorrow = now.checked_add(A_DAY).unwrap_or(Timestamp::MAX);
    let upcoming = fleet.transitions_with(now, tomorrow, &recalls);
    let (cloud, cluster) = join(world.cloud.observe(&target), world.cluster.observe(&target)).await;
    Ok(PlanInput {
        fleet: ledger.head.fleet.clone().unwrap_or_else(|| uid.clone()),
        now,
        upcoming,
        desired: compile(&target),
        target,
        observed: Observed { cloud, cluster, guards },
        ledger,
        closed,
        revision: options.revision.clone(),
        only: options.only.clone(),
    })
}

/// The tides that the ledger remembers as turned before their time.
pub fn recalls(ledger: &Ledger) -> Recalls {
    ledger.head.recalled.iter().map(|(tide, recall)| (tide.clone(), recall.at)).collect()
}

/// Tides that are low by the clock, have lent nothing, and may not begin: for those the tide stays high. One that lends
/// already is turned by the plan, which remembers it. A sample is as old as it is now, whatever instant is asked for.
fn closed(
    fleet: &Fleet,
    ledger: &Ledger,
    guards: &BTreeMap<TideName, Option<Sample>>,
    (now, seen): (Timestamp, Timestamp),
    recalls: &mut Recalls,
) -> BTreeMap<TideName, String> {
    let mut closed = BTreeMap::new();
    for (name, tide) in &fleet.tides {
        let Some(guard) = tide.guard.as_ref().filter(|_| !ledger.head.lending.contains_key(name)) else { continue };
        let Some((start, _)) = tide.calendar(now, now).low_at(now) else { continue };
        if let Err(why) = guard_says(guard, guards.get(name).and_then(Option::as_ref), seen) {
            // Turned as it began, it lends nothing at all.
            recalls.insert(name.clone(), start);
            closed.insert(name.clone(), why);
        }
    }
    closed
}

async fn guards(fleet: &Fleet, meter: &dyn Meter) -> BTreeMap<TideName, Option<Sample>> {
    let mut samples = BTreeMap::new();
    for (name, tide) in &fleet.tides {
        if let Some(guard) = &tide.guard {
            samples.insert(name.clone(), meter.sample(&guard.prometheus).await);
        }
    }
    samples
}

#[cfg(test)]
mod tests;
