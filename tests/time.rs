//! Tides across every time zone and every clock change of 2026 and 2027.
//!
//! What a calendar says is held against an oracle that knows nothing of intervals: it asks of every minute whether the
//! clock on the wall is inside a window. Zones whose clocks go alike are looked at once, but each zone is looked at.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use tidewright::diag::{At, Span};
use tidewright::fleet::tide::{Exception, Level, Phase, ReclaimOrder, Tide};
use tidewright::fleet::updates::Window;
use tidewright::fleet::{Fleet, Recalls};
use tidewright::ids::TideName;
use tidewright::units::{Day, Duration};

use crate::fleets::{check, document};

fn at<T>(value: T) -> At<T> {
    At::new(value, Span { file: 0, start: 0, end: 0 })
}

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A zone that stands for all whose clocks go like it in these two years.
struct Clock {
    zone: TimeZone,
    name: String,
    changes: Vec<Timestamp>,
}

/// Every clock of the database once, and how many zones there are.
fn clocks() -> (Vec<Clock>, usize) {
    let (from, to) = (instant("2026-01-01T00:00Z"), instant("2028-01-01T00:00Z"));
    let mut alike: BTreeMap<Vec<(Timestamp, i32)>, Clock> = BTreeMap::new();
    let mut zones = 0;
    for name in jiff::tz::db().available() {
        let zone = TimeZone::get(name.as_str()).unwrap();
        if zone.iana_name() != Some(name.as_str()) {
            continue;
        }
        zones += 1;
        let changes: Vec<_> = zone.following(from).take_while(|change| change.timestamp() < to).collect();
        let key = [(from, zone.to_offset(from).seconds())]
            .into_iter()
            .chain(changes.iter().map(|change| (change.timestamp(), change.offset().seconds())))
            .collect();
        let changes = changes.iter().map(|change| change.timestamp()).collect();
        alike.entry(key).or_insert(Clock { zone, name: name.to_string(), changes });
    }
    (alike.into_values().collect(), zones)
}

impl Clock {
    /// The instants to look around: every change, and one in a week without.
    fn moments(&self) -> Vec<Timestamp> {
        let quiet = instant("2026-06-17T00:00Z");
        let near = |change: &Timestamp| change.duration_since(quiet).abs() < hours(24 * 7);
        let quiet = if self.changes.iter().any(near) { instant("2026-08-19T00:00Z") } else { quiet };
        self.changes.iter().copied().chain([quiet]).collect()
    }

    /// The civil dates that a change touches: the date before the jump and the date after it.
    fn dates(&self, change: Timestamp) -> BTreeSet<Date> {
        [change - MINUTE, change].into_iter().map(|at| self.zone.to_datetime(at).date()).collect()
    }
}

/// Days, from, to.
type Times = (&'static str, &'static str, &'static str);

/// Windows with their edges where clocks change, and windows that touch.
const WINDOWS: &[&[Times]] = &[
    &[("Mon-Sun", "20:00", "06:30")],
    &[("Mon-Sun", "02:00", "05:00")],
    &[("Mon-Sun", "22:00", "02:00")],
    &[("Mon-Sun", "02:30", "08:00")],
    &[("Mon-Sun", "21:00", "02:30")],
    &[("Mon-Sun", "01:30", "04:00")],
    &[("Mon-Sun", "20:00", "01:30")],
    &[("Mon-Sun", "00:00", "06:00")],
    &[("Mon-Sun", "18:00", "00:00")],
    &[("Mon-Sun", "00:30", "05:00")],
    &[("Mon-Sun", "19:00", "00:30")],
    &[("Mon-Sun", "23:00", "03:00")],
    // Twenty-four hours, alone and touching the next.
    &[("Sun", "00:00", "00:00")],
    &[("Sat-Sun", "00:00", "00:00")],
    &[("Sat", "02:30", "02:30"), ("Sun", "02:30", "02:30")],
    &[("Mon-Fri", "20:00", "06:30"), ("Sat-Sun", "06:30", "06:30")],
    // Two that touch where clocks change, and two that overlap there.
    &[("Mon-Sun", "22:00", "02:00"), ("Mon-Sun", "02:00", "05:00")],
    &[("Mon-Sun", "22:00", "01:30"), ("Mon-Sun", "01:30", "05:00")],
    &[("Mon-Sun", "21:00", "02:30"), ("Mon-Sun", "01:45", "04:00")],
    // Inside of an hour that is skipped or comes twice, and with a hole there.
    &[("Mon-Sun", "02:15", "02:45")],
    &[("Mon-Sun", "01:15", "01:45")],
    &[("Mon-Sun", "22:00", "01:15"), ("Mon-Sun", "01:45", "05:00")],
    &[("Mon-Sun", "22:00", "02:15"), ("Mon-Sun", "02:45", "05:00")],
];

fn windows(times: &[Times]) -> Vec<At<Window>> {
    let window = |(days, from, to): &Times| Window {
        days: vec![days.parse().unwrap()],
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
    };
    times.iter().map(|times| at(window(times))).collect()
}

fn tide(zone: &str, times: &[Times], exceptions: &[(Date, Level)]) -> Tide {
    Tide {
        name: at("tide".into()),
        zone: at(zone.parse().unwrap()),
        windows: windows(times),
        exceptions: exceptions.iter().map(|(date, tide)| at(Exception { date: Day(*date), tide: *tide })).collect(),
        loans: Vec::new(),
        resizes: Vec::new(),
        guard: None,
        lead: at(Duration::minutes(45)),
        hard_at: at(Duration::minutes(10)),
        order: ReclaimOrder::CheapestFirst,
        precedence: at(0),
    }
}

/// Every tide of this suite for one clock and one of its changes.
fn tides(clock: &Clock, change: Timestamp) -> Vec<Tide> {
    let mut all: Vec<Tide> = WINDOWS.iter().map(|times| tide(&clock.name, times, &[])).collect();
    let night = WINDOWS[0];
    for date in clock.dates(change) {
        all.push(tide(&clock.name, night, &[(date, Level::High)]));
        all.push(tide(&clock.name, night, &[(date, Level::Low)]));
        all.push(tide(&clock.name, &[("Wed", "03:00", "04:00")], &[(date, Level::Low)]));
        let next = date.tomorrow().unwrap();
        all.push(tide(&clock.name, night, &[(date, Level::High), (next, Level::Low)]));
        all.push(tide(&clock.name, night, &[(date, Level::Low), (next, Level::High)]));
    }
    all
}

/// Which minutes on the wall are low, over some days: no instants, no zone.
struct Wall {
    dates: Vec<Date>,
    low: Vec<bool>,
}

impl Wall {
    fn of(tide: &Tide, first: Date, days: usize) -> Self {
        let mut low = vec![false; days * 1440];
        let minute = |time: jiff::civil::Time| time.hour() as usize * 60 + time.minute() as usize;
        let dates: Vec<Date> = (0..days).map(|day| first + (day as i64).days()).collect();
        for (day, date) in dates.iter().enumerate() {
            for window in tide.windows.iter().filter(|w| w.days.iter().any(|days| days.contains(date.weekday()))) {
                let (from, to) = (minute(window.from.0), minute(window.to.0));
                let length = if to <= from { to + 1440 - from } else { to - from };
                let start = day * 1440 + from;
                (start..start + length).filter(|at| *at < days * 1440).for_each(|at| low[at] = true);
            }
        }
        for exception in &tide.exceptions {
            if let Some(day) = dates.iter().position(|date| *date == exception.date.0) {
                low[day * 1440..(day + 1) * 1440].fill(exception.tide == Level::Low);
            }
        }
        Self { dates, low }
    }

    fn index(&self, wall: DateTime) -> usize {
        let day = self.dates.iter().position(|date| *date == wall.date()).unwrap();
        day * 1440 + wall.hour() as usize * 60 + wall.minute() as usize
    }

    fn wall(&self, index: usize) -> DateTime {
        self.dates[0].at(0, 0, 0, 0) + (index as i64).minutes()
    }

    /// Whether the tide is low at an instant: when the wall says so. A time that comes twice is where beginnings and
    /// ends have to be told apart: a beginning there is the second, an end the first.
    fn is_low(&self, zone: &TimeZone, now: Timestamp) -> bool {
        let wall = zone.to_datetime(now);
        let index = self.index(wall);
        if !self.low[index] {
            return false;
        }
        let AmbiguousOffset::Fold { before, .. } = zone.to_ambiguous_timestamp(wall).offset() else { return true };
        let is_first = zone.to_offset(now) == before;
        let twice = |index: usize| zone.to_ambiguous_timestamp(self.wall(index)).is_ambiguous();
        let start = (0..=index).rev().take_while(|at| self.low[*at]).last().unwrap_or(index);
        let end = (index..self.low.len()).find(|at| !self.low[*at]).unwrap_or(self.low.len());
        // The run of minutes may begin or end in this fold; what lies further away is another time of day.
        let in_this_fold = |edge: usize| twice(edge) && edge.abs_diff(index) < 180;
        (is_first || !in_this_fold(end)) && (!is_first || !in_this_fold(start))
    }
}

#[test]
fn every_zone_of_the_database_has_a_clock() {
    let (clocks, zones) = clocks();
    assert!(zones > 500 && clocks.len() > 60, "{zones} zones, {} clocks", clocks.len());
    let changes: usize = clocks.iter().map(|clock| clock.changes.len()).sum();
    assert!(changes > 100, "{changes} changes");
    // Half an hour, midnight, and the day before.
    for name in ["Australia/Lord_Howe", "America/Havana", "Africa/Cairo", "Asia/Beirut"] {
        assert!(TimeZone::get(name).unwrap().following(instant("2026-01-01T00:00Z")).next().is_some(), "{name}");
    }
}

#[test]
fn a_tide_is_low_exactly_when_the_clock_on_the_wall_says_so() {
    for clock in clocks().0 {
        for moment in clock.moments() {
            let (from, to) = (moment - hours(27), moment + hours(27));
            let first = clock.zone.to_datetime(from).date() - 5.days();
            for tide in tides(&clock, moment) {
                let wall = Wall::of(&tide, first, 14);
                let low = tide.calendar(from, to).low;
                let mut now = from;
                while now < to {
                    let expected = wall.is_low(&clock.zone, now);
                    let next = low.partition_point(|(_, end)| *end <= now);
                    let is = low.get(next).is_some_and(|(start, _)| *start <= now);
                    assert_eq!(is, expected, "{} at {now}: {:?} {:?}", clock.name, tide.windows, tide.exceptions);
                    now += MINUTE;
                }
            }
        }
    }
}

#[test]
fn what_is_lent_is_asked_back_in_time_in_every_zone() {
    let (lead, hard) = (SignedDuration::from_mins(45), SignedDuration::from_mins(10));
    let second = SignedDuration::from_secs(1);
    for clock in clocks().0 {
        for moment in clock.moments() {
            let (from, to) = (moment - hours(30), moment + hours(30));
            for tide in tides(&clock, moment) {
                let calendar = tide.calendar(from, to);
                assert!(calendar.low.is_sorted_by(|a, b| a.1 < b.0), "{}: they neither touch nor overlap", clock.name);
                for (start, due) in calendar.low {
                    assert!(start < due);
                    let (reclaim_at, hard_at) = (due - lead, due - hard);
                    let says = |now: Timestamp, expected: Phase| {
                        assert_eq!(tide.phase_at(now), expected, "{} at {now}: {tide:?}", clock.name);
                    };
                    if reclaim_at <= start {
                        // Too short to lend anything: it could not be back in time.
                        [start, hard_at.max(start), due - second].into_iter().for_each(|now| says(now, Phase::High));
                        continue;
                    }
                    for now in [start, start + second, reclaim_at - second] {
                        says(now, Phase::Low { reclaim_at });
                    }
                    for now in [reclaim_at, reclaim_at + second, hard_at - second] {
                        says(now, Phase::Reclaiming { hard_at, due });
                    }
                    for now in [hard_at, due - second] {
                        says(now, Phase::HardReclaim { due });
                    }
                    assert!(!matches!(tide.phase_at(due), Phase::Reclaiming { .. } | Phase::HardReclaim { .. }));
                    says(start - second, Phase::High);
                }
            }
        }
    }
}

/// Two pools, each with a tide in this zone.
fn fleet(zone: &str, first: &[Times], second: &[Times], exception: Date) -> Fleet {
    let low = |times: &[Times]| {
        let windows: Vec<String> = times
            .iter()
            .map(|(days, from, to)| format!("{{days: [{days}], from: \"{from}\", to: \"{to}\"}}"))
            .collect();
        windows.join(", ")
    };
    let mut all = vec![document(
        "Fleet",
        "f",
        &format!(
            "{{timeZone: {zone}, cloud: {{sim: {{}}}}, kubernetes: {{sim: {{}}}}, limits: {{hourlyUsd: 100000}}}}"
        ),
    )];
    all.push(document("PreemptionTier", "t", "{rank: 1}"));
    for (pool, nodes) in [("p", 8), ("q", 5)] {
        let spec =
            format!("{{instanceType: p5.48xlarge, nodes: {nodes}, spares: 1, capacity: [{{onDemand: {{max: 9}}}}]}}");
        all.push(document("NodePool", pool, &spec));
    }
    for quota in ["gives", "gets"] {
        let shares = if quota == "gives" {
            "[{pool: p, guarantee: {gpus: 40}}, {pool: q, guarantee: {nodes: 3}}]"
        } else {
            "[{pool: p, guarantee: {gpus: 8}}]"
        };
        all.push(document(
            "Quota",
            quota,
            &format!("{{namespaces: [{{name: {quota}}}], tiers: [t], shares: {shares}}}"),
        ));
    }
    all.push(document(
        "TideSchedule",
        "one",
        &format!(
            "{{lowTide: [{}], lend: [{{pool: p, nodes: 3, from: gives, to: gets}}], reclaim: {{lead: 45m, hardAt: \
                10m}}}}",
            low(first)
        ),
    ));
    all.push(document(
        "TideSchedule",
        "two",
        &format!(
            "{{lowTide: [{}], lend: [{{pool: q, nodes: 2, from: gives, to: gets}}], resize: [{{pool: q, nodes: 7}}], \
                exceptions: [{{date: {exception}, tide: high}}], reclaim: {{lead: 1h, hardAt: 15m}}}}",
            low(second)
        ),
    ));
    check(&[("a.yaml", &all.join("---\n"))]).valid()
}

fn each_slot_is_in_one_part(fleet: &Fleet, now: Timestamp, recalls: &Recalls) {
    let target = fleet.target_with(now, recalls);
    for (name, pool) in &target.pools {
        let mut next = 0;
        for part in &pool.parts {
            assert!(part.nodes > 0 && part.first == next, "{name} at {now}: {pool:?}");
            next += part.nodes;
        }
        assert_eq!(next, pool.nodes, "{name} at {now}: {pool:?}");
    }
}

#[test]
fn a_target_is_constant_between_neighbouring_transitions_and_changes_at_each() {
    // Pairs of windows, another for each clock in turn.
    let pairs = [(0, 7), (2, 1), (6, 5), (15, 13), (16, 4), (10, 21), (8, 14)];
    for (turn, clock) in clocks().0.iter().enumerate() {
        for (more, moment) in clock.moments().into_iter().enumerate() {
            let (first, second_window) = pairs[(turn + more) % pairs.len()];
            let exception = clock.zone.to_datetime(moment).date();
            let fleet = fleet(&clock.name, WINDOWS[first], WINDOWS[second_window], exception);
            let (from, to) = (moment - hours(26), moment + hours(26));
            for recalls in [Recalls::new(), recalls(moment, turn)] {
                constant_between_transitions(&fleet, &clock.name, (from, moment, to), &recalls);
            }
        }
    }
}

/// Both tides turned at some time around a moment, another for each clock; some fall into no low tide.
fn recalls(moment: Timestamp, turn: usize) -> Recalls {
    let shift = SignedDuration::from_mins(37 * (turn as i64 % 60) - 1100);
    Recalls::from([("one".into(), moment + shift), ("two".into(), moment + shift + hours(7))])
}

fn constant_between_transitions(
    fleet: &Fleet,
    zone: &str,
    (from, moment, to): (Timestamp, Timestamp, Timestamp),
    recalls: &Recalls,
) {
    let second = SignedDuration::from_secs(1);
    let transitions = fleet.transitions_with(from, to, recalls);
    assert!(!transitions.is_empty(), "{zone}");
    let mut edges: Vec<Timestamp> = transitions.iter().map(|(at, _)| *at).collect();
    assert!(edges.is_sorted_by(|a, b| a < b) && edges.iter().all(|at| from < *at && *at <= to));
    edges.push(to + second);
    // Asked backwards: what was asked before does not show.
    let mut after = from;
    for edge in edges {
        let middle = after + edge.duration_since(after) / 2;
        let last = edge - second;
        let target = fleet.target_with(last, recalls);
        for now in [middle, after] {
            assert_eq!(fleet.target_with(now, recalls), target, "{zone} from {after} to {edge}");
            each_slot_is_in_one_part(fleet, now, recalls);
        }
        if edge <= to {
            assert_ne!(fleet.target_with(edge, recalls), target, "{zone} at {edge}");
        }
        after = edge;
    }
    for middle in [moment, moment + hours(3), from + SignedDuration::from_mins(1517)] {
        let mut halves = fleet.transitions_with(from, middle, recalls);
        halves.extend(fleet.transitions_with(middle, to, recalls));
        assert_eq!(halves, transitions, "{zone} split at {middle}");
    }
}

/// The oracle: a recall in words, over what the tide would be without it, minute by minute. No interval is known to it,
/// only whether one minute is low and the next is too.
#[test]
fn a_recall_turns_the_low_tide_that_it_falls_into_and_no_other() {
    let (lead, hard) = (SignedDuration::from_mins(45), SignedDuration::from_mins(10));
    let mut turned = 0;
    for (turn, clock) in clocks().0.iter().enumerate() {
        let moment = clock.moments()[0];
        let exception = clock.zone.to_datetime(moment).date() + 9.days();
        let fleet = fleet(&clock.name, WINDOWS[turn % 12], WINDOWS[(turn + 5) % 12], exception);
        let first = moment - hours(20);
        let minutes: Vec<Timestamp> = (0..40 * 60).map(|minute| first + MINUTE * minute).collect();
        let name = TideName::from("one");
        let tide = &fleet.tides[&name];
        let wall = Wall::of(tide, clock.zone.to_datetime(first).date() - 5.days(), 14);
        let low: Vec<bool> = minutes.iter().map(|now| wall.is_low(&clock.zone, *now)).collect();
        let recalled = 200 + turn * 29 % 2000;
        let at = minutes[recalled];
        let recalls = Recalls::from([(name.clone(), at)]);
        // The end of the low tide that the recall falls into, as far as it is in sight.
        let end = (recalled..minutes.len()).find(|minute| !low[*minute]);
        let begin = (0..recalled).rev().find(|minute| !low[*minute]);
        for (minute, now) in minutes.iter().enumerate().step_by(7) {
            let without = tide.phase_at(*now);
            let same = low[recalled]
                && begin.is_none_or(|begin| minute > begin)
                && end.is_none_or(|end| minute < end)
                && matches!(tide.phase_at(at), Phase::Low { .. })
                && begin.is_none_or(|begin| begin + 1 < recalled);
            let due = at + lead;
            let expected = match without {
                Phase::Low { .. } if same && *now < at => Phase::Low { reclaim_at: at },
                _ if !same || *now < at => without,
                _ if *now < due - hard => Phase::Reclaiming { hard_at: due - hard, due },
                _ if *now < due => Phase::HardReclaim { due },
                _ => Phase::High,
            };
            turned += usize::from(expected != without);
            let found = fleet.target_with(*now, &recalls).tides[&name];
            assert_eq!(found, expected, "{} at {now}, recalled at {at}", clock.name);
            let over = !low[recalled] || end.is_some_and(|end| minute >= end);
            assert_eq!(fleet.recall_is_over(&name, at, *now), over, "{} at {now}, recalled at {at}", clock.name);
        }
    }
    assert!(turned > 500, "{turned} of the answers were other ones because of a recall");
}

#[test]
fn a_long_low_tide_is_whole_wherever_it_is_asked_for() {
    let day = |text: &str| text.parse::<Date>().unwrap();
    let long: Vec<(Date, Level)> = (0..20).map(|n| (day("2026-03-20") + n.days(), Level::Low)).collect();
    let tide = tide("Europe/Berlin", &[("Fri", "20:00", "23:00")], &long);
    let whole = (instant("2026-03-19T23:00Z"), instant("2026-04-08T22:00Z"));
    for hour in 0..20 * 24 - 1 {
        let now = whole.0 + hours(hour);
        assert_eq!(tide.calendar(now, now).low, [whole], "at {now}");
        assert_eq!(tide.calendar(now - hours(30), now + hours(2)).low.last(), Some(&whole), "at {now}");
    }
    assert_eq!(tide.phase_at(whole.1 - MINUTE), Phase::HardReclaim { due: whole.1 });
    assert_eq!(tide.phase_at(whole.1), Phase::High);
}

/// The rule in words, on clocks that people know.
#[test]
fn edges_inside_a_clock_change_are_where_the_schedule_says() {
    let low = |zone: &str, times: Times, around: &str| {
        let around = instant(around);
        let tide = tide(zone, &[times], &[]);
        let inside = |(start, end): &(Timestamp, Timestamp)| *start <= around && around <= *end;
        let found: Vec<_> = tide.calendar(around, around).low.into_iter().filter(inside).collect();
        let text = |at: Timestamp| at.to_zoned(TimeZone::get(zone).unwrap()).strftime("%a %H:%M %:z").to_string();
        found.first().map(|(start, end)| format!("{} to {}", text(*start), text(*end)))
    };
    let is = |zone, times, around, expected: &str| assert_eq!(low(zone, times, around).as_deref(), Some(expected));
    // Los Angeles: 2026-03-08 02:00 becomes 03:00, 2026-11-01 02:00 becomes 01:00.
    let los = "America/Los_Angeles";
    is(los, ("Mon-Sun", "22:00", "02:30"), "2026-03-08T09:00Z", "Sat 22:00 -08:00 to Sun 03:00 -07:00");
    is(los, ("Mon-Sun", "02:30", "06:00"), "2026-03-08T11:00Z", "Sun 03:00 -07:00 to Sun 06:00 -07:00");
    is(los, ("Mon-Sun", "22:00", "01:30"), "2026-11-01T07:00Z", "Sat 22:00 -07:00 to Sun 01:30 -07:00");
    is(los, ("Mon-Sun", "01:30", "06:00"), "2026-11-01T11:00Z", "Sun 01:30 -08:00 to Sun 06:00 -08:00");
    assert_eq!(low(los, ("Sun", "02:15", "02:45"), "2026-03-08T10:00Z"), None);
    assert_eq!(low(los, ("Sun", "01:15", "01:45"), "2026-11-01T09:00Z"), None);
    // Lord Howe moves by half an hour: 2026-04-05 02:00 becomes 01:30.
    is("Australia/Lord_Howe", ("Sun", "01:45", "05:00"), "2026-04-04T17:00Z", "Sun 01:45 +10:30 to Sun 05:00 +10:30");
    // Havana's midnight comes twice on 2026-11-01; two days that touch there are one.
    is("America/Havana", ("Sat-Sun", "00:00", "00:00"), "2026-11-01T04:30Z", "Sat 00:00 -04:00 to Mon 00:00 -05:00");
    is("America/Havana", ("Sun", "00:00", "12:00"), "2026-11-01T12:00Z", "Sun 00:00 -05:00 to Sun 12:00 -05:00");
}
