//! Where machines stand: spines over blocks over leaves over hosts, in each zone for each type apart.
//!
//! Hosts are numbered, and their number says where they stand. Some are busy with other people's machines; which ones
//! is a roll of the dice. A reservation has its hosts from the beginning.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::dice::Dice;
use crate::ids::{HostName, InstanceType, Zone};

/// Enough that a pool of 16 finds one leaf in spite of others.
const HOSTS_A_LEAF: u32 = 32;
const LEAVES_A_BLOCK: u32 = 4;
const BLOCKS_A_SPINE: u32 = 4;
/// Machines of other people, in percent.
const BUSY: u64 = 25;
/// Over how many leaves single launches are scattered.
const SCATTER: u64 = 16;
/// In how many leaves hosts are told of.
const OFFERED: u32 = 8;

/// The hosts that are taken by this account.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fabric(BTreeMap<InstanceType, BTreeMap<Zone, BTreeSet<u32>>>);

/// One kind of machine in one zone.
#[derive(Clone, Copy, Debug)]
pub struct Hall<'a> {
    pub instance_type: &'a InstanceType,
    pub zone: &'a Zone,
}

impl Fabric {
    /// Takes hosts: near those that are named, else as close together as there are any.
    pub fn take(&mut self, dice: Dice, hall: Hall<'_>, count: u32, near: &[u32]) -> Vec<u32> {
        let first = match near.first() {
            Some(host) => host / HOSTS_A_LEAF,
            None if count == 1 => {
                let taken = self.taken(hall).map_or(0, BTreeSet::len).to_string();
                let words = ["scatter", hall.instance_type.as_str(), hall.zone.as_str(), &taken];
                u32::try_from(dice.between(0, SCATTER, &words)).unwrap_or(0)
            }
            None => self.roomiest(dice, hall, count),
        };
        let mut found: Vec<u32> = Vec::new();
        for leaf in outward(first) {
            let missing = usize::try_from(count).unwrap_or(usize::MAX) - found.len();
            found.extend(self.free(dice, hall, leaf).take(missing));
            if found.len() == count as usize {
                break;
            }
        }
        let taken = self.0.entry(hall.instance_type.clone()).or_default().entry(hall.zone.clone()).or_default();
        taken.extend(&found);
        found
    }

    /// Takes this very host, if nobody has it.
    pub fn take_this(&mut self, dice: Dice, hall: Hall<'_>, host: u32) -> bool {
        let is_free = self.free(dice, hall, host / HOSTS_A_LEAF).any(|free| free == host);
        if is_free {
            let taken = self.0.entry(hall.instance_type.clone()).or_default().entry(hall.zone.clone()).or_default();
            taken.insert(host);
        }
        is_free
    }

    /// The free hosts that are told of: there are more.
    pub fn offered<'a>(&'a self, dice: Dice, hall: Hall<'a>) -> impl Iterator<Item = u32> + 'a {
        (0..OFFERED).flat_map(move |leaf| self.free(dice, hall, leaf))
    }

    pub fn release(&mut self, hall: Hall<'_>, host: u32) {
        if let Some(taken) = self.0.get_mut(hall.instance_type).and_then(|zones| zones.get_mut(hall.zone)) {
            taken.remove(&host);
        }
    }

    fn taken(&self, hall: Hall<'_>) -> Option<&BTreeSet<u32>> {
        self.0.get(hall.instance_type)?.get(hall.zone)
    }

    fn free<'a>(&'a self, dice: Dice, hall: Hall<'a>, leaf: u32) -> impl Iterator<Item = u32> + 'a {
        let taken = self.taken(hall);
        (leaf * HOSTS_A_LEAF..(leaf + 1) * HOSTS_A_LEAF).filter(move |host| {
            let words = ["busy", hall.instance_type.as_str(), hall.zone.as_str(), &host.to_string()];
            dice.between(0, 100, &words) >= BUSY && !taken.is_some_and(|taken| taken.contains(host))
        })
    }

    /// The first leaf that has room for all; else the first leaf of the first block that has; else where most is free.
    fn roomiest(&self, dice: Dice, hall: Hall<'_>, count: u32) -> u32 {
        let mut block = 0;
        for leaf in 0..64 {
            let free = self.free(dice, hall, leaf).count();
            if free >= count as usize {
                return leaf;
            }
            block = if leaf % LEAVES_A_BLOCK == 0 { free } else { block + free };
            if count > HOSTS_A_LEAF && leaf % LEAVES_A_BLOCK == LEAVES_A_BLOCK - 1 && block >= count as usize {
                return leaf + 1 - LEAVES_A_BLOCK;
            }
        }
        let most = (0..64).max_by_key(|leaf| (self.free(dice, hall, *leaf).count(), 64 - leaf));
        most.unwrap_or(0)
    }
}

/// All leaves, nearest first: the same, the rest of its block, the rest of its spine, then from the beginning. There
/// are more than anybody can fill.
fn outward(first: u32) -> impl Iterator<Item = u32> {
    let around = |size: u32| (first / size * size..first / size * size + size).collect::<Vec<u32>>();
    let mut seen = BTreeSet::new();
    std::iter::once(first)
        .chain(around(LEAVES_A_BLOCK))
        .chain(around(LEAVES_A_BLOCK * BLOCKS_A_SPINE))
        .chain(0..u32::MAX / HOSTS_A_LEAF)
        .filter(move |leaf| seen.insert(*leaf))
}

/// How a host is called.
pub fn name(hall: Hall<'_>, host: u32) -> HostName {
    format!("{}/{}/{host}", hall.instance_type, hall.zone).into()
}

/// The host of a name, if it is of this hall.
pub fn number(hall: Hall<'_>, name: &HostName) -> Option<u32> {
    let number = name.as_str().rsplit('/').next()?.parse().ok()?;
    (self::name(hall, number) == *name).then_some(number)
}

/// How many layers EC2 tells for a type; none where it tells nothing.
pub fn layers(instance_type: &InstanceType) -> usize {
    let name = instance_type.as_str();
    let starts = |families: &[&str]| families.iter().any(|family| name.starts_with(family));
    if starts(&["p6-"]) {
        4
    } else if starts(&["p3dn.", "p4d.", "p4de.", "p5", "p6e-", "g6e.", "g7e.", "trn", "hpc"]) {
        3
    } else {
        0
    }
}

/// Where a host stands, from the top.
pub fn path(dice: Dice, hall: Hall<'_>, host: u32) -> Vec<String> {
    let leaf = host / HOSTS_A_LEAF;
    let spine = leaf / LEAVES_A_BLOCK / BLOCKS_A_SPINE;
    let places = [spine, leaf / LEAVES_A_BLOCK, leaf, host / (HOSTS_A_LEAF / 2)];
    let name = |(layer, place): (usize, u32)| {
        let words = [hall.instance_type.as_str(), hall.zone.as_str(), &layer.to_string(), &place.to_string()];
        dice.id("nn", &words)
    };
    places.into_iter().enumerate().take(layers(hall.instance_type)).map(name).collect()
}

/// What the paths of some hosts have in common, from the top.
pub fn common(dice: Dice, hall: Hall<'_>, hosts: impl IntoIterator<Item = u32>) -> Vec<String> {
    let mut hosts = hosts.into_iter();
    let Some(first) = hosts.next() else { return Vec::new() };
    let mut shared = path(dice, hall, first);
    for host in hosts {
        let same = path(dice, hall, host).iter().zip(&shared).take_while(|(one, other)| one == other).count();
        shared.truncate(same);
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(count: u32, near: &[u32], fabric: &mut Fabric, name: &str) -> (Vec<u32>, Vec<Vec<String>>) {
        let (instance_type, zone) = (InstanceType::from(name), Zone::from("us-west-2a"));
        let hall = Hall { instance_type: &instance_type, zone: &zone };
        let hosts = fabric.take(Dice(1), hall, count, near);
        let paths = hosts.iter().map(|host| path(Dice(1), hall, *host)).collect();
        (hosts, paths)
    }

    #[test]
    fn sixteen_hosts_of_a_reservation_stand_on_one_leaf() {
        let (hosts, paths) = paths(16, &[], &mut Fabric::default(), "p5.48xlarge");
        assert_eq!((hosts.len(), paths[0].len()), (16, 3));
        assert!(paths.iter().all(|path| *path == paths[0]), "{paths:?}");
    }

    #[test]
    fn a_host_is_given_once_and_can_be_had_again_when_it_is_released() {
        let mut fabric = Fabric::default();
        let (first, _) = paths(40, &[], &mut fabric, "p5.48xlarge");
        let (second, _) = paths(40, &[first[0]], &mut fabric, "p5.48xlarge");
        assert!(first.iter().all(|host| !second.contains(host)));
        let (instance_type, zone) = (InstanceType::from("p5.48xlarge"), Zone::from("us-west-2a"));
        fabric.release(Hall { instance_type: &instance_type, zone: &zone }, first[0]);
        assert_eq!(paths(1, &[first[0]], &mut fabric, "p5.48xlarge").0, [first[0]]);
    }

    #[test]
    fn a_neighbour_stands_on_the_same_leaf_while_that_has_room() {
        let mut fabric = Fabric::default();
        let (first, one) = paths(1, &[], &mut fabric, "p5.48xlarge");
        let (_, two) = paths(1, &first, &mut fabric, "p5.48xlarge");
        assert_eq!(one, two);
    }

    #[test]
    fn some_hosts_are_busy_with_others() {
        let (hosts, _) = paths(HOSTS_A_LEAF, &[0], &mut Fabric::default(), "p5.48xlarge");
        assert!(hosts.iter().any(|host| *host >= HOSTS_A_LEAF), "a whole leaf was free: {hosts:?}");
    }

    #[test]
    fn the_depth_is_that_of_the_type() {
        for (name, depth) in [("p5.48xlarge", 3), ("p6-b200.48xlarge", 4), ("p6e-gb200.36xlarge", 3), ("m7i.large", 0)]
        {
            assert_eq!(paths(1, &[], &mut Fabric::default(), name).1[0].len(), depth, "{name}");
        }
    }
}
