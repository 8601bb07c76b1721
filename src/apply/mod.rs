//! Walks a plan: reads again, calls providers, tells what happened. One task; time only through `Clock`.
//!
//! A step leaves no choice: `apply` decides only whether it may still be done, and when to try again. A crash is this
//! future dropped at any await point, so nothing here is done in `Drop`, and whatever is in flight is either recorded
//! in the ledger before it is sent or idempotent by value or UID. Not here: what is wanted (`plan`), whether a plan is
//! safe (`audit`), what an answer means (`provider`).
//!
//! | file | |
//! | --- | --- |
//! | `walk` | the loop: what is ready, what waits, one sleep for all |
//! | `turn` | one try of one step |
//! | `gate` | what must hold just before an effect: facts, ownership, freeze |
//! | `spend` | approvals |
//! | `intents` | what needs a record before it is sent: launches, reservations, purchases |
//! | `record` | the compare-and-swap on a part of the ledger |
//! | `guards` | what must still be so for a planned record to be true |
//! | `retry` | when to come back |

mod gate;
mod guards;
mod intents;
mod patience;
mod record;
mod report;
mod retry;
mod spend;
mod turn;
mod walk;

#[cfg(test)]
mod tests;

pub use patience::{Patience, StopSignal};
pub use report::{Ended, Report};
pub use spend::{Opening, is_used_up, open_approval};

use crate::audit::Audited;
use crate::effect::LedgerChange;
use crate::ids::{Digest, FleetUid};
use crate::plan::{PlanInput, anew};
use crate::provider::{ProviderError, World};
use crate::status::Event;
use record::{Guard, NotRecorded};

/// Why nothing could be done at all. What happens to a step is an [`Event`], never an error.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApplyError {
    /// Without our memory nothing may be done: the cloud has no compare-and-swap.
    #[error("the ledger cannot be reached: {0}")]
    Ledger(#[source] ProviderError),
    #[error("the plan is for the fleet {planned}, and the ledger belongs to {found}: plan again")]
    AnotherFleet { planned: FleetUid, found: FleetUid },
    #[error("the plan cannot be walked: {0}")]
    Malformed(String),
}

/// Does what the plan says, as far as it still holds, is approved, and patience lasts.
///
/// `input` is what the plan was made from: it says what the planner saw, so that a step can be refused when somebody
/// else moved the slot since. Guarantees: every effect is preceded by a fresh look at what it needs and at the freeze;
/// a launch, reservation or purchase by its intent in the ledger; an effect that needs an approval by its record there.
pub async fn apply(
    plan: &Audited,
    input: &PlanInput,
    approval: Option<&Digest>,
    world: World<'_>,
    patience: &Patience<'_>,
    tell: &mut dyn FnMut(Event),
) -> Result<Report, ApplyError> {
    if plan.steps.is_empty() {
        return Ok(Report::default());
    }
    let fleet = begin(input, &world).await?;
    let walk = walk::Walk::new(plan, input, approval, world, patience, fleet, tell);
    spend::close(&walk).await;
    walk::run(&walk).await?;
    Ok(walk.into_report())
}

/// The fleet that the ledger belongs to; the first of all records says so.
async fn begin(input: &PlanInput, world: &World<'_>) -> Result<FleetUid, ApplyError> {
    let cluster = world.cluster;
    let planned = input.ledger.head.fleet.as_ref().unwrap_or(&input.fleet);
    let head = record::head(cluster).await.map_err(ApplyError::Ledger)?;
    if let Some(found) = head.fleet {
        return same_fleet(planned, found);
    }
    let began = Some(anew::beginning(input, world.clock.now()));
    let change = LedgerChange::Begin { fleet: planned.clone(), began };
    match record::swap(cluster, &[change], &|_, _| Guard::Go).await {
        Ok(_) => {}
        Err(NotRecorded::Failed(error)) => return Err(ApplyError::Ledger(error)),
        Err(NotRecorded::Moved(why)) => return Err(ApplyError::Malformed(why)),
    }
    // Two may have begun at once, each with a name of its own: the ledger says whose it is.
    let head = record::head(cluster).await.map_err(ApplyError::Ledger)?;
    same_fleet(planned, head.fleet.unwrap_or_else(|| planned.clone()))
}

fn same_fleet(planned: &FleetUid, found: FleetUid) -> Result<FleetUid, ApplyError> {
    if *planned == found { Ok(found) } else { Err(ApplyError::AnotherFleet { planned: planned.clone(), found }) }
}
