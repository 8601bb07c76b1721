//! What happened, how far it is, and whether the fleet is as git says. Pure.

pub mod event;
mod pools;
pub mod progress;
mod quotas;
mod reported;
#[cfg(test)]
pub mod sample;
#[allow(clippy::module_inception)]
pub mod status;
mod written;

pub use event::{Event, EventKind};
pub use progress::{Progress, StepProgress, StepState, Tally};
pub use reported::ReportStatus;
pub use status::*;
