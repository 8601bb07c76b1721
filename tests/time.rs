//! Tides across every zone and clock change.
