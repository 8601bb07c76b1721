//! Where pools stand that require a level and are launched: what is reserved elsewhere is no place for them.
//!
//! A reservation's topology is known before anything is launched in it, so the reservation is chosen as far as the order
//! of a pool's sources leaves a choice: those of one domain, which together have the most of what is lacking.

use std::collections::BTreeMap;

use crate::fabric::sources::layer;
use crate::fleet::pool::Source;
use crate::ids::{LevelName, PoolName};
use crate::observed::ReservationState;
use crate::plan::reservations::id_of;
use crate::plan::view::{PoolView, View};

pub fn homes(view: &View<'_>) -> BTreeMap<PoolName, (LevelName, Vec<String>)> {
    let mut found = BTreeMap::new();
    for pool in view.pools.values() {
        let Some(placement) = pool.spec.placement.as_ref().filter(|placement| placement.required) else { continue };
        let levels = &view.standing.levels;
        let level = levels.iter().position(|level| Some(&level.name) == placement.together.as_ref());
        let Some(level) = level else { continue };
        let deep = layer(level, levels[level].node_label.as_deref()) + 1;
        if let Some(home) = home(view, pool, deep) {
            found.insert(pool.name.clone(), (levels[level].name.clone(), home));
        }
    }
    found
}

/// So many network nodes from the top: those that most of its machines share, else those of its best reservations.
fn home(view: &View<'_>, pool: &PoolView<'_>, deep: usize) -> Option<Vec<String>> {
    let mut there: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    let machines = pool.slots.iter().filter_map(|slot| slot.instance).filter(|(_, seen)| seen.state.is_live());
    for network in machines.map(|(_, seen)| &seen.network).filter(|network| network.len() >= deep) {
        *there.entry(network[..deep].to_vec()).or_default() += 1;
    }
    let most = there.into_iter().max_by(|one, other| one.1.cmp(&other.1).then(other.0.cmp(&one.0)));
    if let Some((home, _)) = most {
        return Some(home);
    }
    // In the order of the sources, so that the first of several that are as good is taken.
    let mut reserved: Vec<(Vec<String>, u32)> = Vec::new();
    for source in &pool.spec.capacity {
        let Source::Reservation(name) = source else { continue };
        let id = id_of(view.input, name);
        let seen = id.and_then(|id| view.input.observed.cloud.reservations.seen().get(&id));
        let Some(seen) = seen.filter(|seen| seen.network.len() >= deep) else { continue };
        let places = match seen.state {
            ReservationState::Active => seen.available,
            ReservationState::Pending => seen.total,
            _ => continue,
        };
        let home = &seen.network[..deep];
        match reserved.iter_mut().find(|(known, _)| known == home) {
            Some((_, known)) => *known += places,
            None => reserved.push((home.to_vec(), places)),
        }
    }
    let wanted = pool.target.nodes;
    let best = reserved.iter().map(|(_, places)| (*places).min(wanted)).max()?;
    reserved.into_iter().find(|(_, places)| (*places).min(wanted) == best).map(|(home, _)| home)
}
