//! The schema of a kind, compiled once into what the walk needs.
//!
//! The schemas come from the spec types (`schema`), so a field exists in exactly one place. Called by `walk`.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::Kind;
use super::formats::{self, Format};
use super::schema;

#[derive(Debug)]
pub enum Shape {
    Object(Object),
    List {
        item: Box<Shape>,
        min: u64,
        max: u64,
    },
    Text {
        format: Option<&'static Format>,
        min: u64,
        max: u64,
        /// The words that are allowed; empty when any is.
        words: Vec<String>,
    },
    Integer {
        min: i64,
        max: i64,
    },
    Number {
        format: Option<&'static Format>,
    },
    Bool,
}

#[derive(Debug)]
pub struct Object {
    pub fields: Vec<Field>,
    /// The shape of values under keys that are no fields: set for maps such as labels.
    pub open: Option<Box<Shape>>,
    pub key_format: Option<&'static Format>,
    /// Groups of fields of which exactly one is written.
    pub exactly_one: Vec<Vec<String>>,
    pub min: u64,
    pub max: u64,
}

#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub shape: Shape,
    pub required: bool,
}

impl Object {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok().map(|at| &self.fields[at])
    }
}

/// The shape of a whole document of this kind.
pub fn shape(kind: Kind) -> &'static Shape {
    static SHAPES: LazyLock<Vec<Shape>> =
        LazyLock::new(|| Kind::ALL.iter().map(|kind| compile(&schema::marked(*kind))).collect());
    &SHAPES[kind as usize]
}

fn compile(schema: &Json) -> Shape {
    let format = |key: &str| schema[key].as_str().and_then(formats::format);
    match schema["type"].as_str() {
        Some("object") => {
            let names = |list: &Json| -> Vec<String> {
                list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(String::from)).collect()
            };
            let required = names(&schema["required"]);
            let mut fields: Vec<Field> = schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, field)| Field {
                    name: name.clone(),
                    shape: compile(field),
                    required: required.contains(name),
                })
                .collect();
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            let open = schema["additionalProperties"].as_object().map(|_| {
                let mut value = schema["additionalProperties"].clone();
                if let Some(format) = schema.get("x-tidewright-value-format") {
                    value["x-tidewright-format"] = format.clone();
                }
                Box::new(compile(&value))
            });
            let groups = schema["x-tidewright-one-of"].as_array();
            Shape::Object(Object {
                fields,
                open,
                key_format: format("x-tidewright-key-format"),
                exactly_one: groups.into_iter().flatten().map(names).collect(),
                min: schema["minProperties"].as_u64().unwrap_or(0),
                max: schema["maxProperties"].as_u64().unwrap_or(u64::MAX),
            })
        }
        Some("array") => Shape::List {
            item: Box::new(compile(&schema["items"])),
            min: schema["minItems"].as_u64().unwrap_or(0),
            max: schema["maxItems"].as_u64().unwrap_or(u64::MAX),
        },
        Some("string") => Shape::Text {
            format: format("x-tidewright-format"),
            min: schema["minLength"].as_u64().unwrap_or(0),
            max: schema["maxLength"].as_u64().unwrap_or(u64::MAX),
            words: schema["enum"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|w| w.as_str().map(String::from))
                .collect(),
        },
        Some("integer") => Shape::Integer {
            min: schema["minimum"].as_i64().unwrap_or(0),
            max: schema["maximum"].as_i64().unwrap_or(i64::from(u32::MAX)),
        },
        Some("number") => Shape::Number { format: format("x-tidewright-format") },
        Some("boolean") => Shape::Bool,
        other => unreachable!("the spec types make no schema of type {other:?}: {schema}"),
    }
}
