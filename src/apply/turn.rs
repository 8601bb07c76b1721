//! One try of one step.
//!
//! A try never sleeps: it ends, or it says when to come back, and the loop sleeps once for everybody. What a later try
//! must know is in its [`Memory`]; after a crash the ledger and the world say the same.

use jiff::{SignedDuration, Timestamp};

use super::gate::{self, Passed};
use super::record::{Guard, NotRecorded};
use super::walk::Walk;
use super::{guards, intents, retry, spend};
use crate::effect::{Action, CloudAction, ClusterAction, LaunchRequest, Ledger, LedgerChange, token};
use crate::ids::{Digest, InstanceId, SlotId};
use crate::mistakes::{Mistake, is_on};
use crate::plan::drain::whom_to_ask;
use crate::plan::{Step, Urgency};
use crate::provider::{Class, Done, ProviderError, Refusal};
use crate::status::EventKind;

/// How long before the call a removal may have been counted.
const COUNTED_FOR: SignedDuration = SignedDuration::from_secs(5);

/// What came of a try. As an error it ends the try early.
#[derive(Debug)]
pub(super) enum Turn {
    End(EventKind),
    Again {
        at: Timestamp,
        why: String,
    },
    /// The step waits for its fact from now on.
    Watch,
    /// Nothing was begun, because a person said stop.
    Stopped,
}

#[derive(Default, Debug)]
pub(super) struct Memory {
    /// Told of.
    pub started: bool,
    /// Since when it was tried.
    pub since: Option<Timestamp>,
    pub retries: u32,
    /// The approval that this run took its effects from.
    pub paid: Option<Digest>,
    /// It was done, or may have been: what was paid stays paid.
    pub done: bool,
    /// This run recorded the intent, so no earlier answer is missing.
    pub intended: bool,
    /// The answer is here and still has to be recorded.
    pub owed: Option<intents::Owed>,
    /// What was last said of its waiting.
    pub said: Option<String>,
}

pub(super) async fn turn(walk: &Walk<'_>, step: &Step, memory: &mut Memory) -> Turn {
    let turn = match attempt(walk, step, memory).await {
        Ok(()) => Turn::End(EventKind::Succeeded),
        Err(turn) => turn,
    };
    let over = matches!(turn, Turn::Stopped) || matches!(&turn, Turn::End(kind) if *kind != EventKind::Succeeded);
    if over && !memory.done {
        spend::refund(walk, step, memory).await;
    }
    if matches!(&turn, Turn::End(EventKind::Succeeded)) {
        spend::done(walk, step).await;
    }
    turn
}

async fn attempt(walk: &Walk<'_>, step: &Step, memory: &mut Memory) -> Result<(), Turn> {
    if memory.owed.is_some() {
        return intents::settle(walk, step, memory).await;
    }
    match &step.action {
        Action::Await(_) => {
            gate::facts(walk, step).await?;
            walk.start(step, memory);
            Err(Turn::Watch)
        }
        Action::Record(change) => remember(walk, step, memory, change).await,
        Action::Cloud(CloudAction::Launch(request)) => intents::launch(walk, step, memory, request).await,
        Action::Cloud(CloudAction::Reserve(request)) => intents::reserve(walk, step, memory, request).await,
        Action::Cloud(CloudAction::Purchase(request)) => intents::purchase(walk, step, memory, request).await,
        Action::Cloud(_) | Action::Cluster(_) => effect(walk, step, memory).await,
    }
}

/// An effect that is idempotent by value or by UID.
async fn effect(walk: &Walk<'_>, step: &Step, memory: &mut Memory) -> Result<(), Turn> {
    if let Passed::NothingToDo = gate::pass(walk, step, memory, &[]).await? {
        return Ok(());
    }
    let paid = spend::pay(walk, step, memory).await?;
    let counted = match &step.action {
        Action::Cloud(CloudAction::Terminate { slot, instance }) => count(walk, step, memory, slot, instance).await?,
        Action::Cloud(CloudAction::Reboot { slot, instance }) => holds(walk, step, memory, slot, instance).await?,
        _ => false,
    };
    // The records took their time, and what was seen before them may be over.
    if (paid || counted)
        && let Passed::NothingToDo = gate::pass(walk, step, memory, &[]).await?
    {
        return Ok(());
    }
    walk.start(step, memory);
    match send(walk, &step.action, memory).await {
        Ok(Done::Evicted { refused }) if !refused.is_empty() => Err(still_there(walk, &refused)),
        Ok(_) => Ok(()),
        Err(error) if error.class == Class::NotFound && wants_it_gone(&step.action) => Ok(()),
        Err(error) if error.class == Class::NoCapacity => match &step.action {
            // Whoever waits for its places asks another source meanwhile.
            Action::Cloud(CloudAction::Modify { reservation, .. }) => {
                let (reservation, at) = (reservation.clone(), walk.world.clock.now());
                intents::refuse(walk, step, memory, LedgerChange::ReserveRefused { reservation, at }, &error).await
            }
            action => Err(not_sooner(walk, action, retry::after(walk, step, memory, &error))),
        },
        Err(error) if error.class == Class::NotFound => {
            Err(Turn::End(EventKind::Skipped { fact: None, why: error.message }))
        }
        Err(error) => Err(not_sooner(walk, &step.action, retry::after(walk, step, memory, &error))),
    }
}

/// Calls the provider, and remembers that something may have come of it.
pub(super) async fn send(walk: &Walk<'_>, action: &Action, memory: &mut Memory) -> Result<Done, ProviderError> {
    walk.sent();
    let answer = match action {
        Action::Cloud(CloudAction::Launch(request)) if is_on(Mistake::LaunchWithoutToken) => {
            let now = walk.world.clock.now().to_string();
            let token = token(&walk.fleet, &request.slot, request.generation, &now.as_str().into());
            walk.world.cloud.perform(&CloudAction::Launch(LaunchRequest { token, ..request.clone() })).await
        }
        Action::Cloud(action) => walk.world.cloud.perform(action).await,
        Action::Cluster(action) => walk.world.cluster.perform(&dated(action, walk.world.clock.now())).await,
        Action::Record(_) | Action::Await(_) => unreachable!("nothing to send"),
    };
    memory.done |= match &answer {
        Ok(_) => true,
        Err(error) => error.class == Class::Ambiguous,
    };
    answer
}

/// A mark says since when it is there, and waits are counted from it: that is now, however old the plan is.
fn dated(action: &ClusterAction, now: Timestamp) -> ClusterAction {
    let mut action = action.clone();
    if let ClusterAction::Cordon { mark, .. }
    | ClusterAction::Ask { mark, .. }
    | ClusterAction::AskPods { mark, .. }
    | ClusterAction::Suspend { mark, .. } = &mut action
    {
        mark.since = now;
    }
    action
}

/// Whether the step has what it wants when the thing is not there.
fn wants_it_gone(action: &Action) -> bool {
    match action {
        Action::Cloud(action) => matches!(action, CloudAction::Terminate { .. } | CloudAction::Cancel { .. }),
        Action::Cluster(action) => matches!(
            action,
            ClusterAction::Delete(_)
                | ClusterAction::Disown(_)
                | ClusterAction::Uncordon { .. }
                | ClusterAction::Ask { .. }
                | ClusterAction::AskPods { .. }
                | ClusterAction::Suspend { .. }
                | ClusterAction::Shrink { .. }
                | ClusterAction::Resume { .. }
                | ClusterAction::Evict { .. }
        ),
        Action::Record(_) | Action::Await(_) => false,
    }
}

/// Pods that were refused: a person has to act, or it is tried again as long as patience lasts.
fn still_there(walk: &Walk<'_>, refused: &[Refusal]) -> Turn {
    let word = |refusal: &Refusal| format!("{}: {}", refusal.pod, refusal.why);
    let permanent: Vec<String> = refused.iter().filter(|refusal| refusal.permanent).map(word).collect();
    if permanent.is_empty() {
        let why = refused.iter().map(word).collect::<Vec<_>>().join("; ");
        let told = refused.iter().filter_map(|refusal| i64::try_from(refusal.retry_after_secs?).ok()).max();
        let told = SignedDuration::from_secs(told.unwrap_or_default());
        return Turn::Again { at: walk.now_plus(retry::EVICTION_PAUSE.max(told)), why };
    }
    let said = permanent.join("; ");
    let why = format!("{said}. {}", whom_to_ask(&said));
    Turn::End(EventKind::Failed { class: retry::name(Class::Other).into(), why })
}

/// Evictions keep their distance, whatever the error was.
fn not_sooner(walk: &Walk<'_>, action: &Action, turn: Turn) -> Turn {
    match (action, turn) {
        (Action::Cluster(ClusterAction::Evict { .. }), Turn::Again { at, why }) => {
            Turn::Again { at: at.max(walk.now_plus(retry::EVICTION_PAUSE)), why }
        }
        (_, turn) => turn,
    }
}

/// Looks whether the instance is the slot's, and remembers that it goes, counted where it goes by choice, before it
/// does: after a crash nobody takes it for lost. Says whether it wrote.
async fn count(
    walk: &Walk<'_>,
    step: &Step,
    memory: &mut Memory,
    slot: &SlotId,
    instance: &InstanceId,
) -> Result<bool, Turn> {
    let by_choice = step.urgency == Urgency::Chosen;
    let at = walk.world.clock.now();
    let guard = |ledger: &Ledger, _| {
        let found = ledger.slot(slot).cloned().unwrap_or_default();
        // A crash between this record and the call: the same node is counted once.
        let is_known = if by_choice { is_counted(ledger, slot, at) } else { found.leaving };
        match found.instance {
            Some(held) if held == *instance && is_known => Guard::Already,
            Some(held) if held == *instance => Guard::Go,
            _ => Guard::No(format!("{slot} does not hold {instance} any more")),
        }
    };
    let slot_id = slot.clone();
    let change =
        if by_choice { LedgerChange::Removing { slot: slot_id, at } } else { LedgerChange::Leaving { slot: slot_id } };
    walk.record(&[change], &guard).await.map_err(|error| error.turn(walk, step, memory))
}

/// Whether the removal of the slot's node is counted as of now: an earlier node of the slot was another one, and a try
/// that came to nothing some time ago is not when it goes.
fn is_counted(ledger: &Ledger, slot: &SlotId, now: Timestamp) -> bool {
    let since = ledger.slot(slot).and_then(|found| found.launched).unwrap_or(Timestamp::MIN);
    let removed = ledger.pools.get(&slot.pool).into_iter().flat_map(|pool| &pool.removed);
    let mut removed = removed.filter(|(_, at)| now.duration_since(*at) < COUNTED_FOR);
    removed.any(|(index, at)| *index == slot.index && *at >= since)
}

/// Looks whether the instance is the slot's.
async fn holds(
    walk: &Walk<'_>,
    step: &Step,
    memory: &mut Memory,
    slot: &SlotId,
    instance: &InstanceId,
) -> Result<bool, Turn> {
    let found = walk.slot(slot).await.map_err(|error| retry::after(walk, step, memory, &error))?;
    if found.instance.as_ref() == Some(instance) {
        // To ask took its time, in which somebody else may have booted the machine and opened its node.
        return Ok(true);
    }
    let why = format!("{slot} does not hold {instance} any more");
    Err(Turn::End(EventKind::Skipped { fact: None, why }))
}

async fn remember(walk: &Walk<'_>, step: &Step, memory: &mut Memory, change: &LedgerChange) -> Result<(), Turn> {
    gate::pass(walk, step, memory, &[]).await?;
    spend::pay(walk, step, memory).await?;
    walk.start(step, memory);
    let recorded = match change {
        LedgerChange::Renamed { from, to } => guards::rename(walk, from, to).await,
        // It is counted when it happens: between the plan and this moment lies a whole drain.
        LedgerChange::Removing { slot, .. } => {
            let at = walk.world.clock.now();
            let change = LedgerChange::Removing { slot: slot.clone(), at };
            let guard = |ledger: &Ledger, _| if is_counted(ledger, slot, at) { Guard::Already } else { Guard::Go };
            walk.record(&[change], &guard).await
        }
        _ => match guards::other_side(walk, change).await {
            Ok(()) => walk.record(std::slice::from_ref(change), &|ledger, _| guards::of(walk, change, ledger)).await,
            Err(moved) => Err(moved),
        },
    };
    match recorded {
        Ok(_) => Ok(()),
        Err(NotRecorded::Moved(why)) => Err(Turn::End(EventKind::Skipped { fact: None, why })),
        Err(NotRecorded::Failed(error)) => Err(retry::after(walk, step, memory, &error)),
    }
}
