//! What a person keeps out of service is not opened by a plan, whosever it is: they open it themselves.

use super::Found;
use super::case::Case;
use crate::effect::marks::{CORDON, Mark};
use crate::effect::{Action, ClusterAction};
use crate::ids::NodeName;

const KEPT: &str = "what a person keeps out of service is not opened";

/// A quarantine and a drain are in force until somebody takes them back. Of those that a lost memory knew the mark on the
/// node is left: while nobody settled what was lost, only a word about that node opens it.
pub fn stays_closed(case: &Case<'_>, found: &mut Found) {
    let head = &case.input.ledger.head;
    for (_, step) in case.each() {
        let Action::Cluster(ClusterAction::Uncordon { node }) = &step.action else { continue };
        let order = match () {
            () if head.quarantined.contains_key(node) => "it is in quarantine",
            () if head.drains.contains_key(node) => "it is drained for somebody",
            () if is_of_a_lost_word(case, node) => "it was closed for somebody by a memory that is lost",
            () => continue,
        };
        found.step(KEPT, &step.id, format!("{node} is opened, and {order}"));
    }
}

fn is_of_a_lost_word(case: &Case<'_>, node: &NodeName) -> bool {
    let Some(text) = case.node(node).and_then(|seen| seen.annotation(CORDON)) else { return false };
    let (mark, head) = (Mark::parse(text), &case.input.ledger.head);
    let was_given = mark.why == "quarantine" || mark.why == "drain";
    let is_settled = match (&head.fleet, head.began) {
        // No memory yet, and a mark: there was one before.
        (None, _) => mark.since > case.now(),
        (Some(_), Some(began)) => !began.anew || mark.since > began.at,
        (Some(_), None) => true,
    };
    let was_let_in = head.returned.get(node).is_some_and(|at| mark.since <= *at);
    was_given && !mark.is_foreign(case.fleet()) && !is_settled && !was_let_in
}
