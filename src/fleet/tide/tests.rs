//! Windows on the wall clock, and what the clocks of the world do to them.

use super::*;
use crate::diag::codes;
use crate::fleet::testing::{at, check_in, tide, tide_document};

const LOS_ANGELES: &str = "America/Los_Angeles";
const NIGHTS: &str = r#"lowTide: [{days: [Mon-Fri], from: "20:00", to: "06:30"}]"#;
const EVERY_NIGHT: &str = r#"lowTide: [{days: [Mon-Sun], from: "20:00", to: "06:30"}]"#;

/// When it is low between two instants, one interval a line, in its own zone.
fn low(tide: &Tide, from: &str, to: &str) -> Vec<String> {
    let zone = tide.zone.zone();
    let show = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%a %m-%d %H:%M %:z").to_string();
    let calendar = tide.calendar(at(from), at(to));
    calendar.low.iter().map(|(start, end)| format!("{} to {}", show(*start), show(*end))).collect()
}

fn with_exceptions(zone: &str, exceptions: &str) -> Tide {
    tide(zone, &format!("{NIGHTS}\nexceptions: [{exceptions}]"))
}

fn hours(tide: &Tide, from: &str, to: &str) -> Vec<f64> {
    let low = tide.calendar(at(from), at(to)).low;
    low.iter().map(|(start, end)| end.duration_since(*start).as_secs_f64() / 3600.0).collect()
}

#[test]
fn a_window_crosses_midnight_and_belongs_to_the_day_it_begins_on() {
    let nights = tide(LOS_ANGELES, NIGHTS);
    // 2026-06-05 is a Friday.
    assert_eq!(
        low(&nights, "2026-06-04T12:00-07:00", "2026-06-09T00:00-07:00"),
        [
            "Thu 06-04 20:00 -07:00 to Fri 06-05 06:30 -07:00",
            "Fri 06-05 20:00 -07:00 to Sat 06-06 06:30 -07:00",
            "Mon 06-08 20:00 -07:00 to Tue 06-09 06:30 -07:00",
        ]
    );
}

#[test]
fn a_window_inside_a_day_does_not_cross_midnight() {
    let noon = tide("UTC", r#"lowTide: [{days: [Sat], from: "10:00", to: "16:00"}]"#);
    assert_eq!(
        low(&noon, "2026-06-01T00:00Z", "2026-06-14T00:00Z"),
        ["Sat 06-06 10:00 +00:00 to Sat 06-06 16:00 +00:00", "Sat 06-13 10:00 +00:00 to Sat 06-13 16:00 +00:00"]
    );
}

#[test]
fn windows_that_touch_are_one() {
    let weekend =
        r#"lowTide: [{days: [Mon-Fri], from: "20:00", to: "06:30"}, {days: [Sat, Sun], from: "06:30", to: "06:30"}]"#;
    let tide = tide(LOS_ANGELES, weekend);
    assert_eq!(
        low(&tide, "2026-06-05T12:00-07:00", "2026-06-08T12:00-07:00"),
        ["Fri 06-05 20:00 -07:00 to Mon 06-08 06:30 -07:00"]
    );
    // Seen from any instant inside of it, it is the same and whole.
    let due = at("2026-06-08T06:30-07:00");
    for inside in ["2026-06-05T20:00-07:00", "2026-06-06T06:30-07:00", "2026-06-07T23:00-07:00"] {
        assert_eq!(tide.calendar(at(inside), at(inside)).low, [(at("2026-06-05T20:00-07:00"), due)], "{inside}");
        assert_eq!(tide.phase_at(at(inside)), Phase::Low { reclaim_at: at("2026-06-08T05:45-07:00") }, "{inside}");
    }
}

#[test]
fn windows_that_overlap_are_one() {
    let both = r#"lowTide: [{days: [Mon], from: "20:00", to: "02:00"}, {days: [Tue], from: "01:00", to: "05:00"}]"#;
    assert_eq!(
        low(&tide("UTC", both), "2026-06-07T00:00Z", "2026-06-10T00:00Z"),
        ["Mon 06-08 20:00 +00:00 to Tue 06-09 05:00 +00:00"]
    );
}

#[test]
fn a_high_exception_lasts_from_midnight_to_midnight() {
    // Wednesday: the night that leads into it ends at midnight, its own begins at the next.
    let tide = with_exceptions(LOS_ANGELES, "{date: 2026-06-10, tide: high}");
    assert_eq!(
        low(&tide, "2026-06-09T12:00-07:00", "2026-06-11T12:00-07:00"),
        ["Tue 06-09 20:00 -07:00 to Wed 06-10 00:00 -07:00", "Thu 06-11 00:00 -07:00 to Thu 06-11 06:30 -07:00"]
    );
}

#[test]
fn a_low_exception_lasts_from_midnight_to_midnight_and_joins_what_it_touches() {
    let tide = with_exceptions(LOS_ANGELES, "{date: 2026-06-06, tide: low}, {date: 2026-06-14, tide: low}");
    assert_eq!(
        low(&tide, "2026-06-05T12:00-07:00", "2026-06-08T00:00-07:00"),
        ["Fri 06-05 20:00 -07:00 to Sun 06-07 00:00 -07:00"]
    );
    assert_eq!(
        low(&tide, "2026-06-13T12:00-07:00", "2026-06-15T00:00-07:00"),
        ["Sun 06-14 00:00 -07:00 to Mon 06-15 00:00 -07:00"]
    );
}

#[test]
fn a_low_of_many_weeks_is_whole_from_wherever_it_is_asked() {
    let june = (1..=30).map(|day| format!("{{date: 2026-06-{day:02}, tide: low}}"));
    let july = (1..=31).map(|day| format!("{{date: 2026-07-{day:02}, tide: low}}"));
    let tide = with_exceptions("UTC", &june.chain(july).collect::<Vec<_>>().join(", "));
    // The last of July is a Friday, and its night goes on to Saturday morning.
    let whole = (at("2026-06-01T00:00Z"), at("2026-08-01T06:30Z"));
    for inside in ["2026-06-01T00:00Z", "2026-07-01T12:00Z", "2026-08-01T06:29Z"] {
        assert_eq!(tide.calendar(at(inside), at(inside)).low, [whole], "{inside}");
    }
}

#[test]
fn phases_change_exactly_at_their_edges() {
    let nights = tide(LOS_ANGELES, NIGHTS);
    let (reclaim_at, hard_at, due) =
        (at("2026-06-09T05:45-07:00"), at("2026-06-09T06:20-07:00"), at("2026-06-09T06:30-07:00"));
    for (instant, phase) in [
        ("2026-06-08T19:59:59.999999999-07:00", Phase::High),
        ("2026-06-08T20:00-07:00", Phase::Low { reclaim_at }),
        ("2026-06-09T05:44:59.999999999-07:00", Phase::Low { reclaim_at }),
        ("2026-06-09T05:45-07:00", Phase::Reclaiming { hard_at, due }),
        ("2026-06-09T06:19:59.999999999-07:00", Phase::Reclaiming { hard_at, due }),
        ("2026-06-09T06:20-07:00", Phase::HardReclaim { due }),
        ("2026-06-09T06:29:59.999999999-07:00", Phase::HardReclaim { due }),
        ("2026-06-09T06:30-07:00", Phase::High),
    ] {
        assert_eq!(nights.phase_at(at(instant)), phase, "{instant}");
    }
}

#[test]
fn an_interval_no_longer_than_the_lead_lends_nothing() {
    let spec = |from: &str| {
        let windows = format!("lowTide: [{{days: [Mon-Sun], from: \"{from}\", to: \"06:30\"}}]");
        windows + "\nexceptions: [{date: 2026-06-10, tide: high}]"
    };
    // What is left of the night before the exception is 45 minutes, or one more.
    let (short, enough) = (tide("UTC", &spec("23:15")), tide("UTC", &spec("23:14")));
    assert_eq!(short.phase_at(at("2026-06-09T23:15Z")), Phase::High);
    assert_eq!(short.phase_at(at("2026-06-09T23:55Z")), Phase::High, "nor is anything reclaimed");
    assert_eq!(enough.phase_at(at("2026-06-09T23:14Z")), Phase::Low { reclaim_at: at("2026-06-09T23:15Z") });
}

#[test]
fn a_night_in_which_the_clock_skips_or_repeats_an_hour_is_shorter_or_longer() {
    let nights = tide(LOS_ANGELES, EVERY_NIGHT);
    assert_eq!(hours(&nights, "2026-03-07T12:00-08:00", "2026-03-08T12:00-07:00"), [9.5]);
    assert_eq!(hours(&nights, "2026-10-31T12:00-07:00", "2026-11-01T12:00-08:00"), [11.5]);
    // Reclaim counts back from the end, whatever the clock does.
    let reclaim_at = at("2026-11-01T05:45-08:00");
    assert_eq!(nights.phase_at(at("2026-11-01T01:30-07:00")), Phase::Low { reclaim_at });
    assert_eq!(nights.phase_at(at("2026-11-01T01:30-08:00")), Phase::Low { reclaim_at });
}

#[test]
fn an_edge_that_the_clock_skips_is_the_moment_of_the_skip() {
    let edges = |from: &str, to: &str| {
        let tide = tide(LOS_ANGELES, &format!("lowTide: [{{days: [Sun], from: \"{from}\", to: \"{to}\"}}]"));
        low(&tide, "2026-03-08T00:00-08:00", "2026-03-08T23:00-07:00")
    };
    assert_eq!(edges("02:30", "06:00"), ["Sun 03-08 03:00 -07:00 to Sun 03-08 06:00 -07:00"]);
    assert_eq!(edges("02:00", "06:00"), ["Sun 03-08 03:00 -07:00 to Sun 03-08 06:00 -07:00"]);
    assert_eq!(edges("03:00", "06:00"), ["Sun 03-08 03:00 -07:00 to Sun 03-08 06:00 -07:00"]);
    assert_eq!(edges("00:30", "02:30"), ["Sun 03-08 00:30 -08:00 to Sun 03-08 03:00 -07:00"]);
    assert_eq!(edges("02:01", "02:59"), Vec::<String>::new());
}

#[test]
fn windows_with_only_a_skipped_time_between_them_are_one() {
    let two = r#"lowTide: [{days: [Sun], from: "00:00", to: "02:15"}, {days: [Sun], from: "02:45", to: "06:00"}]"#;
    assert_eq!(
        low(&tide(LOS_ANGELES, two), "2026-03-08T00:00-08:00", "2026-03-08T23:00-07:00"),
        ["Sun 03-08 00:00 -08:00 to Sun 03-08 06:00 -07:00"]
    );
}

#[test]
fn a_beginning_that_comes_twice_is_the_second_and_an_end_the_first() {
    let edges = |from: &str, to: &str| {
        let tide = tide(LOS_ANGELES, &format!("lowTide: [{{days: [Sun], from: \"{from}\", to: \"{to}\"}}]"));
        low(&tide, "2026-11-01T00:00-07:00", "2026-11-01T23:00-08:00")
    };
    assert_eq!(edges("01:30", "06:00"), ["Sun 11-01 01:30 -08:00 to Sun 11-01 06:00 -08:00"]);
    assert_eq!(edges("00:15", "01:30"), ["Sun 11-01 00:15 -07:00 to Sun 11-01 01:30 -07:00"]);
    assert_eq!(edges("01:00", "06:00"), ["Sun 11-01 01:00 -08:00 to Sun 11-01 06:00 -08:00"]);
    assert_eq!(edges("02:00", "06:00"), ["Sun 11-01 02:00 -08:00 to Sun 11-01 06:00 -08:00"]);
    // Both inside of what comes twice: never longer than written, so not at all.
    assert_eq!(edges("01:05", "01:55"), Vec::<String>::new());
}

#[test]
fn windows_that_touch_at_a_time_that_comes_twice_are_one() {
    // In Havana the clock goes from 01:00 back to 00:00, so midnight comes twice.
    let weekend = r#"lowTide: [{days: [Sat, Sun], from: "00:00", to: "00:00"}]"#;
    let tide = tide("America/Havana", weekend);
    assert_eq!(
        low(&tide, "2026-10-31T00:00-04:00", "2026-11-02T00:00-05:00"),
        ["Sat 10-31 00:00 -04:00 to Mon 11-02 00:00 -05:00"]
    );
    // No edge is there, so validation has nothing to tell about it; where only Sunday is low it has.
    let clock = |document: &str| {
        let (_, found) = check_in("America/Havana", "2026-06-01T00:00Z", document);
        found.iter().filter(|said| said.code == codes::CLOCK_CHANGE).count()
    };
    assert_eq!(clock(&tide_document(weekend)), 0);
    assert_eq!(clock(&tide_document(r#"lowTide: [{days: [Sun], from: "00:00", to: "00:00"}]"#)), 1);
}

#[test]
fn a_clock_may_shift_by_half_an_hour() {
    // Lord Howe: back from 02:00 to 01:30 on 2026-04-05, forward from 02:00 to 02:30 on 2026-10-04. Both are Sundays.
    let nights = tide("Australia/Lord_Howe", EVERY_NIGHT);
    assert_eq!(hours(&nights, "2026-04-04T12:00+11:00", "2026-04-05T12:00+10:30"), [11.0]);
    assert_eq!(hours(&nights, "2026-10-03T12:00+10:30", "2026-10-04T12:00+11:00"), [10.0]);
    let edge = tide("Australia/Lord_Howe", r#"lowTide: [{days: [Sun], from: "01:45", to: "06:00"}]"#);
    assert_eq!(
        low(&edge, "2026-04-05T00:00+11:00", "2026-04-05T12:00+10:30"),
        ["Sun 04-05 01:45 +10:30 to Sun 04-05 06:00 +10:30"]
    );
    let skipped = tide("Australia/Lord_Howe", r#"lowTide: [{days: [Sun], from: "02:15", to: "06:00"}]"#);
    assert_eq!(
        low(&skipped, "2026-10-04T00:00+10:30", "2026-10-04T12:00+11:00"),
        ["Sun 10-04 02:30 +11:00 to Sun 10-04 06:00 +11:00"]
    );
}

#[test]
fn nights_keep_their_edges_in_zones_whose_clocks_follow_the_moon() {
    // Years that are over: rules for years to come change with every edition of the time zone database.
    for (name, from, to) in [
        // Summer time, interrupted for Ramadan.
        ("Africa/Casablanca", "2017-01-01T00:00Z", "2018-01-01T00:00Z"),
        ("Asia/Gaza", "2024-01-01T00:00Z", "2026-01-01T00:00Z"),
    ] {
        let nights = tide(name, EVERY_NIGHT);
        let zone = nights.zone.zone();
        let changes: Vec<Timestamp> =
            zone.following(at(from)).map(|change| change.timestamp()).take_while(|change| *change < at(to)).collect();
        assert_eq!(changes.len(), 4, "{name}: {changes:?}");
        for change in changes {
            let around = nights.calendar(change, change);
            let [(start, end)] = around.low.as_slice() else { panic!("{name}: {around:?}") };
            let wall = [*start, *end].map(|at| zone.to_datetime(at).time().to_string());
            assert_eq!(wall, ["20:00:00", "06:30:00"], "{name} {change}");
            assert!([9.5, 11.5].contains(&(end.duration_since(*start).as_secs_f64() / 3600.0)), "{name} {change}");
        }
    }
}

#[test]
fn a_clock_may_change_at_midnight() {
    // Beirut skips from 00:00 to 01:00 on 2026-03-29, a Sunday, and goes from 24:00 back to 23:00 on 2026-10-24.
    let day = tide("Asia/Beirut", r#"lowTide: [{days: [Sun], from: "00:00", to: "06:00"}]"#);
    assert_eq!(
        low(&day, "2026-03-28T12:00+02:00", "2026-03-29T12:00+03:00"),
        ["Sun 03-29 01:00 +03:00 to Sun 03-29 06:00 +03:00"]
    );
    let late = tide("Asia/Beirut", r#"lowTide: [{days: [Sat], from: "23:30", to: "06:00"}]"#);
    assert_eq!(
        low(&late, "2026-10-24T12:00+03:00", "2026-10-25T12:00+02:00"),
        ["Sat 10-24 23:30 +02:00 to Sun 10-25 06:00 +02:00"]
    );
    // A high exception ends where the first day after it begins, and begins at the first midnight.
    let high = tide("Asia/Beirut", &format!("{EVERY_NIGHT}\nexceptions: [{{date: 2026-03-29, tide: high}}]"));
    assert_eq!(
        low(&high, "2026-03-28T12:00+02:00", "2026-03-29T12:00+03:00"),
        ["Sat 03-28 20:00 +02:00 to Sun 03-29 01:00 +03:00"]
    );
}

#[test]
fn a_day_that_never_was_joins_its_neighbours() {
    // Samoa had no Friday 2011-12-30: Thursday's midnight was Saturday's.
    let nights = tide("Pacific/Apia", NIGHTS);
    assert_eq!(
        low(&nights, "2011-12-29T12:00-10:00", "2011-12-31T12:00+14:00"),
        ["Thu 12-29 20:00 -10:00 to Sat 12-31 06:30 +14:00"]
    );
    let friday = tide("Pacific/Apia", r#"lowTide: [{days: [Fri], from: "08:00", to: "20:00"}]"#);
    assert_eq!(low(&friday, "2011-12-28T00:00Z", "2012-01-01T00:00Z"), Vec::<String>::new());
    // An exception on a day that never was changes nothing.
    let high = with_exceptions("Pacific/Apia", "{date: 2011-12-30, tide: high}");
    assert_eq!(hours(&high, "2011-12-29T12:00-10:00", "2011-12-31T12:00+14:00"), [10.5]);
}

#[test]
fn the_phase_is_the_same_from_a_long_calendar_and_from_a_short_one() {
    let tide = with_exceptions(LOS_ANGELES, "{date: 2026-11-05, tide: high}, {date: 2026-11-08, tide: low}");
    let (from, to) = (at("2026-10-25T00:00Z"), at("2026-11-15T00:00Z"));
    let calendar = tide.calendar(from, to);
    let mut now = from;
    while now <= to {
        assert_eq!(calendar.phase_at(now), tide.phase_at(now), "{now}");
        now = back(now, SignedDuration::from_mins(-5));
    }
}

#[test]
fn far_from_today_nothing_overflows() {
    let nights = tide(LOS_ANGELES, NIGHTS);
    for instant in [Timestamp::MIN, Timestamp::MAX, at("-009999-01-03T00:00Z"), at("9999-12-29T00:00Z")] {
        let _ = nights.phase_at(instant);
        assert!(nights.calendar(Timestamp::MAX, Timestamp::MIN).low.is_empty());
    }
}
