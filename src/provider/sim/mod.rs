//! An EC2 and a Kubernetes in one process, with a clock of their own.
//!
//! [`Sim`] holds the [`State`] and is a [`World`]: it answers every call at once, and time passes only when somebody
//! sleeps or [`Sim::advance`]s it. The state may live in a file, so that it outlasts the process. What goes wrong is
//! said by [`Faults`]; what may be done to the world beside calls is in `script`. One task only: a call that never
//! returns is a crash, and whoever drives the simulator drops that future and calls [`Sim::recover`].

pub mod calls;
pub mod cloud;
pub mod cluster;
mod dice;
pub mod faults;
mod ledger;
mod script;
mod seat;
mod store;
mod summary;
#[cfg(test)]
mod testing;
mod wire;

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use calls::{Call, Calls, Deed};
pub use cloud::CloudState;
pub use cluster::ClusterState;
pub use faults::{Fault, Faults, Position, Rates, Sight};
pub use ledger::LedgerParts;
pub use script::Guard;
pub use seat::Seat;
pub use store::SimError;
pub use wire::{Heard, Operator};

use crate::effect::{CloudAction, LedgerChange};
use crate::provider::World;
use crate::units::Duration;
use cloud::Word;
use seat::Life;
use store::Store;

/// All that there is: what a state file holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    version: u32,
    pub seed: u64,
    pub now: Timestamp,
    pub cloud: CloudState,
    pub cluster: ClusterState,
    pub ledger: LedgerParts,
    /// What a guard's query is answered with.
    pub guards: BTreeMap<String, Guard>,
    pub calls: Calls,
}

/// The simulated world.
pub struct Sim {
    state: RefCell<State>,
    faults: RefCell<Faults>,
    store: Store,
    /// Changed since it was written.
    dirty: Cell<bool>,
    life: Life,
    past: RefCell<Past>,
    witness: RefCell<Option<Witness>>,
    /// How far our own clock is off.
    skew: Cell<SignedDuration>,
    yields: RefCell<Option<dice::Stream>>,
    /// What the call over a wire that is being answered is for.
    meant: RefCell<Option<CloudAction>>,
    /// Where whoever makes that call dies of it.
    died: Cell<Option<Position>>,
}

/// What somebody who watches is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// The call has arrived, and nothing is done yet.
    Before,
    /// It was answered; whether with yes.
    After { yes: bool },
}

/// Sees every change before and after it is made. It must not call the simulator.
pub type Witness = Box<dyn FnMut(&State, &Deed<'_>, Moment)>;

/// Earlier worlds, newest last, for reads that answer late.
type Past = VecDeque<(Timestamp, CloudState, ClusterState)>;

/// How many earlier worlds are kept, where any is.
const WORLDS: usize = 64;
/// The seed of a state file, so that everybody's first run looks the same.
const SEED: u64 = 1;

impl State {
    pub fn new(now: Timestamp, seed: u64) -> Self {
        Self {
            version: store::VERSION,
            seed,
            now,
            cloud: CloudState::new(seed),
            cluster: ClusterState::new(seed),
            ledger: LedgerParts::default(),
            guards: BTreeMap::new(),
            calls: Calls::default(),
        }
    }

    /// Lets time pass: everything that happens until then, in order.
    pub fn advance_to(&mut self, until: Timestamp) {
        self.settle();
        while self.now < until {
            let events = [self.cloud.next_event(), self.cluster.next_event()];
            let next = events.into_iter().flatten().filter(|at| *at > self.now).min();
            self.now = next.map_or(until, |next| next.min(until));
            self.settle();
        }
    }

    /// Everything that is due at this instant. The cluster hears what became of machines before it goes on by itself.
    fn settle(&mut self) {
        let now = self.now;
        self.cloud.tick(now);
        for word in self.cloud.words() {
            match word {
                Word::Joins(join) => self.cluster.node_joins(now, join),
                Word::Gone(instance) => self.cluster.node_gone(now, &instance),
                Word::Reboots(instance, back) => self.cluster.node_reboots(now, &instance, back),
            }
        }
        self.cluster.tick(now);
    }
}

impl Sim {
    /// A world that ends with the process.
    pub fn in_memory(now: Timestamp, seed: u64) -> Self {
        Self::with(State::new(now, seed), Store::Memory)
    }

    /// The world of a state file, ours alone until it is dropped. `now` is when a new one begins; one that is there has
    /// its own time.
    pub fn open(path: &Path, now: Timestamp) -> Result<Self, SimError> {
        let (store, state) = Store::open(path)?;
        let sim = Self::with(state.unwrap_or_else(|| State::new(now, SEED)), store);
        sim.hear()?;
        Ok(sim)
    }

    /// The same for looking only: nobody is kept out, and nothing can be changed but in memory.
    pub fn peek(path: &Path, now: Timestamp) -> Result<Self, SimError> {
        let (store, state) = Store::peek(path)?;
        let sim = Self::with(state.unwrap_or_else(|| State::new(now, SEED)), store);
        sim.hear()?;
        Ok(sim)
    }

    /// Writes down what somebody decided while another process has the world, which hears of it before it looks at the
    /// ledger again.
    pub fn note(path: &Path, change: &LedgerChange) -> Result<(), SimError> {
        store::note(path, change)
    }

    /// Takes what others wrote down into the ledger. Whoever only looks has it in memory alone.
    fn hear(&self) -> Result<(), SimError> {
        let Some(notes) = self.store.notes()? else { return Ok(()) };
        self.change(|state| notes.changes.iter().for_each(|change| state.ledger.change(change)));
        if self.store.check().is_err() {
            self.dirty.set(false);
            return Ok(());
        }
        self.save()?;
        // What stays is heard again.
        let _unwritten = notes.done();
        Ok(())
    }

    /// Puts a state file aside, so that the next run begins anew. Says where it went.
    pub fn reset(path: &Path) -> Result<Option<PathBuf>, SimError> {
        store::put_aside(path)
    }

    fn with(state: State, store: Store) -> Self {
        Self {
            state: RefCell::new(state),
            faults: RefCell::new(Faults::default()),
            store,
            dirty: Cell::new(false),
            life: Life::default(),
            past: RefCell::new(Past::new()),
            witness: RefCell::new(None),
            skew: Cell::new(SignedDuration::ZERO),
            yields: RefCell::new(None),
            meant: RefCell::new(None),
            died: Cell::new(None),
        }
    }

    /// Everything outside, for `apply` and the command line.
    pub fn world(&self) -> World<'_> {
        World { cloud: self, cluster: self, meter: self, clock: self }
    }

    /// A place of its own for one more operator: it crashes alone.
    pub fn seat(&self) -> Seat<'_> {
        Seat::new(self)
    }

    /// The world as it is, for tests and for looking.
    pub fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// What time it really is.
    pub fn now(&self) -> Timestamp {
        self.state.borrow().now
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.pass(by.signed());
    }

    /// Lets time pass until an instant, if that is still to come.
    pub fn advance_to(&self, until: Timestamp) {
        self.pass_until(until);
    }

    /// Writes the state file, where there is one and something changed. Calls do so by themselves. Time that passed
    /// and what was done by script is written with the next call, here, or at the end: whoever is killed before that
    /// goes back to a world that was.
    pub fn save(&self) -> Result<(), SimError> {
        if self.dirty.get() {
            self.store.write(&self.state.borrow())?;
            self.dirty.set(false);
        }
        Ok(())
    }

    /// Whether a call never came back: whoever made it is dead.
    pub fn crashed(&self) -> bool {
        self.life.crashed()
    }

    /// A new process begins.
    pub fn recover(&self) {
        self.life.recover();
    }

    /// Something will go wrong.
    pub fn inject(&self, fault: Fault) {
        self.faults.borrow_mut().order(fault);
    }

    /// Faults from now on, in place of all that were ordered.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.borrow_mut() = faults;
    }

    /// Nothing goes wrong any more, and clocks are right.
    pub fn stop_faults(&self) {
        self.faults.borrow_mut().stop();
        self.skew.set(SignedDuration::ZERO);
        self.past.borrow_mut().clear();
    }

    /// Whether faults are drawn.
    pub fn is_stormy(&self) -> bool {
        self.faults.borrow().are_drawn()
    }

    /// How often each fault struck.
    pub fn struck(&self) -> BTreeMap<String, u64> {
        self.faults.borrow().struck().clone()
    }

    /// Somebody watches every change from now on.
    pub fn watch(&self, witness: Witness) {
        *self.witness.borrow_mut() = Some(witness);
    }

    /// Puts our own clock wrong by this much; the world's goes on as it does.
    pub fn skew(&self, by: SignedDuration) {
        self.skew.set(by);
        if !by.is_zero() {
            self.faults.borrow_mut().count("clock skewed");
        }
    }

    /// From now on half of all calls give way to other tasks first, so that two operators get into each other's way.
    pub fn interleave(&self, seed: u64) {
        *self.yields.borrow_mut() = Some(dice::Stream::new(seed));
    }

    /// From now on every call is answered at once.
    pub fn stop_interleaving(&self) {
        *self.yields.borrow_mut() = None;
    }

    fn pass(&self, by: SignedDuration) {
        self.pass_until(self.now().checked_add(by).unwrap_or(Timestamp::MAX));
    }

    fn pass_until(&self, until: Timestamp) {
        if until > self.now() {
            self.keep_past();
            self.change(|state| state.advance_to(until));
        }
    }

    /// Changes the state beside all calls, and lets the consequences of the instant happen.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let answer = {
            let mut state = self.state.borrow_mut();
            let answer = change(&mut state);
            state.settle();
            answer
        };
        self.dirty.set(true);
        answer
    }

    /// Remembers the world as this instant leaves it, where somebody may be shown it later.
    fn keep_past(&self) {
        if !self.faults.borrow().wants_the_past() {
            return;
        }
        let (state, mut past) = (self.state.borrow(), self.past.borrow_mut());
        past.push_back((state.now, state.cloud.clone(), state.cluster.clone()));
        if past.len() > WORLDS {
            past.pop_front();
        }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // In a panic the state may be half changed; and nobody is left to hear of a failure.
        if !std::thread::panicking() {
            let _unwritten = self.save();
        }
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("now", &self.now()).field("store", &self.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
