//! Source files to manifests: every mistake in the shape of every document at once.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::formats;
use super::shape::shape;
use super::tree::{self, MAX_MISTAKES, Node, Value};
use super::walk::walk;
use super::words::{shorten, what};
use super::{API_VERSION, Body, GROUP, Kind, Manifest, Spec};
use crate::diag::{Diagnostic, Sources, Span, codes, nearest};

/// Parses all files. A document that is wrong gives a manifest without a body, so that what names it is not reported
/// too; one that has no name or kind to read gives a manifest without those.
pub fn parse(sources: &Sources) -> (Vec<Manifest>, Vec<Diagnostic>) {
    let (mut manifests, mut diagnostics) = (Vec::new(), Vec::new());
    for (file, _) in sources.iter() {
        parse_file(sources, file, &mut manifests, &mut diagnostics);
    }
    (manifests, diagnostics)
}

/// Parses one file of the sources and adds what it finds. Files that are not YAML are passed over.
pub fn parse_file(sources: &Sources, file: u32, manifests: &mut Vec<Manifest>, diagnostics: &mut Vec<Diagnostic>) {
    let source = sources.file(file);
    if !(source.path.ends_with(".yaml") || source.path.ends_with(".yml")) {
        return;
    }
    let (documents, mut found) = tree::documents(file, &source.text);
    let mut empty = found.is_empty();
    for document in documents {
        let span = document.span;
        match document.root {
            None => manifests.push(unreadable(span)),
            // A document of comments only is no document.
            Some(root) if root.is_absent() && !document.hurt => continue,
            Some(root) if root.is_absent() => manifests.push(unreadable(span)),
            Some(root) => manifests.extend(read(root, document.hurt, &mut found)),
        }
        empty = false;
        if found.len() > MAX_MISTAKES {
            found.truncate(MAX_MISTAKES + 1);
            found.push(
                Diagnostic::error(codes::TOO_LARGE, format!("more than {MAX_MISTAKES} mistakes in one file"))
                    .at(Span { start: span.end, ..span }, "what is behind this was not looked at")
                    .hint("mend the ones above first; is this a fleet's file?"),
            );
            manifests.push(unreadable(span));
            break;
        }
    }
    if empty {
        let start = Span { file, start: 0, end: 0 };
        found.push(
            Diagnostic::warning(codes::EMPTY_FILE, "the file holds no document")
                .at(start, "")
                .hint("write a document into it, or remove the file"),
        );
    }
    diagnostics.append(&mut found);
}

/// Stands for a document of which nothing could be read.
pub fn unreadable(span: Span) -> Manifest {
    Manifest { tree: Node { span, value: Value::Broken, block: false }, kind: None, name: None, body: None }
}

/// What the head of a document says.
enum Head {
    /// A version that is read, and a kind.
    Known(Kind),
    /// Clear enough to know what was meant, and wrong.
    Meant(Kind),
    /// It may be anything.
    Unclear,
    /// A document of another program.
    Foreign,
}

fn read(root: Node, hurt: bool, found: &mut Vec<Diagnostic>) -> Option<Manifest> {
    let before = found.len();
    let head = head(&root, found);
    let name = name(&root);
    let kind = match head {
        Head::Known(kind) => kind,
        Head::Meant(kind) => return Some(Manifest { tree: root, kind: Some(kind), name, body: None }),
        Head::Unclear => return Some(Manifest { tree: root, kind: None, name, body: None }),
        Head::Foreign => return None,
    };
    let value = walk(&root, shape(kind), found);
    let clean = !hurt && !found[before..].iter().any(Diagnostic::is_error);
    let body = clean.then(|| decode(kind, value)).and_then(|decoded| match decoded {
        Ok(body) => Some(body),
        // The walk and the spec types disagree. That is a bug of ours, but no reason to lose the other mistakes.
        Err(error) => {
            found.push(
                Diagnostic::error(codes::WRONG_TYPE, error.to_string())
                    .at(start(&root), "in this document")
                    .hint("this should have been said more clearly: please report it"),
            );
            None
        }
    });
    Some(Manifest { tree: root, kind: Some(kind), name, body })
}

/// The object's name, if it has one. A name that is written wrongly may stand for any.
fn name(root: &Node) -> Option<String> {
    let text = root.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Node::as_str)?;
    formats::format("name").is_some_and(|format| (format.check)(text).is_ok()).then(|| text.into())
}

/// The first key of a mapping, a short text, else where it begins.
fn start(root: &Node) -> Span {
    match &root.value {
        Value::Map(entries) => entries.first().map_or(root.span, |first| first.key_span),
        Value::Scalar { .. } if root.span.end - root.span.start <= 40 => root.span,
        _ => Span { end: root.span.start, ..root.span },
    }
}

fn head(root: &Node, found: &mut Vec<Diagnostic>) -> Head {
    if let Value::Broken = root.value {
        return Head::Unclear;
    }
    let Value::Map(_) = &root.value else {
        let hint = match root.value {
            Value::List(_) => "begin each document with `apiVersion`, and put a line `---` between two",
            _ => "begin it with `apiVersion: tidewright.dev/v1alpha1`",
        };
        let message = format!("a document is a mapping, and this is {}", what(root));
        found.push(Diagnostic::error(codes::WRONG_TYPE, message).at(start(root), "").hint(hint));
        return Head::Unclear;
    };
    let version = version(root, found);
    let kinds = || Kind::ALL.iter().map(|kind| kind.name());
    let complain = version == Version::Fine;
    let kind = match root.entry("kind").filter(|entry| !entry.node.is_null()) {
        Some(entry) => match &entry.node.value {
            Value::Broken => return Head::Unclear,
            Value::Scalar { text, .. } => {
                if let Some(kind) = Kind::ALL.iter().copied().find(|kind| kind.name() == &**text) {
                    return if complain { Head::Known(kind) } else { Head::Meant(kind) };
                }
                let near = nearest(text, kinds());
                if complain {
                    let hint = match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("the kinds are {}", kinds().collect::<Vec<_>>().join(", ")),
                    };
                    let message = format!("there is no kind `{}`", shorten(text));
                    found.push(Diagnostic::error(codes::KIND, message).at(entry.node.span, "").hint(hint));
                }
                near.and_then(|near| Kind::ALL.iter().copied().find(|kind| kind.name() == near))
            }
            _ => {
                if complain {
                    let message = format!("a kind is a word, and this is {}", what(&entry.node));
                    let hint = format!("write one of {}", kinds().collect::<Vec<_>>().join(", "));
                    found.push(Diagnostic::error(codes::KIND, message).at(entry.key_span, "").hint(hint));
                }
                None
            }
        },
        None => {
            if complain {
                let at = root.entry("kind").map_or(start(root), |entry| entry.key_span);
                let hint = format!("add `kind: …`, one of {}", kinds().collect::<Vec<_>>().join(", "));
                found.push(Diagnostic::error(codes::KIND, "the document has no kind").at(at, "").hint(hint));
            }
            None
        }
    };
    match kind {
        _ if version == Version::Foreign => Head::Foreign,
        Some(kind) => Head::Meant(kind),
        None => Head::Unclear,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Fine,
    Wrong,
    /// Of another program.
    Foreign,
}

fn version(root: &Node, found: &mut Vec<Diagnostic>) -> Version {
    let entry = root.entry("apiVersion");
    let Some(entry) = entry.filter(|entry| !entry.node.is_null()) else {
        let at = entry.map_or(start(root), |entry| entry.key_span);
        found.push(
            Diagnostic::error(codes::API_VERSION, "the document has no apiVersion")
                .at(at, "")
                .hint(format!("add `apiVersion: {API_VERSION}`")),
        );
        return Version::Wrong;
    };
    let (message, hint, version) = match &entry.node.value {
        // What is wrong with it has been said.
        Value::Broken => return Version::Fine,
        Value::Scalar { text, .. } if &**text == API_VERSION => return Version::Fine,
        Value::Scalar { text, .. } if text.split('/').next() == Some(GROUP) => (
            format!("this program reads {API_VERSION}, and this is `{}`", shorten(text)),
            format!("write `apiVersion: {API_VERSION}`"),
            Version::Wrong,
        ),
        Value::Scalar { text, .. } => (
            format!("`{}` is not an apiVersion of Tidewright", shorten(text)),
            format!("write `apiVersion: {API_VERSION}`; documents for other programs belong in another directory"),
            Version::Foreign,
        ),
        Value::List(_) | Value::Map(_) => (
            format!("an apiVersion is a word, and this is {}", what(&entry.node)),
            format!("write `apiVersion: {API_VERSION}`"),
            Version::Wrong,
        ),
    };
    let at = if entry.node.block { entry.key_span } else { entry.node.span };
    found.push(Diagnostic::error(codes::API_VERSION, message).at(at, "").hint(hint));
    version
}

fn decode(kind: Kind, mut value: Json) -> Result<Body, serde_json::Error> {
    fn spec<T: DeserializeOwned>(value: Json) -> Result<T, serde_json::Error> {
        serde_json::from_value(value)
    }
    let body = value["spec"].take();
    let spec = match kind {
        Kind::Fleet => Spec::Fleet(spec(body)?),
        Kind::Reservation => Spec::Reservation(spec(body)?),
        Kind::NodePool => Spec::NodePool(spec(body)?),
        Kind::GpuLayout => Spec::GpuLayout(spec(body)?),
        Kind::PreemptionTier => Spec::PreemptionTier(spec(body)?),
        Kind::Quota => Spec::Quota(spec(body)?),
        Kind::TideSchedule => Spec::TideSchedule(spec(body)?),
        Kind::SchedulerProfile => Spec::SchedulerProfile(spec(body)?),
        Kind::HealthPolicy => Spec::HealthPolicy(spec(body)?),
    };
    Ok(Body { metadata: serde_json::from_value(value["metadata"].take())?, spec })
}
