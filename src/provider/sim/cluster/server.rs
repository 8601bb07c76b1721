//! What the API server and Kueue's webhooks refuse, in their words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::HOSTNAME;
use super::quantity::amount;
use crate::observed::{ObjectKey, ObjectKind};

/// Whether an object may be written over what is there.
pub fn admit(key: &ObjectKey, body: &Value, before: Option<&Value>) -> Result<(), String> {
    let wrong = match key.kind {
        ObjectKind::Topology => topology(body, before),
        ObjectKind::ResourceFlavor => flavor(body, before),
        ObjectKind::Cohort => groups(body, "parentName", "parent"),
        ObjectKind::ClusterQueue => groups(body, "cohortName", "cohort").or_else(|| preemption(body)),
        ObjectKind::LocalQueue => local_queue(body, before),
        ObjectKind::PriorityClass => priority(body, before).or_else(|| preempts(body, before)),
        ObjectKind::WorkloadPriorityClass => priority(body, None),
        ObjectKind::Namespace
        | ObjectKind::ConfigMap
        | ObjectKind::ValidatingAdmissionPolicy
        | ObjectKind::ValidatingAdmissionPolicyBinding
        | ObjectKind::MutatingAdmissionPolicy
        | ObjectKind::MutatingAdmissionPolicyBinding
        | ObjectKind::ClusterPolicy => None,
    };
    let said = |text| Err(format!("{} \"{}\" is invalid: {text}", key.kind.name(), key.name));
    wrong.map_or(Ok(()), said)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn topology(body: &Value, before: Option<&Value>) -> Option<String> {
    let levels = &body["spec"]["levels"];
    if before.is_some_and(|before| before["spec"]["levels"] != *levels) {
        return Some("spec.levels: Invalid value: field is immutable".into());
    }
    let labels: Vec<&Value> = list(&body["spec"], "levels").map(|level| &level["nodeLabel"]).collect();
    if labels.is_empty() || labels.len() > 16 {
        return Some("spec.levels: must have between 1 and 16 items".into());
    }
    if labels.iter().any(|label| label.as_str().is_none_or(str::is_empty)) {
        return Some("spec.levels: nodeLabel: Required value".into());
    }
    if labels[..labels.len() - 1].iter().any(|label| label.as_str() == Some(HOSTNAME)) {
        return Some(
            "spec.levels: the kubernetes.io/hostname label can only be used at the lowest level of topology".into(),
        );
    }
    let unique: BTreeSet<_> = labels.iter().filter_map(|label| label.as_str()).collect();
    (unique.len() < labels.len()).then(|| "spec.levels: Duplicate value".into())
}

fn flavor(body: &Value, before: Option<&Value>) -> Option<String> {
    let (spec, has_topology) = (&body["spec"], |spec: &Value| spec["topologyName"].is_string());
    if let Some(before) = before.map(|before| &before["spec"]).filter(|before| has_topology(before)) {
        if before["topologyName"] != spec["topologyName"] {
            return Some("spec.topologyName: Invalid value: topologyName is immutable when topologyName is set".into());
        }
        if before["nodeLabels"] != spec["nodeLabels"] {
            return Some("spec.nodeLabels: Invalid value: nodeLabels are immutable when topologyName is set".into());
        }
        if before["tolerations"] != spec["tolerations"] {
            return Some("spec: Invalid value: tolerations are immutable when topologyName is set".into());
        }
    }
    let labels = spec["nodeLabels"].as_object().map_or(0, serde_json::Map::len);
    if has_topology(spec) && labels == 0 {
        return Some("spec: Invalid value: at least one nodeLabel is required when topology is set".into());
    }
    let most = labels.max(list(spec, "nodeTaints").count()).max(list(spec, "tolerations").count());
    (most > 8).then(|| "spec: Too many: must have at most 8 items".into())
}

fn local_queue(body: &Value, before: Option<&Value>) -> Option<String> {
    let queue = &body["spec"]["clusterQueue"];
    let moved = before.is_some_and(|before| before["spec"]["clusterQueue"] != *queue);
    moved.then(|| "spec.clusterQueue: Invalid value: field is immutable".into())
}

fn priority(body: &Value, before: Option<&Value>) -> Option<String> {
    let Some(value) = body["value"].as_i64() else { return Some("value: Required value".into()) };
    let moved = before.is_some_and(|before| before["value"].as_i64() != Some(value));
    moved.then(|| "value: Forbidden: may not be changed in an update.".into())
}

fn preempts(body: &Value, before: Option<&Value>) -> Option<String> {
    fn policy(body: &Value) -> &str {
        body["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority")
    }
    let moved = before.is_some_and(|before| policy(before) != policy(body));
    moved.then(|| format!("preemptionPolicy: Invalid value: \"{}\": field is immutable", policy(body)))
}

fn preemption(body: &Value) -> Option<String> {
    let preemption = &body["spec"]["preemption"];
    let says = |value: &Value, word: &str| value.as_str().unwrap_or("Never") == word;
    let forbidden = says(&preemption["reclaimWithinCohort"], "Never")
        && !says(&preemption["borrowWithinCohort"]["policy"], "Never");
    forbidden.then(|| {
        "spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never".into()
    })
}

/// Quotas of a queue or a cohort, which may have limits only below something that lends.
fn groups(body: &Value, above: &str, word: &str) -> Option<String> {
    let spec = &body["spec"];
    let alone = spec[above].as_str().is_none_or(str::is_empty);
    let (mut flavors, mut resources) = (BTreeSet::new(), BTreeSet::new());
    for group in list(spec, "resourceGroups") {
        let covered: Vec<&str> = list(group, "coveredResources").filter_map(Value::as_str).collect();
        if covered.iter().any(|name| !resources.insert(*name)) {
            return Some("spec.resourceGroups.coveredResources: Duplicate value".into());
        }
        for flavor in list(group, "flavors") {
            if !flavors.insert(flavor["name"].as_str().unwrap_or_default()) {
                return Some("spec.resourceGroups.flavors: Duplicate value".into());
            }
            let named: Vec<&str> = list(flavor, "resources").filter_map(|one| one["name"].as_str()).collect();
            if named.len() != covered.len() {
                return Some("spec.resourceGroups: Invalid value: flavors must have the same number of resources as the coveredResources".into());
            }
            if named != covered {
                return Some("spec.resourceGroups.flavors.resources.name: Invalid value: must match the name in coveredResources".into());
            }
            if let Some(wrong) = list(flavor, "resources").find_map(|one| quota(one, alone, word)) {
                return Some(wrong);
            }
        }
    }
    None
}

fn quota(resource: &Value, alone: bool, word: &str) -> Option<String> {
    let name = resource["name"].as_str().unwrap_or_default();
    let limit = |key: &str| match &resource[key] {
        Value::Null => Ok(None),
        value => amount(name, value).filter(|amount| *amount >= 0).map(Some).ok_or_else(|| {
            format!("{key}: Invalid value: {value}: quantities must match the regular expression, and be at least 0")
        }),
    };
    let (nominal, borrowing, lending) = match (limit("nominalQuota"), limit("borrowingLimit"), limit("lendingLimit")) {
        (Ok(nominal), Ok(borrowing), Ok(lending)) => (nominal, borrowing, lending),
        (Err(wrong), ..) | (_, Err(wrong), _) | (.., Err(wrong)) => return Some(wrong),
    };
    let Some(nominal) = nominal else { return Some("nominalQuota: Required value".into()) };
    if alone && borrowing.is_some() {
        return Some(format!("borrowingLimit: Invalid value: must be nil when {word} is empty"));
    }
    if alone && lending.is_some() {
        return Some(format!("lendingLimit: Invalid value: must be nil when {word} is empty"));
    }
    lending.filter(|lending| *lending > nominal).map(|lending| {
        format!("lendingLimit: Invalid value: \"{lending}\": must be less than or equal to the nominalQuota")
    })
}
