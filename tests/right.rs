//! Fleets that come close to a rule without breaking it. A false alarm is as bad as silence: people stop reading.
//!
//! Each directory below `tests/right` is a whole fleet. Nothing is said about it but what its `expected.txt` holds, if
//! it has one, and that is no error.

use std::path::Path;

use tidewright::load;
use tidewright::render::diagnostics;

/// The same as for the wrong fleets: dates in the documents are chosen around it.
const AT: &str = "2026-11-16T12:00:00Z";

#[test]
fn fleets_that_only_come_close_to_a_rule_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/right");
    let mut cases: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() > 20, "{} is almost empty", root.display());
    let mut wrong = String::new();
    for case in cases {
        let checked = load::check(&case, AT.parse().unwrap());
        let said = diagnostics::human(&checked.sources, &checked.diagnostics, false);
        let said = said.replace(&format!("{}/", case.display()), "");
        let expected = std::fs::read_to_string(case.join("expected.txt")).unwrap_or_default();
        if checked.fleet.is_none() || said.trim_end() != expected.trim_end() {
            wrong += &format!("== {}\n{said}\n", case.file_name().unwrap().display());
        }
    }
    assert!(wrong.is_empty(), "these fleets are right, and something is said about them:\n{wrong}");
}
