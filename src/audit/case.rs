//! The input and the plan with the indexes that the laws ask: which steps act on what, which node serves which slot.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::dag::Dag;
use super::pods::Pods;
use crate::effect::marks::CORDON;
use crate::effect::{Action, CloudAction, ClusterAction, Fact, LedgerChange, PoolLedger, Slot, Subject};
use crate::fleet::standing::{LoanSpec, PoolSpec, Standing, TermsSpec};
use crate::fleet::target::{Part, Purpose};
use crate::fleet::tide::Phase;
use crate::ids::{FleetUid, InstanceId, NodeName, PoolName, ReservationId, ReservationName, SlotId, StepId, TideName};
use crate::observed::{InstanceSeen, NodeSeen, Observed, ReservationSeen, ReservationTag};
use crate::plan::{Plan, PlanInput, Reason, Seats, Step};

/// How many of the waits for one thing are asked before all of them are: a course has fewer.
const NEAR: usize = 8;

/// What is judged, made easy to ask.
#[derive(Debug)]
pub struct Case<'a> {
    pub input: &'a PlanInput,
    pub plan: &'a Plan,
    pub steps: &'a [Step],
    pub dag: Dag,
    pub pods: Pods<'a>,
    /// Of each step, with `For` followed to what it is for.
    reasons: Vec<&'a Reason>,
    on: BTreeMap<Subject, Vec<usize>>,
    waits: BTreeMap<Subject, Vec<usize>>,
    on_slot: BTreeMap<SlotId, Vec<usize>>,
    waits_for_time: Vec<usize>,
    slot_of_instance: BTreeMap<&'a InstanceId, SlotId>,
    slot_of_claimed: BTreeMap<&'a NodeName, SlotId>,
    node_of: BTreeMap<&'a InstanceId, &'a NodeName>,
    /// Which slots are wanted.
    seats: BTreeMap<&'a PoolName, Seats>,
}

impl<'a> Case<'a> {
    pub fn new(input: &'a PlanInput, plan: &'a Plan, dag: Dag) -> Self {
        let steps = plan.steps.as_slice();
        let nodes = input.observed.cluster.nodes.seen();
        let mut case = Self {
            input,
            plan,
            steps,
            dag,
            pods: Pods::of(input, steps),
            reasons: reasons(steps),
            on: BTreeMap::new(),
            waits: BTreeMap::new(),
            on_slot: BTreeMap::new(),
            waits_for_time: Vec::new(),
            slot_of_instance: BTreeMap::new(),
            slot_of_claimed: BTreeMap::new(),
            node_of: nodes.iter().filter_map(|(name, node)| Some((node.instance.as_ref()?, name))).collect(),
            seats: BTreeMap::new(),
        };
        case.index_ledger();
        case.index_seats();
        case.index_steps();
        case
    }

    fn index_seats(&mut self) {
        for name in self.input.target.pools.keys() {
            let seats = self.input.seats(name);
            self.seats.insert(name, seats);
        }
    }

    fn index_ledger(&mut self) {
        for (name, pool) in &self.input.ledger.pools {
            for (index, slot) in &pool.slots {
                if let Some(instance) = &slot.instance {
                    self.slot_of_instance.insert(instance, SlotId::new(name, *index));
                }
                if let Some(node) = &slot.node {
                    self.slot_of_claimed.insert(node, SlotId::new(name, *index));
                }
            }
        }
    }

    fn index_steps(&mut self) {
        for (at, step) in self.steps.iter().enumerate() {
            let index = if matches!(step.action, Action::Await(_)) { &mut self.waits } else { &mut self.on };
            for subject in subjects(&self.node_of, &step.action) {
                index.entry(subject).or_default().push(at);
            }
            if let Some(slot) = slot(&step.action) {
                self.on_slot.entry(self.input.as_named(slot)).or_default().push(at);
            }
            if matches!(step.action, Action::Await(Fact::After(_))) {
                self.waits_for_time.push(at);
            }
            // What the plan itself takes into the ledger is ours from there on.
            if let Action::Record(change) = &step.action {
                match change {
                    LedgerChange::Adopted { slot, instance, .. } | LedgerChange::Launched { slot, instance, .. } => {
                        self.slot_of_instance.entry(instance).or_insert_with(|| slot.clone());
                    }
                    LedgerChange::Claimed { slot, node } => {
                        self.slot_of_claimed.entry(node).or_insert_with(|| slot.clone());
                    }
                    _ => {}
                }
            }
        }
    }

    pub fn now(&self) -> Timestamp {
        self.input.now
    }

    pub fn seen(&self) -> &'a Observed {
        &self.input.observed
    }

    pub fn standing(&self) -> &'a Standing {
        &self.input.target.standing
    }

    /// The fleet that tags and tokens name.
    pub fn fleet(&self) -> &'a FleetUid {
        self.input.ledger.head.fleet.as_ref().unwrap_or(&self.input.fleet)
    }

    /// Every step with its place.
    pub fn each(&self) -> impl Iterator<Item = (usize, &'a Step)> + use<'a> {
        self.steps.iter().enumerate()
    }

    /// Why the step is there in the end.
    pub fn reason(&self, at: usize) -> &'a Reason {
        self.reasons[at]
    }

    /// The nodes that a step acts on.
    pub fn nodes_of_step(&self, at: usize) -> Vec<NodeName> {
        let acts = subjects(&self.node_of, &self.steps[at].action);
        let node = |subject: Subject| match subject {
            Subject::Node(node) => Some(node),
            _ => None,
        };
        let waits = matches!(self.steps[at].action, Action::Await(_));
        if waits { Vec::new() } else { acts.into_iter().filter_map(node).collect() }
    }

    /// The steps that act on something.
    pub fn on(&self, subject: &Subject) -> &[usize] {
        self.on.get(subject).map_or(&[], Vec::as_slice)
    }

    /// The steps that wait for something about it.
    pub fn waits(&self, subject: &Subject) -> &[usize] {
        self.waits.get(subject).map_or(&[], Vec::as_slice)
    }

    /// The steps that launch, terminate, reboot or remember something for a slot.
    pub fn on_slot(&self, slot: &SlotId) -> &[usize] {
        self.on_slot.get(slot).map_or(&[], Vec::as_slice)
    }

    /// The steps of this kind on this subject that must have succeeded before.
    pub fn done_before(&self, at: usize, subject: &Subject, is: impl Fn(&Action) -> bool) -> Vec<usize> {
        let candidates: Vec<usize> =
            self.on(subject).iter().copied().filter(|other| is(&self.steps[*other].action)).collect();
        self.dag.before(at, &candidates)
    }

    /// Whether such a fact is looked at just before the step, or was waited for by one that comes before it.
    pub fn assured(&self, at: usize, subject: &Subject, is: impl Fn(&Fact) -> bool) -> bool {
        if self.steps[at].requires.iter().any(&is) {
            return true;
        }
        let waits = self.waits.get(subject).map_or(&[][..], Vec::as_slice);
        let earlier = &waits[..waits.partition_point(|place| *place < at)];
        let matches = |place: &usize| matches!(&self.steps[*place].action, Action::Await(fact) if is(fact));
        // A hundred launches may wait for the same reservation, each by a step of its own: the nearest is asked first.
        let mut nearest_first = earlier.iter().rev().copied().filter(matches);
        let near: Vec<usize> = nearest_first.by_ref().take(NEAR).collect();
        !self.dag.before(at, &near).is_empty() || !self.dag.before(at, &nearest_first.collect::<Vec<_>>()).is_empty()
    }

    /// Whether the instant has come when the step begins.
    pub fn has_come(&self, at: usize, instant: Timestamp) -> bool {
        let is = |fact: &Fact| matches!(fact, Fact::After(after) if *after >= instant);
        let waits = || {
            let late_enough = |place: &usize| matches!(&self.steps[*place].action, Action::Await(fact) if is(fact));
            let waits: Vec<usize> = self.waits_for_time.iter().copied().filter(late_enough).collect();
            !self.dag.before(at, &waits).is_empty()
        };
        self.now() >= instant || self.steps[at].requires.iter().any(is) || waits()
    }

    pub fn instance(&self, id: &InstanceId) -> Option<&'a InstanceSeen> {
        self.seen().cloud.instances.seen().get(id)
    }

    pub fn node(&self, name: &NodeName) -> Option<&'a NodeSeen> {
        self.seen().cluster.nodes.seen().get(name)
    }

    pub fn node_of(&self, instance: &InstanceId) -> Option<&'a NodeName> {
        self.node_of.get(instance).copied()
    }

    pub fn slot_of_instance(&self, instance: &InstanceId) -> Option<&SlotId> {
        self.slot_of_instance.get(instance)
    }

    /// The slot that a node serves: its instance is the slot's, or it is claimed for it.
    pub fn slot_of_node(&self, name: &NodeName) -> Option<&SlotId> {
        let launched = || self.slot_of_instance.get(self.node(name)?.instance.as_ref()?);
        launched().or_else(|| self.slot_of_claimed.get(name))
    }

    /// What is remembered of a pool.
    pub fn pool_ledger(&self, name: &PoolName) -> Option<&'a PoolLedger> {
        self.input.ledger.pools.get(name)
    }

    /// What is remembered of a slot, also by the name that its pool had.
    pub fn ledger_slot(&self, slot: &SlotId) -> Option<&'a Slot> {
        self.input.ledger.slot(&self.input.as_named(slot))
    }

    pub fn pool(&self, name: &PoolName) -> Option<&'a PoolSpec> {
        self.standing().pools.get(name)
    }

    /// The part of the target that a slot is in; none for one that is not wanted.
    pub fn part(&self, slot: &SlotId) -> Option<&'a Part> {
        let target = self.input.target.pools.get(&slot.pool)?;
        match self.seats.get(&slot.pool) {
            Some(seats) => seats.part(target, slot.index),
            None => Seats::default().part(target, slot.index),
        }
    }

    /// Whether the node is cordoned by us already, or by a step that the given one comes after.
    pub fn is_cordoned(&self, at: usize, node: &NodeName) -> bool {
        let is = |action: &Action| matches!(action, Action::Cluster(ClusterAction::Cordon { .. }));
        self.has_our_cordon(node) || !self.done_before(at, &Subject::Node(node.clone()), is).is_empty()
    }

    pub fn has_our_cordon(&self, node: &NodeName) -> bool {
        self.node(node).is_some_and(|seen| seen.annotation(CORDON).is_some())
    }

    /// The cloud's id of a reservation: the one that the document names, the one that carries the tag of a request that
    /// was never answered, or the one that we remember.
    pub fn reservation_id(&self, name: &ReservationName) -> Option<ReservationId> {
        let spec = self.standing().reservations.get(name)?;
        let held = &self.input.ledger.head.reservations;
        let old = || held.get(spec.renamed_from.as_ref()?);
        let held = held.get(name).or_else(old);
        let made = || {
            let asked = &held?.intent.as_ref()?.request;
            let answers = |tag: &ReservationTag| {
                tag.fleet == *self.fleet() && tag.reservation == asked.reservation && tag.generation == asked.generation
            };
            let mut seen = self.seen().cloud.reservations.seen().iter();
            seen.find(|(_, seen)| seen.tag.as_ref().is_some_and(answers)).map(|(id, _)| id.clone())
        };
        let remembered = || held.and_then(|held| held.id.clone());
        spec.id.as_deref().map(ReservationId::from).or_else(made).or_else(remembered)
    }

    pub fn reservation(&self, id: &ReservationId) -> Option<&'a ReservationSeen> {
        self.seen().cloud.reservations.seen().get(id)
    }

    /// When the nodes of a reservation begin to be taken away.
    pub fn taken_away_at(&self, name: &ReservationName) -> Option<Timestamp> {
        let seen = self.reservation_id(name).and_then(|id| self.reservation(&id)).and_then(|seen| seen.end);
        match &self.standing().reservations.get(name)?.terms {
            TermsSpec::OnDemand { end, .. } => seen.or(*end),
            TermsSpec::Block(block) => {
                let end = seen.or_else(|| block.window.as_ref().map(|window| window.to.0))?;
                end.checked_sub(block.kill.signed()).ok()
            }
        }
    }

    /// The instant from which a node need not be asked any more. The reason only says which one is meant: it has to
    /// stand in what was seen or is wanted.
    pub fn deadline(&self, reason: &Reason, node: &NodeName) -> Option<Timestamp> {
        let instance = || self.node(node)?.instance.as_ref().and_then(|id| self.instance(id));
        match reason {
            Reason::Notice { .. } => instance()?.notice.as_ref().map(|notice| notice.at),
            Reason::CapacityEnds { reservation, .. } => {
                let id = self.reservation_id(reservation)?;
                (instance()?.reservation.as_ref() == Some(&id)).then(|| self.taken_away_at(reservation)).flatten()
            }
            Reason::Returning { tide, .. } => {
                let slot = self.slot_of_node(node)?;
                match &self.part(slot)?.purpose {
                    Purpose::Returning { tide: by, hard_at, .. } if by == tide => Some(*hard_at),
                    _ => self.asked_back_hard(tide, &slot.pool),
                }
            }
            Reason::Resized => self.given_up_hard(&self.slot_of_node(node)?.pool),
            _ => None,
        }
    }

    /// When nobody is asked any more about what a tide gives up of a pool's size as it turns: never while one is low, and at
    /// once where all have turned.
    fn given_up_hard(&self, pool: &PoolName) -> Option<Timestamp> {
        let tides = self.standing().tides.iter().filter(|(_, spec)| spec.resizes.contains(pool));
        let mut found = Some(Timestamp::MIN);
        for (tide, spec) in tides {
            match self.input.target.tides.get(tide) {
                Some(Phase::Low { .. }) => return None,
                Some(Phase::Reclaiming { due, .. } | Phase::HardReclaim { due }) => {
                    found = found.max(due.checked_sub(spec.hard_at.signed()).ok());
                }
                Some(Phase::High) | None => {}
            }
        }
        found
    }

    /// When nobody is asked any more about what a tide takes back of a pool beside the nodes that it wants back: quota
    /// that is in no node in particular, and what an edit took out of the tide. The latest, where there are several.
    fn asked_back_hard(&self, tide: &TideName, pool: &PoolName) -> Option<Timestamp> {
        let parts = self.input.target.pools.get(pool).into_iter().flat_map(|pool| &pool.parts);
        let wanted = parts.filter_map(|part| match &part.purpose {
            Purpose::Returning { tide: by, hard_at, .. } if by == tide => Some(*hard_at),
            _ => None,
        });
        let spec = self.standing().tides.get(tide)?;
        let ended = spec.loans.iter().filter(|loan| loan.pool == *pool).filter_map(|loan| self.ended_hard(tide, loan));
        wanted.chain(ended).max()
    }

    /// When nobody is asked any more about a loan that an edit ended. An edit asks back as a recall does: a lead before it
    /// is due, and never later than the tide itself.
    fn ended_hard(&self, tide: &TideName, loan: &LoanSpec) -> Option<Timestamp> {
        let spec = self.standing().tides.get(tide)?;
        let lead = |at: Timestamp| at.checked_add(spec.lead.signed()).ok();
        let turns = match self.input.target.tides.get(tide)? {
            Phase::High => None,
            Phase::Low { reclaim_at } => lead(*reclaim_at),
            Phase::Reclaiming { due, .. } | Phase::HardReclaim { due } => Some(*due),
        };
        lead(loan.ended?)?.min(turns?).checked_sub(spec.hard_at.signed()).ok()
    }

    /// Whether an edit took from somebody all that a tide lent him of a pool, so long ago that nobody is asked any more:
    /// what the tide still lends to others is not his.
    pub fn borrowers_time_is_up(&self, at: usize, tide: &TideName, pool: &PoolName, queue: &str) -> bool {
        let Some(spec) = self.standing().tides.get(tide) else { return false };
        let is_over = |loan: &LoanSpec| self.ended_hard(tide, loan).is_some_and(|deadline| self.has_come(at, deadline));
        let mut his = spec.loans.iter().filter(|loan| loan.pool == *pool && loan.queue == queue).peekable();
        his.peek().is_some() && his.all(is_over)
    }

    /// Whether a declared deadline of the node has passed when the step begins.
    pub fn deadline_passed(&self, at: usize, node: &NodeName) -> bool {
        self.deadline(self.reason(at), node).is_some_and(|deadline| self.has_come(at, deadline))
    }
}

/// What an action acts on, or what it waits for.
fn subjects(node_of: &BTreeMap<&InstanceId, &NodeName>, action: &Action) -> Vec<Subject> {
    match action {
        Action::Await(fact) => fact.subjects(),
        Action::Record(_) => Vec::new(),
        Action::Cloud(action) => match action {
            CloudAction::Launch(request) => request.reservation.iter().cloned().map(Subject::Reservation).collect(),
            CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. } => {
                let node = node_of.get(instance).map(|node| Subject::Node((*node).clone()));
                [Subject::Instance(instance.clone())].into_iter().chain(node).collect()
            }
            CloudAction::Modify { id, .. } | CloudAction::Cancel { id, .. } => {
                vec![Subject::Reservation(id.clone())]
            }
            _ => Vec::new(),
        },
        Action::Cluster(action) => match action {
            ClusterAction::Apply(object) => vec![Subject::Object(object.key.clone())],
            ClusterAction::Delete(key) | ClusterAction::Disown(key) => vec![Subject::Object(key.clone())],
            ClusterAction::Dress { node, .. }
            | ClusterAction::Cordon { node, .. }
            | ClusterAction::Uncordon { node }
            | ClusterAction::Cut { node, .. } => vec![Subject::Node(node.clone())],
            ClusterAction::Ask { workload, .. }
            | ClusterAction::Suspend { workload, .. }
            | ClusterAction::Shrink { workload, .. }
            | ClusterAction::Resume { workload } => vec![Subject::Workload(workload.clone())],
            ClusterAction::Evict { .. } | ClusterAction::AskPods { .. } => Vec::new(),
        },
    }
}

/// The slot that an action is for.
pub fn slot(action: &Action) -> Option<&SlotId> {
    match action {
        Action::Cloud(CloudAction::Launch(request)) => Some(&request.slot),
        Action::Cloud(CloudAction::Terminate { slot, .. } | CloudAction::Reboot { slot, .. }) => Some(slot),
        Action::Record(change) => match change {
            LedgerChange::Intend { intent } => Some(&intent.request.slot),
            LedgerChange::Launched { slot, .. }
            | LedgerChange::LaunchRefused { slot, .. }
            | LedgerChange::Adopted { slot, .. }
            | LedgerChange::Missing { slot, .. }
            | LedgerChange::Lost { slot }
            | LedgerChange::Removing { slot, .. }
            | LedgerChange::Leaving { slot }
            | LedgerChange::Claimed { slot, .. }
            | LedgerChange::Unclaimed { slot }
            | LedgerChange::Closed { slot }
            | LedgerChange::Exchange { slot, .. }
            | LedgerChange::Exchanged { slot, .. }
            | LedgerChange::ExchangeOver { slot, .. }
            | LedgerChange::Treated { slot, .. } => Some(slot),
            _ => None,
        },
        _ => None,
    }
}

/// Follows `For` to a reason of its own; what leads in a circle or nowhere stays as it is.
fn reasons(steps: &[Step]) -> Vec<&Reason> {
    let places: BTreeMap<&StepId, usize> = steps.iter().enumerate().map(|(at, step)| (&step.id, at)).collect();
    let mut settled: Vec<Option<&Reason>> = vec![None; steps.len()];
    for at in 0..steps.len() {
        let (mut path, mut here) = (vec![at], at);
        let reason = loop {
            let next = match (&steps[here].reason, settled[here]) {
                (_, Some(known)) => break known,
                (Reason::For(step), None) => places.get(step).copied(),
                (reason, None) => break reason,
            };
            match next {
                Some(next) if path.len() <= steps.len() => (path.push(next), here = next),
                _ => break &steps[at].reason,
            };
        };
        path.into_iter().for_each(|place| settled[place] = Some(reason));
    }
    settled.into_iter().zip(steps).map(|(reason, step)| reason.unwrap_or(&step.reason)).collect()
}
