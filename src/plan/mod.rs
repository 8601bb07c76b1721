//! Desired, Observed and Ledger in, one plan across all layers out. Pure.
//!
//! A plan holds what may start now as a DAG of [`Step`]s, and everything else that is wanted as [`Held`], with what it
//! waits on. Not here: what an object looks like (`compile`), what Kueue will do (`queue`), any call (`provider`), a
//! check that must hold whatever the planner does (`audit`).

pub mod blocks;
pub mod cost;
pub mod draft;
pub mod harm;
pub mod objects;
pub mod reservations;
pub mod steps;
#[cfg(test)]
pub mod testing;
pub mod types;
pub mod upcoming;

pub use types::*;
