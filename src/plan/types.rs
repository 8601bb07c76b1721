//! What a plan is made of.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::stands::Stands;
use crate::compile::cuts;
use crate::compile::seats::Scene;
pub use crate::compile::seats::Seats;
use crate::effect::{Action, Counts, Desired, Effects, Fact, Freeze, Ledger, Opened, Recall, Scope, Thing};
use crate::fleet::policy::Remedy;
use crate::fleet::target::PoolTarget;
use crate::fleet::{Change, Target};
use crate::ids::{
    Digest, FleetUid, InstanceId, LayoutName, NamespacedName, NodeName, OfferingId, PlanId, PoolName, QuotaName,
    ReservationId, ReservationName, SlotId, StepId, TideName, TierName, Zone,
};
use crate::observed::{Gap, NoticeKind, ObjectKey, Observed};
use crate::units::{Duration, Usd};

/// Everything that a plan depends on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanInput {
    /// What the ledger will be told that the fleet is, before its first record.
    pub fleet: FleetUid,
    pub now: Timestamp,
    pub target: Target,
    /// What the tide changes in the next 24 hours.
    pub upcoming: Vec<(Timestamp, Vec<Change>)>,
    pub desired: Desired,
    pub observed: Observed,
    /// With every pool under the name that the documents give.
    pub ledger: Ledger,
    /// Pools that are kept under another name until that is written down: the old name by the new one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub renamed: BTreeMap<PoolName, PoolName>,
    /// Machines of ours that no slot remembers, in the slots that they serve.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<SlotId, InstanceId>,
    /// Tides that are low by the clock and lend nothing, because their guard says no or nothing.
    #[serde(default)]
    pub closed: BTreeMap<TideName, Closed>,
    /// Tides that were turned before their time, while the low tide that this fell into lasts.
    #[serde(default)]
    pub recalled: BTreeMap<TideName, Recall>,
    /// Tides of the target that have no document any more: what they lent is asked back.
    #[serde(default)]
    pub gone: BTreeSet<TideName>,
    /// Tides whose low tide was ended by an edit while they lent: what they lent is asked back.
    #[serde(default)]
    pub cut_short: BTreeSet<TideName>,
    /// The git revision of the documents, where they come from one.
    pub revision: Option<String>,
    /// Only what concerns these; empty: everything.
    pub only: Vec<Thing>,
    /// Only what concerns this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_node: Option<NodeName>,
    /// Nodes with work move too, where that buys crossings or large free slots that are worth it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub defragment: bool,
}

/// A tide that could lend, and whose guard does not let it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Closed {
    /// The words of its guard.
    pub why: String,
    /// When it would ask back what it lent: until then it may still begin.
    pub reclaim_at: Timestamp,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The digest of the input.
    pub id: PlanId,
    /// The digest of the effects: what an approval is bound to.
    pub digest: Digest,
    /// Of the steps and of all that is held on time, budget, capacity or approval.
    pub effects: Effects,
    /// In an order in which they can be done, the riskiest first where there is a choice.
    pub steps: Vec<Step>,
    pub held: Vec<Held>,
    /// What somebody else moved.
    pub drift: Vec<Drift>,
    /// What the tide will do within 24 hours.
    pub upcoming: Vec<Upcoming>,
    /// What is no longer in the documents: it stays as it is, and is no longer managed.
    pub released: Vec<Released>,
    /// Offers of Capacity Blocks that match what is wanted.
    pub offers: Vec<Offer>,
    /// What a reader should know: opted out of an open reservation, an instance that nobody explains.
    pub notes: Vec<Note>,
    /// What an hour costs, before and after.
    pub cost: Cost,
    /// What was left out because only a part was asked for.
    pub left_out: Vec<Thing>,
    /// How pools stand on the fabric, before and after; none of a fleet that says nothing about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<Stands>,
}

impl PlanInput {
    /// The target's pools as far as nodes that are cut anew have changed hands.
    pub fn handed_over(&self) -> BTreeMap<PoolName, PoolTarget> {
        self.target.handed_over(&cuts::seen(&self.scene()))
    }

    /// Which slots of a pool are wanted. Planner, judge and status ask here.
    pub fn seats(&self, pool: &PoolName) -> Seats {
        Seats::of(&self.scene(), pool)
    }

    /// What says which slots of a pool are wanted.
    fn scene(&self) -> Scene<'_> {
        let (cloud, cluster) = (&self.observed.cloud, &self.observed.cluster);
        Scene { target: &self.target, ledger: &self.ledger, found: &self.found, cloud, cluster, now: self.now }
    }

    /// A slot by the name that its pool has, where it is given by the one that the pool had.
    pub fn as_named(&self, slot: &SlotId) -> SlotId {
        let now = self.renamed.iter().find(|(_, old)| **old == slot.pool).map(|(new, _)| new);
        SlotId::new(now.unwrap_or(&slot.pool), slot.index)
    }

    /// A slot by the name that its pool is kept under.
    pub fn as_kept(&self, slot: &SlotId) -> SlotId {
        SlotId::new(self.renamed.get(&slot.pool).unwrap_or(&slot.pool), slot.index)
    }
}

impl Reason {
    pub fn urgency(&self) -> Urgency {
        match self {
            Self::Notice { .. } | Self::CapacityEnds { .. } => Urgency::Deadline,
            Self::Sick { .. }
            | Self::Quarantined { .. }
            | Self::Resized
            | Self::Lent { .. }
            | Self::Returning { .. } => Urgency::Granted,
            _ => Urgency::Chosen,
        }
    }
}

/// How a step stands to limits and freezes. It follows from the reason, which is for people: who applies looks at this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Urgency {
    /// Somebody chose it: a removal counts against the hourly limit.
    #[default]
    Chosen,
    /// A merge consented to it once and for all, within budgets of its own: tides, health.
    Granted,
    /// The cloud takes it at an instant: only a freeze of everything stops what comes before.
    Deadline,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    pub id: StepId,
    /// The part of the fleet that it belongs to.
    pub on: Thing,
    pub action: Action,
    /// Steps that must have succeeded.
    pub after: Vec<StepId>,
    /// What must hold just before it is done.
    pub requires: Vec<Fact>,
    pub reason: Reason,
    pub disruption: Disruption,
    /// Empty for a step that only prepares or waits.
    pub effects: Effects,
    /// Seconds, from and to.
    pub takes: (u64, u64),
    pub consent: Consent,
    #[serde(default)]
    pub urgency: Urgency,
}

/// Why a step is there. For people: nothing branches on it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Reason {
    /// The document asks for it.
    Wanted,
    /// The document asks for fewer.
    NotWanted,
    /// The tide makes the pool smaller, or has made it larger before.
    Resized,
    /// The pool's slot has no node.
    SlotEmpty,
    /// A request that was sent and not answered is sent again.
    Unanswered,
    /// What runs was launched from another template.
    Outdated,
    /// The reservation that it stands in is written smaller than what is in it.
    Overfull {
        reservation: ReservationName,
    },
    /// On the fabric another node is better for its pool; who has this one then.
    Fabric {
        to: Option<PoolName>,
    },
    /// The layout that the slot should have.
    Layout {
        from: Option<LayoutName>,
        to: LayoutName,
    },
    /// Lent by the tide.
    Lent {
        tide: TideName,
        to: QuotaName,
    },
    /// Asked back by the tide.
    Returning {
        tide: TideName,
        due: Timestamp,
    },
    Sick {
        remedy: Remedy,
        symptom: String,
    },
    Quarantined {
        by: String,
    },
    /// A person wants the node empty.
    Drained {
        by: String,
    },
    Notice {
        why: NoticeKind,
        at: Timestamp,
    },
    /// The cloud recommends to move it: it may take it away, and says neither that nor when.
    Recommended {
        since: Timestamp,
    },
    /// The capacity that it stands on ends.
    CapacityEnds {
        reservation: ReservationName,
        at: Timestamp,
    },
    /// Somebody else changed it.
    Drift {
        by: Option<String>,
    },
    /// Our own mark that nothing wants any more.
    LeftOver,
    /// Another step needs it.
    For(StepId),
    /// Only memory.
    Bookkeeping,
}

/// Who is disturbed, and what is lost at worst.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Disruption {
    pub nodes: Vec<NodeName>,
    pub pods: u32,
    pub gangs: Vec<GangHit>,
    pub teams: BTreeSet<QuotaName>,
    /// Work since the last save, in GPU-seconds.
    pub gpu_secs: u64,
    /// Disruption budgets that allow nothing now.
    pub blocked_by: Vec<NamespacedName>,
    /// Pods that nobody makes again, or whose local data goes with them.
    pub lost: Vec<NamespacedName>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GangHit {
    pub name: String,
    pub quota: Option<QuotaName>,
    pub tier: Option<TierName>,
    pub nodes: u32,
    pub pods: u32,
    pub gpus: u32,
    /// Since its last save, or since it began.
    pub at_risk_secs: u64,
}

/// Who said that a step may be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Consent {
    /// Given by the merge: tides, health, interruption, and what disturbs nobody and costs nothing.
    Standing,
    /// An approval has to cover its effects.
    Asked,
    /// Part of a roll-out that somebody approved, done where a tide empties the node anyway: it is paid with that
    /// approval, which is open, and nobody is asked again.
    Given,
}

/// Something that is wanted and not done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Held {
    pub what: Thing,
    /// One sentence: what is wanted.
    pub wanted: String,
    pub reason: Reason,
    pub effects: Effects,
    pub disruption: Disruption,
    pub waiting_on: WaitingOn,
    /// When it is expected to be done, where that can be said.
    pub done_by: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum WaitingOn {
    /// A budget that is used up by what goes on now.
    Budget {
        name: String,
        allowed: u32,
        used: u32,
        /// Who uses it, where that can be said, with why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        by: Vec<String>,
        /// What a person can do, where nothing that goes on by itself makes room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remedy: Option<String>,
    },
    /// An instant, why not before, and what to write where that should be otherwise.
    Until {
        at: Timestamp,
        why: String,
        remedy: Option<String>,
    },
    /// Nodes of a pool that went first and serve on the new version: since when, and until when they are watched.
    Canary {
        pool: PoolName,
        by: Vec<SlotId>,
        since: Timestamp,
        until: Timestamp,
    },
    /// The cloud has none; tried again at this time.
    Capacity {
        what: String,
        retry: Option<Timestamp>,
    },
    Step(StepId),
    DisruptionBudget(NamespacedName),
    /// Pods that must leave by themselves: a gang that nobody may touch.
    Gang {
        name: String,
    },
    Unread(Gap),
    /// The snapshot lost too much to be believed.
    Shrunk {
        seen: Counts,
        trusted: Counts,
    },
    Limit {
        name: String,
        allowed: Usd,
        wanted: Usd,
    },
    /// Somebody's word, by name: what is asked for is more than a limit lets through.
    Approval {
        digest: Digest,
        /// The limit, and how far this goes beyond it.
        why: String,
    },
    Frozen(Freeze),
    /// The node carries the annotation.
    HandsOff(NodeName),
    /// Another tool owns it: the change to make there.
    OtherOwner {
        object: ObjectKey,
        patch: String,
    },
    /// The tide's guard says no, or nothing.
    Guard {
        tide: TideName,
        why: String,
    },
    Person(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Drift {
    pub what: String,
    pub by: Option<String>,
    pub at: Option<Timestamp>,
    pub from: String,
    pub to: String,
    /// The step that puts it back, if one does.
    pub step: Option<StepId>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Upcoming {
    pub at: Timestamp,
    pub what: Thing,
    /// One sentence.
    pub change: String,
    /// What runs now and would be disturbed if it still ran then.
    pub disruption: Disruption,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Released {
    pub what: String,
    /// What stays: nodes, instances, dollars an hour.
    pub stays: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Offer {
    pub reservation: ReservationName,
    pub offering: OfferingId,
    pub extends: Option<ReservationId>,
    pub zone: Zone,
    pub nodes: u32,
    pub start: Timestamp,
    pub end: Timestamp,
    pub fee: Usd,
    /// Bought by this plan, or why not.
    pub verdict: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Note {
    pub on: Thing,
    pub text: String,
}

/// Dollars.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// On demand and spot, now and when all steps and all that is held are done.
    pub hourly_now: Usd,
    pub hourly_after: Usd,
    /// Reservations: paid whether used or not.
    pub reserved_now: Usd,
    pub reserved_after: Usd,
    pub idle_now: Usd,
    pub idle_after: Usd,
    pub upfront: Usd,
}

impl Plan {
    /// Nothing to do and nothing held.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.held.is_empty()
    }

    /// What happens by itself once somebody says yes: all but what waits for an approval by name.
    pub fn effects_but_for_approval(&self) -> Effects {
        let mut sum = Effects::default();
        self.steps.iter().for_each(|step| sum.add(&step.effects));
        let waits = self.held.iter().filter(|held| held.waiting_on.is_part_of_it());
        let waits = waits.filter(|held| !matches!(held.waiting_on, WaitingOn::Approval { .. }));
        waits.for_each(|held| sum.add(&held.effects));
        sum
    }

    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == *id)
    }
}

impl GangHit {
    /// What it loses, in GPU-seconds.
    pub fn gpu_secs(&self) -> u64 {
        u64::from(self.gpus).saturating_mul(self.at_risk_secs)
    }
}

impl Disruption {
    pub fn is_none(&self) -> bool {
        self.pods == 0 && self.gangs.is_empty()
    }

    pub fn add(&mut self, other: &Disruption) {
        for node in &other.nodes {
            if !self.nodes.contains(node) {
                self.nodes.push(node.clone());
            }
        }
        // A gang that two steps disturb goes once.
        let (mut pods, mut gpu_secs) = (other.pods, other.gpu_secs);
        for gang in &other.gangs {
            if self.gangs.contains(gang) {
                pods = pods.saturating_sub(gang.pods);
                gpu_secs = gpu_secs.saturating_sub(gang.gpu_secs());
            } else {
                self.gangs.push(gang.clone());
            }
        }
        self.pods = self.pods.saturating_add(pods);
        self.gpu_secs = self.gpu_secs.saturating_add(gpu_secs);
        self.teams.extend(other.teams.iter().cloned());
        for budget in &other.blocked_by {
            if !self.blocked_by.contains(budget) {
                self.blocked_by.push(budget.clone());
            }
        }
        for pod in &other.lost {
            if !self.lost.contains(pod) {
                self.lost.push(pod.clone());
            }
        }
    }
}

impl WaitingOn {
    /// A budget that is used up, by whom nobody can say.
    pub fn budget(name: impl Into<String>, allowed: u32, used: u32) -> Self {
        Self::Budget { name: name.into(), allowed, used, by: Vec::new(), remedy: None }
    }

    /// Something that only time brings.
    pub fn until(at: Timestamp, why: impl Into<String>) -> Self {
        Self::Until { at, why: why.into(), remedy: None }
    }

    /// Whether what waits on it is part of what an approval of the plan covers.
    pub fn is_part_of_it(&self) -> bool {
        self.passes_with_time() || matches!(self, Self::Approval { .. })
    }

    /// Whether it comes without anybody's doing. What waits for somebody's word does not, and neither does what a limit
    /// of none keeps back, or a budget that only a person makes room in.
    pub fn comes_by_itself(&self) -> bool {
        let by_person = matches!(self, Self::Budget { allowed: 0, .. } | Self::Budget { remedy: Some(_), .. });
        self.passes_with_time() && !by_person
    }

    fn passes_with_time(&self) -> bool {
        matches!(
            self,
            Self::Budget { .. }
                | Self::Until { .. }
                | Self::Canary { .. }
                | Self::Capacity { .. }
                | Self::Step(_)
                | Self::Gang { .. }
                | Self::DisruptionBudget(_)
        )
    }
}

/// Whether somebody has to say yes before a step is done. A word that was given for another plan is no word for this
/// one; but what was paid for and not done, because whoever did it died, needs no second word.
pub fn asks(input: &PlanInput, step: &Step) -> bool {
    let is_request = matches!(&step.action, Action::Cloud(action) if action.needs_intent());
    let paid = || {
        let request = step.id.as_str().replacen(':', " ", 1);
        is_request && input.ledger.head.spent.values().flatten().any(|purpose| *purpose == request)
    };
    step.consent == Consent::Asked && !step.effects.is_empty() && !paid()
}

/// The newest approval, given before, that still covers all of this plan that asks for one.
pub fn approved_before<'a>(input: &'a PlanInput, plan: &Plan) -> Option<&'a Opened> {
    let mut wanted = Effects::default();
    for step in plan.steps.iter().filter(|step| asks(input, step)) {
        wanted.add(&step.effects);
    }
    let opened = input.ledger.head.approvals.values();
    let covering = opened.filter(|opened| !wanted.is_empty() && wanted.within(&opened.left).is_ok());
    covering.max_by_key(|opened| opened.at)
}

/// What `plan` uses of these, named here so that every reader finds it: a freeze of nothing in particular.
pub fn frozen_by_document(reason: &str, now: Timestamp) -> Freeze {
    Freeze { scope: Scope::Fleet, by: "the Fleet document".into(), at: now, reason: reason.into(), all: true }
}

/// Seconds as a length.
pub fn secs(secs: u64) -> Duration {
    Duration::secs(secs)
}

/// The subject of a slot.
pub fn pool_of(slot: &SlotId) -> Thing {
    Thing::Pool(slot.pool.clone())
}

/// The subject of a pool.
pub fn thing(pool: &PoolName) -> Thing {
    Thing::Pool(pool.clone())
}
