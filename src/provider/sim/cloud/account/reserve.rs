//! CreateCapacityReservation and its siblings as the wire has them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::super::launch::mismatch;
use super::super::reservation::{check_count, check_end};
use super::super::{CloudState, refused};
use crate::fleet::reservation::Match;
use crate::ids::{InstanceType, ReservationId, Zone};
use crate::provider::{Class, ProviderError};

/// What CreateCapacityReservation asks for.
#[derive(Clone, Debug)]
pub struct Reserving {
    pub asked: Value,
    pub token: Option<String>,
    pub instance_type: InstanceType,
    pub zone: Zone,
    pub nodes: u32,
    pub end: Option<Timestamp>,
    pub matching: Match,
    pub tags: BTreeMap<String, String>,
}

impl CloudState {
    /// Makes a reservation, or says which one the token made. The second word is whether it is new.
    pub fn reserve_as_asked(
        &mut self,
        now: Timestamp,
        asked: &Reserving,
    ) -> Result<(ReservationId, bool), ProviderError> {
        let key = asked.token.as_ref().map(|token| format!("CreateCapacityReservation|{token}"));
        if let Some((first, id)) = key.as_ref().and_then(|key| self.account.made.get(key)) {
            let same = *first == asked.asked;
            return if same { Ok((id.as_str().into(), false)) } else { Err(mismatch("CreateCapacityReservation")) };
        }
        if self.shape_of(&asked.instance_type).is_none() {
            let message = format!("InvalidInstanceType: The instance type '{}' is not supported.", asked.instance_type);
            return Err(refused(Class::Other, message));
        }
        check_count(asked.nodes)?;
        check_end(now, asked.end)?;
        let id: ReservationId = self.new_id("cr");
        let Reserving { instance_type, zone, nodes, end, matching, .. } = asked;
        self.hold(now, id.clone(), super::reservation_of(&asked.tags), instance_type, zone, *nodes, *end, *matching)?;
        self.account.tag(id.as_str(), asked.tags.clone());
        self.account.reserved.insert(id.clone(), asked.asked.clone());
        if let Some(key) = key {
            self.account.made.insert(key, (asked.asked.clone(), id.to_string()));
        }
        Ok((id, true))
    }

    /// Changes what is said of a reservation, and leaves the rest.
    pub fn change_reservation(
        &mut self,
        now: Timestamp,
        id: &ReservationId,
        nodes: Option<u32>,
        end: Option<Option<Timestamp>>,
        matching: Option<Match>,
    ) -> Result<bool, ProviderError> {
        let held = self.known(now, id)?;
        let (nodes, end) = (nodes.unwrap_or(held.total), end.unwrap_or(held.end));
        let matching = matching.unwrap_or(held.matching);
        self.modify(now, id, nodes, end, matching).map(|done| done.changed)
    }

    pub fn cancel_reservation(&mut self, now: Timestamp, id: &ReservationId) -> Result<bool, ProviderError> {
        self.cancel(now, id).map(|done| done.changed)
    }

    /// When it was over by somebody's order, and not by its end.
    pub fn was_cancelled(&self, id: &ReservationId) -> bool {
        let Some(held) = self.reservations.get(id) else { return false };
        held.over.is_some_and(|over| held.end.is_none_or(|end| over < end))
    }

    /// Whether it is still listed as pending, though it can be used.
    pub fn is_shown(&self, now: Timestamp, id: &ReservationId) -> bool {
        self.reservations.get(id).is_some_and(|held| now >= held.shown)
    }
}
