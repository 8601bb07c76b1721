//! What the parts of the planner collect: courses of steps, and what is said beside them.
//!
//! A [`Course`] is the unit that a gate lets through or holds: all its steps, or none. `gates` looks at every course
//! alike, whatever part of the planner it came from.

use super::kept::Kept;
use super::types::*;
use crate::effect::{Effects, Thing};
use crate::ids::NodeName;

/// Steps that belong together, in an order in which they can be done.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    pub on: Thing,
    /// The nodes that it touches: what a freeze or `hands-off` on a node stops.
    pub nodes: Vec<NodeName>,
    /// One sentence, for when it is held.
    pub wanted: String,
    pub reason: Reason,
    /// It has to be done by an instant that nobody here decides: a freeze without `--all` lets it through.
    pub has_deadline: bool,
    pub steps: Vec<Step>,
}

/// Everything that will be in the plan.
#[derive(Clone, Default, Debug)]
pub struct Draft {
    pub courses: Vec<Course>,
    pub held: Vec<Held>,
    pub drift: Vec<Drift>,
    pub upcoming: Vec<Upcoming>,
    pub released: Vec<Released>,
    pub offers: Vec<Offer>,
    pub notes: Vec<Note>,
    /// Nodes that were not begun and wait.
    pub kept: Kept,
}

impl Course {
    pub fn effects(&self) -> Effects {
        let mut sum = Effects::default();
        self.steps.iter().for_each(|step| sum.add(&step.effects));
        sum
    }

    pub fn disruption(&self) -> Disruption {
        let mut sum = Disruption::default();
        self.steps.iter().for_each(|step| sum.add(&step.disruption));
        sum
    }

    /// The same course, waiting.
    pub fn held(self, waiting_on: WaitingOn) -> Held {
        let (effects, disruption) = (self.effects(), self.disruption());
        let Self { on, wanted, reason, .. } = self;
        Held { what: on, wanted, reason, effects, disruption, waiting_on, done_by: None }
    }
}

impl Draft {
    pub fn note(&mut self, on: Thing, text: impl Into<String>) {
        self.notes.push(Note { on, text: text.into() });
    }
}
