//! What a word covers, once, and for whom: on the simulator, as a person meets it.

use std::path::Path;

use serde_json::Value;

use crate::verbs::{Answer, fleet_by_day, run};

fn edit(directory: &Path, file: &str, old: &str, new: &str) {
    let path = directory.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{file} has no {old}");
    std::fs::write(&path, text.replacen(old, new, 1)).unwrap();
}

/// The starting fleet, full, with room in its quotas to become smaller.
fn full() -> tempfile::TempDir {
    let directory = fleet_by_day();
    let limit = "nodesRemovedPerHour: 2";
    edit(directory.path(), "fleet.yaml", limit, "nodesRemovedPerHour: 9\n    desiredShrinkPercent: 60");
    edit(directory.path(), "teams.yaml", "gpus: 32", "gpus: 8");
    let Answer { code, err, .. } = run(directory.path(), &["apply", "--until-converged", "--yes"]);
    assert_eq!(code, 0, "{err}");
    directory
}

fn status(directory: &Path) -> Value {
    serde_json::from_str(&run(directory, &["status", "--output", "json"]).out).unwrap()
}

/// What is reserved for it, from so many nodes to so many.
fn reserved(directory: &Path, from: u32, to: u32) {
    let [old, new] = [from, to].map(|nodes| format!("us-west-2a\n  nodes: {nodes}"));
    edit(directory, "pools.yaml", &old, &new);
}

#[test]
fn an_approval_that_is_used_up_does_not_do_the_same_again() {
    let directory = full();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    let held = || status(directory.path())["reservations"]["base"]["nodes"].as_u64().unwrap();
    reserved(directory.path(), 4, 5);
    assert_eq!(run(&["apply", "--yes", "--until-converged"]).code, 0);
    reserved(directory.path(), 5, 4);
    assert_eq!(run(&["plan", "--out", "plan.json"]).code, 2);
    assert_eq!(run(&["apply", ".", "plan.json", "--until-converged"]).code, 0);
    assert_eq!(held(), 4);
    reserved(directory.path(), 4, 5);
    assert_eq!(run(&["apply", "--yes", "--until-converged"]).code, 0);
    reserved(directory.path(), 5, 4);
    let Answer { code, err, .. } = run(&["apply", ".", "plan.json", "--until-converged"]);
    assert!(code != 0 && held() == 5, "{code} {err}");
}
