//! The words that planner, providers and `apply` share: what can be done, what can be waited for, what is remembered.
//!
//! [`Action`] is a thing to do, [`Fact`] a thing that can be looked at again, [`Ledger`] our only memory, [`Effects`]
//! what an approval covers. All plain data; nothing here decides or calls anything, but for [`health`], the one meaning of
//! a HealthPolicy against what a node shows.

pub mod action;
pub mod change;
pub mod desired;
pub mod effects;
pub mod exchange;
pub mod fact;
pub mod hash;
pub mod health;
pub mod ledger;
pub mod marks;
pub mod rename;
pub mod tags;

pub use action::*;
pub use change::*;
pub use desired::*;
pub use effects::*;
pub use exchange::{Exchange, Machine};
pub use fact::*;
pub use hash::{canonical, digest, digest_of, identity, is_kin, token, with_kin};
pub use ledger::*;
