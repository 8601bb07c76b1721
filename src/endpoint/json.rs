//! As much of STS, SSM, SQS and EKS as a fleet needs: who calls, which image a parameter names, which notices came, how
//! the cluster is reached.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::model::escape;
use super::{Outcome, denied, refuse, response, value};
use crate::provider::ProviderError;
use crate::provider::sim::Sim;
use crate::provider::sim::cloud::account::Message;

/// What the JSON protocols answer with.
const KIND: &str = "application/x-amz-json-1.0";

/// The actions of STS that are answered.
pub const STS: [&str; 2] = ["GetCallerIdentity", "DecodeAuthorizationMessage"];

/// STS: whose account it is, and what a denial says.
pub fn identity(sim: &Sim, action: &str, form: &[(String, String)], id: &str) -> Result<String, ProviderError> {
    let own: &[&str] = if action == "DecodeAuthorizationMessage" { &["EncodedMessage"] } else { &[] };
    if !STS.contains(&action) {
        return Err(refuse("InvalidAction", format!("The action {action} is not simulated.")));
    }
    let is_known = |name: &str| own.contains(&name) || ["Action", "Version"].contains(&name);
    if let Some((stray, _)) = form.iter().find(|(name, _)| !is_known(name)) {
        return Err(refuse("UnsupportedParameter", format!("The parameter {stray} is not supported here")));
    }
    let told = match action {
        "GetCallerIdentity" => {
            let state = sim.state();
            let owner = state.cloud.account.owner();
            format!(
                "<UserId>AIDASIMULATED</UserId><Account>{owner}</Account><Arn>arn:aws:iam::{owner}:user/simulated</Arn>"
            )
        }
        _ => {
            let encoded = value(form, "EncodedMessage").unwrap_or_default();
            let text = denied::decoded(encoded).ok_or_else(|| {
                let text = "The message that was sent is no authorization message.";
                refuse("InvalidAuthorizationMessageException", text)
            })?;
            let mut told = String::from("<DecodedMessage>");
            escape(&mut told, &text);
            told + "</DecodedMessage>"
        }
    };
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response \
         xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>{told}</{action}Result>\
         <ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{action}Response>"
    ))
}

/// EKS: the cluster that nodes join. Whatever it is called, it is there, and no node asks for it. Nothing else of EKS is.
pub fn cluster(sim: &Sim, request: &Request<Bytes>, refused: Refused) -> Response<Bytes> {
    let (method, path) = (request.method(), request.uri().path());
    let name = path.strip_prefix("/clusters/").filter(|name| !name.is_empty() && !name.contains('/'));
    let (code, message) = match (name, refused) {
        (_, Some(refused)) => refused,
        (Some(name), None) if method == Method::GET && request.uri().query().is_none_or(str::is_empty) => {
            return response(StatusCode::OK, "application/json", told(sim, name));
        }
        _ => (
            "UnsupportedOperationException",
            format!("{method} {path} of EKS is not simulated: DescribeCluster alone is"),
        ),
    };
    let mut reply = response(StatusCode::BAD_REQUEST, "application/json", json!({"message": message}).to_string());
    reply.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(code));
    reply
}

/// The code and the text of a no.
pub type Refused = Option<(&'static str, String)>;

fn told(sim: &Sim, name: &str) -> String {
    let state = sim.state();
    let (owner, region) = (state.cloud.account.owner(), state.cloud.account.region());
    let cluster = json!({"cluster": {
        "name": name,
        "arn": format!("arn:aws:eks:{region}:{owner}:cluster/{name}"),
        "endpoint": format!("https://{name}.simulated.{region}.eks.amazonaws.com"),
        "certificateAuthority": {"data": "c2ltdWxhdGVk"},
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
        "status": "ACTIVE",
        "version": "1.33",
    }});
    cluster.to_string()
}

/// A call of the JSON protocols, by its target.
pub fn answer(sim: &Sim, target: &str, body: &Bytes, request_id: &str) -> Outcome {
    let asked: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let answer = match target {
        "AmazonSSM.GetParameter" => parameter(sim, &asked),
        "AmazonSQS.ReceiveMessage" => receive(sim, &asked),
        "AmazonSQS.DeleteMessage" => delete(sim, &asked),
        _ => Err(("UnknownOperationException", format!("{target} is not simulated"))),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err((code, message)) => return Outcome::Answer(refusal(code, &message, request_id)),
    };
    // Whoever waits for messages and finds none is answered when the time is over; what came meanwhile is there for the next.
    let waits = Duration::from_secs(asked["WaitTimeSeconds"].as_u64().unwrap_or(0));
    let empty = target == "AmazonSQS.ReceiveMessage" && answer.get("Messages").is_none();
    let told = Outcome::Answer(with_id(response(StatusCode::OK, KIND, answer.to_string()), request_id));
    if empty && !waits.is_zero() { Outcome::Slow(waits, Box::new(told)) } else { told }
}

/// A no of the JSON protocols.
pub fn refusal(code: &str, message: &str, request_id: &str) -> Response<Bytes> {
    let body = json!({"__type": code, "message": message});
    with_id(response(StatusCode::BAD_REQUEST, KIND, body.to_string()), request_id)
}

fn with_id(mut reply: Response<Bytes>, request_id: &str) -> Response<Bytes> {
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
    let number = |name: &str, usual: i64, most: i64| {
        let value = asked[name].as_i64().unwrap_or(usual);
        let text = || format!("Value {value} for parameter {name} is invalid. It must be between 0 and {most}.");
        if (0..=most).contains(&value) { Ok(value) } else { Err(("com.amazonaws.sqs#InvalidParameterValue", text())) }
    };
    let hidden = number("VisibilityTimeout", 30, 43_200)?;
    number("WaitTimeSeconds", 0, 20)?;
    let wanted = attributes(asked)?;
    let messages = sim.aside(|state| {
        let now = state.now;
        let queue = state.cloud.account.queue.get_or_insert_default();
        queue.receive(now, usize::try_from(most).unwrap_or(1), hidden)
    });
    let told = messages.iter().map(|message| {
        let mut told = json!({
            "MessageId": format!("00000000-0000-4000-9000-{:012x}", message.id),
            "ReceiptHandle": message.handle(),
            "Body": message.body,
        });
        let said = wanted.iter().map(|name| (name.to_string(), Value::from(attribute(message, name))));
        let said: serde_json::Map<String, Value> = said.collect();
        if !said.is_empty() {
            told["Attributes"] = Value::Object(said);
        }
        told
    });
    let told: Vec<Value> = told.collect();
    Ok(if told.is_empty() { json!({}) } else { json!({"Messages": told}) })
}

/// What is known of a message beside its body.
const ATTRIBUTES: [&str; 2] = ["ApproximateReceiveCount", "SentTimestamp"];

/// Those that are asked for, by the old name of the parameter or by its new one. What EventBridge sends has no attributes of
/// its own, so there are none to choose among by `MessageAttributeNames`.
fn attributes(asked: &Value) -> Result<Vec<&'static str>, (&'static str, String)> {
    let named = ["AttributeNames", "MessageSystemAttributeNames"].into_iter();
    let named: Vec<&str> =
        named.flat_map(|list| asked[list].as_array().into_iter().flatten()).filter_map(Value::as_str).collect();
    let known = |name: &&&str| **name == "All" || ATTRIBUTES.contains(*name);
    if let Some(stray) = named.iter().find(|name| !known(name)) {
        let text = format!("The attribute {stray} is not simulated: {}", ATTRIBUTES.join(", "));
        return Err(("InvalidAttributeName", text));
    }
    Ok(ATTRIBUTES.into_iter().filter(|name| named.contains(name) || named.contains(&"All")).collect())
}

fn attribute(message: &Message, name: &str) -> String {
    match name {
        "SentTimestamp" => message.sent.as_millisecond().to_string(),
        _ => message.received.to_string(),
    }
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
