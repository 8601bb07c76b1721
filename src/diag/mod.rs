//! What is wrong with what a person wrote, and where: collected, never thrown.
//!
//! A [`Diagnostic`] points at places in [`Sources`] by byte ranges; lines and columns are worked out when it is
//! rendered. Every rule has a [`Code`] with a story (`codes`). Not here: how a diagnostic looks (`render`).

pub mod codes;
pub mod explain;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use codes::Code;

use crate::ids::Revision;

/// Stands in front of some files and is no part of their text: editors do not show it, and no column counts it.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// One file as it was read.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// As a person would type it: relative to where the program was started.
    pub path: Arc<str>,
    pub text: Arc<str>,
    pub revision: Option<Revision>,
}

/// All files of one run. A [`Span`] is meaningful only together with the `Sources` it was made for.
#[derive(Clone, Default, Debug)]
pub struct Sources {
    files: Vec<SourceFile>,
}

/// A run of bytes in one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    pub file: u32,
    pub start: u32,
    pub end: u32,
}

/// A value and the place where it was written; for a default, the place where it could have been written.
/// Two are equal when their values are: moving a line changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct At<T> {
    pub value: T,
    pub at: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    Error,
    Warning,
}

/// One thing to tell about what was written. The first label is the place to blame, the others are what it
/// contradicts. A diagnostic without labels is about the run as a whole (an empty directory).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    pub severity: Severity,
    pub code: Code,
    pub message: String,
    pub labels: Vec<(Span, String)>,
    pub hint: Option<String>,
}

impl Sources {
    pub fn add(&mut self, file: SourceFile) -> u32 {
        self.files.push(file);
        u32::try_from(self.files.len() - 1).expect("the loader stops far below four billion files")
    }

    pub fn file(&self, index: u32) -> &SourceFile {
        &self.files[index as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &SourceFile)> {
        (0..).zip(&self.files)
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Line and column, both from 1; columns count characters, as editors do.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let text = &self.file(span.file).text;
        let before = &text[..text.floor_char_boundary(span.start as usize)];
        let before = before.strip_prefix(BYTE_ORDER_MARK).unwrap_or(before);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.bytes().filter(|b| *b == b'\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// `path:line:column`, for use inside a sentence.
    pub fn place(&self, span: Span) -> String {
        let (line, column) = self.line_column(span);
        format!("{}:{line}:{column}", self.file(span.file).path)
    }
}

impl<T> At<T> {
    pub fn new(value: T, at: Span) -> Self {
        Self { value, at }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), at: self.at }
    }
}

impl<T> std::ops::Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
impl<T: Eq> Eq for At<T> {}
impl<T: PartialOrd> PartialOrd for At<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}
impl<T: Ord> Ord for At<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}
impl<T: Hash> Hash for At<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl Diagnostic {
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, code, message: message.into(), labels: Vec::new(), hint: None }
    }

    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// The first call names the place to blame.
    pub fn at(mut self, span: Span, label: impl Into<String>) -> Self {
        self.labels.push((span, label.into()));
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The place to blame, if it has one.
    pub fn span(&self) -> Option<Span> {
        self.labels.first().map(|(span, _)| *span)
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Puts diagnostics in the order in which they are reported: by path, place, code. The order of loading does not show.
pub fn sort(sources: &Sources, diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by(|a, b| {
        let key = |d: &Diagnostic| d.span().map(|s| (sources.file(s.file).path.clone(), s.start, s.end));
        (key(a), a.severity, a.code, &a.message).cmp(&(key(b), b.severity, b.code, &b.message))
    });
}

/// The known word nearest to a misspelt one, if any is near enough to be what was meant. Ties go to the first in
/// alphabetical order, so that the order of files does not show.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let allowed = (word.chars().count().max(3) / 3).min(4);
    known
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.to_lowercase();
            let extends =
                word.len() >= 4 && other.len() >= 4 && (other.starts_with(&lower) || lower.starts_with(&other));
            // Words of very different length are never near, and the search would take time and memory for both.
            let apart = lower.chars().count().abs_diff(other.chars().count());
            let distance = if apart <= allowed { strsim::damerau_levenshtein(&lower, &other) } else { apart };
            (distance <= allowed || extends).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["guarantee", "borrow", "lend", "pool"];
        assert_eq!(nearest("guarante", known), Some("guarantee"));
        assert_eq!(nearest("Borow", known), Some("borrow"));
        assert_eq!(nearest("nodes", known), None);
    }

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let mut sources = Sources::default();
        let file = sources.add(SourceFile { path: "a.yaml".into(), text: "é: ü\r\nx: y".into(), revision: None });
        assert_eq!(sources.line_column(Span { file, start: 4, end: 6 }), (1, 4));
        assert_eq!(sources.place(Span { file, start: 11, end: 12 }), "a.yaml:2:4");
    }
}
