//! The changes that are made to our memory: each is one thing that somebody decided or found out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::action::{LaunchRequest, PurchaseRequest, ReserveRequest};
use super::effects::Effects;
use super::exchange::Machine;
use super::ledger::{Began, DrainOrder, Freeze, Intent, Lent, Opened, Quarantine, Recall, Scope, Treated};
use crate::ids::{Digest, FleetUid, InstanceId, NodeName, PoolName, ReservationId, ReservationName, SlotId, TideName};

/// One change of what we remember.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum LedgerChange {
    /// The first of all.
    Begin {
        fleet: FleetUid,
        #[serde(default)]
        began: Option<Began>,
    },
    /// A person knows that an earlier memory was lost; also where this is the first record of another one.
    KnownAnew {
        fleet: FleetUid,
        began: Began,
    },
    /// A launch is about to be sent. Its generation becomes the slot's.
    Intend {
        intent: Intent<LaunchRequest>,
    },
    Launched {
        slot: SlotId,
        instance: InstanceId,
        at: Timestamp,
    },
    /// A definite no: the intent is over, and the source is left alone for a while.
    LaunchRefused {
        slot: SlotId,
        source: Option<u32>,
        at: Timestamp,
    },
    /// An instance of ours that no intent explains.
    Adopted {
        slot: SlotId,
        instance: InstanceId,
        generation: u32,
        launched: Timestamp,
    },
    Missing {
        slot: SlotId,
        since: Option<Timestamp>,
    },
    /// The slot's instance is no more.
    Lost {
        slot: SlotId,
    },
    /// A node is about to be removed by choice.
    Removing {
        slot: SlotId,
        at: Timestamp,
    },
    /// A node is about to be removed for a reason that has no hourly limit: the tide, its health, the end of its time.
    Leaving {
        slot: SlotId,
    },
    Claimed {
        slot: SlotId,
        node: NodeName,
    },
    Unclaimed {
        slot: SlotId,
    },
    /// A slot that is no longer wanted and has nothing.
    Closed {
        slot: SlotId,
    },
    /// The pool's document is gone: its nodes stay, and are no longer ours to manage.
    Forgotten {
        pool: PoolName,
    },
    /// A pool that a tide resizes has as many nodes as its document says.
    Sized {
        pool: PoolName,
        nodes: u32,
    },
    /// What a tide gives a pool while it is low, or that it gives it no size any more.
    SizedLow {
        pool: PoolName,
        tide: TideName,
        nodes: Option<u32>,
    },
    Renamed {
        from: PoolName,
        to: PoolName,
    },
    Treated {
        slot: SlotId,
        treated: Treated,
    },
    /// The slot takes the machine of another and gives its own for it: from here on both have changed places.
    Exchange {
        slot: SlotId,
        with: SlotId,
        gives: InstanceId,
        takes: Machine,
    },
    /// The other slot of an exchange: it has what was given for its machine. `with` has the note.
    Exchanged {
        slot: SlotId,
        with: SlotId,
        gives: InstanceId,
        takes: Machine,
    },
    /// Both slots say the same, and the first keeps what it has; or the other one had lost its machine before, and the
    /// first has its own again.
    ExchangeOver {
        slot: SlotId,
        keeps: InstanceId,
    },
    ReserveIntend {
        intent: Intent<ReserveRequest>,
    },
    Reserved {
        reservation: ReservationName,
        id: ReservationId,
    },
    ReserveRefused {
        reservation: ReservationName,
        at: Timestamp,
    },
    /// The reservation's document is gone, or the reservation is.
    ReservationForgotten {
        reservation: ReservationName,
    },
    ReservationRenamed {
        from: ReservationName,
        to: ReservationName,
    },
    PurchaseIntend {
        intent: Intent<PurchaseRequest>,
    },
    Purchased {
        request: PurchaseRequest,
        id: ReservationId,
    },
    PurchaseRefused {
        request: PurchaseRequest,
        why: String,
    },
    Open {
        digest: Digest,
        opened: Opened,
    },
    /// Takes from an approval, once for each thing that it is taken for, such as `launch train/3@2`.
    Spend {
        digest: Digest,
        purpose: String,
        effects: Effects,
    },
    /// Gives back what was taken and came to nothing: a definite no.
    Refund {
        digest: Digest,
        purpose: String,
        effects: Effects,
    },
    /// What it was taken for is done. Whoever wants the same once more takes it anew.
    Done {
        purposes: BTreeMap<Digest, BTreeSet<String>>,
    },
    Freeze(Freeze),
    Thaw(Scope),
    Quarantine {
        node: NodeName,
        quarantine: Quarantine,
    },
    /// A person returns a node, at that time; or it is gone, and nobody is left to be returned.
    Return {
        node: NodeName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    Drain {
        node: NodeName,
        order: DrainOrder,
    },
    /// The same of a node that a person wanted empty.
    Undrain {
        node: NodeName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// A canary is seen out of service by another hand than ours, at that time: it is not watched meanwhile.
    Unwatched {
        node: NodeName,
        at: Timestamp,
    },
    /// It is seen in service again, at that time; or it is gone.
    Watched {
        node: NodeName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    Recall {
        tide: TideName,
        recall: Recall,
    },
    /// A tide with a guard begins to lend, or has everything back.
    Lending {
        tide: TideName,
        since: Option<Timestamp>,
    },
    /// Nobody answers for the guard of a tide that lends, or somebody does again.
    Silent {
        tide: TideName,
        since: Option<Timestamp>,
    },
    /// What a tide lends, or that all of it is back.
    Lent {
        tide: TideName,
        lent: Option<Lent>,
    },
}

/// The part of the ledger that a change touches: what is swapped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Part {
    Head,
    Pool(PoolName),
}

impl LedgerChange {
    /// The parts that it touches. A rename touches three: old, new, and the head, which names pools too.
    pub fn parts(&self) -> Vec<Part> {
        let pool = |slot: &SlotId| vec![Part::Pool(slot.pool.clone())];
        match self {
            Self::Intend { intent } => pool(&intent.request.slot),
            Self::Launched { slot, .. }
            | Self::LaunchRefused { slot, .. }
            | Self::Adopted { slot, .. }
            | Self::Missing { slot, .. }
            | Self::Lost { slot }
            | Self::Removing { slot, .. }
            | Self::Leaving { slot }
            | Self::Claimed { slot, .. }
            | Self::Unclaimed { slot }
            | Self::Closed { slot }
            | Self::Exchange { slot, .. }
            | Self::Exchanged { slot, .. }
            | Self::ExchangeOver { slot, .. }
            | Self::Treated { slot, .. } => pool(slot),
            Self::Forgotten { pool } | Self::Sized { pool, .. } | Self::SizedLow { pool, .. } => {
                vec![Part::Pool(pool.clone())]
            }
            Self::Renamed { from, to } => {
                vec![Part::Pool(from.clone()), Part::Pool(to.clone()), Part::Head]
            }
            _ => vec![Part::Head],
        }
    }

    /// Whether it only notes what was seen or is called: memory is true under a freeze too. What it decides instead, such
    /// as that a tide turns, waits for the thaw.
    pub fn only_notes(&self) -> bool {
        matches!(
            self,
            Self::Begin { .. }
                | Self::Launched { .. }
                | Self::LaunchRefused { .. }
                | Self::Adopted { .. }
                | Self::Missing { .. }
                | Self::Lost { .. }
                | Self::Reserved { .. }
                | Self::ReserveRefused { .. }
                | Self::ReservationRenamed { .. }
                | Self::ReservationForgotten { .. }
                | Self::Purchased { .. }
                | Self::PurchaseRefused { .. }
                | Self::Lending { .. }
                | Self::Silent { .. }
                | Self::Unwatched { .. }
                | Self::Watched { .. }
                | Self::Lent { .. }
                | Self::Closed { .. }
                | Self::Forgotten { .. }
                | Self::Sized { .. }
                | Self::SizedLow { .. }
                | Self::Renamed { .. }
                | Self::Exchanged { .. }
                | Self::ExchangeOver { .. }
        ) || matches!(self, Self::Treated { treated, .. } if treated.is_report())
    }
}
