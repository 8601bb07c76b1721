//! What a plan and a status say to whoever has to say yes: on the simulator, as a person meets it.

use std::path::Path;

use crate::verbs::{Answer, fleet, run};

/// The demo at two in the afternoon, with its pools full.
fn demo() -> tempfile::TempDir {
    let directory = empty_demo();
    assert_eq!(run(directory.path(), &["apply", "--until-converged", "--yes"]).code, 0);
    directory
}

/// The demo at two in the afternoon, before anything was done.
pub fn empty_demo() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters/demo")).unwrap() {
        let file = file.unwrap();
        if file.path().extension().is_some_and(|ending| ending == "yaml") {
            std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
        }
    }
    run(directory.path(), &["sim", "reset", "--at", "2026-11-16T14:00"]);
    directory
}

fn edit(directory: &Path, file: &str, old: &str, new: &str) {
    let path = directory.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{file} has no {old}");
    std::fs::write(&path, text.replacen(old, new, 1)).unwrap();
}

#[test]
fn an_approval_covers_what_is_written_and_not_only_how_much() {
    let directory = fleet();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    edit(
        directory.path(),
        "fleet.yaml",
        "nodesRemovedPerHour: 2",
        "nodesRemovedPerHour: 2\n    desiredShrinkPercent: 50",
    );
    run(&["sim", "reset", "--at", "2026-11-16T14:00"]);
    run(&["apply", "--until-converged", "--yes"]);
    let [pools, teams] = ["pools.yaml", "teams.yaml"].map(|name| directory.path().join(name));
    let smaller = std::fs::read_to_string(&pools).unwrap().replacen("nodes: 4\n  capacity", "nodes: 3\n  capacity", 1);
    std::fs::write(&pools, smaller).unwrap();
    let before = std::fs::read_to_string(&teams).unwrap();
    let guarantee = |gpus: &str| before.replacen("guarantee: {gpus: 32}", &format!("guarantee: {{gpus: {gpus}}}"), 1);
    std::fs::write(&teams, guarantee("24")).unwrap();
    let Answer { code, out, err } = run(&["plan", "--out", "plan.json"]);
    assert!(code == 2 && out.contains("quota/research"), "{out}{err}");
    let digest = |out: &str| out.lines().find_map(|line| line.strip_prefix("Digest: ")).unwrap().to_string();
    let approved = digest(&out);
    std::fs::write(&teams, guarantee("8")).unwrap();
    assert_ne!(digest(&run(&["plan"]).out), approved);
    let Answer { code, err, .. } = run(&["apply", "--approved", "plan.json", "--target", "quota/research"]);
    assert!(code != 0 && err.contains("ClusterQueue research would be written differently"), "{code} {err}");
    // The ledger knows that digest by now, which makes it no word for another text.
    let Answer { code, err, .. } = run(&["apply", "--approved", &approved, "--target", "quota/research"]);
    assert!(code != 0 && err.contains("ClusterQueue research would be written differently"), "{code} {err}");
    std::fs::write(&teams, guarantee("24")).unwrap();
    assert_eq!(run(&["apply", "--approved", "plan.json", "--until-converged"]).code, 0);
}

#[test]
fn a_part_of_a_plan_and_the_status_ask_for_the_same_word_as_the_plan() {
    let directory = demo();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    edit(directory.path(), "training.yaml", "  nodes: 16\n  capacity", "  nodes: 15\n  capacity");
    edit(directory.path(), "training.yaml", "spares: 1", "spares: 0");
    let asks = |out: &str| out.matches("needs an approval").count();
    assert_eq!(asks(&run(&["plan"]).out), 4);
    let Answer { out, .. } = run(&["plan", "--target", "quota/vision"]);
    assert_eq!(asks(&out), 1, "{out}");
    // A word for one part is opened, and covers more than was done with it: that is no word for another plan.
    run(&["plan", "--out", "plan.json"]);
    run(&["apply", "--approved", "plan.json", "--target", "quota/vision"]);
    let Answer { out, .. } = run(&["plan"]);
    assert_eq!(asks(&out), 3, "{out}");
    let Answer { out, .. } = run(&["status"]);
    assert!(out.contains("of them wait for an approval"), "{out}");
}

#[test]
fn the_page_says_what_a_reader_has_to_know() {
    let directory = demo();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    run(&["sim", "submit", "vision", "56", "--name", "llm"]);
    run(&["sim", "advance", "1h"]);
    // More nodes by the hour, and a quota of nothing under a gang that runs.
    edit(directory.path(), "fleet.yaml", "hourlyUsd: ", "hourlyUsd: 9");
    edit(directory.path(), "training.yaml", "  nodes: 16\n  capacity", "  nodes: 17\n  capacity");
    edit(
        directory.path(),
        "teams.yaml",
        "guarantee: {gpus: 56}, borrow: {gpus: 64}, lend: {gpus: 56}",
        "guarantee: {gpus: 0}, borrow: {gpus: 64}",
    );
    let Answer { out, .. } = run(&["plan"]);
    let [launch, change] = ["+  launch  pool/train", "~  change  quota/vision"].map(|line| out.find(line));
    assert!(launch.is_some() && launch < change, "what costs money comes before what nobody notices:\n{out}");
    assert!(out.contains("56 of the 56 GPUs") && out.contains("vision/llm may be when others"), "{out}");
    let Answer { out, .. } = run(&["plan", "--output", "markdown"]);
    assert!(out.contains("| **needs an approval** |"), "{out}");
    // What a step comes after is told by what it does, and a workload by its name.
    edit(directory.path(), "training.yaml", "  nodes: 17\n  capacity", "  nodes: 14\n  capacity");
    edit(directory.path(), "training.yaml", "spares: 1", "spares: 0");
    run(&["sim", "submit", "language", "56", "--name", "speech"]);
    run(&["sim", "submit", "batch", "8", "--name", "embed"]);
    run(&["sim", "advance", "1h"]);
    let Answer { out, .. } = run(&["plan", "--verbose"]);
    assert!(out.contains("suspend workload batch/embed") && !out.contains("after 1)"), "{out}");
    let Answer { out, .. } = run(&["plan", "--output", "markdown"]);
    assert!(out.contains("suspend workload batch/embed"), "{out}");
}

#[test]
fn what_waits_leaves_the_quotas_as_they_are_and_is_told_in_the_words_of_the_documents() {
    let directory = demo();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    run(&["sim", "submit", "vision", "56", "--name", "llm"]);
    run(&["sim", "submit", "language", "56", "--name", "speech"]);
    run(&["sim", "advance", "1h"]);
    edit(directory.path(), "training.yaml", "  nodes: 16\n  capacity", "  nodes: 8\n  capacity");
    edit(directory.path(), "training.yaml", "spares: 1", "spares: 0");
    let teams = std::fs::read_to_string(directory.path().join("teams.yaml")).unwrap();
    let less = teams.replace(
        "guarantee: {gpus: 56}, borrow: {gpus: 64}, lend: {gpus: 56}",
        "guarantee: {gpus: 24}, borrow: {gpus: 16}, lend: {gpus: 24}",
    );
    std::fs::write(directory.path().join("teams.yaml"), less).unwrap();
    let Answer { out, .. } = run(&["status"]);
    assert!(out.contains("vision    train  56 GPUs (wanted: 24 GPUs)"), "{out}");
    let Answer { out, .. } = run(&["plan"]);
    assert!(out.contains("ClusterQueue vision: guarantee of train 56 → 24 GPUs"), "{out}");
    assert!(!out.contains("resourceGroups") && !out.contains("nominalQuota"), "{out}");
    let never = "vision/llm runs on, and could never start again once it is stopped: it asks for 56 GPUs, and its queue may \
                 use 40 of train at most then";
    assert!(out.contains(never), "{out}");
    let Answer { out, .. } = run(&["plan", "--output", "markdown"]);
    let row = out.lines().find(|line| line.starts_with("| pool/train |")).unwrap_or_default();
    assert!(out.contains("could never start again") && row.contains("GPU-h at risk"), "{out}");
}

#[test]
fn the_tide_of_a_simulated_fleet_is_told_by_the_simulators_clock() {
    let directory = demo();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    run(&["sim", "reset", "--at", "2031-03-04T14:00"]);
    let Answer { out, .. } = run(&["tide"]);
    assert!(out.starts_with("Fleet demo at Tue 2031-03-04 14:00"), "{out}");
}
