//! The independent judge of a plan. Pure, and written apart from the planner.

use crate::plan::Plan;

/// A plan that was judged and found safe. Only [`audit`](crate::audit) makes one.
#[derive(Clone, PartialEq, Debug)]
pub struct Audited(Plan);

#[cfg(test)]
impl Audited {
    /// Taken at its word: for tests of what comes behind the judge.
    pub fn unchecked(plan: Plan) -> Self {
        Self(plan)
    }
}

impl std::ops::Deref for Audited {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.0
    }
}
