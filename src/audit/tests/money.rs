//! What costs by the hour and what is bought once.

use rust_decimal::Decimal;

use super::bench::*;
use super::flows::*;
use crate::effect::*;
use crate::fleet::reservation::{Approval, Offering};
use crate::fleet::standing::{BlockSpec, TermsSpec};
use crate::fleet::testing::at;
use crate::observed::*;
use crate::plan::*;
use crate::units::Usd;

const HOURLY: &str = "hourly limit";
const PURCHASE: &str = "bought once";

/// A fleet that has only three of four nodes on demand, and the launch of the fourth.
fn growing() -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.input.ledger.pools.get_mut("burst").unwrap().slots.remove(&3);
    edit(&mut bench.input.observed.cloud.instances, |all| drop(all.remove(&instance("burst", 3))));
    edit(&mut bench.input.observed.cluster.nodes, |all| drop(all.remove(&node("burst", 3))));
    bench.launch("burst", 3, Reason::SlotEmpty, &[]);
    bench
}

fn limit(bench: &mut Bench, nodes: i64) {
    let price = bench.input.target.standing.pools["burst"].shape.on_demand.unwrap();
    bench.standing().limits.hourly_usd = Some(Usd(price.0 * Decimal::from(nodes)));
}

#[test]
fn launches_keep_the_hourly_limit() {
    growing().with(|bench| limit(bench, 4)).passes();
    growing().with(|bench| limit(bench, 3)).breaks(HOURLY, "are over");
    growing().with(|bench| bench.standing().limits.hourly_usd = None).breaks(HOURLY, "no limit");
    growing()
        .with(|bench| bench.standing().pools.get_mut("burst").unwrap().shape.on_demand = None)
        .breaks(HOURLY, "nobody knows");
}

#[test]
fn the_limit_never_blocks_the_replacement_of_a_dead_node() {
    let mut bench = Bench::settled(NOON).with(|bench| limit(bench, 3));
    bench.instance("burst", 3, |seen| seen.state = InstanceState::Terminated);
    bench.launch("burst", 3, Reason::SlotEmpty, &[]);
    bench.passes();
    // One that was only refused never was a node.
    let mut refused = growing().with(|bench| limit(bench, 3));
    let at = refused.input.now;
    let slot = Slot { generation: 1, refused: [(1, at)].into(), ..Slot::default() };
    refused.input.ledger.pools.get_mut("burst").unwrap().slots.insert(3, slot);
    let action = cloud(CloudAction::Launch(request(&refused, "burst", 3)));
    refused.find("launch burst/3").action = action;
    refused.breaks(HOURLY, "are over");
}

#[test]
fn a_node_that_is_replaced_gives_its_dollars_back() {
    let mut bench = Bench::settled(NOON).with(|bench| limit(bench, 4));
    bench.drain("burst", 3, "replace", &Reason::NotWanted, &[]);
    bench.terminate("burst", 3, &Reason::NotWanted);
    bench.launch("burst", 3, Reason::NotWanted, &["gone burst/3"]);
    bench.passes();
}

#[test]
fn spot_pays_no_more_than_the_pool_says() {
    let spot = |max: Option<i64>| {
        let mut bench = growing();
        let price = bench.input.target.standing.pools["burst"].shape.on_demand.unwrap().0;
        let action = &mut bench.find("launch burst/3").action;
        if let Action::Cloud(CloudAction::Launch(request)) = action {
            (request.market, request.source) = (Market::Spot, 1);
            request.max_price = max.map(|percent| Usd(price * Decimal::from(percent) / Decimal::ONE_HUNDRED));
        }
        bench
    };
    spot(Some(50)).passes();
    spot(Some(51)).breaks(HOURLY, "may pay more");
    spot(None).breaks(HOURLY, "may pay more");
}

fn usd(dollars: i64) -> Usd {
    Usd(Decimal::from(dollars))
}

fn offer(id: &str, fee: i64) -> OfferingSeen {
    OfferingSeen {
        id: id.into(),
        extends: None,
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        nodes: 8,
        start: at("2026-07-03T11:30Z"),
        end: at("2026-07-17T11:30Z"),
        fee: usd(fee),
    }
}

/// The cheaper of two offers is bought under the mandate.
fn buying() -> Bench {
    let mut bench = Bench::settled(NOON);
    let offers = vec![offer("cb-1", 180_000), offer("cb-2", 185_000)];
    edit(&mut bench.input.observed.cloud.offerings, |all| all.insert("july".into(), offers));
    let request =
        PurchaseRequest { reservation: "july".into(), offering: "cb-1".into(), extends: None, fee: usd(180_000) };
    let step = bench.step("buy", cloud(CloudAction::Purchase(request)), Reason::Wanted, &[]);
    let amount = Amount { usd_upfront: usd(180_000), ..Amount::count(1) };
    step.effects = Effects::one(Verb::Purchase, Thing::Reservation("july".into()), amount);
    step.requires = vec![Fact::Before(at("2026-06-20T00:00Z"))];
    bench
}

fn block(bench: &mut Bench) -> &mut BlockSpec {
    match &mut bench.standing().reservations.get_mut("july").unwrap().terms {
        TermsSpec::Block(block) => block,
        other => panic!("{other:?}"),
    }
}

fn buying_other(change: impl FnOnce(&mut PurchaseRequest)) -> Bench {
    buying().edit("buy", |step| {
        match &mut step.action {
            Action::Cloud(CloudAction::Purchase(request)) => change(request),
            other => panic!("{other:?}"),
        }
        let amount = Amount { usd_upfront: usd(1_000_000), ..Amount::count(1) };
        step.effects = Effects::one(Verb::Purchase, Thing::Reservation("july".into()), amount);
    })
}

#[test]
fn a_block_is_bought_only_as_it_was_approved() {
    buying().passes();
    buying().with(|bench| block(bench).approval = None).breaks(PURCHASE, "nobody approved");
    buying().with(|bench| block(bench).max_upfront = usd(170_000)).breaks(PURCHASE, "maxUpfrontUsd");
    let exact = |id: &str, fee: i64| {
        let approval = Approval::Offering(Offering { id: id.into(), fee_usd: usd(fee) });
        buying().with(|bench| block(bench).approval = Some(approval))
    };
    exact("cb-1", 180_000).passes();
    exact("cb-2", 180_000).breaks(PURCHASE, "another offer or fee");
    exact("cb-1", 179_999).breaks(PURCHASE, "another offer or fee");
    buying_other(|request| request.reservation = "h100".into()).breaks(PURCHASE, "no Capacity Block");
}

/// The pool of `july` may have subnets in this zone alone.
fn elsewhere(zone: &str) -> Bench {
    let documents = format!(
        "kind: NodePool\nmetadata: {{name: there}}\nspec:\n  instanceType: p5.48xlarge\n  nodes: 1\n  \
         capacity: [{{onDemand: {{max: 1}}}}]\n  launch:\n    image: {{ami: {{id: ami-0123456789abcdef0}}}}\n    \
         bootstrap: {{nodeadm: {{}}}}\n    subnets: {{tags: {{a: b}}, zones: [{zone}]}}\n    \
         securityGroups: {{tags: {{a: b}}}}\n    role: node\n"
    );
    let there = crate::fleet::testing::fleet_in("UTC", NOON, &documents).target_at(at(NOON));
    let launch = there.standing.pools["there"].launch.clone();
    buying().with(|bench| {
        let train = bench.standing().pools.get_mut("train").unwrap();
        train.launch = launch;
        train.capacity.push(crate::fleet::pool::Source::Reservation("july".into()));
    })
}

#[test]
fn a_block_is_bought_where_the_pools_that_are_to_use_it_can_be() {
    elsewhere("us-west-2f").breaks_also(PURCHASE, "no offer cb-1 fits the document");
}

#[test]
fn a_mandate_has_a_price_an_end_and_takes_the_cheapest_offer_that_fits() {
    buying_other(|request| (request.offering, request.fee) = ("cb-2".into(), usd(185_000))).breaks(PURCHASE, "cheaper");
    buying_other(|request| request.fee = usd(179_000)).breaks(PURCHASE, "costs $180000");
    buying_other(|request| request.fee = usd(195_000)).breaks(PURCHASE, "more than the mandate");
    buying_other(|request| request.offering = "cb-9".into()).breaks(PURCHASE, "no offer cb-9");
    let mut late = buying();
    late.input.now = at("2026-06-20T00:00Z");
    late.breaks_also(PURCHASE, "the mandate is over");
    buying().edit("buy", |step| step.requires.clear()).breaks(PURCHASE, "not looked at again");
    let longer = Fact::Before(at("2026-06-20T00:01Z"));
    buying().edit("buy", |step| step.requires = vec![longer]).breaks(PURCHASE, "not looked at again");
    for change in [
        |offer: &mut OfferingSeen| offer.nodes = 4,
        |offer: &mut OfferingSeen| offer.start = at("2026-07-11T11:30Z"),
        |offer: &mut OfferingSeen| offer.instance_type = "p4d.24xlarge".into(),
    ] {
        let mut bench = buying();
        edit(&mut bench.input.observed.cloud.offerings, |all| change(&mut all.get_mut("july").unwrap()[0]));
        bench.breaks(PURCHASE, "no offer cb-1");
    }
}

#[test]
fn nothing_that_may_have_been_bought_is_bought_again() {
    let earlier = |outcome: Outcome| {
        buying().with(|bench| {
            let request =
                PurchaseRequest { reservation: "july".into(), offering: "cb-0".into(), extends: None, fee: usd(1) };
            let intent = Intent { request, plan: "p".into(), at: bench.input.now };
            bench.input.ledger.head.purchases.push(Purchase { intent, outcome });
        })
    };
    earlier(Outcome::Open).breaks(PURCHASE, "not answered");
    earlier(Outcome::Bought("cr-7".into())).breaks(PURCHASE, "bought already");
    earlier(Outcome::Refused("sold".into())).passes();
    buying().with(|bench| gap(&mut bench.input.observed.cloud.reservations)).breaks(PURCHASE, "were not read");
    let there = |bench: &mut Bench| {
        edit(&mut bench.input.observed.cloud.reservations, |all| {
            let seen = ReservationSeen { tag: None, block: true, offering: Some("cb-1".into()), ..all["cr-1"].clone() };
            all.insert("cr-7".into(), seen);
        });
    };
    buying().with(there).breaks(PURCHASE, "cr-7 is there already");
    let of_another = |bench: &mut Bench| {
        edit(&mut bench.input.observed.cloud.reservations, |all| {
            let tag = ReservationTag { fleet: "other".into(), reservation: "july".into(), generation: 0 };
            let seen = ReservationSeen { tag: Some(tag), block: true, ..all["cr-1"].clone() };
            all.insert("cr-8".into(), seen);
        });
    };
    buying().with(of_another).breaks(PURCHASE, "cr-8 is there already");
    let mut twice = buying();
    let again = twice.find("buy").clone();
    twice.plan.steps.push(Step { id: "again".into(), ..again });
    twice.breaks(PURCHASE, "bought twice");
    buying().edit("buy", |step| step.effects = Effects::default()).breaks("effects of a plan", "fee");
}
