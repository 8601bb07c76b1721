//! The rules, one file per subject. Each reads the parts and says what is wrong; none changes anything.
//!
//! Order matters: references first, then single objects, then sums, so that a sum never blames what a simpler rule
//! has blamed.

mod hardware;
mod health;
mod layouts;
mod names;
mod pools;
mod quotas;
mod reservations;
mod room;
mod sums;
mod tides;

use super::build::Problems;

pub fn check(problems: &mut Problems<'_>) {
    names::check(problems);
    hardware::check(problems);
    layouts::check(problems);
    reservations::check(problems);
    pools::check(problems);
    quotas::check(problems);
    tides::check(problems);
    health::check(problems);
    room::check(problems);
    sums::check(problems);
}
