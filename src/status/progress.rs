//! How far a plan is: the fold of its steps and what happened to them. Pure.
//!
//! `push` takes one event, so that a terminal shows the same thing while it happens that a fold shows afterwards.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::{Event, EventKind};
use crate::ids::StepId;
use crate::plan::Plan;

/// Every step of a plan, in its order, with where it stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Progress {
    pub steps: Vec<StepProgress>,
    pub tally: Tally,
    /// The place of each step.
    #[serde(skip)]
    places: BTreeMap<StepId, usize>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StepProgress {
    pub step: StepId,
    pub state: StepState,
    pub started: Option<Timestamp>,
    /// When its state was last told.
    pub told: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum StepState {
    /// Not begun.
    Pending,
    Running,
    /// It goes on, or the next plan takes it up.
    Waiting {
        why: String,
    },
    Succeeded,
    Skipped {
        why: String,
    },
    Failed {
        class: String,
        why: String,
    },
    Dropped {
        after: StepId,
    },
    Frozen {
        by: String,
        reason: String,
    },
    NotApproved {
        why: String,
    },
}

/// How many steps stand where.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Tally {
    pub pending: u32,
    pub running: u32,
    pub waiting: u32,
    pub succeeded: u32,
    pub skipped: u32,
    pub failed: u32,
    pub dropped: u32,
    pub frozen: u32,
    pub not_approved: u32,
}

impl Progress {
    /// A plan of which nothing has happened yet.
    pub fn of(plan: &Plan) -> Self {
        let at_rest =
            |id: &StepId| StepProgress { step: id.clone(), state: StepState::Pending, started: None, told: None };
        let steps: Vec<StepProgress> = plan.steps.iter().map(|step| at_rest(&step.id)).collect();
        let places = steps.iter().enumerate().map(|(at, step)| (step.step.clone(), at)).collect();
        let tally = Tally { pending: u32::try_from(steps.len()).unwrap_or(u32::MAX), ..Tally::default() };
        Self { steps, tally, places }
    }

    pub fn fold(plan: &Plan, events: &[Event]) -> Self {
        let mut progress = Self::of(plan);
        events.iter().for_each(|event| progress.push(event));
        progress
    }

    /// Takes one event. One of a step that the plan does not have, or that has ended, changes nothing: two runs may have
    /// told of the same step, and an end is an end.
    pub fn push(&mut self, event: &Event) {
        let Some(found) = self.places.get(&event.step).and_then(|at| self.steps.get_mut(*at)) else { return };
        if found.state.has_ended() {
            return;
        }
        let next = StepState::after(&event.kind);
        *self.tally.of(&found.state) -= 1;
        *self.tally.of(&next) += 1;
        if found.started.is_none() && matches!(event.kind, EventKind::Started) {
            found.started = Some(event.at);
        }
        (found.state, found.told) = (next, Some(event.at));
    }

    pub fn step(&self, id: &StepId) -> Option<&StepProgress> {
        self.steps.get(*self.places.get(id)?)
    }

    /// Nothing is left that could still begin or end.
    pub fn is_over(&self) -> bool {
        self.tally.pending + self.tally.running + self.tally.waiting == 0
    }
}

impl StepState {
    fn after(kind: &EventKind) -> Self {
        match kind.clone() {
            EventKind::Started => Self::Running,
            EventKind::Succeeded => Self::Succeeded,
            EventKind::Skipped { why, .. } => Self::Skipped { why },
            EventKind::Waiting { why } => Self::Waiting { why },
            EventKind::Failed { class, why } => Self::Failed { class, why },
            EventKind::Dropped { after } => Self::Dropped { after },
            EventKind::Frozen { by, reason } => Self::Frozen { by, reason },
            EventKind::NotApproved { why } => Self::NotApproved { why },
        }
    }

    pub fn has_ended(&self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Waiting { .. })
    }
}

impl Tally {
    fn of(&mut self, state: &StepState) -> &mut u32 {
        match state {
            StepState::Pending => &mut self.pending,
            StepState::Running => &mut self.running,
            StepState::Waiting { .. } => &mut self.waiting,
            StepState::Succeeded => &mut self.succeeded,
            StepState::Skipped { .. } => &mut self.skipped,
            StepState::Failed { .. } => &mut self.failed,
            StepState::Dropped { .. } => &mut self.dropped,
            StepState::Frozen { .. } => &mut self.frozen,
            StepState::NotApproved { .. } => &mut self.not_approved,
        }
    }

    pub fn total(&self) -> u32 {
        let Self { pending, running, waiting, succeeded, skipped, failed, dropped, frozen, not_approved } = *self;
        pending + running + waiting + succeeded + skipped + failed + dropped + frozen + not_approved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::{Action, Effects, Fact, Thing};
    use crate::plan::{Consent, Cost, Disruption, Reason, Step, Urgency};

    fn plan(ids: &[&str]) -> Plan {
        let step = |id: &&str| Step {
            id: (*id).into(),
            on: Thing::Fleet,
            action: Action::Await(Fact::After(Timestamp::UNIX_EPOCH)),
            after: Vec::new(),
            requires: Vec::new(),
            reason: Reason::Wanted,
            disruption: Disruption::default(),
            effects: Effects::default(),
            takes: (0, 0),
            consent: Consent::Standing,
            urgency: Urgency::Chosen,
        };
        Plan {
            id: "p".into(),
            digest: "d".into(),
            effects: Effects::default(),
            steps: ids.iter().map(step).collect(),
            held: Vec::new(),
            drift: Vec::new(),
            upcoming: Vec::new(),
            released: Vec::new(),
            offers: Vec::new(),
            notes: Vec::new(),
            cost: Cost::default(),
            left_out: Vec::new(),
            stands: None,
        }
    }

    fn event(secs: i64, step: &str, kind: EventKind) -> Event {
        Event { at: Timestamp::from_second(secs).unwrap(), step: step.into(), kind }
    }

    #[test]
    fn a_fold_says_where_every_step_stands() {
        let events = [
            event(1, "a", EventKind::Started),
            event(2, "b", EventKind::Started),
            event(3, "b", EventKind::Waiting { why: "x".into() }),
            event(4, "a", EventKind::Succeeded),
            event(5, "c", EventKind::Dropped { after: "b".into() }),
            event(6, "gone", EventKind::Succeeded),
        ];
        let progress = Progress::fold(&plan(&["a", "b", "c", "d"]), &events);
        let states: Vec<&StepState> = progress.steps.iter().map(|step| &step.state).collect();
        let waiting = StepState::Waiting { why: "x".into() };
        let dropped = StepState::Dropped { after: "b".into() };
        assert_eq!(states, [&StepState::Succeeded, &waiting, &dropped, &StepState::Pending]);
        let expected = Tally { pending: 1, waiting: 1, succeeded: 1, dropped: 1, ..Tally::default() };
        assert_eq!(progress.tally, expected);
        assert_eq!(progress.tally.total(), 4);
        assert_eq!(progress.step(&"a".into()).unwrap().started, Some(Timestamp::from_second(1).unwrap()));
        assert!(!progress.is_over());
    }

    #[test]
    fn an_end_is_an_end_and_a_wait_is_none() {
        let mut progress = Progress::of(&plan(&["a"]));
        progress.push(&event(1, "a", EventKind::Waiting { why: "x".into() }));
        progress.push(&event(2, "a", EventKind::Succeeded));
        progress.push(&event(3, "a", EventKind::Failed { class: "other".into(), why: "late".into() }));
        assert_eq!(progress.step(&"a".into()).unwrap().state, StepState::Succeeded);
        assert_eq!(progress.tally, Tally { succeeded: 1, ..Tally::default() });
        assert!(progress.is_over());
    }
}
