//! A whole drain under every answer that the API server gives to an eviction, and the mistakes that drainers are known
//! for: each test names the one that it re-creates. There is no kubelet here and no controller: pods end, and budgets
//! are counted, when the test says so.
//!
//! | the server's answer | the drain under it |
//! | --- | --- |
//! | 201, and the pod ends later | [`accepted_is_not_gone_and_a_long_grace_is_waited_for`] |
//! | 429 with `Retry-After`: its budget is behind | [`a_budget_that_is_behind_is_asked_again_when_it_said`] |
//! | 429 without: no eviction is allowed | [`a_budget_that_says_no_is_named_and_asked_again`], and for ever [`a_drain_that_a_budget_blocks_ends_with_its_time_and_says_who_blocks`] |
//! | 500: more than one budget | [`two_budgets_end_the_drain_at_once_and_nobody_spins`] |
//! | 403 about a budget: too many evictions that nobody confirmed | [`a_budget_that_was_overrun_is_asked_again`] |
//! | 403 about a namespace that ends | [`a_pod_of_a_namespace_that_ends_counts_until_it_is_gone`] |
//! | 404 | [`a_pod_that_ended_meanwhile_is_done`] |
//! | 409: another pod has the name | [`a_pod_that_took_the_name_elsewhere_is_never_touched`] |
//! | no budget is asked: never ran, ended, leaves | [`no_budget_keeps_a_pod_that_never_ran_has_ended_or_is_on_its_way`] |
//! | not ready, and `AlwaysAllow` or enough others | [`a_pod_that_is_not_ready_goes_where_the_server_lets_it`], [`a_pod_that_is_not_ready_goes_while_the_others_are_enough`] |
//!
//! What else users of drainers have met: a budget over all ranks, and pods that are evicted onto nodes about to be closed,
//! are in [`super::drains`], a roll-out that was broken off
//! and nodes that stay closed in [`super::interruptions`], cuts under work in [`super::layouts`], gangs in
//! [`super::gangs`]. A 429 because the pod was changed at that very moment, and a count below zero, cannot be made here.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::controlplane::{Controlplane, block, eventually};
use super::{namespace, node, server};

/// A fleet of one node and a namespace, all with one name.
struct Scene {
    plane: &'static Controlplane,
    name: &'static str,
    directory: tempfile::TempDir,
}

/// A drain that runs.
struct Drain {
    child: Child,
    told: PathBuf,
}

/// None where there is no control plane.
fn scene(name: &'static str) -> Option<Scene> {
    let plane = server()?;
    joined(plane, name);
    plane.api.create(&namespace(name)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "apiVersion: tidewright.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: {name}}}\nspec: {{timeZone: UTC, cloud: \
         {{none: {{}}}}, kubernetes: {{kubeconfig: {{context: bench}}}}}}\n---\napiVersion: \
         tidewright.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{instanceType: p5.48xlarge, \
         nodes: 1, capacity: [{{existing: {{labels: {{rack: {name}}}}}}}]}}\n"
    );
    std::fs::write(directory.path().join("fleet.yaml"), text).unwrap();
    let scene = Scene { plane, name, directory };
    // Without Kueue something is held for ever; the node is claimed all the same.
    let done = scene.command(&["apply", "--until-converged", "--yes"]).output().unwrap();
    assert_eq!(done.status.code(), Some(3), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(plane.node(name)["metadata"]["labels"]["tidewright.dev/pool"], name);
    Some(scene)
}

/// A kubelet comes with its node, as the cloud made it.
fn joined(plane: &Controlplane, name: &str) {
    let mut object = node(name);
    object["metadata"]["labels"]["rack"] = json!(name);
    plane.api.create(&object).unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}}});
    plane.api.merge(&format!("/api/v1/nodes/{name}/status"), &ready).unwrap();
}

impl Scene {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidewright"));
        command.env("KUBECONFIG", &self.plane.kubeconfig).env_remove("CI").current_dir(self.directory.path());
        command.args(arguments);
        command
    }

    /// A pod that runs on the node, made again by a controller; its UID.
    fn pod(&self, name: &str, ready: bool) -> String {
        self.pod_on(self.name, name, ready)
    }

    fn pod_on(&self, node: &str, name: &str, ready: bool) -> String {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.name, "labels": {"app": "a"}, "ownerReferences": [owner]},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 3600,
                "containers": [{"name": "main", "image": "serve"}]},
        });
        let made = self.plane.api.create(&pod).unwrap();
        let ready = if ready { "True" } else { "False" };
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        self.plane.api.merge(&format!("{}/status", self.path(name)), &status).unwrap();
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    fn path(&self, pod: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{pod}", self.name)
    }

    /// Whether the pod was told to go, or is gone.
    fn is_told(&self, pod: &str) -> bool {
        let found = self.plane.api.get(&self.path(pod));
        found.is_ok_and(|found| !found["metadata"]["deletionTimestamp"].is_null())
    }

    /// The kubelet: the pod has ended.
    fn ends(&self, pod: &str) {
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        let _ = block(self.plane.api.send("DELETE", &self.path(pod), "application/json", Some(&now)));
    }

    fn budget(&self, name: &str, more: Value, status: Value) {
        let mut spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let metadata = json!({"name": name, "namespace": self.name});
        let budget =
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec});
        self.plane.api.create(&budget).unwrap();
        self.counted(name, status);
    }

    /// The controller of budgets: this is how far one is.
    fn counted(&self, name: &str, status: Value) {
        let mut whole = json!({"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2, "disruptedPods": null});
        for (key, value) in status.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{name}/status", self.name);
        self.plane.api.merge(&path, &json!({"status": whole})).unwrap();
    }

    fn drain(&self, more: &[&str]) -> Drain {
        let told = self.directory.path().join("told");
        let mut command = self.command(&["drain", self.name, "--yes"]);
        let file = std::fs::File::create(&told).unwrap();
        command.args(more).stdout(file.try_clone().unwrap()).stderr(file);
        Drain { child: command.spawn().unwrap(), told }
    }

    /// Until the node carries our cordon: from here on it takes five seconds until somebody is disturbed.
    fn is_cordoned(&self) {
        eventually("the node is cordoned", 60, || {
            self.plane.node(self.name)["metadata"]["annotations"]["tidewright.dev/cordon"].as_str().map(drop)
        });
    }

    /// How often the server was asked to evict, with its answers.
    fn evictions(&self) -> Vec<u64> {
        self.asked().map(|event| event["responseStatus"]["code"].as_u64().unwrap()).collect()
    }

    /// The same as the server recorded it.
    fn asked(&self) -> impl Iterator<Item = Value> {
        self.plane.audit(self.name).into_iter().filter(|event| {
            event["objectRef"]["subresource"] == "eviction" && event["objectRef"]["namespace"] == self.name
        })
    }
}

fn word<T: std::str::FromStr>(value: &Value) -> T
where
    T::Err: std::fmt::Debug,
{
    value.as_str().unwrap().parse().unwrap()
}

impl Drain {
    fn told(&self) -> String {
        std::fs::read_to_string(&self.told).unwrap()
    }

    /// Until it says this.
    fn says(&mut self, words: &str) {
        let until = Instant::now() + Duration::from_secs(180);
        while !self.told().contains(words) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "{words}: {ended:?}: {}", self.told());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Its exit code.
    fn ends(&mut self) -> i32 {
        let until = Instant::now() + Duration::from_secs(270);
        loop {
            if let Some(ended) = self.child.try_wait().unwrap() {
                return ended.code().unwrap();
            }
            if Instant::now() > until {
                let _ = self.child.kill();
                panic!("it does not end: {}", self.told());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// NTH#355 and karpenter-provider-aws#7259: "drained" while pods still stop, and their node taken away.
#[test]
fn accepted_is_not_gone_and_a_long_grace_is_waited_for() {
    let Some(scene) = scene("answers-accepted") else { return };
    scene.pod("p", true);
    let mut drain = scene.drain(&[]);
    drain.says("still on answers-accepted: answers-accepted/p");
    assert!(scene.is_told("p"));
    std::thread::sleep(Duration::from_secs(6));
    assert!(drain.child.try_wait().unwrap().is_none(), "the pod is there: {}", drain.told());
    scene.ends("p");
    assert_eq!(drain.ends(), 0, "{}", drain.told());
    assert_eq!(scene.evictions(), [201]);
}

#[test]
fn a_budget_that_is_behind_is_asked_again_when_it_said() {
    let Some(scene) = scene("answers-behind") else { return };
    scene.pod("p", true);
    // It was counted, and its spec was changed since.
    scene.budget("b", json!({}), json!({"disruptionsAllowed": 1}));
    let path = "/apis/policy/v1/namespaces/answers-behind/poddisruptionbudgets/b";
    scene.plane.api.merge(path, &json!({"spec": {"minAvailable": 0}})).unwrap();
    let mut drain = scene.drain(&[]);
    drain.says("is still being processed by the server");
    scene.counted("b", json!({"disruptionsAllowed": 1, "observedGeneration": 2}));
    eventually("it is asked again", 60, || scene.is_told("p").then_some(()));
    scene.ends("p");
    assert_eq!((drain.ends(), scene.evictions()), (0, vec![429, 201]), "{}", drain.told());
    let asked: Vec<Timestamp> = scene.asked().map(|event| word(&event["requestReceivedTimestamp"])).collect();
    let between = asked[1].duration_since(asked[0]);
    assert!(between >= SignedDuration::from_secs(10), "ten seconds were asked for: {between:#}");
}

/// kubectl#172: a drain that hangs and does not say on what.
#[test]
fn a_budget_that_says_no_is_named_and_asked_again() {
    let Some(scene) = scene("answers-none") else { return };
    scene.pod("p", true);
    scene.budget("keep", json!({}), json!({"disruptionsAllowed": 1}));
    let mut drain = scene.drain(&[]);
    // The plan saw room; when its turn comes there is none.
    scene.is_cordoned();
    scene.counted("keep", json!({"disruptionsAllowed": 0}));
    drain.says("The disruption budget keep needs 1 healthy pods");
    assert!(!scene.is_told("p"));
    scene.counted("keep", json!({"disruptionsAllowed": 1}));
    eventually("it is asked again", 60, || scene.is_told("p").then_some(()));
    scene.ends("p");
    assert_eq!(drain.ends(), 0, "{}", drain.told());
    let answers = scene.evictions();
    assert!(answers.first() == Some(&429) && answers.last() == Some(&201), "{answers:?}");
}

/// brupop: evictions fail, and the drain is reported as done.
#[test]
fn two_budgets_end_the_drain_at_once_and_nobody_spins() {
    let Some(scene) = scene("answers-two") else { return };
    scene.pod("p", true);
    scene.budget("one", json!({}), json!({"disruptionsAllowed": 1}));
    let mut drain = scene.drain(&["--wait", "1m"]);
    scene.is_cordoned();
    scene.budget("two", json!({}), json!({"disruptionsAllowed": 1}));
    assert_eq!(drain.ends(), 3, "{}", drain.told());
    assert!(drain.told().contains("more than one PodDisruptionBudget"), "{}", drain.told());
    assert_eq!(scene.evictions(), [500]);
    assert!(!scene.is_told("p"));
    // Known beforehand nobody is asked at all.
    let again = scene.command(&["drain", "answers-two", "--dry-run"]).output().unwrap();
    let page = String::from_utf8(again.stdout).unwrap();
    assert!(page.contains("(answers-two/one, answers-two/two)") && again.status.code() == Some(3), "{page}");
    assert_eq!(scene.evictions(), [500]);
    let open = scene.command(&["undrain", "answers-two"]).output().unwrap();
    assert_eq!(open.status.code(), Some(0), "{}", String::from_utf8_lossy(&open.stderr));
    assert!(scene.plane.node("answers-two")["spec"]["unschedulable"].is_null());
}

#[test]
fn a_budget_that_was_overrun_is_asked_again() {
    let Some(scene) = scene("answers-overrun") else { return };
    scene.pod("p", true);
    scene.budget("b", json!({}), json!({"disruptionsAllowed": 1}));
    let mut drain = scene.drain(&[]);
    scene.is_cordoned();
    let flood: serde_json::Map<String, Value> =
        (0..2_001).map(|index| (format!("gone-{index}"), json!("2026-11-16T12:00:00Z"))).collect();
    scene.counted("b", json!({"disruptionsAllowed": 1, "disruptedPods": flood}));
    drain.says("DisruptedPods map too big");
    // The other refusal of this kind, for a count below zero, cannot be made here: this server takes no such count.
    assert!(!scene.is_told("p"));
    scene.counted("b", json!({"disruptionsAllowed": 1}));
    eventually("it is asked again", 60, || scene.is_told("p").then_some(()));
    scene.ends("p");
    assert_eq!(drain.ends(), 0, "{}", drain.told());
}

#[test]
fn a_pod_of_a_namespace_that_ends_counts_until_it_is_gone() {
    let Some(scene) = scene("answers-ending") else { return };
    scene.pod("p", true);
    block(scene.plane.api.send("DELETE", "/api/v1/namespaces/answers-ending", "application/json", None)).unwrap();
    let mut drain = scene.drain(&[]);
    drain.says("being terminated");
    assert!(drain.child.try_wait().unwrap().is_none(), "{}", drain.told());
    // What ends the namespace ends the pod.
    scene.ends("p");
    assert_eq!(drain.ends(), 0, "{}", drain.told());
    assert_eq!(scene.evictions().first(), Some(&403));
}

/// kubernetes#91141: a retry evicts the pod that took the name, on another node, for ever.
#[test]
fn a_pod_that_took_the_name_elsewhere_is_never_touched() {
    let Some(scene) = scene("answers-name") else { return };
    scene.pod("p", true);
    scene.budget("b", json!({}), json!({"disruptionsAllowed": 1}));
    scene.plane.api.create(&node("answers-name-other")).unwrap();
    let mut drain = scene.drain(&[]);
    scene.is_cordoned();
    scene.counted("b", json!({"disruptionsAllowed": 0}));
    drain.says("The disruption budget b");
    scene.ends("p");
    scene.pod_on("answers-name-other", "p", true);
    scene.counted("b", json!({"disruptionsAllowed": 1}));
    assert_eq!(drain.ends(), 0, "{}", drain.told());
    assert!(!scene.is_told("p"), "{}", drain.told());
    let answers = scene.evictions();
    assert!(answers.iter().all(|code| [429, 409].contains(code)) && answers.last() == Some(&409), "{answers:?}");
}

#[test]
fn a_pod_that_ended_meanwhile_is_done() {
    let Some(scene) = scene("answers-gone") else { return };
    scene.pod("p", true);
    scene.pod("q", true);
    let mut drain = scene.drain(&[]);
    scene.is_cordoned();
    scene.ends("p");
    eventually("the other one is told", 60, || scene.is_told("q").then_some(()));
    scene.ends("q");
    assert_eq!(drain.ends(), 0, "{}", drain.told());
    let mut answers = scene.evictions();
    answers.sort_unstable();
    assert_eq!(answers, [201, 404]);
}

/// karpenter#3185, NTH#476: a pod is bound between the look and the taint, and goes with the machine.
#[test]
fn a_pod_that_comes_after_the_look_is_seen_and_the_node_is_not_called_empty() {
    let Some(scene) = scene("answers-late") else { return };
    scene.pod("p", true);
    let mut drain = scene.drain(&[]);
    scene.is_cordoned();
    scene.pod("late", true);
    // It was not part of what somebody said yes to.
    assert_ne!(drain.ends(), 0, "{}", drain.told());
    assert!(drain.told().contains("answers-late/late came to answers-late"), "{}", drain.told());
    assert!(!scene.is_told("late"));
    let mut again = scene.drain(&[]);
    eventually("both are told", 60, || (scene.is_told("p") && scene.is_told("late")).then_some(()));
    scene.ends("p");
    scene.ends("late");
    assert_eq!(again.ends(), 0, "{}", again.told());
}

/// The same on a node that nobody used: nobody tells that pod to go, so nobody waits until it is gone either.
#[test]
fn a_pod_that_comes_to_an_idle_node_is_not_waited_for() {
    let Some(scene) = scene("answers-idle") else { return };
    let mut drain = scene.drain(&[]);
    scene.is_cordoned();
    scene.pod("late", true);
    assert_ne!(drain.ends(), 0, "{}", drain.told());
    assert!(drain.told().contains("answers-idle/late came to answers-idle"), "{}", drain.told());
    assert!(!scene.is_told("late"), "it was not part of what somebody said yes to");
    let mut again = scene.drain(&[]);
    eventually("it is told", 60, || scene.is_told("late").then_some(()));
    scene.ends("late");
    assert_eq!(again.ends(), 0, "{}", again.told());
}

/// kubernetes#72320: a pod that crashes and crashes is never healthy, its budget allows nothing, and the drain never ends.
#[test]
fn a_pod_that_is_not_ready_goes_where_the_server_lets_it() {
    let Some(scene) = scene("answers-unready") else { return };
    scene.pod("p", false);
    let always = json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"});
    scene.budget("b", always, json!({"disruptionsAllowed": 0, "currentHealthy": 0}));
    let mut drain = scene.drain(&["--wait", "20s"]);
    eventually("it is told", 60, || scene.is_told("p").then_some(()));
    scene.ends("p");
    assert_eq!((drain.ends(), scene.evictions()), (0, vec![201]), "{}", drain.told());
}

#[test]
fn a_pod_that_is_not_ready_goes_while_the_others_are_enough() {
    let Some(scene) = scene("answers-enough") else { return };
    scene.pod("p", false);
    scene.budget("b", json!({}), json!({"disruptionsAllowed": 0, "expectedPods": 2}));
    let mut drain = scene.drain(&["--wait", "20s"]);
    eventually("it is told", 60, || scene.is_told("p").then_some(()));
    scene.ends("p");
    assert_eq!((drain.ends(), scene.evictions()), (0, vec![201]), "{}", drain.told());
}

#[test]
fn no_budget_keeps_a_pod_that_never_ran_has_ended_or_is_on_its_way() {
    let Some(scene) = scene("answers-unasked") else { return };
    for (pod, phase) in [("new", "Pending"), ("ended", "Succeeded"), ("failed", "Failed"), ("leaves", "Running")] {
        scene.pod(pod, true);
        scene.plane.api.merge(&format!("{}/status", scene.path(pod)), &json!({"status": {"phase": phase}})).unwrap();
    }
    scene.plane.api.delete(&scene.path("leaves"));
    assert!(scene.is_told("leaves"), "its grace is an hour");
    scene.budget("b", json!({}), json!({"disruptionsAllowed": 0}));
    let mut drain = scene.drain(&["--wait", "20s"]);
    drain.says("still on answers-unasked");
    // The kubelet: what never ran has nothing to end.
    scene.ends("new");
    drain.says("answers-unasked/leaves");
    assert!(drain.child.try_wait().unwrap().is_none(), "one that leaves is there: {}", drain.told());
    scene.ends("leaves");
    assert_eq!((drain.ends(), scene.evictions()), (0, vec![201]), "only one was asked to go: {}", drain.told());
}

/// kured#82, brupop#650: a drain that never ends, because nobody gave it an end.
#[test]
fn a_drain_that_a_budget_blocks_ends_with_its_time_and_says_who_blocks() {
    let Some(scene) = scene("answers-endless") else { return };
    scene.pod("p", true);
    scene.budget("keep", json!({}), json!({"disruptionsAllowed": 0}));
    let mut drain = scene.drain(&["--wait", "12s"]);
    assert_eq!(drain.ends(), 3, "{}", drain.told());
    assert!(drain.told().contains("answers-endless/keep"), "{}", drain.told());
    assert!(!scene.is_told("p") && scene.evictions().iter().all(|code| *code == 429), "{:?}", scene.evictions());
    // Closed, and a person opens it; kured#1129: it stays closed for ever.
    assert_eq!(scene.plane.node(scene.name)["spec"]["unschedulable"], true);
    let open = scene.command(&["undrain", scene.name]).output().unwrap();
    assert_eq!(open.status.code(), Some(0), "{}", String::from_utf8_lossy(&open.stderr));
    assert!(scene.plane.node(scene.name)["spec"]["unschedulable"].is_null());
}

/// NVIDIA/gpu-operator#873: a node rejoins under its name, and everything that was written on it is lost.
#[test]
fn a_node_that_rejoins_under_its_name_is_closed_again_and_dressed_before_it_is_opened() {
    let Some(scene) = scene("answers-rejoins") else { return };
    scene.pod("p", true);
    let mut drain = scene.drain(&[]);
    drain.says("still on answers-rejoins");
    scene.ends("p");
    assert_eq!(drain.ends(), 0, "{}", drain.told());
    scene.plane.api.delete("/api/v1/nodes/answers-rejoins");
    joined(scene.plane, scene.name);
    let look = || {
        let node = scene.plane.node(scene.name);
        (node["metadata"]["labels"]["tidewright.dev/pool"].clone(), node["spec"]["unschedulable"].clone())
    };
    assert_eq!(look(), (Value::Null, Value::Null));
    let run = |arguments: &[&str], code: i32| {
        let done = scene.command(arguments).output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{}", String::from_utf8_lossy(&done.stderr));
    };
    run(&["apply", "--until-converged", "--yes"], 3);
    assert_eq!(look().1, true, "a person wants it closed");
    run(&["undrain", scene.name], 0);
    assert_eq!(look(), (json!(scene.name), Value::Null), "open, and its pool's");
}

#[test]
fn the_cordon_of_one_fleet_is_not_lifted_by_another() {
    let Some(one) = scene("answers-fleet-one") else { return };
    let Some(other) = scene("answers-fleet-two") else { return };
    assert_eq!(one.drain(&[]).ends(), 0);
    let done = other.command(&["apply", "--until-converged", "--yes"]).output().unwrap();
    assert_eq!(done.status.code(), Some(3), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(one.plane.node(one.name)["spec"]["unschedulable"], true);
    let open = one.command(&["undrain", one.name]).output().unwrap();
    assert_eq!(open.status.code(), Some(0), "{}", String::from_utf8_lossy(&open.stderr));
    assert!(one.plane.node(one.name)["spec"]["unschedulable"].is_null());
}
