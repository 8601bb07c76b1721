//! What a launch template says.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::EfaInfo;

use super::*;
use crate::fleet::config::Nothing;
use crate::fleet::launch::{Ami, Subnets};
use crate::provider::aws::tests::bench::written;

fn network(cards: i32, efa: i32) -> NetworkInfo {
    NetworkInfo::builder()
        .maximum_network_cards(cards)
        .efa_supported(efa > 0)
        .efa_info(EfaInfo::builder().maximum_efa_interfaces(efa).build())
        .build()
}

fn launch() -> Launch {
    let tags: BTreeMap<String, String> = [("role".to_string(), "gpu".to_string())].into();
    Launch {
        image: Image::Ami(Ami { id: "ami-1".into() }),
        bootstrap: Bootstrap::Nodeadm(Nothing {}),
        subnets: Subnets { tags: tags.clone(), zones: Vec::new() },
        security_groups: Tagged { tags },
        role: "gpu-node".into(),
        efa: Efa::Auto,
        placement_group: "auto".into(),
        volumes: vec![Volume { gib: 500 }, Volume { gib: 1000 }],
    }
}

fn template() -> Template {
    Template {
        name: "tidewright-ml-train".into(),
        instance_type: "p5.48xlarge".into(),
        launch: Some(launch()),
        user_data: None,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        digest: "d1".into(),
    }
}

#[test]
fn a_template_protects_the_node_and_its_credentials() {
    let filled = Filled {
        image: "ami-1".into(),
        root: Some("/dev/xvda".into()),
        groups: vec!["sg-1".into()],
        interfaces: interfaces(Some(&network(2, 2)), &["sg-1".into()]),
        user_data: "hello".into(),
    };
    let ebs = |gib: u32| {
        format!(
            "LaunchTemplateEbsBlockDeviceRequest {{ encrypted: true, delete_on_termination: true, volume_size: {gib}, \
             volume_type: Gp3, }},"
        )
    };
    let expected = [
        "RequestLaunchTemplateData {",
        r#"iam_instance_profile: LaunchTemplateIamInstanceProfileSpecificationRequest { name: "gpu-node", },"#,
        "block_device_mappings: [",
        &format!(r#"LaunchTemplateBlockDeviceMappingRequest {{ device_name: "/dev/xvda", ebs: {} }},"#, ebs(500)),
        &format!(r#"LaunchTemplateBlockDeviceMappingRequest {{ device_name: "/dev/xvdb", ebs: {} }}, ],"#, ebs(1000)),
        "network_interfaces: [",
        "LaunchTemplateInstanceNetworkInterfaceSpecificationRequest { delete_on_termination: true, device_index: 0,",
        r#"groups: [ "sg-1", ], interface_type: "efa", network_card_index: 0, },"#,
        "LaunchTemplateInstanceNetworkInterfaceSpecificationRequest { delete_on_termination: true, device_index: 1,",
        r#"groups: [ "sg-1", ], interface_type: "efa-only", network_card_index: 1, }, ],"#,
        r#"image_id: "ami-1", instance_type: P548xlarge, disable_api_termination: true,"#,
        r#"instance_initiated_shutdown_behavior: Terminate, user_data: "*** Sensitive Data Redacted ***","#,
        "metadata_options: LaunchTemplateInstanceMetadataOptionsRequest {",
        "http_tokens: Required, http_put_response_hop_limit: 1, http_endpoint: Enabled, }, }",
    ];
    let made = data(&template(), &launch(), &filled);
    assert_eq!(made.user_data(), Some("aGVsbG8="));
    assert_eq!(written(&made), expected.join(" "));
}

#[test]
fn groups_stand_at_the_interfaces_where_there_are_any() {
    let filled = Filled { groups: vec!["sg-1".into()], ..Filled::default() };
    let plain = data(&template(), &launch(), &filled);
    assert_eq!((plain.security_group_ids(), plain.network_interfaces().len()), (&["sg-1".to_string()][..], 0));
    let interfaces = interfaces(Some(&network(4, 4)), &filled.groups);
    let wide = data(&template(), &launch(), &Filled { interfaces, ..filled });
    assert_eq!((wide.security_group_ids().len(), wide.network_interfaces().len()), (0, 4));
}

#[test]
fn every_card_with_an_adapter_has_one_and_the_first_has_an_address() {
    let kinds = |cards, efa| {
        let all = interfaces(Some(&network(cards, efa)), &[]);
        let counted = |kind: &str| all.iter().filter(|one| one.kind == kind).count();
        (all.len(), all.first().map(|one| one.kind.clone()), counted("efa-only"))
    };
    // p5.48xlarge, p5en.48xlarge, p5.4xlarge, p6-b300.48xlarge, m7i.large.
    assert_eq!(kinds(32, 32), (32, Some("efa".into()), 31));
    assert_eq!(kinds(16, 16), (16, Some("efa".into()), 15));
    assert_eq!(kinds(1, 1), (1, Some("efa".into()), 0));
    assert_eq!(kinds(17, 16), (17, Some("interface".into()), 16));
    assert_eq!(kinds(1, 0), (0, None, 0));
    assert_eq!(interfaces(None, &[]), []);
    let all = interfaces(Some(&network(4, 4)), &[]);
    let places: Vec<(i32, i32)> = all.iter().map(|one| (one.card, one.device)).collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 1), (3, 1)]);
}

#[test]
fn the_first_volume_is_the_images_own() {
    let names = |root: &str| {
        let volumes = [Volume { gib: 2 }, Volume { gib: 500 }, Volume { gib: 500 }];
        let made = mappings(&volumes, Some(root)).unwrap();
        made.iter().filter_map(|one| one.device_name().map(str::to_string)).collect::<Vec<String>>()
    };
    assert_eq!(names("/dev/xvda"), ["/dev/xvda", "/dev/xvdb", "/dev/xvdc"]);
    assert_eq!(names("/dev/xvdb"), ["/dev/xvdb", "/dev/xvdc", "/dev/xvdd"]);
    assert_eq!(mappings(&[], None), None);
}
