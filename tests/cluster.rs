//! The provider of real clusters, against a real control plane.
//!
//! [`alone`], [`evictions`], [`answers`], [`versions`] and [`inside`] need the API server only: what controllers would
//! write into a status, the tests write themselves. [`whole`], [`moves`], [`drains`], [`health`], [`gangs`], [`claims`],
//! [`adoption`], [`tiers`], [`elastic`], [`machines`], [`ladder`], [`rights`], [`schedulers`], [`profiles`], [`layouts`] and [`interruptions`] have
//! Kueue, the scheduler and nodes; [`day`] and [`nodes`] have two hundred nodes with teams at work, [`foresight`] asks in
//! many small cases whether Kueue does what our model of it says, [`both`] carries out scripts of the simulator, and
//! [`joined`] has nodes of its instances. [`hurried`] is for those who would wait for minutes.

mod adoption;
mod alone;
mod answers;
mod both;
mod claims;
mod day;
mod drains;
mod elastic;
mod evictions;
mod foresight;
mod gangs;
mod health;
mod hurried;
mod inside;
mod interruptions;
mod joined;
mod ladder;
mod layouts;
mod machines;
mod moves;
mod nodes;
mod profiles;
mod recorded;
mod rights;
mod schedulers;
mod teams;
mod tiers;
mod total;
mod versions;
mod whole;

use std::sync::OnceLock;

use serde_json::{Value, json};
use tidewright::fleet::Target;
use tidewright::load::{self, Loaded};
use tidewright::provider::k8s::K8s;

use super::controlplane::{Controlplane, Settings};

/// One API server for all tests here that keep to names of their own.
fn server() -> Option<&'static Controlplane> {
    static SERVER: OnceLock<Option<Controlplane>> = OnceLock::new();
    SERVER.get_or_init(|| Controlplane::launch(Settings::api_server_alone())).as_ref()
}

fn cluster(plane: &Controlplane, fleet: &str) -> K8s {
    K8s::with(plane.api.client.clone(), &fleet.into())
}

/// What a fleet of existing nodes wants now.
fn target(fleet: &str, documents: &str) -> Target {
    let head = format!(
        "kind: Fleet\nmetadata: {{name: {fleet}}}\nspec: {{timeZone: UTC, cloud: {{none: {{}}}}, kubernetes: \
         {{kubeconfig: {{context: bench}}}}}}\n---\n"
    );
    let text = format!("{head}{documents}").replace("kind: ", "apiVersion: tidewright.dev/v1alpha1\nkind: ");
    let mut loaded = Loaded::default();
    load::add_bytes(&mut loaded, "fleet.yaml", text.as_bytes());
    let now = jiff::Timestamp::now();
    let checked = loaded.check(now);
    assert!(checked.fleet.is_some(), "{:#?}", checked.diagnostics);
    checked.fleet.unwrap().target_at(now)
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
