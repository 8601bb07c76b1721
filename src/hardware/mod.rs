//! The catalogue: GPUs, instance types, MIG geometry, prices.
