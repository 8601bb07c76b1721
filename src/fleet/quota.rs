//! A team's share, and amounts of a pool in nodes, GPUs or slices.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diag::At;
use crate::ids::{MigProfile, PoolName, QuotaName, TierName};

/// A team's share: its floor, what it may borrow, what it lends.
#[derive(Clone, PartialEq, Debug)]
pub struct Quota {
    pub name: At<QuotaName>,
    pub cluster_queue: At<String>,
    pub namespaces: Vec<At<Namespace>>,
    pub cohort: Option<At<String>>,
    pub tiers: Vec<At<TierName>>,
    pub shares: Vec<Share>,
    pub total: Option<At<Amount>>,
    pub weight: u32,
    pub retire: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Namespace {
    pub name: String,
    pub local_queue: String,
}

/// A share of one pool.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    pub pool: At<PoolName>,
    pub guarantee: At<Amount>,
    pub borrow: Option<At<Amount>>,
    pub lend: Option<At<Amount>>,
}

impl Quota {
    pub fn share(&self, pool: &PoolName) -> Option<&Share> {
        self.shares.iter().find(|share| share.pool.value == *pool)
    }

    /// The cohort at the top of its tree: what may be borrowed is shared inside it.
    pub fn root_cohort(&self) -> Option<&str> {
        self.cohort.as_ref().map(|path| path.split('/').next().unwrap_or(path))
    }
}

/// How much of a pool. Exactly one of `gpus`, `nodes` and `slices`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Amount {
    /// Whole GPUs.
    Gpus(#[schemars(range(max = 1_000_000))] u32),
    /// Whole nodes.
    Nodes(#[schemars(range(max = 100_000))] u32),
    /// MIG slices by profile.
    Slices(
        #[schemars(extend("x-tidewright-key-format" = "migProfile", "maxProperties" = 32))] BTreeMap<MigProfile, u32>,
    ),
}

/// What some nodes hold, in every unit at once. A node without GPUs counts as a node.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Supply {
    pub nodes: u32,
    pub gpus: u32,
    pub slices: BTreeMap<MigProfile, u32>,
}

impl Supply {
    pub fn times(&self, nodes: u32) -> Supply {
        Supply {
            nodes: self.nodes.saturating_mul(nodes),
            gpus: self.gpus.saturating_mul(nodes),
            slices: self.slices.iter().map(|(p, n)| (p.clone(), n.saturating_mul(nodes))).collect(),
        }
    }

    pub fn add(&mut self, other: &Supply) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.gpus = self.gpus.saturating_add(other.gpus);
        for (profile, count) in &other.slices {
            let sum = self.slices.entry(profile.clone()).or_insert(0);
            *sum = sum.saturating_add(*count);
        }
    }

    /// How much of it a single unit is: for messages and for what a loan is worth. Slices come first, because a node that
    /// is cut at all is counted by its slices.
    pub fn as_amount(&self) -> Amount {
        if self.slices.values().any(|count| *count > 0) {
            Amount::Slices(self.slices.clone())
        } else if self.gpus > 0 {
            Amount::Gpus(self.gpus)
        } else {
            Amount::Nodes(self.nodes)
        }
    }
}

impl Amount {
    /// This amount in every unit, given what one node holds.
    pub fn supply(&self, per_node: &Supply) -> Supply {
        match self {
            Self::Gpus(gpus) => Supply { gpus: *gpus, ..Supply::default() },
            Self::Nodes(nodes) => per_node.times(*nodes),
            Self::Slices(slices) => Supply { slices: slices.clone(), ..Supply::default() },
        }
    }

    /// What is left of it when nodes are taken away, in its own unit.
    pub fn without(&self, taken: &Supply) -> Amount {
        match self {
            Self::Gpus(gpus) => Self::Gpus(gpus.saturating_sub(taken.gpus)),
            Self::Nodes(nodes) => Self::Nodes(nodes.saturating_sub(taken.nodes)),
            Self::Slices(slices) => Self::Slices(
                slices
                    .iter()
                    .map(|(p, n)| (p.clone(), n.saturating_sub(taken.slices.get(p).copied().unwrap_or(0))))
                    .collect(),
            ),
        }
    }

    /// Whether both count the same thing.
    pub fn same_unit(&self, other: &Amount) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether this is at most the other, in every profile. False when they count different things.
    pub fn within(&self, other: &Amount) -> bool {
        match (self, other) {
            (Self::Gpus(a), Self::Gpus(b)) | (Self::Nodes(a), Self::Nodes(b)) => a <= b,
            (Self::Slices(a), Self::Slices(b)) => a.iter().all(|(p, n)| *n <= b.get(p).copied().unwrap_or(0)),
            _ => false,
        }
    }

    /// The sum of two amounts of one unit; the first alone when they count different things.
    pub fn plus(&self, other: &Amount) -> Amount {
        match (self, other) {
            (Self::Gpus(a), Self::Gpus(b)) => Self::Gpus(a.saturating_add(*b)),
            (Self::Nodes(a), Self::Nodes(b)) => Self::Nodes(a.saturating_add(*b)),
            (Self::Slices(a), Self::Slices(b)) => {
                let mut sum = a.clone();
                for (profile, count) in b {
                    let one = sum.entry(profile.clone()).or_insert(0);
                    *one = one.saturating_add(*count);
                }
                Self::Slices(sum)
            }
            _ => self.clone(),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpus(1) => f.write_str("1 GPU"),
            Self::Gpus(gpus) => write!(f, "{gpus} GPUs"),
            Self::Nodes(1) => f.write_str("1 node"),
            Self::Nodes(nodes) => write!(f, "{nodes} nodes"),
            Self::Slices(slices) => {
                let parts: Vec<String> = slices.iter().map(|(p, n)| format!("{n} × {p}")).collect();
                f.write_str(&parts.join(" + "))
            }
        }
    }
}
