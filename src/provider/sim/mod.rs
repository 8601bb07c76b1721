//! An EC2 and a Kubernetes in one process, with a clock of their own.

pub mod cluster;
