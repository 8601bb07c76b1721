//! As much of STS, SSM, SQS and EKS as a fleet needs: who calls, which image a parameter names, which notices came, how
//! the cluster is reached.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::response;
use crate::provider::sim::Sim;

/// What the JSON protocols answer with.
const KIND: &str = "application/x-amz-json-1.0";

/// STS: whose account it is.
pub fn caller(sim: &Sim, request_id: &str) -> Response<Bytes> {
    let state = sim.state();
    let owner = state.cloud.account.owner();
    let mut body = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = write!(
        body,
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>\
         <UserId>AIDASIMULATED</UserId><Account>{owner}</Account><Arn>arn:aws:iam::{owner}:user/simulated</Arn>\
         </GetCallerIdentityResult><ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>\
         </GetCallerIdentityResponse>"
    );
    response(StatusCode::OK, "text/xml", body)
}

/// EKS: the cluster that nodes join. Whatever it is called, it is there, and no node asks for it.
pub fn cluster(sim: &Sim, name: &str) -> Response<Bytes> {
    let state = sim.state();
    let (owner, region) = (state.cloud.account.owner(), state.cloud.account.region());
    let body = json!({"cluster": {
        "name": name,
        "arn": format!("arn:aws:eks:{region}:{owner}:cluster/{name}"),
        "endpoint": format!("https://{name}.simulated.{region}.eks.amazonaws.com"),
        "certificateAuthority": {"data": "c2ltdWxhdGVk"},
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
        "status": "ACTIVE",
        "version": "1.33",
    }});
    response(StatusCode::OK, "application/json", body.to_string())
}

/// A call of the JSON protocols, by its target.
pub fn answer(sim: &Sim, target: &str, body: &Bytes, request_id: &str) -> Response<Bytes> {
    let asked: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let answer = match target {
        "AmazonSSM.GetParameter" => parameter(sim, &asked),
        "AmazonSQS.ReceiveMessage" => receive(sim, &asked),
        "AmazonSQS.DeleteMessage" => delete(sim, &asked),
        _ => Err(("UnknownOperationException", format!("{target} is not simulated"))),
    };
    let mut reply = match answer {
        Ok(value) => response(StatusCode::OK, KIND, value.to_string()),
        Err((code, message)) => {
            let body = json!({"__type": code, "message": message});
            response(StatusCode::BAD_REQUEST, KIND, body.to_string())
        }
    };
    if let Ok(id) = request_id.parse() {
        reply.headers_mut().insert("x-amzn-requestid", id);
    }
    reply
}

type Answer = Result<Value, (&'static str, String)>;

/// A member that is known and does something; all others are refused by name.
fn only(asked: &Value, known: &[&str]) -> Result<(), (&'static str, String)> {
    let fields = asked.as_object().ok_or(("SerializationException", "the body is no JSON object".to_string()))?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(stray) => Err(("UnsupportedParameter", format!("The parameter {stray} is not supported here"))),
        None => Ok(()),
    }
}

/// Every public parameter of AWS's own that could name an image names one.
fn parameter(sim: &Sim, asked: &Value) -> Answer {
    only(asked, &["Name", "WithDecryption"])?;
    let name = asked["Name"].as_str().unwrap_or_default();
    let (plain, version) = name.rsplit_once(':').unwrap_or((name, "1"));
    let version: u64 =
        version.parse().map_err(|_| ("ParameterVersionNotFound", format!("no version {version} of {plain}")))?;
    if !plain.starts_with("/aws/service/") {
        return Err(("ParameterNotFound", format!("Parameter {plain} not found.")));
    }
    let state = sim.state();
    let image = state.cloud.fixed_id("ami", &[plain, &version.to_string()]);
    let region = state.cloud.account.region();
    let mut parameter = json!({
        "Name": plain,
        "Type": "String",
        "Value": image,
        "Version": version,
        "LastModifiedDate": 1_767_225_600.0,
        "ARN": format!("arn:aws:ssm:{region}::parameter{plain}"),
        "DataType": "aws:ec2:image",
    });
    if name != plain {
        parameter["Selector"] = format!(":{version}").into();
    }
    Ok(json!({"Parameter": parameter}))
}

/// Notices, as EventBridge would have put them into the queue. There is one queue, whatever its address.
fn receive(sim: &Sim, asked: &Value) -> Answer {
    let known = ["QueueUrl", "MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds", "AttributeNames"];
    only(asked, &[&known[..], &["MessageSystemAttributeNames", "MessageAttributeNames"]].concat())?;
    queue_url(asked)?;
    let most = asked["MaxNumberOfMessages"].as_u64().unwrap_or(1);
    if !(1..=10).contains(&most) {
        let text = format!("Value {most} for parameter MaxNumberOfMessages is invalid. It must be between 1 and 10.");
        return Err(("com.amazonaws.sqs#InvalidParameterValue", text));
    }
    let hidden = asked["VisibilityTimeout"].as_i64().unwrap_or(30);
    let messages = sim.aside(|state| {
        let now = state.now;
        let queue = state.cloud.account.queue.get_or_insert_default();
        queue.receive(now, usize::try_from(most).unwrap_or(1), hidden)
    });
    let told = messages.iter().map(|message| {
        json!({
            "MessageId": format!("00000000-0000-4000-9000-{:012x}", message.id),
            "ReceiptHandle": message.handle(),
            "Body": message.body,
            "Attributes": {
                "SentTimestamp": message.sent.as_millisecond().to_string(),
                "ApproximateReceiveCount": message.received.to_string(),
            },
        })
    });
    let told: Vec<Value> = told.collect();
    Ok(if told.is_empty() { json!({}) } else { json!({"Messages": told}) })
}

fn delete(sim: &Sim, asked: &Value) -> Answer {
    only(asked, &["QueueUrl", "ReceiptHandle"])?;
    queue_url(asked)?;
    let handle = asked["ReceiptHandle"].as_str().unwrap_or_default().to_string();
    sim.aside(|state| {
        if let Some(queue) = &mut state.cloud.account.queue {
            queue.delete(&handle);
        }
    });
    Ok(json!({}))
}

fn queue_url(asked: &Value) -> Result<(), (&'static str, String)> {
    match asked["QueueUrl"].as_str() {
        Some(url) if !url.is_empty() => Ok(()),
        _ => Err(("com.amazonaws.sqs#QueueDoesNotExist", "The specified queue does not exist.".into())),
    }
}
