//! The rungs of a HealthPolicy on machines of a cloud whose Nodes are in a real cluster: a sick one is booted, and replaced
//! when the same comes back. A machine that was told to boot goes on for a while, and nothing in its Node says otherwise.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidewright::ids::InstanceId;
use tidewright::units::Duration;

use super::super::controlplane::{Controlplane, block, eventually, shared};
use super::health::says_at;
use super::hurried::Hurried;
use super::machines::{join, running, uid_of};
use super::namespace;
use super::whole::pods;

const DOCUMENTS: &str = "kind: Fleet
metadata: {name: rungs}
spec: {timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, limits: {hourlyUsd: 1000}}
---
kind: NodePool
metadata: {name: rungs}
spec: {instanceType: p5.48xlarge, nodes: 2, capacity: [{onDemand: {max: 3}}]}
---
kind: HealthPolicy
metadata: {name: rungs}
spec: {rules: [{when: {xid: [79]}, then: [reboot, replace]}], limit: 50%}
";
const HOME: &str = "rungs-web";

/// A fleet, and which Node is which of its machines.
struct Scene<'a> {
    plane: &'a Controlplane,
    fleet: Hurried,
    names: BTreeMap<InstanceId, String>,
}

impl Scene<'_> {
    /// Machines join, and the Nodes of those that are gone go with them; nothing is held in the end.
    #[track_caller]
    fn converge(&mut self) {
        let Scene { plane, fleet, names } = self;
        let left = fleet.converge(|| {
            let before = names.clone();
            join(plane, fleet, "rung", names);
            for (id, name) in names.iter().filter(|(id, _)| !before.contains_key(*id)) {
                boots(plane, name, &format!("first-of-{id}"));
                // Its GPUs are there at once: by our clock the cluster's is so late that it has taken too long already.
                let counted = json!({"nvidia.com/gpu": "8"});
                let status = json!({"status": {"capacity": counted, "allocatable": counted}});
                plane.api.merge(&format!("/api/v1/nodes/{name}/status"), &status).unwrap();
            }
            let running = running(fleet);
            for (_, name) in before.iter().filter(|(id, _)| !running.contains_key(*id)) {
                // Another look may find it gone already.
                let path = format!("/api/v1/nodes/{name}");
                let _ = block(plane.api.send("DELETE", &path, "application/json", None));
            }
        });
        assert!(left.held.is_empty(), "{:#?}", left.held);
    }

    /// What NVSentinel's watch of the kernel's log writes, at our time: it is far ahead of the cluster's.
    fn xid(&self, node: &str, status: &str) {
        let message = if status == "True" { "ErrorCode:79 PCI:0000:86:00 RecommendedAction: RESTART_VM" } else { "" };
        says_at(self.plane, node, "SysLogsXIDError", status, message, self.fleet.now());
    }

    fn is_closed(&self, node: &str) -> bool {
        self.plane.node(node)["spec"]["unschedulable"] == true
    }

    /// Where the service runs now.
    fn home(&self) -> String {
        eventually("the service runs", 60, || {
            let all = pods(self.plane, HOME);
            let there = all.iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null())?;
            there["spec"]["nodeName"].as_str().map(str::to_owned)
        })
    }
}

/// The kubelet speaks of this boot.
fn boots(plane: &Controlplane, node: &str, boot: &str) {
    plane
        .api
        .merge(&format!("/api/v1/nodes/{node}/status"), &json!({"status": {"nodeInfo": {"bootID": boot}}}))
        .unwrap();
}

#[test]
fn a_sick_machine_is_booted_and_replaced_when_that_did_not_last() {
    let Some(plane) = shared() else { return };
    let fleet = Hurried::in_the_cloud(&plane, "rungs", 10, DOCUMENTS);
    let mut scene = Scene { plane: &plane, fleet, names: BTreeMap::new() };
    scene.converge();
    assert_eq!((scene.names.len(), scene.fleet.done("launch")), (2, 2));
    plane.api.create(&namespace(HOME)).unwrap();
    service(&plane);
    let sick = scene.home();
    let first = uid_of(&plane, HOME, "api");

    // The first time it is emptied and booted. Until the machine has gone down its Node is as ready as before.
    scene.xid(&sick, "True");
    for _ in 0..20 {
        scene.fleet.round(Duration::secs(30));
        if scene.fleet.done("reboot") == 1 {
            break;
        }
    }
    assert_eq!((scene.fleet.done("reboot"), scene.fleet.done("terminate")), (1, 0));
    assert_ne!(scene.home(), sick, "its work was moved first");
    scene.fleet.round(Duration::secs(30));
    assert!(scene.is_closed(&sick), "it has not even gone down");
    // Nor when the monitor takes its word back before that.
    scene.xid(&sick, "False");
    scene.fleet.round(Duration::secs(30));
    assert!(scene.is_closed(&sick), "it has still not gone down");
    boots(&plane, &sick, "second");
    scene.converge();
    assert!(!scene.is_closed(&sick), "it is back");
    assert_eq!((scene.fleet.done("reboot"), scene.fleet.done("terminate")), (1, 0));

    // The same again on the next day: no boot helps, so another machine comes into its place.
    scene.fleet.pass(24 * 60);
    let slot = plane.node(&sick)["metadata"]["labels"]["tidewright.dev/slot"].clone();
    let before = scene.names.clone();
    scene.xid(&sick, "True");
    scene.converge();
    let done = ["launch", "reboot", "terminate"].map(|verb| scene.fleet.done(verb));
    assert_eq!(done, [3, 1, 1], "launched, booted, ended");
    assert!(plane.api.get(&format!("/api/v1/nodes/{sick}")).is_err(), "its Node went with it");
    let machines = running(&scene.fleet);
    let (new, _) = machines.iter().find(|(id, _)| !before.contains_key(*id)).expect("a new machine");
    let node = plane.node(&scene.names[new]);
    assert_eq!(node["metadata"]["labels"]["tidewright.dev/slot"], slot, "in the place of the old one");
    assert!(node["spec"]["unschedulable"].is_null() && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty));
    scene.fleet.pass(60);
    scene.converge();
    assert_eq!(scene.fleet.done("launch"), 3, "and that is all");

    // Pods left through evictions alone.
    let ours = |event: &&Value| event["user"]["username"] == "admin" && event["objectRef"]["resource"] == "pods";
    let events = plane.audit(HOME);
    let evicted = events.iter().filter(ours).filter(|event| event["objectRef"]["subresource"] == "eviction").count();
    let deleted = events.iter().filter(ours).filter(|event| event["verb"] == "delete").count();
    assert!(evicted >= 1 && deleted == 0, "{evicted} evicted, {deleted} deleted");
    assert_ne!(uid_of(&plane, HOME, "api"), first);
    assert!(scene.fleet.now().duration_since(jiff::Timestamp::now()) > SignedDuration::from_hours(24));
    plane.api.delete(&format!("/api/v1/namespaces/{HOME}"));
}

/// One pod that finds room on either machine, and may be moved.
fn service(plane: &Controlplane) {
    let asked = json!({"nvidia.com/gpu": "1"});
    let container = json!({"name": "main", "image": "serve", "resources": {"requests": asked, "limits": asked}});
    let template = json!({"metadata": {"labels": {"app": "api"}}, "spec": {
        "nodeSelector": {"tidewright.dev/pool": "rungs"}, "containers": [container]}});
    let selector = json!({"matchLabels": {"app": "api"}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "api", "namespace": HOME},
        "spec": {"replicas": 1, "selector": selector, "template": template}});
    plane.api.create(&set).unwrap();
}
