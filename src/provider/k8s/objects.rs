//! An object of a kind that we write, as the server has it: its body, our mark, and who moved it last.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::kinds;
use super::wire::MANAGER;
use crate::effect::marks::{FLEET, WRITTEN};
use crate::effect::{Object, canonical};
use crate::ids::Digest;
use crate::observed::{ObjectKey, ObjectKind, ObjectSeen};

/// The label on everything that we make, by which it is found again.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

#[derive(Deserialize)]
pub struct Written {
    metadata: Meta,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: Option<Arc<str>>,
    annotations: Option<Map<String, Value>>,
    deletion_timestamp: Option<Timestamp>,
    managed_fields: Vec<Managed>,
}

/// Who set which fields last.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Managed {
    manager: String,
    operation: String,
    time: Option<Timestamp>,
    subresource: String,
    #[serde(rename = "fieldsV1")]
    fields: Map<String, Value>,
}

/// The object by its key. One that belongs to another fleet of this cluster is somebody else's.
pub fn seen(kind: ObjectKind, fleet: &str, written: Written) -> (ObjectKey, ObjectSeen) {
    let Written { metadata, mut rest } = written;
    let note = |key: &str| metadata.annotations.as_ref().and_then(|notes| notes.get(key)?.as_str());
    let is_ours = note(FLEET).is_none_or(|found| found == fleet);
    for field in ["apiVersion", "kind", "status"] {
        rest.remove(field);
    }
    let body = match kind {
        // What is in a namespace is its team's.
        ObjectKind::Namespace => json!({}),
        // How drivers are built and who watches them is none of our business.
        ObjectKind::ClusterPolicy => json!({"spec": gpu_parts(&rest)}),
        _ => canonical(&Value::Object(rest)),
    };
    let seen = ObjectSeen {
        body,
        written: note(WRITTEN).filter(|_| is_ours).map(Digest::from),
        moved_by: moved_by(&metadata.managed_fields),
        deleting: metadata.deletion_timestamp.is_some(),
    };
    (ObjectKey { kind, namespace: metadata.namespace, name: metadata.name.into() }, seen)
}

/// What a ClusterPolicy says of how GPUs are cut and shared.
fn gpu_parts(policy: &Map<String, Value>) -> Value {
    let spec = policy.get("spec").and_then(Value::as_object);
    let parts = ["mig", "migManager", "devicePlugin"].into_iter().filter_map(|part| {
        let fields = spec?.get(part)?.as_object()?.iter();
        let fields = fields.filter(|(key, _)| matches!(key.as_str(), "strategy" | "enabled" | "config"));
        let fields: Map<String, Value> = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
        Some((part.to_owned(), Value::Object(fields)))
    });
    canonical(&Value::Object(parts.collect()))
}

/// What we send.
pub fn applied(object: &Object, fleet: &str) -> Value {
    let mut body = object.body.clone();
    if let Value::Object(fields) = &mut body {
        let mut metadata = json!({
            "name": &*object.key.name,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {WRITTEN: object.digest.as_str(), FLEET: fleet},
        });
        if let Some(namespace) = &object.key.namespace {
            metadata["namespace"] = json!(&**namespace);
        }
        fields.insert("apiVersion".into(), object.key.kind.api_version().into());
        fields.insert("kind".into(), object.key.kind.name().into());
        fields.insert("metadata".into(), metadata);
    }
    body
}

/// The last other manager that set something else than metadata, if that was after us.
fn moved_by(managed: &[Managed]) -> Option<(String, Timestamp)> {
    let sets = |one: &&Managed| {
        one.subresource.is_empty() && one.fields.keys().any(|key| key != "f:metadata" && key != "f:status")
    };
    let ours = managed.iter().filter(|one| is_us(one)).filter_map(|one| one.time).max();
    let others = managed.iter().filter(|one| !is_us(one)).filter(sets).filter_map(|one| Some((one, one.time?)));
    let last = others.filter(|(_, time)| ours.is_none_or(|ours| *time > ours)).max_by_key(|(_, time)| *time);
    last.map(|(one, time)| (one.manager.clone(), time))
}

fn is_us(one: &Managed) -> bool {
    one.manager == MANAGER
}

/// Managers of an object that declare what they own, and so keep it: whoever applies. A person's edit is no claim.
pub fn declarers(written: &Written) -> Vec<&str> {
    let applies = |one: &&Managed| one.operation == "Apply" && !is_us(one) && one.subresource.is_empty();
    written.metadata.managed_fields.iter().filter(applies).map(|one| one.manager.as_str()).collect()
}

/// How a command for a person names it.
pub fn described(key: &ObjectKey) -> String {
    let namespace = key.namespace.as_ref().map_or(String::new(), |namespace| format!(" in {namespace}"));
    format!("{} {}{namespace}", kinds::plural(key.kind), key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = include_str!("samples/clusterqueue.json");

    fn sample(text: &str) -> (ObjectKey, ObjectSeen) {
        seen(ObjectKind::ClusterQueue, "demo", serde_json::from_str(text).unwrap())
    }

    #[test]
    fn an_object_is_reduced_to_what_a_writer_can_set() {
        let (key, seen) = sample(QUEUE);
        assert_eq!(key.to_string(), "ClusterQueue/vision");
        assert_eq!(seen.body.as_object().unwrap().keys().collect::<Vec<_>>(), ["spec"]);
        assert_eq!(seen.body["spec"]["stopPolicy"], "Hold");
        assert_eq!(seen.written, Some("d1".into()));
        assert!(!seen.deleting);
    }

    #[test]
    fn whoever_moved_it_after_us_is_named_and_controllers_are_not() {
        let (_, seen) = sample(QUEUE);
        assert_eq!(seen.moved_by, Some(("kubectl-edit".into(), "2026-09-03T11:30:00Z".parse().unwrap())));
        // The same edit before our last apply is history.
        let (_, seen) = sample(&QUEUE.replace("2026-09-03T11:30:00Z", "2026-09-03T10:30:00Z"));
        assert_eq!(seen.moved_by, None);
    }

    #[test]
    fn an_object_of_another_fleet_is_not_ours() {
        let (_, seen) = sample(&QUEUE.replace("\"demo\"", "\"other\""));
        assert_eq!(seen.written, None);
    }

    #[test]
    fn a_namespace_is_its_teams() {
        let text = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision", "labels": {"team": "v"},
            "deletionTimestamp": "2026-09-03T10:30:00Z"}, "spec": {"finalizers": ["kubernetes"]}, "status": {}}"#;
        let (key, seen) = seen(ObjectKind::Namespace, "demo", serde_json::from_str(text).unwrap());
        assert_eq!((key.to_string().as_str(), &seen.body), ("Namespace/vision", &json!({})));
        assert!(seen.deleting && seen.written.is_none());
    }

    #[test]
    fn of_a_policy_only_that_is_kept_which_ours_rests_on() {
        let text = r#"{"metadata": {"name": "cluster-policy"}, "spec": {"driver": {"version": "580"},
            "mig": {"strategy": "single"}, "devicePlugin": {"enabled": true, "image": "k8s-device-plugin"},
            "migManager": {"env": [], "config": {"name": "default-mig-parted-config"}}}, "status": {"state": "ready"}}"#;
        let (key, seen) = seen(ObjectKind::ClusterPolicy, "demo", serde_json::from_str(text).unwrap());
        assert_eq!(key.to_string(), "ClusterPolicy/cluster-policy");
        let parts = json!({"mig": {"strategy": "single"}, "devicePlugin": {"enabled": true},
            "migManager": {"config": {"name": "default-mig-parted-config"}}});
        assert_eq!(seen.body, canonical(&json!({"spec": parts})));
    }

    #[test]
    fn what_is_sent_carries_our_marks_and_comes_back_as_it_was() {
        let key = ObjectKey::namespaced(ObjectKind::ConfigMap, "gpu-operator", "m");
        let object = Object::new(key.clone(), json!({"data": {"a": "b"}}));
        let sent = applied(&object, "demo");
        assert_eq!(sent["apiVersion"], "v1");
        let (back, seen) = seen(key.kind, "demo", serde_json::from_value(sent).unwrap());
        assert_eq!((back, seen.body, seen.written), (key, object.body, Some(object.digest)));
    }

    #[test]
    fn only_who_applies_declares_what_is_theirs() {
        assert_eq!(declarers(&serde_json::from_str(QUEUE).unwrap()), ["argocd-controller"]);
    }
}
