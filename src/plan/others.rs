//! What other tools own and ours rests on: it is looked at, and a change that it needs is held with the patch to make.
//!
//! How it has to be stands in `compile::others`. A node is not emptied for a cut that nobody would carry out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::draft::{Course, Draft};
use super::objects::{bodies, fields, kubectl};
use super::steps::held;
use super::types::{PlanInput, Reason, Step, WaitingOn};
use crate::compile::currency::{self, CURRENCY, Covered};
use crate::compile::others::{self, Rests, rests};
use crate::compile::{GPU_OPERATOR, gpus, placed};
use crate::effect::marks::{MIG_CONFIG, PLUGIN_CONFIG, POOL};
use crate::effect::{Action, ClusterAction, Thing};
use crate::observed::{Gap, ObjectKey, ObjectKind};
use crate::queue::mode;
use crate::queue::parse::quotas;
use crate::queue::transform::{Transformation, of_file};

/// Kueue reads its file when it starts.
const RESTART: &str = "kubectl -n kueue-system rollout restart deployment kueue-controller-manager";

pub fn plan(input: &PlanInput, draft: &mut Draft) {
    let mut rests = rests(&input.target);
    let covered = Covered::of(&input.observed.cluster);
    if currency::is_wanted(&input.target) && covered.is_everywhere(&input.target) {
        rests.worths = Some(currency::worths(&input.target));
    }
    version(input, draft);
    kueue(input, &rests, draft);
    policies(input, &rests, draft);
    for (quota, text) in placed::unheard(&input.target.standing) {
        draft.note(Thing::Quota(quota.clone()), text);
    }
}

/// What a course waits on whose cut nobody would carry out.
pub fn gate(input: &PlanInput, course: &Course) -> Option<WaitingOn> {
    let asks = |label: &str| {
        let asks = |step: &Step| match &step.action {
            Action::Cluster(ClusterAction::Cut { laid_out, .. }) => laid_out.labels.contains_key(label),
            _ => false,
        };
        course.steps.iter().any(asks)
    };
    let (cuts, shares) = (asks(MIG_CONFIG), asks(PLUGIN_CONFIG));
    if !cuts && !shares {
        return None;
    }
    match operator(input, cuts, shares) {
        Operator::Reads | Operator::None => None,
        Operator::Unread(gap) => Some(WaitingOn::Unread(gap.clone())),
        Operator::Differs { key, seen, wanted } => Some(policy_patch(key, seen, &wanted)),
    }
}

/// Whether the GPU Operator has its parts read our files.
enum Operator<'a> {
    Reads,
    /// It is not in this cluster: somebody else runs mig-manager and the device plugin.
    None,
    Unread(&'a Gap),
    Differs {
        key: &'a ObjectKey,
        seen: &'a Value,
        wanted: Value,
    },
}

/// Of several policies the operator follows one, and does not say here which: one that is right is believed.
fn operator(input: &PlanInput, cuts: bool, shares: bool) -> Operator<'_> {
    let policies = &input.observed.cluster.others.policies;
    if let Some(gap) = policies.gap() {
        return Operator::Unread(gap);
    }
    let wanted = |seen: &Value| others::policy(seen, cuts, shares);
    if policies.seen().values().any(|seen| bodies::covers(seen, &wanted(seen))) {
        return Operator::Reads;
    }
    match policies.seen().first_key_value() {
        Some((key, seen)) => Operator::Differs { key, seen, wanted: wanted(seen) },
        None => Operator::None,
    }
}

fn policy_patch(key: &ObjectKey, seen: &Value, wanted: &Value) -> WaitingOn {
    let patch = quoted(&bodies::patch(seen, wanted));
    WaitingOn::OtherOwner { object: key.clone(), patch: format!("{} --type=merge -p {patch}", kubectl("patch", key)) }
}

fn policies(input: &PlanInput, rests: &Rests, draft: &mut Draft) {
    if !rests.cuts && !rests.shares {
        return;
    }
    let on = Thing::Objects(ObjectKind::ClusterPolicy.name().into());
    match operator(input, rests.cuts, rests.shares) {
        Operator::Reads => {}
        Operator::None => draft.note(on, not_installed(rests)),
        Operator::Unread(gap) => {
            let wanted = "the GPU Operator reads our files";
            draft.held.push(held(&on, wanted, Reason::Wanted, WaitingOn::Unread(gap.clone())));
        }
        Operator::Differs { key, seen, wanted } => {
            let sentence = sentence(ObjectKind::ClusterPolicy, &key.words(), seen, &wanted);
            draft.held.push(held(&on, sentence, Reason::Wanted, policy_patch(key, seen, &wanted)));
            if let Some(text) = left_behind(input).filter(|_| rests.cuts) {
                draft.note(on, text);
            }
        }
    }
}

fn not_installed(rests: &Rests) -> String {
    let cuts = rests.cuts.then(|| format!("mig-manager to {}", gpus::MIG_PARTED));
    let shares = rests.shares.then(|| format!("the device plugin to {}", gpus::DEVICE_PLUGIN));
    let who: Vec<String> = cuts.into_iter().chain(shares).collect();
    format!(
        "the GPU Operator has no ClusterPolicy here: whoever runs them has to point {} in namespace {GPU_OPERATOR}",
        who.join(" and ")
    )
}

/// Nodes of nobody here whose cut is in the file that mig-manager would no longer read.
fn left_behind(input: &PlanInput) -> Option<String> {
    let ours = input.desired.objects.iter().find(|one| one.key == gpus::map_key(gpus::MIG_PARTED));
    let file = ours.and_then(|map| map.body["data"].as_object()).into_iter().flat_map(|data| data.values());
    let file: String = file.filter_map(Value::as_str).collect();
    let nodes = input.observed.cluster.nodes.seen().iter().filter(|(_, node)| !node.labels.contains_key(POOL));
    let mut lost: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, node) in nodes {
        let cut = node.labels.get(MIG_CONFIG).filter(|cut| !file.contains(&format!("\"{cut}\"")));
        if let Some(cut) = cut {
            lost.entry(cut).or_default().push(name.as_str());
        }
    }
    let (cut, nodes) = lost.first_key_value()?;
    let all: usize = lost.values().map(Vec::len).sum();
    let more = if all > 1 { format!(" and {} more", all - 1) } else { String::new() };
    let first = nodes.first()?;
    Some(format!(
        "{first}{more} is in no pool and is cut as {cut}, which is in the file that mig-manager reads now and not in \
         ours: it keeps its slices, and cannot be cut so again"
    ))
}

/// What a queue will do is foretold as the Kueue does it that this was tried with.
fn version(input: &PlanInput, draft: &mut Draft) {
    let minor = |version: &str| version.split(['.', '-', '+']).take(2).collect::<Vec<_>>().join(".");
    let Some(here) = &input.observed.cluster.others.kueue_version else { return };
    if minor(here) != others::KUEUE_TRIED && !input.target.standing.quotas.is_empty() {
        let tried = others::KUEUE_TRIED;
        let text = format!(
            "Kueue {here} runs here, and this was tried with Kueue {tried}: whom it evicts is foretold as {tried} does \
             it, and may come otherwise"
        );
        draft.note(Thing::Objects(ObjectKind::ClusterQueue.name().into()), text);
    }
}

fn kueue(input: &PlanInput, rests: &Rests, draft: &mut Draft) {
    if input.target.standing.quotas.is_empty() {
        return;
    }
    let (key, read) = (mode::configuration(), &input.observed.cluster.others.kueue);
    let on = Thing::Objects(key.kind.name().into());
    let timeout = rests.gang_timeout.map(|timeout| format!("Kueue waits {timeout} for the pods of a gang"));
    let together = rests.worths.as_ref().map(|_| "Kueue counts GPUs and slices together, for totals".to_owned());
    let asks: Vec<String> = timeout.into_iter().chain(together).collect();
    let asks = (!asks.is_empty()).then(|| asks.join(", and "));
    if let Some(gap) = read.gap() {
        let why = format!("{}: {}", gap.what, gap.why);
        match asks {
            Some(wanted) => draft.held.push(held(&on, wanted, Reason::Wanted, WaitingOn::Unread(gap.clone()))),
            None => draft.note(on, format!("Kueue's Configuration is not known, and taken for its default: {why}")),
        }
        return;
    }
    let Some((name, file)) = read.seen().as_ref().and_then(mode::file) else {
        if let Some(wanted) = asks {
            draft.note(on, format!("whether {wanted} cannot be seen: its Configuration is not in {}", key.words()));
        }
        return;
    };
    let wanted = others::configuration(&file, rests);
    if bodies::covers(&file, &wanted) {
        return;
    }
    let patch = quoted(&json!({"data": {name: mode::text(&wanted)}}));
    let patch = format!("{} --type=merge -p {patch}\n{RESTART}", kubectl("patch", &key));
    let mut sentence = sentence(ObjectKind::ConfigMap, "Kueue's Configuration", &file, &wanted);
    let others = shut_out(input, &wanted);
    if !others.is_empty() {
        let (s, admit, covers) = match others.len() {
            1 => ("", "admits", "it covers"),
            _ => ("s", "admit", "they cover"),
        };
        sentence = format!(
            "{sentence} (ClusterQueue{s} {}, which no document names, {admit} no GPUs then unless {covers} {CURRENCY} \
             too, or resources.quotaCheckStrategy is IgnoreUndeclared)",
            others.join(", ")
        );
    }
    draft.held.push(held(&on, sentence, Reason::Wanted, WaitingOn::OtherOwner { object: key, patch }));
}

/// Queues that no document names and that would admit nothing which Kueue counts in the currency.
fn shut_out<'a>(input: &'a PlanInput, file: &Value) -> Vec<&'a str> {
    let counts = |rule: &Transformation| rule.outputs.contains_key(CURRENCY);
    let rules = of_file(file);
    let inputs: Vec<_> = rules.iter().filter(|(_, rule)| counts(rule)).map(|(name, _)| name).collect();
    if others::ignores_undeclared(file) || inputs.is_empty() {
        return Vec::new();
    }
    let ours = |key: &ObjectKey| input.desired.objects.iter().any(|object| object.key == *key);
    let queues = input.observed.cluster.objects.seen().iter().filter(|(key, _)| key.kind == ObjectKind::ClusterQueue);
    let shut = queues.filter(|(key, seen)| {
        let gives = quotas(&seen.body).into_keys().any(|(_, resource)| inputs.contains(&&resource));
        gives && !currency::has_it(&seen.body) && !ours(key)
    });
    shut.map(|(key, _)| &*key.name).collect()
}

fn sentence(kind: ObjectKind, named: &str, seen: &Value, wanted: &Value) -> String {
    format!("{named}: {}", fields::changes(&fields::fields(kind, seen, wanted)))
}

/// One argument of a shell, whatever is in it.
fn quoted(patch: &Value) -> String {
    format!("'{}'", patch.to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
