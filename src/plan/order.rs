//! Courses into one list of steps: each step once, in an order in which they can be done, the riskiest first.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Course;
use super::types::*;
use crate::effect::{Action, CloudAction, ClusterAction};
use crate::ids::StepId;

/// One list. A course that comes after a step that is not in the plan waits for it.
pub fn flatten(mut courses: Vec<Course>, held: &mut Vec<Held>) -> Vec<Step> {
    loop {
        let known: BTreeSet<&StepId> = courses.iter().flat_map(|course| &course.steps).map(|step| &step.id).collect();
        let missing =
            |course: &Course| course.steps.iter().flat_map(|step| &step.after).find(|id| !known.contains(*id)).cloned();
        let waits: Vec<Option<StepId>> = courses.iter().map(missing).collect();
        if waits.iter().all(Option::is_none) {
            break;
        }
        let mut kept = Vec::with_capacity(courses.len());
        for (course, waits) in std::mem::take(&mut courses).into_iter().zip(waits) {
            match waits {
                Some(step) => held.push(course.held(WaitingOn::Step(step))),
                None => kept.push(course),
            }
        }
        courses = kept;
    }
    courses.sort_by_key(|course| course.steps.iter().map(|step| risk(&step.action)).min().unwrap_or(u8::MAX));
    sort(merge(courses))
}

/// The same step of two courses is one step: it comes after what either comes after, and needs what either needs.
fn merge(courses: Vec<Course>) -> Vec<Step> {
    let mut places: BTreeMap<StepId, usize> = BTreeMap::new();
    let mut steps: Vec<Step> = Vec::new();
    for step in courses.into_iter().flat_map(|course| course.steps) {
        match places.get(&step.id) {
            None => {
                places.insert(step.id.clone(), steps.len());
                steps.push(step);
            }
            Some(place) => {
                let known = &mut steps[*place];
                for id in step.after {
                    if !known.after.contains(&id) {
                        known.after.push(id);
                    }
                }
                for fact in step.requires {
                    if !known.requires.contains(&fact) {
                        known.requires.push(fact);
                    }
                }
                // Who needs no asking for either reason was asked for the other.
                if step.consent == Consent::Asked {
                    known.consent = Consent::Asked;
                }
            }
        }
    }
    steps
}

/// Each step behind what it comes after; otherwise as they stood.
fn sort(steps: Vec<Step>) -> Vec<Step> {
    let places: BTreeMap<&StepId, usize> = steps.iter().enumerate().map(|(place, step)| (&step.id, place)).collect();
    let mut waits: Vec<usize> = vec![0; steps.len()];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (place, step) in steps.iter().enumerate() {
        for before in step.after.iter().filter_map(|id| places.get(id)) {
            waits[place] += 1;
            next[*before].push(place);
        }
    }
    let mut ready: BTreeSet<usize> = (0..steps.len()).filter(|place| waits[*place] == 0).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(place) = ready.pop_first() {
        order.push(place);
        for after in &next[place] {
            waits[*after] -= 1;
            if waits[*after] == 0 {
                ready.insert(*after);
            }
        }
    }
    assert!(order.len() == steps.len(), "the planner made steps that wait for each other");
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    order.into_iter().filter_map(|place| steps[place].take()).collect()
}

/// What can do most harm comes first.
fn risk(action: &Action) -> u8 {
    match action {
        Action::Cloud(CloudAction::Terminate { .. } | CloudAction::Cancel { .. }) => 0,
        Action::Cluster(ClusterAction::Suspend { .. } | ClusterAction::Shrink { .. } | ClusterAction::Evict { .. }) => {
            1
        }
        Action::Cloud(CloudAction::Reboot { .. }) | Action::Cluster(ClusterAction::Cut { .. }) => 2,
        Action::Cloud(CloudAction::Purchase(_)) => 3,
        Action::Cluster(ClusterAction::Delete(_) | ClusterAction::Cordon { .. }) => 4,
        Action::Cloud(_) => 5,
        Action::Cluster(_) => 6,
        Action::Record(_) | Action::Await(_) => 7,
    }
}
