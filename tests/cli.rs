//! The command line as a person meets it: help, misspelt words, exit codes, streams, colours, formats.

use std::path::Path;
use std::process::Stdio;

use assert_cmd::Command;
use serde_json::Value;

use crate::fleets::{INIT, NOW, document};

fn tidewright() -> Command {
    let mut command = Command::cargo_bin("tidewright").unwrap();
    // What the machine that runs the tests wishes for is no part of them.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

/// What a run answered.
struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn answer(command: &mut Command) -> Answer {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn run(arguments: &[&str]) -> Answer {
    answer(tidewright().args(arguments))
}

fn in_directory(directory: &Path, arguments: &[&str]) -> Answer {
    answer(tidewright().current_dir(directory).args(arguments))
}

/// A directory with the starting fleet.
fn right() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in INIT {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// A directory with one error and one warning, each at a place of its own.
fn wrong() -> tempfile::TempDir {
    let directory = right();
    let tide = INIT[3].1.replace("from: \"20:00\"", "from: 20:00").replace("nodes: 2,", "nodes: 2, node: 3,");
    std::fs::write(directory.path().join("tide.yaml"), tide).unwrap();
    directory
}

fn verbs() -> Vec<String> {
    let help = run(&["--help"]).out;
    let (_, commands) = help.split_once("\nCommands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let verbs: Vec<String> = commands.lines().map(|line| line.split_whitespace().next().unwrap().into()).collect();
    assert!(verbs.len() >= 5 && verbs.contains(&"validate".into()), "{verbs:?}");
    verbs
}

/// The long flags in a help text.
fn flags(help: &str) -> Vec<String> {
    let words = help.lines().map(str::trim_start).filter(|line| line.starts_with('-')).flat_map(str::split_whitespace);
    words.filter(|word| word.starts_with("--")).map(String::from).collect()
}

#[test]
fn the_help_of_every_verb_fits_a_screen_and_has_examples() {
    let all = verbs();
    let helps = all.iter().map(|verb| vec![verb.as_str(), "--help"]).chain([vec!["--help"]]);
    for arguments in helps {
        let Answer { code, out, err } = run(&arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        assert!(out.lines().count() <= 40, "{arguments:?} is {} lines long", out.lines().count());
        let widest = out.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{arguments:?} is {widest} columns wide");
        assert!(out.contains("\nExamples:\n  tidewright ") && out.contains("Usage: tidewright"), "{out}");
        assert_eq!(run(&[&arguments[..arguments.len() - 1], &["-h"]].concat()).out, out, "short and long help are one");
        for format in ["human", "json"] {
            assert!(out.contains(format), "{arguments:?} does not name the output {format}");
        }
    }
}

#[test]
fn every_verb_and_its_examples_are_in_the_help() {
    for verb in verbs() {
        let help = run(&[&verb, "--help"]).out;
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        let examples: Vec<&str> = examples.lines().take_while(|line| line.starts_with("  tidewright")).collect();
        assert!(examples.iter().any(|line| line.contains(&format!("tidewright {verb}"))), "{verb}: {examples:?}");
        for line in examples {
            // A verb of its own, such as `sim advance`, has flags of its own.
            let inner = line.split_whitespace().nth(2).filter(|word| !word.starts_with('-'));
            let inner = inner.map_or(String::new(), |inner| run(&[&verb, inner, "--help"]).out);
            let known: Vec<String> = flags(&help).into_iter().chain(flags(&inner)).collect();
            for word in line.split_whitespace().filter(|word| word.starts_with("--")) {
                assert!(known.iter().any(|flag| flag == word), "{verb}: the example has {word}, the help {known:?}");
            }
        }
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let Answer { code, out, err } = run(&["--version"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, concat!("tidewright ", env!("CARGO_PKG_VERSION"), "\n"), ""));
    assert_eq!(run(&["-V"]).out, out);
}

#[test]
fn a_misspelt_verb_is_answered_with_the_near_one() {
    // Two letters of three are near to nothing.
    for verb in verbs().into_iter().filter(|verb| verb.len() > 3) {
        let misspelt = format!("{}{}", &verb[..1], &verb[2..]);
        let Answer { code, out, err } = run(&[&misspelt]);
        assert_eq!((code, out.as_str()), (1, ""), "{misspelt}");
        assert!(err.contains(&format!("'{verb}'")), "{misspelt}: {err}");
    }
    let Answer { code, out, err } = run(&[]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("Usage: tidewright") && err.contains("Examples:"), "{err}");
}

#[test]
fn a_misspelt_flag_is_answered_with_the_near_one() {
    for verb in verbs() {
        for flag in flags(&run(&[&verb, "--help"]).out).into_iter().filter(|flag| flag.len() > 5) {
            let misspelt = format!("{}{}", &flag[..4], &flag[5..]);
            let Answer { code, out, err } = run(&[&verb, &misspelt]);
            assert_eq!((code, out.as_str()), (1, ""), "{verb} {misspelt}");
            assert!(err.contains(&format!("'{flag}'")), "{verb} {misspelt}: {err}");
        }
    }
    let Answer { code, err, .. } = run(&["validate", "--color", "alwys"]);
    assert!(code == 1 && err.contains("always"), "{err}");
    let Answer { code, err, .. } = run(&["validate", "one", "two"]);
    assert!(code == 1 && err.contains("two"), "{err}");
    let Answer { code, err, .. } = run(&["validate", "--at", "noon"]);
    assert!(code == 1 && err.contains("2026-11-01T19:55"), "{err}");
}

#[test]
fn a_format_that_a_verb_does_not_have_is_refused_with_those_it_has() {
    let directory = right();
    let path = directory.path().to_str().unwrap();
    for (verb, formats) in [("validate", 4), ("tide", 2), ("hardware", 2), ("init", 1), ("schema", 1)] {
        let mut has = 0;
        for format in ["human", "json", "github", "sarif"] {
            let fresh = tempfile::tempdir().unwrap();
            let target = match verb {
                "hardware" => "p5.48xlarge",
                "init" | "schema" => fresh.path().to_str().unwrap(),
                _ => path,
            };
            let Answer { code, out, err } = run(&[verb, target, "--output", format]);
            let refused = err.contains("has no output");
            has += usize::from(!refused);
            assert_eq!(refused, code == 1, "{verb} {format}: {err}");
            assert!(!refused || (out.is_empty() && err.contains("human") && err.contains(verb)), "{err}");
        }
        assert_eq!(has, formats, "{verb}");
    }
    assert!(run(&["validate", "--output", "jsn"]).err.contains("'json'"));
}

#[test]
fn results_go_to_stdout_and_talk_to_stderr() {
    let (right, wrong) = (right(), wrong());
    let Answer { code, out, err } = in_directory(right.path(), &["validate", "--at", NOW]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.starts_with("my-fleet is valid: 10 documents"), "{err}");
    let Answer { code, out, err } = in_directory(wrong.path(), &["validate", "--at", NOW]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.contains("error[TW103]") && out.contains("warning[TW007]"), "{out}");
    assert!(
        out.ends_with("1 error and 1 warning. For the story of a code: tidewright validate --explain TW103\n"),
        "{out}"
    );
    for format in ["json", "sarif"] {
        let Answer { code, out, err } = in_directory(wrong.path(), &["validate", "--output", format]);
        assert_eq!((code, err.as_str()), (1, ""), "{format}");
        assert!(serde_json::from_str::<Value>(&out).is_ok(), "{format}: {out}");
        let valid = in_directory(right.path(), &["validate", "--output", format, "--at", NOW]);
        assert!(valid.code == 0 && serde_json::from_str::<Value>(&valid.out).is_ok(), "{format}");
    }
    let Answer { code, out, .. } = run(&["hardware", "h100-sxm"]);
    assert!(code == 0 && out.contains("H100"), "{out}");
    let Answer { code, out, err } = run(&["hardware", "h100-smx"]);
    assert!(code == 1 && out.is_empty() && err.contains("did you mean `h100-sxm`?"), "{err}");
}

#[test]
fn a_warning_alone_is_no_failure() {
    let directory = right();
    let tide = INIT[3].1.replace("from: \"20:00\"", "from: 20:00");
    std::fs::write(directory.path().join("tide.yaml"), tide).unwrap();
    let Answer { code, out, err } = in_directory(directory.path(), &["validate", "--at", NOW]);
    assert!(code == 0 && out.contains("warning[TW007]") && err.contains("is valid"), "{out}{err}");
}

#[test]
fn colours_are_there_when_they_are_wanted() {
    let directory = wrong();
    let coloured = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = tidewright();
        command.current_dir(directory.path()).arg("validate").args(arguments).envs(environment.iter().copied());
        answer(&mut command).out.contains('\u{1b}')
    };
    // A pipe is no terminal.
    assert!(!coloured(&[], &[]));
    assert!(!coloured(&["--color", "auto"], &[]));
    assert!(coloured(&["--color", "always"], &[]));
    assert!(!coloured(&["--color", "never"], &[]));
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[], &[("NO_COLOR", "1")]));
    // What is asked for on the command line is closer than the environment.
    assert!(coloured(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(!coloured(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    for format in ["json", "github", "sarif"] {
        assert!(!coloured(&["--output", format, "--color", "always"], &[("CLICOLOR_FORCE", "1")]), "{format}");
    }
}

fn published(schema: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/output").join(schema);
    jsonschema::draft7::new(&serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()).unwrap()
}

#[test]
fn json_matches_its_published_schema() {
    let validator = published("diagnostics.schema.json");
    for directory in [right(), wrong(), tempfile::tempdir().unwrap()] {
        let Answer { out, .. } = in_directory(directory.path(), &["validate", "--output", "json"]);
        let report: Value = serde_json::from_str(&out).unwrap();
        let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{out}");
        assert_eq!(report["format_version"], "1.0");
    }
    let report: Value =
        serde_json::from_str(&in_directory(wrong().path(), &["validate", "--output", "json"]).out).unwrap();
    assert_eq!((&report["errors"], &report["warnings"]), (&1.into(), &1.into()));
    let label = &report["diagnostics"][1]["labels"][0];
    assert_eq!((&label["path"], &label["line"]), (&"tide.yaml".into(), &11.into()), "{report:#}");
}

#[test]
fn sarif_has_what_code_scanning_requires() {
    let log: Value =
        serde_json::from_str(&in_directory(wrong().path(), &["validate", "--output", "sarif"]).out).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "Tidewright");
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(result["ruleId"].as_str().unwrap().starts_with("TW"));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "tide.yaml");
        assert!(place["region"]["startLine"].as_u64().unwrap() > 1);
        let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
        for field in ["shortDescription", "fullDescription", "help"] {
            assert!(!rule[field]["text"].as_str().unwrap().is_empty(), "{field}");
        }
    }
}

#[test]
fn github_lines_are_commands_of_a_workflow() {
    let Answer { code, out, .. } = in_directory(wrong().path(), &["validate", "--output", "github"]);
    assert_eq!((code, out.lines().count()), (1, 2), "{out}");
    for line in out.lines() {
        let (command, rest) = line.strip_prefix("::").unwrap().split_once(' ').unwrap();
        assert!(["error", "warning"].contains(&command), "{line}");
        let (properties, message) = rest.split_once("::").unwrap();
        let property = |name: &str| properties.split(',').find_map(|p| p.strip_prefix(&format!("{name}=")));
        assert_eq!(property("file"), Some("tide.yaml"), "{line}");
        assert!(property("line").unwrap().parse::<u32>().unwrap() > 1);
        assert!(property("title").unwrap().starts_with("TW"), "{line}");
        assert!(!message.is_empty() && !message.contains(['\n', '\r']), "{line}");
    }
}

#[test]
fn the_story_of_a_code_is_told_in_any_case() {
    let Answer { code, out, err } = run(&["validate", "--explain", "TW303"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in ["TW303: ", "\nWrong:\n", "\nRight:\n", "slices"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(run(&["validate", "--explain", "tw303"]).out, out);
    for (misspelt, near) in [("TW33", "TW303"), ("T303", "TW303"), ("TW3o3", "TW303")] {
        let Answer { code, out, err } = run(&["validate", "--explain", misspelt]);
        assert_eq!((code, out.as_str()), (1, ""), "{misspelt}");
        assert!(err.contains("did you mean TW") && err.contains(misspelt), "{misspelt} is near {near}: {err}");
    }
    let Answer { code, err, .. } = run(&["validate", "--explain", "nonsense"]);
    assert!(code == 1 && err.contains("nonsense"), "{err}");
}

#[test]
fn init_writes_a_fleet_that_validates_and_overwrites_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let Answer { code, out, err } = in_directory(parent.path(), &["init", "new/fleet"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().all(|line| line.starts_with("new/fleet/")) && out.lines().count() == INIT.len() + 1, "{out}");
    let directory = parent.path().join("new/fleet");
    for (name, text) in INIT {
        assert_eq!(std::fs::read_to_string(directory.join(name)).unwrap(), text);
    }
    let Answer { code, out, err } = in_directory(parent.path(), &["validate", "new/fleet", "--at", NOW]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    // Every file names a schema that is there.
    for (name, text) in INIT {
        let line = text.lines().next().unwrap();
        let path = line.strip_prefix("# yaml-language-server: $schema=").unwrap_or_else(|| panic!("{name}: {line}"));
        assert!(directory.join(path).is_file(), "{name}: {path}");
    }

    let changed = directory.join("fleet.yaml");
    std::fs::write(&changed, "mine: 1\n").unwrap();
    std::fs::remove_file(directory.join("tide.yaml")).unwrap();
    let Answer { code, out, err } = in_directory(parent.path(), &["init", "new/fleet"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("fleet.yaml") && err.contains("not empty"), "{err}");
    assert_eq!(std::fs::read_to_string(&changed).unwrap(), "mine: 1\n");
    assert!(!directory.join("tide.yaml").exists(), "half a fleet is worse than none");

    let empty = tempfile::tempdir().unwrap();
    let Answer { code, out, .. } = in_directory(empty.path(), &["init"]);
    assert!(code == 0 && out.lines().next().is_some_and(|line| line.ends_with("fleet.yaml")), "{out}");
    let Answer { code, err, .. } = in_directory(empty.path(), &["init", "fleet.yaml"]);
    assert!(code == 1 && err.contains("fleet.yaml"), "{err}");
}

#[test]
fn the_schemas_of_this_repository_are_up_to_date() {
    let Answer { code, out, err } = in_directory(Path::new(env!("CARGO_MANIFEST_DIR")), &["schema", "--check"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", "The schemas are up to date.\n"));
    let nowhere = tempfile::tempdir().unwrap();
    let Answer { code, out, err } = in_directory(nowhere.path(), &["schema", "--check"]);
    assert!(code == 1 && out.is_empty() && err.contains("tidewright schema"), "{err}");
    assert!(!nowhere.path().join("schemas").exists(), "a check writes nothing");
}

#[test]
fn the_tide_is_told_to_people_and_programs() {
    let directory = right();
    let Answer { code, out, err } = in_directory(directory.path(), &["tide", "--at", NOW, "--for", "3d"]);
    assert!(code == 0 && out.contains("nightly"), "{out}{err}");
    let Answer { code, out, .. } =
        in_directory(directory.path(), &["tide", "--at", NOW, "--for", "3d", "--output", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let errors: Vec<String> = published("tide.schema.json").iter_errors(&report).map(|e| e.to_string()).collect();
    assert_eq!((code, errors), (0, Vec::new()), "{out}");
    for arguments in [["--for", "400d"], ["--for", "soon"], ["--at", "noon"]] {
        let Answer { code, out, err } = in_directory(directory.path(), &[&["tide"], &arguments[..]].concat());
        assert!(code == 1 && out.is_empty() && err.starts_with("error"), "{arguments:?}: {err}");
    }
    // What a fleet that is wrong should be, nobody can say.
    let Answer { code, out, err } = in_directory(wrong().path(), &["tide"]);
    assert!(code == 1 && format!("{out}{err}").contains("TW103"), "{out}{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let directory = wrong();
    let path = directory.path().to_str().unwrap();
    for arguments in [
        vec!["hardware"],
        vec!["hardware", "--output", "json"],
        vec!["validate", path],
        vec!["validate", path, "--output", "sarif"],
        vec!["validate", "--explain", "TW303"],
        vec!["--help"],
        vec!["tide", path],
    ] {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("tidewright"))
            .args(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {:?}", output.status);
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_told() {
    let directory = right();
    let says = |path: &str, part: &str| {
        let Answer { code, out, err } = in_directory(directory.path(), &["validate", path]);
        assert_eq!((code, err.as_str()), (1, ""), "{path}");
        assert!(out.contains("error[TW001]") && out.contains(part), "{path}: {out}");
        assert!(out.contains("help:"), "{out}");
    };
    says("gone", "`gone`");
    says("fleet.yaml", "is a file");
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    says("empty", "no YAML file");
}

#[cfg(unix)]
#[test]
fn a_directory_without_permission_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let directory = right();
    let closed = directory.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::write(closed.join("a.yaml"), document("PreemptionTier", "t", "{rank: 7}")).unwrap();
    let set = |mode: u32| std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o000);
    // Somebody who may read everything, such as root, cannot be shown what others see.
    if std::fs::read_dir(&closed).is_err() {
        let Answer { code, out, .. } = in_directory(directory.path(), &["validate"]);
        assert!(code == 1 && out.contains("closed"), "{out}");
    }
    set(0o755);
}

#[test]
fn paths_are_shown_as_a_person_would_type_them() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("fleet");
    std::fs::create_dir_all(directory.join("sub")).unwrap();
    for (name, text) in INIT {
        std::fs::write(directory.join(name), text).unwrap();
    }
    std::fs::write(directory.join("sub/bad.yaml"), document("PreemptionTier", "t", "{rank: x}")).unwrap();
    let place = |from: &Path, path: &str| {
        let Answer { out, .. } = in_directory(from, &["validate", path]);
        let line =
            out.lines().find_map(|line| line.trim_start().strip_prefix("--> ")).unwrap_or_else(|| panic!("{out}"));
        line.to_string()
    };
    assert_eq!(place(&directory, "."), "sub/bad.yaml:4:14");
    assert_eq!(place(&directory, "./"), "sub/bad.yaml:4:14");
    assert_eq!(place(parent.path(), "fleet"), "fleet/sub/bad.yaml:4:14");
    assert_eq!(place(parent.path(), "./fleet"), "fleet/sub/bad.yaml:4:14");
    assert_eq!(place(parent.path(), "fleet/"), "fleet/sub/bad.yaml:4:14");
    assert_eq!(place(&directory.join("sub"), ".."), "../sub/bad.yaml:4:14");
    let absolute = directory.to_str().unwrap();
    assert_eq!(place(parent.path(), absolute), format!("{absolute}/sub/bad.yaml:4:14"));
}
