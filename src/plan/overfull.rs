//! Reservations that are written smaller than what stands in them, or given back: who leaves, so that they can be.
//!
//! EC2 makes no reservation smaller than what runs in it. So as many nodes as are too many move to another source of
//! their pool: those that are missed least, and none where enough leave anyway. They move as an update does, within the
//! pool's budget and windows. A reservation that another tool manages is left to that tool.

use std::collections::BTreeMap;

use super::reservations::{Located, used, wanted};
use super::view::{Body, PoolView, SlotView, View};
use super::wish::{Wish, wish};
use crate::fleet::pool::Source;
use crate::fleet::reservation::Manage;
use crate::fleet::standing::{ReservationSpec, TermsSpec};
use crate::ids::{ReservationId, ReservationName, SlotId};
use crate::observed::{InstanceSeen, InstanceState, ReservationSeen, ReservationState};

/// Who leaves the reservations that are too full.
#[derive(Default, Debug)]
pub struct Overfull<'a> {
    /// Slots whose node moves to another source, with the reservation that it leaves.
    pub moves: BTreeMap<SlotId, &'a ReservationName>,
    /// How many of those that are replaced anyway find no place there again, and cost by the hour from then on.
    pub dear: BTreeMap<ReservationId, u32>,
    of: BTreeMap<ReservationId, Leaving>,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Leaving {
    /// The slots whose nodes leave, for whatever reason.
    pub slots: Vec<SlotId>,
    /// How many more would have to, whom nobody moves.
    pub stuck: u32,
}

impl<'a> Overfull<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let mut all = Self::default();
        for (name, spec) in &view.standing.reservations {
            if let Some((id, seen)) = too_full(view, name, spec) {
                let leaving = all.leave(view, name, &id, used(seen) - holds(spec));
                all.of.insert(id, leaving);
            }
        }
        all
    }

    /// Who leaves a reservation, so that it can be made smaller.
    pub fn leaving(&self, id: &ReservationId) -> Leaving {
        self.of.get(id).cloned().unwrap_or_default()
    }

    /// Whether a slot's node stands in a reservation that is too full: its place is not given again.
    pub fn is_left(&self, slot: &SlotView<'_>) -> bool {
        slot.instance.and_then(|(_, seen)| seen.reservation.as_ref()).is_some_and(|id| self.of.contains_key(id))
    }

    fn leave(&mut self, view: &View<'a>, name: &'a ReservationName, id: &ReservationId, too_many: u32) -> Leaving {
        let inside = |seen: &InstanceSeen| seen.reservation.as_ref() == Some(id);
        let instances = view.input.observed.cloud.instances.seen().values().filter(|seen| inside(seen));
        let dying: Vec<&InstanceSeen> = instances.filter(|seen| seen.state == InstanceState::ShuttingDown).collect();
        let stands = |slot: &SlotView<'_>| slot.instance.is_some_and(|(_, seen)| inside(seen) && seen.state.serves());
        let (mut slots, mut may, mut replaced) = (Vec::new(), Vec::new(), 0);
        for (pool, slot) in view.slots().filter(|(_, slot)| stands(slot)) {
            match wish(view, pool, slot) {
                _ if slot.part.is_none() => slots.push(slot.id.clone()),
                Some(Wish::Remove { .. }) => slots.push(slot.id.clone()),
                Some(Wish::Replace { .. }) => {
                    replaced += u32::from(goes_on(pool, name));
                    slots.push(slot.id.clone());
                }
                None | Some(Wish::Dress { .. } | Wish::Free) if slot.body == Body::Serving && goes_on(pool, name) => {
                    may.push(slot);
                }
                _ => {}
            }
        }
        let leaves = u32::try_from(slots.len() + dying.len()).unwrap_or(u32::MAX);
        let more = too_many.saturating_sub(leaves);
        self.dear.insert(id.clone(), too_many.saturating_sub(leaves - replaced).min(replaced));
        may.sort_by_cached_key(|slot| (missed(view, slot), std::cmp::Reverse(slot.id.clone())));
        may.truncate(usize::try_from(more).unwrap_or(usize::MAX));
        self.moves.extend(may.iter().map(|slot| (slot.id.clone(), name)));
        let stuck = more.saturating_sub(u32::try_from(may.len()).unwrap_or(u32::MAX));
        slots.extend(may.iter().map(|slot| slot.id.clone()));
        slots.extend(dying.iter().filter_map(|seen| seen.tag.as_ref()).map(|tag| tag.slot.clone()));
        slots.sort_unstable();
        Leaving { slots, stuck }
    }
}

/// A reservation that is ours to change, active, and holds more than its document says.
fn too_full<'a>(
    view: &View<'a>,
    name: &'a ReservationName,
    spec: &'a ReservationSpec,
) -> Option<(ReservationId, &'a ReservationSeen)> {
    let ours = spec.manage == Manage::Full && matches!(spec.terms, TermsSpec::OnDemand { .. });
    let found = wanted(view.input, name, spec);
    let Located::At(id, Some(seen)) = found.locate() else { return None };
    let active = !seen.block && seen.state == ReservationState::Active && found.is_known(&id);
    (ours && active && used(seen) > holds(spec)).then_some((id, seen))
}

/// How many nodes its document says that a reservation holds: none where it is given back.
fn holds(spec: &ReservationSpec) -> u32 {
    if matches!(spec.terms, TermsSpec::OnDemand { cancel: true, .. }) { 0 } else { spec.nodes }
}

/// Whether a pool has a source beside this reservation.
fn goes_on(pool: &PoolView<'_>, name: &ReservationName) -> bool {
    pool.spec.capacity.iter().any(|source| !matches!(source, Source::Reservation(one) if one == name))
}

/// How much a node would be missed, the least first: its move was begun, nobody uses it, the work that would be lost.
fn missed(view: &View<'_>, slot: &SlotView<'_>) -> (bool, bool, u64) {
    let pods = slot.node.map_or(&[][..], |(node, _)| view.harm.pods_on(node));
    let begun = slot.mark.as_ref().is_some_and(|mark| mark.why == "replace");
    (!begun, !pods.is_empty(), view.harm.hit(pods).gpu_secs)
}
