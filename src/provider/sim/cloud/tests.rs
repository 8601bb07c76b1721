//! The simulated cloud behaves as EC2 does.

mod blocks;
mod launches;
mod lives;
mod reservations;
