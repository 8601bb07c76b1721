//! Bodies of objects, compared as a server-side apply does: fields that we do not set are not ours.

use serde_json::{Map, Value};

use crate::queue::parse::quantity;

/// Quantities that a server may write another way: `200` and `"200"` are one amount.
const QUANTITIES: [&str; 3] = ["nominalQuota", "borrowingLimit", "lendingLimit"];
/// How many differences a sentence takes.
const SHOWN: usize = 4;

/// A field that is not as it should be: its path, what it should be and what it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference<'a> {
    pub path: String,
    pub wanted: &'a Value,
    pub seen: &'a Value,
}

/// Whether everything that is wanted is so; what else is there does not matter.
pub fn covers(seen: &Value, wanted: &Value) -> bool {
    differences(seen, wanted).is_empty()
}

/// What is wanted and not so. Lists are compared whole, because the server replaces them whole.
pub fn differences<'a>(seen: &'a Value, wanted: &'a Value) -> Vec<Difference<'a>> {
    let mut found = Vec::new();
    compare("", "", seen, wanted, &mut found);
    found
}

fn compare<'a>(path: &str, key: &str, seen: &'a Value, wanted: &'a Value, found: &mut Vec<Difference<'a>>) {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            for (key, wanted) in wanted {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, key, seen.get(key).unwrap_or(&Value::Null), wanted, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let places = a.iter().zip(b).enumerate();
            places.for_each(|(at, (a, b))| compare(&format!("{path}[{at}]"), key, a, b, found));
        }
        _ if is_same(key, seen, wanted) => {}
        _ => found.push(Difference { path: path.into(), wanted, seen }),
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

/// Both sides of some differences in words.
pub fn words(differences: &[Difference<'_>]) -> (String, String) {
    let side = |of: &dyn Fn(&Difference<'_>) -> String| {
        let mut parts: Vec<String> = differences.iter().take(SHOWN).map(of).collect();
        if differences.len() > SHOWN {
            parts.push(format!("{} more", differences.len() - SHOWN));
        }
        parts.join(", ")
    };
    let field =
        |path: &str, value: &Value| if value.is_null() { format!("no {path}") } else { format!("{path}: {value}") };
    (side(&|one| field(&one.path, one.wanted)), side(&|one| field(&one.path, one.seen)))
}

/// The merge patch that makes what is seen as it is wanted.
pub fn patch(seen: &Value, wanted: &Value) -> Value {
    let (Value::Object(seen), Value::Object(wanted)) = (seen, wanted) else { return wanted.clone() };
    let changed = wanted.iter().filter_map(|(key, wanted)| {
        let seen = seen.get(key).unwrap_or(&Value::Null);
        let mut found = Vec::new();
        compare("", key, seen, wanted, &mut found);
        (!found.is_empty()).then(|| (key.clone(), patch(seen, wanted)))
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
    fn differences_are_told_by_their_path() {
        let wanted = json!({"spec": {"stopPolicy": "None", "list": [{"nominalQuota": "200"}]}});
        let seen = json!({"spec": {"list": [{"nominalQuota": "100"}], "other": 1}});
        let (should, is) = words(&differences(&seen, &wanted));
        assert_eq!(should, "spec.stopPolicy: \"None\", spec.list[0].nominalQuota: \"200\"");
        assert_eq!(is, "no spec.stopPolicy, spec.list[0].nominalQuota: \"100\"");
        // A list is replaced whole.
        assert_eq!(patch(&seen, &wanted), wanted);
    }
}
