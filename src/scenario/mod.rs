//! Scripts for the simulated world.
