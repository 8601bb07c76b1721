//! What the tests over a wire share: a fleet in an account, and the stories that are told to every server.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::Tag;
use jiff::Timestamp;

use crate::effect::{CloudAction, LaunchRequest, Template, token};
use crate::fleet::Target;
use crate::fleet::config::{AwsCloud, Cloud as Place};
use crate::ids::{FleetUid, GroupName, SlotId};
use crate::load::{self, Loaded};
use crate::observed::{InstanceState, Market};
use crate::provider::aws::Aws;
use crate::provider::{Class, Cloud, Done};

pub const ACCOUNT: &str = "123456789012";
pub const ZONE: &str = "us-west-2a";
pub const GROUP: &str = "tidewright-ml-train";

/// What a request sets, on one line and without what it does not.
pub fn written(request: &impl std::fmt::Debug) -> String {
    let text = format!("{request:#?}");
    let set = text.lines().map(str::trim).filter(|line| !line.ends_with(": None,")).collect::<Vec<&str>>().join(" ");
    set.replace("Some( ", "").replace(", ),", ",")
}

/// A pool that is launched on demand, in one zone, with own user data left out.
const DOCUMENTS: &str = "
kind: Fleet
metadata: {name: ml}
spec:
  timeZone: UTC
  cloud: {aws: {region: us-west-2, accountId: \"123456789012\", endpointUrl: \"ENDPOINT\", eks: {clusterName: ml}}}
  kubernetes: {kubeconfig: {context: ml}}
  limits: {hourlyUsd: 1000, nodesRemovedPerHour: 4}
---
kind: NodePool
metadata: {name: train}
spec:
  instanceType: p4d.24xlarge
  nodes: 2
  capacity: [{onDemand: {max: 2}}]
  launch:
    image: {ami: {id: AMI}}
    bootstrap: {nodeadm: {}}
    subnets: {tags: {role: gpu}, zones: [us-west-2a]}
    securityGroups: {tags: {role: gpu}}
    role: gpu-node
    efa: none
";

pub fn target(endpoint: &str, image: &str) -> Target {
    target_with(endpoint, image, "")
}

/// The same with more documents.
pub fn target_with(endpoint: &str, image: &str, more: &str) -> Target {
    let text = format!("{DOCUMENTS}{more}");
    let text = text.replace("ENDPOINT", endpoint).replace("AMI", image);
    let text = text.replace("kind: ", "apiVersion: tidewright.dev/v1alpha1\nkind: ");
    let mut loaded = Loaded::default();
    load::add_bytes(&mut loaded, "fleet.yaml", text.as_bytes());
    let now = Timestamp::now();
    let checked = loaded.check(now);
    assert!(checked.fleet.is_some(), "{:#?}", checked.diagnostics);
    checked.fleet.unwrap().target_at(now)
}

/// The same with the levels of a fabric.
pub fn target_with_levels(endpoint: &str, image: &str) -> Target {
    use crate::fleet::standing::Level;
    let mut target = target(endpoint, image);
    let label = |layer| Some(format!("topology.k8s.aws/network-node-layer-{layer}"));
    let named = ["spine", "block", "leaf"].into_iter().zip(1..);
    let standing = std::sync::Arc::make_mut(&mut target.standing);
    standing.levels = named.map(|(name, layer)| Level { name: name.into(), node_label: label(layer) }).collect();
    target
}

fn account(target: &Target) -> AwsCloud {
    let Place::Aws(aws) = &target.standing.cloud else { panic!("it is in AWS") };
    (**aws).clone()
}

pub async fn connect(target: &Target, fleet: &str) -> Aws {
    Aws::connect_as(&account(target), &fleet.into(), "AKIDTEST", "secret").await
}

/// The template of the pool, with user data of its own so that no EKS is asked.
pub fn template(target: &Target, labels: &[(&str, &str)]) -> Template {
    use crate::fleet::launch::{Bootstrap, UserData};
    let desired = crate::compile::compile(target);
    let mut template = desired.pools["train"].template.clone();
    let labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    template.labels.extend(labels.collect::<BTreeMap<String, String>>());
    if let Some(launch) = &mut template.launch {
        launch.bootstrap = Bootstrap::UserData(UserData { file: "hello.sh".into() });
        template.user_data = Some("#!/bin/sh\n".into());
    }
    template
}

pub fn request(template: &Template, index: u32) -> LaunchRequest {
    let (fleet, slot) = (FleetUid::from("ml"), SlotId::new(&"train".into(), index));
    LaunchRequest {
        token: token(&fleet, &slot, 1, &ZONE.into()),
        slot,
        generation: 1,
        instance_type: template.instance_type.clone(),
        zone: ZONE.into(),
        market: Market::OnDemand,
        reservation: None,
        max_price: None,
        template: template.name.clone(),
        template_digest: template.digest.clone(),
        group: None,
        source: 0,
        host: None,
    }
}

/// The subnets and a security group carry the tags that the pools ask for.
pub async fn furnish_for(aws: &Aws, target: &Target) {
    let launches: Vec<_> = target.standing.pools.values().filter_map(|pool| pool.launch.as_ref()).collect();
    let found = aws.wire.ec2.describe_subnets().send().await.unwrap();
    let vpc = found.subnets()[0].vpc_id().unwrap();
    let groups = aws.wire.ec2.describe_security_groups().send().await.unwrap();
    let group = groups.security_groups().iter().find(|one| one.vpc_id() == Some(vpc)).unwrap();
    let tag = async |id: &str, tags: &BTreeMap<String, String>| {
        let tags = tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
        aws.wire.ec2.create_tags().resources(id).set_tags(Some(tags)).send().await.unwrap();
    };
    for launch in launches {
        for subnet in found.subnets() {
            tag(subnet.subnet_id().unwrap(), &launch.subnets.tags).await;
        }
        tag(group.group_id().unwrap(), &launch.security_groups.tags).await;
    }
}

/// A template is written when it differs, and only then.
pub async fn templates_are_written_when_they_differ(aws: &Aws, target: &Target) {
    let versions = async || {
        let seen = aws.observe(target).await;
        assert_eq!(seen.templates.gap(), None);
        let found = seen.templates.seen().values().next().cloned();
        found.map(|found| (found.version, found.ours, found.digest))
    };
    assert_eq!(versions().await, None);
    let first = template(target, &[]);
    let ensure = async |template: &Template| aws.perform(&CloudAction::EnsureTemplate(template.clone())).await;
    for _ in 0..2 {
        assert_eq!(ensure(&first).await, Ok(Done::Nothing));
        assert_eq!(versions().await, Some((1, true, Some(first.digest.clone()))));
    }
    assert_eq!(ensure(&template(target, &[("a", "b")])).await, Ok(Done::Nothing));
    assert_eq!(versions().await, Some((2, true, Some(first.digest.clone()))));
    let other = Template { digest: "other".into(), ..first };
    assert_eq!(ensure(&other).await, Ok(Done::Nothing));
    assert_eq!(versions().await, Some((3, true, Some("other".into()))));
}

/// A group is made once, and found.
pub async fn a_group_is_made_once(aws: &Aws, target: &Target) {
    for _ in 0..2 {
        assert_eq!(aws.perform(&CloudAction::EnsureGroup { group: GROUP.into() }).await, Ok(Done::Nothing));
    }
    let seen = aws.observe(target).await;
    assert!(seen.groups.seen().get(GROUP).is_some_and(|group| group.ours), "{:?}", seen.groups);
}

/// From a launch to its end: tags, ids that nobody knows, and what is not ours.
pub async fn an_instance_lives_and_ends(aws: &Aws, target: &Target, group: Option<GroupName>) {
    let template = template(target, &[]);
    aws.observe(target).await;
    aws.perform(&CloudAction::EnsureTemplate(template.clone())).await.unwrap();
    let request = LaunchRequest { group: group.clone(), ..request(&template, 0) };
    let Done::Instance(id) = aws.perform(&CloudAction::Launch(request.clone())).await.unwrap() else { panic!() };

    let seen = aws.observe(target).await;
    assert_eq!(seen.instances.gap(), None);
    let found = &seen.instances.seen()[&id];
    assert_eq!(found.group, group);
    let tag = found.tag.clone().unwrap();
    assert_eq!((tag.fleet.as_str(), tag.slot.clone(), tag.generation), ("ml", request.slot.clone(), 1));
    assert_eq!((found.token.as_ref(), found.template.as_ref()), (Some(&request.token), Some(&template.digest)));
    assert_eq!((found.zone.as_str(), found.market), (ZONE, Market::OnDemand));
    assert!(found.state.serves() && found.notice.is_none());

    let again = aws.reread(&[crate::effect::Subject::Instance(id.clone())]).await;
    assert_eq!(again.instances.seen().len(), 1);
    let unknown = crate::effect::Subject::Instance("i-0123456789abcdef0".into());
    let both = aws.reread(&[crate::effect::Subject::Instance(id.clone()), unknown]).await;
    assert_eq!((both.instances.seen().len(), both.instances.gap()), (1, None));

    let end = |id: &str| CloudAction::Terminate { slot: request.slot.clone(), instance: id.into() };
    let missing = aws.perform(&end("i-0123456789abcdef0")).await.unwrap_err();
    assert_eq!(missing.class, Class::NotFound);
    let stranger = connect(target, "strangers").await;
    let refused = stranger.perform(&end(id.as_str())).await.unwrap_err();
    assert_eq!(refused.class, Class::Denied);
    assert!(refused.message.contains("belongs to fleet ml"), "{refused}");
    for _ in 0..2 {
        assert_eq!(aws.perform(&end(id.as_str())).await, Ok(Done::Nothing));
    }
    let seen = aws.observe(target).await;
    let state = seen.instances.seen().get(&id).map(|found| found.state.clone());
    assert!(matches!(state, Some(InstanceState::ShuttingDown | InstanceState::Terminated)), "{state:?}");
}

/// Another account's credentials see nothing, and that is a gap and no empty fleet.
pub async fn another_account_is_a_gap_and_is_never_written_to(target: &Target) {
    let wrong = AwsCloud { account_id: "999999999999".into(), ..account(target) };
    let aws = Aws::connect_as(&wrong, &"ml".into(), "AKIDTEST", "secret").await;
    let seen = aws.observe(target).await;
    for gap in [seen.instances.gap(), seen.reservations.gap(), seen.templates.gap(), seen.groups.gap()] {
        assert!(gap.is_some_and(|gap| gap.why.contains(ACCOUNT) && gap.why.contains("999999999999")), "{gap:?}");
    }
    let refused = aws.perform(&CloudAction::EnsureGroup { group: "g".into() }).await.unwrap_err();
    assert_eq!(refused.class, Class::Denied);
}
