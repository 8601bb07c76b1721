//! All integration tests in one binary: each binary links everything.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::disallowed_types, clippy::unwrap_used)]

mod approvals;
mod campaign;
mod cli;
mod cluster;
mod converge;
mod compile;
mod controlplane;
mod crashes;
mod examples;
mod fabric;
mod fleets;
mod fuzz_corpus;
mod pages;
mod properties;
mod right;
mod rollouts;
mod scenarios;
mod schemas;
mod shown;
mod tidy;
mod time;
mod verbs;
mod wrong;
mod yaml;
