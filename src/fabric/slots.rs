//! How broken up the free GPUs are: how many slots of each size are free on each level.

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
    let mut found = Vec::new();
    for (level, domains) in tree.levels.iter().zip(&tree.domains) {
        let mut of_level = FreeSlots { level: level.clone(), slots: [0; SLOTS.len()], largest: 0 };
        for domain in domains {
            let gpus: u32 = free[domain.hosts.start as usize..domain.hosts.end as usize].iter().sum();
            of_level.largest = of_level.largest.max(gpus);
            for (count, size) in of_level.slots.iter_mut().zip(SLOTS) {
                *count += u64::from(gpus / size);
            }
        }
        found.push(of_level);
    }
    found
}
