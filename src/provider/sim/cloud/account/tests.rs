//! What the wire adds to the simulated cloud holds as EC2 has it.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::boot::registration;
use super::{Queue, Run};
use crate::fleet::launch::TaintEffect;
use crate::fleet::reservation::Match;
use crate::ids::Zone;
use crate::observed::{Market, NoticeKind};
use crate::provider::Class;
use crate::provider::sim::cloud::{Circumstances, CloudState, Open};

const FAIR: Circumstances<'static> = Circumstances { fleet: None, lag: SignedDuration::ZERO, stillborn: false };

fn noon() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn run(most: u32, token: Option<&str>, zone: Option<&str>) -> Run {
    Run {
        asked: json!({"MaxCount": most, "Placement": zone}),
        token: token.map(String::from),
        zone: zone.map(Zone::from),
        least: most,
        most,
        instance_type: "p5.48xlarge".into(),
        market: Market::OnDemand,
        reservation: None,
        open: Open::May,
        max_price: None,
        group: None,
        data: json!({}),
        template: None,
        tags: [("a".to_string(), "b".to_string())].into(),
        beside: Default::default(),
        protected: false,
    }
}

#[test]
fn where_not_all_can_be_had_nothing_is_left_behind() {
    let mut cloud = CloudState::new(1);
    let zone = Zone::from("us-west-2a");
    cloud.set_room(&"p5.48xlarge".into(), &zone, Market::OnDemand, Some(2));
    let refused = cloud.run(noon(), &run(3, Some("t"), Some("us-west-2a")), FAIR).unwrap_err();
    assert_eq!(refused.class, Class::NoCapacity);
    assert!(cloud.instances.is_empty() && cloud.account.tags.is_empty() && cloud.account.launches.is_empty());
    let (launch, new) = cloud.run(noon(), &run(2, Some("t"), Some("us-west-2a")), FAIR).unwrap();
    assert!(new && launch.instances.len() == 2);
}

#[test]
fn a_launch_with_no_zone_goes_where_there_is_room_and_its_token_holds_everywhere() {
    let mut cloud = CloudState::new(1);
    cloud.set_room(&"p5.48xlarge".into(), &"us-west-2a".into(), Market::OnDemand, Some(0));
    let (first, _) = cloud.run(noon(), &run(1, Some("t"), None), FAIR).unwrap();
    assert_eq!(cloud.instances[&first.instances[0]].zone, Zone::from("us-west-2b"));
    let (again, new) = cloud.run(noon(), &run(1, Some("t"), None), FAIR).unwrap();
    assert!(!new && again.instances == first.instances);
}

#[test]
fn a_token_is_forgotten_a_day_after_what_it_made() {
    let mut cloud = CloudState::new(1);
    let asked = run(1, Some("t"), Some("us-west-2a"));
    let (first, _) = cloud.run(noon(), &asked, FAIR).unwrap();
    cloud.end(noon(), &first.instances[0]).unwrap();
    let hours = |n| noon() + SignedDuration::from_hours(n);
    cloud.tick(hours(23));
    assert!(!cloud.instances.contains_key(&first.instances[0]), "it is no longer listed");
    assert!(!cloud.run(hours(23), &asked, FAIR).unwrap().1, "the token is remembered longer");
    cloud.tick(hours(26));
    assert!(cloud.run(hours(26), &asked, FAIR).unwrap().1);
}

#[test]
fn an_open_reservation_is_taken_left_or_needed_as_the_launch_says() {
    let mut cloud = CloudState::new(1);
    let (kind, zone) = ("p5.48xlarge".into(), "us-west-2a".into());
    cloud.hold(noon(), "cr-1".into(), None, &kind, &zone, 1, None, Match::Open).unwrap();
    let mut into = |open| {
        let wanted = Run { open, ..run(1, None, Some("us-west-2a")) };
        let launch = cloud.run(noon(), &wanted, FAIR)?.0;
        Ok::<_, crate::provider::ProviderError>(cloud.instances[&launch.instances[0]].reservation.clone())
    };
    assert_eq!(into(Open::Never).unwrap(), None);
    assert_eq!(into(Open::Must).unwrap(), Some("cr-1".into()));
    assert_eq!(into(Open::May).unwrap(), None);
    assert!(into(Open::Must).unwrap_err().message.starts_with("ReservationCapacityExceeded: "));
}

#[test]
fn a_node_registers_with_what_its_user_data_says() {
    let config = r#"--//
{"kind": "NodeConfig", "spec": {"kubelet": {"flags": [
  "--node-labels=tidewright.dev/pool=train,team=vision",
  "--register-with-taints=nvidia.com/gpu=present:NoSchedule,tidewright.dev/starting=:NoExecute"
]}}}
--//--"#;
    let (labels, taints) = registration(Some(&data_encoding::BASE64.encode(config.as_bytes())));
    assert_eq!(
        labels.into_iter().collect::<Vec<_>>(),
        [("team".to_string(), "vision".to_string()), ("tidewright.dev/pool".to_string(), "train".to_string()),]
    );
    assert_eq!(taints[0].value.as_deref(), Some("present"));
    assert_eq!((taints[1].value.as_deref(), taints[1].effect), (None, TaintEffect::NoExecute));
    let script = "/etc/eks/bootstrap.sh ml --kubelet-extra-args '--node-labels=a=b --max-pods=9'";
    let (labels, taints) = registration(Some(&data_encoding::BASE64.encode(script.as_bytes())));
    assert_eq!((labels["a"].as_str(), taints.len()), ("b", 0));
    assert_eq!(registration(Some("no base64")).0.len(), 0);
}

#[test]
fn a_message_comes_again_until_it_is_deleted_by_its_newest_handle() {
    let mut queue = Queue::default();
    queue.notice("1", "us-west-2", noon(), &"i-1".into(), NoticeKind::SpotInterruption, noon());
    let first = queue.receive(noon(), 10, 30).remove(0);
    assert!(queue.receive(noon(), 10, 30).is_empty(), "it is in somebody's hands");
    let later = noon() + SignedDuration::from_secs(31);
    let again = queue.receive(later, 10, 30).remove(0);
    queue.delete(&first.handle());
    let last = noon() + SignedDuration::from_secs(62);
    assert_eq!(queue.receive(last, 10, 30).len(), 1, "an old handle deletes nothing");
    queue.delete(&again.handle());
    let third = format!("{}-3", again.id);
    queue.delete(&third);
    assert!(queue.receive(last + SignedDuration::from_secs(60), 10, 30).is_empty());
}
