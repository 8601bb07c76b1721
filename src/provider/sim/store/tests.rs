//! The state file: crash-safe, locked, and never lost on an error.

use std::path::{Path, PathBuf};

use super::*;
use crate::effect::{Freeze, Part, Quarantine, Scope};
use crate::fleet::testing::at;
use crate::provider::sim::testing::*;
use crate::provider::sim::{Fault, Position, Sim};
use crate::provider::{Class, Cluster, PartValue};
use crate::units::Duration;

fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state/sim.json");
    (directory, path)
}

fn open(path: &Path) -> Sim {
    Sim::open(path, at(NOON)).unwrap()
}

fn json(sim: &Sim) -> String {
    serde_json::to_string(&*sim.state()).unwrap()
}

/// A file with one launch in it.
fn used(path: &Path) -> String {
    let sim = open(path);
    begin(&sim);
    run(&sim, launch(0)).unwrap();
    drop(sim);
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_world_outlives_the_process() {
    let (_directory, path) = directory();
    let sim = open(&path);
    begin(&sim);
    let id = run(&sim, launch(0)).unwrap();
    sleep(&sim, 120);
    let (before, state) = (sim.now(), json(&sim));
    drop(sim);
    let sim = Sim::open(&path, at("2030-01-01T00:00Z")).unwrap();
    assert_eq!(sim.now(), before);
    assert_eq!(json(&sim), state);
    assert_eq!(run(&sim, launch(0)).unwrap(), id);
    assert!(node(&sim, &id).is_some());
}

#[test]
fn a_call_is_written_before_it_is_answered() {
    let (_directory, path) = directory();
    let sim = open(&path);
    begin(&sim);
    let id = run(&sim, launch(0)).unwrap();
    let other = Sim::peek(&path, at(NOON)).unwrap();
    assert!(other.state().cloud.instances.contains_key(&id));
}

#[test]
fn a_process_that_dies_between_commit_and_answer_leaves_the_effect() {
    let (_directory, path) = directory();
    let sim = open(&path);
    begin(&sim);
    sim.inject(Fault::Crash { call: 1, position: Position::AfterCommit });
    let request = crate::effect::CloudAction::Launch(launch(0));
    let call = crate::provider::Cloud::perform(&sim, &request);
    assert!(futures_util::FutureExt::now_or_never(call).is_none());
    drop(sim);
    assert_eq!(open(&path).state().cloud.instances.len(), 1);
}

#[test]
fn what_a_dead_writer_left_beside_the_file_does_no_harm() {
    let (_directory, path) = directory();
    let text = used(&path);
    fs::write(beside(&path, "new"), &text[..text.len() / 2]).unwrap();
    let sim = open(&path);
    assert_eq!(sim.state().cloud.instances.len(), 1);
    sleep(&sim, 1);
    run(&sim, launch(1)).unwrap();
    drop(sim);
    assert_eq!(open(&path).state().cloud.instances.len(), 2);
}

#[test]
fn two_writers_are_kept_apart_and_a_reader_is_not() {
    let (_directory, path) = directory();
    let first = open(&path);
    begin(&first);
    let error = Sim::open(&path, at(NOON)).unwrap_err();
    assert!(matches!(error, SimError::Held { .. }), "{error}");
    assert!(error.to_string().contains("wait until it ends"), "{error}");
    assert!(matches!(Sim::reset(&path), Err(SimError::Held { .. })));
    let reader = Sim::peek(&path, at(NOON)).unwrap();
    assert_eq!(said(run(&reader, launch(0))).0, Class::Denied);
    assert!(reader.state().cloud.instances.is_empty());
    run(&first, launch(0)).unwrap();
    drop(first);
    open(&path);
}

#[test]
fn a_damaged_file_is_told_and_left_as_it_is() {
    let (_directory, path) = directory();
    let text = used(&path);
    for damaged in ["", "{", "[]", "{\"version\": 1}", &text[..text.len() - 20], &text.replace("\"Pending\"", "7")] {
        fs::write(&path, damaged).unwrap();
        let error = Sim::open(&path, at(NOON)).unwrap_err();
        assert!(matches!(error, SimError::Damaged { .. }), "{damaged}: {error}");
        assert!(error.to_string().contains("move it away"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
    }
}

#[test]
fn a_file_of_a_newer_program_is_told_and_left_as_it_is() {
    let (_directory, path) = directory();
    let newer = used(&path).replacen("\"version\":1", "\"version\":99,\"more\":true", 1);
    fs::write(&path, &newer).unwrap();
    let error = Sim::open(&path, at(NOON)).unwrap_err();
    assert!(matches!(error, SimError::Newer { found: 99, .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

#[test]
fn what_cannot_be_written_is_not_said_to_be_done() {
    let (directory, path) = directory();
    let sim = open(&path);
    begin(&sim);
    fs::rename(path.parent().unwrap(), directory.path().join("elsewhere")).unwrap();
    let error = run(&sim, launch(0)).unwrap_err();
    assert_eq!(error.class, Class::Ambiguous);
    assert!(error.message.contains("cannot be written"), "{error}");
    fs::rename(directory.path().join("elsewhere"), path.parent().unwrap()).unwrap();
    run(&sim, launch(0)).unwrap();
    assert_eq!(Sim::peek(&path, at(NOON)).unwrap().state().cloud.instances.len(), 1);
}

#[test]
fn a_script_is_written_when_it_is_saved_and_at_the_end() {
    let (_directory, path) = directory();
    let sim = open(&path);
    sim.advance(Duration::hours(6));
    assert!(!path.exists());
    sim.save().unwrap();
    assert_eq!(Sim::peek(&path, at(NOON)).unwrap().now(), at("2026-06-01T18:00Z"));
    sleep(&sim, 3600);
    drop(sim);
    assert_eq!(open(&path).now(), at("2026-06-01T19:00Z"));
}

#[test]
fn who_only_looks_leaves_no_trace() {
    let (_directory, path) = directory();
    let text = used(&path);
    let reader = Sim::peek(&path, at(NOON)).unwrap();
    sleep(&reader, 3600);
    drop(reader);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    drop(Sim::peek(&path.with_extension("other"), at(NOON)).unwrap());
    assert!(!path.with_extension("other").exists());
}

#[test]
fn a_reset_puts_the_old_world_aside() {
    let (_directory, path) = directory();
    assert_eq!(Sim::reset(&path).unwrap(), None);
    let text = used(&path);
    let aside = Sim::reset(&path).unwrap().unwrap();
    assert_eq!(fs::read_to_string(aside).unwrap(), text);
    assert!(open(&path).state().cloud.instances.is_empty());
}

#[test]
fn a_note_for_a_world_that_was_put_aside_goes_with_it() {
    let (_directory, path) = directory();
    used(&path);
    let reason = "incident".to_string();
    let freeze = Freeze { scope: Scope::Fleet, by: "ana".into(), at: at(NOON), reason, all: false };
    Sim::note(&path, &LedgerChange::Freeze(freeze.clone())).unwrap();
    let aside = Sim::reset(&path).unwrap().unwrap();
    assert_eq!(open(&path).state().ledger.head().frozen, [], "the new world knows nothing of it");
    assert_eq!(open(&aside).state().ledger.head().frozen, [freeze], "and whoever takes the old one back does");
}

#[test]
fn a_note_is_heard_by_whoever_has_the_world_and_by_whoever_looks() {
    let (_directory, path) = directory();
    let sim = open(&path);
    begin(&sim);
    let reason = "incident".to_string();
    let freeze = Freeze { scope: Scope::Fleet, by: "ana".into(), at: at(NOON), reason, all: false };
    Sim::note(&path, &LedgerChange::Freeze(freeze.clone())).unwrap();
    let looks = Sim::peek(&path, at(NOON)).unwrap();
    assert_eq!(looks.state().ledger.head().frozen.as_slice(), std::slice::from_ref(&freeze));
    let (head, version) = now(sim.ledger_part(&Part::Head)).unwrap();
    let PartValue::Head(head) = head else { panic!("{head:?}") };
    assert_eq!(head.frozen.as_slice(), std::slice::from_ref(&freeze));
    // Written down where it belongs, and heard once.
    Sim::note(&path, &LedgerChange::Thaw(Scope::Fleet)).unwrap();
    let late = now(sim.swap_ledger(&Part::Head, &version, &PartValue::Head(head)));
    assert_eq!(late.map_err(|error| error.class), Err(Class::Conflict));
    drop(sim);
    assert_eq!(open(&path).state().ledger.head().frozen, []);
}

#[test]
fn a_note_that_nobody_was_there_to_hear_is_heard_by_the_next() {
    let (_directory, path) = directory();
    used(&path);
    let quarantine = Quarantine { by: "ana".into(), at: at(NOON), reason: "ECC".into() };
    Sim::note(&path, &LedgerChange::Quarantine { node: "n".into(), quarantine }).unwrap();
    let sim = open(&path);
    assert!(sim.state().ledger.head().quarantined.contains_key("n"));
    drop(sim);
    assert!(open(&path).state().ledger.head().quarantined.contains_key("n"), "it was written into the state");
    assert_eq!(fs::read(beside(&path, NOTES)).unwrap(), b"");
}
