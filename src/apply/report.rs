//! What a walk came to.

use crate::ids::StepId;
use crate::status::{EventKind, Tally};

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// How the steps ended; `pending` are those that were not begun, or were left when it was told to stop at once.
    pub tally: Tally,
    /// Calls that change the cloud or the cluster. What we remember is not counted.
    pub effects: u32,
    /// Changes of the ledger that were written.
    pub records: u32,
    /// A person stopped it.
    pub stopped: bool,
    /// Patience ended before these did. No mistake: the next plan goes on.
    pub waiting: Vec<Ended>,
    pub failed: Vec<Ended>,
    /// What they needed did not hold any more.
    pub skipped: Vec<Ended>,
    pub frozen: Vec<Ended>,
    pub not_approved: Vec<Ended>,
    /// Not begun.
    pub left: Vec<StepId>,
}

/// A step that did not succeed, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    pub step: StepId,
    /// The provider's class, such as `noCapacity`, where a provider failed.
    pub class: Option<String>,
    pub why: String,
}

impl Report {
    /// Everything was done.
    pub fn is_done(&self) -> bool {
        self.tally.succeeded == self.tally.total()
    }

    pub(super) fn count(&mut self, step: &StepId, kind: &EventKind) {
        let ended = |why: &str| Ended { step: step.clone(), class: None, why: why.into() };
        let tally = &mut self.tally;
        match kind {
            EventKind::Started => {}
            EventKind::Succeeded => tally.succeeded += 1,
            EventKind::Dropped { .. } => tally.dropped += 1,
            EventKind::Skipped { why, .. } => {
                tally.skipped += 1;
                self.skipped.push(ended(why));
            }
            EventKind::Waiting { why } => {
                tally.waiting += 1;
                self.waiting.push(ended(why));
            }
            EventKind::Failed { class, why } => {
                tally.failed += 1;
                self.failed.push(Ended { class: Some(class.clone()), ..ended(why) });
            }
            EventKind::Frozen { by, reason } => {
                tally.frozen += 1;
                self.frozen.push(ended(&format!("{by}: {reason}")));
            }
            EventKind::NotApproved { why } => {
                tally.not_approved += 1;
                self.not_approved.push(ended(why));
            }
        }
    }
}
