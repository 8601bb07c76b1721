//! The loop: what is ready is begun, what waits is looked at together, and there is one sleep for all.
//!
//! Everything in flight is polled in the order of the plan, in this one task. Nothing sleeps but the loop, and only
//! when nothing is in flight: on a clock that moves by sleeping, no time passes while something is being done.
//!
//! Work is sent away only when every node that leaves by this plan is closed, whichever course it is of: else it would
//! come up on one of the others, and be sent away again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::lock::Mutex;
use jiff::{SignedDuration, Timestamp};

use super::turn::{Memory, Turn, turn};
use super::{ApplyError, Patience, Report, StopSignal};
use super::{gate, spend};
use crate::effect::{Action, ClusterAction, Fact, Intent, Part, SETTLE, Subject, Verdict};
use crate::ids::{Digest, FleetUid, StepId};
use crate::observed::Observed;
use crate::plan::{Plan, PlanInput, Step};
use crate::provider::World;
use crate::status::{Event, EventKind};

/// A node that cannot be closed keeps the work on others so long, and no longer.
const CLOSED_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// What every step shares.
pub(super) struct Walk<'a> {
    pub plan: &'a Plan,
    pub input: &'a PlanInput,
    pub approval: Option<&'a Digest>,
    pub world: World<'a>,
    pub patience: &'a Patience<'a>,
    /// Whose ledger it is.
    pub fleet: FleetUid,
    pub locks: RefCell<BTreeMap<Part, Rc<Mutex<()>>>>,
    /// Steps that something prepares before they are done.
    pub prepared: BTreeSet<StepId>,
    /// Those for which that was begun by this run: their part of the approval is nobody else's.
    pub promised: RefCell<BTreeSet<StepId>>,
    /// Steps that have taken their part of the approval, or will not.
    pub settled: RefCell<BTreeSet<StepId>>,
    tell: RefCell<&'a mut dyn FnMut(Event)>,
    report: RefCell<Report>,
    effects: Cell<u32>,
    records: Cell<u32>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        input: &'a PlanInput,
        approval: Option<&'a Digest>,
        world: World<'a>,
        patience: &'a Patience<'a>,
        fleet: FleetUid,
        tell: &'a mut dyn FnMut(Event),
    ) -> Self {
        Self {
            plan,
            input,
            approval,
            world,
            patience,
            fleet,
            locks: RefCell::default(),
            prepared: spend::prepared(plan),
            promised: RefCell::default(),
            settled: RefCell::default(),
            tell: RefCell::new(tell),
            report: RefCell::default(),
            effects: Cell::new(0),
            records: Cell::new(0),
        }
    }

    pub(super) fn into_report(self) -> Report {
        let mut report = self.report.into_inner();
        (report.effects, report.records) = (self.effects.get(), self.records.get());
        report
    }

    pub(super) fn now_plus(&self, pause: SignedDuration) -> Timestamp {
        later(self.world.clock.now(), pause)
    }

    pub(super) fn intent<T>(&self, request: T) -> Intent<T> {
        Intent { request, plan: self.plan.id.clone(), at: self.world.clock.now() }
    }

    pub(super) fn sent(&self) {
        self.effects.set(self.effects.get() + 1);
    }

    pub(super) fn recorded(&self, written: bool) {
        self.records.set(self.records.get() + u32::from(written));
    }

    /// Tells, once, that a step is about to have its effect.
    pub(super) fn start(&self, step: &Step, memory: &mut Memory) {
        if !std::mem::replace(&mut memory.started, true) {
            self.say(&step.id, EventKind::Started);
        }
    }

    fn say(&self, step: &StepId, kind: EventKind) {
        let event = Event { at: self.world.clock.now(), step: step.clone(), kind };
        let mut tell = self.tell.borrow_mut();
        (*tell)(event);
    }

    fn end(&self, step: &StepId, kind: EventKind) {
        self.settled.borrow_mut().insert(step.clone());
        self.report.borrow_mut().count(step, &kind);
        self.say(step, kind);
    }
}

/// Walks the plan until everything has ended, nothing more may be begun, or a person wants it to end now.
pub(super) async fn run(walk: &Walk<'_>) -> Result<(), ApplyError> {
    let mut frontier = Frontier::new(walk)?;
    let stop = walk.patience.stop;
    loop {
        if stop.is_urgent() {
            break;
        }
        if stop.is_asked() || frontier.is_out_of_time() {
            frontier.close();
        } else {
            frontier.begin();
        }
        if frontier.jobs.is_empty() {
            match frontier.nearest() {
                None => break,
                Some(at) => stop.sleep(walk.world.clock, at).await,
            }
        } else if let Some(finished) = next(&mut frontier.jobs, stop).await {
            frontier.settle(finished);
        }
    }
    let left: Vec<StepId> = frontier.left().cloned().collect();
    let mut report = walk.report.borrow_mut();
    report.tally.pending = u32::try_from(left.len()).unwrap_or(u32::MAX);
    (report.left, report.stopped) = (left, stop.is_asked());
    Ok(())
}

/// The first of these that ends; none if a person wants it to end now.
async fn next(jobs: &mut Vec<Job<'_>>, stop: &StopSignal) -> Option<Finished> {
    poll_fn(|cx| {
        stop.listen(cx.waker());
        if stop.is_urgent() {
            return Poll::Ready(None);
        }
        for at in 0..jobs.len() {
            if let Poll::Ready(finished) = jobs[at].work.as_mut().poll(cx) {
                drop(jobs.remove(at));
                return Poll::Ready(Some(finished));
            }
        }
        Poll::Pending
    })
    .await
}

/// Something in flight.
struct Job<'w> {
    /// None for a look at what is waited for.
    step: Option<usize>,
    work: Pin<Box<dyn Future<Output = Finished> + 'w>>,
}

enum Finished {
    Step(usize, Box<Memory>, Turn),
    Look(Vec<usize>, Box<Observed>),
}

/// A step that waits for its fact.
struct Watched {
    since: Timestamp,
    due: Timestamp,
    memory: Memory,
}

/// Where every step is. Steps are named by their place in the plan.
struct Frontier<'w, 'a> {
    walk: &'w Walk<'a>,
    begun: Timestamp,
    /// How many steps each one still has to wait for.
    missing: Vec<usize>,
    dependents: Vec<Vec<usize>>,
    ended: Vec<bool>,
    /// Steps that close nodes, and waits until the scheduler knows of it: nobody is sent away before they are over.
    closing: BTreeSet<usize>,
    ready: BTreeSet<usize>,
    /// Those of the ready that only wait.
    ready_to_wait: BTreeSet<usize>,
    again: BTreeMap<usize, (Timestamp, Memory)>,
    watched: BTreeMap<usize, Watched>,
    jobs: Vec<Job<'w>>,
}

impl<'w, 'a> Frontier<'w, 'a> {
    fn new(walk: &'w Walk<'a>) -> Result<Self, ApplyError> {
        let steps = &walk.plan.steps;
        let mut places: BTreeMap<&StepId, usize> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            if places.insert(&step.id, at).is_some() {
                return Err(ApplyError::Malformed(format!("{} is in it twice", step.id)));
            }
        }
        let mut missing = vec![0; steps.len()];
        let mut dependents = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            for before in step.after.iter().collect::<BTreeSet<_>>() {
                let found = places.get(before);
                let before = *found.ok_or_else(|| {
                    ApplyError::Malformed(format!("{} comes after {before}, which is not in it", step.id))
                })?;
                missing[at] += 1;
                dependents[before].push(at);
            }
        }
        let first: Vec<usize> = (0..steps.len()).filter(|at| missing[*at] == 0).collect();
        let mut frontier = Self {
            walk,
            begun: walk.world.clock.now(),
            missing,
            dependents,
            ended: vec![false; steps.len()],
            closing: closing(steps, &places),
            ready: BTreeSet::new(),
            ready_to_wait: BTreeSet::new(),
            again: BTreeMap::new(),
            watched: BTreeMap::new(),
            jobs: Vec::new(),
        };
        first.into_iter().for_each(|at| frontier.make_ready(at));
        Ok(frontier)
    }

    fn make_ready(&mut self, at: usize) {
        let step = self.step(at);
        let only_waits = matches!(step.action, Action::Await(_)) && step.requires.is_empty();
        if only_waits {
            self.ready_to_wait.insert(at)
        } else {
            self.ready.insert(at)
        };
    }

    fn step(&self, at: usize) -> &'w Step {
        &self.walk.plan.steps[at]
    }

    fn left(&self) -> impl Iterator<Item = &StepId> {
        self.walk.plan.steps.iter().zip(&self.ended).filter(|(_, ended)| !**ended).map(|(step, _)| &step.id)
    }

    fn is_out_of_time(&self) -> bool {
        self.deadline().is_some_and(|at| self.walk.world.clock.now() >= at)
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.walk.patience.total.map(|total| later(self.begun, total.signed()))
    }

    /// Begins what may be begun, in the order of the plan: what comes back first, then what is new.
    fn begin(&mut self) {
        let now = self.walk.world.clock.now();
        let mut free = self.walk.patience.concurrency.max(1);
        free = free.saturating_sub(self.jobs.iter().filter(|job| job.step.is_some()).count());
        let due: Vec<usize> = self.again.iter().filter(|(_, (at, _))| *at <= now).map(|(at, _)| *at).collect();
        for at in due.into_iter().take(free) {
            let (_, memory) = self.again.remove(&at).expect("it was just there");
            self.work(at, memory);
            free -= 1;
        }
        for at in std::mem::take(&mut self.ready_to_wait) {
            // Nothing to call: it takes nobody's place, and is looked at together with the others.
            let mut memory = Memory::default();
            self.walk.start(self.step(at), &mut memory);
            self.watched.insert(at, Watched { since: now, due: now, memory });
        }
        for _ in 0..free {
            let Some(at) = self.next_ready(now) else { break };
            self.ready.remove(&at);
            self.work(at, Memory { since: Some(now), ..Memory::default() });
        }
        self.look(now);
    }

    fn next_ready(&self, now: Timestamp) -> Option<usize> {
        let is_open = self.closed_by().is_some_and(|at| now < at);
        self.ready.iter().copied().find(|at| !is_open || !sends_away(self.step(*at)))
    }

    /// Until when work stays where it is, because some node that leaves is still open.
    fn closed_by(&self) -> Option<Timestamp> {
        (!self.closing.is_empty()).then(|| later(self.begun, CLOSED_WITHIN))
    }

    fn work(&mut self, at: usize, mut memory: Memory) {
        let (walk, step) = (self.walk, self.step(at));
        let work = Box::pin(async move {
            let turn = turn(walk, step, &mut memory).await;
            Finished::Step(at, Box::new(memory), turn)
        });
        self.jobs.push(Job { step: Some(at), work });
        self.jobs.sort_by_key(|job| job.step);
    }

    /// Looks at everything that is due in one go, unless a look is under way.
    fn look(&mut self, now: Timestamp) {
        let due: Vec<usize> =
            self.watched.iter().filter(|(_, watched)| watched.due <= now).map(|(at, _)| *at).collect();
        if due.is_empty() || self.jobs.iter().any(|job| job.step.is_none()) {
            return;
        }
        let subjects: BTreeSet<Subject> = due.iter().flat_map(|at| fact(self.step(*at)).subjects()).collect();
        let world = self.walk.world;
        let work = Box::pin(async move {
            let seen = gate::look(world, &subjects).await;
            Finished::Look(due, Box::new(seen))
        });
        self.jobs.push(Job { step: None, work });
        self.jobs.sort_by_key(|job| job.step);
    }

    /// The next instant at which there is something to do.
    fn nearest(&self) -> Option<Timestamp> {
        let again = self.again.values().map(|(at, _)| *at);
        let closed = self.closed_by().filter(|_| !self.ready.is_empty());
        let next = again.chain(self.watched.values().map(|watched| watched.due)).chain(closed).min()?;
        Some(self.deadline().map_or(next, |deadline| next.min(deadline)))
    }

    fn settle(&mut self, finished: Finished) {
        match finished {
            Finished::Look(which, seen) => self.judge(&which, &seen),
            Finished::Step(at, _, Turn::End(kind)) => self.end(at, kind),
            // Nothing was begun: the step is left for the next plan.
            Finished::Step(_, _, Turn::Stopped) => {}
            Finished::Step(at, memory, Turn::Watch) => {
                let since = self.walk.world.clock.now();
                self.watched.insert(at, Watched { since, due: since, memory: *memory });
            }
            Finished::Step(at, mut memory, Turn::Again { at: when, why }) => {
                let since = memory.since.unwrap_or(self.begun);
                let out_of_patience = when > later(since, self.walk.patience.per_wait.signed());
                self.wait(at, &mut memory, &why, out_of_patience);
                if !out_of_patience {
                    self.again.insert(at, (when, *memory));
                }
            }
        }
    }

    /// What a look says of those that wait.
    fn judge(&mut self, which: &[usize], seen: &Observed) {
        let now = self.walk.world.clock.now();
        for at in which {
            // It may have been closed while the look was under way.
            let Some(mut watched) = self.watched.remove(at) else { continue };
            let fact = fact(self.step(*at));
            match self.not_sooner(*at, &watched, now).unwrap_or_else(|| fact.verdict(seen, now)) {
                Verdict::Holds => self.end(*at, EventKind::Succeeded),
                Verdict::Never(why) => self.end(*at, EventKind::Skipped { fact: Some(fact.clone()), why }),
                Verdict::NotYet(why) | Verdict::Unknown(why) => {
                    let until = later(watched.since, self.walk.patience.per_wait.signed());
                    self.wait(*at, &mut watched.memory, &why, now >= until);
                    if now < until {
                        watched.due = self.next_look(fact, now).min(until);
                        self.watched.insert(*at, watched);
                    }
                }
            }
        }
    }

    /// A cordon that this run made has not settled before its answer is as old as the scheduler may lag: its mark was
    /// dated when it was sent, and it may have been on its way for long.
    fn not_sooner(&self, at: usize, watched: &Watched, now: Timestamp) -> Option<Verdict> {
        let step = self.step(at);
        let Fact::Settled(node) = fact(step) else { return None };
        let is_soon = !step.after.is_empty() && now < later(watched.since, SETTLE);
        is_soon.then(|| Verdict::NotYet(format!("{node} was cordoned less than {}s ago", SETTLE.as_secs())))
    }

    /// All look at the same ticks, so that they share a sleep and a call; only what has an instant of its own is looked
    /// at then too.
    fn next_look(&self, fact: &Fact, now: Timestamp) -> Timestamp {
        let poll = self.walk.patience.poll.signed().max(SignedDuration::from_secs(1));
        let passed = now.duration_since(self.begun).as_millis();
        let ticks = passed.div_euclid(poll.as_millis()) + 1;
        let millis = i64::try_from(ticks.saturating_mul(poll.as_millis())).unwrap_or(i64::MAX);
        let tick = later(self.begun, SignedDuration::from_millis(millis));
        match fact {
            Fact::After(at) | Fact::Saved { hard_at: Some(at), .. } | Fact::PodsSaved { hard_at: Some(at), .. }
                if *at > now =>
            {
                tick.min(*at)
            }
            _ => tick,
        }
    }

    /// Says what a step waits for, where that is new; and that nobody waits for it any more, where that is so.
    fn wait(&mut self, at: usize, memory: &mut Memory, why: &str, is_over: bool) {
        let kind = EventKind::Waiting { why: why.into() };
        if is_over {
            self.end(at, kind);
        } else if memory.said.as_deref() != Some(why) {
            memory.said = Some(why.into());
            self.walk.say(&self.step(at).id, kind);
        }
    }

    /// Nothing more is begun: what waits ends.
    fn close(&mut self) {
        let again = std::mem::take(&mut self.again).into_iter().map(|(at, (_, memory))| (at, memory));
        let watched = std::mem::take(&mut self.watched).into_iter().map(|(at, watched)| (at, watched.memory));
        let all: BTreeMap<usize, Memory> = again.chain(watched).collect();
        for (at, memory) in all {
            let why = memory.said.unwrap_or_else(|| "it was not looked at yet".into());
            self.end(at, EventKind::Waiting { why });
        }
        self.closing.clear();
    }

    /// A step is over. Those after it may begin, or are dropped with all that comes after them.
    fn end(&mut self, at: usize, kind: EventKind) {
        let succeeded = kind == EventKind::Succeeded;
        self.ended[at] = true;
        self.closing.remove(&at);
        self.walk.end(&self.step(at).id, kind);
        if succeeded {
            for next in self.dependents[at].clone() {
                self.missing[next] -= 1;
                if self.missing[next] == 0 && !self.ended[next] {
                    self.make_ready(next);
                }
            }
            return;
        }
        let mut open: BTreeSet<(usize, usize)> = self.dependents[at].iter().map(|next| (*next, at)).collect();
        while let Some((next, after)) = open.pop_first() {
            if !std::mem::replace(&mut self.ended[next], true) {
                self.closing.remove(&next);
                let after_id = self.step(after).id.clone();
                self.walk.end(&self.step(next).id, EventKind::Dropped { after: after_id });
                open.extend(self.dependents[next].iter().map(|further| (*further, next)));
            }
        }
    }
}

/// The steps that close nodes, as far as they can be done at the beginning: one that comes behind something else, but for
/// a record, is not waited for.
fn closing(steps: &[Step], places: &BTreeMap<&StepId, usize>) -> BTreeSet<usize> {
    let mut early = vec![false; steps.len()];
    let mut found = BTreeSet::new();
    for (at, step) in steps.iter().enumerate() {
        let closes = match &step.action {
            Action::Cluster(ClusterAction::Cordon { .. }) | Action::Await(Fact::Settled(_)) => true,
            Action::Record(_) => false,
            _ => continue,
        };
        early[at] = step.after.iter().all(|id| places.get(id).is_some_and(|before| early[*before]));
        found.extend((closes && early[at]).then_some(at));
    }
    found
}

/// Whether work has to leave where it is.
fn sends_away(step: &Step) -> bool {
    matches!(&step.action, Action::Cluster(ClusterAction::Suspend { .. } | ClusterAction::Evict { .. }))
}

fn fact(step: &Step) -> &Fact {
    match &step.action {
        Action::Await(fact) => fact,
        _ => unreachable!("only what waits is watched"),
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}
