//! How nodes are cut: only as the documents say, only what the GPUs can hold, and never below what must stay up.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Found;
use super::case::Case;
use crate::effect::marks::{ENTRY, MIG_CONFIG, PLUGIN_CONFIG};
use crate::effect::{Action, CloudAction, ClusterAction, LaidOut, Subject, Thing};
use crate::fleet::standing::{CutSpec, LayoutSpec, PoolSpec};
use crate::ids::{LayoutName, MigProfile, NodeName, PoolName, SlotId};
use crate::observed::{ObjectKey, ObjectKind};

const LEGAL: &str = "a node is cut only as its pool may be";
const LISTED: &str = "a node is cut by an entry that is in its file";
const NAMED: &str = "an entry that a node names stays in its file";
const READY: &str = "slices that must stay up do";
const SHARED: &str = "a node that shares its GPUs otherwise than it should is in a step or held";

const GPU: &str = "nvidia.com/gpu";
const MIG: &str = "nvidia.com/mig-";

/// The layout is one of the pool's, and its promise is no more than the GPUs hold.
pub fn legal(case: &Case<'_>, found: &mut Found) {
    for (_, step) in case.each() {
        let Action::Cluster(ClusterAction::Cut { node, laid_out, .. }) = &step.action else { continue };
        // A node that serves no slot is told by another law.
        let Some(slot) = case.slot_of_node(node) else { continue };
        let layouts = case.input.desired.pools.get(&slot.pool).map(|pool| &pool.layouts);
        let named: Vec<&LayoutName> =
            layouts.into_iter().flatten().filter(|(_, wanted)| *wanted == laid_out).map(|(name, _)| name).collect();
        let (Some(pool), false) = (case.pool(&slot.pool), named.is_empty()) else {
            found.step(LEGAL, &step.id, format!("no layout of pool {} looks like this", slot.pool));
            continue;
        };
        if !named.iter().any(|layout| fits(case, pool, layout, laid_out)) {
            found.step(LEGAL, &step.id, format!("{node} cannot hold what the layout {} promises", named[0]));
        }
    }
}

/// mig-manager and the device plugin look the label's value up in a file. A value that is not in it fails on every node,
/// and a ladder that boots and replaces them helps none. So the file that was seen has it, or a step before the cut
/// writes it.
pub fn listed(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        let Action::Cluster(ClusterAction::Cut { node, laid_out, .. }) = &step.action else { continue };
        for (label, entry) in &laid_out.labels {
            let Some(file) = file(label) else { continue };
            let there = case.seen().cluster.objects.seen().get(&file);
            if there.is_some_and(|there| lists(&there.body, entry)) {
                continue;
            }
            let writes = written(case, &file).into_iter().filter(|(_, body)| lists(body, entry));
            let writes: Vec<usize> = writes.map(|(at, _)| at).collect();
            if case.dag.before(at, &writes).is_empty() {
                found.step(LISTED, &step.id, format!("{node} is told {entry}, which is not in {}", file.words()));
            }
        }
    }
}

/// Whoever starts again on a node reads the label that it carries. What is there and is named is not taken away, on the
/// word of a whole read of the nodes or of none.
pub fn named_entries_stay(case: &Case<'_>, found: &mut Found) {
    for label in [MIG_CONFIG, PLUGIN_CONFIG] {
        let Some(file) = file(label) else { continue };
        let Some(there) = case.seen().cluster.objects.seen().get(&file) else { continue };
        for (at, body) in written(case, &file) {
            for (name, node) in case.seen().cluster.nodes.seen() {
                let Some(entry) = node.labels.get(label) else { continue };
                if lists(&there.body, entry) && !lists(body, entry) {
                    let what = format!("{name} names {entry}, which {} would lose", file.words());
                    found.step(NAMED, &case.steps[at].id, what);
                    break;
                }
            }
        }
    }
}

/// The device plugin shares GPUs for as long as its label says so, whatever mig-manager did beside it. A node with such a
/// label of ours that its slot has no use for would give a GPU that somebody has for himself to others too. It is cut or
/// taken out of service, or it is told why not; nor is it opened so.
pub fn sharing_ends(case: &Case<'_>, found: &mut Found) {
    if case.input.only_node.is_some() {
        return;
    }
    for (name, node) in case.seen().cluster.nodes.seen() {
        let Some(entry) = node.labels.get(PLUGIN_CONFIG).filter(|entry| entry.starts_with(ENTRY)) else { continue };
        let Some(slot) = case.slot_of_node(name) else { continue };
        let layouts = case.input.desired.pools.get(&slot.pool).map(|pool| &pool.layouts);
        let wanted = case.part(slot).and_then(|part| layouts?.get(&part.layout));
        if wanted.is_none_or(|wanted| wanted.labels.get(PLUGIN_CONFIG) == Some(entry)) {
            continue;
        }
        let steps = case.on(&Subject::Node(name.clone())).iter().map(|at| &case.steps[*at].action);
        let opened = steps.clone().any(|it| matches!(it, Action::Cluster(ClusterAction::Uncordon { .. })));
        let serves = node.ready && !node.unschedulable;
        let begun = |it: &Action| {
            let of_cluster = matches!(it, Action::Cluster(ClusterAction::Cordon { .. } | ClusterAction::Cut { .. }));
            of_cluster || matches!(it, Action::Cloud(CloudAction::Terminate { .. } | CloudAction::Reboot { .. }))
        };
        if (serves || opened) && !steps.clone().any(begun) && !is_told(case, slot, name) {
            found.plan(
                SHARED,
                format!("{name} of {slot} shares its GPUs as {entry}, and nothing says what becomes of that"),
            );
        }
    }
}

/// Whether something held is about a node, its slot, or everything; nothing is done to a pool before its new name is
/// written down.
fn is_told(case: &Case<'_>, slot: &SlotId, node: &NodeName) -> bool {
    let (pool, names) = (Thing::Pool(slot.pool.clone()), [slot.to_string(), node.to_string()]);
    let left_out = case.plan.left_out.contains(&pool) || !case.input.only.is_empty();
    let held = case.plan.held.iter().any(|held| {
        let names_it = || names.iter().any(|name| held.wanted.contains(name.as_str()));
        held.what == Thing::Fleet || (held.what == pool && names_it())
    });
    held || left_out || case.input.renamed.contains_key(&slot.pool)
}

/// The file that a label's value is looked up in.
fn file(label: &str) -> Option<ObjectKey> {
    let name = match label {
        MIG_CONFIG => "tidewright-mig-parted",
        PLUGIN_CONFIG => "tidewright-device-plugin",
        _ => return None,
    };
    Some(ObjectKey::namespaced(ObjectKind::ConfigMap, "gpu-operator", name))
}

/// The steps that write an object, with what they write.
fn written<'a>(case: &Case<'a>, key: &ObjectKey) -> Vec<(usize, &'a Value)> {
    let steps = case.on(&Subject::Object(key.clone())).iter().filter_map(|at| match &case.steps[*at].action {
        Action::Cluster(ClusterAction::Apply(object)) => Some((*at, &object.body)),
        _ => None,
    });
    steps.collect()
}

/// Whether a file lists an entry: the device plugin has one file for each, mig-parted one for all.
fn lists(body: &Value, entry: &str) -> bool {
    let files = body["data"].as_object().into_iter().flatten();
    files.into_iter().any(|(name, text)| {
        let text = text.as_str().unwrap_or_default();
        let cuts = || serde_json::from_str(text).is_ok_and(|file: Value| file["mig-configs"].get(entry).is_some());
        name == entry || cuts()
    })
}

fn fits(case: &Case<'_>, pool: &PoolSpec, layout: &LayoutName, promise: &LaidOut) -> bool {
    let holds = case.standing().per_node(pool, layout);
    let shared = match case.standing().layouts.get(layout).map(|layout| &layout.cut) {
        Some(CutSpec::Mps { clients }) => *clients,
        Some(CutSpec::TimeSlicing { replicas }) => *replicas,
        _ => 1,
    };
    let gpus = i64::from(holds.gpus) * i64::from(shared);
    let most = |name: &str| holds.slices.iter().find(|(profile, _)| is_slice(name, profile)).map(|(_, most)| *most);
    promise.allocatable.iter().all(|(name, amount)| {
        let name = name.as_str();
        if name.starts_with(MIG) {
            most(name).is_some_and(|most| *amount <= i64::from(most))
        } else {
            // The plugin may show shared GPUs under a name of their own.
            !name.starts_with(GPU) || *amount <= gpus
        }
    })
}

/// Whether a resource is slices of this profile: the device plugin writes `1g.10gb+me` as `nvidia.com/mig-1g.10gb.me`.
fn is_slice(resource: &str, profile: &MigProfile) -> bool {
    let plain = |text: &str| text.replace(['+', '-'], ".");
    resource.strip_prefix(MIG).is_some_and(|rest| plain(rest) == plain(profile.as_str()))
}

/// While a pool is cut anew, as many slices as `keepReady` says stay on nodes that serve; where the target itself holds
/// fewer, as many as that. A plan may not make it worse.
pub fn keep_ready(case: &Case<'_>, found: &mut Found) {
    let pool_of = |node: &NodeName| {
        let slot = case.slot_of_node(node)?;
        case.standing().pools.get_key_value(&slot.pool).map(|(pool, _)| pool)
    };
    let mut taken: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for (_, step) in case.each() {
        if let Action::Cluster(ClusterAction::Cut { node, .. }) = &step.action
            && let Some(pool) = pool_of(node)
        {
            taken.entry(pool).or_default().insert(node);
        }
    }
    for (_, step) in case.each() {
        let node = match &step.action {
            Action::Cluster(ClusterAction::Cordon { node, .. }) => Some(node),
            Action::Cloud(CloudAction::Terminate { instance, .. }) => case.node_of(instance),
            _ => None,
        };
        if let Some((node, pool)) = node.and_then(|node| Some((node, pool_of(node)?)))
            && let Some(nodes) = taken.get_mut(pool)
        {
            nodes.insert(node);
        }
    }
    let mut serving: BTreeMap<&PoolName, Vec<&NodeName>> = BTreeMap::new();
    for (name, node) in case.seen().cluster.nodes.seen() {
        if !taken.is_empty()
            && node.ready
            && !node.unschedulable
            && let Some(pool) = pool_of(name)
        {
            serving.entry(pool).or_default().push(name);
        }
    }
    for (name, nodes) in taken {
        let serving = serving.get(name).map_or(&[][..], Vec::as_slice);
        let Some(spec) = case.pool(name) else { continue };
        let Some(layout) = case.standing().layouts.get(&spec.layout) else { continue };
        for (profile, keep) in floor(case, name, spec, layout) {
            let (before, after) = up(case, serving, &nodes, &profile);
            if after < keep && after < before {
                found.plan(READY, format!("pool {name}: {after} slices {profile} would be up, and {keep} must be"));
            }
        }
    }
}

fn floor(case: &Case<'_>, name: &PoolName, spec: &PoolSpec, layout: &LayoutSpec) -> Vec<(MigProfile, i64)> {
    let each = case.standing().per_node(spec, &spec.layout);
    let parts = case.input.target.pools.get(name).map_or(&[][..], |pool| pool.parts.as_slice());
    let nodes: u32 = parts.iter().filter(|part| part.layout == spec.layout).map(|part| part.nodes).sum();
    let holds = |profile: &MigProfile| each.slices.get(profile).copied().unwrap_or(0).saturating_mul(nodes);
    let keep = layout.keep_ready.iter();
    keep.map(|(profile, keep)| (profile.clone(), i64::from((*keep).min(holds(profile))))).collect()
}

/// The slices on ready nodes of a pool that take pods, before and without those that are taken.
fn up(case: &Case<'_>, serving: &[&NodeName], taken: &BTreeSet<&NodeName>, profile: &MigProfile) -> (i64, i64) {
    let (mut before, mut after) = (0, 0);
    for name in serving {
        let allocatable = case.node(name).into_iter().flat_map(|node| &node.allocatable);
        let slices = allocatable.filter(|(name, _)| is_slice(name.as_str(), profile));
        let slices: i64 = slices.map(|(_, count)| count).sum();
        before += slices;
        after += if taken.contains(name) { 0 } else { slices };
    }
    (before, after)
}
