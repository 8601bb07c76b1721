//! How pools stand on the fabric, before a plan and after it: plain data, for people and programs.

use serde::{Deserialize, Serialize};

use super::placing::Choice;
use crate::ids::{LevelName, NodeName, PoolName};

/// The fleet on its fabric. Crossings are counted at their prices: one more domain of the finest level is 1, of each
/// level above twice the one below.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stands {
    /// Coarse to fine.
    pub levels: Vec<LevelName>,
    pub pools: Vec<PoolStands>,
    /// By level, coarse to fine: of nodes that no pool has.
    pub slots: Vec<LevelSlots>,
    /// The same of nodes in service on which no GPU is in use, inside one pool each.
    #[serde(default)]
    pub idle: Vec<LevelSlots>,
    /// FGD's measure, by GPUs alone; none where no work is seen that would say what is useful.
    pub fragmented: Option<Fragmented>,
    /// Moves of nodes that are proposed, those together that only pay together.
    pub bargains: Vec<Bargain>,
    /// What nodes say of their place and does not fit, with their names.
    pub odd: Vec<crate::fabric::Note>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PoolStands {
    pub pool: PoolName,
    pub choice: Choice,
    /// How many nodes it wants, those that are launched with them.
    pub wanted: u32,
    /// The level that its nodes should share.
    pub together: Option<LevelName>,
    pub required: bool,
    pub before: Where,
    pub after: Where,
    /// The best place without the one that it has then; none where there is nothing to choose or no other place.
    pub next: Option<Next>,
    /// Nothing of it can be given another place now.
    pub fixed: bool,
    /// How many times as long an all-reduce over all of it takes as in the best place for so many, in hundredths; after
    /// the plan, where that is longer.
    pub slower: Option<u32>,
    /// Pools that it should be apart from and is not, after the plan.
    pub beside: Vec<PoolName>,
}

/// Where a pool's nodes hang.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Where {
    pub nodes: u32,
    /// The finest level on which it is in one domain, and that domain.
    pub within: Option<(LevelName, String)>,
    /// The finest domains with how many nodes in each.
    pub leaves: Vec<(String, u32)>,
    pub crossings: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Next {
    /// Where nodes would be that are elsewhere now, and how many.
    pub leaves: Vec<(String, u32)>,
    pub unplaced: u32,
    /// What more its crossings would cost.
    pub more: i64,
    pub moves: u64,
}

/// Free slots of one level: 128, 64, 32, 16 and 8 GPUs, before and after.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LevelSlots {
    pub level: LevelName,
    pub before: [u64; crate::fabric::SLOTS.len()],
    pub after: [u64; crate::fabric::SLOTS.len()],
    /// Free GPUs of the domain that has the most.
    pub largest: (u32, u32),
}

/// Thousandths of GPUs on serving nodes, before and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fragmented {
    pub free: (u64, u64),
    /// Of the free ones, what work of the shapes that run now cannot use.
    pub lost: (u64, u64),
}

/// Moves that pay together, and what they buy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bargain {
    pub moves: Vec<NodeMove>,
    /// Crossings that are saved, less than nothing where others gain.
    pub saves: i64,
    /// Free slots that are won or lost over all levels: GPUs and how many.
    pub slots: Vec<(u32, i64)>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeMove {
    pub node: NodeName,
    pub from: PoolName,
    /// None: it is free then.
    pub to: Option<PoolName>,
    /// Work is on it now.
    pub busy: bool,
}

impl Where {
    /// "leaf-a1 ×4 and leaf-a2 ×2"
    pub fn parts(&self) -> Vec<String> {
        self.leaves.iter().map(|(leaf, many)| format!("{leaf} ×{many}")).collect()
    }
}
