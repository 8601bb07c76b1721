//! Our only memory, and the changes that are made to it.
//!
//! It lives in the cluster, in parts that are swapped one by one on the version that was read: a head, and one part a
//! pool. In flight is what has an open intent that the snapshot does not explain: a function, so after a crash nothing
//! is rebuilt. Every change is a [`LedgerChange`], applied by [`Ledger::change`] and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::action::{LaunchRequest, PurchaseRequest, ReserveRequest};
use super::change::LedgerChange;
use super::effects::Effects;
use super::exchange::Exchange;
use super::health::OWN_RULES;
use crate::fleet::policy::Remedy;
use crate::fleet::standing::TideSpec;
use crate::ids::{
    BootId, Digest, FleetUid, InstanceId, NodeName, PlanId, PoolName, ReservationId, ReservationName, SlotId, TideName,
    Zone,
};
pub use said::{DrainOrder, Freeze, Quarantine, Recall, Scope};

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Ledger {
    pub head: Head,
    pub pools: BTreeMap<PoolName, PoolLedger>,
}

/// What belongs to the fleet as a whole.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Head {
    /// None until the first record.
    pub fleet: Option<FleetUid>,
    /// When that was, and what was there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Began>,
    pub reservations: BTreeMap<ReservationName, HeldReservation>,
    /// What is left of each approval that was opened, by the plan that it was given for. One that is used up stays,
    /// empty, and never opens again; the same change asked for another day is another plan.
    pub approvals: BTreeMap<Digest, Opened>,
    /// What was taken out of each approval and is not known to be done, by what it was taken for: taking it again takes
    /// nothing, so a crash between the record and the effect costs no approval.
    #[serde(default)]
    pub spent: BTreeMap<Digest, BTreeSet<String>>,
    pub purchases: Vec<Purchase>,
    pub frozen: Vec<Freeze>,
    pub quarantined: BTreeMap<NodeName, Quarantine>,
    /// Nodes that a person wants empty, until they say otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drains: BTreeMap<NodeName, DrainOrder>,
    /// Nodes that were kept out of service and may serve again, by a person's word or hand: since when. The last of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub returned: BTreeMap<NodeName, Timestamp>,
    /// Canaries that were seen out of service by another hand than ours, and are not known to serve again: since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unwatched: BTreeMap<NodeName, Timestamp>,
    /// Tides that were turned before their time, and when.
    pub recalled: BTreeMap<TideName, Recall>,
    /// Tides with a guard that have begun to lend: from here on a guard that closes turns them.
    pub lending: BTreeMap<TideName, Timestamp>,
    /// Those of them whose guard nobody answers for, and since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub silent: BTreeMap<TideName, Timestamp>,
    /// Tides that lend, and what: a document that goes meanwhile, or lends less, takes nothing back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lent: BTreeMap<TideName, Lent>,
}

/// The beginning of a memory. There may have been an earlier one that was lost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Began {
    pub at: Timestamp,
    /// Machines of ours that the cloud listed as ended: they count as removed by choice, for an hour.
    pub ended: u32,
    /// Things of ours were there already, so an earlier memory was lost with what people had said in it. Until a person says
    /// that they know.
    #[serde(default)]
    pub anew: bool,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct PoolLedger {
    pub slots: BTreeMap<u32, Slot>,
    /// Slots whose nodes were removed by choice within the last hour, and when.
    pub removed: Vec<(u32, Timestamp)>,
    /// The size that the documents gave it when it last had that many nodes; of a pool that a tide resizes. What is more or
    /// fewer than this is the tide's doing, and nobody's edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// So many nodes each tide was written to give it while it is low, as that was last seen without being in force, or done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub low: BTreeMap<TideName, u32>,
}

/// One place for a node.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// Of the last request; the next one is one more.
    pub generation: u32,
    pub instance: Option<InstanceId>,
    /// A node that was there already and is claimed.
    pub node: Option<NodeName>,
    pub intent: Option<Intent<LaunchRequest>>,
    pub launched: Option<Timestamp>,
    /// The reservation that the instance was launched into: one that is over takes its instances with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationId>,
    /// The last instance went without being asked to: the next one takes its place.
    pub lost: bool,
    /// It had a reserved place and gave it up by choice: one that costs by the hour instead is nobody's to take unasked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gave_up: bool,
    /// We told the instance to end, or were about to: that it is gone is no surprise.
    #[serde(default)]
    pub leaving: bool,
    /// Since when the instance, or the node that was claimed, is missing from whole reads.
    pub missing_since: Option<Timestamp>,
    /// Sources of the pool that refused for want of capacity, and when.
    pub refused: BTreeMap<u32, Timestamp>,
    /// The same by zone, for sources that may be asked in several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_zones: BTreeMap<u32, BTreeMap<Zone, Timestamp>>,
    /// What was done about its health, newest last.
    pub remedies: Vec<Treated>,
    /// The slot that the instance was launched for, where that is another one: its tag says so for as long as it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_for: Option<SlotId>,
    /// It took another slot's machine, and that slot was not seen to have the one that was given for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
}

/// A request that was or will be sent, whole: it is repeated byte for byte until there is a definite answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Intent<T> {
    pub request: T,
    pub plan: PlanId,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct HeldReservation {
    /// Of the last request. It outlives the reservation: a name that comes back must not repeat a token.
    pub generation: u32,
    pub id: Option<ReservationId>,
    pub intent: Option<Intent<ReserveRequest>>,
    pub refused: Option<Timestamp>,
    /// When the one that is held was asked for; none where it was adopted. The cloud may not list it at once.
    #[serde(default)]
    pub asked: Option<Timestamp>,
}

/// A Capacity Block, or more time for one, that we bought or tried to buy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Purchase {
    pub intent: Intent<PurchaseRequest>,
    pub outcome: Outcome,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// Sent, or about to be: nobody knows. A person decides unless the block shows up.
    Open,
    Bought(ReservationId),
    Refused(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Opened {
    /// The digest of the effects that it was given for: what people name it by.
    pub effects: Digest,
    pub left: Effects,
    pub by: String,
    pub at: Timestamp,
    /// What the pools whose nodes are replaced were to become: no other version goes by it unless somebody names it again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<PoolName, Digest>,
}

/// What a tide began to lend.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lent {
    pub since: Timestamp,
    /// As its document last said, and what an edit took out of that while it is not back.
    pub spec: TideSpec,
    /// When the low tide ends, by its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When its document was missed first, or was first seen to end the low tide before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Treated {
    pub at: Timestamp,
    pub remedy: Remedy,
    /// Which rule of the policy, by its place.
    pub rule: u32,
    /// In which boot of its machine the node was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootId>,
}

impl Treated {
    /// Whether nothing was done but to say so, because a policy says so.
    pub fn is_report(&self) -> bool {
        self.remedy == Remedy::Report && self.rule < OWN_RULES
    }
}

/// How much a snapshot had.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Counts {
    pub instances: u32,
    pub nodes: u32,
}

/// How long a removal counts.
const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How many remedies of a slot are remembered: more than any ladder has rungs.
const REMEDIES: usize = 16;

impl HeldReservation {
    /// Whether it is more than the memory of a generation.
    pub fn is_something(&self) -> bool {
        self.id.is_some() || self.intent.is_some()
    }
}

impl PoolLedger {
    /// Whether it is more than the memory of generations.
    pub fn is_something(&self) -> bool {
        self.slots.values().any(Slot::is_something)
    }

    /// Only the generations: a name that comes back must not repeat a token.
    pub(super) fn emptied(&self) -> PoolLedger {
        let slots =
            self.slots.iter().map(|(index, slot)| (*index, Slot { generation: slot.generation, ..Slot::default() }));
        PoolLedger { slots: slots.collect(), ..PoolLedger::default() }
    }
}

impl Slot {
    pub fn is_something(&self) -> bool {
        self.instance.is_some() || self.node.is_some() || self.intent.is_some()
    }
}

impl Ledger {
    pub fn slot(&self, slot: &SlotId) -> Option<&Slot> {
        self.pools.get(&slot.pool)?.slots.get(&slot.index)
    }

    /// The slot that a node which exists without us was claimed for.
    pub fn claimed_by(&self, node: &NodeName) -> Option<SlotId> {
        let slots =
            self.pools.iter().flat_map(|(name, pool)| pool.slots.iter().map(move |(index, slot)| (name, index, slot)));
        let mut claimed = slots.filter(|(_, _, slot)| slot.node.as_ref() == Some(node));
        claimed.next().map(|(name, index, _)| SlotId::new(name, *index))
    }

    pub(super) fn found_mut(&mut self, slot: &SlotId) -> Option<&mut Slot> {
        self.pools.get_mut(&slot.pool)?.slots.get_mut(&slot.index)
    }

    fn slot_mut(&mut self, slot: &SlotId) -> &mut Slot {
        self.pools.entry(slot.pool.clone()).or_default().slots.entry(slot.index).or_default()
    }

    /// Whether the instance that a slot has now was to go because somebody chose that.
    fn is_removed_by_choice(&self, slot: &SlotId) -> bool {
        let Some(pool) = self.pools.get(&slot.pool) else { return false };
        let launched = pool.slots.get(&slot.index).and_then(|slot| slot.launched).unwrap_or(Timestamp::MIN);
        pool.removed.iter().any(|(index, at)| *index == slot.index && *at >= launched)
    }

    /// The freeze that stops something here, if one does.
    pub fn freeze_on(&self, pool: Option<&PoolName>, node: Option<&NodeName>) -> Option<&Freeze> {
        self.head.frozen.iter().find(|freeze| match &freeze.scope {
            Scope::Fleet => true,
            Scope::Pool(name) => pool == Some(name),
            Scope::Node(name) => node == Some(name),
        })
    }

    /// Puts a change into effect. Making it twice is making it once.
    pub fn change(&mut self, change: &LedgerChange) {
        match change {
            LedgerChange::Begin { fleet, began } => {
                if self.head.fleet.is_none() {
                    (self.head.fleet, self.head.began) = (Some(fleet.clone()), *began);
                }
            }
            LedgerChange::KnownAnew { fleet, began } => {
                if self.head.fleet.is_none() {
                    (self.head.fleet, self.head.began) = (Some(fleet.clone()), Some(*began));
                }
                if let Some(began) = &mut self.head.began {
                    began.anew = false;
                }
            }
            LedgerChange::Intend { .. }
            | LedgerChange::Launched { .. }
            | LedgerChange::LaunchRefused { .. }
            | LedgerChange::Adopted { .. }
            | LedgerChange::Missing { .. }
            | LedgerChange::Lost { .. }
            | LedgerChange::Removing { .. }
            | LedgerChange::Leaving { .. }
            | LedgerChange::Claimed { .. }
            | LedgerChange::Unclaimed { .. }
            | LedgerChange::Closed { .. }
            | LedgerChange::Forgotten { .. }
            | LedgerChange::Sized { .. }
            | LedgerChange::SizedLow { .. }
            | LedgerChange::Renamed { .. }
            | LedgerChange::Exchange { .. }
            | LedgerChange::Exchanged { .. }
            | LedgerChange::ExchangeOver { .. }
            | LedgerChange::Treated { .. } => self.change_slot(change),
            LedgerChange::ReserveIntend { intent } => {
                let held = self.head.reservations.entry(intent.request.reservation.clone()).or_default();
                held.generation = intent.request.generation;
                held.intent = Some(intent.clone());
            }
            LedgerChange::Reserved { reservation, id } => {
                let held = self.head.reservations.entry(reservation.clone()).or_default();
                if held.id.as_ref() != Some(id) {
                    held.asked = held.intent.as_ref().map(|intent| intent.at);
                }
                (held.id, held.intent, held.refused) = (Some(id.clone()), None, None);
            }
            LedgerChange::ReserveRefused { reservation, at } => {
                let held = self.head.reservations.entry(reservation.clone()).or_default();
                (held.intent, held.refused) = (None, Some(*at));
            }
            LedgerChange::ReservationForgotten { reservation } => {
                if let Some(held) = self.head.reservations.get_mut(reservation) {
                    *held = HeldReservation { generation: held.generation, ..HeldReservation::default() };
                }
            }
            LedgerChange::ReservationRenamed { from, to } => {
                if let Some(held) = self.head.reservations.get_mut(from).filter(|held| held.is_something()) {
                    let left = HeldReservation { generation: held.generation, ..HeldReservation::default() };
                    let held = std::mem::replace(held, left);
                    let generation = self.head.reservations.get(to).map_or(0, |known| known.generation);
                    let held = HeldReservation { generation: held.generation.max(generation), ..held };
                    self.head.reservations.insert(to.clone(), held);
                }
            }
            LedgerChange::PurchaseIntend { intent } => {
                let mut purchases = self.head.purchases.iter_mut();
                match purchases.find(|bought| bought.intent.request == intent.request) {
                    None => self.head.purchases.push(Purchase { intent: intent.clone(), outcome: Outcome::Open }),
                    // Sent a second time it may be answered with a block: it is open again.
                    Some(found) if matches!(found.outcome, Outcome::Refused(_)) => {
                        *found = Purchase { intent: intent.clone(), outcome: Outcome::Open };
                    }
                    Some(_) => {}
                }
            }
            LedgerChange::Purchased { request, id } => {
                self.close_purchase(request, Outcome::Bought(id.clone()));
                let held = self.head.reservations.entry(request.reservation.clone()).or_default();
                held.id = Some(id.clone());
            }
            LedgerChange::PurchaseRefused { request, why } => {
                self.close_purchase(request, Outcome::Refused(why.clone()));
            }
            LedgerChange::Open { digest, opened } => {
                self.head.approvals.entry(digest.clone()).or_insert_with(|| opened.clone());
            }
            LedgerChange::Spend { digest, purpose, effects } => {
                if let Some(opened) = self.head.approvals.get_mut(digest)
                    && self.head.spent.entry(digest.clone()).or_default().insert(purpose.clone())
                {
                    opened.left = opened.left.without(effects);
                }
            }
            LedgerChange::Refund { digest, purpose, effects } => {
                if let Some(opened) = self.head.approvals.get_mut(digest)
                    && self.head.spent.get_mut(digest).is_some_and(|spent| spent.remove(purpose))
                {
                    opened.left.add(effects);
                }
            }
            LedgerChange::Done { purposes } => {
                for (digest, done) in purposes {
                    if let Some(spent) = self.head.spent.get_mut(digest) {
                        spent.retain(|purpose| !done.contains(purpose));
                    }
                }
                self.head.spent.retain(|_, spent| !spent.is_empty());
            }
            LedgerChange::Freeze(freeze) => {
                self.head.frozen.retain(|known| known.scope != freeze.scope);
                self.head.frozen.push(freeze.clone());
            }
            LedgerChange::Thaw(scope) => self.head.frozen.retain(|known| known.scope != *scope),
            LedgerChange::Quarantine { node, quarantine } => {
                self.head.quarantined.insert(node.clone(), quarantine.clone());
            }
            LedgerChange::Return { node, at } => {
                self.head.quarantined.remove(node);
                self.head.serves_again(node, *at);
            }
            LedgerChange::Drain { node, order } => {
                self.head.drains.insert(node.clone(), order.clone());
            }
            LedgerChange::Undrain { node, at } => {
                self.head.drains.remove(node);
                self.head.serves_again(node, *at);
            }
            LedgerChange::Unwatched { node, at } => {
                self.head.unwatched.entry(node.clone()).or_insert(*at);
            }
            LedgerChange::Watched { node, at } => {
                self.head.unwatched.remove(node);
                self.head.serves_again(node, *at);
            }
            LedgerChange::Recall { tide, recall } => {
                self.head.recalled.insert(tide.clone(), recall.clone());
                self.head.silent.remove(tide);
            }
            LedgerChange::Lending { tide, since: Some(since) } => {
                self.head.lending.insert(tide.clone(), *since);
            }
            LedgerChange::Lending { tide, since: None } => {
                self.head.lending.remove(tide);
                self.head.silent.remove(tide);
            }
            LedgerChange::Silent { tide, since: Some(since) } => {
                self.head.silent.entry(tide.clone()).or_insert(*since);
            }
            LedgerChange::Silent { tide, since: None } => {
                self.head.silent.remove(tide);
            }
            LedgerChange::Lent { tide, lent: Some(lent) } => {
                self.head.lent.insert(tide.clone(), lent.clone());
            }
            LedgerChange::Lent { tide, lent: None } => {
                self.head.lent.remove(tide);
            }
        }
    }

    fn change_slot(&mut self, change: &LedgerChange) {
        match change {
            LedgerChange::Intend { intent } => {
                let slot = self.slot_mut(&intent.request.slot);
                slot.generation = intent.request.generation;
                slot.intent = Some(intent.clone());
            }
            LedgerChange::Launched { slot, instance, at } => {
                let slot = self.slot_mut(slot);
                slot.instance = Some(instance.clone());
                slot.launched = Some(*at);
                slot.made_for = None;
                if let Some(intent) = slot.intent.take() {
                    slot.reservation = intent.request.reservation;
                }
                (slot.missing_since, slot.lost, slot.leaving, slot.gave_up) = (None, false, false, false);
                slot.refused.clear();
                slot.refused_zones.clear();
            }
            LedgerChange::LaunchRefused { slot, source, at } => {
                let slot = self.slot_mut(slot);
                let zone = slot.intent.take().map(|intent| intent.request.zone);
                if let Some(source) = source {
                    slot.refused.insert(*source, *at);
                    slot.refused_zones.entry(*source).or_default().extend(zone.map(|zone| (zone, *at)));
                }
            }
            LedgerChange::Adopted { slot, instance, generation, launched } => {
                let slot = self.slot_mut(slot);
                slot.generation = slot.generation.max(*generation);
                slot.instance = Some(instance.clone());
                slot.launched = Some(*launched);
                (slot.intent, slot.missing_since, slot.made_for) = (None, None, None);
                (slot.lost, slot.leaving, slot.gave_up) = (false, false, false);
            }
            LedgerChange::Missing { slot, since } => self.slot_mut(slot).missing_since = *since,
            LedgerChange::Lost { slot } => {
                let chosen = self.is_removed_by_choice(slot);
                let slot = self.slot_mut(slot);
                slot.lost |= slot.instance.is_some();
                slot.gave_up |= chosen && slot.reservation.is_some();
                (slot.instance, slot.launched, slot.missing_since, slot.leaving) = (None, None, None, false);
                (slot.reservation, slot.made_for) = (None, None);
            }
            LedgerChange::Leaving { slot } => self.slot_mut(slot).leaving = true,
            LedgerChange::Removing { slot, at } => {
                let found = self.slot_mut(slot);
                found.leaving = true;
                let since = found.launched.unwrap_or(Timestamp::MIN);
                let pool = self.pools.entry(slot.pool.clone()).or_default();
                pool.removed.retain(|(_, earlier)| at.duration_since(*earlier) < AN_HOUR);
                // The same node again: it counts once, and from the last time that somebody tried.
                pool.removed.retain(|(index, earlier)| *index != slot.index || *earlier < since);
                pool.removed.push((slot.index, *at));
            }
            LedgerChange::Claimed { slot, node } => {
                let slot = self.slot_mut(slot);
                if slot.node.as_ref() != Some(node) {
                    slot.generation += 1;
                    (slot.node, slot.missing_since) = (Some(node.clone()), None);
                }
            }
            LedgerChange::Unclaimed { slot } => {
                let slot = self.slot_mut(slot);
                (slot.node, slot.missing_since) = (None, None);
            }
            LedgerChange::Closed { slot } => {
                if let Some(pool) = self.pools.get_mut(&slot.pool)
                    && let Some(found) = pool.slots.get_mut(&slot.index)
                {
                    // The generation stays: a slot that opens again must not repeat a token.
                    *found = Slot { generation: found.generation, ..Slot::default() };
                }
            }
            LedgerChange::Forgotten { pool } => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    *pool = pool.emptied();
                }
            }
            LedgerChange::Sized { pool, nodes } => {
                self.pools.entry(pool.clone()).or_default().size = Some(*nodes);
            }
            LedgerChange::SizedLow { pool, tide, nodes } => {
                let low = &mut self.pools.entry(pool.clone()).or_default().low;
                match nodes {
                    Some(nodes) => _ = low.insert(tide.clone(), *nodes),
                    None => _ = low.remove(tide),
                }
            }
            LedgerChange::Renamed { from, to } => self.rename(from, to),
            LedgerChange::Exchange { slot, with, gives, takes } => {
                if let Some(found) = self.found_mut(slot) {
                    found.exchange(slot, with, gives, takes);
                }
            }
            LedgerChange::Exchanged { slot, gives, takes, .. } => {
                if let Some(found) = self.found_mut(slot).filter(|found| found.instance.as_ref() == Some(gives)) {
                    found.take(slot, takes);
                }
            }
            LedgerChange::ExchangeOver { slot, keeps } => {
                if let Some(found) = self.found_mut(slot) {
                    found.end_exchange(slot, keeps);
                }
            }
            LedgerChange::Treated { slot, treated } => {
                let slot = self.slot_mut(slot);
                if !slot.remedies.contains(treated) {
                    slot.remedies.push(treated.clone());
                }
                let surplus = slot.remedies.len().saturating_sub(REMEDIES);
                slot.remedies.drain(..surplus);
            }
            _ => unreachable!("not a change of a slot"),
        }
    }

    fn close_purchase(&mut self, request: &PurchaseRequest, outcome: Outcome) {
        if let Some(found) = self.head.purchases.iter_mut().find(|bought| bought.intent.request == *request) {
            found.outcome = outcome;
        }
    }
}

mod returned;
mod said;
#[cfg(test)]
mod tests;
