//! The rules, one file per subject. Each reads the parts and says what is wrong; none changes anything.
//!
//! Order matters: references first, then single objects, then sums, so that a sum never blames what a simpler rule
//! has blamed.

mod borrowing;
mod hardware;
mod health;
mod layouts;
mod moments;
mod money;
mod names;
mod pools;
mod quotas;
mod reclaim;
mod reservations;
mod room;
mod sums;
mod tides;
mod tiers;

use super::build::Problems;

pub fn check(problems: &mut Problems<'_>) {
    names::check(problems);
    hardware::check(problems);
    layouts::check(problems);
    reservations::check(problems);
    pools::check(problems);
    tiers::check(problems);
    quotas::check(problems);
    borrowing::check(problems);
    tides::check(problems);
    health::check(problems);
    room::check(problems);
    sums::check(problems);
}
