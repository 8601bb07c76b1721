//! Fleets that come close to a rule without breaking it. A false alarm is as bad as silence: people stop reading.
//!
//! Each directory below `tests/right` is a whole fleet. Nothing is said about it but what its `expected.txt` holds, if
//! it has one, and that is no error.

use std::path::Path;

use tidewright::fleet::quota::Amount;
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

#[test]
fn a_pool_that_waits_for_its_block_promises_nothing() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/right/block-alone");
    let fleet = load::check(&directory, AT.parse().unwrap()).fleet.unwrap();
    let guaranteed = |at: &str| {
        let target = fleet.target_at(at.parse().unwrap());
        let share = &target.quotas["serving"].shares["serve"];
        (target.pools["serve"].nodes, share.guarantee.clone())
    };
    assert_eq!(guaranteed("2026-11-18T11:29:59Z"), (0, Amount::Nodes(0)));
    assert_eq!(guaranteed("2026-11-18T11:30:00Z"), (8, Amount::Nodes(8)));
    assert_eq!(guaranteed("2026-11-25T10:59:59Z"), (8, Amount::Nodes(8)));
    assert_eq!(guaranteed("2026-11-25T11:00:00Z"), (0, Amount::Nodes(0)));
}
