//! The walk on a small world of its own.

mod exchange;
mod fake;
mod memory;
mod money;
mod requests;
mod stopping;
mod walking;

use jiff::{SignedDuration, Timestamp};

use super::{ApplyError, Patience, Report, StopSignal, apply};
use crate::audit::Audited;
use crate::effect::*;
use crate::fleet::testing::fleet_in;
use crate::ids::*;
use crate::observed::{Market, Observed};
use crate::plan::{Consent, Cost, Disruption, Plan, PlanInput, Reason, Step, Urgency};
use crate::status::{Event, EventKind};
use crate::units::Duration;
use fake::{Fake, run};

const FLEET: &str = "fleet-1";

fn plan(steps: Vec<Step>) -> Audited {
    let mut effects = Effects::default();
    steps.iter().for_each(|step| effects.add(&step.effects));
    Audited::unchecked(Plan {
        id: "plan-1".into(),
        digest: effects.digest(),
        effects,
        steps,
        held: Vec::new(),
        drift: Vec::new(),
        upcoming: Vec::new(),
        released: Vec::new(),
        offers: Vec::new(),
        notes: Vec::new(),
        cost: Cost::default(),
        left_out: Vec::new(),
        stands: None,
    })
}

/// What a plan would be made from now.
fn input(world: &Fake) -> PlanInput {
    PlanInput {
        fleet: FLEET.into(),
        now: world.now(),
        target: fleet_in("UTC", "2026-01-01T00:00Z", "").target_at(world.now()),
        upcoming: Vec::new(),
        desired: Desired::default(),
        observed: Observed::default(),
        ledger: world.memory(),
        renamed: Default::default(),
        found: Default::default(),
        closed: Default::default(),
        recalled: Default::default(),
        gone: Default::default(),
        cut_short: Default::default(),
        revision: None,
        only: Vec::new(),
        only_node: None,
        defragment: false,
    }
}

fn step(id: &str, action: Action) -> Step {
    Step {
        id: id.into(),
        on: Thing::Pool("train".into()),
        action,
        after: Vec::new(),
        requires: Vec::new(),
        reason: Reason::Wanted,
        urgency: Urgency::Chosen,
        disruption: Disruption::default(),
        effects: Effects::default(),
        takes: (0, 0),
        consent: Consent::Standing,
    }
}

fn after(step: Step, ids: &[&str]) -> Step {
    Step { after: ids.iter().map(|id| StepId::from(*id)).collect(), ..step }
}

fn requires(step: Step, fact: Fact) -> Step {
    Step { requires: vec![fact], ..step }
}

fn asked(step: Step, verb: Verb) -> Step {
    let effects = Effects::one(verb, step.on.clone(), Amount::count(1));
    Step { effects, consent: Consent::Asked, ..step }
}

fn cordon(node: &str) -> Step {
    let mark = marks::Mark::new(Timestamp::UNIX_EPOCH, "remove");
    step(&format!("cordon:{node}"), Action::Cluster(ClusterAction::Cordon { node: node.into(), mark }))
}

fn wait(id: &str, fact: Fact) -> Step {
    step(id, Action::Await(fact))
}

fn record(id: &str, change: LedgerChange) -> Step {
    step(id, Action::Record(change))
}

fn slot(index: u32) -> SlotId {
    SlotId::new(&"train".into(), index)
}

fn request(index: u32, generation: u32) -> LaunchRequest {
    let zone = Zone::from("us-west-2a");
    LaunchRequest {
        slot: slot(index),
        generation,
        token: token(&FLEET.into(), &slot(index), generation, &zone),
        instance_type: "p5.48xlarge".into(),
        zone,
        market: Market::OnDemand,
        reservation: None,
        max_price: None,
        template: "train".into(),
        template_digest: "t1".into(),
        group: None,
        source: 3,
        host: None,
    }
}

fn launch(index: u32, generation: u32) -> Step {
    let action = Action::Cloud(CloudAction::Launch(request(index, generation)));
    step(&format!("launch:train/{index}@{generation}"), action)
}

fn terminate(index: u32, instance: &str) -> Step {
    let action = CloudAction::Terminate { slot: slot(index), instance: instance.into() };
    step(&format!("terminate:train/{index}"), Action::Cloud(action))
}

fn patience(stop: &StopSignal) -> Patience<'_> {
    Patience { per_wait: Duration::minutes(30), total: None, poll: Duration::secs(10), concurrency: 4, stop }
}

struct Ran {
    report: Report,
    events: Vec<Event>,
}

impl Ran {
    /// How a step ended, or where it was last.
    fn last(&self, id: &str) -> &EventKind {
        let mut of = self.events.iter().rev().filter(|event| event.step.as_str() == id);
        &of.next().unwrap_or_else(|| panic!("nothing was told of {id}: {:#?}", self.events)).kind
    }

    fn skipped(&self, id: &str) -> &str {
        match self.last(id) {
            EventKind::Skipped { why, .. } => why,
            other => panic!("{id}: {other:?}"),
        }
    }

    fn class(&self, id: &str) -> &str {
        match self.last(id) {
            EventKind::Failed { class, .. } => class,
            other => panic!("{id}: {other:?}"),
        }
    }
}

/// Plans from what is there now, and walks.
fn go(world: &Fake, steps: Vec<Step>) -> Ran {
    let stop = StopSignal::default();
    try_go(world, &input(world), steps, None, &patience(&stop)).unwrap()
}

fn approved(world: &Fake, steps: Vec<Step>, approval: &Digest) -> Ran {
    let stop = StopSignal::default();
    try_go(world, &input(world), steps, Some(approval), &patience(&stop)).unwrap()
}

fn try_go(
    world: &Fake,
    input: &PlanInput,
    steps: Vec<Step>,
    approval: Option<&Digest>,
    patience: &Patience<'_>,
) -> Result<Ran, ApplyError> {
    let plan = plan(steps);
    let mut events = Vec::new();
    let mut tell = |event| events.push(event);
    let report = run(apply(&plan, input, approval, world.world(), patience, &mut tell))?;
    Ok(Ran { report, events })
}

fn secs(secs: i64) -> SignedDuration {
    SignedDuration::from_secs(secs)
}
