//! What every account has and nobody here makes: zones, one network with a subnet in each zone, two security groups, and
//! images.

use serde_json::{Value, json};

use super::{Answer, arn, not_found, tags_of, zone_id};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, Filters, Pages, Row};
use crate::endpoint::refuse;
use crate::provider::ProviderError;
use crate::provider::sim::cloud::CloudState;

const SUBNET_FILTERS: Filters = &[
    ("availability-zone", "AvailabilityZone"),
    ("availability-zone-id", "AvailabilityZoneId"),
    ("state", "State"),
    ("subnet-id", "SubnetId"),
    ("vpc-id", "VpcId"),
];
const GROUP_FILTERS: Filters = &[("group-id", "GroupId"), ("group-name", "GroupName"), ("vpc-id", "VpcId")];
const ZONE_FILTERS: Filters =
    &[("state", "State"), ("zone-id", "ZoneId"), ("zone-name", "ZoneName"), ("zone-type", "ZoneType")];
const IMAGE_FILTERS: Filters =
    &[("architecture", "Architecture"), ("image-id", "ImageId"), ("name", "Name"), ("state", "State")];
const PAGES: Pages = Pages { usual: None, least: 5, most: 1000 };
/// Whose images they all are.
const AMAZON: &str = "137112412989";
/// The security groups, by name: the network's own, and one for nodes.
const GROUPS: [&str; 2] = ["default", "nodes"];

pub fn subnets(cloud: &CloudState, ask: &Ask) -> Answer {
    let wanted = ask.root().texts("SubnetIds");
    let rows: Vec<Row> = cloud
        .account
        .zones()
        .iter()
        .enumerate()
        .map(|(at, zone)| {
            let id = cloud.subnet_of(zone);
            let told = json!({
                "SubnetId": id,
                "SubnetArn": arn(cloud, "subnet", &id),
                "VpcId": vpc(cloud),
                "OwnerId": cloud.account.owner(),
                "State": "available",
                "AvailabilityZone": zone.as_str(),
                "AvailabilityZoneId": zone_id(zone.as_str()),
                "CidrBlock": format!("10.{}.0.0/16", at),
                "AvailableIpAddressCount": 65_000,
                "DefaultForAz": false,
                "MapPublicIpOnLaunch": false,
                "AssignIpv6AddressOnCreation": false,
                "Tags": tags_of(cloud, &id),
            });
            (id, told)
        })
        .collect();
    let rows = only(rows, &wanted, "InvalidSubnetID.NotFound", "subnet")?;
    list::answer(ask, "Subnets", SUBNET_FILTERS, PAGES, rows)
}

pub fn security_groups(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let (ids, names) = (root.texts("GroupIds"), root.texts("GroupNames"));
    let shown = GROUPS.iter().filter(|name| names.is_empty() || names.contains(*name));
    let rows: Vec<Row> = shown
        .map(|name| {
            let id = cloud.fixed_id("sg", &[name]);
            let told = json!({
                "GroupId": id,
                "GroupName": name,
                "Description": if *name == "default" { "default VPC security group" } else { "nodes of a cluster" },
                "SecurityGroupArn": arn(cloud, "security-group", &id),
                "VpcId": vpc(cloud),
                "OwnerId": cloud.account.owner(),
                "IpPermissions": [],
                "IpPermissionsEgress": [],
                "Tags": tags_of(cloud, &id),
            });
            (id, told)
        })
        .collect();
    let rows = only(rows, &ids, "InvalidGroup.NotFound", "security group")?;
    list::answer(ask, "SecurityGroups", GROUP_FILTERS, PAGES, rows)
}

pub fn zones(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    root.flag("AllAvailabilityZones");
    let (names, ids) = (root.texts("ZoneNames"), root.texts("ZoneIds"));
    let region = cloud.account.region();
    let rows: Vec<Row> = cloud
        .account
        .zones()
        .iter()
        .map(|zone| {
            let told = json!({
                "ZoneName": zone.as_str(),
                "ZoneId": zone_id(zone.as_str()),
                "RegionName": region,
                "GroupName": region,
                "NetworkBorderGroup": region,
                "ZoneType": "availability-zone",
                "OptInStatus": "opt-in-not-required",
                "State": "available",
                "Messages": [],
            });
            (zone.to_string(), told)
        })
        .filter(|(_, told)| names.is_empty() || names.iter().any(|name| told["ZoneName"] == *name))
        .filter(|(_, told)| ids.is_empty() || ids.iter().any(|id| told["ZoneId"] == *id))
        .collect();
    if let Some(missing) = names.iter().find(|name| rows.iter().all(|(zone, _)| zone != *name)) {
        return Err(super::invalid(format!("Invalid availability zone: [{missing}]")));
    }
    list::all(ask, "AvailabilityZones", ZONE_FILTERS, rows)
}

/// Every image with a sound id exists, but for the one of nothing but zeros; nobody can list them all.
pub fn images(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let owners = root.texts("Owners");
    root.flag("IncludeDeprecated");
    let ids = root.texts("ImageIds");
    for id in &ids {
        known_image(id)?;
    }
    let theirs = owners.is_empty() || owners.iter().any(|owner| matches!(*owner, "amazon" | AMAZON));
    let rows = ids.iter().filter(|_| theirs).map(|id| ((*id).to_string(), image(cloud, id)));
    let rows: Vec<Row> = rows.collect();
    list::answer(ask, "Images", IMAGE_FILTERS, Pages { usual: None, least: 1, most: 1000 }, rows)
}

pub fn known_image(id: &str) -> Result<(), ProviderError> {
    let digits = id.strip_prefix("ami-").unwrap_or_default();
    if !matches!(digits.len(), 8 | 17) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(refuse("InvalidAMIID.Malformed", format!("Invalid id: \"{id}\"")));
    }
    if digits.bytes().all(|byte| byte == b'0') {
        let text = format!("The image id '[{id}]' does not exist");
        return Err(not_found("InvalidAMIID.NotFound", text));
    }
    Ok(())
}

pub fn known_group(cloud: &CloudState, id: &str) -> Result<(), ProviderError> {
    if GROUPS.iter().any(|name| cloud.fixed_id("sg", &[name]) == id) {
        return Ok(());
    }
    Err(not_found("InvalidGroup.NotFound", format!("The security group '{id}' does not exist")))
}

pub fn default_group(cloud: &CloudState) -> String {
    cloud.fixed_id("sg", &[GROUPS[0]])
}

pub fn group_name(cloud: &CloudState, id: &str) -> &'static str {
    GROUPS.iter().find(|name| cloud.fixed_id("sg", &[name]) == id).copied().unwrap_or(GROUPS[0])
}

fn vpc(cloud: &CloudState) -> String {
    cloud.fixed_id("vpc", &["vpc"])
}

/// The rows that are named, all of which must be there; else all.
fn only(rows: Vec<Row>, wanted: &[&str], code: &str, what: &str) -> Result<Vec<Row>, ProviderError> {
    if let Some(missing) = wanted.iter().find(|id| rows.iter().all(|(there, _)| there != *id)) {
        return Err(not_found(code, format!("The {what} ID '{missing}' does not exist")));
    }
    Ok(rows.into_iter().filter(|(id, _)| wanted.is_empty() || wanted.contains(&id.as_str())).collect())
}

fn image(cloud: &CloudState, id: &str) -> Value {
    let name = format!("simulated-{id}");
    json!({
        "ImageId": id,
        "Name": name,
        "ImageLocation": format!("amazon/{name}"),
        "ImageOwnerAlias": "amazon",
        "OwnerId": AMAZON,
        "CreationDate": "2026-01-01T00:00:00.000Z",
        "State": "available",
        "Public": true,
        "Architecture": "x86_64",
        "ImageType": "machine",
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "RootDeviceName": "/dev/xvda",
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EnaSupport": true,
        "BootMode": "uefi-preferred",
        "BlockDeviceMappings": [{
            "DeviceName": "/dev/xvda",
            "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "DeleteOnTermination": true, "Encrypted": false,
                    "SnapshotId": cloud.fixed_id("snap", &[id])},
        }],
        "Tags": tags_of(cloud, id),
    })
}
