//! What can be changed in an on-demand reservation that is there: its size, its end, who may use it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Terms, Wanted, fleet, used};
use crate::effect::{Action, Amount, CloudAction, Effects, Fact, Verb};
use crate::fleet::reservation::{Manage, Match};
use crate::ids::{InstanceId, ReservationId, SlotId};
use crate::observed::{ReservationSeen, ReservationState};
use crate::plan::cost::hourly;
use crate::plan::draft::{Course, Draft};
use crate::plan::overfull::Leaving;
use crate::plan::steps::{course, step};
use crate::plan::types::{Consent, PlanInput, Reason, WaitingOn};

/// How long before something that changes by itself is looked at again.
const SOON: SignedDuration = SignedDuration::from_mins(1);
/// How many names a sentence takes.
const NAMES: usize = 4;

/// What a reservation is changed to.
struct Modify {
    nodes: u32,
    end: Option<Timestamp>,
    matching: Match,
}

impl Wanted<'_> {
    /// What differs in one that is there.
    pub(super) fn change(
        &self,
        terms: &Terms,
        id: &ReservationId,
        seen: &ReservationSeen,
        leaving: &Leaving,
        draft: &mut Draft,
    ) {
        if let Some(what) = self.immutable(id, seen) {
            return self.person(self.size(), what, draft);
        }
        let end = terms.end.filter(|end| *end > self.input.now).or(terms.end.and(seen.end));
        let differs = seen.total != self.spec.nodes || seen.end != end || seen.matching != terms.matching;
        if !differs {
            return;
        }
        let wanted = format!("{id}: {}", differences(seen, self.spec.nodes, end, terms.matching));
        if self.spec.manage == Manage::Observe {
            let what = format!(
                "another tool owns it. The change to make there: aws ec2 modify-capacity-reservation \
                 --capacity-reservation-id {id}{}",
                flags(seen, self.spec.nodes, end, terms.matching)
            );
            return self.person(wanted, what, draft);
        }
        if let Some(gap) = self.input.observed.cloud.reservations.gap() {
            return self.hold(wanted, WaitingOn::Unread(gap.clone()), draft);
        }
        if seen.state != ReservationState::Active {
            // EC2 refuses changes of what is not active, and may say for minutes that it is not.
            let soon = self.input.now.checked_add(SOON).unwrap_or(self.input.now);
            return self.hold(
                wanted,
                WaitingOn::until(soon, format!("{id} is not active, and is changed only when it is")),
                draft,
            );
        }
        self.modify(Modify { end, nodes: self.spec.nodes, matching: terms.matching }, id, seen, leaving, draft);
    }

    /// All that can be changed now in one request; the rest is held.
    fn modify(&self, to: Modify, id: &ReservationId, seen: &ReservationSeen, leaving: &Leaving, draft: &mut Draft) {
        let used = used(seen);
        let mut now = Modify { end: to.end, nodes: to.nodes, matching: to.matching };
        // A request that left the size as it is would write another size than the document's.
        if to.nodes < used {
            let waits = self.modification(&to, id, seen).held(self.too_full(used, id, leaving));
            return draft.held.push(waits);
        }
        if to.matching != seen.matching && used > 0 {
            let more = Modify { nodes: seen.total, end: seen.end, matching: to.matching };
            let who = users(self.input, id, &[]);
            let what = format!("{used} instances in {id}, which have to leave first: {who}");
            let waits = self.modification(&more, id, seen).held(WaitingOn::Capacity { what, retry: None });
            draft.held.push(waits);
            now.matching = seen.matching;
        }
        if now.nodes == seen.total && now.end == seen.end && now.matching == seen.matching {
            return;
        }
        let course = self.modification(&now, id, seen);
        match self.refused_until().filter(|_| now.nodes > seen.total) {
            Some(retry) => {
                let what = format!("{} in {}", seen.instance_type, seen.zone);
                draft.held.push(course.held(WaitingOn::Capacity { what, retry: Some(retry) }));
            }
            None => draft.courses.push(course),
        }
    }

    /// What a smaller size waits for: those who leave, or a person where nobody moves enough of them.
    fn too_full(&self, used: u32, id: &ReservationId, leaving: &Leaving) -> WaitingOn {
        let (nodes, stuck) = (self.spec.nodes, leaving.stuck);
        let too_many = used - nodes;
        if stuck == 0 {
            let who = names(leaving.slots.iter());
            let what = format!("{too_many} of the {used} instances in {id}, which have to leave first: {who}");
            return WaitingOn::Capacity { what, retry: None };
        }
        let least = nodes + stuck;
        WaitingOn::Person(format!(
            "{too_many} of the {used} instances in {id} have to leave first, and nothing moves {stuck} of them ({}): \
             write `nodes: {least}`, or give their pools another source in `capacity`, or fewer nodes",
            users(self.input, id, &leaving.slots)
        ))
    }

    /// Who has to leave before it is given back, if anybody stands in it.
    pub(super) fn stands_in(&self, id: &ReservationId, used: u32, leaving: &Leaving) -> Option<WaitingOn> {
        if used == 0 {
            return None;
        }
        if leaving.stuck == 0 {
            let unseen = leaving.slots.is_empty();
            let who = if unseen { users(self.input, id, &[]) } else { names(leaving.slots.iter()) };
            let what = format!("{used} instances in {id}, which have to leave first: {who}");
            return Some(WaitingOn::Capacity { what, retry: None });
        }
        let (stuck, who) = (leaving.stuck, users(self.input, id, &leaving.slots));
        Some(WaitingOn::Person(format!(
            "{used} instances in {id} have to leave first, and nothing moves {stuck} of them ({who}): give their pools \
             another source in `capacity`, or fewer nodes. To have them run on, on demand: aws ec2 \
             cancel-capacity-reservation --capacity-reservation-id {id}"
        )))
    }

    fn modification(&self, to: &Modify, id: &ReservationId, seen: &ReservationSeen) -> Course {
        let (on, reason) = (self.on(), Reason::Wanted);
        let more = to.nodes.saturating_sub(seen.total);
        let fewer = seen.total.saturating_sub(to.nodes);
        let action = CloudAction::Modify {
            reservation: self.name.clone(),
            id: id.clone(),
            nodes: to.nodes,
            end: to.end,
            matching: to.matching,
        };
        let end = to.end.map_or("never".into(), |end| end.to_string());
        let name = format!("resize:{on}@{}-{}-{end}", to.nodes, word(to.matching));
        let mut one = step(name, &on, Action::Cloud(action), &reason);
        let usd_hour = hourly(self.input, &seen.instance_type, more);
        // A change of terms alone counts as one: an approval has to name something.
        let amount = Amount { usd_hour, ..Amount::count(more.max(fewer).max(1)) };
        one.effects = Effects::one(Verb::Resize, on.clone(), amount);
        one.consent = Consent::Asked;
        one.requires = vec![Fact::Active(id.clone())];
        if fewer > 0 {
            one.requires.push(Fact::Free { reservation: id.clone(), places: fewer });
        }
        if to.matching != seen.matching {
            one.requires.push(Fact::Free { reservation: id.clone(), places: seen.total });
        }
        let wanted = format!("{id}: {}", differences(seen, to.nodes, to.end, to.matching));
        course(&on, wanted, &reason, vec![one])
    }
}

/// The slots whose instances stand in a reservation, but for these, in words.
pub fn users(input: &PlanInput, id: &ReservationId, but: &[SlotId]) -> String {
    let live = input.observed.cloud.instances.seen().iter();
    let inside = live.filter(|(_, seen)| seen.reservation.as_ref() == Some(id) && seen.state.is_live());
    let (mut ours, mut others): (Vec<SlotId>, usize) = (Vec::new(), 0);
    // One that changed places serves another slot than its tag says.
    let slots = input.ledger.pools.iter().flat_map(|(name, pool)| pool.slots.iter().map(move |slot| (name, slot)));
    let moved = slots.filter(|(_, (_, slot))| slot.made_for.is_some());
    let moved: BTreeMap<&InstanceId, SlotId> =
        moved.filter_map(|(name, (index, slot))| Some((slot.instance.as_ref()?, SlotId::new(name, *index)))).collect();
    for (instance, seen) in inside {
        let slot = seen.tag.as_ref().map(|tag| moved.get(instance).unwrap_or(&tag.slot));
        match (&seen.tag, slot) {
            (Some(_), Some(slot)) if but.contains(slot) => {}
            (Some(tag), Some(slot)) if tag.fleet == *fleet(input) => ours.push(slot.clone()),
            _ => others += 1,
        }
    }
    ours.sort_unstable();
    let mut words: Vec<String> = (!ours.is_empty()).then(|| names(ours.iter())).into_iter().collect();
    if others > 0 {
        words.push(format!("{others} that are not ours"));
    }
    if words.is_empty() { "none of which we see".into() } else { words.join(", ") }
}

/// A few of these slots by name, and how many more there are.
fn names<'s>(slots: impl ExactSizeIterator<Item = &'s SlotId>) -> String {
    let more = slots.len().saturating_sub(NAMES);
    let mut words: Vec<String> = slots.take(NAMES).map(ToString::to_string).collect();
    if more > 0 {
        words.push(format!("{more} more"));
    }
    words.join(", ")
}

fn word(matching: Match) -> &'static str {
    match matching {
        Match::Targeted => "targeted",
        Match::Open => "open",
    }
}

fn until(end: Option<Timestamp>) -> String {
    end.map_or("never".into(), |end| end.to_string())
}

fn differences(seen: &ReservationSeen, nodes: u32, end: Option<Timestamp>, matching: Match) -> String {
    let mut parts = Vec::new();
    if seen.total != nodes {
        parts.push(format!("{} → {nodes} nodes", seen.total));
    }
    if seen.end != end {
        parts.push(format!("ends {} → {}", until(seen.end), until(end)));
    }
    if seen.matching != matching {
        parts.push(format!("match {} → {}", word(seen.matching), word(matching)));
    }
    parts.join(", ")
}

/// The same, as arguments of the AWS command line.
fn flags(seen: &ReservationSeen, nodes: u32, end: Option<Timestamp>, matching: Match) -> String {
    let mut text = String::new();
    if seen.total != nodes {
        text += &format!(" --instance-count {nodes}");
    }
    if seen.end != end {
        text += &end
            .map_or(" --end-date-type unlimited".into(), |end| format!(" --end-date-type limited --end-date {end}"));
    }
    if seen.matching != matching {
        text += &format!(" --instance-match-criteria {}", word(matching));
    }
    text
}
