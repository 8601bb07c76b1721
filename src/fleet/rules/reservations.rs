//! Reservations on their own: terms that EC2 would refuse, approvals that contradict themselves, other regions.

use jiff::Timestamp;
use jiff::civil::time;
use jiff::tz::TimeZone;

use super::money::usd;
use crate::diag::{Diagnostic, Span, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::config::Cloud;
use crate::fleet::pool::Size;
use crate::fleet::reservation::{Approval, Block, BlockWindow, Manage, Reservation, Terms};
use crate::hardware::{Usage, catalogue};
use crate::units::Duration;

/// EC2 sells at most this many nodes in one block.
const BLOCK_NODES: u32 = 64;
/// The longest block, with all its extensions.
const LONGEST_BLOCK: Duration = Duration::days(182);
/// A block that starts at once ends at the usual time of day, so it may be this much shorter than what was asked for.
const BLOCK_SLACK: Duration = Duration::days(1);

pub fn check(p: &mut Problems<'_>) {
    over_for_good(p);
    for (name, reservation) in &p.parts.reservations {
        if !p.unread.headless {
            place(p, name.as_str(), reservation);
        }
        if reservation.manage == Manage::Observe && reservation.id.is_none() {
            let message = "a reservation that another tool owns needs `id`: nothing else says which one it is";
            let said = Diagnostic::error(codes::MISSING_FIELD, message).at(reservation.name.at, "");
            let hint = "add `id: cr-…`, or remove `manage: observe` to have it created";
            p.blame(Kind::Reservation, name.as_str(), said.hint(hint));
        }
        if reservation.manage == Manage::Observe {
            only_observed(p, name.as_str(), reservation);
        }
        match &reservation.terms {
            Terms::OnDemand { .. } if reservation.zone.is_none() => {
                let message = "an on-demand reservation needs `zone`";
                let said = Diagnostic::error(codes::MISSING_FIELD, message).at(reservation.name.at, "");
                p.blame(
                    Kind::Reservation,
                    name.as_str(),
                    said.hint("add `zone: us-west-2a`, or the zone that it is in"),
                );
            }
            Terms::OnDemand { .. } => {}
            Terms::Block(block) => self::block(p, name.as_str(), reservation, block),
        }
    }
}

/// What another tool owns is neither given back nor bought here.
fn only_observed(p: &mut Problems<'_>, name: &str, reservation: &Reservation) {
    let at = match &reservation.terms {
        Terms::OnDemand { cancel, .. } => cancel.as_ref().map(|cancel| cancel.at),
        Terms::Block(block) => {
            let extension = block.extend.as_ref().filter(|extend| extend.approval.is_some()).map(|extend| extend.at);
            block.approval.as_ref().map(|approval| approval.at).or(extension)
        }
    };
    if let Some(at) = at {
        let message = format!("`{name}` is only observed: it is neither bought nor given back here");
        let said = Diagnostic::error(codes::BLOCK_TERMS, message).at(at, "");
        p.blame(Kind::Reservation, name, said.hint("remove this, or `manage: observe`"));
    }
}

/// The cloud has reservations, and its region this zone.
fn place(p: &mut Problems<'_>, name: &str, reservation: &Reservation) {
    let cloud = &p.parts.cloud;
    match &cloud.value {
        Cloud::None(_) => {
            let message = "a reservation in a fleet whose cloud is `none`";
            let said = Diagnostic::error(codes::CAPACITY_WITHOUT_CLOUD, message)
                .at(reservation.name.at, "")
                .at(cloud.at, "no cloud");
            let hint = "remove the reservation, or name the cloud that it is in";
            p.blame(Kind::Reservation, name, said.hint(hint));
        }
        Cloud::Aws(aws) => {
            let Some(zone) = &reservation.zone else { return };
            let below = zone.value.as_str().strip_prefix(aws.region.as_str());
            if !below.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-')) {
                let message = format!("`{name}` is in {}, and the fleet is in {}", zone.value, aws.region);
                let said = Diagnostic::error(codes::OTHER_ZONE, message)
                    .at(zone.at, "")
                    .at(cloud.at, format!("region {}", aws.region));
                let hint = format!("write a zone of {}: a fleet is in one region", aws.region);
                p.blame(Kind::Reservation, name, said.hint(hint));
            }
        }
        Cloud::Sim(_) => {}
    }
}

fn block(p: &mut Problems<'_>, name: &str, reservation: &Reservation, block: &Block) {
    let is_known = p.is_sound(Kind::Reservation, name);
    let mut refuse = |message: String, at: Span, hint: &str| {
        p.blame(Kind::Reservation, name, Diagnostic::error(codes::BLOCK_TERMS, message).at(at, "").hint(hint));
    };
    let known = catalogue().types.get(&reservation.instance_type.value);
    let sold = known.is_some_and(|known| known.usage.is_empty() || known.usage.contains(&Usage::CapacityBlock));
    if !sold && is_known {
        let message = format!("EC2 sells no Capacity Blocks of {}", reservation.instance_type.value);
        refuse(
            message,
            reservation.instance_type.at,
            "name a type that `tidewright hardware TYPE` shows to be sold as one",
        );
    }
    const STEPS: &str = "EC2 sells whole days up to 14, then whole weeks up to 182 days";
    if !is_sold(block.duration.value) {
        refuse(format!("no block lasts {}", block.duration.value), block.duration.at, STEPS);
    }
    if let Some(extend) = &block.extend {
        let longest = block.duration.plus(extend.by);
        if !is_sold(extend.by) {
            refuse(format!("no extension lasts {}", extend.by), extend.at, STEPS);
        } else if longest > LONGEST_BLOCK && is_sold(block.duration.value) {
            let message = format!("extended by {} the block would last {longest}", extend.by);
            refuse(message, extend.at, "with all extensions a block lasts at most 182 days");
        }
    }
    if reservation.nodes.value > BLOCK_NODES {
        let message = format!("a block of {} nodes: one holds at most {BLOCK_NODES}", reservation.nodes.value);
        refuse(message, reservation.nodes.at, "write several reservations, and name them all in the pool");
    }
    match (&block.start, &block.window) {
        (None, None) => refuse(
            "nothing says when the block runs".into(),
            block.duration.at,
            "add `startBetween: {from: …, to: …}`, or `window` for a block that is bought already",
        ),
        (Some(start), Some(_)) => {
            refuse(
                "a block with a window is bought already: it does not start another time".into(),
                start.at,
                "remove `startBetween`",
            );
        }
        (Some(start), None) if start.from > start.to => {
            refuse(format!("{} is after {}", start.from, start.to), start.at, "write the earlier date in `from`");
        }
        (None, Some(window)) if window.from >= window.to => {
            refuse("the window ends before it begins".into(), window.at, "write the earlier instant in `from`");
        }
        (None, Some(window)) if reservation.id.is_none() => {
            refuse(
                "a window without `id`: which block runs then?".into(),
                window.at,
                "add the block's `id`, or write `startBetween`",
            );
        }
        (None, Some(window)) if length(window).plus(BLOCK_SLACK) <= block.duration.value => {
            let message = format!("the window lasts {}, and the block {}", length(window), block.duration.value);
            let said = Diagnostic::error(codes::BLOCK_TERMS, message)
                .at(window.at, "")
                .at(block.duration.at, "lasts this long");
            p.blame(Kind::Reservation, name, said.hint("copy start and end of the block as EC2 shows them"));
        }
        (None, Some(window)) => ends_as_usual(p, window.at, window),
        (Some(_), None) => {}
    }
    approval(p, name, block);
}

fn length(window: &BlockWindow) -> Duration {
    let secs = window.to.0.duration_since(window.from.0).as_secs();
    Duration::secs(u64::try_from(secs).unwrap_or(0))
}

/// Every block ends at the same time of day. Another end is a slip, and what is worked out from it would come too late.
fn ends_as_usual(p: &mut Problems<'_>, at: Span, window: &BlockWindow) {
    const END: jiff::civil::Time = time(11, 30, 0, 0);
    let end = window.to.0.to_zoned(TimeZone::UTC);
    if end.time() != END {
        let message = format!("the block ends at {} UTC, and all blocks end at 11:30 UTC", end.strftime("%H:%M"));
        p.say(
            Diagnostic::warning(codes::BLOCK_TERMS, message)
                .at(at, "")
                .hint(format!("copy the end as EC2 shows it, probably {}", end.strftime("%Y-%m-%dT11:30Z"))),
        );
    }
}

fn approval(p: &mut Problems<'_>, name: &str, block: &Block) {
    let Some(approval) = &block.approval else { return };
    if let Approval::Mandate(mandate) = &approval.value
        && mandate.expires.0 <= p.now
        && block.window.is_none()
    {
        // A warning: it was right while it lasted.
        let message = format!("the mandate of `{name}` ended at {}: nothing is bought on it any more", mandate.expires);
        let said = Diagnostic::warning(codes::BLOCK_TERMS, message).at(approval.at, "");
        p.say(said.hint("write a new one, or `id` and `window` if the block is bought"));
    }
    let (amount, what) = match &approval.value {
        Approval::Offering(offering) => (offering.fee_usd, "the offering costs"),
        Approval::Mandate(mandate) => (mandate.up_to_usd, "the mandate goes up to"),
    };
    if amount > block.max_upfront.value {
        let message = format!("{what} {}, more than `maxUpfrontUsd` allows", usd(amount.0));
        let said =
            Diagnostic::error(codes::BLOCK_TERMS, message).at(approval.at, "").at(block.max_upfront.at, "at most this");
        p.blame(Kind::Reservation, name, said.hint("approve less, or raise `maxUpfrontUsd`"));
    }
}

fn is_sold(duration: Duration) -> bool {
    let days = duration.as_secs() / 86_400;
    duration.as_secs().is_multiple_of(86_400)
        && ((1..=14).contains(&days) || (days <= 182 && days > 0 && days.is_multiple_of(7)))
}

/// A pool that only fills reservations waits for them, and its quotas with it. When all of them are over, that wait has
/// no end, and whoever wrote the guarantees should hear of it. A warning: the day before it was right.
fn over_for_good(p: &mut Problems<'_>) {
    let parts = p.parts;
    for pool in parts.pools.values().filter(|pool| pool.size.value == Size::Fill) {
        let held: Vec<&Reservation> = pool.reservations().filter_map(|name| parts.reservations.get(*name)).collect();
        let end = |reservation: &&Reservation| reservation.certain_window(parts.kill(reservation)).map(|(_, end)| end);
        let ends: Option<Vec<Timestamp>> = held.iter().map(end).collect();
        let Some(last) = ends.and_then(|ends| ends.into_iter().max()).filter(|end| *end <= p.now) else { continue };
        let promised =
            parts.quotas.values().filter(|quota| !quota.retire).find_map(|quota| quota.share(&pool.name.value));
        let Some(share) = promised else { continue };
        let when = last.to_zoned(parts.time_zone.zone()).strftime("%a %Y-%m-%d %H:%M").to_string();
        let message =
            format!("the last of what pool `{}` fills was taken away at {when} ({})", pool.name.value, parts.time_zone);
        p.say(
            Diagnostic::warning(codes::BLOCK_ENDS_INSIDE, message)
                .at(share.guarantee.at, "nothing is left of this")
                .at(pool.size.at, "nothing to fill from any more")
                .hint("buy another block and name it in `capacity`, or remove the share"),
        );
    }
}
