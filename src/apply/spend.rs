//! Approvals: a step that asks for one takes its effects out of it, in the ledger, before it has them.
//!
//! What is taken is noted by its purpose, so that a crash, a retry or a second operator takes it once; and what came to
//! nothing is given back, because the next plan asks for the same, and nobody should have to say yes twice. What is done
//! is struck out, or the same change would be free on another day.

use std::collections::{BTreeMap, BTreeSet};

use super::ApplyError;
use super::record::{self, Guard, NotRecorded};
use super::retry;
use super::turn::{Memory, Turn};
use super::walk::Walk;
use crate::effect::{
    Action, CloudAction, ClusterAction, Effects, Excess, Head, LedgerChange, Opened, Thing, digest_of,
};
use crate::ids::{Digest, PoolName, StepId};
use crate::plan::{Consent, Plan, Step, is_approved_now};
use crate::provider::World;
use crate::status::EventKind;

/// What became of an approval that somebody gave.
#[derive(Clone, PartialEq, Debug)]
pub enum Opening {
    Opened,
    /// It was open already, or used up: this is what is left.
    Known {
        left: Effects,
    },
}

/// Records an approval of these effects, by the plan that has them. One that exists stays as it is: what was spent does
/// not come back.
pub async fn open_approval(
    world: World<'_>,
    plan: &Digest,
    effects: &Effects,
    templates: BTreeMap<PoolName, Digest>,
    by: &str,
) -> Result<Opening, ApplyError> {
    let (by, at) = (by.into(), world.clock.now());
    let opened = Opened { effects: effects.digest(), left: effects.clone(), by, at, templates };
    let change = LedgerChange::Open { digest: plan.clone(), opened };
    match record::swap(world.cluster, &[change], &|_, _| Guard::Go).await {
        Ok(true) => Ok(Opening::Opened),
        Ok(false) => {
            let head = record::head(world.cluster).await.map_err(ApplyError::Ledger)?;
            let left = head.approvals.get(plan).map(|opened| opened.left.clone()).unwrap_or_default();
            Ok(Opening::Known { left })
        }
        Err(NotRecorded::Failed(error)) => Err(ApplyError::Ledger(error)),
        Err(NotRecorded::Moved(why)) => Err(ApplyError::Malformed(why)),
    }
}

/// Whether nothing is left of an approval, and nothing that was paid with it is still to be done.
pub fn is_used_up(head: &Head, plan: &Digest) -> bool {
    let is_empty = head.approvals.get(plan).is_some_and(|opened| opened.left.is_empty());
    is_empty && head.spent.get(plan).into_iter().flatten().all(|purpose| is_of_request(purpose))
}

/// Takes the step's effects out of the approval, where it needs one. Says whether it wrote.
pub(super) async fn pay(walk: &Walk<'_>, step: &Step, memory: &mut Memory) -> Result<bool, Turn> {
    if memory.paid.is_some() || step.consent == Consent::Standing {
        return Ok(false);
    }
    if step.effects.is_empty() {
        return prepare(walk, step, memory).await.map(|()| false);
    }
    let digest = match step.consent {
        Consent::Given => {
            let head = walk.head().await.map_err(|error| retry::after(walk, step, memory, &error))?;
            given(walk, step, &head)
        }
        _ => walk.approval.cloned(),
    };
    let guard = |ledger: &crate::effect::Ledger, _| match covered(digest.as_ref(), step, &ledger.head) {
        Ok(true) => Guard::Already,
        Ok(false) => Guard::Go,
        Err(why) => Guard::No(why),
    };
    let change = LedgerChange::Spend {
        digest: digest.clone().unwrap_or_else(|| "".into()),
        purpose: purpose(step),
        effects: step.effects.clone(),
    };
    match walk.record(&[change], &guard).await {
        Ok(written) => {
            memory.paid = digest.filter(|_| written);
            walk.settled.borrow_mut().insert(step.id.clone());
            Ok(written)
        }
        Err(NotRecorded::Moved(why)) => Err(Turn::End(EventKind::NotApproved { why })),
        Err(error @ NotRecorded::Failed(_)) => Err(error.turn(walk, step, memory)),
    }
}

/// The approval that a part of a roll-out is paid with, whoever empties its node: that which paid for it already, or the
/// newest that still covers it.
fn given(walk: &Walk<'_>, step: &Step, head: &Head) -> Option<Digest> {
    let purpose = purpose(step);
    let paid = head.spent.iter().find(|(_, spent)| spent.contains(&purpose)).map(|(digest, _)| digest);
    let Thing::Pool(pool) = &step.on else { return None };
    let covers = |(_, opened): &(&Digest, &Opened)| {
        is_approved_now(walk.input, opened, pool) && step.effects.within(&opened.left).is_ok()
    };
    let newest = || head.approvals.iter().filter(covers).max_by_key(|(_, opened)| opened.at);
    paid.or_else(|| newest().map(|(digest, _)| digest)).cloned()
}

/// What only prepares is done where what it prepares is approved, beside all that was prepared before it: a node that
/// may not be replaced stays in service, and is not counted as removed.
async fn prepare(walk: &Walk<'_>, step: &Step, memory: &mut Memory) -> Result<(), Turn> {
    if !prepares(&step.action) {
        return Ok(());
    }
    let head = walk.head().await.map_err(|error| retry::after(walk, step, memory, &error))?;
    let behind = asking_behind(walk, step);
    match room(walk, &behind, &head) {
        Err(why) => Err(Turn::End(EventKind::NotApproved { why })),
        Ok(()) => {
            walk.promised.borrow_mut().extend(behind.iter().map(|next| next.id.clone()));
            Ok(())
        }
    }
}

/// Whether something is left for these, when those that were begun have taken theirs: what is prepared already, by this
/// run or by an earlier one.
fn room(walk: &Walk<'_>, behind: &[&Step], head: &Head) -> Result<(), String> {
    let mut wanted = Effects::default();
    for next in behind {
        if !covered(walk.approval, next, head)? {
            wanted.add(&next.effects);
        }
    }
    let Some(opened) = walk.approval.and_then(|digest| head.approvals.get(digest)) else { return Ok(()) };
    let (promised, settled) = (walk.promised.borrow(), walk.settled.borrow());
    let mut sum = wanted.clone();
    let asking = walk.plan.steps.iter().filter(|next| next.consent != Consent::Standing && !next.effects.is_empty());
    for next in asking.filter(|next| !settled.contains(&next.id) && !behind.iter().any(|other| other.id == next.id)) {
        // What a tide does on its way is not stopped by this, and is paid with the same.
        let is_begun = promised.contains(&next.id) || !walk.prepared.contains(&next.id);
        if is_begun && covered(walk.approval, next, head) == Ok(false) {
            sum.add(&next.effects);
        }
    }
    sum.0.retain(|key, _| wanted.0.contains_key(key));
    sum.within(&opened.left).map_err(|excess| beyond(&excess))
}

/// The steps that have something before them which only prepares them.
pub(super) fn prepared(plan: &Plan) -> BTreeSet<StepId> {
    let mut prepared = BTreeSet::new();
    for step in plan.steps.iter().filter(|step| step.consent == Consent::Asked) {
        let begins = step.effects.is_empty() && prepares(&step.action);
        if begins || step.after.iter().any(|id| prepared.contains(id)) {
            prepared.insert(step.id.clone());
        }
    }
    prepared
}

fn prepares(action: &Action) -> bool {
    matches!(
        action,
        Action::Cluster(ClusterAction::Cordon { .. })
            | Action::Record(LedgerChange::Removing { .. } | LedgerChange::Treated { .. })
    )
}

/// The steps behind this one that take something out of an approval. A plan lists what comes first first.
fn asking_behind<'a>(walk: &Walk<'a>, step: &Step) -> Vec<&'a Step> {
    let mut behind = BTreeSet::from([&step.id]);
    let mut asking = Vec::new();
    for next in walk.plan.steps.iter().filter(|next| next.consent == Consent::Asked) {
        if next.after.iter().any(|id| behind.contains(id)) {
            behind.insert(&next.id);
            asking.extend((!next.effects.is_empty()).then_some(next));
        }
    }
    asking
}

/// The effect is there: what was taken for it is struck out. If that fails, the next plan without it does so. A request
/// has a generation, which never comes again; an order to cut is given again until the node shows it, and labels are
/// taken off again until the slot is let go.
pub(super) async fn done(walk: &Walk<'_>, step: &Step) {
    let again = matches!(step.action, Action::Cluster(ClusterAction::Cut { .. } | ClusterAction::Dress { .. }));
    let is_struck_out = !is_request(&step.action) && !again;
    if let Some(digest) = walk.approval
        && step.consent == Consent::Asked
        && !step.effects.is_empty()
        && is_struck_out
    {
        let purposes = BTreeMap::from([(digest.clone(), BTreeSet::from([purpose(step)]))]);
        let _ = walk.record(&[LedgerChange::Done { purposes }], &|_, _| Guard::Go).await;
    }
}

/// Strikes out what was paid for when the plan was made and has no step in it: whoever did it died before saying so. A
/// chain is under way as long as one of its steps is: a cut that was ordered is waited for, and may be ordered again.
pub(super) async fn close(walk: &Walk<'_>) {
    let (plan, input) = (walk.plan, walk.input);
    if !plan.held.is_empty() || !input.only.is_empty() || input.only_node.is_some() {
        return;
    }
    let wanted: BTreeSet<&str> = plan.steps.iter().map(|step| subject(step.id.as_str())).collect();
    let mut purposes = input.ledger.head.spent.clone();
    for spent in purposes.values_mut() {
        spent.retain(|purpose| !is_of_request(purpose) && !wanted.contains(subject(purpose)));
    }
    purposes.retain(|_, spent| !spent.is_empty());
    if !purposes.is_empty() {
        let _ = walk.record(&[LedgerChange::Done { purposes }], &|_, _| Guard::Go).await;
    }
}

/// Gives back what this run took for a step that came to nothing. If that fails the approval is smaller than it could
/// be, which is safe.
pub(super) async fn refund(walk: &Walk<'_>, step: &Step, memory: &mut Memory) {
    let Some(digest) = memory.paid.take() else { return };
    let change = LedgerChange::Refund { digest, purpose: purpose(step), effects: step.effects.clone() };
    let _ = walk.record(&[change], &|_, _| Guard::Go).await;
}

/// Gives back what was taken for a request that was answered with a definite no, by this run or by one that crashed.
pub(super) async fn void(walk: &Walk<'_>, step: &Step, memory: &mut Memory) {
    if memory.paid.is_none()
        && let Ok(head) = walk.head().await
    {
        let purpose = purpose(step);
        memory.paid = head.spent.into_iter().find(|(_, spent)| spent.contains(&purpose)).map(|(digest, _)| digest);
    }
    refund(walk, step, memory).await;
}

/// Whether it is paid already, or can be; else why not.
fn covered(approval: Option<&Digest>, step: &Step, head: &Head) -> Result<bool, String> {
    let purpose = purpose(step);
    // A request was paid when its intent was recorded, by whatever approval; anything else only by this one.
    let pays = |digest: &Digest| is_request(&step.action) || approval == Some(digest);
    if head.spent.iter().any(|(digest, spent)| pays(digest) && spent.contains(&purpose)) {
        return Ok(true);
    }
    let digest = approval.ok_or("nobody approved it")?;
    let opened = head.approvals.get(digest).ok_or_else(|| format!("no approval {digest} was opened"))?;
    step.effects.within(&opened.left).map(|()| false).map_err(|excess| beyond(&excess))
}

fn is_request(action: &Action) -> bool {
    matches!(action, Action::Cloud(action) if action.needs_intent())
}

/// A request is noted by what it asks for, everything else by its step.
fn is_of_request(purpose: &str) -> bool {
    ["launch ", "reserve ", "purchase "].iter().any(|verb| purpose.starts_with(verb))
}

/// What a step or a purpose is about: `train/3@2` of `cut:train/3@2 0a1b`.
fn subject(text: &str) -> &str {
    let about = text.split_once(':').map_or(text, |(_, about)| about);
    about.split(' ').next().unwrap_or(about)
}

fn beyond(excess: &[Excess]) -> String {
    let word = |excess: &Excess| {
        let (key, wanted) = (&excess.key, &excess.wanted);
        let left = excess.approved.clone().unwrap_or_default();
        if let Some(object) = wanted.unnamed(&left).next().filter(|_| wanted.count <= left.count) {
            let object = object.words();
            return format!("{key}: {object} would be written differently from what was approved");
        }
        if wanted.is_other_template(&left) && wanted.count <= left.count {
            return format!("{key}: nodes would be launched from another template than was approved");
        }
        match wanted.beyond(&left) {
            Some((what, wanted, left)) => format!("{key}: {wanted} {what} where {left} is left of the approval"),
            None => format!("{key} {} where {} is left of the approval", wanted.count, left.count),
        }
    };
    excess.iter().map(word).collect::<Vec<_>>().join("; ")
}

/// What the effects are taken for: this very effect. A request that is sent again is the same, whatever step sends it;
/// another change of the same object is not.
fn purpose(step: &Step) -> String {
    match &step.action {
        Action::Cloud(CloudAction::Launch(request)) => format!("launch {}@{}", request.slot, request.generation),
        Action::Cloud(CloudAction::Reserve(request)) => {
            format!("reserve {}@{}", request.reservation, request.generation)
        }
        Action::Cloud(CloudAction::Purchase(request)) => format!("purchase {}", request.offering),
        // Its mark holds an instant, which is another in every plan.
        Action::Cluster(ClusterAction::Suspend { workload, .. }) => format!("{} {workload}", step.id),
        // An order to mig-manager that came to nothing is given again: that is still the one cut.
        Action::Cluster(ClusterAction::Cut { laid_out, .. }) => noted(step, &digest_of(laid_out)),
        action => noted(step, &digest_of(action)),
    }
}

/// Enough to tell two actions of one step apart, and short, because the ledger keeps it.
fn noted(step: &Step, digest: &Digest) -> String {
    format!("{} {}", step.id, digest.as_str().get(..16).unwrap_or_default())
}
