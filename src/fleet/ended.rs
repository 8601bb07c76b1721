//! Loans that an edit ended while they were lent: another number of nodes, another borrower, another cut, or no loan.
//!
//! What is lent does not come back because somebody writes less. So what a tide is remembered to lend beyond what its
//! document lends now is asked back as by a recall, from the moment when that was seen first, until it is back. It
//! stands among the tide's loans meanwhile, so that its borrower keeps its queue and its cohort, with nothing in them.
//! Called by `round`, which knows from the ledger what was lent.

use std::sync::Arc;

use jiff::Timestamp;

use super::layout::WHOLE;
use super::standing::{LoanSpec, Standing, TideSpec};
use super::target::Target;
use super::tide::Phase;
use crate::ids::TideName;

impl Target {
    /// With what a tide that has a document is remembered to lend beyond it.
    pub fn end_loans(&mut self, name: &TideName, known: &TideSpec, now: Timestamp) {
        let Some(spec) = self.standing.tides.get(name) else { return };
        let mut ended = ended(&known.loans, &spec.loans, now);
        ended.retain(|loan| is_open(&self.standing, loan));
        if ended.is_empty() {
            return;
        }
        if let Some(spec) = Arc::make_mut(&mut self.standing).tides.get_mut(name) {
            spec.loans.extend(ended);
        }
    }
}

impl TideSpec {
    /// The instants from which nobody is asked any more, and at which it is due, of what this tide has lent; of what
    /// an edit ended, as if it had been recalled then. None while the tide is high: then it is late.
    pub fn asks_back(&self, ended: Option<Timestamp>, phase: Phase) -> Option<(Timestamp, Timestamp)> {
        let on = |at: Timestamp| at.checked_add(self.lead.signed()).unwrap_or(Timestamp::MAX);
        let turns = match phase {
            Phase::High => return None,
            Phase::Low { reclaim_at } => on(reclaim_at),
            Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => due,
        };
        let due = ended.map_or(turns, |at| on(at).min(turns));
        Some((due.checked_sub(self.hard_at.signed()).unwrap_or(due), due))
    }
}

/// What of some loans is in the document no more. A loan is the same as long as nodes of the same pool, cut the same
/// way, go from the same quota to the same; what was ended before and is lent again is ended no more.
fn ended(known: &[LoanSpec], lent: &[LoanSpec], now: Timestamp) -> Vec<LoanSpec> {
    let mut left: Vec<LoanSpec> = lent.to_vec();
    let mut found = Vec::new();
    // What is lent still is, as far as it goes, what was not ended before.
    let (before, lasting): (Vec<&LoanSpec>, Vec<&LoanSpec>) = known.iter().partition(|loan| loan.ended.is_some());
    for loan in lasting.into_iter().chain(before) {
        let mut over = loan.nodes;
        for other in left.iter_mut().filter(|other| is_same(other, loan)) {
            let taken = over.min(other.nodes);
            (over, other.nodes) = (over - taken, other.nodes - taken);
        }
        if over > 0 {
            found.push(LoanSpec { nodes: over, ended: loan.ended.or(Some(now)), ..loan.clone() });
        }
    }
    found
}

fn is_same(one: &LoanSpec, other: &LoanSpec) -> bool {
    one.pool == other.pool && one.from == other.from && one.to == other.to && one.layout == other.layout
}

/// Whether the nodes that a loan was about are still in the documents. Who lent or borrowed them need not be.
pub(super) fn is_open(standing: &Standing, loan: &LoanSpec) -> bool {
    let is_cut = loan.layout.as_str() == WHOLE || standing.layouts.contains_key(&loan.layout);
    is_cut && standing.pools.contains_key(&loan.pool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::at;

    #[test]
    fn what_the_document_lends_no_more_is_ended_once() {
        let (now, before) = (at("2026-03-02T21:00Z"), at("2026-03-02T20:30Z"));
        let loan = |to: &str, nodes, ended| LoanSpec {
            pool: "serve".into(),
            nodes,
            from: "serving".into(),
            to: to.into(),
            queue: to.into(),
            layout: "whole".into(),
            ended,
        };
        let (a, b) = (|nodes| loan("a", nodes, None), |nodes| loan("b", nodes, None));
        for (known, lent, expected, why) in [
            (vec![a(2)], vec![a(2)], vec![], "as it was"),
            (vec![a(2)], vec![a(3)], vec![], "more"),
            (vec![a(2)], vec![a(1)], vec![loan("a", 1, Some(now))], "less"),
            (vec![a(2)], vec![b(2)], vec![loan("a", 2, Some(now))], "to somebody else"),
            (vec![a(2), b(1)], vec![b(1)], vec![loan("a", 2, Some(now))], "one of two"),
            (
                vec![a(1), loan("a", 1, Some(before))],
                vec![a(1)],
                vec![loan("a", 1, Some(before))],
                "known since it was seen first",
            ),
            (vec![a(1), loan("a", 1, Some(before))], vec![a(2)], vec![], "lent again"),
            (
                vec![a(1), loan("a", 1, Some(before))],
                vec![],
                vec![loan("a", 1, Some(now)), loan("a", 1, Some(before))],
                "the rest too",
            ),
        ] {
            assert_eq!(ended(&known, &lent, now), expected, "{why}");
        }
    }
}
