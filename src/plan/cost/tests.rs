//! What runs, what is reserved, and what steps change of it.

use super::*;
use crate::effect::{ReserveRequest, Thing};
use crate::fleet::reservation::Match;
use crate::ids::SlotId;
use crate::observed::{InstanceState, Read, ReservationTag, SlotTag};
use crate::plan::steps::step;
use crate::plan::testing::*;
use crate::plan::types::Reason;

fn input() -> PlanInput {
    let mut input = world(
        "2026-03-01T12:00Z",
        "kind: Reservation\nmetadata: {name: base}\nspec: {instanceType: p5.48xlarge, zone: us-west-2a, nodes: 4, onDemand: {}}\n",
    );
    let instance = |market: Market, state: InstanceState| InstanceSeen {
        tag: Some(SlotTag { fleet: "fleet-uid".into(), slot: SlotId::new(&"train".into(), 0), generation: 1 }),
        token: None,
        state,
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        market,
        reservation: None,
        group: None,
        template: None,
        launched: input.now,
        network: Vec::new(),
        notice: None,
    };
    let running = || InstanceState::Running;
    let foreign = InstanceSeen { tag: None, ..instance(Market::OnDemand, running()) };
    let instances = [
        ("i-1", instance(Market::OnDemand, running())),
        ("i-2", instance(Market::Spot, running())),
        ("i-3", instance(Market::Reserved, running())),
        ("i-4", instance(Market::OnDemand, InstanceState::Terminated)),
        ("i-5", foreign),
    ];
    let seen = ReservationSeen {
        tag: Some(ReservationTag { fleet: "fleet-uid".into(), reservation: "base".into(), generation: 1 }),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        total: 4,
        available: 3,
        state: ReservationState::Active,
        start: None,
        end: None,
        matching: Match::Targeted,
        block: false,
        offering: None,
        network: Vec::new(),
    };
    let cloud = &mut input.observed.cloud;
    cloud.instances = Read::new(instances.into_iter().map(|(id, seen)| (id.into(), seen)).collect(), input.now);
    cloud.reservations = Read::new([("cr-1".into(), seen)].into(), input.now);
    let spot = BTreeMap::from([("us-west-2a".into(), usd("12.3456"))]);
    cloud.spot_prices = Read::new([("p5.48xlarge".into(), spot)].into(), input.now);
    input
}

fn usd(text: &str) -> Usd {
    text.parse().expect("dollars")
}

/// With a price that is easy to add.
fn at_ten_dollars(mut input: PlanInput) -> PlanInput {
    let mut standing = (*input.target.standing).clone();
    standing.reservations.values_mut().for_each(|held| held.shape.on_demand = Some(usd("10.01")));
    input.target.standing = standing.into();
    input
}

fn does(action: CloudAction) -> Step {
    step("one".into(), &Thing::Fleet, Action::Cloud(action), &Reason::Wanted)
}

#[test]
fn what_runs_is_paid_by_how_it_was_bought() {
    let cost = cost(&at_ten_dollars(input()), &[], &[]);
    assert_eq!((cost.hourly_now, cost.hourly_after), (usd("22.3556"), usd("22.3556")));
    assert_eq!((cost.reserved_now, cost.idle_now), (usd("40.04"), usd("30.03")));
    assert_eq!(cost.upfront, usd("0"));
}

#[test]
fn steps_change_what_they_touch() {
    let slot = SlotId::new(&"train".into(), 0);
    let steps = [
        does(CloudAction::Terminate { slot, instance: "i-1".into() }),
        does(CloudAction::Cancel { reservation: "base".into(), id: "cr-1".into() }),
        does(CloudAction::Reserve(ReserveRequest {
            reservation: "next".into(),
            generation: 1,
            token: "t".into(),
            instance_type: "p5.48xlarge".into(),
            zone: "us-west-2a".into(),
            nodes: 2,
            end: None,
            matching: Match::Open,
        })),
    ];
    let cost = cost(&at_ten_dollars(input()), &steps, &[]);
    // The one that ran in the reservation runs on, on demand.
    assert_eq!(cost.hourly_after, usd("22.3556"));
    assert_eq!((cost.reserved_after, cost.idle_after), (usd("20.02"), usd("20.02")));
}

#[test]
fn what_waits_counts_only_if_it_comes_by_itself() {
    use crate::effect::{Amount, Effects};
    use crate::plan::types::WaitingOn;
    let amount = Amount { usd_hour: usd("5.50"), ..Amount::count(1) };
    let mut held = crate::plan::steps::held(
        &Thing::Fleet,
        "one more",
        Reason::SlotEmpty,
        WaitingOn::Capacity { what: "p5".into(), retry: None },
    );
    held.effects = Effects::one(Verb::Launch, Thing::Pool("train".into()), amount);
    let input = at_ten_dollars(input());
    assert_eq!(cost(&input, &[], std::slice::from_ref(&held)).hourly_after, usd("27.8556"));
    held.waiting_on = WaitingOn::Person("decide".into());
    assert_eq!(cost(&input, &[], &[held]).hourly_after, usd("22.3556"));
}

#[test]
fn prepaid_nodes_that_wait_to_go_will_be_idle() {
    use crate::effect::{Amount, Effects, PoolLedger, Slot};
    use crate::plan::types::WaitingOn;
    let why = WaitingOn::Approval { digest: "d".into(), why: "many".into() };
    let on = Thing::Pool("train".into());
    let mut held = crate::plan::steps::held(&on, "remove a node", Reason::NotWanted, why);
    held.effects = Effects::one(Verb::Terminate, on.clone(), Amount::count(1));
    let mut input = at_ten_dollars(input());
    let slot = |id: &str| Slot { instance: Some(id.into()), ..Slot::default() };
    let pool = PoolLedger { slots: [(0, slot("i-3"))].into(), ..PoolLedger::default() };
    input.ledger.pools.insert("train".into(), pool);
    let idle = |input: &PlanInput, held: &Held| cost(input, &[], std::slice::from_ref(held)).idle_after;
    assert_eq!(idle(&input, &held), usd("40.04"));
    // One that is replaced takes its place again, and of a mixed pool nobody knows which goes.
    let mut replaced = held.clone();
    replaced.effects.add(&Effects::one(Verb::Launch, on, Amount::count(1)));
    assert_eq!(idle(&input, &replaced), usd("30.03"));
    input.ledger.pools.get_mut("train").expect("a pool").slots.insert(1, slot("i-1"));
    assert_eq!(idle(&input, &held), usd("30.03"));
}

#[test]
fn a_purchase_that_only_waits_costs_nothing_yet() {
    use crate::effect::{Amount, Effects};
    use crate::plan::types::WaitingOn;
    let waiting_on = WaitingOn::Capacity { what: "an offer that matches".into(), retry: None };
    let mut held = crate::plan::steps::held(&Thing::Fleet, "buy a block", Reason::Wanted, waiting_on);
    let amount = Amount { usd_upfront: usd("1000"), ..Amount::count(2) };
    held.effects = Effects::one(Verb::Purchase, Thing::Reservation("burst".into()), amount);
    assert_eq!(cost(&at_ten_dollars(input()), &[], &[held]).upfront, usd("0"));
}
