//! What happens, while it happens: bars on a terminal, one line an event elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::tz::TimeZone;

use super::{is_ci, talk};
use crate::apply::StopSignal;
use crate::ids::StepId;
use crate::plan::Plan;
use crate::render::progress;
use crate::status::{Event, EventKind, Progress};

/// More lines than this do not help anybody.
const MOST_BARS: usize = 12;

pub struct Bars<'a> {
    plan: &'a Plan,
    zone: TimeZone,
    progress: Progress,
    terminal: Option<Terminal>,
    stop: &'a StopSignal,
}

struct Terminal {
    all: MultiProgress,
    total: ProgressBar,
    running: BTreeMap<StepId, ProgressBar>,
}

impl std::fmt::Debug for Bars<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bars").finish_non_exhaustive()
    }
}

impl<'a> Bars<'a> {
    pub fn new(plan: &'a Plan, zone: TimeZone, stop: &'a StopSignal) -> Self {
        // Where nothing can be drawn over, as with TERM=dumb, bars would be nothing at all.
        let is_watched = std::io::stderr().is_terminal() && !is_ci();
        let terminal = is_watched.then(|| Terminal::new(plan.steps.len()));
        let terminal = terminal.filter(|terminal| !terminal.all.is_hidden());
        Self { plan, zone, progress: Progress::of(plan), terminal, stop }
    }

    pub fn tell(&mut self, event: &Event) {
        self.progress.push(event);
        // What is left waiting by a stop is told at the end, all of it together.
        let is_left = matches!(event.kind, EventKind::Waiting { .. }) && self.stop.is_asked();
        let line = progress::line(event, self.plan, &self.zone).filter(|_| !is_left);
        match &mut self.terminal {
            None => line.iter().for_each(|line| talk(line)),
            Some(terminal) => terminal.show(event, line, progress::happened(event, self.plan), &self.progress),
        }
    }

    pub fn finish(&mut self) {
        if let Some(terminal) = &self.terminal {
            terminal.running.values().for_each(ProgressBar::finish_and_clear);
            terminal.total.finish_and_clear();
        }
        if self.stop.is_asked() {
            progress::unfinished(&self.progress, self.plan).iter().for_each(|left| talk(left));
        }
    }
}

impl Terminal {
    fn new(steps: usize) -> Self {
        let all = MultiProgress::new();
        let total = all.add(ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)));
        total.set_style(style("{bar:30} {pos}/{len} steps {elapsed}"));
        Self { all, total, running: BTreeMap::new() }
    }

    fn show(&mut self, event: &Event, line: Option<String>, words: Option<String>, progress: &Progress) {
        match &event.kind {
            EventKind::Started | EventKind::Waiting { .. } => {
                if !self.running.contains_key(&event.step) && self.running.len() < MOST_BARS {
                    let bar = self.all.insert_before(&self.total, ProgressBar::new_spinner());
                    bar.set_style(style("  {spinner} {wide_msg}"));
                    self.running.insert(event.step.clone(), bar);
                }
                if let (Some(bar), Some(words)) = (self.running.get(&event.step), words) {
                    bar.set_message(words);
                    bar.tick();
                }
            }
            _ => {
                if let Some(bar) = self.running.remove(&event.step) {
                    bar.finish_and_clear();
                }
                // What is over stays above the bars.
                if let Some(line) = line {
                    let _ = self.all.println(line);
                }
            }
        }
        let tally = &progress.tally;
        let open = tally.pending + tally.running + tally.waiting;
        self.total.set_position(self.total.length().unwrap_or(0).saturating_sub(u64::from(open)));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
