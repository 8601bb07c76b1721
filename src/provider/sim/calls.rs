//! What was asked of the simulated world: counted by kind, and the last calls in words.
//!
//! Tests judge by it: how much was launched, whether anything was done after convergence, whether something of
//! somebody else was touched.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cloud::CloudState;
use crate::effect::{CloudAction, ClusterAction, Part};
use crate::provider::{PartValue, ProviderError};

/// One thing that somebody wants to change.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'a> {
    Cloud(&'a CloudAction),
    Cluster(&'a ClusterAction),
    Ledger {
        part: &'a Part,
        next: &'a PartValue,
    },
    /// A call in EC2's own words.
    Wire {
        verb: &'static str,
        subject: &'a str,
    },
}

/// The calls that would change something and reached the world.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Calls {
    pub total: u64,
    /// Every call, answered or refused, by verb.
    pub asked: BTreeMap<String, u64>,
    /// Only those after which something was different. For the cluster: those that were answered with yes.
    pub changed: BTreeMap<String, u64>,
    /// Changes of instances and reservations that do not carry our tag.
    pub foreign: u64,
    /// The last ones.
    pub log: VecDeque<Call>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    pub number: u64,
    pub at: Timestamp,
    pub verb: String,
    pub what: String,
    /// False: an instance or a reservation that does not carry our tag.
    pub ours: bool,
    pub answer: String,
}

/// It is part of the state file, which is written after every call.
const REMEMBERED: usize = 200;

impl Calls {
    pub fn note(&mut self, at: Timestamp, deed: &Deed<'_>, ours: bool, answer: Result<bool, &ProviderError>) {
        let verb = deed.verb();
        self.total += 1;
        *self.asked.entry(verb.into()).or_default() += 1;
        if answer.is_ok_and(|changed| changed) {
            *self.changed.entry(verb.into()).or_default() += 1;
            self.foreign += u64::from(!ours);
        }
        let answer = match answer {
            Ok(true) => "done".into(),
            Ok(false) => "nothing to do".into(),
            Err(error) => error.message.clone(),
        };
        let call = Call { number: self.total, at, verb: verb.into(), what: deed.subject(), ours, answer };
        self.log.push_back(call);
        if self.log.len() > REMEMBERED {
            self.log.pop_front();
        }
    }

    pub fn changed(&self, verb: &str) -> u64 {
        self.changed.get(verb).copied().unwrap_or(0)
    }
}

impl Deed<'_> {
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Cloud(action) => action.verb(),
            Self::Cluster(action) => match action {
                ClusterAction::Apply(_) => "apply",
                ClusterAction::Delete(_) => "delete",
                ClusterAction::Disown(_) => "disown",
                ClusterAction::Dress { .. } => "dress",
                ClusterAction::Cordon { .. } => "cordon",
                ClusterAction::Uncordon { .. } => "uncordon",
                ClusterAction::Ask { .. } | ClusterAction::AskPods { .. } => "ask",
                ClusterAction::Suspend { .. } => "suspend",
                ClusterAction::Resume { .. } => "resume",
                ClusterAction::Shrink { .. } => "shrink",
                ClusterAction::Evict { .. } => "evict",
                ClusterAction::Cut { .. } => "cut",
            },
            Self::Ledger { .. } => "remember",
            Self::Wire { verb, .. } => verb,
        }
    }

    pub fn subject(&self) -> String {
        match self {
            Self::Cloud(action) => match action {
                CloudAction::Launch(request) => format!("{} in {}", request.slot, request.zone),
                CloudAction::Terminate { slot, instance } | CloudAction::Reboot { slot, instance } => {
                    format!("{instance} of {slot}")
                }
                CloudAction::Reserve(request) => format!("{}: {} nodes", request.reservation, request.nodes),
                CloudAction::Modify { reservation, id, nodes, .. } => format!("{reservation} {id}: {nodes} nodes"),
                CloudAction::Cancel { reservation, id } => format!("{reservation} {id}"),
                CloudAction::Purchase(request) => {
                    format!("{}: {} for {} dollars", request.reservation, request.offering, request.fee)
                }
                CloudAction::EnsureTemplate(template) => template.name.to_string(),
                CloudAction::EnsureGroup { group } => group.to_string(),
            },
            Self::Cluster(action) => match action {
                ClusterAction::Apply(object) => object.key.to_string(),
                ClusterAction::Delete(key) | ClusterAction::Disown(key) => key.to_string(),
                ClusterAction::Dress { node, .. }
                | ClusterAction::Cordon { node, .. }
                | ClusterAction::Uncordon { node }
                | ClusterAction::Cut { node, .. } => node.to_string(),
                ClusterAction::Ask { workload, .. }
                | ClusterAction::Suspend { workload, .. }
                | ClusterAction::Resume { workload } => workload.to_string(),
                ClusterAction::AskPods { gang, .. } => gang.to_string(),
                ClusterAction::Shrink { workload, pods } => format!("{workload} to {pods} pods"),
                ClusterAction::Evict { pods, force } => {
                    let names: Vec<String> = pods.iter().map(|(pod, _)| pod.to_string()).collect();
                    format!("{}{}", names.join(" "), if *force { " by force" } else { "" })
                }
            },
            Self::Ledger { part: Part::Head, .. } => "head".into(),
            Self::Ledger { part: Part::Pool(pool), .. } => pool.to_string(),
            Self::Wire { subject, .. } => (*subject).to_string(),
        }
    }

    /// Whether what it changes carries our tag. What makes new things, or speaks to the cluster, touches nobody's.
    pub(super) fn is_ours(&self, cloud: &CloudState) -> bool {
        let Self::Cloud(action) = self else { return true };
        match action {
            CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. } => {
                cloud.instances.get(instance).is_none_or(|found| found.tag.is_some())
            }
            CloudAction::Modify { id, .. } | CloudAction::Cancel { id, .. } => {
                cloud.reservations.get(id).is_none_or(|found| found.tag.is_some())
            }
            _ => true,
        }
    }

    /// Whether it asks for machines.
    pub(super) fn wants_capacity(&self) -> bool {
        match self {
            Self::Cloud(action) => matches!(action, CloudAction::Launch(_) | CloudAction::Reserve(_)),
            Self::Wire { verb, .. } => matches!(*verb, "launch" | "reserve"),
            Self::Cluster(_) | Self::Ledger { .. } => false,
        }
    }
}
