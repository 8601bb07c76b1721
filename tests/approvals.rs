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

/// The pool of training, from so many nodes to so many.
fn pool(directory: &Path, from: u32, to: u32) {
    let capacity = "\n  capacity:\n    - {reservation: base}";
    let [old, new] = [from, to].map(|nodes| format!("nodes: {nodes}{capacity}"));
    edit(directory, "pools.yaml", &old, &new);
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
    assert!(code == 1 && held() == 5 && err.contains("used up"), "{code} {err}");
}

#[test]
fn a_plan_of_another_fleet_is_no_word_for_this_one() {
    let [here, there] = [full(), full()];
    edit(there.path(), "fleet.yaml", "name: my-fleet", "name: your-fleet");
    run(there.path(), &["sim", "reset", "--at", "2026-11-16T10:00"]);
    run(there.path(), &["apply", "--until-converged", "--yes"]);
    for directory in [&here, &there] {
        pool(directory.path(), 4, 3);
    }
    let file = here.path().join("theirs.json").display().to_string();
    assert_eq!(run(there.path(), &["plan", "--out", &file]).code, 2);
    let before = status(here.path());
    let node = a_node(here.path());
    for arguments in
        [vec!["apply", "--approved", "theirs.json"], vec!["drain", node.as_str(), "--approved", "theirs.json"]]
    {
        let Answer { code, out, err } = run(here.path(), &arguments);
        assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}: {err}");
        assert!(err.contains("a plan of fleet your-fleet") && err.contains("holds fleet my-fleet"), "{err}");
    }
    assert_eq!(status(here.path()), before, "nothing was done");
}

/// Some node of the fleet.
fn a_node(directory: &Path) -> String {
    run(directory, &["plan", "--save-input", "input.json"]);
    let text = std::fs::read_to_string(directory.join("input.json")).unwrap();
    let input: Value = serde_json::from_str(&text).unwrap();
    let nodes = input["input"]["observed"]["cluster"]["nodes"]["value"].as_object().unwrap();
    nodes.keys().next().unwrap().clone()
}

#[test]
fn no_node_is_closed_for_a_removal_that_nobody_approved() {
    let directory = full();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    pool(directory.path(), 4, 3);
    assert_eq!(run(&["plan", "--out", "plan.json"]).code, 2);
    pool(directory.path(), 3, 2);
    let Answer { err, .. } = run(&["apply", "--approved", "plan.json"]);
    let cordons: Vec<&str> = err.lines().filter(|line| line.contains("  cordon ")).collect();
    assert_eq!(cordons.len(), 2, "{err}");
    assert!(cordons[0].ends_with("(remove): done"), "{err}");
    assert!(cordons[1].contains("not approved: terminate pool/train 2 where 1 is left"), "{err}");
    let train = &status(directory.path())["pools"]["train"];
    assert_eq!((&train["ready"], &train["surplus"], &train["leaving"]), (&2.into(), &1.into(), &0.into()), "{train}");
    // Whoever begins both, and does not finish, is seen to have begun.
    assert_eq!(run(&["apply", "--yes", "--until-converged"]).code, 0);
}

#[test]
fn an_approval_by_digest_is_used_once() {
    let directory = full();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    pool(directory.path(), 4, 3);
    let Answer { out, .. } = run(&["plan"]);
    let digest = out.lines().find_map(|line| line.strip_prefix("Digest: ")).unwrap().to_string();
    let word = ["apply", "--approved", &digest, "--until-converged"];
    assert_eq!(run(&word).code, 0);
    pool(directory.path(), 3, 4);
    assert_eq!(run(&["apply", "--yes", "--until-converged"]).code, 0);
    pool(directory.path(), 4, 3);
    assert!(run(&["plan"]).out.contains(&digest), "the same is asked for once more");
    let Answer { code, out, err } = run(&word);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    for part in ["used up", "ana gave it at", "tidewright apply --yes", "tidewright plan --out FILE"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert_eq!(status(directory.path())["pools"]["train"]["ready"], 3, "the fourth is beyond what is wanted");
    assert_eq!(status(directory.path())["pools"]["train"]["surplus"], 1);
}

#[test]
fn a_word_is_looked_at_also_where_nothing_is_to_be_done() {
    let directory = full();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    for word in ["nosuch.json", "0123456789abcdef"] {
        let Answer { code, out, err } = run(&["apply", "--approved", word]);
        assert!(code == 1 && out.is_empty() && err.contains(word), "{code} {out}{err}");
    }
    assert_eq!(run(&["apply"]).code, 0);
}

#[test]
fn how_it_goes_on_is_a_command_that_can_be_copied() {
    let directory = full();
    let here = directory.path().display().to_string();
    let away = tempfile::tempdir().unwrap();
    pool(directory.path(), 4, 3);
    reserved(directory.path(), 4, 3);
    run(directory.path(), &["plan", "--out", "plan.json"]);
    assert_eq!(run(directory.path(), &["apply", "--approved", "plan.json"]).code, 2);
    let Answer { out, .. } = run(away.path(), &["status", &here]);
    assert!(out.contains(&format!("`tidewright apply {here} --approved ")), "{out}");
}

#[test]
fn what_is_frozen_while_it_starts_is_held_and_not_on_its_way() {
    let directory = fleet_by_day();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    assert_eq!(run(&["apply", "--yes"]).code, 2);
    for pool in ["pool/train", "pool/serve"] {
        assert_eq!(run(&["freeze", pool, "--reason", "incident 4711"]).code, 0);
    }
    assert!(status(directory.path())["pools"]["serve"]["launching"].as_u64().unwrap() > 0);
    let Answer { code, out, .. } = run(&["status"]);
    assert!(code == 3 && out.contains("\nBlocked: "), "{code} {out}");
    run(&["thaw", "pool/train"]);
    run(&["thaw", "pool/serve"]);
    assert_eq!(run(&["status"]).code, 2);
}

#[test]
fn a_world_that_cannot_be_read_has_no_tide() {
    let directory = fleet_by_day();
    for (text, says) in [("{\"version\": 1, ", "damaged"), ("{\"version\": 99}", "newer")] {
        std::fs::write(directory.path().join(".tidewright/sim.json"), text).unwrap();
        let Answer { code, out, err } = run(directory.path(), &["tide"]);
        assert!(code == 1 && out.is_empty() && err.contains("sim.json"), "{says}: {code} {out}{err}");
        // At another hour nobody asks what hour it is there.
        assert_eq!(run(directory.path(), &["tide", "--at", "2026-11-16T10:00"]).code, 0);
    }
}
