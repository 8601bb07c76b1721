//! Where pools stand that require a level and are launched: what is reserved elsewhere is no place for them.
//!
//! The cloud tells where a machine stands once it runs. Until then it stands where its reservation does, or on the host
//! that its launch named; where neither says enough, nothing more is launched for its pool until it is told.
//!
//! A pool that has nothing yet stands where the placement puts it (`seats`).

use std::collections::BTreeMap;

use crate::fabric::sources::layer;
use crate::fleet::pool::Source;
use crate::ids::{LevelName, PoolName, ReservationId};
use crate::observed::InstanceState;
use crate::plan::reservations::id_of;
use crate::plan::view::{Body, LISTED_WITHIN, PoolView, SlotView, View};

/// The homes of pools that require a level and are launched.
#[derive(Clone, Default, Debug)]
pub struct Homes {
    /// The level, and the network nodes down to it that a pool stands below, or has to.
    pub at: BTreeMap<PoolName, (LevelName, Vec<String>)>,
    /// Those of them whose machines are there already, or on their way.
    pub there: BTreeMap<PoolName, Vec<String>>,
    /// Pools with machines of which nobody can say yet where they stand, with what is waited for.
    pub untold: BTreeMap<PoolName, String>,
}

impl Homes {
    pub fn of(view: &View<'_>) -> Self {
        let mut homes = Self::default();
        for pool in view.pools.values() {
            let Some((name, deep)) = required(view, pool) else { continue };
            match stands(view, pool, deep) {
                Stands::There(home) => {
                    homes.there.insert(pool.name.clone(), home.clone());
                    homes.at.insert(pool.name.clone(), (name.clone(), home));
                }
                Stands::Untold(slot) if has_told_places(view, pool) => {
                    let what = format!(
                        "the {name} of pool/{}: the machine of {slot} is on its way, and where it stands is told when it \
                         runs",
                        pool.name
                    );
                    homes.untold.insert(pool.name.clone(), what);
                }
                Stands::Untold(_) | Stands::Nowhere => {}
            }
        }
        homes
    }
}

/// The level that a pool requires, and how many network nodes it takes from the top.
pub fn required<'a>(view: &View<'a>, pool: &PoolView<'a>) -> Option<(&'a LevelName, usize)> {
    let placement = pool.spec.placement.as_ref().filter(|placement| placement.required)?;
    let levels = &view.standing.levels;
    let level = levels.iter().position(|level| Some(&level.name) == placement.together.as_ref())?;
    Some((&levels[level].name, layer(level, levels[level].node_label.as_deref()) + 1))
}

enum Stands {
    /// Below these network nodes: most of its machines, of those that are told of.
    There(Vec<String>),
    /// It has machines, and of none is known where; this slot's is one.
    Untold(crate::ids::SlotId),
    Nowhere,
}

fn stands<'a>(view: &View<'a>, pool: &PoolView<'a>, deep: usize) -> Stands {
    let mut there: BTreeMap<&[String], u32> = BTreeMap::new();
    let mut untold = None;
    for slot in &pool.slots {
        match network(view, slot).and_then(|network| network.get(..deep)) {
            Some(home) => *there.entry(home).or_default() += 1,
            None if is_coming(view, slot) => untold = untold.or(Some(slot)),
            None => {}
        }
    }
    let most = there.into_iter().max_by(|one, other| one.1.cmp(&other.1).then(other.0.cmp(one.0)));
    match (most, untold) {
        (Some((home, _)), _) => Stands::There(home.to_vec()),
        (None, Some(slot)) => Stands::Untold(slot.id.clone()),
        (None, None) => Stands::Nowhere,
    }
}

/// Where a slot's machine stands, or will: what the cloud tells of it, else of its reservation, else of the host that its
/// launch names.
fn network<'a>(view: &View<'a>, slot: &SlotView<'a>) -> Option<&'a [String]> {
    let cloud = &view.input.observed.cloud;
    let of = |id: &ReservationId| Some(cloud.reservations.seen().get(id)?.network.as_slice());
    let own = slot.instance.map(|(_, seen)| seen);
    if own.is_some_and(|seen| !seen.state.is_live()) {
        return None;
    }
    match (own, slot.body) {
        (Some(seen), _) if !seen.network.is_empty() => Some(&seen.network),
        (Some(seen), _) => of(seen.reservation.as_ref()?),
        (None, Body::InFlight(intent)) => {
            let host = intent.request.host.as_ref().and_then(|name| cloud.hosts.get(name));
            host.map(|host| host.network.as_slice()).or_else(|| of(intent.request.reservation.as_ref()?))
        }
        (None, Body::Starting) => of(slot.record?.reservation.as_ref()?),
        (None, _) => None,
    }
}

/// Whether where a slot's machine stands is still to be told. One that has run for long and is not told of never is.
fn is_coming(view: &View<'_>, slot: &SlotView<'_>) -> bool {
    match (slot.instance, slot.body) {
        (Some((_, seen)), _) => match seen.state {
            InstanceState::Pending => true,
            InstanceState::Running => view.now.duration_since(seen.launched) <= LISTED_WITHIN,
            _ => false,
        },
        (None, body) => matches!(body, Body::InFlight(_)) || (body == Body::Starting && !slot.is_existing()),
    }
}

/// Whether of any place that a pool could have is known where it is: else waiting would tell nothing.
fn has_told_places(view: &View<'_>, pool: &PoolView<'_>) -> bool {
    let cloud = &view.input.observed.cloud;
    let is_told = |source: &Source| match source {
        Source::Reservation(name) => {
            let id = id_of(view.input, name);
            let seen = id.and_then(|id| cloud.reservations.seen().get(&id));
            seen.is_some_and(|seen| !seen.network.is_empty())
        }
        Source::Existing { .. } => true,
        Source::OnDemand { .. } | Source::Spot { .. } => false,
    };
    cloud.hosts.values().any(|host| host.instance_type == pool.spec.shape.instance_type)
        || pool.spec.capacity.iter().any(is_told)
}
