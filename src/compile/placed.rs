//! Where work goes that says nothing of its place: near each other, where a SchedulerProfile prefers a level of the fabric.
//!
//! Kueue decides on the place of a whole gang, by annotations of its pods that few people write. So for each quota a policy
//! says it for Workloads that say nothing: to share the level that is preferred, or, where only a total needs a word of
//! their place (`currency`), to be placed anywhere, as Kueue would have placed them anyhow. Their pods get the same word,
//! because Kueue lets no others go to their nodes. Who says anything of its place is taken at its word.
//!
//! Nobody knows then which pool the work will go to, and Kueue passes over nodes whose topology lacks a level that is asked
//! for, even where it is only preferred. So a level is said only where all pools that a quota may use have it, and of two
//! levels that of the pool which its queue prefers. What is not said for that is told ([`unheard`]). A policy that is there
//! stays: where nothing is preferred any more, it says anywhere.

use serde_json::{Value, json};

use super::currency::{self, Covered};
use super::{flavors, tiers};
use crate::effect::Object;
use crate::fleet::Target;
use crate::fleet::standing::{QuotaSpec, Standing};
use crate::ids::{LevelName, PoolName, QuotaName};
use crate::observed::{ObjectKey, ObjectKind};

/// As many sets of pods as a Workload may have.
const MOST_POD_SETS: usize = 18;

/// The binding and the policy of a quota: what is deleted first comes first.
pub fn policy_keys(quota: &QuotaName) -> [ObjectKey; 2] {
    let name = format!("tidewright-placed-{quota}");
    [ObjectKind::MutatingAdmissionPolicyBinding, ObjectKind::MutatingAdmissionPolicy]
        .map(|kind| ObjectKey::cluster(kind, &name))
}

/// For each quota what has its work say how it is placed, policies before bindings.
pub fn policies(target: &Target, covered: &Covered) -> Vec<Object> {
    let standing = &target.standing;
    let is_counted = covered.counts || currency::is_wanted(target);
    let mut both = Vec::new();
    for (name, quota) in standing.quotas.iter().filter(|(_, quota)| !quota.retire) {
        let level = level(standing, name, quota);
        let needs_a_word = is_counted && currency::has_accelerators(standing, name, quota);
        if level.is_none() && !needs_a_word && !covered.is_bound(name) {
            continue;
        }
        let [binding_key, policy_key] = policy_keys(name);
        let selector = tiers::namespace_selector(quota);
        let binding = json!({"policyName": &*policy_key.name, "matchResources": {"namespaceSelector": selector}});
        both.push(Object::new(policy_key, json!({"spec": policy(quota, &Word::of(level))})));
        both.push(Object::new(binding_key, json!({"spec": binding})));
    }
    both.sort_by_key(|object| object.key.kind);
    both
}

/// The label of the level that a quota's work is to share.
fn level(standing: &Standing, name: &QuotaName, quota: &QuotaSpec) -> Option<String> {
    let (pool, level) = asked(standing, name, quota).next()?;
    let label = flavors::label(standing, standing.pools.get(pool)?, level)?;
    let has_it = |pool| flavors::label(standing, pool, level).as_ref() == Some(&label);
    currency::pools(standing, name, quota).all(|(_, pool)| has_it(pool)).then_some(label)
}

/// The pools of a quota for which a level is preferred, the first one first.
fn asked<'a>(
    standing: &'a Standing,
    name: &'a QuotaName,
    quota: &'a QuotaSpec,
) -> impl Iterator<Item = (&'a PoolName, &'a LevelName)> + use<'a> {
    currency::pools(standing, name, quota).filter_map(|(pool, _)| Some((pool, preferred(standing, pool)?)))
}

fn preferred<'a>(standing: &'a Standing, pool: &PoolName) -> Option<&'a LevelName> {
    let mut profiles = standing.schedulers.values().filter(|profile| profile.pools.contains(pool));
    profiles.find_map(|profile| profile.prefer.as_ref())
}

/// Levels that are preferred and not said, and why.
pub fn unheard(standing: &Standing) -> Vec<(&QuotaName, String)> {
    let mut found = Vec::new();
    for (name, quota) in standing.quotas.iter().filter(|(_, quota)| !quota.retire) {
        let mut asked = asked(standing, name, quota);
        let Some((first, level)) = asked.next() else { continue };
        let lacks = |pool| flavors::label(standing, pool, level).is_none();
        if let Some((other, _)) = currency::pools(standing, name, quota).find(|(_, pool)| lacks(pool)) {
            let text = format!(
                "its work is not kept together by {level}, as it is preferred on {first}: it may go to {other} too, where \
                 Kueue knows no {level}, and work that asks for one would never go there"
            );
            found.push((name, text));
        } else if let Some((other, theirs)) = asked.find(|(_, theirs)| *theirs != level) {
            let text = format!(
                "its work is kept together by {level}, as it is preferred on {first}, and not by {theirs} as on {other}: it \
                 says so before anybody knows where it goes"
            );
            found.push((name, text));
        }
    }
    found
}

/// What work is made to say of its place: as a field of its Workload, and as an annotation of its pods.
struct Word {
    field: &'static str,
    value: String,
    annotation: &'static str,
    text: String,
}

impl Word {
    fn of(level: Option<String>) -> Self {
        match level {
            Some(label) => Self {
                field: "preferred",
                value: format!("'{label}'"),
                annotation: "podset-preferred-topology",
                text: label,
            },
            None => Self {
                field: "unconstrained",
                value: "true".into(),
                annotation: "podset-unconstrained-topology",
                text: "true".into(),
            },
        }
    }
}

fn policy(quota: &QuotaSpec, word: &Word) -> Value {
    let queues: Vec<String> = quota.namespaces.iter().map(|(home, queue)| format!("'{home}/{queue}'")).collect();
    let ours = format!(
        "{IS_POD} || has(object.spec.queueName) && object.metadata.namespace + '/' + object.spec.queueName in [{}]",
        queues.join(", ")
    );
    // Kueue lets nobody change the pods of work that holds quota.
    let waits = format!(
        "{IS_POD} || oldObject == null || !has(oldObject.status) || !has(oldObject.status.conditions) || \
         !oldObject.status.conditions.exists(c, c.type == 'QuotaReserved' && c.status == 'True')"
    );
    let gated = format!(
        "!({IS_POD}) || has(object.metadata.annotations) && has(object.spec.schedulingGates) && \
         object.spec.schedulingGates.exists(gate, gate.name == 'kueue.x-k8s.io/topology') && \
         !object.metadata.annotations.exists(key, key.startsWith('kueue.x-k8s.io/podset-') && key.endsWith('-topology') \
         || key == 'kueue.x-k8s.io/podset-slice-required-topology-constraints')"
    );
    let rule = |group: &str, version: &str, operations: &[&str], resource: &str| json!({"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": [resource]});
    let rules =
        [rule("kueue.x-k8s.io", "v1beta2", &["CREATE", "UPDATE"], "workloads"), rule("", "v1", &["CREATE"], "pods")];
    let conditions = [("ours", ours), ("waits", waits), ("gated", gated)];
    let conditions = conditions.map(|(name, expression)| json!({"name": name, "expression": expression}));
    let expression = format!("{IS_POD} ? [{}] : {}", said_on_a_pod(word), said_on_a_workload(word));
    json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": conditions,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    })
}

const IS_POD: &str = "request.resource.resource == 'pods'";

/// Kueue writes a word on the pods of work that said nothing, and opens the gate only of pods that carry one. Work that
/// has it said for it is taken at its word, so its pods need it too.
fn said_on_a_pod(Word { annotation, text, .. }: &Word) -> String {
    format!("JSONPatch{{op: 'add', value: '{text}', path: '/metadata/annotations/kueue.x-k8s.io~1{annotation}'}}")
}

/// Says it of every set of pods that says nothing.
fn said_on_a_workload(Word { field, value, .. }: &Word) -> String {
    let says = [
        "required",
        "preferred",
        "unconstrained",
        "podSetSliceRequiredTopology",
        "podSetSliceSize",
        "podsetSliceRequiredTopologyConstraints",
    ];
    let request = "object.spec.podSets[i].topologyRequest";
    let says: Vec<String> = says.iter().map(|field| format!("has({request}.{field})")).collect();
    let places: Vec<String> = (0..MOST_POD_SETS).map(|place| place.to_string()).collect();
    let path = "'/spec/podSets/' + string(i) + '/topologyRequest";
    format!(
        "[{}].filter(i, i < size(object.spec.podSets) && !(has({request}) && ({}))).map(i, has({request}) ? \
         JSONPatch{{op: 'add', path: {path}/{field}', value: {value}}} : \
         JSONPatch{{op: 'add', path: {path}', value: {{'{field}': {value}}}}})",
        places.join(", "),
        says.join(" || ")
    )
}
