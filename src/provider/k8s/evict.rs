//! Pods told to go: through the eviction subresource, each with its UID, and every answer of the server understood.
//!
//! The body is the `policy/v1` Eviction itself. `kube` 5.0.0 writes its own `EvictParams` as `delete_options`, which
//! the server passes over: the UID would never be checked, and a pod that took the name would go instead.

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::slim::page;
use super::wire::{Failure, Refused, escaped};
use super::{K8s, kinds};
use crate::ids::{NamespacedName, Uid};
use crate::provider::{Done, ProviderError, Refusal};

const AT_ONCE: usize = 8;
/// What is deleted after a deadline gets the shortest grace that the kubelet still confirms. With none the pod would
/// vanish from the API while its processes hold the GPUs.
const FORCED_GRACE_SECS: u32 = 1;

/// How a refusal names what refused.
const BUDGET: &str = "poddisruptionbudget";
const ENDING: &str = "NamespaceTerminating";

pub async fn evict(k8s: &K8s, pods: &[(NamespacedName, Uid)], force: bool) -> Result<Done, ProviderError> {
    let told = pods.iter().map(|(name, uid)| async move {
        let answer = if force { delete(k8s, name, uid).await } else { ask(k8s, name, uid).await };
        (name, still_refused(k8s, name, uid, answer.err()).await)
    });
    let told: Vec<(&NamespacedName, Option<Failure>)> = stream::iter(told).buffered(AT_ONCE).collect().await;
    let mut refused = Vec::new();
    for (name, failure) in told {
        match failure.map(|failure| refusal(name, &failure).ok_or(failure)) {
            // Gone is what was wanted, whoever did it.
            None => {}
            Some(Ok(Verdict::Gone)) => {}
            Some(Ok(Verdict::Refused(refusal))) => refused.push(refusal),
            Some(Err(failure)) => return Err(failure.into()),
        }
    }
    Ok(Done::Evicted { refused })
}

/// In a namespace that ends every eviction is refused, also of a pod that is gone or on its way: the server looks at the
/// namespace first. So the pod itself is looked at.
async fn still_refused(k8s: &K8s, name: &NamespacedName, uid: &Uid, failure: Option<Failure>) -> Option<Failure> {
    let ends = matches!(&failure, Some(Failure::Api(refused)) if refused.has_cause(ENDING));
    if !ends {
        return failure;
    }
    let query = format!("fieldSelector={}", escaped(&format!("metadata.name={}", name.name)));
    let decode = |bytes: &[u8]| page(bytes, |pod: Value| Some(pod));
    let found = k8s.wire.list(&kinds::pods(Some(name.namespace.as_str())), &query, decode).await;
    let stays = |pod: &Value| {
        let meta = &pod["metadata"];
        meta["uid"] == uid.as_str() && meta["deletionTimestamp"].is_null()
    };
    // What cannot be read may still be there.
    failure.filter(|_| found.map_or(true, |pods| pods.iter().any(stays)))
}

async fn ask(k8s: &K8s, name: &NamespacedName, uid: &Uid) -> Result<(), Failure> {
    let path = format!("{}/eviction", kinds::pod(name.namespace.as_str(), &name.name));
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": &*name.name, "namespace": name.namespace.as_str()},
        "deleteOptions": {"preconditions": {"uid": uid.as_str()}},
    });
    k8s.wire.post(&path, &body).await.map(drop)
}

async fn delete(k8s: &K8s, name: &NamespacedName, uid: &Uid) -> Result<(), Failure> {
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": FORCED_GRACE_SECS,
        "preconditions": {"uid": uid.as_str()},
    });
    k8s.wire.delete(&kinds::pod(name.namespace.as_str(), &name.name), &options).await.map(drop)
}

enum Verdict {
    Gone,
    Refused(Refusal),
}

/// What an answer means for this pod; none where it means something for all of them.
fn refusal(pod: &NamespacedName, failure: &Failure) -> Option<Verdict> {
    let no = |why: String, permanent: bool, retry_after_secs: Option<u64>| {
        Some(Verdict::Refused(Refusal { pod: pod.clone(), why, permanent, retry_after_secs }))
    };
    let said = |refused: &Refused| format!("{} {}", refused.code, refused.message);
    match failure {
        Failure::Api(refused) => match refused.code {
            404 => Some(Verdict::Gone),
            // Another pod has taken the name: the one that was meant is gone.
            409 if refused.message.contains("UID") => Some(Verdict::Gone),
            429 => no(cause(refused), false, refused.retry_after_secs),
            // A budget that was overrun names itself, and no cause; it is counted anew in a moment.
            403 if refused.kind == BUDGET || refused.has_cause(ENDING) => {
                no(said(refused), false, refused.retry_after_secs)
            }
            // Nobody but a person can take one of the budgets away, or give us the right.
            403 => no(said(refused), true, None),
            500 if refused.message.contains("more than one PodDisruptionBudget") => no(said(refused), true, None),
            401 => None,
            _ => no(said(refused), false, refused.retry_after_secs),
        },
        // It carries the UID, so asking again cannot hit another pod.
        Failure::Lost(why) => no(format!("no answer: {why}"), false, None),
        Failure::Unsent(_) | Failure::Auth(_) | Failure::Unreadable(_) => None,
    }
}

/// The message of a budget's refusal says only that there is one; its cause says which and how far it is.
fn cause(refused: &Refused) -> String {
    let causes: Vec<&str> = refused.causes.iter().map(|cause| cause.message.as_str()).collect();
    match causes.is_empty() {
        true => format!("{} {}", refused.code, refused.message),
        false => format!("{} {} {}", refused.code, refused.message, causes.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::k8s::wire::Cause;

    fn judged(code: u16, message: &str, causes: &[(&str, &str)], retry: Option<u64>) -> Option<Option<Refusal>> {
        let causes =
            causes.iter().map(|(reason, message)| Cause { reason: (*reason).into(), message: (*message).into() });
        let refused = Refused {
            code,
            message: message.into(),
            kind: if message.starts_with(BUDGET) { BUDGET.into() } else { "pods".into() },
            causes: causes.collect(),
            retry_after_secs: retry,
            ..Refused::default()
        };
        let verdict = refusal(&NamespacedName::new("vision", "p"), &Failure::Api(Box::new(refused)));
        verdict.map(|verdict| match verdict {
            Verdict::Gone => None,
            Verdict::Refused(refusal) => Some(refusal),
        })
    }

    #[test]
    fn every_answer_of_the_server_has_its_meaning() {
        let gone = Some(None);
        let refused = |found: Option<Option<Refusal>>| {
            let found = found.flatten().expect("it was refused");
            (found.permanent, found.retry_after_secs)
        };
        assert_eq!(judged(404, "pods \"p\" not found", &[], None), gone);
        let uid = "Operation cannot be fulfilled on pods \"p\": the UID in the precondition (a) does not match the UID in record (b)";
        assert_eq!(judged(409, uid, &[], None), gone);
        assert_eq!(refused(judged(409, "the object has been modified", &[], None)), (false, None));
        let violates = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert_eq!(refused(judged(429, violates, &[("DisruptionBudget", "needs 4")], None)), (false, None));
        assert_eq!(refused(judged(429, violates, &[], Some(10))), (false, Some(10)));
        let both = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(refused(judged(500, both, &[], None)), (true, None));
        assert_eq!(refused(judged(500, "etcdserver: request timed out", &[], None)), (false, None));
        let negative = "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative";
        assert_eq!(refused(judged(403, negative, &[], None)), (false, None));
        assert_eq!(refused(judged(403, "terminated", &[("NamespaceTerminating", "")], None)), (false, None));
        assert_eq!(refused(judged(403, "pods/eviction is forbidden", &[], None)), (true, None));
        assert_eq!(judged(401, "Unauthorized", &[], None), None, "not about this pod");
    }

    #[test]
    fn the_cause_names_the_budget() {
        let causes = [("DisruptionBudget", "The disruption budget b needs 4 healthy pods and has 4 currently")];
        let found = judged(429, "Cannot evict pod.", &causes, None).flatten().unwrap();
        assert_eq!(found.why, "429 Cannot evict pod. The disruption budget b needs 4 healthy pods and has 4 currently");
    }
}
