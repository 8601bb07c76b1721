//! Every example and cluster is valid, now and in a year; what their comments and the README claim is true.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;
use tidewright::load;

/// The day these fleets were written, a season later, and a year later.
pub const INSTANTS: [&str; 3] = ["2026-11-16T12:00:00Z", "2027-02-16T12:00:00Z", "2027-11-16T12:00:00Z"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directories below `examples` and `clusters`.
fn directories() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = ["examples", "clusters"]
        .iter()
        .flat_map(|top| fs::read_dir(root().join(top)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    all.sort();
    assert!(all.len() > 20, "only {} directories", all.len());
    all
}

/// Those that hold a Fleet; the others are there to be included.
pub fn fleets() -> Vec<PathBuf> {
    directories().into_iter().filter(|directory| text_of(directory).contains("\nkind: Fleet\n")).collect()
}

fn yaml_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(yaml_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn text_of(directory: &Path) -> String {
    yaml_files(directory).iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The codes that a directory gives at an instant.
fn codes(directory: &Path, at: &str) -> Vec<String> {
    let checked = load::check(directory, at.parse().unwrap());
    let codes: Vec<String> = checked.diagnostics.iter().map(|found| found.code.to_string()).collect();
    let wrong = checked.diagnostics.iter().any(tidewright::diag::Diagnostic::is_error);
    assert_eq!(checked.fleet.is_none(), wrong, "{}: a fleet is there exactly if nothing is wrong", directory.display());
    codes
}

/// A copy of a directory in which something is changed. It stands in a repository of its own.
fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(to.path().join(".git")).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        // The simulator's state, where somebody ran the fleet.
        if path.is_dir() {
            continue;
        }
        fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

#[test]
fn every_fleet_is_valid_today_and_in_a_year() {
    for directory in fleets() {
        // A fleet that is there to show a warning says so in a comment.
        let text = text_of(&directory);
        let expected: Vec<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("# expected warning: ")).collect();
        for at in INSTANTS {
            assert_eq!(codes(&directory, at), expected, "{} at {at}", directory.display());
        }
    }
}

#[test]
fn a_directory_without_a_fleet_is_included_by_one() {
    let fleets = fleets();
    for directory in directories().iter().filter(|directory| !fleets.contains(directory)) {
        let named = format!("../{}]", directory.file_name().unwrap().display());
        let by = |fleet: &&PathBuf| fleet.parent() == directory.parent() && text_of(fleet).contains(&named);
        assert!(fleets.iter().find(by).is_some(), "{} is no fleet, and no fleet includes it", directory.display());
    }
}

/// What the comments say is the edge: one step further and validation says no.
#[test]
fn the_numbers_in_the_examples_are_the_largest_that_fit() {
    let cases: &[(&str, &str, &str, &str, &[&str])] = &[
        ("examples/burst-at-night", "burst.yaml", "borrow: {gpus: 48}", "borrow: {gpus: 49}", &["TW504"]),
        (
            "examples/burst-at-night",
            "burst.yaml",
            "guarantee: {gpus: 16}",
            "guarantee: {gpus: 17}",
            &["TW501", "TW504"],
        ),
        ("examples/burst-at-night", "fleet.yaml", "hourlyUsd: 180", "hourlyUsd: 175", &["TW410"]),
        ("examples/capacity-block", "pretrain.yaml", "borrow: {gpus: 256}", "borrow: {gpus: 257}", &["TW504"]),
        (
            "examples/capacity-block",
            "pretrain.yaml",
            "guarantee: {gpus: 64}",
            "guarantee: {gpus: 320}",
            &["TW501", "TW504"],
        ),
        ("examples/capacity-block", "reservations.yaml", "upToUsd: 400000", "upToUsd: 420001", &["TW408"]),
        ("examples/declared-fabric", "fabric.csv", "node,spine,leaf", "node,leaf,spine", &["TW309"]),
        ("examples/letting-go", "the-end.yaml", "nodes: 0", "nodes: 4", &["TW412"]),
        ("examples/mig-slices", "layout.yaml", "keepReady: {3g.40gb: 16}", "keepReady: {3g.40gb: 17}", &["TW306"]),
        ("examples/mig-slices", "serving.yaml", "1g.10gb: 60", "1g.10gb: 65", &["TW501"]),
        ("examples/nightly-tide", "tide.yaml", "lead: 45m", "lead: 17m", &["TW602"]),
        ("examples/nightly-tide", "tide.yaml", "lead: 45m", "lead: 18m", &[]),
        ("examples/one-pool", "fleet.yaml", "hourlyUsd: 10", "hourlyUsd: 9", &["TW410"]),
        ("examples/overlapping-tides", "tides.yaml", "precedence: 1", "precedence: 0", &["TW603"]),
        ("examples/own-hardware", "pools.yaml", "[reboot, quarantine]", "[reboot, replace]", &["TW703"]),
        ("examples/rename", "renamed.yaml", "pool: train", "pool: gpu", &["TW203"]),
        ("examples/scheduler-profiles", "schedulers.yaml", "pools: [serve]", "pools: [train]", &["TW701"]),
        ("examples/scheduler-profiles", "pools.yaml", "nodes: 16", "nodes: 17", &["TW401"]),
        ("examples/spot", "pool.yaml", "deadline: 90s", "deadline: 121s", &["TW413"]),
        // One slip gives one answer, also where others were counting on the name.
        ("examples/two-teams-borrowing", "teams.yaml", "pool: train", "pool: trian", &["TW203"]),
        ("examples/two-teams-borrowing", "teams.yaml", "borrow: {gpus: 24}", "borrow: {gpus: 25}", &["TW504"]),
        ("clusters/demo", "serving.yaml", "keepReady: {3g.40gb: 40}", "keepReady: {3g.40gb: 41}", &["TW306"]),
        ("clusters/demo", "teams.yaml", "guarantee: {gpus: 8}", "guarantee: {gpus: 9}", &["TW501"]),
        ("clusters/demo", "tides.yaml", "lead: 45m", "lead: 17m", &["TW602"]),
        ("clusters/eks-adopted", "training.yaml", "[us-east-2a, us-east-2b]", "[us-east-2a]", &["TW404"]),
        ("clusters/eks-adopted", "fleet.yaml", "eks: {clusterName: ml-prod}", "", &["TW414"]),
        ("clusters/own-hardware", "pools.yaml", "4g.40gb: 1, 1g.10gb: 3", "4g.40gb: 1, 1g.10gb: 4", &["TW303"]),
        ("clusters/own-hardware", "teams.yaml", "guarantee: {gpus: 48}", "guarantee: {gpus: 49}", &["TW501"]),
    ];
    let mut unlike = Vec::new();
    for (directory, file, from, to, expected) in cases {
        let copy = copy(&root().join(directory));
        let path = copy.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{directory}/{file} says no longer `{from}`");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let mut found = codes(copy.path(), INSTANTS[0]);
        found.sort();
        if found != *expected {
            unlike.push(format!("{directory}/{file} with `{to}` gives {found:?}, not {expected:?}"));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}

#[test]
fn an_old_name_is_answered_with_the_new_one() {
    let copy = copy(&root().join("examples/rename"));
    let path = copy.path().join("renamed.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("pool: train", "pool: gpu", 1)).unwrap();
    let checked = load::check(copy.path(), INSTANTS[0].parse().unwrap());
    assert_eq!(checked.diagnostics[0].hint.as_deref(), Some("it was renamed: write `train`"));
}

#[test]
fn every_file_names_a_schema_that_is_there_and_fits_its_documents() {
    let init = init();
    let any = schema(&init.path().join(".tidewright/any.schema.json"));
    for file in yaml_files(init.path()) {
        judge(&file, &[&any]);
    }
    let directory = root().join("schemas/json");
    let any = schema(&directory.join("any.schema.json"));
    for file in directories().iter().flat_map(|directory| yaml_files(directory)) {
        judge(&file, &[&schema(&schema_line(&file)), &any]);
    }
}

fn schema(path: &Path) -> jsonschema::Validator {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    jsonschema::draft7::new(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// The schema that every document of a file names in its first line: editors look for it in each.
fn schema_line(file: &Path) -> PathBuf {
    let text = fs::read_to_string(file).unwrap();
    let mut named: Vec<&str> = text
        .split("\n---\n")
        .map(|document| {
            let line = document.lines().next().unwrap_or_default();
            let named = line.strip_prefix("# yaml-language-server: $schema=");
            named.unwrap_or_else(|| panic!("{}: a document that names no schema: {line}", file.display()))
        })
        .collect();
    named.dedup();
    assert_eq!(named.len(), 1, "{}: the documents of one file name one schema", file.display());
    file.parent().unwrap().join(named[0])
}

fn judge(file: &Path, schemas: &[&jsonschema::Validator]) {
    assert!(schema_line(file).is_file(), "{}: its schema is not there", file.display());
    let documents: Vec<Json> = serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap();
    assert!(!documents.is_empty(), "{}", file.display());
    for document in documents {
        for schema in schemas {
            let errors: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{}: {document}: {errors:?}", file.display());
            // A schema that allows everything would pass the rest.
            let mut spoilt = document.clone();
            spoilt["spec"]["noSuchField"] = Json::from(1);
            assert!(!schema.is_valid(&spoilt), "{}: allows an unknown field", file.display());
        }
    }
}

fn program() -> assert_cmd::Command {
    assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("tidewright"))
}

fn init() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    program().arg("init").arg(directory.path()).assert().success();
    directory
}

#[test]
fn what_init_writes_is_valid_without_a_warning() {
    let directory = init();
    for at in INSTANTS {
        let run = program().arg("validate").arg(directory.path()).args(["--at", at]).assert().success();
        assert_eq!(String::from_utf8_lossy(&run.get_output().stdout), "");
    }
}

/// A fenced block of the README, with the comment that stands before it.
struct Block {
    marks: String,
    language: String,
    text: String,
}

fn readme() -> Vec<Block> {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let marks = if before.starts_with("<!--") { before.into() } else { String::new() };
            blocks.push(Block { marks, language: language.into(), text: inside.join("\n") });
        }
        before = line;
    }
    blocks
}

/// Runs shell commands with the program in its path, as a person who installed it would.
fn shell(commands: &str, directory: &Path) -> (Option<i32>, String) {
    let program = assert_cmd::cargo::cargo_bin!("tidewright");
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let commands = commands.replace("cargo demo ", "tidewright ");
    let output = Command::new("bash")
        .args(["-e", "-u", "-o", "pipefail", "-c", &format!("exec 2>&1\n{commands}")])
        .current_dir(directory)
        .env("PATH", path)
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a person who cloned the repository sees of the demo, and may change.
fn checkout() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let demo = directory.path().join("clusters/demo");
    fs::create_dir_all(&demo).unwrap();
    for entry in fs::read_dir(root().join("clusters/demo")).unwrap() {
        let file = entry.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), demo.join(file.file_name())).unwrap();
        }
    }
    directory
}

/// Blocks of the README that are marked with where to run them are run, one after the other. Each line of a `sh` block
/// must succeed, and a plan find changes; in a `console` block the program must say what stands there, to the letter.
#[test]
fn the_readme_is_true() {
    let empty = tempfile::tempdir().unwrap();
    let checkout = checkout();
    let mut run = BTreeSet::new();
    for block in readme() {
        let Some(mark) = block.marks.strip_prefix("<!-- in ").and_then(|mark| mark.strip_suffix(" -->")) else {
            assert!(!matches!(block.language.as_str(), "sh" | "console"), "not marked: {}", block.text);
            continue;
        };
        let (place, first) = mark.split_once(", after: ").unwrap_or((mark, "true"));
        let directory = match place {
            "an empty directory" => empty.path().to_path_buf(),
            "a checkout" => checkout.path().to_path_buf(),
            "nothing" => continue,
            below => root().join(below),
        };
        run.insert(format!("{} in {place}", block.language));
        let (code, said) = shell(first, &directory);
        assert_eq!(code, Some(0), "{first}\n{said}");
        if block.language == "sh" {
            for command in block.text.lines() {
                let (code, said) = shell(command, &directory);
                let changes = if command.contains(" plan ") { 2 } else { 0 };
                assert_eq!(code, Some(changes), "{command}\n{said}");
            }
            continue;
        }
        for part in block.text.split("$ ").filter(|part| !part.is_empty()) {
            let (command, expected) = part.split_once('\n').unwrap_or((part, ""));
            let (_, said) = shell(command, &directory);
            assert_eq!(said.trim_end(), expected.trim_end(), "{command}");
        }
    }
    let expected = ["console in an empty directory", "console in tests/readme", "sh in a checkout"];
    assert!(expected.iter().all(|kind| run.contains(*kind)), "{run:?}");
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    let heads = |path: &Path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect()
    };
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"] {
        let document = root().join(name);
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            if !file.starts_with("http") {
                assert!(target.exists(), "{name} links to `{link}`, which is not there");
                assert!(section.is_empty() || heads(&target).contains(&section.into()), "{name}: no section `{link}`");
            }
        }
    }
}

#[test]
fn every_example_is_in_the_list() {
    let list = fs::read_to_string(root().join("examples/README.md")).unwrap();
    for directory in directories().iter().filter(|directory| directory.parent().unwrap().ends_with("examples")) {
        let name = directory.file_name().unwrap().display();
        assert!(list.contains(&format!("[{name}]({name})")), "{name} is not in examples/README.md");
    }
}

/// The address of a heading, as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
