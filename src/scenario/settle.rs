//! Law 7, tried on the simulated world: once nothing goes wrong any more, the plan becomes empty within its bound, and
//! then nobody calls anything.
//!
//! **The bound** is work ÷ tightest budget + 6 rounds. *Work* is the number of effects of the plan that touch nodes (a
//! launch, a termination, a cut, a boot, a claim, a release: one each), whether they are steps or wait for their turn;
//! drained pods go with their node, and objects are all written in one round. What turns out only later (a machine that
//! never joins, one that stays sick) is work too, once for each slot and verb: who does the same to a slot again and
//! again goes round in circles. The *tightest budget* is the smallest of what lets only so many nodes go at a time:
//! `maxUnavailable` of the pools with such work, less the nodes that somebody keeps out of service, and
//! `nodesRemovedPerHour` where nodes are taken away. A round is one time that the operator does something. Where all that is left waits, for an instant or for a fact, the clock moves,
//! and that is no round.
//!
//! **What may change meanwhile.** When a tide turns, or capacity begins or ends, the documents ask for something else,
//! and the bound is counted anew from there. A machine that the cloud takes away disturbs the quiet when its time has
//! come, so does a gang that has done its work (what waited for its nodes goes on), and so does a pod beside the queues
//! (quotas follow it). Nothing else is excused.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Wrong;
use super::bench::{Bench, Looked};
use super::print;
use crate::effect::marks::CORDON;
use crate::effect::{Action, EffectKey, Effects, Thing, Verb};
use crate::fleet::tide::Phase;
use crate::ids::{NodeName, PoolName, TideName, Uid};
use crate::observed::WorkloadSeen;
use crate::plan::anew::Unanswered;
use crate::plan::survey::slot_of;
use crate::plan::{Consent, Held, Step, WaitingOn};
use crate::round::recalls;
use crate::status::EventKind;
use crate::units::{Duration, Usd};

/// Rounds that are not for the work itself: to know what became of what was in flight, to write it down, to undo marks.
const SLACK: u32 = 6;
/// Between two rounds of the operator.
const PAUSE: Duration = Duration::secs(10);
/// The longest that an operator does not look while something waits.
const LOOKS_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// What waits for others is looked at again after this: pods come back, gangs end.
const OTHERS_NEED: Duration = Duration::minutes(10);
/// Looks in a row without a round after which the world goes round in circles: two days of waiting for the next hour.
const MOST_LOOKS: u32 = 100;
/// The quiet lasts so many rounds.
const QUIET: u32 = 100;
/// Over a wire each of them takes many calls: one seed of so many has all of them, and the others so many rounds.
const WHOLE_OVER_A_WIRE: u64 = 10;
const QUIET_OVER_A_WIRE: u32 = 8;
/// Between two of them, an operator's pace.
const QUIET_PAUSE: Duration = Duration::secs(30);

/// What the law allows from some moment on.
#[derive(Default)]
struct Law {
    rounds: u32,
    /// Rounds before the last turn of a tide.
    before: u32,
    /// By verb and pool: what plans asked for, and the slots that they named.
    work: BTreeMap<EffectKey, (u32, BTreeSet<String>)>,
    tightest: Option<u32>,
    looks: u32,
    /// When the documents were last looked at.
    since: Timestamp,
    approvals: u32,
    /// A plan wanted something that no approval had seen.
    unasked: bool,
    /// Something was not done, because the approval does not cover it.
    refused: bool,
    /// Whoever ran when something was approved, and where.
    disturbed: BTreeSet<(Uid, NodeName)>,
    /// What was approved last.
    approved: Effects,
    /// What the last round came to, for whoever has to find out why.
    last: Vec<String>,
}

/// Goes round until nothing is left to do and then makes no call, or says what is wrong with that.
pub fn settle(bench: &mut Bench) -> Result<Vec<String>, Wrong> {
    // What the cloud takes away or gives at an instant of its own disturbs the quiet then, once.
    let mut taken = ends(bench);
    let (mut rounds, mut held) = rest(bench)?;
    while let Err(wrong) = stays_quiet(bench) {
        taken = taken.checked_sub(1).ok_or(wrong)?;
        let (more, now) = rest(bench)?;
        (rounds, held) = (rounds + more, now);
    }
    has_everything_back(&bench.look()?)?;
    let mut lines = vec![format!("settled after {rounds} rounds")];
    lines.extend(print::held(&held));
    Ok(lines)
}

/// Goes round until nothing is left to do: after how many rounds, and what waits for somebody else.
pub fn rest(bench: &mut Bench) -> Result<(u32, Vec<Held>), Wrong> {
    let mut looked = bench.look()?;
    let mut law = Law { since: bench.sim.now(), ..Law::default() };
    law.turns(bench, &looked)?;
    let mut rested = false;
    loop {
        if looked.plan.is_empty() {
            break;
        }
        let waits = looked.plan.steps.iter().all(|step| matches!(step.action, Action::Await(_)));
        if looked.plan.steps.is_empty() && is_end(&looked.plan.held) {
            if rested {
                break;
            }
            rested = true;
            bench.sim.advance(OTHERS_NEED);
        } else if let Some(at) = comes_back(&looked).filter(|_| looked.plan.steps.is_empty()) {
            rested = false;
            law.waits(bench, at, &looked)?;
        } else {
            rested = false;
            law.round(bench, &looked, !waits || looked.plan.steps.is_empty())?;
        }
        looked = bench.look()?;
        law.turns(bench, &looked)?;
    }
    Ok((law.rounds, looked.plan.held.clone()))
}

impl Law {
    fn round(&mut self, bench: &mut Bench, looked: &Looked, counts: bool) -> Result<(), Wrong> {
        if counts && self.rounds >= self.most() {
            return Err(self.broken("it does not settle", looked));
        }
        self.looks(looked)?;
        let round = bench.round()?;
        self.refused |= round.events.iter().any(|event| matches!(event.kind, EventKind::NotApproved { .. }));
        self.last = print::round(&round);
        bench.sim.advance(PAUSE);
        if counts {
            (self.rounds, self.looks) = (self.rounds + 1, 0);
        }
        Ok(())
    }

    fn looks(&mut self, looked: &Looked) -> Result<(), Wrong> {
        self.looks += 1;
        if self.looks > MOST_LOOKS { Err(self.broken("it waits for ever", looked)) } else { Ok(()) }
    }

    /// The clock moved as what is held says.
    fn waits(&mut self, bench: &mut Bench, at: Timestamp, looked: &Looked) -> Result<(), Wrong> {
        self.looks(looked)?;
        let wait = at.duration_since(bench.sim.now()).min(LOOKS_WITHIN).as_secs();
        bench.sim.advance(Duration::secs(u64::try_from(wait).unwrap_or(0) + 1));
        Ok(())
    }

    /// Where a tide turned the documents ask for something else from now on.
    fn turns(&mut self, bench: &mut Bench, looked: &Looked) -> Result<(), Wrong> {
        let now = bench.sim.now();
        if turns(bench, self.since)? {
            (self.before, self.tightest, self.unasked) = (self.rounds, None, true);
            self.work.clear();
        }
        self.since = now;
        // One approval of all that is asked for, and another one only for what no plan asked for before, for work that
        // came since, or for a price that rose.
        self.unasked |= self.learns(looked);
        let came = work(looked);
        let effects = &looked.plan.effects;
        let is_new = self.unasked || !came.is_subset(&self.disturbed) || is_dearer(effects, &self.approved);
        if asks(looked) && (self.approvals == 0 || (self.refused && is_new)) {
            bench.approve()?;
            self.approvals += 1;
            (self.unasked, self.refused, self.approved) = (false, false, effects.clone());
            self.disturbed.extend(came);
        }
        Ok(())
    }

    /// What a plan wants to do to nodes, and how much of it may be done at a time. Whether any of it is new.
    fn learns(&mut self, looked: &Looked) -> bool {
        let standing = &looked.input.target.standing;
        let (first, mut is_new) = (self.work.is_empty(), false);
        for (key, amount) in &looked.plan.effects.0 {
            let Thing::Pool(pool) = &key.on else { continue };
            let most = match key.verb {
                Verb::Terminate | Verb::Release => standing.limits.nodes_removed_per_hour,
                Verb::Launch | Verb::Cut | Verb::Reboot | Verb::Claim | Verb::Exchange => u32::MAX,
                _ => continue,
            };
            let at_once = standing.pools.get(pool).map_or(1, |pool| pool.updates.max_unavailable);
            let most = at_once.saturating_sub(kept_out(looked, pool)).max(1).min(most);
            self.tightest = Some(self.tightest.map_or(most, |known| known.min(most)));
            let known = self.work.entry(key.clone()).or_default();
            if first {
                known.0 = amount.count;
            }
            let named = looked.plan.steps.iter().filter(|step| step.effects.0.contains_key(key));
            // `launch:train/0@3` is for train/0, whichever time it is.
            let slot = |step: &Step| step.id.as_str().split([':', '@']).nth(1).unwrap_or_default().to_string();
            let before = known.0.max(narrow(known.1.len()));
            known.1.extend(named.map(slot));
            is_new |= narrow(known.1.len()) > before;
        }
        is_new
    }

    /// The bound.
    fn most(&self) -> u32 {
        let work: u32 = self.work.values().map(|(asked, named)| (*asked).max(narrow(named.len()))).sum();
        self.before + work.div_ceil(self.tightest.unwrap_or(1).max(1)) + SLACK
    }

    fn broken(&self, what: &str, looked: &Looked) -> Wrong {
        let lines = print::plan(&looked.plan).join("\n    ");
        let (Self { rounds, approvals, .. }, most) = (self, self.most());
        let last = self.last.join("\n    ");
        let wrong = Wrong::broken(format!("{what}: {rounds} of {most} rounds, {approvals} approvals:\n    {lines}"));
        wrong.hint(format!("the last round:\n    {last}"))
    }
}

/// While the tide is high, and nothing waits, nobody runs on what was lent in the same cut. Where a borrower has a share
/// of its own in that pool, nobody can tell whose it runs on.
fn has_everything_back(looked: &Looked) -> Result<(), Wrong> {
    let (target, standing) = (&looked.input.target, &looked.input.target.standing);
    let is_high = |tide: &TideName| matches!(target.tides.get(tide), None | Some(Phase::High));
    if !looked.plan.held.is_empty() {
        return Ok(());
    }
    let high = standing.tides.iter().filter(|(tide, _)| is_high(tide));
    for (tide, loan) in high.flat_map(|(tide, spec)| spec.loans.iter().map(move |loan| (tide, loan))) {
        let same_cut = standing.pools.get(&loan.pool).is_some_and(|pool| pool.layout == loan.layout);
        let Some(quota) = standing.quotas.get(&loan.to).filter(|_| same_cut) else { continue };
        let shares = target.quotas.get(&loan.to).map(|quota| &quota.shares);
        if shares.is_some_and(|shares| shares.contains_key(&loan.pool)) {
            continue;
        }
        let holds = |workload: &&WorkloadSeen| {
            let on_it = || workload.flavors.values().any(|flavor| flavor.as_str() == loan.pool.as_str());
            workload.queue.as_str() == quota.cluster_queue && workload.reserved.is_some() && on_it()
        };
        if let Some(found) = looked.input.observed.cluster.workloads.seen().values().find(holds) {
            return Err(Wrong::broken(format!("{} still runs on what {tide} lent of pool/{}", found.name, loan.pool)));
        }
    }
    Ok(())
}

/// How often the world will disturb by itself: machines with a notice, Capacity Blocks, which begin and end, and gangs
/// that will have done their work.
fn ends(bench: &Bench) -> u32 {
    let state = bench.sim.state();
    let ours = state.cloud.instances.values().filter(|found| found.tag.is_some() && found.state.serves());
    let notices = ours.filter(|found| found.notice.is_some()).count();
    let blocks = state.cloud.reservations.values().filter(|found| found.block.is_some()).count();
    // A pod beside the queues takes what they may give away: each may come or go once.
    let outside = state.cluster.observe(state.now).pods.seen().iter().filter(|pod| pod.workload.is_none()).count();
    narrow(notices + 2 * blocks + state.cluster.working() + outside)
}

/// How many nodes of a pool somebody keeps out of service.
fn kept_out(looked: &Looked, pool: &PoolName) -> u32 {
    let head = &looked.input.ledger.head;
    let kept = looked.input.observed.cluster.nodes.seen().iter().filter(|(name, node)| {
        let is_closed = node.unschedulable && node.annotation(CORDON).is_none();
        let is_kept = head.quarantined.contains_key(*name) || head.drains.contains_key(*name);
        is_kept || is_closed || Unanswered::of(&looked.input, name, node).is_some()
    });
    narrow(kept.filter(|(name, _)| slot_of(&looked.input, name).is_some_and(|slot| slot.pool == *pool)).count())
}

/// Work that runs, and where: a gang whose machine died comes back on another.
fn work(looked: &Looked) -> BTreeSet<(Uid, NodeName)> {
    let pods = looked.input.observed.cluster.pods.seen().iter().filter(|pod| pod.counts());
    pods.filter_map(|pod| Some((pod.owner.clone()?, pod.node.clone()?))).collect()
}

/// Whether it costs more than what was approved: spot prices move, and of a node that cannot be had nobody says one.
fn is_dearer(effects: &Effects, approved: &Effects) -> bool {
    let before = |key: &EffectKey| approved.0.get(key).map_or(Usd::default(), |amount| amount.usd_hour);
    effects.0.iter().any(|(key, amount)| amount.usd_hour > before(key))
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn asks(looked: &Looked) -> bool {
    looked.plan.steps.iter().any(|step| step.consent == Consent::Asked)
        || looked.plan.held.iter().any(|held| !held.effects.is_empty() && held.waiting_on.is_part_of_it())
}

/// Whether what is held may wait for ever without anybody being wrong: for a person, for work that nobody may touch, or
/// for money and machines that the documents do not grant. A budget is used up for ever only by something that itself
/// waits like that. A snapshot that lost too much is no end: somebody has to say `lost`.
fn is_end(held: &[Held]) -> bool {
    let may_wait = |held: &Held| match &held.waiting_on {
        WaitingOn::Person(_)
        | WaitingOn::Gang { .. }
        | WaitingOn::DisruptionBudget(_)
        | WaitingOn::Guard { .. }
        | WaitingOn::Limit { .. }
        | WaitingOn::Frozen(_)
        | WaitingOn::HandsOff(_)
        | WaitingOn::OtherOwner { .. } => true,
        WaitingOn::Capacity { retry, .. } => retry.is_none(),
        // A machine that the documents let nobody buy, a breaker that a person has to look at, and nodes that one keeps out.
        WaitingOn::Budget { name, remedy, .. } => {
            remedy.is_some() || name.contains("nodes for pool/") || name.contains("health limit")
        }
        _ => false,
    };
    let ends = held.iter().filter(|held| may_wait(held)).count();
    let budgets = held.iter().filter(|held| !may_wait(held) && matches!(held.waiting_on, WaitingOn::Budget { .. }));
    ends > 0 && ends + budgets.count() == held.len()
}

/// The first instant at which something that is held can be tried again.
fn comes_back(looked: &Looked) -> Option<Timestamp> {
    let instants = looked.plan.held.iter().filter_map(|held| match &held.waiting_on {
        WaitingOn::Until { at, .. } | WaitingOn::Canary { until: at, .. } => Some(*at),
        WaitingOn::Capacity { retry, .. } => *retry,
        _ => None,
    });
    instants.min().filter(|at| *at > looked.input.now)
}

/// Whether the documents ask for something else than they did then: by the clock, or because somebody recalled a tide.
fn turns(bench: &Bench, since: Timestamp) -> Result<bool, Wrong> {
    let recalls = recalls(&bench.sim.state().ledger.whole().0);
    Ok(!bench.fleet()?.transitions_with(since, bench.sim.now(), &recalls).is_empty())
}

/// Rounds in which no call changes or tries to change anything; over when a tide turns.
pub fn stays_quiet(bench: &mut Bench) -> Result<(), Wrong> {
    let (before, seed) = (bench.sim.state().calls.total, bench.sim.state().seed);
    let is_short = bench.is_wired() && !seed.is_multiple_of(WHOLE_OVER_A_WIRE);
    let rounds = if is_short { QUIET_OVER_A_WIRE } else { QUIET };
    for round in 1..=rounds {
        let since = bench.sim.now();
        bench.round()?;
        let calls = bench.sim.state().calls.clone();
        if let Some(call) = calls.log.back().filter(|_| calls.total > before) {
            let what = format!("{} {}: {}", call.verb, call.what, call.answer);
            return Err(Wrong::broken(format!("in quiet round {round} somebody called {what}")));
        }
        bench.sim.advance(QUIET_PAUSE);
        if turns(bench, since)? {
            break;
        }
    }
    Ok(())
}
