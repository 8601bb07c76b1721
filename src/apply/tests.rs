//! The walk on a small world of its own.
