//! Kueue outside a cluster: its CRDs and webhooks as released, pointed at a port of ours with a certificate of ours.

use std::path::Path;

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::api::{Api, eventually};

/// Installs the CRDs with conversion and the webhooks of every kind that exists here.
pub fn install(api: &Api, manifests: &Path, port: u16, authority: &[u8]) {
    let ca = BASE64.encode(authority);
    let mut crds = Vec::new();
    let mut webhooks = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(manifests).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for document in files.iter().flat_map(|file| documents(&std::fs::read_to_string(file).unwrap())) {
        match document["kind"].as_str().unwrap() {
            "CustomResourceDefinition" => crds.push(with_conversion(document, port, &ca)),
            _ => webhooks.push(served_here(document, port, &ca)),
        }
    }
    api.create_all(&crds);
    for crd in &crds {
        let name = crd["metadata"]["name"].as_str().unwrap();
        eventually(&format!("{name} is served"), 60, || {
            let crd = api.get(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")).ok()?;
            let conditions = crd["status"]["conditions"].as_array()?;
            conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True").then_some(())
        });
    }
    api.create_all(&webhooks);
    api.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})).unwrap();
}

/// What a run outside a cluster needs, and `more` over it: a key in `more` replaces ours as a whole.
pub fn configuration(webhooks: u16, health: u16, directory: &Path, more: &Value) -> Value {
    let mut configuration = json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "health": {"healthProbeBindAddress": format!("127.0.0.1:{health}")},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": directory.join("certificates")},
        "internalCertManagement": {"enable": false},
        "leaderElection": {"leaderElect": false},
        "integrations": {"frameworks": ["batch/job"]},
        "clientConnection": {"qps": 300, "burst": 400},
        // As it is released. Without it one Job after the other is looked at, and a hundred of them take half a minute.
        "controller": {"groupKindConcurrency": {"Job.batch": 5, "Workload.kueue.x-k8s.io": 5}},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        configuration[key] = value.clone();
    }
    configuration
}

/// The addition to the Configuration that turns fair sharing on, for the whole cluster.
pub fn fair_sharing() -> Value {
    json!({"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}})
}

pub fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("\n---").filter(|part| part.trim_start_matches('-').contains(':'));
    parts.map(|part| serde_saphyr::from_str(part.trim_start_matches("---")).unwrap()).collect()
}

/// Two served versions need somebody who translates.
fn with_conversion(mut crd: Value, port: u16, ca: &str) -> Value {
    if crd["spec"]["versions"].as_array().unwrap().len() > 1 {
        let client = json!({"url": format!("https://127.0.0.1:{port}/convert"), "caBundle": ca});
        crd["spec"]["conversion"] =
            json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}});
    }
    crd
}

/// Only Kueue's own kinds and Jobs exist here; a webhook on pods or deployments would need what we do not run.
fn served_here(mut webhooks: Value, port: u16, ca: &str) -> Value {
    let all = webhooks["webhooks"].as_array_mut().unwrap();
    all.retain(|webhook| {
        let rules = webhook["rules"].as_array().unwrap();
        rules.iter().all(|rule| {
            rule["apiGroups"][0] == "kueue.x-k8s.io"
                || rule["resources"][0] == "jobs" && rule["apiGroups"][0] == "batch"
        })
    });
    for webhook in all {
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
        webhook["clientConfig"] = json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": ca});
    }
    webhooks
}
