//! EC2's own model of its wire: a form becomes JSON by the names of the model, and JSON becomes XML.
//!
//! The table `ec2.txt` is generated from botocore's model (`tests/python/ec2_model.py`), so no name on the wire is typed
//! here. A parameter that the model does not know is refused; an answer with a member that it does not know is a mistake
//! of ours, and is told as one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::refuse;
use crate::provider::ProviderError;

/// The version of the API that requests must name.
pub const VERSION: &str = "2016-11-15";

/// What is known of the wire.
#[derive(Debug)]
pub struct Model {
    actions: BTreeMap<&'static str, (&'static str, &'static str)>,
    shapes: BTreeMap<&'static str, Shape>,
}

#[derive(Debug)]
enum Shape {
    List { element: &'static str, wire: &'static str },
    Struct(Vec<Member>),
}

#[derive(Debug)]
struct Member {
    name: &'static str,
    required: bool,
    /// In an answer.
    wire: &'static str,
    /// In a request.
    query: String,
    shape: &'static str,
}

/// What a form says, before lists are closed.
enum Node {
    Leaf(Value),
    Struct(BTreeMap<&'static str, Node>),
    List(BTreeMap<u32, Node>),
}

/// The longest list that a request may hold: a number is no place to be filled up to.
const LONGEST: u32 = 10_000;

/// The model that is part of the program.
pub fn model() -> &'static Model {
    static MODEL: LazyLock<Model> = LazyLock::new(|| Model::parse(include_str!("ec2.txt")));
    &MODEL
}

impl Model {
    fn parse(text: &'static str) -> Self {
        let (mut actions, mut shapes) = (BTreeMap::new(), BTreeMap::new());
        let mut open = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["action", name, request, answer] => drop(actions.insert(*name, (*request, *answer))),
                ["list", name, element, wire] => drop(shapes.insert(*name, Shape::List { element, wire })),
                ["struct", name] => {
                    open = name;
                    shapes.insert(open, Shape::Struct(Vec::new()));
                }
                [name, wire, shape] => {
                    if let Some(Shape::Struct(members)) = shapes.get_mut(open) {
                        members.push(Member::parse(name, wire, shape));
                    }
                }
                _ => {}
            }
        }
        Self { actions, shapes }
    }

    pub fn action(&self, name: &str) -> Option<&'static str> {
        self.actions.get_key_value(name).map(|(name, _)| *name)
    }

    pub fn actions(&self) -> impl Iterator<Item = &'static str> {
        self.actions.keys().copied()
    }

    /// A form of one action, by the names of the model.
    pub fn decode(&self, action: &str, form: &[(String, String)]) -> Result<Value, ProviderError> {
        let request = self.actions.get(action).map_or("-", |ends| ends.0);
        let mut root = Node::Struct(BTreeMap::new());
        for (key, text) in form.iter().filter(|(key, _)| !is_common(key)) {
            let path: Vec<&str> = key.split('.').collect();
            self.put(&mut root, request, &path, key, text)?;
        }
        let value = closed(root);
        if let Some(Shape::Struct(members)) = self.shapes.get(request) {
            members.iter().try_for_each(|member| member.there(&value)).map_err(missing)?;
        }
        Ok(value)
    }

    /// Whether structures in a request have what they need. That is asked last: what is not understood at all is told
    /// before what it lacks.
    pub fn complete(&self, action: &str, value: &Value) -> Result<(), ProviderError> {
        self.require(self.actions.get(action).map_or("-", |ends| ends.0), value).map_err(missing)
    }

    fn put(&self, node: &mut Node, shape: &str, path: &[&str], key: &str, text: &str) -> Result<(), ProviderError> {
        let unknown = || refuse("UnknownParameter", format!("The parameter {key} is not recognized"));
        match (self.shapes.get(shape), path) {
            (None, []) => {
                *node = Node::Leaf(scalar(shape, key, text)?);
                Ok(())
            }
            (Some(Shape::Struct(members)), [first, rest @ ..]) => {
                let member = members.iter().find(|member| member.query == *first).ok_or_else(unknown)?;
                let Node::Struct(fields) = node else { return Err(unknown()) };
                let next = fields.entry(member.name).or_insert_with(|| self.empty(member.shape));
                self.put(next, member.shape, rest, key, text)
            }
            (Some(Shape::List { element, .. }), [first, rest @ ..]) => {
                let number: u32 = first.parse().ok().filter(|n| (1..=LONGEST).contains(n)).ok_or_else(unknown)?;
                let Node::List(items) = node else { return Err(unknown()) };
                let next = items.entry(number).or_insert_with(|| self.empty(element));
                self.put(next, element, rest, key, text)
            }
            _ => Err(unknown()),
        }
    }

    fn empty(&self, shape: &str) -> Node {
        match self.shapes.get(shape) {
            Some(Shape::Struct(_)) => Node::Struct(BTreeMap::new()),
            Some(Shape::List { .. }) => Node::List(BTreeMap::new()),
            None => Node::Leaf(Value::Null),
        }
    }

    /// What is missing, by its place: put together only where something is.
    fn require(&self, shape: &str, value: &Value) -> Result<(), String> {
        match self.shapes.get(shape) {
            Some(Shape::Struct(members)) => members.iter().try_for_each(|member| {
                member.there(value)?;
                let Some(found) = value.get(member.name) else { return Ok(()) };
                self.require(member.shape, found).map_err(|below| format!("{}.{below}", member.query))
            }),
            Some(Shape::List { element, .. }) => {
                let mut items = value.as_array().into_iter().flatten().enumerate();
                items.try_for_each(|(at, item)| {
                    self.require(element, item).map_err(|below| format!("{}.{below}", at + 1))
                })
            }
            None => Ok(()),
        }
    }

    /// The answer of an action. What the model does not know is named.
    pub fn encode(&self, action: &str, request_id: &str, answer: &Value) -> Result<String, String> {
        let shape = self.actions.get(action).map_or("-", |ends| ends.1);
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response \
             xmlns=\"http://ec2.amazonaws.com/doc/{VERSION}/\"><requestId>{request_id}</requestId>"
        );
        match shape {
            "-" => out += "<return>true</return>",
            _ => self.write(&mut out, shape, answer).map_err(|why| format!("{action}{why}"))?,
        }
        out += &format!("</{action}Response>");
        Ok(out)
    }

    /// On a mistake: where below this it is, and what.
    fn write(&self, out: &mut String, shape: &str, value: &Value) -> Result<(), String> {
        match (self.shapes.get(shape), value) {
            (Some(Shape::Struct(members)), Value::Object(fields)) => {
                if let Some(stray) = fields.keys().find(|key| members.iter().all(|member| member.name != key.as_str()))
                {
                    return Err(format!(" has no member {stray}"));
                }
                for member in members {
                    let Some(held) = fields.get(member.name).filter(|held| !held.is_null()) else { continue };
                    element(out, member.wire, |out| self.write(out, member.shape, held))
                        .map_err(|why| format!(".{}{why}", member.name))?;
                }
                Ok(())
            }
            (Some(Shape::List { element: of, wire }), Value::Array(items)) => {
                items.iter().try_for_each(|item| element(out, wire, |out| self.write(out, of, item)))
            }
            (None, Value::String(text)) => {
                escape(out, text);
                Ok(())
            }
            (None, Value::Number(_) | Value::Bool(_)) => {
                *out += &value.to_string();
                Ok(())
            }
            _ => Err(format!(" is no {shape}: {value}")),
        }
    }
}

fn missing(place: String) -> ProviderError {
    refuse("MissingParameter", format!("The request must contain the parameter {place}"))
}

impl Member {
    fn parse(name: &'static str, wire: &'static str, shape: &'static str) -> Self {
        let (wire, query) = wire.split_once('/').unwrap_or((wire, ""));
        let mut letters = wire.chars();
        let capitalised = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
        let query = if query.is_empty() { capitalised } else { query.to_string() };
        Self { name: name.trim_end_matches('!'), required: name.ends_with('!'), wire, query, shape }
    }

    /// Whether it is there, where it has to be; else what it is called.
    fn there(&self, value: &Value) -> Result<(), String> {
        if !self.required || value.get(self.name).is_some() { Ok(()) } else { Err(self.query.clone()) }
    }
}

/// What every request has, beside what it asks.
fn is_common(key: &str) -> bool {
    matches!(key, "Action" | "Version")
}

fn scalar(shape: &str, key: &str, text: &str) -> Result<Value, ProviderError> {
    let wrong = || refuse("InvalidParameterValue", format!("Value ({text}) for parameter {key} is not a {shape}"));
    match shape {
        "integer" => text.parse::<i64>().map(Value::from).map_err(|_| wrong()),
        "float" => text.parse::<f64>().map(Value::from).map_err(|_| wrong()),
        "boolean" => text.to_ascii_lowercase().parse::<bool>().map(Value::from).map_err(|_| wrong()),
        "timestamp" => text.parse::<Timestamp>().map(instant).map_err(|_| wrong()),
        "string" => Ok(text.into()),
        _ => Err(wrong()),
    }
}

fn closed(node: Node) -> Value {
    match node {
        Node::Leaf(value) => value,
        Node::Struct(fields) => Value::Object(
            fields.into_iter().map(|(name, node)| (name.to_string(), closed(node))).collect::<Map<_, _>>(),
        ),
        Node::List(items) => Value::Array(items.into_values().map(closed).collect()),
    }
}

fn element(out: &mut String, name: &str, inside: impl FnOnce(&mut String) -> Result<(), String>) -> Result<(), String> {
    out.extend(["<", name, ">"]);
    inside(out)?;
    out.extend(["</", name, ">"]);
    Ok(())
}

/// Text as XML holds it. What XML cannot hold at all becomes a question mark.
pub fn escape(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => *out += "&amp;",
            '<' => *out += "&lt;",
            '>' => *out += "&gt;",
            '"' => *out += "&quot;",
            // A reader would make a plain newline of it.
            '\r' => *out += "&#xD;",
            '\t' | '\n' => out.push(letter),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('?'),
            _ => out.push(letter),
        }
    }
}

/// An instant as EC2 writes it.
pub fn instant(at: Timestamp) -> Value {
    let millis = at.as_millisecond().rem_euclid(1000);
    format!("{}.{millis:03}Z", at.strftime("%Y-%m-%dT%H:%M:%S")).into()
}
