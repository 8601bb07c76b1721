//! YAML as a tree in which every key and value knows its place.
//!
//! Built from the parser's events (granit-parser, by way of serde-saphyr). Everything that the language refuses of
//! YAML is refused here and replaced by [`Value::Broken`], so that the walk goes on around it: one run finds every
//! mistake. Limits keep time and memory in proportion to the bytes read. Called by `parse`; knows no kind.

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, ScanError, StructureStyle};

use super::syntax;
use super::words::shorten;
use crate::diag::{BYTE_ORDER_MARK, Diagnostic, Span, codes};

/// A larger file is not written by a person. It bounds the memory for any bytes at some tens of MiB.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// More documents belong in more files; a reader would not find anything either.
pub const MAX_DOCUMENTS: usize = 2_000;
/// The deepest document of the language needs ten levels. The walk recurses this deep at most.
pub const MAX_DEPTH: usize = 32;
/// More keys than any mapping of the language has; it keeps the search for duplicates short.
pub const MAX_KEYS: usize = 500;
/// More mistakes in one file are not the work of a person: what comes behind them is not told. It bounds the memory
/// for any bytes.
pub const MAX_MISTAKES: usize = 1_000;

#[derive(Clone, Debug)]
pub struct Node {
    pub span: Span,
    pub value: Value,
    /// A list or mapping in block style, which spans lines: better to point at its key than at all of it.
    pub block: bool,
}

#[derive(Clone, Debug)]
pub enum Value {
    Scalar {
        text: Box<str>,
        /// Written without quotes, so that YAML gives it a type by its looks.
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Something that has been reported already.
    Broken,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Box<str>,
    pub key_span: Span,
    /// Written without quotes.
    pub key_plain: bool,
    pub node: Node,
}

impl Node {
    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| &*entry.key == key),
            _ => None,
        }
    }

    pub fn item(&self, index: usize) -> Option<&Node> {
        match &self.value {
            Value::List(items) => items.get(index),
            _ => None,
        }
    }

    /// Whether nothing is written, or one of YAML's words for nothing.
    pub fn is_null(&self) -> bool {
        let Value::Scalar { text, plain: true } = &self.value else { return false };
        matches!(&**text, "" | "~" | "null" | "Null" | "NULL")
    }

    /// Nothing is written where a value could be: behind a `---`, or behind a key.
    pub fn is_absent(&self) -> bool {
        self.span.start == self.span.end && matches!(self.value, Value::Scalar { plain: true, .. })
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// One document of a file. `root` is absent when the parser could not read it to its end.
#[derive(Debug)]
pub struct Document {
    pub span: Span,
    pub root: Option<Node>,
    /// Something of it was refused, and that has been reported.
    pub hurt: bool,
}

/// Reads all documents of one file. After a syntax error it goes on with the next document.
pub fn documents(file: u32, text: &str) -> (Vec<Document>, Vec<Diagnostic>) {
    let mut found = Vec::new();
    // A byte order mark is not part of the text; positions still count it.
    let base = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let mut reader = Reader { file, base, text, diagnostics: Vec::new(), unsaid: 0, swallowed: None };
    if text.len() > MAX_FILE_BYTES {
        reader.say(too_large(Span { file, start: 0, end: 0 }));
        return (vec![unread(Span { file, start: 0, end: 0 })], reader.diagnostics);
    }
    let mut parser = Parser::new_from_str_with_options(
        &text[base..],
        granit_parser::options! {
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
            emit_unresolved_aliases: true,
            emit_anchor_events: true,
            emit_comments: false,
        },
    );
    loop {
        match parser.next_event() {
            None | Some(Ok((Event::StreamEnd, _))) => break,
            Some(Ok((Event::DocumentStart(..), span))) => {
                let at = reader.span(span);
                if found.len() >= MAX_DOCUMENTS {
                    reader.say(
                        Diagnostic::error(codes::TOO_LARGE, format!("more than {MAX_DOCUMENTS} documents in one file"))
                            .at(at, "the first one too many")
                            .hint("split it into several files"),
                    );
                    found.push(unread(at));
                    break;
                }
                let before = reader.said();
                let (root, failed) = reader.document(&mut parser);
                let hurt = reader.said() > before;
                found.push(Document { span: root.as_ref().map_or(at, |root| root.span), root, hurt });
                found.extend(reader.swallowed.take().map(unread));
                if let Some((error, opened)) = failed {
                    reader.syntax(&error, opened);
                    if !parser.proceed_next_document().unwrap_or(false) {
                        break;
                    }
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                found.push(unread(reader.span_at(&error)));
                reader.syntax(&error, None);
                if found.len() > MAX_DOCUMENTS || !parser.proceed_next_document().unwrap_or(false) {
                    break;
                }
            }
        }
    }
    (found, reader.diagnostics)
}

pub fn too_large(at: Span) -> Diagnostic {
    Diagnostic::error(codes::TOO_LARGE, format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20))
        .at(at, "")
        .hint("split it into several files")
}

/// Stands for documents of which nothing is known.
fn unread(span: Span) -> Document {
    Document { span, root: None, hurt: true }
}

struct Reader<'a> {
    file: u32,
    base: usize,
    text: &'a str,
    diagnostics: Vec<Diagnostic>,
    /// How many more there were to say than are kept.
    unsaid: usize,
    /// Where a second document begins that nothing separates from the first.
    swallowed: Option<Span>,
}

fn is_block(style: StructureStyle) -> bool {
    style == StructureStyle::Block
}

/// A collection whose end has not come yet.
enum Open {
    List { start: Span, items: Vec<Node>, block: bool },
    Map { start: Span, entries: Vec<Entry>, key: Option<Key>, skip: bool, block: bool },
}

/// A key whose value has not come yet.
struct Key {
    name: Box<str>,
    span: Span,
    plain: bool,
}

impl Reader<'_> {
    /// Reads events up to the end of the document. On an error, also where the innermost open bracket is.
    fn document<'i, I>(&mut self, parser: &mut Parser<'i, I>) -> (Option<Node>, Option<(ScanError, Option<Span>)>)
    where
        I: granit_parser::BorrowedInput<'i>,
    {
        let mut open: Vec<Open> = Vec::new();
        let mut root = None;
        let mut too_deep = false;
        loop {
            let (event, raw) = match parser.next_event() {
                Some(Ok(next)) => next,
                Some(Err(error)) => {
                    let opened = open.last().and_then(|open| match open {
                        Open::List { start, block: false, .. } | Open::Map { start, block: false, .. } => Some(*start),
                        Open::List { .. } | Open::Map { .. } => None,
                    });
                    return (None, Some((error, opened)));
                }
                None => return (root, None),
            };
            let span = self.span(raw);
            let tag = event.tag().is_some();
            if tag {
                let at = raw.tag_span().map_or(span, |tag| self.span(tag));
                self.refuse(at, "tags such as `!!str` are not part of the language", "write the value without it");
            }
            let node = match event {
                Event::DocumentEnd => return (root, None),
                Event::Scalar(text, style, _, _) => {
                    let plain = style == ScalarStyle::Plain;
                    // The parser writes `~` for what is not there.
                    let text = if plain && span.start == span.end { "".into() } else { text };
                    Node { span, value: Value::Scalar { text: text.into(), plain }, block: false }
                }
                Event::Alias(_) | Event::UnresolvedAlias(_) => {
                    self.refuse(
                        span,
                        "aliases are not part of the language",
                        "write the value out, or share documents with `include`",
                    );
                    Node { span, value: Value::Broken, block: false }
                }
                Event::Anchor(..) => {
                    self.refuse(
                        span,
                        "anchors are not part of the language",
                        "remove it, and write the value out where it is used",
                    );
                    continue;
                }
                Event::SequenceStart(style, ..) => {
                    open.push(Open::List { start: span, items: Vec::new(), block: is_block(style) });
                    too_deep |= self.depth(open.len(), too_deep, span);
                    continue;
                }
                Event::MappingStart(style, ..) => {
                    open.push(Open::Map {
                        start: span,
                        entries: Vec::new(),
                        key: None,
                        skip: false,
                        block: is_block(style),
                    });
                    too_deep |= self.depth(open.len(), too_deep, span);
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                    Some(Open::List { start, items, block }) => {
                        Node { span: self.cover(start, span), value: Value::List(items), block }
                    }
                    Some(Open::Map { start, entries, block, .. }) => {
                        Node { span: self.cover(start, span), value: Value::Map(entries), block }
                    }
                    None => continue,
                },
                _ => continue,
            };
            let node =
                if tag || (too_deep && open.len() >= MAX_DEPTH) { Node { value: Value::Broken, ..node } } else { node };
            let at_root = open.len() == 1;
            match open.last_mut() {
                None => root = Some(node),
                Some(Open::List { items, .. }) => items.push(node),
                Some(Open::Map { entries, key, skip, .. }) => self.put_into_map(entries, key, skip, node, at_root),
            }
        }
    }

    /// A node inside a mapping is a key or the value of the last key.
    fn put_into_map(
        &mut self,
        entries: &mut Vec<Entry>,
        key: &mut Option<Key>,
        skip: &mut bool,
        node: Node,
        at_root: bool,
    ) {
        if let Some(Key { name, span, plain }) = key.take() {
            if !std::mem::take(skip) {
                entries.push(Entry { key: name, key_span: span, key_plain: plain, node });
            }
            return;
        }
        let plain = matches!(node.value, Value::Scalar { plain: true, .. });
        let span = node.span;
        let name = match node.value {
            Value::Scalar { text, .. } => text,
            Value::Broken => {
                *skip = true;
                "".into()
            }
            Value::List(_) | Value::Map(_) => {
                *skip = true;
                self.say(
                    Diagnostic::error(codes::WRONG_TYPE, "a key is a word, not a list or a mapping")
                        .at(span, "this is used as a key")
                        .hint("write `word: value`; a value with braces or brackets in it needs quotes"),
                );
                "".into()
            }
        };
        if *skip {
            // Its value goes with it.
        } else if &*name == "<<" && plain {
            self.refuse(span, "merge keys are not part of the language", "write the fields out");
            *skip = true;
        } else if entries.len() >= MAX_KEYS {
            if entries.len() == MAX_KEYS {
                self.say(
                    Diagnostic::error(codes::TOO_LARGE, format!("more than {MAX_KEYS} keys in one mapping"))
                        .at(span, "the first one too many")
                        .hint(format!("write at most {MAX_KEYS}")),
                );
                // One more entry, so that the next key is not reported again.
                entries.push(Entry {
                    key: name.clone(),
                    key_span: span,
                    key_plain: plain,
                    node: Node { span, value: Value::Broken, block: false },
                });
            }
            *skip = true;
        } else if let Some(first) = entries.iter().find(|entry| entry.key == name) {
            // What follows a second head belongs to a second document: one mistake, not one for each of its keys.
            let is_head = at_root && matches!(&*name, "apiVersion" | "kind");
            if !at_root || self.swallowed.is_none() {
                let hint = if is_head {
                    "put a line `---` above it if a new document begins here"
                } else {
                    "keep one of them"
                };
                self.say(
                    Diagnostic::error(codes::DUPLICATE_KEY, format!("`{}` is written twice", shorten(&name)))
                        .at(span, "again")
                        .at(first.key_span, "the first time")
                        .hint(hint),
                );
            }
            if is_head {
                self.swallowed.get_or_insert(span);
            }
            *skip = true;
        }
        *key = Some(Key { name, span, plain });
    }

    fn say(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() <= MAX_MISTAKES {
            self.diagnostics.push(diagnostic);
        } else {
            self.unsaid += 1;
        }
    }

    fn said(&self) -> usize {
        self.diagnostics.len() + self.unsaid
    }

    fn depth(&mut self, depth: usize, reported: bool, span: Span) -> bool {
        if depth > MAX_DEPTH && !reported {
            self.say(
                Diagnostic::error(codes::TOO_LARGE, syntax::too_deep())
                    .at(Span { end: span.start + 1, ..span }, "this level is one too many")
                    .hint(syntax::DEPTH_HINT),
            );
        }
        depth > MAX_DEPTH
    }

    fn refuse(&mut self, span: Span, message: &str, hint: &str) {
        self.say(Diagnostic::error(codes::ANCHOR, message).at(span, "").hint(hint));
    }

    fn syntax(&mut self, error: &ScanError, opened: Option<Span>) {
        let at = self.span_at(error);
        self.say(syntax::diagnostic(error.kind(), self.text, at, opened));
    }

    fn span(&self, span: granit_parser::Span) -> Span {
        let (start, end) = (self.offset(span.start), self.offset(span.end));
        Span { file: self.file, start, end: end.max(start) }
    }

    fn span_at(&self, error: &ScanError) -> Span {
        let start = self.offset(*error.marker());
        Span { file: self.file, start, end: start }
    }

    /// From the start of a collection to its end; block collections end where their last line does.
    fn cover(&self, start: Span, end: Span) -> Span {
        let text = &self.text[start.start as usize..(end.end.max(start.end)) as usize];
        let length = u32::try_from(text.trim_end().len()).unwrap_or(0);
        Span { end: start.start + length, ..start }
    }

    fn offset(&self, marker: granit_parser::Marker) -> u32 {
        let byte = marker.byte_offset().unwrap_or_else(|| {
            self.text[self.base..].char_indices().nth(marker.index()).map_or(self.text.len() - self.base, |(at, _)| at)
        });
        let byte = self.text.floor_char_boundary((byte + self.base).min(self.text.len()));
        u32::try_from(byte).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes_of(text: &str) -> Vec<&'static str> {
        documents(0, text).1.iter().map(|d| d.code.id()).collect()
    }

    fn slice<'a>(text: &'a str, node: &Node) -> &'a str {
        &text[node.span.start as usize..node.span.end as usize]
    }

    #[test]
    fn every_value_knows_its_place() {
        let text = "\u{feff}a:\r\n  b: [x, 'y z']\r\n  c: |\r\n    text\r\n---\r\nd: é # note\r\n";
        let (documents, diagnostics) = documents(0, text);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let root = documents[0].root.as_ref().expect("a root");
        let b = root.get("a").and_then(|a| a.get("b")).expect("b");
        assert_eq!(slice(text, b), "[x, 'y z']");
        assert_eq!(slice(text, b.item(1).expect("y")), "'y z'");
        let d = documents[1].root.as_ref().and_then(|root| root.entry("d")).expect("d");
        assert_eq!((&text[d.key_span.start as usize..d.key_span.end as usize], slice(text, &d.node)), ("d", "é"));
    }

    #[test]
    fn what_the_language_refuses_of_yaml_is_refused_once_each() {
        assert_eq!(codes_of("a: &x 1\nb: *x\n"), ["TW005", "TW005"]);
        assert_eq!(codes_of("a: *nowhere\n"), ["TW005"]);
        assert_eq!(codes_of("a: !!str 1\n"), ["TW005"]);
        assert_eq!(codes_of("<<: {a: 1}\n"), ["TW005"]);
        assert_eq!(codes_of("a: 1\na: 2\na: 3\n"), ["TW006", "TW006"]);
        assert_eq!(codes_of("? [a]\n: 1\n"), ["TW105"]);
    }

    #[test]
    fn a_syntax_error_does_not_hide_the_next_document() {
        let (documents, diagnostics) = documents(0, "a: [1\n---\nb: 2\n");
        assert_eq!(diagnostics.len(), 1);
        assert!(documents.iter().any(|d| d.root.as_ref().is_some_and(|root| root.get("b").is_some())), "{documents:?}");
    }

    #[test]
    fn depth_size_and_number_are_limited() {
        assert_eq!(codes_of(&"[".repeat(5000)), ["TW003"]);
        assert_eq!(codes_of(&"- ".repeat(5000)), ["TW003"]);
        assert_eq!(codes_of(&"a: 1\n---\n".repeat(MAX_DOCUMENTS + 5)), ["TW003"]);
        assert_eq!(codes_of(&"a".repeat(MAX_FILE_BYTES + 1)), ["TW003"]);
    }

    #[test]
    fn tabs_are_named() {
        let (_, diagnostics) = documents(0, "a:\n\tb: 1\n");
        assert!(diagnostics[0].hint.as_deref().is_some_and(|hint| hint.contains("tab")), "{diagnostics:?}");
    }
}
