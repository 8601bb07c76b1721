//! What people and scenarios do to the world beside calls: the weather, so to speak.
//!
//! All of it takes effect at once, and is written to the state file as [`Sim::save`] says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cluster::NodeJoin;
use super::{ClusterState, Sim};
use crate::effect::{Ledger, LedgerChange};
use crate::fleet::Target;
use crate::fleet::pool::Source;
use crate::fleet::reservation::Match;
use crate::fleet::standing::{NodeShape, ReservationSpec, TermsSpec};
use crate::ids::{InstanceId, InstanceType, NodeName, OfferingId, ReservationId, Zone};
use crate::observed::{Market, NodeSeen, NoticeKind, OfferingSeen, Sample};
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

    /// A reservation that is there belongs to another account, which shares it. False where there is none.
    pub fn share_reservation(&self, id: &ReservationId, owner: &str) -> bool {
        self.change(|state| state.cloud.share(id, owner))
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

    /// The cloud recommends to move an instance: it may take it away, and says neither that nor when.
    pub fn recommend_move(&self, id: &InstanceId) -> bool {
        self.change(|state| state.cloud.recommend(state.now, id))
    }

    /// The machine will be retired after a while.
    pub fn give_maintenance_notice(&self, id: &InstanceId, within: Duration) -> bool {
        self.change(|state| {
            let at = state.now.checked_add(within.signed()).unwrap_or(Timestamp::MAX);
            state.cloud.give_notice(state.now, id, NoticeKind::Maintenance, at)
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

    /// Makes the machines that pools of nothing but `existing` capacity claim, where no machine carries their labels:
    /// with no cluster of one's own, such a fleet could not be tried.
    pub fn furnish_nodes(&self, target: &Target) {
        let mut wanted: BTreeMap<&BTreeMap<String, String>, (u32, &NodeShape)> = BTreeMap::new();
        for (name, pool) in &target.standing.pools {
            let [Source::Existing { labels }] = pool.capacity.as_slice() else { continue };
            let nodes = target.pools.get(name).map_or(0, |pool| pool.nodes);
            wanted.entry(labels).or_insert((0, &pool.shape)).0 += nodes;
        }
        let declared = target.standing.declared.iter().flat_map(|declared| declared.keys().cloned());
        let mut names = declared.chain((1..).map(|number| format!("existing-{number}")));
        for (labels, (nodes, shape)) in wanted {
            let carries = |node: &NodeSeen| labels.iter().all(|(key, value)| node.labels.get(key) == Some(value));
            let seen = {
                let state = self.state();
                state.cluster.observe(state.now)
            };
            if seen.nodes.seen().values().any(carries) {
                continue;
            }
            let known = seen.nodes.seen();
            let free = names.by_ref().filter(|name| !known.contains_key(&NodeName::from(name.as_str())));
            for name in free.take(usize::try_from(nodes).unwrap_or(usize::MAX)).collect::<Vec<_>>() {
                let join = NodeJoin::existing(name.as_str().into(), shape, labels.clone());
                self.in_cluster(|cluster, now| cluster.existing_node(now, &join));
            }
        }
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
