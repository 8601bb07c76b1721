//! The provider over a wire, against servers that speak EC2's words.

pub(super) mod bench;
mod campaign;
mod crashes;
mod door;
mod extension;
mod found;
mod login;
mod moto;
mod notices;
mod pages;
mod shared;
mod sim;
mod stories;
