//! The fabric: the tree that nodes hang on, and which node serves which pool on it.
//!
//! Pure counting over plain data. Not here: what a fleet says (`fleet`), what was seen (`observed`), and who carries a
//! placement out. Called by the planner's room for it and by `tidewright place` and `pack`.

pub mod collective;
pub mod exact;
pub mod fgd;
pub mod gang;
pub mod insert;
pub mod pack;
pub mod problem;
pub mod reasons;
pub mod search;
pub mod slots;
pub mod sources;
pub mod state;
pub mod tree;

pub use problem::{Ask, Freedom, Host, Prices, Problem, SLOTS, Score, Slots};
pub use search::{Placement, place};
pub use tree::{Domain, Note, Oddity, Place, Tree};

#[cfg(test)]
mod tests;
