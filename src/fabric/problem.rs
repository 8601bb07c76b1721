//! What is asked of a placement: hosts, pools, and what crossing and moving cost.

use super::tree::Tree;
use crate::ids::PoolName;

/// Which host serves which pool is to be found.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    pub tree: &'a Tree,
    /// As the hosts of the tree.
    pub hosts: Vec<Host>,
    pub pools: Vec<Ask>,
    pub prices: Prices,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// Hosts of one class are alike to every pool: of the same type, zone, reservation and labels.
    pub class: u32,
    pub gpus: u32,
    /// The pool that it serves, by its number.
    pub pool: Option<u32>,
    pub free: Freedom,
}

/// What may be done with a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freedom {
    /// Any pool may have it that its class suits.
    Usable,
    /// It stays where it is.
    Fixed,
    /// Nobody can have it: busy with something else, or out of service.
    Out,
}

/// One pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    pub name: PoolName,
    pub nodes: u32,
    /// By class: whether its hosts suit.
    pub suits: Vec<bool>,
    /// The level that its nodes should share.
    pub together: Option<usize>,
    /// Rather no node than one in another place.
    pub required: bool,
    /// Pools that should not share that level with this one.
    pub apart: Vec<u32>,
}

/// What the objective weighs. All in the cost of one crossing of the finest level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prices {
    /// By level: what one more domain of it costs a pool.
    pub crossing: Vec<u64>,
    /// How many times as much where a pool asks to be together there.
    pub asked: u64,
    /// What it costs to empty a node and give it to another pool.
    pub moving: u64,
}

impl Prices {
    /// Each level up costs twice the level below, as a fabric that is thinned two to one at every level does.
    pub fn doubling(levels: usize) -> Self {
        let crossing = (0..levels).map(|level| 1u64 << (levels - 1 - level)).collect();
        Self { crossing, asked: 4, moving: 2 }
    }
}

impl Problem<'_> {
    /// What one more domain of a level costs a pool.
    pub fn weight(&self, pool: &Ask, level: usize) -> u64 {
        let asked = pool.together.is_some_and(|together| level <= together);
        self.prices.crossing[level] * if asked { self.prices.asked } else { 1 }
    }
}

/// The sizes of free slots that are counted, in GPUs.
pub const SLOTS: [u32; 5] = [128, 64, 32, 16, 8];

/// How good a placement is: the smaller the better, the first difference decides.
///
/// In this order: nodes that got no place; domains that pools share which should be apart; crossings and moves at their
/// prices; free slots of 128, then 64, 32, 16 and 8 GPUs, over all levels (the more the better); moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Score {
    pub unplaced: u64,
    pub shared: u64,
    pub cost: u64,
    pub slots: Slots,
    pub moves: u64,
}

/// More is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slots(pub [u64; SLOTS.len()]);

impl PartialOrd for Slots {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slots {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}
