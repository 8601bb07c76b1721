//! What is different between two bodies of an object, in a few words each: `train nvidia.com/gpu nominalQuota 56 → 48`.

use serde_json::Value;

use super::words::clean;

/// Keys that only hold other things: a reader knows where a quota stands.
const HOLDERS: [&str; 6] = ["spec", "resourceGroups", "flavors", "resources", "data", "metadata"];
/// Longer values are files inside a value: that they differ is all that fits.
const LONGEST: usize = 40;

pub fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(old, new, &mut Vec::new(), &mut found);
    // What people come for: GPUs before what follows from them.
    found.sort_by_key(|one| !one.contains("nvidia.com"));
    found
}

fn walk(old: &Value, new: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let (old, new) = (before.get(key), after.get(key));
                within(key, path, |path| walk(old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null), path, found));
            }
        }
        (Value::Array(before), Value::Array(after)) if is_named(before) && is_named(after) => {
            let names = |items: &[Value]| items.iter().filter_map(name).map(String::from).collect::<Vec<_>>();
            let (old_names, new_names) = (names(before), names(after));
            let added = new_names.iter().filter(|name| !old_names.contains(name));
            for name in old_names.iter().chain(added) {
                let of = |items: &'_ [Value]| items.iter().find(|item| self::name(item) == Some(name)).cloned();
                let (old, new) = (of(before).unwrap_or(Value::Null), of(after).unwrap_or(Value::Null));
                within(name, path, |path| walk(&old, &new, path, found));
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                let place = if before.len() == 1 { String::new() } else { format!("[{index}]") };
                within(&place, path, |path| walk(old, new, path, found));
            }
        }
        _ if path.is_empty() => found.push("other content".into()),
        (old, new) => found.push(format!("{} {} → {}", path.join(" "), shown(old), shown(new)).trim_start().into()),
    }
}

fn within(key: &str, path: &mut Vec<String>, inner: impl FnOnce(&mut Vec<String>)) {
    let told = !key.is_empty() && !HOLDERS.contains(&key);
    if told {
        path.push(clean(key));
    }
    inner(path);
    if told {
        path.pop();
    }
}

fn name(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

fn is_named(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| name(item).is_some())
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return "nothing".into(),
        Value::String(text) => clean(text),
        Value::Array(_) | Value::Object(_) => return "something else".into(),
        other => other.to_string(),
    };
    if text.chars().count() <= LONGEST { text } else { "a longer text".into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(quota: u32, flavors: &[&str]) -> Value {
        let flavor =
            |name: &&str| json!({"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": quota}]});
        json!({"spec": {
            "cohortName": "research",
            "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors.iter().map(flavor).collect::<Vec<_>>()}],
        }})
    }

    #[test]
    fn a_number_that_changes_is_told_with_its_place() {
        assert_eq!(differences(&queue(56, &["train"]), &queue(56, &["train"])), [""; 0]);
        assert_eq!(
            differences(&queue(56, &["train"]), &queue(48, &["train"])),
            ["train nvidia.com/gpu nominalQuota 56 → 48"]
        );
        assert_eq!(
            differences(&queue(56, &["train"]), &queue(56, &["serve", "train"])),
            ["serve nothing → something else"]
        );
    }

    #[test]
    fn what_comes_and_goes_and_what_is_long_is_told_too() {
        let (old, new) = (json!({"spec": {"a": 1, "b": true}}), json!({"spec": {"b": true, "c": "x\u{1b}y"}}));
        assert_eq!(differences(&old, &new), ["a 1 → nothing", "c nothing → x\\u{1b}y"]);
        let file = |end: &str| json!({"data": {"config.yaml": "line\n".repeat(20) + end}});
        assert_eq!(differences(&file("a"), &file("b")), ["config.yaml a longer text → a longer text"]);
        let list = |last: u32| json!({"spec": {"levels": [1, last]}});
        assert_eq!(differences(&list(2), &list(3)), ["levels [1] 2 → 3"]);
    }
}
