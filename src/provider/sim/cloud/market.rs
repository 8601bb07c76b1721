//! What capacity the cloud has left to sell, and what it costs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::super::dice::Dice;
use crate::hardware::catalogue;
use crate::ids::{InstanceType, Zone};
use crate::observed::Market;
use crate::provider::{Class, ProviderError};
use crate::units::Usd;

/// What is left for sale. What nobody has set is without bound.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rooms(BTreeMap<InstanceType, BTreeMap<Zone, Room>>);

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
struct Room {
    on_demand: Option<u32>,
    spot: Option<u32>,
}

impl Rooms {
    /// Says how much is left.
    pub fn set(&mut self, instance_type: &InstanceType, zone: &Zone, market: Market, left: Option<u32>) {
        let room = self.0.entry(instance_type.clone()).or_default().entry(zone.clone()).or_default();
        *room.of(market) = left;
    }

    pub fn take(
        &mut self,
        instance_type: &InstanceType,
        zone: &Zone,
        market: Market,
        count: u32,
    ) -> Result<(), ProviderError> {
        let Some(left) = self.left_mut(instance_type, zone, market) else { return Ok(()) };
        match left.checked_sub(count) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => Err(insufficient(instance_type, zone)),
        }
    }

    pub fn give_back(&mut self, instance_type: &InstanceType, zone: &Zone, market: Market, count: u32) {
        if let Some(left) = self.left_mut(instance_type, zone, market) {
            *left = left.saturating_add(count);
        }
    }

    fn left_mut(&mut self, instance_type: &InstanceType, zone: &Zone, market: Market) -> Option<&mut u32> {
        self.0.get_mut(instance_type)?.get_mut(zone)?.of(market).as_mut()
    }
}

impl Room {
    /// Reserved machines are on-demand machines that somebody holds.
    fn of(&mut self, market: Market) -> &mut Option<u32> {
        match market {
            Market::Spot => &mut self.spot,
            Market::OnDemand | Market::Reserved | Market::Block => &mut self.on_demand,
        }
    }
}

/// EC2's answer when it has no machine. Over the wire this is a 500.
pub fn insufficient(instance_type: &InstanceType, zone: &Zone) -> ProviderError {
    let message = format!(
        "InsufficientInstanceCapacity: We currently do not have sufficient {instance_type} capacity in the \
         Availability Zone you requested ({zone})."
    );
    ProviderError::new(Class::NoCapacity, message)
}

/// US dollars an hour on demand; a guess by its GPUs where the catalogue knows no price.
pub fn list_price(instance_type: &InstanceType) -> Decimal {
    let known = catalogue().types.get(instance_type);
    match known.and_then(|known| known.on_demand.as_ref()) {
        Some(price) => price.usd.0,
        None => Decimal::from(1 + 6 * known.map_or(0, |known| known.gpus)),
    }
}

/// Spot prices wander between knots this far apart.
const HOURS_A_KNOT: i64 = 6;

/// The spot price of an hour: a walk around what the catalogue saw, from 80 to 125 percent of it.
pub fn spot_price(dice: Dice, instance_type: &InstanceType, zone: &Zone, at: Timestamp) -> Usd {
    let middle = match catalogue().types.get(instance_type).and_then(|known| known.spot.as_ref()) {
        Some(seen) => (seen.low.0 + seen.high.0) / Decimal::TWO,
        None => list_price(instance_type) * Decimal::new(4, 1),
    };
    let hour = at.as_second().div_euclid(3600);
    let (knot, step) = (hour.div_euclid(HOURS_A_KNOT), hour.rem_euclid(HOURS_A_KNOT));
    let at_knot = |knot: i64| {
        let words = ["spot", instance_type.as_str(), zone.as_str(), &knot.to_string()];
        Decimal::from(dice.between(800, 1251, &words))
    };
    let (one, other) = (at_knot(knot), at_knot(knot + 1));
    let here = one + (other - one) * Decimal::from(step) / Decimal::from(HOURS_A_KNOT);
    Usd((middle * here / Decimal::ONE_THOUSAND).round_dp(4))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn what_is_taken_is_gone_until_it_is_given_back() {
        let (instance_type, zone, mut rooms) = ("p5.48xlarge".into(), "us-west-2a".into(), Rooms::default());
        rooms.take(&instance_type, &zone, Market::OnDemand, 1_000).unwrap();
        rooms.set(&instance_type, &zone, Market::OnDemand, Some(2));
        rooms.take(&instance_type, &zone, Market::OnDemand, 2).unwrap();
        let refused = rooms.take(&instance_type, &zone, Market::OnDemand, 1).unwrap_err();
        assert_eq!(refused.class, Class::NoCapacity);
        assert!(refused.message.starts_with("InsufficientInstanceCapacity: "), "{refused}");
        rooms.take(&instance_type, &zone, Market::Spot, 1).unwrap();
        rooms.give_back(&instance_type, &zone, Market::OnDemand, 1);
        rooms.take(&instance_type, &zone, Market::OnDemand, 1).unwrap();
    }

    #[test]
    fn the_spot_price_is_the_same_all_hour_and_wanders_over_the_day() {
        let (instance_type, zone) = ("p5.48xlarge".into(), "us-west-2a".into());
        let hour: Timestamp = "2026-07-01T10:00:00Z".parse().unwrap();
        let price =
            |minutes: i64| spot_price(Dice(1), &instance_type, &zone, hour + SignedDuration::from_mins(minutes));
        assert_eq!(price(0), price(59));
        let day: std::collections::BTreeSet<Usd> = (0..24).map(|hour| price(60 * hour)).collect();
        assert!(day.len() > 10, "{day:?}");
        assert!(day.iter().all(|usd| (Decimal::from(16)..Decimal::from(27)).contains(&usd.0)), "{day:?}");
    }
}
