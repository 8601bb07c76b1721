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
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
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

    /// Takes something away, down to nothing.
    pub fn subtract(&mut self, other: &Supply) {
        self.nodes = self.nodes.saturating_sub(other.nodes);
        self.gpus = self.gpus.saturating_sub(other.gpus);
        for (profile, count) in &mut self.slices {
            *count = count.saturating_sub(other.slices.get(profile).copied().unwrap_or(0));
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

    /// This amount, or as much of it as the other has in the same unit.
    pub fn at_most(&self, other: &Amount) -> Amount {
        match (self, other) {
            (Self::Gpus(a), Self::Gpus(b)) => Self::Gpus(*a.min(b)),
            (Self::Nodes(a), Self::Nodes(b)) => Self::Nodes(*a.min(b)),
            (Self::Slices(a), Self::Slices(b)) => {
                Self::Slices(a.iter().map(|(p, n)| (p.clone(), (*n).min(b.get(p).copied().unwrap_or(0)))).collect())
            }
            _ => self.clone(),
        }
    }

    /// This amount in the unit of another, given what one node holds. A node that has GPUs or slices counts by them, so
    /// that parts of nodes add up to nodes. `None` where the one says nothing about the other: GPUs and slices.
    pub fn in_unit_of(&self, unit: &Amount, per_node: &Supply) -> Option<Amount> {
        match (self, unit) {
            _ if self.same_unit(unit) => Some(self.clone()),
            (Self::Nodes(_), Self::Gpus(_)) => Some(Self::Gpus(self.supply(per_node).gpus)),
            (Self::Nodes(_), Self::Slices(_)) => Some(Self::Slices(self.supply(per_node).slices)),
            (Self::Gpus(gpus), Self::Nodes(_)) => gpus.checked_div(per_node.gpus).map(Self::Nodes),
            (Self::Slices(slices), Self::Nodes(_)) => {
                let of = |profile| slices.get(profile).copied().unwrap_or(0);
                let nodes = per_node.slices.iter().filter_map(|(profile, each)| of(profile).checked_div(*each)).min();
                nodes.map(Self::Nodes)
            }
            _ => None,
        }
    }

    /// Nothing, in the same unit.
    pub fn nothing(&self) -> Amount {
        match self {
            Self::Gpus(_) => Self::Gpus(0),
            Self::Nodes(_) => Self::Nodes(0),
            Self::Slices(slices) => Self::Slices(slices.keys().map(|profile| (profile.clone(), 0)).collect()),
        }
    }

    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Gpus(count) | Self::Nodes(count) => *count == 0,
            Self::Slices(slices) => slices.values().all(|count| *count == 0),
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
            Self::Slices(slices) if slices.is_empty() => f.write_str("no slices"),
            Self::Slices(slices) => {
                let parts: Vec<String> = slices.iter().map(|(p, n)| format!("{n} × {p}")).collect();
                f.write_str(&parts.join(" + "))
            }
        }
    }
}

/// In the unit that it is used in: slices and whole GPUs, or nodes that have neither.
impl fmt::Display for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpus = (self.gpus > 0).then(|| Amount::Gpus(self.gpus).to_string());
        let slices = self.slices.iter().filter(|(_, n)| **n > 0).map(|(profile, n)| format!("{n} × {profile}"));
        let parts: Vec<String> = gpus.into_iter().chain(slices).collect();
        if parts.is_empty() { Amount::Nodes(self.nodes).fmt(f) } else { f.write_str(&parts.join(" + ")) }
    }
}
