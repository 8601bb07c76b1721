//! Steps as people think of them: one line for all nodes of a pool that are replaced for one reason.
//!
//! A node has a chain of steps (cordon, wait, suspend, terminate, launch …), and what happens to it has one name. Steps
//! that name no node of their own, such as the suspension of a gang, belong to the node that waits for them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::Shown;
use super::words::{Words, shape_gpus};
use crate::effect::{Action, CloudAction, ClusterAction, Effects, Fact, LedgerChange, Thing, Verb};
use crate::ids::{InstanceId, NodeName, SlotId, StepId};
use crate::observed::ObjectKey;
use crate::plan::{Disruption, Reason, Step, asks};

/// What happens, from what is taken away for good to what nobody notices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Remove,
    Cancel,
    Delete,
    Drain,
    Release,
    Exchange,
    Replace,
    Reboot,
    Cut,
    Purchase,
    Resize,
    Change,
    Disown,
    Reopen,
    Reserve,
    Launch,
    Claim,
    Create,
    Prepare,
    Record,
}

/// One line of a plan, and what stands below it.
#[derive(Debug)]
pub struct Group<'a> {
    pub kind: Kind,
    /// None where things of several kinds are told together.
    pub on: Option<Thing>,
    pub why: String,
    pub steps: Vec<&'a Step>,
    /// Nodes, reservations or objects.
    pub count: u32,
    /// What is counted.
    pub unit: &'static str,
    pub gpus: u32,
    pub disruption: Disruption,
    pub effects: Effects,
    /// Seconds, from and to, along its longest path.
    pub takes: (u64, u64),
    /// Somebody has to say yes.
    pub asked: bool,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Drain => "drain",
            Self::Release => "release",
            Self::Exchange => "exchange",
            Self::Replace => "replace",
            Self::Reboot => "reboot",
            Self::Cut => "re-cut",
            Self::Purchase => "buy",
            Self::Resize => "resize",
            Self::Change => "change",
            Self::Disown => "let go",
            Self::Reopen => "reopen",
            Self::Reserve => "reserve",
            Self::Launch => "launch",
            Self::Claim => "claim",
            Self::Create => "create",
            Self::Prepare => "prepare",
            Self::Record => "record",
        }
    }

    pub const fn sign(self) -> &'static str {
        match self {
            Self::Remove | Self::Cancel | Self::Delete => "-",
            Self::Drain | Self::Release | Self::Exchange | Self::Reboot => "!",
            Self::Replace => "-+",
            Self::Purchase => "$",
            Self::Cut | Self::Resize | Self::Change | Self::Disown | Self::Reopen => "~",
            Self::Reserve | Self::Launch | Self::Claim | Self::Create => "+",
            Self::Prepare | Self::Record => "·",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Cancel | Self::Resize | Self::Reserve => "reservation",
            Self::Purchase => "Capacity Block",
            Self::Delete | Self::Disown | Self::Create => "object",
            Self::Prepare => "template",
            Self::Record => "note",
            _ => "node",
        }
    }
}

/// What makes two nodes one line: what happens, to what, and why.
type Line = (Kind, Option<Thing>, String);

/// The lines of a plan, the riskiest first.
pub fn groups<'a>(shown: &Shown<'a>) -> Vec<Group<'a>> {
    let words = shown.words();
    let units = Units::of(shown);
    let mut sorted: BTreeMap<Line, Vec<(usize, &'a Step)>> = BTreeMap::new();
    let mut counts: BTreeMap<Line, u32> = BTreeMap::new();
    for steps in units.steps.values() {
        let alone: Vec<&Step> = steps.iter().map(|(_, step)| *step).collect();
        let key = key(shown, &alone, &words);
        *counts.entry(key.clone()).or_default() += objects(key.0, &alone);
        sorted.entry(key).or_default().extend(steps);
    }
    let mut groups: Vec<Group<'a>> = sorted
        .into_iter()
        .map(|(key, mut steps)| {
            // In the plan's order, also where the chains of several nodes are told together.
            steps.sort_by_key(|(index, _)| *index);
            let steps = steps.into_iter().map(|(_, step)| step).collect();
            let count = counts.get(&key).copied().unwrap_or(0);
            let (kind, on, why) = key;
            group(shown, kind, on, why, steps, count)
        })
        .collect();
    groups.sort_by_key(risk);
    groups
}

/// Who is disturbed comes first, then what is taken away, then what costs money, then the rest; the most of each first.
fn risk(group: &Group<'_>) -> impl Ord + use<> {
    let (upfront, hourly) =
        group.effects.0.values().fold((Decimal::ZERO, Decimal::ZERO), |(upfront, hourly), amount| {
            (upfront + amount.usd_upfront.0, hourly + amount.usd_hour.0)
        });
    let class = match group.kind {
        _ if !group.disruption.is_none() => 0,
        kind if kind <= Kind::Cut => 1,
        _ if upfront > Decimal::ZERO || hourly > Decimal::ZERO => 2,
        _ => 3,
    };
    let (lost, pods) = (Reverse(group.disruption.gpu_secs), Reverse(group.disruption.pods));
    let money = (class == 2).then_some((Reverse(upfront), Reverse(hourly)));
    (class, lost, pods, money, group.kind)
}

/// A unit counts once, except where it is made of objects.
fn objects(kind: Kind, steps: &[&Step]) -> u32 {
    let of = |wanted: fn(&Action) -> bool| {
        u32::try_from(steps.iter().filter(|step| wanted(&step.action)).count()).unwrap_or(u32::MAX)
    };
    match kind {
        Kind::Record | Kind::Prepare => of(|action| !matches!(action, Action::Await(_))),
        _ => 1,
    }
}

fn group<'a>(
    shown: &Shown<'a>,
    kind: Kind,
    on: Option<Thing>,
    why: String,
    steps: Vec<&'a Step>,
    count: u32,
) -> Group<'a> {
    let (mut disruption, mut effects) = (Disruption::default(), Effects::default());
    for step in &steps {
        disruption.add(&step.disruption);
        effects.add(&step.effects);
    }
    disruption.nodes.sort();
    disruption.nodes.dedup();
    let objects = kind == Kind::Change && applied(&steps).next().is_some();
    let unit = if objects { "object" } else { kind.unit() };
    let gpus = match (&on, unit) {
        (Some(Thing::Pool(pool)), "node") => count * shape_gpus(shown.input, pool),
        _ => 0,
    };
    let takes = longest(&steps);
    let asked = steps.iter().any(|step| asks(shown.input, step));
    Group { kind, on, why, steps, count, unit, gpus, disruption, effects, takes, asked }
}

/// The longest way through some steps, in the least and the most time that they take.
pub fn longest(steps: &[&Step]) -> (u64, u64) {
    let mut ends: BTreeMap<&StepId, (u64, u64)> = BTreeMap::new();
    let mut last = (0, 0);
    // A plan's steps stand in an order in which they can be done.
    for step in steps {
        let start =
            step.after.iter().filter_map(|id| ends.get(id)).fold((0, 0), |(a, b), (c, d)| (a.max(*c), b.max(*d)));
        let end = (start.0 + step.takes.0, start.1 + step.takes.1);
        ends.insert(&step.id, end);
        last = (last.0.max(end.0), last.1.max(end.1));
    }
    last
}

fn key(shown: &Shown<'_>, steps: &[&Step], words: &Words<'_>) -> Line {
    let kind = kind(shown, steps);
    let main = main_step(steps);
    let told = |step: &&&Step| !matches!(step.reason, Reason::For(_) | Reason::Bookkeeping);
    let why = steps.iter().find(|step| step.id == main.id).filter(told).or_else(|| steps.iter().find(told));
    let why = why.map(|step| words.reason(&step.reason)).unwrap_or_default();
    match kind {
        // What is new disturbs nobody: one line for all of it.
        Kind::Create => (kind, None, String::new()),
        Kind::Record | Kind::Prepare => (kind, None, String::new()),
        _ => (kind, Some(main.on.clone()), why),
    }
}

/// The step that gives a chain its name: the one with effects, or else the first.
fn main_step<'a>(steps: &[&'a Step]) -> &'a Step {
    let strongest = |step: &&&Step| step.effects.0.keys().map(|key| key.verb).min();
    let with_effects = steps.iter().filter(|step| !step.effects.is_empty()).min_by_key(strongest);
    with_effects.or_else(|| steps.first()).expect("a unit has at least one step")
}

fn kind(shown: &Shown<'_>, steps: &[&Step]) -> Kind {
    let cloud = |wanted: fn(&CloudAction) -> bool| {
        steps.iter().any(|step| matches!(&step.action, Action::Cloud(action) if wanted(action)))
    };
    let cluster = |wanted: fn(&ClusterAction) -> bool| {
        steps.iter().any(|step| matches!(&step.action, Action::Cluster(action) if wanted(action)))
    };
    let record = |wanted: fn(&LedgerChange) -> bool| {
        steps.iter().any(|step| matches!(&step.action, Action::Record(change) if wanted(change)))
    };
    let verb = |verb: Verb| steps.iter().any(|step| step.effects.0.keys().any(|key| key.verb == verb));
    let goes_for_good = || {
        steps
            .iter()
            .any(|step| matches!(step.reason, Reason::NotWanted | Reason::Resized | Reason::CapacityEnds { .. }))
    };
    if cloud(|action| matches!(action, CloudAction::Terminate { .. })) {
        let comes_back = cloud(|action| matches!(action, CloudAction::Launch(_))) || !goes_for_good();
        return if comes_back { Kind::Replace } else { Kind::Remove };
    }
    if cloud(|action| matches!(action, CloudAction::Cancel { .. })) {
        return Kind::Cancel;
    }
    if cluster(|action| matches!(action, ClusterAction::Delete(_))) {
        return Kind::Delete;
    }
    if cloud(|action| matches!(action, CloudAction::Reboot { .. })) {
        return Kind::Reboot;
    }
    if cluster(|action| matches!(action, ClusterAction::Cut { .. })) || verb(Verb::Cut) {
        return Kind::Cut;
    }
    if verb(Verb::Release) {
        return Kind::Release;
    }
    if verb(Verb::Exchange) {
        return Kind::Exchange;
    }
    if cloud(|action| matches!(action, CloudAction::Purchase(_))) {
        return Kind::Purchase;
    }
    if cloud(|action| matches!(action, CloudAction::Launch(_))) {
        return Kind::Launch;
    }
    if verb(Verb::Claim) || record(|change| matches!(change, LedgerChange::Claimed { .. })) {
        return Kind::Claim;
    }
    use ClusterAction as To;
    if cluster(|action| {
        let asks = matches!(action, To::Ask { .. } | To::AskPods { .. });
        asks || matches!(action, To::Cordon { .. } | To::Suspend { .. } | To::Shrink { .. } | To::Evict { .. })
    }) {
        return Kind::Drain;
    }
    if cloud(|action| matches!(action, CloudAction::Reserve(_))) {
        return Kind::Reserve;
    }
    if cloud(|action| matches!(action, CloudAction::Modify { .. })) {
        return Kind::Resize;
    }
    if cluster(|action| matches!(action, To::Disown(_))) {
        return Kind::Disown;
    }
    if cluster(|action| matches!(action, To::Uncordon { .. } | To::Resume { .. })) {
        return Kind::Reopen;
    }
    if cluster(|action| matches!(action, To::Apply(_))) {
        return if applied(steps).all(|key| is_new(shown, key)) { Kind::Create } else { Kind::Change };
    }
    if cluster(|_| true) {
        return Kind::Change;
    }
    if cloud(|_| true) { Kind::Prepare } else { Kind::Record }
}

fn applied<'a>(steps: &[&'a Step]) -> impl Iterator<Item = &'a ObjectKey> {
    steps.iter().filter_map(|step| match &step.action {
        Action::Cluster(ClusterAction::Apply(object)) => Some(&object.key),
        _ => None,
    })
}

fn is_new(shown: &Shown<'_>, key: &ObjectKey) -> bool {
    !shown.input.observed.cluster.objects.seen().contains_key(key)
}

/// What a chain of steps is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Unit {
    Slot(SlotId),
    Node(NodeName),
    /// A step that stands for itself, by its place.
    Alone(usize),
}

struct Units<'a> {
    /// In the order in which their first steps stand in the plan.
    steps: BTreeMap<usize, Vec<(usize, &'a Step)>>,
}

impl<'a> Units<'a> {
    fn of(shown: &Shown<'a>) -> Self {
        let plan = shown.plan;
        let places = Places::of(shown);
        let by_id: BTreeMap<&StepId, &Step> = plan.steps.iter().map(|step| (&step.id, step)).collect();
        let mut unit: BTreeMap<&StepId, Unit> = BTreeMap::new();
        for step in &plan.steps {
            if let Some(found) = places.unit(step) {
                unit.insert(&step.id, found);
            }
        }
        // What names no node belongs to what waits for it: looked for from the end, where the dependents are.
        for step in plan.steps.iter().rev() {
            for before in &step.after {
                let known = unit.get(&step.id).cloned();
                if let (Some(known), Some(before)) = (known, by_id.get(before))
                    && !unit.contains_key(&before.id)
                    && before.on == step.on
                    && !stands_alone(&before.action)
                {
                    unit.insert(&before.id, known);
                }
            }
        }
        let mut first: BTreeMap<Unit, usize> = BTreeMap::new();
        let mut steps: BTreeMap<usize, Vec<(usize, &'a Step)>> = BTreeMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            let unit = unit.get(&step.id).cloned().unwrap_or(Unit::Alone(index));
            let at = *first.entry(unit).or_insert(index);
            steps.entry(at).or_default().push((index, step));
        }
        Self { steps }
    }
}

/// Things of their own, also where a node waits for them.
fn stands_alone(action: &Action) -> bool {
    match action {
        Action::Cloud(action) => !matches!(action, CloudAction::Launch(_)),
        Action::Cluster(action) => matches!(action, ClusterAction::Apply(_) | ClusterAction::Delete(_)),
        Action::Record(_) | Action::Await(_) => false,
    }
}

/// Which slot an instance or a node serves.
struct Places<'a> {
    by_instance: BTreeMap<&'a InstanceId, SlotId>,
    by_node: BTreeMap<&'a NodeName, SlotId>,
}

impl<'a> Places<'a> {
    fn of(shown: &Shown<'a>) -> Self {
        let mut by_instance = BTreeMap::new();
        let mut by_node = BTreeMap::new();
        for (pool, ledger) in &shown.input.ledger.pools {
            for (index, slot) in &ledger.slots {
                let id = SlotId::new(pool, *index);
                slot.instance.iter().for_each(|instance| drop(by_instance.insert(instance, id.clone())));
                slot.node.iter().for_each(|node| drop(by_node.insert(node, id.clone())));
            }
        }
        for (name, node) in shown.input.observed.cluster.nodes.seen() {
            if let Some(slot) = node.instance.as_ref().and_then(|instance| by_instance.get(instance)) {
                by_node.insert(name, slot.clone());
            }
        }
        Self { by_instance, by_node }
    }

    fn unit(&self, step: &Step) -> Option<Unit> {
        let own = match &step.action {
            Action::Cloud(
                CloudAction::Launch(crate::effect::LaunchRequest { slot, .. })
                | CloudAction::Terminate { slot, .. }
                | CloudAction::Reboot { slot, .. },
            ) => Some(Unit::Slot(slot.clone())),
            Action::Cloud(_) => None,
            Action::Cluster(
                ClusterAction::Dress { node, .. }
                | ClusterAction::Cordon { node, .. }
                | ClusterAction::Uncordon { node }
                | ClusterAction::Cut { node, .. },
            ) => Some(self.node(node)),
            Action::Cluster(_) => None,
            Action::Record(change) => slot_of(change).map(|slot| Unit::Slot(slot.clone())),
            Action::Await(fact) => self.fact(fact),
        };
        let required = || match &step.action {
            Action::Cluster(
                ClusterAction::Suspend { .. }
                | ClusterAction::Evict { .. }
                | ClusterAction::Ask { .. }
                | ClusterAction::AskPods { .. },
            ) => step.requires.iter().find_map(|fact| self.fact(fact)),
            _ => None,
        };
        own.or_else(required)
    }

    fn node(&self, node: &NodeName) -> Unit {
        self.by_node.get(node).map_or_else(|| Unit::Node(node.clone()), |slot| Unit::Slot(slot.clone()))
    }

    fn fact(&self, fact: &Fact) -> Option<Unit> {
        match fact {
            Fact::Gone(instance)
            | Fact::Live(instance)
            | Fact::Unlisted(instance)
            | Fact::Joined { instance }
            | Fact::Unjoined(instance) => self.by_instance.get(instance).map(|slot| Unit::Slot(slot.clone())),
            Fact::Unopened(node)
            | Fact::Settled(node)
            | Fact::Cordoned(node)
            | Fact::HoldsOnly { node, .. }
            | Fact::NobodyBut { node, .. }
            | Fact::Empty(node)
            | Fact::GivenUp(node)
            | Fact::LaidOut { node, .. }
            | Fact::Admitted { node, .. }
            | Fact::Ready(node)
            | Fact::Booted { node, .. }
            | Fact::InService(node) => Some(self.node(node)),
            _ => None,
        }
    }
}

fn slot_of(change: &LedgerChange) -> Option<&SlotId> {
    match change {
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
    }
}
