//! What we may do, asked before anything is done: the same requests with `DryRun`, one of each kind.
//!
//! EC2 answers a dry run with what its policies say and does nothing. Only a definite denial counts; whatever else comes
//! back is left for the request itself. A purchase is never rehearsed: what costs money for good is sent once, and never
//! as a question.

use std::error::Error;

use aws_sdk_ec2::operation::run_instances::RunInstancesInput;
use aws_sdk_ec2::types::{
    AttributeBooleanValue, IamInstanceProfileSpecification, PlacementStrategy, RequestLaunchTemplateData, ResourceType,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use jiff::SignedDuration;

use super::actions::Api;
use super::errors::Failure;
use super::launch::{self, tagged};
use super::real::Aws;
use super::{grants, reserve, template};
use crate::effect::{CloudAction, LaunchRequest, Template, tags};
use crate::fleet::config::AwsCloud;
use crate::ids::{GroupName, InstanceId};
use crate::observed::{Denials, ReservationTag, SlotTag};
use crate::provider::Class;

/// What was allowed is so for a while; what was not is asked for again soon.
const ALLOWED: SignedDuration = SignedDuration::from_mins(10);
const DENIED: SignedDuration = SignedDuration::from_mins(1);

/// What we may not do of this, each with what to write where.
pub async fn rehearse(aws: &Aws, wanted: &[&CloudAction]) -> Denials {
    let mut said = Denials::default();
    if aws.is_ours().await.is_err() {
        return said;
    }
    for action in wanted {
        let why = asked(aws, action.verb(), ask(aws, action)).await;
        said.denied.extend(why.map(|why| (action.verb().to_string(), why)));
    }
    let can_be_asked = |action: &&&CloudAction| !matches!(action, CloudAction::Purchase(_));
    let all = wanted.iter().filter(can_be_asked).all(|action| said.denied.contains_key(action.verb()));
    if all && !said.denied.is_empty() && changes_nothing(aws).await {
        said.looks_only = Some(looks_only(aws));
    }
    said
}

/// What was answered to a question, which is not asked again for a while.
async fn asked(aws: &Aws, word: &'static str, question: impl Future<Output = Result<(), Failure>>) -> Option<String> {
    let now = aws.wire.clock.now();
    let known = aws.known.borrow().rehearsed.get(word).cloned().filter(|(at, why)| {
        let lasts = if why.is_some() { DENIED } else { ALLOWED };
        now.duration_since(*at) < lasts
    });
    if let Some((_, why)) = known {
        return why;
    }
    let why = question.await.err().filter(|failure| failure.class == Class::Denied);
    let why = why.map(|failure| told(&aws.cloud, aws.fleet.as_str(), &failure));
    aws.known.borrow_mut().rehearsed.insert(word, (now, why.clone()));
    why
}

/// Whether what every fleet with a policy of ours may do is denied too. One statement that is missing denies all of a plan
/// that asks for one thing, and is no reason to believe that these credentials only look.
async fn changes_nothing(aws: &Aws) -> bool {
    let name = format!("tidewright-{}", aws.fleet);
    asked(aws, "any group", groups(aws, &name.as_str().into())).await.is_some()
        && asked(aws, "any template", makes(aws, &name, "m5.large")).await.is_some()
}

fn looks_only(aws: &Aws) -> String {
    let (known, fleet) = (aws.known.borrow(), &aws.fleet);
    let caller = known.caller.as_deref().unwrap_or_default();
    format!(
        "these credentials ({caller}) may look and change nothing, so they cannot carry this plan out: whoever does needs \
         deploy/aws/iam-policy.json, for fleet {fleet}, account {} and region {}",
        aws.cloud.account_id, aws.cloud.region
    )
}

/// Every call that the action takes, as a question.
async fn ask(aws: &Aws, action: &CloudAction) -> Result<(), Failure> {
    let ec2 = &aws.wire.ec2_once;
    match action {
        CloudAction::Launch(request) => launches(aws, request).await,
        CloudAction::Terminate { instance, .. } => terminates(aws, instance).await,
        CloudAction::Reboot { instance, .. } => {
            let request = ec2.reboot_instances().instance_ids(instance.as_str()).dry_run(true);
            dry(aws, Api::RebootInstances, request.send()).await
        }
        CloudAction::Reserve(request) => {
            let (fleet, reservation) = (aws.fleet.clone(), request.reservation.clone());
            let tag = ReservationTag { fleet, reservation, generation: request.generation };
            let request = reserve::input(request, &tag).dry_run(true);
            dry(aws, Api::CreateCapacityReservation, request.send_with(ec2)).await
        }
        CloudAction::Modify { id, nodes, .. } => {
            let nodes = i32::try_from(*nodes).unwrap_or(i32::MAX);
            let request = ec2.modify_capacity_reservation().capacity_reservation_id(id.as_str());
            dry(aws, Api::ModifyCapacityReservation, request.instance_count(nodes).dry_run(true).send()).await
        }
        CloudAction::Cancel { id, .. } => {
            let request = ec2.cancel_capacity_reservation().capacity_reservation_id(id.as_str()).dry_run(true);
            dry(aws, Api::CancelCapacityReservation, request.send()).await
        }
        CloudAction::Purchase(_) => Ok(()),
        CloudAction::EnsureTemplate(wanted) => writes(aws, wanted).await,
        CloudAction::EnsureGroup { group } => groups(aws, group).await,
    }
}

/// Whether it is allowed: a dry run has no other good answer than an error that says so.
async fn dry<T, E>(
    aws: &Aws,
    api: Api,
    sent: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
) -> Result<(), Failure>
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match aws.wire.call(api, sent).await {
        Err(failure) if failure.class == Class::Denied => Err(failure),
        _ => Ok(()),
    }
}

/// From the template where that is there; before that from the pool's image and role, which the policies judge alike.
async fn launches(aws: &Aws, request: &LaunchRequest) -> Result<(), Failure> {
    let subnet = launch::subnet(aws, request).await?;
    let tag = SlotTag { fleet: aws.fleet.clone(), slot: request.slot.clone(), generation: request.generation };
    let question = match launch::pinned(aws, &request.template, &request.template_digest).await {
        Ok(version) => launch::input(request, &tag, &version, &subnet),
        Err(_) => {
            let known = aws.known.borrow().pools.get(&request.slot.pool).cloned();
            let Some(pool) = known else { return Ok(()) };
            let tags = tags::of_slot(&tag, &request.template_digest);
            RunInstancesInput::builder()
                .min_count(1)
                .max_count(1)
                .image_id(template::image(aws, &pool.image).await?)
                .instance_type(request.instance_type.as_str().into())
                .iam_instance_profile(IamInstanceProfileSpecification::builder().name(&pool.role).build())
                .subnet_id(subnet)
                .tag_specifications(tagged(ResourceType::Instance, &tags))
                .tag_specifications(tagged(ResourceType::Volume, &tags))
        }
    };
    // Without the token: a question must not be remembered as the request.
    let question = question.set_client_token(None).dry_run(true);
    dry(aws, Api::RunInstances, question.send_with(&aws.wire.ec2_once)).await
}

async fn terminates(aws: &Aws, instance: &InstanceId) -> Result<(), Failure> {
    let off = AttributeBooleanValue::builder().value(false).build();
    let lifts = aws.wire.ec2_once.modify_instance_attribute().instance_id(instance.as_str());
    dry(aws, Api::ModifyInstanceAttribute, lifts.disable_api_termination(off).dry_run(true).send()).await?;
    let ends = aws.wire.ec2_once.terminate_instances().instance_ids(instance.as_str()).dry_run(true);
    dry(aws, Api::TerminateInstances, ends.send()).await
}

async fn writes(aws: &Aws, wanted: &Template) -> Result<(), Failure> {
    if launch::newest(aws, &wanted.name).await?.is_none() {
        return makes(aws, wanted.name.as_str(), wanted.instance_type.as_str()).await;
    }
    let data = RequestLaunchTemplateData::builder().instance_type(wanted.instance_type.as_str().into()).build();
    let request = aws.wire.ec2_once.create_launch_template_version().launch_template_name(wanted.name.as_str());
    let request = request.launch_template_data(data).dry_run(true);
    dry(aws, Api::CreateLaunchTemplateVersion, request.send()).await
}

async fn makes(aws: &Aws, name: &str, instance_type: &str) -> Result<(), Failure> {
    let data = RequestLaunchTemplateData::builder().instance_type(instance_type.into()).build();
    let request = aws.wire.ec2_once.create_launch_template().launch_template_name(name).launch_template_data(data);
    let tags = tagged(ResourceType::LaunchTemplate, &tags::of_fleet(&aws.fleet, name));
    dry(aws, Api::CreateLaunchTemplate, request.tag_specifications(tags).dry_run(true).send()).await
}

async fn groups(aws: &Aws, group: &GroupName) -> Result<(), Failure> {
    let tags = tagged(ResourceType::PlacementGroup, &tags::of_fleet(&aws.fleet, group.as_str()));
    let request = aws.wire.ec2_once.create_placement_group().group_name(group.as_str());
    let request = request.strategy(PlacementStrategy::Cluster).tag_specifications(tags).dry_run(true);
    dry(aws, Api::CreatePlacementGroup, request.send()).await
}

/// What was denied, and the statement to add as it has to be written for this fleet.
fn told(cloud: &AwsCloud, fleet: &str, failure: &Failure) -> String {
    let said = failure.whole();
    match grants::of(failure.api, failure.missing.as_ref()) {
        Some(grant) => {
            let statement = grant.written(cloud, fleet, failure.missing.as_ref());
            format!("{}: {statement}", said.trim_end_matches('.'))
        }
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fleet::config::Endpoints;

    fn account(region: &str, account_id: &str) -> AwsCloud {
        let (region, account_id) = (region.into(), account_id.into());
        let endpoint_urls = Endpoints::default();
        AwsCloud { region, account_id, endpoint_url: None, endpoint_urls, eks: None, queue_url: None }
    }

    #[test]
    fn a_denial_at_plan_time_holds_the_statement_that_is_missing_for_this_fleet() {
        let cloud = account("us-west-2", "123456789012");
        let failure = Failure::said(Api::TerminateInstances, "UnauthorizedOperation", Some(403), "You may not.");
        let told = told(&cloud, "ml.0123456789", &failure);
        assert!(told.contains("`ec2:TerminateInstances`") && told.contains(r#"{"Sid":"OwnInstances""#), "{told}");
        assert!(told.contains("arn:aws:ec2:us-west-2:123456789012:instance/*"), "{told}");
        assert!(told.contains(r#""aws:ResourceTag/tidewright.dev/fleet":["ml","ml.*"]"#), "{told}");
        let json = &told[told.find('{').unwrap()..];
        assert!(serde_json::from_str::<Value>(json).is_ok(), "{json}");
    }

    #[test]
    fn the_statement_is_of_what_was_denied_and_names_the_role() {
        let cloud = account("us-west-2", "123456789012");
        let failure = Failure::said(Api::RunInstances, "UnauthorizedOperation", Some(403), "You may not.");
        let told = |action: &str, resource: &str| told(&cloud, "ml", &failure.explained(action, resource));
        let role = told("iam:PassRole", "arn:aws:iam::123456789012:role/gpu-node");
        assert!(role.contains(r#"{"Sid":"GiveNodesTheirRole""#) && role.contains(":role/gpu-node\","), "{role}");
        assert!(!role.contains("`ec2:RunInstances`") && !role.contains("NODE-ROLE"), "{role}");
        let template = told("ec2:RunInstances", "arn:aws:ec2:us-west-2:123456789012:launch-template/lt-1");
        assert!(template.contains(r#"{"Sid":"LaunchFromOwnTemplates""#), "{template}");
        let key = told("kms:CreateGrant", "arn:aws:kms:us-west-2:123456789012:key/1");
        assert!(key.contains("no statement of deploy/aws has it") && !key.contains("Sid"), "{key}");
    }
}
