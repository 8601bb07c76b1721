//! What must have succeeded before what.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Found;
use crate::ids::StepId;
use crate::plan::Step;

const LAW: &str = "steps stand in an order in which they can be done";

/// The steps by their place in the plan, each with the places of those that it comes after.
#[derive(Debug)]
pub struct Dag {
    after: Vec<Vec<usize>>,
    scratch: RefCell<Scratch>,
}

/// Which steps the current question has reached; kept, so that a question costs what it looks at.
#[derive(Debug, Default)]
struct Scratch {
    question: u32,
    reached: Vec<u32>,
    open: Vec<usize>,
}

impl Dag {
    /// Ids are unique, `after` names steps that are there, and each stands behind those that it comes after: so there
    /// is no circle.
    pub fn of(steps: &[Step], found: &mut Found) -> Self {
        let mut places: BTreeMap<&StepId, usize> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            if places.insert(&step.id, at).is_some() {
                found.step(LAW, &step.id, "two steps have this id");
            }
        }
        let mut after = Vec::with_capacity(steps.len());
        for (at, step) in steps.iter().enumerate() {
            let mut earlier = Vec::with_capacity(step.after.len());
            for id in &step.after {
                match places.get(id) {
                    None => found.step(LAW, &step.id, format!("it comes after {id}, which is no step")),
                    Some(other) if *other >= at => {
                        found.step(LAW, &step.id, format!("it comes after {id}, which does not stand before it"));
                    }
                    Some(other) => earlier.push(*other),
                }
            }
            after.push(earlier);
        }
        let scratch = RefCell::new(Scratch { reached: vec![0; steps.len()], ..Scratch::default() });
        Self { after, scratch }
    }

    /// Those of the candidates that must have succeeded before the step begins.
    ///
    /// Walks up from the step no further than the first candidate, so that a long chain of courses is not walked again
    /// for each of them.
    pub fn before(&self, step: usize, candidates: &[usize]) -> Vec<usize> {
        let Some(&floor) = candidates.iter().filter(|candidate| **candidate < step).min() else { return Vec::new() };
        let mut scratch = self.scratch.borrow_mut();
        let Scratch { question, reached, open } = &mut *scratch;
        *question += 1;
        open.push(step);
        while let Some(next) = open.pop() {
            for &earlier in self.after[next].iter().filter(|earlier| **earlier >= floor) {
                if reached[earlier] != *question {
                    reached[earlier] = *question;
                    open.push(earlier);
                }
            }
        }
        candidates.iter().copied().filter(|candidate| reached[*candidate] == *question).collect()
    }

    pub fn is_before(&self, earlier: usize, later: usize) -> bool {
        !self.before(later, &[earlier]).is_empty()
    }
}
