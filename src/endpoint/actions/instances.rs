//! Instances: described, ended, booted again, protected.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::launch::text;
use super::{Answer, Changed, combination, not_found, tags_of, zone_id};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, Filters, Pages, Row};
use crate::endpoint::model::instant;
use crate::endpoint::refuse;
use crate::ids::InstanceId;
use crate::observed::{InstanceState, Market, NoticeKind};
use crate::provider::ProviderError;
use crate::provider::sim::State;
use crate::provider::sim::cloud::account::ROOT;
use crate::provider::sim::cloud::{CloudState, Instance};

const FILTERS: Filters = &[
    ("availability-zone", "Placement.AvailabilityZone"),
    ("availability-zone-id", "Placement.AvailabilityZoneId"),
    ("capacity-reservation-id", "CapacityReservationId"),
    ("client-token", "ClientToken"),
    ("image-id", "ImageId"),
    ("instance-id", "InstanceId"),
    ("instance-lifecycle", "InstanceLifecycle"),
    ("instance-state-code", "State.Code"),
    ("instance-state-name", "State.Name"),
    ("instance-type", "InstanceType"),
    ("placement-group-name", "Placement.GroupName"),
    ("private-dns-name", "PrivateDnsName"),
    ("subnet-id", "SubnetId"),
    ("vpc-id", "VpcId"),
];

const STATUS_FILTERS: Filters = &[
    ("availability-zone", "AvailabilityZone"),
    ("availability-zone-id", "AvailabilityZoneId"),
    ("event.code", "Events.Code"),
    ("event.instance-event-id", "Events.InstanceEventId"),
    ("instance-state-code", "InstanceState.Code"),
    ("instance-state-name", "InstanceState.Name"),
    ("instance-status.status", "InstanceStatus.Status"),
    ("system-status.status", "SystemStatus.Status"),
];

const PAGES: Pages = Pages { usual: Some(1000), least: 5, most: 1000 };

pub fn describe(cloud: &CloudState, ask: &Ask) -> Answer {
    ask.root().flag("IncludeManagedResources");
    let wanted = named(cloud, ask)?;
    let rows: Vec<Row> = wanted.into_iter().map(|(id, found)| (id.to_string(), told(cloud, id, found))).collect();
    let mut answer = list::answer(ask, "Instances", FILTERS, PAGES, rows)?;
    let instances = answer["Instances"].take();
    let mut launches: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for instance in instances.as_array().into_iter().flatten() {
        let id: InstanceId = text(instance, "InstanceId").unwrap_or_default().into();
        launches.entry(launch_of(cloud, &id)).or_default().push(instance.clone());
    }
    let owner = cloud.account.owner();
    let reservations: Vec<Value> = launches
        .into_iter()
        .map(|(id, held)| json!({"ReservationId": id, "OwnerId": owner, "Groups": [], "Instances": held}))
        .collect();
    let mut whole = json!({"Reservations": reservations});
    if let Some(token) = answer.get("NextToken") {
        whole["NextToken"] = token.clone();
    }
    Ok(whole)
}

/// Scheduled events and health: of running instances, or of all that are asked for.
pub fn status(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    root.flag("IncludeManagedResources");
    let all = root.flag("IncludeAllInstances").unwrap_or(false);
    let wanted = named(cloud, ask)?;
    let shown = wanted.into_iter().filter(|(_, found)| all || found.state == InstanceState::Running);
    let rows = shown.map(|(id, found)| (id.to_string(), status_of(id, found))).collect();
    list::answer(ask, "InstanceStatuses", STATUS_FILTERS, PAGES, rows)
}

pub fn terminate(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let ids = ids(&root.texts("InstanceIds"))?;
    ask.done()?;
    exist(&state.cloud, &ids)?;
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    state.cloud.charge(ask.now, "TerminateInstances instances", count)?;
    let is_protected = |id: &&InstanceId| state.cloud.account.details.get(*id).is_some_and(|found| found.protected);
    let protected: Vec<&InstanceId> = ids.iter().filter(is_protected).collect();
    let zone = |cloud: &CloudState, id: &InstanceId| cloud.instances.get(id).map(|found| found.zone.clone());
    // Of the zones with a protected one nothing is ended; the others are, and the call fails all the same.
    let kept: BTreeSet<_> = protected.iter().filter_map(|id| zone(&state.cloud, id)).collect();
    let refusal = protected.first().map(|id| {
        let text = format!(
            "The instance '{id}' may not be terminated. Modify its 'disableApiTermination' instance attribute and try \
             again."
        );
        refuse("OperationNotPermitted", text)
    });
    let (mut changes, mut changed) = (Vec::new(), false);
    for id in &ids {
        if zone(&state.cloud, id).is_some_and(|zone| kept.contains(&zone)) {
            continue;
        }
        let before = state.cloud.instances.get(id).map(state_of);
        state.cluster.judge_removal(ask.now, id, "Terminate");
        changed |= state.cloud.end(ask.now, id)?;
        let after = state.cloud.instances.get(id).map(state_of);
        changes.push(json!({"InstanceId": id.as_str(), "PreviousState": before, "CurrentState": after}));
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok((json!({"TerminatingInstances": changes}), changed)),
    }
}

pub fn reboot(state: &mut State, ask: &Ask) -> Changed {
    let ids = ids(&ask.root().texts("InstanceIds"))?;
    ask.done()?;
    exist(&state.cloud, &ids)?;
    for id in &ids {
        state.cluster.judge_removal(ask.now, id, "Reboot");
        state.cloud.boot_again(ask.now, id)?;
    }
    Ok((json!({}), true))
}

/// Protection from being ended, and nothing else.
pub fn modify(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let id = InstanceId::from(root.needed("InstanceId")?);
    let by_name = match (root.text("Attribute"), root.text("Value")) {
        (Some("disableApiTermination"), value) => value.map(|value| value == "true"),
        (Some(other), _) => {
            return Err(refuse("UnsupportedParameter", format!("The attribute {other} is not supported here")));
        }
        (None, _) => None,
    };
    let wanted = root.part("DisableApiTermination").and_then(|part| part.flag("Value")).or(by_name);
    ask.done()?;
    exist(&state.cloud, std::slice::from_ref(&id))?;
    let Some(wanted) = wanted else { return Err(combination("No attributes specified.")) };
    let Some(details) = state.cloud.account.details.get_mut(&id) else {
        return Err(refuse("OperationNotPermitted", format!("The instance '{id}' was not launched over this wire")));
    };
    let changed = details.protected != wanted;
    details.protected = wanted;
    Ok((json!({}), changed))
}

/// Those that the request names, all of which must be there; else all that are listed.
fn named<'a>(cloud: &'a CloudState, ask: &Ask) -> Result<Vec<(&'a InstanceId, &'a Instance)>, ProviderError> {
    let root = ask.root();
    let wanted = root.texts("InstanceIds");
    if wanted.is_empty() {
        return Ok(cloud.listed_instances(ask.now).collect());
    }
    if root.number("MaxResults").is_some() {
        let text = "The parameter instancesSet cannot be used with the parameter maxResults";
        return Err(combination(text));
    }
    let wanted: BTreeSet<InstanceId> = ids(&wanted)?.into_iter().collect();
    let found: Vec<_> = cloud.listed_instances(ask.now).filter(|(id, _)| wanted.contains(*id)).collect();
    missing(wanted.iter().filter(|id| found.iter().all(|(there, _)| there != id)))?;
    Ok(found)
}

fn ids(words: &[&str]) -> Result<Vec<InstanceId>, ProviderError> {
    let mut ids: Vec<InstanceId> = Vec::new();
    for word in words {
        let digits = word.strip_prefix("i-").unwrap_or_default();
        if !matches!(digits.len(), 8 | 17) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refuse("InvalidInstanceID.Malformed", format!("Invalid id: \"{word}\"")));
        }
        if !ids.iter().any(|id| id.as_str() == *word) {
            ids.push((*word).into());
        }
    }
    Ok(ids)
}

fn exist(cloud: &CloudState, ids: &[InstanceId]) -> Result<(), ProviderError> {
    if ids.is_empty() {
        return Err(refuse("MissingParameter", "The request must contain the parameter InstanceId"));
    }
    missing(ids.iter().filter(|id| !cloud.instances.contains_key(*id)))
}

fn missing<'a>(ids: impl Iterator<Item = &'a InstanceId>) -> Result<(), ProviderError> {
    let ids: Vec<&str> = ids.map(InstanceId::as_str).collect();
    match ids.as_slice() {
        [] => Ok(()),
        [id] => Err(not_found("InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"))),
        several => {
            let text = format!("The instance IDs '{}' do not exist", several.join(", "));
            Err(not_found("InvalidInstanceID.NotFound", text))
        }
    }
}

fn launch_of(cloud: &CloudState, id: &InstanceId) -> String {
    let known = cloud.account.details.get(id).map(|details| details.launch.clone());
    known.unwrap_or_else(|| cloud.fixed_id("r", &[id.as_str()]))
}

fn state_of(found: &Instance) -> Value {
    let (code, name) = match &found.state {
        InstanceState::Pending => (0, "pending"),
        InstanceState::Running => (16, "running"),
        InstanceState::ShuttingDown => (32, "shutting-down"),
        InstanceState::Terminated => (48, "terminated"),
        InstanceState::Stopped => (80, "stopped"),
        InstanceState::Other(name) => (0, name.as_str()),
    };
    json!({"Code": code, "Name": name})
}

/// An instance as EC2 tells it.
pub fn told(cloud: &CloudState, id: &InstanceId, found: &Instance) -> Value {
    let nothing = json!({});
    let details = cloud.account.details.get(id);
    let data = details.map_or(&nothing, |details| &details.data);
    let zone = found.zone.as_str();
    let ended = !found.state.serves();
    let mut told = json!({
        "InstanceId": id.as_str(),
        "InstanceType": found.instance_type.as_str(),
        "ImageId": text(data, "ImageId").unwrap_or("ami-00000000"),
        "State": state_of(found),
        "StateTransitionReason": if ended { "User initiated" } else { "" },
        "LaunchTime": instant(found.launched),
        "AmiLaunchIndex": details.map_or(0, |details| details.index),
        "Architecture": "x86_64",
        "Hypervisor": "xen",
        "RootDeviceType": "ebs",
        "RootDeviceName": ROOT,
        "VirtualizationType": "hvm",
        "PlatformDetails": "Linux/UNIX",
        "EnaSupport": true,
        "EbsOptimized": data["EbsOptimized"].as_bool().unwrap_or(true),
        "Monitoring": {"State": if data["Monitoring"]["Enabled"] == true { "enabled" } else { "disabled" }},
        "Placement": {
            "AvailabilityZone": zone,
            "AvailabilityZoneId": zone_id(zone),
            "GroupName": found.group.as_ref().map_or("", |name| name.as_str()),
            "Tenancy": "default",
        },
        "ClientToken": found.token.as_ref().map_or("", |token| token.as_str()),
        "Tags": tags_of(cloud, id.as_str()),
        "CapacityReservationSpecification": data.get("CapacityReservationSpecification").cloned()
            .unwrap_or_else(|| json!({"CapacityReservationPreference": "open"})),
    });
    if let Some(name) = &found.group {
        told["Placement"]["GroupId"] = super::groups::id_of(cloud, name).into();
    }
    lifecycle(cloud, id, found, &mut told);
    if let Some(details) = details.filter(|_| found.state != InstanceState::Terminated) {
        connected(cloud, details, data, &mut told);
        told["BlockDeviceMappings"] = volumes(cloud, id, found, data);
    }
    if ended {
        let (code, message) = ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown");
        told["StateReason"] = json!({"Code": code, "Message": message});
    }
    told
}

fn volumes(cloud: &CloudState, id: &InstanceId, found: &Instance, data: &Value) -> Value {
    let asked = |device: &str| {
        let mut mapped = data["BlockDeviceMappings"].as_array().into_iter().flatten();
        mapped.find(|one| text(one, "DeviceName") == Some(device)).map(|one| &one["Ebs"])
    };
    let told = cloud.volumes(id).into_iter().map(|(device, volume)| {
        let ends = asked(&device).and_then(|ebs| ebs["DeleteOnTermination"].as_bool()).unwrap_or(true);
        let ebs = json!({
            "VolumeId": volume,
            "Status": "attached",
            "AttachTime": instant(found.launched),
            "DeleteOnTermination": ends,
        });
        json!({"DeviceName": device, "Ebs": ebs})
    });
    told.collect()
}

/// What it is paid as, and from whose places.
fn lifecycle(cloud: &CloudState, id: &InstanceId, found: &Instance, told: &mut Value) {
    match found.market {
        Market::Spot => {
            told["InstanceLifecycle"] = "spot".into();
            told["SpotInstanceRequestId"] = super::spot::id_of(cloud, id).into();
        }
        Market::Block => told["InstanceLifecycle"] = "capacity-block".into(),
        Market::OnDemand | Market::Reserved => {}
    }
    if let Some(id) = &found.reservation {
        told["CapacityReservationId"] = id.as_str().into();
        if cloud.reservations.get(id).is_some_and(|held| held.block.is_some()) {
            told["CapacityBlockId"] = super::blocks::id_of(cloud, id).into();
        }
    }
}

/// Its network and what else it was launched with.
fn connected(
    cloud: &CloudState,
    details: &crate::provider::sim::cloud::account::Details,
    data: &Value,
    told: &mut Value,
) {
    let vpc = cloud.fixed_id("vpc", &["vpc"]);
    let address = details.name.split('.').next().unwrap_or_default().trim_start_matches("ip-").replace('-', ".");
    let owner = cloud.account.owner();
    let asked = data["NetworkInterfaces"].as_array().cloned().unwrap_or_else(|| vec![json!({"DeviceIndex": 0})]);
    let groups_of = |ids: &Value| -> Value {
        let named = ids.as_array().filter(|ids| !ids.is_empty()).cloned();
        let ids = named.unwrap_or_else(|| vec![super::network::default_group(cloud).into()]);
        ids.iter()
            .filter_map(Value::as_str)
            .map(|id| json!({"GroupId": id, "GroupName": super::network::group_name(cloud, id)}))
            .collect()
    };
    let primary = if data["SecurityGroupIds"].is_array() { &data["SecurityGroupIds"] } else { &asked[0]["Groups"] };
    told["SecurityGroups"] = groups_of(primary);
    told["NetworkInterfaces"] = asked
        .iter()
        .enumerate()
        .map(|(at, interface)| {
            let groups = if interface["Groups"].is_array() { &interface["Groups"] } else { primary };
            let (device, card) = (interface["DeviceIndex"].as_i64(), interface["NetworkCardIndex"].as_i64());
            json!({
                "NetworkInterfaceId": cloud.interface(&details.name, at),
                "InterfaceType": text(interface, "InterfaceType").unwrap_or("interface"),
                "SubnetId": details.subnet,
                "VpcId": vpc,
                "OwnerId": owner,
                "Status": "in-use",
                "PrivateIpAddress": (at == 0).then(|| address.clone()),
                "Groups": groups_of(groups),
                "Attachment": {
                    "AttachmentId": cloud.fixed_id("eni-attach", &[details.name.as_str(), &at.to_string()]),
                    "DeviceIndex": device.unwrap_or(0),
                    "NetworkCardIndex": card.unwrap_or(0),
                    "Status": "attached",
                    "DeleteOnTermination": interface["DeleteOnTermination"].as_bool().unwrap_or(true),
                },
            })
        })
        .collect();
    told["SubnetId"] = details.subnet.as_str().into();
    told["VpcId"] = vpc.as_str().into();
    told["PrivateIpAddress"] = address.into();
    told["PrivateDnsName"] = details.name.as_str().into();
    told["MetadataOptions"] = metadata(data);
    if let Some(key) = text(data, "KeyName") {
        told["KeyName"] = key.into();
    }
    let profile = &data["IamInstanceProfile"];
    if let Some(profile) = text(profile, "Arn")
        .map(String::from)
        .or_else(|| text(profile, "Name").map(|name| format!("arn:aws:iam::{owner}:instance-profile/{name}")))
    {
        told["IamInstanceProfile"] = json!({"Arn": profile, "Id": "AIPASIMULATED"});
    }
}

fn metadata(data: &Value) -> Value {
    let asked = &data["MetadataOptions"];
    json!({
        "State": "applied",
        "HttpTokens": text(asked, "HttpTokens").unwrap_or("required"),
        "HttpPutResponseHopLimit": asked["HttpPutResponseHopLimit"].as_i64().unwrap_or(2),
        "HttpEndpoint": text(asked, "HttpEndpoint").unwrap_or("enabled"),
        "InstanceMetadataTags": text(asked, "InstanceMetadataTags").unwrap_or("disabled"),
    })
}

fn status_of(id: &InstanceId, found: &Instance) -> Value {
    let well = if found.state == InstanceState::Running { "ok" } else { "not-applicable" };
    let summary = json!({"Status": well, "Details": [{"Name": "reachability", "Status": "passed"}]});
    let mut told = json!({
        "InstanceId": id.as_str(),
        "AvailabilityZone": found.zone.as_str(),
        "AvailabilityZoneId": zone_id(found.zone.as_str()),
        "InstanceState": state_of(found),
        "InstanceStatus": summary,
        "SystemStatus": summary,
    });
    if let Some(notice) = found.notice.as_ref().filter(|notice| notice.why == NoticeKind::Maintenance) {
        told["Events"] = json!([{
            "InstanceEventId": format!("instance-event-{}", id.as_str().trim_start_matches("i-")),
            "Code": "instance-retirement",
            "Description": "The instance is running on degraded hardware",
            "NotBefore": instant(notice.at),
        }]);
    }
    told
}
