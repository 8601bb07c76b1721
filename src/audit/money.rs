//! What costs by the hour stays within the limit, and a Capacity Block is bought once, as a person approved.

use std::collections::BTreeSet;

use rust_decimal::Decimal;

use super::Found;
use super::case::Case;
use super::slots::{is_resend, launches};
use crate::effect::{Action, CloudAction, Fact, LaunchRequest, Outcome, PurchaseRequest, Subject, is_kin};
use crate::fleet::pool::Source;
use crate::fleet::reservation::{Approval, Manage};
use crate::fleet::standing::{BlockSpec, PoolSpec, ReservationSpec, TermsSpec};
use crate::ids::{FleetUid, InstanceId, OfferingId, ReservationName, Zone};
use crate::observed::{InstanceState, Market, OfferingSeen, ReservationState};
use crate::plan::Step;

const HOURLY: &str = "on-demand and spot nodes keep the hourly limit";
const PURCHASE: &str = "a Capacity Block is bought once, as a person approved";

/// What runs and what is launched, less what is seen gone before a launch, is within the limit. Without a limit nothing
/// is launched that costs by the hour. A node that died is replaced whatever the sum.
pub fn hourly(case: &Case<'_>, found: &mut Found) {
    let by_the_hour = |market| matches!(market, Market::OnDemand | Market::Spot);
    let mut sum = Decimal::ZERO;
    let mut over = None;
    for (at, step, request) in launches(case) {
        if !by_the_hour(request.market) || is_resend(case, request) {
            continue;
        }
        let Some(rate) = rate_of_launch(case, request) else {
            found.step(HOURLY, &step.id, format!("nobody knows what {} costs", request.instance_type));
            continue;
        };
        if let Some(most) = most_for_spot(case, request)
            && request.max_price.is_none_or(|max| max.0 > most)
        {
            found.step(HOURLY, &step.id, format!("it may pay more than {most} for spot"));
        }
        if replaces_a_dead_node(case, request) {
            continue;
        }
        sum += rate - given_back(case, at, request);
        over = Some(step);
    }
    let Some(step) = over else { return };
    let Some(limit) = case.standing().limits.hourly_usd else {
        found.step(HOURLY, &step.id, "there is no limit, so none may be launched");
        return;
    };
    let now = case.seen().cloud.instances.seen().iter().filter(|(_, seen)| seen.state.serves());
    let now: Decimal = now.filter_map(|(id, _)| rate_of_instance(case, id)).sum();
    if sum > Decimal::ZERO && now + sum > limit.0 {
        found.step(HOURLY, &step.id, format!("${now} an hour now and ${sum} more are over ${}", limit.0));
    }
}

fn rate(pool: &PoolSpec, market: Market) -> Option<Decimal> {
    let price = pool.shape.on_demand?.0;
    match market {
        Market::OnDemand => Some(price),
        Market::Spot => {
            let percent = pool.capacity.iter().filter_map(|source| match source {
                Source::Spot { max_price_percent, .. } => Some(*max_price_percent),
                _ => None,
            });
            Some(price * Decimal::from(percent.max().unwrap_or(100)) / Decimal::ONE_HUNDRED)
        }
        Market::Reserved | Market::Block => None,
    }
}

fn rate_of_launch(case: &Case<'_>, request: &LaunchRequest) -> Option<Decimal> {
    rate(case.pool(&request.slot.pool)?, request.market)
}

fn most_for_spot(case: &Case<'_>, request: &LaunchRequest) -> Option<Decimal> {
    if request.market == Market::Spot { rate_of_launch(case, request) } else { None }
}

/// What an instance of ours costs an hour beside what is reserved.
fn rate_of_instance(case: &Case<'_>, id: &InstanceId) -> Option<Decimal> {
    let slot = case.slot_of_instance(id)?;
    rate(case.pool(&slot.pool)?, case.instance(id)?.market)
}

/// What the slot's old node cost, if it is seen gone before the new one is launched.
fn given_back(case: &Case<'_>, at: usize, request: &LaunchRequest) -> Decimal {
    let old = case.ledger_slot(&request.slot).and_then(|slot| slot.instance.as_ref());
    let gone = |id: &&InstanceId| {
        let is = |fact: &Fact| matches!(fact, Fact::Gone(gone) if gone == *id);
        case.instance(id).is_some_and(|seen| seen.state.serves())
            && case.assured(at, &Subject::Instance((*id).clone()), is)
    };
    old.filter(gone).and_then(|id| rate_of_instance(case, id)).unwrap_or_default()
}

/// The slot had a node, and it is no more: the limit never blocks what follows.
fn replaces_a_dead_node(case: &Case<'_>, request: &LaunchRequest) -> bool {
    let Some(slot) = case.ledger_slot(&request.slot) else { return false };
    let is_gone =
        |id: &InstanceId| case.instance(id).is_none_or(|seen| matches!(seen.state, InstanceState::Terminated));
    (slot.lost && !slot.gave_up) || slot.instance.as_ref().is_some_and(is_gone)
}

/// The offer, the fee, the approval and the ledger all say the same; nothing that may have been bought is bought again.
pub fn purchases(case: &Case<'_>, found: &mut Found) {
    let mut bought: BTreeSet<&ReservationName> = BTreeSet::new();
    let mut offers: BTreeSet<&OfferingId> = BTreeSet::new();
    for (_, step) in case.each() {
        let Action::Cloud(CloudAction::Purchase(request)) = &step.action else { continue };
        let name = &request.reservation;
        if !bought.insert(name) {
            found.step(PURCHASE, &step.id, format!("{name} is bought twice"));
        }
        if !offers.insert(&request.offering) {
            found.step(PURCHASE, &step.id, format!("{} is sold once, and another step buys it too", request.offering));
        }
        let spec = case.standing().reservations.get(name);
        let block = spec.and_then(|spec| match &spec.terms {
            TermsSpec::Block(block) if spec.manage == Manage::Full => Some((spec, block)),
            _ => None,
        });
        let Some((spec, block)) = block else {
            found.step(PURCHASE, &step.id, format!("{name} is no Capacity Block of ours to buy"));
            continue;
        };
        let wrong =
            [not_bought(case, request, spec), approved(case, step, request, block), offered(case, request, spec)];
        for wrong in wrong {
            if let Err(wrong) = wrong {
                found.step(PURCHASE, &step.id, format!("{name}: {wrong}"));
            }
        }
    }
}

fn not_bought(case: &Case<'_>, request: &PurchaseRequest, spec: &ReservationSpec) -> Result<(), String> {
    let name = &request.reservation;
    let earlier =
        case.input.ledger.head.purchases.iter().filter(|purchase| purchase.intent.request.reservation == *name);
    for purchase in earlier {
        let same = purchase.intent.request.extends.is_some() == request.extends.is_some();
        match &purchase.outcome {
            Outcome::Open => return Err("an earlier purchase is not answered".into()),
            Outcome::Bought(id) if same => return Err(format!("it was bought already: {id}")),
            Outcome::Bought(_) | Outcome::Refused(_) => {}
        }
    }
    let seen = case.seen().cloud.reservations.seen();
    if case.seen().cloud.reservations.gap().is_some() {
        return Err("the reservations were not read, and it may be there".into());
    }
    let there = seen.iter().find(|(_, seen)| {
        // A block whomever it was bought for: a fleet whose cluster was built anew has another identity.
        let ours = |whose: &FleetUid| seen.block || whose == case.fleet() || is_kin(case.fleet(), whose);
        let tagged = seen.tag.as_ref().is_some_and(|tag| ours(&tag.fleet) && tag.reservation == *name);
        let by_offer = seen.offering.as_ref() == Some(&request.offering);
        seen.state != ReservationState::Ended && (by_offer || (tagged && request.extends.is_none()))
    });
    match (there, &request.extends) {
        (Some((id, _)), _) => Err(format!("{id} is there already")),
        (None, None) if spec.id.is_some() || case.reservation_id(name).is_some() => Err("it has an id already".into()),
        (None, Some(id)) if case.reservation_id(name).as_ref() != Some(id) => Err(format!("{id} is not its block")),
        _ => Ok(()),
    }
}

/// A mandate that is over when the step runs was none, so its end is looked at again just before.
fn approved(case: &Case<'_>, step: &Step, request: &PurchaseRequest, block: &BlockSpec) -> Result<(), String> {
    let approval = match &request.extends {
        None => block.approval.as_ref(),
        Some(_) => block.extend.as_ref().and_then(|extend| extend.approval.as_ref()),
    };
    if request.fee > block.max_upfront {
        return Err(format!("${} is more than `maxUpfrontUsd`", request.fee.0));
    }
    match approval {
        None => Err("nobody approved it".into()),
        Some(Approval::Offering(offering)) => {
            let same = *offering.id == *request.offering.as_str() && offering.fee_usd == request.fee;
            if same { Ok(()) } else { Err("another offer or fee was approved".into()) }
        }
        Some(Approval::Mandate(mandate)) if request.fee > mandate.up_to_usd => {
            Err(format!("${} is more than the mandate", request.fee.0))
        }
        Some(Approval::Mandate(mandate)) if case.now() >= mandate.expires.0 => Err("the mandate is over".into()),
        Some(Approval::Mandate(mandate)) => {
            let ends = |fact: &Fact| matches!(fact, Fact::Before(at) if *at <= mandate.expires.0);
            let is_looked_at = step.requires.iter().any(ends);
            if is_looked_at { Ok(()) } else { Err("the end of the mandate is not looked at again".into()) }
        }
    }
}

/// The offer was seen with this fee, is for what the document asks, and under a mandate none that fits is cheaper.
fn offered(case: &Case<'_>, request: &PurchaseRequest, spec: &ReservationSpec) -> Result<(), String> {
    let offers = case.seen().cloud.offerings.seen().get(&request.reservation).map_or(&[][..], Vec::as_slice);
    let fits = |offer: &&OfferingSeen| {
        offer.extends == request.extends
            && offer.instance_type == spec.shape.instance_type
            && (request.extends.is_some() || offer.nodes == spec.nodes)
            && spec.zone.as_ref().is_none_or(|zone| *zone == offer.zone)
            && (request.extends.is_some() || can_be_used(case, &request.reservation, &offer.zone))
            && starts_in_time(offer, spec)
    };
    let Some(offer) = offers.iter().filter(fits).find(|offer| offer.id == request.offering) else {
        return Err(format!("no offer {} fits the document", request.offering));
    };
    if offer.fee != request.fee {
        return Err(format!("the offer costs ${}", offer.fee.0));
    }
    let TermsSpec::Block(block) = &spec.terms else { return Ok(()) };
    let by_mandate = matches!(
        match &request.extends {
            None => block.approval.as_ref(),
            Some(_) => block.extend.as_ref().and_then(|extend| extend.approval.as_ref()),
        },
        Some(Approval::Mandate(_))
    );
    let free = |other: &&OfferingSeen| !is_sold(case, request, &other.id);
    let cheaper = offers.iter().filter(fits).filter(free).any(|other| other.fee < offer.fee);
    if by_mandate && cheaper { Err("another offer that fits is cheaper".into()) } else { Ok(()) }
}

/// Whether another reservation has an offer, or this plan buys it for one.
fn is_sold(case: &Case<'_>, request: &PurchaseRequest, offer: &OfferingId) -> bool {
    let known = case.input.ledger.head.purchases.iter().filter(|one| !matches!(one.outcome, Outcome::Refused(_)));
    let planned = case.each().filter_map(|(_, step)| match &step.action {
        Action::Cloud(CloudAction::Purchase(other)) => Some(other),
        _ => None,
    });
    let mut orders = known.map(|one| &one.intent.request).chain(planned);
    orders.any(|other| other.offering == *offer && other.reservation != request.reservation)
}

/// Whether no pool that names a reservation says that its nodes are elsewhere.
fn can_be_used(case: &Case<'_>, name: &ReservationName, zone: &Zone) -> bool {
    case.standing().pools.values().all(|pool| {
        let names = pool.capacity.iter().any(|source| *source == Source::Reservation(name.clone()));
        let zones = pool.launch.as_ref().map_or(&[][..], |launch| &launch.subnets.zones);
        !names || zones.is_empty() || zones.contains(zone)
    })
}

/// Offers are dated in UTC.
fn starts_in_time(offer: &OfferingSeen, spec: &ReservationSpec) -> bool {
    let TermsSpec::Block(block) = &spec.terms else { return false };
    let Some(between) = block.start.as_ref().filter(|_| offer.extends.is_none()) else { return true };
    let day = jiff::tz::TimeZone::UTC.to_datetime(offer.start).date();
    between.from.0 <= day && day <= between.to.0
}
