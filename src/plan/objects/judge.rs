//! What one object needs: nothing, a write, another object in its place, or a person.

use serde_json::Value;

use super::quotas::{self, Shift};
use super::{bodies, fields, thing_of};
use crate::effect::marks::WRITTEN;
use crate::effect::{Object, canonical, digest_of};
use crate::ids::StepId;
use crate::observed::{Gap, ObjectKey, ObjectKind, ObjectSeen};
use crate::plan::steps::held;
use crate::plan::types::{Held, PlanInput, Reason, WaitingOn};

/// How much of a digest names a step.
const SHORT: usize = 12;

pub enum Judged<'a> {
    Same,
    /// It was not seen, and not everything of its kind was read.
    Unread(&'a Gap),
    Held(Box<Held>),
    Change(Box<Change<'a>>),
}

/// A difference that can be written.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    pub wanted: &'a Object,
    pub seen: Option<&'a ObjectSeen>,
    pub reason: Reason,
    pub shift: Shift,
    /// Somebody else moved it.
    pub drifted: bool,
    pub note: Option<String>,
    /// The server refuses to change a field of it: it is deleted, and made again.
    pub replaces: bool,
}

/// The step that writes an object.
pub fn written_by(wanted: &Object) -> StepId {
    let digest = wanted.digest.as_str();
    StepId::from(format!("apply:{}@{}", wanted.key, &digest[..SHORT.min(digest.len())]))
}

impl Change<'_> {
    pub fn id(&self) -> StepId {
        written_by(self.wanted)
    }

    /// Whether it must come after another change of a class: between the two writes a tier would stand above one that
    /// ranks higher.
    pub fn waits_in_rank(&self, other: &Change<'_>) -> bool {
        let (Some(new), Some(its_new)) = (self.class(), other.class()) else { return false };
        let same_kind = self.wanted.key.kind == other.wanted.key.kind;
        let Some(its_old) = other.seen.and_then(|seen| seen.body["value"].as_i64()) else { return false };
        let old = self.seen.and_then(|seen| seen.body["value"].as_i64());
        let passes = |ours: i64| (ours < its_old) != (new < its_new) || ours == its_old;
        // Where they stood the wrong way round already, any order does.
        same_kind && passes(new) && !old.is_some_and(passes)
    }

    /// Whether it would stand on the wrong side of a class that cannot be changed now.
    pub fn ranks_past(&self, input: &PlanInput, other: &ObjectKey) -> bool {
        let its = |body: &Value| body["value"].as_i64();
        let wanted = input.desired.objects.iter().find(|object| object.key == *other).and_then(|o| its(&o.body));
        let seen = input.observed.cluster.objects.seen().get(other).and_then(|seen| its(&seen.body));
        match (self.class(), wanted, seen) {
            (Some(new), Some(wanted), Some(seen)) if self.wanted.key.kind == other.kind => {
                new == seen || (new < seen) != (new < wanted)
            }
            _ => false,
        }
    }

    /// The other class of the same tier: pods are ranked by the one, workloads by the other.
    pub fn twin(&self) -> Option<ObjectKey> {
        let kind = match self.wanted.key.kind {
            ObjectKind::PriorityClass => ObjectKind::WorkloadPriorityClass,
            ObjectKind::WorkloadPriorityClass => ObjectKind::PriorityClass,
            _ => return None,
        };
        Some(ObjectKey::cluster(kind, &self.wanted.key.name))
    }

    /// The number of a priority class; none for other objects.
    pub fn class(&self) -> Option<i64> {
        let is_class = matches!(self.wanted.key.kind, ObjectKind::PriorityClass | ObjectKind::WorkloadPriorityClass);
        self.wanted.body["value"].as_i64().filter(|_| is_class)
    }

    /// What it is about, in one line.
    pub fn sentence(&self) -> String {
        let key = self.wanted.key.words();
        let Some(seen) = self.seen else { return format!("make {key}") };
        let changes = fields::changes(&fields::fields(self.wanted.key.kind, &seen.body, &self.wanted.body));
        match changes.is_empty() {
            true => format!("{key} as the documents say"),
            false => format!("{key}: {changes}"),
        }
    }
}

pub fn judge<'a>(input: &'a PlanInput, wanted: &'a Object) -> Judged<'a> {
    let key = &wanted.key;
    let named = key.words();
    let Some(seen) = input.observed.cluster.objects.seen().get(key) else {
        return match input.observed.cluster.gap_of(key.kind) {
            None => change(wanted, None, Reason::Wanted, false, None),
            Some(gap) => Judged::Unread(gap),
        };
    };
    let hold = |text: String, reason: Reason, waiting_on: WaitingOn| {
        Judged::Held(Box::new(held(&thing_of(input, key), text, reason, waiting_on)))
    };
    let is = digest_of(&canonical(&seen.body));
    let same = is == wanted.digest || bodies::covers(&seen.body, &wanted.body);
    let (reason, drifted, note) = match &seen.written {
        _ if seen.deleting => {
            let name = users(input, key).into_iter().next().unwrap_or_else(|| format!("whatever uses {named}"));
            return hold(format!("{named}, which is being deleted"), Reason::Wanted, WaitingOn::Gang { name });
        }
        Some(written) if *written == wanted.digest && same => return Judged::Same,
        Some(written) if *written == wanted.digest => {
            let by = seen.moved_by.as_ref().map(|(who, _)| who.clone());
            (Reason::Drift { by }, true, None)
        }
        Some(written) => (Reason::Wanted, seen.moved_by.is_some() && is != *written, None),
        // A namespace is its team's: it only has to be there.
        None if same && key.kind == ObjectKind::Namespace => return Judged::Same,
        // It is named by what is in it, and fleets of one cluster share it: whoever made it, it serves all of them.
        None if is == wanted.digest && key.kind == ObjectKind::Topology => return Judged::Same,
        None if is == wanted.digest => {
            (Reason::Wanted, false, Some(format!("{named} was there already: it is taken over as it is")))
        }
        None if may_adopt(input, key) => {
            let changes = fields::changes(&fields::fields(key.kind, &seen.body, &wanted.body));
            let changes = if changes.is_empty() { String::new() } else { format!(" and changes {changes}") };
            let text = format!("{named} was somebody else's: the Quota takes it over{changes}");
            (Reason::Wanted, false, Some(text))
        }
        None if same => {
            let patch = format!("{} {WRITTEN}={}", kubectl("annotate", key), wanted.digest);
            let waits = WaitingOn::OtherOwner { object: key.clone(), patch };
            return hold(format!("{named}, which is as the documents say, as ours"), Reason::Wanted, waits);
        }
        None => {
            let patch = bodies::patch(&seen.body, &wanted.body);
            let patch = format!("{} --type=merge -p '{patch}'", kubectl("patch", key));
            let waits = WaitingOn::OtherOwner { object: key.clone(), patch };
            return hold(format!("{named}, which another tool made, as the documents say"), Reason::Wanted, waits);
        }
    };
    let Some(field) = immutable(key.kind, &seen.body, &wanted.body) else {
        return change(wanted, Some(seen), reason, drifted, note);
    };
    // Only what is ours is deleted.
    if seen.written.is_some() && may_be_replaced(key.kind) {
        let note = format!("{field} of {named} cannot be changed: it is deleted, and made again at once");
        let change = Change { replaces: true, ..difference(wanted, Some(seen), reason, drifted, Some(note)) };
        return Judged::Change(Box::new(change));
    }
    let users = users(input, key);
    let uses = match users.len() {
        0 | 1 => " uses".into(),
        all => format!(" and {} more use", all - 1),
    };
    let text = match users.first() {
        Some(first) => format!(
            "{field} of {named} cannot be changed, and {first}{uses} it: give the new one another name, or let what \
             uses it end, and delete it: {}",
            kubectl("delete", key)
        ),
        None => {
            format!("{field} of {named} cannot be changed. Delete it, and it is made again: {}", kubectl("delete", key))
        }
    };
    hold(format!("another {field} of {named}"), reason, WaitingOn::Person(text))
}

fn change<'a>(
    wanted: &'a Object,
    seen: Option<&'a ObjectSeen>,
    reason: Reason,
    drifted: bool,
    note: Option<String>,
) -> Judged<'a> {
    Judged::Change(Box::new(difference(wanted, seen, reason, drifted, note)))
}

fn difference<'a>(
    wanted: &'a Object,
    seen: Option<&'a ObjectSeen>,
    reason: Reason,
    drifted: bool,
    note: Option<String>,
) -> Change<'a> {
    let shift = match quotas::gives_quota(&wanted.key) {
        true => quotas::shift(seen.map(|seen| &seen.body), Some(&wanted.body)),
        false => Shift::default(),
    };
    Change { wanted, seen, reason, shift, drifted, note, replaces: false }
}

/// A Quota document names the queues that it takes over.
fn may_adopt(input: &PlanInput, key: &ObjectKey) -> bool {
    matches!(key.kind, ObjectKind::ClusterQueue | ObjectKind::LocalQueue)
        && matches!(thing_of(input, key), crate::effect::Thing::Quota(_))
}

/// Whether an object can be gone for a moment. Pods keep the number of their class, and what waits in a queue that is
/// not there goes on waiting when it is. A flavor and a topology stay as long as somebody uses them.
fn may_be_replaced(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::PriorityClass | ObjectKind::LocalQueue)
}

/// What the server refuses to change.
fn immutable(kind: ObjectKind, seen: &Value, wanted: &Value) -> Option<&'static str> {
    let differs = |field: &str| {
        let at = |body: &Value| body["spec"][field].clone();
        let is_nothing = |value: &Value| {
            value.as_object().is_some_and(|map| map.is_empty()) || value.as_array().is_some_and(Vec::is_empty)
        };
        at(seen) != at(wanted) && !(at(wanted).is_null() && is_nothing(&at(seen)))
    };
    match kind {
        // Whoever runs with a class keeps its number, so the server refuses another one; and whom it preempts likewise.
        ObjectKind::PriorityClass => {
            let rank = (seen["value"] != wanted["value"]).then_some("rank");
            rank.or_else(|| (preempts(seen) != preempts(wanted)).then_some("preempts"))
        }
        ObjectKind::Topology => differs("levels").then_some("order of fabric levels"),
        ObjectKind::ResourceFlavor if seen["spec"]["topologyName"].is_string() => {
            let labels = differs("nodeLabels").then_some("set of node labels");
            let topology = || differs("topologyName").then_some("topology");
            labels.or_else(topology).or_else(|| differs("tolerations").then_some("set of tolerations"))
        }
        ObjectKind::LocalQueue => differs("clusterQueue").then_some("ClusterQueue"),
        _ => None,
    }
}

/// Whom the pods of a class preempt; what is left out the server fills in.
pub fn preempts(body: &Value) -> &str {
    body["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority")
}

/// The objects that an object names.
pub fn names(object: &Object) -> Vec<ObjectKey> {
    let mut found = named_in(object.key.kind, &object.body);
    if let Some(namespace) = &object.key.namespace {
        found.push(ObjectKey::cluster(ObjectKind::Namespace, namespace));
    }
    found
}

pub fn named_in(kind: ObjectKind, body: &Value) -> Vec<ObjectKey> {
    let spec = &body["spec"];
    let one = |kind: ObjectKind, field: &str| spec[field].as_str().map(|name| ObjectKey::cluster(kind, name));
    let flavors = || {
        let mut flavors: Vec<ObjectKey> = crate::queue::parse::quotas(body)
            .into_keys()
            .map(|(flavor, _)| ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str()))
            .collect();
        flavors.dedup();
        flavors
    };
    match kind {
        ObjectKind::ResourceFlavor => one(ObjectKind::Topology, "topologyName").into_iter().collect(),
        ObjectKind::ClusterQueue => flavors().into_iter().chain(one(ObjectKind::Cohort, "cohortName")).collect(),
        ObjectKind::Cohort => flavors().into_iter().chain(one(ObjectKind::Cohort, "parentName")).collect(),
        ObjectKind::LocalQueue => one(ObjectKind::ClusterQueue, "clusterQueue").into_iter().collect(),
        ObjectKind::ValidatingAdmissionPolicyBinding => {
            one(ObjectKind::ValidatingAdmissionPolicy, "policyName").into_iter().collect()
        }
        ObjectKind::MutatingAdmissionPolicyBinding => {
            one(ObjectKind::MutatingAdmissionPolicy, "policyName").into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Who uses an object now: objects that name it, and workloads that run or wait on it.
pub fn users(input: &PlanInput, key: &ObjectKey) -> Vec<String> {
    users_but(input, key, &|_| false)
}

/// The same without some objects.
pub fn users_but(input: &PlanInput, key: &ObjectKey, but: &dyn Fn(&ObjectKey) -> bool) -> Vec<String> {
    let cluster = &input.observed.cluster;
    let objects = cluster.objects.seen().iter().filter(|(other, seen)| {
        *other != key
            && !but(other)
            && named_in(other.kind, &seen.body).contains(key)
            && key.kind != ObjectKind::ClusterQueue
    });
    let objects = objects.map(|(other, _)| other.words());
    let queue = cluster.objects.seen().get(key).and_then(|seen| seen.body["spec"]["clusterQueue"].as_str());
    let workloads = cluster.workloads.seen().values().filter(|workload| {
        !workload.finished
            && match key.kind {
                ObjectKind::ResourceFlavor => workload.flavors.values().any(|flavor| *flavor.as_str() == *key.name),
                ObjectKind::ClusterQueue => *workload.queue.as_str() == *key.name,
                ObjectKind::LocalQueue => {
                    Some(workload.name.namespace.as_str()) == key.namespace.as_deref()
                        && Some(workload.queue.as_str()) == queue
                }
                _ => false,
            }
    });
    objects.chain(workloads.map(|workload| workload.name.to_string())).collect()
}

/// A command for a person.
pub fn kubectl(verb: &str, key: &ObjectKey) -> String {
    let namespace = key.namespace.as_ref().map_or(String::new(), |namespace| format!(" -n {namespace}"));
    format!("kubectl{namespace} {verb} {} {}", key.kind.name().to_lowercase(), key.name)
}
