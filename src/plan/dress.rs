//! The labels and taints of a node: put on, put right, taken off.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::draft::Draft;
use super::drain::{Steps, step_id};
use super::layout;
use super::marks::is_kept;
use super::serving::uncordon;
use super::slots::{push, standing};
use super::types::*;
use super::view::{PoolView, SlotView, View};
use super::{taints, worn};
use crate::compile::nodes;
use crate::effect::marks::{DRESSED, POOL, SLOT, STARTING_TAINT, WORN};
use crate::effect::{Action, Amount, ClusterAction, Effects, Fact, LaidOut, LedgerChange, Verb, allocatable_is};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::ids::{NodeName, SlotId};
use crate::observed::{NodeSeen, TAINTS};

/// Takes an existing node for a slot. Before that it carries no label of the pool, so nothing of the pool comes to it:
/// what it has to show first is waited for here.
pub fn claim(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeName, made: &mut Steps) {
    let generation = slot.generation() + 1;
    admitted(view, pool, made, node, (&slot.id, generation));
    let seen = view.input.observed.cluster.nodes.seen().get(node);
    if let Some(laid_out) = seen.and_then(|seen| layout::not_shown(view, pool, slot, seen)) {
        let fact = Fact::LaidOut { node: node.clone(), laid_out };
        made.push(step_id("shown", &slot.id, generation), Action::Await(fact), vec![], (10, 120));
    }
    let change = LedgerChange::Claimed { slot: slot.id.clone(), node: node.clone() };
    made.push(step_id("claim", &slot.id, generation), Action::Record(change), vec![Fact::Ready(node.clone())], (1, 2));
    made.with(Effects::one(Verb::Claim, thing(pool.name), Amount::count(1)));
    let Some(seen) = seen else { return };
    if let Some(action) = dressing(view, pool, slot, node, seen, false) {
        let requires = requires(view, node, &action);
        made.push(step_id("dress", &slot.id, generation), action, requires, (1, 2));
    }
}

/// Waits until a node shows what the pool's policy asks of one that is to serve.
pub fn admitted(view: &View<'_>, pool: &PoolView<'_>, made: &mut Steps, node: &NodeName, slot: (&SlotId, u32)) {
    let conditions = super::health::admission(view, pool);
    if !conditions.is_empty() {
        let fact = Fact::Admitted { node: node.clone(), conditions };
        made.push(step_id("admitted", slot.0, slot.1), Action::Await(fact), vec![], (30, 1200));
    }
}

/// Waits until a node that was booted shows its GPUs again: its device plugin comes after its kubelet, and whatever comes
/// to it before that fails.
pub fn shown(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeName, made: &mut Steps) {
    if let Some((_, laid_out)) = layout::wanted(view, pool, slot) {
        let laid_out = LaidOut { labels: BTreeMap::new(), ..laid_out.clone() };
        let fact = Fact::LaidOut { node: node.clone(), laid_out };
        made.push(step_id("shown", &slot.id, slot.generation()), Action::Await(fact), vec![], (10, 120));
    }
}

/// Takes our labels and taints off an existing node and lets it go.
pub fn release(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeName, made: &mut Steps) {
    let generation = slot.generation();
    let seen = view.input.observed.cluster.nodes.seen().get(node);
    let worn = seen.map(|seen| worn::off(&worn::memory(view, pool, slot, (node, seen)), seen, |_| false, |_| false));
    let worn = worn.unwrap_or_default();
    let keys = worn.labels.into_keys().chain([POOL.into(), SLOT.into(), DRESSED.into()]);
    let labels = keys.map(|key: String| (key, None)).collect();
    let notes = seen.and_then(|seen| seen.annotation(WORN)).map(|_| (WORN.into(), None)).into_iter().collect();
    let action = ClusterAction::Dress { node: node.clone(), labels, taints: vec![], remove_taints: worn.taints, notes };
    made.push(
        step_id("undress", &slot.id, generation),
        Action::Cluster(action),
        vec![Fact::Empty(node.clone())],
        (1, 2),
    );
    made.with(Effects::one(Verb::Release, thing(pool.name), Amount::count(1)));
    let change = LedgerChange::Unclaimed { slot: slot.id.clone() };
    made.push(step_id("unclaim", &slot.id, generation), Action::Record(change), vec![], (1, 2));
    // Whoever keeps it out of service does so whosever it is.
    if !is_kept(view, node) {
        uncordon(made, node, slot);
    }
}

/// Labels and taints as the pool wants them.
#[allow(clippy::too_many_arguments)]
pub fn dress(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    node: &NodeName,
    seen: &NodeSeen,
    remove_starting: bool,
    reason: Reason,
    draft: &mut Draft,
) {
    let on = thing(pool.name);
    let mut made = Steps::new(standing(&on, &reason));
    if remove_starting || slot.mark.is_some() {
        admitted(view, pool, &mut made, node, (&slot.id, slot.generation()));
    }
    // Its device plugin may be late; whatever comes to it should find the GPUs.
    let laid_out = layout::wanted(view, pool, slot).map(|(_, laid_out)| laid_out).filter(|_| remove_starting);
    if let Some(laid_out) = laid_out.filter(|laid_out| !allocatable_is(&seen.allocatable, laid_out)) {
        let laid_out = LaidOut { labels: BTreeMap::new(), ..laid_out.clone() };
        let fact = Fact::LaidOut { node: node.clone(), laid_out };
        made.push(step_id("shown", &slot.id, slot.generation()), Action::Await(fact), vec![], (10, 120));
    }
    if let Some(action) = dressing(view, pool, slot, node, seen, remove_starting) {
        let requires = requires(view, node, &action);
        made.push(step_id("dress", &slot.id, slot.generation()), action, requires, (1, 2));
    }
    if slot.mark.is_some() {
        uncordon(&mut made, node, slot);
    }
    if let Reason::Drift { by } = &reason {
        let Moved { by: who, is, was } = moved(view, pool, slot, (node, seen));
        let (what, at) = (format!("node {node}"), who.map(|(_, at)| at));
        draft.drift.push(Drift { what, by: by.clone(), at, from: is, to: was, step: made.last.clone() });
    }
    push(draft, &on, vec![node.clone()], format!("label {node} as {}", slot.id), reason.clone(), false, made.steps);
}

/// The labels and taints that a slot's node should carry now, with the digest of all of it. A taint that has to wait is
/// left out.
/// One on which work looks for the name that the pool had goes on under that name.
pub fn clothes(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    (node, seen): (&NodeName, &NodeSeen),
) -> (BTreeMap<String, String>, Vec<Taint>) {
    let objects = view.input.desired.pools.get(pool.name);
    let labels = objects.map(|objects| objects.labels.clone()).unwrap_or_default();
    let mut taints = objects.map(|objects| objects.taints.clone()).unwrap_or_default();
    taints.retain(|taint| seen.taints.contains(taint) || taints::waits(view, pool.name, node, taint).is_none());
    let name = view.former.get(node).map_or(pool.name, |former| &former.pool);
    nodes::clothes_of(view.standing, name, labels, taints, slot.id.index, node.as_str())
}

fn dressing(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    node: &NodeName,
    seen: &NodeSeen,
    remove_starting: bool,
) -> Option<Action> {
    let (wanted, mut kept) = clothes(view, pool, slot, (node, seen));
    let before = worn::memory(view, pool, slot, (node, seen));
    // One that gets another value or effect stays until that may be put on.
    let all = view.input.desired.pools.get(pool.name).into_iter().flat_map(|objects| &objects.taints);
    let waiting: BTreeSet<&str> = all.filter(|taint| !kept.contains(taint)).map(|taint| taint.key.as_str()).collect();
    let stays = |taint: &Taint| kept.contains(taint) || waiting.contains(taint.key.as_str());
    let off = worn::off(&before, seen, |key| wanted.contains_key(key), stays);
    let taints: Vec<Taint> = kept.iter().filter(|taint| !seen.taints.contains(taint)).cloned().collect();
    let old = before.taints.iter().filter(|taint| seen.taints.contains(taint) && !off.taints.contains(taint));
    let old: Vec<Taint> = old.filter(|taint| !kept.contains(taint)).cloned().collect();
    kept.extend(old);
    let text = worn::next(view, pool.name, &before, seen, &kept).map(|worn| worn.text());
    let noted = text.as_deref() == seen.annotation(WORN);
    let notes = if noted { BTreeMap::new() } else { BTreeMap::from([(WORN.to_owned(), text)]) };
    let mut labels: BTreeMap<String, Option<String>> = off.labels.into_keys().map(|key| (key, None)).collect();
    let differs = |(key, value): &(String, String)| seen.labels.get(key) != Some(value);
    labels.extend(wanted.into_iter().filter(differs).map(|(key, value)| (key, Some(value))));
    let is_starting = |taint: &&Taint| remove_starting && taint.key == STARTING_TAINT;
    let mut remove_taints = off.taints;
    remove_taints.extend(seen.taints.iter().filter(is_starting).cloned());
    let nothing = labels.is_empty() && taints.is_empty() && remove_taints.is_empty() && notes.is_empty();
    let action = ClusterAction::Dress { node: node.clone(), labels, taints, remove_taints, notes };
    (!nothing).then_some(Action::Cluster(action))
}

/// What has to hold as a node is dressed: who is ended by a taint, or looks for the name that the pool had, was looked for a
/// while ago.
fn requires(view: &View<'_>, node: &NodeName, action: &Action) -> Vec<Fact> {
    let is_called = view.input.observed.cluster.nodes.seen().get(node).and_then(|seen| seen.labels.get(POOL));
    let ends = |taint: &Taint| taint.effect == TaintEffect::NoExecute;
    let asks = match action {
        Action::Cluster(ClusterAction::Dress { labels, taints, .. }) => {
            let renames = is_called.is_some() && labels.get(POOL).is_some_and(|name| name.as_ref() != is_called);
            renames || taints.iter().any(ends)
        }
        _ => false,
    };
    let pods = || view.harm.pods_on(node).iter().map(|pod| pod.uid.clone()).collect();
    let nobody = asks.then(|| Fact::NobodyBut { node: node.clone(), pods: pods() });
    [Fact::Ready(node.clone())].into_iter().chain(nobody).collect()
}

/// Whether a node carries what its pool wants, and nothing of ours beside it.
pub fn is_dressed(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    (node, seen): (&NodeName, &NodeSeen),
) -> bool {
    dressing(view, pool, slot, node, seen, false).is_none()
}

/// Whether a node was dressed with exactly this before, and somebody changed it since.
pub fn is_moved(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    (node, seen): (&NodeName, &NodeSeen),
) -> bool {
    let (labels, taints) = clothes(view, pool, slot, (node, seen));
    let carries = labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value))
        && taints.iter().all(|taint| seen.taints.contains(taint));
    !carries && seen.labels.get(DRESSED) == labels.get(DRESSED)
}

/// What somebody changed of a node that was dressed with exactly this before.
#[derive(Debug)]
pub struct Moved {
    pub by: Option<(String, Timestamp)>,
    /// As it is, and as it should be.
    is: String,
    was: String,
}

/// Whoever wrote last what differs. A label that was taken off belongs to nobody any more.
pub fn moved(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, (node, seen): (&NodeName, &NodeSeen)) -> Moved {
    let (labels, taints) = clothes(view, pool, slot, (node, seen));
    let labels: Vec<(&String, &String)> =
        labels.iter().filter(|(key, value)| seen.labels.get(*key) != Some(*value)).collect();
    let taints: Vec<&Taint> = taints.iter().filter(|taint| !seen.taints.contains(taint)).collect();
    let keys = labels.iter().map(|(key, _)| key.as_str()).chain((!taints.is_empty()).then_some(TAINTS));
    let by = keys.filter_map(|key| seen.moved_by.get(key)).max_by_key(|(_, at)| *at).cloned();
    let off = |key: &str| seen.labels.get(key).map_or_else(|| format!("no {key}"), |value| format!("{key}={value}"));
    let is = labels.iter().map(|(key, _)| off(key)).chain(taints.iter().map(|taint| format!("no taint {}", taint.key)));
    let was = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let was = was.chain(taints.iter().map(|taint| format!("taint {}", taint.key)));
    Moved { by, is: is.collect::<Vec<_>>().join(", "), was: was.collect::<Vec<_>>().join(", ") }
}
