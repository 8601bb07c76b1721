//! Words for messages: what a value is, what a shape takes, where in a document something stands. Called by `walk` and
//! `parse`.

use super::shape::{Object, Shape};
use super::tree::{Node, Value};
use super::walk::{Looks, looks};

pub fn path_text(path: &[String]) -> String {
    if path.is_empty() {
        return "the document".into();
    }
    let mut text = String::from("`");
    for (index, step) in path.iter().enumerate() {
        if index > 0 && !step.starts_with('[') {
            text.push('.');
        }
        text.push_str(&shorten(step));
    }
    text + "`"
}

/// What to write where a word stands in the place of a mapping: `sim` for `{sim: {}}`, `name:demo` for `name: demo`.
pub fn instead_of_word(object: &Object, text: &str, shape: &Shape) -> String {
    let glued = text.split_once(':').filter(|(key, value)| object.field(key).is_some() && !value.is_empty());
    match (object.field(text).map(|field| &field.shape), glued) {
        (Some(Shape::Object(inner)), _) if inner.fields.is_empty() => format!("write `{{{text}: {{}}}}`"),
        (Some(inner), _) => format!("write `{{{text}: …}}`, {}", expected(inner)),
        (None, Some((key, value))) => format!("put a space behind the colon: `{key}: {}`", shorten(value)),
        (None, None) => format!("write {}", expected(shape)),
    }
}

/// What a value of a shape is, for messages.
pub fn noun(shape: &Shape) -> String {
    match shape {
        Shape::Text { words, .. } if words.is_empty() => "text".into(),
        Shape::Object(_) => "a mapping".into(),
        _ => expected(shape),
    }
}

/// What to write for a value of a shape, for hints.
pub fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Object(object) if object.fields.is_empty() && object.open.is_none() => "an empty mapping `{}`".into(),
        Shape::Object(object) if object.open.is_some() => "keys with values: `{key: value}`".into(),
        Shape::Object(Object { exactly_one, fields, .. }) => match exactly_one.as_slice() {
            [only] if only.len() == fields.len() => {
                format!("a mapping with one of {}", list(only.iter().map(String::as_str)))
            }
            _ if fields.iter().any(|field| field.required) => {
                let required = fields.iter().filter(|field| field.required);
                format!("a mapping with {}", list(required.map(|field| field.name.as_str())))
            }
            _ => format!("a mapping of {}", list(fields.iter().map(|field| field.name.as_str()))),
        },
        Shape::List { .. } => "a list".into(),
        Shape::Text { words, .. } if !words.is_empty() => format!("one of {}", list(words.iter().map(String::as_str))),
        Shape::Text { format: Some(format), .. } => match (format.check)("\u{0}") {
            Err(expected) => expected.0,
            Ok(()) => "text".into(),
        },
        Shape::Text { .. } => "text".into(),
        Shape::Integer { .. } => "a whole number".into(),
        Shape::Number { .. } => "a number".into(),
        Shape::Bool => "`true` or `false`".into(),
    }
}

/// What a value is, for messages.
pub fn what(node: &Node) -> String {
    match &node.value {
        Value::Map(_) => "a mapping".into(),
        Value::List(_) => "a list".into(),
        Value::Broken => "nothing".into(),
        Value::Scalar { text, plain } => match (plain, looks(text)) {
            (true, Looks::Null) => "nothing".into(),
            (true, Looks::Bool) => format!("the boolean {text}"),
            (true, Looks::Number | Looks::NumberForSome) => format!("the number {}", shorten(text)),
            _ => format!("the text `{}`", shorten(text)),
        },
    }
}

pub fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Keeps a message readable whatever was written.
pub fn shorten(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(41).collect();
    if one_line.chars().count() > 40 { one_line.chars().take(40).collect::<String>() + "…" } else { one_line }
}
