//! Reservations: found, created, grown, shrunk, given back, or let go.
//!
//! A reservation is known by the id in its document, else by the ledger's, else by our tag. Nothing is created unless
//! the cloud was read as a whole, because one that was not seen may exist. Capacity Blocks are in [`super::blocks`].

mod change;

use jiff::{SignedDuration, Timestamp};

use super::blocks;
use super::cost::hourly;
use super::draft::{Course, Draft};
use super::overfull::{Leaving, Overfull};
use super::steps::{course, held, step};
use super::types::{Consent, PlanInput, Reason, Released, WaitingOn};
use crate::effect::hash::named_token;
use crate::effect::{
    Action, Amount, CloudAction, Effects, Fact, HeldReservation, LedgerChange, Outcome, ReserveRequest, Thing, Verb,
    is_kin,
};
use crate::fleet::reservation::{Manage, Match};
use crate::fleet::standing::{ReservationSpec, TermsSpec};
use crate::ids::{FleetUid, ReservationId, ReservationName, Zone};
use crate::observed::{ReservationSeen, ReservationState};

/// How long a source that refused is left alone.
pub const RETRY: SignedDuration = SignedDuration::from_mins(5);
/// How long EC2 may take to list what it made.
pub const LISTED: SignedDuration = SignedDuration::from_mins(10);

/// One wanted reservation, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub input: &'a PlanInput,
    pub name: &'a ReservationName,
    pub spec: &'a ReservationSpec,
    /// What the ledger has, under its name or the one that it had before.
    pub held: Option<&'a HeldReservation>,
    /// The name that the ledger knows it by.
    pub known_as: &'a ReservationName,
}

/// Where a reservation is.
#[derive(Clone, PartialEq, Debug)]
pub enum Located<'a> {
    /// There is one with this id, and what was seen of it, if it was.
    At(ReservationId, Option<&'a ReservationSeen>),
    Nowhere,
}

pub fn plan(input: &PlanInput, overfull: &Overfull<'_>, draft: &mut Draft) {
    for (name, spec) in &input.target.standing.reservations {
        let wanted = wanted(input, name, spec);
        wanted.rename(draft);
        match &spec.terms {
            TermsSpec::OnDemand { end, matching, cancel } => {
                wanted.on_demand(&Terms { end: *end, matching: *matching, cancel: *cancel }, overfull, draft);
            }
            TermsSpec::Block(block) => blocks::plan(&wanted, block, draft),
        }
    }
    for (name, held) in &input.ledger.head.reservations {
        let standing = &input.target.standing.reservations;
        let is_renamed = standing.values().any(|spec| spec.renamed_from.as_ref() == Some(name));
        if held.is_something() && !standing.contains_key(name) && !is_renamed {
            let_go(input, name, held, draft);
        }
    }
    unexplained(input, draft);
}

/// The id of a wanted reservation, if it has one yet: for whoever launches into it.
pub fn id_of(input: &PlanInput, name: &ReservationName) -> Option<ReservationId> {
    let spec = input.target.standing.reservations.get(name)?;
    match wanted(input, name, spec).locate() {
        Located::At(id, _) => Some(id),
        Located::Nowhere => None,
    }
}

/// Whether only a tag says that a reservation is this one: nothing is launched into it before the ledger says so too.
pub fn is_only_tagged(input: &PlanInput, name: &ReservationName) -> bool {
    let Some(spec) = input.target.standing.reservations.get(name) else { return false };
    let wanted = wanted(input, name, spec);
    spec.id.is_none() && wanted.held.is_none() && wanted.locate() != Located::Nowhere
}

/// The reservations of the documents that exist.
pub fn located(input: &PlanInput) -> impl Iterator<Item = &ReservationId> {
    let all = &input.target.standing.reservations;
    all.iter().filter_map(|(name, spec)| {
        let Located::At(id, _) = wanted(input, name, spec).locate() else { return None };
        Some(input.observed.cloud.reservations.seen().get_key_value(&id)?.0)
    })
}

/// Who we are: what our tags and tokens carry.
pub fn fleet(input: &PlanInput) -> &FleetUid {
    input.ledger.head.fleet.as_ref().unwrap_or(&input.fleet)
}

pub fn wanted<'a>(input: &'a PlanInput, name: &'a ReservationName, spec: &'a ReservationSpec) -> Wanted<'a> {
    let something = |name: &ReservationName| {
        input.ledger.head.reservations.get_key_value(name).filter(|(_, held)| held.is_something())
    };
    let standing = &input.target.standing.reservations;
    let before = spec.renamed_from.as_ref().filter(|old| !standing.contains_key(*old));
    let found = something(name).or_else(|| before.and_then(something));
    Wanted { input, name, spec, held: found.map(|(_, held)| held), known_as: found.map_or(name, |(name, _)| name) }
}

/// What an on-demand reservation should be.
struct Terms {
    end: Option<Timestamp>,
    matching: Match,
    cancel: bool,
}

impl<'a> Wanted<'a> {
    pub fn on(&self) -> Thing {
        Thing::Reservation(self.name.clone())
    }

    pub fn locate(&self) -> Located<'a> {
        let seen = self.input.observed.cloud.reservations.seen();
        let at = |id: ReservationId| Located::At(id.clone(), seen.get(&id));
        if let Some(id) = &self.spec.id {
            return at(id.as_str().into());
        }
        if let Some(id) = self.held.and_then(|held| held.id.as_ref()) {
            // One that is being replaced is over: the request for the next one is what counts.
            let replaced = self.held.is_some_and(|held| held.intent.is_some());
            if !replaced {
                return at(id.clone());
            }
        }
        match self.tagged().max_by_key(|(id, tagged)| (generation(tagged), std::cmp::Reverse(*id))) {
            Some((id, tagged)) => Located::At(id.clone(), Some(tagged)),
            None => Located::Nowhere,
        }
    }

    /// Live reservations that carry our tag with this name, and that no other document has.
    fn tagged(&self) -> impl Iterator<Item = (&'a ReservationId, &'a ReservationSeen)> {
        let (input, name, known_as) = (self.input, self.name, self.known_as);
        let block = matches!(self.spec.terms, TermsSpec::Block(_));
        let open = self.held.and_then(|held| held.intent.as_ref()).map(|intent| intent.request.generation);
        let taken = move |id: &ReservationId| {
            let ledger = &input.ledger.head.reservations;
            let adopted =
                input.target.standing.reservations.values().any(|spec| spec.id.as_deref() == Some(id.as_str()));
            adopted || ledger.iter().any(|(other, held)| other != known_as && held.id.as_ref() == Some(id))
        };
        input.observed.cloud.reservations.seen().iter().filter(move |(id, seen)| {
            let Some(tag) = &seen.tag else { return false };
            tag.fleet == *fleet(input)
                && (tag.reservation == *name || tag.reservation == *known_as)
                && open.is_none_or(|open| open == tag.generation)
                && seen.block == block
                && seen.state != ReservationState::Ended
                && !taken(id)
        })
    }

    /// A request that may have been answered goes first, under its old name.
    fn rename(&self, draft: &mut Draft) {
        if self.known_as != self.name && self.held.is_some_and(|held| held.intent.is_none()) {
            let change = LedgerChange::ReservationRenamed { from: self.known_as.clone(), to: self.name.clone() };
            let wanted = format!("{} is called {} now", self.known_as, self.name);
            draft.courses.push(self.remember("rename", self.known_as.as_str(), wanted, change));
        }
    }

    /// A course that only writes into the ledger.
    pub fn remember(&self, what: &str, generation: &str, wanted: String, change: LedgerChange) -> Course {
        let (on, reason) = (self.on(), Reason::Bookkeeping);
        let one = step(format!("record-{what}:{on}@{generation}"), &on, Action::Record(change), &reason);
        course(&on, wanted, &reason, vec![one])
    }

    pub fn hold(&self, wanted: impl Into<String>, waiting_on: WaitingOn, draft: &mut Draft) {
        draft.held.push(held(&self.on(), wanted, Reason::Wanted, waiting_on));
    }

    pub fn person(&self, wanted: impl Into<String>, what: String, draft: &mut Draft) {
        self.hold(wanted, WaitingOn::Person(what), draft);
    }

    /// The ledger learns an id that the document or a tag told.
    pub fn adopt(&self, id: &ReservationId, draft: &mut Draft) {
        let known = self.held.and_then(|held| held.id.as_ref());
        if known == Some(id) || self.spec.manage == Manage::Observe {
            return;
        }
        if let Some(former) = known.filter(|_| self.held.is_some_and(|held| held.intent.is_none())) {
            let what = format!("reservation {former}, which {} was before", self.name);
            draft.released.push(Released { what, stays: stays(self.input, former) });
        }
        let change = LedgerChange::Reserved { reservation: self.known_as.clone(), id: id.clone() };
        draft.courses.push(self.remember("reserved", id.as_str(), format!("{} is {id}", self.name), change));
    }

    /// Whether the document or the ledger says that this is it. Nothing is done to one that only a tag names, or that
    /// the ledger has under another name, before that is recorded.
    pub fn is_known(&self, id: &ReservationId) -> bool {
        let recorded = self.known_as == self.name && self.held.is_some_and(|held| held.id.as_ref() == Some(id));
        self.spec.id.as_deref() == Some(id.as_str()) || recorded
    }

    fn on_demand(&self, terms: &Terms, overfull: &Overfull<'_>, draft: &mut Draft) {
        match self.locate() {
            Located::At(id, Some(seen)) => self.found(terms, &id, seen, &overfull.leaving(&id), draft),
            Located::At(id, None) => self.not_listed(&id, terms.cancel, draft),
            Located::Nowhere => self.create(terms, draft),
        }
    }

    fn found(&self, terms: &Terms, id: &ReservationId, seen: &ReservationSeen, leaving: &Leaving, draft: &mut Draft) {
        self.adopt(id, draft);
        if !self.is_known(id) {
            return;
        }
        if seen.block {
            let what = format!("{id} is a Capacity Block: write `capacityBlock` instead of `onDemand`");
            return self.person("an on-demand reservation", what, draft);
        }
        if terms.cancel {
            return self.cancel(id, seen, leaving, draft);
        }
        match &seen.state {
            ReservationState::Ended => self.ended(terms, id, draft),
            ReservationState::Other(state) => {
                let what = format!("{id} is in a state that we do not know ({state}): it is kept, and not used");
                self.person("the reservation, active", what, draft);
            }
            _ => self.change(terms, id, seen, leaving, draft),
        }
    }

    /// Not in the list although we know its id.
    pub fn not_listed(&self, id: &ReservationId, cancel: bool, draft: &mut Draft) {
        let wanted = format!("{id}, {}", self.size());
        if let Some(gap) = self.input.observed.cloud.reservations.gap() {
            return self.hold(wanted, WaitingOn::Unread(gap.clone()), draft);
        }
        if cancel {
            return self.forget(id, draft);
        }
        let purchases = self.input.ledger.head.purchases.iter();
        let ordered = purchases.filter(|one| one.outcome == Outcome::Bought(id.clone())).map(|one| one.intent.at).max();
        let asked = self.held.and_then(|held| held.asked).max(ordered);
        let fresh = asked.and_then(|asked| asked.checked_add(LISTED).ok());
        match fresh.filter(|until| self.input.now < *until && self.spec.id.is_none()) {
            Some(until) => {
                let why = format!("{id} was asked for a moment ago, and may be listed late");
                self.hold(wanted, WaitingOn::until(until, why), draft);
            }
            None if self.spec.id.is_some() => {
                let what = format!("{id} is not listed in this account and region: correct `id`, or remove it");
                self.person(wanted, what, draft);
            }
            None => {
                let what = format!(
                    "{id} is not listed any more. If it is really gone, take the document away for one apply (nothing \
                     is destroyed) and put it back: then a new one is made"
                );
                self.person(wanted, what, draft);
            }
        }
    }

    fn ended(&self, terms: &Terms, id: &ReservationId, draft: &mut Draft) {
        if terms.end.is_some_and(|end| end <= self.input.now) {
            draft.note(self.on(), format!("{id} is over, as its document says; what ran in it runs on, on demand"));
        } else if self.spec.id.is_some() {
            let what = format!("{id} is over: remove `id` to have a new one made, or name another");
            self.person(format!("{id}, {}", self.size()), what, draft);
        } else {
            draft.note(self.on(), format!("{id} is over before its time: a new one is asked for"));
            self.create(terms, draft);
        }
    }

    fn create(&self, terms: &Terms, draft: &mut Draft) {
        let wanted = format!("reserve {}", self.size());
        if let Some(gap) = self.input.observed.cloud.reservations.gap() {
            return self.hold(wanted, WaitingOn::Unread(gap.clone()), draft);
        }
        if self.known_as != self.name && self.held.is_some() {
            return self.unheard(wanted, draft);
        }
        if let Some(intent) = self.held.and_then(|held| held.intent.as_ref()) {
            // Consent was given when it was first sent, and its token makes it the same request.
            let course = self.reserve(intent.request.clone(), wanted, Reason::Unanswered, Consent::Standing);
            return draft.courses.push(course);
        }
        if terms.cancel || terms.end.is_some_and(|end| end <= self.input.now) {
            return;
        }
        let Some(zone) = &self.spec.zone else {
            return self.person(wanted, "the document names no zone".into(), draft);
        };
        if let Some(what) = self.spent() {
            return self.person(wanted, what, draft);
        }
        let request = self.request(terms, zone);
        let course = self.reserve(request, wanted, Reason::Wanted, Consent::Asked);
        match self.refused_until() {
            Some(retry) => {
                let what = format!("{} in {zone}", self.spec.shape.instance_type);
                draft.held.push(course.held(WaitingOn::Capacity { what, retry: Some(retry) }));
            }
            None => draft.courses.push(course),
        }
    }

    /// A request under the name that it had before is not sent again: it shows within minutes, or it never came.
    fn unheard(&self, wanted: String, draft: &mut Draft) {
        let intent = self.held.and_then(|held| held.intent.as_ref());
        let until = intent.and_then(|intent| intent.at.checked_add(LISTED).ok());
        match until.filter(|until| self.input.now < *until) {
            Some(until) => {
                let why = "a request that nobody answered may still show";
                self.hold(wanted, WaitingOn::until(until, why), draft);
            }
            None => {
                let change = LedgerChange::ReservationForgotten { reservation: self.known_as.clone() };
                let what = format!("the request for {} never came", self.known_as);
                draft.courses.push(self.remember("forgotten", self.known_as.as_str(), what, change));
            }
        }
    }

    /// A reservation that has used the next token, or the name, of this one: whatever was ever seen with a tag has. So has
    /// one of our kin while it lives. A block is bought once, whatever became of it, and whomever the tag of one that lives
    /// names: a cluster that was built anew gives the fleet another identity, and no kin.
    pub fn spent(&self) -> Option<String> {
        let (next, ours) = (self.generation(), fleet(self.input));
        let mut all = self.input.observed.cloud.reservations.seen().iter();
        let (id, tag) = all.find_map(|(id, seen)| {
            let tag = seen.tag.as_ref().filter(|tag| tag.reservation == *self.name)?;
            let lives = seen.state != ReservationState::Ended;
            let used = tag.fleet == *ours && (tag.generation >= next || seen.block);
            let is_block = seen.block && matches!(self.spec.terms, TermsSpec::Block(_));
            let is_spent = used || (lives && (tag.fleet == *ours || is_kin(ours, &tag.fleet) || is_block));
            is_spent.then_some((id, tag))
        })?;
        Some(if tag.fleet == *ours {
            format!("{id} was made with this name, which is in its tag: give this document another name")
        } else {
            let whose = &tag.fleet;
            format!(
                "{id} was made with this name for {whose}, and this fleet is {ours}: where both are the same, name it \
                 (`id: {id}`), and it is adopted; else give this document another name"
            )
        })
    }

    /// Of the next request.
    fn generation(&self) -> u32 {
        let ledger = self.input.ledger.head.reservations.get(self.name);
        ledger.into_iter().chain(self.held).map(|held| held.generation).max().unwrap_or(0) + 1
    }

    fn refused_until(&self) -> Option<Timestamp> {
        let held = self.held.or_else(|| self.input.ledger.head.reservations.get(self.name))?;
        held.refused?.checked_add(RETRY).ok().filter(|retry| self.input.now < *retry)
    }

    fn request(&self, terms: &Terms, zone: &Zone) -> ReserveRequest {
        let generation = self.generation();
        let words =
            [fleet(self.input).as_str(), "reservation", self.name.as_str(), &generation.to_string(), zone.as_str()];
        ReserveRequest {
            reservation: self.name.clone(),
            generation,
            token: named_token(&words),
            instance_type: self.spec.shape.instance_type.clone(),
            zone: zone.clone(),
            nodes: self.spec.nodes,
            end: terms.end,
            matching: terms.matching,
        }
    }

    fn reserve(&self, request: ReserveRequest, wanted: String, reason: Reason, consent: Consent) -> Course {
        let on = self.on();
        let usd_hour = hourly(self.input, &request.instance_type, request.nodes);
        let amount = Amount { usd_hour, ..Amount::count(request.nodes) };
        let id = format!("reserve:{on}@{}", request.generation);
        let mut one = step(id, &on, Action::Cloud(CloudAction::Reserve(request)), &reason);
        one.effects = Effects::one(Verb::Reserve, on.clone(), amount);
        one.consent = consent;
        course(&on, wanted, &reason, vec![one])
    }

    /// What is given back is empty first: whoever stands in it would go on, on demand, and cost what nobody wrote.
    fn cancel(&self, id: &ReservationId, seen: &ReservationSeen, leaving: &Leaving, draft: &mut Draft) {
        let wanted = format!("give {id} back, {}", said(seen));
        match &seen.state {
            ReservationState::Ended => return self.forget(id, draft),
            ReservationState::Other(state) => {
                let what = format!("{id} is in a state that we do not know ({state})");
                return self.person(wanted, what, draft);
            }
            _ => {}
        }
        let cloud = &self.input.observed.cloud;
        if let Some(gap) = cloud.reservations.gap().or_else(|| cloud.instances.gap()) {
            return self.hold(wanted, WaitingOn::Unread(gap.clone()), draft);
        }
        let (on, reason) = (self.on(), Reason::NotWanted);
        let action = Action::Cloud(CloudAction::Cancel { reservation: self.name.clone(), id: id.clone() });
        let mut cancel = step(format!("cancel:{on}@{id}"), &on, action, &reason);
        cancel.effects = Effects::one(Verb::Cancel, on.clone(), Amount::count(seen.total));
        cancel.consent = Consent::Asked;
        cancel.requires = vec![Fact::Free { reservation: id.clone(), places: seen.total }];
        let change = LedgerChange::ReservationForgotten { reservation: self.known_as.clone() };
        let mut forget = step(format!("record-forgotten:{on}@{id}"), &on, Action::Record(change), &reason);
        forget.after = vec![cancel.id.clone()];
        let course = course(&on, wanted, &reason, vec![cancel, forget]);
        match self.stands_in(id, used(seen), leaving) {
            Some(waiting_on) => draft.held.push(course.held(waiting_on)),
            None => draft.courses.push(course),
        }
    }

    fn forget(&self, id: &ReservationId, draft: &mut Draft) {
        if self.held.is_some() {
            let change = LedgerChange::ReservationForgotten { reservation: self.known_as.clone() };
            draft.courses.push(self.remember("forgotten", id.as_str(), format!("{id} was given back"), change));
        }
    }

    /// What EC2 cannot change in a reservation.
    pub fn immutable(&self, id: &ReservationId, seen: &ReservationSeen) -> Option<String> {
        let other_type = seen.instance_type != self.spec.shape.instance_type;
        let other_zone = self.spec.zone.as_ref().is_some_and(|zone| *zone != seen.zone);
        (other_type || other_zone).then(|| {
            format!(
                "{id} holds {} in {}, and EC2 cannot change that: write another Reservation beside it, name that one in \
                 the pools, and give this one back",
                seen.instance_type, seen.zone
            )
        })
    }

    pub fn size(&self) -> String {
        let zone = self.spec.zone.as_ref().map_or(String::new(), |zone| format!(" in {zone}"));
        format!("{} × {}{zone}", self.spec.nodes, self.spec.shape.instance_type)
    }
}

/// The document is gone: it stays, and is no longer ours to manage.
fn let_go(input: &PlanInput, name: &ReservationName, held: &HeldReservation, draft: &mut Draft) {
    let on = Thing::Reservation(name.clone());
    let seen = input.observed.cloud.reservations.seen();
    let asked = held.intent.as_ref().map(|intent| &intent.request);
    let answer = asked.and_then(|asked| {
        let tagged = seen.iter().filter_map(|(id, seen)| Some((id, seen.tag.as_ref()?)));
        let mut ours = tagged.filter(|(_, tag)| tag.fleet == *fleet(input) && tag.reservation == asked.reservation);
        ours.find(|(_, tag)| tag.generation == asked.generation).map(|(id, _)| id)
    });
    if let (None, Some(intent)) = (answer, &held.intent) {
        // Nobody wants it any more, so it is not sent again; but it may have been made a moment ago.
        let until = intent.at.checked_add(LISTED).unwrap_or(intent.at);
        let wanted = format!("let go of {name}, whose document is gone");
        let waits = match input.observed.cloud.reservations.gap() {
            Some(gap) => Some(WaitingOn::Unread(gap.clone())),
            None => {
                let why = "a request that nobody answered may still show";
                (input.now < until).then(|| WaitingOn::until(until, why))
            }
        };
        if let Some(waiting_on) = waits {
            return draft.held.push(super::steps::held(&on, wanted, Reason::NotWanted, waiting_on));
        }
    }
    for id in held.id.iter().chain(answer) {
        let what = format!("reservation {name} ({id})");
        draft.released.push(Released { what, stays: stays(input, id) });
    }
    let reason = Reason::NotWanted;
    let change = LedgerChange::ReservationForgotten { reservation: name.clone() };
    let forget = step(format!("record-forgotten:{on}@{}", held.generation), &on, Action::Record(change), &reason);
    draft.courses.push(course(&on, format!("let go of {name}, whose document is gone"), &reason, vec![forget]));
}

/// Reservations with our tag that no document and no record names: somebody pays for them.
fn unexplained(input: &PlanInput, draft: &mut Draft) {
    let known: std::collections::BTreeSet<&ReservationId> =
        located(input).chain(input.ledger.head.reservations.values().filter_map(|held| held.id.as_ref())).collect();
    for (id, seen) in input.observed.cloud.reservations.seen() {
        let ours = seen.tag.as_ref().is_some_and(|tag| tag.fleet == *fleet(input));
        if ours && seen.state != ReservationState::Ended && !known.contains(id) {
            let name = seen.tag.as_ref().map_or("", |tag| tag.reservation.as_str());
            let asked = input.ledger.head.reservations.get(name).is_some_and(|held| held.intent.is_some());
            if !asked {
                let text = format!("{id} carries our tag ({name}) and no document names it: {}", stays(input, id));
                draft.note(Thing::Fleet, text);
            }
        }
    }
}

pub fn used(seen: &ReservationSeen) -> u32 {
    seen.total.saturating_sub(seen.available)
}

/// What stays of a reservation that is let go.
fn stays(input: &PlanInput, id: &ReservationId) -> String {
    match input.observed.cloud.reservations.seen().get(id) {
        Some(seen) if seen.block => said(seen),
        Some(seen) => format!("{}, ${} an hour", said(seen), hourly(input, &seen.instance_type, seen.total)),
        None => "it was not seen".into(),
    }
}

fn said(seen: &ReservationSeen) -> String {
    format!("{} × {} in {}, {} in use", seen.total, seen.instance_type, seen.zone, used(seen))
}

fn generation(seen: &ReservationSeen) -> u32 {
    seen.tag.as_ref().map_or(0, |tag| tag.generation)
}

#[cfg(test)]
mod tests;
