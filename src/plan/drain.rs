//! Emptying a node: a pure function of what is on it, of our cordon, and of what its work was asked.
//!
//! Cordon, wait out the scheduler, list again, whole gangs or none, ask the queue first, ask the work to save itself,
//! evict the rest within their budgets, wait until all is gone. Every stage is read from the snapshot, so the steps
//! that are left are the same whoever did the first ones. Called by everything that takes a node out of service.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::came;
use super::harm::{Gang, gang_of, gpus};
use super::types::{Consent, Disruption, Reason, Step, WaitingOn};
use super::view::{SlotView, View};
use crate::effect::marks::{ASKED, Mark, is_starting};
use crate::effect::{Action, Amount, ClusterAction, Effects, Fact, SETTLE, Thing, Verb, is_silent};
use crate::fleet::tier::Signal;
use crate::ids::{NamespacedName, NodeName, StepId, Uid, WorkloadUid};
use crate::mistakes::{Mistake, is_on};
use crate::observed::{GangName, Keeper, NodeSeen, PodSeen, WorkloadSeen};

/// How hard a node may be emptied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pressure {
    /// Pods that run may be moved; else the node is taken only when it is idle.
    pub moves_work: bool,
    /// From here on nobody is asked and minimum runtimes do not count.
    pub hard_at: Option<Timestamp>,
    /// From here on pods are deleted, whatever their budgets say: the machine goes anyway.
    pub deadline: Option<Timestamp>,
    /// Pods go too that nobody makes again: a person said so.
    pub takes_unmanaged: bool,
    /// Pods stay whose local data would go with them: a person asked for that.
    pub keeps_local_data: bool,
    /// The machine is ended afterwards, where it is ours: what its silent kubelet cannot say ends with it.
    pub ends_machine: bool,
}

/// For what a node is emptied: what its steps have in common.
#[derive(Clone, Debug)]
pub struct Purpose {
    /// The word in our mark.
    pub why: &'static str,
    pub on: Thing,
    pub reason: Reason,
    pub consent: Consent,
    pub pressure: Pressure,
}

/// How a node can be emptied now.
#[derive(Debug)]
pub enum Drain {
    /// All steps until the node is empty; `last` is the one to come after. None: it is empty and settled.
    Whole { steps: Vec<Step>, last: Option<StepId> },
    /// As far as it goes now; then something has to happen first.
    Partly { steps: Vec<Step>, waiting_on: WaitingOn },
}

/// How many more evictions each disruption budget allows in this plan, shared by all drains of the plan.
#[derive(Debug, Default)]
pub struct Allowance {
    left: BTreeMap<NamespacedName, i32>,
    /// Gangs that go by this plan: they are counted once.
    gangs: BTreeSet<String>,
}

/// What has to leave a node, and how.
#[derive(Default)]
pub(super) struct Load<'a> {
    /// Suspended whole.
    pub(super) workloads: BTreeMap<&'a WorkloadUid, &'a WorkloadSeen>,
    /// Evicted whole, by gang.
    pub(super) gangs: BTreeSet<Gang<'a>>,
    pub(super) singles: Vec<&'a PodSeen>,
    /// All that is there, also what is leaving.
    uids: BTreeSet<Uid>,
}

pub fn step_id(verb: &str, subject: impl std::fmt::Display, generation: u32) -> StepId {
    format!("{verb}:{subject}@{generation}").into()
}

/// The steps that empty a slot's node.
pub fn drain(view: &View<'_>, allowance: &mut Allowance, slot: &SlotView<'_>, purpose: &Purpose) -> Drain {
    let Some((node, seen)) = slot.node else { return Drain::Whole { steps: Vec::new(), last: None } };
    let mut load = load(view, node);
    if let Some(waiting_on) = waits_for_work(view, node, &load, purpose.pressure) {
        return Drain::Partly { steps: Vec::new(), waiting_on };
    }
    let is_silent = is_silent(seen, view.now);
    // A gang that has a rank on it is broken already: there is no runtime to promise, and nobody to save its work.
    let is_broken = is_silent && matches!(purpose.reason, Reason::Sick { .. });
    let given_up = is_silent && purpose.pressure.ends_machine && !slot.is_existing();
    let stays = match purpose.pressure.deadline {
        // The machine goes anyway: whoever can leave it in time does, and the others are named.
        Some(deadline) if view.now < deadline => set_aside(view, &mut load, purpose.pressure),
        Some(_) => None,
        None => match came::back(view, slot).or_else(|| blocked(view, &load, purpose.pressure, is_broken)) {
            // What was begun stays as it is; what was not is not begun.
            Some(waiting_on) => {
                let (steps, waiting_on) = asked_in_time(view, &load, purpose, waiting_on);
                return Drain::Partly { steps, waiting_on };
            }
            None => None,
        },
    };
    let generation = slot.generation();
    let mut made = Steps::new(purpose.clone());
    if slot.mark.is_none() {
        let mark = Mark::new(view.now, purpose.why).of(view.fleet);
        let action = Action::Cluster(ClusterAction::Cordon { node: node.clone(), mark });
        // What a node may lose where nobody was let on it is more than what it may lose in service.
        let requires = is_starting(seen).then(|| Fact::Unopened(node.clone())).into_iter().collect();
        made.push(step_id("cordon", node, generation), action, requires, (1, 2));
    }
    let settled = slot.mark.as_ref().is_some_and(|mark| view.now.duration_since(mark.since) >= SETTLE);
    if !settled {
        let action = Action::Await(Fact::Settled(node.clone()));
        made.push(step_id("settle", node, generation), action, vec![], (5, 10));
    }
    let idle = load.uids.is_empty();
    let holds = vec![Fact::HoldsOnly { node: node.clone(), pods: load.uids.clone() }];
    let cordoned = made.last.clone();
    let mut ends: Vec<StepId> = Vec::new();
    for (uid, workload) in &load.workloads {
        made.last.clone_from(&cordoned);
        let suspended = suspend(view, &mut made, uid, workload, &holds, is_broken);
        // Its rank here is seen gone only when the machine is: who waits for that before it ends waits for ever.
        ends.extend(if given_up { Some(suspended) } else { made.last.clone() });
    }
    made.last.clone_from(&cordoned);
    let (evicted, left) = evict(view, allowance, &load, purpose.pressure);
    let since = slot.mark.as_ref().map_or(view.now, |mark| mark.since);
    let all: Vec<&PodSeen> = evicted.iter().flat_map(|(_, pods)| pods).copied().collect();
    let (asked, saving) = ask_gangs(view, &mut made, &all, since, &holds, is_broken);
    for (gang, evicted) in &evicted {
        made.last.clone_from(&cordoned);
        let force = purpose.pressure.deadline.is_some_and(|deadline| view.now >= deadline);
        let hit = view.harm.hit(evicted);
        let pods: Vec<(NamespacedName, Uid)> = evicted.iter().map(|pod| (pod.name.clone(), pod.uid.clone())).collect();
        let action = Action::Cluster(ClusterAction::Evict { pods, force });
        let grace = evicted.iter().map(|pod| u64::from(pod.grace_secs)).max().unwrap_or(0);
        // A gang goes by one step, whichever of its nodes are emptied: all of them are listed again for it.
        let id = gang.map_or_else(|| step_id("evict", node, generation), |gang| step_id("evict", gang, 0));
        made.push(id, action, holds.clone(), (5, 60 + grace + saving));
        let saved = gang.map(|gang| step_id("saved", gang, 0)).filter(|saved| asked.contains(saved));
        if let (Some(step), Some(saved)) = (made.steps.last_mut(), saved) {
            step.after = vec![saved];
        }
        made.disturbs(view, hit, evicted);
        ends.extend(made.last.clone());
    }
    if let Some(waiting_on) = stays.or(left.map(WaitingOn::DisruptionBudget)) {
        return Drain::Partly { steps: made.steps, waiting_on };
    }
    if let Some(waiting_on) = stuck(view, node, seen).filter(|_| is_silent && !given_up) {
        return Drain::Partly { steps: made.steps, waiting_on };
    }
    if !idle || !settled {
        // Where nobody is told to go, who came since would be waited for in vain: it is for the next plan.
        let requires = if ends.is_empty() { holds } else { vec![] };
        ends.extend(cordoned.filter(|_| !requires.is_empty()));
        let grace = view.harm.pods_on(node).iter().map(|pod| u64::from(pod.grace_secs)).max().unwrap_or(0);
        let fact = if given_up { Fact::GivenUp(node.clone()) } else { Fact::Empty(node.clone()) };
        let action = Action::Await(fact);
        made.last = None;
        made.push(step_id("empty", node, generation), action, requires, (1, 30 + grace));
        if let Some(step) = made.steps.last_mut() {
            step.after = ends;
        }
    }
    Drain::Whole { last: made.last, steps: made.steps }
}

/// What it means that these pods go, as an effect. What stands for itself is no gang, and still loses its GPUs.
pub fn drained(view: &View<'_>, on: &Thing, hit: &Disruption, pods: &[&PodSeen]) -> Effects {
    if hit.pods == 0 {
        return Effects::default();
    }
    let singles = gpus(pods.iter().copied().filter(|pod| gang_of(pod).is_none() && pod.terminating.is_none()));
    let amount = view.harm.amount(hit);
    let gpus = amount.gpus.saturating_add(u32::try_from(singles).unwrap_or(u32::MAX));
    Effects::one(Verb::Drain, on.clone(), Amount { count: hit.pods, gpus, ..amount })
}

/// The same where nobody knows how it will come about: pods that stand for themselves may go one by one, and each of
/// them is rounded up.
pub fn drained_at_most(view: &View<'_>, on: &Thing, pods: &[&PodSeen]) -> Effects {
    let (tied, singles): (Vec<&PodSeen>, Vec<&PodSeen>) = pods.iter().partition(|pod| gang_of(pod).is_some());
    let mut effects = drained(view, on, &view.harm.hit(&tied), &tied);
    for pod in singles {
        effects.add(&drained(view, on, &view.harm.hit(&[pod]), &[pod]));
    }
    effects
}

/// What is on a node, sorted by how it leaves.
pub(super) fn load<'a>(view: &View<'a>, node: &NodeName) -> Load<'a> {
    let mut load = Load::default();
    for pod in view.harm.pods_on(node) {
        let pod: &'a PodSeen = pod;
        load.uids.insert(pod.uid.clone());
        if pod.terminating.is_some() {
            continue;
        }
        let workload = pod.workload.as_ref().and_then(|uid| Some((uid, view.harm.workload(pod)?)));
        match (workload, gang_of(pod)) {
            _ if is_on(Mistake::DrainByNode) => load.singles.push(pod),
            // Told to go already: it leaves by itself.
            (Some((_, found)), _) if !found.active || found.evicted => {}
            (Some((uid, found)), _) => {
                load.workloads.insert(uid, found);
            }
            (None, Some(gang)) => {
                load.gangs.insert(gang);
            }
            (None, None) => load.singles.push(pod),
        }
    }
    load
}

/// The work that a node is waited for, where nobody may be moved.
fn waits_for_work(view: &View<'_>, node: &NodeName, load: &Load<'_>, pressure: Pressure) -> Option<WaitingOn> {
    let over = pressure.deadline.is_some_and(|deadline| view.now >= deadline);
    let stays = !load.workloads.is_empty() || !load.gangs.is_empty() || !load.singles.is_empty();
    let names = || view.harm.work_on(node).into_iter().collect::<Vec<_>>().join(" and ");
    (!pressure.moves_work && !over && stays).then(|| WaitingOn::Gang { name: names() })
}

/// Takes out of a load what cannot leave by itself or may not yet, whole gangs with it, and says what the first of it
/// waits for.
fn set_aside(view: &View<'_>, load: &mut Load<'_>, pressure: Pressure) -> Option<WaitingOn> {
    let mut first = None;
    let mut moves = |waiting_on: Option<WaitingOn>| {
        let moves = waiting_on.is_none();
        first = first.take().or(waiting_on);
        moves
    };
    load.singles.retain(|pod| moves(keeps(view, pod, pressure)));
    load.gangs.retain(|gang| moves(view.harm.pods_of(*gang).iter().find_map(|pod| keeps(view, pod, pressure))));
    load.workloads.retain(|_, workload| moves(promised(view, workload, pressure).map(too_young)));
    first
}

/// Why a pod stays where it is, if it does.
fn keeps(view: &View<'_>, pod: &PodSeen, pressure: Pressure) -> Option<WaitingOn> {
    let budgets = || two_budgets(pod, pressure).or_else(|| wants_all(view, pod)).or_else(|| refused(view, pod));
    budgets().or_else(|| unmanaged(pod, pressure)).or_else(|| local_data(pod, pressure))
}

fn too_young(until: Timestamp) -> WaitingOn {
    WaitingOn::until(until, "its tier promises it a minimum runtime")
}

/// What stands in the way of even beginning.
fn blocked(view: &View<'_>, load: &Load<'_>, pressure: Pressure, is_broken: bool) -> Option<WaitingOn> {
    let pods = || {
        let gangs = load.gangs.iter().flat_map(|gang| view.harm.pods_of(*gang).iter().copied());
        load.singles.iter().copied().chain(gangs)
    };
    let first = |check: fn(&PodSeen, Pressure) -> Option<WaitingOn>| pods().find_map(|pod| check(pod, pressure));
    let all_up = || pods().find_map(|pod| wants_all(view, pod));
    let budgets = first(two_budgets).or_else(all_up).or_else(|| pods().find_map(|pod| refused(view, pod)));
    if let Some(waiting_on) = budgets.or_else(|| first(unmanaged)).or_else(|| first(local_data)) {
        return Some(waiting_on);
    }
    let whole = load.workloads.values().filter(|_| !is_broken);
    let promises = whole.filter_map(|workload| promised(view, workload, pressure));
    promises.max().map(too_young)
}

/// Work that was promised more time than there is goes at the hard end in any case: it is asked to save itself before that.
fn asked_in_time(view: &View<'_>, load: &Load<'_>, purpose: &Purpose, waiting_on: WaitingOn) -> (Vec<Step>, WaitingOn) {
    let mut made = Steps::new(purpose.clone());
    let mut next = None;
    let is_promise = matches!(waiting_on, WaitingOn::Until { .. });
    for (uid, workload) in load.workloads.iter().filter(|_| is_promise) {
        match asked_at(view, workload, purpose.pressure) {
            Some(at) if at > view.now => next = next.into_iter().chain([at]).min(),
            Some(_) => {
                made.last = None;
                ask(view, &mut made, uid, workload, &[]);
            }
            None => {}
        }
    }
    (made.steps, next.map_or(waiting_on, asked_later))
}

/// When a workload that has less time than it was promised is asked to save itself, if it was not yet.
pub(super) fn asked_at(view: &View<'_>, workload: &WorkloadSeen, pressure: Pressure) -> Option<Timestamp> {
    let (_, tier) = view.harm.tier_of(workload)?;
    let checkpoint = tier.checkpoint.as_ref().filter(|one| one.signal == Signal::Annotation)?;
    let hard_at = pressure.hard_at.filter(|hard_at| *hard_at > view.now)?;
    let promised = workload.reserved?.checked_add(tier.minimum_runtime.signed()).ok()?;
    let is_short = promised > hard_at && !workload.marks.contains_key(ASKED);
    is_short.then(|| hard_at.checked_sub(checkpoint.deadline.signed()).ok())?
}

pub(super) fn asked_later(at: Timestamp) -> WaitingOn {
    WaitingOn::until(
        at,
        "its tier promises it a minimum runtime; then it is asked to save, because its time ends before that",
    )
}

/// What stands in the way of emptying a node in service that nothing takes away at an instant.
pub fn cannot_begin(view: &View<'_>, node: &NodeName) -> Option<WaitingOn> {
    blocked(view, &load(view, node), Pressure::default(), false)
}

/// Pods that were told to end and had their time on a node that says nothing, and stays where it is.
fn stuck(view: &View<'_>, node: &NodeName, seen: &NodeSeen) -> Option<WaitingOn> {
    let over = view.harm.pods_on(node).iter().filter(|pod| pod.had_its_time(view.now));
    let names: Vec<String> = over.map(|pod| pod.name.to_string()).collect();
    let since = seen.silent_since()?;
    (!names.is_empty()).then(|| {
        WaitingOn::Person(format!(
            "{node} does not answer since {since}, so nobody can see {} gone: see to the machine, or delete its Node \
             object if it is gone for good",
            names.join(", ")
        ))
    })
}

/// A pod that the API server never lets go.
pub(super) fn two_budgets(pod: &PodSeen, _: Pressure) -> Option<WaitingOn> {
    if pod.budgets.len() < 2 || is_on(Mistake::TwoBudgets) {
        return None;
    }
    let budgets: Vec<String> = pod.budgets.iter().map(ToString::to_string).collect();
    Some(WaitingOn::Person(format!(
        "pod {} is selected by more than one PodDisruptionBudget ({}), and the API server refuses every eviction of it: \
         keep one of them",
        pod.name,
        budgets.join(", ")
    )))
}

/// A pod whose eviction something in front of the API server refuses, in its words.
pub(super) fn refused(view: &View<'_>, pod: &PodSeen) -> Option<WaitingOn> {
    let said = view.input.observed.refused.get(&pod.uid).filter(|_| pod.terminating.is_none())?;
    if is_on(Mistake::TwoBudgets) {
        return None;
    }
    Some(WaitingOn::Person(format!("the API server does not let pod {} go: {said}. {}", pod.name, whom_to_ask(said))))
}

/// Who can do something about a refusal that no waiting ends.
pub fn whom_to_ask(said: &str) -> String {
    let webhook = said.split_once("admission webhook \"").and_then(|(_, rest)| rest.split_once('"'));
    match webhook {
        Some((name, _)) => format!("Ask who runs the webhook {name}, or move the pod yourself"),
        None => "Ask who keeps the cluster, or move the pod yourself".into(),
    }
}

/// A pod whose budget wants all of its pods up: no time brings an eviction of it.
pub(super) fn wants_all(view: &View<'_>, pod: &PodSeen) -> Option<WaitingOn> {
    let budgets = view.input.observed.cluster.budgets.seen();
    let asked = |name: &&NamespacedName| budgets.get(*name).is_some_and(|one| one.wants_all() && one.is_asked_for(pod));
    let name = pod.budgets.iter().find(asked).filter(|_| pod.terminating.is_none())?;
    let all = budgets.get(name)?.expected;
    Some(WaitingOn::Person(format!(
        "PodDisruptionBudget {name} wants all {all} of its pods up, so the API server never lets pod {} go: write \
         `maxUnavailable: 1` in it, or run one pod more",
        pod.name
    )))
}

/// A pod that is gone for good when it goes, unless a person said that it may.
pub(super) fn unmanaged(pod: &PodSeen, pressure: Pressure) -> Option<WaitingOn> {
    let stays = pod.keeper == Keeper::Nobody && !pressure.takes_unmanaged;
    stays.then(|| {
        let why = "has no controller: nobody makes it again. Delete it, or move it, yourself";
        WaitingOn::Person(format!("pod {} {why}", pod.name))
    })
}

/// A pod whose local data goes with it, where a person wants to be asked about that.
pub(super) fn local_data(pod: &PodSeen, pressure: Pressure) -> Option<WaitingOn> {
    let stays = pod.empty_dir && pressure.keeps_local_data;
    stays.then(|| {
        let why = "keeps data in an emptyDir, which goes with it. Save it, or say that it may go";
        WaitingOn::Person(format!("pod {} {why}", pod.name))
    })
}

/// Until when a workload was promised to run, if that is not over.
pub(super) fn promised(view: &View<'_>, workload: &WorkloadSeen, pressure: Pressure) -> Option<Timestamp> {
    let (_, tier) = view.harm.tier_of(workload)?;
    let until = workload.reserved?.checked_add(tier.minimum_runtime.signed()).ok()?;
    let until = pressure.hard_at.map_or(until, |hard_at| until.min(hard_at));
    (until > view.now).then_some(until)
}

/// Pods that leave by one step: those of a gang, or all that stand for themselves.
type Leaving<'a> = (Option<Gang<'a>>, Vec<&'a PodSeen>);

/// Which pods may be evicted in this plan, and the budget that keeps the others.
fn evict<'a>(
    view: &View<'a>,
    allowance: &mut Allowance,
    load: &Load<'a>,
    pressure: Pressure,
) -> (Vec<Leaving<'a>>, Option<NamespacedName>) {
    let force = pressure.deadline.is_some_and(|deadline| view.now >= deadline);
    let (mut chosen, mut left): (Vec<Leaving<'a>>, _) = (Vec::new(), None);
    let gangs = load.gangs.iter().map(|gang| (Some(*gang), view.harm.pods_of(*gang).to_vec()));
    for (gang, mut pods) in gangs.chain(load.singles.iter().map(|pod| (None, vec![*pod]))) {
        pods.retain(|pod| pod.terminating.is_none());
        match (if force { None } else { allowance.take(view, gang, &pods) }, chosen.last_mut()) {
            (Some(budget), _) => left = left.or(Some(budget)),
            (None, Some((None, singles))) => singles.extend(pods),
            (None, _) => chosen.push((gang, pods)),
        }
    }
    chosen.retain(|(_, pods)| !pods.is_empty());
    (chosen, left)
}

impl Allowance {
    /// Takes room for all of these pods, or for none and says which budget has not enough.
    pub(super) fn take(
        &mut self,
        view: &View<'_>,
        gang: Option<Gang<'_>>,
        pods: &[&PodSeen],
    ) -> Option<NamespacedName> {
        if gang.is_some_and(|gang| self.gangs.contains(&gang.to_string())) {
            return None;
        }
        let budgets = view.input.observed.cluster.budgets.seen();
        let mut wanted: BTreeMap<&NamespacedName, i32> = BTreeMap::new();
        for pod in pods {
            let asked = |name: &&NamespacedName| budgets.get(*name).is_none_or(|budget| budget.is_asked_for(pod));
            for budget in pod.budgets.iter().filter(asked) {
                *wanted.entry(budget).or_insert(0) += 1;
            }
        }
        let left = |name: &NamespacedName, known: &BTreeMap<NamespacedName, i32>| {
            known.get(name).copied().or_else(|| budgets.get(name).map(|budget| budget.allowed)).unwrap_or(0)
        };
        if let Some((short, _)) = wanted.iter().find(|(name, count)| left(name, &self.left) < **count) {
            return Some((*short).clone());
        }
        for (name, count) in wanted {
            let rest = left(name, &self.left).saturating_sub(count);
            self.left.insert(name.clone(), rest);
        }
        self.gangs.extend(gang.map(|gang| gang.to_string()));
        None
    }
}

/// Asks each gang that is about to be evicted to save itself, where the tier of its pods says so and it is not broken.
/// Says which steps have to be done first, and how long that may take.
fn ask_gangs(
    view: &View<'_>,
    made: &mut Steps,
    evicted: &[&PodSeen],
    since: Timestamp,
    holds: &[Fact],
    is_broken: bool,
) -> (Vec<StepId>, u64) {
    let pressure = made.purpose.pressure;
    let is_over = |at: Option<Timestamp>| at.is_some_and(|at| view.now >= at);
    let (mut ends, mut longest) = (Vec::new(), 0);
    if is_over(pressure.hard_at) || is_over(pressure.deadline) || is_broken {
        return (ends, longest);
    }
    let begin = made.last.clone();
    for (gang, pods, within_secs) in saving(view, evicted) {
        made.last.clone_from(&begin);
        if pods.iter().any(|pod| pod.asked.is_none_or(|asked| asked < since)) {
            let named = pods.iter().map(|pod| (pod.name.clone(), pod.uid.clone())).collect();
            let mark = Mark::new(view.now, made.purpose.why).of(view.fleet);
            let action = Action::Cluster(ClusterAction::AskPods { gang: gang.clone(), pods: named, mark });
            made.push(step_id("ask", gang, 0), action, holds.to_vec(), (1, 2));
        }
        let nodes = pods.iter().filter_map(|pod| pod.node.clone()).collect();
        let saved = Fact::PodsSaved { gang: gang.clone(), nodes, since, within_secs, hard_at: pressure.hard_at };
        made.push(step_id("saved", gang, 0), Action::Await(saved), vec![], (1, within_secs));
        ends.extend(made.last.clone());
        longest = longest.max(within_secs);
    }
    (ends, longest)
}

/// The gangs among these pods that no queue admitted and that can save their work, with how long they have for it.
pub(super) fn saving<'p>(view: &View<'_>, pods: &[&'p PodSeen]) -> Vec<(&'p GangName, Vec<&'p PodSeen>, u64)> {
    let mut gangs: BTreeMap<&GangName, Vec<&PodSeen>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.workload.is_none()) {
        if let Some(gang) = &pod.gang {
            gangs.entry(gang).or_default().push(pod);
        }
    }
    let saves = gangs.into_iter().filter_map(|(gang, pods)| {
        let priority = pods.iter().map(|pod| pod.priority).max()?;
        let checkpoint = view.harm.tier_by_priority(priority)?.1.checkpoint.as_ref()?;
        (checkpoint.signal == Signal::Annotation).then(|| (gang, pods, checkpoint.deadline.as_secs()))
    });
    saves.collect()
}

/// Asks a workload to save itself where its tier says so and it is not broken, then suspends it, waits until it is gone,
/// and lets it queue again. Says which step suspends it.
pub fn suspend(
    view: &View<'_>,
    made: &mut Steps,
    uid: &WorkloadUid,
    workload: &WorkloadSeen,
    holds: &[Fact],
    is_broken: bool,
) -> StepId {
    let hard_at = made.purpose.pressure.hard_at;
    let is_hard = hard_at.is_some_and(|hard_at| view.now >= hard_at);
    let checkpoint = view.harm.tier_of(workload).and_then(|(_, tier)| tier.checkpoint.as_ref());
    let mut takes = (2, 60);
    if let Some(checkpoint) = checkpoint.filter(|one| one.signal == Signal::Annotation && !is_hard && !is_broken) {
        if !workload.marks.contains_key(ASKED) {
            ask(view, made, uid, workload, holds);
        }
        let within_secs = checkpoint.deadline.as_secs();
        let saved = Fact::Saved { workload: uid.clone(), within_secs, hard_at };
        made.push(step_id("saved", &workload.name, 0), Action::Await(saved), vec![], (1, within_secs));
        takes.1 += within_secs;
    }
    let mark = Mark::new(view.now, made.purpose.why).of(view.fleet);
    let action = Action::Cluster(ClusterAction::Suspend { workload: uid.clone(), mark });
    let suspended = step_id("suspend", &workload.name, 0);
    made.push(suspended.clone(), action, holds.to_vec(), takes);
    made.disturbs(view, view.harm.hit_workload(uid), &[]);
    resume(made, uid, workload);
    suspended
}

/// Asks a workload to save its work.
pub(super) fn ask(view: &View<'_>, made: &mut Steps, uid: &WorkloadUid, workload: &WorkloadSeen, holds: &[Fact]) {
    let mark = Mark::new(view.now, made.purpose.why).of(view.fleet);
    let action = Action::Cluster(ClusterAction::Ask { workload: uid.clone(), mark });
    made.push(step_id("ask", &workload.name, 0), action, holds.to_vec(), (1, 2));
}

/// Waits until a suspended workload is gone, and lets it queue again: it keeps its place.
pub fn resume(made: &mut Steps, uid: &WorkloadUid, workload: &WorkloadSeen) {
    let released = Action::Await(Fact::Released(uid.clone()));
    made.push(step_id("released", &workload.name, 0), released, vec![], (2, 120));
    let action = Action::Cluster(ClusterAction::Resume { workload: uid.clone() });
    made.push(step_id("resume", &workload.name, 0), action, vec![Fact::Released(uid.clone())], (1, 2));
}

/// Steps in a row, each after the one before.
#[derive(Debug)]
pub struct Steps {
    pub purpose: Purpose,
    pub steps: Vec<Step>,
    pub last: Option<StepId>,
}

impl Steps {
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, steps: Vec::new(), last: None }
    }

    pub fn push(&mut self, id: StepId, action: Action, requires: Vec<Fact>, takes: (u64, u64)) {
        let after = self.last.iter().cloned().collect();
        self.last = Some(id.clone());
        self.steps.push(Step {
            id,
            on: self.purpose.on.clone(),
            action,
            after,
            requires,
            reason: self.purpose.reason.clone(),
            disruption: Disruption::default(),
            effects: Effects::default(),
            takes,
            consent: self.purpose.consent,
            urgency: self.purpose.reason.urgency(),
        });
    }

    /// The last step has these effects.
    pub fn with(&mut self, effects: Effects) {
        if let Some(step) = self.steps.last_mut() {
            step.effects.add(&effects);
        }
    }

    /// The last step disturbs somebody.
    fn disturbs(&mut self, view: &View<'_>, hit: Disruption, pods: &[&PodSeen]) {
        let effects = drained(view, &self.purpose.on, &hit, pods);
        self.with(effects);
        if let Some(step) = self.steps.last_mut() {
            step.disruption = hit;
        }
    }
}
