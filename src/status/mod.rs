//! What happened, how far it is, and whether the fleet is as git says. Pure.

pub mod event;
pub mod progress;

pub use event::{Event, EventKind};
pub use progress::{Progress, StepProgress, StepState, Tally};
