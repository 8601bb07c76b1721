//! Tidewright keeps a GPU fleet the way its git repository says it should be.
//!
//! The modules stand in the order of the chain that data flows through (ARCHITECTURE.md): a module imports only
//! from those above it. Everything before `load` is pure.

#[doc(hidden)]
pub mod mistakes;
pub mod ids;
pub mod diag;
pub mod units;
pub mod hardware;
pub mod fabric;
pub mod fleet;
pub mod manifest;
pub mod observed;
pub mod effect;
pub mod queue;
pub mod compile;
pub mod plan;
pub mod audit;
pub mod status;
pub mod render;
#[allow(clippy::disallowed_methods)]
pub mod load;
#[allow(clippy::disallowed_methods)]
pub mod provider;
pub mod apply;
pub mod round;
#[allow(clippy::disallowed_methods)]
pub mod scenario;
#[allow(clippy::disallowed_methods)]
pub mod endpoint;
#[allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::disallowed_types)]
pub mod cli;

/// What the fuzzer feeds: any bytes as a file of a fleet, up to the fleet and every format of what is wrong with it.
#[doc(hidden)]
pub fn fuzz_entry(data: &[u8]) {
    let mut loaded = load::Loaded::default();
    load::add_bytes(&mut loaded, "fuzz.yaml", data);
    let (_, mut found) = manifest::lower(&loaded.manifests, &loaded.sources, jiff::Timestamp::UNIX_EPOCH);
    loaded.diagnostics.append(&mut found);
    diag::sort(&loaded.sources, &mut loaded.diagnostics);
    render::diagnostics::human(&loaded.sources, &loaded.diagnostics, false);
    render::diagnostics::json(&loaded.sources, &loaded.diagnostics);
    render::diagnostics::github(&loaded.sources, &loaded.diagnostics);
    render::diagnostics::sarif(&loaded.sources, &loaded.diagnostics);
}
