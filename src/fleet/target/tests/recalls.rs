//! Tides that were turned before their time.

use jiff::SignedDuration;

use super::*;

const EVENING: &str = "2026-06-08T21:00-07:00";

fn recall(tide: &str, when: &str) -> Recalls {
    Recalls::from([(tide.into(), at(when))])
}

fn phase(fleet: &Fleet, now: &str, recalls: &Recalls) -> Phase {
    fleet.target_with(at(now), recalls).tides["nightly"]
}

#[test]
fn a_recalled_tide_is_asked_back_at_once_and_stays_high_until_its_low_tide_is_over() {
    let (fleet, recalls) = (demo(), recall("nightly", EVENING));
    let (hard_at, due) = (at("2026-06-08T21:35-07:00"), at("2026-06-08T21:45-07:00"));
    for (now, expected) in [
        ("2026-06-08T20:30-07:00", Phase::Low { reclaim_at: at(EVENING) }),
        (EVENING, Phase::Reclaiming { hard_at, due }),
        ("2026-06-08T21:34:59-07:00", Phase::Reclaiming { hard_at, due }),
        ("2026-06-08T21:35-07:00", Phase::HardReclaim { due }),
        ("2026-06-08T21:45-07:00", Phase::High),
        (RECLAIM, Phase::High),
        ("2026-06-09T20:00-07:00", Phase::Low { reclaim_at: at("2026-06-10T05:45-07:00") }),
    ] {
        assert_eq!(phase(&fleet, now, &recalls), expected, "{now}");
    }
    let serve = |now| parts(&fleet.target_with(at(now), &recalls).pools["serve"]);
    assert_eq!(serve(EVENING)[1], "1..13 halves back from batch to serving by 2026-06-09T04:45:00Z (nightly)");
    assert_eq!(serve(NIGHT), ["0..1 halves spare", "1..17 halves own"]);
    let target = fleet.target_with(at(NIGHT), &recalls);
    assert_eq!(slices(&target.quotas["serving"].shares["serve"].guarantee), 256);
    assert_eq!(target.pools["burst"].nodes, 4, "what is resized turns with it");
}

#[test]
fn a_recall_is_never_later_than_the_tide_itself() {
    let fleet = demo();
    let just = "2026-06-09T05:44-07:00";
    let (hard_at, due) = (at("2026-06-09T06:19-07:00"), at("2026-06-09T06:29-07:00"));
    assert_eq!(phase(&fleet, just, &recall("nightly", just)), Phase::Reclaiming { hard_at, due });
    // What is asked back already is not asked for later.
    for late in [RECLAIM, HARD, "2026-06-09T06:29-07:00"] {
        for now in [NIGHT, RECLAIM, HARD, "2026-06-09T06:29:59-07:00", MORNING] {
            assert_eq!(fleet.target_with(at(now), &recall("nightly", late)), fleet.target_at(at(now)), "{late} {now}");
        }
    }
}

#[test]
fn a_recall_outside_of_any_low_tide_or_of_an_earlier_one_means_nothing() {
    let fleet = demo();
    for when in [NOON, "2026-06-07T22:00-07:00", "2026-06-05T22:00-07:00", "2026-06-08T19:59:59-07:00"] {
        for now in [NOON, NIGHT, RECLAIM, HARD, MORNING] {
            assert_eq!(fleet.target_with(at(now), &recall("nightly", when)), fleet.target_at(at(now)), "{when} {now}");
        }
    }
    assert_eq!(fleet.target_with(at(NIGHT), &recall("nobody", NIGHT)), fleet.target_at(at(NIGHT)));
    // At its very beginning: nothing was lent yet, and nothing is.
    assert_eq!(phase(&fleet, "2026-06-08T20:00-07:00", &recall("nightly", "2026-06-08T20:00-07:00")), Phase::High);
}

#[test]
fn a_recall_is_over_when_its_low_tide_is() {
    let fleet = demo();
    let over = |when, now| fleet.recall_is_over(&"nightly".into(), at(when), at(now));
    assert!(!over(EVENING, EVENING));
    assert!(!over(EVENING, "2026-06-09T06:29:59-07:00"), "until then it keeps the tide from lending again");
    assert!(over(EVENING, MORNING));
    assert!(over(NOON, NOON), "it fell into no low tide");
    assert!(over(MORNING, MORNING));
    assert!(fleet.recall_is_over(&"nobody".into(), at(EVENING), at(EVENING)));
}

#[test]
fn what_a_recalled_tide_gives_up_no_other_takes() {
    let fleet = fleet_in(LOS_ANGELES, NOON, &with_rival("precedence: 5"));
    let recalls = recall("rival", "2026-06-09T01:00-07:00");
    let serve = |now| parts(&fleet.target_with(at(now), &recalls).pools["serve"]);
    assert!(serve("2026-06-09T01:00-07:00")[1].starts_with("1..3 halves back"));
    assert_eq!(serve("2026-06-09T02:00-07:00")[1], "1..17 halves own");
    // The other way round: the rest of a low tide that another one interrupts lends nothing either.
    let text = with_rival("precedence: 5").replace(r#"to: "12:00""#, r#"to: "03:00""#);
    let fleet = fleet_in(LOS_ANGELES, NOON, &text);
    assert!(super::serve(&fleet, "2026-06-09T04:00-07:00")[1].ends_with("(nightly)"));
    let recalls = recall("nightly", EVENING);
    let after = parts(&fleet.target_with(at("2026-06-09T04:00-07:00"), &recalls).pools["serve"]);
    assert_eq!(after[1], "1..17 halves own");
    let between = parts(&fleet.target_with(at("2026-06-09T01:00-07:00"), &recalls).pools["serve"]);
    assert!(between[1].ends_with("(rival)"));
}

#[test]
fn with_recalls_the_target_is_constant_between_transitions_and_changes_at_each() {
    let fleet = fleet_in(LOS_ANGELES, NOON, &with_rival("precedence: 5"));
    let (from, to) = (at(NOON), at("2026-06-10T12:00-07:00"));
    let both = Recalls::from([
        ("nightly".into(), at("2026-06-09T22:10-07:00")),
        ("rival".into(), at("2026-06-09T03:21-07:00")),
    ]);
    for recalls in [recall("nightly", EVENING), recall("rival", "2026-06-09T00:30-07:00"), both] {
        let transitions = fleet.transitions_with(from, to, &recalls);
        assert!(transitions.len() > 6, "{}", transitions.len());
        let (mut now, mut last) = (from, fleet.target_with(from, &recalls));
        while now < to {
            let next = now.checked_add(SignedDuration::from_mins(5)).expect("near today");
            let target = fleet.target_with(next, &recalls);
            let moved = transitions.iter().any(|(at, _)| now < *at && *at <= next);
            assert_eq!(last != target, moved, "{now} {recalls:?}");
            (now, last) = (next, target);
        }
    }
}
