//! Reservations: launched into only as far as they hold, made once, changed only where they are ours to change.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::Found;
use super::case::{Case, slot};
use super::slots::{is_resend, launches};
use crate::effect::{Action, CloudAction, Fact, LaunchRequest, ReserveRequest, Subject, is_kin};
use crate::fleet::pool::Source;
use crate::fleet::reservation::Manage;
use crate::fleet::standing::{ReservationSpec, TermsSpec};
use crate::ids::{FleetUid, PoolName, ReservationId, ReservationName, Token};
use crate::observed::{InstanceSeen, InstanceState, Market, ReservationSeen, ReservationState};

const HOLDS: &str = "a reservation is not oversubscribed";
const OURS: &str = "a reservation is made once and changed only as its document says";

/// Launches into a reservation are no more than its free places and those that this plan frees; those beyond the free
/// ones wait until a place is seen free. Launches on demand and spot are no more than the pool's `max`.
pub fn reservations_hold_it(case: &Case<'_>, found: &mut Found) {
    if launches(case).next().is_none() {
        return;
    }
    let instances = case.seen().cloud.instances.seen();
    let tokens: BTreeSet<&Token> = instances.values().filter_map(|seen| seen.token.as_ref()).collect();
    let kills = kills(case);
    let mut wanted: BTreeMap<&ReservationId, Wanted> = BTreeMap::new();
    for (at, step, request) in launches(case) {
        let Some(id) = &request.reservation else { continue };
        // The answer to a request that was sent before: its place is taken already.
        if tokens.contains(&request.token) {
            continue;
        }
        let subject = Subject::Reservation(id.clone());
        match case.reservation(id) {
            // It was judged when it was first sent, and is repeated until there is an answer, whatever is listed now.
            None if is_resend(case, request) => {}
            None => found.step(HOLDS, &step.id, format!("{id} was not seen")),
            Some(seen) => {
                if request.zone != seen.zone || request.instance_type != seen.instance_type {
                    found.step(HOLDS, &step.id, format!("{id} is in another zone or of another type"));
                }
                if !is_usable(case, at, &subject, seen, kills.get(id).copied()) && !is_resend(case, request) {
                    found.step(HOLDS, &step.id, format!("{id} is not active, or is over before a node could serve"));
                }
                // What is sent again may have its place already, unlisted: it takes no other, and leaves none to others.
                if is_resend(case, request) {
                    continue;
                }
                let sum = wanted.entry(id).or_default();
                sum.all += 1;
                sum.at_once += u32::from(!waits_for_a_place(case, at, id, &subject));
            }
        }
    }
    let (freed, grown, in_flight) = (freed(case), grown(case), in_flight(case, &tokens));
    let of = |counts: &BTreeMap<&ReservationId, u32>, id: &ReservationId| counts.get(id).copied().unwrap_or(0);
    for (id, sum) in wanted {
        let Some(seen) = case.reservation(id) else { continue };
        let available = seen.available.saturating_sub(of(&in_flight, id));
        let room = available + of(&freed, id) + of(&grown, id);
        // One that is to hold fewer is filled no further than that.
        let stay = (seen.total + of(&in_flight, id)).saturating_sub(seen.available + of(&freed, id));
        let written = written(case, id).filter(|nodes| *nodes < seen.total);
        if sum.all > room {
            found.plan(HOLDS, format!("{} launches into {id}, which will have {room} places free", sum.all));
        } else if let Some(nodes) = written.filter(|nodes| stay + sum.all > *nodes) {
            let what = format!("{} launches into {id}, where {stay} stay and which is to hold {nodes}", sum.all);
            found.plan(HOLDS, what);
        } else if sum.at_once > available {
            let what = format!("{} launches into {id} do not wait for a place, and it has {available}", sum.at_once);
            found.plan(HOLDS, what);
        }
    }
    by_the_hour(case, found);
}

/// How many nodes its document gives a reservation that is ours to change.
fn written(case: &Case<'_>, id: &ReservationId) -> Option<u32> {
    let ours = case.standing().reservations.iter().filter(|(_, spec)| {
        spec.manage == Manage::Full && matches!(spec.terms, TermsSpec::OnDemand { cancel: false, .. })
    });
    ours.filter(|(name, _)| case.reservation_id(name).as_ref() == Some(id)).map(|(_, spec)| spec.nodes).next()
}

#[derive(Default)]
struct Wanted {
    all: u32,
    /// Without waiting for a place.
    at_once: u32,
}

/// How long before its end the nodes of each Capacity Block are taken away.
fn kills(case: &Case<'_>) -> BTreeMap<ReservationId, SignedDuration> {
    let blocks = case.standing().reservations.iter().filter_map(|(name, spec)| match &spec.terms {
        TermsSpec::Block(block) => Some((case.reservation_id(name)?, block.kill.signed())),
        TermsSpec::OnDemand { .. } => None,
    });
    blocks.collect()
}

fn is_usable(
    case: &Case<'_>,
    at: usize,
    subject: &Subject,
    seen: &ReservationSeen,
    kill: Option<SignedDuration>,
) -> bool {
    let active = |fact: &Fact| matches!(fact, Fact::Active(_)) && fact.subjects().contains(subject);
    let over = seen.end.and_then(|end| end.checked_sub(kill.unwrap_or_default()).ok());
    let soon = matches!(seen.state, ReservationState::Pending | ReservationState::Scheduled);
    (seen.state == ReservationState::Active || (soon && case.assured(at, subject, active)))
        && over.is_none_or(|over| case.now() < over)
}

/// A place is seen free just before, or an instance that held one is seen gone.
fn waits_for_a_place(case: &Case<'_>, at: usize, id: &ReservationId, subject: &Subject) -> bool {
    let free = |fact: &Fact| matches!(fact, Fact::Free { reservation, places } if reservation == id && *places > 0);
    let held_one = |fact: &Fact| match fact {
        Fact::Gone(instance) => case.instance(instance).is_some_and(|seen| seen.reservation.as_ref() == Some(id)),
        _ => false,
    };
    if case.assured(at, subject, free) || case.steps[at].requires.iter().any(held_one) {
        return true;
    }
    let Some(instance) =
        slot(&case.steps[at].action).and_then(|slot| case.ledger_slot(slot)).and_then(|slot| slot.instance.as_ref())
    else {
        return false;
    };
    case.assured(at, &Subject::Instance(instance.clone()), held_one)
}

/// Places that come free: terminated by this plan, or on their way out already.
fn freed<'a>(case: &Case<'a>) -> BTreeMap<&'a ReservationId, u32> {
    let mut freed: BTreeMap<&ReservationId, u32> = BTreeMap::new();
    let mut free = |seen: &'a InstanceSeen| {
        if let Some(id) = &seen.reservation {
            *freed.entry(id).or_default() += 1;
        }
    };
    let mut counted = BTreeSet::new();
    for (_, step) in case.each() {
        if let Action::Cloud(CloudAction::Terminate { instance, .. }) = &step.action
            && let Some(seen) = case.instance(instance).filter(|seen| seen.state.is_live())
            && counted.insert(instance)
        {
            free(seen);
        }
    }
    for (id, seen) in case.seen().cloud.instances.seen() {
        if seen.state == InstanceState::ShuttingDown && !counted.contains(id) {
            free(seen);
        }
    }
    freed
}

/// Places that this plan adds.
fn grown<'a>(case: &Case<'a>) -> BTreeMap<&'a ReservationId, u32> {
    let mut grown: BTreeMap<&ReservationId, u32> = BTreeMap::new();
    for (_, step) in case.each() {
        if let Action::Cloud(CloudAction::Modify { id, nodes, .. }) = &step.action
            && let Some(seen) = case.reservation(id)
        {
            let most = grown.entry(id).or_default();
            *most = (*most).max(nodes.saturating_sub(seen.total));
        }
    }
    grown
}

/// Requests that nobody answered and no instance explains: each may hold a place. One that this plan changes is counted
/// as what it is changed to.
fn in_flight<'a>(case: &Case<'a>, tokens: &BTreeSet<&Token>) -> BTreeMap<&'a ReservationId, u32> {
    let slots = case.input.ledger.pools.values().flat_map(|pool| pool.slots.values());
    let open: Vec<&LaunchRequest> =
        slots.filter_map(|slot| slot.intent.as_ref()).map(|intent| &intent.request).collect();
    let mut unknown: BTreeMap<&ReservationId, u32> = BTreeMap::new();
    if open.is_empty() {
        return unknown;
    }
    let another = launches(case).map(|(_, _, request)| request).filter(|request| !is_resend(case, request));
    let another: BTreeSet<&Token> = another.map(|request| &request.token).collect();
    for request in open.into_iter().filter(|one| !tokens.contains(&one.token) && !another.contains(&one.token)) {
        if let Some(id) = &request.reservation {
            *unknown.entry(id).or_default() += 1;
        }
    }
    unknown
}

fn by_the_hour(case: &Case<'_>, found: &mut Found) {
    let mut counts: BTreeMap<(&PoolName, Market), u32> = BTreeMap::new();
    for (_, _, request) in launches(case) {
        if matches!(request.market, Market::OnDemand | Market::Spot) && !is_resend(case, request) {
            *counts.entry((&request.slot.pool, request.market)).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return;
    }
    let mut going: BTreeSet<_> = BTreeSet::new();
    for (_, step) in case.each() {
        if let Action::Cloud(CloudAction::Terminate { instance, .. }) = &step.action {
            going.insert(instance);
        }
    }
    for (id, seen) in case.seen().cloud.instances.seen() {
        if let Some(slot) = case.slot_of_instance(id).filter(|_| seen.state.serves() && !going.contains(id))
            && let Some((pool, _)) = case.standing().pools.get_key_value(&slot.pool)
            && let Some(count) = counts.get_mut(&(pool, seen.market))
        {
            *count += 1;
        }
    }
    for ((pool, market), count) in counts {
        let sources = case.pool(pool).map_or(&[][..], |pool| pool.capacity.as_slice());
        let max = sources.iter().map(|source| match source {
            Source::OnDemand { max } if market == Market::OnDemand => *max,
            Source::Spot { max, .. } if market == Market::Spot => *max,
            _ => 0,
        });
        let max = max.fold(0, u32::saturating_add);
        if count > max {
            found.plan(HOLDS, format!("pool {pool} would have {count} nodes {market:?}, and may have {max}"));
        }
    }
}

/// Made only where there is none, repeated byte for byte, changed to what the document says, cancelled only where it
/// says so; nothing of what another tool manages, and no Capacity Block, is changed.
pub fn reservations_are_ours(case: &Case<'_>, found: &mut Found) {
    let mut made: BTreeSet<&ReservationName> = BTreeSet::new();
    for (_, step) in case.each() {
        let Action::Cloud(action) = &step.action else { continue };
        let (name, id) = match action {
            CloudAction::Reserve(request) => (&request.reservation, None),
            CloudAction::Modify { reservation, id, .. } | CloudAction::Cancel { reservation, id } => {
                (reservation, Some(id))
            }
            _ => continue,
        };
        let Some(spec) = case.standing().reservations.get(name) else {
            found.step(OURS, &step.id, format!("there is no document for reservation {name}"));
            continue;
        };
        if spec.manage != Manage::Full {
            found.step(OURS, &step.id, format!("reservation {name} is only observed"));
        }
        let TermsSpec::OnDemand { cancel, .. } = &spec.terms else {
            found.step(OURS, &step.id, format!("{name} is a Capacity Block"));
            continue;
        };
        let wrong = match action {
            CloudAction::Reserve(request) if made.insert(name) => wrong_to_make(case, request, spec),
            CloudAction::Reserve(_) => Some("it is made twice"),
            _ if id != case.reservation_id(name).as_ref() => Some("this is not its id"),
            _ if id.and_then(|id| case.reservation(id)).is_none_or(|seen| seen.block) => {
                Some("it was not seen, or is a Capacity Block")
            }
            CloudAction::Cancel { .. } if !cancel => Some("its document does not say `cancel`"),
            CloudAction::Modify { nodes, .. } if *nodes != spec.nodes => Some("its document says another size"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            found.step(OURS, &step.id, format!("{name}: {wrong}"));
        }
    }
}

fn wrong_to_make(case: &Case<'_>, request: &ReserveRequest, spec: &ReservationSpec) -> Option<&'static str> {
    let name = &request.reservation;
    let TermsSpec::OnDemand { cancel, end, matching } = &spec.terms else { return Some("it is a Capacity Block") };
    let held = case.input.ledger.head.reservations.get(name);
    if let Some(open) = held.and_then(|held| held.intent.as_ref()) {
        return (open.request != *request).then_some("it has an open request, and this is another one");
    }
    let known = case.reservation_id(name).and_then(|id| case.reservation(&id));
    let live = known.is_some_and(|seen| seen.state != ReservationState::Ended);
    let mut all = case.seen().cloud.reservations.seen().values();
    let fits = request.nodes == spec.nodes
        && request.instance_type == spec.shape.instance_type
        && spec.zone.as_ref().is_none_or(|zone| *zone == request.zone)
        && request.end == *end
        && request.matching == *matching;
    if live || all.any(|seen| is_tagged(case, seen, name)) {
        Some("it is there already")
    } else if spec.id.is_some() {
        Some("its document names one that exists")
    } else if *cancel {
        Some("its document gives it back")
    } else if request.generation != held.map_or(1, |held| held.generation + 1) {
        Some("its generation is not the next one")
    } else {
        (!fits).then_some("the request is not what the document says")
    }
}

fn is_tagged(case: &Case<'_>, seen: &ReservationSeen, name: &ReservationName) -> bool {
    let ours = |whose: &FleetUid| whose == case.fleet() || is_kin(case.fleet(), whose);
    let tag = seen.tag.as_ref().filter(|tag| ours(&tag.fleet) && tag.reservation == *name);
    tag.is_some() && seen.state != ReservationState::Ended
}
