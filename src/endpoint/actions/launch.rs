//! RunInstances: the template and the request together, and what of it the simulator can mean.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Changed, combination, instances, invalid, not_found};
use crate::endpoint::ask::{Ask, Part};
use crate::endpoint::refuse;
use crate::ids::{GroupName, ReservationId, Zone};
use crate::observed::Market;
use crate::provider::ProviderError;
use crate::provider::sim::State;
use crate::provider::sim::cloud::account::{Launch, Run};
use crate::provider::sim::cloud::{CloudState, Open};
use crate::units::Usd;

/// What a launch may say, in a template and in a request alike, without the numbers of lists. What is not here is refused.
pub const KNOWN: &[&str] = &[
    "BlockDeviceMappings.DeviceName",
    "BlockDeviceMappings.Ebs.DeleteOnTermination",
    "BlockDeviceMappings.Ebs.Encrypted",
    "BlockDeviceMappings.Ebs.Iops",
    "BlockDeviceMappings.Ebs.KmsKeyId",
    "BlockDeviceMappings.Ebs.SnapshotId",
    "BlockDeviceMappings.Ebs.Throughput",
    "BlockDeviceMappings.Ebs.VolumeSize",
    "BlockDeviceMappings.Ebs.VolumeType",
    "CapacityReservationSpecification.CapacityReservationPreference",
    "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId",
    "DisableApiTermination",
    "EbsOptimized",
    "IamInstanceProfile.Arn",
    "IamInstanceProfile.Name",
    "ImageId",
    "InstanceInitiatedShutdownBehavior",
    "InstanceMarketOptions.MarketType",
    "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior",
    "InstanceMarketOptions.SpotOptions.MaxPrice",
    "InstanceMarketOptions.SpotOptions.SpotInstanceType",
    "InstanceType",
    "KeyName",
    "MetadataOptions.HttpEndpoint",
    "MetadataOptions.HttpPutResponseHopLimit",
    "MetadataOptions.HttpTokens",
    "MetadataOptions.InstanceMetadataTags",
    "Monitoring.Enabled",
    "NetworkInterfaces.DeleteOnTermination",
    "NetworkInterfaces.DeviceIndex",
    "NetworkInterfaces.Groups",
    "NetworkInterfaces.InterfaceType",
    "NetworkInterfaces.NetworkCardIndex",
    "NetworkInterfaces.SubnetId",
    "Placement.AvailabilityZone",
    "Placement.GroupId",
    "Placement.GroupName",
    "Placement.Tenancy",
    "SecurityGroupIds",
    "TagSpecifications.ResourceType",
    "TagSpecifications.Tags.Key",
    "TagSpecifications.Tags.Value",
    "UserData",
];

/// What only a request says.
const ASKED: &[&str] = &[
    "ClientToken",
    "LaunchTemplate.LaunchTemplateId",
    "LaunchTemplate.LaunchTemplateName",
    "LaunchTemplate.Version",
    "MaxCount",
    "MinCount",
    "SubnetId",
];

/// What a launch may tag.
const TAGGED: [&str; 4] = ["instance", "volume", "network-interface", "spot-instances-request"];

pub fn run(state: &mut State, ask: &Ask) -> Changed {
    let run = read(&state.cloud, ask)?;
    ask.done()?;
    if !state.cloud.knows_launch(&run) {
        state.cloud.charge(ask.now, "RunInstances instances", run.least)?;
    }
    let (launch, new) = state.cloud.run(ask.now, &run, ask.weather)?;
    Ok((told(&state.cloud, &launch), new))
}

fn told(cloud: &CloudState, launch: &Launch) -> Value {
    let rows = launch.instances.iter().map(|id| match cloud.instances.get(id) {
        Some(found) => instances::told(cloud, id, found),
        // A token is remembered for longer than what it made is listed.
        None => json!({"InstanceId": id.as_str(), "State": {"Code": 48, "Name": "terminated"}}),
    });
    let rows: Vec<Value> = rows.collect();
    json!({"ReservationId": launch.id, "OwnerId": cloud.account.owner(), "Groups": [], "Instances": rows})
}

/// What is asked for. Nothing is done yet.
pub fn read(cloud: &CloudState, ask: &Ask) -> Result<Run, ProviderError> {
    let root = ask.root();
    let asked = root.keep(&[KNOWN, ASKED].concat());
    let (template, data) = match root.part("LaunchTemplate") {
        Some(named) => {
            let (id, version, data) = super::templates::find(cloud, &named)?;
            (Some((id, version)), data)
        }
        None => (None, json!({})),
    };
    let data = merged(data, &asked);
    let (least, most) = counts(&root)?;
    let zone = zone(cloud, &root, &data)?;
    check(cloud, &data)?;
    let (market, max_price) = market(&data)?;
    let (reservation, open) = capacity(&data)?;
    let mut tags = tags(&data)?;
    let market = match (market, &reservation) {
        (Market::OnDemand, Some(_)) => Market::Reserved,
        (market, _) => market,
    };
    Ok(Run {
        asked: ask.whole(),
        token: root.text("ClientToken").map(token).transpose()?,
        zone,
        least,
        most,
        instance_type: text(&data, "InstanceType").unwrap_or("m1.small").into(),
        market,
        reservation,
        open,
        max_price,
        group: group(cloud, &data)?,
        protected: data["DisableApiTermination"].as_bool().unwrap_or(false),
        template,
        tags: tags.remove(TAGGED[0]).unwrap_or_default(),
        beside: tags,
        data,
    })
}

/// A request's own words stand over the template's. Tags of both are put on.
fn merged(mut data: Value, asked: &Value) -> Value {
    let (Some(fields), Some(said)) = (data.as_object_mut(), asked.as_object()) else { return data };
    let known = |name: &String| KNOWN.iter().any(|path| path.split('.').next() == Some(name.as_str()));
    for (name, value) in said.iter().filter(|(name, _)| known(name)) {
        match (name.as_str(), fields.get_mut(name)) {
            ("TagSpecifications", Some(Value::Array(old))) => old.extend(value.as_array().cloned().unwrap_or_default()),
            ("Placement" | "InstanceMarketOptions" | "MetadataOptions", Some(Value::Object(old))) => {
                old.extend(value.as_object().cloned().unwrap_or_else(Map::new));
            }
            _ => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    data
}

fn counts(root: &Part<'_>) -> Result<(u32, u32), ProviderError> {
    let (least, most) = (root.count("MinCount")?.unwrap_or(0), root.count("MaxCount")?.unwrap_or(0));
    if least == 0 || most < least || most > 1000 {
        return Err(invalid(format!("MinCount {least} and MaxCount {most} are no range from 1 to 1000")));
    }
    Ok((least, most))
}

fn token(text: &str) -> Result<String, ProviderError> {
    if text.len() > 64 || !text.is_ascii() {
        return Err(invalid("ClientToken is longer than 64 ASCII characters"));
    }
    Ok(text.to_string())
}

/// Where it must be: where its subnet is, or where it says.
fn zone(cloud: &CloudState, root: &Part<'_>, data: &Value) -> Result<Option<Zone>, ProviderError> {
    let interfaces = data["NetworkInterfaces"].as_array().into_iter().flatten();
    let primary = interfaces.filter_map(|interface| text(interface, "SubnetId")).next();
    let subnet = root.text("SubnetId").or(primary);
    let known = cloud.account.zones();
    let by_subnet = subnet.map(|id| {
        known
            .iter()
            .find(|zone| cloud.subnet_of(zone) == id)
            .cloned()
            .ok_or_else(|| not_found("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist")))
    });
    let by_subnet = by_subnet.transpose()?;
    let named = text(&data["Placement"], "AvailabilityZone").map(Zone::from);
    if let Some(zone) = named.as_ref().filter(|zone| !known.contains(zone)) {
        return Err(invalid(format!("Invalid availability zone: [{zone}]")));
    }
    match (by_subnet, named) {
        (Some(one), Some(other)) if one != other => {
            Err(invalid(format!("The subnet is in {one}, and the availability zone is {other}")))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// What has to exist before something is launched from it.
fn check(cloud: &CloudState, data: &Value) -> Result<(), ProviderError> {
    let Some(image) = text(data, "ImageId") else {
        return Err(refuse("MissingParameter", "The request must contain the parameter ImageId"));
    };
    super::network::known_image(image)?;
    let interfaces = data["NetworkInterfaces"].as_array().into_iter().flatten();
    let groups = interfaces.map(|interface| &interface["Groups"]).chain([&data["SecurityGroupIds"]]);
    for id in groups.flat_map(|list| list.as_array().into_iter().flatten()).filter_map(Value::as_str) {
        super::network::known_group(cloud, id)?;
    }
    let both = data["NetworkInterfaces"].is_array() && data["SecurityGroupIds"].is_array();
    if both {
        return Err(combination(
            "Network interfaces and an instance-level security groups may not be specified on the \
                                same request",
        ));
    }
    if let Some(tenancy) = text(&data["Placement"], "Tenancy").filter(|tenancy| *tenancy != "default") {
        return Err(refuse("UnsupportedParameter", format!("Placement.Tenancy '{tenancy}' is not simulated")));
    }
    Ok(())
}

fn market(data: &Value) -> Result<(Market, Option<Usd>), ProviderError> {
    let options = &data["InstanceMarketOptions"];
    let price = text(&options["SpotOptions"], "MaxPrice");
    let price = price.map(|price| price.parse::<Usd>().map_err(|_| invalid(format!("MaxPrice '{price}' is no price"))));
    match (text(options, "MarketType"), price.transpose()?) {
        (None, None) => Ok((Market::OnDemand, None)),
        (Some("spot"), price) => Ok((Market::Spot, price)),
        (Some("capacity-block"), None) => Ok((Market::Block, None)),
        (Some(other), _) => Err(invalid(format!("The market type '{other}' is not simulated"))),
        (None, Some(_)) => Err(combination("SpotOptions need the market type spot")),
    }
}

fn capacity(data: &Value) -> Result<(Option<ReservationId>, Open), ProviderError> {
    let spec = &data["CapacityReservationSpecification"];
    let target = text(&spec["CapacityReservationTarget"], "CapacityReservationId").map(ReservationId::from);
    let open = match text(spec, "CapacityReservationPreference") {
        None | Some("open") => Open::May,
        Some("none") if target.is_some() => {
            return Err(combination("A Capacity Reservation target cannot be combined with the preference none"));
        }
        Some("none") => Open::Never,
        Some("capacity-reservations-only") => Open::Must,
        Some(other) => return Err(invalid(format!("'{other}' is no CapacityReservationPreference"))),
    };
    Ok((target, open))
}

fn group(cloud: &CloudState, data: &Value) -> Result<Option<GroupName>, ProviderError> {
    let placement = &data["Placement"];
    if let Some(id) = text(placement, "GroupId") {
        let found = cloud.groups.keys().find(|name| super::groups::id_of(cloud, name) == id);
        let unknown = || not_found("InvalidPlacementGroup.Unknown", format!("The Placement Group '{id}' is unknown."));
        return found.cloned().map(Some).ok_or_else(unknown);
    }
    Ok(text(placement, "GroupName").map(GroupName::from))
}

fn tags(data: &Value) -> Result<BTreeMap<String, BTreeMap<String, String>>, ProviderError> {
    let said = json!({"TagSpecifications": data["TagSpecifications"]});
    let ask = Ask::new("RunInstances", jiff::Timestamp::UNIX_EPOCH, super::super::fair(), said);
    ask.root().tags_by_kind(&TAGGED)
}

pub fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value[name].as_str().filter(|text| !text.is_empty())
}
