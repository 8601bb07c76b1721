//! Offers of Capacity Blocks, for the blocks that a target wants and nobody bought, and for more time of those that
//! were. EC2 answers few of these questions, so only what may be bought is asked for.

use std::collections::BTreeMap;

use jiff::civil::time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::actions::Api;
use super::errors::Failure;
use super::real::Aws;
use super::seen;
use super::wire::pages;
use crate::fleet::Target;
use crate::fleet::standing::{BlockSpec, ReservationSpec, TermsSpec};
use crate::ids::{FleetUid, ReservationId, ReservationName};
use crate::observed::{OfferingSeen, ReservationSeen, ReservationState};
use crate::units::{Day, Duration};

/// A block can be begun this soon, and an extension be bought until this long before the end.
const SOONEST: SignedDuration = SignedDuration::from_mins(30);
const EXTENSION: SignedDuration = SignedDuration::from_hours(1);

pub async fn read(
    aws: &Aws,
    target: &Target,
    held: &BTreeMap<ReservationId, ReservationSeen>,
    now: Timestamp,
) -> Result<BTreeMap<ReservationName, Vec<OfferingSeen>>, Failure> {
    let mut all = BTreeMap::new();
    for (name, spec) in &target.standing.reservations {
        let TermsSpec::Block(block) = &spec.terms else { continue };
        let offers = match bought(held, name, spec, &aws.fleet) {
            Some((id, held)) => extensions(aws, id, held, block, now).await?,
            None if spec.id.is_some() => continue,
            None => blocks(aws, spec, block, now).await?,
        };
        let mut known = aws.known.borrow_mut();
        known.fees.extend(offers.iter().map(|offer| (offer.id.clone(), offer.fee)));
        if !offers.is_empty() {
            all.insert(name.clone(), offers);
        }
    }
    Ok(all)
}

/// The block that stands for a document: by its id, or by our tag.
fn bought<'a>(
    held: &'a BTreeMap<ReservationId, ReservationSeen>,
    name: &ReservationName,
    spec: &ReservationSpec,
    fleet: &FleetUid,
) -> Option<(&'a ReservationId, &'a ReservationSeen)> {
    let names = [Some(name), spec.renamed_from.as_ref()];
    held.iter().find(|(id, held)| {
        let tagged = held
            .tag
            .as_ref()
            .is_some_and(|tag| tag.fleet == *fleet && names.contains(&Some(&tag.reservation)) && held.block);
        tagged || spec.id.as_deref() == Some(id.as_str())
    })
}

async fn blocks(
    aws: &Aws,
    spec: &ReservationSpec,
    block: &BlockSpec,
    now: Timestamp,
) -> Result<Vec<OfferingSeen>, Failure> {
    let Some((from, to)) = block.start.as_ref().and_then(|start| dates(start.from, start.to, now)) else {
        return Ok(Vec::new());
    };
    let length = SignedDuration::from_secs(i64::try_from(block.duration.as_secs()).unwrap_or(i64::MAX));
    let ends = to.checked_add(length).unwrap_or(Timestamp::MAX);
    let request = aws
        .wire
        .ec2
        .describe_capacity_block_offerings()
        .instance_type(spec.shape.instance_type.as_str())
        .instance_count(i32::try_from(spec.nodes).unwrap_or(i32::MAX))
        .capacity_duration_hours(hours(block.duration))
        .start_date_range(seen::date_time(from))
        .end_date_range(seen::date_time(ends));
    let found = pages!(aws.wire, Api::DescribeCapacityBlockOfferings, request, capacity_block_offerings).await?;
    let offers = found.iter().filter_map(seen::offering);
    let fits = |offer: &OfferingSeen| {
        (from..=to).contains(&offer.start) && spec.zone.as_ref().is_none_or(|zone| *zone == offer.zone)
    };
    Ok(offers.filter(fits).collect())
}

async fn extensions(
    aws: &Aws,
    id: &ReservationId,
    held: &ReservationSeen,
    block: &BlockSpec,
    now: Timestamp,
) -> Result<Vec<OfferingSeen>, Failure> {
    let (Some(extend), Some(end)) = (&block.extend, held.end) else { return Ok(Vec::new()) };
    let can = matches!(held.state, ReservationState::Active | ReservationState::Scheduled);
    if !can || end.duration_since(now) < EXTENSION {
        return Ok(Vec::new());
    }
    let request = aws
        .wire
        .ec2
        .describe_capacity_block_extension_offerings()
        .capacity_reservation_id(id.as_str())
        .capacity_block_extension_duration_hours(hours(extend.by));
    let api = Api::DescribeCapacityBlockExtensionOfferings;
    let found = pages!(aws.wire, api, request, capacity_block_extension_offerings).await?;
    Ok(found.iter().filter_map(|offer| seen::extension(offer, id)).collect())
}

/// From the beginning of the first day to the end of the last, and not sooner than EC2 sells; none where that is over.
fn dates(from: Day, to: Day, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let at = |day: Day, hour, minute, second| {
        let local = day.0.to_datetime(time(hour, minute, second, 0));
        local.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    let soonest = now.checked_add(SOONEST).ok()?;
    let (from, to) = (at(from, 0, 0, 0)?.max(soonest), at(to, 23, 59, 59)?);
    (from <= to).then_some((from, to))
}

fn hours(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs() / 3600).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_whole_in_utc_and_the_past_is_not_asked_for() {
        let day = |text: &str| Day(text.parse().unwrap());
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let (from, to) = (day("2026-12-01"), day("2026-12-03"));
        let ahead = dates(from, to, at("2026-11-17T12:00:00Z"));
        assert_eq!(ahead, Some((at("2026-12-01T00:00:00Z"), at("2026-12-03T23:59:59Z"))));
        let begun = dates(from, to, at("2026-12-02T12:00:00Z"));
        assert_eq!(begun, Some((at("2026-12-02T12:30:00Z"), at("2026-12-03T23:59:59Z"))));
        assert_eq!(dates(from, to, at("2026-12-04T00:00:00Z")), None);
    }
}
