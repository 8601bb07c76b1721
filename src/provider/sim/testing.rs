//! A small world for the simulator's own tests: a fleet that has begun, a template, a group, and short words for calls.

use std::future::Future;

use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};

use super::Sim;
use crate::effect::hash::named_token;
use crate::effect::{CloudAction, LaunchRequest, LedgerChange, PurchaseRequest, ReserveRequest, Subject, Template};
use crate::fleet::Target;
use crate::fleet::reservation::Match;
use crate::fleet::testing::{at, fleet_in};
use crate::ids::{InstanceId, ReservationId, SlotId};
use crate::observed::{CloudSeen, InstanceSeen, Market, NodeSeen, ReservationSeen};
use crate::provider::{Class, Clock, Cloud, Cluster, Done, ProviderError};

pub const NOON: &str = "2026-06-01T12:00Z";
pub const P5: &str = "p5.48xlarge";
pub const ZONE: &str = "us-west-2a";

/// A fleet that wants a block, begun, with the template `train` and the group `train`.
pub const FLEET: &str = "
kind: Reservation
metadata: {name: base}
spec: {instanceType: p5.48xlarge, zone: us-west-2a, nodes: 2, onDemand: {}}
---
kind: Reservation
metadata: {name: june}
spec:
  instanceType: p5.48xlarge
  zone: us-west-2a
  nodes: 4
  capacityBlock:
    duration: 2d
    startBetween: {from: 2026-06-03, to: 2026-06-12}
    maxUpfrontUsd: 20000
    extend: {by: 1d}
---
kind: NodePool
metadata: {name: train}
spec:
  instanceType: p5.48xlarge
  nodes: 2
  capacity: [{reservation: base}, {reservation: june}, {onDemand: {max: 2}}, {spot: {max: 2, maxPricePercent: 60}}]
";

pub fn target() -> Target {
    fleet_in("UTC", NOON, FLEET).target_at(at(NOON))
}

pub fn lab() -> Sim {
    lab_with(1)
}

pub fn lab_with(seed: u64) -> Sim {
    let sim = Sim::in_memory(at(NOON), seed);
    begin(&sim);
    sim
}

pub fn begin(sim: &Sim) {
    sim.remember(&LedgerChange::Begin { fleet: "fleet-1".into(), began: None });
    ask(sim, &CloudAction::EnsureTemplate(template("one"))).unwrap();
    ask(sim, &CloudAction::EnsureGroup { group: "train".into() }).unwrap();
}

pub fn template(digest: &str) -> Template {
    Template {
        name: "train".into(),
        instance_type: P5.into(),
        launch: None,
        user_data: None,
        labels: [("tidewright.dev/pool".to_string(), "train".to_string())].into(),
        taints: Vec::new(),
        digest: digest.into(),
    }
}

/// An on-demand launch of a slot's first generation.
pub fn launch(slot: u32) -> LaunchRequest {
    let slot = SlotId::new(&"train".into(), slot);
    LaunchRequest {
        token: named_token(&[&slot.to_string(), "1", ZONE]),
        slot,
        generation: 1,
        instance_type: P5.into(),
        zone: ZONE.into(),
        market: Market::OnDemand,
        reservation: None,
        max_price: None,
        template: "train".into(),
        template_digest: "one".into(),
        group: Some("train".into()),
        source: 0,
        host: None,
    }
}

pub fn launch_into(slot: u32, reservation: &ReservationId) -> LaunchRequest {
    LaunchRequest { market: Market::Reserved, reservation: Some(reservation.clone()), ..launch(slot) }
}

pub fn reserve(nodes: u32, matching: Match, end: Option<Timestamp>) -> ReserveRequest {
    ReserveRequest {
        reservation: "base".into(),
        generation: 1,
        token: named_token(&["base", "1"]),
        instance_type: P5.into(),
        zone: ZONE.into(),
        nodes,
        end,
        matching,
    }
}

/// A call that comes back at once.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the simulator answers at once")
}

pub fn ask(sim: &Sim, action: &CloudAction) -> Result<Done, ProviderError> {
    now(Cloud::perform(sim, action))
}

pub fn run(sim: &Sim, request: LaunchRequest) -> Result<InstanceId, ProviderError> {
    match ask(sim, &CloudAction::Launch(request))? {
        Done::Instance(id) => Ok(id),
        other => panic!("{other:?}"),
    }
}

pub fn hold(sim: &Sim, request: ReserveRequest) -> Result<ReservationId, ProviderError> {
    reservation_of(ask(sim, &CloudAction::Reserve(request))?)
}

pub fn buy(sim: &Sim, request: PurchaseRequest) -> Result<ReservationId, ProviderError> {
    reservation_of(ask(sim, &CloudAction::Purchase(request))?)
}

fn reservation_of(done: Done) -> Result<ReservationId, ProviderError> {
    match done {
        Done::Reservation(id) => Ok(id),
        other => panic!("{other:?}"),
    }
}

pub fn terminate(sim: &Sim, id: &InstanceId) -> Result<Done, ProviderError> {
    ask(sim, &CloudAction::Terminate { slot: SlotId::new(&"train".into(), 0), instance: id.clone() })
}

/// The class of an error, and its code.
pub fn said<T: std::fmt::Debug>(answer: Result<T, ProviderError>) -> (Class, String) {
    let error = answer.unwrap_err();
    let code = error.message.split(':').next().unwrap_or_default().to_string();
    (error.class, code)
}

pub fn seen(sim: &Sim) -> CloudSeen {
    now(Cloud::observe(sim, &target()))
}

pub fn instance(sim: &Sim, id: &InstanceId) -> Option<InstanceSeen> {
    now(Cloud::reread(sim, &[Subject::Instance(id.clone())])).instances.seen().get(id).cloned()
}

pub fn reservation(sim: &Sim, id: &ReservationId) -> Option<ReservationSeen> {
    now(Cloud::reread(sim, &[Subject::Reservation(id.clone())])).reservations.seen().get(id).cloned()
}

/// The node of an instance.
pub fn node(sim: &Sim, id: &InstanceId) -> Option<NodeSeen> {
    let seen = now(Cluster::observe(sim, &target()));
    seen.nodes.seen().values().find(|node| node.instance.as_ref() == Some(id)).cloned()
}

pub fn sleep(sim: &Sim, secs: i64) {
    now(sim.sleep_until(Clock::now(sim) + SignedDuration::from_secs(secs)));
}

pub fn sleep_to(sim: &Sim, instant: &str) {
    now(sim.sleep_until(at(instant)));
}
