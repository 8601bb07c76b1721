//! Tides on their own and against the pools, quotas and tiers that they move. Sums over time are in `sums`.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::moments::around_exceptions;
use super::reclaim;
use crate::diag::{At, Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::pool::{Pool, Size, Source};
use crate::fleet::tide::{Calendar, Loan, Resize, Tide};
use crate::fleet::updates::Window;
use crate::units::Duration;

/// How far ahead sums and overlaps are looked at.
pub const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 14);
/// How far ahead clock changes are told: every zone that has them has the next one within it.
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 366);

pub fn check(p: &mut Problems<'_>) {
    let users = reclaim::users(p.parts);
    for tide in p.parts.tides.values() {
        exceptions(p, tide);
        let low = low_minutes(tide);
        let turns = !never_turns(p, tide, &low);
        let asks_first = !hard_reclaim(p, tide);
        if turns {
            windows(p, tide, &low);
            clock_changes(p, tide, &low);
        }
        if turns && asks_first {
            reclaim::check(p, tide, &users);
        }
        for loan in &tide.loans {
            lender(p, tide, loan);
            ranks(p, loan);
        }
        saves_nothing(p, tide);
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

const DAY_MINUTES: usize = 1440;
const WEEK_MINUTES: usize = 7 * DAY_MINUTES;

/// The minutes of the week, from Monday 00:00, at which a window begins.
fn beginnings(window: &Window) -> impl Iterator<Item = usize> {
    let days = (0..7i8).filter(|day| {
        Weekday::from_monday_zero_offset(*day).is_ok_and(|d| window.days.iter().any(|days| days.contains(d)))
    });
    let start = minute(window.from.0);
    days.map(move |day| usize::from(day.unsigned_abs()) * DAY_MINUTES + start)
}

fn minute(time: Time) -> usize {
    usize::from(time.hour().unsigned_abs()) * 60 + usize::from(time.minute().unsigned_abs())
}

/// Every minute of a week without a clock change: whether the tide is low.
fn low_minutes(tide: &Tide) -> Vec<bool> {
    let mut low = vec![false; WEEK_MINUTES];
    for window in &tide.windows {
        let (from, to) = (minute(window.from.0), minute(window.to.0));
        let length = if to <= from { to + DAY_MINUTES - from } else { to - from };
        for begin in beginnings(window) {
            (begin..begin + length).for_each(|minute| low[minute % WEEK_MINUTES] = true);
        }
    }
    low
}

fn never_turns(p: &mut Problems<'_>, tide: &Tide, low: &[bool]) -> bool {
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
            Diagnostic::error(codes::HARD_RECLAIM, message).at(tide.hard_at.at, "").at(tide.lead.at, "the gentle one");
        p.blame(Kind::TideSchedule, tide.name.value.as_str(), said.hint("make `hardAt` shorter than `lead`"));
    }
    wrong
}

/// Windows that touch or overlap are one, so a short one may be a part of a long one.
fn windows(p: &mut Problems<'_>, tide: &Tide, low: &[bool]) {
    let is_low = |minute: usize| low[minute % WEEK_MINUTES];
    let lasts = |begin: usize| {
        let before = (1..).take_while(|back| is_low(begin + WEEK_MINUTES - back)).count();
        before + (0..).take_while(|ahead| is_low(begin + ahead)).count()
    };
    for window in &tide.windows {
        let Some(shortest) = beginnings(window).map(lasts).min() else { continue };
        let length = Duration::minutes(u64::try_from(shortest).unwrap_or(u64::MAX));
        if length <= tide.lead.value {
            let message = format!("the window lasts {length}, and reclaim begins {} before its end", tide.lead.value);
            let said = Diagnostic::error(codes::WINDOW_TOO_SHORT, message)
                .at(window.at, "")
                .at(tide.lead.at, "this long before");
            p.blame(Kind::TideSchedule, tide.name.value.as_str(), said.hint("make the window longer, or remove it"));
        }
    }
}

/// Told, not refused: the schedule says what happens then.
fn clock_changes(p: &mut Problems<'_>, tide: &Tide, low: &[bool]) {
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
    for (window, verb) in tide.windows.iter().flat_map(|window| [(window, "begins"), (window, "ends")]) {
        let time = if verb == "begins" { window.from } else { window.to };
        let falls = changes.iter().find_map(|date| {
            let begins = |date: Date| window.days.iter().any(|days| days.contains(date.weekday()));
            let crosses = verb == "ends" && window.to.0 <= window.from.0;
            let here = if crosses { date.yesterday().is_ok_and(begins) } else { begins(*date) };
            let odd = here.then(|| Odd::of(&zone, *date, time.0)).flatten()?;
            // Where another window goes on at this time of day, there is no edge.
            let day = usize::from(date.weekday().to_monday_zero_offset().unsigned_abs());
            let next = day * DAY_MINUTES + minute(time.0) + WEEK_MINUTES;
            let other_side = if verb == "begins" { next - 1 } else { next };
            if low[other_side % WEEK_MINUTES] {
                return None;
            }
            tide.turns_around(*date, time.0).then_some((date, odd))
        });
        if let Some((date, odd)) = falls {
            let (what, then) = match (odd, verb) {
                (Odd::Skipped, _) => ("does not exist", "at the moment of the skip"),
                (Odd::Twice, "begins") => ("comes twice", "the second time"),
                (Odd::Twice, _) => ("comes twice", "the first time"),
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

/// A time of day that does not name one moment of a date.
enum Odd {
    Skipped,
    Twice,
}

impl Odd {
    fn of(zone: &TimeZone, date: Date, time: Time) -> Option<Self> {
        let wall = date.to_datetime(time);
        match zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { .. } => None,
            AmbiguousOffset::Fold { .. } => Some(Self::Twice),
            // The first time that is skipped is the moment of the skip itself: nothing moves.
            AmbiguousOffset::Gap { before, .. } => {
                let at = before.to_timestamp(wall).ok()?;
                let just_before = at.checked_sub(SignedDuration::from_secs(1)).ok()?;
                let skip = zone.following(just_before).next().is_some_and(|change| change.timestamp() == at);
                (!skip).then_some(Self::Skipped)
            }
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
    let (message, at, label) = match quota.share(&loan.pool.value) {
        None => {
            let shares: Vec<&str> = quota.shares.iter().map(|share| share.pool.value.as_str()).collect();
            let label = match shares.as_slice() {
                [] => "has no shares".into(),
                some => format!("has a share of {}", some.join(", ")),
            };
            let message = format!("`{}` has no share of pool `{}` to lend", loan.from.value, loan.pool.value);
            (message, quota.name.at, label)
        }
        Some(share) if share.guarantee.is_nothing() => {
            let message = format!("`{}` is guaranteed nothing of pool `{}`", loan.from.value, loan.pool.value);
            (message, share.guarantee.at, "nothing to lend".into())
        }
        Some(_) => return,
    };
    let said = Diagnostic::error(codes::LENDER_WITHOUT_SHARE, message).at(loan.from.at, "").at(at, label);
    let hint = format!("name the quota whose nodes these are, or give `{}` a guarantee", loan.from.value);
    p.blame(Kind::TideSchedule, owner, said.hint(hint));
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

/// Nodes of a pool that are paid for whether they are used or not.
fn prepaid(p: &Problems<'_>, pool: &Pool) -> u32 {
    let nodes = |source: &At<Source>| match &source.value {
        Source::Reservation(name) => p.parts.reservations.get(name).map_or(0, |reservation| reservation.nodes.value),
        Source::Existing { .. } => u32::MAX,
        Source::OnDemand { .. } | Source::Spot { .. } => 0,
    };
    pool.capacity.iter().map(nodes).fold(0, u32::saturating_add)
}

fn saves_nothing(p: &mut Problems<'_>, tide: &Tide) {
    for resize in &tide.resizes {
        let Some(pool) = p.parts.pools.get(&resize.pool.value) else { continue };
        let prepaid = prepaid(p, pool);
        let nodes = match pool.size.value {
            Size::Nodes(nodes) => nodes,
            Size::Fill => prepaid,
        };
        if resize.nodes.value >= prepaid.min(nodes) || is_taken_over(p, tide, resize, pool) {
            continue;
        }
        let (message, hint) = if nodes <= prepaid {
            let message = format!(
                "pool `{}` is paid for whether it is used or not: a smaller one saves nothing",
                pool.name.value
            );
            (message, "lend the nodes instead".into())
        } else {
            let message = format!(
                "{prepaid} nodes of pool `{}` are paid for whether they are used or not: below that a smaller one \
                 saves nothing",
                pool.name.value
            );
            (message, format!("write `nodes: {prepaid}`, and lend the others"))
        };
        let mut said = Diagnostic::warning(codes::SAVES_NOTHING, message).at(resize.nodes.at, "");
        let paid = |source: &&At<Source>| matches!(source.value, Source::Reservation(_) | Source::Existing { .. });
        if let Some(source) = pool.capacity.iter().find(paid) {
            said = said.at(source.at, "paid for");
        }
        p.say(said.hint(hint));
    }
}

/// Whether another pool of the same capacity grows while this one is smaller.
fn is_taken_over(p: &Problems<'_>, tide: &Tide, resize: &Resize, pool: &Pool) -> bool {
    let same = |a: &Source, b: &Source| match (a, b) {
        (Source::Reservation(a), Source::Reservation(b)) => a == b,
        (Source::Existing { .. }, Source::Existing { .. }) => true,
        _ => false,
    };
    tide.resizes.iter().filter(|other| other.pool.value != resize.pool.value).any(|other| {
        let Some(taker) = p.parts.pools.get(&other.pool.value) else { return false };
        matches!(taker.size.value, Size::Nodes(nodes) if nodes < other.nodes.value)
            && taker.capacity.iter().any(|a| pool.capacity.iter().any(|b| same(&a.value, &b.value)))
    })
}

fn overlaps(p: &mut Problems<'_>) {
    let Ok(until) = p.now.checked_add(HORIZON) else { return };
    let by_pool = p.parts.tides_by_pool();
    for (pool, tides) in by_pool.iter().filter(|(_, tides)| tides.len() > 1) {
        for (index, second) in tides.iter().enumerate() {
            for first in tides[..index].iter().filter(|first| first.precedence.value == second.precedence.value) {
                let Some(at) = both_low(first, second, (p.now, until)) else { continue };
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

/// The first instant at which two tides are low at once: in the time given, or around an exception of either.
fn both_low(first: &Tide, second: &Tide, (from, to): (Timestamp, Timestamp)) -> Option<Timestamp> {
    let meet = |a: &Calendar, b: &Calendar| {
        let meeting = |(start, end): &(Timestamp, Timestamp)| {
            let other = b.low.iter().find(|(from, to)| from < end && start < to)?;
            Some((*start).max(other.0)).filter(|_| *end > from && other.1 > from)
        };
        a.low.iter().find_map(meeting)
    };
    let span = |calendar: &Calendar| Some((calendar.low.first()?.0, calendar.low.last()?.1));
    let soon = meet(&first.calendar(from, to), &second.calendar(from, to));
    let beside = |one: &Tide, other: &Tide| {
        around_exceptions(one)
            .iter()
            .filter_map(|a| {
                let (start, end) = span(a)?;
                meet(a, &other.calendar(start, end))
            })
            .min()
    };
    soon.or_else(|| beside(first, second).into_iter().chain(beside(second, first)).min())
}
