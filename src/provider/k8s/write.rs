//! Objects written, deleted and let go; and the same as a rehearsal, which the server judges without doing it.
//!
//! Server-side apply, under our own name. A field that a person or a controller edited is drift, and is put back. One
//! that another manager *applies* is declared twice: that is for people to settle, and the answer names the other.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::objects::{self, MANAGED_BY, Written};
use super::wire::{Failure, Refused};
use super::{K8s, kinds};
use crate::effect::Object;
use crate::effect::marks::{FLEET, WRITTEN};
use crate::observed::{ObjectKey, ObjectKind, Rehearsed};
use crate::provider::{Class, Clock, ProviderError};

const AT_ONCE: usize = 8;
/// API servers read their policies anew a moment after they are written. Who goes on as if a policy held before it does
/// lets work in that nobody spoke for: it was seen to wait for ever.
const HEEDED: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// Kueue lets go of what it knows, such as a queue or a flavor, a moment after it is deleted. So long that is waited for: what
/// takes longer is in somebody's use, and the next plan says whose.
const LET_GO: jiff::SignedDuration = jiff::SignedDuration::from_secs(20);
const LOOK: jiff::SignedDuration = jiff::SignedDuration::from_millis(500);

/// Why an object was not written.
enum NotWritten {
    Failed(Failure),
    /// Somebody else applies the same fields.
    Declared {
        by: Vec<String>,
        why: String,
    },
}

pub async fn apply(k8s: &K8s, object: &Object) -> Result<(), ProviderError> {
    match send(k8s, object, false).await {
        Ok(_) => {
            if object.key.kind == ObjectKind::MutatingAdmissionPolicyBinding {
                k8s.clock.sleep_until(later(k8s.clock.now(), HEEDED)).await;
            }
            Ok(())
        }
        Err(NotWritten::Failed(failure)) => Err(failure.into()),
        Err(NotWritten::Declared { by, why }) => {
            Err(ProviderError::new(Class::Other, declared(&object.key, &by, &why)))
        }
    }
}

/// What the server would say to these. What it cannot judge yet, such as an object in a namespace that is still to be
/// made, is left out.
pub async fn rehearse(k8s: &K8s, wanted: &[&Object]) -> BTreeMap<ObjectKey, Rehearsed> {
    let tried = wanted.iter().map(|object| async move { (object.key.clone(), send(k8s, object, true).await) });
    let tried: Vec<_> = stream::iter(tried).buffer_unordered(AT_ONCE).collect().await;
    let judged = tried.into_iter().filter_map(|(key, answer)| {
        let judged = match answer {
            Ok(bytes) => {
                let written: Written = serde_json::from_slice(&bytes).ok()?;
                Rehearsed::Taken(objects::seen(key.kind, &k8s.fleet, written).1.body)
            }
            Err(NotWritten::Declared { by, why }) => Rehearsed::Refused(declared(&key, &by, &why)),
            Err(NotWritten::Failed(Failure::Api(refused))) if is_final(&refused) => {
                Rehearsed::Refused(format!("the API server refuses {key}: {}", refused.message))
            }
            Err(NotWritten::Failed(_)) => return None,
        };
        Some((key, judged))
    });
    judged.collect()
}

/// Whether asking again, as things are, can only bring the same answer. A dry run that is forbidden says nothing about
/// the object, but Kueue's webhooks say 403 too.
fn is_final(refused: &Refused) -> bool {
    matches!(refused.code, 400 | 422) || (refused.code == 403 && refused.message.contains("admission webhook"))
}

fn declared(key: &ObjectKey, by: &[String], why: &str) -> String {
    let by = by.join(" and ");
    format!("{key} is also applied by {by}, which wants it otherwise: {why}. Take these fields out of one of the two")
}

async fn send(k8s: &K8s, object: &Object, dry_run: bool) -> Result<Bytes, NotWritten> {
    let (path, body) = (kinds::path(&object.key), objects::applied(object, &k8s.fleet));
    let refused = match k8s.wire.apply(&path, &body, false, dry_run).await {
        Ok(bytes) => return Ok(bytes),
        Err(Failure::Api(refused)) if refused.has_cause("FieldManagerConflict") => refused,
        Err(failure) => return Err(NotWritten::Failed(failure)),
    };
    let bytes = k8s.wire.get(&path).await.map_err(NotWritten::Failed)?;
    let written: Written =
        serde_json::from_slice(&bytes).map_err(|error| NotWritten::Failed(Failure::Unreadable(error.to_string())))?;
    let declarers = objects::declarers(&written);
    let by: Vec<String> = rivals(&refused).into_iter().filter(|name| declarers.contains(&name.as_str())).collect();
    if !by.is_empty() {
        return Err(NotWritten::Declared { by, why: refused.message });
    }
    k8s.wire.apply(&path, &body, true, dry_run).await.map_err(NotWritten::Failed)
}

/// The managers that a conflict names: `conflict with "ui" using v1: .spec.a`.
fn rivals(refused: &Refused) -> Vec<String> {
    let causes = refused.causes.iter().filter(|cause| cause.reason == "FieldManagerConflict");
    let named = causes.filter_map(|cause| cause.message.split('"').nth(1).map(String::from));
    let mut named: Vec<String> = named.collect();
    named.sort_unstable();
    named.dedup();
    named
}

/// Deletes what carries our mark, and only the one that was looked at. When this returns it is gone, or kept by whoever has
/// to finish with it first.
pub async fn delete(k8s: &K8s, key: &ObjectKey) -> Result<(), ProviderError> {
    let path = kinds::path(key);
    let bytes = k8s.wire.get(&path).await?;
    let unreadable = |error: serde_json::Error| Failure::Unreadable(error.to_string());
    let meta: Value = serde_json::from_slice::<Value>(&bytes).map_err(unreadable)?["metadata"].take();
    let (_, seen) = objects::seen(key.kind, &k8s.fleet, serde_json::from_slice(&bytes).map_err(unreadable)?);
    if seen.written.is_none() {
        return Err(ProviderError::new(Class::Denied, format!("{key} does not carry our mark")));
    }
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
    });
    k8s.wire.delete(&path, &options).await?;
    let end = later(k8s.clock.now(), LET_GO);
    while is_there(k8s, &path, &meta["uid"]).await && k8s.clock.now() < end {
        k8s.clock.sleep_until(later(k8s.clock.now(), LOOK)).await;
    }
    Ok(())
}

fn later(now: jiff::Timestamp, by: jiff::SignedDuration) -> jiff::Timestamp {
    now.checked_add(by).unwrap_or(jiff::Timestamp::MAX)
}

/// Whether this very object is seen. What cannot be read is not waited for.
async fn is_there(k8s: &K8s, path: &str, uid: &Value) -> bool {
    let found = k8s.wire.find(path).await.ok().flatten();
    let found = found.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    found.is_some_and(|found| found["metadata"]["uid"] == *uid)
}

/// Takes our marks off. What we set stays set: an apply without the fields would take those away too.
pub async fn disown(k8s: &K8s, key: &ObjectKey) -> Result<(), ProviderError> {
    let annotations = json!({WRITTEN: null, FLEET: null});
    let patch = json!({"metadata": {"annotations": annotations, "labels": {MANAGED_BY: null}}});
    k8s.wire.merge(&kinds::path(key), &patch).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::ObjectKind;
    use crate::provider::k8s::wire::Cause;

    #[test]
    fn a_conflict_names_the_other_managers() {
        let cause = |message: &str| Cause { reason: "FieldManagerConflict".into(), message: message.into() };
        let refused = Refused {
            code: 409,
            causes: vec![
                cause("conflict with \"ui\" using kueue.x-k8s.io/v1beta2 at 2026-09-03T10:00:00Z: .spec.stopPolicy"),
                cause("conflict with \"argocd\": .spec.resourceGroups"),
                cause("conflict with \"argocd\": .spec.cohortName"),
            ],
            ..Refused::default()
        };
        assert_eq!(rivals(&refused), ["argocd", "ui"]);
        let key = ObjectKey::cluster(ObjectKind::ClusterQueue, "vision");
        let text = declared(&key, &rivals(&refused)[..1], "Apply failed with 1 conflict");
        assert!(text.contains("ClusterQueue/vision is also applied by argocd"), "{text}");
    }

    #[test]
    fn a_rehearsal_tells_what_only_people_can_change() {
        let said = |code, message: &str| is_final(&Refused { code, message: message.into(), ..Refused::default() });
        assert!(said(422, "field is immutable"));
        assert!(said(403, "admission webhook \"vclusterqueue.kb.io\" denied the request: lendingLimit"));
        assert!(!said(403, "clusterqueues is forbidden: User \"ann\" cannot patch"));
        assert!(!said(404, "namespaces \"vision\" not found"));
        assert!(!said(500, "failed calling webhook"));
    }
}
