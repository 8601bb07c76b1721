//! Is the fleet as git says, and if not, what is it waiting for: the answer from an input and its plan.
//!
//! Plain numbers and names. Not here: words (`render::status`), and what to do about it (`plan`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rust_decimal::Decimal;

use super::reported::{self, ReportStatus};
use super::{pools, quotas};
use crate::effect::marks::HANDS_OFF;
use crate::effect::{DrainOrder, Freeze, Outcome, Quarantine, Recall, Thing};
use crate::fleet::Change;
use crate::fleet::quota::{Amount, Supply};
use crate::fleet::standing::{ReservationSpec, TermsSpec};
use crate::fleet::target::{PoolTarget, Purpose};
use crate::fleet::tide::Phase;
use crate::ids::{
    Digest, FleetName, LayoutName, NodeName, PlanId, PoolName, QuotaName, ReservationId, ReservationName, TideName,
    Zone,
};
use crate::observed::{Gap, ReservationState};
use crate::plan::harm::Harm;
use crate::plan::unmet::{Unmet, unmet};
use crate::plan::{Held, Plan, PlanInput, WaitingOn, anew, approved_before, asks, frozen_by_document};
use crate::units::{Ratio, Usd, ZoneName};

/// Everything that one screen says about a fleet.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    pub fleet: FleetName,
    pub time_zone: ZoneName,
    pub at: Timestamp,
    pub revision: Option<String>,
    pub plan: PlanId,
    pub verdict: Verdict,
    /// Steps that could be done now.
    pub steps: usize,
    /// Those of them that wait for an approval.
    pub unapproved: usize,
    /// By the digest that people name it by: an approval, given before, that covers all of them.
    pub approved: Option<Digest>,
    pub pools: Vec<PoolStatus>,
    pub reservations: Vec<ReservationStatus>,
    pub quotas: Vec<ShareStatus>,
    /// Teams whose work waits for what they are guaranteed, with who has it.
    pub unmet: Vec<Unmet>,
    pub tides: Vec<TideStatus>,
    /// When it was seen that the ledger which knew what people had said is lost, until somebody settles that.
    pub ledger_lost: Option<Timestamp>,
    /// The Fleet document's own comes first.
    pub freezes: Vec<Freeze>,
    pub quarantines: Vec<(NodeName, Quarantine)>,
    pub drains: Vec<(NodeName, DrainOrder)>,
    /// Nodes with a person's word on them: nothing is done to them. With what the person wrote.
    pub hands_off: Vec<(NodeName, String)>,
    /// Nodes that show what their HealthPolicy only reports.
    pub reports: Vec<ReportStatus>,
    pub held: Vec<Held>,
    pub gaps: Vec<Gap>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As git says.
    Converged,
    /// There is something to do, or something that was done has not shown yet.
    Changing,
    /// Something is wanted, and nothing of it can be done now.
    Blocked,
    /// Everything is stopped.
    Frozen,
}

/// How many nodes of a pool are where. Every slot is counted once.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolStatus {
    pub pool: PoolName,
    pub instance_type: String,
    pub gpus_per_node: u32,
    pub wanted: u32,
    /// In service.
    pub ready: u32,
    /// Marked by us: being emptied, or empty and about to change.
    pub draining: u32,
    /// Emptied and kept so because a person, or the health policy, said so.
    pub closed: u32,
    /// Closed to new pods by somebody else.
    pub cordoned: u32,
    /// Asked for, and not in the cluster yet.
    pub launching: u32,
    /// In the cluster, and not ready.
    pub unready: u32,
    /// Nothing is there.
    pub missing: u32,
    /// Beyond what is wanted.
    pub surplus: u32,
    /// Those of them that are marked by us, and closed: they are on their way out.
    pub leaving: u32,
    pub spares: u32,
    pub layouts: BTreeMap<LayoutName, LayoutCount>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LayoutCount {
    /// How many nodes should be cut this way.
    pub wanted: u32,
    /// How many are, of those in the cluster.
    pub cut: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ReservationStatus {
    pub reservation: ReservationName,
    pub id: Option<ReservationId>,
    pub zone: Option<Zone>,
    /// What the document says.
    pub wanted: u32,
    /// None: it is not there, or could not be read.
    pub seen: Option<HeldCapacity>,
    pub block: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct HeldCapacity {
    pub state: ReservationState,
    pub nodes: u32,
    pub used: u32,
    pub idle: u32,
    /// What the idle nodes cost an hour; none where no price is known.
    pub idle_usd_hour: Option<Usd>,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
}

/// A quota's share of one pool, in the unit of its guarantee.
#[derive(Clone, PartialEq, Debug)]
pub struct ShareStatus {
    pub quota: QuotaName,
    pub pool: PoolName,
    /// What its queue in the cluster promises now.
    pub guarantee: Option<Amount>,
    /// What the documents ask for at this hour, where that is something else.
    pub wanted: Option<Amount>,
    /// What it has from other quotas by a tide.
    pub loaned: Supply,
    /// What its admitted work holds.
    pub used: Supply,
    /// What of that is beyond its guarantee and its loans.
    pub borrowed: Supply,
    /// What others have of its guarantee: by a tide, and by borrowing.
    pub lent: Supply,
    /// Workloads that wait for room. They name no pool, so this is the quota's, told with its first share.
    pub waiting: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TideStatus {
    pub tide: TideName,
    /// Where it is; one that its guard keeps from lending is where the clock has it.
    pub phase: Phase,
    /// When it turns next by the clock, and to what, if within 24 hours.
    pub next: Option<(Timestamp, Phase)>,
    pub lent: u32,
    pub returning: u32,
    pub recalled: Option<Recall>,
    pub guard: Option<GuardStatus>,
    /// Low by the clock, and lends nothing: the words of its guard.
    pub closed: Option<String>,
    /// Its document is gone.
    pub gone: bool,
    /// Its document was edited so that it is low no more.
    pub cut_short: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct GuardStatus {
    pub below: Ratio,
    /// The last sample; none: nobody answered.
    pub value: Option<(Ratio, Timestamp)>,
}

impl Status {
    pub fn of(input: &PlanInput, plan: &Plan) -> Status {
        let standing = &input.target.standing;
        let (head, handed) = (&input.ledger.head, quotas::handed_over(input));
        let by_document = standing.frozen.iter().map(|reason| frozen_by_document(reason, input.now));
        let mut status = Status {
            fleet: standing.fleet.clone(),
            time_zone: standing.time_zone.clone(),
            at: input.now,
            revision: input.revision.clone(),
            plan: plan.id.clone(),
            verdict: Verdict::Converged,
            steps: plan.steps.len(),
            unapproved: plan.steps.iter().filter(|step| asks(input, step)).count(),
            approved: approved_before(input, plan).map(|opened| opened.effects.clone()),
            pools: pools::pools(input),
            reservations: standing.reservations.iter().map(|(name, spec)| reservation(input, name, spec)).collect(),
            quotas: quotas::shares(input),
            unmet: unmet(input, &Harm::new(input)),
            tides: input.target.tides.iter().map(|(name, phase)| tide(input, &handed, name, phase)).collect(),
            ledger_lost: anew::since(input),
            freezes: by_document.chain(head.frozen.iter().cloned()).collect(),
            quarantines: head.quarantined.iter().map(|(node, why)| (node.clone(), why.clone())).collect(),
            drains: head.drains.iter().map(|(node, order)| (node.clone(), order.clone())).collect(),
            hands_off: hands_off(input),
            reports: reported::reports(input),
            held: plan.held.clone(),
            gaps: distinct(input.observed.gaps()),
        };
        status.verdict = verdict(&status);
        status
    }

    /// The freeze of the whole fleet, if there is one.
    pub fn stopped_by(&self) -> Option<&Freeze> {
        self.freezes.iter().find(|freeze| freeze.scope == crate::effect::Scope::Fleet)
    }
}

impl PoolStatus {
    /// Nodes in service that do not show the layout that they should have.
    pub fn uncut(&self) -> u32 {
        let lacking: u32 = self.layouts.values().map(|layout| layout.wanted.saturating_sub(layout.cut)).sum();
        lacking.saturating_sub(self.launching + self.missing + self.unready)
    }
}

fn verdict(status: &Status) -> Verdict {
    let coming = status.pools.iter().any(|pool| pool.launching > stopped(status, &pool.pool));
    let short = status.pools.iter().any(|pool| pool.missing + pool.unready + pool.surplus + pool.uncut() > 0);
    match () {
        () if status.stopped_by().is_some() => Verdict::Frozen,
        () if status.steps > 0 || coming => Verdict::Changing,
        // A node that is not there and that nothing is done about is not what git says, whatever the plan says.
        () if !status.held.is_empty() || short || !status.gaps.is_empty() => Verdict::Blocked,
        () => Verdict::Converged,
    }
}

/// How much of a pool somebody keeps from going on: what starts there does not come into service by itself.
fn stopped(status: &Status, pool: &PoolName) -> u32 {
    let stops = |held: &&Held| matches!(held.waiting_on, WaitingOn::Frozen(_) | WaitingOn::HandsOff(_));
    let held = status.held.iter().filter(|held| held.what == Thing::Pool(pool.clone())).filter(stops);
    u32::try_from(held.count()).unwrap_or(u32::MAX)
}

fn reservation(input: &PlanInput, name: &ReservationName, spec: &ReservationSpec) -> ReservationStatus {
    let adopted = || spec.id.as_deref().map(ReservationId::from);
    let id = input.ledger.head.reservations.get(name).and_then(|held| held.id.clone()).or_else(adopted);
    let found = id.as_ref().and_then(|id| input.observed.cloud.reservations.seen().get(id));
    let seen = found.map(|found| {
        let usable = found.state == ReservationState::Active;
        let idle = if usable { found.available } else { 0 };
        let each = if found.block { block_price(input, name, found.total) } else { spec.shape.on_demand };
        HeldCapacity {
            state: found.state.clone(),
            nodes: found.total,
            // What has not begun has no place to use yet, and says that none is available.
            used: if usable { found.total.saturating_sub(found.available) } else { 0 },
            idle,
            idle_usd_hour: each.map(|price| Usd(price.0 * Decimal::from(idle))),
            start: found.start,
            end: found.end,
        }
    });
    let block = matches!(spec.terms, TermsSpec::Block(_)) || found.is_some_and(|found| found.block);
    ReservationStatus { reservation: name.clone(), id, zone: spec.zone.clone(), wanted: spec.nodes, seen, block }
}

/// What a node of a block cost for each of its hours, where we bought it.
fn block_price(input: &PlanInput, name: &ReservationName, nodes: u32) -> Option<Usd> {
    let bought = input.ledger.head.purchases.iter().find(|purchase| {
        purchase.intent.request.reservation == *name
            && purchase.intent.request.extends.is_none()
            && matches!(purchase.outcome, Outcome::Bought(_))
    })?;
    let TermsSpec::Block(block) = &input.target.standing.reservations.get(name)?.terms else { return None };
    let hours = Decimal::from(block.duration.as_secs()) / Decimal::from(3600);
    bought.intent.request.fee.0.checked_div(hours * Decimal::from(nodes)).map(Usd)
}

fn tide(input: &PlanInput, handed: &BTreeMap<PoolName, PoolTarget>, name: &TideName, phase: &Phase) -> TideStatus {
    let (spec, held) = (input.target.standing.tides.get(name), input.closed.get(name));
    // What is planned for it begins with the next low tide; this one may still begin, until it would ask back.
    let phase = held.map_or(*phase, |held| Phase::Low { reclaim_at: held.reclaim_at });
    let asks_back = held.zip(spec).and_then(|(held, spec)| {
        let (hard_at, due) = spec.asks_back(None, phase)?;
        Some((held.reclaim_at, Phase::Reclaiming { hard_at, due }))
    });
    let planned = || {
        input.upcoming.iter().find_map(|(at, changes)| {
            changes.iter().find_map(|change| match change {
                Change::Tide { tide, phase } if tide == name => Some((*at, *phase)),
                _ => None,
            })
        })
    };
    let next = asks_back.or_else(planned);
    let (mut lent, mut returning) = (0, 0);
    for part in handed.values().flat_map(|pool| &pool.parts) {
        match &part.purpose {
            Purpose::Lent { tide, .. } if tide == name => lent += part.nodes,
            Purpose::Returning { tide, .. } if tide == name => returning += part.nodes,
            _ => {}
        }
    }
    let guard = spec.and_then(|spec| spec.guard.as_ref()).map(|guard| {
        let sample = input.observed.guards.get(name).and_then(Option::as_ref);
        GuardStatus { below: guard.below, value: sample.map(|sample| (sample.value, sample.at)) }
    });
    let (recalled, closed) = (input.recalled.get(name).cloned(), held.map(|held| held.why.clone()));
    let (gone, cut_short) = (input.gone.contains(name), input.cut_short.contains(name));
    TideStatus { tide: name.clone(), phase, next, lent, returning, recalled, guard, closed, gone, cut_short }
}

/// The nodes that carry a person's word, with the word.
pub fn hands_off(input: &PlanInput) -> Vec<(NodeName, String)> {
    let nodes = input.observed.cluster.nodes.seen().iter();
    nodes.filter_map(|(name, node)| Some((name.clone(), node.annotation(HANDS_OFF)?.to_string()))).collect()
}

fn distinct(gaps: Vec<&Gap>) -> Vec<Gap> {
    let mut seen = BTreeSet::new();
    gaps.into_iter().filter(|gap| seen.insert((&gap.what, &gap.why))).cloned().collect()
}

#[cfg(test)]
mod tests;
