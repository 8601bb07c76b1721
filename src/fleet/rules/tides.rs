//! Tides on their own and against the pools, quotas and tiers that they move. Sums over time are in `sums`.

use jiff::SignedDuration;
use jiff::civil::{Date, Weekday};

use crate::diag::{At, Diagnostic, Span, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::pool::{Pool, Size};
use crate::fleet::reservation::Terms;
use crate::fleet::tide::{Loan, Tide, is_ambiguous};
use crate::ids::PoolName;
use crate::units::Duration;

/// Evicting pods: the grace period of a pod, and the wait before nodes are listed again.
pub const DRAIN: Duration = Duration::minutes(2);
/// Cutting a node's GPUs anew: mig-manager waits up to five minutes for its DaemonSets, then the plugin comes back.
pub const RECUT: Duration = Duration::minutes(6);
/// A new node: launch, boot, driver, join, and the first image.
pub const NODE_START: Duration = Duration::minutes(12);
/// How far ahead sums and overlaps are looked at.
pub const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 14);
/// How far ahead clock changes are told: every zone that has them has the next one within it.
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 366);

pub fn check(p: &mut Problems<'_>) {
    for tide in p.parts.tides.values() {
        exceptions(p, tide);
        for loan in &tide.loans {
            lender(p, tide, loan);
            ranks(p, loan);
        }
        if never_turns(p, tide) || hard_reclaim(p, tide) {
            continue;
        }
        windows(p, tide);
        clock_changes(p, tide);
        lead(p, tide);
        saves_nothing(p, tide);
        blocks(p, tide);
    }
    overlaps(p);
}

fn exceptions(p: &mut Problems<'_>, tide: &Tide) {
    for (index, exception) in tide.exceptions.iter().enumerate() {
        if let Some(first) = tide.exceptions[..index].iter().find(|first| first.date == exception.date) {
            let message = format!("{} is an exception twice", exception.date);
            let said = Diagnostic::error(codes::EXCEPTIONS_DISAGREE, message)
                .at(exception.at, "")
                .at(first.at, "the first time");
            p.blame(Kind::TideSchedule, tide.name.value.as_str(), said.hint("keep one of the two"));
        }
    }
}

/// The length of a window on a day without a clock change, in minutes.
fn minutes(tide: &Tide, index: usize) -> u32 {
    let window = &tide.windows[index];
    let of =
        |time: jiff::civil::Time| u32::from(time.hour().unsigned_abs()) * 60 + u32::from(time.minute().unsigned_abs());
    let (from, to) = (of(window.from.0), of(window.to.0));
    if to <= from { to + 1440 - from } else { to - from }
}

fn never_turns(p: &mut Problems<'_>, tide: &Tide) -> bool {
    const WEEK: usize = 7 * 1440;
    let mut low = vec![false; WEEK];
    for (index, window) in tide.windows.iter().enumerate() {
        let start =
            u32::from(window.from.0.hour().unsigned_abs()) * 60 + u32::from(window.from.0.minute().unsigned_abs());
        for day in (0..7i8).filter(|day| {
            Weekday::from_monday_zero_offset(*day).is_ok_and(|d| window.days.iter().any(|days| days.contains(d)))
        }) {
            let begin = usize::from(day.unsigned_abs()) * 1440 + start as usize;
            for minute in begin..begin + minutes(tide, index) as usize {
                low[minute % WEEK] = true;
            }
        }
    }
    let endless = low.iter().all(|low| *low);
    if endless {
        let at = tide.windows.first().map_or(tide.name.at, |window| window.at);
        let said =
            Diagnostic::error(codes::NEVER_TURNS, "the tide is low all week: nothing would ever come back").at(at, "");
        p.blame(
            Kind::TideSchedule,
            tide.name.value.as_str(),
            said.hint("leave some hours high, or give the nodes away in the quotas"),
        );
    }
    endless
}

fn hard_reclaim(p: &mut Problems<'_>, tide: &Tide) -> bool {
    let wrong = tide.hard_at.value >= tide.lead.value;
    if wrong {
        let message = format!(
            "the hard reclaim begins {} before the end, the gentle one only {}",
            tide.hard_at.value, tide.lead.value
        );
        let said =
            Diagnostic::error(codes::HARD_RECLAIM, message).at(tide.hard_at.at, "").at(tide.lead.at, "begins here");
        p.blame(Kind::TideSchedule, tide.name.value.as_str(), said.hint("make `hardAt` shorter than `lead`"));
    }
    wrong
}

fn windows(p: &mut Problems<'_>, tide: &Tide) {
    for (index, window) in tide.windows.iter().enumerate() {
        let length = Duration::minutes(u64::from(minutes(tide, index)));
        // Windows that touch are one, so a short one may be the end of a long one.
        let touches = tide
            .windows
            .iter()
            .any(|other| other.at != window.at && (other.to == window.from || other.from == window.to));
        if length <= tide.lead.value && !touches {
            let message = format!("the window lasts {length}, and reclaim begins {} before its end", tide.lead.value);
            let said = Diagnostic::error(codes::WINDOW_TOO_SHORT, message)
                .at(window.at, "")
                .at(tide.lead.at, "this long before");
            p.blame(Kind::TideSchedule, tide.name.value.as_str(), said.hint("make the window longer, or remove it"));
        }
    }
}

/// Told, not refused: the schedule says what happens then.
fn clock_changes(p: &mut Problems<'_>, tide: &Tide) {
    let zone = tide.zone.zone();
    let Ok(until) = p.now.checked_add(YEAR) else { return };
    let changes: Vec<Date> = zone
        .following(p.now)
        .map(|change| change.timestamp())
        .take_while(|at| *at <= until)
        .take(16)
        .flat_map(|at| {
            let date = zone.to_datetime(at).date();
            [date.yesterday().ok(), Some(date)]
        })
        .flatten()
        .collect();
    for window in &tide.windows {
        let falls = changes.iter().find_map(|date| {
            let begins = |date: Date| window.days.iter().any(|days| days.contains(date.weekday()));
            let crosses = window.to.0 <= window.from.0;
            let ends = if crosses { date.yesterday().is_ok_and(begins) } else { begins(*date) };
            let start = begins(*date) && is_ambiguous(&zone, *date, window.from.0);
            let end = ends && is_ambiguous(&zone, *date, window.to.0);
            start.then_some((date, window.from, "begins")).or(end.then_some((date, window.to, "ends")))
        });
        if let Some((date, time, verb)) = falls {
            let gap = matches!(
                zone.to_ambiguous_timestamp(date.to_datetime(time.0)).offset(),
                jiff::tz::AmbiguousOffset::Gap { .. }
            );
            let (what, then) = match (gap, verb) {
                (true, _) => ("does not exist", "at the moment of the skip"),
                (false, "begins") => ("comes twice", "the second time"),
                (false, _) => ("comes twice", "the first time"),
            };
            let message = format!("on {date} the clock changes in {}, and {time} {what}", tide.zone.value);
            p.say(
                Diagnostic::warning(codes::CLOCK_CHANGE, message)
                    .at(window.at, format!("it then {verb} {then}"))
                    .hint("nothing to do if that is fine; else move the edge by an hour"),
            );
        }
    }
}

fn lender(p: &mut Problems<'_>, tide: &Tide, loan: &At<Loan>) {
    let owner = tide.name.value.as_str();
    if loan.from.value == loan.to.value {
        let said = Diagnostic::error(codes::LENDER_WITHOUT_SHARE, "a quota cannot lend to itself")
            .at(loan.to.at, "")
            .at(loan.from.at, "the same");
        p.blame(Kind::TideSchedule, owner, said.hint("name the quota that gets the nodes in `to`"));
        return;
    }
    let Some(quota) = p.parts.quotas.get(&loan.from.value) else { return };
    if quota.share(&loan.pool.value).is_none() {
        let message = format!("`{}` has no share of pool `{}` to lend", loan.from.value, loan.pool.value);
        let said = Diagnostic::error(codes::LENDER_WITHOUT_SHARE, message)
            .at(loan.from.at, "")
            .at(quota.name.at, "its shares");
        p.blame(Kind::TideSchedule, owner, said.hint("name the quota whose nodes these are, or give it a share"));
    }
}

/// Reclaim evicts what was lent, and nothing is evicted for work of a lower tier.
fn ranks(p: &mut Problems<'_>, loan: &At<Loan>) {
    let highest = |name| {
        let quota = p.parts.quotas.get(name)?;
        quota
            .tiers
            .iter()
            .filter_map(|tier| Some((p.parts.tiers.get(&tier.value)?, tier.at)))
            .max_by_key(|(tier, _)| tier.rank.value)
    };
    let (Some((from, _)), Some((to, at))) = (highest(&loan.from.value), highest(&loan.to.value)) else { return };
    if to.rank.value > from.rank.value {
        let message = format!(
            "reclaim would evict work of tier `{}` (rank {}) for work of tier `{}` (rank {})",
            to.name.value, to.rank.value, from.name.value, from.rank.value
        );
        let said = Diagnostic::error(codes::HIGHER_TIER, message)
            .at(loan.to.at, "lent to")
            .at(at, "its highest tier")
            .at(from.rank.at, "the lender's highest");
        p.say(said.hint(format!("lend to a quota whose tiers are at most `{}`", from.name.value)));
    }
}

/// Reclaim takes as long as the slowest of what it moves; the hard one still has to evict and to cut.
fn lead(p: &mut Problems<'_>, tide: &Tide) {
    let mut gentle: Vec<(Duration, &str, Option<Span>)> = Vec::new();
    let mut hard = Duration::default();
    let parts = p.parts;
    if !tide.loans.is_empty() {
        let deadlines =
            tide.loans.iter().filter_map(|loan| parts.quotas.get(&loan.to.value)).flat_map(|quota| &quota.tiers);
        let checkpoint = deadlines
            .filter_map(|tier| parts.tiers.get(&tier.value)?.checkpoint.as_ref())
            .max_by_key(|checkpoint| checkpoint.deadline);
        if let Some(checkpoint) = checkpoint {
            gentle.push((checkpoint.deadline, "to save the work", Some(checkpoint.at)));
        }
        gentle.push((DRAIN, "to drain", None));
        hard = DRAIN;
        let recut = tide.loans.iter().find(|loan| {
            let own = parts.pools.get(&loan.pool.value).map(|pool| &pool.layout.value);
            loan.layout.as_ref().is_some_and(|layout| Some(&layout.value) != own)
        });
        if let Some(loan) = recut {
            gentle.push((RECUT, "to cut the GPUs back", loan.layout.as_ref().map(|layout| layout.at)));
            hard = hard.plus(RECUT);
        }
    }
    let regrows = tide.resizes.iter().find(|resize| {
        parts
            .pools
            .get(&resize.pool.value)
            .is_some_and(|pool| matches!(pool.size.value, Size::Nodes(nodes) if nodes > resize.nodes.value))
    });
    if let Some(resize) = regrows {
        gentle.push((NODE_START, "to start nodes again", Some(resize.at)));
    }
    let needed = gentle.iter().fold(Duration::default(), |sum, (part, ..)| sum.plus(*part));
    let sum = gentle.iter().map(|(part, what, _)| format!("{part} {what}")).collect::<Vec<_>>().join(", ");
    let owner = tide.name.value.as_str();
    if tide.lead.value < needed {
        let mut said = Diagnostic::error(
            codes::LEAD_TOO_SHORT,
            format!("reclaim begins {} before the end, and takes {needed}", tide.lead.value),
        )
        .at(tide.lead.at, "");
        for (part, what, at) in &gentle {
            if let Some(at) = at {
                said = said.at(*at, format!("{part} {what}"));
            }
        }
        p.blame(Kind::TideSchedule, owner, said.hint(format!("write `lead: {needed}` or more: {sum}")));
    } else if tide.hard_at.value < hard {
        let message = format!("the hard reclaim begins {} before the end, and still takes {hard}", tide.hard_at.value);
        let said = Diagnostic::error(codes::LEAD_TOO_SHORT, message).at(tide.hard_at.at, "");
        p.blame(
            Kind::TideSchedule,
            owner,
            said.hint(format!("write `hardAt: {hard}` or more: pods have to end, and GPUs to be cut")),
        );
    }
}

fn prepaid(pool: &Pool) -> bool {
    !pool.costs_by_the_hour()
}

fn saves_nothing(p: &mut Problems<'_>, tide: &Tide) {
    for resize in &tide.resizes {
        let Some(pool) = p.parts.pools.get(&resize.pool.value) else { continue };
        if let Size::Nodes(nodes) = pool.size.value
            && resize.nodes.value < nodes
            && prepaid(pool)
        {
            let message = format!(
                "pool `{}` is paid for whether it is used or not: a smaller one saves nothing",
                resize.pool.value
            );
            let said = Diagnostic::warning(codes::SAVES_NOTHING, message).at(resize.at, "");
            let said = pool.capacity.first().map_or(said.clone(), |source| said.at(source.at, "paid for"));
            p.say(said.hint("lend the nodes instead"));
        }
    }
}

/// A Capacity Block must not end while its pool is lent or resized.
fn blocks(p: &mut Problems<'_>, tide: &Tide) {
    let mut pools: Vec<(&PoolName, Span)> = tide.loans.iter().map(|loan| (&loan.pool.value, loan.at)).collect();
    pools.extend(tide.resizes.iter().map(|resize| (&resize.pool.value, resize.at)));
    for (name, promised) in pools {
        let Some(pool) = p.parts.pools.get(name) else { continue };
        for reservation in pool.reservations().filter_map(|name| p.parts.reservations.get(*name)) {
            let Terms::Block(block) = &reservation.terms else { continue };
            let kill = p.parts.kill(reservation);
            let Some((_, end)) = reservation.certain_window(kill).filter(|(_, end)| *end > p.now) else { continue };
            let low = tide.calendar(end, end).low.into_iter().find(|(start, due)| *start < end && end < *due);
            if let Some((start, due)) = low {
                let show =
                    |at: jiff::Timestamp| at.to_zoned(tide.zone.zone()).strftime("%a %Y-%m-%d %H:%M").to_string();
                let message = format!(
                    "EC2 begins to take the nodes of block `{}` away at {} ({}), inside the low tide from {} to {}",
                    reservation.name.value,
                    show(end),
                    tide.zone.value,
                    show(start),
                    show(due)
                );
                let at = block.window.as_ref().map_or(block.duration.at, |window| window.at);
                let said = Diagnostic::error(codes::BLOCK_ENDS_INSIDE, message)
                    .at(promised, "promised here")
                    .at(at, "ends here");
                p.say(said.hint("make the date an exception with `tide: high`, or take the block out of this pool"));
            }
        }
    }
}

fn overlaps(p: &mut Problems<'_>) {
    let Ok(until) = p.now.checked_add(HORIZON) else { return };
    let by_pool = p.parts.tides_by_pool();
    for (pool, tides) in by_pool.iter().filter(|(_, tides)| tides.len() > 1) {
        for (index, second) in tides.iter().enumerate() {
            for first in tides[..index].iter().filter(|first| first.precedence.value == second.precedence.value) {
                let (a, b) = (first.calendar(p.now, until), second.calendar(p.now, until));
                let both = a.low.iter().find_map(|(from, to)| {
                    let other = b.low.iter().find(|(start, end)| start < to && from < end)?;
                    Some((*from).max(other.0))
                });
                if let Some(at) = both {
                    let when = at.to_zoned(second.zone.zone()).strftime("%a %Y-%m-%d %H:%M").to_string();
                    let message = format!(
                        "`{}` and `{}` are both low at {when} ({}), and both rule pool `{pool}`",
                        first.name.value, second.name.value, second.zone.value
                    );
                    let said = Diagnostic::error(codes::TIDES_OVERLAP, message)
                        .at(second.name.at, "")
                        .at(first.name.at, "and this one");
                    p.blame(
                        Kind::TideSchedule,
                        second.name.value.as_str(),
                        said.hint("give the one that should decide a higher `precedence`"),
                    );
                }
            }
        }
    }
}
