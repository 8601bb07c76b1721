//! One currency for whole GPUs and slices, in which a quota's `total` is kept.
//!
//! Kueue counts each resource of each flavor apart. Its Configuration can have a resource counted as a second one too:
//! every accelerator is then also so many thousandths of a GPU (`fleet::worth`), of which each queue has a quota of its
//! own that it neither lends nor borrows: its total, or more than there is. Where that is switched on, a queue that does
//! not cover the currency admits no GPUs at all, so the queues come first and the Configuration, which is somebody
//! else's, after them (`plan::others`).
//!
//! The currency is on no node. A queue with such a flavor beside flavors that have a topology takes only work that says
//! how it is placed. So a policy says for each Workload that says nothing what Kueue would have done with it anyhow: to
//! be placed anywhere; and the same for its pods, because Kueue lets no others go to their nodes. Work that was there
//! before the policy keeps a queue from the currency until it has ended: it could not start again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{gpus, holds, quantity, tiers};
use crate::effect::{Object, Staged};
use crate::fleet::Target;
use crate::fleet::standing::{PoolSpec, QuotaSpec, Standing};
use crate::fleet::worth;
use crate::ids::{NamespacedName, QuotaName};
use crate::observed::{ClusterSeen, ObjectKey, ObjectKind};
use crate::queue::mode;
use crate::queue::parse::quotas;
use crate::queue::transform::of_file;

/// What Kueue counts beside the accelerators themselves.
pub const CURRENCY: &str = "tidewright.dev/gpu-thousandths";
/// The flavor of it: no nodes, no topology.
pub const FLAVOR: &str = "tidewright-total";
/// A million GPUs, as many as a total can say: no limit.
pub const AMPLE: u64 = 1_000_000 * worth::WHOLE;
/// As many sets of pods as a Workload may have.
const MOST_POD_SETS: usize = 18;

/// What of the snapshot decides whether queues have the currency.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Covered {
    /// Kueue counts in it: a queue without it would admit nothing.
    pub counts: bool,
    /// What Kueue counts in was not seen: who has the currency keeps it.
    unseen: bool,
    /// Queues that have it.
    queues: BTreeSet<String>,
    /// Policies that are there, with their bindings.
    policies: BTreeSet<String>,
    /// Work that does not say how it is placed, by queue.
    unplaced: BTreeMap<String, Vec<NamespacedName>>,
    /// Not all work was seen.
    blind: bool,
}

impl Covered {
    pub fn of(cluster: &ClusterSeen) -> Self {
        let seen = cluster.objects.seen();
        let file = cluster.others.kueue.seen().as_ref().and_then(mode::file);
        let rules = file.as_ref().map(|(_, file)| of_file(file)).unwrap_or_default();
        let queues = seen.iter().filter(|(key, seen)| key.kind == ObjectKind::ClusterQueue && has_it(&seen.body));
        let there = |kind: ObjectKind| {
            let of_kind = seen.iter().filter(move |(key, _)| key.kind == kind);
            of_kind.filter(|(_, seen)| seen.written.is_some() && !seen.deleting).map(|(key, _)| key.name.to_string())
        };
        let bound: BTreeSet<String> = there(ObjectKind::MutatingAdmissionPolicyBinding).collect();
        let mut unplaced: BTreeMap<String, Vec<NamespacedName>> = BTreeMap::new();
        for work in cluster.workloads.seen().values().filter(|work| !work.finished && !work.placed) {
            unplaced.entry(work.queue.to_string()).or_default().push(work.name.clone());
        }
        unplaced.values_mut().for_each(|names| names.sort());
        Self {
            counts: rules.values().any(|rule| rule.outputs.contains_key(CURRENCY)),
            unseen: file.is_none(),
            queues: queues.map(|(key, _)| key.name.to_string()).collect(),
            policies: there(ObjectKind::MutatingAdmissionPolicy).filter(|name| bound.contains(name)).collect(),
            unplaced,
            blind: cluster.workloads.gap().is_some(),
        }
    }

    /// Whether a quota's queue is to have it.
    pub fn covers(&self, target: &Target, name: &QuotaName, quota: &QuotaSpec) -> bool {
        let queue = &quota.cluster_queue;
        let has_it = self.queues.contains(queue);
        let is_ready = || self.is_bound(name) && !self.blind && !self.unplaced.contains_key(queue);
        has_accelerators(&target.standing, name, quota)
            && (self.counts || has_it && self.unseen || is_wanted(target) && (has_it || is_ready()))
    }

    /// Whether every queue that needs it has it, so that Kueue may count in it.
    pub fn is_everywhere(&self, target: &Target) -> bool {
        live(target).all(|(_, quota)| self.queues.contains(&quota.cluster_queue))
    }

    fn is_bound(&self, quota: &QuotaName) -> bool {
        self.policies.contains(&*policy_keys(quota)[1].name)
    }

    /// Totals that wait for work from before.
    pub fn staged(&self, target: &Target) -> Vec<Staged> {
        let waiting = live(target).filter(|(name, quota)| self.is_bound(name) && !self.covers(target, name, quota));
        let waiting = waiting.filter(|_| is_wanted(target)).filter_map(|(name, quota)| {
            let key = ObjectKey::cluster(ObjectKind::ClusterQueue, &quota.cluster_queue);
            let total = total(&target.standing, name, quota).map_or("no total".into(), worth::text);
            let wanted = format!(
                "{} counts GPUs and slices together, up to {total} (what waits or runs there since before would not \
                 start again: it does not say how it is placed)",
                key.words()
            );
            let waits = self.unplaced.get(&quota.cluster_queue)?.clone();
            Some(Staged { key, wanted, waits, carried: Vec::new() })
        });
        waiting.collect()
    }
}

/// Whether an object gives any of it.
pub fn has_it(body: &Value) -> bool {
    quotas(body).keys().any(|(_, resource)| resource.as_str() == CURRENCY)
}

/// Whether any quota has a total that can be kept in it.
pub fn is_wanted(target: &Target) -> bool {
    live(target).any(|(name, quota)| total(&target.standing, name, quota).is_some())
}

/// The quotas whose queues have accelerators.
pub fn live(target: &Target) -> impl Iterator<Item = (&QuotaName, &QuotaSpec)> {
    let standing = &target.standing;
    standing.quotas.iter().filter(|(name, quota)| !quota.retire && has_accelerators(standing, name, quota))
}

/// What a quota may use over all its pools together, in the currency.
pub fn total(standing: &Standing, name: &QuotaName, quota: &QuotaSpec) -> Option<u64> {
    let pools: Vec<_> = pools(standing, name, quota).map(|pool| (pool.shape.gpus, holds::gpu(pool))).collect();
    worth::of_total(quota.total.as_ref()?, &pools)
}

/// The pools that a quota has a share of, or is lent some of.
fn pools<'a>(
    standing: &'a Standing,
    name: &'a QuotaName,
    quota: &'a QuotaSpec,
) -> impl Iterator<Item = &'a PoolSpec> + use<'a> {
    let loans = standing.tides.values().flat_map(|tide| &tide.loans).filter(move |loan| loan.to == *name);
    quota.pools.iter().chain(loans.map(|loan| &loan.pool)).filter_map(|pool| standing.pools.get(pool))
}

fn has_accelerators(standing: &Standing, name: &QuotaName, quota: &QuotaSpec) -> bool {
    pools(standing, name, quota).any(|pool| pool.shape.gpus > 0)
}

/// What one of each accelerator of the fleet is worth. Where two pools differ, the dearer: a total is never passed.
pub fn worths(target: &Target) -> holds::Resources {
    let standing = &target.standing;
    let mut found = holds::Resources::new();
    for (name, pool) in standing.pools.iter().filter(|(_, pool)| pool.shape.gpus > 0) {
        for layout in gpus::layouts(standing, name, pool) {
            for (resource, worth) in holds::worths(standing, pool, &layout) {
                let known = found.entry(resource).or_insert(worth);
                *known = worth.max(*known);
            }
        }
    }
    found
}

/// What all of these are worth together.
pub fn worth(target: &Target, held: &holds::Resources) -> u64 {
    if held.is_empty() {
        return 0;
    }
    let worths = worths(target);
    held.iter().map(|(resource, amount)| amount * worths.get(resource).copied().unwrap_or(0)).sum()
}

pub fn flavor() -> Object {
    Object::new(ObjectKey::cluster(ObjectKind::ResourceFlavor, FLAVOR), json!({"spec": {}}))
}

/// The group of it in a queue. It is the queue's own: a total is a limit, and nobody else's.
pub fn group(total: Option<u64>, has_cohort: bool) -> Value {
    let mut quota = json!({"name": CURRENCY, "nominalQuota": quantity::count(total.unwrap_or(AMPLE))});
    if has_cohort {
        quota["borrowingLimit"] = "0".into();
        quota["lendingLimit"] = "0".into();
    }
    json!({"coveredResources": [CURRENCY], "flavors": [{"name": FLAVOR, "resources": [quota]}]})
}

/// The binding and the policy of a quota: what is deleted first comes first.
pub fn policy_keys(quota: &QuotaName) -> [ObjectKey; 2] {
    let name = format!("tidewright-placed-{quota}");
    [ObjectKind::MutatingAdmissionPolicyBinding, ObjectKind::MutatingAdmissionPolicy]
        .map(|kind| ObjectKey::cluster(kind, &name))
}

/// For each quota what has its work say how it is placed, policies before bindings.
pub fn policies(target: &Target, covered: &Covered) -> Vec<Object> {
    if !covered.counts && !is_wanted(target) {
        return Vec::new();
    }
    let both = live(target).flat_map(|(name, quota)| {
        let [binding_key, policy_key] = policy_keys(name);
        let selector = tiers::namespace_selector(quota);
        let binding = json!({"policyName": &*policy_key.name, "matchResources": {"namespaceSelector": selector}});
        let policy = Object::new(policy_key, json!({"spec": policy(quota)}));
        [policy, Object::new(binding_key, json!({"spec": binding}))]
    });
    let mut both: Vec<Object> = both.collect();
    both.sort_by_key(|object| object.key.kind);
    both
}

fn policy(quota: &QuotaSpec) -> Value {
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
    let expression = format!("{IS_POD} ? [{POD_ANYWHERE}] : {}", anywhere());
    json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": conditions,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    })
}

const IS_POD: &str = "request.resource.resource == 'pods'";

/// Kueue writes this on the pods of work that said nothing, and opens the gate only of pods that carry a word of their
/// place. Work that has it said for it is taken at its word, so its pods need it too.
const POD_ANYWHERE: &str = "JSONPatch{op: 'add', value: 'true', \
    path: '/metadata/annotations/kueue.x-k8s.io~1podset-unconstrained-topology'}";

/// Says of every set of pods that says nothing that it may be placed anywhere.
fn anywhere() -> String {
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
         JSONPatch{{op: 'add', path: {path}/unconstrained', value: true}} : \
         JSONPatch{{op: 'add', path: {path}', value: {{'unconstrained': true}}}})",
        places.join(", "),
        says.join(" || ")
    )
}
