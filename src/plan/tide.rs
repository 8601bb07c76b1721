//! The tide beside the nodes: its guard, and work on borrowed quota that has to end when the tide turns.
//!
//! Nodes that are cut anew are emptied like all others (`slots`). Where a loan leaves the cut as it is, only quota
//! changes hands, and lowering it evicts nobody: what the borrower still holds beyond its own is asked back here, the
//! cheapest work first.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::draft::{Course, Draft};
use super::drain::{Pressure, Purpose, Steps, step_id, suspend};
use super::types::*;
use super::view::View;
use crate::effect::{Action, LedgerChange, Lent, Recall, Thing};
use crate::fleet::quota::Amount;
use crate::fleet::standing::{LoanSpec, TideSpec};
use crate::fleet::target::{PoolTarget, Purpose as Use};
use crate::fleet::tide::{Guard, Phase};
use crate::ids::{PoolName, ResourceName, TideName, WorkloadUid};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{Sample, WorkloadSeen};

type Running<'a> = Vec<(&'a WorkloadUid, &'a WorkloadSeen)>;

pub fn plan(view: &View<'_>, draft: &mut Draft) {
    let handed = view.input.handed_over();
    for (name, spec) in &view.standing.tides {
        let phase = view.input.target.tides.get(name).copied().unwrap_or(Phase::High);
        guard(view, name, spec, phase, draft);
        remember(view, name, spec, phase, is_out(view, &handed, name, spec), draft);
        if !matches!(phase, Phase::Low { .. }) {
            for loan in &spec.loans {
                reclaim(view, name, loan, phase, draft);
            }
        }
    }
    let unknown = view.input.ledger.head.lent.keys().filter(|name| !view.standing.tides.contains_key(*name));
    for name in unknown {
        let wanted = format!("forget {name}, of which nothing can be asked back any more");
        record(draft, name, "returned", LedgerChange::Lent { tide: name.clone(), lent: None }, wanted);
    }
    for (tide, why) in &view.input.closed {
        let on = Thing::Tide(tide.clone());
        let waiting_on = WaitingOn::Guard { tide: tide.clone(), why: why.clone() };
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

/// What has to be remembered about a guard: that lending began, and that it has to end before its time.
fn guard(view: &View<'_>, name: &TideName, spec: &TideSpec, phase: Phase, draft: &mut Draft) {
    let Some(guard) = &spec.guard else { return };
    let lending = view.input.ledger.head.lending.contains_key(name);
    let sample = view.input.observed.guards.get(name).and_then(Option::as_ref);
    let says = guard_says(guard, sample, view.now);
    let tide = name.clone();
    let (verb, change, wanted) = match (phase, says, lending) {
        (Phase::Low { .. }, Ok(()), false) => {
            ("lend", LedgerChange::Lending { tide, since: Some(view.now) }, format!("remember that {name} lends"))
        }
        (Phase::Low { .. }, Err(why), true) => {
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

/// What has to be remembered about what a tide lends, so that it is asked back even if its document goes; and what
/// follows where that is so.
fn remember(view: &View<'_>, name: &TideName, spec: &TideSpec, phase: Phase, is_out: bool, draft: &mut Draft) {
    let known = view.input.ledger.head.lent.get(name);
    let is_gone = view.input.gone.contains(name);
    if is_gone && is_out && view.input.only_node.is_none() {
        let pools: BTreeSet<String> = spec.loans.iter().map(|loan| format!("pool/{}", loan.pool)).collect();
        let pools: Vec<String> = pools.into_iter().collect();
        let until = match phase {
            Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => format!(" until {due}"),
            Phase::Low { .. } | Phase::High => String::new(),
        };
        let stays = format!(
            "what it lent of {} is asked back{until}, quotas rise as nodes come back, and then it is forgotten",
            pools.join(", ")
        );
        draft.released.push(Released { what: format!("tide/{name}"), stays });
    }
    let (verb, lent, wanted) = match (known, phase) {
        (Some(known), _) if is_gone && is_out && known.gone.is_none() => {
            let lent = Lent { gone: Some(view.now), ..known.clone() };
            ("turn", Some(lent), format!("turn {name}, whose document is gone"))
        }
        (Some(_), _) if !is_out && (is_gone || phase == Phase::High) => {
            ("returned", None, format!("remember that all that {name} lent is back"))
        }
        (known, Phase::Low { .. }) if !spec.loans.is_empty() && known.is_none_or(|known| known.gone.is_some()) => {
            let lent = Lent { since: view.now, spec: spec.clone(), gone: None };
            ("lends", Some(lent), format!("remember what {name} lends"))
        }
        _ => return,
    };
    record(draft, name, verb, LedgerChange::Lent { tide: name.clone(), lent }, wanted);
}

/// Whether something that a tide lent is not back yet.
fn is_out(view: &View<'_>, handed: &BTreeMap<PoolName, PoolTarget>, name: &TideName, spec: &TideSpec) -> bool {
    let of_tide = |pool: &PoolName, purpose: &Use| match purpose {
        Use::Lent { tide, .. } | Use::Returning { tide, .. } => {
            tide == name && view.standing.keeper(pool, purpose).is_none()
        }
        Use::Spare | Use::Own => false,
    };
    let parts = handed.iter().flat_map(|(pool, target)| target.parts.iter().map(move |part| (pool, part)));
    let borrowed =
        |loan: &LoanSpec| borrowed(view, loan).is_some_and(|(_, over)| over.values().any(|amount| *amount > 0));
    parts.into_iter().any(|(pool, part)| of_tide(pool, &part.purpose)) || spec.loans.iter().any(borrowed)
}

fn record(draft: &mut Draft, name: &TideName, verb: &str, change: LedgerChange, wanted: String) {
    let on = Thing::Tide(name.clone());
    let mut made = Steps::new(purpose(&on, &Reason::Bookkeeping, Pressure::default()));
    made.push(step_id(verb, name, 0), Action::Record(change), vec![], (1, 2));
    let (nodes, reason) = (Vec::new(), Reason::Bookkeeping);
    draft.courses.push(Course { on, nodes, wanted, reason, has_deadline: false, steps: made.steps });
}

/// Suspends what a borrower holds beyond its own share of a pool whose cut did not change.
fn reclaim(view: &View<'_>, tide: &TideName, loan: &LoanSpec, phase: Phase, draft: &mut Draft) {
    let Some((mut running, mut over)) = borrowed(view, loan) else { return };
    if is_on(Mistake::QuotaThoughtReclaimed) {
        return;
    }
    let hard_at = match phase {
        Phase::Reclaiming { hard_at, .. } => hard_at,
        _ => view.now,
    };
    let due = match phase {
        Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => due,
        _ => view.now,
    };
    // What is told to go already gives back what it holds.
    running.retain(|(_, workload)| {
        let leaves = !workload.active || workload.evicted;
        if leaves {
            give_back(&mut over, workload);
        }
        !leaves
    });
    running.sort_by_cached_key(|(uid, workload)| (view.harm.hit_workload(uid).gpu_secs, workload.name.clone()));
    let on = Thing::Tide(tide.clone());
    let reason = Reason::Returning { tide: tide.clone(), due };
    for (uid, workload) in running {
        if over.values().all(|left| *left <= 0) {
            break;
        }
        let pressure = Pressure { moves_work: true, hard_at: Some(hard_at), ..Pressure::default() };
        let wanted = format!("take back what {} borrowed of {} for {}", loan.to, loan.pool, workload.name);
        let mut made = Steps::new(purpose(&on, &reason, pressure));
        let young = view.harm.tier_of(workload).and_then(|(_, tier)| {
            workload.reserved?.checked_add(tier.minimum_runtime.signed()).ok().map(|until| until.min(hard_at))
        });
        suspend(view, &mut made, uid, workload, &[]);
        give_back(&mut over, workload);
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
                let why = "its tier promises it a minimum runtime";
                draft.held.push(course.held(WaitingOn::until(until, why)));
            }
            None => draft.courses.push(course),
        }
    }
}

/// What a borrower runs on a pool whose cut did not change, and by how much that is beyond what it may have by day.
fn borrowed<'a>(view: &View<'a>, loan: &LoanSpec) -> Option<(Running<'a>, BTreeMap<ResourceName, i64>)> {
    let pool = view.standing.pools.get(&loan.pool).filter(|pool| pool.layout == loan.layout)?;
    let quota = view.standing.quotas.get(&loan.to)?;
    let holds = |workload: &WorkloadSeen| {
        workload.queue.as_str() == quota.cluster_queue
            && workload.reserved.is_some()
            && workload.flavors.values().any(|flavor| flavor.as_str() == loan.pool.as_str())
    };
    let workloads = view.input.observed.cluster.workloads.seen();
    let running: Running<'a> = workloads.iter().filter(|(_, one)| holds(one)).collect();
    let over = excess(view, loan, &running, pool.shape.gpus);
    Some((running, over))
}

/// What a borrower holds of a pool beyond what it may have by day, by resource.
fn excess(
    view: &View<'_>,
    loan: &LoanSpec,
    running: &[(&WorkloadUid, &WorkloadSeen)],
    gpus: u32,
) -> BTreeMap<ResourceName, i64> {
    let mut held: BTreeMap<ResourceName, i64> = BTreeMap::new();
    for (resource, amount) in running.iter().flat_map(|(_, workload)| &workload.requests) {
        if is_gpu(resource) {
            *held.entry(resource.clone()).or_insert(0) += amount;
        }
    }
    let share = view.input.target.quotas.get(&loan.to).and_then(|quota| quota.shares.get(&loan.pool));
    let amounts = share.into_iter().flat_map(|share| [Some(&share.guarantee), share.borrow.as_ref()]).flatten();
    for amount in amounts {
        for (resource, count) in resources(amount, gpus) {
            *held.entry(resource).or_insert(0) -= count;
        }
    }
    held
}

fn resources(amount: &Amount, gpus: u32) -> Vec<(ResourceName, i64)> {
    let gpu = || ResourceName::from("nvidia.com/gpu");
    match amount {
        Amount::Gpus(count) => vec![(gpu(), i64::from(*count))],
        Amount::Nodes(count) => vec![(gpu(), i64::from(*count) * i64::from(gpus))],
        Amount::Slices(slices) => {
            let of = |(profile, count): (&crate::ids::MigProfile, &u32)| {
                let name = format!("nvidia.com/mig-{}", profile.as_str().replace('+', "."));
                (ResourceName::from(name), i64::from(*count))
            };
            slices.iter().map(of).collect()
        }
    }
}

fn give_back(over: &mut BTreeMap<ResourceName, i64>, workload: &WorkloadSeen) {
    for (resource, amount) in &workload.requests {
        if let Some(left) = over.get_mut(resource) {
            *left -= amount;
        }
    }
}

fn is_gpu(resource: &ResourceName) -> bool {
    resource.as_str() == "nvidia.com/gpu" || resource.as_str().starts_with("nvidia.com/mig-")
}

fn purpose(on: &Thing, reason: &Reason, pressure: Pressure) -> Purpose {
    Purpose { why: "reclaim", on: on.clone(), reason: reason.clone(), consent: Consent::Standing, pressure }
}
