//! The compare-and-swap on a part of the ledger.
//!
//! A change is made on what is there now, never on what the plan saw: the guard looks at that and says whether the
//! change is still true. Two operators at once are decided here: one swap goes through, the other reads again.

use std::rc::Rc;

use futures_util::lock::Mutex;

use super::turn::Turn;
use super::walk::Walk;
use crate::effect::{Head, Ledger, LedgerChange, Part, Slot};
use crate::ids::SlotId;
use crate::provider::{Class, Cluster, PartValue, ProviderError};
use crate::status::EventKind;

/// How often a swap is tried before it counts as failed: as often as others can plausibly come first.
const TRIES: u32 = 16;

/// Whether a change may be made to what the ledger says now.
pub(super) enum Guard {
    Go,
    /// It says so already.
    Already,
    No(String),
}

pub(super) enum NotRecorded {
    /// The guard said no.
    Moved(String),
    Failed(ProviderError),
}

/// A guard sees the part as a ledger that holds nothing else, and whether an earlier try may have been written.
pub(super) type Guards<'g> = &'g dyn Fn(&Ledger, bool) -> Guard;

/// Makes changes of one part, all or none. Says whether anything was written.
pub(super) async fn swap(
    cluster: &dyn Cluster,
    changes: &[LedgerChange],
    guard: Guards<'_>,
) -> Result<bool, NotRecorded> {
    let part = changes.first().and_then(|change| change.parts().pop()).expect("a change touches a part");
    let mut unsure = false;
    for _ in 0..TRIES {
        let (value, version) = cluster.ledger_part(&part).await.map_err(NotRecorded::Failed)?;
        let mut ledger = ledger_of(&part, value.clone());
        match guard(&ledger, unsure) {
            Guard::Go => changes.iter().for_each(|change| ledger.change(change)),
            Guard::Already => return Ok(false),
            Guard::No(why) => return Err(NotRecorded::Moved(why)),
        }
        let next = value_of(&part, ledger);
        if next == value {
            return Ok(false);
        }
        match cluster.swap_ledger(&part, &version, &next).await {
            Ok(_) => return Ok(true),
            Err(error) if error.class == Class::Conflict => {}
            // A write that lands late loses against the version that we read next, or we lose against it.
            Err(error) if error.class == Class::Ambiguous && can_repeat(changes) => unsure = true,
            Err(error) => return Err(NotRecorded::Failed(error)),
        }
    }
    let why = format!("somebody else changed the ledger {TRIES} times in a row");
    Err(NotRecorded::Failed(ProviderError::new(Class::Conflict, why)))
}

/// Whether making the changes again is the same as having made them. An intent to buy is not: what is found may be
/// another operator's, and then both would buy.
fn can_repeat(changes: &[LedgerChange]) -> bool {
    !changes.iter().any(|change| matches!(change, LedgerChange::PurchaseIntend { .. }))
}

pub(super) async fn head(cluster: &dyn Cluster) -> Result<Head, ProviderError> {
    let (value, _) = cluster.ledger_part(&Part::Head).await?;
    Ok(ledger_of(&Part::Head, value).head)
}

fn ledger_of(part: &Part, value: PartValue) -> Ledger {
    let mut ledger = Ledger::default();
    match (part, value) {
        (_, PartValue::Head(head)) => ledger.head = *head,
        (Part::Pool(pool), PartValue::Pool(Some(found))) => {
            ledger.pools.insert(pool.clone(), found);
        }
        (_, PartValue::Pool(_)) => {}
    }
    ledger
}

fn value_of(part: &Part, mut ledger: Ledger) -> PartValue {
    match part {
        Part::Head => PartValue::Head(Box::new(ledger.head)),
        Part::Pool(pool) => PartValue::Pool(ledger.pools.remove(pool)),
    }
}

impl Walk<'_> {
    /// Records, one of our own steps after the other: those of one part would only get in each other's way.
    pub(super) async fn record(&self, changes: &[LedgerChange], guard: Guards<'_>) -> Result<bool, NotRecorded> {
        let part = changes.first().and_then(|change| change.parts().pop()).expect("a change touches a part");
        let lock = self.lock(part);
        let _mine = lock.lock().await;
        let written = swap(self.world.cluster, changes, guard).await?;
        self.recorded(written);
        Ok(written)
    }

    fn lock(&self, part: Part) -> Rc<Mutex<()>> {
        Rc::clone(self.locks.borrow_mut().entry(part).or_default())
    }

    /// The head of the ledger as it is now.
    pub(super) async fn head(&self) -> Result<Head, ProviderError> {
        head(self.world.cluster).await
    }

    /// A slot as it is now; one that was never used is empty.
    pub(super) async fn slot(&self, slot: &SlotId) -> Result<Slot, ProviderError> {
        let part = Part::Pool(slot.pool.clone());
        let (value, _) = self.world.cluster.ledger_part(&part).await?;
        Ok(ledger_of(&part, value).slot(slot).cloned().unwrap_or_default())
    }

    /// A slot as the plan saw it.
    pub(super) fn planned(&self, slot: &SlotId) -> Slot {
        self.input.ledger.slot(&self.input.as_named(slot)).cloned().unwrap_or_default()
    }
}

impl NotRecorded {
    /// What it means for a step that has had no effect yet.
    pub(super) fn turn(self, walk: &Walk<'_>, step: &crate::plan::Step, memory: &mut super::turn::Memory) -> Turn {
        match self {
            Self::Moved(why) => Turn::End(EventKind::Skipped { fact: None, why }),
            Self::Failed(error) => super::retry::after(walk, step, memory, &error),
        }
    }
}
