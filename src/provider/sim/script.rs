//! What people and scenarios do to the world beside calls: the weather, so to speak.
//!
//! All of it takes effect at once, and is written to the state file as [`Sim::save`] says.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ClusterState, Sim};
use crate::effect::{Ledger, LedgerChange};
use crate::fleet::Target;
use crate::fleet::reservation::Match;
use crate::fleet::standing::{ReservationSpec, TermsSpec};
use crate::ids::{InstanceId, InstanceType, OfferingId, ReservationId, Zone};
use crate::observed::{Market, NoticeKind, OfferingSeen, Sample};
use crate::provider::ProviderError;
use crate::units::{Duration, Ratio, Usd};

/// What a guard's query is answered with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Guard {
    pub value: Ratio,
    /// When it was measured; none: always just now.
    pub at: Option<Timestamp>,
}

impl Guard {
    pub(super) fn sample(&self, now: Timestamp) -> Sample {
        Sample { value: self.value, at: self.at.unwrap_or(now) }
    }
}

impl Sim {
    /// Whatever the cluster's own script can do: work that comes, nodes that were there already, moves of others.
    pub fn in_cluster<T>(&self, change: impl FnOnce(&mut ClusterState, Timestamp) -> T) -> T {
        self.change(|state| change(&mut state.cluster, state.now))
    }

    /// How many machines are left for sale, on demand or spot; none: as many as anybody wants.
    pub fn set_capacity(&self, instance_type: &InstanceType, zone: &Zone, market: Market, left: Option<u32>) {
        self.change(|state| state.cloud.set_room(instance_type, zone, market, left));
    }

    /// An instance of somebody else.
    pub fn add_foreign_instance(&self, instance_type: &InstanceType, zone: &Zone) -> InstanceId {
        self.change(|state| state.cloud.add_foreign(state.now, instance_type, zone))
    }

    /// A reservation that somebody else made.
    pub fn add_foreign_reservation(
        &self,
        id: &ReservationId,
        instance_type: &InstanceType,
        zone: &Zone,
        nodes: u32,
        matching: Match,
        end: Option<Timestamp>,
    ) -> Result<(), ProviderError> {
        self.change(|state| state.cloud.hold(state.now, id.clone(), None, instance_type, zone, nodes, end, matching))
    }

    /// The machine dies. False where there is none that runs.
    pub fn kill(&self, id: &InstanceId) -> bool {
        self.change(|state| {
            let serves = state.cloud.instances.get(id).is_some_and(|found| found.state.serves());
            state.cloud.ends(state.now, id);
            serves
        })
    }

    /// Two minutes' notice for a spot instance.
    pub fn interrupt(&self, id: &InstanceId) -> bool {
        self.change(|state| state.cloud.interrupt(state.now, id))
    }

    /// The machine will be retired after a while.
    pub fn give_maintenance_notice(&self, id: &InstanceId, within: Duration) -> bool {
        self.change(|state| {
            let at = state.now.checked_add(within.signed()).unwrap_or(Timestamp::MAX);
            state.cloud.give_notice(id, NoticeKind::Maintenance, at)
        })
    }

    /// Somebody else was faster.
    pub fn withdraw_offer(&self, offering: &OfferingId) {
        self.change(|state| state.cloud.withdraw(offering));
    }

    /// A guard's sample; with no instant it is always fresh.
    pub fn set_guard(&self, query: &str, value: Ratio, at: Option<Timestamp>) {
        self.change(|state| state.guards.insert(query.to_string(), Guard { value, at }));
    }

    /// A guard's query is answered by nobody.
    pub fn clear_guard(&self, query: &str) {
        self.change(|state| state.guards.remove(query));
    }

    /// Changes the ledger as if an earlier run had: for tests that begin in the middle.
    pub fn remember(&self, change: &LedgerChange) {
        self.change(|state| {
            let (mut ledger, _): (Ledger, _) = state.ledger.whole();
            ledger.change(change);
            state.ledger.put(&ledger);
        });
    }

    /// Makes what a fleet adopts by id and takes for granted: reservations and blocks that others made.
    pub fn furnish(&self, target: &Target) -> Result<(), ProviderError> {
        for spec in target.standing.reservations.values() {
            let Some(id) = spec.id.as_deref().map(ReservationId::from) else { continue };
            if !self.state().cloud.reservations.contains_key(&id) {
                self.furnish_one(&id, spec)?;
            }
        }
        Ok(())
    }

    fn furnish_one(&self, id: &ReservationId, spec: &ReservationSpec) -> Result<(), ProviderError> {
        let zone = spec.zone.clone().unwrap_or_else(|| "us-west-2a".into());
        let kind = &spec.shape.instance_type;
        match &spec.terms {
            TermsSpec::OnDemand { end, matching, .. } => {
                self.add_foreign_reservation(id, kind, &zone, spec.nodes, *matching, *end)
            }
            TermsSpec::Block(block) => {
                let Some(window) = &block.window else { return Ok(()) };
                let offer = OfferingSeen {
                    id: format!("cb-of-{id}").into(),
                    extends: None,
                    instance_type: kind.clone(),
                    zone,
                    nodes: spec.nodes,
                    start: window.from.0,
                    end: window.to.0,
                    fee: Usd::default(),
                };
                self.change(|state| state.cloud.add_block(state.now, id.clone(), None, &offer));
                Ok(())
            }
        }
    }
}
