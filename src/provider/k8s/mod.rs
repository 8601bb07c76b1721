//! The real cluster, behind the trait that the simulated one has too. The only place that names `kube`.
//!
//! Reading: [`observe`] for everything, [`reread`] for single things; a page of the server's JSON is decoded straight
//! into what is kept ([`slim`]), and nodes, which are large, come in its own format ([`proto`]). Writing: [`perform`] for one action, [`ledger`] for our memory. What the server says
//! is classified in [`wire`]. Nothing here decides, and nothing is tried again.

mod budgets;
mod claims;
pub mod client;
mod evict;
mod gaps;
pub mod join;
mod kinds;
mod ledger;
mod movers;
mod nodes;
mod objects;
mod observe;
mod perform;
mod pods;
mod proto;
mod quantity;
mod reread;
mod served;
mod slim;
mod wire;
mod workloads;
mod write;

use std::cell::RefCell;
use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;

use served::Served;
use wire::Wire;

use super::clock::SystemClock;
use super::{Cluster, Done, PartValue, ProviderError, Version};
use crate::effect::{ClusterAction, Ledger, Object, Part, Subject};
use crate::fleet::Target;
use crate::fleet::config::Kubernetes;
use crate::ids::{FleetName, InstanceId, NamespacedName, NodeName, Uid, WorkloadUid};
use crate::observed::{ClusterSeen, NodeSeen, ObjectKey, ObjectKind, Rehearsed, WorkloadSeen};
use client::NoWay;

/// A cluster, as one fleet sees it.
#[derive(Debug)]
pub struct K8s {
    wire: Wire,
    /// Whose objects are ours.
    fleet: String,
    clock: SystemClock,
    known: RefCell<Known>,
}

/// Names that were seen: the API finds nothing by UID or instance.
#[derive(Default, Debug)]
struct Known {
    served: Option<Served>,
    nodes: BTreeMap<InstanceId, NodeName>,
    workloads: BTreeMap<WorkloadUid, NamespacedName>,
}

impl K8s {
    /// The cluster that the fleet names. No request is made yet.
    pub async fn connect(kubernetes: &Kubernetes, fleet: &FleetName) -> Result<Self, NoWay> {
        Ok(Self::new(client::connect(kubernetes).await?, fleet))
    }

    /// Over a client that somebody else made.
    pub fn with(client: kube::Client, fleet: &FleetName) -> Self {
        Self::new(Wire::new(client), fleet)
    }

    /// What tells this cluster from every other: the UID of the namespace that each has from its first day.
    pub async fn uid(&self) -> Result<Uid, ProviderError> {
        #[derive(Deserialize)]
        struct Namespace {
            metadata: Meta,
        }
        #[derive(Deserialize)]
        struct Meta {
            uid: Uid,
        }
        let bytes = self.wire.get(&kinds::path(&ObjectKey::cluster(ObjectKind::Namespace, "kube-system"))).await?;
        let found: Result<Namespace, _> = serde_json::from_slice(&bytes);
        found.map(|found| found.metadata.uid).map_err(|error| wire::Failure::Unreadable(error.to_string()).into())
    }

    fn new(wire: Wire, fleet: &FleetName) -> Self {
        Self { wire, fleet: fleet.to_string(), clock: SystemClock, known: RefCell::default() }
    }
}

impl Known {
    fn of(
        served: &Served,
        nodes: &BTreeMap<NodeName, NodeSeen>,
        workloads: &BTreeMap<WorkloadUid, WorkloadSeen>,
    ) -> Self {
        let instances = nodes.iter().filter_map(|(name, node)| Some((node.instance.clone()?, name.clone())));
        Self {
            served: Some(served.clone()),
            nodes: instances.collect(),
            workloads: workloads.iter().map(|(uid, seen)| (uid.clone(), seen.name.clone())).collect(),
        }
    }

    fn node_of(&self, instance: &InstanceId) -> Option<NodeName> {
        self.nodes.get(instance).cloned()
    }

    fn workload(&self, uid: &WorkloadUid) -> Option<NamespacedName> {
        self.workloads.get(uid).cloned()
    }
}

#[async_trait(?Send)]
impl Cluster for K8s {
    async fn observe(&self, target: &Target) -> ClusterSeen {
        observe::observe(self, target).await
    }

    async fn reread(&self, what: &[Subject]) -> ClusterSeen {
        reread::reread(self, what).await
    }

    async fn rehearse(&self, wanted: &[&Object]) -> BTreeMap<ObjectKey, Rehearsed> {
        write::rehearse(self, wanted).await
    }

    async fn perform(&self, action: &ClusterAction) -> Result<Done, ProviderError> {
        perform::perform(self, action).await
    }

    async fn ledger(&self) -> Result<(Ledger, Vec<(Part, Version)>), ProviderError> {
        ledger::whole(self).await
    }

    async fn ledger_part(&self, part: &Part) -> Result<(PartValue, Version), ProviderError> {
        ledger::part(self, part).await
    }

    async fn swap_ledger(&self, part: &Part, seen: &Version, next: &PartValue) -> Result<Version, ProviderError> {
        ledger::swap(self, part, seen, next).await
    }
}
