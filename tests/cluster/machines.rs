//! Machines that a cloud starts and takes away, as Nodes of a real cluster: which Node is which machine is said by its
//! providerID and by nothing else, and only the end of a machine's time ends a pod against its budget.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidewright::ids::InstanceId;
use tidewright::observed::{InstanceSeen, InstanceState};

use super::super::controlplane::{Controlplane, GpuNodes, eventually, shared};
use super::hurried::Hurried;
use super::namespace;
use super::whole::pods;

const DOCUMENTS: &str = "kind: Fleet
metadata: {name: machines}
spec: {timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, limits: {hourlyUsd: 1000}}
---
kind: NodePool
metadata: {name: machines}
spec:
  instanceType: p5.48xlarge
  nodes: 2
  capacity: [{onDemand: {max: 3}}]
";

/// The machines that run, by the cloud's word.
pub(super) fn running(fleet: &Hurried) -> BTreeMap<InstanceId, InstanceSeen> {
    let (input, _) = fleet.planned();
    let all = input.observed.cloud.instances.seen().clone();
    all.into_iter().filter(|(_, seen)| seen.state == InstanceState::Running).collect()
}

/// The kubelet of each machine that has none yet joins, under a name that says nothing, closed until it is let in. Its
/// device plugin comes a round later, and until then it stays closed.
pub(super) fn join(plane: &Controlplane, fleet: &Hurried, family: &str, names: &mut BTreeMap<InstanceId, String>) {
    let gpus = |name: &str, count: &str| {
        let counted = json!({"nvidia.com/gpu": count});
        let status = json!({"status": {"capacity": counted, "allocatable": counted}});
        plane.api.merge(&format!("/api/v1/nodes/{name}/status"), &status).unwrap();
    };
    for (id, seen) in running(fleet) {
        if let Some(name) = names.get(&id) {
            let node = plane.node(name);
            if node["status"]["allocatable"]["nvidia.com/gpu"] == "0" {
                assert_eq!(node["spec"]["taints"][0]["key"], "tidewright.dev/starting", "it has no GPUs yet: {node:#}");
                gpus(name, "8");
            }
            continue;
        }
        let name = format!("{family}-{}", ["zebra", "apple", "mango", "quince"][names.len()]);
        let mut node = GpuNodes::named(&name);
        node.provider_id = Some(format!("aws:///{}/{id}", seen.zone));
        node.taints = vec![json!({"key": "tidewright.dev/starting", "effect": "NoSchedule"})];
        plane.add_nodes(&node);
        gpus(&name, "0");
        names.insert(id, name);
    }
}

/// A pod that no budget lets go, on one node and nowhere else.
pub(super) fn kept(plane: &Controlplane, home: &str, name: &str, node: &str) {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {
        "nodeSelector": {"kubernetes.io/hostname": node}, "containers": [{"name": "main", "image": "serve"}]}});
    let selector = json!({"matchLabels": {"app": name}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": home},
        "spec": {"replicas": 1, "selector": selector, "template": template}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": home}, "spec": {"minAvailable": 1, "selector": selector}});
    plane.api.create_all(&[set, budget]);
}

pub(super) fn uid_of(plane: &Controlplane, home: &str, app: &str) -> Option<Value> {
    let all = pods(plane, home);
    let found = all.iter().find(|pod| pod["metadata"]["labels"]["app"] == app)?;
    Some(found["metadata"]["uid"].clone())
}

#[test]
fn a_machine_is_its_node_by_provider_id_and_its_end_alone_overrules_a_budget() {
    let Some(plane) = shared() else { return };
    let home = "machines-web";
    // Somebody else's machine, whose Node has the name that one of ours might have had.
    plane.add_nodes(&GpuNodes::named("machines-0"));
    let fleet = Hurried::in_the_cloud(&plane, "machines", 20, DOCUMENTS);
    let mut names = BTreeMap::new();
    let left = fleet.converge(|| join(&plane, &fleet, "machine", &mut names));
    assert!(left.held.is_empty(), "{:#?}", left.held);
    let machines = running(&fleet);
    assert_eq!(machines.len(), 2);
    for (id, seen) in &machines {
        let node = plane.node(&names[id]);
        let slot = seen.tag.as_ref().unwrap().slot.clone();
        let labels = &node["metadata"]["labels"];
        assert_eq!(labels["tidewright.dev/pool"], "machines");
        assert_eq!(format!("machines/{}", labels["tidewright.dev/slot"].as_str().unwrap()), slot.to_string());
        assert!(node["spec"]["taints"].as_array().is_none_or(Vec::is_empty), "it serves: {node}");
    }
    assert!(plane.node("machines-0")["metadata"]["labels"]["tidewright.dev/pool"].is_null());

    plane.api.create(&namespace(home)).unwrap();
    let ids: Vec<&InstanceId> = machines.keys().collect();
    let (ends, stays) = (&names[ids[0]], &names[ids[1]]);
    kept(&plane, home, "ends", ends);
    kept(&plane, home, "stays", stays);
    let before = eventually("both run", 60, || Some([uid_of(&plane, home, "ends")?, uid_of(&plane, home, "stays")?]));
    for app in ["ends", "stays"] {
        let path = format!("/apis/policy/v1/namespaces/{home}/poddisruptionbudgets/{app}");
        eventually("its budget is counted", 60, || {
            (plane.api.get(&path).unwrap()["status"]["currentHealthy"] == 1).then_some(())
        });
    }

    // The cloud will take a machine in fourteen minutes. Until they are over the pod is asked to go, and its budget says no.
    let end = fleet.now() + jiff::SignedDuration::from_mins(14);
    fleet.takes_away(ids[0], 14);
    fleet.round(tidewright::units::Duration::secs(30));
    assert!(fleet.now() < end, "the machine is too slow for this test");
    assert_eq!(plane.node(ends)["spec"]["unschedulable"], true);
    assert_eq!(uid_of(&plane, home, "ends").as_ref(), Some(&before[0]), "the budget holds it");
    let path = format!("/api/v1/namespaces/{home}/pods?labelSelector=app=ends");
    // Then it is told to go all the same; the one that nobody's end is near to is not.
    while plane.api.list(&path).iter().any(|pod| pod["metadata"]["uid"] == before[0]) {
        fleet.round(tidewright::units::Duration::secs(20));
        assert!(fleet.now() < end + jiff::SignedDuration::from_mins(20), "it is never told to go");
    }
    assert!(fleet.now() >= end);
    assert_eq!(uid_of(&plane, home, "stays").as_ref(), Some(&before[1]));
    let deleted: Vec<Value> = plane
        .audit(home)
        .into_iter()
        .filter(|event| {
            event["user"]["username"] == "admin"
                && event["verb"] == "delete"
                && event["objectRef"]["resource"] == "pods"
        })
        .collect();
    assert_eq!(deleted.len(), 1, "one pod was deleted, the other one never: {deleted:#?}");
    assert_eq!(deleted[0]["requestObject"]["preconditions"]["uid"], before[0], "and by its UID");
    plane.api.delete(&format!("/api/v1/namespaces/{home}"));
}
