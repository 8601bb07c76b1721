//! Tides whose document went while they lent something, or was edited so that they are low no more.
//!
//! What is lent does not come back by itself, and quota that was given for it must not be given twice. So such a tide is
//! taken as one that was turned when that was seen first, until everything is back. Called by `round`, which knows from
//! the ledger what was lent.

use std::sync::Arc;

use jiff::Timestamp;

use super::ended::is_open;
use super::standing::{LoanSpec, Standing, TideSpec};
use super::target::{Part, Purpose, Target};
use super::tide::Phase;
use crate::ids::TideName;

impl Target {
    /// With a tide that is gone, where something of what it lent can still be asked back; whether there is.
    pub fn ask_back(&mut self, name: &TideName, spec: &TideSpec, turned: Timestamp, now: Timestamp) -> bool {
        let stays = |loan: &&LoanSpec| is_open(&self.standing, loan) && !is_taken_over(&self.standing, loan);
        let loans: Vec<LoanSpec> = spec.loans.iter().filter(stays).cloned().collect();
        if loans.is_empty() {
            return false;
        }
        let spec = TideSpec { loans, guard: None, ..spec.clone() };
        Arc::make_mut(&mut self.standing).tides.insert(name.clone(), spec);
        self.turn_back(name, turned, now);
        true
    }

    /// With a tide that was turned at an instant, whatever its windows say: all that it lends is asked back.
    pub fn turn_back(&mut self, name: &TideName, turned: Timestamp, now: Timestamp) {
        let Some(spec) = self.standing.tides.get(name).cloned() else { return };
        let due = turned.checked_add(spec.lead.signed()).unwrap_or(Timestamp::MAX);
        let hard_at = due.checked_sub(spec.hard_at.signed()).unwrap_or(due);
        let phase = match () {
            () if now < hard_at => Phase::Reclaiming { hard_at, due },
            () if now < due => Phase::HardReclaim { due },
            () => Phase::High,
        };
        if phase != Phase::High {
            for loan in &spec.loans {
                let (tide, from, to) = (name.clone(), loan.from.clone(), loan.to.clone());
                self.take_own(loan, &Purpose::Returning { tide, from, to, hard_at, due });
            }
        }
        self.tides.insert(name.clone(), phase);
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

/// Whether another tide has taken a loan over.
fn is_taken_over(standing: &Standing, loan: &LoanSpec) -> bool {
    let is_same = |other: &LoanSpec| other.pool == loan.pool && other.from == loan.from && other.to == loan.to;
    standing.tides.values().flat_map(|tide| &tide.loans).any(is_same)
}
