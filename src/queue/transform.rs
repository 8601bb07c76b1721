//! What Kueue counts of what pods ask for: `resources.transformations` of its Configuration.
//!
//! Pods are placed by what they ask for; quota is what comes out here. Not modelled: `multiplyBy`, and the rounding of
//! a fraction pod by pod.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::Value;

use super::mode;
use super::parse::decimal;
use super::state::ResourceName;

/// What becomes of a resource.
#[derive(Clone, PartialEq, Debug)]
pub struct Transformation {
    /// Whether it is no longer counted itself.
    pub replaces: bool,
    /// What one of it is counted as.
    pub outputs: BTreeMap<ResourceName, Decimal>,
}

pub type Transformations = BTreeMap<ResourceName, Transformation>;

/// What the ConfigMap with Kueue's file says; nothing without one.
pub fn transformations(map: Option<&Value>) -> Transformations {
    map.and_then(mode::file).map(|(_, file)| of_file(&file)).unwrap_or_default()
}

/// The same of the file itself.
pub fn of_file(file: &Value) -> Transformations {
    let all = file["resources"]["transformations"].as_array().into_iter().flatten();
    let one = |one: &Value| {
        let outputs = one["outputs"].as_object().into_iter().flatten();
        let outputs = outputs.filter_map(|(name, factor)| Some((name.as_str().into(), decimal(factor)?))).collect();
        let replaces = one["strategy"].as_str() == Some("Replace");
        Some((one["input"].as_str()?.into(), Transformation { replaces, outputs }))
    };
    all.filter_map(one).collect()
}

/// What is counted of these requests.
pub fn counted(rules: &Transformations, requests: &BTreeMap<ResourceName, i64>) -> BTreeMap<ResourceName, i64> {
    if !requests.keys().any(|resource| rules.contains_key(resource)) {
        return requests.clone();
    }
    let mut counted: BTreeMap<ResourceName, i64> = BTreeMap::new();
    for (resource, amount) in requests {
        let rule = rules.get(resource);
        if rule.is_none_or(|rule| !rule.replaces) {
            *counted.entry(resource.clone()).or_default() += amount;
        }
        for (output, factor) in rule.into_iter().flat_map(|rule| &rule.outputs) {
            let unit = unit(output) / unit(resource);
            let more = (Decimal::from(*amount) * factor).checked_mul(unit).and_then(|sum| sum.ceil().to_i64());
            *counted.entry(output.clone()).or_default() += more.unwrap_or(i64::MAX >> 10);
        }
    }
    counted
}

/// CPUs are counted in thousandths.
fn unit(resource: &ResourceName) -> Decimal {
    if resource.as_str() == "cpu" { Decimal::ONE_THOUSAND } else { Decimal::ONE }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_retained_is_counted_twice_and_what_is_replaced_is_not() {
        let file = "resources:\n  transformations:\n  - {input: nvidia.com/gpu, outputs: {credits: 1k}}\n  \
                    - {input: nvidia.com/mig-3g.40gb, strategy: Replace, outputs: {credits: '500'}}\n  \
                    - {input: cpu, strategy: Replace, outputs: {credits: 1}}\n";
        let rules = transformations(Some(&json!({"data": {"controller_manager_config.yaml": file}})));
        let requests = [("nvidia.com/gpu", 2), ("nvidia.com/mig-3g.40gb", 3), ("cpu", 4000), ("memory", 7)];
        let requests = requests.map(|(name, amount)| (ResourceName::from(name), amount)).into();
        let wanted = [("nvidia.com/gpu", 2), ("credits", 3504), ("memory", 7)];
        assert_eq!(counted(&rules, &requests), wanted.map(|(name, amount)| (name.into(), amount)).into());
        assert_eq!(counted(&Transformations::new(), &requests), requests);
        assert_eq!(transformations(None), Transformations::new());
    }
}
