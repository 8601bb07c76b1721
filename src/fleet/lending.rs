//! Loans that leave the cut of the nodes as it is, and the circles of quotas that they join.
//!
//! Such a loan moves no quota. The lender keeps its own at every hour, so that its queue takes back by itself what it
//! needs; the borrower may use it while the tide is low. For that both stand below one cohort of the tides' own, apart
//! from everybody else: a *circle*. Nodes that are cut anew hold something else while they are lent, so that quota
//! moves with them.

use std::collections::BTreeSet;

use super::standing::{LoanSpec, Standing};
use super::target::Purpose;
use crate::ids::{PoolName, QuotaName};

/// Quotas that lend to each other.
#[derive(Clone, PartialEq, Debug)]
pub struct Circle {
    pub members: BTreeSet<QuotaName>,
    /// The cohort that those of them are in who are in one.
    pub cohort: Option<String>,
}

impl Standing {
    /// Loans whose lender keeps its quota while they last.
    pub fn kept_loans(&self) -> impl Iterator<Item = &LoanSpec> {
        let all = self.tides.values().flat_map(|tide| &tide.loans);
        all.filter(|loan| self.is_as_cut(loan) && self.circle_of(&loan.to).is_some())
    }

    /// The lender of some nodes, if it keeps its quota meanwhile: who gave them, and to whom.
    pub fn keeper<'a>(&self, pool: &PoolName, purpose: &'a Purpose) -> Option<(&'a QuotaName, &'a QuotaName)> {
        let (Purpose::Lent { tide, from, to } | Purpose::Returning { tide, from, to, .. }) = purpose else {
            return None;
        };
        let loans = &self.tides.get(tide)?.loans;
        let mut loans = loans.iter().filter(|loan| loan.pool == *pool && loan.from == *from && loan.to == *to);
        let kept = loans.all(|loan| self.is_as_cut(loan)) && self.circle_of(to).is_some();
        kept.then_some((from, to))
    }

    /// The circle that a quota is in. Quotas of two cohorts are in none: they cannot stand below one and stay in both.
    pub fn circle_of(&self, quota: &QuotaName) -> Option<Circle> {
        let is_live = |name| self.quotas.get(name).is_some_and(|quota| !quota.retire);
        let loans = || self.tides.values().flat_map(|tide| &tide.loans).filter(|loan| self.is_as_cut(loan));
        let loans = || loans().filter(|loan| is_live(&loan.from) && is_live(&loan.to));
        let mut members = BTreeSet::from([quota.clone()]);
        loop {
            let touches = |loan: &&LoanSpec| members.contains(&loan.from) != members.contains(&loan.to);
            let Some(loan) = loans().find(touches) else { break };
            members.extend([loan.from.clone(), loan.to.clone()]);
        }
        let cohorts: BTreeSet<&str> =
            members.iter().filter_map(|name| self.quotas.get(name)?.cohort.as_deref()).collect();
        let cohort = cohorts.first().map(ToString::to_string);
        (members.len() > 1 && cohorts.len() < 2).then_some(Circle { members, cohort })
    }

    fn is_as_cut(&self, loan: &LoanSpec) -> bool {
        self.pools.get(&loan.pool).is_some_and(|pool| pool.layout == loan.layout)
    }
}
