//! PodDisruptionBudgets, and which pods they select.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::slim::{Meta, Pairs, Text};
use crate::ids::NamespacedName;
use crate::observed::BudgetSeen;

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Budget<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    selector: Option<Written<'a>>,
    #[serde(borrow)]
    unhealthy_pod_eviction_policy: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Written<'a> {
    #[serde(borrow)]
    match_labels: Option<Pairs<'a>>,
    #[serde(borrow)]
    match_expressions: Option<Vec<Expression<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Expression<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow)]
    values: Option<Vec<Text<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    disruptions_allowed: i32,
    current_healthy: u32,
    desired_healthy: u32,
    expected_pods: u32,
}

/// Who is selected by which budget, by namespace.
#[derive(Default, Debug)]
pub struct Selectors(BTreeMap<String, Vec<(NamespacedName, Vec<Term>)>>);

/// A label's key, whether it may be absent, and the values that it must or must not have.
#[derive(Debug)]
struct Term {
    key: String,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

/// A budget as it was read: what it allows, and whom it selects.
#[derive(Debug)]
pub struct Found {
    name: NamespacedName,
    seen: BudgetSeen,
    terms: Option<Vec<Term>>,
}

pub fn found(budget: &Budget<'_>) -> Found {
    let (status, policy) = (&budget.status, budget.spec.unhealthy_pod_eviction_policy.as_ref());
    Found {
        name: NamespacedName::new(budget.metadata.namespace.as_str(), budget.metadata.name.as_str()),
        seen: BudgetSeen {
            allowed: status.disruptions_allowed,
            healthy: status.current_healthy,
            desired: status.desired_healthy,
            expected: status.expected_pods,
            always_allow: policy.is_some_and(|policy| policy.as_str() == "AlwaysAllow"),
        },
        terms: budget.spec.selector.as_ref().map(terms),
    }
}

/// All budgets, and the index of whom they select.
pub fn indexed(all: Vec<Found>) -> (BTreeMap<NamespacedName, BudgetSeen>, Selectors) {
    let (mut budgets, mut selectors) = (BTreeMap::new(), Selectors::default());
    for Found { name, seen, terms } in all {
        // A budget without a selector selects nobody; one with an empty selector everybody.
        if let Some(terms) = terms {
            let here = selectors.0.entry(name.namespace.to_string()).or_default();
            here.push((name.clone(), terms));
        }
        budgets.insert(name, seen);
    }
    (budgets, selectors)
}

impl Selectors {
    pub fn of(&self, pod: &Meta<'_>) -> Vec<NamespacedName> {
        let here = self.0.get(pod.namespace.as_str()).into_iter().flatten();
        let selects = |terms: &[Term]| terms.iter().all(|term| term.holds(pod.label(&term.key)));
        here.filter(|(_, terms)| selects(terms)).map(|(name, _)| name.clone()).collect()
    }
}

impl Term {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        match &self.rule {
            Rule::In(values) => among(values),
            Rule::NotIn(values) => !among(values),
            Rule::Exists => value.is_some(),
            Rule::Absent => value.is_none(),
        }
    }
}

fn terms(written: &Written<'_>) -> Vec<Term> {
    let labels = written.match_labels.iter().flat_map(|labels| &labels.0);
    let labels = labels.map(|(key, value)| {
        let rule = Rule::In(vec![value.as_str().into()]);
        Term { key: key.as_str().into(), rule }
    });
    let expressions = written.match_expressions.iter().flatten().map(|one| {
        let values = one.values.iter().flatten().map(|value| value.as_str().to_owned()).collect();
        let rule = match one.operator.as_str() {
            "In" => Rule::In(values),
            "NotIn" => Rule::NotIn(values),
            "DoesNotExist" => Rule::Absent,
            _ => Rule::Exists,
        };
        Term { key: one.key.as_str().into(), rule }
    });
    labels.chain(expressions).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selected(selector: Value, labels: Value) -> bool {
        let text = json!({"metadata": {"name": "b", "namespace": "vision"}, "spec": {"selector": selector},
                          "status": {"disruptionsAllowed": -1, "currentHealthy": 3, "desiredHealthy": 4,
                                     "expectedPods": 5}});
        let (budgets, selectors) = indexed(vec![found(&serde_json::from_str(&text.to_string()).unwrap())]);
        let seen = &budgets[&NamespacedName::new("vision", "b")];
        assert_eq!((seen.allowed, seen.healthy, seen.desired, seen.expected), (-1, 3, 4, 5));
        let pod = json!({"name": "p", "namespace": "vision", "labels": labels}).to_string();
        let elsewhere = pod.replace("vision", "other");
        assert_eq!(selectors.of(&serde_json::from_str(&elsewhere).unwrap()), []);
        selectors.of(&serde_json::from_str(&pod).unwrap()).len() == 1
    }

    #[test]
    fn a_budget_selects_as_the_server_selects() {
        assert!(selected(json!({"matchLabels": {"app": "a"}}), json!({"app": "a", "x": "y"})));
        assert!(!selected(json!({"matchLabels": {"app": "a"}}), json!({"app": "b"})));
        assert!(selected(json!({}), json!({"app": "b"})), "an empty selector selects everybody");
        assert!(!selected(json!(null), json!({"app": "b"})), "none selects nobody");
        let one = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        assert!(selected(one("In", json!(["a", "b"])), json!({"app": "b"})));
        assert!(!selected(one("NotIn", json!(["a", "b"])), json!({"app": "b"})));
        assert!(selected(one("NotIn", json!(["a"])), json!({})));
        assert!(selected(one("Exists", json!(null)), json!({"app": ""})));
        assert!(!selected(one("DoesNotExist", json!(null)), json!({"app": ""})));
    }
}
