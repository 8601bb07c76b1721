//! What a launch sends, and what it finds of templates and subnets.

use super::*;
use crate::ids::SlotId;
use crate::provider::aws::tests::bench::written;
use crate::units::Usd;

fn request(market: Market) -> LaunchRequest {
    LaunchRequest {
        slot: SlotId::new(&"train".into(), 3),
        generation: 2,
        token: "TOKEN".into(),
        instance_type: "p5.48xlarge".into(),
        zone: "us-west-2a".into(),
        market,
        reservation: matches!(market, Market::Reserved | Market::Block).then(|| "cr-1".into()),
        max_price: (market == Market::Spot).then(|| Usd("12.50".parse().unwrap())),
        template: "tidewright-ml-train".into(),
        template_digest: "d1".into(),
        group: Some("tidewright-ml-train".into()),
        source: 0,
        host: None,
    }
}

fn tag() -> SlotTag {
    SlotTag { fleet: "ml".into(), slot: SlotId::new(&"train".into(), 3), generation: 2 }
}

fn efa(card: i32) -> Interface {
    let kind = if card == 0 { "efa" } else { "efa-only" };
    Interface { card, device: i32::from(card > 0), kind: kind.into(), groups: vec!["sg-1".into()] }
}

fn version(interfaces: Vec<Interface>) -> Version {
    Version { number: 4, digest: Some("d1".into()), whole: None, interfaces }
}

fn sent(market: Market, interfaces: Vec<Interface>) -> RunInstancesInput {
    input(&request(market), &tag(), &version(interfaces), "subnet-1").build().unwrap()
}

const TAGS: &str = r#"tags: [ Tag { key: "Name", value: "ml/train/3", }, Tag { key: "tidewright.dev/fleet", value: "ml", }, Tag { key: "tidewright.dev/generation", value: "2", }, Tag { key: "tidewright.dev/slot", value: "train/3", }, Tag { key: "tidewright.dev/template", value: "d1", }, ],"#;

#[test]
fn a_launch_into_a_reservation_pins_everything_and_carries_its_tags() {
    let sent = sent(Market::Reserved, Vec::new());
    let expected = [
        "RunInstancesInput {",
        "instance_type: P548xlarge, max_count: 1, min_count: 1,",
        r#"placement: Placement { group_name: "tidewright-ml-train", availability_zone: "us-west-2a", },"#,
        r#"subnet_id: "subnet-1", user_data: "*** Sensitive Data Redacted ***","#,
        "tag_specifications: [",
        &format!("TagSpecification {{ resource_type: Instance, {TAGS} }},"),
        &format!("TagSpecification {{ resource_type: Volume, {TAGS} }}, ],"),
        "launch_template: LaunchTemplateSpecification {",
        r#"launch_template_name: "tidewright-ml-train", version: "4", },"#,
        "capacity_reservation_specification: CapacityReservationSpecification {",
        r#"capacity_reservation_target: CapacityReservationTarget { capacity_reservation_id: "cr-1", }, },"#,
        r#"client_token: "TOKEN", }"#,
    ];
    assert_eq!(written(&sent), expected.join(" "));
}

#[test]
fn one_instance_is_asked_for_with_the_token_of_the_intent() {
    for market in [Market::Reserved, Market::Block, Market::OnDemand, Market::Spot] {
        let sent = sent(market, Vec::new());
        assert_eq!((sent.min_count(), sent.max_count(), sent.client_token()), (Some(1), Some(1), Some("TOKEN")));
        assert_eq!(sent.launch_template().unwrap().version(), Some("4"));
        let kinds: Vec<_> = sent.tag_specifications().iter().filter_map(|tags| tags.resource_type()).collect();
        assert_eq!(kinds, [&ResourceType::Instance, &ResourceType::Volume]);
    }
}

#[test]
fn each_market_is_asked_for_in_its_own_words() {
    let target = |input: &RunInstancesInput| {
        let place = input.capacity_reservation_specification().unwrap();
        let target = place.capacity_reservation_target().and_then(|target| target.capacity_reservation_id());
        (target.map(str::to_string), place.capacity_reservation_preference().cloned())
    };
    let kind =
        |input: &RunInstancesInput| input.instance_market_options().and_then(|options| options.market_type()).cloned();
    let reserved = sent(Market::Reserved, Vec::new());
    assert_eq!((target(&reserved), kind(&reserved)), ((Some("cr-1".into()), None), None));
    let block = sent(Market::Block, Vec::new());
    assert_eq!((target(&block), kind(&block)), ((Some("cr-1".into()), None), Some(MarketType::CapacityBlock)));
    let none = Some(CapacityReservationPreference::None);
    let on_demand = sent(Market::OnDemand, Vec::new());
    assert_eq!((target(&on_demand), kind(&on_demand)), ((None, none), None));
    let spot = sent(Market::Spot, Vec::new());
    let options = spot.instance_market_options().unwrap().spot_options().unwrap();
    assert_eq!((kind(&spot), options.max_price()), (Some(MarketType::Spot), Some("12.5")));
    // EC2 refuses a spot instance that is protected.
    assert_eq!((spot.disable_api_termination(), reserved.disable_api_termination()), (Some(false), None));
}

#[test]
fn interfaces_take_the_subnet_and_then_the_instance_names_none() {
    let plain = sent(Market::Reserved, Vec::new());
    assert_eq!((plain.subnet_id(), plain.network_interfaces().len()), (Some("subnet-1"), 0));
    let wide = sent(Market::Reserved, (0..32).map(efa).collect());
    assert_eq!((wide.subnet_id(), wide.network_interfaces().len()), (None, 32));
    assert!(wide.network_interfaces().iter().all(|one| one.subnet_id() == Some("subnet-1")));
}

#[test]
fn a_version_says_by_its_description_what_it_is() {
    let found = |text: &str| LaunchTemplateVersion::builder().version_number(4).version_description(text).build();
    let ours = super::version(&found(&description(&"d1".into(), "w1"))).unwrap();
    assert_eq!((ours.digest, ours.whole), (Some("d1".into()), Some("w1".into())));
    assert_eq!(super::version(&found("made by hand")).unwrap().digest, None);
}

#[test]
fn a_subnet_is_the_same_as_long_as_it_has_room() {
    let subnet = |id: &str, free| Subnet::builder().subnet_id(id).available_ip_address_count(free).build();
    assert_eq!(roomy(&[subnet("b", 4000), subnet("a", 100)]).unwrap(), "a");
    assert_eq!(roomy(&[subnet("b", 3999), subnet("a", 99)]).unwrap(), "a");
    assert_eq!(roomy(&[subnet("b", 30), subnet("a", 3)]).unwrap(), "b");
    assert_eq!(roomy(&[]), None);
}
