//! A tide over the days as a small chart: one row a day, one character each half hour of the wall clock.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use super::Question;
use super::clock::{ClockChange, Run, runs, time};
use crate::fleet::tide::{Calendar, Level, Phase, Tide};
use crate::units::Duration;

/// Half hours of a day.
const CELLS: usize = 48;
/// The width of "Sun 2026-11-01  ".
const LABEL: usize = 16;

/// In the order of urgency: a half hour shows the most urgent of what is in it.
const HIGH: char = '·';
const LOW: char = '░';
const RECLAIMING: char = 'r';
const HARD: char = 'R';
/// A half hour that the clock skips.
const SKIPPED: char = 'x';

/// A chart for each tide, and a legend.
pub fn charts(question: &Question<'_>) -> Vec<String> {
    let mut parts: Vec<String> = question.fleet.tides.values().map(|tide| chart(question, tide)).collect();
    if parts.is_empty() {
        return parts;
    }
    let rows = || parts.iter().flat_map(|part| part.lines().skip(2));
    let skipped = rows().any(|row| row.chars().skip(LABEL).take(CELLS).any(|cell| cell == SKIPPED));
    let skipped = if skipped { format!("   {SKIPPED} does not exist") } else { String::new() };
    parts.push(format!(
        "{HIGH} high   {LOW} low   {RECLAIMING} reclaiming   {HARD} hard reclaim{skipped}\n\
         Each character is half an hour of the wall clock, and shows the most urgent of what is in it."
    ));
    parts
}

fn chart(question: &Question<'_>, tide: &Tide) -> String {
    let Question { at, until, .. } = *question;
    let zone = tide.zone.zone();
    let (first, last) = (zone.to_datetime(at).date(), zone.to_datetime(until).date());
    let day = Duration::days(2).signed();
    let from = at.checked_sub(day).unwrap_or(Timestamp::MIN);
    let to = until.checked_add(day).unwrap_or(Timestamp::MAX);
    let phases = Phases::new(tide.calendar(from, to));
    let clock = ClockChange::all(&zone, from, to);
    let ruler: String = (0..24).step_by(2).map(|hour| format!("{hour:02}  ")).collect();
    let mut lines =
        vec![format!("{} ({})", tide.name.value, tide.zone.value), format!("{:LABEL$}{}", "", ruler.trim_end())];
    let mut date = first;
    loop {
        lines.extend(row(question, tide, &zone, &phases, &clock, date));
        match date.tomorrow() {
            Ok(next) if date < last => date = next,
            _ => break,
        }
    }
    lines.join("\n")
}

/// One day: its half hours, a second line for those that come twice, and where the instant that was asked for is.
fn row(
    question: &Question<'_>,
    tide: &Tide,
    zone: &TimeZone,
    phases: &Phases,
    clock: &[ClockChange],
    date: Date,
) -> Vec<String> {
    let cells = cells(zone, date);
    let passes = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let mut lines = Vec::new();
    for pass in 0..passes {
        let label = if pass == 0 { date.strftime("%a %Y-%m-%d").to_string() } else { format!("{:>14}", "again") };
        let drawn = cells.iter().map(|cell| match (cell.get(pass), pass) {
            (Some(runs), _) => phases.most_urgent(runs),
            (None, 0) => SKIPPED,
            (None, _) => ' ',
        });
        let notes = if pass == 0 { notes(tide, clock, date) } else { String::new() };
        lines.push(format!("{label}  {}{notes}", drawn.collect::<String>()).trim_end().to_string());
        let asked = cells.iter().position(|cell| cell.get(pass).is_some_and(|runs| holds(runs, question.at)));
        if let Some(cell) = asked {
            let word = if question.is_now { "now".into() } else { time(zone.to_datetime(question.at).time()) };
            lines.push(format!("{:width$}^ {word}", "", width = LABEL + cell));
        }
    }
    lines
}

/// What is special about a day.
fn notes(tide: &Tide, clock: &[ClockChange], date: Date) -> String {
    let mut notes: Vec<String> =
        clock.iter().filter(|change| change.wall().0.date() == date).map(ClockChange::note).collect();
    let exception = tide.exceptions.iter().find(|exception| exception.date.0 == date);
    notes.extend(exception.map(|exception| match exception.tide {
        Level::High => "exception: high".into(),
        Level::Low => "exception: low".into(),
    }));
    if notes.is_empty() { String::new() } else { format!("  {}", notes.join(", ")) }
}

/// Each half hour of a date: the runs of time in it, once for each time that it comes.
pub fn cells(zone: &TimeZone, date: Date) -> Vec<Vec<Vec<Run>>> {
    let runs = runs(zone, date);
    let midnight = date.to_datetime(Time::midnight());
    let edge = |cell: usize| -> DateTime {
        let length = Duration::minutes(30 * u64::try_from(cell).unwrap_or(0)).signed();
        midnight.checked_add(length).unwrap_or(DateTime::MAX)
    };
    (0..CELLS)
        .map(|cell| {
            let mut passes: Vec<Vec<Run>> = Vec::new();
            for run in runs.iter().filter_map(|run| run.between(edge(cell), edge(cell + 1))) {
                let apart = |pass: &&mut Vec<Run>| pass.iter().all(|other| other.between(run.from, run.to).is_none());
                match passes.iter_mut().find(apart) {
                    Some(pass) => pass.push(run),
                    None => passes.push(vec![run]),
                }
            }
            passes
        })
        .collect()
}

fn holds(runs: &[Run], at: Timestamp) -> bool {
    runs.iter().filter_map(Run::instants).any(|(from, to)| from <= at && at < to)
}

/// A calendar with its edges in order.
struct Phases {
    calendar: Calendar,
    edges: Vec<Timestamp>,
}

impl Phases {
    fn new(calendar: Calendar) -> Self {
        let mut edges: Vec<Timestamp> = calendar.edges().collect();
        edges.sort();
        Self { calendar, edges }
    }

    fn most_urgent(&self, runs: &[Run]) -> char {
        let mut most = 0;
        for (from, to) in runs.iter().filter_map(Run::instants) {
            let inside = self.edges.partition_point(|edge| *edge <= from);
            let changes = self.edges[inside..].iter().take_while(|edge| **edge < to);
            let urgency = changes.chain([&from]).map(|at| urgency(&self.calendar.phase_at(*at)));
            most = urgency.fold(most, usize::max);
        }
        [HIGH, LOW, RECLAIMING, HARD][most]
    }
}

fn urgency(phase: &Phase) -> usize {
    match phase {
        Phase::High => 0,
        Phase::Low { .. } => 1,
        Phase::Reclaiming { .. } => 2,
        Phase::HardReclaim { .. } => 3,
    }
}
