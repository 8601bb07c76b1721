//! Nodes that show what their HealthPolicy only reports.

use jiff::Timestamp;

use super::pools::{ByInstance, by_instance, node_of};
use crate::fleet::policy::Remedy;
use crate::ids::{NodeName, PolicyName, PoolName};
use crate::plan::{PlanInput, reported};

/// What people are told of a node, and nothing is done about.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportStatus {
    pub node: NodeName,
    pub pool: PoolName,
    pub policy: PolicyName,
    pub symptom: String,
    pub since: Timestamp,
    /// What is done when it comes again within a week.
    pub next: Option<Remedy>,
}

pub fn reports(input: &PlanInput) -> Vec<ReportStatus> {
    let by_instance: ByInstance<'_> = by_instance(input);
    let mut all = Vec::new();
    for (pool, known) in input.ledger.pools.iter().filter(|(pool, _)| input.target.pools.contains_key(*pool)) {
        for slot in known.slots.values() {
            let Some(node) = node_of(input, slot, &by_instance) else { continue };
            let Some((policy, reports)) = reported::of(input, pool, slot, node) else { continue };
            all.extend(reports.into_iter().map(|one| ReportStatus {
                node: node.0.clone(),
                pool: pool.clone(),
                policy: policy.clone(),
                symptom: one.symptom,
                since: one.since,
                next: one.next,
            }));
        }
    }
    all
}
