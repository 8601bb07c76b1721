//! The provider over a wire, against servers that speak EC2's words.

pub(super) mod bench;
mod campaign;
mod crashes;
mod door;
mod found;
mod moto;
mod notices;
mod sim;
