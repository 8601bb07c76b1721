//! One action, carried out. Nothing is decided here and nothing is tried again.
//!
//! An instance is ended or booted only if it carries our fleet's tag at that moment. It is protected against being
//! terminated for as long as it lives; the protection is lifted just before.

use aws_sdk_ec2::types::{AttributeBooleanValue, PlacementStrategy, ResourceType};

use super::actions::Api;
use super::errors::Failure;
use super::launch::{self, tagged};
use super::observe::instances_by_id;
use super::real::Aws;
use super::{reserve, template};
use crate::effect::{CloudAction, tags};
use crate::ids::{GroupName, InstanceId};
use crate::observed::{InstanceSeen, InstanceState, Market};
use crate::provider::{Class, Done};

pub async fn perform(aws: &Aws, action: &CloudAction) -> Result<Done, Failure> {
    aws.is_ours().await?;
    match action {
        CloudAction::Launch(request) => launch::launch(aws, request).await,
        CloudAction::Terminate { instance, .. } => terminate(aws, instance).await,
        CloudAction::Reboot { instance, .. } => reboot(aws, instance).await,
        CloudAction::Reserve(request) => reserve::reserve(aws, request).await,
        CloudAction::Modify { id, nodes, end, matching, .. } => reserve::modify(aws, id, *nodes, *end, *matching).await,
        CloudAction::Cancel { id, .. } => reserve::cancel(aws, id).await,
        CloudAction::Purchase(request) => reserve::purchase(aws, request).await,
        CloudAction::EnsureTemplate(wanted) => template::ensure(aws, wanted).await,
        CloudAction::EnsureGroup { group } => ensure_group(aws, group).await,
    }
}

async fn terminate(aws: &Aws, id: &InstanceId) -> Result<Done, Failure> {
    let api = Api::TerminateInstances;
    let found = ours(aws, id, api).await?;
    if matches!(found.state, InstanceState::ShuttingDown | InstanceState::Terminated) {
        return Ok(Done::Nothing);
    }
    // EC2 protects no spot instance.
    if found.market != Market::Spot {
        let off = AttributeBooleanValue::builder().value(false).build();
        let lifted = aws.wire.ec2_once.modify_instance_attribute().instance_id(id.as_str());
        aws.wire.call(Api::ModifyInstanceAttribute, lifted.disable_api_termination(off).send()).await?;
    }
    // One instance a request: an instance that cannot be ended keeps no other of its zone.
    let ended = aws.wire.ec2_once.terminate_instances().instance_ids(id.as_str());
    aws.wire.call(api, ended.send()).await?;
    Ok(Done::Nothing)
}

async fn reboot(aws: &Aws, id: &InstanceId) -> Result<Done, Failure> {
    let api = Api::RebootInstances;
    ours(aws, id, api).await?;
    aws.wire.call(api, aws.wire.ec2_once.reboot_instances().instance_ids(id.as_str()).send()).await?;
    Ok(Done::Nothing)
}

/// The instance as it is now, if it is ours.
async fn ours(aws: &Aws, id: &InstanceId, api: Api) -> Result<InstanceSeen, Failure> {
    let found = instances_by_id(aws, std::slice::from_ref(id)).await?;
    let Some(found) = found.get(id) else {
        let said = format!("The instance ID '{id}' does not exist");
        return Err(Failure::said(api, "InvalidInstanceID.NotFound", Some(400), &said));
    };
    match &found.tag {
        Some(tag) if tag.fleet == aws.fleet => Ok(found.clone()),
        Some(tag) => {
            let said = format!("{id} belongs to fleet {}, and this is {}: it is left alone", tag.fleet, aws.fleet);
            Err(Failure::new(api, Class::Denied, said))
        }
        None => {
            let said = format!("{id} does not carry the tags of fleet {}: it is left alone", aws.fleet);
            Err(Failure::new(api, Class::Denied, said))
        }
    }
}

/// One that is there is good enough: its name is our own, or the document names it.
async fn ensure_group(aws: &Aws, group: &GroupName) -> Result<Done, Failure> {
    let tags = tags::of_fleet(&aws.fleet, group.as_str());
    let request = aws
        .wire
        .ec2_once
        .create_placement_group()
        .group_name(group.as_str())
        .strategy(PlacementStrategy::Cluster)
        .tag_specifications(tagged(ResourceType::PlacementGroup, &tags));
    match aws.wire.call(Api::CreatePlacementGroup, request.send()).await {
        Err(failure) if failure.code != "InvalidPlacementGroup.Duplicate" => Err(failure),
        _ => Ok(Done::Nothing),
    }
}
