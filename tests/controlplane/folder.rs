//! Where the programs of the control plane are, and what happens where they are not.
//!
//! `scripts/controlplane` alone knows which folder belongs to the pinned versions; this module asks it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder with the programs and the manifests. Without it the test that asked is skipped, aloud; in CI that is a
/// failure, because a suite that silently ran nothing looks like one that passed.
pub fn folder() -> Option<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(|| ask(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/controlplane"))) {
        Ok(folder) => Some(folder),
        Err(reason) => {
            let said = skipped(std::env::var("CI").is_ok_and(|value| value == "true"), reason);
            // Not eprintln!, which the test runner keeps to itself when a test passes.
            let _ = writeln!(std::io::stderr(), "{said}");
            None
        }
    }
}

fn ask(script: &Path) -> Result<PathBuf, String> {
    let asked =
        Command::new(script).arg("--where").output().map_err(|error| format!("{}: {error}", script.display()))?;
    if asked.status.success() {
        Ok(PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim()))
    } else {
        Err(String::from_utf8_lossy(&asked.stderr).trim().to_owned())
    }
}

fn skipped(in_ci: bool, reason: &str) -> String {
    assert!(!in_ci, "in CI nothing may be skipped: {reason}");
    format!("SKIPPED: {}: {reason}", std::thread::current().name().unwrap_or("a test"))
}

#[test]
fn what_is_missing_is_said_and_in_ci_it_fails() {
    let empty = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/controlplane");
    let said = Command::new(script).arg("--where").env("TIDEWRIGHT_CONTROLPLANE", empty.path()).output().unwrap();
    assert_eq!(said.status.code(), Some(3));
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(
        said.contains("lacks etcd kube-apiserver kube-controller-manager") && said.contains("builds them"),
        "{said}"
    );

    assert!(skipped(false, &said).ends_with(&said));
    assert!(std::panic::catch_unwind(|| skipped(true, &said)).is_err());
}
