//! Which cuts of a node's GPUs serve a demand of slices, with the fewest GPUs cut and then the fewest cut anew.
//!
//! All nodes of a pool are cut alike, so the demand is that of one node. Whether slices fit one GPU is asked of whoever
//! knows its geometry. Exact: every cut that serves something is tried, and what is left over is never tried twice.

use std::collections::BTreeMap;

use crate::ids::MigProfile;

/// How one GPU is cut; empty: whole.
pub type Cut = BTreeMap<MigProfile, u32>;

/// How the GPUs of one node should be cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packing {
    /// By GPU.
    pub cuts: Vec<Cut>,
    /// What finds no place.
    pub unserved: Cut,
    /// GPUs whose cut changes.
    pub changed: u32,
}

/// What is known of the search so far, by GPU and what is still wanted: the best from there, and its cut.
type Known = BTreeMap<(usize, Vec<u32>), (Value, Option<usize>)>;

/// Slices without a place, GPUs that are cut, GPUs that are cut anew: the first difference decides.
type Value = (u32, u32, u32);

struct Search<'a> {
    now: &'a [Cut],
    names: Vec<MigProfile>,
    /// Cuts that may be used, the whole GPU first.
    cuts: Vec<Cut>,
    known: Known,
}

/// The best cuts for `demand` on GPUs that are cut as `now` says; `fits` says whether one GPU can be cut so.
pub fn pack(demand: &Cut, now: &[Cut], fits: impl Fn(&Cut) -> bool) -> Packing {
    let names: Vec<MigProfile> = demand.keys().cloned().collect();
    let mut cuts = vec![Cut::new()];
    grow(demand, &names, Cut::new(), &fits, &mut cuts);
    // What is there may stay, with slices that nobody asked for.
    for cut in now.iter().filter(|cut| names.iter().any(|name| cut.contains_key(name))) {
        if !cuts.contains(cut) {
            cuts.push(cut.clone());
        }
    }
    let mut search = Search { now, names, cuts, known: Known::new() };
    let mut left: Vec<u32> = demand.values().copied().collect();
    search.best(0, &left);
    let mut packing = Packing { cuts: Vec::new(), unserved: Cut::new(), changed: 0 };
    for (gpu, before) in now.iter().enumerate() {
        let chosen = search.known.get(&(gpu, left.clone())).and_then(|known| known.1).unwrap_or(0);
        left = search.after(chosen, &left);
        packing.changed += u32::from(search.cuts[chosen] != *before);
        packing.cuts.push(search.cuts[chosen].clone());
    }
    let unserved = search.names.iter().cloned().zip(left).filter(|(_, count)| *count > 0);
    packing.unserved = unserved.collect();
    packing
}

/// All cuts out of what is wanted.
fn grow(demand: &Cut, names: &[MigProfile], so_far: Cut, fits: &impl Fn(&Cut) -> bool, cuts: &mut Vec<Cut>) {
    let Some((name, rest)) = names.split_first() else {
        if !so_far.is_empty() {
            cuts.push(so_far);
        }
        return;
    };
    for count in 0..=demand[name] {
        let mut next = so_far.clone();
        if count > 0 {
            next.insert(name.clone(), count);
            if !fits(&next) {
                break;
            }
        }
        grow(demand, rest, next, fits, cuts);
    }
}

impl Search<'_> {
    fn after(&self, cut: usize, left: &[u32]) -> Vec<u32> {
        let has = |name: &MigProfile| self.cuts[cut].get(name).copied().unwrap_or(0);
        self.names.iter().zip(left).map(|(name, left)| left.saturating_sub(has(name))).collect()
    }

    fn best(&mut self, gpu: usize, left: &[u32]) -> Value {
        if gpu == self.now.len() {
            return (left.iter().sum(), 0, 0);
        }
        let key = (gpu, left.to_vec());
        if let Some((value, _)) = self.known.get(&key) {
            return *value;
        }
        let mut best: Option<(Value, usize)> = None;
        // Whole GPUs come last, so that the first ones are cut.
        for cut in (1..self.cuts.len()).chain([0]) {
            let after = self.after(cut, left);
            let is_kept = self.cuts[cut] == self.now[gpu];
            // Another cut is worth its while only where it serves something, each of its slices.
            let serves: u32 = left.iter().sum::<u32>() - after.iter().sum::<u32>();
            if cut > 0 && (serves == 0 || (!is_kept && serves < self.cuts[cut].values().sum())) {
                continue;
            }
            let below = self.best(gpu + 1, &after);
            let value = (below.0, below.1 + u32::from(cut > 0), below.2 + u32::from(!is_kept));
            if best.is_none_or(|(least, _)| value < least) {
                best = Some((value, cut));
            }
        }
        let (value, cut) = best.unwrap_or(((left.iter().sum(), 0, 0), 0));
        self.known.insert(key, (value, Some(cut)));
        value
    }
}
