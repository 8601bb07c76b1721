//! What takes a node out of service on a real cluster: conditions as NVSentinel, EKS and node-problem-detector write
//! them, and what Kueue and the scheduler then do with the work.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, gang, shared};
use super::whole::{fleet, pods, tidewright, workload};

const NAME: &str = "sick";

/// Nothing lasts any time here, and a quarter of the pool may be away.
const POLICY: &str = "---
apiVersion: tidewright.dev/v1alpha1
kind: HealthPolicy
metadata: {name: sick}
spec:
  rules:
  - {when: {xid: [48, 79]}, then: [quarantine]}
  - {when: {condition: {type: AcceleratedHardwareReady, status: \"False\"}}, then: [quarantine]}
  - {when: {straggler: {slowerThan: 1.25, windows: 3}}, then: [report]}
  - {when: {condition: {type: FansReady, status: \"False\"}}, then: [report, quarantine]}
  limit: 25%
  admit: [{condition: GpuAcceptance, within: 20m}]
";

/// What a monitor says about a node; the other conditions stay.
fn says(plane: &Controlplane, node: &str, kind: &str, status: &str, message: &str) {
    says_at(plane, node, kind, status, message, jiff::Timestamp::now());
}

/// The same since an instant.
pub(super) fn says_at(plane: &Controlplane, node: &str, kind: &str, status: &str, message: &str, at: jiff::Timestamp) {
    let now = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({"type": kind, "status": status, "reason": "Monitor", "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now});
    let path = format!("/api/v1/nodes/{node}/status");
    let body = json!({"status": {"conditions": [condition]}});
    block(plane.api.send("PATCH", &path, "application/strategic-merge-patch+json", Some(&body))).unwrap();
}

fn is_closed(plane: &Controlplane, node: &str) -> bool {
    plane.node(node)["spec"]["unschedulable"] == true
}

/// An apply that waits for what the test does meanwhile.
struct Waiting(Child);

fn start(plane: &Controlplane, directory: &Path) -> Waiting {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidewright"));
    command.env("KUBECONFIG", &plane.kubeconfig).current_dir(directory);
    command.args(["apply", "--until-converged", "--yes"]).stdout(Stdio::null()).stderr(Stdio::null());
    Waiting(command.spawn().unwrap())
}

impl Waiting {
    fn ends(mut self) -> Option<i32> {
        eventually("the apply ends", 180, || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sick_nodes_are_taken_out_up_to_the_limit_with_their_gangs_moved_whole_and_come_back() {
    let Some(plane) = shared() else { return };
    let nodes = GpuNodes::new(NAME, 4).label("rack", NAME);
    plane.add_nodes(&nodes);
    let directory = fleet(NAME, 4, 32);
    let path = directory.path().join("fleet.yaml");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + POLICY).unwrap();
    let run = |arguments: &[&str]| {
        let done = tidewright(&plane, directory.path(), arguments);
        let output = done.get_output();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let apply = || run(&["apply", "--until-converged", "--yes"]);

    // Existing nodes are claimed when they have passed their tests, and not before.
    let pool = |node: &str| plane.node(node)["metadata"]["labels"]["tidewright.dev/pool"].clone();
    for node in ["sick-0", "sick-1", "sick-2"] {
        says(&plane, node, "GpuAcceptance", "True", "passed");
    }
    let waiting = start(&plane, directory.path());
    eventually("three are claimed", 120, || (pool("sick-2") == NAME).then_some(()));
    assert!(pool("sick-3").is_null());
    says(&plane, "sick-3", "GpuAcceptance", "True", "passed");
    assert_eq!(waiting.ends(), Some(0));
    assert_eq!(pool("sick-3"), NAME);
    let mut job = gang(NAME, "train-1", "main", 2, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(NAME);
    plane.api.create(&job).unwrap();
    let ranks = eventually("the gang runs", 120, || Some(pods(&plane, NAME)).filter(|all| all.len() == 2));
    let used: Vec<&str> = ranks.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
    let all = nodes.names();
    let free: Vec<&String> = all.iter().filter(|node| !used.contains(&node.as_str())).collect();
    let (sick, forgiven, second) = (used[0], free[0], free[1]);

    // The driver says of this one that nothing is to be done, and of a straggler it is only told.
    let verdict = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus\nNVRM: Xid (PCI:0000:3b:00): 154, GPU \
        recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)";
    says(&plane, forgiven, "SysLogsXIDError", "True", verdict);
    says(&plane, forgiven, "Straggling", "True", "ratio=1.41 windows=4");
    says(&plane, forgiven, "FansReady", "False", "a fan is slow");
    let told = "its steps take 1.41 times as long as the others', 4 windows in a row. HealthPolicy sick only reports that, so \
        nothing is done to the node";
    let (code, plan) = run(&["plan"]);
    let flat = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    // One note is to be taken: that is all that is pending.
    assert!(code == Some(2) && plan.contains("Plan: no changes."), "{plan}");
    assert!(plan.contains("Good to know") && flat.contains(told), "{plan}");
    assert!(flat.contains(&format!("pool/{NAME}: {forgiven} in {NAME}/")), "{plan}");
    // What climbs is remembered once; then nothing is left to do, and people go on being told.
    assert!(flat.contains("FansReady is False") && flat.contains("within a week it is quarantined"), "{plan}");
    assert_eq!(apply().0, Some(0), "nobody is taken out");
    let (_, plan) = run(&["plan"]);
    assert!(plan.contains("No changes") && plan.contains("FansReady is False"), "{plan}");
    let (_, status) = run(&["status"]);
    assert!(status.contains("Converged") && status.contains("Reported by a HealthPolicy"), "{status}");
    let (_, status) = run(&["status", "--output", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let reports: Vec<_> = status["reports"].as_array().unwrap().iter().map(|one| one["node"].clone()).collect();
    assert_eq!(reports, [json!(forgiven), json!(forgiven)]);
    assert_eq!((&status["reports"][0]["next"], &status["reports"][1]["next"]), (&json!(null), &json!("quarantine")));
    assert!(!is_closed(&plane, forgiven));
    says(&plane, forgiven, "FansReady", "True", "");
    // An Xid under a gang: the whole of it moves, through its queue, and keeps its place.
    says(&plane, sick, "SysLogsXIDError", "True", "ErrorCode:79 PCI:0000:86:00 RecommendedAction: REPLACE_VM");
    apply();
    eventually("the gang runs elsewhere", 120, || {
        let ranks = pods(&plane, NAME);
        (ranks.len() == 2 && ranks.iter().all(|pod| pod["spec"]["nodeName"] != sick)).then_some(())
    });
    assert!(is_closed(&plane, sick), "out of service");
    assert!(!is_closed(&plane, forgiven), "the driver's verdict comes first");
    assert!(!is_closed(&plane, second));
    let found = workload(&plane, NAME);
    assert_eq!(found["spec"]["active"], true);
    let evictions = found["status"]["schedulingStats"]["evictions"].as_array().cloned().unwrap_or_default();
    assert!(evictions.iter().all(|one| one["reason"] == "Deactivated"), "asked, never killed: {evictions:?}");

    // One of four is the limit: the next one is named and left where it is.
    says(&plane, second, "AcceleratedHardwareReady", "False", "DCGM found a sick GPU");
    let (code, told) = apply();
    assert_eq!(code, Some(3), "{told}");
    let (_, held) = run(&["plan"]);
    assert!(held.contains("health limit") && held.contains(second.as_str()), "{held}");
    assert!(!is_closed(&plane, second));

    // Whoever comes back is let in when it has passed its tests again; then there is room for the other one.
    says(&plane, sick, "SysLogsXIDError", "False", "");
    says(&plane, sick, "GpuAcceptance", "False", "tests run");
    assert_eq!(run(&["return", sick]).0, Some(0));
    let waiting = start(&plane, directory.path());
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(100));
        assert!(is_closed(&plane, sick), "its tests are not over");
    }
    says(&plane, sick, "GpuAcceptance", "True", "passed");
    waiting.ends();
    // As an operator goes on; what is held by then comes with one of the next rounds.
    eventually("one is back, and there is room for the other", 180, || {
        let done = !is_closed(&plane, sick) && is_closed(&plane, second);
        done.then_some(()).or_else(|| {
            apply();
            None
        })
    });
    plane.end_jobs(&[NAME.to_owned()].into());
}
