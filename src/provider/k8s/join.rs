//! Nodes for machines that only the simulator has, in a real API server: registered as a kubelet does, removed as a cloud
//! does.
//!
//! A node is registered once, with the labels and taints that its machine starts with; what others do to it from then on
//! stays. Only what it has to give is told again when it changes: GPUs are there once their plugin runs. It carries the annotation by which KWOK keeps it alive, and a label of ours by which it is found again. Called
//! by `tidewright sim serve --join`, and by nothing that looks after a fleet.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{self, NoWay};
use super::wire::Wire;
use crate::fleet::launch::Taint;
use crate::ids::{InstanceId, NodeName, ResourceName, Zone};
use crate::provider::ProviderError;

/// What is found again as ours.
const SIMULATED: &str = "tidewright.dev/simulated";
/// By this KWOK knows what it looks after.
const KWOK: &str = "kwok.x-k8s.io/node";
/// As many pods as a large node of EKS takes.
const PODS: u32 = 250;

/// A machine that is a node.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    pub instance: InstanceId,
    pub zone: Zone,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub allocatable: BTreeMap<ResourceName, i64>,
}

/// What each registered node was told to have; none where somebody before us told it.
type Known = BTreeMap<NodeName, Option<BTreeMap<ResourceName, i64>>>;

/// Whoever registers nodes.
#[derive(Debug)]
pub struct Registrar {
    wire: Wire,
    /// Those that are registered; none before anybody looked.
    known: RefCell<Option<Known>>,
}

impl Registrar {
    /// The current context of a kubeconfig.
    pub async fn connect(kubeconfig: &Path) -> Result<Self, NoWay> {
        Ok(Self::new(client::of_file(kubeconfig).await?))
    }

    fn new(wire: Wire) -> Self {
        Self { wire, known: RefCell::new(None) }
    }

    /// Registers the machines that are new, and removes the nodes of those that are gone.
    pub async fn keep(&self, wanted: &BTreeMap<NodeName, Machine>, now: Timestamp) -> Result<(), ProviderError> {
        let looked = self.known.borrow().clone();
        let mut known = match looked {
            Some(known) => known,
            None => self.registered().await?.into_iter().map(|name| (name, None)).collect(),
        };
        let kept = self.change(&mut known, wanted, now).await;
        *self.known.borrow_mut() = Some(known);
        kept
    }

    async fn change(
        &self,
        known: &mut Known,
        wanted: &BTreeMap<NodeName, Machine>,
        now: Timestamp,
    ) -> Result<(), ProviderError> {
        let gone: Vec<NodeName> = known.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            match self.wire.delete(&format!("/api/v1/nodes/{name}"), &json!({})).await {
                Err(failure) if failure.code() != Some(404) => return Err(failure.into()),
                _ => drop(known.remove(&name)),
            }
        }
        for (name, machine) in wanted {
            match known.get(name) {
                Some(Some(told)) if *told == machine.allocatable => continue,
                Some(_) => self.tell(name, &amounts(machine)).await?,
                None => self.register(name, machine, now).await?,
            }
            known.insert(name.clone(), Some(machine.allocatable.clone()));
        }
        Ok(())
    }

    async fn register(&self, name: &NodeName, machine: &Machine, now: Timestamp) -> Result<(), ProviderError> {
        match self.wire.post("/api/v1/nodes", &object(name, machine)).await {
            // It is there already: then only its status is missing.
            Err(failure) if failure.code() != Some(409) => return Err(failure.into()),
            _ => {}
        }
        self.tell(name, &status(machine, now)).await
    }

    async fn tell(&self, name: &NodeName, status: &Value) -> Result<(), ProviderError> {
        self.wire.merge(&format!("/api/v1/nodes/{name}/status"), &json!({"status": status})).await?;
        Ok(())
    }

    async fn registered(&self) -> Result<BTreeSet<NodeName>, ProviderError> {
        #[derive(Deserialize)]
        struct List {
            metadata: Next,
            items: Vec<Item>,
        }
        #[derive(Deserialize)]
        struct Next {
            #[serde(rename = "continue")]
            next: Option<String>,
        }
        #[derive(Deserialize)]
        struct Item {
            metadata: Named,
        }
        #[derive(Deserialize)]
        struct Named {
            name: NodeName,
        }
        let decode = |bytes: &[u8]| {
            let list: List = serde_json::from_slice(bytes)?;
            Ok((list.items.into_iter().map(|item| item.metadata.name).collect(), list.metadata.next))
        };
        let found = self.wire.list("/api/v1/nodes", &format!("labelSelector={SIMULATED}"), decode).await?;
        Ok(found.into_iter().collect())
    }
}

fn object(name: &NodeName, machine: &Machine) -> Value {
    let mut labels = machine.labels.clone();
    labels.insert(SIMULATED.into(), "true".into());
    let taints: Vec<Value> = machine
        .taints
        .iter()
        .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": format!("{:?}", taint.effect)}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name.as_str(), "labels": labels, "annotations": {KWOK: "fake"}},
        "spec": {
            "providerID": format!("aws:///{}/{}", machine.zone, machine.instance),
            "taints": taints,
        },
    })
}

/// What it has to give.
fn amounts(machine: &Machine) -> Value {
    let mut amounts: BTreeMap<String, String> = machine
        .allocatable
        .iter()
        .map(|(name, amount)| {
            let unit = if name.as_str() == "cpu" { "m" } else { "" };
            (name.to_string(), format!("{amount}{unit}"))
        })
        .collect();
    amounts.entry("pods".into()).or_insert_with(|| PODS.to_string());
    json!({"capacity": amounts, "allocatable": amounts})
}

/// The same, of a node that is ready.
fn status(machine: &Machine, now: Timestamp) -> Value {
    let mut status = amounts(machine);
    status["conditions"] = json!([{
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "simulated",
        "lastHeartbeatTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }]);
    status
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use crate::fleet::launch::TaintEffect;

    type Asked = Arc<Mutex<Vec<(String, Value)>>>;

    /// An API server that says yes to all, and what it was asked.
    fn server(listed: &'static str) -> (Registrar, Asked) {
        let asked = Asked::default();
        let heard = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let heard = heard.clone();
            async move {
                let line = format!("{} {}", request.method(), request.uri().path());
                let is_list = request.method() == "GET";
                let body = request.into_body().collect_bytes().await.unwrap();
                heard.lock().unwrap().push((line, serde_json::from_slice(&body).unwrap_or(Value::Null)));
                let answer = if is_list { listed } else { "{}" };
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer.as_bytes().to_vec())))
            }
        });
        (Registrar::new(Wire::new(kube::Client::new(service, "default"))), asked)
    }

    fn machine() -> Machine {
        Machine {
            instance: "i-0a".into(),
            zone: "us-west-2a".into(),
            labels: [("team".to_string(), "vision".to_string())].into(),
            taints: vec![Taint { key: "nvidia.com/gpu".into(), value: None, effect: TaintEffect::NoSchedule }],
            allocatable: [("cpu".into(), 191_450), ("nvidia.com/gpu".into(), 8)].into(),
        }
    }

    async fn keep(registrar: &Registrar, wanted: &[(&str, Machine)]) {
        let wanted = wanted.iter().map(|(name, machine)| (NodeName::from(*name), machine.clone())).collect();
        registrar.keep(&wanted, Timestamp::UNIX_EPOCH).await.unwrap();
    }

    #[test]
    fn gpus_that_come_after_the_node_are_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = runtime.block_on(async {
            let (registrar, asked) = server(r#"{"metadata": {}, "items": [{"metadata": {"name": "old"}}]}"#);
            let mut bare = machine();
            bare.allocatable.insert("nvidia.com/gpu".into(), 0);
            keep(&registrar, &[("new", bare), ("old", machine())]).await;
            for _ in 0..2 {
                keep(&registrar, &[("new", machine()), ("old", machine())]).await;
            }
            asked.lock().unwrap().clone()
        });
        let told = |at: usize| (asked[at].0.as_str(), &asked[at].1["status"]);
        // Which GPUs a node shows that is there already, nobody remembers.
        assert_eq!(told(3), ("PATCH /api/v1/nodes/old/status", &amounts(&machine())));
        assert_eq!(told(4), ("PATCH /api/v1/nodes/new/status", &amounts(&machine())));
        assert_eq!(asked.len(), 5, "{asked:?}");
    }

    #[test]
    fn a_machine_is_registered_once_and_its_node_goes_with_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = runtime.block_on(async {
            let (registrar, asked) = server(r#"{"metadata": {}, "items": [{"metadata": {"name": "old"}}]}"#);
            keep(&registrar, &[("new", machine())]).await;
            keep(&registrar, &[("new", machine())]).await;
            keep(&registrar, &[]).await;
            asked.lock().unwrap().clone()
        });
        let lines: Vec<&str> = asked.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(
            lines,
            [
                "GET /api/v1/nodes",
                "DELETE /api/v1/nodes/old",
                "POST /api/v1/nodes",
                "PATCH /api/v1/nodes/new/status",
                "DELETE /api/v1/nodes/new"
            ]
        );
        let (made, told) = (&asked[2].1, &asked[3].1);
        assert_eq!(made["spec"]["providerID"], "aws:///us-west-2a/i-0a");
        assert_eq!(made["spec"]["taints"][0]["effect"], "NoSchedule");
        assert_eq!(made["metadata"]["labels"]["team"], "vision");
        assert_eq!(told["status"]["allocatable"]["cpu"], "191450m");
        assert_eq!(told["status"]["allocatable"]["nvidia.com/gpu"], "8");
    }
}
