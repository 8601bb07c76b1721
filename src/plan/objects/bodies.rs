//! Bodies of objects, compared as a server-side apply does: fields that we do not set are not ours.

use serde_json::{Map, Value};

use crate::queue::parse::quantity;

/// Quantities that a server may write another way: `200` and `"200"` are one amount.
const QUANTITIES: [&str; 3] = ["nominalQuota", "borrowingLimit", "lendingLimit"];
/// Whether everything that is wanted is so; what else is there does not matter. Lists are compared whole, because the
/// server replaces them whole.
pub fn covers(seen: &Value, wanted: &Value) -> bool {
    covers_at("", seen, wanted)
}

fn covers_at(key: &str, seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| covers_at(key, seen.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a.iter().zip(b).all(|(a, b)| covers_at(key, a, b)),
        _ => is_same(key, seen, wanted),
    }
}

fn is_same(key: &str, seen: &Value, wanted: &Value) -> bool {
    let amount = |value: &Value| quantity(&"cpu".into(), value);
    let nothing = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        // The server leaves out what is false or empty.
        Value::Bool(is) => !is,
        Value::String(text) => text.is_empty(),
        other => other.is_null(),
    };
    seen == wanted
        || (QUANTITIES.contains(&key) && amount(seen).is_some() && amount(seen) == amount(wanted))
        || (nothing(seen) && nothing(wanted))
}

/// The merge patch that makes what is seen as it is wanted.
pub fn patch(seen: &Value, wanted: &Value) -> Value {
    let (Value::Object(seen), Value::Object(wanted)) = (seen, wanted) else { return wanted.clone() };
    let changed = wanted.iter().filter_map(|(key, wanted)| {
        let seen = seen.get(key).unwrap_or(&Value::Null);
        (!covers_at(key, seen, wanted)).then(|| (key.clone(), patch(seen, wanted)))
    });
    Value::Object(changed.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_set_is_not_ours_to_judge() {
        let wanted = json!({"spec": {"cohortName": "c", "list": [{"name": "a", "nominalQuota": 200}]}});
        let seen = json!({"spec": {"cohortName": "c", "stopPolicy": "None",
                                   "list": [{"name": "a", "nominalQuota": "200", "extra": 1}]}});
        assert!(covers(&seen, &wanted));
        let longer = json!({"spec": {"cohortName": "c", "list": [{"name": "a", "nominalQuota": 200}, {}]}});
        assert!(!covers(&longer, &wanted));
        assert!(covers(&json!({}), &json!({"spec": {}})), "an empty object is no object");
        assert!(covers(&json!({}), &json!({"globalDefault": false})), "what is false is left out");
        assert!(!covers(&json!({"globalDefault": true}), &json!({"globalDefault": false})));
        assert!(!covers(&json!({}), &json!({"globalDefault": true})));
    }

    #[test]
    fn a_patch_has_what_differs_and_lists_whole() {
        let wanted = json!({"spec": {"stopPolicy": "None", "list": [{"nominalQuota": "200"}]}});
        let seen = json!({"spec": {"list": [{"nominalQuota": "100"}], "other": 1}});
        assert_eq!(patch(&seen, &wanted), wanted);
        assert_eq!(patch(&wanted, &seen)["spec"], json!({"list": [{"nominalQuota": "100"}], "other": 1}));
    }
}
