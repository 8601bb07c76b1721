//! A plan as a file: what `plan --out` writes and `apply` takes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effect::{Effects, Thing};
use crate::ids::{Digest, FleetName, PlanId};
use crate::plan::{Plan, PlanInput};

/// What the file is, so that no other JSON is taken for it.
const KIND: &str = "tidewright-plan";
/// The second number grows when fields are added, the first when an older program cannot read it any more.
const FORMAT_VERSION: &str = "2.0";

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Saved {
    pub kind: String,
    pub format_version: String,
    pub fleet: FleetName,
    /// The digest of the input that it was made from.
    pub id: PlanId,
    /// The digest of the effects.
    pub digest: Digest,
    /// What may be done at most.
    pub effects: Effects,
    /// The parts that were asked for; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<Thing>,
    /// Whether nodes with work were to move for the fabric.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub defragment: bool,
    pub plan: Plan,
}

/// Ends with a line break.
pub fn save(input: &PlanInput, plan: &Plan) -> String {
    let saved = Saved {
        kind: KIND.into(),
        format_version: FORMAT_VERSION.into(),
        fleet: input.target.standing.fleet.clone(),
        id: plan.id.clone(),
        digest: plan.digest.clone(),
        effects: plan.effects.clone(),
        only: input.only.clone(),
        defragment: input.defragment,
        plan: plan.clone(),
    };
    serde_json::to_string_pretty(&saved).expect("our own types always serialise") + "\n"
}

/// A saved plan, or why it is none, in words for the person who named the file.
pub fn load_saved(text: &str) -> Result<Saved, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        _ if text.trim().is_empty() => "it is empty".to_string(),
        serde_json::error::Category::Eof => {
            format!("it is cut short: it ends on line {} in the middle of a value; save the plan again", error.line())
        }
        _ => format!("it is no saved plan: line {}, column {} is no JSON", error.line(), error.column()),
    })?;
    let of = |name: &str| value.get(name).and_then(Value::as_str);
    match (of("kind"), of("format_version")) {
        (Some(KIND), Some(version)) if major(version) == major(FORMAT_VERSION) => {}
        (Some(KIND), Some(version)) => {
            return Err(format!(
                "it has format {}, and this program reads {FORMAT_VERSION}: save the plan again with this program",
                super::words::clean(version)
            ));
        }
        // What `plan --output json` prints looks similar.
        (None, Some(_)) if value.get("plan_id").is_some() => {
            return Err(
                "it is the output for programs, not a saved plan: write one with `tidewright plan --out FILE`".into()
            );
        }
        _ => return Err("it is no saved plan: write one with `tidewright plan --out FILE`".into()),
    }
    let saved: Saved =
        serde_json::from_value(value).map_err(|error| format!("it is damaged: {error}; save the plan again"))?;
    let whole = saved.effects.digest() == saved.digest
        && saved.plan.effects == saved.effects
        && saved.plan.digest == saved.digest
        && saved.plan.id == saved.id;
    if whole {
        Ok(saved)
    } else {
        Err("it was changed after it was saved: its digest does not fit; save the plan again".into())
    }
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}
