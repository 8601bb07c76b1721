//! How broken up the free GPUs are: how many slots of each size are free on each level.

use std::collections::BTreeMap;

use super::problem::SLOTS;
use super::tree::Tree;
use crate::ids::LevelName;

/// One level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FreeSlots {
    pub level: LevelName,
    /// As [`SLOTS`]: how many slots of so many GPUs are free inside one domain each.
    pub slots: [u64; SLOTS.len()],
    /// Free GPUs of the domain that has the most.
    pub largest: u32,
}

/// By level, from the top; `free` has the free GPUs of each host of the tree.
pub fn free_slots(tree: &Tree, free: &[u32]) -> Vec<FreeSlots> {
    slots_of(tree, free, |_| 0)
}

/// The same where hosts of different kinds are of no use to each other; one without a kind is none of it.
pub fn slots_by_kind(tree: &Tree, free: &[u32], kinds: &[Option<u32>]) -> Vec<FreeSlots> {
    let free: Vec<u32> = free.iter().zip(kinds).map(|(free, kind)| if kind.is_some() { *free } else { 0 }).collect();
    slots_of(tree, &free, |host| kinds[host].unwrap_or(0))
}

fn slots_of(tree: &Tree, free: &[u32], kind: impl Fn(usize) -> u32) -> Vec<FreeSlots> {
    let mut found = Vec::new();
    for (level, domains) in tree.levels.iter().zip(&tree.domains) {
        let mut of_level = FreeSlots { level: level.clone(), slots: [0; SLOTS.len()], largest: 0 };
        for domain in domains {
            let mut kinds: BTreeMap<u32, u32> = BTreeMap::new();
            for host in (domain.hosts.start as usize..domain.hosts.end as usize).filter(|host| free[*host] > 0) {
                *kinds.entry(kind(host)).or_default() += free[host];
            }
            for gpus in kinds.into_values() {
                of_level.largest = of_level.largest.max(gpus);
                for (count, size) in of_level.slots.iter_mut().zip(SLOTS) {
                    *count += u64::from(gpus / size);
                }
            }
        }
        found.push(of_level);
    }
    found
}
