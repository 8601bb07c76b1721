//! How a GPU is cut into MIG instances, and whether a wanted cut can be had.
//!
//! Counting compute slices does not decide: two `3g` fill a GPU although one slice is idle, and two `4g` never fit.
//! [`place`] solves the packing, and it alone does; the other functions ask it. Not here: which layout a pool has
//! (`fleet`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::ids::MigProfile;

/// What a GPU offers to its instances.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Geometry {
    /// Compute slices.
    pub compute: u32,
    /// Memory slices, at most 64.
    pub memory: u32,
    /// Shares of the video and JPEG engines.
    pub media: u32,
    pub profiles: Vec<Profile>,
}

/// One way to cut an instance out of a GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Profile {
    #[schemars(with = "String")]
    pub name: MigProfile,
    pub compute: u32,
    /// How many neighbouring memory slices it takes.
    pub memory: u32,
    /// The memory slices at which it may begin.
    pub starts: Vec<u32>,
    /// How many of it alone fit one GPU.
    pub max: u32,
    /// Shares of the video and JPEG engines.
    pub media: u32,
}

/// Where an instance stands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Placement {
    pub start: u32,
    pub profile: MigProfile,
}

/// Why a cut cannot be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// This GPU has no such profile.
    UnknownProfile(MigProfile),
    /// More than the GPU holds even when nothing else is on it.
    TooMany { profile: MigProfile, wanted: u32, max: u32 },
    /// Each profile alone would fit; together they do not.
    DoesNotFit,
}

impl Geometry {
    pub fn profile(&self, name: &MigProfile) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == *name)
    }
}

/// Places the wanted instances on one empty GPU, from left to right. The same wish always gets the same placement, and
/// a misfit is final: no placement exists. Counts may be anything a file can hold.
pub fn place(geometry: &Geometry, wanted: &BTreeMap<MigProfile, u32>) -> Result<Vec<Placement>, Misfit> {
    let mut instances = Vec::new();
    for (name, &count) in wanted {
        let profile = geometry.profile(name).ok_or_else(|| Misfit::UnknownProfile(name.clone()))?;
        if count > profile.max {
            return Err(Misfit::TooMany { profile: name.clone(), wanted: count, max: profile.max });
        }
        instances.extend((0..count).map(|_| profile));
    }
    if !has_enough(geometry, &instances) {
        return Err(Misfit::DoesNotFit);
    }
    // Large ones have the fewest starts: placed first, they cut the search short. The sort keeps twins together.
    instances.sort_by_key(|profile| Reverse(profile.memory));
    let mut starts = Vec::new();
    if !search(&instances, 0, &mut starts) {
        return Err(Misfit::DoesNotFit);
    }
    let placed = instances.iter().zip(starts);
    let mut placed: Vec<_> =
        placed.map(|(profile, start)| Placement { start, profile: profile.name.clone() }).collect();
    placed.sort();
    Ok(placed)
}

/// The profiles of which one more could be had beside the wanted ones, if all are placed anew; empty when the GPU is
/// full, and when the wanted ones do not fit themselves.
pub fn beside<'a>(geometry: &'a Geometry, wanted: &BTreeMap<MigProfile, u32>) -> Vec<&'a MigProfile> {
    let can_be_added = |name: &MigProfile| {
        let mut more = wanted.clone();
        let count = more.entry(name.clone()).or_default();
        *count = count.saturating_add(1);
        place(geometry, &more).is_ok()
    };
    geometry.profiles.iter().map(|profile| &profile.name).filter(|name| can_be_added(name)).collect()
}

/// The most of what is wanted that does fit: the most memory slices, then compute slices, then instances; among equals
/// the one with more of the larger profiles. Profiles that the GPU does not have are left out.
pub fn largest_fitting(geometry: &Geometry, wanted: &BTreeMap<MigProfile, u32>) -> BTreeMap<MigProfile, u32> {
    let known = |(name, &count): (_, &u32)| geometry.profile(name).map(|profile| (profile, count.min(profile.max)));
    let mut choices: Vec<_> = wanted.iter().filter_map(known).collect();
    choices.sort_by_key(|(profile, _)| Reverse(profile.memory));
    let mut best = Choice::default();
    choose(geometry, &choices, Choice::default(), &mut best);
    best.counts
}

/// Whether there is enough of everything, wherever it may lie. Keeps the search small: at most one instance a slice.
fn has_enough(geometry: &Geometry, instances: &[&Profile]) -> bool {
    let total = |of: fn(&Profile) -> u32| instances.iter().map(|profile| of(profile)).sum::<u32>();
    total(|profile| profile.memory) <= geometry.memory
        && total(|profile| profile.compute) <= geometry.compute
        && total(|profile| profile.media) <= geometry.media
}

/// Finds a start for every instance that has none yet, given the memory slices that are taken.
fn search(instances: &[&Profile], taken: u64, starts: &mut Vec<u32>) -> bool {
    let Some(profile) = instances.get(starts.len()) else { return true };
    // Twins are interchangeable, so the second one only looks to the right of the first.
    let twin = starts.len().checked_sub(1).filter(|&before| instances[before].name == profile.name);
    let left = twin.map_or(0, |before| starts[before] + 1);
    for &start in profile.starts.iter().filter(|start| **start >= left) {
        let run = ((1 << profile.memory) - 1) << start;
        if taken & run == 0 {
            starts.push(start);
            if search(instances, taken | run, starts) {
                return true;
            }
            starts.pop();
        }
    }
    false
}

#[derive(Clone, Default)]
struct Choice {
    /// Memory slices, compute slices, instances: what [`largest_fitting`] maximises, in this order.
    size: (u32, u32, u32),
    counts: BTreeMap<MigProfile, u32>,
}

/// Tries every number of the first choice, the largest first, with every way to go on. An earlier find wins a tie.
fn choose(geometry: &Geometry, choices: &[(&Profile, u32)], so_far: Choice, best: &mut Choice) {
    let Some(((profile, most), rest)) = choices.split_first() else {
        if so_far.size > best.size && place(geometry, &so_far.counts).is_ok() {
            *best = so_far;
        }
        return;
    };
    for count in (0..=*most).rev() {
        let (memory, compute, instances) = so_far.size;
        let size = (memory + count * profile.memory, compute + count * profile.compute, instances + count);
        if size.0 > geometry.memory {
            continue;
        }
        let mut next = Choice { size, counts: so_far.counts.clone() };
        if count > 0 {
            next.counts.insert(profile.name.clone(), count);
        }
        choose(geometry, rest, next, best);
    }
}

#[cfg(test)]
mod tests;
