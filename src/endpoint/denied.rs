//! What EC2 says to whoever may not: a message that only AWS can read, and what it says to whoever asks STS.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use crate::provider::sim::Sim;

/// The answer to a call that is not allowed, or that needs something that is not.
pub fn message(sim: &Sim, action: &str, needed: Option<&str>) -> String {
    let state = sim.state();
    let (region, owner) = (state.cloud.account.region(), state.cloud.account.owner());
    let of = |kind: &str| format!("arn:aws:ec2:{region}:{owner}:{kind}/*");
    let own = format!("ec2:{action}");
    let (action, resource) = match needed {
        Some("role") => ("iam:PassRole".into(), format!("arn:aws:iam::{owner}:role/simulated")),
        Some("tags") => ("ec2:CreateTags".into(), of("instance")),
        Some(kind) => (own, of(kind)),
        None => (own, made_by(action).map_or_else(|| "*".into(), of)),
    };
    let context = json!({"allowed": false, "explicitDeny": false, "context": {"action": action, "resource": resource}});
    let encoded = BASE64URL_NOPAD.encode(context.to_string().as_bytes());
    format!("You are not authorized to perform this operation. Encoded authorization failure message: {encoded}")
}

/// What a message says.
pub fn decoded(encoded: &str) -> Option<String> {
    let text = String::from_utf8(BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?).ok()?;
    serde_json::from_str::<Value>(&text).ok().map(|_| text)
}

/// What kind of thing an action is allowed on; none where it is for all or for nothing.
fn made_by(action: &str) -> Option<&'static str> {
    if action.starts_with("Describe") || action.starts_with("Purchase") {
        return None;
    }
    let kinds = [
        ("LaunchTemplate", "launch-template"),
        ("CapacityReservation", "capacity-reservation"),
        ("PlacementGroup", "placement-group"),
        ("Instance", "instance"),
    ];
    kinds.into_iter().find(|(word, _)| action.contains(word)).map(|(_, kind)| kind)
}
