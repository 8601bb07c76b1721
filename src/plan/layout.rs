//! How a node's GPUs are cut: whether that is as wanted, and the way from one cut to another, with a way out of every
//! trap of mig-manager.
//!
//! It acts only on a change of its label, stays `failed`, and may hang in `pending` for ever, with no time on it. So
//! every order is remembered, and one that came to nothing leads to the next rung: order it again by another value,
//! once more, boot the node, replace it. Orders that were carried out count for nothing: each cut begins anew.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::drain::{Steps, step_id};
use super::objects::{self, written_by};
use super::types::{Drift, WaitingOn, pool_of};
use super::view::{PoolView, SlotView, View};
pub use crate::compile::cuts::is_never_cut;
use crate::compile::{cuts, files, holds};
use crate::effect::health::OWN_RULES;
use crate::effect::marks::{GPU_COUNT, MIG_CONFIG, MIG_STATE, cut_order, is_starting};
use crate::effect::{
    Action, Amount, ClusterAction, Effects, Fact, LaidOut, LedgerChange, Object, Treated, Verb, allocatable_is,
    digest_of,
};
use crate::fleet::policy::Remedy;
use crate::fleet::standing::LoanSpec;
use crate::fleet::target::Purpose;
use crate::ids::{LayoutName, MigProfile, NodeName, ResourceName, StepId, TideName};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{NodeSeen, ObjectKey};

/// The rule that an order to mig-manager is remembered by: it belongs to no policy.
pub const CUT_RULE: u32 = u32::MAX;
/// The rule that an order is remembered by which was given before and came to nothing.
const AGAIN_RULE: u32 = OWN_RULES;
/// How long mig-manager may take: five minutes for each of the pods that it pauses, and a reboot.
pub const CUT_TAKES: SignedDuration = SignedDuration::from_mins(15);
/// How long an order counts towards the ladder: a tide comes back only after hours.
const LADDER: SignedDuration = SignedDuration::from_hours(2);

/// What a node that was never cut shows its GPUs as.
const WHOLE: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron"];

/// The files that mig-manager has mounted follow their config map within a minute; what is ordered before that fails.
const MOUNTS_WITHIN: SignedDuration = SignedDuration::from_secs(90);
/// After an order that came to nothing: whatever was in its way has some time to go.
const AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(2);
/// mig-manager watches its label; this is long for that.
const HEARS_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// How a node is cut, against what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutState {
    /// As wanted.
    Done,
    /// Never cut, and as wanted once its device plugin is up.
    Coming,
    /// Not as wanted, and not ordered.
    NotOrdered,
    /// Ordered and on its way.
    Underway,
    /// It came to nothing: order it again, with another value in between.
    Again,
    /// Ordering it again did not help.
    Reboot,
    Replace,
}

/// The cut that a slot should have.
pub fn wanted<'a>(view: &View<'a>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<(&'a LayoutName, &'a LaidOut)> {
    let name = &slot.part?.layout;
    view.input.desired.pools.get(pool.name)?.layouts.get_key_value(name)
}

/// The layout that a node's labels say it has; one that was never cut has the layout that it shows.
pub fn current<'a>(view: &View<'a>, pool: &PoolView<'_>, node: &NodeSeen) -> Option<&'a LayoutName> {
    cuts::current(&view.input.desired.pools.get(pool.name)?.layouts, node)
}

/// How many GPUs a machine has that is not what a pool asks for. What nobody cut shows its GPUs as they are: by the label
/// of GPU feature discovery, or by too few of them; one that shows none may only be starting.
pub fn misfit(pool: &PoolView<'_>, node: &NodeSeen) -> Option<u32> {
    let wanted = pool.spec.shape.gpus;
    let counted = node.labels.get(GPU_COUNT).and_then(|count| count.parse().ok());
    let whole = WHOLE.iter().filter_map(|name| node.allocatable.get(*name)).sum::<i64>();
    let shown = u32::try_from(whole).ok().filter(|shown| (1..wanted).contains(shown));
    counted.or(shown).filter(|found| *found != wanted && is_never_cut(node))
}

/// What a machine has and what a pool asks for, in words.
pub fn misfit_words(pool: &PoolView<'_>, node: &NodeName, found: u32) -> String {
    let shape = &pool.spec.shape;
    let gpus = |count: u32| if count == 1 { "1 GPU".into() } else { format!("{count} GPUs") };
    format!("{node} has {}, and a {} has {}", gpus(found), shape.instance_type, gpus(shape.gpus))
}

/// Whether a node that is starting and shows no GPUs yet will show what is wanted by itself: whole ones.
fn is_coming(view: &View<'_>, node: &NodeSeen, wanted: &LaidOut) -> bool {
    let starting = is_starting(node);
    let of_wanted = |name: &ResourceName| wanted.allocatable.contains_key(name) || wanted.absent.contains(name);
    let shows_any = node.allocatable.iter().any(|(name, amount)| *amount > 0 && of_wanted(name));
    let is_whole = |name: &ResourceName| WHOLE.contains(&name.as_str());
    // With mig-manager there is another way to the same end; without it there is only waiting.
    let in_time = wanted.labels.is_empty() || view.now.duration_since(node.created) < CUT_TAKES;
    starting && is_never_cut(node) && !shows_any && wanted.allocatable.keys().all(is_whole) && in_time
}

/// What a node has to show that was never cut and shows no GPUs at all: whole ones, because its device plugin is not up.
pub fn not_shown(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, node: &NodeSeen) -> Option<LaidOut> {
    let (_, wanted) = self::wanted(view, pool, slot)?;
    let mut names = wanted.allocatable.keys().chain(&wanted.absent);
    let shows_any = names.clone().any(|name| node.allocatable.get(name).is_some_and(|amount| *amount > 0));
    let whole = names.find(|name| WHOLE.contains(&name.as_str())).filter(|_| !shows_any && is_never_cut(node))?;
    let allocatable = BTreeMap::from([(whole.clone(), i64::from(pool.spec.shape.gpus))]);
    Some(LaidOut { labels: BTreeMap::new(), allocatable, absent: Vec::new() })
}

pub fn state(view: &View<'_>, slot: &SlotView<'_>, node: &NodeSeen, wanted: &LaidOut) -> CutState {
    let ordered = wanted.is_ordered(&node.labels);
    let shows = allocatable_is(&node.allocatable, wanted);
    if !shows && is_coming(view, node, wanted) {
        return CutState::Coming;
    }
    if !ordered {
        // A node that was never cut, and shows what is wanted as it is, need not be cut for the label's sake.
        return if is_never_cut(node) && shows { CutState::Done } else { CutState::NotOrdered };
    }
    if wanted.labels.is_empty() {
        return CutState::Done;
    }
    let said = node.labels.get(MIG_STATE).map(String::as_str);
    let asks = wanted.labels.contains_key(MIG_CONFIG);
    if shows && (!asks || said == Some("success")) {
        return CutState::Done;
    }
    // A node that nobody is cutting shows less than it should: a question of health, not of the cut.
    let cutting = slot.mark.as_ref().is_some_and(|mark| mark.why == "cut");
    if !cutting && said == Some("success") {
        return CutState::Done;
    }
    let orders = orders(view, slot);
    let overdue = orders.iter().map(|one| one.at).max().is_none_or(|at| view.now.duration_since(at) >= CUT_TAKES);
    let failed = asks && said == Some("failed");
    if !failed && !overdue {
        return CutState::Underway;
    }
    match orders.iter().filter(|one| one.remedy == Remedy::Report).count() {
        0..=2 => CutState::Again,
        _ if orders.iter().all(|one| one.remedy != Remedy::Reboot) => CutState::Reboot,
        _ => CutState::Replace,
    }
}

/// Whether something that was done to a slot was done for its cut.
pub fn is_order(one: &Treated) -> bool {
    one.rule == CUT_RULE || one.rule == AGAIN_RULE
}

/// What was done for the cut that is under way: from the last order that was not a repeated one.
fn orders<'a>(view: &View<'_>, slot: &SlotView<'a>) -> Vec<&'a Treated> {
    let all = slot.record.into_iter().flat_map(|record| &record.remedies).filter(|one| is_order(one));
    let mut recent: Vec<&Treated> = all.filter(|one| view.now.duration_since(one.at) < LADDER).collect();
    let first = recent.iter().rposition(|one| one.rule == CUT_RULE && one.remedy == Remedy::Report);
    recent.drain(..first.unwrap_or(0));
    recent
}

/// Somebody else told a node to be cut otherwise.
pub fn moved(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, cut: Option<StepId>) -> Option<Drift> {
    let ((node, seen), (_, wanted)) = (slot.node?, wanted(view, pool, slot)?);
    let (key, (who, at)) = by_hand(view, pool, slot)?;
    let from = seen.labels.get(key).map_or_else(|| format!("no {key}"), |is| format!("{key}={is}"));
    let (what, to) = (format!("node {node}"), format!("{key}={}", wanted.labels.get(key)?));
    Some(Drift { what, by: Some(who.clone()), at: Some(*at), from, to, step: cut })
}

/// The label by which somebody else told a node to be cut otherwise, with who and when: the last one. What a tide changed
/// since is the tide's doing, and what nobody ordered before is what NVIDIA's operator gives every node.
pub fn by_hand<'a>(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'a>,
) -> Option<(&'a String, &'a (String, Timestamp))> {
    let ((_, seen), (_, wanted)) = (slot.node?, wanted(view, pool, slot)?);
    let orders = slot.record.into_iter().flat_map(|record| &record.remedies).filter(|one| is_order(one));
    let first = orders.map(|one| one.at).filter(|at| *at >= seen.created).min();
    let is_ours = |at: &Timestamp| !is_never_cut(seen) || first.is_some_and(|first| first <= *at);
    let moved = seen.moved_by.iter().filter(|(key, _)| {
        let is = wanted.labels.get(*key);
        is.is_some() && is != seen.labels.get(*key)
    });
    let moved = moved.filter(|(_, (_, at))| is_ours(at) && !is_the_tides(view, pool, slot, *at));
    moved.max_by_key(|(_, (_, at))| *at)
}

/// Whether it is a tide that wants another cut than the node had when somebody touched it.
fn is_the_tides(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, touched: Timestamp) -> bool {
    let Some((part, (_, seen))) = slot.part.zip(slot.node) else { return false };
    let Some(is) = current(view, pool, seen) else { return false };
    let lent = &view.input.ledger.head.lent;
    match &part.purpose {
        Purpose::Lent { tide, .. } if *is == pool.spec.layout => lent.get(tide).is_none_or(|lent| touched < lent.since),
        Purpose::Returning { .. } => true,
        Purpose::Lent { .. } | Purpose::Own | Purpose::Spare => {
            lent_as(view, pool, slot, is).is_some_and(|(tide, _)| lent.contains_key(tide))
        }
    }
}

/// The loan that a slot's node is cut for, by its cut and whose work is on it.
pub fn lent_as<'a>(
    view: &View<'a>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    is: &LayoutName,
) -> Option<(&'a TideName, &'a LoanSpec)> {
    let pods = slot.node.map_or(&[][..], |(node, _)| view.harm.pods_on(node));
    let work = pods.iter().filter(|pod| pod.counts()).filter_map(|pod| view.harm.workload(pod));
    let queues: BTreeSet<&str> = work.map(|workload| workload.queue.as_str()).collect();
    view.input.target.lent_as(pool.name, is, queues.iter().copied())
}

/// Orders a cut of an empty, cordoned node, and waits until the node shows it.
pub fn steps(
    view: &View<'_>,
    made: &mut Steps,
    slot: &SlotView<'_>,
    node: &NodeName,
    laid_out: &LaidOut,
    state: CutState,
) {
    let generation = slot.generation();
    let files = unwritten(view, laid_out, state);
    let ordered = not_before(view, slot, state, !files.is_empty());
    if let Some(at) = ordered {
        let wait = Action::Await(Fact::After(at));
        made.push(step_id("mounted", &slot.id, generation), wait, vec![], (1, 120));
        if let Some(step) = made.steps.last_mut() {
            step.after.extend(files.iter().map(|file| written_by(file)));
        }
    }
    if state != CutState::Underway {
        let rule = if state == CutState::Again { AGAIN_RULE } else { CUT_RULE };
        let treated = Treated { at: view.now, remedy: Remedy::Report, rule, boot: None };
        let change = LedgerChange::Treated { slot: slot.id.clone(), treated };
        let policies = policies_are_as_seen(view);
        made.push(step_id("order", &slot.id, generation), Action::Record(change), policies.clone(), (1, 2));
        let flip = state == CutState::Again && !is_on(Mistake::LabelRewritten);
        let over = slot.node.map(|(_, seen)| cut_order(&seen.labels)).unwrap_or_default();
        let action = Action::Cluster(ClusterAction::Cut { node: node.clone(), laid_out: laid_out.clone(), flip, over });
        let requires = [Fact::Empty(node.clone())].into_iter().chain(policies).collect();
        made.push(step_id("cut", &slot.id, generation), action, requires, (1, 2));
        made.with(Effects::one(Verb::Cut, pool_of(&slot.id), Amount::count(1)));
    }
    // Until mig-manager has heard of it, the node still shows how the last order ended.
    if state == CutState::Again
        && let Ok(heard) = ordered.unwrap_or(view.now).checked_add(HEARS_WITHIN)
    {
        made.push(step_id("heard", &slot.id, generation), Action::Await(Fact::After(heard)), vec![], (1, 30));
    }
    let fact = Fact::LaidOut { node: node.clone(), laid_out: laid_out.clone() };
    made.push(step_id("laid-out", &slot.id, generation), Action::Await(fact), vec![], (60, 600));
}

/// A node is emptied for hours, and the policy is its owner's: one that names another file by then would make the cut
/// fail.
fn policies_are_as_seen(view: &View<'_>) -> Vec<Fact> {
    let policies = view.input.observed.cluster.others.policies.seen().iter();
    let unchanged =
        |(key, body): (&ObjectKey, &Value)| Fact::Unchanged { object: key.clone(), body: Some(digest_of(body)) };
    policies.map(unchanged).collect()
}

/// The files that have to be written before a cut is ordered: those that lack the entry which its label names. One that
/// is told before fails, however long it waits.
fn unwritten<'a>(view: &View<'a>, laid_out: &LaidOut, state: CutState) -> Vec<&'a Object> {
    if state == CutState::Underway {
        return Vec::new();
    }
    let seen = view.input.observed.cluster.objects.seen();
    let missing = laid_out.labels.iter().filter(|(label, entry)| !files::has(seen, label, entry));
    let missing: Vec<ObjectKey> = missing.filter_map(|(label, _)| files::file(label)).collect();
    view.input.desired.objects.iter().filter(|object| missing.contains(&object.key)).collect()
}

/// What the order of a cut waits for, where a file that it needs cannot be written now.
pub fn stuck(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, state: CutState) -> Option<WaitingOn> {
    let (_, laid_out) = wanted(view, pool, slot)?;
    unwritten(view, laid_out, state).into_iter().find_map(|file| objects::stuck(view.input, file))
}

/// When a cut may be ordered, where that is later than now.
fn not_before(view: &View<'_>, slot: &SlotView<'_>, state: CutState, is_written: bool) -> Option<Timestamp> {
    let mounted = is_written.then(|| view.now.checked_add(MOUNTS_WITHIN).ok()).flatten();
    let again = match state {
        CutState::Again => {
            let last = orders(view, slot).iter().map(|one| one.at).max();
            last.and_then(|at| at.checked_add(AGAIN_AFTER).ok())
        }
        _ => None,
    };
    mounted.max(again).filter(|at| *at > view.now)
}

/// Slices of each profile that a pool has to keep up, and how many would be left without some of its nodes.
#[derive(Debug)]
pub struct Ready {
    up: BTreeMap<MigProfile, u32>,
    keep: BTreeMap<MigProfile, u32>,
}

impl Ready {
    pub fn new(view: &View<'_>, pool: &PoolView<'_>) -> Self {
        let mut keep: BTreeMap<MigProfile, u32> = BTreeMap::new();
        let names = pool.target.parts.iter().map(|part| &part.layout).chain([&pool.spec.layout]);
        for (profile, count) in names.filter_map(|name| view.standing.layouts.get(name)).flat_map(|one| &one.keep_ready)
        {
            let most = keep.entry(profile.clone()).or_insert(0);
            *most = (*most).max(*count);
        }
        let mut up: BTreeMap<MigProfile, u32> = BTreeMap::new();
        for slot in pool.slots.iter().filter(|slot| slot.mark.is_none() && slot.body == super::view::Body::Serving) {
            for (profile, count) in slices(&keep, slot) {
                *up.entry(profile).or_insert(0) += count;
            }
        }
        Self { up, keep }
    }

    /// Takes a node's slices away, unless too few would be left; then says which profile.
    pub fn take(&mut self, slot: &SlotView<'_>) -> Result<(), (MigProfile, u32)> {
        let lost = slices(&self.keep, slot);
        for (profile, count) in &lost {
            let left = self.up.get(profile).copied().unwrap_or(0).saturating_sub(*count);
            if let Some(keep) = self.keep.get(profile).filter(|keep| left < **keep) {
                return Err((profile.clone(), *keep));
            }
        }
        for (profile, count) in lost {
            if let Some(up) = self.up.get_mut(&profile) {
                *up = up.saturating_sub(count);
            }
        }
        Ok(())
    }
}

/// The slices of these profiles that a node shows now, whichever layout they come from: that of a node which waits for
/// its cut may be in no document any more.
fn slices(keep: &BTreeMap<MigProfile, u32>, slot: &SlotView<'_>) -> Vec<(MigProfile, u32)> {
    let Some((_, node)) = slot.node else { return Vec::new() };
    let shown = |profile: &MigProfile| node.allocatable.get(&holds::slice(profile)).copied().unwrap_or(0);
    let slices = keep.keys().map(|profile| (profile.clone(), u32::try_from(shown(profile)).unwrap_or(0)));
    // A node that shows none takes none away: its first cut is what brings them.
    slices.filter(|(_, count)| *count > 0).collect()
}
