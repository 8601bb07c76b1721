//! Diagnostics for a person at a terminal, for programs (JSON), and for reviewers (GitHub annotations, SARIF).
//!
//! All formats show the diagnostics in the order given ([`crate::diag::sort`]) and agree on places: [`settle`]
//! decides once what a span covers. They never panic, whatever the span or the text.

mod github;
mod human;
mod json;
mod sarif;
mod story;

pub use github::github;
pub use human::human;
pub use json::{json, json_schema};
pub use sarif::sarif;
pub use story::render_story;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::diag::{BYTE_ORDER_MARK, Diagnostic, Sources, Span};

/// Where a label points: lines and columns from 1, columns in characters, the end exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Region {
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

/// Finds the regions of many spans with one pass over each file, where [`Sources::line_column`] takes one a span.
struct Places<'a> {
    sources: &'a Sources,
    line_starts: BTreeMap<u32, Vec<usize>>,
}

impl<'a> Places<'a> {
    fn new(sources: &'a Sources, diagnostics: &[Diagnostic]) -> Self {
        let mut line_starts = BTreeMap::new();
        for (span, _) in diagnostics.iter().flat_map(|diagnostic| &diagnostic.labels) {
            line_starts.entry(span.file).or_insert_with(|| {
                let text = &sources.file(span.file).text;
                std::iter::once(head(text)).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
            });
        }
        Self { sources, line_starts }
    }

    fn path(&self, span: Span) -> &'a str {
        &self.sources.file(span.file).path
    }

    fn text(&self, span: Span) -> &'a str {
        &self.sources.file(span.file).text
    }

    fn region(&self, span: Span) -> Region {
        let range = settle(self.text(span), span);
        let (line, column) = self.line_column(span, range.start);
        let (end_line, end_column) = self.line_column(span, range.end);
        Region { line, column, end_line, end_column }
    }

    /// `path:line:column`
    fn place(&self, span: Span) -> String {
        let Region { line, column, .. } = self.region(span);
        format!("{}:{line}:{column}", self.path(span))
    }

    /// The number, from 1, of the line that holds the byte `at`, and the byte it starts at.
    fn line_start(&self, span: Span, at: usize) -> (usize, usize) {
        let starts = &self.line_starts[&span.file];
        let line = starts.partition_point(|start| *start <= at);
        (line, starts[line - 1])
    }

    fn line_column(&self, span: Span, at: usize) -> (usize, usize) {
        let (line, start) = self.line_start(span, at);
        (line, self.text(span)[start..at].chars().count() + 1)
    }
}

/// The bytes that a label covers on the screen. It is inside the text and on character boundaries, it does not reach
/// over the white space behind a block, and it never stands on the line after the last, which editors and reviewers
/// do not have.
fn settle(text: &str, span: Span) -> Range<usize> {
    let start = text.floor_char_boundary(span.start as usize).max(head(text));
    let end = text.ceil_char_boundary(span.end as usize).max(start);
    if start == text.len() && text.ends_with('\n') {
        let end = text.trim_end_matches(['\n', '\r']).len();
        return end..end;
    }
    let covered = &text[start..end];
    let covered = if covered.contains('\n') { covered.trim_end() } else { covered };
    start..start + covered.len()
}

/// Where the first line starts: behind a byte order mark.
fn head(text: &str) -> usize {
    if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 }
}

fn count(diagnostics: &[Diagnostic]) -> (usize, usize) {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    (errors, diagnostics.len() - errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::{SourceFile, codes};

    pub(super) fn sources(files: &[(&str, &str)]) -> Sources {
        let mut sources = Sources::default();
        for (path, text) in files {
            sources.add(SourceFile { path: (*path).into(), text: (*text).into(), revision: None });
        }
        sources
    }

    /// In the first file.
    pub(super) fn at(start: u32, end: u32) -> Span {
        Span { file: 0, start, end }
    }

    /// Two files, and one diagnostic of each kind: with places in both files, in one, over several lines, and nowhere.
    pub(super) fn fleet() -> (Sources, Vec<Diagnostic>) {
        let pool = "kind: NodePool\nspec:\n  nodes: 16\n  spare: 1\n  labels:\n    a: b\n    c: d\n\n# end\n";
        let quota = "spec:\n  shares:\n    - {pool: train, guarantee: {gpus: 256}}\n";
        let sources = sources(&[("./fleet/pool, new.yaml", pool), ("fleet/quota.yaml", quota)]);
        let find = |file: u32, word: &str| {
            let start = sources.file(file).text.find(word).unwrap() as u32;
            Span { file, start, end: start + word.len() as u32 }
        };
        let diagnostics = vec![
            Diagnostic::error(codes::NOTHING_TO_READ, "100% of the directory is empty"),
            Diagnostic::error(codes::UNKNOWN_FIELD, "NodePool has no field `spare`")
                .at(find(0, "spare"), "unknown field")
                .hint("did you mean `spares`?"),
            Diagnostic::warning(codes::RESERVED_NAME, "these labels are taken").at(find(0, "a: b\n    c: d\n\n"), ""),
            Diagnostic::error(codes::OVER_CAPACITY, "256 GPUs are guaranteed, the pool holds 128")
                .at(find(1, "256"), "guaranteed here")
                .at(find(0, "16"), "16 nodes of 8 GPUs")
                .at(find(1, "train"), "this pool")
                .hint("lower the guarantee,\nor make the pool larger"),
        ];
        (sources, diagnostics)
    }

    #[test]
    fn a_region_leaves_out_the_space_behind_a_block() {
        let sources = sources(&[("a.yaml", "a:\n  b: é\n\nc: d\n")]);
        let diagnostic = Diagnostic::error(codes::SYNTAX, "").at(at(5, 12), "");
        let places = Places::new(&sources, std::slice::from_ref(&diagnostic));
        assert_eq!(places.region(at(5, 12)), Region { line: 2, column: 3, end_line: 2, end_column: 7 });
        assert_eq!(places.region(at(2, 9)), Region { line: 1, column: 3, end_line: 2, end_column: 7 });
        assert_eq!(places.place(at(99, 99)), "a.yaml:4:5");
    }

    /// Every pair of spans, beyond the end and inside of characters too, in texts that have everything.
    #[test]
    fn no_span_makes_a_format_panic() {
        let texts = ["", "\n", "\r\n", "\u{feff}a: é\r\n\t名: 🦀\n\n", "a\rb\u{2028}c\u{85}d\u{200d}\0", "  \n \t"];
        for text in texts {
            let sources = sources(&[("a.yaml", text), ("b.yaml", "x: y\n")]);
            let ends: Vec<u32> = (0..=text.len() as u32 + 2).chain([u32::MAX]).collect();
            for (start, end) in ends.iter().flat_map(|start| ends.iter().map(move |end| (*start, *end))) {
                let diagnostic = Diagnostic::error(codes::SYNTAX, "m\nn")
                    .at(at(start, end), "one\ntwo")
                    .at(at(end, start), "")
                    .at(Span { file: 1, start, end }, "three");
                let all = [diagnostic];
                let out = [human(&sources, &all, false), human(&sources, &all, true), github(&sources, &all)];
                assert!(out.iter().all(|text| text.contains("TW004")));
                let values = [json(&sources, &all), sarif(&sources, &all)];
                assert!(values.iter().all(|text| serde_json::from_str::<serde_json::Value>(text).is_ok()));
            }
        }
    }
}
