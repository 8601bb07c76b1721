//! One instance for one slot: RunInstances with everything pinned and our tags in the same request.
//!
//! The token names the slot, its generation and the zone, so a request that is sent again makes nothing new. What the
//! request does not hold itself (the number of a template's version, the subnet) may be another by then: EC2 says so,
//! and what the first one made is found by its token.

use aws_sdk_ec2::operation::run_instances::RunInstancesInput;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;
use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationSpecification, CapacityReservationTarget,
    InstanceInterruptionBehavior, InstanceMarketOptionsRequest, InstanceNetworkInterfaceSpecification,
    LaunchTemplateSpecification, LaunchTemplateVersion, MarketType, Placement, ResourceType, SpotInstanceType,
    SpotMarketOptions, Subnet, Tag, TagSpecification,
};

use super::actions::Api;
use super::errors::{Failure, is_mismatch};
use super::observe::{filter, instance_by_token};
use super::real::Aws;
use super::wire::pages;
use crate::effect::LaunchRequest;
use crate::effect::tags::{self, Tags};
use crate::fleet::launch::Subnets;
use crate::ids::{Digest, TemplateName, Zone};
use crate::observed::{Market, SlotTag};
use crate::provider::{Class, Done};

/// A version of a launch template, as far as a launch needs it.
#[derive(Clone, PartialEq, Debug)]
pub struct Version {
    pub number: i64,
    /// Of what a running node cannot change, from the version's description.
    pub digest: Option<Digest>,
    /// The rest of the description: labels and taints are no part of the digest.
    pub whole: Option<String>,
    /// Interfaces have to be told their subnet, each in the request itself.
    pub interfaces: Vec<Interface>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    pub card: i32,
    pub device: i32,
    pub kind: String,
    pub groups: Vec<String>,
}

pub async fn launch(aws: &Aws, request: &LaunchRequest) -> Result<Done, Failure> {
    let version = pinned(aws, &request.template, &request.template_digest).await?;
    let subnet = subnet(aws, request).await?;
    let tag = SlotTag { fleet: aws.fleet.clone(), slot: request.slot.clone(), generation: request.generation };
    let sent = input(request, &tag, &version, &subnet);
    match aws.wire.call(Api::RunInstances, sent.send_with(&aws.wire.ec2_once)).await {
        Ok(answer) => {
            let made = answer.instances.unwrap_or_default();
            let id = made.first().and_then(|instance| instance.instance_id.as_deref());
            let lost = || Failure::new(Api::RunInstances, Class::Ambiguous, "EC2 says yes and names no instance");
            Ok(Done::Instance(id.ok_or_else(lost)?.into()))
        }
        Err(failure) if is_mismatch(&failure.code) => by_token(aws, request, failure).await,
        Err(failure) => Err(failure),
    }
}

/// The token was used: whatever it made is ours, and is listed sooner or later.
async fn by_token(aws: &Aws, request: &LaunchRequest, failure: Failure) -> Result<Done, Failure> {
    match instance_by_token(aws, request.token.as_str()).await? {
        Some(id) => Ok(Done::Instance(id)),
        None => {
            let said = format!("{}, and what it made is not listed yet", failure.said.trim_end_matches('.'));
            Err(Failure { class: Class::Ambiguous, said, ..failure })
        }
    }
}

/// The request, whole.
pub fn input(request: &LaunchRequest, tag: &SlotTag, version: &Version, subnet: &str) -> RunInstancesInputBuilder {
    let template = LaunchTemplateSpecification::builder()
        .launch_template_name(request.template.as_str())
        .version(version.number.to_string())
        .build();
    let placement = Placement::builder()
        .availability_zone(request.zone.as_str())
        .set_group_name(request.group.as_ref().map(|group| group.to_string()))
        .build();
    let tags = tags::of_slot(tag, &request.template_digest);
    let mut input = RunInstancesInput::builder()
        .client_token(request.token.as_str())
        .min_count(1)
        .max_count(1)
        .instance_type(request.instance_type.as_str().into())
        .launch_template(template)
        .placement(placement)
        .capacity_reservation_specification(reservation(request))
        .set_instance_market_options(market(request))
        .tag_specifications(tagged(ResourceType::Instance, &tags))
        .tag_specifications(tagged(ResourceType::Volume, &tags));
    if request.market == Market::Spot {
        // EC2 protects no spot instance from being terminated.
        input = input.disable_api_termination(false);
    }
    if version.interfaces.is_empty() {
        return input.subnet_id(subnet);
    }
    let interfaces = version.interfaces.iter().map(|interface| {
        InstanceNetworkInterfaceSpecification::builder()
            .network_card_index(interface.card)
            .device_index(interface.device)
            .interface_type(&interface.kind)
            .set_groups(Some(interface.groups.clone()))
            .subnet_id(subnet)
            .delete_on_termination(true)
            .build()
    });
    input.set_network_interfaces(Some(interfaces.collect()))
}

/// Where the machine comes from: the reservation that is named and no other, or none at all. A launch that takes what is
/// open falls into somebody else's reservation, or back into one that is being given back.
fn reservation(request: &LaunchRequest) -> CapacityReservationSpecification {
    let specification = CapacityReservationSpecification::builder();
    match &request.reservation {
        Some(id) => {
            let target = CapacityReservationTarget::builder().capacity_reservation_id(id.as_str()).build();
            specification.capacity_reservation_target(target).build()
        }
        None => specification.capacity_reservation_preference(CapacityReservationPreference::None).build(),
    }
}

fn market(request: &LaunchRequest) -> Option<InstanceMarketOptionsRequest> {
    let options = InstanceMarketOptionsRequest::builder();
    match request.market {
        Market::Reserved | Market::OnDemand => None,
        Market::Block => Some(options.market_type(MarketType::CapacityBlock).build()),
        Market::Spot => {
            let spot = SpotMarketOptions::builder()
                .set_max_price(request.max_price.map(|price| price.0.normalize().to_string()))
                .spot_instance_type(SpotInstanceType::OneTime)
                .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate)
                .build();
            Some(options.market_type(MarketType::Spot).spot_options(spot).build())
        }
    }
}

pub fn tagged(kind: ResourceType, tags: &Tags) -> TagSpecification {
    let tags = tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build());
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags.collect())).build()
}

/// The newest version of a template with this digest: labels alone may have made several.
pub async fn pinned(aws: &Aws, name: &TemplateName, digest: &Digest) -> Result<Version, Failure> {
    let key = (name.clone(), digest.clone());
    if let Some(version) = aws.known.borrow().versions.get(&key) {
        return Ok(version.clone());
    }
    let request = aws.wire.ec2.describe_launch_template_versions().launch_template_name(name.as_str());
    let found = pages!(aws.wire, Api::DescribeLaunchTemplateVersions, request, launch_template_versions).await?;
    let mut versions: Vec<Version> = found.iter().filter_map(version).collect();
    versions.sort_by_key(|version| version.number);
    let newest = versions.into_iter().rev().find(|version| version.digest.as_ref() == Some(digest));
    let newest = newest.ok_or_else(|| {
        let said = format!("no version of launch template {name} is as this launch wants it: {digest}");
        Failure::new(Api::DescribeLaunchTemplateVersions, Class::NotFound, said)
    })?;
    aws.known.borrow_mut().versions.insert(key, newest.clone());
    Ok(newest)
}

/// The newest version of a template, whatever it is; none where there is no such template.
pub async fn newest(aws: &Aws, name: &TemplateName) -> Result<Option<Version>, Failure> {
    let request = aws.wire.ec2.describe_launch_template_versions().launch_template_name(name.as_str());
    let api = Api::DescribeLaunchTemplateVersions;
    match aws.wire.call(api, request.versions("$Latest").send()).await {
        Ok(answer) => Ok(answer.launch_template_versions.unwrap_or_default().first().and_then(version)),
        Err(failure) if failure.class == Class::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn version(found: &LaunchTemplateVersion) -> Option<Version> {
    let description = found.version_description.as_deref().unwrap_or_default();
    let mut words = description.strip_prefix(OURS).unwrap_or_default().split_whitespace();
    let data = found.launch_template_data.as_ref();
    let interfaces = data.and_then(|data| data.network_interfaces.as_ref()).into_iter().flatten();
    let interfaces = interfaces.map(|interface| Interface {
        card: interface.network_card_index.unwrap_or(0),
        device: interface.device_index.unwrap_or(0),
        kind: interface.interface_type.clone().unwrap_or_else(|| "interface".into()),
        groups: interface.groups.clone().unwrap_or_default(),
    });
    Some(Version {
        number: found.version_number?,
        digest: words.next().map(Digest::from),
        whole: words.next().map(str::to_string),
        interfaces: interfaces.collect(),
    })
}

/// What the description of a version of ours begins with.
const OURS: &str = "tidewright ";

pub fn description(digest: &Digest, whole: &str) -> String {
    format!("{OURS}{digest} {whole}")
}

/// The subnet of the zone that carries the pool's tags. The same as long as it has room, so that a request that is sent
/// again is the same.
pub async fn subnet(aws: &Aws, request: &LaunchRequest) -> Result<String, Failure> {
    let (pool, zone) = (&request.slot.pool, &request.zone);
    let launch = aws.known.borrow().pools.get(pool).map(|launch| launch.subnets.clone());
    let Some(wanted) = launch else {
        let said = format!("pool {pool} has no `launch` that says which subnets its nodes are in");
        return Err(Failure::new(Api::DescribeSubnets, Class::Other, said));
    };
    let found = subnets(aws, &wanted, Some(zone)).await?;
    roomy(&found).ok_or_else(|| {
        let said = format!("no subnet in {zone} carries the tags of pool {pool}: {:?}", wanted.tags);
        Failure::new(Api::DescribeSubnets, Class::Other, said)
    })
}

/// The subnets that carry these tags, in one zone or in all.
pub async fn subnets(aws: &Aws, wanted: &Subnets, zone: Option<&Zone>) -> Result<Vec<Subnet>, Failure> {
    let mut filters = vec![filter("state", ["available"])];
    filters.extend(zone.map(|zone| filter("availability-zone", [zone.as_str()])));
    filters.extend(wanted.tags.iter().map(|(key, value)| filter(&format!("tag:{key}"), [value.as_str()])));
    let question = aws.wire.ec2.describe_subnets().set_filters(Some(filters));
    pages!(aws.wire, Api::DescribeSubnets, question, subnets).await
}

/// The first by its id that has room; else the one with the most.
fn roomy(found: &[Subnet]) -> Option<String> {
    /// One node's interfaces, and some for its pods.
    const ROOM: i32 = 64;
    let free = |subnet: &&Subnet| subnet.available_ip_address_count.unwrap_or(0);
    let mut sorted: Vec<&Subnet> = found.iter().collect();
    sorted.sort_by_key(|subnet| subnet.subnet_id.clone());
    let most = sorted.iter().max_by_key(|subnet| free(subnet)).copied();
    let first = sorted.iter().find(|subnet| free(subnet) >= ROOM).copied().or(most);
    first.and_then(|subnet| subnet.subnet_id.clone())
}

#[cfg(test)]
#[path = "tests/launch.rs"]
mod tests;
