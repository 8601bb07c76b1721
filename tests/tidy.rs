//! The layering of ARCHITECTURE.md, held.
