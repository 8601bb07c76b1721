//! What tides lend of nodes that stay as they are cut: quota that the lender keeps.
//!
//! A tide may lend more than its lender is guaranteed, if that much of the pool is guaranteed to nobody. That part is
//! in no queue, so the cohort of the tides holds it while it is lent.

use std::collections::BTreeMap;

use super::holds::{self, Resources};
use crate::fleet::Target;
use crate::fleet::standing::LoanSpec;
use crate::fleet::target::Purpose;
use crate::ids::{PoolName, QuotaName};

/// Some nodes of a pool that are lent or on their way back, whose lender keeps its quota.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept<'a> {
    pub from: &'a QuotaName,
    pub to: &'a QuotaName,
    pub nodes: u32,
    /// Whether they may be used by the borrower now.
    pub lent: bool,
    /// What of them is in the lender's quota.
    pub own: Resources,
    /// What of them is in nobody's.
    pub free: Resources,
}

pub fn kept<'a>(target: &'a Target, name: &PoolName) -> Vec<Kept<'a>> {
    let standing = &target.standing;
    let (Some(pool), Some(now)) = (standing.pools.get(name), target.pools.get(name)) else { return Vec::new() };
    let each = standing.per_node(pool, &pool.layout);
    let counted = |supply| holds::counted(standing, pool, &pool.layout, &supply);
    let mut left: BTreeMap<&QuotaName, Resources> = BTreeMap::new();
    let mut found = Vec::new();
    for part in &now.parts {
        let Some((from, to)) = standing.keeper(name, &part.purpose) else { continue };
        let left = left.entry(from).or_insert_with(|| {
            let share = target.quotas.get(from).and_then(|quota| quota.shares.get(name));
            share.map(|share| counted(share.guarantee.supply(&each))).unwrap_or_default()
        });
        let (mut own, mut free) = (Resources::new(), Resources::new());
        for (resource, amount) in counted(each.times(part.nodes)) {
            let its = left.entry(resource.clone()).or_insert(0);
            let taken = amount.min(*its);
            *its -= taken;
            own.insert(resource.clone(), taken);
            free.insert(resource, amount - taken);
        }
        let lent = matches!(part.purpose, Purpose::Lent { .. });
        found.push(Kept { from, to, nodes: part.nodes, lent, own, free });
    }
    found
}

/// The most that some of these loans ever bring of a pool. Limits that hold at every hour are made of it.
pub fn most(target: &Target, name: &PoolName, is: impl Fn(&LoanSpec) -> bool) -> Resources {
    let standing = &target.standing;
    let Some(pool) = standing.pools.get(name) else { return Resources::new() };
    let loans = standing.kept_loans().filter(|loan| loan.pool == *name && is(loan));
    let parts = loans.map(|loan| {
        let supply = standing.per_node(pool, &pool.layout).times(loan.nodes);
        holds::counted(standing, pool, &pool.layout, &supply)
    });
    holds::sum(parts)
}
