//! What is different between two bodies of an object, in a few words each: `train nvidia.com/gpu nominalQuota 56 → 48`.

use serde_json::{Map, Value};

use super::words::clean;

/// Keys that only hold other things: a reader knows where a quota stands.
const HOLDERS: [&str; 6] = ["spec", "resourceGroups", "flavors", "resources", "data", "metadata"];
/// Longer values are cut: their beginning is all that fits.
const LONGEST: usize = 40;

pub fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(old, new, &mut Vec::new(), &mut found);
    // What people come for: GPUs before what follows from them.
    found.sort_by_key(|one| !one.contains("nvidia.com"));
    found
}

fn walk(old: &Value, new: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
    let nothing = Map::new();
    match (old, new) {
        (old, new) if old == new => {}
        // What comes or goes as a whole is told by what is in it.
        (Value::Object(before), Value::Null) if !before.is_empty() => walk_object(before, &nothing, path, found),
        (Value::Null, Value::Object(after)) if !after.is_empty() => walk_object(&nothing, after, path, found),
        (Value::Object(before), Value::Object(after)) => walk_object(before, after, path, found),
        (Value::Array(before), Value::Null) if is_made_of_parts(before) => walk_array(before, &[], path, found),
        (Value::Null, Value::Array(after)) if is_made_of_parts(after) => walk_array(&[], after, path, found),
        (Value::Array(before), Value::Array(after)) if is_made_of_parts(before) || is_made_of_parts(after) => {
            walk_array(before, after, path, found);
        }
        (Value::String(before), Value::String(after)) if before.contains('\n') || after.contains('\n') => {
            found.push(format!("{} {}", path.join(" "), lines(before, after)).trim_start().into());
        }
        (old, new) => found.push(format!("{} {} → {}", path.join(" "), shown(old), shown(new)).trim_start().into()),
    }
}

fn walk_object(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Vec<String>,
) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        // The name of what comes or goes stands in the path already.
        if key == "name" && (before.is_empty() || after.is_empty()) {
            continue;
        }
        let (old, new) = (before.get(key).unwrap_or(&Value::Null), after.get(key).unwrap_or(&Value::Null));
        within(key, path, |path| walk(old, new, path, found));
    }
}

/// Items by their names where they have some, else by their places.
fn walk_array(before: &[Value], after: &[Value], path: &mut Vec<String>, found: &mut Vec<String>) {
    let all = || before.iter().chain(after);
    if all().all(|item| name(item).is_some()) {
        let mut names: Vec<&str> = all().filter_map(name).collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        for name in names {
            let of = |items: &[Value]| items.iter().find(|item| self::name(item) == Some(name)).cloned();
            let (old, new) = (of(before).unwrap_or(Value::Null), of(after).unwrap_or(Value::Null));
            within(name, path, |path| walk(&old, &new, path, found));
        }
        return;
    }
    let most = before.len().max(after.len());
    for index in 0..most {
        let place = if most == 1 { String::new() } else { format!("[{index}]") };
        let (old, new) = (before.get(index).unwrap_or(&Value::Null), after.get(index).unwrap_or(&Value::Null));
        within(&place, path, |path| walk(old, new, path, found));
    }
}

/// The first line that differs, and how many more do.
fn lines(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let most = old.len().max(new.len());
    let differs: Vec<usize> = (0..most).filter(|line| old.get(*line) != new.get(*line)).collect();
    let Some(first) = differs.first() else { return "other line breaks".into() };
    let said = |lines: &[&str]| lines.get(*first).map_or("nothing".into(), |line| cut(&clean(line.trim())));
    let more = if differs.len() > 1 { format!(", and {} more lines", differs.len() - 1) } else { String::new() };
    format!("line {}: {} → {}{more}", first + 1, said(&old), said(&new))
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

/// Whether it is a list of things that have parts, and not of words.
fn is_made_of_parts(items: &[Value]) -> bool {
    items.iter().any(|item| item.is_object() || item.is_array())
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return "nothing".into(),
        Value::String(text) => clean(text),
        Value::Array(items) if items.is_empty() => return "nothing".into(),
        Value::Array(items) => {
            let words = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), clean));
            format!("[{}]", words.collect::<Vec<_>>().join(", "))
        }
        Value::Object(_) => clean(&value.to_string()),
        other => other.to_string(),
    };
    cut(&text)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.into();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
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
            ["serve nvidia.com/gpu nominalQuota nothing → 56"]
        );
    }

    #[test]
    fn what_goes_as_a_whole_is_told_by_what_is_in_it() {
        let (with, without) = (queue(64, &["train"]), queue(64, &[]));
        assert_eq!(differences(&with, &without), ["train nvidia.com/gpu nominalQuota 64 → nothing"]);
        let empty = json!({"spec": {"cohortName": "research", "resourceGroups": []}});
        let told = differences(&empty, &with);
        assert!(told.contains(&"train nvidia.com/gpu nominalQuota nothing → 64".to_string()), "{told:?}");
        assert!(told.iter().all(|one| !one.contains("other content") && !one.contains("something else")), "{told:?}");
    }

    #[test]
    fn what_comes_and_goes_and_what_is_long_is_told_too() {
        let (old, new) = (json!({"spec": {"a": 1, "b": true}}), json!({"spec": {"b": true, "c": "x\u{1b}y"}}));
        assert_eq!(differences(&old, &new), ["a 1 → nothing", "c nothing → x\\u{1b}y"]);
        let file = |end: &str| json!({"data": {"config.yaml": "line\n".repeat(20) + end}});
        assert_eq!(differences(&file("a"), &file("b")), ["config.yaml line 21: a → b"]);
        let words = |words: &[&str]| json!({"spec": {"namespaces": words}});
        assert_eq!(differences(&words(&["a", "b"]), &words(&["a"])), ["namespaces [a, b] → [a]"]);
        let list = |last: u32| json!({"spec": {"levels": [1, last]}});
        assert_eq!(differences(&list(2), &list(3)), ["levels [1, 2] → [1, 3]"]);
    }
}
