//! Everything that the snapshot holds of EC2: read in parts, each whole or with a gap that says why.
//!
//! Only what is ours is listed, by our tag, what may have been ours, and what documents adopt, by its id. Other people's
//! things in the account are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{Filter, Tag};
use futures_util::future::{join, join5};
use jiff::Timestamp;

use super::actions::Api;
use super::errors::Failure;
use super::notices::Told;
use super::real::Aws;
use super::wire::pages;
use super::{launch, notices, offers, seen};
use crate::effect::{Subject, tags, with_kin};
use crate::fleet::Target;
use crate::fleet::pool::Source;
use crate::fleet::standing::{ReservationSpec, TermsSpec};
use crate::ids::{GroupName, InstanceId, InstanceType, ReservationId, TemplateName, Zone};
use crate::observed::{
    CloudSeen, GroupSeen, InstanceSeen, InstanceState, Market, Notice, Read, ReservationSeen, TemplateSeen,
};
use crate::provider::Class;
use crate::units::Usd;

/// A page of instances, reservations, templates.
const PAGE: i32 = 1000;
/// As many values as a filter takes.
const VALUES: usize = 200;
/// As many ids as one question about topology takes.
const INSTANCES: usize = 100;
const RESERVATIONS: usize = 10;

type Found<T> = Result<T, Failure>;
type Instances = BTreeMap<InstanceId, InstanceSeen>;
type Reservations = BTreeMap<ReservationId, ReservationSeen>;

pub async fn observe(aws: &Aws, target: &Target) -> CloudSeen {
    let now = aws.wire.clock.now();
    aws.heed(target);
    if let Err(failure) = aws.is_ours().await {
        return unread(now, &failure);
    }
    let parts = join5(instances(aws), reservations(aws, target), groups(aws), templates(aws), spot_zones(aws, target));
    let (parts, told) = join(parts, notices::read(aws)).await;
    let (mut instances, mut reservations, groups, templates, zones) = parts;
    let there = instances.as_ref().cloned().unwrap_or_default();
    let (noticed, spot_prices) = join(with_interruptions(aws, told, &there), spot_prices(aws, zones, &there)).await;
    let (noticed, recommended) = match noticed {
        Ok(Told { notices, recommended }) => (Ok(notices), recommended),
        Err(failure) => (Err(failure), BTreeMap::new()),
    };
    let mut unplaced = None;
    if let Ok(found) = &mut reservations {
        unplaced = place_reservations(aws, target, found).await.err();
    }
    let offerings = match &reservations {
        Ok(held) => offers::read(aws, target, held, now).await,
        Err(failure) => Err(failure.clone()),
    };
    if let Ok(found) = &mut instances {
        unplaced = unplaced.or(place_instances(aws, target, found).await.err());
        let held = reservations.as_ref().cloned().unwrap_or_default();
        warn(found, &held, noticed.as_ref().unwrap_or(&BTreeMap::new()), now);
    }
    if let Ok(noticed) = &noticed {
        aws.known.borrow_mut().notices = noticed.clone();
    }
    CloudSeen {
        reservations: read(reservations, now),
        offerings: read(offerings, now),
        // Who does not know what will be taken away does not know what is there.
        instances: match noticed {
            Ok(_) => read(instances, now),
            Err(failure) => Read::with_gap(instances.unwrap_or_default(), now, failure.gap()),
        },
        groups: read(groups, now),
        templates: read(templates, now),
        spot_prices: read(spot_prices, now),
        hosts: Default::default(),
        recommended,
        unplaced: unplaced.map(|failure| failure.gap()),
    }
}

/// Only these, by their ids. One that EC2 does not know is missing from the answer, and nothing else is.
pub async fn reread(aws: &Aws, what: &[Subject]) -> CloudSeen {
    let (mut instances, mut reservations) = (BTreeSet::new(), BTreeSet::new());
    for subject in what {
        match subject {
            Subject::Instance(id) | Subject::NodeOf(id) => drop(instances.insert(id.clone())),
            Subject::Reservation(id) => drop(reservations.insert(id.clone())),
            Subject::Node(_) | Subject::Workload(_) | Subject::Object(_) => {}
        }
    }
    let now = aws.wire.clock.now();
    let mut seen = CloudSeen::default();
    if instances.is_empty() && reservations.is_empty() {
        return seen;
    }
    if let Err(failure) = aws.is_ours().await {
        return unread(now, &failure);
    }
    if !instances.is_empty() {
        let ids: Vec<InstanceId> = instances.into_iter().collect();
        let mut found = instances_by_id(aws, &ids).await;
        if let Ok(found) = &mut found {
            let known = aws.known.borrow();
            for (id, instance) in found.iter_mut() {
                instance.notice = known.notices.get(id).cloned();
                instance.network = known.networks.get(id).cloned().unwrap_or_default();
            }
        }
        seen.instances = read(found, now);
    }
    if !reservations.is_empty() {
        let ids: Vec<ReservationId> = reservations.into_iter().collect();
        seen.reservations = read(reservations_by_id(aws, &ids).await, now);
    }
    seen
}

async fn with_interruptions(aws: &Aws, told: Found<Told>, found: &Instances) -> Found<Told> {
    notices::with_interruptions(aws, told?, found).await
}

fn read<T: Default>(found: Found<T>, now: Timestamp) -> Read<T> {
    match found {
        Ok(value) => Read::new(value, now),
        Err(failure) => Read::with_gap(T::default(), now, failure.gap()),
    }
}

/// Nothing could be read, for one reason.
fn unread(now: Timestamp, failure: &Failure) -> CloudSeen {
    fn none<T: Default>(now: Timestamp, failure: &Failure) -> Read<T> {
        Read::with_gap(T::default(), now, failure.gap())
    }
    CloudSeen {
        reservations: none(now, failure),
        offerings: none(now, failure),
        instances: none(now, failure),
        groups: none(now, failure),
        templates: none(now, failure),
        spot_prices: none(now, failure),
        hosts: Default::default(),
        recommended: BTreeMap::new(),
        unplaced: None,
    }
}

pub fn filter(name: &str, values: impl IntoIterator<Item = impl Into<String>>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().map(Into::into).collect())).build()
}

fn of_our_fleet(aws: &Aws) -> Filter {
    filter(&format!("tag:{}", tags::FLEET), [aws.fleet.as_str()])
}

/// What is ours, and what may have been before a ledger was lost: whoever does not see that makes it a second time.
fn of_our_kin(aws: &Aws) -> Filter {
    filter(&format!("tag:{}", tags::FLEET), with_kin(&aws.fleet))
}

async fn instances(aws: &Aws) -> Found<Instances> {
    let request = aws.wire.ec2.describe_instances().filters(of_our_kin(aws)).max_results(PAGE);
    let found = pages!(aws.wire, Api::DescribeInstances, request, reservations).await?;
    let listed = found.iter().flat_map(|launched| launched.instances.iter().flatten());
    Ok(listed.filter_map(seen::instance).collect())
}

/// By a filter, because an id that is not known fails the whole of a question that names it.
pub async fn instances_by_id(aws: &Aws, ids: &[InstanceId]) -> Found<Instances> {
    let mut all = Instances::new();
    for some in ids.chunks(VALUES) {
        let named = filter("instance-id", some.iter().map(InstanceId::as_str));
        let request = aws.wire.ec2.describe_instances().filters(named).max_results(PAGE);
        let found = pages!(aws.wire, Api::DescribeInstances, request, reservations).await?;
        let listed = found.iter().flat_map(|launched| launched.instances.iter().flatten());
        all.extend(listed.filter_map(seen::instance));
    }
    Ok(all)
}

/// What a token made, if it is listed yet.
pub async fn instance_by_token(aws: &Aws, token: &str) -> Found<Option<InstanceId>> {
    let request = aws.wire.ec2.describe_instances().filters(filter("client-token", [token])).max_results(PAGE);
    let found = pages!(aws.wire, Api::DescribeInstances, request, reservations).await?;
    let listed = found.iter().flat_map(|launched| launched.instances.iter().flatten());
    Ok(listed.filter_map(|one| one.instance_id.as_deref()).map(InstanceId::from).next())
}

/// Ours, those that documents adopt, and blocks with the name of a document.
async fn reservations(aws: &Aws, target: &Target) -> Found<Reservations> {
    let mut all = our_reservations(aws).await?;
    all.extend(blocks_of_documents(aws, target).await?);
    let named = target.standing.reservations.values().filter_map(|spec| spec.id.as_deref());
    let named: Vec<ReservationId> = named.map(ReservationId::from).filter(|id| !all.contains_key(id)).collect();
    all.extend(reservations_by_id(aws, &named).await?);
    Ok(all)
}

/// Capacity Blocks with the name of a document, whatever fleet their tag names: an order has no token, so one that was placed
/// before a ledger was lost is known by nothing else.
async fn blocks_of_documents(aws: &Aws, target: &Target) -> Found<Reservations> {
    let bought = |spec: &ReservationSpec| matches!(spec.terms, TermsSpec::Block(_)) && spec.id.is_none();
    let documents = target.standing.reservations.iter().filter(|(_, spec)| bought(spec));
    let names: Vec<&str> = documents.map(|(name, _)| name.as_str()).collect();
    let mut all = Reservations::new();
    for some in names.chunks(VALUES) {
        let named = filter(&format!("tag:{}", tags::RESERVATION), some.iter().copied());
        let request = aws.wire.ec2.describe_capacity_reservations().filters(named).max_results(PAGE);
        let found = pages!(aws.wire, Api::DescribeCapacityReservations, request, capacity_reservations).await?;
        all.extend(found.iter().filter_map(seen::reservation).filter(|(_, seen)| seen.block));
    }
    Ok(all)
}

pub async fn our_reservations(aws: &Aws) -> Found<Reservations> {
    let request = aws.wire.ec2.describe_capacity_reservations().filters(of_our_kin(aws)).max_results(PAGE);
    let found = pages!(aws.wire, Api::DescribeCapacityReservations, request, capacity_reservations).await?;
    Ok(found.iter().filter_map(seen::reservation).collect())
}

/// There is no filter for ids, and one that is not known fails the whole question: then each is asked for alone.
pub async fn reservations_by_id(aws: &Aws, ids: &[ReservationId]) -> Found<Reservations> {
    let mut all = Reservations::new();
    for some in ids.chunks(VALUES) {
        match some_reservations(aws, some).await {
            Ok(found) => all.extend(found),
            Err(failure) if failure.class == Class::NotFound && some.len() == 1 => {}
            Err(failure) if failure.class == Class::NotFound => {
                for one in some {
                    match some_reservations(aws, std::slice::from_ref(one)).await {
                        Ok(found) => all.extend(found),
                        Err(failure) if failure.class == Class::NotFound => {}
                        Err(failure) => return Err(failure),
                    }
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(all)
}

async fn some_reservations(aws: &Aws, ids: &[ReservationId]) -> Found<Reservations> {
    let ids = ids.iter().map(|id| id.to_string()).collect();
    let request = aws.wire.ec2.describe_capacity_reservations().set_capacity_reservation_ids(Some(ids));
    let found = pages!(aws.wire, Api::DescribeCapacityReservations, request, capacity_reservations).await?;
    Ok(found.iter().filter_map(seen::reservation).collect())
}

/// All of the account: the answer has no pages, and a pool may name a group that is not ours.
async fn groups(aws: &Aws) -> Found<BTreeMap<GroupName, GroupSeen>> {
    let api = Api::DescribePlacementGroups;
    let answer = aws.wire.call(api, aws.wire.ec2.describe_placement_groups().send()).await?;
    let found = answer.placement_groups.unwrap_or_default();
    Ok(found.iter().filter_map(|group| seen::group(group, &aws.fleet)).collect())
}

async fn templates(aws: &Aws) -> Found<BTreeMap<TemplateName, TemplateSeen>> {
    let request = aws.wire.ec2.describe_launch_templates().filters(of_our_fleet(aws)).max_results(VALUES as i32);
    let found = pages!(aws.wire, Api::DescribeLaunchTemplates, request, launch_templates).await?;
    let mut all = BTreeMap::new();
    for template in found {
        let Some(name) = template.launch_template_name.as_deref().map(TemplateName::from) else { continue };
        let newest = launch::newest(aws, &name).await?;
        let digest = newest.as_ref().and_then(|version| version.digest.clone());
        let version = template.latest_version_number.and_then(|version| u32::try_from(version).ok()).unwrap_or(0);
        all.insert(name, TemplateSeen { ours: is_ours(aws, template.tags.as_ref()), digest, version });
    }
    Ok(all)
}

pub fn is_ours(aws: &Aws, found: Option<&Vec<Tag>>) -> bool {
    seen::tags_of(found).get(tags::FLEET).is_some_and(|whose| whose == aws.fleet.as_str())
}

/// Types that some pool may buy as spot, and those whose pools name no zone: there the planner looks for zones. Only zones
/// in which such a pool has a subnet: elsewhere nothing could be launched.
async fn spot_zones(aws: &Aws, target: &Target) -> Found<BTreeMap<InstanceType, BTreeSet<Zone>>> {
    let mut wanted: BTreeMap<InstanceType, BTreeSet<Zone>> = BTreeMap::new();
    for pool in target.standing.pools.values() {
        let mut zones = target.standing.zones(pool);
        let spot = pool.capacity.iter().any(|source| matches!(source, Source::Spot { .. }));
        let on_demand = pool.capacity.iter().any(|source| matches!(source, Source::OnDemand { .. }));
        let Some(launch) = pool.launch.as_ref().filter(|_| spot || (on_demand && zones.is_empty())) else { continue };
        if zones.is_empty() {
            let subnets = launch::subnets(aws, &launch.subnets, None).await?;
            zones = subnets.iter().filter_map(|one| one.availability_zone.as_deref()).map(Zone::from).collect();
        }
        wanted.entry(pool.shape.instance_type.clone()).or_default().extend(zones);
    }
    Ok(wanted)
}

/// Their prices, and those of the spot instances that are there, whatever the documents buy by now.
async fn spot_prices(
    aws: &Aws,
    wanted: Found<BTreeMap<InstanceType, BTreeSet<Zone>>>,
    there: &Instances,
) -> Found<BTreeMap<InstanceType, BTreeMap<Zone, Usd>>> {
    let mut wanted = wanted?;
    for seen in there.values().filter(|seen| seen.market == Market::Spot && seen.state.is_live()) {
        wanted.entry(seen.instance_type.clone()).or_default().insert(seen.zone.clone());
    }
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let types = wanted.keys().map(|kind| kind.as_str().into()).collect();
    let request = aws
        .wire
        .ec2
        .describe_spot_price_history()
        .set_instance_types(Some(types))
        .product_descriptions("Linux/UNIX")
        .start_time(seen::date_time(aws.wire.clock.now()));
    let mut found = pages!(aws.wire, Api::DescribeSpotPriceHistory, request, spot_price_history).await?;
    // The newest last, so that it stays.
    found.sort_by_key(|price| price.timestamp.map(|at| at.secs()));
    let mut all: BTreeMap<InstanceType, BTreeMap<Zone, Usd>> = BTreeMap::new();
    for price in found {
        let (Some(kind), Some(zone)) = (&price.instance_type, price.availability_zone.as_deref()) else { continue };
        let Some(usd) = price.spot_price.as_deref().and_then(|text| seen::dollars(text, None)) else { continue };
        let (kind, zone) = (seen::type_name(kind), Zone::from(zone));
        if wanted.get(&kind).is_some_and(|zones| zones.contains(&zone)) {
            all.entry(kind).or_default().insert(zone, usd);
        }
    }
    Ok(all)
}

/// Where running instances stand, for fleets that know a fabric. It is asked once for each: the bucket holds one.
/// An answer without a place is an answer, and so is that there is no such call here; that nobody may ask is none.
async fn place_instances(aws: &Aws, target: &Target, found: &mut Instances) -> Found<()> {
    let mut all = Ok(());
    if !target.standing.levels.is_empty() {
        let known = aws.known.borrow().networks.clone();
        let running = found.iter().filter(|(_, seen)| seen.state == InstanceState::Running);
        let missing: Vec<String> =
            running.filter(|(id, _)| !known.contains_key(*id)).map(|(id, _)| id.to_string()).collect();
        for some in missing.chunks(INSTANCES) {
            let request = aws.wire.ec2.describe_instance_topology().set_instance_ids(Some(some.to_vec()));
            let told = pages!(aws.wire, Api::DescribeInstanceTopology, request, instances).await;
            all = told.as_ref().map(drop).or_else(|failure| unless_there_is_none(failure.clone()));
            let Ok(told) = told else { break };
            for place in told {
                let (Some(id), Some(nodes)) = (place.instance_id, place.network_nodes) else { continue };
                aws.known.borrow_mut().networks.insert(id.into(), nodes);
            }
        }
    }
    let known = &aws.known.borrow().networks;
    for (id, seen) in found.iter_mut().filter(|(_, seen)| seen.state == InstanceState::Running) {
        seen.network = known.get(id).cloned().unwrap_or_default();
    }
    all
}

/// Some regions and some emulators have no topology at all: then nobody is told, ever, and that is no gap.
fn unless_there_is_none(failure: Failure) -> Found<()> {
    let none = ["UnsupportedOperation", "Unsupported", "InvalidAction"];
    if none.contains(&failure.code.as_str()) { Ok(()) } else { Err(failure) }
}

async fn place_reservations(aws: &Aws, target: &Target, found: &mut Reservations) -> Found<()> {
    use crate::observed::ReservationState::{Active, Pending};
    if target.standing.levels.is_empty() {
        return Ok(());
    }
    let there = found.iter().filter(|(_, held)| matches!(held.state, Active | Pending));
    let ids: Vec<String> = there.map(|(id, _)| id.to_string()).collect();
    for some in ids.chunks(RESERVATIONS) {
        let request = aws.wire.ec2.describe_capacity_reservation_topology();
        let request = request.set_capacity_reservation_ids(Some(some.to_vec()));
        let told = pages!(aws.wire, Api::DescribeCapacityReservationTopology, request, capacity_reservations).await;
        let told = match told {
            Ok(told) => told,
            Err(failure) => return unless_there_is_none(failure),
        };
        for place in told {
            let id = place.capacity_reservation_id.map(ReservationId::from);
            if let (Some(id), Some(nodes)) = (id, place.network_nodes)
                && let Some(held) = found.get_mut(&id)
            {
                held.network = nodes;
            }
        }
    }
    Ok(())
}

/// What is told of instances, and the ends of the blocks that they stand in: the first comes first.
fn warn(found: &mut Instances, held: &Reservations, noticed: &BTreeMap<InstanceId, Notice>, now: Timestamp) {
    for (id, instance) in found.iter_mut().filter(|(_, instance)| instance.state.serves()) {
        let block = instance.reservation.as_ref().and_then(|id| held.get(id));
        let ends = block.and_then(|held| seen::block_notice(held, now));
        instance.notice = noticed.get(id).cloned().into_iter().chain(ends).min_by_key(|notice| notice.at);
    }
}
