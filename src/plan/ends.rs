//! Capacity that ends, and notices of the cloud: when a node has to be empty, and when to begin.

use jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::types::{PlanInput, Reason, WaitingOn};
use super::view::{PoolView, SlotView, View};
use super::wish::{MOVE, is_outdated};
use crate::effect::Thing;
use crate::fleet::pool::Source;
use crate::fleet::standing::TermsSpec;
use crate::ids::{ReservationId, ReservationName};
use crate::observed::{NoticeKind, ReservationState};
use crate::units::Duration;

/// Beside what work needs to save itself: the scheduler's lag, evictions, and some to spare.
const MARGIN: Duration = Duration::minutes(15);

/// Who goes within this time anyway is not moved by choice before: the next node would serve for an hour at most, and the
/// same work would be moved twice.
const SOON: SignedDuration = SignedDuration::from_hours(2);

/// So long a machine is not left because the cloud recommends it: the next one comes from where this one came from, and work
/// that was moved should have run for longer than the move took.
const SETTLES: SignedDuration = SignedDuration::from_hours(2);

/// A node that will be taken away.
#[derive(Clone, PartialEq, Debug)]
pub struct Ending {
    pub reason: Reason,
    /// When to begin to empty it.
    pub begins: Timestamp,
    /// From here on nobody is asked.
    pub hard_at: Timestamp,
    /// When it is taken away.
    pub at: Timestamp,
}

/// When a slot's node will be taken away, if that is known.
pub fn of(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<Ending> {
    let (_, instance) = slot.instance?;
    if let Some(notice) = &instance.notice
        && notice.why != NoticeKind::BlockEnd
    {
        let hard_at = notice.at.checked_sub(SignedDuration::from_secs(60)).ok()?;
        let begins = match notice.why {
            // Two minutes are not much: at once.
            NoticeKind::SpotInterruption => view.now,
            _ => notice.at.checked_sub(lead(view)).ok()?,
        };
        let reason = Reason::Notice { why: notice.why, at: notice.at };
        return Some(Ending { reason, begins, hard_at, at: notice.at });
    }
    let id = instance.reservation.as_ref()?;
    let seen = view.input.observed.cloud.reservations.seen().get(id).filter(|seen| seen.block)?;
    let end = seen.end?;
    let (name, kill) = block_of(view, pool, id.as_str());
    let at = end.checked_sub(kill.signed()).ok()?;
    let hard_at = at.checked_sub(MARGIN.signed()).ok()?.checked_add(SignedDuration::from_mins(10)).ok()?;
    Some(Ending {
        reason: Reason::CapacityEnds { reservation: name, at },
        begins: begins_at(view, end, kill),
        hard_at,
        at,
    })
}

/// What a node waits for that goes so soon that nothing is gained by moving it before.
pub fn near(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<WaitingOn> {
    let ending = of(view, pool, slot).filter(|ending| ending.begins.duration_since(view.now) < SOON)?;
    Some(WaitingOn::until(ending.begins, "it has to go then anyway, and nothing is gained by moving it before"))
}

/// Since when the cloud recommends to move a node, where that is followed. What was begun goes on when nobody says so any
/// more: a queue forgets, and half a drain is worse than either end. One that is outdated moves as its roll-out says, because
/// the next one is of another version; and one that has just come stays for a while, or a whole pool would move again and
/// again in a place where all are told to.
pub fn recommended(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<Timestamp> {
    let (id, instance) = slot.instance?;
    if is_outdated(view, pool, slot) {
        return None;
    }
    let told = view.input.observed.cloud.recommended.get(id).copied();
    match &slot.mark {
        Some(mark) if mark.why == MOVE => Some(told.unwrap_or(mark.since)),
        Some(_) => None,
        None => told.filter(|_| view.now.duration_since(instance.launched) >= SETTLES),
    }
}

/// Says of whatever the cloud recommends to move and is not moved, why it stays.
pub fn recommended_in_vain(view: &View<'_>, draft: &mut Draft) {
    let since = &view.input.observed.cloud.recommended;
    for (name, pool) in view.pools.iter().filter(|_| !since.is_empty()) {
        for slot in &pool.slots {
            let Some((id, at)) = slot.instance.and_then(|(id, _)| since.get_key_value(id)) else { continue };
            let Some((node, _)) = slot.node.filter(|_| slot.part.is_some() && slot.mark.is_none()) else { continue };
            let Some(instance) = slot.instance.map(|(_, instance)| instance) else { continue };
            let why = if is_outdated(view, pool, slot) {
                "it is outdated, and moves as the roll-out of its pool says".to_string()
            } else if let Some(until) = instance.launched.checked_add(SETTLES).ok().filter(|at| *at > view.now) {
                format!("it has just come, and stays until {until}")
            } else {
                continue;
            };
            let text = format!(
                "{} ({id}) is more likely than others to be interrupted, EC2 says since {at}; {why}: `tidewright drain \
                 {node}` empties it before",
                slot.id
            );
            draft.note(Thing::Pool((*name).clone()), text);
        }
    }
}

/// Whether a Capacity Block is over, so that what stood on it is meant to be gone.
pub fn is_over(input: &PlanInput, id: &ReservationId) -> bool {
    let reservations = &input.target.standing.reservations;
    let document = reservations.iter().find_map(|(name, spec)| match &spec.terms {
        TermsSpec::Block(block) if super::reservations::id_of(input, name).as_ref() == Some(id) => {
            Some((super::reservations::wanted(input, name, spec), block))
        }
        _ => None,
    });
    match input.observed.cloud.reservations.seen().get(id) {
        Some(seen) => {
            let kill = document.map_or(Duration::default(), |(_, block)| block.kill);
            let killed = seen.end.and_then(|end| end.checked_sub(kill.signed()).ok());
            seen.block && (seen.state == ReservationState::Ended || killed.is_some_and(|at| at <= input.now))
        }
        None => document.is_some_and(|(wanted, block)| super::blocks::is_past(&wanted, block)),
    }
}

/// When to begin to empty what stands on a block that ends.
pub fn begins_at(view: &View<'_>, end: Timestamp, kill: Duration) -> Timestamp {
    end.checked_sub(kill.signed()).and_then(|at| at.checked_sub(lead(view))).unwrap_or(Timestamp::MIN)
}

/// How long before the end: the longest time that any tier may take to save its work, and some to spare.
fn lead(view: &View<'_>) -> SignedDuration {
    let longest = view.standing.tiers.values().filter_map(|tier| tier.checkpoint.as_ref());
    let longest = longest.map(|checkpoint| checkpoint.deadline).max().unwrap_or_default();
    longest.plus(MARGIN).signed()
}

/// The document of the block that an instance stands on, and how early it is taken away.
fn block_of(view: &View<'_>, pool: &PoolView<'_>, id: &str) -> (ReservationName, Duration) {
    let names = pool.spec.capacity.iter().filter_map(|source| match source {
        Source::Reservation(name) => Some(name),
        _ => None,
    });
    for name in names {
        let Some(spec) = view.standing.reservations.get(name) else { continue };
        if let TermsSpec::Block(block) = &spec.terms
            && super::reservations::id_of(view.input, name).is_some_and(|held| held.as_str() == id)
        {
            return (name.clone(), block.kill);
        }
    }
    (id.into(), crate::hardware::catalogue().notices.ultraserver_kill)
}
