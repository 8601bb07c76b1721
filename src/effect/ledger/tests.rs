//! Every change of the ledger: what it leaves, and that making it twice is making it once.

use super::*;
use crate::effect::{Amount, Part, Thing, Verb, digest};
use crate::fleet::reservation::Match;
use crate::ids::{Token, Zone};
use crate::observed::Market;
use crate::units::Usd;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + secs).unwrap()
}

fn slot(index: u32) -> SlotId {
    SlotId::new(&"train".into(), index)
}

fn request(generation: u32) -> LaunchRequest {
    LaunchRequest {
        slot: slot(0),
        generation,
        token: Token::from(format!("t{generation}")),
        instance_type: "p5.48xlarge".into(),
        zone: Zone::from("us-west-2a"),
        market: Market::Reserved,
        reservation: Some("cr-1".into()),
        max_price: None,
        template: "train".into(),
        template_digest: digest(b"x"),
        group: None,
        source: 0,
        host: None,
    }
}

fn intend(generation: u32) -> LedgerChange {
    LedgerChange::Intend { intent: Intent { request: request(generation), plan: "p".into(), at: at(0) } }
}

fn launched(instance: &str) -> LedgerChange {
    LedgerChange::Launched { slot: slot(0), instance: instance.into(), at: at(1) }
}

fn purchase(offering: &str) -> PurchaseRequest {
    let fee = Usd(rust_decimal::Decimal::TEN);
    PurchaseRequest { reservation: "july".into(), offering: offering.into(), extends: None, fee }
}

fn purchase_intend(offering: &str, plan: &str) -> LedgerChange {
    LedgerChange::PurchaseIntend { intent: Intent { request: purchase(offering), plan: plan.into(), at: at(0) } }
}

fn after(changes: &[LedgerChange]) -> Ledger {
    let mut ledger = Ledger::default();
    for change in changes {
        ledger.change(change);
        let once = ledger.clone();
        ledger.change(change);
        assert_eq!(ledger, once, "made twice: {change:?}");
    }
    ledger
}

fn the_slot(changes: &[LedgerChange]) -> Slot {
    after(changes).slot(&slot(0)).cloned().unwrap_or_default()
}

#[test]
fn a_launch_goes_from_intent_to_instance() {
    let open = the_slot(&[intend(1)]);
    assert_eq!((open.generation, open.intent.map(|intent| intent.request)), (1, Some(request(1))));
    let served = the_slot(&[intend(1), launched("i-1")]);
    assert_eq!((served.intent, served.instance, served.launched), (None, Some("i-1".into()), Some(at(1))));
}

#[test]
fn a_refusal_ends_the_intent_keeps_the_generation_and_remembers_the_source() {
    let refused = LedgerChange::LaunchRefused { slot: slot(0), source: Some(1), at: at(5) };
    let slot = the_slot(&[intend(1), refused.clone()]);
    assert_eq!((slot.intent, slot.generation, slot.refused), (None, 1, BTreeMap::from([(1, at(5))])));
    let served = the_slot(&[intend(1), refused, intend(2), launched("i-2")]);
    assert!(served.refused.is_empty(), "a launch that worked forgets who refused");
}

#[test]
fn a_lost_instance_leaves_the_generation_and_an_open_intent() {
    let lost = LedgerChange::Lost { slot: slot(0) };
    let missing = LedgerChange::Missing { slot: slot(0), since: Some(at(3)) };
    let slot_after = the_slot(&[intend(1), launched("i-1"), missing, lost.clone()]);
    assert_eq!(slot_after, Slot { generation: 1, lost: true, ..Slot::default() });
    assert!(!the_slot(&[intend(1), launched("i-1"), lost.clone(), intend(2), launched("i-2")]).lost, "replaced");
    assert!(the_slot(&[intend(1), lost]).intent.is_some(), "nobody has answered it");
}

#[test]
fn a_closed_slot_never_repeats_a_token() {
    let closed = LedgerChange::Closed { slot: slot(0) };
    assert_eq!(the_slot(&[intend(3), launched("i-3"), closed.clone()]), Slot { generation: 3, ..Slot::default() });
    assert_eq!(after(&[closed]), Ledger::default(), "one that never was stays so");
}

#[test]
fn an_adopted_instance_lifts_the_generation_and_never_lowers_it() {
    let adopt =
        |generation| LedgerChange::Adopted { slot: slot(0), instance: "i-9".into(), generation, launched: at(2) };
    assert_eq!(the_slot(&[intend(1), adopt(4)]).generation, 4);
    let slot = the_slot(&[intend(7), adopt(4)]);
    assert_eq!((slot.generation, slot.instance, slot.intent), (7, Some("i-9".into()), None));
}

#[test]
fn removals_are_remembered_for_an_hour() {
    let removing = |index, secs| LedgerChange::Removing { slot: slot(index), at: at(secs) };
    let ledger = after(&[removing(0, 0), removing(1, 3599), removing(2, 3600)]);
    assert_eq!(ledger.pools["train"].removed, [(1, at(3599)), (2, at(3600))]);
}

#[test]
fn a_node_is_claimed_and_let_go() {
    let claim = |node: &str| LedgerChange::Claimed { slot: slot(0), node: node.into() };
    let free = LedgerChange::Unclaimed { slot: slot(0) };
    let slot = the_slot(&[claim("a"), free.clone(), claim("b")]);
    assert_eq!((slot.generation, slot.node), (2, Some("b".into())));
    assert_eq!(the_slot(&[claim("a"), free]).node, None);
}

#[test]
fn a_pool_is_renamed_or_forgotten_with_all_its_slots() {
    let rename = LedgerChange::Renamed { from: "train".into(), to: "trainers".into() };
    let ledger = after(&[intend(1), launched("i-1"), rename.clone()]);
    assert_eq!(ledger.slot(&SlotId::new(&"trainers".into(), 0)).unwrap().instance, Some("i-1".into()));
    assert!(!ledger.pools["train"].is_something());
    assert_eq!(ledger.slot(&slot(0)).unwrap().generation, 1, "a name that comes back must not repeat a token");
    assert_eq!(rename.parts(), [Part::Pool("train".into()), Part::Pool("trainers".into()), Part::Head]);
    let forgotten = after(&[intend(1), LedgerChange::Forgotten { pool: "train".into() }]);
    assert_eq!(forgotten.slot(&slot(0)), Some(&Slot { generation: 1, ..Slot::default() }));
}

#[test]
fn only_the_last_remedies_are_kept() {
    let treat = |secs| {
        let treated = Treated { at: at(secs), remedy: Remedy::Reboot, rule: 0, boot: None };
        LedgerChange::Treated { slot: slot(0), treated }
    };
    let all: Vec<LedgerChange> = (0..20).map(treat).collect();
    let slot = the_slot(&all);
    assert_eq!((slot.remedies.len(), slot.remedies[0].at), (REMEDIES, at(4)));
}

#[test]
fn a_reservation_is_intended_made_refused_renamed_and_forgotten() {
    let request = ReserveRequest {
        reservation: "h100".into(),
        generation: 2,
        token: "t".into(),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        nodes: 4,
        end: None,
        matching: Default::default(),
    };
    let intend = LedgerChange::ReserveIntend { intent: Intent { request, plan: "p".into(), at: at(0) } };
    let refused = LedgerChange::ReserveRefused { reservation: "h100".into(), at: at(1) };
    let made = LedgerChange::Reserved { reservation: "h100".into(), id: "cr-1".into() };
    let held = |changes: &[LedgerChange], name: &str| after(changes).head.reservations.get(name).cloned();
    let open = held(std::slice::from_ref(&intend), "h100").unwrap();
    assert_eq!((open.generation, open.intent.is_some()), (2, true));
    let no = held(&[intend.clone(), refused.clone()], "h100").unwrap();
    assert_eq!((no.intent, no.refused, no.generation), (None, Some(at(1)), 2));
    let yes = held(&[intend, refused, made.clone()], "h100").unwrap();
    assert_eq!((yes.id, yes.intent, yes.refused), (Some("cr-1".into()), None, None));
    let rename = LedgerChange::ReservationRenamed { from: "h100".into(), to: "base".into() };
    assert_eq!(held(&[made.clone(), rename], "base").unwrap().id, Some("cr-1".into()));
    let forgotten = held(&[made, LedgerChange::ReservationForgotten { reservation: "h100".into() }], "h100").unwrap();
    assert!(!forgotten.is_something());
}

#[test]
fn a_purchase_is_open_until_it_is_bought_or_refused() {
    let outcome =
        |changes: &[LedgerChange]| after(changes).head.purchases.iter().map(|p| p.outcome.clone()).collect::<Vec<_>>();
    let bought = LedgerChange::Purchased { request: purchase("cb-1"), id: "cr-7".into() };
    let refused = LedgerChange::PurchaseRefused { request: purchase("cb-1"), why: "sold".into() };
    let intend = purchase_intend("cb-1", "p");
    assert_eq!(outcome(std::slice::from_ref(&intend)), [Outcome::Open]);
    assert_eq!(outcome(&[intend.clone(), refused.clone()]), [Outcome::Refused("sold".into())]);
    let ledger = after(&[intend.clone(), bought.clone()]);
    assert_eq!(ledger.head.purchases[0].outcome, Outcome::Bought("cr-7".into()));
    assert_eq!(ledger.head.reservations["july"].id, Some("cr-7".into()));
    // What is bought is not opened again by a late word.
    assert_eq!(outcome(&[intend, bought, purchase_intend("cb-1", "q")]), [Outcome::Bought("cr-7".into())]);
}

#[test]
fn a_refused_purchase_that_is_tried_again_is_open_again() {
    // 1. The first try is refused. 2. The second is sent, and the program dies before the answer. 3. Whoever comes next
    // must see an open purchase, or it buys a second block.
    let refused = LedgerChange::PurchaseRefused { request: purchase("cb-1"), why: "throttled".into() };
    let ledger = after(&[purchase_intend("cb-1", "p"), refused, purchase_intend("cb-1", "q")]);
    assert_eq!(ledger.head.purchases.last().unwrap().outcome, Outcome::Open);
    assert_eq!(ledger.head.purchases.last().unwrap().intent.plan, "q".into());
}

#[test]
fn an_approval_is_opened_once_and_spent() {
    let effects = |count| Effects::one(Verb::Terminate, Thing::Pool("train".into()), Amount::count(count));
    let open = LedgerChange::Open {
        digest: digest(b"x"),
        opened: Opened {
            effects: effects(2).digest(),
            left: effects(2),
            by: "ana".into(),
            at: at(0),
            templates: BTreeMap::new(),
        },
    };
    let mut ledger = after(std::slice::from_ref(&open));
    let (digest, purpose) = (|| digest(b"x"), |name: &str| name.to_string());
    let spend = |name| LedgerChange::Spend { digest: digest(), purpose: purpose(name), effects: effects(1) };
    ledger.change(&spend("train/1"));
    ledger.change(&spend("train/1"));
    assert_eq!(ledger.head.approvals[&digest()].left, effects(1), "once for each purpose");
    ledger.change(&spend("train/2"));
    ledger.change(&LedgerChange::Refund { digest: digest(), purpose: purpose("train/2"), effects: effects(1) });
    assert_eq!(ledger.head.approvals[&digest()].left, effects(1), "what came to nothing is given back");
    let purposes = [(digest(), [purpose("train/1")].into())].into();
    ledger.change(&LedgerChange::Done { purposes });
    assert_eq!(ledger.head.spent.get(&digest()), None, "what is done is struck out");
    ledger.change(&spend("train/1"));
    ledger.change(&open);
    assert!(ledger.head.approvals[&digest()].left.is_empty(), "used up, it never opens again");
}

#[test]
fn a_freeze_covers_its_scope_until_it_is_thawed() {
    let freeze = |scope: Scope| Freeze { scope, by: "ana".into(), at: at(0), reason: "incident".into(), all: false };
    let (train, node) = (PoolName::from("train"), NodeName::from("n"));
    let stops = |scope: Scope, pool: Option<&PoolName>, node: Option<&NodeName>| {
        after(&[LedgerChange::Freeze(freeze(scope))]).freeze_on(pool, node).is_some()
    };
    assert!(stops(Scope::Fleet, None, None));
    assert!(stops(Scope::Pool(train.clone()), Some(&train), None));
    assert!(
        !stops(Scope::Pool(train.clone()), Some(&"serve".into()), None)
            && !stops(Scope::Pool(train.clone()), None, None)
    );
    assert!(stops(Scope::Node(node.clone()), Some(&train), Some(&node)));
    assert!(!stops(Scope::Node(node.clone()), Some(&train), Some(&"m".into())));
    let again = Freeze { reason: "longer".into(), ..freeze(Scope::Fleet) };
    let ledger = after(&[
        LedgerChange::Freeze(freeze(Scope::Fleet)),
        LedgerChange::Freeze(freeze(Scope::Pool(train.clone()))),
        LedgerChange::Freeze(again.clone()),
        LedgerChange::Thaw(Scope::Pool(train)),
    ]);
    assert_eq!(ledger.head.frozen, [again]);
}

#[test]
fn words_of_people_are_kept_and_taken_back() {
    let quarantine = Quarantine { by: "ana".into(), at: at(0), reason: "noise".into() };
    let recall = Recall { at: at(0), by: "ana".into() };
    let order = |reason: &str| {
        let (by, reason) = ("ana".into(), reason.into());
        DrainOrder { by, at: at(0), reason, unmanaged: false, local_data: false }
    };
    let mut ledger = after(&[
        LedgerChange::Drain { node: "n".into(), order: order("fan") },
        LedgerChange::Drain { node: "n".into(), order: order("disk") },
        LedgerChange::Begin { fleet: "f".into(), began: None },
        LedgerChange::Begin { fleet: "g".into(), began: None },
        LedgerChange::Quarantine { node: "n".into(), quarantine },
        LedgerChange::Recall { tide: "nightly".into(), recall },
    ]);
    assert_eq!(ledger.head.fleet, Some("f".into()), "a fleet begins once");
    let began = |anew| Began { at: at(5), ended: 2, anew };
    let mut anew = after(&[
        LedgerChange::Begin { fleet: "f".into(), began: Some(began(true)) },
        LedgerChange::Begin { fleet: "f".into(), began: None },
    ]);
    assert_eq!(anew.head.began, Some(began(true)), "and says once what it was begun beside");
    let known = LedgerChange::KnownAnew { fleet: "f".into(), began: began(true) };
    anew.change(&known);
    assert_eq!((anew.head.began, &anew.head.fleet), (Some(began(false)), &Some("f".into())));
    assert_eq!(after(&[known]).head, anew.head, "who knows it first of all forgets no removal");
    assert_eq!((ledger.head.quarantined.len(), ledger.head.recalled.len()), (1, 1));
    ledger.change(&LedgerChange::Return { node: "n".into(), at: Some(at(7)) });
    assert_eq!((ledger.head.quarantined.len(), ledger.head.returned["n"]), (0, at(7)));
    assert_eq!(ledger.head.drains["n"].reason, "disk", "the last word counts");
    ledger.change(&LedgerChange::Undrain { node: "n".into(), at: Some(at(9)) });
    assert_eq!(ledger.head.returned["n"], at(9), "the last time that it was let in counts");
    assert_eq!(ledger.head, serde_json::from_value(serde_json::to_value(&ledger.head).unwrap()).unwrap());
    assert_eq!(ledger.head.drains.len(), 0);
    ledger.change(&LedgerChange::Return { node: "n".into(), at: None });
    assert_eq!(ledger.head.returned.len(), 0, "it is gone");
    for second in 0..300 {
        ledger.change(&LedgerChange::Return { node: format!("n-{second}").as_str().into(), at: Some(at(second)) });
    }
    let shut = |at| LedgerChange::Unwatched { node: "n".into(), at };
    ledger.change(&shut(at(400)));
    ledger.change(&shut(at(401)));
    assert_eq!(ledger.head.unwatched["n"], at(400), "the first time that it was seen so counts");
    assert_eq!(ledger.head, serde_json::from_value(serde_json::to_value(&ledger.head).unwrap()).unwrap());
    ledger.change(&LedgerChange::Watched { node: "n".into(), at: Some(at(402)) });
    assert_eq!((ledger.head.unwatched.len(), ledger.head.returned["n"]), (0, at(402)));
    ledger.change(&LedgerChange::Watched { node: "n".into(), at: None });
    ledger.change(&LedgerChange::Return { node: "n-44".into(), at: Some(at(44)) });
    let first = ledger.head.returned.values().min();
    assert_eq!((ledger.head.returned.len(), first), (256, Some(&at(44))), "the newest are remembered");
    let lending = |since| LedgerChange::Lending { tide: "nightly".into(), since };
    ledger.change(&lending(Some(at(0))));
    assert_eq!(ledger.head.lending.len(), 1);
    ledger.change(&lending(None));
    assert_eq!(ledger.head.lending.len(), 0);
}

#[test]
fn a_change_names_the_part_that_it_swaps() {
    assert_eq!(intend(1).parts(), [Part::Pool("train".into())]);
    assert_eq!(launched("i-1").parts(), [Part::Pool("train".into())]);
    assert_eq!(LedgerChange::Forgotten { pool: "train".into() }.parts(), [Part::Pool("train".into())]);
    assert_eq!(LedgerChange::Thaw(Scope::Fleet).parts(), [Part::Head]);
    assert_eq!(purchase_intend("cb-1", "p").parts(), [Part::Head]);
}

#[test]
fn the_ledger_survives_being_written() {
    let ledger = after(&[intend(1), launched("i-1"), purchase_intend("cb-1", "p")]);
    let text = serde_json::to_string(&ledger).unwrap();
    assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
}

fn reserve_intent(name: &str, generation: u32) -> LedgerChange {
    let request = ReserveRequest {
        reservation: name.into(),
        generation,
        token: "t".into(),
        instance_type: "p5.48xlarge".into(),
        zone: "a".into(),
        nodes: 1,
        end: None,
        matching: Match::Targeted,
    };
    let at = Timestamp::UNIX_EPOCH;
    LedgerChange::ReserveIntend { intent: Intent { request, plan: "p".into(), at } }
}

#[test]
fn a_reservation_that_is_forgotten_or_renamed_leaves_its_generation() {
    let mut ledger = Ledger::default();
    ledger.change(&reserve_intent("old", 3));
    ledger.change(&LedgerChange::Reserved { reservation: "old".into(), id: "cr-1".into() });
    let rename = LedgerChange::ReservationRenamed { from: "old".into(), to: "new".into() };
    (0..2).for_each(|_| ledger.change(&rename));
    let held = |ledger: &Ledger, name: &str| ledger.head.reservations[name].clone();
    assert_eq!((held(&ledger, "new").id, held(&ledger, "new").generation), (Some("cr-1".into()), 3));
    assert_eq!((held(&ledger, "old").is_something(), held(&ledger, "old").generation), (false, 3));
    assert_eq!(held(&ledger, "new").asked, Some(Timestamp::UNIX_EPOCH));
    ledger.change(&LedgerChange::ReservationForgotten { reservation: "new".into() });
    assert_eq!((held(&ledger, "new").is_something(), held(&ledger, "new").generation), (false, 3));
}
