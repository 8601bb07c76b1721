//! The launch template of a pool: what the documents say, with what only AWS knows filled in.
//!
//! The image behind a parameter, security groups by their tags, the network cards of the type, the cluster to join. A
//! version is found again by its description, which holds the digest of what a running node cannot change and one of the
//! whole; a version that says the same is not written twice.

use aws_sdk_ec2::types::{
    LaunchTemplateBlockDeviceMappingRequest as Mapping, LaunchTemplateEbsBlockDeviceRequest as Ebs,
    LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest as Profile,
    LaunchTemplateInstanceMetadataEndpointState, LaunchTemplateInstanceMetadataOptionsRequest as Metadata,
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest as InterfaceRequest, NetworkInfo,
    RequestLaunchTemplateData, ResourceType, ShutdownBehavior, VolumeType,
};
use data_encoding::BASE64;

use super::actions::Api;
use super::errors::Failure;
use super::launch::{self, Interface, tagged};
use super::observe::filter;
use super::real::Aws;
use super::wire::pages;
use crate::compile::bootstrap::{self, Join};
use crate::effect::hash::named_token;
use crate::effect::{Template, digest_of, tags};
use crate::fleet::launch::{Bootstrap, Efa, Image, Launch, Tagged, Volume};
use crate::ids::TemplateName;
use crate::provider::{Class, Done};

/// What only AWS knows.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Filled {
    pub image: String,
    /// The image's first volume; needed where volumes are described.
    pub root: Option<String>,
    pub groups: Vec<String>,
    pub interfaces: Vec<Interface>,
    pub user_data: String,
}

pub async fn ensure(aws: &Aws, wanted: &Template) -> Result<Done, Failure> {
    let whole = digest_of(wanted).as_str().chars().take(16).collect::<String>();
    let newest = launch::newest(aws, &wanted.name).await?;
    let same = newest.as_ref().is_some_and(|version| {
        version.digest.as_ref() == Some(&wanted.digest) && version.whole.as_deref() == Some(whole.as_str())
    });
    if same {
        return Ok(Done::Nothing);
    }
    let Some(launch) = &wanted.launch else {
        let said = format!("nothing says how nodes of {} are launched: add `launch` to its pool", wanted.name);
        return Err(Failure::new(Api::CreateLaunchTemplate, Class::Other, said));
    };
    let data = data(wanted, launch, &filled(aws, wanted, launch).await?);
    let said = launch::description(&wanted.digest, &whole);
    let token = named_token(&["template", aws.fleet.as_str(), wanted.name.as_str(), &said]).to_string();
    match newest {
        None => create(aws, &wanted.name, data, said, token).await?,
        Some(_) => {
            let request = aws
                .wire
                .ec2_once
                .create_launch_template_version()
                .launch_template_name(wanted.name.as_str())
                .launch_template_data(data)
                .version_description(said)
                .client_token(token);
            aws.wire.call(Api::CreateLaunchTemplateVersion, request.send()).await?;
        }
    }
    aws.known.borrow_mut().versions.retain(|(name, _), _| *name != wanted.name);
    Ok(Done::Nothing)
}

async fn create(
    aws: &Aws,
    name: &TemplateName,
    data: RequestLaunchTemplateData,
    said: String,
    token: String,
) -> Result<(), Failure> {
    let tags = tags::of_fleet(&aws.fleet, name.as_str());
    let request = aws
        .wire
        .ec2_once
        .create_launch_template()
        .launch_template_name(name.as_str())
        .launch_template_data(data)
        .version_description(said)
        .client_token(token)
        .tag_specifications(tagged(ResourceType::LaunchTemplate, &tags));
    aws.wire.call(Api::CreateLaunchTemplate, request.send()).await.map(drop)
}

/// The template's content. Pure.
pub fn data(wanted: &Template, launch: &Launch, filled: &Filled) -> RequestLaunchTemplateData {
    let metadata = Metadata::builder()
        .http_endpoint(LaunchTemplateInstanceMetadataEndpointState::Enabled)
        // Only with a token, and not from pods: a node's role is not its pods'.
        .http_tokens(LaunchTemplateHttpTokensState::Required)
        .http_put_response_hop_limit(1)
        .build();
    let data = RequestLaunchTemplateData::builder()
        .image_id(&filled.image)
        .instance_type(wanted.instance_type.as_str().into())
        .iam_instance_profile(Profile::builder().name(&launch.role).build())
        .metadata_options(metadata)
        .user_data(BASE64.encode(filled.user_data.as_bytes()))
        // Held until we end it ourselves; a machine that shuts itself down is gone, and holds no place stopped.
        .disable_api_termination(true)
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .set_block_device_mappings(mappings(&launch.volumes, filled.root.as_deref()));
    if filled.interfaces.is_empty() {
        return data.set_security_group_ids(Some(filled.groups.clone())).build();
    }
    let interfaces = filled.interfaces.iter().map(|interface| {
        InterfaceRequest::builder()
            .network_card_index(interface.card)
            .device_index(interface.device)
            .interface_type(&interface.kind)
            .set_groups(Some(interface.groups.clone()))
            .delete_on_termination(true)
            .build()
    });
    data.set_network_interfaces(Some(interfaces.collect())).build()
}

/// The first volume is the image's own, larger; the others follow it.
fn mappings(volumes: &[Volume], root: Option<&str>) -> Option<Vec<Mapping>> {
    if volumes.is_empty() {
        return None;
    }
    let names = root.into_iter().map(str::to_string).chain(('b'..='z').map(|letter| format!("/dev/xvd{letter}")));
    let names = names.filter({
        let mut seen = std::collections::BTreeSet::new();
        move |name| seen.insert(name.clone())
    });
    let mapping = |(volume, name): (&Volume, String)| {
        let ebs = Ebs::builder()
            .volume_size(i32::try_from(volume.gib).unwrap_or(i32::MAX))
            .volume_type(VolumeType::Gp3)
            .encrypted(true)
            .delete_on_termination(true)
            .build();
        Mapping::builder().device_name(name).ebs(ebs).build()
    };
    Some(volumes.iter().zip(names).map(mapping).collect())
}

async fn filled(aws: &Aws, wanted: &Template, launch: &Launch) -> Result<Filled, Failure> {
    let image = image(aws, &launch.image).await?;
    let root = if launch.volumes.is_empty() { None } else { Some(root_of(aws, &image).await?) };
    let groups = groups(aws, &launch.security_groups).await?;
    let interfaces = match launch.efa {
        Efa::None => Vec::new(),
        Efa::Auto => interfaces(network(aws, wanted).await?.as_ref(), &groups),
    };
    let user_data = match &launch.bootstrap {
        Bootstrap::UserData(_) => wanted.user_data.clone().unwrap_or_default(),
        Bootstrap::Nodeadm(_) => bootstrap::nodeadm(&join(aws).await?, &wanted.labels, &wanted.taints),
    };
    Ok(Filled { image, root, groups, interfaces, user_data })
}

pub async fn image(aws: &Aws, image: &Image) -> Result<String, Failure> {
    let parameter = match image {
        Image::Ami(ami) => return Ok(ami.id.clone()),
        Image::SsmParameter(parameter) => parameter,
    };
    let name = format!("{}:{}", parameter.name, parameter.version);
    let answer = aws.wire.call(Api::GetParameter, aws.wire.ssm.get_parameter().name(&name).send()).await?;
    let value = answer.parameter.and_then(|parameter| parameter.value).unwrap_or_default();
    if value.starts_with("ami-") {
        return Ok(value);
    }
    let said =
        format!("the parameter {name} holds `{value}`, which is no image: name one whose value begins with ami-");
    Err(Failure::new(Api::GetParameter, Class::Other, said))
}

async fn root_of(aws: &Aws, image: &str) -> Result<String, Failure> {
    let api = Api::DescribeImages;
    let answer = aws.wire.call(api, aws.wire.ec2.describe_images().image_ids(image).send()).await?;
    let root = answer.images.unwrap_or_default().into_iter().find_map(|image| image.root_device_name);
    root.ok_or_else(|| Failure::new(api, Class::NotFound, format!("image {image} is not there, or has no volume")))
}

async fn groups(aws: &Aws, wanted: &Tagged) -> Result<Vec<String>, Failure> {
    let api = Api::DescribeSecurityGroups;
    let filters = wanted.tags.iter().map(|(key, value)| filter(&format!("tag:{key}"), [value.as_str()]));
    let request = aws.wire.ec2.describe_security_groups().set_filters(Some(filters.collect()));
    let found = pages!(aws.wire, api, request, security_groups).await?;
    let mut ids: Vec<String> = found.into_iter().filter_map(|group| group.group_id).collect();
    ids.sort();
    if ids.is_empty() {
        let said = format!("no security group carries the tags {:?}", wanted.tags);
        return Err(Failure::new(api, Class::Other, said));
    }
    Ok(ids)
}

async fn network(aws: &Aws, wanted: &Template) -> Result<Option<NetworkInfo>, Failure> {
    let kind = wanted.instance_type.as_str().into();
    let request = aws.wire.ec2.describe_instance_types().instance_types(kind);
    let found = pages!(aws.wire, Api::DescribeInstanceTypes, request, instance_types).await?;
    Ok(found.into_iter().find_map(|kind| kind.network_info))
}

/// One interface for each network card that has EFA, the first with an address. A type without EFA needs none said.
pub fn interfaces(network: Option<&NetworkInfo>, groups: &[String]) -> Vec<Interface> {
    let Some(network) = network.filter(|network| network.efa_supported == Some(true)) else { return Vec::new() };
    let most = network.efa_info.as_ref().and_then(|efa| efa.maximum_efa_interfaces).unwrap_or(0);
    let cards = network.maximum_network_cards.unwrap_or(1).max(1);
    // Fewer adapters than cards: the first card has none, and carries only addresses.
    let first = if most >= cards { "efa" } else { "interface" };
    let adapters = if first == "efa" { most } else { most + 1 };
    let interface = |card: i32| Interface {
        card,
        device: i32::from(card > 0),
        kind: if card == 0 { first.into() } else { "efa-only".into() },
        groups: groups.to_vec(),
    };
    (0..adapters.min(cards)).map(interface).collect()
}

/// The cluster that nodes join: its address, its certificate and its service network.
async fn join(aws: &Aws) -> Result<Join, Failure> {
    if let Some(join) = &aws.known.borrow().join {
        return Ok(join.clone());
    }
    let api = Api::DescribeCluster;
    let Some(eks) = &aws.cloud.eks else {
        return Err(Failure::new(api, Class::Other, "nodeadm joins an EKS cluster, and the Fleet names none"));
    };
    let answer = aws.wire.call(api, aws.wire.eks.describe_cluster().name(&eks.cluster_name).send()).await?;
    let cluster = answer.cluster;
    let network = cluster.as_ref().and_then(|cluster| cluster.kubernetes_network_config.as_ref());
    let cidr = network.and_then(|network| network.service_ipv4_cidr.clone().or(network.service_ipv6_cidr.clone()));
    let endpoint = cluster.as_ref().and_then(|cluster| cluster.endpoint.clone());
    let ca = cluster.as_ref().and_then(|cluster| cluster.certificate_authority.as_ref()?.data.clone());
    let (Some(endpoint), Some(ca), Some(cidr)) = (endpoint, ca, cidr) else {
        let said = format!("EKS does not say yet how cluster {} is reached: it may still be made", eks.cluster_name);
        return Err(Failure::new(api, Class::Other, said));
    };
    let join = Join { name: eks.cluster_name.clone(), endpoint, ca, cidr };
    aws.known.borrow_mut().join = Some(join.clone());
    Ok(join)
}

#[cfg(test)]
#[path = "tests/template.rs"]
mod tests;
