//! Two machines that change places: each serves the slot that the other was in.
//!
//! Two pools are two parts of the ledger, and a part is swapped alone. So an exchange is three swaps, and the first one
//! decides:
//!
//! 1. One slot takes the machine of the other, and notes which one it gave for it.
//! 2. The other slot takes what was given.
//! 3. The first forgets its note.
//!
//! Whoever reads the ledger in between reads it as it will be ([`Ledger::settle_exchanges`]): a slot has one machine at
//! every instant, and a machine one slot. Where the other slot lost its machine before 2, by a plan that was older than
//! the note, nothing was given for it: the first has its own again, and 3 writes that down. The generations stay: no
//! request was made. The machine keeps its tag, which says what it was launched for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, Slot, Treated};
use crate::ids::{InstanceId, ReservationId, SlotId};

/// What goes with a machine from slot to slot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub instance: InstanceId,
    pub launched: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationId>,
    /// The slot that it was launched for.
    pub made_for: SlotId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Treated>,
}

/// The note of an exchange that is not over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Exchange {
    pub with: SlotId,
    pub gave: Machine,
}

impl Slot {
    /// What it has, where that was launched.
    pub fn machine(&self, own: &SlotId) -> Option<Machine> {
        Some(Machine {
            instance: self.instance.clone()?,
            launched: self.launched,
            reservation: self.reservation.clone(),
            made_for: self.made_for.clone().unwrap_or_else(|| own.clone()),
            remedies: self.remedies.clone(),
        })
    }

    pub(super) fn take(&mut self, own: &SlotId, machine: &Machine) {
        let machine = machine.clone();
        (self.instance, self.launched) = (Some(machine.instance), machine.launched);
        (self.reservation, self.remedies) = (machine.reservation, machine.remedies);
        self.made_for = Some(machine.made_for).filter(|made_for| made_for != own);
        (self.missing_since, self.lost, self.leaving) = (None, false, false);
    }

    pub(super) fn exchange(&mut self, own: &SlotId, with: &SlotId, gives: &InstanceId, takes: &Machine) {
        if self.exchange.is_none()
            && self.instance.as_ref() == Some(gives)
            && let Some(gave) = self.machine(own)
        {
            self.take(own, takes);
            self.exchange = Some(Exchange { with: with.clone(), gave });
        }
    }

    /// Forgets the note, with what it has now or what it had before.
    pub(super) fn end_exchange(&mut self, own: &SlotId, keeps: &InstanceId) {
        let Some(note) = self.exchange.take() else { return };
        if note.gave.instance == *keeps && self.instance.as_ref() != Some(keeps) {
            self.take(own, &note.gave);
        }
    }
}

impl Ledger {
    /// Reads exchanges that were broken off as they will be. The notes stay: whoever plans sees that they are not over.
    pub fn settle_exchanges(&mut self) {
        for (slot, note) in self.exchanges() {
            let has = self.slot(&slot).and_then(|found| found.instance.clone());
            let other = self.found_mut(&note.with);
            let holds = other.as_ref().and_then(|other| other.instance.clone());
            let is_free = other.as_ref().is_some_and(|other| other.intent.is_none() && other.node.is_none());
            match other {
                Some(_) if holds.as_ref() == Some(&note.gave.instance) => {}
                Some(other) if is_free && has.is_some() && holds == has => other.take(&note.with, &note.gave),
                _ => {
                    if let Some(found) = self.found_mut(&slot) {
                        found.take(&slot, &note.gave);
                    }
                }
            }
        }
    }

    /// The exchanges that are not over, by the slot with the note.
    pub fn exchanges(&self) -> Vec<(SlotId, Exchange)> {
        let slots = self.pools.iter().flat_map(|(name, pool)| pool.slots.iter().map(move |slot| (name, slot)));
        let noted = slots.filter_map(|(name, (index, slot))| Some((SlotId::new(name, *index), slot.exchange.clone()?)));
        noted.collect()
    }
}

#[cfg(test)]
mod tests;
