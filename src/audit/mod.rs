//! The independent judge of a plan. Pure, and written apart from the planner: from the laws, not from its code.
//!
//! [`audit`] builds its indexes once ([`Case`]) and then asks law after law whether some prefix of the
//! plan's DAG would create or worsen a violation. What must be true before a step is looked for among the steps that it
//! comes after, never in the plan's order alone, because `apply` does at once whatever may be done at once. A law that
//! only sums (budgets, money) takes the whole plan, which is its worst prefix.
//!
//! Not here: whether a plan is a good one. A plan that does too little passes, if it says what it holds.

mod absence;
mod accounts;
mod admission;
mod budgets;
mod canary;
mod capacity;
mod case;
mod clothes;
mod dag;
mod drain;
mod evict;
mod exchange;
mod fabric;
mod kept;
mod layouts;
mod memory;
mod money;
mod moves;
mod names;
mod objects;
mod on_the_way;
mod others;
mod owners;
mod pods;
mod quotas;
mod recommended;
mod renames;
mod reported;
mod slots;
mod stops;
mod tiers;
mod updates;

use std::fmt;

use crate::ids::StepId;
use crate::mistakes::{Mistake, is_on};
use crate::plan::{Plan, PlanInput};
use case::Case;
use dag::Dag;

/// A plan that was judged and found safe. Only [`audit`] makes one.
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

/// A law that the plan breaks: a mistake of the planner, never of the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Its name, the same for all that breaks it.
    pub law: &'static str,
    /// None where the plan as a whole breaks it.
    pub step: Option<StepId>,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.law)?;
        if let Some(step) = &self.step {
            write!(f, "{step}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// The plan, if it breaks no law; else every law that it breaks.
pub fn audit(input: &PlanInput, plan: Plan) -> Result<Audited, Vec<Violation>> {
    let found = judge(input, &plan);
    if found.is_empty() || is_on(Mistake::JudgeSleeps) { Ok(Audited(plan)) } else { Err(found) }
}

type Law = fn(&Case<'_>, &mut Found);

const LAWS: &[Law] = &[
    drain::empty_before_it_goes,
    evict::whole_gangs_or_none,
    evict::listed_again,
    evict::only_what_was_seen,
    evict::disruption_budgets,
    tiers::tide_takes_the_borrowers_work,
    tiers::minimum_runtime,
    tiers::asked_to_save,
    tiers::pods_asked_to_save,
    evict::resume_only_ours,
    evict::shrinks_what_may_be_smaller,
    slots::one_slot_one_instance,
    slots::request_is_exact,
    slots::renamed_first,
    slots::one_node_a_slot,
    exchange::alike_and_empty,
    exchange::finished_first,
    fabric::required_level,
    fabric::required_launches,
    fabric::apart,
    fabric::pins,
    admission::admitted,
    admission::back_first,
    capacity::reservations_hold_it,
    capacity::reservations_are_ours,
    owners::instances_are_ours,
    owners::nodes_are_ours,
    clothes::only_ours_comes_off,
    clothes::nothing_is_left_on,
    clothes::taints_come_after_flavors,
    clothes::flavors_keep_what_is_fixed,
    renames::admitted_labels_stay,
    objects::objects_are_ours,
    objects::only_retired_is_deleted,
    names::named_first,
    names::preempt_alike,
    stops::frozen,
    stops::hands_off,
    kept::stays_closed,
    absence::read_whole,
    absence::not_shrunk,
    absence::forgotten_stays,
    memory::records_are_true,
    reported::remembered_as_seen,
    reported::told,
    budgets::removals_an_hour,
    budgets::removal_is_approved,
    budgets::health_limit,
    on_the_way::keeps_the_rollout,
    on_the_way::given_is_open,
    updates::unavailable,
    canary::serves_first,
    updates::idle_and_windows,
    recommended::told_and_settled,
    updates::gangs_move_once,
    layouts::keep_ready,
    layouts::legal,
    layouts::listed,
    layouts::named_entries_stay,
    layouts::sharing_ends,
    others::cuts_are_carried_out,
    others::needs_are_told,
    money::hourly,
    money::purchases,
    quotas::within_capacity,
    quotas::tier_order,
    quotas::classes_agree,
    moves::nothing_is_given_twice,
    moves::stages_are_told,
    accounts::effects,
    accounts::consent,
    accounts::resized,
    accounts::urgency,
    accounts::slots,
    accounts::objects,
];

fn judge(input: &PlanInput, plan: &Plan) -> Vec<Violation> {
    let mut found = Found(Vec::new());
    let dag = Dag::of(&plan.steps, &mut found);
    // Without an order nothing else can be asked.
    if found.0.is_empty() {
        let case = Case::new(input, plan, dag);
        LAWS.iter().for_each(|law| law(&case, &mut found));
    }
    found.0
}

/// What was found.
#[derive(Debug)]
struct Found(Vec<Violation>);

impl Found {
    fn step(&mut self, law: &'static str, step: &StepId, what: impl Into<String>) {
        self.0.push(Violation { law, step: Some(step.clone()), what: what.into() });
    }

    fn plan(&mut self, law: &'static str, what: impl Into<String>) {
        self.0.push(Violation { law, step: None, what: what.into() });
    }
}

#[cfg(test)]
mod tests;
