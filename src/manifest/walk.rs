//! A document against its shape: every mistake of it at once, each at its place.
//!
//! serde stops at the first mistake, so the walk comes first and gives the JSON value that serde then decodes
//! without one. YAML's own guesses about scalars end here: what a scalar means is decided by the field it is in.

use serde_json::{Map, Value as Json};

use super::shape::{Field, Object, Shape};
use super::tree::{Entry, MAX_MISTAKES, Node, Value};
use super::words::{expected, instead_of_word, list, noun, path_text, shorten, what};
use crate::diag::{Diagnostic, Span, codes, nearest};

/// Checks a node and gives its value. What is returned is complete only if nothing was reported.
pub fn walk(node: &Node, shape: &Shape, found: &mut Vec<Diagnostic>) -> Json {
    Walk { path: Vec::new(), above: Vec::new(), found }.any(node, shape)
}

struct Walk<'s, 'f> {
    /// The fields from the document down to here, for messages.
    path: Vec<String>,
    /// The objects from the document down to here, each with the length of its path.
    above: Vec<(&'s Object, usize)>,
    found: &'f mut Vec<Diagnostic>,
}

/// What YAML 1.2 makes of a scalar by its looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Looks {
    Null,
    Bool,
    Number,
    /// A number in one version of YAML or one reader and not in another: `017`, `0o17`, `1_000`, `.5`, `1e3`.
    NumberForSome,
    /// A word that YAML 1.1 takes for a boolean or a number: `no`, `12:30`.
    OtherForSome,
    Word,
}

impl<'s> Walk<'s, '_> {
    fn any(&mut self, node: &Node, shape: &'s Shape) -> Json {
        match (shape, &node.value) {
            (_, Value::Broken) => Json::Null,
            _ if self.found.len() > MAX_MISTAKES => Json::Null,
            _ if node.is_null() => {
                let hint = format!("write {}, or remove the entry", expected(shape));
                self.report(codes::EMPTY_VALUE, format!("{} has no value", self.here()), node.span, "").hint_last(hint);
                Json::Null
            }
            (Shape::Object(object), Value::Map(entries)) => {
                self.above.push((object, self.path.len()));
                let value = self.object(node, object, entries);
                self.above.pop();
                value
            }
            (Shape::List { item, min, max }, Value::List(items)) => {
                self.list_length(node, items, (*min, *max));
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

    fn object(&mut self, node: &Node, object: &'s Object, entries: &[Entry]) -> Json {
        let mut map = Map::new();
        for entry in entries {
            match (object.field(&entry.key), &object.open) {
                (Some(field), _) if entry.node.is_null() => {
                    let stray = entries.iter().find(|stray| strays(object, entry, &stray.key));
                    self.below(field.name.clone(), |walk| walk.empty(entry, &field.shape, field.required, stray));
                }
                (Some(field), _) => {
                    let value = self.below(field.name.clone(), |walk| walk.any(&entry.node, &field.shape));
                    map.insert(field.name.clone(), value);
                }
                (None, Some(open)) => {
                    if let Some(format) = object.key_format
                        && let Err(expected) = (format.check)(&entry.key)
                    {
                        let message = format!("`{}` cannot be a key of {}", shorten(&entry.key), self.here());
                        self.report(codes::MALFORMED, message, entry.key_span, "")
                            .hint_last(format!("write {expected}"));
                    } else if entry.key_plain {
                        self.other_readers(&entry.key, entry.key_span);
                    }
                    if entry.node.is_null() {
                        self.below(shorten(&entry.key), |walk| walk.empty(entry, open, false, None));
                        continue;
                    }
                    let value = self.below(shorten(&entry.key), |walk| walk.any(&entry.node, open));
                    map.insert(entry.key.to_string(), value);
                }
                // Said where the field that it belongs to is empty.
                (None, None) if entries.iter().any(|empty| strays(object, empty, &entry.key)) => {}
                (None, None) => self.unknown_field(object, entries, entry),
            }
        }
        self.required(node, object, entries);
        if (entries.len() as u64) < object.min && object.exactly_one.is_empty() {
            self.report(codes::OUT_OF_RANGE, format!("{} is empty", self.here()), node.span, "")
                .hint_last("write at least one entry".into());
        } else if entries.len() as u64 > object.max {
            let message = format!("{} has {} entries", self.here(), entries.len());
            self.report(codes::OUT_OF_RANGE, message, self.head(node), "")
                .hint_last(format!("it takes at most {}", object.max));
        }
        Json::Object(map)
    }

    /// A field without a value. `stray` is a field below it that was not indented.
    fn empty(&mut self, entry: &Entry, shape: &Shape, required: bool, stray: Option<&Entry>) {
        let hint = match stray {
            Some(stray) => format!("indent `{}` and what follows it: it belongs to {}", stray.key, self.here()),
            None if required => format!("write {}", expected(shape)),
            None => format!("write {}, or remove the field", expected(shape)),
        };
        let at = if entry.node.span.start == entry.node.span.end { entry.key_span } else { entry.node.span };
        self.report(codes::EMPTY_VALUE, format!("{} has no value", self.here()), at, "").hint_last(hint);
    }

    fn unknown_field(&mut self, object: &Object, entries: &[Entry], entry: &Entry) {
        let absent =
            || object.fields.iter().map(|f| f.name.as_str()).filter(|name| entries.iter().all(|e| &*e.key != *name));
        let hint = match (self.elsewhere(object, &entry.key), nearest(&entry.key, absent())) {
            (Some(hint), _) => hint,
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) if object.fields.is_empty() => format!("{} has no fields: write `{{}}`", self.here()),
            (None, None) => format!("its fields are {}", list(object.fields.iter().map(|f| f.name.as_str()))),
        };
        let message = format!("{} has no field `{}`", self.here(), shorten(&entry.key));
        self.report(codes::UNKNOWN_FIELD, message, entry.key_span, "unknown field").hint_last(hint);
    }

    /// Where a field of this name would be right, if it is only at the wrong level.
    fn elsewhere(&self, object: &Object, key: &str) -> Option<String> {
        let has_it = |field: &&Field| matches!(&field.shape, Shape::Object(inner) if inner.field(key).is_some());
        let mut below = object.fields.iter().filter(has_it);
        if let (Some(field), None) = (below.next(), below.next()) {
            return Some(format!("it belongs to `{}`: indent it deeper", field.name));
        }
        let above = self.above.iter().rev().skip(1).find(|(object, _)| object.field(key).is_some());
        above.map(|(_, length)| format!("it belongs to {}: indent it less", path_text(&self.path[..*length])))
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
                let each = group.iter().map(|name| format!("`{name}: …`")).collect::<Vec<_>>().join(" or ");
                self.report(
                    codes::EXACTLY_ONE,
                    format!("{} needs exactly one of {names}", self.here()),
                    self.head(node),
                    "it has none",
                )
                .hint_last(format!("add {each}"));
            } else if there.len() > 1 {
                let message = format!("{} has {} of {names}, and may have only one", self.here(), there.len());
                let mut diagnostic = Diagnostic::error(codes::EXACTLY_ONE, message);
                for (at, entry) in there.iter().enumerate() {
                    diagnostic = diagnostic.at(entry.key_span, if at == 0 { "the first" } else { "and another" });
                }
                let each = list(there.iter().map(|entry| &*entry.key));
                self.found.push(diagnostic.hint(format!("keep one of {each}")));
            }
        }
    }

    fn text(&mut self, node: &Node, shape: &Shape, text: &str, plain: bool) -> Json {
        let Shape::Text { format, min, max, words } = shape else { return Json::Null };
        if plain && matches!(looks(text), Looks::Bool | Looks::Number | Looks::NumberForSome) {
            let as_text = (words.is_empty() || words.iter().any(|word| word == text))
                && format.is_none_or(|f| (f.check)(text).is_ok());
            let hint = if as_text {
                format!("put it in quotes: \"{}\"", shorten(text))
            } else {
                format!("write {}", expected(shape))
            };
            let message = format!("{} is text, and this is {}", self.here(), what(node));
            self.report(codes::WRONG_TYPE, message, node.span, "").hint_last(hint);
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
            self.text_length(node, text.chars().count() as u64, (*min, *max));
        }
        if plain && self.found.len() == before {
            self.other_readers(text, node.span);
        }
        Json::String(text.into())
    }

    /// Warns of text without quotes that is text only here.
    fn other_readers(&mut self, text: &str, span: Span) {
        let taken = match looks(text) {
            Looks::Word => return,
            Looks::Null => "nothing for other readers of YAML".into(),
            Looks::Bool => "a boolean for other readers of YAML".into(),
            Looks::Number | Looks::NumberForSome => "a number for other readers of YAML".into(),
            Looks::OtherForSome => match sexagesimal(text) {
                Some(number) => format!("the number {number} for readers of YAML 1.1"),
                None => "a boolean for readers of YAML 1.1".into(),
            },
        };
        let text = shorten(text);
        self.found.push(
            Diagnostic::warning(codes::OTHER_READERS, format!("`{text}` is text here, and {taken}"))
                .at(span, "")
                .hint(format!("put it in quotes: \"{text}\"")),
        );
    }

    fn integer(&mut self, node: &Node, text: &str, min: i64, max: i64) -> Json {
        match (looks(text), text.parse::<i64>()) {
            (Looks::Number, Ok(number)) if (min..=max).contains(&number) => number.into(),
            (Looks::Number, Err(_)) if text.contains('.') => {
                let message = format!("{} is a whole number, and this is {}", self.here(), what(node));
                self.report(codes::WRONG_TYPE, message, node.span, "").hint_last("write it without a fraction".into());
                Json::Null
            }
            (Looks::Number, _) => {
                let message = format!("{} is {}, out of its range", self.here(), shorten(text));
                let hint = if max >= i64::from(u32::MAX) {
                    format!("write a number of {min} or more")
                } else {
                    format!("write a number from {min} to {max}")
                };
                self.report(codes::OUT_OF_RANGE, message, node.span, "").hint_last(hint);
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

    fn list_length(&mut self, node: &Node, items: &[Node], (min, max): (u64, u64)) {
        let length = items.len() as u64;
        if length < min {
            self.report(codes::OUT_OF_RANGE, format!("{} is empty", self.here()), node.span, "")
                .hint_last("write at least one entry".into());
        } else if let Some(first) = usize::try_from(max).ok().and_then(|max| items.get(max)) {
            let message = format!("{} has {length} entries, and may have {max}", self.here());
            self.report(codes::OUT_OF_RANGE, message, self.head(first), "the first one too many")
                .hint_last(format!("keep {max} of them"));
        }
    }

    fn text_length(&mut self, node: &Node, length: u64, (min, max): (u64, u64)) {
        if length < min {
            self.report(codes::OUT_OF_RANGE, format!("{} is empty", self.here()), node.span, "")
                .hint_last("write at least one character".into());
        } else if length > max {
            let message = format!("{} has {length} characters, and may have {max}", self.here());
            self.report(codes::OUT_OF_RANGE, message, node.span, "").hint_last("write it shorter".into());
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
            (Shape::List { .. }, Value::Map(_)) if node.block => "begin each entry of the list with `- `".into(),
            (Shape::List { .. }, Value::Map(_)) => "put brackets around it: [{…}]".into(),
            (Shape::Object(object), Value::Scalar { text, .. }) => instead_of_word(object, text, shape),
            _ => format!("write {}", expected(shape)),
        };
        let message = format!("{} is {}, and this is {}", self.here(), noun(shape), what(node));
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
        path_text(&self.path)
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

/// Whether a key that an object does not know is a field of one that was left empty: its lines were not indented.
fn strays(object: &Object, empty: &Entry, key: &str) -> bool {
    let inner = object.field(&empty.key).map(|field| &field.shape);
    let is_inside = matches!(inner, Some(Shape::Object(inner)) if inner.field(key).is_some());
    is_inside && empty.node.is_null() && object.field(key).is_none()
}

/// The core schema of YAML 1.2, and where other readers see something else.
pub fn looks(text: &str) -> Looks {
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
    if sexagesimal(text).is_some() { Looks::OtherForSome } else { Looks::Word }
}

/// The number that YAML 1.1 sees in `20:00`: digits to the base of 60.
fn sexagesimal(text: &str) -> Option<i64> {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let mut parts = without_sign(text).split(':');
    let first = parts.next().filter(|first| digits(first) && !first.starts_with('0'))?;
    let mut more = parts.peekable();
    more.peek()?;
    more.try_fold(first.parse::<i64>().ok()?, |sum, part| {
        let part = part.parse::<u8>().ok().filter(|n| digits(part) && part.len() <= 2 && *n < 60)?;
        sum.checked_mul(60)?.checked_add(part.into())
    })
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
