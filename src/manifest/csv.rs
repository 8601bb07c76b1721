//! Files that documents name: the declared fabric and own user data. The loader has read them; here they are found
//! and, for the fabric, understood.

use std::collections::BTreeMap;

use super::Step::Field;
use super::pool::NodePoolSpec;
use super::{Manifest, formats};
use crate::diag::{At, Diagnostic, Sources, Span, codes};
use crate::fleet::launch::Bootstrap;

/// A path as a document wrote it, from the directory of the document's file.
pub fn beside(sources: &Sources, file: u32, path: &str) -> String {
    let own = &sources.file(file).path;
    let mut parts: Vec<&str> = match own.rsplit_once('/') {
        Some((directory, _)) => directory.split('/').collect(),
        None => Vec::new(),
    };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn find(sources: &Sources, manifest: &Manifest, file: &At<&str>) -> Option<u32> {
    let path = beside(sources, manifest.tree.span.file, file.value);
    sources.iter().find(|(_, source)| *source.path == *path).map(|(index, _)| index)
}

fn missing(file: &At<&str>) -> Diagnostic {
    Diagnostic::error(codes::FILE_REFERENCE, format!("the file `{}` cannot be read", file.value))
        .at(file.at, "")
        .hint("write a path relative to this file, to a text file inside the repository")
}

/// The text of a pool's own user data.
pub fn user_data(
    sources: &Sources,
    manifest: &Manifest,
    spec: &NodePoolSpec,
    found: &mut Vec<Diagnostic>,
) -> Option<String> {
    let Some(Bootstrap::UserData(data)) = spec.launch.as_ref().map(|launch| &launch.bootstrap) else { return None };
    let path = [Field("launch"), Field("bootstrap"), Field("userData"), Field("file")];
    let file = At::new(data.file.as_str(), manifest.at(&path));
    let Some(index) = find(sources, manifest, &file) else {
        found.push(missing(&file));
        return None;
    };
    Some(sources.file(index).text.to_string())
}

/// Reads `node,<level>,<level>…` lines. Every mistake of the file is reported at its line.
pub fn fabric(
    sources: &Sources,
    manifest: &Manifest,
    file: &At<&str>,
    levels: &[&str],
    found: &mut Vec<Diagnostic>,
) -> Option<BTreeMap<String, Vec<String>>> {
    let Some(index) = find(sources, manifest, file) else {
        found.push(missing(file));
        return None;
    };
    let text = &sources.file(index).text;
    let before = found.len();
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut places: BTreeMap<String, Span> = BTreeMap::new();
    let mut start = 0usize;
    let mut head = true;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end().trim_start_matches('\u{feff}');
        let offset = start + (line.trim_end().len() - content.len());
        let span = Span { file: index, start: number(offset), end: number(offset + content.len()) };
        start += line.len();
        if content.trim().is_empty() || content.starts_with('#') {
            continue;
        }
        let cells: Vec<&str> = content.split(',').map(str::trim).collect();
        if std::mem::take(&mut head) {
            let expected: Vec<&str> = ["node"].into_iter().chain(levels.iter().copied()).collect();
            if cells != expected {
                let message = format!("the file does not begin with `{}`", expected.join(","));
                let said = Diagnostic::error(codes::FABRIC, message).at(span, "").at(file.at, "named here");
                found.push(said.hint("write `node` and the levels of `fabric.levels`, in their order"));
                return None;
            }
            continue;
        }
        if cells.len() != levels.len() + 1 || cells.iter().any(|cell| cell.is_empty()) {
            let message =
                format!("a line of the fabric has {} fields: a node and its place on each level", levels.len() + 1);
            let label = match cells.len() {
                length if length == levels.len() + 1 => "this one has an empty field".into(),
                1 => "this one has 1".into(),
                length => format!("this one has {length}"),
            };
            found.push(
                Diagnostic::error(codes::FABRIC, message)
                    .at(span, label)
                    .hint(format!("write a node in the form `node,{}`", levels.join(","))),
            );
        } else if let Some(place) = cells[1..].iter().find(|place| !formats::is_label_value(place)) {
            let message = format!("`{place}` is no place that a node can carry as a label");
            found.push(Diagnostic::error(codes::FABRIC, message).at(span, "on this line").hint(
                "write at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit",
            ));
        } else if let Some(first) = places.get(cells[0]).copied() {
            let message = format!("the node `{}` is in two places", cells[0]);
            let said = Diagnostic::error(codes::FABRIC, message).at(span, "the second").at(first, "the first");
            found.push(said.hint("keep one of the two"));
        } else {
            places.insert(cells[0].into(), span);
            nodes.insert(cells[0].into(), cells[1..].iter().map(|cell| (*cell).into()).collect());
        }
    }
    if nodes.is_empty() && found.len() == before {
        let message = format!("the file `{}` names no node", file.value);
        let hint = format!("begin it with `node,{}`, and add a line for each node", levels.join(","));
        found.push(Diagnostic::error(codes::FABRIC, message).at(file.at, "").hint(hint));
    }
    (found.len() == before).then_some(nodes)
}

fn number(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
