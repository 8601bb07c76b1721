//! Tiers become priority classes of Kubernetes and of Kueue, and a policy for each quota says who may ask for which.

use serde_json::{Value, json};

use crate::effect::Object;
use crate::fleet::Target;
use crate::fleet::standing::QuotaSpec;
use crate::fleet::tier::Preempts;
use crate::ids::{QuotaName, TierName};
use crate::observed::{ObjectKey, ObjectKind};

const PRIORITY_LABEL: &str = "kueue.x-k8s.io/priority-class";
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// The kinds whose label Kueue reads, and on which operations. The label can be changed on what runs, but not on a pod.
const JOBS: [(&str, &[&str]); 9] = [
    ("batch", &["jobs"]),
    ("jobset.x-k8s.io", &["jobsets"]),
    ("leaderworkerset.x-k8s.io", &["leaderworkersets"]),
    ("ray.io", &["rayjobs", "rayclusters", "rayservices"]),
    ("kubeflow.org", &["pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs", "mpijobs"]),
    ("trainer.kubeflow.org", &["trainjobs"]),
    ("sparkoperator.k8s.io", &["sparkapplications"]),
    ("workload.codeflare.dev", &["appwrappers"]),
    ("apps", &["deployments", "statefulsets"]),
];

/// A PriorityClass and a WorkloadPriorityClass for each tier, under its name.
pub fn classes(target: &Target) -> Vec<Object> {
    let tiers = target.standing.tiers.iter();
    let classes = tiers.flat_map(|(name, tier)| {
        let preempts = match tier.preempts {
            Preempts::Never => "Never",
            Preempts::LowerTiers => "PreemptLowerPriority",
        };
        let description = format!("The tier {name} of the fleet {}", target.standing.fleet);
        // No `globalDefault: false`: the server does not give it back, and it would be written for ever.
        let pods = json!({"value": tier.rank, "preemptionPolicy": preempts, "description": description});
        let workloads = json!({"value": tier.rank, "description": description});
        let class = |kind, body| Object::new(ObjectKey::cluster(kind, name.as_str()), body);
        [class(ObjectKind::PriorityClass, pods), class(ObjectKind::WorkloadPriorityClass, workloads)]
    });
    classes.collect()
}

/// Each quota's policy, which says what is allowed, and its binding, which says where.
pub fn policies(target: &Target) -> Vec<Object> {
    let standing = &target.standing;
    let mut objects = Vec::new();
    for (name, quota) in standing.quotas.iter().filter(|(_, quota)| !quota.retire) {
        let others: Vec<&TierName> = standing.tiers.keys().filter(|tier| !quota.tiers.contains(tier)).collect();
        let [binding_key, policy_key] = policy_keys(name);
        let binding = json!({
            "policyName": &*policy_key.name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": namespace_selector(quota)},
        });
        let policy = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": resource_rules()},
            "validations": validations(name, quota, &others),
        });
        objects.push(Object::new(policy_key, json!({"spec": policy})));
        objects.push(Object::new(binding_key, json!({"spec": binding})));
    }
    // Policies before bindings.
    objects.sort_by_key(|object| object.key.kind);
    objects
}

/// The binding and the policy of a quota: what is deleted first comes first.
pub fn policy_keys(quota: &QuotaName) -> [ObjectKey; 2] {
    let name = format!("tidewright-tiers-{quota}");
    [ObjectKind::ValidatingAdmissionPolicyBinding, ObjectKind::ValidatingAdmissionPolicy]
        .map(|kind| ObjectKey::cluster(kind, &name))
}

/// A quota's namespaces, by the label that every namespace has.
pub fn namespace_selector(quota: &QuotaSpec) -> Value {
    let names: Vec<&str> = quota.namespaces.iter().map(|(namespace, _)| namespace.as_str()).collect();
    json!({"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "In", "values": names}]})
}

fn resource_rules() -> Vec<Value> {
    let jobs = JOBS.iter().map(|(group, kinds)| {
        json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": kinds})
    });
    let pods = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    jobs.chain([pods]).collect()
}

/// Where each kind of work names the PriorityClass of its pods. `[]` stands for every element, `{}` for every value.
const CLASSES: [&str; 20] = [
    "spec.priorityClassName",
    "spec.template.spec.priorityClassName",
    "spec.replicatedJobs[].template.spec.template.spec.priorityClassName",
    "spec.leaderWorkerTemplate.leaderTemplate.spec.priorityClassName",
    "spec.leaderWorkerTemplate.workerTemplate.spec.priorityClassName",
    "spec.headGroupSpec.template.spec.priorityClassName",
    "spec.workerGroupSpecs[].template.spec.priorityClassName",
    "spec.rayClusterSpec.headGroupSpec.template.spec.priorityClassName",
    "spec.rayClusterSpec.workerGroupSpecs[].template.spec.priorityClassName",
    "spec.rayClusterConfig.headGroupSpec.template.spec.priorityClassName",
    "spec.rayClusterConfig.workerGroupSpecs[].template.spec.priorityClassName",
    "spec.runPolicy.schedulingPolicy.priorityClass",
    "spec.pytorchReplicaSpecs{}.template.spec.priorityClassName",
    "spec.tfReplicaSpecs{}.template.spec.priorityClassName",
    "spec.xgbReplicaSpecs{}.template.spec.priorityClassName",
    "spec.paddleReplicaSpecs{}.template.spec.priorityClassName",
    "spec.jaxReplicaSpecs{}.template.spec.priorityClassName",
    "spec.mpiReplicaSpecs{}.template.spec.priorityClassName",
    "spec.batchSchedulerOptions.priorityClassName",
    "spec.components[].template.spec.template.spec.priorityClassName",
];

/// Classes that every cluster has. They stand above all that a tier can be, and anybody may name them.
const ABOVE_ALL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Kueue takes a job's priority from its label, and where there is none from the PriorityClass of its pods. So neither
/// may name a tier that is not the quota's, nor a class that stands above all tiers. No label at all is allowed: such work
/// is in no tier. Classes of the cluster's owner that are no tiers are allowed too. What an
/// update finds it may keep: work that was admitted before a quota lost a tier still has to be suspended, resumed and
/// deleted.
fn validations(name: &QuotaName, quota: &QuotaSpec, others: &[&TierName]) -> Vec<Value> {
    let message = format!("the quota {name} allows the tiers {}", words(quota));
    let rule = |expression: String| json!({"expression": expression, "message": message, "reason": "Forbidden"});
    let mut rules = vec![rule(label_rule(&list(quota.tiers.iter().map(TierName::as_str))))];
    let others = list(others.iter().map(|tier| tier.as_str()).chain(ABOVE_ALL));
    rules.extend(CLASSES.iter().map(|path| rule(class_rule(path, &others))));
    rules
}

fn label_rule(own: &str) -> String {
    let label = |object: &str| format!("{object}.metadata.labels['{PRIORITY_LABEL}']");
    let lacks =
        |object: &str| format!("!has({object}.metadata.labels) || !('{PRIORITY_LABEL}' in {object}.metadata.labels)");
    let (new, old) = (label("object"), label("oldObject"));
    format!(
        "{} || {new} in {own} || (oldObject != null && !({}) && {old} == {new})",
        lacks("object"),
        lacks("oldObject")
    )
}

fn class_rule(path: &str, others: &str) -> String {
    let steps: Vec<&str> = path.split('.').collect();
    let names_no = |object: &str| names_none(object, &steps, others, 0);
    format!("({}) || (oldObject != null && !({}))", names_no("object"), names_no("oldObject"))
}

/// An expression that holds where nothing at this path names one of the tiers.
fn names_none(object: &str, path: &[&str], tiers: &str, depth: usize) -> String {
    let Some((step, rest)) = path.split_first() else { return format!("!({object} in {tiers})") };
    let name = step.trim_end_matches(['[', ']', '{', '}']);
    let field = format!("{object}.{name}");
    let variable = format!("x{depth}");
    let inner = if step.ends_with("[]") {
        format!("{field}.all({variable}, {})", names_none(&variable, rest, tiers, depth + 1))
    } else if step.ends_with("{}") {
        let value = format!("{field}[{variable}]");
        format!("{field}.all({variable}, {})", names_none(&value, rest, tiers, depth + 1))
    } else {
        names_none(&field, rest, tiers, depth)
    };
    format!("!has({field}) || {inner}")
}

fn list<'a>(tiers: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = tiers.map(|tier| format!("'{tier}'")).collect();
    format!("[{}]", quoted.join(", "))
}

fn words(quota: &QuotaSpec) -> String {
    quota.tiers.iter().map(TierName::as_str).collect::<Vec<_>>().join(", ")
}
