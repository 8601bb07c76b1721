//! How calls reach the world: the provider's traits, and the faults between.
//!
//! A call is checked against the faults, done, noted and written, in that order and without a pause in between. What
//! the reads lie about is decided here too; that they answer at all is the world's business.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::cloud::seen::named;
use super::cloud::{Circumstances, CloudState};
use super::faults::{Blind, Position, Sight, Strike, no_answer};
use super::{Deed, Moment, Operator, Sim, State};
use crate::effect::{CloudAction, ClusterAction, Ledger, Part, Subject};
use crate::fleet::Target;
use crate::fleet::standing::TermsSpec;
use crate::ids::{NamespacedName, ReservationName, Uid};
use crate::observed::{CloudSeen, ClusterSeen, Gap, Market, OfferingSeen, Read, Sample};
use crate::provider::{Class, Clock, Cloud, Cluster, Done, Meter, PartValue, ProviderError, Version};

/// Whether whoever calls is alive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Life {
    crashed: Cell<bool>,
    /// It dies at its next call, whatever that is.
    doomed: Cell<bool>,
    /// How far its own clock is off, beside that of all.
    skew: Cell<SignedDuration>,
}

/// One operator's place: it is a world like the simulator itself, and crashes alone.
#[derive(Debug)]
pub struct Seat<'a> {
    sim: &'a Sim,
    life: Life,
}

#[derive(Clone, Copy)]
struct Caller<'a> {
    sim: &'a Sim,
    life: &'a Life,
}

impl Life {
    pub fn crashed(&self) -> bool {
        self.crashed.get()
    }

    pub fn recover(&self) {
        self.crashed.set(false);
        self.doomed.set(false);
    }
}

impl<'a> Seat<'a> {
    pub(super) fn new(sim: &'a Sim) -> Self {
        Self { sim, life: Life::default() }
    }

    pub fn world(&self) -> crate::provider::World<'_> {
        crate::provider::World { cloud: self, cluster: self, meter: self, clock: self }
    }

    pub fn crashed(&self) -> bool {
        self.life.crashed()
    }

    pub fn recover(&self) {
        self.life.recover();
    }

    /// Puts this one's clock wrong by this much.
    pub fn skew(&self, by: SignedDuration) {
        self.life.skew.set(by);
        self.sim.faults.borrow_mut().count("two clocks apart");
    }

    fn caller(&self) -> Caller<'_> {
        Caller { sim: self.sim, life: &self.life }
    }
}

impl Sim {
    fn caller(&self) -> Caller<'_> {
        Caller { sim: self, life: &self.life }
    }

    /// What happens by chance whenever somebody calls.
    pub(super) fn stir(&self) {
        self.caller().stir();
    }

    /// Does it, notes it, writes it down.
    pub(super) fn commit<T>(
        &self,
        deed: &Deed<'_>,
        effect: impl FnOnce(&mut State) -> Result<(T, bool), ProviderError>,
    ) -> Result<T, ProviderError> {
        let answer = self.change(|state| {
            let ours = deed.is_ours(&state.cloud);
            self.show(state, deed, Moment::Before);
            let answer = effect(state);
            let (now, changed) = (state.now, answer.as_ref().map(|(_, changed)| *changed));
            state.calls.note(now, deed, ours, changed);
            self.show(state, deed, Moment::After { yes: answer.is_ok() });
            answer
        });
        // What cannot be written down may be forgotten: nobody can say that it was done.
        self.save().map_err(|error| ProviderError::new(Class::Ambiguous, error.to_string()))?;
        answer.map(|(answer, _)| answer)
    }

    fn show(&self, state: &State, deed: &Deed<'_>, moment: Moment) {
        if let Some(witness) = &mut *self.witness.borrow_mut() {
            witness(state, deed, moment);
        }
    }

    /// The world that a late answer is taken from: the newest that is old enough, else the oldest that is known.
    pub(super) fn with_late<T>(&self, look: impl FnOnce(&CloudState, &super::ClusterState) -> T) -> Option<T> {
        let past = self.past.borrow();
        if past.is_empty() {
            return None;
        }
        let age = self.faults.borrow_mut().on_age()?;
        let before = self.now().checked_sub(age).unwrap_or(Timestamp::MIN);
        let old = past.iter().rev().find(|(at, ..)| *at <= before).or(past.front())?;
        Some(look(&old.1, &old.2))
    }

    fn blind<T: Default>(&self, read: &mut Read<T>, what: Sight, fresh: bool, call: &str) {
        let Some(blind) = self.faults.borrow_mut().on_read(what, fresh) else { return };
        let now = self.now();
        *read = match blind {
            Blind::Hidden => Read::new(T::default(), now),
            Blind::Gap => gap(now, call, "InternalError: an internal error has occurred"),
        };
    }

    /// Takes a request of a reading action from its bucket; too many make a gap.
    fn charge<T: Default>(&self, read: &mut Read<T>, call: &str) {
        let now = self.now();
        if let Err(error) = self.state.borrow_mut().cloud.read(now, call) {
            *read = gap(now, call, &error.message);
        }
    }
}

fn gap<T: Default>(now: Timestamp, what: &str, why: &str) -> Read<T> {
    Read::with_gap(T::default(), now, Gap { what: what.into(), why: why.into() })
}

impl Caller<'_> {
    /// Where every call begins.
    async fn enter(self) {
        if self.life.doomed.get() || self.life.crashed.get() {
            self.crash::<()>().await;
        }
        if self.gives_way() {
            GiveWay(false).await;
        }
        self.stir();
    }

    /// What happens by chance whenever somebody calls.
    fn stir(self) {
        let leap = self.sim.faults.borrow_mut().on_clock();
        if let Some(leap) = leap {
            self.sim.pass(leap);
        }
        self.lose_a_machine();
    }

    /// A call over a wire: made, and heard of only by the living.
    fn speak(self, meant: Option<&CloudAction>, say: &mut dyn FnMut(&Sim)) -> bool {
        if self.life.doomed.get() || self.life.crashed.get() {
            self.life.crashed.set(true);
            return false;
        }
        *self.sim.meant.borrow_mut() = meant.cloned();
        say(self.sim);
        *self.sim.meant.borrow_mut() = None;
        match self.sim.died.take() {
            None => {}
            Some(Position::AfterAnswer) => self.life.doomed.set(true),
            Some(Position::BeforeSend | Position::AfterCommit) => self.life.crashed.set(true),
        }
        !self.life.crashed.get()
    }

    fn gives_way(self) -> bool {
        self.sim.yields.borrow_mut().as_mut().is_some_and(|stream| stream.below(2) == 0)
    }

    fn pass_until(self, at: Timestamp) {
        let at = at.checked_sub(self.skew()).unwrap_or(at);
        self.sim.pass_until(at);
    }

    async fn crash<T>(self) -> T {
        self.life.crashed.set(true);
        pending().await
    }

    fn lose_a_machine(self) {
        if !self.sim.faults.borrow().kills_machines() {
            return;
        }
        let serving: Vec<_> = {
            let state = self.sim.state.borrow();
            let ours = state.cloud.instances.iter().filter(|(_, found)| found.tag.is_some() && found.state.serves());
            ours.map(|(id, found)| (id.clone(), found.market)).collect()
        };
        let victim = self.sim.faults.borrow_mut().on_machines(serving.len());
        match victim.and_then(|victim| serving.get(victim)) {
            Some((id, Market::Spot)) => drop(self.sim.interrupt(id)),
            Some((id, _)) => drop(self.sim.kill(id)),
            None => {}
        }
    }

    /// A call that would change something.
    async fn change<T>(
        self,
        deed: Deed<'_>,
        effect: impl FnOnce(&mut State) -> Result<(T, bool), ProviderError>,
    ) -> Result<T, ProviderError> {
        self.enter().await;
        self.sim.store.check().map_err(|error| ProviderError::new(Class::Denied, error.to_string()))?;
        let strike = self.sim.faults.borrow_mut().on_change(&deed);
        match strike {
            None => self.sim.commit(&deed, effect),
            // What was heard before is answered with what it made: no machine is needed for that.
            Some(Strike::Refused(error)) if error.class == Class::NoCapacity && self.was_heard(&deed) => {
                self.sim.commit(&deed, effect)
            }
            Some(Strike::Refused(error)) => self.sim.commit(&deed, |_| Err(error)),
            Some(Strike::Lost { done }) => {
                if done {
                    let _lost = self.sim.commit(&deed, effect);
                }
                Err(no_answer())
            }
            Some(Strike::Crash(Position::BeforeSend)) => self.crash().await,
            Some(Strike::Crash(Position::AfterCommit)) => {
                let _unheard = self.sim.commit(&deed, effect);
                self.crash().await
            }
            Some(Strike::Crash(Position::AfterAnswer)) => {
                self.life.doomed.set(true);
                self.sim.commit(&deed, effect)
            }
        }
    }

    fn was_heard(self, deed: &Deed<'_>) -> bool {
        matches!(deed, Deed::Cloud(CloudAction::Launch(request)) if self.sim.state().cloud.has_heard(request))
    }

    async fn perform_in_cloud(self, action: &CloudAction) -> Result<Done, ProviderError> {
        self.change(Deed::Cloud(action), |state| {
            let fleet = state.ledger.head().fleet.clone();
            let (lag, stillborn) = match action {
                CloudAction::Launch(_) => self.sim.faults.borrow_mut().on_launch(),
                _ => Default::default(),
            };
            // What was on the machine should have been drained: the cluster keeps the count of what was not.
            match action {
                CloudAction::Terminate { instance, .. } => {
                    state.cluster.judge_removal(state.now, instance, "Terminate")
                }
                CloudAction::Reboot { instance, .. } => state.cluster.judge_removal(state.now, instance, "Reboot"),
                _ => {}
            }
            let circumstances = Circumstances { fleet: fleet.as_ref(), lag, stillborn };
            let performed = state.cloud.perform(state.now, action, circumstances)?;
            Ok((performed.done, performed.changed))
        })
        .await
    }

    async fn perform_in_cluster(self, action: &ClusterAction) -> Result<Done, ProviderError> {
        self.change(Deed::Cluster(action), |state| Ok((state.cluster.perform(state.now, action)?, true))).await
    }

    async fn observe_cloud(self, target: &Target) -> CloudSeen {
        self.enter().await;
        let (sim, now) = (self.sim, self.sim.now());
        for pool in target.standing.pools.values() {
            sim.state.borrow_mut().cloud.learn(&pool.shape);
        }
        let late = sim.with_late(|cloud, _| cloud.seen(now, target));
        let mut seen = late.unwrap_or_else(|| sim.state.borrow().cloud.seen(now, target));
        seen.offerings = self.read_offers(target);
        sim.charge(&mut seen.reservations, "DescribeCapacityReservations");
        sim.charge(&mut seen.instances, "DescribeInstances");
        sim.charge(&mut seen.groups, "DescribePlacementGroups");
        sim.charge(&mut seen.templates, "DescribeLaunchTemplates");
        sim.charge(&mut seen.spot_prices, "DescribeSpotPriceHistory");
        sim.blind(&mut seen.reservations, Sight::Reservations, false, "DescribeCapacityReservations");
        sim.blind(&mut seen.instances, Sight::Instances, false, "DescribeInstances");
        seen
    }

    /// One request for each block that is wanted; the first that is throttled leaves a gap.
    fn read_offers(self, target: &Target) -> Read<BTreeMap<ReservationName, Vec<OfferingSeen>>> {
        let mut state = self.sim.state.borrow_mut();
        let now = state.now;
        let blocks = target.standing.reservations.values();
        for _ in blocks.filter(|spec| matches!(spec.terms, TermsSpec::Block(_))) {
            if let Err(error) = state.cloud.read(now, "DescribeCapacityBlockOfferings") {
                return gap(now, "DescribeCapacityBlockOfferings", &error.message);
            }
        }
        let fleet = state.ledger.head().fleet.clone();
        let offers = state.cloud.offers(now, target, fleet.as_ref());
        state.cloud.remember_offers(&offers);
        Read::new(offers, now)
    }

    async fn reread_cloud(self, what: &[Subject]) -> CloudSeen {
        self.enter().await;
        let (instances, reservations) = named(what);
        if instances.is_empty() && reservations.is_empty() {
            return CloudSeen::default();
        }
        let (sim, now) = (self.sim, self.sim.now());
        let late = sim.with_late(|cloud, _| cloud.seen_again(now, what));
        let mut seen = late.unwrap_or_else(|| sim.state.borrow().cloud.seen_again(now, what));
        if !instances.is_empty() {
            sim.charge(&mut seen.instances, "DescribeInstances");
            sim.blind(&mut seen.instances, Sight::Instances, false, "DescribeInstances");
        }
        if !reservations.is_empty() {
            sim.charge(&mut seen.reservations, "DescribeCapacityReservations");
            sim.blind(&mut seen.reservations, Sight::Reservations, false, "DescribeCapacityReservations");
        }
        seen
    }

    async fn observe_cluster(self) -> ClusterSeen {
        self.enter().await;
        let (sim, now) = (self.sim, self.sim.now());
        let late = sim.with_late(|_, cluster| cluster.observe(now));
        let mut seen = late.unwrap_or_else(|| sim.state.borrow().cluster.observe(now));
        self.blind_cluster(&mut seen, false);
        seen
    }

    /// Single objects are read from a quorum: such an answer is neither late nor empty by mistake.
    async fn reread_cluster(self, what: &[Subject]) -> ClusterSeen {
        self.enter().await;
        let mut seen = {
            let state = self.sim.state.borrow();
            state.cluster.reread(state.now, what)
        };
        self.blind_cluster(&mut seen, true);
        seen
    }

    async fn rehearse_evictions(self, pods: &[(NamespacedName, Uid)]) -> BTreeMap<Uid, String> {
        if pods.is_empty() {
            return BTreeMap::new();
        }
        self.enter().await;
        let state = self.sim.state.borrow();
        let refused = |(name, uid): &(NamespacedName, Uid)| Some((uid.clone(), state.cluster.refuses(name, uid)?));
        pods.iter().filter_map(refused).collect()
    }

    fn blind_cluster(self, seen: &mut ClusterSeen, fresh: bool) {
        self.sim.blind(&mut seen.nodes, Sight::Nodes, fresh, "list nodes");
        self.sim.blind(&mut seen.pods, Sight::Pods, fresh, "list pods");
        self.sim.blind(&mut seen.workloads, Sight::Workloads, fresh, "list workloads");
    }

    async fn read_ledger<T>(self, look: impl FnOnce(&State) -> T) -> Result<T, ProviderError> {
        self.enter().await;
        if self.sim.faults.borrow_mut().on_read(Sight::Ledger, true).is_some() {
            return Err(ProviderError::new(Class::Other, "etcdserver: request timed out"));
        }
        self.hear()?;
        Ok(look(&self.sim.state.borrow()))
    }

    /// What people wrote down meanwhile is in the ledger before anybody looks at it.
    fn hear(self) -> Result<(), ProviderError> {
        if self.sim.store.check().is_err() {
            return Ok(());
        }
        self.sim.hear().map_err(|error| ProviderError::new(Class::Other, error.to_string()))
    }

    async fn swap(self, part: &Part, seen: &Version, next: &PartValue) -> Result<Version, ProviderError> {
        self.hear()?;
        self.change(Deed::Ledger { part, next }, |state| state.ledger.swap(part, seen, next)).await
    }

    async fn sample(self, query: &str) -> Option<Sample> {
        self.enter().await;
        let state = self.sim.state.borrow();
        state.guards.get(query).map(|guard| guard.sample(state.now))
    }

    fn now(self) -> Timestamp {
        self.sim.now().checked_add(self.skew()).unwrap_or(Timestamp::MAX)
    }

    async fn sleep_until(self, at: Timestamp) {
        self.enter().await;
        self.pass_until(at);
    }

    fn skew(self) -> SignedDuration {
        self.sim.skew.get().saturating_add(self.life.skew.get())
    }
}

/// Lets other tasks run once.
struct GiveWay(bool);

impl Future for GiveWay {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

macro_rules! is_a_world {
    ($($who:ty),*) => {$(
        #[async_trait(?Send)]
        impl Cloud for $who {
            async fn observe(&self, target: &Target) -> CloudSeen {
                self.caller().observe_cloud(target).await
            }
            async fn reread(&self, what: &[Subject]) -> CloudSeen {
                self.caller().reread_cloud(what).await
            }
            async fn perform(&self, action: &CloudAction) -> Result<Done, ProviderError> {
                self.caller().perform_in_cloud(action).await
            }
        }

        #[async_trait(?Send)]
        impl Cluster for $who {
            async fn observe(&self, _target: &Target) -> ClusterSeen {
                self.caller().observe_cluster().await
            }
            async fn reread(&self, what: &[Subject]) -> ClusterSeen {
                self.caller().reread_cluster(what).await
            }
            async fn rehearse_evictions(&self, pods: &[(NamespacedName, Uid)]) -> BTreeMap<Uid, String> {
                self.caller().rehearse_evictions(pods).await
            }
            async fn perform(&self, action: &ClusterAction) -> Result<Done, ProviderError> {
                self.caller().perform_in_cluster(action).await
            }
            async fn ledger(&self) -> Result<(Ledger, Vec<(Part, Version)>), ProviderError> {
                self.caller().read_ledger(|state| state.ledger.whole()).await
            }
            async fn ledger_part(&self, part: &Part) -> Result<(PartValue, Version), ProviderError> {
                self.caller().read_ledger(|state| state.ledger.part(part)).await
            }
            async fn swap_ledger(&self, part: &Part, seen: &Version, next: &PartValue) -> Result<Version, ProviderError> {
                self.caller().swap(part, seen, next).await
            }
        }

        #[async_trait(?Send)]
        impl Meter for $who {
            async fn sample(&self, query: &str) -> Option<Sample> {
                self.caller().sample(query).await
            }
        }

        impl Operator for $who {
            fn speak(&self, meant: Option<&CloudAction>, say: &mut dyn FnMut(&Sim)) -> bool {
                self.caller().speak(meant, say)
            }
            fn gives_way(&self) -> bool {
                self.caller().gives_way()
            }
            fn pass_until(&self, at: Timestamp) {
                self.caller().pass_until(at);
            }
        }

        #[async_trait(?Send)]
        impl Clock for $who {
            fn now(&self) -> Timestamp {
                self.caller().now()
            }
            async fn sleep_until(&self, at: Timestamp) {
                self.caller().sleep_until(at).await;
            }
        }
    )*};
}

is_a_world!(Sim, Seat<'_>);
