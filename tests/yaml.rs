//! What of YAML is read, and what is refused.
