//! A fleet's documents as text, as a person has them in git: replaced, edited, removed.

use std::path::Path;

use jiff::Timestamp;

use super::Wrong;
use crate::diag::SourceFile;
use crate::fleet::{Fleet, Kind};
use crate::load::{self, Loaded};
use crate::manifest::API_VERSION;
use crate::render::diagnostics::human;

/// One text for each document, and the files beside them that they name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Documents(Vec<String>, Vec<(String, String)>);

/// The head of a fleet that has none of its own: room for everything that a small one does.
const HEAD: &str = "\
kind: Fleet
metadata: {name: demo}
spec:
  timeZone: UTC
  cloud: {sim: {}}
  kubernetes: {sim: {}}
  limits: {hourlyUsd: 10000, nodesRemovedPerHour: 4}
";

impl Documents {
    /// Documents in one text, apart by lines of `---`. Each begins with its kind; a head is added where there is none.
    pub fn new(text: &str) -> Self {
        let mut all = Self(Vec::new(), Vec::new());
        all.add(text);
        if !all.0.iter().any(|text| named(text).0 == Some(Kind::Fleet)) {
            all.0.insert(0, with_version(HEAD));
        }
        all
    }

    /// The YAML files of a fleet's directory, with what it includes.
    pub fn read(directory: &Path) -> Result<Self, Wrong> {
        let loaded = load::load(directory);
        if !loaded.diagnostics.is_empty() {
            return Err(Wrong::new(human(&loaded.sources, &loaded.diagnostics, false)));
        }
        let mut all = Self(Vec::new(), Vec::new());
        for (_, file) in loaded.sources.iter() {
            if file.path.ends_with(".yaml") || file.path.ends_with(".yml") {
                all.add(&file.text);
            } else if let Some(name) = file.path.rsplit('/').next() {
                all.1.push((name.into(), file.text.to_string()));
            }
        }
        Ok(all)
    }

    pub fn add(&mut self, text: &str) {
        let mut document = String::new();
        for line in text.lines().chain(["---"]) {
            if line.trim_end() != "---" {
                document.push_str(line);
                document.push('\n');
            } else if named(&document) != (None, None) {
                self.0.push(with_version(&std::mem::take(&mut document)));
            } else {
                document.clear();
            }
        }
    }

    /// Replaces a text that is there exactly once.
    pub fn edit(&mut self, from: &str, to: &str) -> Result<(), Wrong> {
        let found: usize = self.0.iter().map(|text| text.matches(from).count()).sum();
        match found {
            0 => Err(Wrong::new(format!("no document holds `{from}`"))),
            1 => {
                self.0.iter_mut().for_each(|text| *text = text.replacen(from, to, 1));
                Ok(())
            }
            many => Err(Wrong::new(format!("`{from}` is there {many} times")).hint("write more of the line")),
        }
    }

    pub fn remove(&mut self, kind: Kind, name: &str) -> Result<(), Wrong> {
        let before = self.0.len();
        self.0.retain(|text| named(text) != (Some(kind), Some(name.to_string())));
        if self.0.len() < before { Ok(()) } else { Err(format!("there is no {} {name}", kind.name()).into()) }
    }

    /// All of them, as one file.
    pub fn text(&self) -> String {
        self.0.join("---\n")
    }

    /// The same in other words, document by document.
    pub fn reworded(&self, word: impl Fn(&str) -> String) -> Self {
        Self(self.0.iter().map(|text| word(text)).collect(), self.1.clone())
    }

    /// The fleet that they describe, or all that is wrong with them.
    pub fn fleet(&self, now: Timestamp) -> Result<Fleet, Wrong> {
        let mut loaded = Loaded::default();
        load::add_bytes(&mut loaded, "fleet.yaml", self.text().as_bytes());
        for (name, text) in &self.1 {
            loaded.sources.add(SourceFile { path: name.as_str().into(), text: text.as_str().into(), revision: None });
        }
        let checked = loaded.check(now);
        checked.fleet.ok_or_else(|| {
            let wrong: Vec<_> = checked.diagnostics.iter().filter(|one| one.is_error()).cloned().collect();
            Wrong::new(format!("the documents are wrong\n{}", human(&checked.sources, &wrong, false)))
        })
    }
}

fn with_version(text: &str) -> String {
    let has = text.lines().any(|line| line.starts_with("apiVersion:"));
    if has { text.to_string() } else { format!("apiVersion: {API_VERSION}\n{text}") }
}

/// What a document says that it is.
fn named(text: &str) -> (Option<Kind>, Option<String>) {
    let mut loaded = Loaded::default();
    load::add_bytes(&mut loaded, "document.yaml", with_version(text).as_bytes());
    loaded.manifests.first().map_or((None, None), |manifest| (manifest.kind, manifest.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "kind: NodePool\nmetadata: {name: train}\nspec: {nodes: 2}\n";

    #[test]
    fn an_edit_must_match_exactly_once() {
        let mut all = Documents::new(&format!("{POOL}---\n{}", POOL.replace("train", "serve")));
        assert!(all.edit("nodes: 2", "nodes: 3").unwrap_err().what.contains("2 times"));
        assert!(all.edit("nodes: 9", "nodes: 3").unwrap_err().what.contains("no document"));
        all.edit("name: train}\nspec: {nodes: 2}", "name: train}\nspec: {nodes: 3}").unwrap();
        assert!(all.0.concat().contains("nodes: 3"));
    }

    #[test]
    fn a_document_is_removed_by_kind_and_name() {
        let mut all = Documents::new(POOL);
        assert_eq!(all.0.len(), 2, "a head is added");
        assert!(all.remove(Kind::NodePool, "other").is_err());
        all.remove(Kind::NodePool, "train").unwrap();
        assert_eq!(all.0.len(), 1);
    }
}
