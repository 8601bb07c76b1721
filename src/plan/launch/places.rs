//! Places of reservations: those that come when one is made or made larger, and those that stay empty beside dearer nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rust_decimal::Decimal;

use super::{BACK_OFF, Room, left_alone};
use crate::fleet::pool::Source;
use crate::fleet::reservation::Manage;
use crate::fleet::standing::TermsSpec;
use crate::ids::{ReservationId, ReservationName, Zone};
use crate::observed::{InstanceState, Market, ReservationState};
use crate::plan::chosen::is_empty;
use crate::plan::ends::begins_at;
use crate::plan::reservations::{id_of, is_only_tagged, used};
use crate::plan::view::{Body, PoolView, SlotView, View};
use crate::units::Usd;

/// How many places each reservation has for whoever waits until it is made, or listed: what its document says, less what
/// stands in it or was asked for there. Whoever comes after those looks further.
pub(super) fn coming(view: &View<'_>) -> BTreeMap<ReservationName, u32> {
    let reservations = view.standing.reservations.iter().filter(|(name, spec)| {
        matches!(spec.terms, TermsSpec::OnDemand { cancel: false, .. }) && id_of(view.input, name).is_none()
    });
    let places = reservations.map(|(name, spec)| {
        let id = unlisted(view, name);
        let is_there = |slot: &SlotView<'_>| {
            let stands = slot.instance.filter(|(_, found)| found.state.is_live());
            let stands = stands.filter(|(_, found)| found.state != InstanceState::ShuttingDown);
            let asked = match slot.body {
                Body::InFlight(intent) => intent.request.reservation.as_ref(),
                _ => None,
            };
            stands.and_then(|(_, found)| found.reservation.as_ref()).or(asked) == id.as_ref()
        };
        let used = if id.is_some() { view.slots().filter(|(_, slot)| is_there(slot)).count() } else { 0 };
        (name.clone(), spec.nodes.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX)))
    });
    places.collect()
}

/// Until when a reservation that the cloud had no room for is not asked for again: nobody waits for it meanwhile.
pub(super) fn refused_reservation(view: &View<'_>, name: &ReservationName) -> Option<Timestamp> {
    left_alone(view, view.input.ledger.head.reservations.get(name)?.refused?)
}

/// What a node costs an hour at most beside what is reserved: spot at the highest price that its pool bids. The hourly limit
/// holds whatever the market does.
pub(super) fn rate(pool: &PoolView<'_>, market: Market) -> Usd {
    let on_demand = pool.spec.shape.on_demand.unwrap_or_default();
    let percent = pool.spec.capacity.iter().filter_map(|source| match source {
        Source::Spot { max_price_percent, .. } => Some(*max_price_percent),
        _ => None,
    });
    match market {
        Market::Reserved | Market::Block => Usd::default(),
        Market::OnDemand => on_demand,
        Market::Spot => Usd(on_demand.0 * Decimal::from(percent.max().unwrap_or(100)) / Decimal::ONE_HUNDRED),
    }
}

/// What a node costs an hour beside what is reserved.
pub fn price(view: &View<'_>, pool: &PoolView<'_>, market: Market, zone: &Zone) -> Usd {
    let on_demand = pool.spec.shape.on_demand.unwrap_or_default();
    match market {
        Market::Reserved | Market::Block => Usd::default(),
        Market::OnDemand => on_demand,
        Market::Spot => {
            let prices = view.input.observed.cloud.spot_prices.seen();
            let found = prices.get(&pool.spec.shape.instance_type).and_then(|zones| zones.get(zone));
            found.copied().unwrap_or(on_demand)
        }
    }
}

/// The id of a reservation that is not listed, where it is known.
fn unlisted(view: &View<'_>, name: &ReservationName) -> Option<ReservationId> {
    let written = view.standing.reservations.get(name)?.id.as_deref().map(ReservationId::from);
    written.or_else(|| view.input.ledger.head.reservations.get(name)?.id.clone())
}

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

/// How many more each reservation may have that is to be made smaller: its places beyond that are given to nobody.
pub(super) fn smaller(view: &View<'_>) -> BTreeMap<ReservationId, i64> {
    let reservations = view.standing.reservations.iter().filter(|(_, spec)| {
        spec.manage == Manage::Full && matches!(spec.terms, TermsSpec::OnDemand { cancel: false, .. })
    });
    let found = reservations.filter_map(|(name, spec)| {
        let id = id_of(view.input, name)?;
        let seen = view.input.observed.cloud.reservations.seen().get(&id)?;
        let more = i64::from(spec.nodes) - i64::from(used(seen));
        (spec.nodes < seen.total).then_some((id, more))
    });
    found.collect()
}

fn reserved<'p>(one: &(u32, &'p Source)) -> Option<&'p ReservationName> {
    match one.1 {
        Source::Reservation(name) => Some(name),
        _ => None,
    }
}

/// How many places of a reservation a plan can launch into now.
pub fn open_places(view: &View<'_>, name: &ReservationName) -> u32 {
    let Some(spec) = view.standing.reservations.get(name) else { return 0 };
    let Some(id) = id_of(view.input, name) else { return 0 };
    let Some(seen) = view.input.observed.cloud.reservations.seen().get(&id) else { return 0 };
    let places = match (&spec.terms, &seen.state) {
        (TermsSpec::OnDemand { cancel: true, .. }, _) => 0,
        (TermsSpec::Block(block), ReservationState::Active) => {
            let is_over = seen.end.is_some_and(|end| begins_at(view, end, block.kill) <= view.now);
            if is_over { 0 } else { seen.available }
        }
        (_, ReservationState::Active) => seen.available,
        (TermsSpec::OnDemand { .. }, ReservationState::Pending) => seen.total.max(seen.available),
        _ => 0,
    };
    if is_only_tagged(view.input, name) {
        return 0;
    }
    let is_asked = |slot: &SlotView<'_>| match slot.body {
        Body::InFlight(intent) => intent.request.reservation.as_ref() == Some(&id),
        _ => false,
    };
    let asked = u32::try_from(view.slots().filter(|(_, slot)| is_asked(slot)).count()).unwrap_or(u32::MAX);
    let most = smaller(view).get(&id).map_or(u32::MAX, |more| u32::try_from(*more).unwrap_or(0));
    places.min(most).saturating_sub(asked)
}

impl Room {
    /// Whether a reservation is made or found before anything is launched into it.
    pub(super) fn is_coming(&self, view: &View<'_>, name: &ReservationName) -> bool {
        self.coming.contains_key(name) && refused_reservation(view, name).is_none()
    }

    /// The sources of a pool in the order in which they are asked: reservations in which the fabric has a place for it go
    /// before others that are paid for as well.
    pub(super) fn sources<'p>(
        &self,
        view: &View<'_>,
        pool: &PoolView<'p>,
        slot: &SlotView<'_>,
    ) -> Vec<(u32, &'p Source)> {
        let mut all: Vec<(u32, &Source)> = (0u32..).zip(&pool.spec.capacity).collect();
        let is_dear = |(_, source): &(u32, &Source)| matches!(source, Source::OnDemand { .. } | Source::Spot { .. });
        let end = all.iter().position(is_dear).unwrap_or(all.len());
        let mut first: Vec<(u32, &Source)> = all[..end].iter().filter(|one| reserved(one).is_some()).copied().collect();
        let has_seat = |name: &ReservationName| {
            let id = id_of(view.input, name);
            is_empty(slot) && id.is_some_and(|id| self.claims.has_seat(pool.name, &id))
        };
        first.sort_by_key(|one| !reserved(one).is_some_and(has_seat));
        all[..end].iter_mut().filter(|one| reserved(one).is_some()).zip(first).for_each(|(one, next)| *one = next);
        all
    }

    /// Whether a reservation that is made or found first will have a place for this slot too; one that it has is taken.
    pub(super) fn has_coming(
        &mut self,
        view: &View<'_>,
        pool: &PoolView<'_>,
        name: &ReservationName,
        freed: Option<&ReservationId>,
    ) -> bool {
        let own = freed.is_some() && freed == unlisted(view, name).as_ref();
        let places = self.coming.entry(name.clone()).or_insert(0);
        if !own && *places == 0 {
            return false;
        }
        *places -= u32::from(!own);
        if let Some(zone) = view.standing.reservations.get(name).and_then(|spec| spec.zone.as_ref()) {
            self.pin(view, pool, zone);
        }
        true
    }

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
