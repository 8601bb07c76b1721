//! A reservation from the first request to the day its document is gone.

use super::*;
use crate::effect::{Fact, Intent};
use crate::ids::SlotId;
use crate::observed::{Gap, InstanceSeen, InstanceState, Market, Read, ReservationTag, SlotTag};
use crate::plan::testing::*;
use crate::plan::view::View;

const NOW: &str = "2026-03-01T12:00Z";

fn document(extra: &str) -> String {
    format!(
        "kind: Reservation\nmetadata: {{name: base}}\nspec: {{instanceType: p5.48xlarge, zone: us-west-2a, nodes: 16, \
         {extra}}}\n"
    )
}

fn base() -> PlanInput {
    world(NOW, &document("onDemand: {}"))
}

/// Sixteen nodes, of which `used` are taken.
fn seen(used: u32) -> ReservationSeen {
    ReservationSeen {
        tag: Some(ReservationTag { fleet: "fleet-uid".into(), reservation: "base".into(), generation: 1 }),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        total: 16,
        available: 16 - used,
        state: ReservationState::Active,
        start: None,
        end: None,
        matching: Match::Targeted,
        block: false,
        offering: None,
        network: Vec::new(),
    }
}

fn see(input: &mut PlanInput, all: &[(&str, ReservationSeen)]) {
    let all = all.iter().map(|(id, seen)| ((*id).into(), seen.clone())).collect();
    input.observed.cloud.reservations = Read::new(all, input.now);
}

fn record(input: &mut PlanInput, id: &str) {
    let reservation = "base".into();
    input.ledger.change(&LedgerChange::Reserved { reservation, id: id.into() });
}

fn drafted(input: &PlanInput) -> Draft {
    let mut draft = Draft::default();
    plan(input, &Overfull::of(&View::new(input)), &mut draft);
    draft
}

/// Ids of the steps, and what is held on what.
fn told(draft: &Draft) -> Vec<String> {
    let steps = draft.courses.iter().flat_map(|course| &course.steps).map(|step| step.id.to_string());
    let held = draft.held.iter().map(|held| format!("{} | {:?}", held.wanted, held.waiting_on));
    steps.chain(held).collect()
}

fn request(draft: &Draft) -> &ReserveRequest {
    let actions = draft.courses.iter().flat_map(|course| &course.steps).map(|step| &step.action);
    let mut requests = actions.filter_map(|action| match action {
        Action::Cloud(CloudAction::Reserve(request)) => Some(request),
        _ => None,
    });
    requests.next().expect("a request")
}

#[test]
fn a_new_reservation_is_asked_for_with_a_token_of_its_own() {
    let draft = drafted(&base());
    assert_eq!(told(&draft), ["reserve:reservation/base@1"]);
    let asked = request(&draft);
    assert_eq!(asked.token, named_token(&["fleet-uid", "reservation", "base", "1", "us-west-2a"]));
    let step = &draft.courses[0].steps[0];
    assert_eq!(step.consent, Consent::Asked);
    let amount = step.effects.get(Verb::Reserve, &Thing::Reservation("base".into())).expect("an effect");
    let each = crate::plan::cost::price(&base(), &"p5.48xlarge".into()).expect("a price");
    assert_eq!((amount.count, amount.usd_hour), (16, crate::plan::cost::times(each, 16)));
}

#[test]
fn nothing_is_created_where_the_cloud_was_not_read() {
    let mut input = base();
    let gap = Gap { what: "DescribeCapacityReservations".into(), why: "throttled".into() };
    input.observed.cloud.reservations = Read::with_gap(Default::default(), input.now, gap.clone());
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    assert_eq!(draft.held[0].waiting_on, WaitingOn::Unread(gap));
}

#[test]
fn an_open_request_is_sent_again_byte_for_byte() {
    let mut input = base();
    let first = request(&drafted(&input)).clone();
    let intent = Intent { request: first.clone(), plan: "p".into(), at: input.now };
    input.ledger.change(&LedgerChange::ReserveIntend { intent });
    // The document changed meanwhile.
    let edited = world(NOW, &document("onDemand: {match: open}"));
    input.target = edited.target;
    let draft = drafted(&input);
    assert_eq!(*request(&draft), first);
    assert_eq!(draft.courses[0].reason, Reason::Unanswered);
}

#[test]
fn an_open_request_that_shows_is_taken_up() {
    let mut input = base();
    let request = request(&drafted(&input)).clone();
    input.ledger.change(&LedgerChange::ReserveIntend { intent: Intent { request, plan: "p".into(), at: input.now } });
    see(&mut input, &[("cr-1", seen(0))]);
    assert_eq!(told(&drafted(&input)), ["record-reserved:reservation/base@cr-1"]);
    record(&mut input, "cr-1");
    assert_eq!(told(&drafted(&input)), [""; 0]);
}

#[test]
fn what_was_refused_waits_and_then_has_a_new_token() {
    let mut input = base();
    let request = request(&drafted(&input)).clone();
    let at = input.now;
    input.ledger.change(&LedgerChange::ReserveIntend { intent: Intent { request, plan: "p".into(), at } });
    input.ledger.change(&LedgerChange::ReserveRefused { reservation: "base".into(), at });
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    assert!(
        matches!(&draft.held[0].waiting_on, WaitingOn::Capacity { retry: Some(retry), .. } if *retry == at + RETRY)
    );
    assert!(draft.held[0].waiting_on.is_part_of_it() && !draft.held[0].effects.is_empty());
    input.now = at + RETRY;
    assert_eq!(told(&drafted(&input)), ["reserve:reservation/base@2"]);
}

#[test]
fn a_token_that_was_used_is_not_used_again() {
    let mut input = base();
    let mut over = seen(0);
    over.state = ReservationState::Ended;
    over.tag.as_mut().unwrap().generation = 7;
    see(&mut input, &[("cr-7", over)]);
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    assert!(matches!(&draft.held[0].waiting_on, WaitingOn::Person(text) if text.starts_with("cr-7 was made with")));
    // What the ledger remembers is passed by one.
    let held = HeldReservation { generation: 7, ..HeldReservation::default() };
    input.ledger.head.reservations.insert("base".into(), held);
    assert_eq!(request(&drafted(&input)).generation, 8);
}

#[test]
fn a_reservation_grows_and_shrinks() {
    let mut input = base();
    let mut small = seen(12);
    (small.total, small.available) = (12, 0);
    see(&mut input, &[("cr-1", small)]);
    record(&mut input, "cr-1");
    let draft = drafted(&input);
    assert_eq!(told(&draft), ["resize:reservation/base@16-targeted-never"]);
    assert_eq!(draft.courses[0].wanted, "cr-1: 12 → 16 nodes");
    assert!(
        draft.courses[0].effects().0.values().all(|amount| amount.count == 4 && amount.usd_hour.0.is_sign_positive())
    );

    let mut large = seen(10);
    (large.total, large.available) = (20, 10);
    see(&mut input, &[("cr-1", large)]);
    let draft = drafted(&input);
    let requires = &draft.courses[0].steps[0].requires;
    assert!(requires.contains(&Fact::Free { reservation: "cr-1".into(), places: 4 }));
}

#[test]
fn a_reservation_does_not_shrink_below_what_uses_it() {
    let mut input = base();
    let mut large = seen(0);
    (large.total, large.available) = (20, 2);
    see(&mut input, &[("cr-1", large)]);
    record(&mut input, "cr-1");
    let slot = SlotId::new(&"train".into(), 3);
    let instance = InstanceSeen {
        tag: Some(SlotTag { fleet: "fleet-uid".into(), slot, generation: 1 }),
        token: None,
        state: InstanceState::ShuttingDown,
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        market: Market::Reserved,
        reservation: Some("cr-1".into()),
        group: None,
        template: None,
        launched: input.now,
        network: Vec::new(),
        notice: None,
    };
    input.observed.cloud.instances = Read::new([("i-1".into(), instance)].into(), input.now);
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    let WaitingOn::Person(what) = &draft.held[0].waiting_on else { panic!("{:?}", draft.held) };
    assert_eq!(
        what,
        "2 of the 18 instances in cr-1 have to leave first, and nothing moves 1 of them (none of which we see): write \
         `nodes: 17`, or give their pools another source in `capacity`, or fewer nodes"
    );
    // Those that leave by themselves are waited for, by name.
    see(&mut input, &[("cr-1", ReservationSeen { total: 20, available: 3, ..seen(0) })]);
    let draft = drafted(&input);
    let WaitingOn::Capacity { what, .. } = &draft.held[0].waiting_on else { panic!("{:?}", draft.held) };
    assert_eq!(what, "1 of the 17 instances in cr-1, which have to leave first: train/3");
}

#[test]
fn the_match_changes_only_while_nothing_runs() {
    let mut input = world(NOW, &document("onDemand: {match: open, end: 2026-06-01T00:00Z}"));
    see(&mut input, &[("cr-1", seen(1))]);
    record(&mut input, "cr-1");
    let draft = drafted(&input);
    // The end can be changed at once.
    assert_eq!(told(&draft)[0], "resize:reservation/base@16-targeted-2026-06-01T00:00:00Z");
    assert_eq!(draft.held[0].wanted, "cr-1: match targeted → open");
    see(&mut input, &[("cr-1", seen(0))]);
    assert_eq!(told(&drafted(&input)), ["resize:reservation/base@16-open-2026-06-01T00:00:00Z"]);
}

#[test]
fn another_type_needs_a_person() {
    let mut input = base();
    see(&mut input, &[("cr-1", ReservationSeen { zone: "us-west-2b".into(), ..seen(0) })]);
    record(&mut input, "cr-1");
    let draft = drafted(&input);
    assert!(draft.courses.is_empty() && matches!(draft.held[0].waiting_on, WaitingOn::Person(_)));
}

#[test]
fn what_is_only_observed_is_never_changed() {
    let mut input = world(NOW, &document("id: cr-0123456789abcdef0, manage: observe, onDemand: {}"));
    let mut small = seen(0);
    (small.total, small.tag) = (12, None);
    see(&mut input, &[("cr-0123456789abcdef0", small)]);
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    let WaitingOn::Person(what) = &draft.held[0].waiting_on else { panic!("{:?}", draft.held) };
    assert!(what.ends_with("--capacity-reservation-id cr-0123456789abcdef0 --instance-count 16"), "{what}");
}

#[test]
fn what_is_given_back_is_empty_first() {
    let mut input = world(NOW, &document("onDemand: {cancel: true}"));
    see(&mut input, &[("cr-1", seen(2))]);
    record(&mut input, "cr-1");
    let draft = drafted(&input);
    assert!(draft.courses.is_empty(), "{:?}", told(&draft));
    // They are none of ours, so nothing of ours moves them.
    let WaitingOn::Person(what) = &draft.held[0].waiting_on else { panic!("{:?}", draft.held) };
    assert!(what.starts_with("2 instances in cr-1 have to leave first, and nothing moves 2 of them"), "{what}");
    see(&mut input, &[("cr-1", seen(0))]);
    let draft = drafted(&input);
    assert_eq!(told(&draft), ["cancel:reservation/base@cr-1", "record-forgotten:reservation/base@cr-1"]);
    assert_eq!(draft.courses[0].steps[1].after, [draft.courses[0].steps[0].id.clone()]);
    see(&mut input, &[("cr-1", ReservationSeen { state: ReservationState::Ended, ..seen(2) })]);
    assert_eq!(told(&drafted(&input)), ["record-forgotten:reservation/base@cr-1"]);
    input.ledger.change(&LedgerChange::ReservationForgotten { reservation: "base".into() });
    assert_eq!(told(&drafted(&input)), [""; 0]);
}

#[test]
fn a_document_that_is_gone_lets_go_and_destroys_nothing() {
    let mut input = world(NOW, "");
    see(&mut input, &[("cr-1", seen(2))]);
    record(&mut input, "cr-1");
    let draft = drafted(&input);
    assert_eq!(told(&draft), ["record-forgotten:reservation/base@0"]);
    assert!(draft.released[0].stays.starts_with("16 × p5.48xlarge in us-west-2a, 2 in use, $"), "{:?}", draft.released);
    input.ledger.change(&LedgerChange::ReservationForgotten { reservation: "base".into() });
    let draft = drafted(&input);
    assert_eq!((draft.courses.len(), draft.released.len(), draft.notes.len()), (0, 0, 1));
}

#[test]
fn an_open_request_without_a_document_is_not_sent_again() {
    let mut input = base();
    let request = request(&drafted(&input)).clone();
    let at = input.now;
    input.ledger.change(&LedgerChange::ReserveIntend { intent: Intent { request, plan: "p".into(), at } });
    input.target = world(NOW, "").target;
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    assert!(matches!(draft.held[0].waiting_on, WaitingOn::Until { at: until, .. } if until == at + LISTED));
    input.now = at + LISTED;
    assert_eq!(told(&drafted(&input)), ["record-forgotten:reservation/base@1"]);
}

#[test]
fn one_that_only_a_tag_names_is_written_down_before_anything_is_launched_into_it() {
    let pool = "---\nkind: NodePool\nmetadata: {name: train}\nspec: {instanceType: p5.48xlarge, nodes: 1, capacity: \
                [{reservation: base}]}\n";
    let mut input = world(NOW, &format!("{}{pool}", document("onDemand: {}")));
    see(&mut input, &[("cr-1", seen(0))]);
    let launched = |input: &PlanInput| {
        let plan = crate::plan::plan(input);
        plan.steps.iter().filter(|step| matches!(step.action, Action::Cloud(CloudAction::Launch(_)))).count()
    };
    assert!(is_only_tagged(&input, &"base".into()));
    assert_eq!((launched(&input), told(&drafted(&input))), (0, vec!["record-reserved:reservation/base@cr-1".into()]));
    record(&mut input, "cr-1");
    assert!(!is_only_tagged(&input, &"base".into()));
    assert_eq!(launched(&input), 1);
}

#[test]
fn what_was_made_before_a_ledger_was_lost_is_not_made_again() {
    let made_for = |whose: &str, state: ReservationState| {
        let mut input = base();
        input.fleet = "ml.0123456789".into();
        let tag = Some(ReservationTag { fleet: whose.into(), reservation: "base".into(), generation: 1 });
        see(&mut input, &[("cr-1", ReservationSeen { tag, state, ..seen(0) })]);
        told(&drafted(&input)).join("; ")
    };
    for whose in ["ml", "old.0123456789"] {
        let said = made_for(whose, ReservationState::Active);
        assert!(said.contains(&format!("cr-1 was made with this name for {whose}, and this fleet is ml.01")), "{said}");
        assert_eq!(made_for(whose, ReservationState::Ended), "reserve:reservation/base@1");
    }
    assert_eq!(made_for("ml.9876543210", ReservationState::Active), "reserve:reservation/base@1");
    assert_eq!(made_for("ml.0123456789", ReservationState::Active), "record-reserved:reservation/base@cr-1");
}

#[test]
fn a_rename_is_a_rename() {
    let text = document("onDemand: {}").replace("{name: base}", "{name: next, renamedFrom: base}");
    let mut input = world(NOW, &text);
    see(&mut input, &[("cr-1", seen(2))]);
    record(&mut input, "cr-1");
    let draft = drafted(&input);
    assert_eq!(told(&draft), ["record-rename:reservation/next@base"]);
    assert!(draft.released.is_empty());
    let change = LedgerChange::ReservationRenamed { from: "base".into(), to: "next".into() };
    input.ledger.change(&change);
    assert_eq!(told(&drafted(&input)), [""; 0]);
    assert_eq!(id_of(&input, &"next".into()), Some("cr-1".into()));
}

#[test]
fn an_open_request_under_the_old_name_shows_or_never_came() {
    let mut input = base();
    let request = request(&drafted(&input)).clone();
    let at = input.now;
    input.ledger.change(&LedgerChange::ReserveIntend { intent: Intent { request, plan: "p".into(), at } });
    let text = document("onDemand: {}").replace("{name: base}", "{name: next, renamedFrom: base}");
    input.target = world(NOW, &text).target;
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    assert!(matches!(draft.held[0].waiting_on, WaitingOn::Until { at: until, .. } if until == at + LISTED));
    let mut shown = input.clone();
    see(&mut shown, &[("cr-1", seen(0))]);
    assert_eq!(told(&drafted(&shown)), ["record-reserved:reservation/next@cr-1"]);
    input.now = at + LISTED;
    assert_eq!(told(&drafted(&input)), ["record-forgotten:reservation/next@base"]);
    input.ledger.change(&LedgerChange::ReservationForgotten { reservation: "base".into() });
    assert_eq!(told(&drafted(&input)), ["reserve:reservation/next@1"]);
}

#[test]
fn nothing_is_done_to_one_that_only_a_tag_names() {
    let mut input = base();
    see(&mut input, &[("cr-1", ReservationSeen { total: 12, available: 12, ..seen(0) })]);
    assert_eq!(told(&drafted(&input)), ["record-reserved:reservation/base@cr-1"]);
    record(&mut input, "cr-1");
    assert_eq!(told(&drafted(&input)), ["resize:reservation/base@16-targeted-never"]);
}

#[test]
fn a_tag_is_not_taken_for_two_documents() {
    let text = document("onDemand: {}").replace("{name: base}", "{name: next}");
    let both = format!("{text}---\n{}", document("onDemand: {}"));
    let mut input = world(NOW, &both);
    see(&mut input, &[("cr-1", seen(2))]);
    input.ledger.change(&LedgerChange::Reserved { reservation: "next".into(), id: "cr-1".into() });
    let draft = drafted(&input);
    // The tag still names the old one.
    assert!(draft.courses.is_empty());
    assert!(matches!(&draft.held[0].waiting_on, WaitingOn::Person(text) if text.starts_with("cr-1 was made with")));
}

#[test]
fn an_id_that_is_not_listed_stops_nothing_else() {
    let other = document("onDemand: {}").replace("{name: base}", "{name: other}");
    let text = format!("{}---\n{other}", document("id: cr-0123456789abcdef0, onDemand: {}"));
    let draft = drafted(&world(NOW, &text));
    let told = told(&draft);
    assert_eq!(told[0], "reserve:reservation/other@1");
    assert!(told[1].contains("is not listed in this account and region"), "{told:?}");
}

#[test]
fn a_fresh_one_may_take_minutes_to_be_listed() {
    let mut input = base();
    let request = request(&drafted(&input)).clone();
    let at = input.now;
    input.ledger.change(&LedgerChange::ReserveIntend { intent: Intent { request, plan: "p".into(), at } });
    record(&mut input, "cr-1");
    assert!(matches!(drafted(&input).held[0].waiting_on, WaitingOn::Until { at: until, .. } if until == at + LISTED));
    input.now = at + LISTED;
    let draft = drafted(&input);
    assert!(draft.courses.is_empty() && matches!(draft.held[0].waiting_on, WaitingOn::Person(_)));
}

#[test]
fn one_that_somebody_cancelled_is_asked_for_again() {
    let mut input = base();
    see(&mut input, &[("cr-1", ReservationSeen { state: ReservationState::Ended, ..seen(0) })]);
    record(&mut input, "cr-1");
    input.ledger.head.reservations.get_mut("base").unwrap().generation = 1;
    assert_eq!(told(&drafted(&input)), ["reserve:reservation/base@2"]);
    see(&mut input, &[("cr-1", ReservationSeen { state: ReservationState::Other("delayed".into()), ..seen(0) })]);
    assert!(drafted(&input).courses.is_empty());
}

#[test]
fn what_ended_as_its_document_says_is_not_asked_for_again() {
    let mut input = world("2026-01-01T00:00Z", &document("onDemand: {end: 2026-02-01T00:00Z}"));
    input.now = at(NOW);
    see(&mut input, &[("cr-1", ReservationSeen { state: ReservationState::Ended, ..seen(0) })]);
    record(&mut input, "cr-1");
    let draft = drafted(&input);
    assert_eq!(told(&draft), [""; 0]);
    assert!(draft.notes[0].text.contains("as its document says"), "{:?}", draft.notes);
}
