//! The fuzzer's corpus, run as a test: whatever made it stumble once is answered ever after.

use std::path::Path;

/// The corpus holds what a person thought of and what the fuzzer found; it only grows.
const FEWEST: usize = 50;

#[test]
fn every_file_of_the_corpus_is_answered() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/load");
    let mut files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= FEWEST, "only {} files", files.len());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let answer = std::panic::catch_unwind(|| tidewright::fuzz_entry(&bytes));
        assert!(answer.is_ok(), "{} makes the program panic", file.display());
    }
}
