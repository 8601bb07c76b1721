//! Fleets in memory, for the other suites: documents to diagnostics and a fleet, with no files.

use tidewright::diag::{Diagnostic, Sources, sort};
use tidewright::fleet::Fleet;
use tidewright::load::{Loaded, add_bytes};
use tidewright::manifest::{Manifest, lower};

/// The instant at which fleets are checked: a Monday, some weeks after one clock change and before the next.
pub const NOW: &str = "2026-11-16T12:00Z";

pub fn now() -> jiff::Timestamp {
    NOW.parse().unwrap()
}

/// What came of some files.
#[derive(Debug)]
pub struct Checked {
    pub sources: Sources,
    pub manifests: Vec<Manifest>,
    /// As the program gives it: only if nothing is wrong.
    pub fleet: Option<Fleet>,
    /// Sorted as they are reported.
    pub diagnostics: Vec<Diagnostic>,
}

pub fn check_bytes<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Checked {
    let mut loaded = Loaded::default();
    for (path, bytes) in files {
        add_bytes(&mut loaded, path, bytes);
    }
    let Loaded { sources, manifests, mut diagnostics } = loaded;
    let (fleet, mut found) = lower(&manifests, &sources, now());
    diagnostics.append(&mut found);
    sort(&sources, &mut diagnostics);
    let fleet = fleet.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
    Checked { sources, manifests, fleet, diagnostics }
}

pub fn check(files: &[(&str, &str)]) -> Checked {
    check_bytes(files.iter().map(|(path, text)| (*path, text.as_bytes())))
}

impl Checked {
    /// `a.yaml:3:7 TW103`, one for each diagnostic; a warning has a `?` behind it.
    pub fn said(&self) -> Vec<String> {
        self.diagnostics
            .iter()
            .map(|diagnostic| {
                let mark = if diagnostic.is_error() { "" } else { "?" };
                let place = diagnostic.span().map_or("nowhere".into(), |span| self.sources.place(span));
                format!("{place} {}{mark}", diagnostic.code)
            })
            .collect()
    }

    /// The codes of what is said, in order.
    pub fn codes(&self) -> Vec<&'static str> {
        self.diagnostics.iter().map(|diagnostic| diagnostic.code.id()).collect()
    }

    #[track_caller]
    pub fn valid(self) -> Fleet {
        let said: Vec<_> = self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).collect();
        assert!(said.is_empty(), "{said:#?}");
        self.fleet.expect("a fleet, because nothing is wrong")
    }
}

/// A document of its own, in flow style.
pub fn document(kind: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: tidewright.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

/// The head of a fleet that needs nothing.
pub fn head() -> String {
    document("Fleet", "head", "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, limits: {hourlyUsd: 1000000}}")
}

/// The fleet that `tidewright init` writes, file by file.
pub const INIT: [(&str, &str); 4] = [
    ("fleet.yaml", include_str!("../src/cli/init/fleet.yaml")),
    ("pools.yaml", include_str!("../src/cli/init/pools.yaml")),
    ("teams.yaml", include_str!("../src/cli/init/teams.yaml")),
    ("tide.yaml", include_str!("../src/cli/init/tide.yaml")),
];
