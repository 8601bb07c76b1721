//! The tide beside the nodes: its guard, and work on borrowed quota that has to end when the tide turns.
//!
//! Nodes that are cut anew are emptied like all others (`slots`). Where a loan leaves the cut as it is, only quota
//! changes hands, and lowering it evicts nobody: what the borrower still holds beyond its own is asked back here, the
//! cheapest work first.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::draft::{Course, Draft};
use super::drain::{Pressure, Purpose, Steps, ask, asked_at, asked_later, step_id, suspend};
use super::layout;
use super::objects;
use super::smaller;
use super::steps::held;
use super::types::*;
use super::view::{SlotView, View};
use crate::compile::holds;
use crate::effect::marks::is_starting;
use crate::effect::{Action, LedgerChange, Lent, Recall, Thing};
use crate::fleet::standing::{LoanSpec, PoolSpec, TideSpec};
use crate::fleet::target::{Part, PoolTarget, Purpose as Use};
use crate::fleet::tide::{Guard, Phase};
use crate::ids::{NodeName, PoolName, ResourceName, TideName, WorkloadUid};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{PodSeen, Sample, WorkloadSeen};

/// The pools as far as their nodes have changed hands.
pub type Handed = BTreeMap<PoolName, PoolTarget>;
type Running<'a> = Vec<(&'a WorkloadUid, &'a WorkloadSeen)>;

pub fn plan(view: &View<'_>, draft: &mut Draft) {
    let handed = view.input.handed_over();
    for (name, spec) in &view.standing.tides {
        let phase = view.input.target.tides.get(name).copied().unwrap_or(Phase::High);
        guard(view, name, spec, phase, draft);
        remember(view, name, spec, phase, &handed, draft);
        for loan in asked_back(view, &handed, (name, spec), phase) {
            let times = spec.asks_back(loan.ended, phase).unwrap_or((view.now, view.now));
            reclaim(view, &handed, (name, loan), times, draft);
        }
        quotas_follow(name, spec, draft);
    }
    let unknown = view.input.ledger.head.lent.keys().filter(|name| !view.standing.tides.contains_key(*name));
    for name in unknown {
        let wanted = format!("forget {name}, of which nothing can be asked back any more");
        record(draft, name, "returned", LedgerChange::Lent { tide: name.clone(), lent: None }, wanted);
    }
    for (tide, closed) in &view.input.closed {
        let on = Thing::Tide(tide.clone());
        let waiting_on = WaitingOn::Guard { tide: tide.clone(), why: closed.why.clone() };
        draft.held.push(Held {
            what: on,
            wanted: format!("lend what {tide} lends while the tide is low"),
            reason: Reason::Wanted,
            effects: Default::default(),
            disruption: Default::default(),
            waiting_on,
            done_by: None,
        });
    }
}

/// The quotas of whoever lends and borrows go with the nodes that are cut: they are in no step yet, and belong to what
/// this plan brings about.
fn quotas_follow(name: &TideName, spec: &TideSpec, draft: &mut Draft) {
    let is_of_tide = |reason: &Reason| match reason {
        Reason::Lent { tide, .. } | Reason::Returning { tide, .. } => tide == name,
        _ => false,
    };
    let is_cut = |loan: &&LoanSpec| {
        let on = Thing::Pool(loan.pool.clone());
        draft.courses.iter().any(|course| course.on == on && is_of_tide(&course.reason))
    };
    let loans = spec.loans.iter().filter(is_cut);
    let quotas: BTreeSet<String> = loans.flat_map(|loan| [&loan.from, &loan.to]).map(ToString::to_string).collect();
    if !quotas.is_empty() {
        let quotas = quotas.into_iter().collect::<Vec<_>>().join(" and ");
        let text = format!("the quotas of {quotas} follow the nodes that change hands, in the plans after this one");
        draft.note(Thing::Tide(name.clone()), text);
    }
}

/// Whether a guard lets a tide lend, or why not.
pub fn guard_says(guard: &Guard, sample: Option<&Sample>, now: Timestamp) -> Result<(), String> {
    let Some(sample) = sample else { return Err("nobody answers its query".into()) };
    let age = now.duration_since(sample.at);
    if age > guard.stale_after.signed() {
        return Err(format!("its last sample is {} old", secs(u64::try_from(age.as_secs()).unwrap_or(0))));
    }
    if sample.value >= guard.below {
        return Err(format!("it measures {}, and lends below {}", sample.value.0, guard.below.0));
    }
    Ok(())
}

/// Until when a tide that lends goes on although nobody answers for its guard now: one question without an answer calls
/// nothing back. Nothing more is lent meanwhile.
pub fn waited_for(view: &View<'_>, name: &TideName) -> Option<Timestamp> {
    let guard = view.standing.tides.get(name)?.guard.as_ref()?;
    let head = &view.input.ledger.head;
    let is_silent = view.input.observed.guards.get(name).is_none_or(Option::is_none);
    let since = head.silent.get(name).copied().unwrap_or(view.now);
    let until = since.checked_add(guard.stale_after.signed()).ok()?;
    (is_silent && head.lending.contains_key(name) && view.now <= until).then_some(until)
}

/// The pools whose nodes a tide gives back early by an action: to turn it is to change who may use them.
pub fn turned(input: &PlanInput, action: &Action) -> BTreeSet<PoolName> {
    let Action::Record(LedgerChange::Recall { tide, .. }) = action else { return BTreeSet::new() };
    let written = input.target.standing.tides.get(tide);
    let lent = input.ledger.head.lent.get(tide).map(|lent| &lent.spec);
    let specs = written.into_iter().chain(lent);
    specs.flat_map(|spec| spec.loans.iter().map(|loan| &loan.pool).chain(&spec.resizes)).cloned().collect()
}

/// What has to be remembered about a guard: that lending began, that nobody answers, and that lending has to end before
/// its time.
fn guard(view: &View<'_>, name: &TideName, spec: &TideSpec, phase: Phase, draft: &mut Draft) {
    let Some(guard) = &spec.guard else { return };
    let lending = view.input.ledger.head.lending.contains_key(name);
    let silent = view.input.ledger.head.silent.contains_key(name);
    let sample = view.input.observed.guards.get(name).and_then(Option::as_ref);
    let says = guard_says(guard, sample, view.now);
    let tide = name.clone();
    let waited_for = waited_for(view, name).filter(|_| matches!(phase, Phase::Low { .. }));
    if let Some(until) = waited_for {
        let wanted = format!("an answer for the guard of {name}, which lends");
        let why = "nobody answers its query; by then somebody does, or what it lent is asked back";
        draft.held.push(held(&Thing::Tide(tide.clone()), wanted, Reason::Wanted, WaitingOn::until(until, why)));
    }
    let (verb, change, wanted) = match (phase, says, lending) {
        (Phase::Low { .. }, Err(_), true) if waited_for.is_some() && silent => return,
        (Phase::Low { .. }, Err(_), true) if waited_for.is_some() => {
            let since = Some(view.now);
            ("silent", LedgerChange::Silent { tide, since }, format!("remember that the guard of {name} is silent"))
        }
        (Phase::Low { .. }, Ok(()), true) if silent => {
            ("heard", LedgerChange::Silent { tide, since: None }, format!("remember that the guard of {name} answers"))
        }
        (Phase::Low { .. }, Ok(()), false) => {
            ("lend", LedgerChange::Lending { tide, since: Some(view.now) }, format!("remember that {name} lends"))
        }
        (Phase::Low { .. }, Err(why), true) => {
            comes_back(view, name, spec, &why, draft);
            let recall = Recall::by_guard(view.now, &why);
            ("recall", LedgerChange::Recall { tide, recall }, format!("turn {name} now: {why}"))
        }
        (Phase::High, _, true) => {
            ("lent", LedgerChange::Lending { tide, since: None }, format!("remember that {name} has everything back"))
        }
        _ => return,
    };
    record(draft, name, verb, change, wanted);
}

/// Who will be asked back once a guard has turned a tide: the next plan does it, and this one says whom it disturbs.
fn comes_back(view: &View<'_>, name: &TideName, spec: &TideSpec, why: &str, draft: &mut Draft) {
    let is_lent = |slot: &&SlotView<'_>| match slot.part.map(|part| &part.purpose) {
        Some(Use::Lent { tide, .. }) => tide == name,
        _ => false,
    };
    let nodes: Vec<&NodeName> =
        view.slots().map(|(_, slot)| slot).filter(is_lent).filter_map(|slot| slot.node).map(|(node, _)| node).collect();
    let pods: Vec<&PodSeen> = nodes.iter().flat_map(|node| view.harm.pods_on(node)).copied().collect();
    let on = Thing::Tide(name.clone());
    let due = view.now.checked_add(spec.lead.signed()).unwrap_or(view.now);
    let many = nodes.len();
    let wanted = format!("take back what {name} lent, {many} node{}: {why}", if many == 1 { "" } else { "s" });
    let waits = WaitingOn::Step(step_id("recall", name, 0));
    let reason = Reason::Returning { tide: name.clone(), due };
    draft.held.push(Held { disruption: view.harm.hit(&pods), ..held(&on, wanted, reason, waits) });
}

/// The loans whose work has to go now: all of a tide that asks back, else what an edit ended and what another tide lends
/// on. Once for each borrower of a pool, what is due first before the rest.
fn asked_back<'s>(
    view: &View<'_>,
    handed: &Handed,
    (tide, spec): (&TideName, &'s TideSpec),
    phase: Phase,
) -> Vec<&'s LoanSpec> {
    let is_low = matches!(phase, Phase::Low { .. });
    let is_over = |loan: &&LoanSpec| loan.ended.is_some() || !is_low || is_lent_on(view, handed, (tide, loan));
    let mut loans: Vec<&LoanSpec> = spec.loans.iter().filter(is_over).collect();
    loans.sort_by_key(|loan| (loan.ended.is_none(), loan.ended));
    let mut known = BTreeSet::new();
    loans.retain(|loan| known.insert((&loan.pool, &loan.to)));
    loans
}

/// Whether another tide lends a loan's nodes to somebody else, cut as they are: nobody empties them for a cut.
fn is_lent_on(view: &View<'_>, handed: &Handed, (tide, loan): (&TideName, &LoanSpec)) -> bool {
    let is_open = view.standing.lent_since.contains_key(tide);
    let mut parts = handed.get(&loan.pool).into_iter().flat_map(|pool| &pool.parts);
    is_open
        && parts.any(|part| match &part.purpose {
            Use::Lent { tide: by, to, .. } => by != tide && *to != loan.to && part.layout == loan.layout,
            Use::Returning { .. } | Use::Spare | Use::Own => false,
        })
}

/// What has to be remembered about what a tide lends, so that it is asked back even if its document goes, or lends less;
/// and what follows where that is so.
fn remember(view: &View<'_>, name: &TideName, spec: &TideSpec, phase: Phase, handed: &Handed, draft: &mut Draft) {
    let known = view.input.ledger.head.lent.get(name);
    let is_out = is_out(view, handed, name, spec);
    let is_open = |loan: &&LoanSpec| loan.ended.is_none() || is_ended_out(view, handed, name, loan);
    let spec = TideSpec { loans: spec.loans.iter().filter(is_open).cloned().collect(), ..spec.clone() };
    let (is_gone, is_cut_short) = (view.input.gone.contains(name), view.input.cut_short.contains(name));
    let is_turned = is_gone || is_cut_short;
    if is_turned && is_out && view.input.only_node.is_none() {
        say_turned(name, &spec, phase, is_gone, draft);
    }
    let low_until = match phase {
        Phase::Low { .. } => spec.asks_back(None, phase).map(|(_, due)| due),
        _ => known.and_then(|known| known.until),
    };
    let (verb, lent, wanted) = match (known, phase) {
        (Some(known), _) if is_turned && is_out && known.gone.is_none() => {
            let lent = Lent { gone: Some(view.now), ..known.clone() };
            let why = if is_gone { "whose document is gone" } else { "which is low no more" };
            ("turn", Some(lent), format!("turn {name}, {why}"))
        }
        (Some(_), _) if !is_out && (is_turned || phase == Phase::High) => {
            ("returned", None, format!("remember that all that {name} lent is back"))
        }
        (known, Phase::Low { .. }) if !spec.loans.is_empty() && known.is_none_or(|known| known.gone.is_some()) => {
            let lent = Lent { since: view.now, spec, until: low_until, gone: None };
            ("lends", Some(lent), format!("remember what {name} lends"))
        }
        (Some(known), _) if !is_turned && (known.spec.loans != spec.loans || known.until != low_until) => {
            let lent = Lent { spec, until: low_until, ..known.clone() };
            ("edit", Some(lent), format!("remember what {name} lends since it was edited"))
        }
        _ => return,
    };
    record(draft, name, verb, LedgerChange::Lent { tide: name.clone(), lent }, wanted);
}

/// What becomes of what a tide lent whose document is gone, or is low no more before its time.
fn say_turned(name: &TideName, spec: &TideSpec, phase: Phase, is_gone: bool, draft: &mut Draft) {
    let pools: BTreeSet<String> = spec.loans.iter().map(|loan| format!("pool/{}", loan.pool)).collect();
    let pools = pools.into_iter().collect::<Vec<String>>().join(", ");
    let until = match phase {
        Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => format!(" until {due}"),
        Phase::Low { .. } | Phase::High => String::new(),
    };
    let asks = format!("what it lent of {pools} is asked back{until}, quotas rise as nodes come back");
    match is_gone {
        true => {
            let stays = format!("{asks}, and then it is forgotten");
            draft.released.push(Released { what: format!("tide/{name}"), stays });
        }
        false => draft.note(Thing::Tide(name.clone()), format!("{name} is low no more, before its time: {asks}")),
    }
}

/// Whether something of what an edit ended is not back yet.
fn is_ended_out(view: &View<'_>, handed: &Handed, name: &TideName, loan: &LoanSpec) -> bool {
    let parts = handed.get(&loan.pool).into_iter().flat_map(|pool| &pool.parts);
    let is_its = |purpose: &Use| match purpose {
        Use::Returning { tide, from, to, .. } => tide == name && *from == loan.from && *to == loan.to,
        _ => false,
    };
    let mut away = parts.filter(|part| part.layout == loan.layout);
    away.any(|part| is_its(&part.purpose)) || is_leaving(view, loan) || is_borrowed(view, handed, (name, loan))
}

/// Whether a node that is still cut for a loan goes as its pool becomes smaller: it comes back to nobody.
fn is_leaving(view: &View<'_>, loan: &LoanSpec) -> bool {
    let Some(pool) = view.pools.get(&loan.pool).filter(|pool| pool.spec.layout != loan.layout) else { return false };
    let mut goes = pool.slots.iter().filter(|slot| slot.part.is_none()).filter_map(|slot| slot.node);
    goes.any(|(_, node)| !is_starting(node) && layout::current(view, pool, node) == Some(&loan.layout))
}

fn is_borrowed(view: &View<'_>, handed: &Handed, (tide, loan): (&TideName, &LoanSpec)) -> bool {
    borrowed(view, handed, (tide, loan)).is_some_and(|(running, over)| {
        over.values().any(|amount| *amount > 0) || running.iter().any(|(_, one)| smaller::holds_places(one))
    })
}

/// Whether something that a tide lent is not back yet.
pub fn is_out(view: &View<'_>, handed: &Handed, name: &TideName, spec: &TideSpec) -> bool {
    let of_tide = |pool: &PoolName, purpose: &Use| match purpose {
        Use::Lent { tide, .. } | Use::Returning { tide, .. } => {
            tide == name && view.standing.keeper(pool, purpose).is_none()
        }
        Use::Spare | Use::Own => false,
    };
    let parts = handed.iter().flat_map(|(pool, target)| target.parts.iter().map(move |part| (pool, part)));
    parts.into_iter().any(|(pool, part)| of_tide(pool, &part.purpose))
        || spec.loans.iter().any(|loan| is_leaving(view, loan) || is_borrowed(view, handed, (name, loan)))
}

fn record(draft: &mut Draft, name: &TideName, verb: &str, change: LedgerChange, wanted: String) {
    let on = Thing::Tide(name.clone());
    let mut made = Steps::new(purpose(&on, &Reason::Bookkeeping, Pressure::default()));
    made.push(step_id(verb, name, 0), Action::Record(change), vec![], (1, 2));
    let (nodes, reason) = (Vec::new(), Reason::Bookkeeping);
    draft.courses.push(Course { on, nodes, wanted, reason, has_deadline: false, steps: made.steps });
}

/// Suspends what a borrower holds beyond its own share of a pool whose cut does not change, or of which an edit lends it
/// less.
fn reclaim(
    view: &View<'_>,
    handed: &Handed,
    (tide, loan): (&TideName, &LoanSpec),
    (hard_at, due): (Timestamp, Timestamp),
    draft: &mut Draft,
) {
    let Some((mut running, mut over)) = borrowed(view, handed, (tide, loan)) else { return };
    if is_on(Mistake::QuotaThoughtReclaimed) {
        return;
    }
    let emptied = emptied(view, handed, loan);
    // What is told to go already gives back what it holds, and so will what is on a node that is cut back.
    running.retain(|(uid, workload)| {
        let goes_with_its_node = || view.harm.workload_nodes(uid, workload).iter().any(|node| emptied.contains(node));
        let leaves = !workload.active || workload.evicted || goes_with_its_node();
        if leaves {
            give_back(&mut over, workload);
        }
        !leaves
    });
    running.sort_by_cached_key(|(uid, workload)| (view.harm.hit_workload(uid).gpu_secs, workload.name.clone()));
    let on = Thing::Tide(tide.clone());
    let reason = Reason::Returning { tide: tide.clone(), due };
    // When the time is up nobody is asked to go on with less: whoever holds too much leaves.
    let may_shrink = view.now < hard_at;
    for (uid, workload, gives) in givers(running, &mut over, may_shrink) {
        let pressure = Pressure { moves_work: true, hard_at: Some(hard_at), ..Pressure::default() };
        let wanted = format!("take back what {} borrowed of {} for {}", loan.to, loan.pool, workload.name);
        let mut made = Steps::new(purpose(&on, &reason, pressure));
        let is_placed = !workload.nodes.is_empty();
        let mut young = view.harm.tier_of(workload).and_then(|(_, tier)| {
            workload.reserved?.checked_add(tier.minimum_runtime.signed()).ok().map(|until| until.min(hard_at))
        });
        if let Gives::Pods { keeps } = gives {
            if keeps < workload.pods {
                smaller::shrink(&mut made, uid, workload, keeps);
            }
            // What is left of it runs on, so nothing that it was promised is taken from it.
            young = young.filter(|_| is_placed);
        }
        if gives == Gives::All || is_placed {
            suspend(view, &mut made, uid, workload, &[], false);
        }
        let course = Course {
            on: on.clone(),
            nodes: view.harm.workload_nodes(uid, workload).into_iter().cloned().collect(),
            wanted,
            reason: reason.clone(),
            // Under a freeze a tide holds its phase.
            has_deadline: false,
            steps: made.steps,
        };
        match young.filter(|until| *until > view.now) {
            Some(until) => {
                let asked_at = asked_at(view, workload, pressure);
                if asked_at.is_some_and(|at| at <= view.now) {
                    let mut asked = Steps::new(purpose(&on, &reason, pressure));
                    ask(view, &mut asked, uid, workload, &[]);
                    draft.courses.push(Course { steps: asked.steps, ..course.clone() });
                }
                let promise = WaitingOn::until(until, "its tier promises it a minimum runtime");
                draft.held.push(course.held(asked_at.filter(|at| *at > view.now).map_or(promise, asked_later)));
            }
            None => draft.courses.push(course),
        }
    }
}

/// What a workload gives back of what it borrowed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Gives {
    /// It goes on with these pods. Where Kueue gave it places it goes through its queue once, because it holds them for
    /// the pods that are gone until then.
    Pods {
        keeps: u32,
    },
    All,
}

/// Who gives what, of work that is sorted by what it costs: first those that may be smaller as much as they can, then
/// gangs as a whole, and those that were made smaller as a whole only where that is not enough.
fn givers<'a>(
    running: Running<'a>,
    over: &mut BTreeMap<ResourceName, i64>,
    may_shrink: bool,
) -> Vec<(&'a WorkloadUid, &'a WorkloadSeen, Gives)> {
    let (mut smaller, mut gangs) = (Vec::new(), Vec::new());
    for (uid, workload) in running {
        match smaller::keeps(workload, over).filter(|_| may_shrink) {
            Some(keeps) => {
                give_back_pods(over, workload, workload.pods - keeps);
                smaller.push((uid, workload, Gives::Pods { keeps }));
            }
            None if smaller::holds_places(workload) => {
                smaller.push((uid, workload, Gives::Pods { keeps: workload.pods }));
            }
            None => gangs.push((uid, workload, Gives::All)),
        }
    }
    gangs.retain(|(_, workload, _)| {
        let goes = over.values().any(|left| *left > 0);
        if goes {
            give_back(over, workload);
        }
        goes
    });
    for (_, workload, gives) in &mut smaller {
        if over.values().any(|left| *left > 0)
            && let Gives::Pods { keeps } = *gives
        {
            give_back_pods(over, workload, keeps);
            *gives = Gives::All;
        }
    }
    smaller.append(&mut gangs);
    smaller
}

/// The nodes of a loan's pool that are still cut for it, and are asked back.
fn emptied<'a>(view: &View<'a>, handed: &Handed, loan: &LoanSpec) -> BTreeSet<&'a NodeName> {
    let parts = handed.get(&loan.pool).into_iter().flat_map(|pool| &pool.parts);
    let back = |part: &&Part| matches!(part.purpose, Use::Returning { .. }) && part.layout == loan.layout;
    let own = view.standing.pools.get(&loan.pool).map(|pool| &pool.layout);
    let slots: BTreeSet<u32> = parts
        .filter(|part| back(part) && Some(&part.layout) != own)
        .flat_map(|part| part.first..part.first.saturating_add(part.nodes))
        .collect();
    let all = view.pools.get(&loan.pool).into_iter().flat_map(|pool| &pool.slots);
    all.filter(|slot| slot.place.is_some_and(|place| slots.contains(&place)))
        .filter_map(|slot| slot.node)
        .map(|(name, _)| name)
        .collect()
}

/// What a borrower runs on a pool whose cut did not change, of which an edit lends it less, or that another tide lends on
/// as it is cut, and by how much that is beyond what it may have now.
fn borrowed<'a>(
    view: &View<'a>,
    handed: &Handed,
    (tide, loan): (&TideName, &LoanSpec),
) -> Option<(Running<'a>, BTreeMap<ResourceName, i64>)> {
    let is_asked =
        |pool: &&PoolSpec| pool.layout == loan.layout || loan.ended.is_some() || is_lent_on(view, handed, (tide, loan));
    let pool = view.standing.pools.get(&loan.pool).filter(is_asked)?;
    let holds = |workload: &WorkloadSeen| {
        workload.queue.as_str() == loan.queue
            && workload.reserved.is_some()
            && workload.flavors.values().any(|flavor| objects::pool_of(view.input, flavor).as_ref() == Some(&loan.pool))
    };
    let workloads = view.input.observed.cluster.workloads.seen();
    let running: Running<'a> = workloads.iter().filter(|(_, one)| holds(one)).collect();
    let over = excess(view, handed, loan, &running, pool);
    Some((running, over))
}

/// What a borrower holds of a pool beyond its share and what is lent to it now, by resource.
fn excess(
    view: &View<'_>,
    handed: &Handed,
    loan: &LoanSpec,
    running: &[(&WorkloadUid, &WorkloadSeen)],
    pool: &PoolSpec,
) -> BTreeMap<ResourceName, i64> {
    let mut held: BTreeMap<ResourceName, i64> = BTreeMap::new();
    for (resource, amount) in running.iter().flat_map(|(_, workload)| &workload.requests) {
        if is_gpu(resource) {
            *held.entry(resource.clone()).or_insert(0) += amount;
        }
    }
    let parts = handed.get(&loan.pool).into_iter().flat_map(|pool| &pool.parts);
    for part in parts.filter(|part| matches!(&part.purpose, Use::Lent { to, .. } if *to == loan.to)) {
        let supply = view.standing.per_node(pool, &part.layout).times(part.nodes);
        for (resource, count) in holds::counted(view.standing, pool, &part.layout, &supply) {
            *held.entry(resource).or_insert(0) -= i64::try_from(count).unwrap_or(i64::MAX);
        }
    }
    let share = view.input.target.quotas.get(&loan.to).and_then(|quota| quota.shares.get(&loan.pool));
    let amounts = share.into_iter().flat_map(|share| [Some(&share.guarantee), share.borrow.as_ref()]).flatten();
    let each = view.standing.per_node(pool, &pool.layout);
    for supply in amounts.map(|amount| amount.supply(&each)) {
        for (resource, count) in holds::counted(view.standing, pool, &pool.layout, &supply) {
            *held.entry(resource).or_insert(0) -= i64::try_from(count).unwrap_or(i64::MAX);
        }
    }
    held
}

fn give_back(over: &mut BTreeMap<ResourceName, i64>, workload: &WorkloadSeen) {
    for (resource, amount) in &workload.requests {
        if let Some(left) = over.get_mut(resource) {
            *left -= amount;
        }
    }
}

fn give_back_pods(over: &mut BTreeMap<ResourceName, i64>, workload: &WorkloadSeen, pods: u32) {
    for (resource, each) in &workload.per_pod {
        if let Some(left) = over.get_mut(resource) {
            *left -= each * i64::from(pods);
        }
    }
}

/// Also shared ones, and slices.
fn is_gpu(resource: &ResourceName) -> bool {
    ["nvidia.com/", "amd.com/gpu", "aws.amazon.com/neuron"].iter().any(|name| resource.as_str().starts_with(name))
}

fn purpose(on: &Thing, reason: &Reason, pressure: Pressure) -> Purpose {
    Purpose { why: "reclaim", on: on.clone(), reason: reason.clone(), consent: Consent::Standing, pressure }
}
