//! Capacity Blocks: offers are shown, and bought only with an approval that matches.
//!
//! A purchase has no token and cannot be taken back. So: never unless the cloud was read as a whole, never while one
//! is unanswered, never twice, and never on our own account: the document names the offer and its fee, or gives a
//! mandate for one. What was refused needs another word of a person.

use std::collections::BTreeMap;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::draft::{Course, Draft};
use super::reservations::{Located, Wanted};
use super::steps::{course, step};
use super::types::{Consent, Offer, Reason, WaitingOn};
use crate::effect::{
    Action, Amount, CloudAction, Effects, Fact, LedgerChange, Outcome, Purchase, PurchaseRequest, Verb,
};
use crate::fleet::pool::Source;
use crate::fleet::reservation::{Approval, BlockWindow, Manage};
use crate::fleet::standing::{BlockSpec, PoolSpec};
use crate::ids::{OfferingId, PoolName, ReservationId, ReservationName, Zone};
use crate::observed::{OfferingSeen, ReservationSeen, ReservationState};
use crate::units::{Duration, Usd};

/// A block that starts at once ends at the usual time of day: it may be this much shorter or longer than asked for.
const SLACK: SignedDuration = SignedDuration::from_hours(24);
/// EC2 sells an extension from so long before the end until so long before it.
const EXTENDS_FROM: SignedDuration = SignedDuration::from_hours(56 * 24);
const EXTENDS_UNTIL: SignedDuration = SignedDuration::from_hours(1);

pub fn plan(wanted: &Wanted<'_>, block: &BlockSpec, draft: &mut Draft) {
    match wanted.locate() {
        Located::At(id, Some(seen)) => there(wanted, block, &id, seen, draft),
        Located::At(id, None) if is_past(wanted, block) => {
            draft.note(wanted.on(), format!("{id} is over, and not listed any more; no other one is bought"));
        }
        Located::At(id, None) => wanted.not_listed(&id, false, draft),
        Located::Nowhere => {
            let buying = Buying::new_block(wanted, block);
            let what = format!("buy a block of {}, {}", wanted.size(), block.duration);
            if let Some(gap) = wanted.input.observed.cloud.reservations.gap() {
                return wanted.hold(what, WaitingOn::Unread(gap.clone()), draft);
            }
            if bought(wanted, None).next().is_some() {
                // It was bought, and is not listed any more: it is over, or not listed yet. Either way, not again.
                let what = format!("the block of {} was bought and is not listed: it is not bought again", wanted.name);
                return draft.note(wanted.on(), what);
            }
            if let Some(person) = wanted.spent() {
                return wanted.person(what, person, draft);
            }
            if buying.is_too_late(wanted.input.now) {
                let person = "the dates on which it may start are over: write others".into();
                return wanted.person(what, person, draft);
            }
            buying.decide(wanted, what, draft);
        }
    }
}

/// Whether a block that is not listed was there and is over, as far as a whole read can tell.
pub fn is_past(wanted: &Wanted<'_>, block: &BlockSpec) -> bool {
    let now = wanted.input.now;
    let whole = wanted.input.observed.cloud.reservations.whole().is_some();
    let said = block.window.as_ref().is_some_and(|window| window.to.0 <= now);
    let ordered = bought(wanted, None).map(|purchase| purchase.intent.at).max();
    // Not listed a moment after it was bought, or over: it lasts at least as long as the document says.
    let lasted = ordered.and_then(|at| at.checked_add(block.duration.signed()).ok()).is_some_and(|end| end <= now);
    whole && (said || lasted)
}

/// A block that is there cannot be changed; it can be lengthened.
fn there(wanted: &Wanted<'_>, block: &BlockSpec, id: &ReservationId, seen: &ReservationSeen, draft: &mut Draft) {
    let open = purchases(wanted, None).find(|purchase| purchase.outcome == Outcome::Open);
    match open {
        Some(purchase) => {
            let change = LedgerChange::Purchased { request: purchase.intent.request.clone(), id: id.clone() };
            draft.courses.push(wanted.remember("purchased", id.as_str(), format!("{id} was bought"), change));
        }
        None => wanted.adopt(id, draft),
    }
    let size = wanted.size();
    if !seen.block {
        let what = format!("{id} is an on-demand reservation: write `onDemand` instead of `capacityBlock`");
        return wanted.person(format!("a Capacity Block of {size}"), what, draft);
    }
    match &seen.state {
        ReservationState::Ended => return draft.note(wanted.on(), format!("{id} is over; no other one is bought")),
        ReservationState::Other(state) => {
            let what = format!("{id} is in a state that we do not know ({state}): it is kept, and not used");
            return wanted.person(format!("{id}, active"), what, draft);
        }
        _ => {}
    }
    if wanted.immutable(id, seen).is_some() || seen.total != wanted.spec.nodes {
        let what = format!(
            "{id} holds {} × {} in {}, and a block cannot be changed: write what it is, and another Reservation for \
             the rest",
            seen.total, seen.instance_type, seen.zone
        );
        wanted.person(size, what, draft);
    }
    window(wanted, block, id, seen, draft);
    // One order after the other: the first is answered by the record above.
    if let Some(extend) = &block.extend
        && wanted.spec.manage == Manage::Full
        && open.is_none()
        && wanted.is_known(id)
    {
        lengthen(wanted, block, extend, id, seen, draft);
    }
}

/// Pools count on the hours that the document says, so it has to say what the cloud does. What was bought cannot be
/// changed: who writes other hours afterwards is told.
fn window(wanted: &Wanted<'_>, block: &BlockSpec, id: &ReservationId, seen: &ReservationSeen, draft: &mut Draft) {
    let (Some(start), Some(end)) = (seen.start, seen.end) else { return };
    let lasts = Duration::secs(u64::try_from(end.duration_since(start).as_secs()).unwrap_or(0));
    let now = format!("`window: {{from: {start}, to: {end}}}`");
    let (said, write) = otherwise(wanted, block, id, (start, end));
    if !said.is_empty() {
        let what = format!(
            "{id} was bought from {start} to {end}, {lasts}, and a purchase cannot be changed: write {}; for other \
             hours, write another Reservation",
            write.join(" and ")
        );
        return wanted.person(format!("a Capacity Block with {}", said.join(" and ")), what, draft);
    }
    match &block.window {
        None => {
            let text = format!(
                "{id} is bought, and its pools use it while it runs; write `id: {id}` and {now}, so that readers know too"
            );
            draft.note(wanted.on(), text);
        }
        // It was lengthened since.
        Some(window) if (window.from.0, window.to.0) != (start, end) => {
            draft.note(wanted.on(), format!("{id} runs at other times than its document says: write {now}"));
        }
        Some(_) => {}
    }
}

/// What the document says of the hours that is not so, and what to write instead. Both are empty where it is as bought,
/// or as bought and lengthened since.
fn otherwise(
    wanted: &Wanted<'_>,
    block: &BlockSpec,
    id: &ReservationId,
    (start, end): (Timestamp, Timestamp),
) -> (Vec<String>, Vec<String>) {
    let (mut said, mut write) = (Vec::new(), Vec::new());
    let lengthened = bought(wanted, Some(id)).next().is_some();
    let lasts = end.duration_since(start);
    let near = |asked: SignedDuration| lasts.checked_sub(asked).is_some_and(|off| off.abs() < SLACK);
    let more = block.extend.as_ref().filter(|_| lengthened).map(|extend| extend.by.signed());
    let asked = block.duration.signed();
    if !near(asked) && !more.is_some_and(|more| near(asked.saturating_add(more))) {
        let lasts = Duration::secs(u64::try_from(lasts.as_secs()).unwrap_or(0));
        said.push(format!("`duration: {}`", block.duration));
        write.push(format!("`duration: {lasts}`"));
    }
    let day = TimeZone::UTC.to_datetime(start).date();
    let between = block.start.as_ref().filter(|between| day < between.from.0 || between.to.0 < day);
    if let Some(between) = between {
        said.push(format!("`startBetween: {{from: {}, to: {}}}`", between.from.0, between.to.0));
        write.push(format!("`startBetween: {{from: {day}, to: {day}}}`"));
    }
    let is_other = |window: &&BlockWindow| window.from.0 != start || (window.to.0 != end && !lengthened);
    if let Some(window) = block.window.as_ref().filter(is_other) {
        said.push(format!("`window: {{from: {}, to: {}}}`", window.from.0, window.to.0));
        write.push(format!("`window: {{from: {start}, to: {end}}}`"));
    }
    (said, write)
}

fn lengthen(
    wanted: &Wanted<'_>,
    block: &BlockSpec,
    extend: &crate::fleet::reservation::Extend,
    id: &ReservationId,
    seen: &ReservationSeen,
    draft: &mut Draft,
) {
    let Some(end) = seen.end else { return };
    let buying = Buying {
        extends: Some((id.clone(), end)),
        duration: extend.by,
        days: None,
        max: block.max_upfront,
        approval: extend.approval.as_ref(),
    };
    if bought(wanted, Some(id)).next().is_some() {
        return;
    }
    let now = wanted.input.now;
    let what = format!("lengthen {id} by {}", extend.by);
    let edge = |before: SignedDuration| end.checked_sub(before).unwrap_or(end);
    if now >= edge(EXTENDS_UNTIL) {
        return draft.note(wanted.on(), format!("{id} ends at {end}: too late to lengthen it"));
    }
    if now < edge(EXTENDS_FROM) {
        if buying.approval.is_some() {
            wanted.hold(
                what,
                WaitingOn::until(edge(EXTENDS_FROM), "a Capacity Block is lengthened only in its last 56 days"),
                draft,
            );
        }
        return;
    }
    if buying.approval.is_none() {
        return buying.show(wanted, None, draft);
    }
    buying.decide(wanted, what, draft);
}

/// What may be bought, and who says so.
struct Buying<'a> {
    /// The block that is lengthened, and when it ends now.
    extends: Option<(ReservationId, Timestamp)>,
    duration: Duration,
    /// From when until when it may start.
    days: Option<(Timestamp, Timestamp)>,
    max: Usd,
    approval: Option<&'a Approval>,
}

impl<'a> Buying<'a> {
    fn new_block(wanted: &Wanted<'_>, block: &'a BlockSpec) -> Self {
        let approval = block.approval.as_ref().filter(|_| wanted.spec.manage == Manage::Full);
        let days = block.start.as_ref().and_then(|start| {
            // Offers are dated in UTC.
            let midnight = |date: jiff::civil::Date| {
                date.to_datetime(Time::midnight()).to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
            };
            Some((midnight(start.from.0)?, midnight(start.to.0.tomorrow().ok()?)?))
        });
        Self { extends: None, duration: block.duration, days, max: block.max_upfront, approval }
    }

    fn is_too_late(&self, now: Timestamp) -> bool {
        self.days.is_some_and(|(_, to)| now >= to)
    }

    /// Buys, or says why not.
    fn decide(&self, wanted: &Wanted<'_>, what: String, draft: &mut Draft) {
        let extends = self.extends.as_ref().map(|(id, _)| id);
        if let Some(open) = purchases(wanted, extends).find(|purchase| purchase.outcome == Outcome::Open) {
            let PurchaseRequest { offering, fee, .. } = &open.intent.request;
            let person = format!(
                "{offering} for ${fee} was ordered at {} and nobody answered. It may be bought: look for it in the \
                 account before anything else is ordered. It is taken up as soon as it shows with our tag",
                open.intent.at
            );
            self.show(wanted, None, draft);
            return wanted.person(what, person, draft);
        }
        match self.choose(wanted, &taken(wanted, draft)) {
            Ok(offer) => {
                self.show(wanted, Some(offer), draft);
                draft.courses.push(self.purchase(wanted, what, offer));
            }
            Err(waiting_on) => {
                self.show(wanted, None, draft);
                let mut held = super::steps::held(&wanted.on(), what, Reason::Wanted, waiting_on);
                if let (true, Some(Approval::Mandate(mandate))) = (held.waiting_on.is_part_of_it(), self.approval) {
                    let amount =
                        Amount { usd_upfront: mandate.up_to_usd.min(self.max), ..Amount::count(wanted.spec.nodes) };
                    held.effects = Effects::one(Verb::Purchase, wanted.on(), amount);
                }
                draft.held.push(held);
            }
        }
    }

    fn choose<'o>(&self, wanted: &Wanted<'o>, taken: &Taken) -> Result<&'o OfferingSeen, WaitingOn> {
        let person = |text: String| Err(WaitingOn::Person(text));
        let extends = self.extends.as_ref().map(|(id, _)| id);
        let refused = |purchase: &&Purchase| matches!(purchase.outcome, Outcome::Refused(_));
        let mut refused = purchases(wanted, extends).filter(refused);
        let Some(approval) = self.approval else {
            return person("a person approves a purchase: write `approval: {offering: {id, feeUsd}}`".into());
        };
        match approval {
            Approval::Offering(one) => {
                if let Some(no) = refused.find(|no| no.intent.request.offering.as_str() == one.id) {
                    return person(format!("{} was refused ({}): approve another offering", one.id, why(no)));
                }
                let Some(offer) = self.offers(wanted).find(|offer| offer.id.as_str() == one.id) else {
                    self.unread(wanted)?;
                    return person(format!("{} is not offered any more: approve another offering", one.id));
                };
                if let Some(other) = taken.get(&offer.id) {
                    return person(format!("{} is for reservation/{other}: approve another offering", offer.id));
                }
                if offer.fee != one.fee_usd {
                    let (id, fee, approved) = (&offer.id, offer.fee, one.fee_usd);
                    return person(format!("{id} costs ${fee} now, and ${approved} was approved: approve the new fee"));
                }
                match self.mismatch(wanted, offer) {
                    Some(why) => person(format!("{} is not what the document asks for: {why}", offer.id)),
                    None => unsold(wanted, offer),
                }
            }
            Approval::Mandate(mandate) => {
                if let Some(no) = refused.next() {
                    let text = format!("{} was refused ({})", no.intent.request.offering, why(no));
                    return person(format!("the mandate was for one purchase, and {text}: approve an offering"));
                }
                if wanted.input.now >= mandate.expires.0 {
                    return person(format!("the mandate expired at {}: give another one", mandate.expires.0));
                }
                self.unread(wanted)?;
                let fits = self
                    .offers(wanted)
                    .filter(|offer| offer.fee <= mandate.up_to_usd && self.mismatch(wanted, offer).is_none())
                    .filter(|offer| !taken.contains_key(&offer.id));
                let cheapest = fits.min_by(|a, b| (a.fee, a.start, &a.id).cmp(&(b.fee, b.start, &b.id)));
                let what = format!("an offer that matches, up to ${}", mandate.up_to_usd.min(self.max));
                cheapest.ok_or(WaitingOn::Capacity { what, retry: None }).and_then(|offer| unsold(wanted, offer))
            }
        }
    }

    fn unread(&self, wanted: &Wanted<'_>) -> Result<(), WaitingOn> {
        match wanted.input.observed.cloud.offerings.gap() {
            Some(gap) => Err(WaitingOn::Unread(gap.clone())),
            None => Ok(()),
        }
    }

    fn offers<'o>(&self, wanted: &Wanted<'o>) -> impl Iterator<Item = &'o OfferingSeen> {
        let all = wanted.input.observed.cloud.offerings.seen().get(wanted.name);
        let extends = self.extends.as_ref().map(|(id, _)| id.clone());
        all.into_iter().flatten().filter(move |offer| offer.extends == extends)
    }

    /// What about an offer is not as the document asks.
    fn mismatch(&self, wanted: &Wanted<'_>, offer: &OfferingSeen) -> Option<String> {
        let spec = wanted.spec;
        if offer.instance_type != spec.shape.instance_type {
            return Some(format!("it is for {}", offer.instance_type));
        }
        if offer.nodes != spec.nodes {
            return Some(format!("it is for {} nodes", offer.nodes));
        }
        if let Some(zone) = spec.zone.as_ref().filter(|zone| **zone != offer.zone) {
            return Some(format!("it is not in {zone}"));
        }
        if let Some((pool, zones)) = shut_out(wanted, offer).filter(|_| offer.extends.is_none()) {
            return Some(format!("pool/{pool} has subnets in {zones} alone, and could not use it"));
        }
        let lasts = offer.end.duration_since(offer.start);
        let asked = self.duration.signed();
        if lasts <= asked.saturating_sub(SLACK) || lasts >= asked.saturating_add(SLACK) {
            let lasts = Duration::secs(u64::try_from(lasts.as_secs()).unwrap_or(0));
            return Some(format!("it lasts {lasts}"));
        }
        if self.days.is_some_and(|(from, to)| offer.start < from || offer.start >= to) {
            return Some("it starts outside `startBetween`".into());
        }
        if self.extends.as_ref().is_some_and(|(_, end)| offer.start != *end) {
            return Some("it does not begin where the block ends".into());
        }
        (offer.fee > self.max).then(|| format!("it costs more than maxUpfrontUsd, ${}", self.max))
    }

    /// Offers of the right kind, the cheapest first, each with what became of it.
    fn show(&self, wanted: &Wanted<'_>, chosen: Option<&OfferingSeen>, draft: &mut Draft) {
        let taken = taken(wanted, draft);
        let mut offers: Vec<&OfferingSeen> = self.offers(wanted).collect();
        offers.sort_by(|a, b| (a.fee, a.start, &a.id).cmp(&(b.fee, b.start, &b.id)));
        for offer in offers {
            let verdict = match (self.mismatch(wanted, offer), chosen) {
                (None, _) if taken.contains_key(&offer.id) => format!("for reservation/{}", taken[&offer.id]),
                (None, Some(one)) if one.id == offer.id => "bought by this plan".into(),
                (None, Some(one)) => format!("not needed: {} is bought", one.id),
                (Some(why), _) => why,
                (None, None) => {
                    format!("matches: approval: {{offering: {{id: {}, feeUsd: {}}}}}", offer.id, offer.fee)
                }
            };
            draft.offers.push(Offer {
                reservation: wanted.name.clone(),
                offering: offer.id.clone(),
                extends: offer.extends.clone(),
                zone: offer.zone.clone(),
                nodes: offer.nodes,
                start: offer.start,
                end: offer.end,
                fee: offer.fee,
                verdict,
            });
        }
    }

    fn purchase(&self, wanted: &Wanted<'_>, what: String, offer: &OfferingSeen) -> Course {
        let (on, reason) = (wanted.on(), Reason::Wanted);
        let request = PurchaseRequest {
            reservation: wanted.name.clone(),
            offering: offer.id.clone(),
            extends: offer.extends.clone(),
            fee: offer.fee,
        };
        let action = Action::Cloud(CloudAction::Purchase(request));
        let mut one = step(format!("purchase:{on}@{}", offer.id), &on, action, &reason);
        let amount = Amount { usd_upfront: offer.fee, ..Amount::count(offer.nodes) };
        one.effects = Effects::one(Verb::Purchase, on.clone(), amount);
        one.consent = Consent::Asked;
        // Whoever carries this out may be late.
        if let Some(Approval::Mandate(mandate)) = self.approval {
            one.requires.push(Fact::Before(mandate.expires.0));
        }
        course(&on, format!("{what}: {} for ${}", offer.id, offer.fee), &reason, vec![one])
    }
}

/// A pool that is to use the block and names zones where its nodes may be, this one not among them; and those zones.
fn shut_out(wanted: &Wanted<'_>, offer: &OfferingSeen) -> Option<(PoolName, String)> {
    let uses = |pool: &PoolSpec| {
        pool.capacity.iter().any(|source| matches!(source, Source::Reservation(name) if name == wanted.name))
    };
    let pools = wanted.input.target.standing.pools.iter().filter(|(_, pool)| uses(pool));
    let mut named = pools.filter_map(|(name, pool)| Some((name, &pool.launch.as_ref()?.subnets.zones)));
    let (name, zones) = named.find(|(_, zones)| !zones.is_empty() && !zones.contains(&offer.zone))?;
    let zones: Vec<&str> = zones.iter().map(Zone::as_str).collect();
    Some((name.clone(), zones.join(" and ")))
}

/// Offers that another reservation has, or will have when this plan is done: each is sold once.
type Taken = BTreeMap<OfferingId, ReservationName>;

fn taken(wanted: &Wanted<'_>, draft: &Draft) -> Taken {
    let ordered = wanted.input.ledger.head.purchases.iter();
    let ordered = ordered.filter(|purchase| !matches!(purchase.outcome, Outcome::Refused(_)));
    let steps = draft.courses.iter().flat_map(|course| &course.steps);
    let planned = steps.filter_map(|step| match &step.action {
        Action::Cloud(CloudAction::Purchase(request)) => Some(request),
        _ => None,
    });
    let requests = ordered.map(|purchase| &purchase.intent.request).chain(planned);
    let others = requests.filter(|request| request.reservation != *wanted.name);
    others.map(|request| (request.offering.clone(), request.reservation.clone())).collect()
}

/// An offer is sold once. One that a block which is there was made of is still listed for a while, and whose that block
/// is, only a person knows: it may be this one, bought when we had another memory.
fn unsold<'o>(wanted: &Wanted<'_>, offer: &'o OfferingSeen) -> Result<&'o OfferingSeen, WaitingOn> {
    let mut all = wanted.input.observed.cloud.reservations.seen().iter();
    let is_its =
        |seen: &ReservationSeen| seen.offering.as_ref() == Some(&offer.id) && seen.state != ReservationState::Ended;
    let Some((id, _)) = all.find(|(_, seen)| is_its(seen)) else { return Ok(offer) };
    let offering = &offer.id;
    Err(WaitingOn::Person(format!(
        "{id} was bought with {offering}: where it is this block, name it (`id: {id}`), and it is adopted; else approve \
         another offering"
    )))
}

/// What the ledger knows of purchases of this block, or of more time for it.
fn purchases<'a>(wanted: &Wanted<'a>, extends: Option<&ReservationId>) -> impl Iterator<Item = &'a Purchase> {
    let (name, known_as, extends) = (wanted.name.clone(), wanted.known_as.clone(), extends.cloned());
    let before = wanted.spec.renamed_from.clone();
    wanted.input.ledger.head.purchases.iter().filter(move |purchase| {
        let request = &purchase.intent.request;
        let ours = request.reservation == name || request.reservation == known_as;
        (ours || Some(&request.reservation) == before.as_ref()) && request.extends == extends
    })
}

fn bought<'a>(wanted: &Wanted<'a>, extends: Option<&ReservationId>) -> impl Iterator<Item = &'a Purchase> {
    purchases(wanted, extends).filter(|purchase| matches!(purchase.outcome, Outcome::Bought(_)))
}

fn why(purchase: &Purchase) -> &str {
    match &purchase.outcome {
        Outcome::Refused(why) => why,
        Outcome::Open | Outcome::Bought(_) => "",
    }
}

#[cfg(test)]
mod tests;
