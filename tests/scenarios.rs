//! Every script of `tests/scenarios/`, one test a file: it must print what it holds, and break nothing.
//!
//! `UPDATE=1 cargo test --test suite scenarios` writes what was printed into the scripts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidewright::scenario;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn check(name: &str) {
    let path = directory().join(format!("{name}.tw"));
    let text = std::fs::read_to_string(&path).unwrap();
    let done = scenario::run(&text, &directory()).unwrap_or_else(|error| {
        let last: Vec<&str> = error.so_far.lines().rev().take(12).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        panic!("{name}.tw, {error}\n\nbefore that:\n{}\n", last.join("\n"));
    });
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &done.text).unwrap();
        return;
    }
    let differences: Vec<String> = done.differences.iter().map(ToString::to_string).collect();
    assert!(differences.is_empty(), "{name}.tw\n{}\n\nUPDATE=1 writes them down", differences.join("\n"));
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*
        const ALL: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts! {
    SCRIPTS
}

#[test]
fn every_script_is_run() {
    let files = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "tw"));
    let names: BTreeSet<String> = scripts.map(|path| path.file_stem().unwrap().to_string_lossy().into()).collect();
    assert_eq!(names, ALL.iter().map(ToString::to_string).collect());
}

#[test]
fn a_script_that_prints_something_else_fails() {
    let text = std::fs::read_to_string(directory().join("first_fill.tw")).unwrap();
    let wrong = text.replacen("| ", "| not ", 1);
    let done = scenario::run(&wrong, &directory()).unwrap();
    assert_eq!(done.differences.len(), 1);
    assert_eq!(done.text, text);
}
