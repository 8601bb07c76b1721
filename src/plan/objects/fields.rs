//! What is different between an object as it is and as it is wanted, in the words of the documents: `guarantee of train
//! 56 → 48 GPUs`. Whoever wrote `guarantee: {gpus: 48}` never saw a `nominalQuota`.
//!
//! Fields that we do not set are not ours, as in a server-side apply. Lists are the server's to replace whole, and are
//! told item by item.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::compile::currency::{AMPLE, CURRENCY, FLAVOR};
use crate::compile::holds::is_accelerator;
use crate::fleet::worth;
use crate::ids::ResourceName;
use crate::observed::ObjectKind;
use crate::queue::parse::quantity;

/// Longer values are cut: their beginning is all that fits.
const LONGEST: usize = 40;
/// So much of what two long texts have in common is shown before the part in which they differ.
const BEFORE: usize = 12;
/// How many fields a sentence takes.
const SHOWN: usize = 4;
/// What a pool's share is called in a Quota, by what Kueue calls it.
const AMOUNTS: [(&str, &str); 3] =
    [("nominalQuota", "guarantee"), ("borrowingLimit", "borrow"), ("lendingLimit", "lend")];
/// What fields are called in documents; empty for those that only hold others.
const NAMES: [(&str, &str); 16] = [
    ("spec", ""),
    ("data", ""),
    ("metadata", ""),
    ("fairSharing", ""),
    ("matchExpressions", ""),
    ("values", ""),
    ("matchResources", ""),
    ("cohortName", "cohort"),
    ("parentName", "parent cohort"),
    ("namespaceSelector", "namespaces"),
    ("nodeLabels", "node labels"),
    ("nodeLabel", "label"),
    ("topologyName", "topology"),
    ("levels", "fabric levels"),
    ("clusterQueue", "ClusterQueue"),
    ("preemptionPolicy", "preempts"),
];
/// Fields of ours that go when nobody wants them any more; what else we do not set may be the server's.
const MAY_GO: [&str; 2] = ["cohortName", "parentName"];

/// What an item of a list is known by.
const NAMED_BY: [&str; 2] = ["name", "input"];

/// A field that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub name: String,
    pub seen: String,
    pub wanted: String,
}

impl Field {
    /// "guarantee of train 56 → 48 GPUs"
    pub fn change(&self) -> String {
        let Self { name, seen, wanted } = self;
        let seen = match seen.strip_suffix(" GPUs") {
            Some(number) if wanted.ends_with(" GPUs") => number,
            _ => seen,
        };
        format!("{name} {seen} → {wanted}").trim_start().into()
    }
}

/// What is wanted and not so: GPUs first, then what follows from them.
pub fn fields(kind: ObjectKind, seen: &Value, wanted: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    amounts(kind, seen, wanted, &mut found);
    Walk { kind, both_sides: kind == ObjectKind::ConfigMap, path: Vec::new(), found: &mut found }.value(seen, wanted);
    found
}

/// "guarantee of train 56 → 48 GPUs, lend of train 8 → 0 GPUs and 3 more"
pub fn changes(fields: &[Field]) -> String {
    few(fields, Field::change)
}

/// How it should be, and how it is.
pub fn sides(fields: &[Field]) -> (String, String) {
    if fields.is_empty() {
        return ("as it was written".into(), "something else".into());
    }
    let side = |field: &Field, value: &str| format!("{} {value}", field.name).trim_start().into();
    (few(fields, |field| side(field, &field.wanted)), few(fields, |field| side(field, &field.seen)))
}

/// "8 GPUs", "48 × 3g.40gb", "3072 cpu"
pub fn amount(resource: &ResourceName, amount: i64) -> String {
    match (resource.as_str(), resource.as_str().strip_prefix("nvidia.com/mig-")) {
        (CURRENCY, _) if amount >= whole(AMPLE) => "no limit".into(),
        (CURRENCY, _) => worth::text(amount.unsigned_abs()),
        (_, Some(profile)) => format!("{amount} × {}", profile.replace(".me", "+me")),
        ("nvidia.com/gpu", _) if amount == 1 => "1 GPU".into(),
        ("nvidia.com/gpu", _) => format!("{amount} GPUs"),
        (name, _) => format!("{amount} {name}"),
    }
}

fn whole(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn few(fields: &[Field], of: impl Fn(&Field) -> String) -> String {
    let told = fields.iter().take(SHOWN).map(of).collect::<Vec<_>>().join(", ");
    let more = fields.len().saturating_sub(SHOWN);
    if more > 0 { format!("{told} and {more} more") } else { told }
}

/// What each flavor gives of each resource.
fn given(body: &Value) -> BTreeMap<(&str, &str), &Value> {
    fn items(value: &Value) -> impl Iterator<Item = &Value> {
        value.as_array().into_iter().flatten()
    }
    let flavors = items(&body["spec"]["resourceGroups"]).flat_map(|group| items(&group["flavors"]));
    let quotas = flavors.flat_map(|flavor| items(&flavor["resources"]).map(move |quota| (flavor, quota)));
    quotas.filter_map(|(flavor, quota)| Some(((flavor["name"].as_str()?, quota["name"].as_str()?), quota))).collect()
}

fn amounts(kind: ObjectKind, seen: &Value, wanted: &Value, found: &mut Vec<Field>) {
    let (before, after) = (given(seen), given(wanted));
    let pairs: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let (mut gpus, mut rest) = (Vec::new(), Vec::new());
    for (flavor, name) in pairs {
        let resource = ResourceName::from(name);
        let counted = is_accelerator(&resource);
        for (key, word) in AMOUNTS {
            let of =
                |all: &BTreeMap<(&str, &str), &Value>| all.get(&(flavor, name)).map_or(Value::Null, |q| q[key].clone());
            let (old, new) = (of(&before), of(&after));
            let number = |value: &Value| quantity(&resource, value).unwrap_or(0);
            if number(&old) == number(&new) {
                continue;
            }
            if flavor == FLAVOR {
                let text =
                    |value: &Value| if value.is_null() { "nothing".into() } else { amount(&resource, number(value)) };
                rest.push(Field { name: "total".into(), seen: text(&old), wanted: text(&new) });
                continue;
            }
            let word = if kind == ObjectKind::Cohort && key == "nominalQuota" { "quota" } else { word };
            let of_nodes = !counted && key == "nominalQuota";
            let text = |value: &Value| match value.as_str() {
                _ if value.is_null() => "nothing".into(),
                _ if counted => amount(&resource, number(value)),
                Some(text) if of_nodes => text.to_owned(),
                Some(text) => format!("{text} {name}"),
                None => value.to_string(),
            };
            // Of what is not counted each queue may use all that the pool has.
            let name =
                if of_nodes { format!("{name} with the nodes of {flavor}") } else { format!("{word} of {flavor}") };
            let field = Field { name, seen: text(&old), wanted: text(&new) };
            if counted { gpus.push(field) } else { rest.push(field) }
        }
    }
    found.extend(gpus.into_iter().chain(rest));
}

/// Everything else, key by key.
struct Walk<'a> {
    kind: ObjectKind,
    /// All of it is ours.
    both_sides: bool,
    path: Vec<String>,
    found: &'a mut Vec<Field>,
}

impl Walk<'_> {
    fn value(&mut self, old: &Value, new: &Value) {
        let nothing = Map::new();
        match (old, new) {
            (old, new) if is_same(old, new) => {}
            (Value::Object(before), Value::Object(after)) => self.object(before, after),
            (Value::Null, Value::Object(after)) => self.object(&nothing, after),
            (Value::Object(before), Value::Null) => self.object(before, &nothing),
            (Value::Array(before), Value::Array(after)) if has_parts(before) || has_parts(after) => {
                self.array(before, after);
            }
            (Value::Null, Value::Array(after)) if has_parts(after) => self.array(&[], after),
            (Value::Array(before), Value::Null) if has_parts(before) => self.array(before, &[]),
            (Value::String(before), Value::String(after)) if before.contains('\n') || after.contains('\n') => {
                self.lines(before, after);
            }
            (old, new) => {
                let (old, new) = both_shown(&as_text(old), &as_text(new));
                self.push(String::new(), old, new);
            }
        }
    }

    fn push(&mut self, place: String, seen: String, wanted: String) {
        let mut name = self.path.join(" ");
        name.push_str(&place);
        self.found.push(Field { name: name.trim_start().into(), seen, wanted });
    }

    fn object(&mut self, before: &Map<String, Value>, after: &Map<String, Value>) {
        // What comes or goes as a whole goes with all that is in it.
        let goes = after.is_empty();
        let ours = |key: &&String| self.both_sides || goes || MAY_GO.contains(&key.as_str());
        let gone: Vec<&String> = before.keys().filter(|key| !after.contains_key(*key)).filter(ours).collect();
        for key in gone.into_iter().chain(after.keys()) {
            // Quotas are told as amounts; the name of an item stands in the path already.
            let is_name = NAMED_BY.contains(&key.as_str()) && (before.is_empty() || after.is_empty());
            if key == "resourceGroups" || is_name {
                continue;
            }
            let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
            let is_class = matches!(self.kind, ObjectKind::PriorityClass | ObjectKind::WorkloadPriorityClass);
            let name = NAMES.iter().find(|(theirs, _)| theirs == key).map_or(key.as_str(), |(_, ours)| ours);
            let name = if is_class && key == "value" { "rank" } else { name };
            self.within(name, &of(before), &of(after));
        }
    }

    /// Items by their names where they have some, else by their places.
    fn array(&mut self, before: &[Value], after: &[Value]) {
        fn name(item: &Value) -> Option<&str> {
            NAMED_BY.iter().find_map(|key| item.get(*key)).and_then(Value::as_str)
        }
        let all = || before.iter().chain(after);
        if all().all(|item| name(item).is_some()) {
            let names: BTreeSet<&str> = all().filter_map(name).collect();
            for one in names {
                let of = |items: &[Value]| items.iter().find(|item| name(item) == Some(one)).cloned();
                self.within(one, &of(before).unwrap_or(Value::Null), &of(after).unwrap_or(Value::Null));
            }
            return;
        }
        let most = before.len().max(after.len());
        for index in 0..most {
            let place = if most == 1 { String::new() } else { format!("[{index}]") };
            let of = |items: &[Value]| items.get(index).cloned().unwrap_or(Value::Null);
            self.within(&place, &of(before), &of(after));
        }
    }

    fn within(&mut self, name: &str, old: &Value, new: &Value) {
        if name.is_empty() {
            return self.value(old, new);
        }
        self.path.push(name.into());
        self.value(old, new);
        self.path.pop();
    }

    /// The first line that differs, and how many more do.
    fn lines(&mut self, before: &str, after: &str) {
        let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
        let most = old.len().max(new.len());
        let differs: Vec<usize> = (0..most).filter(|line| old.get(*line) != new.get(*line)).collect();
        let Some(first) = differs.first() else {
            return self.push(String::new(), "other line breaks".into(), "those that are written".into());
        };
        let said = |lines: &[&str]| lines.get(*first).map_or("nothing".into(), |line| cut(line.trim()));
        let more = match differs.len() - 1 {
            0 => String::new(),
            1 => " and 1 more line".into(),
            more => format!(" and {more} more lines"),
        };
        self.push(format!(" line {}{more}:", first + 1), said(&old), said(&new));
    }
}

/// Whether the server would say that nothing changed: it leaves out what is false or empty.
fn is_same(old: &Value, new: &Value) -> bool {
    let nothing = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(is) => !is,
        Value::String(text) => text.is_empty(),
        other => other.is_null(),
    };
    old == new || (nothing(old) && nothing(new))
}

/// Whether it is a list of things that have parts, and not of words.
fn has_parts(items: &[Value]) -> bool {
    items.iter().any(|item| item.is_object() || item.is_array())
}

/// Two texts that differ, each short enough to read; of long ones the part in which they do.
fn both_shown(old: &str, new: &str) -> (String, String) {
    let alike = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
    let is_seen = alike + BEFORE < LONGEST;
    let from = |text: &str| match is_seen {
        true => cut(text),
        false => cut(&['…'].into_iter().chain(text.chars().skip(alike - BEFORE)).collect::<String>()),
    };
    (from(old), from(new))
}

fn as_text(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "nothing".into(),
        Value::Array(items) => {
            let words = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            format!("[{}]", words.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
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

    fn told(kind: ObjectKind, seen: &Value, wanted: &Value) -> Vec<String> {
        fields(kind, seen, wanted).iter().map(Field::change).collect()
    }

    fn of_queue(seen: &Value, wanted: &Value) -> Vec<String> {
        told(ObjectKind::ClusterQueue, seen, wanted)
    }

    #[test]
    fn a_share_is_told_as_the_documents_write_it() {
        assert_eq!(of_queue(&queue(56, &["train"]), &queue(56, &["train"])), [""; 0]);
        assert_eq!(of_queue(&queue(56, &["train"]), &queue(48, &["train"])), ["guarantee of train 56 → 48 GPUs"]);
        assert_eq!(
            of_queue(&queue(56, &["train"]), &queue(56, &["serve", "train"])),
            ["guarantee of serve nothing → 56 GPUs"]
        );
        let empty = json!({"spec": {"cohortName": "research", "resourceGroups": []}});
        assert_eq!(of_queue(&queue(64, &["train"]), &empty), ["guarantee of train 64 GPUs → nothing"]);
        let amounts = |resource: &str, lend: Value| {
            json!({"spec": {"resourceGroups": [{"flavors": [{"name": "serve", "resources": [
                {"name": "cpu", "nominalQuota": "8"},
                {"name": resource, "nominalQuota": 4, "lendingLimit": lend}]}]}]}})
        };
        let slices = "nvidia.com/mig-3g.40gb";
        let (seen, mut wanted) = (amounts(slices, json!("0")), amounts(slices, json!(2)));
        wanted["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "6".into();
        assert_eq!(
            of_queue(&seen, &wanted),
            ["lend of serve 0 × 3g.40gb → 2 × 3g.40gb", "cpu with the nodes of serve 8 → 6"]
        );
        assert_eq!(
            told(ObjectKind::Cohort, &queue(8, &["train"]), &queue(0, &["train"])),
            ["quota of train 8 → 0 GPUs"]
        );
    }

    #[test]
    fn other_fields_have_the_words_of_the_documents_too() {
        let of = |name: &str| {
            let values = json!([{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", name]}]);
            json!({"spec": {"fairSharing": {"weight": name}, "namespaceSelector": {"matchExpressions": values}}})
        };
        assert_eq!(of_queue(&of("1"), &of("2")), ["weight 1 → 2", "namespaces [a, 1] → [a, 2]"]);
        let rank = |value: i32| json!({"value": value});
        assert_eq!(told(ObjectKind::PriorityClass, &rank(100), &rank(200)), ["rank 100 → 200"]);
        let file = |end: &str| json!({"data": {"config.yaml": "line\n".repeat(20) + end}});
        assert_eq!(told(ObjectKind::ConfigMap, &file("a"), &file("b")), ["config.yaml line 21: a → b"]);
        assert_eq!(told(ObjectKind::ConfigMap, &json!({"data": {"a": "1"}}), &json!({"data": {}})), ["a 1 → nothing"]);
    }

    #[test]
    fn what_the_server_adds_is_not_ours_and_what_we_no_longer_set_is() {
        let seen =
            json!({"spec": {"cohortName": "research", "stopPolicy": "None", "preemption": {"a": "b", "c": "d"}}});
        let wanted = json!({"spec": {"preemption": {"a": "e"}}});
        assert_eq!(of_queue(&seen, &wanted), ["cohort research → nothing", "preemption a b → e"]);
    }

    #[test]
    fn long_texts_are_shown_where_they_differ() {
        let rule = "!has(object.metadata.labels) || !('kueue.x-k8s.io/queue-name' in object.metadata.labels)";
        let with = |rule: &str| json!({"spec": {"rule": rule}});
        let shown = of_queue(&with(&format!("{rule} || true")), &with(rule));
        assert_eq!(shown, ["rule …data.labels) || true → …data.labels)"]);
        assert_eq!(of_queue(&with("a"), &with("b")), ["rule a → b"]);
    }

    #[test]
    fn both_sides_of_many_fields_are_cut_short() {
        let numbers =
            |add: i32| json!({"spec": {"a": 1 + add, "b": 2 + add, "c": 3 + add, "d": 4 + add, "e": 5 + add}});
        let all = of_queue(&numbers(0), &numbers(1)).len();
        let fields = fields(ObjectKind::ClusterQueue, &numbers(0), &numbers(1));
        assert_eq!((all, changes(&fields).as_str()), (5, "a 1 → 2, b 2 → 3, c 3 → 4, d 4 → 5 and 1 more"));
        assert_eq!(sides(&fields).0, "a 2, b 3, c 4, d 5 and 1 more");
        assert_eq!(sides(&[]).1, "something else");
    }
}
