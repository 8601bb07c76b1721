//! What EC2 will take away: scheduled events and spot interruptions by asking, and the notices that EventBridge puts
//! into a queue, where the fleet names one.
//!
//! Looking takes nothing out of the queue: several may look, and a plan changes nothing. Messages are hidden for a few
//! seconds and come back until the queue forgets them (`deploy/aws` sets an hour: a notice is over by then, and a
//! recommendation to move had its turn).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::actions::Api;
use super::errors::Failure;
use super::observe::filter;
use super::real::Aws;
use super::seen;
use super::wire::pages;
use crate::hardware::catalogue;
use crate::ids::InstanceId;
use crate::observed::{InstanceSeen, Market, Notice, NoticeKind};

/// Every code of a scheduled event.
const EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];
/// How long a message that was read is hidden from the next who looks, in seconds.
const HIDDEN: i32 = 5;
/// Longer than that: whoever looks twice in a row sees the same twice.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(10);
/// How often the queue is asked at most in one look: ten messages each.
const ASKS: usize = 50;

type Notices = BTreeMap<InstanceId, Notice>;

/// What was said of instances.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Told {
    pub notices: Notices,
    /// Since when it is recommended to move an instance.
    pub recommended: BTreeMap<InstanceId, Timestamp>,
}

/// What is said beside what asks for spot instances alone.
pub async fn read(aws: &Aws) -> Result<Told, Failure> {
    let mut all = scheduled(aws).await?;
    let mut recommended = BTreeMap::new();
    if let Some(queue) = &aws.cloud.queue_url {
        let told = with_what_is_hidden(aws, queued(aws, queue).await?);
        merge(&mut all, told.notices);
        recommended = told.recommended;
    }
    Ok(Told { notices: all, recommended })
}

/// The same with the interruptions, where one of these is a spot instance: a document that buys no more of them takes none
/// away.
pub async fn with_interruptions(
    aws: &Aws,
    told: Told,
    found: &BTreeMap<InstanceId, InstanceSeen>,
) -> Result<Told, Failure> {
    if !found.values().any(|seen| seen.market == Market::Spot && seen.state.is_live()) {
        return Ok(told);
    }
    let mut notices = told.notices;
    merge(&mut notices, interrupted(aws).await?);
    Ok(Told { notices, ..told })
}

/// Of two notices the one that comes first is the one to be ready for.
fn merge(all: &mut Notices, more: impl IntoIterator<Item = (InstanceId, Notice)>) {
    for (id, notice) in more {
        let known = all.entry(id).or_insert_with(|| notice.clone());
        if notice.at < known.at {
            *known = notice;
        }
    }
}

/// Only instances with an event are asked for, whoever they belong to: ours are found by their ids.
async fn scheduled(aws: &Aws) -> Result<Notices, Failure> {
    let request = aws.wire.ec2.describe_instance_status().filters(filter("event.code", EVENTS)).max_results(1000);
    let found = pages!(aws.wire, Api::DescribeInstanceStatus, request, instance_statuses).await?;
    let mut all = Notices::new();
    for status in found {
        let Some(id) = status.instance_id.as_deref() else { continue };
        for event in status.events.unwrap_or_default() {
            if let Some(at) = event.not_before.as_ref().and_then(seen::timestamp)
                && is_ahead(event.description.as_deref())
            {
                merge(&mut all, [(id.into(), Notice { why: NoticeKind::Maintenance, at })]);
            }
        }
    }
    Ok(all)
}

/// Events stay listed for a while after they are over, with a word before them.
fn is_ahead(description: Option<&str>) -> bool {
    let text = description.unwrap_or_default();
    !text.starts_with("[Completed]") && !text.starts_with("[Canceled]")
}

async fn interrupted(aws: &Aws) -> Result<Notices, Failure> {
    let marked = filter("status-code", ["marked-for-termination", "marked-for-stop"]);
    let request = aws.wire.ec2.describe_spot_instance_requests().filters(marked).max_results(1000);
    let found = pages!(aws.wire, Api::DescribeSpotInstanceRequests, request, spot_instance_requests).await?;
    let told = found.into_iter().filter_map(|request| {
        let since = request.status.as_ref()?.update_time.as_ref().and_then(seen::timestamp)?;
        Some((request.instance_id?.into(), spot(since)?))
    });
    Ok(told.collect())
}

fn spot(told: Timestamp) -> Option<Notice> {
    let secs = i64::try_from(catalogue().notices.spot.as_secs()).ok()?;
    let at = told.checked_add(SignedDuration::from_secs(secs)).ok()?;
    Some(Notice { why: NoticeKind::SpotInterruption, at })
}

async fn queued(aws: &Aws, queue: &str) -> Result<Told, Failure> {
    let mut all = Told::default();
    for _ in 0..ASKS {
        let request = aws.wire.sqs.receive_message().queue_url(queue).max_number_of_messages(10);
        let request = request.visibility_timeout(HIDDEN).wait_time_seconds(0);
        let answer = aws.wire.call(Api::ReceiveMessage, request.send()).await?;
        let messages = answer.messages.unwrap_or_default();
        if messages.is_empty() {
            break;
        }
        for (id, word) in messages.iter().filter_map(|message| told(message.body.as_deref()?)) {
            match word {
                Word::Notice(notice) => merge(&mut all.notices, [(id, notice)]),
                Word::Recommended(since) => drop(all.recommended.entry(id).or_insert(since)),
            }
        }
    }
    Ok(all)
}

/// What we have just read is hidden from us too, and was said all the same.
fn with_what_is_hidden(aws: &Aws, told: Told) -> Told {
    let now = aws.wire.clock.now();
    let mut known = aws.known.borrow_mut();
    known.told.retain(|(at, _)| now.duration_since(*at) < REMEMBERED);
    let mut all = told.clone();
    for (_, before) in &known.told {
        merge(&mut all.notices, before.notices.clone());
        for (id, since) in &before.recommended {
            all.recommended.entry(id.clone()).or_insert(*since);
        }
    }
    known.told.push((now, told));
    all
}

/// What EventBridge writes.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Envelope {
    detail_type: String,
    time: Timestamp,
    detail: Detail,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Detail {
    instance_id: String,
}

/// What a message says of an instance.
#[derive(Clone, PartialEq, Debug)]
enum Word {
    Notice(Notice),
    Recommended(Timestamp),
}

/// The word in a message. A change of state and whatever else is in the queue is none.
fn told(body: &str) -> Option<(InstanceId, Word)> {
    let envelope: Envelope = serde_json::from_str(body).ok()?;
    let word = match envelope.detail_type.as_str() {
        "EC2 Spot Instance Interruption Warning" | "EC2 Capacity Reservation Instance Interruption Warning" => {
            Word::Notice(spot(envelope.time)?)
        }
        "EC2 Instance Rebalance Recommendation" => Word::Recommended(envelope.time),
        _ => return None,
    };
    Some((envelope.detail.instance_id.as_str().into(), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str) -> String {
        format!(
            r#"{{"version": "0", "id": "1", "detail-type": "{kind}", "source": "aws.ec2", "account": "123456789012",
                "time": "2026-11-17T12:00:00Z", "region": "us-east-2", "resources": [],
                "detail": {{"instance-id": "i-1", "instance-action": "terminate"}}}}"#
        )
    }

    #[test]
    fn a_warning_gives_two_minutes_and_a_recommendation_no_time_at_all() {
        for kind in ["EC2 Spot Instance Interruption Warning", "EC2 Capacity Reservation Instance Interruption Warning"]
        {
            let Some((id, Word::Notice(notice))) = told(&message(kind)) else { panic!("{kind}") };
            assert_eq!((id.as_str(), notice.at.to_string().as_str()), ("i-1", "2026-11-17T12:02:00Z"));
        }
        let since = "2026-11-17T12:00:00Z".parse().unwrap();
        let moved = told(&message("EC2 Instance Rebalance Recommendation"));
        assert_eq!(moved, Some(("i-1".into(), Word::Recommended(since))));
        assert_eq!(told(&message("EC2 Instance State-change Notification")), None);
        assert_eq!(told("not an event"), None);
        assert_eq!(told(r#"{"detail-type": "AWS Health Event", "time": "2026-11-17T12:00:00Z", "detail": {}}"#), None);
    }

    #[test]
    fn the_first_notice_is_the_one_to_be_ready_for_and_events_that_are_over_are_none() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let maintenance = Notice { why: NoticeKind::Maintenance, at: at("2026-11-20T00:00:00Z") };
        let mut all = Notices::from([("i-1".into(), maintenance.clone())]);
        let warned = |(id, word)| match word {
            Word::Notice(notice) => Some((id, notice)),
            Word::Recommended(_) => None,
        };
        merge(&mut all, told(&message("EC2 Spot Instance Interruption Warning")).and_then(warned));
        assert_eq!(all.values().next().unwrap().why, NoticeKind::SpotInterruption);
        merge(&mut all, [("i-1".into(), maintenance)]);
        assert_eq!(all.values().next().unwrap().why, NoticeKind::SpotInterruption);
        assert!(is_ahead(Some("The instance is running on degraded hardware")) && is_ahead(None));
        assert!(!is_ahead(Some("[Completed] The instance was rebooted")));
    }
}
