//! Tidewright keeps a GPU fleet the way its git repository says it should be.
//!
//! The modules stand in the order of the chain that data flows through (ARCHITECTURE.md): a module imports only
//! from those above it. Everything before `load` is pure.

pub mod ids;
pub mod diag;
pub mod units;
pub mod hardware;
pub mod render;
