//! Tides whose document went while they lent something.
//!
//! What is lent does not come back by itself, and quota that was given for it must not be given twice. So a tide that is
//! gone is taken as one that was turned when its document was missed first, until everything is back. Called by `round`,
//! which knows from the ledger what was lent.

use std::sync::Arc;

use jiff::Timestamp;

use super::layout::WHOLE;
use super::standing::{LoanSpec, Standing, TideSpec};
use super::target::{Part, Purpose, Target};
use super::tide::Phase;
use crate::ids::TideName;

impl Target {
    /// With a tide that is gone, where something of what it lent can still be asked back; whether there is.
    pub fn ask_back(&mut self, name: &TideName, spec: &TideSpec, turned: Timestamp, now: Timestamp) -> bool {
        let loans: Vec<LoanSpec> = spec.loans.iter().filter(|loan| is_open(&self.standing, loan)).cloned().collect();
        if loans.is_empty() {
            return false;
        }
        let due = turned.checked_add(spec.lead.signed()).unwrap_or(Timestamp::MAX);
        let hard_at = due.checked_sub(spec.hard_at.signed()).unwrap_or(due);
        let phase = match () {
            () if now < hard_at => Phase::Reclaiming { hard_at, due },
            () if now < due => Phase::HardReclaim { due },
            () => Phase::High,
        };
        if phase != Phase::High {
            for loan in &loans {
                let (tide, from, to) = (name.clone(), loan.from.clone(), loan.to.clone());
                self.take_own(loan, &Purpose::Returning { tide, from, to, hard_at, due });
            }
        }
        self.tides.insert(name.clone(), phase);
        let spec = TideSpec { loans, guard: None, ..spec.clone() };
        Arc::make_mut(&mut self.standing).tides.insert(name.clone(), spec);
        true
    }

    /// Gives a pool's own slots another purpose, from the bottom: there they were lent.
    fn take_own(&mut self, loan: &LoanSpec, purpose: &Purpose) {
        let Some(pool) = self.pools.get_mut(&loan.pool) else { return };
        let mut left = loan.nodes;
        let mut parts = Vec::new();
        for part in std::mem::take(&mut pool.parts) {
            let taken = if part.purpose == Purpose::Own { left.min(part.nodes) } else { 0 };
            left -= taken;
            let rest = Part { first: part.first + taken, nodes: part.nodes - taken, ..part.clone() };
            let taken = Part { nodes: taken, purpose: purpose.clone(), ..part };
            parts.extend([taken, rest].into_iter().filter(|part| part.nodes > 0));
        }
        pool.parts = parts;
    }
}

/// Whether what a loan was about is still in the documents, and no other tide has taken it over.
fn is_open(standing: &Standing, loan: &LoanSpec) -> bool {
    let is_same = |other: &LoanSpec| other.pool == loan.pool && other.from == loan.from && other.to == loan.to;
    let taken_over = standing.tides.values().flat_map(|tide| &tide.loans).any(is_same);
    let is_live = |name| standing.quotas.get(name).is_some_and(|quota| !quota.retire);
    let is_cut = loan.layout.as_str() == WHOLE || standing.layouts.contains_key(&loan.layout);
    !taken_over && is_cut && standing.pools.contains_key(&loan.pool) && is_live(&loan.from) && is_live(&loan.to)
}
