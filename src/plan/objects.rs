//! The cluster objects that are wanted against those that are there.
//!
//! Everything that we write carries the digest of what we wrote: wanted ≠ written is a change that somebody asked for,
//! seen ≠ written is drift, and an object without our mark is somebody else's. What is no longer wanted stays and
//! loses our mark; only `retire: true` deletes. `quotas` says what a change of amounts does, `judge` what one object
//! needs.

pub(super) mod bodies;
pub mod fields;
mod judge;
mod named;
mod never;
mod over;
mod quotas;
mod staged;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::draft::Draft;
use super::harm::Harm;
use super::steps::{course, held, step};
use super::types::{Consent, Disruption, Drift, PlanInput, Reason, Released, Step, WaitingOn};
use crate::compile::cohorts;
use crate::compile::files::file;
use crate::compile::holds::is_accelerator;
use crate::effect::marks::{MIG_CONFIG, PLUGIN_CONFIG};
use crate::effect::{Action, Amount, ClusterAction, Effects, Fact, Object, Thing, Verb, digest_of};
use crate::fleet::tide::Phase;
use crate::ids::{PoolName, QuotaName, StepId};
use crate::observed::{Gap, ObjectKey, ObjectKind, ObjectSeen, Rehearsed};
pub(super) use judge::kubectl;
pub use judge::written_by;
use judge::{Change, Judged};
pub use quotas::pool_of;
use quotas::{Pair, Shift};

pub fn plan(input: &PlanInput, harm: &Harm<'_>, draft: &mut Draft) {
    let mut stuck = Stuck::new();
    let mut changes = changes(input, &mut stuck, draft);
    never::say(input, &changes, draft);
    hold_what_runs(input, &mut changes, &mut stuck, draft);
    hold_half_a_tier(input, &mut changes, &mut stuck, draft);
    let retired = retired(input, draft);
    loop {
        let before = changes.len();
        named::hold(input, &mut changes, &mut stuck, draft);
        hold_what_waits(input, &mut changes, &mut stuck, draft);
        hold_what_is_too_much(input, &mut changes, &retired, &mut stuck, draft);
        if changes.len() == before {
            break;
        }
    }
    let mut hits = hits(input, harm, &changes, &retired);
    write(input, &changes, &retired, &mut hits, draft);
    delete(input, &retired, &changes, draft);
    let_go(input, draft);
    staged::say(input, &changes, &stuck, draft);
}

/// What is wanted of an object and waits, and on what.
type Stuck<'a> = BTreeMap<&'a ObjectKey, WaitingOn>;

/// What an object that is wanted waits for, where it cannot be written now.
pub fn stuck(input: &PlanInput, wanted: &Object) -> Option<WaitingOn> {
    match judge::judge(input, wanted) {
        Judged::Same => None,
        Judged::Unread(gap) => Some(WaitingOn::Unread(gap.clone())),
        Judged::Held(held) => Some(held.waiting_on),
        Judged::Change(change) => match input.observed.rehearsed.get(&wanted.key) {
            Some(Rehearsed::Refused(why)) if !change.replaces => Some(WaitingOn::Person(why.clone())),
            _ => None,
        },
    }
}

/// The part of the fleet that an object belongs to.
pub fn thing_of(input: &PlanInput, key: &ObjectKey) -> Thing {
    let quotas = &input.target.standing.quotas;
    let found: Option<&QuotaName> = match key.kind {
        ObjectKind::ClusterQueue => {
            let of = |queue: &str| quotas.iter().find(|(_, quota)| quota.cluster_queue == *queue).map(|(name, _)| name);
            of(&key.name).or_else(|| of(&named::in_place_of(input, key)?.name))
        }
        ObjectKind::LocalQueue => {
            let is_named = |(namespace, queue): &(String, String)| {
                Some(namespace.as_str()) == key.namespace.as_deref() && *queue == *key.name
            };
            quotas.iter().find(|(_, quota)| quota.namespaces.iter().any(is_named)).map(|(name, _)| name)
        }
        ObjectKind::ValidatingAdmissionPolicy
        | ObjectKind::ValidatingAdmissionPolicyBinding
        | ObjectKind::MutatingAdmissionPolicy
        | ObjectKind::MutatingAdmissionPolicyBinding => {
            let ends = |name: &&QuotaName| {
                key.name.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '.']))
            };
            quotas.keys().filter(ends).max_by_key(|name| name.as_str().len())
        }
        _ => None,
    };
    found.map_or_else(|| Thing::Objects(key.kind.name().into()), |name| Thing::Quota(name.clone()))
}

/// What differs, object by object; what cannot be changed is held at once.
fn changes<'a>(input: &'a PlanInput, stuck: &mut Stuck<'a>, draft: &mut Draft) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    let mut unread: BTreeMap<Thing, (&Gap, Vec<&ObjectKey>)> = BTreeMap::new();
    for wanted in &input.desired.objects {
        match judge::judge(input, wanted) {
            Judged::Same => {}
            Judged::Unread(gap) => {
                unread.entry(thing_of(input, &wanted.key)).or_insert((gap, Vec::new())).1.push(&wanted.key);
            }
            Judged::Held(held) => {
                stuck.insert(&wanted.key, held.waiting_on.clone());
                draft.held.push(*held);
            }
            Judged::Change(change) => match input.observed.rehearsed.get(&wanted.key) {
                // The server was asked for a change in place, which nobody wants.
                Some(Rehearsed::Refused(_)) if change.replaces => changes.push(*change),
                Some(Rehearsed::Refused(why)) => {
                    let waits = WaitingOn::Person(why.clone());
                    stuck.insert(&wanted.key, waits.clone());
                    let thing = thing_of(input, &wanted.key);
                    draft.held.push(held(&thing, change.sentence(), change.reason.clone(), waits));
                }
                Some(Rehearsed::Taken(body)) => {
                    say_what_admission_changes(input, wanted, body, draft);
                    changes.push(*change);
                }
                None => changes.push(*change),
            },
        }
    }
    for (thing, (gap, keys)) in unread {
        let more = if keys.len() > 1 { format!(" and {} more", keys.len() - 1) } else { String::new() };
        let wanted = format!("{}{more} as the documents say", keys[0].words());
        draft.held.push(held(&thing, wanted, Reason::Wanted, WaitingOn::Unread(gap.clone())));
    }
    changes
}

/// Somebody who stands between us and the server writes another value, and will again.
fn say_what_admission_changes(input: &PlanInput, wanted: &Object, taken: &Value, draft: &mut Draft) {
    if !bodies::covers(taken, &wanted.body) {
        let (ours, theirs) = fields::sides(&fields::fields(wanted.key.kind, taken, &wanted.body));
        let key = wanted.key.words();
        let text = format!("{key} will not be as written, {ours}: admission in the cluster makes it {theirs}");
        draft.note(thing_of(input, &wanted.key), text);
    }
}

/// Kueue forgets what runs on a flavor that its queue no longer lists, and gives the same quota out again.
fn hold_what_runs<'a>(input: &'a PlanInput, changes: &mut Vec<Change<'a>>, stuck: &mut Stuck<'a>, draft: &mut Draft) {
    changes.retain(|change| {
        let key = &change.wanted.key;
        if key.kind != ObjectKind::ClusterQueue || change.shift.drops.is_empty() {
            return true;
        }
        let holding = quotas::holding(input, &key.name, &change.shift.drops);
        let Some(first) = holding.first().and_then(|uid| input.observed.cluster.workloads.seen().get(*uid)) else {
            return true;
        };
        let more = if holding.len() > 1 { format!(" and {} more", holding.len() - 1) } else { String::new() };
        let wanted = format!("{}, which no longer lists what {}{more} runs on", change.sentence(), first.name);
        let waits = WaitingOn::Gang { name: first.name.to_string() };
        stuck.insert(key, waits.clone());
        draft.held.push(held(&thing_of(input, key), wanted, change.reason.clone(), waits));
        false
    });
}

/// Neither class of a tier without the other: pods would stand in one order, and workloads in another.
fn hold_half_a_tier<'a>(input: &'a PlanInput, changes: &mut Vec<Change<'a>>, stuck: &mut Stuck<'a>, draft: &mut Draft) {
    changes.retain(|change| {
        let Some(twin) = change.twin() else { return true };
        let Some(waits) = stuck.get(&twin).cloned() else { return true };
        let its = input.observed.cluster.objects.seen().get(&twin).and_then(|seen| seen.body["value"].as_i64());
        if its == change.class() {
            return true;
        }
        let key = &change.wanted.key;
        let wanted = format!("{}, together with {}", change.sentence(), twin.words());
        stuck.insert(key, waits.clone());
        draft.held.push(held(&thing_of(input, key), wanted, change.reason.clone(), waits));
        false
    });
}

/// What raises a quota waits for what lowers it elsewhere; and nothing is raised while nobody knows what runs.
fn hold_what_waits<'a>(input: &'a PlanInput, changes: &mut Vec<Change<'a>>, all: &mut Stuck<'a>, draft: &mut Draft) {
    let mut more = Stuck::new();
    let stuck = input.desired.objects.iter().filter_map(|wanted| {
        let waiting_on = all.get(&wanted.key)?;
        let seen = input.observed.cluster.objects.seen().get(&wanted.key)?;
        let lowers = quotas::shift(Some(&seen.body), Some(&wanted.body)).lowers;
        Some((&wanted.key, lowers, waiting_on))
    });
    let stuck: Vec<(&ObjectKey, BTreeSet<Pair>, &WaitingOn)> = stuck.collect();
    // Pods that no queue knows of are part of what runs, and belong to the pool that their node says.
    let cluster = &input.observed.cluster;
    let gap = cluster.workloads.gap().or(cluster.pods.gap()).or(cluster.nodes.gap());
    changes.retain(|change| {
        let thing = || thing_of(input, &change.wanted.key);
        if let (Some(gap), false) = (gap, change.shift.raises.is_empty()) {
            let waits = WaitingOn::Unread(gap.clone());
            more.insert(&change.wanted.key, waits.clone());
            draft.held.push(held(&thing(), change.sentence(), change.reason.clone(), waits));
            return false;
        }
        let blocks = |(other, lowers, _): &&(&ObjectKey, BTreeSet<Pair>, _)| {
            !change.shift.raises.is_disjoint(lowers) || change.ranks_past(input, other)
        };
        let Some((other, _, waiting_on)) = stuck.iter().find(blocks) else { return true };
        let waits = (*waiting_on).clone();
        let wanted = format!("{}, once {} is as it should be", change.sentence(), other.words());
        more.insert(&change.wanted.key, waits.clone());
        draft.held.push(held(&thing(), wanted, change.reason.clone(), waits));
        false
    });
    all.extend(more);
}

/// Nothing is promised beyond what the nodes hold: by what stays of others, or by two that wait for each other. What
/// is held for one reason may be what another counted on.
fn hold_what_is_too_much<'a>(
    input: &'a PlanInput,
    changes: &mut Vec<Change<'a>>,
    retired: &[(&'a ObjectKey, &'a ObjectSeen)],
    stuck: &mut Stuck<'a>,
    draft: &mut Draft,
) {
    loop {
        let written = changes.iter().map(|change| (&change.wanted.key, Some(&change.wanted.body)));
        let after: Vec<_> = written.chain(retired.iter().map(|(key, _)| (*key, None))).collect();
        let over = quotas::overbooked(input, &after);
        let circle = circle(changes);
        let (before, mut place) = (changes.len(), 0);
        changes.retain(|change| {
            place += 1;
            let beyond = change.shift.raises.iter().find_map(|pair| over.get(pair));
            let text = match (beyond, circle.contains(&(place - 1))) {
                (Some(text), _) => text.clone(),
                (None, true) => format!(
                    "{} and others each wait for what the other gives up: make one smaller first, in a change of its own",
                    change.wanted.key.words()
                ),
                (None, false) => return true,
            };
            let thing = thing_of(input, &change.wanted.key);
            let waits = WaitingOn::Person(text);
            stuck.insert(&change.wanted.key, waits.clone());
            draft.held.push(held(&thing, change.sentence(), change.reason.clone(), waits));
            false
        });
        if changes.len() == before {
            return;
        }
    }
}

/// Changes that raise what they wait for each other to lower, and those behind them.
fn circle(changes: &[Change<'_>]) -> BTreeSet<usize> {
    let mut left: BTreeSet<usize> = (0..changes.len()).collect();
    // Few lower anything, and only they are waited for.
    let lowers: Vec<usize> = (0..changes.len()).filter(|one| !changes[*one].shift.lowers.is_empty()).collect();
    loop {
        let waits = |one: usize| {
            let raises = &changes[one].shift.raises;
            let meets = |other: &usize| *other != one && !raises.is_disjoint(&changes[*other].shift.lowers);
            lowers.iter().any(|other| left.contains(other) && meets(other))
        };
        let free: Vec<usize> = left.iter().copied().filter(|one| !waits(*one)).collect();
        if free.is_empty() {
            return left;
        }
        free.iter().for_each(|one| {
            left.remove(one);
        });
    }
}

/// What is over and still there, in the order in which it can be deleted.
fn retired<'a>(input: &'a PlanInput, draft: &mut Draft) -> Vec<(&'a ObjectKey, &'a ObjectSeen)> {
    let mut found = Vec::new();
    for key in &input.desired.retired {
        let Some(seen) = input.observed.cluster.objects.seen().get(key) else { continue };
        let mut hold = |waiting_on: WaitingOn| {
            draft.held.push(held(
                &thing_of(input, key),
                format!("delete {}", key.words()),
                Reason::NotWanted,
                waiting_on,
            ));
        };
        if seen.deleting {
            let name = judge::users(input, key).into_iter().next();
            hold(WaitingOn::Gang { name: name.unwrap_or_else(|| format!("whatever uses {}", key.words())) });
        } else if seen.written.is_none() {
            hold(WaitingOn::OtherOwner { object: key.clone(), patch: judge::kubectl("delete", key) });
        } else if let Some(gap) = input.observed.cluster.gap_of_any() {
            hold(WaitingOn::Unread(gap.clone()));
        } else {
            found.push((key, seen));
        }
    }
    found
}

/// Whom Kueue will evict for which of these changes.
fn hits<'a>(
    input: &'a PlanInput,
    harm: &Harm<'_>,
    changes: &[Change<'a>],
    retired: &[(&'a ObjectKey, &'a ObjectSeen)],
) -> BTreeMap<&'a ObjectKey, (Disruption, Amount)> {
    let mut hits: BTreeMap<&ObjectKey, (Disruption, Amount)> = BTreeMap::new();
    let of_quota: Vec<&Change<'_>> = changes.iter().filter(|one| quotas::gives_quota(&one.wanted.key)).collect();
    if of_quota.is_empty() || input.observed.cluster.workloads.seen().is_empty() {
        return hits;
    }
    let written = changes.iter().map(|change| (&change.wanted.key, Some(&change.wanted.body)));
    let after: Vec<_> = written.chain(retired.iter().map(|(key, _)| (*key, None))).collect();
    for (uid, by) in quotas::evictions(input, &after) {
        let own = input.observed.cluster.workloads.seen().get(&uid).map(|workload| workload.queue.to_string());
        let queue = |name: &Option<String>| {
            let of = |change: &&&Change<'_>| change.wanted.key.kind == ObjectKind::ClusterQueue;
            of_quota.iter().filter(of).find(|change| Some(&*change.wanted.key.name) == name.as_deref())
        };
        let raises = || of_quota.iter().find(|change| !change.shift.raises.is_empty());
        let because = queue(&by).or_else(raises).or_else(|| queue(&own)).unwrap_or(&of_quota[0]);
        hits.entry(&because.wanted.key).or_default().0.add(&harm.hit_workload(&uid));
    }
    hits.values_mut().for_each(|(disruption, amount)| *amount = harm.amount(disruption));
    hits
}

/// Steps for what differs: who is named first, and what is lowered before what is raised.
fn write<'a>(
    input: &'a PlanInput,
    changes: &[Change<'a>],
    retired: &[(&ObjectKey, &ObjectSeen)],
    hits: &mut BTreeMap<&'a ObjectKey, (Disruption, Amount)>,
    draft: &mut Draft,
) {
    let mut lowers: Vec<(StepId, Shift)> = Vec::new();
    for (key, seen) in retired.iter().filter(|(key, _)| quotas::gives_quota(key)) {
        lowers.push((StepId::from(format!("delete:{key}")), quotas::shift(Some(&seen.body), None)));
    }
    for change in changes.iter().filter(|change| !change.shift.lowers.is_empty()) {
        lowers.push((change.id(), change.shift.clone()));
    }
    let ranks: Vec<&Change<'_>> = changes.iter().filter(|change| change.class().is_some()).collect();
    let mut planned: BTreeMap<&ObjectKey, StepId> = BTreeMap::new();
    let mut courses = Vec::new();
    for change in changes {
        let key = &change.wanted.key;
        let names = judge::names(change.wanted);
        let may = |named: &&ObjectKey| change.shift.lowers.is_empty() || !quotas::gives_quota(named);
        let named = names.iter().filter(may).filter_map(|named| planned.get(named).cloned());
        let hit = hits.remove(key).unwrap_or_default();
        let mut one = apply(input, change, hit);
        let room = lowers.iter().filter(|(id, shift)| *id != one.id && !change.shift.raises.is_disjoint(&shift.lowers));
        let above = ranks.iter().filter(|other| change.waits_in_rank(other)).map(|other| other.id());
        let twin = change.twin().and_then(|twin| planned.get(&twin).cloned());
        let classes = named::classes(input, change).into_iter().filter_map(|class| planned.get(&class.key).cloned());
        let first = above.chain(twin).chain(classes);
        one.after = named.chain(room.map(|(id, _)| id.clone())).chain(first).collect();
        one.after.sort_unstable();
        one.after.dedup();
        planned.insert(key, one.id.clone());
        say(input, change, &one.id, draft);
        let on = one.on.clone();
        let steps = if change.replaces { replacement(input, change, one) } else { vec![one] };
        courses.push(course(&on, change.sentence(), &change.reason, steps));
    }
    draft.courses.extend(named::coupled(input, changes, courses));
}

/// An object out of the way, and another in its place. Who is stopped between the two leaves nothing there, and the next
/// plan makes it.
fn replacement(input: &PlanInput, change: &Change<'_>, mut write: Step) -> Vec<Step> {
    let key = &change.wanted.key;
    let Some(seen) = change.seen else { return vec![write] };
    let mut gone = Step { reason: change.reason.clone(), ..deletion(input, key, seen) };
    gone.urgency = change.reason.urgency();
    gone.after.clone_from(&write.after);
    write.after.push(gone.id.clone());
    write.requires = vec![Fact::Unchanged { object: key.clone(), body: None }];
    write.consent = Consent::Asked;
    vec![gone, write]
}

fn apply(input: &PlanInput, change: &Change<'_>, (disruption, hit): (Disruption, Amount)) -> Step {
    let key = &change.wanted.key;
    let on = thing_of(input, key);
    let action = Action::Cluster(ClusterAction::Apply(change.wanted.clone()));
    let mut one = step(change.id().to_string(), &on, action, &change.reason);
    let body = change.seen.map(|seen| digest_of(&seen.body));
    one.requires = vec![Fact::Unchanged { object: key.clone(), body }];
    let mut amount = Amount::object(key, Some(&change.wanted.digest));
    if !disruption.is_none() {
        amount.add(&hit);
        // A victim has its grace period to end.
        one.takes = (1, 60);
        // Nobody approves a tide at 03:00: it was approved with the schedule.
        one.consent = if is_tidal(input, change.wanted) { Consent::Standing } else { Consent::Asked };
    }
    one.effects = Effects::one(Verb::Apply, on, amount);
    one.disruption = disruption;
    one
}

/// The pools of which a wanted object gives less than the one that is there, where no tide takes it away: a tide that is
/// not high moves quotas by itself.
pub fn lowered(input: &PlanInput, wanted: &Object) -> BTreeSet<PoolName> {
    let key = &wanted.key;
    let moving = input.target.tides.values().any(|phase| *phase != Phase::High);
    if !quotas::gives_quota(key) || is_loan(input, key) {
        return BTreeSet::new();
    }
    let seen = input.observed.cluster.objects.seen().get(key).map(|seen| &seen.body);
    let Shift { lowers, raises, .. } = quotas::shift(seen, Some(&wanted.body));
    let any_gpus = |pairs: &BTreeSet<Pair>| pairs.iter().any(|(_, resource)| is_accelerator(resource));
    // What a tide lent comes back to its lender at any hour, whatever else is written with it.
    let comes_back = any_gpus(&raises) && !any_gpus(&lowers);
    if (comes_back || (moving && hands_over(input, key))) && is_tidal(input, wanted) {
        return BTreeSet::new();
    }
    lowers.iter().filter_map(|(flavor, _)| quotas::pool_of(input, flavor)).collect()
}

/// The pools of which a wanted object gives another amount than the one that is there.
pub fn moved(input: &PlanInput, wanted: &Object) -> BTreeSet<PoolName> {
    let seen = input.observed.cluster.objects.seen().get(&wanted.key).filter(|_| quotas::gives_quota(&wanted.key));
    let Some(seen) = seen else { return BTreeSet::new() };
    quotas::moved(&seen.body, &wanted.body).iter().filter_map(|flavor| quotas::pool_of(input, flavor)).collect()
}

/// The pools of which a wanted object gives nothing any more of something that the one that is there gives.
pub fn loses(input: &PlanInput, wanted: &Object) -> BTreeSet<PoolName> {
    let seen = input.observed.cluster.objects.seen().get(&wanted.key).filter(|_| quotas::gives_quota(&wanted.key));
    let Some(seen) = seen else { return BTreeSet::new() };
    quotas::lost(&seen.body, &wanted.body).iter().filter_map(|flavor| quotas::pool_of(input, flavor)).collect()
}

/// Whether a tide takes something from this object now. A lender's queue has less only as its nodes are handed over, and
/// then the cohort of who gets them has more; by night too, whatever else lowers it is somebody's edit.
pub fn hands_over(input: &PlanInput, key: &ObjectKey) -> bool {
    let Thing::Quota(lender) = thing_of(input, key) else { return true };
    let standing = &input.target.standing;
    let seen = input.observed.cluster.objects.seen();
    let loans = standing.tides.values().flat_map(|tide| &tide.loans).filter(|loan| loan.from == lender);
    let cohorts: BTreeSet<String> =
        loans.filter_map(|loan| cohorts::of_tides(standing, &loan.to, standing.quotas.get(&loan.to)?)).collect();
    let grows = |object: &&Object| {
        let there = seen.get(&object.key).map(|seen| &seen.body);
        !quotas::shift(there, Some(&object.body)).raises.is_empty()
    };
    let of_loans = |object: &&Object| object.key.kind == ObjectKind::Cohort && cohorts.contains(&*object.key.name);
    input.desired.objects.iter().filter(of_loans).any(|object| grows(&object))
}

/// Whether this is the cohort in which a borrower has what tides lend it: nobody's edit of a pool is in it, and a loan
/// whose nodes are back is over at any hour.
fn is_loan(input: &PlanInput, key: &ObjectKey) -> bool {
    let standing = &input.target.standing;
    let of_tides = |(name, quota)| cohorts::of_tides(standing, name, quota).is_some_and(|own| *own == *key.name);
    key.kind == ObjectKind::Cohort && standing.quotas.iter().any(of_tides)
}

/// Whether only what a tide lends moves in this object. Where somebody edits it too, he is asked as ever.
fn is_tidal(input: &PlanInput, wanted: &Object) -> bool {
    let loans = input.target.standing.tides.values().flat_map(|tide| &tide.loans);
    let pools: BTreeSet<&PoolName> = match thing_of(input, &wanted.key) {
        Thing::Quota(name) => {
            loans.filter(|loan| loan.from == name || loan.to == name).map(|loan| &loan.pool).collect()
        }
        _ if wanted.key.kind == ObjectKind::Cohort => loans.map(|loan| &loan.pool).collect(),
        _ => BTreeSet::new(),
    };
    !pools.is_empty() && moved(input, wanted).iter().all(|pool| pools.contains(pool))
}

/// Drift, and objects that were not ours.
fn say(input: &PlanInput, change: &Change<'_>, step: &StepId, draft: &mut Draft) {
    let Some(seen) = change.seen else { return };
    if let Some(text) = over::borrowed(input, change) {
        draft.note(thing_of(input, &change.wanted.key), text);
    }
    if change.drifted {
        let (from, to) = fields::sides(&fields::fields(change.wanted.key.kind, &seen.body, &change.wanted.body));
        draft.drift.push(Drift {
            what: change.wanted.key.words(),
            by: seen.moved_by.as_ref().map(|(who, _)| who.clone()),
            at: seen.moved_by.as_ref().map(|(_, at)| *at),
            from,
            to,
            step: Some(step.clone()),
        });
    }
    if let Some(text) = &change.note {
        draft.note(thing_of(input, &change.wanted.key), text.clone());
    }
}

fn deletion(input: &PlanInput, key: &ObjectKey, seen: &ObjectSeen) -> Step {
    let on = thing_of(input, key);
    let action = Action::Cluster(ClusterAction::Delete(key.clone()));
    let mut one = step(format!("delete:{key}"), &on, action, &Reason::NotWanted);
    one.requires = vec![Fact::Unchanged { object: key.clone(), body: Some(digest_of(&seen.body)) }];
    one.effects = Effects::one(Verb::Delete, on, Amount::object(key, None));
    // Nobody names a flavor or a topology that is over, and whoever asked for the one in its place was asked; of a queue
    // that is left likewise.
    if !is_of_nodes(key) && !named::is_left(key, &seen.body) {
        one.consent = Consent::Asked;
    }
    one
}

fn is_of_nodes(key: &ObjectKey) -> bool {
    matches!(key.kind, ObjectKind::Topology | ObjectKind::ResourceFlavor)
}

/// Who names others goes before those that it names; a flavor goes after the queues that let go of it.
fn delete(input: &PlanInput, retired: &[(&ObjectKey, &ObjectSeen)], changes: &[Change<'_>], draft: &mut Draft) {
    let mut last: BTreeMap<Thing, StepId> = BTreeMap::new();
    for (key, seen) in retired {
        let on = thing_of(input, key);
        let mut one = deletion(input, key, seen);
        one.after.extend(last.insert(on.clone(), one.id.clone()));
        let goes = |other: &ObjectKey| retired.iter().any(|(key, _)| *key == other);
        if is_of_nodes(key) {
            let names = retired.iter().filter(|(other, seen)| judge::named_in(other.kind, &seen.body).contains(key));
            one.after.extend(names.map(|(other, _)| StepId::from(format!("delete:{other}"))));
            let lets_go = |change: &&Change<'_>| {
                change.seen.is_some_and(|seen| judge::named_in(change.wanted.key.kind, &seen.body).contains(key))
            };
            one.after.extend(changes.iter().filter(lets_go).map(Change::id));
        }
        let users = judge::users_but(input, key, &goes);
        if let Some(first) = users.first() {
            let more = if users.len() > 1 { format!(" and {} more", users.len() - 1) } else { String::new() };
            draft.note(
                on.clone(),
                format!("{} is still used by {first}{more}: it goes when they have gone", key.words()),
            );
        }
        draft.courses.push(course(&on, format!("delete {}", key.words()), &Reason::NotWanted, vec![one]));
    }
}

/// Ours, and neither wanted nor over: it stays as it is, and is no longer ours.
fn let_go(input: &PlanInput, draft: &mut Draft) {
    let wanted = input.desired.objects.iter().map(|object| &object.key);
    let known: BTreeSet<&ObjectKey> = wanted.chain(&input.desired.retired).collect();
    // NVIDIA's parts go on reading their files when no layout needs one just now, and the next that does changes it.
    let has_gpus = input.target.standing.pools.values().any(|pool| pool.shape.gpus > 0);
    let is_file = |key: &ObjectKey| [MIG_CONFIG, PLUGIN_CONFIG].iter().any(|label| file(label).as_ref() == Some(key));
    for (key, seen) in input.observed.cluster.objects.seen() {
        if seen.written.is_none() || seen.deleting || known.contains(key) || (has_gpus && is_file(key)) {
            continue;
        }
        let on = thing_of(input, key);
        draft.released.push(Released { what: key.words(), stays: "it stays as it is in the cluster".into() });
        let action = Action::Cluster(ClusterAction::Disown(key.clone()));
        let mut one = step(format!("disown:{key}"), &on, action, &Reason::NotWanted);
        one.requires = vec![Fact::Unchanged { object: key.clone(), body: Some(digest_of(&seen.body)) }];
        draft.courses.push(course(&on, format!("let go of {}", key.words()), &Reason::NotWanted, vec![one]));
    }
}

#[cfg(test)]
mod tests;
