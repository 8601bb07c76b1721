//! A real control plane for the tests: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, Kueue with its
//! webhooks, and KWOK for the nodes, all on loopback and all gone when the test run is.
//!
//! `scripts/controlplane` builds the programs; where they are missing a suite that asks for a control plane is skipped
//! aloud, and in CI it fails. A suite takes [`shared`] if it keeps to names of its own, or starts a [`Controlplane`]
//! of its own if it restarts programs or needs another Kueue.

mod api;
mod bench;
mod certificates;
mod folder;
mod gpus;
mod kueue;
mod mig;
mod mig_bench;
mod nodes;
mod objects;
mod plane;
mod process;
mod users;

pub use api::{Api, block, eventually};
pub use nodes::GpuNodes;
pub use objects::{gang, is_true};
pub use plane::{Controlplane, Settings, shared};
