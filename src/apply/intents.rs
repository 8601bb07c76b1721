//! What needs a record before it is sent: launches, reservations, purchases.
//!
//! The story of a launch, and what a crash after each line leaves:
//! 1. The slot is read: it must be what the plan saw. Nothing.
//! 2. The approval pays. The purpose is noted: paying again takes nothing.
//! 3. The intent is swapped in. It is open; the next plan sends the same request again, and the token makes it one.
//! 4. The request is sent. The same: whoever sends it again is given the instance that is there.
//! 5. The answer is swapped in. Done.
//!
//! An answer that may be lost leaves the intent open: nothing but the same request, byte for byte, may follow it. A
//! purchase has no token, so it is sent once, and an open one waits for a person or for the block to show up.

use jiff::{SignedDuration, Timestamp};

use super::record::{Guard, NotRecorded};
use super::turn::{Memory, Turn, send};
use super::walk::Walk;
use super::{gate, retry, spend};
use crate::effect::{
    Action, CloudAction, Fact, HeldReservation, Intent, LaunchRequest, Ledger, LedgerChange, Outcome, PurchaseRequest,
    ReserveRequest, Slot,
};
use crate::mistakes::{Mistake, is_on};
use crate::plan::Step;
use crate::provider::{Class, Done, ProviderError};
use crate::status::EventKind;

/// How long after the first request a no to its repetition is believed to speak of both: until then an instance that
/// the first made may not be listed yet, and closing the intent would make a second one.
const SHOWS_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// An answer that still has to be recorded, and how the step ends then.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    change: LedgerChange,
    end: EventKind,
}

/// Whether a request is sent for the first time.
enum Fit {
    First,
    /// The intent is open since then.
    Again(Timestamp),
}

pub(super) async fn launch(
    walk: &Walk<'_>,
    step: &Step,
    memory: &mut Memory,
    request: &LaunchRequest,
) -> Result<(), Turn> {
    let planned = walk.planned(&request.slot);
    let slot = walk.slot(&request.slot).await.map_err(|error| retry::after(walk, step, memory, &error))?;
    let fit = slot_fits(request, &planned, &slot, memory.intended).map_err(skipped)?;
    let gone: Vec<Fact> = match fit {
        Fit::First if is_on(Mistake::StalePlan) => Vec::new(),
        Fit::First => slot.instance.into_iter().map(Fact::Gone).collect(),
        Fit::Again(_) => Vec::new(),
    };
    gate::pass(walk, step, memory, &gone).await?;
    spend::pay(walk, step, memory).await?;
    walk.start(step, memory);
    let since = match fit {
        Fit::Again(since) => since,
        Fit::First => {
            let intent = walk.intent(request.clone());
            let at = intent.at;
            let guard = |ledger: &Ledger, unsure| {
                let slot = ledger.slot(&request.slot).cloned().unwrap_or_default();
                may_intend(slot_fits(request, &planned, &slot, unsure))
            };
            let written = walk.record(&[LedgerChange::Intend { intent }], &guard).await;
            written.map_err(|error| error.turn(walk, step, memory))?;
            memory.intended = true;
            at
        }
    };
    let (slot, at) = (request.slot.clone(), walk.world.clock.now());
    match send(walk, &step.action, memory).await {
        Ok(Done::Instance(instance)) => {
            let at = walk.world.clock.now();
            owe(walk, step, memory, LedgerChange::Launched { slot, instance, at }, EventKind::Succeeded).await
        }
        Ok(other) => Err(odd(&other)),
        Err(error) if is_definite(walk, memory, &error, since) => {
            let source = matches!(error.class, Class::NoCapacity | Class::Ambiguous).then_some(request.source);
            refuse(walk, step, memory, LedgerChange::LaunchRefused { slot, source, at }, &error).await
        }
        Err(error) => Err(unanswered(walk, step, memory, &error)),
    }
}

pub(super) async fn reserve(
    walk: &Walk<'_>,
    step: &Step,
    memory: &mut Memory,
    request: &ReserveRequest,
) -> Result<(), Turn> {
    let name = &request.reservation;
    let of = |ledger: &Ledger| ledger.head.reservations.get(name).cloned().unwrap_or_default();
    let planned = of(&walk.input.ledger);
    let head = walk.head().await.map_err(|error| retry::after(walk, step, memory, &error))?;
    let held = head.reservations.get(name).cloned().unwrap_or_default();
    let fit = reservation_fits(request, &planned, &held, memory.intended).map_err(skipped)?;
    gate::pass(walk, step, memory, &[]).await?;
    spend::pay(walk, step, memory).await?;
    walk.start(step, memory);
    let since = match fit {
        Fit::Again(since) => since,
        Fit::First => {
            let intent = walk.intent(request.clone());
            let at = intent.at;
            let guard = |ledger: &Ledger, unsure| may_intend(reservation_fits(request, &planned, &of(ledger), unsure));
            let written = walk.record(&[LedgerChange::ReserveIntend { intent }], &guard).await;
            written.map_err(|error| error.turn(walk, step, memory))?;
            memory.intended = true;
            at
        }
    };
    match send(walk, &step.action, memory).await {
        Ok(Done::Reservation(id)) => {
            let change = LedgerChange::Reserved { reservation: name.clone(), id };
            owe(walk, step, memory, change, EventKind::Succeeded).await
        }
        Ok(other) => Err(odd(&other)),
        Err(error) if is_definite(walk, memory, &error, since) => {
            let at = walk.world.clock.now();
            let change = LedgerChange::ReserveRefused { reservation: name.clone(), at };
            refuse(walk, step, memory, change, &error).await
        }
        Err(error) => Err(unanswered(walk, step, memory, &error)),
    }
}

/// Sent once in its life: not again after any error, not after a crash, not by another operator.
pub(super) async fn purchase(
    walk: &Walk<'_>,
    step: &Step,
    memory: &mut Memory,
    request: &PurchaseRequest,
) -> Result<(), Turn> {
    let head = walk.head().await.map_err(|error| retry::after(walk, step, memory, &error))?;
    may_buy(request, &walk.input.ledger, &Ledger { head, ..Ledger::default() }).map_err(skipped)?;
    gate::pass(walk, step, memory, &[]).await?;
    spend::pay(walk, step, memory).await?;
    walk.start(step, memory);
    let guard = |ledger: &Ledger, _| match may_buy(request, &walk.input.ledger, ledger) {
        Ok(()) => Guard::Go,
        Err(why) => Guard::No(why),
    };
    let intent = walk.intent(request.clone());
    let written = walk.record(&[LedgerChange::PurchaseIntend { intent }], &guard).await;
    match written {
        Ok(true) => {}
        Ok(false) => return Err(skipped(format!("{} was tried before", request.offering))),
        Err(NotRecorded::Moved(why)) => return Err(skipped(why)),
        // It may have been written: a try that comes back would find it open, and stop for a person.
        Err(NotRecorded::Failed(error)) => return Err(retry::failed(&error)),
    }
    match send(walk, &step.action, memory).await {
        Ok(Done::Reservation(id)) => {
            let change = LedgerChange::Purchased { request: request.clone(), id };
            owe(walk, step, memory, change, EventKind::Succeeded).await
        }
        Ok(other) => Err(odd(&other)),
        Err(error) if error.class == Class::Ambiguous => Err(retry::failed(&error)),
        Err(error) => {
            let change = LedgerChange::PurchaseRefused { request: request.clone(), why: error.message.clone() };
            refuse(walk, step, memory, change, &error).await
        }
    }
}

/// Records the answer that is owed. The ledger may have moved, but not what belongs to this request.
pub(super) async fn settle(walk: &Walk<'_>, step: &Step, memory: &mut Memory) -> Result<(), Turn> {
    let Some(Owed { change, end }) = memory.owed.clone() else { return Ok(()) };
    let guard = |ledger: &Ledger, _| answers(walk, &step.action, &change, ledger);
    match walk.record(std::slice::from_ref(&change), &guard).await {
        Ok(_) if end == EventKind::Succeeded => Ok(()),
        Ok(_) => Err(Turn::End(end)),
        Err(NotRecorded::Moved(why)) => {
            Err(Turn::End(EventKind::Failed { class: retry::name(Class::Conflict).into(), why }))
        }
        Err(NotRecorded::Failed(error)) => {
            let message = format!("it is answered, and the answer could not be recorded: {error}");
            Err(retry::after(walk, step, memory, &ProviderError { message, ..error }))
        }
    }
}

async fn owe(
    walk: &Walk<'_>,
    step: &Step,
    memory: &mut Memory,
    change: LedgerChange,
    end: EventKind,
) -> Result<(), Turn> {
    memory.owed = Some(Owed { change, end });
    settle(walk, step, memory).await
}

/// A definite no. The approval is given back first: closing the intent ends the purpose that it was taken for.
pub(super) async fn refuse(
    walk: &Walk<'_>,
    step: &Step,
    memory: &mut Memory,
    change: LedgerChange,
    error: &ProviderError,
) -> Result<(), Turn> {
    spend::void(walk, step, memory).await;
    let end = EventKind::Failed { class: retry::name(error.class).into(), why: error.message.clone() };
    owe(walk, step, memory, change, end).await
}

/// Whether an error says that nothing was made, now or by an earlier try whose answer is missing.
fn is_definite(walk: &Walk<'_>, memory: &Memory, error: &ProviderError, since: Timestamp) -> bool {
    match error.class {
        Class::Ambiguous => is_on(Mistake::FallbackAfterNoAnswer),
        Class::Throttled => false,
        // Behind the token: the cloud would have answered with what it made.
        Class::NoCapacity => true,
        Class::NotFound | Class::Conflict | Class::Denied | Class::Other => {
            memory.intended || walk.world.clock.now().duration_since(since) >= SHOWS_WITHIN
        }
    }
}

/// The intent stays open. Too many requests are tried again; a conflict is not, because it is about the token.
fn unanswered(walk: &Walk<'_>, step: &Step, memory: &mut Memory, error: &ProviderError) -> Turn {
    match error.class {
        Class::Throttled => retry::after(walk, step, memory, error),
        _ => retry::failed(error),
    }
}

fn odd(done: &Done) -> Turn {
    retry::failed(&ProviderError::new(Class::Other, format!("the provider answered with {done:?}")))
}

fn skipped(why: String) -> Turn {
    Turn::End(EventKind::Skipped { fact: None, why })
}

/// An intent goes in where none is; one that is there is ours only if our own write may have been it.
fn may_intend(fit: Result<Fit, String>) -> Guard {
    match fit {
        Ok(Fit::First) => Guard::Go,
        Ok(Fit::Again(_)) => Guard::Already,
        Err(why) => Guard::No(why),
    }
}

/// Whether the slot is still what the plan saw. `ours`: this run may have recorded the intent.
fn slot_fits(request: &LaunchRequest, planned: &Slot, slot: &Slot, ours: bool) -> Result<Fit, String> {
    let name = &request.slot;
    let known = |intent: &Option<Intent<LaunchRequest>>| intent.as_ref().is_some_and(|open| open.request == *request);
    match &slot.intent {
        Some(open) if open.request == *request && (ours || known(&planned.intent)) => Ok(Fit::Again(open.at)),
        Some(_) => Err(format!("somebody else is launching {name}")),
        _ if is_on(Mistake::StalePlan) => Ok(Fit::First),
        None if slot.generation.checked_add(1) != Some(request.generation) => {
            Err(format!("{name} has moved on to generation {}", slot.generation))
        }
        None if slot.node.is_some() => Err(format!("{name} holds a node of its own")),
        None if slot.instance.is_some() && slot.instance != planned.instance => {
            Err(format!("{name} has another instance by now"))
        }
        None => Ok(Fit::First),
    }
}

fn reservation_fits(
    request: &ReserveRequest,
    planned: &HeldReservation,
    held: &HeldReservation,
    ours: bool,
) -> Result<Fit, String> {
    let name = &request.reservation;
    let known = planned.intent.as_ref().is_some_and(|open| open.request == *request);
    match &held.intent {
        Some(open) if open.request == *request && (ours || known) => Ok(Fit::Again(open.at)),
        Some(_) => Err(format!("somebody else is reserving {name}")),
        None if held.generation.checked_add(1) != Some(request.generation) => {
            Err(format!("{name} has moved on to generation {}", held.generation))
        }
        None if held.id.is_some() && held.id != planned.id => Err(format!("{name} is there by now")),
        None => Ok(Fit::First),
    }
}

/// Money that does not come back: nothing of the kind may be open or bought, and nothing may have been tried since the
/// plan was made.
fn may_buy(request: &PurchaseRequest, planned: &Ledger, now: &Ledger) -> Result<(), String> {
    for bought in &now.head.purchases {
        let other = &bought.intent.request;
        if other.offering == request.offering {
            return Err(format!("{} was tried before: {:?}", request.offering, bought.outcome));
        }
        if other.reservation != request.reservation {
            continue;
        }
        let blocks = match bought.outcome {
            Outcome::Open => true,
            Outcome::Bought(_) => other.extends.is_none() && request.extends.is_none(),
            Outcome::Refused(_) => false,
        };
        if blocks || !planned.head.purchases.contains(bought) {
            return Err(format!("{} has a purchase: {:?}", request.reservation, bought.outcome));
        }
    }
    Ok(())
}

/// Whether the ledger still waits for this answer.
fn answers(walk: &Walk<'_>, action: &Action, change: &LedgerChange, ledger: &Ledger) -> Guard {
    match (action, change) {
        (Action::Cloud(CloudAction::Launch(request)), LedgerChange::Launched { instance, .. }) => {
            let planned = walk.planned(&request.slot).instance;
            match ledger.slot(&request.slot) {
                Some(slot) if slot.instance.as_ref() == Some(instance) => Guard::Already,
                Some(slot) if slot.intent.as_ref().is_some_and(|open| open.request == *request) => Guard::Go,
                // Another operator sent the same request and was told no: what runs is still this slot's.
                Some(slot)
                    if slot.intent.is_none()
                        && slot.generation == request.generation
                        && (slot.instance.is_none() || slot.instance == planned) =>
                {
                    Guard::Go
                }
                _ => Guard::No(format!("{instance} runs, and the ledger does not expect it for {}", request.slot)),
            }
        }
        (Action::Cloud(CloudAction::Launch(request)), _) => match ledger.slot(&request.slot) {
            Some(slot) if slot.intent.as_ref().is_some_and(|open| open.request == *request) => Guard::Go,
            _ => Guard::Already,
        },
        (Action::Cloud(CloudAction::Reserve(request)), change) => {
            let held = ledger.head.reservations.get(&request.reservation);
            match (held, change) {
                (Some(held), _) if held.intent.as_ref().is_some_and(|open| open.request == *request) => Guard::Go,
                (Some(held), LedgerChange::Reserved { id, .. }) if held.id.as_ref() == Some(id) => Guard::Already,
                (_, LedgerChange::Reserved { id, .. }) => {
                    Guard::No(format!("{id} is there, and the ledger does not expect it for {}", request.reservation))
                }
                _ => Guard::Already,
            }
        }
        _ => Guard::Go,
    }
}
