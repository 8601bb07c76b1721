//! Source files to manifests: every mistake in the shape of every document at once.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::formats;
use super::shape::shape;
use super::tree::{self, MAX_MISTAKES, Node, Value, shorten};
use super::walk::walk;
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
            Some(root) => manifests.push(read(root, document.hurt, &mut found)),
        }
        empty = false;
        if found.len() > MAX_MISTAKES {
            found.truncate(MAX_MISTAKES);
            found.push(
                Diagnostic::error(codes::TOO_LARGE, format!("more than {MAX_MISTAKES} mistakes in one file"))
                    .at(Span { end: span.start, ..span }, "nothing more was looked at behind this"),
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

fn read(root: Node, hurt: bool, found: &mut Vec<Diagnostic>) -> Manifest {
    let before = found.len();
    let kind = head(&root, found);
    let name = name(&root);
    let Some(kind) = kind else {
        return Manifest { tree: root, kind: None, name, body: None };
    };
    let value = walk(&root, shape(kind), found);
    let clean = !hurt && !found[before..].iter().any(Diagnostic::is_error);
    let body = clean.then(|| decode(kind, value)).and_then(|decoded| match decoded {
        Ok(body) => Some(body),
        // The walk and the spec types disagree. That is a bug of ours, but no reason to lose the other mistakes.
        Err(error) => {
            found.push(Diagnostic::error(codes::WRONG_TYPE, error.to_string()).at(root.span, ""));
            None
        }
    });
    Manifest { tree: root, kind: Some(kind), name, body }
}

/// The object's name, if it has one. A name that is written wrongly may stand for any.
fn name(root: &Node) -> Option<String> {
    let text = root.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Node::as_str)?;
    formats::format("name").is_some_and(|format| (format.check)(text).is_ok()).then(|| text.into())
}

/// The kind, if the document says one that exists and a version that is read.
fn head(root: &Node, found: &mut Vec<Diagnostic>) -> Option<Kind> {
    let start = Span { end: root.span.start, ..root.span };
    let Value::Map(_) = &root.value else {
        if !matches!(root.value, Value::Broken) {
            found.push(
                Diagnostic::error(codes::WRONG_TYPE, "a document is a mapping")
                    .at(start, "this is not")
                    .hint("begin it with `apiVersion: tidewright.dev/v1alpha1`"),
            );
        }
        return None;
    };
    let word = |key: &str| {
        root.entry(key).map(|entry| match &entry.node {
            Node { value: Value::Broken, .. } => None,
            node => Some((node.as_str().unwrap_or(""), node.span)),
        })
    };
    let version_is_fine = match word("apiVersion") {
        // What is there has been reported.
        Some(None) => false,
        Some(Some((API_VERSION, _))) => true,
        Some(Some((other, span))) => {
            let other = shorten(other);
            let message = if other.starts_with(GROUP) {
                format!("this program reads {API_VERSION}, not `{other}`")
            } else {
                format!("`{other}` is not an apiVersion of Tidewright")
            };
            let hint =
                format!("write `apiVersion: {API_VERSION}`; documents for other programs belong in another directory");
            found.push(Diagnostic::error(codes::API_VERSION, message).at(span, "").hint(hint));
            false
        }
        None => {
            found.push(
                Diagnostic::error(codes::API_VERSION, "the document has no apiVersion")
                    .at(start, "")
                    .hint(format!("add `apiVersion: {API_VERSION}`")),
            );
            false
        }
    };
    let kinds = || Kind::ALL.iter().map(|kind| kind.name());
    match word("kind") {
        Some(None) => None,
        Some(Some((name, span))) => {
            let kind = Kind::ALL.iter().copied().find(|kind| kind.name() == name);
            if kind.is_none() && version_is_fine {
                let hint = match nearest(name, kinds()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the kinds are {}", kinds().collect::<Vec<_>>().join(", ")),
                };
                found.push(
                    Diagnostic::error(codes::KIND, format!("there is no kind `{}`", shorten(name)))
                        .at(span, "")
                        .hint(hint),
                );
            }
            kind.filter(|_| version_is_fine)
        }
        None => {
            if version_is_fine {
                let hint = format!("add `kind: …`, one of {}", kinds().collect::<Vec<_>>().join(", "));
                found.push(Diagnostic::error(codes::KIND, "the document has no kind").at(start, "").hint(hint));
            }
            None
        }
    }
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
