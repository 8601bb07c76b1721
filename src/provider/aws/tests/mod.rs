//! The provider over a wire, against servers that speak EC2's words.

mod bench;
mod moto;
