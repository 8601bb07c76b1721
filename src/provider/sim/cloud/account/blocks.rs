//! Capacity Blocks as the wire has them: offers for whoever asks, and buying by an offer's id alone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::super::CloudState;
use crate::ids::{InstanceType, OfferingId, ReservationId, Zone};
use crate::observed::OfferingSeen;
use crate::provider::{Done, ProviderError};
use crate::units::Duration;

impl CloudState {
    /// What is offered between two instants, in any of these zones. Whoever asked can buy it.
    pub fn find_blocks(
        &mut self,
        now: Timestamp,
        instance_type: &InstanceType,
        nodes: u32,
        duration: Duration,
        (from, to): (Timestamp, Timestamp),
        zones: &[Zone],
    ) -> Vec<OfferingSeen> {
        let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        let days = day(from.max(now)).series(jiff::Span::new().days(1)).take_while(|date| *date <= day(to));
        let found = self.new_blocks(now, instance_type, nodes, duration, days.take(60), zones);
        let fits = |offer: &OfferingSeen| offer.start >= from && offer.start <= to;
        let found = found.into_iter().filter(|offer| fits(offer) && !self.withdrawn.contains(&offer.id));
        self.shown(found.collect())
    }

    /// What more time for a block costs.
    pub fn find_extension(
        &mut self,
        now: Timestamp,
        id: &ReservationId,
        by: Duration,
    ) -> Result<Vec<OfferingSeen>, ProviderError> {
        let offer = self.extension(now, id, self.known(now, id)?, by);
        Ok(self.shown(offer.into_iter().collect()))
    }

    /// Buys what was offered. There is no token: whoever buys twice has two.
    pub fn buy(
        &mut self,
        now: Timestamp,
        offering: &OfferingId,
        extends: Option<&ReservationId>,
        tags: BTreeMap<String, String>,
    ) -> Result<(ReservationId, OfferingSeen), ProviderError> {
        let offer = self.open_offer(now, offering, extends)?;
        let Done::Reservation(id) = self.take_offer(now, &offer, super::reservation_of(&tags))?.done else {
            unreachable!("buying gives a reservation")
        };
        self.account.tag(id.as_str(), tags);
        Ok((id, offer))
    }

    fn shown(&mut self, offers: Vec<OfferingSeen>) -> Vec<OfferingSeen> {
        for offer in &offers {
            self.offers.entry(offer.id.clone()).or_insert_with(|| offer.clone());
        }
        offers
    }
}
