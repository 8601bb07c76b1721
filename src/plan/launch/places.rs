//! Places of reservations: those that come when one is made larger, and those that stay empty beside dearer nodes.

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::{BACK_OFF, Room, price};
use crate::fleet::pool::Source;
use crate::fleet::reservation::Manage;
use crate::fleet::standing::TermsSpec;
use crate::ids::ReservationId;
use crate::observed::{Market, ReservationState};
use crate::plan::reservations::id_of;
use crate::plan::view::{PoolView, View};
use crate::units::Usd;

/// How many places each reservation of ours lacks of what its document says, unless it was refused more a moment ago.
pub(super) fn growing(view: &View<'_>) -> BTreeMap<ReservationId, u32> {
    let wanted = view.standing.reservations.iter().filter_map(|(name, spec)| {
        let id = id_of(view.input, name)?;
        let seen = view.input.observed.cloud.reservations.seen().get(&id)?;
        let held = view.input.ledger.head.reservations.get(name);
        let refused = held.and_then(|held| held.refused).is_some_and(|at| view.now.duration_since(at) < BACK_OFF);
        let ours = spec.manage == Manage::Full && matches!(spec.terms, TermsSpec::OnDemand { .. }) && !refused;
        let active = seen.state == ReservationState::Active;
        Some((id, spec.nodes.checked_sub(seen.total).filter(|more| ours && active && *more > 0)?))
    });
    wanted.collect()
}

impl Room {
    /// Nodes of a pool that are paid by the hour while a place that is paid for anyway stays empty beside them.
    pub fn dear(&self, view: &View<'_>, pool: &PoolView<'_>) -> Option<String> {
        let by_the_hour = pool
            .slots
            .iter()
            .filter_map(|slot| slot.instance)
            .filter(|(_, found)| found.state.serves() && matches!(found.market, Market::OnDemand | Market::Spot));
        let dear: Vec<Decimal> = by_the_hour.map(|(_, found)| price(view, pool, found.market, &found.zone).0).collect();
        let sources = pool.spec.capacity.iter().filter_map(|source| match source {
            Source::Reservation(name) => Some(name),
            _ => None,
        });
        let (name, free) = sources
            .filter_map(|name| {
                let id = id_of(view.input, name)?;
                let seen = view.input.observed.cloud.reservations.seen().get(&id)?;
                let lasts = seen.state == ReservationState::Active && !seen.block && !self.smaller.contains_key(&id);
                Some((name, self.free.get(&id).copied().filter(|free| lasts && *free > 0)?))
            })
            .next()?;
        let moved = dear.len().min(usize::try_from(free).unwrap_or(usize::MAX));
        let usd = Usd(dear.iter().take(moved).sum());
        (moved > 0).then(|| {
            format!(
                "{moved} of its nodes {} paid by the hour, ${usd} in all, while reservation/{name} has {free} free \
                 {}: whoever is replaced next goes there",
                if moved == 1 { "is" } else { "are" },
                if free == 1 { "place" } else { "places" },
            )
        })
    }
}
