//! Where nodes are, who uses what, and what that means.
