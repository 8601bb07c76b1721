//! Placement beside what others do, and the verbs `place` and `pack` as a person meets them.

#[path = "../benches/fabric/baseline.rs"]
mod baseline;
#[path = "../benches/fabric/bound.rs"]
mod bound;

use std::path::Path;

use serde_json::Value;
use tidewright::fabric::{Ask, Freedom, Host, Place, Prices, Problem, Tree, place};
use tidewright::ids::LevelName;

use crate::verbs::{Answer, run};

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 11) % u64::from(most)).unwrap()
    }
}

fn tree(dice: &mut Dice) -> Tree {
    let mut places = Vec::new();
    for block in 0..4 {
        for leaf in 0..6 {
            for host in 0..2 + dice.below(7) {
                let path = vec![Some(format!("b{block}")), Some(format!("b{block}-l{leaf}"))];
                places.push(Place { host: format!("h-{block}-{leaf}-{host}").into(), path });
            }
        }
    }
    Tree::grow(&["block", "leaf"].map(LevelName::from), places).0
}

fn problem<'a>(tree: &'a Tree, sizes: &[u32], crossing: &[u64]) -> Problem<'a> {
    let ask = |(at, nodes): (usize, &u32)| Ask {
        name: format!("gang-{at}").into(),
        nodes: *nodes,
        suits: vec![true],
        together: None,
        required: false,
        apart: Vec::new(),
    };
    let host = Host { class: 0, gpus: 8, pool: None, free: Freedom::Usable };
    let prices = Prices { crossing: crossing.to_vec(), asked: 1, moving: 2 };
    let pools = sizes.iter().enumerate().map(ask).collect();
    Problem { tree, hosts: vec![host; tree.hosts.len()], pools, prices }
}

/// Blocks with leaves of these sizes.
fn blocks(sizes: &[&[u32]]) -> Tree {
    let mut places = Vec::new();
    for (block, leaves) in sizes.iter().enumerate() {
        for (leaf, hosts) in leaves.iter().enumerate() {
            let path = vec![Some(format!("b{block}")), Some(format!("b{block}-l{leaf}"))];
            places.extend(
                (0..*hosts).map(|at| Place { host: format!("h-{block}-{leaf}-{at:02}").into(), path: path.clone() }),
            );
        }
    }
    Tree::grow(&["block", "leaf"].map(LevelName::from), places).0
}

/// Large gangs that fill everything: each costs as little as one alone that goes to the fewest blocks, and yet some would
/// cost less with one block more and leaves that are larger.
#[test]
fn a_full_fabric_of_large_gangs_costs_no_more_than_by_kueues_best_fit() {
    let tree = blocks(&[
        &[13, 4, 6, 4],
        &[16, 8, 12, 14],
        &[10, 16, 8, 13],
        &[9, 16, 6, 12],
        &[9, 12, 11, 7],
        &[13, 11, 6, 11],
    ]);
    let problem = problem(&tree, &[7, 43, 17, 73, 3, 3, 3, 2, 16, 9, 70, 1], &[2, 1]);
    let placed = place(&problem);
    let theirs = baseline::crossings(&problem, &baseline::kueue(&problem));
    assert_eq!(placed.score.unplaced, 0);
    assert!(placed.score.cost <= theirs, "{} and Kueue's {theirs}", placed.score.cost);
    assert!(bound::at_least(&problem) <= placed.score.cost);
}

/// What is known of both from their sources, on blocks where they differ: the first four of a gang of six fill a leaf, and
/// then there are two leaves of one in that block, and one of two in the block before it. Kueue stays in the block that
/// holds all; Slurm met the leaf of two first, which holds all that is left, and one that is nearer does not.
#[test]
fn the_baselines_do_what_kueue_and_slurm_do() {
    let tree = blocks(&[&[2, 2, 1], &[4, 1, 1]]);
    let problem = problem(&tree, &[6], &[1, 1]);
    assert_eq!(baseline::kueue(&problem), [vec![(3, 4), (4, 1), (5, 1)]]);
    assert_eq!(baseline::slurm(&problem), [vec![(3, 4), (0, 2)]]);
}

#[test]
fn no_placement_has_more_crossings_than_kueues_best_fit_and_slurms_rule() {
    let mut fewer = 0;
    for seed in 1..=12 {
        let mut dice = Dice(seed * 7919);
        let tree = tree(&mut dice);
        let mut left = u32::try_from(tree.hosts.len()).unwrap() * (60 + dice.below(36)) / 100;
        let mut sizes = Vec::new();
        while left > 0 {
            sizes.push([1, 2, 3, 5, 8, 12, 16][dice.below(7) as usize].min(left));
            left -= sizes[sizes.len() - 1];
        }
        let problem = problem(&tree, &sizes, &[1, 1]);
        let placed = place(&problem);
        let ours = baseline::crossings(&problem, &baseline::of_hosts(&tree, problem.pools.len(), &placed.hosts));
        assert_eq!((placed.score.unplaced, placed.score.cost), (0, ours), "seed {seed}");
        let theirs =
            [baseline::kueue(&problem), baseline::slurm(&problem)].map(|taken| baseline::crossings(&problem, &taken));
        assert!(theirs.iter().all(|theirs| ours <= *theirs), "seed {seed}: {ours} and {theirs:?}");
        assert!(bound::at_least(&problem) <= ours, "seed {seed}: nobody is below the least");
        fewer += u32::from(ours < theirs[0]);
    }
    assert!(fewer > 0, "the same as Kueue every time shows nothing");
}

/// The example whose fabric is declared in a file, with its pools full.
fn declared() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/declared-fabric")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
    }
    assert_eq!(run(directory.path(), &["apply", "--until-converged", "--yes"]).code, 0);
    directory
}

#[test]
fn place_tells_where_pools_stand_why_and_what_would_be_better() {
    let directory = declared();
    let Answer { code, out, err } = run(directory.path(), &["place", "--output", "json"]);
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!(told["format_version"], "1.0");
    assert_eq!(told["levels"], serde_json::json!(["spine", "leaf"]));
    assert_eq!(told["hosts"].as_array().unwrap().len(), 12);
    // All that it says of a required level holds in what it proposes.
    let pools = told["pools"].as_array().unwrap();
    let train = pools.iter().find(|pool| pool["name"] == "train").unwrap();
    assert_eq!((&train["placed"], &train["fragments"][0]), (&Value::from(8), &Value::from(1)), "{out}");
    let moved = told["hosts"].as_array().unwrap().iter().filter(|host| host["pool"] != host["should_be"]).count();
    assert_eq!(code, if moved > 0 { 2 } else { 0 }, "{out}");
    let Answer { out, .. } = run(directory.path(), &["place"]);
    for says in ["12 nodes with 96 GPUs on 2 × spine and 3 × leaf", "train  8 nodes", "next best", "FREE SLOTS"] {
        assert!(out.contains(says), "{says}: {out}");
    }
    assert_eq!(out.contains("Moves that pay for themselves"), moved > 0, "{out}");
}

/// Holds what a verb says against its published schema.
fn is_as_published(schema: &str, said: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/output").join(schema);
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let value: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new(), "{said}");
    // One that takes anything would say nothing.
    for wrong in [serde_json::json!({"format_version": "1.0"}), serde_json::json!([value.clone()])] {
        assert!(!validator.is_valid(&wrong));
    }
    let mut newer = value.clone();
    newer["format_version"] = "2.0".into();
    assert!(!validator.is_valid(&newer));
    value
}

#[test]
fn json_of_place_pack_and_hardware_matches_its_published_schema() {
    let directory = declared();
    let said = |arguments: &[&str]| run(directory.path(), &[arguments, &["--output", "json"]].concat()).out;
    let placed = is_as_published("place.schema.json", &said(&["place"]));
    assert_eq!(placed["hosts"].as_array().unwrap().len(), 12);
    let fits = is_as_published("place.schema.json", &said(&["place", "--gpus", "16", "--together", "leaf"]));
    let never = is_as_published("place.schema.json", &said(&["place", "--gpus", "640"]));
    assert_eq!((&fits["answer"]["fits"], &never["answer"]["fits"]), (&true.into(), &false.into()));
    let all = is_as_published("hardware.schema.json", &said(&["hardware"]));
    assert!(all["types"].as_array().unwrap().len() > 40);
    for name in ["p5.48xlarge", "h100-sxm", "mi300x"] {
        is_as_published("hardware.schema.json", &said(&["hardware", name]));
    }
    let layouts = layouts();
    let packed =
        run(layouts.path(), &["pack", "--demand", "1g.10gb=40,3g.40gb=6", "--pool", "serve", "--output", "json"]);
    assert_eq!(is_as_published("pack.schema.json", &packed.out)["pool"], "serve");
}

#[test]
fn place_tells_where_a_gang_goes_or_why_it_does_not() {
    let directory = declared();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    let Answer { code, out, err } = run(&["place", "--gpus", "16", "--together", "leaf", "--pool", "train"]);
    assert!(code == 0 && out.contains("16 GPUs fit now: 2 nodes of pool train"), "{out}{err}");
    let Answer { code, out, err } = run(&["place", "--gpus", "64", "--together", "leaf", "--required"]);
    assert!(code == 3 && out.contains("They never will: without any work the largest has"), "{out}{err}");
    let Answer { code, err, .. } = run(&["place", "--gpus", "8", "--together", "lef"]);
    assert!(code == 1 && err.contains("did you mean `leaf`?"), "{err}");
    let Answer { code, err, .. } = run(&["place", "--gpus", "8", "--output", "svg"]);
    assert!(code == 1 && err.contains("has no output `svg`"), "{err}");
}

#[test]
fn the_map_has_a_cell_for_every_node_and_reads_without_colour() {
    let directory = declared();
    for format in ["svg", "html"] {
        let Answer { out, err, .. } = run(directory.path(), &["place", "--output", format]);
        for node in 1..=12 {
            assert!(out.contains(&format!("<title>gpu-{node:02}: serving, pool ")), "{format} gpu-{node:02}: {err}");
        }
        // A letter for each pool, in its cells and in the legend; a style for dark readers.
        assert_eq!(out.matches(">A</text>").count(), 1 + 4, "{format}");
        assert_eq!(out.matches(">B</text>").count(), 1 + 8, "{format}");
        assert!(out.contains("prefers-color-scheme:dark") && out.matches("<g").count() == out.matches("</g>").count());
    }
}

/// Two pools of two nodes each that were moved to other racks: each has one node on each leaf now.
fn mixed() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let pool = |name: &str| {
        format!(
            "---\napiVersion: tidewright.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  \
             instanceType: hgx-h100\n  nodes: 2\n  capacity: [{{existing: {{labels: {{example.com/gpu: h100}}}}}}]\n  \
             placement: {{together: leaf}}\n"
        )
    };
    let fleet = "apiVersion: tidewright.dev/v1alpha1\nkind: Fleet\nmetadata: {name: own}\nspec:\n  timeZone: UTC\n  cloud: \
                 {none: {}}\n  kubernetes: {sim: {}}\n  hardware: [{name: hgx-h100, gpu: h100-sxm, gpus: 8}]\n  limits: \
                 {nodesRemovedPerHour: 64, desiredShrinkPercent: 100}\n  fabric:\n    levels: [{name: spine}, {name: \
                 leaf}]\n    declared: {file: fabric.csv}\n";
    write("fleet.yaml", &format!("{fleet}{}{}", pool("a"), pool("b")));
    write("fabric.csv", "node,spine,leaf\ng1,s,l1\ng2,s,l1\ng3,s,l2\ng4,s,l2\n");
    assert_eq!(run(directory.path(), &["apply", "--until-converged", "--yes"]).code, 0);
    write("fabric.csv", "node,spine,leaf\ng1,s,l1\ng2,s,l2\ng3,s,l1\ng4,s,l2\n");
    directory
}

#[test]
fn a_saved_plan_of_an_exchange_is_finished_with_its_own_file() {
    let directory = mixed();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    assert_eq!(run(&["plan", "--out", "p.json"]).code, 2);
    let mut last = run(&["apply", ".", "p.json"]);
    for _ in 0..6 {
        if run(&["plan"]).code == 0 {
            return;
        }
        last = run(&["apply", ".", "p.json"]);
        assert_ne!(last.code, 1, "{}{}", last.out, last.err);
    }
    panic!("{}{}", last.out, last.err);
}

#[test]
fn the_map_of_a_plan_and_place_tell_what_changes() {
    let directory = mixed();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    for arguments in [["plan", "--output", "svg"], ["plan", "--output", "html"], ["place", "--output", "html"]] {
        let Answer { out, err, .. } = run(&arguments);
        // One of each in its cell, and one of them in the legend.
        let goes = out.matches(">A→B</text>").count() + out.matches(">B→A</text>").count();
        assert_eq!(goes, 3, "{out}{err}");
        assert!(out.contains("serving, pool a, goes to b"), "{out}");
        assert_eq!(out.contains("was: l1 ×1 and l2 ×1; crossings cost 4"), arguments[2] == "html", "{out}");
    }
    let Answer { code, out, .. } = run(&["place"]);
    assert!(code == 2 && out.contains("was: l1 ×1 and l2 ×1; crossings cost 4"), "{out}");
    assert!(out.contains("Moves that pay for themselves"), "{out}");
}

/// Two reservations that stand on two leaves, and these pools, which may use both.
fn reserved(pools: &[&str]) -> String {
    let mut text =
        "apiVersion: tidewright.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n  timeZone: UTC\n  \
                    cloud: {sim: {}}\n  kubernetes: {sim: {}}\n  limits: {hourlyUsd: 9000, nodesRemovedPerHour: 64, \
                    desiredShrinkPercent: 100}\n  fabric:\n    levels:\n"
            .to_string();
    for (number, level) in (1..).zip(["spine", "block", "leaf"]) {
        text += &format!("      - {{name: {level}, nodeLabel: topology.k8s.aws/network-node-layer-{number}}}\n");
    }
    for (name, nodes) in [("first", 20), ("second", 12)] {
        text += &format!(
            "---\napiVersion: tidewright.dev/v1alpha1\nkind: Reservation\nmetadata: {{name: {name}}}\nspec: \
             {{instanceType: p5.48xlarge, zone: us-west-2a, nodes: {nodes}, onDemand: {{end: never, match: targeted}}}}\n"
        );
    }
    for name in pools {
        text += &format!(
            "---\napiVersion: tidewright.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  \
             instanceType: p5.48xlarge\n  nodes: 12\n  capacity: [{{reservation: first}}, {{reservation: second}}]\n  \
             placement: {{together: leaf}}\n"
        );
    }
    text
}

#[test]
fn a_cloud_that_tells_no_hosts_is_planned_by_where_its_reservations_stand() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("fleet.yaml", &reserved(&[]));
    assert_eq!(run(&["apply", "--until-converged", "--yes"]).code, 0);
    write("fleet.yaml", &reserved(&["a", "b"]));
    run(&["plan", "--save-input", "in.json"]);
    let text = std::fs::read_to_string(directory.path().join("in.json")).unwrap();
    let mut input: Value = serde_json::from_str(&text).unwrap();
    input["input"]["observed"]["cloud"]["hosts"] = serde_json::json!({});
    write("in.json", &input.to_string());
    let told = run(&["replay", "in.json"]).out;
    assert_eq!(told.matches("12 nodes, all on one leaf").count(), 2, "{told}");
    assert!(told.contains("next best") && !told.contains("where it likes"), "{told}");
    assert!(told.contains("the hosts are the cloud's choice"), "{told}");
}

/// The demo cluster, whose pool serve is cut.
fn layouts() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters/demo")).unwrap() {
        let file = file.unwrap();
        if file.path().extension().is_some_and(|ending| ending == "yaml") {
            std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
        }
    }
    directory
}

#[test]
fn pack_writes_a_layout_that_the_language_takes() {
    let directory = layouts();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    let Answer { code, out, err } = run(&["pack", "--demand", "1g.10gb=40,3g.40gb=6", "--pool", "serve"]);
    assert!(code == 0 && out.contains("kind: GpuLayout") && err.contains("layout: serve-slices"), "{out}{err}");
    std::fs::write(directory.path().join("packed.yaml"), &out).unwrap();
    let Answer { code, err, .. } = run(&["validate"]);
    assert_eq!(code, 0, "{err}");
    let Answer { code, err, .. } = run(&["pack", "--demand", "3g.40gb=500", "--pool", "serve"]);
    assert!(code == 3 && err.contains("nodes would be enough"), "{err}");
    for (demand, pool, says) in [
        ("3g.41gb=1", "serve", "did you mean `3g.40gb`?"),
        ("1g.10gb", "serve", "write 1g.10gb=40"),
        ("1g.10gb=4", "srve", "did you mean `serve`?"),
    ] {
        let Answer { code, err, .. } = run(&["pack", "--demand", demand, "--pool", pool]);
        assert!(code == 1 && err.contains(says), "{err}");
    }
}
