//! Whatever the bytes, loading them answers with diagnostics: no panic, no hang, no memory without bound.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    tidewright::fuzz_entry(data);
});
