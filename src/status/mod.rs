//! What happened, how far it is, and whether the fleet is as git says. Pure.

pub mod event;

pub use event::{Event, EventKind};
