//! PodDisruptionBudgets. They select the pods of one app; real ones select by labels, which comes to the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ClusterState;
use crate::ids::NamespacedName;
use crate::observed::BudgetSeen;

/// How much may go.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BudgetSpec {
    /// So many stay, or so many may be away.
    pub bound: Bound,
    pub unhealthy: Unhealthy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Bound {
    MinAvailable(u32),
    MinAvailablePercent(u32),
    MaxUnavailable(u32),
    MaxUnavailablePercent(u32),
}

/// `unhealthyPodEvictionPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub enum Unhealthy {
    #[default]
    IfHealthyBudget,
    AlwaysAllow,
}

/// What a script makes of a budget's status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BudgetTrouble {
    /// The controller has not seen the newest generation.
    Behind,
    /// More are gone than may be.
    Negative,
    /// More than 2000 evictions that nobody confirmed.
    TooManyDisrupted,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Budget {
    pub app: NamespacedName,
    pub spec: BudgetSpec,
    pub trouble: Option<BudgetTrouble>,
}

impl BudgetSpec {
    pub fn min_available(pods: u32) -> Self {
        Self { bound: Bound::MinAvailable(pods), unhealthy: Unhealthy::default() }
    }

    pub fn max_unavailable(pods: u32) -> Self {
        Self { bound: Bound::MaxUnavailable(pods), unhealthy: Unhealthy::default() }
    }
}

impl Bound {
    /// How many of the expected ones must stay healthy. Percentages are rounded up, as the controller does.
    fn desired(self, expected: u32) -> u32 {
        let percent = |percent: u32| (expected * percent).div_ceil(100);
        match self {
            Self::MinAvailable(pods) => pods,
            Self::MinAvailablePercent(share) => percent(share),
            Self::MaxUnavailable(pods) => expected.saturating_sub(pods),
            Self::MaxUnavailablePercent(share) => expected.saturating_sub(percent(share)),
        }
    }
}

impl Budget {
    pub fn seen(&self, healthy: u32, expected: u32) -> BudgetSeen {
        let desired = self.spec.bound.desired(expected);
        let allowed = match self.trouble {
            Some(BudgetTrouble::Negative) => -1,
            // The controller never writes less than none.
            _ => i32::try_from(healthy.saturating_sub(desired)).unwrap_or(i32::MAX),
        };
        let always_allow = self.spec.unhealthy == Unhealthy::AlwaysAllow;
        BudgetSeen { allowed, healthy, desired, expected, always_allow }
    }
}

impl ClusterState {
    /// A budget over the pods of an app. Nobody stops a second one.
    pub fn add_budget(&mut self, now: Timestamp, name: &NamespacedName, app: &NamespacedName, spec: BudgetSpec) {
        self.tick(now);
        self.budgets.insert(name.clone(), Budget { app: app.clone(), spec, trouble: None });
    }

    pub fn remove_budget(&mut self, now: Timestamp, name: &NamespacedName) {
        self.tick(now);
        self.budgets.remove(name);
    }

    pub fn budget_trouble(&mut self, now: Timestamp, name: &NamespacedName, trouble: Option<BudgetTrouble>) {
        self.tick(now);
        if let Some(budget) = self.budgets.get_mut(name) {
            budget.trouble = trouble;
        }
    }

    pub(super) fn budget_seen(&self, budget: &Budget) -> BudgetSeen {
        let healthy = self.pods.of(&budget.app).filter(|(_, pod)| pod.ready).count();
        budget.seen(u32::try_from(healthy).unwrap_or(u32::MAX), self.expected(&budget.app))
    }

    /// How many pods an app should have, as its controller says.
    fn expected(&self, app: &NamespacedName) -> u32 {
        if let Some(service) = self.services.get(app) {
            return service.replicas;
        }
        let gang = self.gangs.values().find(|gang| gang.spec.name == *app);
        gang.map_or(self.pods.of(app).count() as u32, |gang| gang.spec.pods)
    }

    /// The budgets of each app.
    pub(super) fn budgets_by_app(&self) -> BTreeMap<&NamespacedName, Vec<NamespacedName>> {
        let mut by_app: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, budget) in &self.budgets {
            by_app.entry(&budget.app).or_default().push(name.clone());
        }
        by_app
    }
}
