//! What people and other programs read: text and JSON of the types above. Pure: a function from a value to its words.

pub mod hardware;
