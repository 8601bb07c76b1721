//! What an hour costs, before and after: exact decimals, from prices that the fleet or the catalogue knows.
//!
//! On-demand and spot instances are paid while they run, reservations whether they are used or not, Capacity Blocks
//! once. A type without a price counts as nothing, and the plan says so in a note elsewhere; no price is invented.

use std::collections::{BTreeMap, BTreeSet};

use rust_decimal::Decimal;

use super::types::{Cost, Held, PlanInput, Step};
use crate::effect::{Action, CloudAction, LaunchRequest, Thing, Verb};
use crate::hardware::catalogue;
use crate::ids::{InstanceType, ReservationId, Zone};
use crate::observed::{InstanceSeen, Market, ReservationSeen, ReservationState};
use crate::units::Usd;

/// US dollars an hour of one node on demand: as the fleet says, else as the catalogue does.
pub fn price(input: &PlanInput, instance_type: &InstanceType) -> Option<Usd> {
    let standing = &input.target.standing;
    let pools = standing.pools.values().map(|pool| &pool.shape);
    let mut shapes = pools.chain(standing.reservations.values().map(|held| &held.shape));
    let said = shapes.find(|shape| shape.instance_type == *instance_type).and_then(|shape| shape.on_demand);
    said.or_else(|| catalogue().types.get(instance_type)?.on_demand.as_ref().map(|price| price.usd))
}

/// That many nodes of a type for an hour.
pub fn hourly(input: &PlanInput, instance_type: &InstanceType, nodes: u32) -> Usd {
    price(input, instance_type).map_or(Usd::default(), |price| times(price, nodes))
}

pub fn times(price: Usd, count: u32) -> Usd {
    Usd(price.0.saturating_mul(Decimal::from(count)))
}

/// What the fleet costs now, and when all of these steps and all that comes by itself are done.
pub fn cost(input: &PlanInput, steps: &[Step], held: &[Held]) -> Cost {
    let prices = Prices::of(input);
    let mut sum = Sums::default();
    let reserved: BTreeSet<&ReservationId> = super::reservations::located(input).collect();
    for instance in input.observed.cloud.instances.seen().values().filter(|instance| is_ours(input, instance)) {
        sum.hourly_now += prices.instance(instance);
    }
    for id in &reserved {
        if let Some(seen) = input.observed.cloud.reservations.seen().get(*id).filter(|seen| is_paid(seen)) {
            let rate = prices.on_demand(&seen.instance_type);
            sum.reserved_now += rate * Decimal::from(seen.total);
            sum.idle_now += rate * Decimal::from(seen.available.min(seen.total));
        }
    }
    for step in steps {
        sum.step(&prices, step);
    }
    // A pool's nodes are looked at once, however many of them wait to go.
    let mut going: BTreeMap<&Thing, Going> = BTreeMap::new();
    for held in held.iter().filter(|held| held.waiting_on.is_part_of_it()) {
        sum.held(held, &mut going);
    }
    for (on, going) in going {
        sum.hourly -= prices.cheapest(on) * Decimal::from(going.ended);
        sum.idle += prices.prepaid(on) * Decimal::from(going.ended.saturating_sub(going.launched));
    }
    let usd = |now: Decimal| Usd(now.max(Decimal::ZERO).normalize());
    let Sums { hourly_now, reserved_now, idle_now, hourly, reserved, idle, upfront } = sum;
    Cost {
        hourly_now: usd(hourly_now),
        hourly_after: usd(hourly_now + hourly),
        reserved_now: usd(reserved_now),
        reserved_after: usd(reserved_now + reserved),
        idle_now: usd(idle_now),
        idle_after: usd((idle_now + idle).min(reserved_now + reserved)),
        upfront: usd(upfront),
    }
}

/// Nodes of a pool that wait to go, and those that wait to come.
#[derive(Default)]
struct Going {
    ended: u32,
    launched: u32,
}

#[derive(Default)]
struct Sums {
    hourly_now: Decimal,
    reserved_now: Decimal,
    idle_now: Decimal,
    /// What is added to these.
    hourly: Decimal,
    reserved: Decimal,
    idle: Decimal,
    upfront: Decimal,
}

impl Sums {
    fn step(&mut self, prices: &Prices<'_>, step: &Step) {
        let Action::Cloud(action) = &step.action else { return };
        let reservations = prices.input.observed.cloud.reservations.seen();
        match action {
            CloudAction::Launch(request) => match request.market {
                Market::OnDemand | Market::Spot => self.hourly += prices.request(request),
                Market::Reserved => self.idle -= prices.on_demand(&request.instance_type),
                Market::Block => {}
            },
            CloudAction::Terminate { instance, .. } => {
                let Some(seen) = prices.input.observed.cloud.instances.seen().get(instance) else { return };
                self.hourly -= prices.instance(seen);
                if seen.market == Market::Reserved && seen.state.is_live() {
                    self.idle += prices.on_demand(&seen.instance_type);
                }
            }
            CloudAction::Reserve(request) => {
                let rate = prices.on_demand(&request.instance_type) * Decimal::from(request.nodes);
                self.reserved += rate;
                self.idle += rate;
            }
            CloudAction::Modify { id, nodes, .. } => {
                let Some(seen) = reservations.get(id) else { return };
                let more = (Decimal::from(*nodes) - Decimal::from(seen.total)) * prices.on_demand(&seen.instance_type);
                self.reserved += more;
                self.idle += more;
            }
            CloudAction::Cancel { id, .. } => {
                let Some(seen) = reservations.get(id) else { return };
                let rate = prices.on_demand(&seen.instance_type);
                let used = seen.total.saturating_sub(seen.available);
                self.reserved -= rate * Decimal::from(seen.total);
                self.idle -= rate * Decimal::from(seen.available.min(seen.total));
                // What runs in it runs on, on demand.
                self.hourly += rate * Decimal::from(used);
            }
            CloudAction::Purchase(request) => self.upfront += request.fee.0,
            CloudAction::Reboot { .. } | CloudAction::EnsureTemplate(_) | CloudAction::EnsureGroup { .. } => {}
        }
    }

    /// Only bounds are known of what waits: what it adds by the hour, and how many nodes go. Of a node that goes and one
    /// that takes its place nothing is added: it costs what the other did. A purchase that waits for an offer may never
    /// come, and is paid for by the plan that makes it.
    fn held<'h>(&mut self, held: &'h Held, going: &mut BTreeMap<&'h Thing, Going>) {
        let count = |verb: Verb, on: &Thing| {
            let of = held.effects.0.iter().filter(|(key, _)| key.verb == verb && key.on == *on);
            of.map(|(_, amount)| amount.count).sum::<u32>()
        };
        let replaced = |on: &Thing| count(Verb::Launch, on).min(count(Verb::Terminate, on));
        for (key, amount) in &held.effects.0 {
            match key.verb {
                Verb::Launch => {
                    let more = amount.count.saturating_sub(replaced(&key.on));
                    self.hourly += amount.usd_hour.0 * Decimal::from(more) / Decimal::from(amount.count.max(1));
                    going.entry(&key.on).or_default().launched += more;
                }
                Verb::Reserve | Verb::Resize => {
                    self.reserved += amount.usd_hour.0;
                    self.idle += amount.usd_hour.0;
                }
                Verb::Terminate => {
                    going.entry(&key.on).or_default().ended += amount.count.saturating_sub(replaced(&key.on));
                }
                _ => {}
            }
        }
    }
}

struct Prices<'a> {
    input: &'a PlanInput,
    known: BTreeMap<&'a InstanceType, Decimal>,
    spot: &'a BTreeMap<InstanceType, BTreeMap<Zone, Usd>>,
}

impl<'a> Prices<'a> {
    fn of(input: &'a PlanInput) -> Self {
        let cloud = &input.observed.cloud;
        let instances = cloud.instances.seen().values().map(|seen| &seen.instance_type);
        let reservations = cloud.reservations.seen().values().map(|seen| &seen.instance_type);
        let types: BTreeSet<&InstanceType> = instances.chain(reservations).collect();
        let known = types.into_iter().filter_map(|name| Some((name, price(input, name)?.0)));
        Self { input, known: known.collect(), spot: cloud.spot_prices.seen() }
    }

    fn on_demand(&self, name: &InstanceType) -> Decimal {
        let known = self.known.get(name).copied();
        known.or_else(|| price(self.input, name).map(|price| price.0)).unwrap_or_default()
    }

    /// A spot price that nobody knows is taken to be the on-demand price: it is never more for long.
    fn spot(&self, name: &InstanceType, zone: &Zone) -> Decimal {
        let known = self.spot.get(name).and_then(|zones| zones.get(zone));
        known.map_or_else(|| self.on_demand(name), |price| price.0)
    }

    fn instance(&self, seen: &InstanceSeen) -> Decimal {
        match seen.market {
            // EC2 bills neither what waits to run nor what is going.
            _ if !seen.state.serves() => Decimal::ZERO,
            Market::OnDemand => self.on_demand(&seen.instance_type),
            Market::Spot => self.spot(&seen.instance_type, &seen.zone),
            Market::Reserved | Market::Block => Decimal::ZERO,
        }
    }

    fn request(&self, request: &LaunchRequest) -> Decimal {
        match request.market {
            Market::Spot => self.spot(&request.instance_type, &request.zone),
            _ => self.on_demand(&request.instance_type),
        }
    }

    /// What one node less of a pool saves at least: nothing, where some of its nodes are prepaid.
    fn cheapest(&self, on: &Thing) -> Decimal {
        self.nodes(on).map(|seen| self.instance(seen)).min().unwrap_or_default()
    }

    /// What one node less of a pool leaves idle at least: nothing, where some of its nodes are not in a reservation.
    fn prepaid(&self, on: &Thing) -> Decimal {
        let idle = |seen: &InstanceSeen| match seen.market {
            Market::Reserved if seen.state.is_live() => self.on_demand(&seen.instance_type),
            _ => Decimal::ZERO,
        };
        self.nodes(on).map(idle).min().unwrap_or_default()
    }

    fn nodes(&self, on: &Thing) -> impl Iterator<Item = &'a InstanceSeen> {
        let ledger = match on {
            Thing::Pool(pool) => self.input.ledger.pools.get(pool),
            _ => None,
        };
        let instances = self.input.observed.cloud.instances.seen();
        let slots = ledger.into_iter().flat_map(|ledger| ledger.slots.values());
        slots.filter_map(|slot| instances.get(slot.instance.as_ref()?))
    }
}

fn is_ours(input: &PlanInput, instance: &InstanceSeen) -> bool {
    instance.tag.as_ref().is_some_and(|tag| tag.fleet == *super::reservations::fleet(input))
}

/// A block is paid upfront, and what has not begun or is over costs nothing.
fn is_paid(seen: &ReservationSeen) -> bool {
    !seen.block && matches!(seen.state, ReservationState::Active | ReservationState::Pending)
}

#[cfg(test)]
mod tests;
