//! A world of a few maps. Every call is noted when it takes effect, and yields once before that and once after: a
//! future that is dropped between two polls is a crash before the request arrived, or after it did and before the
//! answer.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use jiff::Timestamp;

use super::FLEET;
use crate::effect::*;
use crate::fleet::Target;
use crate::ids::*;
use crate::observed::*;
use crate::provider::*;

/// What happens to a call.
pub enum Fault {
    /// Nothing is done, and it is said.
    Refuse(ProviderError),
    /// It is done, and the answer is lost.
    Lose,
    /// It is answered with this.
    Answer(Done),
}

type Hook = Box<dyn FnOnce(&mut State)>;

#[derive(Default)]
pub struct State {
    pub now: Timestamp,
    /// Calls in the order in which they took effect.
    pub log: Vec<String>,
    pub instances: BTreeMap<InstanceId, InstanceSeen>,
    pub reservations: BTreeMap<ReservationId, ReservationSeen>,
    pub nodes: BTreeMap<NodeName, NodeSeen>,
    pub pods: Vec<PodSeen>,
    pub workloads: BTreeMap<WorkloadUid, WorkloadSeen>,
    /// Where set, the cluster cannot be read.
    pub gap: Option<Gap>,
    pub parts: BTreeMap<Part, (PartValue, u64)>,
    /// What happens to the calls whose note begins so, one after the other.
    pub faults: Vec<(&'static str, VecDeque<Fault>)>,
    /// What else happens when a call whose note begins so has taken effect.
    pub hooks: Vec<(&'static str, Hook)>,
    tokens: BTreeMap<Token, (LaunchRequest, InstanceId)>,
    /// Sleeping never ends.
    pub endless: bool,
    in_flight: usize,
    /// The most calls that were in flight at once.
    pub most: usize,
}

#[derive(Default)]
pub struct Fake(pub RefCell<State>);

impl Fake {
    pub fn new() -> Self {
        let fake = Self::default();
        fake.0.borrow_mut().now = "2026-01-01T00:00Z".parse().unwrap();
        fake.remember(&[LedgerChange::Begin { fleet: FLEET.into(), began: None }]);
        fake.0.borrow_mut().log.clear();
        fake
    }

    pub fn world(&self) -> World<'_> {
        World { cloud: self, cluster: self, meter: self, clock: self }
    }

    pub fn now(&self) -> Timestamp {
        self.0.borrow().now
    }

    pub fn log(&self) -> Vec<String> {
        self.0.borrow().log.clone()
    }

    /// Calls whose note begins so.
    pub fn count(&self, begins: &str) -> usize {
        self.0.borrow().log.iter().filter(|line| line.starts_with(begins)).count()
    }

    pub fn fault(&self, begins: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.0.borrow_mut().faults.push((begins, faults.into_iter().collect()));
    }

    pub fn refuse(&self, begins: &'static str, class: Class) {
        self.fault(begins, [Fault::Refuse(ProviderError::new(class, format!("the fake says {class:?}")))]);
    }

    pub fn when(&self, begins: &'static str, hook: impl FnOnce(&mut State) + 'static) {
        self.0.borrow_mut().hooks.push((begins, Box::new(hook)));
    }

    pub fn memory(&self) -> Ledger {
        self.0.borrow().memory()
    }

    /// Somebody else changes the ledger.
    pub fn remember(&self, changes: &[LedgerChange]) {
        self.0.borrow_mut().remember(changes);
    }

    pub fn live(&self) -> Vec<InstanceId> {
        let state = self.0.borrow();
        state.instances.iter().filter(|(_, found)| found.state.is_live()).map(|(id, _)| id.clone()).collect()
    }

    pub fn node(&self, name: &str, change: impl FnOnce(&mut NodeSeen)) {
        let mut node = NodeSeen {
            uid: name.into(),
            instance: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            ready: true,
            unready_since: None,
            ready_since: None,
            moved_by: Default::default(),
            allocatable: BTreeMap::new(),
            conditions: BTreeMap::new(),
            created: Timestamp::UNIX_EPOCH,
            boot: None,
        };
        change(&mut node);
        self.0.borrow_mut().nodes.insert(name.into(), node);
    }

    /// An instance of a slot that runs, in the cloud and in the ledger.
    pub fn runs(&self, request: &LaunchRequest) -> InstanceId {
        let id = self.0.borrow_mut().launch(request).unwrap();
        let at = self.now();
        let intent = Intent { request: request.clone(), plan: "p".into(), at };
        let launched = LedgerChange::Launched { slot: request.slot.clone(), instance: id.clone(), at };
        self.remember(&[LedgerChange::Intend { intent }, launched]);
        id
    }

    async fn call(&self, note: String, act: impl FnOnce(&mut State) -> Result<Done, ProviderError>) -> Answer {
        self.enter();
        yield_once().await;
        let answer = {
            let mut state = self.0.borrow_mut();
            let fault =
                state.faults.iter_mut().filter(|(begins, _)| note.starts_with(begins)).find_map(|f| f.1.pop_front());
            let answer = match fault {
                Some(Fault::Refuse(error)) => {
                    state.log.push(format!("{note} refused"));
                    Err(error)
                }
                Some(Fault::Answer(done)) => {
                    state.log.push(note.clone());
                    Ok(done)
                }
                fault => {
                    let answer = act(&mut state);
                    state.log.push(note.clone());
                    let lost = ProviderError::new(Class::Ambiguous, "the answer was lost");
                    if fault.is_some() { Err(lost) } else { answer }
                }
            };
            state.ring(&note);
            answer
        };
        yield_once().await;
        self.0.borrow_mut().in_flight -= 1;
        answer
    }

    fn enter(&self) {
        let mut state = self.0.borrow_mut();
        state.in_flight += 1;
        state.most = state.most.max(state.in_flight);
    }

    async fn read(&self, note: String) {
        yield_once().await;
        let mut state = self.0.borrow_mut();
        state.log.push(note.clone());
        state.ring(&note);
    }
}

type Answer = Result<Done, ProviderError>;

impl State {
    fn ring(&mut self, note: &str) {
        while let Some(at) = self.hooks.iter().position(|(begins, _)| note.starts_with(begins)) {
            let (_, hook) = self.hooks.remove(at);
            hook(self);
        }
    }

    pub fn memory(&self) -> Ledger {
        let mut ledger = Ledger::default();
        for (part, (value, _)) in &self.parts {
            match (part, value) {
                (Part::Pool(name), PartValue::Pool(Some(pool))) => {
                    ledger.pools.insert(name.clone(), pool.clone());
                }
                (_, PartValue::Head(head)) => ledger.head = (**head).clone(),
                _ => {}
            }
        }
        ledger
    }

    pub fn remember(&mut self, changes: &[LedgerChange]) {
        for change in changes {
            let mut ledger = self.memory();
            ledger.change(change);
            for part in change.parts() {
                let value = match &part {
                    Part::Head => PartValue::Head(Box::new(ledger.head.clone())),
                    Part::Pool(name) => PartValue::Pool(ledger.pools.get(name).cloned()),
                };
                let version = self.version(&part) + 1;
                self.parts.insert(part, (value, version));
            }
        }
    }

    fn version(&self, part: &Part) -> u64 {
        self.parts.get(part).map_or(0, |(_, version)| *version)
    }

    /// EC2's rules: a token that was used answers with what it made, or with a mismatch.
    fn launch(&mut self, request: &LaunchRequest) -> Result<InstanceId, ProviderError> {
        if let Some((earlier, id)) = self.tokens.get(&request.token) {
            let mismatch = ProviderError::new(Class::Other, "IdempotentParameterMismatch");
            return if earlier == request { Ok(id.clone()) } else { Err(mismatch) };
        }
        let id = InstanceId::from(format!("i-{}", self.instances.len()));
        let tag = SlotTag { fleet: FLEET.into(), slot: request.slot.clone(), generation: request.generation };
        let seen = InstanceSeen {
            tag: Some(tag),
            token: Some(request.token.clone()),
            state: InstanceState::Running,
            instance_type: request.instance_type.clone(),
            zone: request.zone.clone(),
            market: request.market,
            reservation: None,
            group: None,
            template: None,
            launched: self.now,
            network: Vec::new(),
            notice: None,
        };
        self.instances.insert(id.clone(), seen);
        self.tokens.insert(request.token.clone(), (request.clone(), id.clone()));
        Ok(id)
    }
}

#[async_trait(?Send)]
impl Cloud for Fake {
    async fn observe(&self, _: &Target) -> CloudSeen {
        unreachable!("apply does not observe")
    }

    async fn reread(&self, what: &[Subject]) -> CloudSeen {
        self.read(format!("look at {what:?}")).await;
        let state = self.0.borrow();
        CloudSeen {
            instances: Read::new(state.instances.clone(), state.now),
            reservations: Read::new(state.reservations.clone(), state.now),
            ..CloudSeen::default()
        }
    }

    async fn perform(&self, action: &CloudAction) -> Answer {
        let note = match action {
            CloudAction::Launch(request) => format!("launch {}@{}", request.slot, request.generation),
            CloudAction::Terminate { instance, .. } => format!("terminate {instance}"),
            CloudAction::Reserve(request) => format!("reserve {}@{}", request.reservation, request.generation),
            CloudAction::Purchase(request) => format!("purchase {}", request.offering),
            other => format!("{other:?}"),
        };
        let act = |state: &mut State| match action {
            CloudAction::Launch(request) => state.launch(request).map(Done::Instance),
            CloudAction::Terminate { instance, .. } => {
                state.instances.get_mut(instance).unwrap().state = InstanceState::Terminated;
                Ok(Done::Nothing)
            }
            CloudAction::Reserve(request) => Ok(Done::Reservation(format!("cr-{}", request.token).into())),
            CloudAction::Purchase(request) => Ok(Done::Reservation(format!("cr-{}", request.offering).into())),
            _ => Ok(Done::Nothing),
        };
        self.call(note, act).await
    }
}

#[async_trait(?Send)]
impl Cluster for Fake {
    async fn observe(&self, _: &Target) -> ClusterSeen {
        unreachable!("apply does not observe")
    }

    async fn reread(&self, what: &[Subject]) -> ClusterSeen {
        self.read(format!("look at {what:?}")).await;
        let state = self.0.borrow();
        fn read<T>(state: &State, value: T) -> Read<T> {
            match &state.gap {
                Some(gap) => Read::with_gap(value, state.now, gap.clone()),
                None => Read::new(value, state.now),
            }
        }
        ClusterSeen {
            nodes: read(&state, state.nodes.clone()),
            pods: read(&state, state.pods.clone()),
            workloads: read(&state, state.workloads.clone()),
            ..ClusterSeen::default()
        }
    }

    async fn perform(&self, action: &ClusterAction) -> Answer {
        let note = match action {
            ClusterAction::Cordon { node, .. } => format!("cordon {node}"),
            ClusterAction::Evict { pods, .. } => format!("evict {}", pods.len()),
            ClusterAction::Suspend { workload, .. } => format!("suspend {workload}"),
            other => format!("{other:?}"),
        };
        let act = |state: &mut State| {
            if let ClusterAction::Cordon { node, mark } = action {
                let found = state.nodes.get_mut(node).expect("a node that is there");
                found.annotations.insert(marks::CORDON.into(), mark.text());
            }
            Ok(Done::Nothing)
        };
        self.call(note, act).await
    }

    async fn ledger(&self) -> Result<(Ledger, Vec<(Part, Version)>), ProviderError> {
        unreachable!("apply reads parts")
    }

    async fn ledger_part(&self, part: &Part) -> Result<(PartValue, Version), ProviderError> {
        yield_once().await;
        let state = self.0.borrow();
        let empty = || match part {
            Part::Head => PartValue::Head(Box::default()),
            Part::Pool(_) => PartValue::Pool(None),
        };
        let value = state.parts.get(part).map_or_else(empty, |(value, _)| value.clone());
        Ok((value, Version(state.version(part).to_string())))
    }

    async fn swap_ledger(&self, part: &Part, seen: &Version, next: &PartValue) -> Result<Version, ProviderError> {
        let note = match part {
            Part::Head => "swap head".to_string(),
            Part::Pool(name) => format!("swap {name}"),
        };
        let act = |state: &mut State| {
            let version = state.version(part);
            if seen.0 != version.to_string() {
                return Err(ProviderError::new(Class::Conflict, "somebody was faster"));
            }
            state.parts.insert(part.clone(), (next.clone(), version + 1));
            Ok(Done::Nothing)
        };
        self.call(note, act).await.map(|_| Version(String::new()))
    }
}

#[async_trait(?Send)]
impl Meter for Fake {
    async fn sample(&self, _: &str) -> Option<Sample> {
        None
    }
}

#[async_trait(?Send)]
impl Clock for Fake {
    fn now(&self) -> Timestamp {
        self.0.borrow().now
    }

    async fn sleep_until(&self, at: Timestamp) {
        yield_once().await;
        if self.0.borrow().endless {
            std::future::pending::<()>().await;
        }
        let mut state = self.0.borrow_mut();
        state.now = state.now.max(at);
        let note = format!("slept until {}", state.now);
        state.log.push(note.clone());
        state.ring(&note);
    }
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|_| if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    run_for(100_000, future).expect("it comes to an end")
}

/// Polls that often, and then lets it fall: a crash.
pub fn run_for<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    (0..polls).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}

/// Two at once: the first is `ahead` polls ahead, and then they take turns.
pub fn run_both<T>(ahead: usize, one: impl Future<Output = T>, two: impl Future<Output = T>) -> (T, T) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    let mut cx = Context::from_waker(Waker::noop());
    let (mut first, mut second) = (None, None);
    for poll in 0..100_000 {
        if first.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(&mut cx)
        {
            first = Some(value);
        }
        if poll >= ahead
            && second.is_none()
            && let Poll::Ready(value) = two.as_mut().poll(&mut cx)
        {
            second = Some(value);
        }
        if first.is_some() && second.is_some() {
            break;
        }
    }
    (first.expect("it comes to an end"), second.expect("it comes to an end"))
}
