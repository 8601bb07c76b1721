//! Placeholder until the benchmark stands.

fn main() {}
