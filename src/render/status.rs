//! Is the fleet as git says, and if not, what is it waiting for: on one screen, in a comment, or as JSON.

mod json;
mod markdown;

pub use json::{json, json_schema};
pub use markdown::markdown;

use jiff::Timestamp;

use super::ink::{BOLD, DIM, GREEN, Ink, RED, YELLOW};
use super::plan::words::{self, Words, clean, count, is_zero, list, money, short};
use super::table::{columns, trimmed};
use super::tide::clock::day_and_time;
use super::tide::words::phase;
use crate::fleet::quota::Supply;
use crate::fleet::tide::Phase;
use crate::observed::ReservationState;
use crate::plan::anew::SAID;
use crate::plan::reported::climbs;
use crate::status::{PoolStatus, ReportStatus, ReservationStatus, ShareStatus, Status, TideStatus, Verdict};
use crate::units::Usd;

/// What is told of a long list: the rest is counted.
const LINES: usize = 8;

const REPORTED: &str = "Reported by a HealthPolicy, and nothing is done about it";

/// One screen. Ends with a line break.
pub fn human(status: &Status, directory: &str, colour: bool) -> String {
    let page = Page::of(status, directory, colour);
    let parts = [
        Some(page.head()),
        page.pools().human(),
        page.reservations().human(),
        page.quotas().human(),
        page.unmet(),
        page.tides().human(),
        page.stopped(),
        page.held(),
        page.reported(),
        page.gaps(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n") + "\n"
}

/// The verdict in one sentence, without colour.
pub fn sentence(status: &Status, directory: &str) -> String {
    let held = u32::try_from(status.held.len()).unwrap_or(u32::MAX);
    let waits = if held == 0 { String::new() } else { format!("; {} held", count(held, "wanted change")) };
    match status.verdict {
        Verdict::Converged => "as git says".into(),
        Verdict::Changing if status.steps > 0 => {
            let steps = count(u32::try_from(status.steps).unwrap_or(u32::MAX), "step");
            let how = status.approved.as_ref().map_or(String::new(), |approved| {
                let digest = short(approved.as_str());
                let apply = words::command("apply", directory);
                format!(" (`{apply} --approved {digest}` goes on with what was approved before)")
            });
            match u32::try_from(status.unapproved).unwrap_or(u32::MAX) {
                0 => format!("not yet as git says: {steps} can be done now{waits}"),
                1 => format!("not yet as git says: {steps}, 1 of them waits for an approval{how}{waits}"),
                more => format!("not yet as git says: {steps}, {more} of them wait for an approval{how}{waits}"),
            }
        }
        Verdict::Changing => format!("not yet as git says: {}{waits}", shortfall(status)),
        Verdict::Blocked if held > 0 => format!("not as git says, and waiting: {}", waits.trim_start_matches("; ")),
        Verdict::Blocked if !status.gaps.is_empty() => "nobody can say: not everything could be read".into(),
        Verdict::Blocked => format!("not as git says, and nothing is planned for it: {}", shortfall(status)),
        Verdict::Frozen => format!("stopped{waits}"),
    }
}

/// "train has 2 launching and 1 missing"
fn shortfall(status: &Status) -> String {
    let pools: Vec<String> = status
        .pools
        .iter()
        .filter_map(|pool| {
            let states = [
                (pool.launching, "launching"),
                (pool.unready, "not ready"),
                (pool.missing, "missing"),
                (pool.surplus, "too many"),
                (pool.uncut(), "not cut as wanted"),
            ];
            let states: Vec<String> = states
                .iter()
                .filter(|(number, _)| *number > 0)
                .map(|(number, word)| format!("{number} {word}"))
                .collect();
            (!states.is_empty()).then(|| format!("{} has {}", pool.pool, list(&states, usize::MAX)))
        })
        .collect();
    list(&pools, LINES)
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Converged => "Converged",
        Verdict::Changing => "Changing",
        Verdict::Blocked => "Blocked",
        Verdict::Frozen => "Frozen",
    }
}

struct Page<'a> {
    status: &'a Status,
    ink: Ink,
    words: Words<'a>,
}

/// A table; the columns of these numbers, from 0, hold counts.
struct Rows<const N: usize> {
    head: [&'static str; N],
    counts: &'static [usize],
    rows: Vec<[String; N]>,
}

/// What somebody said, and how and by what it is taken back; or how much of that is not shown.
struct Said {
    what: String,
    back: Option<(&'static str, String)>,
}

impl<const N: usize> Rows<N> {
    fn human(&self) -> Option<String> {
        let mut table = columns(self.head, self.counts);
        self.rows.iter().for_each(|row| {
            table.add_row(row);
        });
        (!self.rows.is_empty()).then(|| trimmed(&table))
    }
}

impl<'a> Page<'a> {
    fn of(status: &'a Status, directory: &'a str, colour: bool) -> Self {
        let hands_off = status.hands_off.clone();
        let words = Words { now: status.at, zone: status.time_zone.zone(), directory, plan: None, hands_off };
        Self { status, ink: Ink(colour), words }
    }
}

impl Page<'_> {
    fn head(&self) -> String {
        let (status, when) = (self.status, self.when());
        let revision = status.revision.as_deref().map_or(String::new(), |text| format!(", revision {}", short(text)));
        let title = self.ink.paint(BOLD, &format!("Fleet {} at {when}{revision}", status.fleet));
        let style = match status.verdict {
            Verdict::Converged => GREEN,
            Verdict::Changing => YELLOW,
            Verdict::Blocked | Verdict::Frozen => RED,
        };
        let verdict = self.ink.paint(style, verdict_name(status.verdict));
        format!("{title}\n{verdict}: {}", sentence(status, self.words.directory))
    }

    fn when(&self) -> String {
        format!("{} ({})", day_and_time(self.status.at, &self.words.zone), self.status.time_zone)
    }

    fn pools(&self) -> Rows<10> {
        let row = |pool: &PoolStatus| {
            [
                pool.pool.to_string(),
                pool.instance_type.clone(),
                pool.wanted.to_string(),
                pool.ready.to_string(),
                (pool.draining + pool.leaving).to_string(),
                (pool.closed + pool.cordoned).to_string(),
                pool.launching.to_string(),
                (pool.missing + pool.unready).to_string(),
                layouts(pool),
                remarks(pool),
            ]
        };
        Rows {
            head: ["POOL", "TYPE", "WANTED", "READY", "DRAINING", "CLOSED", "LAUNCHING", "MISSING", "LAYOUT", ""],
            counts: &[2, 3, 4, 5, 6, 7],
            rows: self.status.pools.iter().map(row).collect(),
        }
    }

    fn reservations(&self) -> Rows<7> {
        Rows {
            head: ["RESERVATION", "STATE", "HELD", "USED", "IDLE", "IDLE COST", "END"],
            counts: &[2, 3, 4, 5],
            rows: self.status.reservations.iter().map(|one| self.reservation(one)).collect(),
        }
    }

    fn reservation(&self, one: &ReservationStatus) -> [String; 7] {
        let name = one.reservation.to_string();
        let dash = || "-".to_string();
        let Some(seen) = &one.seen else {
            return [name, "not there".into(), format!("0 of {}", one.wanted), dash(), dash(), dash(), dash()];
        };
        let held =
            if seen.nodes == one.wanted { seen.nodes.to_string() } else { format!("{} of {}", seen.nodes, one.wanted) };
        let cost = match seen.idle_usd_hour {
            Some(usd) if is_zero(usd) => "$0/h".into(),
            Some(usd) => format!("{}/h", money(usd)),
            None => "unknown".into(),
        };
        let end = seen.end.map_or("never".into(), |end| self.words.near(end));
        let end = match (&seen.state, seen.start) {
            (ReservationState::Scheduled | ReservationState::Pending, Some(start)) => {
                format!("{end}, begins {}", self.words.near(start))
            }
            _ => end,
        };
        let (used, idle) = (seen.used.to_string(), seen.idle.to_string());
        [name, state(&seen.state), held, used, idle, cost, end]
    }

    fn quotas(&self) -> Rows<8> {
        let mut last = None;
        let row = |share| {
            let ShareStatus { quota, pool, loaned, used, borrowed, lent, waiting, .. }: &ShareStatus = share;
            let first = last.replace(quota) != Some(quota);
            [
                if first { quota.to_string() } else { String::new() },
                pool.to_string(),
                guaranteed(share),
                supply(loaned),
                supply(used),
                supply(borrowed),
                supply(lent),
                if first { waiting.to_string() } else { String::new() },
            ]
        };
        Rows {
            head: ["QUOTA", "POOL", "GUARANTEED", "ON LOAN TO IT", "USED", "BORROWED", "LENT", "WAITING"],
            counts: &[7],
            rows: self.status.quotas.iter().map(row).collect(),
        }
    }

    fn unmet(&self) -> Option<String> {
        let unmet = &self.status.unmet;
        let mut lines = vec![self.ink.paint(BOLD, "Waits within its guarantee")];
        lines.extend(unmet.iter().take(LINES).map(|one| format!("  quota/{}: {}", one.quota, clean(&one.why))));
        lines.extend(more(unmet.len(), LINES, "of these").map(|text| format!("  {text}")));
        (!unmet.is_empty()).then(|| lines.join("\n"))
    }

    fn tides(&self) -> Rows<6> {
        let row = |tide: &TideStatus| {
            [
                tide.tide.to_string(),
                turned(tide),
                self.turn(tide),
                tide.lent.to_string(),
                tide.returning.to_string(),
                self.tide_remarks(tide),
            ]
        };
        Rows {
            head: ["TIDE", "PHASE", "NEXT TURN", "LENT", "RETURNING", ""],
            counts: &[3, 4],
            rows: self.status.tides.iter().map(row).collect(),
        }
    }

    fn turn(&self, tide: &TideStatus) -> String {
        if let Some((at, next)) = &tide.next {
            return format!("{} at {}", phase(next), self.words.near(*at));
        }
        match tide.phase {
            Phase::High => "not within 24 hours".into(),
            Phase::Low { reclaim_at } => format!("reclaiming at {}", self.words.near(reclaim_at)),
            Phase::Reclaiming { hard_at, .. } => format!("hard reclaim at {}", self.words.near(hard_at)),
            Phase::HardReclaim { due } => format!("high at {}", self.words.near(due)),
        }
    }

    fn tide_remarks(&self, tide: &TideStatus) -> String {
        let gone = tide.gone.then(|| "its document is gone: what it lent is asked back".to_string());
        let cut_short = tide.cut_short.then(|| "edited to be low no more: what it lent is asked back".to_string());
        let recalled = tide.recalled.as_ref().map(|recall| {
            let at = self.words.near(recall.at);
            match recall.guard() {
                Some(why) => format!("called back by its guard at {at}: {}", clean(why)),
                None => format!("recalled by {} at {at}", clean(&recall.by)),
            }
        });
        let guard = tide.guard.as_ref().map(|guard| match &guard.value {
            Some((value, at)) => format!("guard {value}, lends below {} ({})", guard.below, self.words.near(*at)),
            None => format!("guard: no answer, lends only below {}", guard.below),
        });
        let closed = tide.closed.as_ref().map(|why| format!("lends nothing: {}", clean(why)));
        gone.into_iter().chain(cut_short).chain(closed).chain(recalled).chain(guard).collect::<Vec<_>>().join("; ")
    }

    fn stopped(&self) -> Option<String> {
        let lines = self.said(usize::MAX, LINES).into_iter().map(|Said { what, back }| match back {
            Some((how, command)) => format!("{what}\n{}", self.ink.paint(DIM, &format!("  {how}: {command}"))),
            None => format!("  {what}"),
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// What people stopped or took out of service: so many freezes at most, and so many nodes of each kind.
    fn said(&self, freezes: usize, nodes: usize) -> Vec<Said> {
        let (status, flag) = (self.status, words::dir_flag(self.words.directory));
        let mut all = Vec::new();
        let mut say = |what: String, back: Option<(&'static str, String)>| all.push(Said { what, back });
        if let Some(at) = status.ledger_lost {
            let what = format!("Ledger lost, seen at {}: the {SAID} that it held are not known", self.words.near(at));
            let command = format!("{} --yes", words::command("lost", self.words.directory));
            say(what, Some(("give those again that should hold, and then", command)));
        }
        for freeze in status.freezes.iter().take(freezes) {
            let why = self.words.freeze(freeze).replacen("frozen ", "", 1);
            let what = format!("Frozen: {}, {why}", words::scope(&freeze.scope));
            say(what, Some(("to lift it", self.words.thaw(freeze))));
        }
        more(status.freezes.len(), freezes, "frozen").into_iter().for_each(|text| say(text, None));
        for (node, why) in status.quarantines.iter().take(nodes) {
            let (by, at, reason) = (clean(&why.by), self.words.near(why.at), clean(&why.reason));
            let command = format!("tidewright return {}{flag}", words::quoted(node.as_str()));
            say(format!("Quarantined: {node}, by {by} at {at}: {reason}"), Some(("to return it", command)));
        }
        more(status.quarantines.len(), nodes, "quarantined").into_iter().for_each(|text| say(text, None));
        for (node, order) in status.drains.iter().take(nodes) {
            let (by, at, reason) = (clean(&order.by), self.words.near(order.at), clean(&order.reason));
            let command = format!("tidewright undrain {}{flag}", words::quoted(node.as_str()));
            say(format!("Drained: {node}, for {by} since {at}: {reason}"), Some(("to open it", command)));
        }
        more(status.drains.len(), nodes, "drained").into_iter().for_each(|text| say(text, None));
        for (node, why) in status.hands_off.iter().take(nodes) {
            let what = format!("Hands off: {node}{}", words::off_because(why));
            say(what, Some(("to take that back", words::hands_on(node))));
        }
        more(status.hands_off.len(), nodes, "with hands off").into_iter().for_each(|text| say(text, None));
        all
    }

    fn held(&self) -> Option<String> {
        let held = self.words.held(&self.status.held);
        if held.is_empty() {
            return None;
        }
        let mut lines = vec![self.ink.paint(BOLD, "Waiting")];
        for one in held.iter().take(LINES) {
            let done = one.done_by.map_or(String::new(), |at| format!("; done by {}", self.words.near(at)));
            lines.push(format!("  {}: {}", one.first.what, one.wanted()));
            lines.push(format!("    waits: {}{done}", one.wait.on));
            if let (Some(remedy), None) = (&one.wait.remedy, &one.wait.patch) {
                lines.push(self.ink.paint(DIM, &format!("    to do: {remedy}")));
            }
        }
        lines.extend(more(held.len(), LINES, "held").map(|text| format!("  {text}")));
        lines.push(self.ink.paint(DIM, &format!("  all of it: {}", words::command("plan", self.words.directory))));
        Some(lines.join("\n"))
    }

    fn reported(&self) -> Option<String> {
        let reports = self.reports();
        let mut lines = vec![self.ink.paint(BOLD, REPORTED)];
        lines.extend(reports.iter().take(LINES).map(|(node, what)| format!("  {node}: {what}")));
        lines.extend(more(reports.len(), LINES, "reported").map(|text| format!("  {text}")));
        (!reports.is_empty()).then(|| lines.join("\n"))
    }

    /// Each node that is only reported, and what it shows.
    fn reports(&self) -> Vec<(String, String)> {
        let told = |one: &ReportStatus| {
            let ReportStatus { node, pool, policy, symptom, since, next } = one;
            let then = climbs(*next).map_or(String::new(), |then| format!("; {then}"));
            let what = format!("{}, since {}, by HealthPolicy {policy}{then}", clean(symptom), self.words.near(*since));
            (format!("{node} in pool/{pool}"), what)
        };
        self.status.reports.iter().map(told).collect()
    }

    fn gaps(&self) -> Option<String> {
        let gaps = &self.status.gaps;
        if gaps.is_empty() {
            return None;
        }
        let mut lines = vec![self.ink.paint(BOLD, "Not read, so nothing is removed because of it")];
        lines.extend(gaps.iter().take(LINES).map(|gap| format!("  {}: {}", clean(&gap.what), clean(&gap.why))));
        lines.extend(more(gaps.len(), LINES, "not read").map(|text| format!("  {text}")));
        Some(lines.join("\n"))
    }
}

/// How many of these are not shown.
fn more(all: usize, most: usize, what: &str) -> Option<String> {
    (all > most).then(|| format!("and {} more {what}", all - most))
}

/// "64 GPUs", "64 GPUs (wanted: 56 GPUs)"
fn guaranteed(share: &ShareStatus) -> String {
    let now = share.guarantee.as_ref().map(|amount| amount.to_string());
    match &share.wanted {
        None => now.unwrap_or_else(|| "-".into()),
        Some(wanted) => format!("{} (wanted: {wanted})", now.unwrap_or_else(|| "nothing".into())),
    }
}

fn supply(supply: &Supply) -> String {
    let nothing = supply.nodes == 0 && supply.gpus == 0 && supply.slices.values().all(|count| *count == 0);
    if nothing { "-".into() } else { supply.to_string() }
}

fn state(state: &ReservationState) -> String {
    match state {
        ReservationState::Pending => "pending".into(),
        ReservationState::Scheduled => "scheduled".into(),
        ReservationState::Active => "active".into(),
        ReservationState::Ended => "ended".into(),
        ReservationState::Other(other) => clean(other),
    }
}

/// "halves 4/4", "halves 2/4 + whole 2/0": how many are cut so, of how many should be.
fn layouts(pool: &PoolStatus) -> String {
    let told = pool.layouts.iter().filter(|(_, count)| count.wanted + count.cut > 0);
    let told: Vec<String> = told.map(|(name, count)| format!("{name} {}/{}", count.cut, count.wanted)).collect();
    if told.is_empty() { "-".into() } else { told.join(" + ") }
}

fn remarks(pool: &PoolStatus) -> String {
    let told = [
        (pool.spares, "spare"),
        (pool.cordoned, "cordoned by somebody else"),
        (pool.unready, "not ready"),
        (pool.surplus, "more than wanted"),
    ];
    let told = told.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}"));
    told.collect::<Vec<_>>().join(", ")
}

/// For a program: an instant in UTC.
fn instant(at: Timestamp) -> String {
    at.to_string()
}

/// For a program: dollars as a decimal text.
fn dollars(usd: Usd) -> String {
    usd.0.round_dp(4).normalize().to_string()
}

/// Where a tide is; one that is high though its low tide is not over, with who turned it.
fn turned(tide: &TideStatus) -> String {
    match (&tide.closed, &tide.recalled, tide.phase) {
        (Some(_), ..) => "low, held by its guard".into(),
        (None, Some(recall), Phase::High) if recall.guard().is_some() => "low, called back by its guard".into(),
        (None, Some(_), Phase::High) => "low, recalled".into(),
        _ => phase(&tide.phase).into(),
    }
}

#[cfg(test)]
mod tests;
