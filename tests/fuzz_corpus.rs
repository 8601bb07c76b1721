//! The fuzzer's corpus, run as a test.
