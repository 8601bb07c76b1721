//! One request, decoded: what is read of it is noted, so that what nobody read can be refused by name.
//!
//! An action reads all it understands, then calls [`Ask::done`], and only then does something. A parameter that the model
//! knows and the action did not read is an error: it is never ignored.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::model::model;
use super::refuse;
use crate::provider::ProviderError;
use crate::provider::sim::cloud::Circumstances;

/// A request.
#[derive(Debug)]
pub struct Ask {
    pub action: &'static str,
    pub now: Timestamp,
    /// How the world stands to what is launched.
    pub weather: Circumstances<'static>,
    value: Value,
    read: RefCell<BTreeSet<String>>,
}

/// A structure in a request.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    value: &'a Value,
    path: String,
    read: &'a RefCell<BTreeSet<String>>,
}

impl Ask {
    pub fn new(action: &'static str, now: Timestamp, weather: Circumstances<'static>, value: Value) -> Self {
        Self { action, now, weather, value, read: RefCell::default() }
    }

    pub fn root(&self) -> Part<'_> {
        Part { value: &self.value, path: String::new(), read: &self.read }
    }

    /// All of it as it came, but for whether it is meant.
    pub fn whole(&self) -> Value {
        let mut whole = self.value.clone();
        if let Some(fields) = whole.as_object_mut() {
            fields.remove("DryRun");
        }
        whole
    }

    /// Everything was read that is understood. What is left is refused; and a dry run ends here.
    pub fn done(&self) -> Result<(), ProviderError> {
        let dry = self.root().flag("DryRun").unwrap_or(false);
        let read = self.read.borrow();
        let mut leaves = Vec::new();
        collect(&self.value, String::new(), &mut leaves);
        if let Some(left) = leaves.iter().find(|leaf| !covers(&read, leaf)) {
            let text = format!("The parameter {left} is known, but {} does not support it here", self.action);
            return Err(refuse("UnsupportedParameter", text));
        }
        model().complete(self.action, &self.value)?;
        if dry {
            let text = "Request would have succeeded, but DryRun flag is set.";
            return Err(refuse("DryRunOperation", text));
        }
        Ok(())
    }
}

impl<'a> Part<'a> {
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub fn needed(&self, name: &str) -> Result<&'a str, ProviderError> {
        self.text(name).ok_or_else(|| {
            refuse("MissingParameter", format!("The request must contain the parameter {}{name}", self.path))
        })
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }

    /// A number that counts something.
    pub fn count(&self, name: &str) -> Result<Option<u32>, ProviderError> {
        let wrong = |n: i64| refuse("InvalidParameterValue", format!("Value ({n}) for parameter {name} is invalid"));
        self.number(name).map(|n| u32::try_from(n).map_err(|_| wrong(n))).transpose()
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    pub fn instant(&self, name: &str) -> Option<Timestamp> {
        self.text(name)?.parse().ok()
    }

    pub fn texts(&self, name: &str) -> Vec<&'a str> {
        self.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub fn part(&self, name: &str) -> Option<Part<'a>> {
        let value = self.value.get(name)?;
        Some(Part { value, path: format!("{}{name}.", self.path), read: self.read })
    }

    pub fn parts(&self, name: &str) -> Vec<Part<'a>> {
        let items = self.value.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
        let part = |(at, value)| Part { value, path: format!("{}{name}.{}.", self.path, at + 1), read: self.read };
        items.map(part).collect()
    }

    /// Reads exactly these, given without the numbers of lists, and gives all of the structure.
    pub fn keep(&self, known: &[&str]) -> Value {
        let mut leaves = Vec::new();
        collect(self.value, String::new(), &mut leaves);
        for leaf in leaves {
            let plain: Vec<&str> = leaf.split('.').filter(|word| word.parse::<u32>().is_err()).collect();
            if known.contains(&plain.join(".").as_str()) {
                self.read.borrow_mut().insert(format!("{}{leaf}", self.path));
            }
        }
        self.value.clone()
    }

    /// The tags for one kind of resource; those for another kind are refused, as they are for nothing that is made.
    pub fn tags_for(&self, kinds: &[&str]) -> Result<BTreeMap<String, String>, ProviderError> {
        Ok(self.tags_by_kind(kinds)?.remove(kinds[0]).unwrap_or_default())
    }

    /// The tags for each of these kinds of resources.
    pub fn tags_by_kind(&self, kinds: &[&str]) -> Result<BTreeMap<String, BTreeMap<String, String>>, ProviderError> {
        let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for spec in self.parts("TagSpecifications") {
            let kind = spec.text("ResourceType").unwrap_or_default();
            if !kinds.contains(&kind) {
                let text = format!("'{kind}' is not a valid taggable resource type for this operation.");
                return Err(refuse("InvalidParameterValue", text));
            }
            found.entry(kind.into()).or_default().extend(spec.tags()?);
        }
        if found.values().any(|tags| tags.len() > 50) {
            return Err(refuse("TagLimitExceeded", "The maximum number of tags of a resource is 50"));
        }
        Ok(found)
    }

    pub fn tags(&self) -> Result<Vec<(String, String)>, ProviderError> {
        let pairs = self.parts("Tags").into_iter().map(|tag| {
            let (key, value) = (tag.needed("Key")?, tag.text("Value").unwrap_or_default());
            if key.starts_with("aws:") {
                let text = "Tag keys starting with 'aws:' are reserved for internal use";
                return Err(refuse("InvalidParameterValue", text));
            }
            if key.chars().count() > 127 || value.chars().count() > 255 {
                let text = format!("Tag key or value exceeds its longest length: {key}");
                return Err(refuse("InvalidParameterValue", text));
            }
            Ok((key.to_string(), value.to_string()))
        });
        pairs.collect()
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        let found = self.value.get(name)?;
        self.read.borrow_mut().insert(format!("{}{name}", self.path));
        Some(found)
    }
}

/// Whether this leaf was read, or the list of values that it stands in.
fn covers(read: &BTreeSet<String>, leaf: &str) -> bool {
    let of_list = |(list, at): (&str, &str)| at.parse::<u32>().is_ok() && read.contains(list);
    read.contains(leaf) || leaf.rsplit_once('.').is_some_and(of_list)
}

fn collect(value: &Value, path: String, leaves: &mut Vec<String>) {
    let below = |name: String| if path.is_empty() { name } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, held)| collect(held, below(name.clone()), leaves)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, held)| collect(held, below((at + 1).to_string()), leaves));
        }
        _ => leaves.push(path),
    }
}
