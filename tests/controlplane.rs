//! A real control plane for the tests: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, Kueue with its
//! webhooks, and KWOK for the nodes, all on loopback and all gone when the test run is.
//!
//! `scripts/controlplane` builds the programs; where they are missing a suite that asks for a control plane is skipped
//! aloud, and in CI it fails. A suite takes [`plane::shared`] if it keeps to names of its own, or starts a
//! [`plane::Controlplane`] of its own if it restarts programs or needs another Kueue; both have the floor alone. Tests
//! that apply no fleet and mostly wait take [`plane::beside`], and run several at a time.

pub mod api;
mod bench;
mod certificates;
pub mod folder;
mod gpus;
pub mod kueue;
pub mod mig;
mod mig_bench;
pub mod nodes;
pub mod objects;
pub mod plane;
pub mod process;
mod users;

pub use api::{Api, block, eventually};
pub use nodes::GpuNodes;
pub use objects::{gang, is_true};
pub use plane::{Controlplane, Settings, shared};
