//! How things look: every word on the screen, and every format that another program reads.
//!
//! Pure: text goes in and out, the caller prints it. Not here: what is true (the modules above), and where the text
//! goes (`cli`).

mod comment;
pub mod diagnostics;
pub mod fabric;
pub mod hardware;
mod ink;
pub mod plan;
pub mod progress;
pub mod status;
mod table;
pub mod tide;
