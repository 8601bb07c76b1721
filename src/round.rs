//! One round: read the ledger, find the target, compile, observe. What a plan is made of; the command line, the
//! scenarios and the operator all come through here.
//!
//! Reads, and changes nothing. What could not be observed is a gap in the input; only without the ledger is there no
//! input at all, because a plan that forgot what it launched would launch it again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join;
use jiff::{SignedDuration, Timestamp};

use crate::compile::seats::Scene;
use crate::compile::{Beside, compile_beside, cuts, found, renewed, staged};
use crate::effect::marks::CORDON;
use crate::effect::{Action, CloudAction, Desired, Ledger, LedgerChange, Object, Thing};
use crate::fleet::handing::Cuts;
use crate::fleet::target::PoolTarget;
use crate::fleet::tide::Phase;
use crate::fleet::{Change, Fleet, Recalls, Target, seating};
use crate::ids::{FleetUid, NamespacedName, NodeName, PoolName, ReservationName, SlotId, TideName, Uid};
use crate::observed::{CloudSeen, ClusterSeen, Observed, Sample};
use crate::plan::tide::guard_says;
use crate::plan::view::LISTED_WITHIN;
use crate::plan::{Closed, PlanInput, anew, plan};
use crate::provider::{Cloud, Meter, ProviderError, World};

/// What a person may ask for beside the fleet itself.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Options {
    /// The plan of another instant: what is wanted then, over what is there now.
    pub at: Option<Timestamp>,
    /// Only what concerns these; empty: everything.
    pub only: Vec<Thing>,
    /// Only what concerns this node.
    pub only_node: Option<NodeName>,
    /// Nodes with work move too, where the fabric is better used for it.
    pub defragment: bool,
    /// The plan is shown, and carried out by somebody else if at all.
    pub preview: bool,
    /// The git revision of the documents.
    pub revision: Option<String>,
}

/// How far ahead a plan says what the tide will do.
const A_DAY: SignedDuration = SignedDuration::from_hours(24);

/// Everything that the plan of this moment depends on. A fleet that the ledger knows keeps the identity that it was
/// given there: everything that was launched carries it.
pub async fn input(
    fleet: &Fleet,
    uid: &FleetUid,
    world: World<'_>,
    options: &Options,
) -> Result<PlanInput, ProviderError> {
    let (mut ledger, _) = world.cluster.ledger().await?;
    ledger.settle_exchanges();
    let renamed = ledger.take_names(fleet.pools.iter().map(|(name, pool)| (name, pool.renamed_from.as_ref())));
    let now = options.at.unwrap_or_else(|| world.clock.now());
    let guards = guards(fleet, world.meter).await;
    let mut recalls = recalls(&ledger);
    let closed = closed(fleet, &ledger, &guards, (now, world.clock.now()), &mut recalls);
    let mut asked = fleet.target_with(now, &recalls);
    ask_back(fleet, &ledger, &mut asked, now);
    let (cloud, cluster) = join(world.cloud.observe(&asked), world.cluster.observe(&asked)).await;
    let known = fleet.knowing(&windows(fleet, &ledger, &cloud));
    // What the documents say stays what they say; only sizes and quotas follow from what is known.
    let mut target = known.target_with(now, &recalls);
    let (gone, cut_short) = ask_back(fleet, &ledger, &mut target, now);
    let target = Target { standing: asked.standing, ..target };
    let tomorrow = now.checked_add(A_DAY).unwrap_or(Timestamp::MAX);
    let upcoming = known.transitions_with(now, tomorrow, &recalls);
    let own = ledger.head.fleet.as_ref().unwrap_or(uid);
    let found = found::found(own, &target, &ledger, &cloud, &cluster);
    let scene = Scene { target: &target, ledger: &ledger, found: &found, cloud: &cloud, cluster: &cluster, now };
    let cuts = cuts::seen(&scene);
    let target = target.seated(&cuts);
    let upcoming = seated(&target, upcoming, &cuts);
    let promised = known.promised(&target, &cuts);
    let slots = ledger.pools.values().flat_map(|pool| pool.slots.values());
    let counted_on = slots.filter(|slot| slot.instance.is_some() || slot.node.is_some()).count();
    let uid = ledger.head.fleet.as_ref().unwrap_or(uid);
    let beside = Beside { owner: Some(uid.clone()), ..Beside::of(&promised, &cluster, counted_on) };
    let mut desired = compile_beside(&promised, &beside);
    staged::stage(&mut desired, &cluster);
    renewed::share_renamed(&mut desired, &cluster, &target, &ledger);
    let target = Target { quotas: promised.quotas, ..target };
    let in_force = ledger.head.recalled.iter().filter(|(tide, recall)| !fleet.recall_is_over(tide, recall.at, now));
    let recalled = in_force.map(|(tide, recall)| (tide.clone(), recall.clone())).collect();
    let rehearsed = world.cluster.rehearse(&moved(&desired, &cluster)).await;
    let refused = world.cluster.rehearse_evictions(&leaving(&cluster)).await;
    let input = PlanInput {
        fleet: uid.clone(),
        now,
        upcoming,
        desired,
        target,
        observed: Observed { cloud, cluster, guards, rehearsed, refused, denied: BTreeMap::new(), looks_only: None },
        ledger,
        renamed,
        found,
        closed,
        recalled,
        gone,
        cut_short,
        revision: options.revision.clone(),
        only: options.only.clone(),
        only_node: options.only_node.clone(),
        defragment: options.defragment,
    };
    Ok(allowed(input, world.cloud, options.preview).await)
}

/// With what the cloud would not let us do of all that this input leads to. Whoever only shows a plan may have credentials
/// that look and change nothing: then all of it is shown, as somebody else would carry it out.
async fn allowed(mut input: PlanInput, cloud: &dyn Cloud, preview: bool) -> PlanInput {
    if cloud.rehearses() {
        let wanted = plan(&input);
        let mut first: BTreeMap<&str, &CloudAction> = BTreeMap::new();
        for step in &wanted.steps {
            if let Action::Cloud(action) = &step.action {
                first.entry(action.verb()).or_insert(action);
            }
        }
        let said = cloud.rehearse(&first.into_values().collect::<Vec<_>>()).await;
        match said.looks_only.filter(|_| preview) {
            Some(why) => input.observed.looks_only = Some(why),
            None => input.observed.denied = said.denied,
        }
    }
    input
}

/// The objects that are not as we wrote them, or would be written another way.
fn moved<'a>(desired: &'a Desired, cluster: &ClusterSeen) -> Vec<&'a Object> {
    // Without a whole read nothing is made anew, so nothing need be tried.
    let objects = desired.objects.iter().filter(|wanted| match cluster.objects.seen().get(&wanted.key) {
        Some(seen) => seen.written.as_ref() != Some(&wanted.digest) || seen.moved_by.is_some(),
        None => cluster.gap_of(wanted.key.kind).is_none(),
    });
    objects.collect()
}

/// The pods that are to be evicted from nodes which carry our mark: what the server says to that is known only from it.
fn leaving(cluster: &ClusterSeen) -> Vec<(NamespacedName, Uid)> {
    let nodes = cluster.nodes.seen();
    let is_marked = |node: &NodeName| nodes.get(node).is_some_and(|node| node.annotation(CORDON).is_some());
    let pods = cluster.pods.seen().iter().filter(|pod| pod.node.as_ref().is_some_and(is_marked));
    let pods = pods.filter(|pod| pod.counts() && pod.terminating.is_none() && pod.workload.is_none());
    pods.map(|pod| (pod.name.clone(), pod.uid.clone())).collect()
}

/// When the Capacity Blocks run that were bought, by the documents that they were bought for.
fn windows(fleet: &Fleet, ledger: &Ledger, cloud: &CloudSeen) -> BTreeMap<ReservationName, (Timestamp, Timestamp)> {
    let held = |name: &ReservationName| ledger.head.reservations.get(name).and_then(|held| held.id.as_ref());
    let window = |name: &ReservationName| {
        let seen = cloud.reservations.seen().get(held(name)?).filter(|seen| seen.block)?;
        Some((name.clone(), (seen.start?, seen.end?)))
    };
    fleet.reservations.keys().filter_map(window).collect()
}

/// The tides that the ledger remembers as turned before their time.
pub fn recalls(ledger: &Ledger) -> Recalls {
    ledger.head.recalled.iter().map(|(tide, recall)| (tide.clone(), recall.at)).collect()
}

/// What will change, on the slots that are cut for it.
fn seated(target: &Target, upcoming: Vec<(Timestamp, Vec<Change>)>, cuts: &Cuts) -> Vec<(Timestamp, Vec<Change>)> {
    let on = |pool: &PoolName, parts: PoolTarget| seating::seated(&target.standing, pool, &parts, cuts);
    let seated = |change: Change| match change {
        Change::Pool { pool, before, after } => {
            Change::Pool { before: on(&pool, before), after: on(&pool, after), pool }
        }
        other => other,
    };
    upcoming.into_iter().map(|(at, changes)| (at, changes.into_iter().map(seated).collect())).collect()
}

/// Adds the tides that lent something and whose document is gone: a recall turned them already, or its absence does. Of
/// those that have one it adds what an edit took out of it, or turns them where an edit ended their low tide; these are
/// told apart.
fn ask_back(
    fleet: &Fleet,
    ledger: &Ledger,
    target: &mut Target,
    now: Timestamp,
) -> (BTreeSet<TideName>, BTreeSet<TideName>) {
    let (mut gone, mut cut_short) = (BTreeSet::new(), BTreeSet::new());
    for (name, lent) in &ledger.head.lent {
        let recall = ledger.head.recalled.get(name).map(|recall| recall.at).filter(|at| *at >= lent.since);
        let turned = recall.into_iter().chain(lent.gone).chain([now]).min().unwrap_or(now);
        let Some(tide) = fleet.tides.get(name) else {
            if target.ask_back(name, &lent.spec, turned, now) {
                gone.insert(name.clone());
            }
            continue;
        };
        target.end_loans(name, &lent.spec, now);
        let is_low = tide.calendar(now, now).low_at(now).is_some();
        if !is_low && lent.until.is_some_and(|until| now < until) {
            target.turn_back(name, turned, now);
            cut_short.insert(name.clone());
        }
    }
    target.lent_since(ledger.head.lent.iter().map(|(name, lent)| (name.clone(), lent.since)));
    (gone, cut_short)
}

/// Tides that are low by the clock, have lent nothing, and may not begin: for those the tide stays high. One that lends
/// already is turned by the plan, which remembers it, and stays turned whatever the guard says later. A sample is as old
/// as it is now, whatever instant is asked for.
fn closed(
    fleet: &Fleet,
    ledger: &Ledger,
    guards: &BTreeMap<TideName, Option<Sample>>,
    (now, seen): (Timestamp, Timestamp),
    recalls: &mut Recalls,
) -> BTreeMap<TideName, Closed> {
    let mut closed = BTreeMap::new();
    let is_turned = |name: &TideName| {
        ledger.head.recalled.get(name).is_some_and(|recall| !fleet.recall_is_over(name, recall.at, now))
    };
    let is_guarded = |name: &TideName| !ledger.head.lending.contains_key(name) && !is_turned(name);
    for (name, tide) in fleet.tides.iter().filter(|(name, _)| is_guarded(name)) {
        let Some(guard) = &tide.guard else { continue };
        let Some((start, _)) = tide.calendar(now, now).low_at(now) else { continue };
        if let Err(why) = guard_says(guard, guards.get(name).and_then(Option::as_ref), seen) {
            // Turned as it began, it lends nothing at all.
            recalls.insert(name.clone(), start);
            // In its last hour it would lend nothing more in any case.
            if let Phase::Low { reclaim_at } = tide.phase_at(now) {
                closed.insert(name.clone(), Closed { why, reclaim_at });
            }
        }
    }
    closed
}

async fn guards(fleet: &Fleet, meter: &dyn Meter) -> BTreeMap<TideName, Option<Sample>> {
    let mut samples = BTreeMap::new();
    for (name, tide) in &fleet.tides {
        if let Some(guard) = &tide.guard {
            samples.insert(name.clone(), meter.sample(&guard.prometheus).await);
        }
    }
    samples
}

/// The memory of before, where it was lost, with the record that this is known.
pub fn forgotten(input: &PlanInput) -> Option<(String, LedgerChange)> {
    let at = anew::since(input)?;
    let what = format!("the ledger, as was seen at {at}, with the {} that it held", anew::SAID);
    Some((what, LedgerChange::KnownAnew { fleet: input.fleet.clone(), began: anew::beginning(input, at) }))
}

/// The nodes that were kept out of service by a memory that is lost, with the record that they may serve again.
pub fn let_in(input: &PlanInput) -> Vec<(String, LedgerChange)> {
    let let_in = |(name, was): (&NodeName, &str)| {
        let change = LedgerChange::Return { node: name.clone(), at: Some(input.now) };
        (format!("{name}, which was {was}: it may serve again"), change)
    };
    anew::unanswered(input).into_iter().map(let_in).collect()
}

/// What the ledger knows of and the cloud or the cluster does not list, with the record that it is gone.
pub fn missing(input: &PlanInput) -> Result<Vec<(String, LedgerChange)>, String> {
    let (cloud, cluster) = (&input.observed.cloud, &input.observed.cluster);
    if let Some(gap) = cloud.instances.gap().or(cluster.nodes.gap()) {
        return Err(format!(
            "it could not be read whole, so nothing is known to be missing: {}: {}",
            gap.what, gap.why
        ));
    }
    let nodes = cluster.nodes.seen();
    let mut found = Vec::new();
    for (pool, known) in &input.ledger.pools {
        for (index, slot) in &known.slots {
            let id = input.as_kept(&SlotId::new(pool, *index));
            // The cloud lists what was just launched when it likes.
            if slot.launched.is_some_and(|at| input.now.duration_since(at) <= LISTED_WITHIN) {
                continue;
            }
            if let Some(instance) = slot.instance.as_ref().filter(|one| !cloud.instances.seen().contains_key(*one)) {
                let ready = nodes.values().any(|node| node.instance.as_ref() == Some(instance) && node.ready);
                if !ready {
                    found.push((format!("{id}  {instance}"), LedgerChange::Lost { slot: id }));
                }
            } else if let Some(node) = slot.node.as_ref().filter(|node| !nodes.contains_key(*node)) {
                found.push((format!("{id}  {node}"), LedgerChange::Unclaimed { slot: id }));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
