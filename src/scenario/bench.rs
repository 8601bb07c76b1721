//! A simulated world with a fleet in it, and an operator that goes round: read, plan, judge, apply.
//!
//! The operator is one task that is polled here until it is done or dead: a call that never returns is a crash, and the
//! task is dropped where it stands. Every change of the world is watched (`invariants`). Used by scripts and by the
//! campaign.

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use jiff::{SignedDuration, Timestamp};

use super::Wrong;
use super::command::{Command, From, Run};
use super::documents::Documents;
use super::events;
use super::invariants::Watch;
use super::names::Names;
use super::print;
use super::settle::settle;
use crate::apply::{ApplyError, Patience, Report, StopSignal, apply, open_approval};
use crate::audit::{Audited, audit};
use crate::fleet::{Fleet, Target};
use crate::ids::{Digest, FleetUid};
use crate::plan::{PlanInput, WaitingOn, plan, templates};
use crate::provider::sim::{Operator, Sim};
use crate::provider::{Cloud, World};
use crate::round::{Options, input};
use crate::status::{Event, EventKind, Status};
use crate::units::Duration;

/// A world, a fleet, and who looks after it.
#[derive(Debug)]
pub struct Bench {
    pub sim: Sim,
    pub documents: Documents,
    pub fleet: Option<Fleet>,
    pub names: Names,
    pub approval: Option<Digest>,
    pub watch: Rc<RefCell<Watch>>,
    /// How many gangs were submitted without a name.
    pub gangs: u32,
    /// Plans are made with `--defragment`.
    pub defragment: bool,
    /// The plan of an operator who is slow.
    kept: Option<Looked>,
    base: PathBuf,
    /// Who the fleet is where the ledger does not say.
    pub uid: FleetUid,
    pub door: Option<Rc<dyn Door>>,
    /// Through the simulator's own traits, whatever door there is.
    direct: bool,
}

/// Another way to the simulated cloud than its own traits: over a wire.
pub trait Door: std::fmt::Debug {
    /// The fleet as it has to be written to be reached this way.
    fn word(&self, document: &str) -> String;
    /// What an account has that nobody here makes.
    fn furnish(&self, sim: &Sim, target: &Target);
    /// The cloud as this one reaches it; `alone`: as a process that remembers nothing, beside another one.
    fn cloud<'a>(&'a self, who: &'a dyn Operator, alone: bool) -> Box<dyn Cloud + 'a>;
    /// Whoever spoke is dead, and whoever comes next knows nothing.
    fn forget(&self);
    /// Whoever comes next is of this fleet.
    fn be(&self, fleet: &FleetUid);
    /// What went wrong on the way, and how often.
    fn struck(&self) -> Vec<(String, u64)>;
}

/// A plan that was judged, with what it was made from.
#[derive(Clone, Debug)]
pub struct Looked {
    pub input: PlanInput,
    pub plan: Audited,
}

/// One round of one operator.
#[derive(Debug)]
pub struct Round {
    /// None where the operator died, or could not read its ledger, before there was a plan.
    pub looked: Option<Looked>,
    pub events: Vec<Event>,
    pub ended: Ended,
    pub from: Timestamp,
    pub to: Timestamp,
}

#[derive(Debug)]
pub enum Ended {
    Done(Report),
    Crashed,
    /// Nothing could be done at all, and why.
    Failed(String),
}

/// How rounds until the end came out.
#[derive(Debug)]
pub struct Converged {
    pub rounds: u32,
    pub crashes: u32,
    pub end: End,
}

#[derive(Debug)]
pub enum End {
    Empty,
    /// Something waits for what does not come by itself.
    Held(Box<Looked>),
    /// There was always something to do.
    Rounds(Box<Looked>),
}

/// Between two rounds of the operator.
const PAUSE: Duration = Duration::secs(10);
/// Between two rounds in which nothing could be done and nobody said when to come back.
const IDLE: Duration = Duration::minutes(1);
/// Rounds in a row without any progress after which whatever waits is said to be held.
const MOST_IDLE: u32 = 6;
/// How often a task is polled before it is called stuck: two operators give way to each other all the time.
const MOST_POLLS: u32 = 1_000_000;

impl Bench {
    pub fn new(at: Timestamp, seed: u64, base: &Path) -> Self {
        let sim = Sim::in_memory(at, seed);
        let watch = Rc::new(RefCell::new(Watch::default()));
        let witness = Rc::clone(&watch);
        sim.watch(Box::new(move |state, deed, moment| witness.borrow_mut().see(state, deed, moment)));
        let (documents, base) = (Documents::default(), base.to_path_buf());
        Self {
            sim,
            documents,
            fleet: None,
            names: Names::default(),
            approval: None,
            watch,
            gangs: 0,
            defragment: false,
            kept: None,
            base,
            uid: "demo-0001".into(),
            door: None,
            direct: false,
        }
    }

    /// The same, with the cloud behind a door.
    pub fn through(self, door: Option<Rc<dyn Door>>) -> Self {
        Self { door, ..self }
    }

    /// Another world at the same instant, with the same documents and nothing in it.
    pub fn anew(&self) -> Result<Self, Wrong> {
        let fresh = Self::new(self.sim.now(), self.sim.state().seed, &self.base);
        // The end does not depend on the way: with a wire in between it is as without.
        let mut fresh = Self { direct: true, ..fresh.through(self.door.clone()) };
        fresh.set_documents(self.documents.clone())?;
        Ok(fresh)
    }

    pub fn change_documents(&mut self, command: &Command) -> Result<Vec<String>, Wrong> {
        let mut documents = self.documents.clone();
        match command {
            Command::Fleet(From::Text(text)) => documents = Documents::new(text),
            Command::Fleet(From::Directory(directory)) => documents = Documents::read(&self.base.join(directory))?,
            Command::Edit(edits) => edits.iter().try_for_each(|(from, to)| documents.edit(from, to))?,
            Command::Delete { kind, name } => documents.remove(*kind, name)?,
            Command::Add(text) => documents.add(text),
            _ => {}
        }
        self.set_documents(documents)?;
        Ok(Vec::new())
    }

    /// Another revision of the documents.
    pub fn set_documents(&mut self, documents: Documents) -> Result<(), Wrong> {
        let fleet = match &self.door {
            Some(door) => documents.reworded(|text| door.word(text)).fleet(self.sim.now())?,
            None => documents.fleet(self.sim.now())?,
        };
        let target = fleet.target_at(self.sim.now());
        self.sim.furnish(&target)?;
        self.door.iter().for_each(|door| door.furnish(&self.sim, &target));
        self.watch.borrow_mut().rules(&target);
        self.names.learn(&fleet);
        (self.documents, self.fleet) = (documents, Some(fleet));
        Ok(())
    }

    pub fn fleet(&self) -> Result<&Fleet, Wrong> {
        self.fleet.as_ref().ok_or_else(|| Wrong::new("there is no fleet yet").hint("write its documents under `fleet`"))
    }

    pub fn run(&mut self, run: &Run) -> Result<Vec<String>, Wrong> {
        match run {
            Run::Advance(by) => {
                self.sim.advance(*by);
                Ok(Vec::new())
            }
            Run::Plan => self.look().map(|looked| print::plan(&looked.plan)),
            Run::Steps => self.look().map(|looked| print::steps(&looked.plan)),
            Run::Apply => self.round().map(|round| print::round(&round)),
            Run::KeepPlan => {
                self.kept = Some(self.look()?);
                Ok(Vec::new())
            }
            Run::ApplyKept => self.apply_kept().map(|round| print::round(&round)),
            Run::TwoOperators { seed, apart } => {
                let rounds = self.two_rounds(*seed, apart.signed())?;
                let one = |(number, round): (usize, &Round)| {
                    let lines = print::round(round);
                    lines.into_iter().map(move |line| format!("{}: {line}", number + 1)).collect::<Vec<_>>()
                };
                Ok(rounds.iter().enumerate().flat_map(one).collect())
            }
            Run::Converge { rounds } => {
                let before = self.sim.now();
                let counts = self.counts();
                let converged = self.converge(*rounds)?;
                let lasted = self.sim.now().duration_since(before);
                Ok(print::converged(&converged, lasted, counts, self.counts()))
            }
            Run::Rounds(rounds) => {
                for _ in 0..*rounds {
                    self.round()?;
                    self.sim.advance(PAUSE);
                }
                Ok(Vec::new())
            }
            Run::Settle => settle(self),
            Run::Faults => Ok(self.struck().iter().map(|(name, count)| format!("{name}: {count}")).collect()),
            Run::Status => {
                let looked = self.look()?;
                let status = Status::of(&looked.input, &looked.plan);
                Ok(crate::render::status::human(&status, ".", false).lines().map(str::to_string).collect())
            }
            Run::Fabric => self.look().map(|looked| crate::render::plan::fabric_lines(&looked.plan)),
            Run::Approve => self.approve(),
            Run::Show => Ok(self.sim.summary(&jiff::tz::TimeZone::UTC).lines().map(str::to_string).collect()),
            Run::Calls => Ok(print::calls(&self.sim.state().calls)),
            Run::Events => Ok(events::of(&self.sim.state().cluster).lines()),
            Run::Health => Ok(print::nodes(&self.sim.state())),
        }
    }

    /// The plan of this moment, judged. Whoever dies of a crash that was ordered is followed by somebody who does the
    /// same.
    pub fn look(&mut self) -> Result<Looked, Wrong> {
        loop {
            let looked = {
                let cloud = self.cloud(&self.sim, false);
                let world = reached(self.sim.world(), cloud.as_deref());
                drive(look(self.fleet()?, &self.uid, world, self.defragment), || self.sim.crashed())
            };
            match looked {
                Some(looked) => return looked?.map_err(Wrong::from),
                None => self.recover(),
            }
        }
    }

    /// One round of the operator.
    pub fn round(&mut self) -> Result<Round, Wrong> {
        let (from, seen, mut events) = (self.sim.now(), RefCell::new(None), Vec::new());
        let ended = {
            let mut tell = |event| events.push(event);
            let cloud = self.cloud(&self.sim, false);
            let world = reached(self.sim.world(), cloud.as_deref());
            let task =
                operate(self.fleet()?, &self.uid, world, self.defragment, self.approval.as_ref(), &seen, &mut tell);
            drive(task, || self.sim.crashed())
        };
        self.ended(from, seen.into_inner(), events, ended)
    }

    /// A round of an operator who looked long ago.
    fn apply_kept(&mut self) -> Result<Round, Wrong> {
        let (from, mut events) = (self.sim.now(), Vec::new());
        let kept = self.kept.take().ok_or_else(|| Wrong::new("no plan was kept").hint("write before it: keep plan"))?;
        let ended = {
            let mut tell = |event| events.push(event);
            let cloud = self.cloud(&self.sim, false);
            let world = reached(self.sim.world(), cloud.as_deref());
            let task = carry_out(&kept, world, self.approval.as_ref(), &mut tell);
            drive(task, || self.sim.crashed())
        };
        self.ended(from, Some(kept), events, ended)
    }

    /// What came of a round; none where the operator died.
    fn ended(
        &mut self,
        from: Timestamp,
        looked: Option<Looked>,
        events: Vec<Event>,
        ended: Option<Result<Ended, Wrong>>,
    ) -> Result<Round, Wrong> {
        let ended = match ended {
            Some(ended) => ended?,
            None => {
                self.recover();
                Ended::Crashed
            }
        };
        self.check().map_err(|broken| Wrong::broken(broken).hint(print::round_hint(&events)))?;
        Ok(Round { looked, events, ended, from, to: self.sim.now() })
    }

    /// A round of two operators at once, who know nothing of each other; the seed says who is faster when.
    pub fn two_rounds(&mut self, seed: u64, apart: SignedDuration) -> Result<[Round; 2], Wrong> {
        let from = self.sim.now();
        let seats = [self.sim.seat(), self.sim.seat()];
        if !apart.is_zero() {
            self.notice_skew(apart);
            seats[1].skew(apart);
        }
        let seen = [RefCell::new(None), RefCell::new(None)];
        let mut events = [Vec::new(), Vec::new()];
        let mut ended = [None, None];
        {
            self.sim.interleave(seed);
            let [first, second] = &mut events;
            let (mut first, mut second) = (|event| first.push(event), |event| second.push(event));
            let (fleet, approval) = (self.fleet()?, self.approval.as_ref());
            let clouds = [self.cloud(&seats[0], true), self.cloud(&seats[1], true)];
            let worlds =
                [reached(seats[0].world(), clouds[0].as_deref()), reached(seats[1].world(), clouds[1].as_deref())];
            let mut one = pin!(operate(fleet, &self.uid, worlds[0], self.defragment, approval, &seen[0], &mut first));
            let mut two = pin!(operate(fleet, &self.uid, worlds[1], self.defragment, approval, &seen[1], &mut second));
            let mut context = Context::from_waker(Waker::noop());
            let mut polls = 0;
            while ended.iter().any(Option::is_none) {
                for place in 0..2 {
                    if ended[place].is_some() {
                        continue;
                    }
                    let polled =
                        if place == 0 { one.as_mut().poll(&mut context) } else { two.as_mut().poll(&mut context) };
                    match polled {
                        Poll::Ready(done) => ended[place] = Some(done?),
                        Poll::Pending if seats[place].crashed() => ended[place] = Some(Ended::Crashed),
                        Poll::Pending => {}
                    }
                }
                polls += 1;
                assert!(polls < MOST_POLLS, "two operators wait for each other");
            }
        }
        self.sim.stop_interleaving();
        self.check().map_err(Wrong::broken)?;
        let (to, [first, second], [one, two]) = (self.sim.now(), events, seen);
        let [first_end, second_end] = ended.map(|ended| ended.expect("the loop ended"));
        Ok([
            Round { looked: one.into_inner(), events: first, ended: first_end, from, to },
            Round { looked: two.into_inner(), events: second, ended: second_end, from, to },
        ])
    }

    /// Rounds until nothing is left to do, or nothing can be done; time passes as what is held says.
    pub fn converge(&mut self, most: u32) -> Result<Converged, Wrong> {
        let (mut rounds, mut crashes, mut idle) = (0, 0, 0);
        loop {
            let looked = match self.look() {
                Ok(looked) => looked,
                // The ledger could not be read this time: the next round tries again.
                Err(wrong) if wrong.hint.is_none() && rounds < most && idle < MOST_IDLE && is_unread(&wrong) => {
                    (rounds, idle) = (rounds + 1, idle + 1);
                    self.sim.advance(IDLE);
                    continue;
                }
                Err(wrong) => return Err(wrong),
            };
            if looked.plan.is_empty() {
                return Ok(Converged { rounds, crashes, end: End::Empty });
            }
            if rounds >= most {
                return Ok(Converged { rounds, crashes, end: End::Rounds(Box::new(looked)) });
            }
            if idle >= MOST_IDLE || (looked.plan.steps.is_empty() && waits_for_ever(&looked)) {
                return Ok(Converged { rounds, crashes, end: End::Held(Box::new(looked)) });
            }
            let round = self.round()?;
            rounds += 1;
            crashes += u32::from(matches!(round.ended, Ended::Crashed));
            let progress = round.events.iter().any(|event| event.kind == EventKind::Succeeded);
            idle = if progress { 0 } else { idle + 1 };
            match round.looked.as_ref().and_then(comes_back) {
                Some(at) if !progress && at > self.sim.now() => {
                    let wait = at.duration_since(self.sim.now()).as_secs();
                    self.sim.advance(Duration::secs(u64::try_from(wait).unwrap_or(0) + 1));
                    // A time that was named is worth waiting for: only coming back to the same is idle.
                    idle = idle.saturating_sub(u32::from(idle < MOST_IDLE / 2));
                }
                _ if progress => self.sim.advance(PAUSE),
                _ => self.sim.advance(IDLE),
            }
        }
    }

    pub fn approve(&mut self) -> Result<Vec<String>, Wrong> {
        let looked = self.look()?;
        // By the plan, as the command line does: the same change asked for another day is another word.
        let (digest, effects) = (Digest::from(looked.plan.id.as_str()), &looked.plan.effects);
        let templates = templates(&looked.input, effects);
        let opened = loop {
            let opening = open_approval(self.sim.world(), &digest, effects, templates.clone(), "a person");
            let opened = drive(opening, || self.sim.crashed());
            match opened {
                Some(opened) => break opened,
                None => self.sim.recover(),
            }
        };
        opened.map_err(|error| Wrong::new(error.to_string()))?;
        self.approval = Some(digest);
        Ok(print::effects(effects))
    }

    /// The cloud behind the door, where there is one.
    fn cloud<'a>(&'a self, who: &'a dyn Operator, alone: bool) -> Option<Box<dyn Cloud + 'a>> {
        self.door.as_deref().filter(|_| !self.direct).map(|door| door.cloud(who, alone))
    }

    /// Whether the cloud is behind a door.
    pub fn is_wired(&self) -> bool {
        self.door.is_some() && !self.direct
    }

    fn recover(&self) {
        self.sim.recover();
        self.door.iter().for_each(|door| door.forget());
    }

    /// How often each fault struck, on the way too.
    fn struck(&self) -> Vec<(String, u64)> {
        self.sim.struck().into_iter().chain(self.door.iter().flat_map(|door| door.struck())).collect()
    }

    /// The operator's own clock is off by this.
    pub fn skew(&self, by: SignedDuration) {
        self.notice_skew(by);
        self.sim.skew(by);
    }

    fn notice_skew(&self, by: SignedDuration) {
        let mut watch = self.watch.borrow_mut();
        watch.skew = watch.skew.max(by.abs());
    }

    /// Launches and terminations so far.
    pub fn counts(&self) -> (u64, u64) {
        let calls = &self.sim.state().calls;
        (calls.changed("launch"), calls.changed("terminate"))
    }

    /// What was broken that must never be.
    pub fn check(&self) -> Result<(), String> {
        self.watch.borrow_mut().after(&self.sim.state());
        let broken = self.watch.borrow().broken.clone();
        if broken.is_empty() { Ok(()) } else { Err(format!("an invariant is broken: {}", broken.join("; "))) }
    }
}

/// The same world, with its cloud reached another way.
fn reached<'a>(world: World<'a>, cloud: Option<&'a dyn Cloud>) -> World<'a> {
    World { cloud: cloud.unwrap_or(world.cloud), ..world }
}

/// Polls a task until it is done; none where it died.
pub fn drive<T>(task: impl Future<Output = T>, crashed: impl Fn() -> bool) -> Option<T> {
    let mut task = pin!(task);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..MOST_POLLS {
        match task.as_mut().poll(&mut context) {
            Poll::Ready(done) => return Some(done),
            Poll::Pending if crashed() => return None,
            Poll::Pending => {}
        }
    }
    panic!("a task waits for something that does not come")
}

/// Reads, plans, judges. The outer error is a broken law, the inner one that the ledger could not be read.
async fn look(
    fleet: &Fleet,
    uid: &FleetUid,
    world: World<'_>,
    defragment: bool,
) -> Result<Result<Looked, String>, Wrong> {
    let input = match input(fleet, uid, world, &Options { defragment, ..Options::default() }).await {
        Ok(input) => input,
        Err(error) => return Ok(Err(format!("{UNREAD}: {error}"))),
    };
    let planned = plan(&input);
    let plan = audit(&input, planned).map_err(|violations| {
        let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
        Wrong::broken(format!("the judge refuses the plan: {}", all.join("; ")))
    })?;
    Ok(Ok(Looked { input, plan }))
}

const UNREAD: &str = "the ledger cannot be read";

fn is_unread(wrong: &Wrong) -> bool {
    wrong.what.starts_with(UNREAD)
}

/// The whole life of an operator in one round.
async fn operate(
    fleet: &Fleet,
    uid: &FleetUid,
    world: World<'_>,
    defragment: bool,
    approval: Option<&Digest>,
    seen: &RefCell<Option<Looked>>,
    tell: &mut dyn FnMut(Event),
) -> Result<Ended, Wrong> {
    let looked = match look(fleet, uid, world, defragment).await? {
        Ok(looked) => looked,
        Err(why) => return Ok(Ended::Failed(why)),
    };
    *seen.borrow_mut() = Some(looked.clone());
    carry_out(&looked, world, approval, tell).await
}

/// What becomes of a plan.
async fn carry_out(
    looked: &Looked,
    world: World<'_>,
    approval: Option<&Digest>,
    tell: &mut dyn FnMut(Event),
) -> Result<Ended, Wrong> {
    let stop = StopSignal::default();
    let patience = Patience {
        // A node starts within this, and a gang saves its work; what takes longer is taken up by the next round.
        per_wait: Duration::minutes(10),
        total: None,
        poll: Duration::secs(5),
        concurrency: 8,
        stop: &stop,
    };
    Ok(match apply(&looked.plan, &looked.input, approval, world, &patience, tell).await {
        Ok(report) => Ended::Done(report),
        Err(error @ ApplyError::Ledger(_)) => Ended::Failed(error.to_string()),
        Err(error) => return Err(Wrong::new(error.to_string())),
    })
}

/// The first instant at which something that is held can be tried again.
fn comes_back(looked: &Looked) -> Option<Timestamp> {
    let instants = looked.plan.held.iter().filter_map(|held| match &held.waiting_on {
        WaitingOn::Until { at, .. } | WaitingOn::Canary { until: at, .. } => Some(*at),
        WaitingOn::Capacity { retry, .. } => *retry,
        _ => None,
    });
    instants.min()
}

/// Whether nothing of what is held comes by itself.
fn waits_for_ever(looked: &Looked) -> bool {
    looked.plan.held.iter().all(|held| {
        matches!(
            held.waiting_on,
            WaitingOn::Limit { .. }
                | WaitingOn::Approval { .. }
                | WaitingOn::Frozen(_)
                | WaitingOn::HandsOff(_)
                | WaitingOn::OtherOwner { .. }
                | WaitingOn::Guard { .. }
                | WaitingOn::Person(_)
                | WaitingOn::Budget { remedy: Some(_), .. }
                | WaitingOn::Gang { .. }
        )
    })
}
