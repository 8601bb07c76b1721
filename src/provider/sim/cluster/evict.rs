//! The eviction subresource, with every answer that the API server gives.

use super::ClusterState;
use super::budgets::{BudgetTrouble, Unhealthy};
use super::judge::Entry;
use super::pods::Pod;
use crate::ids::{NamespacedName, Uid};
use crate::observed::PodPhase;

/// What the server answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub code: u16,
    pub text: String,
    pub retry_after_secs: Option<u64>,
    /// The cause that it names, such as `DisruptionBudget`.
    pub cause: Option<&'static str>,
}

impl Answer {
    fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), retry_after_secs: None, cause: None }
    }

    fn cause(self, cause: &'static str) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// The pod was told to go, or is gone under this UID.
    pub fn is_done(&self) -> bool {
        matches!(self.code, 200 | 201 | 404 | 409)
    }

    /// Trying again does not help: a person has to act.
    pub fn is_permanent(&self) -> bool {
        self.code == 500 || (self.code == 403 && self.cause.is_none())
    }
}

impl ClusterState {
    /// Asks for the eviction of exactly this pod.
    pub(super) fn evict(&mut self, name: &NamespacedName, uid: &Uid) -> Answer {
        let answer = self.answer(name, uid);
        if answer.code == 201 {
            self.records.counts.evictions += 1;
            self.note(Entry::Evicted { pod: name.clone(), forced: false });
            self.delete_pod(name);
        } else if !answer.is_done() {
            self.records.counts.refusals += 1;
        }
        answer
    }

    /// What it would answer, where asking again does not help.
    pub fn refuses(&self, name: &NamespacedName, uid: &Uid) -> Option<String> {
        let answer = self.answer(name, uid);
        answer.is_permanent().then(|| format!("{} {}", answer.code, answer.text))
    }

    fn answer(&self, name: &NamespacedName, uid: &Uid) -> Answer {
        let Some(pod) = self.pods.get(name) else {
            return Answer::new(404, format!("pods \"{}\" not found", name.name));
        };
        if pod.uid != *uid {
            let text = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", pod.uid);
            return Answer::new(409, text);
        }
        if self.is_terminating(&name.namespace) {
            let text =
                format!("unable to create new content in namespace {} because it is being terminated", name.namespace);
            return Answer::new(403, text).cause("NamespaceTerminating");
        }
        if self.knobs.denied.contains(pod.app()) {
            return Answer::new(403, "admission webhook \"evictions.example.com\" denied the request");
        }
        if pod.is_over() || pod.phase == PodPhase::Pending || pod.terminating.is_some() {
            return Answer::new(201, "");
        }
        self.answer_of_budget(pod).unwrap_or_else(|| Answer::new(201, ""))
    }

    /// The refusal of the budget that selects a pod, if it refuses.
    fn answer_of_budget(&self, pod: &Pod) -> Option<Answer> {
        let mut selecting = self.budgets.iter().filter(|(_, budget)| budget.app == *pod.app());
        let (name, budget) = selecting.next()?;
        if selecting.next().is_some() {
            let text =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Some(Answer::new(500, text));
        }
        let seen = self.budget_seen(budget);
        let spare = seen.healthy >= seen.desired && seen.desired > 0;
        if !pod.ready && (budget.spec.unhealthy == Unhealthy::AlwaysAllow || spare) {
            return None;
        }
        let violates = "Cannot evict pod as it would violate the pod's disruption budget.";
        let forbids = |why: &str| format!("poddisruptionbudget.policy \"{}\" is forbidden: {why}", name.name);
        match budget.trouble {
            Some(BudgetTrouble::Behind) => {
                let text =
                    format!("{violates} The disruption budget {} is still being processed by the server.", name.name);
                Some(Answer { retry_after_secs: Some(10), ..Answer::new(429, text) })
            }
            Some(BudgetTrouble::Negative) => {
                Some(Answer::new(403, forbids("pdb disruptions allowed is negative")).cause("DisruptionBudget"))
            }
            Some(BudgetTrouble::TooManyDisrupted) => {
                let text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
                Some(Answer::new(403, forbids(text)).cause("DisruptionBudget"))
            }
            None if seen.allowed == 0 => {
                let needs = format!("needs {} healthy pods and has {} currently", seen.desired, seen.healthy);
                Some(Answer::new(429, format!("{violates} The disruption budget {} {needs}", name.name)))
            }
            None => None,
        }
    }
}
