//! A document against its shape: every mistake of it at once, each at its place.
//!
//! serde stops at the first mistake, so the walk comes first and gives the JSON value that serde then decodes
//! without one. YAML's own guesses about scalars end here: what a scalar means is decided by the field it is in.

use serde_json::{Map, Value as Json};

use super::shape::{Object, Shape};
use super::tree::{Entry, MAX_MISTAKES, Node, Value, shorten};
use crate::diag::{Diagnostic, Span, codes, nearest};

/// Checks a node and gives its value. What is returned is complete only if nothing was reported.
pub fn walk(node: &Node, shape: &Shape, found: &mut Vec<Diagnostic>) -> Json {
    Walk { path: Vec::new(), found }.any(node, shape)
}

struct Walk<'a> {
    /// The fields from the document down to here, for messages.
    path: Vec<String>,
    found: &'a mut Vec<Diagnostic>,
}

/// What YAML 1.2 makes of a scalar by its looks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Looks {
    Null,
    Bool,
    Number,
    /// A number in one version of YAML or one reader and not in another: `017`, `0o17`, `1_000`, `.5`, `1e3`.
    NumberForSome,
    /// A word that YAML 1.1 takes for a boolean or a number: `no`, `12:30`.
    OtherForSome,
    Word,
}

impl Walk<'_> {
    fn any(&mut self, node: &Node, shape: &Shape) -> Json {
        if matches!(node.value, Value::Broken) || self.found.len() > MAX_MISTAKES {
            return Json::Null;
        }
        if let Value::Scalar { text, plain: true } = &node.value
            && looks(text) == Looks::Null
        {
            self.report(codes::EMPTY_VALUE, format!("{} has no value", self.here()), node.span, "")
                .hint_last(format!("write {}, or remove the field", expected(shape)));
            return Json::Null;
        }
        match (shape, &node.value) {
            (Shape::Object(object), Value::Map(entries)) => self.object(node, object, entries),
            (Shape::List { item, min, max }, Value::List(items)) => {
                self.length(node, items.len(), (*min, *max), "entries");
                let each = |walk: &mut Self, (index, node): (usize, &Node)| {
                    walk.below(format!("[{index}]"), |w| w.any(node, item))
                };
                // Of a list that is too long, what is too much is not looked at.
                let most = usize::try_from(*max).unwrap_or(usize::MAX);
                Json::Array(items.iter().take(most).enumerate().map(|next| each(self, next)).collect())
            }
            (Shape::Text { .. }, Value::Scalar { text, plain }) => self.text(node, shape, text, *plain),
            (Shape::Integer { min, max }, Value::Scalar { text, plain: true }) => self.integer(node, text, *min, *max),
            (Shape::Number { .. }, Value::Scalar { text, plain: true }) => self.number(node, shape, text),
            (Shape::Bool, Value::Scalar { text, plain: true }) if &**text == "true" => Json::Bool(true),
            (Shape::Bool, Value::Scalar { text, plain: true }) if &**text == "false" => Json::Bool(false),
            _ => self.wrong_type(node, shape),
        }
    }

    fn object(&mut self, node: &Node, object: &Object, entries: &[Entry]) -> Json {
        let mut map = Map::new();
        for entry in entries {
            match (object.field(&entry.key), &object.open) {
                (Some(field), _) => {
                    let value = self.below(field.name.clone(), |walk| walk.any(&entry.node, &field.shape));
                    map.insert(field.name.clone(), value);
                }
                (None, Some(open)) => {
                    self.key(object, entry);
                    let value = self.below(shorten(&entry.key), |walk| walk.any(&entry.node, open));
                    map.insert(entry.key.to_string(), value);
                }
                (None, None) => self.unknown_field(object, entries, entry),
            }
        }
        self.required(node, object, entries);
        if (entries.len() as u64) < object.min && object.exactly_one.is_empty() {
            self.report(codes::OUT_OF_RANGE, format!("{} is empty", self.here()), node.span, "")
                .hint_last("write at least one entry".into());
        } else if entries.len() as u64 > object.max {
            self.length(node, entries.len(), (0, object.max), "entries");
        }
        Json::Object(map)
    }

    /// A key of a map such as labels is text, as its values are.
    fn key(&mut self, object: &Object, entry: &Entry) {
        let (key, looks) = (shorten(&entry.key), looks(&entry.key));
        if entry.plain && matches!(looks, Looks::Null | Looks::Bool | Looks::Number | Looks::NumberForSome) {
            let message = format!("the keys of {} are text, and `{key}` is not", self.here());
            self.report(codes::WRONG_TYPE, message, entry.key_span, "")
                .hint_last(format!("put it in quotes: \"{key}\""));
            return;
        }
        if let Some(format) = object.key_format
            && let Err(expected) = (format.check)(&entry.key)
        {
            let message = format!("`{key}` is no key of {}", self.here());
            self.report(codes::MALFORMED, message, entry.key_span, "").hint_last(format!("write {expected}"));
        } else if entry.plain && looks == Looks::OtherForSome {
            self.other_readers(&entry.key, entry.key_span);
        }
    }

    fn other_readers(&mut self, text: &str, span: Span) {
        let message = format!("`{text}` is text here, but readers of YAML 1.1 take it for something else");
        let warning = Diagnostic::warning(codes::OTHER_READERS, message).at(span, "");
        self.found.push(warning.hint(format!("put it in quotes: \"{text}\"")));
    }

    fn unknown_field(&mut self, object: &Object, entries: &[Entry], entry: &Entry) {
        let absent =
            || object.fields.iter().map(|f| f.name.as_str()).filter(|name| entries.iter().all(|e| &*e.key != *name));
        let hint = match nearest(&entry.key, absent()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if object.fields.is_empty() => format!("{} has no fields: write `{{}}`", self.here()),
            None => format!("its fields are {}", list(object.fields.iter().map(|f| f.name.as_str()))),
        };
        self.report(
            codes::UNKNOWN_FIELD,
            format!("{} has no field `{}`", self.here(), shorten(&entry.key)),
            entry.key_span,
            "unknown field",
        )
        .hint_last(hint);
    }

    /// Missing fields and groups of which exactly one is written. A field that was misspelt is not missing too.
    fn required(&mut self, node: &Node, object: &Object, entries: &[Entry]) {
        let written = |name: &str| entries.iter().any(|entry| &*entry.key == name);
        let misspelt = |name: &str| {
            entries.iter().any(|entry| object.field(&entry.key).is_none() && nearest(&entry.key, [name]).is_some())
        };
        for field in
            object.fields.iter().filter(|field| field.required && !written(&field.name) && !misspelt(&field.name))
        {
            self.report(codes::MISSING_FIELD, format!("{} needs `{}`", self.here(), field.name), self.head(node), "")
                .hint_last(format!("add `{}: …`, {}", field.name, expected(&field.shape)));
        }
        for group in &object.exactly_one {
            let there: Vec<&Entry> =
                entries.iter().filter(|entry| group.iter().any(|name| **name == *entry.key)).collect();
            let names = list(group.iter().map(String::as_str));
            if there.is_empty() && !group.iter().any(|name| misspelt(name)) {
                self.report(
                    codes::EXACTLY_ONE,
                    format!("{} needs exactly one of {names}", self.here()),
                    self.head(node),
                    "it has none",
                )
                .hint_last(format!("write one of {names}"));
            } else if there.len() > 1 {
                let message = format!("{} has {} of {names}, and may have only one", self.here(), there.len());
                let mut diagnostic = Diagnostic::error(codes::EXACTLY_ONE, message);
                for (at, entry) in there.iter().enumerate() {
                    diagnostic = diagnostic.at(entry.key_span, if at == 0 { "the first" } else { "and another" });
                }
                self.found.push(diagnostic.hint(format!("keep one of {names}")));
            }
        }
    }

    fn text(&mut self, node: &Node, shape: &Shape, text: &str, plain: bool) -> Json {
        let Shape::Text { format, min, max, words } = shape else { return Json::Null };
        let looks = looks(text);
        if plain && matches!(looks, Looks::Bool | Looks::Number | Looks::NumberForSome) {
            let message = format!("{} is text, and this is {}", self.here(), what(node));
            self.report(codes::WRONG_TYPE, message, node.span, "")
                .hint_last(format!("put it in quotes: \"{}\"", shorten(text)));
            return Json::Null;
        }
        let before = self.found.len();
        if !words.is_empty() && !words.iter().any(|word| word == text) {
            let known = list(words.iter().map(String::as_str));
            let hint = match nearest(text, words.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`? It is one of {known}"),
                None => format!("write one of {known}"),
            };
            self.report(codes::NOT_A_CHOICE, format!("{} cannot be `{}`", self.here(), shorten(text)), node.span, "")
                .hint_last(hint);
        } else if let Some(format) = format {
            if let Err(expected) = (format.check)(text) {
                self.malformed(node, text, &expected.0);
            }
        } else {
            self.length(node, text.chars().count(), (*min, *max), "characters");
        }
        // A value that is wrong for us is not told to be wrong for others too.
        if plain && looks == Looks::OtherForSome && self.found.len() == before {
            self.other_readers(text, node.span);
        }
        Json::String(text.into())
    }

    fn integer(&mut self, node: &Node, text: &str, min: i64, max: i64) -> Json {
        match (looks(text), text.parse::<i64>()) {
            (Looks::Number, Ok(number)) if (min..=max).contains(&number) => number.into(),
            (Looks::Number, Err(_)) if text.contains('.') => {
                self.report(codes::WRONG_TYPE, format!("{} is a whole number", self.here()), node.span, "")
                    .hint_last("write it without a fraction".into());
                Json::Null
            }
            (Looks::Number, _) => {
                let message = format!("{} is {}, out of its range", self.here(), shorten(text));
                self.report(codes::OUT_OF_RANGE, message, node.span, "")
                    .hint_last(format!("write a number from {min} to {max}"));
                Json::Null
            }
            (Looks::NumberForSome | Looks::OtherForSome, _) => self.ambiguous_number(node, text),
            _ => self.wrong_type(node, &Shape::Integer { min, max }),
        }
    }

    fn number(&mut self, node: &Node, shape: &Shape, text: &str) -> Json {
        let Shape::Number { format } = shape else { return Json::Null };
        match looks(text) {
            Looks::Number => {
                if let Some(format) = format
                    && let Err(expected) = (format.check)(text)
                {
                    self.malformed(node, text, &expected.0);
                    return Json::Null;
                }
                // The format bounds the digits, so the float's shortest text is the text that was written.
                text.parse::<i64>()
                    .map(Json::from)
                    .unwrap_or_else(|_| text.parse::<f64>().map_or(Json::Null, Json::from))
            }
            Looks::NumberForSome | Looks::OtherForSome => self.ambiguous_number(node, text),
            _ => self.wrong_type(node, shape),
        }
    }

    fn ambiguous_number(&mut self, node: &Node, text: &str) -> Json {
        if looks(text) == Looks::OtherForSome && !text.contains(|c: char| c.is_ascii_digit()) {
            return self.wrong_type(node, &Shape::Integer { min: 0, max: 0 });
        }
        let message =
            format!("`{}` is one number for some readers of YAML and another, or text, for others", shorten(text));
        self.report(codes::AMBIGUOUS_NUMBER, message, node.span, "")
            .hint_last("write it in plain decimal digits: no leading zero, no 0x or 0o, no `_`, no exponent".into());
        Json::Null
    }

    fn malformed(&mut self, node: &Node, text: &str, expected: &str) {
        self.report(codes::MALFORMED, format!("{} cannot be `{}`", self.here(), shorten(text)), node.span, "")
            .hint_last(format!("write {expected}"));
    }

    fn length(&mut self, node: &Node, length: usize, (min, max): (u64, u64), unit: &str) {
        let length = length as u64;
        if length < min && length == 0 {
            self.report(codes::OUT_OF_RANGE, format!("{} is empty", self.here()), node.span, "")
                .hint_last(format!("it needs at least {min}"));
        } else if !(min..=max).contains(&length) {
            self.report(codes::OUT_OF_RANGE, format!("{} has {length} {unit}", self.here()), node.span, "").hint_last(
                if length < min { format!("it needs at least {min}") } else { format!("it takes at most {max}") },
            );
        }
    }

    fn wrong_type(&mut self, node: &Node, shape: &Shape) -> Json {
        let quoted = matches!(&node.value, Value::Scalar { plain: false, .. });
        let hint = match (shape, &node.value) {
            (Shape::Integer { .. } | Shape::Number { .. }, Value::Scalar { text, .. })
                if quoted && looks(text) == Looks::Number =>
            {
                format!("remove the quotes: {}", shorten(text))
            }
            (Shape::Bool, Value::Scalar { text, .. }) => match text.to_lowercase().as_str() {
                "yes" | "on" | "y" | "true" => "write `true`".into(),
                "no" | "off" | "n" | "false" => "write `false`".into(),
                _ => "write `true` or `false`".into(),
            },
            (Shape::List { .. }, Value::Scalar { text, .. }) => format!("write it as a list: [{}]", shorten(text)),
            _ => format!("write {}", expected(shape)),
        };
        let message = format!("{} is {}, and this is {}", self.here(), expected(shape), what(node));
        self.report(codes::WRONG_TYPE, message, self.head(node), "").hint_last(hint);
        Json::Null
    }

    fn below<T>(&mut self, step: String, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let value = inner(self);
        self.path.pop();
        value
    }

    /// `spec.shares[0].guarantee`, or "the document" at its root.
    fn here(&self) -> String {
        if self.path.is_empty() {
            return "the document".into();
        }
        let mut text = String::from("`");
        for (index, step) in self.path.iter().enumerate() {
            if index > 0 && !step.starts_with('[') {
                text.push('.');
            }
            text.push_str(step);
        }
        text + "`"
    }

    /// A place to point at for what is missing from a node: its first key, or its opening brace, not all its lines.
    fn head(&self, node: &Node) -> Span {
        match &node.value {
            Value::Map(entries) => entries.first().map_or(node.span, |first| {
                if first.key_span.start == node.span.start {
                    first.key_span
                } else {
                    Span { end: node.span.start + 1, ..node.span }
                }
            }),
            Value::List(_) => Span { end: node.span.start + 1, ..node.span },
            _ => node.span,
        }
    }

    fn report(&mut self, code: crate::diag::Code, message: String, span: Span, label: &str) -> Reported<'_> {
        self.found.push(Diagnostic::error(code, message).at(span, label));
        Reported(self.found)
    }
}

/// The diagnostic that was reported last.
struct Reported<'a>(&'a mut Vec<Diagnostic>);

impl Reported<'_> {
    fn hint_last(self, hint: String) {
        if let Some(last) = self.0.last_mut() {
            last.hint = Some(hint);
        }
    }
}

fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Object(object) if object.fields.is_empty() && object.open.is_none() => "an empty mapping `{}`".into(),
        Shape::Object(object) if object.open.is_some() => "a mapping of keys to values".into(),
        Shape::Object(object)
            if object.exactly_one.len() == 1 && object.exactly_one[0].len() == object.fields.len() =>
        {
            format!("a mapping with one of {}", list(object.fields.iter().map(|f| f.name.as_str())))
        }
        Shape::Object(_) => "a mapping".into(),
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

fn what(node: &Node) -> String {
    match &node.value {
        Value::Map(_) => "a mapping".into(),
        Value::List(_) => "a list".into(),
        Value::Broken => "nothing".into(),
        Value::Scalar { text, plain } => match (plain, looks(text)) {
            (true, Looks::Null) => "empty".into(),
            (true, Looks::Bool) => format!("the boolean {text}"),
            (true, Looks::Number | Looks::NumberForSome) => format!("the number {}", shorten(text)),
            _ => format!("the text `{}`", shorten(text)),
        },
    }
}

/// The core schema of YAML 1.2, and where other readers see something else.
fn looks(text: &str) -> Looks {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Looks::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => return Looks::Bool,
        _ => {}
    }
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), "yes" | "no" | "on" | "off" | "y" | "n") {
        return Looks::OtherForSome;
    }
    if matches!(without_sign(&lower), ".inf" | ".nan") {
        return Looks::NumberForSome;
    }
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(w, f)| (w, Some(f)));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if digits(whole) && (whole == "0" || !whole.starts_with('0')) && fraction.is_none_or(digits) {
        return Looks::Number;
    }
    let rest = without_sign(&lower);
    let any_digit = rest.bytes().any(|b| b.is_ascii_digit());
    let radix = |prefix: &str, digit: fn(char) -> bool| {
        rest.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| digit(c) || c == '_'))
    };
    if radix("0x", |c| c.is_ascii_hexdigit()) || radix("0o", |c| c.is_digit(8)) || radix("0b", |c| c.is_digit(2)) {
        return Looks::NumberForSome;
    }
    if any_digit && rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') && is_float(rest) {
        return Looks::NumberForSome;
    }
    // Sexagesimal: `20:00` is 1200 for YAML 1.1.
    let mut parts = rest.split(':');
    let first = parts.next().unwrap_or("");
    let mut more = parts.peekable();
    if more.peek().is_some()
        && !first.starts_with('0')
        && digits(first)
        && more.all(|part| digits(part) && part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| n < 60))
    {
        return Looks::OtherForSome;
    }
    Looks::Word
}

fn without_sign(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

/// Digits with `_`, a point and an exponent: `1_000`, `.5`, `1e3`, `017`, `5.`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once('e').map_or((text, None), |(m, e)| (m, Some(e)));
    mantissa.bytes().all(|b| b.is_ascii_digit() || b == b'_' || b == b'.')
        && mantissa.matches('.').count() <= 1
        && exponent.is_none_or(|e| {
            let digits = without_sign(e);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        })
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_look_like_what_yaml_1_2_says() {
        let of = |texts: &[&str], expected| {
            for text in texts {
                assert_eq!(looks(text), expected, "{text}");
            }
        };
        of(&["", "~", "null"], Looks::Null);
        of(&["true", "False"], Looks::Bool);
        of(&["0", "-1", "1200", "38.10", "0.6"], Looks::Number);
        of(&["017", "0o17", "0x1F", "1_000", "1e3", ".5", "5.", ".inf", "+1", "0b1"], Looks::NumberForSome);
        of(&["no", "Yes", "ON", "20:00", "1:30:00"], Looks::OtherForSome);
        of(
            &["Norway", "06:30", "1g.10gb", "2026-11-27", "45m", "10%", "Mon-Fri", "e3", ".", "-", "---017", "-+1"],
            Looks::Word,
        );
    }
}
