//! One round: read the ledger, find the target, compile, observe. What a plan is made of; the command line, the
//! scenarios and the operator all come through here.
//!
//! Reads, and changes nothing. What could not be observed is a gap in the input; only without the ledger is there no
//! input at all, because a plan that forgot what it launched would launch it again.

use std::collections::BTreeMap;

use futures_util::future::join3;
use jiff::{SignedDuration, Timestamp};

use crate::compile::compile;
use crate::effect::{Ledger, Thing};
use crate::fleet::{Fleet, Recalls, Target};
use crate::ids::{FleetUid, TideName};
use crate::observed::{Observed, Sample};
use crate::plan::PlanInput;
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
    let recalls = recalls(&ledger);
    let target = fleet.target_with(now, &recalls);
    let tomorrow = now.checked_add(A_DAY).unwrap_or(Timestamp::MAX);
    let upcoming = fleet.transitions_with(now, tomorrow, &recalls);
    let (cloud, cluster, guards) =
        join3(world.cloud.observe(&target), world.cluster.observe(&target), guards(&target, world.meter)).await;
    Ok(PlanInput {
        fleet: ledger.head.fleet.clone().unwrap_or_else(|| uid.clone()),
        now,
        upcoming,
        desired: compile(&target),
        target,
        observed: Observed { cloud, cluster, guards },
        ledger,
        revision: options.revision.clone(),
        only: options.only.clone(),
    })
}

/// The tides that the ledger remembers as turned before their time.
pub fn recalls(ledger: &Ledger) -> Recalls {
    ledger.head.recalled.iter().map(|(tide, recall)| (tide.clone(), recall.at)).collect()
}

async fn guards(target: &Target, meter: &dyn Meter) -> BTreeMap<TideName, Option<Sample>> {
    let mut samples = BTreeMap::new();
    for (name, tide) in &target.standing.tides {
        if let Some(guard) = &tide.guard {
            samples.insert(name.clone(), meter.sample(&guard.prometheus).await);
        }
    }
    samples
}

#[cfg(test)]
mod tests;
