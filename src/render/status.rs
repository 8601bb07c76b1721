//! Is the fleet as git says, and if not, what is it waiting for: on one screen, or as JSON.

mod json;

pub use json::{json, json_schema};

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
use crate::status::{PoolStatus, ReservationStatus, ShareStatus, Status, TideStatus, Verdict};
use crate::units::Usd;

/// What is told of a long list: the rest is counted.
const LINES: usize = 8;

/// One screen. Ends with a line break.
pub fn human(status: &Status, directory: &str, colour: bool) -> String {
    let hands_off = status.hands_off.clone();
    let words = Words { now: status.at, zone: status.time_zone.zone(), directory, plan: None, hands_off };
    let page = Page { status, ink: Ink(colour), words };
    let parts = [
        Some(page.head()),
        page.pools(),
        page.reservations(),
        page.quotas(),
        page.unmet(),
        page.tides(),
        page.stopped(),
        page.held(),
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

impl Page<'_> {
    fn head(&self) -> String {
        let status = self.status;
        let when = format!("{} ({})", day_and_time(status.at, &self.words.zone), status.time_zone);
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

    fn pools(&self) -> Option<String> {
        let pools = &self.status.pools;
        if pools.is_empty() {
            return None;
        }
        let mut rows = columns(
            ["POOL", "TYPE", "WANTED", "READY", "DRAINING", "CLOSED", "LAUNCHING", "MISSING", "LAYOUT", ""],
            &[2, 3, 4, 5, 6, 7],
        );
        for pool in pools {
            rows.add_row([
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
            ]);
        }
        Some(trimmed(&rows))
    }

    fn reservations(&self) -> Option<String> {
        let reservations = &self.status.reservations;
        if reservations.is_empty() {
            return None;
        }
        let mut rows = columns(["RESERVATION", "STATE", "HELD", "USED", "IDLE", "IDLE COST", "END"], &[2, 3, 4, 5]);
        for one in reservations {
            rows.add_row(self.reservation(one));
        }
        Some(trimmed(&rows))
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

    fn quotas(&self) -> Option<String> {
        let shares = &self.status.quotas;
        if shares.is_empty() {
            return None;
        }
        let mut rows =
            columns(["QUOTA", "POOL", "GUARANTEED", "ON LOAN TO IT", "USED", "BORROWED", "LENT", "WAITING"], &[7]);
        let mut last = None;
        for share in shares {
            let first = last != Some(&share.quota);
            last = Some(&share.quota);
            rows.add_row([
                if first { share.quota.to_string() } else { String::new() },
                share.pool.to_string(),
                guaranteed(share),
                supply(&share.loaned),
                supply(&share.used),
                supply(&share.borrowed),
                supply(&share.lent),
                if first { share.waiting.to_string() } else { String::new() },
            ]);
        }
        Some(trimmed(&rows))
    }

    fn unmet(&self) -> Option<String> {
        let unmet = &self.status.unmet;
        let mut lines = vec![self.ink.paint(BOLD, "Waits within its guarantee")];
        lines.extend(unmet.iter().take(LINES).map(|one| format!("  quota/{}: {}", one.quota, clean(&one.why))));
        lines.extend(more(unmet.len(), "of these"));
        (!unmet.is_empty()).then(|| lines.join("\n"))
    }

    fn tides(&self) -> Option<String> {
        let tides = &self.status.tides;
        if tides.is_empty() {
            return None;
        }
        let mut rows = columns(["TIDE", "PHASE", "NEXT TURN", "LENT", "RETURNING", ""], &[3, 4]);
        for tide in tides {
            rows.add_row([
                tide.tide.to_string(),
                turned(tide),
                self.turn(tide),
                tide.lent.to_string(),
                tide.returning.to_string(),
                self.tide_remarks(tide),
            ]);
        }
        Some(trimmed(&rows))
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
        let status = self.status;
        let mut lines = Vec::new();
        if let Some(at) = status.ledger_lost {
            let at = self.words.near(at);
            lines.push(format!("Ledger lost, seen at {at}: the {SAID} that it held are not known"));
            let command = words::command("lost", self.words.directory);
            lines.push(self.ink.paint(DIM, &format!("  give those again that should hold, and then: {command} --yes")));
        }
        for freeze in &status.freezes {
            lines.push(format!(
                "Frozen: {}, {}",
                words::scope(&freeze.scope),
                self.words.freeze(freeze).replacen("frozen ", "", 1)
            ));
            lines.push(self.ink.paint(DIM, &format!("  to lift it: {}", self.words.thaw(freeze))));
        }
        let flag = words::dir_flag(self.words.directory);
        for (node, why) in status.quarantines.iter().take(LINES) {
            let (by, at, reason) = (clean(&why.by), self.words.near(why.at), clean(&why.reason));
            lines.push(format!("Quarantined: {node}, by {by} at {at}: {reason}"));
            let command = format!("  to return it: tidewright return {}{flag}", words::quoted(node.as_str()));
            lines.push(self.ink.paint(DIM, &command));
        }
        lines.extend(more(status.quarantines.len(), "quarantined"));
        for (node, order) in status.drains.iter().take(LINES) {
            let (by, at, reason) = (clean(&order.by), self.words.near(order.at), clean(&order.reason));
            lines.push(format!("Drained: {node}, for {by} since {at}: {reason}"));
            let command = format!("  to open it: tidewright undrain {}{flag}", words::quoted(node.as_str()));
            lines.push(self.ink.paint(DIM, &command));
        }
        lines.extend(more(status.drains.len(), "drained"));
        for (node, why) in status.hands_off.iter().take(LINES) {
            lines.push(format!("Hands off: {node}{}", words::off_because(why)));
            lines.push(self.ink.paint(DIM, &format!("  to take that back: {}", words::hands_on(node))));
        }
        lines.extend(more(status.hands_off.len(), "with hands off"));
        (!lines.is_empty()).then(|| lines.join("\n"))
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
        lines.extend(more(held.len(), "held"));
        lines.push(self.ink.paint(DIM, &format!("  all of it: {}", words::command("plan", self.words.directory))));
        Some(lines.join("\n"))
    }

    fn gaps(&self) -> Option<String> {
        let gaps = &self.status.gaps;
        if gaps.is_empty() {
            return None;
        }
        let mut lines = vec![self.ink.paint(BOLD, "Not read, so nothing is removed because of it")];
        lines.extend(gaps.iter().take(LINES).map(|gap| format!("  {}: {}", clean(&gap.what), clean(&gap.why))));
        lines.extend(more(gaps.len(), "not read"));
        Some(lines.join("\n"))
    }
}

fn more(all: usize, what: &str) -> Option<String> {
    (all > LINES).then(|| format!("  and {} more {what}", all - LINES))
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
