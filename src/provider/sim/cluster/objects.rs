//! The objects of the kinds that Tidewright writes, kept as the API server and its finalizers keep them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agenda::Happening;
use super::gangs::absent;
use super::mig::{self, MOUNT};
use super::{CYCLE, ClusterState};
use crate::effect::{Object, canonical};
use crate::ids::{Digest, NamespaceName};
use crate::observed::{ObjectKey, ObjectKind};
use crate::provider::{Class, ProviderError};
use crate::queue::mode::configuration;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stored {
    pub body: Value,
    pub written: Option<Digest>,
    pub moved_by: Option<(String, Timestamp)>,
    pub deleting: bool,
}

/// What a cluster with Kueue and the GPU operator has before anybody writes to it.
pub fn brought_along() -> BTreeMap<ObjectKey, Stored> {
    let names = ["default", "gpu-operator", "kube-system", "kueue-system"];
    let namespace = |name: &&str| (ObjectKey::cluster(ObjectKind::Namespace, name), of_others(json!({})));
    let kueue = json!({"data": {"controller_manager_config.yaml": KUEUE}});
    let policy = json!({"spec": {
        "mig": {"strategy": "mixed"},
        "migManager": {"enabled": true, "config": {"name": mig::MIG_PARTED}},
        "devicePlugin": {"enabled": true, "config": {"name": mig::DEVICE_PLUGIN, "default": "default"}},
    }});
    let policy = (ObjectKey::cluster(ObjectKind::ClusterPolicy, "cluster-policy"), of_others(policy));
    names.iter().map(namespace).chain([(configuration(), of_others(kueue)), policy]).collect()
}

/// Kueue's file, as whoever set this cluster up for us left it.
const KUEUE: &str = "apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, jobset.x-k8s.io/jobset]
waitForPodsReady:
  timeout: 10m
";

fn of_others(body: Value) -> Stored {
    Stored { body, written: None, moved_by: None, deleting: false }
}

impl ClusterState {
    pub(super) fn apply(&mut self, object: &Object) -> Result<(), ProviderError> {
        self.write(&object.key, &object.body)?;
        if let Some(found) = self.objects.get_mut(&object.key) {
            found.written = Some(object.digest.clone());
            found.moved_by = None;
        }
        Ok(())
    }

    /// Another field manager writes an object, or makes one. Our annotation stays on what is ours.
    pub fn change_object(
        &mut self,
        now: Timestamp,
        who: &str,
        key: &ObjectKey,
        body: &Value,
    ) -> Result<(), ProviderError> {
        self.tick(now);
        self.write(key, body)?;
        let now = self.now;
        if let Some(found) = self.objects.get_mut(key) {
            found.moved_by = Some((who.into(), now));
        }
        Ok(())
    }

    /// What an object says, whoever it belongs to.
    pub fn body_of(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key).map(|found| &found.body)
    }

    fn write(&mut self, key: &ObjectKey, body: &Value) -> Result<(), ProviderError> {
        if let Some(namespace) = &key.namespace {
            let home = self.objects.get(&ObjectKey::cluster(ObjectKind::Namespace, namespace));
            let home = home.ok_or_else(|| absent(&format!("namespaces \"{namespace}\"")))?;
            if home.deleting && !self.objects.contains_key(key) {
                let text =
                    format!("unable to create new content in namespace {namespace} because it is being terminated");
                return Err(ProviderError::new(Class::Other, text));
            }
        }
        let before = self.objects.get(key).map(|found| &found.body);
        super::server::admit(key, body, before).map_err(|text| ProviderError::new(Class::Other, text))?;
        let body = canonical(body);
        if before == Some(&body) {
            return Ok(());
        }
        match self.objects.get_mut(key) {
            Some(found) => found.body = body,
            None => _ = self.objects.insert(key.clone(), of_others(body)),
        }
        match key.kind {
            ObjectKind::ConfigMap => self.soon(MOUNT, Happening::Mounted(key.clone())),
            _ => self.poke_kueue(CYCLE),
        }
        self.finish_deletions();
        Ok(())
    }

    /// Deletes an object; one in use stays, marked, until it is free.
    pub fn delete_object(&mut self, now: Timestamp, key: &ObjectKey) -> Result<(), ProviderError> {
        self.tick(now);
        self.delete(key)
    }

    pub(super) fn delete(&mut self, key: &ObjectKey) -> Result<(), ProviderError> {
        let found = self.objects.get_mut(key).ok_or_else(|| absent(&key.to_string()))?;
        found.deleting = true;
        if key.kind == ObjectKind::Namespace {
            self.empty_namespace(&key.name);
        }
        self.poke_kueue(CYCLE);
        self.finish_deletions();
        Ok(())
    }

    pub(super) fn disown(&mut self, key: &ObjectKey) -> Result<(), ProviderError> {
        let found = self.objects.get_mut(key).ok_or_else(|| absent(&key.to_string()))?;
        found.written = None;
        Ok(())
    }

    pub(super) fn ensure_namespace(&mut self, name: &NamespaceName) {
        let key = ObjectKey::cluster(ObjectKind::Namespace, name.as_str());
        self.objects.entry(key).or_insert_with(|| of_others(json!({})));
    }

    pub(super) fn is_terminating(&self, namespace: &NamespaceName) -> bool {
        let key = ObjectKey::cluster(ObjectKind::Namespace, namespace.as_str());
        self.objects.get(&key).is_some_and(|found| found.deleting)
    }

    fn empty_namespace(&mut self, name: &str) {
        let inside = |key: &&ObjectKey| key.namespace.as_deref() == Some(name);
        let objects: Vec<ObjectKey> = self.objects.keys().filter(inside).cloned().collect();
        for key in objects {
            self.objects.remove(&key);
        }
        self.services.retain(|service, _| service.namespace.as_str() != name);
        let gangs: Vec<_> = self
            .gangs
            .iter()
            .filter(|(_, gang)| gang.spec.name.namespace.as_str() == name)
            .map(|(uid, _)| uid.clone())
            .collect();
        for gang in gangs {
            self.gangs.remove(&gang);
        }
        let pods: Vec<_> =
            self.pods.iter().filter(|(pod, _)| pod.namespace.as_str() == name).map(|(pod, _)| pod.clone()).collect();
        for pod in pods {
            self.delete_pod(&pod);
        }
    }

    /// Removes what is to be deleted and is in use no more: a queue before its flavors, a flavor before its topology.
    pub(super) fn finish_deletions(&mut self) {
        loop {
            let deleting = self.objects.iter().filter(|(_, found)| found.deleting);
            let free: Vec<ObjectKey> =
                deleting.map(|(key, _)| key).filter(|key| !self.is_in_use(key)).cloned().collect();
            if free.is_empty() {
                return;
            }
            for key in free {
                self.objects.remove(&key);
            }
        }
    }

    fn is_in_use(&self, key: &ObjectKey) -> bool {
        let bodies = |kind: ObjectKind, uses: &dyn Fn(&Value) -> bool| {
            self.objects.iter().any(|(other, found)| other.kind == kind && uses(&found.body))
        };
        match key.kind {
            ObjectKind::Topology => {
                bodies(ObjectKind::ResourceFlavor, &|body| body["spec"]["topologyName"] == json!(&*key.name))
            }
            ObjectKind::ResourceFlavor => bodies(ObjectKind::ClusterQueue, &|body| names_flavor(body, &key.name)),
            ObjectKind::ClusterQueue => {
                self.gangs.values().any(|gang| gang.held.as_ref().is_some_and(|held| held.queue.as_str() == &*key.name))
            }
            ObjectKind::Namespace => self.pods.iter().any(|(pod, _)| pod.namespace.as_str() == &*key.name),
            _ => false,
        }
    }
}

fn names_flavor(body: &Value, name: &str) -> bool {
    let groups = body["spec"]["resourceGroups"].as_array().into_iter().flatten();
    let mut flavors = groups.flat_map(|group| group["flavors"].as_array().into_iter().flatten());
    flavors.any(|flavor| flavor["name"] == json!(name))
}
