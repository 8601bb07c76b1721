//! What EC2 lists, as the snapshot has it. Pure.
//!
//! A state that we do not know is kept as it is written: not usable, and not gone.

use aws_sdk_ec2::types::{
    CapacityBlockExtensionOffering, CapacityBlockOffering, CapacityReservation, CapacityReservationState,
    CapacityReservationType, EndDateType, Instance, InstanceLifecycleType, InstanceMatchCriteria, InstanceStateName,
    PlacementGroup, PlacementGroupState, Tag,
};
use aws_smithy_types::DateTime;
use jiff::{SignedDuration, Timestamp};
use rust_decimal::Decimal;

use crate::effect::tags::{self, Tags};
use crate::fleet::reservation::Match;
use crate::hardware::catalogue;
use crate::ids::{FleetUid, GroupName, InstanceId, InstanceType, ReservationId};
use crate::observed::{
    GroupSeen, InstanceSeen, InstanceState, Market, Notice, NoticeKind, OfferingSeen, ReservationSeen, ReservationState,
};
use crate::units::Usd;

pub fn tags_of(tags: Option<&Vec<Tag>>) -> Tags {
    let pairs = tags.into_iter().flatten().filter_map(|tag| Some((tag.key.clone()?, tag.value.clone()?)));
    pairs.collect()
}

pub fn timestamp(at: &DateTime) -> Option<Timestamp> {
    let nanos = i32::try_from(at.subsec_nanos()).ok()?;
    Timestamp::new(at.secs(), nanos).ok()
}

pub fn date_time(at: Timestamp) -> DateTime {
    DateTime::from_secs(at.as_second())
}

/// One without an id is nobody.
pub fn instance(found: &Instance) -> Option<(InstanceId, InstanceSeen)> {
    let id = InstanceId::from(found.instance_id.as_deref()?);
    let tags = tags_of(found.tags.as_ref());
    let text = |value: &Option<String>| value.as_deref().filter(|text| !text.is_empty()).map(str::to_string);
    let placement = found.placement.as_ref();
    let reservation = text(&found.capacity_reservation_id).map(ReservationId::from);
    let seen = InstanceSeen {
        tag: tags::slot(&tags),
        token: text(&found.client_token).map(Into::into),
        state: state(found.state.as_ref().and_then(|state| state.name.as_ref())),
        instance_type: found.instance_type.as_ref().map_or("", |kind| kind.as_str()).into(),
        zone: placement.and_then(|placement| placement.availability_zone.as_deref()).unwrap_or_default().into(),
        market: market(found.instance_lifecycle.as_ref(), reservation.is_some()),
        reservation,
        group: placement.and_then(|placement| text(&placement.group_name)).map(GroupName::from),
        template: tags.get(tags::TEMPLATE).map(|digest| digest.as_str().into()),
        launched: found.launch_time.as_ref().and_then(timestamp).unwrap_or(Timestamp::UNIX_EPOCH),
        network: Vec::new(),
        notice: None,
    };
    Some((id, seen))
}

fn state(name: Option<&InstanceStateName>) -> InstanceState {
    match name {
        Some(InstanceStateName::Pending) => InstanceState::Pending,
        Some(InstanceStateName::Running) => InstanceState::Running,
        Some(InstanceStateName::ShuttingDown) => InstanceState::ShuttingDown,
        Some(InstanceStateName::Terminated) => InstanceState::Terminated,
        Some(InstanceStateName::Stopped) => InstanceState::Stopped,
        Some(other) => InstanceState::Other(other.as_str().to_string()),
        None => InstanceState::Other("unsaid".into()),
    }
}

/// What it is paid as now: in a reservation that ended it goes on as on-demand.
fn market(lifecycle: Option<&InstanceLifecycleType>, reserved: bool) -> Market {
    match (lifecycle, reserved) {
        (Some(InstanceLifecycleType::CapacityBlock), true) => Market::Block,
        (_, true) => Market::Reserved,
        (Some(InstanceLifecycleType::Spot), false) => Market::Spot,
        _ => Market::OnDemand,
    }
}

pub fn reservation(found: &CapacityReservation) -> Option<(ReservationId, ReservationSeen)> {
    let id = ReservationId::from(found.capacity_reservation_id.as_deref()?);
    let tags = tags_of(found.tags.as_ref());
    let block = found.reservation_type == Some(CapacityReservationType::CapacityBlock);
    let count = |value: Option<i32>| value.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let ends = block || found.end_date_type != Some(EndDateType::Unlimited);
    let seen = ReservationSeen {
        tag: tags::reservation(&tags),
        instance_type: found.instance_type.as_deref().unwrap_or_default().into(),
        zone: found.availability_zone.as_deref().unwrap_or_default().into(),
        total: count(found.total_instance_count),
        available: count(found.available_instance_count),
        state: reservation_state(found.state.as_ref()),
        start: found.start_date.as_ref().filter(|_| block).and_then(timestamp),
        end: found.end_date.as_ref().filter(|_| ends).and_then(timestamp),
        matching: match found.instance_match_criteria {
            Some(InstanceMatchCriteria::Open) => Match::Open,
            _ => Match::Targeted,
        },
        block,
        offering: tags.get(tags::OFFERING).map(|offering| offering.as_str().into()),
        network: Vec::new(),
    };
    Some((id, seen))
}

fn reservation_state(state: Option<&CapacityReservationState>) -> ReservationState {
    use CapacityReservationState as Ec2;
    match state {
        Some(Ec2::Active) => ReservationState::Active,
        Some(Ec2::Pending | Ec2::Assessing | Ec2::Delayed | Ec2::PaymentPending) => ReservationState::Pending,
        Some(Ec2::Scheduled) => ReservationState::Scheduled,
        Some(Ec2::Expired | Ec2::Cancelled | Ec2::Failed | Ec2::PaymentFailed | Ec2::Unsupported) => {
            ReservationState::Ended
        }
        Some(other) => ReservationState::Other(other.as_str().to_string()),
        None => ReservationState::Other("unsaid".into()),
    }
}

/// The end of the block that an instance stands in, once EC2 warns of it. Found from the date at every look: an
/// extension moves it.
pub fn block_notice(held: &ReservationSeen, now: Timestamp) -> Option<Notice> {
    let end = held.end.filter(|_| held.block)?;
    let notices = &catalogue().notices;
    let known = catalogue().types.get(&held.instance_type);
    let kill = known.map_or(notices.capacity_block_kill, |known| notices.block_kill(known));
    let before = |secs: u64| end.checked_sub(SignedDuration::from_secs(i64::try_from(secs).ok()?)).ok();
    let (warns, kills) = (before(notices.capacity_block_warning.as_secs())?, before(kill.as_secs())?);
    // For UltraServers the warning comes when the end has begun.
    (now >= warns.min(kills)).then_some(Notice { why: NoticeKind::BlockEnd, at: kills })
}

/// Those that are there or will be.
pub fn group(found: &PlacementGroup, fleet: &FleetUid) -> Option<(GroupName, GroupSeen)> {
    let gone = matches!(found.state, Some(PlacementGroupState::Deleting | PlacementGroupState::Deleted));
    let name = found.group_name.as_deref().filter(|_| !gone)?;
    let ours = tags_of(found.tags.as_ref()).get(tags::FLEET).is_some_and(|whose| whose == fleet.as_str());
    Some((name.into(), GroupSeen { ours }))
}

/// An offer that is whole, and in dollars: money in another currency is not compared.
pub fn offering(found: &CapacityBlockOffering) -> Option<OfferingSeen> {
    Some(OfferingSeen {
        id: found.capacity_block_offering_id.as_deref()?.into(),
        extends: None,
        instance_type: found.instance_type.as_deref()?.into(),
        zone: found.availability_zone.as_deref()?.into(),
        nodes: u32::try_from(found.instance_count?).ok()?,
        start: found.start_date.as_ref().and_then(timestamp)?,
        end: found.end_date.as_ref().and_then(timestamp)?,
        fee: dollars(found.upfront_fee.as_deref()?, found.currency_code.as_deref())?,
    })
}

pub fn extension(found: &CapacityBlockExtensionOffering, of: &ReservationId) -> Option<OfferingSeen> {
    Some(OfferingSeen {
        id: found.capacity_block_extension_offering_id.as_deref()?.into(),
        extends: Some(of.clone()),
        instance_type: found.instance_type.as_deref()?.into(),
        zone: found.availability_zone.as_deref()?.into(),
        nodes: u32::try_from(found.instance_count?).ok()?,
        start: found.capacity_block_extension_start_date.as_ref().and_then(timestamp)?,
        end: found.capacity_block_extension_end_date.as_ref().and_then(timestamp)?,
        fee: dollars(found.upfront_fee.as_deref()?, found.currency_code.as_deref())?,
    })
}

pub fn dollars(text: &str, currency: Option<&str>) -> Option<Usd> {
    let amount: Decimal = text.trim().parse().ok()?;
    currency.is_none_or(|currency| currency.eq_ignore_ascii_case("usd")).then_some(Usd(amount))
}

/// What a type is called: EC2's list grows faster than the SDK's.
pub fn type_name(kind: &aws_sdk_ec2::types::InstanceType) -> InstanceType {
    kind.as_str().into()
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types;

    use super::*;

    fn tag(key: &str, value: &str) -> Tag {
        Tag::builder().key(key).value(value).build()
    }

    #[test]
    fn an_instance_is_read_with_its_slot_its_token_and_what_it_is_paid_as() {
        let found = Instance::builder()
            .instance_id("i-1")
            .client_token("TOKEN")
            .instance_type("p5.48xlarge".into())
            .instance_lifecycle(InstanceLifecycleType::CapacityBlock)
            .capacity_reservation_id("cr-1")
            .placement(types::Placement::builder().availability_zone("us-west-2a").group_name("g").build())
            .state(types::InstanceState::builder().name(InstanceStateName::Running).build())
            .launch_time(DateTime::from_secs(1_000))
            .tags(tag(tags::FLEET, "ml"))
            .tags(tag(tags::SLOT, "train/3"))
            .tags(tag(tags::GENERATION, "2"))
            .tags(tag(tags::TEMPLATE, "d1"))
            .build();
        let (id, seen) = instance(&found).unwrap();
        assert_eq!((id.as_str(), seen.market, seen.state), ("i-1", Market::Block, InstanceState::Running));
        let slot = seen.tag.unwrap();
        assert_eq!((slot.slot.to_string().as_str(), slot.generation), ("train/3", 2));
        assert_eq!(
            (seen.token, seen.template, seen.group),
            (Some("TOKEN".into()), Some("d1".into()), Some("g".into()))
        );
        assert_eq!(seen.launched, Timestamp::from_second(1_000).unwrap());
        // The block is over, and EC2 forgot where it stood.
        let mut over = found;
        over.capacity_reservation_id = None;
        assert_eq!(instance(&over).unwrap().1.market, Market::OnDemand);
    }

    #[test]
    fn unknown_states_are_kept_and_not_usable() {
        let unheard = types::InstanceState::builder().name("hibernating".into()).build();
        let found = Instance::builder().instance_id("i-1").state(unheard).build();
        assert_eq!(instance(&found).unwrap().1.state, InstanceState::Other("hibernating".into()));
        for (state, expected) in [
            ("active", ReservationState::Active),
            ("payment-pending", ReservationState::Pending),
            ("scheduled", ReservationState::Scheduled),
            ("payment-failed", ReservationState::Ended),
            ("unavailable", ReservationState::Other("unavailable".into())),
            ("cancelling", ReservationState::Other("cancelling".into())),
            ("dreaming", ReservationState::Other("dreaming".into())),
        ] {
            let found = CapacityReservation::builder().capacity_reservation_id("cr-1").state(state.into()).build();
            assert_eq!(reservation(&found).unwrap().1.state, expected, "{state}");
        }
    }

    #[test]
    fn only_a_reservation_that_ends_has_an_end() {
        let found = CapacityReservation::builder()
            .capacity_reservation_id("cr-1")
            .end_date(DateTime::from_secs(5_000))
            .end_date_type(EndDateType::Unlimited)
            .start_date(DateTime::from_secs(1_000));
        let seen = reservation(&found.clone().build()).unwrap().1;
        assert_eq!((seen.start, seen.end), (None, None));
        let block = found.reservation_type(CapacityReservationType::CapacityBlock).build();
        let seen = reservation(&block).unwrap().1;
        assert_eq!(seen.end, Timestamp::from_second(5_000).ok());
        assert_eq!(seen.start, Timestamp::from_second(1_000).ok());
    }

    #[test]
    fn the_end_of_a_block_is_told_from_its_date() {
        let end = Timestamp::from_second(100_000).unwrap();
        let found = CapacityReservation::builder()
            .capacity_reservation_id("cr-1")
            .instance_type("p5.48xlarge")
            .end_date(date_time(end))
            .reservation_type(CapacityReservationType::CapacityBlock)
            .build();
        let held = reservation(&found).unwrap().1;
        let minutes = |minutes| end - SignedDuration::from_mins(minutes);
        assert_eq!(block_notice(&held, minutes(41)), None);
        let told = block_notice(&held, minutes(39)).unwrap();
        assert_eq!((told.why, told.at), (NoticeKind::BlockEnd, minutes(30)));
    }

    #[test]
    fn money_is_exact_and_only_in_dollars() {
        assert_eq!(dollars("1234.10", Some("USD")).unwrap().0, Decimal::new(123_410, 2));
        assert_eq!(dollars("1234.10", Some("EUR")), None);
        assert_eq!(dollars("about 5", Some("USD")), None);
    }
}
