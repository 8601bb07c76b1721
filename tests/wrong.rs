//! Wrong fleets with their expected diagnostics, and the stories of the codes.
//!
//! Every directory of `tests/wrong` is a fleet, named after the code that it must report and what is wrong with it:
//! `TW203-renamed`. Its `expected.txt` is all that a person sees. After a change of words:
//!
//!     UPDATE=1 cargo test --test suite wrong
//!
//! then read the difference as a user would. What git cannot hold (other encodings, huge files, links) is written by
//! the tests themselves into a temporary directory.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tempfile::TempDir;
use tidewright::diag::codes::{self, Code};
use tidewright::diag::{Diagnostic, explain};
use tidewright::load::{self, Checked};
use tidewright::manifest::API_VERSION;
use tidewright::render::diagnostics::human;

/// A Monday noon in UTC: the day is the same in every zone of the cases.
fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn check(directory: &Path) -> Checked {
    load::check(directory, now())
}

/// What a person sees, with paths from the fleet's directory on. Paths are the only thing that differs between
/// machines.
fn shown(directory: &Path, checked: &Checked) -> String {
    let text = human(&checked.sources, &checked.diagnostics, false);
    let directory = directory.display().to_string();
    let beside = directory.rsplit_once('/').map_or("", |(above, _)| above);
    let text = text.replace(&format!("{directory}/"), "").replace(&directory, "DIR");
    let text = text.replace(&format!("{beside}/"), "../");
    text.lines().map(|line| line.trim_end().to_string() + "\n").collect()
}

// The directories of tests/wrong.

struct Case {
    name: String,
    directory: PathBuf,
    /// The code that it must report.
    code: Option<Code>,
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong");
    let mut directories: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    directories.sort();
    let case = |directory: PathBuf| {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let code = name.split('-').next().and_then(Code::from_id);
        Case { name, directory, code }
    };
    directories.into_iter().map(case).collect()
}

#[test]
fn every_wrong_fleet_is_told_what_it_should_be() {
    let mut problems = String::new();
    for case in cases() {
        let checked = check(&case.directory);
        let actual = shown(&case.directory, &checked);
        let file = case.directory.join("expected.txt");
        if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
            fs::write(&file, &actual).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if expected != actual {
            writeln!(problems, "\n== {}: - expected, + actual\n{}", case.name, difference(&expected, &actual)).unwrap();
        }
        if !checked.diagnostics.iter().any(|diagnostic| Some(diagnostic.code) == case.code) {
            writeln!(problems, "\n== {}: its own code is not reported\n{actual}", case.name).unwrap();
        }
        for fault in checked.diagnostics.iter().flat_map(faults) {
            writeln!(problems, "\n== {}: {fault}", case.name).unwrap();
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// What is wrong with how a mistake is told.
fn faults(diagnostic: &Diagnostic) -> Vec<String> {
    let Diagnostic { code, message, hint, labels, .. } = diagnostic;
    let hint = hint.as_deref().unwrap_or_default();
    let mut faults = Vec::new();
    if hint.is_empty() {
        faults.push(format!("{code} has no hint: {message}"));
    }
    let texts = [message.as_str(), hint].into_iter().chain(labels.iter().map(|(_, label)| label.as_str()));
    for text in texts {
        if text.ends_with('.') || text.ends_with('!') {
            faults.push(format!("{code} ends like a sentence: {text}"));
        }
        if text.contains("panicked at") || text.contains("internal error") || text.contains("  ") {
            faults.push(format!("{code} is not in words for a person: {text}"));
        }
        if text.chars().count() > 240 {
            faults.push(format!("{code} is too long to be read: {text}"));
        }
    }
    faults
}

/// The lines that differ: those that both begin or end with are left out.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let head = same(&mut expected.iter().zip(&actual));
    let tail = same(&mut expected[head..].iter().rev().zip(actual[head..].iter().rev()));
    let mut out = String::new();
    for (sign, lines) in [("-", &expected[head..expected.len() - tail]), ("+", &actual[head..actual.len() - tail])] {
        lines.iter().for_each(|line| writeln!(out, "{sign} {line}").unwrap());
    }
    out
}

#[test]
fn a_difference_shows_only_the_lines_that_differ() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\ny\nc\n"), "- b\n+ x\n+ y\n");
    assert_eq!(difference("a\na\n", "a\na\na\n"), "+ a\n");
    assert_eq!(difference("", "a\n"), "+ a\n");
}

#[test]
fn a_fault_of_a_diagnostic_is_found() {
    let good = Diagnostic::error(codes::SYNTAX, "this is wrong").hint("write it right");
    assert_eq!(faults(&good), Vec::<String>::new());
    assert_eq!(faults(&Diagnostic::error(codes::SYNTAX, "this is wrong")).len(), 1);
    assert_eq!(faults(&Diagnostic::error(codes::SYNTAX, "This is wrong.").hint("thread panicked at x")).len(), 2);
}

#[test]
fn every_code_has_a_wrong_fleet() {
    let mut covered: BTreeSet<Code> = cases().into_iter().filter_map(|case| case.code).collect();
    covered.extend(specials().iter().map(|special| special.code));
    let missing: Vec<String> = codes::ALL.iter().filter(|(code, _)| !covered.contains(code)).map(name).collect();
    assert!(missing.is_empty(), "add a directory to tests/wrong for {}", missing.join(", "));
}

fn name((code, title): &(Code, &str)) -> String {
    format!("{code} ({title})")
}

#[test]
fn every_wrong_fleet_is_named_after_its_code() {
    let nameless: Vec<String> = cases()
        .into_iter()
        .filter(|case| case.code.is_none_or(|code| !case.name.starts_with(code.id())))
        .map(|case| case.name)
        .collect();
    assert!(nameless.is_empty(), "these begin with no code: {nameless:?}");
}

// What git cannot hold.

struct Special {
    name: &'static str,
    code: Code,
    /// Is given an empty git repository. The fleet is in its directory `fleet`.
    write: fn(&Path),
    expected: &'static str,
}

const FLEET: &str = "\
apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {name: demo}
spec:
  timeZone: UTC
  cloud: {sim: {}}
  kubernetes: {sim: {}}
";

/// A temporary git repository with a valid fleet in `fleet`, and a directory `outside` beside it.
fn repository() -> (TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let repository = temporary.path().canonicalize().unwrap().join("repository");
    fs::create_dir_all(repository.join(".git")).unwrap();
    write(&repository, "fleet/fleet.yaml", FLEET);
    write(&repository, "../outside/tier.yaml", tier("batch"));
    (temporary, repository)
}

fn write(directory: &Path, file: &str, content: impl AsRef<[u8]>) {
    let path = directory.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn tier(name: &str) -> String {
    format!("apiVersion: {API_VERSION}\nkind: PreemptionTier\nmetadata: {{name: {name}}}\nspec: {{rank: 100}}\n")
}

/// A fleet whose `spec` has one field more.
fn fleet_with(field: &str) -> String {
    format!("{FLEET}  {field}\n")
}

#[cfg(unix)]
fn link(to: &str, from: PathBuf) {
    std::os::unix::fs::symlink(to, from).unwrap();
}

fn specials() -> Vec<Special> {
    vec![
        Special {
            name: "a directory that is not there",
            code: codes::NOTHING_TO_READ,
            write: |repository| fs::remove_dir_all(repository.join("fleet")).unwrap(),
            expected: r#"
                error[TW001]: there is no directory `DIR`
                 |
                help: name a fleet's directory: tidewright validate DIR
            "#,
        },
        Special {
            name: "a file instead of a directory",
            code: codes::NOTHING_TO_READ,
            write: |repository| {
                fs::remove_dir_all(repository.join("fleet")).unwrap();
                write(repository, "fleet", FLEET);
            },
            expected: r#"
                error[TW001]: `DIR` is a file
                 |
                help: a fleet is a directory: name the directory that the file is in
            "#,
        },
        Special {
            name: "Latin-1",
            code: codes::NOT_TEXT,
            write: |repository| write(repository, "fleet/tier.yaml", b"# f\xfcr die Nacht\napiVersion: v1\n"),
            expected: r#"
                error[TW002]: byte 3 of the file is not UTF-8
                 --> tier.yaml:1:4
                  |
                1 | # f�r die Nacht
                  |    ^
                  |
                help: save the file as UTF-8
            "#,
        },
        Special {
            name: "UTF-16",
            code: codes::NOT_TEXT,
            write: |repository| write(repository, "fleet/tier.yaml", b"\xff\xfek\0i\0n\0d\0:\0"),
            expected: r#"
                error[TW002]: the file is UTF-16, not UTF-8
                 --> tier.yaml:1:1
                  |
                1 | ��k␀i␀n␀d␀:␀
                  | ^
                  |
                help: save the file as UTF-8
            "#,
        },
        Special {
            name: "a file that is too large",
            code: codes::TOO_LARGE,
            write: |repository| write(repository, "fleet/tier.yaml", "# all the same\n".repeat(70_000)),
            expected: r#"
                error[TW003]: the file is larger than 1 MiB
                 --> tier.yaml:1:1
                  |
                1 |
                  | ^
                  |
                help: split it into several files
            "#,
        },
        Special {
            name: "too many documents",
            code: codes::TOO_LARGE,
            write: |repository| {
                let tiers: Vec<String> =
                    (0..2001).map(|n| tier(&format!("t{n}")).replace("100", &n.to_string())).collect();
                write(repository, "fleet/tiers.yaml", tiers.join("---\n"));
            },
            expected: r#"
                error[TW003]: more than 2000 documents in one file
                     --> tiers.yaml:10000:1
                      |
                10000 | ---
                      | ^^^ the first one too many
                      |
                help: split it into several files
            "#,
        },
        Special {
            name: "too many keys",
            code: codes::TOO_LARGE,
            write: |repository| {
                let labels: String = (0..502).map(|n| format!("    label-{n}: x\n")).collect();
                let tier = tier("batch")
                    .replace("metadata: {name: batch}", &format!("metadata:\n  name: batch\n  labels:\n{labels}"));
                write(repository, "fleet/tier.yaml", tier.replace("\n\nspec", "\nspec"));
            },
            expected: r#"
                error[TW003]: more than 500 keys in one mapping
                   --> tier.yaml:506:5
                    |
                506 |     label-500: x
                    |     ^^^^^^^^^ the first one too many
                    |
                help: write at most 500
            "#,
        },
        Special {
            name: "positions with CRLF, a byte order mark and a wide character",
            code: codes::MALFORMED,
            write: |repository| {
                let tier =
                    tier("batch").replace("{rank: 100}", "{rank: 100, minimumRuntime: 名}").replace('\n', "\r\n");
                write(repository, "fleet/tier.yaml", format!("\u{feff}{tier}"));
            },
            expected: r#"
                error[TW107]: `spec.minimumRuntime` cannot be `名`
                 --> tier.yaml:4:35
                  |
                4 | spec: {rank: 100, minimumRuntime: 名}
                  |                                   ^^
                  |
                help: write a length of time such as 90s, 45m, 2h, 7d or 1h30m
            "#,
        },
        Special {
            name: "an include outside of the repository",
            code: codes::INCLUDE,
            write: |repository| write(repository, "fleet/fleet.yaml", fleet_with("include: [../../outside]")),
            expected: r#"
                error[TW009]: `../../outside` is outside the repository
                 --> fleet.yaml:8:13
                  |
                8 |   include: [../../outside]
                  |             ^^^^^^^^^^^^^
                  |
                help: include directories of the same git repository only, so that a revision says everything
            "#,
        },
        #[cfg(unix)]
        Special {
            name: "an include that leads out of the repository by a link",
            code: codes::INCLUDE,
            write: |repository| {
                link("../outside", repository.join("common"));
                write(repository, "fleet/fleet.yaml", fleet_with("include: [../common]"));
            },
            expected: r#"
                error[TW009]: `../common` is outside the repository
                 --> fleet.yaml:8:13
                  |
                8 |   include: [../common]
                  |             ^^^^^^^^^
                  |
                help: include directories of the same git repository only, so that a revision says everything
            "#,
        },
        #[cfg(unix)]
        Special {
            name: "a link that leads out of the repository",
            code: codes::FILE_REFERENCE,
            write: |repository| link("../../outside/tier.yaml", repository.join("fleet/tier.yaml")),
            expected: r#"
                error[TW010]: the file cannot be read: it is a link that leads out of the repository
                 --> tier.yaml:1:1
                  |
                1 |
                  | ^
                  |
                help: put the file itself here, so that a revision says everything
            "#,
        },
        #[cfg(unix)]
        Special {
            name: "a link that leads nowhere",
            code: codes::FILE_REFERENCE,
            write: |repository| link("gone.yaml", repository.join("fleet/tier.yaml")),
            expected: r#"
                error[TW010]: the file cannot be read: it is a link that leads nowhere
                 --> tier.yaml:1:1
                  |
                1 |
                  | ^
                  |
                help: mend the link, or remove it
            "#,
        },
        #[cfg(unix)]
        Special {
            name: "a socket",
            code: codes::FILE_REFERENCE,
            write: |repository| drop(std::os::unix::net::UnixListener::bind(repository.join("fleet/a.yaml")).unwrap()),
            expected: r#"
                error[TW010]: the file cannot be read: it is no regular file
                 --> a.yaml:1:1
                  |
                1 |
                  | ^
                  |
                help: remove it, or give it another ending than .yaml
            "#,
        },
        Special {
            name: "a declared fabric outside of the repository",
            code: codes::FILE_REFERENCE,
            write: |repository| {
                write(repository, "../outside/fabric.csv", "node,leaf\nn1,l1\n");
                let fabric = "fabric: {levels: [{name: leaf}], declared: {file: ../../outside/fabric.csv}}";
                write(repository, "fleet/fleet.yaml", fleet_with(fabric));
            },
            expected: r#"
                error[TW010]: the file `../../outside/fabric.csv` cannot be read
                 --> fleet.yaml:8:53
                  |
                8 |   fabric: {levels: [{name: leaf}], declared: {file: ../../outside/fabric.csv}}
                  |                                                     ^^^^^^^^^^^^^^^^^^^^^^^^
                  |
                help: write a path relative to this file, to a text file inside the repository
            "#,
        },
    ]
}

#[test]
fn what_git_cannot_hold_is_told_as_well() {
    let mut problems = String::new();
    for special in specials() {
        let (_temporary, repository) = repository();
        (special.write)(&repository);
        let directory = repository.join("fleet");
        let checked = check(&directory);
        let told = shown(&directory, &checked);
        let (actual, _footer) = told.rsplit_once("\n\n").unwrap();
        let expected = dedent(special.expected);
        if expected != actual {
            let difference = difference(&expected, actual);
            writeln!(problems, "\n== {}: - expected, + actual\n{difference}", special.name).unwrap();
        }
        if !checked.diagnostics.iter().any(|diagnostic| diagnostic.code == special.code) {
            writeln!(problems, "\n== {}: its own code is not reported", special.name).unwrap();
        }
        for fault in checked.diagnostics.iter().flat_map(faults) {
            writeln!(problems, "\n== {}: {fault}", special.name).unwrap();
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// Takes the indentation of the source code off a text that begins and ends on lines of its own.
fn dedent(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().skip(1).collect();
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let common = lines.iter().filter(|line| !line.trim().is_empty()).map(indentation).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or("")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_of_mistakes_is_given_up() {
    let (_temporary, repository) = repository();
    write(&repository, "fleet/other.yaml", "a: 1\n---\n".repeat(1500));
    let checked = check(&repository.join("fleet"));
    let last = checked.diagnostics.last().unwrap();
    assert_eq!((checked.diagnostics.len(), last.code), (1002, codes::TOO_LARGE));
    assert_eq!(faults(last), Vec::<String>::new());
}

#[test]
fn a_directory_of_too_many_files_is_told_once() {
    let (_temporary, repository) = repository();
    for directory in ["a", "b"] {
        fs::create_dir(repository.join("fleet").join(directory)).unwrap();
        for n in 0..10_001 {
            fs::write(repository.join(format!("fleet/{directory}/{n}.yaml")), "").unwrap();
        }
    }
    let checked = check(&repository.join("fleet"));
    let told: Vec<_> = checked.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).collect();
    assert_eq!(told.iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>(), [codes::TOO_LARGE]);
    assert_eq!(faults(told[0]), Vec::<String>::new());
}

#[test]
fn what_is_included_may_name_files_and_be_included_twice() {
    let (_temporary, repository) = repository();
    write(&repository, "fleet/more/tier.yaml", tier("batch"));
    write(
        &repository,
        "fleet/fleet.yaml",
        fleet_with("include: [../common, ../common/pools, more]\n  limits: {hourlyUsd: 100}"),
    );
    let pool = "\
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: train}
spec:
  instanceType: p5.48xlarge
  nodes: 0
  capacity: [{onDemand: {max: 1}}]
  launch:
    image: {ami: {id: ami-0123456789abcdef0}}
    bootstrap: {userData: {file: ../join.sh}}
    subnets: {tags: {cluster: demo}}
    securityGroups: {tags: {cluster: demo}}
    role: node
";
    write(&repository, "common/pools/pool.yaml", pool);
    write(&repository, "common/join.sh", "#!/bin/sh\n");
    let directory = repository.join("fleet");
    let checked = check(&directory);
    assert!(checked.fleet.is_some(), "{}", shown(&directory, &checked));
    assert_eq!(checked.documents, 3);
}

// The stories.

#[test]
fn every_code_has_a_story() {
    let missing: Vec<String> =
        codes::ALL.iter().filter(|(code, _)| explain::story(*code).is_none()).map(name).collect();
    assert!(missing.is_empty(), "add a section to src/diag/codes.md for {}", missing.join(", "));
}

/// Codes that no document shows by itself.
const NOT_SHOWN: &[(Code, &str)] = &[
    (codes::NOTHING_TO_READ, "its cause is a directory without a file"),
    (codes::NOT_TEXT, "the stories are in a file that is UTF-8"),
];

#[test]
fn the_examples_of_the_stories_are_true() {
    let mut problems = String::new();
    let stories = codes::ALL.iter().filter_map(|(code, _)| explain::story(*code));
    for story in stories {
        let code = story.code;
        let (_temporary, directory) = in_the_base_fleet(story.wrong);
        let checked = check(&directory);
        let is_shown = NOT_SHOWN.iter().all(|(not_shown, _)| *not_shown != code);
        if is_shown && !checked.diagnostics.iter().any(|diagnostic| diagnostic.code == code) {
            let told = shown(&directory, &checked);
            writeln!(problems, "\n== {code}: the wrong example does not report it\n{told}").unwrap();
        }
        let (_temporary, directory) = in_the_base_fleet(story.right);
        let checked = check(&directory);
        if checked.diagnostics.iter().any(|diagnostic| diagnostic.is_error() || diagnostic.code == code) {
            let told = shown(&directory, &checked);
            writeln!(problems, "\n== {code}: the right example is not right\n{told}").unwrap();
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn the_base_fleet_is_right() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/base");
    let checked = check(&directory);
    assert_eq!(shown(&directory, &checked), "");
    let (_temporary, directory) = in_the_base_fleet("");
    let replaced = check(&directory);
    // The example's own file is empty.
    assert_eq!(replaced.diagnostics.iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>(), [codes::EMPTY_FILE]);
    assert_eq!(checked.documents, replaced.documents);
}

/// The base fleet with an example in it: a document replaces the one of the same kind and name, a Fleet the Fleet. A
/// directory `common` beside it can be included, and `fabric.csv` in it can be named.
fn in_the_base_fleet(example: &str) -> (TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let repository = temporary.path().canonicalize().unwrap();
    fs::create_dir(repository.join(".git")).unwrap();
    write(&repository, "common/tier.yaml", tier("interactive").replace("100", "500"));
    let replaced: BTreeSet<(String, &str)> = documents(example).map(identity).collect();
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/base");
    for entry in fs::read_dir(base).unwrap() {
        let path = entry.unwrap().path();
        let (name, text) = (path.file_name().unwrap().to_string_lossy(), fs::read_to_string(&path).unwrap());
        let kept: Vec<&str> = documents(&text).filter(|document| !replaced.contains(&identity(document))).collect();
        if name.ends_with(".yaml") && !kept.is_empty() {
            write(&repository, &format!("fleet/{name}"), kept.join("---\n"));
        } else if name.ends_with(".csv") {
            write(&repository, &format!("fleet/{name}"), text);
        }
    }
    write(&repository, "fleet/example.yaml", example);
    (temporary, repository.join("fleet"))
}

fn documents(text: &str) -> impl Iterator<Item = &str> {
    text.split("---\n")
}

/// Kind and name, as far as a document that may be wrong in any way lets them be seen. All Fleets are one.
fn identity(document: &str) -> (String, &str) {
    let kind = document.lines().find_map(|line| line.strip_prefix("kind:")).unwrap_or("").trim().to_lowercase();
    let name = document.split("name:").nth(1).and_then(|rest| rest.split(['\n', ',', '}']).next()).unwrap_or("");
    let name = if kind == "fleet" { "" } else { name.trim() };
    (kind, name)
}

#[test]
fn a_document_is_known_by_kind_and_name() {
    let is = |document: &str, kind: &str, name: &str| assert_eq!(identity(document), (kind.to_string(), name));
    is("kind: Quota\nmetadata:\n  name: vision\nspec:\n  x: {name: a}\n", "quota", "vision");
    is("kind: Quota\nmetadata: {name: vision, labels: {}}\n", "quota", "vision");
    is("kind: Fleet\nmetadata: {name: x}\n", "fleet", "");
}
