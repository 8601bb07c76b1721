//! What is on the screen, above all on the days when clocks change.

use insta::assert_snapshot;
use jiff::SignedDuration;
use jiff::civil::Date;
use serde_json::Value;

use super::*;
use crate::fleet::testing::{at, fleet_in};

const LOS_ANGELES: &str = "America/Los_Angeles";

/// A serving pool cut by MIG that lends most of its nodes at night, and a pool that grows.
const DEMO: &str = r#"
kind: PreemptionTier
metadata: {name: production}
spec: {rank: 1000}
---
kind: PreemptionTier
metadata: {name: batch}
spec: {rank: 100}
---
kind: Reservation
metadata: {name: h100}
spec: {instanceType: p5.48xlarge, zone: us-west-2a, nodes: 17, onDemand: {}}
---
kind: GpuLayout
metadata: {name: slices}
spec: {mig: [{gpus: [0, 1, 2, 3], slices: {3g.40gb: 2}}, {gpus: [4, 5, 6, 7], slices: {1g.10gb: 7}}]}
---
kind: NodePool
metadata: {name: serve, renamedFrom: inference}
spec: {instanceType: p5.48xlarge, nodes: 17, spares: 1, layout: slices, capacity: [{reservation: h100}]}
---
kind: NodePool
metadata: {name: burst}
spec: {instanceType: p4d.24xlarge, nodes: 4, capacity: [{onDemand: {max: 8}}]}
---
kind: NodePool
metadata: {name: old}
spec: {instanceType: p4d.24xlarge, nodes: 0, capacity: [{onDemand: {max: 1}}]}
---
kind: Quota
metadata: {name: serving}
spec:
  namespaces: [{name: serving}]
  cohort: all
  tiers: [production]
  shares: [{pool: serve, guarantee: {slices: {3g.40gb: 128, 1g.10gb: 448}}, lend: {slices: {3g.40gb: 128}}}]
---
kind: Quota
metadata: {name: batch}
spec:
  namespaces: [{name: batch}]
  cohort: all
  tiers: [batch]
  shares:
    - {pool: burst, guarantee: {gpus: 32}}
    - {pool: serve, guarantee: {slices: {3g.40gb: 0}}, borrow: {slices: {3g.40gb: 8}}}
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Fri], from: "20:00", to: "06:30"}, {days: [Sat, Sun], from: "01:30", to: "05:00"}]
  exceptions: [{date: 2026-11-03, tide: high}, {date: 2026-11-07, tide: low}]
  lend: [{pool: serve, nodes: 12, from: serving, to: batch, layout: whole}]
  resize: [{pool: burst, nodes: 6}]
  reclaim: {lead: 45m, hardAt: 10m}
"#;

fn ask<'a>(fleet: &'a Fleet, from: &str, length: &str) -> Question<'a> {
    let length: Duration = length.parse().unwrap();
    let from = at(from);
    Question { fleet, at: from, until: from.checked_add(length.signed()).unwrap(), is_now: false }
}

fn demo() -> Fleet {
    fleet_in(LOS_ANGELES, "2026-10-25T00:00Z", DEMO)
}

fn shown(zone: &str, documents: &str, from: &str, length: &str) -> String {
    let fleet = fleet_in(zone, from, documents);
    human(&ask(&fleet, from, length))
}

/// The chart of a tide that only has windows.
fn charted(zone: &str, windows: &str, from: &str, length: &str) -> String {
    let spec = format!("lowTide: [{windows}]");
    let text = shown(zone, &crate::fleet::testing::tide_document(&spec), from, length);
    let start = text.find("\nnightly (").map_or(0, |start| start + 1);
    text[start..].to_string()
}

#[test]
fn a_night_in_which_the_clock_goes_back() {
    let fleet = demo();
    assert_snapshot!(human(&ask(&fleet, "2026-10-30T22:00-07:00", "2d")), @"
    Fleet test at Fri 2026-10-30 22:00 -07:00 (America/Los_Angeles)

    TIDE     PHASE  WHAT COMES
    nightly  low    until Sat 05:45, then reclaiming; back by 06:30

    POOL   NODES  USE                          SLOTS  LAYOUT
    burst      6  6 own                        0-5    whole
    old        0  -                            -      -
    serve     17  1 spare                      0      slices
                  12 lent by serving to batch  1-12   whole
                  4 own                        13-16  slices

    QUOTA    POOL   GUARANTEE                     LOANS                 BORROW       LEND
    batch    burst  32 GPUs                       -                     -            -
             serve  0 × 3g.40gb                   96 GPUs from serving  8 × 3g.40gb  -
    serving  serve  112 × 1g.10gb + 32 × 3g.40gb  -                     -            32 × 3g.40gb

    Changes of the next 2d:

    WHEN                         WHAT           CHANGE
    Sat 2026-10-31 05:45 -07:00  tide/nightly   reclaiming, back by 06:30
                                 pool/burst     6 → 4 nodes
                                 pool/serve     12 nodes asked back from batch by 06:30, cut as slices
                                 quota/batch    -96 GPUs of serve, lent by serving
    Sat 2026-10-31 06:20 -07:00  tide/nightly   hard reclaim, back by 06:30
    Sat 2026-10-31 06:30 -07:00  tide/nightly   high
                                 pool/serve     12 nodes back with serving
                                 quota/serving  guarantee of serve: +336 × 1g.10gb, +96 × 3g.40gb
                                 quota/serving  lends at most 128 × 3g.40gb of serve
    Sun 2026-11-01 01:00 -08:00  clock          goes back one hour: 01:00–02:00 comes twice
    Sun 2026-11-01 01:30 -08:00  tide/nightly   low until 04:15
                                 pool/burst     4 → 6 nodes
                                 pool/serve     12 nodes lent by serving to batch, cut whole
                                 quota/batch    +96 GPUs of serve, lent by serving
                                 quota/serving  guarantee of serve: -336 × 1g.10gb, -96 × 3g.40gb
                                 quota/serving  lends at most 32 × 3g.40gb of serve
    Sun 2026-11-01 04:15 -08:00  tide/nightly   reclaiming, back by 05:00
                                 pool/burst     6 → 4 nodes
                                 pool/serve     12 nodes asked back from batch by 05:00, cut as slices
                                 quota/batch    -96 GPUs of serve, lent by serving
    Sun 2026-11-01 04:50 -08:00  tide/nightly   hard reclaim, back by 05:00
    Sun 2026-11-01 05:00 -08:00  tide/nightly   high
                                 pool/serve     12 nodes back with serving
                                 quota/serving  guarantee of serve: +336 × 1g.10gb, +96 × 3g.40gb
                                 quota/serving  lends at most 128 × 3g.40gb of serve

    nightly (America/Los_Angeles)
                    00  02  04  06  08  10  12  14  16  18  20  22
    Fri 2026-10-30  ░░░░░░░░░░░rR···························░░░░░░░░
                                                                ^ 22:00
    Sat 2026-10-31  ░░░░░░░░░░░rR···································
    Sun 2026-11-01  ····░░░░rR······································  clock -1h: 01:00–02:00 twice
             again    ·░

    · high   ░ low   r reclaiming   R hard reclaim
    Each character is half an hour of the wall clock, and shows the most urgent of what is in it.
    ");
}

#[test]
fn a_week_with_exceptions() {
    let fleet = demo();
    let text = human(&ask(&fleet, "2026-11-02T12:00-08:00", "6d"));
    assert_snapshot!(text[text.find("\nnightly (").unwrap()..].trim(), @"
    nightly (America/Los_Angeles)
                    00  02  04  06  08  10  12  14  16  18  20  22
    Mon 2026-11-02  ········································░░░░░░rR
                                            ^ 12:00
    Tue 2026-11-03  ················································  exception: high
    Wed 2026-11-04  ░░░░░░░░░░░rR···························░░░░░░░░
    Thu 2026-11-05  ░░░░░░░░░░░rR···························░░░░░░░░
    Fri 2026-11-06  ░░░░░░░░░░░rR···························░░░░░░░░
    Sat 2026-11-07  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░rR  exception: low
    Sun 2026-11-08  ···░░░░░rR······································

    · high   ░ low   r reclaiming   R hard reclaim
    Each character is half an hour of the wall clock, and shows the most urgent of what is in it.
    ");
}

#[test]
fn what_comes_in_each_phase() {
    let fleet = demo();
    let tide = &fleet.tides["nightly"];
    let said: Vec<String> = [
        "2026-11-04T12:00-08:00",
        "2026-11-04T20:00-08:00",
        "2026-11-05T05:45-08:00",
        "2026-11-05T06:20-08:00",
        "2026-11-02T06:30-08:00",
        "2026-11-08T06:30-08:00",
    ]
    .iter()
    .map(|now| {
        let phase = tide.phase_at(at(now));
        format!("{now} {} {}", words::phase(&phase), coming(tide, &phase, at(now), &tide.zone.zone()))
    })
    .collect();
    assert_snapshot!(said.join("\n"), @"
    2026-11-04T12:00-08:00 high until 20:00, then low
    2026-11-04T20:00-08:00 low until Thu 05:45, then reclaiming; back by 06:30
    2026-11-05T05:45-08:00 reclaiming gently until 06:20, then hard; back by 06:30
    2026-11-05T06:20-08:00 hard reclaim back by 06:30
    2026-11-02T06:30-08:00 high until 20:00, then low
    2026-11-08T06:30-08:00 high until Mon 20:00, then low
    ");
}

#[test]
fn an_instant_is_told_as_short_as_it_can_be() {
    let zone = TimeZone::get(LOS_ANGELES).unwrap();
    let today = at("2026-10-31T12:00-07:00");
    for (instant, text) in [
        ("2026-10-31T20:00-07:00", "20:00"),
        ("2026-10-31T20:00:30-07:00", "20:00:30"),
        ("2026-11-01T00:00-07:00", "24:00"),
        ("2026-11-01T06:30-08:00", "Sun 06:30"),
        ("2026-11-01T01:30-07:00", "Sun 01:30 -07:00"),
        ("2026-11-01T01:30-08:00", "Sun 01:30 -08:00"),
        ("2026-11-02T00:00-08:00", "Mon 00:00"),
        ("2026-11-06T20:00-08:00", "Fri 20:00"),
        ("2026-11-07T20:00-08:00", "Sat 2026-11-07 20:00"),
    ] {
        assert_eq!(near(at(instant), today, &zone), text);
    }
}

#[test]
fn a_half_hour_that_does_not_exist_is_shown_as_such() {
    let nights = r#"{days: [Mon-Sun], from: "20:00", to: "06:30"}"#;
    assert_snapshot!(charted(LOS_ANGELES, nights, "2026-03-07T23:00-08:00", "1d"), @"
    nightly (America/Los_Angeles)
                    00  02  04  06  08  10  12  14  16  18  20  22
    Sat 2026-03-07  ░░░░░░░░░░░rR···························░░░░░░░░
                                                                  ^ 23:00
    Sun 2026-03-08  ░░░░xx░░░░░rR···························░░░░░░░░  clock +1h: no 02:00–03:00
    Mon 2026-03-09  ░░░░░░░░░░░rR···························░░░░░░░░

    · high   ░ low   r reclaiming   R hard reclaim   x does not exist
    Each character is half an hour of the wall clock, and shows the most urgent of what is in it.
    ");
    assert_snapshot!(charted("Pacific/Apia", nights, "2011-12-29T23:00-10:00", "1d"), @"
    nightly (Pacific/Apia)
                    00  02  04  06  08  10  12  14  16  18  20  22
    Thu 2011-12-29  ░░░░░░░░░░░rR···························░░░░░░░░
                                                                  ^ 23:00
    Fri 2011-12-30  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  clock +1d: no 2011-12-30
    Sat 2011-12-31  ░░░░░░░░░░░rR···························░░░░░░░░

    · high   ░ low   r reclaiming   R hard reclaim   x does not exist
    Each character is half an hour of the wall clock, and shows the most urgent of what is in it.
    ");
}

#[test]
fn a_half_hour_that_comes_twice_has_a_second_line() {
    let from_half_past = r#"{days: [Sun], from: "01:30", to: "06:30"}"#;
    assert_snapshot!(charted(LOS_ANGELES, from_half_past, "2026-11-01T01:40-08:00", "1h"), @"
    nightly (America/Los_Angeles)
                    00  02  04  06  08  10  12  14  16  18  20  22
    Sun 2026-11-01  ····░░░░░░░rR···································  clock -1h: 01:00–02:00 twice
             again    ·░
                       ^ 01:40

    · high   ░ low   r reclaiming   R hard reclaim
    Each character is half an hour of the wall clock, and shows the most urgent of what is in it.
    ");
    assert_snapshot!(charted("Australia/Lord_Howe", from_half_past, "2026-04-05T01:40+11:00", "1h"), @"
    nightly (Australia/Lord_Howe)
                    00  02  04  06  08  10  12  14  16  18  20  22
    Sun 2026-04-05  ····░░░░░░░rR···································  clock -30m: 01:30–02:00 twice
                       ^ 01:40
             again     ░

    · high   ░ low   r reclaiming   R hard reclaim
    Each character is half an hour of the wall clock, and shows the most urgent of what is in it.
    ");
}

#[test]
fn what_the_clock_does_in_words() {
    let said = |zone: &str, from: &str| {
        let zone = TimeZone::get(zone).unwrap();
        let until = at(from).checked_add(SignedDuration::from_hours(48)).unwrap();
        let changes = ClockChange::all(&zone, at(from), until);
        changes.iter().map(|change| format!("{} | {}", change.words(), change.note())).collect::<Vec<_>>().join("\n")
    };
    let all = [
        (LOS_ANGELES, "2026-10-31T12:00Z"),
        (LOS_ANGELES, "2026-03-07T12:00Z"),
        ("Australia/Lord_Howe", "2026-04-03T12:00Z"),
        ("America/Scoresbysund", "2026-10-24T12:00Z"),
        ("Pacific/Apia", "2011-12-29T12:00Z"),
        ("America/St_Johns", "1988-04-02T12:00Z"),
        ("America/St_Johns", "1988-10-29T12:00Z"),
        ("Africa/Monrovia", "1972-01-06T12:00Z"),
    ];
    assert_snapshot!(all.map(|(zone, from)| said(zone, from)).join("\n"), @"
    goes back one hour: 01:00–02:00 comes twice | clock -1h: 01:00–02:00 twice
    goes forward one hour: 02:00–03:00 is skipped | clock +1h: no 02:00–03:00
    goes back half an hour: 01:30–02:00 comes twice | clock -30m: 01:30–02:00 twice
    goes back one hour: 23:00–24:00 comes twice | clock -1h: 23:00–24:00 twice
    goes forward one day: 2011-12-30 is skipped | clock +1d: no 2011-12-30
    goes forward 2h: 00:01–02:01 is skipped | clock +2h: no 00:01–02:01
    goes back 2h: 1988-10-29 22:01–1988-10-30 00:01 comes twice | clock -2h: 1988-10-29 22:01–1988-10-30 00:01 twice
    goes forward 44m30s: 00:00–00:44:30 is skipped | clock +44m30s: no 00:00–00:44:30
    ");
    // Called summer time with no jump.
    assert_eq!(said("Europe/London", "1971-10-30T12:00Z").lines().count(), 1);
    assert_eq!(said("Europe/London", "1968-10-26T12:00Z"), "");
}

/// Minute by minute, every half hour has the instants that the wall clock gives it, and no others.
#[test]
fn the_half_hours_of_a_day_hold_every_instant_of_it_once() {
    for (zone, from, to) in [
        (LOS_ANGELES, "2026-03-07", "2026-03-09"),
        (LOS_ANGELES, "2026-10-31", "2026-11-02"),
        ("Australia/Lord_Howe", "2026-04-04", "2026-04-06"),
        ("Australia/Lord_Howe", "2026-10-03", "2026-10-05"),
        ("America/Scoresbysund", "2026-10-23", "2026-10-26"),
        ("America/Havana", "2026-10-31", "2026-11-02"),
        ("America/St_Johns", "1988-04-02", "1988-04-04"),
        ("America/St_Johns", "1988-10-29", "1988-10-31"),
        ("Pacific/Apia", "2011-12-28", "2012-01-01"),
    ] {
        let zone = TimeZone::get(zone).unwrap();
        let (first, last): (Date, Date) = (from.parse().unwrap(), to.parse().unwrap());
        let mut expected: BTreeMap<(Date, usize), Vec<Timestamp>> = BTreeMap::new();
        let minute = SignedDuration::from_mins(1);
        let mut now = at(&format!("{from}T00:00Z")).checked_sub(SignedDuration::from_hours(50)).unwrap();
        for _ in 0..(60 * 24 * 9) {
            let wall = zone.to_datetime(now);
            let cell = usize::from(wall.hour().unsigned_abs()) * 2 + usize::from(wall.minute() >= 30);
            expected.entry((wall.date(), cell)).or_default().push(now);
            now = now.checked_add(minute).unwrap();
        }
        let mut date = first;
        while date <= last {
            for (cell, passes) in chart::cells(&zone, date).into_iter().enumerate() {
                let mut found = Vec::new();
                for (from, to) in passes.iter().flatten().filter_map(clock::Run::instants) {
                    let mut now = from;
                    while now < to {
                        found.push(now);
                        now = now.checked_add(minute).unwrap();
                    }
                }
                found.sort();
                let expected = expected.get(&(date, cell)).cloned().unwrap_or_default();
                assert_eq!(found, expected, "{zone:?} {date} cell {cell}");
            }
            date = date.tomorrow().unwrap();
        }
    }
}

#[test]
fn the_time_of_running_is_called_now() {
    let fleet = demo();
    let question = Question { is_now: true, ..ask(&fleet, "2026-11-04T12:10-08:00", "1d") };
    let text = human(&question);
    assert!(text.contains(&format!("\n{:40}^ now\n", "")), "{text}");
}

#[test]
fn a_fleet_without_tides_says_so_and_still_shows_what_it_should_be() {
    let pool = r#"
kind: NodePool
metadata: {name: burst}
spec: {instanceType: p4d.24xlarge, nodes: 4, capacity: [{onDemand: {max: 8}}]}
"#;
    assert_snapshot!(shown("UTC", pool, "2026-06-01T12:00Z", "7d"), @"
    Fleet test at Mon 2026-06-01 12:00 +00:00 (UTC)

    No tide moves this fleet: it has no TideSchedule.

    POOL   NODES  USE    SLOTS  LAYOUT
    burst      4  4 own  0-3    whole

    Nothing changes in the next 7d.
    ");
}

#[test]
fn every_line_fits_and_has_no_trailing_space() {
    let fleet = demo();
    for from in ["2026-10-25T00:00Z", "2026-11-01T09:10Z", "2026-03-08T13:50Z", "2026-11-02T14:25Z"] {
        for line in human(&ask(&fleet, from, "9d")).lines() {
            assert!(line.chars().count() <= 100 && line == line.trim_end(), "{line}");
        }
    }
}

#[test]
fn a_rival_takes_over_in_words() {
    let rival = r#"---
kind: Quota
metadata: {name: research}
spec: {namespaces: [{name: research}], tiers: [batch]}
---
kind: TideSchedule
metadata: {name: rival}
spec:
  lowTide: [{days: [Thu], from: "00:00", to: "12:00"}]
  lend:
    - {pool: serve, nodes: 3, from: serving, to: batch, layout: whole}
    - {pool: serve, nodes: 2, from: serving, to: research}
  reclaim: {lead: 45m, hardAt: 10m}
  precedence: 1
"#;
    let fleet = fleet_in(LOS_ANGELES, "2026-11-04T00:00Z", &format!("{DEMO}{rival}"));
    let text = human(&ask(&fleet, "2026-11-04T22:00-08:00", "3h"));
    let (start, end) = (text.find("WHEN").unwrap(), text.find("\nnightly (").unwrap());
    assert_snapshot!(&text[start..end], @"
    WHEN                         WHAT            CHANGE
    Wed 2026-11-04 23:15 -08:00  pool/serve      12 nodes asked back from batch by 24:00, cut as slices
                                 quota/batch     -96 GPUs of serve, lent by serving
    Thu 2026-11-05 00:00 -08:00  tide/rival      low until 11:15
                                 pool/serve      3 nodes lent by serving to batch, cut whole
                                 pool/serve      2 nodes lent by serving to research
                                 pool/serve      7 nodes back with serving
                                 quota/batch     +24 GPUs of serve, lent by serving
                                 quota/research  +56 × 1g.10gb + 16 × 3g.40gb of serve, lent by serving
                                 quota/serving   guarantee of serve: +252 × 1g.10gb, +72 × 3g.40gb
                                 quota/serving   lends at most 104 × 3g.40gb of serve
    ");
    let text = human(&ask(&fleet, "2026-11-05T11:20-08:00", "40m"));
    let (start, end) = (text.find("TIDE").unwrap(), text.find("\nnightly (").unwrap());
    assert_snapshot!(&text[start..end], @"
    TIDE     PHASE       WHAT COMES
    nightly  high        until 20:00, then low
    rival    reclaiming  gently until 11:50, then hard; back by 12:00

    POOL   NODES  USE                                                    SLOTS  LAYOUT
    burst      4  4 own                                                  0-3    whole
    old        0  -                                                      -      -
    serve     17  1 spare                                                0      slices
                  3 returning from batch to serving by 12:00 (rival)     1-3    slices
                  2 returning from research to serving by 12:00 (rival)  4-5    slices
                  11 own                                                 6-16   slices

    QUOTA     POOL   GUARANTEE                      LOANS  BORROW       LEND
    batch     burst  32 GPUs                        -      -            -
              serve  0 × 3g.40gb                    -      8 × 3g.40gb  -
    research  -      -                              -      -            -
    serving   serve  364 × 1g.10gb + 104 × 3g.40gb  -      -            104 × 3g.40gb

    Changes of the next 40m:

    WHEN                         WHAT           CHANGE
    Thu 2026-11-05 11:50 -08:00  tide/rival     hard reclaim, back by 12:00
    Thu 2026-11-05 12:00 -08:00  tide/rival     high
                                 pool/serve     5 nodes back with serving
                                 quota/serving  guarantee of serve: +84 × 1g.10gb, +24 × 3g.40gb
                                 quota/serving  lends at most 128 × 3g.40gb of serve
    ");
}

#[test]
fn json_says_the_same() {
    let fleet = demo();
    let value: Value = serde_json::from_str(&json(&ask(&fleet, "2026-11-04T22:00-08:00", "8h30m"))).unwrap();
    assert_eq!(value["format_version"], "1.0");
    assert_eq!((&value["at"], &value["until"]), (&"2026-11-05T06:00:00Z".into(), &"2026-11-05T14:30:00Z".into()));
    assert_snapshot!(serde_json::to_string_pretty(&value["target"]).unwrap(), @r#"
    {
      "tides": {
        "nightly": {
          "phase": "low",
          "reclaim_at": "2026-11-05T13:45:00Z"
        }
      },
      "pools": {
        "burst": {
          "nodes": 6,
          "parts": [
            {
              "first": 0,
              "nodes": 6,
              "layout": "whole",
              "purpose": "own"
            }
          ]
        },
        "old": {
          "nodes": 0,
          "parts": []
        },
        "serve": {
          "renamed_from": "inference",
          "nodes": 17,
          "parts": [
            {
              "first": 0,
              "nodes": 1,
              "layout": "slices",
              "purpose": "spare"
            },
            {
              "first": 1,
              "nodes": 12,
              "layout": "whole",
              "purpose": "lent",
              "tide": "nightly",
              "from": "serving",
              "to": "batch"
            },
            {
              "first": 13,
              "nodes": 4,
              "layout": "slices",
              "purpose": "own"
            }
          ]
        }
      },
      "quotas": {
        "batch": {
          "shares": {
            "burst": {
              "guarantee": {
                "gpus": 32
              }
            },
            "serve": {
              "guarantee": {
                "slices": {
                  "3g.40gb": 0
                }
              },
              "borrow": {
                "slices": {
                  "3g.40gb": 8
                }
              }
            }
          },
          "loans": [
            {
              "tide": "nightly",
              "pool": "serve",
              "from": "serving",
              "nodes": 12,
              "gpus": 96,
              "slices": {}
            }
          ]
        },
        "serving": {
          "shares": {
            "serve": {
              "guarantee": {
                "slices": {
                  "1g.10gb": 112,
                  "3g.40gb": 32
                }
              },
              "lend": {
                "slices": {
                  "3g.40gb": 32
                }
              }
            }
          },
          "loans": []
        }
      }
    }
    "#);
    let changes: Vec<String> = value["transitions"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|one| {
            let at = &one["at"].as_str().unwrap()[11..16];
            one["changes"]
                .as_array()
                .unwrap()
                .iter()
                .map(move |change| format!("{at} {} {} {}", change["kind"], change["name"], change["words"]))
        })
        .collect();
    assert_snapshot!(changes.join("\n"), @r#"
    13:45 "tide" "nightly" ["reclaiming, back by 06:30"]
    13:45 "pool" "burst" ["6 → 4 nodes"]
    13:45 "pool" "serve" ["12 nodes asked back from batch by 06:30, cut as slices"]
    13:45 "quota" "batch" ["-96 GPUs of serve, lent by serving"]
    14:20 "tide" "nightly" ["hard reclaim, back by 06:30"]
    14:30 "tide" "nightly" ["high"]
    14:30 "pool" "serve" ["12 nodes back with serving"]
    14:30 "quota" "serving" ["guarantee of serve: +336 × 1g.10gb, +96 × 3g.40gb","lends at most 128 × 3g.40gb of serve"]
    "#);
}

#[test]
fn json_fits_its_schema() {
    let schema = json_schema();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let fleet = demo();
    let mut value: Value = serde_json::from_str(&json(&ask(&fleet, "2026-11-04T22:00-08:00", "9d"))).unwrap();
    assert!(
        validator.is_valid(&value),
        "{:?}",
        validator.iter_errors(&value).map(|e| e.to_string()).collect::<Vec<_>>()
    );
    value["transitions"][0]["changes"][0]["kind"] = "node".into();
    assert!(!validator.is_valid(&value));
}

#[test]
fn every_field_of_the_schema_is_described() {
    fn properties(fields: &serde_json::Map<String, Value>) -> usize {
        fields.get("properties").and_then(Value::as_object).map_or(0, |properties| properties.len())
    }
    fn undescribed(value: &Value, path: &str, out: &mut Vec<String>) {
        if let Value::Array(items) = value {
            items.iter().for_each(|inner| undescribed(inner, path, out));
        }
        let Value::Object(fields) = value else { return };
        for (name, schema) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            // A tag, and the one field of a choice, are described with what they choose.
            let chosen =
                schema.get("const").is_some() || fields.get("description").is_some() && properties(fields) == 1;
            if schema.get("description").is_none() && schema.get("$ref").is_none() && !chosen {
                out.push(format!("{path}/{name}"));
            }
        }
        fields.iter().for_each(|(name, inner)| undescribed(inner, &format!("{path}/{name}"), out));
    }
    let mut out = Vec::new();
    undescribed(&json_schema(), "", &mut out);
    assert_eq!(out, Vec::<String>::new());
}
