//! Offers, approvals and orders that nobody answered.

use super::*;
use crate::effect::Intent;
use crate::fleet::reservation::Match;
use crate::fleet::standing::TermsSpec;
use crate::observed::{Read, ReservationTag};
use crate::plan::PlanInput;
use crate::plan::overfull::Overfull;
use crate::plan::reservations;
use crate::plan::testing::*;
use crate::plan::view::View;
use crate::units::Instant;

const NOW: &str = "2026-06-10T12:00Z";

fn document(extra: &str) -> String {
    format!(
        "kind: Reservation\nmetadata: {{name: july}}\nspec:\n  instanceType: p5.48xlarge\n  nodes: 32\n  \
         capacityBlock: {{duration: 14d, startBetween: {{from: 2026-07-01, to: 2026-07-10}}, maxUpfrontUsd: 380000{extra}}}\n"
    )
}

fn block(extra: &str) -> PlanInput {
    world(NOW, &document(extra))
}

const OFFERING: &str = ", approval: {offering: {id: cb-0123456789abcdef0, feeUsd: 371002.88}}";
const MANDATE: &str = ", approval: {mandate: {upToUsd: 375000, expires: 2026-06-20T00:00Z}}";

fn usd(text: &str) -> Usd {
    text.parse().expect("dollars")
}

fn offer(id: &str, fee: &str) -> OfferingSeen {
    OfferingSeen {
        id: id.into(),
        extends: None,
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2b".into(),
        nodes: 32,
        start: at("2026-07-02T11:30Z"),
        end: at("2026-07-16T11:30Z"),
        fee: usd(fee),
    }
}

fn offered(mut input: PlanInput, offers: Vec<OfferingSeen>) -> PlanInput {
    input.observed.cloud.offerings = Read::new([("july".into(), offers)].into(), input.now);
    input
}

fn seen() -> ReservationSeen {
    ReservationSeen {
        tag: Some(ReservationTag { fleet: "fleet-uid".into(), reservation: "july".into(), generation: 0 }),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2b".into(),
        total: 32,
        available: 0,
        state: ReservationState::Scheduled,
        start: Some(at("2026-07-02T11:30Z")),
        end: Some(at("2026-07-16T11:30Z")),
        matching: Match::Targeted,
        block: true,
        offering: None,
        network: Vec::new(),
    }
}

fn see(input: &mut PlanInput, seen: ReservationSeen) {
    input.observed.cloud.reservations = Read::new([("cr-1".into(), seen)].into(), input.now);
}

fn drafted(input: &PlanInput) -> Draft {
    let mut draft = Draft::default();
    reservations::plan(input, &Overfull::of(&View::new(input)), &mut draft);
    draft
}

fn steps(draft: &Draft) -> Vec<String> {
    draft.courses.iter().flat_map(|course| &course.steps).map(|step| step.id.to_string()).collect()
}

fn person(draft: &Draft) -> &str {
    assert!(draft.courses.is_empty(), "{:?}", draft.courses);
    match &draft.held[0].waiting_on {
        WaitingOn::Person(text) => text,
        other => panic!("{other:?}"),
    }
}

fn ordered(input: &mut PlanInput, offering: &str, extends: Option<&str>) -> PurchaseRequest {
    let request = PurchaseRequest {
        reservation: "july".into(),
        offering: offering.into(),
        extends: extends.map(Into::into),
        fee: usd("371002.88"),
    };
    let intent = Intent { request: request.clone(), plan: "p".into(), at: input.now };
    input.ledger.change(&LedgerChange::PurchaseIntend { intent });
    request
}

#[test]
fn offers_are_shown_and_nothing_is_bought_without_an_approval() {
    let dear = OfferingSeen { nodes: 31, ..offer("cb-c", "1") };
    let input = offered(block(""), vec![offer("cb-b", "390000"), offer("cb-a", "371002.88"), dear]);
    let draft = drafted(&input);
    assert!(person(&draft).starts_with("a person approves"));
    let verdicts: Vec<String> =
        draft.offers.iter().map(|offer| format!("{}: {}", offer.offering, offer.verdict)).collect();
    insta::assert_snapshot!(verdicts.join("\n"), @r"
    cb-c: it is for 31 nodes
    cb-a: matches: approval: {offering: {id: cb-a, feeUsd: 371002.88}}
    cb-b: it costs more than maxUpfrontUsd, $380000
    ");
}

#[test]
fn the_approved_offering_is_bought_at_the_approved_fee() {
    let id = "cb-0123456789abcdef0";
    let draft = drafted(&offered(block(OFFERING), vec![offer(id, "371002.88"), offer("cb-a", "1000")]));
    assert_eq!(steps(&draft), [format!("purchase:reservation/july@{id}")]);
    assert_eq!(draft.courses[0].steps[0].consent, Consent::Asked);
    assert_eq!(draft.courses[0].effects().0.values().next().unwrap().usd_upfront, usd("371002.88"));
    let dearer = drafted(&offered(block(OFFERING), vec![offer(id, "371002.89")]));
    assert_eq!(person(&dearer), format!("{id} costs $371002.89 now, and $371002.88 was approved: approve the new fee"));
    let cheaper = drafted(&offered(block(OFFERING), vec![offer(id, "371002.87")]));
    assert!(person(&cheaper).contains("costs $371002.87 now"));
    let gone = drafted(&offered(block(OFFERING), vec![offer("cb-a", "1000")]));
    assert!(person(&gone).contains("not offered any more"));
    let short = OfferingSeen { end: at("2026-07-10T11:30Z"), ..offer(id, "371002.88") };
    assert!(person(&drafted(&offered(block(OFFERING), vec![short]))).contains("it lasts 8d"));
}

#[test]
fn nothing_is_bought_where_a_pool_that_is_to_use_it_has_no_subnet() {
    let with_pool = |approval: &str, zones: &str| {
        let pool = format!(
            "---\nkind: NodePool\nmetadata: {{name: train}}\nspec:\n  instanceType: p5.48xlarge\n  fill: reservations\n  \
             capacity: [{{reservation: july}}]\n  launch:\n    image: {{ami: {{id: ami-0123456789abcdef0}}}}\n    \
             bootstrap: {{nodeadm: {{}}}}\n    subnets: {{tags: {{a: b}}{zones}}}\n    securityGroups: {{tags: {{a: b}}}}\n    \
             role: gpu-node\n"
        );
        world(NOW, &format!("{}{pool}", document(approval)))
    };
    let offers =
        || vec![offer("cb-a", "371002.88"), OfferingSeen { zone: "us-west-2a".into(), ..offer("cb-b", "374000") }];
    let draft = drafted(&offered(with_pool(MANDATE, ", zones: [us-west-2a]"), offers()));
    assert_eq!(steps(&draft), ["purchase:reservation/july@cb-b"], "the dearer one, where the pool can be");
    assert_eq!(draft.offers[0].verdict, "pool/train has subnets in us-west-2a alone, and could not use it");
    let approved = OFFERING.replace("cb-0123456789abcdef0", "cb-a");
    let draft = drafted(&offered(with_pool(&approved, ", zones: [us-west-2a]"), offers()));
    assert!(person(&draft).starts_with("cb-a is not what the document asks for: pool/train"), "{}", person(&draft));
    for zones in ["", ", zones: [us-west-2a, us-west-2b]"] {
        let draft = drafted(&offered(with_pool(MANDATE, zones), offers()));
        assert_eq!(steps(&draft), ["purchase:reservation/july@cb-a"], "{zones}");
    }
}

#[test]
fn a_mandate_takes_the_cheapest_that_matches() {
    let late = OfferingSeen { start: at("2026-07-11T00:00Z"), end: at("2026-07-25T00:00Z"), ..offer("cb-0", "1000") };
    let offers = vec![offer("cb-b", "374000"), offer("cb-a", "373000"), late, offer("cb-c", "376000")];
    let input = offered(block(MANDATE), offers);
    assert_eq!(steps(&drafted(&input)), ["purchase:reservation/july@cb-a"]);
    // Whoever carries it out looks again whether the mandate is over.
    assert_eq!(drafted(&input).courses[0].steps[0].requires, [Fact::Before(at("2026-06-20T00:00Z"))]);
    let mut over = input.clone();
    over.now = at("2026-06-20T00:00Z");
    assert!(person(&drafted(&over)).starts_with("the mandate expired"));
    let none = drafted(&offered(block(MANDATE), vec![offer("cb-c", "376000")]));
    assert!(none.courses.is_empty() && none.held[0].waiting_on.is_part_of_it());
    assert_eq!(none.held[0].effects.0.values().next().unwrap().usd_upfront, usd("375000"));
}

#[test]
fn nothing_is_ordered_while_an_order_is_unanswered() {
    let mut input = offered(block(MANDATE), vec![offer("cb-a", "373000"), offer("cb-b", "1000")]);
    let request = ordered(&mut input, "cb-a", None);
    assert!(person(&drafted(&input)).contains("nobody answered"));
    see(&mut input, seen());
    let draft = drafted(&input);
    let change = LedgerChange::Purchased { request, id: "cr-1".into() };
    assert_eq!(draft.courses[0].steps[0].action, Action::Record(change.clone()));
    assert_eq!(draft.courses.len(), 1);
    input.ledger.change(&change);
    assert_eq!(steps(&drafted(&input)), [""; 0]);
}

#[test]
fn a_block_is_bought_once() {
    let mut input = offered(block(MANDATE), vec![offer("cb-b", "1000")]);
    let request = ordered(&mut input, "cb-a", None);
    input.ledger.change(&LedgerChange::Purchased { request, id: "cr-1".into() });
    // Not listed at first, then there, then over, then not listed any more.
    assert!(matches!(drafted(&input).held[0].waiting_on, WaitingOn::Until { .. }));
    see(&mut input, seen());
    assert!(drafted(&input).held.is_empty());
    see(&mut input, ReservationSeen { state: ReservationState::Ended, ..seen() });
    assert_eq!(drafted(&input).notes[0].text, "cr-1 is over; no other one is bought");
    input.observed.cloud.reservations = Read::new(Default::default(), input.now);
    input.now = at("2026-07-20T00:00Z");
    let draft = drafted(&input);
    assert_eq!((draft.courses.len(), draft.held.len(), draft.notes.len()), (0, 0, 1));
}

#[test]
fn a_block_that_another_memory_bought_is_not_bought_again() {
    let tag = |name: &str| ReservationTag { fleet: "other.0123456789".into(), reservation: name.into(), generation: 0 };
    let mut input = offered(block(MANDATE), vec![offer("cb-a", "373000"), offer("cb-b", "374000")]);
    see(&mut input, ReservationSeen { tag: Some(tag("july")), ..seen() });
    assert!(person(&drafted(&input)).contains("for other.0123456789, and this fleet is"), "by its name");
    see(&mut input, ReservationSeen { tag: None, offering: Some("cb-a".into()), ..seen() });
    assert!(person(&drafted(&input)).starts_with("cr-1 was bought with cb-a: "), "by its offer");
    see(&mut input, ReservationSeen { tag: Some(tag("june")), offering: Some("cb-z".into()), ..seen() });
    assert_eq!(steps(&drafted(&input)).len(), 1, "somebody else's");
}

#[test]
fn what_was_refused_needs_another_word() {
    let id = "cb-0123456789abcdef0";
    let mut input = offered(block(OFFERING), vec![offer(id, "371002.88")]);
    let request = ordered(&mut input, id, None);
    input.ledger.change(&LedgerChange::PurchaseRefused { request, why: "card declined".into() });
    assert_eq!(person(&drafted(&input)), format!("{id} was refused (card declined): approve another offering"));
    input.target = block(MANDATE).target;
    assert!(person(&drafted(&input)).starts_with("the mandate was for one purchase"));
    input.target = block(&OFFERING.replace("abcdef0", "abcdef1")).target;
    let input = offered(input, vec![offer("cb-0123456789abcdef1", "371002.88")]);
    assert_eq!(steps(&drafted(&input)).len(), 1);
}

#[test]
fn nothing_is_bought_where_the_cloud_was_not_read() {
    let mut input = offered(block(MANDATE), vec![offer("cb-a", "373000")]);
    input.observed.cloud.reservations = Read::default();
    assert!(matches!(drafted(&input).held[0].waiting_on, WaitingOn::Unread(_)));
    let mut input = block(MANDATE);
    input.observed.cloud.offerings = Read::default();
    assert!(matches!(drafted(&input).held[0].waiting_on, WaitingOn::Unread(_)));
}

#[test]
fn an_extension_is_bought_once_and_begins_where_the_block_ends() {
    let extend = format!(
        "{MANDATE}, extend: {{by: 7d, approval: {{mandate: {{upToUsd: 190000, expires: 2026-07-15T00:00Z}}}}}}"
    );
    let more = |id: &str, start: &str| OfferingSeen {
        extends: Some("cr-1".into()),
        start: at(start),
        end: at(start) + SignedDuration::from_hours(7 * 24),
        ..offer(id, "180000")
    };
    let offers = vec![more("cb-x", "2026-07-16T11:30Z"), more("cb-w", "2026-07-17T11:30Z"), offer("cb-a", "1")];
    let mut input = offered(block(&extend), offers);
    see(&mut input, seen());
    input.ledger.change(&LedgerChange::Reserved { reservation: "july".into(), id: "cr-1".into() });
    let draft = drafted(&input);
    assert_eq!(steps(&draft), ["purchase:reservation/july@cb-x"]);
    let request = ordered(&mut input, "cb-x", Some("cr-1"));
    assert!(person(&drafted(&input)).contains("nobody answered"));
    input.ledger.change(&LedgerChange::Purchased { request, id: "cr-1".into() });
    assert_eq!(steps(&drafted(&input)), [""; 0]);
}

#[test]
fn a_block_cannot_be_changed() {
    let mut input = block(MANDATE);
    see(&mut input, ReservationSeen { total: 16, ..seen() });
    input.ledger.change(&LedgerChange::Reserved { reservation: "july".into(), id: "cr-1".into() });
    assert!(person(&drafted(&input)).contains("a block cannot be changed"));
}

#[test]
fn hours_that_are_written_after_the_purchase_are_told() {
    let mut input = block(MANDATE);
    let request = ordered(&mut input, "cb-a", None);
    input.ledger.change(&LedgerChange::Purchased { request, id: "cr-1".into() });
    see(&mut input, seen());
    let mut edited = |old: &str, new: &str| {
        input.target = world(NOW, &document(MANDATE).replace(old, new)).target;
        let draft = drafted(&input);
        assert!(draft.courses.is_empty() && draft.offers.is_empty(), "{draft:?}");
        draft.held.iter().map(|held| format!("{} | {:?}", held.wanted, held.waiting_on)).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(edited("14d", "14d"), "");
    insta::assert_snapshot!(edited("14d", "21d"), @r#"a Capacity Block with `duration: 21d` | Person("cr-1 was bought from 2026-07-02T11:30:00Z to 2026-07-16T11:30:00Z, 14d, and a purchase cannot be changed: write `duration: 14d`; for other hours, write another Reservation")"#);
    insta::assert_snapshot!(edited("2026-07-01", "2026-07-03"), @r#"a Capacity Block with `startBetween: {from: 2026-07-03, to: 2026-07-10}` | Person("cr-1 was bought from 2026-07-02T11:30:00Z to 2026-07-16T11:30:00Z, 14d, and a purchase cannot be changed: write `startBetween: {from: 2026-07-02, to: 2026-07-02}`; for other hours, write another Reservation")"#);
}

#[test]
fn a_window_that_is_written_after_the_purchase_is_told() {
    let mut input = block(MANDATE);
    see(&mut input, seen());
    input.ledger.change(&LedgerChange::Reserved { reservation: "july".into(), id: "cr-1".into() });
    let mut written = |to: &str| {
        let standing = std::sync::Arc::make_mut(&mut input.target.standing);
        let TermsSpec::Block(block) = &mut standing.reservations.get_mut("july").unwrap().terms else { panic!() };
        let window = BlockWindow { from: Instant(at("2026-07-02T11:30Z")), to: Instant(at(to)) };
        (block.start, block.window) = (None, Some(window));
        drafted(&input)
    };
    assert!(written("2026-07-16T11:30Z").held.is_empty());
    let told = person(&written("2026-07-17T11:30Z")).to_string();
    assert!(told.contains("write `window: {from: 2026-07-02T11:30:00Z, to: 2026-07-16T11:30:00Z}`"), "{told}");
}

#[test]
fn a_block_that_was_lengthened_is_as_its_document_says() {
    let extend = format!(
        "{MANDATE}, extend: {{by: 7d, approval: {{mandate: {{upToUsd: 190000, expires: 2026-07-15T00:00Z}}}}}}"
    );
    let mut input = block(&extend);
    let request = ordered(&mut input, "cb-a", None);
    input.ledger.change(&LedgerChange::Purchased { request, id: "cr-1".into() });
    let request = ordered(&mut input, "cb-x", Some("cr-1"));
    input.ledger.change(&LedgerChange::Purchased { request, id: "cr-1".into() });
    see(&mut input, ReservationSeen { end: Some(at("2026-07-23T11:30Z")), ..seen() });
    assert!(drafted(&input).held.is_empty());
    input.target = world(NOW, &document(&extend).replace("14d", "21d")).target;
    assert!(drafted(&input).held.is_empty());
    input.target = world(NOW, &document(&extend).replace("14d", "10d")).target;
    assert!(person(&drafted(&input)).contains("write `duration: 21d`"));
}
