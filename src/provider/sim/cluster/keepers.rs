//! Controllers outside Kueue: services that keep replicas, and daemons that keep one pod a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::agenda::{Happening, NodeRef};
use super::budgets::BudgetSpec;
use super::gangs::absent;
use super::pods::{Owner, Pod, PodTemplate, Tolerates};
use crate::effect::marks::{Mark, POOL};
use crate::ids::{NamespacedName, NodeName, PoolName, Uid};
use crate::observed::PodPhase;
use crate::provider::{Class, ProviderError};

/// A Deployment of plain pods.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServiceSpec {
    pub name: NamespacedName,
    pub replicas: u32,
    pub template: PodTemplate,
    pub budget: Option<BudgetSpec>,
    /// Its pods run and end together, and no queue knows of them: a JobSet that Kueue does not manage.
    #[serde(default)]
    pub together: bool,
    /// How long saving its work takes once it is asked; none: it never answers.
    #[serde(default)]
    pub save_secs: Option<u32>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Service {
    pub uid: Uid,
    pub replicas: u32,
    pub template: Arc<PodTemplate>,
    #[serde(default)]
    pub together: bool,
    #[serde(default)]
    pub save_secs: Option<u32>,
    #[serde(default)]
    pub saved: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Daemon {
    pub uid: Uid,
    pub template: Arc<PodTemplate>,
}

impl ServiceSpec {
    /// Replicas that each ask for so much of one resource, on the nodes of a pool.
    pub fn new(
        namespace: &str,
        name: &str,
        replicas: u32,
        resource: &str,
        amount: i64,
        pool: Option<&PoolName>,
    ) -> Self {
        let mut template = PodTemplate { requests: [(resource.into(), amount)].into(), ..PodTemplate::default() };
        template.selector.extend(pool.map(|pool| (POOL.to_string(), pool.to_string())));
        Self {
            name: NamespacedName::new(namespace, name),
            replicas,
            template,
            budget: None,
            together: false,
            save_secs: None,
        }
    }
}

impl ClusterState {
    /// Somebody deploys a service, with a budget of its own name where one is given.
    pub fn submit_service(&mut self, now: Timestamp, spec: ServiceSpec) -> Result<(), ProviderError> {
        self.tick(now);
        self.claim_app(&spec.name)?;
        let service = Service {
            uid: self.uid().into(),
            replicas: spec.replicas,
            template: Arc::new(spec.template),
            together: spec.together,
            save_secs: spec.save_secs,
            saved: None,
        };
        self.services.insert(spec.name.clone(), service);
        if let Some(budget) = spec.budget {
            self.add_budget(now, &spec.name, &spec.name, budget);
        }
        self.replenish(&spec.name);
        Ok(())
    }

    pub fn scale_service(&mut self, now: Timestamp, name: &NamespacedName, replicas: u32) -> Result<(), ProviderError> {
        self.tick(now);
        let service = self.services.get_mut(name).ok_or_else(|| absent(&format!("deployments.apps \"{name}\"")))?;
        service.replicas = replicas;
        self.replenish(name);
        Ok(())
    }

    /// Pods are asked to save their work; those that are gone, or are others by now, need not know.
    pub(super) fn ask_pods(&mut self, pods: &[(NamespacedName, Uid)], mark: &Mark) {
        let mut asked: BTreeSet<NamespacedName> = BTreeSet::new();
        for (name, uid) in pods {
            if let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.uid == *uid) {
                pod.asked = Some(mark.since);
                asked.insert(pod.app().clone());
            }
        }
        for app in asked {
            if let Some(secs) = self.services.get(&app).and_then(|service| service.save_secs) {
                self.soon(SignedDuration::from_secs(secs.into()), Happening::ServiceSaved(app));
            }
        }
    }

    pub(super) fn service_saved(&mut self, name: &NamespacedName) {
        let now = self.now;
        if let Some(service) = self.services.get_mut(name) {
            service.saved = Some(now);
        }
    }

    /// A pod that belongs to nobody, where a node is named already on it.
    pub fn add_bare_pod(
        &mut self,
        now: Timestamp,
        name: &NamespacedName,
        node: Option<&NodeName>,
        template: PodTemplate,
    ) -> Result<Uid, ProviderError> {
        self.tick(now);
        self.claim_app(name)?;
        let uid = self.uid();
        let pod = Pod::new(uid.clone(), Owner::Nobody, name, Arc::new(template), self.now);
        self.pods.insert(name.clone(), pod);
        match node {
            Some(node) => self.bind(name, node),
            None => self.poke_scheduler(),
        }
        Ok(uid.into())
    }

    /// A pod of the kubelet itself.
    pub fn add_mirror_pod(
        &mut self,
        now: Timestamp,
        name: &NamespacedName,
        node: &NodeName,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        self.claim_app(name)?;
        self.add_mirror(node, name);
        Ok(())
    }

    pub(super) fn add_mirror(&mut self, node: &NodeName, name: &NamespacedName) {
        let uid = self.uid();
        let template = PodTemplate { tolerates: Tolerates::everything(), ..PodTemplate::default() };
        let mut pod = Pod::new(uid, Owner::Kubelet, name, Arc::new(template), self.now);
        (pod.phase, pod.ready, pod.started) = (PodPhase::Running, true, Some(self.now));
        self.pods.insert(name.clone(), pod);
        self.pods.bind(name, node);
    }

    /// A DaemonSet: one pod on every node, and on those to come.
    pub fn add_daemon(
        &mut self,
        now: Timestamp,
        name: &NamespacedName,
        template: PodTemplate,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        self.claim_app(name)?;
        let template = PodTemplate { tolerates: Tolerates::everything(), ..template };
        let daemon = Daemon { uid: self.uid().into(), template: Arc::new(template) };
        self.daemons.insert(name.clone(), daemon);
        let nodes: Vec<NodeRef> = self.nodes.keys().filter_map(|name| self.node_ref(name)).collect();
        for node in nodes {
            self.place_daemons(&node);
        }
        Ok(())
    }

    pub(super) fn place_daemons(&mut self, at: &NodeRef) {
        if self.same_node(at).is_none_or(|node| node.dead) {
            return;
        }
        let here = |daemon: &NamespacedName| {
            let mut pods = self.pods.on(&at.name).filter(|(_, pod)| pod.app() == daemon);
            pods.next().is_some()
        };
        let missing = self.daemons.iter().filter(|(name, _)| !here(name));
        let missing: Vec<_> = missing.map(|(name, daemon)| (name.clone(), daemon.template.clone())).collect();
        for (daemon, template) in missing {
            let (name, uid) = self.pod_name(&daemon);
            let pod = Pod::new(uid, Owner::Daemon(daemon.clone()), &daemon, template, self.now);
            self.pods.insert(name.clone(), pod);
            self.bind(&name, &at.name);
        }
    }

    /// A ReplicaSet makes what is missing and takes what is too much; pods that are ending do not count.
    pub(super) fn replenish(&mut self, name: &NamespacedName) {
        let Some(service) = self.services.get(name) else { return };
        let (template, wanted) = (service.template.clone(), service.replicas as usize);
        let failed: Vec<_> =
            self.pods.of(name).filter(|(_, pod)| pod.is_over()).map(|(name, _)| name.clone()).collect();
        for pod in failed {
            self.pods.remove(&pod);
        }
        let mut there: Vec<_> = self.pods.of(name).filter(|(_, pod)| pod.is_active()).collect();
        // Those that do not serve yet go first, then the youngest.
        there.sort_by_key(|(name, pod)| (pod.ready, std::cmp::Reverse(pod.created), (*name).clone()));
        let spare = there.len().saturating_sub(wanted);
        let (have, extra): (usize, Vec<_>) =
            (there.len(), there.into_iter().take(spare).map(|(name, _)| name.clone()).collect());
        for pod in extra {
            self.delete_pod(&pod);
        }
        for _ in have..wanted {
            let (pod_name, uid) = self.pod_name(name);
            let pod = Pod::new(uid, Owner::Service(name.clone()), name, template.clone(), self.now);
            self.pods.insert(pod_name, pod);
        }
        if have < wanted {
            self.poke_scheduler();
        }
    }

    /// Two owners of one name in one namespace would be one app to a budget.
    pub(super) fn claim_app(&mut self, name: &NamespacedName) -> Result<(), ProviderError> {
        let gang = self.gangs.values().any(|gang| gang.spec.name == *name);
        if gang || self.services.contains_key(name) || self.daemons.contains_key(name) || self.pods.get(name).is_some()
        {
            return Err(ProviderError::new(Class::Conflict, format!("\"{name}\" already exists")));
        }
        self.ensure_namespace(&name.namespace);
        Ok(())
    }
}
