//! Reservations and Capacity Blocks: made with our own token, changed only where something differs, bought once.

use aws_sdk_ec2::operation::create_capacity_reservation::CreateCapacityReservationInput;
use aws_sdk_ec2::operation::create_capacity_reservation::builders::CreateCapacityReservationInputBuilder;
use aws_sdk_ec2::types::{
    CapacityReservationInstancePlatform as Platform, EndDateType, InstanceMatchCriteria, ResourceType,
};
use jiff::Timestamp;

use super::actions::Api;
use super::errors::{Failure, is_mismatch};
use super::launch::tagged;
use super::observe::{our_reservations, reservations_by_id};
use super::real::Aws;
use super::seen::date_time;
use crate::effect::{PurchaseRequest, ReserveRequest, tags};
use crate::fleet::reservation::Match;
use crate::ids::ReservationId;
use crate::observed::{ReservationSeen, ReservationState, ReservationTag};
use crate::provider::{Class, Done};

pub async fn reserve(aws: &Aws, request: &ReserveRequest) -> Result<Done, Failure> {
    let tag = ReservationTag {
        fleet: aws.fleet.clone(),
        reservation: request.reservation.clone(),
        generation: request.generation,
    };
    let api = Api::CreateCapacityReservation;
    match aws.wire.call(api, input(request, &tag).send_with(&aws.wire.ec2_once)).await {
        Ok(answer) => done(api, answer.capacity_reservation.and_then(|made| made.capacity_reservation_id)),
        // The token was used: whatever it made carries our tag.
        Err(failure) if is_mismatch(&failure.code) => {
            let ours = our_reservations(aws).await?;
            match ours.into_iter().find(|(_, held)| held.tag.as_ref() == Some(&tag)) {
                Some((id, _)) => Ok(Done::Reservation(id)),
                None => Err(Failure { class: Class::Ambiguous, ..failure }),
            }
        }
        Err(failure) => Err(failure),
    }
}

/// The request, whole. The SDK fills no token in here, so that ours is the only one.
pub fn input(request: &ReserveRequest, tag: &ReservationTag) -> CreateCapacityReservationInputBuilder {
    CreateCapacityReservationInput::builder()
        .client_token(request.token.as_str())
        .instance_type(request.instance_type.as_str())
        .instance_platform(Platform::LinuxUnix)
        .availability_zone(request.zone.as_str())
        .instance_count(count(request.nodes))
        .instance_match_criteria(criteria(request.matching))
        .end_date_type(if request.end.is_some() { EndDateType::Limited } else { EndDateType::Unlimited })
        .set_end_date(request.end.map(date_time))
        .tag_specifications(tagged(ResourceType::CapacityReservation, &tags::of_reservation(tag)))
}

/// Only what differs is sent: EC2 refuses to change how a reservation matches while it is used, even to what it is.
pub async fn modify(
    aws: &Aws,
    id: &ReservationId,
    nodes: u32,
    end: Option<Timestamp>,
    matching: Match,
) -> Result<Done, Failure> {
    let held = held(aws, id, Api::ModifyCapacityReservation).await?;
    if (held.total, held.end, held.matching) == (nodes, end, matching) {
        return Ok(Done::Nothing);
    }
    let mut request = aws.wire.ec2_once.modify_capacity_reservation().capacity_reservation_id(id.as_str());
    if held.total != nodes {
        request = request.instance_count(count(nodes));
    }
    if held.end != end {
        let kind = if end.is_some() { EndDateType::Limited } else { EndDateType::Unlimited };
        request = request.end_date_type(kind).set_end_date(end.map(date_time));
    }
    if held.matching != matching {
        request = request.instance_match_criteria(criteria(matching));
    }
    aws.wire.call(Api::ModifyCapacityReservation, request.send()).await?;
    Ok(Done::Nothing)
}

pub async fn cancel(aws: &Aws, id: &ReservationId) -> Result<Done, Failure> {
    if held(aws, id, Api::CancelCapacityReservation).await?.state == ReservationState::Ended {
        return Ok(Done::Nothing);
    }
    let request = aws.wire.ec2_once.cancel_capacity_reservation().capacity_reservation_id(id.as_str());
    aws.wire.call(Api::CancelCapacityReservation, request.send()).await?;
    Ok(Done::Nothing)
}

/// Money that does not come back, and no token: sent once, for the fee that was shown.
pub async fn purchase(aws: &Aws, request: &PurchaseRequest) -> Result<Done, Failure> {
    let api = match request.extends {
        Some(_) => Api::PurchaseCapacityBlockExtension,
        None => Api::PurchaseCapacityBlock,
    };
    if let Some(fee) = aws.known.borrow().fees.get(&request.offering).filter(|fee| **fee != request.fee) {
        let said = format!("{} costs {} now, and {} was approved", request.offering, fee.0, request.fee.0);
        return Err(Failure::new(api, Class::Other, said));
    }
    if let Some(id) = &request.extends {
        let bought = aws
            .wire
            .ec2_once
            .purchase_capacity_block_extension()
            .capacity_block_extension_offering_id(request.offering.as_str())
            .capacity_reservation_id(id.as_str());
        aws.wire.call(api, bought.send()).await?;
        return Ok(Done::Reservation(id.clone()));
    }
    let tags = tags::of_purchase(&aws.fleet, &request.reservation, &request.offering);
    let bought = aws
        .wire
        .ec2_once
        .purchase_capacity_block()
        .capacity_block_offering_id(request.offering.as_str())
        .instance_platform(Platform::LinuxUnix)
        .tag_specifications(tagged(ResourceType::CapacityReservation, &tags));
    let answer = aws.wire.call(api, bought.send()).await?;
    done(api, answer.capacity_reservation.and_then(|made| made.capacity_reservation_id))
}

fn done(api: Api, id: Option<String>) -> Result<Done, Failure> {
    let lost = || Failure::new(api, Class::Ambiguous, "EC2 says yes and names no reservation");
    Ok(Done::Reservation(id.ok_or_else(lost)?.into()))
}

async fn held(aws: &Aws, id: &ReservationId, api: Api) -> Result<ReservationSeen, Failure> {
    let found = reservations_by_id(aws, std::slice::from_ref(id)).await?;
    found.get(id).cloned().ok_or_else(|| {
        let code = "InvalidCapacityReservationId.NotFound";
        Failure::said(api, code, Some(400), &format!("The capacity reservation '{id}' was not found"))
    })
}

fn criteria(matching: Match) -> InstanceMatchCriteria {
    match matching {
        Match::Open => InstanceMatchCriteria::Open,
        Match::Targeted => InstanceMatchCriteria::Targeted,
    }
}

fn count(nodes: u32) -> i32 {
    i32::try_from(nodes).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_asked_for_with_our_own_token_and_tags() {
        let tag = ReservationTag { fleet: "ml".into(), reservation: "h100".into(), generation: 2 };
        let request = ReserveRequest {
            reservation: "h100".into(),
            generation: 2,
            token: "TOKEN".into(),
            instance_type: "p5.48xlarge".into(),
            zone: "us-west-2a".into(),
            nodes: 16,
            end: None,
            matching: Match::Targeted,
        };
        let sent = input(&request, &tag).build().unwrap();
        assert_eq!((sent.client_token(), sent.instance_count()), (Some("TOKEN"), Some(16)));
        assert_eq!((sent.end_date_type(), sent.end_date()), (Some(&EndDateType::Unlimited), None));
        assert_eq!(sent.instance_match_criteria(), Some(&InstanceMatchCriteria::Targeted));
        let tags = &sent.tag_specifications()[0];
        assert_eq!(tags.resource_type(), Some(&ResourceType::CapacityReservation));
        assert!(tags.tags().iter().any(|tag| tag.key() == Some(tags::RESERVATION) && tag.value() == Some("h100")));
        let until = Timestamp::from_second(5_000).unwrap();
        let sent = input(&ReserveRequest { end: Some(until), ..request }, &tag).build().unwrap();
        assert_eq!(sent.end_date_type(), Some(&EndDateType::Limited));
        assert_eq!(sent.end_date().map(|at| at.secs()), Some(5_000));
    }
}
