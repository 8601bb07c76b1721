//! How a step and a course of steps are begun: with nothing that disturbs, costs or waits.

use super::draft::Course;
use super::types::{Consent, Disruption, Held, Reason, Step, WaitingOn};
use crate::effect::{Action, Effects, Thing};
use crate::ids::StepId;

/// A step that anybody may do: no effects, no preconditions. Its id names verb, subject and generation, so that the
/// same step planned again has the same one.
pub fn step(id: String, on: &Thing, action: Action, reason: &Reason) -> Step {
    Step {
        id: StepId::from(id),
        on: on.clone(),
        action,
        after: Vec::new(),
        requires: Vec::new(),
        reason: reason.clone(),
        disruption: Disruption::default(),
        effects: Effects::default(),
        // One request and its answer.
        takes: (1, 10),
        consent: Consent::Standing,
        urgency: reason.urgency(),
    }
}

/// Steps that touch no node.
pub fn course(on: &Thing, wanted: impl Into<String>, reason: &Reason, steps: Vec<Step>) -> Course {
    let (on, reason) = (on.clone(), reason.clone());
    Course { on, nodes: Vec::new(), wanted: wanted.into(), reason, has_deadline: false, steps }
}

/// Something that is wanted, cannot be begun, and would have no effects that can be told.
pub fn held(on: &Thing, wanted: impl Into<String>, reason: Reason, waiting_on: WaitingOn) -> Held {
    Held {
        what: on.clone(),
        wanted: wanted.into(),
        reason,
        effects: Effects::default(),
        disruption: Disruption::default(),
        waiting_on,
        done_by: None,
    }
}
