//! Fleets for tests, from YAML text.

use jiff::Timestamp;

use super::Fleet;
use super::tide::Tide;
use crate::diag::Diagnostic;
use crate::{load, manifest};

/// What every document begins with.
const API: &str = "apiVersion: tidewright.dev/v1alpha1\n";

/// An instant: `2026-11-01T20:00-08:00`.
pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The fleet that these documents describe, checked at an instant. Each begins with its kind; a Fleet document in this
/// zone is added.
pub fn fleet_in(zone: &str, now: &str, documents: &str) -> Fleet {
    sound(check_in(zone, now, documents))
}

/// The same with a Fleet document of its own among them.
pub fn fleet_of(now: &str, documents: &str) -> Fleet {
    sound(check(now, documents))
}

fn sound((fleet, found): (Option<Fleet>, Vec<Diagnostic>)) -> Fleet {
    let wrong: Vec<&Diagnostic> = found.iter().filter(|diagnostic| diagnostic.is_error()).collect();
    fleet.unwrap_or_else(|| panic!("{wrong:#?}"))
}

/// What is said about these documents.
pub fn check_in(zone: &str, now: &str, documents: &str) -> (Option<Fleet>, Vec<Diagnostic>) {
    let head = format!(
        "kind: Fleet\nmetadata: {{name: test}}\nspec:\n  timeZone: {zone}\n  cloud: {{sim: {{}}}}\n  \
         kubernetes: {{sim: {{}}}}\n  limits: {{hourlyUsd: 10000, nodesRemovedPerHour: 4}}\n"
    );
    check(now, &format!("{head}---\n{documents}"))
}

fn check(now: &str, documents: &str) -> (Option<Fleet>, Vec<Diagnostic>) {
    let documents = documents.split("---\n").filter(|text| !text.trim().is_empty());
    let all: Vec<String> = documents.map(|text| format!("{API}{text}")).collect();
    let mut loaded = load::Loaded::default();
    load::add_bytes(&mut loaded, "fleet.yaml", all.join("---\n").as_bytes());
    let (fleet, mut found) = manifest::lower(&loaded.manifests, &loaded.sources, at(now));
    found.append(&mut loaded.diagnostics);
    (fleet, found)
}

/// A schedule from the lines of its spec. Reclaim is 45 minutes, the last 10 of them hard.
pub fn tide(zone: &str, spec: &str) -> Tide {
    let fleet = fleet_in(zone, "2026-01-01T00:00Z", &tide_document(spec));
    fleet.tides.values().next().cloned().expect("one tide")
}

pub fn tide_document(spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {}\n", line.trim())).collect();
    format!("kind: TideSchedule\nmetadata: {{name: nightly}}\nspec:\n{spec}  reclaim: {{lead: 45m, hardAt: 10m}}\n")
}
