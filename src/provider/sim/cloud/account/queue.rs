//! Events as EventBridge puts them into a queue of SQS, and what receiving and deleting does to them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ids::InstanceId;
use crate::observed::NoticeKind;

/// Messages, oldest first. Each is shown to one receiver at a time, until it is deleted or too old.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Queue {
    issued: u64,
    messages: Vec<Message>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Message {
    pub id: u64,
    pub sent: Timestamp,
    pub body: String,
    /// How often it was received; part of the handle, so that an old handle deletes nothing.
    pub received: u64,
    hidden_until: Timestamp,
}

/// SQS keeps a message for four days where nobody says otherwise.
const KEPT_SECS: i64 = 4 * 86_400;
/// A queue that nobody reads stays this short.
const MOST: usize = 10_000;

impl Message {
    pub fn handle(&self) -> String {
        format!("{}-{}", self.id, self.received)
    }
}

impl Queue {
    /// The next messages, which are then hidden from others for a while.
    pub fn receive(&mut self, now: Timestamp, most: usize, hidden_secs: i64) -> Vec<Message> {
        let oldest = now.checked_sub(SignedDuration::from_secs(KEPT_SECS)).unwrap_or(Timestamp::MIN);
        self.messages.retain(|message| message.sent >= oldest);
        let free = self.messages.iter_mut().filter(|message| message.hidden_until <= now).take(most);
        free.map(|message| {
            message.received += 1;
            message.hidden_until = now.checked_add(SignedDuration::from_secs(hidden_secs)).unwrap_or(Timestamp::MAX);
            message.clone()
        })
        .collect()
    }

    /// Deletes what this handle was given for. One that is gone already is no error.
    pub fn delete(&mut self, handle: &str) {
        self.messages.retain(|message| message.handle() != handle);
    }

    pub(super) fn notice(
        &mut self,
        owner: &str,
        region: &str,
        now: Timestamp,
        id: &InstanceId,
        why: NoticeKind,
        at: Timestamp,
    ) {
        let (source, kind, detail) = match why {
            NoticeKind::SpotInterruption => {
                let detail = json!({"instance-id": id.as_str(), "instance-action": "terminate"});
                ("aws.ec2", "EC2 Spot Instance Interruption Warning", detail)
            }
            NoticeKind::BlockEnd => {
                let detail = json!({"instance-id": id.as_str(), "instance-action": "terminate"});
                ("aws.ec2", "Capacity Block Reservation Expiration Warning", detail)
            }
            NoticeKind::Maintenance => {
                let detail = json!({
                    "service": "EC2",
                    "eventTypeCategory": "scheduledChange",
                    "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
                    "startTime": at.to_string(),
                    "affectedEntities": [{"entityValue": id.as_str()}],
                });
                ("aws.health", "AWS Health Event", detail)
            }
        };
        self.put(owner, region, now, source, kind, id, &detail);
    }

    /// A recommendation to move an instance, which has no instant.
    pub(super) fn recommend(&mut self, owner: &str, region: &str, now: Timestamp, id: &InstanceId) {
        let detail = json!({"instance-id": id.as_str()});
        self.put(owner, region, now, "aws.ec2", "EC2 Instance Rebalance Recommendation", id, &detail);
    }

    pub(super) fn state(&mut self, owner: &str, region: &str, now: Timestamp, id: &InstanceId, state: &str) {
        let detail = json!({"instance-id": id.as_str(), "state": state});
        self.put(owner, region, now, "aws.ec2", "EC2 Instance State-change Notification", id, &detail);
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of one event")]
    fn put(
        &mut self,
        owner: &str,
        region: &str,
        now: Timestamp,
        source: &str,
        kind: &str,
        id: &InstanceId,
        detail: &Value,
    ) {
        self.issued += 1;
        let body = json!({
            "version": "0",
            "id": format!("00000000-0000-4000-8000-{:012x}", self.issued),
            "detail-type": kind,
            "source": source,
            "account": owner,
            "time": now.to_string(),
            "region": region,
            "resources": [format!("arn:aws:ec2:{region}:{owner}:instance/{id}")],
            "detail": detail,
        });
        let message = Message { id: self.issued, sent: now, body: body.to_string(), received: 0, hidden_until: now };
        self.messages.push(message);
        if self.messages.len() > MOST {
            self.messages.remove(0);
        }
    }
}
