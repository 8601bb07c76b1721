//! How each GPU of a node is cut, and what a node then holds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quota::Supply;
use crate::diag::{At, Span};
use crate::ids::{LayoutName, MigProfile};

/// How each GPU of a node is cut.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    pub name: At<LayoutName>,
    pub cut: Cut,
    pub keep_ready: BTreeMap<At<MigProfile>, At<u32>>,
    pub retire: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Cut {
    Mig(Vec<MigPart>),
    Mps(At<Mps>),
    TimeSlicing(At<TimeSlicing>),
}

/// Some GPUs of a node, cut alike.
#[derive(Clone, PartialEq, Debug)]
pub struct MigPart {
    /// Where its slices are written.
    pub at: SpanOnly,
    /// Empty: all GPUs of the node.
    pub gpus: Vec<At<u32>>,
    pub slices: BTreeMap<MigProfile, At<u32>>,
}

/// A place that is no part of the value: two are always equal.
pub type SpanOnly = At<()>;

impl MigPart {
    pub fn span(&self) -> Span {
        self.at.at
    }

    pub fn counts(&self) -> BTreeMap<MigProfile, u32> {
        self.slices.iter().map(|(profile, count)| (profile.clone(), count.value)).collect()
    }
}

/// The name of the layout that leaves GPUs as they are.
pub const WHOLE: &str = "whole";

/// What one node with this many GPUs holds under a layout; `None` is the built-in `whole`. Shared GPUs (MPS,
/// time-slicing) are counted whole.
pub fn per_node(layout: Option<&Layout>, gpus: u32) -> Supply {
    let mut supply = Supply { nodes: 1, gpus, slices: BTreeMap::new() };
    if let Some(Layout { cut: Cut::Mig(parts), .. }) = layout {
        for part in parts {
            let cut = if part.gpus.is_empty() { gpus } else { u32::try_from(part.gpus.len()).unwrap_or(u32::MAX) };
            supply.gpus = supply.gpus.saturating_sub(cut);
            for (profile, count) in &part.slices {
                let sum = supply.slices.entry(profile.clone()).or_insert(0);
                *sum = sum.saturating_add(count.value.saturating_mul(cut));
            }
        }
    }
    supply
}

/// Several processes on one GPU, each with a share of its memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mps {
    /// How many processes share a GPU.
    #[schemars(range(min = 2, max = 48))]
    pub clients: u32,
    /// How the memory is shared.
    #[serde(default)]
    pub memory: MpsMemory,
}

/// How the memory is shared.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MpsMemory {
    /// Each process gets the same share.
    #[default]
    Even,
}

/// Several processes on one GPU in turn.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeSlicing {
    /// How many processes share a GPU.
    #[schemars(range(min = 2, max = 100))]
    pub replicas: u32,
}
